//! Goal: a transaction of any length keeps little memory a row, and its limit is an error that
//! names it instead of the end of the process.
//!
//! Method: on each method, one transaction inserts, updates or deletes rows until the limit stops
//! it, and commits or is rolled back. A row may take as much as `docs/methods.md` says, so at least
//! that many rows must fit into the limit; the refused statement has left nothing.

use indelible::{DataType, Database, Error, Method, Options, Table, Transaction};
use std::path::{Path, PathBuf};

const LIMIT: u64 = 4 << 20;
/// Most bytes of memory a row, in any method.
const ROW_BYTES_MAX: u64 = 1 << 10;
const ROWS: i64 = 6_000;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let shared = Path::new("/dev/shm");
        let parent = if shared.is_dir() {
            shared.to_owned()
        } else {
            std::env::temp_dir()
        };
        let name = format!("indelible-memory-{}-{name}", std::process::id());
        Self(parent.join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Files that cannot be removed stay; a test must not fail for that.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn database(path: &Path, method: Method) -> (Database, Table) {
    let options = Options::new().method(method).transaction_memory_max(LIMIT);
    let db = Database::create(path, &options).unwrap();
    let table = db
        .create_table("rows")
        .column("id", DataType::Int64)
        .column("name", DataType::Varchar { max: 40 })
        .column("number", DataType::Int64)
        .create()
        .unwrap();
    for batch in 0..ROWS / 1000 {
        db.transaction(|t| {
            (batch * 1000..(batch + 1) * 1000)
                .try_for_each(|id| t.insert(&table, (id, "a small row", id)))
        })
        .unwrap();
    }
    (db, table)
}

type Change = fn(&mut Transaction<'_>, &Table, i64) -> indelible::Result<()>;

const CHANGES: [(&str, Change); 3] = [
    ("insert", |t, table, id| {
        t.insert(table, (ROWS + id, "a small row", id))
    }),
    ("update", |t, table, id| {
        let mut changes = table.changes();
        changes.set(2, id + 1)?;
        t.update(table, id % ROWS, &changes).map(drop)
    }),
    ("delete", |t, table, id| {
        t.delete(table, id % ROWS).map(drop)
    }),
];

/// Changes one row after the other; returns the number changed before the limit, or of all.
fn change_all(t: &mut Transaction<'_>, table: &Table, change: Change, case: &str) -> i64 {
    for id in 0..ROWS {
        match change(t, table, id) {
            Ok(()) => {}
            Err(Error::TransactionMemory {
                used_bytes,
                limit_bytes,
            }) => {
                assert!(used_bytes > limit_bytes, "{case}");
                assert_eq!(limit_bytes, LIMIT, "{case}");
                return id;
            }
            Err(error) => panic!("{case}: {error}"),
        }
    }
    ROWS
}

#[test]
fn a_row_of_a_long_transaction_takes_little_memory_and_the_limit_is_an_error() {
    let least = (LIMIT / ROW_BYTES_MAX).cast_signed();
    for method in Method::ALL {
        for (name, change) in CHANGES {
            let case = format!("{method}, {name}");
            let scratch = Scratch::new(&format!("{method}-{name}"));
            let (db, table) = database(&scratch.0, method);
            let count = || db.read(|r| r.count(&table, ..)).unwrap().cast_signed();
            let undone = db.transaction(|t| {
                let changed = change_all(t, &table, change, &case);
                assert!(changed >= least, "{case}: {changed} rows of {least}");
                Err::<(), _>(Error::rejected("only a trial"))
            });
            assert!(matches!(undone, Err(Error::Rejected(_))), "{case}");
            assert_eq!(count(), ROWS, "{case}");
            // Neither undone nor committed changes count towards the limit of the next transaction.
            for id in ROWS..ROWS + 2 {
                db.transaction(|t| change(t, &table, id)).unwrap();
            }
            let before = count();
            let changed = db
                .transaction(|t| Ok(change_all(t, &table, change, &case)))
                .unwrap();
            assert!(changed >= least, "{case}: {changed} rows of {least}");
            let after = count();
            match name {
                "insert" => assert_eq!(after, before + changed, "{case}"),
                "update" => assert_eq!(after, before, "{case}"),
                _ => assert!(after < before, "{case}"),
            }
            assert_eq!(db.verify().unwrap().damage, Vec::<String>::new(), "{case}");
        }
    }
}

/// A transaction of many times its log needs the longest blocks that the heap has. Longer ones were
/// asked for, and the commit failed.
#[test]
fn a_group_of_many_times_its_log_commits() {
    for method in [Method::Nvwal, Method::SlotHeaderJournal] {
        let scratch = Scratch::new(&format!("long-{method}"));
        let options = Options::new().method(method).ring_bytes(1 << 20);
        let db = Database::create(&scratch.0, &options).unwrap();
        let table = db
            .create_table("rows")
            .column("id", DataType::Int64)
            .column("text", DataType::Char { length: 1000 })
            .create()
            .unwrap();
        let text: String = ('a'..='z').cycle().take(1000).collect();
        db.transaction(|t| {
            (0..45_000_i64).try_for_each(|id| t.insert(&table, (id, text.as_str())))
        })
        .unwrap();
        db.close().unwrap();
        let db = Database::open(&scratch.0).unwrap();
        let table = db.table("rows").unwrap();
        assert_eq!(
            db.read(|r| r.count(&table, ..)).unwrap(),
            45_000,
            "{method}"
        );
    }
}
