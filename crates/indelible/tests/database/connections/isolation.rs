//! Anomalies that each level allows and forbids.
//!
//! Goal: the table of `docs/isolation.md`, with the names of Berenson et al. and Hermitage. Method:
//! two connections take the steps of the anomaly in turn.

use super::{LEVELS, accounts, begun, everywhere, filled, get, pairs, set};
use indelible::{Connection, Direction, Durability, Error, Isolation, Moved, Row, Uniqueness};
use std::collections::BTreeMap;

const NOW: Durability = Durability::Immediate;

fn is_serialization<T: std::fmt::Debug>(result: Result<T, Error>) -> bool {
    match result {
        Err(Error::Serialization { .. }) => true,
        Err(error) => panic!("{error}"),
        Ok(_) => false,
    }
}

#[test]
fn nobody_sees_what_is_not_committed() {
    everywhere(|db| {
        let table = filled(db, 2);
        for level in LEVELS {
            let mut writer = begun(db, level);
            set(&mut writer, &table, 0, 1).unwrap();
            writer.insert(&table, (7_i64, 7_i64)).unwrap();
            let mut reader = begun(db, level);
            assert_eq!(
                pairs(&reader.collect(&table, ..).unwrap()),
                [(0, 100), (1, 100)]
            );
            assert_eq!(get(&mut writer, &table, 0), Some(1));
            writer.abort();
            assert_eq!(get(&mut reader, &table, 7), None);
            reader.commit(NOW).unwrap();
        }
    });
}

/// Read skew (G-single) and non-repeatable reads: forbidden above read committed.
#[test]
fn a_snapshot_is_one_moment() {
    everywhere(|db| {
        for level in LEVELS {
            let table = filled(db, 2);
            let mut reader = begun(db, level);
            assert_eq!(get(&mut reader, &table, 0), Some(100));
            let mut writer = begun(db, level);
            set(&mut writer, &table, 0, 50).unwrap();
            set(&mut writer, &table, 1, 150).unwrap();
            writer.insert(&table, (2_i64, 1_i64)).unwrap();
            writer.commit(NOW).unwrap();
            reader.statement().unwrap();
            let seen = pairs(&reader.collect(&table, ..).unwrap());
            if level == Isolation::ReadCommitted {
                assert_eq!(seen, [(0, 50), (1, 150), (2, 1)]);
            } else {
                assert_eq!(seen, [(0, 100), (1, 100)]);
                assert_eq!(get(&mut reader, &table, 2), None);
            }
            // One that has only read never fails.
            reader.commit(NOW).unwrap();
            db.drop_table("accounts").unwrap();
        }
    });
}

/// A snapshot that was taken is older than what is committed before the first read.
#[test]
fn a_snapshot_begins_when_it_is_taken() {
    everywhere(|db| {
        for level in LEVELS {
            let table = filled(db, 1);
            let mut early = begun(db, level);
            early.statement().unwrap();
            early.take_snapshot().unwrap();
            let mut late = begun(db, level);
            let mut writer = begun(db, level);
            set(&mut writer, &table, 0, 50).unwrap();
            writer.commit(NOW).unwrap();
            // A second call does not begin another one.
            early.take_snapshot().unwrap();
            assert_eq!(get(&mut early, &table, 0), Some(100));
            assert_eq!(get(&mut late, &table, 0), Some(50));
            early.statement().unwrap();
            early.take_snapshot().unwrap();
            let now = get(&mut early, &table, 0);
            let is_new = level == Isolation::ReadCommitted;
            assert_eq!(now, Some(if is_new { 50 } else { 100 }));
            early.abort();
            assert!(matches!(early.take_snapshot(), Err(Error::NoTransaction)));
            drop((early, late, writer));
            db.drop_table("accounts").unwrap();
        }
    });
}

/// Lost update (P4): the second writer finds the newest row, or fails.
#[test]
fn no_update_is_lost() {
    everywhere(|db| {
        for level in LEVELS {
            let table = filled(db, 2);
            let mut one = begun(db, level);
            let mut two = begun(db, level);
            let before = get(&mut one, &table, 0).unwrap();
            assert_eq!(get(&mut two, &table, 0), Some(before));
            set(&mut two, &table, 0, before + 10).unwrap();
            assert!(
                set(&mut one, &table, 0, before + 1).is_err(),
                "it is locked"
            );
            two.commit(NOW).unwrap();
            let changed = set(&mut one, &table, 0, before + 1);
            if level == Isolation::ReadCommitted {
                assert!(changed.unwrap());
            } else {
                assert!(is_serialization(changed));
            }
            db.drop_table("accounts").unwrap();
        }
    });
}

