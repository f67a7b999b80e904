//! `CREATE INDEX`.
//!
//! The index below is built at once, over all rows that have committed; it is dropped again if the
//! transaction does not commit. Keys that are expressions, and keys of a part of the rows, are
//! columns that the table keeps for the index and shows to nobody.

use super::alter::table_body;
use super::column::{deferral_of, without_collation};
use super::immutable::Mutable;
use crate::catalog::{
    Body, Column, Constraint, Deferral, Hidden, Index, IndexForm, Object, Oid, Rule, TableBody,
};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::sink::Completion;
use crate::state::{Loose, distinct_names, quoted};
use crate::types::{Kind, Type, storage};
use indelible::{TableDef, TableLock, Uniqueness};
use sql_bind::{Binder, row_scope};
use sql_parse::{Copied, LineIndex, ONLY, ident_text, mark_of, object_name};
use sqlparser::ast::{
    ConstraintUsingIndex, CreateIndex, Expr, Ident, IndexType, ObjectName, ObjectNamePart,
    OrderBySort, Statement,
};

/// Creates an index over the rows that are there.
pub(super) fn create(session: &mut Session, create: &CreateIndex) -> Result<Completion> {
    create_from(session, create, false)
}

/// Creates an index, whose texts may be copies of those of another one.
fn create_from(session: &mut Session, create: &CreateIndex, is_copy: bool) -> Result<Completion> {
    refuse(create)?;
    if create.concurrently && session.transaction.is_block() {
        let message = "CREATE INDEX CONCURRENTLY cannot run inside a transaction block";
        return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
    }
    session.begin_definition()?;
    let completion = Completion::new("CREATE INDEX");
    let mut name = create.table_name.clone();
    let is_only = matches!(name.0.first(),
        Some(ObjectNamePart::Identifier(first)) if mark_of(first) == Some(ONLY));
    if is_only {
        name.0.remove(0);
    }
    let object = session.relation_named(&name)?;
    let Body::Table(body) = &object.body else {
        let message = format!("cannot create index on relation \"{}\"", object.name);
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    };
    let keys = session.index_keys(create, &object)?;
    session.check_written_index((create, is_copy), &keys, (&object.name, &body.columns))?;
    if create.unique {
        let columns = keys.iter().filter_map(|key| match key {
            IndexKey::Column(at, _) => Some(*at),
            IndexKey::Expression(..) => None,
        });
        session.check_partition_key(body, ("UNIQUE", &columns.collect::<Vec<_>>()))?;
    }
    let mut labels: Vec<String> = keys.iter().map(IndexKey::label).collect();
    labels.extend(create.include.iter().map(ident_text));
    let included = create.include.iter();
    let included = included.map(|name| column_of(body, &ident_text(name)));
    let included: Vec<usize> = included.collect::<Result<_>>()?;
    let labels = distinct_names(labels);
    let Some(name) = session.index_name(create, &object, &labels)? else {
        return Ok(completion);
    };
    let oid = session.sql.next_oid(1);
    let index = Index {
        oid,
        physical: Some(name.clone()),
        name,
        columns: Vec::new(),
        is_unique: create.unique,
        options: orders(create),
    };
    // Values of some types need another column, so the rows are written anew.
    let mut is_plain = keys
        .iter()
        .all(|key| matches!(key, IndexKey::Column(at, _) if !body.loses_form(*at)));
    let mut object = Object::clone(&object);
    if has_nulls_alike(create, &keys)? {
        is_plain = false;
        table_body(&mut object)?.alike.push(oid);
    }
    match &create.predicate {
        None if is_plain => session.build_index(&object, body, index, &keys)?,
        predicate => session.build_hidden(&object, index, &keys, predicate.as_ref())?,
    }
    session.keep_included(object.oid, oid, included)?;
    if body.lineage.scheme.is_some() && !is_only {
        create_below(session, create, (object.oid, oid))?;
    }
    Ok(completion)
}

/// For each key whether it is to descend, and to have its NULLs first.
fn orders(create: &CreateIndex) -> Vec<(bool, bool)> {
    let orders = create.columns.iter().map(|column| {
        let options = &column.column.options;
        let descends = matches!(options.sort, Some(OrderBySort::Desc));
        (descends, options.nulls_first.unwrap_or(descends))
    });
    orders.collect()
}

