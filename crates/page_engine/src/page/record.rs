//! Records of the page engine's log, and the entries by which a transaction is undone.
//!
//! ```text
//! record   tag u8 | head | sections, until the record ends
//! head     1 change         –: redone, never undone (splits, merges, new pages of an index)
//!          2 forward        transaction u64 | undo entry, with its length
//!          3 compensation   transaction u64 | entries that are left to undo u32
//!          4 commit         transaction u64 | time u64 | pages to free
//!          5 abort          transaction u64 | pages to free: everything is undone
//!          6 prepare        transaction u64 | global transaction u64 | pages to free on commit
//!          7 freed          transaction u64: one of its pages is free now
//!          8 mark           number u64 | time u64: no transaction is open in any partition; the
//!                           logs of all partitions have this mark
//! time     microseconds since 1970, 0 without a clock. Numbers below 2^48 are no times: earlier
//!          versions counted commits there
//! pages    count u32 | numbers u32 each
//! undo     tag u8 | root of the tree u32 | key words u8, words u64 each | rest
//!          1 remove the key | 2 insert: long u8, value | 3 replace: long u8, value
//!          4 patch: offset u16, bytes | 5 free a page: its number instead of a root
//!          6 free a tree, by its root
//! ```
//!
//! All changes of one record are made together: a crash leaves the record or not, and recovery
//! repeats it on each page that does not have it. So a split, which touches several pages, is one
//! record and needs no undo. Rows are undone by key, because others may have moved them to another
//! page meanwhile; what an undo does is logged as a compensation, which is repeated and never
//! undone (ARIES, TODS 1992).
//!
//! Pages that a transaction gives up are freed after its end is in the log, which names them; a
//! crash in between leaves them to recovery.

use storage::clock;
use storage::engine::{GlobalTxnId, PageId};
use storage::record::{DecodeError, MAX_KEY_WORDS, Reader, Timestamp};

/// A transaction of the page engine; unique in the life of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxnId(pub u64);

impl TxnId {
    /// No transaction has this number or a higher one: so many are never begun, and arithmetic on
    /// numbers does not overflow.
    pub const END: Self = Self(1 << 62);
}

/// Kind of a record and its fields, apart from its changes of pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head<'b> {
    /// Redone, never undone.
    Change,
    /// A transaction's change and how it is undone.
    Forward(TxnId, &'b [u8]),
    /// One undo entry's work; this number of entries is left.
    Compensation(TxnId, u32),
    /// The transaction is committed, at this time if there is a clock; these pages are free then.
    Commit(TxnId, Option<Timestamp>, Vec<PageId>),
    /// The transaction is undone; these pages are free then.
    Abort(TxnId, Vec<PageId>),
    /// The transaction's fate is in the commit table.
    Prepare(TxnId, GlobalTxnId, Vec<PageId>),
    /// One of the pages that the transaction's end names is free.
    Freed(TxnId),
    /// No transaction is open, in this partition or another one: a moment that the logs of all
    /// partitions know.
    Mark(GlobalTxnId, Option<Timestamp>),
}

fn put_pages(pages: &[PageId], out: &mut Vec<u8>) {
    out.extend_from_slice(&(pages.len() as u32).to_le_bytes());
    for page in pages {
        out.extend_from_slice(&page.0.to_le_bytes());
    }
}

fn take_pages(reader: &mut Reader<'_>) -> Result<Vec<PageId>, DecodeError> {
    const WHAT: &str = "pages to free";
    let count = reader.number(WHAT)? as usize;
    let mut numbers = Reader::new(reader.take(WHAT, count.saturating_mul(4))?);
    (0..count)
        .map(|_| numbers.number(WHAT).map(PageId))
        .collect()
}

impl<'b> Head<'b> {
    /// Appends the head of a record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut tagged = |tag: u8, txn: TxnId| {
            out.push(tag);
            out.extend_from_slice(&txn.0.to_le_bytes());
        };
        match self {
            Self::Change => out.push(1),
            Self::Forward(txn, undo) => {
                tagged(2, *txn);
                out.extend_from_slice(&(undo.len() as u32).to_le_bytes());
                out.extend_from_slice(undo);
            }
            Self::Compensation(txn, left) => {
                tagged(3, *txn);
                out.extend_from_slice(&left.to_le_bytes());
            }
            Self::Commit(txn, time, pages) => {
                tagged(4, *txn);
                out.extend_from_slice(&clock::encode(*time).to_le_bytes());
                put_pages(pages, out);
            }
            Self::Abort(txn, pages) => {
                tagged(5, *txn);
                put_pages(pages, out);
            }
            Self::Prepare(txn, global, pages) => {
                tagged(6, *txn);
                out.extend_from_slice(&global.0.to_le_bytes());
                put_pages(pages, out);
            }
            Self::Freed(txn) => tagged(7, *txn),
            Self::Mark(number, time) => {
                out.push(8);
                out.extend_from_slice(&number.0.to_le_bytes());
                out.extend_from_slice(&clock::encode(*time).to_le_bytes());
            }
        }
    }

    /// Takes the head of a record; its sections are what the reader has left.
    pub fn decode(reader: &mut Reader<'b>) -> Result<Self, DecodeError> {
        const WHAT: &str = "a log record";
        let tag = reader.byte(WHAT)?;
        if tag == 1 {
            return Ok(Self::Change);
        }
        let mut long = || reader.array(WHAT).map(u64::from_le_bytes);
        if tag == 8 {
            return Ok(Self::Mark(GlobalTxnId(long()?), clock::decode(long()?)));
        }
        let txn = TxnId(long()?);
        if txn >= TxnId::END {
            return Err(DecodeError::Unknown {
                what: "a number of a transaction",
                found: txn.0,
            });
        }
        Ok(match tag {
            2 => Self::Forward(txn, reader.content(WHAT)?),
            3 => Self::Compensation(txn, reader.number(WHAT)?),
            4 => {
                let time = clock::decode(long()?);
                Self::Commit(txn, time, take_pages(reader)?)
            }
            5 => Self::Abort(txn, take_pages(reader)?),
            6 => Self::Prepare(txn, GlobalTxnId(long()?), take_pages(reader)?),
            7 => Self::Freed(txn),
            found => {
                return Err(DecodeError::Unknown {
                    what: WHAT,
                    found: found.into(),
                });
            }
        })
    }
}

