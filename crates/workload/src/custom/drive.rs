//! A workload of any shape on a database: loading its tables, running its list, and the content
//! check.
//!
//! The timed part is [`Runner::step`]: it allocates nothing, reuses rows and sets of changes, and
//! reads the list and a pool of letters only. A value is a window into that pool; the window
//! follows from the row and column, or from the operation that wrote it, so the final content of
//! every row can be derived from the list alone.

use super::generate::generate;
use super::{CustomError, CustomOptions, Kind, Operation, Replay, TableShape, key_of};
use crate::random::{Random, mix};
use crate::script::Script;
use indelible::{
    Changes, DataType, Database, Direction, Durability, Error, Partitioning, Row, Table,
    Transaction,
};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Rows that are loaded in one transaction, at most, and their bytes.
const LOAD_ROWS: u64 = 256;
const LOAD_BYTES: u64 = 1 << 20;
/// Windows into the pool of letters; a power of two.
const WINDOWS: u64 = 1 << 14;

/// A workload with its list made.
#[derive(Clone, Debug)]
pub struct Custom {
    tables: Vec<TableShape>,
    list: Vec<Operation>,
    transactions: u64,
    letters: String,
    seed: u64,
}

impl Custom {
    /// Makes a list of chosen shares.
    pub fn generate(options: &CustomOptions) -> Result<Self, CustomError> {
        options.check()?;
        let table = TableShape {
            columns: options.columns,
            column_bytes: options.column_bytes,
            rows: options.rows,
        };
        Ok(Self::new(vec![table], generate(options), options.seed))
    }

    /// Makes the list of a trace's first transactions, on `rows` loaded rows in all.
    pub fn replay(replay: &Replay, rows: u64, transactions: u64, seed: u64) -> Self {
        let tables = replay.scaled(rows);
        let list = replay.list(&tables, transactions);
        Self::new(tables, list, seed)
    }

    fn new(tables: Vec<TableShape>, list: Vec<Operation>, seed: u64) -> Self {
        let longest = tables
            .iter()
            .map(|table| table.column_bytes)
            .max()
            .unwrap_or(0);
        let mut random = Random::new(seed ^ 0xC0_57E7);
        let letters = (0..WINDOWS + u64::from(longest))
            .map(|_| char::from(b'a' + random.below(26) as u8))
            .collect();
        Self {
            transactions: list.iter().filter(|o| o.ends_transaction).count() as u64,
            tables,
            list,
            letters,
            seed,
        }
    }

    /// The tables.
    pub fn tables(&self) -> &[TableShape] {
        &self.tables
    }

    /// The operations of all transactions.
    pub fn list(&self) -> &[Operation] {
        &self.list
    }

    /// Transactions of the list.
    pub fn transactions(&self) -> u64 {
        self.transactions
    }

