//! Comparison of two databases: the same statements on both, and the differences by cause.
//!
//! The first database is judged, the second is the reference. [`Pair`] runs scripts statement by
//! statement; an error of a statement is an answer like any other, so what must fail must fail
//! alike.

mod cause;
mod pair;
mod suite;
mod verdict;

pub use pair::{Difference, Pair, ScriptReport};
