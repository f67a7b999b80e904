//! The imitated device of files: its latencies, its bandwidth, and how threads wait for it.
//!
//! A profile has a name (`ssd`) or values (`read=25000,sync=300000`), or values after a name, on
//! the command line and in rows of results: a profile is read back as it was written.

use crate::arm::Arm;
use pmem::PmemError;
use std::fmt;
use std::str::FromStr;

/// The largest latency (1 s) and bandwidth (1 PB/s) that a profile string may give.
const VALUE_MAX: u64 = 1_000_000_000;

/// An imitated device. All values are added to the time of the wrapped files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FileProfile {
    /// Added to each read call, in ns.
    pub read_ns: u64,
    /// Added to each write call, in ns.
    pub write_ns: u64,
    /// Added to each sync of a file or of the directory, in ns.
    pub sync_ns: u64,
    /// Bytes a second, reads and writes together. `None` adds no throttle.
    pub bandwidth: Option<u64>,
    /// Of a hard disk. It takes one access after the other, and writes lie in the system's cache
    /// until a sync brings them to the platters.
    pub arm: Option<Arm>,
    /// How time passes.
    pub waits: Waits,
}

/// How a thread waits for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Waits {
    /// By spinning: exact, and no other thread has the core meanwhile.
    #[default]
    Spinning,
    /// As for a real drive: other threads have the core. A wait may be some 50 us too long.
    Sleeping,
}

impl FileProfile {
    /// Nothing added: the filesystem on the imitated memory, whose cost a
    /// [`ChargeSink`](crate::emulated::ChargeSink) charges.
    pub const NONE: Self = Self {
        read_ns: 0,
        write_ns: 0,
        sync_ns: 0,
        bandwidth: None,
        arm: None,
        waits: Waits::Spinning,
    };
    /// The engines paper's flash drive (its table 1): 25 us a read; writes go to the drive's cache,
    /// and 300 us empty it; 500 MB/s.
    pub const SSD: Self = Self {
        read_ns: 25_000,
        write_ns: 0,
        sync_ns: 300_000,
        bandwidth: Some(500_000_000),
        arm: None,
        waits: Waits::Spinning,
    };
    /// A SATA drive of 2015 without protection against power loss, as in the thesis on page-write
    /// protection (Samsung 850 Pro, 256 GB): by its maker's specification 10,000 reads and 36,000
    /// writes of 4 KB a second at queue depth 1 and 520 MB/s; 3.5 ms a flush, as measured on a
    /// consumer drive of the same maker (Percona, "Why Consumer SSD Reviews are Useless for
    /// Database Performance Use Case", 2018). Threads sleep meanwhile.
    pub const SATA: Self = Self {
        read_ns: 100_000,
        write_ns: 28_000,
        sync_ns: 3_500_000,
        bandwidth: Some(520_000_000),
        arm: None,
        waits: Waits::Sleeping,
    };
    /// A desktop hard disk of 7,200 turns a minute, from the time of the logging paper, which used
    /// one of 512 GB that it does not describe. A seek takes 10 ms (the engines paper's table 1).
    /// The bandwidth of 125 MB/s is a little less than that of such a drive's outermost tracks (138
    /// MB/s by the maker's specification of the Seagate Barracuda XT, 2009). Threads sleep
    /// meanwhile.
    pub const HDD: Self = Self {
        read_ns: 0,
        write_ns: 0,
        sync_ns: 0,
        bandwidth: Some(125_000_000),
        arm: Some(Arm {
            seek_ns: 10_000_000,
            turn_ns: 60_000_000_000 / 7_200,
        }),
        waits: Waits::Sleeping,
    };
}

impl fmt::Display for FileProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NONE => f.write_str("none"),
            Self::SSD => f.write_str("ssd"),
            Self::SATA => f.write_str("sata"),
            Self::HDD => f.write_str("hdd"),
            Self {
                read_ns,
                write_ns,
                sync_ns,
                bandwidth,
                arm,
                waits,
            } => {
                write!(
                    f,
                    "read={read_ns},write={write_ns},sync={sync_ns},bandwidth="
                )?;
                match bandwidth {
                    Some(bandwidth) => write!(f, "{}", bandwidth / 1_000_000)?,
                    None => f.write_str("unlimited")?,
                }
                if let Some(Arm { seek_ns, turn_ns }) = arm {
                    write!(f, ",seek={seek_ns},turn={turn_ns}")?;
                }
                match waits {
                    Waits::Spinning => Ok(()),
                    Waits::Sleeping => f.write_str(",wait=sleep"),
                }
            }
        }
    }
}

