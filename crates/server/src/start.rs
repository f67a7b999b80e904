//! The beginning of a connection: encryption, version, settings, and who it is.
//!
//! Nothing that a client says before it is known costs more than 10 KiB and the time that the limit
//! of authentication gives it. A request to cancel is a connection of its own, without an answer.

use crate::access::{self, Client, Refusal};
use crate::connection::{Connection, encoding_of, ended};
use crate::counts::count;
use crate::encoding::utf8;
use crate::link::{Broken, Link};
use crate::message::{Malformed, StartUp};
use crate::registry::{Cause, Entry, KEY_BYTES, SHORT_KEY_BYTES};
use crate::shared::{Shared, Slot};
use crate::status::Reported;
use rustix::rand::{GetRandomFlags, getrandom};
use sql::{Session, SqlError, SqlState, WakeReason};
use std::sync::Arc;

/// Most bytes of a message before a client is known.
const START_BYTES_MAX: usize = 10 << 10;
/// The newest version of the protocol.
const MINOR_MAX: u16 = 2;

/// A client that has said how it wants to begin.
struct Beginning {
    minor: u16,
    role: String,
    database: Option<String>,
    settings: Vec<(String, String)>,
}

/// Begins a session for a client; none if it gets none, which it has been told.
pub(crate) fn start(mut link: Link, entry: Entry, shared: &Arc<Shared>) -> Option<Connection> {
    link.set_message_bytes_max(START_BYTES_MAX);
    let begun = begin(&mut link, &entry, shared);
    match begun {
        Ok((session, reported, slot)) => {
            count(&shared.counts.connections);
            link.set_message_bytes_max(shared.options().message_bytes_max);
            Some(Connection::new(link, session, (entry, slot), reported))
        }
        Err(refusal) => {
            if !matches!(refusal, Refusal::Done) {
                count(&shared.counts.refused);
            }
            match (refusal, entry.seat.ending()) {
                (Refusal::Done, _) => {}
                // Its input was ended, so it seems to have gone.
                (_, Some(cause)) => link.say_last(&ended(cause)),
                (Refusal::Broken(broken), None) => link.say_broken(&broken),
                (Refusal::Told(error), None) => {
                    if shared.log.has_connections() {
                        let fields = [
                            ("state", error.state.0.into()),
                            ("reason", error.message.as_str().into()),
                        ];
                        shared.log.tell("refused", &fields);
                    }
                    link.say_last(&error);
                }
            }
            None
        }
    }
}

fn begin(
    link: &mut Link,
    entry: &Entry,
    shared: &Arc<Shared>,
) -> Result<(Session, Reported, Slot), Refusal> {
    let beginning = negotiate(link, shared)?;
    let client = access::authenticate(link, shared, &beginning.role)?;
    let mut session = match client {
        // A trusted client may take any role that exists; under another name it is superuser.
        Client::Trusted if !shared.sql.has_role(&beginning.role) => shared.sql.connect()?,
        _ => shared.sql.connect_as(&beginning.role)?,
    };
    let slot = shared.take_slot(session.setting("is_superuser") == Some("on"))?;
    let options = shared.options();
    let own = options.directory.file_name();
    let own = own.map_or("indelible".into(), |name| name.to_string_lossy());
    session.set_own_database(&own);
    session.set_database(beginning.database.as_deref().unwrap_or(&own));
    if let Some(address) = link.socket().peer_address() {
        session.set_client(&address.ip().to_string(), address.port());
    }
    if let Some(address) = link.socket().own_address() {
        session.set_server(&address.ip().to_string(), address.port());
    }
    if let Some(encryption) = link.shown_encryption() {
        session.set_encryption(encryption);
    }
    for (name, value) in &shared.options().session {
        session.begin_with_setting(name, value)?;
    }
    session.begin_as_role();
    for (name, value) in &beginning.settings {
        session.may_set(name)?;
        session.begin_with_setting(name, value)?;
    }
    link.answers.encoding = encoding_of(&session);
    link.answers.authentication_ok();
    if shared.log.has_connections() {
        let address = link.socket().peer_address();
        shared.log.tell(
            "connected",
            &[
                ("session", session.number().into()),
                ("role", beginning.role.as_str().into()),
                (
                    "client",
                    address.map_or("socket".into(), |address| address.to_string().into()),
                ),
                ("encrypted", link.is_encrypted().into()),
            ],
        );
    }
    let reported = Reported::new(&session, &mut link.answers);
    give_key(link, entry, beginning.minor, &mut session)?;
    Ok((session, reported, slot))
}

