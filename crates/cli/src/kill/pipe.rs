//! The work of a victim, and the pipe through which it acknowledges transactions.
//!
//! A record is written by one system call, so the kill never tears one. The parent reads the pipe
//! to its end, because all its records were acknowledged before the kill.

use crate::args::VictimJob;
use anyhow::Result;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::sync::mpsc::Sender;

/// Bytes of a record: partition and number.
const RECORD_BYTES: usize = 16;

/// The victim's end of the pipe.
pub(super) struct Acknowledgements(File);

impl Acknowledgements {
    /// The pipe that the parent reads. It bypasses the buffer of standard output.
    pub(super) fn to_parent() -> Result<Self> {
        Ok(Self(File::from(io::stdout().as_fd().try_clone_to_owned()?)))
    }

    /// Another handle on the same pipe, for another thread.
    pub(super) fn another(&self) -> Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }

    /// Acknowledges `number` in `partition`.
    pub(super) fn send(&mut self, partition: u32, number: u64) -> Result<()> {
        let mut record = [0; RECORD_BYTES];
        record[..4].copy_from_slice(&partition.to_le_bytes());
        record[8..].copy_from_slice(&number.to_le_bytes());
        Ok(self.0.write_all(&record)?)
    }
}

/// Acknowledged transactions of a killed victim: pairs of partition and number, in the order of
/// their arrival.
pub(crate) type Acknowledged = Vec<(u32, u64)>;

/// The work of a victim.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    pub(crate) job: VictimJob,
    /// Rows of the YCSB table.
    pub(crate) rows: u32,
    pub(crate) seed: u64,
    /// Number of the first booking.
    pub(crate) first: u64,
    /// Length of the log that triggers a checkpoint, if not the usual one.
    pub(crate) checkpoint_log_bytes: Option<u64>,
}

/// Reads acknowledgements until the victim is dead, and says when the first one comes.
pub(super) fn read_all(pipe: &mut impl Read, first: &Sender<()>) -> io::Result<Acknowledged> {
    let mut acknowledged = Vec::new();
    let mut record = [0; RECORD_BYTES];
    loop {
        match pipe.read_exact(&mut record) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(acknowledged),
            Err(error) => return Err(error),
        }
        if acknowledged.is_empty() {
            // Nobody waits any more if the victim took too long.
            let _ = first.send(());
        }
        acknowledged.push(parse(&record));
    }
}

fn parse(record: &[u8; RECORD_BYTES]) -> (u32, u64) {
    let (partition, rest) = record
        .split_first_chunk::<4>()
        .expect("a record has 16 bytes");
    let number = rest.last_chunk::<8>().expect("a record has 16 bytes");
    (u32::from_le_bytes(*partition), u64::from_le_bytes(*number))
}
