//! A point of a sweep: the options of one run, and the name of its configuration.
//!
//! The configuration is a text with everything that affects the measurement, except the commit and
//! the machine; its hash names it in rows. Figures that need the same run share its row, because
//! the name does not depend on the figure.

use super::experiment::{Experiment, Kind, Parameters, Sweep};
use super::paged;
use super::size::Size;
use super::variant::{self, Scope, Variant};
use anyhow::{Result, bail};
use indelible::{FenceOrder, Options};
use measure::machine::fnv;

/// Parameters whose names are not options of a command.
const NO_OPTIONS: [&str; 4] = ["workload", "relations", "read-ns", "write-ns"];

/// One run.
#[derive(Clone, Debug)]
pub struct Point {
    /// How it is run.
    pub kind: Kind,
    /// Values of the axes.
    pub parameters: Parameters,
    /// Seed of rows and transactions.
    pub seed: u64,
    /// The variants that it stands for.
    pub scope: Scope,
    /// Options of its variant, in addition; an empty value takes one away.
    added: Vec<(&'static str, &'static str)>,
}

impl Point {
    /// A point of our variant, which is the paper's as well until it is told otherwise.
    pub fn new(kind: Kind, parameters: Parameters, seed: u64) -> Self {
        Self {
            kind,
            parameters,
            seed,
            scope: Scope::Both,
            added: Vec::new(),
        }
    }

    /// All points of an experiment in one variant, in the order of its axes.
    pub fn of(experiment: &Experiment, size: &Size, seed: u64, variant: Variant) -> Vec<Self> {
        let sweeps = experiment.sweeps.iter();
        let points = sweeps.flat_map(|sweep| product(sweep, size, seed));
        points.map(|point| point.of_variant(variant)).collect()
    }

    /// The same point in a variant.
    #[must_use]
    pub fn of_variant(self, variant: Variant) -> Self {
        let added = variant::paper_options(&self);
        let scope = match (added.is_empty(), variant) {
            (true, _) => Scope::Both,
            (false, Variant::Ours) => Scope::Ours,
            (false, Variant::Paper) => Scope::Paper,
        };
        let added = match variant {
            Variant::Ours => Vec::new(),
            Variant::Paper => added,
        };
        Self {
            scope,
            added,
            ..self
        }
    }

    /// The same point with options that take a cause away.
    #[must_use]
    pub fn without_cause(mut self, changes: &[(&'static str, &'static str)]) -> Self {
        if !changes.is_empty() {
            self.scope = Scope::Ablation;
            let is_kept = |own: &(&str, &str)| changes.iter().all(|(name, _)| *name != own.0);
            self.added.retain(is_kept);
            self.added.extend(changes);
        }
        self
    }

    /// The value of a parameter; empty if the point has none of this name.
    pub fn get(&self, name: &str) -> &str {
        self.parameters.get(name).map_or("", String::as_str)
    }

    /// The options of a database that the variant asks for.
    pub fn of_database(&self, mut options: Options) -> Result<Options> {
        for (name, value) in &self.added {
            options = match *name {
                "fences" => options.fences(FenceOrder::Paper),
                "node-bytes" => options.node_bytes(value.parse()?),
                other => bail!("a variant sets `{other}`, which this kind of run does not take"),
            };
        }
        Ok(options)
    }

    /// Its parameters for people.
    pub fn words(&self) -> String {
        let own = self.parameters.values().map(String::as_str);
        let added = self.added.iter().flat_map(|(name, value)| [*name, *value]);
        own.chain(added).collect::<Vec<_>>().join(" ")
    }

    /// The arguments of the run, without its directories. For the workloads they are those of
    /// `indelible bench`.
    pub fn arguments(&self, size: &Size) -> Vec<String> {
        let mut arguments = if matches!(self.kind, Kind::Paged | Kind::PagedProbed | Kind::Priced) {
            self.paged_arguments(size)
        } else {
            self.own_arguments(size)
        };
        for (name, value) in &self.added {
            let name = format!("--{name}");
            // An option that the parameters have given as well is replaced.
            if let Some(at) = arguments.iter().position(|word| *word == name) {
                arguments.drain(at..at + 2);
            }
            if !value.is_empty() {
                arguments.extend([name, (*value).to_owned()]);
            }
        }
        arguments
    }

