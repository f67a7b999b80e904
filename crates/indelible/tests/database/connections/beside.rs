//! Typed closures and workers beside open connections.
//!
//! Goal: snapshots do not see later closures, a serializable connection notices them, and each
//! waits for rows that the other has changed. Method: steps in turn, threads where one waits.

use super::{accounts, begun, everywhere, filled, get, pairs, set};
use indelible::{
    Connection, Durability, Error, Found, Isolation, RowLock, Table, Transaction, Wait,
};
use std::time::Duration;

fn add(t: &mut Transaction<'_>, table: &Table, id: i64, more: i64) -> indelible::Result<()> {
    let row = t.get_for_update(table, id)?.unwrap();
    let mut changes = table.changes();
    changes.set(1, super::amount(&row) + more)?;
    t.update(table, id, &changes).map(drop)
}

#[test]
fn a_snapshot_does_not_see_later_closures() {
    everywhere(|db| {
        let table = filled(db, 6);
        let by_amount = table.index("by_amount").unwrap();
        let mut reader = begun(db, Isolation::Serializable);
        assert_eq!(get(&mut reader, &table, 0), Some(100));
        db.transaction(|t| {
            for id in 0..3 {
                add(t, &table, id, 5)?;
            }
            t.delete(&table, 3_i64)?;
            t.insert(&table, (6_i64, 100_i64))?;
            let mark = t.savepoint();
            add(t, &table, 4, 1)?;
            t.delete(&table, 5_i64)?;
            t.rollback_to(&mark)
        })
        .unwrap();
        let mut worker = db.worker(&[0], Durability::Group).unwrap();
        worker.transaction(|t| add(t, &table, 0, 5)).unwrap();
        worker.close().unwrap();
        // A closure that fails, and one that is undone.
        let failed = db.transaction(|t| t.insert(&table, (0_i64, 0_i64)));
        assert!(matches!(failed, Err(Error::DuplicateKey { .. })));
        let undone: indelible::Result<()> = db.transaction(|t| {
            add(t, &table, 1, 7)?;
            t.delete(&table, 2_i64)?;
            Err(Error::rejected("a reason"))
        });
        assert!(undone.is_err());
        let old: Vec<(i64, i64)> = (0..6).map(|id| (id, 100)).collect();
        assert_eq!(pairs(&reader.collect(&table, ..).unwrap()), old);
        assert_eq!(pairs(&reader.find(&by_amount, 100_i64).unwrap()), old);
        reader.commit(Durability::Immediate).unwrap();
        reader.begin(Isolation::RepeatableRead).unwrap();
        let new = [(0, 110), (1, 105), (2, 105), (4, 100), (5, 100), (6, 100)];
        assert_eq!(pairs(&reader.collect(&table, ..).unwrap()), new);
    });
}

#[test]
fn a_closure_is_a_conflict_for_a_serializable_connection() {
    everywhere(|db| {
        let table = filled(db, 6);
        let mut one = begun(db, Isolation::Serializable);
        assert_eq!(one.collect(&table, 0_i64..3).unwrap().len(), 3);
        set(&mut one, &table, 5, 0).unwrap();
        db.transaction(|t| add(t, &table, 1, 1)).unwrap();
        let failed = one.commit(Durability::Immediate);
        assert!(matches!(failed, Err(Error::Serialization { .. })));
        let mut two = begun(db, Isolation::RepeatableRead);
        assert_eq!(get(&mut two, &table, 1), Some(101));
        db.transaction(|t| add(t, &table, 1, 1)).unwrap();
        assert!(matches!(
            set(&mut two, &table, 1, 0),
            Err(Error::Serialization { .. })
        ));
    });
}

#[test]
fn a_closure_waits_for_a_row_that_a_connection_has_locked() {
    everywhere(|db| {
        let table = filled(db, 2);
        let mut one = begun(db, Isolation::ReadCommitted);
        set(&mut one, &table, 0, 1).unwrap();
        // Another row is free.
        db.transaction(|t| add(t, &table, 1, 1)).unwrap();
        std::thread::scope(|threads| {
            let closure = threads.spawn(|| db.transaction(|t| add(t, &table, 0, 1)));
            std::thread::sleep(Duration::from_millis(20));
            assert!(!closure.is_finished());
            one.commit(Durability::Immediate).unwrap();
            closure.join().unwrap().unwrap();
        });
        assert_eq!(
            db.read(|r| r.collect(&table, ..))
                .map(|rows| pairs(&rows))
                .unwrap(),
            [(0, 2), (1, 101)]
        );
    });
}

