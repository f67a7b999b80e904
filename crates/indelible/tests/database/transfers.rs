//! Threads that move money between few accounts, as a test of deadlocks and a measurement of
//! contention (`examples/contention.rs`) run them.
//!
//! Each transfer reads a balance before it changes it, so most transactions conflict. Accounts
//! alternate between the partitions. At the end there is as much money as in the beginning.

use indelible::{DataType, Database, Error, Partitioning, Result, Table};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ACCOUNTS: i64 = 16;
const OPENING_BALANCE: i64 = 100;
const BALANCE: usize = 1;

/// Result of the transfers.
pub(crate) struct Outcome {
    /// How often their closures ran.
    pub(crate) attempts: u64,
    /// The longest of them, with all its attempts.
    pub(crate) longest: Duration,
    /// The errors of those that were given up.
    pub(crate) gave_up: Vec<Error>,
}

/// Makes the accounts.
pub(crate) fn open_accounts(db: &Database) -> Result<Table> {
    let accounts = db
        .create_table("accounts")
        .column("id", DataType::Int64)
        .column("balance", DataType::Int64)
        .partitioning(Partitioning::Modulo)
        .create()?;
    db.transaction(|t| {
        (0..ACCOUNTS).try_for_each(|id| t.insert(&accounts, (id, OPENING_BALANCE)))
    })?;
    Ok(accounts)
}

/// Lets each of so many threads make `each` transfers, and counts the money.
pub(crate) fn run(db: &Database, accounts: &Table, threads: u64, each: u64) -> Result<Outcome> {
    let (attempts, longest_ns) = (AtomicU64::new(0), AtomicU64::new(0));
    let gave_up = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 1..=threads {
            let (attempts, longest_ns, gave_up) = (&attempts, &longest_ns, &gave_up);
            scope.spawn(move || {
                let mut random = thread.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let mut next = move || {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    (random % ACCOUNTS.cast_unsigned()).cast_signed()
                };
                for _ in 0..each {
                    let begun = Instant::now();
                    if let Err(error) = transfer(db, accounts, [next(), next()], attempts) {
                        gave_up
                            .lock()
                            .expect("no thread panics with it")
                            .push(error);
                    }
                    longest_ns.fetch_max(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
                }
            });
        }
    });
    let rows = db.read(|r| r.collect(accounts, ..))?;
    let balances = rows.iter().filter_map(|row| row.get(BALANCE).as_i64());
    let sum: i64 = balances.sum();
    assert_eq!(sum, ACCOUNTS * OPENING_BALANCE, "money was made or lost");
    Ok(Outcome {
        attempts: attempts.into_inner(),
        longest: Duration::from_nanos(longest_ns.into_inner()),
        gave_up: gave_up.into_inner().expect("no thread panics with it"),
    })
}

fn transfer(
    db: &Database,
    accounts: &Table,
    [from, to]: [i64; 2],
    attempts: &AtomicU64,
) -> Result<()> {
    let (mut row, mut changes) = (accounts.row(), accounts.changes());
    db.transaction(|t| {
        attempts.fetch_add(1, Ordering::Relaxed);
        for (id, change) in [(from, -1), (to, 1)] {
            t.get_into(accounts, id, &mut row)?;
            // As if the client were asked: without this a processor ends most transactions before
            // another begins.
            std::thread::yield_now();
            let balance = row.get(BALANCE).as_i64().unwrap_or(0) + change;
            changes.set(BALANCE, balance)?;
            t.update(accounts, id, &changes)?;
            std::thread::yield_now();
        }
        Ok(())
    })
}
