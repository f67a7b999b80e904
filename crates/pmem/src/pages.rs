//! A memory in pages that threads read and change in parallel, each page through its owner.
//!
//! [`PageMemory`] hands out each page once. A [`Page`] is the only way to its bytes: `&Page` reads
//! them in place, `&mut Page` lets a [`PageHandle`] store to them. So a lock around a page is a
//! lock around its bytes, and pages need no common lock. Every thread that stores has a handle of
//! its own, whose fence waits for its own stores, as a processor's fence does.
//!
//! Before the pages is a *head*, which belongs to the memory itself. Between both there may be
//! *lines*: short pages of one line each, for data of a page that is read without the page.

use crate::device::{Counters, LINE_BYTES, Memory, Part, Site, View};
use crate::error::{PmemError, Result};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// A memory in pages.
pub struct PageMemory<M: Memory> {
    memory: M,
    head_bytes: u64,
    /// Start of the first page, after the lines.
    pages_at: u64,
    page_bytes: u64,
    /// Start of the first page that is not handed out.
    next: u64,
    /// Whether the lines are handed out.
    has_given_lines: bool,
}

/// One page of a memory. It stays mapped while it is owned.
pub struct Page {
    at: NonNull<u8>,
    bytes: usize,
    offset: u64,
    view: Arc<View>,
}

// SAFETY: the address is not tied to a thread, and `&mut Page` is the only way to change what it
// leads to.
unsafe impl Send for Page {}
// SAFETY: as above; `&Page` only reads.
unsafe impl Sync for Page {}

/// Stores to pages, for one thread at a time.
pub struct PageHandle<M: Memory>(M);

impl<M: Memory> PageMemory<M> {
    /// A memory with `head_bytes` before its pages of `page_bytes`; both are whole lines.
    ///
    /// # Panics
    /// If they are not.
    pub fn new(memory: M, head_bytes: u64, page_bytes: u64) -> Self {
        assert!(
            head_bytes.is_multiple_of(LINE_BYTES)
                && page_bytes.is_multiple_of(LINE_BYTES)
                && page_bytes > 0,
            "pages of {page_bytes} bytes behind {head_bytes} are no whole lines"
        );
        Self {
            memory,
            head_bytes,
            pages_at: head_bytes,
            page_bytes,
            next: head_bytes,
            has_given_lines: false,
        }
    }

    /// The same with this many lines between head and pages.
    ///
    /// # Panics
    /// If a page has been handed out.
    #[must_use]
    pub fn with_lines(mut self, lines: u32) -> Self {
        assert!(
            self.next == self.head_bytes && !self.has_given_lines,
            "pages lie where lines are to be"
        );
        self.pages_at = self.head_bytes + u64::from(lines) * LINE_BYTES;
        self.next = self.pages_at;
        self
    }

    /// Bytes of the memory.
    pub fn bytes(&self) -> u64 {
        self.memory.bytes()
    }

    /// Pages that there is room for.
    pub fn pages(&self) -> u64 {
        self.memory.bytes().saturating_sub(self.pages_at) / self.page_bytes
    }

    /// The bytes before the pages, as many as there are.
    pub fn head(&self) -> &[u8] {
        let bytes = self.head_bytes.min(self.memory.bytes()) as usize;
        self.memory.load(0, bytes);
        // SAFETY: the range is mapped, no page lies there, and stores to it need `&mut self`.
        unsafe { std::slice::from_raw_parts(self.memory.base().as_ptr(), bytes) }
    }

    /// Replaces bytes of the head, durable with the next [`PageMemory::fence`].
    ///
    /// # Panics
    /// If they leave the head.
    pub fn set_head(&mut self, at: u64, bytes: &[u8], site: &'static Site) {
        assert!(
            at + bytes.len() as u64 <= self.head_bytes,
            "the head is shorter"
        );
        self.memory.store(at, bytes);
        self.memory.flush(at, bytes.len(), site);
    }

