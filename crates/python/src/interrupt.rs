//! Ctrl-C while a statement runs.
//!
//! Python's own handler of SIGINT only remembers the signal, and nobody looks while a statement
//! runs without the interpreter's lock. So for the time of a call of the main thread another
//! handler stands before it: it writes a byte to a pipe and calls Python's. A thread that waits at
//! the pipe raises the interrupt of the statement; taking a lock for that is allowed there, and
//! would not be in a handler.
//!
//! Where SIGINT is ignored, or has no handler, nothing is changed.

use indelible::Interrupt;
use std::ffi::c_int;
use std::io::{PipeReader, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// The interrupt of the statement that the main thread runs.
static RUNNING: Mutex<Option<Interrupt>> = Mutex::new(None);
/// The end of the pipe that the handler writes to.
static PIPE: AtomicI32 = AtomicI32::new(-1);
/// Python's handler.
static BEFORE: AtomicUsize = AtomicUsize::new(0);

type Handler = extern "C" fn(c_int);

/// For its lifetime a SIGINT ends the statement.
pub(crate) struct Guard {
    before: libc::sigaction,
}

impl Guard {
    /// In the main thread only: signals are Python's business there.
    pub(crate) fn new(interrupt: &Interrupt) -> Option<Self> {
        if !is_main_thread() {
            return None;
        }
        start_watching();
        let mut before = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: without a new action this only writes the one in force.
        if unsafe { libc::sigaction(libc::SIGINT, std::ptr::null(), before.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: the call has written it, and zeros were a value before.
        let before = unsafe { before.assume_init() };
        let is_plain = before.sa_flags & libc::SA_SIGINFO == 0;
        let none = [libc::SIG_DFL, libc::SIG_IGN];
        if !is_plain || none.contains(&before.sa_sigaction) {
            return None;
        }
        BEFORE.store(before.sa_sigaction, Ordering::Release);
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = Some(interrupt.clone());
        let mut ours = before;
        ours.sa_sigaction = handle as Handler as usize;
        // SAFETY: the handler writes to a pipe and calls the one that was there, which is all that
        // a handler may do.
        unsafe { libc::sigaction(libc::SIGINT, &raw const ours, std::ptr::null_mut()) };
        Some(Self { before })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // SAFETY: it is the action that was in force before.
        unsafe { libc::sigaction(libc::SIGINT, &raw const self.before, std::ptr::null_mut()) };
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

extern "C" fn handle(signal: c_int) {
    let byte = 0_u8;
    // SAFETY: one byte is there. A pipe that is full loses nothing, as one byte is enough.
    unsafe { libc::write(PIPE.load(Ordering::Acquire), (&raw const byte).cast(), 1) };
    let before = BEFORE.load(Ordering::Acquire);
    // SAFETY: it was stored before this handler was installed, and is a handler without further
    // arguments, as the flags of its action said.
    let before = unsafe { std::mem::transmute::<usize, Handler>(before) };
    before(signal);
}

fn is_main_thread() -> bool {
    thread_local! {
        // SAFETY: both calls only return numbers.
        static IS_MAIN: bool = unsafe { libc::syscall(libc::SYS_gettid) } == i64::from(std::process::id());
    }
    IS_MAIN.with(|is_main| *is_main)
}

fn start_watching() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let Ok((reader, writer)) = std::io::pipe() else {
            return;
        };
        // SAFETY: the handle is open. A full pipe must not stop the handler.
        unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        PIPE.store(writer.into_raw_fd(), Ordering::Release);
        let _ = std::thread::Builder::new()
            .name("indelible-ctrl-c".to_owned())
            .spawn(move || watch(reader));
    });
}

fn watch(mut pipe: PipeReader) {
    let mut byte = [0];
    while pipe.read_exact(&mut byte).is_ok() {
        let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(interrupt) = &*running {
            interrupt.raise();
        }
    }
}
