//! Snapshots: they show one moment and no other, nobody waits for them, and they keep no more space
//! than their content.
//!
//! The stress test has a reader and a writer on threads of their own, on real files and pools in
//! shared memory; the crash test runs on a simulated device, where every image of a moment with a
//! live snapshot must open whole and leak nothing.

use crate::common::{Directory, people};
use indelible::{
    DataType, Database, Direction, Durability, Error, Method, Options, Snapshot, Table,
};
use pmem::device::simulated::{ImageChoices, SimulatedWorld, WorldOptions};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use torture::SimulatedPlatform;

fn with_snapshots() -> impl Iterator<Item = Method> {
    Method::ALL.into_iter().filter(|m| m.has_snapshots())
}

fn options(method: Method, partitions: u32) -> Options {
    Options::new().method(method).partitions(partitions)
}

/// Primary keys in both directions, and the names in the order of their index.
fn shown(snapshot: &Snapshot, table: &Table) -> (Vec<i64>, Vec<String>) {
    let mut keys = Vec::new();
    let visit = |keys: &mut Vec<i64>, key: Option<i64>| {
        keys.extend(key);
        ControlFlow::Continue(())
    };
    snapshot
        .scan(table, .., Direction::Forward, |row| {
            visit(&mut keys, row.get(0).as_i64())
        })
        .unwrap();
    let mut backward = Vec::new();
    snapshot
        .scan(table, .., Direction::Backward, |row| {
            visit(&mut backward, row.get(0).as_i64())
        })
        .unwrap();
    backward.reverse();
    assert_eq!(keys, backward);
    let mut names = Vec::new();
    let by_name = table.index("by_name").unwrap();
    snapshot
        .scan_index(&by_name, .., Direction::Forward, |row| {
            names.push(row.get(1).as_str().unwrap().to_owned());
            ControlFlow::Continue(())
        })
        .unwrap();
    (keys, names)
}

