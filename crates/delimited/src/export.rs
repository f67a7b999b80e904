//! The writing half of `export` and `dump`: rows as lines.
//!
//! Rows come in the order of the primary key. NULL is an empty field and the empty text is `""`; numbers print so that they read back as
//! the same number.

use crate::records::write_field;
use indelible::{Direction, Row, Table, Transaction, ValueRef};
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;

/// Rows between two reports of the progress.
const PROGRESS_ROWS: u64 = 1024;
/// Bytes that are written at once.
const BUFFER_BYTES: usize = 1 << 16;

/// Writes every row of a table behind `lead`, a line each, and returns how many there are. The progress is told in rows. The
/// outer error is the database's, the inner one that of `out`.
pub fn write_rows(
    out: &mut dyn Write,
    transaction: &mut Transaction<'_>,
    table: &Table,
    lead: &str,
    progress: &mut dyn FnMut(u64),
) -> indelible::Result<io::Result<u64>> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
    let (mut rows, mut failure) = (0, None);
    transaction.scan(table, .., Direction::Forward, |row| {
        rows += 1;
        if rows % PROGRESS_ROWS == 0 {
            progress(rows);
        }
        let written = out
            .write_all(lead.as_bytes())
            .and_then(|()| write_row(&mut out, row))
            .and_then(|()| out.write_all(b"\n"));
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    Ok(match failure {
        Some(error) => Err(error),
        None => out.flush().map(|()| rows),
    })
}

/// Writes the values of a row, separated by commas, without the line end.
fn write_row(out: &mut impl Write, row: &Row) -> io::Result<()> {
    for (column, value) in row.values().enumerate() {
        if column > 0 {
            out.write_all(b",")?;
        }
        match value {
            ValueRef::Null => {}
            ValueRef::Text(text) => write_field(out, Some(text), b',')?,
            // Nothing else prints with commas, quotes or line ends in it, nor as nothing.
            other => write!(out, "{other}")?,
        }
    }
    Ok(())
}
