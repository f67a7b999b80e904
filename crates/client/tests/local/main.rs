//! Sessions of one process, without a server between them and their test.
//!
//! All of them are one program, because each program of tests is linked with the whole database.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod alone;
mod between;
mod branch_plans;
mod catalogues;
mod columns;
mod conflicts;
mod database_rights;
mod definitions;
mod join_plans;
mod keys;
mod lifted_plans;
mod moved;
mod orphans;
mod partitions;
mod plan_cache;
mod plans;
mod row_locks;
mod scratch;
mod scripts;
mod spill;
mod taken_roles;
mod typed;
mod waits;
