//! Runs in files: written from front to back, read block by block.
//!
//! A run keeps the index of its blocks in memory and its filter with the others; blocks that
//! lookups have read are in the partition's cache. Every block that is read from the file has its
//! checksum checked.
//!
//! Blocks lie one after the other from the start of the file; those of one tree are neighbours and
//! have keys of the same number of words, so a block is found by a search over an array of first
//! keys.

use super::block_cache::BlockCache;
use super::format::{
    BLOCK_BYTES, Block, BlockBuilder, BlockHandle, FOOTER_BYTES, Footer, damage, push_place,
    read_places,
};
use super::mem_table::TreeId;
use crate::lsm::entry::EntryKind;
use crate::lsm::filter::{Filter, Filters, hash};
use disk::{Directory, File};
use pmem::{Memory, site};
use std::cell::RefCell;
use std::ops::Range;
use storage::Result;
use storage::log::LogIdentity;
use storage::record::MAX_KEY_WORDS;

/// The kind of file in a run's name.
pub(crate) const KIND: &str = "run";
/// Bytes that are handed to the file in one call.
const WRITE_BYTES: usize = 256 << 10;
/// Written bytes after which a sync is made, so that the last one has little to do.
const SYNC_BYTES: u64 = 8 << 20;
/// The slot of a block that is in no cache.
const NO_SLOT: u32 = u32::MAX;
/// Words that are added to a key for its filter: the tree.
const HASHED_WORDS: usize = MAX_KEY_WORDS + 1;

/// The hash of a tree's key for filters.
#[inline]
pub(crate) fn tree_hash(tree: TreeId, key: &[u64]) -> u64 {
    let mut words = [0; HASHED_WORDS];
    words[0] = tree.0;
    words[1..=key.len()].copy_from_slice(key);
    hash(&words[..=key.len()])
}

/// A run that is being written.
pub(crate) struct RunWriter<F: File> {
    identity: LogIdentity,
    number: u64,
    file: F,
    filter: Filter,
    block: BlockBuilder,
    tree: TreeId,
    places: Vec<BlockHandle>,
    firsts: Vec<u64>,
    index: Vec<u8>,
    buffer: Vec<u8>,
    /// Bytes in the file already.
    written: u64,
    synced: u64,
    entries: u64,
}

impl<F: File> RunWriter<F> {
    /// Begins a run for about `keys` keys.
    pub(crate) fn create<M: Memory, D: Directory<File = F>>(
        directory: &D,
        filters: &mut Filters<M>,
        identity: LogIdentity,
        number: u64,
        keys: u64,
    ) -> Result<Self> {
        let file = directory.create(&identity.file_name(KIND, number))?;
        Ok(Self {
            identity,
            number,
            file,
            filter: filters.make(keys)?,
            block: BlockBuilder::default(),
            tree: TreeId(0),
            places: Vec::new(),
            firsts: Vec::new(),
            index: Vec::new(),
            buffer: Vec::new(),
            written: 0,
            synced: 0,
            entries: 0,
        })
    }