/// Whether a NULL is to be like another.
fn has_nulls_alike(create: &CreateIndex, keys: &[IndexKey]) -> Result<bool> {
    if !create.unique || create.nulls_distinct != Some(false) {
        return Ok(false);
    }
    let is_column = |key: &IndexKey| matches!(key, IndexKey::Column(..));
    if create.predicate.is_none() && keys.iter().all(is_column) {
        return Ok(true);
    }
    let found = "NULLS NOT DISTINCT of expressions, or of a part of the rows";
    Err(SqlError::unsupported(found, "Use columns."))
}

/// Creates the index of each table that inherits from one, and has none like it.
fn create_below(
    session: &mut Session,
    create: &CreateIndex,
    (above, index): (Oid, Oid),
) -> Result<()> {
    for heir in session.catalog().heirs(above) {
        if session.has_index_below(heir, (above, index))? {
            continue;
        }
        let table_name = session.path_of(&session.altered(heir)?);
        let heirs = CreateIndex {
            name: None,
            table_name,
            ..create.copied()
        };
        create_from(session, &heirs, true)?;
    }
    Ok(())
}

/// Creates indexes of expressions and of parts of the rows, from the texts of their keys.
pub(super) fn create_forms(
    session: &mut Session,
    oid: Oid,
    forms: &[(bool, String)],
) -> Result<()> {
    for (is_unique, rest) in forms {
        let path = session.path_of(&session.altered(oid)?);
        let unique = if *is_unique { "UNIQUE " } else { "" };
        let parsed = sql_parse::parse_stored(&format!("CREATE {unique}INDEX ON {path} {rest}"))?;
        if let Some(Statement::CreateIndex(index)) = parsed.first().map(|parsed| &*parsed.statement)
        {
            create_from(session, index, true)?;
        }
    }
    Ok(())
}

impl Session {
    /// Notes the columns of INCLUDE of a new index.
    fn keep_included(&mut self, table: Oid, index: Oid, columns: Vec<usize>) -> Result<()> {
        if columns.is_empty() {
            return Ok(());
        }
        let mut object = self.altered(table)?;
        if let Body::Table(body) = &mut object.body {
            body.included.push((index, columns));
        }
        self.put(object, None)
    }

    /// Whether a partition has an index that belongs to one of its table, and to no other of it.
    fn has_index_below(&self, heir: Oid, (above, index): (Oid, Oid)) -> Result<bool> {
        let (heir, above) = (self.altered(heir)?, self.altered(above)?);
        let (Body::Table(heir), Body::Table(above)) = (&heir.body, &above.body) else {
            return Ok(false);
        };
        let mut indexes = above.indexes.iter();
        let new = indexes.find(|one| one.oid == index);
        let found = new.and_then(|new| heir.index_below((above, new)));
        let of_others = above.indexes.iter().filter(|one| one.oid != index);
        let mut of_others = of_others.map(|one| heir.index_below((above, one)));
        Ok(found.is_some() && of_others.all(|other| other != found))
    }

    /// The name of an object with its schema.
    fn path_of(&self, object: &Object) -> ObjectName {
        let schema = self.catalog().object(object.namespace);
        let schema = schema.map_or("public", |schema| &schema.name);
        let parts = [schema, &object.name].map(|part| Ident::with_quote('"', part));
        ObjectName::from(parts.to_vec())
    }
}

/// A key of an index: a column with its name, or an expression with its text and type.
enum IndexKey {
    Column(usize, String),
    Expression(String, Type, String),
}

impl IndexKey {
    /// Its part of a name for the index.
    fn label(&self) -> String {
        match self {
            Self::Column(_, name) | Self::Expression(.., name) => name.clone(),
        }
    }

    /// Its text in a definition.
    fn text(&self) -> String {
        match self {
            Self::Column(_, name) => quoted(name),
            Self::Expression(text, ..) => text.clone(),
        }
    }
}

