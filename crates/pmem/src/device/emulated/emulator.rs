//! One partition's device: the traffic between the modelled cache and the imitated memory, counted
//! and delayed.
//!
//! All memories and files of a partition share one [`Emulator`] and so one cache and one channel;
//! each is a [`Region`] of it. Write queues, prefetches and fences are those of a thread (`lane`).
//! The rules, which docs/emulation.md explains:
//!
//! 1. A loaded range of which a line misses costs one read latency and the transfer of the missing
//!    lines, waited for.
//! 2. Prefetches of a thread overlap: its first load of any of them, or any other read latency that
//!    it waits for, is the one latency that all of them take.
//! 3. Stores, prefetches, write-backs and streaming stores are posted: they occupy the channel. A
//!    thread waits for them only when [`POSTED_LINES`] are queued, or at a fence, which waits for
//!    the flushes of its own thread.
//! 4. Counts depend on the sequence of accesses alone; time is never looked at to count.
//!
//! Nothing is locked during a wait. The model's own time is measured as well (`model_time`).

#![allow(
    clippy::redundant_closure_for_method_calls,
    reason = "a path to a method has one lifetime, where a closure has any"
)]

use super::super::{Counters, Part, PartCounters};
use super::cache::{Cache, LineName, MEMORIES_MAX, Set, Touched, WriteBack, lock};
use super::clock::{Clock, PS_PER_NS};
use super::lane::{Account, Lane, Lanes, with_lane};
use super::model_time::{ModelTime, is_sampled};
use super::options::{ClockChoice, EmulationOptions, FlushEffect, Loads, WearMap};
use super::profile::Pacing;
use super::wear::{Wear, WearTally};
use crate::error::{PmemError, Result};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Lines of posted transfers in the queue beyond which the next poster waits: the depth of a memory
/// controller's queue.
const POSTED_LINES: u64 = 64;
/// Prefetched ranges that overlap; one more is waited for. About the line fill buffers of a core.
const OVERLAPPED_RANGES: usize = 16;
/// Picoseconds of a second.
const PS_PER_SECOND: u128 = 1_000_000_000_000;
/// Value of `at_work` between transactions.
const NOBODY: usize = usize::MAX;

/// One partition's device. Clones are handles of the same one.
#[derive(Clone, Debug)]
pub struct Emulator(Arc<Shared>);

/// A memory or a file of an emulator, whose lines compete with all others for its cache. Clones are
/// handles of the same one.
#[derive(Clone, Debug)]
pub struct Region {
    emulator: Emulator,
    number: u32,
}

/// Time that was added, in nanoseconds, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Injected {
    /// Read latencies: serial misses times the profile's added latency, exactly.
    pub latency_ns: u64,
    /// Waiting for transfers.
    pub bandwidth_ns: u64,
    /// Waiting in fences: for queued writes, and the fences' own cost.
    pub fence_ns: u64,
}

impl Injected {
    /// All of it.
    pub fn total_ns(&self) -> u64 {
        self.latency_ns + self.bandwidth_ns + self.fence_ns
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    options: EmulationOptions,
    line_shift: u32,
    pace: Pace,
    clock: Clock,
    /// The part of the latest access, or [`NOBODY`], for a sampling profiler.
    at_work: AtomicUsize,
    regions: AtomicU32,
    cache: Cache,
    wear: Option<Mutex<WearTally>>,
    /// When the channel has transferred everything.
    channel_free_ps: AtomicU64,
    pub(super) lanes: Mutex<Lanes>,
}

/// The profile in picoseconds; zero means nothing to wait for.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    /// Transfer of a block, which is a line unless the medium has larger ones.
    read_block_ps: u64,
    write_block_ps: u64,
    read_ps: u64,
    near_read_ps: u64,
    write_ps: u64,
    fence_ps: u64,
    sync_ps: u64,
    /// Lines of a block, as a power of two.
    block_shift: u32,
}

/// A wait that an access has asked for.
#[derive(Clone, Copy, Debug)]
struct Wait {
    from_ps: u64,
    until_ps: u64,
}

/// Blocks that an access moved between cache and memory.
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    read: u64,
    written: u64,
    /// All lines that were missing are in the block that the thread read last.
    is_near: bool,
}

/// An access of a thread to a region, on its way through the model.
struct Charge<'c> {
    shared: &'c Shared,
    lane: &'c mut Lane,
    region: u32,
    part: Part,
}

