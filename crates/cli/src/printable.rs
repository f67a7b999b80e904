//! Text of data, names and files as it is shown to a person.
//!
//! A terminal obeys control characters, and a character that turns the direction of reading makes
//! one text look like another. Anybody who can store a row could use them to repaint the screen of
//! its reader. Everything that is printed for a person therefore goes through [`printable`], which
//! shows such characters as `\u{1b}`; JSON and CSV stay exact.

use std::borrow::Cow;

/// Most characters of a value in a table.
const CHARACTERS_MAX: usize = 256;

/// The text on one line, with everything shown that would not print as itself.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, prints)
}

/// The same, for a text of several lines.
pub(crate) fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| letter == '\n' || prints(letter))
}

/// The beginning of a text that is too long for a table; nothing if it is not.
pub(crate) fn beginning(text: &str) -> Option<&str> {
    // A shorter text cannot have more characters, and most are.
    if text.len() <= CHARACTERS_MAX {
        return None;
    }
    let (end, _) = text.char_indices().nth(CHARACTERS_MAX)?;
    Some(&text[..end])
}

/// The same for bytes, which print as two digits each.
pub(crate) fn first_bytes(bytes: &[u8]) -> Option<&[u8]> {
    let first = bytes.get(..CHARACTERS_MAX / 2)?;
    (bytes.len() > first.len()).then_some(first)
}

fn escaped(text: &str, prints: impl Fn(char) -> bool) -> Cow<'_, str> {
    if text.chars().all(&prints) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if prints(letter) {
            shown.push(letter);
        } else {
            shown.extend(letter.escape_debug());
        }
    }
    Cow::Owned(shown)
}

/// Whether a character prints as itself and moves nothing else. The standard library knows the
/// classes: it escapes control and format characters, those without a meaning, and spaces that are
/// none.
fn prints(letter: char) -> bool {
    match letter {
        // Spaces of other widths, but not the ends of lines and paragraphs; and the two characters
        // that join letters or part them, as Persian, Hindi and family pictures need, and reorder
        // nothing.
        ' '..='~'
        | '\u{A0}'
        | '\u{2000}'..='\u{200A}'
        | '\u{200C}'
        | '\u{200D}'
        | '\u{202F}'
        | '\u{205F}'
        | '\u{3000}' => true,
        // An accent alone counts as unprintable; after a letter it is not.
        _ => {
            let mut pair = [b'a', 0, 0, 0, 0];
            letter.encode_utf8(&mut pair[1..]);
            let pair = &pair[..=letter.len_utf8()];
            std::str::from_utf8(pair).is_ok_and(|pair| pair.escape_debug().count() == 2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_commands_a_terminal_is_shown() {
        for (text, shown) in [
            ("plain `x` \\ \"y\"", "plain `x` \\ \"y\""),
            (
                "naïve Straße 日本　語 हिन्दी می‌خواهم 👨‍👩‍👧 a\u{301}",
                "naïve Straße 日本　語 हिन्दी می‌خواهم 👨‍👩‍👧 a\u{301}",
            ),
            ("\u{1b}[31mred\u{7}", "\\u{1b}[31mred\\u{7}"),
            ("\u{9b}2J\u{85}", "\\u{9b}2J\\u{85}"),
            ("a\nb\tc\rd\0", "a\\nb\\tc\\rd\\0"),
            (
                "\u{202e}gpj.exe\u{2066}\u{200f}",
                "\\u{202e}gpj.exe\\u{2066}\\u{200f}",
            ),
            (
                "\u{200b}\u{feff}\u{ad}\u{2028}\u{e0041}",
                "\\u{200b}\\u{feff}\\u{ad}\\u{2028}\\u{e0041}",
            ),
            ("\u{7f}", "\\u{7f}"),
        ] {
            assert_eq!(printable(text), shown);
        }
        assert_eq!(printable_lines("a\n\u{1b}b"), "a\n\\u{1b}b");
    }

    #[test]
    fn long_values_are_cut_between_characters() {
        assert_eq!(beginning("short"), None);
        assert_eq!(beginning(&"é".repeat(256)), None);
        assert_eq!(beginning(&"é".repeat(257)), Some("é".repeat(256).as_str()));
        assert_eq!(first_bytes(&[7; 128]), None);
        assert_eq!(first_bytes(&[7; 129]).map(<[u8]>::len), Some(128));
    }
}
