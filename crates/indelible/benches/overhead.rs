//! Cost of a transaction in addition to the engine's own work.
//!
//! The same operations on the same small table run in three ways: on a bare engine, by a worker
//! that holds the partition, and by closures that take and give back the partition each time. Rows
//! are few and short, so that the difference is the database's own work. The ways take turns, and
//! the fastest round of each counts, because other load disturbs it least. Argument: `--method M`.

#![allow(
    clippy::print_stdout,
    reason = "a benchmark reports on standard output"
)]
#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that cannot go on has nobody to report to"
)]

use disk::{IoMode, NativeDirectory};
use engines::create;
use indelible::{
    Changes, Column, DataType, Database, Durability, Method, Options, Primitive, Row, Table,
    TableDef, TableId, Worker,
};
use pmem::{NativeOptions, NativeSource};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use storage::Platform;
use storage::engine::{Engine, EngineOptions};
use storage::record::KeyBuf;

const TABLE: TableId = TableId(1);
const ROWS: i64 = 256;
const ROUNDS: u32 = 40;
const OPERATIONS: u32 = 50_000;

struct Native(PathBuf, NativeOptions);

impl Platform for Native {
    type Memories = NativeSource;
    type Files = NativeDirectory;
    fn memories(&self, _partition: u32) -> NativeSource {
        NativeSource::new(&self.0, self.1)
    }
    fn files(&self, _partition: u32) -> disk::Result<NativeDirectory> {
        NativeDirectory::open(&self.0, IoMode::Buffered)
    }
}

fn columns() -> Vec<Column> {
    ["id", "one", "two"]
        .map(|name| Column::new(name, DataType::Int64))
        .to_vec()
}

/// Nanoseconds an operation.
fn clocked(mut operation: impl FnMut(i64)) -> f64 {
    let start = Instant::now();
    for number in 0..OPERATIONS {
        // Operations next to each other in time are far apart in the index.
        operation(i64::from(number) * 97 % ROWS);
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(OPERATIONS)
}

/// The engine alone.
struct Bare {
    engine: Box<dyn Engine>,
    row: Row,
    changes: Changes,
    key: KeyBuf,
}

impl Bare {
    fn new(path: &Path, method: Method) -> Self {
        std::fs::create_dir_all(path).unwrap();
        let options = NativeOptions {
            primitive: Some(Primitive::Flush),
            ..NativeOptions::default()
        };
        let platform = Native(path.to_owned(), options);
        let mut engine = create(&platform, method, &EngineOptions::default()).unwrap();
        let def = TableDef::new(TABLE, "t", columns(), vec![0]);
        engine.idle().unwrap().create_table(&def).unwrap();
        let layout = Arc::clone(&engine.tables()[0].layout);
        let mut row = Row::new(Arc::clone(&layout));
        for key in 0..ROWS {
            for column in 0..3 {
                row.set(column, key).unwrap();
            }
            engine.begin().unwrap();
            engine.insert(TABLE, &row).unwrap();
            engine.commit(Durability::Immediate).unwrap();
        }
        let changes = Changes::new(layout);
        Self {
            engine,
            row,
            changes,
            key: KeyBuf::new(),
        }
    }

    fn read(&mut self) -> f64 {
        clocked(|key| {
            self.key.resized(1)[0] = key.cast_unsigned() ^ 1 << 63;
            self.engine.begin().unwrap();
            assert!(self.engine.get(TABLE, &self.key, &mut self.row).unwrap());
            self.engine.abort().unwrap();
        })
    }

    fn update(&mut self) -> f64 {
        clocked(|key| {
            self.key.resized(1)[0] = key.cast_unsigned() ^ 1 << 63;
            self.changes.clear();
            self.changes.set(1, key).unwrap();
            self.engine.begin().unwrap();
            let found = self.engine.update(TABLE, &self.key, &self.changes);
            assert!(found.unwrap());
            self.engine.commit(Durability::Immediate).unwrap();
        })
    }
}

/// A worker that holds the partition.
struct Held<'db> {
    worker: Worker<'db>,
    table: &'db Table,
    row: Row,
    changes: Changes,
}

impl Held<'_> {
    fn read(&mut self) -> f64 {
        clocked(|key| {
            let read = self
                .worker
                .transaction(|t| t.get_into(self.table, key, &mut self.row));
            assert!(read.unwrap().0);
        })
    }

    fn update(&mut self) -> f64 {
        clocked(|key| {
            self.changes.clear();
            self.changes.set(1, key).unwrap();
            let updated = self
                .worker
                .transaction(|t| t.update(self.table, key, &self.changes));
            assert!(updated.unwrap().0);
        })
    }
}

fn closure_read(db: &Database, table: &Table) -> f64 {
    let mut row = table.row();
    clocked(|key| assert!(db.read(|r| r.get_into(table, key, &mut row)).unwrap()))
}

fn closure_update(db: &Database, table: &Table) -> f64 {
    let mut changes = table.changes();
    clocked(|key| {
        changes.clear();
        changes.set(1, key).unwrap();
        let updated = db.transaction(|t| t.update(table, key, &changes));
        assert!(updated.unwrap());
    })
}

fn main() {
    let mut words = std::env::args().skip(1);
    let mut method = Method::NvmInp;
    while let Some(word) = words.next() {
        if word == "--method" {
            method = words.next().unwrap().parse().unwrap();
        }
    }
    let root = PathBuf::from(format!(
        "/dev/shm/indelible-overhead-{}",
        std::process::id()
    ));
    let mut bare = Bare::new(&root.join("bare"), method);
    let options = Options::new().method(method).primitives(Primitive::Flush);
    let db = Database::create(root.join("db"), &options).unwrap();
    let def = TableDef::new(TABLE, "t", columns(), vec![0]);
    let table = db.create_table_from(def).unwrap();
    db.transaction(|t| (0..ROWS).try_for_each(|key| t.insert(&table, (key, key, key))))
        .unwrap();
    let mut fastest = [f64::INFINITY; 6];
    for _ in 0..ROUNDS {
        let mut held = Held {
            worker: db.worker(&[0], Durability::Immediate).unwrap(),
            table: &table,
            row: table.row(),
            changes: table.changes(),
        };
        let (worker_read, worker_update) = (held.read(), held.update());
        drop(held);
        let round = [
            bare.read(),
            worker_read,
            closure_read(&db, &table),
            bare.update(),
            worker_update,
            closure_update(&db, &table),
        ];
        for (best, now) in fastest.iter_mut().zip(round) {
            *best = best.min(now);
        }
    }
    println!("{method}: nanoseconds a transaction (above the bare engine)");
    for (name, [engine, worker, closure]) in [
        ("read", [fastest[0], fastest[1], fastest[2]]),
        ("update", [fastest[3], fastest[4], fastest[5]]),
    ] {
        println!(
            "{name:7} engine {engine:6.1}, worker {worker:6.1} ({:+5.1}), closure {closure:6.1} ({:+5.1})",
            worker - engine,
            closure - engine,
        );
    }
    drop((table, db, bare));
    std::fs::remove_dir_all(&root).unwrap();
}
