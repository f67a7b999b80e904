//! Figure 16: transactions a second and dollar, over the price of the memory.
//!
//! It needs only one run of each scheme: prices are applied to the measured throughput and to the
//! space in use at the end of the run. They are options of the lab, with the paper's as defaults.

use super::super::experiment::{
    ANY, Axes, Axis, Check, Claim, Experiment, Filter, Kind, Plot, Shape, Sweep, Test, Within,
};
use super::POOL;

const VALUE: &str = "txn_per_s_per_dollar";
const BASE: Filter = &[("scheme", "nv-disk"), ("placement", "all-in-nvm")];
const NV_LOGGING: Filter = &[
    ("scheme", "flush-on-insert"),
    ("placement", "db-ssd-log-nvm"),
];
const RATIO: Axis = (
    "price-ratio",
    &["1", "2", "4", "8", "16", "24", "32", "64", "128", "256"],
);

const fn a_dollar(rows: Filter, within: Within) -> Test {
    Test::Ratio {
        metric: VALUE,
        over: NV_LOGGING,
        under: BASE,
        rows,
        within,
    }
}

pub(super) const FIG16: Experiment = Experiment {
    name: "nv-logging/fig16",
    title: "Figure 16: transactions a second and dollar, over the price of the memory",
    shows: &[
        "TPC-C, 2 threads. A scheme pays for its page cache as DRAM (5.5 dollars a gigabyte), for pages and log by where they lie: on the disk (0.05 dollars, the \
         paper's price of a hard disk) or in memory, whose price is the multiple of the disk's that the plot goes over. The paper takes 24 for likely. \
         `--dram-price` and `--disk-price` change them, without another run.",
        "Bytes are those in use at the end of the run. Rings are as large in relation to the data as the paper's 80 MB to 9 GB; but a ring has a least size, \
         which weighs more in a small database.",
    ],
    sweeps: &[
        Sweep {
            kind: Kind::Priced,
            axes: &[
                ("workload", &["tpcc"]),
                (
                    "placement",
                    &[
                        "all-in-nvm",
                        "db-nvm-log-ssd",
                        "db-ssd-log-nvm",
                        "all-on-ssd",
                    ],
                ),
                POOL,
                ("ring-share", &["0.009"]),
                ("slowdown", &["1"]),
                ("threads", &["2"]),
                ("scheme", &["nv-disk"]),
                RATIO,
            ],
        },
        Sweep {
            kind: Kind::Priced,
            axes: &[
                ("workload", &["tpcc"]),
                ("placement", &["db-ssd-log-nvm"]),
                POOL,
                ("ring-share", &["0.009"]),
                ("slowdown", &["1"]),
                ("threads", &["2"]),
                (
                    "scheme",
                    &["flush-on-insert", "flush-on-commit", "distributed-log"],
                ),
                RATIO,
            ],
        },
    ],
    plots: &[Plot {
        caption: "TPC-C, transactions a second and dollar",
        rows: &[],
        shape: Shape::Lines {
            metric: VALUE,
            x: "price-ratio",
            x_label: "price of NVM as a multiple of the disk's",
            y_label: "txn/s/$",
            line: "scheme+placement",
            x_scale: Axes::Logarithmic,
            scale: Axes::Logarithmic,
        },
    }],
    checks: &[
        Check {
            what: "only the log in memory gives more for a dollar than all in memory",
            paper: "2.61–6.72x",
            source: "6.6",
            claim: Claim::NUMBERS.headline(),
            test: a_dollar(&[], Within::Mean(2.61, 6.72)),
            why: "Where memory costs what the disk does, only throughput counts, and the database on the drive is the slower one.",
        },
        Check {
            what: "and more than a log that sessions share, with as much memory",
            paper: "21.13 % more",
            source: "6.6",
            claim: Claim::NUMBERS,
            test: Test::Ratio {
                metric: VALUE,
                over: &[("scheme", "flush-on-insert")],
                under: &[("scheme", "distributed-log")],
                rows: &[("price-ratio", "24"), ("placement", "db-ssd-log-nvm")],
                within: Within::Each(1.211, 1.212),
            },
            why: "Two running threads seldom meet in one of sixteen rings.",
        },
        Check {
            what: "the lead grows with the price of the memory",
            paper: "grows with the ratio",
            source: "figure 16",
            claim: Claim::WORDS,
            test: Test::Growth {
                metric: VALUE,
                over: NV_LOGGING,
                under: BASE,
                low: &[("price-ratio", "1")],
                high: &[("price-ratio", "256")],
                rows: &[],
                within: Within::Each(1.0, ANY),
            },
            why: "The rings of the log have a least size and take as much memory as a small database.",
        },
        Check {
            what: "also at the price that the paper takes for likely",
            paper: "2.61–6.72x",
            source: "6.6",
            claim: Claim::NUMBERS,
            test: a_dollar(&[("price-ratio", "24")], Within::Each(2.61, 6.72)),
            why: "The page cache is most of the cost of both, and the database on the drive is the slower one.",
        },
    ],
};
