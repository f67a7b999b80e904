//! `bench recovery`: the time that a page method takes to open after a kill, with a log of a given
//! length to replay.
//!
//! 1. The parent loads a YCSB table, writes a checkpoint and closes the database.
//! 2. The child opens it with checkpoints far apart, and its sessions write equally much until the
//!    log has the given length. Then it begins a transaction of many changes, makes its log
//!    durable, and says so through a pipe.
//! 3. The parent kills the child, opens the database, and reads one row, and then the row that is
//!    undone last. Then it compares the content with the transactions that the child acknowledged.
//!
//! The process dies, not the machine, so its last writes may still be in the page cache: reads of
//! files are as fast as these.

use super::runs::print_row;
use crate::args::{FillArgs, RecoveryArgs, RecoveryVictimArgs};
use crate::failure::Usage;
use crate::machine::{self, COMMIT, Machine};
use crate::output::{Cell, Format, Listing, bytes, duration};
use crate::progress;
use crate::scratch::Scratch;
use anyhow::{Context, Result, bail};
use indelible::{
    BUFFER_BYTES, DataType, Database, Durability, Method, MethodOption, Options, Statistics,
};
use pmem::Part;
use serde::Serialize;
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};
use workload::Script;
use workload::ycsb::{Action, Mix, Ycsb, YcsbOptions};

/// Transactions of a session between two syncs.
const GROUP: u64 = 64;
/// Transactions of a session in a round.
const ROUND: u64 = 16 * GROUP;
/// Transactions of the longest list; a run that goes on beyond it begins again.
const LIST: u64 = 1 << 22;
/// The next checkpoint comes only at this multiple of the log's length.
const CHECKPOINT_FACTOR: u64 = 4;
/// A table for the last commit.
const MARKS: &str = "marks";
/// The child ends by itself after this time, in case nobody kills it.
const CHILD_LIFE: Duration = Duration::from_mins(10);

/// One measured opening.
#[derive(Debug, Serialize)]
struct RecoveryRow {
    workload: &'static str,
    method: &'static str,
    rows: u32,
    update_columns: u32,
    sessions: u32,
    pool_bytes: u64,
    /// Bytes of log since the checkpoint, at least: of files without the newest segment.
    log_bytes: u64,
    /// Transactions in the log, which were replayed.
    replayed: u64,
    /// Transactions that were undone, and their changes.
    undone: u64,
    open_changes: u64,
    /// Time until the database is open. The log is replayed and a checkpoint written, unless the
    /// log is short and pages are redone as they are read. Transactions that cannot be undone later
    /// are undone.
    recovery_ms: f64,
    /// From the beginning of the opening to the first row read, one that no unfinished transaction
    /// has changed if there is such a row.
    first_read_ms: f64,
    /// From the beginning of the opening to the row that is undone last.
    undone_ms: f64,
    log_mb_per_s: f64,
    /// Bytes that the opening read from files, and wrote.
    bytes_read: u64,
    bytes_written: u64,
    syncs: u64,
    commit: &'static str,
    seed: u64,
    machine: Machine,
}

/// Runs the command.
pub(super) fn run(args: &RecoveryArgs, format: Format) -> Result<()> {
    for method in &args.method {
        if !method.has_buffer_pool() {
            return Err(Usage::error(format!(
                "{method} repeats no log over pages in files; use full-page-writes, dwb, nv-disk, nv-logging or another page method with a \
                 buffer pool"
            )));
        }
        args.fill.options(*method).check()?;
    }
    for option in args.fill.method_options() {
        option.check_for(&args.method)?;
    }
    let mut rows = Vec::new();
    for _ in 0..args.repeat {
        for method in &args.method {
            let row = measure(args, *method).with_context(|| format!("method {method}"))?;
            print_row(&row, format)?;
            rows.push(row);
        }
    }
    match format {
        Format::Json => Ok(()),
        Format::Text => listing(&rows).print(format),
        Format::Csv => super::runs::flat_listing(&rows)?.print(format),
    }
}

