//! `CREATE VIEW`, and tables made of queries.
//!
//! A view keeps its query as text, and the numbers of the relations that it reads, which cannot be
//! dropped without it.

use super::column::Written;
use crate::catalog::{Body, Column, Names, OWNER, Object, Oid, Privilege, ViewBody};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::sink::Completion;
use crate::state::quoted;
use crate::types::Type;
use sql_parse::{Copied, EXECUTED, Parsed, ident_text, mark_of, object_name, stored_text};
use sqlparser::ast::{
    CreateTableOptions, CreateView, Expr, GroupByExpr, Ident, ObjectName, ObjectNamePart, Query,
    Select, SelectInto, SelectItem, SetExpr, SqlOption, Statement, TableFactor,
};
use std::sync::Arc;

/// Creates a view, or replaces one.
pub(super) fn create(session: &mut Session, create: &CreateView) -> Result<Completion> {
    session.begin_definition()?;
    let (schema, name) = object_name(&create.name)?;
    let namespace = match &schema {
        None if create.temporary => session.temporary_schema()?,
        Some(schema) => session.schema_for_new(schema)?,
        None => session.environment.names.target_schema()?,
    };
    let query = session.plain_query(&create.query)?;
    // The rights of the view's owner count when it is read, those of its maker on schemas now.
    let names = &mut session.environment.names;
    let role = std::mem::replace(&mut names.role, OWNER);
    names.has_all_rights = true;
    let found = (session.query_columns(&query), session.tables_read(&query));
    let names = &mut session.environment.names;
    (names.role, names.has_all_rights) = (role, false);
    let (unnamed, reads) = (found.0?, found.1?);
    session.check_schemas(&reads)?;
    let namespace = session.view_namespace((namespace, &name), schema.is_some(), &reads)?;
    let known = session.view_to_replace((namespace, &name), create.or_replace)?;
    let oid = match &known {
        Some(known) => known.oid,
        None => session.sql.next_oid(1),
    };
    let mut columns = unnamed.clone();
    for (column, named) in columns.iter_mut().zip(&create.columns) {
        column.0 = ident_text(&named.name);
    }
    check_distinct(&columns)?;
    let query = session.with_full_names(&query)?;
    let query = named(query, &unnamed, &columns)?;
    let before = known.as_ref().and_then(|known| match &known.body {
        Body::View(before) => Some(before),
        _ => None,
    });
    if let Some(before) = before {
        check_replaced(&before.columns, &columns)?;
    }
    let body = ViewBody {
        query,
        columns,
        reads,
        options: view_options(&create.options)?,
        comments: before.map_or_else(Vec::new, |view| view.comments.clone()),
    };
    let object = Object {
        oid,
        namespace,
        name,
        comment: known.as_ref().and_then(|known| known.comment.clone()),
        body: Body::View(body),
    };
    session.binding(|binder| binder.check_option(&object))?;
    session.put(object, None)?;
    Ok(Completion::new("CREATE VIEW"))
}

/// The text of a query whose columns have other names, from a list after that of the view; `*` is
/// no item of it any more. Other parts of a query may name its items: it is read by another one
/// then, which names them.
pub(super) fn named(
    text: String,
    before: &[(String, Type)],
    after: &[(String, Type)],
) -> Result<String> {
    if before
        .iter()
        .zip(after)
        .all(|(before, after)| before.0 == after.0)
    {
        return Ok(text);
    }
    let parsed = sql_parse::parse_stored(&text)?;
    let Some(Statement::Query(query)) = parsed.first().map(|parsed| &*parsed.statement) else {
        return Ok(text);
    };
    let mut query = query.copied();
    let is_ordered = query.order_by.is_some();
    let select = first_select_mut(&mut query.body).filter(|select| {
        let is_plain = |item: &SelectItem| {
            matches!(
                item,
                SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }
            )
        };
        let has_groups = match &select.group_by {
            GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
            GroupByExpr::All(_) => true,
        };
        let is_alone = !is_ordered && !has_groups && select.distinct.is_none();
        is_alone && select.projection.iter().all(is_plain)
    });
    let Some(select) = select else {
        // Two columns may have had one name.
        let names: Vec<_> = after.iter().map(|(name, _)| quoted(name)).collect();
        let items = names.iter().map(|name| format!("named.{name} AS {name}"));
        let (items, names) = (items.collect::<Vec<_>>().join(", "), names.join(", "));
        return Ok(format!("SELECT {items} FROM ({text}) AS named({names})"));
    };
    for (item, (name, _)) in select.projection.iter_mut().zip(after) {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let alias = match quoted(name) == *name {
                true => Ident::new(name),
                false => Ident::with_quote('"', name),
            };
            let expr = expr.copied();
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
    Ok(stored_text(&query))
}

