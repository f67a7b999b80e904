//! Batches of transactions: goal and method.
//!
//! Goal: a batch counts whole or not at all, one transaction's abort undoes only itself, nobody is
//! held up for ever, and each of the three fences is needed. Method: sessions of one partition in a
//! simulated world, whose power is cut at every fence, or whose fences are left out.

use super::tests::{TestPlatform, key_of, number_of, options};
use super::*;
use crate::engine::{create, open};
use pmem::device::simulated::{
    CrashPoint, ImageChoices, MemoryCall, MemoryFault, SimulatedWorld, WorldOptions,
};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use storage::engine::{Direction, Method};
use storage::record::{Column, DataType, Value};

const TABLE: TableId = TableId(1);
const ROWS: i64 = 40;

type Content = BTreeMap<i64, i64>;

fn table() -> TableDef {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("value", DataType::Int64),
        Column::new("note", DataType::Varchar { max: 200 }),
    ];
    TableDef::new(TABLE, "t", columns, vec![0])
}

fn filled(world: &SimulatedWorld) -> Box<dyn Engine> {
    let platform = TestPlatform(world.clone());
    let mut engine = create(&platform, Method::GroupCommit, &options()).unwrap();
    engine.idle().unwrap().create_table(&table()).unwrap();
    engine.begin().unwrap();
    for id in 0..ROWS {
        insert(&mut *engine, id, 20);
    }
    engine.commit(Durability::Immediate).unwrap();
    engine
}

fn insert(engine: &mut dyn Engine, id: i64, note: usize) {
    let mut row = Row::new(Arc::clone(&engine.tables()[0].layout));
    row.set(0, id).unwrap();
    row.set(1, 0_i64).unwrap();
    row.set(2, "n".repeat(note).as_str()).unwrap();
    engine.insert(TABLE, &row).unwrap();
}

fn set(engine: &mut dyn Engine, id: i64, value: i64) {
    let mut changes = Changes::new(Arc::clone(&engine.tables()[0].layout));
    changes.set(1, value).unwrap();
    let key = key_of(engine, id);
    assert!(engine.update(TABLE, &key, &changes).unwrap());
}

/// Sets one row in a transaction of its own.
fn commit(engine: &mut dyn Engine, id: i64, value: i64, durability: Durability) {
    engine.begin().unwrap();
    set(engine, id, value);
    engine.commit(durability).unwrap();
}

/// Values other than 0 that the next opening of the world finds.
fn recovered(world: &SimulatedWorld) -> Result<Content, String> {
    let platform = TestPlatform(world.clone());
    let opened = open(&platform, Method::GroupCommit, &options(), &|_| false);
    let mut engine = opened.map_err(|error| error.to_string())?;
    let report = engine.verify().map_err(|error| error.to_string())?;
    if let Some(damage) = report.damage.first() {
        return Err(damage.clone());
    }
    engine.begin().unwrap();
    let table = Arc::clone(&engine.tables()[0]);
    let key = |id: i64| {
        let mut key = KeyBuf::default();
        let encoded = table.primary.encode_values(&[Value::from(id)], &mut key);
        encoded.unwrap();
        key
    };
    let range = ScanRange {
        table: TABLE,
        index: None,
        low: key(i64::MIN),
        high: key(i64::MAX),
        direction: Direction::Forward,
    };
    let mut content = Content::new();
    let scanned = engine.scan(&range, &mut |row| {
        if number_of(row) != 0 {
            let id = match row.get(0) {
                storage::record::ValueRef::Int64(id) => id,
                other => panic!("{other:?} is no number"),
            };
            content.insert(id, number_of(row));
        }
        ControlFlow::Continue(())
    });
    scanned.map_err(|error| error.to_string())?;
    Ok(content)
}

/// Contents that may be found if the power fails now.
fn images(world: &SimulatedWorld) -> Vec<Result<Content, String>> {
    ImageChoices::bounded(world, 7, 6)
        .map(|choice| recovered(&world.image(&choice).unwrap()))
        .collect()
}

fn content(rows: &[(i64, i64)]) -> Content {
    rows.iter().copied().collect()
}

