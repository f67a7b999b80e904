//! Rows of one size are inserted into one tree, in key order or out of it; or its rows are changed
//! or removed.
//!
//! The table has a key of 8 bytes and a payload of fixed length; there are no other indexes. So the
//! path of a B+tree is measured: search, change of a page, commit. Random keys come from a walk
//! through all keys that visits none twice; the number of inserted keys therefore determines which
//! they are.

use crate::run::{Acknowledge, Limit, measure as measure_scripts};
use crate::sample::{Sampling, watch};
use crate::standard::Watched;
use anyhow::Result;
use indelible::{
    Changes, DataType, Database, Direction, Durability, Error, Row, Table, Transaction, ValueRef,
};
use std::ops::ControlFlow;
use workload::Script;

/// Bytes of a row's key; a row of no more has nothing else.
pub const KEY_BYTES: u32 = 8;
const KEY: usize = 0;
const PAYLOAD: usize = 1;
/// Of so many rows that are left, one is looked up by its key.
const FOUND_ONE_IN: usize = 16;
/// Rows of a transaction of the loading.
const LOADED_TOGETHER: u64 = 1000;

/// Order of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All over the tree.
    Random,
    /// Each greater than the one before.
    Ascending,
}

/// The operations of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// New rows.
    Insert,
    /// New payloads of rows that are there.
    Update,
    /// Rows are taken out, the oldest first.
    Delete,
    /// A third of each.
    Mixed,
}

/// The rows, and the operations on them.
#[derive(Clone, Copy, Debug)]
pub struct TreeOptions {
    /// The operations.
    pub mix: Mix,
    /// The order of the keys.
    pub order: Order,
    /// Bytes of a row, 8 of which are its key.
    pub record_bytes: u32,
    /// Operations of a transaction.
    pub txn_size: u64,
    /// Rows that are there before the run; none before one of insertions only.
    pub rows: u64,
    /// Of the keys.
    pub seed: u64,
}

impl TreeOptions {
    /// Rows that are there before the run.
    pub fn loaded(&self) -> u64 {
        match self.mix {
            Mix::Insert => 0,
            Mix::Update | Mix::Delete | Mix::Mixed => self.rows,
        }
    }
}

/// Makes the table.
pub fn create(options: &TreeOptions, database: &Database) -> Result<Table> {
    let mut builder = database.create_table("rows").column("key", DataType::Int64);
    if options.record_bytes > KEY_BYTES {
        let length = options.record_bytes - KEY_BYTES;
        builder = builder.column("payload", DataType::Char { length });
    }
    Ok(builder.primary_key(["key"]).create()?)
}

/// Runs the operations, from the first one after the loading on.
pub fn measure(
    options: &TreeOptions,
    database: &Database,
    table: &Table,
    limit: Limit,
    acknowledge: Acknowledge,
    sampling: Sampling,
) -> Result<Watched> {
    watch(sampling, 1, |probes| {
        let script = |_, _| {
            probes.carry(0);
            let mut operations = Operations::new(options, table)?;
            operations.inserted = options.loaded();
            Ok(operations)
        };
        measure_scripts(database, &[0], limit, acknowledge, script)
    })
}

/// Inserts the rows that are there before the run.
pub fn load(options: &TreeOptions, database: &Database, table: &Table) -> Result<()> {
    let mut operations = Operations::new(options, table)?;
    let mut worker = database.worker(&[0], Durability::Group)?;
    while operations.inserted < options.loaded() {
        let together = LOADED_TOGETHER.min(options.loaded() - operations.inserted);
        worker.transaction(|transaction| {
            (0..together).try_for_each(|_| operations.insert(transaction))
        })?;
    }
    drop(worker);
    Ok(database.force()?)
}