    /// Rows that are loaded, over all tables.
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|table| table.rows).sum()
    }

    /// Creates the tables in a database of one partition, loads their rows and makes a checkpoint.
    pub fn load(&self, database: &Database) -> Result<Vec<Table>, CustomError> {
        let mut tables = Vec::with_capacity(self.tables.len());
        for (at, shape) in self.tables.iter().enumerate() {
            let name = format!("table{at}");
            let mut builder = database.create_table(&name).column("key", DataType::Int64);
            for column in 0..shape.columns {
                let length = shape.column_bytes;
                builder = builder.column(&format!("field{column}"), DataType::Char { length });
            }
            let table = builder.partitioning(Partitioning::Modulo).create()?;
            self.load_table(database, at, &table)?;
            tables.push(table);
        }
        // Log records of loading are not charged to the transactions that are measured.
        database.checkpoint()?;
        database.force()?;
        Ok(tables)
    }

    fn load_table(&self, database: &Database, at: usize, table: &Table) -> Result<(), CustomError> {
        let shape = &self.tables[at];
        let batch = (LOAD_BYTES / shape.row_bytes()).clamp(1, LOAD_ROWS);
        let mut worker = database.worker(&[0], Durability::Group)?;
        let mut row = table.row();
        let mut next = 0;
        while next < shape.rows {
            let end = (next + batch).min(shape.rows);
            worker.transaction(|transaction| {
                for number in next..end {
                    self.fill(at, key_of(number), &mut row)?;
                    transaction.insert(table, &row)?;
                }
                Ok(())
            })?;
            next = end;
        }
        worker.close()?;
        Ok(())
    }

    /// Gives a row the content with which it is loaded or inserted.
    fn fill(&self, table: usize, key: i64, row: &mut Row) -> Result<(), Error> {
        row.clear();
        row.set(0, key)?;
        for column in 0..self.tables[table].columns {
            row.set(column as usize + 1, self.initial(table, key, column))?;
        }
        Ok(())
    }

    fn initial(&self, table: usize, key: i64, column: u32) -> &str {
        let number =
            mix(key.cast_unsigned() ^ (table as u64) << 56).wrapping_add(u64::from(column));
        self.window(table, number)
    }

    /// The value that the operation at a position of the list writes to a column.
    #[inline]
    fn update(&self, table: usize, position: usize, column: u32) -> &str {
        self.window(table, (position as u64) << 12 | u64::from(column) | 1 << 63)
    }

    /// The columns that the operation at a position of the list writes.
    #[inline]
    fn columns(
        &self,
        table: usize,
        position: usize,
        count: u32,
    ) -> impl Iterator<Item = u32> + use<> {
        let columns = self.tables[table].columns;
        let first = (mix(position as u64) % u64::from(columns)) as u32;
        (0..count).map(move |step| (first + step) % columns)
    }

    #[inline]
    fn window(&self, table: usize, number: u64) -> &str {
        let start = (mix(number ^ self.seed) % WINDOWS) as usize;
        // All letters are one byte long, so any window is text.
        &self.letters[start..start + self.tables[table].column_bytes as usize]
    }

    /// Runs through the list, from transaction number `position` on.
    pub fn runner<'w>(&'w self, tables: &'w [Table], position: u64) -> Runner<'w> {
        let ends = self
            .list
            .iter()
            .enumerate()
            .filter(|(_, o)| o.ends_transaction);
        let at = match position.checked_sub(1) {
            None => 0,
            Some(last) => { ends }
                .nth(last as usize)
                .map_or(self.list.len(), |(at, _)| at + 1),
        };
        Runner {
            workload: self,
            tables,
            at,
            position,
            rows: tables.iter().map(Table::row).collect(),
            changes: tables.iter().map(Table::changes).collect(),
        }
    }

    /// Compares every row with the result of the first `transactions` of the list.
    pub fn check(
        &self,
        database: &Database,
        tables: &[Table],
        transactions: u64,
    ) -> Result<(), CustomError> {
        let mut expected = self.expected(transactions);
        for (at, table) in tables.iter().enumerate() {
            let (mut found, mut wrong) = (0, None);
            database.read(|reader| {
                (found, wrong) = (0, None);
                reader.scan(table, .., Direction::Forward, |row| {
                    found += 1;
                    let key = row.get(0).as_i64().unwrap_or(i64::MIN);
                    let writers = expected[at].get(&key);
                    wrong = (0..self.tables[at].columns).find_map(|column| {
                        let must = match writers.map(|writers| writers[column as usize]) {
                            None => return Some((key, column)),
                            Some(0) => self.initial(at, key, column),
                            Some(writer) => self.update(at, writer as usize - 1, column),
                        };
                        let is = row.get(column as usize + 1);
                        (is.as_str() != Some(must)).then_some((key, column))
                    });
                    match wrong {
                        None => ControlFlow::Continue(()),
                        Some(_) => ControlFlow::Break(()),
                    }
                })
            })?;
            if let Some((key, column)) = wrong {
                return Err(CustomError::Wrong {
                    table: at,
                    key,
                    column,
                });
            }
            let expected = std::mem::take(&mut expected[at]).len() as u64;
            if found != expected {
                return Err(CustomError::Rows {
                    table: at,
                    expected,
                    found,
                });
            }
        }
        Ok(())
    }

    /// By table and key, the position of the operation that wrote each column last, plus one; 0 for
    /// the row's first content.
    fn expected(&self, transactions: u64) -> Vec<HashMap<i64, Box<[u32]>>> {
        let new = |table: usize| vec![0; self.tables[table].columns as usize].into_boxed_slice();
        let loaded = |(at, shape): (usize, &TableShape)| {
            (0..shape.rows).map(|row| (key_of(row), new(at))).collect()
        };
        let mut rows: Vec<HashMap<i64, Box<[u32]>>> =
            self.tables.iter().enumerate().map(loaded).collect();
        let mut ended = 0;
        for (position, operation) in self.list.iter().enumerate() {
            if ended == transactions {
                break;
            }
            ended += u64::from(operation.ends_transaction);
            let at = usize::from(operation.table);
            match operation.kind {
                Kind::Get | Kind::Miss | Kind::Scan => {}
                Kind::Insert => drop(rows[at].insert(operation.key, new(at))),
                Kind::Delete => drop(rows[at].remove(&operation.key)),
                Kind::Update => {
                    if let Some(writers) = rows[at].get_mut(&operation.key) {
                        for column in self.columns(at, position, operation.count) {
                            writers[column as usize] = position as u32 + 1;
                        }
                    }
                }
            }
        }
        rows
    }
}

