//! A point of a sweep: the options of one run, and the name of its configuration.
//!
//! The configuration is a text with everything that affects the measurement, except the commit and
//! the machine; its hash names it in rows. Figures that need the same run share its row, because
//! the name does not depend on the figure.

use super::experiment::{Experiment, Filter, Kind, Sweep};
use super::paged;
use super::size::Size;
use std::collections::BTreeMap;

/// Parameters whose names are not options of a command.
const NO_OPTIONS: [&str; 4] = ["workload", "relations", "read-ns", "write-ns"];

/// Parameters by name.
pub(super) type Parameters = BTreeMap<String, String>;

/// One run.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) kind: Kind,
    pub(super) parameters: Parameters,
    pub(super) seed: u64,
}

impl Point {
    /// All points of an experiment, in the order of its axes.
    pub(super) fn of(experiment: &Experiment, size: &Size, seed: u64) -> Vec<Self> {
        let sweeps = experiment.sweeps.iter();
        sweeps
            .flat_map(|sweep| product(sweep, size, seed))
            .collect()
    }

    /// The value of a parameter; empty if the point has none of this name.
    pub(super) fn get(&self, name: &str) -> &str {
        self.parameters.get(name).map_or("", String::as_str)
    }

    /// The arguments of the run, without its directories. For the workloads they are those of
    /// `indelible bench`.
    pub(super) fn arguments(&self, size: &Size) -> Vec<String> {
        if matches!(self.kind, Kind::Paged | Kind::PagedProbed | Kind::Priced) {
            return self.paged_arguments(size);
        }
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
                }
                bench(&mut add, size);
            }
            Kind::Tpcc => {
                add("warehouses", &size.warehouses.to_string());
                add("scale", &size.tpcc_scale().to_string());
                add("cache-bytes", &size.tpcc_cache_bytes().to_string());
                if self.has_memtables() {
                    add("memtable-bytes", &size.tpcc_memtable_bytes().to_string());
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
    pub(super) fn configuration(&self, size: &Size) -> String {
        let arguments = self.arguments(size).join(" ");
        let repeats = size.repeats;
        // Kinds whose point names a command of `bench`.
        let kind = match self.kind {
            Kind::Paged | Kind::PagedProbed | Kind::Priced => {
                format!("{} {}", self.kind.name(), self.get("workload"))
            }
            kind => kind.name().to_owned(),
        };
        format!("{kind} {arguments} x{repeats}")
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
    let mut points = vec![Point {
        kind: sweep.kind,
        parameters: Parameters::new(),
        seed,
    }];
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

/// Whether parameters have the values of a filter.
pub(super) fn passes(parameters: &Parameters, filter: Filter) -> bool {
    filter
        .iter()
        .all(|(name, value)| parameters.get(*name).is_some_and(|own| own == value))
}

/// The name of a configuration: FNV-1a, 64 bits, in hexadecimal. It identifies; it does not
/// protect.
pub(super) fn hash(configuration: &str) -> String {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let hash = configuration
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(PRIME)
        });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(hash(""), "cbf29ce484222325");
        assert_eq!(hash("foobar"), "85944171f73967e8");
    }

    #[test]
    fn only_methods_with_memtables_are_told_their_size() {
        for (method, told) in [("log", true), ("nvm-log", true), ("inp", false)] {
            for kind in [Kind::Ycsb, Kind::Tpcc] {
                let point = Point {
                    kind,
                    parameters: [("method".into(), method.into())].into(),
                    seed: 1,
                };
                let arguments = point.arguments(&Size::smoke());
                let found = arguments.iter().any(|word| word == "--memtable-bytes");
                assert_eq!(found, told, "{method}");
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
