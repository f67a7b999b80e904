//! The master of a partition whose structures are copied on write in durable memory.
//!
//! A group of transactions writes new blocks only, then a *record* that says where the new
//! directory is and which words of the heap's bitmaps change with it, fences, and switches the
//! master word to the record: one 8-byte store. The bitmap words change in place afterwards; the
//! next group's first fence makes them durable, and until then recovery makes the same changes
//! again, which does no harm. So blocks become allocated and free in the same step in which the
//! directory changes, and no crash leaks one.
//!
//! Two records take turns, so the one that the master word names is never written to. A record that
//! is longer than its first piece continues in further ones, each twice as long as the one before;
//! they belong to the partition from then on.
//!
//! ```text
//! master block   [master word, alone in its line]
//!                [first piece of record 0][first piece of record 1]
//! master word    sequence (48 bits) | check (16 bits); record number = sequence % 2
//! record         crc32c u32 | 0 u32 | sequence u64 | bytes u64 | changes u64
//!                | global transaction u64, or 0 | base state | prepared state
//!                | { offset u64 | clear u64 | set u64 } of each change
//! state          directory u64 | kept pages u64 [8]
//!                | pieces of record 0 u64 [10] | pieces of record 1 u64 [10]
//! ```
//!
//! A record with a global transaction number is *prepared*: it leaves the base state in force, and
//! has the state that follows if the commit table has the transaction. Recovery then writes one
//! more record, without a number.

use crate::error::{Result, StorageError};
use pmem::{Arena, Memory, Owner, Part, PmemError, WordChange, site};

/// Bytes of the master block.
pub const MASTER_BYTES: usize = 16 << 10;
/// Pages that are reserved for deletions.
pub const KEPT_PAGES: usize = 8;

const LINE: u64 = 64;
/// Further pieces of a record, at most.
pub const PIECES: usize = 10;
const FIRST_PIECE_BYTES: usize = (MASTER_BYTES - LINE as usize) / 2 / LINE as usize * LINE as usize;
/// Bytes of the first further piece.
const PIECE_BYTES: usize = 32 << 10;
const HEADER_BYTES: usize = 40;
const STATE_WORDS: usize = 1 + KEPT_PAGES + 2 * PIECES;
const CHANGES_AT: usize = HEADER_BYTES + 2 * 8 * STATE_WORDS;
const CHANGE_BYTES: usize = 24;
const SEQUENCE_BITS: u32 = 48;

/// State that one record describes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MasterState {
    /// Root page of the directory; 0 if it is empty.
    pub directory: u64,
    /// Allocated pages that nothing uses yet; 0 where there is none.
    pub kept: [u64; KEPT_PAGES],
    pieces: [[u64; PIECES]; 2],
}

impl MasterState {
    /// The blocks that belong to the records.
    pub fn blocks(&self) -> impl Iterator<Item = u64> {
        let all = self.pieces.into_iter().flatten().chain(self.kept);
        all.filter(|&block| block != 0)
    }

    fn words(&self) -> [u64; STATE_WORDS] {
        let mut words = [0; STATE_WORDS];
        words[0] = self.directory;
        words[1..=KEPT_PAGES].copy_from_slice(&self.kept);
        for (record, pieces) in self.pieces.iter().enumerate() {
            words[1 + KEPT_PAGES + record * PIECES..][..PIECES].copy_from_slice(pieces);
        }
        words
    }

    fn read(bytes: &[u8]) -> Self {
        let word = |index: usize| read_word(bytes, 8 * index);
        Self {
            directory: word(0),
            kept: std::array::from_fn(|index| word(1 + index)),
            pieces: std::array::from_fn(|record| {
                std::array::from_fn(|piece| word(1 + KEPT_PAGES + record * PIECES + piece))
            }),
        }
    }
}

/// Content of the record that the master word names.
#[derive(Clone, Debug)]
pub struct MasterRecord {
    /// The state in force.
    pub base: MasterState,
    /// A transaction that is prepared, and the state if it commits.
    pub prepared: Option<(u64, MasterState)>,
    /// Changes of the heap's words; of the prepared transaction if there is one.
    pub changes: Vec<WordChange>,
}

