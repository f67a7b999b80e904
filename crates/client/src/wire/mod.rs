//! A client of PostgreSQL's protocol, version 3.0, with simple queries only.
//!
//! It is there to run the same statements on a server: text in, text out. It reads one message at a
//! time and never has more than one query under way. After an error of the connection itself every
//! call fails.

mod address;
mod message;

pub use address::{Address, BadAddress};

use crate::client::{Cancel, Client, Column, Error, Report, Severity, Sink, Status};
use message::{Fields, Message, Reader, write_message};
use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

/// Number of version 3.0 of the protocol, and of the request to cancel.
const PROTOCOL: u32 = 196_608;
const CANCEL: u32 = 80_877_102;

/// A connection to a server.
pub struct WireClient {
    address: Address,
    reader: Reader<BufReader<Stream>>,
    writer: Stream,
    key: [u8; 8],
    status: Status,
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn open(address: &Address) -> io::Result<Self> {
        if let Some(path) = address.socket() {
            return UnixStream::connect(path).map(Self::Unix);
        }
        let stream = TcpStream::connect((address.host.as_str(), address.port))?;
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

    fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl WireClient {
    /// Connects to a server.
    pub fn connect(address: &Address) -> Result<Self, Error> {
        let failed =
            |error: io::Error| Error::Lost(format!("cannot connect to {address}: {error}"));
        let writer = Stream::open(address).map_err(failed)?;
        let reader = Reader::new(BufReader::new(writer.try_clone().map_err(failed)?));
        let mut client = Self {
            address: address.clone(),
            reader,
            writer,
            key: [0; 8],
            status: Status::Idle,
        };
        client.start()?;
        Ok(client)
    }

    fn start(&mut self) -> Result<(), Error> {
        let mut body = PROTOCOL.to_be_bytes().to_vec();
        let names = [
            ("user", self.address.user.as_str()),
            ("database", self.address.database.as_str()),
            ("client_encoding", "UTF8"),
            ("application_name", "indelible"),
        ];
        for (name, value) in names {
            body.extend([name.as_bytes(), &[0], value.as_bytes(), &[0]].concat());
        }
        body.push(0);
        write_message(&mut self.writer, None, &body).map_err(|error| lost(&error))?;
        loop {
            let message = self.receive()?;
            match message.kind {
                b'R' => self.authenticate(&message)?,
                b'K' => {
                    if let Some(key) = message.body.first_chunk() {
                        self.key = *key;
                    }
                }
                b'E' => return Err(Error::Lost(report(&message).message)),
                b'Z' => return Ok(()),
                _ => {}
            }
        }
    }

    fn authenticate(&mut self, message: &Message) -> Result<(), Error> {
        match (Fields::new(&message.body).u32(), &self.address.password) {
            (Some(0), _) => Ok(()),
            (Some(3), Some(password)) => {
                let body = [password.as_bytes(), &[0]].concat();
                self.send(b'p', &body)
            }
            (Some(3), None) => Err(Error::Lost(
                "the server asks for a password; put it into the address, \
                 postgres://USER:PASSWORD@HOST/DATABASE"
                    .to_owned(),
            )),
            (method, _) => Err(Error::Lost(format!(
                "the server asks for authentication by method {}, which this client does not have; \
                 allow `trust` or `password` for it",
                method.unwrap_or_default()
            ))),
        }
    }

    fn send(&mut self, kind: u8, body: &[u8]) -> Result<(), Error> {
        write_message(&mut self.writer, Some(kind), body).map_err(|error| lost(&error))
    }

    fn receive(&mut self) -> Result<Message, Error> {
        self.reader.next().map_err(|error| lost(&error))
    }

    /// Sends what the sink has for `COPY ... FROM STDIN`.
    fn copy_in(&mut self, sink: &mut dyn Sink) -> Result<(), Error> {
        loop {
            match sink.copy_in() {
                Ok(Some(data)) => self.send(b'd', &data)?,
                Ok(None) => return self.send(b'c', &[]),
                Err(error) => return self.send(b'f', format!("{error}\0").as_bytes()),
            }
        }
    }

    /// Hands one message to the sink. The first error is kept until the server is ready again.
    fn deliver(
        &mut self,
        message: &Message,
        sink: &mut dyn Sink,
        columns: &mut usize,
    ) -> Result<(), Error> {
        match message.kind {
            b'T' => {
                let described = columns_of(message)?;
                *columns = described.len();
                sink.columns(&described)?;
            }
            b'D' => {
                let row = row_of(message, *columns)?;
                sink.row(&row)?;
            }
            b'C' => {
                let tag = Fields::new(&message.body).text();
                sink.done(tag.unwrap_or_default())?;
            }
            b'I' => sink.done("")?,
            b'N' => sink.notice(&report(message)),
            b'G' => self.copy_in(sink)?,
            b'd' => sink.copy_out(&message.body)?,
            b'E' => return Err(Error::Statement(Box::new(report(message)))),
            _ => {}
        }
        Ok(())
    }
}

impl Client for WireClient {
    fn run(&mut self, text: &str, sink: &mut dyn Sink) -> Result<(), Error> {
        if text.contains('\0') {
            let report =
                Report::error("22021", "invalid byte sequence for encoding \"UTF8\": 0x00");
            return Err(Error::Statement(Box::new(report)));
        }
        self.send(b'Q', &[text.as_bytes(), &[0]].concat())?;
        let (mut first, mut columns) = (Ok(()), 0);
        loop {
            let message = self.receive()?;
            if message.kind == b'Z' {
                self.status = match message.body.first() {
                    Some(b'T') => Status::Open,
                    Some(b'E') => Status::Failed,
                    _ => Status::Idle,
                };
                return first;
            }
            // After an error of the sink its data are read and dropped.
            let wanted = first.is_ok() || message.kind == b'G';
            if wanted && let Err(error) = self.deliver(&message, sink, &mut columns) {
                if let Error::Statement(report) = &error
                    && report.severity() == "FATAL"
                {
                    return Err(Error::Lost(report.message.clone()));
                }
                first = first.and(Err(error));
            }
        }
    }

    fn status(&self) -> Status {
        self.status
    }

    fn cancel(&self) -> Box<dyn Cancel> {
        Box::new(CancelRequest {
            address: self.address.clone(),
            key: self.key,
        })
    }

    fn another(&self) -> Result<Box<dyn Client>, Error> {
        Ok(Box::new(Self::connect(&self.address)?))
    }
}

impl Drop for WireClient {
    fn drop(&mut self) {
        // The server notices the end of the stream as well.
        let _ = self.send(b'X', &[]);
    }
}

/// Asks over a connection of its own, as the protocol has it.
struct CancelRequest {
    address: Address,
    key: [u8; 8],
}

impl Cancel for CancelRequest {
    fn cancel(&self) {
        let body = [CANCEL.to_be_bytes().as_slice(), &self.key].concat();
        // The protocol has no answer to it, so a failure shows in the statement that goes on.
        let _ = Stream::open(&self.address)
            .and_then(|mut stream| write_message(&mut stream, None, &body));
    }
}

fn lost(error: &io::Error) -> Error {
    Error::Lost(format!("the connection to the server is lost: {error}"))
}

fn malformed() -> Error {
    Error::Lost("the server sent a message that is not of PostgreSQL's protocol".to_owned())
}

fn columns_of(message: &Message) -> Result<Vec<Column>, Error> {
    let mut fields = Fields::new(&message.body);
    let count = fields.u16().ok_or_else(malformed)?;
    let mut column = || {
        let name = fields.text()?.to_owned();
        fields.skip(6)?;
        let type_oid = fields.u32()?;
        fields.skip(8)?;
        Some(Column { name, type_oid })
    };
    let columns: Option<Vec<Column>> = (0..count).map(|_| column()).collect();
    columns.ok_or_else(malformed)
}

fn row_of(message: &Message, columns: usize) -> Result<Vec<Option<&str>>, Error> {
    let mut fields = Fields::new(&message.body);
    let count = fields.u16().ok_or_else(malformed)?;
    let mut row = Vec::with_capacity(columns);
    for _ in 0..count {
        row.push(fields.value().ok_or_else(malformed)?);
    }
    Ok(row)
}

fn report(message: &Message) -> Report {
    let mut report = Report::default();
    let mut fields = Fields::new(&message.body);
    while let Some(kind) = fields.byte().filter(|kind| *kind != 0) {
        let Some(text) = fields.text() else { break };
        let owned = || text.to_owned();
        match kind {
            b'V' if text != "ERROR" => report.severity = Severity::Other(owned()),
            b'C' => report.state = owned(),
            b'M' => report.message = owned(),
            b'D' => report.detail = Some(owned()),
            b'H' => report.hint = Some(owned()),
            b'W' => report.context = Some(owned()),
            b'P' => report.position = text.parse().ok(),
            _ => {}
        }
    }
    report
}
