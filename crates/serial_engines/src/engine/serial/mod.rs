//! Engines that run one transaction at a time: the driver that all of them share, and the parts
//! that some do.
//!
//! No engine uses another; the code that several of them share lies here: [`driver`] implements
//! [`Engine`](super::Engine) over the policies that the engine files are, [`store`] has tables in
//! volatile memory, [`pool`] the names and headers of pools, and their checks at opening,
//! [`commit_log`] the log of those with files, and [`replay`] its replay. The page engine, whose
//! sessions run at the same time, uses none of it.

pub(super) mod commit_log;
pub(super) mod driver;
pub(super) mod pool;
pub(super) mod replay;
pub(super) mod store;
