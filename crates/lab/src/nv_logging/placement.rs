//! Figures 6 and 8: the placement of database and log over the size of the page cache, and the
//! bytes written to each.
//!
//! Drives are imitated, so they are as fast as their profiles say. A thread that waits for the
//! flash drive spins: on few cores it keeps other threads from running, which a wait for a real
//! drive would not. For the hard disk it sleeps.

use super::super::experiment::{
    ANY, Axes, Axis, Check, Claim, Experiment, Filter, Kind, Plot, Shape, Sweep, Test, Unit, Within,
};
use super::super::paged::SPEED;
use super::SOME_THREADS;

const ALL_NVM: Filter = &[("placement", "all-in-nvm")];
const LOG_NVM: Filter = &[("placement", "db-ssd-log-nvm")];
const LOG_SSD: Filter = &[("placement", "db-nvm-log-ssd")];
const ALL_SSD: Filter = &[("placement", "all-on-ssd")];
const LOG_NVM_HDD: Filter = &[("placement", "db-hdd-log-nvm")];
const LOG_HDD: Filter = &[("placement", "db-nvm-log-hdd")];
const ALL_HDD: Filter = &[("placement", "all-on-hdd")];
const WORKLOAD: Axis = ("workload", &["tpcc"]);
const SCHEME: Axis = ("scheme", &["nv-disk-sync"]);
/// The paper's comes first, so that the smallest size of runs has it, as figure 1 does.
const POOL_SHARES: Axis = ("pool-share", &["0.67", "0.33", "1", "2"]);

const fn placed(over: Filter, under: Filter, within: Within) -> Test {
    Test::Ratio {
        metric: SPEED,
        over,
        under,
        rows: &[],
        within,
    }
}

const PLOT: Plot = Plot {
    caption: "TPC-C, transactions a second",
    rows: &[],
    shape: Shape::Lines {
        metric: SPEED,
        x: "pool-share",
        x_label: "page cache as a share of the data",
        y_label: "txn/s",
        line: "placement",
        x_scale: Axes::Linear,
        scale: Axes::Linear,
    },
};

pub(super) const FIG6: Experiment = Experiment {
    name: "nv-logging/fig6",
    title: "Figure 6: database and log on the drive or in memory, over the page cache",
    shows: &[
        "TPC-C with a central log in files; the page cache has from a third to twice the bytes of the loaded data. Commits are \
         synchronous, so the log's device is waited for.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Paged,
        axes: &[
            WORKLOAD,
            SCHEME,
            SOME_THREADS,
            (
                "placement",
                &[
                    "all-in-nvm",
                    "db-ssd-log-nvm",
                    "db-nvm-log-ssd",
                    "all-on-ssd",
                ],
            ),
            POOL_SHARES,
        ],
    }],
    plots: &[PLOT],
    checks: &[
        Check {
            what: "log in memory and database on the drive reaches most of all in memory",
            paper: "82.5 % on average over the cache sizes",
            source: "3.2",
            claim: Claim::NUMBERS.headline(),
            test: placed(LOG_NVM, ALL_NVM, Within::Mean(0.82, 0.83)),
            why: "A thread that waits for the imitated drive keeps its core, and with a small cache each transaction reads pages; a real drive lets others \
                  work meanwhile.",
        },
        Check {
            what: "the log in memory alone is worth more than the database in memory alone",
            paper: "dramatically better than those with the log on disk",
            source: "3.2",
            claim: Claim::WORDS,
            test: placed(LOG_NVM, LOG_SSD, Within::AHEAD),
            why: "A sync of the log is shared by a group of commits, and reads of pages are not; with a small cache there are many of those.",
        },
        Check {
            what: "and far more than all on the drive",
            paper: "dramatically better",
            source: "3.2",
            claim: Claim::WORDS,
            test: placed(LOG_NVM, ALL_SSD, Within::AHEAD),
            why: "With a small cache both read their pages from the drive, which takes most of the time.",
        },
    ],
};

const INSERT_PLACED: Filter = &[
    ("scheme", "flush-on-insert"),
    ("placement", "db-ssd-log-nvm"),
];
const DISK_IN_NVM: Filter = &[("scheme", "nv-disk-sync"), ("placement", "all-in-nvm")];

