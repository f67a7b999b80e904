//! Which blocks of a pool are free.
//!
//! The life of a block: *free*, *reserved* (only DRAM knows; a crash makes it free), *allocated* (a
//! bit or a table word on the medium says so), *freed* (the word says free, but the block is not
//! handed out before the transaction is settled). The heap never stores the change between reserved
//! and allocated or back: [`Arena::activate`] and [`Arena::free`] return it as a [`WordChange`],
//! which the caller makes durable together with the pointer to the block, under its own log. So no
//! crash leaks a block, and an abort is the undo of words.
//!
//! The heap's own stores never have to be undone, because they change no block's state:
//!
//! - It splits and joins free ranges and makes free chunks into runs and back, each by one aligned
//!   word of the chunk table that leads from one whole chain to another (`table`). Bytes that the
//!   new chain leads to (the word of the rest, the zeroed bitmap) are fenced before the word is
//!   stored. The word itself is only flushed: its durability rides on the caller's next fence,
//!   which precedes every commit of a change inside.
//! - A caller's change of a table word keeps the length of the chunk's entry, so undoing one leaves
//!   the chain as it was.
//! - A chunk whose free state is not fenced yet is fenced before anything else uses it.
//!
//! Opening reads no table. A cursor walks the tables when an allocation finds no room in the part
//! already read; a free loads the run that it concerns. Blocks ahead of the cursor are never handed
//! out, so their words may change unseen.
//!
//! | file | job |
//! |---|---|
//! | `table` | the words of the chunk table |
//! | `classes` | runs and their blocks in DRAM |
//! | `extents` | free ranges in DRAM |
//! | `grow` | format, new runs and extents, growth of the pool |
//! | `recover` | learning the heap after opening, bit by bit |
//! | `inspect` | whole scans for checks and reports |

pub(crate) mod classes;
mod extents;
pub(crate) mod grow;
mod inspect;
mod owner;
mod recover;
pub(crate) mod table;

pub use classes::{BLOCK_BYTES_MAX, BlockNumbers, ClassId, block_bytes};
pub use inspect::{Block, BlockInfo, BlockState, Footprint};
pub use owner::Owner;

use crate::arena::Arena;
use crate::device::{Memory, Part};
use crate::error::{PmemError, Result};
use classes::{Classes, RunId};
use extents::{FreeExtents, Range};
use std::collections::BTreeMap;
use table::{CHUNK_BYTES, Entry, ZONE_CHUNKS};

/// Largest block: a zone without its table.
pub const EXTENT_BYTES_MAX: usize = (ZONE_CHUNKS as usize - 1) * CHUNK_BYTES as usize;

/// A change of one aligned word: `new = old & !clear | set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordChange {
    /// Where the word lies.
    pub offset: u64,
    /// Bits to clear.
    pub clear: u64,
    /// Bits to set, after clearing.
    pub set: u64,
}

impl WordChange {
    /// The word after the change.
    #[inline]
    pub const fn apply(self, old: u64) -> u64 {
        old & !self.clear | self.set
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its changes are durable and nothing will undo them.
    Committed,
    /// Its changes were undone, durably where they had been applied.
    Aborted,
}

/// Change of a block's state when a transaction is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is allocated from now on.
    Born,
    /// It was allocated before and is free from now on.
    Died,
}

/// Called for each block that a commit allocates or frees. The result, for a freed block, is
/// whether it is held back, that is, not handed out before [`Arena::release_held`].
type Hold<'h> = &'h mut dyn FnMut(u64, Fate) -> bool;

/// How far ahead of its turn the run of a block is asked for when a transaction is settled.
const SETTLED_AHEAD: usize = 8;

/// Actions whose room the next transaction gets from the one before.
const ACTIONS_KEPT: usize = 1 << 16;

/// A point in a transaction to which [`Arena::heap_rollback`] goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapSavepoint {
    actions: usize,
    reserved: u64,
    activated: u64,
}

/// The open transaction's actions, in order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    BlockReserved(RunId, u32),
    BlockFreed(RunId, u32),
    ExtentReserved(u32),
    ExtentActivated(u32),
    ExtentFreed(u32),
}

/// An extent that the open transaction reserved or freed.
struct Pending {
    chunks: u32,
    owner: Owner,
    reserved: bool,
    activated: bool,
    freed: bool,
}

