//! Records of comma-separated values: a line of a file is a row, and a field in quotes may span
//! lines.
//!
//! The crate `csv-core` finds fields and their ends. This module adds the rest: a quoted field is
//! distinguished from an unquoted one, because an empty field is NULL and `""` is the empty text;
//! every record keeps its line number and its bytes, so that it can be named and written out; and
//! input that `csv-core` would read in some way or other is an error with its line.
//!
//! 1. A quote inside an unquoted field is an ordinary character; text after a closing quote is an
//!    error.
//! 2. A bad record that spans lines ends with the line in which its bad field begins, and reading
//!    resumes at the next line: a forgotten quote costs one row, not the rest of the file. That is
//!    why the bytes of a record stay in the buffer until it has been judged.
//! 3. The first line end of the file says how lines end: LF, after any CR, or CR alone. The other
//!    one outside quotes is an error.
//! 4. Empty lines and lines that begin with the comment character are no records; a byte order mark
//!    at the start is skipped.

use crate::foreign;
use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use std::fmt;
use std::io::{self, Read};
use std::ops::Range;

/// Bytes of one read.
const BUFFER_BYTES: usize = 1 << 18;
/// Longest record: a file without a line end for so long is no table, and the record has to fit
/// into memory.
const RECORD_BYTES_MAX: usize = 256 << 20;
/// Bytes in which the first line end is searched.
const HEAD_BYTES: usize = 1 << 16;
/// A field that spans lines and is longer than this has a forgotten quote, unless the user says
/// otherwise.
const QUOTED_BYTES_MAX: usize = 1 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// How the text of a file is to be understood.
#[derive(Clone, Debug)]
pub struct Dialect {
    /// Separates fields. Without one a first line `sep=;` names it, or it is a comma.
    pub separator: Option<u8>,
    /// Begins a line that is to be skipped.
    pub comment: Option<u8>,
    /// Bytes after which a quoted field that spans lines counts as one whose closing quote was
    /// forgotten.
    pub quoted_bytes_max: usize,
}

impl Default for Dialect {
    fn default() -> Self {
        Self {
            separator: None,
            comment: None,
            quoted_bytes_max: QUOTED_BYTES_MAX,
        }
    }
}

impl Dialect {
    /// That of files that this program has written and does not doubt.
    pub(crate) fn own() -> Self {
        Self {
            separator: Some(b','),
            comment: None,
            quoted_bytes_max: RECORD_BYTES_MAX,
        }
    }
}

/// How many fields a record must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Any number.
    Any,
    /// One a column.
    Columns(usize),
    /// One a column, and an empty one after a separator at the end of the line.
    ColumnsAndSeparator(usize),
}

/// One record: the fields of one row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// The fields without their quotes, one after the other.
    text: String,
    /// The end of each field in `text`. The list has room for more.
    ends: Vec<usize>,
    fields: usize,
    /// Whether each field was in quotes; empty if none of them was.
    quoted: Vec<bool>,
    /// Line on which it begins, from 1.
    pub(crate) line: u64,
}

impl Record {
    /// Number of fields.
    pub(crate) fn len(&self) -> usize {
        self.fields
    }

    /// The text of a field, without its quotes.
    pub(crate) fn text(&self, at: usize) -> &str {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.text[start..self.ends[at]]
    }

    /// Whether a field stood in quotes.
    pub(crate) fn is_quoted(&self, at: usize) -> bool {
        self.quoted.get(at) == Some(&true)
    }

    /// Whether a field is empty and stood in no quotes.
    pub(crate) fn is_null(&self, at: usize) -> bool {
        self.text(at).is_empty() && !self.is_quoted(at)
    }

    /// The texts from this field on.
    pub(crate) fn texts_from(&self, at: usize) -> impl Iterator<Item = &str> {
        (at..self.fields).map(|at| self.text(at))
    }
}

