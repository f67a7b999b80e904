//! Bytes of `COPY FROM` become records.
//!
//! Bytes come in pieces of any size; a record is cut off as soon as its end is there. Each byte is
//! looked at once for that, and a record has a largest size. A line of `\.` ends the data; bytes
//! after it are dropped as they come.

use super::format::Format;
use memchr::{memchr_iter, memchr2, memchr3};
use sql_values::error::{Result, SqlError, SqlState};

/// A field, and whether it stood in quotes.
type Field = (Option<String>, bool);

/// Bytes of a record, at most: a row has 16 MiB, and escapes and digits make its text longer.
pub(super) const RECORD_BYTES_MAX: usize = 256 << 20;

/// Cuts bytes into records.
pub struct Reader<'a> {
    format: &'a Format,
    buffer: Vec<u8>,
    /// The beginning of the next record.
    at: usize,
    /// The record that was read last.
    line: Vec<u8>,
    /// The number of its last line, from 1.
    line_number: u64,
    search: Search,
    has_ended: bool,
    /// The end of the first line, once it has come.
    ending: Option<Ending>,
}

/// The end of lines: all of them end as the first one does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Newline,
    Return,
    /// A carriage return and a newline.
    Both,
}

impl Ending {
    /// The last byte.
    fn byte(self) -> u8 {
        match self {
            Self::Newline | Self::Both => b'\n',
            Self::Return => b'\r',
        }
    }
}

/// The search for the end of a record, which goes on when more bytes have come.
#[derive(Clone, Copy, Default)]
struct Search {
    /// Bytes of the record that were looked at; one more if an escape was the last of them.
    bytes: usize,
    is_quoted: bool,
}

impl<'a> Reader<'a> {
    /// A reader of rows in this form.
    pub fn new(format: &'a Format) -> Self {
        Self {
            format,
            buffer: Vec::new(),
            at: 0,
            line: Vec::new(),
            line_number: 0,
            search: Search::default(),
            has_ended: false,
            ending: None,
        }
    }

    /// The next record; `None` at the end. `more` appends bytes, and says false at their end.
    pub fn next(
        &mut self,
        more: &mut dyn FnMut(&mut Vec<u8>) -> Result<bool>,
    ) -> Result<Option<Vec<Field>>> {
        let end = loop {
            if let Some(end) = self.end()? {
                break end;
            }
            check_record_bytes(self.buffer.len() - self.at)?;
            if self.has_ended {
                if self.at == self.buffer.len() {
                    return Ok(None);
                }
                break self.buffer.len();
            }
            self.buffer.drain(..self.at);
            self.at = 0;
            self.has_ended = !more(&mut self.buffer)?;
        };
        self.search = Search::default();
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        line.extend_from_slice(&self.buffer[self.at..end]);
        let ended = self.end_line(&mut line, end < self.buffer.len());
        let byte = self.ending.unwrap_or(Ending::Newline).byte();
        self.line_number += 1 + memchr_iter(byte, &line).count() as u64;
        self.line = line;
        ended?;
        self.at = (end + 1).min(self.buffer.len());
        if self.line == b"\\." {
            self.drop_rest(more)?;
            return Ok(None);
        }
        let fields = if self.format.is_csv {
            quoted_fields(&self.line, self.format)
        } else {
            escaped_fields(&self.line, self.format)
        };
        fields.map(Some)
    }

    /// The number of the line that was read last, and its text, which is cut if it is long.
    pub fn last_line(&self) -> (u64, String) {
        (self.line_number, shown(&self.line))
    }

    /// Takes the carriage return off that ends a line. Other ends than that of the first line would
    /// make something of the data that it may not be.
    fn end_line(&self, line: &mut Vec<u8>, is_whole: bool) -> Result<()> {
        let is_csv = self.format.is_csv;
        let is_stray = |line: &[u8], byte: u8| {
            !is_csv && memchr_iter(byte, line).any(|at| !is_escaped(line, at))
        };
        if self.ending == Some(Ending::Return) {
            if is_stray(line, b'\n') {
                return Err(stray("newline", "\\n", is_csv));
            }
            return Ok(());
        }
        let has_return =
            line.last() == Some(&b'\r') && (is_csv || !is_escaped(line, line.len() - 1));
        if has_return {
            line.pop();
        }
        let returns = self.ending == Some(Ending::Both);
        if (has_return && !returns) || is_stray(line, b'\r') {
            return Err(stray("carriage return", "\\r", is_csv));
        }
        if is_whole && returns && !has_return {
            return Err(stray("newline", "\\n", is_csv));
        }
        Ok(())
    }

