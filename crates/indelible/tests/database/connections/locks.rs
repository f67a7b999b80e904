//! Locks of rows, unique keys and tables: conflicts, and the ends of waits.
//!
//! Goal: exactly the conflicts of the tables in `row_locks.rs`. Method: probes without waiting;
//! threads for deadlocks, limits and interrupts, with waits that are longer than any test.

use super::{Directory, begun, database, everywhere, everywhere_with, filled, get, set};
use indelible::{
    AdvisoryKey, AdvisoryMode, Connection, Database, Direction, Durability, Error, Found,
    Isolation, KeyLock, Method, RowLock, Scope, StorageError, Table, TableLock, Uniqueness, Wait,
};
use std::time::{Duration, Instant};

const STRENGTHS: [RowLock; 4] = [
    RowLock::KeyShare,
    RowLock::Share,
    RowLock::NoKeyUpdate,
    RowLock::Update,
];
const LONG: Wait = Wait::Limit(Duration::from_mins(10));

fn lock(connection: &mut Connection, table: &Table, id: i64, strength: RowLock) -> Found {
    let mut row = table.row();
    connection
        .get_locked(table, id, strength, Wait::Never, &mut row)
        .unwrap()
}

fn one_of(method: Method, test: impl Fn(&Database)) {
    let directory = Directory::new();
    test(&database(&directory, method, 3, |options| options));
}

/// Each pair of strengths, in the order of the enum.
#[test]
fn the_four_strengths_exclude_each_other() {
    everywhere(|db| {
        let table = filled(db, 1);
        for (held, excluded) in STRENGTHS.into_iter().zip([1, 2, 3, 4]) {
            for (at, wanted) in STRENGTHS.into_iter().enumerate() {
                let (mut one, mut two) = (
                    begun(db, Isolation::ReadCommitted),
                    begun(db, Isolation::ReadCommitted),
                );
                assert_eq!(lock(&mut one, &table, 0, held), Found::Yes);
                let expected = if at + excluded >= 4 {
                    Found::Busy
                } else {
                    Found::Yes
                };
                assert_eq!(
                    lock(&mut two, &table, 0, wanted),
                    expected,
                    "{held:?} {wanted:?}"
                );
                // Readers wait for nobody.
                assert_eq!(get(&mut two, &table, 0), Some(100));
                one.abort();
                assert_eq!(lock(&mut two, &table, 0, wanted), Found::Yes);
            }
        }
    });
}

#[test]
fn a_change_of_other_columns_leaves_references_valid() {
    everywhere(|db| {
        let table = filled(db, 1);
        let mut child = begun(db, Isolation::ReadCommitted);
        assert_eq!(lock(&mut child, &table, 0, RowLock::KeyShare), Found::Yes);
        let mut parent = begun(db, Isolation::ReadCommitted);
        assert!(set(&mut parent, &table, 0, 1).unwrap());
        assert!(parent.delete(&table, 0_i64).is_err());
        child.commit(Durability::Immediate).unwrap();
        assert!(parent.delete(&table, 0_i64).unwrap());
    });
}

#[test]
fn a_locked_row_is_the_newest_and_stays() {
    everywhere(|db| {
        let table = filled(db, 2);
        let mut one = begun(db, Isolation::ReadCommitted);
        assert_eq!(get(&mut one, &table, 0), Some(100));
        let mut two = begun(db, Isolation::ReadCommitted);
        set(&mut two, &table, 0, 7).unwrap();
        two.commit(Durability::Immediate).unwrap();
        let mut row = table.row();
        let found = one.get_locked(&table, 0_i64, RowLock::Update, Wait::Never, &mut row);
        assert_eq!((found.unwrap(), super::amount(&row)), (Found::Yes, 7));
        assert_eq!(lock(&mut one, &table, 5, RowLock::Update), Found::No);
        two.begin(Isolation::ReadCommitted).unwrap();
        assert!(
            two.insert(&table, (5_i64, 1_i64)).is_err(),
            "its key is locked"
        );
        let mut three = begun(db, Isolation::RepeatableRead);
        assert_eq!(get(&mut three, &table, 0), Some(7));
        set(&mut one, &table, 0, 8).unwrap();
        one.commit(Durability::Immediate).unwrap();
        let found = three.get_locked(&table, 0_i64, RowLock::Share, Wait::Never, &mut row);
        assert!(matches!(found, Err(Error::Serialization { .. })));
    });
}

