//! Histories: many sessions on few rows, and whether the observations of their transactions fit
//! some order of them.
//!
//! Every write can be told from every other, so the content that a transaction reads shows which
//! ones came before it. Two kinds of rows, after the checker Elle (Kingsbury and Alvaro, "Elle:
//! Inferring Isolation Anomalies from Experimental Observations", VLDB 2020): a *list* to which
//! each writer appends an element of its own, and a *register* that each writer reads and then
//! overwrites. [`check`] derives the dependencies between transactions and looks for cycles. Rows
//! come and go in a moving window, so they are contended, short, and at first missing, which scans
//! notice.
//!
//! Some transactions roll back, wholly or to a savepoint, and some are aborted to break a deadlock
//! and run again: no element that they undid may ever be read. Errors and waits are observations as
//! well: a serializable transaction that has looked for a key never meets a duplicate there, no
//! call waits nearly as long as the limit of waits, and no transaction is given up.

mod actor;
mod check;
mod cut;
#[cfg(test)]
mod tests;

pub use check::{Anomaly, History, Level, Observation, Order, SessionHistory, check, settle};
pub use cut::{CutOptions, run_with_cuts};

use actor::Actor;
use check::Element;
use indelible::{DataType, Database, Direction, Index, Isolation, Result, Table};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const TABLE: &str = "history";
const INDEX: &str = "by_row";
/// Columns: the key, which is the row's number and its place; the number alone; the newest element;
/// all elements; the badge.
const ROW: usize = 1;
const LAST: usize = 2;
const LIST: usize = 3;
const BADGE: usize = 4;
/// Unique index on the badges.
const BADGE_INDEX: &str = "by_badge";
/// Transactions of a period in which connections are open.
const PERIOD: u64 = 400;
/// Transactions at its beginning and at its end while none is.
const MARGIN: u64 = 12;
/// One in this many transactions begins on a new connection, if it is on one.
const REOPENS_EVERY: u64 = 16;
/// Transactions after which the window moves on by a row.
const MOVES_EVERY: u64 = 12;
/// Elements that a transaction can write.
const ELEMENTS: u64 = 8;
/// Longest list, in bytes: far more than a row gets while it is in the window.
const LIST_BYTES_MAX: u32 = 3000;
/// Anomalies that are listed; more of them add nothing.
const ANOMALIES_MAX: usize = 10;

/// Sessions, transactions and their isolation.
#[derive(Clone, Copy, Debug)]
pub struct HistoryOptions {
    /// Sessions of typed transactions, each a thread.
    pub sessions: u32,
    /// Connections, each a thread. Beside them typed transactions are serializable.
    pub connections: u32,
    /// Transactions of all sessions together.
    pub transactions: u64,
    /// Isolation level of all of them, or of those on connections.
    pub isolation: Isolation,
    /// Longest wait for a partition or a lock. A call that takes nearly as long is an anomaly:
    /// deadlocks have to be detected, not waited out.
    pub wait_limit: Duration,
    /// Source of all randomness.
    pub seed: u64,
}

impl Default for HistoryOptions {
    fn default() -> Self {
        Self {
            sessions: 8,
            connections: 0,
            transactions: 1000,
            isolation: Isolation::default(),
            wait_limit: Duration::from_secs(10),
            seed: 1,
        }
    }
}

/// Counts and anomalies of a run.
#[derive(Debug)]
pub struct HistoryReport {
    /// Transactions that committed.
    pub committed: u64,
    /// Attempts that undid themselves, or were aborted to be run again.
    pub undone: u64,
    /// Lists and registers.
    pub rows: u64,
    /// Power cuts and deaths of the process.
    pub cuts: u64,
    /// Transactions whose commit had been called when one of them came, and had not returned.
    pub doubtful: u64,
    /// Dependencies between transactions.
    pub dependencies: u64,
    /// Longest time of one statement, or between two attempts of a transaction.
    pub longest_wait: Duration,
    /// Observations that fit no order of the transactions and that the isolation level forbids; at
    /// most ten.
    pub anomalies: Vec<Anomaly>,
    /// Number of those that the isolation level allows.
    pub allowed: u64,
    /// The names of all durable steps that ran on the simulated device, switched off or not.
    pub sites: BTreeSet<&'static str>,
}

/// Runs transactions on a database without the table, and checks their observations.
pub fn run(database: &Database, options: &HistoryOptions) -> Result<HistoryReport> {
    let rows = Rows::create(database)?;
    let progress = Progress::default();
    let mut done = Done::default();
    let mut begun = 0;
    while begun < options.transactions {
        let until = match options.connections {
            0 => options.transactions,
            _ => options.transactions.min(begun + PERIOD),
        };
        done.append(go(database, &rows, options, &progress, until)?);
        begun = until;
    }
    let lists = rows.final_lists(database)?;
    Ok(done.report(lists, options))
}

/// The table, and the secondary index by the numbers of its rows.
struct Rows {
    table: Table,
    index: Index,
}

impl Rows {
    fn create(database: &Database) -> Result<Self> {
        let list = DataType::Varchar {
            max: LIST_BYTES_MAX,
        };
        let table = database.create_table(TABLE);
        table
            .column("place", DataType::Int64)
            .column("row", DataType::Int64)
            .column("last", DataType::Int64)
            .column("list", list)
            .nullable_column("badge", DataType::Int64)
            .index(INDEX, ["row", "last"])
            .unique_index(BADGE_INDEX, ["badge"])
            .create()?;
        Self::find(database)
    }

