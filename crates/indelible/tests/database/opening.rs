//! Opening and creating: recorded options, surviving data, and the error for each kind of bad
//! input.
//!
//! Files are damaged on purpose; no damage may panic, and each message must name the fault. Kills
//! of real processes and power cuts are tested elsewhere.

use crate::common::{Directory, durable_methods, people, small_options};
use indelible::{Choice, Database, Domain, Error, Method, Options};
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

fn options(method: Method) -> Options {
    small_options(method).partitions(2)
}

#[test]
fn everything_is_there_after_reopening() {
    for method in durable_methods() {
        let directory = Directory::new();
        let db = Database::create(directory.path(), &options(method)).unwrap();
        let table = people(&db);
        db.create_table("dropped")
            .column("id", indelible::DataType::Int64)
            .create()
            .unwrap();
        db.drop_table("dropped").unwrap();
        db.transaction(|t| (0..200_i64).try_for_each(|id| t.insert(&table, (id, "x", Some(id)))))
            .unwrap();
        let dropped_id = table.id();
        drop((table, db));
        for _ in 0..3 {
            let db = Database::open(directory.path()).unwrap();
            assert_eq!((db.method(), db.partitions()), (method, 2));
            let table = db.table("people").unwrap();
            assert_eq!(table.id(), dropped_id);
            assert!(db.table("dropped").is_err());
            assert_eq!(db.read(|r| r.count(&table, ..)).unwrap(), 200);
            let by_name = table.index("by_name").unwrap();
            assert_eq!(db.read(|r| r.find(&by_name, "x")).unwrap().len(), 200);
            let report = db.verify().unwrap();
            assert!(report.damage.is_empty(), "{:?}", report.damage);
            // Touches both partitions, so it goes through the commit table.
            db.transaction(|t| {
                t.delete(&table, 0_i64)?;
                t.delete(&table, 1_i64)?;
                t.insert(&table, (0_i64, "x", None::<i64>))?;
                t.insert(&table, (1_i64, "x", None::<i64>))
            })
            .unwrap();
        }
    }
}

/// Each opening that wrote left a segment of the log with its whole length, and no checkpoint was
/// due for their few records: 200 rows took 3 GB.
#[test]
fn openings_that_write_little_leave_few_segments() {
    let directory = Directory::new();
    let db = Database::create(directory.path(), &options(Method::Inp)).unwrap();
    people(&db);
    drop(db);
    for first in (0..40_i64).step_by(2) {
        let db = Database::open(directory.path()).unwrap();
        let table = db.table("people").unwrap();
        let count = db.read(|r| r.count(&table, ..)).unwrap();
        assert_eq!(count, first.cast_unsigned());
        for id in [first, first + 1] {
            db.transaction(|t| t.insert(&table, (id, "x", Some(id))))
                .unwrap();
        }
        drop((table, db));
        let names = fs::read_dir(directory.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let segments = names.filter(|name| name.contains(".wal."));
        let segments: Vec<String> = segments.collect();
        assert!(segments.len() <= 2 * 5, "{segments:?}");
    }
    let db = Database::open(directory.path()).unwrap();
    assert!(db.verify().unwrap().damage.is_empty());
}

#[test]
fn numbers_of_tables_are_never_used_again() {
    for method in durable_methods() {
        let directory = Directory::new();
        let db = Database::create(directory.path(), &options(method)).unwrap();
        let first = people(&db).id();
        db.drop_table("people").unwrap();
        drop(db);
        let db = Database::open(directory.path()).unwrap();
        assert!(people(&db).id() > first);
    }
}

#[test]
fn a_second_opener_is_refused_at_once() {
    let directory = Directory::new();
    let db = Database::create(directory.path(), &options(Method::NvmInp)).unwrap();
    let error = Database::open(directory.path()).unwrap_err();
    assert!(
        matches!(&error, Error::InUse { holder: Some(holder), .. } if holder.process == std::process::id())
            && error.should_retry(),
        "{error}"
    );
    assert!(matches!(
        Database::create(directory.path(), &Options::new()),
        Err(Error::InUse { .. } | Error::Occupied { .. })
    ));
    let clone = db.clone();
    drop(db);
    assert!(
        Database::open(directory.path()).is_err(),
        "a handle is left"
    );
    drop(clone);
    Database::open(directory.path()).unwrap().close().unwrap();
}

/// Between its fork and its exec a child has all descriptors of its parent.
#[test]
fn a_child_that_begins_keeps_no_database_that_was_closed() {
    let directory = Directory::new();
    drop(Database::create(directory.path(), &options(Method::NvmInp)).unwrap());
    let end = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                while !end.load(Ordering::Relaxed) {
                    Command::new("true").status().unwrap();
                }
            });
        }
        let opened: Result<Vec<_>, _> = (0..300)
            .map(|_| Database::open(directory.path()).map(drop))
            .collect();
        end.store(true, Ordering::Relaxed);
        opened.unwrap();
    });
}

