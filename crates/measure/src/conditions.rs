//! The state of the machine during a measurement, as the kernel tells it: load, frequency, and the
//! time that the host of a virtual machine gave to others.
//!
//! They are kept with each sample, so that a reader can see whether an odd one had odd conditions.

use serde::{Deserialize, Serialize};
use std::fs;

/// The state of the machine during one measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Runnable threads on average over the last minute, this program's own among them.
    pub load: Option<f64>,
    /// Mean frequency of the processors.
    pub mhz: Option<f64>,
    /// Share of the processors' time that the host of this virtual machine gave to others.
    pub steal: Option<f64>,
}

/// Processor time of the whole machine so far.
#[derive(Clone, Copy, Debug)]
pub struct ProcessorTime {
    all: u64,
    steal: u64,
}

impl ProcessorTime {
    /// The time up to now; none where the system does not tell.
    pub fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let ticks = text
            .lines()
            .next()?
            .strip_prefix("cpu ")?
            .split_whitespace();
        let ticks: Vec<u64> = ticks.map_while(|word| word.parse().ok()).collect();
        // user, nice, system, idle, iowait, irq, softirq, steal; guest time is part of user.
        Some(Self {
            all: ticks.get(..8)?.iter().sum(),
            steal: ticks[7],
        })
    }
}

impl Conditions {
    /// The conditions since a time that was noted.
    pub fn since(before: Option<ProcessorTime>) -> Self {
        let steal = before.zip(ProcessorTime::now()).map(|(before, now)| {
            let all = now.all.saturating_sub(before.all).max(1);
            now.steal.saturating_sub(before.steal) as f64 / all as f64
        });
        let load = fs::read_to_string("/proc/loadavg").ok();
        Self {
            load: load.and_then(|text| text.split_whitespace().next()?.parse().ok()),
            mhz: fs::read_to_string("/proc/cpuinfo")
                .ok()
                .and_then(|text| mhz(&text)),
            steal,
        }
    }
}

fn mhz(text: &str) -> Option<f64> {
    let of_line = |line: &str| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "cpu MHz").then(|| value.trim().parse::<f64>().ok())?
    };
    let all: Vec<f64> = text.lines().filter_map(of_line).collect();
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_and_frequency_are_read() {
        let text = "cpu  10 0 20 30 5 0 1 4 9 9\ncpu0 1 1 1 1 1 1 1 1\n";
        let time = ProcessorTime::parse(text).unwrap();
        assert_eq!((time.all, time.steal), (70, 4));
        assert!(ProcessorTime::parse("cpu  1 2\n").is_none());
        assert_eq!(mhz("cpu MHz\t: 2000.0\ncpu MHz : 3000\n"), Some(2500.0));
        assert_eq!(mhz("model name : x\n"), None);
    }
}
