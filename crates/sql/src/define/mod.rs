//! Statements that define objects.
//!
//! | module | job |
//! |---|---|
//! | `change` | rows of the catalogue, names that are free |
//! | `table`, `column`, `index`, `view`, `schema`, `sequence`, `types` | new objects |
//! | `alter` | tables that change |
//! | `drop` | objects that go, with those that need them |
//! | `other` | maintenance, locks, `TRUNCATE` |
//!
//! A definition changes the catalogue of its transaction and writes the rows of the objects in it.
//! Things below are made at once, as no transaction of theirs can wait: they are loose until the
//! transaction ends.

mod alter;
mod change;
mod column;
mod drop;
mod index;
mod other;
mod schema;
mod sequence;
mod table;
mod types;
mod view;

use crate::error::Result;
use crate::parse::Parsed;
use crate::session::Session;
use crate::sink::Completion;
use sqlparser::ast::Statement;

/// Runs a statement that defines something; none if it is another one.
pub(crate) fn run(
    session: &mut Session,
    parsed: &Parsed,
    statement: &Statement,
) -> Result<Option<Completion>> {
    let completion = match statement {
        Statement::CreateTable(create) => table::create(session, parsed, create)?,
        Statement::CreateIndex(create) => index::create(session, create)?,
        Statement::CreateSchema {
            schema_name,
            if_not_exists,
            ..
        } => schema::create(session, schema_name, *if_not_exists)?,
        Statement::CreateSequence {
            name,
            if_not_exists,
            sequence_options,
            ..
        } => sequence::create(session, name, *if_not_exists, sequence_options)?,
        Statement::CreateView(create) => view::create(session, create)?,
        Statement::CreateType {
            name,
            representation,
        } => types::create_type(session, name, representation.as_ref())?,
        Statement::AlterTable(alter) => alter::alter(session, alter)?,
        Statement::CreateDomain(create) => types::create_domain(session, create)?,
        Statement::Drop {
            object_type,
            if_exists,
            names,
            cascade,
            ..
        } => drop::drop(session, *object_type, names, (*if_exists, *cascade))?,
        other => return other::run(session, other),
    };
    Ok(Some(completion))
}
