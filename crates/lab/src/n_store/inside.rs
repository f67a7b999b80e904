//! Figures 12 to 14: recovery, the breakdown of time, the use of space.
//!
//! Recovery is measured on the native device with real SIGKILLs. The breakdown samples the active
//! part of the database, because hardware counters are not available.

use super::super::experiment::{
    ANY, Axes, Check, Claim, Experiment, Filter, Kind, Plot, Shape, Sweep, Test, Unit, Within,
};
use super::{METHOD, MIX, TPCC};

const RECOVERY: &str = "recovery_ms";

const fn recovery(caption: &'static str, rows: Filter) -> Plot {
    Plot {
        caption,
        rows,
        shape: Shape::Lines {
            metric: RECOVERY,
            x: "txns",
            x_label: "transactions since the checkpoint",
            y_label: "ms",
            line: "method",
            x_scale: Axes::Logarithmic,
            scale: Axes::Logarithmic,
        },
    }
}

const fn growth(rows: Filter, within: Within) -> Test {
    Test::Ratio {
        metric: RECOVERY,
        over: &[("txns", "100000")],
        under: &[("txns", "1000")],
        rows,
        within,
    }
}

const fn within_a_second(rows: Filter) -> Test {
    Test::Value {
        metric: RECOVERY,
        rows,
        within: Within::Each(0.0, 1000.0),
    }
}

const BUSY: &str =
    "Opening also maps the pools and reads the descriptor; on a busy machine it is interrupted.";

pub(super) const FIG12: Experiment = Experiment {
    name: "n-store/fig12",
    title: "Figure 12: recovery after SIGKILL",
    shows: &[
        "A process runs write-heavy YCSB or TPC-C for a number of transactions since the last checkpoint, begins another one in each partition, \
         and is killed. What is shown is the whole opening after that, mapping included; then the content is compared with the list. \
         The paper does not show the copy-on-write pair, which has nothing to recover; here it stands for what an opening takes.",
        "inp loads its checkpoint and builds its indexes again however short the log is, so its line starts at the size of the data.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Recovery,
        axes: &[
            ("workload", &["ycsb", "tpcc"]),
            ("txns", &["1000", "10000", "100000"]),
            METHOD,
        ],
    }],
    plots: &[
        recovery("YCSB, milliseconds", &[("workload", "ycsb")]),
        recovery("TPC-C, milliseconds", &[("workload", "tpcc")]),
    ],
    checks: &[
        Check {
            what: "inp takes longer the more transactions there were",
            paper: "grows linearly",
            source: "5.4",
            claim: Claim::WORDS,
            test: growth(&[("method", "inp")], Within::Each(1.0, ANY)),
            why: "A checkpoint that fell due meanwhile has cut the log short.",
        },
        Check {
            what: "log takes longer the more transactions there were",
            paper: "grows linearly",
            source: "5.4",
            claim: Claim::WORDS,
            test: growth(&[("method", "log")], Within::Each(1.0, ANY)),
            why: "A MemTable that was full meanwhile has cut the log short.",
        },
        Check {
            what: "nvm-inp does not",
            paper: "independent of the number",
            source: "5.4",
            claim: Claim::WORDS.headline(),
            test: growth(&[("method", "nvm-inp")], Within::Each(0.8, 1.25)),
            why: BUSY,
        },
        Check {
            what: "nvm-log does not",
            paper: "independent of the number",
            source: "5.4",
            claim: Claim::WORDS.headline(),
            test: growth(&[("method", "nvm-log")], Within::Each(0.8, 1.25)),
            why: "More runs are there to be opened after more transactions.",
        },
        Check {
            what: "nvm-inp is ready within a second",
            paper: "under a second",
            source: "5.4",
            claim: Claim::NUMBERS,
            test: within_a_second(&[("method", "nvm-inp")]),
            why: BUSY,
        },
        Check {
            what: "nvm-log is ready within a second",
            paper: "under a second",
            source: "5.4",
            claim: Claim::NUMBERS,
            test: within_a_second(&[("method", "nvm-log")]),
            why: BUSY,
        },
        Check {
            what: "nvm-cow has nothing to recover, however much was done",
            paper: "never need to recover",
            source: "5.4",
            claim: Claim::WORDS,
            test: growth(&[("method", "nvm-cow")], Within::Each(0.8, 1.25)),
            why: "Opening finds the free pages by walking the tree, so it takes time with the size of the data, not with that of a log.",
        },
    ],
};

