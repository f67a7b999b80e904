//! The options of one emulator: the imitated memory, its cache, and the records kept.
//!
//! An emulator belongs to one partition. Where several partitions share one processor in the
//! experiment that is imitated, [`EmulationOptions::share`] gives each its part of the cache and of
//! the bandwidth, so that counts never depend on how threads happen to interleave. Values are
//! checked where the emulator is made.

use super::super::LINE_BYTES;
use super::profile::{Pacing, Profile};
use crate::error::{PmemError, Result};

/// The range of [`EmulationOptions::sync_latency_ns`]: that of the papers' experiments.
const SYNC_LATENCY_NS: std::ops::RangeInclusive<u64> = 0..=10_000;
/// The largest modelled line.
const CACHE_LINE_BYTES_MAX: u64 = 4096;

/// The options of one emulator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmulationOptions {
    /// Which memory is imitated.
    pub profile: Profile,
    /// Size of the modelled cache: ways x line x a power of two.
    pub cache_bytes: u64,
    /// Lines of a set.
    pub cache_ways: u32,
    /// Bytes of a modelled line, a power of two from 64 to 4096. Loads, stores and flushes are
    /// counted in it.
    pub cache_line_bytes: u64,
    /// Whether a flushed line stays in the cache.
    pub flush_effect: FlushEffect,
    /// Whether loads are modelled.
    pub loads: Loads,
    /// If given, the whole added cost of a *sync*, at most 10 us: the first fence after one or more
    /// flushes or streaming stores takes this long instead of the profile's `write` and `fence`,
    /// and other fences take no added time.
    pub sync_latency_ns: Option<u64>,
    /// Whether writes are noted per region and line.
    pub wear_map: WearMap,
    /// The time that delays are measured in.
    pub clock: ClockChoice,
}

/// The effect of a flush on the line in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FlushEffect {
    /// The line stays, clean: `clwb`, Arm's `dc cvap`.
    #[default]
    KeepsLine,
    /// The line leaves, and the next access reads it again: `clflush`, `clflushopt`.
    EvictsLine,
}

/// Whether loads are modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Loads {
    /// Each is looked up in the cache, counted and delayed. The model's own time is added to it.
    #[default]
    Counted,
    /// They take their own time on this machine, and are not counted. For experiments that vary
    /// something else.
    Free,
}

/// Whether writes are noted per region and line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WearMap {
    /// Nothing is noted.
    #[default]
    Off,
    /// Each written region of 64 KiB costs 4 KiB of memory and each write a look-up.
    On,
}

/// The time that delays are measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ClockChoice {
    /// The machine's: accesses really take longer.
    #[default]
    Real,
    /// A time that only delays move: sums of delays are exact, nothing waits.
    Virtual,
}

impl Default for EmulationOptions {
    fn default() -> Self {
        Self {
            profile: Profile::DRAM,
            cache_bytes: 32 << 20,
            cache_ways: 16,
            cache_line_bytes: LINE_BYTES,
            flush_effect: FlushEffect::default(),
            loads: Loads::default(),
            sync_latency_ns: None,
            wear_map: WearMap::default(),
            clock: ClockChoice::default(),
        }
    }
}

impl EmulationOptions {
    /// The default cache, in front of a memory of this profile.
    pub fn new(profile: Profile) -> Self {
        Self {
            profile,
            ..Self::default()
        }
    }

    /// The share of one of `partitions` in a cache and a bandwidth common to all: the cache is
    /// divided and rounded down to a size that is possible, at least one set.
    #[must_use]
    pub fn share(mut self, partitions: u32) -> Self {
        let partitions = u64::from(partitions.max(1));
        let set_bytes = u64::from(self.cache_ways) * self.cache_line_bytes;
        if let Some(sets) = self.cache_bytes.checked_div(set_bytes) {
            self.cache_bytes = (1 << (sets / partitions).max(1).ilog2()) * set_bytes;
        }
        self.profile = self.profile.share(partitions);
        self
    }

    /// Fails if a value is impossible; the cache checks its own size.
    pub(super) fn check(&self) -> Result<()> {
        self.profile.check()?;
        let line = self.cache_line_bytes;
        if !line.is_power_of_two() || !(LINE_BYTES..=CACHE_LINE_BYTES_MAX).contains(&line) {
            return Err(PmemError::Unsupported(format!(
                "a modelled line of {line} bytes is not possible; take a power of two \
                 from {LINE_BYTES} to {CACHE_LINE_BYTES_MAX}"
            )));
        }
        match self.sync_latency_ns {
            Some(latency) if !SYNC_LATENCY_NS.contains(&latency) => {
                Err(PmemError::Unsupported(format!(
                    "a sync latency of {latency} ns is outside {} to {} ns",
                    SYNC_LATENCY_NS.start(),
                    SYNC_LATENCY_NS.end()
                )))
            }
            Some(_) if self.profile.pacing == Pacing::CountOnly => Err(PmemError::Unsupported(
                "profile `count` delays nothing, so it takes no sync latency; start from `dram`"
                    .into(),
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_possible_cache() {
        let whole = EmulationOptions::new(Profile::LOW);
        let third = whole.clone().share(3);
        assert_eq!(third.cache_bytes, 8 << 20);
        assert_eq!(third.profile.bandwidth, Some(9_500_000_000 / 3));
        assert_eq!(whole.clone().share(1), whole);
        assert_eq!(whole.clone().share(0), whole);
        assert_eq!(whole.share(1 << 30).cache_bytes, 16 * 64);
    }

    #[test]
    fn impossible_values_are_refused() {
        let sound = EmulationOptions::default();
        assert!(sound.check().is_ok());
        assert!(
            EmulationOptions {
                cache_line_bytes: 96,
                ..sound.clone()
            }
            .check()
            .is_err()
        );
        assert!(
            EmulationOptions {
                cache_line_bytes: 32,
                ..sound.clone()
            }
            .check()
            .is_err()
        );
        assert!(
            EmulationOptions {
                sync_latency_ns: Some(10_001),
                ..sound.clone()
            }
            .check()
            .is_err()
        );
        assert!(
            EmulationOptions {
                sync_latency_ns: Some(10_000),
                ..sound
            }
            .check()
            .is_ok()
        );
    }
}
