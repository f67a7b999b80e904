//! Durability and commits over several partitions, with model engines that count their calls.
//!
//! The nominal method of these databases is `inp`, so commits may wait for a group.

use crate::model::{Observed, database, database_with};
use crate::{
    DataType, Database, Durability, Error, Method, Partitioning, Result, StorageError, Table,
    TransactionOptions, Uniqueness,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::time::Duration;

fn numbers(db: &Database) -> Table {
    db.create_table("numbers")
        .column("id", DataType::Int64)
        .column("value", DataType::Int64)
        .partitioning(Partitioning::Modulo)
        .create()
        .unwrap()
}

fn with(durability: Durability) -> TransactionOptions {
    TransactionOptions::new().durability(durability)
}

fn count(of: &std::sync::atomic::AtomicU64) -> u64 {
    of.load(Ordering::Relaxed)
}

fn insert(db: &Database, table: &Table, durability: Durability, id: i64) -> Result<()> {
    db.transaction_with(&with(durability), |t| t.insert(table, (id, 0_i64)))
}

#[test]
fn a_lone_group_commit_forces_its_group_at_once() {
    let (db, observed) = database_with(1, Duration::from_hours(1));
    let table = numbers(&db);
    insert(&db, &table, Durability::Group, 1).unwrap();
    assert_eq!(count(&observed[0].forces), 1);
}

#[test]
fn group_commits_share_a_force() {
    let (db, observed) = database(1);
    let table = numbers(&db);
    std::thread::scope(|threads| {
        for thread in 0..8_i64 {
            let (db, table) = (&db, &table);
            threads.spawn(move || {
                for round in 0..20 {
                    insert(db, table, Durability::Group, thread * 100 + round).unwrap();
                }
            });
        }
    });
    let (commits, forces) = (count(&observed[0].commits), count(&observed[0].forces));
    assert_eq!(commits, 160);
    assert!(forces <= commits, "{forces} forces for {commits} commits");
}

#[test]
fn a_reader_waits_for_the_group_that_it_has_read() {
    let (db, observed) = database(1);
    let table = numbers(&db);
    let mut worker = db.worker(&[0], Durability::Group).unwrap();
    let ((), pending) = worker
        .transaction(|t| t.insert(&table, (1_i64, 0_i64)))
        .unwrap();
    let pending = pending.unwrap();
    assert!(
        !worker.is_durable(pending),
        "a worker's group waits for its owner"
    );
    // The reader in the same worker depends on it, though it writes nothing.
    let (found, depends) = worker.transaction(|t| t.get(&table, 1_i64)).unwrap();
    assert!(found.is_some());
    assert_eq!(depends, Some(pending));
    drop(worker);
    assert_eq!(count(&observed[0].forces), 0);
    db.read(|r| r.get(&table, 1_i64)).unwrap();
    assert_eq!(
        count(&observed[0].forces),
        1,
        "the reader has forced what it read"
    );
    db.read(|r| r.get(&table, 1_i64)).unwrap();
    assert_eq!(count(&observed[0].forces), 1);
}

#[test]
fn nobody_waits_for_commits_without_a_promise() {
    let (db, observed) = database(1);
    let table = numbers(&db);
    insert(&db, &table, Durability::None, 1).unwrap();
    db.read(|r| r.get(&table, 1_i64)).unwrap();
    assert_eq!(count(&observed[0].forces), 0);
    db.force().unwrap();
    assert_eq!(count(&observed[0].forces), 1);
}

#[test]
fn closing_makes_everything_durable() {
    let (db, observed) = database(2);
    let table = numbers(&db);
    insert(&db, &table, Durability::None, 1).unwrap();
    let copy = db.clone();
    drop((db, table));
    assert_eq!(count(&observed[1].forces), 0, "a handle is left");
    drop(copy);
    assert_eq!(count(&observed[1].forces), 1);
}

#[test]
fn only_writers_of_several_partitions_prepare() {
    let (db, observed) = database(3);
    let table = numbers(&db);
    insert(&db, &table, Durability::Immediate, 0).unwrap();
    assert_eq!(prepares(&observed), [0, 0, 0]);
    db.transaction(|t| {
        t.get(&table, 2_i64)?;
        t.insert(&table, (3_i64, 0_i64))?;
        t.insert(&table, (4_i64, 0_i64))
    })
    .unwrap();
    assert_eq!(prepares(&observed), [1, 1, 0]);
    assert_eq!(db.core.commits.committed().unwrap().len(), 1);
}

fn prepares(observed: &[std::sync::Arc<Observed>]) -> Vec<u64> {
    observed
        .iter()
        .map(|observed| count(&observed.prepares))
        .collect()
}

#[test]
fn a_commit_without_an_answer_stops_its_partition() {
    let (db, observed) = database(2);
    let table = numbers(&db);
    observed[0].failing_commits.store(1, Ordering::Relaxed);
    let lost = insert(&db, &table, Durability::Immediate, 0);
    assert!(matches!(lost, Err(Error::InDoubt { .. })), "{lost:?}");
    assert!(matches!(
        db.read(|r| r.get(&table, 0_i64)),
        Err(Error::Stopped { partition: 0 })
    ));
    insert(&db, &table, Durability::Immediate, 1).unwrap();
}

#[test]
fn a_change_whose_panic_is_caught_commits_nowhere() {
    for others in [0..1, 0..2] {
        let (db, observed) = database(2);
        let table = numbers(&db);
        observed[0].panicking_inserts.store(1, Ordering::Relaxed);
        let lost = db.transaction(|t| {
            for id in others.clone().rev() {
                let insert = AssertUnwindSafe(|| t.insert(&table, (id, 0_i64)));
                assert_eq!(catch_unwind(insert).is_err(), id == 0);
            }
            Ok(())
        });
        let stopped = |result| matches!(result, Err(Error::Stopped { partition: 0 }));
        assert!(stopped(lost));
        assert_eq!(count(&observed[0].commits), 0);
        assert!(stopped(insert(&db, &table, Durability::Immediate, 2)));
        assert!(db.read(|r| r.get(&table, 1_i64)).unwrap().is_none());
    }
}

#[test]
fn past_the_commit_point_a_transaction_is_committed() {
    let (db, observed) = database(2);
    let table = numbers(&db);
    observed[0].failing_commits.store(1, Ordering::Relaxed);
    db.transaction(|t| {
        t.insert(&table, (0_i64, 0_i64))?;
        t.insert(&table, (1_i64, 0_i64))
    })
    .unwrap();
    assert_eq!(
        db.core.commits.committed().unwrap().len(),
        1,
        "recovery finds the number"
    );
    assert!(matches!(
        db.read(|r| r.get(&table, 0_i64)),
        Err(Error::Stopped { .. })
    ));
    assert!(db.read(|r| r.get(&table, 1_i64)).unwrap().is_some());
}

#[test]
fn a_conflict_is_retried_with_all_partitions_in_order() {
    let (db, _) = database(2);
    let table = numbers(&db);
    insert(&db, &table, Durability::Immediate, 0).unwrap();
    insert(&db, &table, Durability::Immediate, 1).unwrap();
    let (tell, has_failed) = std::sync::mpsc::channel();
    std::thread::scope(|threads| {
        let mut low = db.begin().unwrap();
        low.get(&table, 0_i64).unwrap();
        let running = threads.spawn(|| {
            let mut attempts = 0;
            db.transaction(|t| {
                attempts += 1;
                t.get(&table, 1_i64)?;
                let found = t.get(&table, 0_i64);
                if found.is_err() {
                    tell.send(()).unwrap();
                }
                found
            })
            .unwrap();
            attempts
        });
        has_failed.recv().unwrap();
        low.commit().unwrap();
        assert_eq!(running.join().unwrap(), 2);
    });
}

#[test]
fn a_hidden_conflict_does_not_commit() {
    let (db, _) = database(2);
    let table = numbers(&db);
    std::thread::scope(|threads| {
        let mut low = db.begin().unwrap();
        low.get(&table, 0_i64).unwrap();
        let running = threads.spawn(|| {
            let mut open = db.begin().unwrap();
            open.insert(&table, (1_i64, 0_i64)).unwrap();
            assert!(open.get(&table, 0_i64).is_err());
            open.commit()
        });
        assert!(matches!(
            running.join().unwrap(),
            Err(Error::Conflict { .. })
        ));
        drop(low);
    });
    assert!(db.read(|r| r.get(&table, 1_i64)).unwrap().is_none());
}

#[test]
fn waiting_threads_are_served() {
    let (db, _) = database(1);
    let table = numbers(&db);
    insert(&db, &table, Durability::Immediate, 0).unwrap();
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                for _ in 0..500 {
                    db.transaction(|t| {
                        let row = t.get(&table, 0_i64)?.expect("it was inserted above");
                        let mut changes = table.changes();
                        changes.set(1, row.get(1).as_i64().unwrap_or(0) + 1)?;
                        t.update(&table, 0_i64, &changes)
                    })
                    .unwrap();
                }
            });
        }
    });
    let row = db.read(|r| r.get(&table, 0_i64)).unwrap().unwrap();
    assert_eq!(row.get(1).as_i64(), Some(2000));
}

