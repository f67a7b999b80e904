//! `CREATE TYPE ... AS ENUM`, `ALTER TYPE` and `CREATE DOMAIN`.
//!
//! The labels of an enum keep their places, with room for others between them. A domain has the
//! conditions of the domain that it is made of, followed by its own.

use super::column::DEFAULT;
use crate::catalog::{Body, CompositeBody, DomainBody, EnumBody, Names, Object, Oid, domain_of};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::sink::Completion;
use crate::types::{Type, storage};
use sql_bind::type_named;
use sql_parse::{NOT_NULL, ident_text, mark_of, object_name};
use sqlparser::ast::{
    AlterType, AlterTypeAddValuePosition, AlterTypeOperation, CreateDomain, Expr, ObjectName,
    TableConstraint, UserDefinedTypeCompositeAttributeDef, UserDefinedTypeRepresentation,
};

/// Creates a type.
pub(super) fn create_type(
    session: &mut Session,
    name: &ObjectName,
    representation: Option<&UserDefinedTypeRepresentation>,
) -> Result<Completion> {
    let labels = match representation {
        Some(UserDefinedTypeRepresentation::Enum { labels }) => labels,
        Some(UserDefinedTypeRepresentation::Composite { attributes }) => {
            return create_composite(session, name, attributes);
        }
        _ => {
            let instead = "Use an enum, a domain, or a type of fields.";
            return Err(SqlError::unsupported("this kind of type", instead));
        }
    };
    session.begin_definition()?;
    let (namespace, name) = session.new_type_name(name)?;
    let mut texts: Vec<String> = Vec::with_capacity(labels.len());
    for label in labels {
        check_label(&label.value)?;
        if texts.contains(&label.value) {
            return Err(duplicate_label(&label.value));
        }
        texts.push(label.value.clone());
    }
    // The number after it is that of its arrays.
    let oid = session.sql.next_oid(2);
    let body = Body::Enum(EnumBody::new(texts));
    session.put(
        Object {
            oid,
            namespace,
            name,
            comment: None,
            body,
        },
        None,
    )?;
    Ok(Completion::new("CREATE TYPE"))
}

