//! Recovery after SIGKILL: a child process runs a fixed number of transactions, has one more under
//! way, and is killed.
//!
//! 1. The parent loads a database, writes a checkpoint and closes it.
//! 2. The child opens it, runs the transactions, makes them durable, begins another one, and says
//!    so through a pipe.
//! 3. The parent kills the child, and takes the time of the opening that recovers. Then it checks
//!    the content, and writes a checkpoint. The next measurement begins at 2, further along the
//!    list.
//!
//! The database is on the native device, because the emulated device's own cost would be part of
//! the measured work.

use super::Ready;
use crate::args::{LabVictimArgs, LabWorkload};
use crate::scratch::Scratch;
use anyhow::{Context, Result, bail};
use indelible::{Database, Durability, LayoutKind, Method, Options};
use lab::point::Point;
use lab::rows::Metrics;
use lab::size::Size;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use workload::tpcc::{Scale, Tables, Tpcc, TpccOptions, is_rollback};
use workload::ycsb::{Mix, Ycsb, YcsbOptions};
use workload::{Script as _, Workload as _};

/// Byte with which the child says that it may be killed.
const READY: u8 = b'!';
/// Transactions between two syncs.
const GROUP: u64 = 64;
/// Longest list of transactions.
const LIST: u64 = 1 << 19;
/// The child ends by itself after this time, in case nobody kills it.
const CHILD_LIFE: Duration = Duration::from_mins(10);

/// The list of transactions of either workload.
enum List {
    Ycsb(Ycsb),
    Tpcc(Tpcc),
}

/// A database whose process is killed in each measurement.
struct Killed {
    args: LabVictimArgs,
    list: List,
    partitions: u32,
    _scratch: Scratch,
}

/// Loads the database of a point.
pub(super) fn prepare(point: &Point, size: &Size, parent: &Path) -> Result<Box<dyn Ready>> {
    let method: Method = point
        .get("method")
        .parse()
        .map_err(|problem| anyhow::anyhow!("method {problem}"))?;
    let scratch = Scratch::in_directory(parent)?;
    let path = scratch.path().join("recovery.db");
    let args = LabVictimArgs {
        path: path.clone(),
        workload: match point.get("workload") {
            "tpcc" => LabWorkload::Tpcc,
            _ => LabWorkload::Ycsb,
        },
        txns: point.get("txns").parse().context("txns is a number")?,
        rows: size.recovery_rows,
        scale: size.tpcc_scale(),
        first: 0,
        seed: point.seed,
    };
    let list = List::new(&args, size.partitions)?;
    let options = Options::new()
        .method(method)
        .partitions(size.partitions)
        .layout(LayoutKind::Separate);
    let options = point.of_database(options)?;
    let database = Database::create(&path, &options)?;
    list.load(&database)?;
    database.checkpoint()?;
    database.close()?;
    Ok(Box::new(Killed {
        args,
        list,
        partitions: size.partitions,
        _scratch: scratch,
    }))
}

impl Ready for Killed {
    fn measure(&mut self) -> Result<Metrics> {
        let args = &mut self.args;
        kill(args)?;
        let start = Instant::now();
        let database = Database::open(&args.path)?;
        let recovery_ms = start.elapsed().as_secs_f64() * 1e3;
        let statistics = database.statistics()?;
        args.first += args.txns.div_ceil(self.partitions.into());
        self.list
            .check(&database, args.first)
            .context("the database did not survive the kill")?;
        database.checkpoint()?;
        database.close()?;
        Ok(Metrics::from([
            ("recovery_ms".into(), recovery_ms),
            ("replayed".into(), statistics.recovery_replayed as f64),
            ("undone".into(), statistics.recovery_undone as f64),
        ]))
    }
}

