//! The settings of a server, and the forms of their values.
//!
//! A setting has one name everywhere: `max_connections` in the file, `INDELIBLE_MAX_CONNECTIONS` in
//! the environment, `--max-connections` on the command line.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A setting of the server.
#[derive(Debug)]
pub struct Setting {
    /// Its name in the file.
    pub name: &'static str,
    /// The kind of its values, as help texts show it.
    pub values: &'static str,
    /// Its meaning.
    pub help: &'static str,
    /// Whether a server that runs takes a new value at SIGHUP.
    pub reloads: bool,
    pub(super) form: Form,
    pub(super) default: &'static str,
}

impl Setting {
    /// Whether it is on or off, so that a flag needs no value.
    pub fn is_switch(&self) -> bool {
        matches!(self.form, Form::Switch)
    }

    /// Its flag.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }
}

/// The form of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    Address,
    Path,
    Switch,
    Count,
    /// A count that may be 0.
    Whole,
    Bytes,
    /// A time that is not 0.
    Wait,
    /// A time; 0 is no time at all.
    Time,
    /// `off` is a time that never ends.
    Limit,
    Word(&'static [&'static str]),
}

/// A value, once it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    None,
    Address(SocketAddr),
    Path(PathBuf),
    Switch(bool),
    Count(usize),
    Time(Duration),
    Word(&'static str),
}

const fn setting(
    name: &'static str,
    (values, form, default): (&'static str, Form, &'static str),
    help: &'static str,
) -> Setting {
    Setting {
        name,
        values,
        help,
        reloads: true,
        form,
        default,
    }
}

/// A setting that a server reads at its start only.
const fn fixed(
    name: &'static str,
    kind: (&'static str, Form, &'static str),
    help: &'static str,
) -> Setting {
    Setting {
        reloads: false,
        ..setting(name, kind, help)
    }
}

/// All settings, in the order of help texts.
pub static SETTINGS: &[Setting] = &[
    fixed(
        "listen",
        ("ADDRESS", Form::Address, "127.0.0.1:5432"),
        "Address over TCP, of this machine only without a certificate; port 0 lets the system \
         choose, `off` means none",
    ),
    fixed(
        "socket",
        ("PATH", Form::Path, ""),
        "Path of the Unix socket, or a directory that gets `.s.PGSQL.PORT`; that of the database \
         without this setting",
    ),
    fixed(
        "http",
        ("ADDRESS", Form::Address, "off"),
        "Answer /healthz, /readyz, /metrics, and / with a status page, on this address of this \
         machine",
    ),
    setting(
        "tls_cert",
        ("FILE", Form::Path, ""),
        "File with the certificate for TLS, and those that lead to its authority (PEM)",
    ),
    setting(
        "tls_key",
        ("FILE", Form::Path, ""),
        "File with the key of the certificate, which nobody else may read (PEM)",
    ),
    fixed(
        "trust",
        ("SWITCH", Form::Switch, "off"),
        "Let in everybody on this machine as superuser",
    ),
    fixed(
        "polling",
        ("SWITCH", Form::Switch, "on"),
        "Poll for the next request for a moment while a core is free, before a thread sleeps",
    ),
    setting(
        "max_connections",
        ("COUNT", Form::Count, "100"),
        "Most connections",
    ),
    fixed(
        "max_prepared_transactions",
        ("COUNT", Form::Whole, "64"),
        "Most transactions that are prepared at once; 0 lets nobody prepare one",
    ),
    setting(
        "max_message_bytes",
        ("BYTES", Form::Bytes, "64MB"),
        "Most bytes of a message of a client",
    ),
    setting(
        "authentication_timeout",
        ("TIME", Form::Wait, "10s"),
        "Time that a connection has to begin its session",
    ),
    setting(
        "client_write_timeout",
        ("TIME", Form::Wait, "60s"),
        "A client that takes no answers for so long is given up",
    ),
    setting(
        "shutdown_grace",
        ("TIME", Form::Time, "10s"),
        "Time that transactions have to end after SIGTERM",
    ),
    setting(
        "analyze_interval",
        ("TIME", Form::Limit, "10s"),
        "Look this often for tables that have changed, and make their statistics anew; `off` \
         leaves it to ANALYZE",
    ),
    fixed(
        "log_format",
        ("FORMAT", Form::Word(&["text", "json"]), "text"),
        "Form of the lines of the log, on standard error: text or json",
    ),
    setting(
        "log_connections",
        ("SWITCH", Form::Switch, "off"),
        "Log connections that begin and end",
    ),
    setting(
        "log_min_duration",
        ("TIME", Form::Limit, "off"),
        "Log statements that take so long, with their constants removed",
    ),
    setting(
        "log_lock_waits",
        ("TIME", Form::Limit, "off"),
        "Log statements that wait for a lock for so long, and the end of such a wait",
    ),
];