#[test]
fn a_batch_counts_whole_or_not_at_all() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut one = filled(&world);
    let mut other = one.sessions().unwrap().session().unwrap();
    commit(&mut *one, 1, 10, Durability::Group);
    commit(&mut *other, 30, 11, Durability::None);
    let before = other.durable();
    for found in images(&world) {
        assert_eq!(found, Ok(Content::new()));
    }
    let found = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&found);
    world.observe(move |world, point| {
        if matches!(point, CrashPoint::Fence(_)) {
            all.lock().unwrap().extend(images(world));
        }
    });
    commit(&mut *one, 20, 12, Durability::Immediate);
    world.unobserve();
    assert!(one.durable() > before);
    let (none, whole) = (Content::new(), content(&[(1, 10), (20, 12), (30, 11)]));
    let found = found.lock().unwrap();
    assert!(found.len() >= 3, "{} images", found.len());
    for found in &*found {
        let found = found.as_ref().unwrap();
        assert!(*found == none || *found == whole, "{found:?}");
    }
    for found in images(&world) {
        assert_eq!(found.as_ref(), Ok(&whole));
    }
}

#[test]
fn an_abort_undoes_only_itself() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut one = filled(&world);
    let mut other = one.sessions().unwrap().session().unwrap();
    one.begin().unwrap();
    set(&mut *one, 1, 10);
    commit(&mut *other, 2, 11, Durability::Group);
    one.abort().unwrap();
    commit(&mut *other, 3, 12, Durability::Group);
    one.force().unwrap();
    for found in images(&world) {
        assert_eq!(found, Ok(content(&[(2, 11), (3, 12)])));
    }
}

#[test]
fn a_transaction_that_stays_open_holds_nobody_up_and_is_undone() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut one = filled(&world);
    let mut other = one.sessions().unwrap().session().unwrap();
    one.begin().unwrap();
    for id in 0..20 {
        set(&mut *one, id, 10);
    }
    // It is of the same thread, which would wait for itself.
    commit(&mut *other, 30, 11, Durability::Immediate);
    set(&mut *one, 20, 10);
    commit(&mut *other, 31, 12, Durability::Immediate);
    for found in images(&world) {
        assert_eq!(found, Ok(content(&[(30, 11), (31, 12)])));
    }
    one.commit(Durability::Immediate).unwrap();
    let mut all: Content = (0..=20).map(|id| (id, 10)).collect();
    all.extend([(30, 11), (31, 12)]);
    for found in images(&world) {
        assert_eq!(found.as_ref(), Ok(&all));
    }
}

#[test]
fn a_transaction_of_another_thread_is_waited_for_a_while_only() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut one = filled(&world);
    let mut other = one.sessions().unwrap().session().unwrap();
    one.begin().unwrap();
    set(&mut *one, 1, 10);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| commit(&mut *other, 2, 11, Durability::Immediate));
        thread.join().unwrap();
    });
    for found in images(&world) {
        assert_eq!(found, Ok(content(&[(2, 11)])));
    }
    one.abort().unwrap();
}

#[test]
fn a_transaction_larger_than_the_room_makes_more() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut engine = filled(&world);
    let bytes = engine.footprint().unwrap().log;
    engine.begin().unwrap();
    for id in ROWS..ROWS + 400 {
        insert(&mut *engine, id, 200);
        set(&mut *engine, id, 1);
    }
    engine.commit(Durability::Immediate).unwrap();
    assert!(engine.footprint().unwrap().log > bytes);
    let found = recovered(
        &world
            .image(&ImageChoices::bounded(&world, 1, 1).next().unwrap())
            .unwrap(),
    );
    assert_eq!(found.unwrap().len(), 400);
}

#[test]
fn a_batch_that_fails_is_not_acknowledged_and_neither_is_what_comes_behind_it() {
    for fence in 0..3 {
        let world = SimulatedWorld::new(WorldOptions::default());
        let mut one = filled(&world);
        let mut other = one.sessions().unwrap().session().unwrap();
        commit(&mut *one, 1, 10, Durability::Group);
        let before = one.durable();
        world.inject(MemoryFault {
            call: MemoryCall::Fence,
            nth: fence,
            forever: false,
            full: false,
        });
        other.begin().unwrap();
        set(&mut *other, 2, 11);
        assert!(
            other.commit(Durability::Immediate).is_err(),
            "fence {fence}"
        );
        world.heal();
        assert_eq!(one.durable(), before, "fence {fence}");
        assert!(one.begin().is_err() && one.force().is_err());
    }
}