/// A key of `row_key` means in each call what its values mean.
#[test]
fn a_key_serves_several_calls() {
    everywhere(|db| {
        let table = filled(db, 2);
        let mut one = begun(db, Isolation::ReadCommitted);
        let mut row = table.row();
        let keys = [0_i64, 1, 5].map(|id| one.row_key(&table, id).unwrap());
        let (strength, wait) = (RowLock::NoKeyUpdate, Wait::Never);
        let found = [1, 2, 0].map(|at| {
            let found = one.get_locked_at(&table, &keys[at], strength, wait, &mut row);
            found.unwrap()
        });
        assert_eq!(found, [Found::Yes, Found::No, Found::Yes]);
        let mut changes = table.changes();
        changes.set(1, 7_i64).unwrap();
        let updated = [0, 1, 2].map(|at| one.update_at(&table, &keys[at], &changes).unwrap());
        assert_eq!(updated, [true, true, false]);
        assert_eq!([0, 1].map(|id| get(&mut one, &table, id)), [Some(7); 2]);
        assert!(one.delete_at(&table, &keys[1]).unwrap());
        assert!(!one.delete_at(&table, &keys[1]).unwrap());
        one.commit(Durability::Immediate).unwrap();
        // It is no claim to the row: another transaction looks at it anew.
        let mut two = begun(db, Isolation::ReadCommitted);
        assert_eq!([0, 1].map(|id| get(&mut two, &table, id)), [Some(7), None]);
        assert!(two.update_at(&table, &keys[0], &changes).unwrap());
        two.abort();
        db.drop_table("accounts").unwrap();
        one.begin(Isolation::ReadCommitted).unwrap();
        let found = one.get_locked_at(&table, &keys[0], strength, wait, &mut row);
        assert!(found.is_err(), "the table is gone");
        assert!(one.update_at(&table, &keys[0], &changes).is_err());
    });
}

#[test]
fn unique_keys_wait_for_those_who_take_and_free_them() {
    everywhere(|db| {
        let table = filled(db, 0);
        db.create_index(&table, "unique_amount", ["amount"], Uniqueness::Unique)
            .unwrap();
        let (mut one, mut two) = (
            begun(db, Isolation::ReadCommitted),
            begun(db, Isolation::ReadCommitted),
        );
        one.insert(&table, (1_i64, 10_i64)).unwrap();
        one.insert(&table, (2_i64, 20_i64)).unwrap();
        let is_duplicate =
            |result: indelible::Result<()>| matches!(result, Err(Error::DuplicateKey { .. }));
        let is_busy = |result: indelible::Result<()>| {
            matches!(
                result,
                Err(Error::Storage(StorageError::LockTimeout { .. }))
            )
        };
        assert!(is_duplicate(one.insert(&table, (3_i64, 20_i64))));
        assert!(is_duplicate(one.insert(&table, (1_i64, 30_i64))));
        assert!(is_busy(two.insert(&table, (4_i64, 10_i64))));
        // Two rows swap their keys over a third value.
        for (id, amount) in [(1, 0), (2, 10), (1, 20)] {
            assert!(set(&mut one, &table, id, amount).unwrap());
        }
        one.commit(Durability::Immediate).unwrap();
        assert!(is_duplicate(two.insert(&table, (4_i64, 10_i64))));
        two.insert(&table, (4_i64, 0_i64)).unwrap();
        // Locks of changes stay until the transaction ends.
        two.abort();
        two.begin(Isolation::ReadCommitted).unwrap();
        one.begin(Isolation::ReadCommitted).unwrap();
        one.delete(&table, 2_i64).unwrap();
        assert!(
            is_busy(two.insert(&table, (5_i64, 10_i64))),
            "it may come back"
        );
        one.insert(&table, (6_i64, 10_i64)).unwrap();
        one.commit(Durability::Immediate).unwrap();
        assert!(is_duplicate(two.insert(&table, (5_i64, 10_i64))));
        // The failed statements have left nothing.
        two.commit(Durability::Immediate).unwrap();
        assert_eq!(db.read(|r| r.count(&table, ..)).unwrap(), 2);
    });
}

