//! `COMMENT ON`.
//!
//! Tables, views, sequences, schemas, types, functions, roles, columns, indexes, constraints and
//! the database keep their comments; those on extensions are forgotten.

use super::role::no_role;
use crate::catalog::{Body, Names, Object, Oid};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::sink::Completion;
use sql_parse::{Path, ident_text, object_name};
use sqlparser::ast::{CommentObject, ObjectName, ObjectNamePart, Statement};
use std::sync::Arc;

/// Gives an object a comment, or takes it away.
pub(super) fn comment(
    session: &mut Session,
    (kind, name): (CommentObject, &ObjectName),
    comment: Option<&str>,
) -> Result<Completion> {
    session.begin_definition()?;
    let completion = Completion::new("COMMENT");
    let comment = comment.filter(|text| !text.is_empty()).map(str::to_owned);
    if kind == CommentObject::Column {
        session.comment_on_column(name, comment)?;
        return Ok(completion);
    }
    let (schema, name) = object_name(name)?;
    let names = &session.environment.names;
    let path = Path {
        schema: schema.clone(),
        name: name.clone(),
    };
    let object = match kind {
        CommentObject::Table
        | CommentObject::View
        | CommentObject::MaterializedView
        | CommentObject::Sequence => session.relation_at(&path)?,
        CommentObject::Index => {
            let object = session.relation_or_index(&path)?;
            let indexes = match &object.body {
                Body::Table(body) => body.indexes.as_slice(),
                _ => &[],
            };
            let Some(index) = indexes.iter().find(|index| index.name == name) else {
                let message = format!("\"{name}\" is not an index");
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            };
            return session.comment_on_part(&object, index.oid, comment);
        }
        CommentObject::Schema => {
            let oid = names.schema(&name)?;
            let object = session.catalog().object(oid).cloned();
            object.ok_or_else(|| SqlError::internal("a schema has an object"))?
        }
        CommentObject::Type | CommentObject::Domain => {
            session.type_at((schema.as_deref(), &name))?
        }
        CommentObject::Role => match session.role_to_comment(&name)? {
            Some(object) => object,
            None => return Ok(completion),
        },
        CommentObject::Database => {
            session.comment_on_database(&name, comment)?;
            return Ok(completion);
        }
        CommentObject::Extension => return Ok(completion),
        other => {
            let instead = "Comment on tables, columns, views, sequences, types or schemas.";
            return Err(SqlError::unsupported(
                format!("COMMENT ON {other}"),
                instead,
            ));
        }
    };
    if !is_kind(kind, &object, &name) {
        let message = format!("\"{name}\" is not a {}", kind.to_string().to_lowercase());
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    }
    let mut object = Object::clone(&object);
    object.comment = comment;
    session.put(object, None)?;
    Ok(completion)
}

/// Gives a constraint a comment, or takes it away.
pub(super) fn on_constraint(
    session: &mut Session,
    (constraint, table): (&str, &Path),
    comment: Option<&str>,
) -> Result<Completion> {
    session.begin_definition()?;
    let object = session.relation_at(table)?;
    let constraints = match &object.body {
        Body::Table(body) => body.constraints.as_slice(),
        _ => &[],
    };
    if let Some(found) = constraints.iter().find(|own| own.name == constraint) {
        return session.comment_on_part(&object, found.oid, comment.map(str::to_owned));
    }
    let message = format!(
        "constraint \"{constraint}\" for table \"{}\" does not exist",
        table.name
    );
    Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
}

