//! The values of all settings, from flags, the environment, a file and defaults, in this order.
//!
//! An unknown name is an error, with the name that it is most like: a setting that is written wrong
//! would be no setting at all. The environment has variables of others too, so there it is an error
//! only if it is nearly a setting of ours.

use super::file;
use super::setting::{SETTINGS, Setting, Value};
use crate::log::LogOptions;
use crate::{Options, TlsFiles};
use sql::{Sql, SqlError};
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// The name of the file in the directory of the database.
const FILE: &str = "indelible.conf";
/// Letters by which a name may differ from the one that was meant.
const DISTANCE_MAX: usize = 2;

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody has set it.
    Default,
    /// A line of a file.
    File(PathBuf, usize),
    /// A variable of the environment.
    Environment(String),
    /// A flag of the command line.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(name) => write!(f, "--{name}"),
        }
    }
}

/// A configuration that cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A file that cannot be read.
    #[error("cannot read the configuration {0}")]
    Unreadable(PathBuf, #[source] io::Error),
    /// A file that is not written as it has to be.
    #[error("{0}: {1}")]
    Syntax(Origin, String),
    /// A name that no setting has.
    #[error("{origin}: there is no setting `{name}`{meant}")]
    Unknown {
        /// Where it stands.
        origin: Origin,
        /// The name.
        name: String,
        /// The one that may be meant.
        meant: String,
    },
    /// A value that a setting cannot have.
    #[error("{origin}: `{value}` is no value of {name}, which is {expected}")]
    Value {
        /// Where it stands.
        origin: Origin,
        /// The setting.
        name: &'static str,
        /// The value.
        value: String,
        /// The values that it can have.
        expected: String,
    },
    /// A setting of sessions that SQL refuses.
    #[error("{0}: {1}")]
    Session(Origin, Box<SqlError>),
    /// A certificate without its key, or a key without its certificate.
    #[error("{0}: {1} needs {2} as well")]
    Alone(Origin, &'static str, &'static str),
}

/// A value with its origin.
#[derive(Clone, Debug)]
struct Given {
    text: String,
    value: Value,
    origin: Origin,
}

/// The values of all settings.
#[derive(Clone, Debug)]
pub struct Configuration {
    directory: PathBuf,
    /// In the order of [`SETTINGS`].
    values: Vec<Given>,
    /// Settings that sessions begin with.
    sessions: Vec<(String, String, Origin)>,
}