/// Longest time: the operating system's limits of sockets are a few weeks.
const TIME_MAX: Duration = Duration::from_hours(24);

impl Form {
    /// Reads a value; the error is a description of those that there can be.
    pub(super) fn read(self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        let none = text.is_empty() || text == "off";
        let value = match self {
            Self::Address | Self::Limit if none => Some(Value::None),
            Self::Address => text.parse().ok().map(Value::Address),
            Self::Path if text.is_empty() => Some(Value::None),
            Self::Path => Some(Value::Path(text.into())),
            Self::Switch => switch(text).map(Value::Switch),
            Self::Count => text
                .parse()
                .ok()
                .filter(|count| *count > 0)
                .map(Value::Count),
            Self::Whole => text.parse().ok().map(Value::Count),
            Self::Bytes => bytes(text).map(Value::Count),
            Self::Wait => time(text).filter(|time| !time.is_zero()).map(Value::Time),
            Self::Time | Self::Limit => time(text).map(Value::Time),
            Self::Word(words) => {
                let known = words.iter().find(|word| word.eq_ignore_ascii_case(text));
                known.map(|word| Value::Word(word))
            }
        };
        value.ok_or_else(|| self.to_string())
    }
}

impl fmt::Display for Form {
    /// The values that it has.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => "an address such as 127.0.0.1:5432, or off",
            Self::Path => "a path",
            Self::Switch => "on or off",
            Self::Count => "a whole number from 1 on",
            Self::Whole => "a whole number",
            Self::Bytes => "a size such as 64MB (units are B, kB, MB and GB)",
            Self::Wait => "a time from 1ms to 24h (units are ms, s, min and h)",
            Self::Time => "a time up to 24h, such as 10s (units are ms, s, min and h)",
            Self::Limit => "a time up to 24h, such as 250ms (units are ms, s, min and h), or off",
            Self::Word(words) => return f.write_str(&words.join(" or ")),
        })
    }
}

fn switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Some(true),
        "off" | "false" | "no" | "0" => Some(false),
        _ => None,
    }
}

/// A whole number and its unit.
fn quantity(text: &str) -> Option<(u64, String)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit());
    let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
    Some((digits.parse().ok()?, unit.trim().to_ascii_lowercase()))
}

fn bytes(text: &str) -> Option<usize> {
    let (count, unit) = quantity(text)?;
    let shift = match unit.as_str() {
        "" | "b" => 0,
        "kb" | "kib" => 10,
        "mb" | "mib" => 20,
        "gb" | "gib" => 30,
        _ => return None,
    };
    let bytes = usize::try_from(count).ok()?.checked_mul(1 << shift)?;
    Some(bytes).filter(|bytes| *bytes > 0)
}

fn time(text: &str) -> Option<Duration> {
    let (count, unit) = quantity(text)?;
    let millis = match unit.as_str() {
        "ms" => 1,
        "" | "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    let time = Duration::from_millis(count.checked_mul(millis)?);
    Some(time).filter(|time| *time <= TIME_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_forms_of_their_settings() {
        for setting in SETTINGS {
            assert!(
                setting.form.read(setting.default).is_ok(),
                "{}",
                setting.name
            );
        }
        let time = |text| Form::Time.read(text).ok();
        let of_millis = |millis| Some(Value::Time(Duration::from_millis(millis)));
        assert_eq!(time("250ms"), of_millis(250));
        assert_eq!(time("2"), of_millis(2000));
        assert_eq!(time("5 min"), of_millis(300_000));
        for wrong in [
            "",
            "off",
            "-1s",
            "1 day",
            "99999999999999999999s",
            "18446744073709551615h",
            "25h",
        ] {
            assert_eq!(time(wrong), None, "{wrong}");
        }
        assert_eq!(time("0"), of_millis(0));
        assert!(Form::Wait.read("0").is_err() && Form::Wait.read("1ms").is_ok());
        assert_eq!(Form::Limit.read("off"), Ok(Value::None));
        assert_eq!(Form::Bytes.read("64 MB"), Ok(Value::Count(64 << 20)));
        assert_eq!(
            Form::Bytes.read("0"),
            Err("a size such as 64MB (units are B, kB, MB and GB)".to_owned())
        );
        assert!(Form::Count.read("0").is_err());
        assert!(Form::Address.read("localhost").is_err());
        assert_eq!(
            Form::Word(&["text", "json"]).read("JSON"),
            Ok(Value::Word("json"))
        );
    }
}
