//! Which memory is imitated: its read latency, write latency, fence cost and bandwidth.
//!
//! The named profiles are those of the storage-engine paper ("Let's Talk About Storage & Recovery
//! Methods", section 5): DRAM at 160 ns, and memories of two and eight times that latency whose
//! bandwidth is throttled to 9.5 GB/s. Free values are written
//! `read=320,write=100,fence=50,bandwidth=9.5`, or after a name, `low,write=100`. A profile only
//! ever adds time: it cannot be faster than the machine it runs on. A measured device is therefore
//! written as its difference to the DRAM of the machine on which it was measured, on top of 160 ns:
//!
//! | profile | source | measured there |
//! |---|---|---|
//! | `optane` | Yang et al., "An Empirical Guide", FAST 2020 | [`Profile::OPTANE`] |
//! | `cxl` | Maruf et al. (TPP), ASPLOS 2023: 170 to 250 ns | 100 ns more than DRAM |
//! | `cxl-pool` | Li et al. (Pond), ASPLOS 2023: above 270 ns | 300 ns more |
//! | `nvdimm-n` | JEDEC JESD245: DRAM that saves itself to flash | DRAM; lines are flushed |
//! | `battery-dram` | DRAM that a battery keeps up | DRAM; lines need no flush |

use super::super::LINE_BYTES;
use crate::error::{PmemError, Result};
use std::fmt;
use std::str::FromStr;

/// Read latency that the profiles are relative to, in ns: the paper's DRAM. A profile's read
/// latency minus this is added.
pub const DRAM_READ_NS: u64 = 160;
/// The largest latency that is accepted, in ns; more is a slip of the unit.
const LATENCY_NS_MAX: u64 = 10_000_000;
/// The paper's throttled bandwidth, in bytes a second.
const THROTTLED_BANDWIDTH: u64 = 9_500_000_000;
/// The values that a profile string may set.
const KEYS: &str = "read, near, write, fence (ns), bandwidth, write-bandwidth (GB/s, or \
                    `unlimited`) and block (bytes)";
/// The largest block of a medium.
const BLOCK_BYTES_MAX: u64 = 4096;

/// Which memory is imitated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Latency of a dependent read that misses the cache, at least [`DRAM_READ_NS`]. The excess
    /// over that is added.
    pub read_ns: u64,
    /// Latency of a read from the block that the thread read last, if it is another one.
    pub near_read_ns: Option<u64>,
    /// Added to the write-back of each flushed line; the next fence waits for it.
    pub write_ns: u64,
    /// Added to each fence.
    pub fence_ns: u64,
    /// Bytes a second that pass between cache and memory, both ways together. `None` adds no
    /// throttle.
    pub bandwidth: Option<u64>,
    /// Bytes a second that are written, where writes are slower than reads: a written byte occupies
    /// the channel for as much longer. `None` if they are not.
    pub write_bandwidth: Option<u64>,
    /// The medium's unit of transfer: a line of another block than the one before moves so many
    /// bytes. Lines are counted as lines all the same.
    pub block_bytes: u64,
    /// Whether the profile is [`Profile::COUNT`], which reads no clock and delays nothing.
    pub pacing: Pacing,
}

/// Whether accesses are delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// Accesses take the time that the profile says.
    Timed,
    /// Accesses are counted only.
    CountOnly,
}

impl Profile {
    /// The machine's own memory, counted: nothing is added.
    pub const DRAM: Self = Self {
        read_ns: DRAM_READ_NS,
        near_read_ns: None,
        write_ns: 0,
        fence_ns: 0,
        bandwidth: None,
        write_bandwidth: None,
        block_bytes: LINE_BYTES,
        pacing: Pacing::Timed,
    };
    /// Twice the latency of DRAM, 9.5 GB/s.
    pub const LOW: Self = Self {
        read_ns: 2 * DRAM_READ_NS,
        bandwidth: Some(THROTTLED_BANDWIDTH),
        ..Self::DRAM
    };
    /// Eight times the latency of DRAM, 9.5 GB/s.
    pub const HIGH: Self = Self {
        read_ns: 8 * DRAM_READ_NS,
        ..Self::LOW
    };
    /// Counting without any delay: for tests and for counts that need no time.
    pub const COUNT: Self = Self {
        pacing: Pacing::CountOnly,
        ..Self::DRAM
    };

