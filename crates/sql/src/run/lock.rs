//! `FOR UPDATE` and its kin: rows are locked as they pass.
//!
//! A row that has changed since the snapshot is read again, and passes if the condition of the
//! query still holds for it. One that has got another primary key is followed; one that was moved
//! to another partition is an error, as in PostgreSQL.

use super::storage::{key_of, read_row};
use super::{Operator, Row, Run, build, is_true};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Busy, Lock, LockTarget, Source, TableRows};
use crate::sink::Batch;
use crate::types::Datum;
use indelible::{Found, Moved, RowLock, Wait};
use std::sync::Arc;

pub(super) struct LockRun {
    plan: Arc<Lock>,
    input: Box<dyn Operator>,
    batch: Batch,
    /// The row of the batch that is next.
    next: usize,
}

impl LockRun {
    pub(super) fn new(plan: &Arc<Lock>) -> Self {
        Self {
            plan: Arc::clone(plan),
            input: build(&plan.input),
            batch: Batch::default(),
            next: 0,
        }
    }
}

/// The newest row of a table that a lock has found.
pub(super) enum Newest {
    /// It is gone.
    Gone,
    /// Others have it, and the call was not to wait.
    Busy,
    Row(Row),
}

/// Locks a row, and reads it again.
pub(super) fn lock_row(
    source: &Source,
    row: &[Datum],
    (strength, wait): (RowLock, Wait),
    run: &mut Run<'_>,
) -> Result<Newest> {
    let key = key_of(source, row, &run.environment.context())?;
    let mut newest = source.table.row();
    match run
        .connection
        .get_locked(&source.table, key, strength, wait, &mut newest)?
    {
        Found::No => Ok(Newest::Gone),
        Found::Busy => Ok(Newest::Busy),
        Found::Yes => Ok(Newest::Row(values_of(source, &newest, run)?)),
    }
}

/// As [`lock_row`], of a row of the statement's snapshot: it is looked for where others have moved
/// it.
pub(super) fn lock_moved_row(
    source: &Source,
    row: &[Datum],
    lock: (RowLock, Wait),
    run: &mut Run<'_>,
) -> Result<Newest> {
    let found = lock_row(source, row, lock, run)?;
    if !matches!(found, Newest::Gone) {
        return Ok(found);
    }
    let key = key_of(source, row, &run.environment.context())?;
    match run.connection.moved(&source.table, key)? {
        None => Ok(Newest::Gone),
        Some(Moved::Elsewhere) => Err(moved_elsewhere()),
        Some(Moved::Within(moved)) => {
            let moved = values_of(source, &moved, run)?;
            match lock_row(source, &moved, lock, run)? {
                // Moved again or deleted, which nothing tells.
                Newest::Gone => Err(serialization(
                    "could not serialize access due to concurrent update",
                )),
                found => Ok(found),
            }
        }
    }
}

/// The error for a row that another transaction has moved to another partition.
pub(super) fn moved_elsewhere() -> SqlError {
    serialization(
        "tuple to be locked was already moved to another partition due to concurrent update",
    )
}

/// The error for a table whose rows another transaction has written anew since the snapshot.
pub(crate) fn written_anew() -> SqlError {
    serialization("could not serialize access due to a concurrent change of a table")
        .detail("The rows of the table were written anew after the transaction's snapshot.")
}

fn serialization(message: &str) -> SqlError {
    SqlError::new(SqlState::SERIALIZATION_FAILURE, message)
}

/// The values of a row of the table below.
fn values_of(source: &Source, row: &indelible::Row, run: &mut Run<'_>) -> Result<Row> {
    let mut values = Row::with_capacity(source.width());
    read_row(source, row, None, &run.environment.context(), &mut values)?;
    Ok(values)
}

