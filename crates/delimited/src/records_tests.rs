//! Goal: every record of a file is read as it was meant, or is bad under its line with its bytes;
//! no other line is lost.
//!
//! Method: small files with one peculiarity each, read whole and in pieces of a few bytes, because
//! the limits of a record must not depend on how it arrives.

use super::*;
use crate::export::write_record;

type Rows = Vec<Vec<Option<String>>>;

/// Input that arrives in pieces.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.len().min(self.1).min(buffer.len());
        let (piece, rest) = self.0.split_at(count);
        buffer[..count].copy_from_slice(piece);
        self.0 = rest;
        Ok(count)
    }
}

/// Result of reading a file: good rows, bad ones with their bytes, or why it cannot be read.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    rows: Rows,
    lines: Vec<u64>,
    bad: Vec<String>,
    skipped: Vec<u8>,
    unusable: Option<String>,
}

fn read_pieces(text: &[u8], dialect: &Dialect, shape: Shape, piece_bytes: usize) -> Found {
    let mut records = Records::new(Pieces(text, piece_bytes), dialect.clone());
    records.set_shape(shape);
    let mut record = Record::default();
    let mut found = Found::default();
    loop {
        match records.read(&mut record) {
            Ok(false) => return found,
            Ok(true) => {
                let value = |at| (!record.is_null(at)).then(|| record.text(at).to_owned());
                found.rows.push((0..record.len()).map(value).collect());
                found.lines.push(record.line);
            }
            Err(RecordError::Unusable(reason)) => {
                found.unusable = Some(reason);
                return found;
            }
            Err(error) => {
                found.bad.push(error.to_string());
                found.skipped.extend_from_slice(records.raw());
            }
        }
    }
}

fn read_as(text: &[u8], dialect: &Dialect, shape: Shape) -> Found {
    let whole = read_pieces(text, dialect, shape, usize::MAX);
    if text.len() < 10_000 {
        for piece_bytes in [1, 2, 3, 7] {
            let pieces = read_pieces(text, dialect, shape, piece_bytes);
            assert_eq!(pieces, whole, "{piece_bytes} bytes at once");
        }
    }
    whole
}

fn read(text: &[u8]) -> Found {
    read_as(text, &Dialect::default(), Shape::Any)
}

/// Rows as lines, with `~` for NULL and `|` between fields.
fn lines(found: &Found) -> Vec<String> {
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "~".into());
    let row = |row: &Vec<Option<String>>| row.iter().map(value).collect::<Vec<_>>().join("|");
    found.rows.iter().map(row).collect()
}

#[test]
fn what_is_written_is_read() {
    let rows: Vec<Vec<Option<&str>>> = vec![
        vec![Some("a"), None, Some("")],
        vec![Some("x,y"), Some("say \"hi\""), Some("two\r\nlines\n")],
        vec![Some("\""), Some(" spaces "), Some("é")],
        vec![Some("a\rb"), Some("nul\0"), Some("\u{FEFF}mark")],
        vec![Some("\n\""), Some("\"\""), Some(",")],
    ];
    let mut bytes = Vec::new();
    for row in &rows {
        write_record(&mut bytes, row.iter().copied(), b',').unwrap();
    }
    let expected: Rows = rows
        .iter()
        .map(|row| row.iter().map(|field| field.map(str::to_owned)).collect())
        .collect();
    let found = read(&bytes);
    assert_eq!(found.rows, expected, "{:?}", found.bad);
    assert_eq!(found.lines, [1, 2, 5, 6, 7]);
}

#[test]
fn line_ends_marks_and_empty_lines_do_not_matter() {
    for line_end in ["\n", "\r\n", "\r", "\r\r\n"] {
        let text = format!("\u{FEFF}a,b{line_end}{line_end}1,\"2\"{line_end}{line_end}3,");
        let found = read(text.as_bytes());
        assert_eq!(lines(&found), ["a|b", "1|2", "3|~"], "{line_end:?}");
        assert_eq!(found.lines, [1, 3, 5], "{line_end:?}");
    }
    for nothing in ["", "\n", "\r\n\r\n", "\u{FEFF}", "\r"] {
        assert_eq!(read(nothing.as_bytes()), Found::default(), "{nothing:?}");
    }
}

