//! The log alone: what is replayed after which ending.
//!
//! On the simulated disk, so that tails can be torn and the disk can be full. Crash tests of the
//! log together with its checkpoints stand with the engine.

use super::*;
use disk::simulated::SimulatedDirectory;
use pmem::device::simulated::{ImageChoice, ImageChoices, SimulatedWorld, WorldOptions};

const IDENTITY: LogIdentity = LogIdentity {
    database: 5,
    partition: 2,
};
const OPTIONS: WalOptions = WalOptions {
    segment_bytes: 1024,
    buffer_bytes_max: 256,
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
                assert!(matches!(
                    error,
                    StorageError::Disk(DiskError::OutOfSpace { .. })
                ));
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
    let start = wal.next_start().unwrap();
    let before = world.image(&ImageChoice::default()).unwrap();
    wal.remove_before(&directory, start).unwrap();
    assert_eq!((wal.live_bytes(), wal.file_bytes()), (0, 0));
    wal.append(&directory, &record(99)).unwrap();
    wal.flush().unwrap();
    assert_eq!(open_at(&world, start).unwrap().2, [record(99)]);
    assert!(open_at(&world, LogStart::NEW).is_err());
    assert!(open_at(&before, start).unwrap().2.is_empty());
    let left = directory.list().unwrap();
    assert_eq!(left.len(), 1, "{left:?}");
}
