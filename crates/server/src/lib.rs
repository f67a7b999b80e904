//! Indelible as a server: PostgreSQL's protocol, over TCP and a Unix socket.
//!
//! Each connection has a thread and a session of [`sql`]. The thread waits in a read, runs what has
//! come, and sends all answers at once. There is no other queue: a session's locks and memory are
//! its only costs to others.
//!
//! | module | job |
//! |---|---|
//! | `server` | listeners, threads, the end |
//! | `shared`, `counts` | state of all threads: slots of connections, counts |
//! | `start`, `access` | the beginning of a connection, and who may connect |
//! | `scram` | the proof of a password |
//! | `connection`, `extended` | requests, one after the other |
//! | `encoding` | texts of clients in other encodings than UTF-8 |
//! | `floor` | a server without a database, to measure against |
//! | `operation` | backups and checks of the whole database |
//! | `results`, `status` | rows, notices and settings become answers |
//! | [`config`] | settings from flags, the environment and a file |
//! | `log`, `lock_log` | events, a line each; long waits for locks among them |
//! | `pace` | the pace of threads that look at something again and again |
//! | `http`, `page` | health and counts for machines, a status page for people |
//! | `registry` | the connections, and what others end: statements, idle sessions |
//! | `tls`, `certificate` | encryption, and the parts of a certificate that the server looks at |
//! | `link`, `spin`, `waker`, `socket`, `message` | bytes, waits for them, and the protocol |

mod access;
mod certificate;
pub mod config;
mod connection;
mod counts;
mod encoding;
mod extended;
mod floor;
mod http;
mod link;
mod lock_log;
mod log;
mod message;
mod operation;
mod pace;
mod page;
mod registry;
mod results;
mod scram;
mod server;
mod shared;
mod socket;
mod spin;
mod start;
mod status;
mod tls;
mod waker;

pub use floor::serve_floor;
pub use log::LogOptions;
pub use server::Server;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// How a server listens, and its limits.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory of the database, whose owner is superuser over the Unix socket.
    pub directory: PathBuf,
    /// The address over TCP; one that other machines reach needs `tls`.
    pub listen: Option<SocketAddr>,
    /// The path of the Unix socket, or a directory that gets one of the name that clients look for.
    pub socket: Option<PathBuf>,
    /// The address of questions about the server over HTTP, on this machine only.
    pub http: Option<SocketAddr>,
    /// The certificate for connections over TCP, if they may be encrypted.
    pub tls: Option<TlsFiles>,
    /// Whether everybody on this machine is superuser.
    pub trusts: bool,
    /// Whether threads poll for the next request for a moment, while a core is free.
    pub polls: bool,
    /// Most connections whose sessions have begun.
    pub connections_max: usize,
    /// Most bytes of a message.
    pub message_bytes_max: usize,
    /// The time in which a connection has to begin its session.
    pub start_wait: Duration,
    /// A client that takes nothing for so long is given up.
    pub write_wait: Duration,
    /// Time between two looks for tables whose statistics are out of date; none if nobody looks.
    pub analyze_interval: Option<Duration>,
    /// The events that are logged.
    pub log: LogOptions,
    /// Settings that sessions begin with.
    pub session: Vec<(String, String)>,
}

impl Options {
    /// The defaults for a database: no listeners yet.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            listen: None,
            socket: None,
            http: None,
            tls: None,
            trusts: false,
            polls: true,
            connections_max: 100,
            message_bytes_max: 64 << 20,
            start_wait: Duration::from_secs(10),
            write_wait: Duration::from_mins(1),
            analyze_interval: Some(Duration::from_secs(10)),
            log: LogOptions::default(),
            session: Vec::new(),
        }
    }
}

/// The files of a certificate, in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate of the server, and those that lead to its authority.
    pub certificate: PathBuf,
    /// The key of the certificate, which only its owner may read.
    pub key: PathBuf,
}

/// A certificate that cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file that cannot be read.
    #[error("cannot read {0}: {1}")]
    Unreadable(PathBuf, String),
    /// A file that is not a certificate.
    #[error("there is no certificate in {0}; it has to be in PEM")]
    NoCertificate(PathBuf),
    /// No client would take it.
    #[error("the certificate {0} has expired (at {1} UTC); renew it")]
    Expired(PathBuf, String),
    /// Others could read it.
    #[error("other users can read the key {0}; run: chmod 600 {0}")]
    NotSecret(PathBuf),
    /// It has a passphrase.
    #[error(
        "the key {0} is encrypted, which is not supported; decrypt it (`openssl pkey -in {0} -out KEY`) \
         and keep it readable for its owner only"
    )]
    Encrypted(PathBuf),
    /// The two files do not belong together.
    #[error("{0} is not the key of the certificate {1}")]
    Mismatch(PathBuf, PathBuf),
    /// A key of a kind that is not supported.
    #[error("the key {0} cannot be used: {1}")]
    Unusable(PathBuf, String),
}

/// A server that cannot start.
#[derive(Debug, Error)]
pub enum ServeError {
    /// An address that cannot be listened on.
    #[error("cannot listen on {0}")]
    Listen(String, #[source] std::io::Error),
    /// An address that another program has.
    #[error(
        "cannot listen on {0}: another program does; end it, or give another address with --listen"
    )]
    AddressInUse(SocketAddr),
    /// A socket that another server has, or a file in its place.
    #[error("cannot listen on {0}: a server or a file is there; give another path with --socket")]
    SocketInUse(PathBuf),
    /// A socket whose path is longer than systems take.
    #[error(
        "cannot listen on {0}: the path is too long for a socket; give a shorter one with --socket"
    )]
    SocketTooLong(PathBuf),
    /// An address that other machines reach.
    #[error("{0} can be reached from other machines; listen on 127.0.0.1 or [::1]")]
    NotLoopback(SocketAddr),
    /// An address that other machines reach, without encryption or without passwords.
    #[error(
        "{0} can be reached from other machines, for which a server needs --tls-cert and --tls-key, \
         and no --trust; or listen on 127.0.0.1 or [::1]"
    )]
    NotSafe(SocketAddr),
    /// The certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// No address at all.
    #[error("there is nothing to listen on; give an address or a socket")]
    Nowhere,
    /// The directory of the database.
    #[error("cannot read the owner of {0}")]
    Directory(PathBuf, #[source] std::io::Error),
    /// The system gives no random bytes.
    #[error("the system gives no random bytes")]
    Random(#[source] std::io::Error),
    /// Threads cannot be started.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
}
