//! Wakes a thread that waits for its client, when there are notifications.
//!
//! Only connections that listen to a channel have a waker, so that the others wait in one call.

use crate::socket::Socket;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::io;
use std::os::fd::OwnedFd;

/// A thread that may sleep until something comes on its socket, or it is woken.
pub(crate) struct Waker(OwnedFd);

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(eventfd(0, flags)?))
    }

    /// Wakes the thread, or lets it not sleep the next time.
    pub(crate) fn wake(&self) {
        // It fails only where it has been woken for longer than anybody can count.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Waits until something has come on the socket; false if it was woken before.
    pub(crate) fn wait(&self, socket: &Socket) -> io::Result<bool> {
        let come = PollFlags::IN;
        let mut both = [
            PollFd::from_borrowed_fd(socket.descriptor(), come),
            PollFd::new(&self.0, come),
        ];
        poll(&mut both, None)?;
        let is_woken = !both[1].revents().is_empty();
        if is_woken {
            rustix::io::read(&self.0, &mut [0; 8])?;
        }
        Ok(!is_woken)
    }
}
