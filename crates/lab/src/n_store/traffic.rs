//! Figures 1 and 9 to 11 and table 3: the device's interfaces, the accesses that reach it, and the
//! bytes that are written.
//!
//! Figures 9 to 11 count lines that pass between the modelled cache and the device, after loading.
//! The runs are those of figures 6 and 8, so they cost nothing more. Table 3 is the paper's
//! analytical model; its symbols get the sizes of the counted tuples.

use super::super::experiment::{
    ANY, Axes, Check, Claim, Experiment, Filter, Kind, Plot, Shape, Sweep, Test, Within,
};
use super::{METHOD, MIX, SKEW, TPCC};

const NVM_INP: Filter = &[("method", "nvm-inp")];
const INP: Filter = &[("method", "inp")];
const NVM_COW: Filter = &[("method", "nvm-cow")];
const COW: Filter = &[("method", "cow")];
const NVM_LOG: Filter = &[("method", "nvm-log")];
const LOG: Filter = &[("method", "log")];

const fn bandwidth(caption: &'static str, rows: Filter) -> Plot {
    Plot {
        caption,
        rows,
        shape: Shape::Lines {
            metric: "mb_per_s",
            x: "chunk",
            x_label: "bytes of a chunk",
            y_label: "MB/s",
            line: "interface",
            x_scale: Axes::Logarithmic,
            scale: Axes::Logarithmic,
        },
    }
}

pub(super) const FIG1: Experiment = Experiment {
    name: "n-store/fig1",
    title: "Figure 1: durable write bandwidth of the two interfaces",
    shows: &[
        "Each chunk is made durable before the next: a store, a flush of its lines and a fence; or a write and an fsync. The paper's filesystem is \
         PMFS on emulated NVM; here it is the one that the machine's table names, so its bandwidth is that of two system calls.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Device,
        axes: &[
            ("pattern", &["sequential", "random"]),
            ("interface", &["allocator", "filesystem"]),
            (
                "chunk",
                &["1", "2", "4", "8", "16", "32", "64", "128", "256"],
            ),
        ],
    }],
    plots: &[
        bandwidth("Sequential writes", &[("pattern", "sequential")]),
        bandwidth("Random writes", &[("pattern", "random")]),
    ],
    checks: &[
        Check {
            what: "the allocator interface is an order of magnitude ahead",
            paper: "10–12x",
            source: "2.2",
            claim: Claim::NUMBERS,
            test: Test::Ratio {
                metric: "mb_per_s",
                over: &[("interface", "allocator")],
                under: &[("interface", "filesystem")],
                rows: &[],
                within: Within::Mean(10.0, 12.0),
            },
            why: "An fsync in shared memory does nothing but enter the kernel, while the flush really writes the line back.",
        },
        Check {
            what: "bandwidth grows with the chunk while it fits a line",
            paper: "grows",
            source: "figure 1",
            claim: Claim::WORDS,
            test: Test::Ratio {
                metric: "mb_per_s",
                over: &[("chunk", "64")],
                under: &[("chunk", "1")],
                rows: &[],
                within: Within::Each(1.0, ANY),
            },
            why: "A chunk costs the same until it needs a second line.",
        },
    ],
};

const LOW_RUNS: Sweep = Sweep {
    kind: Kind::Ycsb,
    axes: &[("profile", &["low"]), MIX, SKEW, METHOD],
};
const COUNTED: &str = "Lines that pass between the modelled cache and the device, a transaction on average, after loading. The paper counts \
    8 million transactions; only ratios compare. The runs are those of figure 6.";

const fn per_mix(caption: &'static str, metric: &'static str, rows: Filter) -> Plot {
    Plot {
        caption,
        rows,
        shape: Shape::Bars {
            metric,
            group: "mix",
            bar: "method",
            scale: Axes::Linear,
        },
    }
}

const fn fewer(
    metric: &'static str,
    (over, under): (Filter, Filter),
    rows: Filter,
    within: Within,
) -> Test {
    Test::ratio(metric, (over, under), rows, within)
}

