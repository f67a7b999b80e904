//! The end of a group of `nvwal` or `slot-header-journal`, its checkpoint, and its recovery.
//!
//! ```text
//! commit      differences into the log, flushed; fence; the mark, flushed; fence   [commit point]
//! checkpoint  pages to the file; sync; the log's next generation, flushed; fence   [commit point]
//! recovery    the last mark and the generation, flushed; fence; the rest happens in volatile
//!             memory, when a page is read first
//! ```

use super::difference::apply;
use super::home::{HomeFile, HomeIdentity};
use super::log::{DifferenceLog, Differences, Found, records_bytes};
use super::redo::Unread;
use super::space::{self, MASTER, Space};
use super::{CachedPages, FRAMES_MIN, Own, damaged};
use disk::Directory;
use pmem::{Access, Arena, Memory};
use std::collections::btree_map::Entry as PageEntry;
use std::collections::{BTreeMap, HashSet};
use storage::Result;
use storage::engine::GlobalTxnId;

/// Most bytes of neighbouring pages that are written together.
const WRITE_BYTES: usize = 256 << 10;

/// Identity and sizes of a partition's log and frames.
pub(crate) struct CacheOptions {
    pub(crate) identity: HomeIdentity,
    pub(crate) salt: u32,
    /// Bytes of the frames.
    pub(crate) cache_bytes: u64,
    /// Bytes for records of the log.
    pub(crate) log_bytes: u64,
}

/// Bytes for records of a log if `asked` are requested.
pub(crate) fn log_bytes(asked: u64) -> u64 {
    records_bytes(asked)
}

impl CachedPages {
    /// Makes file and log of a new partition; the log in an empty pool, where the offset of its
    /// block comes back. Durable when it returns.
    pub(crate) fn create<L: Memory, D: Directory>(
        pool: Arena<L>,
        directory: D,
        options: &CacheOptions,
    ) -> Result<(Self, u64)> {
        let page_bytes = options.identity.page_bytes;
        let committed = Space::of_new();
        let mut first = [vec![0; page_bytes], vec![0; page_bytes]];
        committed.write(&mut first[0]);
        space::seal(&mut first[1], MASTER + 1);
        let end = HomeFile::<D>::pages_of_new(options.identity) as u32;
        let (log, block) = DifferenceLog::create(pool, options.salt, options.log_bytes, end)?;
        let home = HomeFile::create(directory, options.identity, &first)?;
        let pages = Self::new(Box::new(log), Box::new(home), committed, options);
        Ok((pages, block))
    }

    /// Opens a partition whose log has its block at `block`, and reads the log. Says whether a
    /// prepared transaction was undone. With [`Access::Read`] nothing is stored, flushed or
    /// written.
    pub(crate) fn open<L: Memory, D: Directory, M: Memory>(
        pool: Arena<L>,
        block: u64,
        directory: D,
        options: &CacheOptions,
        access: Access,
        frames: &Arena<M>,
        decide: &dyn Fn(GlobalTxnId) -> bool,
    ) -> Result<(Self, bool)> {
        let page_bytes = options.identity.page_bytes;
        let log = DifferenceLog::open(pool, block, options.salt, options.log_bytes)?;
        let bytes = u64::from(log.end_at_home()) * page_bytes as u64;
        let home = HomeFile::open(directory, options.identity, bytes)?;
        let mut pages = Self::new(Box::new(log), Box::new(home), Space::default(), options);
        let (undone, is_decided) = pages.recover(decide)?;
        if access == Access::Write {
            pages.log.settle_found()?;
            if is_decided {
                pages.log.decide()?;
            }
            let bytes = pages.committed.end * page_bytes as u64;
            pages.home.grow(bytes)?;
            if pages.log.is_extended() {
                pages.checkpoint(frames)?;
            }
        }
        Ok((pages, undone))
    }

    fn new(
        log: Box<dyn Differences>,
        home: Box<dyn super::Home>,
        committed: Space,
        options: &CacheOptions,
    ) -> Self {
        let page_bytes = options.identity.page_bytes;
        let frames = usize::try_from(options.cache_bytes).unwrap_or(usize::MAX) / page_bytes;
        Self {
            log,
            home,
            page_bytes,
            pages_max: frames.max(FRAMES_MIN),
            slots: Vec::new(),
            residents: Vec::new(),
            vacant: Vec::new(),
            frames: Vec::new(),
            hand: 0,
            loads: 0,
            dirty: 0,
            touched: Vec::new(),
            spare: Vec::new(),
            overrun: 0,
            own: BTreeMap::new(),
            committed,
            now: committed,
            taken: Vec::new(),
            given: Vec::new(),
            is_taken: HashSet::new(),
            unread: Unread::default(),
            next_free: 0,
            pending: Vec::new(),
            buffer: Vec::new(),
        }
    }

