//! Connections on every method: what each isolation sees, what waits for what, and what an end in
//! any state leaves.
//!
//! Goal: each promise of `docs/isolation.md`. Method: connections that take steps in turn in one
//! thread, with waits of length zero where one would wait for another; threads only where somebody
//! has to sleep. `connections/random.rs` compares long random runs with a model.

mod beside;
mod fill;
mod isolation;
mod locks;
mod onlookers;
mod prepared;
mod random;
mod threads;
mod together;

use crate::common::{Directory, methods, people, small_options};
use indelible::{
    Connection, DataType, Database, Durability, Error, Isolation, Method, Options, Row, Table,
};
use std::time::Duration;

const LEVELS: [Isolation; 3] = [
    Isolation::ReadCommitted,
    Isolation::RepeatableRead,
    Isolation::Serializable,
];

/// Runs a test on every method with one and with three partitions.
fn everywhere(test: impl Fn(&Database)) {
    everywhere_with(|options| options, test);
}

fn everywhere_with(change: impl Fn(Options) -> Options, test: impl Fn(&Database)) {
    for method in methods() {
        for partitions in [1, 3] {
            let directory = Directory::new();
            let db = database(&directory, method, partitions, &change);
            test(&db);
            let report = db.verify().unwrap();
            assert!(report.damage.is_empty(), "{method}: {:?}", report.damage);
        }
    }
}

fn database(
    directory: &Directory,
    method: Method,
    partitions: u32,
    change: impl Fn(Options) -> Options,
) -> Database {
    let options = small_options(method)
        .partitions(partitions)
        .wait_limit(Duration::from_secs(20));
    Database::create(directory.path(), &change(options)).unwrap()
}

/// `id int64, amount int64`, with an index on the amount.
fn accounts(db: &Database) -> Table {
    db.create_table("accounts")
        .column("id", DataType::Int64)
        .column("amount", DataType::Int64)
        .primary_key(["id"])
        .index("by_amount", ["amount"])
        .partitioning(indelible::Partitioning::Modulo)
        .create()
        .unwrap()
}

fn filled(db: &Database, rows: i64) -> Table {
    let table = accounts(db);
    db.transaction(|t| (0..rows).try_for_each(|id| t.insert(&table, (id, 100_i64))))
        .unwrap();
    table
}

fn amount(row: &Row) -> i64 {
    row.get(1).as_i64().unwrap()
}

fn pairs(rows: &[Row]) -> Vec<(i64, i64)> {
    rows.iter()
        .map(|row| (row.get(0).as_i64().unwrap(), amount(row)))
        .collect()
}

fn set(
    connection: &mut Connection,
    table: &Table,
    id: i64,
    amount: i64,
) -> indelible::Result<bool> {
    let mut changes = table.changes();
    changes.set(1, amount)?;
    connection.update(table, id, &changes)
}

fn begun(db: &Database, isolation: Isolation) -> Connection {
    let mut connection = db.connect().unwrap();
    connection.begin(isolation).unwrap();
    connection.set_wait(indelible::Wait::Never);
    connection
}

fn get(connection: &mut Connection, table: &Table, id: i64) -> Option<i64> {
    connection.get(table, id).unwrap().as_ref().map(amount)
}

#[test]
fn a_transaction_outlives_calls_and_is_durable() {
    everywhere(|db| {
        let table = people(db);
        let mut connection = db.connect().unwrap();
        for isolation in LEVELS {
            connection.begin(isolation).unwrap();
            for id in 0..40_i64 {
                connection
                    .insert(&table, (id, format!("name {}", id % 5), None::<i64>))
                    .unwrap();
            }
            let report = connection.commit(Durability::Immediate).unwrap();
            assert_eq!(report.changes, 40);
            if db.method().is_durable() {
                assert!(report.bytes_stored + report.bytes_written > 0, "{report:?}");
            }
            assert_eq!(db.read(|r| r.count(&table, ..)).unwrap(), 40);
            connection.begin(isolation).unwrap();
            let by_name = table.index("by_name").unwrap();
            assert_eq!(connection.find(&by_name, "name 3").unwrap().len(), 8);
            for id in 0..40_i64 {
                assert!(connection.delete(&table, id).unwrap());
            }
            connection.commit(Durability::Group).unwrap();
            assert_eq!(db.read(|r| r.count(&table, ..)).unwrap(), 0);
        }
    });
}

