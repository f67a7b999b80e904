//! The log alone: what is replayed after which ending.
//!
//! On the simulated disk, so that tails can be torn and the disk can be full. Crash tests of the
//! log together with its checkpoints stand with the engine.

use super::super::wal_roll::SHORT_SEGMENTS;
use super::*;
use disk::simulated::{Call, Effect, Fault, Repeat, SimulatedDirectory};
use pmem::device::simulated::{
    CrashPoint, ImageChoice, ImageChoices, SimulatedWorld, WorldOptions,
};
use std::io::ErrorKind;

const IDENTITY: LogIdentity = LogIdentity {
    database: 5,
    partition: 2,
};
const OPTIONS: WalOptions = WalOptions {
    segment_bytes: 1024,
    long_segment_bytes: 0,
    buffer_bytes_max: 256,
    spare_bytes_max: 4096,
    reserve_bytes: 0,
};

fn world() -> SimulatedWorld {
    SimulatedWorld::new(WorldOptions::default())
}

fn open_at(
    world: &SimulatedWorld,
    start: LogStart,
) -> Result<(SimulatedDirectory, Wal<SimulatedDirectory>, Vec<Vec<u8>>)> {
    let directory = SimulatedDirectory::new(world);
    let mut records = Vec::new();
    let wal = Wal::open(&directory, IDENTITY, OPTIONS, start, &mut |_, bytes| {
        records.push(bytes.to_vec());
        Ok(())
    })?;
    Ok((directory, wal, records))
}

fn open(world: &SimulatedWorld) -> (SimulatedDirectory, Wal<SimulatedDirectory>, Vec<Vec<u8>>) {
    open_at(world, LogStart::NEW).unwrap()
}

fn record(number: u8) -> Vec<u8> {
    vec![number; 40 + usize::from(number)]
}

#[test]
fn records_survive_in_order_over_many_segments_and_openings() {
    let mut world = world();
    let mut expected = Vec::new();
    for round in 0..5_u8 {
        let (directory, mut wal, records) = open(&world);
        assert_eq!(records, expected);
        for number in 0..20 {
            wal.append(&directory, &record(number * 5 + round)).unwrap();
            expected.push(record(number * 5 + round));
        }
        wal.flush().unwrap();
        assert_eq!(wal.synced(), wal.end());
        wal.verify(&directory).unwrap();
        world = world.image(&ImageChoice::default()).unwrap();
    }
}

#[test]
fn a_record_longer_than_a_segment_gets_one_of_its_own() {
    let world = world();
    let (directory, mut wal, _) = open(&world);
    let long = vec![7; 10_000];
    for payload in [&long, &record(1), &long] {
        wal.append(&directory, payload).unwrap();
    }
    wal.flush().unwrap();
    assert_eq!(open(&world).2, [long.clone(), record(1), long]);
}

#[test]
fn segments_are_long_behind_the_first_few_and_those_of_either_length_are_used_again() {
    let world = world();
    let directory = SimulatedDirectory::new(&world);
    let options = WalOptions {
        long_segment_bytes: 4096,
        spare_bytes_max: 1 << 20,
        ..OPTIONS
    };
    let nothing = &mut |_, _: &[u8]| Ok(());
    let mut wal = Wal::open(&directory, IDENTITY, options, LogStart::NEW, nothing).unwrap();
    let mut expected = Vec::new();
    let fill = |wal: &mut Wal<SimulatedDirectory>, expected: &mut Vec<Vec<u8>>| {
        let short = SHORT_SEGMENTS as u64 * 1024;
        while wal.file_bytes() < short + 2 * 4096 {
            wal.append(&directory, &record(9)).unwrap();
            expected.push(record(9));
        }
        wal.flush().unwrap();
        let lengths = wal.segments.iter().map(|&(_, bytes)| bytes);
        lengths.collect::<Vec<_>>()
    };
    let lengths = fill(&mut wal, &mut expected);
    assert_eq!(lengths, [1024, 1024, 1024, 1024, 4096, 4096]);
    assert_eq!(open(&world).2, expected);
    let start = wal.begin_checkpoint().unwrap();
    wal.end_checkpoint(start);
    while wal.remove_needless(&directory).unwrap() {}
    assert_eq!(spares(&directory), 6);
    for number in 0..60 {
        wal.append(&directory, &record(number)).unwrap();
    }
    wal.flush().unwrap();
    assert_eq!(wal.segments.len() + spares(&directory), 6, "none was made");
    assert_eq!(
        open_at(&world, start).unwrap().2,
        (0..60).map(record).collect::<Vec<_>>()
    );
}

