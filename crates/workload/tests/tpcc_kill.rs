//! Goal: SIGKILL in the middle of TPC-C costs no acknowledged transaction and leaves all
//! consistency conditions true.
//!
//! Method: this test program starts itself again as the process that is killed. Two threads there
//! run transactions over both partitions and write their progress after each one. After every kill
//! the database is opened, checked deeply, and compared with the acknowledged transactions; the
//! next process continues with the same database.

#![expect(clippy::unwrap_used, reason = "a test ends at what it cannot do")]

use indelible::{Database, Durability, Method, Options, TransactionOptions};
use std::fs::File;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use workload::random::Random;
use workload::tpcc::{Scale, Tables, Tpcc, TpccOptions, check_consistency, is_rollback};
use workload::{RoutedScript, Script, Workload};

const PARTITIONS: u32 = 2;
/// Kills of each method, and without `LONG_TESTS`.
const KILLS: [u64; 2] = [6, 3];
/// Transactions of each list among which there is a delivery.
const DELIVERED_BY: u64 = 60;
/// Names the database for the process that is killed.
const DATABASE: &str = "TPCC_KILL_DATABASE";
/// The name of the test that is that process.
const VICTIM: &str = "the_process_that_is_killed";

fn workload() -> Tpcc {
    Tpcc::new(TpccOptions {
        warehouses: 3,
        partitions: PARTITIONS,
        scale: Scale {
            items: 100,
            customers: 20,
        },
        transactions: 1 << 16,
        ..TpccOptions::default()
    })
    .unwrap()
}

fn acknowledged_file(database: &Path, partition: u32) -> PathBuf {
    database.with_extension(format!("acknowledged{partition}"))
}

/// Does nothing unless it is started by the test below.
#[test]
fn the_process_that_is_killed() {
    let Ok(path) = std::env::var(DATABASE) else {
        return;
    };
    let path = PathBuf::from(path);
    let workload = workload();
    let database = Database::open(&path).unwrap();
    let tables = Tables::open(&database).unwrap();
    std::thread::scope(|threads| {
        for partition in 0..PARTITIONS {
            let (workload, database, tables) = (&workload, &database, &tables);
            let file = File::create(acknowledged_file(&path, partition)).unwrap();
            threads.spawn(move || run(workload, database, tables, partition, &file));
        }
    });
}

fn run(workload: &Tpcc, database: &Database, tables: &Tables, partition: u32, file: &File) {
    let mut runner = workload.runner(database, tables, partition, 0).unwrap();
    let mut partitions = Vec::new();
    loop {
        runner.partitions(&mut partitions);
        let options = TransactionOptions::new()
            .partitions(partitions.iter().copied())
            .durability(Durability::Immediate);
        let done = database.transaction_with(&options, |t| runner.step(t));
        assert!(done.is_ok() || done.is_err_and(|error| is_rollback(&error)));
        runner.next();
        // One system call writes it whole, so the kill does not tear it.
        file.write_all_at(&runner.position().to_le_bytes(), 0)
            .unwrap();
    }
}

fn acknowledged(database: &Path, partition: u32) -> Option<u64> {
    let bytes = std::fs::read(acknowledged_file(database, partition)).ok()?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Starts the process, and kills it some time after each of its threads has acknowledged
/// `transactions`.
fn kill_one(database: &Path, transactions: u64, after: Duration) {
    for partition in 0..PARTITIONS {
        let _ = std::fs::remove_file(acknowledged_file(database, partition));
    }
    let mut child: Child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", VICTIM, "--nocapture"])
        .env(DATABASE, database)
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let is_far = |partition| acknowledged(database, partition) >= Some(transactions);
    while !(0..PARTITIONS).all(is_far) {
        let is_running = child.try_wait().unwrap().is_none();
        assert!(is_running, "the process ended by itself");
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(after);
    let is_running = child.try_wait().unwrap().is_none();
    assert!(is_running, "the process ended by itself");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A thread has begun at most one transaction that it has not acknowledged.
fn ranges(done: &[u64]) -> Vec<RangeInclusive<u64>> {
    done.iter().map(|count| *count..=count + 1).collect()
}

fn kill_and_check(method: Method) {
    let shared = Path::new("/dev/shm");
    let parent = if shared.is_dir() {
        shared.to_owned()
    } else {
        std::env::temp_dir()
    };
    let directory = parent.join(format!("tpcc-kill-{method}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("database");
    let workload = workload();
    let options = Options::new().method(method).partitions(PARTITIONS);
    let database = Database::create(&path, &options).unwrap();
    workload.load(&database, |_| ()).unwrap();
    let mut before = check_consistency(&database).unwrap();
    database.close().unwrap();
    let mut random = Random::new(1);
    let kills = KILLS[usize::from(std::env::var_os("LONG_TESTS").is_none())];
    for kill in 0..kills {
        // The last process is killed when it has delivered something for certain, and the others
        // when that happens.
        let transactions = if kill + 1 < kills { 1 } else { DELIVERED_BY };
        kill_one(
            &path,
            transactions,
            Duration::from_micros(random.below(60_000)),
        );
        let done: Vec<u64> = (0..PARTITIONS)
            .map(|partition| acknowledged(&path, partition).unwrap())
            .collect();
        let database = Database::open(&path).unwrap();
        let damage = database.verify().unwrap().damage;
        assert_eq!(damage, Vec::<String>::new(), "{method}");
        let after = check_consistency(&database).unwrap().into_result().unwrap();
        // Each process begins the list anew, on the content that the last one left.
        workload
            .check_since(&before, &after, &ranges(&done))
            .unwrap();
        before = after;
        database.close().unwrap();
    }
    let delivered: u64 = before.warehouses.iter().map(|w| w.delivered_orders).sum();
    assert!(delivered > 0, "{method}: the processes delivered nothing");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn kills_cost_nothing_that_was_acknowledged() {
    for method in Method::distinct().filter(|method| method.is_durable()) {
        kill_and_check(method);
    }
}
