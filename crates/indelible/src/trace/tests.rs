//! Goal: a trace has the operations of committed transactions and nothing else, and no other file
//! passes for one.
//!
//! Method: a database runs a known list while it is recorded; then every byte of the file is
//! changed, and the file is cut at every length, and each of these files must be refused.

use super::*;
use crate::{DataType, Database, Direction, Error, Method, Options};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("indelible-trace-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn trace(&self) -> PathBuf {
        self.0.join("trace")
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A database with a table of a key, a number and a text.
fn database(place: &TestDirectory, options: Options) -> Database {
    let db = Database::create(place.0.join("db"), &options.method(Method::NvmInp)).unwrap();
    db.create_table("secret_name")
        .column("id", DataType::Int64)
        .column("count", DataType::Int64)
        .column("text", DataType::Varchar { max: 100 })
        .index("by_count", ["count"])
        .create()
        .unwrap();
    db
}

/// Runs one transaction of each kind of operation, one that is undone, and an empty one.
fn run(db: &Database) {
    let table = db.table("secret_name").unwrap();
    db.transaction(|t| {
        t.insert(&table, (5_i64, 1_i64, "some secret text"))?;
        t.insert(&table, (7_i64, 2_i64, "ab"))?;
        t.insert(&table, (6_i64, 2_i64, ""))
    })
    .unwrap();
    let undone = db.transaction(|t| {
        t.delete(&table, 5_i64)?;
        Err::<(), _>(Error::rejected("no"))
    });
    assert!(undone.is_err());
    db.transaction(|t| {
        let mut changes = table.changes();
        changes.set(1, 9_i64)?;
        changes.set(2, "abc")?;
        assert!(t.update(&table, 7_i64, &changes)?);
        assert!(!t.update(&table, 8_i64, &changes)?);
        assert!(t.delete(&table, 6_i64)?);
        t.scan(
            &table,
            ..,
            Direction::Forward,
            |_| ControlFlow::Continue(()),
        )
    })
    .unwrap();
    db.transaction(|_| Ok(())).unwrap();
    db.read(|r| {
        r.get_many(&table, &[5_i64, 6], |_, _| ())?;
        r.get(&table, 5_i64)
    })
    .unwrap();
}

fn record(place: &TestDirectory) -> Trace {
    let db = database(place, Options::new());
    db.start_trace(place.trace()).unwrap();
    run(&db);
    let summary = db.finish_trace().unwrap().unwrap();
    let trace = Trace::read(place.trace(), usize::MAX).unwrap();
    assert_eq!(trace.summary, summary);
    assert_eq!(db.finish_trace().unwrap(), None);
    trace
}

#[test]
fn a_trace_says_what_committed_transactions_did() {
    let place = TestDirectory::new("says");
    let trace = record(&place);
    let expected_table = TraceTable {
        columns: 3,
        declared_bytes: 8 + 8 + 64,
        indexes: 1,
    };
    assert_eq!(trace.tables, [expected_table]);
    let actions: Vec<_> = trace.operations.iter().map(|o| o.action).collect();
    let insert = |row_bytes, appends| TraceAction::Insert { row_bytes, appends };
    let get = |row_bytes| TraceAction::Get { row_bytes };
    let expected = [
        insert(32, false),
        insert(18, true),
        insert(16, false),
        TraceAction::Update {
            columns: 2,
            bytes: 11,
        },
        get(None),
        TraceAction::Delete,
        TraceAction::Scan { rows: 2 },
        get(Some(32)),
        get(None),
        get(Some(32)),
    ];
    assert_eq!(actions, expected);
    let ends: Vec<usize> = (0..actions.len())
        .filter(|at| trace.operations[*at].ends_transaction)
        .collect();
    assert_eq!(ends, [2, 6, 9]);
    assert_eq!(trace.summary.transactions, 3);
    // Equal keys are equal, others differ; the scan's key is that of its first row.
    let key = |at: usize| trace.operations[at].key;
    assert_eq!([key(6), key(7), key(9)], [key(0); 3]);
    assert_eq!((key(3), key(5)), (key(1), key(2)));
    assert!(key(0) != key(1) && key(1) != key(2) && key(4) != key(1));
}

#[test]
fn a_trace_has_no_content() {
    let place = TestDirectory::new("content");
    record(&place);
    let bytes = std::fs::read(place.trace()).unwrap();
    for word in ["secret", "text", "count"] {
        let found = bytes.windows(word.len()).any(|at| at == word.as_bytes());
        assert!(!found, "`{word}` is in the trace");
    }
}

#[test]
fn the_first_whole_transactions_are_kept() {
    let place = TestDirectory::new("kept");
    let trace = record(&place);
    for (limit, kept) in [(0, 0), (2, 0), (3, 3), (6, 3), (7, 7), (9, 7), (10, 10)] {
        let part = Trace::read(place.trace(), limit).unwrap();
        assert_eq!(part.operations, trace.operations[..kept], "{limit}");
        assert_eq!(part.summary, trace.summary);
    }
}

#[test]
fn an_option_records_until_the_database_closes() {
    let place = TestDirectory::new("option");
    let db = database(&place, Options::new().record_trace(place.trace()));
    run(&db);
    let again = db
        .start_trace(place.0.join("other"))
        .unwrap_err()
        .to_string();
    assert!(again.contains("already"), "{again}");
    let early = Trace::read(place.trace(), usize::MAX)
        .unwrap_err()
        .to_string();
    assert!(early.contains("recording did not end"), "{early}");
    drop(db);
    let trace = Trace::read(place.trace(), usize::MAX).unwrap();
    assert_eq!(trace.operations.len(), 10);
    let reopened = Options::new().record_trace(place.trace());
    let exists = Database::open_with(place.0.join("db"), &reopened).unwrap_err();
    assert!(exists.to_string().contains("trace"), "{exists}");
}

#[test]
fn long_traces_have_many_blocks() {
    let place = TestDirectory::new("long");
    let db = database(&place, Options::new());
    let table = db.table("secret_name").unwrap();
    db.start_trace(place.trace()).unwrap();
    for id in 0..4000_i64 {
        db.transaction(|t| {
            t.insert(&table, (id, id, ""))?;
            t.get(&table, id).map(drop)
        })
        .unwrap();
    }
    assert_eq!(db.finish_trace().unwrap().unwrap().operations, 8000);
    let trace = Trace::read(place.trace(), usize::MAX).unwrap();
    assert_eq!(trace.summary.transactions, 4000);
    let appending =
        |o: &&TraceOperation| matches!(o.action, TraceAction::Insert { appends, .. } if appends);
    assert_eq!(trace.operations.iter().filter(appending).count(), 3999);
    assert!(std::fs::metadata(place.trace()).unwrap().len() > 65_536);
}

/// The error of a file with these bytes.
fn refused(path: &Path, bytes: &[u8]) -> Error {
    std::fs::write(path, bytes).unwrap();
    Trace::read(path, usize::MAX).expect_err("the file is no whole trace")
}

#[test]
fn no_other_file_passes_for_a_trace() {
    let place = TestDirectory::new("damage");
    record(&place);
    let sound = std::fs::read(place.trace()).unwrap();
    let path = place.0.join("damaged");
    for at in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x41;
        match refused(&path, &bytes) {
            Error::NotATrace => assert!(at < 8, "byte {at}"),
            Error::NewerTrace { .. } => assert!((8..12).contains(&at), "byte {at}"),
            Error::DamagedTrace { .. } => assert!(at >= 8, "byte {at}"),
            other => panic!("byte {at}: {other}"),
        }
    }
    for length in 0..sound.len() {
        match refused(&path, &sound[..length]) {
            Error::NotATrace => assert!(length < 8, "{length} bytes"),
            Error::DamagedTrace { .. } => assert!(length >= 8, "{length} bytes"),
            other => panic!("{length} bytes: {other}"),
        }
    }
    let mut longer = sound.clone();
    longer.push(0);
    assert!(matches!(
        refused(&path, &longer),
        Error::DamagedTrace { .. }
    ));
    assert!(matches!(
        refused(&path, b"PK\x03\x04 and more"),
        Error::NotATrace
    ));
}
