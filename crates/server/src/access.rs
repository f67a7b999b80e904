//! Admission: the clients that may connect, and how they prove who they are.
//!
//! | over | client | proof |
//! |---|---|---|
//! | the Unix socket | the owner of the database's directory | the operating system (`peer`) |
//! | either | a role of `indelible role create` | its password (SCRAM-SHA-256) |
//! | either, with `--trust` | anybody of this machine | none |
//!
//! From other machines nobody connects without TLS. With TLS, a client can bind its proof to the
//! certificate (SCRAM-SHA-256-PLUS), so that nobody between the two can use it.
//!
//! A password never comes as it is. A failure costs the same time whether or not the role exists,
//! and after three of them in a row each next one costs a second more.

use crate::link::{Broken, Link};
use crate::message::Malformed;
use crate::message::fields::Fields;
use crate::scram::{BOUND_MECHANISM, BadExchange, Binding, Exchange, MECHANISM, Verifier};
use crate::shared::Shared;
use sql::{SqlError, SqlState};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Failures in a row that cost no time.
const FREE_FAILURES: u32 = 3;
const FAILURE_WAIT: Duration = Duration::from_secs(1);

/// The client at the other end, once it is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    /// The owner of the directory, or anybody where everybody is trusted.
    Trusted,
    /// Somebody who knows the role's password.
    Role,
}

/// Why there is no session.
pub(crate) enum Refusal {
    Broken(Broken),
    /// The client is told.
    Told(SqlError),
    /// All was said: it was a request to cancel.
    Done,
}

impl From<Broken> for Refusal {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

impl From<Malformed> for Refusal {
    fn from(malformed: Malformed) -> Self {
        Self::Broken(malformed.into())
    }
}

impl From<std::io::Error> for Refusal {
    fn from(error: std::io::Error) -> Self {
        Self::Broken(error.into())
    }
}

impl From<SqlError> for Refusal {
    fn from(error: SqlError) -> Self {
        Self::Told(error)
    }
}

/// Fails unless the client at the other end may connect in this role.
pub(crate) fn authenticate(
    link: &mut Link,
    shared: &Shared,
    role: &str,
) -> Result<Client, Refusal> {
    let address = link.socket().peer_address();
    if !link.is_encrypted() && address.is_some_and(|address| !address.ip().is_loopback()) {
        return Err(not_encrypted(role).into());
    }
    let peer = link.socket().peer_user();
    if shared.options().trusts || peer == Some(shared.owner) {
        return Ok(Client::Trusted);
    }
    if !shared.sql.has_passwords() {
        return Err(nobody(role).into());
    }
    let verifier = shared.sql.password_verifier(role);
    let verifier = verifier.and_then(|text| text.parse::<Verifier>().ok());
    let exists = verifier.is_some();
    let verifier = verifier.unwrap_or_else(|| Verifier::of_nobody(role, &shared.secret));
    if exchange(link, verifier)? && exists {
        shared.failures.store(0, Ordering::Relaxed);
        return Ok(Client::Role);
    }
    if shared.failures.fetch_add(1, Ordering::Relaxed) >= FREE_FAILURES {
        std::thread::sleep(FAILURE_WAIT);
    }
    let message = format!("password authentication failed for user \"{role}\"");
    Err(SqlError::new(SqlState::INVALID_PASSWORD, message).into())
}

/// The refusal where no role could connect.
fn nobody(role: &str) -> SqlError {
    let message = format!("user \"{role}\" cannot connect: there is no role with a password yet");
    let hint = "Run `indelible role create DIR NAME`, or connect over the Unix socket as the owner \
                of the directory.";
    SqlError::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message).hint(hint)
}

/// The refusal of a client of another machine that does not encrypt.
fn not_encrypted(role: &str) -> SqlError {
    let message = format!("user \"{role}\" cannot connect from another machine without encryption");
    let state = SqlState::INVALID_AUTHORIZATION_SPECIFICATION;
    SqlError::new(state, message).hint("Connect with sslmode=require or verify-full.")
}

/// Lets the client prove its password; whether it has.
fn exchange(link: &mut Link, verifier: Verifier) -> Result<bool, Refusal> {
    let hash = link.binding().map(<[u8]>::to_vec);
    let hash = hash.as_deref();
    link.answers.sasl_mechanisms(match hash {
        Some(_) => &[BOUND_MECHANISM, MECHANISM],
        None => &[MECHANISM],
    });
    let mut body = Vec::new();
    password_message(link, &mut body)?;
    let mut fields = Fields::new(&body);
    let mechanism = fields.text().map_err(Broken::from)?;
    let first = fields.value().map_err(Broken::from)?.unwrap_or_default();
    let binding = match hash {
        Some(hash) if mechanism == BOUND_MECHANISM.as_bytes() => Binding::Used(hash),
        _ if mechanism != MECHANISM.as_bytes() => return Err(bad(BadExchange).into()),
        Some(_) => Binding::Offered,
        None => Binding::None,
    };
    let exchange = Exchange::begin(verifier, binding, &String::from_utf8_lossy(first));
    let exchange = exchange.map_err(bad)?;
    link.answers.sasl(11, exchange.server_first.as_bytes());
    password_message(link, &mut body)?;
    let last = exchange.end(&String::from_utf8_lossy(&body)).map_err(bad)?;
    if let Some(last) = &last {
        link.answers.sasl(12, last.as_bytes());
    }
    Ok(last.is_some())
}

fn password_message(link: &mut Link, body: &mut Vec<u8>) -> Result<(), Refusal> {
    match link.request(body)? {
        b'p' => Ok(()),
        other => Err(Malformed::UnknownKind(other).into()),
    }
}

fn bad(_: BadExchange) -> SqlError {
    SqlError::new(SqlState::PROTOCOL_VIOLATION, "malformed SCRAM message")
}
