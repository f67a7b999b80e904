//! Figures 5 to 8: throughput of YCSB and TPC-C at three latencies.
//!
//! The runs of figure 6 are also those of figures 9, 10 and 14, and those of figure 8 of figures 11
//! and 14. Figures 6 and 7 run the points of figure 5 too, for the ratios between latencies.

use super::super::experiment::{
    Axes, Axis, Check, Claim, Experiment, Filter, Kind, Plot, Shape, Sweep, Test, Within,
};
use super::{METHOD, MIX, SKEW, TPCC};

/// By processor time, so that other programs on the machine do not change it. Delays are spun, and
/// so are part of it.
const SPEED: &str = "txn_per_cpu_s";

const SETTING: &str = "The paper: 2 million tuples of 1 KB, 8 million transactions, 8 partitions, on a hardware emulator whose filesystem is \
    PMFS. Here: the emulated device in software, files in shared memory whose copies and syncs are charged to the same device, \
    and fewer partitions. A miss costs what the profile says; modelled cache and MemTables are as small in relation to the data as the paper's. Throughput is \
    transactions a second of processor time, delays included, because other programs share this machine; \
    rows have that of the clock as well.";

const LOW_SKEW: Plot = by_mix(
    "Low skew, transactions a processor second",
    &[("skew", "low")],
);
const HIGH_SKEW: Plot = by_mix(
    "High skew, transactions a processor second",
    &[("skew", "high")],
);

/// Groups of mixes, at the skew and the latency that `rows` select.
const fn by_mix(caption: &'static str, rows: Filter) -> Plot {
    Plot {
        caption,
        rows,
        shape: Shape::Bars {
            metric: SPEED,
            group: "mix",
            bar: "method",
            scale: Axes::Linear,
        },
    }
}

/// A ratio of throughput between two methods.
const fn faster(over: Filter, under: Filter, rows: Filter, within: Within) -> Test {
    Test::ratio(SPEED, (over, under), rows, within)
}

const NVM_INP: Filter = &[("method", "nvm-inp")];
const INP: Filter = &[("method", "inp")];
const NVM_COW: Filter = &[("method", "nvm-cow")];
const COW: Filter = &[("method", "cow")];
const NVM_LOG: Filter = &[("method", "nvm-log")];
const LOG: Filter = &[("method", "log")];
const READ_ONLY: Filter = &[("mix", "read-only")];
const WRITE_HEAVY_HIGH: Filter = &[("mix", "write-heavy"), ("profile", "high")];
const READ_ONLY_HIGH: Filter = &[("mix", "read-only"), ("profile", "high")];