/// Fails if two columns have one name.
pub(super) fn check_distinct(columns: &[(String, Type)]) -> Result<()> {
    for (at, (name, _)) in columns.iter().enumerate() {
        if columns[..at].iter().any(|(known, _)| known == name) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
    }
    Ok(())
}

impl Session {
    /// The view whose place a new one takes, if there is one with its name; fails if the relation
    /// with the name must stay.
    fn view_to_replace(
        &self,
        (namespace, name): (Oid, &str),
        or_replace: bool,
    ) -> Result<Option<Arc<Object>>> {
        let known = self.catalog().find(Names::Relations, namespace, name);
        match known {
            Some(_) if !or_replace => {
                let message = format!("relation \"{name}\" already exists");
                Err(SqlError::new(SqlState::DUPLICATE_TABLE, message))
            }
            Some(known) if !matches!(known.body, Body::View(_)) => {
                let message = format!("\"{name}\" is not a view");
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
            Some(known) => Ok(Some(Arc::clone(known))),
            None => self.refuse_type_of_name(namespace, name).map(|()| None),
        }
    }

    /// The schema of a view: a view of temporary tables is temporary too.
    fn view_namespace(
        &mut self,
        (namespace, name): (Oid, &str),
        is_given: bool,
        reads: &[Oid],
    ) -> Result<Oid> {
        let temporary = self.environment.names.temporary;
        let is_temporary = |oid: &Oid| {
            let object = self.catalog().object(*oid);
            object.is_some_and(|object| Some(object.namespace) == temporary)
        };
        if Some(namespace) == temporary || !reads.iter().any(is_temporary) {
            return Ok(namespace);
        }
        if is_given {
            let message = "cannot create temporary relation in non-temporary schema";
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        let message = format!("view \"{name}\" will be a temporary view");
        self.environment.host.notice(message);
        self.temporary_schema()
    }
}

/// The options of a view: `check_option`, and two which are kept for those who ask.
fn view_options(options: &CreateTableOptions) -> Result<Vec<(String, String)>> {
    let (CreateTableOptions::With(given) | CreateTableOptions::Options(given)) = options else {
        return Ok(Vec::new());
    };
    let mut options = Vec::with_capacity(given.len());
    for option in given {
        let (name, value) = match option {
            SqlOption::Ident(name) => (name.to_string().to_lowercase(), "true".to_owned()),
            SqlOption::KeyValue { key, value } => {
                let value = value.to_string();
                (object_name(key)?.1, value.trim_matches('\'').to_lowercase())
            }
            _ => continue,
        };
        check_value(&name, &value)?;
        options.push((name, value));
    }
    Ok(options)
}

/// Fails unless a view may have an option with a value.
fn check_value(name: &str, value: &str) -> Result<()> {
    let bad = |message| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    match name {
        "check_option" if !matches!(value, "local" | "cascaded") => {
            let message = "invalid value for enum option \"check_option\"";
            let detail = "Valid values are \"local\" and \"cascaded\".";
            bad(format!("{message}: {value}")).map_err(|error: SqlError| error.detail(detail))
        }
        "check_option" => Ok(()),
        "security_barrier" | "security_invoker" => {
            const SWITCHES: [&str; 8] = ["true", "false", "on", "off", "yes", "no", "1", "0"];
            match SWITCHES.contains(&value) {
                true => Ok(()),
                false => bad(format!(
                    "invalid value for boolean option \"{name}\": {value}"
                )),
            }
        }
        _ => bad(format!("unrecognized parameter \"{name}\"")),
    }
}

/// Fails unless the columns of a view are there in the one that replaces it, before all others.
fn check_replaced(before: &[(String, Type)], after: &[(String, Type)]) -> Result<()> {
    let invalid = |message| Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
    if after.len() < before.len() {
        return invalid("cannot drop columns from view".to_owned());
    }
    for ((name, data_type), (new_name, new_type)) in before.iter().zip(after) {
        if name != new_name {
            return invalid(format!(
                "cannot change name of view column \"{name}\" to \"{new_name}\""
            ));
        }
        if data_type != new_type {
            return invalid(format!(
                "cannot change data type of view column \"{name}\" from {data_type} to {new_type}"
            ));
        }
    }
    Ok(())
}

/// Creates the table of `SELECT ... INTO`; none for another statement.
pub(crate) fn select_into(session: &mut Session, parsed: &Parsed) -> Result<Option<Completion>> {
    let Some(into) = table_of_select(&parsed.statement) else {
        return Ok(None);
    };
    session.begin_definition()?;
    let target = into
        .temporary
        .then(|| session.temporary_schema())
        .transpose()?;
    let name = match into.targets.as_slice() {
        [Expr::Identifier(name)] => ObjectName::from(vec![name.clone()]),
        [Expr::CompoundIdentifier(names)] => ObjectName::from(names.clone()),
        _ => {
            let message = "SELECT INTO takes the name of one table";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
    };
    let Some((namespace, name)) = session.new_name_in(target, &name, false)? else {
        return Ok(None);
    };
    let Some(query) = query_of_table(&parsed.statement) else {
        return Ok(None);
    };
    let table = (namespace, name.as_str());
    let completion = session.create_as(parsed, table, (&[], true), &query)?;
    Ok(Some(completion))
}

/// The table that `SELECT ... INTO` makes; none for another statement.
pub(crate) fn table_of_select(statement: &Statement) -> Option<&SelectInto> {
    let Statement::Query(query) = statement else {
        return None;
    };
    first_select(&query.body)?.into.as_ref()
}

/// The query of `SELECT ... INTO`, without the table that it makes; none for another statement.
pub(crate) fn query_of_table(statement: &Statement) -> Option<Box<Query>> {
    let (Statement::Query(query), Some(_)) = (statement, table_of_select(statement)) else {
        return None;
    };
    let mut query = query.copied();
    if let Some(select) = first_select_mut(&mut query.body) {
        select.into = None;
    }
    Some(query)
}

/// The first `SELECT` of a query, which is the one that may have `INTO`.
fn first_select(body: &SetExpr) -> Option<&Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::SetOperation { left, .. } => first_select(left),
        _ => None,
    }
}

fn first_select_mut(body: &mut SetExpr) -> Option<&mut Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::SetOperation { left, .. } => first_select_mut(left),
        _ => None,
    }
}

