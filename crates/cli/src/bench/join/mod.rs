//! `bench join`: main-memory joins over made relations, one row a run.
//!
//! | file | job |
//! |---|---|
//! | `measure` | relations in memory, checked joins over them, and their times |
//! | `row` | what a row says |
//! | `grid` | all algorithms and `auto` over sizes, skews, match rates and densities |
//!
//! Relations are made once and joined by every algorithm and kernel that was asked for. What the command line cannot mean, a kernel
//! that is not there, and relations that memory cannot hold are refused before any of them is made.

mod grid;
mod measure;
mod row;

pub(crate) use measure::{Measured, Timed};

use super::runs;
use crate::args::{JoinArgs, TupleName};
use crate::failure::Usage;
use crate::output::Format;
use crate::progress;
use anyhow::{Context, Result};
use join::data::{KeyRange, Workload};
use join::{
    Algorithm, JoinError, Kernel, Options, Relation, Tuning, Tuple, Tuple8, Tuple16, explain,
};
use measure::Inputs;
use row::JoinRow;

/// Runs the command.
pub(super) fn run(args: &JoinArgs, format: Format) -> Result<()> {
    check(args)?;
    if args.grid {
        return grid::run(args, format);
    }
    if args.grid_part.is_some() {
        return Err(Usage::error(
            "--grid-part is a part of the cells of --grid, which is not there",
        ));
    }
    let mut rows = Vec::new();
    each(args, |measured| {
        let row = JoinRow::new(args, &measured);
        runs::print_row(&row, format)?;
        rows.push(row);
        Ok(())
    })?;
    match format {
        Format::Json => Ok(()),
        Format::Csv => runs::flat_listing(&rows)?.print(format),
        Format::Text => row::print_text(&rows),
    }
}

/// Measures everything that the options ask for, on one pair of relations.
pub(crate) fn all(args: &JoinArgs) -> Result<Vec<Measured>> {
    check(args)?;
    let mut found = Vec::new();
    each(args, |measured| {
        found.push(measured);
        Ok(())
    })?;
    Ok(found)
}

fn each(args: &JoinArgs, found: impl FnMut(Measured) -> Result<()>) -> Result<()> {
    match args.tuple {
        TupleName::Eight => each_of::<Tuple8>(args, found),
        TupleName::Sixteen => each_of::<Tuple16>(args, found),
    }
}

fn each_of<T: Tuple>(args: &JoinArgs, mut found: impl FnMut(Measured) -> Result<()>) -> Result<()> {
    let algorithms = algorithms(args);
    let inputs = Inputs::<T>::make(args, &workload(args), &algorithms)?;
    for kernel in &args.kernel {
        for algorithm in &algorithms {
            let note = progress::spinner(format!("joining by {algorithm}, kernel {kernel}"));
            let options = options(args, *algorithm, *kernel);
            let measured = inputs.measure(&options, args.repeats);
            note.finish_and_clear();
            found(measured.with_context(|| format!("{algorithm}, kernel {kernel}"))?)?;
        }
    }
    Ok(())
}

/// The algorithms of a run; of the grid, all.
fn algorithms(args: &JoinArgs) -> Vec<Algorithm> {
    args.algorithm.clone().unwrap_or_else(|| {
        Algorithm::ALL
            .into_iter()
            .chain([Algorithm::Auto])
            .collect()
    })
}

fn workload(args: &JoinArgs) -> Workload {
    Workload {
        keys: if args.sparse {
            KeyRange::Sparse
        } else {
            KeyRange::Dense
        },
        zipf: args.zipf,
        match_rate: args.match_rate,
        repeats: args.copies as usize,
        hot: args.hot,
        seed: args.seed,
        ..Workload::uniform(args.r as usize, args.s.unwrap_or(args.r) as usize)
    }
}

fn options<'o, T: Tuple>(args: &JoinArgs, algorithm: Algorithm, kernel: Kernel) -> Options<'o, T> {
    Options {
        algorithm,
        kernel,
        threads: args.threads.map(|threads| threads as usize),
        tuning: args.tuning(),
        ..Options::default()
    }
}

/// Refuses what no relations would make possible: settings out of range, kernels that are not there.
fn check(args: &JoinArgs) -> Result<()> {
    if args.copies > args.r {
        return Err(Usage::error(
            "--copies must be at most --r; use fewer copies or more tuples",
        ));
    }
    for kernel in &args.kernel {
        probe(*kernel, args.tuning()).map_err(|error| Usage::error(error.to_string()))?;
    }
    Ok(())
}

/// Whether this processor has a kernel.
pub(crate) fn has_kernel(kernel: Kernel) -> bool {
    probe(kernel, Tuning::default()).is_ok()
}

/// What the library says to settings, before there are relations.
fn probe(kernel: Kernel, tuning: Tuning) -> Result<(), JoinError> {
    let options = Options {
        kernel,
        tuning,
        ..Options::default()
    };
    let nothing = Relation::<Tuple8>::new(&[]);
    explain(nothing, nothing, &options).map(drop)
}
