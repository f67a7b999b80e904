//! Verifiers of passwords: SCRAM-SHA-256, in the form that PostgreSQL stores.
//!
//! A verifier proves to the server that a client knows the password, and to the client that the
//! server knows the verifier; neither follows from the other (RFC 5802, RFC 7677). Clients hash the
//! password as `SASLprep` prepares it, so that one is hashed here; one that it refuses is taken as
//! it is.

use crate::types::function::{from_base64, to_base64 as base64};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};

/// Rounds of the password's hash, PostgreSQL's default.
const ROUNDS: u32 = 4096;
/// The beginning of all verifiers.
const PREFIX: &str = "SCRAM-SHA-256$";

type Key = [u8; 32];

/// The verifier of a password with a new salt; a text that is one already stays. None for the MD5
/// hash of a password, with which it cannot be checked.
pub fn verifier(password: &str) -> Option<String> {
    if is_verifier(password) {
        return Some(password.to_owned());
    }
    if is_md5(password) {
        return None;
    }
    // A salt has to differ from all others, and need not be secret.
    let salt: Vec<u8> = (0..2)
        .flat_map(|place| RandomState::new().hash_one(place).to_le_bytes())
        .collect();
    Some(verifier_with(password, &salt, ROUNDS))
}

/// Whether a text has all parts of a verifier.
fn is_verifier(text: &str) -> bool {
    let parts = || {
        let (how, keys) = text.strip_prefix(PREFIX)?.split_once('$')?;
        let ((rounds, salt), (stored, server)) = (how.split_once(':')?, keys.split_once(':')?);
        let rounds: u32 = rounds.parse().ok()?;
        // Without blanks, which other readers of verifiers refuse.
        let bytes = |text: &str| from_base64(text).ok().filter(|bytes| base64(bytes) == text);
        let is_key = |text| bytes(text).is_some_and(|key| key.len() == Key::default().len());
        Some(rounds > 0 && bytes(salt).is_some() && is_key(stored) && is_key(server))
    };
    parts() == Some(true)
}

/// Whether a text has the form in which PostgreSQL keeps the MD5 hash of a password.
fn is_md5(text: &str) -> bool {
    let digits = text.strip_prefix("md5");
    digits.is_some_and(|digits| {
        let mut bytes = digits.bytes();
        digits.len() == 32 && bytes.all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

fn verifier_with(password: &str, salt: &[u8], rounds: u32) -> String {
    let password = stringprep::saslprep(password).unwrap_or(Cow::Borrowed(password));
    let salted = salted(password.as_bytes(), salt, rounds);
    let stored = Sha256::digest(hmac(&salted, &[b"Client Key"]));
    let server = hmac(&salted, &[b"Server Key"]);
    format!(
        "{PREFIX}{rounds}:{}${}:{}",
        base64(salt),
        base64(&stored),
        base64(&server)
    )
}

/// The hash of a password: PBKDF2 with one block.
fn salted(password: &[u8], salt: &[u8], rounds: u32) -> Key {
    let mut last = hmac(password, &[salt, &1_u32.to_be_bytes()]);
    let mut sum = last;
    for _ in 1..rounds {
        last = hmac(password, &[&last]);
        for (sum, byte) in sum.iter_mut().zip(&last) {
            *sum ^= byte;
        }
    }
    sum
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Key {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key may have any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exchange of RFC 7677: password `pencil`, and the keys that its messages prove.
    #[test]
    fn the_hash_is_that_of_the_standard() {
        let salt = [
            0x5b, 0x6d, 0x99, 0x68, 0x9d, 0x12, 0x35, 0x8e, 0xec, 0xa0, 0x4b, 0x14, 0x12, 0x36,
            0xfa, 0x81,
        ];
        let salted = salted(b"pencil", &salt, ROUNDS);
        let message = "n=user,r=rOprNGfwEbeRWgbNEkqO,\
            r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,\
            i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let signature = hmac(&hmac(&salted, &[b"Server Key"]), &[message.as_bytes()]);
        assert_eq!(
            base64(&signature),
            "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
        );
    }

    #[test]
    fn a_verifier_stays_as_it_is() {
        let made = verifier("secret").unwrap();
        assert!(made.starts_with("SCRAM-SHA-256$4096:"));
        assert_eq!(verifier(&made).unwrap(), made);
        assert_ne!(verifier("secret").unwrap(), made);
        // A text that only looks like one is a password.
        for other in ["SCRAM-SHA-256$bad".to_owned(), format!("{made} ")] {
            assert_ne!(verifier(&other).unwrap(), other);
        }
    }

    #[test]
    fn a_hash_by_md5_is_no_password() {
        assert_eq!(verifier("md5d1e0f5a2b3c4968778695a4b3c2d1e0f"), None);
        assert!(verifier("md5d1e0f5a2b3c4968778695a4b3c2d1e0F").is_some());
        assert!(verifier("md5").is_some());
    }

    #[test]
    fn passwords_are_prepared_as_clients_do() {
        let made = |password: &str| verifier_with(password, b"salt", 1);
        assert_eq!(made("pa\u{aa}ss\u{2168}"), made("paassIX"));
        assert_ne!(made("a\u{7}"), made("a"));
    }
}
