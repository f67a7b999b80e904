//! Printing of answers, in the format that the user chose.
//!
//! Tables and lines are for people: they have a count of rows and the tags of statements. All other
//! formats have rows and nothing else, so that programs can read them. Notices and errors go to
//! standard error.

use super::failure::NamedFile;
use super::report;
use crate::output::{Cell, FormatName, Rows, counted};
use crate::printable::beginning;
use client::{Column, Report, Sink};
use std::cell::RefCell;
use std::io::{self, BufRead, Read, Write};
use std::rc::Rc;

/// Bytes of a file that COPY gets at once.
const COPY_BYTES: usize = 1 << 16;

/// The destination of results. Clones share it.
#[derive(Clone)]
pub(super) struct Out(Rc<RefCell<Box<dyn Write>>>);

impl Out {
    pub(super) fn new(out: impl Write + 'static) -> Self {
        Self(Rc::new(RefCell::new(Box::new(out))))
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().flush()
    }
}

/// The source of `COPY ... FROM STDIN`.
pub(super) enum Input {
    /// A file, up to its end.
    File(NamedFile<Box<dyn Read>>),
    /// Lines of standard input, up to `\.` or its end.
    Lines,
}

/// Receives the answers of statements and prints them.
pub(super) struct Printer<'a> {
    out: Out,
    format: FormatName,
    columns: Vec<Column>,
    /// Names of the columns until there is a row, or the end without one: a statement that fails
    /// before prints nothing.
    names: Option<Vec<String>>,
    rows: Option<Rows<Out>>,
    count: u64,
    /// Rows that the last statement has returned or changed, as its tag says.
    pub(super) processed: u64,
    has_copied: bool,
    input: &'a mut dyn FnMut() -> io::Result<Option<Vec<u8>>>,
}

impl<'a> Printer<'a> {
    pub(super) fn new(
        out: &Out,
        format: FormatName,
        input: &'a mut dyn FnMut() -> io::Result<Option<Vec<u8>>>,
    ) -> Self {
        Self {
            out: out.clone(),
            format,
            columns: Vec::new(),
            names: None,
            rows: None,
            count: 0,
            processed: 0,
            has_copied: false,
            input,
        }
    }

    fn is_for_people(&self) -> bool {
        matches!(self.format, FormatName::Text | FormatName::Line)
    }

    /// Prints the names of the columns, if they are not printed yet.
    fn begin_rows(&mut self) -> io::Result<()> {
        if let Some(names) = self.names.take() {
            let rows = Rows::new(self.out.clone(), names, self.format);
            self.rows = Some(rows.map_err(as_io)?);
        }
        Ok(())
    }
}

impl Sink for Printer<'_> {
    fn columns(&mut self, columns: &[Column]) -> io::Result<()> {
        self.columns = columns.to_vec();
        self.count = 0;
        let names = columns.iter().map(|column| column.name.clone());
        (self.names, self.rows) = (Some(names.collect()), None);
        Ok(())
    }

    fn row(&mut self, values: &[Option<&str>]) -> io::Result<()> {
        self.begin_rows()?;
        let Some(rows) = &mut self.rows else {
            return Ok(());
        };
        self.count += 1;
        let cells = values.iter().zip(&self.columns);
        let cells: Vec<Cell> = cells
            .map(|(value, column)| cell(*value, column, self.format))
            .collect();
        rows.push(&cells).map_err(as_io)
    }

    fn done(&mut self, tag: &str) -> io::Result<()> {
        let number = tag.rsplit(' ').next().and_then(|word| word.parse().ok());
        self.processed = number.unwrap_or(0);
        self.begin_rows()?;
        let rows = self.rows.take();
        let had_rows = rows.is_some();
        // Data of COPY are often sent to a file, where a tag would be one more row.
        let had_data = std::mem::take(&mut self.has_copied);
        if let Some(rows) = rows {
            rows.finish().map_err(as_io)?;
        }
        if self.is_for_people() {
            if had_rows {
                writeln!(self.out, "({})\n", counted(self.count, "row", "rows"))?;
            }
            // The tag of a query says what the line above says.
            let is_query = ["SELECT", "FETCH", "SHOW", "EXPLAIN", "EXECUTE"]
                .iter()
                .any(|word| tag.starts_with(word));
            if !(tag.is_empty() || had_data || had_rows && is_query) {
                writeln!(self.out, "{tag}")?;
            }
        }
        self.out.flush()
    }

    fn notice(&mut self, notice: &Report) {
        report::tell(notice, "", None);
    }

    fn copy_out(&mut self, data: &[u8]) -> io::Result<()> {
        self.has_copied = true;
        self.out.write_all(data)
    }

    fn copy_in(&mut self) -> io::Result<Option<Vec<u8>>> {
        (self.input)()
    }
}

