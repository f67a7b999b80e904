//! Statements that define objects.
//!
//! | module | job |
//! |---|---|
//! | `change` | rows of the catalogue, names that are free |
//! | `table`, `column`, `index`, `view`, `schema`, `sequence`, `types` | new objects |
//! | `like` | tables like others |
//! | `materialized` | materialized views |
//! | `immutable` | expressions whose values may depend on the row only |
//! | `label` | labels of enums that get other names |
//! | `alter`, `constraint`, `identity` | tables that change |
//! | `domain` | domains that change |
//! | `drop`, `drop_column`, `drop_index` | objects and columns that go, with those that need them |
//! | `extension` | extensions whose functions are built in |
//! | `reference` | tables and columns to which foreign keys refer |
//! | `temporary` | temporary objects, and those that must not depend on them |
//! | `role`, `defaults` | roles and privileges, defaults of roles |
//! | `comment`, `reindex`, `other` | comments, maintenance, locks, `TRUNCATE` |
//!
//! A definition changes the catalogue of its transaction and writes the rows of the objects in it.
//! Things below are made at once, as no transaction of theirs can wait: they are loose until the
//! transaction ends.

mod alter;
mod change;
mod column;
mod comment;
mod constraint;
mod defaults;
mod domain;
mod drop;
mod drop_column;
mod drop_index;
mod extension;
mod follow;
mod function;
mod grant;
mod identity;
mod immutable;
mod index;
mod inherit;
mod label;
mod like;
mod linked;
mod materialized;
mod naming;
mod other;
mod partition;
mod reference;
mod reindex;
mod role;
mod schema;
mod sequence;
mod table;
mod temporary;
mod typed;
mod types;
mod view;

pub(crate) use extension::{BUILT_IN, LANGUAGE};
pub(crate) use role::no_role;
pub(crate) use view::{executed, query_of_table, select_into, table_of_select};

use crate::catalog::CHECKPOINT;
use crate::error::{Result, SqlError};
use crate::session::Session;
use crate::sink::Completion;
use sql_parse::{Own, Parsed};
use sqlparser::ast::{ObjectType, Statement};

/// Runs a statement that defines something; none if it is another one.
pub(crate) fn run(
    session: &mut Session,
    parsed: &Parsed,
    statement: &Statement,
) -> Result<Option<Completion>> {
    let completion = define(session, parsed, statement);
    let host = &mut session.environment.host;
    match &completion {
        Ok(_) => host.tell_cascades(),
        Err(_) => host.cascades.clear(),
    }
    completion
}

fn define(
    session: &mut Session,
    parsed: &Parsed,
    statement: &Statement,
) -> Result<Option<Completion>> {
    if let Some(own) = &parsed.own {
        return own_statement(session, parsed, own).map(Some);
    }
    let completion = match statement {
        Statement::CreateTable(create) => table::create(session, parsed, create)?,
        Statement::CreateIndex(create) => index::create(session, create)?,
        Statement::CreateSchema {
            schema_name,
            if_not_exists,
            ..
        } => schema::create(session, schema_name, *if_not_exists)?,
        Statement::CreateSequence {
            temporary,
            name,
            if_not_exists,
            sequence_options,
            ..
        } => sequence::create(
            session,
            (name, *temporary),
            *if_not_exists,
            sequence_options,
        )?,
        Statement::CreateFunction(create) => function::create(session, create)?,
        Statement::DropFunction(drop) => function::drop(session, drop)?,
        Statement::CreateView(create) if create.materialized => {
            materialized::create(session, create)?
        }
        Statement::CreateView(create) => view::create(session, create)?,
        Statement::RefreshMaterializedView(refresh) => materialized::refresh(session, refresh)?,
        Statement::CreateType {
            name,
            representation,
        } => types::create_type(session, name, representation.as_ref())?,
        Statement::AlterTable(alter) => alter::alter(session, alter)?,
        Statement::AlterType(alter) => types::alter_type(session, alter)?,
        Statement::CreateDomain(create) => types::create_domain(session, create)?,
        Statement::Drop {
            object_type: ObjectType::Role | ObjectType::User,
            if_exists,
            names,
            ..
        } => role::drop(session, names, *if_exists)?,
        Statement::Drop {
            object_type,
            if_exists,
            names,
            cascade,
            ..
        } => drop::drop(session, *object_type, names, (*if_exists, *cascade))?,
        Statement::DropDomain(domain) => drop::drop_domain(session, domain)?,
        Statement::Comment {
            object_type,
            object_name,
            comment,
            ..
        } => comment::comment(session, (*object_type, object_name), comment.as_deref())?,
        Statement::CreateExtension(create) => extension::create(session, create)?,
        Statement::DropExtension(drop) => extension::drop(session, drop)?,
        Statement::Grant(one) => grant::grant(session, one)?,
        Statement::Revoke(one) => grant::revoke(session, one)?,
        other => {
            return match role::run(session, other)? {
                Some(completion) => Ok(Some(completion)),
                None => other::run(session, other),
            };
        }
    };
    Ok(Some(completion))
}

