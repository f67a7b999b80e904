//! The clock: numbers of commits, snapshots that are registered, and the images that they need.
//!
//! Invariants:
//! 1. A snapshot s sees exactly the transactions with a number up to s.
//! 2. For each registered s, every row that a transaction with a number above s has changed has an
//!    image of it as of s, from before the change can be seen until s ends.
//! 3. Validation, stamping and, where a partition has one session slot, registration of the images
//!    are one critical section.
//!
//! A commit gets its number in one of two orders, because a snapshot that registers after a stamp
//! counts the transaction as its past.
//!
//! - *One slot a partition* ([`Clock::commit`]): the committing thread has all slots of the
//!   partitions that it writes. Nobody can read there before it gives them back, so it stamps
//!   first and changes rows afterwards, and images are needed only if a snapshot is registered.
//! - *Many slots* ([`Clock::announce`], [`Clock::settle`]): others read while it changes rows, so
//!   images are there before the first change, above all snapshots; the stamp then gives them
//!   their number. Locks of the engine cover the time from the stamp to the engine's commit.
//!
//! The mutex is the last one in the order of locks: its holder takes no other and does not wait.

use super::change::{Change, Move, Version};
use super::images::{Active, Images, Need};
use super::interval::Interval;
use super::merge::ImageLayer;
use super::omission::{Omission, is_left_out};
use crate::error::{Error, Result};
use crate::sync::{Mutex, MutexGuard};
use pmem::ProcessStamp;
use std::sync::{Arc, PoisonError};
use storage::record::{KeyBuf, TableId};

/// Order of commits and snapshots of a database.
pub(crate) struct Clock {
    state: Mutex<State>,
    process: ProcessStamp,
    /// Most bytes of images; beyond it the oldest snapshots end.
    images_bytes_max: u64,
}

#[derive(Default)]
struct State {
    /// Number of the newest commit.
    last: u64,
    active: Active,
    images: Images,
    /// Snapshots up to this number were ended because their images took too much memory.
    ended: Option<u64>,
}

/// Commits whose images are freed in one hold of the mutex, when a snapshot ends: after a long one
/// there may be millions, and others must not wait for all of them.
const FREED_MAX: usize = 64;

/// Use of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It is read.
    Reading,
    /// It is read, and the commit compares what was read with the newest rows, so images keep these
    /// too.
    Validating,
}

/// A snapshot that is registered, until it is dropped.
pub(super) struct View {
    clock: Arc<Clock>,
    number: u64,
    purpose: Purpose,
}

impl Drop for View {
    fn drop(&mut self) {
        // In a forked child the mutex may be locked for ever.
        if !self.clock.process.is_here() {
            return;
        }
        let mut state = self.clock.lock();
        if self.purpose == Purpose::Validating {
            state.images.end_validating();
        }
        let mut rest = state.release(self.number);
        while let Some((low, high)) = rest {
            let State { images, active, .. } = &mut *state;
            rest = images
                .free(low, high, active, FREED_MAX)
                .map(|low| (low, high));
            if rest.is_some() {
                drop(state);
                state = self.clock.lock();
            }
        }
    }
}

/// Images of changes whose commit has no number yet. To be given to [`Clock::settle`] or
/// [`Clock::cancel`].
#[derive(Default)]
pub(super) struct Pending {
    /// The number that stands for the commit, once changes are announced.
    announced: Option<u64>,
    /// Numbers of the rows that have an image of it.
    rows: Vec<u32>,
    is_settled: bool,
}

/// Reads of a transaction, which its commit must find unchanged.
#[derive(Clone, Copy)]
pub(super) struct Reads<'r> {
    pub(super) view: &'r View,
    pub(super) intervals: &'r [Interval],
}

