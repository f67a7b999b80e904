//! Output of commands: tables and facts, for people, for programs, and for spreadsheets.
//!
//! Results go to standard output and nothing else does; progress and notes go to standard error. In
//! JSON every row is one object on a line of its own. Text for people has no character that a
//! terminal obeys ([`printable`]) and long values are cut in it; JSON and CSV are exact.

use crate::failure::Usage;
use crate::files::is_standard;
use crate::printable::{beginning, first_bytes, printable};
use crate::sheet::{Sheet, Side};
use crate::streams;
use anyhow::Result;
use clap::ValueEnum;
use delimited::group_digits;
pub(crate) use delimited::thousands;
use indelible::{Row, ValueRef};
use serde::Serialize;
use serde_json::Value as Json;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
    /// With a header; NULL is an empty field, the empty text is "".
    Csv,
}

/// Format of results on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatName {
    /// For people
    #[default]
    #[value(alias = "table")]
    Text,
    /// One JSON object a line
    Json,
    /// With a header; NULL is an empty field, the empty text is ""
    Csv,
    /// Of `sql`: a table of Markdown
    Markdown,
    /// Of `sql`: a value a line, with the name of its column
    Line,
    /// Of `sql`: a header, tabs between values, NULL is \\N
    Tsv,
}

impl From<Format> for FormatName {
    fn from(format: Format) -> Self {
        match format {
            Format::Text => Self::Text,
            Format::Json => Self::Json,
            Format::Csv => Self::Csv,
        }
    }
}

impl TryFrom<FormatName> for Format {
    type Error = anyhow::Error;

    /// The format for a command that prints reports.
    fn try_from(name: FormatName) -> Result<Self> {
        match name {
            FormatName::Text => Ok(Self::Text),
            FormatName::Json => Ok(Self::Json),
            FormatName::Csv => Ok(Self::Csv),
            FormatName::Markdown | FormatName::Line | FormatName::Tsv => Err(Usage::error(
                "this format is for statements of `indelible sql` only; use text, json or csv",
            )),
        }
    }
}

/// One printed cell.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Null,
    Text(String),
    /// The beginning of a value that is too long for a table, and the bytes of all of it.
    Cut(String, u64),
    /// A number, with its text for people and spreadsheets.
    Number(f64, String),
    /// A number or a document whose text is exact, and is JSON.
    Exact(String),
    Whole(u64),
    Flag(bool),
}

impl Cell {
    /// A number with a fixed count of decimals.
    pub(crate) fn number(value: f64, decimals: usize) -> Self {
        Self::Number(value, format!("{value:.decimals$}"))
    }

    fn text(&self) -> Option<String> {
        match self {
            Self::Null => None,
            Self::Text(text) | Self::Number(_, text) | Self::Exact(text) => Some(text.clone()),
            Self::Cut(text, count) => Some(format!("{text}\u{2026} ({} in all)", bytes(*count))),
            Self::Whole(number) => Some(number.to_string()),
            Self::Flag(flag) => Some(flag.to_string()),
        }
    }

    fn side(&self) -> Side {
        match self {
            Self::Number(..) | Self::Exact(_) | Self::Whole(_) => Side::Right,
            _ => Side::Left,
        }
    }

    fn json(&self) -> String {
        let value: Json = match self {
            Self::Exact(text) => return text.clone(),
            Self::Null => Json::Null,
            Self::Text(text) | Self::Cut(text, _) => text.as_str().into(),
            Self::Number(number, _) => (*number).into(),
            Self::Whole(number) => (*number).into(),
            Self::Flag(flag) => (*flag).into(),
        };
        value.to_string()
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::Text(text.into())
    }
}