const READ_ONLY_EQUAL: Check = Check {
    what: "reading only, nvm-inp is about as fast as inp",
    paper: "not faster",
    source: "5.2",
    claim: Claim::WORDS,
    test: faster(NVM_INP, INP, READ_ONLY, Within::LEVEL),
    why: "Both read tuples in the same way and differ in the tree alone; the rest is noise, which the spread of the repeats shows.",
};
const READ_HEAVY_INP: Check = Check {
    what: "read-heavy, nvm-inp is ahead of inp",
    paper: "1.3x",
    source: "5.2",
    claim: Claim::NUMBERS,
    test: faster(
        NVM_INP,
        INP,
        &[("mix", "read-heavy")],
        Within::Mean(1.25, 1.35),
    ),
    why: "One transaction in ten writes, so what the log costs hardly shows beside what the reads cost.",
};
const WRITES_INP: Check = Check {
    what: "write-heavy, nvm-inp is ahead of inp",
    paper: "ahead",
    source: "5.2",
    claim: Claim::WORDS.headline(),
    test: faster(NVM_INP, INP, &[("mix", "write-heavy")], Within::AHEAD),
    why: "A sync of a file in shared memory is a system call and the flush of its lines, far less than in PMFS, and a group of \
          transactions shares it.",
};
const READ_COW: Check = Check {
    what: "reading only, nvm-cow is ahead of cow",
    paper: "1.9–2.1x",
    source: "5.2",
    claim: Claim::NUMBERS,
    test: faster(NVM_COW, COW, READ_ONLY, Within::Mean(1.9, 2.1)),
    why: "Our cow reads through a page cache in memory, tuples inlined in its leaves, so a read that hits needs no filesystem at all, while \
          nvm-cow follows a pointer from the leaf to the tuple: one more miss.",
};
const WRITES_COW: Check = Check {
    what: "write-heavy, nvm-cow is far ahead of cow",
    paper: "4.3–5.5x",
    source: "5.2",
    claim: Claim::NUMBERS.headline(),
    test: faster(
        NVM_COW,
        COW,
        &[("mix", "write-heavy")],
        Within::Mean(4.3, 5.5),
    ),
    why: "Both copy tree nodes, and our cow writes each dirty page of a group once, in a sync that is almost free here; and groups of 64 \
          touch nearly as many leaves as they have updates, which nvm-cow copies as well.",
};
const READ_LOG: Check = Check {
    what: "reading only, nvm-log is ahead of log",
    paper: "2.8x",
    source: "5.2",
    claim: Claim::NUMBERS,
    test: faster(NVM_LOG, LOG, READ_ONLY, Within::Mean(2.75, 2.85)),
    why: "Where all tuples fit the MemTables neither looks into older runs.",
};
const WRITES_LOG: Check = Check {
    what: "write-heavy, nvm-log is ahead of log",
    paper: "ahead",
    source: "5.2",
    claim: Claim::WORDS.headline(),
    test: faster(NVM_LOG, LOG, &[("mix", "write-heavy")], Within::AHEAD),
    why: "The sync of the log file is almost free here and shared by a group.",
};
const LOG_COW: Check = Check {
    what: "write-heavy, log is ahead of cow",
    paper: "1.6–4.1x",
    source: "5.2",
    claim: Claim::NUMBERS,
    test: faster(LOG, COW, &[("mix", "write-heavy")], Within::Mean(1.6, 4.1)),
    why: "A tuple of which one column was updated is put together from several entries of the log.",
};
const GAIN_GROWS: Check = Check {
    what: "the gain of nvm-inp grows with the share of writes",
    paper: "grows",
    source: "5.2",
    claim: Claim::WORDS,
    test: Test::Growth {
        metric: SPEED,
        over: NVM_INP,
        under: INP,
        low: READ_ONLY,
        high: &[("mix", "write-heavy")],
        rows: &[],
        within: Within::AHEAD,
    },
    why: "Then reads differ more between the two than writes do.",
};
const COW_GAINS_MOST: Check = Check {
    what: "the gain of nvm-cow over cow grows with the share of writes",
    paper: "from 1.9–2.1x to 4.3–5.5x",
    source: "5.2",
    claim: Claim::NUMBERS,
    test: Test::Growth {
        metric: SPEED,
        over: NVM_COW,
        under: COW,
        low: READ_ONLY,
        high: &[("mix", "write-heavy")],
        rows: &[],
        within: Within::Mean(2.05, 2.89),
    },
    why: "See the two checks of this pair.",
};
const SKEW_HELPS: Check = Check {
    what: "reading only, high skew makes nvm-inp faster",
    paper: "1.3x",
    source: "5.2",
    claim: Claim::NUMBERS,
    test: faster(
        &[("skew", "high")],
        &[("skew", "low")],
        &[("mix", "read-only"), ("method", "nvm-inp")],
        Within::Mean(1.25, 1.35),
    ),
    why: "The hot tuples must fit the cache for that.",
};

