//! Goal: with hints, look-ups find what they find without, after any sequence of changes: rows that
//! are deleted and inserted again, transactions and statements that are undone, blocks that another
//! key, table or index has taken over, definitions that change, and openings.
//!
//! Method: random transactions on two tables of few keys are compared with a map, key by key, for
//! budgets from none to plenty. Verification finds each hint that names no row of its table.

use super::*;
use disk::simulated::SimulatedDirectory;
use pmem::device::simulated::{SimulatedSource, SimulatedWorld, WorldOptions};
use std::collections::BTreeMap;
use storage::engine::{Engine, Idle, Reads};
use storage::record::{
    Changes, Column, DataType, IndexDef, IndexId, KeyBuf, Row, TableDef, TableId, ValueRef,
};

/// The key of one is an int64, of the other a text that is longer than its room in keys.
const TABLES: [TableId; 2] = [TableId(20), TableId(21)];
const KEYS: u64 = 90;
const TRANSACTIONS: u64 = 600;

struct TestPlatform(SimulatedWorld);

impl Platform for TestPlatform {
    type Memories = SimulatedSource;
    type Files = SimulatedDirectory;

    fn memories(&self, _partition: u32) -> SimulatedSource {
        self.0.source()
    }

    fn files(&self, _partition: u32) -> Result<SimulatedDirectory, disk::DiskError> {
        Ok(SimulatedDirectory::new(&self.0))
    }
}

type TestEngine = Serial<NvInPlace<TestPlatform>>;
type Rows = BTreeMap<(usize, u64), i64>;

struct Scene {
    platform: TestPlatform,
    options: EngineOptions,
    engine: TestEngine,
    rows: Rows,
    seed: u64,
    indexed: bool,
}

impl Scene {
    fn new(hint_bytes: u64, seed: u64) -> Self {
        let platform = TestPlatform(SimulatedWorld::new(WorldOptions::default()));
        let options = EngineOptions {
            hint_bytes,
            node_bytes: 128,
            ..EngineOptions::default()
        };
        let engine = NvInPlace::create(&platform, &options).unwrap();
        let mut scene = Self {
            platform,
            options,
            engine,
            rows: Rows::new(),
            seed,
            indexed: false,
        };
        for table in 0..TABLES.len() {
            scene.engine.create_table(&definition(table)).unwrap();
        }
        scene
    }

    fn below(&mut self, end: u64) -> u64 {
        let seed = self.seed.wrapping_mul(0x5851_f42d_4c95_7f2d);
        self.seed = seed.wrapping_add(0x1405_7b7e_f767_814f);
        (self.seed >> 33) % end
    }

    fn row(&self, table: usize, key: u64, value: i64) -> Row {
        let tables = self.engine.tables();
        let mut row = Row::new(tables[table].layout.clone());
        if table == 0 {
            row.set(0, key.cast_signed()).unwrap();
        } else {
            let text = format!("{:60}{key:020}", "the same beginning");
            row.set(0, text.as_str()).unwrap();
        }
        row.set(1, value).unwrap();
        row
    }

    fn key(&self, table: usize, key: u64) -> KeyBuf {
        let mut encoded = KeyBuf::new();
        let row = self.row(table, key, 0);
        let tables = self.engine.tables();
        tables[table]
            .primary
            .encode_row(&row, &mut encoded)
            .unwrap();
        encoded
    }

    fn get(&mut self, table: usize, key: u64) -> Option<i64> {
        let encoded = self.key(table, key);
        let mut row = self.row(table, key, 0);
        let found = self.engine.get(TABLES[table], &encoded, &mut row).unwrap();
        found.then(|| value_of(&row))
    }

    /// One statement; `now` is the content as the open transaction sees it.
    fn step(&mut self, now: &mut Rows) {
        let (table, key) = (self.below(2) as usize, self.below(KEYS));
        let value = self.below(1 << 20).cast_signed();
        let (id, encoded) = (TABLES[table], self.key(table, key));
        match self.below(10) {
            0..4 => {
                let row = self.row(table, key, value);
                let inserted = self.engine.insert(id, &row).is_ok();
                assert_eq!(inserted, !now.contains_key(&(table, key)), "insert {key}");
                now.entry((table, key)).or_insert(value);
            }
            4..6 => {
                let mut changes = Changes::new(self.engine.tables()[table].layout.clone());
                changes.set(1, value).unwrap();
                let found = self.engine.update(id, &encoded, &changes).unwrap();
                assert_eq!(found, now.contains_key(&(table, key)), "update {key}");
                now.entry((table, key)).and_modify(|old| *old = value);
            }
            6..8 => {
                let found = self.engine.delete(id, &encoded).unwrap();
                let expected = now.remove(&(table, key)).is_some();
                assert_eq!(found, expected, "delete {key}");
            }
            8 => {
                self.engine.announce(id, &encoded);
                assert_eq!(self.get(table, key), now.get(&(table, key)).copied());
            }
            _ => self.get_many(table, now),
        }
    }