impl Configuration {
    /// Reads the settings for a database: flags with their names as settings, the environment, and
    /// the file, which is `indelible.conf` in the directory, if there is one, or another one.
    ///
    /// # Errors
    ///
    /// Files that cannot be read; names and values that no setting has.
    pub fn read(
        directory: &Path,
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        flags: &[(&'static str, String)],
    ) -> Result<Self, ConfigError> {
        let defaults = SETTINGS.iter().map(|setting| Given {
            text: setting.default.to_owned(),
            value: setting.form.read(setting.default).unwrap_or(Value::None),
            origin: Origin::Default,
        });
        let mut configuration = Self {
            directory: directory.to_owned(),
            values: defaults.collect(),
            sessions: Vec::new(),
        };
        configuration.read_file(file)?;
        for (variable, value) in environment {
            let (variable, value) = (variable.to_string_lossy(), value.to_string_lossy());
            if let Some(name) = variable.strip_prefix("INDELIBLE_") {
                let origin = Origin::Environment(variable.to_string());
                let name = name.to_ascii_lowercase();
                if find(&name).is_some() || nearest(&name).is_some() {
                    configuration.set(&name, &value, origin)?;
                }
            }
        }
        for (name, value) in flags {
            configuration.set(name, value, Origin::Flag(name.replace('_', "-")))?;
        }
        configuration.check_pair("tls_cert", "tls_key")?;
        configuration.check_pair("tls_key", "tls_cert")?;
        Ok(configuration)
    }

    fn read_file(&mut self, file: Option<&Path>) -> Result<(), ConfigError> {
        let path = file.map_or_else(|| self.directory.join(FILE), Path::to_owned);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && file.is_none() => {
                return Ok(());
            }
            Err(error) => return Err(ConfigError::Unreadable(path, error)),
        };
        let at = |line| Origin::File(path.clone(), line);
        let entries = file::read(&text);
        for entry in entries.map_err(|(line, fault)| ConfigError::Syntax(at(line), fault))? {
            let origin = at(entry.line);
            if entry.is_session {
                self.sessions.push((entry.name, entry.value, origin));
            } else {
                self.set(&entry.name, &entry.value, origin)?;
            }
        }
        Ok(())
    }

    fn set(&mut self, name: &str, text: &str, origin: Origin) -> Result<(), ConfigError> {
        let Some(place) = find(name) else {
            let meant = nearest(name).map(|meant| format!("; did you mean `{meant}`?"));
            return Err(ConfigError::Unknown {
                origin,
                name: name.to_owned(),
                meant: meant.unwrap_or_default(),
            });
        };
        let setting = &SETTINGS[place];
        let mut value = match setting.form.read(text) {
            Ok(value) => value,
            Err(expected) => {
                return Err(ConfigError::Value {
                    origin,
                    name: setting.name,
                    value: text.to_owned(),
                    expected,
                });
            }
        };
        // A path in a file starts from the file.
        if let (Value::Path(path), Origin::File(file, _)) = (&mut value, &origin)
            && let Some(folder) = file.parent()
        {
            *path = folder.join(&*path);
        }
        self.values[place] = Given {
            text: text.to_owned(),
            value,
            origin,
        };
        Ok(())
    }

    fn check_pair(&self, one: &'static str, other: &'static str) -> Result<(), ConfigError> {
        match (self.path(one), self.path(other)) {
            (Some(_), None) => Err(ConfigError::Alone(
                self.given(one).origin.clone(),
                one,
                other,
            )),
            _ => Ok(()),
        }
    }

    /// Fails if sessions cannot begin with the settings that they are to begin with.
    ///
    /// # Errors
    ///
    /// The first one that SQL refuses.
    pub fn check_sessions(&self, sql: &Arc<Sql>) -> Result<(), ConfigError> {
        for (name, value, origin) in &self.sessions {
            let set = sql
                .connect()
                .and_then(|mut session| session.set_setting(name, value));
            set.map_err(|error| ConfigError::Session(origin.clone(), Box::new(error)))?;
        }
        Ok(())
    }

    /// All settings with their values and origins; those of sessions last.
    pub fn all(&self) -> impl Iterator<Item = (String, &str, &Origin)> {
        let own = SETTINGS.iter().zip(&self.values);
        let own = own
            .map(|(setting, given)| (setting.name.to_owned(), given.text.as_str(), &given.origin));
        let sessions = self.sessions.iter();
        own.chain(
            sessions
                .map(|(name, value, origin)| (format!("session.{name}"), value.as_str(), origin)),
        )
    }

    /// The names of settings that differ and that a server takes at its start only.
    pub fn fixed_changes(&self, other: &Self) -> Vec<&'static str> {
        let all = SETTINGS.iter().zip(self.values.iter().zip(&other.values));
        all.filter(|(setting, (old, new))| !setting.reloads && old.value != new.value)
            .map(|(setting, _)| setting.name)
            .collect()
    }

    /// The options of a server.
    pub fn options(&self) -> Options {
        let tls = self.path("tls_cert").zip(self.path("tls_key"));
        Options {
            listen: self.address("listen"),
            socket: Some(
                self.path("socket")
                    .unwrap_or_else(|| self.directory.clone()),
            ),
            http: self.address("http"),
            tls: tls.map(|(certificate, key)| TlsFiles { certificate, key }),
            trusts: self.switch("trust"),
            polls: self.switch("polling"),
            connections_max: self.count("max_connections"),
            message_bytes_max: self.count("max_message_bytes"),
            start_wait: self.time("authentication_timeout").unwrap_or_default(),
            write_wait: self.time("client_write_timeout").unwrap_or_default(),
            analyze_interval: self.time("analyze_interval"),
            log: LogOptions {
                is_json: self.given("log_format").value == Value::Word("json"),
                connections: self.switch("log_connections"),
                min_duration: self.time("log_min_duration"),
                lock_waits: self.time("log_lock_waits"),
            },
            session: {
                let pairs = self.sessions.iter();
                pairs
                    .map(|(name, value, _)| (name.clone(), value.clone()))
                    .collect()
            },
            directory: self.directory.clone(),
        }
    }

    /// Most transactions that may be prepared at once.
    pub fn prepared_max(&self) -> u32 {
        let count = self.count("max_prepared_transactions");
        count.try_into().unwrap_or(u32::MAX)
    }

    /// The time that transactions have to end.
    pub fn shutdown_grace(&self) -> Duration {
        self.time("shutdown_grace").unwrap_or_default()
    }

    fn given(&self, name: &str) -> &Given {
        &self.values[find(name).expect("it is in the list of settings")]
    }

    fn address(&self, name: &str) -> Option<std::net::SocketAddr> {
        match self.given(name).value {
            Value::Address(address) => Some(address),
            _ => None,
        }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        match &self.given(name).value {
            Value::Path(path) => Some(path.clone()),
            _ => None,
        }
    }

    fn switch(&self, name: &str) -> bool {
        self.given(name).value == Value::Switch(true)
    }

    fn count(&self, name: &str) -> usize {
        match self.given(name).value {
            Value::Count(count) => count,
            _ => 0,
        }
    }

