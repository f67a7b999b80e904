//! `lab stale`: lists kept reports with the changes of what they measure.
//!
//! Nothing fails because a report is stale, since measuring again takes an hour; pages and CI say
//! it.

use crate::failure::Usage;
use crate::output::{Cell, Format, Listing};
use anyhow::{Context, Result};
use lab::rows;
use lab::stale::{by_commit, changes_since, state};
use std::path::{Path, PathBuf};

/// The file that makes a directory a report.
const ROWS: &str = "rows.jsonl";

/// Runs the command over a report, or the reports in a directory.
pub(super) fn run(directory: &Path, format: Format) -> Result<()> {
    let mut listing = Listing::new(["report", "commit", "rows", "changes since", "state"]);
    for (name, path) in reports(directory)? {
        let rows = rows::read(&path)?.rows;
        for (commit, rows) in by_commit(rows.iter()) {
            let changes = changes_since(commit, &rows, directory);
            listing.push(vec![
                name.as_str().into(),
                commit.into(),
                Cell::Whole(rows.len() as u64),
                changes.map_or(Cell::Null, Cell::Whole),
                state(commit, changes).into(),
            ]);
        }
    }
    listing.print(format)
}

/// The names of reports and their files of rows.
fn reports(directory: &Path) -> Result<Vec<(String, PathBuf)>> {
    let own = directory.join(ROWS);
    if own.is_file() {
        return Ok(vec![(directory.display().to_string(), own)]);
    }
    let problem = || format!("cannot read the directory {}", directory.display());
    let mut reports = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(problem)? {
        let entry = entry.with_context(problem)?;
        let rows = entry.path().join(ROWS);
        if rows.is_file() {
            reports.push((entry.file_name().to_string_lossy().into_owned(), rows));
        }
    }
    if reports.is_empty() {
        return Err(Usage::error(format!(
            "neither {} nor a directory in it has a {ROWS}",
            directory.display()
        )));
    }
    reports.sort();
    Ok(reports)
}
