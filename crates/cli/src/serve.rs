//! `serve` and `role`.
//!
//! `serve` opens a database, listens, and ends when a signal says so.
//!
//! SIGTERM gives transactions time to end, SIGINT and a second signal none. Either way the database
//! is closed, so that the next opening has nothing to recover.

use crate::args::{RoleArgs, ServeArgs};
use crate::failure::Usage;
use anyhow::{Context, Result};
use client::{Address, Client, LocalClient, WireClient};
use indelible::Database;
use server::{Options, Server, TlsFiles};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use sql::Sql;
use std::io::{IsTerminal, stdin};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The role that owns every database.
const OWNER: &str = "indelible";
/// The SQLSTATE of a role that exists.
const DUPLICATE_OBJECT: &str = "42710";

/// Runs `serve`.
pub(crate) fn run(args: &ServeArgs) -> Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).context("cannot handle signals")?;
    let database = Database::open(&args.path)?;
    let sql = Sql::open(database)?;
    let mut options = Options::new(&args.path);
    options.listen = Some(args.listen);
    options.socket = Some(args.socket.as_ref().unwrap_or(&args.path).clone());
    options.http = args.http;
    options.tls = args
        .tls_cert
        .clone()
        .zip(args.tls_key.clone())
        .map(|(certificate, key)| TlsFiles { certificate, key });
    options.trusts = args.trust;
    options.polls = !args.no_polling;
    options.connections_max = args.max_connections;
    let server = Server::start(Arc::clone(&sql), options)?;
    let address = server.address().unwrap_or(args.listen);
    let socket = server.socket().unwrap_or(&args.path);
    eprintln!("ready on {address} and {}", socket.display());
    if let Some(address) = server.http_address() {
        eprintln!("health and counts on http://{address}/metrics");
    }
    let path = args.path.display();
    if args.trust {
        eprintln!("--trust: everybody on this machine is superuser");
    } else if !server.has_roles() {
        eprintln!("over TCP nobody can connect before `indelible role create {path} NAME`");
    }
    tell_manager("READY=1");
    let mut until_end = signals.forever();
    let grace = loop {
        match until_end.next() {
            Some(SIGHUP) => match server.reload() {
                Ok(()) => eprintln!("the certificate was read again"),
                Err(error) => eprintln!("the certificate stays as it was: {error}"),
            },
            Some(SIGTERM) => break Duration::from_secs(args.shutdown_grace),
            _ => break Duration::ZERO,
        }
    };
    tell_manager("STOPPING=1");
    server.end(grace, || signals.pending().any(|signal| signal != SIGHUP));
    sql.close()?;
    Ok(())
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
    let verifier = server::password_verifier(&password).context("no random bytes")?;
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
    let in_use = match Database::open(directory) {
        Ok(database) => return Ok(Box::new(LocalClient::open(database)?)),
        Err(error @ indelible::Error::InUse { .. }) => error,
        Err(error) => return Err(error.into()),
    };
    let Some(port) = socket_port(directory)? else {
        return Err(in_use.into());
    };
    let directory = directory.canonicalize()?;
    let address = Address {
        host: directory.display().to_string(),
        port,
        user: OWNER.to_owned(),
        password: None,
        database: OWNER.to_owned(),
    };
    Ok(Box::new(WireClient::connect(&address)?))
}

/// The port in the name of the socket in a directory, if there is one.
fn socket_port(directory: &Path) -> Result<Option<u16>> {
    for entry in directory.read_dir()? {
        let name = entry?.file_name();
        let port = name
            .to_str()
            .and_then(|name| name.strip_prefix(".s.PGSQL."));
        if let Some(port) = port.and_then(|port| port.parse().ok()) {
            return Ok(Some(port));
        }
    }
    Ok(None)
}
