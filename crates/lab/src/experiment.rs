//! A paper and its experiments as data: the runs, the plots of them, and the paper's statements
//! about them.
//!
//! A `Sweep` is the product of its axes. Each of its points is one run of a `Kind`; `kinds`
//! knows how to run it. A `Check` is a statement of the paper about numbers of rows. Nothing in
//! an experiment is measured here: the only numbers are the paper's, each with its source.

use super::size::Size;
use std::collections::BTreeMap;

/// A paper whose experiments the lab repeats.
pub struct Paper {
    /// Prefix of the names of its experiments, before the slash.
    pub name: &'static str,
    /// Heading of the report, then one sentence under it.
    pub(crate) title: &'static str,
    pub(crate) lead: &'static str,
    /// The systems that it compares.
    pub(crate) compared: Table,
    /// In the paper's order.
    pub experiments: &'static [&'static Experiment],
    /// Describes a size for the report.
    pub(crate) describe: fn(&Size) -> String,
}

/// A table of sentences.
pub(crate) struct Table {
    pub(crate) heading: &'static str,
    pub(crate) header: &'static [&'static str],
    /// As many cells as the header has.
    pub(crate) rows: &'static [&'static [&'static str]],
}

/// One figure or table of a paper.
pub struct Experiment {
    /// `paper/figure`.
    pub name: &'static str,
    /// Heading of the figure.
    pub title: &'static str,
    /// The paper's finding, and how this run differs from the paper's setting.
    pub(crate) shows: &'static [&'static str],
    pub(crate) sweeps: &'static [Sweep],
    pub(crate) plots: &'static [Plot],
    pub(crate) checks: &'static [Check],
}

impl Experiment {
    /// Number of its statements.
    pub fn statements(&self) -> u64 {
        self.checks.len() as u64
    }
}

/// Runs of one kind: every combination of the values of the axes.
pub(crate) struct Sweep {
    pub(crate) kind: Kind,
    pub(crate) axes: &'static [Axis],
}

/// A parameter and its values.
pub(crate) type Axis = (&'static str, &'static [&'static str]);

/// Kind of the runs of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `bench ycsb` on the emulated device; each parameter is an option of the command.
    Ycsb,
    /// The same, with a timer that samples the part at work.
    YcsbSampled,
    /// `bench tpcc` on the emulated device.
    Tpcc,
    /// `bench tpcc`, `tpcb`, `tatp` or `sysbench` (the parameter `workload`) of a page method;
    /// `paged` turns its parameters into options.
    Paged,
    /// The same, with probes on the threads.
    PagedProbed,
    /// Nothing is run: the result is that of a [`Kind::Paged`] run with the same parameters but for
    /// `price-ratio`, divided by the price of its media.
    Priced,
    /// `bench btree-insert`; each parameter is an option of the command, but for `read-ns` and
    /// `write-ns`, which make the profile.
    Btree,
    /// The same, with a probe on the thread.
    BtreeProbed,
    /// Durable writes of chunks through an interface of the device.
    Device,
    /// A child process that is killed after a number of transactions, and the opening that
    /// recovers.
    Recovery,
    /// Bytes that an insert, an update or a delete writes.
    Costs,
    /// `bench join`; each parameter is an option of the command, but for `relations`, which `size`
    /// turns into numbers of tuples.
    Join,
}

/// Parameters by name.
pub type Parameters = BTreeMap<String, String>;

/// Parameters that must have these values.
pub(crate) type Filter = &'static [(&'static str, &'static str)];

/// A plot of medians.
pub(crate) struct Plot {
    pub(crate) caption: &'static str,
    pub(crate) rows: Filter,
    pub(crate) shape: Shape,
}

/// Form of a plot.
pub(crate) enum Shape {
    /// A group of bars for each value of a parameter, a bar for each value of another.
    Bars {
        metric: &'static str,
        group: &'static str,
        bar: &'static str,
        scale: Axes,
    },
    /// A bar for each value of a parameter, made of several metrics.
    Stack {
        bar: &'static str,
        /// Metrics and their names in the legend.
        pieces: &'static [(&'static str, &'static str)],
        unit: Unit,
    },
    /// A line for each value of a parameter over the numbers of another, or of a metric.
    Lines {
        metric: &'static str,
        x: &'static str,
        x_label: &'static str,
        y_label: &'static str,
        line: &'static str,
        x_scale: Axes,
        scale: Axes,
    },
}

/// Whether an axis is linear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axes {
    Linear,
    Logarithmic,
}

/// Unit of the lengths of stacked bars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Percent,
    /// The caption names the unit.
    Plain,
}

/// A statement about a figure.
pub(crate) struct Check {
    /// The statement, to be read after "expected:".
    pub(crate) what: &'static str,
    /// The paper's statement, in its numbers.
    pub(crate) paper: &'static str,
    /// Section, figure or page of the paper.
    pub(crate) source: &'static str,
    pub(crate) claim: Claim,
    pub(crate) test: Test,
    /// Reasons why the result may differ here.
    pub(crate) why: &'static str,
}

/// Whose statement a check is, and where the range of its test comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) basis: Basis,
    /// One of the results that the paper is known for.
    pub(crate) is_headline: bool,
}