    /// Reads the log: what it has of root and maps is applied, of other pages it is noted. Says
    /// whether a prepared transaction was undone, and whether the last record is one that has to be
    /// committed.
    fn recover(&mut self, decide: &dyn Fn(GlobalTxnId) -> bool) -> Result<(bool, bool)> {
        let mut own: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let (mut undone, mut is_decided) = (false, false);
        while let Some(found) = self.log.next()? {
            (undone, is_decided) = (false, false);
            if let Found::Prepared(global) = found {
                if !decide(global) {
                    undone = true;
                    continue;
                }
                is_decided = true;
            }
            let Self {
                log,
                home,
                unread,
                page_bytes,
                ..
            } = self;
            log.for_each_entry(&mut |entry| {
                let number = entry.page / *page_bytes as u64;
                if !entry.page.is_multiple_of(*page_bytes as u64) {
                    return Err(damaged(entry.page, "no page begins there"));
                }
                if !space::is_own(number, *page_bytes) {
                    unread.add(number, &entry);
                    return Ok(());
                }
                let page = match own.entry(number) {
                    PageEntry::Occupied(page) => page.into_mut(),
                    PageEntry::Vacant(place) => {
                        let mut bytes = vec![0; *page_bytes];
                        if !entry.is_fresh {
                            home.read(entry.page, &mut bytes)?;
                        }
                        place.insert(bytes)
                    }
                };
                if entry.is_fresh {
                    page.fill(0);
                }
                apply(entry.page, entry.differences, page)
            })?;
        }
        self.begin_with(own)?;
        Ok((undone, is_decided))
    }

    /// Takes root and maps over as the log has made them, and what it has of pages that are in use.
    fn begin_with(&mut self, own: BTreeMap<u64, Vec<u8>>) -> Result<()> {
        for (number, bytes) in own {
            if !space::is_sound(&bytes, number) {
                let at = number * self.page_bytes as u64;
                return Err(self.home.damaged(at, "its checksum is wrong".to_owned()));
            }
            let own = Own {
                bytes,
                is_dirty: true,
                is_fresh: false,
            };
            self.own.insert(number, own);
        }
        self.committed = Space::read(&self.own(MASTER)?.bytes);
        self.now = self.committed;
        // Free pages need not be written home.
        for number in self.unread.numbers() {
            let map = space::map_of(number, self.page_bytes);
            if number >= self.committed.end || !space::is_used(&self.own(map)?.bytes, number) {
                self.unread.forget(number);
            }
        }
        Ok(())
    }

    /// Writes what the group has changed into the log, with `root` as that of the directory;
    /// durable when it returns. A group with a number waits for its decision.
    pub(crate) fn write<M: Memory>(
        &mut self,
        frames: &Arena<M>,
        root: u64,
        global: u64,
    ) -> Result<()> {
        self.make_own_pages(root)?;
        let mut given = self.given.clone();
        given.sort_unstable();
        self.log.record().begin(global);
        for &page in &self.touched {
            let number = page / self.page_bytes as u64;
            let Some(slot) = self.slot(page) else {
                continue;
            };
            let resident = self.residents[slot].as_ref();
            let Some((resident, image)) = resident.and_then(|one| Some((one, one.image.as_ref()?)))
            else {
                continue;
            };
            if given.binary_search(&number).is_err() {
                let bytes = frames.bytes(resident.frame, self.page_bytes)?;
                self.log
                    .record()
                    .add_page(page, resident.is_fresh, image, bytes)?;
            }
        }
        let zeros = vec![0; self.page_bytes];
        for (number, bytes) in &self.pending {
            let at = number * self.page_bytes as u64;
            if let Some(own) = self.own.get(number) {
                let old = if own.is_fresh { &zeros } else { &own.bytes };
                self.log.record().add_own(at, own.is_fresh, old, bytes);
            }
        }
        if !self.log.fits() {
            self.checkpoint(frames)?;
        }
        self.log.write()
    }

