//! The socket of a connection, of either family.
//!
//! It is shared: the thread of the connection reads and writes, others only end it, which wakes a
//! thread that waits in a read. A thread that waits in a write looks at times whether the
//! connection is to end: then a client that takes nothing is given up.

use rustix::net::{RecvFlags, recv, sockopt};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A pause after which TCP asks whether the other end is there.
const KEEP_ALIVE: Duration = Duration::from_mins(1);

/// The pause between two looks at the end of a connection whose client takes nothing: so long is
/// also what it has to take the last answers.
const LOOK: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(crate) struct Socket {
    stream: Stream,
    /// The time that the client may take nothing.
    write_wait: Duration,
    is_ending: AtomicBool,
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Self {
        Self::new(Stream::Tcp(stream))
    }
}

impl From<UnixStream> for Socket {
    fn from(stream: UnixStream) -> Self {
        Self::new(Stream::Unix(stream))
    }
}

impl Socket {
    fn new(stream: Stream) -> Self {
        Self {
            stream,
            write_wait: Duration::MAX,
            is_ending: AtomicBool::new(false),
        }
    }

    /// Sets what all connections have: answers go at once, a client that is gone is noticed, and
    /// one that reads nothing for `write_wait` is given up.
    pub(crate) fn prepare(&mut self, write_wait: Duration) -> io::Result<()> {
        self.write_wait = write_wait;
        let look = write_wait.min(LOOK);
        match &self.stream {
            Stream::Tcp(stream) => {
                stream.set_nodelay(true)?;
                sockopt::set_socket_keepalive(stream, true)?;
                sockopt::set_tcp_keepidle(stream, KEEP_ALIVE)?;
                sockopt::set_tcp_user_timeout(stream, write_wait.as_millis() as u32)?;
                stream.set_write_timeout(Some(look))
            }
            Stream::Unix(stream) => stream.set_write_timeout(Some(look)),
        }
    }

    /// The number of the operating system's user at the other end; none over TCP.
    pub(crate) fn peer_user(&self) -> Option<u32> {
        match &self.stream {
            Stream::Tcp(_) => None,
            Stream::Unix(stream) => {
                let credentials = sockopt::socket_peercred(stream).ok()?;
                Some(credentials.uid.as_raw())
            }
        }
    }

    /// The address of the other end; none over a Unix socket.
    pub(crate) fn peer_address(&self) -> Option<SocketAddr> {
        match &self.stream {
            Stream::Tcp(stream) => stream.peer_addr().ok(),
            Stream::Unix(_) => None,
        }
    }

    /// The address of this end; none over a Unix socket.
    pub(crate) fn own_address(&self) -> Option<SocketAddr> {
        match &self.stream {
            Stream::Tcp(stream) => stream.local_addr().ok(),
            Stream::Unix(_) => None,
        }
    }

    /// Its descriptor, for waits.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        match &self.stream {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }

    /// Lets no more come in: the thread that reads finds the end of the stream, and one that writes
    /// waits for its client no more.
    pub(crate) fn end_input(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
        // It may have ended already.
        let _ = match &self.stream {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Read),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Read),
        };
    }

    /// Ends both directions.
    pub(crate) fn end(&self) {
        let _ = match &self.stream {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    /// Reads what has come; an error of the kind `WouldBlock` if nothing has.
    pub(crate) fn read_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let (_, length) = match &self.stream {
            Stream::Tcp(stream) => recv(stream, buffer, RecvFlags::DONTWAIT),
            Stream::Unix(stream) => recv(stream, buffer, RecvFlags::DONTWAIT),
        }?;
        Ok(length)
    }

    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.stream {
            Stream::Tcp(stream) => (&*stream).read(buffer),
            Stream::Unix(stream) => (&*stream).read(buffer),
        }
    }

    /// Writes bytes, or a part of them.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let begun = Instant::now();
        loop {
            let written = match &self.stream {
                Stream::Tcp(stream) => (&*stream).write(bytes),
                Stream::Unix(stream) => (&*stream).write(bytes),
            };
            match written {
                // Less than all of them is what the client has taken in the time of a look.
                Ok(count) if count < bytes.len() && self.is_ending.load(Ordering::SeqCst) => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock
                        && begun.elapsed() < self.write_wait
                        && !self.is_ending.load(Ordering::SeqCst) => {}
                done => return done,
            }
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Socket::write(self, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