/// Locks the row of one table; false if the row is not to pass.
fn lock_target(
    target: &LockTarget,
    row: &mut Row,
    changed: &mut bool,
    run: &mut Run<'_>,
) -> Result<bool> {
    let members = match &target.rows {
        TableRows::Own(source) => {
            let place = target.start..target.start + source.width();
            let own = &row[place.clone()];
            if source.key.iter().all(|&at| own[at].is_null()) {
                // The side of an outer join that has no row.
                return Ok(true);
            }
            return match lock_own(target, source, own, run)? {
                Locked::Left => Ok(false),
                Locked::AsSeen => Ok(true),
                Locked::Changed(newest) => {
                    *changed = true;
                    row.splice(place, newest);
                    Ok(true)
                }
            };
        }
        TableRows::OfFamily(members) => members,
    };
    let width = members.first().map_or(0, |member| member.columns.len());
    let (seen, hidden) = row[target.start..].split_at(width);
    let [Datum::Oid(from), key @ ..] = hidden else {
        return Ok(true);
    };
    let mut members = members.iter();
    let member = members.find(|member| member.source.oid == *from);
    let member = member.ok_or_else(|| SqlError::internal("a row is one of the family's"))?;
    let mut own = vec![Datum::Null; member.source.width()];
    for (&at, value) in member.source.key.iter().zip(key) {
        own[at] = value.clone();
    }
    for (&at, value) in member.columns.iter().zip(seen) {
        own[at] = value.clone();
    }
    match lock_own(target, &member.source, &own, run)? {
        Locked::Left => Ok(false),
        Locked::AsSeen => Ok(true),
        Locked::Changed(newest) => {
            for (value, &at) in row[target.start..].iter_mut().zip(&member.columns) {
                *changed |= *value != newest[at];
                *value = newest[at].clone();
            }
            Ok(true)
        }
    }
}

/// A row after the attempt to lock it.
enum Locked {
    /// It is not to pass.
    Left,
    /// Nobody has changed it, or not what the lock is about.
    AsSeen,
    /// Its newest state.
    Changed(Row),
}

/// Locks a row of a table with rows of its own.
fn lock_own(
    target: &LockTarget,
    source: &Source,
    own: &[Datum],
    run: &mut Run<'_>,
) -> Result<Locked> {
    let before = run.state.changed.as_ref();
    let key = || source.key.iter().map(|&at| own[at].clone());
    if before.is_some_and(|before| before.contains(&(source.oid, key().collect()))) {
        // A query of WITH has changed it.
        return Ok(Locked::Left);
    }
    let wait = match target.busy {
        Busy::Wait => run.environment.wait(),
        Busy::Fail | Busy::Skip => Wait::Never,
    };
    match lock_moved_row(source, own, (target.strength, wait), run)? {
        Newest::Gone => Ok(Locked::Left),
        Newest::Busy if target.busy == Busy::Skip => Ok(Locked::Left),
        Newest::Busy => {
            let message = format!(
                "could not obtain lock on row in relation \"{}\"",
                source.name
            );
            Err(SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message))
        }
        Newest::Row(newest) => {
            // `FOR KEY SHARE` lets others change the rest of the row, and returns what it has seen.
            let is_as_seen =
                target.strength == RowLock::KeyShare && has_same_keys(source, own, &newest);
            Ok(match is_as_seen || newest[..] == *own {
                true => Locked::AsSeen,
                false => Locked::Changed(newest),
            })
        }
    }
}

/// Whether two versions of a row have the same primary key and unique keys.
fn has_same_keys(source: &Source, one: &[Datum], other: &[Datum]) -> bool {
    let indexes = source.table.definition().indexes.into_iter();
    let unique = indexes
        .filter(|index| index.unique)
        .flat_map(|index| index.columns);
    let mut keys = source.key.iter().copied().chain(unique);
    keys.all(|at| one[at] == other[at])
}

impl Operator for LockRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        out.reset(plan.input.width());
        // One row at a time: a limit above must not leave rows locked that it does not take.
        'rows: while out.is_empty() {
            if self.next >= self.batch.len() {
                self.batch.want(out.room());
                self.input.next(run, &mut self.batch)?;
                self.next = 0;
                if self.batch.is_empty() {
                    return Ok(());
                }
            }
            let mut row = self.batch.row(self.next).to_vec();
            self.next += 1;
            run.check()?;
            let mut changed = false;
            for target in &plan.tables {
                if !lock_target(target, &mut row, &mut changed, run)? {
                    continue 'rows;
                }
            }
            if changed
                && let Some(condition) = &plan.recheck
                && !is_true(condition, &row, run)?
            {
                continue;
            }
            out.push(row);
        }
        Ok(())
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.batch.reset(0);
        self.next = 0;
        self.input.restart(run)
    }
}
