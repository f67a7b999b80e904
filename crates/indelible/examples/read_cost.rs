//! Cost of a transaction around one point read: many reads in one transaction against one
//! transaction for each read.
//!
//! Run with `cargo run --release -p indelible --example read_cost`. It works in a temporary
//! directory and cleans up.

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use indelible::{DataType, Database, Durability, Method, Options};
use std::time::Instant;

const ROWS: i64 = 1000;
const READS: i64 = 2_000_000;

fn main() -> indelible::Result<()> {
    let shared = std::path::Path::new("/dev/shm");
    let parent = if shared.is_dir() {
        shared.to_owned()
    } else {
        std::env::temp_dir()
    };
    let directory = parent.join(format!("indelible-read-cost-{}", std::process::id()));
    let db = Database::create(&directory, &Options::new().method(Method::NvmInp))?;
    let table = db
        .create_table("numbers")
        .column("id", DataType::Int64)
        .column("value", DataType::Int64)
        .create()?;
    db.transaction(|t| (0..ROWS).try_for_each(|id| t.insert(&table, (id, id))))?;

    let mut row = table.row();
    let start = Instant::now();
    db.transaction(|t| {
        (0..READS).try_for_each(|at| t.get_into(&table, at % ROWS, &mut row).map(|_| ()))
    })?;
    let inside_ns = start.elapsed().as_nanos() as f64 / READS as f64;

    let start = Instant::now();
    for at in 0..READS {
        db.transaction(|t| t.get_into(&table, at % ROWS, &mut row))?;
    }
    let alone_ns = start.elapsed().as_nanos() as f64 / READS as f64;

    let mut worker = db.worker(&[0], Durability::Group)?;
    let start = Instant::now();
    for at in 0..READS {
        worker.transaction(|t| t.get_into(&table, at % ROWS, &mut row))?;
    }
    let worker_ns = start.elapsed().as_nanos() as f64 / READS as f64;
    println!("a read: {inside_ns:.0} ns inside a transaction");
    println!("        {alone_ns:.0} ns in a transaction of its own");
    println!("        {worker_ns:.0} ns in a worker's transaction of its own");
    drop((worker, table));
    drop(db);
    let _ = std::fs::remove_dir_all(&directory);
    Ok(())
}