/// Why a record cannot be read.
#[derive(Debug)]
pub(crate) enum RecordError {
    /// This record is malformed; the next one can be read.
    Malformed {
        /// Line on which it begins, or on which the field begins that is malformed; from 1.
        line: u64,
        /// Number of the field, from 1, if one is at fault.
        field: Option<usize>,
        /// The fault and its remedy.
        problem: String,
    },
    /// The file cannot be read at all, with the reason.
    Unusable(String),
    /// The file cannot be read.
    Io(io::Error),
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed {
                line,
                field,
                problem,
            } => {
                write!(f, "line {line}")?;
                if let Some(field) = field {
                    write!(f, ", field {field}")?;
                }
                write!(f, ": {problem}")
            }
            Self::Unusable(reason) => f.write_str(reason),
            Self::Io(error) => write!(f, "{error}"),
        }
    }
}

impl From<io::Error> for RecordError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Why a record is bad, before its line in the file is known. Distances are in bytes from its
/// start.
struct Fault {
    /// Start of the bad field, or of the bad bytes.
    at: usize,
    /// The line end at or after this ends the record.
    skip_from: usize,
    field: Option<usize>,
    problem: String,
}

impl Fault {
    fn of_record(problem: impl Into<String>) -> Self {
        Self {
            at: 0,
            skip_from: 0,
            field: None,
            problem: problem.into(),
        }
    }

    fn of_field(at: usize, field: usize, problem: &str) -> Self {
        Self {
            at,
            skip_from: at,
            field: Some(field + 1),
            problem: problem.into(),
        }
    }
}

/// Reads records one after the other.
pub(crate) struct Records<R> {
    input: R,
    dialect: Dialect,
    separator: u8,
    /// The last byte of a line end.
    line_end: u8,
    shape: Shape,
    parser: Reader,
    /// Bytes that have been read and not been taken: `buffer[start..end]`.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    at_input_end: bool,
    begun: bool,
    /// The line at `start`, from 1.
    line: u64,
    /// Where the fields go without their quotes, before it is known that they are UTF-8.
    output: Vec<u8>,
    /// The bytes of the newest record, with its line end.
    raw: Range<usize>,
    /// The line `sep=;`, if there is one.
    separator_line: Vec<u8>,
}

impl<R: Read> Records<R> {
    /// Reads records of this dialect.
    pub(crate) fn new(input: R, dialect: Dialect) -> Self {
        Self {
            input,
            separator: b',',
            line_end: b'\n',
            shape: Shape::Any,
            parser: Reader::new(),
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            at_input_end: false,
            begun: false,
            line: 1,
            output: vec![0; 1 << 12],
            raw: 0..0,
            separator_line: Vec::new(),
            dialect,
        }
    }

    /// From now on records have this many fields.
    pub(crate) fn set_shape(&mut self, shape: Shape) {
        self.shape = shape;
    }

    pub(crate) fn separator(&self) -> u8 {
        self.separator
    }

    /// The last byte of the line ends of this file.
    pub(crate) fn line_end(&self) -> u8 {
        self.line_end
    }

    pub(crate) fn input(&self) -> &R {
        &self.input
    }

    /// Starts again, once the input has been brought back to its start.
    pub(crate) fn restart(
        &mut self,
        rewind: impl FnOnce(&mut R) -> io::Result<()>,
    ) -> io::Result<()> {
        rewind(&mut self.input)?;
        (self.start, self.end, self.line) = (0, 0, 1);
        (self.at_input_end, self.begun) = (false, false);
        Ok(())
    }

    /// The bytes of the newest record, with its line end; of a bad one, those that are skipped.
    pub(crate) fn raw(&self) -> &[u8] {
        &self.buffer[self.raw.clone()]
    }

    /// The line that names the separator, or nothing.
    pub(crate) fn separator_line(&self) -> &[u8] {
        &self.separator_line
    }

