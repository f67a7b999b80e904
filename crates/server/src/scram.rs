//! SCRAM-SHA-256 (RFC 5802, RFC 7677), the side of the server.
//!
//! The server keeps a [`Verifier`]: enough to check a proof and to prove itself, and not enough to
//! log in. Each side adds a random part to the exchange, so what was heard of one is of no use in
//! another. A role that does not exist gets an exchange like any other, which fails at its end.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

/// The name of the mechanism, and of the one that is bound to the certificate of the connection.
pub(crate) const MECHANISM: &str = "SCRAM-SHA-256";
pub(crate) const BOUND_MECHANISM: &str = "SCRAM-SHA-256-PLUS";
/// The header of a client that binds its proof to the certificate (RFC 5929).
const BOUND_HEADER: &str = "p=tls-server-end-point,,";
/// Rounds that the verifier of nobody has, PostgreSQL's default.
const ITERATIONS: u32 = 4096;
const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 18;

type Key = [u8; 32];

/// The part of a password that the server keeps, in PostgreSQL's form:
/// `SCRAM-SHA-256$iterations:salt$stored key:server key`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Verifier {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: Key,
    server_key: Key,
}

impl Verifier {
    /// A verifier that no password fits, the same for a name each time, so that nobody can tell a
    /// role that does not exist by its salt.
    pub(crate) fn of_nobody(name: &str, secret: &[u8]) -> Self {
        let salt = mac(secret, &[name.as_bytes()]);
        Self {
            iterations: ITERATIONS,
            salt: salt[..SALT_BYTES].to_vec(),
            stored_key: mac(secret, &[b"stored", name.as_bytes()]),
            server_key: mac(secret, &[b"server", name.as_bytes()]),
        }
    }
}

impl fmt::Debug for Verifier {
    /// Without its keys, so that they get into no log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").finish_non_exhaustive()
    }
}

impl FromStr for Verifier {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        parse(text).ok_or(())
    }
}

fn parse(text: &str) -> Option<Verifier> {
    let rest = text.strip_prefix(MECHANISM)?.strip_prefix('$')?;
    let (how, keys) = rest.split_once('$')?;
    let (iterations, salt) = how.split_once(':')?;
    let (stored, server) = keys.split_once(':')?;
    let key = |text: &str| BASE64_STANDARD.decode(text).ok()?.try_into().ok();
    Some(Verifier {
        iterations: iterations.parse().ok()?,
        salt: BASE64_STANDARD.decode(salt).ok()?,
        stored_key: key(stored)?,
        server_key: key(server)?,
    })
}

/// An exchange that does not follow the mechanism.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadExchange;

/// The binding of an exchange to the certificate of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding<'a> {
    /// The server offers none.
    None,
    /// The server offers one, which the client does not use.
    Offered,
    /// The client binds its proof to the hash of the certificate.
    Used(&'a [u8]),
}

/// An exchange whose first half is done.
pub(crate) struct Exchange {
    verifier: Verifier,
    /// The part of the client's first message that is signed, and the server's first message.
    client_first: String,
    pub(crate) server_first: String,
    nonce: String,
    /// The beginning of the client's first message and the hash of the certificate, if they are
    /// bound: the client repeats both in its last message.
    bound: Vec<u8>,
}

impl Exchange {
    /// Reads the client's first message.
    pub(crate) fn begin(
        verifier: Verifier,
        binding: Binding<'_>,
        first: &str,
    ) -> Result<Self, BadExchange> {
        let mut random = [0; NONCE_BYTES];
        getrandom(&mut random, GetRandomFlags::empty()).map_err(|_| BadExchange)?;
        Self::with_nonce(verifier, binding, first, &BASE64_STANDARD.encode(random))
    }

    fn with_nonce(
        verifier: Verifier,
        binding: Binding<'_>,
        first: &str,
        random: &str,
    ) -> Result<Self, BadExchange> {
        // An identity other than the role of the connection is not taken. A client that says "y"
        // could bind its proof and thinks that the server cannot: somebody has told it so.
        let (headers, hash): (&[&str], &[u8]) = match binding {
            Binding::None => (&["n,,", "y,,"], &[]),
            Binding::Offered => (&["n,,"], &[]),
            Binding::Used(hash) => (&[BOUND_HEADER], hash),
        };
        let split = headers
            .iter()
            .find_map(|header| Some((*header, first.strip_prefix(header)?)));
        let (header, bare) = split.ok_or(BadExchange)?;
        let mut fields = bare.split(',');
        let (_, nonce) = (fields.next(), fields.next());
        let nonce = nonce.and_then(|field| field.strip_prefix("r="));
        let nonce = nonce.filter(|nonce| !nonce.is_empty());
        let nonce = format!("{}{random}", nonce.ok_or(BadExchange)?);
        let salt = BASE64_STANDARD.encode(&verifier.salt);
        Ok(Self {
            server_first: format!("r={nonce},s={salt},i={}", verifier.iterations),
            client_first: bare.to_owned(),
            bound: [header.as_bytes(), hash].concat(),
            nonce,
            verifier,
        })
    }