fn listing(rows: &[RecoveryRow]) -> Listing {
    let mut listing = Listing::new([
        "method",
        "log",
        "replayed",
        "undone",
        "recovery",
        "first read",
        "all undone",
        "MB/s",
        "read",
        "written",
    ]);
    for row in rows {
        let time = |ms: f64| Cell::Number(ms, duration(ms * 1e3));
        let size = |count: u64| Cell::Number(count as f64, bytes(count));
        listing.push(vec![
            row.method.into(),
            size(row.log_bytes),
            Cell::Whole(row.replayed),
            Cell::Whole(row.undone),
            time(row.recovery_ms),
            time(row.first_read_ms),
            time(row.undone_ms),
            Cell::number(row.log_mb_per_s, 0),
            size(row.bytes_read),
            size(row.bytes_written),
        ]);
    }
    listing
}

impl FillArgs {
    fn options(&self, method: Method) -> Options {
        Options::new()
            .fitting(method, self.method_options())
            .checkpoint_log_bytes(self.log_bytes.saturating_mul(CHECKPOINT_FACTOR))
    }

    /// The options that only some methods take.
    fn method_options(&self) -> impl Iterator<Item = MethodOption> {
        let given = [
            Some(MethodOption::Sessions(self.sessions + 1)),
            Some(MethodOption::BufferBytes(self.pool_bytes())),
            self.area.map(MethodOption::AreaBytes),
            self.ring.map(MethodOption::RingBytes),
        ];
        given.into_iter().flatten()
    }

    fn pool_bytes(&self) -> u64 {
        self.pool.unwrap_or(BUFFER_BYTES)
    }

    /// Each session has a list of its own.
    fn workload(&self) -> Result<Ycsb> {
        let options = YcsbOptions {
            rows: self.rows,
            partitions: 1,
            threads: self.sessions,
            mix: Mix::WriteHeavy,
            update_columns: self.update_columns,
            transactions: LIST,
            seed: self.seed,
            ..YcsbOptions::default()
        };
        Ok(Ycsb::new(options)?)
    }
}

fn measure(args: &RecoveryArgs, method: Method) -> Result<RecoveryRow> {
    let fill = &args.fill;
    let scratch = match &args.path {
        Some(path) => Scratch::in_directory(path)?,
        None => Scratch::new()?,
    };
    let scratch = match &args.log_path {
        Some(path) => scratch.with_log(path)?,
        None => scratch,
    };
    let path = scratch.path().join("recovery.db");
    let workload = fill.workload()?;
    load(&workload, &path, fill.options(method), scratch.log_path())?;
    let note = progress::spinner(format!("filling the log of {method}"));
    let filled = kill(&path, fill, args.open_changes, method)?;
    note.finish_and_clear();
    let start = Instant::now();
    // Options of a program that does not know of the fill.
    let options = Options::new()
        .buffer_bytes(fill.pool_bytes())
        .sessions(fill.sessions + 1)
        .wait_limit(CHILD_LIFE);
    let database = Database::open_with(&path, &options)?;
    let recovery_ms = start.elapsed().as_secs_f64() * 1e3;
    let table = Ycsb::table(&database)?;
    let elapsed_ms = || start.elapsed().as_secs_f64() * 1e3;
    let last = i64::from(fill.rows) - 1;
    let last = database.read(|reader| reader.get(&table, last))?;
    let first_read_ms = elapsed_ms();
    // The row that was changed first is undone last.
    let first = database.read(|reader| reader.get(&table, 0_i64))?;
    let undone_ms = elapsed_ms();
    // Counting the uses of pages takes a while.
    let statistics = database.statistics()?;
    first.and(last).context("a row is missing")?;
    let done = filled.positions(fill.sessions);
    let updates = updates(&workload, &done);
    // An update that stores the values that are there already has no record.
    if statistics.recovery_replayed < updates - updates / 100 {
        bail!(
            "{} of {updates} updates were repeated: a checkpoint came in between, as a ring was half full; use more --sessions, or a larger \
             --ring",
            statistics.recovery_replayed
        );
    }
    if !args.skip_check {
        let done: Vec<RangeInclusive<u64>> = done.iter().map(|count| *count..=*count).collect();
        workload.check(&database, &table, &done)?;
    }
    database.close()?;
    Ok(RecoveryRow {
        workload: "recovery",
        method: method.name(),
        rows: fill.rows,
        update_columns: fill.update_columns,
        sessions: fill.sessions,
        pool_bytes: fill.pool_bytes(),
        log_bytes: filled.log_bytes,
        replayed: statistics.recovery_replayed,
        undone: statistics.recovery_undone,
        open_changes: args.open_changes,
        recovery_ms,
        first_read_ms,
        undone_ms,
        log_mb_per_s: filled.log_bytes as f64 / recovery_ms / 1e3,
        bytes_read: statistics.disk.bytes_read,
        bytes_written: statistics.disk.bytes_written,
        syncs: statistics.disk.syncs,
        commit: COMMIT,
        seed: fill.seed,
        machine: machine::here(scratch.path()),
    })
}