/// Rows of cells under a header.
pub(crate) struct Listing {
    header: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

/// Names of the columns of the result before, where a command prints several.
static LAST_HEADER: Mutex<Vec<String>> = Mutex::new(Vec::new());

impl Listing {
    pub(crate) fn new<S: Into<String>>(header: impl IntoIterator<Item = S>) -> Self {
        Self {
            header: header.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    /// The table for people, without the last line end.
    pub(crate) fn text(&self) -> String {
        let mut text = Vec::new();
        // Nothing can fail in memory.
        let _ = self.write(&mut text, Format::Text);
        String::from_utf8_lossy(text.trim_ascii_end()).into_owned()
    }

    /// Prints the rows.
    pub(crate) fn print(&self, format: Format) -> Result<()> {
        let mut out = stdout();
        self.write(&mut out, format)?;
        out.flush()?;
        Ok(())
    }

    /// Prints one of several results of a command: in CSV without the header if the result before
    /// had the same.
    pub(crate) fn print_next(&self, format: Format) -> Result<()> {
        let mut last = LAST_HEADER.lock().unwrap_or_else(PoisonError::into_inner);
        if format != Format::Csv || *last != self.header {
            last.clone_from(&self.header);
            return self.print(format);
        }
        let mut out = stdout();
        for row in &self.rows {
            write_csv(&mut out, row)?;
        }
        Ok(out.flush()?)
    }

    fn write(&self, out: &mut impl Write, format: Format) -> Result<()> {
        let mut rows = Rows::new(out, self.header.clone(), format)?;
        for row in &self.rows {
            rows.push(row)?;
        }
        rows.finish()
    }
}

fn write_csv(out: &mut impl Write, row: &[Cell]) -> Result<()> {
    let texts: Vec<Option<String>> = row.iter().map(Cell::text).collect();
    Ok(delimited::write_record(
        out,
        texts.iter().map(Option::as_deref),
        b',',
    )?)
}

/// Rows of cells under a header that are printed as they come.
pub(crate) struct Rows<W> {
    out: W,
    header: Vec<String>,
    format: FormatName,
    sheet: Sheet,
    has_cut: bool,
    has_begun: bool,
}

impl<W: Write> Rows<W> {
    pub(crate) fn new(
        mut out: W,
        header: Vec<String>,
        format: impl Into<FormatName>,
    ) -> Result<Self> {
        let format = format.into();
        match format {
            FormatName::Csv => {
                let names = header.iter().map(|name| Some(name.as_str()));
                delimited::write_record(&mut out, names, b',')?;
            }
            FormatName::Tsv => write_tabbed(&mut out, header.iter().map(|name| Some(name.into())))?,
            _ => {}
        }
        let header = match format {
            FormatName::Markdown => header.iter().map(|name| in_markdown(name)).collect(),
            _ => header,
        };
        Ok(Self {
            out,
            sheet: Sheet::new(&header),
            header,
            format,
            has_cut: false,
            has_begun: false,
        })
    }

    /// Prints a row. The first rows of a table are kept until the widths of the columns are known.
    pub(crate) fn push(&mut self, row: &[Cell]) -> Result<()> {
        let out = &mut self.out;
        match self.format {
            FormatName::Text | FormatName::Markdown => {
                self.has_cut |= row.iter().any(|cell| matches!(cell, Cell::Cut(..)));
                let is_markdown = self.format == FormatName::Markdown;
                let shown = |cell: &Cell| {
                    let text = cell.text().unwrap_or_else(|| "NULL".into());
                    (
                        cell.side(),
                        if is_markdown {
                            in_markdown(&text)
                        } else {
                            text
                        },
                    )
                };
                self.sheet.push(out, row.iter().map(shown).collect())?;
            }
            FormatName::Json => {
                let pairs = self.header.iter().zip(row);
                let pairs = pairs
                    .map(|(name, cell)| format!("{}:{}", Json::from(name.as_str()), cell.json()));
                writeln!(out, "{{{}}}", pairs.collect::<Vec<_>>().join(","))?;
            }
            FormatName::Csv => write_csv(out, row)?,
            FormatName::Tsv => write_tabbed(out, row.iter().map(Cell::text))?,
            FormatName::Line => {
                if self.has_begun {
                    writeln!(out)?;
                }
                let pairs = self.header.iter().map(String::as_str).zip(row);
                write_facts(out, pairs, " = ", "NULL")?;
            }
        }
        self.has_begun = true;
        Ok(())
    }

    /// Prints the remaining rows, and says so if a value was cut.
    pub(crate) fn finish(mut self) -> Result<()> {
        if matches!(self.format, FormatName::Text | FormatName::Markdown) {
            self.sheet.finish(&mut self.out)?;
        }
        self.out.flush()?;
        if self.has_cut {
            note("long values are cut; --format json and --format csv print them whole");
        }
        Ok(())
    }
}

/// A text in a cell of a table of Markdown.
fn in_markdown(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|")
}

/// A line of texts with tabs between them, with the escapes of COPY's text format.
fn write_tabbed(out: &mut impl Write, texts: impl Iterator<Item = Option<String>>) -> Result<()> {
    let texts = texts.map(|text| match text {
        None => "\\N".to_owned(),
        Some(text) => {
            let escapes = [('\\', "\\\\"), ('\t', "\\t"), ('\n', "\\n"), ('\r', "\\r")];
            escapes
                .iter()
                .fold(text, |text, (letter, escape)| text.replace(*letter, escape))
        }
    });
    Ok(writeln!(out, "{}", texts.collect::<Vec<_>>().join("\t"))?)
}

/// A line for each name and value.
fn write_facts<'a>(
    out: &mut impl Write,
    facts: impl Iterator<Item = (&'a str, &'a Cell)> + Clone,
    between: &str,
    null: &str,
) -> Result<()> {
    let width = facts.clone().map(|(name, _)| name.chars().count()).max();
    let width = width.unwrap_or(0);
    for (name, value) in facts {
        let value = value.text().unwrap_or_else(|| null.into());
        writeln!(
            out,
            "{:<width$}{between}{}",
            printable(name),
            printable(&value)
        )?;
    }
    Ok(())
}

/// Names and values about one thing.
#[derive(Default)]
pub(crate) struct Facts(Vec<(String, Cell)>);

impl Facts {
    pub(crate) fn add(&mut self, name: impl Into<String>, value: impl Into<Cell>) {
        self.0.push((name.into(), value.into()));
    }

