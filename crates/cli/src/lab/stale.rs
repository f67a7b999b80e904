//! `lab stale`: lists kept reports with the changes of what they measure.
//!
//! Nothing fails because a report is stale, since measuring again takes an hour; pages and CI say
//! it.

use crate::output::{Cell, Format, Listing};
use anyhow::{Context, Result};
use lab::rows;
use lab::stale::{by_commit, changes_since, state};
use std::path::Path;

/// Runs the command over the reports in a directory.
pub(super) fn run(directory: &Path, format: Format) -> Result<()> {
    let problem = || format!("cannot read the directory {}", directory.display());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(problem)? {
        let entry = entry.with_context(problem)?;
        if entry.path().join("rows.jsonl").is_file() {
            names.push(entry.file_name());
        }
    }
    names.sort();
    let mut listing = Listing::new(["report", "commit", "rows", "changes since", "state"]);
    for name in names {
        let (rows, _) = rows::read(&directory.join(&name).join("rows.jsonl"))?;
        for (commit, rows) in by_commit(rows.iter()) {
            let changes = changes_since(commit, &rows, directory);
            listing.push(vec![
                name.to_string_lossy().into_owned().into(),
                commit.into(),
                Cell::Whole(rows.len() as u64),
                changes.map_or(Cell::Null, Cell::Whole),
                state(commit, changes).into(),
            ]);
        }
    }
    listing.print(format)
}
