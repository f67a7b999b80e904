//! Body of the schedule tests of every partitioned log: three threads append and wait, on the real
//! code, over a simulated device. After each wait the test reads the state that a power cut would
//! leave just then, if it leaves as little as it may. `shuttle` chooses the order.
//!
//! `cargo test -p page_engine --features schedules --lib schedule_tests`

use super::horizon::{PartitionedLog, StreamSource};
use super::log::append_bytes;
use super::{PageLog, UndoSpace};
use pmem::device::simulated::{ImageChoice, SimulatedWorld, WorldOptions};
use shuttle::thread::spawn;
use std::sync::Arc;
use storage::log::Lsn;
use storage::sync::Ordering;

/// Schedules of each kind that a test tries.
const SCHEDULES: usize = 1_000;
/// Changes of thread that a schedule of the second kind has beyond those that waiting forces.
const CHANGES: usize = 3;

/// A log and how it is made.
pub(super) trait Kind: Copy + Send + Sync + 'static {
    type StreamSource: StreamSource + 'static;

    fn create(self, world: &SimulatedWorld);

    fn open(self, world: &SimulatedWorld) -> PartitionedLog<Self::StreamSource>;
}

fn append<P: StreamSource>(log: &PartitionedLog<P>, session: u32) -> Lsn {
    let appended = append_bytes(log, UndoSpace::Keep(session), &[1; 40]);
    appended.expect("there is room")
}

/// The number after the last record that a power cut would leave.
fn survivors<K: Kind>(world: &SimulatedWorld, kind: K) -> Lsn {
    let image = world.image(&ImageChoice { units: Vec::new() });
    let log = kind.open(&image.expect("an image can be made"));
    Lsn(log.next.load(Ordering::SeqCst))
}

/// Tries many schedules; session `number % sessions` is that of each thread.
pub(super) fn explore<K: Kind>(kind: K, sessions: u32) {
    let test = move || {
        let world = SimulatedWorld::new(WorldOptions::default());
        kind.create(&world);
        let log = Arc::new(kind.open(&world));
        log.settle().expect("the device works");
        log.add_session(sessions - 1).expect("there is space");
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let (log, world) = (Arc::clone(&log), world.clone());
                spawn(move || {
                    append(&log, thread % sessions);
                    let lsn = append(&log, thread % sessions);
                    log.flush_to(lsn).expect("the device works");
                    // Read again, the horizon may be lower: another session's bound is older than
                    // its number.
                    let durable = log.horizon().max(Lsn(lsn.0 + 1));
                    assert!(survivors(&world, kind) >= durable);
                    if thread == 0 {
                        let start = log.begin_checkpoint().expect("the device works");
                        assert!(survivors(&world, kind) >= start.redo);
                    }
                })
            })
            .collect();
        // Where there is a daemon, it looks a few times meanwhile.
        for _ in 0..3 {
            log.persist_ahead().expect("the device works");
            let durable = log.horizon();
            assert!(survivors(&world, kind) >= durable);
        }
        for thread in threads {
            thread.join().expect("no thread has failed");
        }
    };
    shuttle::check_random(test, SCHEDULES);
    shuttle::check_pct(test, SCHEDULES, CHANGES);
}
