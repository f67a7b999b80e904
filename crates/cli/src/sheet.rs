//! A table for people, printed while its rows come.
//!
//! The first rows decide the widths of the columns. Then they are printed, and every later row at
//! once, so a table of any length takes the memory of a few rows. A later cell that is wider than
//! its column moves only the rest of its row. The form is that of a Markdown table, which any
//! terminal and any page can show.

use crate::printable::printable;
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr;

/// Rows, and bytes of them, that are read before the first is printed.
const ROWS_AHEAD: usize = 1000;
const BYTES_AHEAD: usize = 1 << 20;

/// Alignment of a cell in its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// A table under construction.
pub(crate) struct Sheet {
    header: Vec<String>,
    /// Columns of the terminal that each column takes.
    widths: Vec<usize>,
    /// Rows that are not printed yet; empty once the header is printed.
    ahead: Vec<Vec<(Side, String)>>,
    ahead_bytes: usize,
    has_begun: bool,
}

impl Sheet {
    pub(crate) fn new(header: &[String]) -> Self {
        let header: Vec<String> = header.iter().map(|name| printable(name).into()).collect();
        Self {
            widths: header.iter().map(|name| name.width()).collect(),
            header,
            ahead: Vec::new(),
            ahead_bytes: 0,
            has_begun: false,
        }
    }

    /// Prints a row, or keeps it until the widths are known.
    pub(crate) fn push(
        &mut self,
        out: &mut impl Write,
        row: Vec<(Side, String)>,
    ) -> io::Result<()> {
        let row: Vec<(Side, String)> = row
            .into_iter()
            .map(|(side, text)| (side, printable(&text).into()))
            .collect();
        if self.has_begun {
            return self.write_row(out, &row);
        }
        for (width, (_, text)) in self.widths.iter_mut().zip(&row) {
            *width = (*width).max(text.width());
            self.ahead_bytes += text.len();
        }
        self.ahead.push(row);
        if self.ahead.len() >= ROWS_AHEAD || self.ahead_bytes >= BYTES_AHEAD {
            self.begin(out)?;
        }
        Ok(())
    }

    /// Prints the remaining rows. A table without rows still has its header.
    pub(crate) fn finish(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.has_begun {
            Ok(())
        } else {
            self.begin(out)
        }
    }

    fn begin(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.has_begun = true;
        let names = self.header.drain(..).map(|name| (Side::Left, name));
        let names: Vec<(Side, String)> = names.collect();
        self.write_row(out, &names)?;
        for width in &self.widths {
            write!(out, "|{:-<1$}", "", width + 2)?;
        }
        writeln!(out, "|")?;
        for row in std::mem::take(&mut self.ahead) {
            self.write_row(out, &row)?;
        }
        Ok(())
    }

    fn write_row(&self, out: &mut impl Write, row: &[(Side, String)]) -> io::Result<()> {
        for (width, (side, text)) in self.widths.iter().zip(row) {
            let room = width.saturating_sub(text.width());
            match side {
                Side::Left => write!(out, "| {text}{:room$} ", "")?,
                Side::Right => write!(out, "| {:room$}{text} ", "")?,
            }
        }
        writeln!(out, "|")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(text: &str) -> (Side, String) {
        (Side::Left, text.to_owned())
    }

    #[test]
    fn the_first_rows_decide_the_widths() {
        let mut out = Vec::new();
        let mut sheet = Sheet::new(&["name".to_owned(), "size".to_owned()]);
        sheet
            .push(&mut out, vec![cell("日本"), (Side::Right, "7".to_owned())])
            .unwrap();
        sheet
            .push(
                &mut out,
                vec![cell("a\u{1b}"), (Side::Right, "12345".to_owned())],
            )
            .unwrap();
        assert!(
            out.is_empty(),
            "nothing is printed before the widths are known"
        );
        sheet.finish(&mut out).unwrap();
        sheet
            .push(&mut out, vec![cell("longer than that"), cell("1")])
            .unwrap();
        let text = String::from_utf8(out).unwrap();
        let expected = "\
| name    | size  |
|---------|-------|
| 日本    |     7 |
| a\\u{1b} | 12345 |
| longer than that | 1     |
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_table_without_rows_names_its_columns() {
        let mut out = Vec::new();
        let mut sheet = Sheet::new(&["id".to_owned()]);
        sheet.finish(&mut out).unwrap();
        assert_eq!(out, b"| id |\n|----|\n");
    }

    #[test]
    fn a_long_table_is_printed_as_it_comes() {
        let mut out = Vec::new();
        let mut sheet = Sheet::new(&["id".to_owned()]);
        for row in 0..ROWS_AHEAD {
            assert!(out.is_empty(), "{row}");
            sheet.push(&mut out, vec![cell("x")]).unwrap();
        }
        let before = out.len();
        assert!(before > 0);
        sheet.push(&mut out, vec![cell("y")]).unwrap();
        assert!(out.len() > before && sheet.ahead.is_empty());
    }
}
