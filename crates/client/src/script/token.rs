//! The parts of a text that a shell has to tell apart.
//!
//! A token ends where the next one begins, so the tokens of a text are the text. Quotes, comments
//! and dollar quotes may have no end; then the token is the rest of the text and is not closed.

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its characters.
    pub text: &'a str,
    /// Whether its end is there.
    pub is_closed: bool,
}

/// The kind of a part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Blanks and ends of lines.
    Blank,
    /// A comment of either kind.
    Comment,
    /// A text in single quotes, with its prefix, or in dollars.
    Text,
    /// A name in double quotes.
    Name,
    /// Letters, digits and underscores: a word or a number.
    Word,
    /// Any other character.
    Symbol,
}

/// The tokens of a text.
pub fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let token = first(rest)?;
        rest = &rest[token.text.len()..];
        Some(token)
    })
}

/// The first token of a text.
pub(super) fn first(text: &str) -> Option<Token<'_>> {
    let letter = text.chars().next()?;
    let (kind, length) = match letter {
        _ if letter.is_ascii_whitespace() => {
            (Kind::Blank, text.find(|c: char| !c.is_ascii_whitespace()))
        }
        '-' if text.starts_with("--") => (Kind::Comment, text.find('\n').or(Some(text.len()))),
        '/' if text.starts_with("/*") => (Kind::Comment, comment_end(text)),
        '\'' => (Kind::Text, quote_end(text, 1, false)),
        'e' | 'E' if text[1..].starts_with('\'') => (Kind::Text, quote_end(text, 2, true)),
        '"' => (Kind::Name, quote_end(text, 1, false)),
        '$' if let Some(tag) = dollar_tag(text) => {
            let end = text[tag.len()..].find(tag);
            (Kind::Text, end.map(|end| end + 2 * tag.len()))
        }
        _ if is_word(letter) => (Kind::Word, text.find(|c| !is_word(c) && c != '$')),
        _ => (Kind::Symbol, Some(letter.len_utf8())),
    };
    let is_closed = length.is_some() || matches!(kind, Kind::Blank | Kind::Word);
    let text = &text[..length.unwrap_or(text.len())];
    Some(Token {
        kind,
        text,
        is_closed,
    })
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || !letter.is_ascii()
}

/// The end of a quoted text whose first character stands at `from - 1`. Two quotes are one.
fn quote_end(text: &str, from: usize, has_escapes: bool) -> Option<usize> {
    let bytes = text.as_bytes();
    let quote = bytes[from - 1];
    let mut at = from;
    while at < bytes.len() {
        if bytes[at] == b'\\' && has_escapes {
            at += 1;
        } else if bytes[at] == quote {
            if bytes.get(at + 1) != Some(&quote) {
                return Some(at + 1);
            }
            at += 1;
        }
        at += 1;
    }
    None
}

/// The end of a comment, which may have others inside.
fn comment_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0, 0);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// `$$` or `$tag$` at the beginning of a text.
fn dollar_tag(text: &str) -> Option<&str> {
    let end = text[1..].find('$')? + 2;
    let tag = &text[..end];
    let name = &tag[1..end - 1];
    let is_name = name.chars().all(is_word) && !name.starts_with(|c: char| c.is_ascii_digit());
    is_name.then_some(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_comments_are_one_token() {
        for text in [
            "'it''s'",
            "E'\\'x'",
            "\"a\"\"b\"",
            "$$a'b$$",
            "$t$a$$b$t$",
            "/* a /* b */ c */",
            "-- x; y",
        ] {
            let all: Vec<Token<'_>> = tokens(text).collect();
            assert!(
                all.len() == 1 && all[0].is_closed && all[0].text == text,
                "{all:?}"
            );
        }
    }

    #[test]
    fn ends_may_be_missing() {
        for text in ["'it", "E'\\'", "\"a", "$$a$", "/* a /* b */"] {
            let all: Vec<Token<'_>> = tokens(text).collect();
            assert!(all.len() == 1 && !all[0].is_closed, "{all:?}");
        }
    }

    #[test]
    fn the_tokens_of_a_text_are_the_text() {
        let text = "SELECT a$1, 'x'||é::text FROM t -- end\n WHERE $1 < $2;";
        let all: String = tokens(text).map(|token| token.text).collect();
        assert_eq!(all, text);
        let words = tokens(text).filter(|token| token.kind == Kind::Word);
        let words: Vec<&str> = words.map(|token| token.text).collect();
        assert_eq!(
            words,
            ["SELECT", "a$1", "é", "text", "FROM", "t", "WHERE", "1", "2"]
        );
    }
}
