//! Deadlocks over several partitions: goal and method.
//!
//! Goal: they are found when they form, in every page method; nobody waits for a time-out, and
//! nobody gives up. Method: more transactions than rows move money between partitions. Limits of
//! waits are so long that a time-out cannot end a deadlock: it would be an error of the transaction
//! that hits it.

use crate::common::Directory;
use crate::transfers;
use indelible::{Database, Error, Method, MethodOption, Options, Table};
use std::sync::Barrier;
use std::time::Duration;
use storage::StorageError;

const THREADS: u64 = 8;
/// Far longer than any test.
const LONG: Duration = Duration::from_mins(10);

fn database(directory: &Directory, method: Method, sessions: u32) -> (Database, Table) {
    let of_method = [
        MethodOption::Sessions(sessions),
        MethodOption::RingBytes(1 << 20),
        MethodOption::BufferBytes(4 << 20),
    ];
    let options = Options::new()
        .fitting(method, of_method)
        .partitions(2)
        .wait_limit(LONG);
    let db = Database::create(directory.path(), &options).unwrap();
    let accounts = transfers::open_accounts(&db).unwrap();
    (db, accounts)
}

fn transfers_all_end(db: &Database, accounts: &Table) {
    let outcome = transfers::run(db, accounts, THREADS, 50).unwrap();
    assert!(outcome.gave_up.is_empty(), "{:?}", outcome.gave_up);
    assert!(outcome.attempts >= THREADS * 50 && outcome.longest < LONG);
    assert_eq!(db.verify().unwrap().damage, Vec::<String>::new());
}

#[test]
fn transfers_between_partitions_all_end() {
    for method in Method::distinct().filter(|method| method.is_paged()) {
        let directory = Directory::new();
        let (db, accounts) = database(&directory, method, THREADS as u32);
        transfers_all_end(&db, &accounts);
    }
}

#[test]
fn they_end_where_transactions_wait_for_seats_as_well() {
    let directory = Directory::new();
    let (db, accounts) = database(&directory, Method::FullPageWrites, 2);
    transfers_all_end(&db, &accounts);
}

/// Transactions that had not failed yet could undo the one with the turn again and again, until it
/// was given up; nothing bounded its attempts but luck. The attempts of each transaction are one,
/// one that is repeated at once, and one more with the turn for each partition that is new to it.
#[test]
fn the_turn_bounds_the_attempts_of_a_transaction() {
    let directory = Directory::new();
    let sessions = MethodOption::Sessions(THREADS as u32);
    let options = Options::new()
        .fitting(Method::FullPageWrites, [sessions])
        .partitions(2)
        .wait_limit(LONG)
        .retries_max(4);
    let db = Database::create(directory.path(), &options).unwrap();
    let accounts = transfers::open_accounts(&db).unwrap();
    let outcome = transfers::run(&db, &accounts, THREADS, 500).unwrap();
    assert!(outcome.gave_up.is_empty(), "{:?}", outcome.gave_up);
}

#[test]
fn one_of_two_transactions_that_the_caller_runs_is_told() {
    let directory = Directory::new();
    let (db, accounts) = database(&directory, Method::FullPageWrites, 2);
    let both_have_locks = Barrier::new(2);
    // Each changes a row of one partition and wants that of the other.
    let run = |own: i64, wanted: i64| {
        let mut t = db.begin().unwrap();
        assert!(t.get_for_update(&accounts, own).unwrap().is_some());
        both_have_locks.wait();
        t.get_for_update(&accounts, wanted).map(|found| {
            assert!(found.is_some());
            t.commit().unwrap();
        })
    };
    let [first, second] = std::thread::scope(|threads| {
        [threads.spawn(|| run(0, 1)), threads.spawn(|| run(1, 0))]
            .map(|thread| thread.join().unwrap())
    });
    let (told, ended) = if first.is_err() {
        (first, second)
    } else {
        (second, first)
    };
    ended.unwrap();
    assert!(matches!(
        told,
        Err(Error::Storage(StorageError::Deadlock { .. }))
    ));
}
