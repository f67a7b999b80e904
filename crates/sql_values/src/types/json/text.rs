//! JSON as text: reading it into a tree, checking it, and printing trees.
//!
//! The reader is our own, as numbers must stay exact, keys must keep their order and repetition
//! for `json`, and messages are PostgreSQL's. It recurses, to a limit of depth.

use super::super::numeric::Numeric;
use super::super::size;
use super::value::Json;
use crate::error::{Result, SqlError, SqlState};
use std::fmt::{self, Display, Write as _};

/// Arrays and objects within each other; more could exhaust the stack of a thread.
pub(super) const DEPTH_MAX: usize = 250;

/// The error of a value that is nested more deeply.
pub(super) fn too_deep() -> SqlError {
    let message = "stack depth limit exceeded";
    let hint = format!("JSON may be nested {DEPTH_MAX} levels deep; split the value.");
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message).hint(hint)
}

/// A node of a text of JSON, with the range of bytes where it stands.
#[derive(Clone, Debug)]
pub struct Node {
    /// The first byte and the one after the last.
    pub range: std::ops::Range<usize>,
    /// The content.
    pub content: Content,
}

/// The content of a node.
#[derive(Clone, Debug)]
pub enum Content {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as written.
    Number,
    /// A string, unescaped.
    String(String),
    /// Elements.
    Array(Vec<Node>),
    /// Pairs, as written.
    Object(Vec<(String, Node)>),
}

impl Json {
    /// The value of a text.
    pub fn parse(text: &str) -> Result<Self> {
        let node = Node::parse(text, Escapes::Refused)?;
        node.to_json(text)
    }

    /// Whether a text is JSON.
    pub fn check(text: &str) -> Result<()> {
        Node::parse(text, Escapes::Kept).map(drop)
    }
}

/// Whether escapes that are no characters, such as `\u0000` and halves of pairs, may stand in a
/// string: `json` keeps them, while `jsonb` and texts cannot have them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Escapes {
    /// They stay as they are written. Contents of strings lack what `\u` stands for.
    Kept,
    /// They are an error.
    Refused,
}

impl Node {
    /// The tree of a text of JSON.
    pub fn parse(text: &str, escapes: Escapes) -> Result<Self> {
        let mut reader = Reader {
            text,
            at: 0,
            depth: 0,
            escapes,
        };
        let node = reader.value()?;
        reader.blanks();
        if reader.at < text.len() {
            return Err(reader.expected("end of input"));
        }
        Ok(node)
    }

    /// The tree of the node.
    pub fn to_json(&self, text: &str) -> Result<Json> {
        Ok(match &self.content {
            Content::Null => Json::Null,
            Content::Bool(value) => Json::Bool(*value),
            Content::Number => Json::Number(Numeric::parse(&text[self.range.clone()])?),
            Content::String(content) => Json::String(content.clone()),
            Content::Array(nodes) => Json::Array(
                nodes
                    .iter()
                    .map(|node| node.to_json(text))
                    .collect::<Result<_>>()?,
            ),
            Content::Object(pairs) => {
                let pairs = pairs.iter();
                let pairs = pairs.map(|(key, node)| Ok((key.clone(), node.to_json(text)?)));
                Json::object(pairs.collect::<Result<_>>()?)
            }
        })
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    escapes: Escapes,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Result<Node> {
        self.blanks();
        let start = self.at;
        let content = match self.peek() {
            None => return Err(Self::ended()),
            Some(b'{') => self.object()?,
            Some(b'[') => self.array()?,
            Some(b'"') => Content::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(byte) if byte.is_ascii_alphabetic() || byte >= 0x80 => self.word()?,
            Some(b']' | b'}' | b',' | b':') => return Err(self.expected("JSON value")),
            Some(_) => return Err(self.invalid_token()),
        };
        Ok(Node {
            range: start..self.at,
            content,
        })
    }

    fn deeper(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(too_deep());
        }
        Ok(())
    }