    /// Replaces an aligned word of the head, failure-atomically; durable with the next
    /// [`PageMemory::fence`].
    ///
    /// # Panics
    /// If it leaves the head.
    pub fn set_head_word(&mut self, at: u64, word: u64, site: &'static Site) {
        assert!(at + 8 <= self.head_bytes, "the head is shorter");
        self.memory.store_word(at, word);
        self.memory.flush(at, 8, site);
    }

    /// Replaces an aligned word of the head, failure-atomically, and leaves it to the cache when
    /// that becomes durable.
    ///
    /// # Panics
    /// If it leaves the head.
    pub fn note_head_word(&mut self, at: u64, word: u64) {
        assert!(at + 8 <= self.head_bytes, "the head is shorter");
        self.memory.store_word(at, word);
    }

    /// Clears the first line of every page that is not handed out: with the next
    /// [`PageMemory::fence`], the durable bytes there are no page.
    pub fn clear(&mut self, site: &'static Site) {
        let (mut at, bytes) = (self.next, self.memory.bytes());
        while at + self.page_bytes <= bytes {
            self.memory.store(at, &[0; LINE_BYTES as usize]);
            self.memory.flush(at, LINE_BYTES as usize, site);
            at += self.page_bytes;
        }
    }

    /// Waits until this value's stores are durable.
    pub fn fence(&mut self, site: &'static Site) -> Result<()> {
        self.memory.fence(site)
    }

    /// Makes room for this many pages; the new ones have any content.
    pub fn grow(&mut self, pages: u64) -> Result<()> {
        let bytes = pages.checked_mul(self.page_bytes);
        let bytes = bytes.and_then(|bytes| bytes.checked_add(self.pages_at));
        let bytes = bytes.ok_or_else(|| PmemError::OutOfSpace {
            wanted_bytes: u64::MAX,
            limit: "so many pages have no address".to_owned(),
        })?;
        self.memory.grow(bytes)
    }

    /// Those of the first `pages` that are not handed out yet, in their order.
    pub fn take(&mut self, pages: u64) -> Result<Vec<Page>> {
        let view = Arc::new(self.memory.view()?);
        let page_bytes = self.page_bytes;
        let end = self.pages_at + pages.min(self.pages()) * page_bytes;
        let mut pages = Vec::new();
        while self.next < end {
            pages.push(self.piece(self.next, page_bytes, &view));
            self.next += page_bytes;
        }
        Ok(pages)
    }

    /// The lines, in their order, as far as the memory has them. They are handed out once.
    pub fn take_lines(&mut self) -> Result<Vec<Page>> {
        let view = Arc::new(self.memory.view()?);
        let end = self.pages_at.min(self.memory.bytes());
        if std::mem::replace(&mut self.has_given_lines, true) || end < self.head_bytes {
            return Ok(Vec::new());
        }
        let lines = (end - self.head_bytes) / LINE_BYTES;
        let places = (0..lines).map(|line| self.head_bytes + line * LINE_BYTES);
        Ok(places.map(|at| self.piece(at, LINE_BYTES, &view)).collect())
    }

    /// A piece of the memory that nobody else has.
    fn piece(&self, offset: u64, bytes: u64, view: &Arc<View>) -> Page {
        let base = self.memory.base();
        // SAFETY: the piece lies in the mapping, so the sum stays inside one allocation.
        let at = unsafe { base.add(offset as usize) };
        Page {
            at,
            bytes: bytes as usize,
            offset,
            view: Arc::clone(view),
        }
    }

    /// A handle that stores to any page taken so far.
    pub fn handle(&self) -> Result<PageHandle<M>> {
        // SAFETY: a handle stores only to pages that its user has for changing, which lie on lines
        // of their own. This value stores only to the head and to pages that nobody has, and is the
        // one that grows.
        let memory = unsafe { self.memory.share() }?;
        memory.enter(Part::Table);
        Ok(PageHandle(memory))
    }

    /// Whether loads have to be accounted for.
    pub fn counts_loads(&self) -> bool {
        self.memory.counts_loads()
    }

    /// This value's counts. An emulated memory counts for all of its handles here.
    pub fn counters(&self) -> Counters {
        self.memory.counters()
    }
}