/// The master word and the two records of one partition.
#[derive(Debug)]
pub struct NvMaster {
    base: u64,
    salt: u32,
    sequence: u64,
    /// State that the open group will commit.
    pub state: MasterState,
    image: Vec<u8>,
}

impl NvMaster {
    /// Formats the master block at `base`, with an empty directory. Durable when it returns;
    /// nothing leads to it before, so the record and the word share their fence.
    pub fn create<M: Memory>(
        arena: &mut Arena<M>,
        base: u64,
        salt: u32,
        state: MasterState,
    ) -> Result<Self> {
        let mut master = Self {
            base,
            salt,
            sequence: 0,
            state,
            image: Vec::new(),
        };
        master.write(arena, &state, None, &[])?;
        master.swing(arena)?;
        Ok(master)
    }

    /// Opens the master block at `base`.
    pub fn open<M: Memory>(arena: &Arena<M>, base: u64, salt: u32) -> Result<(Self, MasterRecord)> {
        arena.enter(Part::Log);
        let word = arena.word(base)?;
        let sequence = word & ((1 << SEQUENCE_BITS) - 1);
        if seal(sequence, salt) != word {
            let text = "its check bits are wrong";
            return Err(PmemError::corrupted("master word", base, text).into());
        }
        let mut master = Self {
            base,
            salt,
            sequence,
            state: MasterState::default(),
            image: Vec::new(),
        };
        let record = master.read(arena)?;
        master.state = record.base;
        Ok((master, record))
    }

