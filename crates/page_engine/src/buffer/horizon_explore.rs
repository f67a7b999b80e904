//! Random tests of every partitioned log: a few sessions append, wait and begin checkpoints by a
//! seed, in little space. At fences and syncs the power is cut in many ways; each image is opened,
//! cut again while it is settled and goes on, and opened again. Each record identifies itself, and
//! each history adds its own word, so that a lost record is noticed when it comes back.

use super::horizon::{PartitionedLog, StreamSource};
use super::log::append_bytes;
use super::{PageLog, UndoSpace};
use pmem::device::simulated::{CrashPoint, ImageChoices, SimulatedWorld, WorldOptions};
use std::collections::BTreeMap;
use std::sync::Arc;
use storage::log::Lsn;
use storage::sync::{AtomicU64, Mutex, Ordering, lock};
use storage::{Result, StorageError};

pub(super) const SESSIONS: u32 = 3;

/// A log and how it is made.
pub(super) trait Kind: Copy + Send + 'static {
    type StreamSource: StreamSource + 'static;
    /// One record in this many begins a checkpoint first; 0 if only a full log asks for one.
    const CHECKPOINT_EVERY: u64;

    fn create(self, world: &SimulatedWorld);

    fn open(self, world: &SimulatedWorld, start: Lsn)
    -> Result<PartitionedLog<Self::StreamSource>>;
}

type Records = BTreeMap<u64, Vec<u8>>;

pub(super) struct Random(pub(super) u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % end
    }
}

/// Records that a test expects in its log.
#[derive(Clone, Default)]
pub(super) struct Known {
    /// Everything that was appended in this history.
    records: Records,
    /// All records below this are durable.
    durable: u64,
    /// Start of the newest checkpoint that has ended, and of one that may have ended.
    start: u64,
}

/// Appends and waits by a seed. Each record has the word of its history.
pub(super) fn go_on<P: StreamSource>(
    log: &PartitionedLog<P>,
    checkpoint_every: u64,
    known: &Mutex<Known>,
    random: &mut Random,
    word: u8,
    steps: u32,
) {
    for step in 0..u64::from(steps) {
        // One comes after the other.
        let session = random.below(u64::from(SESSIONS).min(1 + step / 4)) as u32;
        // A session comes with its first record.
        log.add_session(session)
            .expect("the simulated device works");
        if checkpoint_every > 0 && random.below(checkpoint_every) == 0 {
            checkpoint(log, known);
        }
        let next = next_of(log);
        if !append(log, known, random, word, session) {
            checkpoint(log, known);
        }
        if log.persists_ahead() && random.below(3) == 0 {
            let stream = log.stream(session).expect("it has been added");
            // The session goes on while its records are on their way.
            let meanwhile = || {
                for _ in 0..random.below(3) {
                    append(log, known, random, word, session);
                }
            };
            log.persist_stream_ahead(stream, meanwhile)
                .expect("the simulated device works");
        }
        if random.below(4) == 0 && next > 8 {
            let lsn = next - random.below(3).min(next - 8);
            if lsn < log.next.load(Ordering::SeqCst) {
                log.flush_to(Lsn(lsn)).expect("the simulated device works");
                let mut known = lock(known);
                known.durable = known.durable.max(lsn + 1);
            }
        }
    }
}

