//! `bench btree-insert`: rows of one size are inserted into one tree, in key order or not; or its
//! rows are updated or deleted.
//!
//! The operations and their clock are those of `measure::tree`. This module has the database around
//! them, the checks of the options, and the rows.

use super::runs::{self, About, Setting};
use super::standard::WatchedRow;
use crate::args::{BtreeArgs, BtreeMix};
use crate::failure::Usage;
use crate::output::Format;
use anyhow::{Context, Result};
use indelible::Method;
use measure::tree::{self, KEY_BYTES, TreeOptions};
use measure::{Limit, Sampling};

/// Operations of a run that has neither a number of transactions nor a time.
const OPERATIONS_DEFAULT: u64 = 1_000_000;

/// Runs the command.
pub(super) fn run(args: &BtreeArgs, format: Format) -> Result<()> {
    let run = &args.run;
    if run.partitions != 1 || run.threads() != 1 {
        return Err(Usage::error(
            "btree-insert has one tree and one thread; leave --partitions and --threads out",
        ));
    }
    if run.record.is_some() && (args.method.len() > 1 || run.repeat > 1) {
        return Err(Usage::error(
            "--record-trace takes one run; give one method and no --repeat",
        ));
    }
    let changes_rows = matches!(args.mix, BtreeMix::Update | BtreeMix::Mixed);
    if changes_rows && args.record_bytes <= KEY_BYTES {
        return Err(Usage::error(format!(
            "a row of {} bytes is its key, which an update does not change; use --record {} or more",
            args.record_bytes,
            KEY_BYTES + 1
        )));
    }
    runs::check(run, &args.method, false)?;
    runs::check_effect(run, &args.method)?;
    let mut rows = Vec::new();
    for _ in 0..run.repeat {
        for method in &args.method {
            let (row, _) = measured(args, *method, Sampling::Off)
                .with_context(|| format!("method {method}"))?;
            runs::print_row(&row, format)?;
            rows.push(row);
        }
    }
    runs::print_rows(&rows, format)
}

/// Runs the first method of the options on a database of its own.
pub(crate) fn first(args: &BtreeArgs, sampling: Sampling) -> Result<WatchedRow> {
    runs::check(&args.run, &args.method, false)?;
    let Some(method) = args.method.first() else {
        return Err(Usage::error("name a method"));
    };
    measured(args, *method, sampling)
}

/// One run on a database of its own.
fn measured(args: &BtreeArgs, method: Method, sampling: Sampling) -> Result<WatchedRow> {
    let run = &args.run;
    let scratch = runs::scratch(run)?;
    let (database, emulators, delays) = runs::open(run, method, &scratch)?;
    let options = args.options();
    let table = tree::create(&options, &database)?;
    delays.set(false);
    tree::load(&options, &database, &table)?;
    let limit = match runs::limit(run, OPERATIONS_DEFAULT.div_ceil(args.txn_size)) {
        // No more rows than there are can be deleted.
        Limit::Transactions(most) if args.mix == BtreeMix::Delete => {
            Limit::Transactions(most.min(args.rows / args.txn_size))
        }
        limit => limit,
    };
    runs::start_record(run, &database)?;
    delays.set(true);
    let before = runs::read(&database, &emulators)?;
    let acknowledge = runs::acknowledge(run);
    let (measured, seen) =
        tree::measure(&options, &database, &table, limit, acknowledge, sampling)?;
    let after = runs::read(&database, &emulators)?;
    delays.set(false);
    runs::finish_record(run, &database)?;
    if !run.skip_check {
        tree::check(&options, &database, &table, measured.txns).context("after the run")?;
    }
    let about = About {
        workload: "btree-insert",
        mix: format!(
            "{}, record {}, txn-size {}",
            args.mix.name(),
            args.record_bytes,
            args.txn_size
        ),
        skew: args.order.name(),
        rows: options.loaded(),
        partitions: 1,
        threads: 1,
        update_columns: 0,
        seed: run.seed,
    };
    let setting = Setting::new(run, method, before.statistics.domain, scratch.path());
    let row = runs::row(&setting, &about, &measured, &before, &after);
    Ok((row, seen))
}

impl BtreeArgs {
    fn options(&self) -> TreeOptions {
        TreeOptions {
            mix: self.mix.into(),
            order: self.order.into(),
            record_bytes: self.record_bytes,
            txn_size: self.txn_size,
            rows: self.rows,
            seed: self.run.seed,
        }
    }
}
