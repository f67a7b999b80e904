//! Shared parts of the engines that run one transaction at a time.
//!
//! No engine uses another; what several of them do alike lies here: [`pool`] has the names and headers of pools, and their checks at
//! opening. The page engine, whose sessions run at the same time, has nothing of it.

pub(super) mod pool;
