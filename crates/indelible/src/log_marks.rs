//! Marks: moments that the logs of all partitions know, so that archives of several partitions can
//! be replayed up to one of them.
//!
//! Each partition has a log and an archive of its own, with its own end. A transaction that reads
//! in one partition and writes in another leaves no record of the dependency, so no records tell up
//! to which point the archives are consistent with each other. A mark does. It is written to every
//! log by a session that holds all partitions, when no transaction is open. The records before it
//! in all logs are one moment of the database.
//!
//! Marks are written by a requested checkpoint, a backup of pages and an orderly end. On real
//! devices a thread writes them too, every second or as `Options::mark_interval` says. They are
//! written only if something has changed since the last mark, and only in databases of several
//! partitions with archives. Nobody waits for a mark to be durable: it counts when all archives
//! have it, and they have durable records only.
//!
//! The thread waits for a partition only briefly, since threads that arrive after it wait as well.
//! Its limit is twice the time of the last mark, or twice the last limit if none was made, but at
//! least 20 ms and at most a second. So no transaction waits long for a mark, and no mark is
//! written during a long transaction. Numbers of marks are never used twice, because a crash may
//! have left a mark in some logs only.
//!
//! The thread has the database open. It ends before the last handle is dropped, so that dropping
//! that handle closes the database.

use crate::core::Core;
use crate::lock_policy::LockPolicy;
use crate::session::Session;
use pmem::ProcessStamp;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Interval of marks unless an option says otherwise.
pub(crate) const MARK_INTERVAL: Duration = Duration::from_secs(1);
/// Waits of the thread for a partition: the first and shortest one, and the longest.
const FIRST_WAIT: Duration = Duration::from_millis(20);
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// After a failed wait it pauses this many times as long.
const PAUSE_OF_WAITS: u32 = 20;

/// The thread that writes marks, as long as there are handles on the database.
pub(crate) struct Marking {
    /// Nothing is sent: the thread ends when this is dropped.
    handles: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    process: ProcessStamp,
}

impl Marking {
    /// Starts the thread, if the database is to be marked. If no thread can be started,
    /// checkpoints, backups and the end write the marks.
    pub(crate) fn start(core: &Arc<Core>, interval: Duration) -> Option<Arc<Self>> {
        if !core.has_marks {
            return None;
        }
        let process = core.process;
        let (core, (handles, end)) = (Arc::clone(core), channel());
        let thread = Builder::new().name("marks".to_owned());
        Some(Arc::new(Self {
            handles: Some(handles),
            thread: thread.spawn(move || run(&core, interval, &end)).ok(),
            process,
        }))
    }
}

impl Drop for Marking {
    fn drop(&mut self) {
        if !self.process.is_here() {
            // A forked child has no such thread.
            std::mem::forget((self.handles.take(), self.thread.take()));
        }
        self.handles = None;
        if let Some(thread) = self.thread.take() {
            // If it has panicked, only marks are missing.
            let _ = thread.join();
        }
    }
}

/// Writes a mark now and then, in a thread of its own.
fn run(core: &Core, interval: Duration, end: &Receiver<()>) {
    let mut wait_limit = FIRST_WAIT;
    let mut pause = interval;
    while end.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        if !core.wants_mark() {
            continue;
        }
        let lock_policy = LockPolicy {
            wait_limit,
            ..core.lock_policy
        };
        let start = Instant::now();
        // A checkpoint, a backup of pages and the end of the database try again, and report a
        // failure.
        let marked = Session::hold_all(core, lock_policy).and_then(|mut all| all.mark());
        let usual = if marked.is_ok() {
            start.elapsed()
        } else {
            wait_limit
        };
        wait_limit = (usual * 2).clamp(FIRST_WAIT, LONGEST_WAIT);
        // While it waits for a long transaction, it keeps others out of the partitions that it
        // holds.
        pause = if marked.is_ok() {
            interval
        } else {
            interval.max(wait_limit * PAUSE_OF_WAITS)
        };
    }
}
