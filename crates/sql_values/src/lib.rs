//! The values of SQL: types, conversions, operators, functions and aggregates as PostgreSQL 15 has
//! them, and errors with its states.
//!
//! A value is a [`types::Datum`] of a [`types::Type`]. Nothing here knows of statements or tables;
//! the room `sql` above parses, plans and runs statements over these values.
//!
//! | module | job |
//! |---|---|
//! | `codec` | bodies of rows of the catalogue, part by part |
//! | `condition` | names of errors, as handlers of exceptions have them |
//! | `encoding` | encodings of texts on the way to clients of a server |
//! | `error` | errors with PostgreSQL's states, and those of the database as such |
//! | `scram` | verifiers of passwords |
//! | `setting` | `SET`, `SHOW`, `RESET`: the settings of a session |
//! | `types` | kinds, values, text and binary forms, casts, overloads, functions, aggregates |
//! | `undo` | values from before the changes of a transaction |

pub mod codec;
pub mod condition;
pub mod encoding;
pub mod error;
pub mod scram;
pub mod setting;
pub mod types;
pub mod undo;

pub use error::{SqlError, SqlState};