#[test]
fn the_commit_after_an_insertion_may_find_its_key_taken() {
    everywhere(|db| {
        let table = filled(db, 4);
        let mut reader = begun(db, Isolation::RepeatableRead);
        assert_eq!(get(&mut reader, &table, 0), Some(100));
        let mut one = db.connect().unwrap();
        for id in [2_i64, 9, 9] {
            let is_taken = db.read(|r| r.get(&table, id)).unwrap().is_some();
            one.begin(Isolation::ReadCommitted).unwrap();
            let inserted = one.insert_last(&table, (id, 7_i64));
            let done = inserted.and_then(|()| one.commit(Durability::Immediate));
            one.abort();
            match done {
                Err(Error::DuplicateKey(found)) if is_taken => {
                    assert_eq!((&*found.table, &*found.index), ("accounts", "primary"));
                    assert!(found.key.contains(&id.to_string()), "{found:?}");
                }
                Ok(report) if !is_taken => assert_eq!(report.changes, 1),
                other => panic!("{other:?}, and the key is taken: {is_taken}"),
            }
            // Neither snapshot has lost the row that is there, or got the new one.
            assert_eq!(get(&mut reader, &table, 2), Some(100));
            assert_eq!(get(&mut reader, &table, 9), None);
            assert_eq!(pairs(&reader.collect(&table, ..).unwrap()).len(), 4);
        }
        assert_eq!(db.read(|r| r.count(&table, ..)).unwrap(), 5);
        reader.abort();
        assert_eq!(db.snapshot_images(), 0);

        // It counts as any other until then.
        one.begin(Isolation::ReadCommitted).unwrap();
        let mark = one.mark().unwrap();
        one.insert_last(&table, (10_i64, 1_i64)).unwrap();
        assert_eq!(get(&mut one, &table, 10), Some(1));
        one.roll_back_to(mark).unwrap();
        assert_eq!(get(&mut one, &table, 10), None);
        assert!(set(&mut one, &table, 9, 8).unwrap());
        one.commit(Durability::Immediate).unwrap();
        assert_eq!(
            db.read(|r| r.get(&table, 9_i64))
                .unwrap()
                .map(|row| amount(&row)),
            Some(8)
        );
    });
}

#[test]
fn marks_roll_back_to_any_moment() {
    everywhere(|db| {
        let table = filled(db, 4);
        let mut one = begun(db, Isolation::ReadCommitted);
        set(&mut one, &table, 0, 1).unwrap();
        let first = one.statement().unwrap();
        set(&mut one, &table, 0, 2).unwrap();
        one.insert(&table, (9_i64, 9_i64)).unwrap();
        let second = one.statement().unwrap();
        one.delete(&table, 9_i64).unwrap();
        one.delete(&table, 1_i64).unwrap();
        one.roll_back_to(second).unwrap();
        assert_eq!(
            pairs(&one.collect(&table, ..).unwrap()),
            [(0, 2), (1, 100), (2, 100), (3, 100), (9, 9)]
        );
        one.roll_back_to(first).unwrap();
        one.roll_back_to(first).unwrap();
        assert_eq!(get(&mut one, &table, 0), Some(1));
        assert_eq!(get(&mut one, &table, 9), None);
        set(&mut one, &table, 2, 5).unwrap();
        // The part with the second mark is gone.
        assert!(one.roll_back_to(second).is_err());
        one.commit(Durability::Immediate).unwrap();
        one.begin(Isolation::ReadCommitted).unwrap();
        assert!(
            one.roll_back_to(first).is_err(),
            "a mark of another transaction"
        );
        assert_eq!(
            pairs(&one.collect(&table, ..).unwrap()),
            [(0, 1), (1, 100), (2, 5), (3, 100)]
        );
    });
}