fn load(workload: &Ycsb, path: &Path, mut options: Options, log: Option<&Path>) -> Result<()> {
    if let Some(log) = log {
        options = options.log_directory(log);
    }
    let bar = progress::count("loading", workload.options().rows.into());
    let database = Database::create(path, &options)?;
    workload.load(&database, |rows| bar.inc(rows))?;
    database
        .create_table(MARKS)
        .column("id", DataType::Int64)
        .primary_key(["id"])
        .create()?;
    database.checkpoint()?;
    // Segments that are used again would not make the log longer.
    database.shrink()?;
    bar.finish_and_clear();
    Ok(database.close()?)
}

/// Updates among the first transactions of the lists.
fn updates(workload: &Ycsb, done: &[u64]) -> u64 {
    let of_list = |(list, count): (u32, &u64)| {
        let accesses = workload.list(list).iter().cycle().take(*count as usize);
        accesses
            .filter(|access| matches!(access.action(), Action::Update(_)))
            .count() as u64
    };
    (0..).zip(done).map(of_list).sum()
}

/// Counts of the child before it was killed.
struct Filled {
    txns: u64,
    log_bytes: u64,
}

impl Filled {
    /// The position that each list has reached.
    fn positions(&self, sessions: u32) -> Vec<u64> {
        vec![self.txns / u64::from(sessions); sessions as usize]
    }
}

/// Starts a child, and kills it when it is ready.
fn kill(path: &Path, fill: &FillArgs, open_changes: u64, method: Method) -> Result<Filled> {
    let program = std::env::current_exe().context("cannot find the program's own file")?;
    let mut child = Command::new(program)
        .args(["bench", "recovery-victim"])
        .arg(path)
        .args(["--method", method.name()])
        .args(["--open-changes", &open_changes.to_string()])
        .args(fill.words())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start the process that is to be killed")?;
    let heard = hear(&mut child);
    child.kill()?;
    child.wait()?;
    let line = heard?;
    let mut words = line.split_whitespace().map(str::parse);
    if let (Some(Ok(txns)), Some(Ok(log_bytes))) = (words.next(), words.next()) {
        return Ok(Filled { txns, log_bytes });
    }
    let mut text = String::new();
    if let Some(mut errors) = child.stderr.take() {
        errors.read_to_string(&mut text)?;
    }
    bail!("the process ended before it was killed: {}", text.trim())
}

/// The line with which a child says that it may be killed.
fn hear(child: &mut Child) -> Result<String> {
    let pipe = child.stdout.take().context("the pipe was asked for")?;
    let mut line = String::new();
    BufReader::new(pipe).read_line(&mut line)?;
    Ok(line)
}