    fn find(database: &Database) -> Result<Self> {
        let table = database.table(TABLE)?;
        let index = table.index(INDEX)?;
        Ok(Self { table, index })
    }

    /// The elements of each row; those of all places, if it is wrongly in several.
    fn final_lists(&self, database: &Database) -> Result<Vec<(u64, Vec<Element>)>> {
        let lists = database.read(|reader| {
            let mut lists: BTreeMap<u64, Vec<Element>> = BTreeMap::new();
            reader.scan(&self.table, .., Direction::Forward, |found| {
                let list = lists.entry(actor::number_of(found)).or_default();
                list.extend(actor::list_of(found));
                ControlFlow::Continue(())
            })?;
            Ok(lists)
        })?;
        Ok(lists.into_iter().collect())
    }
}

/// How far all sessions together are.
#[derive(Default)]
struct Progress {
    attempts: AtomicU64,
    begun: AtomicU64,
    /// Whether a cut has begun: nothing that happens from then on was ever acknowledged.
    is_cut: AtomicBool,
    /// Whether the cut is complete: nothing that happens from then on is in the next process.
    is_dead: AtomicBool,
    /// Whether a session has ended with an error.
    has_failed: AtomicBool,
}

impl Progress {
    /// Begins a transaction, unless `until` of them were begun; the number of those before it.
    fn begin(&self, until: u64) -> Option<u64> {
        let next = |begun| (begun < until).then_some(begun + 1);
        let begun = &self.begun;
        begun
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .ok()
    }

    /// Waits until so many transactions were begun, or none will follow.
    fn wait_for(&self, begun: u64) {
        while self.begun.load(Ordering::Relaxed) < begun
            && !self.has_failed.load(Ordering::Relaxed)
            && !self.is_cut.load(Ordering::SeqCst)
        {
            std::thread::yield_now();
        }
    }

    /// The next process begins.
    fn begin_anew(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
        self.is_dead.store(false, Ordering::SeqCst);
    }
}

/// Transactions and observations of the sessions so far.
#[derive(Default)]
struct Done {
    sessions: Vec<SessionHistory>,
    /// Anomalies that a session has met itself.
    met: Vec<Anomaly>,
    longest_wait: Duration,
    undone: u64,
    cuts: u64,
    doubtful: u64,
}

impl Done {
    /// Adds those of another life of the process.
    fn append(&mut self, mut other: Self) {
        self.sessions.append(&mut other.sessions);
        self.met.append(&mut other.met);
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.undone += other.undone;
        self.cuts += other.cuts;
        self.doubtful += other.doubtful;
    }

    /// Checks them, with the content of the rows at the end.
    fn report(self, lists: Vec<(u64, Vec<Element>)>, options: &HistoryOptions) -> HistoryReport {
        let history = History {
            sessions: self.sessions,
            lists,
        };
        let mut checked = check(&history, Level::Serializable);
        let mut allowed = 0;
        if options.connections > 0 && options.isolation != Isolation::Serializable {
            let strictest = checked.anomalies.len();
            checked = check(&history, Level::of_connections(options.isolation));
            allowed = strictest.saturating_sub(checked.anomalies.len()) as u64;
        }
        let all = self.met.into_iter().chain(checked.anomalies);
        let (allowed_here, mut anomalies): (Vec<_>, Vec<_>) = all.partition(|anomaly| {
            options.connections == 0 && anomaly.is_allowed_at(options.isolation)
        });
        allowed += allowed_here.len() as u64;
        anomalies.truncate(ANOMALIES_MAX);
        HistoryReport {
            committed: history
                .sessions
                .iter()
                .map(SessionHistory::transactions)
                .sum(),
            undone: self.undone,
            rows: checked.rows,
            cuts: self.cuts,
            doubtful: self.doubtful,
            dependencies: checked.dependencies,
            longest_wait: self.longest_wait,
            anomalies,
            allowed,
            sites: BTreeSet::new(),
        }
    }
}

/// Runs all sessions until `until` transactions were begun or the power fails. Typed transactions
/// begin before the connections open, and go on when they are closed.
fn go(
    database: &Database,
    rows: &Rows,
    options: &HistoryOptions,
    progress: &Progress,
    until: u64,
) -> Result<Done> {
    let life = progress.attempts.load(Ordering::Relaxed);
    let first = progress.begun.load(Ordering::Relaxed);
    let margin = if options.sessions > 0 { MARGIN } else { 0 };
    std::thread::scope(|threads| {
        let running: Vec<_> = (0..options.sessions + options.connections)
            .map(|number| {
                let seed = options.seed ^ life << 16 ^ (u64::from(number) + 1) << 32;
                threads.spawn(move || {
                    let mut actor = Actor::new(database, rows, options, progress, seed);
                    let mut until = until;
                    let mut run = || {
                        if number >= options.sessions {
                            until = until.saturating_sub(margin);
                            progress.wait_for(until.min(first + margin));
                            actor.connect()?;
                        }
                        while !actor.is_cut()
                            && let Some(begun) = progress.begin(until)
                        {
                            if begun.is_multiple_of(REOPENS_EVERY) {
                                actor.reopen()?;
                                if actor.is_cut() {
                                    break;
                                }
                            }
                            actor.transaction(begun / MOVES_EVERY)?;
                        }
                        Ok(())
                    };
                    let ran = run();
                    if ran.is_err() {
                        progress.has_failed.store(true, Ordering::Relaxed);
                    }
                    ran.map(|()| actor.finish())
                })
            })
            .collect();
        let mut done = Done::default();
        for thread in running {
            let joined: Result<_> = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            done.append(joined?);
        }
        Ok(done)
    })
}