    fn own_arguments(&self, size: &Size) -> Vec<String> {
        let mut arguments: Vec<String> = Vec::new();
        let mut add = |name: &str, value: &str| {
            arguments.extend([format!("--{name}"), value.to_owned()]);
        };
        for (name, value) in &self.parameters {
            // `current` is the device as its profile says; relations are given by their sizes, and
            // latencies by a profile.
            let is_option = value != "current" && !NO_OPTIONS.contains(&name.as_str());
            if is_option || self.kind == Kind::Recovery {
                add(name, value);
            }
        }
        add("seed", &self.seed.to_string());
        match self.kind {
            Kind::Ycsb | Kind::YcsbSampled => {
                add("rows", &size.ycsb_rows.to_string());
                add("cache-bytes", &size.ycsb_cache_bytes().to_string());
                if self.has_memtables() {
                    add("memtable-bytes", &size.ycsb_memtable_bytes().to_string());
                } else if self.get("method") == "cow" {
                    add("page-cache", &size.ycsb_page_cache_bytes().to_string());
                }
                bench(&mut add, size);
            }
            Kind::Tpcc => {
                add("warehouses", &size.warehouses.to_string());
                add("scale", &size.tpcc_scale().to_string());
                add("cache-bytes", &size.tpcc_cache_bytes().to_string());
                if self.has_memtables() {
                    add("memtable-bytes", &size.tpcc_memtable_bytes().to_string());
                } else if self.get("method") == "cow" {
                    add("page-cache", &size.tpcc_page_cache_bytes().to_string());
                }
                bench(&mut add, size);
                arguments.push("--single-partition".into());
            }
            Kind::Btree | Kind::BtreeProbed => self.btree(&mut add, size),
            Kind::Device => add("seconds", &size.seconds.to_string()),
            Kind::Recovery => {
                add("rows", &size.recovery_rows.to_string());
                add("scale", &size.tpcc_scale().to_string());
                add("partitions", &size.partitions.to_string());
            }
            Kind::Costs => add("rows", &size.cost_rows.to_string()),
            Kind::Join => {
                let (r, s) = size.relations(self.get("relations")).unwrap_or_default();
                add("r", &r.to_string());
                add("s", &s.to_string());
            }
            Kind::Paged | Kind::PagedProbed | Kind::Priced => {}
        }
        arguments
    }

    fn paged_arguments(&self, size: &Size) -> Vec<String> {
        let options = paged::options(self, size);
        let words = options
            .into_iter()
            .flat_map(|(name, value)| [format!("--{name}"), value]);
        words
            .chain(["--seed".into(), self.seed.to_string()])
            .collect()
    }

    /// Adds the options of a run of insertions that are not parameters.
    fn btree(&self, add: &mut impl FnMut(&str, &str), size: &Size) {
        let rows = u64::from(size.btree_rows);
        let together = self.get("txn-size").parse().unwrap_or(1);
        add("txns", &rows.div_ceil(together).to_string());
        add("primitives", "flush");
        // Each transaction is acknowledged before the next one begins.
        add("group", "1");
        let (read, write) = (self.get("read-ns"), self.get("write-ns"));
        if !read.is_empty() {
            add("device", "emulated");
            add("profile", &format!("read={read},write={write}"));
            add("cache-bytes", &size.btree_cache_bytes().to_string());
        }
    }

    fn has_memtables(&self) -> bool {
        matches!(self.get("method"), "log" | "nvm-log")
    }

    /// The configuration as text.
    pub fn configuration(&self, size: &Size) -> String {
        let arguments = self.arguments(size).join(" ");
        let rounds = size.rounds;
        // Kinds whose point names a command of `bench`.
        let kind = match self.kind {
            Kind::Paged | Kind::PagedProbed | Kind::Priced => {
                format!("{} {}", self.kind.name(), self.get("workload"))
            }
            kind => kind.name().to_owned(),
        };
        format!("{kind} {arguments} x{rounds}")
    }
}

/// Adds the options that YCSB and TPC-C have in common.
fn bench(add: &mut impl FnMut(&str, &str), size: &Size) {
    add("partitions", &size.partitions.to_string());
    add("seconds", &size.seconds.to_string());
    add("device", "emulated");
    add("layout", "separate");
    add("primitives", "flush");
    add("log-images", "both");
}

fn product(sweep: &Sweep, size: &Size, seed: u64) -> Vec<Point> {
    let mut points = vec![Point::new(sweep.kind, Parameters::new(), seed)];
    // The first axis turns slowest.
    for axis in sweep.axes {
        let values = size.values(*axis);
        points = points
            .into_iter()
            .flat_map(|point| {
                values.iter().map(move |value| {
                    let mut point = point.clone();
                    point.parameters.insert(axis.0.into(), (*value).into());
                    point
                })
            })
            .collect();
    }
    points
}

/// The name of a configuration.
pub fn hash(configuration: &str) -> String {
    fnv(configuration.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::passes;

    #[test]
    fn methods_are_told_the_size_of_what_they_have() {
        for (method, told) in [
            ("log", "--memtable-bytes"),
            ("nvm-log", "--memtable-bytes"),
            ("cow", "--page-cache"),
            ("inp", ""),
        ] {
            for kind in [Kind::Ycsb, Kind::Tpcc] {
                let parameters = [("method".into(), method.into())].into();
                let point = Point::new(kind, parameters, 1);
                let arguments = point.arguments(&Size::smoke());
                for option in ["--memtable-bytes", "--page-cache"] {
                    let found = arguments.iter().any(|word| word == option);
                    assert_eq!(found, told == option, "{method}");
                }
            }
        }
    }

    #[test]
    fn a_filter_asks_for_all_its_values() {
        let parameters = Parameters::from([("mix".into(), "balanced".into())]);
        assert!(passes(&parameters, &[("mix", "balanced")]));
        assert!(!passes(
            &parameters,
            &[("mix", "balanced"), ("skew", "low")]
        ));
    }
}
