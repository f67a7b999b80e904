//! Goal: whatever a power cut leaves of the files of several sessions, an opening finds the first
//! records of the log without a gap, unchanged, and all that were reported durable; records after
//! the gap never come back; and damage is distinguished from the effects of a crash.
//!
//! Method: that of `horizon_explore`, with checkpoints now and then and segments so small that
//! there are several.

use super::*;
use crate::buffer::horizon_explore::{
    Kind, Known, Random, SESSIONS, explore, explore_without, go_on,
};
use crate::buffer::log::append_bytes;
use crate::buffer::{PageLog, UndoSpace};
use disk::File;
use disk::simulated::{Call, Effect, Fault, Repeat, SimulatedDirectory};
use pmem::device::simulated::{CrashPoint, ImageChoice, SimulatedWorld, WorldOptions};
use std::io::ErrorKind;
use storage::log::numbered::Stream;

type Log = FilesLog<SimulatedDirectory>;

#[derive(Clone, Copy)]
struct Files;

impl Kind for Files {
    type StreamSource = SessionFiles<SimulatedDirectory>;
    const CHECKPOINT_EVERY: u64 = 70;

    fn create(self, _world: &SimulatedWorld) {}

    fn open(self, world: &SimulatedWorld, start: Lsn) -> Result<Log> {
        Log::open_files(SimulatedDirectory::new(world), options(), start, None)
    }
}

fn options() -> SessionFilesOptions {
    SessionFilesOptions {
        identity: LogIdentity {
            database: 7,
            partition: 1,
        },
        access: Access::Write,
        series: WalOptions {
            segment_bytes: 4 << 10,
            long_segment_bytes: 0,
            buffer_bytes_max: 512,
            spare_bytes_max: 0,
            reserve_bytes: 0,
        },
    }
}

#[test]
fn an_opening_finds_the_first_records_without_a_gap() {
    for seed in 1..=3 {
        let images = explore(Files, seed);
        assert!(images > 400, "{images} images");
    }
}

#[test]
fn every_sync_is_needed() {
    for site in ["wal.flush", "wal.segment-header", "wal.publish-segment"] {
        let is_noticed = (1..=4).any(|seed| {
            std::panic::catch_unwind(|| explore_without(&[site], Files, seed)).is_err()
        });
        assert!(is_noticed, "no image shows that {site} is missing");
    }
}

/// A closed log, and the names of its files.
fn closed(world: &SimulatedWorld) -> Vec<String> {
    let log = Files.open(world, Lsn::FIRST).unwrap();
    log.settle().unwrap();
    let known = Mutex::new(Known::default());
    go_on(&log, 0, &known, &mut Random(5), b'z', 60);
    log.close().unwrap();
    log.verify().unwrap();
    let names = SimulatedDirectory::new(world).list().unwrap();
    assert!(names.len() > SESSIONS as usize, "{names:?}");
    names
}

/// Whether a file has records; the tails of the series have two copies of what they say.
fn is_of_series(name: &str) -> bool {
    name.contains(".log.")
}

fn append(log: &Log, session: u32, word: u8) -> Result<Lsn> {
    append_bytes(log, UndoSpace::Keep(session), &[word; 40])
}

/// First bytes of the records that an opening finds.
fn words(world: &SimulatedWorld) -> Vec<u8> {
    let log = Files.open(world, Lsn::FIRST).unwrap();
    let mut words = Vec::new();
    let visited = log.visit(&mut |_, _, record| {
        words.push(record[0]);
        Ok(())
    });
    visited.unwrap();
    words
}

fn least(world: &SimulatedWorld) -> SimulatedWorld {
    world.image(&ImageChoice { units: Vec::new() }).unwrap()
}

/// A log in which record `b` was lost and the later record `c` was not.
fn with_a_gap() -> SimulatedWorld {
    let world = SimulatedWorld::new(WorldOptions::default());
    let log = Files.open(&world, Lsn::FIRST).unwrap();
    log.settle().unwrap();
    log.add_session(1).unwrap();
    append(&log, 0, b'a').unwrap();
    log.flush().unwrap();
    append(&log, 0, b'b').unwrap();
    append(&log, 1, b'c').unwrap();
    lock(&log.stream(1).unwrap().state)
        .records
        .persist()
        .unwrap();
    least(&world)
}

