//! Checkpoints that a thread writes ahead of the sessions: goal and method.
//!
//! Goal: with the thread no session writes a checkpoint for its log, and none is missing; closing
//! or dropping the engine in the middle of one loses nothing; a device that fails in the thread
//! stops the partition, and the error is told.
//!
//! Method: counters of who has written checkpoints, for each log; a device that stops, or fails, in
//! the sync of a checkpoint, and the images that a power cut leaves of it.

use super::tests::{TestPlatform, key_of, options};
use super::*;
use crate::buffer::test_device::{Call, Device};
use crate::engine::{create, open};
use pmem::device::simulated::{SimulatedSource, SimulatedWorld, WorldOptions};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use storage::engine::{Cleaning, Method};
use storage::record::{Column, DataType};

const TABLE: TableId = TableId(1);

struct OnDevice(SimulatedWorld, Device);

impl Platform for OnDevice {
    type Memories = SimulatedSource;
    type Files = Device;

    fn memories(&self, _partition: u32) -> SimulatedSource {
        self.0.source()
    }

    fn files(&self, _partition: u32) -> Result<Device, disk::DiskError> {
        Ok(self.1.clone())
    }
}

fn in_background() -> EngineOptions {
    EngineOptions {
        cleaning: Cleaning::InBackground,
        ring_bytes: 1 << 20,
        buffer_bytes: 1 << 20,
        page_cells_max: 8,
        ..options()
    }
}

fn create_on(device: &Device) -> Box<dyn Engine> {
    let world = SimulatedWorld::new(WorldOptions::default());
    let platform = OnDevice(world, device.clone());
    let mut engine = create(&platform, Method::FullPageWrites, &in_background()).unwrap();
    engine.idle().unwrap().create_table(&table()).unwrap();
    engine
}

fn table() -> TableDef {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("note", DataType::Varchar { max: 200 }),
    ];
    TableDef::new(TABLE, "t", columns, vec![0])
}

fn insert(engine: &mut dyn Engine, id: i64) -> Result<()> {
    let mut row = Row::new(Arc::clone(&engine.tables()[0].layout));
    row.set(0, id).unwrap();
    row.set(1, "n".repeat(150).as_str()).unwrap();
    engine.begin()?;
    engine.insert(TABLE, &row)?;
    engine.commit(Durability::Immediate).map(|_| ())
}

/// Rows from 0 on that are there without a gap.
fn rows(engine: &mut dyn Engine) -> i64 {
    engine.begin().unwrap();
    let mut row = Row::new(Arc::clone(&engine.tables()[0].layout));
    let mut id = 0;
    while engine.get(TABLE, &key_of(engine, id), &mut row).unwrap() {
        id += 1;
    }
    engine.abort().unwrap();
    id
}

fn rows_after_power_cut(device: &Device) -> i64 {
    let world = SimulatedWorld::new(WorldOptions::default());
    let platform = OnDevice(world, device.after_power_cut());
    let opened = open(&platform, Method::FullPageWrites, &options(), &|_| false);
    let mut engine = opened.unwrap();
    let report = engine.verify().unwrap();
    assert!(report.damage.is_empty(), "{:?}", report.damage);
    rows(&mut *engine)
}

#[test]
fn with_a_thread_sessions_write_no_checkpoints() {
    for method in [
        Method::FullPageWrites,
        Method::Dwb,
        Method::NvLogging,
        Method::DistributedLog,
        Method::NvDiskDecentralized,
        Method::NvmDwbLogOpt,
    ] {
        let world = SimulatedWorld::new(WorldOptions::default());
        let platform = TestPlatform(world.clone());
        let mut first = create(&platform, method, &in_background()).unwrap();
        first.idle().unwrap().create_table(&table()).unwrap();
        let next = AtomicI64::new(0);
        let add = |engine: &mut dyn Engine| {
            insert(engine, next.fetch_add(1, Ordering::SeqCst)).unwrap();
        };
        // Until it is there sessions do without it.
        while first.status().checkpoints.in_background == 0 {
            add(&mut *first);
        }
        let before = first.status().checkpoints;
        std::thread::scope(|threads| {
            for _ in 0..3 {
                let mut engine = first.sessions().unwrap().session().unwrap();
                threads.spawn(move || (0..300).for_each(|_| add(&mut *engine)));
            }
        });
        // Those rows may not have made one urgent.
        while first.status().checkpoints.in_background == before.in_background {
            add(&mut *first);
        }
        let after = first.status().checkpoints;
        assert_eq!(after.by_sessions, before.by_sessions, "{method:?}");
        drop(first);
        let mut engine = open(&platform, method, &options(), &|_| false).unwrap();
        assert_eq!(rows(&mut *engine), next.into_inner(), "{method:?}");
    }
}

/// A device that reports the first sync of pages after it is armed, and waits in it for a word.
struct Stopping {
    device: Device,
    is_armed: Arc<AtomicBool>,
    reached: Receiver<()>,
    go: Sender<()>,
}

