//! Resources of this machine: caches, processors, free memory.
//!
//! Read once from the system's own files; where they are missing, modest sizes are assumed. Sizes
//! steer choices only, no result depends on them.

use std::sync::OnceLock;

/// Sizes that partitions and tables are fitted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    /// Second-level cache of one core.
    pub(crate) l2_bytes: usize,
    /// Last-level cache; shared by all cores, maybe with other tenants.
    pub(crate) l3_bytes: usize,
    pub(crate) processors: usize,
}

/// No more than this of a last-level cache is counted on: a large one is shared with unknown
/// neighbours.
const L3_BYTES_MAX: usize = 32 << 20;

/// This machine.
pub(crate) fn machine() -> Machine {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    *MACHINE.get_or_init(|| Machine {
        l2_bytes: cache_bytes(2).unwrap_or(1 << 20).clamp(256 << 10, 4 << 20),
        l3_bytes: cache_bytes(3)
            .unwrap_or(8 << 20)
            .clamp(1 << 20, L3_BYTES_MAX),
        processors: std::thread::available_parallelism().map_or(1, usize::from),
    })
}

fn cache_bytes(level: u32) -> Option<usize> {
    (0..8).find_map(|index| {
        let folder = format!("/sys/devices/system/cpu/cpu0/cache/index{index}");
        let read = |name: &str| std::fs::read_to_string(format!("{folder}/{name}")).ok();
        if read("level")?.trim() != level.to_string() || read("type")?.trim() == "Instruction" {
            return None;
        }
        size_of_text(read("size")?.trim())
    })
}

/// Bytes of `512K` or `32M`.
fn size_of_text(text: &str) -> Option<usize> {
    let (digits, unit) = match text.strip_suffix('K') {
        Some(digits) => (digits, 1 << 10),
        None => (text.strip_suffix('M')?, 1 << 20),
    };
    Some(digits.parse::<usize>().ok()? * unit)
}

/// Memory that could be used without swapping; none if the system does not say.
pub(crate) fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find(|line| line.starts_with("MemAvailable:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_unit() {
        assert_eq!(size_of_text("512K"), Some(512 << 10));
        assert_eq!(size_of_text("32M"), Some(32 << 20));
        assert_eq!(size_of_text("many"), None);
        assert!(machine().l2_bytes >= 256 << 10);
    }
}
