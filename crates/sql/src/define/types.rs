//! `CREATE TYPE ... AS ENUM` and `CREATE DOMAIN`.
//!
//! The labels of an enum keep their places. A domain has the conditions of the domain that it is
//! made of, followed by its own.

use crate::bind::type_named;
use crate::catalog::{Body, Column, DomainBody, EnumBody, Names, Object, Oid};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::{ident_text, object_name};
use crate::session::Session;
use crate::sink::Completion;
use crate::types::Kind;
use sqlparser::ast::{CreateDomain, ObjectName, TableConstraint, UserDefinedTypeRepresentation};

/// Creates a type.
pub(super) fn create_type(
    session: &mut Session,
    name: &ObjectName,
    representation: Option<&UserDefinedTypeRepresentation>,
) -> Result<Completion> {
    let Some(UserDefinedTypeRepresentation::Enum { labels }) = representation else {
        let instead = "Use an enum, a domain, or a table.";
        return Err(SqlError::unsupported("this kind of type", instead));
    };
    session.begin_definition()?;
    let (namespace, name) = session.new_type_name(name)?;
    let mut texts: Vec<String> = Vec::with_capacity(labels.len());
    for label in labels {
        if label.value.len() > 63 {
            let message = format!("invalid enum label \"{}\"", label.value);
            let detail = "Labels must be 63 bytes or less.";
            return Err(SqlError::new(SqlState::INVALID_NAME, message).detail(detail));
        }
        if texts.contains(&label.value) {
            let message = format!("enum label \"{}\" already exists", label.value);
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
        }
        texts.push(label.value.clone());
    }
    // The number after it is that of its arrays.
    let oid = session.sql.next_oid(2);
    let body = Body::Enum(EnumBody { labels: texts });
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
    };
    if let Some(parent) = base.domain.and_then(|oid| session.catalog().object(oid))
        && let Body::Domain(parent) = &parent.body
    {
        domain = parent.clone();
    }
    if let Some(default) = &create.default {
        domain.default = Some(session.kept_text(default)?);
    }
    let value = [Column::new("value", domain.base)];
    for constraint in &create.constraints {
        let TableConstraint::Check(check) = constraint else {
            let instead = "Use CHECK (VALUE IS NOT NULL), or another CHECK.";
            return Err(SqlError::unsupported(
                "this constraint of a domain",
                instead,
            ));
        };
        let text = session.kept_text(&check.expr)?;
        session.check_expression(&text, "", &value, Some((Kind::Bool.plain(), "CHECK")))?;
        let own = check.name.as_ref().map(ident_text);
        let number = domain.checks.len();
        let own = own.unwrap_or_else(|| match number {
            0 => format!("{name}_check"),
            number => format!("{name}_check{number}"),
        });
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
    fn new_type_name(&self, name: &ObjectName) -> Result<(Oid, String)> {
        let (schema, name) = object_name(name)?;
        let namespace = match &schema {
            Some(schema) => self.environment.names.schema(schema)?,
            None => self.environment.names.target_schema()?,
        };
        if self
            .catalog()
            .find(Names::Types, namespace, &name)
            .is_some()
        {
            let message = format!("type \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
        }
        Ok((namespace, name))
    }
}
