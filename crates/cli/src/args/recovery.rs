//! Arguments of `bench recovery`.
//!
//! The options that fill the log are declared once: the command takes them, and hands them on to
//! the process that it kills.

use clap::Args;
use indelible::Method;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  indelible bench recovery --method full-page-writes,nv-disk --log-bytes 1000000000 --pool 2000000000 --path ./here
  indelible bench recovery --method nv-logging --log-bytes 1000000000 --sessions 20 --ring 134217728 --format json

nv-logging takes a checkpoint when three eighths of a ring are used, so its rings must have room for 2.7 times as much.";

/// `bench recovery`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RecoveryArgs {
    /// Methods, separated by commas: page methods with a buffer pool, such as full-page-writes,
    /// nv-disk or nv-logging
    #[arg(long, value_delimiter = ',', required = true)]
    pub(crate) method: Vec<Method>,
    #[command(flatten)]
    pub(crate) fill: FillArgs,
    /// Changes of the transaction that is under way when the process dies, and is undone
    #[arg(long, default_value_t = 1000)]
    pub(crate) open_changes: u64,
    /// Directory under which the database is made, and removed at the end; shared memory by default
    #[arg(long)]
    pub(crate) path: Option<PathBuf>,
    /// Directory under which the log is made, and removed at the end; with the pages by default
    #[arg(long)]
    pub(crate) log_path: Option<PathBuf>,
    /// Rounds over all methods; each round prints its rows
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    /// Do not compare the content with the acknowledged transactions
    #[arg(long)]
    pub(crate) skip_check: bool,
}

/// The process that is killed.
#[derive(Clone, Debug, Args)]
pub(crate) struct RecoveryVictimArgs {
    /// The database
    pub(crate) path: PathBuf,
    /// Its method
    #[arg(long)]
    pub(crate) method: Method,
    /// Changes of the transaction under way
    #[arg(long)]
    pub(crate) open_changes: u64,
    #[command(flatten)]
    pub(crate) fill: FillArgs,
}

/// Options of the work that fills the log.
#[derive(Clone, Debug, Args)]
pub(crate) struct FillArgs {
    /// Bytes of log since the newest checkpoint
    #[arg(long, default_value_t = 1_000_000_000)]
    pub(crate) log_bytes: u64,
    /// Rows of a kilobyte
    #[arg(long, default_value_t = 500_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rows: u32,
    /// Columns of a hundred bytes that an update rewrites
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10))]
    pub(crate) update_columns: u32,
    /// Sessions that write, equally much each
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) sessions: u32,
    /// Bytes of the buffer pool, while the log is filled and at the opening
    #[arg(long)]
    pub(crate) pool: Option<u64>,
    /// Bytes of log that each session of nv-logging, or each ring of distributed-log, has room for,
    /// at most 128 MiB
    #[arg(long)]
    pub(crate) ring: Option<u64>,
    /// Bytes of durable memory for copies of pages, in methods with such an area: 128 KiB or more.
    /// Pages that leave the pool fill it
    #[arg(long, value_name = "BYTES")]
    pub(crate) area: Option<u64>,
    /// Seed of the rows and of the updates
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

impl FillArgs {
    /// As words of a command line.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut say = |name: &str, value: u64| {
            words.extend([format!("--{name}"), value.to_string()]);
        };
        say("log-bytes", self.log_bytes);
        say("rows", self.rows.into());
        say("update-columns", self.update_columns.into());
        say("sessions", self.sessions.into());
        say("seed", self.seed);
        if let Some(pool) = self.pool {
            say("pool", pool);
        }
        if let Some(area) = self.area {
            say("area", area);
        }
        if let Some(ring) = self.ring {
            say("ring", ring);
        }
        words
    }
}
