//! Report of a join about itself: the algorithm, times and memory.
//!
//! Phases follow one another and are timed on the calling thread, from the start of the first
//! thread of a phase to the end of its last one. So their sum is the join's time without planning.

use crate::options::Algorithm;
use std::time::{Duration, Instant};

/// Time of one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseTime {
    /// `partition-r`, `partition-s`, `build`, `probe`, `sort`, `join` …
    pub phase: &'static str,
    /// Wall-clock time.
    pub elapsed: Duration,
}

/// Counts of a hash join's work on its tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableWork {
    /// Tuples of R that were put into tables, each as often as that happened.
    pub built_tuples: u64,
    /// Those of them that went into tables of `radix` that all threads share, because their
    /// partitions were too large for one.
    pub shared_tuples: u64,
    /// Tuples of S that were looked up, each as often as it met a table.
    pub lookups: u64,
}

impl TableWork {
    /// Adds the work of another thread.
    pub(crate) fn add(&mut self, other: Self) {
        self.built_tuples += other.built_tuples;
        self.shared_tuples += other.shared_tuples;
        self.lookups += other.lookups;
    }
}

/// How a join was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinStats {
    /// The algorithm that ran; never `Auto`.
    pub algorithm: Algorithm,
    /// Name of the kernel that ran.
    pub kernel: &'static str,
    /// Threads that took part.
    pub threads: usize,
    /// Tuples of R.
    pub r_tuples: u64,
    /// Tuples of S.
    pub s_tuples: u64,
    /// Bytes of a tuple.
    pub tuple_bytes: usize,
    /// Partitions of the first pass; 1 if there was none.
    pub partitions: usize,
    /// Partitioning passes over the data.
    pub passes: u32,
    /// Tuples of S that a Bloom filter dropped before partitioning.
    pub filtered_tuples: u64,
    /// Tuples built and looked up; all 0 for sort-merge.
    pub tables: TableWork,
    /// Scratch memory that this join was given, in bytes; pairs of the output not included.
    pub scratch_bytes: u64,
    /// The phases, in order.
    pub phases: Vec<PhaseTime>,
    /// Wall-clock time of the whole join, memory mapping included.
    pub elapsed: Duration,
}

impl JoinStats {
    /// Tuples of S a second, the paper's measure where every one of them has a partner; 0 for no
    /// time.
    pub fn tuples_per_s(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 {
            self.s_tuples as f64 / seconds
        } else {
            0.0
        }
    }
}

/// Times phases one after the other.
#[derive(Debug)]
pub(crate) struct PhaseClock {
    since: Instant,
    phases: Vec<PhaseTime>,
}

impl PhaseClock {
    pub(crate) fn start() -> Self {
        Self {
            since: Instant::now(),
            phases: Vec::with_capacity(8),
        }
    }

    /// Ends a phase that began where the last one ended.
    pub(crate) fn end(&mut self, phase: &'static str) {
        let now = Instant::now();
        let elapsed = now - self.since;
        self.phases.push(PhaseTime { phase, elapsed });
        self.since = now;
    }

    /// Ends a phase whose threads did several things in turn: its time is divided as theirs was.
    pub(crate) fn end_divided(&mut self, parts: &[(&'static str, Duration)]) {
        let now = Instant::now();
        let elapsed = now - self.since;
        self.since = now;
        let all: Duration = parts.iter().map(|(_, time)| *time).sum();
        let all_s = all.as_secs_f64().max(f64::MIN_POSITIVE);
        for (phase, time) in parts {
            self.phases.push(PhaseTime {
                phase,
                elapsed: elapsed.mul_f64((time.as_secs_f64() / all_s).min(1.0)),
            });
        }
    }

    pub(crate) fn into_phases(self) -> Vec<PhaseTime> {
        self.phases
    }
}