    /// One Optane DIMM. Reads took 305 ns at random and 169 in order, where DRAM took 101 and 81:
    /// in order, that is 204 ns more for the first of four lines of a block and 49 for the others.
    /// A line reached the persistent domain after 90 ns, in DRAM after 86.
    pub const OPTANE: Self = Self {
        read_ns: DRAM_READ_NS + 204,
        near_read_ns: Some(DRAM_READ_NS + 49),
        write_ns: 0,
        fence_ns: 4,
        bandwidth: Some(6_600_000_000),
        write_bandwidth: Some(2_300_000_000),
        block_bytes: 256,
        pacing: Pacing::Timed,
    };
    /// A CXL 2.0 memory expander at a port of the processor.
    pub const CXL: Self = Self {
        read_ns: DRAM_READ_NS + 100,
        bandwidth: Some(32_000_000_000),
        ..Self::DRAM
    };
    /// CXL 2.0 memory of a pool, behind a switch.
    pub const CXL_POOL: Self = Self {
        read_ns: DRAM_READ_NS + 300,
        ..Self::CXL
    };

    const NAMED: [(&'static str, Self); 9] = [
        ("dram", Self::DRAM),
        ("low", Self::LOW),
        ("high", Self::HIGH),
        ("count", Self::COUNT),
        ("optane", Self::OPTANE),
        ("cxl", Self::CXL),
        ("cxl-pool", Self::CXL_POOL),
        ("nvdimm-n", Self::DRAM),
        ("battery-dram", Self::DRAM),
    ];

    /// Nanoseconds that a dependent read takes longer than DRAM.
    pub fn added_read_ns(&self) -> u64 {
        self.read_ns.saturating_sub(DRAM_READ_NS)
    }

    /// The same for a read from the block that was read last.
    pub fn added_near_read_ns(&self) -> u64 {
        let read_ns = self.near_read_ns.unwrap_or(self.read_ns);
        read_ns.saturating_sub(DRAM_READ_NS)
    }

    /// Bytes a second in both directions.
    #[must_use]
    pub(super) fn share(mut self, partitions: u64) -> Self {
        for bandwidth in [&mut self.bandwidth, &mut self.write_bandwidth] {
            *bandwidth = bandwidth.map(|bytes| bytes / partitions);
        }
        self
    }

    /// Whether any access may be delayed.
    pub fn delays(&self) -> bool {
        self.pacing == Pacing::Timed && *self != Self::DRAM
    }

    /// Fails if a value cannot be imitated.
    pub fn check(&self) -> Result<()> {
        if self.read_ns < DRAM_READ_NS {
            return Err(PmemError::Unsupported(format!(
                "read={} ns cannot be imitated: the profile counts from {DRAM_READ_NS} ns \
                 (DRAM) and can only add to it",
                self.read_ns
            )));
        }
        if let Some(near_ns) = self.near_read_ns
            && !(DRAM_READ_NS..=self.read_ns).contains(&near_ns)
        {
            return Err(PmemError::Unsupported(format!(
                "near={near_ns} ns cannot be imitated: a read from the block that was read last \
                 takes {DRAM_READ_NS} ns (DRAM) or more, and at most read={} ns",
                self.read_ns
            )));
        }
        let block = self.block_bytes;
        if !block.is_power_of_two() || !(LINE_BYTES..=BLOCK_BYTES_MAX).contains(&block) {
            return Err(PmemError::Unsupported(format!(
                "block={block}: a power of two from {LINE_BYTES} to {BLOCK_BYTES_MAX} bytes is \
                 expected"
            )));
        }
        for (key, value) in [
            ("read", self.read_ns),
            ("write", self.write_ns),
            ("fence", self.fence_ns),
        ] {
            if value > LATENCY_NS_MAX {
                return Err(PmemError::Unsupported(format!(
                    "{key}={value}: latencies are in ns and at most {LATENCY_NS_MAX}"
                )));
            }
        }
        let bandwidths = self.bandwidth.into_iter().chain(self.write_bandwidth);
        if bandwidths.min().is_some_and(|least| least < 1_000_000) {
            return Err(PmemError::Unsupported(
                "bandwidth is in GB/s and at least 0.001; say `unlimited` for no throttle".into(),
            ));
        }
        if self.pacing == Pacing::CountOnly && *self != Self::COUNT {
            return Err(PmemError::Unsupported(
                "profile `count` delays nothing and takes no values; start from `dram` instead"
                    .into(),
            ));
        }
        Ok(())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let field = match key {
            "read" => &mut self.read_ns,
            "near" => self.near_read_ns.insert(DRAM_READ_NS),
            "write" => &mut self.write_ns,
            "fence" => &mut self.fence_ns,
            "block" => &mut self.block_bytes,
            "bandwidth" => {
                self.bandwidth = parse_bandwidth(key, value)?;
                return Ok(());
            }
            "write-bandwidth" => {
                self.write_bandwidth = parse_bandwidth(key, value)?;
                return Ok(());
            }
            _ => {
                return Err(PmemError::Unsupported(format!(
                    "a profile has no value `{key}`; there are {KEYS}"
                )));
            }
        };
        *field = value.parse().map_err(|_| {
            let unit = if key == "block" { "bytes" } else { "ns" };
            PmemError::Unsupported(format!(
                "{key}={value}: a whole number of {unit} is expected"
            ))
        })?;
        Ok(())
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::DRAM
    }
}

impl FromStr for Profile {
    type Err = PmemError;

