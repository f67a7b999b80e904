//! Figure 18: all algorithms side by side; and kernel against kernel, which is a question of SIMD
//! width in the paper.
//!
//! Sort-merge with networks is the paper's own; our default sorts runs by bytes, which no vector
//! instruction speeds up. The second figure has both.

use super::super::experiment::{
    ANY, Axes, Check, Claim, Experiment, Filter, Kind, Plot, Shape, Sweep, Within,
};
use super::{ABSTRACT, CODE, CONCLUSIONS, M_PASS, M_WAY, N_PART, RADIX, SPEED, ahead, speeds};

pub(super) const FIG18: Experiment = Experiment {
    name: "joins/fig18",
    title: "Figure 18: all algorithms",
    shows: &[
        "Both ends of workload A, and workload B. The paper uses 64 threads, this run as many as there are processors.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Join,
        axes: &[
            ("algorithm", &["radix", "n-part", "m-way", "m-pass", "mpsm"]),
            ("relations", &["A m=1", "A m=8", "B"]),
        ],
    }],
    plots: &[speeds("Tuples of S a second", "relations", "algorithm")],
    checks: &[
        Check {
            what: "radix is ahead of m-way on every workload",
            paper: "radix is clearly superior",
            source: ABSTRACT,
            claim: Claim::WORDS.headline(),
            test: ahead(RADIX, M_WAY, &[], Within::Each(1.0, ANY)),
            why: "Small relations in the cache are sorted nearly as fast as they are partitioned.",
        },
        Check {
            what: "m-way is ahead of m-pass on every workload",
            paper: "17.6 against 11.0 M tuples a second on one thread",
            source: CODE,
            claim: Claim::WORDS,
            test: ahead(M_WAY, M_PASS, &[], Within::Each(1.0, ANY)),
            why: "A relation of a few runs is merged in a pass or two.",
        },
        Check {
            what: "hash joins are ahead of sort-merge joins",
            paper: "hash-based joins keep an edge",
            source: CONCLUSIONS,
            claim: Claim::WORDS.headline(),
            test: ahead(N_PART, M_PASS, &[], Within::Mean(1.0, ANY)),
            why: "One table that is larger than the cache costs a miss for each tuple of S.",
        },
        Check {
            what: "radix is ahead of n-part on B",
            paper: "93 against 51 M tuples a second",
            source: CODE,
            claim: Claim::WORDS,
            test: ahead(RADIX, N_PART, &[("relations", "B")], Within::Each(1.0, ANY)),
            why: "At this size the table of n-part, an array of dense keys, nearly fits the cache.",
        },
    ],
};

const NETWORKS: Filter = &[("algorithm", "m-way"), ("run-sort", "network")];

/// Speeds of one algorithm by kernel.
const fn by_kernel(caption: &'static str, rows: Filter) -> Plot {
    Plot {
        caption,
        rows,
        shape: Shape::Bars {
            metric: SPEED,
            group: "tuple",
            bar: "kernel",
            scale: Axes::Linear,
        },
    }
}

pub(super) const KERNELS: Experiment = Experiment {
    name: "joins/kernels",
    title: "Kernel against kernel",
    shows: &[
        "The same joins of workload B with AVX-512, AVX2 and plain Rust, on tuples of 8 and 16 bytes. A kernel that the processor lacks is left out. \
         The claim that the paper refutes is that wider vectors put sort-merge ahead.",
    ],
    sweeps: &[
        Sweep {
            kind: Kind::Join,
            axes: &[
                ("algorithm", &["radix", "n-part"]),
                ("relations", &["B"]),
                ("kernel", &["avx512", "avx2", "portable"]),
                ("tuple", &["8", "16"]),
            ],
        },
        Sweep {
            kind: Kind::Join,
            axes: &[
                ("algorithm", &["m-way"]),
                ("relations", &["B"]),
                ("kernel", &["avx512", "avx2", "portable"]),
                ("tuple", &["8", "16"]),
                ("run-sort", &["radix", "network"]),
            ],
        },
    ],
    plots: &[
        by_kernel("radix: tuples of S a second, by bytes of a tuple", RADIX),
        by_kernel("n-part: tuples of S a second, by bytes of a tuple", N_PART),
        by_kernel(
            "m-way, runs sorted by bytes: tuples of S a second, by bytes of a tuple",
            &[("algorithm", "m-way"), ("run-sort", "radix")],
        ),
        by_kernel(
            "m-way, runs sorted by networks: tuples of S a second, by bytes of a tuple",
            NETWORKS,
        ),
    ],
    checks: &[
        Check {
            what: "networks on 8-byte tuples gain from AVX2",
            paper: "vector minima and shuffles are what makes sorting fast",
            source: "its part on sorting",
            claim: Claim::WORDS,
            test: ahead(
                &[("kernel", "avx2")],
                &[("kernel", "portable")],
                &[
                    ("algorithm", "m-way"),
                    ("run-sort", "network"),
                    ("tuple", "8"),
                ],
                Within::Each(1.0, ANY),
            ),
            why: "AVX2 has no minimum of 64-bit integers, so each is a comparison and a blend, and plain Rust sorts without branches as well.",
        },
        Check {
            what: "networks gain again from AVX-512",
            paper: "wider vectors help sort-merge",
            source: ABSTRACT,
            claim: Claim::WORDS,
            test: ahead(
                &[("kernel", "avx512")],
                &[("kernel", "avx2")],
                &[
                    ("algorithm", "m-way"),
                    ("run-sort", "network"),
                    ("tuple", "8"),
                ],
                Within::Each(1.0, ANY),
            ),
            why: "Our networks work on vectors of four tuples; AVX-512 gives them a minimum, not more width.",
        },
        Check {
            what: "streaming stores of whole lines help radix",
            paper: "software-managed buffers",
            source: "its part on hash joins",
            claim: Claim::WORDS,
            test: ahead(
                &[("kernel", "avx2")],
                &[("kernel", "portable")],
                RADIX,
                Within::AHEAD,
            ),
            why: "Relations that fit the cache are not streamed past it.",
        },
        Check {
            what: "runs sorted by bytes are ahead of networks",
            paper: "networks are its subject",
            source: "not the paper: newer results",
            claim: Claim::OWN_GOAL,
            test: ahead(
                &[("run-sort", "radix")],
                &[("run-sort", "network")],
                M_WAY,
                Within::AHEAD,
            ),
            why: "Half of what m-way does is partitioning, which both share.",
        },
    ],
};
