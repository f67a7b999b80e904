//! Values of `jsonb`.

mod value;
mod text;

pub use value::Json;