    /// Prints one line for people, or the facts for programs.
    pub(crate) fn print_as(&self, sentence: &str, format: Format) -> Result<()> {
        if format != Format::Text {
            return self.print(format);
        }
        let mut out = stdout();
        writeln!(out, "{}", printable(sentence))?;
        Ok(out.flush()?)
    }

    /// The same for a command that wrote a file; where that is standard output, nothing else may go
    /// there.
    pub(crate) fn print_beside(&self, file: &Path, sentence: &str, format: Format) -> Result<()> {
        if is_standard(file) {
            note(sentence);
            return Ok(());
        }
        self.print_as(sentence, format)
    }

    /// Prints one fact a line, or one object, or one row.
    pub(crate) fn print(&self, format: Format) -> Result<()> {
        if format != Format::Text {
            return self.listing().print(format);
        }
        let mut out = stdout();
        let facts = self.0.iter().map(|(name, value)| (name.as_str(), value));
        write_facts(&mut out, facts, "  ", "none")?;
        out.flush()?;
        Ok(())
    }

    /// Prints one of several results of a command, as [`Listing::print_next`] does.
    pub(crate) fn print_next(&self, format: Format) -> Result<()> {
        match format {
            Format::Csv => self.listing().print_next(format),
            _ => self.print(format),
        }
    }

    fn listing(&self) -> Listing {
        let mut listing = Listing::new(self.0.iter().map(|(name, _)| name.replace(' ', "_")));
        listing.push(self.0.iter().map(|(_, value)| value.clone()).collect());
        listing
    }
}

/// Tells a person something in addition to the results, on standard error.
pub(crate) fn note(text: &str) {
    streams::tell(&printable(text));
}

/// Buffered standard output.
pub(crate) fn stdout() -> streams::Output {
    streams::output()
}

/// Prints a line between two results.
pub(crate) fn empty_line() -> Result<()> {
    let mut out = stdout();
    writeln!(out)?;
    Ok(out.flush()?)
}

/// Prints a row as JSON, at once.
pub(crate) fn print_json(row: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(row)?;
    let mut out = stdout();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// A row of the database as cells. For people the ends of long values are not even copied.
pub(crate) fn row_cells(row: &Row, format: Format) -> Vec<Cell> {
    let shown = |value| match value {
        ValueRef::Text(text) => {
            beginning(text).map(|start| Cell::Cut(start.to_owned(), text.len() as u64))
        }
        ValueRef::Bytes(all) => first_bytes(all)
            .map(|start| Cell::Cut(ValueRef::Bytes(start).to_string(), all.len() as u64)),
        _ => None,
    };
    row.values()
        .map(|value| match format {
            Format::Text => shown(value).unwrap_or_else(|| value_cell(value)),
            Format::Json | Format::Csv => value_cell(value),
        })
        .collect()
}

/// A database value as a cell.
fn value_cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Bool(flag) => Cell::Flag(flag),
        other => match other.as_i64() {
            Some(number) if number >= 0 => Cell::Whole(number.unsigned_abs()),
            Some(number) if number.unsigned_abs() < 1 << 53 => {
                Cell::Number(number as f64, number.to_string())
            }
            _ => match other.as_f64() {
                // JSON has no infinities; as text they survive.
                Some(number) if number.is_finite() => Cell::Number(number, number.to_string()),
                _ => Cell::Text(other.to_string()),
            },
        },
    }
}

/// `1 row`, `2,000 rows`.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!(
        "{} {}",
        thousands(count),
        if count == 1 { one } else { many }
    )
}

/// `12,345,678` for a number that is not negative; decimals are rounded away.
pub(crate) fn whole(number: f64) -> String {
    group_digits(&format!("{number:.0}"))
}

/// `1.5 MiB`.
pub(crate) fn bytes(count: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        return format!("{count} bytes");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", units[unit])
}

/// `850 ns`, `1.5 us`, `12 ms`, `3.4 s`.
pub(crate) fn duration(us: f64) -> String {
    match us {
        us if us < 1.0 => format!("{:.0} ns", us * 1000.0),
        us if us < 1000.0 => format!("{us:.1} us"),
        us if us < 1e6 => format!("{:.1} ms", us / 1e3),
        us => format!("{:.1} s", us / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(whole(1_234_566.5), "1,234,566");
        assert_eq!(bytes(1023), "1023 bytes");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(3 << 30), "3.0 GiB");
        assert_eq!(duration(0.25), "250 ns");
        assert_eq!(counted(1, "row", "rows"), "1 row");
        assert_eq!(counted(2000, "row", "rows"), "2,000 rows");
        assert_eq!(duration(2500.0), "2.5 ms");
    }

    #[test]
    fn values_keep_their_kind() {
        assert!(matches!(value_cell(ValueRef::Int64(-5)), Cell::Number(_, text) if text == "-5"));
        assert!(matches!(
            value_cell(ValueRef::Int64(i64::MIN)),
            Cell::Text(_)
        ));
        assert!(matches!(
            value_cell(ValueRef::Float64(f64::NAN)),
            Cell::Text(_)
        ));
        assert!(matches!(value_cell(ValueRef::Null), Cell::Null));
    }
}
