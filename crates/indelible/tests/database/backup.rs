//! Copies of whole databases: from every method to every method, during writes, and from files that
//! are not whole.
//!
//! Tables are random, of all types, with NULLs, indexes and rules of partitioning; a copy must have
//! the same rows in the same order. Damaged files are made from a small backup, byte by byte and
//! length by length.

use crate::common::{Directory, methods, small_options};
use disk::simulated::SimulatedDirectory;
use indelible::{
    Column, CopyStage, DataType, Database, Date, Decimal, Error, Existing, LayoutKind, Method,
    Options, Partitioning, RangeStart, Table, Timestamp, Uniqueness, Uuid, Value,
};
use pmem::device::simulated::{SimulatedWorld, WorldOptions};
use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Numbers without a pattern, the same for a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ word >> 31
    }

    fn below(&mut self, end: i64) -> i64 {
        (self.next() >> 1).cast_signed() % end
    }

    fn text(&mut self, bytes_max: u32) -> String {
        let bytes = self.below(i64::from(bytes_max) + 1);
        (0..bytes)
            .map(|_| char::from(b' ' + (self.next() % 95) as u8))
            .collect()
    }
}

const TYPES: [DataType; 15] = [
    DataType::Bool,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::Float64,
    DataType::Decimal {
        precision: 12,
        scale: 3,
    },
    DataType::Char { length: 6 },
    DataType::Varchar { max: 7 },
    DataType::Varchar { max: 90 },
    DataType::Text,
    DataType::Bytes { max: Some(20) },
    DataType::Bytes { max: None },
    DataType::Date,
    DataType::Timestamp,
    DataType::Uuid,
];

fn random_value(data_type: DataType, random: &mut Random) -> Value {
    let number = random.next();
    match data_type {
        DataType::Bool => Value::Bool(number & 1 == 1),
        DataType::Int16 => Value::Int16(number as i16),
        DataType::Int32 => Value::Int32(number as i32),
        DataType::Int64 => Value::Int64(number.cast_signed()),
        DataType::Float64 => Value::Float64(f64::from(number as i32) / 7.0),
        DataType::Decimal { scale, .. } => {
            Value::Decimal(Decimal::new(i128::from(number as i32), scale))
        }
        DataType::Char { length } => Value::Text(random.text(length).trim_end().to_owned()),
        DataType::Varchar { max } => Value::Text(random.text(max)),
        DataType::Text => {
            Value::Text(random.text(if number.is_multiple_of(20) { 9000 } else { 30 }))
        }
        DataType::Bytes { .. } | DataType::Sortable { .. } => {
            Value::Bytes(random.text(20).into_bytes())
        }
        DataType::Date => Value::Date(Date(i32::from(number as i16))),
        DataType::Timestamp => Value::Timestamp(Timestamp(i64::from(number as i32) * 1000)),
        DataType::Uuid => Value::Uuid(Uuid(number.to_le_bytes().repeat(2).try_into().unwrap())),
    }
}

fn random_partitioning(random: &mut Random, partitions: u32) -> Partitioning {
    match random.below(4) {
        0 => Partitioning::Hash,
        1 => Partitioning::Modulo,
        2 => Partitioning::Replicated,
        _ => Partitioning::Ranges(vec![
            RangeStart {
                from: Value::Int64(i64::MIN),
                partition: 0,
            },
            RangeStart {
                from: Value::Int64(0),
                partition: partitions - 1,
            },
        ]),
    }
}

/// A table of every type, with an index that is unique and one that is not, one of them made later.
fn random_table(db: &Database, name: &str, random: &mut Random, rows: i64) -> Table {
    let mut builder = db.create_table(name).column("id", DataType::Int64);
    for (at, data_type) in TYPES.into_iter().enumerate() {
        let column = format!("c{at}");
        builder = if random.below(2) == 0 {
            builder.nullable_column(&column, data_type)
        } else {
            builder.column(&column, data_type)
        };
    }
    let table = builder
        .primary_key(["id"])
        .partitioning(random_partitioning(random, db.partitions()))
        .index("by_number", ["c2", "c8"])
        .create()
        .unwrap();
    db.create_index(&table, "by_text", ["c7", "id"], Uniqueness::Unique)
        .unwrap();
    let columns = table.definition().columns;
    for batch in 0..=rows / 50 {
        db.transaction(|t| {
            for id in batch * 50..rows.min((batch + 1) * 50) {
                let mut row = vec![Value::Int64(id * 37 - 500)];
                for column in &columns[1..] {
                    let is_null = column.nullable && random.below(3) == 0;
                    row.push(if is_null {
                        Value::Null
                    } else {
                        random_value(column.data_type, random)
                    });
                }
                t.insert(&table, row)?;
            }
            Ok(())
        })
        .unwrap();
    }
    table
}

