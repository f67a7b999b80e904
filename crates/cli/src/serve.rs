//! `serve`: opens a database, listens, and ends when a signal says so.
//!
//! SIGTERM gives transactions time to end, SIGINT and a second signal none. Either way the database
//! is closed, so that the next opening has nothing to recover.

use crate::args::ServeArgs;
use anyhow::{Context, Result};
use indelible::Database;
use server::{Options, Server};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use sql::Sql;
use std::sync::Arc;
use std::time::Duration;

/// Runs `serve`.
pub(crate) fn run(args: &ServeArgs) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot handle signals")?;
    let database = Database::open(&args.path)?;
    let sql = Sql::open(database)?;
    let mut options = Options::new(&args.path);
    options.listen = Some(args.listen);
    options.socket = Some(args.socket.as_ref().unwrap_or(&args.path).clone());
    options.trusts = args.trust;
    options.connections_max = args.max_connections;
    let server = Server::start(Arc::clone(&sql), options)?;
    let address = server.address().unwrap_or(args.listen);
    let socket = server.socket().unwrap_or(&args.path);
    eprintln!("ready on {address} and {}", socket.display());
    if args.trust {
        eprintln!("--trust: everybody on this machine is superuser");
    } else {
        eprintln!("nobody can connect over TCP; use the socket, or start with --trust");
    }
    let grace = match signals.forever().next() {
        Some(SIGTERM) => Duration::from_secs(args.shutdown_grace),
        _ => Duration::ZERO,
    };
    server.end(grace);
    sql.close()?;
    Ok(())
}
