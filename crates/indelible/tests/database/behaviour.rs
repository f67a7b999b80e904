//! Promises of transactions, on every method that this build has.
//!
//! Each test runs the same steps on one and on three partitions. With a durable method it reopens
//! the database, so that the test checks the stored data.

use crate::common::{Directory, methods, people, small_options};
use indelible::{
    DataType, Database, Direction, Durability, Error, Method, Mode, Options, Partitioning, Prefix,
    RangeStart, Table, TransactionOptions, Uniqueness, Value,
};
use std::ops::{Bound, ControlFlow};
use std::time::Duration;

/// Runs a test on every method with one and with three partitions.
fn everywhere(test: impl Fn(&Database)) {
    for method in methods() {
        for partitions in [1, 3] {
            let directory = Directory::new();
            let options = small_options(method)
                .partitions(partitions)
                .wait_limit(Duration::from_millis(300));
            let db = Database::create(directory.path(), &options).unwrap();
            test(&db);
            let report = db.verify().unwrap();
            assert!(
                report.damage.is_empty(),
                "{method}, {partitions}: {:?}",
                report.damage
            );
        }
    }
}

fn fill(db: &Database, table: &Table, ids: std::ops::Range<i64>) {
    db.transaction(|t| {
        for id in ids.clone() {
            t.insert(table, (id, format!("name {}", id % 7), Some(id * 10)))?;
        }
        Ok(())
    })
    .unwrap();
}

pub(crate) fn ids(rows: &[indelible::Row]) -> Vec<i64> {
    rows.iter()
        .map(|row| row.get(0).as_i64().unwrap())
        .collect()
}

