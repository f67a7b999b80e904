//! Kills a real process with SIGKILL, and checks its database afterwards.
//!
//! A kill keeps every completed store, so it cannot show a missing flush: the search of `torture`
//! does that. A kill shows that nothing acknowledged depends on the process, that locks and groups
//! of dead processes do no harm, and that recovery works on real files.
//!
//! | file | job |
//! |---|---|
//! | `bookings` | the transactions; proof that acknowledged ones are there, none half there |
//! | `standard` | the same with a small TPC-C, TPC-B or TATP and its consistency conditions |
//! | `victim` | the process that is killed |
//! | `pipe` | its work, and the pipe through which it acknowledges |
//! | `cycles` | many kills of one database |
//! | `power` | the power of a whole file system instead, which shows a missing sync |

pub(crate) mod bookings;
mod cycles;
mod pipe;
mod power;
mod standard;
pub(crate) mod victim;

pub(crate) use cycles::{End, run as run_cycles};
pub(crate) use pipe::Work;
pub(crate) use power::Mount;

use crate::args::{ImportArgs, TextArgs};
use crate::import::{self, Imported};
use crate::scratch::Scratch;
use anyhow::Result;
use indelible::Database;
use pipe::Acknowledged;

/// The data set that ships with the program; its source and licence are in data/README.md.
const AIRPORTS_CSV: &[u8] = include_bytes!("../../data/airports.csv");
/// The table with the airports.
pub(crate) const AIRPORTS: &str = "airports";

/// Imports the airports into a database, by way of a file in a scratch directory.
pub(crate) fn import_airports(database: &Database, scratch: &Scratch) -> Result<Imported> {
    let file = scratch.path().join("airports.csv");
    std::fs::write(&file, AIRPORTS_CSV)?;
    let args = ImportArgs {
        path: scratch.path().to_owned(),
        table: Some(AIRPORTS.into()),
        file: Some(file),
        from: Vec::new(),
        tables: Vec::new(),
        primary_key: vec!["iata".into()],
        types: None,
        skip_bad_rows: false,
        rejects: None,
        transaction_memory_max: None,
        text: TextArgs::default(),
    };
    import::import(database, &args)
}

/// So short that checkpoints happen between the transactions of a process that lives for some
/// milliseconds.
const CHECKPOINT_LOG_BYTES: u64 = 32 << 10;

/// The work of a process until it is killed, and the proof that all acknowledged transactions are
/// there and none is half there.
trait Deed {
    /// Makes tables and rows.
    fn prepare(&mut self, database: &Database, scratch: &Scratch) -> Result<()>;

    /// The work of the process in a cycle, counted from 0.
    fn work(&self, cycle: u64) -> Work;

    /// Checks the recovered database after a cycle; fails if it is wrong.
    fn check(&mut self, database: &Database, cycle: u64, new: Acknowledged) -> Result<()>;

    /// Transactions of all cycles that were acknowledged, and those that are there without an
    /// acknowledgement.
    fn counts(&self) -> (u64, u64);
}
