//! Goal: stores that only a dead process can leave in the cache are durable before anybody reads
//! them.
//!
//! Method: the process dies before a fence, on the simulated device, without a power cut: memory
//! keeps every store. The partition is opened again and read, and then the power goes. The crash
//! search cannot see this, because its images are those of power cuts. Last, an ordinary end, after
//! which opening stores nothing.

use super::*;
use disk::simulated::SimulatedDirectory;
use pmem::device::simulated::{
    CrashPoint, ImageChoice, ImageChoices, SimulatedSource, SimulatedWorld, WorldOptions,
};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use storage::engine::{Direction, Engine, FenceOrder, Idle, Reads, ScanRange};
use storage::record::{Changes, Column, DataType, KeyBuf, Row, TableDef, TableId, Value, ValueRef};

const TABLE: TableId = TableId(0);

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

fn options(fences: FenceOrder) -> EngineOptions {
    EngineOptions {
        database_id: 0x1234,
        fences,
        rotation_bytes: 0,
        ..EngineOptions::default()
    }
}

fn create(world: &SimulatedWorld, fences: FenceOrder) -> TestEngine {
    let mut engine = NvInPlace::create(&TestPlatform(world.clone()), &options(fences)).unwrap();
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("value", DataType::Int64),
    ];
    engine
        .create_table(&TableDef::new(TABLE, "t", columns, vec![0]))
        .unwrap();
    engine
}

fn open(world: &SimulatedWorld, fences: FenceOrder) -> TestEngine {
    NvInPlace::open(&TestPlatform(world.clone()), &options(fences), &|_| false).unwrap()
}

fn insert(engine: &mut TestEngine, id: i64) {
    insert_all(engine, &[id]);
}

fn insert_all(engine: &mut TestEngine, ids: &[i64]) {
    engine.begin().unwrap();
    for id in ids {
        let mut row = Row::new(engine.tables()[0].layout.clone());
        row.set(0, *id).unwrap();
        row.set(1, 7_i64).unwrap();
        engine.insert(TABLE, &row).unwrap();
    }
    engine.commit(Durability::Immediate).unwrap();
}

fn key(engine: &TestEngine, id: i64) -> KeyBuf {
    let mut key = KeyBuf::default();
    let primary = &engine.tables()[0].primary;
    primary.encode_values(&[Value::from(id)], &mut key).unwrap();
    key
}

fn value(engine: &mut TestEngine, id: i64) -> Option<i64> {
    let key = key(engine, id);
    engine.begin().unwrap();
    let mut row = Row::new(engine.tables()[0].layout.clone());
    let found = engine.get(TABLE, &key, &mut row).unwrap();
    engine.abort().unwrap();
    match row.get(1) {
        ValueRef::Int64(value) if found => Some(value),
        _ => None,
    }
}

fn holds(engine: &mut TestEngine, id: i64) -> bool {
    value(engine, id).is_some()
}

/// Inserts row 2 and dies before the fence `site`; opens again with the site `disabled` switched
/// off, reads, and cuts the power. Whether the row was seen, and whether it is there afterwards.
fn die_and_cut(fences: FenceOrder, site: &'static str, disabled: &str) -> (bool, bool) {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut engine = create(&world, fences);
    insert(&mut engine, 1);
    world.observe(move |_, point| {
        if let CrashPoint::Fence(found) = point {
            assert!(found.name != site, "the process dies here");
        }
    });
    let death = catch_unwind(AssertUnwindSafe(|| insert(&mut engine, 2)));
    assert!(death.is_err(), "{site} was not reached");
    world.unobserve();
    drop(engine);
    world.disable(disabled);
    let seen = holds(&mut open(&world, fences), 2);
    let image = world.image(&ImageChoice::default()).unwrap();
    (seen, holds(&mut open(&image, fences), 2))
}

#[test]
fn what_a_killed_process_left_in_a_cache_is_durable_before_it_is_read() {
    for (fences, site) in [
        (FenceOrder::Single, "undo.commit-record-fence"),
        (FenceOrder::Shared, "undo.commit-fence"),
        (FenceOrder::Paper, "undo.commit-fence"),
    ] {
        assert_eq!(die_and_cut(fences, site, "none"), (true, true), "{site}");
    }
    for order in [FenceOrder::Shared, FenceOrder::Paper] {
        let lost = die_and_cut(order, "undo.commit-fence", "undo.found-fence");
        assert_eq!(lost, (true, false), "the fence is needless with {order:?}");
    }
}

#[test]
fn opening_after_an_orderly_end_stores_nothing() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut engine = create(&world, FenceOrder::Single);
    insert(&mut engine, 1);
    engine.close().unwrap();
    drop(engine);
    let image = world.image(&ImageChoice::default()).unwrap();
    let stores = image.stores();
    assert!(holds(&mut open(&image, FenceOrder::Single), 1));
    assert_eq!(image.stores(), stores);
}