    /// Lets the newest record be read once more, good or bad.
    pub(crate) fn step_back(&mut self, record: &Record) {
        self.start = self.raw.start;
        self.line = record.line;
    }

    /// Reads the next record; false at the end.
    pub(crate) fn read(&mut self, record: &mut Record) -> Result<bool, RecordError> {
        if !self.begun {
            self.begin()?;
        }
        if !self.find_record()? {
            return Ok(false);
        }
        record.line = self.line;
        match self.split(record)? {
            Ok(bytes) => {
                self.take(bytes);
                Ok(true)
            }
            Err(fault) => {
                let before = &self.buffer[self.start..self.start + fault.at];
                let line = self.line + self.line_ends(before);
                self.skip_line(fault.skip_from)?;
                self.reset_parser();
                Err(RecordError::Malformed {
                    line,
                    field: fault.field,
                    problem: fault.problem,
                })
            }
        }
    }

    /// Inspects the first bytes: is this text, which byte separates fields, and how do lines end?
    fn begin(&mut self) -> Result<(), RecordError> {
        self.begun = true;
        while self.end < HEAD_BYTES {
            let head = &self.buffer[..self.end];
            // The byte after carriage returns decides whether they are line ends by themselves.
            let is_decided = line_end_outside_quotes(head)
                .is_some_and(|at| head[at + 1..].iter().any(|byte| *byte != b'\r'));
            if is_decided || !self.fill()? {
                break;
            }
        }
        let head = &self.buffer[..self.end];
        if let Some(reason) = foreign::reason(head) {
            return Err(RecordError::Unusable(reason.into()));
        }
        let mark_bytes = if head.starts_with(BYTE_ORDER_MARK) {
            BYTE_ORDER_MARK.len()
        } else {
            0
        };
        let head = &head[mark_bytes..];
        self.line_end = line_end(head);
        let first = head.split(|byte| is_line_end(*byte)).next();
        let named = match first.unwrap_or_default() {
            [b's' | b'S', b'e' | b'E', b'p' | b'P', b'=', named]
                if named.is_ascii() && !named.is_ascii_alphanumeric() && *named != b'"' =>
            {
                Some(*named)
            }
            _ => None,
        };
        self.separator = match (self.dialect.separator, named) {
            (Some(given), Some(named)) if given != named => {
                return Err(RecordError::Unusable(format!(
                    "its first line says that `{}` separates fields; leave out --separator, or give that one",
                    char::from(named).escape_default()
                )));
            }
            (given, named) => given.or(named).unwrap_or(b','),
        };
        self.start = mark_bytes;
        self.parser = ReaderBuilder::new().delimiter(self.separator).build();
        self.reset_parser();
        if named.is_some() {
            self.skip_line(0)?;
            self.separator_line = self.raw().to_vec();
        }
        Ok(())
    }

    fn reset_parser(&mut self) {
        self.parser.reset();
        // A parser that has read something does not look for a byte order mark, which is a
        // character anywhere but at the start.
        let _ = self.parser.read_record(b"\n", &mut [0], &mut [0]);
    }

    /// Passes over lines that are no records; false at the end of the file.
    fn find_record(&mut self) -> io::Result<bool> {
        loop {
            if self.start == self.end && !self.fill()? {
                return Ok(false);
            }
            let first = self.buffer[self.start];
            if is_line_end(first) {
                let bytes = self.line_end_bytes(0)?;
                if bytes == 0 {
                    return Ok(true);
                }
                self.take(bytes);
            } else if Some(first) == self.dialect.comment {
                self.skip_line(0)?;
            } else {
                return Ok(true);
            }
        }
    }

