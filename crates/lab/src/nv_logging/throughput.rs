//! Figures 12 to 14: throughput over threads, over the slowdown of writes, and over the latency of
//! the memory.
//!
//! A slowdown of n adds n - 1 times 160 ns, the emulator's latency of DRAM, to the write-back of
//! each flushed line. So with a slowdown of eight a log record of a few lines waits for one to
//! eight microseconds, as on the paper's first machine. The memory of its second machine is slower
//! in both directions: there reads that miss the cache have the whole latency as well.

use super::super::experiment::{
    Axes, Check, Claim, Experiment, Filter, Kind, Plot, Shape, Sweep, Test, Within,
};
use super::super::paged::{POOL_ALL, SPEED, faster, over};
use super::{
    COMMIT, DECENTRALIZED, DISK, DISK_SYNC, DISTRIBUTED, INSERT, SCHEME, SLOWDOWN, SOME_THREADS,
    THREADS,
};

const PLACED: super::Axis = ("placement", &["db-ssd-log-nvm"]);

const SETTING: &str = "All data are in the page cache: pages on the imitated flash drive, which a thread waits for by spinning, would hide the log. Logs lie in \
    the imitated memory, in files or in memory as the scheme has it. On two cores more than two threads add nothing but turns.";
const CORES: &str = "What the paper's scheme saves is contention for the log's lock, and two cores have little of it. What it costs is the same anywhere: a fence a \
    record, where a central log copies records into a buffer and writes a group at once; and the device's model itself takes time for each line.";

pub(super) const FIG12: Experiment = Experiment {
    name: "nv-logging/fig12",
    title: "Figure 12: TPC-C over threads and slower writes",
    shows: &[SETTING, CORES],
    sweeps: &[
        Sweep {
            kind: Kind::Paged,
            axes: &[
                ("workload", &["tpcc"]),
                PLACED,
                POOL_ALL,
                ("slowdown", &["1", "8"]),
                THREADS,
                SCHEME,
            ],
        },
        Sweep {
            kind: Kind::Paged,
            axes: &[
                ("workload", &["tpcc"]),
                PLACED,
                POOL_ALL,
                ("slowdown", &["2", "4"]),
                SOME_THREADS,
                SCHEME,
            ],
        },
    ],
    plots: &[
        over(
            "DRAM's write latency",
            "threads",
            "threads",
            &[("slowdown", "1")],
        ),
        over(
            "Writes eight times slower",
            "threads",
            "threads",
            &[("slowdown", "8")],
        ),
        over(
            "4 threads",
            "slowdown",
            "slowdown of writes",
            &[("threads", "4")],
        ),
    ],
    checks: &[
        Check {
            what: "flush-on-insert is ahead of a central log in files",
            paper: "1.62–2.72x",
            source: "6.3",
            claim: Claim::NUMBERS.headline(),
            test: faster(INSERT, DISK, &[], Within::Mean(1.62, 2.72)),
            why: "A commit that is acknowledged early waits for no fence at all.",
        },
        Check {
            what: "and of one whose commits are durable, as its own are",
            paper: "not shown; asynchronous commits are 1.62–2.72x behind",
            source: "6.3",
            claim: Claim::OWN_GOAL,
            test: faster(INSERT, DISK_SYNC, &[], Within::AHEAD),
            why: "A group of commits shares one sync of a central log; a fence is shared by nobody.",
        },
        Check {
            what: "and of several logs that sessions share",
            paper: "1.09–1.27x",
            source: "6.3",
            claim: Claim::NUMBERS,
            test: faster(INSERT, DISTRIBUTED, &[], Within::Mean(1.09, 1.27)),
            why: "Two running threads seldom meet in one of sixteen rings, and the fences of a group are fewer than those of its records.",
        },
        Check {
            what: "a buffer a session is behind a central one if both write files",
            paper: "behind in TPC-C",
            source: "6.3",
            claim: Claim::WORDS,
            test: faster(DECENTRALIZED, DISK, &[], Within::LESS),
            why: "Nobody waits for the files of other sessions while commits are acknowledged early.",
        },
        Check {
            what: "with writes eight times slower, flush-on-commit is ahead of flush-on-insert",
            paper: "7.89–13.79 %",
            source: "6.3",
            claim: Claim::NUMBERS,
            test: faster(
                COMMIT,
                INSERT,
                &[("slowdown", "8")],
                Within::Mean(1.0789, 1.1379),
            ),
            why: "A daemon makes records durable while their transactions go on, on a core that nobody else needs. With more threads than cores there is none, \
                  and commits do most of it.",
        },
        Check {
            what: "flush-on-commit hardly feels how slow writes are",
            paper: "a consistent level",
            source: "6.3",
            claim: Claim::WORDS,
            test: faster(
                &[("slowdown", "8")],
                &[("slowdown", "1")],
                COMMIT,
                Within::LEVEL,
            ),
            why: "What the daemon has not written back is waited for at the end of a commit, by the thread that commits.",
        },
    ],
};

