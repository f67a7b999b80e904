//! Insertion of many rows: one look at others, one at the table, and one list of names in place of
//! a lock for each row.
//!
//! It is for read committed, where a snapshot does not matter. Where somebody else has locks in the
//! table, or a row with one of the keys is there, or a unique secondary key has to be locked, each
//! row goes its own way.

use super::change::{Change, Move};
use super::client::Connection;
use super::fill::{check_whole, one_by_one};
use super::omission::{Omission, is_left_out};
use super::read::partition_to_read;
use super::row_locks::listed_name;
use crate::error::{Error, Result};
use crate::table::Table;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use storage::engine::{Direction, Isolation, ScanRange};
use storage::record::{KeyBuf, Row};

/// Fewest rows that are inserted together.
const TOGETHER_MIN: usize = 8;

impl Connection {
    /// Inserts rows, as [`Connection::insert`] does for each of them; thousands a call cost a
    /// fraction of that.
    ///
    /// # Errors
    ///
    /// The error of the first row that fails, and the number of the rows before it, which stay: the
    /// caller rolls back to a [mark](Connection::mark) if none is to.
    pub fn insert_all(&mut self, table: &Table, rows: &[Row]) -> Result<(), (usize, Error)> {
        match self.insert_together(table, rows) {
            Ok(true) => Ok(()),
            Ok(false) => one_by_one(rows, |row| self.insert(table, row)),
            Err(error) => Err((0, error)),
        }
    }

    /// Inserts rows together; false, and nothing is done, if each has to be looked at.
    fn insert_together(&mut self, table: &Table, rows: &[Row]) -> Result<bool> {
        self.begin_change(table)?;
        let isolation = self.open()?.isolation;
        if rows.len() < TOGETHER_MIN
            || isolation != Isolation::ReadCommitted
            || table.entry.with_unique().is_some()
            || rows.iter().any(|row| check_whole(table, row).is_err())
        {
            return Ok(false);
        }
        let mut keyed = Vec::with_capacity(rows.len());
        for row in rows {
            let mut key = KeyBuf::new();
            table.entry.shape.primary.encode_row(row, &mut key)?;
            keyed.push((key, row));
        }
        if !keyed.is_sorted_by(|one, other| one.0 <= other.0) {
            keyed.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        }
        if keyed.windows(2).any(|pair| pair[0].0 == pair[1].0)
            || !self.lock_together(table, &keyed)?
            || self.is_any_there(table, &keyed)?
        {
            return Ok(false);
        }
        let writes = &mut self.open()?.writes;
        for (key, row) in keyed {
            writes.push(Change {
                table: table.clone(),
                key,
                before: None,
                after: Some(Arc::new(row.clone())),
                update: None,
                moved: Move::None,
            });
        }
        Ok(true)
    }

    /// Lists the keys as locked; false, and nothing is listed, if others have locks in the table.
    fn lock_together(&mut self, table: &Table, keyed: &[(KeyBuf, &Row)]) -> Result<bool> {
        if is_left_out(Omission::RowLocks) {
            return Ok(true);
        }
        let mut names: Vec<u64> = keyed.iter().map(|(key, _)| listed_name(key)).collect();
        if !names.is_sorted() {
            names.sort_unstable();
        }
        let wait = self.wait.limit();
        let (locks, lists) = self.locks_and_lists();
        locks.set_wait_limit(wait);
        lists.add(locks, table.id(), names)
    }

    /// Whether a row with one of the keys is there, or was changed by the transaction.
    fn is_any_there(&mut self, table: &Table, keyed: &[(KeyBuf, &Row)]) -> Result<bool> {
        let (Some((low, _)), Some((high, _))) = (keyed.first(), keyed.last()) else {
            return Ok(false);
        };
        let id = table.id();
        if self.open()?.writes.meets(id, low, high) {
            return Ok(true);
        }
        let first = table.entry.shape.def.primary_key[0];
        let mut partitions = BTreeSet::new();
        if self.core().partitions.len() == 1 {
            partitions.insert(0);
        } else {
            for (_, row) in keyed {
                partitions.insert(partition_to_read(table, row.get(first))?);
            }
        }
        let range = ScanRange {
            table: id,
            index: None,
            low: low.clone(),
            high: high.clone(),
            direction: Direction::Forward,
        };
        for partition in partitions {
            let is_there = self.read_in(partition, |engine| {
                let mut is_there = false;
                engine.scan(&range, &mut |_| {
                    is_there = true;
                    ControlFlow::Break(())
                })?;
                if is_there {
                    is_there = false;
                    let keys: Vec<KeyBuf> = keyed.iter().map(|(key, _)| key.clone()).collect();
                    engine.get_many(id, &keys, &mut |_, row| is_there |= row.is_some())?;
                }
                Ok(is_there)
            })?;
            if is_there {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
