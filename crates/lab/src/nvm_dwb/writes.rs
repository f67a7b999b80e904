//! Tables 2.1, 4.4 and 4.5 and figure 4.4: the breakdown of the threads' time, the bytes that a
//! transaction writes to the drive, and the savings of a larger area.
//!
//! Bytes are those of files, which are on the drive; the bytes of durable memory are in the rows
//! too (`memory_copy_bytes_per_txn`, `memory_log_bytes_per_txn`).

use super::super::experiment::{
    ANY, Axes, Check, Claim, Experiment, Filter, Kind, Plot, Shape, Sweep, Test, Unit, Within,
};
use super::super::paged::{SPEED, faster, over};
use super::{
    AREA, DRIVE, DRIVE_IS, DWB, GROUP, ISOLATION, LOADS, LOG, NVM, NVM_LOG, OPT, PAGES, POOL,
    SCHEME, SOME_THREADS, SYSBENCH, UNIFORM,
};

const WRITTEN: &str = "file_bytes_per_txn";
const SPECIAL_KEYS: Filter = &[("distribution", "special")];
const UNIFORM_KEYS: Filter = &[("distribution", "uniform")];
const SMALLEST: Filter = &[("area-share", "0.002")];
const SMALL: Filter = &[("area-share", "0.033")];
const LARGE: Filter = &[("area-share", "1")];

const ACTIVITIES: &[(&str, &str)] = &[
    ("log_percent", "log work"),
    ("log_wait_percent", "waiting for the log"),
    ("locks_percent", "lock manager"),
    ("database_percent", "database, with pages read and written"),
    ("rest_percent", "other"),
];
const KINDS: &[(&str, &str)] = &[
    ("file_page_bytes_per_txn", "pages to their places"),
    ("file_copy_bytes_per_txn", "copies of pages"),
    ("file_log_bytes_per_txn", "log"),
];

pub(super) const PROFILE: Experiment = Experiment {
    name: "nvm-dwb/profile",
    title: "Tables 2.1 and 4.4: where time goes before and after",
    shows: &[
        DRIVE_IS,
        "A timer looks 10,000 times a second at what each thread does, whether it runs or waits. The thesis adds up the time inside functions of InnoDB.",
    ],
    sweeps: &[Sweep {
        kind: Kind::PagedProbed,
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
            SOME_THREADS,
            SCHEME,
        ],
    }],
    plots: &[Plot {
        caption: "16 threads",
        rows: &[],
        shape: Shape::Stack {
            bar: "scheme",
            pieces: ACTIVITIES,
            unit: Unit::Percent,
        },
    }],
    checks: &[
        Check {
            what: "with doublewrite on the drive, sessions write pages themselves",
            paper: "12 % of a transaction's time in writes and flushes of single pages",
            source: "table 2.1",
            claim: Claim::WORDS,
            test: Test::Value {
                metric: "single_pages_per_txn",
                rows: DWB,
                within: Within::Each(0.001, ANY),
            },
            why: "Where all data lie in the buffer pool nobody needs a frame.",
        },
        Check {
            what: "in the final scheme no session writes a page home",
            paper: "0 s in all of these functions",
            source: "table 4.4",
            claim: Claim::NUMBERS,
            test: Test::Value {
                metric: "page_writes_by_sessions",
                rows: OPT,
                within: Within::Each(0.0, 0.0),
            },
            why: "There are threads that do.",
        },
        Check {
            what: "nor does it wait for the log",
            paper: "from 8.7 % to 0.018 %",
            source: "tables 2.1 and 4.4",
            claim: Claim::NUMBERS,
            test: Test::Value {
                metric: "log_wait_percent",
                rows: OPT,
                within: Within::Each(0.0, 0.018),
            },
            why: "A commit waits until no record of another session in front of it is missing.",
        },
    ],
};

