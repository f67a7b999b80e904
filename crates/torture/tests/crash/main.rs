//! Searches for states after a crash or a fault that no recovery can bring in order.
//!
//! All of them are one program, because each program of tests is linked with all methods, and
//! because its tests then keep all cores busy.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod bank;
mod common;
mod damage;
mod faults;
mod no_changes;
mod openings;
mod partitions;
mod planted;
mod prepared;
mod rewrite;
mod search;
