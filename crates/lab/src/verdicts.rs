//! Verdicts for programs: one line of JSON a statement and variant, beside the report.
//!
//! `paper_low` and `paper_high` are null where the paper gives no number, `high` where its words
//! have no upper bound. The file is made from rows, as the page is, and never read.

use super::ablation::Ablated;
use super::experiment::{Basis, Check};
use super::judge::Judged;
use super::page::Figure;
use anyhow::Result;
use serde::Serialize;
use std::io::Write;

#[derive(Serialize)]
struct Line<'v> {
    experiment: &'v str,
    statement: &'v str,
    headline: bool,
    own_goal: bool,
    variant: &'v str,
    value: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    paper_low: Option<f64>,
    paper_high: Option<f64>,
    verdict: &'v str,
    /// The largest difference of the control points of its rounds from themselves, and whether it
    /// is too large.
    control: Option<f64>,
    noisy: bool,
    /// The paper's own words or numbers, and where they stand.
    paper: &'v str,
    source: &'v str,
    /// The statement without the causes of its difference, where that was measured.
    ablations: Vec<Without<'v>>,
}

#[derive(Serialize)]
struct Without<'v> {
    with: &'v str,
    value: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    verdict: &'v str,
}

impl<'v> Without<'v> {
    fn new(ablated: &'v Ablated) -> Self {
        let interval = ablated.judged.interval;
        Self {
            with: ablated.with,
            value: interval.map(|interval| interval.value),
            low: interval.map(|interval| interval.low),
            high: interval.map(|interval| interval.high),
            verdict: ablated.judged.verdict.name(),
        }
    }
}

impl<'v> Line<'v> {
    fn new(experiment: &'v str, variant: &'v str, check: &Check, judged: &Judged) -> Self {
        let range = (check.claim.basis == Basis::Numbers).then(|| check.test.within().range());
        let interval = judged.interval;
        Self {
            experiment,
            statement: check.what,
            headline: check.claim.is_headline,
            own_goal: check.claim.basis == Basis::OwnGoal,
            variant,
            value: interval.map(|interval| interval.value),
            low: interval.map(|interval| interval.low),
            high: interval.map(|interval| interval.high),
            paper_low: range.map(|(low, _)| low),
            paper_high: range.map(|(_, high)| high).filter(|high| high.is_finite()),
            verdict: judged.verdict.name(),
            control: judged.control,
            noisy: judged.is_noisy(),
            paper: check.paper,
            source: check.source,
            ablations: Vec::new(),
        }
    }
}

/// Writes the verdicts of all figures.
pub fn write<'f, 'r: 'f>(
    out: &mut impl Write,
    figures: impl Iterator<Item = &'f Figure<'r>>,
) -> Result<()> {
    for figure in figures {
        for (order, (variant, judged)) in figure.judged.iter().enumerate() {
            let checks = figure.experiment.checks.iter().zip(judged).enumerate();
            for (at, (check, judged)) in checks {
                let mut line = Line::new(figure.experiment.name, variant.name(), check, judged);
                let ablated = figure.ablated.iter();
                let own = ablated.filter(|own| order == 0 && own.at == at);
                line.ablations = own.map(Without::new).collect();
                serde_json::to_writer(&mut *out, &line)?;
                out.write_all(b"\n")?;
            }
        }
    }
    Ok(())
}
