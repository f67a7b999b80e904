//! `log` and `nvm-log` on the simulated devices.
//!
//! Random transactions run against a map with MemTables so small that merges of several levels are
//! always under way. At each fence and sync the world is cut off in several ways, each image is
//! opened, and its content must be that of the last acknowledged commit or of the one that has
//! begun; the deep check must find nothing.

use crate::engine::nv_pool::NvLogStructured;
use crate::engine::{create, open};
use disk::simulated::SimulatedDirectory;
use pmem::device::emulated::{ClockChoice, EmulatedSource, EmulationOptions, Emulator, Profile};
use pmem::device::simulated::{
    CrashPoint, ImageChoice, ImageChoices, SimulatedSource, SimulatedWorld, WorldOptions, mix,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use storage::Platform;
use storage::engine::{Direction, Durability, Engine, EngineOptions, Method, Reads, ScanRange};
use storage::record::{
    Changes, Column, DataType, IndexDef, IndexId, KeyBuf, Row, TableDef, TableId, Value, ValueRef,
};

const TABLE: TableId = TableId(0);
const INDEX: IndexId = IndexId(1);
const KEYS: u64 = 90;
const METHODS: [Method; 2] = [Method::Log, Method::NvmLog];

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

/// The same devices with a model that counts each line that is loaded, with next to no cache.
struct CountingPlatform(SimulatedWorld, Emulator);

impl CountingPlatform {
    fn new(seed: u64) -> Self {
        let options = EmulationOptions {
            cache_bytes: 64,
            cache_ways: 1,
            clock: ClockChoice::Virtual,
            ..EmulationOptions::new(Profile::default())
        };
        Self(new_world(seed), Emulator::new(options).unwrap())
    }
}

impl Platform for CountingPlatform {
    type Memories = EmulatedSource<SimulatedSource>;
    type Files = SimulatedDirectory;

    fn memories(&self, _partition: u32) -> Self::Memories {
        EmulatedSource::new(self.0.source(), self.1.clone())
    }

    fn files(&self, _partition: u32) -> Result<SimulatedDirectory, disk::DiskError> {
        Ok(SimulatedDirectory::new(&self.0))
    }
}

/// The value and the note of each key.
type Content = BTreeMap<i64, (i64, String)>;

fn options() -> EngineOptions {
    EngineOptions {
        database_id: 0x1234,
        node_bytes: 128,
        memtable_bytes: 1 << 10,
        growth_factor: 2,
        ..EngineOptions::default()
    }
}

fn table() -> TableDef {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("value", DataType::Int64),
        Column::new("note", DataType::Text).nullable(),
    ];
    TableDef::new(TABLE, "t", columns, vec![0])
}

fn started(world: &SimulatedWorld, method: Method) -> Box<dyn Engine> {
    let mut engine = create(&TestPlatform(world.clone()), method, &options()).unwrap();
    define(&mut *engine);
    engine
}

fn define(engine: &mut dyn Engine) {
    engine.idle().unwrap().create_table(&table()).unwrap();
    let index = IndexDef {
        id: INDEX,
        name: "by_value".into(),
        columns: vec![1],
        unique: false,
    };
    engine.idle().unwrap().create_index(TABLE, &index).unwrap();
}

fn reopened(world: &SimulatedWorld, method: Method) -> Box<dyn Engine> {
    open(&TestPlatform(world.clone()), method, &options(), &|_| false).unwrap()
}

fn new_world(seed: u64) -> SimulatedWorld {
    SimulatedWorld::new(WorldOptions {
        seed,
        ..WorldOptions::default()
    })
}

fn key_of(engine: &dyn Engine, id: i64) -> KeyBuf {
    let mut key = KeyBuf::default();
    let values = [Value::from(id)];
    let tables = engine.tables();
    tables[0].primary.encode_values(&values, &mut key).unwrap();
    key
}

