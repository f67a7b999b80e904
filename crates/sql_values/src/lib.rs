//! The values of SQL: types, conversions, operators, functions and aggregates as PostgreSQL 15 has
//! them, and errors with its states.
//!
//! A value is a [`types::Datum`] of a [`types::Type`]. Nothing here knows of statements or tables;
//! the room `sql` above parses, plans and runs statements over these values.
//!
//! | module | job |
//! |---|---|
//! | `error` | errors with PostgreSQL's states, and those of the database as such |
//! | `types` | kinds, values, text and binary forms, casts, overloads, functions, aggregates |

pub mod error;
pub mod types;

pub use error::{SqlError, SqlState};
