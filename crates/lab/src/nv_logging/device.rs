//! Figures 9 and 11: the cost of a durable write through a file and through memory, and of an
//! insertion into the log.
//!
//! Both are measured alone, without the rest of a transaction.

use super::super::experiment::{
    ANY, Axes, Axis, Check, Claim, Experiment, Filter, Kind, Plot, Shape, Sweep, Test, Within,
};
use super::super::paged::POOL_ALL;
use super::{SCHEME, THREADS};

const fn latency(caption: &'static str, rows: Filter) -> Plot {
    Plot {
        caption,
        rows,
        shape: Shape::Lines {
            metric: "chunk_ns",
            x: "chunk",
            x_label: "bytes of an object",
            y_label: "ns",
            line: "interface",
            x_scale: Axes::Logarithmic,
            scale: Axes::Logarithmic,
        },
    }
}

const OBJECT: Filter = &[("device", "native"), ("chunk", "64")];
const LONG_OBJECT: Filter = &[("device", "native"), ("chunk", "6144")];
const GROUP: Filter = &[("device", "native"), ("chunk", "772096")];
const FILE: Filter = &[("interface", "filesystem")];
const MAPPING: Filter = &[("interface", "mapping")];

/// A statement that an interface is so many times slower than a copy.
const fn slower(
    what: &'static str,
    paper: &'static str,
    (interface, rows): (Filter, Filter),
    within: Within,
    why: &'static str,
) -> Check {
    Check {
        what,
        paper,
        source: "4.1",
        claim: Claim::NUMBERS,
        test: Test::ratio(
            "chunk_ns",
            (interface, &[("interface", "copy")]),
            rows,
            within,
        ),
        why,
    }
}

const CALLS: &str = "A write and an fsync in shared memory are two system calls, the second of which does nothing: about a microsecond.";
const SYNC: &str =
    "An msync of shared memory is one system call that looks for dirty pages and writes none.";

/// Bytes of log records, and of groups of them.
const OBJECTS: Axis = (
    "chunk",
    &["64", "256", "1024", "6144", "65536", "262144", "772096"],
);

pub(super) const FIG9: Experiment = Experiment {
    name: "nv-logging/fig9",
    title: "Figure 9: a durable write of an object through a file and through memory",
    shows: &[
        "Objects of 64 bytes to 6 KB are log records, those of 64 to 754 KB are groups of them. Each is made durable before the next. The paper's three \
         interfaces are a write and an fsync (filesystem), stores and an msync (mapping), and a copy that nothing flushes; the fourth, memory, is ours: stores, a \
         flush of the lines and a fence. On the native device all files lie in shared memory, as the paper's do; on the emulated one the copies and flushes of \
         the file are charged like stores.",
    ],
    sweeps: &[
        Sweep {
            kind: Kind::Device,
            axes: &[
                ("device", &["native"]),
                ("pattern", &["sequential"]),
                ("interface", &["copy", "memory", "mapping", "filesystem"]),
                OBJECTS,
            ],
        },
        Sweep {
            kind: Kind::Device,
            axes: &[
                ("device", &["emulated"]),
                ("pattern", &["sequential"]),
                ("interface", &["memory", "filesystem"]),
                OBJECTS,
            ],
        },
    ],
    plots: &[
        latency("Native", &[("device", "native")]),
        latency("Emulated", &[("device", "emulated")]),
    ],
    checks: &[
        slower(
            "native: a small record costs many times as much through a file as a copy",
            "49–154x from 64 bytes to 6 KB",
            (FILE, OBJECT),
            Within::Each(49.0, 154.0),
            CALLS,
        ),
        slower(
            "native: so does one of 6 KB",
            "49–154x from 64 bytes to 6 KB",
            (FILE, LONG_OBJECT),
            Within::Each(49.0, 154.0),
            CALLS,
        ),
        slower(
            "native: and a group of 754 KB is still dearer",
            "5–9.5x from 64 to 754 KB",
            (FILE, GROUP),
            Within::Each(5.0, 9.5),
            CALLS,
        ),
        slower(
            "native: a small record costs several times as much in a mapping that is synced",
            "5–18.3x from 64 bytes to 6 KB",
            (MAPPING, OBJECT),
            Within::Each(5.0, 18.3),
            SYNC,
        ),
        slower(
            "native: so does one of 6 KB in a mapping that is synced",
            "5–18.3x from 64 bytes to 6 KB",
            (MAPPING, LONG_OBJECT),
            Within::Each(5.0, 18.3),
            SYNC,
        ),
        slower(
            "native: and a group of 754 KB in a mapping that is synced",
            "1.4–2.9x from 64 to 754 KB",
            (MAPPING, GROUP),
            Within::Each(1.4, 2.9),
            SYNC,
        ),
        Check {
            what: "emulated, where both pay for their lines: the file costs more at all sizes",
            paper: "dearer than memory at all sizes",
            source: "4.1",
            claim: Claim::WORDS,
            test: Test::ratio(
                "chunk_ns",
                (FILE, &[("interface", "memory")]),
                &[("device", "emulated")],
                Within::AHEAD,
            ),
            why: "Both flush the same lines, and the file adds two system calls.",
        },
    ],
};

