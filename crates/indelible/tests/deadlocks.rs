//! Deadlocks over several partitions: goal and method.
//!
//! Goal: they are found when they form, in every page method; nobody waits for a time-out, and
//! nobody gives up. Method: more transactions than rows move money between partitions. Limits of
//! waits are so long that a time-out cannot end a deadlock: it would be an error of the transaction
//! that hits it.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use common::Directory;
use indelible::{
    DataType, Database, Error, Method, MethodOption, Options, Partitioning, Result, Table,
};
use std::sync::Barrier;
use std::time::Duration;
use storage::StorageError;

const THREADS: u64 = 8;
const ACCOUNTS: u64 = 16;
const OPENING_BALANCE: i64 = 100;
const BALANCE: usize = 1;
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
    let accounts = db
        .create_table("accounts")
        .column("id", DataType::Int64)
        .column("balance", DataType::Int64)
        .partitioning(Partitioning::Modulo)
        .create()
        .unwrap();
    db.transaction(|t| {
        (0..ACCOUNTS.cast_signed()).try_for_each(|id| t.insert(&accounts, (id, OPENING_BALANCE)))
    })
    .unwrap();
    (db, accounts)
}

fn transfer(db: &Database, accounts: &Table, from: i64, to: i64) -> Result<()> {
    let (mut row, mut changes) = (accounts.row(), accounts.changes());
    db.transaction(|t| {
        for (id, change) in [(from, -1), (to, 1)] {
            t.get_into(accounts, id, &mut row)?;
            // Lets the other threads run in between.
            std::thread::yield_now();
            let balance = row.get(BALANCE).as_i64().unwrap_or(0) + change;
            changes.set(BALANCE, balance)?;
            t.update(accounts, id, &changes)?;
            std::thread::yield_now();
        }
        Ok(())
    })
}

fn transfers(db: &Database, accounts: &Table, count: u64) {
    std::thread::scope(|threads| {
        for thread in 1..=THREADS {
            threads.spawn(move || {
                let mut random = thread.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let mut next = move || {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    (random % ACCOUNTS).cast_signed()
                };
                for _ in 0..count {
                    transfer(db, accounts, next(), next()).unwrap();
                }
            });
        }
    });
    let rows = db.read(|r| r.collect(accounts, ..)).unwrap();
    let balances = rows.iter().map(|row| row.get(BALANCE).as_i64().unwrap());
    assert_eq!(
        balances.sum::<i64>(),
        ACCOUNTS.cast_signed() * OPENING_BALANCE
    );
    assert_eq!(db.verify().unwrap().damage, Vec::<String>::new());
}

#[test]
fn transfers_between_partitions_all_end() {
    for method in Method::distinct().filter(|method| method.is_paged()) {
        let directory = Directory::new();
        let (db, accounts) = database(&directory, method, THREADS as u32);
        transfers(&db, &accounts, 50);
    }
}

#[test]
fn they_end_where_transactions_wait_for_seats_as_well() {
    let directory = Directory::new();
    let (db, accounts) = database(&directory, Method::FullPageWrites, 2);
    transfers(&db, &accounts, 50);
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