    fn from_str(text: &str) -> Result<Self> {
        let mut profile = Self::DRAM;
        for (position, piece) in text.split(',').map(str::trim).enumerate() {
            if let Some((key, value)) = piece.split_once('=') {
                profile.set(key.trim(), value.trim())?;
            } else if let (0, Some((_, named))) = (
                position,
                Self::NAMED.iter().find(|(name, _)| *name == piece),
            ) {
                profile = *named;
            } else {
                return Err(PmemError::Unsupported(format!(
                    "unknown profile `{piece}` in `{text}`; say {}, then or instead values as \
                     `read=320,write=100,fence=50,bandwidth=9.5`: {KEYS}",
                    Self::NAMED.map(|(name, _)| name).join(", ")
                )));
            }
        }
        profile.check()?;
        Ok(profile)
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = Self::NAMED.iter().find(|(_, profile)| profile == self) {
            return f.write_str(name);
        }
        let Self {
            read_ns,
            near_read_ns,
            write_ns,
            fence_ns,
            bandwidth,
            write_bandwidth,
            block_bytes,
            pacing: _,
        } = self;
        write!(f, "read={read_ns}")?;
        if let Some(near_ns) = near_read_ns {
            write!(f, ",near={near_ns}")?;
        }
        write!(f, ",write={write_ns},fence={fence_ns},bandwidth=")?;
        match bandwidth {
            Some(bandwidth) => write!(f, "{}", *bandwidth as f64 / 1e9)?,
            None => f.write_str("unlimited")?,
        }
        if let Some(bandwidth) = write_bandwidth {
            write!(f, ",write-bandwidth={}", *bandwidth as f64 / 1e9)?;
        }
        if *block_bytes != LINE_BYTES {
            write!(f, ",block={block_bytes}")?;
        }
        Ok(())
    }
}

fn parse_bandwidth(key: &str, text: &str) -> Result<Option<u64>> {
    if text == "unlimited" {
        return Ok(None);
    }
    match text.parse::<f64>() {
        // The upper bound keeps the conversion exact enough and the time of a line above zero.
        Ok(gigabytes) if gigabytes > 0.0 && gigabytes <= 10_000.0 => {
            Ok(Some(bytes_per_second(gigabytes)))
        }
        _ => Err(PmemError::Unsupported(format!(
            "{key}={text}: a number of GB/s up to 10000 is expected, or `unlimited`"
        ))),
    }
}

#[allow(clippy::cast_sign_loss, reason = "the caller has checked the range")]
fn bytes_per_second(gigabytes: f64) -> u64 {
    (gigabytes * 1e9).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_read_and_written_back() {
        for text in [
            "dram",
            "low",
            "high",
            "count",
            "optane",
            "cxl",
            "cxl-pool",
            "read=640,write=100,fence=50,bandwidth=2.5",
            "read=640,near=200,write=0,fence=0,bandwidth=4,write-bandwidth=1,block=256",
        ] {
            assert_eq!(text.parse::<Profile>().unwrap().to_string(), text);
        }
        let slow_writes: Profile = "low, write=500".parse().unwrap();
        assert_eq!(
            slow_writes,
            Profile {
                write_ns: 500,
                ..Profile::LOW
            }
        );
        assert_eq!(
            slow_writes.to_string().parse::<Profile>().unwrap(),
            slow_writes
        );
        let high: Profile = "read=1280,bandwidth=9.5".parse().unwrap();
        assert_eq!(high.to_string(), "high");
        for name in ["nvdimm-n", "battery-dram"] {
            assert_eq!(name.parse::<Profile>().unwrap(), Profile::DRAM);
        }
    }

    #[test]
    fn the_papers_latencies_are_added_to_dram() {
        let added = [Profile::DRAM, Profile::LOW, Profile::HIGH, Profile::COUNT]
            .map(|profile| (profile.added_read_ns(), profile.delays()));
        assert_eq!(added, [(0, false), (160, true), (1120, true), (0, false)]);
    }

    #[test]
    fn errors_say_what_to_write() {
        for (text, part) in [
            ("medium", "say dram, low, high, count, optane, cxl"),
            ("", "unknown profile"),
            ("low,high", "unknown profile `high`"),
            ("speed=3", "no value `speed`"),
            ("read=fast", "whole number of ns"),
            ("read=100", "can only add"),
            ("read=99999999999", "at most"),
            ("bandwidth=0", "GB/s"),
            ("bandwidth=0.0001", "at least 0.001"),
            ("bandwidth=x", "unlimited"),
            ("count,write=5", "takes no values"),
            ("near=400", "at most read=160"),
            ("block=100", "power of two"),
            ("block=x", "whole number of bytes"),
            ("write-bandwidth=0.0001", "at least 0.001"),
        ] {
            let error = text.parse::<Profile>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
