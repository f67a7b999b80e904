//! The bytes of a page.
//!
//! ```text
//! word 0  magic (16 bits) | level (8) | kind (8) | words of a key (8) | words of a value (8) | 0
//! word 1  linear checksum over all other words, set when the page is written
//! word 2  entries (32 bits) | byte at which contents begin (32 bits)
//! word 3  sequence number of the group that wrote the page
//! words   entries in key order: key words, then one reference (inner node) or the value's words
//!         (leaf)
//! bytes   contents of values, from the end of the page downwards
//! ```
//!
//! A node of level 0 is a leaf. Values of a leaf have a fixed number of words, or 0 of them: then
//! the one word of an entry points to the content, in this page or in a chain of long pages. In an
//! inner node the key of an entry is the least one below it; the first entry's key is never read. A
//! long page (kind 1) has in word 2 the bytes of its part and of the whole value, in word 3 the
//! next part, in word 4 the sequence number, and its part from word 5 on.
//!
//! Unreferenced contents stay until the page is rebuilt. The order of entries and every range is
//! checked before it is followed, so a damaged page is an error and never a panic.

use super::{DIRTY, INLINE};
use pmem::{Arena, Memory, PmemError};
use storage::record::checksum::{SALT, delta, delta_word, weighted_sum};
use storage::{Result, StorageError};

const MAGIC: u64 = 0xc0b7;
pub(super) const HEADER_WORDS: usize = 4;
pub(super) const HEADER_BYTES: usize = 8 * HEADER_WORDS;
/// Levels of a tree; no page has entries for more.
pub(super) const LEVELS_MAX: u8 = 24;
/// A long page's own words.
pub(super) const LONG_HEADER_BYTES: usize = 8 * 5;

/// Kind of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Node = 0,
    Long = 1,
    List = 2,
}

/// A page somewhere in memory.
#[derive(Clone, Copy)]
pub struct PageView<'a, M: Memory> {
    arena: &'a Arena<M>,
    at: u64,
}

impl<'a, M: Memory> PageView<'a, M> {
    pub(crate) fn new(arena: &'a Arena<M>, at: u64) -> Self {
        Self { arena, at }
    }

    #[inline(always)]
    pub(super) fn word(&self, word: usize) -> Result<u64> {
        Ok(self.arena.word(self.at + word as u64 * 8)?)
    }

    #[inline(always)]
    pub(super) fn words(&self, word: usize, count: usize) -> Result<&'a [u64]> {
        Ok(self.arena.slice(self.at + word as u64 * 8, count)?)
    }

    #[inline(always)]
    pub(super) fn bytes(&self, byte: usize, count: usize) -> Result<&'a [u8]> {
        Ok(self.arena.bytes(self.at + byte as u64, count)?)
    }

    /// Offset of the page, for a message.
    pub(super) fn offset(&self) -> u64 {
        self.at
    }
}

/// Sizes of the entries of one tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Words of a key.
    pub key_words: usize,
    /// Words of a value; 0 for contents of any length.
    pub value_words: usize,
}

impl Shape {
    /// Least entries of a page.
    const FANOUT_MIN: usize = 3;

    /// The shape of a tree in pages of `page_bytes`; an error if too few of its entries fit one.
    pub fn new(page_bytes: usize, key_words: usize, value_words: usize) -> Result<Self> {
        let shape = Self {
            page_bytes,
            key_words,
            value_words,
        };
        let longest = shape.entry_bytes(0).max(shape.entry_bytes(1));
        if HEADER_BYTES + Self::FANOUT_MIN * longest > page_bytes {
            return Err(StorageError::Unsupported(format!(
                "pages of {page_bytes} bytes are too small for entries of {longest}; \
                 create the database with larger index nodes"
            )));
        }
        Ok(shape)
    }

    pub(super) fn has_contents(&self, level: u8) -> bool {
        level == 0 && self.value_words == 0
    }

    #[inline(always)]
    pub(super) fn entry_words(&self, level: u8) -> usize {
        self.key_words
            + if level == 0 {
                self.value_words.max(1)
            } else {
                1
            }
    }

    pub(super) fn entry_bytes(&self, level: u8) -> usize {
        8 * self.entry_words(level)
    }

    /// Bytes that entries and contents may take.
    pub(super) fn capacity(&self) -> usize {
        self.page_bytes - HEADER_BYTES
    }