#[test]
fn a_new_index_never_has_the_number_of_a_dropped_one() {
    let (db, _) = database(1);
    let mut builder = db
        .create_table("wide")
        .column("id", DataType::Int64)
        .column("value", DataType::Int64)
        .primary_key(["id"]);
    for number in 0..20 {
        builder = builder.index(&format!("index{number}"), ["value"]);
    }
    let table = builder.create().unwrap();
    db.transaction(|t| t.insert(&table, (1_i64, 5_i64)))
        .unwrap();
    let dropped: Vec<_> = (10..20)
        .map(|number| table.index(&format!("index{number}")).unwrap())
        .collect();
    for index in &dropped {
        db.drop_index(&table, index.name()).unwrap();
    }
    for number in 20..40 {
        let name = format!("index{number}");
        db.create_index(&table, &name, ["value"], Uniqueness::Repeating)
            .unwrap();
    }
    for index in &dropped {
        let found = db.read(|r| r.find(index, 5_i64));
        assert!(found.is_err(), "{index:?} is gone");
    }
    let newest = table.index("index39").unwrap();
    assert_eq!(db.read(|r| r.find(&newest, 5_i64)).unwrap().len(), 1);
}

#[test]
fn who_waits_for_a_group_of_a_stopped_partition_is_in_doubt() {
    let (db, _) = database(1);
    let partition = &db.core.partitions[0];
    let slot = partition.take(Duration::ZERO, None).unwrap();
    let ticket = storage::engine::CommitTicket(1);
    std::thread::scope(|threads| {
        let waiting = threads.spawn(|| partition.wait_durable(ticket, Duration::from_hours(1)));
        std::thread::sleep(Duration::from_millis(5));
        partition.stop(slot);
        let waited = waiting.join().unwrap();
        assert!(matches!(waited, Err(Error::InDoubt { .. })), "{waited:?}");
    });
    // Also for one that finds the partition stopped when it wants to lead the group itself.
    let late = partition.wait_durable(ticket, Duration::ZERO);
    assert!(matches!(late, Err(Error::InDoubt { .. })), "{late:?}");
    let next = partition.take(Duration::ZERO, None).map(drop);
    assert!(matches!(next, Err(Error::Stopped { partition: 0 })));
}