/// Starts a child, and kills it when it is ready.
fn kill(args: &LabVictimArgs) -> Result<()> {
    let program = std::env::current_exe().context("cannot find the program's own file")?;
    let workload = match args.workload {
        LabWorkload::Ycsb => "ycsb",
        LabWorkload::Tpcc => "tpcc",
    };
    let mut child = Command::new(program)
        .args(["lab", "victim"])
        .arg(&args.path)
        .args(["--workload", workload])
        .args(["--txns", &args.txns.to_string()])
        .args(["--rows", &args.rows.to_string()])
        .args(["--scale", &args.scale.to_string()])
        .args(["--first", &args.first.to_string()])
        .args(["--seed", &args.seed.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start the process that is to be killed")?;
    let mut pipe = child.stdout.take().context("the pipe was asked for")?;
    let mut errors = child.stderr.take().context("the pipe was asked for")?;
    let mut said = [0];
    let heard = pipe.read_exact(&mut said);
    child.kill()?;
    child.wait()?;
    if heard.is_err() || said != [READY] {
        let mut text = String::new();
        errors.read_to_string(&mut text)?;
        bail!("the process ended before it was killed: {}", text.trim());
    }
    Ok(())
}

/// Runs the hidden command: works, says that it is ready, and waits for its end inside a
/// transaction.
pub(in super::super) fn victim(args: &LabVictimArgs) -> Result<()> {
    let database = Database::open(&args.path)?;
    let partitions = database.partitions();
    let list = List::new(args, partitions)?;
    let count = args.txns.div_ceil(partitions.into());
    // The last partition to be ready says it.
    let waiting = Mutex::new(partitions);
    let outcomes: Vec<Result<()>> = std::thread::scope(|threads| {
        let workers: Vec<_> = (0..partitions)
            .map(|partition| {
                let (list, database, waiting) = (&list, &database, &waiting);
                threads.spawn(move || list.work(database, partition, args.first, count, waiting))
            })
            .collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, _>| {
            worker.join().expect("the list does not panic")
        };
        workers.into_iter().map(join).collect()
    });
    outcomes.into_iter().collect()
}

impl List {
    fn new(args: &LabVictimArgs, partitions: u32) -> Result<Self> {
        Ok(match args.workload {
            LabWorkload::Ycsb => Self::Ycsb(Ycsb::new(YcsbOptions {
                rows: args.rows,
                partitions,
                mix: Mix::WriteHeavy,
                transactions: LIST,
                seed: args.seed,
                ..YcsbOptions::default()
            })?),
            LabWorkload::Tpcc => Self::Tpcc(Tpcc::new(TpccOptions {
                warehouses: partitions,
                partitions,
                scale: Scale::share(args.scale),
                single_partition: true,
                transactions: LIST,
                seed: args.seed,
                ..TpccOptions::default()
            })?),
        })
    }

    fn load(&self, database: &Database) -> Result<()> {
        match self {
            Self::Ycsb(ycsb) => ycsb.load(database, |_| ()).map(drop)?,
            Self::Tpcc(tpcc) => tpcc.load(database, |_| ()).map(drop)?,
        }
        Ok(())
    }

    /// Checks that exactly `count` transactions of each partition are there.
    fn check(&self, database: &Database, count: u64) -> Result<()> {
        let done = vec![count..=count; database.partitions() as usize];
        match self {
            Self::Ycsb(ycsb) => ycsb
                .check(database, &Ycsb::table(database)?, &done)
                .map(drop)?,
            Self::Tpcc(tpcc) => tpcc.check(database, &done).map(drop)?,
        }
        Ok(())
    }

    /// Runs `count` transactions of a partition, and then waits inside another one.
    fn work(
        &self,
        database: &Database,
        partition: u32,
        first: u64,
        count: u64,
        waiting: &Mutex<u32>,
    ) -> Result<()> {
        match self {
            Self::Ycsb(ycsb) => {
                let table = Ycsb::table(database)?;
                let mut runner = ycsb.runner(&table, partition, first);
                work(database, partition, count, waiting, |transaction| {
                    let done = runner.step(transaction);
                    runner.next();
                    done
                })
            }
            Self::Tpcc(tpcc) => {
                let tables = Tables::open(database)?;
                let mut runner = tpcc.runner(database, &tables, partition, first)?;
                work(database, partition, count, waiting, |transaction| {
                    let done = runner.step(transaction);
                    runner.next();
                    done
                })
            }
        }
    }
}

/// Runs transactions in groups that are made durable, then one that never ends.
fn work(
    database: &Database,
    partition: u32,
    count: u64,
    waiting: &Mutex<u32>,
    mut step: impl FnMut(&mut indelible::Transaction<'_>) -> indelible::Result<()>,
) -> Result<()> {
    let mut worker = database.worker(&[partition], Durability::Group)?;
    for number in 0..count {
        match worker.transaction(&mut step) {
            Ok(_) => {}
            Err(error) if is_rollback(&error) => {}
            Err(error) => return Err(error.into()),
        }
        if number % GROUP == GROUP - 1 {
            worker.force()?;
        }
    }
    worker.force()?;
    let unended = worker.transaction(|transaction| {
        // A rollback that belongs to the workload leaves nothing in flight, which is acceptable
        // too.
        let done = step(transaction);
        let mut others = waiting.lock().expect("nobody panics with it");
        *others -= 1;
        if *others == 0 {
            let mut out = std::io::stdout().lock();
            // If the parent is gone, nobody kills the child.
            let _ = out.write_all(&[READY]).and_then(|()| out.flush());
        }
        drop(others);
        std::thread::sleep(CHILD_LIFE);
        done
    });
    match unended {
        Err(error) if !is_rollback(&error) => Err(error.into()),
        _ => bail!("nobody killed this process"),
    }
}