impl FromStr for FileProfile {
    type Err = PmemError;

    /// Reads `none`, `ssd`, `sata`, `hdd`, or values as
    /// `read=25000,write=0,sync=300000,bandwidth=500` (ns and MB/s, `seek` and `turn` of an arm,
    /// and `wait=sleep` or `wait=spin`).
    fn from_str(text: &str) -> Result<Self, PmemError> {
        let mut profile = Self::NONE;
        for (position, piece) in text.split(',').map(str::trim).enumerate() {
            match (position, piece) {
                (0, "none") => profile = Self::NONE,
                (0, "ssd") => profile = Self::SSD,
                (0, "sata") => profile = Self::SATA,
                (0, "hdd") => profile = Self::HDD,
                _ => profile.set(piece).map_err(PmemError::Unsupported)?,
            }
        }
        Ok(profile)
    }
}

impl FileProfile {
    /// Time to move bytes once their place is reached.
    pub(crate) fn transfer_ns(&self, bytes: u64) -> u64 {
        self.bandwidth.map_or(0, |bandwidth| {
            (u128::from(bytes) * 1_000_000_000 / u128::from(bandwidth)) as u64
        })
    }

    /// Sets one `key=value`; the error is a sentence.
    fn set(&mut self, piece: &str) -> Result<(), String> {
        let (key, value) = piece.split_once('=').ok_or_else(|| {
            format!(
                "unknown file profile `{piece}`; say none, ssd, sata or hdd, then or instead values as \
                 `read=25000,write=0,sync=300000,bandwidth=500` (ns and MB/s)"
            )
        })?;
        let number = || {
            let number = value
                .parse::<u64>()
                .ok()
                .filter(|number| *number <= VALUE_MAX);
            number.ok_or_else(|| {
                format!("{key}={value}: a whole number up to {VALUE_MAX} is expected")
            })
        };
        match key {
            "read" => self.read_ns = number()?,
            "write" => self.write_ns = number()?,
            "sync" => self.sync_ns = number()?,
            "seek" => self.arm.get_or_insert_default().seek_ns = number()?,
            "turn" => self.arm.get_or_insert_default().turn_ns = number()?,
            "wait" => match value {
                "spin" => self.waits = Waits::Spinning,
                "sleep" => self.waits = Waits::Sleeping,
                _ => return Err(format!("wait={value}: say spin or sleep")),
            },
            "bandwidth" if value == "unlimited" => self.bandwidth = None,
            "bandwidth" => match number()? {
                0 => return Err("bandwidth=0: say at least 1 (MB/s), or `unlimited`".into()),
                megabytes => self.bandwidth = Some(megabytes * 1_000_000),
            },
            _ => {
                return Err(format!(
                    "a file profile has no value `{key}`; there are read, write, sync, seek, turn (ns), \
                     bandwidth (MB/s) and wait"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_read_and_written_back() {
        for text in [
            "none",
            "ssd",
            "sata",
            "hdd",
            "read=1,write=2,sync=3,bandwidth=4",
            "read=1,write=2,sync=3,bandwidth=4,wait=sleep",
            "read=1,write=2,sync=3,bandwidth=unlimited,seek=5,turn=0",
            "read=0,write=0,sync=0,bandwidth=125,seek=10000000,turn=8333333",
        ] {
            assert_eq!(text.parse::<FileProfile>().unwrap().to_string(), text);
        }
        let slow: FileProfile = "ssd,sync=5000000,bandwidth=unlimited".parse().unwrap();
        let expected = FileProfile {
            sync_ns: 5_000_000,
            bandwidth: None,
            ..FileProfile::SSD
        };
        assert_eq!(slow, expected);
        let near: FileProfile = "hdd,seek=4000000".parse().unwrap();
        let arm = Some(Arm {
            seek_ns: 4_000_000,
            turn_ns: 8_333_333,
        });
        assert_eq!(
            near,
            FileProfile {
                arm,
                ..FileProfile::HDD
            }
        );
        for (text, part) in [
            ("tape", "say none, ssd, sata or hdd"),
            ("wait=yes", "say spin or sleep"),
            ("spin=1", "no value `spin`"),
            ("read=x", "whole number"),
            ("bandwidth=0", "at least 1"),
            ("write=1,ssd", "unknown file profile `ssd`"),
        ] {
            let error = text.parse::<FileProfile>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