/// Write skew (G2-item): allowed below serializable only.
#[test]
fn write_skew() {
    everywhere(|db| {
        for level in LEVELS {
            let table = filled(db, 5);
            let mut one = begun(db, level);
            let mut two = begun(db, level);
            for connection in [&mut one, &mut two] {
                assert_eq!(get(connection, &table, 1), Some(100));
                assert_eq!(get(connection, &table, 4), Some(100));
            }
            set(&mut one, &table, 1, 0).unwrap();
            set(&mut two, &table, 4, 0).unwrap();
            one.commit(NOW).unwrap();
            let failed = is_serialization(two.commit(NOW));
            assert_eq!(failed, level == Isolation::Serializable);
            db.drop_table("accounts").unwrap();
        }
    });
}

/// Phantoms (G2): each inserts what the other has looked for, by primary key and by an index.
#[test]
fn phantoms() {
    everywhere(|db| {
        for level in LEVELS {
            for by_index in [false, true] {
                let table = filled(db, 3);
                let by_amount = table.index("by_amount").unwrap();
                let mut one = begun(db, level);
                let mut two = begun(db, level);
                for connection in [&mut one, &mut two] {
                    let seen = if by_index {
                        connection.find(&by_amount, 7_i64).unwrap()
                    } else {
                        connection.collect(&table, 10_i64..20).unwrap()
                    };
                    assert!(seen.is_empty());
                }
                one.insert(&table, (11_i64, 7_i64)).unwrap();
                two.insert(&table, (12_i64, 7_i64)).unwrap();
                one.commit(NOW).unwrap();
                let failed = is_serialization(two.commit(NOW));
                assert_eq!(failed, level == Isolation::Serializable, "{by_index}");
                db.drop_table("accounts").unwrap();
            }
        }
    });
}

/// A deletion of a row that was found, and a change that moves a row out of a range of an index.
#[test]
fn what_was_found_must_stay() {
    everywhere(|db| {
        for deletes in [false, true] {
            let table = filled(db, 3);
            let by_amount = table.index("by_amount").unwrap();
            let mut one = begun(db, Isolation::Serializable);
            assert_eq!(one.find(&by_amount, 100_i64).unwrap().len(), 3);
            one.insert(&table, (10_i64, 3_i64)).unwrap();
            let mut two = begun(db, Isolation::ReadCommitted);
            if deletes {
                two.delete(&table, 2_i64).unwrap();
            } else {
                set(&mut two, &table, 2, 99).unwrap();
            }
            two.commit(NOW).unwrap();
            assert!(is_serialization(one.commit(NOW)));
            db.drop_table("accounts").unwrap();
        }
    });
}

/// Changes of others elsewhere are no reason to fail.
#[test]
fn unrelated_changes_do_not_fail_a_serializable_transaction() {
    everywhere(|db| {
        let table = filled(db, 30);
        let mut one = begun(db, Isolation::Serializable);
        assert_eq!(one.collect(&table, 0_i64..10).unwrap().len(), 10);
        assert_eq!(get(&mut one, &table, 25), Some(100));
        set(&mut one, &table, 25, 1).unwrap();
        let mut two = begun(db, Isolation::Serializable);
        set(&mut two, &table, 12, 1).unwrap();
        two.insert(&table, (40_i64, 1_i64)).unwrap();
        two.commit(NOW).unwrap();
        one.commit(NOW).unwrap();
    });
}

/// The read-only anomaly of Fekete et al.: a reader's moment decides the order of two writers.
#[test]
fn the_read_only_anomaly_is_prevented() {
    everywhere(|db| {
        let table = accounts(db);
        db.transaction(|t| {
            t.insert(&table, (0_i64, 0_i64))?;
            t.insert(&table, (1_i64, 0_i64))
        })
        .unwrap();
        let mut withdrawal = begun(db, Isolation::Serializable);
        assert_eq!(get(&mut withdrawal, &table, 0), Some(0));
        assert_eq!(get(&mut withdrawal, &table, 1), Some(0));
        let mut deposit = begun(db, Isolation::Serializable);
        set(&mut deposit, &table, 1, 20).unwrap();
        deposit.commit(NOW).unwrap();
        let mut report = begun(db, Isolation::Serializable);
        assert_eq!(
            pairs(&report.collect(&table, ..).unwrap()),
            [(0, 0), (1, 20)]
        );
        report.commit(NOW).unwrap();
        set(&mut withdrawal, &table, 0, -11).unwrap();
        assert!(is_serialization(withdrawal.commit(NOW)));
    });
}

