//! Workloads: load, next transaction, content check.
//!
//! A workload is a seeded list of transactions that is made before the clock starts and is the same
//! for every method and every rival, plus a check at the end: the final content follows from the
//! list, and every row is compared with it. Nothing here measures time; the program and the tests
//! do that around these libraries.
//!
//! | module | job |
//! |---|---|
//! | [`ycsb`], [`tpcc`], [`tpcb`], [`tatp`], [`sysbench`] | the benchmarks |
//! | [`custom`] | tables and transactions as a user describes or records them |
//! | [`script`], [`standard`] | interface to drivers: a list's transactions; load, look, check |
//! | [`conditions`], [`mix`], [`random`], `prefix`, `loader`, `columns` | their common parts |

mod columns;
pub mod conditions;
pub mod custom;
mod loader;
pub mod mix;
mod prefix;
pub mod random;
pub mod script;
pub mod standard;
pub mod sysbench;
pub mod tatp;
#[cfg(test)]
mod testing;
pub mod tpcb;
pub mod tpcc;
pub mod ycsb;

pub use script::{InteractiveScript, RoutedScript, Script};
pub use standard::{Workload, WorkloadError};
