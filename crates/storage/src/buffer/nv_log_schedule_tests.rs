//! Goal: in no order of threads a record of a ring is said to be durable, or behind the horizon, while one in front of it is missing.
//!
//! Method: three threads append to rings of their own and wait, on the real code, over simulated memory. After each wait the test reads what a
//! power cut would leave just then, if it leaves as little as it may. `shuttle` chooses the order.
//!
//! `cargo test -p storage --features schedules --lib schedule_tests`

use super::*;
use disk::simulated::SimulatedDirectory;
use pmem::device::simulated::{ImageChoice, SimulatedSource, SimulatedWorld, WorldOptions};
use shuttle::thread::spawn;
use std::sync::Arc;

/// Schedules of each kind that a test tries.
const SCHEDULES: usize = 1_000;
/// Changes of thread that a schedule of the second kind has beyond those that waiting forces.
const CHANGES: usize = 3;

type Log = NvLog<SimulatedSource, SimulatedDirectory>;

fn options(persist: Persist) -> NvLogOptions {
    NvLogOptions {
        identity: LogIdentity {
            database: 7,
            partition: 1,
        },
        access: Access::Write,
        ring_bytes: RING_BYTES_MIN,
        page_bytes: 0,
        persist,
    }
}

fn open(world: &SimulatedWorld, persist: Persist) -> Log {
    let files = SimulatedDirectory::new(world);
    let opened = NvLog::open(world.source(), files, options(persist), Lsn::FIRST);
    opened.expect("what is durable can be opened")
}

fn append(log: &Log, session: u32) -> Lsn {
    let encode = &mut |_: Lsn, out: &mut Vec<u8>| out.extend_from_slice(&[1; 40]);
    let appended = log.append(Reserve::Keep(session), encode, &mut Vec::new());
    appended.expect("there is room")
}

/// The number behind the last record that a power cut would leave.
fn survivors(world: &SimulatedWorld, persist: Persist) -> Lsn {
    let image = world.image(&ImageChoice { units: Vec::new() });
    let log = open(&image.expect("an image can be made"), persist);
    Lsn(log.next.load(Ordering::SeqCst))
}

fn explore(persist: Persist) {
    let test = move || {
        let world = SimulatedWorld::new(WorldOptions::default());
        Log::create(&world.source(), &options(persist)).expect("there is space");
        let log = Arc::new(open(&world, persist));
        log.add_session(2).expect("there is space");
        let threads: Vec<_> = (0..3)
            .map(|session| {
                let (log, world) = (Arc::clone(&log), world.clone());
                spawn(move || {
                    append(&log, session);
                    let lsn = append(&log, session);
                    log.flush_to(lsn).expect("no fence fails");
                    let horizon = log.horizon();
                    assert!(horizon > lsn);
                    assert!(survivors(&world, persist) >= horizon);
                    if session == 0 {
                        let start = log.begin_checkpoint().expect("no fence fails");
                        assert!(survivors(&world, persist) >= start.redo);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no thread has failed");
        }
    };
    shuttle::check_random(test, SCHEDULES);
    shuttle::check_pct(test, SCHEDULES, CHANGES);
}

#[test]
fn the_horizon_has_no_gap_in_front_if_records_are_durable_at_once() {
    explore(Persist::OnInsert);
}

#[test]
fn the_horizon_has_no_gap_in_front_if_records_wait_for_a_commit() {
    explore(Persist::OnCommit);
}
