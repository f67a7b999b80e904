//! The command line: every command, its options, its help text with an example.
//!
//! Values are checked here as far as they can be without touching a database, so that a typing
//! error never costs work. Each command is in its own module.

mod advise;
mod axes;
mod bench;
mod bench_sql;
mod bench_wire;
mod copy;
mod import;
mod join;
mod lab;
mod methods;
mod parse;
mod recovery;
mod repair;
mod serve;
mod sql;
mod torture;
mod work;

pub(crate) use advise::{AdviseArgs, Preference};
pub(crate) use axes::{AXES, AxesArgs};
pub(crate) use bench::{
    BenchCommand, BtreeArgs, BtreeMix, CommitName, DeviceKind, FencesName, HeaderLogName, IoName,
    IsolationName, LoadsName, LockingName, LogImagesName, PersistName, RunArgs, SysbenchArgs,
    TatpArgs, TpcbArgs, TpccArgs, YcsbArgs, YcsbMethod,
};
pub(crate) use bench_sql::SqlBenchArgs;
pub(crate) use bench_wire::{FloorArgs, WireBenchArgs, WireScript};
pub(crate) use copy::{BackupArgs, ConvertArgs, PlacesArgs, RestoreArgs, UntilArg};
pub(crate) use import::{ImportArgs, TextArgs};
pub(crate) use join::{GridPart, JoinArgs};
pub(crate) use lab::{LabCommand, LabReplayArgs, LabRunArgs, LabVictimArgs, LabWorkload, SizeArgs};
pub(crate) use parse::{command, parse};
pub(crate) use recovery::{FillArgs, RecoveryArgs, RecoveryVictimArgs};
pub(crate) use repair::RepairArgs;
pub(crate) use serve::{RoleArgs, RoleCommand, ServeArgs};
pub(crate) use sql::SqlArgs;
pub(crate) use torture::{SizeName, TortureArgs, WorkloadName};

