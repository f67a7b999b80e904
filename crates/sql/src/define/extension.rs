//! `CREATE EXTENSION` and `DROP EXTENSION` of those whose functions are built in.
//!
//! The functions are there in any case. The catalogue keeps which extensions clients have made, so
//! that they find them, and that dumps have them.

use crate::catalog::{Body, Names, Object, Privilege};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::sink::Completion;
use sql_parse::ident_text;
use sqlparser::ast::{CreateExtension, DropExtension};

/// Extensions whose functions and views are built in: name, version, and comment.
pub(crate) const BUILT_IN: [(&str, &str, &str); 3] = [
    (
        "pg_stat_statements",
        "1.10",
        "track planning and execution statistics of all SQL statements executed",
    ),
    ("pgcrypto", "1.3", "cryptographic functions"),
    (
        "uuid-ossp",
        "1.1",
        "generate universally unique identifiers (UUIDs)",
    ),
];

/// The language that each database of PostgreSQL has.
pub(crate) const LANGUAGE: (&str, &str, &str) = ("plpgsql", "1.0", "PL/pgSQL procedural language");

/// Notes that an extension was made.
pub(super) fn create(session: &mut Session, create: &CreateExtension) -> Result<Completion> {
    let name = ident_text(&create.name);
    let completion = Completion::new("CREATE EXTENSION");
    if !BUILT_IN.iter().any(|(own, ..)| *own == name) && name != LANGUAGE.0 {
        let instead = "See `docs/sql.md` for the functions that there are.";
        return Err(SqlError::unsupported(
            format!("the extension {name}"),
            instead,
        ));
    }
    session.begin_definition()?;
    let known = session.catalog().find_oid(Names::Extensions, 0, &name);
    if known.is_some() || name == LANGUAGE.0 {
        let message = format!("extension \"{name}\" already exists");
        let error = SqlError::new(SqlState::DUPLICATE_OBJECT, message);
        let host = &mut session.environment.host;
        host.skip_or_fail(create.if_not_exists, error)?;
        return Ok(completion);
    }
    let message = format!("permission denied to create extension \"{name}\"");
    session.check_on_database(Privilege::Create, &message)?;
    let object = Object {
        oid: session.sql.next_oid(1),
        namespace: 0,
        name,
        comment: None,
        body: Body::Extension,
    };
    session.put(object, None)?;
    Ok(completion)
}

/// Forgets that extensions were made. Their functions stay.
pub(super) fn drop(session: &mut Session, drop: &DropExtension) -> Result<Completion> {
    session.begin_definition()?;
    for name in &drop.names {
        let name = ident_text(name);
        if let Some(oid) = session.catalog().find_oid(Names::Extensions, 0, &name) {
            session.remove(oid)?;
            continue;
        }
        if name == LANGUAGE.0 {
            let instead = "Leave it: it is in each database.";
            return Err(SqlError::unsupported("DROP EXTENSION plpgsql", instead));
        }
        let message = format!("extension \"{name}\" does not exist");
        if !drop.if_exists {
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        }
        session.environment.host.notice(message + ", skipping");
    }
    Ok(Completion::new("DROP EXTENSION"))
}