/// An opening that saw a record after the gap once removed it, and its number was used again: when
/// the device had not executed the request, the record was back beside the new one. Every call of
/// the first opening fails once, in each manner.
#[test]
fn a_lost_record_stays_lost_when_the_opening_that_saw_it_fails() {
    let other = ErrorKind::Other;
    let effects = [
        Effect::Error(other),
        Effect::SyncLost(other),
        Effect::SyncKept(other),
    ];
    let mut failed = 0;
    for (nth, effect) in (0..60).flat_map(|nth| effects.map(|effect| (nth, effect))) {
        let world = with_a_gap();
        let directory = SimulatedDirectory::new(&world);
        directory.inject(Fault {
            call: Call::Any,
            nth,
            repeat: Repeat::Once,
            effect,
        });
        let opened = Files.open(&world, Lsn::FIRST).and_then(|log| {
            log.settle()?;
            append(&log, 0, b'x')?;
            log.flush()
        });
        failed += u32::from(opened.is_err());
        directory.heal();
        let seen = words(&world);
        assert!(seen == b"a" || seen == b"ax", "{seen:?}");
        let log = Files.open(&world, Lsn::FIRST).unwrap();
        log.settle().unwrap();
        append(&log, 0, b'y').unwrap();
        append(&log, 0, b'z').unwrap();
        log.flush().unwrap();
        let expected = [&seen[..], b"yz"].concat();
        assert_eq!(words(&least(&world)), expected, "{effect:?} at {nth}");
    }
    assert!(failed > 20, "{failed} of the first openings failed");
}

/// A checkpoint removes the files with lost records. One that began before their numbers would let
/// the next opening, which does not see them any more, use the numbers again.
#[test]
fn a_checkpoint_is_behind_the_numbers_of_lost_records() {
    let world = with_a_gap();
    let log = Files.open(&world, Lsn::FIRST).unwrap();
    log.settle().unwrap();
    let start = log.begin_checkpoint().unwrap();
    log.end_checkpoint(start.log).unwrap();
    // The numbers of `a`, `b`, `c` and of the gap.
    assert_eq!(start.redo, Lsn(Lsn::FIRST.0 + 4));
    drop(log);
    let log = Files.open(&world, start.redo).unwrap();
    log.settle().unwrap();
    assert_eq!(append(&log, 0, b'x').unwrap(), start.redo);
}

/// While a sync runs, a record can be appended to the same series, and is not taken for durable
/// with the earlier ones.
#[test]
fn a_record_that_is_appended_during_a_sync_is_not_durable_with_it() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let log = Arc::new(Files.open(&world, Lsn::FIRST).unwrap());
    log.settle().unwrap();
    let first = append(&log, 0, b'a').unwrap();
    let (beside, appended) = (Arc::clone(&log), Arc::new(Mutex::new(None)));
    let second = Arc::clone(&appended);
    world.observe(move |_, point| {
        let mut second = lock(&second);
        if matches!(point, CrashPoint::Sync(site) if site.name == "wal.flush") && second.is_none() {
            assert!(beside.stream(0).unwrap().state.try_lock().is_ok());
            *second = Some(append(&beside, 0, b'b').unwrap());
        }
    });
    log.flush_to(first).unwrap();
    world.unobserve();
    let second = lock(&appended).unwrap();
    assert_eq!(log.horizon(), second);
    assert_eq!(words(&least(&world)), b"a");
    log.flush_to(second).unwrap();
    assert_eq!(words(&least(&world)), b"ab");
}

