//! Fingerprints: the text of a statement without the literals that may be parameters.
//!
//! A small lexer finds the literals of `VALUES`, `SET` and `WHERE` and puts a mark in the place of
//! each. A mark says how the literal would be typed, so statements with one fingerprint have one
//! plan. All other literals stay in the text: a number in `ORDER BY` is a column, one in the list
//! of results may give a column its name. The lexer need not understand a statement. If it is in
//! doubt, the text has no fingerprint, and what it has lifted wrongly the binder does not find.

use sql_values::types::Kind;

/// Bytes of the longest text, and literals, that a plan is kept for.
const BYTES_MAX: usize = 4096;
const LITERALS_MAX: usize = 256;

/// A text without its literals. Its memory is used again for the next text.
#[derive(Debug, Default)]
pub struct Fingerprint {
    shape: String,
    literals: Vec<Literal>,
    /// Contents of texts with quotes in them, one after the other.
    unquoted: String,
}

/// A literal that was lifted.
#[derive(Clone, Copy, Debug)]
pub struct Literal {
    /// Its type.
    pub class: Class,
    /// Whether a minus before its digits is part of it.
    pub is_negative: bool,
    /// The byte with which it begins in the text: that of its first digit, or its quote.
    pub start: usize,
    /// Its content, without sign and quotes.
    content: Content,
}

/// The place of a content.
#[derive(Clone, Copy, Debug)]
enum Content {
    /// In the text, from a byte to a byte.
    Text(usize, usize),
    /// In the memory for contents with quotes.
    Unquoted(usize, usize),
}

/// The type of a literal, as far as its form tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A whole number of 32 bits.
    Int4(i32),
    /// A whole number of 64 bits.
    Int8(i64),
    /// A number of another type. A minus before it is an operator.
    Numeric,
    /// A text, whose type the context decides.
    Text,
}

impl Class {
    /// The kind of a number; none of a text.
    pub fn kind(self) -> Option<Kind> {
        match self {
            Self::Int4(_) => Some(Kind::Int4),
            Self::Int8(_) => Some(Kind::Int8),
            Self::Numeric => Some(Kind::Numeric),
            Self::Text => None,
        }
    }
}

/// Words after which literals are values, and those after which they are not.
const LIFTING: &[&str] = &["SET", "VALUES", "WHERE"];
const KEEPING: &[&str] = &[
    "EXCEPT",
    "FETCH",
    "FOR",
    "FROM",
    "GROUP",
    "HAVING",
    "INTERSECT",
    "JOIN",
    "LIMIT",
    "OFFSET",
    "ON",
    "ORDER",
    "RETURNING",
    "SELECT",
    "UNION",
    "WINDOW",
    "WITH",
];
/// Words between which and a literal nothing is missing. After others a text belongs to the word,
/// as in `date '2000-01-01'`, and a minus has a left side.
const OPERATORS: &[&str] = &[
    "AND", "BETWEEN", "ELSE", "ESCAPE", "ILIKE", "IN", "LIKE", "NOT", "OR", "SET", "THEN", "TO",
    "VALUES", "WHEN", "WHERE",
];

/// The token before the one that is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Operator,
    /// A minus without a left side.
    Sign,
    Word,
    /// A literal, a name in quotes, or a bracket that ends something.
    Operand,
}

impl Fingerprint {
    /// Reads a text; false if it has no fingerprint.
    pub fn read(&mut self, text: &str) -> bool {
        self.shape.clear();
        self.literals.clear();
        self.unquoted.clear();
        text.len() <= BYTES_MAX && self.lift(text).is_some()
    }

    /// The text with marks in the place of its literals.
    pub fn shape(&self) -> &str {
        &self.shape
    }

    /// The literals, in the order of the text.
    pub fn literals(&self) -> &[Literal] {
        &self.literals
    }

    /// The content of a literal of the text that was read.
    pub fn content<'t>(&'t self, literal: &Literal, text: &'t str) -> &'t str {
        let found = match literal.content {
            Content::Text(start, end) => text.get(start..end),
            Content::Unquoted(start, end) => self.unquoted.get(start..end),
        };
        found.unwrap_or_default()
    }