/// An update that names a key and gives it the value that it has leaves references valid; so it
/// does where others have changed the row since it was looked at.
#[test]
fn an_update_that_keeps_the_key_goes_with_references() {
    everywhere(|db| {
        let table = filled(db, 3);
        db.create_index(&table, "unique_amount", ["amount"], Uniqueness::Unique)
            .unwrap_err();
        let mut one = begun(db, Isolation::ReadCommitted);
        for id in 0..3 {
            set(&mut one, &table, id, 100 + id).unwrap();
        }
        one.commit(Durability::Immediate).unwrap();
        db.create_index(&table, "unique_amount", ["amount"], Uniqueness::Unique)
            .unwrap();
        let mut two = begun(db, Isolation::ReadCommitted);
        for (id, amount, is_kept) in [(1, 101, true), (1, 7, false), (8, 101, false)] {
            let mut changes = table.changes();
            changes.set(0, id).unwrap();
            changes.set(1, amount).unwrap();
            one.begin(Isolation::ReadCommitted).unwrap();
            assert!(one.update(&table, 1_i64, &changes).unwrap());
            let found = lock(&mut two, &table, 1, RowLock::KeyShare);
            assert_eq!(found == Found::Yes, is_kept, "{id} {amount}");
            assert_eq!(lock(&mut two, &table, 1, RowLock::Share), Found::Busy);
            one.abort();
            two.abort();
            // The other order.
            two.begin(Isolation::ReadCommitted).unwrap();
            assert_eq!(lock(&mut two, &table, 1, RowLock::KeyShare), Found::Yes);
            one.begin(Isolation::ReadCommitted).unwrap();
            assert_eq!(one.update(&table, 1_i64, &changes).is_ok(), is_kept);
            one.abort();
            two.abort();
            two.begin(Isolation::ReadCommitted).unwrap();
        }
        // Its own change counts, and not the row that has committed.
        one.begin(Isolation::ReadCommitted).unwrap();
        set(&mut one, &table, 2, 50).unwrap();
        let mut changes = table.changes();
        changes.set(0, 2_i64).unwrap();
        changes.set(1, 50_i64).unwrap();
        assert!(one.update(&table, 2_i64, &changes).unwrap());
        assert!(set(&mut two, &table, 1, 50).is_err(), "its key is locked");
        one.commit(Durability::Immediate).unwrap();
        assert!(matches!(
            set(&mut two, &table, 1, 50),
            Err(Error::DuplicateKey(_))
        ));
        two.abort();
        assert_eq!(
            get(&mut begun(db, Isolation::ReadCommitted), &table, 2),
            Some(50)
        );
    });
}

/// Rows that are locked and not changed go with a lock of the table that keeps changes out, as in
/// PostgreSQL; earlier transactions of a session do not matter.
#[test]
fn a_shared_table_keeps_changes_out_and_lets_rows_be_locked() {
    everywhere(|db| {
        let table = filled(db, 2);
        let (mut one, mut two) = (
            begun(db, Isolation::ReadCommitted),
            begun(db, Isolation::ReadCommitted),
        );
        for mode in [TableLock::Shared, TableLock::SharedIntentExclusive] {
            for strength in STRENGTHS {
                one.lock_table(&table, mode, Wait::Never).unwrap();
                assert_eq!(lock(&mut two, &table, 0, strength), Found::Yes);
                assert!(set(&mut two, &table, 0, 1).is_err());
                // It has the table, and not the row.
                let is_free = strength <= RowLock::Share;
                let found = lock(&mut one, &table, 0, RowLock::Share);
                assert_eq!(found == Found::Yes, is_free, "{strength:?}");
                one.abort();
                assert!(two.update(&table, 0_i64, &table.changes()).unwrap());
                one.begin(Isolation::ReadCommitted).unwrap();
                assert!(one.lock_table(&table, mode, Wait::Never).is_err());
                two.abort();
                two.begin(Isolation::ReadCommitted).unwrap();
                let intent = TableLock::IntentShared;
                two.lock_table(&table, intent, Wait::Never).unwrap();
                assert_eq!(lock(&mut two, &table, 0, strength), Found::Yes);
                one.lock_table(&table, mode, Wait::Never).unwrap();
                let exclusive = TableLock::Exclusive;
                assert!(one.lock_table(&table, exclusive, Wait::Never).is_err());
                for connection in [&mut one, &mut two] {
                    connection.abort();
                    connection.begin(Isolation::ReadCommitted).unwrap();
                }
            }
        }
        one.lock_table(&table, TableLock::Exclusive, Wait::Never)
            .unwrap();
        assert_eq!(lock(&mut two, &table, 0, RowLock::KeyShare), Found::Busy);
    });
}

