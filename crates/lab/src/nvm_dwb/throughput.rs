//! Figures 2.3 and 4.1 to 4.3: throughput and mean response time over threads; the same over the
//! length of a flush, and on this machine's own disk.
//!
//! The thesis calls `dwb` Original, and `nvm-dwb-log-opt` DWB-Logging-opt.

use super::super::experiment::{
    ANY, Axes, Check, Claim, Experiment, Kind, Plot, Shape, Sweep, Test, Within,
};
use super::super::paged::{SPEED, faster, over};
use super::{
    AREA, BATCHED, DRIVE, DRIVE_IS, DWB, GROUP, ISOLATION, LOADS, NVM, NVM_LOG, OFF, OPT, PAGES,
    POOL, SCHEME, SOME_THREADS, SYSBENCH, THREADS, TPCC, UNIFORM,
};

const MEAN: &str = "latency_mean_us";
const RATIO: &str = "Data, buffer pool and area have the thesis's proportions, 30 : 1 : 1, if the data are large enough for the smallest pool, 2 MB.";

/// The four schemes on the drive.
const OVER_THREADS: Sweep = Sweep {
    kind: Kind::Paged,
    axes: &[
        SYSBENCH, ISOLATION, DRIVE, POOL, AREA, PAGES, UNIFORM, GROUP, LOADS, THREADS, SCHEME,
    ],
};

pub(super) const FIG2_3: Experiment = Experiment {
    name: "nvm-dwb/fig2.3",
    title: "Figure 2.3: sysbench with and without doublewrite",
    shows: &[DRIVE_IS, RATIO],
    sweeps: &[Sweep {
        kind: Kind::Paged,
        axes: &[
            SYSBENCH,
            ISOLATION,
            DRIVE,
            POOL,
            AREA,
            PAGES,
            UNIFORM,
            GROUP,
            LOADS,
            THREADS,
            (
                "scheme",
                &["dwb-off", "dwb", "dwb-batched", "full-page-writes"],
            ),
        ],
    }],
    plots: &[over("sysbench read-write", "threads", "threads", &[])],
    checks: &[
        Check {
            what: "without doublewrite it is faster",
            paper: "1.14–2.78x",
            source: "2.2",
            claim: Claim::NUMBERS,
            test: faster(OFF, DWB, &[], Within::Mean(1.14, 2.78)),
            why: "Of each page that a session writes because it finds no clean frame, half of the syncs are gone, and the batches have none.",
        },
        Check {
            what: "doublewrite in batches only, as later versions have it, is faster than with single pages",
            paper: "not shown",
            source: "2.1",
            claim: Claim::OWN_GOAL,
            test: faster(BATCHED, DWB, &[], Within::AHEAD),
            why: "A batch has two syncs for up to 64 pages.",
        },
    ],
};

pub(super) const FIG4_1: Experiment = Experiment {
    name: "nvm-dwb/fig4.1",
    title: "Figure 4.1: sysbench over threads",
    shows: &[DRIVE_IS, RATIO],
    sweeps: &[OVER_THREADS],
    plots: &[over("sysbench read-write", "threads", "threads", &[])],
    checks: &[
        Check {
            what: "the final scheme is ahead of doublewrite on the drive at every number of threads",
            paper: "2.40–4.94x",
            source: "4.2.1",
            claim: Claim::NUMBERS.headline(),
            test: faster(OPT, DWB, &[], Within::Each(2.4, 4.94)),
            why: "With one thread what is left of a transaction are its reads, which no scheme saves but those that find a page in the area.",
        },
        Check {
            what: "at 128 threads as well",
            paper: "3.76x",
            source: "4.2.1",
            claim: Claim::NUMBERS,
            test: faster(OPT, DWB, &[("threads", "128")], Within::Mean(3.755, 3.765)),
            why: "On two cores the work of 128 threads is the limit long before the drive is.",
        },
        Check {
            what: "copies in memory alone are ahead of those on the drive",
            paper: "better at every number of clients",
            source: "4.2.1",
            claim: Claim::WORDS,
            test: faster(NVM, DWB, &[], Within::Each(1.0, ANY)),
            why: "Its commits still wait for a sync of the log.",
        },
        Check {
            what: "with the log in memory it is faster still",
            paper: "a drastic improvement under even a small number of threads",
            source: "4.2.1",
            claim: Claim::WORDS,
            test: faster(NVM_LOG, NVM, &[], Within::AHEAD),
            why: "Many commits share a sync of the log.",
        },
        Check {
            what: "and with pages that stay in memory",
            paper: "a large gap after 32 threads",
            source: "4.2.1",
            claim: Claim::WORDS,
            test: faster(OPT, NVM_LOG, &[], Within::AHEAD),
            why: "Without it a session waits for a sync of the file only where the area is full, for hundreds of pages at once.",
        },
    ],
};