impl Stopping {
    fn new() -> Self {
        let (is_armed, (tell, reached), (go, word)) =
            (Arc::new(AtomicBool::new(false)), channel(), channel());
        let (armed, word) = (Arc::clone(&is_armed), Mutex::new(word));
        let device = Device::new(move |call| {
            if call == Call::SyncPages && armed.swap(false, Ordering::SeqCst) {
                tell.send(()).unwrap();
                let word: &Receiver<()> = &word.lock().unwrap_or_else(PoisonError::into_inner);
                word.recv().unwrap();
            }
            true
        });
        Self {
            device,
            is_armed,
            reached,
            go,
        }
    }
}

/// Lets a session go on until a checkpoint of the thread stands still, and calls `end` meanwhile.
fn in_the_middle(end: impl FnOnce(Box<dyn Engine>) + Send) {
    let stopping = Stopping::new();
    let mut first = create_on(&stopping.device);
    let acknowledged = AtomicI64::new(0);
    let add = |engine: &mut dyn Engine| {
        insert(engine, acknowledged.load(Ordering::SeqCst)).unwrap();
        acknowledged.fetch_add(1, Ordering::SeqCst);
    };
    while first.status().checkpoints.in_background == 0 {
        add(&mut *first);
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let mut engine = first.sessions().unwrap().session().unwrap();
        stopping.is_armed.store(true, Ordering::SeqCst);
        // It may have to wait for the thread, which stands still.
        let session = threads.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                add(&mut *engine);
            }
            drop(engine);
        });
        stopping.reached.recv().unwrap();
        is_over.store(true, Ordering::SeqCst);
        let ending = threads.spawn(|| end(first));
        stopping.go.send(()).unwrap();
        session.join().unwrap();
        ending.join().unwrap();
    });
    assert_eq!(
        rows_after_power_cut(&stopping.device),
        acknowledged.into_inner()
    );
}

#[test]
fn an_engine_may_be_closed_in_the_middle_of_a_checkpoint() {
    in_the_middle(|mut engine| engine.idle().unwrap().close().unwrap());
}

#[test]
fn an_engine_may_be_dropped_in_the_middle_of_a_checkpoint() {
    in_the_middle(drop);
}

/// Whether an error has the device's answer: for the session whose own step failed, or as the
/// reason why the partition is stopped.
fn tells_of_the_device(error: &StorageError) -> bool {
    matches!(error, StorageError::Disk(_)) || stopped_by_the_device(error)
}

fn stopped_by_the_device(error: &StorageError) -> bool {
    matches!(error, StorageError::Stopped { cause } if cause.starts_with("use pages"))
}

/// Everything that a session may ask for, until the first error of each.
fn ask_for_everything(engine: &mut dyn Engine) -> [StorageError; 6] {
    let key = key_of(engine, 0);
    [
        insert(engine, i64::MAX).unwrap_err(),
        engine
            .begin()
            .and_then(|()| {
                let mut row = Row::new(Arc::clone(&engine.tables()[0].layout));
                engine.get(TABLE, &key, &mut row)
            })
            .unwrap_err(),
        engine.idle().and_then(Idle::checkpoint).unwrap_err(),
        engine.force().unwrap_err(),
        engine.verify().unwrap_err(),
        engine
            .idle()
            .and_then(|idle| idle.drop_table(TABLE))
            .unwrap_err(),
    ]
}

#[test]
fn a_device_that_fails_in_the_thread_stops_the_partition() {
    for failing in [Call::SyncPages, Call::WritePages] {
        let fails = Arc::new(AtomicBool::new(false));
        let is_failing = Arc::clone(&fails);
        let device = Device::new(move |call| call != failing || !is_failing.load(Ordering::SeqCst));
        let mut engine = create_on(&device);
        let mut other = engine.sessions().unwrap().session().unwrap();
        let mut acknowledged = 0;
        let mut add = |engine: &mut dyn Engine| {
            let added = insert(engine, acknowledged);
            acknowledged += i64::from(added.is_ok());
            added
        };
        while engine.status().checkpoints.in_background == 0 {
            add(&mut *engine).unwrap();
        }
        let before = engine.status().checkpoints;
        fails.store(true, Ordering::SeqCst);
        let first = (0..100_000).find_map(|_| add(&mut *engine).err()).unwrap();
        assert!(tells_of_the_device(&first), "{first:?}");
        // A device that works again is of no use: it is unknown which pages are durable.
        fails.store(false, Ordering::SeqCst);
        for session in [&mut other, &mut engine] {
            for error in ask_for_everything(&mut **session) {
                assert!(stopped_by_the_device(&error), "{failing:?}: {error:?}");
            }
        }
        assert_eq!(engine.status().checkpoints.by_sessions, before.by_sessions);
        drop((engine, other));
        // The row whose insertion failed may be there.
        let found = rows_after_power_cut(&device);
        assert!(
            (acknowledged..=acknowledged + 1).contains(&found),
            "{found}"
        );
    }
}