fn content(engine: &mut dyn Engine, index: Option<IndexId>, direction: Direction) -> Content {
    let tables = engine.tables();
    let encoder = tables[0].encoder(index.map(|_| 0));
    let (mut low, mut high) = (KeyBuf::default(), KeyBuf::default());
    encoder.lower_bound::<Value>(&[], &mut low).unwrap();
    encoder.upper_bound::<Value>(&[], &mut high).unwrap();
    let range = ScanRange {
        table: TABLE,
        index,
        low,
        high,
        direction,
    };
    let mut found = Content::new();
    engine.begin().unwrap();
    engine
        .scan(&range, &mut |row| {
            let (ValueRef::Int64(id), ValueRef::Int64(value)) = (row.get(0), row.get(1)) else {
                panic!("not integers");
            };
            let note = match row.get(2) {
                ValueRef::Text(text) => text.to_owned(),
                _ => String::new(),
            };
            found.insert(id, (value, note));
            ControlFlow::Continue(())
        })
        .unwrap();
    engine.commit(Durability::Immediate).unwrap();
    found
}

fn check(engine: &mut dyn Engine, allowed: &[Content], what: &str) {
    let found = content(engine, None, Direction::Forward);
    assert!(allowed.contains(&found), "{what}: wrong content");
    for (index, direction) in [
        (None, Direction::Backward),
        (Some(INDEX), Direction::Forward),
        (Some(INDEX), Direction::Backward),
    ] {
        assert_eq!(content(engine, index, direction), found, "{what}");
    }
    let report = engine.verify().unwrap();
    assert_eq!(report.damage, Vec::<String>::new(), "{what}");
    assert_eq!(report.rows, found.len() as u64, "{what}");
}

fn step(engine: &mut dyn Engine, content: &mut Content, random: u64) {
    let id = (random % KEYS).cast_signed();
    let value = (random >> 16 & 0xff).cast_signed();
    let note = "a note of some length, ".repeat((random >> 24) as usize % 5);
    let layout = Arc::clone(&engine.tables()[0].layout);
    let key = key_of(engine, id);
    match random >> 32 & 7 {
        0..=2 => {
            let mut row = Row::new(layout);
            row.set(0, id).unwrap();
            row.set(1, value).unwrap();
            row.set(2, note.as_str()).unwrap();
            let is_new = engine.insert(TABLE, &row).is_ok();
            assert_eq!(is_new, !content.contains_key(&id));
            content.entry(id).or_insert((value, note));
        }
        3..=5 => {
            let mut changes = Changes::new(layout);
            let in_index = random >> 40 & 1 == 0;
            if in_index {
                changes.set(1, value).unwrap();
            } else {
                changes.set(2, note.as_str()).unwrap();
            }
            let found = engine.update(TABLE, &key, &changes).unwrap();
            let expected = content.get_mut(&id);
            assert_eq!(found, expected.is_some());
            if let Some(row) = expected {
                if in_index {
                    row.0 = value;
                } else {
                    row.1 = note;
                }
            }
        }
        _ => {
            let found = engine.delete(TABLE, &key).unwrap();
            assert_eq!(found, content.remove(&id).is_some());
        }
    }
}

/// Runs one transaction; returns the content after it.
fn transaction(engine: &mut dyn Engine, before: &Content, random: u64) -> (Content, bool) {
    let mut after = before.clone();
    engine.begin().unwrap();
    for number in 0..=random % 3 {
        step(engine, &mut after, mix(random ^ number));
    }
    (after, !(random >> 8).is_multiple_of(9))
}

#[test]
fn random_transactions_agree_with_a_map_over_restarts() {
    for method in METHODS {
        for seed in 0..4 {
            let world = new_world(seed);
            let mut engine = started(&world, method);
            let mut expected = Content::new();
            for number in 0..400_u64 {
                let random = mix(seed << 32 | number);
                let (after, commits) = transaction(&mut *engine, &expected, random);
                if commits {
                    engine.commit(Durability::Immediate).unwrap();
                    expected = after;
                } else {
                    engine.abort().unwrap();
                }
                match random >> 48 & 63 {
                    0 => {
                        drop(engine);
                        engine = reopened(&world, method);
                    }
                    1 => engine.idle().unwrap().checkpoint().unwrap(),
                    2..=5 => check(&mut *engine, std::slice::from_ref(&expected), "live"),
                    _ => {}
                }
            }
            check(&mut *engine, std::slice::from_ref(&expected), "at the end");
        }
    }
}

