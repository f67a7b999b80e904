//! Figures 15 to 17: the effects of size, skew and threads on the algorithms.
//!
//! Foreign keys are dense and each tuple of S has a partner, as in the paper. The third line in
//! each plot, `n-part`, shows where not partitioning is better.

use super::super::experiment::{
    ANY, Axes, Axis, Check, Claim, Experiment, Kind, Plot, Shape, Sweep, Test, Within,
};
use super::{ABSTRACT, CODE, CONCLUSIONS, M_WAY, N_PART, RADIX, SPEED, ahead};

const THREE: Axis = ("algorithm", &["radix", "m-way", "n-part"]);

const fn over(
    caption: &'static str,
    x: &'static str,
    x_label: &'static str,
    x_scale: Axes,
) -> Plot {
    Plot {
        caption,
        rows: &[],
        shape: Shape::Lines {
            metric: SPEED,
            x,
            x_label,
            y_label: "tuples of S a second",
            line: "algorithm",
            x_scale,
            scale: Axes::Linear,
        },
    }
}

pub(super) const FIG15: Experiment = Experiment {
    name: "joins/fig15",
    title: "Figure 15: size of the relations, |R| = |S|",
    shows: &[
        "Both sides grow together. The paper goes on to relations that are many times as large, for which radix needs more passes; \
         no size here needs a second one.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Join,
        axes: &[
            THREE,
            (
                "relations",
                &["B/64", "B/32", "B/16", "B/8", "B/4", "B/2", "B", "2B"],
            ),
        ],
    }],
    plots: &[over(
        "Tuples of S a second",
        "r_tuples",
        "tuples of a side",
        Axes::Logarithmic,
    )],
    checks: &[
        Check {
            what: "radix is ahead of m-way at every size",
            paper: "radix is clearly superior",
            source: ABSTRACT,
            claim: Claim::WORDS.headline(),
            test: ahead(RADIX, M_WAY, &[], Within::Each(1.0, ANY)),
            why: "In the smallest relations threads begin and end for longer than they work.",
        },
        Check {
            what: "the lead of radix gets smaller with size",
            paper: "sort-merge comes near only with very large inputs",
            source: CONCLUSIONS,
            claim: Claim::WORDS,
            test: Test::Growth {
                metric: SPEED,
                over: RADIX,
                under: M_WAY,
                low: &[("relations", "B/16")],
                high: &[("relations", "2B")],
                rows: &[],
                within: Within::Each(0.0, 1.0),
            },
            why: "The sizes at which radix would need another pass are beyond this machine, so its cost does not rise.",
        },
        Check {
            what: "n-part falls behind radix where its table leaves the cache",
            paper: "51 against 93 M tuples a second",
            source: CODE,
            claim: Claim::WORDS,
            test: ahead(
                RADIX,
                N_PART,
                &[("relations", "2B")],
                Within::Each(1.0, ANY),
            ),
            why: "Prefetches hide most of the latency of a miss where memory is not shared by many cores; a last-level cache of hundreds of \
                  megabytes hides the rest.",
        },
        Check {
            what: "a tuple costs radix hardly more in 2B than in B/4",
            paper: "at most a quarter more, from 16 M to 256 M tuples a side",
            source: "our own goal",
            claim: Claim::OWN_GOAL,
            test: ahead(
                &[("relations", "2B")],
                &[("relations", "B/4")],
                RADIX,
                Within::Each(0.8, ANY),
            ),
            why: "A quarter of a small B lies in the last-level cache.",
        },
        Check {
            what: "a tuple costs m-way hardly more in 2B than in B/4",
            paper: "at most a quarter more, from 16 M to 256 M tuples a side",
            source: "our own goal",
            claim: Claim::OWN_GOAL,
            test: ahead(
                &[("relations", "2B")],
                &[("relations", "B/4")],
                M_WAY,
                Within::Each(0.8, ANY),
            ),
            why: "A quarter of a small B lies in the last-level cache.",
        },
    ],
};

