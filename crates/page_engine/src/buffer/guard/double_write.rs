//! The doublewrite area: pages are written here, made durable, and only then written home.
//!
//! ```text
//! file   magic 8 | pages u32 | crc32c u32 | zeros to 512 | room for a batch of pages, sealed
//!        | room for pages of their own, sealed, or anything
//! ```
//!
//! A page that a power cut tears at home is whole here. After `InnoDB`'s doublewrite buffer. The
//! room after the batch is there for `dwb` only, and [`SinglePages`] writes to it.
//!
//! Invariants:
//! 1. No byte of a batch is written home before the whole batch is durable here.
//! 2. The area is overwritten only when the batch before is durable at home.
//! 3. Pages that an earlier process left here are written home again and synced before the area is
//!    used: that a page can be read at home does not prove that it is durable there.

use super::single_pages::{LANES, Lane, SinglePages};
use super::{Copies, PageGuard};
use crate::buffer::offsets::page_damage;
use crate::page::{Header, PageId};
use disk::{Directory, File, SECTOR_BYTES};
use pmem::site;
use std::cmp::Reverse;
use storage::Result;
use storage::engine::Guard;

const MAGIC: [u8; 8] = *b"INDDWB\x1a\x01";
const HEAD_BYTES: usize = SECTOR_BYTES as usize;
/// Most pages of a batch, as in `InnoDB`.
const BATCH_PAGES: usize = 120;

/// Kinds of writes to an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Batches, one at a time.
    Batches,
    /// Pages of their own as well, by several threads.
    BatchesAndSingles,
}

impl Writes {
    /// Those to the area in a file of this guard, if it has one.
    pub(in crate::buffer) fn of(guard: Guard) -> Option<Self> {
        match guard {
            Guard::DoubleWrite => Some(Self::Batches),
            Guard::DoubleWriteSingles => Some(Self::BatchesAndSingles),
            _ => None,
        }
    }
}

/// The area of one partition.
pub struct DoubleWrite<F> {
    file: F,
    name: String,
    page_bytes: usize,
    /// Places for single pages after the batch.
    singles: usize,
    buffer: Vec<u8>,
    /// Number of pages in the file's header.
    pages: usize,
    /// Whether they are durable at home.
    is_home: bool,
}

impl<F: File> DoubleWrite<F> {
    /// Makes the area, in its whole length so that a full disk is an error here. Durable when the
    /// directory is synced.
    pub fn create<D: Directory<File = F>>(
        directory: &D,
        name: String,
        page_bytes: usize,
        writes: Writes,
    ) -> Result<Self> {
        let file = directory.create(&name)?;
        let mut area = Self::new(file, name, page_bytes, writes);
        area.file.set_bytes(area.bytes())?;
        area.write_empty()?;
        Ok(area)
    }

    /// Opens the area.
    pub fn open<D: Directory<File = F>>(
        directory: &D,
        name: String,
        page_bytes: usize,
        writes: Writes,
    ) -> Result<Self> {
        let file = directory.open(&name)?;
        let area = Self::new(file, name, page_bytes, writes);
        let (found, wanted) = (area.file.bytes()?, area.bytes());
        if found == wanted {
            // Pages that another process wrote home may not be durable there.
            let is_home = false;
            return Ok(Self { is_home, ..area });
        }
        let detail = format!("it has {found} bytes instead of {wanted}");
        Err(page_damage(&area.name, found.min(wanted), &detail))
    }

    fn new(file: F, name: String, page_bytes: usize, writes: Writes) -> Self {
        Self {
            file,
            name,
            page_bytes,
            singles: match writes {
                Writes::Batches => 0,
                Writes::BatchesAndSingles => LANES,
            },
            buffer: Vec::new(),
            pages: 0,
            is_home: true,
        }
    }

    /// Writer of single pages, with handles of the file of pages; none if the area has no room for
    /// them.
    pub fn singles<D: Directory<File = F>>(
        &self,
        directory: &D,
        pages: &str,
    ) -> Result<Option<SinglePages<F>>> {
        let lanes = (0..self.singles).map(|place| {
            let at = self.offset(BATCH_PAGES + place);
            Ok(Lane {
                copy: Some((directory.open(&self.name)?, at)),
                home: directory.open(pages)?,
            })
        });
        let lanes: Vec<_> = lanes.collect::<Result<_>>()?;
        Ok((!lanes.is_empty()).then(|| SinglePages::new(self.page_bytes, lanes)))
    }

