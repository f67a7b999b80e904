//! Sequences: numbers that are handed out once, whatever becomes of the transaction.
//!
//! The state of a sequence is a row of a hidden table. A session takes numbers from a range that
//! one short transaction of its own has reserved for all sessions, so a crash leaves a gap and
//! repeats nothing. An orderly end gives back the numbers that are left.
//!
//! | key of the row | value |
//! |---|---|
//! | -number | the number that was handed out, or reserved, last |
//! | -number - 2^32 | the number that comes next, of a sequence that was set so |
//! | number | the number that comes next: rows of earlier builds, which are replaced |
//!
//! At most one of them is there. The last number says more than the next one: after the end of
//! `bigint` there is no next one, and another increment counts from the last one.

use super::{Body, Catalog, Oid, SequenceBody};
use crate::error::{Result, SqlError, SqlState};
use indelible::{Database, Error, HiddenTable, Row, TransactionOptions};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

/// Numbers that a reservation takes, at least.
const RESERVED: i64 = 32;

/// Sequences that have been used since the database was opened, by the number of their state, which
/// is another one after a restart.
#[derive(Default)]
pub struct Sequences {
    ranges: Mutex<HashMap<Oid, Range>>,
}

/// Numbers that are reserved: those after the last one.
#[derive(Clone, Copy)]
struct Range {
    /// The number that was handed out or set last, or the next one if `is_called` is false.
    last: i64,
    is_called: bool,
    left: i64,
    /// Increment and limits that they were reserved with.
    rules: (i64, i64, i64),
}

impl Range {
    fn stored(self) -> Stored {
        match self.is_called {
            true => Stored::Last(self.last),
            false => Stored::Next(self.last),
        }
    }

    /// The number that comes next, while some are left.
    fn next(self, sequence: &SequenceBody) -> i64 {
        match self.is_called {
            true => self.last.wrapping_add(sequence.increment),
            false => self.last,
        }
    }
}

fn rules_of(sequence: &SequenceBody) -> (i64, i64, i64) {
    (sequence.increment, sequence.min, sequence.max)
}

/// A row of the hidden table.
#[derive(Clone, Copy)]
enum Stored {
    /// The last number.
    Last(i64),
    /// The next number.
    Next(i64),
    /// The next number, as earlier builds have stored it: beyond the limits there is none.
    Earlier(i64),
}

/// The state of a sequence, as its row shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceState {
    /// The number that was handed out last, or the first one if none was.
    pub last: i64,
    /// Whether it was handed out.
    pub is_called: bool,
    /// Numbers that are reserved beyond it.
    pub reserved: i64,
}

/// The sequences of a session: for `currval` and `lastval`.
#[derive(Default)]
pub struct SessionSequences {
    /// The last number of each that the session has taken.
    pub current: HashMap<Oid, i64>,
    /// The sequence that it has used last, and its number.
    pub last: Option<(Oid, i64)>,
}

impl Sequences {
    /// The next number of a sequence.
    pub fn next(
        &self,
        database: &Database,
        (oid, name): (Oid, &str),
        sequence: &SequenceBody,
    ) -> Result<i64> {
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        let oid = sequence.number(oid);
        let known = ranges.get(&oid).copied();
        let mut range = match known {
            // The sequence may have other options since, for others or for the transaction alone.
            Some(range) if range.left > 0 && range.rules == rules_of(sequence) => range,
            _ => reserve(database, (oid, name), sequence, known)?,
        };
        let number = range.next(sequence);
        range.left -= 1;
        range.last = number;
        range.is_called = true;
        ranges.insert(oid, range);
        Ok(number)
    }

    /// Sets the number that comes next, or the last one if it `is_called`.
    pub fn set(
        &self,
        database: &Database,
        oid: Oid,
        sequence: &SequenceBody,
        number: i64,
        is_called: bool,
    ) -> Result<()> {
        if !(sequence.min..=sequence.max).contains(&number) {
            let message = format!(
                "setval: value {number} is out of bounds for sequence ({}..{})",
                sequence.min, sequence.max
            );
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
        }
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        let oid = sequence.number(oid);
        let range = Range {
            last: number,
            is_called,
            left: 0,
            rules: rules_of(sequence),
        };
        write(database, oid, range.stored())?;
        ranges.insert(oid, range);
        Ok(())
    }