use crate::output::FormatName;
use clap::{Args, Parser, Subcommand, ValueEnum};
use indelible::{Domain, LayoutKind, MethodOption, PowerFailAtomicity, Primitive};
use std::path::PathBuf;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "indelible",
    version,
    about = "A transactional database whose durable state lives in byte-addressable memory",
    after_help = "Start with:\n  indelible quickstart\n\n\
                  Exit codes: 0 done, 1 failed (verify: damage found), 2 the command line cannot be used \
                  (verify: the check could not be made).",
    propagate_version = true,
    max_term_width = 100
)]
pub(crate) struct CommandLine {
    /// Format of results
    #[arg(long, global = true, value_enum, default_value_t = FormatName::Text)]
    pub(crate) format: FormatName,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The command to run.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See the database work on this machine: import, kill, recover, measure
    #[command(after_help = "Example:\n  indelible quickstart --report quickstart.html")]
    Quickstart(QuickstartArgs),
    /// Create a database
    #[command(after_help = CREATE_EXAMPLES, after_long_help = methods::after(CREATE_EXAMPLES))]
    Create(CreateArgs),
    /// Import a CSV file into a table, or the tables of a file of SQLite; all rows or none
    #[command(after_help = import::EXAMPLES)]
    Import(ImportArgs),
    /// Export a table as CSV that imports to the same rows
    #[command(
        after_help = "Example:\n  indelible export ./shop airports airports.csv\n\n\
                            NULL is an empty field, the empty text is \"\". More is in docs/csv.md."
    )]
    Export(ExportArgs),
    /// Write the whole database (tables, NULLs, indexes) as one text file; what SQL has made needs
    /// --sql
    #[command(
        after_help = "Examples:\n  indelible dump ./shop shop.dump\n  indelible dump ./shop shop.sql --sql"
    )]
    Dump(DumpArgs),
    /// Make a new database from a dump
    #[command(after_help = LOAD_EXAMPLES, after_long_help = methods::after(LOAD_EXAMPLES))]
    Load(LoadArgs),
    /// Write the whole database into one checked, compressed file
    #[command(after_help = copy::BACKUP_EXAMPLES)]
    Backup(BackupArgs),
    /// Make a new database from a backup; all of it or nothing
    #[command(after_help = copy::RESTORE_EXAMPLES)]
    Restore(RestoreArgs),
    /// Copy a database into a new one with another method
    #[command(after_help = copy::CONVERT_EXAMPLES)]
    Convert(ConvertArgs),
    /// List, create and drop tables
    #[command(subcommand)]
    Tables(TablesCommand),
    /// List, create and drop secondary indexes
    #[command(subcommand)]
    Indexes(IndexesCommand),
    /// Print the columns, keys and indexes of a table
    #[command(after_help = "Example:\n  indelible describe ./shop airports")]
    Describe(TableArgs),
    /// Print the row with a primary key
    #[command(after_help = "Example:\n  indelible get ./shop airports BOS")]
    Get(GetArgs),
    /// Print rows in the order of the primary key or of an index
    #[command(
        after_help = "Examples:\n  indelible scan ./shop airports --from B --to C --limit 20\n  \
                            indelible scan ./shop airports --index by_state --prefix TX --backward"
    )]
    Scan(ScanArgs),
    /// Run SQL: a shell, statements, scripts, and files of tests
    #[command(after_help = sql::EXAMPLES)]
    Sql(SqlArgs),
    /// Serve a database to clients of PostgreSQL
    #[command(after_help = serve::EXAMPLES)]
    Serve(ServeArgs),
    /// Show each setting of a server with its origin
    #[command(after_help = serve::CONFIG_EXAMPLES)]
    Config(ServeArgs),
    /// Roles that connect to a server with a password
    #[command(subcommand)]
    Role(RoleCommand),
    /// Say what a database holds and how it is kept
    #[command(after_help = "Example:\n  indelible info ./shop")]
    Info(DatabaseArgs),
    /// Check every checksum, index and block; exit code 0 sound, 1 damage, 2 cannot
    #[command(after_help = "Example:\n  indelible verify ./shop")]
    Verify(DatabaseArgs),
    /// Rebuild the descriptor or the commit table of a database that lost it
    #[command(after_help = repair::EXAMPLES)]
    Repair(RepairArgs),
    /// Give the space of free pages back to the filesystem
    #[command(
        after_help = "Example:\n  indelible shrink ./shop\n\nFor page methods with pages in files; a crash meanwhile does no harm."
    )]
    Shrink(DatabaseArgs),
    /// Say what a directory's medium is, what survives there, and what a flush costs
    #[command(after_help = "Example:\n  indelible device /dev/shm")]
    Device(DeviceArgs),
    /// Print a script that lets a shell complete commands and options
    #[command(
        after_help = "Examples:\n  indelible completions bash > ~/.local/share/bash-completion/completions/indelible\n  \
                            indelible completions zsh > ~/.zfunc/_indelible\n  \
                            indelible completions fish > ~/.config/fish/completions/indelible.fish"
    )]
    Completions(CompletionsArgs),
    /// Measure a workload
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Run the experiments of a paper and compare the shape of its figures
    #[command(subcommand)]
    Lab(LabCommand),
    /// Recommend a storage method for a workload and a device, from measurements at a small scale
    #[command(after_help = advise::EXAMPLES)]
    Advise(Box<AdviseArgs>),
    /// Look for states that a power cut, a failing device or damage leaves and the database does
    /// not cope with
    #[command(after_help = torture::EXAMPLES)]
    Torture(TortureArgs),
    /// The process that is killed
    #[command(hide = true)]
    Victim(VictimArgs),
}

const CREATE_EXAMPLES: &str = "\
Examples:
  indelible create /dev/shm/shop --partitions 2
  indelible create ./shop --method inp";
const LOAD_EXAMPLES: &str = "\
Example:
  indelible load ./copy shop.dump --method inp";

/// Choices made when a database is created.
#[derive(Clone, Debug, Args)]
pub(crate) struct NewDatabaseArgs {
    /// Storage method, or auto for the best on the medium; --help lists them all
    #[arg(long, default_value = "auto", conflicts_with_all = AXES)]
    pub(crate) method: indelible::Choice,
    #[command(flatten)]
    pub(crate) axes: AxesArgs,
    /// Number of partitions; each is a lock, and transactions in different ones run in parallel
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) partitions: u32,
    /// Layout of tuples in memory
    #[arg(long, value_enum, default_value_t = LayoutName::Together)]
    pub(crate) layout: LayoutName,
    /// Persistence domain that the medium must give; an error if it gives less
    #[arg(long, value_enum)]
    pub(crate) domain: Option<DomainName>,
    /// Bytes of an index node, a power of two from 256 to 8192; from 128 for nvm-inp and nvm-log,
    /// up to 16384 for cow, nvm-cow and pages
    #[arg(long, value_parser = clap::value_parser!(u32).range(128..=16384))]
    pub(crate) node_bytes: Option<u32>,
    /// Bytes of changes after which a MemTable of log or nvm-log is full, for example 16777216; 64
    /// MiB by default
    #[arg(long)]
    pub(crate) memtable_bytes: Option<u64>,
    #[command(flatten)]
    pub(crate) places: PlacesArgs,
    /// Bytes of durable memory in each partition for copies of pages, in nvm-dwb, nvm-dwb-log and
    /// nvm-dwb-log-opt: 128 KiB or more
    #[arg(long, value_name = "BYTES")]
    pub(crate) area: Option<u64>,
}

