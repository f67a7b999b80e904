//! The socket of a connection, of either family.
//!
//! It is shared: the thread of the connection reads and writes, others only end it, which wakes a
//! thread that waits in a read.

use rustix::net::{RecvFlags, recv, sockopt};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A pause after which TCP asks whether the other end is there.
const KEEP_ALIVE: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Sets what all connections have: answers go at once, a client that is gone is noticed, and
    /// one that reads nothing for `write_wait` is given up.
    pub(crate) fn prepare(&self, write_wait: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_nodelay(true)?;
                sockopt::set_socket_keepalive(stream, true)?;
                sockopt::set_tcp_keepidle(stream, KEEP_ALIVE)?;
                sockopt::set_tcp_user_timeout(stream, write_wait.as_millis() as u32)?;
                stream.set_write_timeout(Some(write_wait))
            }
            Self::Unix(stream) => stream.set_write_timeout(Some(write_wait)),
        }
    }

    /// The number of the operating system's user at the other end; none over TCP.
    pub(crate) fn peer_user(&self) -> Option<u32> {
        match self {
            Self::Tcp(_) => None,
            Self::Unix(stream) => {
                let credentials = sockopt::socket_peercred(stream).ok()?;
                Some(credentials.uid.as_raw())
            }
        }
    }

    /// The address of the other end; none over a Unix socket.
    pub(crate) fn peer_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.peer_addr().ok(),
            Self::Unix(_) => None,
        }
    }

    /// Its descriptor, for waits.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }

    /// Lets no more come in: the thread that reads finds the end of the stream.
    pub(crate) fn end_input(&self) {
        // It may have ended already.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Read),
            Self::Unix(stream) => stream.shutdown(Shutdown::Read),
        };
    }

    /// Ends both directions.
    pub(crate) fn end(&self) {
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    /// Reads what has come; an error of the kind `WouldBlock` if nothing has.
    pub(crate) fn read_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let (_, length) = match self {
            Self::Tcp(stream) => recv(stream, buffer, RecvFlags::DONTWAIT),
            Self::Unix(stream) => recv(stream, buffer, RecvFlags::DONTWAIT),
        }?;
        Ok(length)
    }

    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&*stream).read(buffer),
            Self::Unix(stream) => (&*stream).read(buffer),
        }
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&*stream).write(bytes),
            Self::Unix(stream) => (&*stream).write(bytes),
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
