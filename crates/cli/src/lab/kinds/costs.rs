//! Bytes that an insert, an update and a delete write, counted by the emulated device.
//!
//! One partition, one operation a transaction, in the order of drawn keys; tuples as in YCSB: a key
//! of 8 bytes and ten columns of 100, of which an update rewrites one. `stored` bytes are handed to
//! store operations, on volatile memory too, and written to files; `device` bytes are lines that
//! passed the modelled cache and reached the memory.

use crate::scratch::Scratch;
use anyhow::{Result, bail};
use disk::FileProfile;
use indelible::{
    DataType, Database, Durability, EmulatedPlatform, LayoutKind, LogImages, Method, Options,
    Primitive, Statistics, Table, Value,
};
use lab::point::Point;
use lab::rows::Metrics;
use lab::size::Size;
use pmem::Part;
use pmem::device::emulated::{EmulationOptions, Profile};
use std::path::Path;
use workload::random::Random;

const COLUMNS: usize = 10;
const COLUMN_BYTES: usize = 100;
/// The modelled cache, small compared with any data that counts here.
const CACHE_BYTES: u64 = 256 << 10;
const MEMTABLE_BYTES_MIN: u64 = 16 << 10;
/// Bytes of a line of the device.
const LINE_BYTES: f64 = 64.0;

/// Counts one operation of one method.
pub(super) fn run(point: &Point, size: &Size, parent: &Path) -> Result<Metrics> {
    let method: Method = point
        .get("method")
        .parse()
        .map_err(|problem| anyhow::anyhow!("method {problem}"))?;
    let operation = Operation::named(point.get("operation"))?;
    let scratch = Scratch::in_directory(parent)?;
    let mut options = Options::new()
        .method(method)
        .partitions(1)
        .layout(LayoutKind::Separate)
        .primitives(Primitive::Flush);
    options = point.of_database(options)?;
    if matches!(method, Method::Inp | Method::Log) {
        options = options.log_images(LogImages::BeforeAndAfter);
    }
    if matches!(method, Method::Log | Method::NvmLog) {
        // A sixteenth of the tuples, about as in the workloads: runs are written and merged.
        let tuples = u64::from(size.cost_rows) * (COLUMNS * COLUMN_BYTES) as u64;
        options = options.memtable_bytes((tuples / 16).max(MEMTABLE_BYTES_MIN));
    }
    let memory = EmulationOptions {
        cache_bytes: CACHE_BYTES,
        ..EmulationOptions::new(Profile::COUNT)
    };
    let platform = EmulatedPlatform::new(scratch.path(), &options, &memory, FileProfile::NONE)?;
    let database = Database::create_on(platform, &options)?;
    let mut random = Random::new(point.seed);
    let mut keys: Vec<i64> = (0..i64::from(size.cost_rows)).collect();
    for end in (1..keys.len()).rev() {
        keys.swap(end, random.below(end as u64 + 1) as usize);
    }
    let table = make_table(&database)?;
    if operation != Operation::Insert {
        operate(&database, &table, &keys, Operation::Insert)?;
        database.checkpoint()?;
    }
    let before = database.statistics()?;
    operate(&database, &table, &keys, operation)?;
    let after = database.statistics()?;
    Ok(metrics(&before, &after, keys.len()))
}

/// The operation whose costs are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Insert,
    Update,
    Delete,
}

impl Operation {
    fn named(name: &str) -> Result<Self> {
        Ok(match name {
            "insert" => Self::Insert,
            "update" => Self::Update,
            "delete" => Self::Delete,
            other => bail!("there is no operation `{other}`"),
        })
    }
}

fn make_table(database: &Database) -> Result<Table> {
    let mut table = database
        .create_table("tuples")
        .column("key", DataType::Int64);
    for column in 0..COLUMNS {
        let max = COLUMN_BYTES as u32;
        table = table.column(&format!("field{column}"), DataType::Varchar { max });
    }
    Ok(table.create()?)
}

/// Does the operation on each key, in groups as a workload would.
fn operate(database: &Database, table: &Table, keys: &[i64], operation: Operation) -> Result<()> {
    let mut worker = database.worker(&[0], Durability::Group)?;
    for (number, key) in keys.iter().enumerate() {
        let letter = char::from(b'a' + (number % 26) as u8);
        let text: String = std::iter::repeat_n(letter, COLUMN_BYTES).collect();
        worker.transaction(|transaction| match operation {
            Operation::Insert => {
                let mut row = vec![Value::from(*key)];
                row.extend((0..COLUMNS).map(|_| Value::from(text.as_str())));
                transaction.insert(table, row)
            }
            Operation::Update => {
                let mut changes = table.changes();
                changes.set(1 + number % COLUMNS, text.as_str())?;
                transaction.update(table, *key, &changes).map(drop)
            }
            Operation::Delete => transaction.delete(table, *key).map(drop),
        })?;
        if number % 64 == 63 {
            worker.force()?;
        }
    }
    Ok(worker.close()?)
}

/// Bytes an operation.
fn metrics(before: &Statistics, after: &Statistics, operations: usize) -> Metrics {
    let each = |bytes: f64| bytes / operations.max(1) as f64;
    let part = |part: Part| {
        let (before, after) = (
            &before.memory.parts[part as usize],
            &after.memory.parts[part as usize],
        );
        (after.bytes_stored - before.bytes_stored) as f64
    };
    let (total_before, total_after) = (before.memory.total(), after.memory.total());
    let files = (after.disk.bytes_written - before.disk.bytes_written) as f64;
    let stored: f64 = Part::ALL.into_iter().map(part).sum();
    let lines = (total_after.stores - total_before.stores) as f64;
    Metrics::from([
        ("table_bytes".into(), each(part(Part::Table))),
        ("index_bytes".into(), each(part(Part::Index))),
        ("log_bytes".into(), each(part(Part::Log))),
        (
            "other_bytes".into(),
            each(part(Part::Checkpoint) + part(Part::Other)),
        ),
        ("file_bytes".into(), each(files)),
        ("stored_bytes".into(), each(stored + files)),
        ("device_bytes".into(), each(lines * LINE_BYTES)),
    ])
}
