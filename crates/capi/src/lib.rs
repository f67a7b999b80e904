//! The C interface, in the shape of SQLite's.
//!
//! A call checks its handles and pointers, does its work in safe code over a
//! [`client::TypedClient`], and returns a code. `include/indelible.h` is made from these files, so
//! their comments are its documentation.
//!
//! | module | job |
//! |---|---|
//! | `handle` | numbers of open handles, and what they stand for |
//! | `code`, `failure`, `error` | the codes of calls; the error of the last call |
//! | `edge` | pointers of the caller, and panics |
//! | `database` | opening, connections, whole texts of statements |
//! | `arrow` | results as streams of Arrow |
//! | `statement`, `column` | prepared statements; the values of their rows |
//!
//! Invariants:
//!
//! 1. No handle is ever used as an address: it is looked up, so one that was closed is refused.
//! 2. No panic leaves a call.
//! 3. The only addresses that are used are those of arguments, during the call that they came with,
//!    and out-arguments are written once, at its end.

#![expect(
    unsafe_code,
    reason = "C passes addresses; each use of one is argued where it stands"
)]
#![allow(
    clippy::doc_markdown,
    reason = "these comments become those of the header, which is no Markdown"
)]
#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "only C calls these functions, and the head of the header says what pointers must be"
)]

mod arrow;
mod code;
mod column;
mod database;
mod edge;
mod error;
mod failure;
mod handle;
mod statement;

pub use arrow::{ArrowArrayStream, indelible_arrow_stream};
pub use code::*;
pub use column::*;
pub use database::*;
pub use error::*;
pub use statement::*;