impl Page {
    /// The page.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the view keeps the range mapped, nobody else has the page, and stores to it need
        // `&mut self`.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.bytes) }
    }

    /// The page, to change it without a handle: only where nothing has to become durable.
    #[inline]
    pub(crate) fn volatile_bytes(&mut self) -> &mut [u8] {
        // SAFETY: the view keeps the range mapped and writable, and nobody else has the page.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.bytes) }
    }
}

impl<M: Memory> PageHandle<M> {
    /// Whether the page is one that it can store to: one that had been taken when it was made.
    pub fn reaches(&self, page: &Page) -> bool {
        page.view.base() == self.0.base() && page.offset + page.bytes as u64 <= self.0.bytes()
    }

    /// Stores to a page and starts the write-back. The bytes are durable with the next
    /// [`PageHandle::fence`].
    ///
    /// # Panics
    /// If the bytes leave the page, or the page is not one of this memory.
    #[inline]
    pub fn store(&mut self, page: &mut Page, at: usize, bytes: &[u8], site: &'static Site) {
        assert!(
            self.reaches(page) && at + bytes.len() <= page.bytes,
            "{} bytes at {at} leave a page of {} bytes",
            bytes.len(),
            page.bytes
        );
        let offset = page.offset + at as u64;
        self.0.store(offset, bytes);
        self.0.flush(offset, bytes.len(), site);
    }

    /// Stores aligned words of a page one after the other, each failure-atomic and on one line in
    /// this order, and starts the write-back of their lines. They are durable with the next
    /// [`PageHandle::fence`].
    ///
    /// # Panics
    /// As [`PageHandle::store`].
    pub fn store_words(&mut self, page: &mut Page, words: &[(usize, u64)], site: &'static Site) {
        assert!(self.reaches(page), "the page is of another memory");
        for &(at, word) in words {
            assert!(at + 8 <= page.bytes, "the word at {at} leaves its page");
            self.0.store_word(page.offset + at as u64, word);
        }
        let lines = words.iter().map(|(at, _)| at / LINE_BYTES as usize);
        let mut lines: Vec<usize> = lines.collect();
        lines.sort_unstable();
        lines.dedup();
        for line in lines {
            let at = page.offset + line as u64 * LINE_BYTES;
            self.0.flush(at, 8, site);
        }
    }

    /// Stores to a page around the cache, in any order; place and length are multiples of 8. The
    /// bytes are durable with the next [`PageHandle::fence`].
    ///
    /// # Panics
    /// As [`PageHandle::store`].
    pub fn stream(&mut self, page: &mut Page, at: usize, bytes: &[u8], site: &'static Site) {
        assert!(
            self.reaches(page) && at + bytes.len() <= page.bytes,
            "{} bytes at {at} leave a page of {} bytes",
            bytes.len(),
            page.bytes
        );
        self.0.stream(page.offset + at as u64, bytes, site);
    }

    /// Accounts for loads of parts of a page, one after the other.
    ///
    /// # Panics
    /// If the page is not one of this memory.
    pub fn load_each(&self, page: &Page, ranges: &mut dyn Iterator<Item = Range<usize>>) {
        assert!(self.reaches(page), "the page is of another memory");
        let at = |range: Range<usize>| (page.offset + range.start as u64, range.len());
        self.0.load_each(&mut ranges.map(at));
    }

    /// Waits until all its stores are durable.
    #[inline]
    pub fn fence(&mut self, site: &'static Site) -> Result<()> {
        self.0.fence(site)
    }