    /// Drops the bytes after the end of the data, which belong to nobody.
    fn drop_rest(&mut self, more: &mut dyn FnMut(&mut Vec<u8>) -> Result<bool>) -> Result<()> {
        while !self.has_ended {
            self.buffer.clear();
            self.has_ended = !more(&mut self.buffer)?;
        }
        self.buffer.clear();
        self.at = 0;
        Ok(())
    }

    /// The last byte of the line end of the record that begins at `at`.
    fn end(&mut self) -> Result<Option<usize>> {
        let Format {
            is_csv,
            quote,
            escape,
            ..
        } = *self.format;
        let mut is_quoted = self.search.is_quoted;
        let mut at = self.at + self.search.bytes;
        while let Some(rest) = self.buffer.get(at..) {
            let Some(found) = self.next_mark(rest) else {
                at = self.buffer.len();
                break;
            };
            at += found;
            match self.buffer[at] {
                b'\n' | b'\r' if !is_quoted => match self.line_end(at) {
                    Some(end) => return Ok(Some(end)),
                    None => break,
                },
                b'\\' if !is_csv => at += 1,
                byte if is_csv && is_quoted && byte == escape && escape != quote => at += 1,
                byte if is_csv && byte == quote => is_quoted = !is_quoted,
                _ => {}
            }
            at += 1;
        }
        if self.has_ended && is_quoted {
            return Err(bad("unterminated CSV quoted field"));
        }
        self.search = Search {
            bytes: at - self.at,
            is_quoted,
        };
        Ok(None)
    }

    /// The next byte that may end a line, or change what ends one.
    fn next_mark(&self, rest: &[u8]) -> Option<usize> {
        let Format {
            is_csv,
            quote,
            escape,
            ..
        } = *self.format;
        match self.ending.map(Ending::byte) {
            Some(end) if is_csv => memchr3(end, quote, escape, rest),
            Some(end) => memchr2(end, b'\\', rest),
            None => rest.iter().position(|byte| match *byte {
                b'\n' | b'\r' => true,
                byte if is_csv => byte == quote || byte == escape,
                byte => byte == b'\\',
            }),
        }
    }

    /// The last byte of the line end that begins here. The first one tells how lines end, which
    /// the byte after a carriage return decides: none if it has not come.
    fn line_end(&mut self, at: usize) -> Option<usize> {
        if self.ending.is_some() {
            return Some(at);
        }
        let (ending, end) = match (self.buffer[at], self.buffer.get(at + 1)) {
            (b'\r', Some(b'\n')) => (Ending::Both, at + 1),
            (b'\r', None) if !self.has_ended => return None,
            (b'\r', _) => (Ending::Return, at),
            _ => (Ending::Newline, at),
        };
        self.ending = Some(ending);
        Some(end)
    }
}

/// A text of the data as messages show it: at most its first 100 bytes.
pub fn shown(text: &[u8]) -> String {
    const BYTES_MAX: usize = 100;
    let text = String::from_utf8_lossy(text);
    if text.len() <= BYTES_MAX {
        return text.into_owned();
    }
    format!("{}...", &text[..text.floor_char_boundary(BYTES_MAX)])
}

/// Whether a byte follows a backslash that means it.
fn is_escaped(line: &[u8], at: usize) -> bool {
    let before = line[..at].iter().rev();
    before.take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// The error of an end of a line that is none.
fn stray(what: &str, escape: &str, is_csv: bool) -> SqlError {
    if is_csv {
        let hint = format!("Use quoted CSV field to represent {what}.");
        return bad(&format!("unquoted {what} found in data")).hint(hint);
    }
    let hint = format!("Use \"{escape}\" to represent {what}.");
    bad(&format!("literal {what} found in data")).hint(hint)
}

/// Fails if a record of so many bytes is too long.
pub(super) fn check_record_bytes(bytes: usize) -> Result<()> {
    if bytes <= RECORD_BYTES_MAX {
        return Ok(());
    }
    let message = format!("a record of COPY has more than {RECORD_BYTES_MAX} bytes");
    let hint = "Look for a quote or an escape that leaves the record without an end.";
    Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).hint(hint))
}

/// An error of the data.
pub(crate) fn bad(message: &str) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