    fn object(&mut self) -> Result<Content> {
        self.deeper()?;
        self.at += 1;
        let mut pairs = Vec::new();
        loop {
            self.blanks();
            match self.peek() {
                Some(b'}') if pairs.is_empty() => break,
                Some(b'"') => {}
                None => return Err(Self::ended()),
                _ if pairs.is_empty() => return Err(self.expected("string or \"}\"")),
                _ => return Err(self.expected("string")),
            }
            let key = self.string()?;
            self.blanks();
            match self.peek() {
                Some(b':') => self.at += 1,
                None => return Err(Self::ended()),
                _ => return Err(self.expected("\":\"")),
            }
            pairs.push((key, self.value()?));
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                None => return Err(Self::ended()),
                _ => return Err(self.expected("\",\" or \"}\"")),
            }
        }
        self.at += 1;
        self.depth -= 1;
        Ok(Content::Object(pairs))
    }

    fn array(&mut self) -> Result<Content> {
        self.deeper()?;
        self.at += 1;
        let mut nodes = Vec::new();
        loop {
            self.blanks();
            if self.peek() == Some(b']') && nodes.is_empty() {
                break;
            }
            nodes.push(self.value()?);
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                None => return Err(Self::ended()),
                _ => return Err(self.expected("\",\" or \"]\"")),
            }
        }
        self.at += 1;
        self.depth -= 1;
        Ok(Content::Array(nodes))
    }

    fn number(&mut self) -> Result<Content> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let digits = |reader: &mut Self| {
            let from = reader.at;
            while reader.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                reader.at += 1;
            }
            reader.at - from
        };
        let leading_zero = self.peek() == Some(b'0');
        let whole = digits(self);
        let mut is_valid = whole == 1 || (whole > 1 && !leading_zero);
        if self.peek() == Some(b'.') {
            self.at += 1;
            is_valid &= digits(self) > 0;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            is_valid &= digits(self) > 0;
        }
        // A number ends where no letter, digit or the like goes on.
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
        if !is_valid || self.peek().is_some_and(is_word) {
            self.at = start;
            return Err(self.invalid_token());
        }
        Ok(Content::Number)
    }

    fn word(&mut self) -> Result<Content> {
        let word = self.token();
        let content = match word {
            "null" => Content::Null,
            "true" => Content::Bool(true),
            "false" => Content::Bool(false),
            _ => return Err(self.invalid_token()),
        };
        self.at += word.len();
        Ok(content)
    }

    /// The letters, digits and underscores from here, or one character.
    fn token(&self) -> &str {
        let rest = &self.text[self.at..];
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii();
        let starts_word = rest.starts_with(|c: char| is_word(c) || c == '-');
        let end = rest
            .char_indices()
            .find(|(at, c)| {
                !(starts_word && (is_word(*c) || matches!(c, '-' | '+' | '.'))) && *at > 0
            })
            .map_or(rest.len(), |(at, _)| at);
        &rest[..end]
    }

    fn string(&mut self) -> Result<String> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(stop) = rest.find(|c: char| c == '"' || c == '\\' || c < ' ') else {
                self.at = self.text.len();
                return Err(Self::token_error(rest));
            };
            out.push_str(&rest[..stop]);
            self.at += stop;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => self.escape(&mut out)?,
                Some(byte) => {
                    return Err(bad().detail(format!(
                        "Character with value 0x{byte:02x} must be escaped."
                    )));
                }
                None => return Err(Self::ended()),
            }
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<()> {
        self.at += 1;
        let Some(escaped) = self.text[self.at..].chars().next() else {
            return Err(Self::ended());
        };
        self.at += escaped.len_utf8();
        out.push(match escaped {
            '"' | '\\' | '/' => escaped,
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return self.unicode(out),
            other => {
                let detail = format!("Escape sequence \"\\{other}\" is invalid.");
                return Err(bad().detail(detail));
            }
        });
        Ok(())
    }

    fn unicode(&mut self, out: &mut String) -> Result<()> {
        let unit = self.hex_digits()?;
        if self.escapes == Escapes::Kept {
            return Ok(());
        }
        if unit == 0 {
            return Err(SqlError::new(
                SqlState::UNTRANSLATABLE_CHARACTER,
                "unsupported Unicode escape sequence",
            )
            .detail("\\u0000 cannot be converted to text."));
        }
        if (0xdc00..0xe000).contains(&unit) {
            return Err(bad().detail("Unicode low surrogate must follow a high surrogate."));
        }
        if !(0xd800..0xdc00).contains(&unit) {
            out.push(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER));
            return Ok(());
        }
        if !self.text[self.at..].starts_with("\\u") {
            return Err(bad().detail("Unicode low surrogate must follow a high surrogate."));
        }
        self.at += 2;
        let low = self.hex_digits()?;
        if !(0xdc00..0xe000).contains(&low) {
            return Err(bad().detail("Unicode low surrogate must follow a high surrogate."));
        }
        let scalar = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        out.push(char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER));
        Ok(())
    }

    fn hex_digits(&mut self) -> Result<u32> {
        let digits = self.text.get(self.at..self.at + 4);
        let value = digits
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let value = value
            .ok_or_else(|| bad().detail("\"\\u\" must be followed by four hexadecimal digits."))?;
        self.at += 4;
        Ok(value)
    }

    fn ended() -> SqlError {
        bad().detail("The input string ended unexpectedly.")
    }

    fn expected(&self, what: &str) -> SqlError {
        let token = self.token();
        bad().detail(format!("Expected {what}, but found \"{token}\"."))
    }

    fn invalid_token(&self) -> SqlError {
        Self::token_error(self.token())
    }

    fn token_error(token: &str) -> SqlError {
        bad().detail(format!("Token \"{token}\" is invalid."))
    }
}

