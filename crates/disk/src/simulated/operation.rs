//! The changes of a file that are not synced yet.
//!
//! An operation is one unit of the world's crash images: an event that survives, is lost, or
//! survives in pieces. The pieces of a write are its sectors, and one more for the new length where
//! the write grew the file. Long writes group neighbouring sectors, so that there are never more
//! than 64 pieces.

use super::content::Content;
use crate::SECTOR_BYTES;
use pmem::device::simulated::{Unit, UnitChoice};

/// Data pieces of one write; one bit of 64 is left for the length.
const DATA_PIECES_MAX: u64 = 63;

/// An unsynced change of a file.
#[derive(Clone)]
pub(super) struct Operation {
    /// Unique in the disk, growing: the `index` of units.
    pub(super) sequence: u64,
    pub(super) change: Change,
}

/// A change of a file's content.
#[derive(Clone)]
pub(super) enum Change {
    Write {
        offset: u64,
        data: Vec<u8>,
        grows: bool,
    },
    SetBytes(u64),
}

impl Operation {
    /// The unit that a crash decides about.
    pub(super) fn unit(&self, device: u32) -> Unit {
        let pieces = match &self.change {
            Change::Write { grows, .. } => self.data_pieces() + u64::from(*grows),
            Change::SetBytes(_) => 1,
        };
        Unit {
            device,
            index: self.sequence,
            ordered: vec![pieces as u8],
            streams: Vec::new(),
        }
    }

    /// The whole change.
    pub(super) fn apply(&self, content: &mut Content) {
        match &self.change {
            Change::Write { offset, data, .. } => content.write(*offset, data),
            Change::SetBytes(bytes) => content.set_bytes(*bytes),
        }
    }

    /// Applies the part of the change that survives under `choice`.
    pub(super) fn apply_choice(&self, content: &mut Content, choice: &UnitChoice) {
        if choice.kept > 0 {
            return self.apply(content);
        }
        let Change::Write {
            offset,
            data,
            grows,
        } = &self.change
        else {
            return;
        };
        let pieces = self.data_pieces();
        let end = offset + data.len() as u64;
        let first = offset / SECTOR_BYTES;
        let sectors = end.div_ceil(SECTOR_BYTES) - first;
        for sector in 0..sectors {
            if choice.torn & (1 << (sector * pieces / sectors)) == 0 {
                continue;
            }
            let from = ((first + sector) * SECTOR_BYTES).max(*offset);
            let to = ((first + sector + 1) * SECTOR_BYTES).min(end);
            content.write(
                from,
                &data[(from - offset) as usize..(to - offset) as usize],
            );
        }
        if *grows && choice.torn & (1 << pieces) != 0 {
            content.extend(end);
        }
    }

    fn data_pieces(&self) -> u64 {
        let Change::Write { offset, data, .. } = &self.change else {
            return 0;
        };
        let end = offset + data.len() as u64;
        (end.div_ceil(SECTOR_BYTES) - offset / SECTOR_BYTES).min(DATA_PIECES_MAX)
    }
}

/// A creation, removal or rename that is not synced yet: the names it sets, all together.
#[derive(Clone)]
pub(super) struct NameChange {
    /// As in [`Operation`].
    pub(super) sequence: u64,
    pub(super) sets: Vec<(String, Option<u64>)>,
}

impl NameChange {
    /// The unit that a crash decides about.
    pub(super) fn unit(&self, device: u32) -> Unit {
        Unit {
            device,
            index: self.sequence,
            ordered: vec![1],
            streams: Vec::new(),
        }
    }

    /// The change.
    pub(super) fn apply(&self, names: &mut std::collections::BTreeMap<String, u64>) {
        for (name, file) in &self.sets {
            match file {
                Some(file) => names.insert(name.clone(), *file),
                None => names.remove(name),
            };
        }
    }
}
