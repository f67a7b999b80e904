//! Reading without the right to write: no store, no write, no sync, and a clear error where
//! recovery has work to do.
//!
//! Tests may run as root, to whom file modes mean nothing, so they check the effects: the mappings
//! of the process, the counters of the devices, the bytes and times of the files.

use crate::common::{Directory, people};
use disk::Directory as _;
use disk::simulated::SimulatedDirectory;
use indelible::{Database, Error, Method, MethodOption, Mode, Options};
use pmem::device::simulated::{ImageChoices, SimulatedWorld, WorldOptions};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};
use torture::SimulatedPlatform;

fn reading() -> Options {
    Options::new().mode(Mode::ReadOnly)
}

fn readable() -> impl Iterator<Item = Method> {
    Method::distinct().filter(|method| method.opens_for_reading())
}

fn options(method: Method) -> Options {
    let options = Options::new()
        .fitting(method, [MethodOption::BufferBytes(1 << 20)])
        .partitions(2);
    match method {
        // A simulated memory has 8 MiB.
        Method::DistributedLog => options.ring_bytes(0).rings(2),
        Method::NvmDwbLogOpt => options.ring_bytes(0).area_bytes(2 << 20),
        _ => options.fitting(method, [MethodOption::RingBytes(0)]),
    }
}

fn fill(db: &Database, rows: i64) {
    let table = people(db);
    for id in 0..rows {
        db.transaction(|t| t.insert(&table, (id, "x", Some(id))))
            .unwrap();
    }
}

/// Names, contents and times of change of all files.
fn files(path: &Path) -> Vec<(String, Vec<u8>, SystemTime)> {
    let mut files: Vec<_> = fs::read_dir(path)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let changed = fs::metadata(&path).unwrap().modified().unwrap();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read(&path).unwrap(), changed)
        })
        .collect();
    files.sort();
    files
}

fn set_modes(path: &Path, directory: u32, file: u32) {
    for entry in fs::read_dir(path).unwrap() {
        fs::set_permissions(entry.unwrap().path(), Permissions::from_mode(file)).unwrap();
    }
    fs::set_permissions(path, Permissions::from_mode(directory)).unwrap();
}

/// Everything that reads works, and everything that writes is refused.
fn use_read_only(db: &Database, rows: u64) {
    let table = db.table("people").unwrap();
    assert_eq!(db.read(|r| r.count(&table, ..)).unwrap(), rows);
    let by_name = table.index("by_name").unwrap();
    let found = db.read(|r| r.find(&by_name, "x")).unwrap();
    assert_eq!(found.len() as u64, rows);
    assert_eq!(db.transaction(|t| t.count(&table, ..)).unwrap(), rows);
    assert!(db.verify().unwrap().damage.is_empty());
    assert!(db.statistics().unwrap().footprint.total() > 0);
    db.force().unwrap();
    assert!(matches!(
        db.transaction(|t| t.insert(&table, (-1_i64, "y", None::<i64>))),
        Err(Error::ReadOnly)
    ));
    assert!(matches!(db.checkpoint(), Err(Error::ReadOnly)));
    assert!(matches!(db.drop_table("people"), Err(Error::ReadOnly)));
    let mut copy = Vec::new();
    assert_eq!(db.backup_to(&mut copy, &mut |_| {}).unwrap().rows, rows);
}

/// The lines of this process's mappings of files in a directory.
fn mappings(directory: &Directory) -> Vec<String> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let path = directory.path().to_str().unwrap();
    let ours = maps.lines().filter(|line| line.contains(path));
    ours.map(str::to_owned).collect()
}

#[test]
fn files_without_the_right_to_write_are_enough() {
    for method in readable() {
        let directory = Directory::new();
        let db = Database::create(directory.path(), &options(method)).unwrap();
        fill(&db, 100);
        db.close().unwrap();
        set_modes(directory.path(), 0o555, 0o444);
        let before = files(directory.path());
        let db = Database::open_with(directory.path(), &reading()).unwrap();
        use_read_only(&db, 100);
        let ours = mappings(&directory);
        assert!(!ours.is_empty(), "the commit table at least is mapped");
        // A thread that touches pages of the first database keeps its memory to the end of a piece.
        let is_mapped = || mappings(&directory).iter().any(|line| line.contains(" rw"));
        let mut tries = 0..30_000;
        while is_mapped() {
            assert!(tries.next().is_some(), "{:?}", mappings(&directory));
            std::thread::sleep(Duration::from_millis(1));
        }
        let statistics = db.statistics().unwrap();
        assert_eq!((statistics.disk.writes, statistics.disk.syncs), (0, 0));
        db.close().unwrap();
        assert_eq!(files(directory.path()), before, "{method}");
        set_modes(directory.path(), 0o755, 0o644);
        Database::open(directory.path()).unwrap();
    }
}

