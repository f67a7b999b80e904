//! `serve` and `role`: a database for clients of PostgreSQL.
//!
//! Addresses are read here; the server checks that they are those of this machine.

use clap::{Args, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;

pub(crate) const EXAMPLES: &str = "\
Examples:
  indelible serve ./shop
  psql -h \"$PWD/shop\" -U me                      # its Unix socket, for the owner of the directory
  indelible role create ./shop ann                # asks for a password
  psql -h 127.0.0.1 -U ann                        # over TCP

SIGTERM ends the server after open transactions, SIGINT at once. More is in docs/server.md.";

/// `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Directory of the database
    pub(crate) path: PathBuf,
    /// Address over TCP, of this machine only without --tls-cert; port 0 lets the system choose
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:5432")]
    pub(crate) listen: SocketAddr,
    /// Path of the Unix socket, or a directory that gets `.s.PGSQL.PORT`; that of the database
    /// without this option
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Answer /healthz, /readyz and /metrics on this address, on this machine only
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http: Option<SocketAddr>,
    /// File with the certificate for TLS, and those that lead to its authority (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// File with the key of the certificate, which nobody else may read (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Let in everybody on this machine as superuser
    #[arg(long)]
    pub(crate) trust: bool,
    /// Sleep at once where nothing has come, instead of polling for a moment while a core is free
    #[arg(long)]
    pub(crate) no_polling: bool,
    /// Most connections
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub(crate) max_connections: usize,
    /// Seconds that transactions have to end after SIGTERM
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) shutdown_grace: u64,
}

/// `role`.
#[derive(Debug, Subcommand)]
pub(crate) enum RoleCommand {
    /// Let a role connect to a server with a password; one that exists gets a new password
    #[command(after_help = "Examples:\n  indelible role create ./shop ann\n  \
                            indelible role create ./shop ann < password.txt\n\n\
                      It is a superuser, as the role that a new PostgreSQL cluster has; with\n\
                      --no-superuser it may do what GRANT allows. While a server has the\n\
                      database open, this asks the server, over the socket in the directory.")]
    Create(RoleArgs),
}

/// `role create`.
#[derive(Debug, Args)]
pub(crate) struct RoleArgs {
    /// Directory of the database
    pub(crate) path: PathBuf,
    /// Name of the role
    pub(crate) name: String,
    /// Make it a role that may do only what GRANT allows
    #[arg(long)]
    pub(crate) no_superuser: bool,
}
