//! The server: its listeners, a thread a connection, and its end.
//!
//! Each listener has a thread that accepts. A connection gets a thread of its own at once, for its
//! client may take long to say who it is; how many of these there are is limited before anything is
//! read. A panic of a connection ends it alone: the session that it drops undoes its transaction.

use crate::counts::{Counts, count};
use crate::http;
use crate::link::Link;
use crate::lock_log;
use crate::log::Log;
use crate::pace::Pace;
use crate::page::Page;
use crate::registry::Registry;
use crate::shared::{Shared, kept_slots, too_many};
use crate::socket::Socket;
use crate::spin::Awake;
use crate::tls::Identity;
use crate::{Options, ServeError, TlsError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::rand::{GetRandomFlags, getrandom};
use sql::{Sql, SqlError, SqlState};
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// The stack of a connection's thread; pages that it does not touch cost nothing.
const STACK_BYTES: usize = 8 << 20;
/// The name of a socket, before the port.
const SOCKET_NAME: &str = ".s.PGSQL.";
/// The port in the name of a socket where none is listened on.
const PORT: u16 = 5432;
/// A pause between two attempts to end a statement: one may have begun in the very moment.
const END_AGAIN: Duration = Duration::from_millis(50);

/// A pause between two lines of the log about connections that cannot be accepted.
const TELL_AGAIN: Duration = Duration::from_secs(5);
/// A pause between two looks at the archives of the logs.
const LOOK_AT_ARCHIVES: Duration = Duration::from_secs(1);
/// Open files that are for the database and its statements, beside those of connections.
const SPARE_FILES: u64 = 64;

/// A server that runs. Dropping it ends its connections.
pub struct Server {
    shared: Arc<Shared>,
    address: Option<SocketAddr>,
    http: Option<SocketAddr>,
    /// The word that the data of the status page need.
    token: Option<String>,
    socket: Option<PathBuf>,
    threads: Vec<JoinHandle<()>>,
    deadlines: Option<JoinHandle<()>>,
    watchers: Vec<JoinHandle<()>>,
    listeners: Vec<Arc<Listener>>,
    asked: Option<Arc<(TcpListener, Page)>>,
}

enum Listener {
    Tcp(TcpListener),
    /// With the path and the number of its file.
    Unix(UnixListener, PathBuf, u64),
}

impl Server {
    /// Begins to listen, and to drop what is left of definitions that did not commit.
    ///
    /// # Errors
    ///
    /// Addresses that cannot be listened on, or that the options make unsafe.
    pub fn start(sql: Arc<Sql>, options: Options) -> Result<Self, ServeError> {
        let identity = options.tls.as_ref().map(Identity::read).transpose()?;
        let mut listeners = Vec::new();
        let mut address = None;
        if let Some(listen) = options.listen {
            if !listen.ip().is_loopback() && (options.trusts || identity.is_none()) {
                return Err(ServeError::NotSafe(listen));
            }
            let listener = listen_on(listen)?;
            address = listener.local_addr().ok();
            listeners.push(Listener::Tcp(listener));
        }
        let port = address.map_or(PORT, |address| address.port());
        let path = options
            .socket
            .as_deref()
            .map(|path| socket_path(path, port));
        remove_dead(&options.directory);
        if let Some(path) = &path {
            listeners.push(listen_at(path)?);
        }
        if listeners.is_empty() {
            return Err(ServeError::Nowhere);
        }
        let owner = fs::metadata(&options.directory)
            .map_err(|error| ServeError::Directory(options.directory.clone(), error))?
            .uid();
        let log = Log::new(&options.log, Box::new(io::stderr())).map_err(ServeError::Thread)?;
        raise_file_limit(&options, &log);
        let secret = random_secret()?;
        let has_archive = sql.database().archive_state().is_some();
        sql.show_facts(facts_of(&options, address, path.as_deref()));
        let shared = Arc::new(Shared {
            awake: Arc::new(Awake::new(options.polls)),
            identity: RwLock::new(identity.map(Arc::new)),
            counts: Counts::default(),
            registry: Arc::new(Registry::new(&sql)),
            sql,
            log,
            lock_waits: Pace::new(options.log.lock_waits),
            statistics: Pace::new(options.analyze_interval),
            archives: Pace::new(has_archive.then_some(LOOK_AT_ARCHIVES)),
            options: RwLock::new(Arc::new(options)),
            owner,
            secret,
            failures: AtomicU32::new(0),
            begun: AtomicUsize::new(0),
            is_ending: AtomicBool::new(false),
            threads: Arc::new(()),
        });
        let registry = Arc::clone(&shared.registry);
        let deadlines = Builder::new()
            .name("deadlines".into())
            .spawn(move || registry.keep_deadlines());
        let mut server = Self {
            shared,
            address,
            http: None,
            token: None,
            socket: path,
            threads: Vec::new(),
            deadlines: Some(deadlines.map_err(ServeError::Thread)?),
            watchers: Vec::new(),
            listeners: Vec::new(),
            asked: None,
        };
        server.start_to_watch()?;
        // Before there are sessions, since it looks at the whole database.
        server.start_http()?;
        server.start_to_accept(listeners)?;
        server.start_to_drop_orphans()?;
        Ok(server)
    }

    fn start_to_watch(&mut self) -> Result<(), ServeError> {
        let shared = Arc::clone(&self.shared);
        let lock_waits = Builder::new().name("lock waits".into());
        let lock_waits =
            lock_waits.spawn(move || lock_log::watch(&shared.lock_waits, &shared.sql, &shared.log));
        let shared = Arc::clone(&self.shared);
        let statistics = Builder::new().name("statistics".into());
        let statistics = statistics.spawn(move || keep_statistics(&shared));
        let shared = Arc::clone(&self.shared);
        let archives = Builder::new().name("archives".into());
        let archives = archives.spawn(move || watch_archives(&shared));
        for thread in [lock_waits, statistics, archives] {
            self.watchers.push(thread.map_err(ServeError::Thread)?);
        }
        Ok(())
    }

    fn start_to_accept(&mut self, listeners: Vec<Listener>) -> Result<(), ServeError> {
        for listener in listeners {
            let (listener, shared) = (Arc::new(listener), Arc::clone(&self.shared));
            self.listeners.push(Arc::clone(&listener));
            let thread = Builder::new()
                .name("accept".into())
                .spawn(move || listener.accept_all(&shared));
            self.threads.push(thread.map_err(ServeError::Thread)?);
        }
        Ok(())
    }

    /// Begins to drop tables that no definition names, until the server ends.
    fn start_to_drop_orphans(&mut self) -> Result<(), ServeError> {
        let shared = Arc::clone(&self.shared);
        let thread = Builder::new()
            .name("orphans".into())
            .spawn(move || drop_orphans(&shared));
        self.threads.push(thread.map_err(ServeError::Thread)?);
        Ok(())
    }

    /// Begins to answer questions about the server, if it is to.
    fn start_http(&mut self) -> Result<(), ServeError> {
        let Some(address) = self.shared.options().http else {
            return Ok(());
        };
        if !address.ip().is_loopback() {
            return Err(ServeError::NotLoopback(address));
        }
        let listener = listen_on(address)?;
        self.http = listener.local_addr().ok();
        let page = Page::new(&self.shared.sql).map_err(ServeError::Random)?;
        self.token = Some(page.token.clone());
        let asked = Arc::new((listener, page));
        self.asked = Some(Arc::clone(&asked));
        for _ in 0..http::THREADS {
            let (asked, shared) = (Arc::clone(&asked), Arc::clone(&self.shared));
            let thread = Builder::new()
                .name("http".into())
                .spawn(move || http::answer_all(&asked.0, &asked.1, &shared));
            self.threads.push(thread.map_err(ServeError::Thread)?);
        }
        Ok(())
    }

    /// The address of questions about the server.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http
    }

    /// The address of the status page, with the token that its data need.
    pub fn status_page(&self) -> Option<String> {
        let (address, token) = (self.http?, self.token.as_ref()?);
        Some(format!("http://{address}/#{token}"))
    }

    /// The address over TCP, with the port that the system chose if none was asked for.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The path of the Unix socket.
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    /// Whether any role can connect with a password.
    pub fn has_roles(&self) -> bool {
        self.shared.sql.has_passwords()
    }

    /// Takes other options, and reads the certificate again, for connections that begin from now
    /// on. Addresses, `trusts` and `polls` stay as they are.
    ///
    /// # Errors
    ///
    /// A certificate that cannot be used; then nothing changes.
    pub fn reload(&self, options: Options) -> Result<(), TlsError> {
        let identity = options.tls.as_ref().map(Identity::read).transpose()?;
        let shared = &self.shared;
        shared.log.set(&options.log);
        shared.lock_waits.set(options.log.lock_waits);
        shared.statistics.set(options.analyze_interval);
        let is_local = |address: SocketAddr| address.ip().is_loopback();
        // Other machines that cannot encrypt any more are refused one by one.
        if identity.is_none() && !self.address.is_none_or(is_local) {
            shared
                .log
                .say("there is no certificate any more: other machines cannot connect");
        }
        *write(&shared.identity) = identity.map(Arc::new);
        shared.sql.show_facts(counts_of(options.connections_max));
        let old = shared.options();
        *write(&shared.options) = Arc::new(Options {
            trusts: old.trusts,
            ..options
        });
        Ok(())
    }

    /// Writes a sentence to the log, as it is.
    pub fn say(&self, sentence: &str) {
        self.shared.log.say(sentence);
    }

    /// The number of connections.
    pub fn connections(&self) -> usize {
        self.shared.registry.count()
    }

    /// Ends the server: takes no more connections, ends idle ones, and gives the others `grace` to
    /// end their transactions, or less if `is_urgent` says so. Returns when all have ended.
    pub fn end(mut self, grace: Duration, is_urgent: impl FnMut() -> bool) {
        self.end_within(grace, is_urgent);
    }

    fn end_within(&mut self, grace: Duration, mut is_urgent: impl FnMut() -> bool) {
        let Some(deadlines) = self.deadlines.take() else {
            return;
        };
        self.shared.is_ending.store(true, Ordering::SeqCst);
        self.wake_listeners();
        for thread in self.threads.drain(..) {
            // Its panic has been printed.
            let _ = thread.join();
        }
        self.listeners.clear();
        let registry = &self.shared.registry;
        let end = Instant::now() + grace;
        let mut is_late = false;
        loop {
            is_late = is_late || Instant::now() >= end || is_urgent();
            registry.end_all(!is_late);
            if registry.wait_until_empty(END_AGAIN) {
                break;
            }
        }
        while Arc::strong_count(&self.shared.threads) > 1 {
            // They have left the registry, and have nothing left to do.
            std::thread::sleep(Duration::from_millis(1));
        }
        registry.stop();
        self.shared.lock_waits.end();
        self.shared.statistics.end();
        self.shared.archives.end();
        for thread in self.watchers.drain(..).chain([deadlines]) {
            let _ = thread.join();
        }
    }

    /// Lets threads that accept see that the server ends, wherever the path of a socket leads by
    /// now.
    fn wake_listeners(&self) {
        let asked = self.asked.iter().map(|asked| asked.0.as_fd());
        let all = self.listeners.iter().map(|listener| listener.as_fd());
        for listener in all.chain(asked) {
            // One that has failed wakes its thread as well.
            let _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end_within(Duration::ZERO, || true);
    }
}

/// Makes statistics of tables that have changed, until the end.
fn keep_statistics(shared: &Shared) {
    while shared.statistics.next(|interval| interval).is_some() {
        if let Err(error) = shared.sql.analyze_changed(|| !shared.is_ending()) {
            let message = error.message;
            let log = &shared.log;
            log.say(&format!(
                "statistics of a table are left for later: {message}"
            ));
        }
    }
}

/// Tells when an archive begins to fail, fails in another way, and takes records again. Without one
/// it sleeps.
fn watch_archives(shared: &Shared) {
    let mut told = None;
    while shared.archives.next(|interval| interval).is_some() {
        let state = shared.sql.database().archive_state();
        let failure = state.and_then(|state| state.failure);
        if failure == told {
            continue;
        }
        shared.log.say(&match &failure {
            Some(failure) => format!(
                "the archive of the log takes nothing, so the log grows: {failure}; make room there or fix it"
            ),
            None => "the archive of the log takes records again".to_owned(),
        });
        told = failure;
    }
}

fn drop_orphans(shared: &Shared) {
    if let Err(error) = shared.sql.drop_orphans(|| !shared.is_ending()) {
        let message = error.message;
        shared.log.say(&format!(
            "the rest of a definition stays until the next start: {message}"
        ));
    }
}

/// Facts about the server that sessions show: its addresses, its directory and its limits.
fn facts_of(
    options: &Options,
    address: Option<SocketAddr>,
    path: Option<&Path>,
) -> Vec<(&'static str, String)> {
    let folder = path.and_then(Path::parent);
    let shown = |path: Option<&Path>| path.unwrap_or(Path::new("")).display().to_string();
    let port = address.map_or(PORT, |address| address.port());
    let address = address.map(|address| address.ip().to_string());
    // The server makes statistics anew by itself, and rows need no other care.
    let cares = if options.analyze_interval.is_some() {
        "on"
    } else {
        "off"
    };
    let mut facts = counts_of(options.connections_max);
    facts.extend([
        ("autovacuum", cares.to_owned()),
        ("data_directory", shown(Some(&options.directory))),
        ("listen_addresses", address.unwrap_or_default()),
        ("port", port.to_string()),
        ("unix_socket_directories", shown(folder)),
    ]);
    facts
}

/// The limits of connections, as sessions show them.
fn counts_of(connections_max: usize) -> Vec<(&'static str, String)> {
    let kept = kept_slots(connections_max);
    vec![
        ("max_connections", connections_max.to_string()),
        ("superuser_reserved_connections", kept.to_string()),
    ]
}

fn random_secret() -> Result<[u8; 32], ServeError> {
    let mut secret = [0; 32];
    getrandom(&mut secret, GetRandomFlags::empty())
        .map_err(|error| ServeError::Random(error.into()))?;
    Ok(secret)
}

/// The content of a lock, which is whole between all changes, to be changed.
fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

fn listen_on(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => ServeError::AddressInUse(address),
        _ => ServeError::Listen(address.to_string(), error),
    })
}