    fn time(&self, name: &str) -> Option<Duration> {
        match self.given(name).value {
            Value::Time(time) => Some(time),
            _ => None,
        }
    }
}

fn find(name: &str) -> Option<usize> {
    SETTINGS
        .iter()
        .position(|setting: &Setting| setting.name == name)
}

/// The setting whose name is most like this one, if it is like it at all.
fn nearest(name: &str) -> Option<&'static str> {
    let distances = SETTINGS.iter().map(|setting| {
        let distance = strsim::damerau_levenshtein(name, setting.name);
        (distance, setting.name)
    });
    let nearest = distances
        .min()
        .filter(|(distance, _)| *distance <= DISTANCE_MAX);
    nearest.map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("indelible-config-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn read(
            &self,
            file: &str,
            variables: &[(&str, &str)],
            flags: &[(&'static str, &str)],
        ) -> Result<Configuration, String> {
            fs::write(self.0.join(FILE), file).unwrap();
            let variables = variables
                .iter()
                .map(|(name, value)| (name.into(), value.into()));
            let flags: Vec<_> = flags
                .iter()
                .map(|(name, value)| (*name, (*value).to_owned()))
                .collect();
            Configuration::read(&self.0, None, variables, &flags).map_err(|error| {
                error
                    .to_string()
                    .replace(&format!("{}/", self.0.display()), "")
            })
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn flags_come_before_the_environment_before_the_file() {
        let folder = Folder::new("layers");
        let file = "max_connections = 1\nmax_message_bytes = '1MB'\nshutdown_grace = 3\n\
                    tls_cert = 'a.pem'\ntls_key = '/b.key'\n[session]\nstatement_timeout = '5s'\n";
        let variables = [
            ("INDELIBLE_MAX_CONNECTIONS", "2"),
            ("INDELIBLE_MAX_MESSAGE_BYTES", "2MB"),
            ("INDELIBLE_HISTORY_OF_OTHERS", "x"),
        ];
        let flags = [("max_connections", "3")];
        let configuration = folder.read(file, &variables, &flags).unwrap();
        let origin = |name: &str| configuration.given(name).origin.to_string();
        let options = configuration.options();
        assert_eq!(options.connections_max, 3);
        assert_eq!(origin("max_connections"), "--max-connections");
        assert_eq!(options.message_bytes_max, 2 << 20);
        assert_eq!(origin("max_message_bytes"), "INDELIBLE_MAX_MESSAGE_BYTES");
        assert_eq!(configuration.shutdown_grace(), Duration::from_secs(3));
        assert!(origin("shutdown_grace").ends_with("indelible.conf:3"));
        assert_eq!(origin("listen"), "default");
        let tls = options.tls.unwrap();
        assert_eq!(tls.certificate, folder.0.join("a.pem"));
        assert_eq!(tls.key, Path::new("/b.key"));
        assert_eq!(
            options.session,
            [("statement_timeout".to_owned(), "5s".to_owned())]
        );
        let other = folder
            .read("trust = true\nmax_connections = 7\n", &[], &[])
            .unwrap();
        assert_eq!(configuration.fixed_changes(&other), ["trust"]);
    }

    #[test]
    fn wrong_names_and_values_are_one_error_each() {
        let folder = Folder::new("wrong");
        let refusal =
            |file, variables: &[_], flags: &[_]| folder.read(file, variables, flags).err().unwrap();
        assert_eq!(
            refusal("\nmax_conections = 5\n", &[], &[]),
            "indelible.conf:2: there is no setting `max_conections`; did you mean \
             `max_connections`?"
        );
        assert_eq!(
            refusal("colour = 'red'\n", &[], &[]),
            "indelible.conf:1: there is no setting `colour`"
        );
        assert_eq!(
            refusal("shutdown_grace = '10 days'\n", &[], &[]),
            "indelible.conf:1: `10 days` is no value of shutdown_grace, which is a time up to \
             24h, such as 10s (units are ms, s, min and h)"
        );
        assert_eq!(
            refusal("", &[("INDELIBLE_TRUSTS", "on")], &[]),
            "INDELIBLE_TRUSTS: there is no setting `trusts`; did you mean `trust`?"
        );
        assert_eq!(
            refusal("", &[], &[("listen", "here")]),
            "--listen: `here` is no value of listen, which is an address such as 127.0.0.1:5432, \
             or off"
        );
        assert_eq!(
            refusal("tls_cert = 'a'\n", &[], &[]),
            "indelible.conf:1: tls_cert needs tls_key as well"
        );
        assert!(refusal("listen = here\n", &[], &[]).starts_with("indelible.conf:1: "));
        let missing = Path::new("/nowhere/indelible.conf");
        let error = Configuration::read(&folder.0, Some(missing), [], &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot read the configuration /nowhere/indelible.conf"
        );
    }
}