impl Emulator {
    /// A device with an empty cache. Fails on impossible options. The first one with a real clock
    /// measures the time-stamp counter, which takes about 20 ms.
    pub fn new(options: EmulationOptions) -> Result<Self> {
        options.check()?;
        let cache = Cache::new(
            options.cache_bytes,
            options.cache_ways,
            options.cache_line_bytes,
        )?;
        let clock = match options.clock {
            ClockChoice::Real => Clock::real(),
            ClockChoice::Virtual => Clock::manual(),
        };
        Ok(Self(Arc::new(Shared {
            line_shift: options.cache_line_bytes.ilog2(),
            pace: Pace::of(&options),
            clock,
            at_work: AtomicUsize::new(NOBODY),
            regions: AtomicU32::new(0),
            cache,
            wear: match options.wear_map {
                WearMap::Off => None,
                WearMap::On => Some(Mutex::new(WearTally::new(options.cache_line_bytes))),
            },
            channel_free_ps: AtomicU64::new(0),
            lanes: Mutex::default(),
            options,
        })))
    }

    /// A new region, none of whose lines is in the cache. Regions are numbered from 0 in the order
    /// of these calls.
    pub fn region(&self) -> Result<Region> {
        let next = |number| (number < MEMORIES_MAX).then_some(number + 1);
        let number = self
            .0
            .regions
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .map_err(|_| {
                PmemError::Unsupported(format!(
                    "an emulator tells {MEMORIES_MAX} memories and files apart; make a new one"
                ))
            })?;
        Ok(Region {
            emulator: self.clone(),
            number,
        })
    }

    /// Counts so far over all regions, closed ones included.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for tally in &self.account().tallies {
            sum += tally;
        }
        sum
    }

    /// Time that was added so far.
    pub fn injected(&self) -> Injected {
        let account = self.account();
        Injected {
            latency_ns: account.latency_ps / PS_PER_NS,
            bandwidth_ns: account.bandwidth_ps / PS_PER_NS,
            fence_ns: account.fence_ps / PS_PER_NS,
        }
    }

    /// The model's own time so far, in all threads together. Nothing on a virtual clock.
    pub fn model_time(&self) -> ModelTime {
        self.account().model_time
    }

    /// Where the medium was written, if the options ask for it.
    pub fn wear(&self) -> Option<Wear> {
        self.0.wear.as_ref().map(|wear| lock(wear).report())
    }

    fn account(&self) -> Account {
        lock(&self.0.lanes).sum()
    }

    /// The part that the latest access belonged to; `None` before the first one and after
    /// [`Emulator::leave`]. Another thread may call it at any time: a timer samples it for each
    /// part's share of the time.
    pub fn at_work(&self) -> Option<Part> {
        let index = self.0.at_work.load(Ordering::Relaxed);
        Part::ALL.get(index).copied()
    }

    /// Says that time until the next access belongs to no part: a transaction has ended.
    pub fn leave(&self) {
        self.0.at_work.store(NOBODY, Ordering::Relaxed);
    }

    /// The options that it was made with.
    pub fn options(&self) -> &EmulationOptions {
        &self.0.options
    }

    /// The time that delays are measured in.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }
}

impl Region {
    /// Whether loads are modelled.
    #[inline]
    pub fn counts_loads(&self) -> bool {
        self.emulator.0.options.loads == Loads::Counted
    }

    /// Charges a load of a range, before it is read.
    #[inline]
    pub fn load(&self, part: Part, offset: u64, bytes: u64) {
        if self.counts_loads() {
            self.charge(part, |charge| charge.load(offset, bytes));
        }
    }

    /// Charges loads of `(offset, bytes)` one after the other, as [`Region::load`] of each does.
    pub fn load_each(&self, part: Part, ranges: &mut dyn Iterator<Item = (u64, u64)>) {
        let mut is_waited_for = self.counts_loads();
        while is_waited_for {
            is_waited_for = false;
            self.charge(part, |charge| {
                let mut charged = (&mut *ranges).map(|(offset, bytes)| charge.load(offset, bytes));
                let wait = charged.find_map(|wait| wait);
                is_waited_for = wait.is_some();
                wait
            });
        }
    }

    /// Charges bringing a range in ahead of its use.
    #[inline]
    pub fn prefetch(&self, part: Part, offset: u64, bytes: u64) {
        if self.counts_loads() {
            self.charge(part, |charge| charge.prefetch(offset, bytes));
        }
    }

