//! `advise`: which storage method for this workload on this device, and why.
//!
//! Every method runs the workload on three small tables, a model carries the measurements to the
//! user's number of rows, and one objective chooses. docs/advise.md states the assumptions of the
//! model, and its error where it was checked.
//!
//! | module | job |
//! |---|---|
//! | `plan` | from options to a workload, a device and scales |
//! | `measure` | one method at one scale: counts, times, an open after a crash |
//! | `model` | from three scales to the user's rows, with the spread of the rounds |
//! | `line` | straight lines through measurements |
//! | `wear` | the most written line of many rows, from those of few |
//! | `choose` | objective, scores, and a sentence of reasons a method |
//! | `output` | text, JSON and CSV |
//! | `page` | the HTML page |
//!
//! Always true: the recommendation follows from the printed numbers and weights alone.

mod choose;
mod line;
mod measure;
mod model;
mod output;
mod page;
mod plan;
mod wear;

use crate::args::AdviseArgs;
use crate::files::{Existing, OutputFile};
use crate::output::{Format, note};
use crate::progress;
use anyhow::{Context, Result};
use choose::Advice;
use measure::{Counted, Timed};
use model::Estimate;
use plan::Plan;
use std::io::Write;
use std::time::{Duration, Instant};

/// Runs the command.
pub(crate) fn run(args: &AdviseArgs, format: Format) -> Result<()> {
    let start = Instant::now();
    let plan = Plan::new(args)?;
    // First, since a place that takes no file would lose everything that was measured.
    let out = args.out.as_deref();
    let out = out.map(|path| OutputFile::create(path, Existing::Replace));
    let out = out.transpose()?;
    let samples = measure_all(&plan, start + Duration::from_secs_f64(args.seconds))?;
    let estimates: Vec<Estimate> = plan
        .methods
        .iter()
        .zip(&samples)
        .map(|(method, samples)| Estimate::new(*method, &plan, samples))
        .collect();
    let advice = Advice::new(args.prefer, &estimates);
    let report = output::Report {
        plan: &plan,
        advice: &advice,
        rounds: samples.first().map_or(0, MethodSamples::rounds),
        seconds: start.elapsed().as_secs_f64(),
    };
    report.print(format)?;
    if let (Some(path), Some(mut out)) = (&args.out, out) {
        out.write_all(page::page(&report).html().as_bytes())?;
        out.finish()?;
        if format == Format::Text {
            note(&format!("The page with plots is {}.", path.display()));
        }
    }
    Ok(())
}

/// Measurements of one method, by scale.
struct MethodSamples {
    counted: Vec<Counted>,
    /// By scale, then by round.
    timed: Vec<Vec<Timed>>,
}

impl MethodSamples {
    fn rounds(&self) -> usize {
        self.timed.first().map_or(0, Vec::len)
    }
}

/// Measures every method at every scale: counts once, times in rounds over all of them, until the
/// rounds are done or the next one would end too late. Thus a disturbance of the machine affects
/// all methods alike.
fn measure_all(plan: &Plan, deadline: Instant) -> Result<Vec<MethodSamples>> {
    let runs = plan.methods.len() * plan.scales.len();
    let bar = progress::count("measuring", (runs * (plan.rounds + 1)) as u64);
    let mut samples = Vec::with_capacity(plan.methods.len());
    for method in &plan.methods {
        let what = |scale: &plan::Scale| format!("counting {method} with {} rows", scale.rows);
        let counted = plan.scales.iter().enumerate().map(|(at, scale)| {
            bar.inc(1);
            measure::count(plan, *method, scale, at == 0).with_context(|| what(scale))
        });
        samples.push(MethodSamples {
            counted: counted.collect::<Result<_>>()?,
            timed: vec![Vec::new(); plan.scales.len()],
        });
    }
    for round in 0..plan.rounds {
        let begun = Instant::now();
        for (method, samples) in plan.methods.iter().zip(&mut samples) {
            for (scale, timed) in plan.scales.iter().zip(&mut samples.timed) {
                let sample = measure::time(plan, *method, scale);
                timed.push(sample.with_context(|| {
                    format!("measuring {method} with {} rows, round {round}", scale.rows)
                })?);
                bar.inc(1);
            }
        }
        if Instant::now() + begun.elapsed() > deadline {
            break;
        }
    }
    bar.finish_and_clear();
    Ok(samples)
}