fn bad() -> SqlError {
    SqlError::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        "invalid input syntax for type json",
    )
}

/// Appends a string in quotes.
pub fn quote(out: &mut String, content: &str) {
    out.push('"');
    for character in content.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", control as u32);
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

impl Display for Json {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.print(&mut out);
        formatter.write_str(&out)
    }
}

impl Json {
    /// Appends the text with a blank after colons and commas.
    pub fn print(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Number(number) => {
                let _ = write!(out, "{number}");
            }
            Self::String(content) => quote(out, content),
            Self::Array(elements) => {
                out.push('[');
                for (place, element) in elements.iter().enumerate() {
                    out.push_str(if place > 0 { ", " } else { "" });
                    element.print(out);
                }
                out.push(']');
            }
            Self::Object(pairs) => {
                out.push('{');
                for (place, (key, value)) in pairs.iter().enumerate() {
                    out.push_str(if place > 0 { ", " } else { "" });
                    quote(out, key);
                    out.push_str(": ");
                    value.print(out);
                }
                out.push('}');
            }
        }
    }

    /// Appends the text over several lines, as `jsonb_pretty` has it.
    ///
    /// # Errors
    ///
    /// 54000 if it is too long.
    pub fn print_pretty(&self, out: &mut String, indent: usize) -> Result<()> {
        let line = |out: &mut String, indent: usize| {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
        };
        match self {
            Self::Array(elements) => {
                out.push('[');
                for (place, element) in elements.iter().enumerate() {
                    out.push_str(if place > 0 { "," } else { "" });
                    line(out, indent + 4);
                    element.print_pretty(out, indent + 4)?;
                }
                line(out, indent);
                out.push(']');
            }
            Self::Object(pairs) => {
                out.push('{');
                for (place, (key, value)) in pairs.iter().enumerate() {
                    out.push_str(if place > 0 { "," } else { "" });
                    line(out, indent + 4);
                    quote(out, key);
                    out.push_str(": ");
                    value.print_pretty(out, indent + 4)?;
                }
                line(out, indent);
                out.push('}');
            }
            other => other.print(out),
        }
        size::check(out.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_limited() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(Json::parse(&nested(DEPTH_MAX)).is_ok());
        let error = Json::parse(&nested(1_000_000)).expect_err("it is too deep");
        assert_eq!(error.state, SqlState::STATEMENT_TOO_COMPLEX);
    }
}
