//! The experiments of "Storage Management in the NVRAM Era", PVLDB 7(2), 2013.
//!
//! All data is in memory that keeps its content. The parameter is the length of a *persist
//! barrier*, which is a fence here. The paper has plots without numbers at their points, so the
//! checks compare the shape that its text states.

use super::experiment::{
    ANY, Axes, Axis, Check, Claim, Experiment, Filter, Kind, Paper, Plot, Shape, Sweep, Table,
    Test, Within,
};
use super::paged::{POOL_ALL, faster, over};
use super::size::Size;

/// The paper.
pub(super) const PAPER: Paper = Paper {
    name: "nvram-era",
    title: "NVRAM-era: a page engine whose data lie in non-volatile memory",
    lead: "The experiments of the VLDB 2013 paper, run again on this engine: every figure beside what the paper says of it. \
           Absolute numbers are not compared, ratios are.",
    compared: Table {
        heading: "The designs",
        header: &["Design", "Pages", "Log", "Barriers"],
        rows: DESIGNS,
    },
    experiments: &[&FIG5, &FIG6],
    describe: Size::describe_nv_logging,
};

const DESIGNS: &[&[&str]] = &[
    &[
        "disk-replacement",
        "in files on a filesystem in the memory, behind a buffer pool",
        "ARIES, in files there",
        "one a sync of a file",
    ],
    &[
        "in-place",
        "in the memory, changed there",
        "what lines were, in the memory",
        "two a change of pages, one a commit",
    ],
    &[
        "group-commit",
        "in the memory, changed in copies until a batch of transactions ends",
        "what lines were, in the memory, once a batch",
        "three a batch of transactions",
    ],
];

const DESIGN: Axis = ("scheme", &["disk-replacement", "in-place", "group-commit"]);
const BARRIER: Axis = (
    "sync-latency-ns",
    &["0", "300", "1000", "3000", "5000", "10000"],
);
const BARRIERS_OF_FIG6: Axis = ("sync-latency-ns", &["0", "3000"]);
const THREADS: Axis = ("threads", &["2"]);
/// Reading a page in durable memory is a load, reading one in a pool is not. Loads are free: the
/// model's own time for them would charge the former with a cost that no memory has.
const LOADS: Axis = ("loads", &["free"]);

const P95: &str = "latency_p95_us";
const IN_PLACE: Filter = &[("scheme", "in-place")];
const DISK: Filter = &[("scheme", "disk-replacement")];
const BATCHES: Filter = &[("scheme", "group-commit")];
const SHORTEST: Filter = &[("sync-latency-ns", "0")];
const LONGEST: Filter = &[("sync-latency-ns", "10000")];
const OF_FIG6: Filter = &[("sync-latency-ns", "3000")];

const NO_BARRIER: &str = "A barrier of 0 ns is a fence of this machine, to which nothing is added.";
const COUNTED: &str = "A barrier is a fence of one thread, who waits for it by spinning, as in the paper. Reads and write-backs are as fast as DRAM's; reads are not counted, since that takes longer than they do.";

const fn paged(axes: &'static [Axis]) -> Sweep {
    Sweep {
        kind: Kind::Paged,
        axes,
    }
}

/// The write transactions of the paper's table 3, with barriers of several lengths.
macro_rules! over_lengths {
    ($barriers:expr) => {
        &[
            paged(&[
                ("workload", &["tpcc"]),
                ("mix", &["new-order"]),
                POOL_ALL,
                $barriers,
                THREADS,
                LOADS,
                DESIGN,
            ]),
            paged(&[
                ("workload", &["tpcb"]),
                POOL_ALL,
                $barriers,
                THREADS,
                LOADS,
                DESIGN,
            ]),
            paged(&[
                ("workload", &["tatp"]),
                ("mix", &["update-location"]),
                POOL_ALL,
                $barriers,
                THREADS,
                LOADS,
                DESIGN,
            ]),
        ]
    };
}

const fn over_barriers(caption: &'static str, rows: Filter) -> Plot {
    over(caption, "sync-latency-ns", "time of a barrier, ns", rows)
}