#[test]
fn rows_are_inserted_read_changed_and_deleted() {
    everywhere(|db| {
        let table = people(db);
        fill(db, &table, 0..50);
        db.transaction(|t| {
            let row = t.get(&table, 7_i64)?.unwrap();
            assert_eq!(row.get(1).as_str(), Some("name 0"));
            let mut changes = table.changes();
            changes.set(2, indelible::ValueRef::Null)?;
            assert!(t.update(&table, 7_i64, &changes)?);
            assert!(!t.update(&table, 700_i64, &changes)?);
            assert!(t.delete(&table, 8_i64)?);
            assert!(!t.delete(&table, 8_i64)?);
            assert!(!t.upsert(&table, (9_i64, "nine", Some(9_i64)))?);
            assert!(t.upsert(&table, (99_i64, "new", None::<i64>))?);
            Ok(())
        })
        .unwrap();
        db.read(|r| {
            assert!(r.get(&table, 7_i64)?.unwrap().get(2).is_null());
            assert!(r.get(&table, 8_i64)?.is_none());
            assert_eq!(r.get(&table, 9_i64)?.unwrap().get(1).as_str(), Some("nine"));
            let mut row = table.row();
            assert!(r.get_into(&table, 99_i64, &mut row)?);
            assert!(!r.get_into(&table, 98_i64, &mut row)?);
            assert_eq!(r.count(&table, ..)?, 50);
            let mut found = [None; 4];
            r.get_many(&table, &[3_i64, 8, 4, 99], |at, row| {
                found[at] = row.and_then(|row| row.get(0).as_i64());
            })?;
            assert_eq!(found, [Some(3), None, Some(4), Some(99)]);
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn scans_go_both_ways_over_all_partitions() {
    everywhere(|db| {
        let table = people(db);
        fill(db, &table, 0..400);
        db.read(|r| {
            assert_eq!(ids(&r.collect(&table, ..)?), (0..400).collect::<Vec<_>>());
            assert_eq!(ids(&r.collect(&table, 10_i64..13)?), [10, 11, 12]);
            assert_eq!(ids(&r.collect(&table, 10_i64..=12)?), [10, 11, 12]);
            assert_eq!(ids(&r.collect(&table, 397_i64..)?), [397, 398, 399]);
            assert_eq!(ids(&r.collect(&table, ..2_i64)?), [0, 1]);
            assert_eq!(ids(&r.collect(&table, Prefix(5_i64))?), [5]);
            assert!(
                r.collect(&table, (Bound::Included(13_i64), Bound::Included(10)))?
                    .is_empty()
            );
            let mut back = Vec::new();
            r.scan(&table, 100_i64..300, Direction::Backward, |row| {
                back.push(row.get(0).as_i64().unwrap());
                if back.len() < 150 {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
            assert_eq!(back, (150..300).rev().collect::<Vec<_>>());
            let by_name = table.index("by_name")?;
            let found = r.find(&by_name, "name 3")?;
            assert_eq!(
                ids(&found),
                (0..400).filter(|id| id % 7 == 3).collect::<Vec<_>>()
            );
            let mut first = None;
            r.scan_index(&by_name, .., Direction::Backward, |row| {
                first = row.get(0).as_i64();
                ControlFlow::Break(())
            })?;
            assert_eq!(first, Some(398));
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn a_failed_closure_leaves_nothing() {
    everywhere(|db| {
        let table = people(db);
        fill(db, &table, 0..10);
        let undone = db.transaction(|t| {
            t.delete(&table, 1_i64)?;
            t.insert(&table, (20_i64, "x", None::<i64>))?;
            t.insert(&table, (21_i64, "x", None::<i64>))?;
            Err::<(), _>(Error::rejected("changed my mind"))
        });
        assert_eq!(undone.unwrap_err().to_string(), "changed my mind");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            db.transaction(|t| {
                t.delete(&table, 2_i64)?;
                t.insert(&table, (22_i64, "x", None::<i64>))?;
                panic!("in the closure");
                #[allow(unreachable_code, reason = "the closure needs a type")]
                Ok(())
            })
        }));
        assert!(panicked.is_err());
        let mut begun = db.begin().unwrap();
        begun.delete(&table, 3_i64).unwrap();
        drop(begun);
        let rows = db.read(|r| r.collect(&table, ..)).unwrap();
        assert_eq!(ids(&rows), (0..10).collect::<Vec<_>>());
    });
}

#[test]
fn a_duplicate_is_refused_and_the_transaction_goes_on() {
    everywhere(|db| {
        let table = people(db);
        fill(db, &table, 0..5);
        db.transaction(|t| {
            let error = t.insert(&table, (3_i64, "again", None::<i64>)).unwrap_err();
            assert!(matches!(error, Error::DuplicateKey { .. }), "{error}");
            assert!(!error.should_retry());
            t.insert(&table, (5_i64, "five", None::<i64>))
        })
        .unwrap();
        assert_eq!(db.read(|r| r.count(&table, ..)).unwrap(), 6);
    });
}

#[test]
fn a_change_of_the_primary_key_moves_the_row() {
    everywhere(|db| {
        let table = people(db);
        fill(db, &table, 0..5);
        let mut changes = table.changes();
        changes.set(0, 11_i64).unwrap();
        assert!(
            db.transaction(|t| t.update(&table, 1_i64, &changes))
                .unwrap()
        );
        changes.set(0, 2_i64).unwrap();
        db.transaction(|t| {
            assert!(matches!(
                t.update(&table, 3_i64, &changes),
                Err(Error::DuplicateKey { .. })
            ));
            Ok(())
        })
        .unwrap();
        let rows = db.read(|r| r.collect(&table, ..)).unwrap();
        assert_eq!(ids(&rows), [0, 2, 3, 4, 11]);
        assert_eq!(rows[4].get(1).as_str(), Some("name 1"));
    });
}

#[test]
fn a_unique_index_holds_over_all_partitions() {
    everywhere(|db| {
        let table = db
            .create_table("users")
            .column("id", DataType::Int64)
            .nullable_column("mail", DataType::Varchar { max: 30 })
            .unique_index("by_mail", ["mail"])
            .create()
            .unwrap();
        db.transaction(|t| {
            t.insert(&table, (1_i64, Some("a@b")))?;
            t.insert(&table, (2_i64, None::<&str>))?;
            t.insert(&table, (3_i64, None::<&str>))
        })
        .unwrap();
        for id in 4..12_i64 {
            let refused = db.transaction(|t| t.insert(&table, (id, Some("a@b"))));
            assert!(matches!(refused, Err(Error::DuplicateKey { .. })));
        }
        let mut changes = table.changes();
        changes.set(1, "a@b").unwrap();
        assert!(
            db.transaction(|t| t.update(&table, 1_i64, &changes))
                .unwrap()
        );
        assert!(
            db.transaction(|t| t.update(&table, 2_i64, &changes))
                .is_err()
        );
        db.drop_index(&table, "by_mail").unwrap();
        db.transaction(|t| t.update(&table, 2_i64, &changes))
            .unwrap();
        let columns = ["mail"];
        let made = db.create_index(&table, "by_mail", columns, Uniqueness::Unique);
        assert!(matches!(made, Err(Error::DuplicateKey { .. })), "{made:?}");
        db.create_index(&table, "by_mail", columns, Uniqueness::Repeating)
            .unwrap();
        let by_mail = table.index("by_mail").unwrap();
        assert_eq!(ids(&db.read(|r| r.find(&by_mail, "a@b")).unwrap()), [1, 2]);
    });
}

#[test]
fn replicated_and_ranged_tables_keep_their_rows_where_they_say() {
    everywhere(|db| {
        let rates = db
            .create_table("rates")
            .column("code", DataType::Char { length: 3 })
            .column("rate", DataType::Int32)
            .partitioning(Partitioning::Replicated)
            .create()
            .unwrap();
        db.transaction(|t| {
            t.insert(&rates, ("EUR", 1))?;
            t.insert(&rates, ("USD", 2))?;
            t.delete(&rates, "EUR")?;
            let mut changes = rates.changes();
            changes.set(1, 3)?;
            t.update(&rates, "USD", &changes)?;
            assert!(t.insert(&rates, ("USD", 2)).is_err());
            Ok(())
        })
        .unwrap();
        assert_eq!(db.read(|r| r.count(&rates, ..)).unwrap(), 1);
        let last = db.partitions() - 1;
        let ranges = Partitioning::Ranges(vec![
            RangeStart {
                from: Value::Int64(0),
                partition: last,
            },
            RangeStart {
                from: Value::Int64(100),
                partition: 0,
            },
        ]);
        let by_range = db
            .create_table("ranged")
            .column("id", DataType::Int64)
            .partitioning(ranges)
            .create()
            .unwrap();
        db.transaction(|t| (95..105).try_for_each(|id: i64| t.insert(&by_range, (id,))))
            .unwrap();
        assert_eq!(by_range.partition_of(99_i64).unwrap(), Some(last));
        assert_eq!(
            ids(&db.read(|r| r.collect(&by_range, ..)).unwrap()),
            (95..105).collect::<Vec<_>>()
        );
    });
}

#[test]
fn a_second_transaction_on_a_thread_is_refused_at_once() {
    everywhere(|db| {
        let table = people(db);
        fill(db, &table, 0..3);
        let open = db.begin().unwrap();
        assert!(matches!(db.begin().err(), Some(Error::TransactionOpen)));
        assert!(matches!(db.read(|_| Ok(())), Err(Error::TransactionOpen)));
        assert!(matches!(db.statistics(), Err(Error::TransactionOpen)));
        assert!(matches!(
            db.drop_table("people"),
            Err(Error::TransactionOpen)
        ));
        drop(open);
        let nested = db.transaction(|_| db.transaction(|_| Ok(())));
        assert!(matches!(nested, Err(Error::TransactionOpen)));
        db.begin().unwrap().commit().unwrap();
    });
}

#[test]
fn names_that_do_not_fit_are_told() {
    everywhere(|db| {
        let table = people(db);
        assert!(matches!(db.table("nobody"), Err(Error::NoSuchTable { .. })));
        assert!(matches!(
            table.index("by_age"),
            Err(Error::NoSuchIndex { .. })
        ));
        assert!(matches!(
            table.column("age"),
            Err(Error::NoSuchColumn { .. })
        ));
        assert!(matches!(
            db.drop_index(&table, "by_age"),
            Err(Error::NoSuchIndex { .. })
        ));
        let again = db
            .create_table("people")
            .column("id", DataType::Int64)
            .create();
        assert!(matches!(again, Err(Error::TableExists { .. })));
        let bad = db
            .create_table("bad")
            .column("id", DataType::Int64)
            .primary_key(["no"])
            .create();
        assert!(matches!(bad, Err(Error::NoSuchColumn { .. })));
        let one_column = db.transaction(|t| t.insert(&table, (1_i64,)));
        assert!(one_column.unwrap_err().to_string().contains("3 columns"));
        assert!(matches!(
            db.read(|r| r.get(&table, "x")),
            Err(Error::Record(_))
        ));
        let other = db
            .create_table("other")
            .column("id", DataType::Int64)
            .create()
            .unwrap();
        let mixed = db.transaction(|t| t.insert(&table, other.row()));
        assert!(mixed.unwrap_err().to_string().contains("other"));
        db.drop_table("people").unwrap();
        let gone = db.read(|r| r.get(&table, 1_i64));
        assert!(matches!(gone, Err(Error::TableDropped { .. })));
        assert!(matches!(db.table("people"), Err(Error::NoSuchTable { .. })));
        people(db);
    });
}

#[test]
fn handles_of_another_database_are_refused() {
    let (one, two) = (Directory::new(), Directory::new());
    let options = Options::new().method(Method::NvmInp);
    let first = Database::create(one.path(), &options).unwrap();
    let second = Database::create(two.path(), &options).unwrap();
    let table = people(&first);
    people(&second);
    assert!(matches!(
        second.read(|r| r.get(&table, 1_i64)),
        Err(Error::ForeignTable { .. })
    ));
    // Transactions on two databases at once are fine.
    first
        .transaction(|_| second.transaction(|_| Ok(())))
        .unwrap();
}

#[test]
fn opposite_orders_of_partitions_do_not_deadlock() {
    everywhere(|db| {
        let table = people(db);
        fill(db, &table, 0..6);
        let rounds = 200;
        std::thread::scope(|threads| {
            for (first, second) in [(0_i64, 2_i64), (2, 0), (1, 2)] {
                let (db, table) = (db.clone(), table.clone());
                threads.spawn(move || {
                    for _ in 0..rounds {
                        db.transaction(|t| {
                            for (id, by) in [(first, -1), (second, 1)] {
                                let row = t.get(&table, id)?.unwrap();
                                let mut changes = table.changes();
                                changes.set(2, row.get(2).as_i64().unwrap() + by)?;
                                t.update(&table, id, &changes)?;
                            }
                            Ok(())
                        })
                        .unwrap();
                    }
                });
            }
        });
        let sum: i64 = db
            .read(|r| r.collect(&table, ..))
            .unwrap()
            .iter()
            .map(|row| row.get(2).as_i64().unwrap())
            .sum();
        assert_eq!(sum, (0..6).map(|id| id * 10).sum());
    });
}

#[test]
fn a_busy_partition_ends_in_a_conflict_that_may_be_retried() {
    everywhere(|db| {
        let table = people(db);
        fill(db, &table, 0..3);
        let mut open = db.begin().unwrap();
        open.get(&table, 0_i64).unwrap();
        std::thread::scope(|threads| {
            let waiting = threads.spawn(|| {
                let options = TransactionOptions::new().wait_limit(Duration::from_millis(20));
                db.transaction_with(&options, |t| t.get(&table, 0_i64))
                    .unwrap_err()
            });
            let error = waiting.join().unwrap();
            assert!(matches!(error, Error::Conflict { partition: 0, .. }) && error.should_retry());
        });
        drop(open);
        let bad = TransactionOptions::new().partitions([99]);
        assert!(
            db.transaction_with(&bad, |_| Ok(()))
                .unwrap_err()
                .to_string()
                .contains("99")
        );
    });
}

#[test]
fn a_worker_owns_its_partitions() {
    everywhere(|db| {
        let table = people(db);
        let last = db.partitions() - 1;
        let mine = i64::from(last);
        let mut worker = db.worker(&[last], Durability::Group).unwrap();
        let mut pending = Vec::new();
        for round in 0..10 {
            let id = mine + round * i64::from(db.partitions());
            let (found, wait) = worker
                .transaction(|t| {
                    t.insert(&table, (id, "w", None::<i64>))?;
                    Ok(t.get(&table, id)?.is_some())
                })
                .unwrap();
            assert!(found);
            pending.extend(wait);
        }
        let failed = worker.transaction(|t| {
            t.delete(&table, mine)?;
            Err::<(), _>(Error::rejected("no"))
        });
        assert!(failed.is_err());
        if db.partitions() > 1 {
            let foreign = worker.transaction(|t| t.get(&table, mine - 1));
            assert!(matches!(foreign, Err(Error::NotOwned { .. })));
            worker.announce(&table, mine - 1).unwrap();
        }
        // Announced rows are there or not; a key of another type is refused as elsewhere.
        for id in [mine, mine + 1_000_000, mine] {
            worker.announce(&table, id).unwrap();
        }
        assert!(worker.announce(&table, "text").is_err());
        let (found, _) = worker.transaction(|t| t.get(&table, mine)).unwrap();
        assert!(found.is_some());
        worker.force().unwrap();
        assert!(pending.iter().all(|pending| worker.is_durable(*pending)));
        assert!(matches!(db.begin().err(), Some(Error::TransactionOpen)));
        worker.close().unwrap();
        assert_eq!(db.read(|r| r.count(&table, ..)).unwrap(), 10);
    });
}

#[test]
fn all_durabilities_commit() {
    everywhere(|db| {
        let table = people(db);
        for (id, durability) in
            (0_i64..).zip([Durability::Immediate, Durability::Group, Durability::None])
        {
            let options = TransactionOptions::new().durability(durability);
            db.transaction_with(&options, |t| t.insert(&table, (id, "x", None::<i64>)))
                .unwrap();
        }
        std::thread::scope(|threads| {
            for thread in 1..4_i64 {
                let (db, table) = (db.clone(), table.clone());
                threads.spawn(move || {
                    let options = TransactionOptions::new().durability(Durability::Group);
                    for id in 0..50 {
                        let id = thread * 1000 + id;
                        let row = (id, "g", None::<i64>);
                        db.transaction_with(&options, |t| t.insert(&table, row))
                            .unwrap();
                    }
                });
            }
        });
        assert_eq!(db.read(|r| r.count(&table, ..)).unwrap(), 153);
    });
}

#[test]
fn key_value_tables_hold_bytes() {
    everywhere(|db| {
        let pairs = db.key_value("pairs").unwrap();
        db.transaction(|t| {
            assert!(pairs.put(t, b"one", b"1")?);
            assert!(!pairs.put(t, b"one", b"uno")?);
            assert!(pairs.put(t, b"two", &[7; 5000])?);
            assert!(pairs.put(t, b"", b"empty")?);
            assert_eq!(pairs.get(t, b"one")?.as_deref(), Some(&b"uno"[..]));
            assert!(pairs.delete(t, b"")?);
            Ok(())
        })
        .unwrap();
        let pairs = db.key_value("pairs").unwrap();
        let mut keys = Vec::new();
        db.read(|r| {
            keys.clear();
            assert_eq!(pairs.read(r, b"two")?.map(|value| value.len()), Some(5000));
            pairs.scan(r, .., Direction::Forward, |key, _| {
                keys.push(key.to_vec());
                ControlFlow::Continue(())
            })
        })
        .unwrap();
        assert_eq!(keys, [b"one".to_vec(), b"two".to_vec()]);
        let long = db.transaction(|t| pairs.put(t, &[1; 65], b"x"));
        assert!(long.unwrap_err().to_string().contains("64"));
        people(db);
        assert!(matches!(
            db.key_value("people"),
            Err(Error::Definition { .. })
        ));
    });
}

#[test]
fn a_read_only_database_refuses_writes() {
    for method in crate::common::durable_methods() {
        if !method.opens_for_reading() {
            continue;
        }
        let directory = Directory::new();
        let db = Database::create(directory.path(), &Options::new().method(method)).unwrap();
        let table = people(&db);
        fill(&db, &table, 0..3);
        drop((table, db));
        let db =
            Database::open_with(directory.path(), &Options::new().mode(Mode::ReadOnly)).unwrap();
        let table = db.table("people").unwrap();
        assert_eq!(db.read(|r| r.count(&table, ..)).unwrap(), 3);
        assert!(matches!(
            db.transaction(|t| t.delete(&table, 1_i64)),
            Err(Error::ReadOnly)
        ));
        assert!(matches!(db.drop_table("people"), Err(Error::ReadOnly)));
    }
}

#[test]
fn threads_force_and_check_beside_each_other() {
    let directory = Directory::new();
    let options = Options::new()
        .method(Method::FullPageWrites)
        .sessions(3)
        .wait_limit(Duration::from_mins(1));
    let db = Database::create(directory.path(), &options).unwrap();
    let table = people(&db);
    std::thread::scope(|threads| {
        for thread in 0..3_i64 {
            let (db, table) = (&db, &table);
            threads.spawn(move || {
                for round in 0..20 {
                    fill(db, table, thread * 1000 + round..thread * 1000 + round + 1);
                    db.force().unwrap();
                    assert!(db.verify().unwrap().damage.is_empty());
                }
            });
        }
    });
}

/// Everything in the table, in the order of its key and of its index.
fn contents(t: &mut indelible::Transaction<'_>, table: &Table) -> (Vec<String>, Vec<i64>) {
    let rows = t.collect(table, ..).unwrap();
    let mut by_name = Vec::new();
    let index = table.index("by_name").unwrap();
    t.scan_index(&index, .., Direction::Forward, |row| {
        by_name.extend(row.get(0).as_i64());
        ControlFlow::Continue(())
    })
    .unwrap();
    let values = |row: &indelible::Row| format!("{:?}", [0, 1, 2].map(|at| row.get(at)));
    (rows.iter().map(values).collect(), by_name)
}

#[test]
fn a_transaction_goes_back_to_its_savepoints_and_on() {
    everywhere(|db| {
        let table = people(db);
        fill(db, &table, 0..20);
        let mut names = 0..;
        // Numbers that are neither random nor in order, the same each time.
        let mut numbers = (1_i64..).map(|number| number * number * 7 % 31);
        let mut change = |t: &mut indelible::Transaction<'_>| -> indelible::Result<()> {
            let (what, id) = (numbers.next().unwrap() % 5, numbers.next().unwrap());
            let name = format!("new {}", names.next().unwrap() % 4);
            let mut changes = table.changes();
            match what {
                0 => drop(t.upsert(&table, (id, name, None::<i64>))?),
                1 => drop(t.delete(&table, id)?),
                // The row moves, unless its new key is taken.
                2 => {
                    changes.set(0, id + 40)?;
                    let moved = t.update(&table, id, &changes);
                    assert!(matches!(moved, Ok(_) | Err(Error::DuplicateKey { .. })));
                }
                _ => {
                    changes.set(1, &*name)?;
                    changes.set(2, id)?;
                    t.update(&table, id, &changes)?;
                }
            }
            Ok(())
        };
        let mut expected = None;
        db.transaction(|t| {
            change(t)?;
            let first = (t.savepoint(), contents(t, &table));
            (0..6).try_for_each(|_| change(t))?;
            let second = (t.savepoint(), contents(t, &table));
            for _ in 0..2 {
                (0..6).try_for_each(|_| change(t))?;
                t.rollback_to(&second.0)?;
                assert_eq!(contents(t, &table), second.1);
            }
            t.rollback_to(&first.0)?;
            assert_eq!(contents(t, &table), first.1);
            let gone = t.rollback_to(&second.0).unwrap_err();
            assert!(matches!(gone, Error::NoSuchSavepoint), "{gone}");
            (0..3).try_for_each(|_| change(t))?;
            expected = Some(contents(t, &table));
            Ok(())
        })
        .unwrap();
        // Changes rolled back to a savepoint are not there, and the next transaction has no
        // savepoints.
        let mut foreign = None;
        let aborted = db.transaction(|t| {
            assert_eq!(Some(contents(t, &table)), expected);
            foreign = Some(t.savepoint());
            change(t)?;
            Err::<(), _>(Error::rejected("enough"))
        });
        assert!(matches!(aborted, Err(Error::Rejected(_))));
        db.transaction(|t| {
            assert_eq!(Some(contents(t, &table)), expected);
            let error = t.rollback_to(foreign.as_ref().unwrap()).unwrap_err();
            assert!(matches!(error, Error::NoSuchSavepoint));
            Ok(())
        })
        .unwrap();
    });
}