    fn lift(&mut self, text: &str) -> Option<()> {
        let bytes = text.as_bytes();
        let (mut at, mut before, mut is_lifting) = (0, Before::Operator, false);
        let mut is_first = true;
        // The text up to here is in the shape.
        let mut copied = 0;
        while let Some(&byte) = bytes.get(at) {
            let next = bytes.get(at + 1).copied().unwrap_or(0);
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => at += 1,
                b'0'..=b'9' => {
                    let end = number_end(bytes, at)?;
                    if is_lifting {
                        let is_negative = before == Before::Sign && text[..at].ends_with('-');
                        let literal = number(text.get(at..end)?, is_negative, (at, end));
                        let start = at - usize::from(literal.is_negative);
                        self.shape.push_str(text.get(copied..start)?);
                        copied = end;
                        self.push(literal)?;
                    }
                    (at, before) = (end, Before::Operand);
                }
                b'\'' => {
                    let end = quoted_end(bytes, at)?;
                    if is_lifting && before != Before::Word {
                        self.shape.push_str(text.get(copied..at)?);
                        copied = end;
                        self.push_text(text, (at, end))?;
                    }
                    (at, before) = (end, Before::Operand);
                }
                b'"' => (at, before) = (quoted_end(bytes, at)?, Before::Operand),
                b'_' | b'a'..=b'z' | b'A'..=b'Z' | 0x80.. => {
                    let end = word_end(bytes, at);
                    // A text with a prefix has escapes.
                    if bytes.get(end) == Some(&b'\'') {
                        return None;
                    }
                    let word = &bytes[at..end];
                    let is_one_of =
                        |words: &[&str]| words.iter().any(|one| is_word(word, one.as_bytes()));
                    if is_first && !is_one_of(&["DELETE", "INSERT", "SELECT", "UPDATE"]) {
                        return None;
                    }
                    is_first = false;
                    is_lifting = (is_lifting && !is_one_of(KEEPING)) || is_one_of(LIFTING);
                    before = if is_one_of(OPERATORS) {
                        Before::Operator
                    } else {
                        Before::Word
                    };
                    at = end;
                }
                b';' if bytes[at + 1..].iter().all(u8::is_ascii_whitespace) => break,
                b'-' if next == b'-' => return None,
                b'/' if next == b'*' => return None,
                b'.' if next.is_ascii_digit() && before != Before::Word => return None,
                // Control characters are the marks of literals.
                0..b' ' | 0x7f | b'$' | b';' => return None,
                b')' | b']' => (at, before) = (at + 1, Before::Operand),
                b'-' if before == Before::Operator => (at, before) = (at + 1, Before::Sign),
                _ => (at, before) = (at + 1, Before::Operator),
            }
        }
        self.shape.push_str(text.get(copied..at)?);
        (!is_first).then_some(())
    }

    fn push_text(&mut self, text: &str, (start, end): (usize, usize)) -> Option<()> {
        let (from, to) = (start + 1, end - 1);
        let inside = text.get(from..to)?;
        let content = if inside.contains('\'') {
            let from = self.unquoted.len();
            let mut parts = inside.split("''");
            self.unquoted.push_str(parts.next()?);
            for part in parts {
                self.unquoted.push('\'');
                self.unquoted.push_str(part);
            }
            Content::Unquoted(from, self.unquoted.len())
        } else {
            Content::Text(from, to)
        };
        self.push(Literal {
            class: Class::Text,
            is_negative: false,
            start,
            content,
        })
    }

    fn push(&mut self, literal: Literal) -> Option<()> {
        self.shape.push(match literal.class {
            Class::Int4(_) => '\u{1}',
            Class::Int8(_) => '\u{2}',
            Class::Numeric => '\u{3}',
            Class::Text => '\u{4}',
        });
        self.literals.push(literal);
        (self.literals.len() <= LITERALS_MAX).then_some(())
    }
}

/// Whether a word is a keyword, which is in capitals.
fn is_word(word: &[u8], keyword: &[u8]) -> bool {
    word.eq_ignore_ascii_case(keyword)
}

