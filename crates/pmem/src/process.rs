//! Whether this is still the process that made a value, or a child forked from it.
//!
//! A forked child has copies of all handles but none of the threads, and the locks are as they
//! were in the middle of another thread's work; files, their locks and mapped memory are shared
//! with the parent. So nothing durable may be used there, nor closed. A process has a number in a
//! page that the kernel clears in a child (`MADV_WIPEONFORK`, since Linux 4.14), so a stamp
//! compares two words and makes no system call. Where the kernel does not know this advice, a
//! handler that the C library calls in the child clears the number, which a `fork` past that
//! library would miss.
//!
//! Invariant: a stamp is here only in the process that has made it, in all of its threads. A child
//! that makes stamps gets a number of its own, which no ancestor has had. A program that is
//! executed begins anew.

use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of this process, and the next one: a child continues from its parent's.
static NUMBER: OnceLock<&'static AtomicU64> = OnceLock::new();
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Of a process that has no number yet.
const NONE: u64 = 0;
/// The exit code of a child whose work has panicked.
const PANICKED: u8 = 101;

/// Remembers the process that has made it.
#[derive(Clone, Copy, Debug)]
pub struct ProcessStamp {
    current: &'static AtomicU64,
    number: u64,
}

impl ProcessStamp {
    /// A stamp of this process.
    pub fn new() -> Self {
        let current = *NUMBER.get_or_init(cleared_in_children);
        let next = NEXT.fetch_add(1, Relaxed);
        let number = match current.compare_exchange(NONE, next, Relaxed, Relaxed) {
            Ok(_) => next,
            Err(number) => number,
        };
        Self { current, number }
    }

    /// Whether this is the process that has made it. One load.
    #[inline]
    pub fn is_here(self) -> bool {
        self.current.load(Relaxed) == self.number
    }
}

impl Default for ProcessStamp {
    fn default() -> Self {
        Self::new()
    }
}

/// A word that is [`NONE`] at first, and again in each child.
fn cleared_in_children() -> &'static AtomicU64 {
    static WITHOUT_PAGE: AtomicU64 = AtomicU64::new(NONE);
    // SAFETY: the handler stores one word, which is allowed whatever other threads were doing when
    // the process was forked.
    let handler = unsafe { libc::pthread_atfork(None, None, Some(clear)) };
    debug_assert_eq!(handler, 0, "there is memory for a handler");
    let bytes = rustix::param::page_size();
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses the address, so nothing that exists is replaced.
    let page = unsafe {
        rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE)
    };
    let Ok(page) = page else {
        return &WITHOUT_PAGE;
    };
    // An older kernel refuses, and then there is the handler. SAFETY: the page was mapped just now
    // and nobody knows it yet; what a child loses is the number alone.
    let _ = unsafe { rustix::mm::madvise(page, bytes, Advice::LinuxWipeOnFork) };
    // SAFETY: the page is aligned for a word, zeros, never unmapped, and reached through this word
    // only.
    unsafe { AtomicU64::from_ptr(page.cast()) }
}

/// Runs first in a child.
extern "C" fn clear() {
    if let Some(number) = NUMBER.get() {
        number.store(NONE, Relaxed);
    }
}

/// Forks, runs `work` in the child, which exits with the code that it returns (101 if it panics),
/// and waits for that code; it is negative if a signal has ended the child. For tests of a child's
/// actions: it has this thread alone, and locks that other threads held stay locked there.
///
/// # Errors
/// No process can be started.
pub fn run_forked(work: impl FnOnce() -> u8) -> io::Result<i32> {
    // SAFETY: what the child runs is safe code, which has copies of everything; that locks may stay
    // locked is said above.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = catch_unwind(AssertUnwindSafe(work)).unwrap_or(PANICKED);
        // SAFETY: ends the process at once, without the handlers that the parent has registered for
        // its own end.
        unsafe { libc::_exit(code.into()) }
    }
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut status = 0;
    loop {
        // SAFETY: the status is written to a number of this function's own.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        if waited == child {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    if libc::WIFEXITED(status) {
        Ok(libc::WEXITSTATUS(status))
    } else {
        Ok(-libc::WTERMSIG(status))
    }
}

#[cfg(test)]
mod tests {
    use super::{ProcessStamp, run_forked};

    #[test]
    fn a_stamp_is_here_in_its_process_only() {
        let stamp = ProcessStamp::new();
        std::thread::spawn(move || assert!(stamp.is_here()))
            .join()
            .unwrap();
        let code = run_forked(|| {
            let strange = stamp.is_here();
            let own = ProcessStamp::new();
            // A stamp of the child is one of its children's no more than of its parent's.
            let inherited = run_forked(|| u8::from(own.is_here())).unwrap_or(-1);
            u8::from(strange || !own.is_here() || stamp.is_here() || inherited != 0)
        });
        assert_eq!(code.unwrap(), 0);
        assert!(stamp.is_here() && ProcessStamp::new().is_here());
        assert_eq!(run_forked(|| panic!("on purpose")).unwrap(), 101);
    }

    #[test]
    fn the_handler_alone_clears_the_number() {
        let stamp = ProcessStamp::new();
        let code = run_forked(|| {
            let own = ProcessStamp::new();
            super::clear();
            u8::from(own.is_here() || stamp.is_here())
        });
        assert_eq!(code.unwrap(), 0);
    }
}
