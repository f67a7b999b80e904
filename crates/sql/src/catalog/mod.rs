//! The catalogue, and the relations of the system over it.
//!
//! Objects and their rows are from the room `sql_plan`, the columns of the relations from
//! `sql_bind`. Their rows need what the session knows, so they are here.

pub(crate) mod system;

pub(crate) use sql_plan::catalog::*;
pub(crate) use system::{catalogue_of, domain_check};
