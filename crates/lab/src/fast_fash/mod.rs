//! The experiments of "Failure-Atomic Slotted Paging for Persistent Memory", ASPLOS 2017.
//!
//! Rows of one size are inserted into a tree, one a transaction, each durable before the next one
//! begins. The emulated device has the paper's latencies of memory. The paper's plots have numbers
//! at few of their points, so the checks compare the ratios and the order that its text states.
//! `SQLite`, which contains the paper's methods, is measured by the workspace `rivals`.
//!
//! | experiment | what it varies |
//! |---|---|
//! | `breakdown` | nothing: where the time of an insertion goes |
//! | `flushes`, `log` | the size of a row |
//! | `read-latency`, `write-latency` | the memory |
//! | `transaction` | rows of a transaction |
//! | `traffic` | the method, those with journals included |
//! | `slot-headers` | the method before block storage, and the size of the memory |
//! | `hybrid` | frames of volatile memory, down to a part of the pages |
//! | `native` | nothing: this machine's own memory |

use super::experiment::{
    ANY, Axes, Axis, Check, Claim, Experiment, Filter, Kind, Paper, Plot, Shape, Sweep, Table,
    Test, Unit, Within,
};
use super::size::Size;

/// The paper.
pub(super) const PAPER: Paper = Paper {
    name: "fast-fash",
    title: "FAST and FASH: failure-atomic slotted pages",
    lead: "The experiments of the ASPLOS 2017 paper, run again on this engine: every figure beside what the paper says of it. \
           Absolute numbers are not compared, ratios are.",
    compared: Table {
        heading: "The methods",
        header: &["Method", "Pages", "A commit writes"],
        rows: METHODS,
    },
    experiments: &[
        &BREAKDOWN,
        &FLUSHES,
        &LOG,
        &READ_LATENCY,
        &WRITE_LATENCY,
        &TRANSACTION,
        &TRAFFIC,
        &SLOT_HEADERS,
        &HYBRID,
        &NATIVE,
    ],
    describe: Size::describe_fast_fash,
};

const METHODS: &[&[&str]] = &[
    &[
        "fast",
        "in the memory, changed there; their keys in DRAM as well",
        "one page's header, where that is all that changed; else as fash",
    ],
    &[
        "fash",
        "in the memory, changed there; their keys in DRAM as well",
        "the headers of the pages that changed, into a log, then in place",
    ],
    &[
        "nvwal",
        "in frames of volatile memory, before a file",
        "what differs in the pages, into a log in the memory",
    ],
    &[
        "slot-header-journal",
        "in frames of volatile memory, before a file",
        "the headers of pages and the cells that are new, into a small memory",
    ],
];

const METHOD: Axis = ("method", &["fast", "fash", "nvwal"]);
const RECORD: Axis = (
    "record",
    &["8", "16", "32", "64", "128", "256", "512", "1024"],
);
const SOME_RECORDS: Axis = ("record", &["64", "256", "1024"]);
const SMALL: Axis = ("record", &["64"]);
/// Latencies of a memory of the time, to read and to write.
const READ: Axis = ("read-ns", &["300"]);
const WRITE: Axis = ("write-ns", &["300"]);

const SPEED: &str = "rows_per_s";
const LINES: &str = "lines_flushed_per_row";
const FAST: Filter = &[("method", "fast")];
const FASH: Filter = &[("method", "fash")];
const NVWAL: Filter = &[("method", "nvwal")];

const ONE_ROW: &str = "A transaction inserts one row and is durable before the next one begins. Rows have a key of 8 bytes and a payload.";

/// A line for each method.
const fn lines(
    caption: &'static str,
    metric: &'static str,
    x: &'static str,
    labels: (&'static str, &'static str),
    rows: Filter,
) -> Plot {
    Plot {
        caption,
        rows,
        shape: Shape::Lines {
            metric,
            x,
            x_label: labels.0,
            y_label: labels.1,
            line: "method",
            x_scale: Axes::Logarithmic,
            scale: Axes::Linear,
        },
    }
}

const fn faster(over: Filter, under: Filter, within: Within) -> Test {
    Test::ratio(SPEED, (over, under), &[], within)
}