#[test]
fn where_the_disk_has_no_room_for_a_long_segment_it_gets_a_usual_one() {
    let world = world();
    let directory = SimulatedDirectory::new(&world);
    let options = WalOptions {
        long_segment_bytes: 4096,
        ..OPTIONS
    };
    let nothing = &mut |_, _: &[u8]| Ok(());
    let mut wal = Wal::open(&directory, IDENTITY, options, LogStart::NEW, nothing).unwrap();
    let tails = directory.open("p2.tails").unwrap().bytes().unwrap();
    directory.limit_space(Some((SHORT_SEGMENTS as u64 + 2) * 1024 + tails));
    while wal.segments.len() <= SHORT_SEGMENTS {
        wal.append(&directory, &record(9)).unwrap();
    }
    assert_eq!(wal.segments.last().map(|&(_, bytes)| bytes), Some(1024));
    wal.flush().unwrap();
    wal.verify(&directory).unwrap();
}

#[test]
fn where_the_disk_has_no_room_for_a_usual_segment_it_gets_a_short_one() {
    let world = world();
    let directory = SimulatedDirectory::new(&world);
    let options = WalOptions {
        segment_bytes: 4 << 20,
        ..OPTIONS
    };
    let nothing = &mut |_, _: &[u8]| Ok(());
    let mut wal = Wal::open(&directory, IDENTITY, options, LogStart::NEW, nothing).unwrap();
    directory.limit_space(Some(3 << 20));
    wal.append(&directory, &record(9)).unwrap();
    assert_eq!(wal.segments.last().map(|&(_, bytes)| bytes), Some(1 << 20));
    wal.flush().unwrap();
    wal.verify(&directory).unwrap();
}

#[test]
fn a_lost_record_never_comes_back_behind_its_twin() {
    let world = world();
    let (directory, mut wal, _) = open(&world);
    wal.append(&directory, &record(1)).unwrap();
    wal.flush().unwrap();
    for number in [2, 3, 4] {
        wal.append(&directory, &record(number)).unwrap();
        wal.write_buffer().unwrap();
    }
    let mut torn = 0;
    for choice in ImageChoices::exhaustive(&world, 4096).unwrap() {
        let image = world.image(&choice).unwrap();
        let (directory, mut wal, found) = open(&image);
        assert_eq!(found, [1, 2, 3, 4].map(record)[..found.len()]);
        torn += u32::from(found.len() == 1);
        // The same records again, one fewer than were there before.
        for number in [2, 3].into_iter().skip(found.len() - 1) {
            wal.append(&directory, &record(number)).unwrap();
        }
        wal.flush().unwrap();
        let expected = found.len().max(3);
        drop(wal);
        assert_eq!(open(&image).2, [1, 2, 3, 4].map(record)[..expected]);
    }
    assert!(torn > 1, "no image had a torn tail");
}

/// Fills segments, and makes all but the last one needless.
fn fill_and_end(directory: &SimulatedDirectory, wal: &mut Wal<SimulatedDirectory>) -> LogStart {
    for number in 0..60 {
        wal.append(directory, &record(number)).unwrap();
    }
    let start = wal.begin_checkpoint().unwrap();
    wal.end_checkpoint(start);
    while wal.remove_needless(directory).unwrap() {}
    start
}

fn spares(directory: &SimulatedDirectory) -> usize {
    let names = directory.list().unwrap();
    names.iter().filter(|name| name.contains("-spare")).count()
}

#[test]
fn needless_segments_are_used_again_and_their_old_records_are_not_seen() {
    let world = world();
    let (directory, mut wal, _) = open(&world);
    let start = fill_and_end(&directory, &mut wal);
    assert_eq!(spares(&directory), 4, "as many as options say");
    assert_eq!(wal.file_bytes(), 4 * 1024);
    // Each record is shorter than the old ones there, so that old frames follow every end.
    let mut expected = Vec::new();
    for number in 0..30_u8 {
        wal.append(&directory, &[number; 20]).unwrap();
        wal.flush().unwrap();
        expected.push(vec![number; 20]);
        let image = world.image(&ImageChoice::default()).unwrap();
        assert_eq!(open_at(&image, start).unwrap().2, expected);
    }
    assert_eq!(spares(&directory), 1, "three segments took their place");
    wal.verify(&directory).unwrap();
    // Another process has them too, and keeps one until it has a segment.
    let image = world.image(&ImageChoice::default()).unwrap();
    let (directory, mut wal, _) = open_at(&image, start).unwrap();
    assert_eq!(spares(&directory), 1);
    assert!(!wal_spares::give_up(&directory, &wal.take_spares()).unwrap());
    assert_eq!(spares(&directory), 1);
    wal.append(&directory, &record(1)).unwrap();
    assert_eq!(spares(&directory), 0);
}

