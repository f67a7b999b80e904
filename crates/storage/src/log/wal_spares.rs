//! Log files that are not needed any more and are kept to be used again.
//!
//! A sync of blocks that have been written before is shorter than one of new blocks, of which the
//! file system has to note that they are written. So a segment file that is no longer needed after
//! a checkpoint becomes a *spare*: it is renamed, and renamed once more when the log needs a file.
//!
//! A record that gives room back needs a segment even if the disk is full. The *reserve* is a file
//! for that, created together with a segment and held back. It has never had another name, so
//! nothing has to be durable before it is used; if a crash loses it, it is made again. One half of
//! it becomes the segment, the other is kept for the checkpoint that then gives room back.
//!
//! Invariants:
//! 1. A spare can be used only when the removal of its old name is durable. So no crash brings that
//!    name back with new content.
//! 2. A spare has one of the lengths that segments have.
//!
//! The old records in a spare are valid nowhere in the new segment: their positions differ, and
//! their checksums are seeded with another header.

use super::position::LogIdentity;
use super::wal_options::WalOptions;
use super::wal_segment::{FRAME_BYTES, HEADER_BYTES};
use crate::error::Result;
use disk::{Directory, DiskError, File};
use pmem::site;

/// The spares of one log.
pub(super) struct Spares {
    identity: LogIdentity,
    /// The kind in the names of their files.
    kind: String,
    lengths: [u64; 2],
    /// Most bytes that are kept.
    most: u64,
    /// Numbers and lengths of those that can be used, and of those whose old name may come back.
    ready: Vec<(u64, u64)>,
    renamed: Vec<(u64, u64)>,
    reserve_bytes: u64,
    reserve: Reserve,
}

/// The reserve file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reserve {
    None,
    /// For a checkpoint: the other half has become a segment.
    Half,
    Whole,
}

/// Number of the reserve, which no segment has.
const RESERVE: u64 = 0;

impl Spares {
    /// None, for a log whose files are named with `kind`.
    pub(super) fn new(identity: LogIdentity, kind: &str, options: &WalOptions) -> Self {
        Self {
            identity,
            kind: format!("{kind}-spare"),
            lengths: options.lengths(),
            most: options.spare_bytes_max,
            ready: Vec::new(),
            renamed: Vec::new(),
            reserve_bytes: options.reserve_bytes,
            reserve: Reserve::None,
        }
    }

    /// Whether there is a reserve for a record of this length.
    pub(super) fn has_reserve(&self, record_bytes: u64) -> bool {
        let most = self
            .reserve_bytes
            .saturating_sub((HEADER_BYTES + FRAME_BYTES) as u64);
        self.reserve == Reserve::Whole && record_bytes <= most
    }

    /// The name of the reserve, which is none any more; half of its length is free.
    pub(super) fn take_reserve<D: Directory>(&mut self, directory: &D) -> Result<String> {
        assert!(
            self.reserve == Reserve::Whole,
            "a reserve is used that is not there as a whole"
        );
        let name = self.name(RESERVE);
        directory.open(&name)?.set_bytes(self.reserve_bytes)?;
        self.reserve = Reserve::None;
        Ok(name)
    }

    /// Makes the reserve unless it is there as a whole; returns whether it is. If the disk has no
    /// room for it that is left to the next try.
    pub(super) fn keep_reserve<D: Directory>(&mut self, directory: &D) -> Result<bool> {
        if self.reserve != Reserve::Whole && self.reserve_bytes > 0 {
            self.keep(directory, Reserve::Whole)?;
        }
        Ok(self.reserve == Reserve::Whole)
    }

    /// Keeps the half that the segment has left.
    pub(super) fn keep_rest<D: Directory>(&mut self, directory: &D) -> Result<()> {
        self.keep(directory, Reserve::Half)
    }

    fn bytes_of(&self, reserve: Reserve) -> u64 {
        match reserve {
            Reserve::None => 0,
            Reserve::Half => self.reserve_bytes,
            Reserve::Whole => 2 * self.reserve_bytes,
        }
    }

