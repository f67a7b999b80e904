//! Goal: redo by several threads, page by page, brings back what redo by one thread brings back,
//! which is the acknowledged content.
//!
//! Method: an engine whose pool is much smaller than its data, and that takes no checkpoint,
//! changes more pages than one thread repeats. Images of power cuts are opened by engines with and
//! without threads, one of them after an opening that was cut as well. With an area that pages stay
//! in, a thread also repeats while a session works.

use super::tests::{TestPlatform, key_of, options};
use super::*;
use crate::engine::{create, open};
use pmem::device::simulated::{ImageChoices, SimulatedWorld, WorldOptions};
use std::collections::BTreeSet;
use storage::engine::{AfterCrash, Daemon, Method};
use storage::record::{Column, DataType};

const TABLE: TableId = TableId(1);
const ROWS: i64 = 700;
const IMAGES: usize = 6;

fn without_checkpoints(daemon: Daemon) -> EngineOptions {
    let after_crash = match daemon {
        Daemon::Thread => AfterCrash::InBackground,
        Daemon::BySteps => AfterCrash::AtOpening,
    };
    EngineOptions {
        checkpoint_log_bytes: 64 << 20,
        ring_bytes: 16 << 20,
        daemon,
        undoing: after_crash,
        redoing: after_crash,
        ..options()
    }
}

/// Rows, by their numbers, that an opening finds.
fn found(world: &SimulatedWorld, method: Method, daemon: Daemon) -> BTreeSet<i64> {
    let platform = TestPlatform(world.clone());
    let options = without_checkpoints(daemon);
    let mut engine = open(&platform, method, &options, &|_| false).unwrap();
    assert_eq!(engine.verify().unwrap().damage, Vec::<String>::new());
    engine.begin().unwrap();
    let mut row = Row::new(Arc::clone(&engine.tables()[0].layout));
    let mut is_there = |id: &i64| {
        let key = key_of(&*engine, *id);
        engine.get(TABLE, &key, &mut row).unwrap()
    };
    let found = (0..ROWS).filter(|id| is_there(id)).collect();
    engine.abort().unwrap();
    found
}

#[test]
fn threads_repeat_what_one_repeats() {
    for method in [
        Method::FullPageWrites,
        Method::Dwb,
        Method::NvDiskDecentralized,
        Method::NvLogging,
        Method::NvmDwbLogOpt,
    ] {
        let world = SimulatedWorld::new(WorldOptions::default());
        let platform = TestPlatform(world.clone());
        let options = without_checkpoints(Daemon::BySteps);
        let mut engine = create(&platform, method, &options).unwrap();
        let columns = vec![
            Column::new("id", DataType::Int64),
            Column::new("note", DataType::Varchar { max: 200 }),
        ];
        let table = TableDef::new(TABLE, "t", columns, vec![0]);
        engine.idle().unwrap().create_table(&table).unwrap();
        let mut expected = BTreeSet::new();
        for id in 0..ROWS {
            let mut row = Row::new(Arc::clone(&engine.tables()[0].layout));
            row.set(0, id).unwrap();
            row.set(1, "n".repeat(150).as_str()).unwrap();
            engine.begin().unwrap();
            engine.insert(TABLE, &row).unwrap();
            expected.insert(id);
            if id % 3 == 0 {
                let key = key_of(&*engine, id / 2);
                assert!(engine.delete(TABLE, &key).unwrap());
                expected.remove(&(id / 2));
            }
            engine.commit(Durability::Immediate).unwrap();
        }
        for choice in ImageChoices::bounded(&world, 7, IMAGES) {
            let image = || world.image(&choice).unwrap();
            assert_eq!(found(&image(), method, Daemon::BySteps), expected);
            let again = image();
            assert_eq!(found(&again, method, Daemon::Thread), expected);
            // Without a close: its stores may be lost as well.
            for choice in ImageChoices::bounded(&again, 3, 2) {
                let image = again.image(&choice).unwrap();
                assert_eq!(found(&image, method, Daemon::Thread), expected);
            }
        }
    }
}
