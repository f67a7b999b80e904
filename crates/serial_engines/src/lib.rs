//! The engines that run one transaction at a time in a partition: those of N-Store, and those
//! of FAST-FASH and NVWAL over the same parts.
//!
//! | methods | engine | over | serves |
//! |---|---|---|---|
//! | `nvm-inp` | `engine/nv_pool.rs` | B+trees of [`index`], [`table::space`] | every user |
//! | `inp`, `volatile` | `engine/in_place.rs`, `volatile.rs` | the same in DRAM | comparisons |
//! | `nvm-cow`, `cow` | `engine/cow.rs` | [`index::cow`], [`table::cow`] | readers of N-Store |
//! | `nvm-log` | `engine/nv_pool.rs` | `lsm/nv` | readers of N-Store |
//! | `log` | `engine/log_structured.rs` | `lsm/file` | readers of N-Store |
//! | `fash`, `fast` | `engine/cow/slotted.rs` | [`index::slotted`] | readers of FAST-FASH |
//! | `nvwal` | `engine/cow/slotted.rs` | `index/slotted/cached` | readers of NVWAL |
//!
//! Folders from the ground up; `tests/tests/tidy.rs` says which may use which:
//!
//! | module | job |
//! |---|---|
//! | [`index`] | B+trees that change in place, are copied on write, or have slotted pages |
//! | [`table`] | tuples and the upkeep of their indexes |
//! | [`lsm`] | log-structured tables: MemTables, runs and their merges |
//! | [`engine`] | policy only, before commit, at commit, at recovery; no engine uses another |

pub mod engine;
pub mod index;
pub mod lsm;
pub mod table;

pub use engine::{create, open};