/// The cleaner waits in a sync of pages when a session's checkpoint fails, and its sync fails
/// later. The next session used to get the second failure as if its own step had failed. Now all
/// sessions get the first one.
#[test]
fn a_thread_that_fails_later_changes_nothing() {
    let (reached, go) = (Arc::new(AtomicBool::new(false)), channel());
    let (fails, was_reached) = (Arc::new(AtomicBool::new(false)), Arc::clone(&reached));
    let (is_failing, word) = (Arc::clone(&fails), Mutex::new(go.1));
    let device = Device::new(move |call| {
        if call != Call::SyncPages {
            return true;
        }
        if std::thread::current().name() == Some("cleaner-0") {
            was_reached.store(true, Ordering::SeqCst);
            let word = word.lock().unwrap_or_else(PoisonError::into_inner);
            // Let go, or at the end of the test.
            let _ = word.recv();
            return false;
        }
        !is_failing.load(Ordering::SeqCst)
    });
    let platform = OnDevice(SimulatedWorld::new(WorldOptions::default()), device.clone());
    let options = EngineOptions {
        checkpoint_log_bytes: 1 << 30,
        ..in_background()
    };
    let mut engine = create(&platform, Method::FullPageWrites, &options).unwrap();
    engine.idle().unwrap().create_table(&table()).unwrap();
    let mut other = engine.sessions().unwrap().session().unwrap();
    let mut ids = 0..;
    while !reached.load(Ordering::SeqCst) {
        insert(&mut *engine, ids.next().unwrap()).unwrap();
    }
    fails.store(true, Ordering::SeqCst);
    let own = engine.idle().and_then(Idle::checkpoint).unwrap_err();
    assert!(matches!(own, StorageError::Disk(_)), "{own:?}");
    let is_told = |session: &mut dyn Engine| {
        let error = session.begin().unwrap_err();
        assert!(stopped_by_the_device(&error), "{error:?}");
    };
    is_told(&mut *other);
    go.0.send(()).unwrap();
    for _ in 0..1000 {
        std::thread::yield_now();
        is_told(&mut *other);
        is_told(&mut *engine);
    }
}

/// A session waits for a lock of a transaction that can neither commit nor abort any more, because
/// the partition is stopped.
#[test]
fn a_wait_for_a_stopped_transaction_does_not_end_in_advice_to_try_again() {
    let platform = TestPlatform(SimulatedWorld::new(WorldOptions::default()));
    let axes = Method::FullPageWrites.axes().unwrap();
    let paged = Paged::create(&platform, &options(), axes).unwrap();
    let waited = || StorageError::LockTimeout {
        what: "a key".into(),
        waited_ms: 1,
    };
    let reported = paged.shared.reported(waited());
    assert!(matches!(reported, StorageError::LockTimeout { .. }));
    let device = StorageError::Unsupported("use pages".to_owned());
    paged.shared.stop(&device);
    for vague in [
        waited(),
        StorageError::Deadlock { waited_ms: 1 },
        StorageError::Poisoned,
    ] {
        assert!(stopped_by_the_device(&paged.shared.reported(vague)));
    }
}

#[test]
fn images_count_little_towards_the_next_checkpoint() {
    const LOG_BYTES: u64 = 64 << 10;
    let options = EngineOptions {
        checkpoint_log_bytes: LOG_BYTES,
        page_cells_max: 8,
        ..options()
    };
    let platform = TestPlatform(SimulatedWorld::new(WorldOptions::default()));
    let mut engine = create(&platform, Method::FullPageWrites, &options).unwrap();
    engine.idle().unwrap().create_table(&table()).unwrap();
    let ids = 0..800;
    for id in ids.clone() {
        insert(&mut *engine, id).unwrap();
    }
    engine.idle().unwrap().checkpoint().unwrap();
    let before = engine.status().checkpoints.by_sessions;
    let mut changes = Changes::new(Arc::clone(&engine.tables()[0].layout));
    let mut change_a_row_of_each_page = |note: &str| {
        changes.set(1, note.repeat(100).as_str()).unwrap();
        for id in ids.clone().step_by(8) {
            let key = key_of(&*engine, id);
            engine.begin().unwrap();
            engine.update(TABLE, &key, &changes).unwrap();
            engine.commit(Durability::Immediate).unwrap();
        }
        (
            engine.status().checkpoints.by_sessions,
            engine.footprint().unwrap().log,
        )
    };
    let (written, log_bytes) = change_a_row_of_each_page("a");
    assert_eq!(written, before, "{log_bytes}");
    assert!(log_bytes > 2 * LOG_BYTES, "{log_bytes}");
    // Without images as many bytes are too many.
    let mut rounds = 0;
    while change_a_row_of_each_page("b").0 == before {
        rounds += 1;
        assert!(rounds < 10);
    }
}