/// Checks that exactly the rows are there that `txns` transactions leave, with their payloads: all
/// of them in the order of their keys, and some by their key.
pub fn check(options: &TreeOptions, database: &Database, table: &Table, txns: u64) -> Result<()> {
    let expected = left_rows(options, table, txns)?;
    let wrong = |key| {
        Error::rejected(format!(
            "the row with key {key} is lost or not as it was left"
        ))
    };
    database.read(|reader| {
        let (mut rest, mut odd) = (expected.iter(), None);
        reader.scan(table, .., Direction::Forward, |row| {
            let is_next = rest.next().is_some_and(|left| left.is(options, row));
            odd = (!is_next).then(|| row.get(KEY).to_string());
            if is_next {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        if let Some(key) = odd {
            let problem = format!("the row with key {key} is not the next one in their order");
            return Err(Error::rejected(problem));
        }
        if let Some(left) = rest.next() {
            return Err(wrong(left.key));
        }
        for left in expected.iter().step_by(FOUND_ONE_IN) {
            let row = reader.get(table, left.key)?;
            if !row.is_some_and(|row| left.is(options, &row)) {
                return Err(wrong(left.key));
            }
        }
        Ok(())
    })?;
    let damage = database.verify()?.damage;
    anyhow::ensure!(damage.is_empty(), "the deep check found {damage:?}");
    Ok(())
}

/// A row that the operations leave.
struct Left {
    key: i64,
    /// The first byte of its payload.
    first: u8,
}

impl Left {
    fn is(&self, options: &TreeOptions, row: &Row) -> bool {
        let first = || {
            row.get(PAYLOAD)
                .as_str()
                .map(|payload| payload.as_bytes()[0])
        };
        let has_payload = options.record_bytes > KEY_BYTES;
        row.get(KEY) == ValueRef::Int64(self.key) && (!has_payload || first() == Some(self.first))
    }
}

/// The rows that `txns` transactions leave, in the order of their keys.
fn left_rows(options: &TreeOptions, table: &Table, txns: u64) -> Result<Vec<Left>> {
    let mut expected = Operations::new(options, table)?;
    let loaded = options.loaded();
    let mut firsts = vec![b'p'; loaded as usize];
    expected.inserted = loaded;
    for _ in 0..txns * options.txn_size {
        match expected.next_operation() {
            Operation::Insert => {
                firsts.push(b'p');
                expected.inserted += 1;
            }
            Operation::Update => firsts[expected.updated() as usize] = expected.first(),
            Operation::Delete => expected.deleted += 1,
        }
        expected.done += 1;
    }
    let left = (expected.deleted..expected.inserted).map(|number| Left {
        key: expected.key(number),
        first: firsts[number as usize],
    });
    let mut left: Vec<Left> = left.collect();
    left.sort_unstable_by_key(|left| left.key);
    Ok(left)
}

/// The next operation.
enum Operation {
    Insert,
    Update,
    Delete,
}

/// The operations of a run, one after the other.
struct Operations<'t> {
    table: &'t Table,
    row: Row,
    changes: Changes,
    mix: Mix,
    order: Order,
    txn_size: u64,
    record: u32,
    seed: u64,
    inserted: u64,
    deleted: u64,
    done: u64,
    position: u64,
    payload: String,
}

impl<'t> Operations<'t> {
    fn new(options: &TreeOptions, table: &'t Table) -> Result<Self> {
        let payload = "p".repeat(options.record_bytes.saturating_sub(KEY_BYTES) as usize);
        let (mut row, mut changes) = (table.row(), table.changes());
        if !payload.is_empty() {
            row.set(PAYLOAD, payload.as_str())?;
            changes.set(PAYLOAD, payload.as_str())?;
        }
        Ok(Self {
            table,
            row,
            changes,
            mix: options.mix,
            order: options.order,
            txn_size: options.txn_size,
            record: options.record_bytes,
            seed: options.seed,
            inserted: 0,
            deleted: 0,
            done: 0,
            position: 0,
            payload,
        })
    }

    /// The key of the row that was inserted as number `number`.
    fn key(&self, number: u64) -> i64 {
        match self.order {
            Order::Ascending => number.cast_signed(),
            Order::Random => scattered(number.wrapping_add(self.seed << 40)).cast_signed(),
        }
    }

    fn next_operation(&self) -> Operation {
        match (self.mix, self.done % 3) {
            (Mix::Insert, _) | (Mix::Mixed, 0) => Operation::Insert,
            (Mix::Update, _) | (Mix::Mixed, 1) => Operation::Update,
            (Mix::Delete | Mix::Mixed, _) => Operation::Delete,
        }
    }

    /// The number of the row that the next operation updates.
    fn updated(&self) -> u64 {
        let there = (self.inserted - self.deleted).max(1);
        self.deleted + scattered(self.done) % there
    }

    /// The first byte of the payload that it gives the row; it distinguishes one change from the
    /// next.
    fn first(&self) -> u8 {
        b'a' + (self.done % 26) as u8
    }

    fn insert(&mut self, transaction: &mut Transaction<'_>) -> indelible::Result<()> {
        self.row.set(KEY, self.key(self.inserted))?;
        self.inserted += 1;
        transaction.insert(self.table, &self.row)
    }

    fn update(&mut self, transaction: &mut Transaction<'_>) -> indelible::Result<()> {
        let key = self.key(self.updated());
        if self.record > KEY_BYTES {
            let first = char::from(self.first());
            self.payload
                .replace_range(..1, first.encode_utf8(&mut [0; 4]));
            self.changes.clear();
            self.changes.set(PAYLOAD, self.payload.as_str())?;
        }
        found(transaction.update(self.table, key, &self.changes)?)
    }

    fn delete(&mut self, transaction: &mut Transaction<'_>) -> indelible::Result<()> {
        let key = self.key(self.deleted);
        self.deleted += 1;
        found(transaction.delete(self.table, key)?)
    }
}

/// Fails where there was no row.
fn found(is_there: bool) -> indelible::Result<()> {
    if is_there {
        return Ok(());
    }
    Err(Error::rejected(
        "all rows are taken out; use more --rows or fewer --txns",
    ))
}

/// A number that no other number becomes.
fn scattered(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ mixed >> 32
}

impl Script for Operations<'_> {
    const KINDS: usize = 1;

    fn position(&self) -> u64 {
        self.position
    }

    fn kind(&self) -> usize {
        0
    }

    fn step(&mut self, transaction: &mut Transaction<'_>) -> indelible::Result<()> {
        for _ in 0..self.txn_size {
            match self.next_operation() {
                Operation::Insert => self.insert(transaction)?,
                Operation::Update => self.update(transaction)?,
                Operation::Delete => self.delete(transaction)?,
            }
            self.done += 1;
        }
        Ok(())
    }

    fn next(&mut self) {
        self.position += 1;
    }

    /// Every transaction succeeds.
    fn is_rollback(_: &Error) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_key_comes_twice() {
        let keys: HashSet<u64> = (0..100_000).map(scattered).collect();
        assert_eq!(keys.len(), 100_000);
    }
}
