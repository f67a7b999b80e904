//! Handles in a forked child: goal and method.
//!
//! Goal: a child gets one clear error from each use of its parent's handles, changes nothing by it,
//! nor by dropping them, and never hangs; the parent continues as if there had been no child.
//! Method: really forked children of a process with open databases of every method, with a
//! transaction, a worker and a snapshot open. Without the check commits of a child return `Ok`, and
//! `nvm-cow` is damaged.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "database/common/mod.rs"]
mod common;

use common::{Directory, methods, people};
use indelible::{
    Database, Direction, Durability, Error, Isolation, Method, Options, Result, Snapshot, Table,
    Transaction, Worker,
};
use pmem::run_forked;
use std::process::Command;

/// Handles that the parent has open, for a child to use up. The order is that of a careful program:
/// the database goes last.
struct Handles {
    table: Table,
    snapshot: Option<Snapshot>,
    db: Option<Database>,
}

fn open(directory: &Directory, method: Method) -> Handles {
    let mut options = Options::new().method(method).partitions(2);
    if method.is_paged() {
        options = options.sessions(4);
    }
    let db = Database::create(directory.path(), &options).unwrap();
    let table = people(&db);
    db.transaction(|t| (0..20).try_for_each(|id| insert(t, &table, id)))
        .unwrap();
    let snapshot = method.has_snapshots().then(|| db.snapshot().unwrap());
    Handles {
        table,
        snapshot,
        db: Some(db),
    }
}

fn insert(t: &mut Transaction<'_>, table: &Table, id: i64) -> Result<()> {
    t.insert(table, (id, format!("name {id}"), Some(id)))
}

/// Whether this is the error of a child.
fn is_refused<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Forked))
}

/// Tries everything in a child, and then drops the handles; returns the number of the first call
/// that is not refused, or 0.
fn misuse(handles: &mut Handles, directory: &Directory) -> u8 {
    let table = &handles.table;
    let db = handles.db.take().unwrap();
    let refused = [
        is_refused(&db.transaction(|t| insert(t, table, 100))),
        is_refused(&db.transaction(|_| Ok(()))),
        is_refused(&db.read(|r| r.count(table, ..))),
        is_refused(&db.begin()),
        is_refused(&db.worker(&[0], Durability::Immediate)),
        is_refused(&db.table("people")),
        is_refused(&people_again(&db)),
        is_refused(&db.drop_table("people")),
        is_refused(&db.statistics()),
        is_refused(&db.verify()),
        is_refused(&db.checkpoint()),
        is_refused(&db.force()),
        is_refused(&db.start_trace(directory.path().join("trace"))),
        is_refused(&db.clone().close()),
        handles
            .snapshot
            .as_ref()
            .is_none_or(|snapshot| is_refused(&snapshot.get(table, 1_i64))),
        db.tables().is_empty(),
    ];
    drop(handles.snapshot.take());
    let is_in_use = matches!(Database::open(directory.path()), Err(Error::InUse { .. }));
    drop(db);
    let unexpected = refused.iter().position(|refused| !refused);
    match unexpected {
        Some(at) => at as u8 + 1,
        None if is_in_use => 0,
        None => 99,
    }
}

fn people_again(db: &Database) -> Result<Table> {
    db.create_table("others")
        .column("id", indelible::DataType::Int64)
        .create()
}

/// The parent has lost nothing and got nothing from its children.
fn check(handles: Handles, directory: &Directory, method: Method, rows: i64) {
    let Handles {
        table,
        snapshot,
        db,
    } = handles;
    let db = db.unwrap();
    if let Some(snapshot) = snapshot {
        assert_eq!(snapshot.count(&table, ..).unwrap(), 20);
    }
    db.transaction(|t| insert(t, &table, rows)).unwrap();
    let rows = rows.cast_unsigned() + 1;
    assert_eq!(db.read(|r| r.count(&table, ..)).unwrap(), rows, "{method}");
    assert_eq!(db.verify().unwrap().damage, Vec::<String>::new());
    db.close().unwrap();
    if method.is_durable() {
        let db = Database::open(directory.path()).unwrap();
        let table = db.table("people").unwrap();
        assert_eq!(db.read(|r| r.count(&table, ..)).unwrap(), rows, "{method}");
        assert_eq!(db.verify().unwrap().damage, Vec::<String>::new());
    }
}