    /// Finds the fields of the record at `start` and its bytes, line end included.
    fn split(&mut self, record: &mut Record) -> Result<Result<usize, Fault>, RecordError> {
        let (mut bytes, mut out, mut fields) = (0, 0, 0);
        if is_line_end(self.buffer[self.start]) {
            return Ok(Err(self.stray_line_end(0)));
        }
        // Some more than there should be, so that they can be counted.
        let fields_max = self.fields_wanted().saturating_mul(2).saturating_add(64);
        loop {
            if out == self.output.len() {
                self.output.resize(2 * out, 0);
            }
            if fields >= fields_max {
                return Ok(Err(self.first_fault(bytes, fields, record)));
            }
            if fields == record.ends.len() {
                record.ends.resize((2 * fields).max(64), 0);
            }
            let ends_max = record.ends.len().min(fields_max);
            let (result, read_bytes, out_bytes, ends) = self.parser.read_record(
                &self.buffer[self.start + bytes..self.end],
                &mut self.output[out..],
                &mut record.ends[fields..ends_max],
            );
            (bytes, out, fields) = (bytes + read_bytes, out + out_bytes, fields + ends);
            match result {
                ReadRecordResult::Record | ReadRecordResult::End => break,
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {}
                ReadRecordResult::InputEmpty => {
                    let open = fields.checked_sub(1).map_or(0, |last| record.ends[last]);
                    if self.is_too_long(&self.output[open..out]) {
                        return Ok(Err(self.first_fault(bytes, fields, record)));
                    }
                    if bytes > RECORD_BYTES_MAX {
                        return Err(RecordError::Unusable(format!(
                            "line {}: it is longer than {} MiB; this is no table of separated values",
                            self.line,
                            RECORD_BYTES_MAX >> 20
                        )));
                    }
                    // At the end the parser is called once more, with nothing.
                    self.fill()?;
                }
            }
        }
        record.fields = fields;
        let content_bytes = match self.content_bytes(bytes, record) {
            Ok(content_bytes) => content_bytes,
            Err(fault) => return Ok(Err(fault)),
        };
        let line_end_bytes = self.line_end_bytes(content_bytes)?;
        if content_bytes + line_end_bytes < bytes {
            return Ok(Err(self.stray_line_end(content_bytes)));
        }
        Ok(self
            .judge(record, content_bytes, out)
            .map(|()| content_bytes + line_end_bytes))
    }

    /// Bytes of a record that has been split, without its line end; checks the quotes on the way.
    fn content_bytes(&self, bytes: usize, record: &mut Record) -> Result<usize, Fault> {
        record.quoted.clear();
        let raw = &self.buffer[self.start..self.start + bytes];
        if !raw.contains(&b'"') {
            let is_ended = raw.last().is_some_and(|last| is_line_end(*last));
            return Ok(bytes - usize::from(is_ended));
        }
        self.pass_fields(raw, record.fields, record)
            .map(|after_separator| after_separator - 1)
    }

    /// The first fault of a record that begins with these bytes and has these fields, and one more
    /// that is still open or one too many.
    fn first_fault(&self, bytes: usize, fields: usize, record: &mut Record) -> Fault {
        record.quoted.clear();
        let raw = &self.buffer[self.start..self.start + bytes];
        match self.pass_fields(raw, fields.min(self.fields_wanted()), record) {
            Err(fault) => fault,
            Ok(_) if fields >= self.fields_wanted() => self.wrong_count(fields, "more than "),
            Ok(at) => match self.quoted_field_bytes(raw, at, fields) {
                Err(fault) => fault,
                Ok(_) => self.unclosed(at, fields),
            },
        }
    }

    /// Checks the quotes of this many fields and returns where the next one begins.
    fn pass_fields(&self, raw: &[u8], fields: usize, record: &mut Record) -> Result<usize, Fault> {
        let (mut at, mut start) = (0, 0);
        for field in 0..fields {
            if field == self.fields_wanted() {
                return Err(self.wrong_count(fields, ""));
            }
            let is_quoted = raw.get(at) == Some(&b'"');
            record.quoted.push(is_quoted);
            let field_bytes = if is_quoted {
                self.quoted_field_bytes(raw, at, field)?
            } else {
                record.ends[field] - start
            };
            at += field_bytes + 1;
            start = record.ends[field];
        }
        Ok(at)
    }

