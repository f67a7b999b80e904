//! Time and waiting, in picoseconds since the clock was made.
//!
//! The real clock reads the processor's time-stamp counter and spins on it: a delay of 160 ns is
//! too short for any call of the operating system. The counter's rate, and the mean cost of reading
//! it and leaving the loop, are measured once a process. Where there is no invariant counter,
//! `Instant` takes its place. The virtual clock moves only by waiting, which makes sums of delays
//! exact in tests.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Picoseconds of a nanosecond.
pub(super) const PS_PER_NS: u64 = 1000;
/// How long the rate of the counter is measured.
const CALIBRATION: Duration = Duration::from_millis(20);
/// Waits that measure the cost of waiting.
const CALIBRATION_WAITS: u32 = 2000;
/// The length of such a wait.
const CALIBRATION_WAIT_PS: u64 = 200 * PS_PER_NS;
/// The rest of a wait at which the loop stops yielding the core's resources, to leave it on time.
const EXACT_PS: u64 = 1000 * PS_PER_NS;
/// How much later than it wants to a thread wakes, as Linux has it by default.
const SLEEP_LATE_NS: u64 = 50_000;
/// Fraction bits of the counter's rate.
const RATE_BITS: u32 = 32;

/// A source of time and a way to let it pass. Clones share the time.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    /// Time-stamp counter: picoseconds a tick with [`RATE_BITS`] fraction bits, and the reading at
    /// the start.
    Counter {
        rate: u64,
        start: u64,
        overhead_ps: u64,
    },
    /// The operating system's monotonic clock.
    System { start: Instant },
    /// Moves by waiting only.
    Virtual { now_ps: Arc<AtomicU64> },
}

impl Clock {
    /// The machine's time. The first call of a process measures the counter, which takes about 20
    /// ms.
    pub fn real() -> Self {
        static CALIBRATED: OnceLock<Option<(u64, u64)>> = OnceLock::new();
        match CALIBRATED.get_or_init(calibrate) {
            Some((rate, overhead_ps)) => Self(Source::Counter {
                rate: *rate,
                start: read_counter(),
                overhead_ps: *overhead_ps,
            }),
            None => Self(Source::System {
                start: Instant::now(),
            }),
        }
    }

    /// A time that starts at zero and moves only by waiting.
    pub fn manual() -> Self {
        Self(Source::Virtual {
            now_ps: Arc::default(),
        })
    }

    /// Nanoseconds since the clock was made.
    pub fn now_ns(&self) -> u64 {
        self.now_ps() / PS_PER_NS
    }

    /// Nanoseconds since the clock was made, without waiting for the instructions before it. That
    /// makes it cheap enough for short steps that follow each other, where time missed by one step
    /// is charged to the next one.
    #[inline]
    pub fn now_ns_unordered(&self) -> u64 {
        self.now_ps_unordered() / PS_PER_NS
    }

    /// As [`Clock::now_ns_unordered`], in picoseconds.
    #[inline]
    pub(super) fn now_ps_unordered(&self) -> u64 {
        match &self.0 {
            Source::Counter { rate, start, .. } => {
                scale(read_counter_unordered().wrapping_sub(*start), *rate)
            }
            _ => self.now_ps(),
        }
    }

    /// Whether time passes by itself.
    pub(super) fn is_real(&self) -> bool {
        !matches!(self.0, Source::Virtual { .. })
    }

    /// Waits for `ns` nanoseconds: by spinning, or on the virtual clock by moving it.
    pub fn wait_ns(&self, ns: u64) {
        if ns > 0 {
            self.wait_until_ps(self.now_ps() + ns * PS_PER_NS);
        }
    }

    /// Sleeps for `ns` nanoseconds, which leaves the core to others, or moves the virtual clock. It
    /// may take longer, as every sleep does.
    pub fn sleep_ns(&self, ns: u64) {
        if matches!(self.0, Source::Virtual { .. }) {
            return self.wait_ns(ns);
        }
        let until_ps = self.now_ps() + ns * PS_PER_NS;
        std::thread::sleep(Duration::from_nanos(ns.saturating_sub(SLEEP_LATE_NS)));
        while self.now_ps() < until_ps {
            std::thread::yield_now();
        }
    }

