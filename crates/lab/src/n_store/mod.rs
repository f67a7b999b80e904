//! The experiments of "Let's Talk About Storage & Recovery Methods for Non-Volatile Memory Database
//! Systems", SIGMOD 2015.
//!
//! Each file has experiments as data. The paper prints its figures without numbers at the points,
//! so the checks compare the ratios that its text states, each with its section.
//!
//! | file | figures |
//! |---|---|
//! | `throughput` | 5 to 8: YCSB and TPC-C at three latencies |
//! | `traffic` | 1, 9 to 11, table 3: the device, what reaches it, what is written |
//! | `inside` | 12 to 14: recovery, time, space |
//! | `tuning` | 15, 16: node size, latency of the sync primitive |

mod inside;
mod throughput;
mod traffic;
mod tuning;

pub(super) use traffic::{MODEL, Symbol};

use super::experiment::{Axis, Paper, Table};
use super::size::Size;

/// The paper.
pub(super) const PAPER: Paper = Paper {
    name: "n-store",
    title: "N-Store: storage and recovery methods on non-volatile memory",
    lead: "The experiments of the SIGMOD 2015 paper, run again on this engine: every figure beside what the paper says of it. \
           Absolute numbers are not compared, ratios are.",
    compared: Table {
        heading: "The methods",
        header: &["Method", "Storage", "At commit", "Recovery"],
        rows: METHODS,
    },
    experiments: &[
        &traffic::FIG1,
        &throughput::FIG5,
        &throughput::FIG6,
        &throughput::FIG7,
        &throughput::FIG8,
        &traffic::FIG9,
        &traffic::FIG10,
        &traffic::FIG11,
        &inside::FIG12,
        &inside::FIG13,
        &inside::FIG14,
        &traffic::TABLE3,
        &tuning::FIG15,
        &tuning::FIG16,
    ],
    describe: Size::describe_n_store,
};

/// Method, storage, durable data at commit, recovery.
const METHODS: &[&[&str]] = &[
    &[
        "inp",
        "tuples in slots, volatile B+tree indexes",
        "write-ahead log in a file, group commit; compressed checkpoints",
        "last checkpoint, redo, indexes built again: grows with the log",
    ],
    &[
        "cow",
        "copy-on-write B+tree in a file, tuples in its leaves, page cache",
        "dirty pages, then the master record, a group at a time; no log",
        "none",
    ],
    &[
        "log",
        "LSM tree: MemTable, runs in files with Bloom filters",
        "write-ahead log in a file, group commit",
        "MemTable built again from the log: grows with the log",
    ],
    &[
        "nvm-inp",
        "tuples in durable slots, durable B+tree indexes",
        "one record in memory and a fence, each transaction at once",
        "the last records again, undo of what was in flight",
    ],
    &[
        "nvm-cow",
        "durable copy-on-write B+tree of tuple pointers",
        "tuple copies and dirty nodes, then one durable word, a group at a time",
        "none",
    ],
    &[
        "nvm-log",
        "LSM tree of MemTables in durable memory, never copied to files",
        "one record in memory and a fence, each transaction at once",
        "the last records again, undo of what was in flight",
    ],
];

const METHOD: Axis = (
    "method",
    &["inp", "cow", "log", "nvm-inp", "nvm-cow", "nvm-log"],
);
const MIX: Axis = (
    "mix",
    &["read-only", "read-heavy", "balanced", "write-heavy"],
);
const SKEW: Axis = ("skew", &["low", "high"]);
/// Distinguishes rows of TPC-C from those of YCSB.
const TPCC: Axis = ("workload", &["tpcc"]);