fn text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let shown = error.as_bytes()[at..]
            .iter()
            .take(2)
            .map(|byte| format!("0x{byte:02x}"));
        let shown = shown.collect::<Vec<_>>().join(" ");
        let message = format!("invalid byte sequence for encoding \"UTF8\": {shown}");
        SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
    })
}

/// The fields of a line of the text format.
fn escaped_fields(line: &[u8], format: &Format) -> Result<Vec<Field>> {
    let mut fields = Vec::new();
    let mut start = 0;
    loop {
        let mut end = start;
        let end = loop {
            let rest = line.get(end..);
            match rest.and_then(|rest| memchr2(format.delimiter, b'\\', rest)) {
                Some(found) if line[end + found] == format.delimiter => break end + found,
                Some(found) => end += found + 2,
                None => break line.len(),
            }
        };
        let raw = &line[start..end];
        let is_null = raw == format.null.as_bytes();
        fields.push((
            if is_null {
                None
            } else {
                Some(text(unescaped(raw))?)
            },
            false,
        ));
        if end == line.len() {
            return Ok(fields);
        }
        start = end + 1;
    }
}

/// A field with its escapes read.
fn unescaped(raw: &[u8]) -> Vec<u8> {
    if !raw.contains(&b'\\') {
        return raw.to_vec();
    }
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let Some((&letter, tail)) = rest.split_first() else {
            bytes.push(byte);
            break;
        };
        rest = tail;
        match letter {
            b'b' => bytes.push(8),
            b'f' => bytes.push(12),
            b'n' => bytes.push(b'\n'),
            b'r' => bytes.push(b'\r'),
            b't' => bytes.push(b'\t'),
            b'v' => bytes.push(11),
            b'0'..=b'7' => {
                let (value, count) = digits(letter, rest, 8, 2);
                bytes.push(value);
                rest = &rest[count..];
            }
            b'x' if rest.first().is_some_and(u8::is_ascii_hexdigit) => {
                let (value, count) = digits(b'0', rest, 16, 2);
                bytes.push(value);
                rest = &rest[count..];
            }
            _ => bytes.push(letter),
        }
    }
    bytes
}

/// The byte of some digits, and how many there were behind the first.
fn digits(first: u8, rest: &[u8], base: u32, most: usize) -> (u8, usize) {
    let digit = |byte: u8| char::from(byte).to_digit(base);
    let mut value = digit(first).unwrap_or(0);
    let count = rest
        .iter()
        .take(most)
        .take_while(|byte| digit(**byte).is_some())
        .count();
    for byte in &rest[..count] {
        value = value * base + digit(*byte).unwrap_or(0);
    }
    (value as u8, count)
}

