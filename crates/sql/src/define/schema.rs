//! `CREATE SCHEMA`, and relations that move to another schema.
//!
//! Names that begin with `pg_` are the system's. Objects of a schema are found along the search
//! path of the session.

use crate::catalog::{Body, Object, Oid};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::sink::Completion;
use sql_parse::{Parsed, Path, ident_text, object_name};
use sqlparser::ast::{Owner, SchemaName, Statement};
use std::sync::Arc;

/// Creates a schema.
pub(super) fn create(
    session: &mut Session,
    name: &SchemaName,
    if_not_exists: bool,
) -> Result<Completion> {
    let owner = match name {
        SchemaName::NamedAuthorization(_, owner) | SchemaName::UnnamedAuthorization(owner) => {
            Some(owner)
        }
        SchemaName::Simple(_) => None,
    };
    let name = name_of(name)?;
    let completion = Completion::new("CREATE SCHEMA");
    check_name(&name)?;
    session.begin_definition()?;
    if session.catalog().schema(&name).is_some() {
        let message = format!("schema \"{name}\" already exists");
        let error = SqlError::new(SqlState::DUPLICATE_SCHEMA, message);
        let host = &mut session.environment.host;
        return host.skip_or_fail(if_not_exists, error).map(|()| completion);
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
    if let Some(owner) = owner {
        let owner = match ident_text(owner).as_str() {
            "current_user" | "current_role" => Owner::CurrentUser,
            "session_user" => Owner::SessionUser,
            _ => Owner::Ident(owner.clone()),
        };
        session.change_owner(oid, &owner)?;
    }
    Ok(completion)
}

/// Fails for a name that only schemas of the system have.
pub(super) fn check_name(name: &str) -> Result<()> {
    if !name.starts_with("pg_") {
        return Ok(());
    }
    let message = format!("unacceptable schema name \"{name}\"");
    let error = SqlError::new(SqlState("42939"), message);
    Err(error.detail("The prefix \"pg_\" is reserved for system schemas."))
}

/// Creates a schema, and objects in it.
pub(super) fn create_with_objects(
    session: &mut Session,
    parsed: &Parsed,
    parts: &[Arc<Statement>],
) -> Result<Completion> {
    let unsupported = |part: &Statement| {
        let instead = "Create it in a statement of its own.";
        SqlError::unsupported(format!("{part} in CREATE SCHEMA"), instead)
    };
    let mut parts = parts.iter();
    let Some(Statement::CreateSchema {
        schema_name,
        if_not_exists,
        ..
    }) = parts.next().map(|part| &**part)
    else {
        return Err(SqlError::internal("a schema with objects"));
    };
    let completion = create(session, schema_name, *if_not_exists)?;
    let before = session.environment.names.search_path.clone();
    session
        .environment
        .names
        .search_path
        .insert(0, name_of(schema_name)?);
    let mut made = Ok(());
    for part in parts {
        let parsed = Parsed {
            own: None,
            statement: Arc::clone(part),
            ..parsed.clone()
        };
        made = match super::run(session, &parsed, part) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(unsupported(part)),
            Err(error) => Err(error),
        };
        if made.is_err() {
            break;
        }
    }
    session.environment.names.search_path = before;
    made.map(|()| completion)
}

fn name_of(name: &SchemaName) -> Result<String> {
    Ok(match name {
        SchemaName::Simple(name) | SchemaName::NamedAuthorization(name, _) => object_name(name)?.1,
        SchemaName::UnnamedAuthorization(name) => ident_text(name),
    })
}

/// Moves a table with its sequences, or a view, to another schema.
pub(super) fn move_relation(
    session: &mut Session,
    (path, if_exists): (&Path, bool),
    schema: &str,
    is_view: bool,
) -> Result<Completion> {
    session.begin_definition()?;
    let completion = Completion::new(if is_view { "ALTER VIEW" } else { "ALTER TABLE" });
    let object = match session.relation_at(path) {
        Ok(object) => object,
        Err(error) if if_exists => {
            let notice = format!("{}, skipping", error.message);
            session.environment.host.notice(notice);
            return Ok(completion);
        }
        Err(error) => return Err(error),
    };
    if is_view && !matches!(object.body, Body::View(_)) {
        let message = format!("\"{}\" is not a view", path.name);
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    }
    let namespace = session.environment.names.schema(schema)?;
    session.must_own(&object)?;
    if namespace == object.namespace {
        return Ok(completion);
    }
    session.may_move(&object, namespace)?;
    let owner: Oid = object.oid;
    let sequences: Vec<Oid> = session
        .catalog()
        .objects()
        .filter(|other| match &other.body {
            Body::Sequence(body) => body.owner.is_some_and(|(table, _)| table == owner),
            _ => false,
        })
        .map(|other| other.oid)
        .collect();
    for oid in [owner].iter().chain(&sequences) {
        let moved = session.altered(*oid)?;
        session.refuse_taken_in(&moved, (namespace, schema))?;
    }
    // Defaults follow their sequences, so the table is looked up after them.
    for oid in sequences.into_iter().chain([owner]) {
        let mut moved = session.altered(oid)?;
        moved.namespace = namespace;
        session.put(moved, None)?;
    }
    Ok(completion)
}

impl Session {
    /// Fails if a schema has a relation of the name of one that is to be moved there, or of an
    /// index of it, or a type of its name.
    pub(super) fn refuse_taken_in(
        &self,
        object: &Object,
        (namespace, schema): (Oid, &str),
    ) -> Result<()> {
        let indexes = match &object.body {
            Body::Table(table) => table.indexes.as_slice(),
            _ => &[],
        };
        let indexes = indexes.iter().map(|index| &index.name);
        let mut names = [&object.name].into_iter().chain(indexes);
        if let Some(name) = names.find(|name| self.is_taken(namespace, name)) {
            let message = format!("relation \"{name}\" already exists in schema \"{schema}\"");
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
        }
        let has_rows = matches!(object.body, Body::Table(_) | Body::View(_));
        if has_rows && self.has_type(namespace, &object.name) {
            let name = &object.name;
            let message = format!("type \"{name}\" already exists in schema \"{schema}\"");
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
        }
        Ok(())
    }
}
