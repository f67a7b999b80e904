//! `bench join`: main-memory joins over made relations, one row a run.
//!
//! | file | job |
//! |---|---|
//! | `row` | the rows |
//! | `grid` | all algorithms and `auto` over sizes, skews, match rates and densities |
//!
//! The joins and their clock are those of `measure::join`. Relations are made once and joined by
//! every algorithm and kernel that was asked for. Contradictory options, a kernel that this machine
//! lacks, and relations that do not fit into memory are refused before any relation is made.

mod grid;
mod row;

use super::runs;
use crate::args::JoinArgs;
use crate::failure::Usage;
use crate::machine::available_bytes;
use crate::output::{Format, bytes, thousands};
use crate::progress;
use anyhow::{Context, Result, bail};
use join::data::{KeyRange, Workload};
use join::{Algorithm, Kernel, Tuning};
use measure::join::{Inputs, JoinOptions, Measured, Width, probe};
use row::JoinRow;

/// Runs the command.
pub(super) fn run(args: &JoinArgs, format: Format) -> Result<()> {
    if args.grid {
        check(args)?;
        return grid::run(args, format);
    }
    if args.grid_part.is_some() {
        return Err(Usage::error(
            "--grid-part is a part of the cells of --grid, which is not there",
        ));
    }
    let made = made(args)?;
    let mut rows = Vec::new();
    each(args, &made.inputs, |measured| {
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

/// Makes the relations of a run, once its options are checked.
pub(crate) fn made(args: &JoinArgs) -> Result<Made> {
    check(args)?;
    Ok(Made {
        width: Width::from(args.tuple),
        workload: workload(args),
        memory_bytes: args.memory_bytes,
        inputs: inputs(args, &workload(args), &algorithms(args))?,
    })
}

/// Relations, and what they are made by: runs with the same have the same relations.
pub(crate) struct Made {
    width: Width,
    workload: Workload,
    memory_bytes: Option<u64>,
    inputs: Inputs,
}

impl Made {
    /// Whether they are those of a run.
    pub(crate) fn is_of(&self, args: &JoinArgs) -> bool {
        let own = (self.width, self.workload, self.memory_bytes);
        own == (Width::from(args.tuple), workload(args), args.memory_bytes)
    }

    /// Bytes of both.
    pub(crate) fn bytes(&self) -> u64 {
        (self.workload.r_tuples + self.workload.s_tuples) as u64 * self.width.bytes()
    }

    /// Measures everything that the options ask for.
    pub(crate) fn join(&self, args: &JoinArgs) -> Result<Vec<Measured>> {
        let mut found = Vec::new();
        each(args, &self.inputs, |measured| {
            found.push(measured);
            Ok(())
        })?;
        Ok(found)
    }
}

fn each(
    args: &JoinArgs,
    inputs: &Inputs,
    mut found: impl FnMut(Measured) -> Result<()>,
) -> Result<()> {
    for kernel in &args.kernel {
        for algorithm in &algorithms(args) {
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

/// Makes the relations, if memory has room for them and for the least scratch of the algorithms.
fn inputs(args: &JoinArgs, workload: &Workload, algorithms: &[Algorithm]) -> Result<Inputs> {
    let width = Width::from(args.tuple);
    let limit_bytes = args.memory_bytes.or_else(available_bytes);
    let inputs_bytes = (workload.r_tuples + workload.s_tuples) as u64 * width.bytes();
    if let Some(limit_bytes) = limit_bytes {
        for algorithm in algorithms {
            let scratch_bytes = least_scratch_bytes(width, *algorithm, workload);
            let needed_bytes = inputs_bytes + scratch_bytes;
            if needed_bytes > limit_bytes {
                bail!(
                    "{algorithm} needs {needed_bytes} bytes at least, {} for the relations and {} to work in; {limit_bytes} are \
                     available, so nothing was made",
                    bytes(inputs_bytes),
                    bytes(scratch_bytes),
                );
            }
        }
    }
    let note = progress::spinner(format!(
        "making {} and {} tuples",
        thousands(workload.r_tuples as u64),
        thousands(workload.s_tuples as u64)
    ));
    let scratch_bytes_max = args
        .memory_bytes
        .map(|limit_bytes| limit_bytes.saturating_sub(inputs_bytes));
    let made = Inputs::make(width, workload, scratch_bytes_max);
    note.finish_and_clear();
    Ok(made)
}

/// The least scratch memory of an algorithm: copies of the tuples that it moves. The library knows
/// the rest when it sees the relations.
fn least_scratch_bytes(width: Width, algorithm: Algorithm, workload: &Workload) -> u64 {
    let (r, s) = (workload.r_tuples as u64, workload.s_tuples as u64);
    let tuples = match algorithm {
        Algorithm::Auto | Algorithm::NPart => r / 2,
        Algorithm::Radix | Algorithm::MWay | Algorithm::MPass => r + s,
        Algorithm::Mpsm => 2 * (r + s),
    };
    tuples * width.bytes()
}

fn options(args: &JoinArgs, algorithm: Algorithm, kernel: Kernel) -> JoinOptions {
    JoinOptions {
        algorithm,
        kernel,
        threads: args.threads.map(|threads| threads as usize),
        tuning: args.tuning(),
    }
}

/// Refuses options that no relations make possible: settings out of range, kernels that this
/// machine lacks.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{BenchCommand, Command, CommandLine};
    use clap::Parser;

    fn args(words: &[&str]) -> JoinArgs {
        let words = [&["indelible", "bench", "join"], words].concat();
        match CommandLine::parse_from(words).command {
            Command::Bench(BenchCommand::Join(args)) => *args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn memory_is_counted_before_relations_are_made() {
        let of_width = |bytes| {
            args(&[
                "--algorithm",
                "all",
                "--r",
                "1000000",
                "--memory-bytes",
                "50000000",
                "--tuple",
                bytes,
            ])
        };
        let (narrow, wide) = (of_width("8"), of_width("16"));
        let workload = Workload::uniform(1_000_000, 1_000_000);
        let ends_well = |algorithm| inputs(&narrow, &workload, &[algorithm]).is_ok();
        assert!(ends_well(Algorithm::Radix) && ends_well(Algorithm::Mpsm));
        // 2 x 16 MB of relations, and as much to work in.
        let Err(error) = inputs(&wide, &workload, &[Algorithm::Radix]) else {
            panic!("64 MB do not fit 50 MB");
        };
        assert!(error.to_string().contains("64000000 bytes"), "{error}");
    }
}
