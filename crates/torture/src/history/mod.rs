//! Histories: many sessions on few rows, and whether what they saw fits some order of their transactions.
//!
//! Every write can be told from every other, so what a transaction read says which ones came before it. Two kinds of rows, after the checker Elle
//! (Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations", VLDB 2020): a *list* to which
//! each writer appends an element of its own, and a *register* that each writer reads and then overwrites. `check` derives who depends on whom
//! and looks for circles. Rows come and go in a window that moves on, so they are contended, short, and at first not there, which scans notice.
//!
//! Some transactions undo themselves, and some wait for each other in circles and are run again: nothing that they wrote may ever be seen.

mod check;
mod cut;
#[cfg(test)]
mod tests;

pub use check::{Anomaly, History, Observation, Order, Session, check, settle};
pub use cut::{CutOptions, run_with_cuts};

use check::Element;
use indelible::{
    Advice, DataType, Database, Direction, Durability, Error, Isolation, Result, Row, Table,
    Transaction, TransactionOptions,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const TABLE: &str = "history";
/// Rows that are used at a time.
const WINDOW: u64 = 12;
/// Transactions after which the window moves on by a row.
const MOVES_EVERY: u64 = 12;
/// Most statements of a transaction.
const STATEMENTS_MAX: u64 = 5;
/// Elements that a transaction can write.
const ELEMENTS: u64 = 8;
/// Longest list, in bytes: far more than a row gets while it is in the window.
const LIST_BYTES_MAX: u32 = 3000;
/// Times that a transaction is run again after a deadlock.
const RETRIES_MAX: u32 = 1000;
/// Pause in front of the second attempt; longer in front of later ones.
const PAUSE: Duration = Duration::from_micros(50);

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct HistoryOptions {
    /// Sessions, each a thread.
    pub sessions: u32,
    /// Transactions of all sessions together.
    pub transactions: u64,
    /// How they are isolated.
    pub isolation: Isolation,
    /// What they are drawn from.
    pub seed: u64,
}

/// What a run found.
#[derive(Debug)]
pub struct HistoryReport {
    /// Transactions that committed.
    pub committed: u64,
    /// Attempts that undid themselves, or were undone to be run again.
    pub undone: u64,
    /// Lists and registers.
    pub rows: u64,
    /// Power cuts and deaths of the process.
    pub cuts: u64,
    /// Transactions whose commit had been called when one of them came, and had not returned.
    pub doubtful: u64,
    /// Dependencies between transactions.
    pub dependencies: u64,
    /// What fits no order of the transactions.
    pub anomalies: Vec<Anomaly>,
    /// The names of all durable steps that ran on the simulated device, switched off or not.
    pub sites: BTreeSet<&'static str>,
}

/// Runs transactions on a database without the table, and checks what they saw.
pub fn run(database: &Database, options: &HistoryOptions) -> Result<HistoryReport> {
    let table = create_table(database)?;
    let progress = Progress::default();
    let done = go(database, &table, options, &progress, options.transactions)?;
    let lists = final_lists(database, &table)?;
    Ok(done.report(lists))
}

fn create_table(database: &Database) -> Result<Table> {
    let list = DataType::Varchar {
        max: LIST_BYTES_MAX,
    };
    let table = database.create_table(TABLE);
    table
        .column("row", DataType::Int64)
        .column("list", list)
        .create()
}

/// How far all sessions together are.
#[derive(Default)]
struct Progress {
    attempts: AtomicU64,
    begun: AtomicU64,
    /// Whether the power has failed: nothing that happens from then on was ever acknowledged.
    is_cut: AtomicBool,
}

/// What the sessions did, so far.
#[derive(Default)]
struct Done {
    sessions: Vec<Session>,
    undone: u64,
    cuts: u64,
    doubtful: u64,
}

impl Done {
    /// Checks it, with what the rows hold at the end.
    fn report(self, lists: Vec<(u64, Vec<Element>)>) -> HistoryReport {
        let history = History {
            sessions: self.sessions,
            lists,
        };
        let checked = check(&history);
        HistoryReport {
            committed: history.sessions.iter().map(Session::transactions).sum(),
            undone: self.undone,
            rows: checked.rows,
            cuts: self.cuts,
            doubtful: self.doubtful,
            dependencies: checked.dependencies,
            anomalies: checked.anomalies,
            sites: BTreeSet::new(),
        }
    }
}

/// Runs all sessions until `until` transactions were begun or the power fails.
fn go(
    database: &Database,
    table: &Table,
    options: &HistoryOptions,
    progress: &Progress,
    until: u64,
) -> Result<Done> {
    let life = progress.attempts.load(Ordering::Relaxed);
    std::thread::scope(|threads| {
        let running: Vec<_> = (0..options.sessions)
            .map(|number| {
                let seed = options.seed ^ life << 16 ^ (u64::from(number) + 1) << 32;
                threads.spawn(move || {
                    let mut actor = Actor {
                        database,
                        table,
                        options,
                        progress,
                        random: workload::random::Random::new(seed),
                        seen: Session::default(),
                        undone: 0,
                    };
                    while !actor.is_cut() && progress.begun.fetch_add(1, Ordering::Relaxed) < until
                    {
                        let window = progress.begun.load(Ordering::Relaxed) / MOVES_EVERY;
                        actor.transaction(window)?;
                    }
                    Ok((actor.seen, actor.undone))
                })
            })
            .collect();
        let mut done = Done::default();
        for thread in running {
            let joined: Result<_> = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            let (seen, undone) = joined?;
            done.sessions.push(seen);
            done.undone += undone;
        }
        Ok(done)
    })
}

/// One session's thread.
struct Actor<'h> {
    database: &'h Database,
    table: &'h Table,
    options: &'h HistoryOptions,
    progress: &'h Progress,
    random: workload::random::Random,
    seen: Session,
    undone: u64,
}