/// Gives rows 2 to 4 the value 8 and row 1 this one, which comes first in the record.
fn change(engine: &mut TestEngine, first: i64) {
    engine.begin().unwrap();
    for (id, value) in [(1, first), (2, 8), (3, 8), (4, 8)] {
        update(engine, id, value);
    }
    engine.commit(Durability::Immediate).unwrap();
}

fn update(engine: &mut TestEngine, id: i64, value: i64) {
    let table = engine.tables()[0].clone();
    let mut changes = Changes::new(table.layout.clone());
    changes.set(1, value).unwrap();
    let key = key(engine, id);
    assert!(engine.update(TABLE, &key, &changes).unwrap());
}

/// Images that a cut may leave of a transaction that commits by a record, before its fence.
fn record_in_pieces(
    world: &SimulatedWorld,
    engine: &mut TestEngine,
    work: impl FnOnce(&mut TestEngine),
) -> Vec<SimulatedWorld> {
    let images = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&images);
    world.observe(move |world, point| {
        if matches!(point, CrashPoint::Fence(site) if site.name == "undo.commit-record-fence") {
            let choices = ImageChoices::exhaustive(world, 1000).unwrap();
            let images = choices.map(|choice| world.image(&choice).unwrap());
            seen.lock().unwrap().extend(images);
        }
    });
    work(engine);
    world.unobserve();
    std::mem::take(&mut *images.lock().unwrap())
}

/// A cut tears a record, and another one that of the transaction after the next opening, which has
/// all lines but the first in common with it. Values of row 1 that may not be there.
fn torn_twice(disabled: &str) -> Vec<i64> {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut engine = create(&world, FenceOrder::Single);
    (1..=4).for_each(|id| insert(&mut engine, id));
    world.disable(disabled);
    let mut wrong = Vec::new();
    for world in record_in_pieces(&world, &mut engine, |engine| change(engine, 9)) {
        let mut engine = open(&world, FenceOrder::Single);
        if value(&mut engine, 1) != Some(7) {
            continue;
        }
        for world in record_in_pieces(&world, &mut engine, |engine| change(engine, 10)) {
            let found = value(&mut open(&world, FenceOrder::Single), 1);
            wrong.extend(found.filter(|value| ![7, 10].contains(value)));
        }
    }
    wrong
}

#[test]
fn a_torn_record_is_not_made_whole_by_the_next_one() {
    assert_eq!(torn_twice("none"), []);
    for site in ["undo.torn", "undo.torn-fence"] {
        assert!(torn_twice(site).contains(&9), "without {site}");
    }
}

/// A record can be durable without the bytes that it publishes. It does not count then, and not
/// either when a later transaction stages the same bytes again.
#[test]
fn an_insertion_counts_whole_or_not_at_all() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut engine = create(&world, FenceOrder::Single);
    (0..2).for_each(|id| insert(&mut engine, id));
    let mut lost = 0;
    for world in record_in_pieces(&world, &mut engine, |engine| insert(engine, 2)) {
        let mut engine = open(&world, FenceOrder::Single);
        assert_eq!(engine.verify().unwrap().damage, [""; 0]);
        if holds(&mut engine, 2) {
            continue;
        }
        lost += 1;
        for world in record_in_pieces(&world, &mut engine, |engine| insert_all(engine, &[2, 3])) {
            let mut engine = open(&world, FenceOrder::Single);
            assert_eq!(engine.verify().unwrap().damage, [""; 0]);
            assert_eq!(holds(&mut engine, 2), holds(&mut engine, 3));
        }
    }
    assert!(lost > 8, "{lost} of the images");
}

/// Values of the rows from `low` to `high`, in this order.
fn scan(engine: &mut TestEngine, low: i64, high: i64, direction: Direction) -> Vec<i64> {
    let range = ScanRange {
        table: TABLE,
        index: None,
        low: key(engine, low),
        high: key(engine, high),
        direction,
    };
    let mut values = Vec::new();
    let mut visit = |row: &Row| {
        if let ValueRef::Int64(value) = row.get(1) {
            values.push(value);
        }
        ControlFlow::Continue(())
    };
    engine.scan(&range, &mut visit).unwrap();
    values
}

#[test]
fn a_scan_shows_the_writes_of_its_transaction_and_drains_only_if_it_meets_one() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut engine = create(&world, FenceOrder::Single);
    (1..=5).for_each(|id| insert(&mut engine, id));
    for (direction, seen) in [
        (Direction::Forward, [7, 9, 7, 8, 7]),
        (Direction::Backward, [7, 8, 7, 9, 7]),
    ] {
        engine.begin().unwrap();
        update(&mut engine, 2, 9);
        update(&mut engine, 4, 8);
        let fences = |engine: &TestEngine| engine.status().memory.fences;
        let before = fences(&engine);
        assert_eq!(scan(&mut engine, 5, 9, direction), [7]);
        assert_eq!(fences(&engine), before, "nothing that was met is pending");
        assert_eq!(scan(&mut engine, 1, 5, direction), seen);
        assert_eq!(fences(&engine), before + 1);
        engine.abort().unwrap();
    }
}

