//! Trees over pages: their changes, the atomicity of a change of several pages, and the allocation
//! of pages.
//!
//! `change` is the unit that the log repeats whole; `space` knows which pages are in use; `tree` is
//! the B+tree, `search_path` the search path of a session in one; `long` keeps values that are too
//! long for a leaf; `tables` makes tables of trees, `dropped` frees what they had, and `rows` works
//! on their rows; `commit` and `rollback` end transactions; `compact` moves pages to the front of
//! the file; `redo` and `recovery` restore all of it.
//!
//! Latches are taken from parents to children, from left to right among children of one parent, and
//! maps of space after all pages of trees.

pub mod change;
mod check;
mod commit;
pub mod compact;
mod dropped;
mod in_batch;
pub mod in_place;
pub mod locking;
pub mod long;
pub mod recovery;
pub mod redo;
mod rollback;
mod rows;
mod scan;
mod search_path;
pub mod space;
mod structure;
pub mod tables;
pub mod transaction;
pub mod tree;
pub mod values;
mod verify;

pub use change::Change;
pub use space::Pages;
pub use transaction::{Entry, Transaction};
pub use tree::Tree;

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
#[path = "use_tests.rs"]
mod tests;
