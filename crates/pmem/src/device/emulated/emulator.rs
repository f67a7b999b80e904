//! One partition's device: the traffic between the modelled cache and the imitated memory, counted
//! and delayed.
//!
//! All memories and files of a partition share one [`Emulator`] and so one cache, one channel and
//! one write queue; each is a [`Region`] of it. The rules, which docs/emulation.md explains:
//!
//! 1. A loaded range of which a line misses costs one read latency and the transfer of the missing
//!    lines, waited for.
//! 2. Prefetches overlap: the first load of any of them, or any other read latency, is the one
//!    latency that all of them take.
//! 3. Stores, prefetches, write-backs and streaming stores are posted: they occupy the channel. A
//!    thread waits for them only when [`POSTED_LINES`] are queued, or at a fence.
//! 4. Counts depend on the sequence of accesses alone; time is never looked at to count.
//!
//! The state is behind a mutex because the handles of a partition are separate values, which safe
//! code may send to different threads. It is never contended in use, its cost is the same in every
//! profile, and it is released before waiting.

use super::super::{Counters, Part};
use super::cache::{Cache, LineName, MEMORIES_MAX, Touched, WriteBack};
use super::clock::{Clock, PS_PER_NS};
use super::options::{ClockChoice, EmulationOptions, FlushEffect, Loads, WearMap};
use super::profile::Pacing;
use super::wear::{Wear, WearTally};
use crate::error::{PmemError, Result};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
struct Shared {
    options: EmulationOptions,
    line_shift: u32,
    pace: Pace,
    clock: Clock,
    /// The part of the latest access, or [`NOBODY`], for a sampling profiler.
    at_work: AtomicUsize,
    state: Mutex<State>,
}

/// The profile in picoseconds; zero means nothing to wait for.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_field_names, reason = "a unit belongs into the name")]
struct Pace {
    line_ps: u64,
    read_ps: u64,
    write_ps: u64,
    fence_ps: u64,
    sync_ps: u64,
}

#[derive(Debug)]
struct State {
    cache: Cache,
    /// Counts of each region.
    tallies: Vec<Counters>,
    wear: Option<WearTally>,
    /// Prefetched ranges whose latency nobody has waited for.
    overlapped: Vec<RangeInclusive<LineName>>,
    /// The line that the last streaming store left incomplete: its next words join it on their way.
    open_line: Option<LineName>,
    /// Something was flushed or streamed since the last fence.
    unfenced: bool,
    /// When the channel has transferred everything.
    channel_free_ps: u64,
    /// When the queued writes are done.
    writes_done_ps: u64,
    latency_ps: u64,
    bandwidth_ps: u64,
    fence_ps: u64,
}

