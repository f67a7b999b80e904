//! Values of `jsonb`, and JSON as text.
//!
//! `value` has the tree, `text` and `binary` its two forms, `convert` makes JSON of any value, and
//! `edit` finds and changes parts of a tree.

mod binary;
pub mod convert;
pub mod edit;
mod text;
mod value;

pub use text::{Content, Escapes, Node, quote};
pub use value::Json;
pub use value::place;