const BALANCED: Filter = &[("mix", "balanced")];
const BALANCED_INP: Check = Check {
    what: "balanced, nvm-inp is ahead of inp",
    test: faster(NVM_INP, INP, BALANCED, Within::AHEAD),
    ..WRITES_INP
};
const BALANCED_COW: Check = Check {
    what: "balanced, nvm-cow is far ahead of cow",
    claim: Claim::NUMBERS,
    test: faster(NVM_COW, COW, BALANCED, Within::Mean(4.3, 5.5)),
    ..WRITES_COW
};
const BALANCED_LOG: Check = Check {
    what: "balanced, nvm-log is ahead of log",
    claim: Claim::WORDS,
    test: faster(NVM_LOG, LOG, BALANCED, Within::AHEAD),
    ..WRITES_LOG
};
const READ_LOG_COW: Check = Check {
    what: "reading only, log is slower than cow",
    paper: "the slowest of all",
    source: "5.2",
    claim: Claim::WORDS,
    test: faster(LOG, COW, READ_ONLY, Within::LESS),
    why: "A block cache and filters spare our log most of the runs that the paper's looks into, and most rows have one entry.",
};
const LOG_INP: Check = Check {
    what: "write-heavy, log is behind inp",
    paper: "lags behind",
    source: "5.2",
    claim: Claim::WORDS,
    test: faster(LOG, INP, &[("mix", "write-heavy")], Within::LESS),
    why: "An update is an entry of a MemTable, and is merged much later; the same group shares the sync of both.",
};
const SKEW_HELPS_LOG_LITTLE: Check = Check {
    what: "reading only, high skew hardly makes log faster",
    paper: "minimal",
    source: "5.2",
    claim: Claim::WORDS,
    test: faster(
        &[("skew", "high")],
        &[("skew", "low")],
        &[("mix", "read-only"), ("method", "log")],
        Within::LEVEL,
    ),
    why: "Blocks with hot rows stay in our block cache, which the paper's log does not have.",
};
const COW_DROPS_LESS: Check = Check {
    what: "few writes cost cow less at high skew",
    paper: "less prominent",
    source: "5.2",
    claim: Claim::WORDS,
    test: Test::Growth {
        metric: SPEED,
        over: &[("mix", "read-heavy")],
        under: READ_ONLY,
        low: &[("skew", "low")],
        high: &[("skew", "high")],
        rows: COW,
        within: Within::AHEAD,
    },
    why: "Reads gain as well from hot pages in the page cache, and what writes cost is compared with them.",
};

/// The runs of one latency.
const DRAM: Sweep = ycsb(&[("profile", &["dram"]), MIX, SKEW, METHOD]);
const LOW: Sweep = ycsb(&[("profile", &["low"]), MIX, SKEW, METHOD]);
const HIGH: Sweep = ycsb(&[("profile", &["high"]), MIX, SKEW, METHOD]);

const fn ycsb(axes: &'static [Axis]) -> Sweep {
    Sweep {
        kind: Kind::Ycsb,
        axes,
    }
}

/// The paper's comparisons of the methods, at each latency.
const BY_METHOD: &[Check] = &[
    READ_ONLY_EQUAL,
    SKEW_HELPS,
    SKEW_HELPS_LOG_LITTLE,
    READ_COW,
    READ_LOG,
    READ_LOG_COW,
    READ_HEAVY_INP,
    COW_DROPS_LESS,
    BALANCED_INP,
    BALANCED_COW,
    BALANCED_LOG,
    WRITES_INP,
    WRITES_COW,
    WRITES_LOG,
    LOG_COW,
    LOG_INP,
    GAIN_GROWS,
    COW_GAINS_MOST,
];

pub(super) const FIG5: Experiment = Experiment {
    name: "n-store/fig5",
    title: "Figure 5: YCSB at the latency of DRAM",
    shows: &[SETTING],
    sweeps: &[DRAM],
    plots: &[LOW_SKEW, HIGH_SKEW],
    checks: BY_METHOD,
};

pub(super) const FIG6: Experiment = Experiment {
    name: "n-store/fig6",
    title: "Figure 6: YCSB at the low latency of NVM, twice that of DRAM",
    shows: &[SETTING],
    sweeps: &[LOW],
    plots: &[LOW_SKEW, HIGH_SKEW],
    checks: BY_METHOD,
};

