//! An empty server: the least that a server of this protocol costs, to measure others against.
//!
//! It has the threads, the waits and the messages of the real one, and no database: every SELECT
//! has one row with a zero, every change changes one row. Clients that read their scripts from a
//! file, as `pgbench -f` does, run on it as they are.

use crate::encoding::utf8;
use crate::link::{Broken, Link};
use crate::message::{Formats, Request, StartUp, Status, Target};
use crate::socket::Socket;
use crate::spin::Awake;
use sql::OutputColumn;
use sql::types::{Kind, Type};
use std::collections::HashMap;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

const MESSAGE_BYTES_MAX: usize = 1 << 20;
const WRITE_WAIT: Duration = Duration::from_mins(1);

/// Answers all clients of a listener, until the process ends.
///
/// # Errors
///
/// A listener that fails.
pub fn serve_floor(listener: &TcpListener) -> io::Result<()> {
    let awake = Arc::new(Awake::new(true));
    loop {
        let (stream, _) = listener.accept()?;
        let mut socket = Socket::from(stream);
        socket.prepare(WRITE_WAIT)?;
        let socket = Arc::new(socket);
        let awake = Arc::clone(&awake);
        std::thread::spawn(move || {
            let link = Link::new(Arc::clone(&socket), &awake, MESSAGE_BYTES_MAX);
            // A client that goes ends its connection.
            let _ = Floor::begin(link).and_then(Floor::run);
            socket.end();
        });
    }
}

/// A statement, as far as its answer depends on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Row,
    Tag(&'static str),
    Begin,
    End,
}

impl Answer {
    fn of(text: &str) -> Self {
        let word = text.split_whitespace().next().unwrap_or_default();
        match word.trim_end_matches(';').to_ascii_lowercase().as_str() {
            "select" => Self::Row,
            "insert" => Self::Tag("INSERT 0 1"),
            "update" => Self::Tag("UPDATE 1"),
            "delete" => Self::Tag("DELETE 1"),
            "begin" => Self::Begin,
            "end" | "commit" => Self::End,
            _ => Self::Tag("OK"),
        }
    }
}

/// A client of the floor.
struct Floor {
    link: Link,
    /// Answers of prepared statements, and the one that the last Bind has chosen.
    prepared: HashMap<Vec<u8>, Answer>,
    bound: Answer,
    status: Status,
    columns: [OutputColumn; 1],
}

impl Floor {
    fn begin(mut link: Link) -> Result<Self, Broken> {
        let mut body = Vec::new();
        loop {
            link.body(&mut body)?;
            match StartUp::read(&body)? {
                StartUp::Tls | StartUp::Gss => link.send_byte(b'N')?,
                StartUp::Cancel { .. } => return Err(Broken::Gone),
                StartUp::Session { .. } => break,
            }
        }
        let answers = &mut link.answers;
        answers.authentication_ok();
        for (name, value) in [
            ("server_version", "15.0"),
            ("client_encoding", "UTF8"),
            ("standard_conforming_strings", "on"),
        ] {
            answers.parameter(name, value);
        }
        answers.key(1, &[0; 4]);
        answers.ready(Status::Idle);
        let column = OutputColumn {
            name: "zero".to_owned(),
            data_type: Type {
                kind: Kind::Int4,
                modifier: -1,
            },
            table: 0,
            position: 0,
        };
        Ok(Self {
            link,
            prepared: HashMap::new(),
            bound: Answer::Row,
            status: Status::Idle,
            columns: [column],
        })
    }

    fn run(mut self) -> Result<(), Broken> {
        let mut body = Vec::new();
        loop {
            let kind = self.link.request(&mut body)?;
            match Request::read(kind, &body)? {
                Request::Query(text) => {
                    let answer = Answer::of(utf8(text).unwrap_or_default());
                    self.describe(answer);
                    self.execute(answer);
                    self.link.answers.ready(self.status);
                }
                Request::Parse {
                    statement, text, ..
                } => {
                    let answer = Answer::of(utf8(text).unwrap_or_default());
                    self.prepared.insert(statement.to_vec(), answer);
                    self.link.answers.parse_complete();
                }
                Request::Bind { statement, .. } => {
                    self.bound = self.prepared.get(statement).copied().unwrap_or(Answer::Row);
                    self.link.answers.bind_complete();
                }
                Request::Describe(Target::Statement, name) => {
                    let answer = self.prepared.get(name).copied().unwrap_or(Answer::Row);
                    self.link.answers.parameter_types(&[]);
                    self.describe(answer);
                }
                Request::Describe(Target::Portal, _) => self.describe(self.bound),
                Request::Execute { .. } => self.execute(self.bound),
                Request::Close(..) => self.link.answers.close_complete(),
                Request::Sync => self.link.answers.ready(self.status),
                Request::Flush => self.link.flush()?,
                Request::Terminate => return Ok(()),
                _ => return Err(Broken::Gone),
            }
        }
    }

    fn describe(&mut self, answer: Answer) {
        let columns = (answer == Answer::Row).then_some(self.columns.as_slice());
        self.link.answers.result(columns, &Formats::default());
    }

    fn execute(&mut self, answer: Answer) {
        let tag = match answer {
            Answer::Row => {
                self.link.answers.message(b'D', |out| {
                    out.extend(1_u16.to_be_bytes());
                    out.extend(1_u32.to_be_bytes());
                    out.push(b'0');
                });
                "SELECT 1"
            }
            Answer::Tag(tag) => tag,
            Answer::Begin => {
                self.status = Status::Open;
                "BEGIN"
            }
            Answer::End => {
                self.status = Status::Idle;
                "COMMIT"
            }
        };
        self.link.answers.command_complete(tag);
    }
}
