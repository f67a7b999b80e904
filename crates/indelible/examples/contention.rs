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

#[path = "../tests/database/transfers.rs"]
mod transfers;

use indelible::{Database, Method, MethodOption, Options};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const SESSIONS: u32 = 8;
const TRANSACTIONS: u64 = 50_000;

/// Result of a run.
struct Outcome {
    per_second: f64,
    longest: Duration,
    repeats_each: f64,
    gave_up: usize,
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
        .fitting(method, [MethodOption::Sessions(SESSIONS)])
        .partitions(partitions);
    let db = Database::create(directory, &options)?;
    let accounts = transfers::open_accounts(&db)?;
    let each = transactions / u64::from(SESSIONS);
    let start = Instant::now();
    let transfers::Outcome {
        attempts,
        longest,
        gave_up,
    } = transfers::run(&db, &accounts, SESSIONS.into(), each)?;
    let seconds = start.elapsed().as_secs_f64();
    let (done, gave_up) = (each * u64::from(SESSIONS), gave_up.len());
    Ok(Outcome {
        per_second: (done - gave_up as u64) as f64 / seconds,
        longest,
        repeats_each: (attempts - done) as f64 / done as f64,
        gave_up,
    })
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