    /// Longest content that lies in the leaf: two of them always fit.
    pub(super) fn inline_bytes_max(&self) -> usize {
        (self.capacity() / 2 - self.entry_bytes(0)) & !7
    }

    #[inline(always)]
    pub(super) fn meta(&self, level: u8) -> u64 {
        MAGIC
            | u64::from(level) << 16
            | (Kind::Node as u64) << 24
            | (self.key_words as u64) << 32
            | (self.value_words as u64) << 40
    }
}

/// First word of a page that is no node.
pub(super) fn other_meta(kind: Kind) -> u64 {
    MAGIC | (kind as u64) << 24
}

/// A node whose header was checked.
#[derive(Clone, Copy)]
pub(super) struct Node<'a, M: Memory> {
    view: PageView<'a, M>,
    shape: Shape,
    pub(super) level: u8,
    pub(super) count: usize,
    pub(super) contents_at: usize,
}

impl<'a, M: Memory> Node<'a, M> {
    /// Looks at a page, which must be a node of this shape.
    #[inline(always)]
    pub(super) fn open(view: PageView<'a, M>, shape: Shape) -> Result<Self> {
        let header = view.words(0, 3)?;
        let level = (header[0] >> 16) as u8;
        let count = header[2] as u32 as usize;
        let contents_at = (header[2] >> 32) as usize;
        let entries_end = HEADER_BYTES + count * shape.entry_bytes(level);
        if header[0] != shape.meta(level)
            || level > LEVELS_MAX
            || entries_end > contents_at
            || contents_at > shape.page_bytes
        {
            return Err(damaged(view.offset(), format!("its header is {header:x?}")));
        }
        Ok(Self {
            view,
            shape,
            level,
            count,
            contents_at,
        })
    }

    /// Fails unless the node is one level below `above`: a damaged reference cannot make a cycle.
    #[inline(always)]
    pub(super) fn expect_below(&self, above: u8) -> Result<()> {
        if self.level + 1 == above && (self.count > 0) {
            return Ok(());
        }
        let text = format!(
            "level {} with {} entries below {above}",
            self.level, self.count
        );
        Err(damaged(self.view.offset(), text))
    }

    /// Fails unless the node is one level below `above`, or can be a root, which has an entry if it
    /// is no leaf.
    #[inline(always)]
    pub(super) fn expect_place(&self, above: Option<u8>, reference: u64) -> Result<()> {
        match above {
            Some(above) => self.expect_below(above),
            None if self.level == 0 || self.count > 0 => Ok(()),
            None => Err(damaged(
                reference,
                "an inner node without entries".to_owned(),
            )),
        }
    }

    #[inline(always)]
    fn entry_at(&self, index: usize) -> usize {
        HEADER_WORDS + index * self.shape.entry_words(self.level)
    }

