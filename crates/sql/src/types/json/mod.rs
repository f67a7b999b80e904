//! Values of `jsonb`, and JSON as text.

mod binary;
mod text;
mod value;

pub(crate) use text::{Content, Escapes, Node, quote};
pub use value::Json;
pub(crate) use value::place;
