//! The parts of a certificate (X.509, DER) that the server itself looks at.
//!
//! Clients check certificates; the server refuses one that has expired, because no client would
//! take it, and hashes it for the binding of passwords to the connection (RFC 5929,
//! `tls-server-end-point`).
//!
//! ```text
//! certificate { body { [version] serial algorithm issuer validity { from until } ... }
//!               algorithm { identifier ... } signature }
//! ```

use jiff::Timestamp;
use sha2::{Digest, Sha256, Sha384, Sha512};

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const IDENTIFIER: u8 = 0x06;
const SHORT_TIME: u8 = 0x17;
const LONG_TIME: u8 = 0x18;

/// Signatures of RSA and of elliptic curves have these identifiers, and a last byte.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1];
const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3];
const ECDSA_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4];

/// Elements one after the other: a tag, a length, and the content.
struct Elements<'a>(&'a [u8]);

impl<'a> Elements<'a> {
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, length], mut rest) = self.0.split_first_chunk()?;
        let mut length = usize::from(length);
        if length >= 0x80 {
            let (bytes, after) = rest.split_at_checked(length - 0x80)?;
            let add = |length: usize, byte: &u8| {
                length.checked_mul(256).map(|sum| sum + usize::from(*byte))
            };
            length = bytes.iter().try_fold(0, add)?;
            rest = after;
        }
        let (content, after) = rest.split_at_checked(length)?;
        self.0 = after;
        Some((tag, content))
    }

    /// The content of the next element, if it has this tag.
    fn content(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next()
            .filter(|(found, _)| *found == tag)
            .map(|(_, content)| content)
    }
}

/// The moment at which a certificate has expired, as digits from the year to the second; none if it
/// has not.
pub(crate) fn expired_at(certificate: &[u8]) -> Option<String> {
    let now = Timestamp::now().strftime("%Y%m%d%H%M%S").to_string();
    valid_until(certificate).filter(|until| *until < now)
}

fn valid_until(certificate: &[u8]) -> Option<String> {
    let whole = Elements(certificate).content(SEQUENCE)?;
    let mut body = Elements(Elements(whole).content(SEQUENCE)?);
    let (first, _) = body.next()?;
    // Serial number, algorithm and issuer; a version before them may be left out.
    for _ in 0..if first == VERSION { 3 } else { 2 } {
        body.next()?;
    }
    let mut validity = Elements(body.content(SEQUENCE)?);
    validity.next()?;
    let (tag, time) = validity.next()?;
    let time = std::str::from_utf8(time).ok()?.trim_end_matches('Z');
    match tag {
        SHORT_TIME if time < "50" => Some(format!("20{time}")),
        SHORT_TIME => Some(format!("19{time}")),
        LONG_TIME => Some(time.to_owned()),
        _ => None,
    }
}

/// The hash of a certificate by the hash of its signature, at least SHA-256; none for signatures
/// that have no hash.
pub(crate) fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Elements(Elements(certificate).content(SEQUENCE)?);
    whole.next()?;
    let algorithm = whole.content(SEQUENCE)?;
    let (last, kind) = Elements(algorithm).content(IDENTIFIER)?.split_last()?;
    match (kind, *last) {
        (RSA, 4 | 5 | 11) | (ECDSA_SHA1, 1) | (ECDSA, 2) => {
            Some(Sha256::digest(certificate).to_vec())
        }
        (RSA, 12) | (ECDSA, 3) => Some(Sha384::digest(certificate).to_vec()),
        (RSA, 13) | (ECDSA, 4) => Some(Sha512::digest(certificate).to_vec()),
        _ => None,
    }
}