impl NewDatabaseArgs {
    /// The options that only some methods take.
    pub(crate) fn method_options(&self) -> impl Iterator<Item = MethodOption> {
        let sizes = [
            self.memtable_bytes.map(MethodOption::MemtableBytes),
            self.area.map(MethodOption::AreaBytes),
        ];
        sizes
            .into_iter()
            .flatten()
            .chain(self.places.method_options())
    }
}

/// `create`.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Directory of the new database
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) database: NewDatabaseArgs,
}

/// `info`, `verify`, `shrink`.
#[derive(Debug, Args)]
pub(crate) struct DatabaseArgs {
    /// Directory of the database
    pub(crate) path: PathBuf,
}

/// `export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Directory of the database
    pub(crate) path: PathBuf,
    /// The table
    pub(crate) table: String,
    /// The CSV file to write; `-` for standard output. It must not exist, unless it is a pipe, a
    /// socket or a device
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
    /// Replace the file if it exists; the new one has its mode and owner
    #[arg(long)]
    pub(crate) force: bool,
}

/// `dump`.
#[derive(Debug, Args)]
pub(crate) struct DumpArgs {
    /// Directory of the database
    pub(crate) path: PathBuf,
    /// The file to write; `-` for standard output. It must not exist, unless it is a pipe, a socket
    /// or a device
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
    /// Replace the file if it exists; the new one has its mode and owner
    #[arg(long)]
    pub(crate) force: bool,
    /// Write a script of SQL, which `indelible sql` and PostgreSQL's psql load
    #[arg(long)]
    pub(crate) sql: bool,
}

/// `load`.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// Directory of the new database
    pub(crate) path: PathBuf,
    /// The dump, as it is or compressed by gzip or Zstandard; `-` for standard input
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) database: NewDatabaseArgs,
}

/// `tables`.
#[derive(Debug, Subcommand)]
pub(crate) enum TablesCommand {
    /// List the tables
    #[command(after_help = "Example:\n  indelible tables list ./shop")]
    List(DatabaseArgs),
    /// Create a table
    #[command(after_help = "Example:\n  indelible tables create ./shop orders \
                            --columns 'id:int64,customer:varchar(40),total:decimal(10,2)?' --primary-key id\n\n\
                            A question mark allows NULL. Types: bool, int16, int32, int64, float64, decimal(p,s), \
                            char(n), varchar(n), text, bytes, bytes(n), sortable(n), date, timestamp, uuid.")]
    Create(CreateTableArgs),
    /// Drop a table with all its rows and indexes
    #[command(after_help = "Example:\n  indelible tables drop ./shop orders")]
    Drop(TableArgs),
}

/// `tables create`.
#[derive(Debug, Args)]
pub(crate) struct CreateTableArgs {
    /// Directory of the database
    pub(crate) path: PathBuf,
    /// The new table
    pub(crate) table: String,
    /// Columns, `name:type` or `name:type?`, separated by commas
    #[arg(long)]
    pub(crate) columns: String,
    /// Columns of the primary key, most significant first
    #[arg(long, value_delimiter = ',', required = true)]
    pub(crate) primary_key: Vec<String>,
    /// Which partition a row belongs to
    #[arg(long, value_enum, default_value_t = PartitioningName::Hash)]
    pub(crate) partitioning: PartitioningName,
    /// Refuse contents that have no room in a key, instead of a hash in place of their ends: rows
    /// are in exact order
    #[arg(long)]
    pub(crate) exact_keys: bool,
}

/// A table of a database: `describe`, `tables drop`, `indexes list`.
#[derive(Debug, Args)]
pub(crate) struct TableArgs {
    /// Directory of the database
    pub(crate) path: PathBuf,
    /// The table
    pub(crate) table: String,
}

