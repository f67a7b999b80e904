//! `bench btree-insert`: rows of one size go into one tree, in key order or out of it; or rows of it are changed or taken out.
//!
//! The table has a key of 8 bytes and a payload of fixed length; there are no other indexes. So what is measured is the path of a
//! B+tree: search, change of a page, commit. Random keys come from a walk through all keys in which none comes twice; whoever knows how
//! many were inserted knows which.

use super::measure::{self, Limit};
use super::runs::{self, About, Setting};
use super::sample::{Probes, Sampling, watch};
use super::standard::Watched;
use crate::args::{BtreeArgs, BtreeMix, BtreeOrder};
use crate::failure::Usage;
use crate::output::Format;
use anyhow::{Context, Result};
use indelible::{Changes, DataType, Database, Durability, Error, Method, Row, Table, Transaction};
use workload::Script;

const KEY_BYTES: u32 = 8;
const PAYLOAD: usize = 1;
/// Operations of a run that has neither a number of transactions nor a time.
const OPERATIONS_DEFAULT: u64 = 1_000_000;
/// Rows of a transaction of the loading.
const LOADED_TOGETHER: u64 = 1000;

/// Runs the command.
pub(super) fn run(args: &BtreeArgs, format: Format) -> Result<()> {
    let run = &args.run;
    if run.partitions != 1 || run.threads() != 1 {
        return Err(Usage::error(
            "btree-insert has one tree and one thread; leave --partitions and --threads out",
        ));
    }
    if run.record.is_some() && (args.method.len() > 1 || run.repeat > 1) {
        return Err(Usage::error(
            "--record-trace takes one run; give one method and no --repeat",
        ));
    }
    runs::check(run, &args.method, false)?;
    let mut rows = Vec::new();
    for _ in 0..run.repeat {
        for method in &args.method {
            let (row, _) = measured(args, *method, Sampling::Off)
                .with_context(|| format!("method {method}"))?;
            runs::print_row(&row, format)?;
            rows.push(row);
        }
    }
    runs::print_rows(&rows, format)
}

/// Runs the first method of the options so many times, each time on a database of its own.
pub(crate) fn segments(args: &BtreeArgs, count: u32, sampling: Sampling) -> Result<Vec<Watched>> {
    runs::check(&args.run, &args.method, false)?;
    let Some(method) = args.method.first() else {
        return Err(Usage::error("name a method"));
    };
    (0..count)
        .map(|_| measured(args, *method, sampling))
        .collect()
}

/// One run on a database of its own.
fn measured(args: &BtreeArgs, method: Method, sampling: Sampling) -> Result<Watched> {
    let run = &args.run;
    let scratch = runs::scratch(run)?;
    let (database, emulators, delays) = runs::open(run, method, &scratch)?;
    let mut builder = database.create_table("rows").column("key", DataType::Int64);
    if args.record_bytes > KEY_BYTES {
        let length = args.record_bytes - KEY_BYTES;
        builder = builder.column("payload", DataType::Char { length });
    }
    let table = builder.primary_key(["key"]).create()?;
    delays.set(false);
    load(args, &database, &mut Operations::new(args, &table)?)?;
    let limit = match runs::limit(run, OPERATIONS_DEFAULT.div_ceil(args.txn_size)) {
        // No more rows than there are can be taken out.
        Limit::Transactions(most) if args.mix == BtreeMix::Delete => {
            Limit::Transactions(most.min(args.rows / args.txn_size))
        }
        limit => limit,
    };
    runs::start_record(run, &database)?;
    delays.set(true);
    let before = runs::statistics(&database, &emulators)?;
    let script = |probes: &Probes| {
        probes.carry(0);
        let mut operations = Operations::new(args, &table)?;
        operations.inserted = args.loaded();
        Ok(operations)
    };
    let measure = |probes: &Probes| {
        let script = |_, _| script(probes);
        measure::measure(&database, &[0], limit, runs::acknowledge(run), script)
    };
    let (measured, seen) = match sampling {
        Sampling::Off => (measure(&Probes::NONE)?, None),
        Sampling::On => {
            let (measured, seen) = watch(1, measure)?;
            (measured, Some(seen))
        }
    };
    let after = runs::statistics(&database, &emulators)?;
    delays.set(false);
    runs::finish_record(run, &database)?;
    if !run.skip_check {
        check(args, &database, &table, measured.txns).context("after the run")?;
    }
    let about = About {
        workload: "btree-insert",
        mix: format!(
            "{}, record {}, txn-size {}",
            args.mix.name(),
            args.record_bytes,
            args.txn_size
        ),
        skew: args.order.name(),
        rows: args.loaded(),
        partitions: 1,
        threads: 1,
        update_columns: 0,
        seed: run.seed,
    };
    let setting = Setting::new(run, method, before.domain, scratch.path());
    let row = runs::row(&setting, &about, &measured, &before, &after);
    Ok((row, seen))
}