#[test]
fn a_scan_sees_its_own_moment_in_every_batch() {
    everywhere(|db| {
        let table = filled(db, 900);
        let mut changes = table.changes();
        changes.set(1, 5_i64).unwrap();
        for level in LEVELS {
            for direction in [Direction::Forward, Direction::Backward] {
                let mut one = begun(db, level);
                let by_amount = table.index("by_amount").unwrap();
                let mut scan = one.scan_index(&by_amount, .., direction).unwrap();
                let (mut rows, mut seen) = (Vec::new(), Vec::<Row>::new());
                let mut at = 0;
                while scan.next_batch(&mut one, &mut rows).unwrap() {
                    assert!(rows.len() <= 256);
                    seen.append(&mut rows);
                    // Its own changes move rows along the index that it scans, and so do others'.
                    set(&mut one, &table, at, 1_000 + at).unwrap();
                    let mut two = begun(db, level);
                    set(&mut two, &table, 899 - at, 1_000 + at).unwrap();
                    two.delete(&table, 500 + at).unwrap();
                    two.insert(&table, (1_000 + at, 100_i64)).unwrap();
                    two.commit(NOW).unwrap();
                    at += 1;
                }
                let mut ids: Vec<i64> = pairs(&seen).iter().map(|pair| pair.0).collect();
                assert!(pairs(&seen).iter().all(|pair| pair.1 == 100));
                if direction == Direction::Backward {
                    ids.reverse();
                }
                assert_eq!(ids, (0..900).collect::<Vec<i64>>(), "{level:?}");
                one.abort();
                let mut repair = begun(db, Isolation::ReadCommitted);
                for back in 0..at {
                    set(&mut repair, &table, 899 - back, 100).unwrap();
                    repair.insert(&table, (500 + back, 100_i64)).unwrap();
                    repair.delete(&table, 1_000 + back).unwrap();
                }
                repair.commit(NOW).unwrap();
            }
        }
    });
}

/// Reads of a statement that is opened again and again, as subqueries are.
#[test]
fn a_scan_sees_no_own_change_that_came_after_its_mark() {
    everywhere(|db| {
        let table = filled(db, 3);
        let by_amount = table.index("by_amount").unwrap();
        let mut one = begun(db, Isolation::ReadCommitted);
        set(&mut one, &table, 0, 1).unwrap();
        let mark = one.statement().unwrap();
        assert!(!one.has_changed_since(mark));
        set(&mut one, &table, 0, 2).unwrap();
        one.delete(&table, 1_i64).unwrap();
        one.insert(&table, (7_i64, 100_i64)).unwrap();
        assert!(one.has_changed_since(mark));
        let (mut rows, mut seen) = (Vec::new(), Vec::new());
        let scans = [
            one.scan(&table, .., Direction::Forward).unwrap(),
            one.scan_index(&by_amount, .., Direction::Forward).unwrap(),
        ];
        for scan in scans {
            let mut scan = scan.seeing(mark).unwrap();
            while scan.next_batch(&mut one, &mut rows).unwrap() {
                seen.extend(pairs(&rows));
            }
        }
        assert_eq!(seen, [[(0, 1), (1, 100), (2, 100)]; 2].concat());
        assert_eq!(
            pairs(&one.collect(&table, ..).unwrap()),
            [(0, 2), (2, 100), (7, 100)]
        );
        one.commit(NOW).unwrap();
        one.begin(Isolation::ReadCommitted).unwrap();
        let scan = one.scan(&table, .., Direction::Forward).unwrap();
        assert!(matches!(scan.seeing(mark), Err(Error::NoTransaction)));
        one.abort();
    });
}

/// A key that was free in the snapshot, and has been taken since.
#[test]
fn a_serializable_transaction_meets_no_duplicate_that_it_cannot_see() {
    everywhere(|db| {
        for level in LEVELS {
            let table = filled(db, 1);
            db.create_index(&table, "one_each", ["amount"], Uniqueness::Unique)
                .unwrap();
            // The primary key, and the unique one.
            for row in [(7_i64, 8_i64), (8, 7)] {
                let mut late = begun(db, level);
                assert_eq!(get(&mut late, &table, 7), None);
                let mut first = begun(db, level);
                first.insert(&table, (7_i64, 7_i64)).unwrap();
                first.commit(NOW).unwrap();
                late.statement().unwrap();
                let refused = late.insert(&table, row).unwrap_err();
                let is_serialization = matches!(refused, Error::Serialization { .. });
                assert_eq!(
                    is_serialization,
                    level == Isolation::Serializable,
                    "{refused}"
                );
                late.abort();
                // One that the snapshot shows is a duplicate at every level.
                late.begin(level).unwrap();
                assert_eq!(get(&mut late, &table, 7), Some(7));
                let refused = late.insert(&table, row).unwrap_err();
                assert!(matches!(refused, Error::DuplicateKey { .. }), "{refused}");
                late.delete(&table, 7_i64).unwrap();
                late.commit(NOW).unwrap();
            }
            db.drop_table("accounts").unwrap();
        }
    });
}

