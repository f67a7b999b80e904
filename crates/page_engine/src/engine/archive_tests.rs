//! Goal: of a log with an archive no record is ever lost: whatever a power cut leaves, the archive
//! has the first records of the log without a gap and none twice, up to where the log itself goes
//! on; and an archive that takes nothing makes the log wait and say so.
//!
//! Method: a small engine on the simulated device with an archive on a disk of its own; every sync
//! is a crash point, each image is opened, checked, goes on, and is checked again.

use super::tests::options;
use super::*;
use crate::engine::{create, open};
use disk::DiskError;
use disk::simulated::SimulatedDirectory;
use pmem::device::simulated::{
    CrashPoint, ImageChoices, SimulatedSource, SimulatedWorld, WorldOptions,
};
use std::sync::Mutex;
use storage::engine::Method;
use storage::log::Lsn;
use storage::record::{Column, DataType, Value};

const TABLE: TableId = TableId(1);
/// One for each kind of log.
const METHODS: [Method; 4] = [
    Method::Dwb,
    Method::NvDiskDecentralized,
    Method::NvLogging,
    Method::DistributedLog,
];

pub(super) struct Archived(pub(super) SimulatedWorld);

impl Platform for Archived {
    type Memories = SimulatedSource;
    type Files = SimulatedDirectory;

    fn memories(&self, _partition: u32) -> SimulatedSource {
        self.0.source()
    }

    fn files(&self, _partition: u32) -> Result<SimulatedDirectory, DiskError> {
        Ok(SimulatedDirectory::new(&self.0))
    }

    fn archive_files(&self, _partition: u32) -> Result<Option<SimulatedDirectory>, DiskError> {
        Ok(Some(archive(&self.0)))
    }
}

pub(super) fn archive(world: &SimulatedWorld) -> SimulatedDirectory {
    SimulatedDirectory::named(world, "archive")
}

pub(super) fn new_engine(world: &SimulatedWorld, method: Method) -> Box<dyn Engine> {
    new_engine_with(world, method, &options())
}

pub(super) fn new_engine_with(
    world: &SimulatedWorld,
    method: Method,
    options: &EngineOptions,
) -> Box<dyn Engine> {
    let mut engine = create(&Archived(world.clone()), method, options).unwrap();
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("note", DataType::Varchar { max: 200 }),
    ];
    let table = TableDef::new(TABLE, "t", columns, vec![0]);
    engine.idle().unwrap().create_table(&table).unwrap();
    engine
}

pub(super) fn reopen(world: &SimulatedWorld, method: Method) -> Result<Box<dyn Engine>> {
    open(&Archived(world.clone()), method, &options(), &|_| false)
}

/// Inserts a row, or deletes it.
pub(super) fn change(engine: &mut dyn Engine, id: i64) -> Result<()> {
    let mut row = Row::new(Arc::clone(&engine.tables()[0].layout));
    row.set(0, id)?;
    row.set(1, "n".repeat(150).as_str())?;
    let mut key = KeyBuf::default();
    engine.tables()[0]
        .primary
        .encode_values(&[Value::from(id)], &mut key)?;
    engine.begin()?;
    let changed = match engine.delete(TABLE, &key) {
        Ok(true) => Ok(()),
        Ok(false) => engine.insert(TABLE, &row),
        Err(error) => Err(error),
    };
    match changed {
        Ok(()) => engine.commit(Durability::Immediate).map(|_| ()),
        Err(error) => {
            engine.abort()?;
            Err(error)
        }
    }
}

/// Number of records in the archive, which is sound and has no gap.
fn sound(engine: &mut dyn Engine) -> u64 {
    let report = engine.verify().unwrap();
    assert_eq!(report.damage, Vec::<String>::new());
    let found = engine.archive().unwrap().unwrap();
    assert!(found.gaps.is_empty(), "{found:?}");
    let Some((first, end)) = found.range else {
        return 0;
    };
    assert_eq!(first, Lsn::FIRST);
    // Numbers may be nobody's, and positions count bytes.
    assert!(found.records <= end.0 - first.0, "{found:?}");
    found.records
}

#[test]
fn cold_records_are_in_the_archive_from_the_first_on() {
    for method in METHODS {
        let world = SimulatedWorld::new(WorldOptions::default());
        let mut engine = new_engine(&world, method);
        for round in 0..4 {
            for id in 0..10 {
                change(&mut *engine, id).unwrap();
            }
            engine.idle().unwrap().checkpoint().unwrap();
            let before = sound(&mut *engine);
            engine.sessions().unwrap().assist().unwrap();
            assert!(sound(&mut *engine) > before, "{method}, round {round}");
        }
        engine.idle().unwrap().close().unwrap();
        let before = sound(&mut *engine);
        drop(engine);
        // An opening finds where it goes on.
        let mut engine = reopen(&world, method).unwrap();
        change(&mut *engine, 3).unwrap();
        engine.idle().unwrap().close().unwrap();
        assert!(sound(&mut *engine) > before);
    }
}

