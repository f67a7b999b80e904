//! LIKE: the match of a text or of bytes with a pattern, and the range of texts that may match.
//!
//! Letters are compared as they are or in small form, whatever the collation, and a text that
//! matches always lies between the beginning of its pattern and the text after all of these.

use crate::error::{Result, SqlError, SqlState};

/// Whether letters count as they are written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Case {
    /// They do.
    Sensitive,
    /// Capital and small letters are the same.
    Insensitive,
}

/// Whether a text matches a LIKE pattern, in which a backslash escapes.
pub fn like(text: &str, pattern: &str, case: Case) -> Result<bool> {
    match case {
        Case::Sensitive => like_bytes(text.as_bytes(), pattern.as_bytes(), Unit::Character),
        Case::Insensitive => {
            let (text, pattern) = (text.to_lowercase(), pattern.to_lowercase());
            like_bytes(text.as_bytes(), pattern.as_bytes(), Unit::Character)
        }
    }
}

/// The unit that `_` stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A character of a text.
    Character,
    /// A byte.
    Byte,
}

/// Whether bytes match a LIKE pattern.
pub fn like_bytes(text: &[u8], pattern: &[u8], unit: Unit) -> Result<bool> {
    let (mut at, mut place) = (0, 0);
    // After the last `%`: where to go on in the pattern, and from where in the text.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match pattern.get(place) {
            Some(b'%') => {
                place += 1;
                retry = Some((place, at));
                continue;
            }
            Some(b'_') if at < text.len() => {
                place += 1;
                at = next_unit(text, at, unit);
                continue;
            }
            Some(b'\\') if at < text.len() => {
                let Some(escaped) = pattern.get(place + 1) else {
                    return Err(SqlError::new(
                        SqlState::INVALID_ESCAPE_SEQUENCE,
                        "LIKE pattern must not end with escape character",
                    ));
                };
                if text.get(at) == Some(escaped) {
                    place += 2;
                    at += 1;
                    continue;
                }
            }
            Some(byte) if *byte != b'_' && text.get(at) == Some(byte) => {
                place += 1;
                at += 1;
                continue;
            }
            None if at == text.len() => return Ok(true),
            _ => {}
        }
        match retry {
            Some((after, from)) if from < text.len() => {
                at = next_unit(text, from, unit);
                place = after;
                retry = Some((after, at));
            }
            _ => return Ok(false),
        }
    }
}

/// The text with which all texts begin that match a LIKE pattern.
pub fn beginning(pattern: &str) -> String {
    let mut characters = pattern.chars();
    let next = || match characters.next()? {
        '%' | '_' => None,
        '\\' => characters.next(),
        character => Some(character),
    };
    std::iter::from_fn(next).collect()
}

/// The least text above all texts with a beginning; none if there is no greater one.
pub fn after_all(beginning: &str) -> Option<String> {
    let mut characters: Vec<char> = beginning.chars().collect();
    while let Some(last) = characters.pop() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            characters.push(next);
            return Some(characters.into_iter().collect());
        }
    }
    None
}

fn next_unit(text: &[u8], at: usize, unit: Unit) -> usize {
    let mut next = at + 1;
    while unit == Unit::Character && text.get(next).is_some_and(|byte| byte & 0xc0 == 0x80) {
        next += 1;
    }
    next
}

/// A LIKE pattern of another escape character, rewritten for the backslash.
pub fn like_escape(pattern: &str, escape: &str) -> Result<String> {
    let escape = escape_character(escape)?;
    let mut out = String::with_capacity(pattern.len());
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        if Some(character) == escape {
            out.push('\\');
            match characters.next() {
                Some(escaped) => out.push(escaped),
                None => break,
            }
        } else if character == '\\' {
            out.push_str("\\\\");
        } else {
            out.push(character);
        }
    }
    Ok(out)
}

pub(super) fn escape_character(escape: &str) -> Result<Option<char>> {
    let mut characters = escape.chars();
    let first = characters.next();
    match characters.next() {
        None => Ok(first),
        Some(_) => Err(
            SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
                .hint("Escape string must be empty or one character."),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_match_lie_between_the_ends() {
        let cases = [
            ("abc%", "abc", Some("abd")),
            ("a\\%c_x", "a%c", Some("a%d")),
            ("abc\\", "abc", Some("abd")),
            ("%abc", "", None),
            ("_", "", None),
            ("z\u{10ffff}%", "z\u{10ffff}", Some("{")),
            ("\u{10ffff}%", "\u{10ffff}", None),
            ("\u{d7ff}%", "\u{d7ff}", Some("\u{e000}")),
            ("caf\u{e9}", "caf\u{e9}", Some("caf\u{ea}")),
        ];
        for (pattern, least, after) in cases {
            assert_eq!(beginning(pattern), least, "{pattern}");
            assert_eq!(after_all(least).as_deref(), after, "{pattern}");
        }
    }

    /// Expected results are those of PostgreSQL 15.
    #[test]
    fn like_matches_as_postgresql_does() {
        let cases = [
            ("hawkeye", "h%", true),
            ("hawkeye", "h%eye", true),
            ("hawkeye", "H%", false),
            ("indio", "_ndio", true),
            ("indio", "in_o", false),
            ("h%", "h\\%", true),
            ("ha", "h\\%", false),
            ("abcabc", "%bc", true),
            ("ä", "_", true),
            ("", "%", true),
            ("", "_", false),
            ("a_b", "a\\_b", true),
        ];
        for (text, pattern, expected) in cases {
            let found = like(text, pattern, Case::Sensitive);
            assert_eq!(found, Ok(expected), "{text} LIKE {pattern}");
        }
        // Only a text that gets there meets the escape at the end.
        assert_eq!(like("a", "a\\", Case::Sensitive), Ok(false));
        assert!(like("ab", "a\\", Case::Sensitive).is_err());
    }
}
