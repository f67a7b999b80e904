//! Goal: clients that are slow, or take nothing, hold up nobody but themselves.
//!
//! Method: clients that would go on for hours, so that a server which waits for them fails its test
//! by never ending.

use crate::{Fixture, query};
use rustix::net::{RecvFlags, recv};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const HTTP: &str = "127.0.0.1:0";

/// Begins to send a request to the status page, one byte after the other, until the connection or
/// the test has ended.
fn send_slowly(address: SocketAddr, is_over: &Arc<AtomicBool>) -> JoinHandle<()> {
    let mut stream = TcpStream::connect(address).unwrap();
    let is_over = Arc::clone(is_over);
    std::thread::spawn(move || {
        while !is_over.load(Ordering::SeqCst) && stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(200));
        }
    })
}

/// A client had a second for each byte of its request, and all others waited for it.
#[test]
fn a_slow_request_to_the_status_page_is_given_up() {
    let fixture = Fixture::new(|options| options.http = Some(HTTP.parse().unwrap()));
    let address = fixture.server().http_address().unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let slow: Vec<_> = (0..8).map(|_| send_slowly(address, &is_over)).collect();
    for client in slow {
        client.join().unwrap();
    }
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("ok\n"), "{answer}");
}

/// The end of the server waited for such a client.
#[test]
fn the_end_does_not_wait_for_a_slow_request_to_the_status_page() {
    let mut fixture = Fixture::new(|options| options.http = Some(HTTP.parse().unwrap()));
    let address = fixture.server().http_address().unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let slow: Vec<_> = (0..8).map(|_| send_slowly(address, &is_over)).collect();
    drop(fixture.server.take());
    is_over.store(true, Ordering::SeqCst);
    for client in slow {
        client.join().unwrap();
    }
}

/// The end of the server waited until a client took its answers, or its time for that had gone.
#[test]
fn the_end_does_not_wait_for_a_client_that_reads_nothing() {
    let mut fixture = Fixture::new(|options| options.write_wait = Duration::from_hours(1));
    let mut client = fixture.client();
    client.send(&[query(
        "select repeat('x', 1000) from generate_series(1, 100000)",
    )]);
    let mut come = vec![0; 1 << 20];
    let mut bytes = 0;
    while bytes < 100_000 {
        let peeked = recv(&client.stream, &mut come[..], RecvFlags::PEEK).unwrap();
        bytes = peeked.1;
        std::thread::yield_now();
    }
    let server = fixture.server.take().unwrap();
    server.end(Duration::from_hours(1), || true);
}

/// A session that others end waited for its client too.
#[test]
fn a_session_that_is_ended_does_not_wait_for_its_client() {
    let fixture = Fixture::new(|options| options.write_wait = Duration::from_hours(1));
    let mut client = fixture.client();
    client.send(&[query(
        "select repeat('x', 1000) from generate_series(1, 100000)",
    )]);
    let number = client.number;
    let mut other = fixture.client();
    other.ask(&[query(&format!("select pg_terminate_backend({number})"))]);
    while fixture.server().connections() > 1 {
        std::thread::sleep(Duration::from_millis(10));
    }
}