    /// Reads the client's last message. If it proves the password, the answer proves the server;
    /// none if it does not.
    pub(crate) fn end(&self, last: &str) -> Result<Option<String>, BadExchange> {
        let (unproven, proof) = last.rsplit_once(",p=").ok_or(BadExchange)?;
        let bound = BASE64_STANDARD.encode(&self.bound);
        if unproven != format!("c={bound},r={}", self.nonce) {
            return Err(BadExchange);
        }
        let proof: Key = BASE64_STANDARD
            .decode(proof)
            .ok()
            .and_then(|proof| proof.try_into().ok())
            .ok_or(BadExchange)?;
        let Self {
            client_first,
            server_first,
            ..
        } = self;
        let signed = format!("{client_first},{server_first},{unproven}");
        let signature = mac(&self.verifier.stored_key, &[signed.as_bytes()]);
        let client_key = xor(&proof, &signature);
        let found: Key = Sha256::digest(client_key).into();
        if !crate::registry::are_equal(&found, &self.verifier.stored_key) {
            return Ok(None);
        }
        let own = mac(&self.verifier.server_key, &[signed.as_bytes()]);
        Ok(Some(format!("v={}", BASE64_STANDARD.encode(own))))
    }
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Key {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key may have any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

fn xor(one: &Key, other: &Key) -> Key {
    std::array::from_fn(|at| one[at] ^ other[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verifier of `pencil` in the example of RFC 7677, section 3.
    const PENCIL: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
                          WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

    /// The example of RFC 7677, section 3.
    #[test]
    fn the_exchange_is_that_of_the_standard() {
        let verifier: Verifier = PENCIL.parse().unwrap();
        let random = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let first = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
        let exchange =
            Exchange::with_nonce(verifier.clone(), Binding::None, first, random).unwrap();
        let nonce = format!("rOprNGfwEbeRWgbNEkqO{random}");
        assert_eq!(
            exchange.server_first,
            format!("r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
        );
        let last = format!("c=biws,r={nonce},p=");
        assert_eq!(
            exchange.end(&format!(
                "{last}dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
            )),
            Ok(Some(
                "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=".to_owned()
            ))
        );
        assert_eq!(
            exchange.end(&format!(
                "{last}AHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
            )),
            Ok(None)
        );
        assert_eq!(exchange.end(&format!("{last}AAAA")), Err(BadExchange));
        assert_eq!(exchange.end("c=biws,r=other,p=AAAA"), Err(BadExchange));
        for first in [
            "",
            "n,,",
            "p=tls-unique,,n=,r=x",
            "n,a=me,n=,r=x",
            "n,,n=,r=",
        ] {
            let begun = Exchange::with_nonce(verifier.clone(), Binding::None, first, random);
            assert_eq!(begun.err(), Some(BadExchange), "{first}");
        }
    }

    #[test]
    fn a_proof_is_bound_to_the_certificate() {
        let verifier: Verifier = PENCIL.parse().unwrap();
        let begin = |binding, first| Exchange::with_nonce(verifier.clone(), binding, first, "x");
        let bound = begin(Binding::Used(b"hash"), "p=tls-server-end-point,,n=,r=y").unwrap();
        let last = |bound: &[u8]| format!("c={},r=yx,p=", BASE64_STANDARD.encode(bound));
        let proof = BASE64_STANDARD.encode([0; 32]);
        let right = last(b"p=tls-server-end-point,,hash") + &proof;
        assert_eq!(bound.end(&right), Ok(None));
        let other = last(b"p=tls-server-end-point,,other") + &proof;
        assert_eq!(bound.end(&other), Err(BadExchange));
        assert!(begin(Binding::Offered, "n,,n=,r=y").is_ok());
        assert!(begin(Binding::None, "y,,n=,r=y").is_ok());
        for (binding, first) in [
            (Binding::Offered, "y,,n=,r=y"),
            (Binding::Used(b"hash"), "n,,n=,r=y"),
            (Binding::Used(b"hash"), "p=tls-unique,,n=,r=y"),
        ] {
            assert_eq!(begin(binding, first).err(), Some(BadExchange), "{first}");
        }
    }

    #[test]
    fn nobody_always_has_the_same_salt() {
        let verifier = Verifier::of_nobody("ann", b"secret");
        assert!(verifier == Verifier::of_nobody("ann", b"secret"));
        assert!(verifier.salt != Verifier::of_nobody("bob", b"secret").salt);
        assert!("SCRAM-SHA-256$4096:$:".parse::<Verifier>().is_err());
    }
}