/// Gives a constraint of a domain a comment, or takes it away.
pub(super) fn on_domain_constraint(
    session: &mut Session,
    (constraint, path): (&str, &Path),
    comment: Option<&str>,
) -> Result<Completion> {
    session.begin_definition()?;
    let object = session.type_at((path.schema.as_deref(), &path.name))?;
    let (mut object, domain) = (Object::clone(&object), &object.name);
    let checks = match &object.body {
        Body::Domain(body) => body.checks.as_slice(),
        _ => {
            let message = format!("{domain} is not a domain");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
    };
    let at = checks.iter().position(|(own, _)| own == constraint);
    let at = at.ok_or_else(|| {
        let message = format!("constraint \"{constraint}\" for domain {domain} does not exist");
        SqlError::new(SqlState::UNDEFINED_OBJECT, message)
    })?;
    object.body.set_part_comment(at, comment.map(str::to_owned));
    session.put(object, None)?;
    Ok(Completion::new("COMMENT"))
}

/// Gives a function a comment, or takes it away.
pub(super) fn on_function(
    session: &mut Session,
    function: &Statement,
    comment: Option<&str>,
) -> Result<Completion> {
    session.begin_definition()?;
    let found = session.function_described(function)?;
    let found = found.map_err(|message| SqlError::new(SqlState::UNDEFINED_FUNCTION, message))?;
    let mut object = Object::clone(&found);
    object.comment = comment.filter(|text| !text.is_empty()).map(str::to_owned);
    session.put(object, None)?;
    Ok(Completion::new("COMMENT"))
}

impl Session {
    /// Gives an index or a constraint of a table a comment, or takes it away.
    fn comment_on_part(
        &mut self,
        table: &Object,
        part: Oid,
        comment: Option<String>,
    ) -> Result<Completion> {
        let mut object = table.clone();
        if let Body::Table(body) = &mut object.body {
            body.set_comment(part, comment);
        }
        self.put(object, None)?;
        Ok(Completion::new("COMMENT"))
    }

    fn type_at(&self, (schema, name): (Option<&str>, &str)) -> Result<Arc<Object>> {
        let found = self.environment.names.find(Names::Types, schema, name);
        found.cloned().ok_or_else(|| {
            let message = format!("type \"{name}\" does not exist");
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })
    }

    /// A role that gets a comment; none if it is the database's owner, which is no object.
    fn role_to_comment(&self, name: &str) -> Result<Option<Arc<Object>>> {
        let role = self.catalog().role_named(name);
        let role = role.ok_or_else(|| no_role(name))?;
        self.may_define_roles("must have CREATEROLE privilege")?;
        Ok(self.catalog().object(role).cloned())
    }

    fn comment_on_column(&mut self, name: &ObjectName, comment: Option<String>) -> Result<()> {
        let mut parts = name.0.clone();
        let column = match parts.pop() {
            Some(ObjectNamePart::Identifier(column)) => ident_text(&column),
            _ => String::new(),
        };
        if parts.is_empty() {
            let message = "column name must be qualified";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let (schema, name) = object_name(&ObjectName(parts))?;
        let object = match self.type_at((schema.as_deref(), &name)) {
            Ok(object) if matches!(object.body, Body::Composite(_)) => object,
            _ => self.relation_at(&Path { schema, name })?,
        };
        let mut object = Object::clone(&object);
        let table = &object.name;
        if !object.body.has_columns() {
            let message = format!("cannot set comment on relation \"{table}\"");
            let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
            return Err(error.detail("This operation is not supported for sequences."));
        }
        let at = object.body.column(&column).ok_or_else(|| {
            let message = format!("column \"{column}\" of relation \"{table}\" does not exist");
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })?;
        object.body.set_part_comment(at, comment);
        self.put(object, None)
    }
}

/// Whether an object that was found by a name is of a kind.
fn is_kind(kind: CommentObject, object: &Object, name: &str) -> bool {
    match kind {
        CommentObject::Table => matches!(object.body, Body::Table(_)) && object.name == name,
        CommentObject::View => matches!(object.body, Body::View(_)),
        CommentObject::MaterializedView => super::materialized::materialized(object).is_some(),
        CommentObject::Sequence => matches!(object.body, Body::Sequence(_)),
        _ => true,
    }
}