const FIG5: Experiment = Experiment {
    name: "nvram-era/fig5",
    title: "Figure 5: throughput over the time of a persist barrier",
    shows: &[NO_BARRIER, COUNTED],
    sweeps: over_lengths!(BARRIER),
    plots: &[
        over_barriers("TPC-C, New-Order", &[("workload", "tpcc")]),
        over_barriers("TPC-B", &[("workload", "tpcb")]),
        over_barriers("TATP, Update-Location", &[("workload", "tatp")]),
    ],
    checks: &[
        Check {
            what: "with barriers that cost nothing, in-place is ahead of disk-replacement",
            paper: "in-place performs best",
            source: "figure 5",
            claim: Claim::WORDS.headline(),
            test: faster(IN_PLACE, DISK, SHORTEST, Within::AHEAD),
            why: "What in-place saves is the software of files and buffers; what it pays here at each change are two fences of this machine, the old lines in the \
                  log and a checksum, and files in this memory cost a copy only.",
        },
        Check {
            what: "it falls as barriers take longer",
            paper: "throughput suffers as latency increases",
            source: "figure 5",
            claim: Claim::WORDS,
            test: faster(SHORTEST, LONGEST, IN_PLACE, Within::AHEAD),
            why: "Each change of a page waits for two barriers.",
        },
        Check {
            what: "disk-replacement hardly feels them",
            paper: "insensitive",
            source: "figure 5",
            claim: Claim::WORDS,
            test: faster(SHORTEST, LONGEST, DISK, Within::Each(0.8, 1.25)),
            why: "A group of commits shares one sync.",
        },
        Check {
            what: "with the longest barriers disk-replacement is ahead",
            paper: "the lines cross",
            source: "figure 5",
            claim: Claim::WORDS,
            test: faster(DISK, IN_PLACE, LONGEST, Within::AHEAD),
            why: "As the two before say.",
        },
        Check {
            what: "with barriers that cost nothing, in-place is ahead of group-commit",
            paper: "in-place performs best",
            source: "figure 5",
            claim: Claim::WORDS.headline(),
            test: faster(IN_PLACE, BATCHES, SHORTEST, Within::AHEAD),
            why: "Here in-place logs old lines and seals its pages at each change, and group-commit once a batch.",
        },
        Check {
            what: "with the longest barriers group-commit is ahead of in-place",
            paper: "the lines cross",
            source: "figure 5",
            claim: Claim::WORDS,
            test: faster(BATCHES, IN_PLACE, LONGEST, Within::AHEAD),
            why: "A batch of up to 64 transactions waits for three barriers.",
        },
        Check {
            what: "group-commit hardly feels them",
            paper: "insensitive",
            source: "figure 5",
            claim: Claim::WORDS,
            test: faster(SHORTEST, LONGEST, BATCHES, Within::Each(0.8, 1.25)),
            why: "As before.",
        },
        Check {
            what: "group-commit is ahead of disk-replacement",
            paper: "higher throughput",
            source: "figure 5",
            claim: Claim::WORDS.headline(),
            test: faster(BATCHES, DISK, &[], Within::AHEAD),
            why: "It has no log to write, no copies of pages to write back and no calls of a filesystem; its batches hold up who would begin meanwhile.",
        },
    ],
};

/// As in the paper: a design with barriers of 3 µs against in-place without any.
const fn normalised(design: Filter, within: Within) -> Test {
    let in_place_at_0: Filter = &[("scheme", "in-place"), ("sync-latency-ns", "0")];
    Test::ratio(P95, (OF_FIG6, in_place_at_0), design, within)
}

const FIG6: Experiment = Experiment {
    name: "nvram-era/fig6",
    title: "Figure 6: 95th percentile of latency with barriers of 3 µs",
    shows: &[NO_BARRIER],
    sweeps: over_lengths!(BARRIERS_OF_FIG6),
    plots: &[Plot {
        caption: "95th percentile in µs, barriers of 3 µs",
        rows: OF_FIG6,
        shape: Shape::Bars {
            metric: P95,
            group: "workload",
            bar: "scheme",
            scale: Axes::Logarithmic,
        },
    }],
    checks: &[
        Check {
            what: "in-place's transactions take longer than without barriers, in every workload",
            paper: "above 1, normalised to in-place at 0 µs",
            source: "figure 6",
            claim: Claim::WORDS,
            test: normalised(IN_PLACE, Within::Each(1.0, ANY)),
            why: "A transaction of four changes waits for nine barriers.",
        },
        Check {
            what: "group-commit's take longer than in-place's do without barriers",
            paper: "above 1, normalised to in-place at 0 µs: a transaction waits for its batch",
            source: "figure 6",
            claim: Claim::WORDS,
            test: normalised(BATCHES, Within::Each(1.0, ANY)),
            why: "A batch that closes as soon as its threads wait holds nobody up.",
        },
        Check {
            what: "group-commit's take about as long as without barriers",
            paper: "avoids high latency barriers by deferring commits",
            source: "figure 6",
            claim: Claim::WORDS,
            test: Test::Ratio {
                metric: P95,
                over: OF_FIG6,
                under: SHORTEST,
                rows: BATCHES,
                within: Within::Each(0.8, 1.25),
            },
            why: "What a transaction waits for is its batch, of which three barriers are a small part.",
        },
    ],
};
