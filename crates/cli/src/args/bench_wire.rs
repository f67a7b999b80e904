//! Options of `bench wire`.
//!
//! The client is `pgbench`, for all servers the same.

use clap::{Args, ValueEnum};
use indelible::Method;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Examples in the help text.
pub(super) const EXAMPLES: &str = "Examples:
  indelible bench wire --seconds 10 --clients 1,2,8,32
  indelible bench wire --method nv-logging --script select --protocol simple --format json
  indelible bench wire --idle 1000

Servers take turns, and medians of the rounds count: an empty one that answers with constants (the floor), ours, and \
PostgreSQL where it is installed. All keep their files in one scratch directory. The client is pgbench.";

/// `bench wire`.
#[derive(Clone, Debug, Args)]
pub(crate) struct WireBenchArgs {
    /// Method of our database
    #[arg(long, default_value = "nvm-inp")]
    pub(crate) method: Method,
    /// Statements of the clients
    #[arg(long, value_enum, default_value_t = WireScript::Tpcb)]
    pub(crate) script: WireScript,
    /// Protocol of queries: simple, extended or prepared
    #[arg(long, default_value = "prepared", value_parser = ["simple", "extended", "prepared"])]
    pub(crate) protocol: String,
    /// Numbers of clients, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "1,2,8", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) clients: Vec<u32>,
    /// Branches of the bank; each has 100,000 accounts
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) scale: u32,
    /// Seconds of each server in each round
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) seconds: u32,
    /// Rounds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) rounds: u32,
    /// Leave PostgreSQL out
    #[arg(long)]
    pub(crate) no_postgres: bool,
    /// Open so many idle connections to our server instead, and tell the memory that they take
    #[arg(long, value_name = "CONNECTIONS", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) idle: Option<u32>,
    /// Directory for the scratch files; by default shared memory
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,
}

/// Statements of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WireScript {
    /// pgbench's transaction like TPC-B: three updates, a read and an insertion
    Tpcb,
    /// One row by its key
    Select,
}

/// `bench floor`.
#[derive(Clone, Debug, Args)]
pub(crate) struct FloorArgs {
    /// Address over TCP; port 0 lets the system choose
    pub(crate) listen: SocketAddr,
}
