//! Closures in several sessions of a partition: the promises that each isolation keeps.
//!
//! Method: two threads that want the same rows, as often as they meet in a short time; whoever
//! comes first, the rows that are there afterwards are those of a serial order.

use crate::behaviour::ids;
use crate::common::{Directory, small_options};
use indelible::{DataType, Database, Durability, Error, Isolation, Method, TransactionOptions};

/// Runs a test on methods whose partitions have several sessions.
fn with_sessions(test: impl Fn(&Database)) {
    for method in [Method::FullPageWrites, Method::NvLogging] {
        let directory = Directory::new();
        let options = small_options(method).partitions(2).sessions(2);
        let db = Database::create(directory.path(), &options).unwrap();
        test(&db);
        let report = db.verify().unwrap();
        assert!(report.damage.is_empty(), "{method}: {:?}", report.damage);
    }
}

fn at(isolation: Isolation) -> TransactionOptions {
    let options = TransactionOptions::new().isolation(isolation);
    options.durability(Durability::None)
}

const LEVELS: [Isolation; 3] = [
    Isolation::ReadCommitted,
    Isolation::RepeatableRead,
    Isolation::Serializable,
];

/// Whatever the isolation, and whoever comes first: the rows with one key lie in different
/// partitions.
#[test]
fn a_unique_index_holds_between_threads_at_every_isolation() {
    const KEYS: i64 = 1500;
    with_sessions(|db| {
        let table = db
            .create_table("users")
            .column("id", DataType::Int64)
            .column("mail", DataType::Int64)
            .unique_index("by_mail", ["mail"])
            .create()
            .unwrap();
        let start = std::sync::Barrier::new(2);
        std::thread::scope(|threads| {
            for thread in 0..2_i64 {
                let (table, start) = (&table, &start);
                threads.spawn(move || {
                    for (key, isolation) in (0..KEYS).zip(LEVELS.into_iter().cycle()) {
                        let options = at(isolation);
                        let row = (2 * key + thread, key);
                        start.wait();
                        let added = db.transaction_with(&options, |t| t.insert(table, row));
                        let is_known = match &added {
                            Ok(()) | Err(Error::DuplicateKey { .. }) => true,
                            Err(error) => error.should_retry(),
                        };
                        assert!(is_known, "{added:?}");
                    }
                });
            }
        });
        let by_mail = table.index("by_mail").unwrap();
        for key in 0..KEYS {
            let found = db.read(|r| r.find(&by_mail, key)).unwrap();
            assert!(found.len() <= 1, "{:?}", ids(&found));
        }
    });
}

/// A row that another transaction has deleted, or changed, while it was about to be moved.
#[test]
fn a_row_is_moved_as_it_is_then() {
    const ROUNDS: i64 = 3000;
    with_sessions(|db| {
        let table = db
            .create_table("t")
            .column("id", DataType::Int64)
            .column("value", DataType::Int64)
            .create()
            .unwrap();
        let add = |id: i64, more: i64| {
            let mut changes = table.changes();
            let options = at(Isolation::ReadCommitted);
            db.transaction_with(&options, |t| {
                let Some(row) = t.get_for_update(&table, id)? else {
                    return Ok(false);
                };
                changes.set(1, row.get(1).as_i64().unwrap() + more)?;
                t.update(&table, id, &changes)
            })
        };
        let rename = |from: i64, to: i64| {
            let mut changes = table.changes();
            changes.set(0, to).unwrap();
            let options = at(Isolation::ReadCommitted);
            db.transaction_with(&options, |t| t.update(&table, from, &changes))
        };
        db.transaction(|t| t.insert(&table, (0_i64, 0_i64)))
            .unwrap();
        let added = std::thread::scope(|threads| {
            let adding = threads.spawn(|| {
                let mut added = 0;
                for _ in 0..ROUNDS {
                    for id in 0..2 {
                        added += i64::from(add(id, 1).unwrap_or(false));
                    }
                }
                added
            });
            for round in 0..ROUNDS {
                let _ = rename(round % 2, (round + 1) % 2);
            }
            adding.join().unwrap()
        });
        let rows = db.read(|r| r.collect(&table, ..)).unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].get(1).as_i64(), Some(added));
    });
}