pub(super) const FIG16: Experiment = Experiment {
    name: "joins/fig16",
    title: "Figure 16: skew",
    shows: &[
        "Foreign keys follow a Zipf distribution over the keys of R, whose popular ones lie anywhere. Workload B. A partition that skew makes \
         large is cut into units of bounded size, in the hash joins and in the sort-merge joins.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Join,
        axes: &[
            THREE,
            ("relations", &["B"]),
            (
                "zipf",
                &["0", "0.25", "0.5", "0.75", "1", "1.25", "1.5", "1.75"],
            ),
        ],
    }],
    plots: &[over(
        "Tuples of S a second",
        "zipf",
        "exponent of the Zipf distribution",
        Axes::Linear,
    )],
    checks: &[
        Check {
            what: "radix keeps most of its speed at an exponent of 1.25",
            paper: "66 of 113 M tuples for a second of processor time, with its handling of skew",
            source: CODE,
            claim: Claim::WORDS,
            test: ahead(
                &[("zipf", "1.25")],
                &[("zipf", "0")],
                RADIX,
                Within::Each(0.5, ANY),
            ),
            why: "A key that a tenth of S has makes one partition of a tenth of S, which is written by both threads.",
        },
        Check {
            what: "radix stays ahead of m-way whatever the skew",
            paper: "radix is clearly superior",
            source: ABSTRACT,
            claim: Claim::WORDS.headline(),
            test: ahead(RADIX, M_WAY, &[], Within::Each(1.0, ANY)),
            why: "Runs of equal keys are sorted and merged faster than random ones.",
        },
        Check {
            what: "n-part gains from skew, because hot keys are in the cache",
            paper: "from 36 to 50 M tuples for a second of processor time between 0.5 and 1.75",
            source: CODE,
            claim: Claim::WORDS,
            test: ahead(
                &[("zipf", "1.75")],
                &[("zipf", "0.5")],
                N_PART,
                Within::Each(1.0, ANY),
            ),
            why: "A table that is in the cache anyway gains nothing.",
        },
    ],
};

pub(super) const FIG17: Experiment = Experiment {
    name: "joins/fig17",
    title: "Figure 17: threads",
    shows: &[
        "Workload B with 1 to 8 threads. The paper goes to 64; beyond the processors that stand at the foot of the page, more threads \
         only take turns. No statement here is about more cores or about NUMA.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Join,
        axes: &[
            THREE,
            ("relations", &["B"]),
            ("threads", &["1", "2", "4", "8"]),
        ],
    }],
    plots: &[over(
        "Tuples of S a second",
        "threads",
        "threads",
        Axes::Logarithmic,
    )],
    checks: &[
        Check {
            what: "two threads do nearly twice the work of one",
            paper: "speed grows with the cores",
            source: "figure 17",
            claim: Claim::WORDS,
            test: ahead(
                &[("threads", "2")],
                &[("threads", "1")],
                &[],
                Within::Mean(1.5, 2.5),
            ),
            why: "Something else runs on one of the two cores, or both share the bandwidth of one.",
        },
        Check {
            what: "more threads than processors cost little",
            paper: "no more is gained beyond the cores",
            source: "figure 17",
            claim: Claim::WORDS,
            test: Test::Ratio {
                metric: SPEED,
                over: &[("threads", "8")],
                under: &[("threads", "2")],
                rows: &[],
                within: Within::LEVEL,
            },
            why: "On a machine with more processors than two they are used.",
        },
        Check {
            what: "radix is ahead of m-way with any number of threads",
            paper: "radix is clearly superior",
            source: ABSTRACT,
            claim: Claim::WORDS.headline(),
            test: ahead(RADIX, M_WAY, &[], Within::Each(1.0, ANY)),
            why: "Threads that take turns end their phases at different times.",
        },
    ],
};
