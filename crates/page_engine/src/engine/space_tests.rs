//! A file of pages on a full disk: goal and method.
//!
//! Goal: it takes the place of log files that are kept to be used again, and wherever a power cut
//! hits that, nothing is lost. Method: a disk that has no room for more than there is, and images
//! at every sync from then on.

use super::tests::{TestPlatform, key_of, number_of, options};
use super::*;
use crate::buffer::UndoSpace;
use crate::engine::open;
use crate::page::Head;
use crate::paged::Change;
use disk::simulated::SimulatedDirectory;
use disk::{Directory, File};
use pmem::device::simulated::{CrashPoint, ImageChoices, SimulatedWorld, WorldOptions};
use pmem::site;
use std::sync::Mutex;
use storage::engine::Method;
use storage::record::{Column, DataType};

const TABLE: TableId = TableId(1);
const ROWS: i64 = 600;

/// Segments of 128 KiB, four of which are kept.
fn small() -> EngineOptions {
    EngineOptions {
        checkpoint_log_bytes: 512 << 10,
        page_cells_max: usize::MAX,
        ..options()
    }
}

fn spares(files: &SimulatedDirectory) -> usize {
    let names = files.list().unwrap();
    names.iter().filter(|name| name.contains("-spare")).count()
}

fn used_bytes(files: &SimulatedDirectory) -> u64 {
    let names = files.list().unwrap();
    let bytes = |name: &String| files.open(name).unwrap().bytes().unwrap();
    names.iter().map(bytes).sum()
}

/// A partition with so many rows whose log has files to be used again.
fn filled(world: &SimulatedWorld) -> Paged<TestPlatform> {
    let platform = TestPlatform(world.clone());
    let axes = Method::FullPageWrites.axes().unwrap();
    let mut engine = Paged::create(&platform, &small(), axes).unwrap();
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("value", DataType::Int64),
        Column::new("note", DataType::Varchar { max: 200 }),
    ];
    engine
        .create_table(&TableDef::new(TABLE, "t", columns, vec![0]))
        .unwrap();
    for id in 0..ROWS {
        insert(&mut engine, id).unwrap();
    }
    engine.checkpoint().unwrap();
    engine
}

fn insert(engine: &mut dyn Engine, id: i64) -> Result<()> {
    let mut row = Row::new(Arc::clone(&engine.tables()[0].layout));
    row.set(0, id).unwrap();
    row.set(1, id).unwrap();
    row.set(2, "n".repeat(150).as_str()).unwrap();
    engine.begin()?;
    engine.insert(TABLE, &row)?;
    engine.commit(Durability::Immediate).map(drop)
}

/// How many rows an image has, which are the first ones.
fn recovered(world: &SimulatedWorld) -> i64 {
    let platform = TestPlatform(world.clone());
    let mut engine = open(&platform, Method::FullPageWrites, &small(), &|_| false).unwrap();
    assert_eq!(engine.verify().unwrap().damage, Vec::<String>::new());
    engine.begin().unwrap();
    let mut row = Row::new(Arc::clone(&engine.tables()[0].layout));
    let mut rows = 0;
    while engine
        .get(TABLE, &key_of(&*engine, rows), &mut row)
        .unwrap()
    {
        assert_eq!(number_of(&row), rows);
        rows += 1;
    }
    engine.abort().unwrap();
    rows
}

#[test]
fn a_file_of_pages_takes_the_place_of_log_files_that_are_kept() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let files = SimulatedDirectory::new(&world);
    let mut engine = filled(&world);
    assert!(spares(&files) > 0);
    // Removed files take no space any more.
    files.sync(site!("test.settled")).unwrap();
    files.limit_space(Some(used_bytes(&files)));
    // How many are acknowledged.
    let rows = Arc::new(Mutex::new(ROWS));
    let (acknowledged, images) = (Arc::clone(&rows), Arc::new(Mutex::new(0)));
    let image_count = Arc::clone(&images);
    let (mut points, mut scratch) = (0, None);
    world.observe(move |world, point| {
        if !matches!(point, CrashPoint::Sync(_)) {
            return;
        }
        points += 1;
        let least = *acknowledged.lock().unwrap();
        for choice in ImageChoices::bounded(world, points, 4) {
            let image = world.image_in(&choice, &mut scratch).unwrap();
            // It may have room again, as on a disk that somebody has tidied up.
            SimulatedDirectory::new(image).limit_space(None);
            let found = recovered(image);
            assert!((least..=least + 1).contains(&found), "{found}, {least}");
            *image_count.lock().unwrap() += 1;
        }
    });
    let pool = &engine.shared.pages.pool;
    let pages = pool.file().pages();
    pool.grow(pages + 1).unwrap();
    assert!(pool.file().pages() > pages);
    assert_eq!(spares(&files), 0);
    for id in ROWS..ROWS + 8 {
        insert(&mut engine, id).unwrap();
        *rows.lock().unwrap() += 1;
    }
    world.unobserve();
    assert!(*images.lock().unwrap() > 20);
}

#[test]
fn the_place_of_removed_files_is_free_when_it_is_durable_that_they_are_gone() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let files = SimulatedDirectory::new(&world);
    let engine = filled(&world);
    files.sync(site!("test.settled")).unwrap();
    files.limit_space(Some(used_bytes(&files)));
    world.disable("wal.spares-gone");
    let pool = &engine.shared.pages.pool;
    let pages = pool.file().pages();
    let grown = pool.grow(pages + 1);
    assert!(
        grown.as_ref().is_err_and(StorageError::is_out_of_space),
        "{grown:?}"
    );
}

/// A split that took the very page for its new one waited for itself, for ever: a map said that the
/// page is free, which is damage. Fuzzing of archives found it.
#[test]
fn a_page_that_is_to_be_split_is_not_taken_for_a_free_one() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut engine = filled(&world);
    {
        let pages = &engine.shared.pages;
        let (_, used) = pages.used().unwrap();
        // The newest page, which is the leaf of the last rows.
        let &newest = used.iter().max().unwrap();
        let mut change = Change::new();
        pages.release(&mut change, newest).unwrap();
        let reserve = UndoSpace::Keep(0);
        change
            .finish(&pages.pool, &Head::Change, reserve, &mut Vec::new())
            .unwrap();
    }
    let error = (ROWS..ROWS + 60).find_map(|id| insert(&mut engine, id).err());
    let told = error.unwrap().to_string();
    assert!(told.contains("its map says that it is free"), "{told}");
}
