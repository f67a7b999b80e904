//! Addresses of servers: `postgres://USER:PASSWORD@HOST:PORT/DATABASE?host=DIRECTORY`.
//!
//! Each part may be missing. A host that begins with a slash is the directory of a Unix socket; in
//! front of the path such a slash is written `%2F`, or the host is given behind the question mark,
//! as `libpq` has it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use thiserror::Error;

/// The place of a server, and the role to connect as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Name or number of a machine, or the directory of a socket.
    pub host: String,
    /// The port, also in the name of a socket.
    pub port: u16,
    /// The role.
    pub user: String,
    /// The password; servers that ask for none do without.
    pub password: Option<String>,
    /// The database; that of the user's name if it is not given.
    pub database: String,
}

/// A text that is no address of a server.
#[derive(Debug, Error)]
#[error("`{0}` is no address of a server; write postgres://USER@HOST:PORT/DATABASE")]
pub struct BadAddress(String);

impl Address {
    /// Whether a text is meant as an address rather than a directory.
    pub fn is_address(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }

    /// The socket in the file system, if it is one.
    pub(super) fn socket(&self) -> Option<PathBuf> {
        let directory = self.host.starts_with('/').then_some(&self.host)?;
        Some(PathBuf::from(directory).join(format!(".s.PGSQL.{}", self.port)))
    }
}

impl fmt::Display for Address {
    /// Without the password, so that it gets into no message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (user, host, port) = (&self.user, &self.host, self.port);
        write!(f, "postgres://{user}@{host}:{port}/{}", self.database)
    }
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        parse(text).ok_or_else(|| BadAddress(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Address> {
    let rest = text
        .strip_prefix("postgres://")
        .or_else(|| text.strip_prefix("postgresql://"))?;
    let (rest, settings) = rest.split_once('?').unwrap_or((rest, ""));
    let (server, database) = rest.split_once('/').unwrap_or((rest, ""));
    let (who, place) = server.rsplit_once('@').unwrap_or(("", server));
    let (user, password) = match who.split_once(':') {
        Some((user, password)) => (user, Some(decoded(password)?)),
        None => (who, None),
    };
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) => (host, port),
        None => (place, ""),
    };
    let mut address = Address {
        host: decoded(host)?,
        port: if port.is_empty() {
            5432
        } else {
            port.parse().ok()?
        },
        user: decoded(user)?,
        password,
        database: decoded(database)?,
    };
    for setting in settings.split('&').filter(|setting| !setting.is_empty()) {
        let (name, value) = setting.split_once('=')?;
        let value = decoded(value)?;
        match name {
            "host" => address.host = value,
            "port" => address.port = value.parse().ok()?,
            "user" => address.user = value,
            "dbname" => address.database = value,
            _ => return None,
        }
    }
    let or = |text: &mut String, other: &str| {
        if text.is_empty() {
            other.clone_into(text);
        }
    };
    or(&mut address.host, "localhost");
    or(&mut address.user, "postgres");
    let user = address.user.clone();
    or(&mut address.database, &user);
    Some(address)
}

/// The text with `%2F` and its kin read.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first == b'%' {
            let (digits, tail) = rest.split_at_checked(2)?;
            let digits = std::str::from_utf8(digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = tail;
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_an_address_may_be_missing() {
        for (text, shown) in [
            ("postgres://", "postgres://postgres@localhost:5432/postgres"),
            ("postgresql://ann@db:7/shop", "postgres://ann@db:7/shop"),
            ("postgres://ann:p%40ss@db", "postgres://ann@db:5432/ann"),
            (
                "postgres:///shop?host=/run/pg",
                "postgres://postgres@/run/pg:5432/shop",
            ),
            (
                "postgres://%2Frun%2Fpg/shop",
                "postgres://postgres@/run/pg:5432/shop",
            ),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), shown);
        }
        let address: Address = "postgres://ann:p%40ss@db".parse().unwrap();
        assert_eq!(address.password.as_deref(), Some("p@ss"));
        assert_eq!(address.socket(), None);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "mysql://x",
            "postgres://x:y:z@h:99999/d",
            "postgres://h/d?color=red",
            "postgres://%2/d",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
