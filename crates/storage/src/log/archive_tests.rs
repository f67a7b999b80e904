//! Goal: what an archive says it has is what was given to it, whatever a power cut or a bad disk
//! leaves; and a file that is not as it was written is one clear error.
//!
//! Method: files on the simulated disk; every image at each sync of a history; every byte of a file
//! flipped, every length of it cut.

use super::*;
use disk::simulated::SimulatedDirectory;
use pmem::device::simulated::{CrashPoint, ImageChoices, SimulatedWorld, WorldOptions};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

const IDENTITY: LogIdentity = LogIdentity {
    database: 7,
    partition: 1,
};

fn open(world: &SimulatedWorld) -> Archive<SimulatedDirectory> {
    Archive::open(SimulatedDirectory::new(world), IDENTITY).unwrap()
}

fn payload(number: u64) -> Vec<u8> {
    vec![number as u8; (number % 29) as usize]
}

/// Archives the records of a range, all of one file.
fn add(archive: &mut Archive<SimulatedDirectory>, first: u64, end: u64) -> Result<()> {
    let mut file = archive.begin(Lsn(first))?;
    for number in first..end {
        file.push(Lsn(number), &payload(number))?;
    }
    archive.publish(file, Lsn(end))
}

fn read(archive: &Archive<SimulatedDirectory>) -> Result<(ArchiveRange, Vec<u64>)> {
    let mut numbers = Vec::new();
    let range = archive.read(&mut |lsn, bytes| {
        assert_eq!(bytes, payload(lsn.0));
        numbers.push(lsn.0);
    })?;
    Ok((range, numbers))
}

#[test]
fn it_has_what_it_was_given_and_goes_on_there() {
    let world = SimulatedWorld::new(WorldOptions::default());
    assert_eq!(open(&world).end(), None);
    add(&mut open(&world), 8, 20).unwrap();
    let mut archive = open(&world);
    assert_eq!(archive.end(), Some(Lsn(20)));
    add(&mut archive, 20, 33).unwrap();
    add(&mut archive, 40, 50).unwrap();
    let (range, numbers) = read(&open(&world)).unwrap();
    assert_eq!(numbers, (8..33).chain(40..50).collect::<Vec<_>>());
    assert_eq!(range.range, Some((Lsn(8), Lsn(50))));
    assert_eq!(range.gaps, [(Lsn(33), Lsn(40))]);
    assert_eq!((range.files, range.records), (3, 35));
}

#[test]
fn two_files_with_one_record_are_damage() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut archive = open(&world);
    add(&mut archive, 8, 20).unwrap();
    archive.end = None;
    add(&mut archive, 19, 30).unwrap();
    let error = read(&archive).unwrap_err().to_string();
    assert!(
        error.contains("p1.archive.000002") && error.contains("from 19 on"),
        "{error}"
    );
}

#[test]
fn a_power_cut_leaves_files_that_are_whole_and_all_that_were_said_to_be_durable() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let durable = Arc::new(Mutex::new(8));
    let (known, images) = (Arc::clone(&durable), Arc::new(Mutex::new(0)));
    let counted = Arc::clone(&images);
    world.observe(move |world, point| {
        if !matches!(point, CrashPoint::Sync(_)) {
            return;
        }
        for choice in ImageChoices::bounded(world, 1, 20) {
            let image = world.image(&choice).unwrap();
            let mut archive = open(&image);
            let (range, numbers) = read(&archive).unwrap();
            let end = archive.end().map_or(8, |end| end.0);
            assert_eq!(numbers, (8..end).collect::<Vec<_>>());
            assert!(end >= *known.lock().unwrap() && range.gaps.is_empty());
            add(&mut archive, end, end + 5).unwrap();
            assert_eq!(read(&open(&image)).unwrap().1.len() as u64, end + 5 - 8);
            *counted.lock().unwrap() += 1;
        }
    });
    let mut archive = open(&world);
    for first in [8, 30, 90, 91] {
        let end =
            first + [22, 60, 1, 40][[8, 30, 90, 91].iter().position(|at| *at == first).unwrap()];
        add(&mut archive, first, end).unwrap();
        *durable.lock().unwrap() = end;
    }
    world.unobserve();
    assert!(*images.lock().unwrap() > 30);
}

#[test]
fn every_sync_is_needed() {
    use pmem::device::simulated::ImageChoice;
    for site in ["archive.file", "archive.publish"] {
        let world = SimulatedWorld::new(WorldOptions::default());
        world.disable(site);
        add(&mut open(&world), 8, 20).unwrap();
        let least = world.image(&ImageChoice { units: Vec::new() }).unwrap();
        let left = Archive::open(SimulatedDirectory::new(&least), IDENTITY);
        let is_whole = left.is_ok_and(|left| left.end() == Some(Lsn(20)));
        assert!(!is_whole, "nothing shows that {site} is missing");
    }
}

