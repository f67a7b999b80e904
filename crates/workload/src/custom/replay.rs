//! The list of a trace: the same operations in the same order, on rows of the same size, and as
//! many rows as wanted.
//!
//! A trace has numbers for keys, not keys. Keys that were there before the trace get loaded rows,
//! spread over the key range. Where fewer rows are loaded than keys were seen, several keys share a
//! row, and hot ones stay hot. Insertions that append in the trace append here, others go between
//! loaded rows. A replay loses the order of keys (a scan starts at the row of its first key and
//! visits as many rows as it did), secondary indexes, and the sizes of single rows (all rows of a
//! table have the mean size).

use super::{Kind, OPERATIONS_MAX, Operation, TableShape, key_of};
use crate::random::{Spread, mix};
use indelible::{Trace, TraceAction};
use std::collections::{HashMap, HashSet};

/// Bytes of a column that is replayed, at most; longer rows get more columns.
const COLUMN_BYTES_MAX: u64 = 1 << 16;
const COLUMNS_MAX: u32 = 512;

/// A trace, prepared for its replay.
#[derive(Clone, Debug)]
pub struct Replay {
    trace: Trace,
    /// With the numbers of keys that were there before the trace as rows.
    tables: Vec<TableShape>,
}

impl Replay {
    /// Counts keys and sizes. Keeps at most 8,388,608 operations.
    pub fn new(mut trace: Trace) -> Self {
        if trace.operations.len() > OPERATIONS_MAX {
            trace.operations.truncate(OPERATIONS_MAX);
            let whole = trace.operations.iter().rposition(|o| o.ends_transaction);
            trace.operations.truncate(whole.map_or(0, |at| at + 1));
        }
        let mut seen = vec![Seen::default(); trace.tables.len()];
        for operation in &trace.operations {
            seen[operation.table as usize].add(operation.key, operation.action);
        }
        let tables = trace.tables.iter().zip(&seen);
        let tables = tables
            .map(|(table, seen)| {
                let columns = table.columns.saturating_sub(1).clamp(1, COLUMNS_MAX);
                let row_bytes = seen
                    .row_bytes
                    .checked_div(seen.rows)
                    .unwrap_or(table.declared_bytes);
                let column_bytes = row_bytes.saturating_sub(8).div_ceil(u64::from(columns));
                TableShape {
                    columns,
                    column_bytes: column_bytes.clamp(1, COLUMN_BYTES_MAX) as u32,
                    rows: seen.existing,
                }
            })
            .collect();
        Self { trace, tables }
    }

    /// The tables, with the rows that the trace shows to have been there.
    pub fn tables(&self) -> &[TableShape] {
        &self.tables
    }

    /// Rows that the trace shows to have been there, over all tables.
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|table| table.rows).sum()
    }

    /// Transactions that can be replayed.
    pub fn transactions(&self) -> u64 {
        let ends = self.trace.operations.iter().filter(|o| o.ends_transaction);
        ends.count() as u64
    }

    /// Operations that can be replayed.
    pub fn operations(&self) -> u64 {
        self.trace.operations.len() as u64
    }

    /// Mean bytes of a row, over all tables by their rows.
    pub fn row_bytes(&self) -> u64 {
        let bytes: u64 = self
            .tables
            .iter()
            .map(|t| t.rows.max(1) * t.row_bytes())
            .sum();
        bytes
            / self
                .tables
                .iter()
                .map(|t| t.rows.max(1))
                .sum::<u64>()
                .max(1)
    }

    /// The tables with `rows` rows in all, each with its share.
    pub(super) fn scaled(&self, rows: u64) -> Vec<TableShape> {
        let all = u128::from(self.rows().max(1));
        let share = |table: &TableShape| {
            let part = u128::from(table.rows) * u128::from(rows) / all;
            // A table that had rows keeps some, or its operations had nothing to go to.
            (part as u64).max(u64::from(table.rows > 0))
        };
        let scaled = |table: &TableShape| TableShape {
            rows: share(table),
            ..*table
        };
        self.tables.iter().map(scaled).collect()
    }

    /// The list of the first transactions for tables with these rows.
    pub(super) fn list(&self, tables: &[TableShape], transactions: u64) -> Vec<Operation> {
        let mut places: Vec<KeyMap> = tables.iter().map(KeyMap::new).collect();
        let mut list = Vec::with_capacity(self.trace.operations.len());
        let mut ended = 0;
        for operation in &self.trace.operations {
            if ended == transactions {
                break;
            }
            let at = operation.table as usize;
            let (kind, count, key) =
                places[at].replay(operation.key, operation.action, &tables[at]);
            list.push(Operation {
                key,
                table: operation.table as u16,
                kind,
                count,
                ends_transaction: operation.ends_transaction,
            });
            ended += u64::from(operation.ends_transaction);
        }
        list
    }
}