#[test]
fn every_sampled_power_cut_leaves_whole_transactions() {
    for method in METHODS {
        let world = new_world(7);
        let mut engine = started(&world, method);
        let allowed = Arc::new(Mutex::new(vec![Content::new()]));
        let (shared, mut points) = (Arc::clone(&allowed), 0_u64);
        world.observe(move |world, point| {
            points += 1;
            let (CrashPoint::Fence(site) | CrashPoint::Sync(site)) = point else {
                return;
            };
            if !mix(points).is_multiple_of(5) {
                return;
            }
            let allowed = shared.lock().unwrap().clone();
            for choice in ImageChoices::bounded(world, points, 4) {
                let image = world.image(&choice).unwrap();
                let mut engine = reopened(&image, method);
                check(&mut *engine, &allowed, site.name);
            }
        });
        for number in 0..150_u64 {
            let before = allowed.lock().unwrap()[0].clone();
            let (after, commits) = transaction(&mut *engine, &before, mix(number));
            if commits {
                allowed.lock().unwrap().push(after);
                engine.commit(Durability::Immediate).unwrap();
                allowed.lock().unwrap().remove(0);
            } else {
                engine.abort().unwrap();
            }
        }
        world.unobserve();
    }
}

#[test]
fn a_prepared_transaction_ends_as_the_commit_table_says() {
    for method in METHODS {
        for commits in [false, true] {
            let world = new_world(3);
            let mut engine = started(&world, method);
            let mut expected = Content::new();
            for number in 0..60 {
                let (after, _) = transaction(&mut *engine, &expected, mix(number));
                engine.commit(Durability::Immediate).unwrap();
                expected = after;
            }
            let (after, _) = transaction(&mut *engine, &expected, mix(1000));
            engine.prepare(storage::engine::GlobalTxnId(9)).unwrap();
            let image = world.image(&ImageChoice::default()).unwrap();
            let decide = |global: storage::engine::GlobalTxnId| commits && global.0 == 9;
            let platform = TestPlatform(image);
            let mut opened = open(&platform, method, &options(), &decide).unwrap();
            let expected = if commits { after } else { expected };
            check(&mut *opened, std::slice::from_ref(&expected), "decided");
        }
    }
}

#[test]
fn merges_keep_few_runs_and_give_space_back() {
    for method in METHODS {
        let world = new_world(5);
        let mut engine = started(&world, method);
        let mut content = Content::new();
        let mut largest = 0;
        for number in 0..3000_u64 {
            engine.begin().unwrap();
            step(&mut *engine, &mut content, mix(number));
            engine.commit(Durability::Immediate).unwrap();
            if number == 1000 {
                engine.idle().unwrap().checkpoint().unwrap();
                largest = engine.footprint().unwrap().total();
            }
        }
        engine.idle().unwrap().checkpoint().unwrap();
        let bytes = engine.footprint().unwrap().total();
        assert!(bytes < 2 * largest, "{method}: {bytes} after {largest}");
        check(&mut *engine, std::slice::from_ref(&content), "merged");
    }
}

