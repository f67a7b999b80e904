//! The process that is killed, and the one that kills it.
//!
//! The victim is this same program with a hidden command. It acknowledges transactions to its
//! parent through a pipe (`pipe`), only after they are durable.

use super::pipe::{Acknowledged, Acknowledgements, Work, read_all};
use crate::args::{VictimArgs, VictimJob};
use anyhow::{Context, Result, bail};
use indelible::{Database, Durability, Options, Pending, Worker};
use std::collections::VecDeque;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use workload::Script as _;
use workload::sysbench::Sysbench;
use workload::tatp::Tatp;
use workload::tpcb::Tpcb;
use workload::tpcc::Tpcc;
use workload::ycsb::{Mix, Runner, Ycsb, YcsbOptions};

/// Longest wait for a victim's first acknowledgement.
const START_MAX: Duration = Duration::from_mins(1);
/// Transactions between two acknowledgements of a YCSB victim, and the most that wait for one sync.
const BURST: usize = 64;
/// Transactions that may be done beyond the last acknowledgement: a group and the burst after it.
pub(crate) const UNACKNOWLEDGED_MAX: u64 = 4 * BURST as u64;

/// Runs the hidden command: works until it is killed.
pub(crate) fn run(args: &VictimArgs) -> Result<()> {
    let mut options = Options::new();
    if let Some(bytes) = args.checkpoint_log_bytes {
        options = options.checkpoint_log_bytes(bytes);
    }
    let database = Database::open_with(&args.path, &options)?;
    match args.job {
        VictimJob::Bookings => super::bookings::run(&database, args.seed, args.first),
        VictimJob::Tpcc => super::standard::run::<Tpcc>(&database, args.seed),
        VictimJob::Tpcb => super::standard::run::<Tpcb>(&database, args.seed),
        VictimJob::Tatp => super::standard::run::<Tatp>(&database, args.seed),
        VictimJob::Sysbench => super::standard::run::<Sysbench>(&database, args.seed),
        VictimJob::Ycsb => {
            let partitions = database.partitions();
            run_ycsb(
                &database,
                &Ycsb::new(ycsb_options(args.rows, partitions, args.seed))?,
            )
        }
    }
}

/// The workload of a YCSB victim.
pub(crate) fn ycsb_options(rows: u32, partitions: u32, seed: u64) -> YcsbOptions {
    let transactions = 1 << 20;
    YcsbOptions {
        rows,
        partitions,
        mix: Mix::WriteHeavy,
        transactions,
        seed,
        ..YcsbOptions::default()
    }
}

fn run_ycsb(database: &Database, workload: &Ycsb) -> Result<()> {
    let table = Ycsb::table(database)?;
    let acknowledgements = Acknowledgements::to_parent()?;
    std::thread::scope(|threads| {
        let workers: Vec<_> = (0..database.partitions())
            .map(|partition| {
                let acknowledge = acknowledgements.another();
                let table = &table;
                threads.spawn(move || {
                    let worker = database.worker(&[partition], Durability::Group)?;
                    let runner = workload.runner(table, partition, 0);
                    run_partition(worker, runner, partition, acknowledge?)
                })
            })
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("the list does not panic"))
    })
}

fn run_partition(
    mut worker: Worker<'_>,
    mut runner: Runner<'_>,
    partition: u32,
    mut acknowledge: Acknowledgements,
) -> Result<()> {
    let mut waiting: VecDeque<Pending> = VecDeque::with_capacity(BURST);
    loop {
        for _ in 0..BURST {
            let ((), pending) = worker.transaction(|transaction| runner.step(transaction))?;
            runner.next();
            waiting.extend(pending);
        }
        if waiting.drain(..).any(|pending| !worker.is_durable(pending)) {
            worker.force()?;
        }
        acknowledge.send(partition, runner.position())?;
    }
}

/// Runs a victim on a database and kills it with SIGKILL `after` its first acknowledgement.
pub(crate) fn run_and_kill(database: &Path, work: Work, after: Duration) -> Result<Acknowledged> {
    run_and_end(database, work, after, &mut || Ok(()))
}

/// As [`run_and_kill`], but calls `strike` just before it.
pub(super) fn run_and_end(
    database: &Path,
    work: Work,
    after: Duration,
    strike: &mut dyn FnMut() -> Result<()>,
) -> Result<Acknowledged> {
    let mut child = start(database, work)?;
    let mut pipe = child.stdout.take().context("the pipe was asked for")?;
    let mut errors = child.stderr.take().context("the pipe was asked for")?;
    let (first, started) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || read_all(&mut pipe, &first));
    let has_started = started.recv_timeout(START_MAX).is_ok();
    if has_started {
        std::thread::sleep(after);
    }
    let was_running = child.try_wait()?.is_none();
    let struck = if was_running { strike() } else { Ok(()) };
    child.kill()?;
    child.wait()?;
    struck?;
    let acknowledged = reader.join().expect("reading a pipe does not panic")?;
    if !has_started || !was_running {
        let mut text = String::new();
        errors.read_to_string(&mut text)?;
        bail!(
            "the process ended before it could be killed: {}",
            text.trim()
        );
    }
    Ok(acknowledged)
}

fn start(database: &Path, work: Work) -> Result<Child> {
    let program = std::env::current_exe().context("cannot find the program's own file")?;
    let job = match work.job {
        VictimJob::Bookings => "bookings",
        VictimJob::Tpcc => "tpcc",
        VictimJob::Tpcb => "tpcb",
        VictimJob::Tatp => "tatp",
        VictimJob::Sysbench => "sysbench",
        VictimJob::Ycsb => "ycsb",
    };
    let mut command = Command::new(program);
    command
        .arg("victim")
        .arg(database)
        .args(["--job", job, "--seed", &work.seed.to_string()])
        .args([
            "--rows",
            &work.rows.to_string(),
            "--first",
            &work.first.to_string(),
        ]);
    if let Some(bytes) = work.checkpoint_log_bytes {
        command.args(["--checkpoint-log-bytes", &bytes.to_string()]);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start the process that is to be killed")
}
