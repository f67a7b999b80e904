//! `sql`: the shell, statements and scripts from the command line, and files of tests.
//!
//! One command for all of them, since they share where statements run (a directory or a server) and
//! how results are printed.

use clap::Args;
use std::path::PathBuf;

pub(crate) const EXAMPLES: &str = "\
Examples:
  indelible sql ./shop
  indelible sql ./shop -c 'SELECT count(*) FROM airports' --format json
  indelible sql ./shop -f schema.sql
  indelible sql ./shop -v least=100 -f report.sql
  indelible sql ./scratch --test tests/orders.slt

Statements end with a semicolon; \\? lists the commands of the shell. More is in docs/sql.md.
Exit codes: 0 done, 1 a statement or a test failed, 2 the command line cannot be used.";

/// `sql`.
#[derive(Debug, Args)]
pub(crate) struct SqlArgs {
    /// Directory of the database, or a server: postgres://USER@HOST:PORT/DATABASE
    pub(crate) database: PathBuf,
    /// Run these statements instead of the shell; may be given several times
    #[arg(
        short,
        long = "command",
        value_name = "SQL",
        allow_hyphen_values = true
    )]
    pub(crate) commands: Vec<String>,
    /// Run the statements of a file, after those of -c; `-` for standard input
    #[arg(short, long = "file", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Set a variable before all else, as `\\set NAME VALUE` does; may be given several times
    #[arg(short = 'v', long = "set", value_name = "NAME=VALUE")]
    pub(crate) variables: Vec<String>,
    /// Go on after a statement of -f that fails; the exit code still says so
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Run files of tests in the format of sqllogictest, each in a schema of its own
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["commands", "files"])]
    pub(crate) test: Vec<PathBuf>,
    /// A list of records that --test leaves out, `file:line`, one a line
    #[arg(long, value_name = "LIST", requires = "test")]
    pub(crate) skip: Option<PathBuf>,
    /// Run the statements of -f on this server too, postgres://..., and list those that answer
    /// differently. Both lose what is in the schema `public`
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["commands", "test"])]
    pub(crate) against: Option<String>,
    /// A script that runs before each file of --against and is not compared
    #[arg(long, value_name = "FILE", requires = "against")]
    pub(crate) prelude: Option<PathBuf>,
    /// Run so many random statements: with --against on both, without it by oracles that know what
    /// must be equal. The database loses what is in the schema `public`
    #[arg(long, value_name = "STATEMENTS", conflicts_with_all = ["commands", "files", "test"])]
    pub(crate) random: Option<u64>,
    /// The seed of the first round of --random; each round counts up
    #[arg(long, default_value_t = 1, requires = "random")]
    pub(crate) seed: u64,
}