    fn keep<D: Directory>(&mut self, directory: &D, wanted: Reserve) -> Result<()> {
        debug_assert!(self.reserve_bytes > 0, "a reserve has a length");
        let name = self.name(RESERVE);
        let mut file = if self.reserve == Reserve::None {
            directory.create(&name)?
        } else {
            directory.open(&name)?
        };
        match file.set_bytes(self.bytes_of(wanted)) {
            Ok(()) => self.reserve = wanted,
            Err(DiskError::OutOfSpace { .. }) if self.reserve == Reserve::None => {
                directory.remove(&name)?;
            }
            // A part of it may be longer now.
            Err(DiskError::OutOfSpace { .. }) => file.set_bytes(self.bytes_of(self.reserve))?,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Frees the space of the reserve before it returns; returns whether there was one.
    pub(super) fn give_up_reserve<D: Directory>(&mut self, directory: &D) -> Result<bool> {
        if self.reserve == Reserve::None {
            return Ok(false);
        }
        directory.remove(&self.name(RESERVE))?;
        self.reserve = Reserve::None;
        // A file that a crash may bring back still takes its space.
        directory.sync(site!("wal.reserve-gone"))?;
        Ok(true)
    }

    fn name(&self, number: u64) -> String {
        self.identity.file_name(&self.kind, number)
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> u64 {
        let all = self.ready.iter().chain(&self.renamed);
        let spares: u64 = all.map(|&(_, bytes)| bytes).sum();
        spares + self.bytes_of(self.reserve)
    }

    /// Whether a file of that length is worth keeping as a spare.
    fn wants(&self, bytes: u64) -> bool {
        self.most > 0 && self.lengths.contains(&bytes) && self.bytes() + bytes <= self.most
    }

    /// Adopts the usable spares that an earlier process has left.
    pub(super) fn find<D: Directory>(&mut self, directory: &D) -> Result<()> {
        for number in self.identity.numbers(directory, &self.kind)? {
            let name = self.name(number);
            let bytes = directory.open(&name)?.bytes()?;
            let is_reserve = |reserve| number == RESERVE && bytes == self.bytes_of(reserve);
            if self.reserve_bytes > 0 && is_reserve(Reserve::Whole) {
                self.reserve = Reserve::Whole;
            } else if self.reserve_bytes > 0 && is_reserve(Reserve::Half) {
                self.reserve = Reserve::Half;
            } else if number != RESERVE && self.wants(bytes) {
                self.renamed.push((number, bytes));
            } else {
                directory.remove(&name)?;
            }
        }
        if self.has_new() {
            secure(directory)?;
            self.note_secured();
        }
        Ok(())
    }

    /// Takes a file that is not needed any more, with its number and its length, as a spare, or
    /// removes it.
    pub(super) fn take_or_remove<D: Directory>(
        &mut self,
        directory: &D,
        name: &str,
        (number, bytes): (u64, u64),
    ) -> Result<()> {
        if number == RESERVE || !self.wants(bytes) {
            return Ok(directory.remove(name)?);
        }
        directory.rename(name, &self.name(number))?;
        self.renamed.push((number, bytes));
        Ok(())
    }

    /// Whether the old name of one may come back.
    pub(super) fn has_new(&self) -> bool {
        !self.renamed.is_empty()
    }

    /// Notes that [`secure`] has run since they were renamed.
    pub(super) fn note_secured(&mut self) {
        self.ready.append(&mut self.renamed);
    }

    /// The name of one to be a segment of that length, which is none any more.
    pub(super) fn pop(&mut self, bytes: u64) -> Option<String> {
        let place = self.ready.iter().rposition(|&(_, has)| has == bytes)?;
        let (number, _) = self.ready.remove(place);
        debug_assert_ne!(number, RESERVE, "a spare has the number of the reserve");
        Some(self.name(number))
    }

    /// The names of all of them.
    pub(super) fn names(&self) -> Vec<String> {
        let all = self.ready.iter().chain(&self.renamed);
        all.map(|&(number, _)| self.name(number)).collect()
    }

    /// The names of all of them, which are none any more, except that one of the length `kept`
    /// stays.
    pub(super) fn take_names(&mut self, kept: Option<u64>) -> Vec<String> {
        let place = kept.and_then(|bytes| self.ready.iter().rposition(|&(_, has)| has == bytes));
        let kept = place.map(|place| self.ready.remove(place));
        let names = self.names();
        self.forget();
        self.ready.extend(kept);
        names
    }

    /// Notes that there are none any more.
    pub(super) fn forget(&mut self) {
        self.ready.clear();
        self.renamed.clear();
    }
}

/// Makes it durable that the old names of spares are gone, so that they can be used.
pub fn secure<D: Directory>(directory: &D) -> Result<(), DiskError> {
    // commit point: no crash brings an old name back
    directory.sync(site!("wal.spares"))
}

/// Frees the space of files before it returns; returns whether there were any.
pub fn give_up<D: Directory>(directory: &D, names: &[String]) -> Result<bool, DiskError> {
    for name in names {
        directory.remove(name)?;
    }
    if !names.is_empty() {
        // A file that a crash may bring back still takes its space.
        directory.sync(site!("wal.spares-gone"))?;
    }
    Ok(!names.is_empty())
}