#[test]
fn it_shows_its_moment_over_all_partitions() {
    for method in with_snapshots() {
        let directory = Directory::new();
        let db = Database::create(directory.path(), &options(method, 3)).unwrap();
        let table = people(&db);
        let empty = db.snapshot().unwrap();
        for id in 0..30_i64 {
            db.transaction(|t| t.insert(&table, (id, format!("n{:02}", 99 - id), Some(id))))
                .unwrap();
        }
        let full = db.snapshot().unwrap();
        let amount = table.column("amount").unwrap();
        db.transaction(|t| {
            for id in 0..30_i64 {
                if id % 3 == 0 {
                    t.delete(&table, id)?;
                } else {
                    let mut changes = table.changes();
                    changes.set(0, id + 100)?;
                    changes.set(1, "changed")?;
                    t.update(&table, id, &changes)?;
                }
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(shown(&empty, &table), (vec![], vec![]), "{method}");
        let names: Vec<String> = (0..30).map(|at| format!("n{}", 70 + at)).collect();
        assert_eq!(shown(&full, &table), ((0..30).collect(), names), "{method}");
        let row = full.get(&table, 7_i64).unwrap().unwrap();
        assert_eq!(row.get(amount).as_i64(), Some(7));
        assert_eq!(full.get(&table, 107_i64).unwrap(), None);
        assert_eq!(
            full.find(&table.index("by_name").unwrap(), "n92")
                .unwrap()
                .len(),
            1
        );
        let several = full.read(|r| {
            let mut found = 0;
            r.get_many(&table, &[1_i64, 2, 3, 200], |_, row| {
                found += i32::from(row.is_some());
            })?;
            Ok(found)
        });
        assert_eq!(several.unwrap(), 3);
        assert_eq!(full.verify().unwrap().damage, Vec::<String>::new());
        assert_eq!(full.verify().unwrap().rows, 30);
        let now = db.snapshot().unwrap();
        assert_eq!(now.count(&table, ..).unwrap(), 20);
        assert_eq!(db.verify().unwrap().damage, Vec::<String>::new());
        drop((empty, full));
        assert_eq!(now.count(&table, 100_i64..).unwrap(), 20);
        db.transaction(|t| t.insert(&table, (0_i64, "again", None::<i64>)))
            .unwrap();
        assert_eq!(db.verify().unwrap().damage, Vec::<String>::new());
    }
}

#[test]
fn it_shows_tables_that_are_gone_and_none_that_came_later() {
    for method in with_snapshots() {
        let directory = Directory::new();
        let db = Database::create(directory.path(), &options(method, 2)).unwrap();
        let table = people(&db);
        db.transaction(|t| t.insert(&table, (1_i64, "x", None::<i64>)))
            .unwrap();
        let snapshot = db.snapshot().unwrap();
        db.create_index(
            &table,
            "by_amount",
            ["amount"],
            indelible::Uniqueness::Repeating,
        )
        .unwrap();
        let later = table.index("by_amount").unwrap();
        assert!(matches!(
            snapshot.find(&later, 1_i64),
            Err(Error::Storage(_))
        ));
        db.drop_table("people").unwrap();
        let new = people(&db);
        assert!(matches!(snapshot.count(&new, ..), Err(Error::Storage(_))));
        assert!(matches!(
            snapshot.count(&table, ..),
            Err(Error::TableDropped { .. })
        ));
        let old = snapshot.table("people").unwrap();
        assert_eq!(shown(&snapshot, &old), (vec![1], vec!["x".to_owned()]));
        assert_eq!(snapshot.tables().len(), 1);
    }
}

/// Commits that are not durable yet are shown, and made durable.
#[test]
fn it_makes_the_pending_group_durable() {
    for method in with_snapshots() {
        let world = SimulatedWorld::new(WorldOptions::default());
        let options = options(method, 2).durability(Durability::None);
        let db = Database::create_on(SimulatedPlatform::new(&world), &options).unwrap();
        let table = people(&db);
        for id in 0..5_i64 {
            db.transaction(|t| t.insert(&table, (id, "x", None::<i64>)))
                .unwrap();
        }
        let snapshot = db.snapshot().unwrap();
        assert_eq!(snapshot.count(&table, ..).unwrap(), 5);
        let oldest = ImageChoices::bounded(&world, 1, 1).next().unwrap();
        let image = world.image(&oldest).unwrap();
        let found = Database::open_on(SimulatedPlatform::new(&image), &Options::new()).unwrap();
        let table = found.table("people").unwrap();
        assert_eq!(found.read(|r| r.count(&table, ..)).unwrap(), 5, "{method}");
    }
}

#[test]
fn other_methods_say_which_have_them() {
    for method in Method::ALL.into_iter().filter(|m| !m.has_snapshots()) {
        let directory = Directory::new();
        let db = Database::create(directory.path(), &options(method, 1)).unwrap();
        let error = db.snapshot().unwrap_err();
        assert!(matches!(error, Error::NoSnapshots { .. }));
        let text = error.to_string();
        assert!(text.contains("`cow`, `nvm-cow`, "), "{text}");
    }
}

#[test]
fn the_database_stays_open_while_a_snapshot_lives() {
    for method in with_snapshots() {
        let directory = Directory::new();
        let db = Database::create(directory.path(), &options(method, 2)).unwrap();
        let table = people(&db);
        db.transaction(|t| t.insert(&table, (1_i64, "x", None::<i64>)))
            .unwrap();
        let snapshot = db.snapshot().unwrap();
        db.close().unwrap();
        assert_eq!(snapshot.count(&table, ..).unwrap(), 1);
        assert!(
            Database::open(directory.path()).is_err(),
            "it is still open"
        );
        drop(snapshot);
        let db = Database::open(directory.path()).unwrap();
        assert_eq!(db.verify().unwrap().damage, Vec::<String>::new());
    }
}

const ROWS: i64 = 600;

/// A table whose rows all have one number, and content of lengths that make blocks, extents and
/// chains of pages.
fn versions(db: &Database) -> Table {
    db.create_table("versions")
        .column("id", DataType::Int64)
        .column("version", DataType::Int64)
        .column("text", DataType::Varchar { max: 30_000 })
        .primary_key(["id"])
        .index("by_version", ["version"])
        .create()
        .unwrap()
}

fn text(id: i64, version: i64) -> String {
    let unit = format!("{id}/{version} ");
    let count = match id % 50 {
        0 => 2000,
        1..10 => 40,
        _ => 3,
    };
    unit.repeat(count)
}

fn write_version(db: &Database, table: &Table, version: i64) {
    db.transaction(|t| {
        for id in 0..ROWS {
            t.upsert(table, (id, version, text(id, version)))?;
        }
        Ok(())
    })
    .unwrap();
}

/// Every row of the snapshot is of one version, and whole.
fn check_version(snapshot: &Snapshot, table: &Table, version: i64) {
    let mut rows = 0;
    snapshot
        .scan(table, .., Direction::Forward, |row| {
            let id = row.get(0).as_i64().unwrap();
            assert_eq!(row.get(1).as_i64(), Some(version), "row {id}");
            assert_eq!(row.get(2).as_str(), Some(&*text(id, version)));
            rows += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(rows, ROWS);
    let by_version = table.index("by_version").unwrap();
    assert_eq!(
        snapshot.find(&by_version, version).unwrap().len() as u64,
        ROWS.cast_unsigned()
    );
}

fn used_bytes(directory: &Directory) -> u64 {
    let entries = std::fs::read_dir(directory.path()).unwrap();
    let sizes = entries.map(|entry| entry.unwrap().metadata().unwrap().len());
    sizes.sum()
}

/// Sets the flag when it is dropped.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A writer rewrites everything again and again; one reader keeps its snapshot all the time,
/// another takes a new one each time. Both see exactly their version, and the files stop growing.
#[test]
fn readers_see_their_version_while_a_writer_rewrites_everything() {
    for method in with_snapshots() {
        let directory = Directory::new();
        let db = Database::create(directory.path(), &options(method, 2)).unwrap();
        let table = versions(&db);
        write_version(&db, &table, 0);
        let long = db.snapshot().unwrap();
        let written = AtomicU64::new(0);
        let stop = AtomicBool::new(false);
        let mut settled_bytes = 0;
        std::thread::scope(|scope| {
            // Also where this thread fails: the readers have to end.
            let stopping = Stop(&stop);
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    check_version(&long, &table, 0);
                }
            });
            let short = scope.spawn(|| {
                let mut seen = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let snapshot = db.snapshot().unwrap();
                    let row = snapshot.get(&table, 0_i64).unwrap().unwrap();
                    let version = row.get(1).as_i64().unwrap();
                    check_version(&snapshot, &table, version);
                    seen.push(version);
                }
                seen
            });
            for version in 1..=40 {
                write_version(&db, &table, version);
                written.store(version.cast_unsigned(), Ordering::Relaxed);
                if version == 15 {
                    settled_bytes = used_bytes(&directory);
                }
            }
            drop(stopping);
            let seen = short.join().unwrap();
            assert!(seen.is_sorted(), "{seen:?}");
        });
        let bytes = used_bytes(&directory);
        assert!(
            bytes <= settled_bytes * 3 / 2,
            "{method}: {settled_bytes} bytes grew to {bytes} under a long reader"
        );
        check_version(&long, &table, 0);
        assert_eq!(long.verify().unwrap().damage, Vec::<String>::new());
        assert_eq!(db.verify().unwrap().damage, Vec::<String>::new());
        drop(long);
        let before = used_bytes(&directory);
        for version in 1000..1010 {
            write_version(&db, &table, version);
        }
        assert_eq!(
            used_bytes(&directory),
            before,
            "{method}: what was held is used again"
        );
        assert_eq!(db.verify().unwrap().damage, Vec::<String>::new());
        db.close().unwrap();
        let db = Database::open(directory.path()).unwrap();
        assert_eq!(db.verify().unwrap().damage, Vec::<String>::new());
        let table = db.table("versions").unwrap();
        check_version(&db.snapshot().unwrap(), &table, 1009);
    }
}

/// A live snapshot leaves nothing on the medium, at whatever moment the power is cut.
#[test]
fn a_crash_with_a_live_snapshot_leaks_nothing() {
    for method in with_snapshots() {
        let world = SimulatedWorld::new(WorldOptions::default());
        let db = Database::create_on(SimulatedPlatform::new(&world), &options(method, 2)).unwrap();
        let table = people(&db);
        for id in 0..40_i64 {
            db.transaction(|t| t.insert(&table, (id, "first", Some(id))))
                .unwrap();
        }
        let snapshots = [db.snapshot().unwrap(), db.snapshot().unwrap()];
        let (sender, images) = std::sync::mpsc::channel();
        world.observe(move |world, _| {
            for choice in ImageChoices::bounded(world, 1, 2) {
                sender.send(world.image(&choice).unwrap()).unwrap();
            }
        });
        let mut changes = table.changes();
        changes.set(1, "second").unwrap();
        for id in 0..6_i64 {
            db.transaction(|t| {
                t.update(&table, id, &changes)?;
                t.delete(&table, id + 20)
            })
            .unwrap();
        }
        let [first, second] = snapshots;
        drop(first);
        db.transaction(|t| t.update(&table, 30_i64, &changes))
            .unwrap();
        drop(second);
        for id in 31..34_i64 {
            db.transaction(|t| t.update(&table, id, &changes)).unwrap();
        }
        world.unobserve();
        let mut opened = 0;
        while let Ok(image) = images.try_recv() {
            let db = Database::open_on(SimulatedPlatform::new(&image), &Options::new()).unwrap();
            assert_eq!(
                db.verify().unwrap().damage,
                Vec::<String>::new(),
                "{method}"
            );
            let table = db.table("people").unwrap();
            let rows = db.read(|r| r.count(&table, ..)).unwrap();
            assert!((34..=40).contains(&rows), "{method}: {rows} rows");
            opened += 1;
        }
        assert!(opened > 20, "{method}: {opened} images");
    }
}
