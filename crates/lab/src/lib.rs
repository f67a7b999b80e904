//! The figures of six papers as data, what the papers say of them, and verdicts about rows.
//!
//! A room of its own, because it runs nothing: the program measures points and hands rows in, and
//! takes what is still missing, pages and verdicts out.
//!
//! | module | job |
//! |---|---|
//! | [`experiment`] | experiments as data |
//! | `n_store`, `joins`, `nv_logging`, `nvram_era`, `nvm_dwb`, `fast_fash` | one paper each |
//! | [`size`] | the size of data and runs |
//! | [`point`] | one run of an experiment, and the name of its configuration |
//! | `paged` | the options for the parameters of the page engine's points |
//! | [`variant`] | the paper's variant of a method beside ours |
//! | [`ablation`] | a difference without its cause |
//! | [`prices`] | rows of transactions a dollar, from measured rows |
//! | [`rows`] | measured points, on file |
//! | [`control`] | a point that each round measures twice |
//! | [`statistics`] | intervals |
//! | [`judge`] | statements of the papers against intervals |
//! | [`verdicts`] | the same for programs |
//! | [`page`], `plots` | the report |
//! | [`stale`] | reports that are older than the code that they measure |

pub mod ablation;
pub mod control;
pub mod experiment;
mod fast_fash;
mod joins;
pub mod judge;
mod n_store;
mod nv_logging;
mod nvm_dwb;
mod nvram_era;
pub mod page;
mod paged;
mod plots;
pub mod point;
pub mod prices;
pub mod rows;
pub mod size;
pub mod stale;
pub mod statistics;
pub mod variant;
pub mod verdicts;

use experiment::{Experiment, Paper};

/// The papers, in the order in which they were added.
pub const PAPERS: [&Paper; 6] = [
    &n_store::PAPER,
    &joins::PAPER,
    &nv_logging::PAPER,
    &nvram_era::PAPER,
    &nvm_dwb::PAPER,
    &fast_fash::PAPER,
];

/// All experiments of all papers.
pub fn experiments() -> impl Iterator<Item = &'static Experiment> {
    PAPERS
        .iter()
        .flat_map(|paper| paper.experiments.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use experiment::{Shape, Test};
    use point::Point;
    use size::Size;
    use variant::Variant;

    #[test]
    fn every_plot_and_every_check_has_points_to_look_at() {
        let size = Size::default();
        for experiment in experiments() {
            let points = Point::of(experiment, &size, 1, Variant::Ours);
            let any = |filter| {
                points
                    .iter()
                    .any(|p| experiment::passes(&p.parameters, filter))
            };
            for plot in experiment.plots {
                assert!(any(plot.rows), "{}: {}", experiment.name, plot.caption);
                let (a, b) = match plot.shape {
                    Shape::Bars { group, bar, .. } => (group, bar),
                    Shape::Stack { bar, .. } => (bar, bar),
                    Shape::Lines { x, line, .. } => (x, line),
                };
                // `r_tuples` is a result of the run, not one of its options.
                let is_told = |point: &Point, name: &str| {
                    let mut names = name.split('+');
                    names.all(|name| !point.get(name).is_empty())
                };
                let named =
                    |name: &str| name == "r_tuples" || points.iter().any(|p| is_told(p, name));
                assert!(
                    named(a) && named(b),
                    "{}: {}",
                    experiment.name,
                    plot.caption
                );
            }
            for check in experiment.checks {
                let filters = match check.test {
                    Test::Ratio {
                        over, under, rows, ..
                    } => vec![over, under, rows],
                    Test::Growth {
                        over,
                        under,
                        low,
                        high,
                        rows,
                        ..
                    } => {
                        vec![over, under, low, high, rows]
                    }
                    Test::Value { rows, .. } | Test::Best { rows, .. } => vec![rows],
                };
                let found = filters.into_iter().all(any);
                assert!(found, "{}: {}", experiment.name, check.what);
                assert!(!check.paper.is_empty() && !check.source.is_empty());
            }
        }
    }

    #[test]
    fn equal_configurations_have_equal_parameters() {
        for size in [Size::smoke(), Size::default(), Size::full()] {
            let mut known = std::collections::HashMap::new();
            let checked = [
                &joins::PAPER,
                &nv_logging::PAPER,
                &nvram_era::PAPER,
                &nvm_dwb::PAPER,
                &fast_fash::PAPER,
            ];
            for experiment in checked.iter().flat_map(|paper| paper.experiments) {
                for point in Point::of(experiment, &size, 1, Variant::Paper) {
                    let configuration = point.configuration(&size);
                    let before = known.insert(configuration.clone(), point.parameters.clone());
                    let same = before.is_none_or(|before| before == point.parameters);
                    assert!(same, "{}: {configuration}", experiment.name);
                }
            }
        }
    }
}
