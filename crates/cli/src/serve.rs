//! `serve`, `config` and `role`.
//!
//! `serve` opens a database, listens, and ends when a signal says so.
//!
//! SIGTERM gives transactions time to end, SIGINT and a second signal none. Either way the database
//! is closed, so that the next opening has nothing to recover.

use crate::args::{RoleArgs, ServeArgs};
use crate::failure::Usage;
use crate::output::{Format, Listing};
use crate::sql::guard;
use anyhow::{Context, Result};
use client::{Address, Client, LocalClient, WireClient};
use indelible::{Database, Options};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::Server;
use server::config::{ConfigError, Configuration};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use sql::Sql;
use std::io::{IsTerminal, stdin};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// The role that owns every database.
const OWNER: &str = "indelible";
/// The SQLSTATE of a role that exists.
const DUPLICATE_OBJECT: &str = "42710";

/// Runs `serve`.
pub(crate) fn run(args: &ServeArgs) -> Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).context("cannot handle signals")?;
    let configuration = configuration(args)?;
    allow_many_files();
    let options = Options::new().prepared_max(configuration.prepared_max());
    let database = Database::open_with(&args.path, &options)?;
    let sql = Sql::open_at_once(database)?;
    configuration.check_sessions(&sql)?;
    let options = configuration.options();
    let trusts = options.trusts;
    let server = Server::start(Arc::clone(&sql), options)?;
    let addresses = server.address().map(|address| address.to_string());
    let socket = server.socket().map(|path| path.display().to_string());
    let addresses: Vec<String> = addresses.into_iter().chain(socket).collect();
    server.say(&format!("ready on {}", addresses.join(" and ")));
    if let Some(address) = server.http_address() {
        server.say(&format!("health and counts on http://{address}/metrics"));
        let page = server.status_page().unwrap_or_default();
        server.say(&format!(
            "status page, for those who have this address: {page}"
        ));
    }
    let path = args.path.display();
    if trusts {
        server.say("--trust: everybody on this machine is superuser");
    } else if !server.has_roles() {
        server.say(&format!(
            "over TCP nobody can connect before `indelible role create {path} NAME`"
        ));
    }
    tell_manager("READY=1");
    let (signal, configuration) = serve(&server, &sql, args, configuration, &mut signals);
    let grace = match signal {
        SIGTERM => configuration.shutdown_grace(),
        _ => Duration::ZERO,
    };
    tell_manager("STOPPING=1");
    server.end(grace, || signals.pending().any(|signal| signal != SIGHUP));
    sql.close()?;
    Ok(())
}

/// Lets the process have as many files as it may: each connection is one or two, and many systems
/// begin with 1,024.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // Without it there is room for fewer connections.
    let _ = setrlimit(Resource::Nofile, raised);
}

/// Waits for the signal that ends the server, and reads settings again at each SIGHUP. Returns the
/// signal and the settings that hold at the end.
fn serve(
    server: &Server,
    sql: &Arc<Sql>,
    args: &ServeArgs,
    mut current: Configuration,
    signals: &mut Signals,
) -> (i32, Configuration) {
    for signal in signals.forever() {
        if signal != SIGHUP {
            return (signal, current);
        }
        tell_manager("RELOADING=1");
        match reload(server, sql, args) {
            Ok(next) => {
                server.say("the settings were read again");
                for name in current.fixed_changes(&next) {
                    server.say(&format!("{name} changes at the next start of the server"));
                }
                current = next;
            }
            Err(error) => server.say(&format!("the settings stay as they were: {error:#}")),
        }
        tell_manager("READY=1");
    }
    (SIGINT, current)
}

fn reload(server: &Server, sql: &Arc<Sql>, args: &ServeArgs) -> Result<Configuration> {
    let configuration = configuration(args)?;
    configuration.check_sessions(sql)?;
    server.reload(configuration.options())?;
    Ok(configuration)
}

fn configuration(args: &ServeArgs) -> Result<Configuration, ConfigError> {
    let file = args.config.as_deref();
    Configuration::read(&args.path, file, std::env::vars_os(), &args.flags.0)
}

/// Runs `config`.
pub(crate) fn show_configuration(args: &ServeArgs, format: Format) -> Result<()> {
    let mut listing = Listing::new(["setting", "value", "origin"]);
    for (name, value, origin) in configuration(args)?.all() {
        listing.push(vec![name.into(), value.into(), origin.to_string().into()]);
    }
    listing.print(format)
}

