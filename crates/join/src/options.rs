//! Options of the caller: algorithm, kernel, threads, output, limits; and those that the paper
//! varies.
//!
//! Every choice has a default that suits a caller without special knowledge. `Tuning` exists for
//! experiments: it sets values that are otherwise derived from sizes and caches. Names are read and
//! shown in the spelling of the command line.

use crate::error::{JoinError, Result};
use crate::monitor::Monitor;
use crate::output::Output;
use crate::tuple::Tuple;
use std::fmt;
use std::str::FromStr;

/// The most threads of one join.
pub const THREADS_MAX: usize = 1024;

/// How tuples find their partners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// The cheapest one for these relations, by rule; [`explain`](crate::explain) says which and
    /// why.
    #[default]
    Auto,
    /// Both sides are partitioned by hash bits until a table fits the cache. Ahead when R is large.
    Radix,
    /// One table for all of R; S is probed in place. Ahead when R is near the cache's size.
    NPart,
    /// Both sides are partitioned by ranges, sorted in runs, merged many runs at a time, then
    /// joined.
    MWay,
    /// As `MWay`, but runs are merged two at a time, in passes.
    MPass,
    /// R is partitioned and sorted by ranges, S is sorted in place; each range of R meets each run
    /// of S.
    Mpsm,
}

impl Algorithm {
    /// The five algorithms, without `Auto`.
    pub const ALL: [Self; 5] = [
        Self::Radix,
        Self::NPart,
        Self::MWay,
        Self::MPass,
        Self::Mpsm,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Radix => "radix",
            Self::NPart => "n-part",
            Self::MWay => "m-way",
            Self::MPass => "m-pass",
            Self::Mpsm => "mpsm",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = JoinError;

    fn from_str(name: &str) -> Result<Self> {
        let mut all = Self::ALL.into_iter().chain([Self::Auto]);
        all.find(|algorithm| algorithm.name() == name)
            .ok_or_else(|| JoinError::UnknownAlgorithm {
                name: name.to_owned(),
            })
    }
}

/// Which instructions the inner loops use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// The best one that this processor has.
    #[default]
    Auto,
    /// 512-bit streaming stores and comparisons, 64-bit minima (AVX-512 F and VL).
    Avx512,
    /// 256-bit streaming stores and comparisons.
    Avx2,
    /// Plain Rust, on any processor.
    Portable,
}

impl Kernel {
    /// The kernels, without `Auto`.
    pub const ALL: [Self; 3] = [Self::Avx512, Self::Avx2, Self::Portable];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Portable => "portable",
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Kernel {
    type Err = JoinError;

    fn from_str(name: &str) -> Result<Self> {
        let mut all = Self::ALL.into_iter().chain([Self::Auto]);
        all.find(|kernel| kernel.name() == name)
            .ok_or_else(|| JoinError::UnknownKernel {
                name: name.to_owned(),
            })
    }
}

/// The table that `radix` builds for a partition of R, and `n-part` for all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TableKind {
    /// An array where keys are dense, linear probing else, sorted buckets where many keys are
    /// equal.
    #[default]
    Auto,
    /// Linear probing at a load of one half at most; sorted buckets where many keys are equal.
    /// `n-part` chooses as with [`TableKind::Auto`].
    LinearProbe,
    /// Chains of equal hash bits, as in the paper. `n-part` then does not partition R: all threads
    /// fill one table together.
    BucketChain,
}

/// How runs are sorted inside the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RunSort {
    /// Radix sort, or a slot for each key where keys are dense and differ; faster than the networks
    /// on every kernel.
    #[default]
    Radix,
    /// Sorting and merging networks, as in the paper.
    Network,
}

/// Whether tuples of S without a partner are dropped by a Bloom filter before they are partitioned
/// (`radix`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BloomUse {
    /// If the filter fits the cache and a sample of S says that it drops enough.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Settings for experiments; the defaults follow sizes and caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Partitions of the first pass, as a power of two from 1 to 14 (`radix`, `m-way`, `m-pass`).
    pub partition_bits: Option<u32>,
    /// Partitions of each partition in a second pass of `radix`, as a power of two from 1 to 14; 0
    /// forbids it.
    pub second_pass_bits: Option<u32>,
    /// The table of `radix` and `n-part`.
    pub table: TableKind,
    /// The sort inside the cache.
    pub run_sort: RunSort,
    /// The filter of `radix`.
    pub bloom: BloomUse,
}

/// The choices for one join.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a, T: Tuple> {
    /// How tuples find their partners.
    pub algorithm: Algorithm,
    /// Which instructions are used.
    pub kernel: Kernel,
    /// Number of threads, the caller's included; by default as many as there are processors, fewer
    /// for small relations.
    pub threads: Option<usize>,
    /// The output besides the totals.
    pub output: Output<'a, T>,
    /// The most scratch memory, in bytes; by default the memory that the system reports as
    /// available.
    pub scratch_bytes_max: Option<u64>,
    /// Progress and cancellation.
    pub monitor: Option<&'a Monitor>,
    /// Settings for experiments.
    pub tuning: Tuning,
}

impl<T: Tuple> Default for Options<'_, T> {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Auto,
            kernel: Kernel::Auto,
            threads: None,
            output: Output::Aggregate,
            scratch_bytes_max: None,
            monitor: None,
            tuning: Tuning::default(),
        }
    }
}

/// The most bits of one partitioning pass.
pub(crate) const PARTITION_BITS_MAX: u32 = 14;

impl<T: Tuple> Options<'_, T> {
    /// Refuses values out of range.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(threads) = self.threads.filter(|n| !(1..=THREADS_MAX).contains(n)) {
            let threads_max = THREADS_MAX;
            return Err(JoinError::BadThreads {
                threads,
                threads_max,
            });
        }
        check_bits("partition_bits", self.tuning.partition_bits, 1, "1..=14")?;
        check_bits(
            "second_pass_bits",
            self.tuning.second_pass_bits,
            0,
            "0..=14",
        )
    }
}

fn check_bits(
    setting: &'static str,
    bits: Option<u32>,
    bits_min: u32,
    allowed: &'static str,
) -> Result<()> {
    match bits.filter(|bits| !(bits_min..=PARTITION_BITS_MAX).contains(bits)) {
        Some(bits) => Err(JoinError::BadSetting {
            setting,
            value: bits.into(),
            allowed,
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.name().parse::<Algorithm>().unwrap(), algorithm);
        }
        for kernel in Kernel::ALL {
            assert_eq!(kernel.name().parse::<Kernel>().unwrap(), kernel);
        }
        let error = "hash".parse::<Algorithm>().unwrap_err();
        assert!(error.to_string().contains("`hash`"));
        let error = "sse9".parse::<Kernel>().unwrap_err();
        assert!(error.to_string().contains("`sse9`"));
    }
}