#[test]
fn filters_come_back_after_a_restart() {
    let platform = CountingPlatform::new(11);
    let mut engine = NvLogStructured::create(&platform, &options()).unwrap();
    define(&mut engine);
    let mut expected = Content::new();
    for number in 0..1500_u64 {
        engine.begin().unwrap();
        step(&mut engine, &mut expected, mix(number));
        engine.commit(Durability::Immediate).unwrap();
    }
    engine.idle().unwrap().checkpoint().unwrap();
    // Reads of many keys make no filters. Only the durable memory is counted, so the cost of
    // filters is left out.
    let read_many = |engine: &mut dyn Engine| {
        let before = engine.status().memory.total().loads;
        let keys: Vec<_> = (0..KEYS.cast_signed())
            .map(|id| key_of(engine, id))
            .collect();
        engine.begin().unwrap();
        let mut found = Vec::new();
        let mut visit = |_, row: Option<&Row>| found.push(row.is_some());
        engine.get_many(TABLE, &keys, &mut visit).unwrap();
        engine.commit(Durability::Immediate).unwrap();
        for (id, is_there) in (0..).zip(found) {
            assert_eq!(is_there, expected.contains_key(&id), "key {id}");
        }
        engine.status().memory.total().loads - before
    };
    let with_filters = read_many(&mut engine);
    drop(engine);
    let mut engine = NvLogStructured::open(&platform, &options(), &|_| false).unwrap();
    let without = read_many(&mut engine);
    let mut row = Row::new(Arc::clone(&engine.tables()[0].layout));
    engine.begin().unwrap();
    for id in 0..KEYS.cast_signed() {
        let key = key_of(&engine, id);
        engine.get(TABLE, &key, &mut row).unwrap();
    }
    engine.commit(Durability::Immediate).unwrap();
    let again = read_many(&mut engine);
    let nearly_as_few = with_filters + with_filters / 20;
    assert!(
        without > 2 * nearly_as_few - with_filters,
        "{without} {with_filters}"
    );
    assert!(again <= nearly_as_few, "{again} {with_filters}");
    check(&mut engine, std::slice::from_ref(&expected), "reopened");
}

/// The first rows of the table, at most so many, in an open transaction.
fn first_rows(engine: &mut dyn Engine, most: usize) -> Vec<i64> {
    let range = ScanRange {
        table: TABLE,
        index: None,
        low: key_of(engine, 0),
        high: key_of(engine, i64::MAX),
        direction: Direction::Forward,
    };
    let mut found = Vec::new();
    engine
        .scan(&range, &mut |row| {
            found.extend(row.get(0).as_i64());
            if found.len() < most {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })
        .unwrap();
    found
}

fn insert_plain(engine: &mut dyn Engine, id: i64) {
    let mut row = Row::new(Arc::clone(&engine.tables()[0].layout));
    row.set(0, id).unwrap();
    row.set(1, id).unwrap();
    engine.insert(TABLE, &row).unwrap();
}

#[test]
fn the_front_of_a_queue_is_found_whatever_was_taken_put_back_or_aborted() {
    for method in METHODS {
        let world = new_world(21);
        let mut engine = started(&world, method);
        engine.begin().unwrap();
        (0..100).for_each(|id| insert_plain(&mut *engine, id));
        engine.commit(Durability::Immediate).unwrap();
        for taken in 0..60 {
            engine.begin().unwrap();
            assert_eq!(first_rows(&mut *engine, 1), [taken], "{method:?}");
            let key = key_of(&*engine, taken);
            assert!(engine.delete(TABLE, &key).unwrap());
            // A gap that only this transaction knows must not be remembered if it is aborted.
            assert_eq!(first_rows(&mut *engine, 1), [taken + 1]);
            if taken % 7 == 3 {
                engine.abort().unwrap();
                engine.begin().unwrap();
                assert_eq!(first_rows(&mut *engine, 1), [taken], "{method:?}");
                assert!(engine.delete(TABLE, &key).unwrap());
            }
            engine.commit(Durability::Immediate).unwrap();
        }
        engine.begin().unwrap();
        insert_plain(&mut *engine, 30);
        assert_eq!(first_rows(&mut *engine, 2), [30, 60], "{method:?}");
        engine.abort().unwrap();
        engine.begin().unwrap();
        assert_eq!(first_rows(&mut *engine, 2), [60, 61], "{method:?}");
        insert_plain(&mut *engine, 10);
        engine.commit(Durability::Immediate).unwrap();
        engine.begin().unwrap();
        assert_eq!(first_rows(&mut *engine, 2), [10, 60], "{method:?}");
        engine.commit(Durability::Immediate).unwrap();
        assert_eq!(engine.verify().unwrap().damage, Vec::<String>::new());
    }
}
