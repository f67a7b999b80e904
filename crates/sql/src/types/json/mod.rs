//! Values of `jsonb`, and JSON as text.
//!
//! `value` has the tree, `text` and `binary` its two forms, `convert` makes JSON of any value, and
//! `edit` finds and changes parts of a tree.

mod binary;
pub(crate) mod convert;
pub(crate) mod edit;
mod text;
mod value;

pub(crate) use text::{Content, Escapes, Node, quote};
pub use value::Json;
pub(crate) use value::place;