pub(super) const FIG4_2: Experiment = Experiment {
    name: "nvm-dwb/fig4.2",
    title: "Figure 4.2: TPC-C over threads",
    shows: &[
        DRIVE_IS,
        "The thesis has 52 times as much data as its buffer pool and its area, and up to 64 clients; here the data is 30 times as large, and a quick run has 32 clients, \
         for each of which the pool has room for some pages.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Paged,
        axes: &[
            TPCC,
            DRIVE,
            POOL,
            AREA,
            PAGES,
            GROUP,
            LOADS,
            ("threads", &["8", "16", "32"]),
            SCHEME,
        ],
    }],
    plots: &[over("TPC-C", "threads", "threads", &[])],
    checks: &[Check {
        what: "the final scheme is ahead of doublewrite on the drive",
        paper: "2.64–3.93x",
        source: "4.2.1",
        claim: Claim::NUMBERS.headline(),
        test: faster(OPT, DWB, &[], Within::Mean(2.64, 3.93)),
        why: "Threads that have warehouses in common wait for each other's rows, whatever the scheme.",
    }],
};

pub(super) const FIG4_3: Experiment = Experiment {
    name: "nvm-dwb/fig4.3",
    title: "Figure 4.3: mean response time of sysbench",
    shows: &[DRIVE_IS, RATIO],
    sweeps: &[OVER_THREADS],
    plots: &[Plot {
        caption: "sysbench read-write",
        rows: &[],
        shape: Shape::Lines {
            metric: MEAN,
            x: "threads",
            x_label: "threads",
            y_label: "mean, µs",
            line: "scheme",
            x_scale: Axes::Logarithmic,
            scale: Axes::Logarithmic,
        },
    }],
    checks: &[
        Check {
            what: "the final scheme answers sooner at every number of threads",
            paper: "3.67–5.54x",
            source: "4.2.2",
            claim: Claim::NUMBERS,
            test: Test::Ratio {
                metric: MEAN,
                over: DWB,
                under: OPT,
                rows: &[],
                within: Within::Each(3.67, 5.54),
            },
            why: "As with throughput: clients wait for nothing else.",
        },
        Check {
            what: "its slowest of a thousand transactions stay within 20 medians while pages go home",
            paper: "not shown",
            source: "4.2.2",
            claim: Claim::OWN_GOAL,
            test: Test::Value {
                metric: "p999_over_p50",
                rows: OPT,
                within: Within::Each(1.0, 20.0),
            },
            why: "With more threads than cores a thread that loses its core waits for some turns of others.",
        },
    ],
};

pub(super) const FLUSH: Experiment = Experiment {
    name: "nvm-dwb/flush",
    title: "Throughput over the length of a flush",
    shows: &[
        DRIVE_IS,
        "Here a flush takes 0.1 to 10 ms; drives of today with protection against power loss take less than the least of them.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Paged,
        axes: &[
            SYSBENCH,
            ISOLATION,
            ("flush-us", &["100", "300", "1000", "3000", "10000"]),
            POOL,
            AREA,
            PAGES,
            UNIFORM,
            GROUP,
            LOADS,
            SOME_THREADS,
            (
                "scheme",
                &["dwb", "dwb-batched", "nvm-dwb", "nvm-dwb-log-opt"],
            ),
        ],
    }],
    plots: &[over("16 threads", "flush-us", "a flush, µs", &[])],
    checks: &[Check {
        what: "the longer a flush takes, the greater the lead of the final scheme",
        paper: "fsync calls are the overhead",
        source: "2.1",
        claim: Claim::WORDS,
        test: Test::Growth {
            metric: SPEED,
            over: OPT,
            under: DWB,
            low: &[("flush-us", "100")],
            high: &[("flush-us", "10000")],
            rows: &[],
            within: Within::AHEAD,
        },
        why: "Nothing of the final scheme waits for a flush but its flights.",
    }],
};

pub(super) const NATIVE: Experiment = Experiment {
    name: "nvm-dwb/native",
    title: "sysbench on this machine's own disk",
    shows: &[
        "Files lie where the database does (--path), without delays of ours and behind the system's cache of pages; in shared memory, the default, a sync \
         takes next to nothing. Virtual disks of today flush in 30 to 60 µs, and hide what the thesis shows.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Paged,
        axes: &[
            SYSBENCH,
            ISOLATION,
            ("device", &["native"]),
            POOL,
            AREA,
            PAGES,
            UNIFORM,
            GROUP,
            ("threads", &["1", "16"]),
            SCHEME,
        ],
    }],
    plots: &[over("sysbench read-write", "threads", "threads", &[])],
    checks: &[Check {
        what: "the final scheme is not behind doublewrite on the disk",
        paper: "2.40–4.94x on a SATA drive",
        source: "4.2.1",
        claim: Claim::OWN_GOAL,
        test: faster(OPT, DWB, &[], Within::AHEAD),
        why: "Where a sync takes nothing, what is left of doublewrite is a copy.",
    }],
};
