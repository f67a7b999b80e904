//! Goal: a prepared transaction is there, with its locks, until somebody ends it, whatever becomes
//! of the connection and the database meanwhile. Method: every method; connections that would wait
//! fail at once; a copy of the open database's files is a killed process.

use super::together::rows;
use super::*;
use crate::common::durable_methods;
use indelible::{Error, Found, PreparedTransaction, RowLock, TableLock, Uniqueness, Wait};

fn facts(name: &str) -> PreparedTransaction {
    PreparedTransaction {
        name: name.to_owned(),
        owner: 10,
        database: "shop".to_owned(),
        prepared_at: 77,
        transaction: 5,
    }
}

/// Prepares changes of three rows, in all partitions, and a lock of a fourth.
fn prepare(db: &Database, table: &Table, name: &str, isolation: Isolation) {
    let mut connection = begun(db, isolation);
    set(&mut connection, table, 1, 7).unwrap();
    connection.delete(table, 2_i64).unwrap();
    connection.insert(table, (50_i64, 1_i64)).unwrap();
    set(&mut connection, table, 50, 2).unwrap();
    let mut row = table.row();
    connection
        .get_locked(table, 3_i64, RowLock::KeyShare, Wait::Never, &mut row)
        .unwrap();
    connection.prepare(&facts(name)).unwrap();
    assert!(!connection.is_open());
    // The connection is free for other things.
    connection.begin(isolation).unwrap();
    assert_eq!(get(&mut connection, table, 4), Some(100));
    connection.abort();
}

fn check_locked(db: &Database, table: &Table, isolation: Isolation) {
    let mut other = begun(db, Isolation::ReadCommitted);
    for id in [1, 2] {
        assert!(set(&mut other, table, id, 8).is_err(), "{id}");
    }
    assert!(other.insert(table, (50_i64, 1_i64)).is_err());
    assert!(other.delete(table, 3_i64).is_err());
    // A serializable one has read the table.
    let is_free = set(&mut other, table, 3, 9).is_ok();
    assert_eq!(is_free, isolation != Isolation::Serializable);
    assert!(
        other
            .lock_table(table, TableLock::Exclusive, Wait::Never)
            .is_err()
    );
    assert_eq!(get(&mut other, table, 1), Some(100));
    assert_eq!(get(&mut other, table, 2), Some(100));
    assert_eq!(get(&mut other, table, 50), None);
    other.commit(Durability::Immediate).unwrap();
    // Closures respect the locks too, when no connection is open.
    drop(other);
    let mut changes = table.changes();
    changes.set(1, 5_i64).unwrap();
    let options = indelible::TransactionOptions::new().wait_limit(Duration::ZERO);
    let refused = db.transaction_with(&options, |t| t.update(table, 1_i64, &changes));
    assert!(
        matches!(refused, Err(Error::RowLocked { .. })),
        "{refused:?}"
    );
    // Definitions wait for its end.
    let refused = db.drop_table("accounts").unwrap_err();
    assert!(
        matches!(refused, Error::PreparedInTheWay { .. }),
        "{refused}"
    );
    let refused = db.create_index(table, "more", ["amount"], Uniqueness::Repeating);
    assert!(matches!(refused, Err(Error::PreparedInTheWay { .. })));
}

/// Both ends of a prepared transaction, once each.
fn check_ends(db: &Database, table: &Table, name: &str) {
    let found = db.prepared_transaction(name).unwrap();
    assert_eq!(found, facts(name));
    db.roll_back_prepared(&found).unwrap();
    assert!(db.prepared_transactions().is_empty());
    assert_eq!(db.read(|r| r.count(table, ..)).unwrap(), 20);
    prepare(db, table, name, Isolation::ReadCommitted);
    let report = db.commit_prepared(&found).unwrap();
    assert_eq!(report.changes, 4);
    let refused = db.commit_prepared(&found).unwrap_err();
    assert!(matches!(refused, Error::NoSuchPrepared { .. }), "{refused}");
    let mut reader = begun(db, Isolation::RepeatableRead);
    assert_eq!(get(&mut reader, table, 1), Some(7));
    assert_eq!(get(&mut reader, table, 2), None);
    assert_eq!(get(&mut reader, table, 50), Some(2));
    // Its locks are free.
    reader.abort();
    reader.begin(Isolation::ReadCommitted).unwrap();
    set(&mut reader, table, 1, 100).unwrap();
    reader.delete(table, 3_i64).unwrap();
    reader.commit(Durability::Immediate).unwrap();
}

