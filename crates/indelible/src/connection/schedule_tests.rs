//! Goal: no order of threads breaks an invariant of the clock, of before images, or of the barrier.
//!
//! Method: two or three threads with a few steps each, on the real code: two partitions with one
//! slot each, and one with many slots, on model engines. The clock alone is tried with two rows,
//! each with a mutex that its changer holds until it commits. The sum of two rows never changes, so
//! a reader that sees another sum has not seen one moment.
//!
//! `cargo test -p indelible --features schedules --lib connection`

use super::change::{Change, Move};
use super::clock::{Clock, Pending, Purpose};
use super::{RowLock, Wait};
use crate::model::database;
use crate::sessions_model::database_of_sessions;
use crate::{
    Connection, DataType, Database, Durability, Error, Isolation, Partitioning, Result, Row, Table,
};
use shuttle::sync::Mutex;
use shuttle::thread::spawn;
use std::sync::Arc;
use std::time::Duration;
use storage::record::KeyBuf;

/// Schedules of each kind that a test tries.
const SCHEDULES: usize = 2_000;
const CHANGES: usize = 3;
const LONG: Wait = Wait::Limit(Duration::from_hours(1));

/// Explores a test on partitions with one slot and on one with many.
fn explore_both(test: fn((Database, Table))) {
    explore(move || test(filled()));
    explore(move || test(filled_in_one()));
}

fn explore(test: impl Fn() + Send + Sync + 'static) {
    let test = Arc::new(test);
    let same = Arc::clone(&test);
    shuttle::check_random(move || test(), SCHEDULES);
    shuttle::check_pct(move || same(), SCHEDULES, CHANGES);
}

/// Rows 0 and 1 in a partition each, both 100.
fn filled() -> (Database, Table) {
    filled_in(database(2).0)
}

/// The same in one partition with many slots.
fn filled_in_one() -> (Database, Table) {
    filled_in(database_of_sessions(1))
}

fn filled_in(db: Database) -> (Database, Table) {
    let table = db
        .create_table("numbers")
        .column("id", DataType::Int64)
        .column("value", DataType::Int64)
        .partitioning(Partitioning::Modulo)
        .create()
        .unwrap();
    db.transaction(|t| (0..2_i64).try_for_each(|id| t.insert(&table, (id, 100_i64))))
        .unwrap();
    (db, table)
}

fn value(row: &Row) -> i64 {
    row.get(1).as_i64().unwrap()
}

fn set(connection: &mut Connection, table: &Table, id: i64, value: i64) -> Result<bool> {
    let mut changes = table.changes();
    changes.set(1, value)?;
    connection.update(table, id, &changes)
}

fn read(connection: &mut Connection, table: &Table, id: i64) -> i64 {
    value(&connection.get(table, id).unwrap().unwrap())
}

fn check_sum(db: &Database, table: &Table) {
    let mut reader = db.connect().unwrap();
    reader.begin(Isolation::RepeatableRead).unwrap();
    let first = read(&mut reader, table, 0);
    assert_eq!(first + read(&mut reader, table, 1), 200);
    // The same rows by a scan, which is a later look at the same snapshot.
    let rows = reader.collect(table, ..=1_i64).unwrap();
    assert_eq!(
        rows.iter().map(value).collect::<Vec<_>>(),
        [first, 200 - first]
    );
}

#[test]
fn a_snapshot_has_all_of_a_commit_or_nothing() {
    explore_both(|(db, table)| {
        let reader = {
            let (db, table) = (db.clone(), table.clone());
            spawn(move || check_sum(&db, &table))
        };
        let mut writer = db.connect().unwrap();
        writer.begin(Isolation::ReadCommitted).unwrap();
        set(&mut writer, &table, 0, 90).unwrap();
        set(&mut writer, &table, 1, 110).unwrap();
        writer.commit(Durability::None).unwrap();
        reader.join().unwrap();
        drop(writer);
        assert_eq!(db.snapshot_bytes(), 0);
    });
}

#[test]
fn a_snapshot_has_all_of_a_closure_or_nothing() {
    explore_both(|(db, table)| {
        let reader = {
            let (db, table) = (db.clone(), table.clone());
            spawn(move || check_sum(&db, &table))
        };
        db.transaction(|t| {
            for (id, value) in [(0_i64, 90_i64), (1, 110)] {
                let mut changes = table.changes();
                changes.set(1, value)?;
                t.update(&table, id, &changes)?;
            }
            Ok(())
        })
        .unwrap();
        reader.join().unwrap();
    });
}

#[test]
fn increments_are_not_lost() {
    explore_both(|(db, table)| {
        let increment = |db: Database, table: Table| {
            move || {
                let mut connection = db.connect().unwrap();
                connection.begin(Isolation::ReadCommitted).unwrap();
                let mut row = table.row();
                connection
                    .get_locked(&table, 0_i64, RowLock::NoKeyUpdate, LONG, &mut row)
                    .unwrap();
                set(&mut connection, &table, 0, value(&row) + 1).unwrap();
                connection.commit(Durability::None).unwrap();
            }
        };
        let other = spawn(increment(db.clone(), table.clone()));
        increment(db.clone(), table.clone())();
        other.join().unwrap();
        let row = db.read(|r| r.get(&table, 0_i64)).unwrap().unwrap();
        assert_eq!(value(&row), 102);
    });
}