/// The heap's bookkeeping in DRAM.
pub(crate) struct Heap {
    classes: Classes,
    free: FreeExtents,
    chunk_count: u32,
    /// The next head whose table word was not read yet; equal to `chunk_count` when all were.
    cursor: u32,
    /// Whether the table has words of freed runs that were flushed and not fenced.
    unfenced: bool,
    /// Changes that the heap made by itself.
    changes: u64,
    actions: Vec<Action>,
    pending: BTreeMap<u32, Pending>,
    /// Chunks of the extents that are free on the medium and held back from use.
    held: BTreeMap<u32, u32>,
    /// Extents that were reserved and rolled back: undo records of this transaction still name
    /// their words.
    abandoned: Vec<Range>,
    /// Whether a rollback happened since the last settling, so that empty runs may have undo
    /// records.
    rolled_back: bool,
    /// Blocks in runs that the open transaction reserved and activated. Unequal only if it kept
    /// some for itself.
    reserved: u64,
    activated: u64,
}

impl Heap {
    /// The bookkeeping of a pool of which nothing is known but its size.
    pub(crate) fn new(pool_bytes: u64) -> Self {
        let chunk_count = table::chunk_count(pool_bytes);
        let mut classes = Classes::default();
        classes.cover(chunk_count);
        Self {
            classes,
            free: FreeExtents::default(),
            chunk_count,
            cursor: 0,
            unfenced: false,
            changes: 0,
            actions: Vec::new(),
            pending: BTreeMap::new(),
            held: BTreeMap::new(),
            abandoned: Vec::new(),
            rolled_back: false,
            reserved: 0,
            activated: 0,
        }
    }

    /// Whether the extent at `chunk` must not be handed out, even if its table word says that it is
    /// free.
    fn is_spoken_for(&self, chunk: u32) -> bool {
        self.pending.contains_key(&chunk) || self.held.contains_key(&chunk)
    }

    /// Makes a range free for others. Ahead of the cursor nothing is done: the walk will find it.
    fn release_range(&mut self, range: Range) {
        debug_assert!(
            range.start + range.chunks <= self.chunk_count,
            "a free range ends behind the pool"
        );
        if range.start < self.cursor {
            self.free.insert(range);
        }
    }
}

impl<M: Memory> Arena<M> {
    /// The class for blocks of `bytes`, for callers that reserve many of them. `bytes` is from 1 to
    /// [`BLOCK_BYTES_MAX`].
    pub fn class(&mut self, bytes: usize, owner: Owner) -> Result<ClassId> {
        if bytes == 0 || bytes > BLOCK_BYTES_MAX {
            return Err(PmemError::Unsupported(format!(
                "blocks of a class have 1 to {BLOCK_BYTES_MAX} bytes; {bytes} were asked"
            )));
        }
        Ok(self
            .heap
            .classes
            .class_of(classes::block_bytes(bytes) as u32, owner))
    }

    /// Reserves a block of a class: as [`Arena::reserve`], without the search for the class.
    #[inline]
    pub fn reserve_class(&mut self, class: ClassId) -> Result<u64> {
        self.reserve_class_after(class, |_| Ok(()))
    }

