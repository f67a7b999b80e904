//! Log-structured tables: a MemTable that takes all changes, and older runs that are merged into
//! larger ones.
//!
//! `entry` defines a run's content for a key, `image` how an update makes a row's bytes, `filter`
//! which runs need not be searched, `gaps` which keys need not be scanned, `rows` what an operation
//! on a row does to a table's trees. They are shared by both kinds of table: `nv`, whose runs are
//! trees in durable memory, and `file`, whose runs are files of sorted blocks, with a MemTable in
//! volatile memory.

pub mod entry;
pub(crate) mod file;
pub mod filter;
pub(crate) mod gaps;
pub(crate) mod image;
pub(crate) mod keys;
pub(crate) mod nv;
pub(crate) mod pointer;
pub(crate) mod rows;

#[cfg(test)]
mod tests;
