//! Vocabulary: types that engines, tables, indexes and logs all speak in.
//!
//! The module is at the bottom of the room and uses only keys and numbers of tables, so every
//! folder may use it. [`engine`](crate::engine) exports all of it for users of the room.

use crate::record::{IndexId, KeyBuf, TableId};
use std::fmt;

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// Durable when `commit` returns. Costs a sync each where the method has a log file.
    #[default]
    Immediate,
    /// Durable with its group; the caller waits for
    /// [`Reads::durable`](crate::engine::Reads::durable) before it acknowledges.
    Group,
    /// Durable at some later time, in the page methods on real devices after a fifth of a second.
    /// Atomic all the same.
    None,
}

/// Changes of concurrent transactions that a transaction may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Isolation {
    /// None: as if all ran one after the other.
    #[default]
    Serializable,
    /// Rows inserted meanwhile into a range that it has read. Rows that it has read do not change.
    RepeatableRead,
    /// Changes committed meanwhile, but none that may still be undone.
    ReadCommitted,
}

/// Position of a commit in the partition's order; tickets grow by one a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct CommitTicket(pub u64);

/// Number of a transaction over several partitions, or of a mark in their logs, unique in the life
/// of a database and never 0. Numbers grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GlobalTxnId(pub u64);

/// A range of keys of one index, both ends included.
#[derive(Clone, Debug)]
pub struct ScanRange {
    /// The table.
    pub table: TableId,
    /// The secondary index, or the primary key.
    pub index: Option<IndexId>,
    /// Smallest key.
    pub low: KeyBuf,
    /// Largest key.
    pub high: KeyBuf,
    /// Order of the visit.
    pub direction: Direction,
}

/// Order of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Smallest key first.
    Forward,
    /// Largest key first.
    Backward,
}

/// Bytes in use, by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Tuples and their fields.
    pub table: u64,
    /// Primary and secondary indexes.
    pub index: u64,
    /// Logs.
    pub log: u64,
    /// Checkpoints.
    pub checkpoint: u64,
    /// Headers, directories, allocator metadata.
    pub other: u64,
}

impl Footprint {
    /// The sum of all parts.
    pub fn total(&self) -> u64 {
        self.table + self.index + self.log + self.checkpoint + self.other
    }
}

/// Result of a deep check.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// Rows checked.
    pub rows: u64,
    /// Index entries checked.
    pub index_entries: u64,
    /// Allocated blocks checked against the reachable ones.
    pub blocks: u64,
    /// Contents that keys have only the beginning and the hash of, so that their order there is not
    /// that of the contents.
    pub truncated_keys: u64,
    /// One sentence for each damage, with its place.
    pub damage: Vec<String>,
}

/// Order of durable steps in the NVM-aware methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FenceOrder {
    /// A transaction of one operation commits by one record and one fence; a longer one that reads
    /// what it wrote does as in [`FenceOrder::Shared`].
    #[default]
    Single,
    /// Undo only, as in the paper, with fences shared among steps: three fences a transaction of
    /// one operation.
    Shared,
    /// The paper's undo log, a linked list of entries in blocks of the heap, and a sync after each
    /// step, as in its Table 2.
    Paper,
}

impl FenceOrder {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Shared => "shared",
            Self::Paper => "paper",
        }
    }
}

/// Images of a changed or deleted row in a write-ahead log. Recovery reads both kinds, also in one
/// log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LogImages {
    /// The new row. Recovery needs no more, because only committed changes reach a checkpoint or a
    /// run.
    #[default]
    After,
    /// The old row as well, as in the paper.
    BeforeAndAfter,
}

/// Form of a slotted page's header in a log. Recovery reads both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HeaderImages {
    /// The difference to the header before it, if that is shorter.
    #[default]
    Shortest,
    /// The whole header, as in the paper.
    Whole,
}

/// Number of a page: its place in the file, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u32);

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}", self.0)
    }
}
