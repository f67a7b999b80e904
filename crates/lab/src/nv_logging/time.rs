//! Figures 7 and 15: the breakdown of the threads' time.
//!
//! A timer samples the activity of each thread. A thread that is not running, because others have
//! the cores, counts for its last activity. So the shares are those of the threads' time, not of
//! the processors'.

use super::super::experiment::{
    ANY, Check, Claim, Experiment, Filter, Kind, Plot, Shape, Sweep, Test, Unit, Within,
};
use super::super::paged::POOL_ALL;
use super::{SCHEME, THREADS};

const ACTIVITIES: &[(&str, &str)] = &[
    ("log_percent", "log work"),
    ("log_wait_percent", "waiting for the log"),
    ("locks_percent", "lock manager"),
    ("database_percent", "database"),
    ("rest_percent", "other"),
];
const SAMPLED: &str = "A timer looks 10,000 times a second at what each thread does: inserting log records and making them durable (log work); waiting for the \
    log's lock or for a sync that another thread does; the lock manager, with waiting for locks; rows, trees and pages; and the program around \
    it. All data are in the page cache. The paper takes stack traces.";

const fn breakdown(caption: &'static str, bar: &'static str, rows: Filter) -> Plot {
    Plot {
        caption,
        rows,
        shape: Shape::Stack {
            bar,
            pieces: ACTIVITIES,
            unit: Unit::Percent,
        },
    }
}

const fn share(metric: &'static str, rows: Filter, within: Within) -> Test {
    Test::Value {
        metric,
        rows,
        within,
    }
}

const LOG: &str = "log_and_wait_percent";
const LOG_NVM: Filter = &[("placement", "all-in-nvm")];
const LOG_SSD: Filter = &[("placement", "db-nvm-log-ssd")];

pub(super) const FIG7: Experiment = Experiment {
    name: "nv-logging/fig7",
    title: "Figure 7: where time goes with a central log, on a drive and in memory",
    shows: &[SAMPLED],
    sweeps: &[Sweep {
        kind: Kind::PagedProbed,
        axes: &[
            ("workload", &["tpcc"]),
            ("scheme", &["nv-disk-sync"]),
            ("placement", &["db-nvm-log-ssd", "all-in-nvm"]),
            POOL_ALL,
            THREADS,
        ],
    }],
    plots: &[
        breakdown("Log on the drive, by threads", "threads", LOG_SSD),
        breakdown("Log in memory, by threads", "threads", LOG_NVM),
    ],
    checks: &[
        Check {
            what: "with the log on the drive, it takes most of the time",
            paper: "60.73–85.46 %",
            source: "3.3",
            claim: Claim::NUMBERS,
            test: share(LOG, LOG_SSD, Within::Mean(60.73, 85.46)),
            why: "A sync of the imitated flash drive takes 0.3 ms and is shared by up to 64 commits of each thread.",
        },
        Check {
            what: "with the log in memory, a third or so",
            paper: "34.1–39.19 %",
            source: "3.3",
            claim: Claim::NUMBERS,
            test: share(LOG, LOG_NVM, Within::Mean(34.1, 39.19)),
            why: "On two cores threads seldom meet at the log's lock.",
        },
        Check {
            what: "waiting for the log grows with the threads",
            paper: "gradually increases",
            source: "3.3",
            claim: Claim::WORDS,
            test: Test::Ratio {
                metric: "log_wait_percent",
                over: &[("threads", "16")],
                under: &[("threads", "2")],
                rows: LOG_NVM,
                within: Within::Each(1.0, ANY),
            },
            why: "On two cores no more than two threads run at a time, whatever their number.",
        },
        Check {
            what: "the lock manager takes little",
            paper: "almost eliminated with lock inheritance and early release",
            source: "3.3",
            claim: Claim::WORDS,
            test: share("locks_percent", LOG_NVM, Within::Mean(0.0, 10.0)),
            why: "A thread that waits for a lock whose holder does not run counts for the lock manager; many threads on two cores wait so.",
        },
    ],
};

/// Two threads run at once on most machines; with more, the system's scheduler decides which ones
/// wait.
const TPCC: Filter = &[("workload", "tpcc"), ("threads", "2")];
const TPCB: Filter = &[("workload", "tpcb"), ("threads", "2")];
const TPCC_8: Filter = &[("workload", "tpcc"), ("threads", "8")];
const TPCB_8: Filter = &[("workload", "tpcb"), ("threads", "8")];

pub(super) const FIG15: Experiment = Experiment {
    name: "nv-logging/fig15",
    title: "Figure 15: where time goes, scheme by scheme",
    shows: &[SAMPLED],
    sweeps: &[Sweep {
        kind: Kind::PagedProbed,
        axes: &[
            ("workload", &["tpcc", "tpcb"]),
            ("placement", &["all-in-nvm"]),
            POOL_ALL,
            ("threads", &["2", "8"]),
            SCHEME,
        ],
    }],
    plots: &[
        breakdown("TPC-C, 2 threads", "scheme", TPCC),
        breakdown("TPC-B, 2 threads", "scheme", TPCB),
        breakdown("TPC-C, 8 threads", "scheme", TPCC_8),
        breakdown("TPC-B, 8 threads", "scheme", TPCB_8),
    ],
    checks: &[
        Check {
            what: "TPC-C: threads wait less for the log than with a central one",
            paper: "5.14 % against 27.64 %",
            source: "6.5",
            claim: Claim::NUMBERS.headline(),
            test: Test::Ratio {
                metric: "log_wait_percent",
                over: super::INSERT,
                under: super::DISK,
                rows: TPCC,
                within: Within::Mean(0.185, 0.187),
            },
            why: "Both wait little on two cores. A commit waits until no record in front of its own is missing, in whichever ring.",
        },
        Check {
            what: "TPC-C: and work less on it",
            paper: "3.2 % against 11.55 %",
            source: "6.5",
            claim: Claim::NUMBERS,
            test: Test::Ratio {
                metric: "log_percent",
                over: super::INSERT,
                under: super::DISK,
                rows: TPCC,
                within: Within::Mean(0.276, 0.278),
            },
            why: "Each record is flushed and fenced through the device's model, whose own time is part of it; a central log copies records into a buffer and \
                  syncs a group at once.",
        },
        Check {
            what: "TPC-B: threads wait less for the log than with a central one",
            paper: "similar trends",
            source: "6.5",
            claim: Claim::WORDS,
            test: Test::Ratio {
                metric: "log_wait_percent",
                over: super::INSERT,
                under: super::DISK,
                rows: TPCB,
                within: Within::LESS,
            },
            why: "Both wait little on two cores. A commit waits until no record in front of its own is missing, in whichever ring.",
        },
    ],
};
