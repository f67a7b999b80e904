//! Rows of the relations of the system.
//!
//! | file | content |
//! |---|---|
//! | `schema`, `constraint`, `depend`, `needs`, `types`, `routine`, `role` | of the catalogue |
//! | `activity`, `settings` | sessions and costs; settings |
//! | `monitor` | statistics of columns, counters, time zones |
//! | `constant` | rows that never differ |
//! | `made` | which of them makes the rows of a relation |
//!
//! The room `sql_bind` declares the relations, and has those that are queries over the others. Rows
//! are made when a statement runs, from the catalogue that the statement sees.

mod activity;
mod constant;
mod constraint;
mod depend;
mod made;
mod monitor;
mod needs;
mod role;
mod routine;
mod rows;
mod schema;
mod settings;
mod types;

pub(crate) use constraint::domain_check;
pub(crate) use made::rows;
pub(crate) use rows::Sources;
pub(crate) use schema::catalogue_of;