    fn get_many(&mut self, table: usize, now: &Rows) {
        let keys: Vec<u64> = (0..25).map(|_| self.below(KEYS)).collect();
        let encoded: Vec<KeyBuf> = keys.iter().map(|key| self.key(table, *key)).collect();
        let mut found = vec![None; keys.len()];
        let mut visit = |place: usize, row: Option<&Row>| found[place] = row.map(value_of);
        let many = self.engine.get_many(TABLES[table], &encoded, &mut visit);
        many.unwrap();
        for (key, found) in keys.iter().zip(found) {
            assert_eq!(found, now.get(&(table, *key)).copied(), "key {key}");
        }
    }

    fn transaction(&mut self) {
        let mut now = self.rows.clone();
        self.engine.begin().unwrap();
        for _ in 0..=self.below(7) {
            self.step(&mut now);
        }
        if self.below(4) == 0 {
            self.engine.abort().unwrap();
        } else {
            self.engine.commit(Durability::Immediate).unwrap();
            self.rows = now;
        }
    }

    /// Compares all keys, and what verification finds.
    fn check(&mut self) {
        self.engine.begin().unwrap();
        for table in 0..TABLES.len() {
            for key in 0..KEYS {
                let expected = self.rows.get(&(table, key)).copied();
                assert_eq!(self.get(table, key), expected, "table {table}, key {key}");
            }
        }
        self.engine.abort().unwrap();
        assert_eq!(self.engine.verify().unwrap().damage, Vec::<String>::new());
    }

    fn define(&mut self) {
        match self.below(3) {
            0 => {
                let table = self.below(2) as usize;
                self.engine.drop_table(TABLES[table]).unwrap();
                self.rows.retain(|(of, _), _| *of != table);
                self.engine.create_table(&definition(table)).unwrap();
                self.indexed &= table != 0;
            }
            1 if self.indexed => {
                self.engine.drop_index(TABLES[0], IndexId(1)).unwrap();
                self.indexed = false;
            }
            1 => {
                let index = IndexDef {
                    id: IndexId(1),
                    name: "by_value".to_owned(),
                    columns: vec![1],
                    unique: false,
                };
                self.engine.create_index(TABLES[0], &index).unwrap();
                self.indexed = true;
            }
            _ => {
                self.engine.close().unwrap();
                let (platform, options) = (&self.platform, &self.options);
                let unused = SimulatedWorld::new(WorldOptions::default());
                // The world has one owner of a pool at a time.
                let other = NvInPlace::create(&TestPlatform(unused), options).unwrap();
                drop(std::mem::replace(&mut self.engine, other));
                self.engine = NvInPlace::open(platform, options, &|_| false).unwrap();
            }
        }
    }
}

fn value_of(row: &Row) -> i64 {
    match row.get(1) {
        ValueRef::Int64(value) => value,
        other => panic!("{other:?} is no value of the test"),
    }
}

fn definition(table: usize) -> TableDef {
    let key = [DataType::Int64, DataType::Varchar { max: 200 }][table];
    let columns = vec![
        Column::new("id", key),
        Column::new("value", DataType::Int64),
    ];
    TableDef::new(TABLES[table], ["a", "b"][table], columns, vec![0])
}

/// Runs transactions; returns the most bytes that hints took.
fn run(hint_bytes: u64, seed: u64) -> u64 {
    let mut scene = Scene::new(hint_bytes, seed);
    let mut most = 0;
    for number in 0..TRANSACTIONS {
        scene.transaction();
        if number % 10 == 0 {
            scene.check();
        }
        if number % 60 == 59 {
            scene.define();
        }
        most = most.max(scene.engine.status().hint_bytes);
    }
    scene.check();
    most
}

#[test]
fn look_ups_with_hints_find_what_they_find_without() {
    for seed in 1..4 {
        assert_eq!(run(0, seed), 0);
        assert_eq!(run(4 << 10, seed), 4 << 10, "one of the tables has hints");
        assert_eq!(run(1 << 20, seed), 8 << 10);
    }
}