const PARTS: &[(&str, &str)] = &[
    ("storage_percent", "storage"),
    ("recovery_percent", "recovery"),
    ("index_percent", "index"),
    ("other_percent", "other"),
];

const fn breakdown(caption: &'static str, rows: Filter) -> Plot {
    Plot {
        caption,
        rows,
        shape: Shape::Stack {
            bar: "method",
            pieces: PARTS,
            unit: Unit::Percent,
        },
    }
}

pub(super) const FIG13: Experiment = Experiment {
    name: "n-store/fig13",
    title: "Figure 13: where time goes",
    shows: &[
        "A timer looks 10,000 times a second at the part of the latest access of each partition: storage is tuples, pages and allocator, \
         recovery is logs and checkpoints, index is index, other is between transactions. The copy-on-write pair keeps its tuples in its \
         tree, so all of it is storage, and so is writing pages to the file. The paper samples cycles; here accesses cost the emulated device's own \
         time as well, so parts that touch memory often weigh more.",
    ],
    sweeps: &[Sweep {
        kind: Kind::YcsbSampled,
        axes: &[("profile", &["low"]), MIX, ("skew", &["low"]), METHOD],
    }],
    plots: &[
        breakdown("Read-only", &[("mix", "read-only")]),
        breakdown("Read-heavy", &[("mix", "read-heavy")]),
        breakdown("Balanced", &[("mix", "balanced")]),
        breakdown("Write-heavy", &[("mix", "write-heavy")]),
    ],
    checks: &[
        Check {
            what: "write-heavy, inp spends up to a third of its time on recovery",
            paper: "as much as 33 %",
            source: "5.5",
            claim: Claim::NUMBERS,
            test: Test::Value {
                metric: "recovery_percent",
                rows: &[("mix", "write-heavy"), ("method", "inp")],
                within: Within::Each(32.5, 33.5),
            },
            why: "The sync of a group of 64 is one system call here.",
        },
        Check {
            what: "inp spends more on recovery the more it writes",
            paper: "growing with the writes",
            source: "5.5",
            claim: Claim::WORDS,
            test: Test::Ratio {
                metric: "recovery_percent",
                over: &[("mix", "write-heavy")],
                under: &[("mix", "read-heavy")],
                rows: &[("method", "inp")],
                within: Within::AHEAD,
            },
            why: "The sync of a group of 64 is one system call here.",
        },
        Check {
            what: "write-heavy, nvm-inp spends a smaller part on recovery than inp",
            paper: "13–18 % against as much as 33 %",
            source: "5.5",
            claim: Claim::NUMBERS.headline(),
            test: Test::Ratio {
                metric: "recovery_percent",
                over: &[("method", "nvm-inp")],
                under: &[("method", "inp")],
                rows: &[("mix", "write-heavy")],
                within: Within::Mean(0.39, 0.55),
            },
            why: "Here a transaction of nvm-inp waits for its own record, and one of inp shares a sync that is a system call.",
        },
        Check {
            what: "write-heavy, nvm-inp spends 13 to 18 % of its time on recovery",
            paper: "13–18 %",
            source: "5.5",
            claim: Claim::NUMBERS,
            test: Test::Value {
                metric: "recovery_percent",
                rows: &[("mix", "write-heavy"), ("method", "nvm-inp")],
                within: Within::Each(13.0, 18.0),
            },
            why: "Without group commit each transaction waits for its own log record; the wait is counted for the log.",
        },
        Check {
            what: "write-heavy, nvm-log spends 13 to 18 % of its time on recovery",
            paper: "13–18 %",
            source: "5.5",
            claim: Claim::NUMBERS,
            test: Test::Value {
                metric: "recovery_percent",
                rows: &[("mix", "write-heavy"), ("method", "nvm-log")],
                within: Within::Each(13.0, 18.0),
            },
            why: "Without group commit each transaction waits for its own log record; the wait is counted for the log.",
        },
        Check {
            what: "reading only, nothing is spent on recovery",
            paper: "grows with the writes",
            source: "5.5",
            claim: Claim::WORDS,
            test: Test::Value {
                metric: "recovery_percent",
                rows: &[("mix", "read-only")],
                within: Within::Each(0.0, 5.0),
            },
            why: "A commit that wrote nothing still looks at the state of the log.",
        },
        Check {
            what: "reading only, log spends a larger part in indexes than inp",
            paper: "a higher fraction",
            source: "5.5",
            claim: Claim::WORDS,
            test: Test::Ratio {
                metric: "index_percent",
                over: &[("method", "log")],
                under: &[("method", "inp")],
                rows: &[("mix", "read-only")],
                within: Within::Each(1.0, ANY),
            },
            why: "Where all tuples fit the MemTables there is one look-up; and in a run the tuple lies beside its key.",
        },
    ],
};

