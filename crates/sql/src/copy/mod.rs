//! `COPY`: rows as text, in PostgreSQL's text format and in CSV.
//!
//! | module | job |
//! |---|---|
//! | `format` | the options of the statement |
//! | `read` | bytes become records of fields |
//! | `write` | fields become bytes |
//!
//! A field is a text or NULL here; values are made of it by the session.

mod format;
mod read;
mod write;

pub(crate) use format::{Format, Header};
pub(crate) use read::Reader;
pub(crate) use write::write_record;
