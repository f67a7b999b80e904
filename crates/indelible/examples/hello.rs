//! The first transaction: create a database, a table and a row, and find them again after
//! reopening.
//!
//! Run with `cargo run -p indelible --example hello`. It works in shared memory where there is
//! some, and cleans up.

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use indelible::{DataType, Database, Options};
use std::path::{Path, PathBuf};

fn main() -> indelible::Result<()> {
    let directory = temporary().join(format!("indelible-hello-{}", std::process::id()));
    {
        // On shared memory and persistent memory this chooses `nvm-inp`, on ordinary files `inp`.
        let db = Database::create(&directory, &Options::new())?;
        println!(
            "method {}, committed data survives {}",
            db.method(),
            db.survives()
        );
        let greetings = db
            .create_table("greetings")
            .column("id", DataType::Int64)
            .column("text", DataType::Text)
            .create()?;
        db.transaction(|t| t.insert(&greetings, (1_i64, "Hello, durable world")))?;
    }
    let db = Database::open(&directory)?;
    let greetings = db.table("greetings")?;
    let row = db.read(|r| r.get(&greetings, 1_i64))?;
    println!(
        "{}",
        row.as_ref()
            .and_then(|row| row.get(1).as_str())
            .unwrap_or("nothing there")
    );
    drop((greetings, db));
    let _ = std::fs::remove_dir_all(&directory);
    Ok(())
}

/// Shared memory, where the machine has some.
fn temporary() -> PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() {
        shared.to_owned()
    } else {
        std::env::temp_dir()
    }
}