/// The world after a process death when the pages of a batch have their new lines and the batch
/// does not count yet; the batch of row 1 counts.
fn in_the_middle() -> SimulatedWorld {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut engine = filled(&world);
    commit(&mut *engine, 1, 10, Durability::Immediate);
    let left = Arc::new(Mutex::new(None));
    let last = Arc::clone(&left);
    world.observe(move |world, point| {
        if matches!(point, CrashPoint::Fence(site) if site.name == "nv-pages.change") {
            *last.lock().unwrap() = Some(world.death().unwrap());
        }
    });
    commit(&mut *engine, 20, 11, Durability::Immediate);
    world.unobserve();
    let left = left.lock().unwrap().take();
    left.unwrap()
}

/// The memories of batches, and whether each has the newest that counts.
fn memories_of_batches() -> [(&'static str, bool); 2] {
    let world = in_the_middle();
    let number = world.content("p0.nvbatch.0").unwrap()[64];
    [
        ("p0.nvbatch.0", number.is_multiple_of(2)),
        ("p0.nvbatch.1", !number.is_multiple_of(2)),
    ]
}

#[test]
fn a_process_that_dies_in_the_middle_of_a_batch_leaves_the_one_before() {
    let world = in_the_middle();
    assert_eq!(recovered(&world), Ok(content(&[(1, 10)])));
    // A second opening finds the same, and so does one after a cut.
    for found in images(&world) {
        assert_eq!(found, Ok(content(&[(1, 10)])));
    }
}

#[test]
fn a_damaged_record_of_the_newest_batch_is_refused() {
    for (name, is_newest) in memories_of_batches() {
        for at in [128, 140, 150, 192, 193] {
            let world = in_the_middle();
            world.damage(name, at, 4).unwrap();
            let found = recovered(&world);
            // Without the record of the batch in the middle its pages are not given back, which is
            // noticed by their numbers.
            let error = found.expect_err(name);
            let is_record = error.contains("record of the newest batch");
            assert_eq!(is_record, is_newest, "{name} at {at}: {error}");
        }
    }
}

#[test]
fn a_damaged_number_of_the_newest_batch_is_refused() {
    for at in 64..72 {
        for bit in 0..8 {
            let world = in_the_middle();
            world.damage("p0.nvbatch.0", at, 1 << bit).unwrap();
            let error = recovered(&world).expect_err("a number that is wrong");
            assert!(error.contains("number of the newest batch"), "{error}");
        }
    }
}

/// Whether some image has neither the old nor the new content, with a durable step left out.
fn is_noticed(site: Option<&str>) -> bool {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut engine = filled(&world);
    if let Some(site) = site {
        world.disable(site);
    }
    let is_wrong = Arc::new(AtomicBool::new(false));
    let expected = Arc::new(Mutex::new((Content::new(), Content::new())));
    let (noticed, allowed) = (Arc::clone(&is_wrong), Arc::clone(&expected));
    world.observe(move |world, point| {
        if !matches!(point, CrashPoint::Fence(_)) {
            return;
        }
        let (old, new) = allowed.lock().unwrap().clone();
        for choice in ImageChoices::bounded(world, 3, 12) {
            let image = world.image(&choice).unwrap();
            let found =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| recovered(&image)));
            let is_right = matches!(&found, Ok(Ok(found)) if *found == old || *found == new);
            if !is_right {
                noticed.store(true, Ordering::Relaxed);
            }
        }
    });
    let mut now = Content::new();
    for round in 1..=6 {
        let mut new = now.clone();
        new.extend((0..ROWS).step_by(5).map(|id| (id, round)));
        *expected.lock().unwrap() = (now, new.clone());
        engine.begin().unwrap();
        for id in (0..ROWS).step_by(5) {
            set(&mut *engine, id, round);
        }
        engine.commit(Durability::Immediate).unwrap();
        *expected.lock().unwrap() = (new.clone(), new.clone());
        now = new;
    }
    world.unobserve();
    is_wrong.load(Ordering::Relaxed)
}

#[test]
fn every_fence_of_a_batch_is_needed() {
    assert!(!is_noticed(None));
    for site in [
        "batch.images",
        "batch.begin",
        "nv-pages.lines",
        "nv-pages.change",
        "batch.word",
        "batch.end",
    ] {
        assert!(is_noticed(Some(site)), "{site}");
    }
}