/// The fields of a record of CSV.
fn quoted_fields(line: &[u8], format: &Format) -> Result<Vec<Field>> {
    let Format {
        delimiter,
        quote,
        escape,
        ..
    } = *format;
    let (mut fields, mut field) = (Vec::new(), Vec::new());
    let (mut is_open, mut was_quoted) = (false, false);
    let mut at = 0;
    while at <= line.len() {
        match line.get(at) {
            Some(&byte) if is_open => {
                let next = line.get(at + 1);
                if byte == escape && next.is_some_and(|next| *next == quote || *next == escape) {
                    field.extend(next);
                    at += 1;
                } else if byte == quote {
                    is_open = false;
                } else {
                    field.push(byte);
                }
            }
            Some(&byte) if byte == quote => (is_open, was_quoted) = (true, true),
            Some(b'\r') => return Err(stray("carriage return", "\\r", true)),
            Some(b'\n') => return Err(stray("newline", "\\n", true)),
            Some(&byte) if byte != delimiter => field.push(byte),
            _ => {
                let is_null = !was_quoted && field == format.null.as_bytes();
                let content = std::mem::take(&mut field);
                fields.push((
                    if is_null { None } else { Some(text(content)?) },
                    was_quoted,
                ));
                was_quoted = false;
            }
        }
        at += 1;
    }
    if is_open {
        return Err(bad("unterminated CSV quoted field"));
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, is_csv: bool) -> Result<Vec<Vec<Option<String>>>> {
        let options = if is_csv {
            vec![sqlparser::ast::CopyOption::Format("csv".into())]
        } else {
            Vec::new()
        };
        let format = Format::new(&options, &[], false)?;
        let mut reader = Reader::new(&format);
        // One byte at a time, so that every cut is tried.
        let mut bytes = text.bytes();
        let mut more = |buffer: &mut Vec<u8>| {
            let byte = bytes.next();
            buffer.extend(byte);
            Ok(byte.is_some())
        };
        let mut records = Vec::new();
        while let Some(record) = reader.next(&mut more)? {
            records.push(record.into_iter().map(|(field, _)| field).collect());
        }
        Ok(records)
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn lines_end_as_the_first_one() {
        for is_csv in [false, true] {
            let records = read("a\r\nb\r\nc", is_csv).unwrap();
            assert_eq!(records, [[some("a")], [some("b")], [some("c")]]);
            for text in ["a\rb\rc", "a\rb\rc\r"] {
                assert_eq!(read(text, is_csv).unwrap(), records, "{text:?}");
            }
            assert_eq!(read("a\r", is_csv).unwrap(), [[some("a")]]);
            let word = if is_csv { "unquoted" } else { "literal" };
            for (text, what) in [
                ("a\nb\r\n", "carriage return"),
                ("a\nb\rc\n", "carriage return"),
                ("a\r\nb\n", "newline"),
                ("a\rb\n", "newline"),
                ("a\rb\r\nc\r", "newline"),
            ] {
                let message = format!("{word} {what} found in data");
                assert_eq!(read(text, is_csv).unwrap_err().message, message, "{text:?}");
            }
        }
        assert_eq!(read("a\\\r\n", false).unwrap(), [[some("a\r")]]);
        assert_eq!(read("\"a\rb\r\"\n", true).unwrap(), [[some("a\rb\r")]]);
        assert_eq!(read("\"a\nb\"\r", true).unwrap(), [[some("a\nb")]]);
        assert_eq!(read("a\\\nb\r", false).unwrap(), [[some("a\nb")]]);
    }

    #[test]
    fn text_has_escapes_and_null() {
        let records = read("a\\tb\t\\N\t\n\\x41\\102\\\\\t\\.x\ty\n\\.\nrest\n", false).unwrap();
        assert_eq!(records[0], [some("a\tb"), None, some("")]);
        assert_eq!(records[1], [some("AB\\"), some(".x"), some("y")]);
        assert_eq!(records.len(), 2);
        assert_eq!(read("no end", false).unwrap(), [[some("no end")]]);
    }

    #[test]
    fn csv_has_quotes() {
        let records = read("a,\"b,\"\"c\"\"\nd\",,\"\"\r\nx\r\n", true).unwrap();
        assert_eq!(records[0], [some("a"), some("b,\"c\"\nd"), None, some("")]);
        assert_eq!(records[1], [some("x")]);
        let refused = read("a,\"b\n", true).unwrap_err();
        assert_eq!(refused.message, "unterminated CSV quoted field");
    }

    /// Each piece had the record looked at from its beginning, so that a long record in small
    /// pieces took hours. A byte is looked at once.
    #[test]
    fn long_records_in_small_pieces_are_read_once() {
        let text = format!("\"{}\"", "x\n".repeat(1 << 20));
        let records = read(&text, true).unwrap();
        assert_eq!(records, [[some(text.trim_matches('"'))]]);
    }

    /// Bytes after the end marker were kept until the last one had come.
    #[test]
    fn bytes_after_the_end_are_dropped() {
        let format = Format::new(&[], &[], false).unwrap();
        let mut reader = Reader::new(&format);
        let mut pieces = 0;
        let mut more = |buffer: &mut Vec<u8>| {
            assert!(buffer.len() < 100, "{} bytes are kept", buffer.len());
            let piece: &[u8] = if pieces == 0 {
                b"\\.\nrest"
            } else {
                &[b'x'; 50]
            };
            buffer.extend(piece);
            pieces += 1;
            Ok(pieces < 10)
        };
        assert!(reader.next(&mut more).unwrap().is_none());
        assert!(reader.next(&mut more).unwrap().is_none());
        assert_eq!(pieces, 10);
    }

    /// A record without end took all memory.
    #[test]
    fn records_have_a_largest_size() {
        let format = Format::new(&[], &[], false).unwrap();
        let mut reader = Reader::new(&format);
        let mut more = |buffer: &mut Vec<u8>| {
            assert!(buffer.len() <= RECORD_BYTES_MAX);
            buffer.resize(buffer.len() + (64 << 20), b'x');
            Ok(true)
        };
        let refused = reader.next(&mut more).unwrap_err();
        assert_eq!(refused.state, SqlState::PROGRAM_LIMIT_EXCEEDED);
    }
}
