//! Sizes of the experiments: in seconds, in minutes, or at the paper's sizes.
//!
//! A database that is smaller than the paper's gets a modelled cache and MemTables that are smaller
//! in the same ratio. Otherwise all of it would fit into the cache and no latency would show, or
//! into one MemTable and no run would be written. The smallest size also leaves out most values of
//! long axes.

use super::experiment::Axis;
use delimited::thousands;

/// The paper's last-level cache, and the size of its data.
const PAPER_CACHE_BYTES: u64 = 20 << 20;
const PAPER_YCSB_ROWS: u64 = 2_000_000;
const PAPER_WAREHOUSES: u64 = 8;
/// A smaller cache does not even hold the data of one transaction.
const CACHE_BYTES_MIN: u64 = 64 << 10;

/// The database's own MemTables with the paper's data, and the least.
const MEMTABLE_BYTES: u64 = 64 << 20;
const MEMTABLE_BYTES_MIN: u64 = 64 << 10;
/// The page cache of `cow` of both partitions with the paper's data, a half of them, and the least.
const PAGE_CACHE_BYTES: u64 = 1 << 30;
const PAGE_CACHE_BYTES_MIN: u64 = 256 << 10;

/// Bytes in pages of a TPC-B account, a TATP subscriber, a sysbench row and a full TPC-C warehouse,
/// as measured after loading.
const ACCOUNT_BYTES: u64 = 128;
const SUBSCRIBER_BYTES: u64 = 600;
const SBTEST_BYTES: u64 = 260;
const WAREHOUSE_BYTES: u64 = 97_000_000;

/// Tuples of R in the workloads of the joins' paper.
const PAPER_JOIN_A: u64 = 1_600_000_000;
const PAPER_JOIN_B: u64 = 128_000_000;

/// A size of all experiments.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub(crate) name: &'static str,
    /// Partitions of a database.
    pub partitions: u32,
    /// Rounds, in each of which every point is measured once.
    pub rounds: u32,
    /// Rounds that are asked for, where that is more.
    pub rounds_asked: u32,
    /// Points that take turns, at most: as many databases are loaded at once.
    pub together: usize,
    /// Seconds of one measurement.
    pub seconds: f64,
    pub(crate) ycsb_rows: u32,
    /// Share of a full TPC-C warehouse, in thousandths.
    pub(crate) tpcc_scale_thousandths: u32,
    pub(crate) warehouses: u32,
    /// Rows of YCSB where a process is killed.
    pub recovery_rows: u32,
    /// Operations of each kind whose bytes are counted.
    pub cost_rows: u32,
    /// Tuples of R in workload A of the joins.
    pub(crate) join_a: u64,
    /// Tuples of each side in their workload B. No power of two times `join_a`, so that no two
    /// names mean the same relations.
    pub(crate) join_b: u64,
    /// TPC-C of the page engine: as many warehouses as there may be threads, or more, and their
    /// share of the full size in thousandths.
    pub(crate) paged_warehouses: u32,
    pub(crate) paged_scale_thousandths: u32,
    /// TPC-B: branches, and accounts of each.
    pub(crate) branches: u32,
    pub(crate) accounts: u32,
    /// TATP.
    pub(crate) subscribers: u32,
    /// Bytes of a ring with before images in memory; making rings takes time, and short runs fill
    /// little of them.
    pub(crate) ring_bytes: u64,
    /// Bytes of the log's rings in memory, for all threads together: as much between two
    /// checkpoints as a central log has, or more than a short run fills, so that no scheme writes
    /// checkpoints where the others do not.
    pub(crate) log_ring_bytes: u64,
    /// Rows of sysbench's table.
    pub(crate) sysbench_rows: u32,
    /// Rows that go into a tree of slotted pages.
    pub(crate) btree_rows: u32,
    /// Seconds of one measurement with an imitated drive, whose flushes take milliseconds.
    pub(crate) drive_seconds: f64,
    /// Whether only the ends of long axes are run.
    pub(crate) thin: bool,
}