/// Any number of readers, or one writer.
#[test]
fn readers_keep_writers_out_and_not_each_other() {
    for method in readable() {
        let directory = Directory::new();
        let writer = Database::create(directory.path(), &options(method)).unwrap();
        fill(&writer, 20);
        let open = |options: &Options| Database::open_with(directory.path(), options);
        let is_refused = |options: &Options| {
            let error = open(options).unwrap_err();
            matches!(error, Error::InUse { .. }) && error.to_string().contains("in use")
        };
        assert!(is_refused(&reading()), "{method}");
        writer.close().unwrap();
        let readers = [0, 1, 2].map(|_| open(&reading()).unwrap());
        for reader in readers {
            use_read_only(&reader, 20);
            assert!(is_refused(&Options::new()), "{method}");
            reader.close().unwrap();
        }
        open(&Options::new()).unwrap();
    }
}

#[test]
fn every_durable_method_can_be_only_read() {
    let readable: Vec<Method> = readable().collect();
    assert_eq!(readable, crate::common::durable_methods());
}

#[test]
fn nothing_is_stored_on_a_device_that_counts() {
    for method in readable() {
        let world = SimulatedWorld::new(WorldOptions::default());
        let db = Database::create_on(SimulatedPlatform::new(&world), &options(method)).unwrap();
        fill(&db, 50);
        db.close().unwrap();
        let counted = || SimulatedDirectory::new(&world).counters();
        let (stores, hash, files) = (world.stores(), world.hash(), counted());
        let db = Database::open_on(SimulatedPlatform::new(&world), &reading()).unwrap();
        use_read_only(&db, 50);
        let statistics = db.statistics().unwrap();
        db.close().unwrap();
        assert_eq!(world.hash(), hash, "{method}");
        assert_eq!(
            (counted().writes, counted().syncs),
            (files.writes, files.syncs)
        );
        if matches!(
            method,
            Method::NvmInp | Method::NvmCow | Method::Fash | Method::Fast
        ) {
            // The tables of `inp` are made anew in volatile memory, and pages of `cow` are cached
            // there, which takes stores.
            assert_eq!(world.stores(), stores);
            let parts = statistics.memory.parts;
            assert_eq!(parts.iter().map(|part| part.stores).sum::<u64>(), 0);
            assert_eq!(parts.iter().map(|part| part.lines_flushed).sum::<u64>(), 0);
            assert_eq!(statistics.memory.fences, 0);
        }
    }
}

/// Images of every moment of some transactions: reading them either works and changes nothing, or
/// asks for recovery, after which it works.
#[test]
fn what_a_crash_has_left_is_read_or_asked_to_be_recovered() {
    for method in readable() {
        let world = SimulatedWorld::new(WorldOptions::default());
        let db = Database::create_on(SimulatedPlatform::new(&world), &options(method)).unwrap();
        fill(&db, 3);
        let (sender, images) = std::sync::mpsc::channel();
        world.observe(move |world, _| {
            // The image without any undecided change, and the one with all of them.
            for choice in ImageChoices::bounded(world, 1, 2) {
                sender.send(world.image(&choice).unwrap()).unwrap();
            }
        });
        let table = db.table("people").unwrap();
        for id in 10..if tests::is_long() { 14 } else { 12_i64 } {
            // Over both partitions: prepared, decided, committed.
            db.transaction(|t| {
                t.insert(&table, (id, "x", Some(id)))?;
                t.insert(&table, (id + 1001, "x", Some(id)))
            })
            .unwrap();
            db.transaction(|t| t.insert(&table, (id + 2000, "x", Some(id))))
                .unwrap();
        }
        world.unobserve();
        let (mut read, mut asked) = (0, 0);
        while let Ok(image) = images.try_recv() {
            let hash = image.hash();
            let rows_of = |options: &Options| -> Result<u64, Error> {
                let db = Database::open_on(SimulatedPlatform::new(&image), options)?;
                let table = db.table("people")?;
                let rows = db.read(|r| r.count(&table, ..))?;
                assert!(db.verify()?.damage.is_empty());
                db.close()?;
                Ok(rows)
            };
            match rows_of(&reading()) {
                Ok(rows) => {
                    read += 1;
                    assert_eq!(image.hash(), hash);
                    assert_eq!(rows_of(&Options::new()).unwrap(), rows);
                }
                Err(error) => {
                    asked += 1;
                    assert!(error.to_string().contains("once for writing"), "{error}");
                    assert_eq!(image.hash(), hash);
                    let rows = rows_of(&Options::new()).unwrap();
                    assert_eq!(rows_of(&reading()).unwrap(), rows);
                }
            }
        }
        // The page methods would have to write pages, so they ask whenever the log has anything.
        let always = method.is_paged();
        assert_eq!(read == 0, always, "{method}: {read} images could be read");
        // Methods with files have to decide and drop transactions too, but a reader does so in
        // memory only.
        let asks = matches!(
            method,
            Method::NvmInp | Method::NvmCow | Method::NvmLog | Method::Fash | Method::Fast
        ) || always;
        assert_eq!(asked > 0, asks, "{method}: {asked}");
    }
}
