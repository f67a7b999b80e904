//! Bytes to bytes: a key-value table, in the same transactions as any other.
//!
//! Run with `cargo run -p indelible --example key_value`. It works in shared memory where there is
//! some, and cleans up.

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use indelible::{Database, Direction, Options};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

fn main() -> indelible::Result<()> {
    let directory = temporary().join(format!("indelible-kv-{}", std::process::id()));
    let db = Database::create(&directory, &Options::new())?;
    let capitals = db.key_value("capitals")?;
    let visits = db.key_value("visits")?;
    db.transaction(|t| {
        capitals.put(t, b"France", b"Paris")?;
        capitals.put(t, b"Japan", b"Tokyo")?;
        capitals.put(t, b"Peru", b"Lima")?;
        // Both tables change together or not at all.
        visits.put(t, b"Lima", b"1")
    })?;
    let peru = db.read(|r| capitals.read(r, b"Peru"))?;
    println!(
        "Peru: {}",
        String::from_utf8_lossy(&peru.unwrap_or_default())
    );
    db.read(|r| {
        capitals.scan(r, &b"G"[..].., Direction::Forward, |country, city| {
            println!(
                "{}: {}",
                String::from_utf8_lossy(country),
                String::from_utf8_lossy(city)
            );
            ControlFlow::Continue(())
        })
    })?;
    db.transaction(|t| capitals.delete(t, b"Japan"))?;
    drop((capitals, visits, db));
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