/// `indexes`.
#[derive(Debug, Subcommand)]
pub(crate) enum IndexesCommand {
    /// List the secondary indexes of a table
    #[command(after_help = "Example:\n  indelible indexes list ./shop orders")]
    List(TableArgs),
    /// Create a secondary index over the rows that are there
    #[command(
        after_help = "Example:\n  indelible indexes create ./shop orders by_customer --columns customer"
    )]
    Create(CreateIndexArgs),
    /// Drop a secondary index
    #[command(after_help = "Example:\n  indelible indexes drop ./shop orders by_customer")]
    Drop(IndexArgs),
}

/// `indexes create`.
#[derive(Debug, Args)]
pub(crate) struct CreateIndexArgs {
    /// Directory of the database
    pub(crate) path: PathBuf,
    /// The table
    pub(crate) table: String,
    /// The new index
    pub(crate) index: String,
    /// Columns, most significant first
    #[arg(long, value_delimiter = ',', required = true)]
    pub(crate) columns: Vec<String>,
    /// Refuse two rows with the same values; rows with a NULL among them are exempt
    #[arg(long)]
    pub(crate) unique: bool,
}

/// An index of a table.
#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    /// Directory of the database
    pub(crate) path: PathBuf,
    /// The table
    pub(crate) table: String,
    /// The index
    pub(crate) index: String,
}

/// `get`.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// Directory of the database
    pub(crate) path: PathBuf,
    /// The table
    pub(crate) table: String,
    /// Values of the primary key columns, in their order
    #[arg(required = true, allow_negative_numbers = true)]
    pub(crate) key: Vec<String>,
}

/// `scan`.
#[derive(Debug, Args)]
pub(crate) struct ScanArgs {
    /// Directory of the database
    pub(crate) path: PathBuf,
    /// The table
    pub(crate) table: String,
    /// Order and range by this secondary index instead of the primary key
    #[arg(long)]
    pub(crate) index: Option<String>,
    /// First key, included; values of its columns separated by commas
    #[arg(long, value_delimiter = ',', allow_negative_numbers = true)]
    pub(crate) from: Vec<String>,
    /// Last key, included
    #[arg(long, value_delimiter = ',', allow_negative_numbers = true)]
    pub(crate) to: Vec<String>,
    /// Only keys that begin with these values
    #[arg(long, value_delimiter = ',', allow_negative_numbers = true, conflicts_with_all = ["from", "to"])]
    pub(crate) prefix: Vec<String>,
    /// Greatest key first
    #[arg(long)]
    pub(crate) backward: bool,
    /// Most rows to print
    #[arg(long, default_value_t = 1000)]
    pub(crate) limit: u64,
}

/// `completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// `device`.
#[derive(Debug, Args)]
pub(crate) struct DeviceArgs {
    /// A directory on the medium
    #[arg(default_value = "/dev/shm")]
    pub(crate) path: PathBuf,
    /// Issue the instructions of another domain, to measure their cost
    #[arg(long, value_enum)]
    pub(crate) primitives: Option<PrimitiveName>,
    /// Bytes that the platform promises to survive a power cut whole: method fast chooses its
    /// commit by it
    #[arg(long, value_enum, value_name = "BYTES", default_value_t = AtomicityName::Word)]
    pub(crate) power_fail_atomicity: AtomicityName,
}

/// `quickstart`.
#[derive(Debug, Args)]
pub(crate) struct QuickstartArgs {
    /// File for the HTML report
    #[arg(long, default_value = "indelible-quickstart.html")]
    pub(crate) report: PathBuf,
    /// Directory under which the scratch databases are made; shared memory by default
    #[arg(long)]
    pub(crate) path: Option<PathBuf>,
    /// Rows of the measured YCSB table, a kilobyte each
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(100..))]
    pub(crate) rows: u32,
    /// Seconds that each mix is measured on each method
    #[arg(long, default_value_t = 0.3, value_parser = parse_seconds)]
    pub(crate) seconds: f64,
    /// Seed of transactions and of the moment of the kill
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// The process that `quickstart` kills.
#[derive(Debug, Args)]
pub(crate) struct VictimArgs {
    /// The database
    pub(crate) path: PathBuf,
    /// Job to run in it
    #[arg(long, value_enum)]
    pub(crate) job: VictimJob,
    /// Seed of its transactions
    #[arg(long)]
    pub(crate) seed: u64,
    /// Rows of the YCSB table
    #[arg(long, default_value_t = 0)]
    pub(crate) rows: u32,
    /// Number of the first booking
    #[arg(long, default_value_t = 0)]
    pub(crate) first: u64,
    /// Length of the log after which a checkpoint comes
    #[arg(long)]
    pub(crate) checkpoint_log_bytes: Option<u64>,
}

