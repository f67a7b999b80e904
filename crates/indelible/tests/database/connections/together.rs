//! Insertion of many rows at once.
//!
//! Goal: rows that are inserted together are what they are one by one, for their transaction, for
//! others that meet them, and after its end. Method: connections that take steps in turn, with
//! waits of length zero; a thread where somebody has to sleep; a map as the model.

use super::{accounts, begun, everywhere, filled, get, pairs, set};
use indelible::{
    Connection, Durability, Error, Found, Isolation, Row, RowLock, StorageError, Table, Wait,
};
use std::collections::BTreeMap;
use std::time::Duration;

const NOW: Durability = Durability::Immediate;

pub(super) fn rows(table: &Table, ids: impl IntoIterator<Item = i64>) -> Vec<Row> {
    let row = |id| {
        let mut row = table.row();
        row.set(0, id).unwrap();
        row.set(1, 100_i64).unwrap();
        row
    };
    ids.into_iter().map(row).collect()
}

fn is_busy(result: &indelible::Result<()>) -> bool {
    matches!(
        result,
        Err(Error::Storage(StorageError::LockTimeout { .. }))
    )
}

#[test]
fn others_wait_for_rows_that_are_listed_and_for_no_others() {
    everywhere(|db| {
        let table = filled(db, 5);
        let mut one = begun(db, Isolation::ReadCommitted);
        for ids in [100..200, 10..100] {
            one.insert_all(&table, &rows(&table, ids.rev())).unwrap();
        }
        assert_eq!(get(&mut one, &table, 10), Some(100));
        let mut two = begun(db, Isolation::ReadCommitted);
        two.set_wait(Wait::Never);
        assert_eq!(get(&mut two, &table, 10), None);
        assert!(is_busy(&two.insert(&table, (10_i64, 0_i64))));
        let mut row = table.row();
        let strengths = [RowLock::KeyShare, RowLock::NoKeyUpdate, RowLock::Update];
        for strength in strengths {
            let found = two.get_locked(&table, 199_i64, strength, Wait::Never, &mut row);
            assert_eq!(found.unwrap(), Found::Busy);
        }
        two.insert(&table, (200_i64, 0_i64)).unwrap();
        assert!(set(&mut two, &table, 4, 1).unwrap());
        // Beside others each row has locks.
        one.insert_all(&table, &rows(&table, 300..400)).unwrap();
        assert!(is_busy(&two.insert(&table, (399_i64, 0_i64))));
        one.insert_all(&table, &rows(&table, (400..420).rev()))
            .unwrap();
        // The transaction changes its own rows, whoever waits for them.
        assert!(set(&mut one, &table, 11, 7).unwrap());
        assert!(one.delete(&table, 12_i64).unwrap());
        one.commit(NOW).unwrap();
        two.statement().unwrap();
        assert_eq!(get(&mut two, &table, 11), Some(7));
        two.insert(&table, (12_i64, 0_i64)).unwrap();
        let there = two.insert(&table, (10_i64, 0_i64));
        assert!(matches!(there, Err(Error::DuplicateKey(_))));
        two.commit(NOW).unwrap();
    });
}

#[test]
fn whoever_waits_goes_on_when_the_transaction_ends() {
    everywhere(|db| {
        let table = filled(db, 0);
        for ends_well in [true, false] {
            let mut one = begun(db, Isolation::ReadCommitted);
            one.insert_all(&table, &rows(&table, 0..50)).unwrap();
            let (other, same) = (db.clone(), table.clone());
            let waiting = std::thread::spawn(move || {
                let mut two = begun(&other, Isolation::ReadCommitted);
                two.set_wait(Wait::Limit(Duration::from_mins(10)));
                let inserted = two.insert(&same, (7_i64, 1_i64));
                two.abort();
                inserted
            });
            while db.lock_waits().is_empty() {
                std::thread::yield_now();
            }
            // The other one has no lock that is in the way.
            assert!(set(&mut one, &table, 7, 9).unwrap());
            if ends_well {
                one.commit(NOW).unwrap();
            } else {
                one.abort();
            }
            let inserted = waiting.join().unwrap();
            assert_eq!(
                matches!(inserted, Err(Error::DuplicateKey(_))),
                ends_well,
                "{inserted:?}"
            );
            one.begin(Isolation::ReadCommitted).unwrap();
            (0..50_i64).for_each(|id| _ = one.delete(&table, id).unwrap());
            one.commit(NOW).unwrap();
        }
    });
}