/// Rows that have got one key before there was a unique index cannot both commit, wherever they
/// are, and whoever knows of the index.
#[test]
fn a_unique_index_counts_for_changes_before_it() {
    everywhere(|db| {
        let table = filled(db, 0);
        let (mut one, mut two) = (
            begun(db, Isolation::ReadCommitted),
            begun(db, Isolation::ReadCommitted),
        );
        let insert = |connection: &mut Connection, id: i64, amount: i64| {
            connection.insert(&table, (id, amount))
        };
        insert(&mut one, 0, 5).unwrap();
        insert(&mut two, 1, 5).unwrap();
        insert(&mut two, 2, 6).unwrap();
        db.create_index(&table, "unique_amount", ["amount"], Uniqueness::Unique)
            .unwrap();
        one.commit(Durability::Immediate).unwrap();
        let refused = two.commit(Durability::Immediate);
        assert!(
            matches!(refused, Err(Error::DuplicateKey(_))),
            "{refused:?}"
        );
        assert!(!two.is_open());
        // Both keys in one transaction.
        db.drop_index(&table, "unique_amount").unwrap();
        two.begin(Isolation::ReadCommitted).unwrap();
        insert(&mut two, 1, 8).unwrap();
        insert(&mut two, 2, 8).unwrap();
        insert(&mut two, 3, 9).unwrap();
        db.create_index(&table, "unique_amount", ["amount"], Uniqueness::Unique)
            .unwrap();
        let refused = two.commit(Durability::Immediate);
        assert!(
            matches!(refused, Err(Error::DuplicateKey(_))),
            "{refused:?}"
        );
        // One that knows of the index has the key, or gets it afterwards.
        db.drop_index(&table, "unique_amount").unwrap();
        one.begin(Isolation::ReadCommitted).unwrap();
        insert(&mut one, 1, 7).unwrap();
        db.create_index(&table, "unique_amount", ["amount"], Uniqueness::Unique)
            .unwrap();
        two.begin(Isolation::ReadCommitted).unwrap();
        insert(&mut two, 2, 7).unwrap();
        let refused = one.commit(Durability::Immediate);
        assert!(matches!(
            refused,
            Err(Error::Storage(StorageError::LockTimeout { .. }))
        ));
        two.commit(Durability::Immediate).unwrap();
        let rows = db.read(|r| r.collect(&table, ..)).unwrap();
        assert_eq!(super::pairs(&rows), [(0, 5), (2, 7)]);
    });
}

#[test]
fn a_table_can_be_locked() {
    everywhere(|db| {
        let table = filled(db, 2);
        let (mut one, mut two) = (
            begun(db, Isolation::ReadCommitted),
            begun(db, Isolation::ReadCommitted),
        );
        one.lock_table(&table, TableLock::Shared, Wait::Never)
            .unwrap();
        assert!(set(&mut two, &table, 0, 1).is_err());
        assert_eq!(get(&mut two, &table, 0), Some(100));
        let refused = two.lock_table(&table, TableLock::IntentExclusive, Wait::Never);
        assert!(matches!(
            refused,
            Err(Error::Storage(StorageError::LockTimeout { .. }))
        ));
        one.abort();
        assert!(set(&mut two, &table, 0, 1).unwrap());
        one.begin(Isolation::ReadCommitted).unwrap();
        assert!(
            one.lock_table(&table, TableLock::Shared, Wait::Never)
                .is_err()
        );
    });
}

