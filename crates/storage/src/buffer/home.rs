//! The frames of pages that lie in durable memory: one a page, for ever, so nothing is replaced and nothing written back.
//!
//! A page is checked when it is first used after an opening, and from then on kept right by whoever changes it.

use super::nv_pages::PageHome;
use super::pool::{Content, Frame, PageBytes, unpoisoned};
use crate::error::Result;
use crate::page::{Header, PageId};
use pmem::Page;
use std::sync::atomic::Ordering;
use std::sync::{OnceLock, RwLockReadGuard, RwLockWriteGuard};

/// Frames of the first piece; each later one has twice as many.
const PIECE_FRAMES_LOG2: u32 = 10;
/// Pieces: enough for every page number.
const PIECES: usize = (u32::BITS - PIECE_FRAMES_LOG2) as usize + 1;
/// What a frame says of a page that was found to be intact.
pub(super) const CHECKED: u8 = 1;

/// Why a page cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    /// The memory ends in front of it.
    Missing,
    /// It is not what it was.
    Damaged,
}

/// Pages that lie in durable memory, with a latch each.
pub struct Home {
    pub(super) source: Box<dyn PageHome>,
    pieces: Box<[OnceLock<Box<[Frame]>>]>,
    counts_loads: bool,
}

/// The piece that has a page's frame, and where in it.
#[inline]
fn place(page: PageId) -> (usize, usize) {
    let number = u64::from(page.0) + (1 << PIECE_FRAMES_LOG2);
    let piece = number.ilog2() - PIECE_FRAMES_LOG2;
    let first = 1 << (piece + PIECE_FRAMES_LOG2);
    (piece as usize, (number - first) as usize)
}

impl Home {
    /// Pages from `first` on, in their order, and where further ones come from.
    pub fn new(source: Box<dyn PageHome>, first: PageId, pages: Vec<Page>) -> Self {
        let home = Self {
            counts_loads: source.counts_loads(),
            source,
            pieces: (0..PIECES).map(|_| OnceLock::new()).collect(),
        };
        home.add(first.0, pages);
        home
    }

    /// What the pages come from.
    pub fn source(&self) -> &dyn PageHome {
        &*self.source
    }

    /// Gives pages their frames.
    fn add(&self, first: u32, pages: Vec<Page>) {
        for (page, number) in pages.into_iter().zip(first..) {
            let (piece, at) = place(PageId(number));
            let frames = self.pieces[piece].get_or_init(|| {
                (0..1_usize << (piece as u32 + PIECE_FRAMES_LOG2))
                    .map(|_| Frame::new())
                    .collect()
            });
            let mut content = unpoisoned(frames[at].latch.write());
            content.page = Some(PageId(number));
            content.bytes = PageBytes::Memory(page);
        }
    }

    /// Makes room for pages up to a number, where the pages below `now` have frames, and says how many there are then.
    pub(super) fn grow(&self, now: u32, pages: u32) -> Result<u32> {
        let new = self.source.grow(pages)?;
        let end = now + new.len() as u32;
        self.add(now, new);
        Ok(end)
    }

    #[inline]
    fn frame(&self, id: PageId) -> Result<&Frame, Unusable> {
        let (piece, at) = place(id);
        let frames = self.pieces[piece].get();
        frames
            .and_then(|frames| frames.get(at))
            .ok_or(Unusable::Missing)
    }

    /// The page, for reading.
    #[inline]
    pub(super) fn read(&self, id: PageId) -> Result<RwLockReadGuard<'_, Content>, Unusable> {
        let frame = self.frame(id)?;
        let content = unpoisoned(frame.latch.read());
        self.look(frame, id, &content)?;
        Ok(content)
    }

    /// The page, for changing; any content will do if it is to be formatted.
    #[inline]
    pub(super) fn write(
        &self,
        id: PageId,
        is_blank: bool,
    ) -> Result<(RwLockWriteGuard<'_, Content>, &Frame), Unusable> {
        let frame = self.frame(id)?;
        let content = unpoisoned(frame.latch.write());
        if !is_blank || content.page.is_none() {
            self.look(frame, id, &content)?;
        }
        Ok((content, frame))
    }

    #[inline]
    fn look(&self, frame: &Frame, id: PageId, content: &Content) -> Result<(), Unusable> {
        if self.counts_loads
            && let PageBytes::Memory(page) = &content.bytes
        {
            self.source.load(page);
        }
        if frame.uses.load(Ordering::Relaxed) != CHECKED {
            if content.page.is_none() {
                return Err(Unusable::Missing);
            }
            if !Header(&content.bytes).is_intact(id) {
                return Err(Unusable::Damaged);
            }
            frame.uses.store(CHECKED, Ordering::Relaxed);
        }
        Ok(())
    }
}
