//! `REINDEX` and `CLUSTER`: names and the surroundings are checked, and nothing is done.
//!
//! An index below changes with its table in one transaction, so it is never in need of repair;
//! damage is found by `indelible verify`. The order of the rows below is the method's matter.

use super::role::refused;
use crate::catalog::{Body, DATABASE, Names, Object};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::sink::Completion;
use sql_parse::{Path, Reindex, ReindexTarget, object_name};
use sqlparser::ast::ObjectName;
use std::sync::Arc;

/// Checks what is to be made anew.
pub(super) fn reindex(session: &mut Session, reindex: &Reindex) -> Result<Completion> {
    let whole = match &reindex.target {
        ReindexTarget::Schema(_) => Some("REINDEX SCHEMA"),
        ReindexTarget::Database => Some("REINDEX DATABASE"),
        _ if reindex.is_concurrent => Some("REINDEX CONCURRENTLY"),
        _ => None,
    };
    if let (Some(command), true) = (whole, session.transaction.is_block()) {
        let message = format!("{command} cannot run inside a transaction block");
        return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
    }
    match &reindex.target {
        ReindexTarget::Index(path) => {
            let object = session.relation_or_index(path)?;
            session.must_own_as(&object, ("index", &path.name))?;
            check_block(session, &object, "REINDEX INDEX")?;
            if object.name == path.name {
                let message = format!("\"{}\" is not an index", path.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
        }
        ReindexTarget::Table(path) if is_of_system(path) => {}
        ReindexTarget::Table(path) => {
            let object = session.relation_or_index(path)?;
            check_block(session, &object, "REINDEX TABLE")?;
            if object.name != path.name || !matches!(object.body, Body::Table(_)) {
                let message = format!("\"{}\" is not a table or materialized view", path.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            session.must_own(&object)?;
        }
        ReindexTarget::Schema(name) => {
            let schema = session.environment.names.schema(name)?;
            if let Some(schema) = session.catalog().object(schema).cloned() {
                session.must_own(&schema)?;
            }
        }
        ReindexTarget::Database => {
            let (role, catalog) = (session.environment.names.role, session.catalog());
            if !catalog.owns(role, DATABASE) {
                let database = &session.environment.host.database;
                return Err(refused(format!("must be owner of database {database}")));
            }
        }
    }
    Ok(Completion::new("REINDEX"))
}

/// Checks the table that is to be ordered by an index.
pub(super) fn cluster(
    session: &mut Session,
    target: Option<&(Path, Option<String>)>,
) -> Result<Completion> {
    let completion = Completion::new("CLUSTER");
    let Some((path, index)) = target else {
        if session.transaction.is_block() {
            let message = "CLUSTER cannot run inside a transaction block";
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        return Ok(completion);
    };
    if is_of_system(path) {
        return Ok(completion);
    }
    let object = session.relation_at(path)?;
    session.must_own(&object)?;
    check_block(session, &object, "CLUSTER")?;
    let Body::Table(body) = &object.body else {
        let message = format!("\"{}\" is not a table or materialized view", path.name);
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    };
    match index {
        Some(name) if !body.indexes.iter().any(|index| index.name == *name) => {
            let table = &path.name;
            if session.is_taken(object.namespace, name) {
                let message = format!("\"{name}\" is not an index for table \"{table}\"");
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            let message = format!("index \"{name}\" for table \"{table}\" does not exist");
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
        }
        _ => Ok(completion),
    }
}

/// Whether a name is that of a relation of the system, whose rows are made when they are asked for.
pub(super) fn is_of_system(path: &Path) -> bool {
    sql_bind::system::find(path.schema.as_deref(), &path.name).is_some()
}

/// Fails in a block for a partitioned table, whose partitions PostgreSQL commits one by one.
fn check_block(session: &Session, object: &Object, command: &str) -> Result<()> {
    let is_partitioned = matches!(&object.body, Body::Table(body) if body.lineage.scheme.is_some());
    if is_partitioned && session.transaction.is_block() {
        let message = format!("{command} cannot run inside a transaction block");
        return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
    }
    Ok(())
}

/// Checks that an index is one of a partition. Each partition has indexes of its own, which are not
/// parts of another one, so nothing is left to be done.
pub(super) fn attach(session: &mut Session, index: &Path, partition: &Path) -> Result<Completion> {
    let (above, below) = (
        session.relation_or_index(index)?,
        session.relation_or_index(partition)?,
    );
    for (path, table) in [(index, &above), (partition, &below)] {
        if table.name == path.name {
            let message = format!("\"{}\" is not an index", path.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
    }
    session.must_own(&above)?;
    let is_partition = matches!(&below.body,
        Body::Table(body) if body.lineage.parents.contains(&above.oid));
    if !is_partition {
        let (one, other) = (&partition.name, &index.name);
        let message = format!("cannot attach index \"{one}\" as a partition of index \"{other}\"");
        let detail = format!(
            "Index \"{one}\" is not an index on any partition of table \"{}\".",
            above.name
        );
        let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
        return Err(SqlError::new(state, message).detail(detail));
    }
    Ok(Completion::new("ALTER INDEX"))
}

impl Session {
    /// The object of a relation's name; a table for the name of one of its indexes.
    pub(super) fn relation_or_index(&self, path: &Path) -> Result<Arc<Object>> {
        let (schema, name) = (path.schema.as_deref(), path.name.as_str());
        let names = &self.environment.names;
        let found = names.find(Names::Relations, schema, name).cloned();
        found.ok_or_else(|| self.no_definition(schema, name))
    }

    /// The relation with a name; an error for that of an index.
    pub(super) fn relation_at(&self, path: &Path) -> Result<Arc<Object>> {
        let object = self.relation_or_index(path)?;
        match object.name == path.name {
            true => Ok(object),
            false => Err(is_index(&path.name)),
        }
    }

    /// As [`Session::relation_at`], by the parts of its name.
    pub(super) fn relation_named(&self, name: &ObjectName) -> Result<Arc<Object>> {
        let (schema, name) = object_name(name)?;
        self.relation_at(&Path { schema, name })
    }
}

/// The error of an index in place of a relation with rows or numbers.
pub(super) fn is_index(name: &str) -> SqlError {
    let message = format!("\"{name}\" is an index");
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
}