const fn fewer(what: &'static str, keys: Filter) -> Check {
    Check {
        what,
        paper: "1/2.78 of the bytes",
        source: "4.2.3",
        claim: Claim::NUMBERS.headline(),
        test: Test::Ratio {
            metric: WRITTEN,
            over: OPT,
            under: DWB,
            rows: keys,
            within: Within::Each(0.359, 0.361),
        },
        why: "What doublewrite writes twice, the final scheme writes once, less what a newer version replaces in the area, and the log not at all. Where all replace as \
              little as can be, one thread with uniform keys and no checkpoint, it is 0.97 pages against two and their log, and 0.47: dwb logs 0.05 of the bytes of its pages here, \
              InnoDB 0.15 in the thesis, where the same sum is 0.45.",
    }
}

pub(super) const TABLE4_5: Experiment = Experiment {
    name: "nvm-dwb/table4.5",
    title: "Table 4.5: what a transaction writes to the drive",
    shows: &[
        DRIVE_IS,
        "Bytes of files by kind; master records count as log. Pages reclaimed are versions that a newer one replaced in the area, of all that were put there; the thesis \
         counts requests without a write, among which are those whose page is still in the area at the end.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Paged,
        axes: &[
            SYSBENCH,
            ISOLATION,
            DRIVE,
            POOL,
            AREA,
            PAGES,
            ("distribution", &["uniform", "special"]),
            LOG,
            GROUP,
            LOADS,
            SOME_THREADS,
            SCHEME,
        ],
    }],
    plots: &[
        Plot {
            caption: "Uniform keys, bytes a transaction",
            rows: UNIFORM_KEYS,
            shape: Shape::Stack {
                bar: "scheme",
                pieces: KINDS,
                unit: Unit::Bytes,
            },
        },
        Plot {
            caption: "sysbench's special distribution, bytes a transaction",
            rows: SPECIAL_KEYS,
            shape: Shape::Stack {
                bar: "scheme",
                pieces: KINDS,
                unit: Unit::Bytes,
            },
        },
    ],
    checks: &[
        fewer(
            "with uniform keys the final scheme writes less than half",
            UNIFORM_KEYS,
        ),
        fewer("with the special distribution too", SPECIAL_KEYS),
        Check {
            what: "with the special distribution a fifth of all versions is replaced in the area",
            paper: "22.7 % in table 4.5, 36 % in figure 4.4",
            source: "4.2.3, 4.2.4",
            claim: Claim::NUMBERS,
            test: Test::Value {
                metric: "reclaimed_percent",
                rows: &[("distribution", "special"), ("scheme", "nvm-dwb-log-opt")],
                within: Within::Each(22.7, 36.0),
            },
            why: "What is often written leaves the buffer pool at a checkpoint only, so the share depends on how much log there is between two of them, and on how \
                  much more is written during one: it is a seventh without any, and two fifths with somewhat less log.",
        },
        Check {
            what: "and of all requests to write a page as many end without a write to the drive",
            paper: "22.7 % in table 4.5: 5.7 of 7.4 million",
            source: "4.2.3",
            claim: Claim::NUMBERS,
            test: Test::Value {
                metric: "not_written_percent",
                rows: &[("distribution", "special"), ("scheme", "nvm-dwb-log-opt")],
                within: Within::Each(22.65, 22.75),
            },
            why: "As above.",
        },
    ],
};

