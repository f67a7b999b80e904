//! `CREATE SCHEMA`.
//!
//! Names that begin with `pg_` are the system's. Objects of a schema are found along the search
//! path of the session.

use crate::catalog::{Body, Object};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::{ident_text, object_name};
use crate::session::Session;
use crate::sink::Completion;
use sqlparser::ast::SchemaName;

/// Creates a schema.
pub(super) fn create(
    session: &mut Session,
    name: &SchemaName,
    if_not_exists: bool,
) -> Result<Completion> {
    let name = match name {
        SchemaName::Simple(name) | SchemaName::NamedAuthorization(name, _) => object_name(name)?.1,
        SchemaName::UnnamedAuthorization(name) => ident_text(name),
    };
    let completion = Completion::new("CREATE SCHEMA");
    if name.starts_with("pg_") {
        let message = format!("unacceptable schema name \"{name}\"");
        let error = SqlError::new(SqlState("42939"), message);
        return Err(error.detail("The prefix \"pg_\" is reserved for system schemas."));
    }
    session.begin_definition()?;
    if session.catalog().schema(&name).is_some() {
        let message = format!("schema \"{name}\" already exists");
        if if_not_exists {
            session
                .environment
                .host
                .notice(format!("{message}, skipping"));
            return Ok(completion);
        }
        return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, message));
    }
    let oid = session.sql.next_oid(1);
    let object = Object {
        oid,
        namespace: 0,
        name,
        comment: None,
        body: Body::Schema,
    };
    session.put(object, None)?;
    Ok(completion)
}
