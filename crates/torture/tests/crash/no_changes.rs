//! Transactions whose changes leave every row as it was.
//!
//! Goal: one that was acknowledged as durable keeps what was committed before it, as if it had
//! changed something. Method: a commit that asks for no durability is followed by one that does
//! and that changes nothing; the image with nothing that is undecided must have the first one.

use crate::common::options;
use indelible::{
    Connection, DataType, Database, Durability, Isolation, Method, MethodOption, Options, Table,
};
use pmem::device::simulated::{ImageChoice, SimulatedWorld, WorldOptions};
use torture::SimulatedPlatform;

fn set(connection: &mut Connection, table: &Table, value: i64) -> indelible::Result<bool> {
    let mut changes = table.changes();
    changes.set(1, value)?;
    connection.update(table, 1_i64, &changes)
}

/// Changes that come to nothing.
const NOTHING: [fn(&mut Connection, &Table) -> indelible::Result<bool>; 3] = [
    |connection, table| set(connection, table, 11),
    |connection, table| {
        set(connection, table, 12)?;
        set(connection, table, 11)
    },
    |connection, table| {
        connection.insert(table, (2_i64, 20_i64))?;
        connection.delete(table, 2_i64)
    },
];

fn run(method: Method, options: &Options, nothing: usize) -> indelible::Result<()> {
    let world = SimulatedWorld::new(WorldOptions::default());
    let db = Database::create_on(SimulatedPlatform::new(&world), options)?;
    let table = db
        .create_table("t")
        .column("id", DataType::Int64)
        .column("value", DataType::Int64)
        .create()?;
    db.transaction(|t| t.insert(&table, (1_i64, 10_i64)))?;
    let mut first = db.connect()?;
    first.begin(Isolation::ReadCommitted)?;
    set(&mut first, &table, 11)?;
    first.commit(Durability::None)?;
    let mut second = db.connect()?;
    second.begin(Isolation::ReadCommitted)?;
    assert!(NOTHING[nothing](&mut second, &table)?, "{method}");
    second.commit(Durability::Immediate)?;

    let image = world
        .image(&ImageChoice::default())
        .expect("no process is inside");
    let db = Database::open_on(SimulatedPlatform::new(&image), options)?;
    let table = db.table("t")?;
    let rows = db.read(|reader| reader.collect(&table, ..))?;
    let rows: Vec<_> = rows
        .iter()
        .map(|row| (row.get(0).as_i64(), row.get(1).as_i64()))
        .collect();
    assert_eq!(
        rows,
        [(Some(1), Some(11))],
        "{method}, way {nothing} to change nothing"
    );
    Ok(())
}

#[test]
fn a_commit_without_changes_keeps_those_before_it() {
    for method in Method::distinct().filter(|method| method.is_durable()) {
        for sessions in [1, 2] {
            let options = options(method, 1).fitting(method, [MethodOption::Sessions(sessions)]);
            for nothing in 0..NOTHING.len() {
                run(method, &options, nothing)
                    .unwrap_or_else(|error| panic!("{method}, way {nothing}: {error}"));
            }
        }
    }
}
