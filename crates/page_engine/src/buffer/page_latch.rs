//! Latched pages: the guards through which threads read and change pages, wherever these lie.
//!
//! A guard is the latch itself, and a frame whose latch is held is never taken away; there are no
//! pins to forget. Readers report each access through `record_access`, for memories that count
//! loads.

use super::frame::{Content, Frame, Original, PageBytes};
use super::page_access::PageAccess;
use super::resident_pages::{CHECKED, ResidentPages};
use crate::page::PageId;
use pmem::Page;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{RwLockReadGuard, RwLockWriteGuard};

/// A page that nobody changes while the guard lives.
pub struct ReadGuard<'p> {
    content: RwLockReadGuard<'p, Content>,
    /// Where loads are accounted for.
    meter: Option<&'p ResidentPages>,
}

impl<'p> ReadGuard<'p> {
    #[inline]
    pub(super) fn new(
        content: RwLockReadGuard<'p, Content>,
        meter: Option<&'p ResidentPages>,
    ) -> Self {
        Self { content, meter }
    }

    /// The page's number; none if it is being given up.
    #[inline]
    pub fn id(&self) -> Option<PageId> {
        self.content.page
    }

    /// The page.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.content.bytes
    }

    /// Accounts for what has been read of it.
    #[inline]
    pub fn record_access(&self, access: PageAccess<'_>) {
        if let Some(resident) = self.meter {
            resident.record_access(&self.content.bytes, access);
        }
    }
}

/// Lines that a latched page in durable memory gets.
pub struct NewLines<'g, 'p> {
    /// The page.
    pub guard: &'g mut WriteGuard<'p>,
    /// Its new content, sealed.
    pub new: &'g [u8],
    /// Ranges that differ, in whole lines.
    pub lines: &'g [Range<usize>],
}

/// A page that nobody else sees while the guard lives.
pub struct WriteGuard<'p> {
    content: RwLockWriteGuard<'p, Content>,
    pub(super) frame: &'p Frame,
    id: PageId,
    /// Where loads are accounted for.
    meter: Option<&'p ResidentPages>,
}

impl<'p> WriteGuard<'p> {
    #[inline]
    pub(super) fn new(
        content: RwLockWriteGuard<'p, Content>,
        frame: &'p Frame,
        id: PageId,
        meter: Option<&'p ResidentPages>,
    ) -> Self {
        debug_assert_eq!(content.page, Some(id), "the latched frame has another page");
        Self {
            content,
            frame,
            id,
            meter,
        }
    }

    /// The page's number.
    pub fn id(&self) -> PageId {
        self.id
    }

    /// The page.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.content.bytes
    }

    /// Accounts for what has been read of it.
    #[inline]
    pub fn record_access(&self, access: PageAccess<'_>) {
        if let Some(resident) = self.meter {
            resident.record_access(&self.content.bytes, access);
        }
    }

    /// The page, to change what the log has.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.frame.dirty.store(true, Ordering::Relaxed);
        self.content.bytes.buffer()
    }

    /// A copy of a page in durable memory, to change what the log has, and whether this change is
    /// the first of its batch.
    pub fn copy_mut(&mut self, resident: &ResidentPages) -> (&mut [u8], bool) {
        self.record_access(PageAccess::Whole);
        let original = match self.frame.uses.swap(CHECKED, Ordering::Relaxed) {
            CHECKED => Original::Intact,
            _ => Original::Unknown,
        };
        self.content.bytes.copy(resident, original);
        let is_first = !self.frame.dirty.swap(true, Ordering::Relaxed);
        (self.content.bytes.buffer(), is_first)
    }

    /// The page in durable memory, if it is there.
    pub(super) fn page_mut(&mut self) -> Option<&mut Page> {
        match &mut self.content.bytes {
            PageBytes::Memory(page) => Some(page),
            _ => None,
        }
    }

    /// Gives up the copy of a page in durable memory that no batch has changed since.
    pub(super) fn drop_clean_copy(&mut self) {
        if !self.frame.dirty.load(Ordering::Relaxed) {
            self.content.bytes.give_up_copy();
        }
    }

    /// Lets the page's frame go first: it is not in use any more. It is written all the same if it
    /// is dirty, since a checkpoint may begin before the record that gives the page up, and a power
    /// cut may lose that record.
    pub fn give_up(&mut self) {
        if matches!(self.content.bytes, PageBytes::Buffer(_)) {
            self.frame.uses.store(0, Ordering::Relaxed);
        }
    }

    /// Lets others read it.
    pub fn downgrade(self) -> ReadGuard<'p> {
        ReadGuard::new(RwLockWriteGuard::downgrade(self.content), self.meter)
    }
}