/// Tells the manager of services how far the server is, if it was started by one that asks for it
/// (`sd_notify`).
fn tell_manager(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    let told = address
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = told {
        eprintln!("cannot tell the manager of services {state}: {error}");
    }
}

/// Runs `role create`.
pub(crate) fn create_role(args: &RoleArgs) -> Result<()> {
    let password = if stdin().is_terminal() {
        let password = rpassword::prompt_password("Password: ")?;
        if rpassword::prompt_password("Again: ")? != password {
            return Err(Usage::error("the passwords are not the same"));
        }
        password
    } else {
        let mut line = String::new();
        stdin().read_line(&mut line)?;
        line.trim_end_matches(['\r', '\n']).to_owned()
    };
    if password.is_empty() {
        return Err(Usage::error("the password is empty"));
    }
    let Some(verifier) = sql::password_verifier(&password) else {
        return Err(Usage::error(
            "the password is the MD5 hash of another one; give that one",
        ));
    };
    let mut client = owner_of(&args.path)?;
    let name = format!("\"{}\"", args.name.replace('"', "\"\""));
    let power = if args.no_superuser {
        "NOSUPERUSER"
    } else {
        "SUPERUSER"
    };
    let options = format!("{power} LOGIN PASSWORD '{verifier}'");
    let mut answers = client.ask(&format!("CREATE ROLE {name} {options}"))?;
    if let Some(failure) = &answers.failure
        && failure.state == DUPLICATE_OBJECT
    {
        answers = client.ask(&format!("ALTER ROLE {name} {options}"))?;
    }
    match answers.failure {
        Some(failure) => Err(client::Error::Statement(Box::new(failure)).into()),
        None => Ok(()),
    }
}

/// A superuser's session of a database: here, or over the socket of the server that has it open.
fn owner_of(directory: &Path) -> Result<Box<dyn Client>> {
    match Database::open(directory) {
        Ok(database) => Ok(Box::new(LocalClient::open(database)?)),
        Err(error) => Ok(Box::new(server_of(directory, error.into())?)),
    }
}

/// A superuser's session of the server that has a database open; without such a server, the error
/// of the opening.
fn server_of(directory: &Path, error: anyhow::Error) -> Result<WireClient> {
    let is_in_use = matches!(error.downcast_ref(), Some(indelible::Error::InUse { .. }));
    if !is_in_use {
        return Err(error);
    }
    let host = directory.canonicalize()?.display().to_string();
    for port in socket_ports(directory)? {
        let address = Address {
            host: host.clone(),
            port,
            user: OWNER.to_owned(),
            password: None,
            database: OWNER.to_owned(),
        };
        match WireClient::connect(&address) {
            Ok(client) => return Ok(client),
            // A server that was killed may have left a socket.
            Err(client::Error::Lost(_)) => {}
            Err(refused) => return Err(refused.into()),
        }
    }
    Err(error)
}

/// The report of a statement about the whole database, of the server that has it open.
pub(crate) fn ask_server(
    directory: &Path,
    error: anyhow::Error,
    statement: &str,
) -> Result<ServerReport> {
    let mut server = server_of(directory, error)?;
    // The server would go on after this process.
    let _guard = guard(server.cancel());
    let answers = server.ask(statement)?;
    if let Some(failure) = answers.failure {
        return Err(client::Error::Statement(Box::new(failure)).into());
    }
    let rows = answers.answers.into_iter().flat_map(|answer| answer.rows);
    let mut facts = Vec::new();
    for row in rows {
        if let [Some(name), Some(value)] = row.as_slice() {
            facts.push((name.clone(), value.clone()));
        }
    }
    Ok(ServerReport(facts))
}

/// Names and values that a server has reported.
pub(crate) struct ServerReport(Vec<(String, String)>);

impl ServerReport {
    /// All values of a name.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let facts = self.0.iter().filter(move |fact| fact.0 == name);
        facts.map(|fact| fact.1.as_str())
    }

    /// The value of a name as its type has it.
    pub(crate) fn value<T: FromStr>(&self, name: &str) -> Result<T> {
        let value = self.all(name).next().and_then(|value| value.parse().ok());
        value.with_context(|| format!("the server did not report \"{name}\""))
    }
}

/// The ports in the names of the sockets in a directory.
fn socket_ports(directory: &Path) -> Result<Vec<u16>> {
    let mut ports = Vec::new();
    for entry in directory.read_dir()? {
        let name = entry?.file_name();
        let port = name
            .to_str()
            .and_then(|name| name.strip_prefix(".s.PGSQL."));
        ports.extend(port.and_then(|port| port.parse::<u16>().ok()));
    }
    Ok(ports)
}