fn random_database(path: &Path, method: Method, seed: u64) -> Database {
    let options = small_options(method).partitions(1 + seed as u32 % 3);
    let db = Database::create(path, &options).unwrap();
    let mut random = Random(seed);
    for number in 0..3 {
        let rows = random.below(120);
        random_table(&db, &format!("t{number}"), &mut random, rows);
    }
    db.create_table("empty")
        .column("id", DataType::Uuid)
        .create()
        .unwrap();
    db
}

/// Definitions without numbers, and all rows, in the order of the primary key and of each index.
fn contents(db: &Database) -> Vec<String> {
    let mut lines = Vec::new();
    for table in db.tables() {
        let def = table.definition();
        lines.push(format!(
            "{} {:?} {:?}",
            def.name, def.columns, def.primary_key
        ));
        lines.push(format!("{:?}", def.partitioning));
        let rows = db.read(|r| r.collect(&table, ..)).unwrap();
        lines.extend(rows.iter().map(|row| format!("{:?}", row.to_values())));
        for index in &def.indexes {
            lines.push(format!(
                "{} {:?} {}",
                index.name, index.columns, index.unique
            ));
            let index = table.index(&index.name).unwrap();
            let mut keys = Vec::new();
            db.read(|r| {
                r.scan_index(&index, .., indelible::Direction::Forward, |row| {
                    keys.push(format!("{:?}", row.get(0)));
                    std::ops::ControlFlow::Continue(())
                })
            })
            .unwrap();
            lines.extend(keys);
        }
    }
    lines
}

#[test]
fn every_method_restores_into_every_method() {
    for (seed, from) in (1..).zip(methods()) {
        let directory = Directory::new();
        let db = random_database(directory.path(), from, seed);
        let expected = contents(&db);
        let mut backup = Vec::new();
        let report = db.backup_to(&mut backup, &mut |_| {}).unwrap();
        assert_eq!((report.tables, report.file_bytes), (4, backup.len() as u64));
        let file = Directory::new();
        db.backup(file.path()).unwrap();
        // A backup knows nothing of the method, so each method is the source of some pairs and the
        // target of some.
        let all = methods();
        for step in [0, 1, 7] {
            let to = all[(seed as usize - 1 + step) % all.len()];
            let place = Directory::new();
            let case = format!("{from} to {to}");
            let options = small_options(to);
            let copy = if to.is_durable() {
                let restored = Database::restore(file.path(), place.path(), &options).unwrap();
                assert_eq!(restored.content, report.content, "{case}");
                assert_eq!((restored.method, restored.rows), (to, report.rows));
                Database::open(place.path()).unwrap()
            } else {
                let options = options.partitions(db.partitions());
                let copy = Database::create(place.path(), &options).unwrap();
                copy.restore_into(&mut backup.as_slice(), &mut |_| {})
                    .unwrap();
                copy
            };
            assert_eq!(copy.partitions(), db.partitions());
            assert_eq!(contents(&copy), expected, "{case}");
            assert!(copy.verify().unwrap().damage.is_empty(), "{case}");
        }
    }
}

