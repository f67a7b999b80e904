//! Functions that tell about objects of the catalogue: definitions, names, comments, visibility.
//!
//! A number that no object has gives NULL, as in PostgreSQL, so that a tool that looks while
//! another session drops something is not disturbed.

use super::definitions::Definitions;
use super::host::HostCall;
use crate::catalog::DATABASE;
use crate::catalog::{
    Body, Names, OWNER, Object, Oid, PUBLIC, catalogue_of, domain_check, is_typed,
};
use crate::error::{Result, SqlError, SqlState};
use crate::types::Kind::{self, Regclass};
use crate::types::array::Array;
use crate::types::function::Volatility;
use crate::types::{Context, Datum, Type};
use sql_bind::{Binder, quoted, system};
use sql_parse::LineIndex;
use std::sync::Arc;

/// The places of encodings in PostgreSQL's list that can be asked for.
const UTF8: i32 = 6;
const SQL_ASCII: i32 = 0;

/// The bit of `pg_relation_is_updatable` for rows that are updated.
const UPDATED: i32 = 1 << 2;

impl HostCall<'_> {
    /// The result of a function of this module; none if it is another one.
    pub(super) fn describe(
        &self,
        context: &Context<'_>,
        function: &str,
        arguments: &[Datum],
    ) -> Result<Option<Datum>> {
        let pretty = matches!(arguments.last(), Some(Datum::Bool(true)));
        let texts = self.definitions(context, pretty);
        let first = arguments.first().unwrap_or(&Datum::Null);
        Ok(Some(match function {
            "format_type" => self.type_name(arguments)?,
            "oidvectortypes" => {
                let Datum::Array(types) = first else {
                    return Ok(None);
                };
                let named = types.elements.iter().map(|oid| {
                    let name = self.type_name(&[oid.clone(), Datum::Null])?;
                    Ok(name.str()?.to_owned())
                });
                Datum::text(named.collect::<Result<Vec<_>>>()?.join(", "))
            }
            "pg_get_expr" => match (first, number(&arguments[1])) {
                (Datum::Text(text), Some(relation)) => Datum::text(texts.reprinted(text, relation)),
                _ => Datum::Null,
            },
            "pg_get_constraintdef" => optional(number(first).and_then(|oid| texts.constraint(oid))),
            "pg_get_indexdef" => {
                let column = match arguments.get(1) {
                    Some(column) => usize::try_from(column.int()?).unwrap_or(0),
                    None => 0,
                };
                optional(number(first).and_then(|oid| texts.index(oid, column)))
            }
            "pg_get_viewdef" => {
                let oid = match first {
                    Datum::Text(name) => Some(context.names.object_oid(Regclass, name)?),
                    oid => number(oid),
                };
                // A width of lines asks for the pretty form.
                let is_wrapped = matches!(arguments.get(1), Some(Datum::Int4(_)));
                let texts = self.definitions(context, pretty || is_wrapped);
                optional(oid.and_then(|oid| texts.view(oid)))
            }
            "pg_get_function_arg_default" => {
                optional(self.default_of_argument(&texts, number(first), arguments[1].int()?))
            }
            _ => return self.describe_object(context, function, arguments),
        }))
    }

    /// The encoding of the client or of the database.
    fn encoding(&self, function: &str) -> Datum {
        let setting = match function {
            "getdatabaseencoding" => "server_encoding",
            _ => "client_encoding",
        };
        Datum::text(self.session.variables.get(setting).unwrap_or("UTF8"))
    }

    /// As [`HostCall::describe`]: names, comments and visibility.
    fn describe_object(
        &self,
        context: &Context<'_>,
        function: &str,
        arguments: &[Datum],
    ) -> Result<Option<Datum>> {
        let first = arguments.first().unwrap_or(&Datum::Null);
        Ok(Some(match function {
            "pg_get_partkeydef" | "pg_get_functiondef" => {
                optional(self.definition_text(context, number(first)))
            }
            "pg_get_function_arguments" | "pg_get_function_identity_arguments" => optional(
                self.signature(context, first, !function.contains("identity"))
                    .map(|(arguments, _)| arguments),
            ),
            "pg_get_function_result" => optional(
                self.signature(context, first, false)
                    .map(|(_, result)| result),
            ),
            "pg_get_serial_sequence" => self.serial_sequence(context, arguments)?,
            "pg_table_is_visible" | "pg_type_is_visible" => self.is_visible(first),
            "pg_function_is_visible" => {
                let known = number(first).and_then(system::routine);
                known.map_or_else(|| self.is_visible(first), |_| Datum::Bool(true))
            }
            // There are none of these but those of the system.
            "pg_operator_is_visible"
            | "pg_opclass_is_visible"
            | "pg_opfamily_is_visible"
            | "pg_collation_is_visible" => Datum::Bool(true),
            "obj_description" | "shobj_description" => {
                let described = number(first).filter(|oid| self.is_in(*oid, arguments.get(1)));
                optional(described.and_then(|oid| self.comment(oid, 0)))
            }
            "col_description" => {
                let part = usize::try_from(arguments[1].int()?).unwrap_or(0);
                optional(number(first).and_then(|oid| self.comment(oid, part)))
            }
            "to_regclass" | "to_regtype" | "to_regproc" | "to_regprocedure" | "to_regoper"
            | "to_regnamespace" | "to_regrole" => {
                let name = function.strip_prefix("to_").and_then(Kind::from_name);
                self.known_oid(context, name.unwrap_or(Regclass), first)?
            }
            _ => return self.describe_relation(context, function, arguments),
        }))
    }

    /// As [`HostCall::describe`]: what can be done with relations and indexes, and facts about the
    /// database.
    fn describe_relation(
        &self,
        context: &Context<'_>,
        function: &str,
        arguments: &[Datum],
    ) -> Result<Option<Datum>> {
        let first = arguments.first().unwrap_or(&Datum::Null);
        Ok(Some(match function {
            "pg_relation_is_publishable" => Datum::Bool(self.table_of(first).is_some()),
            "pg_relation_filenode" => match self.table_of(first) {
                Some(object) => Datum::Oid(object.oid),
                None => Datum::Null,
            },
            "pg_relation_is_updatable" => Datum::Int4(self.changes(context, first, None)),
            "pg_column_is_updatable" => {
                let column = usize::try_from(arguments[1].int()?).unwrap_or(0);
                let changes = self.changes(context, first, Some(column));
                Datum::Bool(column > 0 && changes & UPDATED != 0)
            }
            "pg_index_column_has_property"
            | "pg_index_has_property"
            | "pg_indexam_has_property" => {
                system::index_property(&self.names.catalog, function, arguments)?
            }
            "pg_options_to_table" => options(first)?,
            "pg_describe_object" => self.object_text(arguments)?,
            "_pg_expandarray" => expanded(first)?,
            "acldefault" | "aclexplode" => return self.access_list(function, arguments).map(Some),
            "pg_encoding_to_char" => Datum::text(match first.int()? {
                number if number == i64::from(UTF8) => "UTF8",
                number if number == i64::from(SQL_ASCII) => "SQL_ASCII",
                _ => "",
            }),
            "pg_char_to_encoding" => Datum::Int4(
                match first.str()?.to_uppercase().replace('-', "").as_str() {
                    "UTF8" | "UNICODE" => UTF8,
                    "SQL_ASCII" => SQL_ASCII,
                    _ => -1,
                },
            ),
            "pg_client_encoding" | "getdatabaseencoding" => self.encoding(function),
            "pg_tablespace_location" => Datum::text(""),
            "pg_tablespace_databases" => rows(Kind::Oid, vec![Datum::Oid(DATABASE)]),
            "pg_my_temp_schema" => Datum::Oid(self.names.temporary.unwrap_or(0)),
            "pg_is_other_temp_schema" => Datum::Bool(false),
            "pg_collation_for" => Datum::text("\"default\""),
            _ => {
                let found = self.partitions(context, function, arguments);
                return Ok(found.or_else(|| self.describe_absent(function)));
            }
        }))
    }

    /// The keys of a partitioned table, or the statement that creates a function of a user.
    fn definition_text(&self, context: &Context<'_>, oid: Option<Oid>) -> Option<String> {
        let object = self.names.catalog.object(oid?)?;
        match &object.body {
            Body::Table(table) => table.lineage.scheme.as_ref().map(ToString::to_string),
            _ => self.function_text(context, object),
        }
    }

    /// The default of an argument from 1 of a function of a user.
    fn default_of_argument(
        &self,
        texts: &Definitions<'_>,
        oid: Option<Oid>,
        place: i64,
    ) -> Option<String> {
        let Body::Function(body) = &self.names.catalog.object(oid?)?.body else {
            return None;
        };
        let at = usize::try_from(place - 1).ok()?;
        let (_, data_type) = body.arguments.get(at)?;
        let default = body.default_of(at);
        default.map(|default| texts.value(default, *data_type))
    }

    /// The arguments and the result of a function.
    fn signature(
        &self,
        context: &Context<'_>,
        oid: &Datum,
        with_defaults: bool,
    ) -> Option<(String, String)> {
        let oid = number(oid)?;
        match system::routine(oid) {
            Some(routine) => Some((routine.arguments_text(), routine.result_text())),
            None => self.user_function(context, oid, with_defaults),
        }
    }

    /// The arguments and the result of a function of a user.
    fn user_function(
        &self,
        context: &Context<'_>,
        oid: Oid,
        with_defaults: bool,
    ) -> Option<(String, String)> {
        let Body::Function(body) = &self.names.catalog.object(oid)?.body else {
            return None;
        };
        let type_text = |data_type: Type, domain: Option<Oid>| {
            let of_domain = domain.and_then(|oid| context.names.object_name(Kind::Regtype, oid));
            let of_user = of_domain.or_else(|| context.names.type_name(data_type.kind));
            of_user.unwrap_or_else(|| data_type.kind.name())
        };
        let texts = self.definitions(context, false);
        let argument = |(at, (name, data_type)): (usize, &(Option<String>, Type))| {
            let text = type_text(*data_type, body.argument_domain(at));
            let named = match name {
                Some(name) => format!("{} {text}", quoted(name)),
                None => text,
            };
            match body.default_of(at).filter(|_| with_defaults) {
                Some(default) => {
                    let default = texts.value(default, *data_type);
                    format!("{named} DEFAULT {default}")
                }
                None => named,
            }
        };
        let arguments = body.arguments.iter().enumerate().map(argument);
        let set = if body.returns_set { "SETOF " } else { "" };
        let mut result = format!("{set}{}", type_text(body.result, body.result_domain(0)));
        if !body.columns.is_empty() {
            let columns = body.columns.iter().enumerate();
            let columns = columns.map(|(at, (name, data_type))| {
                let text = type_text(*data_type, body.result_domain(at));
                format!("{} {text}", quoted(name))
            });
            result = format!("TABLE({})", columns.collect::<Vec<_>>().join(", "));
        }
        Some((arguments.collect::<Vec<_>>().join(", "), result))
    }

    /// The statement that creates a function of a user.
    fn function_text(&self, context: &Context<'_>, object: &Object) -> Option<String> {
        let Body::Function(body) = &object.body else {
            return None;
        };
        let (arguments, result) = self.user_function(context, object.oid, true)?;
        let schema = self.names.catalog.object(object.namespace)?;
        let mut words = String::new();
        match body.volatility {
            Volatility::Immutable => words.push_str(" IMMUTABLE"),
            Volatility::Stable => words.push_str(" STABLE"),
            Volatility::Volatile => {}
        }
        if body.is_strict {
            words.push_str(" STRICT");
        }
        let words = if words.is_empty() {
            words
        } else {
            format!("{words}\n")
        };
        Some(format!(
            "CREATE OR REPLACE FUNCTION {}.{}({arguments})\n RETURNS {result}\n LANGUAGE sql\n{words}AS $function${}$function$\n",
            quoted(&schema.name),
            quoted(&object.name),
            body.query
        ))
    }

    /// Functions about kinds of objects that do not exist here: there are no rows, and no texts.
    fn describe_absent(&self, function: &str) -> Option<Datum> {
        Some(match function {
            "pg_get_ruledef"
            | "pg_get_triggerdef"
            | "pg_get_statisticsobjdef"
            | "pg_get_statisticsobjdef_columns"
            | "pg_get_statisticsobjdef_expressions"
            | "pg_get_function_sqlbody"
            | "pg_conversion_is_visible"
            | "pg_statistics_obj_is_visible"
            | "pg_ts_config_is_visible"
            | "pg_ts_dict_is_visible"
            | "pg_ts_parser_is_visible"
            | "pg_ts_template_is_visible" => Datum::Null,
            _ => return None,
        })
    }

    /// The changes of a relation, or of a column, that statements can make.
    fn changes(&self, context: &Context<'_>, oid: &Datum, column: Option<usize>) -> i32 {
        let mut names = self.names.clone();
        (names.role, names.has_all_rights) = (OWNER, true);
        let (database, places) = (self.session.sql.database(), LineIndex::new(""));
        let mut binder = Binder::new(&names, database, *context, &places);
        number(oid).map_or(0, |oid| binder.changes(oid, column))
    }

    /// Texts of definitions.
    pub(super) fn definitions<'d>(
        &'d self,
        context: &Context<'d>,
        pretty: bool,
    ) -> Definitions<'d> {
        Definitions {
            names: self.names,
            database: self.session.sql.database(),
            context: *context,
            pretty,
        }
    }

    fn type_name(&self, arguments: &[Datum]) -> Result<Datum> {
        let Some(oid) = number(&arguments[0]) else {
            return Ok(Datum::Null);
        };
        let modifier = match &arguments[1] {
            Datum::Null => None,
            modifier => Some(modifier.int4()?),
        };
        if oid == 0 {
            return Ok(Datum::text("-"));
        }
        let built_in = Kind::from_oid(oid).map(|kind| match (kind, modifier) {
            // Without a modifier at all, the type is meant, and not one without a length.
            (Kind::Bpchar, None) => "character".to_owned(),
            (Kind::Array(Kind::Bpchar), None) => "character[]".to_owned(),
            _ => {
                let modifier = modifier.unwrap_or(-1);
                Type { kind, modifier }.to_string()
            }
        });
        let name = built_in.or_else(|| self.names.type_text(oid));
        Ok(Datum::text(name.unwrap_or_else(|| "???".to_owned())))
    }

    /// Whether an object is found without its schema.
    fn is_visible(&self, oid: &Datum) -> Datum {
        let Some(oid) = number(oid) else {
            return Datum::Null;
        };
        if let Some(relation) = system::by_oid(oid) {
            return Datum::Bool(relation.is_visible());
        }
        if Kind::from_oid(oid).is_some() {
            return Datum::Bool(true);
        }
        if is_typed(oid) {
            return Datum::Bool(self.names.schemas().any(|schema| schema == PUBLIC));
        }
        let catalog = &self.names.catalog;
        let (object, name) = match (catalog.object(oid), catalog.index(oid)) {
            (Some(object), _) => (object, object.name.as_str()),
            (None, Some((table, index))) => (table, index.name.as_str()),
            // The number after an enum's is that of its arrays.
            (None, None) => match catalog.object(oid.wrapping_sub(1)) {
                Some(object) if matches!(object.body, Body::Enum(_)) => {
                    (object, object.name.as_str())
                }
                _ => return Datum::Null,
            },
        };
        if let Body::Function(body) = &object.body {
            let found = self.names.find(Names::Functions, None, &body.key(name));
            return Datum::Bool(found.is_some_and(|found| found.oid == object.oid));
        }
        let group = match object.body {
            Body::Enum(_) | Body::Domain(_) | Body::Composite(_) => Names::Types,
            _ => Names::Relations,
        };
        let mut schemas = self.names.schemas();
        let first = schemas.find(|schema| catalog.find_oid(group, *schema, name).is_some());
        Datum::Bool(first == Some(object.namespace))
    }

    /// Whether an object is a row of the catalogue with a name, if one is given.
    fn is_in(&self, oid: Oid, name: Option<&Datum>) -> bool {
        let (Some(Datum::Text(name)), Some(object)) = (name, self.names.catalog.object(oid)) else {
            return true;
        };
        let relation = system::find(Some("pg_catalog"), name);
        relation.is_some_and(|relation| relation.oid == catalogue_of(object))
    }

    /// The comment on an object, or on a column of one.
    fn comment(&self, oid: Oid, part: usize) -> Option<String> {
        let catalog = &self.names.catalog;
        let Some(object) = catalog.object(oid) else {
            if part > 0 {
                return None;
            }
            if oid == DATABASE {
                return catalog.database_comment().map(str::to_owned);
            }
            let of_index = catalog.index(oid).map(|(table, _)| table);
            let of_constraint = || catalog.constraint(oid).map(|(table, _)| table);
            return match of_index.or_else(of_constraint).map(|table| &table.body) {
                Some(Body::Table(table)) => table.comment_on(oid).map(str::to_owned),
                _ => {
                    let (domain, at) = domain_check(catalog, oid)?;
                    domain.body.part_comment(at).map(str::to_owned)
                }
            };
        };
        match part.checked_sub(1) {
            None => object.comment.clone(),
            Some(at) => object.body.column_comment(at).map(str::to_owned),
        }
    }

    /// The number of the object that a text names, or NULL.
    fn known_oid(&self, context: &Context<'_>, kind: Kind, name: &Datum) -> Result<Datum> {
        match context.names.object_oid(kind, name.str()?) {
            Ok(oid) => Ok(Datum::Oid(oid)),
            Err(error) if error.state == SqlState::INVALID_NAME => Err(error),
            Err(_) => Ok(Datum::Null),
        }
    }

    /// The table with a number.
    pub(super) fn table_of(&self, oid: &Datum) -> Option<&Arc<Object>> {
        let object = self.names.catalog.object(number(oid)?)?;
        matches!(object.body, Body::Table(_)).then_some(object)
    }

    /// The sequence that goes with a column, or NULL.
    fn serial_sequence(&self, context: &Context<'_>, arguments: &[Datum]) -> Result<Datum> {
        let (table, column) = (arguments[0].str()?, arguments[1].str()?);
        let oid = context.names.object_oid(Regclass, table)?;
        let object = self.names.catalog.object(oid);
        let place = match object.map(|object| &object.body) {
            Some(Body::Table(body)) => body.column(column),
            Some(Body::View(view)) => view.columns.iter().position(|(name, _)| name == column),
            _ => system::by_oid(oid)
                .and_then(|known| known.columns.iter().position(|own| own.name == column)),
        };
        let place = place.ok_or_else(|| {
            let table = sql_bind::parts_of(table).pop().unwrap_or_default();
            let message = format!("column \"{column}\" of relation \"{table}\" does not exist");
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })?;
        let owned = self.names.catalog.objects().find(|object| {
            matches!(&object.body, Body::Sequence(sequence) if sequence.owner == Some((oid, place)))
        });
        Ok(owned.map_or(Datum::Null, |object| {
            let schema = self.names.catalog.object(object.namespace);
            let schema = schema.map_or("public", |schema| &schema.name);
            Datum::text(format!("{}.{}", quoted(schema), quoted(&object.name)))
        }))
    }

    /// An object, in words.
    fn object_text(&self, arguments: &[Datum]) -> Result<Datum> {
        let (Some(oid), part) = (number(&arguments[1]), arguments[2].int()?) else {
            return Ok(Datum::Null);
        };
        let Some(object) = self.names.catalog.object(oid) else {
            return Ok(Datum::Null);
        };
        let named = format!("{} {}", object.kind_name(), self.names.visible_name(object));
        let column = match &object.body {
            Body::Table(table) => usize::try_from(part - 1)
                .ok()
                .and_then(|at| table.columns.get(at)),
            _ => None,
        };
        Ok(Datum::text(match column {
            Some(column) => format!("column {} of {named}", quoted(&column.name)),
            None => named,
        }))
    }
}

