//! Waits for a client: first awake, then asleep.
//!
//! A client often sends its next statement within microseconds of an answer. To wake a thread that
//! sleeps in a read costs more than that, so the thread polls the socket for a while. It does so
//! only while a core is free for the client, and not on connections whose last polls were in vain;
//! a connection whose client answers quickly once more begins again.

use crate::socket::Socket;
use crate::waker::Waker;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The longest time for which a thread polls.
const POLL_MAX: Duration = Duration::from_micros(100);
/// Polls in vain after which a connection sleeps at once.
const IN_VAIN_MAX: u32 = 8;

/// The threads of connections that are awake.
pub(crate) struct Awake {
    threads: AtomicUsize,
    /// Most threads that may poll or run for one of them to poll; 0 if none does.
    threads_max: usize,
}

impl Awake {
    /// Lets threads poll while so many cores are not all busy, or never.
    pub(crate) fn new(polls: bool) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            threads: AtomicUsize::new(0),
            threads_max: if polls { cores - 1 } else { 0 },
        }
    }
}

/// The waits of a connection. Its thread is awake, unless it is in [`Waits::read`].
pub(crate) struct Waits {
    awake: Arc<Awake>,
    in_vain: u32,
}

impl Waits {
    pub(crate) fn new(awake: &Arc<Awake>) -> Self {
        awake.threads.fetch_add(1, Ordering::Relaxed);
        Self {
            awake: Arc::clone(awake),
            in_vain: 0,
        }
    }

    /// Reads what comes next; none if the waker has woken the thread before.
    pub(crate) fn read(
        &mut self,
        socket: &Socket,
        waker: Option<&Waker>,
        buffer: &mut [u8],
    ) -> io::Result<Option<usize>> {
        if self.in_vain < IN_VAIN_MAX
            && self.awake.threads.load(Ordering::Relaxed) <= self.awake.threads_max
        {
            let start = Instant::now();
            while start.elapsed() < POLL_MAX {
                match socket.read_now(buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        std::hint::spin_loop();
                    }
                    come => {
                        self.in_vain = 0;
                        return come.map(Some);
                    }
                }
            }
            self.in_vain += 1;
        }
        let start = Instant::now();
        self.awake.threads.fetch_sub(1, Ordering::Relaxed);
        let come = match waker {
            None => socket.read(buffer).map(Some),
            Some(waker) => waker.wait(socket).and_then(|has_come| {
                let come = has_come.then(|| socket.read_now(buffer));
                come.transpose()
            }),
        };
        self.awake.threads.fetch_add(1, Ordering::Relaxed);
        if start.elapsed() < POLL_MAX {
            self.in_vain = 0;
        }
        come
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.awake.threads.fetch_sub(1, Ordering::Relaxed);
    }
}
