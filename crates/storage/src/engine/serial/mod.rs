//! Shared parts of the engines that run one transaction at a time.
//!
//! No engine uses another; the code that several of them share lies here: [`pool`] has the names
//! and headers of pools, and their checks at opening, [`commit_log`] the log of those with files,
//! and [`replay`] its replay. The page engine, whose sessions run at the same time, uses none of
//! it.

pub(super) mod commit_log;
pub(super) mod pool;
pub(super) mod replay;
