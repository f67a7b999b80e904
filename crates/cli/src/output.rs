//! What commands print: tables and facts, for people, for programs, and for spreadsheets.
//!
//! Results go to standard output and nothing else does; progress and notes go to standard error. In JSON every
//! row is one object on a line of its own.

use anyhow::Result;
use clap::ValueEnum;
use delimited::group_digits;
pub(crate) use delimited::thousands;
use indelible::ValueRef;
use serde_json::{Map, Value as Json};
use std::io::{self, BufWriter, Write};

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
    /// With a header; NULL is an empty field, the empty text is "".
    Csv,
}

/// One printed cell.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Null,
    Text(String),
    /// A number, with its text for people and spreadsheets.
    Number(f64, String),
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
            Self::Text(text) | Self::Number(_, text) => Some(text.clone()),
            Self::Whole(number) => Some(number.to_string()),
            Self::Flag(flag) => Some(flag.to_string()),
        }
    }

    fn json(&self) -> Json {
        match self {
            Self::Null => Json::Null,
            Self::Text(text) => text.as_str().into(),
            Self::Number(number, _) => (*number).into(),
            Self::Whole(number) => (*number).into(),
            Self::Flag(flag) => (*flag).into(),
        }
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

    /// The table for people, in a form that any terminal and any Markdown page can show.
    pub(crate) fn text(&self) -> String {
        let mut table = comfy_table::Table::new();
        table
            .load_style(comfy_table::presets::ASCII_MARKDOWN)
            .set_header(&self.header);
        for row in &self.rows {
            table.add_row(row.iter().map(|cell| {
                let shown = comfy_table::Cell::new(cell.text().unwrap_or_else(|| "NULL".into()));
                match cell {
                    Cell::Number(..) | Cell::Whole(_) => {
                        shown.set_alignment(comfy_table::CellAlignment::Right)
                    }
                    _ => shown,
                }
            }));
        }
        table.to_string()
    }

    /// Prints the rows.
    pub(crate) fn print(&self, format: Format) -> Result<()> {
        let mut out = stdout();
        match format {
            Format::Text if self.rows.is_empty() => {}
            Format::Text => writeln!(out, "{}", self.text())?,
            Format::Json => {
                for row in &self.rows {
                    let cells = self.header.iter().cloned().zip(row.iter().map(Cell::json));
                    writeln!(out, "{}", Json::Object(cells.collect::<Map<_, _>>()))?;
                }
            }
            Format::Csv => {
                delimited::write_record(
                    &mut out,
                    self.header.iter().map(|name| Some(name.as_str())),
                    b',',
                )?;
                for row in &self.rows {
                    let texts: Vec<Option<String>> = row.iter().map(Cell::text).collect();
                    delimited::write_record(&mut out, texts.iter().map(Option::as_deref), b',')?;
                }
            }
        }
        out.flush()?;
        Ok(())
    }
}

/// Names and values about one thing.
#[derive(Default)]
pub(crate) struct Facts(Vec<(String, Cell)>);

impl Facts {
    pub(crate) fn add(&mut self, name: impl Into<String>, value: impl Into<Cell>) {
        self.0.push((name.into(), value.into()));
    }

    /// Prints one fact a line, or one object, or one row.
    pub(crate) fn print(&self, format: Format) -> Result<()> {
        if format != Format::Text {
            let mut listing = Listing::new(self.0.iter().map(|(name, _)| name.replace(' ', "_")));
            listing.push(self.0.iter().map(|(_, value)| value.clone()).collect());
            return listing.print(format);
        }
        let mut out = stdout();
        let width = self
            .0
            .iter()
            .map(|(name, _)| name.chars().count())
            .max()
            .unwrap_or(0);
        for (name, value) in &self.0 {
            let value = value.text().unwrap_or_else(|| "none".into());
            writeln!(out, "{name:<width$}  {value}")?;
        }
        out.flush()?;
        Ok(())
    }
}

/// Buffered standard output.
pub(crate) fn stdout() -> BufWriter<io::StdoutLock<'static>> {
    BufWriter::with_capacity(1 << 16, io::stdout().lock())
}

/// A database value as a cell.
pub(crate) fn value_cell(value: ValueRef<'_>) -> Cell {
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
