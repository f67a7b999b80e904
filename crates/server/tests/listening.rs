//! Goal: a server that cannot listen says why, and leaves what is there as it is; one that runs
//! ends, and keeps statistics.
//!
//! Method: servers of databases in memory are started on addresses and paths that others have: a
//! file of the user's, the socket of a server that runs, that of one that was killed.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use indelible::{Database, Method, Options, Table};
use server::{ServeError, Server};
use sql::types::Context;
use sql::{Batch, Flow, OutputColumn, RowSink, Sql, SqlError};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A directory that is removed with everything in it.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let name = format!("indelible-listening-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A reader that wants no rows.
struct Nothing;

impl RowSink for Nothing {
    fn describe(&mut self, _: &[OutputColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn rows(&mut self, _: &Batch, _: &Context<'_>) -> Result<Flow, SqlError> {
        Ok(Flow::More)
    }
}

fn start(
    here: &Directory,
    name: &str,
    change: impl FnOnce(&mut server::Options),
) -> Result<Server, ServeError> {
    let options = Options::new().method(Method::Volatile);
    let database = Database::create(here.0.join(name), &options).unwrap();
    let mut options = server::Options::new(&here.0);
    (options.listen, options.socket) = (None, None);
    change(&mut options);
    Server::start(Sql::open(database).unwrap(), options)
}

fn start_at(here: &Directory, name: &str, path: &Path) -> Result<Server, ServeError> {
    start(here, name, |options| options.socket = Some(path.to_owned()))
}

#[test]
fn a_path_that_is_taken_stays_as_it_is() {
    let here = Directory::new("path");
    let file = here.0.join("notes.txt");
    std::fs::write(&file, "not to be lost").unwrap();
    let socket = here.0.join("socket");
    let running = start_at(&here, "first", &socket).unwrap();
    for (name, path) in [("second", &file), ("third", &socket)] {
        let error = start_at(&here, name, path).err().unwrap().to_string();
        let expected = format!("cannot listen on {}: a server or a file", path.display());
        assert!(error.starts_with(&expected), "{error}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "not to be lost");
    assert!(std::os::unix::net::UnixStream::connect(&socket).is_ok());
    drop(running);
}

#[test]
fn the_socket_of_a_server_that_was_killed_is_replaced() {
    let here = Directory::new("killed");
    let socket = here.0.join("socket");
    drop(UnixListener::bind(&socket).unwrap());
    assert!(socket.exists());
    start_at(&here, "database", &socket).unwrap();
}

/// Programs asked the first socket of a directory, on which nobody listened any more.
#[test]
fn sockets_of_killed_servers_go_and_others_stay() {
    let here = Directory::new("killed-elsewhere");
    let [dead, file, alive] =
        [7421, 7422, 7423].map(|port| here.0.join(format!(".s.PGSQL.{port}")));
    drop(UnixListener::bind(&dead).unwrap());
    std::fs::write(&file, "not to be lost").unwrap();
    let _listener = UnixListener::bind(&alive).unwrap();
    let _server = start_at(&here, "database", &here.0.join("socket")).unwrap();
    assert!(!dead.exists() && file.exists() && alive.exists());
}

/// Cleaners of old files remove sockets. It waited for ever for a connection that nobody could
/// make.
#[test]
fn a_server_ends_though_its_socket_is_gone() {
    let here = Directory::new("gone");
    let socket = here.0.join("socket");
    let server = start(&here, "database", |options| {
        options.socket = Some(socket.clone());
        options.listen = Some("127.0.0.1:0".parse().unwrap());
        options.http = Some("127.0.0.1:0".parse().unwrap());
    })
    .unwrap();
    std::fs::remove_file(&socket).unwrap();
    let other = UnixListener::bind(&socket).unwrap();
    let (ended, waits) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        server.end(Duration::from_secs(1), || false);
        ended.send(()).unwrap();
    });
    waits.recv_timeout(Duration::from_mins(1)).unwrap();
    assert!(socket.exists(), "it is another server's by now");
    drop(other);
}

/// Sessions ask for no statistics; the rows that they insert make the server look.
#[test]
fn a_server_makes_statistics_of_tables_that_have_changed() {
    let here = Directory::new("statistics");
    let database = Options::new().method(Method::NvmInp);
    let sql = Sql::open(Database::create(here.0.join("d"), &database).unwrap()).unwrap();
    let mut options = server::Options::new(&here.0);
    options.socket = Some(here.0.join("socket"));
    options.analyze_interval = Some(Duration::from_millis(5));
    let server = Server::start(Arc::clone(&sql), options).unwrap();
    let mut session = sql.connect().unwrap();
    let fill = "CREATE TABLE t (id int PRIMARY KEY); \
                INSERT INTO t SELECT i FROM generate_series(1, 60) i";
    session.simple(fill, &mut Nothing).unwrap();
    let is_known = || {
        let tables = sql.database().tables();
        let known = tables.iter().filter_map(Table::known_statistics);
        known.map(|known| known.rows).any(|rows| rows == 60)
    };
    for _ in 0..12_000 {
        if is_known() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(is_known());
    drop(session);
    server.end(Duration::ZERO, || true);
}

#[test]
fn an_address_that_is_taken_is_named_with_the_remedy() {
    let here = Directory::new("address");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let started = start(&here, "database", |options| options.listen = Some(address));
    let error = started.err().unwrap().to_string();
    assert!(
        error.contains(&address.to_string()) && error.contains("--listen"),
        "{error}"
    );
}