#[test]
fn the_first_row_that_fails_is_named_and_those_before_it_stay() {
    everywhere(|db| {
        let table = filled(db, 3);
        for isolation in super::LEVELS {
            let mut one = begun(db, isolation);
            let error = one.insert_all(&table, &rows(&table, (-20..5).rev()));
            assert!(
                matches!(error, Err((2, Error::DuplicateKey(_)))),
                "{error:?}"
            );
            let twice = rows(&table, (10..30).chain([15]));
            let error = one.insert_all(&table, &twice);
            assert!(matches!(error, Err((20, Error::DuplicateKey(_)))));
            let mut wrong = rows(&table, 40..60);
            wrong[9] = table.row();
            let error = one.insert_all(&table, &wrong);
            assert!(matches!(error, Err((9, _))), "{error:?}");
            let found = one.collect(&table, ..).unwrap().len();
            assert_eq!(found, 3 + 2 + 20 + 9);
            one.abort();
        }
    });
}

/// Batches, single changes and rollbacks in turns, compared with a map.
#[test]
fn batches_and_single_changes_are_what_a_map_holds() {
    everywhere(|db| {
        let table = accounts(db);
        let mut model: BTreeMap<i64, i64> = BTreeMap::new();
        let mut random = 3_u64;
        let mut next = move |bound: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(9);
            ((random >> 33) % bound).cast_signed()
        };
        let mut one = begun(db, Isolation::ReadCommitted);
        for round in 0..24 {
            let mut own = model.clone();
            let mut mark = None;
            for _ in 0..10 {
                let first = next(400);
                match next(5) {
                    0 | 1 => {
                        let ids = first..first + 1 + next(60);
                        let new: Vec<i64> = ids.filter(|id| !own.contains_key(id)).collect();
                        one.insert_all(&table, &rows(&table, new.iter().copied()))
                            .unwrap();
                        own.extend(new.into_iter().map(|id| (id, 100)));
                    }
                    2 => {
                        let changed = set(&mut one, &table, first, 5).unwrap();
                        assert_eq!(changed, own.contains_key(&first));
                        own.entry(first).and_modify(|amount| *amount = 5);
                    }
                    3 => {
                        let deleted = one.delete(&table, first).unwrap();
                        assert_eq!(deleted, own.remove(&first).is_some());
                    }
                    _ => match mark.take() {
                        None => mark = Some((one.mark().unwrap(), own.clone())),
                        Some((mark, before)) => {
                            one.roll_back_to(mark).unwrap();
                            own = before;
                        }
                    },
                }
                check(&mut one, &table, &own);
            }
            if round % 3 == 2 {
                one.abort();
            } else {
                one.commit(NOW).unwrap();
                model = own;
            }
            one.begin(Isolation::ReadCommitted).unwrap();
            check(&mut one, &table, &model);
        }
    });
}

fn check(connection: &mut Connection, table: &Table, model: &BTreeMap<i64, i64>) {
    connection.statement().unwrap();
    let found = pairs(&connection.collect(table, ..).unwrap());
    let expected: Vec<_> = model.iter().map(|(id, amount)| (*id, *amount)).collect();
    assert_eq!(found, expected);
    let id = model.keys().next_back().copied().unwrap_or(0);
    assert_eq!(get(connection, table, id), model.get(&id).copied());
}