    /// Bytes of a field in quotes, which begins here.
    fn quoted_field_bytes(&self, raw: &[u8], at: usize, field: usize) -> Result<usize, Fault> {
        let Some(bytes) = quoted_bytes(&raw[at..]) else {
            return Err(self.unclosed(at, field));
        };
        if self.is_too_long(&raw[at + 1..at + bytes - 1]) {
            return Err(self.unclosed(at, field));
        }
        let is_end = |next: &u8| is_line_end(*next) || *next == self.separator;
        if raw.get(at + bytes).is_none_or(is_end) {
            return Ok(bytes);
        }
        let problem = "text follows the closing quote; double the quotes inside a field in quotes";
        Err(Fault::of_field(at, field, problem))
    }

    /// Checks the number of fields and that they are UTF-8, and fills the record.
    fn judge(&self, record: &mut Record, bytes: usize, out: usize) -> Result<(), Fault> {
        let output = &self.output[..out];
        let text = match std::str::from_utf8(output) {
            Ok(text) => text,
            Err(error) => return Err(not_utf8(record, bytes, error.valid_up_to())),
        };
        if !text.is_ascii() {
            let ends = &record.ends[..record.fields];
            if let Some(end) = ends.iter().find(|end| !text.is_char_boundary(**end)) {
                return Err(not_utf8(record, bytes, end - 1));
            }
        }
        record.text.clear();
        record.text.push_str(text);
        match self.shape {
            Shape::Any => Ok(()),
            Shape::Columns(columns) if columns == record.fields => Ok(()),
            Shape::ColumnsAndSeparator(columns) if columns + 1 == record.fields => {
                if !record.is_null(columns) {
                    return Err(Fault::of_record(format!(
                        "the last field has a value, but column {} has no name",
                        columns + 1
                    )));
                }
                record.fields = columns;
                Ok(())
            }
            _ => Err(self.wrong_count(record.fields, "")),
        }
    }

    fn fields_wanted(&self) -> usize {
        match self.shape {
            Shape::Any => usize::MAX,
            Shape::Columns(columns) => columns,
            Shape::ColumnsAndSeparator(columns) => columns + 1,
        }
    }

    fn wrong_count(&self, fields: usize, more_than: &str) -> Fault {
        let noun = if fields == 1 { "field" } else { "fields" };
        let columns = match self.shape {
            Shape::Any => String::new(),
            Shape::Columns(columns) => format!("{columns} columns"),
            Shape::ColumnsAndSeparator(columns) => {
                format!("{columns} columns and a separator at the end of each line")
            }
        };
        Fault::of_record(format!(
            "{more_than}{fields} {noun}, but there are {columns}"
        ))
    }

    fn unclosed(&self, at: usize, field: usize) -> Fault {
        let limit = self.dialect.quoted_bytes_max;
        let problem = format!(
            "a quote opens this field and is never closed, or not within {limit} bytes; close it, put a field \
             that begins with a quote into quotes, or allow longer fields with --quoted-bytes"
        );
        Fault::of_field(at, field, &problem)
    }

    fn stray_line_end(&self, at: usize) -> Fault {
        let problem = if self.line_end == b'\n' {
            "a carriage return stands outside quotes, and lines end with a line feed here; put the field into quotes"
        } else {
            "a line feed stands outside quotes, and lines end with a carriage return here; put the field into quotes"
        };
        Fault {
            at,
            skip_from: at,
            field: None,
            problem: problem.into(),
        }
    }

    fn is_too_long(&self, field: &[u8]) -> bool {
        // Outside quotes a line end would have ended the record.
        let spans_lines = || field.contains(&b'\n') || field.contains(&b'\r');
        field.len() > self.dialect.quoted_bytes_max && spans_lines()
    }

