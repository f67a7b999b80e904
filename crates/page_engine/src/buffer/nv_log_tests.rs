//! Goal: whatever a power cut leaves of the rings, an opening finds the first records of the log
//! without a gap, unchanged, and all that were said to be durable; and it goes on from there,
//! however often.
//!
//! Method: that of `horizon_explore`, over rings so small that they go around many times.

use super::*;
use crate::buffer::horizon_explore::{
    Kind, Known, Random, SESSIONS, explore, explore_without, go_on,
};
use crate::buffer::log::append_bytes;
use crate::buffer::{PageLog, UndoSpace};
use disk::simulated::SimulatedDirectory;
use pmem::device::simulated::{ImageChoice, SimulatedSource, SimulatedWorld, WorldOptions};
use storage::log::LogStart;

/// A ring a session, and fewer than sessions.
const KINDS: [RingKind; 3] = [
    RingKind(Rings::PerSession, Persist::OnInsert),
    RingKind(Rings::PerSession, Persist::OnCommit),
    RingKind(Rings::Shared(2), Persist::OnCommit),
];

type Log = NvLog<SimulatedSource, SimulatedDirectory>;

#[derive(Clone, Copy)]
struct RingKind(Rings, Persist);

impl Kind for RingKind {
    type StreamSource = RingStreams<SimulatedSource, SimulatedDirectory>;
    const CHECKPOINT_EVERY: u64 = 0;

    fn create(self, world: &SimulatedWorld) {
        Log::create(&world.source(), &options(self)).unwrap();
    }

    fn open(self, world: &SimulatedWorld, start: Lsn) -> Result<Log> {
        open(world, self, start)
    }
}

fn options(RingKind(rings, persist): RingKind) -> NvLogOptions {
    NvLogOptions {
        identity: LogIdentity {
            database: 7,
            partition: 1,
        },
        access: Access::Write,
        rings,
        // Two pieces.
        ring_bytes: 40 << 10,
        page_bytes: 0,
        persist,
        content: Content::Redo,
        order: CommitOrder::Whole,
    }
}

fn open(world: &SimulatedWorld, kind: RingKind, start: Lsn) -> Result<Log> {
    let files = SimulatedDirectory::new(world);
    NvLog::open_rings(world.source(), files, options(kind), start, None)
}

#[test]
fn an_opening_finds_the_first_records_without_a_gap() {
    for (seed, kind) in (1..).zip(KINDS) {
        let images = explore(kind, seed);
        assert!(images > 300, "{images} images");
    }
}

/// Fences that order what one thread does are left out: a later one of the same thread does their
/// work, so it takes two threads to need them.
#[test]
fn every_write_back_is_needed() {
    for site in [
        "nv-ring.object",
        "nv-ring.entry",
        "nv-ring.persist",
        "nv-ring.life",
        "nv-ring.count",
        "nv-ring.ahead",
        "nv-ring.persist-ahead",
    ] {
        let is_noticed = KINDS
            .into_iter()
            .any(|kind| std::panic::catch_unwind(|| explore_without(&[site], kind, 1)).is_err());
        assert!(is_noticed, "no image shows that {site} is missing");
    }
}

/// The end of a log that has lived three times; the second life has cut off a record of the first.
fn end_after_three_lives(disabled: &[&str]) -> Result<Lsn> {
    let least = ImageChoice { units: Vec::new() };
    let mut world = SimulatedWorld::new(WorldOptions::default());
    Log::create(&world.source(), &options(KINDS[1]))?;
    let log = open(&world, KINDS[1], Lsn::FIRST)?;
    log.add_session(1)?;
    let append = |log: &Log, session| append_bytes(log, UndoSpace::Keep(session), &[1; 40]);
    append(&log, 0)?;
    append(&log, 1)?;
    // Without the one before it.
    lock(&log.stream(1)?.state).records.persist()?;
    drop(log);
    for _ in 0..2 {
        world = world.image(&least).unwrap();
        for site in disabled {
            world.disable(site);
        }
        let log = open(&world, KINDS[1], Lsn::FIRST)?;
        log.settle()?;
        append(&log, 0)?;
        append(&log, 0)?;
        log.flush()?;
    }
    let log = open(&world.image(&least).unwrap(), KINDS[1], Lsn::FIRST)?;
    Ok(Lsn(log.next.load(std::sync::atomic::Ordering::SeqCst)))
}

#[test]
fn what_one_life_has_cut_off_does_not_come_back_in_the_next_but_one() {
    let end = Lsn(Lsn::FIRST.0 + 4);
    assert_eq!(end_after_three_lives(&[]).unwrap(), end);
    let without = end_after_three_lives(&["nv-ring.unset"]);
    assert!(without.is_err() || without.unwrap() != end);
}

#[test]
fn a_record_that_was_durable_and_is_gone_is_damage() {
    let world = SimulatedWorld::new(WorldOptions::default());
    Log::create(&world.source(), &options(KINDS[0])).unwrap();
    let log = open(&world, KINDS[0], Lsn::FIRST).unwrap();
    log.add_session(SESSIONS - 1).unwrap();
    let known = Mutex::new(Known::default());
    go_on(&log, 0, &known, &mut Random(5), b'z', 40);
    log.close().unwrap();
    let first = lock(&log.stream(0).unwrap().state).records.first_object();
    drop(log);
    let mut memory = world.source().open("p1.ring.0", Access::Write).unwrap();
    pmem::Memory::store(&mut memory, first + 60, &[0xee]);
    drop(memory);
    let error = open(&world, KINDS[0], Lsn::FIRST).err().unwrap();
    assert!(error.to_string().contains("was durable once"), "{error}");
}

