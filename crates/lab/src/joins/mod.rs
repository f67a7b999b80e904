//! The experiments of "Multi-Core, Main-Memory Joins: Sort vs. Hash Revisited", PVLDB 7(1), 2013.
//!
//! Each file has experiments as data. The paper's figures are plots without printed values. So the
//! checks compare the orders and trends that its abstract and its conclusions state, and ratios of
//! its published code on a machine of two cores, which we ran once and quote as such.
//!
//! | file | figures |
//! |---|---|
//! | `breakdown` | 11, and sort or hash: where the time goes |
//! | `sweeps` | 15 to 17: size, skew, threads |
//! | `compared` | 18: all algorithms; kernel against kernel |
//!
//! Relations are named by the paper's workloads: `A m=8` is |S| = 8 x |R|, `B/4` is a quarter of B
//! on both sides. `size` has their numbers of tuples.

mod breakdown;
mod compared;
mod sweeps;

use super::experiment::{Axes, Filter, Paper, Plot, Shape, Table, Test, Within};
use super::size::Size;

/// The paper.
pub(super) const PAPER: Paper = Paper {
    name: "joins",
    title: "Joins: sort against hash in main memory",
    lead: "The experiments of the VLDB 2013 paper, run again with this library: every figure beside what the paper says of it. Absolute \
           numbers are not compared, ratios are. Every result was checked: the number of pairs and the sums of their payloads.",
    compared: Table {
        heading: "The algorithms",
        header: &["Algorithm", "R", "S", "Join"],
        rows: ALGORITHMS,
    },
    experiments: &[
        &breakdown::FIG11,
        &breakdown::PHASES,
        &sweeps::FIG15,
        &sweeps::FIG16,
        &sweeps::FIG17,
        &compared::FIG18,
        &compared::KERNELS,
    ],
    describe: Size::describe_joins,
};

const ALGORITHMS: &[&[&str]] = &[
    &[
        "radix",
        "partitioned by key bits until a table of a partition fits the cache",
        "partitioned alike",
        "a table for each partition of R, probed by that of S",
    ],
    &[
        "n-part",
        "one table for all of it",
        "stays as it is",
        "lookups in batches, with prefetches",
    ],
    &[
        "m-way",
        "partitioned by ranges of keys, each sorted; runs merged all at once",
        "alike",
        "sorted ranges, side by side",
    ],
    &[
        "m-pass",
        "the same in few coarse ranges; runs merged two at a time, in passes",
        "alike",
        "sorted ranges, side by side",
    ],
    &[
        "mpsm",
        "partitioned by ranges of keys, each sorted",
        "a private sorted run of each thread",
        "each range of R with its part of every run",
    ],
];

/// No upper bound.
/// By the wall clock: an algorithm that leaves a thread idle is slower.
const SPEED: &str = "tuples_per_s";

/// Bars of speeds, a group for each pair of relations.
const fn speeds(caption: &'static str, group: &'static str, bar: &'static str) -> Plot {
    Plot {
        caption,
        rows: &[],
        shape: Shape::Bars {
            metric: SPEED,
            group,
            bar,
            scale: Axes::Linear,
        },
    }
}

/// Speed of one algorithm divided by that of another.
const fn ahead(over: Filter, under: Filter, rows: Filter, within: Within) -> Test {
    Test::ratio(SPEED, (over, under), rows, within)
}

const RADIX: Filter = &[("algorithm", "radix")];
const N_PART: Filter = &[("algorithm", "n-part")];
const M_WAY: Filter = &[("algorithm", "m-way")];
const M_PASS: Filter = &[("algorithm", "m-pass")];
const MPSM: Filter = &[("algorithm", "mpsm")];

/// Sources of a statement: the paper itself, or a run of its code.
const ABSTRACT: &str = "abstract";
const CONCLUSIONS: &str = "conclusions";
const CODE: &str = "its published code on two cores, 128 M tuples a side";
