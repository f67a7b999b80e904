//! Connections: each has a thread that begins, runs the statements, and commits in separate calls,
//! as a client does. A transaction that fails because of others is aborted and run again, and its
//! latency is that of all attempts.
//!
//! They run alone, or beside connections that do not belong to the load: some that have written and
//! stay idle inside their transactions, or one that reads a single snapshot from the beginning of
//! the span to its end.

use crate::run::{Done, Limit, Measured, Tally, run_threads};
use anyhow::{Context, Result, ensure};
use indelible::{Connection, Database, Durability, Error, Isolation, StorageError};
use pmem::device::emulated::Clock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use workload::tpcb::{Tables, Tpcb};
use workload::{InteractiveScript, Workload};

/// Pause between two looks of the reader: it is to stay, not to take the processor.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// The measured part of a run.
#[derive(Clone, Copy, Debug)]
pub struct Span<'p> {
    /// Where each connection is in its list.
    pub positions: &'p [u64],
    /// When it ends.
    pub limit: Limit,
    /// Isolation of the transactions.
    pub isolation: Isolation,
    /// When commits are acknowledged.
    pub durability: Durability,
}

/// Connections that do not belong to the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onlooker {
    /// Nobody.
    None,
    /// So many that have written and stay idle.
    Idle(u32),
    /// One that reads one snapshot for the whole span.
    Reader,
}

/// Findings of the reader.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stay {
    /// How often it has read its snapshot.
    pub looks: u64,
    /// Most before images that it has seen kept.
    pub images_max: u64,
    /// Their bytes.
    pub image_bytes_max: u64,
}

/// Measures a span of TPC-B beside an onlooker.
pub fn measure_tpcb(
    workload: &Tpcb,
    database: &Database,
    tables: &Tables,
    span: &Span<'_>,
    onlooker: Onlooker,
) -> Result<(Measured, Stay)> {
    let run = || {
        measure(database, span, |list, position| {
            Ok(workload.runner(database, tables, list, position)?)
        })
    };
    match onlooker {
        Onlooker::None => Ok((run()?, Stay::default())),
        Onlooker::Idle(count) => {
            let mut idle = Vec::new();
            for number in 0..count {
                let mut connection = database.connect()?;
                connection.begin(span.isolation)?;
                tables.write_aside(&mut connection, number)?;
                idle.push(connection);
            }
            let measured = run()?;
            ensure!(
                idle.iter().all(Connection::is_open),
                "an idle connection has lost its transaction"
            );
            Ok((measured, Stay::default()))
        }
        Onlooker::Reader => {
            let mut reader = database.connect()?;
            reader.begin(Isolation::RepeatableRead)?;
            let first = tables.balances(&mut reader)?;
            let stop = AtomicBool::new(false);
            std::thread::scope(|threads| {
                let reader = threads.spawn(|| stay(database, tables, reader, first, &stop));
                let measured = run();
                stop.store(true, Ordering::Relaxed);
                let stay = reader
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                Ok((measured?, stay.context("the long reader")?))
            })
        }
    }
}

/// Reads the same snapshot again and again.
fn stay(
    database: &Database,
    tables: &Tables,
    mut reader: Connection,
    first: (i64, i64),
    stop: &AtomicBool,
) -> Result<Stay> {
    let mut stay = Stay::default();
    loop {
        let is_last = stop.load(Ordering::Relaxed);
        let now = tables.balances(&mut reader)?;
        ensure!(
            now == first && now.0 == now.1,
            "a snapshot has changed: {first:?} became {now:?}"
        );
        stay.looks += 1;
        stay.images_max = stay.images_max.max(database.snapshot_images());
        stay.image_bytes_max = stay.image_bytes_max.max(database.snapshot_bytes());
        if is_last {
            return Ok(stay);
        }
        std::thread::sleep(LOOK_PAUSE);
    }
}

/// Runs all lists in parallel, each over a connection of its own.
fn measure<S: InteractiveScript>(
    database: &Database,
    span: &Span<'_>,
    script: impl Fn(u32, u64) -> Result<S> + Sync,
) -> Result<Measured> {
    let limit = span.limit;
    run_threads(
        S::KINDS,
        span.positions,
        limit,
        &|list, position, clockwork| {
            let mut client = Client {
                database,
                connection: database.connect()?,
                script: script(list, position)?,
                isolation: span.isolation,
                durability: span.durability,
                tally: Tally::new(S::KINDS),
            };
            let end = match limit {
                Limit::Time(_) => u64::MAX,
                Limit::Transactions(count) => position.saturating_add(count),
            };
            let clock = Clock::real();
            clockwork.wait_for_start();
            let mut start_ns = clock.now_ns_unordered();
            while client.script.position() < end && !clockwork.is_over() {
                let kind = client.script.kind();
                client.transaction()?;
                client.script.next();
                let now_ns = clock.now_ns_unordered();
                client.tally.record(kind, now_ns.saturating_sub(start_ns));
                start_ns = now_ns;
            }
            Ok(Done {
                position: client.script.position(),
                tally: client.tally,
            })
        },
    )
}

/// One connection with its list.
struct Client<'run, S> {
    database: &'run Database,
    connection: Connection,
    script: S,
    isolation: Isolation,
    durability: Durability,
    tally: Tally,
}

impl<S: InteractiveScript> Client<'_, S> {
    /// Runs the next transaction, again after each conflict.
    fn transaction(&mut self) -> Result<()> {
        let mut retry = self.database.retry();
        while let Err(error) = self.attempt() {
            self.connection.abort();
            if !error.should_retry() {
                return Err(error.into());
            }
            self.tally.conflicts += 1;
            let aborts = &mut self.tally.aborts;
            match error {
                Error::Serialization { .. } => aborts.serialization += 1,
                Error::Storage(StorageError::Deadlock { .. }) => aborts.deadlocks += 1,
                _ => aborts.timeouts += 1,
            }
            retry.wait();
        }
        Ok(())
    }

    fn attempt(&mut self) -> indelible::Result<()> {
        self.connection.begin(self.isolation)?;
        self.script.step_over(&mut self.connection)?;
        self.connection.commit(self.durability).map(drop)
    }
}
