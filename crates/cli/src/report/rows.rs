//! Result rows: one JSON object a line a run, complete enough to be compared with a row of another
//! machine.
//!
//! Field names carry their units. A row names the failures that the data survives and the
//! instructions that were issued, so that a measurement with another domain's instructions cannot
//! pass for durability.

use crate::machine::Machine;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One measured run of a workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunRow {
    /// Name of the workload.
    pub(crate) workload: String,
    pub(crate) method: String,
    /// How many transactions ahead rows were announced, if they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) announced_ahead: Option<u32>,
    pub(crate) mix: String,
    pub(crate) skew: String,
    pub(crate) rows: u64,
    pub(crate) partitions: u32,
    pub(crate) threads: u32,
    pub(crate) layout: String,
    pub(crate) update_columns: u32,
    /// Persistence domain of the medium.
    pub(crate) domain: String,
    /// Domain whose instructions were issued.
    pub(crate) primitives: String,
    /// Failures that the data survives, in words.
    pub(crate) survives: String,
    pub(crate) device: String,
    /// Latency profile of the emulated device; `none` on the native one.
    pub(crate) profile: String,
    pub(crate) txns: u64,
    pub(crate) seconds: f64,
    pub(crate) txn_per_s: f64,
    /// From the start of a transaction to its durable acknowledgement.
    pub(crate) latency_us: LatencyUs,
    pub(crate) cpu_us_per_txn: f64,
    /// The same without the time of the model, where a device was emulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) modelled: Option<ModelledNumbers>,
    pub(crate) per_txn: PerTxn,
    pub(crate) footprint_bytes: FootprintBytes,
    pub(crate) commit: String,
    pub(crate) seed: u64,
    pub(crate) machine: Machine,
    /// Time of the open that recovers after SIGKILL, where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) recovery_ms: Option<f64>,
    /// Fields that only the page methods have.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub(crate) pages: Option<PageNumbers>,
    /// Fields that only the standard benchmarks have.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub(crate) standard: Option<StandardNumbers>,
}

/// Numbers of a run on an emulated device without the time that its model takes, which is measured
/// on a sample of the accesses. Latencies are not corrected.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ModelledNumbers {
    /// The model's time, and half the width of its 95 % interval.
    pub(crate) model_us_per_txn: f64,
    pub(crate) model_us_per_txn_error: f64,
    /// With all threads, as many of them at once as there are cores, rid of their share of it.
    pub(crate) txn_per_s: f64,
    pub(crate) txn_per_s_error: f64,
    pub(crate) cpu_us_per_txn: f64,
}

/// The additional fields of a row of a page method. The field `commit` of a row is the program's
/// version, so the commit design is called a mode.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PageNumbers {
    /// Medium of the pages: `ssd` or `nvm`.
    #[serde(default)]
    pub(crate) pages: String,
    /// Bytes of the buffer pool of each partition, 0 if there is none.
    pub(crate) pool_bytes: u64,
    /// Protection from page writes that a power cut tears.
    pub(crate) guard: String,
    pub(crate) log: String,
    /// Whether a sync is for one commit (`immediate`) or for several (`group`).
    pub(crate) commit_mode: String,
    /// Isolation of the transactions; rows of earlier versions, all serializable, lack it.
    #[serde(default)]
    pub(crate) isolation: String,
    /// How pages travel between their file and the pool: `buffered` or `direct`; rows of earlier
    /// versions, all buffered, lack it.
    #[serde(default)]
    pub(crate) io: String,
    /// Transactions rolled back and run again because of a conflict.
    pub(crate) conflicts: u64,
    /// File reads a transaction, all of them for pages; rows of earlier versions lack it.
    #[serde(default)]
    pub(crate) file_reads_per_txn: f64,
    /// The throughput that the device's reads allow, where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) read_floor: Option<ReadFloor>,
    /// Bytes of the archive of the log at the end, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) archive_bytes: Option<u64>,
    /// Bytes a transaction by kind and medium; rows of earlier versions lack it.
    #[serde(default)]
    pub(crate) written_per_txn: WrittenBytes,
    /// Counters of the area of page copies, in methods whose pages stay there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) area: Option<AreaNumbers>,
    /// Counts of the checkpoints by who wrote them; rows of earlier versions lack it.
    #[serde(default)]
    pub(crate) checkpoints: CheckpointNumbers,
}

/// The throughput that the reads of the device allow.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ReadFloor {
    /// Random direct reads of the same file a second, by as many threads that do nothing else.
    pub(crate) pages_per_s: f64,
    /// `pages_per_s` divided by the reads of a transaction.
    pub(crate) txn_per_s: f64,
    /// The measured throughput as a share of `txn_per_s`.
    pub(crate) share: f64,
}

/// Mean bytes that a transaction writes to files and to durable memory. Files are on flash in the
/// systems that these numbers are for.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct WrittenBytes {
    /// Pages to their places in the file.
    pub(crate) file_pages: f64,
    /// Copies of pages to a doublewrite area.
    pub(crate) file_copies: f64,
    /// Records of the log, with the rest: master records and headers.
    pub(crate) file_log: f64,
    pub(crate) file_total: f64,
    /// Copies of pages.
    pub(crate) memory_copies: f64,
    /// Records of the log, with headers.
    pub(crate) memory_log: f64,
    /// Pages that the session wrote by itself, waiting for two syncs each.
    pub(crate) single_pages: f64,
    /// Blocks of flash that a million transactions erase, by the model of docs/workloads.md.
    pub(crate) erases_per_million: f64,
}

