//! Options of `bench sql`.
//!
//! There is one session and one partition: the command takes the cost of a statement, not what
//! many of them do to each other.

use clap::Args;
use indelible::Method;
use std::path::PathBuf;

/// Examples in the help text.
pub(super) const EXAMPLES: &str = "Examples:
  indelible bench sql --method nvm-inp --rows 100000 --seconds 2
  indelible bench sql --method nvm-inp,full-page-writes --format json

The three interfaces take turns in one process on the same tables, and sums are compared at the end. Allocations are counted by a program \
that was built with the feature `count-allocations`.";

/// `bench sql`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SqlBenchArgs {
    /// Methods, separated by commas: nvm-inp, full-page-writes and so on
    #[arg(long, value_delimiter = ',', default_value = "nvm-inp")]
    pub(crate) method: Vec<Method>,
    /// Rows of the table that is read and updated
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(i32).range(1..=100_000_000))]
    pub(crate) rows: i32,
    /// Seconds of each statement through each interface
    #[arg(long, default_value_t = 2.0, value_parser = super::parse_seconds)]
    pub(crate) seconds: f64,
    /// Directory for the scratch database; by default shared memory
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,
}