    /// As [`Arena::reserve_class`], and calls `before` before it makes empty runs free chunks. A
    /// log whose recovery stores published bytes again must end that first: blocks that were freed
    /// may be cut differently afterwards.
    #[inline]
    pub fn reserve_class_after(
        &mut self,
        class: ClassId,
        mut before: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<u64> {
        let (run, block) = match self.heap.classes.take(class) {
            Some(found) => found,
            None => self.take_after_refill(class, &mut before)?,
        };
        debug_assert!(
            self.heap.classes.is_taken(run, block),
            "a block that is handed out is not taken"
        );
        self.heap.actions.push(Action::BlockReserved(run, block));
        self.heap.reserved += 1;
        Ok(self.heap.classes.block_offset(run, block))
    }

    /// Reserves a block of at least `bytes`, from 1 to [`EXTENT_BYTES_MAX`], and gives its offset.
    /// Blocks whose size is a multiple of 64 start at a line, others at a word. Their content is
    /// arbitrary. Only DRAM knows of it until the change of [`Arena::activate`] is made. Grows the
    /// pool where needed; fails with [`PmemError::OutOfSpace`] if that is impossible, and then
    /// everything stays usable.
    ///
    /// A block that is never activated goes back at [`Arena::settle`].
    pub fn reserve(&mut self, bytes: usize, owner: Owner) -> Result<u64> {
        self.reserve_after(bytes, owner, |_| Ok(()))
    }

    /// As [`Arena::reserve`], with `before` as in [`Arena::reserve_class_after`].
    pub fn reserve_after(
        &mut self,
        bytes: usize,
        owner: Owner,
        mut before: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<u64> {
        if bytes <= BLOCK_BYTES_MAX {
            let class = self.class(bytes, owner)?;
            return self.reserve_class_after(class, before);
        }
        if bytes > EXTENT_BYTES_MAX {
            return Err(PmemError::Unsupported(format!(
                "a block has at most {EXTENT_BYTES_MAX} bytes; {bytes} were asked"
            )));
        }
        let chunks = bytes.div_ceil(CHUNK_BYTES as usize) as u32;
        let chunk = self.take_extent(chunks, &mut before)?;
        let pending = Pending {
            chunks,
            owner,
            reserved: true,
            activated: false,
            freed: false,
        };
        let before = self.heap.pending.insert(chunk, pending);
        assert!(before.is_none(), "an extent is handed out twice");
        self.heap.actions.push(Action::ExtentReserved(chunk));
        Ok(table::chunk_offset(chunk))
    }

    /// The change that makes a reserved block allocated. The caller makes it durable, once, before
    /// it commits.
    #[inline]
    pub fn activate(&mut self, offset: u64) -> Result<WordChange> {
        let chunk = self.chunk_of(offset)?;
        if let Some(run) = self.heap.classes.run_in(chunk) {
            let block = self.taken_block(run, offset)?;
            self.heap.activated += 1;
            return Ok(bit_change(chunk, block, BitState::Set));
        }
        let Some(pending) = self
            .heap
            .pending
            .get_mut(&chunk)
            .filter(|pending| pending.reserved)
        else {
            return Err(not_a_block(offset, "activated, but it is not reserved"));
        };
        if offset != table::chunk_offset(chunk) {
            return Err(not_a_block(offset, "activated, but no block starts there"));
        }
        pending.activated = true;
        let entry = Entry::Extent {
            chunks: pending.chunks,
            owner: pending.owner,
        };
        self.heap.actions.push(Action::ExtentActivated(chunk));
        Ok(entry_change(chunk, entry))
    }

    /// The change that frees an allocated block, or one that this transaction activated. The block
    /// is not handed out again before [`Arena::settle`]. Fails if no block starts at `offset` or it
    /// is free.
    #[inline]
    pub fn free(&mut self, offset: u64) -> Result<WordChange> {
        let chunk = self.chunk_of(offset)?;
        let Some(run) = self.run_of(chunk, offset)? else {
            return self.free_extent(chunk, offset);
        };
        let block = self.taken_block(run, offset)?;
        self.heap.actions.push(Action::BlockFreed(run, block));
        Ok(bit_change(chunk, block, BitState::Clear))
    }

    /// Bytes of the small block in use that starts at `offset`; `None` if an extent starts there.
    /// Fails as [`Arena::free`] does.
    #[inline]
    pub fn taken_bytes(&mut self, offset: u64) -> Result<Option<usize>> {
        let chunk = self.chunk_of(offset)?;
        let Some(run) = self.run_of(chunk, offset)? else {
            return Ok(None);
        };
        self.taken_block(run, offset)?;
        let class = self.heap.classes.run(run).class;
        let geometry = self.heap.classes.class(class).geometry;
        Ok(Some(geometry.block_bytes as usize))
    }

    /// Number of changes of chunk table or bitmaps that the heap has made by itself since the pool
    /// was opened. A log whose recovery stores words of the heap again must not overwrite a later
    /// change of this kind.
    #[inline]
    pub fn heap_changes(&self) -> u64 {
        self.heap.changes
    }

    /// Words that say which blocks are allocated, as far as they were met, and those of the chunk
    /// table: no transaction changes more.
    #[inline]
    pub fn block_words(&self) -> usize {
        self.heap.classes.bitmap_words + self.heap.chunk_count as usize
    }

    /// Bytes of DRAM in which the open transaction's reservations and frees are noted.
    #[inline]
    pub fn transaction_bytes(&self) -> usize {
        self.heap.actions.len() * size_of::<Action>()
    }

    /// The position of the open transaction, for [`Arena::heap_rollback`].
    pub fn heap_savepoint(&self) -> HeapSavepoint {
        let heap = &self.heap;
        HeapSavepoint {
            actions: heap.actions.len(),
            reserved: heap.reserved,
            activated: heap.activated,
        }
    }

    /// Forgets reservations and frees made since `mark`, which belongs to the open transaction. The
    /// caller has undone their changes, where they were applied. Blocks whose owner is
    /// [`Part::Log`] stay reserved until the transaction is settled, because they hold the log that
    /// undoes changes.
    pub fn heap_rollback(&mut self, mark: HeapSavepoint) {
        let heap = &mut self.heap;
        assert!(
            mark.actions <= heap.actions.len() && mark.reserved <= heap.reserved,
            "a mark is of another transaction"
        );
        let mut kept = Vec::new();
        for action in heap.actions.drain(mark.actions..).rev() {
            match action {
                Action::BlockReserved(run, block) => {
                    let class = heap.classes.run(run).class;
                    if heap.classes.class(class).owner.part == Part::Log {
                        kept.push(action);
                    } else {
                        heap.classes.release(run, block);
                    }
                }
                Action::BlockFreed(..) => {}
                Action::ExtentFreed(chunk) => {
                    if let Some(pending) = heap.pending.get_mut(&chunk) {
                        pending.freed = false;
                    }
                }
                Action::ExtentActivated(chunk) => {
                    if let Some(pending) = heap.pending.get_mut(&chunk) {
                        pending.activated = false;
                    }
                }
                Action::ExtentReserved(start) => {
                    if let Some(pending) = heap.pending.remove(&start) {
                        heap.abandoned.push(Range {
                            start,
                            chunks: pending.chunks,
                        });
                    }
                }
            }
        }
        heap.reserved = mark.reserved + kept.len() as u64;
        heap.activated = mark.activated;
        heap.actions.extend(kept.into_iter().rev());
        heap.rolled_back = true;
    }

    /// Ends the transaction. Committed: freed blocks become reusable, and so do reserved ones that
    /// were never activated. Aborted: all reservations are given back and frees forgotten. Called
    /// when no recovery will undo the transaction any more: after the commit is durable, or after
    /// the undo and the end of the log are.
    pub fn settle(&mut self, outcome: Outcome) {
        self.settle_blocks(outcome, None);
    }

    /// As [`Arena::settle`] for a commit, but a freed block for which `hold` returns true is not
    /// handed out before [`Arena::release_held`], because it is still read. On the medium it is
    /// free all the same.
    pub fn settle_holding(&mut self, hold: &mut dyn FnMut(u64, Fate) -> bool) {
        self.settle_blocks(Outcome::Committed, Some(hold));
    }

    /// Lets a block be handed out that was held back.
    pub fn release_held(&mut self, offset: u64) {
        let Some(chunk) = table::chunk_at(offset, self.heap.chunk_count) else {
            return;
        };
        if let Some(chunks) = self.heap.held.remove(&chunk) {
            self.heap.release_range(Range {
                start: chunk,
                chunks,
            });
        } else if let Some(run) = self.heap.classes.run_in(chunk)
            && let Some(block) = self.heap.classes.block_at(run, offset)
        {
            self.heap.classes.release(run, block);
        }
    }

    fn settle_blocks(&mut self, outcome: Outcome, mut hold: Option<Hold<'_>>) {
        let keeps_all = self.heap.reserved == self.heap.activated;
        for index in 0..self.heap.actions.len() {
            let action = self.heap.actions[index];
            let later = self.heap.actions.get(index + SETTLED_AHEAD);
            if let Some(&(Action::BlockReserved(run, _) | Action::BlockFreed(run, _))) = later {
                self.heap.classes.prefetch(run);
            }
            if let Some(hold) = &mut hold
                && self.is_held(action, *hold)
            {
                continue;
            }
            match (action, outcome) {
                (Action::BlockReserved(run, block), Outcome::Committed)
                    if !keeps_all && !self.is_set(run, block) =>
                {
                    self.heap.classes.release(run, block);
                }
                (Action::BlockReserved(run, block), Outcome::Aborted)
                | (Action::BlockFreed(run, block), Outcome::Committed) => {
                    self.heap.classes.release(run, block);
                }
                _ => {}
            }
        }
        let heap = &mut self.heap;
        heap.actions.clear();
        heap.actions.shrink_to(ACTIONS_KEPT);
        heap.reserved = 0;
        heap.activated = 0;
        heap.rolled_back = false;
        if !heap.pending.is_empty() || !heap.abandoned.is_empty() {
            heap.settle_extents(outcome, hold);
        }
        debug_assert!(
            heap.pending.is_empty() && heap.abandoned.is_empty(),
            "a transaction has ended, and extents are left of it"
        );
    }

    /// Reports a block's fate in a run to `hold`; returns whether it is held back.
    fn is_held(&self, action: Action, hold: Hold<'_>) -> bool {
        match action {
            Action::BlockReserved(run, block) => {
                hold(self.heap.classes.block_offset(run, block), Fate::Born);
                false
            }
            Action::BlockFreed(run, block) => {
                hold(self.heap.classes.block_offset(run, block), Fate::Died)
            }
            _ => false,
        }
    }

    fn free_extent(&mut self, chunk: u32, offset: u64) -> Result<WordChange> {
        if offset != table::chunk_offset(chunk) {
            return Err(not_a_block(offset, "freed, but no block starts there"));
        }
        if !self.heap.pending.contains_key(&chunk) {
            let Entry::Extent { chunks, owner } = self.entry(chunk)? else {
                return Err(not_a_block(offset, "freed, but it is not allocated"));
            };
            let pending = Pending {
                chunks,
                owner,
                reserved: false,
                activated: true,
                freed: false,
            };
            self.heap.pending.insert(chunk, pending);
        }
        let pending = self
            .heap
            .pending
            .get_mut(&chunk)
            .expect("it was there or is inserted above");
        if pending.freed || !pending.activated {
            return Err(not_a_block(offset, "freed, but it is not allocated"));
        }
        pending.freed = true;
        let entry = Entry::Free {
            chunks: pending.chunks,
        };
        self.heap.actions.push(Action::ExtentFreed(chunk));
        Ok(entry_change(chunk, entry))
    }

    #[inline]
    fn chunk_of(&self, offset: u64) -> Result<u32> {
        table::chunk_at(offset, self.heap.chunk_count)
            .ok_or_else(|| not_a_block(offset, "taken for a block, but lies outside the heap"))
    }

    /// The run that a chunk is, if a block may start at `offset`; `None` if an extent starts there.
    #[inline]
    fn run_of(&mut self, chunk: u32, offset: u64) -> Result<Option<RunId>> {
        match self.heap.classes.run_in(chunk) {
            Some(run) => Ok(Some(run)),
            None => self.load_run(chunk, offset),
        }
    }

    #[inline]
    fn taken_block(&mut self, run: RunId, offset: u64) -> Result<u32> {
        let block = self.heap.classes.block_at(run, offset);
        block
            .filter(|&block| self.heap.classes.is_taken(run, block))
            .ok_or_else(|| not_a_block(offset, "changed, but no block in use starts there"))
    }

    /// Whether the medium says that a block is allocated. Damage reads as allocated: nothing is
    /// handed out then.
    fn is_set(&self, run: RunId, block: u32) -> bool {
        let chunk = self.heap.classes.run(run).chunk;
        let change = bit_change(chunk, block, BitState::Set);
        self.word(change.offset)
            .map_or(true, |word| word & change.set != 0)
    }
}

impl Heap {
    fn settle_extents(&mut self, outcome: Outcome, mut hold: Option<Hold<'_>>) {
        for range in std::mem::take(&mut self.abandoned) {
            self.release_range(range);
        }
        for (start, pending) in std::mem::take(&mut self.pending) {
            assert!(
                pending.activated || !pending.freed,
                "an extent is freed that was not allocated"
            );
            let becomes_free = match outcome {
                Outcome::Committed => pending.freed || !pending.activated,
                Outcome::Aborted => pending.reserved,
            };
            let offset = table::chunk_offset(start);
            if !becomes_free {
                if let Some(hold) = &mut hold
                    && pending.reserved
                {
                    hold(offset, Fate::Born);
                }
                continue;
            }
            // One that the transaction itself has made was never seen by anybody else.
            let is_held = !pending.reserved && hold.as_mut().is_some_and(|h| h(offset, Fate::Died));
            if is_held {
                let before = self.held.insert(start, pending.chunks);
                assert!(before.is_none(), "an extent is held back twice");
            } else {
                self.release_range(Range {
                    start,
                    chunks: pending.chunks,
                });
            }
        }
    }
}

#[derive(Clone, Copy)]
enum BitState {
    Set,
    Clear,
}

#[inline]
fn bit_change(chunk: u32, block: u32, state: BitState) -> WordChange {
    debug_assert!(
        !chunk.is_multiple_of(table::ZONE_CHUNKS),
        "a chunk of tables has no blocks"
    );
    let bit = 1 << (block % 64);
    let offset = table::chunk_offset(chunk) + u64::from(block / 64) * 8;
    match state {
        BitState::Set => WordChange {
            offset,
            clear: 0,
            set: bit,
        },
        BitState::Clear => WordChange {
            offset,
            clear: bit,
            set: 0,
        },
    }
}

fn entry_change(chunk: u32, entry: Entry) -> WordChange {
    debug_assert!(
        !chunk.is_multiple_of(table::ZONE_CHUNKS),
        "the word of a table never changes"
    );
    WordChange {
        offset: table::word_offset(chunk),
        clear: u64::MAX,
        set: entry.encode(chunk),
    }
}

#[cold]
fn not_a_block(offset: u64, detail: &str) -> PmemError {
    PmemError::corrupted("block", offset, detail)
}