#[test]
fn a_full_ring_is_an_error_until_a_checkpoint_ends() {
    let world = SimulatedWorld::new(WorldOptions::default());
    Log::create(&world.source(), &options(KINDS[0])).unwrap();
    let log = open(&world, KINDS[0], Lsn::FIRST).unwrap();
    let append = |reserve| append_bytes(&log, reserve, &[1; 1000]);
    // A transaction is open all the time, so a checkpoint gives nothing back.
    append(UndoSpace::Bytes(0, 2000)).unwrap();
    let error = loop {
        if let Err(error) = append(UndoSpace::Bytes(0, 2000)) {
            break error;
        }
    };
    assert!(error.to_string().contains("give the log more memory"));
    let start = log.begin_checkpoint().unwrap();
    log.end_checkpoint(start.log).unwrap();
    append(UndoSpace::Bytes(0, 2000)).unwrap_err();
    // The reserved space is there.
    append(UndoSpace::Keep(0)).unwrap();
    append(UndoSpace::End(0)).unwrap();
    assert_eq!(
        log.begin_checkpoint().unwrap().log.segment,
        LogStart::NEW.segment
    );
    let start = log.begin_checkpoint().unwrap();
    log.end_checkpoint(start.log).unwrap();
    append(UndoSpace::Bytes(0, 2000)).unwrap();
}

#[test]
fn sessions_of_one_ring_leave_each_other_room_for_their_rollbacks() {
    let world = SimulatedWorld::new(WorldOptions::default());
    Log::create(&world.source(), &options(KINDS[2])).unwrap();
    let log = open(&world, KINDS[2], Lsn::FIRST).unwrap();
    let append = |reserve| append_bytes(&log, reserve, &[1; 1000]);
    append(UndoSpace::Bytes(0, 5000)).unwrap();
    // The third session has the ring of the first one, the second another.
    while append(UndoSpace::Bytes(2, 5000)).is_ok() {}
    append(UndoSpace::Bytes(1, 5000)).unwrap();
    for session in [0, 2] {
        for _ in 0..4 {
            append(UndoSpace::Keep(session)).unwrap();
        }
        append(UndoSpace::End(session)).unwrap();
    }
    append(UndoSpace::End(1)).unwrap();
    // Only now nobody needs the oldest records.
    let start = log.begin_checkpoint().unwrap();
    log.end_checkpoint(start.log).unwrap();
    append(UndoSpace::Bytes(2, 5000)).unwrap();
}

#[test]
fn a_commit_makes_durable_what_the_daemon_has_left() {
    let world = SimulatedWorld::new(WorldOptions::default());
    Log::create(&world.source(), &options(KINDS[1])).unwrap();
    let log = open(&world, KINDS[1], Lsn::FIRST).unwrap();
    let append = || append_bytes(&log, UndoSpace::Keep(0), &[1; 200]).unwrap();
    let flushed = || log.memory().total().lines_flushed;
    let first = append();
    append();
    let before = flushed();
    assert!(log.persist_ahead().unwrap());
    // Two objects of four lines each, and a line of the index.
    assert_eq!(flushed() - before, 9);
    assert!(!log.persist_ahead().unwrap());
    assert_eq!(log.horizon(), Lsn(first.0 + 2));
    let last = append();
    assert_eq!(log.horizon(), last);
    log.flush_to(last).unwrap();
    assert_eq!(flushed() - before, 9 + 5);
    let persisted = log.persisted();
    assert_eq!((persisted.ahead, persisted.by_sessions), (2, 1));
}

#[test]
fn a_daemon_whose_fence_fails_lets_nobody_take_its_records_for_durable() {
    use pmem::device::simulated::{MemoryCall, MemoryFault};
    let world = SimulatedWorld::new(WorldOptions::default());
    Log::create(&world.source(), &options(KINDS[1])).unwrap();
    let log = open(&world, KINDS[1], Lsn::FIRST).unwrap();
    let lsn = append_bytes(&log, UndoSpace::Keep(0), &[1; 40]).unwrap();
    world.inject(MemoryFault {
        call: MemoryCall::Fence,
        nth: 0,
        forever: false,
        full: false,
    });
    log.persist_ahead().unwrap_err();
    assert!(log.is_poisoned() && log.horizon() == lsn);
    assert!(matches!(
        log.flush_to(lsn),
        Err(StorageError::Stopped { .. })
    ));
}

#[test]
fn logs_without_waiting_records_have_no_daemon() {
    for kind in [KINDS[0], KINDS[2]] {
        let world = SimulatedWorld::new(WorldOptions::default());
        Log::create(&world.source(), &options(kind)).unwrap();
        let log = open(&world, kind, Lsn::FIRST).unwrap();
        append_bytes(&log, UndoSpace::Keep(0), &[1; 40]).unwrap();
        assert!(!log.persists_ahead() && !log.persist_ahead().unwrap());
    }
}
