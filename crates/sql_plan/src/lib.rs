//! The catalogue of SQL, and plans over it: the forms between the binder and the executor.
//!
//! Both are data and their rewriting. Nothing here reads a statement or a row of a table; the room
//! `sql` above binds statements to plans, and runs them. Numbers of sequences are here as well.
//!
//! | module | job |
//! |---|---|
//! | `catalog` | schemas, tables, views and the rest, and their rows |
//! | `plan` | plans and their improvement |
//! | `print` | texts of bound expressions, for those who read the catalogue |

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

pub mod catalog;
pub mod plan;
pub mod print;

use sql_values::{error, types};
