//! The doublewrite area: pages are written here, made durable, and only then written home.
//!
//! ```text
//! file   magic 8 | pages u32 | crc32c u32 | zeros to 512 | pages, sealed, one behind the other
//! ```
//!
//! A page that a power cut tears at home is whole here. After `InnoDB`'s doublewrite buffer, with batches only.
//!
//! Invariants:
//! 1. No byte of a batch is written home before the whole batch is durable here.
//! 2. The area is overwritten only when the batch before is durable at home.
//! 3. What an earlier process left here is written home again and synced before the area is used: that it can be read at home does
//!    not prove that it is durable there.

use super::{Copies, PageGuard};
use crate::buffer::file::page_damage;
use crate::error::Result;
use crate::page::{Header, PageId};
use disk::{Directory, File, SECTOR_BYTES};
use pmem::site;

const MAGIC: [u8; 8] = *b"INDDWB\x1a\x01";
const HEAD_BYTES: usize = SECTOR_BYTES as usize;
/// Most pages of a batch, as in `InnoDB`.
const BATCH_PAGES: usize = 120;

/// The area of one partition.
pub struct DoubleWrite<F> {
    file: F,
    name: String,
    page_bytes: usize,
    buffer: Vec<u8>,
    /// Pages that the file says to have.
    pages: usize,
    /// Whether they are durable at home.
    is_home: bool,
}

impl<F: File> DoubleWrite<F> {
    /// Makes the area, in its whole length so that a full disk is met here. Durable when the directory is synced.
    pub fn create<D: Directory<File = F>>(
        directory: &D,
        name: String,
        page_bytes: usize,
    ) -> Result<Self> {
        let mut file = directory.create(&name)?;
        file.set_bytes(Self::file_bytes(page_bytes))?;
        let mut area = Self::new(file, name, page_bytes);
        area.write_empty()?;
        Ok(area)
    }

    /// Opens the area.
    pub fn open<D: Directory<File = F>>(
        directory: &D,
        name: String,
        page_bytes: usize,
    ) -> Result<Self> {
        let file = directory.open(&name)?;
        let area = Self::new(file, name, page_bytes);
        let (found, wanted) = (area.file.bytes()?, Self::file_bytes(page_bytes));
        if found == wanted {
            // What another process wrote home may not be durable there.
            let is_home = false;
            return Ok(Self { is_home, ..area });
        }
        let detail = format!("it has {found} bytes instead of {wanted}");
        Err(page_damage(&area.name, found.min(wanted), &detail))
    }

    fn new(file: F, name: String, page_bytes: usize) -> Self {
        Self {
            file,
            name,
            page_bytes,
            buffer: Vec::new(),
            pages: 0,
            is_home: true,
        }
    }

    /// Says on the medium that there is no page.
    fn write_empty(&mut self) -> Result<()> {
        self.pages = 0;
        self.file.write_at(0, &Self::head(0))?;
        Ok(self.file.sync(site!("double-write.clear"))?)
    }

    fn file_bytes(page_bytes: usize) -> u64 {
        (HEAD_BYTES + BATCH_PAGES * page_bytes) as u64
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

    /// The pages of the last batch that are whole here. A batch that is not whole was never written home.
    fn found(&mut self) -> Result<Option<Copies>> {
        let mut head = [0; HEAD_BYTES];
        self.file.read_at(0, &mut head)?;
        if head == Self::head(0) {
            return Ok(None);
        }
        let pages = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
        if pages > BATCH_PAGES || head != Self::head(pages) {
            // Torn before it was durable; the pages behind it are not needed, but say that something is there.
            self.pages = 1;
            return Ok(Some(Vec::new()));
        }
        self.pages = pages;
        let mut found = Vec::with_capacity(pages);
        for number in 0..pages {
            let mut page = vec![0; self.page_bytes];
            let offset = HEAD_BYTES + number * self.page_bytes;
            self.file.read_at(offset as u64, &mut page)?;
            let id = Header(&page).number();
            if Header(&page).is_intact(id) {
                found.push((id, page));
            }
        }
        Ok(Some(found))
    }

    /// They may not be, and need not: a page at home is torn only if its copy was durable in time, and one that is older is the log's to bring forward.
    fn secure(&mut self) -> Result<bool> {
        Ok(false)
    }

    fn clear(&mut self) -> Result<()> {
        if self.pages == 0 {
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
        Self::file_bytes(self.page_bytes)
    }
}
