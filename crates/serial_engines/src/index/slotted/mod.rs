//! B+trees of slotted pages in durable memory, changed in place.
//!
//! A page has a header that names its cells in the order of their keys, and cells. New cells go to
//! space that no header names; they count only with the new header. A group of transactions makes
//! its cells durable first. Then it writes the new headers of the pages that it changed, and the
//! words of the heap that go with them, as one record of a log (`fash`), or, where only one header
//! changed that fits a line, that header in the page itself (`fast`). Cells that no header names
//! any more are free space from the next group on.
//!
//! | file | job |
//! |---|---|
//! | `header` | the bytes of a header, its two places in a page, and which of them is in force |
//! | `cell` | the bytes of a cell, and the room in a page |
//! | `log` | the record of headers and words, and what recovery makes of it |
//! | `records` | the places of records, which move on |
//! | `pages` | pages that the group has changed, their undo and room, and how it becomes durable |
//! | `keys` | search among the keys of one page |
//! | `tree` | lookups and scans |
//! | `change` | insertion, split, rewriting, removal, merge |
//! | `long` | values longer than a page has room for |
//! | `inspect` | checks and removal of a whole tree |
//! | `trees` | the trees as tables see them |
//! | `versions` | superseded headers that snapshots show |
//! | `snapshot` | the trees as a snapshot sees them |
//! | `cached` | pages in volatile memory, over a file and a log of their changes (`nvwal`,
//! | | `slot-header-journal`) |
//!
//! After ASPLOS 2017 (Failure-Atomic Slotted Paging); docs/methods.md says where we differ.

mod cached;
mod cell;
mod change;
mod header;
mod inspect;
mod keys;
mod log;
mod long;
mod pages;
mod records;
mod snapshot;
mod tree;
mod trees;
mod versions;

pub(crate) use cached::{CacheOptions, log_bytes};
pub use cached::{CachedPages, HomeIdentity};
pub use header::Geometry;
pub use pages::{CommitKind, SlottedPages};
pub use snapshot::SlottedSnapshot;
pub use tree::SlottedTree;