impl Clock {
    pub(crate) fn new(images_bytes_max: u64) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            process: ProcessStamp::new(),
            images_bytes_max,
        })
    }

    /// Registers a snapshot of this moment.
    pub(super) fn view(self: &Arc<Self>, purpose: Purpose) -> View {
        let mut state = self.lock();
        let number = state.last;
        *state.active.entry(number).or_default() += 1;
        if purpose == Purpose::Validating {
            state.images.begin_validating();
        }
        drop(state);
        View {
            clock: Arc::clone(self),
            number,
            purpose,
        }
    }

    /// Validates, stamps, and keeps images if a snapshot needs them. The caller has all slots of
    /// the partitions in which it is going to make the changes. Fails if something read is not as
    /// it was.
    pub(super) fn commit<'c>(
        &self,
        reads: Option<Reads<'_>>,
        changes: impl Iterator<Item = &'c Change>,
    ) -> Result<()> {
        let state = &mut *self.lock();
        state.validate(reads)?;
        state.last += 1;
        if !state.active.is_empty() && !is_left_out(Omission::Images) {
            let State {
                images,
                active,
                last,
                ..
            } = state;
            let kept = changes.filter_map(|change| images.add(*last, change, Need::Of(active)));
            let kept = kept.collect();
            images.note(*last, kept);
            state.shrink(self.images_bytes_max);
        }
        Ok(())
    }

    /// Keeps images before their rows change, for a commit that is to come.
    pub(super) fn announce<'c>(
        &self,
        pending: &mut Pending,
        changes: impl Iterator<Item = &'c Change>,
    ) {
        let images = &mut self.lock().images;
        let announced = *pending.announced.get_or_insert_with(|| images.announce());
        let kept = changes.filter_map(|change| images.add(announced, change, Need::Any));
        pending.rows.extend(kept);
    }

    /// Validates, and gives announced changes their number. If it fails they stay announced.
    pub(super) fn settle(&self, pending: &mut Pending, reads: Option<Reads<'_>>) -> Result<()> {
        let state = &mut *self.lock();
        state.validate(reads)?;
        pending.is_settled = true;
        state.stamp(pending.announced, std::mem::take(&mut pending.rows));
        state.shrink(self.images_bytes_max);
        Ok(())
    }

    /// Ends announced changes that were undone. They get a number that no commit has, and rows stay
    /// as their images say, because a reader may have looked at one while it was changed.
    pub(super) fn cancel(&self, pending: Pending) {
        if !pending.is_open() {
            // It has a number already, and a later step failed.
            return;
        }
        let state = &mut *self.lock();
        if let Some(announced) = pending.announced {
            state.images.undo(announced, &pending.rows);
        }
        state.stamp(pending.announced, pending.rows);
    }

    /// Bytes of memory that images take.
    pub(crate) fn images_bytes(&self) -> u64 {
        self.lock().images.bytes()
    }

    /// Images that are kept.
    pub(crate) fn images_count(&self) -> u64 {
        self.lock().images.count()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Its holder does not panic between changes that belong together.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl View {
    /// The row as of the snapshot, if it has changed since; to be asked after the engine was.
    pub(super) fn version(&self, table: TableId, key: &KeyBuf) -> Result<Option<Version>> {
        let state = self.clock.lock();
        state.check(self.number, self.clock.images_bytes_max)?;
        Ok(state.images.version(table, key, self.number).cloned())
    }

    /// Where the first commit since the snapshot that has changed a row has moved it.
    pub(super) fn moved(&self, table: TableId, key: &KeyBuf) -> Result<Move> {
        let state = self.clock.lock();
        state.check(self.number, self.clock.images_bytes_max)?;
        let moved = state.images.moved(table, key, self.number);
        Ok(moved.cloned().unwrap_or(Move::None))
    }

    /// Whether a commit has changed a row since the snapshot.
    pub(super) fn has_changed(&self, table: TableId, key: &KeyBuf) -> Result<bool> {
        let state = self.clock.lock();
        state.check(self.number, self.clock.images_bytes_max)?;
        let has_changed = state.images.has_changed(table, key, self.number);
        Ok(has_changed && !is_left_out(Omission::FirstChange))
    }

    /// Lends the images of this moment to a scan of a table.
    pub(super) fn with_images<R>(
        &self,
        table: TableId,
        look: impl FnOnce(ImageLayer<'_>) -> R,
    ) -> Result<R> {
        let mut state = self.clock.lock();
        state.check(self.number, self.clock.images_bytes_max)?;
        state.images.order(table);
        Ok(look(ImageLayer {
            images: &state.images,
            snapshot: self.number,
        }))
    }
}

impl Pending {
    /// Whether its commit has no number yet.
    pub(super) fn is_open(&self) -> bool {
        !self.is_settled
    }
}

impl State {
    /// Fails if the snapshot was ended.
    fn check(&self, snapshot: u64, limit_bytes: u64) -> Result<()> {
        if self.ended.is_some_and(|ended| snapshot <= ended) {
            return Err(Error::SnapshotTooOld { limit_bytes });
        }
        Ok(())
    }

    fn validate(&mut self, reads: Option<Reads<'_>>) -> Result<()> {
        let Some(Reads { view, intervals }) = reads else {
            return Ok(());
        };
        if is_left_out(Omission::Validation) {
            return Ok(());
        }
        self.check(view.number, view.clock.images_bytes_max)?;
        if self.images.conflicts(view.number, intervals)? {
            return Err(Error::Serialization {
                reason: "another transaction has changed what this one has read",
            });
        }
        Ok(())
    }

    /// Gives a commit a new number, and frees its images if no snapshot needs them.
    fn stamp(&mut self, announced: Option<u64>, rows: Vec<u32>) {
        self.last += 1;
        if let Some(announced) = announced {
            self.images.renumber(announced, self.last, rows);
        }
        let (low, high) = (self.last - 1, self.last);
        self.images.free(low, high, &self.active, usize::MAX);
    }

    /// Takes a snapshot out; as [`State::end`], if nobody else has it.
    fn release(&mut self, snapshot: u64) -> Option<(u64, u64)> {
        // There is none if it was ended.
        let count = self.active.get_mut(&snapshot)?;
        *count -= 1;
        (*count == 0).then(|| self.end(snapshot))
    }

    /// Ends a snapshot. Returns bounds of the commits whose images only it may need: those up to
    /// the next snapshot, which needs the others as well, if they are old enough for this one.
    fn end(&mut self, snapshot: u64) -> (u64, u64) {
        self.active.remove(&snapshot);
        let next = self.active.range(snapshot..).next();
        (snapshot, next.map_or(u64::MAX, |(next, _)| *next))
    }

    /// Ends the oldest snapshots until the images take no more than the limit. All of them are
    /// older than the commit that was just stamped, so no later snapshot has the number of one.
    fn shrink(&mut self, limit_bytes: u64) {
        while self.images.bytes() > limit_bytes
            && let Some((&oldest, _)) = self.active.first_key_value()
        {
            self.ended = Some(oldest);
            let (low, high) = self.end(oldest);
            self.images.free(low, high, &self.active, usize::MAX);
        }
    }
}