#[test]
fn serializable_transactions_do_not_skew() {
    explore_both(|(db, table)| {
        let empty = |db: Database, table: Table, own: i64| {
            move || {
                let mut connection = db.connect().unwrap();
                connection.begin(Isolation::Serializable).unwrap();
                if read(&mut connection, &table, 1 - own) > 0 {
                    set(&mut connection, &table, own, 0).unwrap();
                }
                match connection.commit(Durability::None) {
                    Ok(_) | Err(Error::Serialization { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        };
        let other = spawn(empty(db.clone(), table.clone(), 0));
        empty(db.clone(), table.clone(), 1)();
        other.join().unwrap();
        let rows = db.read(|r| r.collect(&table, ..)).unwrap();
        assert!(rows.iter().any(|row| value(row) > 0));
    });
}

#[test]
fn a_connection_and_a_closure_do_not_skew() {
    explore_both(|(db, table)| {
        let closure = {
            let (db, table) = (db.clone(), table.clone());
            spawn(move || {
                let done = db.transaction(|t| {
                    let other = t.get(&table, 0_i64)?.map(|row| value(&row));
                    if other.is_some_and(|other| other > 0) {
                        let mut changes = table.changes();
                        changes.set(1, 0_i64)?;
                        t.update(&table, 1_i64, &changes)?;
                    }
                    Ok(())
                });
                done.unwrap();
            })
        };
        let mut connection = db.connect().unwrap();
        connection.begin(Isolation::Serializable).unwrap();
        if read(&mut connection, &table, 1) > 0 {
            set(&mut connection, &table, 0, 0).unwrap();
        }
        match connection.commit(Durability::None) {
            Ok(_) | Err(Error::Serialization { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        closure.join().unwrap();
        drop(connection);
        let rows = db.read(|r| r.collect(&table, ..)).unwrap();
        assert!(rows.iter().any(|row| value(row) > 0));
        assert_eq!(db.snapshot_bytes(), 0);
    });
}

#[test]
fn a_commit_that_fails_was_never_there() {
    explore_both(|(db, table)| {
        let reader = {
            let (db, table) = (db.clone(), table.clone());
            spawn(move || check_sum(&db, &table))
        };
        let mut loser = db.connect().unwrap();
        loser.begin(Isolation::Serializable).unwrap();
        assert_eq!(loser.get(&table, 2_i64).unwrap(), None);
        let mut winner = db.connect().unwrap();
        winner.begin(Isolation::ReadCommitted).unwrap();
        winner.insert(&table, (2_i64, 0_i64)).unwrap();
        winner.delete(&table, 2_i64).unwrap();
        winner.insert(&table, (2_i64, 0_i64)).unwrap();
        winner.commit(Durability::None).unwrap();
        set(&mut loser, &table, 0, 90).unwrap();
        set(&mut loser, &table, 1, 120).unwrap();
        let failed = loser.commit(Durability::None);
        assert!(
            matches!(failed, Err(Error::Serialization { .. })),
            "{failed:?}"
        );
        reader.join().unwrap();
        drop((winner, loser));
        assert_eq!(db.snapshot_bytes(), 0);
    });
}

/// Two rows that others read while they are changed.
struct Slots {
    clock: Arc<Clock>,
    table: Table,
    rows: [Mutex<i64>; 2],
}

impl Slots {
    fn new() -> Arc<Self> {
        let (_, table) = filled();
        Arc::new(Self {
            clock: Clock::new(u64::MAX),
            table,
            rows: [Mutex::new(100), Mutex::new(100)],
        })
    }

    fn key(&self, row: &Row) -> KeyBuf {
        let mut key = KeyBuf::new();
        self.table
            .entry
            .shape
            .primary
            .encode_row(row, &mut key)
            .unwrap();
        key
    }

    fn row(&self, id: usize, value: i64) -> Arc<Row> {
        let mut row = self.table.row();
        row.set(0, id as i64).unwrap();
        row.set(1, value).unwrap();
        Arc::new(row)
    }

    fn change(&self, id: usize, before: i64, after: i64) -> Change {
        let (before, after) = (self.row(id, before), self.row(id, after));
        Change {
            table: self.table.clone(),
            key: self.key(&before),
            before: Some(before),
            after: Some(after),
            update: None,
            moved: Move::None,
        }
    }

    /// Moves money, or takes it back after all.
    fn transfer(&self, takes_back: bool) {
        let changes = [self.change(0, 100, 90), self.change(1, 100, 110)];
        let mut pending = Pending::default();
        self.clock.announce(&mut pending, changes.iter());
        let mut held = self.rows.each_ref().map(|row| row.lock().unwrap());
        *held[0] = 90;
        *held[1] = 110;
        if takes_back {
            *held[0] = 100;
            *held[1] = 100;
            drop(held);
            self.clock.cancel(pending);
        } else {
            self.clock.settle(&mut pending, None).unwrap();
            drop(held);
        }
    }

    fn check(&self) {
        let view = self.clock.view(Purpose::Validating);
        let sum: i64 = [0, 1]
            .map(|id| {
                let seen = *self.rows[id].lock().unwrap();
                let key = self.key(&self.row(id, 0));
                let image = view.version(self.table.id(), &key).unwrap();
                image.map_or(seen, |image| value(&image.unwrap()))
            })
            .iter()
            .sum();
        assert_eq!(sum, 200);
    }
}

fn with_many_slots(takes_back: bool) {
    explore(move || {
        let slots = Slots::new();
        let readers = [(); 2].map(|()| {
            let slots = Arc::clone(&slots);
            spawn(move || slots.check())
        });
        slots.transfer(takes_back);
        for reader in readers {
            reader.join().unwrap();
        }
        assert_eq!(slots.clock.images_bytes(), 0);
    });
}

#[test]
fn images_of_many_slots_show_one_moment() {
    with_many_slots(false);
}

#[test]
fn images_of_changes_that_were_undone_show_one_moment() {
    with_many_slots(true);
}
