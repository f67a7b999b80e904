//! Comma-separated values, read and written so that a round trip changes nothing.
//!
//! The rules are those of RFC 4180, and a quoted field is told apart from an unquoted one: an empty field without
//! quotes is NULL, `""` is the empty text. Line ends are LF or CRLF; a byte order mark at the start is skipped.
//! Input that breaks the rules is an error with its line and column, never a guess: a quote inside an
//! unquoted field, text behind a closing quote, a quote that is never closed, bytes that are no UTF-8.

use std::fmt;
use std::io::{self, BufRead, Write};

/// Longest record in bytes: a forgotten quote must not swallow a file of any size.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// One field of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Field {
    /// Without the quotes.
    pub(crate) text: String,
    /// Whether it stood in quotes: `""` is the empty text, nothing at all is NULL.
    pub(crate) quoted: bool,
}

impl Field {
    /// Whether the field stands for NULL.
    pub(crate) fn is_null(&self) -> bool {
        self.text.is_empty() && !self.quoted
    }
}

/// One record: the fields of one row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// One a column.
    pub(crate) fields: Vec<Field>,
    /// Line on which it begins, from 1.
    pub(crate) line: u64,
}

/// Why a record cannot be read.
#[derive(Debug)]
pub(crate) enum CsvError {
    /// This record is malformed; the next one can be read.
    Malformed {
        /// Line on which the record begins, from 1.
        line: u64,
        /// Number of the field, from 1.
        column: usize,
        /// What is wrong, and what to do.
        problem: &'static str,
    },
    /// Where the next record begins is unknown, so reading ends here.
    Lost {
        /// Line on which the record begins, from 1.
        line: u64,
        /// What is wrong.
        problem: &'static str,
    },
    /// The file cannot be read.
    Io(io::Error),
}

impl fmt::Display for CsvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed {
                line,
                column,
                problem,
            } => {
                write!(f, "line {line}, field {column}: {problem}")
            }
            Self::Lost { line, problem } => write!(f, "line {line}: {problem}"),
            Self::Io(error) => write!(f, "{error}"),
        }
    }
}

/// Reads records one after the other.
pub(crate) struct CsvReader<R> {
    input: R,
    separator: u8,
    /// Lines read so far.
    lines: u64,
    /// Bytes read so far.
    bytes: u64,
    raw: Vec<u8>,
    /// Quotes in `raw`. Doubled ones count twice, so an odd number means that a quote is open.
    quotes: usize,
}

impl<R: BufRead> CsvReader<R> {
    /// Reads records whose fields are separated by this byte.
    pub(crate) fn new(input: R, separator: u8) -> Self {
        Self {
            input,
            separator,
            lines: 0,
            bytes: 0,
            raw: Vec::new(),
            quotes: 0,
        }
    }

    /// Bytes read so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads the next record; false at the end. Lines with nothing in them are no records.
    pub(crate) fn read(&mut self, record: &mut Record) -> Result<bool, CsvError> {
        loop {
            self.raw.clear();
            self.quotes = 0;
            if !self.read_line()? {
                return Ok(false);
            }
            if !self.content().is_empty() {
                break;
            }
        }
        record.line = self.lines;
        // A line end inside quotes belongs to the field, so the record goes on while a quote is open.
        while self.quotes % 2 == 1 {
            if self.raw.len() > RECORD_BYTES_MAX || !self.read_line()? {
                return Err(CsvError::Lost {
                    line: record.line,
                    problem: "a quote is opened in this row and never closed",
                });
            }
        }
        let split = split(self.content(), self.separator, &mut record.fields);
        split.map_err(|(column, problem)| CsvError::Malformed {
            line: record.line,
            column,
            problem,
        })?;
        Ok(true)
    }

    /// Adds the next line, with its end, to the raw bytes; false at the end of the file.
    fn read_line(&mut self) -> Result<bool, CsvError> {
        let before = self.raw.len();
        let count = self
            .input
            .read_until(b'\n', &mut self.raw)
            .map_err(CsvError::Io)?;
        let quotes = self.raw[before..].split(|byte| *byte == b'"').count() - 1;
        self.quotes += quotes;
        if self.bytes == 0 && self.raw.starts_with(b"\xEF\xBB\xBF") {
            self.raw.drain(..3);
        }
        self.bytes += count as u64;
        self.lines += u64::from(count > 0);
        Ok(count > 0)
    }

    /// The raw bytes without the line end.
    fn content(&self) -> &[u8] {
        let raw = self.raw.strip_suffix(b"\n").unwrap_or(&self.raw);
        raw.strip_suffix(b"\r").unwrap_or(raw)
    }
}

/// Splits a record into fields; an error is the number of the field, from 1, and what is wrong with it.
fn split(raw: &[u8], separator: u8, fields: &mut Vec<Field>) -> Result<(), (usize, &'static str)> {
    let mut count = 0;
    let mut rest = raw;
    loop {
        if fields.len() == count {
            fields.push(Field::default());
        }
        let field = &mut fields[count];
        count += 1;
        field.text.clear();
        field.quoted = rest.first() == Some(&b'"');
        let taken = if field.quoted {
            quoted(rest, separator, &mut field.text)
        } else {
            unquoted(rest, separator, &mut field.text)
        };
        let taken = taken.map_err(|problem| (count, problem))?;
        match rest.get(taken) {
            None => break,
            Some(_) => rest = &rest[taken + 1..],
        }
    }
    fields.truncate(count);
    Ok(())
}