/// Runs a statement that the parser does not know.
fn own_statement(session: &mut Session, parsed: &Parsed, own: &Own) -> Result<Completion> {
    match own {
        Own::Alter(alter) => naming::alter(session, alter),
        Own::Storage {
            if_exists,
            name,
            column,
        } => other::storage(session, (name, *if_exists), column.as_deref()),
        Own::CommentOnFunction { function, comment } => {
            comment::on_function(session, function, comment.as_deref())
        }
        Own::CreateSchema(parts) => schema::create_with_objects(session, parsed, parts),
        Own::AttachIndex { index, partition } => reindex::attach(session, index, partition),
        Own::Reindex(reindex) => reindex::reindex(session, reindex),
        Own::Cluster(target) => reindex::cluster(session, target.as_ref()),
        Own::AlterSequence {
            if_exists,
            name,
            change,
        } => sequence::alter(session, (name, *if_exists), change),
        Own::DefaultPrivileges(written) => defaults::privileges(session, written),
        Own::SessionDefaults(written) => defaults::settings(session, written),
        Own::ReassignOwned { from, to } => defaults::reassign(session, from, to),
        Own::DropOwned { roles, cascade } => defaults::drop_owned(session, roles, *cascade),
        Own::DropMissing(missing) => drop::drop_missing(session, missing),
        Own::Checkpoint => {
            let role = session.environment.names.role;
            if !session.catalog().has_rights_of(role, CHECKPOINT) {
                let message =
                    "must be superuser or have privileges of pg_checkpoint to do CHECKPOINT";
                return Err(role::refused(message));
            }
            session.sql.database().checkpoint()?;
            Ok(Completion::new("CHECKPOINT"))
        }
        Own::SetConstraints { names, deferred } => {
            session.set_constraints(names.as_deref(), *deferred)?;
            Ok(Completion::new("SET CONSTRAINTS"))
        }
        Own::AlterConstraint {
            table,
            constraint,
            deferral,
        } => session.alter_constraint((&table.0, table.1), constraint, *deferral),
        Own::Do(block) => session.run_block(block),
        Own::TwoPhase { .. } => Err(SqlError::internal("a step of two phases")),
        Own::SetSchema {
            if_exists,
            name,
            schema,
            is_view,
        } => schema::move_relation(session, (name, *if_exists), schema, *is_view),
        Own::CommentOnConstraint {
            constraint,
            of,
            is_domain,
            comment,
        } => {
            let comment = comment.as_deref().filter(|text| !text.is_empty());
            match is_domain {
                true => comment::on_domain_constraint(session, (constraint, of), comment),
                false => comment::on_constraint(session, (constraint, of), comment),
            }
        }
    }
}
