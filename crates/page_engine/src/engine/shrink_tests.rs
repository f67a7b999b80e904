//! Goal: shrinking gives back all space that no page needs, keeps every row, and leaves a good
//! partition wherever a power cut hits it.
//!
//! Method: a small engine whose trees, long values and a late index lie all over the file, most
//! rows of which are deleted. Every sync while it shrinks is a crash point; each image is opened,
//! verified, compared, and shrunk itself.

use super::tests::options;
use super::*;
use crate::engine::{create, open};
use disk::simulated::SimulatedDirectory;
use disk::{DiskError, File as _};
use pmem::device::simulated::{
    CrashPoint, ImageChoices, SimulatedSource, SimulatedWorld, WorldOptions,
};
use std::collections::BTreeMap;
use std::sync::Mutex;
use storage::engine::Method;
use storage::record::{Column, DataType, ValueRef};

const TABLE: TableId = TableId(1);
const METHODS: [Method; 5] = [
    Method::FullPageWrites,
    Method::Dwb,
    Method::NvDiskDecentralized,
    Method::NvLogging,
    Method::NvmDwbLogOpt,
];

struct Small(SimulatedWorld);

impl Platform for Small {
    type Memories = SimulatedSource;
    type Files = SimulatedDirectory;

    fn memories(&self, _partition: u32) -> SimulatedSource {
        self.0.source()
    }

    fn files(&self, _partition: u32) -> Result<SimulatedDirectory, DiskError> {
        Ok(SimulatedDirectory::new(&self.0))
    }
}

fn file_bytes(world: &SimulatedWorld) -> u64 {
    let file = disk::Directory::open(&SimulatedDirectory::new(world), "p0.pages");
    file.unwrap().bytes().unwrap()
}

/// Some notes are longer than a page.
fn note(id: i64) -> String {
    let length = if id % 4 == 0 { 2500 } else { 120 };
    format!("{id:x}")
        .repeat(length)
        .chars()
        .take(length)
        .collect()
}

fn shrink(engine: &mut dyn Engine) -> Shrunk {
    let file = engine.idle().unwrap().page_file();
    file.unwrap().shrink().unwrap()
}

fn insert(engine: &mut dyn Engine, id: i64) {
    let mut row = Row::new(Arc::clone(&engine.tables()[0].layout));
    row.set(0, id).unwrap();
    row.set(1, id % 7).unwrap();
    row.set(2, note(id).as_str()).unwrap();
    engine.begin().unwrap();
    engine.insert(TABLE, &row).unwrap();
    engine.commit(Durability::Immediate).unwrap();
}

fn delete(engine: &mut dyn Engine, id: i64) {
    let key = super::tests::key_of(engine, id);
    engine.begin().unwrap();
    assert!(engine.delete(TABLE, &key).unwrap());
    engine.commit(Durability::Immediate).unwrap();
}

/// The rows that are there.
fn content(engine: &mut dyn Engine) -> BTreeMap<i64, String> {
    let mut found = BTreeMap::new();
    engine.begin().unwrap();
    for id in 0..100 {
        let key = super::tests::key_of(engine, id);
        let mut row = Row::new(Arc::clone(&engine.tables()[0].layout));
        if engine.get(TABLE, &key, &mut row).unwrap() {
            let ValueRef::Text(text) = row.get(2) else {
                panic!("the note of {id} is gone");
            };
            found.insert(id, text.to_owned());
        }
    }
    engine.abort().unwrap();
    found
}

fn expected(ids: impl Iterator<Item = i64>) -> BTreeMap<i64, String> {
    ids.map(|id| (id, note(id))).collect()
}

fn sound(engine: &mut dyn Engine) {
    assert_eq!(engine.verify().unwrap().damage, Vec::<String>::new());
}

/// A partition in which every fifth row is left of sixty; its index comes when the file is long.
fn sparse(world: &SimulatedWorld, method: Method) -> Box<dyn Engine> {
    let mut engine = create(&Small(world.clone()), method, &options()).unwrap();
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("kind", DataType::Int64),
        Column::new("note", DataType::Varchar { max: 4000 }),
    ];
    let table = TableDef::new(TABLE, "t", columns, vec![0]);
    engine.idle().unwrap().create_table(&table).unwrap();
    for id in 0..60 {
        insert(&mut *engine, id);
    }
    let index = IndexDef {
        id: IndexId(1),
        name: "by_kind".to_owned(),
        columns: vec![1],
        unique: false,
    };
    engine.idle().unwrap().create_index(TABLE, &index).unwrap();
    for id in (0..60).filter(|id| id % 5 != 0) {
        delete(&mut *engine, id);
    }
    engine
}

