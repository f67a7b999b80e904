//! `info`, `verify`, `shrink` and `device`: content and state of a database, its soundness, its
//! size, and its medium.
//!
//! `verify` is meant for scripts: 0 sound, 1 damage was found, 2 the check could not be made.

use crate::args::{AtomicityName, DatabaseArgs, DeviceArgs};
use crate::failure::{FAILED, Usage};
use crate::output::{Cell, Facts, Format, Listing, bytes, counted, empty_line, stdout};
use crate::printable::printable;
use crate::reading;
use crate::serve;
use crate::streams;
use crate::tables;
use anyhow::{Context, Result};
use indelible::{ArchiveRange, Database, LayoutKind, VerifyReport};
use pmem::device::{Costs, DeviceReport, NativeOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

/// Runs `info`.
pub(crate) fn info(args: &DatabaseArgs, format: Format) -> Result<()> {
    let database = reading::open(&args.path)?;
    let statistics = database.statistics()?;
    let mut facts = Facts::default();
    facts.add("database", args.path.display().to_string());
    facts.add("identity", format!("{:032x}", statistics.database_id));
    facts.add("method", statistics.method.name());
    facts.add("domain", statistics.domain.name());
    facts.add("survives", statistics.survives);
    facts.add("partitions", Cell::Whole(statistics.partitions.into()));
    facts.add("layout", layout_name(statistics.layout));
    facts.add("node bytes", Cell::Whole(statistics.node_bytes.into()));
    facts.add("fences", statistics.fences.name());
    facts.add("tables", Cell::Whole(statistics.tables as u64));
    let footprint = statistics.footprint;
    for (name, count) in [
        ("table bytes", footprint.table),
        ("index bytes", footprint.index),
        ("log bytes", footprint.log),
        ("checkpoint bytes", footprint.checkpoint),
        ("other bytes", footprint.other),
        ("hint bytes", statistics.hint_bytes),
    ] {
        facts.add(name, size(count, format));
    }
    facts.add(
        "opened in ms",
        Cell::number(statistics.opened_in.as_secs_f64() * 1e3, 3),
    );
    facts.add("recovery undone", Cell::Whole(statistics.recovery_undone));
    facts.add(
        "recovery replayed",
        Cell::Whole(statistics.recovery_replayed),
    );
    match database.archives() {
        Ok(archives) => {
            for (partition, archive) in (0_u32..).zip(archives) {
                if let Some(archive) = archive {
                    let name = format!("archive of partition {partition}");
                    facts.add(name, archived(&archive));
                }
            }
        }
        // The other facts are valid without it.
        Err(error) => facts.add("archive", error.to_string()),
    }
    facts.print(format)?;
    if format == Format::Text && statistics.tables > 0 {
        empty_line()?;
        tables::list_tables(&database, format)?;
    }
    Ok(())
}

/// The content of an archive, in one sentence.
fn archived(archive: &ArchiveRange) -> String {
    let Some((first, end)) = archive.range else {
        return "no records yet".to_owned();
    };
    let gaps: Vec<_> = archive
        .gaps
        .iter()
        .map(|(from, to)| format!("{} to {}", from.0, to.0 - 1))
        .collect();
    let missing = match gaps.join(", ") {
        none if none.is_empty() => "without a gap".to_owned(),
        gaps => format!("without {gaps}, when the log was used without its archive"),
    };
    let times = match archive.times {
        Some((first, newest)) => format!(", commits from {first} to {newest} UTC"),
        None => String::new(),
    };
    format!(
        "records {} to {} in {} files of {}, {missing}{times}",
        first.0,
        end.0 - 1,
        archive.files,
        bytes(archive.bytes)
    )
}

/// A size: rounded for people, exact for programs.
fn size(count: u64, format: Format) -> Cell {
    if format == Format::Text {
        bytes(count).into()
    } else {
        Cell::Whole(count)
    }
}

/// The name of a layout on the command line.
pub(crate) fn layout_name(layout: LayoutKind) -> &'static str {
    match layout {
        LayoutKind::Together => "together",
        LayoutKind::Separate => "separate",
    }
}

/// Runs `verify`. Any error means that the check could not be made.
pub(crate) fn verify(args: &DatabaseArgs, format: Format) -> Result<ExitCode> {
    let cannot = || "the check could not be made";
    let report = match reading::open(&args.path) {
        Ok(database) => database.verify().map_err(anyhow::Error::from),
        Err(error) => verify_by_server(&args.path, error),
    };
    let report = report.with_context(cannot)?;
    match print_verdict(&report, format) {
        // The exit code tells the verdict to a reader who has gone away.
        Err(error) if streams::refusal(&error) == Some(ErrorKind::BrokenPipe) => {}
        printed => printed?,
    }
    Ok(if report.damage.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    })
}

/// The check of the server that has a database open.
fn verify_by_server(path: &Path, error: anyhow::Error) -> Result<VerifyReport> {
    let report = serve::ask_server(path, error, "VERIFY")?;
    Ok(VerifyReport {
        rows: report.value("rows")?,
        index_entries: report.value("index entries")?,
        blocks: report.value("blocks")?,
        truncated_keys: report.value("truncated in keys")?,
        damage: report.all("damage").map(str::to_owned).collect(),
    })
}