/// Creates a type of rows.
fn create_composite(
    session: &mut Session,
    name: &ObjectName,
    attributes: &[UserDefinedTypeCompositeAttributeDef],
) -> Result<Completion> {
    session.begin_definition()?;
    let (namespace, name) = session.new_type_name(name)?;
    let mut fields: Vec<(String, Type)> = Vec::with_capacity(attributes.len());
    let mut domains = Vec::with_capacity(attributes.len());
    for attribute in attributes {
        let field = ident_text(&attribute.name);
        if fields.iter().any(|(known, _)| *known == field) {
            let message = format!("column \"{field}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        let found = type_named(&session.environment.names, &attribute.data_type)?;
        storage::column_type(found.data_type)?;
        fields.push((field, found.data_type));
        domains.push(found.domain.unwrap_or_default());
    }
    if domains.iter().all(|domain| *domain == 0) {
        domains.clear();
    }
    let object = Object {
        oid: session.sql.next_oid(1),
        namespace,
        name,
        comment: None,
        body: Body::Composite(CompositeBody {
            fields,
            comments: Vec::new(),
            domains,
        }),
    };
    session.put(object, None)?;
    Ok(Completion::new("CREATE TYPE"))
}

/// Changes an enum, or the name of a type.
pub(super) fn alter_type(session: &mut Session, alter: &AlterType) -> Result<Completion> {
    session.begin_definition()?;
    let completion = Completion::new("ALTER TYPE");
    let (schema, name) = object_name(&alter.name)?;
    let found = session
        .environment
        .names
        .find(Names::Types, schema.as_deref(), &name)
        .cloned();
    let found = found.ok_or_else(|| {
        let message = format!("type \"{name}\" does not exist");
        SqlError::new(SqlState::UNDEFINED_OBJECT, message)
    })?;
    let mut object = Object::clone(&found);
    if let AlterTypeOperation::Rename(rename) = &alter.operation {
        session.rename_object(&found, &ident_text(&rename.new_name))?;
        return Ok(completion);
    }
    let Body::Enum(body) = &mut object.body else {
        let message = format!("{name} is not an enum");
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    };
    match &alter.operation {
        AlterTypeOperation::AddValue(added) => {
            check_label(&added.value.value)?;
            if body.labels.contains(&added.value.value) {
                let error = duplicate_label(&added.value.value);
                let host = &mut session.environment.host;
                host.skip_or_fail(added.if_not_exists, error)?;
                return Ok(completion);
            }
            let at = match &added.position {
                None => body.labels.len(),
                Some(AlterTypeAddValuePosition::Before(next)) => label_place(body, &next.value)?,
                Some(AlterTypeAddValuePosition::After(last)) => label_place(body, &last.value)? + 1,
            };
            if !body.insert(at, added.value.value.clone()) {
                let message = format!("there is no room for a label of {name} at this place");
                let hint = "Create a type with all labels, and change the columns to it.";
                let state = SqlState::PROGRAM_LIMIT_EXCEEDED;
                return Err(SqlError::new(state, message).hint(hint));
            }
        }
        AlterTypeOperation::RenameValue(renamed) => {
            let at = label_place(body, &renamed.from.value)?;
            check_label(&renamed.to.value)?;
            if body.labels.contains(&renamed.to.value) {
                return Err(duplicate_label(&renamed.to.value));
            }
            body.labels[at].clone_from(&renamed.to.value);
            session.rename_label(object, (&renamed.from.value, &renamed.to.value))?;
            return Ok(completion);
        }
        AlterTypeOperation::Rename(_) => {}
    }
    session.put(object, None)?;
    Ok(completion)
}

fn check_label(label: &str) -> Result<()> {
    if label.len() <= 63 {
        return Ok(());
    }
    let message = format!("invalid enum label \"{label}\"");
    let detail = "Labels must be 63 bytes or less.";
    Err(SqlError::new(SqlState::INVALID_NAME, message).detail(detail))
}

fn duplicate_label(label: &str) -> SqlError {
    let message = format!("enum label \"{label}\" already exists");
    SqlError::new(SqlState::DUPLICATE_OBJECT, message)
}

fn label_place(body: &EnumBody, label: &str) -> Result<usize> {
    let place = body.labels.iter().position(|own| own == label);
    place.ok_or_else(|| {
        let message = format!("\"{label}\" is not an existing enum label");
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
    })
}

/// Creates a domain.
pub(super) fn create_domain(session: &mut Session, create: &CreateDomain) -> Result<Completion> {
    session.begin_definition()?;
    let (namespace, name) = session.new_type_name(&create.name)?;
    let base = type_named(&session.environment.names, &create.data_type)?;
    let mut domain = DomainBody {
        base: base.data_type,
        not_null: false,
        default: None,
        checks: Vec::new(),
        unproven: Vec::new(),
        comments: Vec::new(),
        elements: base.domain.filter(|number| *number != domain_of(*number)),
    };
    if let Some(parent) = base.domain.and_then(|oid| session.catalog().object(oid))
        && let Body::Domain(parent) = &parent.body
    {
        domain = DomainBody {
            comments: Vec::new(),
            ..parent.clone()
        };
    }
    if let Some(default) = &create.default {
        domain.default = Some(session.kept_text(default, DEFAULT)?);
    }
    for constraint in &create.constraints {
        let TableConstraint::Check(check) = constraint else {
            let instead = "Use CHECK or NOT NULL.";
            return Err(SqlError::unsupported(
                "this constraint of a domain",
                instead,
            ));
        };
        if matches!(&*check.expr, Expr::Identifier(name) if mark_of(name) == Some(NOT_NULL)) {
            domain.not_null = true;
            continue;
        }
        let text = session.domain_check(&check.expr, domain.base)?;
        let own = check.name.as_ref().map(ident_text);
        let own = own.unwrap_or_else(|| super::domain::free_name(&name, &domain));
        domain.checks.push((own, text));
    }
    let oid = session.sql.next_oid(1);
    let body = Body::Domain(domain);
    session.put(
        Object {
            oid,
            namespace,
            name,
            comment: None,
            body,
        },
        None,
    )?;
    Ok(Completion::new("CREATE DOMAIN"))
}

impl Session {
    /// The schema and the name of a new type.
    fn new_type_name(&mut self, name: &ObjectName) -> Result<(Oid, String)> {
        let (schema, name) = object_name(name)?;
        let namespace = match &schema {
            Some(schema) => self.schema_for_new(schema)?,
            None => self.environment.names.target_schema()?,
        };
        match self.has_type(namespace, &name) {
            true => Err(type_exists(&name)),
            false => Ok((namespace, name)),
        }
    }

    /// Whether a schema has a type of a name; the rows of a table or a view are one.
    pub(super) fn has_type(&self, namespace: Oid, name: &str) -> bool {
        let catalog = self.catalog();
        let relation = catalog.find(Names::Relations, namespace, name);
        let has_rows = relation.is_some_and(|object| {
            object.name == name && matches!(object.body, Body::Table(_) | Body::View(_))
        });
        has_rows || catalog.find_oid(Names::Types, namespace, name).is_some()
    }

    /// Fails if a new relation would have the name of a type.
    pub(super) fn refuse_type_of_name(&self, namespace: Oid, name: &str) -> Result<()> {
        let hint = "A relation has an associated type of the same name, so you must use a name that doesn't conflict with any existing type.";
        match self.catalog().find_oid(Names::Types, namespace, name) {
            Some(_) => Err(type_exists(name).hint(hint)),
            None => Ok(()),
        }
    }
}

/// The error of a type whose name another one has.
pub(super) fn type_exists(name: &str) -> SqlError {
    let message = format!("type \"{name}\" already exists");
    SqlError::new(SqlState::DUPLICATE_OBJECT, message)
}