/// The socket in a directory has the name that clients look for.
fn socket_path(path: &Path, port: u16) -> PathBuf {
    if path.is_dir() {
        path.join(format!("{SOCKET_NAME}{port}"))
    } else {
        path.to_owned()
    }
}

/// Whether it is a socket on which nobody listens: a server that was killed has left it.
fn is_dead(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let connected = is_socket.then(|| UnixStream::connect(path));
    connected.is_some_and(|connected| {
        connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    })
}

/// Removes the sockets that earlier servers of the database have left in its directory.
fn remove_dead(directory: &Path) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let left = entries.filter(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with(SOCKET_NAME) && is_dead(&entry.path())
    });
    // Clients pass over what stays.
    left.for_each(|entry| drop(fs::remove_file(entry.path())));
}

/// Listens on a socket in the file system, whose owner alone can connect.
fn listen_at(path: &Path) -> Result<Listener, ServeError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse => ServeError::SocketInUse(path.to_owned()),
        io::ErrorKind::InvalidInput => ServeError::SocketTooLong(path.to_owned()),
        _ => ServeError::Listen(path.display().to_string(), error),
    };
    if is_dead(path) {
        fs::remove_file(path).map_err(failed)?;
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
    let file = fs::symlink_metadata(path).map_err(failed)?.ino();
    Ok(Listener::Unix(listener, path.to_owned(), file))
}