#[test]
fn a_deadlock_over_partitions_has_one_victim_at_once() {
    everywhere(|db| {
        let table = filled(db, 2);
        let started = Instant::now();
        let barrier = &std::sync::Barrier::new(2);
        let deadlocks: usize = std::thread::scope(|threads| {
            let both = [(0, 1), (1, 0)].map(|(first, second)| {
                let (db, table) = (db, &table);
                threads.spawn(move || {
                    let mut connection = begun(db, Isolation::ReadCommitted);
                    connection.set_wait(LONG);
                    set(&mut connection, table, first, 1).unwrap();
                    barrier.wait();
                    match set(&mut connection, table, second, 2) {
                        Ok(changed) => {
                            assert!(changed);
                            connection.commit(Durability::Immediate).unwrap();
                            0
                        }
                        Err(error) => {
                            let deadlock = Error::Storage(StorageError::Deadlock { waited_ms: 0 });
                            assert_eq!(
                                std::mem::discriminant(&error),
                                std::mem::discriminant(&deadlock)
                            );
                            assert!(error.should_retry());
                            1
                        }
                    }
                })
            });
            both.map(|thread| thread.join().unwrap()).iter().sum()
        });
        assert_eq!(deadlocks, 1);
        assert!(started.elapsed() < Duration::from_mins(2));
    });
}

#[test]
fn an_interrupt_ends_a_wait_and_a_scan() {
    one_of(Method::NvmInp, |db| {
        let table = filled(db, 2);
        let mut holder = begun(db, Isolation::ReadCommitted);
        set(&mut holder, &table, 0, 1).unwrap();
        let mut waiter = begun(db, Isolation::ReadCommitted);
        waiter.set_wait(LONG);
        let interrupt = waiter.interrupt();
        std::thread::scope(|threads| {
            let thread = threads.spawn(|| set(&mut waiter, &table, 0, 2));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!thread.is_finished());
            interrupt.raise();
            let ended = thread.join().unwrap();
            assert!(matches!(
                ended,
                Err(Error::Storage(StorageError::Interrupted))
            ));
        });
        assert!(waiter.collect(&table, ..).is_err());
        interrupt.clear();
        // The transaction goes on.
        assert!(set(&mut waiter, &table, 1, 2).unwrap());
        holder.abort();
        assert!(set(&mut waiter, &table, 0, 2).unwrap());
        waiter.commit(Durability::Immediate).unwrap();
    });
}

#[test]
fn a_wait_has_a_limit() {
    one_of(Method::FullPageWrites, |db| {
        let table = filled(db, 1);
        let mut holder = begun(db, Isolation::ReadCommitted);
        set(&mut holder, &table, 0, 1).unwrap();
        let mut waiter = begun(db, Isolation::ReadCommitted);
        waiter.set_wait(Wait::Limit(Duration::from_millis(30)));
        let started = Instant::now();
        let ended = set(&mut waiter, &table, 0, 2);
        assert!(matches!(
            ended,
            Err(Error::Storage(StorageError::LockTimeout { .. }))
        ));
        assert!(started.elapsed() >= Duration::from_millis(30));
    });
}

