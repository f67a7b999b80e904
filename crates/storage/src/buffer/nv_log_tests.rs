//! Goal: whatever a power cut leaves of the rings, an opening finds the first records of the log without a gap, unchanged, and all that were said to
//! be durable; and it goes on from there, however often.
//!
//! Method: a few sessions append, wait and begin checkpoints by a seed, over rings so small that they go around many times. At
//! fences the power is cut in many ways; each image is opened, cut again while it is settled and goes on, and opened again. The records say
//! who they are, and each history adds its own word, so that one that was lost is noticed when it comes back.

use super::*;
use crate::log::LogStart;
use disk::simulated::SimulatedDirectory;
use pmem::device::simulated::{
    CrashPoint, ImageChoices, SimulatedSource, SimulatedWorld, WorldOptions,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const SESSIONS: u32 = 3;
/// Rings a session, and fewer than sessions.
const KINDS: [Kind; 3] = [
    (Rings::PerSession, Persist::OnInsert),
    (Rings::PerSession, Persist::OnCommit),
    (Rings::Shared(2), Persist::OnCommit),
];

type Kind = (Rings, Persist);

type Log = NvLog<SimulatedSource, SimulatedDirectory>;
type Records = BTreeMap<u64, Vec<u8>>;

fn options((rings, persist): Kind) -> NvLogOptions {
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
    }
}

fn open(world: &SimulatedWorld, kind: Kind, start: Lsn) -> Result<Log> {
    let files = SimulatedDirectory::new(world);
    NvLog::open(world.source(), files, options(kind), start)
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % end
    }
}

/// What a test knows of its log.
#[derive(Clone, Default)]
struct Known {
    /// Everything that was appended in this history.
    records: Records,
    /// In front of this everything is durable.
    durable: u64,
    /// Where the newest checkpoint that has ended begins, and one that may have ended.
    start: u64,
}

