//! The unsynced changes that a recovery read.
//!
//! As in memories, a change that a power cut may keep or lose matters only if the bytes that it
//! would have changed are read. A watched image notes the first such read of each change; images of
//! a watched image are watched as well, so a recovery that is itself cut off counts. Changes of
//! names count as read from the start: there are few of them, and every opening reads names.
//!
//! Changes that the recovery itself has overwritten still count, which can only add images.

use super::operation::{Change, Operation};
use pmem::device::simulated::ReadLog;
use std::ops::Range;

/// The undecided changes of one disk.
#[derive(Clone)]
pub(super) struct Watch {
    device: u32,
    log: ReadLog,
    changes: Vec<Watched>,
}

#[derive(Clone)]
struct Watched {
    file: u64,
    sequence: u64,
    /// Reads of this range of the file depend on it.
    range: Range<u64>,
    /// Whether the file's length depends on it.
    sets_length: bool,
    /// Once is enough, here and in images.
    noted: bool,
}

impl Watch {
    /// Watches nothing yet.
    pub(super) fn new(device: u32, log: &ReadLog) -> Self {
        Self {
            device,
            log: log.clone(),
            changes: Vec::new(),
        }
    }

    /// Watches a change of a file.
    pub(super) fn add(&mut self, file: u64, operation: &Operation) {
        let (range, sets_length) = match &operation.change {
            // A read that goes beyond the old end fails or not.
            Change::Write { offset, grows, .. } if *grows => (*offset..u64::MAX, true),
            Change::Write { offset, data, .. } => (*offset..*offset + data.len() as u64, false),
            Change::SetBytes(_) => (0..u64::MAX, true),
        };
        self.changes.push(Watched {
            file,
            sequence: operation.sequence,
            range,
            sets_length,
            noted: false,
        });
    }

    /// A range of a file is read.
    pub(super) fn read(&mut self, file: u64, range: &Range<u64>) {
        self.note(file, |change| {
            change.range.start < range.end && range.start < change.range.end
        });
    }

    /// The length of a file is read.
    pub(super) fn length(&mut self, file: u64) {
        self.note(file, |change| change.sets_length);
    }

    fn note(&mut self, file: u64, matters: impl Fn(&Watched) -> bool) {
        for change in &mut self.changes {
            if change.file == file && !change.noted && matters(change) {
                change.noted = true;
                self.log.note(self.device, change.sequence);
            }
        }
    }
}