/// Statistics name tables by their numbers, which a copy gives anew. A copy had the old ones, and
/// its close added others, so that it differed from its source and was refused. Backups that have
/// statistics must restore too.
#[test]
fn a_database_with_statistics_can_be_copied() {
    let (directory, backup, copy, converted) = (
        Directory::new(),
        Directory::new(),
        Directory::new(),
        Directory::new(),
    );
    let db = Database::create(directory.path(), &small_options(Method::NvmInp)).unwrap();
    for name in ["z", "a"] {
        let table = db.create_table(name).column("id", DataType::Int64);
        let table = table.create().unwrap();
        db.transaction(|t| (0..7_i64).try_for_each(|id| t.insert(&table, (id,))))
            .unwrap();
        db.analyze(&table).unwrap();
    }
    let written = db.backup(backup.path()).unwrap();
    let options = Options::new();
    let restored = Database::restore(backup.path(), copy.path(), &options).unwrap();
    let report = db.convert(converted.path(), &options, &mut |_| {}).unwrap();
    assert_eq!((restored.tables, restored.rows), (2, 14));
    assert_eq!(restored.content, written.content);
    assert_eq!(report.content, written.content);

    let earlier = Directory::new();
    fs::write(earlier.path(), include_bytes!("statistics.backup")).unwrap();
    let checked = Database::check_backup(earlier.path(), &mut |_| {}).unwrap();
    let copy = Directory::new();
    let restored = Database::restore(earlier.path(), copy.path(), &options).unwrap();
    assert_eq!(restored.content, checked.content);
    let copy = Database::open(copy.path()).unwrap();
    let names = copy.tables();
    let names: Vec<&str> = names.iter().map(Table::name).collect();
    assert_eq!(names, ["a", "z"]);
    let table = copy.table("z").unwrap();
    assert_eq!(copy.read(|r| r.count(&table, ..)).unwrap(), 2);
}

/// A definition says which table it replaces, by a number. A copy kept that number, which belonged
/// to another table there or soon did, and the next opening dropped one of the two.
#[test]
fn a_changed_table_can_be_copied() {
    let (directory, backup, copy) = (Directory::new(), Directory::new(), Directory::new());
    let db = Database::create(directory.path(), &small_options(Method::NvmInp)).unwrap();
    let mut table = db.create_table("t").column("id", DataType::Int64);
    table = table.column("name", DataType::Text);
    let mut table = table.create().unwrap();
    db.transaction(|t| t.insert(&table, (1_i64, "one")))
        .unwrap();
    for name in ["first", "second"] {
        let column = Column::new(name, DataType::Int32).nullable();
        table = (db.alter_table(&table).add_column(column, Value::Null))
            .apply()
            .unwrap();
    }
    let written = db.backup(backup.path()).unwrap();
    let restored = Database::restore(backup.path(), copy.path(), &Options::new()).unwrap();
    assert_eq!(restored.content, written.content);

    let opened = Database::open(copy.path()).unwrap();
    for name in ["a", "b"] {
        let table = opened.create_table(name).column("id", DataType::Int64);
        table.create().unwrap();
    }
    drop(opened);
    let opened = Database::open(copy.path()).unwrap();
    let names = opened.tables();
    let names: Vec<&str> = names.iter().map(Table::name).collect();
    assert_eq!(names, ["a", "b", "t"]);
}

#[test]
fn a_conversion_changes_the_options_that_are_named() {
    let directory = Directory::new();
    let db = random_database(directory.path(), Method::Inp, 2);
    let place = Directory::new();
    let options = Options::new()
        .method(Method::NvmInp)
        .partitions(2)
        .layout(LayoutKind::Separate)
        .node_bytes(1024);
    let mut stages = Vec::new();
    let report = db
        .convert(place.path(), &options, &mut |progress| {
            stages.push(progress.stage);
        })
        .unwrap();
    assert!(stages.contains(&indelible::CopyStage::Indexes));
    let copy = Database::open(place.path()).unwrap();
    let statistics = copy.statistics().unwrap();
    assert_eq!(
        (statistics.method, statistics.partitions),
        (Method::NvmInp, 2)
    );
    assert_eq!(
        (statistics.layout, statistics.node_bytes),
        (LayoutKind::Separate, 1024)
    );
    assert_eq!(contents(&copy).len(), contents(&db).len());
    assert_eq!(
        copy.backup_to(&mut Vec::new(), &mut |_| {})
            .unwrap()
            .content,
        report.content
    );
    // It is there now, and stays.
    let again = db.convert(place.path(), &options, &mut |_| {});
    assert!(matches!(again, Err(Error::Occupied { .. })));
    let gone = db.convert(
        Directory::new().path(),
        &Options::new().method(Method::Volatile),
        &mut |_| {},
    );
    assert!(matches!(gone, Err(Error::Option { .. })));
}

