//! Goal: many connections take little memory, and none of it stays.
//!
//! Method: clients over the Unix socket of a server in this process, whose memory is that of the
//! process: 1,000 sessions that are idle, and then thousands that begin and end, while a client
//! that has been there all the time gets its answers. `LONG_TESTS=1` lets 10,000 begin and end.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use indelible::{Database, Method, Options};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::Server;
use sql::Sql;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

const IDLE: usize = 1000;
/// The memory that they may take together. Most of it is stacks, whose frames are several times
/// larger in builds without optimisation.
const IDLE_BYTES_MAX: usize = if cfg!(debug_assertions) { 112 } else { 64 } << 20;
/// Growth of the memory by sessions that have ended.
const LEFT_BYTES_MAX: usize = 16 << 20;

/// Memory of the process that is in use.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib: usize = line
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    kib << 10
}

/// A session that has begun.
fn connect(socket: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream
        .write_all(b"\0\0\0\x12\0\x03\0\0user\0ann\0\0")
        .unwrap();
    until_ready(&mut stream);
    stream
}

fn ask(client: &mut UnixStream) {
    client.write_all(b"Q\0\0\0\x0dselect 1\0").unwrap();
    until_ready(client);
}

fn until_ready(client: &mut UnixStream) {
    let mut head = [0; 5];
    while head[0] != b'Z' {
        client.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes(*head.last_chunk().unwrap()) as usize;
        client.read_exact(&mut vec![0; length - 4]).unwrap();
        assert_ne!(head[0], b'E');
    }
}

#[test]
fn a_thousand_idle_sessions_take_little_memory() {
    // Both ends of all connections are files of this process.
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let current = maximum.or(Some(1 << 20));
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
    let directory = std::env::temp_dir().join(format!("indelible-crowd-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let options = Options::new().method(Method::NvmInp);
    let database = Database::create(&directory, &options).unwrap();
    let mut options = server::Options::new(&directory);
    options.socket = Some(directory.clone());
    options.connections_max = IDLE + 10;
    let server = Server::start(Sql::open(database).unwrap(), options).unwrap();
    let socket = server.socket().unwrap();
    let mut bystander = connect(socket);

    let before = resident_bytes();
    let mut idle: Vec<UnixStream> = (0..IDLE).map(|_| connect(socket)).collect();
    let taken = resident_bytes() - before;
    println!("{IDLE} idle sessions: {} KiB", taken >> 10);
    assert!(taken <= IDLE_BYTES_MAX, "{taken} bytes");
    for client in [0, IDLE / 2, IDLE - 1] {
        ask(&mut idle[client]);
    }
    drop(idle);
    while server.connections() > 1 {
        std::thread::yield_now();
    }

    let sessions = if std::env::var_os("LONG_TESTS").is_some() {
        10_000
    } else {
        1_000
    };
    let before = resident_bytes();
    for number in 0..sessions {
        let mut client = connect(socket);
        if number % 100 == 0 {
            ask(&mut client);
            ask(&mut bystander);
        }
    }
    while server.connections() > 1 {
        std::thread::yield_now();
    }
    let left = resident_bytes().saturating_sub(before);
    println!("{sessions} sessions have left {} KiB", left >> 10);
    assert!(left <= LEFT_BYTES_MAX, "{left} bytes");
    ask(&mut bystander);
    drop(server);
    let _ = std::fs::remove_dir_all(&directory);
}
