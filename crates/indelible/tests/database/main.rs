//! Databases as a program that embeds them sees them.
//!
//! All of them are one program, because each program of tests is linked with all methods, and
//! because its tests then keep all cores busy. The test of `fork` has a program of its own: a
//! process with threads cannot be forked safely.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod archive;
mod archive_partitions;
mod backup;
mod behaviour;
mod closures;
mod common;
mod connections;
mod creation;
mod deadlocks;
mod direct;
mod log_directory;
mod lost_files;
mod opening;
mod repair;
mod tables;
mod transaction_memory;
mod transfers;