    /// Its counts.
    pub fn counters(&self) -> Counters {
        self.0.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::MemorySource;
    use crate::device::simulated::{ImageChoice, SimulatedWorld, WorldOptions};
    use crate::device::{NativeMemory, PageSize};
    use crate::site;

    const PAGE: u64 = 512;

    #[test]
    fn every_page_is_handed_out_once_and_outlives_the_memory() {
        let memory = NativeMemory::volatile(8192, PageSize::Base).unwrap();
        let mut memory = PageMemory::new(memory, 1024, PAGE);
        let mut pages = memory.take(u64::MAX).unwrap();
        assert_eq!(pages.len() as u64, memory.pages());
        assert!(memory.take(u64::MAX).unwrap().is_empty());
        memory.grow(40).unwrap();
        let old = memory.handle().unwrap();
        pages.extend(memory.take(u64::MAX).unwrap());
        assert!(pages.len() >= 40 && old.reaches(pages.last().unwrap()));
        drop((memory, old));
        assert_eq!(pages[39].bytes().len() as u64, PAGE);
    }

    #[test]
    fn lines_lie_in_front_of_the_pages_and_are_handed_out_once() {
        let memory = NativeMemory::volatile(8192, PageSize::Base).unwrap();
        let mut memory = PageMemory::new(memory, 128, PAGE).with_lines(10);
        let mut lines = memory.take_lines().unwrap();
        let mut pages = memory.take(u64::MAX).unwrap();
        assert_eq!((lines.len(), lines[0].offset), (10, 128));
        assert_eq!(pages[0].offset, 128 + 10 * LINE_BYTES);
        assert_eq!(pages.len() as u64, memory.pages());
        let end = pages.last().unwrap();
        assert!(end.offset + PAGE <= memory.memory.bytes());
        assert!(memory.take_lines().unwrap().is_empty());
        let mut handle = memory.handle().unwrap();
        let words = [(0, 0), (8, 7), (0, 9)];
        handle.store_words(&mut lines[9], &words, site!("pages.test-words"));
        handle.stream(&mut pages[0], 8, &[5; 16], site!("pages.test-stream"));
        handle.fence(site!("pages.test-lines")).unwrap();
        assert_eq!((lines[9].bytes()[0], lines[9].bytes()[8]), (9, 7));
        assert_eq!(&pages[0].bytes()[8..24], &[5; 16]);
        // A memory that ends before them has fewer.
        let memory = NativeMemory::volatile(4096, PageSize::Base).unwrap();
        let mut short = PageMemory::new(memory, 128, PAGE).with_lines(u32::MAX);
        let lines = short.take_lines().unwrap();
        assert_eq!(
            lines.len() as u64,
            (short.memory.bytes() - 128) / LINE_BYTES
        );
        assert!(short.pages() == 0 && short.take(9).unwrap().is_empty());
    }

    #[test]
    fn threads_change_pages_at_once() {
        let memory = NativeMemory::volatile(1 << 16, PageSize::Base).unwrap();
        let mut memory = PageMemory::new(memory, 0, PAGE);
        let mut pages = memory.take(u64::MAX).unwrap();
        std::thread::scope(|scope| {
            for (page, number) in pages.iter_mut().zip(0_u8..) {
                let mut handle = memory.handle().unwrap();
                scope.spawn(move || {
                    for at in 0..PAGE as usize {
                        handle.store(page, at, &[number], site!("pages.test-thread"));
                    }
                });
            }
        });
        for (page, number) in pages.iter().zip(0_u8..) {
            assert!(page.bytes().iter().all(|&byte| byte == number));
        }
    }

    #[test]
    fn a_fence_is_for_the_stores_of_its_handle() {
        let world = SimulatedWorld::new(WorldOptions::default());
        let memory = world.source().create("pages", 1 << 16).unwrap();
        let mut memory = PageMemory::new(memory, 0, PAGE);
        let mut pages = memory.take(u64::MAX).unwrap();
        let (mut one, mut other) = (memory.handle().unwrap(), memory.handle().unwrap());
        one.store(&mut pages[0], 0, &[7; 8], site!("pages.test-one"));
        other.store(&mut pages[1], 0, &[8; 8], site!("pages.test-other"));
        one.fence(site!("pages.test-fence")).unwrap();
        drop(one);
        let image = world.image(&ImageChoice { units: Vec::new() }).unwrap();
        let found = image.source().open("pages", crate::Access::Read).unwrap();
        assert_eq!(found.peek(0, 8), [7; 8]);
        assert_ne!(found.peek(PAGE, 8), [8; 8]);
        // It is open as long as anybody has it.
        let again = || world.source().open("pages", crate::Access::Write);
        drop((memory, pages));
        assert!(again().is_err());
        drop(other);
        assert!(again().is_ok());
    }
}