#[test]
fn a_connection_may_end_in_any_state() {
    everywhere(|db| {
        let table = filled(db, 4);
        let mut dropped = begun(db, Isolation::Serializable);
        let scan = dropped
            .scan(&table, .., indelible::Direction::Forward)
            .unwrap();
        set(&mut dropped, &table, 0, 7).unwrap();
        drop(dropped);
        drop(scan);
        let panicked = std::thread::scope(|threads| {
            let mut connection = begun(db, Isolation::Serializable);
            let table = &table;
            let thread = threads.spawn(move || {
                set(&mut connection, table, 1, 7).unwrap();
                panic!("a planted panic");
            });
            thread.join()
        });
        assert!(panicked.is_err());
        let mut other = begun(db, Isolation::Serializable);
        for id in 0..4 {
            assert_eq!(get(&mut other, &table, id), Some(100));
            set(&mut other, &table, id, 1).unwrap();
        }
        other.abort();
        assert!(!other.is_open());
        assert!(
            other.commit(Durability::Immediate).is_err(),
            "nothing is open"
        );
        other.begin(Isolation::ReadCommitted).unwrap();
        assert!(other.begin(Isolation::ReadCommitted).is_err());
        assert_eq!(get(&mut other, &table, 3), Some(100));
    });
}

#[test]
fn limits_are_typed_errors() {
    let change = |options: Options| {
        options
            .transaction_memory_max(64 << 10)
            .snapshot_memory_max(64 << 10)
    };
    everywhere_with(change, |db| {
        let table = filled(db, 2);
        let mut one = begun(db, Isolation::ReadCommitted);
        let refused = (10..)
            .find_map(|id| one.insert(&table, (id, id)).err())
            .unwrap();
        assert!(
            matches!(refused, indelible::Error::TransactionMemory { .. }),
            "{refused}"
        );
        one.abort();
        let mut old = begun(db, Isolation::RepeatableRead);
        assert_eq!(get(&mut old, &table, 0), Some(100));
        let ended = (0..2_000_i64).find_map(|round| {
            let mut young = begun(db, Isolation::RepeatableRead);
            young.insert(&table, (1_000 + round, 0_i64)).unwrap();
            young.commit(Durability::None).unwrap();
            old.get(&table, 0_i64).err()
        });
        let ended = ended.unwrap();
        assert!(
            matches!(ended, indelible::Error::SnapshotTooOld { .. }),
            "{ended}"
        );
        old.abort();
        old.begin(Isolation::RepeatableRead).unwrap();
        assert_eq!(get(&mut old, &table, 0), Some(100));
    });
}

#[test]
fn one_image_a_row_and_snapshot_is_kept() {
    everywhere(|db| {
        let table = filled(db, 2);
        let old = begun(db, Isolation::RepeatableRead);
        let mut snapshots = vec![old];
        let mut bytes = Vec::new();
        for round in 0..40 {
            let mut writer = begun(db, Isolation::ReadCommitted);
            set(&mut writer, &table, 0, round).unwrap();
            writer.commit(Durability::None).unwrap();
            if round == 20 {
                snapshots.push(begun(db, Isolation::RepeatableRead));
            }
            for (snapshot, seen) in snapshots.iter_mut().zip([0, 20]) {
                assert_eq!(get(snapshot, &table, 0), Some(seen));
            }
            bytes.push(db.snapshot_bytes());
        }
        assert!(
            bytes[0] == 0,
            "the first snapshot is younger than the first change"
        );
        assert!(
            bytes[1] > 0 && bytes[2..20].iter().all(|&one| one <= 2 * bytes[1]),
            "{bytes:?}"
        );
        assert!(
            bytes[22..].iter().all(|&one| one <= 3 * bytes[1]),
            "{bytes:?}"
        );
        // The image between them is freed with the older one, though the younger one lives.
        let both = db.snapshot_bytes();
        drop(snapshots.remove(0));
        assert!(db.snapshot_bytes() < both);
        assert_eq!(get(&mut snapshots[0], &table, 0), Some(20));
        drop(snapshots);
        assert_eq!(db.snapshot_bytes(), 0);
    });
}
