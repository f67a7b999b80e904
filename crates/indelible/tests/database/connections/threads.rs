//! Connections, closures and readers in threads, with sums that must hold.
//!
//! Money moves between accounts. Whoever reads all of it in one snapshot finds the same sum, by
//! either index; transfers that run at once lose nothing; a rule that only serializable
//! transactions keep (no two of three neighbours are empty) is kept by them.

use super::{Directory, LEVELS, amount, database, filled, methods, set};
use indelible::{Connection, Database, Durability, Error, Isolation, Result, Table};
use std::sync::atomic::{AtomicBool, Ordering};

const ACCOUNTS: i64 = 12;
const ROUNDS: i64 = 60;

/// A small number that differs by thread and round.
fn pick(thread: i64, round: i64, limit: i64) -> i64 {
    ((thread * 7_919 + round * 104_729) >> 3).rem_euclid(limit)
}

fn transfer(connection: &mut Connection, table: &Table, from: i64, to: i64) -> Result<()> {
    for (id, more) in [(from, -1), (to, 1)] {
        let mut row = table.row();
        let wait = indelible::Wait::Limit(std::time::Duration::from_mins(1));
        connection.get_locked(table, id, indelible::RowLock::NoKeyUpdate, wait, &mut row)?;
        set(connection, table, id, amount(&row) + more)?;
    }
    Ok(())
}

fn closure(db: &Database, table: &Table, from: i64, to: i64) -> Result<()> {
    db.transaction(|t| {
        for (id, more) in [(from, -1), (to, 1)] {
            let row = t.get_for_update(table, id)?.unwrap();
            let mut changes = table.changes();
            changes.set(1, amount(&row) + more)?;
            t.update(table, id, &changes)?;
        }
        Ok(())
    })
}

fn sum(connection: &mut Connection, table: &Table, by_index: bool) -> Result<i64> {
    let mut sum = 0;
    let mut scan = if by_index {
        let index = table.index("by_amount")?;
        connection.scan_index(&index, .., indelible::Direction::Backward)?
    } else {
        connection.scan(table, .., indelible::Direction::Forward)?
    };
    let mut rows = Vec::new();
    while scan.next_batch(connection, &mut rows)? {
        sum += rows.iter().map(amount).sum::<i64>();
    }
    Ok(sum)
}

#[test]
fn every_snapshot_has_the_whole_sum() {
    for method in methods() {
        for partitions in [1, 3] {
            let directory = Directory::new();
            let db = database(&directory, method, partitions, |options| options);
            let table = filled(&db, ACCOUNTS);
            let is_over = AtomicBool::new(false);
            std::thread::scope(|threads| {
                let (db, table, is_over) = (&db, &table, &is_over);
                let movers: Vec<_> = (0..4_i64)
                    .map(|thread| {
                        threads.spawn(move || {
                            let mut connection = db.connect().unwrap();
                            for round in 0..ROUNDS {
                                let from = pick(thread, round, ACCOUNTS);
                                let to =
                                    (from + 1 + pick(thread, round + 1, ACCOUNTS - 1)) % ACCOUNTS;
                                if thread == 0 {
                                    closure(db, table, from, to).unwrap();
                                    continue;
                                }
                                let level = LEVELS[round.unsigned_abs() as usize % 3];
                                connection
                                    .run(level, |one| transfer(one, table, from, to))
                                    .unwrap();
                            }
                        })
                    })
                    .collect();
                let readers: Vec<_> = (0..2)
                    .map(|reader| {
                        threads.spawn(move || {
                            let mut connection = db.connect().unwrap();
                            let mut reads = 0;
                            while !is_over.load(Ordering::Relaxed) || reads < 10 {
                                let level = LEVELS[reads % 3];
                                connection.begin(level).unwrap();
                                for by_index in [reader == 0, reader != 0] {
                                    connection.statement().unwrap();
                                    assert_eq!(
                                        sum(&mut connection, table, by_index).unwrap(),
                                        ACCOUNTS * 100,
                                        "{method} {level:?}"
                                    );
                                }
                                connection.commit(Durability::None).unwrap();
                                reads += 1;
                            }
                        })
                    })
                    .collect();
                for thread in movers {
                    thread.join().unwrap();
                }
                is_over.store(true, Ordering::Relaxed);
                for thread in readers {
                    thread.join().unwrap();
                }
            });
            let rows = db.read(|r| r.collect(&table, ..)).unwrap();
            assert_eq!(rows.iter().map(amount).sum::<i64>(), ACCOUNTS * 100);
            assert!(db.verify().unwrap().damage.is_empty());
        }
    }
}