    /// Charges an ordinary store.
    #[inline]
    pub fn store(&self, part: Part, offset: u64, bytes: u64) {
        self.charge(part, |charge| charge.store(offset, bytes));
    }

    /// Charges a streaming store.
    pub fn stream(&self, part: Part, offset: u64, bytes: u64) {
        self.charge(part, |charge| charge.stream(offset, bytes));
    }

    /// Charges the write-back of the lines of a range that are dirty, and counts all of them as
    /// flushed.
    #[inline]
    pub fn flush(&self, part: Part, offset: u64, bytes: u64) {
        self.charge(part, |charge| charge.flush(offset, bytes));
    }

    /// Waits for the queued writes of this thread.
    #[inline]
    pub fn fence(&self, part: Part) {
        self.charge(part, |charge| charge.fence());
    }

    /// Counts of this region. Lines that were made dirty here count here when they are written
    /// back, whichever access evicts them.
    pub fn counters(&self) -> Counters {
        *self.emulator.account().tally(self.number)
    }

    /// The region's number in its emulator, in the order of opening.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The emulator that it belongs to.
    pub fn emulator(&self) -> &Emulator {
        &self.emulator
    }

    /// Lets an access change the state of the thread and of the cache, then waits as long as the
    /// access asks for. Some of the calls are clocked for [`Emulator::model_time`].
    #[inline]
    fn charge(&self, part: Part, access: impl FnOnce(&mut Charge<'_>) -> Option<Wait>) {
        let shared = &self.emulator.0;
        let is_clocked = shared.clock.is_real() && is_sampled();
        let began_ps = is_clocked.then(|| shared.clock.now_ps_unordered());
        // One relaxed store is little beside a search of the cache.
        shared.at_work.store(part as usize, Ordering::Relaxed);
        let wait = with_lane(shared, |lane| {
            lane.account.model_time.count();
            access(&mut Charge {
                shared,
                lane,
                region: self.number,
                part,
            })
        });
        let wait = wait.flatten();
        if let Some(wait) = wait {
            shared.clock.wait_until_ps(wait.until_ps);
        }
        if let Some(began_ps) = began_ps {
            let took_ps = shared.clock.now_ps_unordered().saturating_sub(began_ps);
            let imitated_ps = wait.map_or(0, |wait| wait.until_ps - wait.from_ps);
            with_lane(shared, |lane| {
                lane.account.model_time.note(took_ps, imitated_ps);
            });
        }
    }
}

impl Shared {
    /// Numbers of the lines that a range touches.
    fn lines(&self, offset: u64, bytes: u64) -> Range<u64> {
        if bytes == 0 {
            return 0..0;
        }
        (offset >> self.line_shift)..((offset + bytes - 1) >> self.line_shift) + 1
    }

    /// Occupies the channel from now or from its last transfer on; returns the end of the transfer.
    fn transfer(&self, now_ps: u64, took_ps: u64) -> u64 {
        let end = |free_ps: u64| now_ps.max(free_ps) + took_ps;
        let channel = &self.channel_free_ps;
        if took_ps == 0 {
            return end(channel.load(Ordering::Relaxed));
        }
        let before = channel.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free_ps| {
            Some(end(free_ps))
        });
        end(before.unwrap_or_else(|free_ps| free_ps))
    }
}

impl Pace {
    fn of(options: &EmulationOptions) -> Self {
        let profile = &options.profile;
        let block_bytes = profile.block_bytes.max(options.cache_line_bytes);
        let block_shift = (block_bytes / options.cache_line_bytes).ilog2();
        if profile.pacing == Pacing::CountOnly {
            return Self::default();
        }
        let transfer_ps = |bandwidth: Option<u64>| {
            bandwidth.map_or(0, |bandwidth| {
                let ps = u128::from(block_bytes) * PS_PER_SECOND / u128::from(bandwidth);
                ps.max(1) as u64
            })
        };
        let sync_ns = options.sync_latency_ns;
        let unless_sync = |ns: u64| if sync_ns.is_some() { 0 } else { ns * PS_PER_NS };
        Self {
            read_block_ps: transfer_ps(profile.bandwidth),
            write_block_ps: transfer_ps(profile.write_bandwidth.or(profile.bandwidth)),
            read_ps: profile.added_read_ns() * PS_PER_NS,
            near_read_ps: profile.added_near_read_ns() * PS_PER_NS,
            write_ps: unless_sync(profile.write_ns),
            fence_ps: unless_sync(profile.fence_ns),
            sync_ps: sync_ns.unwrap_or(0) * PS_PER_NS,
            block_shift,
        }
    }

