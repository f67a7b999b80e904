//! Verdicts for programs: one line of JSON a statement and variant, beside the report.
//!
//! `paper_low` and `paper_high` are null where the paper gives no number, `high` where its words
//! have no upper bound. The file is made from rows, as the page is, and never read.

use super::experiment::{Basis, Check};
use super::judge::Judged;
use super::page::Figure;
use crate::files::{Existing, OutputFile};
use anyhow::Result;
use serde::Serialize;
use std::io::Write;
use std::path::Path;

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
        }
    }
}

/// Writes the verdicts of all figures.
pub(super) fn write<'f, 'r: 'f>(
    path: &Path,
    figures: impl Iterator<Item = &'f Figure<'r>>,
) -> Result<()> {
    let mut out = OutputFile::create(path, Existing::Replace)?;
    for figure in figures {
        for (variant, judged) in &figure.judged {
            for (check, judged) in figure.experiment.checks.iter().zip(judged) {
                let line = Line::new(figure.experiment.name, variant.name(), check, judged);
                serde_json::to_writer(&mut out, &line)?;
                out.write_all(b"\n")?;
            }
        }
    }
    out.finish()
}