    /// The number in its name.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn filter(&self) -> Filter {
        self.filter
    }

    /// Bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Adds an entry. Trees, and keys in a tree, ascend.
    pub(crate) fn add<M: Memory>(
        &mut self,
        filters: &mut Filters<M>,
        tree: TreeId,
        key: &[u64],
        kind: EntryKind,
        bytes: &[u8],
    ) -> Result<()> {
        let is_full = self.block.bytes() >= BLOCK_BYTES;
        if !self.block.is_empty() && (tree != self.tree || is_full) {
            self.close_block()?;
        }
        self.tree = tree;
        filters.add(self.filter, tree_hash(tree, key))?;
        self.block.push(key, kind, bytes);
        self.entries += 1;
        Ok(())
    }

    fn close_block(&mut self) -> Result<()> {
        let offset = self.bytes();
        let start = self.buffer.len();
        self.block.finish(&mut self.buffer);
        let place = BlockHandle {
            tree: self.tree,
            offset,
            bytes: (self.buffer.len() - start) as u32,
            key_words: self.block.first.len() as u32,
        };
        push_place(&place, &self.block.first, &mut self.index);
        self.places.push(place);
        self.firsts.extend_from_slice(&self.block.first);
        if self.buffer.len() >= WRITE_BYTES {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        self.file.write_at(self.written, &self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        if self.written - self.synced >= SYNC_BYTES {
            self.file.sync(site!("lsm.run-part"))?;
            self.synced = self.written;
        }
        Ok(())
    }

    /// Writes the rest and syncs: the content is durable when this returns, the name is not.
    pub(crate) fn finish<M: Memory>(mut self, filters: &Filters<M>) -> Result<Run<F>> {
        if !self.block.is_empty() {
            self.close_block()?;
        }
        let (index_at, index_bytes) = (self.bytes(), self.index.len() as u64);
        self.buffer.extend_from_slice(&self.index);
        let filter = filters.words(self.filter)?;
        let (filter_at, filter_bytes) = (self.bytes(), filter.len() as u64);
        self.buffer.extend_from_slice(filter);
        let footer = Footer {
            identity: self.identity,
            number: self.number,
            entries: self.entries,
            index_at,
            index_bytes,
            filter_at,
            filter_bytes,
            index_sum: crc32c::crc32c(&self.index),
            filter_sum: crc32c::crc32c(filter),
        };
        self.buffer.extend_from_slice(&footer.encode());
        self.write()?;
        self.file.sync(site!("lsm.run-content"))?;
        let name = self.identity.file_name(KIND, self.number);
        let Some(spans) = spans(&self.places, index_at) else {
            return Err(damage(&name, index_at, "it was not written in order"));
        };
        Ok(Run {
            name,
            number: self.number,
            bytes: self.written,
            entries: self.entries,
            filter: self.filter,
            file: RefCell::new(Reader::new(self.file, self.places.len())),
            places: self.places,
            spans,
            firsts: self.firsts,
        })
    }
}

/// The blocks of one tree in a run.
struct Span {
    tree: TreeId,
    key_words: usize,
    blocks: Range<usize>,
    /// Index in `firsts` where the first keys of the blocks begin.
    firsts: usize,
}

/// The trees of a run whose blocks end at `end`, ascending; none if the blocks are in disorder.
fn spans(places: &[BlockHandle], end: u64) -> Option<Vec<Span>> {
    let mut spans: Vec<Span> = Vec::new();
    let (mut at, mut firsts) = (0_u64, 0);
    for (number, place) in places.iter().enumerate() {
        if place.offset != at {
            return None;
        }
        at = at.checked_add(u64::from(place.bytes))?;
        let key_words = place.key_words as usize;
        match spans.last_mut().filter(|span| span.tree >= place.tree) {
            Some(span) if span.tree == place.tree && span.key_words == key_words => {
                span.blocks.end = number + 1;
            }
            Some(_) => return None,
            None => spans.push(Span {
                tree: place.tree,
                key_words,
                blocks: number..number + 1,
                firsts,
            }),
        }
        firsts += key_words;
    }
    (at == end).then_some(spans)
}

/// A file, and where its blocks were put in the cache.
struct Reader<F> {
    file: F,
    block: Vec<u8>,
    /// One slot a block; [`NO_SLOT`] for those that were never put there.
    slots: Vec<u32>,
}

impl<F: File> Reader<F> {
    fn new(file: F, blocks: usize) -> Self {
        Self {
            file,
            block: Vec::new(),
            slots: vec![NO_SLOT; blocks],
        }
    }
}

/// A run that is finished.
pub(crate) struct Run<F: File> {
    name: String,
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    pub(crate) filter: Filter,
    places: Vec<BlockHandle>,
    spans: Vec<Span>,
    /// The first key of each block, one after the other.
    firsts: Vec<u64>,
    file: RefCell<Reader<F>>,
}

impl<F: File> Run<F> {
    /// Opens the run of this number, which has so many bytes.
    pub(crate) fn open<M: Memory, D: Directory<File = F>>(
        directory: &D,
        filters: &mut Filters<M>,
        identity: LogIdentity,
        number: u64,
        bytes: u64,
    ) -> Result<Self> {
        let name = identity.file_name(KIND, number);
        let mut file = directory.open(&name)?;
        let found = file.bytes()?;
        if found != bytes || bytes < FOOTER_BYTES as u64 {
            let detail = format!("the file has {found} bytes instead of {bytes}");
            return Err(damage(&name, found.min(bytes), detail));
        }
        let mut footer = [0; FOOTER_BYTES];
        file.read_at(bytes - FOOTER_BYTES as u64, &mut footer)?;
        let footer = Footer::decode(&name, identity, number, bytes, &footer)?;
        let index = read_part(&mut file, footer.index_at, footer.index_bytes)?;
        let words = read_part(&mut file, footer.filter_at, footer.filter_bytes)?;
        if crc32c::crc32c(&index) != footer.index_sum {
            let detail = "the checksum of the index is wrong";
            return Err(damage(&name, footer.index_at, detail));
        }
        let sum = crc32c::crc32c(&words);
        let filter = filters.load(&words)?.filter(|_| sum == footer.filter_sum);
        let Some(filter) = filter else {
            let detail = "the checksum of the filter is wrong";
            return Err(damage(&name, footer.filter_at, detail));
        };
        let (mut places, mut firsts) = (Vec::new(), Vec::new());
        let read = read_places(&index, |place, first| {
            places.push(place);
            firsts.extend(first);
        });
        let spans = read.and_then(|()| spans(&places, footer.index_at));
        let Some(spans) = spans else {
            return Err(damage(&name, footer.index_at, "it is no index"));
        };
        Ok(Self {
            name,
            number,
            bytes,
            entries: footer.entries,
            filter,
            file: RefCell::new(Reader::new(file, places.len())),
            places,
            spans,
            firsts,
        })
    }

    /// The trees that it has entries of, ascending.
    pub(crate) fn trees(&self) -> impl Iterator<Item = TreeId> {
        self.spans.iter().map(|span| span.tree)
    }

    /// Offset of a block in the file.
    pub(super) fn offset(&self, block: usize) -> u64 {
        self.places[block].offset
    }

    fn span(&self, tree: TreeId) -> Option<&Span> {
        let found = self.spans.binary_search_by_key(&tree, |span| span.tree);
        Some(&self.spans[found.ok()?])
    }

    /// Number of the last block of the tree whose first key is not greater than `key`, or else of
    /// its first block.
    fn block_of(&self, span: &Span, key: &[u64]) -> usize {
        let words = span.key_words;
        let firsts = &self.firsts[span.firsts..span.firsts + span.blocks.len() * words];
        let behind = if let &[word] = key {
            firsts.partition_point(|first| *first <= word)
        } else {
            let (mut low, mut high) = (0, span.blocks.len());
            while low < high {
                let middle = usize::midpoint(low, high);
                if firsts[middle * words..(middle + 1) * words] <= *key {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            low
        };
        span.blocks.start + behind.saturating_sub(1)
    }

    /// The blocks in which keys of the tree from `low` to `high` may lie.
    pub(super) fn blocks_of(&self, tree: TreeId, low: &[u64], high: &[u64]) -> Range<usize> {
        match self.span(tree) {
            Some(span) if span.key_words == low.len() => {
                self.block_of(span, low)..self.block_of(span, high) + 1
            }
            _ => 0..0,
        }
    }

    /// Reads neighbouring blocks, at least one, into `buffer`, with one call. Their checksums are
    /// not checked yet.
    pub(super) fn read(&self, blocks: Range<usize>, buffer: &mut Vec<u8>) -> Result<()> {
        let (first, last) = (self.places[blocks.start], self.places[blocks.end - 1]);
        let end = last.offset + u64::from(last.bytes);
        buffer.resize((end - first.offset) as usize, 0);
        let mut reader = self.file.borrow_mut();
        reader.file.read_at(first.offset, buffer)?;
        Ok(())
    }

    /// Checks a block that [`Run::read`] has read, with which `bytes` begin, and lets `look` see
    /// it.
    pub(super) fn open_block<T>(
        &self,
        number: usize,
        bytes: &[u8],
        look: impl FnOnce(Block<'_>) -> Option<T>,
    ) -> Result<T> {
        self.look(number, bytes, Block::open, look)
    }

    /// As [`Run::open_block`], for a block that [`Run::copy_block`] has copied.
    pub(super) fn open_copy<T>(
        &self,
        number: usize,
        bytes: &[u8],
        look: impl FnOnce(Block<'_>) -> Option<T>,
    ) -> Result<T> {
        self.look(number, bytes, Block::open_unchecked, look)
    }

    fn look<'b, T>(
        &self,
        number: usize,
        bytes: &'b [u8],
        open: impl FnOnce(&'b [u8], usize) -> std::result::Result<Block<'b>, &'static str>,
        look: impl FnOnce(Block<'_>) -> Option<T>,
    ) -> Result<T> {
        let place = self.places[number];
        let damaged = |detail: &str| damage(&self.name, place.offset, detail);
        let bytes = &bytes[..place.bytes as usize];
        let block = open(bytes, place.key_words as usize).map_err(damaged)?;
        look(block).ok_or_else(|| damaged("an entry leaves its block"))
    }

    /// Reads a block, out of the cache if it is there, and lets `look` see it.
    pub(super) fn with_block<M: Memory, T>(
        &self,
        cache: &RefCell<BlockCache<M>>,
        number: usize,
        look: impl FnOnce(Block<'_>) -> Option<T>,
    ) -> Result<T> {
        let place = self.places[number];
        let damaged = |detail: &str| damage(&self.name, place.offset, detail);
        let key_words = place.key_words as usize;
        let mut reader = self.file.borrow_mut();
        let reader = &mut *reader;
        let mut cache = cache.borrow_mut();
        let slot = &mut reader.slots[number];
        let found = if let Some(bytes) = cache.get(*slot, self.number, number)? {
            look(Block::open_unchecked(bytes, key_words).map_err(damaged)?)
        } else {
            reader.block.resize(place.bytes as usize, 0);
            reader.file.read_at(place.offset, &mut reader.block)?;
            let block = Block::open(&reader.block, key_words).map_err(damaged)?;
            let put = cache.put(self.number, number, &reader.block)?;
            *slot = put.unwrap_or(NO_SLOT);
            look(block)
        };
        found.ok_or_else(|| damaged("an entry leaves its block"))
    }

    /// Copies a block, out of the cache if it is there, into `buffer`. It is whole.
    pub(super) fn copy_block<M: Memory>(
        &self,
        cache: &RefCell<BlockCache<M>>,
        number: usize,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        self.with_block(cache, number, |block| {
            buffer.clear();
            buffer.extend_from_slice(block.bytes());
            Some(())
        })
    }

    /// The block in which a key may lie, whose beginning is prefetched if it is in the cache.
    pub(crate) fn prefetch<M: Memory>(
        &self,
        cache: &RefCell<BlockCache<M>>,
        tree: TreeId,
        key: &[u64],
    ) -> Option<usize> {
        let span = self.span(tree).filter(|span| span.key_words == key.len())?;
        let number = self.block_of(span, key);
        cache.borrow().prefetch(self.file.borrow().slots[number]);
        Some(number)
    }

    /// Hands the run's entry for a key of a tree to `look`.
    #[inline]
    pub(crate) fn get<M: Memory, T>(
        &self,
        cache: &RefCell<BlockCache<M>>,
        tree: TreeId,
        key: &[u64],
        look: impl FnOnce(EntryKind, &[u8]) -> T,
    ) -> Result<Option<T>> {
        let Some(span) = self.span(tree) else {
            return Ok(None);
        };
        if span.key_words != key.len() {
            return Err(damage(&self.name, 0, "a key has a wrong length"));
        }
        let number = self.block_of(span, key);
        self.get_in(cache, number, key, look)
    }

    /// As [`Run::get`], where the block in which the key may lie is known.
    #[inline]
    pub(crate) fn get_in<M: Memory, T>(
        &self,
        cache: &RefCell<BlockCache<M>>,
        number: usize,
        key: &[u64],
        look: impl FnOnce(EntryKind, &[u8]) -> T,
    ) -> Result<Option<T>> {
        self.with_block(cache, number, |block| {
            let index = block.lower_bound(key)?;
            if index == block.count {
                return Some(None);
            }
            let mut found = [0; MAX_KEY_WORDS];
            let found = &mut found[..key.len()];
            block.key(index, found)?;
            if *found != *key {
                return Some(None);
            }
            let (kind, bytes) = block.entry(index)?;
            Some(Some(look(kind, bytes)))
        })
    }

    /// Reads everything again and reports damage.
    pub(crate) fn check(&self, damage_found: &mut Vec<String>) {
        let mut entries = 0;
        let mut bytes = Vec::new();
        let mut last: Option<(TreeId, Vec<u64>)> = None;
        let mut firsts = &self.firsts[..];
        for (number, place) in self.places.iter().enumerate() {
            let first;
            (first, firsts) = firsts.split_at(place.key_words as usize);
            let read = self.read(number..number + 1, &mut bytes);
            let look = |block: Block<'_>| {
                for index in 0..block.count {
                    let mut key = vec![0; place.key_words as usize];
                    block.key(index, &mut key)?;
                    block.entry(index)?;
                    let next = (place.tree, key);
                    if last.as_ref().is_some_and(|last| *last >= next) {
                        damage_found.push(format!("{}: keys out of order", self.name));
                    }
                    if index == 0 && next.1 != first {
                        damage_found.push(format!("{}: the index is wrong", self.name));
                    }
                    last = Some(next);
                    entries += 1;
                }
                Some(())
            };
            if let Err(error) = read.and_then(|()| self.open_block(number, &bytes, look)) {
                damage_found.push(error.to_string());
            }
        }
        if entries != self.entries {
            damage_found.push(format!(
                "{}: {entries} entries instead of {}",
                self.name, self.entries
            ));
        }
    }
}

fn read_part<F: File>(file: &mut F, at: u64, bytes: u64) -> Result<Vec<u8>> {
    let mut part = vec![0; bytes as usize];
    file.read_at(at, &mut part)?;
    Ok(part)
}
