//! The kinds of runs: each turns a point into something that can be measured again and again.
//!
//! | file | kinds |
//! |---|---|
//! | `bench` | the workloads of `indelible bench`, by its options |
//! | `device` | durable writes through the two interfaces |
//! | `recovery` | a process that is killed, and the opening after it |
//! | `costs` | bytes of an insert, an update and a delete |
//! | `join` | joins of two relations, by the options of `indelible bench join` |
//!
//! Databases that are loaded for a point, and relations that are made, are kept until the last
//! round, so that the points of an experiment can take turns without being loaded each time.

mod bench;
mod costs;
mod device;
mod join;
mod recovery;

pub(super) use join::{KeptRelations, is_possible};
pub(super) use recovery::victim;

use anyhow::{Result, bail};
use lab::experiment::Kind;
use lab::point::Point;
use lab::rows::Metrics;
use lab::size::Size;
use std::path::Path;

/// A point that is ready to be measured.
pub(super) trait Ready: Send {
    /// Measures once.
    fn measure(&mut self) -> Result<Metrics>;

    /// Checks that the measurements have left what they should have.
    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// A point each of whose measurements begins from nothing.
struct Afresh<F>(F);

impl<F: FnMut() -> Result<Metrics> + Send> Ready for Afresh<F> {
    fn measure(&mut self) -> Result<Metrics> {
        (self.0)()
    }
}

/// Makes a point ready; databases are made under `parent`, and removed when it is dropped.
pub(super) fn prepare<'p>(
    point: &'p Point,
    size: &'p Size,
    parent: &'p Path,
    relations: &'p KeptRelations,
) -> Result<Box<dyn Ready + 'p>> {
    Ok(match point.kind {
        Kind::Ycsb | Kind::YcsbSampled => bench::ycsb(point, size, parent)?,
        Kind::Tpcc => bench::tpcc(point, size, parent)?,
        Kind::Paged | Kind::PagedProbed => bench::paged(point, size, parent)?,
        Kind::Btree | Kind::BtreeProbed => bench::btree(point, size, parent)?,
        Kind::Priced => bail!("a price is no run"),
        Kind::Device => Box::new(Afresh(|| device::run(point, size, parent))),
        Kind::Recovery => recovery::prepare(point, size, parent)?,
        Kind::Costs => Box::new(Afresh(|| costs::run(point, size, parent))),
        Kind::Join => Box::new(Afresh(|| join::run(point, size, relations))),
    })
}

/// Whether the arguments of a point are those of a command.
#[cfg(test)]
pub(super) fn check(point: &Point, size: &Size) -> Result<()> {
    match point.kind {
        Kind::Paged | Kind::PagedProbed | Kind::Ycsb | Kind::Tpcc | Kind::Btree => {
            bench::check(point, size)
        }
        _ => bail!("an ablation is a run of `indelible bench`"),
    }
}