    /// Makes the new master and maps.
    fn make_own_pages(&mut self, root: u64) -> Result<()> {
        let mut pending: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let taken = self.taken.iter().map(|&number| (number, true));
        let given = self.given.iter().map(|&number| (number, false));
        let changes: Vec<_> = taken.chain(given).collect();
        for (number, is_used) in changes {
            let map = space::map_of(number, self.page_bytes);
            let page = match pending.entry(map) {
                PageEntry::Occupied(page) => page.into_mut(),
                PageEntry::Vacant(place) => place.insert(self.own(map)?.bytes.clone()),
            };
            space::set_used(page, number, is_used);
        }
        for (&number, page) in &mut pending {
            space::seal(page, number);
        }
        let next = Space {
            root,
            end: self.now.end,
            free: self.now.free + self.given.len() as u64,
        };
        if next != self.committed {
            let mut master = self.own(MASTER)?.bytes.clone();
            next.write(&mut master);
            pending.insert(MASTER, master);
        }
        self.pending = pending.into_iter().collect();
        Ok(())
    }

    /// Commits a group that waits for its decision, or forgets its record.
    pub(crate) fn decide<M: Memory>(&mut self, frames: &Arena<M>, commit: bool) -> Result<()> {
        if commit {
            return self.log.decide();
        }
        self.pending.clear();
        if self.log.is_extended() {
            self.checkpoint(frames)?;
        }
        Ok(())
    }

    /// Marks the pages that the group has written as committed.
    pub(crate) fn finish<M: Memory>(&mut self, frames: &Arena<M>) -> Result<()> {
        for page in std::mem::take(&mut self.touched) {
            let Some(resident) = self.resident(page) else {
                continue;
            };
            let newly = !std::mem::replace(&mut resident.is_dirty, true);
            resident.is_fresh = false;
            let image = resident.image.take();
            self.spare.extend(image);
            self.dirty += usize::from(newly);
        }
        for number in std::mem::take(&mut self.given) {
            self.forget(number * self.page_bytes as u64);
        }
        for (number, bytes) in std::mem::take(&mut self.pending) {
            if number == MASTER {
                self.committed = Space::read(&bytes);
            }
            let own = Own {
                bytes,
                is_dirty: true,
                is_fresh: false,
            };
            self.own.insert(number, own);
        }
        self.now = self.committed;
        self.taken.clear();
        self.is_taken.clear();
        self.overrun = 0;
        if self.log.is_extended() || 2 * self.not_home() > self.pages_max {
            self.checkpoint(frames)?;
        }
        self.log.settle();
        Ok(())
    }

    /// Brings everything home that is committed, and frees the log. After a failure nothing more
    /// may be committed.
    pub(crate) fn checkpoint<M: Memory>(&mut self, frames: &Arena<M>) -> Result<()> {
        if self.log.is_empty() {
            return Ok(());
        }
        let mut dirty: Vec<(u64, Option<usize>)> = Vec::with_capacity(self.not_home());
        for (slot, resident) in self.residents.iter().enumerate() {
            if let Some(resident) = resident.as_ref().filter(|one| one.is_dirty) {
                dirty.push((resident.page, Some(slot)));
            }
        }
        let unread = self.unread.numbers();
        dirty.extend(
            unread
                .iter()
                .map(|number| (number * self.page_bytes as u64, None)),
        );
        dirty.sort_unstable();
        let mut run = (0, Vec::new());
        let mut buffer = vec![0; self.page_bytes];
        for (page, slot) in dirty {
            let bytes = match slot.and_then(|slot| self.residents[slot].as_ref()) {
                None => {
                    self.read(page, &mut buffer)?;
                    buffer.as_slice()
                }
                Some(resident) => match &resident.image {
                    Some(image) => image.as_slice(),
                    None => frames.bytes(resident.frame, self.page_bytes)?,
                },
            };
            join(&mut *self.home, &mut run, page, bytes)?;
        }
        for (number, own) in self.own.iter().filter(|(_, own)| own.is_dirty) {
            let at = number * self.page_bytes as u64;
            join(&mut *self.home, &mut run, at, &own.bytes)?;
        }
        if !run.1.is_empty() {
            self.home.write(run.0, &run.1)?;
        }
        self.home.sync()?;
        self.log
            .free((self.home.bytes() / self.page_bytes as u64) as u32)?;
        for resident in self.residents.iter_mut().flatten() {
            resident.is_dirty = false;
        }
        for own in self.own.values_mut() {
            own.is_dirty = false;
        }
        self.dirty = 0;
        self.unread = Unread::default();
        Ok(())
    }
}

/// Writes the waiting pages, unless this one lies right after them; then it waits as well.
fn join(
    home: &mut dyn super::Home,
    (at, waiting): &mut (u64, Vec<u8>),
    page: u64,
    bytes: &[u8],
) -> Result<()> {
    if *at + waiting.len() as u64 != page || waiting.len() >= WRITE_BYTES {
        if !waiting.is_empty() {
            home.write(*at, waiting)?;
        }
        waiting.clear();
        *at = page;
    }
    waiting.extend_from_slice(bytes);
    Ok(())
}
