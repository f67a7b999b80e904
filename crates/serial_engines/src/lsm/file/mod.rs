//! The log-structured tables of `log`: a MemTable in volatile memory, and runs in files.
//!
//! `mem_table` takes the changes; `job` copies a full one to a `run`, and runs to larger ones;
//! `compaction` decides when and how fast, and changes the `manifest`. `lookup` searches them for
//! one key, `sources` reads them in order, both out of the `block_cache` where they can; `store`
//! and `trees` put tables together. The write-ahead log is the engine's.

mod block_cache;
pub(crate) mod compaction;
mod format;
mod job;
mod lookup;
pub(crate) mod manifest;
pub(crate) mod mem_table;
pub(crate) mod run;
mod sources;
pub(crate) mod store;
mod trees;
