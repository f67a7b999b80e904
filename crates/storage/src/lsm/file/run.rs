//! Runs in files: written from front to back, read block by block.
//!
//! A run keeps the index of its blocks in memory and its filter with the others; the block that was read last is kept too, because
//! an update reads a row twice. Every block that is read has its checksum checked.

use super::format::{
    BLOCK_BYTES, Block, BlockBuilder, BlockPlace, FOOTER_BYTES, Footer, damage, push_place,
    read_places,
};
use super::mem_table::TreeId;
use crate::error::Result;
use crate::log::LogIdentity;
use crate::lsm::entry::EntryKind;
use crate::lsm::filter::{Filter, Filters, hash};
use crate::record::MAX_KEY_WORDS;
use disk::{Directory, File};
use pmem::{Memory, site};
use std::cell::RefCell;

/// The kind of file in a run's name.
pub(crate) const KIND: &str = "run";
/// Bytes that are handed to the file in one call.
const WRITE_BYTES: usize = 256 << 10;
/// Written bytes after which a sync is made, so that the last one has little to do.
const SYNC_BYTES: u64 = 8 << 20;
/// Words that are added to a key for its filter: the tree.
const HASHED_WORDS: usize = MAX_KEY_WORDS + 1;

/// The hash with which a filter is asked about a key of a tree.
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
    places: Vec<BlockPlace>,
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
        let place = BlockPlace {
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

    /// Writes what is left and syncs: the content is durable when this returns, the name is not.
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
        Ok(Run {
            name: self.identity.file_name(KIND, self.number),
            number: self.number,
            bytes: self.written,
            entries: self.entries,
            filter: self.filter,
            places: self.places,
            first_at: Vec::new(),
            firsts: self.firsts,
            file: RefCell::new(Reader {
                file: self.file,
                block: Vec::new(),
                number: None,
            }),
        }
        .with_first_at())
    }
}

/// A file, and the block that was read last.
struct Reader<F> {
    file: F,
    block: Vec<u8>,
    number: Option<usize>,
}

/// A run that is finished.
pub(crate) struct Run<F: File> {
    name: String,
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    pub(crate) filter: Filter,
    places: Vec<BlockPlace>,
    /// Where each block's first key begins in `firsts`.
    first_at: Vec<usize>,
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
        if read.is_none() {
            return Err(damage(&name, footer.index_at, "it is no index"));
        }
        Ok(Self {
            name,
            number,
            bytes,
            entries: footer.entries,
            filter,
            places,
            first_at: Vec::new(),
            firsts,
            file: RefCell::new(Reader {
                file,
                block: Vec::new(),
                number: None,
            }),
        }
        .with_first_at())
    }

    fn with_first_at(mut self) -> Self {
        let mut at = 0;
        for place in &self.places {
            self.first_at.push(at);
            at += place.key_words as usize;
        }
        self
    }

    /// The trees that it has entries of, ascending.
    pub(crate) fn trees(&self) -> impl Iterator<Item = TreeId> {
        let mut last = None;
        self.places
            .iter()
            .map(|place| place.tree)
            .filter(move |tree| last.replace(*tree) != Some(*tree))
    }

    /// Where a block lies; none behind the last.
    pub(crate) fn place(&self, block: usize) -> Option<&BlockPlace> {
        self.places.get(block)
    }

    fn first(&self, block: usize) -> &[u64] {
        let at = self.first_at[block];
        &self.firsts[at..at + self.places[block].key_words as usize]
    }

    /// Number of the last block of the tree whose first key is not greater than `key`, or else of its first block.
    pub(crate) fn block_of(&self, tree: TreeId, key: &[u64]) -> Option<usize> {
        let start = self.places.partition_point(|place| place.tree < tree);
        let (mut low, mut high) = (
            start,
            self.places.partition_point(|place| place.tree <= tree),
        );
        if low == high {
            return None;
        }
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.first(middle) <= key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Some(low.saturating_sub(1).max(start))
    }

    /// Reads a block and lets `look` see it.
    pub(crate) fn with_block<T>(
        &self,
        number: usize,
        look: impl FnOnce(Block<'_>) -> Option<T>,
    ) -> Result<T> {
        let place = self.places[number];
        let damaged = |detail: &str| damage(&self.name, place.offset, detail);
        let mut reader = self.file.borrow_mut();
        let reader = &mut *reader;
        let key_words = place.key_words as usize;
        let block = if reader.number == Some(number) {
            Block::open_unchecked(&reader.block, key_words)
        } else {
            if place.offset.saturating_add(u64::from(place.bytes)) > self.bytes {
                return Err(damaged("a block leaves the file"));
            }
            reader.number = None;
            reader.block.resize(place.bytes as usize, 0);
            reader.file.read_at(place.offset, &mut reader.block)?;
            let block = Block::open(&reader.block, key_words);
            if block.is_ok() {
                reader.number = Some(number);
            }
            block
        };
        let block = block.map_err(damaged)?;
        look(block).ok_or_else(|| damaged("an entry leaves its block"))
    }

    /// What the run says about a key of a tree.
    #[inline]
    pub(crate) fn get<T>(
        &self,
        tree: TreeId,
        key: &[u64],
        look: impl FnOnce(EntryKind, &[u8]) -> T,
    ) -> Result<Option<T>> {
        let Some(number) = self.block_of(tree, key) else {
            return Ok(None);
        };
        if self.places[number].key_words as usize != key.len() {
            return Err(damage(&self.name, 0, "a key has a wrong length"));
        }
        self.with_block(number, |block| {
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

    /// Reads everything again and says what is wrong.
    pub(crate) fn check(&self, damage_found: &mut Vec<String>) {
        self.file.borrow_mut().number = None;
        let mut entries = 0;
        let mut last: Option<(TreeId, Vec<u64>)> = None;
        for (number, place) in self.places.iter().enumerate() {
            let checked = self.with_block(number, |block| {
                for index in 0..block.count {
                    let mut key = vec![0; place.key_words as usize];
                    block.key(index, &mut key)?;
                    block.entry(index)?;
                    let next = (place.tree, key);
                    if last.as_ref().is_some_and(|last| *last >= next) {
                        damage_found.push(format!("{}: keys out of order", self.name));
                    }
                    if index == 0 && next.1 != self.first(number) {
                        damage_found.push(format!("{}: the index is wrong", self.name));
                    }
                    last = Some(next);
                    entries += 1;
                }
                Some(())
            });
            if let Err(error) = checked {
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
