//! The kinds of runs: each turns a point into the numbers of its repeats.
//!
//! | file | kinds |
//! |---|---|
//! | `bench` | YCSB, TPC-C, TPC-B, TATP, insertions into a tree: options of `indelible bench` |
//! | `device` | durable writes through the two interfaces |
//! | `recovery` | a process that is killed, and the opening after it |
//! | `costs` | bytes of an insert, an update and a delete |
//! | `join` | joins of two relations, by the options of `indelible bench join` |

mod bench;
mod costs;
mod device;
mod join;
mod recovery;

pub(super) use join::is_possible;
pub(super) use recovery::victim;

use super::experiment::Kind;
use super::point::Point;
use super::rows::Metrics;
use super::size::Size;
use anyhow::{Result, bail};
use std::path::Path;

/// Runs a point; databases are made under `parent` and removed.
pub(super) fn run(point: &Point, size: &Size, parent: &Path) -> Result<Vec<Metrics>> {
    match point.kind {
        Kind::Ycsb | Kind::YcsbSampled => bench::ycsb(point, size, parent),
        Kind::Tpcc => bench::tpcc(point, size, parent),
        Kind::Paged | Kind::PagedProbed => bench::paged(point, size, parent),
        Kind::Btree | Kind::BtreeProbed => bench::btree(point, size, parent),
        Kind::Priced => bail!("a price is no run"),
        Kind::Device => device::run(point, size, parent),
        Kind::Recovery => recovery::run(point, size, parent),
        Kind::Costs => costs::run(point, size, parent),
        Kind::Join => join::run(point, size),
    }
}
