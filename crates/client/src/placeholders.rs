//! Parameters in the text of a statement: `$1` of PostgreSQL, `?` and `:name` of others.
//!
//! The grammar has `$1` only, so the other two are replaced by numbers before it reads the text.
//! Strings, quoted names, comments and dollar quotes are left alone. A text with `$1` keeps its
//! question marks, which are operators of JSON there; elsewhere `??` is that operator, as in JDBC,
//! and `?|` and `?&` stay what they are.
//!
//! The scan stops after the first statement, so it also says where the next one begins.

use sql::{SqlError, SqlState};
use std::fmt::Write;

/// The most parameters of a statement.
pub const PARAMETERS_MAX: usize = 65_535;

/// The first statement of a text with parameters as numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placeholders {
    /// The statement, with `$1` for each parameter.
    pub text: String,
    /// A name for each parameter that has one.
    pub names: Vec<Option<String>>,
    /// Bytes of the given text up to the next statement.
    pub end: usize,
}

impl Placeholders {
    /// Reads the first statement of a text.
    ///
    /// # Errors
    ///
    /// A number of a parameter that is 0 or too large.
    pub fn read(text: &str) -> Result<Self, SqlError> {
        let mut scan = Scan::new(text);
        let mut at = 0;
        while scan.step(&mut at)? {}
        let end = text.len() - scan.rest.len();
        let statement = text[..end].trim_end_matches(';');
        Ok(replaced(statement, &scan.found, end))
    }

    /// Whether the statement has nothing but blanks and comments.
    pub fn is_empty(&self) -> bool {
        let mut scan = Scan::new(&self.text);
        let mut at = 0;
        while scan.last == ' ' && scan.step(&mut at).unwrap_or(false) {}
        scan.last == ' '
    }

    /// The place of a named parameter, from 0. The name may begin with its colon.
    pub fn position(&self, name: &str) -> Option<usize> {
        let name = name.strip_prefix(':').unwrap_or(name);
        let mut names = self.names.iter();
        names.position(|own| own.as_deref() == Some(name))
    }
}

/// A parameter or an operator in the text.
struct Found {
    at: usize,
    bytes: usize,
    what: What,
}

#[derive(PartialEq, Eq)]
enum What {
    Number(usize),
    Question,
    Name(String),
    /// `??`.
    Operator,
}

struct Scan<'t> {
    rest: &'t str,
    /// Open square brackets, in which a colon after an operand is that of a slice.
    brackets: usize,
    /// The last character that is not blank.
    last: char,
    found: Vec<Found>,
}

impl<'t> Scan<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            rest: text,
            brackets: 0,
            last: ' ',
            found: Vec::new(),
        }
    }

    /// Reads one token; false at the end of the statement.
    fn step(&mut self, at: &mut usize) -> Result<bool, SqlError> {
        let mut letters = self.rest.chars();
        let Some(first) = letters.next() else {
            return Ok(false);
        };
        let second = letters.next().unwrap_or(' ');
        let length = match (first, second) {
            ('\'', _) => quoted_length(self.rest, '\'', matches!(self.last, 'e' | 'E')),
            ('"', _) => quoted_length(self.rest, '"', false),
            ('-', '-') => self.rest.find('\n').unwrap_or(self.rest.len()),
            ('/', '*') => comment_length(self.rest),
            ('$', _) => self.dollar(*at)?,
            ('?', _) => self.question(*at, second),
            (':', ':' | '=') => 2,
            (':', _) if is_name_start(second) => self.colon(*at),
            (letter, _) if is_name_start(letter) => name_length(self.rest),
            _ => first.len_utf8(),
        };
        let token = &self.rest[..length];
        self.rest = &self.rest[length..];
        *at += length;
        match first {
            '[' => self.brackets += 1,
            ']' => self.brackets = self.brackets.saturating_sub(1),
            _ => {}
        }
        let is_comment = matches!((first, second), ('-', '-') | ('/', '*'));
        let is_prefix = is_name_start(first) && token.len() == 1 && self.rest.starts_with('\'');
        if is_prefix || is_name_start(first) {
            // Only a string that follows at once is an escape string.
            self.last = if is_prefix { first } else { 'a' };
        } else if !is_comment && !first.is_whitespace() {
            self.last = token.chars().next_back().unwrap_or(first);
        } else if matches!(self.last, 'e' | 'E') {
            self.last = 'a';
        }
        Ok(first != ';')
    }

    fn find(&mut self, at: usize, bytes: usize, what: What) -> usize {
        self.found.push(Found { at, bytes, what });
        bytes
    }

    fn dollar(&mut self, at: usize) -> Result<usize, SqlError> {
        let behind = &self.rest[1..];
        let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            let number = behind[..digits].parse::<usize>().unwrap_or(usize::MAX);
            if number == 0 || number > PARAMETERS_MAX {
                let message = format!("there is no parameter ${}", &behind[..digits]);
                return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, message));
            }
            return Ok(self.find(at, 1 + digits, What::Number(number)));
        }
        let tag = tag_length(behind);
        if !behind[tag..].starts_with('$') {
            return Ok(1);
        }
        let fence = &self.rest[..tag + 2];
        let content = &self.rest[fence.len()..];
        let end = content.find(fence).map(|end| end + fence.len());
        Ok(fence.len() + end.unwrap_or(content.len()))
    }

    fn question(&mut self, at: usize, second: char) -> usize {
        let third = self.rest.chars().nth(2);
        match second {
            '?' => self.find(at, 2, What::Operator),
            '&' => 2,
            '|' if third != Some('|') => 2,
            _ => self.find(at, 1, What::Question),
        }
    }

    fn colon(&mut self, at: usize) -> usize {
        let is_operand = self.last.is_alphanumeric() || "_)]'\"".contains(self.last);
        if self.brackets > 0 && is_operand {
            return 1;
        }
        let length = tag_length(&self.rest[1..]);
        let name = self.rest[1..=length].to_owned();
        self.find(at, 1 + length, What::Name(name))
    }
}

