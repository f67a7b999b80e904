//! Goal: a table is dropped with a log that has far less room than freeing its pages takes at once,
//! and wherever a power cut hits the drop, the table is whole or gone; once it is gone, no page
//! stays in use.
//!
//! Method: small pages with few cells make a table of a thousand pages and more, with an index and
//! long values. A sample of the syncs and fences of the drop are crash points; each image is
//! opened, verified, opened again, which may store nothing, and counted.

use super::tests::{TestPlatform, options};
use super::*;
use pmem::device::simulated::{CrashPoint, ImageChoices, SimulatedWorld, WorldOptions};
use std::sync::Mutex;
use storage::engine::Method;
use storage::record::{Column, DataType};

const TABLE: TableId = TableId(1);
const INDEX: IndexId = IndexId(1);
const ROWS: i64 = 900;
/// So many that the records of their pages are more than the smallest ring of a log.
const MANY: i64 = 2400;

fn open_again(world: &SimulatedWorld, method: Method) -> Paged<TestPlatform> {
    let (platform, axes) = (TestPlatform(world.clone()), method.axes().unwrap());
    Paged::open(&platform, &options(), axes, &|_| false).unwrap()
}

/// Pages in use, maps excluded.
fn used_pages(engine: &Paged<TestPlatform>) -> usize {
    engine.shared.pages.used().unwrap().1.len()
}

fn assert_sound(engine: &mut Paged<TestPlatform>) -> u64 {
    let report = engine.verify().unwrap();
    assert_eq!(report.damage, Vec::<String>::new());
    report.rows
}

/// A partition with the table, and how many pages it used before.
fn filled(world: &SimulatedWorld, method: Method, rows: i64) -> (Paged<TestPlatform>, usize) {
    let (platform, axes) = (TestPlatform(world.clone()), method.axes().unwrap());
    let mut engine = Paged::create(&platform, &options(), axes).unwrap();
    let before = used_pages(&engine);
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("value", DataType::Int64),
        Column::new("note", DataType::Varchar { max: 60_000 }),
    ];
    let mut def = TableDef::new(TABLE, "t", columns, vec![0]);
    def.indexes.push(IndexDef {
        id: INDEX,
        name: "by_value".to_owned(),
        columns: vec![1],
        unique: false,
    });
    engine.create_table(&def).unwrap();
    for id in 0..rows {
        let mut row = Row::new(Arc::clone(&engine.tables()[0].layout));
        row.set(0, id).unwrap();
        row.set(1, id % 100).unwrap();
        let length = if id % 200 == 50 { 60_000 } else { 100 };
        row.set(2, "n".repeat(length).as_str()).unwrap();
        engine.begin().unwrap();
        engine.insert(TABLE, &row).unwrap();
        engine.commit(Durability::None).unwrap();
    }
    engine.checkpoint().unwrap();
    assert!(used_pages(&engine) > before + 900);
    (engine, before)
}

#[test]
fn a_drop_needs_little_of_the_log_and_frees_every_page() {
    for method in [
        Method::FullPageWrites,
        Method::NvDiskDecentralized,
        Method::NvLogging,
        Method::InPlace,
        Method::GroupCommit,
    ] {
        let world = SimulatedWorld::new(WorldOptions::default());
        let (mut engine, before) = filled(&world, method, MANY);
        engine.drop_index(TABLE, INDEX).unwrap();
        assert_eq!(assert_sound(&mut engine), MANY as u64, "{method}");
        engine.drop_table(TABLE).unwrap();
        assert_eq!(used_pages(&engine), before, "{method}");
        assert_eq!(assert_sound(&mut engine), 0, "{method}");
    }
}

#[test]
fn what_a_drop_has_left_is_sound_and_is_freed_after_the_next_opening() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let method = Method::FullPageWrites;
    let (mut engine, before) = filled(&world, method, ROWS);
    let gone = |tables: &mut Tables, pages: &Pages<_>, txn: &mut Transaction| {
        tables.drop_table(pages, TABLE, txn)
    };
    engine.define(gone).unwrap();
    let mut used = used_pages(&engine);
    for _ in 0..2 {
        assert_eq!(assert_sound(&mut engine), 0);
        let piece = |tables: &mut Tables, pages: &Pages<_>, txn: &mut Transaction| {
            tables.free_dropped(pages, txn)
        };
        engine.define(piece).unwrap();
        assert!(used_pages(&engine) < used, "a piece frees pages");
        used = used_pages(&engine);
    }
    assert!(engine.tables.has_dropped(&engine.shared.pages).unwrap());
    engine.close().unwrap();
    drop(engine);
    let mut engine = open_again(&world, method);
    assert_eq!(used_pages(&engine), before);
    assert_eq!(assert_sound(&mut engine), 0);
}

#[test]
fn wherever_a_crash_hits_a_drop_the_table_is_whole_or_gone_with_its_pages() {
    for (method, every) in [
        (Method::FullPageWrites, 3),
        (Method::NvLogging, 97),
        (Method::GroupCommit, 1),
    ] {
        let world = SimulatedWorld::new(WorldOptions::default());
        let (mut engine, before) = filled(&world, method, ROWS);
        let found = Arc::new(Mutex::new((0, 0)));
        let (counts, mut points, mut scratch) = (Arc::clone(&found), 0, None);
        world.observe(move |world, point| {
            if !matches!(point, CrashPoint::Sync(_) | CrashPoint::Fence(_)) {
                return;
            }
            points += 1;
            // The drop itself is in the first ones.
            if points > 6 && points % every != 0 {
                return;
            }
            for choice in ImageChoices::bounded(world, points, 2) {
                let image = world.image_in(&choice, &mut scratch).unwrap();
                let mut engine = open_again(image, method);
                let rows = assert_sound(&mut engine);
                drop(engine);
                let stores = image.stores();
                let engine = open_again(image, method);
                assert_eq!(image.stores(), stores, "{method}: a second opening");
                let mut counts = counts.lock().unwrap();
                if engine.tables().is_empty() {
                    assert_eq!(used_pages(&engine), before, "{method}");
                    counts.1 += 1;
                } else {
                    assert_eq!(rows, ROWS as u64, "{method}");
                    counts.0 += 1;
                }
            }
        });
        engine.drop_table(TABLE).unwrap();
        world.unobserve();
        let (whole, gone) = *found.lock().unwrap();
        assert!(
            whole > 0 && gone > 0,
            "{method}: {whole} whole, {gone} gone"
        );
    }
}
