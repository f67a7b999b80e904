//! Relations of the system: `pg_catalog`, `information_schema` and `indelible`; and functions and
//! operators as they are listed there.
//!
//! | file | content |
//! |---|---|
//! | `relations.txt` | names, numbers and columns of all relations, and values that never differ |
//! | `views.sql` | relations that are queries over the others |
//! | `routine` | functions, operators and conversions with their numbers |
//!
//! A relation that has neither rows nor a query is empty: its columns are there for clients that
//! look.

mod relation;
mod routine;

pub use relation::{Relation, SystemColumn, all, by_oid, find};
pub use routine::{
    FIRST, NAMES_ONLY, Routine, conversion_table, input_output, named_oid, operator, operator_oid,
    operators, routine, routine_named, routines, type_text,
};
pub(crate) use routine::{
    name_of, name_only, operator_called, operator_named, operator_signature, routine_called,
};
