//! A log with a directory of its own: the place of its files, the need of a database for it, and
//! refusals.
//!
//! Only the link in the database's directory names the place of the log, so the tests move and lose
//! logs as their owner would.

use crate::common::{Directory, people};
use indelible::{Choice, Database, Domain, Error, Method, Mode, Options};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Methods whose log is in files, and one that has it in memory.
const METHODS: [Method; 4] = [
    Method::FullPageWrites,
    Method::NvDisk,
    Method::NvDiskDecentralized,
    Method::NvLogging,
];
/// Parts of the names of its files.
const LOGS: [&str; 3] = [".wal.", ".log.", ".ring."];

/// A method, and a log with a directory of its own.
fn options(method: impl Into<Choice>, log: &Directory) -> Options {
    Options::new().method(method).log_directory(log.path())
}

/// Adds a hundred rows, without an orderly end.
fn fill(database: &Database, from: i64) {
    let table = database.table("people").unwrap();
    for id in from..from + 100 {
        database
            .transaction(|t| t.insert(&table, (id, "name", None::<i64>)))
            .unwrap();
    }
}

fn count(database: &Database) -> u64 {
    let table = database.table("people").unwrap();
    let found = (0..1000_i64).filter(|id| {
        let row = database.read(|r| r.get(&table, *id));
        row.unwrap().is_some()
    });
    found.count() as u64
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    entries
        .map(|entry| name(entry).into_string().unwrap())
        .collect()
}

fn has(directory: &Path, part: &str) -> bool {
    names(directory).iter().any(|name| name.contains(part))
}

#[test]
fn the_log_is_there_and_the_pages_are_here() {
    for method in METHODS {
        let (here, there) = (Directory::new(), Directory::new());
        let database = Database::create(here.path(), &options(method, &there)).unwrap();
        people(&database);
        fill(&database, 0);
        for log in LOGS {
            assert!(!has(here.path(), log), "{method} has {log} beside pages");
        }
        let (pages, log) = (names(here.path()), names(there.path()));
        assert!(
            LOGS.iter().any(|log| has(there.path(), log)),
            "{method}: {log:?}"
        );
        assert!(
            has(here.path(), ".pages") && !has(there.path(), ".pages"),
            "{method}: {pages:?}"
        );
        drop(database);
        // Opened without the option for the log, and with it.
        let database = Database::open(here.path()).unwrap();
        assert_eq!(count(&database), 100, "{method}");
        fill(&database, 100);
        drop(database);
        let same = Options::new().log_directory(there.path());
        let database = Database::open_with(here.path(), &same).unwrap();
        assert_eq!(count(&database), 200, "{method}");
        drop(database);
        let reader = Options::new().mode(Mode::ReadOnly);
        let database = Database::open_with(here.path(), &reader).unwrap();
        assert_eq!(count(&database), 200, "{method}");
    }
}

#[test]
fn auto_takes_durable_memory_beside_a_disk_for_the_log() {
    let (here, there) = (Directory::new(), Directory::new());
    let database = Database::create(here.path(), &options(Choice::Auto, &there)).unwrap();
    let is_shared_memory = there.path().starts_with("/dev/shm");
    assert_eq!(database.method() == Method::NvLogging, is_shared_memory);
}

#[test]
fn a_log_that_moves_is_found_and_one_that_is_lost_is_named() {
    for method in METHODS {
        let (here, there, elsewhere) = (Directory::new(), Directory::new(), Directory::new());
        let database = Database::create(here.path(), &options(method, &there)).unwrap();
        people(&database);
        fill(&database, 0);
        drop(database);
        fs::rename(there.path(), elsewhere.path()).unwrap();
        let error = Database::open(here.path()).unwrap_err();
        let told = error.to_string();
        assert!(matches!(error, Error::MissingLog { .. }), "{told}");
        assert!(told.contains(there.path().to_str().unwrap()), "{told}");
        let link = here.path().join("log");
        fs::remove_file(&link).unwrap();
        let error = Database::open(here.path()).unwrap_err();
        assert!(
            !error.to_string().is_empty(),
            "{method} opens without its log"
        );
        std::os::unix::fs::symlink(elsewhere.path(), &link).unwrap();
        assert_eq!(count(&Database::open(here.path()).unwrap()), 100);
    }
}