/// Origin of the range of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// The paper's numbers.
    Numbers,
    /// The paper says it in words; the range is the set of numbers for which they are true.
    Words,
    /// Our own goal, not the paper's: shown and not counted.
    OwnGoal,
}

impl Claim {
    /// In the paper's numbers.
    pub(crate) const NUMBERS: Self = Self::of(Basis::Numbers);
    /// In the paper's words.
    pub(crate) const WORDS: Self = Self::of(Basis::Words);
    /// Not the paper's.
    pub(crate) const OWN_GOAL: Self = Self::of(Basis::OwnGoal);

    const fn of(basis: Basis) -> Self {
        Self {
            basis,
            is_headline: false,
        }
    }

    /// The same as one of the results that the paper is known for.
    pub(crate) const fn headline(self) -> Self {
        Self {
            is_headline: true,
            ..self
        }
    }
}

/// Test of a statement.
pub(crate) enum Test {
    /// The metric of each row that passes `over`, divided by that of the row that has the values of
    /// `under` instead. There is one ratio for each combination of the other parameters that passes
    /// `rows`.
    Ratio {
        metric: &'static str,
        over: Filter,
        under: Filter,
        rows: Filter,
        within: Within,
    },
    /// Growth of a ratio (of `over` to `under`) from the rows `low` to the rows `high`.
    Growth {
        metric: &'static str,
        over: Filter,
        under: Filter,
        low: Filter,
        high: Filter,
        rows: Filter,
        within: Within,
    },
    /// Every value of a metric.
    Value {
        metric: &'static str,
        rows: Filter,
        within: Within,
    },
    /// The value at one point of an axis, divided by the best value along it.
    Best {
        metric: &'static str,
        along: &'static str,
        at: &'static str,
        rows: Filter,
        within: Within,
    },
}

impl Test {
    /// The range of its numbers.
    pub(crate) fn within(&self) -> Within {
        match self {
            Self::Ratio { within, .. }
            | Self::Growth { within, .. }
            | Self::Value { within, .. }
            | Self::Best { within, .. } => *within,
        }
    }

    /// Whether the row with these parameters may take part in it.
    pub(crate) fn uses(&self, parameters: &Parameters) -> bool {
        let is = |filter: Filter| passes(parameters, filter);
        match *self {
            Self::Ratio {
                over, under, rows, ..
            } => is(over) && is(rows) || is(under) && passes_but(parameters, rows, &[under]),
            Self::Growth {
                over,
                under,
                low,
                high,
                rows,
                ..
            } => {
                (is(over) || is(under))
                    && (is(low) || is(high))
                    && passes_but(parameters, rows, &[under, high])
            }
            Self::Value { rows, .. } | Self::Best { rows, .. } => is(rows),
        }
    }

    /// A [`Test::Ratio`].
    pub(crate) const fn ratio(
        metric: &'static str,
        (over, under): (Filter, Filter),
        rows: Filter,
        within: Within,
    ) -> Self {
        Self::Ratio {
            metric,
            over,
            under,
            rows,
            within,
        }
    }
}

/// Whether parameters have the values of a filter.
pub fn passes(parameters: &Parameters, filter: Filter) -> bool {
    filter
        .iter()
        .all(|(name, value)| parameters.get(*name).is_some_and(|own| own == value))
}

/// Whether parameters have the values of a filter, but for those that others set.
fn passes_but(parameters: &Parameters, filter: Filter, others: &[Filter]) -> bool {
    let is_set = |name: &str| {
        others
            .iter()
            .any(|own| own.iter().any(|(other, _)| *other == name))
    };
    filter
        .iter()
        .all(|one| is_set(one.0) || passes(parameters, std::slice::from_ref(one)))
}

/// No bound.
pub(crate) const ANY: f64 = f64::INFINITY;

/// The range of a statement, and whether several numbers have to lie in it or their mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Within {
    /// Each of them.
    Each(f64, f64),
    /// Their geometric mean.
    Mean(f64, f64),
}

impl Within {
    /// In words: ahead on average, or less, or about the same.
    pub(crate) const AHEAD: Self = Self::Mean(1.0, ANY);
    pub(crate) const LESS: Self = Self::Mean(0.0, 1.0);
    pub(crate) const LEVEL: Self = Self::Mean(0.8, 1.25);

    /// The range.
    pub(crate) fn range(self) -> (f64, f64) {
        match self {
            Self::Each(low, high) | Self::Mean(low, high) => (low, high),
        }
    }
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 12] = [
        Self::Ycsb,
        Self::YcsbSampled,
        Self::Tpcc,
        Self::Paged,
        Self::PagedProbed,
        Self::Priced,
        Self::Btree,
        Self::BtreeProbed,
        Self::Device,
        Self::Recovery,
        Self::Costs,
        Self::Join,
    ];

    /// The kind with this name in rows.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ycsb => "ycsb",
            Self::YcsbSampled => "ycsb-sampled",
            Self::Tpcc => "tpcc",
            Self::Paged => "paged",
            Self::PagedProbed => "paged-probed",
            Self::Priced => "priced",
            Self::Btree => "btree",
            Self::BtreeProbed => "btree-probed",
            Self::Device => "device",
            Self::Recovery => "recovery",
            Self::Costs => "costs",
            Self::Join => "join",
        }
    }
}
