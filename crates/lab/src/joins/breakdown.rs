//! Figure 11 and "sort or hash?": the cycles of each phase of the algorithms.
//!
//! Cycles are those of the wall clock for a tuple of S, divided by phase as the library times them.
//! `m-way` and `m-pass` do some phases range by range in the cache; these are divided in proportion
//! to the clocks of the threads.

use super::super::experiment::{
    ANY, Check, Claim, Experiment, Filter, Kind, Plot, Shape, Sweep, Test, Unit, Within,
};
use super::{ABSTRACT, CODE, CONCLUSIONS, M_PASS, M_WAY, MPSM, RADIX, SPEED, ahead, speeds};

const WORKLOAD_A: &[&str] = &["A m=1", "A m=2", "A m=4", "A m=8"];

/// Cycles by phase, a bar for each value of a parameter.
const fn cycles(caption: &'static str, bar: &'static str, rows: Filter) -> Plot {
    Plot {
        caption,
        rows,
        shape: Shape::Stack {
            bar,
            pieces: &[
                ("partition_cycles", "partition"),
                ("sort_cycles", "sort"),
                ("merge_cycles", "merge"),
                ("join_cycles", "join"),
                ("other_cycles", "other"),
            ],
            unit: Unit::Plain,
        },
    }
}

pub(super) const FIG11: Experiment = Experiment {
    name: "joins/fig11",
    title: "Figure 11: sort-merge joins over |S| = m x |R|",
    shows: &[
        "The paper has 1600 M tuples in R and up to eight times as many in S, and 64 threads. Here R is smaller by the factor that stands \
         at the foot of the page. Runs are sorted by radix sort, not by networks: see kernel against kernel.",
        "m-way partitions into ranges that fit the cache, so there is nothing left to merge; m-pass does what merging costs instead.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Join,
        axes: &[
            ("algorithm", &["m-way", "m-pass", "mpsm"]),
            ("relations", WORKLOAD_A),
        ],
    }],
    plots: &[
        speeds("Tuples of S a second", "relations", "algorithm"),
        cycles("m-way: cycles for a tuple of S", "relations", M_WAY),
        cycles("m-pass: cycles for a tuple of S", "relations", M_PASS),
        cycles("mpsm: cycles for a tuple of S", "relations", MPSM),
    ],
    checks: &[
        Check {
            what: "m-way is ahead of m-pass",
            paper: "17.6 against 11.0 M tuples a second on one thread, 13.9 against 11.0 on two",
            source: CODE,
            claim: Claim::WORDS,
            test: ahead(M_WAY, M_PASS, &[], Within::AHEAD),
            why: "Where both sides are small, few passes are left to be saved.",
        },
        Check {
            what: "m-way is not behind mpsm",
            paper: "m-way is the one that it compares with radix",
            source: "figures 15 to 17",
            claim: Claim::WORDS,
            test: ahead(M_WAY, MPSM, &[], Within::AHEAD),
            why: "mpsm pays for reading R once for each run of S, and there are as many runs as threads: two here, 64 in the paper.",
        },
        Check {
            what: "sorting and merging take most of what m-pass does",
            paper: "the plot divides a join by phase, without numbers",
            source: "figure 11",
            claim: Claim::WORDS,
            test: Test::Value {
                metric: "sort_merge_percent",
                rows: M_PASS,
                within: Within::Mean(50.0, 100.0),
            },
            why: "Radix-sorted runs take about a third of the time that networks take.",
        },
        Check {
            what: "a larger S makes a tuple of S cheaper, because R is shared by more of them",
            paper: "throughput counts tuples of S only",
            source: "figure 11",
            claim: Claim::WORDS,
            test: Test::Ratio {
                metric: SPEED,
                over: &[("relations", "A m=8")],
                under: &[("relations", "A m=1")],
                rows: &[],
                within: Within::AHEAD,
            },
            why: "A small S fits the cache, a large one does not.",
        },
    ],
};

pub(super) const PHASES: Experiment = Experiment {
    name: "joins/phases",
    title: "Sort or hash, by phases",
    shows: &[
        "The better sort-merge join beside the better hash join, on both workloads. The paper's code partitions in two passes by default; \
         here one is enough. What radix joins has the tables in it that it builds for that.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Join,
        axes: &[
            ("algorithm", &["radix", "m-way"]),
            ("relations", &["A m=1", "A m=8", "B"]),
        ],
    }],
    plots: &[
        cycles(
            "A, |S| = |R|: cycles for a tuple of S",
            "algorithm",
            &[("relations", "A m=1")],
        ),
        cycles(
            "A, |S| = 8 x |R|: cycles for a tuple of S",
            "algorithm",
            &[("relations", "A m=8")],
        ),
        cycles(
            "B: cycles for a tuple of S",
            "algorithm",
            &[("relations", "B")],
        ),
    ],
    checks: &[
        Check {
            what: "radix takes fewer cycles than m-way on every workload",
            paper: "radix is clearly superior",
            source: ABSTRACT,
            claim: Claim::WORDS.headline(),
            test: ahead(RADIX, M_WAY, &[], Within::Each(1.0, ANY)),
            why: "Where R's tables fit the cache, partitioning is most of both, and it is the same code.",
        },
        Check {
            what: "partitioning is the largest part of radix",
            paper: "0.54 of 0.74 s in a trial of 200 lines",
            source: "our own, two cores, 128 M tuples a side",
            claim: Claim::OWN_GOAL,
            test: Test::Value {
                metric: "partition_percent",
                rows: RADIX,
                within: Within::Mean(50.0, 100.0),
            },
            why: "Dense keys make arrays of the tables, which are cheap only while they fit the cache.",
        },
        Check {
            what: "sorting is what m-way pays beside it",
            paper: "hash joins keep an edge",
            source: CONCLUSIONS,
            claim: Claim::OWN_GOAL,
            test: Test::Value {
                metric: "sort_merge_percent",
                rows: M_WAY,
                within: Within::Mean(20.0, 80.0),
            },
            why: "A radix sort in the cache costs about as much as a pass over memory.",
        },
    ],
};
