//! Relations of the system: `pg_catalog`, `information_schema` and `indelible`; and functions and
//! operators as they are listed there.
//!
//! | file | content |
//! |---|---|
//! | `relations.txt` | names, numbers and columns of all relations, and values that never differ |
//! | `views.sql` | relations that are queries over the others |
//! | `storage` | how values of types are stored and ordered |
//! | `index` | properties of indexes |
//! | `routine` | functions, operators and conversions with their numbers |
//!
//! A relation that has neither rows nor a query is empty: its columns are there for clients that
//! look.

mod index;
mod relation;
mod routine;
mod storage;

pub use index::property as index_property;
pub use relation::{Relation, SystemColumn, all, by_oid, copied, find};
pub use routine::{
    FIRST, NAMES_ONLY, Routine, conversion_table, input_output, named_oid, operator, operator_oid,
    operators, routine, routine_named, routines, type_text,
};
pub(crate) use routine::{
    name_of, name_only, operator_called, operator_named, operator_signature, routine_called,
};
pub use storage::{OPERATOR_CLASSES, Storage, category_letter, operator_class, storage_of};