    #[inline(always)]
    pub(super) fn key(&self, index: usize) -> Result<&'a [u64]> {
        self.view.words(self.entry_at(index), self.shape.key_words)
    }

    /// The words after an entry's key.
    #[inline(always)]
    pub(super) fn value(&self, index: usize) -> Result<&'a [u64]> {
        let key_words = self.shape.key_words;
        self.view.words(
            self.entry_at(index) + key_words,
            self.shape.entry_words(self.level) - key_words,
        )
    }

    /// The first word after an entry's key: a reference, a value, or where the content is.
    #[inline(always)]
    pub(super) fn value_word(&self, index: usize) -> Result<u64> {
        self.view.word(self.entry_at(index) + self.shape.key_words)
    }

    /// `first` plus the number of keys from there on that are less than `key`, or also equal.
    #[inline(always)]
    fn boundary(&self, first: usize, key: &[u64], and_equal: bool) -> Result<usize> {
        let (mut low, mut high) = (first, self.count);
        if let &[key] = key {
            while low < high {
                let middle = usize::midpoint(low, high);
                let found = self.view.word(self.entry_at(middle))?;
                if found < key || and_equal && found == key {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            return Ok(low);
        }
        while low < high {
            let middle = usize::midpoint(low, high);
            let found = self.key(middle)?;
            if found < key || and_equal && found == key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The byte of an entry.
    #[inline(always)]
    pub(super) fn entry_byte(&self, index: usize) -> usize {
        8 * self.entry_at(index)
    }

    /// Position where a search for `key` ends: in an inner node after an equal key.
    #[inline(always)]
    pub(super) fn place(&self, key: &[u64]) -> Result<usize> {
        let is_inner = self.level > 0;
        self.boundary(usize::from(is_inner), key, is_inner)
    }

    /// One step of a search: `low` entries are before the position of `key`, those from `high` on
    /// are after it. In an inner node the position is after an equal key.
    #[inline(always)]
    pub(super) fn narrow(&self, key: &[u64], low: &mut usize, high: &mut usize) -> Result<()> {
        let middle = usize::midpoint(*low, *high);
        let found = self.key(middle)?;
        if found < key || self.level > 0 && found == key {
            *low = middle + 1;
        } else {
            *high = middle;
        }
        Ok(())
    }

    /// Position of `key`, or where it belongs.
    #[inline(always)]
    pub(super) fn find(&self, key: &[u64]) -> Result<Result<usize, usize>> {
        let at = self.place(key)?;
        Ok(if at < self.count && self.key(at)? == key {
            Ok(at)
        } else {
            Err(at)
        })
    }

    /// Index of the child to which `key` belongs.
    #[inline(always)]
    pub(super) fn child_index(&self, key: &[u64]) -> Result<usize> {
        Ok(self.place(key)? - 1)
    }

    /// The content in this page that a value word points to.
    pub(super) fn content(&self, word: u64) -> Result<&'a [u8]> {
        let (at, bytes) = inline_range(word);
        if at < self.contents_at || at + bytes > self.shape.page_bytes {
            return Err(damaged(
                self.view.offset(),
                "a content leaves it".to_owned(),
            ));
        }
        self.view.bytes(at, bytes)
    }

    /// Bytes of a page that entries and referred contents take.
    pub(super) fn used_bytes(&self) -> Result<usize> {
        let mut bytes = self.count * self.shape.entry_bytes(self.level);
        if self.shape.has_contents(self.level) {
            for index in 0..self.count {
                let word = self.value_word(index)?;
                if word & INLINE != 0 {
                    bytes += inline_range(word).1.next_multiple_of(8);
                }
            }
        }
        Ok(bytes)
    }

    /// Bytes that one entry takes with its content.
    pub(super) fn entry_size(&self, index: usize) -> Result<usize> {
        let bytes = self.shape.entry_bytes(self.level);
        if !self.shape.has_contents(self.level) {
            return Ok(bytes);
        }
        let word = self.value_word(index)?;
        let content = if word & INLINE == 0 {
            0
        } else {
            inline_range(word).1
        };
        Ok(bytes + content.next_multiple_of(8))
    }

    /// The whole entry's bytes.
    pub(super) fn entry_bytes(&self, index: usize) -> Result<&'a [u8]> {
        self.view
            .bytes(8 * self.entry_at(index), self.shape.entry_bytes(self.level))
    }

    /// The bytes of the entries from `first` on.
    pub(super) fn entries_from(&self, first: usize) -> Result<&'a [u8]> {
        self.view.bytes(
            8 * self.entry_at(first),
            (self.count - first) * self.shape.entry_bytes(self.level),
        )
    }

    /// Adds entries to an image.
    pub(super) fn copy_to(&self, image: &mut Image, range: std::ops::Range<usize>) -> Result<()> {
        for index in range {
            let entry = self.entry_bytes(index)?;
            if self.shape.has_contents(self.level) {
                let word = self.value_word(index)?;
                let content = (word & INLINE != 0)
                    .then(|| self.content(word))
                    .transpose()?;
                image.push(entry, content);
            } else {
                image.push(entry, None);
            }
        }
        Ok(())
    }
}

/// Start and length of a content in its page.
#[inline]
pub(super) fn inline_range(word: u64) -> (usize, usize) {
    ((word >> 32) as usize, (word as u32 >> 2) as usize)
}

/// The value word of a content in its page.
#[inline]
pub(super) fn inline_word(at: usize, bytes: usize) -> u64 {
    (at as u64) << 32 | (bytes as u64) << 2 | INLINE
}

/// Word 2 of a node.
pub(super) fn count_word(count: usize, contents_at: usize) -> u64 {
    count as u64 | (contents_at as u64) << 32
}

/// The bytes of a node that is being made.
pub(super) struct Image {
    shape: Shape,
    level: u8,
    pub(super) bytes: Vec<u8>,
    pub(super) count: usize,
    contents_at: usize,
}

