//! Ablations: runs without the cause that is given for a difference.
//!
//! Where a statement of a paper differs, or is undecided, the report names a cause. An ablation
//! takes that cause away with options of `indelible bench` and measures the points of the statement
//! again, all of them in the same rounds. If the statement agrees then, the cause is proven; if it
//! does not, the page says that too. Only statements that need it are measured again.

use super::experiment::{Check, Experiment, Filter, Kind};
use super::experiment::{Parameters, passes};
use super::judge::{Judged, Verdict, judge};
use super::point::Point;
use super::rows::{LabRow, Rows};
use super::size::Size;
use super::variant::{Scope, Variant};
use crate::experiments;

/// Options of `indelible bench` by name; an empty value takes an option away.
pub(crate) type Changes = &'static [(&'static str, &'static str)];

/// Statements, and their cause taken away.
pub(crate) struct Ablation {
    pub(crate) experiments: &'static [&'static str],
    /// The statements, as their checks say them.
    pub(crate) statements: &'static [&'static str],
    /// The setting without the cause, to be read after "with".
    pub(crate) with: &'static str,
    /// Points that pass the filter get the changes.
    changes: &'static [(Filter, Changes)],
}

/// A statement that was judged again without its cause.
pub struct Ablated {
    /// Its place among the checks of the experiment.
    pub(crate) at: usize,
    pub(crate) with: &'static str,
    pub(crate) judged: Judged,
}

const YCSB: &[&str] = &["n-store/fig5", "n-store/fig6", "n-store/fig7"];
const CENTRAL: &str = "durable commits of the central log (--commit synchronous)";
const SYNCHRONOUS: &[(Filter, Changes)] = &[(
    &[("scheme", "nv-disk")],
    &[("commit", "synchronous"), ("group", "1")],
)];

/// All ablations.
pub(crate) const ALL: &[Ablation] = &[
    Ablation {
        experiments: YCSB,
        statements: &[
            "read-heavy, nvm-inp is ahead of inp",
            "balanced, nvm-inp is ahead of inp",
            "write-heavy, nvm-inp is ahead of inp",
        ],
        with: "a sync a transaction (inp --group 1)",
        changes: &[(&[("method", "inp")], &[("group", "1")])],
    },
    Ablation {
        experiments: YCSB,
        statements: &[
            "balanced, nvm-log is ahead of log",
            "write-heavy, nvm-log is ahead of log",
        ],
        with: "a sync a transaction (log --group 1)",
        changes: &[(&[("method", "log")], &[("group", "1")])],
    },
    Ablation {
        experiments: YCSB,
        statements: &["reading only, nvm-cow is ahead of cow"],
        with: "a page cache of 256 KiB a partition (cow --page-cache 262144)",
        changes: &[(&[("method", "cow")], &[("page-cache", "262144")])],
    },
    Ablation {
        experiments: YCSB,
        statements: &[
            "balanced, nvm-cow is far ahead of cow",
            "write-heavy, nvm-cow is far ahead of cow",
        ],
        with: "a sync a transaction (cow --group 1)",
        changes: &[(&[("method", "cow")], &[("group", "1")])],
    },
    Ablation {
        experiments: YCSB,
        statements: &["reading only, nvm-log is ahead of log"],
        with: "MemTables of 64 KiB (--memtable-bytes 65536)",
        changes: &[(&[], &[("memtable-bytes", "65536")])],
    },
    Ablation {
        experiments: YCSB,
        statements: &["reading only, high skew makes nvm-inp faster"],
        with: "a modelled cache of 8 MiB (--cache-bytes 8388608)",
        changes: &[(&[], &[("cache-bytes", "8388608")])],
    },
    Ablation {
        experiments: &["n-store/fig8"],
        statements: &[
            "nvm-inp is ahead of inp",
            "it stays ahead of inp at eight times the latency",
        ],
        with: "a sync a transaction (inp --group 1)",
        changes: &[(&[("method", "inp")], &[("group", "1")])],
    },
    Ablation {
        experiments: &["n-store/fig8"],
        statements: &["nvm-log is ahead of log"],
        with: "a sync a transaction (log --group 1)",
        changes: &[(&[("method", "log")], &[("group", "1")])],
    },
    Ablation {
        experiments: &["nv-logging/fig12"],
        statements: &["flush-on-insert is ahead of a central log in files"],
        with: "5 µs for each access to a file in memory, as in section 3.2 (nv-disk --log-files)",
        changes: &[(
            &[("scheme", "nv-disk")],
            &[("log-files", "none,read=5000,write=5000,sync=5000")],
        )],
    },
    Ablation {
        experiments: &["nv-logging/fig12"],
        statements: &["flush-on-insert is ahead of a central log in files"],
        with: CENTRAL,
        changes: SYNCHRONOUS,
    },
    Ablation {
        experiments: &["nv-logging/fig13", "nv-logging/fig14"],
        statements: &["TATP: flush-on-insert is ahead of a central log in files"],
        with: CENTRAL,
        changes: SYNCHRONOUS,
    },
    Ablation {
        experiments: &["nv-logging/fig13"],
        statements: &["TPC-B: flush-on-insert is ahead of a central log in files"],
        with: CENTRAL,
        changes: SYNCHRONOUS,
    },
    Ablation {
        experiments: &["nv-logging/fig14"],
        statements: &["TPC-B: flush-on-insert is far ahead of a central log in files"],
        with: CENTRAL,
        changes: SYNCHRONOUS,
    },
    Ablation {
        experiments: &["nvram-era/fig5"],
        statements: &[
            "with barriers that cost nothing, in-place is ahead of disk-replacement",
            "with barriers that cost nothing, in-place is ahead of group-commit",
        ],
        with: "this machine's memory, of which nothing is modelled (--device native)",
        changes: &[(
            &[],
            &[
                ("device", "native"),
                ("sync-latency-ns", ""),
                ("loads", ""),
                ("cache-bytes", ""),
            ],
        )],
    },
    Ablation {
        experiments: &["fast-fash/read-latency", "fast-fash/write-latency"],
        statements: &["fash is not behind nvwal"],
        with: "loads of durable memory as free as those of frames (--loads free)",
        changes: &[(&[], &[("loads", "free")])],
    },
    Ablation {
        experiments: &["fast-fash/hybrid"],
        statements: &["memory only is ahead where few pages have a frame"],
        with: "loads of durable memory as free as those of frames (--loads free)",
        changes: &[(&[], &[("loads", "free")])],
    },
];