/// The order that the paper finds everywhere.
const ORDER: [Check; 2] = [
    Check {
        what: "fast is not behind fash",
        paper: "fast is the fastest",
        source: "5",
        claim: Claim::WORDS.headline(),
        test: faster(FAST, FASH, Within::Each(1.0, ANY)),
        why: "A page that splits commits by a record in both.",
    },
    Check {
        what: "fash is not behind nvwal",
        paper: "nvwal is the slowest",
        source: "5",
        claim: Claim::WORDS.headline(),
        test: faster(FASH, NVWAL, Within::Each(1.0, ANY)),
        why: "Frames of nvwal are in ordinary memory, without the latency that pages of the others have to be read with; of those only keys are in DRAM.",
    },
];

const BREAKDOWN: Experiment = Experiment {
    name: "fast-fash/breakdown",
    title: "Where the time of an insertion goes",
    shows: &[
        ONE_ROW,
        "A timer looks at what the thread does. Change is what is left of the operation: encoding of the row, cells, splits, the emulation's own time; \
         the program around it is left out.",
    ],
    sweeps: &[Sweep {
        kind: Kind::BtreeProbed,
        axes: &[SMALL, READ, WRITE, METHOD],
    }],
    plots: &[Plot {
        caption: "µs of a transaction of one row of 64 bytes",
        rows: &[],
        shape: Shape::Stack {
            bar: "method",
            pieces: &[
                ("search_us", "search"),
                ("change_us", "change of the page"),
                ("allocation_us", "allocation"),
                ("commit_us", "commit"),
                ("flush_us", "flushes and fences"),
            ],
            unit: Unit::Plain,
        },
    }],
    checks: &[Check {
        what: "fast waits for no more than fash does",
        paper: "commit is where they differ",
        source: "5.1",
        claim: Claim::WORDS,
        test: Test::ratio("flush_us", (FASH, FAST), &[], Within::Each(1.0, ANY)),
        why: "Both have two fences; a record has more lines than a header.",
    }],
};

const FLUSHES: Experiment = Experiment {
    name: "fast-fash/flushes",
    title: "Lines flushed and bytes written by an insertion",
    shows: &[ONE_ROW, "Splits are in the means."],
    sweeps: &[Sweep {
        kind: Kind::Btree,
        axes: &[READ, WRITE, RECORD, METHOD],
    }],
    plots: &[
        lines(
            "lines flushed",
            LINES,
            "record",
            ("bytes of a row", "lines"),
            &[],
        ),
        lines(
            "lines written to the memory, in bytes",
            "memory_bytes_per_row",
            "record",
            ("bytes of a row", "bytes"),
            &[],
        ),
    ],
    checks: &[
        Check {
            what: "fast flushes about three lines for a row of 32 bytes",
            paper: "about 3 under 64 bytes",
            source: "5.2",
            claim: Claim::NUMBERS,
            test: Test::Value {
                metric: LINES,
                rows: &[("method", "fast"), ("record", "32")],
                within: Within::Each(2.5, 3.5),
            },
            why: "Its cell has 48 bytes, so a line or two; the header takes one, and splits their part.",
        },
        Check {
            what: "nvwal flushes more lines than fash, for rows of every size",
            paper: "nvwal logs what it changes, and the paper's fash headers only",
            source: "5.2",
            claim: Claim::WORDS,
            test: Test::ratio(LINES, (NVWAL, FASH), &[], Within::Each(1.0, ANY)),
            why: "A row of nvwal is in its log alone until a checkpoint writes its page into the file; in fash its cell and its header are flushed \
                  apart. Lines that nvwal streams are counted as flushed.",
        },
    ],
};

const LOG: Experiment = Experiment {
    name: "fast-fash/log",
    title: "Bytes of the log",
    shows: &[
        "What goes into the log for an insertion, by lines: headers in fash, differences of pages in nvwal.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Btree,
        axes: &[READ, WRITE, RECORD, METHOD],
    }],
    plots: &[lines(
        "log, in bytes",
        "log_bytes_per_row",
        "record",
        ("bytes of a row", "bytes"),
        &[],
    )],
    checks: &[Check {
        what: "the log of fash is shorter than nvwal's",
        paper: "logging of headers only",
        source: "5.2",
        claim: Claim::WORDS,
        test: Test::ratio("log_bytes_per_row", (NVWAL, FASH), &[], Within::AHEAD),
        why: "Rows that are shorter than a header differ in few bytes more than the header does.",
    }],
};

const READ_LATENCY: Experiment = Experiment {
    name: "fast-fash/read-latency",
    title: "Throughput over the latency of reads",
    shows: &[
        ONE_ROW,
        "The emulated device counts from 160 ns, which is taken for this machine's own memory.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Btree,
        axes: &[
            SMALL,
            ("read-ns", &["160", "300", "600", "900", "1200", "1500"]),
            WRITE,
            METHOD,
        ],
    }],
    plots: &[lines(
        "rows of 64 bytes",
        SPEED,
        "read-ns",
        ("a read, ns", "rows/s"),
        &[],
    )],
    checks: &ORDER,
};