    /// The state of a sequence. After a crash, numbers that were reserved count as handed out.
    pub fn state(
        &self,
        database: &Database,
        oid: Oid,
        sequence: &SequenceBody,
    ) -> Result<SequenceState> {
        let oid = sequence.number(oid);
        let range = {
            let ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
            ranges.get(&oid).copied()
        };
        let (last, is_called, reserved) = match range {
            Some(range) => (range.last, range.is_called, range.left),
            None => match read(database, oid)? {
                Some(Stored::Last(last)) => (last, true, 0),
                Some(Stored::Next(next)) => (next, false, 0),
                // The number before it was handed out, if there is one.
                Some(Stored::Earlier(next)) => {
                    let before = next.checked_sub(sequence.increment);
                    let range = sequence.min..=sequence.max;
                    let before = before.filter(|before| range.contains(before));
                    match before.filter(|_| next != sequence.first()) {
                        Some(before) => (before, true, 0),
                        None => (next, false, 0),
                    }
                }
                None => (sequence.first(), false, 0),
            },
        };
        Ok(SequenceState {
            last: last.clamp(sequence.min, sequence.max),
            is_called,
            reserved,
        })
    }

    /// Gives back the numbers that are reserved, in one transaction.
    pub fn give_back(&self, database: &Database, options: &TransactionOptions) -> Result<()> {
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        let left = ranges.drain().filter(|(_, range)| range.left > 0);
        let left: Vec<(Oid, Range)> = left.collect();
        if left.is_empty() {
            return Ok(());
        }
        let table = database.hidden_table(HiddenTable::Sequences)?;
        let options = options.clone().unchecked(true);
        database.transaction_with(&options, |transaction| {
            for (oid, range) in &left {
                // Those of a sequence that was dropped are gone.
                let mut is_known = false;
                for key in keys(*oid) {
                    is_known |= transaction.delete(&table, key)?;
                }
                if is_known {
                    let (key, number) = row_of(*oid, range.stored());
                    transaction.upsert(&table, (key, number))?;
                }
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Forgets the numbers that are reserved of a sequence that has changed.
    pub fn forget(&self, oid: Oid) {
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        ranges.remove(&oid);
    }
}

/// The number after another one; none at the end of a sequence that does not begin again.
fn after(sequence: &SequenceBody, number: i64) -> Option<i64> {
    let next = number.checked_add(sequence.increment);
    let next = next.filter(|next| (sequence.min..=sequence.max).contains(next));
    match next {
        None if sequence.cycles && sequence.increment > 0 => Some(sequence.min),
        None if sequence.cycles => Some(sequence.max),
        next => next,
    }
}

/// Reserves the next numbers, after those of a range that is known.
fn reserve(
    database: &Database,
    (oid, name): (Oid, &str),
    sequence: &SequenceBody,
    known: Option<Range>,
) -> Result<Range> {
    let is_inside = |number: &i64| (sequence.min..=sequence.max).contains(number);
    let stored = match known {
        Some(range) => Some(range.stored()),
        None => read(database, oid)?,
    };
    let next = match stored {
        Some(Stored::Last(last)) => after(sequence, last),
        Some(Stored::Next(next) | Stored::Earlier(next)) => Some(next).filter(is_inside),
        None => Some(sequence.first()).filter(is_inside),
    };
    let first = match next {
        Some(next) => next,
        None if sequence.cycles && sequence.increment > 0 => sequence.min,
        None if sequence.cycles => sequence.max,
        None => {
            let (end, limit) = match sequence.increment > 0 {
                true => ("maximum", sequence.max),
                false => ("minimum", sequence.min),
            };
            let message = format!("nextval: reached {end} value of sequence \"{name}\" ({limit})");
            return Err(SqlError::new(
                SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                message,
            ));
        }
    };
    let end = if sequence.increment > 0 {
        sequence.max
    } else {
        sequence.min
    };
    let room = (i128::from(end) - i128::from(first)) / i128::from(sequence.increment) + 1;
    let left = room.min(i128::from(RESERVED.max(sequence.cache))) as i64;
    let last = i128::from(first) + i128::from(left - 1) * i128::from(sequence.increment);
    // It is between the first one and the end.
    let last = last.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    write(database, oid, Stored::Last(last))?;
    Ok(Range {
        last: first,
        is_called: false,
        left,
        rules: rules_of(sequence),
    })
}

/// The keys of the rows that a sequence may have.
fn keys(oid: Oid) -> [i64; 3] {
    [Stored::Last(0), Stored::Next(0), Stored::Earlier(0)].map(|stored| row_of(oid, stored).0)
}

/// A row of a sequence.
fn row_of(oid: Oid, stored: Stored) -> (i64, i64) {
    let number = i64::from(oid);
    match stored {
        Stored::Last(last) => (-number, last),
        Stored::Next(next) => (-number - (1 << 32), next),
        Stored::Earlier(next) => (number, next),
    }
}

fn read(database: &Database, oid: Oid) -> Result<Option<Stored>> {
    // It is made for the first number: a reader of the database cannot make it.
    let Some(table) = database.known_hidden_table(HiddenTable::Sequences) else {
        return Ok(None);
    };
    let kinds = [Stored::Last, Stored::Next, Stored::Earlier];
    let found = database.read(|reader| {
        for (key, kind) in keys(oid).into_iter().zip(kinds) {
            let row: Option<Row> = reader.get(&table, key)?;
            if let Some(number) = row.and_then(|row| row.get(1).as_i64()) {
                return Ok(Some(kind(number)));
            }
        }
        Ok(None)
    })?;
    Ok(found)
}

fn write(database: &Database, oid: Oid, stored: Stored) -> Result<()> {
    let table = database.hidden_table(HiddenTable::Sequences)?;
    let options = TransactionOptions::new().unchecked(true);
    let (own, number) = row_of(oid, stored);
    database.transaction_with(&options, |transaction| {
        for key in keys(oid).into_iter().filter(|key| *key != own) {
            transaction.delete(&table, key)?;
        }
        transaction.upsert(&table, (own, number)).map(drop)
    })?;
    Ok(())
}

/// Deletes rows that no sequence has: restarts have left them, or transactions that did not commit.
/// A reader can leave them where they are.
pub fn delete_loose(database: &Database, catalog: &Catalog) -> Result<()> {
    let Some(table) = database.known_hidden_table(HiddenTable::Sequences) else {
        return Ok(());
    };
    let numbers = catalog.objects().filter_map(|object| match &object.body {
        Body::Sequence(sequence) => Some(u64::from(sequence.number(object.oid))),
        _ => None,
    });
    let numbers: HashSet<u64> = numbers.collect();
    let rows: Vec<Row> = database.read(|reader| reader.collect(&table, ..))?;
    let keys = rows.iter().filter_map(|row| row.get(0).as_i64());
    let number = |key: i64| key.unsigned_abs() & u64::from(Oid::MAX);
    let loose: Vec<i64> = keys
        .filter(|key| !numbers.contains(&number(*key)))
        .collect();
    if loose.is_empty() {
        return Ok(());
    }
    let options = TransactionOptions::new().unchecked(true);
    let deleted = database.transaction_with(&options, |transaction| {
        for key in &loose {
            transaction.delete(&table, *key)?;
        }
        Ok(())
    });
    match deleted {
        Err(Error::ReadOnly) => Ok(()),
        deleted => Ok(deleted?),
    }
}

/// Deletes the rows of a sequence that is gone.
pub fn delete(database: &Database, oid: Oid) -> Result<()> {
    let table = database.hidden_table(HiddenTable::Sequences)?;
    let options = TransactionOptions::new().unchecked(true);
    database.transaction_with(&options, |transaction| {
        for key in keys(oid) {
            transaction.delete(&table, key)?;
        }
        Ok(())
    })?;
    Ok(())
}