#[test]
fn a_backup_under_writers_shows_one_moment() {
    const ACCOUNTS: i64 = 40;
    for method in methods() {
        let directory = Directory::new();
        let options = Options::new().method(method).partitions(2);
        let db = Database::create(directory.path(), &options).unwrap();
        let accounts = db
            .create_table("accounts")
            .column("id", DataType::Int64)
            .column("balance", DataType::Int64)
            .partitioning(Partitioning::Modulo)
            .create()
            .unwrap();
        db.transaction(|t| (0..ACCOUNTS).try_for_each(|id| t.insert(&accounts, (id, 100_i64))))
            .unwrap();
        let stop = AtomicBool::new(false);
        let backups = std::thread::scope(|scope| {
            for seed in 0..2 {
                let (db, accounts, stop) = (&db, &accounts, &stop);
                scope.spawn(move || {
                    let mut random = Random(seed);
                    while !stop.load(Ordering::Relaxed) {
                        let from = random.below(ACCOUNTS);
                        let to = (from + 1 + random.below(ACCOUNTS - 1)) % ACCOUNTS;
                        db.transaction(|t| {
                            for (id, change) in [(from, -1), (to, 1)] {
                                let row = t.get(accounts, id)?.unwrap();
                                let mut changes = accounts.changes();
                                changes.set(1, row.get(1).as_i64().unwrap() + change)?;
                                t.update(accounts, id, &changes)?;
                            }
                            Ok(())
                        })
                        .unwrap();
                    }
                });
            }
            let backups: Vec<Vec<u8>> = (0..10)
                .map(|_| {
                    let mut backup = Vec::new();
                    db.backup_to(&mut backup, &mut |_| {}).unwrap();
                    std::thread::sleep(std::time::Duration::from_millis(2));
                    backup
                })
                .collect();
            stop.store(true, Ordering::Relaxed);
            backups
        });
        for backup in &backups {
            let place = Directory::new();
            let copy =
                Database::create(place.path(), &Options::new().method(Method::Volatile)).unwrap();
            copy.restore_into(&mut backup.as_slice(), &mut |_| {})
                .unwrap();
            let table = copy.table("accounts").unwrap();
            let rows = copy.read(|r| r.collect(&table, ..)).unwrap();
            let sum: i64 = rows.iter().map(|row| row.get(1).as_i64().unwrap()).sum();
            assert_eq!((rows.len(), sum), (40, ACCOUNTS * 100), "{method}");
        }
    }
}

/// A backup of a few rows, and a database to restore into.
fn small() -> (Vec<u8>, Database, [Directory; 2]) {
    let directories = [Directory::new(), Directory::new()];
    let options = Options::new().method(Method::Volatile);
    let db = Database::create(directories[0].path(), &options).unwrap();
    let table = crate::common::people(&db);
    db.transaction(|t| (0..5_i64).try_for_each(|id| t.insert(&table, (id, "name", Some(id)))))
        .unwrap();
    let mut backup = Vec::new();
    db.backup_to(&mut backup, &mut |_| {}).unwrap();
    let target = Database::create(directories[1].path(), &options).unwrap();
    (backup, target, directories)
}

fn refused(target: &Database, bytes: &[u8], case: &str) -> Error {
    let error = target
        .restore_into(&mut &*bytes, &mut |_| {})
        .expect_err(case);
    assert!(target.tables().is_empty(), "{case}: something is left");
    error
}

/// A restore that failed dropped every table of the database, those of others among them.
#[test]
fn a_failed_restore_drops_its_own_tables_only() {
    let (mut backup, target, _directories) = small();
    let last = backup.len() - 1;
    backup[last] ^= 1;
    let error = target
        .restore_into(&mut backup.as_slice(), &mut |progress| {
            if progress.stage == CopyStage::Indexes && target.table("other").is_err() {
                let other = target.create_table("other").column("id", DataType::Int64);
                other.create().unwrap();
            }
        })
        .unwrap_err();
    assert!(matches!(error, Error::DamagedBackup { .. }), "{error}");
    let names = target.tables();
    let names: Vec<&str> = names.iter().map(Table::name).collect();
    assert_eq!(names, ["other"]);
}