/// Reads a field without quotes and returns its bytes.
fn unquoted(rest: &[u8], separator: u8, text: &mut String) -> Result<usize, &'static str> {
    let end = rest
        .iter()
        .position(|byte| *byte == separator)
        .unwrap_or(rest.len());
    let raw = &rest[..end];
    if raw.contains(&b'"') {
        return Err(
            "a quote stands inside a field that does not begin with one; \
                    put the whole field in quotes and double the quotes inside",
        );
    }
    text.push_str(utf8(raw)?);
    Ok(end)
}

/// Reads a field in quotes and returns its bytes, quotes included.
fn quoted(rest: &[u8], separator: u8, text: &mut String) -> Result<usize, &'static str> {
    let mut start = 1;
    loop {
        let Some(length) = rest[start..].iter().position(|byte| *byte == b'"') else {
            return Err("the quote that begins this field is not closed in it");
        };
        let end = start + length;
        text.push_str(utf8(&rest[start..end])?);
        match rest.get(end + 1) {
            Some(b'"') => {
                text.push('"');
                start = end + 2;
            }
            next if next.is_none_or(|byte| *byte == separator) => return Ok(end + 1),
            _ => return Err("text stands behind the closing quote"),
        }
    }
}

fn utf8(raw: &[u8]) -> Result<&str, &'static str> {
    std::str::from_utf8(raw).map_err(|_| "the text is not UTF-8; convert the file first")
}

/// Writes a field so that [`CsvReader`] reads the same: NULL is nothing, the empty text is `""`.
pub(crate) fn write_field(
    out: &mut impl Write,
    field: Option<&str>,
    separator: u8,
) -> io::Result<()> {
    let Some(text) = field else { return Ok(()) };
    let special = |byte: &u8| matches!(*byte, b'"' | b'\n' | b'\r') || *byte == separator;
    if text.is_empty() || text.as_bytes().iter().any(special) {
        out.write_all(b"\"")?;
        out.write_all(text.replace('"', "\"\"").as_bytes())?;
        out.write_all(b"\"")
    } else {
        out.write_all(text.as_bytes())
    }
}

/// Writes a record. The caller's rows have a field that is not NULL (their primary key): a lone NULL would be an empty
/// line, which is no record.
pub fn write_record<'a>(
    out: &mut impl Write,
    fields: impl IntoIterator<Item = Option<&'a str>>,
    separator: u8,
) -> io::Result<()> {
    for (index, field) in fields.into_iter().enumerate() {
        if index > 0 {
            out.write_all(&[separator])?;
        }
        write_field(out, field, separator)?;
    }
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: &[u8]) -> Result<Vec<Vec<Option<String>>>, CsvError> {
        let mut reader = CsvReader::new(text, b',');
        let mut record = Record::default();
        let mut rows = Vec::new();
        while reader.read(&mut record)? {
            let fields = record.fields.iter();
            rows.push(
                fields
                    .map(|f| (!f.is_null()).then(|| f.text.clone()))
                    .collect(),
            );
        }
        Ok(rows)
    }

    #[test]
    fn what_is_written_is_read() {
        let rows: Vec<Vec<Option<&str>>> = vec![
            vec![Some("a"), None, Some("")],
            vec![Some("x,y"), Some("say \"hi\""), Some("two\r\nlines\n")],
            vec![Some("\""), Some(" spaces "), Some("é")],
        ];
        let mut bytes = Vec::new();
        for row in &rows {
            write_record(&mut bytes, row.iter().copied(), b',').unwrap();
        }
        let read = read_all(&bytes).unwrap();
        let expected: Vec<Vec<Option<String>>> = rows
            .iter()
            .map(|row| row.iter().map(|f| f.map(str::to_owned)).collect())
            .collect();
        assert_eq!(read, expected);
    }

    #[test]
    fn line_ends_marks_and_empty_lines_do_not_matter() {
        let read = read_all(b"\xEF\xBB\xBFa,b\r\n\r\n1,2\n\n3,4").unwrap();
        assert_eq!(read.len(), 3);
        assert_eq!(read[0][0].as_deref(), Some("a"));
        assert_eq!(read[2][1].as_deref(), Some("4"));
    }

    #[test]
    fn each_break_of_the_rules_is_named_with_its_place() {
        let cases: [(&[u8], &str); 5] = [
            (b"a,b\n1,x\"y\"\n", "line 2, field 2: a quote stands inside"),
            (b"a,b\n\"1\"x,2\n", "line 2, field 1: text stands behind"),
            (b"a\n\"open\nmore\n", "line 2: a quote is opened"),
            (b"a\n\xFF\n", "line 2, field 1: the text is not UTF-8"),
            (b"a,b\n1,x\"\"\n", "line 2, field 2: a quote stands inside"),
        ];
        for (text, expected) in cases {
            let error = read_all(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn reading_goes_on_behind_a_malformed_row() {
        let mut reader = CsvReader::new(&b"a\n\"x\"y\nb\n"[..], b',');
        let mut record = Record::default();
        assert!(reader.read(&mut record).unwrap());
        assert!(matches!(
            reader.read(&mut record),
            Err(CsvError::Malformed { line: 2, .. })
        ));
        assert!(reader.read(&mut record).unwrap());
        assert_eq!((record.fields[0].text.as_str(), record.line), ("b", 3));
    }
}