fn print_verdict(report: &VerifyReport, format: Format) -> Result<()> {
    if format == Format::Text {
        let mut out = stdout();
        for damage in &report.damage {
            writeln!(out, "damage: {}", printable(damage))?;
        }
        let verdict = match report.damage.len() {
            0 => "sound".to_owned(),
            count => format!("{count} damages"),
        };
        writeln!(
            out,
            "{verdict}: {} rows, {} index entries and {} blocks checked",
            report.rows, report.index_entries, report.blocks
        )?;
        if report.truncated_keys > 0 {
            let contents = counted(report.truncated_keys, "content", "contents");
            writeln!(out, "truncated in keys: {contents}")?;
        }
        out.flush()?;
    } else {
        let mut listing = Listing::new([
            "sound",
            "rows",
            "index_entries",
            "blocks",
            "truncated_keys",
            "damage",
        ]);
        listing.push(vec![
            Cell::Flag(report.damage.is_empty()),
            Cell::Whole(report.rows),
            Cell::Whole(report.index_entries),
            Cell::Whole(report.blocks),
            Cell::Whole(report.truncated_keys),
            report.damage.join("; ").into(),
        ]);
        listing.print(format)?;
    }
    Ok(())
}

/// Runs `shrink`.
pub(crate) fn shrink(args: &DatabaseArgs, format: Format) -> Result<()> {
    let database = Database::open(&args.path)?;
    let shrunk = database.shrink()?;
    database.close()?;
    let mut facts = Facts::default();
    facts.add("database", args.path.display().to_string());
    facts.add("bytes before", size(shrunk.before_bytes, format));
    facts.add("bytes after", size(shrunk.after_bytes, format));
    facts.print(format)
}

/// Runs `device`.
pub(crate) fn device(args: &DeviceArgs, format: Format) -> Result<()> {
    if !args.path.is_dir() {
        return Err(Usage::error(format!(
            "{} is no directory; give a directory on the medium",
            args.path.display()
        )));
    }
    let options = NativeOptions {
        primitive: args.primitives.map(Into::into),
        ..NativeOptions::default()
    };
    let report = DeviceReport::measure(&args.path, options)?;
    let mut facts = Facts::default();
    facts.add("directory", args.path.display().to_string());
    facts.add("medium", report.medium.name());
    facts.add("filesystem", report.filesystem.as_str());
    facts.add(
        "MAP_SYNC",
        if report.map_sync {
            "accepted"
        } else {
            "refused"
        },
    );
    facts.add("domain", report.domain.name());
    facts.add("survives", report.survives);
    for (name, instruction) in ["flush", "fence", "stream"]
        .into_iter()
        .zip(report.instructions)
    {
        facts.add(name, instruction);
    }
    facts.add(
        "cache-line instructions",
        report.line_instructions.join(", "),
    );
    facts.add(
        "64-byte direct store",
        report.direct_line_store.unwrap_or("none"),
    );
    facts.add(
        "fast commits by",
        way_of_fast(&report, args.power_fail_atomicity),
    );
    add_costs(&mut facts, "", &report.costs);
    add_costs(
        &mut facts,
        "with cache-line instructions: ",
        &report.line_costs,
    );
    facts.add("read miss ns", Cell::number(report.read_miss_ns, 0));
    facts.add(
        "read miss with huge pages ns",
        Cell::number(report.read_miss_huge_ns, 0),
    );
    if let Some(hint) = &report.huge_page_hint {
        facts.add("hint", hint.as_str());
    }
    facts.print(format)
}

/// How `fast` makes a transaction that changes one page durable here, with the promise of the
/// platform that the user states.
fn way_of_fast(report: &DeviceReport, promised: AtomicityName) -> String {
    let by_words = "two header lines in turn, each sealed by an 8-byte word";
    match (promised, report.direct_line_store) {
        (AtomicityName::Line, Some(store)) if report.stores_lines_at_once => {
            format!("two header lines in turn, each stored whole by {store}")
        }
        (AtomicityName::Line, Some(store)) => format!(
            "nothing: {store} helps only where lines are written past the caches, and the domain {} does not; leave the power-fail \
             atomicity at 8, or give --primitives flush to measure",
            report.domain
        ),
        (AtomicityName::Line, None) => "nothing: 64 bytes survive whole only if one instruction stores them, and this processor has none; leave the \
             power-fail atomicity at 8"
            .to_owned(),
        (AtomicityName::Word, Some(store)) if report.stores_lines_at_once => format!(
            "{by_words}; with --power-fail-atomicity 64, if the platform promises that, each stored whole by {store}"
        ),
        (AtomicityName::Word, _) => by_words.to_owned(),
    }
}

fn add_costs(facts: &mut Facts, prefix: &str, costs: &Costs) {
    for (name, ns) in [
        ("store, flush a line, fence ns", costs.line_ns),
        ("16 lines, fence ns", costs.sixteen_lines_ns),
        ("fence alone ns", costs.fence_ns),
        ("stream 1 KiB, fence ns", costs.stream_kib_ns),
    ] {
        facts.add(format!("{prefix}{name}"), Cell::number(ns, 0));
    }
}