/// Works with checkpoints, and opens the images of a power cut at each sync, if some sites make
/// nothing durable; returns the number of images.
fn explore_without(sites: &[&str], method: Method) -> u64 {
    let world = SimulatedWorld::new(WorldOptions::default());
    for site in sites {
        world.disable(site);
    }
    let mut engine = new_engine(&world, method);
    let images = Arc::new(Mutex::new(0));
    let count = Arc::clone(&images);
    let mut points = 0;
    world.observe(move |world, point| {
        points += 1;
        let is_near = match point {
            CrashPoint::Sync(_) => true,
            CrashPoint::Fence(site) => {
                ["nv-ring.started", "nv-ring.archived-fence"].contains(&site.name)
            }
            _ => false,
        };
        if !is_near {
            return;
        }
        for choice in ImageChoices::bounded(world, points, 8) {
            let image = world.image(&choice).unwrap();
            let mut engine = reopen(&image, method).unwrap();
            let before = sound(&mut *engine);
            for id in 0..3 {
                change(&mut *engine, id).unwrap();
            }
            engine.idle().unwrap().close().unwrap();
            assert!(sound(&mut *engine) > before);
            *count.lock().unwrap() += 1;
        }
        // After a process death, an opening may rely only on content that a power cut leaves.
        let next = world.death().unwrap();
        drop(reopen(&next, method).unwrap());
        for choice in ImageChoices::bounded(&next, points, 4) {
            let image = next.image(&choice).unwrap();
            sound(&mut *reopen(&image, method).unwrap());
        }
    });
    for round in 0..3 {
        for id in 0..6 {
            change(&mut *engine, id + round).unwrap();
            if id == 2 {
                // Some time after the checkpoint of the round before.
                engine.sessions().unwrap().assist().unwrap();
            }
        }
        engine.idle().unwrap().checkpoint().unwrap();
    }
    // After a checkpoint that no record follows.
    engine.sessions().unwrap().assist().unwrap();
    world.unobserve();
    *images.lock().unwrap()
}

#[test]
fn a_power_cut_loses_no_record_and_archives_none_twice() {
    for method in METHODS {
        let images = explore_without(&[], method);
        assert!(images > 60, "{method}: {images} images");
    }
}

#[test]
fn every_sync_of_the_archive_is_needed() {
    for method in METHODS {
        for site in ["archive.file", "archive.publish"] {
            let explored = std::panic::catch_unwind(|| explore_without(&[site], method));
            assert!(explored.is_err(), "{method} does not need {site}");
        }
    }
    let found = || explore_without(&["archive.found"], Method::NvLogging);
    assert!(std::panic::catch_unwind(found).is_err());
}

#[test]
fn a_full_archive_makes_the_log_wait_and_say_so() {
    for method in METHODS {
        let world = SimulatedWorld::new(WorldOptions::default());
        let mut engine = new_engine(&world, method);
        change(&mut *engine, 0).unwrap();
        archive(&world).limit_space(Some(512));
        // Rings have their own limit.
        SimulatedDirectory::new(&world).limit_space(Some(4 << 20));
        let mut changes = 0_i64;
        let error = loop {
            match change(&mut *engine, changes % 40) {
                Ok(()) => changes += 1,
                Err(error) => break error,
            }
        };
        assert!(error.is_statement_error(), "{error}");
        assert!(error.to_string().contains("archive"), "{error}");
        assert!(changes > 100, "{changes} changes had room");
        // It is the same after an opening, if there is room for one, and nothing was lost.
        drop(engine);
        match reopen(&world, method) {
            Ok(mut engine) => assert_eq!(sound(&mut *engine), 0),
            Err(error) => assert!(error.to_string().contains("archive"), "{error}"),
        }
        SimulatedDirectory::new(&world).limit_space(None);
        let mut engine = reopen(&world, method).unwrap();
        assert_eq!(sound(&mut *engine), 0);
        archive(&world).limit_space(None);
        for _ in 0..300 {
            change(&mut *engine, changes % 40).unwrap();
            changes += 1;
        }
        engine.idle().unwrap().close().unwrap();
        assert!(sound(&mut *engine) > 600);
    }
}

#[test]
fn files_that_are_gone_are_missed() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut engine = new_engine(&world, Method::NvLogging);
    change(&mut *engine, 0).unwrap();
    engine.idle().unwrap().close().unwrap();
    assert!(sound(&mut *engine) > 0);
    drop(engine);
    disk::Directory::remove(&archive(&world), "p0.archive.000001").unwrap();
    let mut engine = reopen(&world, Method::NvLogging).unwrap();
    let report = engine.verify().unwrap();
    let told = report.damage.join(", ");
    assert!(told.contains("moved to the archive"), "{told}");
}
