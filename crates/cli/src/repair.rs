//! `repair`: rebuilds a lost file of a database from the others.
//!
//! The library does the work (`Database::repair`); this module has the report and the exit code.
//! Damage found in the result is reported as `verify` does.

use crate::args::RepairArgs;
use crate::failure::FAILED;
use crate::output::{Cell, Facts, Format};
use anyhow::{Context, Result};
use indelible::{Database, Effect, Repair};
use std::process::ExitCode;

/// Runs the command.
pub(crate) fn run(args: &RepairArgs, format: Format) -> Result<ExitCode> {
    let mut repair = Repair::new();
    if args.dry_run {
        repair = repair.effect(Effect::Rehearsed);
    }
    if let Some(method) = args.method {
        repair = repair.method(method);
    }
    if let Some(partitions) = args.partitions {
        repair = repair.partitions(partitions);
    }
    let path = args.path.display();
    let repaired =
        Database::repair(&args.path, &repair).with_context(|| format!("cannot repair {path}"))?;
    let mut facts = Facts::default();
    facts.add("database", path.to_string());
    facts.add("method", repaired.method.name());
    facts.add("partitions", Cell::Whole(repaired.partitions.into()));
    let name = if args.dry_run {
        "would rebuild"
    } else {
        "rebuilt"
    };
    let rebuilt = match repaired.rebuilt.as_slice() {
        [] => {
            "nothing: what can be rebuilt is whole; `indelible verify` checks the rest".to_owned()
        }
        steps => steps.join("; "),
    };
    facts.add(name, rebuilt);
    if let Some(replaced) = &repaired.replaced {
        facts.add("replaced files", replaced.display().to_string());
    }
    let mut code = ExitCode::SUCCESS;
    if let Some(report) = &repaired.report {
        facts.add("rows", Cell::Whole(report.rows));
        let verdict = match report.damage.as_slice() {
            [] => "sound".to_owned(),
            damage => damage.join("; "),
        };
        facts.add("verify", verdict);
        if !report.damage.is_empty() {
            code = ExitCode::from(FAILED);
        }
    }
    facts.print(format)?;
    Ok(code)
}