pub(super) const FIG7: Experiment = Experiment {
    name: "n-store/fig7",
    title: "Figure 7: YCSB at the high latency of NVM, eight times that of DRAM",
    shows: &[
        SETTING,
        "The ratios between latencies divide the throughput at the latency of DRAM by that at eight times it, so the runs of figure 5 \
         belong to this figure as well.",
    ],
    sweeps: &[HIGH, DRAM],
    plots: &[
        by_mix(
            "Low skew, transactions a processor second",
            &[("skew", "low"), ("profile", "high")],
        ),
        by_mix(
            "High skew, transactions a processor second",
            &[("skew", "high"), ("profile", "high")],
        ),
    ],
    checks: &[
        Check {
            what: "reading only, eight times the latency costs less than a factor of eight, and more than nothing",
            paper: "2–3.4x",
            source: "5.2",
            claim: Claim::NUMBERS,
            test: faster(
                &[("profile", "dram")],
                &[("profile", "high")],
                READ_ONLY,
                Within::Mean(2.0, 3.4),
            ),
            why: "The emulated dram profile adds nothing to what this machine's memory takes, and its model costs time of its own.",
        },
        Check {
            what: "write-heavy, it costs 1.8 to 2.9 times",
            paper: "1.8–2.9x",
            source: "5.2",
            claim: Claim::NUMBERS,
            test: faster(
                &[("profile", "dram")],
                &[("profile", "high")],
                &[("mix", "write-heavy")],
                Within::Mean(1.8, 2.9),
            ),
            why: "As for reading only.",
        },
        Check {
            what: "the latency costs less the more is written",
            paper: "2–3.4x reading, 1.8–2.9x writing",
            source: "5.2",
            claim: Claim::WORDS,
            test: Test::Growth {
                metric: SPEED,
                over: &[("profile", "dram")],
                under: &[("profile", "high")],
                low: READ_ONLY,
                high: &[("mix", "write-heavy")],
                rows: &[],
                within: Within::LESS,
            },
            why: "Writes of the copy-on-write pair read as many lines as they copy.",
        },
        Check {
            paper: "1.4x",
            test: faster(NVM_COW, COW, READ_ONLY_HIGH, Within::Mean(1.35, 1.45)),
            ..READ_COW
        },
        Check {
            paper: "2.5x",
            test: faster(NVM_LOG, LOG, READ_ONLY_HIGH, Within::Mean(2.45, 2.55)),
            ..READ_LOG
        },
        Check {
            test: faster(NVM_INP, INP, WRITE_HEAVY_HIGH, Within::AHEAD),
            ..WRITES_INP
        },
        Check {
            test: faster(NVM_COW, COW, WRITE_HEAVY_HIGH, Within::Mean(4.3, 5.5)),
            ..WRITES_COW
        },
        Check {
            test: faster(NVM_LOG, LOG, WRITE_HEAVY_HIGH, Within::AHEAD),
            ..WRITES_LOG
        },
    ],
};

pub(super) const FIG8: Experiment = Experiment {
    name: "n-store/fig8",
    title: "Figure 8: TPC-C at three latencies",
    shows: &[
        "The paper: 8 warehouses of full size, one a partition, transactions within their partition. Here: the same transactions on \
         the warehouses that the size below names.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Tpcc,
        axes: &[TPCC, ("profile", &["dram", "low", "high"]), METHOD],
    }],
    plots: &[Plot {
        caption: "Transactions a processor second",
        rows: &[],
        shape: Shape::Bars {
            metric: SPEED,
            group: "profile",
            bar: "method",
            scale: Axes::Linear,
        },
    }],
    checks: &[
        Check {
            what: "nvm-inp is ahead of inp",
            paper: "1.8–2.1x",
            source: "5.2",
            claim: Claim::NUMBERS.headline(),
            test: faster(NVM_INP, INP, &[], Within::Mean(1.8, 2.1)),
            why: "The sync of the log file is almost free here and shared by a group, and a transaction has many reads.",
        },
        Check {
            what: "nvm-cow is ahead of cow",
            paper: "2.3x",
            source: "5.2",
            claim: Claim::NUMBERS.headline(),
            test: faster(NVM_COW, COW, &[], Within::Mean(2.25, 2.35)),
            why: "Groups of copies cost both much the same; see figures 5 to 7.",
        },
        Check {
            what: "nvm-log is ahead of log",
            paper: "1.8–2.1x",
            source: "5.2",
            claim: Claim::NUMBERS.headline(),
            test: faster(NVM_LOG, LOG, &[], Within::Mean(1.8, 2.1)),
            why: "The sync of the log file is almost free here and shared by a group.",
        },
        Check {
            what: "nvm-inp is the fastest of all",
            paper: "performs the best",
            source: "5.2",
            claim: Claim::WORDS,
            test: Test::Best {
                metric: SPEED,
                along: "method",
                at: "nvm-inp",
                rows: &[],
                within: Within::Mean(0.97, 1.0),
            },
            why: "Another method does less per transaction at this size.",
        },
        Check {
            what: "it stays ahead of inp at eight times the latency",
            paper: "1.7–1.9x",
            source: "5.2",
            claim: Claim::NUMBERS,
            test: faster(NVM_INP, INP, &[("profile", "high")], Within::Mean(1.7, 1.9)),
            why: "As at the latency of DRAM.",
        },
    ],
};