/// Appends and waits by a seed. Each record has the word of its history.
fn go_on(log: &Log, known: &Mutex<Known>, random: &mut Random, word: u8, steps: u32) {
    for _ in 0..steps {
        let session = random.below(u64::from(SESSIONS)) as u32;
        let length = match random.below(12) {
            0 => 900 + random.below(900),
            _ => 10 + random.below(120),
        };
        let record = vec![word; length as usize];
        let next = log.next.load(Ordering::SeqCst);
        // Known before it is appended: it may be durable as soon as it is.
        lock(known).records.insert(next, record.clone());
        let encode = &mut |_: Lsn, out: &mut Vec<u8>| out.extend_from_slice(&record);
        match log.append(Reserve::Keep(session), encode, &mut Vec::new()) {
            Ok(lsn) => assert_eq!(lsn.0, next),
            Err(StorageError::Memory(pmem::PmemError::OutOfSpace { .. })) => {
                lock(known).records.remove(&next);
                let start = log.begin_checkpoint().unwrap();
                let mut known = lock(known);
                known.durable = start.redo.0;
                known.start = start.redo.0;
                log.end_checkpoint(start.log).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
        if random.below(4) == 0 && next > 8 {
            let lsn = next - random.below(3).min(next - 8);
            if lsn < log.next.load(Ordering::SeqCst) {
                log.flush_to(Lsn(lsn)).unwrap();
                let mut known = lock(known);
                known.durable = known.durable.max(lsn + 1);
            }
        }
    }
}

/// Opens an image and compares what it has; says what that is.
fn opened(image: &SimulatedWorld, kind: Kind, known: &Known) -> (Log, Records) {
    let log = open(image, kind, Lsn(known.start)).unwrap();
    let mut found = Records::new();
    let seen = log.visit(&mut |lsn, _, bytes| {
        found.insert(lsn.0, bytes.to_vec());
        Ok(())
    });
    seen.unwrap();
    let end = known.start + found.len() as u64;
    assert!(
        end >= known.durable,
        "{end} of {} that were durable",
        known.durable
    );
    let expected: Records = known.records.range(known.start..end).map(copy).collect();
    let differs = found
        .iter()
        .find(|(lsn, record)| expected.get(lsn) != Some(record));
    assert_eq!(differs.map(|(lsn, record)| (lsn, record[0])), None);
    (log, found)
}

fn copy((lsn, record): (&u64, &Vec<u8>)) -> (u64, Vec<u8>) {
    (*lsn, record.clone())
}

/// Cuts the power at fences of `world` from now on, and looks at what is left, `depth` times in a row.
fn watch(
    world: &SimulatedWorld,
    kind: Kind,
    known: &Arc<Mutex<Known>>,
    depth: u8,
    count: &Arc<AtomicU64>,
) {
    let (known, count) = (Arc::clone(known), Arc::clone(count));
    let mut points = 0_u64;
    world.observe(move |world, point| {
        points += 1;
        let often = if depth == 1 { 3 } else { 40 };
        if !matches!(point, CrashPoint::Fence(_)) || !points.is_multiple_of(often) {
            return;
        }
        let known = lock(&known).clone();
        for choice in ImageChoices::bounded(world, points, if depth == 1 { 6 } else { 8 }) {
            let image = world.image(&choice).unwrap();
            count.fetch_add(1, Ordering::Relaxed);
            live_on(&image, kind, &known, depth, points, &count);
        }
    });
}

/// Opens an image, and lets it go on with other words while the power is cut again.
fn live_on(
    image: &SimulatedWorld,
    kind: Kind,
    known: &Known,
    depth: u8,
    seed: u64,
    count: &Arc<AtomicU64>,
) {
    let (log, found) = opened(image, kind, known);
    if depth == 0 {
        return;
    }
    let mut next = known.clone();
    next.records = known.records.range(..known.start).map(copy).collect();
    next.durable = known.durable.max(known.start + found.len() as u64);
    next.records.extend(found);
    let next = Arc::new(Mutex::new(next));
    watch(image, kind, &next, depth - 1, count);
    log.settle().unwrap();
    go_on(&log, &next, &mut Random(seed), b'a' + depth, 12);
    image.unobserve();
}

fn explore(kind: Kind, seed: u64) -> u64 {
    explore_without(&[], kind, seed)
}

fn explore_without(sites: &[&str], kind: Kind, seed: u64) -> u64 {
    let world = SimulatedWorld::new(WorldOptions::default());
    for site in sites {
        world.disable(site);
    }
    Log::create(&world.source(), &options(kind)).unwrap();
    let known = Arc::new(Mutex::new(Known {
        durable: Lsn::FIRST.0,
        start: Lsn::FIRST.0,
        ..Known::default()
    }));
    let log = open(&world, kind, Lsn::FIRST).unwrap();
    log.settle().unwrap();
    log.add_session(SESSIONS - 1).unwrap();
    let count = Arc::new(AtomicU64::new(0));
    watch(&world, kind, &known, 2, &count);
    go_on(&log, &known, &mut Random(seed), b'z', 700);
    world.unobserve();
    count.load(Ordering::Relaxed)
}

#[test]
fn an_opening_finds_the_first_records_without_a_gap() {
    for kind in KINDS {
        for seed in 1..=2 {
            let images = explore(kind, seed);
            assert!(images > 400, "{images} images");
        }
    }
}

/// Fences that order what one thread does are left out: a later one of the same thread does their work, so it takes two threads to need them.
#[test]
fn every_write_back_is_needed() {
    for site in ["nv-ring.object", "nv-ring.entry", "nv-ring.persist"] {
        let is_noticed = KINDS
            .into_iter()
            .any(|kind| std::panic::catch_unwind(|| explore_without(&[site], kind, 1)).is_err());
        assert!(is_noticed, "no image shows that {site} is missing");
    }
}

#[test]
fn a_record_that_was_durable_and_is_gone_is_damage() {
    let world = SimulatedWorld::new(WorldOptions::default());
    Log::create(&world.source(), &options(KINDS[0])).unwrap();
    let log = open(&world, KINDS[0], Lsn::FIRST).unwrap();
    log.add_session(SESSIONS - 1).unwrap();
    let known = Mutex::new(Known::default());
    go_on(&log, &known, &mut Random(5), b'z', 40);
    log.close().unwrap();
    let first = lock(&log.part(0).unwrap().state).ring.first_object();
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
    let append = |reserve| {
        let encode = &mut |_: Lsn, out: &mut Vec<u8>| out.extend_from_slice(&[1; 1000]);
        log.append(reserve, encode, &mut Vec::new())
    };
    // A transaction is open all the time, so a checkpoint gives nothing back.
    append(Reserve::Bytes(0, 2000)).unwrap();
    let error = loop {
        if let Err(error) = append(Reserve::Bytes(0, 2000)) {
            break error;
        }
    };
    assert!(error.to_string().contains("give the log more memory"));
    let start = log.begin_checkpoint().unwrap();
    log.end_checkpoint(start.log).unwrap();
    append(Reserve::Bytes(0, 2000)).unwrap_err();
    // What was reserved is there.
    append(Reserve::Keep(0)).unwrap();
    append(Reserve::End(0)).unwrap();
    assert_eq!(
        log.begin_checkpoint().unwrap().log.segment,
        LogStart::NEW.segment
    );
    let start = log.begin_checkpoint().unwrap();
    log.end_checkpoint(start.log).unwrap();
    append(Reserve::Bytes(0, 2000)).unwrap();
}

#[test]
fn sessions_of_one_ring_leave_each_other_room_for_their_rollbacks() {
    let world = SimulatedWorld::new(WorldOptions::default());
    Log::create(&world.source(), &options(KINDS[2])).unwrap();
    let log = open(&world, KINDS[2], Lsn::FIRST).unwrap();
    let append = |reserve| {
        let encode = &mut |_: Lsn, out: &mut Vec<u8>| out.extend_from_slice(&[1; 1000]);
        log.append(reserve, encode, &mut Vec::new())
    };
    append(Reserve::Bytes(0, 5000)).unwrap();
    // The third session has the ring of the first one, the second another.
    while append(Reserve::Bytes(2, 5000)).is_ok() {}
    append(Reserve::Bytes(1, 5000)).unwrap();
    for session in [0, 2] {
        for _ in 0..4 {
            append(Reserve::Keep(session)).unwrap();
        }
        append(Reserve::End(session)).unwrap();
    }
    append(Reserve::End(1)).unwrap();
    // Only now nobody needs the oldest records.
    let start = log.begin_checkpoint().unwrap();
    log.end_checkpoint(start.log).unwrap();
    append(Reserve::Bytes(2, 5000)).unwrap();
}
