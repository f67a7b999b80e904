//! Log files that are not needed any more and are kept to be used again.
//!
//! A sync of blocks that have been written before is shorter than one of new blocks, of which the file system has to note that they are written.
//! So a segment file that a checkpoint has made needless becomes a *spare*: it is renamed, and renamed once more when the log needs a file.
//!
//! Invariants:
//! 1. A spare can be used only when it is durable that its old name is gone. So no crash brings that name back with what the file has then.
//! 2. A spare has one of the lengths that segments have.
//!
//! What a spare has of its old records is valid nowhere in the new segment: their positions are others, and their checksums are seeded with
//! another header.

use super::wal::LogIdentity;
use crate::error::Result;
use disk::{Directory, File};
use pmem::site;

/// The spares of one log.
pub(super) struct Spares {
    identity: LogIdentity,
    /// What their files are named with.
    kind: String,
    lengths: [u64; 2],
    /// How many bytes are kept.
    most: u64,
    /// Numbers and lengths of those that can be used, and of those whose old name may come back.
    ready: Vec<(u64, u64)>,
    renamed: Vec<(u64, u64)>,
}

impl Spares {
    /// None, for a log whose files are named with `kind`.
    pub(super) fn new(identity: LogIdentity, kind: &str, lengths: [u64; 2], most: u64) -> Self {
        Self {
            identity,
            kind: format!("{kind}-spare"),
            lengths,
            most,
            ready: Vec::new(),
            renamed: Vec::new(),
        }
    }

    fn name(&self, number: u64) -> String {
        self.identity.file_name(&self.kind, number)
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> u64 {
        let all = self.ready.iter().chain(&self.renamed);
        all.map(|&(_, bytes)| bytes).sum()
    }

    /// Whether a needless file of that length is of use.
    fn wants(&self, bytes: u64) -> bool {
        self.lengths.contains(&bytes) && self.bytes() + bytes <= self.most
    }

    /// Takes over those that an earlier process has left, as far as they are of use.
    pub(super) fn find<D: Directory>(&mut self, directory: &D) -> Result<()> {
        for number in self.identity.numbers(directory, &self.kind)? {
            let name = self.name(number);
            let bytes = directory.open(&name)?.bytes()?;
            if self.wants(bytes) {
                self.renamed.push((number, bytes));
            } else {
                directory.remove(&name)?;
            }
        }
        self.secure(directory)
    }

    /// Takes a needless file with its number and its length, or removes it.
    pub(super) fn take_or_remove<D: Directory>(
        &mut self,
        directory: &D,
        name: &str,
        (number, bytes): (u64, u64),
    ) -> Result<()> {
        if !self.wants(bytes) {
            return Ok(directory.remove(name)?);
        }
        directory.rename(name, &self.name(number))?;
        self.renamed.push((number, bytes));
        Ok(())
    }

    /// Makes it durable that their old names are gone, so that they can be used.
    pub(super) fn secure<D: Directory>(&mut self, directory: &D) -> Result<()> {
        if !self.renamed.is_empty() {
            directory.sync(site!("wal.spares"))?;
            // commit point: no crash brings an old name back
            self.ready.append(&mut self.renamed);
        }
        Ok(())
    }

    /// The name of one to be a segment of that length, which is none any more.
    pub(super) fn pop(&mut self, bytes: u64) -> Option<String> {
        let place = self.ready.iter().rposition(|&(_, has)| has == bytes)?;
        let (number, _) = self.ready.remove(place);
        Some(self.name(number))
    }

    /// Gives the space of all of them back, which is free when it returns, and says whether there were any.
    pub(super) fn give_up<D: Directory>(&mut self, directory: &D) -> Result<bool> {
        let numbers = self.ready.drain(..).chain(self.renamed.drain(..));
        let numbers: Vec<_> = numbers.collect();
        for &(number, _) in &numbers {
            directory.remove(&self.name(number))?;
        }
        if !numbers.is_empty() {
            // A file that a crash may bring back still takes its space.
            directory.sync(site!("wal.spares-gone"))?;
        }
        Ok(!numbers.is_empty())
    }
}