#[test]
fn the_log_of_another_database_is_refused() {
    for method in METHODS {
        let first = (Directory::new(), Directory::new());
        let second = (Directory::new(), Directory::new());
        for (here, there) in [&first, &second] {
            let database = Database::create(here.path(), &options(method, there)).unwrap();
            people(&database);
        }
        let link = first.0.path().join("log");
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(second.1.path(), &link).unwrap();
        let refused = Database::open(first.0.path());
        assert!(refused.is_err(), "{method} takes a foreign log");
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(first.1.path(), &link).unwrap();
        Database::open(first.0.path()).unwrap();
        Database::open(second.0.path()).unwrap();
    }
}

#[test]
fn what_makes_no_sense_is_refused_and_leaves_nothing() {
    let (here, there) = (Directory::new(), Directory::new());
    let refused = |options: &Options| Database::create(here.path(), options).unwrap_err();
    let error = refused(&options(Method::NvmInp, &there));
    assert!(error.to_string().contains("log_directory"), "{error}");
    let error = refused(
        &Options::new()
            .method(Method::Dwb)
            .log_directory(here.path()),
    );
    assert!(error.to_string().contains("itself"), "{error}");
    // Shared memory never survives a power cut.
    let error = refused(&options(Method::NvLogging, &there).domain(Domain::Flush));
    assert!(!has(here.path(), "log"), "{error}");
    fs::write(there.path().join("notes.txt"), "mine").unwrap();
    let error = refused(&options(Method::NvLogging, &there));
    assert!(matches!(&error, Error::Occupied { path } if path == there.path()));
    assert!(!has(here.path(), "log") && has(there.path(), "notes.txt"));
    fs::remove_file(there.path().join("notes.txt")).unwrap();
    let database = Database::create(here.path(), &options(Method::NvLogging, &there)).unwrap();
    drop(database);
    let elsewhere = Directory::new();
    let error = Database::create(elsewhere.path(), &options(Method::NvLogging, &there));
    let told = error.unwrap_err().to_string();
    assert!(told.contains(here.path().to_str().unwrap()), "{told}");
    // An existing database keeps its own log, or the lack of one, even if an option asks for
    // another.
    let (plain, elsewhere) = (Directory::new(), Directory::new());
    Database::create(plain.path(), &Options::new().method(Method::Dwb)).unwrap();
    for directory in [&here, &plain] {
        let again = options(Method::NvLogging, &elsewhere);
        let error = Database::create(directory.path(), &again).unwrap_err();
        assert!(matches!(error, Error::Occupied { .. }), "{error}");
        Database::open(directory.path()).unwrap();
    }
    assert!(!has(plain.path(), "log") && !elsewhere.path().exists());
    let other = Options::new().log_directory("/");
    let error = Database::open_with(here.path(), &other).unwrap_err();
    assert!(error.to_string().contains("log_directory"), "{error}");
}

#[test]
fn a_database_is_removed_with_its_log_and_nothing_else() {
    let (here, there) = (Directory::new(), Directory::new());
    let database = Database::create(here.path(), &options(Method::NvLogging, &there)).unwrap();
    fs::write(there.path().join("notes.txt"), "mine").unwrap();
    assert!(matches!(
        Database::remove(here.path()),
        Err(Error::InUse { .. })
    ));
    drop(database);
    Database::remove(here.path()).unwrap();
    assert!(!here.path().exists());
    assert!(has(there.path(), "notes.txt") && !has(there.path(), "ring"));
    assert!(matches!(
        Database::remove(there.path()),
        Err(Error::NotADatabase { .. })
    ));
}

/// A copy of a database's directory has the links of the original, and opened the log and the
/// archive of that for writing: the original was destroyed.
#[test]
fn a_copy_without_its_log_does_not_take_that_of_the_original() {
    let [here, there, archive, copy] = std::array::from_fn(|_| Directory::new());
    let options = options(Method::NvLogging, &there).archive(archive.path());
    let database = Database::create(here.path(), &options).unwrap();
    people(&database);
    fill(&database, 0);
    database.close().unwrap();
    let copy_all = |from: &Directory, to: &Directory| {
        fs::create_dir(to.path()).unwrap();
        for name in names(from.path()) {
            let (from, to) = (from.path().join(&name), to.path().join(&name));
            match fs::read_link(&from) {
                Ok(target) => symlink(target, to).unwrap(),
                Err(_) => drop(fs::copy(from, to).unwrap()),
            }
        }
    };
    copy_all(&here, &copy);
    for refused in [
        Database::open(copy.path()).map(drop),
        Database::remove(copy.path()),
    ] {
        let error = refused.unwrap_err();
        let told = error.to_string();
        assert!(matches!(error, Error::LogOfAnother { .. }), "{told}");
        for directory in [&here, &there, &copy] {
            assert!(told.contains(directory.path().to_str().unwrap()), "{told}");
        }
    }
    let reader = Options::new().mode(Mode::ReadOnly);
    assert_eq!(
        count(&Database::open_with(copy.path(), &reader).unwrap()),
        100
    );

    // With a log and an archive of its own it is a database of its own.
    let own = [Directory::new(), Directory::new()];
    for ((name, original), own) in [("log", &there), ("archive", &archive)]
        .into_iter()
        .zip(&own)
    {
        copy_all(original, own);
        fs::remove_file(copy.path().join(name)).unwrap();
        symlink(own.path(), copy.path().join(name)).unwrap();
    }
    let copied = Database::open(copy.path()).unwrap();
    fill(&copied, 100);
    copied.close().unwrap();
    let database = Database::open(here.path()).unwrap();
    assert_eq!(count(&database), 100);
    database.close().unwrap();

    // One that was moved is not a copy.
    let moved = Directory::new();
    fs::rename(here.path(), moved.path()).unwrap();
    assert_eq!(count(&Database::open(moved.path()).unwrap()), 100);
    Database::remove(moved.path()).unwrap();
    assert_eq!(names(there.path()), [""; 0]);
    let left = names(archive.path());
    assert!(
        left.iter().all(|name| name.contains(".archive.")),
        "{left:?}"
    );
}

