//! The log: a line an event, as text or JSON, on standard error.
//!
//! Lines are written by a thread of its own, so that no statement waits for the terminal or the
//! disk behind it. If that is slower than the events, lines are left out, and the log says how
//! many. Statements are without their constants; passwords and keys get into no event.

use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Lines that wait to be written; more are left out.
const WAITING_MAX: usize = 1024;
/// The time that the last lines have at the end, and the pause between two looks at them.
const END_WAIT: Duration = Duration::from_secs(1);
const END_LOOK: Duration = Duration::from_millis(1);
/// No statement takes so long.
const NEVER: u64 = u64::MAX;

/// The events that are logged.
#[derive(Clone, Debug, Default)]
pub struct LogOptions {
    /// Whether a line is an object of JSON.
    pub is_json: bool,
    /// Whether connections that begin and end are logged.
    pub connections: bool,
    /// Statements that take so long are logged.
    pub min_duration: Option<Duration>,
    /// Waits for locks that take so long are logged.
    pub lock_waits: Option<Duration>,
}

/// The log of a server. Dropping it writes what is left, unless nobody takes it.
pub(crate) struct Log {
    lines: Option<SyncSender<String>>,
    thread: Option<JoinHandle<()>>,
    lost: Arc<AtomicU64>,
    is_json: bool,
    connections: AtomicBool,
    min_micros: AtomicU64,
}

impl Log {
    /// A log that is written to `out`.
    pub(crate) fn new(options: &LogOptions, out: Box<dyn Write + Send>) -> std::io::Result<Self> {
        let (lines, waiting) = sync_channel(WAITING_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let is_json = options.is_json;
        let count = Arc::clone(&lost);
        let thread = Builder::new()
            .name("log".into())
            .spawn(move || write_all(&waiting, &count, is_json, out))?;
        let log = Self {
            lines: Some(lines),
            thread: Some(thread),
            lost,
            is_json,
            connections: AtomicBool::new(false),
            min_micros: AtomicU64::new(NEVER),
        };
        log.set(options);
        Ok(log)
    }

    /// Changes the events that are logged.
    pub(crate) fn set(&self, options: &LogOptions) {
        self.connections
            .store(options.connections, Ordering::Relaxed);
        let micros = options
            .min_duration
            .map_or(NEVER, |time| time.as_micros() as u64);
        self.min_micros.store(micros, Ordering::Relaxed);
    }

    pub(crate) fn has_connections(&self) -> bool {
        self.connections.load(Ordering::Relaxed)
    }

    /// Whether a statement that took so long is logged.
    pub(crate) fn is_slow(&self, time: Duration) -> bool {
        time.as_micros() as u64 >= self.min_micros.load(Ordering::Relaxed)
    }

    /// Logs an event.
    pub(crate) fn tell(&self, event: &str, fields: &[(&str, Value)]) {
        self.send(line(self.is_json, event, fields));
    }

    /// Logs a sentence for whoever has started the server, who sees it as it is.
    pub(crate) fn say(&self, sentence: &str) {
        self.send(if self.is_json {
            line(true, sentence, &[])
        } else {
            format!("{sentence}\n")
        });
    }

    fn send(&self, line: String) {
        let lines = self.lines.as_ref();
        if lines.is_some_and(|lines| lines.try_send(line).is_err()) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        drop(self.lines.take());
        let Some(thread) = self.thread.take() else {
            return;
        };
        let until = Instant::now() + END_WAIT;
        // A full pipe that nobody reads must not keep the database open.
        while !thread.is_finished() && Instant::now() < until {
            std::thread::sleep(END_LOOK);
        }
        if thread.is_finished() {
            // Its panic has been printed.
            let _ = thread.join();
        }
    }
}

fn write_all(
    waiting: &Receiver<String>,
    lost: &AtomicU64,
    is_json: bool,
    mut out: Box<dyn Write + Send>,
) {
    for next in waiting {
        // Nobody could be told that the log cannot be written.
        let _ = out.write_all(next.as_bytes());
        let lost = lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let line = line(is_json, "lines were left out", &[("lines", lost.into())]);
            let _ = out.write_all(line.as_bytes());
        }
    }
}

/// A line: the moment, the event, and its fields.
fn line(is_json: bool, event: &str, fields: &[(&str, Value)]) -> String {
    let moment = jiff::Timestamp::now();
    let moment = moment.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string();
    if is_json {
        let own = [("time", moment.into()), ("event", event.into())];
        let all = own.iter().chain(fields);
        let object: Map<String, Value> = all
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        return format!("{}\n", Value::Object(object));
    }
    let mut text = format!("{moment} {event}");
    for (name, value) in fields {
        // Texts are in quotes, so that no name of a client makes a line of its own.
        let _ = write!(text, " {name}={value}");
    }
    text.push('\n');
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::Mutex;

    /// A log that a test reads.
    #[derive(Clone, Default)]
    pub(crate) struct Memory(pub(crate) Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// A pipe that nobody reads.
    struct Full(std::sync::mpsc::Receiver<()>);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// It kept the server, and the lock of its database, for ever.
    #[test]
    fn a_log_that_nobody_reads_ends() {
        let (opened, full) = std::sync::mpsc::channel();
        let log = Log::new(&LogOptions::default(), Box::new(Full(full))).unwrap();
        log.say("ready");
        drop(log);
        drop(opened);
    }

    #[test]
    fn an_event_is_a_line() {
        for is_json in [false, true] {
            let options = LogOptions {
                is_json,
                connections: true,
                min_duration: Some(Duration::from_millis(5)),
                lock_waits: None,
            };
            let memory = Memory::default();
            let log = Log::new(&options, Box::new(memory.clone())).unwrap();
            assert!(log.has_connections() && log.is_slow(Duration::from_millis(5)));
            assert!(!log.is_slow(Duration::from_micros(4999)));
            log.tell(
                "connected",
                &[("session", 7.into()), ("role", "a\n\"b".into())],
            );
            log.set(&LogOptions::default());
            assert!(!log.has_connections() && !log.is_slow(Duration::from_hours(1)));
            log.say("ready");
            drop(log);
            let text = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines.len(), 2, "{text}");
            if is_json {
                let object: Value = serde_json::from_str(lines[0]).unwrap();
                assert_eq!(object["role"], "a\n\"b");
                assert_eq!(object["session"], 7);
                let object: Value = serde_json::from_str(lines[1]).unwrap();
                assert_eq!(object["event"], "ready");
            } else {
                assert!(
                    lines[0].ends_with(r#"Z connected session=7 role="a\n\"b""#),
                    "{text}"
                );
                assert_eq!(lines[1], "ready");
            }
        }
    }
}