impl Ablation {
    /// Whether it takes the cause of a statement away.
    fn is_of(&self, experiment: &Experiment, check: &Check) -> bool {
        self.experiments.contains(&experiment.name) && self.statements.contains(&check.what)
    }

    /// The point without the cause.
    fn applied(&self, point: Point) -> Point {
        let changes = self.changes.iter();
        let own = changes.filter(|(filter, _)| passes(&point.parameters, filter));
        let options: Vec<_> = own.flat_map(|(_, changes)| *changes).copied().collect();
        point.without_cause(&options)
    }

    /// The points of a statement without its cause.
    fn points(
        &self,
        experiment: &Experiment,
        check: &Check,
        size: &Size,
        seed: u64,
        variant: Variant,
    ) -> Vec<Point> {
        let points = Point::of(experiment, size, seed, variant);
        let own = points
            .into_iter()
            .filter(|point| check.test.uses(&point.parameters));
        own.map(|point| self.applied(point)).collect()
    }
}

/// The statements of an experiment that do not agree, with their ablations and the points of these.
fn needed(
    experiment: &'static Experiment,
    rows: &Rows,
    (size, seed, variant): (&Size, u64, Variant),
) -> Vec<(usize, &'static Ablation, Vec<Point>)> {
    let (mut own, mut missing) = (Vec::new(), Vec::new());
    for point in Point::of(experiment, size, seed, variant) {
        match rows.find(&point, size) {
            Some(row) => own.push(row),
            None => missing.push(point.parameters),
        }
    }
    let checks = experiment.checks.iter().enumerate();
    let differing = checks.filter(|(_, check)| {
        let verdict = judge(check, &own, &missing).verdict;
        matches!(verdict, Verdict::Differs | Verdict::Undecided)
    });
    let needed = differing.flat_map(|(at, check)| {
        let ablations = ALL.iter().filter(|own| own.is_of(experiment, check));
        ablations.map(move |ablation| {
            let points = ablation.points(experiment, check, size, seed, variant);
            (at, ablation, points)
        })
    });
    needed.collect()
}

