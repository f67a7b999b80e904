//! Numbers of rows, from one opening to the next.
//!
//! A table's count is in DRAM (`row_counter`). Once the database has [`HiddenTable::Statistics`],
//! `checkpoint` and the orderly end save it there, and the next opening loads it: exact after an
//! orderly end, else an estimate, because commits since then are not in it. Tables that were
//! never counted have none.

use crate::core::Core;
use crate::database::Database;
use crate::error::Result;
use crate::hidden::HiddenTable;
use crate::key::Prefix;
use crate::lock_policy::LockPolicy;
use crate::options::TransactionOptions;
use crate::row_counter::{ESTIMATE, EXACT, RowCount};
use crate::session::Session;
use crate::table::Table;
use std::ops::ControlFlow;
use std::sync::PoisonError;
use std::time::Duration;
use storage::engine::{Direction, Durability};
use storage::record::{Reader, TableId};

/// Version of the stored form.
const VERSION: u8 = 1;
/// The place of the count among the statistics of columns.
const COLUMN: i32 = -1;

impl Table {
    /// The number of rows of committed transactions, without reading them; none if they were never
    /// counted, or if the table is a snapshot's. Over openings it lasts once the database has
    /// statistics ([`Database::analyze`]).
    pub fn row_count(&self) -> Option<RowCount> {
        self.entry.count.get()
    }
}

fn encode(table: TableId, count: RowCount) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&table.0.to_le_bytes());
    bytes.extend_from_slice(&count.rows.to_le_bytes());
    bytes.push(u8::from(count.is_exact));
    bytes
}

/// The count, if it is this table's.
fn decode(bytes: &[u8], table: TableId) -> Option<RowCount> {
    const WHAT: &str = "a row count";
    let mut reader = Reader::new(bytes);
    let is_its = reader.byte(WHAT).ok()? == VERSION && reader.number(WHAT).ok()? == table.0;
    let rows = reader.array(WHAT).map(u64::from_le_bytes).ok()?;
    let is_exact = reader.flag(WHAT).ok()?;
    is_its.then_some(RowCount { rows, is_exact })
}

impl Core {
    /// Saves the counts that have changed, if the database has a table for them.
    pub(crate) fn save_counts(&self, wait_limit: Duration) -> Result<()> {
        let Some(kept) = self.hidden_table(HiddenTable::Statistics) else {
            return Ok(());
        };
        let tables: Vec<Table> = self.tables().values().cloned().collect();
        let mut session = None;
        let mut written = Vec::new();
        for table in &tables {
            let count = table.entry.count.get();
            let saved = table.entry.count.saved.lock();
            let saved = *saved.unwrap_or_else(PoisonError::into_inner);
            let Some(count) = count.filter(|_| count != saved) else {
                continue;
            };
            let session = match &mut session {
                Some(session) => session,
                none => {
                    let policy = LockPolicy {
                        wait_limit,
                        ..self.lock_policy
                    };
                    let new = none.insert(Session::new(self, policy)?);
                    new.unchecked = true;
                    new
                }
            };
            let body = encode(table.id(), count);
            let mut row = kept.row();
            row.set(0, table.name())?;
            row.set(1, COLUMN)?;
            row.set(2, body.as_slice())?;
            session.upsert(&kept, &row)?;
            written.push((table, count));
        }
        if let Some(mut session) = session {
            session.finish(Durability::Immediate)?;
        }
        for (table, count) in written {
            let saved = table.entry.count.saved.lock();
            *saved.unwrap_or_else(PoisonError::into_inner) = Some(count);
        }
        Ok(())
    }
}

impl Database {
    /// Loads the counts of all tables. They are exact if the last user has closed the database in
    /// order.
    pub(crate) fn load_counts(&self, was_closed: bool) -> Result<()> {
        let Some(kept) = self.core.hidden_table(HiddenTable::Statistics) else {
            return Ok(());
        };
        self.read(|reader| {
            for table in self.tables() {
                let Some(row) = reader.get(&kept, (table.name(), COLUMN))? else {
                    continue;
                };
                let body = row.get(2).as_bytes();
                let Some(saved) = body.and_then(|body| decode(body, table.id())) else {
                    continue;
                };
                let is_exact = was_closed && saved.is_exact;
                let state = if is_exact { EXACT } else { ESTIMATE };
                table.entry.count.set(saved.rows, state);
                let place = table.entry.count.saved.lock();
                *place.unwrap_or_else(PoisonError::into_inner) = Some(saved);
            }
            Ok(())
        })
    }

    /// Forgets the count and the statistics of a table that is gone.
    pub(crate) fn forget_statistics(&self, name: &str) -> Result<()> {
        let Some(kept) = self.core.hidden_table(HiddenTable::Statistics) else {
            return Ok(());
        };
        let options = TransactionOptions::new().unchecked(true);
        self.transaction_with(&options, |t| {
            let mut columns = Vec::new();
            t.scan(&kept, Prefix(name), Direction::Forward, |row| {
                columns.push(row.get(1).to_value());
                ControlFlow::Continue(())
            })?;
            for column in &columns {
                t.delete(&kept, (name, column))?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_read_back_for_their_own_table_only() {
        let count = RowCount {
            rows: 7,
            is_exact: true,
        };
        let bytes = encode(TableId(20), count);
        assert_eq!(decode(&bytes, TableId(20)), Some(count));
        assert_eq!(decode(&bytes, TableId(21)), None);
        assert_eq!(decode(&bytes[..9], TableId(20)), None);
    }
}
