//! Ctrl-C while a statement runs.
//!
//! Python's own handler of SIGINT only remembers the signal, and nobody looks while a statement
//! runs without the interpreter's lock. So another handler stands before it: it writes a byte to a
//! pipe and calls Python's. A thread that waits at the pipe raises the interrupt of the statement
//! that the main thread runs; taking a lock for that is allowed there, and would not be in a
//! handler.
//!
//! ```text
//! SIGINT -> handle -> pipe -> watch -> Interrupt::raise
//!                \-> Python's handler, and KeyboardInterrupt when the call returns
//! ```
//!
//! A statement on one row takes less time than the system call that would put the handler in its
//! place. So it stays there between statements, and the thread puts it back during a statement that
//! takes long, if Python has been given another one meanwhile. The thread looks at the clock only
//! while statements run; a second after the last one it sleeps.
//!
//! Where SIGINT is ignored, or has no handler, nothing is changed.

use indelible::Interrupt;
use pmem::ProcessStamp;
use std::ffi::{c_int, c_short};
use std::io::{PipeReader, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Milliseconds between two looks while statements run.
const TICK_MS: c_int = 20;
/// Looks without a statement before the thread sleeps.
const IDLE_TICKS: u32 = 50;

/// The connection that the main thread has called last: its number and its interrupt.
static CALLED: Mutex<Option<(u64, Interrupt)>> = Mutex::new(None);
/// The same number.
static CALLED_NUMBER: AtomicU64 = AtomicU64::new(0);
/// Whether that call goes on.
static IS_RUNNING: AtomicBool = AtomicBool::new(false);
/// Calls so far.
static CALLS: AtomicU64 = AtomicU64::new(0);
/// Whether a signal has come that the thread has not handled yet.
static IS_SIGNALLED: AtomicBool = AtomicBool::new(false);
/// Whether the thread sleeps until a byte wakes it.
static IS_ASLEEP: AtomicBool = AtomicBool::new(false);
/// The end of the pipe that the handler writes to.
static PIPE: AtomicI32 = AtomicI32::new(-1);
/// Python's handler.
static BEFORE: AtomicUsize = AtomicUsize::new(0);

type Handler = extern "C" fn(c_int);

/// For its lifetime a SIGINT ends the statement.
pub(crate) struct InterruptScope {
    /// The call around this one, which has called a function of Python.
    outer: Option<(u64, Interrupt)>,
}

impl InterruptScope {
    /// In the main thread only: signals are Python's business there. `number` is the connection's.
    pub(crate) fn new(number: u64, interrupt: &Interrupt) -> Option<Self> {
        if !is_main_thread() {
            return None;
        }
        let is_inside = IS_RUNNING.load(Ordering::Relaxed);
        let outer = is_inside.then(|| called().clone()).flatten();
        if CALLED_NUMBER.load(Ordering::Relaxed) != number {
            call_from(number, interrupt.clone());
        }
        IS_RUNNING.store(true, Ordering::Relaxed);
        CALLS.fetch_add(1, Ordering::SeqCst);
        if IS_ASLEEP.load(Ordering::SeqCst) {
            wake();
        }
        Some(Self { outer })
    }
}

impl Drop for InterruptScope {
    fn drop(&mut self) {
        IS_RUNNING.store(self.outer.is_some(), Ordering::Release);
        // An interrupt that comes late would end the next statement.
        while IS_SIGNALLED.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        if let Some((number, interrupt)) = self.outer.take() {
            call_from(number, interrupt);
        }
    }
}

fn called() -> MutexGuard<'static, Option<(u64, Interrupt)>> {
    CALLED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn call_from(number: u64, interrupt: Interrupt) {
    *called() = Some((number, interrupt));
    CALLED_NUMBER.store(number, Ordering::Relaxed);
}

/// Begins to watch for signals, once a process.
pub(crate) fn start() {
    static STARTED: Mutex<Option<ProcessStamp>> = Mutex::new(None);
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if started.is_some_and(ProcessStamp::is_here) {
        return;
    }
    let Ok((reader, writer)) = std::io::pipe() else {
        return;
    };
    for end in [reader.as_raw_fd(), writer.as_raw_fd()] {
        // SAFETY: the handle is open. A full pipe must not stop the handler.
        unsafe { libc::fcntl(end, libc::F_SETFL, libc::O_NONBLOCK) };
    }
    let thread = std::thread::Builder::new().name("indelible-ctrl-c".to_owned());
    if thread.spawn(move || watch(reader)).is_ok() {
        PIPE.store(writer.into_raw_fd(), Ordering::Release);
        *started = Some(ProcessStamp::new());
        stand_first();
    }
}

/// Puts the handler before Python's, unless it is there.
fn stand_first() {
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action this only writes the one in force.
    if unsafe { libc::sigaction(libc::SIGINT, std::ptr::null(), before.as_mut_ptr()) } != 0 {
        return;
    }
    // SAFETY: the call has written it, and zeros were a value before.
    let mut action = unsafe { before.assume_init() };
    let ours = handle as Handler as usize;
    let is_plain = action.sa_flags & libc::SA_SIGINFO == 0;
    if !is_plain || [libc::SIG_DFL, libc::SIG_IGN, ours].contains(&action.sa_sigaction) {
        return;
    }
    BEFORE.store(action.sa_sigaction, Ordering::Release);
    action.sa_sigaction = ours;
    // SAFETY: the handler writes to a pipe and calls the one that was there, which is all that a
    // handler may do.
    unsafe { libc::sigaction(libc::SIGINT, &raw const action, std::ptr::null_mut()) };
}

extern "C" fn handle(signal: c_int) {
    // Without a statement there is nothing to end, and nobody waits for the thread.
    if IS_RUNNING.load(Ordering::Acquire) {
        IS_SIGNALLED.store(true, Ordering::Release);
        wake();
    }
    let before = BEFORE.load(Ordering::Acquire);
    // SAFETY: it was stored before this handler was installed, and is a handler without further
    // arguments, as the flags of its action said.
    let before = unsafe { std::mem::transmute::<usize, Handler>(before) };
    before(signal);
}

/// Writes a byte to the pipe, which the handler may do.
fn wake() {
    let byte = 0_u8;
    // SAFETY: one byte is there. A pipe that is full loses nothing, as one byte is enough.
    unsafe { libc::write(PIPE.load(Ordering::Acquire), (&raw const byte).cast(), 1) };
}

fn is_main_thread() -> bool {
    thread_local! {
        // SAFETY: both calls only return numbers.
        static IS_MAIN: bool = unsafe { libc::syscall(libc::SYS_gettid) } == i64::from(std::process::id());
    }
    IS_MAIN.with(|is_main| *is_main)
}

fn watch(mut pipe: PipeReader) {
    let (mut seen, mut idle_ticks) = (0, 0);
    loop {
        let is_idle = idle_ticks >= IDLE_TICKS;
        IS_ASLEEP.store(is_idle, Ordering::SeqCst);
        // A call that came before the line above did not see that a byte is needed.
        let is_asleep = is_idle && CALLS.load(Ordering::SeqCst) == seen;
        wait(&pipe, if is_asleep { -1 } else { TICK_MS });
        let _ = pipe.read(&mut [0; 64]);
        if IS_SIGNALLED.load(Ordering::Acquire) {
            if IS_RUNNING.load(Ordering::Acquire)
                && let Some((_, interrupt)) = &*called()
            {
                interrupt.raise();
            }
            IS_SIGNALLED.store(false, Ordering::Release);
        }
        let calls = CALLS.load(Ordering::SeqCst);
        let is_running = IS_RUNNING.load(Ordering::Acquire);
        if is_running && calls == seen {
            stand_first();
        }
        idle_ticks = if calls == seen && !is_running {
            idle_ticks.saturating_add(1)
        } else {
            0
        };
        seen = calls;
    }
}

/// Waits for a byte, at most so many milliseconds; without a limit if they are negative.
fn wait(pipe: &PipeReader, limit_ms: c_int) {
    let mut poll = libc::pollfd {
        fd: pipe.as_raw_fd(),
        events: c_short::from(libc::POLLIN),
        revents: 0,
    };
    // SAFETY: there is one structure, and it stays during the call.
    unsafe { libc::poll(&raw mut poll, 1, limit_ms) };
}
