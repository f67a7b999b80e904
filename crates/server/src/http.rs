//! Answers over HTTP: `/healthz`, `/readyz` and `/metrics` for machines, `/` for people.
//!
//! Answers are short and made at once, so a few threads answer, each one request at a time. A
//! client has a second to send its request, of which only the first line and the token are read,
//! and to take the answer; at the end of the server it has no more time. Counts are in Prometheus's
//! text format; nothing in them comes from a statement.

use crate::counts::{Counts, TIMES};
use crate::page::{self, Page};
use crate::registry::are_equal;
use crate::shared::Shared;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Threads that answer: slow clients, which are on this machine, leave some to others.
pub(crate) const THREADS: usize = 4;
/// The time that a client has to send its request, and again to take the answer.
const WAIT: Duration = Duration::from_secs(1);
/// The pause between two looks at the time and at the end of the server.
const LOOK: Duration = Duration::from_millis(50);
/// Bytes that a request may have; browsers send cookies of other servers of this machine.
const REQUEST_BYTES_MAX: usize = 16 << 10;

/// Answers requests until the server ends.
pub(crate) fn answer_all(listener: &TcpListener, page: &Page, shared: &Shared) {
    loop {
        let accepted = listener.accept();
        if shared.is_ending() {
            return;
        }
        match accepted {
            // A client that goes away needs no answer.
            Ok((stream, _)) => drop(answer(stream, page, shared)),
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

/// The state, type and content of an answer.
type Answer = (&'static str, &'static str, String);

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A client, with the time that it has.
struct Client<'a> {
    stream: TcpStream,
    until: Instant,
    shared: &'a Shared,
}

impl Client<'_> {
    /// Tries until it is done, or until the client's time has gone.
    fn wait<T>(
        &mut self,
        mut attempt: impl FnMut(&mut TcpStream) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            if Instant::now() >= self.until || self.shared.is_ending() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match attempt(&mut self.stream) {
                Err(error) if is_early(&error) => {}
                done => return done,
            }
        }
    }

    /// The first bytes of the request, with all of its headers unless they are long.
    fn request(&mut self) -> io::Result<Vec<u8>> {
        let mut request = Vec::new();
        let mut part = [0; 1024];
        while request.len() < REQUEST_BYTES_MAX && !request.windows(4).any(|end| end == b"\r\n\r\n")
        {
            match self.wait(|stream| stream.read(&mut part))? {
                0 => break,
                bytes => request.extend_from_slice(&part[..bytes]),
            }
        }
        Ok(request)
    }

    fn send(&mut self, answer: &str) -> io::Result<()> {
        self.until = Instant::now() + WAIT;
        let mut rest = answer.as_bytes();
        while !rest.is_empty() {
            let sent = self.wait(|stream| stream.write(rest))?;
            rest = &rest[sent..];
        }
        Ok(())
    }
}

fn is_early(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

fn answer(stream: TcpStream, page: &Page, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(LOOK))?;
    stream.set_write_timeout(Some(LOOK))?;
    let until = Instant::now() + WAIT;
    let mut client = Client {
        stream,
        until,
        shared,
    };
    let request = client.request()?;
    let request = String::from_utf8_lossy(&request);
    let (state, kind, body) = content(&request, page, shared);
    let (length, policy) = (body.len(), page::POLICY);
    let body = if request.starts_with("HEAD ") {
        ""
    } else {
        &*body
    };
    client.send(&format!(
        "HTTP/1.1 {state}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Content-Security-Policy: {policy}\r\nX-Content-Type-Options: nosniff\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n{body}"
    ))
}

fn content(request: &str, page: &Page, shared: &Shared) -> Answer {
    let mut words = request.split_whitespace();
    let (Some("GET" | "HEAD"), Some(target)) = (words.next(), words.next()) else {
        return ("405 Method Not Allowed", TEXT, "use GET\n".to_owned());
    };
    match path_of(target) {
        "/" => ("200 OK", "text/html; charset=utf-8", page::HTML.to_owned()),
        // The server listens when the database has recovered, so it is ready as long as it lives.
        "/healthz" | "/readyz" => ("200 OK", TEXT, "ok\n".to_owned()),
        "/metrics" => ("200 OK", TEXT, metrics(shared)),
        "/status.json" if !has_token(request, &page.token) => {
            let missing = "the data need the token that the server printed at its start\n";
            ("401 Unauthorized", TEXT, missing.to_owned())
        }
        "/status.json" => match page.data(shared) {
            Ok(data) => ("200 OK", "application/json", data.to_string()),
            Err(error) => ("503 Service Unavailable", TEXT, format!("{error}\n")),
        },
        _ => {
            let known = "there are /, /healthz, /readyz and /metrics\n";
            ("404 Not Found", TEXT, known.to_owned())
        }
    }
}

/// The path of a target, which may name the host, and have a query that nobody asks for.
fn path_of(target: &str) -> &str {
    let path = match target.strip_prefix("http://") {
        Some(rest) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => target,
    };
    path.split('?').next().unwrap_or(path)
}

/// Whether a header has the token.
fn has_token(request: &str, token: &str) -> bool {
    let values = request.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_meant = name.eq_ignore_ascii_case("authorization");
        is_meant
            .then(|| value.trim().strip_prefix("Bearer "))
            .flatten()
    });
    let mut values = values.map(|value| are_equal(value.as_bytes(), token.as_bytes()));
    values.any(|is_equal| is_equal)
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
    let archive = shared.sql.database().archive_state();
    let archive = archive.iter().flat_map(|state| {
        [
            ("archived_total", "counter", state.taken),
            ("archive_failures_total", "counter", state.failed),
            ("archive_fails", "gauge", u64::from(state.failure.is_some())),
        ]
    });
    let mut text = times(counts);
    for (name, kind, value) in all.into_iter().chain(archive) {
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
