//! The log-structured tables of `nvm-log`: MemTables that stay in durable memory, and their merges.
//!
//! `levels` are the runs of one table and how a row is found in them, `merge` what each commit does
//! to keep them few, `refill` brings filters back after a restart, `cursor` reads several runs in
//! order, `table` and `space` put tables together.

mod cursor;
mod levels;
mod merge;
mod refill;
mod space;
mod table;

pub(crate) use merge::LevelSizes;
pub(crate) use space::{NvSettings, NvTables};