const fn stated(
    claim: Claim,
    test: Test,
    what: &'static str,
    paper: &'static str,
    why: &'static str,
) -> Check {
    Check {
        what,
        paper,
        source: "6.3",
        claim,
        test,
        why,
    }
}

const TATP: Filter = &[("workload", "tatp")];
const TPCB: Filter = &[("workload", "tpcb")];
const TPCC: Filter = &[("workload", "tpcc")];

pub(super) const FIG13: Experiment = Experiment {
    name: "nv-logging/fig13",
    title: "Figure 13: TATP and TPC-B with slower writes",
    shows: &[
        SETTING,
        CORES,
        "The paper shows larger numbers of threads only, and says that smaller ones have the same trends.",
    ],
    sweeps: &[
        Sweep {
            kind: Kind::Paged,
            axes: &[
                ("workload", &["tatp", "tpcb"]),
                PLACED,
                POOL_ALL,
                SLOWDOWN,
                SOME_THREADS,
                SCHEME,
            ],
        },
        Sweep {
            kind: Kind::Paged,
            axes: &[
                ("workload", &["tpcc"]),
                PLACED,
                POOL_ALL,
                ("slowdown", &["1", "8"]),
                SOME_THREADS,
                SCHEME,
            ],
        },
    ],
    plots: &[
        over("TATP", "slowdown", "slowdown of writes", TATP),
        over("TPC-B", "slowdown", "slowdown of writes", TPCB),
    ],
    checks: &[
        stated(
            Claim::NUMBERS.headline(),
            faster(INSERT, DISK, TATP, Within::Mean(1.1, 1.62)),
            "TATP: flush-on-insert is ahead of a central log in files",
            "1.10–1.62x",
            "Four transactions in five only read, and the others log little.",
        ),
        stated(
            Claim::NUMBERS.headline(),
            faster(INSERT, DISK, TPCB, Within::Mean(1.26, 1.99)),
            "TPC-B: flush-on-insert is ahead of a central log in files",
            "1.26–1.99x",
            "A transaction is short, so its few fences are much of it.",
        ),
        stated(
            Claim::NUMBERS,
            faster(
                COMMIT,
                INSERT,
                &[("workload", "tatp"), ("slowdown", "8")],
                Within::Mean(1.0, 1.2432),
            ),
            "TATP: with slow writes flush-on-commit is ahead of flush-on-insert",
            "up to 24.32 %",
            "A transaction that changes something has one or two records before its commit, so there is little to put off.",
        ),
        stated(
            Claim::OWN_GOAL,
            faster(INSERT, DISK_SYNC, &[], Within::AHEAD),
            "flush-on-insert is ahead of a central log whose commits are durable, over all three",
            "not shown; asynchronous commits are behind",
            "A sync of a file in memory is a copy and some fences, and a group shares it.",
        ),
        stated(
            Claim::NUMBERS,
            faster(
                COMMIT,
                INSERT,
                &[("workload", "tpcb"), ("slowdown", "8")],
                Within::Mean(1.0, 1.2918),
            ),
            "TPC-B: with slow writes flush-on-commit is ahead of flush-on-insert",
            "up to 29.18 %",
            "A commit waits for the write-backs that the daemon has not done, all of them where no core is free for it.",
        ),
        stated(
            Claim::NUMBERS,
            Test::Growth {
                metric: SPEED,
                over: INSERT,
                under: DISK,
                low: TATP,
                high: TPCC,
                rows: &[],
                within: Within::Mean(1.0, 2.47),
            },
            "the lead over a central log is greater in TPC-C than in TATP",
            "1.62–2.72x against 1.10–1.62x",
            "A transaction of TPC-C is mostly work on rows and trees.",
        ),
    ],
};

