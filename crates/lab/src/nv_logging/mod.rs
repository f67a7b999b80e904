//! The experiments of "NVRAM-aware Logging in Transaction Systems", PVLDB 8(4), 2014.
//!
//! Each file has experiments as data. The paper's plots have no numbers at their points, so the
//! checks compare the ratios that its text states. It ran on four to sixteen cores. Here many
//! threads share few, so contention shows as time that threads wait for the log rather than as lost
//! throughput.
//!
//! | file | figures |
//! |---|---|
//! | `placement` | 1, 6, 8: where database and log lie, and what is written to each |
//! | `time` | 7, 15: where time goes |
//! | `device` | 9, 11: a durable write by its interface, an insertion into the log |
//! | `throughput` | 12 to 14: threads, slower writes, slower memory |
//! | `cost` | 16: transactions a dollar |
//!
//! A *scheme* is a method with its way of committing (the paper's table 3). A *placement* is the
//! media of database and log: the imitated memory, or an imitated flash drive or hard disk. `paged`
//! turns both into options.

mod cost;
mod device;
mod placement;
mod throughput;
mod time;

use super::experiment::{Axis, Filter, Paper, Table};
use super::size::Size;

/// The paper.
pub(super) const PAPER: Paper = Paper {
    name: "nv-logging",
    title: "NV-Logging: the log of a page engine in non-volatile memory",
    lead: "The experiments of the VLDB 2014 paper, run again on this engine: every figure beside what the paper says of it. \
           Absolute numbers are not compared, ratios are.",
    compared: Table {
        heading: "The schemes",
        header: &["Scheme", "Log", "A commit is acknowledged"],
        rows: SCHEMES,
    },
    experiments: &[
        &placement::FIG1,
        &placement::FIG6,
        &placement::FIG6_HDD,
        &placement::IO_LATENCY,
        &time::FIG7,
        &placement::FIG8,
        &device::FIG9,
        &device::FIG11,
        &device::FIG11_SIZE,
        &throughput::FIG12,
        &throughput::FIG13,
        &throughput::LOCKING,
        &throughput::FIG14,
        &time::FIG15,
        &cost::FIG16,
    ],
    describe: Size::describe_nv_logging,
};

const SCHEMES: &[&[&str]] = &[
    &[
        "nv-disk",
        "one buffer for all sessions, in files on a filesystem in memory",
        "before it is durable, as in the paper: a power cut loses the last commits",
    ],
    &["nv-disk-sync", "the same", "when its group is synced"],
    &[
        "nv-disk-decentralized",
        "a buffer a session, in files of its own on a filesystem in memory",
        "before it is durable, as with nv-disk",
    ],
    &[
        "distributed-log",
        "16 rings in memory, which sessions share",
        "when its group is fenced",
    ],
    &[
        "flush-on-insert",
        "a ring a session in memory; each record is flushed and fenced as it is inserted",
        "when its record is fenced",
    ],
    &[
        "flush-on-commit",
        "a ring a session in memory; a daemon flushes records, a commit those that are left",
        "when its group is fenced",
    ],
    &[
        "nv-wsp",
        "not measured, as in the paper's own figures: our method of this name is in-place without flushes, and has no pages in DRAM",
        "–",
    ],
];

/// The schemes.
const SCHEME: Axis = (
    "scheme",
    &[
        "nv-disk",
        "nv-disk-sync",
        "nv-disk-decentralized",
        "distributed-log",
        "flush-on-insert",
        "flush-on-commit",
    ],
);
const THREADS: Axis = ("threads", &["1", "2", "4", "8", "16"]);
/// Somewhat more than the cores, as in the paper.
const SOME_THREADS: Axis = ("threads", &["4"]);
const SLOWDOWN: Axis = ("slowdown", &["1", "4", "8"]);
/// As large a share of the data in the buffer pool as in the paper: 6 of 9 GB.
const POOL: Axis = ("pool-share", &["0.67"]);

const INSERT: Filter = &[("scheme", "flush-on-insert")];
const COMMIT: Filter = &[("scheme", "flush-on-commit")];
const DISK: Filter = &[("scheme", "nv-disk")];
const DISK_SYNC: Filter = &[("scheme", "nv-disk-sync")];
const DECENTRALIZED: Filter = &[("scheme", "nv-disk-decentralized")];
const DISTRIBUTED: Filter = &[("scheme", "distributed-log")];
