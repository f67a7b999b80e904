//! Positions in logs, and the names of their files.
//!
//! The records of a log have positions ([`Lsn`]) that ascend for the life of the database. Its
//! files have numbers, which ascend too, in names that begin with the partition ([`LogIdentity`]).
//! A checkpoint says by both where replay starts ([`LogStart`]).

use crate::error::Result;
use disk::Directory;

/// Numbers above are refused, so that counting on never overflows.
pub const NUMBER_MAX: u64 = u64::MAX >> 1;

/// A position in the log: bytes of records since the log began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Position where a new log begins. Not zero, so that a run of zeros is never a valid frame.
    pub const FIRST: Self = Self(8);
    /// No log gets this far, so arithmetic on smaller positions does not overflow.
    pub const END: Self = Self(1 << 62);
}

/// Database and partition that a log belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogIdentity {
    /// Identity of the database.
    pub database: u128,
    /// Number of the partition.
    pub partition: u32,
}

impl LogIdentity {
    /// The name of a file of this partition: `p0.wal.000001`.
    pub fn file_name(&self, kind: &str, number: u64) -> String {
        format!("p{}.{kind}.{number:06}", self.partition)
    }

    /// The numbers in the names of this partition's files of one kind, ascending. Other files are
    /// passed over.
    pub(super) fn numbers<D: Directory>(&self, directory: &D, kind: &str) -> Result<Vec<u64>> {
        let prefix = format!("p{}.{kind}.", self.partition);
        let mut numbers: Vec<u64> = directory
            .list()?
            .iter()
            .filter_map(|name| name.strip_prefix(prefix.as_str()))
            .filter(|digits| digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit()))
            .filter_map(|digits| digits.parse().ok())
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }
}

/// Start of replay: recorded by a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogStart {
    /// Segments with smaller numbers are not needed any more.
    pub segment: u64,
    /// Position of the first record that is needed.
    pub lsn: Lsn,
}

impl LogStart {
    /// The start of a new log.
    pub const NEW: Self = Self {
        segment: 1,
        lsn: Lsn::FIRST,
    };
}