#[test]
fn an_old_name_that_a_crash_brings_back_has_what_it_had() {
    let world = world();
    let (directory, mut wal, _) = open(&world);
    let seen = Arc::new(Mutex::new(0));
    let count = Arc::clone(&seen);
    world.observe(move |world, point| {
        if !matches!(point, CrashPoint::Sync(_)) {
            return;
        }
        for choice in ImageChoices::bounded(world, 7, 40) {
            let left = SimulatedDirectory::new(&world.image(&choice).unwrap());
            for number in IDENTITY.numbers(&left, KIND).unwrap() {
                read_segment(&left, IDENTITY, KIND, number, &mut Vec::new()).unwrap();
                *lock(&count) += 1;
            }
        }
    });
    let start = fill_and_end(&directory, &mut wal);
    for number in 0..25_u8 {
        wal.append(&directory, &[number; 20]).unwrap();
    }
    wal.flush().unwrap();
    world.unobserve();
    assert!(*lock(&seen) > 100);
    assert_eq!(spares(&directory), 1);
    assert_eq!(open_at(&world, start).unwrap().2.len(), 25);
}

#[test]
fn a_full_disk_takes_the_spares_before_it_is_one() {
    let world = world();
    let (directory, mut wal, _) = open(&world);
    fill_and_end(&directory, &mut wal);
    directory.inject(Fault {
        call: Call::Write,
        nth: 0,
        repeat: Repeat::Once,
        effect: Effect::Error(ErrorKind::StorageFull),
    });
    let long = vec![7; 5000];
    wal.append(&directory, &long).unwrap();
    wal.flush().unwrap();
    assert_eq!(spares(&directory), 0);
}

#[test]
fn damage_in_front_of_the_durable_end_is_told_from_a_torn_tail() {
    let world = world();
    let (directory, mut wal, _) = open(&world);
    for number in 1..5 {
        wal.append(&directory, &record(number)).unwrap();
        wal.flush().unwrap();
    }
    wal.close(&directory).unwrap();
    let name = IDENTITY.file_name(KIND, 1);
    for offset in [
        HEADER_BYTES,
        HEADER_BYTES + 30,
        HEADER_BYTES + 100,
        HEADER_BYTES + 220,
    ] {
        let image = world.image(&ImageChoice::default()).unwrap();
        let mut file = SimulatedDirectory::new(&image).open(&name).unwrap();
        file.write_at(offset as u64, &[0xff]).unwrap();
        let error = open_at(&image, LogStart::NEW).err().unwrap();
        assert!(matches!(error, StorageError::DamagedFile { .. }), "{error}");
    }
}

#[test]
fn a_full_disk_refuses_a_record_and_takes_later_ones() {
    let world = world();
    let (directory, mut wal, _) = open(&world);
    directory.limit_space(Some(2500));
    let mut taken = Vec::new();
    let mut refused = 0;
    for number in 0..60 {
        if number == 50 {
            directory.limit_space(None);
        }
        match wal.append(&directory, &record(number)) {
            Ok(_) => taken.push(record(number)),
            Err(error) => {
                assert!(error.is_out_of_space(), "{error}");
                refused += 1;
            }
        }
        wal.flush().unwrap();
    }
    assert!(refused > 10);
    assert_eq!(open(&world).2, taken);
}