/// Copies that follow links (`cp -rL`, `scp -r`) have a directory with the log in the place of the
/// link, and the opening said that files were missing.
#[test]
fn a_copy_that_has_followed_links_is_a_database_of_its_own() {
    for method in METHODS {
        let [here, there, copy] = std::array::from_fn(|_| Directory::new());
        let database = Database::create(here.path(), &options(method, &there)).unwrap();
        people(&database);
        fill(&database, 0);
        database.close().unwrap();
        let log = copy.path().join("log");
        fs::create_dir_all(&log).unwrap();
        for (from, to) in [(here.path(), copy.path()), (there.path(), &*log)] {
            for name in names(from).iter().filter(|name| *name != "log") {
                fs::copy(from.join(name), to.join(name)).unwrap();
            }
        }
        let copied = Database::open(copy.path()).unwrap();
        fill(&copied, 100);
        copied.close().unwrap();
        assert_eq!(
            count(&Database::open(copy.path()).unwrap()),
            200,
            "{method}"
        );
        assert_eq!(
            count(&Database::open(here.path()).unwrap()),
            100,
            "{method}"
        );
        Database::remove(copy.path()).unwrap();
        assert!(!copy.path().exists());
    }
}

/// `archive` was ignored in a directory that had only the link to the log, and could be the
/// directory of the log, whose files it then had among its own.
#[test]
fn links_that_are_missing_are_made() {
    let [here, there, archive] = std::array::from_fn(|_| Directory::new());
    let same = options(Method::NvLogging, &there).archive(there.path());
    let error = Database::create(here.path(), &same).unwrap_err();
    assert!(error.to_string().contains("archive"), "{error}");
    assert!(!has(here.path(), "log"));
    for made in ["log", "archive"] {
        let [here, there, archive] = std::array::from_fn(|_| Directory::new());
        let target = if made == "log" { &there } else { &archive };
        for directory in [&here, target] {
            fs::create_dir(directory.path()).unwrap();
        }
        symlink(target.path(), here.path().join(made)).unwrap();
        let options = options(Method::NvLogging, &there).archive(archive.path());
        let database = Database::create(here.path(), &options).unwrap();
        assert!(has(there.path(), ".ring."));
        people(&database);
        fill(&database, 0);
        database.close().unwrap();
        assert!(has(archive.path(), ".archive."));
    }
    let database = Database::create(here.path(), &options(Method::NvLogging, &there)).unwrap();
    database.close().unwrap();
    let same = Options::new().archive(there.path());
    let error = Database::open_with(here.path(), &same).unwrap_err();
    assert!(error.to_string().contains("archive"), "{error}");
    let other = Options::new().archive(archive.path());
    Database::open_with(here.path(), &other).unwrap();
}

/// Nothing kept two databases from using one archive at once; the log was locked, the archive not.
#[test]
fn an_archive_in_use_is_refused() {
    let [here, there, copy] = std::array::from_fn(|_| Directory::new());
    let options = Options::new()
        .method(Method::FullPageWrites)
        .archive(there.path());
    let database = Database::create(here.path(), &options).unwrap();
    // As an earlier version would leave it.
    fs::remove_file(there.path().join("indelible.owner")).unwrap();
    let error = Database::create(copy.path(), &options).unwrap_err();
    assert!(matches!(error, Error::InUse { .. }), "{error}");
    drop(database);
}