pub(super) const FIG4_4: Experiment = Experiment {
    name: "nvm-dwb/fig4.4",
    title: "Figure 4.4: throughput and endurance over the size of the area",
    shows: &[
        DRIVE_IS,
        "The thesis goes from 2 MB to 1 GB before 30 GB of data, 1/15,000 to 1/30 of them; here from 1/500, or the smallest area of 128 KiB, to 1/30, and on to all \
         of the data, which is a goal of ours.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Paged,
        axes: &[
            SYSBENCH,
            ISOLATION,
            DRIVE,
            POOL,
            // The ends come first and last: the smallest size of data has no smaller areas.
            ("area-share", &["0.033", "0.002", "0.008", "0.1", "1"]),
            PAGES,
            ("distribution", &["special"]),
            LOG,
            GROUP,
            LOADS,
            ("threads", &["16", "128"]),
            ("scheme", &["nvm-dwb", "nvm-dwb-log", "nvm-dwb-log-opt"]),
        ],
    }],
    plots: &[
        over(
            "128 threads",
            "area-share",
            "area, share of the data",
            &[("threads", "128")],
        ),
        Plot {
            caption: "Bytes written to the drive a transaction, 128 threads",
            rows: &[("threads", "128")],
            shape: Shape::Lines {
                metric: WRITTEN,
                x: "area-share",
                x_label: "area, share of the data",
                y_label: "bytes/txn",
                line: "scheme",
                x_scale: Axes::Logarithmic,
                scale: Axes::Linear,
            },
        },
        Plot {
            caption: "Blocks of flash erased a million transactions, 128 threads, by the model of docs/workloads.md",
            rows: &[("threads", "128")],
            shape: Shape::Lines {
                metric: "erases_per_million_txn",
                x: "area-share",
                x_label: "area, share of the data",
                y_label: "erases",
                line: "scheme",
                x_scale: Axes::Logarithmic,
                scale: Axes::Linear,
            },
        },
    ],
    checks: &[
        Check {
            what: "from 1/500 of the data to 1/30, throughput hardly depends on the size of the area",
            paper: "a rather flat curve, from 1/15,000",
            source: "4.2.4",
            claim: Claim::WORDS,
            test: faster(SMALL, SMALLEST, OPT, Within::LEVEL),
            why: "An area of 31 pages is full at once, and sessions wait for its flights.",
        },
        Check {
            what: "an area of 1/30 writes less than one of 1/500",
            paper: "1.56x fewer bytes from 1/15,000: 36 % of them",
            source: "4.2.4",
            claim: Claim::WORDS,
            test: Test::Ratio {
                metric: WRITTEN,
                over: SMALLEST,
                under: SMALL,
                rows: OPT,
                within: Within::AHEAD,
            },
            why: "A version stays in a small area for too short to be replaced there.",
        },
        Check {
            what: "from 1/30 of the data to all of them, throughput hardly depends on the size of the area",
            paper: "a rather flat curve",
            source: "4.2.4",
            claim: Claim::OWN_GOAL,
            test: faster(LARGE, SMALL, OPT, Within::LEVEL),
            why: "An area that holds all the data is also a cache of all the data, which the thesis's was not.",
        },
        Check {
            what: "an area for all of the data writes less than one for 1/30",
            paper: "1.56x fewer bytes: 36 % of them",
            source: "4.2.4",
            claim: Claim::OWN_GOAL,
            test: Test::Ratio {
                metric: WRITTEN,
                over: SMALL,
                under: LARGE,
                rows: OPT,
                within: Within::Mean(1.0, ANY),
            },
            why: "As long as the area is not full nothing goes home.",
        },
        Check {
            what: "copies that only wait for a sync gain nothing from a larger area",
            paper: "not shown",
            source: "3.2",
            claim: Claim::OWN_GOAL,
            test: Test::Ratio {
                metric: WRITTEN,
                over: SMALL,
                under: LARGE,
                rows: NVM_LOG,
                within: Within::LEVEL,
            },
            why: "Every page that leaves the pool is written home at once.",
        },
        Check {
            what: "and the final scheme is ahead of them at every size",
            paper: "the gap of figure 4.1",
            source: "4.2.4",
            claim: Claim::WORDS,
            test: Test::Ratio {
                metric: SPEED,
                over: OPT,
                under: NVM,
                rows: &[],
                within: Within::Each(1.0, ANY),
            },
            why: "Its log is in memory too.",
        },
    ],
};