    /// Says on the medium that there is no page.
    fn write_empty(&mut self) -> Result<()> {
        self.pages = 0;
        for place in self.used_singles()? {
            let at = self.offset(BATCH_PAGES + place);
            self.file.write_at(at, &[0; HEAD_BYTES])?;
        }
        self.file.write_at(0, &Self::head(0))?;
        Ok(self.file.sync(site!("double-write.clear"))?)
    }

    /// Places after the batch that have a page, or part of one.
    fn used_singles(&mut self) -> Result<Vec<usize>> {
        let mut used = Vec::new();
        for place in 0..self.singles {
            let mut front = [0; HEAD_BYTES];
            let at = self.offset(BATCH_PAGES + place);
            self.file.read_at(at, &mut front)?;
            if front != [0; HEAD_BYTES] {
                used.push(place);
            }
        }
        Ok(used)
    }

    /// Offset of the page of a place.
    fn offset(&self, place: usize) -> u64 {
        (HEAD_BYTES + place * self.page_bytes) as u64
    }

    /// The page of a place, if it is whole.
    fn copy(&mut self, place: usize) -> Result<Option<(PageId, Vec<u8>)>> {
        let mut page = vec![0; self.page_bytes];
        self.file.read_at(self.offset(place), &mut page)?;
        let id = Header(&page).number();
        Ok(Header(&page).is_intact(id).then_some((id, page)))
    }

    fn head(pages: usize) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(&MAGIC);
        head[8..12].copy_from_slice(&(pages as u32).to_le_bytes());
        let checksum = crc32c::crc32c(&head[..12]);
        head[12..16].copy_from_slice(&checksum.to_le_bytes());
        head
    }
}

impl<F: File> PageGuard for DoubleWrite<F> {
    fn room(&self) -> usize {
        if self.is_home { BATCH_PAGES } else { 0 }
    }

    fn protect(&mut self, _ids: &[PageId], pages: &[u8]) -> Result<()> {
        self.pages = pages.len() / self.page_bytes;
        assert!(self.pages <= BATCH_PAGES, "a batch is longer than its area");
        assert!(
            self.is_home,
            "the batch before is overwritten while it is not durable at home"
        );
        self.is_home = false;
        self.buffer.clear();
        self.buffer.extend_from_slice(&Self::head(self.pages));
        self.buffer.extend_from_slice(pages);
        self.file.write_at(0, &self.buffer)?;
        self.file.sync(site!("double-write.area"))?;
        // commit point: from here on a torn page at home has a whole copy
        Ok(())
    }

    fn note_synced(&mut self) {
        self.is_home = true;
    }

    /// The pages of the last batch that are whole here. A batch that is not whole was never written
    /// home.
    fn found(&mut self) -> Result<Option<Copies>> {
        let mut head = [0; HEAD_BYTES];
        self.file.read_at(0, &mut head)?;
        let singles = self.used_singles()?;
        if head == Self::head(0) && singles.is_empty() {
            return Ok(None);
        }
        let pages = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
        let is_whole = pages <= BATCH_PAGES && head == Self::head(pages);
        // If it was torn before it was durable, the pages after it are not needed.
        let batch = if is_whole { pages } else { 0 };
        let mut found = Copies::new();
        for place in (0..batch).chain(singles.into_iter().map(|place| BATCH_PAGES + place)) {
            found.extend(self.copy(place)?);
        }
        // Of several copies of a page the newest counts.
        found.sort_by_key(|(id, page)| (*id, Reverse(Header(page).lsn())));
        found.dedup_by_key(|(id, _)| *id);
        // Says that something is there.
        self.pages = found.len().max(1);
        Ok(Some(found))
    }

    /// They may not be, and need not: a page at home is torn only if its copy was durable in time,
    /// and one that is older is the log's to bring forward.
    fn secure(&mut self) -> Result<bool> {
        Ok(false)
    }

    fn clear(&mut self) -> Result<()> {
        if self.pages == 0 && self.used_singles()?.is_empty() {
            return Ok(());
        }
        self.write_empty()
    }

    /// Damage of the head, which is all that matters while nothing is on its way home.
    fn check(&mut self) -> Result<Option<String>> {
        let mut head = [0; HEAD_BYTES];
        self.file.read_at(0, &mut head)?;
        let is_right = head == Self::head(self.pages);
        let detail = "its head is not what was written";
        Ok((!is_right).then(|| page_damage(&self.name, 0, detail).to_string()))
    }

    fn bytes(&self) -> u64 {
        self.offset(BATCH_PAGES + self.singles)
    }
}