#[test]
fn paths_that_are_no_database_are_told_apart() {
    let directory = Directory::new();
    assert!(matches!(
        Database::open(directory.path()),
        Err(Error::Missing { .. })
    ));
    fs::create_dir(directory.path()).unwrap();
    assert!(matches!(
        Database::open(directory.path()),
        Err(Error::NotADatabase { .. })
    ));
    fs::write(directory.path().join("notes.txt"), "mine").unwrap();
    let error = Database::create(directory.path(), &Options::new()).unwrap_err();
    assert!(matches!(error, Error::Occupied { .. }), "{error}");
    assert!(
        directory.path().join("notes.txt").exists(),
        "foreign files stay"
    );
    fs::write(directory.path().join("p0.pool"), [0; 4096]).unwrap();
    // It may hold data: no error advises to remove it, at opening and at creation alike.
    for error in [
        Database::open(directory.path()).unwrap_err(),
        Database::create(directory.path(), &Options::new()).unwrap_err(),
    ] {
        assert!(matches!(error, Error::NoDescriptor { .. }), "{error}");
    }
    let file = directory.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(matches!(
        Database::open(&file),
        Err(Error::NotADatabase { .. })
    ));
    assert!(matches!(
        Database::create(&file, &Options::new()),
        Err(Error::NotADatabase { .. })
    ));
}

#[test]
fn a_failed_creation_takes_its_files_back() {
    let directory = Directory::new();
    // Shared memory never survives a power cut, and it must not be claimed.
    let claim = options(Method::NvmInp).domain(Domain::Flush);
    if !directory.path().starts_with("/dev/shm") {
        return;
    }
    let error = Database::create(directory.path(), &claim).unwrap_err();
    assert!(error.to_string().contains("shared memory"), "{error}");
    Database::open_or_create(directory.path(), &options(Method::NvmInp)).unwrap();
    let db = Database::open_or_create(directory.path(), &Options::new()).unwrap();
    assert_eq!(
        (db.survives(), db.method()),
        ("process death", Method::NvmInp)
    );
}

#[test]
fn auto_is_the_method_for_the_medium_and_an_opened_database_keeps_its_own() {
    let place = |name: &str| {
        let name = format!("{name}-{}", std::process::id());
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        path
    };
    let path = place("auto");
    let auto = Options::new().method(Choice::Auto);
    let db = Database::create(&path, &auto).unwrap();
    let expected = match db.survives() {
        // If the build's directory is in memory.
        "process death" => Method::NvmInp,
        _ => Method::FullPageWrites,
    };
    assert_eq!(db.method(), expected);
    let table = people(&db);
    db.transaction(|t| (0..200_i64).try_for_each(|id| t.insert(&table, (id, "x", Some(id)))))
        .unwrap();
    drop((table, db));
    let db = Database::open_with(&path, &auto).unwrap();
    assert_eq!(db.method(), expected);
    let table = db.table("people").unwrap();
    assert_eq!(db.read(|r| r.count(&table, ..)).unwrap(), 200);
    drop((table, db));
    let old = place("older");
    drop(Database::create(&old, &options(Method::Inp)).unwrap());
    for again in [Options::new(), auto] {
        let db = Database::open_or_create(&old, &again).unwrap();
        assert_eq!(db.method(), Method::Inp);
    }
    for path in [path, old] {
        fs::remove_dir_all(path).unwrap();
    }
}

#[test]
fn other_options_than_the_recorded_ones_are_refused() {
    let directory = Directory::new();
    drop(Database::create(directory.path(), &options(Method::NvmInp)).unwrap());
    let other: [(Options, &str); 4] = [
        (Options::new().method(Method::Inp), "method"),
        (Options::new().partitions(3), "partitions"),
        (Options::new().node_bytes(1024), "node_bytes"),
        (
            Options::new().layout(indelible::LayoutKind::Separate),
            "layout",
        ),
    ];
    for (options, name) in other {
        let error = Database::open_with(directory.path(), &options).unwrap_err();
        assert!(error.to_string().contains(&format!("`{name}`")), "{error}");
    }
    let same = Options::new().method(Choice::Auto).partitions(2);
    Database::open_with(directory.path(), &same).unwrap();
}

