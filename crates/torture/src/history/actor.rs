//! One session of a history: transactions on rows that others use, and the observations of each.
//!
//! A row is at one of two *places*, which are keys of the table and, with several partitions,
//! mostly in different ones. Its writers change it in its place, delete and insert it there again,
//! or move it to the other place, always with one element more. So a transaction that reads it at
//! both places, or at none after it was there, has seen half of another transaction. Readers get it
//! by its key, by the secondary index, or in a scan.
//!
//! Below SERIALIZABLE a row may be moved to a place that a transaction has just read, so rows keep
//! their first place there; the primary key then keeps a row from being made twice. On connections
//! at READ COMMITTED a writer locks the row before it reads it, so no update is lost and the order
//! of the elements is known.
//!
//! Connections also give rows a *badge*, a number that a unique index keeps for one of them.

use super::check::{Anomaly, Element, Observation, Order, SessionHistory};
use super::{BADGE, BADGE_INDEX, Done, ELEMENTS, HistoryOptions, LAST, LIST, Progress, ROW, Rows};
use crate::access::Access;
use indelible::{
    Advice, Connection, Database, Durability, Error, Isolation, Result, Row, TransactionOptions,
    Value,
};
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use workload::random::Random;

/// Rows that are used at a time.
const WINDOW: u64 = 12;
/// Most statements of a transaction.
const STATEMENTS_MAX: u64 = 5;
/// Rows of a scan.
const SCANNED: u64 = 3;
/// Places of a row.
const PLACES: u64 = 2;
/// Badges for so many neighbouring rows: few enough that they are contended.
const BADGES: u64 = 2;
const BADGE_ROWS: u64 = 4;
/// One in this many writes on a connection takes a badge.
const BADGE_ONE_IN: u64 = 4;
/// A statement that takes this share of the wait limit, or more, has waited for an undetected
/// deadlock.
const WAIT_SHARE: (u32, u32) = (4, 5);

/// One session's thread.
pub(super) struct Actor<'h> {
    database: &'h Database,
    rows: &'h Rows,
    options: &'h HistoryOptions,
    progress: &'h Progress,
    random: Random,
    session: SessionHistory,
    done: Done,
    /// The connection that it uses instead of typed transactions.
    connection: Option<Connection>,
    takes_badges: bool,
    isolation: Isolation,
}

/// Observations and writes of an attempt so far.
#[derive(Default)]
struct Attempt {
    number: u64,
    /// Attempts of the transaction, this one included.
    attempts: u64,
    elements: u64,
    observed: Vec<Observation>,
    written: Vec<(u64, Element)>,
    /// Statements so far, from 1 on.
    statement: u32,
    /// A row that was seen with the badge of another one.
    shared_badge: Option<u64>,
    /// Whether all statements were done.
    is_complete: bool,
    /// Whether it went on to its commit before a cut was complete.
    was_alive: bool,
}

/// Time of the statements of a transaction, and between them.
struct Stopwatch {
    since: Instant,
    longest: Duration,
}

/// How a reader finds a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Key,
    /// By the key, to change it.
    KeyForUpdate,
    Index,
}

/// Why a transaction undoes itself.
#[derive(Debug, thiserror::Error)]
#[error("the transaction was to be undone")]
struct Undone;

impl<'h> Actor<'h> {
    pub(super) fn new(
        database: &'h Database,
        rows: &'h Rows,
        options: &'h HistoryOptions,
        progress: &'h Progress,
        seed: u64,
    ) -> Self {
        Self {
            database,
            rows,
            options,
            progress,
            random: Random::new(seed),
            session: SessionHistory::default(),
            done: Done::default(),
            connection: None,
            takes_badges: false,
            isolation: match options.connections {
                0 => options.isolation,
                // Beside connections of any level.
                _ => Isolation::Serializable,
            },
        }
    }

    /// Uses a connection from now on.
    pub(super) fn connect(&mut self) -> Result<()> {
        self.connection = Some(self.database.connect()?);
        self.takes_badges = true;
        self.isolation = self.options.isolation;
        Ok(())
    }