#[test]
fn line_ends_of_the_other_kind_are_bad_rows() {
    let found = read(b"a,b\n1,x\ry\n2,z\n\r3,w\n\"\r\",\"q\"\n");
    assert_eq!(lines(&found), ["a|b", "2|z", "\r|q"]);
    assert_eq!(found.skipped, b"1,x\ry\n\r3,w\n");
    assert!(found.bad[0].starts_with("line 2: a carriage return stands outside"));
    assert!(found.bad[1].starts_with("line 4: a carriage return"));
    let found = read(b"a,b\r1,x\ny\r2,z\r");
    assert_eq!(lines(&found), ["a|b", "2|z"]);
    assert!(found.bad[0].starts_with("line 2: a line feed stands outside"));
    // The first line end is searched outside quotes.
    let found = read(b"\"a\rb\",c\n1,2\n");
    assert_eq!(lines(&found), ["a\rb|c", "1|2"]);
}

#[test]
fn a_quote_inside_a_field_is_an_ordinary_character() {
    let found = read(b"1,5\" pipe\n2,a \"b\" c\n3,x\"\"\n4, \"no\"\n5,\"\"\"\"\n");
    let expected = ["1|5\" pipe", "2|a \"b\" c", "3|x\"\"", "4| \"no\"", "5|\""];
    assert_eq!(lines(&found), expected);
    assert!(found.bad.is_empty());
}

#[test]
fn each_break_of_the_rules_is_named_with_its_place() {
    let cases: [(&[u8], &str); 6] = [
        (b"a,b\n\"1\"x,2\n", "line 2, field 1: text follows"),
        (b"a,b\n1,\"2\" \n", "line 2, field 2: text follows"),
        (b"a\n\"open\nmore\n", "line 2, field 1: a quote opens"),
        (b"a\n\xFF\n", "line 2, field 1: the text is not UTF-8"),
        (
            b"a,b,c\n1,\xC3,\xA9\n",
            "line 2, field 2: the text is not UTF-8",
        ),
        (
            b"a,b\n\"x\ny\",\"z\"\n1,\"\xFF\"\n",
            "line 4, field 2: the text",
        ),
    ];
    for (text, expected) in cases {
        let found = read(text);
        assert!(found.bad[0].starts_with(expected), "{:?}", found.bad);
    }
}

#[test]
fn a_forgotten_quote_costs_one_row() {
    // Up to the end, and up to a quote that opens another field.
    let found = read(b"1,a\n2,\"b\n3,c\n4,d\n");
    assert_eq!(lines(&found), ["1|a", "3|c", "4|d"]);
    assert_eq!(found.skipped, b"2,\"b\n");
    let found = read(b"1,a\n2,\"b\n3,\"c\"\n4,d\n");
    assert_eq!(lines(&found), ["1|a", "3|c", "4|d"]);
    assert_eq!(found.lines, [1, 3, 4]);
    // In a row that spans lines already, the line where it opens.
    let found = read(b"1,\"a\nb\",\"c\n2,d,e\n");
    assert_eq!(lines(&found), ["2|d|e"]);
    assert!(
        found.bad[0].starts_with("line 2, field 3: a quote opens"),
        "{:?}",
        found.bad
    );
    assert_eq!(found.skipped, b"1,\"a\nb\",\"c\n");
    // Quotes that close and open fields all the time end with the number of columns.
    let mut text = b"1,\"a\n".to_vec();
    for _ in 0..500 {
        text.extend_from_slice(b"5\",\"x\n");
    }
    let found = read_as(&text, &Dialect::default(), Shape::Columns(2));
    assert_eq!((found.rows.len(), found.bad.len()), (0, 501));
    assert_eq!(found.skipped, text);
}