impl Input {
    /// The next data; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        match self {
            Self::File(file) => {
                let mut data = vec![0; COPY_BYTES];
                let count = file.read(&mut data)?;
                data.truncate(count);
                Ok(Some(data).filter(|data| !data.is_empty()))
            }
            Self::Lines => {
                let mut line = Vec::new();
                io::stdin().lock().read_until(b'\n', &mut line)?;
                let is_end = line.is_empty() || line.trim_ascii_end() == b"\\.";
                Ok(Some(line).filter(|_| !is_end))
            }
        }
    }
}

/// The error of the stream itself, which tells how the program ends.
fn as_io(error: anyhow::Error) -> io::Error {
    error.downcast().unwrap_or_else(io::Error::other)
}

/// A value as a cell. In JSON numbers and documents are what they are; elsewhere their text is.
fn cell(value: Option<&str>, column: &Column, format: FormatName) -> Cell {
    let Some(text) = value else {
        return Cell::Null;
    };
    let is_json = format == FormatName::Json;
    match column.type_oid {
        16 if is_json => Cell::Flag(text == "t"),
        // Blanks and ends of lines between the parts of a document have no meaning.
        114 | 3802 if is_json => Cell::Exact(text.replace(['\n', '\r'], " ")),
        _ if column.is_number() && !(is_json && has_no_digits(text)) => {
            Cell::Exact(text.to_owned())
        }
        _ => match beginning(text).filter(|_| format == FormatName::Text) {
            Some(start) => Cell::Cut(start.to_owned(), text.len() as u64),
            None => Cell::Text(text.to_owned()),
        },
    }
}

/// `NaN` and the infinities, for which JSON has no number.
fn has_no_digits(text: &str) -> bool {
    !text.ends_with(|letter: char| letter.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn printed(format: FormatName) -> String {
        let kept = Kept::default();
        let mut input = || Ok(None);
        let mut printer = Printer::new(&Out::new(kept.clone()), format, &mut input);
        let columns = [("n", 1700), ("b", 16), ("t", 25), ("j", 3802)];
        let columns = columns.map(|(name, type_oid)| Column {
            name: name.to_owned(),
            type_oid,
        });
        printer.columns(&columns).unwrap();
        printer
            .row(&[Some("1.50"), Some("t"), Some("a|b\tc"), Some("{\"x\": 1}")])
            .unwrap();
        printer.row(&[Some("NaN"), None, Some(""), None]).unwrap();
        printer.done("SELECT 2").unwrap();
        printer.done("INSERT 0 1").unwrap();
        String::from_utf8(kept.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn programs_get_rows_and_nothing_else() {
        assert_eq!(
            printed(FormatName::Json),
            "{\"n\":1.50,\"b\":true,\"t\":\"a|b\\tc\",\"j\":{\"x\": 1}}\n\
             {\"n\":\"NaN\",\"b\":null,\"t\":\"\",\"j\":null}\n"
        );
        assert_eq!(
            printed(FormatName::Csv),
            "n,b,t,j\n1.50,t,a|b\tc,\"{\"\"x\"\": 1}\"\nNaN,,\"\",\n"
        );
        assert_eq!(
            printed(FormatName::Tsv),
            "n\tb\tt\tj\n1.50\tt\ta|b\\tc\t{\"x\": 1}\nNaN\t\\N\t\t\\N\n"
        );
        let markdown = printed(FormatName::Markdown);
        assert!(
            markdown.contains("| a\\|b\\tc |") && !markdown.contains("rows"),
            "{markdown}"
        );
    }

    #[test]
    fn people_get_counts_and_tags() {
        let table = printed(FormatName::Text);
        assert!(table.ends_with("(2 rows)\n\nINSERT 0 1\n"), "{table}");
        assert!(table.contains("| 1.50 | t    |"), "{table}");
        let lines = printed(FormatName::Line);
        assert!(lines.starts_with("n = 1.50\nb = t\n"), "{lines}");
    }
}