/// A number of the catalogue.
pub(super) fn number(value: &Datum) -> Option<Oid> {
    match value {
        Datum::Oid(oid) => Some(*oid),
        _ => None,
    }
}

fn optional(text: Option<String>) -> Datum {
    text.map_or(Datum::Null, Datum::text)
}

/// The rows of a function that gives a set.
pub(super) fn rows(kind: Kind, values: Vec<Datum>) -> Datum {
    Datum::Array(Arc::new(Array::new(kind, values)))
}

/// A row of a function that gives a set of several columns.
pub(super) fn record(fields: Vec<Datum>) -> Datum {
    Datum::Record(Arc::new(crate::types::datum::Record {
        shape: Arc::default(),
        fields,
    }))
}

/// The names and values of options.
fn options(options: &Datum) -> Result<Datum> {
    let options = options.array()?.elements.iter();
    let pairs = options.map(|option| {
        let (name, value) = match option.str()?.split_once('=') {
            Some((name, value)) => (name, Datum::text(value)),
            None => (option.str()?, Datum::Null),
        };
        Ok(record(vec![Datum::text(name), value]))
    });
    Ok(rows(Kind::Record, pairs.collect::<Result<_>>()?))
}

/// The elements of an array with their places from 1.
fn expanded(array: &Datum) -> Result<Datum> {
    let elements = (1..).zip(&array.array()?.elements);
    let elements = elements.map(|(at, element)| record(vec![element.clone(), Datum::Int4(at)]));
    Ok(rows(Kind::Record, elements.collect()))
}
