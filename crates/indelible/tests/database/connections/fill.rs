//! Bulk loads past the write set.
//!
//! Goal: rows of a load are there for their transaction at once and take none of its memory; a load
//! that fails leaves nothing. Method: loads of a table that one connection knows, in a database
//! whose transactions may have a few kilobytes.

use super::{accounts, begun, everywhere_with, pairs, set};
use indelible::{Connection, Durability, Error, Isolation, Result, Row, Table};

const NOW: Durability = Durability::Immediate;

fn rows(table: &Table, ids: std::ops::Range<i64>) -> Vec<Row> {
    let row = |id| {
        let mut row = table.row();
        row.set(0, id).unwrap();
        row.set(1, 100_i64).unwrap();
        row
    };
    ids.map(row).collect()
}

fn fill(connection: &mut Connection, table: &Table, ids: std::ops::Range<i64>) -> Result<()> {
    let filled = connection.fill(table, &rows(table, ids));
    filled.map_err(|(_, error)| error)
}

#[test]
fn rows_go_past_the_write_set() {
    let small = |options: indelible::Options| options.transaction_memory_max(65_536);
    everywhere_with(small, |db| {
        let table = accounts(db);
        let mut one = begun(db, Isolation::RepeatableRead);
        assert_eq!(one.collect(&table, ..).unwrap().len(), 0);
        fill(&mut one, &table, 0..1000).unwrap();
        fill(&mut one, &table, 1000..1500).unwrap();
        assert_eq!(one.collect(&table, ..).unwrap().len(), 1500);
        assert_eq!(db.snapshot_images(), 0);
        // The load that fails leaves no row.
        let refused = one.fill(&table, &rows(&table, 1450..1600));
        assert!(matches!(refused, Err((0, Error::DuplicateKey(_)))));
        let refused = one.fill(&table, &rows(&table, -7..5));
        assert!(matches!(refused, Err((7, Error::DuplicateKey(_)))));
        assert_eq!(one.collect(&table, ..).unwrap().len(), 1500);
        // Everything else that the transaction does finds the rows, and is undone with it.
        set(&mut one, &table, 7, 1).unwrap();
        assert!(one.delete(&table, 8_i64).unwrap());
        let taken = one.insert(&table, (9_i64, 0_i64));
        assert!(matches!(taken, Err(Error::DuplicateKey(_))));
        one.commit(NOW).unwrap();
        one.begin(Isolation::ReadCommitted).unwrap();
        let found = pairs(&one.collect(&table, ..).unwrap());
        assert_eq!(found.len(), 1499);
        assert_eq!(found[7..9], [(7, 1), (9, 100)]);
        one.abort();
    });
}

#[test]
fn a_table_that_has_changed_is_filled_as_usual() {
    everywhere_with(
        |options| options,
        |db| {
            let table = accounts(db);
            let mut one = begun(db, Isolation::ReadCommitted);
            one.insert(&table, (3_i64, 100_i64)).unwrap();
            assert!(matches!(
                fill(&mut one, &table, 0..5),
                Err(Error::DuplicateKey(_))
            ));
            one.abort();
            one.begin(Isolation::ReadCommitted).unwrap();
            assert_eq!(one.collect(&table, ..).unwrap().len(), 0);
            one.abort();
        },
    );
}