/// Runs the transactions of the list, one after the other.
pub struct Runner<'w> {
    workload: &'w Custom,
    tables: &'w [Table],
    /// The next operation.
    at: usize,
    position: u64,
    rows: Vec<Row>,
    changes: Vec<Changes>,
}

impl Script for Runner<'_> {
    const KINDS: usize = 1;

    #[inline]
    fn position(&self) -> u64 {
        self.position()
    }

    #[inline]
    fn kind(&self) -> usize {
        0
    }

    #[inline]
    fn step(&mut self, transaction: &mut Transaction<'_>) -> indelible::Result<()> {
        self.step(transaction)
    }

    /// The step has done it already.
    #[inline]
    fn next(&mut self) {}

    fn is_rollback(_: &Error) -> bool {
        false
    }
}

impl Runner<'_> {
    /// Transactions run so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Runs the next transaction's statements; the caller commits. At the end of the list nothing
    /// is run.
    #[inline]
    pub fn step(&mut self, transaction: &mut Transaction<'_>) -> Result<(), Error> {
        while let Some(operation) = self.workload.list.get(self.at) {
            if !self.run(*operation, transaction)? {
                return Err(unexpected(operation));
            }
            self.at += 1;
            if operation.ends_transaction {
                break;
            }
        }
        self.position += 1;
        Ok(())
    }

    /// Runs an operation; false if its outcome is not the list's.
    #[inline]
    fn run(
        &mut self,
        operation: Operation,
        transaction: &mut Transaction<'_>,
    ) -> Result<bool, Error> {
        let at = usize::from(operation.table);
        let (table, key) = (&self.tables[at], operation.key);
        match operation.kind {
            Kind::Get => transaction.get_into(table, key, &mut self.rows[at]),
            Kind::Miss => {
                let found = transaction.get_into(table, key, &mut self.rows[at])?;
                Ok(!found)
            }
            Kind::Update => {
                let changes = &mut self.changes[at];
                changes.clear();
                for column in self.workload.columns(at, self.at, operation.count) {
                    let value = self.workload.update(at, self.at, column);
                    changes.set(column as usize + 1, value)?;
                }
                transaction.update(table, key, changes)
            }
            Kind::Insert => {
                let row = &mut self.rows[at];
                self.workload.fill(at, key, row)?;
                transaction.insert(table, &*row)?;
                Ok(true)
            }
            Kind::Delete => transaction.delete(table, key),
            Kind::Scan => {
                let mut left = operation.count;
                transaction.scan(table, key.., Direction::Forward, |_| {
                    left -= 1;
                    if left == 0 {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                })?;
                Ok(true)
            }
        }
    }
}

#[cold]
#[inline(never)]
fn unexpected(operation: &Operation) -> Error {
    Error::rejected(format!(
        "table {}, key {}: {:?} did not find what the list says",
        operation.table, operation.key, operation.kind
    ))
}