/// Reads first messages until one asks for a session.
fn negotiate(link: &mut Link, shared: &Shared) -> Result<Beginning, Refusal> {
    let mut body = Vec::new();
    let mut wishes = 0;
    loop {
        link.body(&mut body).map_err(|broken| match broken {
            Broken::TooLarge(_) => Malformed::StartUpTooLong.into(),
            broken => broken,
        })?;
        match StartUp::read(&body)? {
            wish @ (StartUp::Tls | StartUp::Gss) if wishes < 2 && !link.is_encrypted() => {
                wishes += 1;
                let identity = shared.identity().filter(|_| wish == StartUp::Tls);
                link.send_byte(if identity.is_some() { b'S' } else { b'N' })?;
                if let Some(identity) = identity {
                    link.encrypt(&identity)?;
                }
            }
            StartUp::Tls | StartUp::Gss => {
                return Err(Malformed::BadField("protocol version").into());
            }
            StartUp::Cancel { number, key } => {
                shared.registry.cancel(number.cast_signed(), key);
                return Err(Refusal::Done);
            }
            StartUp::Session {
                major,
                minor,
                settings,
            } => return beginning(link, (major, minor), &settings),
        }
    }
}

fn beginning(
    link: &mut Link,
    (major, minor): (u16, u16),
    given: &[(&[u8], &[u8])],
) -> Result<Beginning, Refusal> {
    if major != 3 {
        let message = format!(
            "unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.{MINOR_MAX}"
        );
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
    }
    let (options, given): (Vec<_>, Vec<_>) = given
        .iter()
        .partition(|(name, _)| name.starts_with(b"_pq_."));
    if minor > MINOR_MAX || !options.is_empty() {
        let names: Vec<&[u8]> = options.iter().map(|(name, _)| *name).collect();
        let version = 3 << 16 | u32::from(minor.min(MINOR_MAX));
        link.answers.negotiate(version, &names);
    }
    let (mut role, mut database) = (None, None);
    let mut settings = Vec::new();
    for (name, value) in given {
        let (name, value) = (utf8(name)?, utf8(value)?);
        match name {
            "user" => role = Some(value.to_owned()),
            // Every name of a database means this one.
            "database" => database = Some(value.to_owned()),
            "replication" if matches!(value, "false" | "off" | "no" | "0") => {}
            "replication" => {
                let instead = "Use `indelible backup` to copy a database.";
                return Err(SqlError::unsupported("replication", instead).into());
            }
            "options" => settings.extend(switches(value)?),
            _ => settings.push((name.to_owned(), value.to_owned())),
        }
    }
    let role = role.filter(|role| !role.is_empty()).ok_or_else(|| {
        let message = "no PostgreSQL user name specified in startup packet";
        SqlError::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message)
    })?;
    Ok(Beginning {
        minor: minor.min(MINOR_MAX),
        role,
        database: database.filter(|name: &String| !name.is_empty()),
        settings,
    })
}

/// The settings in `options`: `-c name=value` and `--name=value`, where a backslash takes its
/// meaning from a space.
fn switches(text: &str) -> Result<Vec<(String, String)>, SqlError> {
    let mut words = vec![String::new()];
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        let last = words.len() - 1;
        match letter {
            '\\' => words[last].extend(letters.next()),
            ' ' | '\t' | '\n' => words.push(String::new()),
            letter => words[last].push(letter),
        }
    }
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let setting = match word.as_str() {
            "-c" => words.next(),
            word => word
                .strip_prefix("--")
                .or_else(|| word.strip_prefix("-c"))
                .map(str::to_owned),
        };
        let parts = setting.as_deref().and_then(|text| text.split_once('='));
        let (name, value) = parts.ok_or_else(|| {
            let message = format!("invalid command-line argument for server process: {word}");
            SqlError::new(SqlState::SYNTAX_ERROR, message).hint("Write -c name=value.")
        })?;
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

/// Tells the client how to cancel its statements.
fn give_key(
    link: &mut Link,
    entry: &Entry,
    minor: u16,
    session: &mut Session,
) -> Result<(), Refusal> {
    let mut key = [0; KEY_BYTES];
    let length = if minor < 2 {
        SHORT_KEY_BYTES
    } else {
        KEY_BYTES
    };
    getrandom(&mut key[..length], GetRandomFlags::empty()).map_err(std::io::Error::from)?;
    let number = session.number();
    entry.seat.begin(number, &key[..length]);
    let seat = Arc::clone(&entry.seat);
    session.on_wake(Arc::new(move |reason| {
        if reason == WakeReason::End {
            seat.end(Cause::Command);
        }
    }));
    link.answers.key(number.cast_unsigned(), &key[..length]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_settings() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let read = switches("-c a=1 --work-mem=2MB  -cb=x\\ y").unwrap();
        assert_eq!(
            read,
            [pair("a", "1"), pair("work_mem", "2MB"), pair("b", "x y")]
        );
        assert!(switches("-c").is_err());
        assert!(switches("-z 3").is_err());
    }
}