/// Runs the hidden command: fills the log, reports its length, and waits for its end inside a
/// transaction.
pub(super) fn victim(args: &RecoveryVictimArgs) -> Result<()> {
    let fill = &args.fill;
    let workload = fill.workload()?;
    let database = Database::open_with(&args.path, &fill.options(args.method))?;
    let mut log = LogLength::new(args.method, &database.statistics()?);
    let mut position = 0;
    let filled = loop {
        fill_round(&database, &workload, position)?;
        position += ROUND;
        let filled = log.filled(&database.statistics()?);
        if filled >= fill.log_bytes {
            break filled;
        }
    };
    let txns = position * u64::from(fill.sessions);
    stay_open(&database, &workload, args.open_changes, || {
        let mut out = std::io::stdout().lock();
        // If the parent is gone, nobody kills the child.
        let _ = writeln!(out, "{txns} {filled}").and_then(|()| out.flush());
    })
}

/// Has all sessions write equally much, so that their rings fill at the same pace, and end.
fn fill_round(database: &Database, workload: &Ycsb, position: u64) -> Result<()> {
    std::thread::scope(|threads| {
        let start = |list| threads.spawn(move || fill_list(database, workload, list, position));
        let workers: Vec<_> = (0..workload.options().threads).map(start).collect();
        let mut outcomes = workers.into_iter().map(ScopedJoinHandle::join);
        outcomes.try_for_each(|outcome| outcome.expect("the list does not panic"))
    })
}

/// Runs some transactions of a list and makes them durable, a group at a time.
fn fill_list(database: &Database, workload: &Ycsb, list: u32, position: u64) -> Result<()> {
    let table = Ycsb::table(database)?;
    let mut worker = database.worker(&[0], Durability::Group)?;
    let mut runner = workload.runner(&table, list, position);
    for number in 1..=ROUND {
        let mut retry = worker.retry();
        while let Err(error) = worker.transaction(|transaction| runner.step(transaction)) {
            if !error.should_retry() {
                return Err(error.into());
            }
            retry.wait();
        }
        runner.next();
        if number % GROUP == 0 {
            worker.force()?;
        }
    }
    Ok(worker.close()?)
}

/// Makes many changes in a transaction that never ends, and has its log made durable.
fn stay_open(
    database: &Database,
    workload: &Ycsb,
    changes: u64,
    say: impl FnOnce() + Send,
) -> Result<()> {
    let (table, marks) = (Ycsb::table(database)?, database.table(MARKS)?);
    let mut worker = database.worker(&[0], Durability::Group)?;
    let mut text = Some(say);
    let unended = worker.transaction(|transaction| {
        let rows = u64::from(workload.options().rows);
        let mut one = table.changes();
        one.set(1, "under way")?;
        for change in 0..changes {
            transaction.update(&table, (change % rows).cast_signed(), &one)?;
        }
        // A commit makes all of the log before it durable. It needs another thread, since this one
        // has a transaction open.
        let mark = || database.transaction(|transaction| transaction.insert(&marks, (1_i64,)));
        let marked = std::thread::scope(|threads| threads.spawn(mark).join());
        marked.expect("inserting does not panic")?;
        if let Some(say) = text.take() {
            say();
        }
        std::thread::sleep(CHILD_LIFE);
        Ok(())
    });
    unended?;
    bail!("nobody has killed this process")
}

/// Growth of the log.
struct LogLength {
    method: Method,
    before: u64,
    last: u64,
    /// With a log in files, the length of a segment, as far as it was seen. The newest may be
    /// empty.
    segment: u64,
}

impl LogLength {
    fn new(method: Method, statistics: &Statistics) -> Self {
        let before = log_bytes(method, statistics);
        Self {
            method,
            before,
            last: before,
            segment: 0,
        }
    }

    /// Bytes by which it has grown, at least.
    fn filled(&mut self, statistics: &Statistics) -> u64 {
        let now = log_bytes(self.method, statistics);
        if !self.method.has_rings() {
            self.segment = self.segment.max(now.saturating_sub(self.last));
        }
        self.last = now;
        now.saturating_sub(self.before + self.segment)
    }
}

/// Bytes of the log: of files their length, of rings the bytes stored there.
fn log_bytes(method: Method, statistics: &Statistics) -> u64 {
    if method.has_rings() {
        statistics.memory.parts[Part::Log as usize].bytes_stored
    } else {
        statistics.footprint.log
    }
}