impl Image {
    pub(super) fn new(shape: Shape, level: u8) -> Self {
        let mut bytes = vec![0; shape.page_bytes];
        bytes[..8].copy_from_slice(&shape.meta(level).to_le_bytes());
        Self {
            shape,
            level,
            bytes,
            count: 0,
            contents_at: shape.page_bytes,
        }
    }

    /// Adds an entry after the others. A content becomes part of the page, and the entry's last
    /// word points to it.
    pub(super) fn push(&mut self, entry: &[u8], content: Option<&[u8]>) {
        let at = HEADER_BYTES + self.count * self.shape.entry_bytes(self.level);
        self.bytes[at..at + entry.len()].copy_from_slice(entry);
        if let Some(content) = content {
            self.contents_at -= content.len().next_multiple_of(8);
            let place = self.contents_at;
            self.bytes[place..place + content.len()].copy_from_slice(content);
            let word = inline_word(place, content.len()).to_le_bytes();
            self.bytes[at + entry.len() - 8..at + entry.len()].copy_from_slice(&word);
        }
        self.count += 1;
    }

    /// Changes the key of an entry that was pushed.
    pub(super) fn set_key(&mut self, index: usize, key: &[u8]) {
        let at = HEADER_BYTES + index * self.shape.entry_bytes(self.level);
        self.bytes[at..at + key.len()].copy_from_slice(key);
    }

    /// The finished bytes, but for the checksum.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let word = count_word(self.count, self.contents_at);
        self.bytes[16..24].copy_from_slice(&word.to_le_bytes());
        self.bytes
    }
}

/// Word `index` of a page's bytes.
pub(super) fn word_of(page: &[u8], index: usize) -> u64 {
    page.get(8 * index..8 * index + 8)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

/// The checksum that a page should have.
pub(super) fn checksum(page: &[u8]) -> u64 {
    SALT.wrapping_add(weighted_sum(&page[..8], 0))
        .wrapping_add(weighted_sum(&page[16..], 2))
}

/// Calls `found` with the place and the word of every reference to a dirty page. The page was made
/// here, so it is sound.
fn dirty_references(page: &[u8], mut found: impl FnMut(usize, u64)) {
    let (words, _) = page.as_chunks::<8>();
    let meta = word_of(page, 0);
    let (first, step, count) = if (meta >> 24) as u8 == Kind::Long as u8 {
        (3, 1, 1)
    } else {
        let (level, key_words) = ((meta >> 16) as u8, (meta >> 32) as u8 as usize);
        if level == 0 && (meta >> 40) as u8 > 0 {
            return;
        }
        let count = word_of(page, 2) as u32 as usize;
        (HEADER_WORDS + key_words, key_words + 1, count)
    };
    let entries = words.iter().enumerate().skip(first).step_by(step);
    for (number, word) in entries.take(count) {
        let word = u64::from_le_bytes(*word);
        if word & (DIRTY | INLINE) == DIRTY {
            found(8 * number, word);
        }
    }
}

/// The words of a page that are settled when it is written, but for the checksum: references to
/// dirty pages become places, and the group's number is set. `words` gets the byte of each with the
/// new word.
pub(super) fn words_to_settle(
    page: &[u8],
    sequence: u64,
    resolve: impl Fn(u64) -> u64,
    words: &mut Vec<(usize, u64)>,
) {
    words.clear();
    dirty_references(page, |at, reference| words.push((at, resolve(reference))));
    let is_long = (word_of(page, 0) >> 24) as u8 == Kind::Long as u8;
    words.push((if is_long { 32 } else { 24 }, sequence));
}

/// Change of a page's checksum when bytes of it change from `old` to `new`, which have the same
/// length. `at` is a multiple of 8.
pub(super) fn sum_of_change(at: usize, old: &[u8], new: &[u8]) -> u64 {
    let whole = old.len() & !7;
    let mut sum = delta(&old[..whole], &new[..whole], at);
    if whole < old.len() {
        let padded = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
            u64::from_le_bytes(word)
        };
        let position = (at + whole) / 8;
        sum = sum.wrapping_add(delta_word(padded(old), padded(new), position));
    }
    sum
}

#[cold]
pub(super) fn damaged(offset: u64, detail: String) -> StorageError {
    PmemError::corrupted("page of a copy-on-write tree", offset, detail).into()
}