impl Listener {
    fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener) => listener.accept().map(|(stream, _)| stream.into()),
            Self::Unix(listener, ..) => listener.accept().map(|(stream, _)| stream.into()),
        }
    }

    fn accept_all(&self, shared: &Arc<Shared>) {
        let mut told = None;
        loop {
            let accepted = self.accept();
            if shared.is_ending() {
                return;
            }
            match accepted {
                Ok(socket) => serve(socket, shared),
                // Such as too many open files, which others may close.
                Err(error) => {
                    if told.is_none_or(|told: Instant| told.elapsed() > TELL_AGAIN) {
                        told = Some(Instant::now());
                        let message = format!("could not accept a connection: {error}");
                        shared.log.say(&message);
                    }
                    std::thread::sleep(END_AGAIN);
                }
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener, ..) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Self::Unix(_, path, file) = self else {
            return;
        };
        // The next server removes it otherwise; it may have its own there already.
        if fs::symlink_metadata(&*path).is_ok_and(|there| there.ino() == *file) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Gives a connection a thread of its own.
fn serve(mut socket: Socket, shared: &Arc<Shared>) {
    let options = shared.options();
    if let Err(error) = socket.prepare(options.write_wait) {
        let message =
            format!("a connection was refused, because its socket takes no settings: {error}");
        shared.log.say(&message);
        return;
    }
    let socket = Arc::new(socket);
    let bytes_max = options.message_bytes_max;
    let mut link = Link::new(Arc::clone(&socket), &shared.awake, bytes_max);
    // So many have not begun, or are over the limit of those that have.
    let (connections, limit) = (shared.registry.count(), options.connections_max * 3 / 2);
    let is_full = connections >= 2 * limit;
    if is_full || connections >= limit && !shared.registry.end_a_beginner() {
        count(&shared.counts.refused);
        link.say_last(&too_many());
        return;
    }
    let entry = shared.registry.enter(&socket, options.start_wait);
    let (refused, refusing) = (Arc::clone(&socket), Arc::clone(shared));
    let shared = Arc::clone(shared);
    let token = Arc::clone(&shared.threads);
    let begun = Builder::new()
        .name("connection".into())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            if let Some(connection) = crate::start::start(link, entry, &shared) {
                connection.run();
            }
            socket.end();
            // The end of the server closes the database, so this thread must not have it any more.
            drop(shared);
            drop(token);
        });
    if let Err(error) = begun {
        count(&refusing.counts.refused);
        let message = format!("could not start a thread for a connection: {error}");
        refusing.log.say(&message);
        let hint = "Raise the limit on the threads or the memory of the server.";
        let mut link = Link::new(refused, &refusing.awake, bytes_max);
        link.say_last(&SqlError::new(SqlState::TOO_MANY_CONNECTIONS, message).hint(hint));
    }
}

/// Takes as many open files as the system allows, and says so if that may be too few.
fn raise_file_limit(options: &Options, log: &Log) {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let files = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let wanted = (options.connections_max * 3 / 2) as u64 + SPARE_FILES;
    if files.is_some_and(|files| files < wanted) {
        log.say(&format!(
            "the limit of open files is {}, which may be too few for max_connections = {}: \
             raise it (ulimit -n, or LimitNOFILE of systemd)",
            files.unwrap_or_default(),
            options.connections_max
        ));
    }
}