const PLAIN: Filter = &[("locking", "plain")];
const OPTIMIZED: Filter = &[("locking", "optimized")];
const TATP_PLAIN: Filter = &[("workload", "tatp"), ("locking", "plain")];
const TATP_OPTIMIZED: Filter = &[("workload", "tatp"), ("locking", "optimized")];
const TPCB_PLAIN: Filter = &[("workload", "tpcb"), ("locking", "plain")];
const TPCB_OPTIMIZED: Filter = &[("workload", "tpcb"), ("locking", "optimized")];

const LOCKS: &str = "On two cores threads seldom meet in the lock manager, and a thread that loses its core keeps its locks.";

pub(super) const LOCKING: Experiment = Experiment {
    name: "nv-logging/locking",
    title: "Figures 12 and 13, with and without optimised locking",
    shows: &[
        SETTING,
        "\"OL\" in the paper's figures: intention locks stay with their session between transactions, and locks are free before a commit is durable. It is ours \
         by default; `--locking plain` has neither.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Paged,
        axes: &[
            ("workload", &["tpcc", "tatp", "tpcb"]),
            PLACED,
            POOL_ALL,
            ("slowdown", &["1", "8"]),
            SOME_THREADS,
            ("locking", &["optimized", "plain"]),
            (
                "scheme",
                &[
                    "nv-disk",
                    "distributed-log",
                    "flush-on-insert",
                    "flush-on-commit",
                ],
            ),
        ],
    }],
    plots: &[
        by_locking("TPC-C, DRAM's write latency, txn/s", TPCC_1),
        by_locking("TATP, DRAM's write latency, txn/s", TATP_1),
        by_locking("TPC-B, DRAM's write latency, txn/s", TPCB_1),
    ],
    checks: &[
        stated(
            Claim::NUMBERS,
            faster(INSERT, DISK, TATP_PLAIN, Within::Mean(1.12, 1.62)),
            "TATP, plain locking: flush-on-insert is ahead of a central log in files",
            "1.12–1.62x",
            LOCKS,
        ),
        stated(
            Claim::NUMBERS,
            faster(INSERT, DISK, TATP_OPTIMIZED, Within::Mean(1.1, 1.38)),
            "TATP, optimised locking: flush-on-insert is ahead of a central log in files",
            "1.10–1.38x",
            LOCKS,
        ),
        stated(
            Claim::NUMBERS,
            faster(INSERT, DISTRIBUTED, TATP, Within::Mean(1.0894, 1.1097)),
            "TATP: flush-on-insert is ahead of a log that sessions share",
            "8.94–10.97 %",
            LOCKS,
        ),
        stated(
            Claim::NUMBERS,
            faster(INSERT, DISK, TPCB_PLAIN, Within::Mean(1.26, 1.69)),
            "TPC-B, plain locking: flush-on-insert is ahead of a central log in files",
            "1.26–1.69x",
            LOCKS,
        ),
        stated(
            Claim::NUMBERS,
            faster(INSERT, DISK, TPCB_OPTIMIZED, Within::Mean(1.43, 1.99)),
            "TPC-B, optimised locking: flush-on-insert is ahead of a central log in files",
            "1.43–1.99x",
            LOCKS,
        ),
        stated(
            Claim::NUMBERS,
            faster(
                INSERT,
                DISTRIBUTED,
                TPCB_OPTIMIZED,
                Within::Mean(1.15, 1.21),
            ),
            "TPC-B, optimised locking: flush-on-insert is ahead of a log that sessions share",
            "1.15–1.21x",
            LOCKS,
        ),
        stated(
            Claim::WORDS,
            faster(OPTIMIZED, PLAIN, TATP, Within::AHEAD),
            "TATP: optimised locking makes every scheme faster",
            "the performance of both is increased",
            LOCKS,
        ),
    ],
};