#[test]
fn every_flipped_byte_is_refused() {
    let (backup, target, _directories) = small();
    for at in 0..backup.len() {
        for mask in [1, 0x80, 0xFF] {
            let mut bytes = backup.clone();
            bytes[at] ^= mask;
            let error = refused(&target, &bytes, &format!("byte {at} ^ {mask}"));
            assert!(
                matches!(
                    error,
                    Error::DamagedBackup { .. } | Error::NotABackup | Error::NewerBackup { .. }
                ),
                "byte {at}: {error}"
            );
        }
    }
    target
        .restore_into(&mut backup.as_slice(), &mut |_| {})
        .unwrap();
}

#[test]
fn every_truncation_and_every_appendix_is_refused() {
    let (backup, target, _directories) = small();
    for length in 0..backup.len() {
        let error = refused(&target, &backup[..length], &format!("{length} bytes"));
        assert!(
            matches!(error, Error::DamagedBackup { .. } | Error::NotABackup),
            "{error}"
        );
    }
    let mut longer = backup.clone();
    longer.push(0);
    let error = refused(&target, &longer, "a byte more");
    assert!(error.to_string().contains("follows"), "{error}");
}

#[test]
fn foreign_and_newer_files_are_named() {
    let (backup, target, _directories) = small();
    let mut newer = backup.clone();
    newer[8] = 4;
    assert!(matches!(
        refused(&target, &newer, "newer"),
        Error::NewerBackup {
            found: 4,
            supported: 3
        }
    ));
    for foreign in [&b"PK\x03\x04 and more"[..], &[0; 5000], b""] {
        assert!(matches!(
            refused(&target, foreign, "foreign"),
            Error::NotABackup
        ));
    }
    let directory = Directory::new();
    fs::create_dir(directory.path()).unwrap();
    let place = Directory::new();
    let error = Database::restore(directory.path(), place.path(), &Options::new()).unwrap_err();
    assert!(matches!(error, Error::NotABackup), "{error}");
    assert!(!place.path().exists());
}

/// A stream that gives a few bytes at a time and cannot go back.
struct Trickle<'b>(&'b [u8]);

impl Read for Trickle<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let few = out.len().min(97);
        self.0.read(&mut out[..few])
    }
}

#[test]
fn streams_are_restored_whole_or_not_at_all() {
    let (source, place) = (Directory::new(), Directory::new());
    let db = random_database(source.path(), Method::FullPageWrites, 5);
    let expected = contents(&db);
    let (mut rows, mut pages) = (Vec::new(), Vec::new());
    let report = db.backup_to(&mut rows, &mut |_| {}).unwrap();
    let copied = db.backup_pages_to(&mut pages, &mut |_| {}).unwrap();
    assert!(report.rows > 0 && copied.pages > 0);
    let restore = |mut bytes: Trickle<'_>| {
        let options = Options::new().method(Method::NvmInp);
        Database::restore_from(&mut bytes, None, place.path(), &options, &mut |_| {})
    };
    for whole in [&rows, &pages] {
        let check = |bytes| Database::check_backup_from(&mut Trickle(bytes), &mut |_| {});
        check(whole).unwrap();
        let cut = &whole[..whole.len() - 1];
        assert!(matches!(check(cut), Err(Error::DamagedBackup { .. })));
        let error = restore(Trickle(cut)).unwrap_err();
        assert!(matches!(error, Error::DamagedBackup { .. }), "{error}");
        assert!(!place.path().exists());
        let restored = restore(Trickle(whole)).unwrap();
        assert_eq!(restored.content, report.content);
        let copy = Database::open(place.path()).unwrap();
        assert_eq!(contents(&copy), expected);
        drop(copy);
        Database::remove(place.path()).unwrap();
    }
}