    /// Number of the group that is in force.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Makes sure that the next `records` records have room for `changes` changes. The changes that
    /// new pieces need are added to `more`.
    pub fn ensure_room<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        records: u64,
        changes: usize,
        more: &mut Vec<WordChange>,
    ) -> Result<()> {
        for sequence in self.sequence + 1..=self.sequence + records {
            let number = (sequence % 2) as usize;
            let mut room = FIRST_PIECE_BYTES;
            for index in 0..PIECES {
                if room >= CHANGES_AT + (changes + more.len() + 1) * CHANGE_BYTES {
                    break;
                }
                if self.state.pieces[number][index] == 0 {
                    let owner = Owner {
                        part: Part::Log,
                        tag: 1,
                    };
                    let piece = arena.reserve(piece_bytes(index), owner)?;
                    more.push(arena.activate(piece)?);
                    self.state.pieces[number][index] = piece;
                }
                room += piece_bytes(index);
            }
            if room < CHANGES_AT + (changes + more.len()) * CHANGE_BYTES {
                let text = "the transaction changes too many blocks; split it";
                return Err(StorageError::Unsupported(text.to_owned()));
            }
        }
        Ok(())
    }

    /// Writes the next record: `base` is in force with it, unless `prepared` says otherwise. Not
    /// fenced.
    pub fn write<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        base: &MasterState,
        prepared: Option<(u64, &MasterState)>,
        changes: &[WordChange],
    ) -> Result<()> {
        arena.enter(Part::Log);
        let bytes = (CHANGES_AT + changes.len() * CHANGE_BYTES).next_multiple_of(LINE as usize);
        let mut image = std::mem::take(&mut self.image);
        image.clear();
        image.resize(8, 0);
        let (global, next) = prepared.map_or((0, base), |(global, state)| (global, state));
        for word in [
            self.sequence + 1,
            bytes as u64,
            changes.len() as u64,
            global,
        ] {
            image.extend_from_slice(&word.to_le_bytes());
        }
        for word in base.words().into_iter().chain(next.words()) {
            image.extend_from_slice(&word.to_le_bytes());
        }
        for change in changes {
            for word in [change.offset, change.clear, change.set] {
                image.extend_from_slice(&word.to_le_bytes());
            }
        }
        debug_assert!(
            image.len() <= bytes,
            "a group record is longer than it says"
        );
        image.resize(bytes, 0);
        let crc = crc32c::crc32c_append(self.salt, &image[8..]);
        image[..4].copy_from_slice(&crc.to_le_bytes());
        let mut rest = image.as_slice();
        for (at, room) in self.pieces(self.sequence + 1, next) {
            let (part, behind) = rest.split_at(rest.len().min(room));
            if !part.is_empty() {
                arena.write_through(at, part, site!("master.record"))?;
            }
            rest = behind;
        }
        let fits = rest.is_empty();
        self.image = image;
        if fits {
            Ok(())
        } else {
            let text = "a group record has no room".to_owned();
            Err(StorageError::Unsupported(text))
        }
    }

    /// Swings the master word to the record that was written and fenced. Durable when it returns.
    pub fn swing<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<()> {
        assert_eq!(
            read_word(&self.image, 8),
            self.sequence + 1,
            "the master word names the record that was written last"
        );
        // commit point: from this word on recovery finds the new record, and with it the new
        // directory
        arena.store_word(self.base, seal(self.sequence + 1, self.salt))?;
        arena.flush(self.base, 8, site!("master.word"))?;
        arena.fence(site!("master.word-fence"))?;
        self.sequence += 1;
        Ok(())
    }

    /// Places and sizes of a record's pieces.
    fn pieces(&self, sequence: u64, state: &MasterState) -> Vec<(u64, usize)> {
        let number = sequence % 2;
        let first = self.base + LINE + number * FIRST_PIECE_BYTES as u64;
        let mut pieces = vec![(first, FIRST_PIECE_BYTES)];
        let further = state.pieces[number as usize];
        let used = further.iter().take_while(|&&piece| piece != 0).enumerate();
        pieces.extend(used.map(|(index, &piece)| (piece, piece_bytes(index))));
        pieces
    }

    fn read<M: Memory>(&self, arena: &Arena<M>) -> Result<MasterRecord> {
        let first = self.base + LINE + self.sequence % 2 * FIRST_PIECE_BYTES as u64;
        let wrong = |text: &str| PmemError::corrupted("master record", first, text.to_owned());
        let head = arena.bytes(first, CHANGES_AT)?;
        let (bytes, count) = (read_word(head, 16), read_word(head, 24));
        let base = MasterState::read(&head[HEADER_BYTES..]);
        let next = MasterState::read(&head[HEADER_BYTES + 8 * STATE_WORDS..]);
        let pieces = self.pieces(self.sequence, &next);
        let room: usize = pieces.iter().map(|&(_, room)| room).sum();
        let fits = |bytes: &usize| (CHANGES_AT..=room).contains(bytes);
        let bytes = usize::try_from(bytes).ok().filter(fits);
        let bytes = bytes.ok_or_else(|| wrong("its length is wrong"))?;
        let mut image = Vec::with_capacity(bytes);
        for (at, room) in pieces {
            let part = room.min(bytes - image.len());
            image.extend_from_slice(arena.bytes(at, part)?);
        }
        let crc = crc32c::crc32c_append(self.salt, &image[8..]);
        if read_word(&image, 0) != u64::from(crc) || read_word(&image, 8) != self.sequence {
            return Err(wrong("its checksum is wrong").into());
        }
        let changes = image[CHANGES_AT..].chunks_exact(CHANGE_BYTES);
        let changes: Vec<_> = changes
            .take(count as usize)
            .map(|change| WordChange {
                offset: read_word(change, 0),
                clear: read_word(change, 8),
                set: read_word(change, 16),
            })
            .collect();
        if changes.len() as u64 != count {
            return Err(wrong("it has fewer changes than it says").into());
        }
        let global = read_word(&image, 32);
        Ok(MasterRecord {
            base,
            prepared: (global != 0).then_some((global, next)),
            changes,
        })
    }
}

/// Bytes of the further piece number `index`.
fn piece_bytes(index: usize) -> usize {
    debug_assert!(index < PIECES, "a record has no piece of that number");
    PIECE_BYTES << index
}

fn read_word(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at + 8)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

fn seal(sequence: u64, salt: u32) -> u64 {
    debug_assert!(
        sequence < 1 << SEQUENCE_BITS,
        "the number of a group does not fit the master word"
    );
    let crc = crc32c::crc32c_append(salt, &sequence.to_le_bytes());
    sequence | (u64::from(crc ^ crc >> 16) & 0xffff) << SEQUENCE_BITS
}
