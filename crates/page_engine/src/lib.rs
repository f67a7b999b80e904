//! The page engine: trees of slotted pages, which the sessions of a partition change at the same
//! time, with locks, a log and recovery after ARIES.
//!
//! A method is a choice of a log, of a guard against torn pages, and of a place for pages
//! (`storage/src/engine/axes.rs`):
//!
//! | methods | log, guard and place in [`buffer`] | serves |
//! |---|---|---|
//! | `full-page-writes` | `central_log.rs`, images in the log | every user |
//! | `nv-logging` | `nv_log.rs`, `guard/double_write.rs` | users with durable memory |
//! | `distributed-log` | the same, rings shared | readers of NV-Logging |
//! | `nv-disk-decentralized` | `session_files.rs`, the same guard | readers of NV-Logging |
//! | `dwb`, `dwb-batched`, `dwb-off` and aliases | `central_log.rs` | comparisons |
//! | `nvm-dwb` | `central_log.rs`, `guard/nv_double_write.rs` | readers of NVM-DWB |
//! | `nvm-dwb-log`, `nvm-dwb-log-opt` | `nv_log.rs`, `guard/page_cache.rs` | readers of NVM-DWB |
//! | `in-place`, `nv-wsp` | `nv_log.rs`, `nv_pages.rs` | readers of NVRAM-era |
//! | `group-commit` | `batch_log.rs`, `nv_pages.rs` | readers of NVRAM-era |
//!
//! Modules from the ground up; `tests/tests/tidy.rs` says which may use which:
//!
//! | module | job |
//! |---|---|
//! | [`page`] | pages, log records and undo entries |
//! | [`buffer`] | the buffer pool, the file of pages and its guards, the logs |
//! | [`paged`] | trees over pages, tables, redo and undo |
//! | [`engine`] | sessions, commit in groups, checkpoints, recovery, rebuilding from a backup |

pub mod buffer;
pub mod engine;
pub mod page;
pub mod paged;

pub use engine::{create, open};
