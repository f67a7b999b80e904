//! Storage engines and the parts they are made of.
//!
//! Folders from the ground up; `tests/tests/tidy.rs` says which may use which:
//!
//! | module | job |
//! |---|---|
//! | `vocabulary`, `error`, `failure` | shared types; errors; the failure that stops a partition |
//! | `platform` | the memories and files of a partition |
//! | `clock`, `place`, `sync` | times of commits; maps by page; locks that schedule tests replace |
//! | [`record`] | schemas, values, keys, rows |
//! | [`log`] | logs in durable memory and files, checkpoints, archives, write sets |
//! | [`index`] | B+trees that change in place, are copied on write, or have slotted pages |
//! | [`table`] | tuples and the upkeep of their indexes |
//! | [`lsm`] | log-structured tables: MemTables, runs and their merges |
//! | [`page`] | pages, log records and undo entries of the page engine |
//! | [`lock`] | two-phase locking for the sessions of a partition |
//! | [`buffer`] | the buffer pool, the file of pages and its guards, the logs of the page engine |
//! | [`paged`] | trees over pages, redo and undo |
//! | [`engine`] | policy only, before commit, at commit, at recovery; no engine uses another |
//! | [`stamp`] | the generation of a file, by which an older copy is refused |
//! | [`probe`] | what a thread is doing, for measurements |

pub mod buffer;
mod clock;
pub mod engine;
mod error;
mod failure;
pub mod index;
pub mod lock;
pub mod log;
pub mod lsm;
pub mod page;
pub mod paged;
mod place;
mod platform;
pub mod probe;
pub mod record;
pub mod stamp;
mod sync;
pub mod table;
mod vocabulary;

pub use clock::Clock;
pub use error::{DamagedFile, DuplicateKey, LogFull, Result, StorageError, WrongFile};
pub use platform::Platform;