/// One test, so that no other thread of this program is in the middle of something when a child is
/// forked.
#[test]
fn a_child_is_refused_and_changes_nothing() {
    for method in methods() {
        let directory = Directory::new();
        let mut handles = open(&directory, method);
        let code = run_forked(|| misuse(&mut handles, &directory)).unwrap();
        assert_eq!(code, 0, "{method}");

        let db = handles.db.clone().unwrap();
        let code = within_transaction(&db, &handles.table);
        assert_eq!(code, 0, "{method}");
        let code = beside_worker(&db, &handles.table);
        assert_eq!(code, 0, "{method}");
        let code = within_connection(&db, &handles.table);
        assert_eq!(code, 0, "{method}");
        drop(db);
        check(handles, &directory, method, 22);
    }
    a_child_has_databases_of_its_own();
    a_program_that_is_executed_is_no_child();
}

/// Forks in the middle of a transaction over both partitions, which commits afterwards.
fn within_transaction(db: &Database, table: &Table) -> i32 {
    let mut open = Some(db.begin().unwrap());
    let t = open.as_mut().unwrap();
    insert(t, table, 20).unwrap();
    insert(t, table, 21).unwrap();
    let code = run_forked(|| {
        let mut t = open.take().unwrap();
        let refused = [
            is_refused(&insert(&mut t, table, 100)),
            is_refused(&insert(&mut t, table, 101)),
            is_refused(&t.get(table, 1_i64)),
            is_refused(&t.delete(table, 1_i64)),
            is_refused(&t.commit()),
        ];
        u8::from(refused != [true; 5])
    });
    open.unwrap().commit().unwrap();
    code.unwrap()
}

/// Forks while a worker has a partition.
fn beside_worker(db: &Database, table: &Table) -> i32 {
    let mut worker: Option<Worker<'_>> = Some(db.worker(&[0], Durability::Immediate).unwrap());
    let code = run_forked(|| {
        let mut worker = worker.take().unwrap();
        let refused = [
            is_refused(&worker.transaction(|t| insert(t, table, 100))),
            is_refused(&worker.transaction(|_| Ok(()))),
            is_refused(&worker.force()),
            is_refused(&worker.close()),
        ];
        u8::from(refused != [true; 4])
    });
    let mut worker = worker.unwrap();
    assert!(
        worker
            .transaction(|t| t.get(table, 2_i64))
            .unwrap()
            .0
            .is_some()
    );
    worker.close().unwrap();
    code.unwrap()
}

/// Forks while a connection has locks, changes and a scan open.
fn within_connection(db: &Database, table: &Table) -> i32 {
    let mut open = Some(db.connect().unwrap());
    let connection = open.as_mut().unwrap();
    connection.begin(Isolation::Serializable).unwrap();
    assert!(connection.delete(table, 3_i64).unwrap());
    let mut scan = Some(connection.scan(table, .., Direction::Forward).unwrap());
    let mut rows = Vec::new();
    let code = run_forked(|| {
        let (mut connection, mut scan) = (open.take().unwrap(), scan.take().unwrap());
        let refused = [
            is_refused(&connection.get(table, 1_i64)),
            is_refused(&connection.insert(table, (100_i64, "x", None::<i64>))),
            is_refused(&connection.statement()),
            is_refused(&scan.next_batch(&mut connection, &mut Vec::new())),
            is_refused(&connection.commit(Durability::Immediate)),
            is_refused(&db.connect()),
        ];
        connection.abort();
        u8::from(refused != [true; 6])
    });
    let (mut connection, mut scan) = (open.unwrap(), scan.unwrap());
    assert!(scan.next_batch(&mut connection, &mut rows).unwrap());
    connection.abort();
    code.unwrap()
}

fn a_child_has_databases_of_its_own() {
    let (parents, own) = (Directory::new(), Directory::new());
    let mut handles = open(&parents, Method::NvmCow);
    let code = run_forked(|| {
        let mine = open(&own, Method::NvmCow);
        let refused = misuse(&mut handles, &parents);
        check(mine, &own, Method::NvmCow, 20);
        refused
    });
    assert_eq!(code.unwrap(), 0);
    check(handles, &parents, Method::NvmCow, 20);
}

fn a_program_that_is_executed_is_no_child() {
    let directory = Directory::new();
    let handles = open(&directory, Method::FullPageWrites);
    let mut program = Command::new("sleep").arg("100").spawn().unwrap();
    // It neither stops the parent nor keeps the database in use.
    check(handles, &directory, Method::FullPageWrites, 20);
    program.kill().unwrap();
    program.wait().unwrap();
}