/// Checkpoints of a run.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct CheckpointNumbers {
    /// In the background, during transactions.
    pub(crate) in_background: u64,
    /// By sessions, whose transactions waited.
    pub(crate) by_sessions: u64,
    /// Transactions that waited for one in the background, since the log had become long.
    pub(crate) waits: u64,
}

/// Counters of the area of page copies.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct AreaNumbers {
    pub(crate) slots: u64,
    pub(crate) slots_used: u64,
    /// Reads of pages that took no call to the file.
    pub(crate) pages_from_area: u64,
    pub(crate) pages_put: u64,
    /// Versions that a newer one replaced, so that they were never written home.
    pub(crate) holes_reclaimed: u64,
    pub(crate) home_writes: u64,
    pub(crate) home_syncs: u64,
    /// Writes home that a session had to make.
    pub(crate) flights_by_writers: u64,
    /// Batches that were slowed down, since few slots were free.
    pub(crate) slowed: u64,
}

/// The additional fields of a row of a standard benchmark.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StandardNumbers {
    /// Fields of this benchmark alone.
    #[serde(flatten)]
    pub(crate) own: OwnNumbers,
    pub(crate) single_partition: bool,
    /// Transactions rolled back because the input asked for it or a row was not there.
    pub(crate) rollbacks: u64,
    /// Share of the transactions that took several partitions.
    pub(crate) distributed_share: f64,
    pub(crate) by_type: BTreeMap<String, TypeNumbers>,
}

/// Fields that one benchmark alone has.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum OwnNumbers {
    /// TPC-C.
    Tpcc {
        warehouses: u32,
        /// Share of the full size of a warehouse; only 1 is TPC-C.
        scale: f64,
        /// Keying and think times as a multiple of those of the specification.
        think_times: f64,
        /// New-Orders committed in a minute.
        tpm_c: f64,
    },
    /// TPC-B.
    Tpcb {
        branches: u32,
        /// Accounts of a branch; only 100,000 is TPC-B.
        accounts: u32,
    },
    /// TATP.
    Tatp {
        subscribers: u32,
        /// Transactions a second that did not fail.
        successful_txn_per_s: f64,
    },
    /// sysbench's OLTP scripts.
    Sysbench {
        tables: u32,
        /// Rows of each table after loading.
        table_rows: u32,
        range_size: u32,
        /// Whether each statement is a transaction and counted as one.
        skip_trx: bool,
        /// Runs of the whole script a second.
        events_per_s: f64,
        statements_per_s: f64,
    },
}

/// One of the transactions.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TypeNumbers {
    /// Transactions run, rollbacks included.
    pub(crate) txns: u64,
    /// Share of them that was not rolled back; rows of earlier versions lack it.
    #[serde(default)]
    pub(crate) success_rate: f64,
    pub(crate) latency_us: LatencyUs,
}

/// Latency in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct LatencyUs {
    /// Rows of earlier versions lack it.
    #[serde(default)]
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

impl LatencyUs {
    /// Quantiles of latencies in nanoseconds.
    pub(crate) fn of(latencies_ns: &Histogram<u64>) -> Self {
        let at = |quantile| latencies_ns.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            mean: latencies_ns.mean() / 1e3,
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: latencies_ns.max() as f64 / 1e3,
        }
    }
}

/// Costs of a transaction on its devices, on average.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PerTxn {
    /// Lines read from the device; counted by the emulated device only.
    pub(crate) loads: f64,
    /// Lines written to the device; counted by the emulated device only.
    pub(crate) stores: f64,
    /// Log lines among them; rows of earlier versions lack it.
    #[serde(default)]
    pub(crate) log_stores: f64,
    pub(crate) lines_flushed: f64,
    /// Lines stored around the cache; rows of earlier versions lack it.
    #[serde(default)]
    pub(crate) lines_streamed: f64,
    pub(crate) fences: f64,
    /// Bytes stored to durable memory and written to files.
    pub(crate) bytes_written: f64,
    /// Those to files among them; rows of earlier versions lack it.
    #[serde(default)]
    pub(crate) file_bytes: f64,
    pub(crate) syncs: f64,
    /// Log records that a daemon made durable before their commits, and those that sessions made
    /// durable, where a log counts them.
    #[serde(default)]
    pub(crate) records_ahead: f64,
    #[serde(default)]
    pub(crate) records_by_sessions: f64,
    /// Writes of the most written line of the log, where a log spreads them over a region, and of
    /// the mean line of all bytes in use; rows of earlier versions lack them.
    #[serde(default)]
    pub(crate) log_line_writes: f64,
    #[serde(default)]
    pub(crate) mean_line_writes: f64,
}

/// Bytes in use at the end of the run, by part.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FootprintBytes {
    pub(crate) table: u64,
    pub(crate) index: u64,
    pub(crate) log: u64,
    pub(crate) checkpoint: u64,
    pub(crate) other: u64,
}

impl FootprintBytes {
    /// The sum of all parts.
    pub(crate) fn total(&self) -> u64 {
        self.table + self.index + self.log + self.checkpoint + self.other
    }
}