#[test]
fn a_full_disk_leaves_the_archive_as_it_was() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let directory = SimulatedDirectory::new(&world);
    let mut archive = open(&world);
    add(&mut archive, 8, 20).unwrap();
    directory.limit_space(Some(600));
    let mut file = archive.begin(Lsn(20)).unwrap();
    for number in 20..60 {
        file.push(Lsn(number), &payload(number)).unwrap();
    }
    assert!(archive.publish(file, Lsn(60)).is_err());
    assert_eq!(archive.end(), Some(Lsn(20)));
    directory.limit_space(None);
    add(&mut archive, 20, 60).unwrap();
    assert_eq!(read(&open(&world)).unwrap().1.len(), 52);
}

#[test]
fn every_flipped_byte_and_every_cut_is_one_error() {
    let name = "p1.archive.000001";
    let world = SimulatedWorld::new(WorldOptions::default());
    add(&mut open(&world), 8, 20).unwrap();
    let directory = SimulatedDirectory::new(&world);
    let mut file = directory.open(name).unwrap();
    let bytes = file.bytes().unwrap();
    let mut data = vec![0; bytes as usize];
    file.read_at(0, &mut data).unwrap();
    let error_of = |data: &[u8]| {
        let world = SimulatedWorld::new(WorldOptions::default());
        let directory = SimulatedDirectory::new(&world);
        directory.create(name).unwrap().write_at(0, data).unwrap();
        let archive = Archive::open(directory, IDENTITY);
        archive.and_then(|archive| read(&archive)).err()
    };
    assert!(error_of(&data).is_none());
    for at in 0..data.len() {
        data[at] ^= 0x10;
        let error = error_of(&data).map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.contains(name)), "byte {at}");
        data[at] ^= 0x10;
    }
    for length in 0..data.len() {
        let error = error_of(&data[..length]).map(|error| error.to_string());
        assert!(
            error.is_some_and(|error| error.contains(name)),
            "{length} bytes"
        );
    }
    let other = LogIdentity {
        database: 8,
        ..IDENTITY
    };
    let error = Archive::open(directory, other).err().unwrap().to_string();
    assert!(error.contains("another database"), "{error}");
}

/// The numbers that are replayed, and where they end.
fn replay(
    archive: &Archive<SimulatedDirectory>,
    from: u64,
    until: Option<u64>,
) -> Result<(Vec<u64>, u64)> {
    let mut numbers = Vec::new();
    let reached = archive.replay(Lsn(from), until.map(Lsn), &mut |lsn, _| {
        numbers.push(lsn.0);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((numbers, reached.0))
}

#[test]
fn a_replay_has_no_gap_and_ends_where_it_is_asked_to() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut archive = open(&world);
    for (first, end) in [(8, 20), (20, 33), (40, 50)] {
        add(&mut archive, first, end).unwrap();
    }
    let (numbers, reached) = replay(&archive, 12, Some(30)).unwrap();
    assert_eq!((numbers, reached), ((12..30).collect(), 30));
    let (numbers, reached) = replay(&archive, 25, Some(33)).unwrap();
    assert_eq!((numbers, reached), ((25..33).collect(), 33));
    assert_eq!(replay(&archive, 45, None).unwrap().1, 50);
    for (from, until, words) in [
        (8, None, ["p1.archive.000003", "33 is the last point"]),
        (8, Some(34), ["p1.archive.000003", "33 is the last point"]),
        (45, Some(51), ["ends at 50", "51"]),
        (12, Some(11), ["stands at 12", "11"]),
    ] {
        let told = replay(&archive, from, until).unwrap_err().to_string();
        assert!(words.iter().all(|word| told.contains(word)), "{told}");
    }
}

#[test]
fn nonsense_under_right_checksums_is_an_error_or_a_history_without_a_gap() {
    let name = "p1.archive.000001";
    let world = SimulatedWorld::new(WorldOptions::default());
    add(&mut open(&world), 8, 40).unwrap();
    let mut file = SimulatedDirectory::new(&world).open(name).unwrap();
    let mut data = vec![0; file.bytes().unwrap() as usize];
    file.read_at(0, &mut data).unwrap();
    let (mut random, mut read_wholly) = (1_u64, 0);
    for _ in 0..4000 {
        let mut wrong = data.clone();
        for _ in 0..3 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let at = (random >> 33) as usize % wrong.len();
            wrong[at] = (random >> 20) as u8 & if random >> 60 < 8 { 0x1f } else { 0xff };
        }
        let content = crc32c::crc32c_append(seed(IDENTITY), &wrong[HEADER_BYTES..]);
        wrong[80..84].copy_from_slice(&content.to_le_bytes());
        let sum = crc32c::crc32c(&wrong[..CHECKED_BYTES]);
        wrong[CHECKED_BYTES..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
        let world = SimulatedWorld::new(WorldOptions::default());
        let directory = SimulatedDirectory::new(&world);
        directory.create(name).unwrap().write_at(0, &wrong).unwrap();
        let Ok(archive) = Archive::open(directory, IDENTITY) else {
            continue;
        };
        if let Ok((numbers, reached)) = replay(&archive, 8, None) {
            assert!(numbers.is_sorted() && numbers.last().is_none_or(|last| *last < reached));
            // As many as the header says, whatever their numbers are.
            let known = archive.read(&mut |_, _| ()).unwrap();
            assert!(numbers.len() as u64 <= known.records);
            read_wholly += 1;
        }
    }
    assert!(
        read_wholly > 100,
        "{read_wholly} files are right by their checksums"
    );
}
