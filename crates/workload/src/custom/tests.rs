//! Goal: lists are those asked for, a run leaves the content that its list gives, and a replay
//! repeats its trace.
//!
//! Method: small lists on real databases, checked row by row; a recorded run is replayed while it
//! is recorded again, and both traces are compared.

use super::*;
use indelible::{Database, Durability, Method, Options, Trace, TraceAction};
use std::collections::HashMap;
use std::path::PathBuf;

struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("custom-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn database(&self, name: &str) -> Database {
        let options = Options::new().method(Method::NvmInp);
        Database::create(self.0.join(name), &options).unwrap()
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn options() -> CustomOptions {
    CustomOptions {
        rows: 1003,
        columns: 3,
        column_bytes: 40,
        update_columns: 2,
        mix: "read=40,update=30,insert=20,scan=10".parse().unwrap(),
        skew: CustomSkew::HIGH,
        scan_rows: 7,
        operations: 2,
        transactions: 3000,
        seed: 5,
    }
}

/// Loads and runs the first transactions of a list, with a trace of the run.
fn run(workload: &Custom, place: &TestDirectory, name: &str, transactions: u64) -> Trace {
    let database = place.database(name);
    let tables = workload.load(&database).unwrap();
    workload.check(&database, &tables, 0).unwrap();
    let path = place.0.join(format!("{name}.trace"));
    database.start_trace(&path).unwrap();
    let mut worker = database.worker(&[0], Durability::Immediate).unwrap();
    let mut runner = workload.runner(&tables, 0);
    for _ in 0..transactions {
        worker.transaction(|t| runner.step(t)).unwrap();
    }
    drop(worker);
    database.finish_trace().unwrap();
    workload.check(&database, &tables, transactions).unwrap();
    Trace::read(path, usize::MAX).unwrap()
}

#[test]
fn shares_and_skew_are_as_asked() {
    let workload = Custom::generate(&options()).unwrap();
    assert_eq!(workload.list().len(), 6000);
    assert_eq!(workload.transactions(), 3000);
    let share = |kind| {
        let of_kind = workload.list().iter().filter(|o| o.kind == kind).count();
        of_kind as f64 / 60.0
    };
    for (kind, percent) in [
        (Kind::Get, 40.0),
        (Kind::Update, 30.0),
        (Kind::Insert, 20.0),
        (Kind::Scan, 10.0),
    ] {
        assert!(
            (share(kind) - percent).abs() < 2.5,
            "{kind:?} {}",
            share(kind)
        );
    }
    let mut counts = HashMap::new();
    let inserts = |o: &&Operation| o.kind != Kind::Insert;
    for operation in workload.list().iter().filter(inserts) {
        *counts.entry(operation.key).or_insert(0_u64) += 1;
    }
    let mut counts: Vec<u64> = counts.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let hot: u64 = counts.iter().take(100).sum();
    let all: u64 = counts.iter().sum();
    assert!((85..95).contains(&(hot * 100 / all)), "{hot} of {all}");
    assert_eq!(
        Custom::generate(&options()).unwrap().list(),
        workload.list()
    );
}

#[test]
fn a_run_leaves_what_the_list_says_and_the_check_sees_what_it_does_not() {
    let place = TestDirectory::new("check");
    let workload = Custom::generate(&options()).unwrap();
    let database = place.database("db");
    let tables = workload.load(&database).unwrap();
    for part in [0..400, 400..1000] {
        let mut runner = workload.runner(&tables, part.start);
        for _ in part {
            database.transaction(|t| runner.step(t)).unwrap();
        }
    }
    workload.check(&database, &tables, 1000).unwrap();
    assert!(workload.check(&database, &tables, 900).is_err());
    database
        .transaction(|t| {
            let mut changes = tables[0].changes();
            changes.set(2, "no such text")?;
            t.update(&tables[0], 0_i64, &changes)
        })
        .unwrap();
    let wrong = workload.check(&database, &tables, 1000).unwrap_err();
    assert!(
        matches!(
            wrong,
            CustomError::Wrong {
                key: 0,
                column: 1,
                ..
            }
        ),
        "{wrong}"
    );
    database
        .transaction(|t| t.delete(&tables[0], 0_i64))
        .unwrap();
    let missing = workload.check(&database, &tables, 1000).unwrap_err();
    assert!(matches!(missing, CustomError::Rows { .. }), "{missing}");
}

/// The comparable part of two traces that name the same keys differently: actions, ends, and which
/// keys are equal.
fn shape(trace: &Trace) -> Vec<(TraceAction, bool, usize)> {
    let mut names = HashMap::new();
    let mut name = |key| {
        let next = names.len();
        *names.entry(key).or_insert(next)
    };
    trace
        .operations
        .iter()
        .map(|o| (o.action, o.ends_transaction, name((o.table, o.key))))
        .collect()
}

#[test]
fn a_replay_does_what_its_trace_did() {
    let place = TestDirectory::new("replay");
    let mut options = options();
    // Scans visit fewer rows at the end of the table, and where that is depends on the keys.
    options.mix = "read=50,update=30,insert=20".parse().unwrap();
    let workload = Custom::generate(&options).unwrap();
    let first = run(&workload, &place, "first", 3000);
    let replay = Replay::new(first.clone());
    assert_eq!(replay.transactions(), 3000);
    let table = replay.tables()[0];
    assert_eq!((table.columns, table.column_bytes), (3, 40));
    let again = Custom::replay(&replay, replay.rows(), u64::MAX, 9);
    let second = run(&again, &place, "second", 3000);
    assert_eq!(shape(&first), shape(&second));
}

#[test]
fn deletions_and_misses_are_replayed_on_fewer_rows() {
    let place = TestDirectory::new("fewer");
    let database = place.database("db");
    let workload = Custom::generate(&options()).unwrap();
    let tables = workload.load(&database).unwrap();
    let path = place.0.join("trace");
    database.start_trace(&path).unwrap();
    for row in 0..1000_i64 {
        database
            .transaction(|t| {
                let key = row * GAP;
                t.get(&tables[0], key)?;
                t.get(&tables[0], key + 1)?;
                t.delete(&tables[0], key)?;
                t.get(&tables[0], key)
            })
            .unwrap();
    }
    database.finish_trace().unwrap();
    let replay = Replay::new(Trace::read(&path, usize::MAX).unwrap());
    assert_eq!(replay.rows(), 1000);
    for rows in [1000, 250] {
        let workload = Custom::replay(&replay, rows, u64::MAX, 1);
        assert_eq!(workload.rows(), rows);
        let trace = run(&workload, &place, &format!("replay{rows}"), 1000);
        let deletions = trace
            .operations
            .iter()
            .filter(|o| o.action == TraceAction::Delete);
        assert_eq!(deletions.count() as u64, rows);
        assert_eq!(trace.operations.len(), 4000);
    }
    assert_eq!(Custom::replay(&replay, 1000, 10, 1).transactions(), 10);
}

#[test]
fn what_cannot_be_used_is_named() {
    let cases: [(CustomOptions, &str); 5] = [
        (
            CustomOptions {
                rows: 99,
                ..options()
            },
            "--rows",
        ),
        (
            CustomOptions {
                columns: 0,
                ..options()
            },
            "--columns",
        ),
        (
            CustomOptions {
                column_bytes: 0,
                ..options()
            },
            "--column-bytes",
        ),
        (
            CustomOptions {
                update_columns: 4,
                ..options()
            },
            "--update-columns",
        ),
        (
            CustomOptions {
                transactions: 0,
                ..options()
            },
            "--transactions",
        ),
    ];
    for (options, name) in cases {
        let error = Custom::generate(&options).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
    for text in ["read", "read=x", "delete=5", "read=0,update=0", ""] {
        assert!(text.parse::<CustomMix>().is_err(), "{text}");
    }
    for text in ["90", "0/10", "101/5", "a/b", ""] {
        assert!(text.parse::<CustomSkew>().is_err(), "{text}");
    }
    for text in ["balanced", "read=7,scan=3"] {
        assert_eq!(text.parse::<CustomMix>().unwrap().to_string(), text);
    }
    for text in ["low", "uniform", "80/20"] {
        assert_eq!(text.parse::<CustomSkew>().unwrap().to_string(), text);
    }
}
