//! `inp` and `volatile` on the simulated devices.
//!
//! Random transactions run against a map; at each sync the world is cut off in several ways, each
//! image is opened, and its content must be that of a commit between the last acknowledged and the
//! last begun. Then each sync is switched off in turn, and the same run must fail: a sync that
//! nothing misses would be a needless cost or a hole in the test.

mod snapshots;

use super::*;
use crate::engine::volatile;
use disk::simulated::{Call, Effect, Fault, Repeat, SimulatedDirectory};
use pmem::device::simulated::{CrashPoint, WorldOptions};
use pmem::device::simulated::{ImageChoice, ImageChoices, SimulatedSource, SimulatedWorld};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use storage::StorageError;
use storage::engine::{Direction, Engine, Idle, Reads, ScanRange};
use storage::record::{Column, DataType, KeyBuf, Value};

const TABLE: TableId = TableId(0);
const INDEX: IndexId = IndexId(1);
const KEYS: u64 = 60;

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

type TestEngine = Partition<TestPlatform>;
type Content = BTreeMap<i64, i64>;

fn options() -> EngineOptions {
    EngineOptions {
        database_id: 0x1234,
        node_bytes: 128,
        group_transactions_max: 4,
        group_wait_us_max: u64::MAX,
        checkpoint_log_bytes: 20 << 10,
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

fn index() -> IndexDef {
    IndexDef {
        id: INDEX,
        name: "by_value".into(),
        columns: vec![1],
        unique: false,
    }
}

fn create(world: &SimulatedWorld) -> TestEngine {
    let mut engine = super::create(&TestPlatform(world.clone()), &options()).unwrap();
    engine.create_table(&table()).unwrap();
    engine.create_index(TABLE, &index()).unwrap();
    engine
}

fn open(world: &SimulatedWorld) -> Result<TestEngine> {
    super::open(&TestPlatform(world.clone()), &options(), &|_| false)
}

fn new_world(seed: u64) -> SimulatedWorld {
    SimulatedWorld::new(WorldOptions {
        seed,
        ..WorldOptions::default()
    })
}

/// The image with only the content that is durable for certain.
fn cut(world: &SimulatedWorld) -> SimulatedWorld {
    world.image(&ImageChoice::default()).unwrap()
}

fn key_of(engine: &dyn Engine, id: i64) -> KeyBuf {
    let mut key = KeyBuf::default();
    engine.tables()[0]
        .primary
        .encode_values(&[Value::from(id)], &mut key)
        .unwrap();
    key
}

fn insert(engine: &mut dyn Engine, id: i64, value: i64) -> Result<()> {
    let mut row = Row::new(engine.tables()[0].layout.clone());
    row.set(0, id).unwrap();
    row.set(1, value).unwrap();
    if value % 3 == 0 {
        row.set(
            2,
            "a note of some length that is not in the tuple itself, now and then",
        )
        .unwrap();
    }
    engine.insert(TABLE, &row)
}

fn update(engine: &mut dyn Engine, id: i64, value: i64) -> Result<bool> {
    let mut changes = Changes::new(engine.tables()[0].layout.clone());
    changes.set(1, value).unwrap();
    let key = key_of(engine, id);
    engine.update(TABLE, &key, &changes)
}

fn delete(engine: &mut dyn Engine, id: i64) -> Result<bool> {
    let key = key_of(engine, id);
    engine.delete(TABLE, &key)
}

fn int(row: &Row, column: usize) -> i64 {
    let storage::record::ValueRef::Int64(value) = row.get(column) else {
        panic!("not an integer")
    };
    value
}

fn content(engine: &mut dyn Engine) -> Content {
    let words = engine.tables()[0].primary.shape().words;
    let bound = |word: u64| KeyBuf::from_words(&vec![word; words]);
    let range = ScanRange {
        table: TABLE,
        index: None,
        low: bound(0),
        high: bound(u64::MAX),
        direction: Direction::Forward,
    };
    let mut found = Content::new();
    engine.begin().unwrap();
    engine
        .scan(&range, &mut |row| {
            found.insert(int(row, 0), int(row, 1));
            ControlFlow::Continue(())
        })
        .unwrap();
    engine.commit(Durability::None).unwrap();
    found
}

fn check(engine: &mut dyn Engine) {
    assert_eq!(engine.verify().unwrap().damage, Vec::<String>::new());
}

/// States after each commit, and which of them a crash may leave.
#[derive(Default)]
struct Oracle {
    states: Vec<Content>,
    acknowledged: usize,
    images: u64,
    wrong: Vec<String>,
}

impl Oracle {
    fn judge(&mut self, image: &SimulatedWorld, what: &str) {
        self.images += 1;
        let mut engine = match open(image) {
            Ok(engine) => engine,
            Err(error) => return self.wrong.push(format!("{what}: {error}")),
        };
        if engine.tables().is_empty() {
            return self.wrong.push(format!("{what}: the table is gone"));
        }
        let found = content(&mut engine);
        if !self.states[self.acknowledged..].contains(&found) {
            self.wrong.push(format!(
                "{what}: not a state between acknowledged and begun"
            ));
            return;
        }
        let damage = engine.verify().unwrap().damage;
        if !damage.is_empty() {
            self.wrong.push(format!("{what}: {damage:?}"));
        }
        engine.begin().unwrap();
        insert(&mut engine, 1 << 40, 1).unwrap();
        engine.commit(Durability::Immediate).unwrap();
    }
}

/// Runs random transactions and returns the findings of the images.
fn torture(seed: u64, disabled: Option<&str>, transactions: usize) -> Oracle {
    let world = new_world(seed);
    let mut engine = create(&world);
    let oracle = Arc::new(Mutex::new(Oracle {
        states: vec![Content::new()],
        ..Oracle::default()
    }));
    if let Some(site) = disabled {
        world.disable(site);
    }
    let judge = Arc::clone(&oracle);
    world.observe(move |world, point| {
        if let CrashPoint::Sync(site) = point {
            let mut judge = judge.lock().unwrap();
            for choice in ImageChoices::sampled(world, seed, 6).take(12) {
                judge.judge(&world.image(&choice).unwrap(), site.name);
            }
        }
    });
    let mut random = Random(seed);
    for number in 0..transactions {
        let mut next = oracle.lock().unwrap().states.last().unwrap().clone();
        let before = next.clone();
        engine.begin().unwrap();
        for _ in 0..=random.below(3) {
            step(&mut engine, &mut next, &mut random);
        }
        if random.below(8) == 0 {
            engine.abort().unwrap();
            continue;
        }
        if next != before {
            oracle.lock().unwrap().states.push(next);
        }
        let durability = match random.below(3) {
            0 => Durability::Immediate,
            1 => Durability::Group,
            _ => Durability::None,
        };
        engine.commit(durability).unwrap();
        if number % 40 == 39 {
            engine.checkpoint().unwrap();
        }
        let mut oracle = oracle.lock().unwrap();
        if engine.durable() == engine.policy.journal.log.newest() {
            oracle.acknowledged = oracle.states.len() - 1;
        }
    }
    world.unobserve();
    drop(engine);
    Arc::into_inner(oracle).map_or_else(Oracle::default, |oracle| oracle.into_inner().unwrap())
}

fn step(engine: &mut dyn Engine, model: &mut Content, random: &mut Random) {
    let id = random.below(KEYS).cast_signed();
    let value = random.below(1000).cast_signed();
    match random.below(4) {
        0 => {
            let gone = model.remove(&id).is_some();
            assert_eq!(delete(engine, id).unwrap(), gone);
        }
        1 => {
            let found = model.contains_key(&id);
            assert_eq!(update(engine, id, value).unwrap(), found);
            if found {
                model.insert(id, value);
            }
        }
        _ => match insert(engine, id, value) {
            Ok(()) => assert_eq!(model.insert(id, value), None),
            Err(error) => {
                assert!(
                    matches!(error, StorageError::DuplicateKey { .. }),
                    "{error}"
                );
                assert!(model.contains_key(&id));
            }
        },
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[test]
fn every_crash_image_holds_a_prefix_with_all_that_was_acknowledged() {
    for seed in [1, 2, 3] {
        let oracle = torture(seed, None, 500);
        assert_eq!(oracle.wrong, Vec::<String>::new(), "seed {seed}");
        assert!(oracle.images > 500, "{} images", oracle.images);
    }
}

#[test]
fn every_sync_is_missed() {
    for site in [
        "wal.flush",
        "wal.segment-header",
        "wal.publish-segment",
        "checkpoint.content",
        "checkpoint.publish",
    ] {
        let caught = (1..6).any(|seed| !torture(seed, Some(site), 150).wrong.is_empty());
        assert!(caught, "nothing misses the sync {site}");
    }
}

#[test]
fn what_a_killed_process_left_in_a_cache_is_durable_before_it_is_read() {
    for (disabled, survives) in [("none", true), ("wal.replayed", false)] {
        let world = new_world(1);
        let mut engine = create(&world);
        world.disable("wal.flush");
        engine.begin().unwrap();
        insert(&mut engine, 1, 10).unwrap();
        engine.commit(Durability::Immediate).unwrap();
        // The process dies here, without a power cut: nothing is closed, nothing is lost.
        std::mem::forget(engine);
        world.disable(disabled);
        let mut engine = open(&world).unwrap();
        assert_eq!(content(&mut engine).len(), 1);
        let mut engine = open(&cut(&world)).unwrap();
        assert_eq!(content(&mut engine).len(), usize::from(survives));
    }
}

#[test]
fn a_second_recovery_writes_nothing() {
    let world = new_world(4);
    let mut engine = create(&world);
    for id in 0..20 {
        engine.begin().unwrap();
        insert(&mut engine, id, id).unwrap();
        engine.commit(Durability::Immediate).unwrap();
    }
    engine.begin().unwrap();
    insert(&mut engine, 20, 20).unwrap();
    engine.prepare(GlobalTxnId(7)).unwrap();
    let first = cut(&world);
    drop(open(&first).unwrap());
    let second = cut(&first);
    let mut engine = open(&second).unwrap();
    assert_eq!(content(&mut engine).len(), 20);
    check(&mut engine);
    drop(engine);
    assert_eq!(second.stores(), 0);
}

#[test]
fn the_commit_table_decides_about_prepared_transactions() {
    for outcome in [false, true] {
        let world = new_world(5);
        let mut engine = create(&world);
        engine.begin().unwrap();
        insert(&mut engine, 1, 1).unwrap();
        engine.prepare(GlobalTxnId(9)).unwrap();
        let crashed = cut(&world);
        let decide = |global| global == GlobalTxnId(9) && outcome;
        let platform = TestPlatform(crashed.clone());
        let mut engine = super::open(&platform, &options(), &decide).unwrap();
        assert_eq!(content(&mut engine).len(), usize::from(outcome));
        drop(engine);
        // The outcome is in the log now: the commit table may forget it.
        let mut engine = open(&cut(&crashed)).unwrap();
        assert_eq!(content(&mut engine).len(), usize::from(outcome));
        check(&mut engine);
    }
}

#[test]
fn a_prepared_transaction_commits_or_aborts() {
    let world = new_world(6);
    let mut engine = create(&world);
    for (id, commits) in [(1, true), (2, false), (3, true)] {
        engine.begin().unwrap();
        insert(&mut engine, id, id).unwrap();
        engine.prepare(GlobalTxnId(id.cast_unsigned())).unwrap();
        assert!(insert(&mut engine, 9, 9).is_err());
        if commits {
            engine.commit(Durability::Immediate).unwrap();
        } else {
            engine.abort().unwrap();
        }
    }
    assert_eq!(content(&mut engine), Content::from([(1, 1), (3, 3)]));
    let mut engine = open(&cut(&world)).unwrap();
    assert_eq!(content(&mut engine), Content::from([(1, 1), (3, 3)]));
}

#[test]
fn definitions_survive_and_their_failures_leave_nothing() {
    let world = new_world(7);
    let mut engine = create(&world);
    for id in 0..10 {
        engine.begin().unwrap();
        insert(&mut engine, id, 5).unwrap();
        engine.commit(Durability::Group).unwrap();
    }
    let unique = IndexDef {
        id: IndexId(2),
        name: "u".into(),
        columns: vec![1],
        unique: true,
    };
    let error = engine.create_index(TABLE, &unique).unwrap_err();
    assert!(
        matches!(error, StorageError::DuplicateKey { .. }),
        "{error}"
    );
    check(&mut engine);
    engine.drop_index(TABLE, INDEX).unwrap();
    let mut second = table();
    second.id = TableId(1);
    second.name = "u".into();
    engine.create_table(&second).unwrap();
    engine.drop_table(TableId(1)).unwrap();
    let mut engine = open(&cut(&world)).unwrap();
    assert_eq!(engine.tables().len(), 1);
    assert_eq!(engine.tables()[0].def.indexes.len(), 0);
    assert_eq!(content(&mut engine).len(), 10);
    check(&mut engine);
}

#[test]
fn a_full_disk_aborts_the_transaction_and_nothing_else() {
    let world = new_world(8);
    let mut engine = create(&world);
    let files = SimulatedDirectory::new(&world);
    let mut model = Content::new();
    let mut refused = 0;
    for id in 0..2_000 {
        if id == 100 {
            files.limit_space(Some(30 << 10));
        }
        if id == 1_500 {
            files.limit_space(None);
        }
        engine.begin().unwrap();
        insert(&mut engine, id, id).unwrap();
        match engine.commit(Durability::Immediate) {
            Ok(_) => drop(model.insert(id, id)),
            Err(error) => {
                assert!(error.is_statement_error(), "{error}");
                engine.abort().unwrap();
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
    assert_eq!(content(&mut engine), model);
    check(&mut engine);
    let mut engine = open(&cut(&world)).unwrap();
    assert_eq!(content(&mut engine), model);
}

#[test]
fn after_any_failed_call_nothing_wrong_is_acknowledged() {
    let faults = [
        (Call::Any, Effect::Error(ErrorKind::Other), 60),
        (Call::Sync, Effect::SyncLost(ErrorKind::Other), 30),
    ];
    let faults = faults
        .into_iter()
        .flat_map(|(call, effect, calls)| (0..calls).map(move |nth| (call, effect, nth)));
    for (call, effect, nth) in faults {
        let world = new_world(9);
        let mut engine = create(&world);
        let files = SimulatedDirectory::new(&world);
        files.inject(Fault {
            call,
            nth,
            repeat: Repeat::Once,
            effect,
        });
        let (mut acknowledged, mut possible) = (Content::new(), vec![Content::new()]);
        for id in 0..150 {
            if engine.begin().is_err() {
                break;
            }
            insert(&mut engine, id, id).unwrap();
            let mut next = acknowledged.clone();
            next.insert(id, id);
            possible.push(next.clone());
            if engine.commit(Durability::Immediate).is_err() {
                break;
            }
            acknowledged = next;
        }
        drop(engine);
        files.heal();
        for choice in ImageChoices::sampled(&world, nth, 4).take(8) {
            let mut engine = open(&world.image(&choice).unwrap()).unwrap();
            let found = content(&mut engine);
            assert!(
                found.len() >= acknowledged.len() && possible.contains(&found),
                "call {nth}"
            );
        }
        // Without a power cut, reads still see bytes that were lost; everything in use must stay.
        let mut engine = open(&world).unwrap();
        let mut expected = content(&mut engine);
        assert!(possible.contains(&expected), "call {nth}");
        for id in 1_000..1_080 {
            engine.begin().unwrap();
            insert(&mut engine, id, id).unwrap();
            engine.commit(Durability::Immediate).unwrap();
            expected.insert(id, id);
        }
        let image = cut(&world);
        drop(engine);
        for world in [image, cut(&world)] {
            assert_eq!(content(&mut open(&world).unwrap()), expected, "call {nth}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_and_no_damage() {
    let world = new_world(13);
    let mut engine = create(&world);
    let files = SimulatedDirectory::new(&world);
    for nth in 0..8 {
        files.inject(Fault {
            call: Call::Any,
            nth,
            repeat: Repeat::Once,
            effect: Effect::Error(ErrorKind::Other),
        });
        let error = engine.verify().unwrap_err();
        assert!(matches!(error, StorageError::Disk(_)), "{error}");
        files.heal();
        check(&mut engine);
    }
}

#[test]
fn every_flipped_byte_of_the_files_is_noticed() {
    let world = new_world(10);
    let mut engine = create(&world);
    for id in 0..12 {
        engine.begin().unwrap();
        insert(&mut engine, id, id).unwrap();
        engine.commit(Durability::Immediate).unwrap();
        if id == 5 {
            engine.checkpoint().unwrap();
        }
    }
    let expected = content(&mut engine);
    drop(engine);
    let names = disk::Directory::list(&SimulatedDirectory::new(&world)).unwrap();
    // The file that is kept back for a full disk says nothing.
    for name in names.into_iter().filter(|name| !name.contains("spare")) {
        let bytes = disk::File::bytes(
            &disk::Directory::open(&SimulatedDirectory::new(&world), &name).unwrap(),
        )
        .unwrap();
        let mut unnoticed = 0;
        for offset in 0..bytes.min(1400) {
            let image = cut(&world);
            let mut file = disk::Directory::open(&SimulatedDirectory::new(&image), &name).unwrap();
            let mut byte = [0];
            disk::File::read_at(&mut file, offset, &mut byte).unwrap();
            let written = byte[0];
            disk::File::write_at(&mut file, offset, &[written ^ 0x10]).unwrap();
            drop(file);
            match open(&image) {
                Err(_) => {}
                // Padding and the end marker may change without a loss.
                Ok(mut engine) => {
                    assert_eq!(content(&mut engine), expected, "{name} at {offset}");
                    unnoticed += u32::from(written != 0);
                }
            }
        }
        assert!(
            unnoticed < 24,
            "{unnoticed} flipped bytes of {name} were not noticed"
        );
    }
}

#[test]
fn a_missing_file_is_an_error() {
    for missing in ["checkpoint", "wal."] {
        let world = new_world(11);
        let mut engine = create(&world);
        for id in 0..400 {
            engine.begin().unwrap();
            insert(&mut engine, id, id).unwrap();
            engine.commit(Durability::Immediate).unwrap();
        }
        drop(engine);
        let image = cut(&world);
        let files = SimulatedDirectory::new(&image);
        let names = disk::Directory::list(&files).unwrap();
        let name = names.iter().find(|name| name.contains(missing)).unwrap();
        disk::Directory::remove(&files, name).unwrap();
        let error = open(&image).err().unwrap();
        let expected = matches!(
            error,
            StorageError::ForeignFile { .. } | StorageError::LostFile { .. }
        );
        assert!(expected, "{error}");
    }
}

#[test]
fn volatile_writes_no_file_and_undoes_an_abort() {
    let world = new_world(12);
    let platform = TestPlatform(world.clone());
    let mut engine = volatile::create(&platform, &options()).unwrap();
    engine.create_table(&table()).unwrap();
    engine.create_index(TABLE, &index()).unwrap();
    let mut random = Random(1);
    let mut model = Content::new();
    for _ in 0..300 {
        let mut next = model.clone();
        engine.begin().unwrap();
        for _ in 0..4 {
            step(&mut engine, &mut next, &mut random);
        }
        if random.below(2) == 0 {
            engine.abort().unwrap();
        } else {
            engine.commit(Durability::Immediate).unwrap();
            model = next;
        }
        assert_eq!(content(&mut engine), model);
    }
    check(&mut engine);
    assert!(
        disk::Directory::list(&SimulatedDirectory::new(&world))
            .unwrap()
            .is_empty()
    );
}