const TPCC_1: Filter = &[("workload", "tpcc"), ("slowdown", "1")];
const TATP_1: Filter = &[("workload", "tatp"), ("slowdown", "1")];
const TPCB_1: Filter = &[("workload", "tpcb"), ("slowdown", "1")];

const fn by_locking(caption: &'static str, rows: Filter) -> Plot {
    Plot {
        caption,
        rows,
        shape: Shape::Bars {
            metric: SPEED,
            group: "locking",
            bar: "scheme",
            scale: Axes::Linear,
        },
    }
}

pub(super) const FIG14: Experiment = Experiment {
    name: "nv-logging/fig14",
    title: "Figure 14: TATP and TPC-B over the latency of the memory",
    shows: &[
        SETTING,
        CORES,
        "On the paper's second machine the files of a central log lie in PMFS; here in a file system whose copies and flushes are charged to the memory.",
    ],
    sweeps: &[Sweep {
        kind: Kind::Paged,
        axes: &[
            ("workload", &["tatp", "tpcb"]),
            PLACED,
            POOL_ALL,
            ("latency-ns", &["160", "300", "500"]),
            SOME_THREADS,
            SCHEME,
        ],
    }],
    plots: &[
        over("TATP", "latency-ns", "latency, ns", TATP),
        over("TPC-B", "latency-ns", "latency, ns", TPCB),
    ],
    checks: &[
        Check {
            what: "TATP: flush-on-insert is ahead of a central log in files",
            paper: "1.21–3.17x",
            source: "6.4",
            claim: Claim::NUMBERS.headline(),
            test: faster(INSERT, DISK, TATP, Within::Mean(1.21, 3.17)),
            why: "Pages are in DRAM in every scheme, and most transactions only read them.",
        },
        Check {
            what: "TPC-B: flush-on-insert is far ahead of a central log in files",
            paper: "3.86–6.71x",
            source: "6.4",
            claim: Claim::NUMBERS.headline(),
            test: faster(INSERT, DISK, TPCB, Within::Mean(3.86, 6.71)),
            why: "The central log acknowledges early, so none of its writes to memory is waited for.",
        },
        Check {
            what: "the lead is greater in TPC-B than in TATP",
            paper: "3.86–6.71x against 1.21–3.17x",
            source: "6.4",
            claim: Claim::NUMBERS,
            test: Test::Growth {
                metric: SPEED,
                over: INSERT,
                under: DISK,
                low: TATP,
                high: TPCB,
                rows: &[],
                within: Within::Mean(1.22, 5.55),
            },
            why: "In neither is the log much of the time.",
        },
        Check {
            what: "at 500 ns flush-on-insert is not much slower than at DRAM's latency",
            paper: "does not drop dramatically",
            source: "6.4",
            claim: Claim::WORDS,
            test: faster(
                &[("latency-ns", "500")],
                &[("latency-ns", "160")],
                INSERT,
                Within::LEVEL,
            ),
            why: "Each line of a record adds 340 ns to the fence behind it, which the thread waits for.",
        },
    ],
};
