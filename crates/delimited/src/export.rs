//! The writing half of `export` and `dump`: rows as lines.
//!
//! Rows come in the order of the primary key. NULL is an empty field and the empty text is `""`;
//! numbers print so that they read back as the same number. The crate `csv-core` decides which
//! fields need quotes and writes them.

use csv_core::{WriteResult, Writer, WriterBuilder};
use indelible::{Direction, Row, Table, Transaction, ValueRef};
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;

/// Rows between two reports of the progress.
const PROGRESS_ROWS: u64 = 1024;
/// Bytes of one write.
const BUFFER_BYTES: usize = 1 << 16;
/// Bytes of a field that are quoted in one step.
const QUOTED_BYTES: usize = 1 << 10;

/// Writes every row of a table after `lead`, a line each, and returns their number. The progress is
/// reported in rows. The outer error is the database's, the inner one that of `out`.
pub fn write_rows(
    out: &mut dyn Write,
    transaction: &mut Transaction<'_>,
    table: &Table,
    lead: &str,
    progress: &mut dyn FnMut(u64),
) -> indelible::Result<io::Result<u64>> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
    let quotes = quotes(b',');
    let (mut rows, mut failure) = (0, None);
    transaction.scan(table, .., Direction::Forward, |row| {
        rows += 1;
        if rows % PROGRESS_ROWS == 0 {
            progress(rows);
        }
        let written = out
            .write_all(lead.as_bytes())
            .and_then(|()| write_row(&mut out, row, &quotes))
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

/// Writes the names of columns so that an import reads the same.
pub fn write_header(out: &mut dyn Write, names: &[String]) -> io::Result<()> {
    let quotes = quotes(b',');
    for (column, name) in names.iter().enumerate() {
        if column > 0 {
            out.write_all(b",")?;
        }
        // Blanks around a name mean nothing outside quotes, and a file may begin with a mark or
        // with the name of its separator.
        let is_plain = name.trim() == name
            && !(column == 0 && (name.starts_with('\u{FEFF}') || name.starts_with("sep=")));
        if is_plain {
            write_field(out, Some(name), &quotes)?;
        } else {
            write_quoted(out, name)?;
        }
    }
    out.write_all(b"\n")
}

/// Writes a record. The caller's rows have a field that is not NULL (their primary key): a lone
/// NULL would be an empty line, which is no record.
pub fn write_record<'a>(
    out: &mut impl Write,
    fields: impl IntoIterator<Item = Option<&'a str>>,
    separator: u8,
) -> io::Result<()> {
    let quotes = quotes(separator);
    for (index, field) in fields.into_iter().enumerate() {
        if index > 0 {
            out.write_all(&[separator])?;
        }
        write_field(out, field, &quotes)?;
    }
    out.write_all(b"\n")
}

/// Decides which fields need quotes.
fn quotes(separator: u8) -> Writer {
    WriterBuilder::new().delimiter(separator).build()
}

/// Writes the values of a row, separated by commas, without the line end.
fn write_row(out: &mut impl Write, row: &Row, quotes: &Writer) -> io::Result<()> {
    for (column, value) in row.values().enumerate() {
        if column > 0 {
            out.write_all(b",")?;
        }
        match value {
            ValueRef::Null => {}
            ValueRef::Text(text) => write_field(out, Some(text), quotes)?,
            // Nothing else prints with commas, quotes or line ends in it, nor as nothing.
            other => write!(out, "{other}")?,
        }
    }
    Ok(())
}

/// Writes a field so that an import reads the same: NULL is nothing, the empty text is `""`.
fn write_field(
    out: &mut (impl Write + ?Sized),
    field: Option<&str>,
    quotes: &Writer,
) -> io::Result<()> {
    let Some(text) = field else { return Ok(()) };
    // A mark in front would be taken for that of the file.
    if text.is_empty() || text.starts_with('\u{FEFF}') || quotes.should_quote(text.as_bytes()) {
        write_quoted(out, text)
    } else {
        out.write_all(text.as_bytes())
    }
}

fn write_quoted(out: &mut (impl Write + ?Sized), text: &str) -> io::Result<()> {
    let mut quoted = [0; QUOTED_BYTES];
    let mut rest = text.as_bytes();
    out.write_all(b"\"")?;
    loop {
        let (result, read, written) = csv_core::quote(rest, &mut quoted, b'"', b'"', true);
        out.write_all(&quoted[..written])?;
        rest = &rest[read..];
        if result == WriteResult::InputEmpty {
            return out.write_all(b"\"");
        }
    }
}
