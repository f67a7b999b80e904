//! `CREATE INDEX`.
//!
//! The index below is built at once, over all rows that have committed; it is dropped again if the
//! transaction does not commit.

use super::column::column_names;
use super::table::places_of;
use crate::catalog::{Body, Index, Names, Object};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::object_name;
use crate::session::Session;
use crate::sink::Completion;
use crate::state::Loose;
use indelible::{TableLock, Uniqueness};
use sqlparser::ast::{CreateIndex, IndexType, OrderBySort};

/// Creates an index over the rows that are there.
pub(super) fn create(session: &mut Session, create: &CreateIndex) -> Result<Completion> {
    refuse(create)?;
    session.begin_definition()?;
    let completion = Completion::new("CREATE INDEX");
    let (schema, table) = object_name(&create.table_name)?;
    let found = session
        .environment
        .names
        .find(Names::Relations, schema.as_deref(), &table);
    let object = found
        .cloned()
        .ok_or_else(|| crate::bind::no_relation(schema.as_deref(), &table))?;
    let Body::Table(body) = &object.body else {
        let message = format!("cannot create index on relation \"{table}\"");
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    };
    let names = column_names(&create.columns)?;
    let columns = places_of(&body.columns, &names)?;
    let Some(name) = session.index_name(create, &object, &names)? else {
        return Ok(completion);
    };
    let options = create.columns.iter().map(|column| {
        let options = &column.column.options;
        let descends = matches!(options.sort, Some(OrderBySort::Desc));
        (descends, options.nulls_first.unwrap_or(descends))
    });
    let index = Index {
        oid: session.sql.next_oid(1),
        physical: Some(name.clone()),
        name: name.clone(),
        columns,
        is_unique: create.unique,
        options: options.collect(),
    };
    let handle = session.catalog().handle(object.oid).cloned();
    let handle = handle.ok_or_else(|| SqlError::internal("a table has rows below"))?;
    let wait = session.environment.wait();
    session
        .connection
        .lock_table(&handle, TableLock::SharedIntentExclusive, wait)?;
    let uniqueness = if create.unique {
        Uniqueness::Unique
    } else {
        Uniqueness::Repeating
    };
    let below = handle.definition();
    let keys = index
        .columns
        .iter()
        .map(|&at| below.columns[at].name.clone());
    let keys: Vec<String> = keys.collect();
    let keys = keys.iter().map(String::as_str);
    session.transaction.loose.push(Loose::Index {
        table: body.physical.clone(),
        index: name.clone(),
    });
    let built = session
        .sql
        .database()
        .create_index(&handle, &name, keys, uniqueness);
    built.map_err(|error| of_build(error.into(), &name))?;
    let mut object = (*object).clone();
    if let Body::Table(body) = &mut object.body {
        body.indexes.push(index);
    }
    session.put(object, None)?;
    Ok(completion)
}

impl Session {
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
        if create.if_not_exists {
            self.environment.host.notice(format!("{message}, skipping"));
            return Ok(None);
        }
        Err(SqlError::new(SqlState::DUPLICATE_TABLE, message))
    }
}

/// The error of rows that an index cannot have.
fn of_build(error: SqlError, name: &str) -> SqlError {
    if error.state != SqlState::UNIQUE_VIOLATION {
        return error;
    }
    let message = format!("could not create unique index \"{name}\"");
    SqlError { message, ..error }.named(|names| names.constraint = Some(name.to_owned()))
}

fn refuse(create: &CreateIndex) -> Result<()> {
    let (found, instead) = match (&create.using, &create.predicate) {
        (_, Some(_)) => ("a partial index", "Leave WHERE out."),
        (None | Some(IndexType::BTree | IndexType::Hash), None) if create.include.is_empty() => {
            return Ok(());
        }
        (None | Some(IndexType::BTree | IndexType::Hash), None) => {
            ("INCLUDE", "Add the columns to the key.")
        }
        (Some(_), None) => ("this kind of index", "Use a btree index."),
    };
    Err(SqlError::unsupported(found, instead))
}