pub(super) const FIG1: Experiment = Experiment {
    name: "nv-logging/fig1",
    title: "Figure 1: summary, all of a central log in memory as the baseline",
    shows: &[
        "TPC-C with 4 threads and two thirds of the data in the page cache. Runs of a central log are those of figure 6.",
    ],
    sweeps: &[
        Sweep {
            kind: Kind::Paged,
            axes: &[
                WORKLOAD,
                SCHEME,
                SOME_THREADS,
                (
                    "placement",
                    &[
                        "all-in-nvm",
                        "db-ssd-log-nvm",
                        "db-nvm-log-ssd",
                        "all-on-ssd",
                    ],
                ),
                super::POOL,
            ],
        },
        Sweep {
            kind: Kind::Paged,
            axes: &[
                WORKLOAD,
                ("scheme", &["flush-on-insert", "flush-on-commit"]),
                SOME_THREADS,
                ("placement", &["db-ssd-log-nvm"]),
                super::POOL,
            ],
        },
    ],
    plots: &[Plot {
        caption: "TPC-C, transactions a second",
        rows: &[],
        shape: Shape::Bars {
            metric: SPEED,
            group: "placement",
            bar: "scheme",
            scale: Axes::Linear,
        },
    }],
    checks: &[Check {
        what: "with its log alone in memory, NV-Logging is ahead of all in memory with a central log",
        paper: "1.18–2.66x",
        source: "abstract",
        claim: Claim::NUMBERS.headline(),
        test: placed(INSERT_PLACED, DISK_IN_NVM, Within::Mean(1.18, 2.66)),
        why: "Pages on the imitated drive are read by a thread that spins meanwhile, and on two cores it keeps others from running.",
    }],
};

pub(super) const IO_LATENCY: Experiment = Experiment {
    name: "nv-logging/io-latency",
    title: "Section 3.2: the latency of file I/O in memory",
    shows: &[
        "As figure 6 with two thirds of the data in the page cache; each read, write and sync of a file in memory takes 5 to 50 µs.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Paged,
        axes: &[
            WORKLOAD,
            SCHEME,
            SOME_THREADS,
            (
                "placement",
                &["all-in-nvm", "db-ssd-log-nvm", "db-nvm-log-ssd"],
            ),
            ("io-us", &["5", "20", "50"]),
            super::POOL,
        ],
    }],
    plots: &[Plot {
        caption: "TPC-C, transactions a second",
        rows: &[],
        shape: Shape::Lines {
            metric: SPEED,
            x: "io-us",
            x_label: "a call, µs",
            y_label: "txn/s",
            line: "placement",
            x_scale: Axes::Linear,
            scale: Axes::Linear,
        },
    }],
    checks: &[Check {
        what: "the log in memory alone is worth more than the database in memory alone, at every latency",
        paper: "similar trends from 5 to 50 µs",
        source: "3.2",
        claim: Claim::WORDS,
        test: placed(LOG_NVM, LOG_SSD, Within::Each(1.0, ANY)),
        why: "A sync of the log is shared by a group of commits, and reads of pages are not.",
    }],
};

const WHY_HDD: &str = "Each page that the cache lacks is a seek here, and so is each page that leaves it. The paper's machine has 48 GB of memory before 9 GB of \
                       data and reads them through a file system, which can keep what the page cache lacks; nothing is kept before the imitated disk. With all of the data in the cache, checkpoints still write pages at a seek each.";