impl Session {
    /// The keys of a new index.
    fn index_keys(&self, create: &CreateIndex, object: &Object) -> Result<Vec<IndexKey>> {
        let Body::Table(body) = &object.body else {
            return Ok(Vec::new());
        };
        let mut keys: Vec<IndexKey> = Vec::with_capacity(create.columns.len());
        for column in &create.columns {
            let mut tree = without_collation(&column.column.expr);
            while let Expr::Nested(inner) = tree {
                tree = without_collation(inner);
            }
            if let Expr::Identifier(name) = tree {
                let name = ident_text(name);
                let at = column_of(body, &name)?;
                check_ordered(body.columns[at].data_type.kind)?;
                // A key that is there twice adds nothing.
                let is_known =
                    |key: &IndexKey| matches!(key, IndexKey::Column(own, _) if *own == at);
                if !keys.iter().any(is_known) {
                    keys.push(IndexKey::Column(at, name));
                }
                continue;
            }
            let text = self.kept_text(tree, "index expression")?;
            let data_type = self.index_expression(&text, object, body)?;
            check_ordered(data_type.kind)?;
            let label = match tree {
                Expr::Function(function) => object_name(&function.name)?.1,
                _ => "expr".to_owned(),
            };
            keys.push(IndexKey::Expression(text, data_type, label));
        }
        Ok(keys)
    }

    /// Fails if expressions of a new index have what earlier builds have taken, and this one does
    /// not.
    fn check_written_index(
        &self,
        (create, is_copy): (&CreateIndex, bool),
        keys: &[IndexKey],
        table: (&str, &[Column]),
    ) -> Result<()> {
        if is_copy {
            return Ok(());
        }
        let texts = keys.iter().filter_map(|key| match key {
            IndexKey::Expression(text, ..) => Some((text.clone(), "index expression")),
            IndexKey::Column(..) => None,
        });
        let predicate = create.predicate.as_ref().map(|tree| {
            let place = "index predicate";
            self.kept_text(tree, place).map(|text| (text, place))
        });
        let mut texts = texts.chain(predicate.transpose()?);
        texts.try_for_each(|(text, place)| {
            self.check_text(&text, table, None, false)?;
            self.refuse_mutable(&text, table, &Mutable::Functions(place))
        })
    }

    /// The type of an expression of an index.
    fn index_expression(&self, text: &str, object: &Object, body: &TableBody) -> Result<Type> {
        let places = LineIndex::default();
        let environment = &self.environment;
        let database = self.sql.database();
        let mut binder = Binder::new(&environment.names, database, environment.context(), &places);
        let columns = body.columns.iter();
        let columns = columns.map(|column| (column.name.clone(), column.data_type));
        let bound = binder.stored(text, row_scope(&object.name, columns)?)?;
        Ok(bound.data_type())
    }

    /// Builds an index of columns below.
    fn build_index(
        &mut self,
        object: &Object,
        body: &TableBody,
        mut index: Index,
        keys: &[IndexKey],
    ) -> Result<()> {
        index.columns = keys
            .iter()
            .filter_map(|key| match key {
                IndexKey::Column(at, _) => Some(*at),
                IndexKey::Expression(..) => None,
            })
            .collect();
        self.must_own(object)?;
        let handle = self.catalog().handle(object.oid).cloned();
        let handle = handle.ok_or_else(|| SqlError::internal("a table has rows below"))?;
        let wait = self.environment.wait();
        self.connection
            .lock_table(&handle, TableLock::SharedIntentExclusive, wait)?;
        if index.is_unique && self.connection.has_changed(&handle) {
            // The rows that count are those that the transaction sees.
            let name = index.name.clone();
            let mut object = object.clone();
            table_body(&mut object)?.indexes.push(index);
            let written = self.rewrite_rows(body, object);
            return written.map_err(|error| of_build(error, &name));
        }
        let uniqueness = if index.is_unique {
            Uniqueness::Unique
        } else {
            Uniqueness::Repeating
        };
        let below = handle.definition();
        let names = index
            .columns
            .iter()
            .map(|&at| below.columns[at].name.clone());
        let names: Vec<String> = names.collect();
        let names = names.iter().map(String::as_str);
        let own = self.index_below(&below, &index.name);
        self.transaction.loose.push(Loose::Index {
            table: body.physical.clone(),
            index: own.clone(),
        });
        let built = (self.sql.database()).create_index(&handle, &own, names, uniqueness);
        built.map_err(|error| of_build(error.into(), &index.name))?;
        index.physical = Some(own);
        let mut object = object.clone();
        if let Body::Table(body) = &mut object.body {
            body.indexes.push(index);
        }
        self.put(object, None)
    }

