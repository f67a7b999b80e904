//! The experiments of "An Efficient Protection of Partial Page Update and Buffer Scheme … Using
//! NVM", thesis, Seoul National University 2016.
//!
//! A database many times the size of the buffer pool lies on an imitated SATA drive of 2015
//! (`--files sata`), with a little durable memory in front of it. The checks compare the ratios
//! that the thesis states, because its plots have no numbers at their points.
//!
//! - `throughput`, figures 2.3, 4.1 to 4.3: with and without doublewrite, the four schemes over
//!   threads; flushes of any length; this machine's own disk.
//! - `writes`, tables 2.1, 4.4 and 4.5, figure 4.4: where time goes, what is written, and the size
//!   of the area.

mod throughput;
mod writes;

use super::experiment::{Axis, Filter, Paper, Table};
use super::size::Size;

/// The paper.
pub(super) const PAPER: Paper = Paper {
    name: "nvm-dwb",
    title: "NVM-DWB: page writes protected by non-volatile memory",
    lead: "The experiments of the thesis of 2016, run again on this engine: every figure beside what the thesis says of it. \
           Absolute numbers are not compared, ratios are.",
    compared: Table {
        heading: "The schemes",
        header: &["Scheme", "Copies of pages", "Log", "Pages reach the drive"],
        rows: SCHEMES,
    },
    experiments: &[
        &throughput::FIG2_3,
        &writes::PROFILE,
        &throughput::FIG4_1,
        &throughput::FIG4_2,
        &throughput::FIG4_3,
        &writes::TABLE4_5,
        &writes::FIG4_4,
        &throughput::FLUSH,
        &throughput::NATIVE,
    ],
    describe: Size::describe_nvm_dwb,
};

const SCHEMES: &[&[&str]] = &[
    &[
        "dwb-off",
        "none, as in InnoDB 5.6 with doublewrite off",
        "on the drive",
        "as with dwb, with one sync for each page that a session writes",
    ],
    &[
        "dwb",
        "on the drive, as in InnoDB 5.6 (the thesis's Original)",
        "on the drive",
        "in batches once a second; one by one, with two syncs, by sessions that find no clean frame",
    ],
    &["dwb-batched", "on the drive", "on the drive", "in batches"],
    &[
        "full-page-writes",
        "in the log, at a page's first change after a checkpoint",
        "on the drive",
        "in batches",
    ],
    &["nvm-dwb", "in memory (DWB)", "on the drive", "in batches"],
    &[
        "nvm-dwb-log",
        "in memory (DWB-Logging)",
        "in memory",
        "in batches",
    ],
    &[
        "nvm-dwb-log-opt",
        "in memory, where they are the pages (DWB-Logging-opt)",
        "in memory",
        "in flights, by threads of their own, when room is needed",
    ],
];

/// The schemes that the thesis compares.
const SCHEME: Axis = (
    "scheme",
    &["dwb", "nvm-dwb", "nvm-dwb-log", "nvm-dwb-log-opt"],
);
const THREADS: Axis = ("threads", &["1", "4", "16", "64", "128"]);
const SOME_THREADS: Axis = ("threads", &["16"]);
const DRIVE: Axis = ("drive", &["sata"]);
const SYSBENCH: Axis = ("workload", &["sysbench"]);
const TPCC: Axis = ("workload", &["tpcc"]);
/// Data, pool and area as in the thesis: 30 GB, 1 GB, 1 GB.
const POOL: Axis = ("pool-share", &["0.033"]);
const AREA: Axis = ("area-share", &["0.033"]);
/// Log that may be written before a page is: in `InnoDB` three quarters of its two files of 48 MB,
/// here in proportion to the thesis's 30 GB.
const LOG: Axis = ("log-share", &["0.002"]);
const PAGES: Axis = ("node-bytes", &["4096"]);
const UNIFORM: Axis = ("distribution", &["uniform"]);
/// As in the thesis's database, where reads keep no locks.
const ISOLATION: Axis = ("isolation", &["read-committed"]);
/// Each client waits for its own commit, which may share a sync with others.
const GROUP: Axis = ("group", &["1"]);
/// Loads are free: the model's own time for them would charge reads of the area with a cost that no
/// memory has.
const LOADS: Axis = ("loads", &["free"]);

const OFF: Filter = &[("scheme", "dwb-off")];
const DWB: Filter = &[("scheme", "dwb")];
const BATCHED: Filter = &[("scheme", "dwb-batched")];
const NVM: Filter = &[("scheme", "nvm-dwb")];
const NVM_LOG: Filter = &[("scheme", "nvm-dwb-log")];
const OPT: Filter = &[("scheme", "nvm-dwb-log-opt")];

const DRIVE_IS: &str = "The drive takes 0.1 ms a read, 28 µs a write and 3.5 ms a flush, which many threads may wait for at once, and a thread that waits gives \
    its core away. Loading and checking have no such delays. Pages have 4 KB.";