#[test]
fn what_a_checkpoint_made_needless_is_not_replayed_and_a_gap_is_an_error() {
    let world = world();
    let (directory, mut wal, _) = open(&world);
    for number in 0..40 {
        wal.append(&directory, &record(number)).unwrap();
    }
    let start = wal.begin_checkpoint().unwrap();
    let before = world.image(&ImageChoice::default()).unwrap();
    wal.end_checkpoint(start);
    while wal.remove_needless(&directory).unwrap() {}
    assert!(wal_spares::give_up(&directory, &wal.take_spares()).unwrap());
    assert_eq!((wal.live_bytes(), wal.file_bytes()), (0, 1024));
    wal.append(&directory, &record(99)).unwrap();
    wal.flush().unwrap();
    assert_eq!(open_at(&world, start).unwrap().2, [record(99)]);
    assert!(open_at(&world, LogStart::NEW).is_err());
    assert!(open_at(&before, start).unwrap().2.is_empty());
    let mut left = directory.list().unwrap();
    left.retain(|name| name.contains(".wal."));
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn the_log_goes_on_while_a_checkpoint_is_made() {
    let world = world();
    let (directory, mut wal, _) = open(&world);
    for number in 0..20 {
        wal.append(&directory, &record(number)).unwrap();
    }
    let start = wal.begin_checkpoint().unwrap();
    for number in 20..40 {
        wal.append(&directory, &record(number)).unwrap();
    }
    wal.flush().unwrap();
    let all: Vec<_> = (0..40).map(record).collect();
    assert_eq!(open(&world.image(&ImageChoice::default()).unwrap()).2, all);
    wal.end_checkpoint(start);
    let mut removed = 0;
    loop {
        wal.verify(&directory).unwrap();
        let image = world.image(&ImageChoice::default()).unwrap();
        assert_eq!(open_at(&image, start).unwrap().2, all[20..]);
        if !wal.remove_needless(&directory).unwrap() {
            break;
        }
        removed += 1;
    }
    assert!(removed > 1);
    assert_eq!(wal.live_bytes(), wal.end().0 - start.lsn.0);
}

#[test]
fn a_file_whose_number_cannot_be_is_an_error() {
    let world = world();
    let (directory, mut wal, _) = open(&world);
    wal.append(&directory, &record(1)).unwrap();
    wal.flush().unwrap();
    let name = IDENTITY.file_name(KIND, 1);
    let image = world.image(&ImageChoice::default()).unwrap();
    let files = SimulatedDirectory::new(&image);
    files
        .rename(&name, &IDENTITY.file_name(KIND, u64::MAX))
        .unwrap();
    assert!(open_at(&image, LogStart::NEW).is_err());
}

/// Appends records until one fails.
fn fill(directory: &SimulatedDirectory, wal: &mut Wal<SimulatedDirectory>) -> Result<()> {
    for number in 0..30 {
        wal.append(directory, &record(number))?;
        if number % 3 == 0 {
            wal.flush()?;
        }
    }
    wal.close(directory)
}

#[test]
fn what_a_failed_sync_left_in_a_cache_is_durable_once_it_was_replayed() {
    let mut failed = 0;
    for effect in [
        Effect::SyncLost(ErrorKind::Other),
        Effect::SyncKept(ErrorKind::Other),
        Effect::Error(ErrorKind::Other),
    ] {
        for nth in 0..40 {
            let world = world();
            let (directory, mut wal, _) = open(&world);
            directory.inject(Fault {
                call: Call::Sync,
                nth,
                repeat: Repeat::Once,
                effect,
            });
            failed += u32::from(fill(&directory, &mut wal).is_err());
            drop(wal);
            directory.heal();
            // The same life of the machine: reads still see what was lost.
            let (directory, mut wal, mut expected) = open(&world);
            wal.append(&directory, &record(77)).unwrap();
            wal.flush().unwrap();
            expected.push(record(77));
            let image = world.image(&ImageChoice::default()).unwrap();
            assert_eq!(open(&image).2, expected, "sync {nth}, {effect:?}");
        }
    }
    assert!(failed > 60, "{failed} of the logs failed");
}

#[test]
fn what_was_proved_durable_is_not_written_again() {
    for closes in [false, true] {
        let world = world();
        let (directory, mut wal, _) = open(&world);
        for number in 0..5 {
            wal.append(&directory, &record(number)).unwrap();
            wal.flush().unwrap();
        }
        if closes {
            wal.close(&directory).unwrap();
        }
        let first = world.image(&ImageChoice::default()).unwrap();
        assert_eq!(open(&first).2.len(), 5);
        assert_eq!(first.stores() == 0, closes);
        let second = first.image(&ImageChoice::default()).unwrap();
        assert_eq!(open(&second).2.len(), 5);
        assert_eq!(second.stores(), 0);
    }
}

#[test]
fn a_log_of_a_version_that_counted_marks_goes_on() {
    let world = world();
    let (directory, mut wal, _) = open(&world);
    for number in 0..40 {
        wal.append(&directory, &record(number)).unwrap();
        // The mark is counted, as every mark was.
        wal.close(&directory).unwrap();
    }
    wal.verify(&directory).unwrap();
    let (_, wal, records) = open(&world);
    assert_eq!(records, (0..40).map(record).collect::<Vec<_>>());
    assert!(wal.segments.len() > 2);
    wal.verify(&directory).unwrap();
}
