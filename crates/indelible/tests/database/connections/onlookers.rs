//! Goal: an idle writer delays nobody, a long reader costs one image a row, and what connections
//! take together has limits. Method: all connections in one thread, where a wait would be a
//! failure; images are counted after each commit.

use super::*;
use indelible::{Error, RowLock, Wait};

/// The idle connection has all the locks that changes take. The others never wait (`Wait::Never`),
/// and all run in one thread, so a wait for a partition would be a failure too.
#[test]
fn an_idle_writer_delays_nobody_on_other_rows() {
    everywhere(|db| {
        for isolation in LEVELS {
            let table = db.table("accounts").unwrap_or_else(|_| filled(db, 20));
            let mut idle = begun(db, isolation);
            assert_eq!(get(&mut idle, &table, 5), Some(100));
            set(&mut idle, &table, 0, 7).unwrap();
            idle.insert(&table, (1_000_i64, 1_i64)).unwrap();
            idle.delete(&table, 1_i64).unwrap();

            let mut others = [begun(db, isolation), begun(db, isolation)];
            for (other, rows) in others.iter_mut().zip([2..6_i64, 6..10]) {
                for id in rows {
                    set(other, &table, id, 100).unwrap();
                    other.insert(&table, (2_000 + id, 1_i64)).unwrap();
                    other.delete(&table, 2_000 + id).unwrap();
                }
                assert_eq!(get(other, &table, 0), Some(100));
                assert_eq!(get(other, &table, 1_000), None);
                assert_eq!(other.collect(&table, ..).unwrap().len(), 20);
                other.commit(Durability::Immediate).unwrap();
            }
            let mut changes = table.changes();
            changes.set(1, 100_i64).unwrap();
            db.transaction(|t| t.update(&table, 11_i64, &changes))
                .unwrap();
            let seen = db.read(|r| r.get(&table, 1_i64)).unwrap();
            assert_eq!(seen.as_ref().map(amount), Some(100));
            assert!(idle.is_open());
            idle.abort();
        }
    });
}

#[test]
fn a_long_reader_keeps_one_image_a_row() {
    everywhere(|db| {
        let table = filled(db, 20);
        let mut old = begun(db, Isolation::RepeatableRead);
        assert_eq!(pairs(&old.collect(&table, ..).unwrap()).len(), 20);
        churn(db, &table, |images| assert!(images <= 12, "{images}"));
        // Ten rows and the two that came and went, whatever happened to them how often.
        assert_eq!(db.snapshot_images(), 12);

        let mut young = begun(db, Isolation::RepeatableRead);
        let now = pairs(&young.collect(&table, ..).unwrap());
        churn(db, &table, |images| assert!(images <= 24, "{images}"));
        assert_eq!(db.snapshot_images(), 24);
        assert_eq!(pairs(&young.collect(&table, ..).unwrap()), now);
        // The images that only the younger one needs go with it, while the older one lives.
        young.abort();
        assert_eq!(db.snapshot_images(), 12);
        let before: Vec<_> = (0..20).map(|id| (id, 100)).collect();
        assert_eq!(pairs(&old.collect(&table, ..).unwrap()), before);
        old.abort();
        assert_eq!((db.snapshot_images(), db.snapshot_bytes()), (0, 0));
    });
}

/// Changes ten rows, and inserts and deletes two, again and again: in connections and closures.
fn churn(db: &Database, table: &Table, look: impl Fn(u64)) {
    for (round, isolation) in (0..12_i64).zip(LEVELS.into_iter().cycle()) {
        let mut writer = begun(db, isolation);
        for id in 0..10 {
            set(&mut writer, table, id, round).unwrap();
        }
        for id in [500_i64, 501] {
            if !writer.delete(table, id).unwrap() {
                writer.insert(table, (id, round)).unwrap();
            }
        }
        writer.commit(Durability::None).unwrap();
        look(db.snapshot_images());
        let mut changes = table.changes();
        changes.set(1, -round).unwrap();
        db.transaction(|t| t.update(table, 3_i64, &changes))
            .unwrap();
        look(db.snapshot_images());
    }
}

#[test]
fn a_row_that_was_locked_and_read_is_the_newest_after_a_rollback_too() {
    everywhere(|db| {
        let table = filled(db, 4);
        let mut one = begun(db, Isolation::ReadCommitted);
        let mut row = table.row();
        let (strength, wait) = (RowLock::NoKeyUpdate, Wait::Never);
        one.get_locked(&table, 0_i64, strength, wait, &mut row)
            .unwrap();
        let mark = one.statement().unwrap();
        set(&mut one, &table, 0, 1).unwrap();
        one.get_locked(&table, 0_i64, strength, wait, &mut row)
            .unwrap();
        assert_eq!(amount(&row), 1);
        one.roll_back_to(mark).unwrap();
        one.get_locked(&table, 0_i64, strength, wait, &mut row)
            .unwrap();
        assert_eq!(amount(&row), 100);
        // A lock of the key alone lets others change the content.
        one.get_locked(&table, 1_i64, RowLock::KeyShare, wait, &mut row)
            .unwrap();
        let mut other = begun(db, Isolation::ReadCommitted);
        set(&mut other, &table, 1, 5).unwrap();
        other.commit(Durability::None).unwrap();
        one.get_locked(&table, 1_i64, strength, wait, &mut row)
            .unwrap();
        assert_eq!(amount(&row), 5);
        // Rows of an earlier transaction are not those of the next.
        one.abort();
        set_alone(db, &table, 0, 9);
        one.begin(Isolation::ReadCommitted).unwrap();
        one.get_locked(&table, 0_i64, strength, wait, &mut row)
            .unwrap();
        assert_eq!(amount(&row), 9);
    });
}

fn set_alone(db: &Database, table: &Table, id: i64, amount: i64) {
    let mut connection = begun(db, Isolation::ReadCommitted);
    set(&mut connection, table, id, amount).unwrap();
    connection.commit(Durability::None).unwrap();
}

#[test]
fn connections_have_a_limit() {
    let change = |options: Options| options.connections_max(2);
    everywhere_with(change, |db| {
        let one = db.connect().unwrap();
        let _two = db.connect().unwrap();
        let refused = db.connect().unwrap_err();
        assert!(
            matches!(refused, Error::TooManyConnections { connections_max: 2 }),
            "{refused}"
        );
        drop(one);
        db.connect().unwrap();
    });
}

#[test]
fn locks_have_a_limit() {
    let change = |options: Options| options.locks_max(1024);
    everywhere_with(change, |db| {
        let table = filled(db, 2);
        // It keeps the other one from locking the table instead of its rows.
        let mut one = begun(db, Isolation::ReadCommitted);
        set(&mut one, &table, 0, 1).unwrap();
        let mut many = begun(db, Isolation::ReadCommitted);
        let (count, refused) = (10_i64..)
            .find_map(|id| Some((id, many.insert(&table, (id, id)).err()?)))
            .unwrap();
        assert!(
            matches!(refused, Error::TooManyLocks { locks_max: 1024 }),
            "{refused}"
        );
        assert!((900..1100).contains(&count), "one lock a row: {count}");
        // The statement had no effect, and the others stay.
        many.commit(Durability::Immediate).unwrap();
        one.commit(Durability::Immediate).unwrap();
        let rows = db.read(|r| r.count(&table, ..)).unwrap();
        assert_eq!(rows, 2 + count.cast_unsigned() - 10);
        let options = Options::new().locks_max(10);
        assert!(options.check().unwrap_err().to_string().contains("1024"));
    });
}
