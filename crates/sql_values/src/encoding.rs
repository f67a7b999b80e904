//! Encodings of a byte a character, to and from which a server converts texts for its clients.
//!
//! The bytes below 128 are those of ASCII in all of them. `encodings.txt` has the characters of the
//! others, as PostgreSQL converts them: the name of an encoding, and 128 code points in
//! hexadecimal, `-` for a byte that is no character.

use crate::error::{Result, SqlError, SqlState};
use std::sync::LazyLock;

/// An encoding.
#[derive(Debug, PartialEq, Eq)]
pub struct Encoding {
    /// Its name, as settings show it.
    pub name: &'static str,
    /// Characters of the bytes from 128 on; 0 for none.
    high: Vec<u16>,
}

static ALL: LazyLock<Vec<Encoding>> = LazyLock::new(|| {
    let mut all: Vec<Encoding> = Vec::new();
    for line in include_str!("encodings.txt").lines() {
        match (line.strip_prefix(' '), all.last_mut()) {
            (Some(numbers), Some(encoding)) => {
                let numbers = numbers.split_whitespace();
                let numbers = numbers.map(|one| u16::from_str_radix(one, 16).unwrap_or(0));
                encoding.high.extend(numbers);
            }
            _ => all.push(Encoding {
                name: line,
                high: Vec::with_capacity(128),
            }),
        }
    }
    all
});

impl Encoding {
    /// The encoding with a name; none for UTF-8, and for those that there are not.
    pub fn named(name: &str) -> Option<&'static Self> {
        let letters = letters_of(name);
        let number = letters.strip_prefix("iso8859");
        let wanted = match (letters.as_str(), number) {
            ("koi8", _) => "koi8r",
            ("win", _) => "win1251",
            ("alt", _) => "win866",
            ("abc" | "tcvn" | "tcvn5712" | "vscii", _) => "win1258",
            (_, Some("1")) => "latin1",
            (_, Some("2")) => "latin2",
            (_, Some("3")) => "latin3",
            (_, Some("4")) => "latin4",
            (_, Some("9")) => "latin5",
            (_, Some("10")) => "latin6",
            (_, Some("13")) => "latin7",
            (_, Some("14")) => "latin8",
            (_, Some("15")) => "latin9",
            (_, Some("16")) => "latin10",
            _ => &letters.replace("windows", "win"),
        };
        ALL.iter().find(|one| letters_of(one.name) == wanted)
    }

    /// A text of a client.
    ///
    /// # Errors
    ///
    /// 22P05 for a byte that is no character.
    pub fn decode(&self, bytes: &[u8]) -> Result<String> {
        let mut text = String::with_capacity(bytes.len());
        for &byte in bytes {
            text.push(match byte.checked_sub(128) {
                None => char::from(byte),
                Some(at) => {
                    let code = self.high.get(usize::from(at)).copied().unwrap_or(0);
                    let found = char::from_u32(code.into()).filter(|_| code != 0);
                    found.ok_or_else(|| no_equivalent(&[byte], (self.name, "UTF8")))?
                }
            });
        }
        Ok(text)
    }

    /// The byte of a character, if it has one.
    fn byte_of(&self, character: char) -> Option<u8> {
        if character.is_ascii() {
            return Some(character as u8);
        }
        let code = u16::try_from(u32::from(character)).ok()?;
        let at = self.high.iter().position(|own| *own == code)?;
        u8::try_from(at + 128).ok()
    }

    /// Appends a text for a client.
    ///
    /// # Errors
    ///
    /// 22P05 for a character that the encoding lacks.
    pub fn encode(&self, text: &str, out: &mut Vec<u8>) -> Result<()> {
        for character in text.chars() {
            let byte = self.byte_of(character).ok_or_else(|| {
                let mut bytes = [0; 4];
                let bytes = character.encode_utf8(&mut bytes).as_bytes();
                no_equivalent(bytes, ("UTF8", self.name))
            })?;
            out.push(byte);
        }
        Ok(())
    }

    /// Appends a message for a client, with `?` for characters that the encoding lacks: a message
    /// that cannot be told would be another error.
    pub fn encode_message(&self, text: &[u8], out: &mut Vec<u8>) {
        let text = String::from_utf8_lossy(text);
        out.extend(text.chars().map(|one| self.byte_of(one).unwrap_or(b'?')));
    }
}

/// The letters and digits of a name, in lower case.
fn letters_of(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|one| one.to_ascii_lowercase()).collect()
}

fn no_equivalent(bytes: &[u8], (from, to): (&str, &str)) -> SqlError {
    let shown: Vec<String> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
    let message = format!(
        "character with byte sequence {} in encoding \"{from}\" has no equivalent in encoding \"{to}\"",
        shown.join(" ")
    );
    SqlError::new(SqlState::UNTRANSLATABLE_CHARACTER, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_lead_there_and_back() {
        assert_eq!(ALL.len(), 27);
        for encoding in ALL.iter() {
            assert_eq!(encoding.high.len(), 128, "{}", encoding.name);
            assert!(std::ptr::eq(
                Encoding::named(encoding.name).unwrap(),
                encoding
            ));
            for byte in 0..=255_u8 {
                let Ok(text) = encoding.decode(&[byte]) else {
                    continue;
                };
                let mut bytes = Vec::new();
                encoding.encode(&text, &mut bytes).unwrap();
                assert_eq!(bytes, [byte], "{}", encoding.name);
            }
        }
    }

    #[test]
    fn names_have_forms() {
        let cases = [
            ("latin1", "LATIN1"),
            ("ISO-8859-15", "LATIN9"),
            ("iso_8859_5", "ISO_8859_5"),
            ("Windows-1252", "WIN1252"),
            ("koi8", "KOI8R"),
        ];
        for (name, shown) in cases {
            assert_eq!(Encoding::named(name).unwrap().name, shown);
        }
        for name in ["UTF8", "EUC_JP", "nonsense", ""] {
            assert!(Encoding::named(name).is_none(), "{name}");
        }
    }

    #[test]
    fn characters_that_are_missing_are_errors() {
        let latin1 = Encoding::named("LATIN1").unwrap();
        let error = latin1.encode("1 €", &mut Vec::new()).unwrap_err();
        assert_eq!(
            (error.state.0, error.message.as_str()),
            (
                "22P05",
                "character with byte sequence 0xe2 0x82 0xac in encoding \"UTF8\" has no equivalent in encoding \"LATIN1\""
            )
        );
        let error = Encoding::named("WIN1252").unwrap().decode(b"a\x81");
        assert_eq!(error.unwrap_err().state.0, "22P05");
        let mut told = Vec::new();
        latin1.encode_message("ä€".as_bytes(), &mut told);
        assert_eq!(told, b"\xe4?");
    }
}
