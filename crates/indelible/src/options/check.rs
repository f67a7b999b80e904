//! Checks of the options of a database that need no file.
//!
//! They run before the first file is touched: each value is in its range, and goes with the method
//! if one was chosen. Otherwise the second check follows when the method is known.

use super::{MethodOption, Options};
use crate::error::{Error, Result};
use disk::IoMode;
use std::fmt::Debug;
use std::ops::{Bound, RangeBounds, RangeInclusive};
use std::time::Duration;
use storage::engine::{Method, RING_BYTES_MAX};

/// Most partitions of a database.
pub const PARTITIONS_MAX: u32 = 1024;
/// Most transactions that are open at once in a partition.
pub const SESSIONS_MAX: u32 = 1024;
/// Most rings of a partition that sessions share.
pub const RINGS_MAX: u32 = 256;
/// Least size of a page for direct transfers.
pub const DIRECT_BYTES_MIN: u32 = 4096;
/// Least size of an area for copies of pages: sixteen of 8 KiB.
pub const AREA_BYTES_MIN: u64 = 128 << 10;
const TRANSACTION_MEMORY_LEAST: u64 = 64 << 10;
const LOCKS_LEAST: usize = 1024;
const POOL_BYTES_MIN: u64 = 1 << 20;
const GROUP_WAIT_US_MAX: u64 = 1_000_000;
const MARK_INTERVAL_MIN: Duration = Duration::from_millis(1);
const MEMTABLE_BYTES: RangeInclusive<u64> = 1 << 10..=1 << 34;
const GROWTH_FACTOR: RangeInclusive<u32> = 2..=64;

/// Sizes of a node, or of a page in the page methods. Less than 128 bytes do not hold the header
/// and four entries of a tree that changes in place.
fn node_bytes(method: Option<Method>) -> RangeInclusive<u32> {
    match method {
        Some(Method::NvmInp | Method::NvmLog) => 128..=8192,
        Some(Method::Cow | Method::NvmCow) => 256..=16384,
        Some(method) if method.is_paged() => 512..=16384,
        _ => 256..=8192,
    }
}

impl Options {
    /// Checks every value that can be checked without touching the medium.
    pub fn check(&self) -> Result<()> {
        within("partitions", self.partitions, 1..=PARTITIONS_MAX)?;
        within("pool_bytes", self.pool_bytes, POOL_BYTES_MIN..)?;
        within("group_transactions_max", self.group_transactions_max, 1..)?;
        within(
            "group_wait_us_max",
            self.group_wait_us_max,
            ..=GROUP_WAIT_US_MAX,
        )?;
        within(
            "transaction_memory_max",
            self.transaction_memory_max,
            TRANSACTION_MEMORY_LEAST..,
        )?;
        within("locks_max", self.locks_max, LOCKS_LEAST..)?;
        within("connections_max", self.connections_max, 1..)?;
        within("mark_interval", self.mark_interval, MARK_INTERVAL_MIN..)?;
        for option in &self.of_method {
            option.check_range()?;
        }
        let method = self.explicit_method();
        self.check_node_bytes(method)?;
        let Some(method) = method else { return Ok(()) };
        if let (Method::Volatile, Some(domain)) = (method, self.domain) {
            return Err(Error::option(
                "domain",
                format!("`{domain}` with method `volatile`, which keeps nothing"),
                "leave it out, or choose a durable method",
            ));
        }
        let node_bytes = self
            .node_bytes
            .unwrap_or_else(|| method.node_bytes_default());
        self.check_method(method, node_bytes)
    }

    fn check_node_bytes(&self, method: Option<Method>) -> Result<()> {
        let possible = node_bytes(method);
        let is_possible = |bytes: &u32| possible.contains(bytes) && bytes.is_power_of_two();
        match self.node_bytes.filter(|bytes| !is_possible(bytes)) {
            None => Ok(()),
            Some(bytes) => Err(Error::option(
                "node_bytes",
                format!("{bytes} bytes"),
                format!(
                    "use a power of two from {} to {}",
                    possible.start(),
                    possible.end()
                ),
            )),
        }
    }

