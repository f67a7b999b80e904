//! Money is neither made nor lost: threads transfer between accounts in several partitions, and the
//! sum stays.
//!
//! Run with `cargo run --release -p indelible --example bank`. It works in shared memory where
//! there is some, and cleans up.

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use indelible::{DataType, Database, Error, Method, Options, Partitioning, Table};
use std::path::{Path, PathBuf};
use std::time::Instant;

const PARTITIONS: u32 = 4;
const ACCOUNTS: i64 = 1000;
const OPENING_BALANCE: i64 = 100;
const THREADS: u64 = 4;
const TRANSFERS: u64 = 20_000;
const BALANCE: usize = 1;

fn main() -> indelible::Result<()> {
    let directory = temporary().join(format!("indelible-bank-{}", std::process::id()));
    let options = Options::new().method(Method::NvmInp).partitions(PARTITIONS);
    let db = Database::create(&directory, &options)?;
    let accounts = db
        .create_table("accounts")
        .column("id", DataType::Int64)
        .column("balance", DataType::Int64)
        .partitioning(Partitioning::Modulo)
        .create()?;
    db.transaction(|t| {
        (0..ACCOUNTS).try_for_each(|id| t.insert(&accounts, (id, OPENING_BALANCE)))
    })?;

    let start = Instant::now();
    let refused: u64 = std::thread::scope(|threads| {
        let running: Vec<_> = (0..THREADS)
            .map(|thread| {
                threads.spawn({
                    let (db, accounts) = (&db, &accounts);
                    move || run(db, accounts, thread + 1)
                })
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().expect("no thread panics"))
            .sum()
    });
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{} transfers over {PARTITIONS} partitions in {seconds:.2} s, {refused} refused",
        THREADS * TRANSFERS
    );

    check(&db, &accounts)?;
    drop((accounts, db));
    let db = Database::open(&directory)?;
    check(&db, &db.table("accounts")?)?;
    let damage = db.verify()?.damage;
    assert!(damage.is_empty(), "{damage:?}");
    println!("the sum is right, also after reopening");
    drop(db);
    let _ = std::fs::remove_dir_all(&directory);
    Ok(())
}

/// Makes one thread's transfers; returns the number refused for lack of money.
fn run(db: &Database, accounts: &Table, seed: u64) -> u64 {
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % ACCOUNTS.cast_unsigned()).cast_signed()
    };
    let mut refused = 0;
    for _ in 0..TRANSFERS {
        let (from, to, amount) = (next(), next(), next() % 20 + 1);
        match transfer(db, accounts, from, to, amount) {
            Ok(()) => {}
            Err(Error::Rejected(_)) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    refused
}

fn transfer(
    db: &Database,
    accounts: &Table,
    from: i64,
    to: i64,
    amount: i64,
) -> indelible::Result<()> {
    let (mut row, mut changes) = (accounts.row(), accounts.changes());
    db.transaction(|t| {
        for (id, change) in [(from, -amount), (to, amount)] {
            t.get_into(accounts, id, &mut row)?;
            let balance = row.get(BALANCE).as_i64().unwrap_or(0) + change;
            if balance < 0 {
                return Err(Error::rejected("not enough money"));
            }
            changes.set(BALANCE, balance)?;
            t.update(accounts, id, &changes)?;
        }
        Ok(())
    })
}

fn check(db: &Database, accounts: &Table) -> indelible::Result<()> {
    let rows = db.read(|r| r.collect(accounts, ..))?;
    let sum: i64 = rows
        .iter()
        .filter_map(|row| row.get(BALANCE).as_i64())
        .sum();
    assert_eq!(sum, ACCOUNTS * OPENING_BALANCE, "money was made or lost");
    Ok(())
}

/// Shared memory, where the machine has some.
fn temporary() -> PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() {
        shared.to_owned()
    } else {
        std::env::temp_dir()
    }
}