const MEAN: &str = "insert_mean_us";

pub(super) const FIG11_SIZE: Experiment = Experiment {
    name: "nv-logging/fig11-size",
    title: "Figure 11: an insertion into the log, over the size of the object",
    shows: &[
        "Rows of 64 bytes to 4 KB go into one tree, by one thread: native memory with the instructions of persistent memory. The object of a row has the row and \
         some dozen bytes; among the objects are those of commits and of pages that split.",
    ],
    sweeps: &[Sweep {
        kind: Kind::BtreeProbed,
        axes: &[
            ("method", &["nv-disk", "nv-logging"]),
            ("record", &["64", "256", "1024", "4096"]),
        ],
    }],
    plots: &[Plot {
        caption: "Mean of an insertion",
        rows: &[],
        shape: Shape::Lines {
            metric: MEAN,
            x: "record",
            x_label: "bytes of a row",
            y_label: "us",
            line: "method",
            x_scale: Axes::Logarithmic,
            scale: Axes::Linear,
        },
    }],
    checks: &[Check {
        what: "nv-logging: an insertion stays short whatever the size of its object",
        paper: "at most 2.5 us, 64 bytes to several KB",
        source: "6.2",
        claim: Claim::NUMBERS,
        test: Test::Value {
            metric: MEAN,
            rows: &[("method", "nv-logging")],
            within: Within::Each(0.0, 2.5),
        },
        why: "Each line is flushed, and one of 4 KB has 64 of them.",
    }],
};

const fn insertion(caption: &'static str, metric: &'static str) -> Plot {
    Plot {
        caption,
        rows: &[],
        shape: Shape::Lines {
            metric,
            x: "threads",
            x_label: "threads",
            y_label: "us",
            line: "scheme",
            x_scale: Axes::Logarithmic,
            scale: Axes::Logarithmic,
        },
    }
}

pub(super) const FIG11: Experiment = Experiment {
    name: "nv-logging/fig11",
    title: "Figure 11: an insertion into the log, over threads",
    shows: &[
        "Time of an append to the log, encoding included, in TPC-C with all data in the page cache: native memory with the instructions of persistent memory. \
         Below it, how long a transaction waits for the log in all. The paper shows averages of sixteen hardware threads. Here a thread that loses \
         its core in the middle of an append has a long one, so the mean measures the scheduler too; it is judged all the same, for each scheme alike, because it is the paper's metric.",
    ],
    sweeps: &[Sweep {
        kind: Kind::PagedProbed,
        axes: &[
            ("workload", &["tpcc"]),
            ("device", &["native"]),
            POOL_ALL,
            SCHEME,
            THREADS,
        ],
    }],
    plots: &[
        insertion("Median of an insertion", "insert_p50_us"),
        insertion("99th percentile", "insert_p99_us"),
        insertion("Longest", "insert_max_us"),
        insertion("Mean", MEAN),
        insertion("Waiting for the log, a transaction", "wait_us_per_txn"),
    ],
    checks: &[
        Check {
            what: "flush-on-insert: an insertion stays short whatever the threads",
            paper: "at most 2.5 us",
            source: "6.2",
            claim: Claim::NUMBERS.headline(),
            test: Test::Value {
                metric: MEAN,
                rows: super::INSERT,
                within: Within::Each(0.0, 2.5),
            },
            why: "Each has a flush and a fence, and on this machine those are what it takes.",
        },
        Check {
            what: "flush-on-insert: it does not grow with the threads",
            paper: "a consistent level",
            source: "6.2",
            claim: Claim::WORDS,
            test: Test::Ratio {
                metric: MEAN,
                over: &[("threads", "16")],
                under: &[("threads", "2")],
                rows: super::INSERT,
                within: Within::Each(0.8, 1.25),
            },
            why: "Threads that take turns on a core find its caches cold.",
        },
        Check {
            what: "a central log: it grows with the threads",
            paper: "up to 74.3 us",
            source: "6.2",
            claim: Claim::WORDS,
            test: Test::Ratio {
                metric: MEAN,
                over: &[("threads", "16")],
                under: &[("threads", "1")],
                rows: super::DISK,
                within: Within::Each(1.0, ANY),
            },
            why: "On two cores only two threads can meet at the lock.",
        },
        Check {
            what: "with sixteen threads an insertion is shorter than with a central log",
            paper: "2.5 us against 74.3",
            source: "6.2",
            claim: Claim::NUMBERS.headline(),
            test: Test::Ratio {
                metric: MEAN,
                over: super::INSERT,
                under: super::DISK,
                rows: &[("threads", "16")],
                within: Within::Each(0.033, 0.034),
            },
            why: "On two cores only two threads can meet at the lock of a central log.",
        },
        Check {
            what: "and a transaction waits less for the log in all",
            paper: "not shown",
            source: "6.2",
            claim: Claim::OWN_GOAL,
            test: Test::Ratio {
                metric: "wait_us_per_txn",
                over: super::INSERT,
                under: super::DISK,
                rows: &[("threads", "16")],
                within: Within::LESS,
            },
            why: "A commit waits until no record in front of its own is missing: a thread that loses its core between the number of a record and its fence keeps all others waiting.",
        },
    ],
};