/// Many own changes are in the order of the indexes by which they are read, also after a rollback.
#[test]
fn many_own_changes_are_found_by_their_index() {
    everywhere(|db| {
        let table = filled(db, 40);
        let by_amount = table.index("by_amount").unwrap();
        let mut one = begun(db, Isolation::ReadCommitted);
        let mut model: BTreeMap<i64, i64> = (0..40).map(|id| (id, 100)).collect();
        let mut kept = None;
        let mut seed = 7_u64;
        let mut below = |limit: i64| {
            seed = seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            ((seed >> 33) % limit.cast_unsigned()).cast_signed()
        };
        for step in 0..600 {
            let (id, amount) = (below(60), below(12));
            match below(10) {
                0 => {
                    one.delete(&table, id).unwrap();
                    model.remove(&id);
                }
                1 if kept.is_none() || below(2) == 0 => {
                    kept = Some((one.statement().unwrap(), model.clone()));
                }
                1 => {
                    let (mark, before) = kept.take().unwrap();
                    one.roll_back_to(mark).unwrap();
                    model = before;
                }
                _ if model.contains_key(&id) => {
                    set(&mut one, &table, id, amount).unwrap();
                    model.insert(id, amount);
                }
                _ => {
                    one.insert(&table, (id, amount)).unwrap();
                    model.insert(id, amount);
                }
            }
            if step % 3 > 0 {
                continue;
            }
            let low = below(12);
            let mut expected: Vec<(i64, i64)> = model.iter().map(|(id, at)| (*at, *id)).collect();
            expected.retain(|(amount, _)| (low..=low + 2).contains(amount));
            expected.sort_unstable();
            let direction = Direction::Forward;
            let mut scan = one
                .scan_index(&by_amount, low..=low + 2, direction)
                .unwrap();
            let (mut rows, mut found) = (Vec::new(), Vec::new());
            while scan.next_batch(&mut one, &mut rows).unwrap() {
                found.extend(pairs(&rows).into_iter().map(|(id, amount)| (amount, id)));
                rows.clear();
                // The scan does not see what comes after its beginning.
                set(&mut one, &table, 59, below(12)).unwrap();
            }
            found.sort_unstable();
            assert_eq!(found, expected, "step {step}");
            if let Some(amount) = model.get(&59) {
                set(&mut one, &table, 59, *amount).unwrap();
            }
        }
        one.abort();
    });
}

/// Those who have a row in their snapshot learn where it went.
#[test]
fn moves_of_rows_are_told() {
    everywhere(|db| {
        let table = filled(db, 5);
        let mut one = begun(db, Isolation::ReadCommitted);
        one.statement().unwrap();
        assert_eq!(get(&mut one, &table, 0), Some(100));
        let mut two = begun(db, Isolation::ReadCommitted);
        let mut key = table.changes();
        key.set(0, 9_i64).unwrap();
        set(&mut two, &table, 1, 5).unwrap();
        two.update(&table, 1_i64, &key).unwrap();
        two.delete_to_move(&table, 2_i64).unwrap();
        two.delete(&table, 3_i64).unwrap();
        let mark = two.statement().unwrap();
        two.delete_to_move(&table, 4_i64).unwrap();
        two.roll_back_to(mark).unwrap();
        let moved = |one: &mut Connection, id: i64| one.moved(&table, id).unwrap();
        assert_eq!(moved(&mut one, 1), None, "it has not committed");
        two.commit(Durability::Immediate).unwrap();
        let mut row = table.row();
        row.set(0, 9_i64).unwrap();
        row.set(1, 5_i64).unwrap();
        assert_eq!(moved(&mut one, 1), Some(Moved::Within(row)));
        assert_eq!(moved(&mut one, 2), Some(Moved::Elsewhere));
        assert_eq!(moved(&mut one, 3), None);
        assert_eq!(moved(&mut one, 4), None);
        one.statement().unwrap();
        assert_eq!(get(&mut one, &table, 1), None);
        assert_eq!(moved(&mut one, 1), None, "the new moment is after the move");
    });
}
