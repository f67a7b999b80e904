//! Scans name their leaves before they read them: goal and method.
//!
//! Goal: a scan of a table that is larger than the pool has told the device of nearly every leaf
//! before it reads it, and a read of one row has told it nothing.
//!
//! Method: a device that notes, in order, which places of the file of pages are named and which are
//! read.

use super::tests::{key_of, options};
use super::*;
use crate::buffer::test_device::{Device, Touch};
use crate::engine::create;
use pmem::device::simulated::{SimulatedSource, SimulatedWorld, WorldOptions};
use std::collections::BTreeSet;
use storage::engine::{Direction, Method};
use storage::record::{Column, DataType};

const TABLE: TableId = TableId(1);
/// Cells of a page; so there are several times as many leaves as the pool has frames.
const CELLS: usize = 8;
const ROWS: i64 = 2000;

struct Noted(SimulatedWorld, Device);

impl Platform for Noted {
    type Memories = SimulatedSource;
    type Files = Device;

    fn memories(&self, _partition: u32) -> SimulatedSource {
        self.0.source()
    }

    fn files(&self, _partition: u32) -> Result<Device, disk::DiskError> {
        Ok(self.1.clone())
    }
}

fn whole_table(engine: &dyn Engine, direction: Direction) -> ScanRange {
    let words = engine.tables()[0].primary.shape().words;
    ScanRange {
        table: TABLE,
        index: None,
        low: KeyBuf::from_words(&vec![0; words]),
        high: KeyBuf::from_words(&vec![u64::MAX; words]),
        direction,
    }
}

#[test]
fn a_scan_names_leaves_before_it_reads_them_and_a_lookup_does_not() {
    let device = Device::new(|_| true);
    let world = SimulatedWorld::new(WorldOptions::default());
    let platform = Noted(world, device.clone());
    let options = EngineOptions {
        page_cells_max: CELLS,
        ..options()
    };
    let mut engine = create(&platform, Method::FullPageWrites, &options).unwrap();
    let columns = vec![Column::new("id", DataType::Int64)];
    let table = TableDef::new(TABLE, "t", columns, vec![0]);
    engine.idle().unwrap().create_table(&table).unwrap();
    engine.begin().unwrap();
    for id in 0..ROWS {
        let mut row = Row::new(Arc::clone(&engine.tables()[0].layout));
        row.set(0, id).unwrap();
        engine.insert(TABLE, &row).unwrap();
    }
    engine.commit(Durability::Immediate).unwrap();
    engine.begin().unwrap();
    for direction in [Direction::Forward, Direction::Backward] {
        device.take_touches();
        let range = whole_table(&*engine, direction);
        let mut rows = 0;
        engine
            .scan(&range, &mut |_| {
                rows += 1;
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(rows, ROWS);
        let (mut named, mut read, mut ahead) = (BTreeSet::new(), 0, 0);
        for touch in device.take_touches() {
            match touch {
                Touch::Named(place) => {
                    named.insert(place);
                }
                Touch::Read(place) => {
                    read += 1;
                    ahead += u32::from(named.contains(&place));
                }
            }
        }
        assert!(read > 100, "{read} pages read");
        // Parents are read unnamed, and so is the first leaf of most of them.
        assert!(2 * ahead > read, "{ahead} of {read} pages were named");
    }
    device.take_touches();
    for id in (0..ROWS).step_by(50) {
        let key = key_of(&*engine, id);
        let mut row = Row::new(Arc::clone(&engine.tables()[0].layout));
        assert!(engine.get(TABLE, &key, &mut row).unwrap());
    }
    let touches = device.take_touches();
    assert!(touches.iter().any(|touch| matches!(touch, Touch::Read(_))));
    assert!(!touches.iter().any(|touch| matches!(touch, Touch::Named(_))));
    engine.abort().unwrap();
}