/// Points that the ablations of an experiment still need, each once.
pub fn missing(
    experiment: &'static Experiment,
    rows: &Rows,
    of: (&Size, u64, Variant),
) -> Vec<Point> {
    let mut known = std::collections::HashSet::new();
    let needed = needed(experiment, rows, of).into_iter();
    let points = needed.flat_map(|(_, _, points)| points);
    let missing =
        points.filter(|point| known.insert(point.configuration(of.0)) && !rows.has(point, of.0));
    missing.collect()
}

/// The statements of an experiment that were measured without their cause.
pub fn ablated(
    experiment: &'static Experiment,
    rows: &Rows,
    of: (&Size, u64, Variant),
) -> Vec<Ablated> {
    let needed = needed(experiment, rows, of).into_iter();
    let ablated = needed.filter_map(|(at, ablation, points)| {
        let own: Option<Vec<&LabRow>> = points.iter().map(|point| rows.find(point, of.0)).collect();
        Some(Ablated {
            at,
            with: ablation.with,
            judged: judge(experiment.checks.get(at)?, &own?, &[]),
        })
    });
    ablated.collect()
}

/// The points of all ablations.
pub fn all_points(size: &Size, seed: u64, variant: Variant) -> Vec<Point> {
    let mut points = Vec::new();
    for ablation in ALL {
        for experiment in experiments() {
            let own = experiment.checks.iter();
            for check in own.filter(|check| ablation.is_of(experiment, check)) {
                points.extend(ablation.points(experiment, check, size, seed, variant));
            }
        }
    }
    points.retain(|point| point.scope == Scope::Ablation);
    points
}

/// The point of a row that an ablation measured.
pub fn point_of(
    kind: Kind,
    parameters: &Parameters,
    seed: u64,
    size: &Size,
    configuration: &str,
) -> Option<Point> {
    let variants = [Variant::Paper, Variant::Ours];
    let mut points = variants.into_iter().flat_map(|variant| {
        let point = Point::new(kind, parameters.clone(), seed).of_variant(variant);
        ALL.iter()
            .map(move |ablation| ablation.applied(point.clone()))
    });
    points.find(|point| point.configuration(size) == configuration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ablation_has_statements_and_points_that_differ_from_theirs() {
        let size = Size::default();
        for ablation in ALL {
            let named = |own: &&Experiment| ablation.experiments.contains(&own.name);
            let experiments: Vec<&Experiment> = experiments().filter(named).collect();
            assert_eq!(experiments.len(), ablation.experiments.len());
            for what in ablation.statements {
                let checks = experiments.iter().flat_map(|experiment| {
                    let own = experiment.checks.iter().filter(|own| own.what == *what);
                    own.map(|check| (*experiment, check))
                });
                let mut changed = 0;
                for (experiment, check) in checks {
                    let points = ablation.points(experiment, check, &size, 1, Variant::Paper);
                    let own = points.iter().filter(|own| own.scope == Scope::Ablation);
                    changed += own.count();
                }
                assert!(changed > 0, "{what}");
            }
        }
    }

    #[test]
    fn an_empty_value_takes_an_option_away_and_a_row_gives_its_point() {
        let parameters = [
            ("scheme", "in-place"),
            ("sync-latency-ns", "0"),
            ("loads", "free"),
            ("workload", "tpcb"),
        ];
        let parameters: Parameters = parameters
            .map(|(name, value)| (name.into(), value.into()))
            .into();
        let era = ALL
            .iter()
            .find(|own| own.experiments == ["nvram-era/fig5"])
            .unwrap();
        let size = Size::smoke();
        let point = era.applied(Point::new(Kind::Paged, parameters.clone(), 1));
        let words = point.arguments(&size).join(" ");
        assert!(words.contains("--device native"), "{words}");
        assert!(
            !words.contains("--loads") && !words.contains("--sync"),
            "{words}"
        );
        let configuration = point.configuration(&size);
        let found = point_of(Kind::Paged, &parameters, 1, &size, &configuration).unwrap();
        assert_eq!(found.scope, Scope::Ablation);
        assert!(point_of(Kind::Paged, &parameters, 1, &size, "other").is_none());
    }
}