const SPACE: &[(&str, &str)] = &[
    ("table_bytes", "table"),
    ("index_bytes", "index"),
    ("log_bytes", "log"),
    ("checkpoint_bytes", "checkpoint"),
    ("other_bytes", "other"),
];

const fn footprint(caption: &'static str, rows: Filter) -> Plot {
    Plot {
        caption,
        rows,
        shape: Shape::Stack {
            bar: "method",
            pieces: SPACE,
            unit: Unit::Bytes,
        },
    }
}

const fn smaller(over: Filter, under: Filter, rows: Filter, (from, to): (f64, f64)) -> Test {
    Test::Ratio {
        metric: "footprint_bytes",
        over,
        under,
        rows,
        within: Within::Each(from, to),
    }
}

const fn pair(what: &'static str, paper: &'static str, test: Test, why: &'static str) -> Check {
    Check {
        what,
        paper,
        source: "5.6",
        claim: Claim::NUMBERS,
        test,
        why,
    }
}

const YCSB: Filter = &[("mix", "balanced")];
const OF_TPCC: Filter = &[("workload", "tpcc")];
const SHORT: &str = "The footprint is that at the end of a run that is seconds long, so logs are short; the paper takes the peak of a long one.";

pub(super) const FIG14: Experiment = Experiment {
    name: "n-store/fig14",
    title: "Figure 14: storage footprint",
    shows: &[
        "Bytes in use at the end of balanced YCSB at low skew, and of TPC-C: tuples, indexes, log, checkpoint, other. The paper reports the peak \
         of a longer run. The runs are those of figures 6 and 8.",
    ],
    sweeps: &[
        Sweep {
            kind: Kind::Ycsb,
            axes: &[
                ("profile", &["low"]),
                ("mix", &["balanced"]),
                ("skew", &["low"]),
                METHOD,
            ],
        },
        Sweep {
            kind: Kind::Tpcc,
            axes: &[TPCC, ("profile", &["low"]), METHOD],
        },
    ],
    plots: &[
        footprint("YCSB, balanced", YCSB),
        footprint("TPC-C", OF_TPCC),
    ],
    checks: &[
        pair(
            "YCSB, nvm-inp takes less than inp",
            "17–21 % less",
            smaller(
                &[("method", "nvm-inp")],
                &[("method", "inp")],
                YCSB,
                (0.79, 0.83),
            ),
            SHORT,
        ),
        pair(
            "YCSB, nvm-cow takes less than cow",
            "25 % less",
            smaller(
                &[("method", "nvm-cow")],
                &[("method", "cow")],
                YCSB,
                (0.745, 0.755),
            ),
            SHORT,
        ),
        pair(
            "YCSB, nvm-log takes less than log",
            "17–21 % less",
            smaller(
                &[("method", "nvm-log")],
                &[("method", "log")],
                YCSB,
                (0.79, 0.83),
            ),
            SHORT,
        ),
        pair(
            "TPC-C, nvm-inp takes less than inp",
            "31–38 % less",
            smaller(
                &[("method", "nvm-inp")],
                &[("method", "inp")],
                OF_TPCC,
                (0.62, 0.69),
            ),
            SHORT,
        ),
        pair(
            "TPC-C, nvm-cow takes less than cow",
            "31–38 % less",
            smaller(
                &[("method", "nvm-cow")],
                &[("method", "cow")],
                OF_TPCC,
                (0.62, 0.69),
            ),
            "Small tuples in slots of their own take more room than inlined in the leaves of a tree.",
        ),
        pair(
            "TPC-C, nvm-log takes less than log",
            "31–38 % less",
            smaller(
                &[("method", "nvm-log")],
                &[("method", "log")],
                OF_TPCC,
                (0.62, 0.69),
            ),
            SHORT,
        ),
    ],
};