/// Figure 10 at one skew.
const fn stores(
    what: &'static str,
    paper: &'static str,
    claim: Claim,
    test: Test,
    why: &'static str,
) -> Check {
    Check {
        what,
        paper,
        source: "5.3",
        claim,
        test,
        why,
    }
}

const LOADS: &str = "loads_per_txn";
const STORES: &str = "stores_per_txn";
const READ_ONLY: Filter = &[("mix", "read-only")];
const WRITE_HEAVY: Filter = &[("mix", "write-heavy")];
const WRITE_HEAVY_LOW: Filter = &[("mix", "write-heavy"), ("skew", "low")];
const WRITE_HEAVY_HIGH: Filter = &[("mix", "write-heavy"), ("skew", "high")];
/// The paper's range at the two skews.
const FEWER_LOW: Within = Within::Mean(0.52, 0.83);
const FEWER_HIGH: Within = Within::Mean(0.59, 0.91);

pub(super) const FIG9: Experiment = Experiment {
    name: "n-store/fig9",
    title: "Figure 9: loads that reach the device, YCSB",
    shows: &[COUNTED],
    sweeps: &[LOW_RUNS],
    plots: &[
        per_mix(
            "Low skew, lines read a transaction",
            LOADS,
            &[("skew", "low")],
        ),
        per_mix(
            "High skew, lines read a transaction",
            LOADS,
            &[("skew", "high")],
        ),
    ],
    checks: &[
        Check {
            what: "reading only, nvm-log loads less than log",
            paper: "up to 53 % fewer",
            source: "5.3",
            claim: Claim::NUMBERS,
            test: fewer(LOADS, (NVM_LOG, LOG), READ_ONLY, Within::Mean(0.47, 1.0)),
            why: "log is counted with fewer lines than one tuple has, so what it reads of its runs does not pass the modelled device; its loads are too low to compare.",
        },
        Check {
            what: "reading only, nvm-cow loads less than cow",
            paper: "up to 53 % fewer",
            source: "5.3",
            claim: Claim::NUMBERS,
            test: fewer(LOADS, (NVM_COW, COW), READ_ONLY, Within::Mean(0.47, 1.0)),
            why: "Our cow keeps the leaves that it needs in its page cache, tuples included, and needs no copy of what it reads.",
        },
        Check {
            what: "high skew needs fewer loads in every method",
            paper: "a significant drop",
            source: "5.3",
            claim: Claim::WORDS,
            test: fewer(
                LOADS,
                (&[("skew", "high")], &[("skew", "low")]),
                READ_ONLY,
                Within::Each(0.0, 1.0),
            ),
            why: "The hot tuples must fit the cache for that.",
        },
        Check {
            what: "write-heavy, cow loads most",
            paper: "the largest number",
            source: "5.3",
            claim: Claim::WORDS,
            test: Test::Best {
                metric: LOADS,
                along: "method",
                at: "cow",
                rows: WRITE_HEAVY,
                within: Within::Mean(0.97, 1.0),
            },
            why: "Coalescing entries of the log costs log more loads than copying pages costs cow.",
        },
    ],
};