fn delete(engine: &mut TestEngine, id: i64) {
    engine.begin().unwrap();
    let key = key(engine, id);
    assert!(engine.delete(TABLE, &key).unwrap());
    engine.commit(Durability::Immediate).unwrap();
}

fn update_alone(engine: &mut TestEngine, id: i64, value: i64) {
    engine.begin().unwrap();
    update(engine, id, value);
    engine.commit(Durability::Immediate).unwrap();
}

/// What a power cut leaves that takes everything which no fence has made durable.
fn cut(world: &SimulatedWorld) -> SimulatedWorld {
    world.image(&ImageChoice::default()).unwrap()
}

/// The smallest log has seven slots, so that the lines of five commits are written back together.
#[test]
fn commits_are_there_wherever_their_batch_is_cut_and_flush_a_line_once() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut engine = create(&world, FenceOrder::Single);
    (1..=2).for_each(|id| insert(&mut engine, id));
    let flushed = |engine: &TestEngine| engine.status().memory.total().lines_flushed;
    let before = flushed(&engine);
    for value in 0..50 {
        update_alone(&mut engine, 1 + value % 2, 100 + value);
        let mut engine = open(&cut(&world), FenceOrder::Single);
        assert_eq!(self::value(&mut engine, 1 + value % 2), Some(100 + value));
        if value > 0 {
            assert_eq!(self::value(&mut engine, 2 - value % 2), Some(99 + value));
        }
    }
    // Ten batches of two rows in one or two lines, and a word for each.
    let lines = flushed(&engine) - before;
    assert!((20..=32).contains(&lines), "{lines}");
}

/// An update, the deletion of its row, and then rows in the freed block without checksums: they may
/// not be overwritten by a replay of the update.
#[test]
fn a_replay_leaves_alone_what_was_staged_over_its_lines() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut engine = create(&world, FenceOrder::Single);
    (1..=40).for_each(|id| insert(&mut engine, id));
    let fences = |engine: &TestEngine| engine.status().memory.fences;
    // More rows than a record has checksums for, and no more than the deletions have made room for.
    let ids: Vec<i64> = (1..=9).collect();
    for id in &ids {
        update_alone(&mut engine, *id, 9);
        delete(&mut engine, *id);
    }
    let before = fences(&engine);
    insert_all(&mut engine, &ids);
    assert_eq!(fences(&engine) - before, 3, "the replay has ended first");
    let mut engine = open(&cut(&world), FenceOrder::Single);
    assert_eq!(engine.verify().unwrap().damage, [""; 0]);
    for id in 1..=40 {
        assert_eq!(value(&mut engine, id), Some(7), "row {id}");
    }
}

/// A record that others follow had ended its fence, so a cut cannot have torn it.
#[test]
fn a_damaged_record_before_others_is_reported() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut engine = create(&world, FenceOrder::Single);
    insert(&mut engine, 1);
    (2..=5).for_each(|value| update_alone(&mut engine, 1, value));
    let mut refused = 0;
    for newest in [false, true] {
        let image = cut(&world);
        let memory = image.source().open("p0.pool", Access::Write).unwrap();
        let mut arena = Arena::open(memory, "p0.pool".as_ref()).unwrap();
        let block = arena.root(LOG_ROOT);
        let bytes = arena.block(block).unwrap().bytes;
        let records = (block..block + bytes).step_by(64).filter(|at| {
            // The kind of a commit record.
            arena.word(at + 16).unwrap() == 5
        });
        let by_number = |at: &u64| arena.word(at + 8).unwrap();
        let newest_at = records.clone().max_by_key(by_number).unwrap();
        let number = arena.word(newest_at + 8).unwrap() - u64::from(!newest);
        let at = records.clone().find(|at| by_number(at) == number).unwrap();
        let image_word = arena.word(at + 24).unwrap();
        arena.store_word(at + 24, image_word ^ 1).unwrap();
        drop(arena);
        let platform = TestPlatform(image);
        let opened = NvInPlace::open(&platform, &options(FenceOrder::Single), &|_| false);
        match opened {
            Ok(mut engine) => assert_eq!(value(&mut engine, 1), Some(4), "as if torn"),
            Err(error) => {
                assert!(error.to_string().contains("damaged"), "{error}");
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 1);
}

#[path = "nv_cut_tests.rs"]
mod cuts;

#[path = "nv_list_tests.rs"]
mod list;