#[test]
fn a_rule_over_several_rows_holds() {
    for method in methods() {
        let directory = Directory::new();
        let db = database(&directory, method, 2, |options| options);
        let table = filled(&db, ACCOUNTS);
        std::thread::scope(|threads| {
            for thread in 0..4_i64 {
                let (db, table) = (&db, &table);
                threads.spawn(move || {
                    let mut connection = db.connect().unwrap();
                    for round in 0..ROUNDS {
                        let first = pick(thread, round, ACCOUNTS / 3) * 3;
                        let at = first + pick(thread + 1, round, 3);
                        let emptied = connection.run(Isolation::Serializable, |one| {
                            let rows = one.collect(table, first..first + 3)?;
                            let empty = rows.iter().filter(|row| amount(row) == 0).count();
                            assert!(empty <= 1, "{method}: {empty} of three are empty");
                            let is_empty = amount(&rows[(at - first).unsigned_abs() as usize]) == 0;
                            std::thread::yield_now();
                            if is_empty {
                                set(one, table, at, 100)?;
                            } else if empty == 0 {
                                set(one, table, at, 0)?;
                            }
                            Ok(())
                        });
                        match emptied {
                            Err(error) if error.should_retry() => {}
                            emptied => emptied.unwrap(),
                        }
                    }
                });
            }
        });
    }
}

/// One idle connection that has written stops nobody but those who want its row.
#[test]
fn an_idle_transaction_stops_nobody() {
    for method in methods() {
        let directory = Directory::new();
        let db = database(&directory, method, 1, |options| options);
        let table = filled(&db, ACCOUNTS);
        let mut idle = db.connect().unwrap();
        idle.begin(Isolation::Serializable).unwrap();
        set(&mut idle, &table, 0, 5).unwrap();
        std::thread::scope(|threads| {
            for thread in 1..8_i64 {
                let (db, table) = (&db, &table);
                threads.spawn(move || {
                    let mut connection = db.connect().unwrap();
                    connection.set_wait(indelible::Wait::Never);
                    for round in 0..20 {
                        connection.begin(Isolation::RepeatableRead).unwrap();
                        let read = connection.get(table, 0_i64).unwrap().unwrap();
                        assert_eq!(amount(&read), 100);
                        set(&mut connection, table, thread, round).unwrap();
                        connection.commit(Durability::Immediate).unwrap();
                    }
                });
            }
        });
        idle.commit(Durability::Immediate).unwrap();
        let read = db.read(|r| r.get(&table, 0_i64)).unwrap().unwrap();
        assert_eq!(amount(&read), 5);
    }
}

#[test]
fn unique_keys_are_unique_under_contention() {
    for method in methods() {
        let directory = Directory::new();
        let db = database(&directory, method, 2, |options| options);
        let table = filled(&db, 0);
        db.create_index(
            &table,
            "unique_amount",
            ["amount"],
            indelible::Uniqueness::Unique,
        )
        .unwrap();
        let taken: i64 = std::thread::scope(|threads| {
            let threads: Vec<_> = (0..4_i64)
                .map(|thread| {
                    let (db, table) = (&db, &table);
                    threads.spawn(move || {
                        let mut connection = db.connect().unwrap();
                        let mut taken = 0;
                        for code in 0..ROUNDS / 2 {
                            let id = thread * 1_000 + code;
                            let inserted = connection
                                .run(LEVELS[thread.unsigned_abs() as usize % 3], |one| {
                                    one.insert(table, (id, code))
                                });
                            match inserted {
                                Ok(()) => taken += 1,
                                Err(Error::DuplicateKey { .. }) => {}
                                Err(error) => panic!("{method}: {error}"),
                            }
                        }
                        taken
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert_eq!(taken, ROUNDS / 2, "{method}");
        assert_eq!(
            db.read(|r| r.count(&table, ..)).unwrap(),
            (ROUNDS / 2).cast_unsigned()
        );
    }
}