#[test]
fn everything_free_is_given_back_and_the_file_grows_again() {
    for method in METHODS {
        let world = SimulatedWorld::new(WorldOptions::default());
        let mut engine = sparse(&world, method);
        let kept = || expected((0..60).step_by(5));
        let shrunk = shrink(&mut *engine);
        assert_eq!(shrunk.after_bytes, file_bytes(&world));
        assert!(
            shrunk.after_bytes * 2 < shrunk.before_bytes,
            "{method}: {shrunk:?}"
        );
        sound(&mut *engine);
        assert_eq!(content(&mut *engine), kept());
        let again = shrink(&mut *engine);
        assert_eq!(again.before_bytes, again.after_bytes, "{method}");
        engine.idle().unwrap().close().unwrap();
        drop(engine);
        let mut engine = open(&Small(world.clone()), method, &options(), &|_| false).unwrap();
        sound(&mut *engine);
        assert_eq!(content(&mut *engine), kept());
        for id in 60..100 {
            insert(&mut *engine, id);
        }
        assert!(file_bytes(&world) > shrunk.after_bytes);
        let all = expected((0..60).step_by(5).chain(60..100));
        assert_eq!(content(&mut *engine), all);
        sound(&mut *engine);
    }
}

/// Shrinks while each sync is a crash point, if some sites make nothing durable; says how many
/// images there were.
fn explore_without(sites: &[&str], method: Method) -> u64 {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut engine = sparse(&world, method);
    for site in sites {
        world.disable(site);
    }
    let images = Arc::new(Mutex::new(0));
    let count = Arc::clone(&images);
    let mut points = 0;
    world.observe(move |world, point| {
        points += 1;
        if !matches!(point, CrashPoint::Sync(_)) {
            return;
        }
        for choice in ImageChoices::bounded(world, points, 6) {
            let image = world.image(&choice).unwrap();
            let opened = open(&Small(image.clone()), method, &options(), &|_| false);
            let mut engine = opened.unwrap();
            sound(&mut *engine);
            assert_eq!(content(&mut *engine), expected((0..60).step_by(5)));
            let shrunk = shrink(&mut *engine);
            assert!(shrunk.after_bytes < 100 << 10, "{shrunk:?}");
            sound(&mut *engine);
            assert_eq!(content(&mut *engine), expected((0..60).step_by(5)));
            *count.lock().unwrap() += 1;
        }
    });
    shrink(&mut *engine);
    engine.idle().unwrap().checkpoint().unwrap();
    world.unobserve();
    *images.lock().unwrap()
}

#[test]
fn a_power_cut_at_any_step_leaves_a_good_partition() {
    for method in METHODS {
        let images = explore_without(&[], method);
        assert!(images > 20, "{method}: {images} images");
    }
}

#[test]
fn the_master_records_are_durable_before_the_file_is_cut() {
    for site in ["page-file.master", "page-file.checkpoint"] {
        let explored = std::panic::catch_unwind(|| explore_without(&[site], Method::DwbBatched));
        assert!(explored.is_err(), "{site} is not needed");
    }
}

#[test]
fn maps_behind_the_last_page_are_given_back_too() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let options = EngineOptions {
        page_bytes: 512,
        page_cells_max: usize::MAX,
        checkpoint_log_bytes: 4 << 20,
        ..options()
    };
    let method = Method::DwbOff;
    let mut engine = create(&Small(world.clone()), method, &options).unwrap();
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("kind", DataType::Int64),
        Column::new("note", DataType::Varchar { max: 4000 }),
    ];
    engine
        .idle()
        .unwrap()
        .create_table(&TableDef::new(TABLE, "t", columns, vec![0]))
        .unwrap();
    // A map covers 3840 pages.
    for id in 0..800 {
        insert(&mut *engine, id * 4);
    }
    assert!(file_bytes(&world) > 4000 * 512);
    for id in (0..800).filter(|id| id % 40 != 0) {
        delete(&mut *engine, id * 4);
    }
    let shrunk = shrink(&mut *engine);
    assert!(shrunk.after_bytes < 200 * 512, "{shrunk:?}");
    sound(&mut *engine);
    for id in 800..1600 {
        insert(&mut *engine, id * 4);
    }
    sound(&mut *engine);
    drop(engine);
    sound(&mut *open(&Small(world), method, &options, &|_| false).unwrap());
}

#[test]
fn pages_in_durable_memory_give_no_space_back() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut engine = create(&Small(world), Method::InPlace, &options()).unwrap();
    assert!(engine.idle().unwrap().page_file().is_none());
}
