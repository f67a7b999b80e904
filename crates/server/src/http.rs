//! Health and counts over HTTP, for machines: `/healthz`, `/readyz`, `/metrics`.
//!
//! Answers are short and made at once, so requests are answered one at a time. A client has a
//! second to send its request, of which only the first line is read. Counts are in Prometheus's
//! text format; nothing in them comes from a statement.

use crate::server::Shared;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The time that a client has to send its request, and to take the answer.
const WAIT: Duration = Duration::from_secs(1);
/// Bytes that a first line may have.
const LINE_BYTES_MAX: usize = 1024;

/// Classes of the times of statements; the last one has all that take longer than a minute.
const TIMES: usize = 27;

/// Counts since the server began.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) connections: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) errors: AtomicU64,
    /// Statements by the time that they have taken: the first ones less than a microsecond, each
    /// next ones less than twice as long.
    pub(crate) times: [AtomicU64; TIMES],
}

impl Counts {
    /// Counts a statement that has taken so long.
    pub(crate) fn took(&self, time: Duration) {
        let micros = time.as_micros() as u64;
        let place = (u64::BITS - micros.leading_zeros()) as usize;
        count(&self.times[place.min(TIMES - 1)]);
    }
}

/// Adds one to a count.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Answers requests until the server ends.
pub(crate) fn answer_all(listener: &TcpListener, shared: &Shared) {
    loop {
        let accepted = listener.accept();
        if shared.is_ending() {
            return;
        }
        match accepted {
            // A client that goes away needs no answer.
            Ok((stream, _)) => drop(answer(stream, shared)),
            Err(_) => std::thread::sleep(WAIT),
        }
    }
}

fn answer(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(WAIT))?;
    stream.set_write_timeout(Some(WAIT))?;
    let mut line = [0; LINE_BYTES_MAX];
    let mut length = 0;
    while length < line.len() && !line[..length].contains(&b'\n') {
        match stream.read(&mut line[length..])? {
            0 => break,
            bytes => length += bytes,
        }
    }
    let line = String::from_utf8_lossy(&line[..length]);
    let mut words = line.split_whitespace();
    let (state, body) = match (words.next(), words.next()) {
        // The server listens when the database has recovered, so it is ready as long as it lives.
        (Some("GET"), Some("/healthz" | "/readyz")) => ("200 OK", "ok\n".to_owned()),
        (Some("GET"), Some("/metrics")) => ("200 OK", metrics(shared)),
        (Some("GET"), Some(_)) => {
            let known = "there are /healthz, /readyz and /metrics\n";
            ("404 Not Found", known.to_owned())
        }
        _ => ("405 Method Not Allowed", "use GET\n".to_owned()),
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {state}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

fn metrics(shared: &Shared) -> String {
    let counts = &shared.counts;
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let all = [
        ("connections", "gauge", shared.registry.count() as u64),
        (
            "connections_max",
            "gauge",
            shared.options().connections_max as u64,
        ),
        ("sessions_total", "counter", read(&counts.connections)),
        ("refused_total", "counter", read(&counts.refused)),
        ("requests_total", "counter", read(&counts.requests)),
        ("errors_total", "counter", read(&counts.errors)),
    ];
    let mut text = times(counts);
    for (name, kind, value) in all {
        // Writing to a text cannot fail.
        let _ = writeln!(
            text,
            "# TYPE indelible_{name} {kind}\nindelible_{name} {value}"
        );
    }
    text
}

/// The times of statements, as a histogram of Prometheus.
fn times(counts: &Counts) -> String {
    let mut text = "# TYPE indelible_statement_seconds histogram\n".to_owned();
    let mut sum = 0;
    for (place, count) in counts.times.iter().enumerate() {
        sum += count.load(Ordering::Relaxed);
        let bound = if place + 1 == TIMES {
            "+Inf".to_owned()
        } else {
            (Duration::from_micros(1 << place).as_secs_f64()).to_string()
        };
        let _ = writeln!(
            text,
            "indelible_statement_seconds_bucket{{le=\"{bound}\"}} {sum}"
        );
    }
    let _ = writeln!(text, "indelible_statement_seconds_count {sum}");
    text
}