fn is_name_start(letter: char) -> bool {
    letter.is_alphabetic() || letter == '_'
}

/// Bytes of a name, in which dollars may stand after its first letter.
fn name_length(text: &str) -> usize {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != '$');
    end.unwrap_or(text.len())
}

/// Bytes of the tag of a dollar quote, or of the name of a parameter, which have no dollars.
fn tag_length(text: &str) -> usize {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    end.unwrap_or(text.len())
}

/// Bytes of a string with its quotes; doubled quotes make two strings, which does no harm.
fn quoted_length(text: &str, quote: char, has_escapes: bool) -> usize {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        if is_escaped {
            is_escaped = false;
        } else if has_escapes && letter == '\\' {
            is_escaped = true;
        } else if letter == quote {
            return at + 1;
        }
    }
    text.len()
}

/// Bytes of a comment, in which others may be nested.
fn comment_length(text: &str) -> usize {
    let (bytes, mut depth, mut at) = (text.as_bytes(), 0_usize, 0);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The statement with numbers in the place of what was found.
fn replaced(statement: &str, found: &[Found], end: usize) -> Placeholders {
    let numbers = found.iter().filter_map(|found| match found.what {
        What::Number(number) => Some(number),
        _ => None,
    });
    if let Some(highest) = numbers.max() {
        return Placeholders {
            text: statement.to_owned(),
            names: vec![None; highest],
            end,
        };
    }
    let mut result = Placeholders {
        text: String::with_capacity(statement.len() + 2 * found.len()),
        names: Vec::new(),
        end,
    };
    let mut copied = 0;
    for found in found {
        result.text.push_str(&statement[copied..found.at]);
        copied = found.at + found.bytes;
        let name = match &found.what {
            What::Operator => {
                result.text.push('?');
                continue;
            }
            What::Name(name) => Some(name.clone()),
            What::Question | What::Number(_) => None,
        };
        let known = name.as_deref().and_then(|name| result.position(name));
        let number = known.unwrap_or_else(|| {
            result.names.push(name);
            result.names.len() - 1
        });
        let _ = write!(result.text, "${}", number + 1);
    }
    result.text.push_str(&statement[copied..]);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(of: &str) -> String {
        Placeholders::read(of).unwrap().text
    }

    #[test]
    fn each_style_becomes_numbers() {
        assert_eq!(text("a = ? AND b = ?"), "a = $1 AND b = $2");
        assert_eq!(text("a = $2 AND b ? 'x'"), "a = $2 AND b ? 'x'");
        let named = Placeholders::read("a = :x AND b = :y OR c = :x").unwrap();
        assert_eq!(named.text, "a = $1 AND b = $2 OR c = $1");
        assert_eq!(named.position("y"), Some(1));
        assert_eq!(named.position(":x"), Some(0));
        assert_eq!(named.position("z"), None);
    }

    #[test]
    fn operators_and_quotes_stay() {
        for same in [
            "'?' || \"?\" || ':a'",
            "E'it\\'s ?' -- ?\n",
            "/* ? /* :a */ ? */ 1",
            "$$ ? :a $$ || $tag$ ? $tag$",
            "a ?| b AND a ?& b AND c::text",
            "x[1:n] || x[(a):b]",
            "SELECT a$1, b$c FROM t$",
        ] {
            assert_eq!(text(same), same);
        }
        assert_eq!(text("a ?? 'k' AND b = ?"), "a ? 'k' AND b = $1");
        assert_eq!(text("ARRAY[:a, :b]"), "ARRAY[$1, $2]");
        assert_eq!(text("? || ?||'x'"), "$1 || $2||'x'");
        assert_eq!(text("size = 'a\\' AND b = ?"), "size = 'a\\' AND b = $1");
        assert_eq!(text("he 'a\\' , ?"), "he 'a\\' , $1");
    }

    #[test]
    fn a_text_is_cut_after_its_first_statement() {
        let both = "SELECT ';'; SELECT ?";
        let first = Placeholders::read(both).unwrap();
        assert_eq!((first.text.as_str(), first.end), ("SELECT ';'", 11));
        assert_eq!(text(&both[first.end..]), " SELECT $1");
        assert_eq!(Placeholders::read("").unwrap(), Placeholders::default());
        let is_empty = |text| Placeholders::read(text).unwrap().is_empty();
        assert!(is_empty("") && is_empty(" -- SELECT ?\n /* ; */ ;"));
        assert!(!is_empty("/* */ SELECT 1"));
    }

    #[test]
    fn numbers_have_a_range() {
        for bad in ["$0", "$65536", "$99999999999999999999"] {
            let error = Placeholders::read(bad).unwrap_err();
            assert_eq!(error.state, SqlState::UNDEFINED_PARAMETER);
        }
    }
}