/// The literal of a number, typed as the binder types it.
fn number(digits: &str, has_minus: bool, (start, end): (usize, usize)) -> Literal {
    let magnitude = if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        digits.parse::<i128>().ok()
    } else {
        None
    };
    let value = magnitude.map(|magnitude| if has_minus { -magnitude } else { magnitude });
    let class = value.and_then(|value| match i32::try_from(value) {
        Ok(value) => Some(Class::Int4(value)),
        Err(_) => i64::try_from(value).ok().map(Class::Int8),
    });
    Literal {
        class: class.unwrap_or(Class::Numeric),
        is_negative: has_minus && class.is_some(),
        start,
        content: Content::Text(start, end),
    }
}

/// The end of a word.
fn word_end(bytes: &[u8], start: usize) -> usize {
    let rest = bytes[start..].iter();
    let length = rest.take_while(|byte| is_of_word(**byte)).count();
    start + length
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The end of a number; none if it runs into a word.
fn number_end(bytes: &[u8], start: usize) -> Option<usize> {
    let digits = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default().iter();
        from + rest.take_while(|byte| byte.is_ascii_digit()).count()
    };
    let mut end = digits(start);
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = end + 1 + sign;
        let after = digits(exponent);
        if after == exponent {
            return None;
        }
        end = after;
    }
    match bytes.get(end) {
        Some(byte) if is_of_word(*byte) || *byte == b'.' => None,
        _ => Some(end),
    }
}

/// The end of a text or name in quotes, in which a quote is written twice.
fn quoted_end(bytes: &[u8], start: usize) -> Option<usize> {
    let quote = bytes[start];
    let mut at = start + 1;
    loop {
        let rest = bytes.get(at..)?;
        at += rest.iter().position(|byte| *byte == quote)? + 1;
        if bytes.get(at) != Some(&quote) {
            return Some(at);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> Option<String> {
        let mut fingerprint = Fingerprint::default();
        let shape = fingerprint.read(text).then(|| fingerprint.shape.clone());
        let marks = ["\u{1}", "\u{2}", "\u{3}", "\u{4}"];
        let letters = ["<i>", "<l>", "<n>", "<s>"];
        let pairs = marks.into_iter().zip(letters);
        shape.map(|shape| pairs.fold(shape, |shape, (mark, letter)| shape.replace(mark, letter)))
    }

    #[test]
    fn literals_of_values_set_and_where_are_lifted() {
        for (text, wanted) in [
            (
                "SELECT 1 FROM t WHERE a = 5 ORDER BY 1 LIMIT 2;",
                "SELECT 1 FROM t WHERE a = <i> ORDER BY 1 LIMIT 2",
            ),
            (
                "insert into t (a) values (1,-2), (3000000000, 'it''s'), (-1.5e-3, -2147483648)",
                "insert into t (a) values (<i>,<i>), (<l>, <s>), (-<n>, <i>)",
            ),
            (
                "UPDATE t SET a = a - 1, b=a-1 WHERE b IN ('x', \"y 2\") RETURNING 7",
                "UPDATE t SET a = a - <i>, b=a-<i> WHERE b IN (<s>, \"y 2\") RETURNING 7",
            ),
            (
                "delete from t1 where d < date '2000-01-01' and e between -1 and 1",
                "delete from t1 where d < date '2000-01-01' and e between <i> and <i>",
            ),
        ] {
            assert_eq!(shape(text).as_deref(), Some(wanted), "{text}");
        }
    }

    #[test]
    fn texts_in_doubt_have_no_fingerprint() {
        for text in [
            "",
            "begin",
            "select 1; select 2",
            "select * from t where a = $1",
            "select * from t where a = E'\\n'",
            "select * from t -- all",
            "select /* all */ * from t",
            "select * from t where a = 'open",
            "select * from t where a = 1a",
            "select * from t where a = .5",
            "select * from t where a = \u{1}",
        ] {
            assert_eq!(shape(text), None, "{text}");
        }
    }

    #[test]
    fn contents_are_those_of_the_literals() {
        let text = "insert into t values ('it''s', 12, '')";
        let mut fingerprint = Fingerprint::default();
        assert!(fingerprint.read(text));
        let contents = fingerprint.literals().iter();
        let contents: Vec<&str> = contents.map(|one| fingerprint.content(one, text)).collect();
        assert_eq!(contents, ["it's", "12", ""]);
    }
}