#[test]
fn a_prepared_transaction_waits_for_its_end() {
    everywhere(|db| {
        for isolation in LEVELS {
            let table = filled(db, 20);
            prepare(db, &table, "one", isolation);
            check_locked(db, &table, isolation);
            check_ends(db, &table, "one");
            db.drop_table("accounts").unwrap();
        }
    });
}

#[test]
fn it_survives_a_close_and_a_kill() {
    for method in durable_methods() {
        for partitions in [1, 3] {
            let (directory, copy) = (Directory::new(), Directory::new());
            let db = database(&directory, method, partitions, |options| options);
            let table = filled(&db, 20);
            let isolation = LEVELS[partitions as usize / 2];
            prepare(&db, &table, "one", isolation);
            drop(table);
            db.close().unwrap();
            let db = Database::open(directory.path()).unwrap();
            check_locked(&db, &db.table("accounts").unwrap(), isolation);
            // A killed process leaves its files as they are.
            std::fs::create_dir(copy.path()).unwrap();
            for file in std::fs::read_dir(directory.path()).unwrap() {
                let file = file.unwrap();
                std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
            }
            drop(db);
            let db = Database::open(copy.path()).unwrap();
            let table = db.table("accounts").unwrap();
            check_locked(&db, &table, isolation);
            assert!(db.verify().unwrap().damage.is_empty(), "{method}");
            check_ends(&db, &table, "one");
            drop(table);
            db.close().unwrap();
            let db = Database::open(copy.path()).unwrap();
            assert!(db.prepared_transactions().is_empty());
            assert_eq!(
                db.read(|r| r.count(&db.table("accounts")?, ..)).unwrap(),
                19
            );
        }
    }
}

#[test]
fn a_large_one_is_stored_in_parts() {
    for method in [Method::NvmInp, Method::FullPageWrites] {
        let directory = Directory::new();
        let db = Database::create(directory.path(), &Options::new().method(method)).unwrap();
        let table = people(&db);
        let name = |id: i64| format!("{id} {}", "x".repeat(30));
        let mut connection = begun(&db, Isolation::ReadCommitted);
        for id in 0..5_000_i64 {
            connection
                .insert(&table, (id, name(id), None::<i64>))
                .unwrap();
        }
        connection.prepare(&facts("large")).unwrap();
        drop((connection, table));
        db.close().unwrap();
        let db = Database::open(directory.path()).unwrap();
        let table = db.table("people").unwrap();
        let mut numbered = 0;
        db.visit_prepared(&table, &mut |_| numbered += 1);
        assert_eq!(numbered, 5_000);
        db.commit_prepared(&db.prepared_transaction("large").unwrap())
            .unwrap();
        let rows = db.read(|r| r.collect(&table, ..)).unwrap();
        assert_eq!(rows.len(), 5_000);
        let is_right = |(id, row): (i64, &Row)| row.get(1).as_str() == Some(name(id).as_str());
        assert!((0..).zip(&rows).all(is_right));
    }
}

#[test]
fn unique_keys_stay_locked() {
    everywhere(|db| {
        let table = accounts(db);
        db.create_index(&table, "once", ["amount"], Uniqueness::Unique)
            .unwrap();
        let mut connection = begun(db, Isolation::ReadCommitted);
        connection.insert(&table, (1_i64, 1_i64)).unwrap();
        connection.prepare(&facts("one")).unwrap();
        connection.begin(Isolation::ReadCommitted).unwrap();
        assert!(connection.insert(&table, (2_i64, 1_i64)).is_err());
        connection.abort();
        db.commit_prepared(&facts("one")).unwrap();
        connection.begin(Isolation::ReadCommitted).unwrap();
        let taken = connection.insert(&table, (2_i64, 1_i64)).unwrap_err();
        assert!(matches!(taken, Error::DuplicateKey(_)), "{taken}");
    });
}