#[test]
fn a_quote_that_is_not_closed_in_time_ends_with_its_line() {
    let dialect = Dialect {
        quoted_bytes_max: 1 << 20,
        ..Dialect::default()
    };
    let good = "3,x\n".repeat(300_000);
    let text = format!("1,\"open\n{good}4,\"closed\"\n");
    let found = read_as(text.as_bytes(), &dialect, Shape::Columns(2));
    assert_eq!((found.rows.len(), found.bad.len()), (300_001, 1));
    assert!(found.bad[0].starts_with("line 1, field 2: a quote opens"));
    assert_eq!(found.skipped, b"1,\"open\n");
    assert_eq!(found.lines[300_000], 300_002);
    // One byte too many is too many however it arrives, and one line may be as long as it likes.
    for (bytes, is_good) in [(1 << 20, true), ((1 << 20) + 1, false)] {
        let text = format!("1,\"\n{}\"\n2,b\n", "x".repeat(bytes - 1));
        for piece_bytes in [1 << 12, 1 << 30] {
            let found = read_pieces(text.as_bytes(), &dialect, Shape::Any, piece_bytes);
            assert_eq!(found.bad.is_empty(), is_good, "{bytes} in {piece_bytes}");
        }
    }
    let text = format!("1,\"{}\"\n", "x,\"\"".repeat(1 << 20));
    let found = read_as(text.as_bytes(), &dialect, Shape::Columns(2));
    assert_eq!((found.rows.len(), found.bad.len()), (1, 0));
}

#[test]
fn records_have_as_many_fields_as_there_are_columns() {
    let text = b"1,2\n1\n1,2,3\n\"a\nb\"\n\n3,\n";
    let found = read_as(text, &Dialect::default(), Shape::Columns(2));
    assert_eq!(lines(&found), ["1|2", "3|~"]);
    assert_eq!(found.lines, [1, 7]);
    let expected = [
        "line 2: 1 field, but there are 2 columns",
        "line 3: 3 fields, but there are 2 columns",
        "line 4: 1 field, but there are 2 columns",
        "line 5: 1 field, but there are 2 columns",
    ];
    assert_eq!(found.bad, expected);
    let wide = format!("1{}\n1,2\n", ",x".repeat(1000));
    let found = read_as(wide.as_bytes(), &Dialect::default(), Shape::Columns(2));
    assert_eq!((found.rows.len(), found.bad.len()), (1, 1));
    assert!(
        found.bad[0].contains("more than 68 fields"),
        "{:?}",
        found.bad
    );
}

#[test]
fn a_separator_at_the_end_of_each_line_is_no_column() {
    let dialect = Dialect {
        separator: Some(b'|'),
        ..Dialect::default()
    };
    let found = read_as(
        b"1|a|\n2||\n3|b\n4|c|d\n5|e|\"\"\n",
        &dialect,
        Shape::ColumnsAndSeparator(2),
    );
    assert_eq!(lines(&found), ["1|a", "2|~"]);
    assert!(
        found.bad[0].starts_with("line 3: 2 fields"),
        "{:?}",
        found.bad
    );
    assert!(
        found.bad[1].contains("column 3 has no name"),
        "{:?}",
        found.bad
    );
    assert_eq!(found.bad.len(), 3);
}

#[test]
fn a_first_line_may_name_the_separator() {
    let found = read(b"\xEF\xBB\xBFsep=;\r\na;b\r\n1,5;2\r\n");
    assert_eq!(lines(&found), ["a|b", "1,5|2"]);
    assert_eq!(found.lines, [2, 3]);
    assert_eq!(lines(&read(b"SEP=\t\na\tb\n")), ["a|b"]);
    // A column may have a name that begins like that.
    assert_eq!(lines(&read(b"sep=a\n1\n")), ["sep=a", "1"]);
    assert_eq!(lines(&read(b"\"sep=;\"\n1\n")), ["sep=;", "1"]);
    let dialect = Dialect {
        separator: Some(b','),
        ..Dialect::default()
    };
    let found = read_as(b"sep=;\na;b\n", &dialect, Shape::Any);
    assert!(found.unusable.unwrap().contains("leave out --separator"));
}

