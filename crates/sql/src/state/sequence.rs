//! Sequences: numbers that are handed out once, whatever becomes of the transaction.
//!
//! The next number of a sequence is a row of a hidden table. A session takes numbers from a range
//! that one short transaction of its own has reserved for all sessions, so a crash leaves a gap and
//! repeats nothing. An orderly end gives back the numbers that are left.

use crate::catalog::{Oid, SequenceBody};
use crate::error::{Result, SqlError, SqlState};
use indelible::{Database, HiddenTable, Row, TransactionOptions};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Numbers that a reservation takes, at least.
const RESERVED: i64 = 32;

/// Sequences that have been used since the database was opened.
#[derive(Default)]
pub(crate) struct Sequences {
    ranges: Mutex<HashMap<Oid, Range>>,
}

/// Numbers that are reserved: the next one, and how many are left.
#[derive(Clone, Copy)]
struct Range {
    next: i64,
    left: i64,
    /// Whether the number before the next one has been handed out, or was set.
    is_called: bool,
}

/// The state of a sequence, as its row shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequenceState {
    /// The number that was handed out last, or the first one if none was.
    pub(crate) last: i64,
    pub(crate) is_called: bool,
    /// Numbers that are reserved beyond it.
    pub(crate) reserved: i64,
}

/// The sequences of a session: for `currval` and `lastval`.
#[derive(Default)]
pub(crate) struct SessionSequences {
    pub(crate) current: HashMap<Oid, i64>,
    pub(crate) last: Option<(Oid, i64)>,
}

impl Sequences {
    /// The next number of a sequence.
    pub(crate) fn next(
        &self,
        database: &Database,
        (oid, name): (Oid, &str),
        sequence: &SequenceBody,
    ) -> Result<i64> {
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        let mut range = match ranges.get(&oid) {
            Some(range) if range.left > 0 => *range,
            _ => reserve(database, (oid, name), sequence)?,
        };
        let number = range.next;
        range.left -= 1;
        range.next = range.next.wrapping_add(sequence.increment);
        range.is_called = true;
        ranges.insert(oid, range);
        Ok(number)
    }

    /// Sets the number that comes next, or the last one if it `is_called`.
    pub(crate) fn set(
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
        let next = if is_called {
            after(sequence, number)
        } else {
            Some(number)
        };
        // A number beyond the end says that there are no more.
        let next = next.unwrap_or(if sequence.increment > 0 {
            i64::MAX
        } else {
            i64::MIN
        });
        write(database, oid, next)?;
        let range = Range {
            next,
            left: 0,
            is_called,
        };
        ranges.insert(oid, range);
        Ok(())
    }

    /// The state of a sequence. After a crash, numbers that were reserved count as handed out.
    pub(crate) fn state(
        &self,
        database: &Database,
        oid: Oid,
        sequence: &SequenceBody,
    ) -> Result<SequenceState> {
        let range = {
            let ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
            ranges.get(&oid).copied()
        };
        let (next, is_called, reserved) = match range {
            Some(range) => (range.next, range.is_called, range.left),
            None => match read(database, oid)? {
                // The number before it was handed out, if there is one.
                Some(next) => {
                    let before = next.checked_sub(sequence.increment);
                    let range = sequence.min..=sequence.max;
                    let has_before = before.is_some_and(|before| range.contains(&before));
                    (next, has_before && next != sequence.start, 0)
                }
                None => (sequence.start, false, 0),
            },
        };
        let last = match is_called {
            true => next.saturating_sub(sequence.increment),
            false => next,
        };
        Ok(SequenceState {
            last: last.clamp(sequence.min, sequence.max),
            is_called,
            reserved,
        })
    }

    /// Gives back the numbers that are reserved, in one transaction.
    pub(crate) fn give_back(
        &self,
        database: &Database,
        options: &TransactionOptions,
    ) -> Result<()> {
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        let left = ranges.drain().filter(|(_, range)| range.left > 0);
        let left: Vec<(i64, i64)> = left.map(|(oid, range)| (oid.into(), range.next)).collect();
        if left.is_empty() {
            return Ok(());
        }
        let table = database.hidden_table(HiddenTable::Sequences)?;
        let options = options.clone().unchecked(true);
        database.transaction_with(&options, |transaction| {
            for (oid, next) in &left {
                // That of a sequence that was dropped is gone.
                if transaction.get(&table, *oid)?.is_some() {
                    transaction.upsert(&table, (*oid, *next))?;
                }
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Forgets the numbers that are reserved of a sequence that has changed.
    pub(crate) fn forget(&self, oid: Oid) {
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

/// Reserves the next numbers.
fn reserve(
    database: &Database,
    (oid, name): (Oid, &str),
    sequence: &SequenceBody,
) -> Result<Range> {
    let stored = read(database, oid)?.unwrap_or(sequence.start);
    let is_inside = (sequence.min..=sequence.max).contains(&stored);
    let first = match is_inside {
        true => stored,
        false if sequence.cycles && sequence.increment > 0 => sequence.min,
        false if sequence.cycles => sequence.max,
        false => {
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
    let next = i128::from(first) + i128::from(left) * i128::from(sequence.increment);
    let next = next.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    write(database, oid, next)?;
    Ok(Range {
        next: first,
        left,
        is_called: false,
    })
}

fn read(database: &Database, oid: Oid) -> Result<Option<i64>> {
    let table = database.hidden_table(HiddenTable::Sequences)?;
    let row: Option<Row> = database.read(|reader| reader.get(&table, i64::from(oid)))?;
    Ok(row.and_then(|row| row.get(1).as_i64()))
}

fn write(database: &Database, oid: Oid, next: i64) -> Result<()> {
    let table = database.hidden_table(HiddenTable::Sequences)?;
    let options = TransactionOptions::new().unchecked(true);
    database.transaction_with(&options, |transaction| {
        transaction.upsert(&table, (i64::from(oid), next)).map(drop)
    })?;
    Ok(())
}

/// Deletes the row of a sequence that is gone.
pub(crate) fn delete(database: &Database, oid: Oid) -> Result<()> {
    let table = database.hidden_table(HiddenTable::Sequences)?;
    let options = TransactionOptions::new().unchecked(true);
    database.transaction_with(&options, |transaction| {
        transaction.delete(&table, i64::from(oid)).map(drop)
    })?;
    Ok(())
}
