//! The doublewrite area in durable memory: a batch is copied to slots, streamed and fenced, and
//! only then written home.
//!
//! A slot is free again once the page is durable at home, after a sync of the file: for a batch
//! that finds too few free slots, or at a checkpoint. So a batch costs a fence where `dwb` has a
//! write and a sync, and a sync of the file is for as many pages as there are slots.
//!
//! Invariants:
//! 1. No byte of a page is written home before its copy is durable here.
//! 2. A slot is overwritten only when its page is durable at home. It is not cleared before: its
//!    copy is no newer than the page at home, or than the page's copy in another slot.
//! 3. Copies that an earlier process left here are made durable, written home again and synced, and
//!    cleared, before a slot is used.
//!
//! After the doublewrite buffer in NVM of the NVM-DWB thesis (section 3.1), whose batches each wait
//! for a sync of the file.

use super::nv_slots::{NewCopy, PutOrder, Slots};
use super::{Copies, PageGuard};
use crate::page::{Header, PageId};
use pmem::Counters;
use std::collections::VecDeque;
use storage::Result;

/// The area of one partition.
pub struct NvDoubleWrite {
    slots: Box<dyn Slots>,
    page_bytes: usize,
    /// Slots with nothing that is needed, the one that was free first at the front.
    free: VecDeque<u32>,
    /// Slots of pages that are not durable at home.
    busy: Vec<u32>,
    /// Whether a slot may have a header.
    is_used: bool,
    next_sequence: u64,
}

impl NvDoubleWrite {
    /// An area over slots. Their copies are to be brought home before a page is written.
    pub fn new(slots: Box<dyn Slots>, page_bytes: usize) -> Self {
        Self {
            page_bytes,
            free: (0..slots.count()).collect(),
            busy: Vec::new(),
            is_used: false,
            next_sequence: 1,
            slots,
        }
    }

    fn check_slots(&self) {
        debug_assert_eq!(
            self.free.len() + self.busy.len(),
            self.slots.count() as usize,
            "each slot is either free or busy"
        );
    }
}

impl PageGuard for NvDoubleWrite {
    fn room(&self) -> usize {
        self.free.len()
    }

    fn protect(&mut self, ids: &[PageId], pages: &[u8]) -> Result<()> {
        if !self.is_used {
            self.slots.settle(false);
            self.is_used = true;
        }
        assert!(
            ids.len() <= self.free.len(),
            "a batch is longer than its area has slots"
        );
        let taken: Vec<u32> = self.free.drain(..ids.len()).collect();
        let copies = ids.iter().zip(pages.chunks(self.page_bytes)).zip(&taken);
        let copies: Vec<_> = copies
            .zip(self.next_sequence..)
            .map(|(((&page, bytes), &slot), sequence)| NewCopy {
                slot,
                page,
                sequence,
                bytes,
            })
            .collect();
        self.next_sequence += copies.len() as u64;
        let put = self.slots.put(&copies, PutOrder::Together);
        self.busy.extend(taken);
        self.check_slots();
        put
    }

    fn note_synced(&mut self) {
        self.free.extend(self.busy.drain(..));
        self.check_slots();
    }

    fn found(&mut self) -> Result<Option<Copies>> {
        let mut copies = self.slots.scan()?;
        copies.sort_unstable_by_key(|copy| copy.page);
        let newest = copies.iter().map(|copy| copy.sequence).max();
        self.next_sequence = newest.map_or(1, |newest| newest + 1);
        // A slot that looks cleared need not be so durably, and its old copy would come back.
        self.is_used = newest.is_some() || !self.slots.is_settled();
        let mut found: Copies = Vec::new();
        for copy in copies {
            let mut page = vec![0; self.page_bytes];
            self.slots.read(copy.slot, &mut page);
            // One that is not whole was never durable, or another one was on its way over it: then
            // its page is durable at home. Under a header whose copy was lost lies an older copy,
            // so the pages' own LSNs decide which is the newest.
            if !Header(&page).is_intact(copy.page) {
                continue;
            }
            match found.last_mut() {
                Some((id, best)) if *id == copy.page => {
                    if Header(best).lsn() < Header(&page).lsn() {
                        *best = page;
                    }
                }
                _ => found.push((copy.page, page)),
            }
        }
        Ok(self.is_used.then_some(found))
    }

    fn secure(&mut self) -> Result<bool> {
        // A power cut may have lost the note, and a process that dies while clearing leaves slots
        // that look cleared and come back.
        self.slots.settle(false);
        self.slots.renew(PutOrder::Together)?;
        Ok(true)
    }

    fn clear(&mut self) -> Result<()> {
        assert!(
            self.busy.is_empty(),
            "a copy is cleared while its page is not durable at home"
        );
        if !self.is_used {
            return Ok(());
        }
        let copies = self.slots.scan()?;
        let slots: Vec<u32> = copies.iter().map(|copy| copy.slot).collect();
        self.slots.clear(&slots)?;
        self.slots.settle(true);
        self.is_used = false;
        Ok(())
    }

    fn check(&mut self) -> Result<Option<String>> {
        Ok(self.slots.scan().err().map(|error| error.to_string()))
    }

    fn bytes(&self) -> u64 {
        self.slots.bytes()
    }

    fn memory(&self) -> Counters {
        self.slots.counters()
    }
}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
#[path = "nv_double_write_tests.rs"]
mod tests;