pub(super) const FIG6_HDD: Experiment = Experiment {
    name: "nv-logging/fig6-hdd",
    title: "Figure 6, with a hard disk",
    shows: &[
        "The same with an imitated hard disk of 7,200 turns a minute: 10 ms from one place to another, one access at a time. It is measured for longer, because \
         the hundred places that it reaches in a second are few transactions. All in memory is that of figure 6.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Paged,
        axes: &[
            WORKLOAD,
            SCHEME,
            SOME_THREADS,
            (
                "placement",
                &[
                    "all-in-nvm",
                    "db-hdd-log-nvm",
                    "db-nvm-log-hdd",
                    "all-on-hdd",
                ],
            ),
            POOL_SHARES,
        ],
    }],
    plots: &[PLOT],
    checks: &[
        Check {
            what: "log in memory and database on the hard disk reaches most of all in memory",
            paper: "74 % on average over the cache sizes",
            source: "3.2",
            claim: Claim::NUMBERS,
            test: placed(LOG_NVM_HDD, ALL_NVM, Within::Mean(0.735, 0.745)),
            why: WHY_HDD,
        },
        Check {
            what: "the log in memory alone is worth more than the database in memory alone",
            paper: "dramatically better than those with the log on disk",
            source: "3.2",
            claim: Claim::WORDS,
            test: placed(LOG_NVM_HDD, LOG_HDD, Within::AHEAD),
            why: "A turn of the platters is shared by a group of commits, and seeks for pages are not; with a small cache there are many of those.",
        },
        Check {
            what: "and far more than all on the hard disk",
            paper: "dramatically better",
            source: "3.2",
            claim: Claim::WORDS,
            test: placed(LOG_NVM_HDD, ALL_HDD, Within::AHEAD),
            why: "With a small cache both go to the disk for their pages, which takes most of the time; one more seek for the log adds little.",
        },
    ],
};

const TRAFFIC: &[(&str, &str)] = &[
    ("log_bytes_per_txn", "log"),
    ("page_bytes_per_txn", "pages"),
];

const fn traffic(caption: &'static str, rows: Filter) -> Plot {
    Plot {
        caption,
        rows,
        shape: Shape::Stack {
            bar: "pool-share",
            pieces: TRAFFIC,
            unit: Unit::Bytes,
        },
    }
}

const TPCC: Filter = &[("workload", "tpcc")];

pub(super) const FIG8: Experiment = Experiment {
    name: "nv-logging/fig8",
    title: "Figure 8: bytes written to the log and to pages",
    shows: &[
        "Bytes of lines that reach the imitated memory, a transaction, over the size of the page cache; everything lies there, so that they are counted alike. \
         Pages are written when their frames are needed, ahead of that, and by checkpoints. Each page is written twice, because a \
         copy in the doublewrite area protects it from a power cut; the paper's system has no such guard.",
        "The paper varies the time of the run, from 20 to 100 s with a page cache of 6 GB.",
    ],
    sweeps: &[
        Sweep {
            kind: Kind::Paged,
            axes: &[
                ("workload", &["tpcc"]),
                ("scheme", &["nv-disk-sync"]),
                ("threads", &["2"]),
                ("placement", &["all-in-nvm"]),
                ("pool-share", &["0.33", "0.67", "1", "2"]),
            ],
        },
        Sweep {
            kind: Kind::Paged,
            axes: &[
                ("workload", &["tatp"]),
                ("scheme", &["nv-disk-sync"]),
                ("threads", &["2"]),
                ("placement", &["all-in-nvm"]),
                // A third of the few megabytes of a quick run is less than the least pool.
                ("pool-share", &["0.67", "1", "2"]),
            ],
        },
    ],
    plots: &[
        traffic("TPC-C, bytes a transaction", TPCC),
        traffic("TATP, bytes a transaction", &[("workload", "tatp")]),
    ],
    checks: &[
        Check {
            what: "TPC-C: with the paper's share of the data in the cache, the log writes several times what evicted pages do",
            paper: "2.88–5.43x",
            source: "3.3",
            claim: Claim::NUMBERS,
            test: Test::Value {
                metric: "log_over_pages",
                rows: &[("workload", "tpcc"), ("pool-share", "0.67")],
                within: Within::Each(2.88, 5.43),
            },
            why: "A page has 8 KB and is written twice, and a transaction of TPC-C logs a few KB; in a small database a page is evicted after few changes.",
        },
        Check {
            what: "with all of the data in the cache almost everything that is written is log",
            paper: "grows with the cache",
            source: "figure 8",
            claim: Claim::WORDS,
            test: Test::Value {
                metric: "log_share_percent",
                rows: &[("pool-share", "2")],
                within: Within::Each(75.0, 100.0),
            },
            why: "A checkpoint, or the thread that writes pages ahead, fell into the short run.",
        },
    ],
};