const SMOKE: Size = Size {
    name: "smoke",
    partitions: 2,
    rounds: 2,
    rounds_asked: 0,
    together: 12,
    seconds: 0.01,
    ycsb_rows: 500,
    tpcc_scale_thousandths: 5,
    warehouses: 2,
    recovery_rows: 500,
    cost_rows: 200,
    join_a: 600,
    join_b: 6400,
    paged_warehouses: 16,
    paged_scale_thousandths: 2,
    branches: 16,
    accounts: 100,
    subscribers: 5_000,
    ring_bytes: 4 << 20,
    log_ring_bytes: 4 << 20,
    sysbench_rows: 12_000,
    btree_rows: 1_500,
    drive_seconds: 0.02,
    thin: true,
};

const QUICK: Size = Size {
    name: "quick",
    partitions: 2,
    rounds: 5,
    rounds_asked: 0,
    together: 24,
    seconds: 0.1,
    ycsb_rows: 40_000,
    tpcc_scale_thousandths: 50,
    warehouses: 2,
    recovery_rows: 10_000,
    cost_rows: 20_000,
    join_a: 1_600_000,
    join_b: 8_000_000,
    paged_warehouses: 16,
    paged_scale_thousandths: 10,
    branches: 100,
    accounts: 1_000,
    subscribers: 10_000,
    ring_bytes: 16 << 20,
    log_ring_bytes: 64 << 20,
    sysbench_rows: 240_000,
    btree_rows: 20_000,
    drive_seconds: 1.0,
    thin: false,
};

/// As much of the papers' sizes as 16 GiB hold with the databases that are loaded together.
const FULL: Size = Size {
    name: "full",
    partitions: 2,
    rounds: 10,
    rounds_asked: 0,
    together: 3,
    seconds: 10.0,
    ycsb_rows: 2_000_000,
    tpcc_scale_thousandths: 1000,
    warehouses: 8,
    recovery_rows: 100_000,
    cost_rows: 100_000,
    join_a: 80_000_000,
    join_b: 128_000_000,
    paged_warehouses: 16,
    paged_scale_thousandths: 1_000,
    branches: 100,
    accounts: 100_000,
    subscribers: 2_000_000,
    ring_bytes: 80 << 20,
    log_ring_bytes: 640 << 20,
    sysbench_rows: 5_000_000,
    btree_rows: 1_000_000,
    drive_seconds: 60.0,
    thin: false,
};

impl Default for Size {
    fn default() -> Self {
        QUICK
    }
}

impl Size {
    /// The size with this name in rows.
    pub fn named(name: &str) -> Option<Self> {
        [SMOKE, QUICK, FULL]
            .into_iter()
            .find(|size| size.name == name)
    }

    /// Measurements of a database: one a round, and a second one of the control point.
    pub fn measurements(&self) -> u32 {
        2 * self.rounds_taken()
    }

    /// Rounds that a run takes. A row with more than those of its size is still of that size.
    pub fn rounds_taken(&self) -> u32 {
        self.rounds.max(self.rounds_asked)
    }

    /// The papers' sizes, as far as they fit.
    pub fn full() -> Self {
        FULL
    }

    /// The smallest size.
    pub fn smoke() -> Self {
        SMOKE
    }

    /// The modelled cache of a YCSB run.
    pub fn ycsb_cache_bytes(&self) -> u64 {
        self.of_ycsb(PAPER_CACHE_BYTES).max(CACHE_BYTES_MIN)
    }

    /// A MemTable of a YCSB run.
    pub fn ycsb_memtable_bytes(&self) -> u64 {
        self.of_ycsb(MEMTABLE_BYTES).max(MEMTABLE_BYTES_MIN)
    }

    /// The page cache of a partition of `cow` in a YCSB run.
    pub fn ycsb_page_cache_bytes(&self) -> u64 {
        (self.of_ycsb(PAGE_CACHE_BYTES) / u64::from(self.partitions)).max(PAGE_CACHE_BYTES_MIN)
    }

    /// Scales bytes that go with the paper's YCSB data to the rows of this size.
    fn of_ycsb(&self, bytes: u64) -> u64 {
        bytes * u64::from(self.ycsb_rows) / PAPER_YCSB_ROWS
    }

    /// Share of a full TPC-C warehouse.
    pub fn tpcc_scale(&self) -> f64 {
        f64::from(self.tpcc_scale_thousandths) / 1000.0
    }

    /// The modelled cache of a TPC-C run.
    pub fn tpcc_cache_bytes(&self) -> u64 {
        self.of_tpcc(PAPER_CACHE_BYTES).max(CACHE_BYTES_MIN)
    }