    /// All that it has done.
    pub(super) fn finish(mut self) -> Done {
        self.session.reads_by_statement =
            self.connection.is_some() && self.isolation == Isolation::ReadCommitted;
        self.done.sessions.push(self.session);
        self.done
    }

    /// Closes its connection and opens another, unless a cut comes between. If no other connection
    /// is open then, the new one has to wait for typed transactions that know of none.
    pub(super) fn reopen(&mut self) -> Result<()> {
        if self.connection.take().is_some() {
            match self.database.connect() {
                Ok(connection) => self.connection = Some(connection),
                Err(_) if self.is_cut() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether a cut has begun.
    pub(super) fn is_cut(&self) -> bool {
        self.progress.is_cut.load(Ordering::SeqCst)
    }

    /// Runs one transaction, again and again if others are in its way, as the database does that
    /// for its users.
    pub(super) fn transaction(&mut self, window: u64) -> Result<()> {
        let seed = self.random.next_u64();
        let options = TransactionOptions::new()
            .durability(Durability::Group)
            .isolation(self.isolation)
            .wait_limit(self.options.wait_limit);
        let (mut attempts, mut last) = (0, Attempt::default());
        let mut watch = Stopwatch::new();
        let mut connection = self.connection.take();
        let this = &*self;
        let outcome = match &mut connection {
            None => this.database.transaction_with(&options, |transaction| {
                attempts += 1;
                this.attempt(transaction, (&mut last, &mut watch), attempts, window, seed)
            }),
            Some(connection) => connection.run(this.isolation, |connection| {
                attempts += 1;
                this.attempt(connection, (&mut last, &mut watch), attempts, window, seed)
            }),
        };
        self.connection = connection;
        let is_cut = self.is_cut();
        let longest_wait = self.done.longest_wait.max(watch.longest);
        self.done.longest_wait = longest_wait;
        self.done.undone += attempts - 1;
        let (share, of) = WAIT_SHARE;
        if watch.longest >= self.options.wait_limit * share / of {
            self.done.met.push(Anomaly::Waited {
                transaction: last.number,
                waited: watch.longest,
            });
        }
        self.note(last, outcome, is_cut)
    }

    fn attempt(
        &self,
        access: &mut impl Access,
        (last, watch): (&mut Attempt, &mut Stopwatch),
        attempts: u64,
        window: u64,
        seed: u64,
    ) -> Result<()> {
        watch.lap();
        *last = Attempt {
            number: 1 + self.progress.attempts.fetch_add(1, Ordering::Relaxed),
            attempts,
            ..Attempt::default()
        };
        let outcome = self.statements(access, (&mut *last, watch), window, seed);
        last.is_complete = outcome.is_ok();
        last.was_alive = last.is_complete && !self.progress.is_dead.load(Ordering::SeqCst);
        outcome
    }

    /// Notes how a transaction has ended.
    fn note(&mut self, last: Attempt, outcome: Result<()>, is_cut: bool) -> Result<()> {
        let Attempt {
            number: transaction,
            attempts,
            observed,
            written,
            shared_badge,
            is_complete,
            was_alive,
            ..
        } = last;
        if let Some(row) = shared_badge {
            self.done
                .met
                .push(Anomaly::SharedBadge { row, transaction });
        }
        if is_cut {
            if was_alive {
                self.session.push_doubtful(transaction, observed, written);
            }
            return Ok(());
        }
        let error = match outcome {
            Ok(()) => {
                self.session.push(transaction, observed, written);
                return Ok(());
            }
            Err(error) => error,
        };
        let is_serializable = self.isolation == Isolation::Serializable;
        match error {
            Error::DuplicateKey(_) if is_complete => {
                let error = error.to_string();
                self.done.met.push(Anomaly::Commit { transaction, error });
            }
            // It does not look at a badge before it takes it.
            Error::DuplicateKey(key) if key.index == BADGE_INDEX => self.done.undone += 1,
            Error::Rejected(reason) if reason.is::<Undone>() => self.done.undone += 1,
            // Another transaction inserted the row after this one had looked for it, and only a
            // serializable one is spared that.
            Error::DuplicateKey(_) if !is_serializable => self.done.undone += 1,
            Error::DuplicateKey(_) => {
                let error = error.to_string();
                self.done
                    .met
                    .push(Anomaly::Duplicate { transaction, error });
            }
            error if error.advice() == Advice::Retry => {
                let error = error.to_string();
                self.done.met.push(Anomaly::GivenUp {
                    transaction,
                    attempts,
                    error,
                });
            }
            error => return Err(error),
        }
        Ok(())
    }

    fn statements(
        &self,
        access: &mut impl Access,
        (attempt, watch): (&mut Attempt, &mut Stopwatch),
        window: u64,
        seed: u64,
    ) -> Result<()> {
        let mut random = Random::new(seed);
        for _ in 0..=random.below(STATEMENTS_MAX) {
            let row = window + random.below(WINDOW);
            let goes_back = random.below(8) == 0;
            access.begin_statement()?;
            attempt.statement += 1;
            let wants_mark = goes_back || random.below(8) == 0;
            let mark = wants_mark.then(|| access.mark()).transpose()?;
            let before = (attempt.observed.len(), attempt.written.len());
            match random.below(16) {
                0..4 => self.read(access, attempt, row, Way::Key)?,
                4..6 => self.read(access, attempt, row, Way::Index)?,
                6..8 => self.scan(access, attempt, row)?,
                8..12 => self.write(access, attempt, row, (Way::KeyForUpdate, &mut random))?,
                // Reading first without saying so makes deadlocks more likely.
                12..15 => self.write(access, attempt, row, (Way::Key, &mut random))?,
                _ => self.write(access, attempt, row, (Way::Index, &mut random))?,
            }
            if let Some(mark) = mark.filter(|_| goes_back) {
                access.roll_back_to(&mark)?;
                attempt.observed.truncate(before.0);
                attempt.written.truncate(before.1);
            }
            watch.lap();
        }
        if random.below(12) == 0 {
            return Err(Error::rejected(Undone));
        }
        Ok(())
    }

    /// Places at which a row may be.
    fn places(&self) -> u64 {
        match self.options.isolation {
            Isolation::Serializable => PLACES,
            _ => 1,
        }
    }

    /// Whether writes have to lock what they read first.
    fn has_to_lock(&self) -> bool {
        self.options.connections > 0 && self.isolation == Isolation::ReadCommitted
    }

    /// The row, at all places at which it is.
    fn find(&self, access: &mut impl Access, row: u64, way: Way) -> Result<Vec<Row>> {
        let table = &self.rows.table;
        if way == Way::Index {
            return access.find(&self.rows.index, row.cast_signed());
        }
        let mut found = Vec::new();
        for place in 0..self.places() {
            let key = key_at(row, place);
            found.extend(match way {
                Way::KeyForUpdate => access.get_for_update(table, key)?,
                _ => access.get(table, key)?,
            });
        }
        Ok(found)
    }

    fn read(
        &self,
        access: &mut impl Access,
        attempt: &mut Attempt,
        row: u64,
        way: Way,
    ) -> Result<()> {
        let found = self.find(access, row, way)?;
        attempt.observe(row, &lists_of(&found));
        Ok(())
    }

    /// Looks at some neighbours, the missing ones included.
    fn scan(&self, access: &mut impl Access, attempt: &mut Attempt, row: u64) -> Result<()> {
        let mut lists = vec![Vec::new(); SCANNED as usize];
        let mut badges = HashSet::new();
        let keys = key_at(row, 0)..=key_at(row + SCANNED, 0) - 1;
        for found in access.collect(&self.rows.table, keys)? {
            let number = number_of(&found).wrapping_sub(row);
            if let Some(list) = lists.get_mut(number as usize) {
                list.extend(list_of(&found));
            }
            // It may have taken a badge itself that was free only after its snapshot.
            let last = list_of(&found).pop().unwrap_or_default();
            let badge = badge_of(&found).filter(|_| last / ELEMENTS != attempt.number);
            if badge.is_some_and(|badge| !badges.insert(badge)) {
                attempt.shared_badge = Some(number_of(&found));
            }
        }
        for (row, list) in (row..).zip(lists) {
            attempt.observe(row, &list);
        }
        Ok(())
    }

    /// Appends to a list or overwrites a register.
    fn write(
        &self,
        access: &mut impl Access,
        attempt: &mut Attempt,
        row: u64,
        (way, random): (Way, &mut Random),
    ) -> Result<()> {
        if attempt.elements == ELEMENTS {
            return Ok(());
        }
        let way = if self.has_to_lock() {
            Way::KeyForUpdate
        } else {
            way
        };
        let found = self.find(access, row, way)?;
        let element = attempt.number * ELEMENTS + attempt.elements;
        attempt.elements += 1;
        let mut list = lists_of(&found);
        if way == Way::KeyForUpdate {
            attempt.observe_locked(row, &list);
        } else {
            attempt.observe(row, &list);
        }
        if Order::of(row) == Order::Register {
            list.clear();
        }
        list.push(element);
        self.store(access, row, (found.first(), &list), random)?;
        attempt.written.push((row, element));
        Ok(())
    }

    /// Stores the new list: as a new row, or instead of the old one in one of several ways.
    fn store(
        &self,
        access: &mut impl Access,
        row: u64,
        (old, list): (Option<&Row>, &[Element]),
        random: &mut Random,
    ) -> Result<()> {
        let table = &self.rows.table;
        let newest = list.last().copied().unwrap_or_default().cast_signed();
        let text = text_of(list);
        let takes_badge = self.takes_badges && random.below(BADGE_ONE_IN) == 0;
        let first = row / BADGE_ROWS * BADGES;
        let badge = takes_badge.then(|| (first + random.below(BADGES)).cast_signed());
        let insert = |access: &mut _, key: i64| {
            let values = (key, row.cast_signed(), newest, text.as_str(), badge);
            Access::insert(access, table, values)
        };
        let Some(old) = old.and_then(|old| old.get(0).as_i64()) else {
            return insert(access, key_at(row, 0));
        };
        let can_move = self.places() == PLACES;
        let other = old ^ 1;
        match random.below(8) {
            0 => {
                access.delete(table, old)?;
                insert(access, old)
            }
            1 if can_move => {
                access.delete(table, old)?;
                insert(access, other)
            }
            way => {
                let mut changes = table.changes();
                if way == 2 && can_move {
                    changes.set(0, other)?;
                }
                changes.set(LAST, newest)?;
                changes.set(LIST, text.as_str())?;
                if let Some(badge) = badge {
                    changes.set(BADGE, &Value::Int64(badge))?;
                }
                access.update(table, old, &changes).map(drop)
            }
        }
    }
}

impl Attempt {
    fn observe(&mut self, row: u64, list: &[Element]) {
        let seen = Observation::new(row, list);
        self.observed.push(seen.in_statement(self.statement));
    }

    /// Observes a row that stays as it is until the transaction ends.
    fn observe_locked(&mut self, row: u64, list: &[Element]) {
        self.observed.push(Observation::new(row, list));
    }
}

impl Stopwatch {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            longest: Duration::ZERO,
        }
    }

    /// A statement, or the time between two attempts, has ended.
    fn lap(&mut self) {
        self.longest = self.longest.max(self.since.elapsed());
        self.since = Instant::now();
    }
}

/// The key of a row at one of its places.
fn key_at(row: u64, place: u64) -> i64 {
    (row * PLACES + place).cast_signed()
}

/// The number of a row.
pub(super) fn number_of(row: &Row) -> u64 {
    row.get(ROW).as_i64().unwrap_or_default().cast_unsigned()
}

/// The badge of a row.
pub(super) fn badge_of(row: &Row) -> Option<i64> {
    row.get(BADGE).as_i64()
}

fn text_of(list: &[Element]) -> String {
    let texts: Vec<String> = list.iter().map(|element| format!("{element:x}")).collect();
    texts.join(" ")
}

/// The elements of a row. A text that is none is left out, and missed by the check.
pub(super) fn list_of(row: &Row) -> Vec<Element> {
    let text = row.get(LIST).as_str().unwrap_or_default();
    text.split(' ')
        .filter_map(|element| Element::from_str_radix(element, 16).ok())
        .collect()
}

/// The elements of a row at all places at which it was found.
fn lists_of(found: &[Row]) -> Vec<Element> {
    found.iter().flat_map(list_of).collect()
}