    /// Fails if the method, with nodes of this size, does not take one of the options.
    pub(super) fn check_method(&self, method: Method, node_bytes: u32) -> Result<()> {
        for option in &self.of_method {
            option.check_for(&[method])?;
        }
        if self.io_mode() == IoMode::Direct && node_bytes < DIRECT_BYTES_MIN {
            return Err(Error::option(
                "io",
                format!("pages of {node_bytes} bytes are less than a block of direct transfers"),
                format!("use buffered transfers, or pages of {DIRECT_BYTES_MIN} bytes or more"),
            ));
        }
        Ok(())
    }
}

impl MethodOption {
    /// Rejects values that make no sense with any method.
    fn check_range(&self) -> Result<()> {
        match *self {
            Self::MemtableBytes(bytes) => within("memtable_bytes", Some(bytes), MEMTABLE_BYTES),
            Self::GrowthFactor(factor) => within("growth_factor", Some(factor), GROWTH_FACTOR),
            Self::RingBytes(bytes) => within("ring_bytes", Some(bytes), ..=RING_BYTES_MAX),
            Self::Rings(rings) => within("rings", Some(rings), 1..=RINGS_MAX),
            Self::AreaBytes(bytes) => within("area_bytes", Some(bytes), AREA_BYTES_MIN..),
            Self::Sessions(sessions) => within("sessions", Some(sessions), 1..=SESSIONS_MAX),
            _ => Ok(()),
        }
    }
}

/// Fails if a value is given and out of its range.
fn within<T: PartialOrd + Debug>(
    option: &'static str,
    value: Option<T>,
    range: impl RangeBounds<T>,
) -> Result<()> {
    let Some(value) = value.filter(|value| !range.contains(value)) else {
        return Ok(());
    };
    let remedy = match (range.start_bound(), range.end_bound()) {
        (Bound::Included(least), Bound::Included(most)) => format!("use {least:?} to {most:?}"),
        (Bound::Included(least), _) => format!("use at least {least:?}"),
        (_, Bound::Included(most)) => format!("use at most {most:?}"),
        _ => unreachable!("the range of an option has an end that belongs to it"),
    };
    Err(Error::option(
        option,
        format!("{value:?} is out of range"),
        remedy,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmem::Domain;
    use storage::engine::{FenceOrder, LogImages};

    #[test]
    fn each_bad_value_names_its_option() {
        let cases: [(Options, &str); 15] = [
            (Options::new().partitions(0), "partitions"),
            (Options::new().node_bytes(300), "node_bytes"),
            (
                Options::new().method(Method::NvmInp).node_bytes(16384),
                "node_bytes",
            ),
            (
                Options::new().method(Method::NvmCow).node_bytes(128),
                "node_bytes",
            ),
            (Options::new().pool_bytes(5), "pool_bytes"),
            (
                Options::new().group_transactions_max(0),
                "group_transactions_max",
            ),
            (Options::new().memtable_bytes(5), "memtable_bytes"),
            (
                Options::new().method(Method::Log).growth_factor(1),
                "growth_factor",
            ),
            (
                Options::new()
                    .method(Method::NvmCow)
                    .page_cache_bytes(1 << 20),
                "page_cache_bytes",
            ),
            (
                Options::new().method(Method::Nvwal).outline_bytes(0),
                "outline_bytes",
            ),
            (Options::new().method(Method::Inp).io(IoMode::Direct), "io"),
            (
                Options::new().method(Method::Inp).memtable_bytes(1 << 20),
                "memtable_bytes",
            ),
            (
                Options::new()
                    .method(Method::Cow)
                    .log_images(LogImages::BeforeAndAfter),
                "log_images",
            ),
            (
                Options::new()
                    .method(Method::Volatile)
                    .domain(Domain::Flush),
                "domain",
            ),
            (
                Options::new().method(Method::Inp).fences(FenceOrder::Paper),
                "fences",
            ),
        ];
        for (options, name) in cases {
            let error = options.check().unwrap_err();
            assert!(error.to_string().contains(&format!("`{name}`")), "{error}");
        }
    }
}