/// A statement that waited for a held partition heard neither a cancel nor a time limit.
#[test]
fn a_wait_for_a_partition_ends_with_an_interrupt() {
    let (db, _) = database(1);
    let interrupt = db.connect().unwrap().interrupt();
    let partition = &db.core.partitions[0];
    let _held = partition.take(Duration::ZERO, None).unwrap();
    interrupt.raise();
    let taken = partition.take(Duration::MAX, Some(&interrupt)).map(drop);
    let is_interrupted = matches!(
        taken,
        Err(Error::Storage(storage::StorageError::Interrupted))
    );
    assert!(is_interrupted, "{taken:?}");
}

/// A mark that a log had no room for was silently lost.
#[test]
fn a_log_that_takes_no_mark_is_told_by_checkpoints_and_at_the_end() {
    let (db, observed) = database(2);
    let (failing, marks) = (&observed[1].failing_marks, &observed[1].marks);
    let checkpoints = || observed[1].checkpoints.load(Ordering::Relaxed);
    failing.store(1, Ordering::Relaxed);
    db.checkpoint().unwrap();
    assert_eq!(
        (checkpoints(), marks.load(Ordering::Relaxed)),
        (1, 1),
        "it is tried again"
    );
    let table = db
        .create_table("t")
        .column("id", DataType::Int64)
        .create()
        .unwrap();
    db.transaction(|t| t.insert(&table, (1_i64,))).unwrap();
    failing.store(2, Ordering::Relaxed);
    let told = db.checkpoint();
    let is_told = matches!(&told, Err(Error::Unmarked { partition: 1, cause }) if cause.contains("ring is full"));
    assert!(is_told, "{told:?}");
    assert_eq!(checkpoints(), 2, "the checkpoint is written all the same");
    failing.store(1, Ordering::Relaxed);
    drop(table);
    let told = db.close();
    assert!(
        matches!(told, Err(Error::Unmarked { partition: 1, .. })),
        "{told:?}"
    );
}

#[test]
fn what_has_no_room_says_what_helps() {
    let full = |limit: &str| {
        let limit = limit.to_owned();
        Error::from(pmem::PmemError::OutOfSpace {
            wanted_bytes: 7,
            limit,
        })
    };
    let told = full("the filesystem is full").to_string();
    assert!(told.contains("fewer rows"), "{told}");
    let told = StorageError::log_full(7, "the ring is full", "end transactions");
    let told = Error::from(told).to_string();
    assert!(
        told.ends_with("end transactions"),
        "it says so itself: {told}"
    );
    for (method, empties) in [
        (Method::NvmCow, true),
        (Method::Dwb, false),
        (Method::Log, false),
    ] {
        let told = full("the filesystem is full").of_drop(method);
        assert!(!told.should_retry() && told.is_statement_error());
        let told = told.to_string();
        let helps = told.contains("delete the rows of the table first");
        assert_eq!(helps, empties, "{method}: {told}");
        assert!(told.contains("make room"), "{method}: {told}");
    }
}
