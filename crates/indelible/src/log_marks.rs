//! Marks: moments that the logs of all partitions know, so that archives of several partitions can be repeated up to one of them.
//!
//! Each partition has a log and an archive of its own, which end where they end. A transaction that has read in one partition and written in another leaves no
//! record of that, so no records tell up to where the archives fit together. A mark does: it gets into every log while somebody holds
//! all partitions, when no transaction is open. What is in front of it in all logs is one moment of the database.
//!
//! Marks are written by a checkpoint that somebody asks for, a backup of pages and an orderly end, and on real devices by a thread, every second or as
//! `Options::mark_interval` says; only if something has changed since the mark before, and in databases of several partitions with archives.
//! Nobody waits for a mark to be durable: it counts when all archives have it, and they have only what is durable.
//!
//! The thread waits for the partitions a moment only: twice as long as it took the last time, or as was in vain, since those who come meanwhile wait as well. So no transaction
//! waits long for a mark, and there is none while one goes on that is long. The numbers of marks are never used twice: of one that a crash has left in some logs
//! only there is no other half.
//!
//! The thread has the database open. It ends before the last handle goes, so that the database is closed when that is gone.

use crate::core::Core;
use crate::lock_policy::LockPolicy;
use crate::session::Session;
use pmem::ProcessMark;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// How often a mark is written where nothing else is asked for.
pub(crate) const MARK_INTERVAL: Duration = Duration::from_secs(1);
/// Waits of the thread for a partition: the first and shortest one, and the longest.
const FIRST_WAIT: Duration = Duration::from_millis(20);
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// It pauses so many times as long as a wait was that has failed.
const PAUSE_OF_WAITS: u32 = 20;

/// The thread that writes marks, as long as there are handles on the database.
pub(crate) struct Marking {
    /// Nothing is sent: the thread ends when this is gone.
    handles: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    process: ProcessMark,
}

impl Marking {
    /// The thread, if the database is to be marked. Where no thread can be had, what else writes marks has to do.
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
            // One that has panicked marks nothing any more, which is all that it does.
            let _ = thread.join();
        }
    }
}

/// Writes a mark now and then, as a thread of its own.
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
        // A checkpoint, a backup of pages and the end of the database try again, and say why they cannot.
        let marked = Session::hold_all(core, lock_policy).and_then(|mut all| all.mark());
        let usual = if marked.is_ok() {
            start.elapsed()
        } else {
            wait_limit
        };
        wait_limit = (usual * 2).clamp(FIRST_WAIT, LONGEST_WAIT);
        // Who waits for a long transaction keeps others from those that it has already.
        pause = if marked.is_ok() {
            interval
        } else {
            interval.max(wait_limit * PAUSE_OF_WAITS)
        };
    }
}
