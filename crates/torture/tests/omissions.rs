//! Goal: no step of the protocol of connections can be missing without a history showing it, or
//! without the crash search showing it if one thread meets it often enough.
//!
//! Method: each step is left out in turn, and histories run at the level that needs it until one is
//! wrong. An anomaly is wrong, and so is an error or a panic of a session. One test has all of it,
//! because a step is left out in the whole process; with none left out, the same histories and
//! searches are right.
//!
//! `cargo test --features torture/omissions --test omissions`

use indelible::{
    DataType, Database, Durability, Error, Isolation, Method, MethodOption, Omission, Options,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::time::Duration;
use torture::history::{HistoryOptions, run};
use torture::search::{Config, search};

/// Histories for each step at most.
const TRIES: u64 = 12;
/// One session slot a partition, and many.
const ONE_SLOT: Method = Method::NvmInp;
const MANY_SLOTS: Method = Method::FullPageWrites;

/// The steps, and what needs them.
const STEPS: [(Omission, Method, Isolation); 10] = [
    (Omission::Validation, ONE_SLOT, Isolation::Serializable),
    (Omission::Validation, MANY_SLOTS, Isolation::Serializable),
    (Omission::Phantoms, ONE_SLOT, Isolation::Serializable),
    (Omission::FirstChange, ONE_SLOT, Isolation::RepeatableRead),
    (Omission::Images, ONE_SLOT, Isolation::RepeatableRead),
    (Omission::Images, ONE_SLOT, Isolation::ReadCommitted),
    (
        Omission::ImagesInTime,
        MANY_SLOTS,
        Isolation::RepeatableRead,
    ),
    (Omission::RowLocks, ONE_SLOT, Isolation::ReadCommitted),
    (Omission::RowLocks, MANY_SLOTS, Isolation::RepeatableRead),
    (Omission::UniqueLocks, ONE_SLOT, Isolation::ReadCommitted),
];

/// The steps without which one thread soon sees wrong results.
const TURNS: [Omission; 5] = [
    Omission::Validation,
    Omission::Phantoms,
    Omission::FirstChange,
    Omission::Images,
    Omission::RowLocks,
];
/// Images of a search.
const IMAGES: u64 = 6000;

/// Why a crash search with connections is wrong, if it is.
fn fault_of_turns() -> Option<String> {
    let config = Config {
        connections: Some(6),
        minimise_max: Duration::ZERO,
        ..Config::new(ONE_SLOT, 1, IMAGES, Duration::from_hours(1))
    };
    search(&config, &mut |_| {}).failure.map(|found| found.what)
}

/// Why the history of this seed is wrong, if it is.
fn fault(method: Method, isolation: Isolation, seed: u64) -> Option<String> {
    let name = format!("omissions-{method}-{isolation:?}-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _ = std::fs::remove_dir_all(&path);
    let options = Options::new()
        .method(method)
        .partitions(2)
        .durability(Durability::Group)
        .fitting(method, [MethodOption::Sessions(8)]);
    let database = Database::create(&path, &options).unwrap();
    let history = HistoryOptions {
        sessions: 2,
        connections: 6,
        isolation,
        seed,
        transactions: 2000,
        ..HistoryOptions::default()
    };
    let report = catch_unwind(AssertUnwindSafe(|| run(&database, &history)));
    drop(database);
    std::fs::remove_dir_all(&path).unwrap();
    match report {
        Err(_) => Some("a panic".to_owned()),
        Ok(Err(error)) => Some(error.to_string()),
        Ok(Ok(report)) => report.anomalies.first().map(ToString::to_string),
    }
}

/// Why the first connection, which opens during a typed transaction, is wrong, if it is. Histories
/// meet this too seldom.
fn fault_of_barrier() -> Option<String> {
    let path = std::env::temp_dir().join(format!("omissions-barrier-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let options = Options::new()
        .method(ONE_SLOT)
        .wait_limit(Duration::from_millis(50));
    let database = Database::create(&path, &options).unwrap();
    let table = database
        .create_table("numbers")
        .column("number", DataType::Int64)
        .primary_key(["number"])
        .create()
        .unwrap();
    let (has_inserted, inserted) = channel();
    let (may_commit, told) = channel();
    let found = std::thread::scope(|threads| {
        let writer = threads.spawn(|| {
            let told = told;
            database.transaction(|t| {
                t.insert(&table, (7,))?;
                has_inserted.send(()).unwrap();
                told.recv().unwrap();
                Ok(())
            })
        });
        inserted.recv().unwrap();
        let connection = database.connect().and_then(|mut connection| {
            connection.begin(Isolation::RepeatableRead)?;
            connection.take_snapshot()?;
            Ok(connection)
        });
        may_commit.send(()).unwrap();
        writer.join().unwrap().unwrap();
        match connection {
            // It waits until the typed transaction ends, which it does only afterwards.
            Err(Error::Conflict { .. }) => None,
            Err(error) => Some(error.to_string()),
            Ok(mut connection) => {
                let row = connection.get(&table, 7).unwrap();
                row.map(|_| "a snapshot has a row of a later commit".to_owned())
            }
        }
    });
    drop((table, database));
    std::fs::remove_dir_all(&path).unwrap();
    found
}

#[test]
fn each_step_that_is_left_out_is_noticed() {
    let (mut unnoticed, mut wrong) = (Vec::new(), Vec::new());
    for (step, method, isolation) in STEPS {
        let fault = |seed| fault(method, isolation, seed);
        indelible::leave_out(None);
        wrong.extend(fault(0));
        indelible::leave_out(Some(step));
        let noticed = (1..=TRIES).find_map(|seed| Some((seed, fault(seed)?)));
        println!("{step:?}, {method}, {isolation:?}: {noticed:?}");
        if noticed.is_none() {
            unnoticed.push((step, method, isolation));
        }
    }
    indelible::leave_out(None);
    wrong.extend(fault_of_turns());
    for step in TURNS {
        indelible::leave_out(Some(step));
        let noticed = fault_of_turns();
        println!("{step:?}, turns: {noticed:?}");
        if noticed.is_none() {
            unnoticed.push((step, ONE_SLOT, Isolation::Serializable));
        }
    }
    indelible::leave_out(None);
    wrong.extend(fault_of_barrier());
    indelible::leave_out(Some(Omission::Barrier));
    let noticed = fault_of_barrier();
    println!("Barrier: {noticed:?}");
    if noticed.is_none() {
        unnoticed.push((Omission::Barrier, ONE_SLOT, Isolation::RepeatableRead));
    }
    indelible::leave_out(None);
    assert_eq!(wrong, [""; 0], "nothing was left out");
    assert!(unnoticed.is_empty(), "{unnoticed:?}");
}
