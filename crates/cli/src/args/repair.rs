//! Arguments of `repair`.
//!
//! An option is needed only for a fact that the files do not tell; the error then names the fact
//! and the option.

use clap::Args;
use indelible::Method;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  indelible repair ./shop --dry-run
  indelible repair ./shop

Rebuilds the descriptor and the commit table, where the other files tell what they said. What is replaced is kept in
./shop/replaced-DATE. Lost data comes back from a backup only.";

/// `repair`.
#[derive(Debug, Args)]
pub(crate) struct RepairArgs {
    /// Directory of the database
    pub(crate) path: PathBuf,
    /// Only report the files to rebuild
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The method that the database was created with, if its files fit several
    #[arg(long)]
    pub(crate) method: Option<Method>,
    /// The number of partitions that it was created with, if nothing else tells
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) partitions: Option<u32>,
}