/// Its reads stay valid until it is committed, so the commit does not look at them again.
#[test]
fn reads_of_a_serializable_one_are_validated_and_kept() {
    everywhere(|db| {
        let table = filled(db, 20);
        let mut connection = begun(db, Isolation::Serializable);
        assert_eq!(get(&mut connection, &table, 5), Some(100));
        set(&mut connection, &table, 1, 7).unwrap();
        let mut other = begun(db, Isolation::ReadCommitted);
        set(&mut other, &table, 5, 1).unwrap();
        other.commit(Durability::Immediate).unwrap();
        let refused = connection.prepare(&facts("one")).unwrap_err();
        assert!(matches!(refused, Error::Serialization { .. }), "{refused}");
        assert!(db.prepared_transactions().is_empty());

        connection.begin(Isolation::Serializable).unwrap();
        assert_eq!(get(&mut connection, &table, 5), Some(1));
        set(&mut connection, &table, 1, 7).unwrap();
        connection.prepare(&facts("one")).unwrap();
        other.begin(Isolation::ReadCommitted).unwrap();
        assert!(set(&mut other, &table, 5, 2).is_err());
        other.abort();
        db.commit_prepared(&facts("one")).unwrap();
        other.begin(Isolation::ReadCommitted).unwrap();
        assert!(set(&mut other, &table, 5, 2).unwrap());
    });
}

#[test]
fn names_and_numbers_have_limits() {
    let directory = Directory::new();
    let options = small_options(Method::NvmInp).prepared_max(2);
    let db = Database::create(directory.path(), &options).unwrap();
    let table = filled(&db, 20);
    let prepare = |name: &str, id: i64| {
        let mut connection = begun(&db, Isolation::ReadCommitted);
        set(&mut connection, &table, id, 1).unwrap();
        let prepared = connection.prepare(&facts(name));
        assert!(!connection.is_open());
        prepared
    };
    prepare("one", 1).unwrap();
    let taken = prepare("one", 2).unwrap_err();
    assert!(matches!(taken, Error::PreparedExists { .. }), "{taken}");
    let long = prepare(&"x".repeat(200), 2).unwrap_err();
    assert!(matches!(long, Error::NotPreparable { .. }), "{long}");
    prepare(&"x".repeat(199), 2).unwrap();
    let full = prepare("three", 3).unwrap_err();
    assert!(
        matches!(full, Error::TooManyPrepared { prepared_max: 2 }),
        "{full}"
    );
    // Those that were refused have no locks.
    let mut other = begun(&db, Isolation::ReadCommitted);
    set(&mut other, &table, 3, 5).unwrap();
    other
        .advisory_lock(
            indelible::AdvisoryKey::One(1),
            indelible::AdvisoryMode::Shared,
            indelible::Scope::Transaction,
            Wait::Never,
        )
        .unwrap();
    let refused = other.prepare(&facts("four")).unwrap_err();
    assert!(matches!(refused, Error::NotPreparable { .. }), "{refused}");
    drop((other, table));
    drop(db);
    // With another limit those that are there stay.
    let db = Database::open_with(directory.path(), &Options::new().prepared_max(0)).unwrap();
    assert_eq!(db.prepared_transactions().len(), 2);
    let table = db.table("accounts").unwrap();
    let mut other = begun(&db, Isolation::ReadCommitted);
    set(&mut other, &table, 3, 5).unwrap();
    let off = other.prepare(&facts("four")).unwrap_err();
    assert!(
        matches!(off, Error::TooManyPrepared { prepared_max: 0 }),
        "{off}"
    );
    db.commit_prepared(&facts("one")).unwrap();
    drop((other, table, db));
    let reader = Database::open_with(
        directory.path(),
        &Options::new().mode(indelible::Mode::ReadOnly),
    )
    .unwrap();
    let left = reader.prepared_transactions();
    assert_eq!(left.len(), 1);
    assert!(matches!(
        reader.roll_back_prepared(&left[0]),
        Err(Error::ReadOnly)
    ));
}

