//! The undecided stores that a recovery read.
//!
//! A store that a power cut may keep or lose matters only if it is read afterwards. A watched image
//! notes the first read of each line that still has undecided bytes, in the order of the reads;
//! bytes that were overwritten meanwhile are not undecided any more. Images of a watched image are
//! watched as well, so a recovery that is itself cut off counts.
//!
//! Invariant: `live` of a line names the bytes of the live content that are as the power cut left
//! them, `durable` those of the content that is certain to survive.

use super::medium::lock;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// A line of an image, or a unit of an attached device, that was read and whose content depends on
/// the power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The memory: `device` of the [`Unit`](super::Unit).
    pub device: u32,
    /// The line: `index` of the [`Unit`](super::Unit).
    pub index: u64,
    /// Number of the load. Lines that one load took together have the same.
    pub load: u64,
}

/// Collects the reads of an image and of its images. Clones are the same log.
#[derive(Clone, Debug, Default)]
pub struct ReadLog {
    shared: Arc<Mutex<Reads>>,
}

#[derive(Debug, Default)]
struct Reads {
    loads: u64,
    reads: Vec<Read>,
}

impl ReadLog {
    /// Takes the reads so far, in order. A line may come more than once.
    pub fn take(&self) -> Vec<Read> {
        std::mem::take(&mut lock(&self.shared).reads)
    }

    /// Notes that an attached device has read a unit, by itself.
    pub fn note(&self, device: u32, index: u64) {
        let mut reads = lock(&self.shared);
        reads.loads += 1;
        let load = reads.loads;
        reads.reads.push(Read {
            device,
            index,
            load,
        });
    }
}

/// The undecided lines of one memory.
pub(super) struct Watch {
    log: ReadLog,
    /// By line, rising.
    lines: Vec<WatchedLine>,
}

#[derive(Clone, Copy)]
struct WatchedLine {
    line: u32,
    live: u64,
    durable: u64,
}

impl Watch {
    /// Watches lines, each with its undecided bytes, one bit a byte.
    pub(super) fn new(log: &ReadLog, lines: impl Iterator<Item = (u32, u64)>) -> Self {
        let mut lines: Vec<_> = lines
            .map(|(line, bytes)| WatchedLine {
                line,
                live: bytes,
                durable: bytes,
            })
            .collect();
        lines.sort_unstable_by_key(|watched| watched.line);
        Self {
            log: log.clone(),
            lines,
        }
    }

    /// The watch of an image in which only the certain content survives.
    pub(super) fn image(&self) -> Self {
        let lines = self.lines.iter().map(|watched| WatchedLine {
            live: watched.durable,
            ..*watched
        });
        Self {
            log: self.log.clone(),
            lines: lines.collect(),
        }
    }

    /// `bytes` of the line were stored over.
    pub(super) fn stored(&mut self, line: u32, bytes: u64) {
        if let Some(watched) = self.find(line) {
            watched.live &= !bytes;
        }
    }

    /// Stores to `bytes` of the line have become certain.
    pub(super) fn settled(&mut self, line: u32, bytes: u64) {
        if let Some(watched) = self.find(line) {
            watched.durable &= !bytes;
        }
    }

    /// Notes a load of `bytes` at `offset` that touches `lines`.
    pub(super) fn loaded(&mut self, device: u32, lines: Range<usize>, bytes: Range<u64>) {
        let from = self
            .lines
            .partition_point(|watched| (watched.line as usize) < lines.start);
        let mut load = None;
        for watched in &mut self.lines[from..] {
            if watched.line as usize >= lines.end {
                break;
            }
            if watched.live & line_mask(watched.line, &bytes) == 0 {
                continue;
            }
            // Noted once is enough, here and in images.
            (watched.live, watched.durable) = (0, 0);
            let mut log = lock(&self.log.shared);
            let load = *load.get_or_insert_with(|| {
                log.loads += 1;
                log.loads
            });
            let index = u64::from(watched.line);
            log.reads.push(Read {
                device,
                index,
                load,
            });
        }
    }

    fn find(&mut self, line: u32) -> Option<&mut WatchedLine> {
        let place = self
            .lines
            .binary_search_by_key(&line, |watched| watched.line);
        place.ok().map(|place| &mut self.lines[place])
    }
}

/// The bytes of a line that lie in a range of the memory.
fn line_mask(line: u32, bytes: &Range<u64>) -> u64 {
    let start = u64::from(line) * 64;
    let from = bytes.start.saturating_sub(start).min(64);
    let to = bytes.end.saturating_sub(start).min(64);
    if from >= to {
        return 0;
    }
    (u64::MAX >> (64 - (to - from))) << from
}