/// Facts about a table in a trace.
#[derive(Clone, Debug, Default)]
struct Seen {
    keys: HashSet<u64>,
    /// Keys that were there before their first operation.
    existing: u64,
    rows: u64,
    row_bytes: u64,
}

impl Seen {
    fn add(&mut self, key: u64, action: TraceAction) {
        let is_new = self.keys.insert(key);
        let existed = match action {
            TraceAction::Get { row_bytes } => {
                self.add_row(row_bytes);
                row_bytes.is_some()
            }
            TraceAction::Insert { row_bytes, .. } => {
                self.add_row(Some(row_bytes));
                false
            }
            TraceAction::Update { .. } | TraceAction::Delete => true,
            TraceAction::Scan { rows } => rows > 0,
        };
        self.existing += u64::from(is_new && existed);
    }

    fn add_row(&mut self, row_bytes: Option<u32>) {
        self.rows += u64::from(row_bytes.is_some());
        self.row_bytes += u64::from(row_bytes.unwrap_or(0));
    }
}

/// The key of the replayed table for each number of the trace.
struct KeyMap {
    spread: Spread,
    rows: u64,
    existing: u64,
    inserted: u64,
    keys: HashMap<u64, i64>,
    absent: HashSet<i64>,
}

impl KeyMap {
    fn new(table: &TableShape) -> Self {
        Self {
            spread: Spread::new(table.rows.max(1)),
            rows: table.rows,
            existing: 0,
            inserted: 0,
            keys: HashMap::new(),
            absent: HashSet::new(),
        }
    }

    /// Kind, count and key of the operation that replays one of the trace.
    fn replay(&mut self, number: u64, action: TraceAction, table: &TableShape) -> (Kind, u32, i64) {
        if let TraceAction::Insert { appends, .. } = action {
            return (Kind::Insert, 0, self.insert(number, appends));
        }
        let is_miss = matches!(action, TraceAction::Get { row_bytes: None });
        let Some(key) = self.key(number, is_miss) else {
            return (Kind::Miss, 0, key_between(number, self.rows));
        };
        if self.absent.contains(&key) && !matches!(action, TraceAction::Scan { .. }) {
            return (Kind::Miss, 0, key);
        }
        match action {
            TraceAction::Update { bytes, .. } => {
                let columns = (bytes + table.column_bytes / 2) / table.column_bytes;
                (Kind::Update, columns.clamp(1, table.columns), key)
            }
            TraceAction::Delete => {
                self.absent.insert(key);
                (Kind::Delete, 0, key)
            }
            TraceAction::Scan { rows } => (Kind::Scan, rows.max(1), key),
            _ => (Kind::Get, 0, key),
        }
    }

    /// The key of a number that is not inserted; `None` if no key fits.
    fn key(&mut self, number: u64, is_miss: bool) -> Option<i64> {
        if let Some(&key) = self.keys.get(&number) {
            // Where several keys share a row, an existing one cannot replay a missing one.
            return (!is_miss || self.absent.contains(&key)).then_some(key);
        }
        if is_miss || self.rows == 0 {
            return None;
        }
        let row = self.spread.place(self.existing % self.rows);
        self.existing += 1;
        let key = key_of(row);
        self.keys.insert(number, key);
        Some(key)
    }

    fn insert(&mut self, number: u64, appends: bool) -> i64 {
        if let Some(key) = self.keys.get(&number)
            && self.absent.remove(key)
        {
            return *key;
        }
        self.inserted += 1;
        let row = if appends || self.rows == 0 {
            self.rows + self.inserted
        } else {
            mix(number) % self.rows
        };
        // The low part is the number of the insertion, so no two keys are equal, and none is a
        // loaded one's.
        let key = key_of(row) + self.inserted.cast_signed();
        self.keys.insert(number, key);
        key
    }
}

/// A key that no row ever has: right below a loaded one's, where the numbers of insertions never
/// come.
fn key_between(number: u64, rows: u64) -> i64 {
    key_of(mix(number) % rows.max(1)) - 1
}