    /// The name of a new index of a table below. An index that a transaction drops keeps its own
    /// until the commit, and one that is renamed keeps it for ever.
    fn index_below(&self, table: &TableDef, name: &str) -> String {
        let mut name = name.to_owned();
        while table.index(&name).is_some() {
            name = format!("#{}", self.sql.next_oid(1));
        }
        name
    }

    /// Builds an index that needs hidden columns. Keys that are expressions, or of a part of the
    /// rows, are NULL for rows that are not in it, so the table is written anew.
    fn build_hidden(
        &mut self,
        object: &Object,
        mut index: Index,
        keys: &[IndexKey],
        predicate: Option<&Expr>,
    ) -> Result<()> {
        let Body::Table(old) = &object.body else {
            return Ok(());
        };
        let predicate = predicate
            .map(|tree| self.kept_text(tree, "index predicate"))
            .transpose()?;
        if let Some(text) = &predicate {
            let kind = self.index_expression(text, object, old)?.kind;
            if kind != Kind::Bool {
                let message = format!("argument of WHERE must be type boolean, not type {kind}");
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
            }
        }
        self.lock_alone(object.oid)?;
        let mut new = object.clone();
        let Body::Table(body) = &mut new.body else {
            return Ok(());
        };
        for key in keys {
            let data_type = match key {
                IndexKey::Column(at, _) => old.columns[*at].data_type,
                IndexKey::Expression(_, data_type, _) => *data_type,
            };
            let text = key.text();
            let value = match &predicate {
                Some(condition) => format!("CASE WHEN {condition} THEN {text} END"),
                None => text.clone(),
            };
            if let (IndexKey::Column(at, _), None) = (key, &predicate) {
                index.columns.push(*at);
                continue;
            }
            index.columns.push(body.columns.len() + body.hidden.len());
            body.hidden.push(Hidden {
                data_type,
                value: Some(value),
                label: text,
                keeps: None,
            });
        }
        let is_expression = |key: &IndexKey| matches!(key, IndexKey::Expression(..));
        if predicate.is_some() || keys.iter().any(is_expression) {
            body.forms.push(IndexForm {
                index: index.oid,
                keys: keys.iter().map(IndexKey::text).collect(),
                predicate,
            });
        }
        let name = index.name.clone();
        body.indexes.push(index);
        self.rewrite_rows(old, new)
            .map_err(|error| of_build(error, &name))
    }