/// The newest amount, as somebody finds it who is going to change it.
fn newest(connection: &mut Connection, table: &Table, id: i64) -> Option<i64> {
    let mut row = table.row();
    connection.begin(Isolation::ReadCommitted).unwrap();
    let found = connection.get_locked(table, id, RowLock::Update, Wait::Never, &mut row);
    connection.abort();
    (found.unwrap() == Found::Yes).then(|| super::amount(&row))
}

#[test]
fn a_row_that_is_locked_is_as_the_last_commit_has_left_it() {
    everywhere(|db| {
        let table = filled(db, 2);
        let (mut one, mut two) = (db.connect().unwrap(), db.connect().unwrap());
        // So often that the row is kept for those who lock it next.
        let mut set_by_one = |table: &Table, amount: i64| {
            for early in (0..5).rev() {
                one.begin(Isolation::ReadCommitted).unwrap();
                set(&mut one, table, 0, amount - early).unwrap();
                let mark = one.statement().unwrap();
                set(&mut one, table, 0, amount + 1000).unwrap();
                one.roll_back_to(mark).unwrap();
                one.commit(Durability::Immediate).unwrap();
            }
        };
        set_by_one(&table, 1);
        assert_eq!(newest(&mut two, &table, 0), Some(1));
        db.transaction(|t| add(t, &table, 0, 5)).unwrap();
        assert_eq!(newest(&mut two, &table, 0), Some(6));
        set_by_one(&table, 7);
        let undone: indelible::Result<()> = db.transaction(|t| {
            add(t, &table, 0, 7)?;
            Err(Error::rejected("a reason"))
        });
        assert!(undone.is_err());
        assert_eq!(newest(&mut two, &table, 0), Some(7));
        set_by_one(&table, 8);
        db.transaction(|t| t.delete(&table, 0_i64)).unwrap();
        assert_eq!(newest(&mut two, &table, 0), None);
        two.begin(Isolation::ReadCommitted).unwrap();
        two.insert(&table, (0_i64, 9_i64)).unwrap();
        two.commit(Durability::Immediate).unwrap();
        set_by_one(&table, 10);
        assert_eq!(newest(&mut two, &table, 0), Some(10));
        two.begin(Isolation::ReadCommitted).unwrap();
        assert!(two.delete(&table, 0_i64).unwrap());
        two.commit(Durability::Immediate).unwrap();
        assert_eq!(newest(&mut two, &table, 0), None);
        two.begin(Isolation::ReadCommitted).unwrap();
        two.insert(&table, (0_i64, 9_i64)).unwrap();
        two.commit(Durability::Immediate).unwrap();
        set_by_one(&table, 12);
        // Nobody is connected, so the closure locks nothing.
        drop((one, two));
        db.transaction(|t| add(t, &table, 0, 1)).unwrap();
        let mut three = db.connect().unwrap();
        assert_eq!(newest(&mut three, &table, 0), Some(13));
    });
}

#[test]
fn a_connection_opens_after_the_closures_that_are_open() {
    everywhere(|db| {
        let table = accounts(db);
        let refused = db.transaction(|t| {
            t.insert(&table, (1_i64, 1_i64))?;
            assert!(matches!(db.connect(), Err(Error::TransactionOpen)));
            Ok(())
        });
        refused.unwrap();
        let mut worker = db.worker(&[0], Durability::Immediate).unwrap();
        std::thread::scope(|threads| {
            let opened = threads.spawn(|| db.connect().map(drop));
            worker
                .transaction(|t| {
                    t.insert(&table, (0_i64, 1_i64))?;
                    std::thread::sleep(Duration::from_millis(20));
                    Ok(())
                })
                .unwrap();
            // The worker keeps its partition; its next transaction knows of the connection.
            while !opened.is_finished() {
                worker.transaction(|t| t.get(&table, 0_i64)).unwrap();
            }
            opened.join().unwrap().unwrap();
        });
    });
}