const WRITE_LATENCY: Experiment = Experiment {
    name: "fast-fash/write-latency",
    title: "Throughput over the latency of writes",
    shows: &[ONE_ROW],
    sweeps: &[Sweep {
        kind: Kind::Btree,
        axes: &[
            SOME_RECORDS,
            ("write-ns", &["120", "300", "600", "900", "1200", "1500"]),
            READ,
            METHOD,
        ],
    }],
    plots: &[
        lines(
            "rows of 64 bytes",
            SPEED,
            "write-ns",
            ("a write, ns", "rows/s"),
            &[("record", "64")],
        ),
        lines(
            "rows of 1 KiB",
            SPEED,
            "write-ns",
            ("a write, ns", "rows/s"),
            &[("record", "1024")],
        ),
    ],
    checks: &ORDER,
};

const TRANSACTION: Experiment = Experiment {
    name: "fast-fash/transaction",
    title: "Rows of a transaction",
    shows: &["A transaction of several rows changes several pages, so fast commits as fash does."],
    sweeps: &[Sweep {
        kind: Kind::Btree,
        axes: &[
            SMALL,
            READ,
            WRITE,
            ("txn-size", &["1", "2", "4", "8", "16", "32"]),
            METHOD,
        ],
    }],
    plots: &[lines(
        "rows of 64 bytes",
        SPEED,
        "txn-size",
        ("rows of a transaction", "rows/s"),
        &[],
    )],
    checks: &[Check {
        what: "with 32 rows a transaction fast is as fast as fash",
        paper: "multi-page transactions commit by the log",
        source: "4.3",
        claim: Claim::WORDS,
        test: Test::ratio(
            SPEED,
            (FAST, FASH),
            &[("txn-size", "32")],
            Within::Each(0.8, 1.25),
        ),
        why: "It does the same.",
    }],
};

const TRAFFIC: Experiment = Experiment {
    name: "fast-fash/traffic",
    title: "What is written, against journals",
    shows: &[
        ONE_ROW,
        "Bytes stored to durable memory and written to files. The last two keep pages in files: one behind a log with whole pages, one behind a doublewrite area. \
         Their pool is smaller than the data and a checkpoint comes after each megabyte of log, so pages are written and protected during the run.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Btree,
        axes: &[
            READ,
            WRITE,
            SOME_RECORDS,
            ("pool", &["524288"]),
            ("log-bytes", &["1048576"]),
            (
                "method",
                &["fast", "fash", "nvwal", "full-page-writes", "dwb-batched"],
            ),
        ],
    }],
    plots: &[Plot {
        caption: "bytes of a row",
        rows: &[],
        shape: Shape::Bars {
            metric: "bytes_written_per_row",
            group: "record",
            bar: "method",
            scale: Axes::Logarithmic,
        },
    }],
    checks: &[Check {
        what: "fash writes less than a log with whole pages",
        paper: "less I/O than journaling",
        source: "5.4",
        claim: Claim::WORDS.headline(),
        test: Test::ratio(
            "bytes_written_per_row",
            (&[("method", "full-page-writes")], FASH),
            &[],
            Within::Each(1.0, ANY),
        ),
        why: "Rows of a kilobyte are most of what either writes.",
    }],
};

/// A pool smaller than the data, so that pages are written during the run.
const SOME_LOG: Axis = ("log-bytes", &["1048576"]);
const FEW_FRAMES: Filter = &[("pool", "524288")];
const MANY_FRAMES: Filter = &[("pool", "134217728")];
const SOME_FRAMES: Filter = &[("pool", "4194304")];
const IN_FILES: &str = "file_bytes_per_row";
const JOURNAL: Filter = &[("method", "slot-header-journal")];

const fn journal_check(
    what: &'static str,
    other: Filter,
    rows: Filter,
    why: &'static str,
) -> Check {
    Check {
        what,
        paper: "significantly reduce I/O traffic, even with a small memory",
        source: "conclusion",
        claim: Claim::WORDS.headline(),
        test: Test::ratio(IN_FILES, (other, JOURNAL), rows, Within::Each(1.0, ANY)),
        why,
    }
}