/// Lines that an access moved between cache and memory.
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    read: u64,
    written: u64,
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
        let state = State {
            cache,
            tallies: Vec::new(),
            wear: match options.wear_map {
                WearMap::Off => None,
                WearMap::On => Some(WearTally::new(options.cache_line_bytes)),
            },
            overlapped: Vec::with_capacity(OVERLAPPED_RANGES),
            open_line: None,
            unfenced: false,
            channel_free_ps: 0,
            writes_done_ps: 0,
            latency_ps: 0,
            bandwidth_ps: 0,
            fence_ps: 0,
        };
        Ok(Self(Arc::new(Shared {
            line_shift: options.cache_line_bytes.ilog2(),
            pace: Pace::of(&options),
            clock,
            at_work: AtomicUsize::new(NOBODY),
            state: Mutex::new(state),
            options,
        })))
    }

    /// A new region, none of whose lines is in the cache. Regions are numbered from 0 in the order
    /// of these calls.
    pub fn region(&self) -> Result<Region> {
        let mut state = self.0.lock();
        let number = state.tallies.len() as u32;
        if number == MEMORIES_MAX {
            return Err(PmemError::Unsupported(format!(
                "an emulator tells {MEMORIES_MAX} memories and files apart; make a new one"
            )));
        }
        state.tallies.push(Counters::default());
        drop(state);
        Ok(Region {
            emulator: self.clone(),
            number,
        })
    }

    /// Counts so far over all regions, closed ones included.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for tally in &self.0.lock().tallies {
            sum.fences += tally.fences;
            sum.serial_misses += tally.serial_misses;
            for (sum, part) in sum.parts.iter_mut().zip(&tally.parts) {
                sum.loads += part.loads;
                sum.stores += part.stores;
                sum.lines_flushed += part.lines_flushed;
                sum.bytes_streamed += part.bytes_streamed;
                sum.bytes_stored += part.bytes_stored;
            }
        }
        sum
    }

    /// Time that was added so far.
    pub fn injected(&self) -> Injected {
        let state = self.0.lock();
        Injected {
            latency_ns: state.latency_ps / PS_PER_NS,
            bandwidth_ns: state.bandwidth_ps / PS_PER_NS,
            fence_ns: state.fence_ps / PS_PER_NS,
        }
    }

    /// Where the medium was written, if the options ask for it.
    pub fn wear(&self) -> Option<Wear> {
        self.0.lock().wear.as_ref().map(WearTally::report)
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
        self.enter(part);
        if !self.counts_loads() {
            return;
        }
        self.charge(|state, shared| {
            state.load(shared, self.number, part, shared.lines(offset, bytes))
        });
    }

    /// Charges loads of `(offset, bytes)` one after the other, as [`Region::load`] of each does.
    /// The lock is taken once, and again after each wait.
    pub fn load_each(&self, part: Part, ranges: &mut dyn Iterator<Item = (u64, u64)>) {
        self.enter(part);
        let mut is_waited_for = self.counts_loads();
        while is_waited_for {
            is_waited_for = false;
            self.charge(|state, shared| {
                let mut until_ps = None;
                for (offset, bytes) in &mut *ranges {
                    let lines = shared.lines(offset, bytes);
                    until_ps = state.load(shared, self.number, part, lines);
                    if until_ps.is_some() {
                        break;
                    }
                }
                is_waited_for = until_ps.is_some();
                until_ps
            });
        }
    }

    /// Charges bringing a range in ahead of its use.
    #[inline]
    pub fn prefetch(&self, part: Part, offset: u64, bytes: u64) {
        self.enter(part);
        if !self.counts_loads() {
            return;
        }
        self.charge(|state, shared| {
            state.prefetch(shared, self.number, part, shared.lines(offset, bytes))
        });
    }

    /// Charges an ordinary store.
    #[inline]
    pub fn store(&self, part: Part, offset: u64, bytes: u64) {
        self.enter(part);
        self.charge(|state, shared| {
            state.tallies[self.number as usize].parts[part as usize].bytes_stored += bytes;
            state.store(shared, self.number, part, shared.lines(offset, bytes))
        });
    }

    /// Charges a streaming store.
    pub fn stream(&self, part: Part, offset: u64, bytes: u64) {
        self.enter(part);
        self.charge(|state, shared| {
            let counts = &mut state.tallies[self.number as usize].parts[part as usize];
            counts.bytes_stored += bytes;
            counts.bytes_streamed += bytes;
            state.stream(shared, self.number, part, offset, bytes)
        });
    }

    /// Charges the write-back of the lines of a range that are dirty, and counts all of them as
    /// flushed.
    #[inline]
    pub fn flush(&self, part: Part, offset: u64, bytes: u64) {
        self.enter(part);
        self.charge(|state, shared| {
            state.flush(shared, self.number, part, shared.lines(offset, bytes))
        });
    }

    /// Waits for all queued writes of the emulator.
    #[inline]
    pub fn fence(&self) {
        self.charge(|state, shared| {
            state.tallies[self.number as usize].fences += 1;
            state.fence(shared)
        });
    }

    /// Counts of this region. Lines that were made dirty here count here when they are written
    /// back, whichever access evicts them.
    pub fn counters(&self) -> Counters {
        self.emulator.0.lock().tallies[self.number as usize]
    }

    /// The region's number in its emulator, in the order of opening.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The emulator that it belongs to.
    pub fn emulator(&self) -> &Emulator {
        &self.emulator
    }

    /// Shows samplers the part that is at work. One relaxed store is little beside a lock and a
    /// search of the cache.
    #[inline]
    fn enter(&self, part: Part) {
        let at_work = &self.emulator.0.at_work;
        at_work.store(part as usize, Ordering::Relaxed);
    }

    /// Changes the state, then waits until the time that the change asks for.
    #[inline]
    fn charge(&self, change: impl FnOnce(&mut State, &Shared) -> Option<u64>) {
        let shared = &*self.emulator.0;
        let until_ps = change(&mut shared.lock(), shared);
        if let Some(until_ps) = until_ps {
            shared.clock.wait_until_ps(until_ps);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Counts are whole after any panic that can happen inside: none of the changes panics half
        // way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers of the lines that a range touches.
    fn lines(&self, offset: u64, bytes: u64) -> std::ops::Range<u64> {
        if bytes == 0 {
            return 0..0;
        }
        (offset >> self.line_shift)..((offset + bytes - 1) >> self.line_shift) + 1
    }
}

impl Pace {
    fn of(options: &EmulationOptions) -> Self {
        let profile = &options.profile;
        if profile.pacing == Pacing::CountOnly {
            return Self {
                line_ps: 0,
                read_ps: 0,
                write_ps: 0,
                fence_ps: 0,
                sync_ps: 0,
            };
        }
        let line_ps = profile.bandwidth.map_or(0, |bandwidth| {
            let line_ps =
                u128::from(options.cache_line_bytes) * PS_PER_SECOND / u128::from(bandwidth);
            line_ps.max(1) as u64
        });
        let sync_ns = options.sync_latency_ns;
        let unless_sync = |ns: u64| if sync_ns.is_some() { 0 } else { ns * PS_PER_NS };
        Self {
            line_ps,
            read_ps: profile.added_read_ns() * PS_PER_NS,
            write_ps: unless_sync(profile.write_ns),
            fence_ps: unless_sync(profile.fence_ns),
            sync_ps: sync_ns.unwrap_or(0) * PS_PER_NS,
        }
    }
}

impl State {
    fn load(
        &mut self,
        shared: &Shared,
        region: u32,
        part: Part,
        lines: std::ops::Range<u64>,
    ) -> Option<u64> {
        let moved = self.bring_in(region, part, lines.clone());
        let waits_for_prefetch = !self.overlapped.is_empty() && self.is_overlapped(region, lines);
        if moved.read == 0 && !waits_for_prefetch {
            return None;
        }
        self.wait_for_read(shared, region, moved)
    }

    fn prefetch(
        &mut self,
        shared: &Shared,
        region: u32,
        part: Part,
        lines: std::ops::Range<u64>,
    ) -> Option<u64> {
        let moved = self.bring_in(region, part, lines.clone());
        if moved.read == 0 {
            return None;
        }
        if self.overlapped.len() == OVERLAPPED_RANGES {
            return self.wait_for_read(shared, region, moved);
        }
        self.overlapped
            .push(LineName::new(region, lines.start)..=LineName::new(region, lines.end - 1));
        self.post(shared, moved.read + moved.written)
    }

    fn store(
        &mut self,
        shared: &Shared,
        region: u32,
        part: Part,
        lines: std::ops::Range<u64>,
    ) -> Option<u64> {
        let mut moved = Moved::default();
        for line in lines {
            let touched = self.cache.write(LineName::new(region, line), part);
            self.count(touched, &mut moved);
        }
        self.tallies[region as usize].parts[part as usize].loads += moved.read;
        self.post(shared, moved.read + moved.written)
    }

    fn stream(
        &mut self,
        shared: &Shared,
        region: u32,
        part: Part,
        offset: u64,
        bytes: u64,
    ) -> Option<u64> {
        let line_bytes = shared.options.cache_line_bytes;
        let end = offset + bytes;
        let mut written = 0;
        for line in shared.lines(offset, bytes) {
            let name = LineName::new(region, line);
            let whole = offset <= line * line_bytes && (line + 1) * line_bytes <= end;
            if let Some(dirty) = self.cache.remove(name)
                && !whole
            {
                self.wrote(dirty);
                written += 1;
            }
            if self.open_line != Some(name) {
                self.wrote(WriteBack { name, part });
                written += 1;
            }
        }
        self.open_line = (!end.is_multiple_of(line_bytes))
            .then(|| LineName::new(region, end >> shared.line_shift));
        self.unfenced = true;
        self.queue_writes(shared, written, u64::from(written > 0))
    }

    fn flush(
        &mut self,
        shared: &Shared,
        region: u32,
        part: Part,
        lines: std::ops::Range<u64>,
    ) -> Option<u64> {
        self.tallies[region as usize].parts[part as usize].lines_flushed += lines.end - lines.start;
        let mut written = 0;
        for line in lines {
            let name = LineName::new(region, line);
            let dirty = match shared.options.flush_effect {
                FlushEffect::KeepsLine => self.cache.clean(name),
                FlushEffect::EvictsLine => self.cache.remove(name),
            };
            if let Some(dirty) = dirty {
                self.wrote(dirty);
                written += 1;
            }
        }
        self.unfenced = true;
        self.queue_writes(shared, written, written)
    }

    fn fence(&mut self, shared: &Shared) -> Option<u64> {
        let unfenced = std::mem::take(&mut self.unfenced);
        self.open_line = None;
        let Pace {
            line_ps,
            write_ps,
            fence_ps,
            sync_ps,
            ..
        } = shared.pace;
        let cost_ps = fence_ps + if unfenced { sync_ps } else { 0 };
        if cost_ps == 0 && line_ps == 0 && write_ps == 0 {
            return None;
        }
        let now_ps = shared.clock.now_ps();
        let until_ps = now_ps.max(self.writes_done_ps) + cost_ps;
        self.fence_ps += until_ps - now_ps;
        (until_ps > now_ps).then_some(until_ps)
    }

    /// Reads every line of a range that is not in the cache.
    fn bring_in(&mut self, region: u32, part: Part, lines: std::ops::Range<u64>) -> Moved {
        let mut moved = Moved::default();
        for line in lines {
            let touched = self.cache.read(LineName::new(region, line));
            self.count(touched, &mut moved);
        }
        self.tallies[region as usize].parts[part as usize].loads += moved.read;
        moved
    }

    fn count(&mut self, touched: Touched, moved: &mut Moved) {
        if let Touched::Miss(evicted) = touched {
            moved.read += 1;
            if let Some(dirty) = evicted {
                self.wrote(dirty);
                moved.written += 1;
            }
        }
    }

    /// Counts a line that reached the medium.
    fn wrote(&mut self, written: WriteBack) {
        self.tallies[written.name.memory() as usize].parts[written.part as usize].stores += 1;
        if let Some(wear) = &mut self.wear {
            wear.note(written.name);
        }
    }

    fn is_overlapped(&self, region: u32, lines: std::ops::Range<u64>) -> bool {
        let (first, end) = (
            LineName::new(region, lines.start),
            LineName::new(region, lines.end),
        );
        self.overlapped
            .iter()
            .any(|range| *range.start() < end && first <= *range.end())
    }

    /// One read latency and the transfer of the missing lines. All prefetched lines have arrived by
    /// then.
    fn wait_for_read(&mut self, shared: &Shared, region: u32, moved: Moved) -> Option<u64> {
        self.tallies[region as usize].serial_misses += 1;
        self.overlapped.clear();
        let Pace {
            line_ps, read_ps, ..
        } = shared.pace;
        if line_ps == 0 && read_ps == 0 {
            return None;
        }
        let now_ps = shared.clock.now_ps();
        let transferred_ps = now_ps.max(self.channel_free_ps) + moved.read * line_ps;
        // The evicted lines are transferred after the ones that are waited for.
        self.channel_free_ps = transferred_ps + moved.written * line_ps;
        self.latency_ps += read_ps;
        self.bandwidth_ps += transferred_ps - now_ps;
        Some(transferred_ps + read_ps)
    }

    /// Occupies the channel; returns the time until which to wait if the queue is too long.
    fn post(&mut self, shared: &Shared, lines: u64) -> Option<u64> {
        let line_ps = shared.pace.line_ps;
        if lines == 0 || line_ps == 0 {
            return None;
        }
        let now_ps = shared.clock.now_ps();
        self.channel_free_ps = now_ps.max(self.channel_free_ps) + lines * line_ps;
        let until_ps = self.channel_free_ps.saturating_sub(POSTED_LINES * line_ps);
        if until_ps <= now_ps {
            return None;
        }
        self.bandwidth_ps += until_ps - now_ps;
        Some(until_ps)
    }

    /// Posts lines to be written, which take `latencies` write latencies one after the other before
    /// a fence passes.
    fn queue_writes(&mut self, shared: &Shared, lines: u64, latencies: u64) -> Option<u64> {
        let Pace {
            line_ps, write_ps, ..
        } = shared.pace;
        if lines == 0 || line_ps == 0 && write_ps == 0 {
            return None;
        }
        let until_ps = self.post(shared, lines);
        let started_ps = self
            .writes_done_ps
            .max(self.channel_free_ps)
            .max(shared.clock.now_ps());
        self.writes_done_ps = started_ps + latencies * write_ps;
        until_ps
    }
}
