//! Many sessions on few rows: the throughput, the slowest transaction, and the number that give up,
//! in one partition and in two.
//!
//! Eight threads move money between sixteen accounts at SERIALIZABLE, reading each balance before
//! they change it. Transactions conflict all the time, and many are undone because of a deadlock
//! and run again. Accounts alternate between the partitions, so with two of them half of the
//! transfers are in both.
//!
//! ```text
//! cargo run --release -p indelible --example contention -- [DIRECTORY [TRANSACTIONS [METHOD ...]]]
//! ```
//!
//! It takes all page methods unless some are named, works in a directory of its own below the one
//! given (shared memory, where there is some), and cleans up.

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use indelible::{DataType, Database, Method, Options, Partitioning, Table};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SESSIONS: u32 = 8;
const ACCOUNTS: i64 = 16;
const OPENING_BALANCE: i64 = 100;
const TRANSACTIONS: u64 = 50_000;
const BALANCE: usize = 1;

/// Result of a run.
struct Outcome {
    per_second: f64,
    longest: Duration,
    repeats_each: f64,
    gave_up: u64,
}

fn main() -> indelible::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let parent = arguments.next().map_or_else(shared_memory, PathBuf::from);
    let transactions = arguments
        .next()
        .map_or(TRANSACTIONS, |text| text.parse().expect("a number"));
    let named: Vec<Method> = arguments
        .map(|name| name.parse().expect("the name of a method"))
        .collect();
    println!(
        "{:<22} {:>10} {:>9} {:>10} {:>9} {:>8}",
        "method", "partitions", "txn/s", "longest ms", "repeats", "gave up"
    );
    for method in Method::distinct().filter(|method| method.is_paged()) {
        if !named.is_empty() && !named.contains(&method) {
            continue;
        }
        for partitions in [1, 2] {
            let directory = parent.join(format!("indelible-contention-{}", std::process::id()));
            let outcome = run(&directory, method, partitions, transactions);
            let _ = std::fs::remove_dir_all(&directory);
            let outcome = outcome?;
            println!(
                "{:<22} {partitions:>10} {:>9.0} {:>10.1} {:>9.2} {:>8}",
                method.name(),
                outcome.per_second,
                outcome.longest.as_secs_f64() * 1e3,
                outcome.repeats_each,
                outcome.gave_up
            );
        }
    }
    Ok(())
}

fn run(
    directory: &Path,
    method: Method,
    partitions: u32,
    transactions: u64,
) -> indelible::Result<Outcome> {
    let options = Options::new()
        .method(method)
        .partitions(partitions)
        .sessions(SESSIONS);
    let db = Database::create(directory, &options)?;
    let accounts = db
        .create_table("accounts")
        .column("id", DataType::Int64)
        .column("balance", DataType::Int64)
        .partitioning(Partitioning::Modulo)
        .create()?;
    db.transaction(|t| {
        (0..ACCOUNTS).try_for_each(|id| t.insert(&accounts, (id, OPENING_BALANCE)))
    })?;
    let (attempts, gave_up, longest_ns) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let each = transactions / u64::from(SESSIONS);
    let start = Instant::now();
    std::thread::scope(|threads| {
        for thread in 1..=u64::from(SESSIONS) {
            let (db, accounts) = (&db, &accounts);
            let (attempts, gave_up, longest_ns) = (&attempts, &gave_up, &longest_ns);
            threads.spawn(move || {
                let mut random = thread.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let mut next = move || {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    (random % ACCOUNTS.cast_unsigned()).cast_signed()
                };
                for _ in 0..each {
                    let (from, to) = (next(), next());
                    let begun = Instant::now();
                    if transfer(db, accounts, [from, to], attempts).is_err() {
                        gave_up.fetch_add(1, Ordering::Relaxed);
                    }
                    longest_ns.fetch_max(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
                }
            });
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    check(&db, &accounts)?;
    let (attempts, gave_up) = (attempts.into_inner(), gave_up.into_inner());
    let done = each * u64::from(SESSIONS);
    Ok(Outcome {
        per_second: (done - gave_up) as f64 / seconds,
        longest: Duration::from_nanos(longest_ns.into_inner()),
        repeats_each: (attempts - done) as f64 / done as f64,
        gave_up,
    })
}

fn transfer(
    db: &Database,
    accounts: &Table,
    [from, to]: [i64; 2],
    attempts: &AtomicU64,
) -> indelible::Result<()> {
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

fn check(db: &Database, accounts: &Table) -> indelible::Result<()> {
    let rows = db.read(|r| r.collect(accounts, ..))?;
    let balances = rows.iter().filter_map(|row| row.get(BALANCE).as_i64());
    let sum: i64 = balances.sum();
    assert_eq!(sum, ACCOUNTS * OPENING_BALANCE, "money was made or lost");
    Ok(())
}

/// Shared memory, where the machine has some.
fn shared_memory() -> PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() {
        shared.to_owned()
    } else {
        std::env::temp_dir()
    }
}