#[test]
fn advisory_locks_last_as_long_as_their_scope() {
    one_of(Method::NvmInp, |db| {
        let key = AdvisoryKey::One(7);
        let (mut one, mut two) = (
            begun(db, Isolation::ReadCommitted),
            begun(db, Isolation::ReadCommitted),
        );
        let lock = |connection: &mut Connection, key, mode, scope| {
            connection
                .advisory_lock(key, mode, scope, Wait::Never)
                .unwrap()
        };
        let (shared, exclusive) = (AdvisoryMode::Shared, AdvisoryMode::Exclusive);
        assert!(lock(&mut one, key, shared, Scope::Transaction));
        assert!(lock(&mut two, key, shared, Scope::Connection));
        assert!(!lock(&mut two, key, exclusive, Scope::Transaction));
        assert!(lock(
            &mut two,
            AdvisoryKey::Two(0, 7),
            exclusive,
            Scope::Transaction
        ));
        one.abort();
        // For the transaction and twice for the connection.
        assert!(lock(&mut two, key, exclusive, Scope::Transaction));
        assert!(lock(&mut two, key, exclusive, Scope::Connection));
        two.commit(Durability::Immediate).unwrap();
        one.begin(Isolation::ReadCommitted).unwrap();
        assert!(!lock(&mut one, key, shared, Scope::Connection));
        assert!(lock(
            &mut one,
            AdvisoryKey::Two(0, 7),
            shared,
            Scope::Connection
        ));
        assert!(two.advisory_unlock(key, exclusive));
        assert!(!two.advisory_unlock(key, exclusive));
        assert!(!lock(&mut one, key, exclusive, Scope::Connection));
        assert!(two.advisory_unlock(key, shared));
        assert!(lock(&mut one, key, exclusive, Scope::Connection));
        drop(one);
        assert!(lock(&mut two, key, exclusive, Scope::Connection));
        assert!(
            two.advisory_lock(key, exclusive, Scope::Transaction, Wait::Never)
                .is_err()
        );
    });
}

/// One waits for a row of the other, which waits for an advisory lock.
#[test]
fn a_deadlock_over_advisory_locks_is_found() {
    one_of(Method::NvmInp, |db| {
        let table = filled(db, 1);
        let key = AdvisoryKey::One(1);
        let mut one = begun(db, Isolation::ReadCommitted);
        let mut two = begun(db, Isolation::ReadCommitted);
        for connection in [&mut one, &mut two] {
            connection.set_wait(LONG);
        }
        let exclusive = AdvisoryMode::Exclusive;
        one.advisory_lock(key, exclusive, Scope::Connection, LONG)
            .unwrap();
        set(&mut two, &table, 0, 1).unwrap();
        let deadlocks = std::thread::scope(|threads| {
            let row = threads.spawn(|| {
                let ended = set(&mut one, &table, 0, 2).is_err();
                one.abort();
                one.advisory_unlock(key, exclusive);
                ended
            });
            let name = threads.spawn(|| {
                let ended = two
                    .advisory_lock(key, exclusive, Scope::Transaction, LONG)
                    .is_err();
                two.abort();
                ended
            });
            u8::from(row.join().unwrap()) + u8::from(name.join().unwrap())
        });
        assert_eq!(deadlocks, 1);
    });
}

/// Locks from before the mark stay as strong as they were then.
#[test]
fn a_rollback_to_a_mark_gives_back_what_was_locked_since() {
    everywhere(|db| {
        let table = filled(db, 4);
        let by_amount = table.index("by_amount").unwrap();
        let mut one = begun(db, Isolation::ReadCommitted);
        assert_eq!(lock(&mut one, &table, 0, RowLock::KeyShare), Found::Yes);
        set(&mut one, &table, 1, 5).unwrap();
        let mark = one.statement().unwrap();
        assert_eq!(lock(&mut one, &table, 0, RowLock::Update), Found::Yes);
        one.delete(&table, 2_i64).unwrap();
        one.insert(&table, (9_i64, 9_i64)).unwrap();
        let key = one.lock_key(&by_amount, 77_i64, Wait::Never).unwrap();
        assert_eq!(key, KeyLock::First);
        let mut two = begun(db, Isolation::ReadCommitted);
        for id in [0, 2, 9] {
            assert_eq!(lock(&mut two, &table, id, RowLock::KeyShare), Found::Busy);
        }
        let key = two.lock_key(&by_amount, 77_i64, Wait::Never).unwrap();
        assert_eq!(key, KeyLock::Busy);

        one.roll_back_to(mark).unwrap();
        assert_eq!(lock(&mut two, &table, 0, RowLock::Update), Found::Busy);
        assert_eq!(lock(&mut two, &table, 0, RowLock::Share), Found::Yes);
        assert_eq!(lock(&mut two, &table, 1, RowLock::Share), Found::Busy);
        assert!(two.delete(&table, 2_i64).unwrap());
        two.insert(&table, (9_i64, 10_i64)).unwrap();
        let key = two.lock_key(&by_amount, 77_i64, Wait::Never).unwrap();
        assert_eq!(key, KeyLock::First);
        // The row that was read last is not taken for the newest one any more.
        assert_eq!(lock(&mut one, &table, 2, RowLock::Update), Found::Busy);
        two.commit(Durability::Immediate).unwrap();
        assert_eq!(lock(&mut one, &table, 2, RowLock::Update), Found::No);
        let key = one.lock_key(&by_amount, 77_i64, Wait::Never).unwrap();
        assert_eq!(key, KeyLock::First, "its lock was another's meanwhile");
        one.commit(Durability::Immediate).unwrap();
        let left = db.read(|reader| reader.collect(&table, ..)).unwrap();
        let expected = [(0, 100), (1, 5), (3, 100), (9, 10)];
        assert_eq!(super::pairs(&left), expected);
    });
}

