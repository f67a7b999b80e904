//! Rows of SQL that a statement keeps: in memory within a budget, and beyond that in temporary
//! files.
//!
//! ```text
//! Memory (work_mem of a statement)       Files (temp_file_limit of a session)
//!    +- Share (an operator's part)          +- Blocks (the file of an operator)
//!                                               +- Chain (rows, one after the other)
//!
//! Sorter, Store, Partitions: rows under a Share, then in Chains
//! ```
//!
//! Files have no names, so nothing is left over however the process ends. An operator has one file
//! at most, and its chains share the blocks of it; blocks that have been read are used again.
//!
//! | module | job |
//! |---|---|
//! | `budget` | bytes of memory, shared by the operators of a statement |
//! | `files`, `chain` | temporary files, and sequences of rows in their blocks |
//! | `codec` | rows as bytes |
//! | `columns` | batches column by column |
//! | `sort` | rows in an order, by merging sorted runs |
//! | `store` | rows in the order in which they came, read by their numbers |
//! | `partition`, `hash` | rows divided by the hashes of their keys |
//! | `row_table` | rows in memory, found by their keys |
//! | `key_set` | different rows, that a value is looked up in |

#![allow(
    clippy::cast_sign_loss,
    reason = "lengths and places fit all integers here, and bits are moved between types of one width"
)]

mod budget;
mod chain;
mod codec;
mod columns;
mod files;
mod hash;
mod key_set;
mod partition;
mod row_table;
mod sort;
mod store;

pub use budget::{Memory, Share, bytes_of};
pub use chain::{Chain, Reader};
pub use columns::{BATCH_ROWS, ColumnValues, Columns};
pub use files::{Blocks, Files};
pub use hash::{BuildRowHasher, hash_of};
pub use key_set::KeySet;
pub use partition::{LEVELS_MAX, Partitions};
pub use row_table::{NO_ROW, RowTable};
pub use sort::{Method, Order, Sorted, Sorter, Usage};
pub use store::{SegmentCache, Store};

use sql_values::types::Datum;

/// Values of a row.
pub type Row = Vec<Datum>;
