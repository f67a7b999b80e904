//! Goal: in no order of threads a record of a ring is said to be durable, or behind the horizon, while one in front of it is missing.
//!
//! Method: three threads append to rings of their own, or to two that they share, and wait, on the real code, over simulated memory. After each wait the test reads what a
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

type Kind = (Rings, Persist);
type Log = NvLog<SimulatedSource, SimulatedDirectory>;

fn options((rings, persist): Kind) -> NvLogOptions {
    NvLogOptions {
        identity: LogIdentity {
            database: 7,
            partition: 1,
        },
        access: Access::Write,
        rings,
        ring_bytes: RING_BYTES_MIN,
        page_bytes: 0,
        persist,
        content: Content::Redo,
    }
}

fn open(world: &SimulatedWorld, kind: Kind) -> Log {
    let files = SimulatedDirectory::new(world);
    let opened = NvLog::open(world.source(), files, options(kind), Lsn::FIRST);
    opened.expect("what is durable can be opened")
}

fn append(log: &Log, session: u32) -> Lsn {
    let encode = &mut |_: Lsn, out: &mut Vec<u8>| out.extend_from_slice(&[1; 40]);
    let appended = log.append(Reserve::Keep(session), encode, &mut Vec::new());
    appended.expect("there is room")
}

/// The number behind the last record that a power cut would leave.
fn survivors(world: &SimulatedWorld, kind: Kind) -> Lsn {
    let image = world.image(&ImageChoice { units: Vec::new() });
    let log = open(&image.expect("an image can be made"), kind);
    Lsn(log.next.load(Ordering::SeqCst))
}

fn explore(kind: Kind) {
    let test = move || {
        let world = SimulatedWorld::new(WorldOptions::default());
        Log::create(&world.source(), &options(kind)).expect("there is space");
        let log = Arc::new(open(&world, kind));
        log.add_session(2).expect("there is space");
        let threads: Vec<_> = (0..3)
            .map(|session| {
                let (log, world) = (Arc::clone(&log), world.clone());
                spawn(move || {
                    append(&log, session);
                    let lsn = append(&log, session);
                    log.flush_to(lsn).expect("no fence fails");
                    // Looked at again, the horizon may lie further in front: another session's bound is older than its number.
                    let durable = log.horizon().max(Lsn(lsn.0 + 1));
                    assert!(survivors(&world, kind) >= durable);
                    if session == 0 {
                        let start = log.begin_checkpoint().expect("no fence fails");
                        assert!(survivors(&world, kind) >= start.redo);
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
    explore((Rings::PerSession, Persist::OnInsert));
}

#[test]
fn the_horizon_has_no_gap_in_front_if_records_wait_for_a_commit() {
    explore((Rings::PerSession, Persist::OnCommit));
}

#[test]
fn the_horizon_has_no_gap_in_front_if_sessions_share_rings() {
    explore((Rings::Shared(2), Persist::OnCommit));
}
