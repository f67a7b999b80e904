//! Materialized views: tables that keep the rows of their queries.
//!
//! `REFRESH` gives the view an empty table below with its indexes, and the rows that its query has
//! then. Other sessions read the earlier rows until that commits.

use super::alter::table_body;
use super::column::Written;
use crate::catalog::{Body, Column, Materialized, Object, Oid};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::sink::Completion;
use sql_parse::{NO_DATA, ident_text, mark_of};
use sqlparser::ast::{
    CreateTableOptions, CreateView, ObjectNamePart, RefreshMaterializedView, SqlOption,
};
use std::sync::Arc;

/// Creates a materialized view, with its rows unless the statement wants none.
pub(super) fn create(session: &mut Session, create: &CreateView) -> Result<Completion> {
    session.begin_definition()?;
    if create.or_replace {
        let message = "syntax error at or near \"MATERIALIZED\"";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    let completion = Completion::new("CREATE MATERIALIZED VIEW");
    let found = session.new_name_in(None, &create.name, create.if_not_exists)?;
    let Some((namespace, name)) = found else {
        return Ok(completion);
    };
    let query = session.plain_query(&create.query)?;
    let unnamed = session.query_columns(&query)?;
    let mut columns = unnamed.clone();
    if create.columns.len() > columns.len() {
        let message = "too many column names were specified";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    for (column, named) in columns.iter_mut().zip(&create.columns) {
        column.0 = ident_text(&named.name);
    }
    super::view::check_distinct(&columns)?;
    let reads = session.tables_read(&query)?;
    let query = session.with_full_names(&query)?;
    let query = super::view::named(query, &unnamed, &columns)?;
    let oid = session.sql.next_oid(1);
    let columns = columns.into_iter();
    let columns = columns.map(|(name, data_type)| Column::new(name, data_type));
    session.make_table(
        oid,
        (namespace, &name),
        columns.collect(),
        &Written::default(),
    )?;
    let mut object = session.altered(oid)?;
    table_body(&mut object)?.materialized = Some(Materialized {
        query,
        reads,
        is_populated: false,
    });
    session.put(object, None)?;
    if has_no_data(&create.options) {
        return Ok(completion);
    }
    let rows = session.populate(oid)?;
    Ok(Completion::with_rows("SELECT", rows))
}

/// Gives a materialized view the rows that its query has now, or none.
pub(super) fn refresh(
    session: &mut Session,
    refresh: &RefreshMaterializedView,
) -> Result<Completion> {
    session.begin_definition()?;
    let object = session.relation_named(&refresh.name)?;
    let name = object.name.clone();
    let with_data = refresh.with_data != Some(false);
    if !matches!(object.body, Body::Table(_)) {
        let message = format!("\"{name}\" is not a table or materialized view");
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    }
    session.must_own(&object)?;
    let Some(view) = materialized(&object) else {
        let message = format!("\"{name}\" is not a materialized view");
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    };
    if refresh.concurrently {
        if !view.is_populated {
            let message = "CONCURRENTLY cannot be used when the materialized view is not populated";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if !with_data {
            let message = "REFRESH options CONCURRENTLY and WITH NO DATA cannot be used together";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        session.check_unique_index(&object)?;
    }
    session.empty(&object, false)?;
    if with_data {
        session.populate(object.oid)?;
    } else {
        session.set_populated(object.oid, false)?;
    }
    Ok(Completion::new("REFRESH MATERIALIZED VIEW"))
}

/// The query of an object, if it is a materialized view.
pub(super) fn materialized(object: &Object) -> Option<&Materialized> {
    match &object.body {
        Body::Table(table) => table.materialized.as_ref(),
        _ => None,
    }
}

fn has_no_data(options: &CreateTableOptions) -> bool {
    let (CreateTableOptions::With(given) | CreateTableOptions::Options(given)) = options else {
        return false;
    };
    let is_it = |option: &SqlOption| match option {
        SqlOption::Ident(name) => {
            let mut parts = name.0.iter().filter_map(ObjectNamePart::as_ident);
            parts.any(|name| mark_of(name) == Some(NO_DATA))
        }
        _ => false,
    };
    given.iter().any(is_it)
}

impl Session {
    /// Fails unless an index without a condition says which rows are which.
    fn check_unique_index(&self, object: &Object) -> Result<()> {
        let Body::Table(table) = &object.body else {
            return Ok(());
        };
        let mut indexes = table.indexes.iter();
        if indexes.any(|index| index.is_unique && table.form(index.oid).is_none()) {
            return Ok(());
        }
        let schema = self.catalog().object(object.namespace);
        let schema = schema.map_or("", |schema| schema.name.as_str());
        let message = format!(
            "cannot refresh materialized view \"{schema}.{}\" concurrently",
            object.name
        );
        let hint = "Create a unique index with no WHERE clause on one or more columns of the materialized view.";
        let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
        Err(SqlError::new(state, message).hint(hint))
    }

    /// Inserts the rows of a materialized view's query, as its owner; their number.
    fn populate(&mut self, oid: Oid) -> Result<u64> {
        let object = Arc::new(self.altered(oid)?);
        let query = materialized(&object).map(|view| view.query.clone());
        let parsed = sql_parse::parse_stored(&query.unwrap_or_default())?;
        let owner = self.catalog().owner(oid);
        let own = std::mem::replace(&mut self.environment.names.role, owner);
        let plan = match parsed.as_slice() {
            [parsed] => self.plan_stored(parsed),
            _ => Ok(None),
        };
        let filled = plan.and_then(|plan| {
            let plan = plan.ok_or_else(|| SqlError::internal("a query has a plan"))?;
            self.fill(oid, (&plan, Vec::new()))
        });
        self.environment.names.role = own;
        let rows = filled?;
        self.set_populated(oid, true)?;
        Ok(rows)
    }

    fn set_populated(&mut self, oid: Oid, is_populated: bool) -> Result<()> {
        let mut object = self.altered(oid)?;
        if let Some(view) = &mut table_body(&mut object)?.materialized {
            view.is_populated = is_populated;
        }
        self.put(object, None)
    }
}