/// Job of the process until it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VictimJob {
    /// Bookings between rows of the imported table.
    Bookings,
    /// A small TPC-C.
    Tpcc,
    /// A small TPC-B.
    Tpcb,
    /// A small TATP.
    Tatp,
    /// Small tables of sysbench.
    Sysbench,
    /// Updates of the YCSB table.
    Ycsb,
}

/// Layout of tuples in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutName {
    /// Fixed-size and short columns in the tuple's own block
    Together,
    /// Every field over 8 bytes in a slot of its own, as in the N-Store paper
    Separate,
}

impl From<LayoutName> for LayoutKind {
    fn from(name: LayoutName) -> Self {
        match name {
            LayoutName::Together => Self::Together,
            LayoutName::Separate => Self::Separate,
        }
    }
}

/// Persistence domain of the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DomainName {
    /// Survives the death of the process
    Process,
    /// Survives power loss after msync
    File,
    /// Survives power loss after flush and fence
    Flush,
    /// Survives power loss after a fence
    FlushFree,
}

impl From<DomainName> for Domain {
    fn from(name: DomainName) -> Self {
        match name {
            DomainName::Process => Self::Process,
            DomainName::File => Self::File,
            DomainName::Flush => Self::Flush,
            DomainName::FlushFree => Self::FlushFree,
        }
    }
}

/// Which domain's instructions are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PrimitiveName {
    /// Compiler ordering only
    Process,
    /// Store fence
    FlushFree,
    /// Cache-line write-back and store fence
    Flush,
}

impl PrimitiveName {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::FlushFree => "flush-free",
            Self::Flush => "flush",
        }
    }
}

impl From<PrimitiveName> for Primitive {
    fn from(name: PrimitiveName) -> Self {
        match name {
            PrimitiveName::Process => Self::Process,
            PrimitiveName::FlushFree => Self::FlushFree,
            PrimitiveName::Flush => Self::Flush,
        }
    }
}

/// The longest store that a power cut leaves whole or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AtomicityName {
    /// A word, as everywhere
    #[value(name = "8")]
    Word,
    /// A line that one instruction stores; only an expert on the platform can know this
    #[value(name = "64")]
    Line,
}

impl From<AtomicityName> for PowerFailAtomicity {
    fn from(name: AtomicityName) -> Self {
        match name {
            AtomicityName::Word => Self::Word,
            AtomicityName::Line => Self::Line,
        }
    }
}

/// Which partition a row belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PartitioningName {
    /// By a hash of the first primary key column
    Hash,
    /// By the first primary key column, an integer, modulo the number of partitions
    Modulo,
    /// Every partition has all rows
    Replicated,
}

/// A duration that is positive and at most a day.
pub(crate) fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("use a number of seconds above 0 and up to 86400".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn every_command_has_a_help_text_and_an_example() {
        fn check(command: &clap::Command) {
            for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
                let name = sub.get_name();
                assert!(sub.get_about().is_some(), "{name} has no help text");
                if sub.has_subcommands() {
                    check(sub);
                } else if name != "help" {
                    let after = sub
                        .get_after_help()
                        .map(ToString::to_string)
                        .unwrap_or_default();
                    assert!(after.contains("Example"), "{name} has no example");
                }
            }
        }
        check(&CommandLine::command());
    }

    #[test]
    fn every_example_is_understood_as_written() {
        fn examples(command: &clap::Command, found: &mut Vec<String>) {
            for sub in command.get_subcommands() {
                examples(sub, found);
            }
            let after = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            let lines = after.lines().map(str::trim);
            found.extend(
                lines
                    .filter(|line| line.starts_with("indelible "))
                    .map(str::to_owned),
            );
        }
        let mut found = Vec::new();
        examples(&CommandLine::command(), &mut found);
        assert!(found.len() > 15, "{found:?}");
        // A line that a shell takes apart is not ours to parse.
        for line in found
            .iter()
            .filter(|line| !line.contains(['"', '\'', '|', '<', '>', '$']))
        {
            let words = line.split(" #").next().unwrap_or(line).split_whitespace();
            let parsed = CommandLine::try_parse_from(words);
            assert!(parsed.is_ok(), "{line}: {:?}", parsed.err());
        }
    }
}