/// Undo of one change of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undo<'b> {
    /// A cell goes.
    Remove(KeyOf<'b>),
    /// A cell comes back; whether its value is long.
    Insert(KeyOf<'b>, bool, &'b [u8]),
    /// A cell gets its old value; whether that is long.
    Replace(KeyOf<'b>, bool, &'b [u8]),
    /// A value gets old bytes from an offset on.
    Patch(KeyOf<'b>, u16, &'b [u8]),
    /// A page is not needed.
    FreePage(PageId),
    /// A tree is not needed.
    FreeTree(PageId),
}

/// A key of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyOf<'b> {
    /// The tree, by its root.
    pub root: PageId,
    /// The key's words as bytes.
    pub key: &'b [u8],
}

impl<'b> Undo<'b> {
    /// The key whose cell comes back, changes or goes; none if the entry is of a whole page or
    /// tree.
    pub fn key(&self) -> Option<KeyOf<'b>> {
        match *self {
            Self::Remove(at)
            | Self::Insert(at, ..)
            | Self::Replace(at, ..)
            | Self::Patch(at, ..) => Some(at),
            Self::FreePage(_) | Self::FreeTree(_) => None,
        }
    }

    /// Appends the entry.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut head = |tag: u8, at: &KeyOf<'_>| {
            out.push(tag);
            out.extend_from_slice(&at.root.0.to_le_bytes());
            out.push((at.key.len() / 8) as u8);
            out.extend_from_slice(at.key);
        };
        match self {
            Self::Remove(at) => head(1, at),
            Self::Insert(at, is_long, value) | Self::Replace(at, is_long, value) => {
                head(
                    if matches!(self, Self::Insert(..)) {
                        2
                    } else {
                        3
                    },
                    at,
                );
                out.push(u8::from(*is_long));
                out.extend_from_slice(value);
            }
            Self::Patch(at, offset, bytes) => {
                head(4, at);
                out.extend_from_slice(&offset.to_le_bytes());
                out.extend_from_slice(bytes);
            }
            Self::FreePage(page) | Self::FreeTree(page) => {
                out.push(if matches!(self, Self::FreePage(_)) {
                    5
                } else {
                    6
                });
                out.extend_from_slice(&page.0.to_le_bytes());
            }
        }
    }

    /// The entry in these bytes.
    pub fn decode(bytes: &'b [u8]) -> Result<Self, DecodeError> {
        const WHAT: &str = "an undo entry";
        let mut reader = Reader::new(bytes);
        let tag = reader.byte(WHAT)?;
        let root = PageId(reader.number(WHAT)?);
        match tag {
            5 => return Ok(Self::FreePage(root)),
            6 => return Ok(Self::FreeTree(root)),
            _ => {}
        }
        let key_words = usize::from(reader.byte(WHAT)?);
        if key_words > MAX_KEY_WORDS {
            return Err(DecodeError::Unknown {
                what: "a length of a key",
                found: key_words as u64,
            });
        }
        let key = reader.take(WHAT, key_words * 8)?;
        let at = KeyOf { root, key };
        let rest = |reader: &mut Reader<'b>| reader.take(WHAT, reader.remaining());
        Ok(match tag {
            1 => Self::Remove(at),
            2 => Self::Insert(at, reader.flag(WHAT)?, rest(&mut reader)?),
            3 => Self::Replace(at, reader.flag(WHAT)?, rest(&mut reader)?),
            4 => {
                let offset = u16::from_le_bytes(reader.array(WHAT)?);
                Self::Patch(at, offset, rest(&mut reader)?)
            }
            found => {
                return Err(DecodeError::Unknown {
                    what: WHAT,
                    found: found.into(),
                });
            }
        })
    }
}

/// The undo entries of one transaction, oldest first.
#[derive(Clone, Debug, Default)]
pub struct UndoEntries {
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

impl UndoEntries {
    /// Adds an entry.
    pub fn push(&mut self, entry: &[u8]) {
        self.starts.push(self.bytes.len());
        self.bytes.extend_from_slice(entry);
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Bytes of all entries.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// All of them, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let ends = self
            .starts
            .iter()
            .copied()
            .skip(1)
            .chain([self.bytes.len()]);
        let ranges = self.starts.iter().copied().zip(ends);
        ranges.map(|(start, end)| &self.bytes[start..end])
    }

    /// The newest entry.
    pub fn last(&self) -> Option<&[u8]> {
        self.starts.last().map(|&start| &self.bytes[start..])
    }

    /// Forgets the newest entry.
    pub fn pop(&mut self) {
        if let Some(start) = self.starts.pop() {
            self.bytes.truncate(start);
        }
    }

    /// Forgets all entries.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.starts.clear();
    }
}
