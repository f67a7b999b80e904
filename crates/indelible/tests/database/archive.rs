//! An archive of the log: its content, openings without the option, and refusals.
//!
//! Only the link in the database's directory names the archive, so the tests move, lose and
//! exchange archives as their owner would.

use crate::common::{Directory, people};
use indelible::{ArchiveRange, Database, Error, Method, Options};
use std::fs;
use std::os::unix::fs::symlink;

/// One for each kind of log.
const METHODS: [Method; 4] = [
    Method::FullPageWrites,
    Method::NvDiskDecentralized,
    Method::NvLogging,
    Method::DistributedLog,
];

fn options(method: Method, archive: &Directory) -> Options {
    Options::new()
        .method(method)
        .partitions(2)
        .archive(archive.path())
}

/// Adds ten rows, and closes in order.
fn fill(database: Database, from: i64) {
    let table = database.table("people").unwrap();
    for id in from..from + 10 {
        database
            .transaction(|t| t.insert(&table, (id, "name", None::<i64>)))
            .unwrap();
    }
    drop(table);
    database.close().unwrap();
}

/// The content of the archives of both partitions.
fn archives(here: &Directory) -> Vec<ArchiveRange> {
    let database = Database::open(here.path()).unwrap();
    assert!(database.verify().unwrap().damage.is_empty());
    let found = database.archives().unwrap();
    found.into_iter().map(Option::unwrap).collect()
}

#[test]
fn it_grows_with_each_use_also_without_the_option() {
    for method in METHODS {
        let (here, there) = (Directory::new(), Directory::new());
        let database = Database::create(here.path(), &options(method, &there)).unwrap();
        people(&database);
        fill(database, 0);
        let first = archives(&here);
        fill(Database::open(here.path()).unwrap(), 10);
        for (before, after) in first.iter().zip(archives(&here)) {
            assert!(before.records > 0 && after.records > before.records);
            assert!(after.files > before.files && after.gaps.is_empty());
        }
        // The other one names the database.
        let files = fs::read_dir(there.path()).unwrap().count() as u64 - 1;
        assert_eq!(files, archives(&here).iter().map(|of| of.files).sum());
    }
}

#[test]
fn one_that_moves_is_found_and_one_that_is_lost_or_foreign_is_named() {
    let (here, there, elsewhere) = (Directory::new(), Directory::new(), Directory::new());
    let method = Method::NvLogging;
    let database = Database::create(here.path(), &options(method, &there)).unwrap();
    people(&database);
    fill(database, 0);
    fs::rename(there.path(), elsewhere.path()).unwrap();
    let error = Database::open(here.path()).unwrap_err();
    let told = error.to_string();
    assert!(matches!(error, Error::MissingArchive { .. }), "{told}");
    assert!(told.contains(there.path().to_str().unwrap()), "{told}");
    let link = here.path().join("archive");
    fs::remove_file(&link).unwrap();
    symlink(elsewhere.path(), &link).unwrap();
    assert_eq!(archives(&here).len(), 2);
    let other = Directory::new();
    let error = Database::create(other.path(), &options(method, &elsewhere)).unwrap_err();
    assert!(error.to_string().contains("another database"), "{error}");
    let wanted = Options::new().archive(there.path());
    let error = Database::open_with(here.path(), &wanted).unwrap_err();
    assert!(error.to_string().contains("was asked for"), "{error}");
}

#[test]
fn a_log_that_was_used_without_it_leaves_a_gap_that_is_told() {
    for method in METHODS {
        let (here, there) = (Directory::new(), Directory::new());
        let database = Database::create(here.path(), &options(method, &there)).unwrap();
        people(&database);
        fill(database, 0);
        fs::remove_file(here.path().join("archive")).unwrap();
        fill(Database::open(here.path()).unwrap(), 10);
        let again = Options::new().archive(there.path());
        fill(Database::open_with(here.path(), &again).unwrap(), 20);
        for archive in archives(&here) {
            let [(from, to)] = archive.gaps[..] else {
                panic!("{method}: {archive:?}");
            };
            assert!(from < to && archive.range.unwrap().1 > to);
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused_and_leaves_nothing() {
    let (here, there) = (Directory::new(), Directory::new());
    for method in [Method::NvmInp, Method::Inp, Method::InPlace] {
        let error = Database::create(here.path(), &options(method, &there)).unwrap_err();
        assert!(error.to_string().contains("archive"), "{error}");
    }
    let itself = Options::new()
        .method(Method::NvLogging)
        .archive(here.path());
    let error = Database::create(here.path(), &itself).unwrap_err();
    assert!(error.to_string().contains("itself"), "{error}");
    Database::create(here.path(), &Options::new().method(Method::NvmInp)).unwrap();
    let begun = Options::new().archive(there.path());
    let error = Database::open_with(here.path(), &begun).unwrap_err();
    assert!(error.to_string().contains("archive"), "{error}");
    assert!(!here.path().join("archive").exists());
}

/// An archive that could not take records failed in silence until the log's own disk was full.
#[test]
fn one_that_fails_says_so_to_who_asks() {
    for method in METHODS {
        let (here, there) = (Directory::new(), Directory::new());
        let database = Database::create(here.path(), &options(method, &there)).unwrap();
        let table = people(&database);
        let insert = |id: i64| {
            database
                .transaction(|t| t.insert(&table, (id, "name", None::<i64>)))
                .unwrap();
            database.checkpoint().unwrap();
            // A thread of its own moves the records.
            std::thread::sleep(std::time::Duration::from_millis(5));
            database.archive_state().unwrap()
        };
        let mut ids = 0..1000_i64;
        let taken = ids.find(|id| insert(*id).taken > 0);
        assert!(taken.is_some(), "{method}");
        fs::remove_dir_all(there.path()).unwrap();
        let failed = ids.find(|id| insert(*id).failure.is_some());
        assert!(failed.is_some(), "{method}");
        let state = database.archive_state().unwrap();
        let failure = state.failure.unwrap();
        assert!(
            state.failed > 0 && failure.starts_with("partition "),
            "{failure}"
        );
    }
    let here = Directory::new();
    let database = Database::create(here.path(), &Options::new()).unwrap();
    assert_eq!(database.archive_state(), None);
}