    /// Where the time comes from, for reports.
    pub fn name(&self) -> &'static str {
        match self.0 {
            Source::Counter { .. } => "time-stamp counter",
            Source::System { .. } => "system clock",
            Source::Virtual { .. } => "virtual",
        }
    }

    /// Ticks of the time-stamp counter in a nanosecond; none where another source gives the time.
    pub fn ticks_per_ns(&self) -> Option<f64> {
        match self.0 {
            Source::Counter { rate, .. } if rate > 0 => {
                Some(PS_PER_NS as f64 * (1_u64 << RATE_BITS) as f64 / rate as f64)
            }
            _ => None,
        }
    }

    /// Picoseconds since the clock was made.
    #[inline]
    pub(super) fn now_ps(&self) -> u64 {
        match &self.0 {
            Source::Counter { rate, start, .. } => {
                scale(read_counter().wrapping_sub(*start), *rate)
            }
            Source::System { start } => duration_ps(start.elapsed()),
            Source::Virtual { now_ps } => now_ps.load(Ordering::Relaxed),
        }
    }

    /// Waits until a time; the average cost of reading the clock twice and of leaving the loop is
    /// part of the wait.
    #[inline]
    pub(super) fn wait_until_ps(&self, until_ps: u64) {
        match &self.0 {
            Source::Virtual { now_ps } => {
                now_ps.fetch_max(until_ps, Ordering::Relaxed);
            }
            Source::Counter { overhead_ps, .. } => self.spin(until_ps.saturating_sub(*overhead_ps)),
            Source::System { .. } => self.spin(until_ps),
        }
    }

    fn spin(&self, until_ps: u64) {
        loop {
            let now_ps = self.now_ps();
            if now_ps >= until_ps {
                return;
            }
            if until_ps - now_ps > EXACT_PS {
                std::hint::spin_loop();
            }
        }
    }
}

/// Rate and overhead of the counter, if there is one that ticks evenly.
fn calibrate() -> Option<(u64, u64)> {
    if !counter_is_invariant() {
        return None;
    }
    let (begin, first) = (Instant::now(), read_counter());
    while begin.elapsed() < CALIBRATION {
        std::hint::spin_loop();
    }
    let (elapsed, last) = (begin.elapsed(), read_counter());
    let ticks = last.wrapping_sub(first);
    if ticks == 0 {
        return None;
    }
    let rate = (u128::from(duration_ps(elapsed)) << RATE_BITS) / u128::from(ticks);
    let rate = u64::try_from(rate).ok()?;
    let clock = Clock(Source::Counter {
        rate,
        start: read_counter(),
        overhead_ps: 0,
    });
    Some((rate, overhead_ps(&clock)))
}

/// Excess of a wait over its length: the median, since an interrupt would spoil the mean.
fn overhead_ps(clock: &Clock) -> u64 {
    let mut excess: Vec<u64> = (0..CALIBRATION_WAITS)
        .map(|_| {
            let until_ps = clock.now_ps() + CALIBRATION_WAIT_PS;
            clock.wait_until_ps(until_ps);
            clock.now_ps().saturating_sub(until_ps)
        })
        .collect();
    let (_, median, _) = excess.select_nth_unstable(CALIBRATION_WAITS as usize / 2);
    *median
}

fn scale(ticks: u64, rate: u64) -> u64 {
    ((u128::from(ticks) * u128::from(rate)) >> RATE_BITS) as u64
}

fn duration_ps(duration: Duration) -> u64 {
    duration.as_nanos() as u64 * PS_PER_NS
}

#[cfg(target_arch = "x86_64")]
fn counter_is_invariant() -> bool {
    use std::arch::x86_64::__cpuid;
    const POWER_MANAGEMENT: u32 = 0x8000_0007;
    const EDX_INVARIANT: u32 = 1 << 8;
    __cpuid(0x8000_0000).eax >= POWER_MANAGEMENT
        && __cpuid(POWER_MANAGEMENT).edx & EDX_INVARIANT != 0
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn read_counter() -> u64 {
    // Without the barrier the counter is read while loads before it are still under way, and the
    // delay would overlap with them. SAFETY: the instruction exists on every x86-64 and only orders
    // loads.
    unsafe { std::arch::x86_64::_mm_lfence() };
    // SAFETY: the instruction exists on every x86-64 and only reads a register.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn read_counter_unordered() -> u64 {
    // SAFETY: the instruction exists on every x86-64 and only reads a register.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn read_counter_unordered() -> u64 {
    read_counter()
}

#[cfg(not(target_arch = "x86_64"))]
fn counter_is_invariant() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn read_counter() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_moves_by_waiting_only() {
        let clock = Clock::manual();
        let shared = clock.clone();
        clock.wait_ns(160);
        clock.wait_until_ps(10);
        assert_eq!(shared.now_ns(), 160);
        clock.sleep_ns(40);
        assert_eq!(shared.now_ns(), 200);
    }

    #[test]
    fn real_time_never_goes_back_and_waits_long_enough() {
        for clock in [
            Clock::real(),
            Clock(Source::System {
                start: Instant::now(),
            }),
        ] {
            let before_ns = clock.now_ns();
            clock.wait_ns(50_000);
            clock.sleep_ns(50_000);
            let waited_ns = clock.now_ns() - before_ns;
            assert!(
                waited_ns >= 90_000,
                "{} waited {waited_ns} ns",
                clock.name()
            );
        }
    }

    #[test]
    fn a_counter_says_how_fast_it_ticks() {
        let source = Source::Counter {
            rate: 400 << RATE_BITS,
            start: 0,
            overhead_ps: 0,
        };
        assert_eq!(Clock(source).ticks_per_ns(), Some(2.5));
        assert_eq!(Clock::manual().ticks_per_ns(), None);
    }

    #[test]
    fn ticks_scale_without_overflow() {
        let rate = 408 << RATE_BITS; // 2.45 GHz
        assert_eq!(scale(1_000_000_000_000, rate), 408_000_000_000_000);
    }
}