const SLOT_HEADERS: Experiment = Experiment {
    name: "fast-fash/slot-headers",
    title: "A journal of slot headers in a small memory, before block storage",
    shows: &[
        ONE_ROW,
        "Pages lie in a file, behind frames for all of them or for a part. The journal has the slot header of each page that changed and the cells that are new, in a megabyte of \
         durable memory, or in as much as the last two plots say; nvwal has 16. The others protect pages in files alone: by a log with whole pages, and by a doublewrite \
         area.",
    ],
    sweeps: &[
        Sweep {
            kind: Kind::Btree,
            axes: &[
                READ,
                WRITE,
                SOME_RECORDS,
                ("pool", &["524288", "134217728"]),
                SOME_LOG,
                (
                    "method",
                    &[
                        "slot-header-journal",
                        "nvwal",
                        "full-page-writes",
                        "dwb-batched",
                    ],
                ),
            ],
        },
        Sweep {
            kind: Kind::Btree,
            axes: &[
                READ,
                WRITE,
                SMALL,
                ("pool", &["4194304"]),
                ("ring", &["16384", "65536", "262144", "1048576", "4194304"]),
                ("method", &["slot-header-journal", "nvwal"]),
            ],
        },
    ],
    plots: &[
        Plot {
            caption: "bytes of a row that are written to files, with frames for all pages",
            rows: MANY_FRAMES,
            shape: Shape::Bars {
                metric: IN_FILES,
                group: "record",
                bar: "method",
                scale: Axes::Logarithmic,
            },
        },
        Plot {
            caption: "bytes of a row that are stored to durable memory, with frames for all pages",
            rows: MANY_FRAMES,
            shape: Shape::Bars {
                metric: "memory_bytes_per_row",
                group: "record",
                bar: "method",
                scale: Axes::Linear,
            },
        },
        lines(
            "bytes of a row of 64 that are written to files, over the size of the journal",
            IN_FILES,
            "ring",
            ("bytes of durable memory", "bytes"),
            SOME_FRAMES,
        ),
        lines(
            "rows of 64 bytes",
            SPEED,
            "ring",
            ("bytes of durable memory", "rows/s"),
            SOME_FRAMES,
        ),
    ],
    checks: &[
        journal_check(
            "with a journal of slot headers less goes to files than with a log of whole pages",
            &[("method", "full-page-writes")],
            MANY_FRAMES,
            "Either writes a page home once between two checkpoints, and the log has it whole as well.",
        ),
        journal_check(
            "with a journal of slot headers less goes to files than with a doublewrite area",
            &[("method", "dwb-batched")],
            MANY_FRAMES,
            "Either writes a page home once between two checkpoints, and the area has it as well.",
        ),
        journal_check(
            "so it does with frames for few pages, compared with a log of whole pages",
            &[("method", "full-page-writes")],
            FEW_FRAMES,
            "A checkpoint of the journal comes when half of the frames are dirty, and writes all of them; a buffer pool writes the page whose frame it needs.",
        ),
    ],
};

const HYBRID: Experiment = Experiment {
    name: "fast-fash/hybrid",
    title: "Memory only against frames before a file",
    shows: &[
        ONE_ROW,
        "The file of nvwal is on an imitated drive, and there are ever fewer frames before it. The others have no frames, and no file.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Btree,
        axes: &[
            SMALL,
            READ,
            WRITE,
            ("files", &["ssd"]),
            ("pool", &["131072", "1048576", "134217728"]),
            METHOD,
        ],
    }],
    plots: &[lines(
        "rows of 64 bytes",
        SPEED,
        "pool",
        ("bytes of frames", "rows/s"),
        &[],
    )],
    checks: &[Check {
        what: "memory only is ahead where few pages have a frame",
        paper: "pages in the memory need no copies",
        source: "2",
        claim: Claim::WORDS,
        test: Test::ratio(
            SPEED,
            (FAST, NVWAL),
            &[("pool", "131072")],
            Within::Each(1.0, ANY),
        ),
        why: "With frames for all pages a search reads ordinary memory.",
    }],
};

const NATIVE: Experiment = Experiment {
    name: "fast-fash/native",
    title: "This machine's own memory",
    shows: &[
        ONE_ROW,
        "Lines are flushed, and nothing is delayed. Files are in shared memory.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Btree,
        axes: &[RECORD, METHOD],
    }],
    plots: &[lines(
        "rows/s",
        SPEED,
        "record",
        ("bytes of a row", "rows/s"),
        &[],
    )],
    checks: &ORDER,
};