    /// A MemTable of a TPC-C run.
    pub fn tpcc_memtable_bytes(&self) -> u64 {
        self.of_tpcc(MEMTABLE_BYTES).max(MEMTABLE_BYTES_MIN)
    }

    /// The page cache of a partition of `cow` in a TPC-C run.
    pub fn tpcc_page_cache_bytes(&self) -> u64 {
        (self.of_tpcc(PAGE_CACHE_BYTES) / u64::from(self.partitions)).max(PAGE_CACHE_BYTES_MIN)
    }

    /// Scales bytes that go with the paper's warehouses to the warehouses of this size.
    fn of_tpcc(&self, bytes: u64) -> u64 {
        let thousandths = u64::from(self.warehouses) * u64::from(self.tpcc_scale_thousandths);
        bytes * thousandths / (1000 * PAPER_WAREHOUSES)
    }

    /// The values of an axis that are run.
    pub fn values(&self, axis: Axis) -> Vec<&'static str> {
        let (name, values) = axis;
        let (Some(first), Some(last), true) = (values.first(), values.last(), self.thin) else {
            return values.to_vec();
        };
        match name {
            "method" | "profile" | "operation" | "workload" | "interface" | "pattern"
            | "algorithm" | "kernel" | "scheme" | "placement" => values.to_vec(),
            "skew" | "txns" => vec![first],
            "slowdown" => vec![last],
            "threads" => {
                let is_few = |value: &&str| value.parse().is_ok_and(|threads: u32| threads <= 16);
                let few: Vec<_> = values.iter().copied().filter(is_few).collect();
                let ends = few.first().into_iter().chain(few.last());
                let mut ends: Vec<_> = ends.copied().collect();
                ends.dedup();
                ends
            }
            _ if values.len() > 2 => vec![first, last],
            _ => values.to_vec(),
        }
    }

    /// The modelled cache of a tree: a twentieth of its rows of 64 bytes with their overhead.
    pub fn btree_cache_bytes(&self) -> u64 {
        (u64::from(self.btree_rows) * 8).max(CACHE_BYTES_MIN)
    }

    /// Share of a full TPC-C warehouse for the page engine.
    pub fn paged_scale(&self) -> f64 {
        f64::from(self.paged_scale_thousandths) / 1000.0
    }

    /// Bytes of pages of a loaded workload, about: the space that the page engine needs for its
    /// rows and indexes.
    pub fn paged_bytes(&self, workload: &str) -> u64 {
        match workload {
            "tpcb" => u64::from(self.branches) * u64::from(self.accounts) * ACCOUNT_BYTES,
            "tatp" => u64::from(self.subscribers) * SUBSCRIBER_BYTES,
            "sysbench" => u64::from(self.sysbench_rows) * SBTEST_BYTES,
            _ => {
                let thousandths = u64::from(self.paged_scale_thousandths);
                u64::from(self.paged_warehouses) * thousandths * WAREHOUSE_BYTES / 1000
            }
        }
    }

    /// Tuples of R and S, from a workload's name in the joins' paper: `A m=8`, `B`, `B/16`, `2B`.
    pub fn relations(&self, name: &str) -> Option<(u64, u64)> {
        if let Some(ratio) = name.strip_prefix("A m=") {
            return Some((self.join_a, self.join_a * ratio.parse::<u64>().ok()?));
        }
        let side = match name.split_once('B')? {
            ("", "") => self.join_b,
            ("", share) => self.join_b / share.strip_prefix('/')?.parse::<u64>().ok()?,
            (times, "") => self.join_b * times.parse::<u64>().ok()?,
            _ => return None,
        };
        Some((side, side))
    }

    /// Description in the report of the joins.
    pub fn describe_joins(&self) -> String {
        format!(
            "workload A with {} tuples in R, 1/{} of the paper's; B with {} on both sides, 1/{} of the paper's; tuples of 8 bytes, medians of {} rounds of joins in \
             warm scratch memory",
            thousands(self.join_a),
            PAPER_JOIN_A / self.join_a,
            thousands(self.join_b),
            PAPER_JOIN_B / self.join_b,
            self.rounds
        )
    }

    /// Description in the report of NV-Logging.
    pub fn describe_nv_logging(&self) -> String {
        format!(
            "TPC-C with {} warehouses at {} of the full size, TPC-B with {} branches of {} accounts, TATP with {} subscribers: about {}, {} and {} MB of \
             pages (the papers: 70 warehouses, 1,000 branches of 100,000 accounts, 10 M subscribers); medians of {} rounds of {} s",
            self.paged_warehouses,
            self.paged_scale(),
            self.branches,
            thousands(self.accounts.into()),
            thousands(self.subscribers.into()),
            self.paged_bytes("tpcc") / 1_000_000,
            self.paged_bytes("tpcb") / 1_000_000,
            self.paged_bytes("tatp") / 1_000_000,
            self.rounds,
            self.seconds
        )
    }

    /// Description in the report of NVM-DWB.
    pub fn describe_nvm_dwb(&self) -> String {
        format!(
            "sysbench with one table of {} rows, TPC-C with {} warehouses at {} of the full size: about {} and {} MB of pages (the thesis: 30 GB); medians of {} \
             rounds of {} s",
            thousands(self.sysbench_rows.into()),
            self.paged_warehouses,
            self.paged_scale(),
            self.paged_bytes("sysbench") / 1_000_000,
            self.paged_bytes("tpcc") / 1_000_000,
            self.rounds,
            self.drive_seconds
        )
    }

    /// Description in the report of FAST and FASH.
    pub fn describe_fast_fash(&self) -> String {
        format!(
            "{} rows go into an empty tree, with keys in random order; before a modelled cache of {} KiB, where the device is emulated; medians of {} rounds",
            thousands(self.btree_rows.into()),
            self.btree_cache_bytes() >> 10,
            self.rounds
        )
    }

    /// Description in the report of N-Store.
    pub fn describe_n_store(&self) -> String {
        format!(
            "YCSB with {} rows of a kilobyte before a modelled cache of {} KiB, MemTables of {} KiB; TPC-C with {} warehouses at {} of the full \
             size before {} KiB, MemTables of {} KiB; {} partitions, a thread each (the paper: 2 M rows, 8 warehouses, 8 \
             partitions); medians of {} rounds of {} s",
            self.ycsb_rows,
            self.ycsb_cache_bytes() >> 10,
            self.ycsb_memtable_bytes() >> 10,
            self.warehouses,
            self.tpcc_scale(),
            self.tpcc_cache_bytes() >> 10,
            self.tpcc_memtable_bytes() >> 10,
            self.partitions,
            self.rounds,
            self.seconds
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_shrinks_with_the_data() {
        assert_eq!(FULL.ycsb_cache_bytes(), PAPER_CACHE_BYTES);
        assert_eq!(FULL.tpcc_cache_bytes(), PAPER_CACHE_BYTES);
        assert_eq!(QUICK.ycsb_cache_bytes(), PAPER_CACHE_BYTES / 50);
        assert_eq!(SMOKE.ycsb_cache_bytes(), CACHE_BYTES_MIN);
        assert_eq!(FULL.ycsb_memtable_bytes(), MEMTABLE_BYTES);
        assert_eq!(FULL.tpcc_memtable_bytes(), MEMTABLE_BYTES);
        assert_eq!(QUICK.ycsb_memtable_bytes(), MEMTABLE_BYTES / 50);
        assert_eq!(FULL.ycsb_page_cache_bytes(), PAGE_CACHE_BYTES / 2);
        assert_eq!(QUICK.ycsb_page_cache_bytes(), PAGE_CACHE_BYTES / 100);
    }

    #[test]
    fn relations_are_parts_of_the_workloads() {
        assert_eq!(FULL.relations("A m=8"), Some((80_000_000, 640_000_000)));
        assert_eq!(FULL.relations("B"), Some((128_000_000, 128_000_000)));
        assert_eq!(FULL.relations("2B"), Some((256_000_000, 256_000_000)));
        assert_eq!(QUICK.relations("B/64"), Some((125_000, 125_000)));
        for name in ["C", "A m=", "B/", "B/x", "xB", "2B/2", ""] {
            assert_eq!(QUICK.relations(name), None, "{name}");
        }
    }

    #[test]
    fn a_thin_axis_keeps_its_ends() {
        let axis = ("node-bytes", ["256", "512", "1024"].as_slice());
        assert_eq!(SMOKE.values(axis), ["256", "1024"]);
        assert_eq!(QUICK.values(axis).len(), 3);
    }
}