    fn is_throttled(&self) -> bool {
        self.read_block_ps > 0 || self.write_block_ps > 0
    }
}

impl Moved {
    fn has_read(self) -> bool {
        self.read > 0 || self.is_near
    }
}

impl Charge<'_> {
    fn load(&mut self, offset: u64, bytes: u64) -> Option<Wait> {
        let lines = self.shared.lines(offset, bytes);
        let moved = self.bring_in(lines.clone(), |set, name| set.read(name));
        if !moved.has_read() && !self.is_overlapped(lines) {
            return None;
        }
        self.wait_for_read(moved)
    }

    fn prefetch(&mut self, offset: u64, bytes: u64) -> Option<Wait> {
        let lines = self.shared.lines(offset, bytes);
        let moved = self.bring_in(lines.clone(), |set, name| set.read(name));
        if !moved.has_read() {
            return None;
        }
        if self.lane.overlapped.len() == OVERLAPPED_RANGES {
            return self.wait_for_read(moved);
        }
        let name = |line| LineName::new(self.region, line);
        let range = name(lines.start)..=name(lines.end - 1);
        self.lane.overlapped.push(range);
        self.post(moved)
    }

    fn store(&mut self, offset: u64, bytes: u64) -> Option<Wait> {
        self.counts().bytes_stored += bytes;
        let part = self.part;
        let lines = self.shared.lines(offset, bytes);
        let moved = self.bring_in(lines, |set, name| set.write(name, part));
        self.post(moved)
    }

    fn stream(&mut self, offset: u64, bytes: u64) -> Option<Wait> {
        let counts = self.counts();
        counts.bytes_stored += bytes;
        counts.bytes_streamed += bytes;
        let (shared, part) = (self.shared, self.part);
        let line_bytes = shared.options.cache_line_bytes;
        let end = offset + bytes;
        let mut moved = Moved::default();
        shared
            .cache
            .each(self.region, shared.lines(offset, bytes), |set, name| {
                let line = name.line();
                let whole = offset <= line * line_bytes && (line + 1) * line_bytes <= end;
                if let Some(dirty) = set.remove(name)
                    && !whole
                {
                    self.wrote(dirty, &mut moved);
                }
                if self.lane.open_line != Some(name) {
                    self.wrote(WriteBack { name, part }, &mut moved);
                }
            });
        self.lane.open_line = (!end.is_multiple_of(line_bytes))
            .then(|| LineName::new(self.region, end >> shared.line_shift));
        self.lane.unfenced = true;
        self.queue_writes(moved, u64::from(moved.written > 0))
    }

    fn flush(&mut self, offset: u64, bytes: u64) -> Option<Wait> {
        let shared = self.shared;
        let lines = shared.lines(offset, bytes);
        self.lane.unfenced |= !lines.is_empty();
        self.counts().lines_flushed += lines.end - lines.start;
        let (mut moved, mut written) = (Moved::default(), 0);
        shared.cache.each(self.region, lines, |set, name| {
            let dirty = match shared.options.flush_effect {
                FlushEffect::KeepsLine => set.clean(name),
                FlushEffect::EvictsLine => set.remove(name),
            };
            if let Some(dirty) = dirty {
                self.wrote(dirty, &mut moved);
                written += 1;
            }
        });
        self.queue_writes(moved, written)
    }

    fn fence(&mut self) -> Option<Wait> {
        self.lane.account.tally(self.region).fences += 1;
        let unfenced = std::mem::take(&mut self.lane.unfenced);
        self.lane.open_line = None;
        let pace = self.shared.pace;
        let cost_ps = pace.fence_ps + if unfenced { pace.sync_ps } else { 0 };
        if cost_ps == 0 && !pace.is_throttled() && pace.write_ps == 0 {
            return None;
        }
        let now_ps = self.shared.clock.now_ps();
        let until_ps = now_ps.max(self.lane.writes_done_ps) + cost_ps;
        self.lane.account.fence_ps += until_ps - now_ps;
        wait(now_ps, until_ps)
    }

    /// Looks every line of a range up; those that are not in the cache are read.
    fn bring_in(
        &mut self,
        lines: Range<u64>,
        look_up: impl Fn(&mut Set<'_>, LineName) -> Touched,
    ) -> Moved {
        let (shared, mut moved, mut loads) = (self.shared, Moved::default(), 0);
        shared.cache.each(self.region, lines, |set, name| {
            if let Touched::Miss(evicted) = look_up(set, name) {
                loads += 1;
                if enters(&mut self.lane.block_read, name, shared.pace.block_shift) {
                    moved.read += 1;
                }
                if let Some(dirty) = evicted {
                    self.wrote(dirty, &mut moved);
                }
            }
        });
        // The lines of a block that was read just before have been transferred with it, but are
        // waited for.
        moved.is_near = loads > 0 && moved.read == 0;
        self.counts().loads += loads;
        moved
    }

    fn counts(&mut self) -> &mut PartCounters {
        &mut self.lane.account.tally(self.region).parts[self.part as usize]
    }

    /// Counts a line that reached the medium.
    fn wrote(&mut self, written: WriteBack, moved: &mut Moved) {
        let WriteBack { name, part } = written;
        self.lane.account.tally(name.memory()).parts[part as usize].stores += 1;
        if let Some(wear) = &self.shared.wear {
            lock(wear).note(name);
        }
        let block_shift = self.shared.pace.block_shift;
        moved.written += u64::from(enters(&mut self.lane.block_written, name, block_shift));
    }

    fn is_overlapped(&self, lines: Range<u64>) -> bool {
        let name = |line| LineName::new(self.region, line);
        let (first, end) = (name(lines.start), name(lines.end));
        let mut ranges = self.lane.overlapped.iter();
        ranges.any(|range| *range.start() < end && first <= *range.end())
    }

    /// One read latency and the transfer of the missing lines. All lines that the thread has
    /// prefetched have arrived by then.
    fn wait_for_read(&mut self, moved: Moved) -> Option<Wait> {
        let (shared, account) = (self.shared, &mut self.lane.account);
        account.tally(self.region).serial_misses += 1;
        self.lane.overlapped.clear();
        let pace = shared.pace;
        let read_ps = if moved.is_near {
            pace.near_read_ps
        } else {
            pace.read_ps
        };
        if !pace.is_throttled() && read_ps == 0 {
            return None;
        }
        let now_ps = shared.clock.now_ps();
        let transferred_ps = shared.transfer(now_ps, moved.read * pace.read_block_ps);
        // The evicted lines are transferred after the ones that are waited for.
        shared.transfer(now_ps, moved.written * pace.write_block_ps);
        account.latency_ps += read_ps;
        account.bandwidth_ps += transferred_ps - now_ps;
        wait(now_ps, transferred_ps + read_ps)
    }

    /// Occupies the channel; returns a wait if the queue is too long.
    fn post(&mut self, moved: Moved) -> Option<Wait> {
        let pace = self.shared.pace;
        let took_ps = moved.read * pace.read_block_ps + moved.written * pace.write_block_ps;
        if took_ps == 0 {
            return None;
        }
        let now_ps = self.shared.clock.now_ps();
        let free_ps = self.shared.transfer(now_ps, took_ps);
        let queue_ps = POSTED_LINES * pace.read_block_ps.max(pace.write_block_ps);
        let until_ps = free_ps.saturating_sub(queue_ps);
        self.lane.account.bandwidth_ps += until_ps.saturating_sub(now_ps);
        wait(now_ps, until_ps)
    }

    /// Posts blocks to be written, which take `latencies` write latencies one after the other
    /// before a fence of this thread passes.
    fn queue_writes(&mut self, moved: Moved, latencies: u64) -> Option<Wait> {
        let (shared, pace) = (self.shared, self.shared.pace);
        if latencies == 0 || !pace.is_throttled() && pace.write_ps == 0 {
            return None;
        }
        let wait = self.post(moved);
        let channel_free_ps = shared.channel_free_ps.load(Ordering::Relaxed);
        let queue = &mut self.lane.writes_done_ps;
        let started_ps = (*queue).max(channel_free_ps).max(shared.clock.now_ps());
        *queue = started_ps + latencies * pace.write_ps;
        wait
    }
}

/// A wait, unless its end has passed.
fn wait(from_ps: u64, until_ps: u64) -> Option<Wait> {
    (until_ps > from_ps).then_some(Wait { from_ps, until_ps })
}

/// Whether a line is in another block than `last`, which then is that block. Where a block is a
/// line, each line is another one.
fn enters(last: &mut Option<LineName>, name: LineName, block_shift: u32) -> bool {
    let block = LineName::new(name.memory(), name.line() >> block_shift);
    block_shift == 0 || last.replace(block) != Some(block)
}