/// A commit waits for all earlier records, of any session, with one sync for each series, and not
/// for series that have none.
#[test]
fn a_session_without_records_holds_nobody_up() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let log = Files.open(&world, Lsn::FIRST).unwrap();
    log.settle().unwrap();
    log.add_session(4).unwrap();
    // They have files by now.
    for session in [1, 2] {
        append(&log, session, b'a').unwrap();
    }
    log.flush().unwrap();
    let before = log.disk().syncs;
    let last = append(&log, 1, b'b').unwrap();
    log.flush_to(last).unwrap();
    assert_eq!(
        (log.synced(), log.disk().syncs),
        (Lsn(last.0 + 1), before + 1)
    );
    append(&log, 2, b'c').unwrap();
    let last = append(&log, 1, b'd').unwrap();
    log.flush_to(last).unwrap();
    assert_eq!(
        (log.synced(), log.disk().syncs),
        (Lsn(last.0 + 1), before + 3)
    );
    assert_eq!(words(&least(&world)), b"aabcd");
}

#[test]
fn openings_that_change_nothing_add_no_files() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let names = closed(&world);
    for _ in 0..3 {
        let log = Files.open(&world, Lsn::FIRST).unwrap();
        log.settle().unwrap();
        log.close().unwrap();
    }
    assert_eq!(SimulatedDirectory::new(&world).list().unwrap(), names);
}

#[test]
fn a_record_that_was_durable_and_is_gone_is_damage() {
    let world = SimulatedWorld::new(WorldOptions::default());
    for name in closed(&world).iter().filter(|name| is_of_series(name)) {
        let mut file = SimulatedDirectory::new(&world).open(name).unwrap();
        let mut byte = [0];
        file.read_at(560, &mut byte).unwrap();
        file.write_at(560, &[byte[0] ^ 1]).unwrap();
        let error = Files.open(&world, Lsn::FIRST).err();
        assert!(error.is_some(), "{name} was believed");
        file.write_at(560, &byte).unwrap();
        Files.open(&world, Lsn::FIRST).unwrap();
    }
}

#[test]
fn a_missing_file_is_damage_and_one_of_another_session_is_foreign() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let names = closed(&world);
    let directory = SimulatedDirectory::new(&world);
    for name in names.iter().filter(|name| is_of_series(name)) {
        directory.rename(name, "elsewhere").unwrap();
        let error = Files.open(&world, Lsn::FIRST).err();
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(
            error.contains("missing") && error.contains(name.as_str()),
            "without {name}: {error}"
        );
        directory.rename("elsewhere", name).unwrap();
    }
    directory
        .rename("p1.log.2.000001", "p1.log.3.000001")
        .unwrap();
    let error = Files.open(&world, Lsn::FIRST).err().unwrap();
    let is_missed = error.to_string().contains("p1.log.2.000001 is missing");
    assert!(is_missed, "{error}");
    directory
        .rename("p1.log.3.000001", "p1.log.9999.000001")
        .unwrap();
    let error = Files.open(&world, Lsn::FIRST).err().unwrap();
    assert!(error.to_string().contains("p1.log.9999.000001"), "{error}");
}

#[test]
fn a_checkpoint_removes_the_files_in_front_of_it() {
    let world = SimulatedWorld::new(WorldOptions::default());
    closed(&world);
    let log = Files.open(&world, Lsn::FIRST).unwrap();
    log.settle().unwrap();
    let append = |reserve| append_bytes(&log, reserve, &[1; 100]).unwrap();
    // A transaction is open, so what it needs stays.
    append(UndoSpace::Bytes(0, 500));
    let start = log.begin_checkpoint().unwrap();
    log.end_checkpoint(start.log).unwrap();
    let names = SimulatedDirectory::new(&world).list().unwrap();
    assert!(names.contains(&"p1.log.1.000001".to_owned()), "{names:?}");
    append(UndoSpace::End(0));
    let start = log.begin_checkpoint().unwrap();
    log.end_checkpoint(start.log).unwrap();
    let left = SimulatedDirectory::new(&world).list().unwrap();
    assert_eq!(left, ["p1.tails"]);
    let directory = || SimulatedDirectory::new(&world);
    assert!(!Log::has_needless(directory(), options(), start.redo).unwrap());
    append(UndoSpace::Keep(1));
    log.flush().unwrap();
    let next = Lsn(start.redo.0 + 1);
    assert!(Log::has_needless(directory(), options(), next).unwrap());
    assert!(!Log::has_needless(directory(), options(), start.redo).unwrap());
}
