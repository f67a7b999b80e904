//! Verifiers of passwords: SCRAM-SHA-256, in the form that PostgreSQL stores.
//!
//! A verifier proves to the server that a client knows the password, and to the client that the
//! server knows the verifier; neither follows from the other (RFC 5802, RFC 7677). The password is
//! taken as its UTF-8 bytes; preparation by `SASLprep` changes no password of ASCII letters.

use crate::types::function::{sha256, to_base64 as base64};
use std::hash::{BuildHasher, RandomState};

/// Rounds of the password's hash, PostgreSQL's default.
const ROUNDS: u32 = 4096;
/// Bytes of a block of SHA-256.
const BLOCK: usize = 64;
/// The beginning of all verifiers.
const PREFIX: &str = "SCRAM-SHA-256$";

/// The verifier of a password with a new salt; a text that is one already stays.
pub fn verifier(password: &str) -> String {
    if password.starts_with(PREFIX) {
        return password.to_owned();
    }
    // A salt has to differ from all others, and need not be secret.
    let salt: Vec<u8> = (0..2)
        .flat_map(|place| RandomState::new().hash_one(place).to_le_bytes())
        .collect();
    verifier_with(password, &salt, ROUNDS)
}

fn verifier_with(password: &str, salt: &[u8], rounds: u32) -> String {
    let salted = salted(password.as_bytes(), salt, rounds);
    let stored = sha256(&hmac(&salted, b"Client Key"));
    let server = hmac(&salted, b"Server Key");
    format!(
        "{PREFIX}{rounds}:{}${}:{}",
        base64(salt),
        base64(&stored),
        base64(&server)
    )
}

/// The hash of a password: PBKDF2 with one block.
fn salted(password: &[u8], salt: &[u8], rounds: u32) -> Vec<u8> {
    let mut first = salt.to_vec();
    first.extend(1_u32.to_be_bytes());
    let mut last = hmac(password, &first);
    let mut sum = last.clone();
    for _ in 1..rounds {
        last = hmac(password, &last);
        for (sum, byte) in sum.iter_mut().zip(&last) {
            *sum ^= byte;
        }
    }
    sum
}

fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&sha256(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let padded = |byte: u8, message: &[u8]| {
        let mut text: Vec<u8> = block.iter().map(|one| one ^ byte).collect();
        text.extend(message);
        sha256(&text)
    };
    padded(0x5c, &padded(0x36, message))
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
        let signature = hmac(&hmac(&salted, b"Server Key"), message.as_bytes());
        assert_eq!(
            base64(&signature),
            "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
        );
    }

    #[test]
    fn a_verifier_stays_as_it_is() {
        let made = verifier("secret");
        assert!(made.starts_with("SCRAM-SHA-256$4096:"));
        assert_eq!(verifier(&made), made);
        assert_ne!(verifier("secret"), made);
    }
}