#[test]
fn a_backup_has_it_with_its_locks() {
    let (directory, copy, file) = (Directory::new(), Directory::new(), Directory::new());
    let db = database(&directory, Method::NvmInp, 3, |options| options);
    let table = filled(&db, 20);
    let isolation = Isolation::ReadCommitted;
    prepare(&db, &table, "one", isolation);
    db.backup(file.path()).unwrap();
    let options = small_options(Method::FullPageWrites).partitions(2);
    Database::restore(file.path(), copy.path(), &options).unwrap();
    let db = Database::open(copy.path()).unwrap();
    let table = db.table("accounts").unwrap();
    check_locked(&db, &table, isolation);
    check_ends(&db, &table, "one");
}

/// Rows that were inserted together have no locks of their own before.
#[test]
fn rows_that_were_inserted_together_stay_locked() {
    everywhere(|db| {
        let table = filled(db, 5);
        let mut one = begun(db, Isolation::ReadCommitted);
        one.insert_all(&table, &rows(&table, 10..200)).unwrap();
        one.prepare(&facts("many")).unwrap();
        let mut other = begun(db, Isolation::ReadCommitted);
        assert!(other.insert(&table, (10_i64, 0_i64)).is_err());
        assert!(other.insert(&table, (199_i64, 0_i64)).is_err());
        other.insert(&table, (200_i64, 0_i64)).unwrap();
        other.abort();
        let found = db.prepared_transaction("many").unwrap();
        assert_eq!(db.commit_prepared(&found).unwrap().changes, 190);
        other.begin(Isolation::ReadCommitted).unwrap();
        assert!(set(&mut other, &table, 10, 1).unwrap());
        other.commit(Durability::Immediate).unwrap();
        assert_eq!(db.read(|r| r.count(&table, ..)).unwrap(), 195);
    });
}

/// The next to lock a row finds it as the prepared transaction has left it.
#[test]
fn its_rows_are_the_newest_for_those_who_lock_them() {
    everywhere(|db| {
        let table = filled(db, 5);
        let mut other = begun(db, Isolation::ReadCommitted);
        // So often that the row is kept for those who lock it next.
        for amount in 0..5 {
            set(&mut other, &table, 1, amount).unwrap();
            other.commit(Durability::Immediate).unwrap();
            other.begin(Isolation::ReadCommitted).unwrap();
        }
        other.abort();
        prepare(db, &table, "one", Isolation::ReadCommitted);
        let prepared = db.prepared_transaction("one").unwrap();
        db.commit_prepared(&prepared).unwrap();
        other.begin(Isolation::ReadCommitted).unwrap();
        let mut row = table.row();
        let found = other.get_locked(&table, 1_i64, RowLock::Update, Wait::Never, &mut row);
        assert_eq!((found.unwrap(), amount(&row)), (Found::Yes, 7));
        other.abort();
    });
}

#[test]
fn rows_that_were_inserted_together_are_there_after_an_opening() {
    for method in durable_methods() {
        let directory = Directory::new();
        let db = database(&directory, method, 3, |options| options);
        let table = filled(&db, 5);
        let mut one = begun(&db, Isolation::ReadCommitted);
        one.insert_all(&table, &rows(&table, 10..200)).unwrap();
        // Somebody has waited for rows of a list, and prepares nothing that knows of it.
        let mut other = begun(&db, Isolation::ReadCommitted);
        assert!(other.insert(&table, (10_i64, 0_i64)).is_err());
        set(&mut other, &table, 1, 7).unwrap();
        one.prepare(&facts("many")).unwrap();
        other.prepare(&facts("waited")).unwrap();
        drop((one, other, table));
        db.close().unwrap();
        let db = Database::open(directory.path()).unwrap();
        assert!(db.verify().unwrap().damage.is_empty(), "{method}");
        let table = db.table("accounts").unwrap();
        let mut other = begun(&db, Isolation::ReadCommitted);
        assert!(other.insert(&table, (199_i64, 0_i64)).is_err());
        assert!(set(&mut other, &table, 1, 8).is_err());
        other.abort();
        for (name, changes) in [("many", 190), ("waited", 1)] {
            let found = db.prepared_transaction(name).unwrap();
            assert_eq!(db.commit_prepared(&found).unwrap().changes, changes);
        }
        assert_eq!(db.read(|r| r.count(&table, ..)).unwrap(), 195);
    }
}