    /// Bytes of the line end at this distance from `start`: 0 if there is none.
    fn line_end_bytes(&mut self, at: usize) -> io::Result<usize> {
        let mut bytes = 0;
        loop {
            if self.start + at + bytes == self.end && !self.fill()? {
                return Ok(bytes);
            }
            match self.buffer[self.start + at + bytes] {
                byte if byte == self.line_end => return Ok(bytes + 1),
                // A line feed ends a line after any number of carriage returns.
                b'\r' => bytes += 1,
                _ => return Ok(0),
            }
        }
    }

    fn line_ends(&self, bytes: &[u8]) -> u64 {
        let is_line_end = |byte: &&u8| **byte == self.line_end;
        bytes.iter().filter(is_line_end).count() as u64
    }

    /// Takes the record at `start`, which has these bytes.
    fn take(&mut self, bytes: usize) {
        self.raw = self.start..self.start + bytes;
        self.line += self.line_ends(self.raw());
        self.start += bytes;
    }

    /// Takes everything up to the first line end at or after this distance from `start`, or up to
    /// the end of the file.
    fn skip_line(&mut self, at: usize) -> io::Result<()> {
        let mut bytes = at;
        loop {
            let rest = &self.buffer[self.start + bytes..self.end];
            if let Some(found) = rest.iter().position(|byte| *byte == self.line_end) {
                bytes += found + 1;
                break;
            }
            bytes += rest.len();
            if !self.fill()? {
                break;
            }
        }
        self.take(bytes);
        Ok(())
    }

    /// Reads more bytes; false at the end of the file. Bytes that have not been taken may move, and
    /// keep their distances from `start`.
    fn fill(&mut self) -> io::Result<bool> {
        if self.at_input_end {
            return Ok(false);
        }
        if self.end == self.buffer.len() {
            if self.start >= self.buffer.len() / 2 {
                self.buffer.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            } else {
                self.buffer.resize(2 * self.end, 0);
            }
        }
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(count) => {
                    self.end += count;
                    self.at_input_end = count == 0;
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The fault of a record of these bytes whose field at this place of the output is not UTF-8.
fn not_utf8(record: &Record, bytes: usize, out: usize) -> Fault {
    let ends = &record.ends[..record.fields];
    let field = ends.iter().position(|end| *end > out).unwrap_or(0);
    let problem = "the text is not UTF-8; convert the file first, for example with iconv -f WINDOWS-1252 -t UTF-8";
    Fault {
        // The quotes are in order, so that all lines of the record belong to it.
        skip_from: bytes,
        ..Fault::of_field(0, field, problem)
    }
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

fn line_end_outside_quotes(head: &[u8]) -> Option<usize> {
    let mut quotes = 0_usize;
    head.iter().position(|byte| {
        quotes += usize::from(*byte == b'"');
        quotes.is_multiple_of(2) && is_line_end(*byte)
    })
}

/// The last byte of the first line end.
fn line_end(head: &[u8]) -> u8 {
    // A quote inside a field, which is an ordinary character, may leave none outside.
    let any = || head.iter().position(|byte| is_line_end(*byte));
    let Some(at) = line_end_outside_quotes(head).or_else(any) else {
        return b'\n';
    };
    let after = head[at..].iter().find(|byte| **byte != b'\r');
    if head[at] == b'\r' && after != Some(&b'\n') {
        b'\r'
    } else {
        b'\n'
    }
}

/// Bytes of the field in quotes that these begin with, both quotes included; `None` if there is
/// none or it is not closed.
fn quoted_bytes(raw: &[u8]) -> Option<usize> {
    if raw.first() != Some(&b'"') {
        return None;
    }
    let mut at = 1;
    loop {
        at += raw[at..].iter().position(|byte| *byte == b'"')? + 1;
        if raw.get(at) != Some(&b'"') {
            return Some(at);
        }
        at += 1;
    }
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