/// Appends a record of some length; returns whether there was room.
fn append<P: StreamSource>(
    log: &PartitionedLog<P>,
    known: &Mutex<Known>,
    random: &mut Random,
    word: u8,
    session: u32,
) -> bool {
    let length = match random.below(12) {
        0 => 900 + random.below(900),
        _ => 10 + random.below(120),
    };
    let record = vec![word; length as usize];
    let next = next_of(log);
    // Known before it is appended: it may be durable as soon as it is.
    lock(known).records.insert(next, record.clone());
    match append_bytes(log, UndoSpace::Keep(session), &record) {
        Ok(lsn) => {
            assert_eq!(lsn.0, next);
            true
        }
        Err(StorageError::LogFull(_)) => {
            lock(known).records.remove(&next);
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// The number of the next record.
fn next_of<P: StreamSource>(log: &PartitionedLog<P>) -> u64 {
    let next = log.next.load(Ordering::SeqCst);
    let taken = log.taken.load(Ordering::SeqCst);
    if taken > next { taken + 1 } else { next }
}

fn checkpoint<P: StreamSource>(log: &PartitionedLog<P>, known: &Mutex<Known>) {
    let start = log.begin_checkpoint().expect("the simulated device works");
    let mut known = lock(known);
    known.durable = start.redo.0;
    known.start = start.redo.0;
    drop(known);
    log.end_checkpoint(start.log)
        .expect("the simulated device works");
}

/// Opens an image, compares its records with the expected ones, and returns the log and its
/// records.
fn opened<K: Kind>(
    image: &SimulatedWorld,
    kind: K,
    known: &Known,
) -> (PartitionedLog<K::StreamSource>, Records) {
    let log = kind
        .open(image, Lsn(known.start))
        .expect("the simulated device works");
    let mut found = Records::new();
    let seen = log.visit(&mut |lsn, _, bytes| {
        found.insert(lsn.0, bytes.to_vec());
        Ok(())
    });
    seen.expect("the simulated device works");
    let end = log.next.load(Ordering::SeqCst);
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
    assert_eq!(found.len(), expected.len());
    (log, found)
}

fn copy((lsn, record): (&u64, &Vec<u8>)) -> (u64, Vec<u8>) {
    (*lsn, record.clone())
}

/// Cuts the power at fences and syncs of `world` from now on, and checks the remaining state,
/// `depth` times in a row.
fn watch<K: Kind>(
    world: &SimulatedWorld,
    kind: K,
    known: &Arc<Mutex<Known>>,
    depth: u8,
    count: &Arc<AtomicU64>,
) {
    let (known, count) = (Arc::clone(known), Arc::clone(count));
    let mut points = 0_u64;
    let mut scratch = None;
    world.observe(move |world, point| {
        points += 1;
        let often = if depth == 1 { 3 } else { 40 };
        if !matches!(point, CrashPoint::Fence(_) | CrashPoint::Sync(_))
            || !points.is_multiple_of(often)
        {
            return;
        }
        let known = lock(&known).clone();
        for choice in ImageChoices::bounded(world, points, if depth == 1 { 6 } else { 8 }) {
            let image = world.image_in(&choice, &mut scratch);
            count.fetch_add(1, Ordering::Relaxed);
            live_on(
                image.expect("the simulated device works"),
                kind,
                &known,
                depth,
                points,
                &count,
            );
        }
    });
}

/// Opens an image, and lets it go on with other words while the power is cut again.
fn live_on<K: Kind>(
    image: &SimulatedWorld,
    kind: K,
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
    next.durable = known.durable.max(log.next.load(Ordering::SeqCst));
    next.records.extend(found);
    let next = Arc::new(Mutex::new(next));
    watch(image, kind, &next, depth - 1, count);
    log.settle().expect("the simulated device works");
    go_on(
        &log,
        K::CHECKPOINT_EVERY,
        &next,
        &mut Random(seed),
        b'a' + depth,
        12,
    );
    image.unobserve();
}

pub(super) fn explore<K: Kind>(kind: K, seed: u64) -> u64 {
    explore_without(&[], kind, seed)
}

pub(super) fn explore_without<K: Kind>(sites: &[&str], kind: K, seed: u64) -> u64 {
    let world = SimulatedWorld::new(WorldOptions::default());
    for site in sites {
        world.disable(site);
    }
    kind.create(&world);
    let known = Arc::new(Mutex::new(Known {
        durable: Lsn::FIRST.0,
        start: Lsn::FIRST.0,
        ..Known::default()
    }));
    let log = kind
        .open(&world, Lsn::FIRST)
        .expect("the simulated device works");
    log.settle().expect("the simulated device works");
    let count = Arc::new(AtomicU64::new(0));
    watch(&world, kind, &known, 2, &count);
    go_on(
        &log,
        K::CHECKPOINT_EVERY,
        &known,
        &mut Random(seed),
        b'z',
        700,
    );
    world.unobserve();
    count.load(Ordering::Relaxed)
}
