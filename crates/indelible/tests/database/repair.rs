//! Goal: a database whose process was killed, and that lost its descriptor or its commit table
//! then, has every acknowledged row after a repair, and each transaction wholly or not at all.
//!
//! Method: another process of this program inserts rows, in one partition and in both, and says
//! what is acknowledged; it is killed in the middle. The files that a repair rebuilds are removed,
//! alone and together. A repair that is impossible must be refused with the reason, and the right
//! file brings everything back.

use crate::common::{Directory, durable_methods, people, small_options};
use indelible::{Database, Error, Method, Options, Repair, Repaired, Result};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Tells the process that is killed the path of its database.
const DATABASE: &str = "INDELIBLE_TEST_REPAIR";
const VICTIM: &str = "repair::the_process_that_is_killed";
const PARTITIONS: u32 = 2;
/// Transactions that are acknowledged before the kill.
const TRANSACTIONS: i64 = 60;
/// So small that a checkpoint happens among them.
const LOG_BYTES: u64 = 64 << 10;
/// Each of these transactions writes in both partitions, with this far from each other.
const PAIR_EVERY: i64 = 3;
const PAIR: i64 = 1_000_001;

const DESCRIPTOR: &str = "indelible.db";
const COMMITS: &str = "commits.pool";

/// Does nothing unless it is started by the test below.
#[test]
fn the_process_that_is_killed() {
    let Ok(path) = std::env::var(DATABASE) else {
        return;
    };
    let options = Options::new().checkpoint_log_bytes(LOG_BYTES);
    let database = Database::open_with(&path, &options).unwrap();
    let table = database.table("people").unwrap();
    for id in 0.. {
        let row = |id: i64| (id, format!("{id:0>40}"), Some(id));
        database
            .transaction(|t| {
                t.insert(&table, row(id))?;
                if id % PAIR_EVERY == 0 {
                    t.insert(&table, row(id + PAIR))?;
                }
                Ok(())
            })
            .unwrap();
        println!("\nacknowledged {id}");
    }
}

/// Runs the process until it has acknowledged enough, and kills it; the last transaction that it
/// has acknowledged.
fn kill_one(database: &Path) -> i64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", VICTIM, "--nocapture"])
        .env(DATABASE, database)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut last = -1;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some(number) = line.strip_prefix("acknowledged ") {
            last = number.parse().unwrap();
        }
        if last == TRANSACTIONS {
            // Lines that are in the pipe by then are still read.
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(last >= TRANSACTIONS, "the process ended by itself");
    last
}

/// A database whose process was killed; the last transaction that it has acknowledged.
fn killed(path: &Path, method: Method) -> i64 {
    let options = small_options(method).partitions(PARTITIONS);
    let database = Database::create(path, &options).unwrap();
    people(&database);
    database.close().unwrap();
    kill_one(path)
}

/// Every acknowledged row is there, and no half of a transaction.
fn check(path: &Path, last: i64, case: &str) {
    let database = Database::open(path).unwrap();
    let table = database.table("people").unwrap();
    let has = |id: i64| database.read(|r| r.get(&table, id)).unwrap().is_some();
    for id in 0..=last {
        assert!(has(id), "{case}: row {id} of {last} is lost");
    }
    for id in (0..=last + 2 * PAIR_EVERY).filter(|id| id % PAIR_EVERY == 0) {
        assert_eq!(has(id), has(id + PAIR), "{case}: transaction {id}");
    }
    let damage = database.verify().unwrap().damage;
    assert!(damage.is_empty(), "{case}: {damage:?}");
}

fn repair(path: &Path, method: Method) -> Result<Repaired> {
    let assumed = Repair::new().method(method).partitions(PARTITIONS);
    Database::repair(path, &assumed)
}

#[test]
fn a_database_of_a_killed_process_is_repaired() {
    let rebuildable: [&[&str]; 3] = [&[DESCRIPTOR], &[COMMITS], &[DESCRIPTOR, COMMITS]];
    for method in durable_methods() {
        for gone in rebuildable {
            let case = format!("{method}, without {gone:?}");
            let (here, kept) = (Directory::new(), Directory::new());
            let last = killed(here.path(), method);
            fs::create_dir(kept.path()).unwrap();
            for name in gone {
                fs::rename(here.path().join(name), kept.path().join(name)).unwrap();
            }
            match repair(here.path(), method) {
                Ok(repaired) => {
                    let report = repaired.report.unwrap();
                    assert!(report.damage.is_empty(), "{case}: {:?}", report.damage);
                    assert_eq!(repaired.rebuilt.len(), gone.len(), "{case}");
                }
                // No transaction is decided by a new table.
                Err(Error::Irreparable { reason }) if gone.contains(&COMMITS) => {
                    assert!(reason.contains(COMMITS), "{case}: {reason}");
                    fs::rename(kept.path().join(COMMITS), here.path().join(COMMITS)).unwrap();
                    if gone.contains(&DESCRIPTOR) {
                        repair(here.path(), method).unwrap();
                    }
                }
                Err(error) => panic!("{case}: {error}"),
            }
            check(here.path(), last, &case);
        }
    }
}

/// The area of copies may have the only whole copy of a page, so no new one is made.
#[test]
fn an_area_of_copies_that_a_killed_process_had_is_not_made_up() {
    for (method, area) in [
        (Method::Dwb, "p0.doublewrite"),
        (Method::DwbBatched, "p1.doublewrite"),
        (Method::NvmDwb, "p0.slots"),
        (Method::NvmDwbLogOpt, "p1.slots"),
    ] {
        let (here, kept) = (Directory::new(), Directory::new());
        let last = killed(here.path(), method);
        fs::create_dir(kept.path()).unwrap();
        for name in [area, DESCRIPTOR] {
            fs::rename(here.path().join(name), kept.path().join(name)).unwrap();
        }
        let refused = repair(here.path(), method).unwrap_err().to_string();
        assert!(refused.contains(area), "{method}: {refused}");
        assert!(!here.path().join(area).exists(), "{method}");
        fs::rename(kept.path().join(area), here.path().join(area)).unwrap();
        repair(here.path(), method).unwrap();
        check(here.path(), last, &format!("{method}, with its area again"));
    }
}

/// A descriptor that cannot be read, as a failing device has it, could not be repaired: the error
/// of the first read ended the repair, and so did that of the copy of the old file.
#[test]
fn a_descriptor_that_cannot_be_read_is_repaired() {
    let directory = Directory::new();
    let database = Database::create(directory.path(), &small_options(Method::NvmInp)).unwrap();
    people(&database);
    database.close().unwrap();
    let descriptor = directory.path().join(DESCRIPTOR);
    fs::remove_file(&descriptor).unwrap();
    fs::create_dir(&descriptor).unwrap();
    let repaired = Database::repair(directory.path(), &Repair::new()).unwrap();
    assert!(repaired.replaced.unwrap().join(DESCRIPTOR).is_dir());
    Database::open(directory.path())
        .unwrap()
        .table("people")
        .unwrap();
}