/// What an attempt did so far.
#[derive(Default)]
struct Attempt {
    number: u64,
    elements: u64,
    observed: Vec<Observation>,
    written: Vec<(u64, Element)>,
}

/// Why a transaction undoes itself.
#[derive(Debug, thiserror::Error)]
#[error("the transaction was to be undone")]
struct Undone;

impl Actor<'_> {
    /// Whether the power has failed.
    fn is_cut(&self) -> bool {
        self.progress.is_cut.load(Ordering::SeqCst)
    }

    fn transaction(&mut self, window: u64) -> Result<()> {
        let seed = self.random.next_u64();
        for retries in 0..RETRIES_MAX {
            if retries > 0 {
                // Lets those go first whom it would meet again at once.
                std::thread::sleep(PAUSE * retries.min(50));
            }
            let mut attempt = Attempt {
                number: 1 + self.progress.attempts.fetch_add(1, Ordering::Relaxed),
                ..Attempt::default()
            };
            let options = TransactionOptions::new()
                .durability(Durability::Group)
                .isolation(self.options.isolation);
            let mut transaction = self.database.begin_with(&options)?;
            let outcome = self.statements(&mut transaction, &mut attempt, window, seed);
            let was_cut = self.is_cut();
            let outcome = outcome.map(|()| transaction.commit());
            if !was_cut && self.is_cut() && outcome.is_ok() {
                self.seen
                    .push_doubtful(attempt.number, attempt.observed, attempt.written);
                return Ok(());
            }
            match outcome.and_then(|committed| committed) {
                // What was committed behind a cut is in no next process.
                _ if was_cut => return Ok(()),
                Ok(()) => {
                    self.seen
                        .push(attempt.number, attempt.observed, attempt.written);
                    return Ok(());
                }
                Err(Error::Rejected(reason)) if reason.is::<Undone>() => {
                    self.undone += 1;
                    return Ok(());
                }
                Err(error) if error.advice() == Advice::Retry => self.undone += 1,
                // Somebody inserted the row behind the look at it, which only a serializable transaction is spared.
                Err(Error::DuplicateKey { .. })
                    if self.options.isolation != Isolation::Serializable =>
                {
                    self.undone += 1;
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::rejected(
            "a transaction was undone a thousand times to break a circle of waits",
        ))
    }

    fn statements(
        &self,
        transaction: &mut Transaction<'_>,
        attempt: &mut Attempt,
        window: u64,
        seed: u64,
    ) -> Result<()> {
        let mut random = workload::random::Random::new(seed);
        for _ in 0..=random.below(STATEMENTS_MAX) {
            let row = window + random.below(WINDOW);
            match random.below(8) {
                0..=2 => self.read(transaction, attempt, row)?,
                3 => self.scan(transaction, attempt, row)?,
                kind => self.write(transaction, attempt, row, kind < 6)?,
            }
        }
        if random.below(12) == 0 {
            return Err(Error::rejected(Undone));
        }
        Ok(())
    }

    fn read(
        &self,
        transaction: &mut Transaction<'_>,
        attempt: &mut Attempt,
        row: u64,
    ) -> Result<()> {
        let found = transaction.get(self.table, row.cast_signed())?;
        attempt.observe(row, found.as_ref().map(list_of));
        Ok(())
    }

    /// Looks at some neighbours, those that are not there included.
    fn scan(
        &self,
        transaction: &mut Transaction<'_>,
        attempt: &mut Attempt,
        row: u64,
    ) -> Result<()> {
        let end = row + 3;
        let mut lists = vec![None; 3];
        let range = row.cast_signed()..=end.cast_signed() - 1;
        transaction.scan(self.table, range, Direction::Forward, |found| {
            let number = found.get(0).as_i64().unwrap_or_default().cast_unsigned();
            lists[(number - row) as usize] = Some(list_of(found));
            ControlFlow::Continue(())
        })?;
        for (row, list) in (row..end).zip(lists) {
            attempt.observe(row, list);
        }
        Ok(())
    }

    /// Appends to a list or overwrites a register. Reading first without saying so makes circles of waits more likely.
    fn write(
        &self,
        transaction: &mut Transaction<'_>,
        attempt: &mut Attempt,
        row: u64,
        says_so: bool,
    ) -> Result<()> {
        if attempt.elements == ELEMENTS {
            return Ok(());
        }
        let key = row.cast_signed();
        let found = if says_so {
            transaction.get_for_update(self.table, key)?
        } else {
            transaction.get(self.table, key)?
        };
        let list = found.as_ref().map(list_of);
        let element = attempt.number * ELEMENTS + attempt.elements;
        attempt.elements += 1;
        attempt.observe(row, list.clone());
        let mut list = list.unwrap_or_default();
        if Order::of(row) == Order::Register {
            list.clear();
        }
        list.push(element);
        let text = text_of(&list);
        if found.is_some() {
            let mut changes = self.table.changes();
            changes.set(1, text.as_str())?;
            transaction.update(self.table, key, &changes)?;
        } else {
            let mut new = self.table.row();
            new.set(0, key)?;
            new.set(1, text.as_str())?;
            transaction.insert(self.table, &new)?;
        }
        attempt.written.push((row, element));
        Ok(())
    }
}

impl Attempt {
    fn observe(&mut self, row: u64, list: Option<Vec<Element>>) {
        self.observed
            .push(Observation::new(row, &list.unwrap_or_default()));
    }
}

fn text_of(list: &[Element]) -> String {
    let texts: Vec<String> = list.iter().map(|element| format!("{element:x}")).collect();
    texts.join(" ")
}

/// The elements of a row. What is none is left out, and missed by the check.
fn list_of(row: &Row) -> Vec<Element> {
    let text = row.get(1).as_str().unwrap_or_default();
    text.split(' ')
        .filter_map(|element| Element::from_str_radix(element, 16).ok())
        .collect()
}

fn final_lists(database: &Database, table: &Table) -> Result<Vec<(u64, Vec<Element>)>> {
    database.read(|reader| {
        let mut lists = Vec::new();
        reader.scan(table, .., Direction::Forward, |row| {
            let number = row.get(0).as_i64().unwrap_or_default().cast_unsigned();
            lists.push((number, list_of(row)));
            ControlFlow::Continue(())
        })?;
        Ok(lists)
    })
}