/// The lock of a table that has taken the place of many locks of rows stays for the older ones.
#[test]
fn a_rollback_to_a_mark_keeps_rows_that_an_escalation_has_locked() {
    everywhere_with(
        |options| options.locks_max(1024),
        |db| {
            let table = filled(db, 700);
            let mut one = begun(db, Isolation::ReadCommitted);
            for id in 0..200 {
                set(&mut one, &table, id, 5).unwrap();
            }
            let mark = one.statement().unwrap();
            for id in 200..650 {
                set(&mut one, &table, id, 6).unwrap();
            }
            one.roll_back_to(mark).unwrap();
            let mut two = begun(db, Isolation::ReadCommitted);
            assert_eq!(lock(&mut two, &table, 1, RowLock::KeyShare), Found::Busy);
            one.commit(Durability::Immediate).unwrap();
            assert_eq!(lock(&mut two, &table, 1, RowLock::Update), Found::Yes);
            assert_eq!(get(&mut two, &table, 1), Some(5));
            assert_eq!(get(&mut two, &table, 400), Some(100));
        },
    );
}

/// Of the rows that it has not locked others find each one, up to a quarter of all locks.
#[test]
fn many_locks_of_rows_leave_the_other_rows_to_others() {
    everywhere_with(
        |options| options.locks_max(1 << 14),
        |db| {
            let table = filled(db, 1);
            let mut one = begun(db, Isolation::ReadCommitted);
            for id in 1..4000 {
                assert_eq!(lock(&mut one, &table, id, RowLock::Update), Found::No);
            }
            let mut two = begun(db, Isolation::ReadCommitted);
            assert_eq!(lock(&mut two, &table, 3999, RowLock::Update), Found::Busy);
            assert_eq!(lock(&mut two, &table, 4000, RowLock::Update), Found::No);
            two.abort();
            for id in 4000..5000 {
                lock(&mut one, &table, id, RowLock::Update);
            }
            two.begin(Isolation::ReadCommitted).unwrap();
            assert_eq!(lock(&mut two, &table, 9000, RowLock::Update), Found::Busy);
            assert_eq!(get(&mut two, &table, 0), Some(100));
        },
    );
}

/// Marks and scans are of one transaction of one connection.
#[test]
fn a_mark_of_another_connection_is_refused() {
    one_of(Method::NvmInp, |db| {
        let table = filled(db, 4);
        let (mut one, mut two) = (
            begun(db, Isolation::ReadCommitted),
            begun(db, Isolation::ReadCommitted),
        );
        let mark = one.statement().unwrap();
        set(&mut one, &table, 1, 5).unwrap();
        set(&mut two, &table, 2, 5).unwrap();
        let refused = two.roll_back_to(mark);
        assert!(
            matches!(refused, Err(Error::NoSuchSavepoint)),
            "{refused:?}"
        );
        let mut scan = one.scan(&table, .., Direction::Forward).unwrap();
        let refused = scan.next_batch(&mut two, &mut Vec::new());
        assert!(matches!(refused, Err(Error::NoTransaction)), "{refused:?}");
    });
}

