//! `COPY`: rows in PostgreSQL's text format, in CSV, and in its binary format.
//!
//! | module | job |
//! |---|---|
//! | `format` | the options of the statement |
//! | `read` | bytes become records of fields |
//! | `write` | fields become bytes |
//! | `binary` | both in the binary format |
//!
//! A field is a text, bytes or NULL here; values are made of it by the session.

mod binary;
mod format;
mod read;
mod write;

pub use binary::{BinaryReader, write_end, write_fields, write_header};
pub use format::{DataEncoding, Format, Header};
pub use read::{Reader, shown};
pub use write::write_record;
