//! The paper's variant of a method beside ours.
//!
//! The methods of this engine improve on their papers'. A figure measures both: ours as the product
//! has it, and with the options below as the paper describes it. Where the two do not differ, one
//! run stands for both. A statement of the paper is judged for its own variant first.

use super::experiment::Kind;
use super::point::Point;
use clap::ValueEnum;

/// Whose design of the methods is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Variant {
    /// As the paper describes it
    Paper,
    /// As the product has it
    Ours,
}

/// The variants that a run stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The paper's alone.
    Paper,
    /// Ours alone.
    Ours,
    /// Both do the same.
    Both,
    /// None: a cause is taken away.
    Ablation,
}

impl Variant {
    /// Its name in verdicts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Ours => "ours",
        }
    }
}

impl Scope {
    /// Its name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Ours => "ours",
            Self::Both => "both",
            Self::Ablation => "ablation",
        }
    }
}

/// Options that make a point the paper's, in addition to those that it has; none where it is.
pub fn paper_options(point: &Point) -> Vec<(&'static str, &'static str)> {
    let method = point.get("method");
    match point.kind {
        Kind::Ycsb | Kind::YcsbSampled | Kind::Tpcc | Kind::Recovery | Kind::Costs => {
            n_store(method, point.get("node-bytes"))
        }
        Kind::Btree | Kind::BtreeProbed => fast_fash(method),
        Kind::Paged | Kind::PagedProbed | Kind::Priced => shore_mt(point.get("scheme")),
        Kind::Join => joins(point),
        Kind::Device => Vec::new(),
    }
}

/// N-Store undoes by pointers to old versions, with a sync after each step; its copy-on-write trees
/// have nodes of 4 KiB (section 5, appendix B).
fn n_store(method: &str, node_bytes: &str) -> Vec<(&'static str, &'static str)> {
    match method {
        "nvm-inp" | "nvm-log" => vec![("fences", "paper")],
        "nvm-cow" if node_bytes.is_empty() => vec![("node-bytes", "4096")],
        _ => Vec::new(),
    }
}

/// FAST and FASH have their pages in durable memory alone, without keys in DRAM, and log whole
/// headers.
fn fast_fash(method: &str) -> Vec<(&'static str, &'static str)> {
    match method {
        "fast" | "fash" => vec![("outlines", "0"), ("header-log", "whole")],
        _ => Vec::new(),
    }
}

/// Sort-merge joins sort runs by networks and merge them, eight ranges of them at a time; radix
/// joins partition twice and have chains of buckets, and so has the one table of the join without
/// partitions.
fn joins(point: &Point) -> Vec<(&'static str, &'static str)> {
    match point.get("algorithm") {
        "m-way" | "m-pass" if point.get("run-sort").is_empty() => {
            vec![("run-sort", "network"), ("bits", "3")]
        }
        "radix" => vec![("table", "chain"), ("second-bits", "4")],
        "n-part" => vec![("table", "chain")],
        _ => Vec::new(),
    }
}

/// The systems of NV-Logging and NVRAM-era are Shore-MT, which writes pages without a copy of them:
/// a page that a power cut tears is lost. Its commits wait for their own log only.
fn shore_mt(scheme: &str) -> Vec<(&'static str, &'static str)> {
    let method = match scheme {
        "nv-disk" | "nv-disk-sync" | "disk-replacement" => "dwb+dwb-off-batched",
        "nv-disk-decentralized" => "nv-disk-decentralized+dwb-off-batched",
        "distributed-log" => "distributed-log+dwb-off-batched",
        "flush-on-insert" | "flush-on-commit" => {
            return vec![
                ("method", "nv-logging+dwb-off-batched"),
                ("as-published", "true"),
            ];
        }
        _ => return Vec::new(),
    };
    vec![("method", method)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Paper;
    use crate::size::Size;
    use std::collections::BTreeSet;

    /// The points of a paper in a variant, by the variants that they stand for.
    fn scopes(paper: &Paper, variant: Variant) -> BTreeSet<&'static str> {
        let experiments = paper.experiments.iter();
        let points = experiments.flat_map(|own| Point::of(own, &Size::smoke(), 1, variant));
        points.map(|point| point.scope.name()).collect()
    }

    #[test]
    fn every_paper_but_the_thesis_has_a_variant_of_its_own() {
        for paper in crate::PAPERS {
            let has_own = paper.name != "nvm-dwb";
            for variant in [Variant::Paper, Variant::Ours] {
                let scopes = scopes(paper, variant);
                assert_eq!(scopes.contains(variant.name()), has_own, "{}", paper.name);
            }
        }
    }

    #[test]
    fn a_variant_replaces_options_and_names_another_configuration() {
        let parameters = [("scheme", "flush-on-insert"), ("workload", "tpcb")];
        let parameters = parameters.map(|(name, value)| (name.into(), value.into()));
        let ours = Point::new(Kind::Paged, parameters.into(), 1);
        let paper = ours.clone().of_variant(Variant::Paper);
        let size = Size::smoke();
        let words = paper.arguments(&size).join(" ");
        assert!(words.contains("--method nv-logging+dwb-off-batched --as-published true"));
        assert_eq!(words.matches("--method").count(), 1);
        assert_ne!(paper.configuration(&size), ours.configuration(&size));
        assert_eq!(ours.of_variant(Variant::Ours).scope, Scope::Ours);
    }
}