/// Inserts the rows that are there before the run.
fn load(args: &BtreeArgs, database: &Database, operations: &mut Operations<'_>) -> Result<()> {
    let mut worker = database.worker(&[0], Durability::Group)?;
    while operations.inserted < args.loaded() {
        let together = LOADED_TOGETHER.min(args.loaded() - operations.inserted);
        worker.transaction(|transaction| {
            (0..together).try_for_each(|_| operations.insert(transaction))
        })?;
    }
    drop(worker);
    Ok(database.force()?)
}

/// Looks whether exactly the rows are there that so many transactions leave, with the payloads that they gave them.
fn check(args: &BtreeArgs, database: &Database, table: &Table, txns: u64) -> Result<()> {
    let mut expected = Operations::new(args, table)?;
    let loaded = args.loaded();
    let mut firsts = vec![b'p'; loaded as usize];
    expected.inserted = loaded;
    for _ in 0..txns * args.txn_size {
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
    let numbers = expected.deleted..expected.inserted;
    database.read(|reader| {
        let count = reader.count(table, ..)?;
        if count != numbers.end - numbers.start {
            let problem = format!("{count} rows instead of {}", numbers.end - numbers.start);
            return Err(Error::rejected(problem));
        }
        for number in numbers.clone() {
            let row = reader.get(table, expected.key(number))?;
            let is_right = row.is_some_and(|row| {
                let payload = || row.get(PAYLOAD).as_str().map(str::as_bytes);
                args.record_bytes <= KEY_BYTES
                    || payload().is_some_and(|payload| payload[0] == firsts[number as usize])
            });
            if !is_right {
                let problem = format!("row {number} is lost or not as it was left");
                return Err(Error::rejected(problem));
            }
        }
        Ok(())
    })?;
    let damage = database.verify()?.damage;
    anyhow::ensure!(damage.is_empty(), "the deep check found {damage:?}");
    Ok(())
}

impl BtreeArgs {
    /// Rows that are there before the run.
    fn loaded(&self) -> u64 {
        match self.mix {
            BtreeMix::Insert => 0,
            BtreeMix::Update | BtreeMix::Delete | BtreeMix::Mixed => self.rows,
        }
    }
}

/// What is done next.
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
    mix: BtreeMix,
    order: BtreeOrder,
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
    fn new(args: &BtreeArgs, table: &'t Table) -> Result<Self> {
        let payload = "p".repeat(args.record_bytes.saturating_sub(KEY_BYTES) as usize);
        let (mut row, mut changes) = (table.row(), table.changes());
        if !payload.is_empty() {
            row.set(PAYLOAD, payload.as_str())?;
            changes.set(PAYLOAD, payload.as_str())?;
        }
        Ok(Self {
            table,
            row,
            changes,
            mix: args.mix,
            order: args.order,
            txn_size: args.txn_size,
            record: args.record_bytes,
            seed: args.run.seed,
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
            BtreeOrder::Ascending => number.cast_signed(),
            BtreeOrder::Random => scattered(number.wrapping_add(self.seed << 40)).cast_signed(),
        }
    }

    fn next_operation(&self) -> Operation {
        match (self.mix, self.done % 3) {
            (BtreeMix::Insert, _) | (BtreeMix::Mixed, 0) => Operation::Insert,
            (BtreeMix::Update, _) | (BtreeMix::Mixed, 1) => Operation::Update,
            (BtreeMix::Delete | BtreeMix::Mixed, _) => Operation::Delete,
        }
    }

    /// The number of the row that the next operation updates.
    fn updated(&self) -> u64 {
        let there = (self.inserted - self.deleted).max(1);
        self.deleted + scattered(self.done) % there
    }

    /// The first byte of the payload that it gives the row; it tells one change from the next.
    fn first(&self) -> u8 {
        b'a' + (self.done % 26) as u8
    }

    fn insert(&mut self, transaction: &mut Transaction<'_>) -> indelible::Result<()> {
        self.row.set(0, self.key(self.inserted))?;
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
