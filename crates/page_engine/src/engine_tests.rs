//! The purpose of guards of page writes: goal and method.
//!
//! A table is filled and changed while a small pool writes pages back all the time; at every sync
//! the power is cut, and unsynced pages of two sectors may be torn. With a guard every image must
//! open with a content that was acknowledged and pass the deep check. Without one some image must
//! not: if none did, the tests of the guards would show nothing.

use super::super::{create, open};
use super::*;
use disk::simulated::SimulatedDirectory;
use pmem::device::simulated::{
    CrashPoint, ImageChoices, SimulatedSource, SimulatedWorld, WorldOptions,
};
use std::sync::Mutex;
use storage::engine::Method;
use storage::record::{Column, DataType, Value, ValueRef};

const TABLE: TableId = TableId(1);
const ROWS: i64 = 60;
const TRANSACTIONS: i64 = 40;
/// Images at each crash point.
const IMAGES: usize = 60;

pub(super) struct TestPlatform(pub(super) SimulatedWorld);

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

pub(super) fn options() -> EngineOptions {
    EngineOptions {
        page_bytes: 1024,
        page_cells_max: 3,
        buffer_bytes: 0,
        checkpoint_log_bytes: 32 << 10,
        ring_bytes: 0,
        area_bytes: 0,
        rings: 2,
        ..EngineOptions::default()
    }
}

fn table() -> TableDef {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("value", DataType::Int64),
        Column::new("note", DataType::Varchar { max: 200 }),
    ];
    TableDef::new(TABLE, "t", columns, vec![0])
}

pub(super) fn key_of(engine: &dyn Engine, id: i64) -> KeyBuf {
    let mut key = KeyBuf::default();
    let encoded = engine.tables()[0]
        .primary
        .encode_values(&[Value::from(id)], &mut key);
    encoded.unwrap();
    key
}

pub(super) fn number_of(row: &Row) -> i64 {
    match row.get(1) {
        ValueRef::Int64(number) => number,
        other => panic!("{other:?} is no number"),
    }
}

/// Sum of the values of all rows, or the fault of the image.
fn content(world: &SimulatedWorld, method: Method) -> Result<i64, String> {
    let platform = TestPlatform(world.clone());
    let opened = open(&platform, method, &options(), &|_| false);
    let mut engine = opened.map_err(|error| error.to_string())?;
    let report = engine.verify().map_err(|error| error.to_string())?;
    if let Some(damage) = report.damage.first() {
        return Err(damage.clone());
    }
    engine.begin().unwrap();
    let mut sum = 0;
    for id in 0..ROWS {
        let mut row = Row::new(Arc::clone(&engine.tables()[0].layout));
        let key = key_of(&*engine, id);
        match engine.get(TABLE, &key, &mut row) {
            Ok(true) => sum += number_of(&row),
            Ok(false) => return Err(format!("row {id} is gone")),
            Err(error) => return Err(error.to_string()),
        }
    }
    engine.abort().unwrap();
    Ok(sum)
}

/// Faults in the images of a run: at each crash point the sum must be that of the acknowledged
/// transactions, or one more.
fn wrong_images(method: Method) -> Vec<String> {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut engine = create(&TestPlatform(world.clone()), method, &options()).unwrap();
    engine.idle().unwrap().create_table(&table()).unwrap();
    let layout = Arc::clone(&engine.tables()[0].layout);
    engine.begin().unwrap();
    for id in 0..ROWS {
        let mut row = Row::new(Arc::clone(&layout));
        row.set(0, id).unwrap();
        row.set(1, 0_i64).unwrap();
        row.set(2, "n".repeat(150).as_str()).unwrap();
        engine.insert(TABLE, &row).unwrap();
    }
    engine.commit(Durability::Immediate).unwrap();
    engine.idle().unwrap().checkpoint().unwrap();
    let acknowledged = Arc::new(Mutex::new(0_i64));
    let wrong = Arc::new(Mutex::new(Vec::new()));
    let (judge, findings) = (Arc::clone(&acknowledged), Arc::clone(&wrong));
    let mut scratch = None;
    world.observe(move |world, point| {
        // Where pages are on their way; the log's own syncs and fences are others' business.
        let is_of_pages = match point {
            CrashPoint::Sync(site) => !site.name.starts_with("wal"),
            CrashPoint::Fence(site) => site.name.starts_with("nv-slots"),
            _ => false,
        };
        if !is_of_pages {
            return;
        }
        let sum = *judge.lock().unwrap();
        for choice in ImageChoices::bounded(world, sum.unsigned_abs(), IMAGES) {
            let found = content(world.image_in(&choice, &mut scratch).unwrap(), method);
            if !found
                .as_ref()
                .is_ok_and(|found| (sum..=sum + 1).contains(found))
            {
                findings
                    .lock()
                    .unwrap()
                    .push(format!("{found:?} for {sum}"));
            }
        }
    });
    for number in 0..TRANSACTIONS {
        // Rows far apart, so that the pool has to give up pages.
        let id = number * 37 % ROWS;
        let mut changes = Changes::new(Arc::clone(&layout));
        let key = key_of(&*engine, id);
        let mut row = Row::new(Arc::clone(&layout));
        engine.begin().unwrap();
        engine.get(TABLE, &key, &mut row).unwrap();
        changes.set(1, number_of(&row) + 1).unwrap();
        changes.set(2, "m".repeat(150).as_str()).unwrap();
        engine.update(TABLE, &key, &changes).unwrap();
        engine.commit(Durability::Immediate).unwrap();
        *acknowledged.lock().unwrap() += 1;
        if number % 10 == 9 {
            engine.idle().unwrap().checkpoint().unwrap();
        }
    }
    world.unobserve();
    drop(engine);
    Arc::into_inner(wrong).unwrap().into_inner().unwrap()
}

#[test]
fn a_guard_keeps_torn_pages_from_being_a_loss() {
    for method in [
        Method::FullPageWrites,
        Method::Dwb,
        Method::DwbBatched,
        Method::NvLogging,
        Method::DistributedLog,
        Method::NvDiskDecentralized,
        Method::NvmDwb,
        Method::NvmDwbLog,
        Method::NvmDwbLogOpt,
    ] {
        let wrong = wrong_images(method);
        assert!(
            wrong.is_empty(),
            "{method}: {} wrong, first {}",
            wrong.len(),
            wrong[0]
        );
    }
}

#[test]
fn without_a_guard_pages_are_lost() {
    let wrong = wrong_images(Method::DwbOff);
    assert!(!wrong.is_empty(), "no image shows a torn page");
    let torn = wrong.iter().filter(|what| what.contains("torn"));
    assert!(torn.count() > 0, "{}", wrong[0]);
}
