//! The model's own time: how long an emulator keeps its callers beyond the time that it imitates.
//!
//! A look-up in the modelled cache takes tens of nanoseconds, which is more than many accesses of
//! the database. So one call of about sixteen, chosen at random, is clocked; the time that the
//! model made it wait is subtracted, and so is the time of reading the clock. The mean of these
//! samples, multiplied by the number of calls, is the estimate; its error follows from their
//! deviation. Samples above [`SAMPLE_PS_MAX`] are left out: the thread had lost its core.
//!
//! Not seen: lines of the real caches that the model displaces, and the order that its locks force
//! on the processor.

use super::clock::{Clock, PS_PER_NS};
use std::cell::Cell;
use std::ops::AddAssign;
use std::sync::OnceLock;

/// Longest time of a call that is taken for the model's.
const SAMPLE_PS_MAX: u64 = 20_000 * PS_PER_NS;
/// Random bits of a gap between two samples: 1 to 32 calls.
const GAP_BITS: u32 = 5;
/// Pairs of readings that measure the cost of a pair.
const PAIRS: usize = 2001;
/// Standard errors on each side of a mean that hold 95 % of the cases.
const NORMAL_95: f64 = 1.96;

/// The model's own time in a number of calls, as an estimate from clocked samples of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ModelTime {
    calls: u64,
    samples: u64,
    sum_ps: f64,
    square_sum: f64,
}

impl ModelTime {
    /// Counts a call.
    #[inline]
    pub(super) fn count(&mut self) {
        self.calls += 1;
    }

    /// Notes a clocked call, which took `imitated_ps` on purpose.
    pub(super) fn note(&mut self, took_ps: u64, imitated_ps: u64) {
        let own_ps = took_ps.saturating_sub(imitated_ps);
        if own_ps > SAMPLE_PS_MAX {
            return;
        }
        let own_ps = own_ps as f64 - pair_ps() as f64;
        self.samples += 1;
        self.sum_ps += own_ps;
        self.square_sum += own_ps * own_ps;
    }

    /// Accesses that went through the model.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Time that they took beyond the time that they imitated.
    pub fn ns(&self) -> f64 {
        (self.calls as f64 * self.mean_ps() / PS_PER_NS as f64).max(0.0)
    }

    /// Half the width of the 95 % interval of [`ModelTime::ns`].
    pub fn error_ns(&self) -> f64 {
        let samples = self.samples.max(1) as f64;
        let variance = (self.square_sum / samples - self.mean_ps().powi(2)).max(0.0);
        let mean_error_ps = NORMAL_95 * (variance / samples).sqrt();
        self.calls as f64 * mean_error_ps / PS_PER_NS as f64
    }

    fn mean_ps(&self) -> f64 {
        self.sum_ps / self.samples.max(1) as f64
    }

    /// The calls after an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            calls: self.calls - earlier.calls,
            samples: self.samples - earlier.samples,
            sum_ps: self.sum_ps - earlier.sum_ps,
            square_sum: self.square_sum - earlier.square_sum,
        }
    }
}

impl AddAssign<&Self> for ModelTime {
    fn add_assign(&mut self, more: &Self) {
        self.calls += more.calls;
        self.samples += more.samples;
        self.sum_ps += more.sum_ps;
        self.square_sum += more.square_sum;
    }
}

thread_local! {
    /// Calls until the next sample, and the state of the generator of gaps.
    static NEXT: Cell<(u32, u32)> = const { Cell::new((1, 0x9e37_79b9)) };
}

/// Whether this call of the thread is clocked.
#[inline]
pub(super) fn is_sampled() -> bool {
    NEXT.try_with(|next| {
        let (left, mut random) = next.get();
        if left > 1 {
            next.set((left - 1, random));
            return false;
        }
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        next.set((1 + (random >> (u32::BITS - GAP_BITS)), random));
        true
    })
    .unwrap_or(false)
}

/// Time between two readings of the clock that follow each other: the median, since an interrupt
/// would spoil the mean.
fn pair_ps() -> u64 {
    static PAIR_PS: OnceLock<u64> = OnceLock::new();
    *PAIR_PS.get_or_init(|| {
        let clock = Clock::real();
        let mut pairs: Vec<u64> = (0..PAIRS)
            .map(|_| {
                let first_ps = clock.now_ps_unordered();
                clock.now_ps_unordered() - first_ps
            })
            .collect();
        let (_, median, _) = pairs.select_nth_unstable(PAIRS / 2);
        *median
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_the_mean_of_the_samples_times_the_calls() {
        let (mut time, pair_ps) = (ModelTime::default(), pair_ps());
        for own_ps in [40_000, 60_000, 40_000, 60_000] {
            time.note(own_ps + pair_ps + 300_000, 300_000);
        }
        time.note(SAMPLE_PS_MAX * 2 + pair_ps, 0); // the thread had lost its core
        time.calls = 64;
        assert!((time.ns() - 64.0 * 50.0).abs() < 1e-6, "{time:?}");
        let error_ns = 64.0 * NORMAL_95 * 10.0 / 2.0;
        assert!((time.error_ns() - error_ns).abs() < 1e-6, "{time:?}");
        let early = time;
        time.note(90_000 + pair_ps, 0);
        time.calls += 10;
        let late = time.since(&early);
        assert!(late.calls() == 10 && (late.ns() - 10.0 * 90.0).abs() < 1e-6);
        let mut sum = early;
        sum += &late;
        assert_eq!(sum, time);
    }

    #[test]
    fn one_call_of_about_sixteen_is_clocked() {
        let sampled = (0..32_000).filter(|_| is_sampled()).count();
        assert!((1500..2500).contains(&sampled), "{sampled}");
    }
}
