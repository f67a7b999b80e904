//! A text without its constants, for logs and statistics: nothing that a user has written as a
//! value is left in it.
//!
//! Texts, numbers, bits and bytes become `?`, comments and line breaks a space. Text that has no
//! end, as where a statement was cut, goes as a whole. Names stay, quoted ones among them.

/// The text without its constants.
pub fn without_constants(text: &str) -> String {
    replaced(text, |out| out.push('?'))
}

/// The text with parameters in the place of its constants, numbered after those that it has, and
/// without the semicolon at its end.
pub fn with_parameters(text: &str) -> String {
    let mut last = last_parameter(text);
    let out = replaced(text, |out| {
        last = last.saturating_add(1);
        out.push('$');
        out.push_str(&last.to_string());
    });
    out.trim_end_matches([';', ' ']).to_owned()
}

/// The highest number of a parameter; 0 if there is none.
fn last_parameter(text: &str) -> u32 {
    let (mut last, mut rest) = (0, text);
    while let Some(first) = rest.chars().next() {
        let (kind, length) = token(rest, first);
        let (part, after) = rest.split_at(length);
        if kind == Token::Kept
            && let Some(number) = part
                .strip_prefix('$')
                .and_then(|digits| digits.parse().ok())
        {
            last = last.max(number);
        }
        rest = after;
    }
    last
}

fn replaced(text: &str, mut constant: impl FnMut(&mut String)) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (kind, length) = token(rest, first);
        let (part, after) = rest.split_at(length);
        match kind {
            Token::Kept => out.push_str(part),
            Token::Constant => constant(&mut out),
            Token::Space if out.is_empty() || out.ends_with(' ') => {}
            Token::Space => out.push(' '),
        }
        rest = after;
    }
    out.truncate(out.trim_end().len());
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    Kept,
    Constant,
    Space,
}

/// The kind of the first token of a text that is not empty, and its bytes.
fn token(text: &str, first: char) -> (Token, usize) {
    let bytes = text.as_bytes();
    let next = bytes.get(1).copied();
    match first {
        _ if first.is_whitespace() => (Token::Space, first.len_utf8()),
        '-' if next == Some(b'-') => (Token::Space, text.find('\n').unwrap_or(text.len())),
        '/' if next == Some(b'*') => (Token::Space, comment_end(bytes)),
        '\'' => (Token::Constant, quoted_end(bytes, 0, false)),
        '"' => (Token::Kept, quoted_end(bytes, 0, false)),
        '$' if next.is_some_and(|byte| byte.is_ascii_digit()) => (
            Token::Kept,
            1 + span(&text[1..], |letter| letter.is_ascii_digit()),
        ),
        '$' => match dollar_end(text) {
            Some(end) => (Token::Constant, end),
            None => (Token::Kept, 1),
        },
        '0'..='9' => (Token::Constant, number_end(bytes)),
        '.' if next.is_some_and(|byte| byte.is_ascii_digit()) => {
            (Token::Constant, number_end(bytes))
        }
        _ if first.is_alphabetic() || first == '_' => word(text),
        _ => (Token::Kept, first.len_utf8()),
    }
}

/// A name or a word, or a text with a letter before it: `E'\n'`, `B'1'`, `X'ff'`, `N'a'`, `U&'a'`.
fn word(text: &str) -> (Token, usize) {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '$';
    let end = span(text, is_part);
    let after = &text.as_bytes()[end..];
    match (text[..end].to_ascii_lowercase().as_str(), after) {
        ("e", [b'\'', ..]) => (Token::Constant, end + quoted_end(after, 0, true)),
        ("b" | "x" | "n", [b'\'', ..]) => (Token::Constant, end + quoted_end(after, 0, false)),
        ("u", [b'&', b'\'', ..]) => (Token::Constant, end + quoted_end(after, 1, false)),
        _ => (Token::Kept, end),
    }
}

fn span(text: &str, is_part: impl Fn(char) -> bool) -> usize {
    text.find(|letter| !is_part(letter)).unwrap_or(text.len())
}

/// The end of a text or name whose quote stands at `start`: a quote that is not doubled.
fn quoted_end(bytes: &[u8], start: usize, has_escapes: bool) -> usize {
    let quote = bytes[start];
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        if *byte == quote && bytes.get(at + 1) == Some(&quote) || has_escapes && *byte == b'\\' {
            at += 1;
        } else if *byte == quote {
            return at + 1;
        }
        at += 1;
    }
    bytes.len()
}

/// The end of a comment, which may have others inside.
fn comment_end(bytes: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < bytes.len() {
        match bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] if depth == 1 => return at + 2,
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The end of `$tag$ ... $tag$`; none if no such text begins.
fn dollar_end(text: &str) -> Option<usize> {
    let is_tag = |letter: char| letter.is_alphanumeric() || letter == '_';
    let last = 1 + span(&text[1..], is_tag);
    let quote = text.get(..=last).filter(|quote| quote.ends_with('$'))?;
    let rest = &text[quote.len()..];
    Some(
        rest.find(quote)
            .map_or(text.len(), |end| 2 * quote.len() + end),
    )
}

fn number_end(bytes: &[u8]) -> usize {
    let mut end = 0;
    while let Some(byte) = bytes.get(end) {
        let is_sign = matches!(byte, b'+' | b'-') && matches!(bytes[end - 1], b'e' | b'E');
        if !byte.is_ascii_alphanumeric() && !matches!(byte, b'.' | b'_') && !is_sign {
            break;
        }
        end += 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_go_and_names_stay() {
        for (text, expected) in [
            ("SELECT 1", "SELECT ?"),
            (
                "select a1, $2 from t_3 where x = -1.5e-3",
                "select a1, $2 from t_3 where x = -?",
            ),
            (
                "CREATE ROLE ann PASSWORD 'it''s'",
                "CREATE ROLE ann PASSWORD ?",
            ),
            (
                "SELECT E'a\\'b', B'1', x'ff', U&'\\0061', e",
                "SELECT ?, ?, ?, ?, e",
            ),
            ("SELECT $$a 'b'$$, $t$ $$ $t$, $ 1", "SELECT ?, ?, $ ?"),
            (
                "SELECT \"a 'b\" -- 'secret'\n  FROM t /* /* x */ 'y' */ ;",
                "SELECT \"a 'b\" FROM t ;",
            ),
            ("SELECT 'no end", "SELECT ?"),
            ("SELECT $x$ no end $$", "SELECT ?"),
            ("SELECT 1_000, .5, 0x1F, 'ü', ä1", "SELECT ?, ?, ?, ?, ä1"),
            ("/* no end 'x", ""),
            ("SELECT E'\\", "SELECT ?"),
            ("$", "$"),
            ("$ü", "$ü"),
        ] {
            assert_eq!(without_constants(text), expected, "{text}");
        }
    }

    #[test]
    fn parameters_take_the_place_of_constants() {
        for (text, expected) in [
            ("SELECT 1 , 'a' ; ", "SELECT $1 , $2"),
            ("SELECT $2, 5, $1, 'x'", "SELECT $2, $3, $1, $4"),
            ("SELECT $4294967295, 5", "SELECT $4294967295, $4294967295"),
            ("SELECT a", "SELECT a"),
        ] {
            assert_eq!(with_parameters(text), expected, "{text}");
        }
    }

    #[test]
    fn a_text_may_be_cut_anywhere() {
        let text = "SELECT $a$xsecretx$a$, E'xsecretx', 'xsecretx' /* xsecretx */ -- xsecretx";
        for end in 0..=text.len() {
            assert!(!without_constants(&text[..end]).contains("xse"), "{end}");
        }
    }
}