pub(super) const FIG10: Experiment = Experiment {
    name: "n-store/fig10",
    title: "Figure 10: stores that reach the device, YCSB",
    shows: &[COUNTED],
    sweeps: &[LOW_RUNS],
    plots: &[
        per_mix(
            "Low skew, lines written a transaction",
            STORES,
            &[("skew", "low")],
        ),
        per_mix(
            "High skew, lines written a transaction",
            STORES,
            &[("skew", "high")],
        ),
    ],
    checks: &[
        stores(
            "write-heavy at low skew, nvm-inp stores less than inp",
            "17–48 % fewer",
            Claim::NUMBERS.headline(),
            fewer(STORES, (NVM_INP, INP), WRITE_HEAVY_LOW, FEWER_LOW),
            "Updates are small and the log of inp is written once a group, line after line.",
        ),
        stores(
            "write-heavy at high skew, nvm-inp stores less than inp",
            "9–41 % fewer",
            Claim::NUMBERS,
            fewer(STORES, (NVM_INP, INP), WRITE_HEAVY_HIGH, FEWER_HIGH),
            "Updates are small and the log of inp is written once a group, line after line.",
        ),
        stores(
            "write-heavy at low skew, nvm-cow stores less than cow",
            "17–48 % fewer",
            Claim::NUMBERS.headline(),
            fewer(STORES, (NVM_COW, COW), WRITE_HEAVY_LOW, FEWER_LOW),
            "Both copy a node for nearly every update of a group.",
        ),
        stores(
            "write-heavy at high skew, nvm-cow stores less than cow",
            "9–41 % fewer",
            Claim::NUMBERS,
            fewer(STORES, (NVM_COW, COW), WRITE_HEAVY_HIGH, FEWER_HIGH),
            "Both copy a node for nearly every update of a group.",
        ),
        stores(
            "write-heavy at low skew, nvm-log stores less than log",
            "17–48 % fewer",
            Claim::NUMBERS.headline(),
            fewer(STORES, (NVM_LOG, LOG), WRITE_HEAVY_LOW, FEWER_LOW),
            "In nvm-log an entry has a block of its own and its place is recorded and stored in a tree; log appends its record and packs its runs.",
        ),
        stores(
            "write-heavy at high skew, nvm-log stores less than log",
            "9–41 % fewer",
            Claim::NUMBERS,
            fewer(STORES, (NVM_LOG, LOG), WRITE_HEAVY_HIGH, FEWER_HIGH),
            "In nvm-log an entry has a block of its own and its place is recorded and stored in a tree; log appends its record and packs its runs.",
        ),
        Check {
            what: "write-heavy, cow stores most",
            paper: "the most",
            source: "5.3",
            claim: Claim::WORDS,
            test: Test::Best {
                metric: STORES,
                along: "method",
                at: "cow",
                rows: WRITE_HEAVY_LOW,
                within: Within::Mean(0.97, 1.0),
            },
            why: "Another method writes more at this size.",
        },
    ],
};

pub(super) const FIG11: Experiment = Experiment {
    name: "n-store/fig11",
    title: "Figure 11: loads and stores that reach the device, TPC-C",
    shows: &[
        "Lines a transaction on average, after loading. The runs are those of figure 8 at the low latency.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Tpcc,
        axes: &[TPCC, ("profile", &["low"]), METHOD],
    }],
    plots: &[
        per_mix_of_one("Lines read a transaction", LOADS),
        per_mix_of_one("Lines written a transaction", STORES),
    ],
    checks: &[
        Check {
            what: "nvm-inp stores less than inp",
            paper: "31–42 % fewer",
            source: "5.3",
            claim: Claim::NUMBERS,
            test: fewer(STORES, (NVM_INP, INP), &[], Within::Mean(0.58, 0.69)),
            why: "Undo records of the durable tree are written for each insert, and groups share the log's lines in inp.",
        },
        Check {
            what: "nvm-cow stores less than cow",
            paper: "31–42 % fewer",
            source: "5.3",
            claim: Claim::NUMBERS,
            test: fewer(STORES, (NVM_COW, COW), &[], Within::Mean(0.58, 0.69)),
            why: "Both copy the nodes on the paths to what a group changes.",
        },
        Check {
            what: "nvm-log stores less than log",
            paper: "31–42 % fewer",
            source: "5.3",
            claim: Claim::NUMBERS,
            test: fewer(STORES, (NVM_LOG, LOG), &[], Within::Mean(0.58, 0.69)),
            why: "In nvm-log an entry has a block of its own and its place is recorded and stored in a tree; log appends its record and packs its runs.",
        },
    ],
};

const fn per_mix_of_one(caption: &'static str, metric: &'static str) -> Plot {
    Plot {
        caption,
        rows: &[],
        shape: Shape::Bars {
            metric,
            group: "profile",
            bar: "method",
            scale: Axes::Linear,
        },
    }
}

/// Symbols of the paper's cost model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Symbol {
    /// A tuple.
    Tuple,
    /// The changed fields of an update, of fixed and of variable length.
    Fields,
    /// A pointer.
    Pointer,
    /// A node of a copy-on-write B+tree.
    Node,
}