impl Session {
    /// Gives a view other values of options, or takes options from it.
    pub(super) fn change_view_options(
        &mut self,
        view: &Object,
        options: &[(String, Option<String>)],
    ) -> Result<()> {
        let mut object = view.clone();
        let Body::View(body) = &mut object.body else {
            return Err(SqlError::internal("a view"));
        };
        for (name, value) in options {
            let value = value.as_ref().map(|value| value.to_lowercase());
            if let Some(value) = &value {
                check_value(name, value)?;
            }
            let place = body.options.iter().position(|(known, _)| known == name);
            match (place, value) {
                (Some(at), Some(value)) => body.options[at].1 = value,
                (None, Some(value)) => body.options.push((name.clone(), value)),
                (Some(at), None) => drop(body.options.remove(at)),
                (None, None) => {}
            }
        }
        self.binding(|binder| binder.check_option(&object))?;
        self.put(object, None)
    }

    /// Names and types of the columns of a query that the catalogue keeps.
    pub(super) fn query_columns(&self, text: &str) -> Result<Vec<(String, Type)>> {
        let parsed = sql_parse::parse_stored(text)?;
        let plan = match parsed.as_slice() {
            [parsed] => self.plan(parsed, &[])?,
            _ => None,
        };
        let plan =
            plan.ok_or_else(|| SqlError::unsupported("keeping this query", "Use a SELECT."))?;
        if !plan.parameters.is_empty() {
            let message = "views must not contain parameters";
            return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, message));
        }
        let columns = plan.columns.iter().flatten();
        Ok(columns
            .map(|column| (column.name.clone(), column.data_type))
            .collect())
    }

    /// Tables and views that a query reads.
    pub(super) fn tables_read(&self, text: &str) -> Result<Vec<Oid>> {
        let parsed = sql_parse::parse_stored(text)?;
        let mut reads = Vec::new();
        if let Some(parsed) = parsed.first()
            && matches!(&*parsed.statement, Statement::Query(_))
        {
            self.binding(|binder| {
                let bound = binder.statement(&parsed.statement);
                reads.append(&mut binder.reads);
                bound.map(drop)
            })?;
        }
        Ok(reads)
    }

    /// Fails unless the session's role may use the schemas of objects.
    fn check_schemas(&self, objects: &[Oid]) -> Result<()> {
        let catalog = self.catalog();
        let objects = objects.iter().filter_map(|oid| catalog.object(*oid));
        objects
            .filter(|object| !self.is_temporary(object.namespace))
            .filter_map(|object| catalog.object(object.namespace))
            .try_for_each(|schema| self.check_right(schema, Privilege::Usage))
    }

    /// Fails unless the session's role has a right on an object.
    pub(super) fn check_right(&self, object: &Object, privilege: Privilege) -> Result<()> {
        let names = &self.environment.names;
        names.check(names.role, object, privilege.bit())
    }

    /// Creates a table of the rows of a query.
    pub(super) fn create_as(
        &mut self,
        parsed: &Parsed,
        (namespace, name): (Oid, &str),
        (names, with_data): (&[Ident], bool),
        query: &Query,
    ) -> Result<Completion> {
        // The tables that it reads stay as they are from here on.
        self.begin_definition()?;
        let (plan, values) = match executed(query)? {
            Some((prepared, arguments)) => self.prepared_query(&prepared, &arguments)?,
            None => {
                let statement = Arc::new(Statement::Query(Box::new(query.copied())));
                let parsed = Parsed {
                    statement,
                    ..parsed.clone()
                };
                let planned = self.plan_with_values(&parsed)?;
                planned.ok_or_else(|| SqlError::internal("a query has a plan"))?
            }
        };
        let mut columns: Vec<Column> = plan
            .columns
            .iter()
            .flatten()
            .map(|column| Column::new(column.name.clone(), column.data_type))
            .collect();
        if names.len() > columns.len() {
            let message = "too many column names were specified";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        for (column, name) in columns.iter_mut().zip(names) {
            column.name = ident_text(name);
        }
        let oid = self.sql.next_oid(1);
        self.make_table(oid, (namespace, name), columns, &Written::default())?;
        if !with_data {
            return Ok(Completion::new("CREATE TABLE AS"));
        }
        let rows = self.fill(oid, (&plan, values))?;
        Ok(Completion::with_rows("SELECT", rows))
    }
}

/// The prepared statement of a table's query, and its arguments, if it is the query.
pub(crate) fn executed(query: &Query) -> Result<Option<(String, Vec<Expr>)>> {
    let SetExpr::Select(select) = &*query.body else {
        return Ok(None);
    };
    let text = match select.from.first().map(|from| &from.relation) {
        Some(TableFactor::Table { name, .. }) => match name.0.first() {
            Some(ObjectNamePart::Identifier(name)) => mark_of(name),
            _ => None,
        },
        _ => None,
    };
    let Some(text) = text.and_then(|mark| mark.strip_prefix(EXECUTED)) else {
        return Ok(None);
    };
    let parsed = sql_parse::parse(text)?;
    match parsed.first().map(|parsed| &*parsed.statement) {
        Some(Statement::Execute {
            name: Some(name),
            parameters,
            ..
        }) => Ok(Some((object_name(name)?.1, parameters.copied()))),
        _ => Err(SqlError::internal("an EXECUTE")),
    }
}
