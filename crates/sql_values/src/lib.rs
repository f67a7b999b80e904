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

#![allow(
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of rows, columns and bytes are far below the limits of both types"
)]
#![allow(
    clippy::single_match_else,
    clippy::match_bool,
    clippy::match_same_arms,
    clippy::match_single_binding,
    clippy::ignored_unit_patterns,
    reason = "a match shows all ways side by side, in the order of the grammar or the manual"
)]
#![allow(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "the parts of a binder are methods of one form, whether or not they can fail"
)]

pub mod error;
pub mod types;

pub use error::{SqlError, SqlState};
