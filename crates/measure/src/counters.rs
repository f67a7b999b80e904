//! Counters of the processor during a measurement, where the machine has them and lets a user read
//! them: cycles, instructions, misses of the last-level cache and of the data TLB, and energy.
//!
//! They count this process outside of the kernel, in the threads that the measurement starts: those
//! that a database has started before are not seen. A virtual machine has often none of them;
//! energy is that of the whole processor package, and only the superuser may read it.

use perf_event::events::{Cache, CacheOp, CacheResult, Event, Hardware, WhichCache};
use perf_event::{Builder, Counter};
use std::collections::BTreeMap;
use std::fs;

/// The running total of a package's energy, in microjoules, and where it wraps.
const ENERGY: &str = "/sys/class/powercap/intel-rapl:0/energy_uj";
const ENERGY_MAX: &str = "/sys/class/powercap/intel-rapl:0/max_energy_range_uj";

/// Counters that are running.
pub struct Counters {
    events: Vec<(&'static str, Counter)>,
    energy_uj: Option<u64>,
}

impl Counters {
    /// Starts those that there are.
    pub fn begin() -> Self {
        let events = events().into_iter().filter_map(|(name, event)| {
            let mut builder = Builder::new().kind(event);
            builder.inherit(true);
            let mut counter = builder.build().ok()?;
            counter.enable().ok()?;
            Some((name, counter))
        });
        Self {
            events: events.collect(),
            energy_uj: number(ENERGY),
        }
    }

    /// Counts since then, by name. An event that had the processor's counter for a part of the time
    /// only is extrapolated.
    pub fn end(self) -> BTreeMap<String, f64> {
        let counts = self.events.into_iter().filter_map(|(name, mut counter)| {
            let read = counter.read_count_and_time().ok()?;
            let share = read.time_running as f64 / read.time_enabled as f64;
            (share > 0.0).then(|| (name.to_owned(), read.count as f64 / share))
        });
        let mut counts: BTreeMap<String, f64> = counts.collect();
        let energy = self.energy_uj.zip(number(ENERGY));
        if let Some((before, after)) = energy {
            let wraps_at = number(ENERGY_MAX).unwrap_or(before);
            let wrapped = || wraps_at.saturating_sub(before) + after;
            let uj = after.checked_sub(before).unwrap_or_else(wrapped);
            counts.insert("energy_j".into(), uj as f64 / 1e6);
        }
        counts
    }
}

fn events() -> [(&'static str, Event); 4] {
    let misses = |which| {
        Event::Cache(Cache {
            which,
            operation: CacheOp::READ,
            result: CacheResult::MISS,
        })
    };
    [
        ("cycles", Event::Hardware(Hardware::CPU_CYCLES)),
        ("instructions", Event::Hardware(Hardware::INSTRUCTIONS)),
        ("llc_misses", misses(WhichCache::LL)),
        ("dtlb_misses", misses(WhichCache::DTLB)),
    ]
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_see_the_threads_of_a_measurement_or_are_not_there() {
        let counters = Counters::begin();
        let has_instructions = counters
            .events
            .iter()
            .any(|(name, _)| *name == "instructions");
        let spin = || (0..1_000_000_u64).fold(0, |sum, number| std::hint::black_box(sum ^ number));
        std::thread::scope(|scope| scope.spawn(spin).join()).unwrap();
        let counts = counters.end();
        assert_eq!(counts.contains_key("instructions"), has_instructions);
        if let Some(instructions) = counts.get("instructions") {
            assert!(*instructions > 1e6, "{instructions}");
        }
    }
}