#[test]
fn lines_of_comments_are_no_records() {
    let dialect = Dialect {
        comment: Some(b'#'),
        ..Dialect::default()
    };
    let found = read_as(
        b"# one \"\na,b\n#two,#\n1,#2\n\"#3\",\"x\n#y\"\n#end",
        &dialect,
        Shape::Any,
    );
    assert_eq!(lines(&found), ["a|b", "1|#2", "#3|x\n#y"]);
    assert_eq!(found.lines, [2, 4, 5]);
}

#[test]
fn files_of_other_kinds_are_refused_with_the_reason() {
    let utf16 =
        |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    let cases: [(Vec<u8>, &str); 6] = [
        (utf16("\u{FEFF}id,name\n"), "UTF-16"),
        (utf16("id,name\n"), "UTF-16LE"),
        (b"PK\x03\x04\x14\0".to_vec(), "spreadsheet"),
        (b"BZh91AY&SY".to_vec(), "bzip2"),
        (b"\xFD7zXZ\0\0".to_vec(), "xz"),
        (b"SQLite format 3\0\x10".to_vec(), "SQLite"),
    ];
    for (bytes, expected) in cases {
        let found = read(&bytes);
        let reason = found.unusable.unwrap_or_default();
        assert!(reason.contains(expected), "{reason}");
    }
}

/// A generator of small numbers that is the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % limit
    }
}

#[test]
fn any_bytes_are_read_alike_in_pieces_and_every_line_is_accounted_for() {
    const ALPHABET: &[u8] = b"ab,,\"\"\"\n\n\r\xC3\xA9#;=";
    let mut random = Random(1);
    for _ in 0..8_000 {
        let bytes = random.below(40) as usize;
        let text: Vec<u8> = (0..bytes)
            .map(|_| ALPHABET[random.below(ALPHABET.len() as u64) as usize])
            .collect();
        let dialect = Dialect {
            quoted_bytes_max: random.below(20) as usize,
            ..Dialect::default()
        };
        let shape = match random.below(3) {
            0 => Shape::Any,
            1 => Shape::Columns(2),
            _ => Shape::ColumnsAndSeparator(1),
        };
        let whole = read_pieces(&text, &dialect, shape, usize::MAX);
        let pieces = read_pieces(&text, &dialect, shape, 1 + random.below(5) as usize);
        // Of two things wrong with a row either may be named.
        let found = |found: &Found| {
            (
                found.rows.clone(),
                found.lines.clone(),
                found.skipped.clone(),
            )
        };
        assert_eq!(found(&pieces), found(&whole), "{}", text.escape_ascii());
        assert_eq!(pieces.bad.len(), whole.bad.len(), "{}", text.escape_ascii());
        // Between records there is nothing but line ends, and each knows its line.
        let mut records = Records::new(&text[..], dialect);
        records.set_shape(shape);
        let (mut record, mut at) = (Record::default(), 0);
        loop {
            let is_good = match records.read(&mut record) {
                Ok(false) => break,
                Ok(true) => true,
                Err(RecordError::Malformed { .. }) => false,
                Err(error) => panic!("{error}"),
            };
            let raw = records.raw();
            let gap = (0..=text.len() - at).find(|gap| text[at + gap..].starts_with(raw));
            let gap = gap.unwrap_or_else(|| panic!("{}", text.escape_ascii()));
            let passed = &text[at..at + gap];
            assert!(
                passed.iter().all(|byte| is_line_end(*byte)),
                "{}",
                text.escape_ascii()
            );
            at += gap;
            if is_good {
                assert_eq!(record.line, 1 + records.line_ends(&text[..at]));
            }
            at += raw.len();
        }
        let rest = &text[at..];
        assert!(
            rest.iter().all(|byte| is_line_end(*byte)),
            "{}",
            text.escape_ascii()
        );
        // Parsed rows are written so that they parse alike.
        let mut written = Vec::new();
        for row in whole.rows.iter().filter(|row| row.len() > 1) {
            write_record(&mut written, row.iter().map(Option::as_deref), b',').unwrap();
        }
        let again = read_pieces(&written, &Dialect::own(), Shape::Any, usize::MAX);
        let expected = whole.rows.iter().filter(|row| row.len() > 1);
        assert!(again.rows.iter().eq(expected), "{}", text.escape_ascii());
    }
}
