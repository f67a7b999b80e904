//! Tests that hold for every method.
//!
//! All of them are one program, because each program of tests is linked with all methods, and
//! because its tests then keep all cores busy.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod bad_files;
#[path = "../../../crates/indelible/tests/database/common/mod.rs"]
mod common;
mod compat;
mod conformance;
mod cost;
mod full_device;
mod model;
mod read_only;
mod snapshots;
mod standard;
mod toy;