#[test]
fn damaged_files_give_errors_and_never_panics() {
    for method in durable_methods() {
        let directory = Directory::new();
        drop(Database::create(directory.path(), &options(method)).unwrap());
        let descriptor = directory.path().join("indelible.db");
        let whole = fs::read(&descriptor).unwrap();
        for length in [0, 1, whole.len() - 1] {
            fs::write(&descriptor, &whole[..length]).unwrap();
            let error = Database::open(directory.path()).unwrap_err();
            assert!(matches!(error, Error::DamagedDescriptor { .. }), "{error}");
        }
        fs::write(&descriptor, vec![0xA5; 128]).unwrap();
        assert!(Database::open(directory.path()).is_err());
        fs::write(&descriptor, &whole).unwrap();
        for name in ["commits.pool", "p1.pool"] {
            let file = directory.path().join(name);
            let Ok(bytes) = fs::read(&file) else { continue };
            for damaged in [Vec::new(), vec![0; 4096], bytes[..bytes.len() / 2].to_vec()] {
                fs::write(&file, damaged).unwrap();
                let error = Database::open(directory.path()).unwrap_err();
                assert!(!error.should_retry(), "{error}");
            }
            fs::remove_file(&file).unwrap();
            assert!(Database::open(directory.path()).is_err());
            fs::write(&file, bytes).unwrap();
        }
        Database::open(directory.path()).unwrap();
    }
}

#[test]
fn files_of_two_databases_do_not_mix() {
    for method in durable_methods() {
        let (one, two) = (Directory::new(), Directory::new());
        drop(Database::create(one.path(), &options(method)).unwrap());
        drop(Database::create(two.path(), &options(method)).unwrap());
        for name in ["commits.pool", "p0.pool"] {
            let Ok(own) = fs::read(one.path().join(name)) else {
                continue;
            };
            fs::copy(two.path().join(name), one.path().join(name)).unwrap();
            let error = Database::open(one.path()).unwrap_err();
            assert!(!error.should_retry(), "{error}");
            fs::write(one.path().join(name), own).unwrap();
        }
        Database::open(one.path()).unwrap();
    }
}

#[test]
fn hints_take_memory_as_rows_come_and_none_without_a_budget() {
    for (budget, has_hints) in [(None, true), (Some(0), false)] {
        let directory = Directory::new();
        let mut options = options(Method::NvmInp);
        if let Some(bytes) = budget {
            options = options.hint_bytes(bytes);
        }
        let db = Database::create(directory.path(), &options).unwrap();
        let table = people(&db);
        let hint_bytes = |db: &Database| db.statistics().unwrap().hint_bytes;
        assert_eq!(hint_bytes(&db), 0);
        for id in 0..100_i64 {
            db.transaction(|t| t.insert(&table, (id, "x", None::<i64>)))
                .unwrap();
        }
        assert_eq!(hint_bytes(&db) > 0, has_hints);
        drop((table, db));
        // An opening makes none; look-ups do.
        let db = Database::open_with(directory.path(), &options).unwrap();
        let table = db.table("people").unwrap();
        assert_eq!(hint_bytes(&db), 0);
        for id in 0..100_i64 {
            assert!(db.read(|r| r.get(&table, id)).unwrap().is_some());
        }
        assert_eq!(hint_bytes(&db) > 0, has_hints);
    }
}

#[test]
fn statistics_tell_what_the_database_is() {
    for method in durable_methods() {
        let directory = Directory::new();
        let db = Database::create(directory.path(), &options(method)).unwrap();
        let table = people(&db);
        db.transaction(|t| t.insert(&table, (1_i64, "x", None::<i64>)))
            .unwrap();
        let statistics = db.statistics().unwrap();
        assert_eq!(
            (statistics.method, statistics.partitions, statistics.tables),
            (method, 2, 1)
        );
        assert!(statistics.footprint.total() > 0);
        assert!(statistics.memory.fences + statistics.disk.syncs > 0);
        db.checkpoint().unwrap();
        db.force().unwrap();
    }
}
