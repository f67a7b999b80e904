//! Workloads: load, next transaction, content check.
//!
//! A workload is a seeded list of transactions that is made before the clock starts and is the same for every method
//! and every rival, plus a check at the end: the final content follows from the list, and every row is compared
//! with it. Nothing here measures time; the program and the tests do that around these libraries.

pub mod custom;
pub mod random;
pub mod tpcc;
pub mod ycsb;