#[test]
fn a_backup_is_followed_through_a_link_and_keeps_the_mode() {
    let directory = Directory::new();
    fs::create_dir(directory.path()).unwrap();
    let at = |name: &str| directory.path().join(name);
    let db = random_database(&at("source"), Method::NvmInp, 6);
    symlink("backup", at("link")).unwrap();
    for (kept, existing) in [(0o600, Existing::Refuse), (0o440, Existing::Replace)] {
        db.backup_with(at("link"), existing, &mut |_| {}).unwrap();
        let mode = |name| fs::symlink_metadata(at(name)).unwrap().permissions().mode() & 0o777;
        assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
        assert_eq!(mode("backup"), kept);
        fs::set_permissions(at("backup"), Permissions::from_mode(0o440)).unwrap();
        Database::check_backup(at("backup"), &mut |_| {}).unwrap();
    }
    let error = db.backup(directory.path()).unwrap_err();
    assert!(error.to_string().contains("is a directory"), "{error}");
}

/// Methods that read rows where they lie copied damaged ones, under new checksums.
#[test]
fn a_backup_has_no_damaged_rows() {
    const TEXT: &[u8] = b"a text that is found in files";
    let mut damaged = 0;
    for method in methods().into_iter().filter(|method| method.is_durable()) {
        let directory = Directory::new();
        let db = Database::create(directory.path(), &small_options(method)).unwrap();
        let table = db
            .create_table("t")
            .column("id", DataType::Int64)
            .column("name", DataType::Text)
            .primary_key(["id"])
            .create()
            .unwrap();
        let text = str::from_utf8(TEXT).unwrap();
        db.transaction(|t| t.insert(&table, (1_i64, text))).unwrap();
        let expected = contents(&db);
        db.close().unwrap();
        for entry in fs::read_dir(directory.path()).unwrap() {
            let path = entry.unwrap().path();
            let mut bytes = fs::read(&path).unwrap();
            let places = bytes.windows(TEXT.len()).enumerate();
            let places = places.filter(|(_, window)| *window == TEXT);
            let places: Vec<usize> = places.map(|(at, _)| at).collect();
            for at in places {
                bytes[at + 3] ^= 4;
            }
            fs::write(&path, bytes).unwrap();
        }
        let Ok(db) = Database::open(directory.path()) else {
            continue;
        };
        match db.backup_to(&mut Vec::new(), &mut |_| {}) {
            Ok(_) => assert_eq!(contents(&db), expected, "{method}"),
            Err(_) => damaged += 1,
        }
    }
    assert!(damaged >= 5, "{damaged} methods noticed it");
}

#[test]
fn a_failed_restore_leaves_nothing_under_any_name() {
    let directory = Directory::new();
    fs::create_dir(directory.path()).unwrap();
    let source = directory.path().join("source");
    let db = random_database(&source, Method::NvmInp, 3);
    let file = directory.path().join("backup");
    db.backup(&file).unwrap();
    assert!(db.backup(&file).is_err(), "a file that is there stays");
    db.backup_with(&file, Existing::Replace, &mut |_| {})
        .unwrap();
    let mut bytes = fs::read(&file).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&file, bytes).unwrap();
    let place = directory.path().join("copy");
    let error = Database::restore(&file, &place, &Options::new()).unwrap_err();
    assert!(matches!(error, Error::DamagedBackup { .. }), "{error}");
    assert!(Database::check_backup(&file, &mut |_| {}).is_err());
    let mut names: Vec<_> = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["backup", "source"]);
}

#[test]
fn a_full_disk_leaves_no_file_and_the_database_as_it_was() {
    let directory = Directory::new();
    let db = random_database(directory.path(), Method::NvmInp, 4);
    let expected = contents(&db);
    let mut whole = Vec::new();
    db.backup_to(&mut whole, &mut |_| {}).unwrap();
    for space in [1, 100, 250, whole.len() as u64 / 2, whole.len() as u64 - 1] {
        let world = SimulatedWorld::new(WorldOptions::default());
        let files = SimulatedDirectory::new(&world);
        files.limit_space(Some(space));
        let error = db.backup_on(&files, "db.backup", Existing::Refuse, &mut |_| {});
        let error = error.unwrap_err().to_string();
        assert!(error.contains("no space"), "{error}");
        assert!(disk::Directory::list(&files).unwrap().is_empty());
        assert_eq!(contents(&db), expected);
        files.limit_space(None);
        db.backup_on(&files, "db.backup", Existing::Refuse, &mut |_| {})
            .unwrap();
        assert_eq!(disk::Directory::list(&files).unwrap(), ["db.backup"]);
    }
}