    /// Makes a unique index the one of a new constraint, whose name it gets.
    pub(super) fn use_index(
        &mut self,
        oid: Oid,
        using: &ConstraintUsingIndex,
        is_primary: bool,
    ) -> Result<()> {
        let mut object = self.altered(oid)?;
        let name = ident_text(&using.index_name);
        let own = using.name.as_ref().map_or_else(|| name.clone(), ident_text);
        let constraint = self.sql.next_oid(1);
        let deferral = deferral_of(using.characteristics.as_ref())?;
        let Body::Table(body) = &mut object.body else {
            return Ok(());
        };
        if is_primary && body.primary().is_some() {
            let table = &object.name;
            let message = format!("multiple primary keys for table \"{table}\" are not allowed");
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        let old = body.clone();
        let wrong = |message| Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        let Some(index) = body.indexes.iter_mut().find(|index| index.name == name) else {
            let message = format!("index \"{name}\" does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        };
        if !index.is_unique {
            return wrong(format!("\"{name}\" is not a unique index"));
        }
        if old.form(index.oid).is_some() {
            return wrong(format!(
                "index \"{name}\" contains expressions or is partial"
            ));
        }
        if let Some(at) = index
            .options
            .iter()
            .position(|option| *option != (false, false))
        {
            return wrong(format!(
                "index \"{name}\" column number {} does not have default sorting behavior",
                at + 1
            ));
        }
        self.refuse_name((object.namespace, &object.name), &own, &old, own != name)?;
        let columns = index.columns.clone();
        if own != name {
            let message = format!(
                "ALTER TABLE / ADD CONSTRAINT USING INDEX will rename index \"{name}\" to \"{own}\""
            );
            self.environment.host.notice(message);
            index.name.clone_from(&own);
        }
        let is_below = is_primary && deferral == Deferral::Never;
        if is_below {
            body.key.clone_from(&columns);
        }
        let rule = if is_primary {
            for &at in &columns {
                body.columns[at].not_null = true;
            }
            Rule::Primary { columns, deferral }
        } else {
            Rule::Unique { columns, deferral }
        };
        body.constraints.push(Constraint {
            oid: constraint,
            name: own,
            rule,
        });
        if !is_primary && deferral == Deferral::Never {
            return self.put(object, None);
        }
        self.rewrite_rows(&old, object)
    }

    /// Gives hidden columns the types that their values have now.
    pub(super) fn retype_hidden(&self, object: &mut Object) -> Result<()> {
        let before = object.clone();
        let (Body::Table(body), Body::Table(old)) = (&mut object.body, &before.body) else {
            return Ok(());
        };
        for hidden in &mut body.hidden {
            if let Some(text) = &hidden.value {
                hidden.data_type = self.index_expression(text, &before, old)?;
            } else if let Some(at) = hidden.keeps {
                hidden.data_type = old.columns[at].data_type;
                hidden.keeps = (!storage::keys_keep_form(hidden.data_type)).then_some(at);
            }
        }
        Ok(())
    }

    /// Drops the indexes whose expressions or conditions read a column.
    pub(super) fn drop_forms_of(&mut self, oid: Oid, at: usize) -> Result<()> {
        let mut object = self.altered(oid)?;
        let table = object.name.clone();
        let Body::Table(body) = &mut object.body else {
            return Ok(());
        };
        let mut gone = Vec::new();
        for form in &body.forms {
            let mut reads = false;
            for text in form.keys.iter().chain(&form.predicate) {
                let columns = self.check_expression(text, &table, &body.columns, None)?;
                reads |= columns.contains(&at);
            }
            if reads {
                gone.push(form.index);
            }
        }
        for index in &gone {
            body.forget_form(*index);
        }
        body.indexes.retain(|index| !gone.contains(&index.oid));
        self.put(object, None)
    }

    /// The name of a new index; none if it is there already and may be.
    fn index_name(
        &mut self,
        create: &CreateIndex,
        table: &Object,
        columns: &[String],
    ) -> Result<Option<String>> {
        let Some(name) = &create.name else {
            let mut parts = vec![table.name.as_str()];
            parts.extend(columns.iter().map(String::as_str));
            parts.push("idx");
            return Ok(Some(self.free_name(table.namespace, &parts, &[])));
        };
        let (_, name) = object_name(name)?;
        if !self.is_taken(table.namespace, &name) {
            return Ok(Some(name));
        }
        let message = format!("relation \"{name}\" already exists");
        let error = SqlError::new(SqlState::DUPLICATE_TABLE, message);
        let host = &mut self.environment.host;
        host.skip_or_fail(create.if_not_exists, error)
            .map(|()| None)
    }
}

fn column_of(body: &TableBody, name: &str) -> Result<usize> {
    body.column(name).ok_or_else(|| {
        let message = format!("column \"{name}\" does not exist");
        SqlError::new(SqlState::UNDEFINED_COLUMN, message)
    })
}

/// The error of rows that an index cannot have.
pub(super) fn of_build(error: SqlError, name: &str) -> SqlError {
    if error.state != SqlState::UNIQUE_VIOLATION {
        return error;
    }
    let message = format!("could not create unique index \"{name}\"");
    let detail = match error.detail {
        Some(detail) => detail.replace(") already exists.", ") is duplicated."),
        None => "Duplicate keys exist.".to_owned(),
    };
    SqlError {
        message,
        detail: Some(detail),
        ..error
    }
    .named(|names| names.constraint = Some(name.to_owned()))
}

/// Refuses keys whose values have no order.
pub(super) fn check_ordered(kind: Kind) -> Result<()> {
    if kind != Kind::Json && !kind.is_geometric() {
        return Ok(());
    }
    let message =
        format!("data type {kind} has no default operator class for access method \"btree\"");
    let hint = "You must specify an operator class for the index or define a default operator class for the data type.";
    Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).hint(hint))
}

fn refuse(create: &CreateIndex) -> Result<()> {
    if let None | Some(IndexType::BTree | IndexType::Hash | IndexType::BRIN) = &create.using {
        return Ok(());
    }
    let instead = "Use a btree index.";
    Err(SqlError::unsupported("this kind of index", instead))
}
