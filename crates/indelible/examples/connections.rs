//! Connections: two clients at once, with a rollback of a statement, a conflict, and a retry.
//!
//! `cargo run -p indelible --example connections`

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use indelible::{
    Connection, DataType, Database, Durability, Found, Isolation, Options, Result, RowLock, Table,
    Wait,
};
use std::time::Duration;

const SEATS: i64 = 6;
const GUEST: usize = 1;

/// Reserves the first free seat that nobody else is looking at.
fn reserve(client: &mut Connection, seats: &Table, guest: &str) -> Result<Option<i64>> {
    let mut row = seats.row();
    for seat in 1..=SEATS {
        // Like SELECT … FOR UPDATE SKIP LOCKED: a seat that another client has locked is passed.
        let found = client.get_locked(seats, seat, RowLock::Update, Wait::Never, &mut row)?;
        if found == Found::Yes && row.get(GUEST).is_null() {
            let mut changes = seats.changes();
            changes.set(GUEST, guest)?;
            client.update(seats, seat, &changes)?;
            return Ok(Some(seat));
        }
    }
    Ok(None)
}

fn main() -> Result<()> {
    let directory =
        std::env::temp_dir().join(format!("indelible-connections-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let db = Database::create(&directory, &Options::new())?;
    let seats = db
        .create_table("seats")
        .column("seat", DataType::Int64)
        .nullable_column("guest", DataType::Varchar { max: 40 })
        .primary_key(["seat"])
        .create()?;
    db.transaction(|t| (1..=SEATS).try_for_each(|seat| t.insert(&seats, (seat, None::<&str>))))?;

    let (mut ada, mut bob) = (db.connect()?, db.connect()?);
    ada.begin(Isolation::ReadCommitted)?;
    bob.begin(Isolation::ReadCommitted)?;
    println!("Ada gets seat {:?}", reserve(&mut ada, &seats, "Ada")?);
    println!("Bob gets seat {:?}", reserve(&mut bob, &seats, "Bob")?);

    // A statement that is taken back; the rest of the transaction stays.
    let before_the_second = ada.statement()?;
    println!("Ada gets seat {:?} too", reserve(&mut ada, &seats, "Ada")?);
    ada.roll_back_to(before_the_second)?;

    // A report is one moment, and waits for neither.
    let mut report = db.connect()?;
    report.begin(Isolation::RepeatableRead)?;
    let taken = |connection: &mut Connection| -> Result<usize> {
        let rows = connection.collect(&seats, ..)?;
        Ok(rows.iter().filter(|row| !row.get(GUEST).is_null()).count())
    };
    println!("the report sees {} reservations", taken(&mut report)?);
    let cost = ada.commit(Durability::Immediate)?;
    println!("Ada's commit took {} fences", cost.fences);
    bob.commit(Durability::Immediate)?;
    println!("and still {} reservations", taken(&mut report)?);
    report.commit(Durability::Immediate)?;

    // Serializable transactions may have to run again; `run` does it.
    let free = report.run(Isolation::Serializable, |client| {
        let free = SEATS as usize - taken(client)?;
        client.set_wait(Wait::Limit(Duration::from_secs(1)));
        client.insert(&seats, (SEATS + 1, Some("waiting list")))?;
        Ok(free)
    })?;
    println!("{free} seats are free");
    drop((ada, bob, report, seats));
    db.close()?;
    let _ = std::fs::remove_dir_all(&directory);
    Ok(())
}
