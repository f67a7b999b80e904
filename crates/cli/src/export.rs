//! `export`: a table as CSV that imports to the same rows.
//!
//! Rows come in the order of the primary key, as of one moment. NULL is an empty field and the empty text is `""`;
//! numbers print so that they read back as the same number.

use crate::args::ExportArgs;
use crate::csv;
use crate::files::{Existing, OutputFile};
use crate::progress;
use anyhow::{Context, Result};
use indelible::{Database, Direction, Row, Table, ValueRef};
use std::io::{self, Write};
use std::ops::ControlFlow;

/// Runs the command.
pub(crate) fn run(args: &ExportArgs) -> Result<()> {
    let database = Database::open(&args.path)?;
    let table = database.table(&args.table)?;
    let mut out = OutputFile::create(&args.file, Existing::from_force(args.force))?;
    let bar = progress::spinner(format!("exporting {}", args.table));
    let mut rows = 0;
    let mut failure = None;
    let names: Vec<String> = table
        .definition()
        .columns
        .into_iter()
        .map(|column| column.name)
        .collect();
    csv::write_record(&mut out, names.iter().map(|name| Some(name.as_str())), b',')?;
    for_each_row(&database, &table, |row| {
        rows += 1;
        if rows % 1024 == 0 {
            bar.set_message(format!("exporting {}: {rows} rows", args.table));
        }
        match write_row(&mut out, row).and_then(|()| out.write_all(b"\n")) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(error) = failure {
        return Err(error).with_context(|| format!("cannot write {}", args.file.display()));
    }
    bar.finish_and_clear();
    out.finish()
}

/// Visits every row of a table in the order of its primary key.
fn for_each_row(
    database: &Database,
    table: &Table,
    mut visit: impl FnMut(&Row) -> ControlFlow<()>,
) -> Result<()> {
    // A reader that conflicts runs again, and what was written cannot be taken back: so this one is run by hand.
    let mut transaction = database.begin()?;
    transaction.scan(table, .., Direction::Forward, &mut visit)?;
    transaction.commit()?;
    Ok(())
}

/// Writes the values of a row, separated by commas, without the line end.
pub(crate) fn write_row(out: &mut impl Write, row: &Row) -> io::Result<()> {
    for (column, value) in row.values().enumerate() {
        if column > 0 {
            out.write_all(b",")?;
        }
        match value {
            ValueRef::Null => {}
            ValueRef::Text(text) => csv::write_field(out, Some(text), b',')?,
            // Nothing else prints with commas, quotes or line ends in it, nor as nothing.
            other => write!(out, "{other}")?,
        }
    }
    Ok(())
}