/// A table's lock is as strong as it was at the mark, and rows that were locked before stay so.
#[test]
fn a_rollback_to_a_mark_gives_tables_and_names_back() {
    everywhere(|db| {
        let table = filled(db, 2);
        let (exclusive, shared) = (AdvisoryMode::Exclusive, AdvisoryMode::Shared);
        let (kept, taken) = (AdvisoryKey::One(1), AdvisoryKey::Two(2, 3));
        let mut one = begun(db, Isolation::ReadCommitted);
        let mut two = begun(db, Isolation::ReadCommitted);
        let whole = |connection: &mut Connection, mode| {
            connection.lock_table(&table, mode, Wait::Never).is_ok()
        };
        let name = |connection: &mut Connection, key, mode, scope| {
            let locked = connection.advisory_lock(key, mode, scope, Wait::Never);
            locked.unwrap()
        };
        for row_first in [false, true] {
            if row_first {
                set(&mut one, &table, 0, 1).unwrap();
            }
            assert!(name(&mut one, kept, shared, Scope::Transaction));
            let mark = one.statement().unwrap();
            assert!(whole(&mut one, TableLock::Shared));
            assert!(whole(&mut one, TableLock::AccessExclusive));
            assert!(name(&mut one, kept, exclusive, Scope::Transaction));
            assert!(name(&mut one, taken, exclusive, Scope::Transaction));
            assert!(name(&mut one, taken, shared, Scope::Connection));
            assert!(!whole(&mut two, TableLock::AccessShare));
            assert!(!name(&mut two, kept, shared, Scope::Connection));

            one.roll_back_to(mark).unwrap();
            assert!(whole(&mut two, TableLock::IntentExclusive));
            assert_eq!(whole(&mut two, TableLock::Exclusive), !row_first);
            for key in [kept, taken] {
                assert!(name(&mut two, key, shared, Scope::Transaction));
                assert!(!name(&mut two, key, exclusive, Scope::Transaction));
            }
            one.roll_back_to(mark).unwrap();
            one.abort();
            one.advisory_unlock_all();
            assert!(name(&mut two, taken, exclusive, Scope::Transaction));
            two.abort();
            for connection in [&mut one, &mut two] {
                connection.begin(Isolation::ReadCommitted).unwrap();
            }
        }
    });
}

/// A session that has changed rows before excludes only those whom a reader excludes.
#[test]
fn a_reader_lets_everybody_in_but_those_who_want_a_table_alone() {
    everywhere(|db| {
        let table = filled(db, 1);
        let mut reader = begun(db, Isolation::ReadCommitted);
        set(&mut reader, &table, 0, 1).unwrap();
        reader.commit(Durability::Immediate).unwrap();
        reader.begin(Isolation::ReadCommitted).unwrap();
        reader
            .lock_table(&table, TableLock::AccessShare, Wait::Never)
            .unwrap();
        let mut other = begun(db, Isolation::ReadCommitted);
        other
            .lock_table(&table, TableLock::Exclusive, Wait::Never)
            .unwrap();
        let alone = other.lock_table(&table, TableLock::AccessExclusive, Wait::Never);
        assert!(alone.is_err());
        reader.abort();
        other
            .lock_table(&table, TableLock::AccessExclusive, Wait::Never)
            .unwrap();
    });
}

/// Waiters of a mark that is rolled back to are woken.
#[test]
fn a_rollback_to_a_mark_lets_those_go_on_who_wait() {
    one_of(Method::NvmInp, |db| {
        let table = filled(db, 1);
        let mut one = begun(db, Isolation::ReadCommitted);
        let mark = one.statement().unwrap();
        set(&mut one, &table, 0, 1).unwrap();
        std::thread::scope(|threads| {
            let waits = threads.spawn(|| {
                let mut two = begun(db, Isolation::ReadCommitted);
                two.set_wait(LONG);
                set(&mut two, &table, 0, 2).unwrap();
                two.commit(Durability::Immediate).unwrap();
            });
            while db.lock_waits().is_empty() {
                std::thread::yield_now();
            }
            one.roll_back_to(mark).unwrap();
            waits.join().unwrap();
        });
        assert_eq!(get(&mut one, &table, 0), Some(2));
    });
}
