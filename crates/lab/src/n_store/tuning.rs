//! Figures 15 and 16: the size of a tree node, and the latency of the sync primitive.
//!
//! Only the NVM-aware methods, at the low latency and with low skew, as in the paper.

use super::super::experiment::{
    ANY, Axes, Axis, Check, Claim, Experiment, Filter, Kind, Plot, Shape, Sweep, Test, Within,
};
use super::MIX;

/// By processor time, as in figures 5 to 8.
const SPEED: &str = "txn_per_cpu_s";
const LOW: Axis = ("profile", &["low"]);
const LOW_SKEW: Axis = ("skew", &["low"]);

const fn over_nodes(caption: &'static str, rows: Filter) -> Plot {
    Plot {
        caption,
        rows,
        shape: Shape::Lines {
            metric: SPEED,
            x: "node-bytes",
            x_label: "bytes of a node",
            y_label: "transactions a processor second",
            line: "mix",
            x_scale: Axes::Logarithmic,
            scale: Axes::Linear,
        },
    }
}

const fn best(at: &'static str, rows: Filter) -> Test {
    Test::Best {
        metric: SPEED,
        along: "node-bytes",
        at,
        rows,
        within: Within::Mean(0.9, 1.0),
    }
}

pub(super) const FIG15: Experiment = Experiment {
    name: "n-store/fig15",
    title: "Figure 15: size of a tree node",
    shows: &[
        "The paper varies 64 to 2048 bytes for nvm-inp and nvm-log and 512 to 16,384 for nvm-cow. Here a node of 64 bytes would hold two entries beside its header; the axis begins with 128.",
    ],
    sweeps: &[
        Sweep {
            kind: Kind::Ycsb,
            axes: &[
                LOW,
                ("method", &["nvm-inp", "nvm-log"]),
                ("node-bytes", &["128", "256", "512", "1024", "2048"]),
                MIX,
                LOW_SKEW,
            ],
        },
        Sweep {
            kind: Kind::Ycsb,
            axes: &[
                LOW,
                ("method", &["nvm-cow"]),
                (
                    "node-bytes",
                    &["512", "1024", "2048", "4096", "8192", "16384"],
                ),
                MIX,
                LOW_SKEW,
            ],
        },
    ],
    plots: &[
        over_nodes("nvm-inp", &[("method", "nvm-inp")]),
        over_nodes("nvm-cow", &[("method", "nvm-cow")]),
        over_nodes("nvm-log", &[("method", "nvm-log")]),
    ],
    checks: &[
        Check {
            what: "512 bytes are best, or nearly, for nvm-inp",
            paper: "512 B",
            source: "appendix B",
            claim: Claim::WORDS,
            test: best("512", &[("method", "nvm-inp")]),
            why: "A miss costs the same for one line as for the neighbours that are read with it, which favours larger nodes.",
        },
        Check {
            what: "512 bytes are best, or nearly, for nvm-log",
            paper: "512 B",
            source: "appendix B",
            claim: Claim::WORDS,
            test: best("512", &[("method", "nvm-log")]),
            why: "A miss costs the same for one line as for the neighbours that are read with it, which favours larger nodes.",
        },
        Check {
            what: "4 KB are best, or nearly, for nvm-cow when it only reads",
            paper: "larger nodes read faster",
            source: "appendix B",
            claim: Claim::WORDS,
            test: best("4096", &[("method", "nvm-cow"), ("mix", "read-only")]),
            why: "A tree of this size is no deeper with smaller nodes.",
        },
        Check {
            what: "larger nodes make nvm-cow slower when it writes",
            paper: "drops as nodes get larger",
            source: "appendix B",
            claim: Claim::WORDS,
            test: Test::Ratio {
                metric: SPEED,
                over: &[("node-bytes", "16384")],
                under: &[("node-bytes", "512")],
                rows: &[("method", "nvm-cow"), ("mix", "write-heavy")],
                within: Within::Each(0.0, 1.0),
            },
            why: "A group of commits copies each node once.",
        },
        Check {
            what: "write-heavy, larger nodes cost nvm-cow more than nvm-inp",
            paper: "more significant",
            source: "appendix B",
            claim: Claim::WORDS,
            test: Test::Growth {
                metric: SPEED,
                over: &[("node-bytes", "1024")],
                under: &[("node-bytes", "2048")],
                low: &[("method", "nvm-inp")],
                high: &[("method", "nvm-cow")],
                rows: &[("mix", "write-heavy")],
                within: Within::AHEAD,
            },
            why: "A group of commits copies each node once.",
        },
    ],
};

const fn over_latency(caption: &'static str, rows: Filter) -> Plot {
    Plot {
        caption,
        rows,
        shape: Shape::Lines {
            metric: SPEED,
            x: "sync-latency-ns",
            x_label: "ns of a sync",
            y_label: "transactions a processor second",
            line: "mix",
            x_scale: Axes::Logarithmic,
            scale: Axes::Linear,
        },
    }
}

const fn slower(rows: Filter, within: Within) -> Test {
    Test::Ratio {
        metric: SPEED,
        over: &[("sync-latency-ns", "10")],
        under: &[("sync-latency-ns", "10000")],
        rows,
        within,
    }
}

pub(super) const FIG16: Experiment = Experiment {
    name: "n-store/fig16",
    title: "Figure 16: latency of the sync primitive",
    shows: &[
        "A sync is one or more flushes and the fence after them; the emulated device makes all of it take the given time. `current` in the table of \
         rows is what the profile says.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Ycsb,
        axes: &[
            LOW,
            ("method", &["nvm-inp", "nvm-cow", "nvm-log"]),
            (
                "sync-latency-ns",
                &["10", "100", "1000", "current", "10000"],
            ),
            MIX,
            LOW_SKEW,
        ],
    }],
    plots: &[
        over_latency("nvm-inp", &[("method", "nvm-inp")]),
        over_latency("nvm-cow", &[("method", "nvm-cow")]),
        over_latency("nvm-log", &[("method", "nvm-log")]),
    ],
    checks: &[
        Check {
            what: "write-heavy, a slow sync makes nvm-inp much slower",
            paper: "drops significantly",
            source: "appendix C",
            claim: Claim::WORDS,
            test: slower(
                &[("method", "nvm-inp"), ("mix", "write-heavy")],
                Within::Each(1.25, ANY),
            ),
            why: "Then it syncs less than once a transaction.",
        },
        Check {
            what: "write-heavy, a slow sync makes nvm-log much slower",
            paper: "drops significantly",
            source: "appendix C",
            claim: Claim::WORDS,
            test: slower(
                &[("method", "nvm-log"), ("mix", "write-heavy")],
                Within::Each(1.25, ANY),
            ),
            why: "Then it syncs less than once a transaction.",
        },
        Check {
            what: "write-heavy, nvm-cow is less sensitive than nvm-inp",
            paper: "slightly less sensitive",
            source: "appendix C",
            claim: Claim::WORDS,
            test: Test::Growth {
                metric: SPEED,
                over: &[("sync-latency-ns", "10")],
                under: &[("sync-latency-ns", "10000")],
                low: &[("method", "nvm-inp")],
                high: &[("method", "nvm-cow")],
                rows: &[("mix", "write-heavy")],
                within: Within::LESS,
            },
            why: "Its groups share their syncs, but a group may be ended early.",
        },
        Check {
            what: "reading only, it does not matter",
            paper: "more pronounced with writes",
            source: "appendix C",
            claim: Claim::WORDS,
            test: slower(&[("mix", "read-only")], Within::LEVEL),
            why: "Reads do not sync; what differs is noise of the machine.",
        },
    ],
};
