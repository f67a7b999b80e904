//! `restore`: a new database from a backup file, all of it or nothing.
//!
//! The library does the work (`Database::restore`): it verifies every checksum and reads the new
//! database back before it gets its name. This module has the progress and the report.

use crate::args::{RestoreArgs, UntilArg};
use crate::backup::{add_report, show};
use crate::files::InputFile;
use crate::output::{Cell, Facts, Format};
use crate::progress;
use anyhow::{Context, Result};
use indelible::{CopyStage, Database, Replay, ReplayEnd, ReplayReport};
use std::path::Path;

/// Runs the command.
pub(crate) fn run(args: &RestoreArgs, format: Format) -> Result<()> {
    let options = args.database.options(args.method);
    options.check()?;
    let mut input = InputFile::open(&args.file)?;
    let bar = progress::bytes("restoring", input.length);
    let watch = &mut |progress: &indelible::CopyProgress<'_>| {
        if progress.stage == CopyStage::Rows {
            bar.set_position(progress.file_bytes);
        } else {
            show(&bar, progress);
        }
    };
    let replay = args.replay.as_ref().map(|archive| {
        let replay = Replay::new(archive);
        match args.until {
            Some(UntilArg::Place(place)) => replay.until(place),
            Some(UntilArg::Time(time)) => replay.until_time(time),
            None => replay,
        }
    });
    let bytes = &mut input.bytes;
    let report = Database::restore_from(bytes, replay.as_ref(), &args.path, &options, watch);
    bar.finish_and_clear();
    let report = report
        .with_context(|| format!("cannot restore {} to {}", input.name, args.path.display()))?;
    let mut facts = Facts::default();
    facts.add("database", args.path.display().to_string());
    facts.add("backup", input.name);
    if let (Some(archive), Some(replayed)) = (&args.replay, &report.replayed) {
        add_replayed(&mut facts, archive, replayed);
    }
    add_report(&mut facts, &report, format);
    facts.print(format)
}

/// Adds the moment of the restored database.
fn add_replayed(facts: &mut Facts, archive: &Path, replayed: &ReplayReport) {
    facts.add("replayed", archive.display().to_string());
    match (replayed.end, replayed.places.as_slice()) {
        (ReplayEnd::Backup, _) => {
            let text =
                "the backup: the archives of its partitions have no mark in common behind it";
            facts.add("up to", text.to_owned());
        }
        (ReplayEnd::Place, &[reached]) => facts.add("up to", Cell::Whole(reached)),
        (ReplayEnd::Mark(Some(time)), _) => facts.add("up to", format!("the mark of {time}")),
        _ => facts.add("up to", "a mark".to_owned()),
    }
    facts.add("transactions", Cell::Whole(replayed.transactions));
    if let Some(time) = replayed.last_commit {
        facts.add("the last one of", time.to_string());
    }
}