/// Bytes that an operation writes by the paper's table 3: a method, an operation, the paper's
/// formulas for memory, log and table, and their sum as multiples of symbols at least (a node is in
/// the dirty directory already) and at most (it is copied first). The write amplification of the
/// LSM trees is taken as 1, small fixed writes as 0.
pub(in super::super) type Model = (
    &'static str,
    &'static str,
    [&'static str; 3],
    &'static [(Symbol, f64)],
    &'static [(Symbol, f64)],
);

use Symbol::{Fields, Node, Pointer, Tuple};

/// The paper's table 3.
pub(in super::super) const MODEL: &[Model] = &[
    (
        "inp",
        "insert",
        ["T", "T", "T"],
        &[(Tuple, 3.0)],
        &[(Tuple, 3.0)],
    ),
    (
        "inp",
        "update",
        ["F+V", "2(F+V)", "F+V"],
        &[(Fields, 4.0)],
        &[(Fields, 4.0)],
    ),
    (
        "inp",
        "delete",
        ["ε", "T", "ε"],
        &[(Tuple, 1.0)],
        &[(Tuple, 1.0)],
    ),
    (
        "cow",
        "insert",
        ["B+T or T", "0", "B or T"],
        &[(Tuple, 2.0)],
        &[(Node, 2.0), (Tuple, 1.0)],
    ),
    (
        "cow",
        "update",
        ["B+F+V or F+V", "0", "B or F+V"],
        &[(Fields, 2.0)],
        &[(Node, 2.0), (Fields, 1.0)],
    ),
    (
        "cow",
        "delete",
        ["B+ε or ε", "0", "B or ε"],
        &[],
        &[(Node, 2.0)],
    ),
    (
        "log",
        "insert",
        ["T", "T", "θT"],
        &[(Tuple, 3.0)],
        &[(Tuple, 3.0)],
    ),
    (
        "log",
        "update",
        ["F+V", "2(F+V)", "θ(F+V)"],
        &[(Fields, 4.0)],
        &[(Fields, 4.0)],
    ),
    (
        "log",
        "delete",
        ["ε", "T", "ε"],
        &[(Tuple, 1.0)],
        &[(Tuple, 1.0)],
    ),
    (
        "nvm-inp",
        "insert",
        ["T", "p", "p"],
        &[(Tuple, 1.0), (Pointer, 2.0)],
        &[(Tuple, 1.0), (Pointer, 2.0)],
    ),
    (
        "nvm-inp",
        "update",
        ["F+V+p", "F+p", "0"],
        &[(Fields, 1.0), (Pointer, 2.0)],
        &[(Fields, 2.0), (Pointer, 2.0)],
    ),
    (
        "nvm-inp",
        "delete",
        ["ε", "p", "ε"],
        &[(Pointer, 1.0)],
        &[(Pointer, 1.0)],
    ),
    (
        "nvm-cow",
        "insert",
        ["T", "0", "B+p or p"],
        &[(Tuple, 1.0), (Pointer, 1.0)],
        &[(Tuple, 1.0), (Node, 1.0), (Pointer, 1.0)],
    ),
    (
        "nvm-cow",
        "update",
        ["T+F+V", "0", "B+p or p"],
        &[(Tuple, 1.0), (Fields, 1.0), (Pointer, 1.0)],
        &[(Tuple, 1.0), (Fields, 1.0), (Node, 1.0), (Pointer, 1.0)],
    ),
    (
        "nvm-cow",
        "delete",
        ["ε", "0", "B+ε or ε"],
        &[],
        &[(Node, 1.0)],
    ),
    (
        "nvm-log",
        "insert",
        ["T", "p", "θT"],
        &[(Tuple, 2.0), (Pointer, 1.0)],
        &[(Tuple, 2.0), (Pointer, 1.0)],
    ),
    (
        "nvm-log",
        "update",
        ["F+V+p", "F+p", "θ(F+p)"],
        &[(Fields, 1.0), (Pointer, 2.0)],
        &[(Fields, 3.0), (Pointer, 3.0)],
    ),
    (
        "nvm-log",
        "delete",
        ["ε", "p", "ε"],
        &[(Pointer, 1.0)],
        &[(Pointer, 1.0)],
    ),
];

impl Symbol {
    /// Its bytes in the counted runs: a key of 8 bytes and ten columns of 100, of which an update
    /// rewrites one.
    pub(in super::super) fn bytes(self) -> f64 {
        match self {
            Self::Tuple => 1008.0,
            Self::Fields => 100.0,
            Self::Pointer => 8.0,
            Self::Node => 4096.0,
        }
    }
}

/// The paper's table is about bytes that are written to the memory.
const DEVICE: &str = "device_bytes";
const INSERT: Filter = &[("operation", "insert")];
const UPDATE: Filter = &[("operation", "update")];
const DELETE: Filter = &[("operation", "delete")];

pub(super) const TABLE3: Experiment = Experiment {
    name: "n-store/table3",
    title: "Table 3: bytes written by one operation, by the model and measured",
    shows: &[
        "The paper's model counts copies of tuples in memory, log and table. Measured are all bytes that were handed to stores and \
         written to files, indexes and allocator included, and the lines that reached the device times 64; both an operation on average, one \
         operation a transaction. Statements are about the latter.",
        "Symbols: T tuple (1008 bytes here), F and V changed fields (100 in all), p pointer (8), B node of the copy-on-write tree (4096), θ write \
         amplification of the LSM trees (taken as 1), ε small fixed writes (taken as 0).",
    ],
    sweeps: &[Sweep {
        kind: Kind::Costs,
        axes: &[("operation", &["insert", "update", "delete"]), METHOD],
    }],
    plots: &[
        Plot {
            caption: "Bytes stored an operation, logarithmic",
            rows: &[],
            shape: Shape::Bars {
                metric: "stored_bytes",
                group: "operation",
                bar: "method",
                scale: Axes::Logarithmic,
            },
        },
        Plot {
            caption: "Bytes that reached the device an operation, logarithmic",
            rows: &[],
            shape: Shape::Bars {
                metric: DEVICE,
                group: "operation",
                bar: "method",
                scale: Axes::Logarithmic,
            },
        },
    ],
    checks: &[
        Check {
            what: "an insert writes fewer bytes in nvm-inp than in inp",
            paper: "T+2p against 3T: a third",
            source: "table 3",
            claim: Claim::NUMBERS,
            test: fewer(DEVICE, (NVM_INP, INP), INSERT, Within::Mean(0.33, 0.34)),
            why: "The model leaves out the index and the allocator.",
        },
        Check {
            what: "an update writes fewer bytes in nvm-inp than in inp",
            paper: "F+V+p and F+p against 4(F+V): about half",
            source: "table 3",
            claim: Claim::NUMBERS,
            test: fewer(DEVICE, (NVM_INP, INP), UPDATE, Within::Mean(0.29, 0.54)),
            why: "The model leaves out the index and the allocator.",
        },
        Check {
            what: "a delete writes fewer bytes in nvm-inp than in inp",
            paper: "p against T",
            source: "table 3",
            claim: Claim::NUMBERS,
            test: fewer(DEVICE, (NVM_INP, INP), DELETE, Within::Mean(0.0, 0.01)),
            why: "A delete logs the bits and words that it will free, one for each variable-length field.",
        },
        Check {
            what: "every operation writes fewer bytes in nvm-cow than in cow",
            paper: "fewer",
            source: "table 3",
            claim: Claim::WORDS,
            test: fewer(DEVICE, (NVM_COW, COW), &[], Within::Each(0.0, 1.0)),
            why: "Both copy the nodes on the path to what changes.",
        },
        Check {
            what: "an insert writes fewer bytes in nvm-log than in log",
            paper: "fewer",
            source: "table 3",
            claim: Claim::WORDS,
            test: fewer(DEVICE, (NVM_LOG, LOG), INSERT, Within::LESS),
            why: "Runs of both are merged as often.",
        },
        Check {
            what: "so does an update",
            paper: "fewer",
            source: "table 3",
            claim: Claim::WORDS,
            test: fewer(DEVICE, (NVM_LOG, LOG), UPDATE, Within::LESS),
            why: "Runs of both are merged as often.",
        },
    ],
};
