//! Relations of the system: `pg_catalog`, `information_schema` and `indelible`.
//!
//! | file | content |
//! |---|---|
//! | `relations.txt` | names, numbers and columns of all of them, and values that never differ |
//! | `schema`, `constraint`, `types`, `routine`, `role` | rows made of the catalogue |
//! | `activity` | sessions, settings and costs |
//! | `constant` | rows that never differ |
//! | `views.sql` | relations that are queries over the others |
//!
//! A relation that has neither rows nor a query is empty: its columns are there for clients that
//! look. Rows are made when a statement runs, from the catalogue that the statement sees.

mod activity;
mod constant;
mod constraint;
mod relation;
mod role;
mod routine;
mod rows;
mod schema;
mod types;

pub(crate) use constraint::domain_check;
pub(crate) use relation::{all, by_oid, find};
pub(crate) use role::DATABASE;
pub(crate) use routine::{Routine, operator, operator_named, routine, routine_called, type_text};
pub(crate) use rows::{Content, Relation, Sources};
