//! `backup`: a whole database in one checked, compressed file.
//!
//! The library does the work (`Database::backup`); this module shows the progress and the report.
//! `restore` and `convert` use the same report of a copy.

use crate::args::BackupArgs;
use crate::failure::Usage;
use crate::files::{self, InputFile, OutputFile};
use crate::output::{Cell, Facts, Format, bytes, counted, note};
use crate::progress;
use crate::reading;
use crate::serve;
use anyhow::{Context, Result};
use indelible::{CopyProgress, CopyReport, CopyStage, Database};
use indicatif::ProgressBar;
use std::path::Path;
use std::time::Duration;

/// Runs the command.
pub(crate) fn run(args: &BackupArgs, format: Format) -> Result<()> {
    match (&args.check, &args.path, &args.file) {
        (Some(file), _, _) => check(file, format),
        (None, Some(path), Some(file)) => backup(path, file, args, format),
        _ => Err(Usage::error("give the database and the file of the backup")),
    }
}

fn backup(path: &Path, file: &Path, args: &BackupArgs, format: Format) -> Result<()> {
    files::refuse_inside(file, path)?;
    // A backup of pages begins with a checkpoint, which writes.
    let database = if args.pages {
        Database::open(path).map_err(anyhow::Error::from)
    } else {
        reading::open(path)
    };
    let database = match database {
        Ok(database) => database,
        Err(error) => {
            let report = backup_by_server(path, file, args, error)?;
            return print_report(path, file, &report, format);
        }
    };
    let mut out = OutputFile::create_binary(file, files::existing(args.force))?;
    let bar = progress::spinner("backing up");
    let watch = &mut |progress: &CopyProgress<'_>| show(&bar, progress);
    let report = if args.pages {
        database.backup_pages_to(&mut out, watch)
    } else {
        database.backup_to(&mut out, watch)
    };
    bar.finish_and_clear();
    let report = report?;
    out.finish()?;
    database.close()?;
    if files::is_standard(file) {
        let rows = counted(report.rows, "row", "rows");
        let content = format!(
            "content {:016x}, {}",
            report.content,
            bytes(report.file_bytes)
        );
        note(&match report.pages {
            0 => format!("backed up {rows} of {} ({content})", path.display()),
            pages => format!(
                "backed up {} of {} ({content})",
                counted(pages, "page", "pages"),
                path.display()
            ),
        });
        return Ok(());
    }
    print_report(path, file, &report, format)
}

/// The backup of the server that has a database open, which writes the file itself.
fn backup_by_server(
    path: &Path,
    file: &Path,
    args: &BackupArgs,
    error: anyhow::Error,
) -> Result<CopyReport> {
    if files::is_standard(file) {
        return Err(error.context("a server that has the database open needs the name of a file"));
    }
    let pages = if args.pages { "PAGES " } else { "" };
    let force = if args.force { " FORCE" } else { "" };
    let name = std::path::absolute(file)?
        .display()
        .to_string()
        .replace('\'', "''");
    let report = serve::ask_server(path, error, &format!("BACKUP {pages}TO '{name}'{force}"))?;
    let content: String = report.value("content")?;
    Ok(CopyReport {
        method: report.value("method")?,
        tables: report.value("tables")?,
        indexes: report.value("indexes")?,
        rows: report.value("rows")?,
        content: u64::from_str_radix(&content, 16)?,
        plain_bytes: report.value("plain bytes")?,
        pages: report.value("pages")?,
        replayed: None,
        file_bytes: report.value("file bytes")?,
        held: Duration::from_secs_f64(report.value::<f64>("held ms")? / 1e3),
    })
}

fn print_report(path: &Path, file: &Path, report: &CopyReport, format: Format) -> Result<()> {
    let mut facts = Facts::default();
    facts.add("backup", file.display().to_string());
    facts.add("database", path.display().to_string());
    add_report(&mut facts, report, format);
    facts.print(format)
}

fn check(file: &Path, format: Format) -> Result<()> {
    let mut input = InputFile::open(file)?;
    let bar = progress::spinner("checking");
    let watch = &mut |progress: &CopyProgress<'_>| show(&bar, progress);
    let report = Database::check_backup_from(&mut input.bytes, watch);
    bar.finish_and_clear();
    let report = report.with_context(|| input.name.clone())?;
    let mut facts = Facts::default();
    facts.add("backup", input.name);
    facts.add("verdict", "sound");
    add_report(&mut facts, &report, format);
    facts.print(format)
}

/// Shows how far a copy is on a bar without an end.
pub(crate) fn show(bar: &ProgressBar, progress: &CopyProgress<'_>) {
    let action = match progress.stage {
        CopyStage::Pages => {
            let pages = crate::output::thousands(progress.rows);
            return bar.set_message(format!("copying {pages} pages"));
        }
        CopyStage::Rows => "copying",
        CopyStage::Indexes => "building the indexes of",
        CopyStage::Check => "reading back",
    };
    let rows = crate::output::thousands(progress.rows);
    progress::tell(bar, &format!("{action} {}: {rows} rows", progress.table));
}

/// Adds the report of a copy.
pub(crate) fn add_report(facts: &mut Facts, report: &CopyReport, format: Format) {
    let size = |count: u64| {
        if format == Format::Text {
            Cell::from(bytes(count))
        } else {
            Cell::Whole(count)
        }
    };
    facts.add("method", report.method.name());
    if report.pages > 0 {
        facts.add("pages", Cell::Whole(report.pages));
        facts.add("content", format!("{:016x}", report.content));
        facts.add("page bytes", size(report.plain_bytes));
    } else {
        facts.add("tables", Cell::Whole(report.tables));
        facts.add("indexes", Cell::Whole(report.indexes));
        facts.add("rows", Cell::Whole(report.rows));
        facts.add("content", format!("{:016x}", report.content));
        facts.add("row bytes", size(report.plain_bytes));
    }
    if report.file_bytes > 0 {
        facts.add("file bytes", size(report.file_bytes));
    }
    if !report.held.is_zero() {
        let held_ms = report.held.as_secs_f64() * 1e3;
        facts.add("held ms", Cell::number(held_ms, 1));
    }
}
