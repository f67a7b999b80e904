//! Drops of tables in steps, so that nobody waits long for a partition.
//!
//! Methods that run one transaction at a time in a partition free a table row by row: a drop of a
//! million rows holds all partitions for hundreds of milliseconds. Here the rows go first, some
//! hundred in a transaction, and the drop finds an empty table. All of it takes three to ten times
//! as long, since each row is taken out of each index. Page methods free whole pages, and
//! log-structured ones whole runs, so they have no steps.
//!
//! From the first step on every handle of the table is refused, so nobody reads a table that has
//! lost some of its rows. A crash between two steps leaves such a table: this is for callers who
//! know by other means that it is gone.

use crate::database::Database;
use crate::error::Result;
use crate::session::Session;
use crate::table::Table;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use storage::engine::{Direction, Durability, Method, ScanRange};
use storage::record::{KeyBuf, ValueRef};

/// Rows of a step: a transaction of a few hundred microseconds.
const STEP_ROWS: usize = 256;

impl Database {
    /// Drops a table of which nobody needs a row any more, with its rows and indexes. It holds the
    /// partitions for short steps only, and ends early, with a part of the rows left, when
    /// `goes_on` says so; then it returns false.
    ///
    /// # Errors
    ///
    /// As [`Database::drop_table`]. Handles of the table are refused from the beginning.
    pub fn drop_table_in_steps(
        &self,
        name: &str,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<bool> {
        let session = self.hold_all()?;
        let table = self.table(name)?;
        self.core.shared.prepared.check_unused(&table)?;
        table.entry.dropped.store(true, Ordering::Release);
        drop(session);
        let partitions = match self.method() {
            Method::Log | Method::NvmLog => 0,
            _ if self.core.has_many_slots() => 0,
            _ => self.core.descriptor.partitions,
        };
        for partition in 0..partitions {
            let mut low = KeyBuf::new();
            table.entry.shape.primary.lower_bound(NOTHING, &mut low)?;
            // A step may find no room for its log, which the drop below does not need.
            while self.step(&table, partition, &mut low).unwrap_or(false) {
                if !goes_on() {
                    return Ok(false);
                }
            }
        }
        let session = self.hold_all()?;
        // Somebody else may have dropped it, and another table may have its name.
        let newest = self.table(name).ok();
        if newest.is_some_and(|newest| Arc::ptr_eq(&newest.entry, &table.entry)) {
            self.drop_held(session, &table)?;
        }
        Ok(true)
    }

    /// Deletes the first rows from a key on, which moves up; false if no row is left.
    fn step(&self, table: &Table, partition: u32, low: &mut KeyBuf) -> Result<bool> {
        let core = &*self.core;
        let entry = &*table.entry;
        let mut session = Session::new(core, core.lock_policy)?;
        let mut high = KeyBuf::new();
        entry.shape.primary.upper_bound(NOTHING, &mut high)?;
        let range = ScanRange {
            table: entry.id,
            index: None,
            low: low.clone(),
            high,
            direction: Direction::Forward,
        };
        let mut keys = Vec::with_capacity(STEP_ROWS);
        let mut encoded = Ok(());
        session.engine(partition)?.scan(&range, &mut |row| {
            let mut key = KeyBuf::new();
            encoded = entry.shape.primary.encode_row(row, &mut key);
            keys.push(key);
            if encoded.is_err() || keys.len() == STEP_ROWS {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        encoded?;
        for key in &keys {
            session.change(partition, |engine| engine.delete(entry.id, key))?;
        }
        session.finish(Durability::None)?;
        let Some(last) = keys.pop() else {
            return Ok(false);
        };
        *low = last;
        Ok(true)
    }
}

/// The values of a key that bounds all keys.
const NOTHING: &[ValueRef<'_>] = &[];
