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

use crate::database::{Core, Database};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::partition::{Partition, Seat};
use crate::session::Manner;
use crate::sync::MutexGuard;
use pmem::ProcessMark;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use storage::StorageError;

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

impl Database {
    /// This database with the thread that marks it, if it is to be marked. Where no thread can be had, what else writes marks has to do.
    pub(crate) fn with_marking(mut self, options: &Options) -> Self {
        if !self.core.has_marks {
            return self;
        }
        let interval = options.mark_interval.unwrap_or(MARK_INTERVAL);
        let (core, (handles, end)) = (Arc::clone(&self.core), channel());
        let thread = Builder::new().name("marks".to_owned());
        self.marking = Some(Arc::new(Marking {
            handles: Some(handles),
            thread: thread.spawn(move || core.run_marks(interval, &end)).ok(),
            process: self.core.process,
        }));
        self
    }
}

/// The error of a mark that a log has no room for, or of a partition that is stopped. A mark that some logs lack is none.
pub(crate) fn unmarked(partition: u32, error: StorageError) -> Error {
    if error.is_statement_error() {
        Error::Unmarked {
            partition,
            cause: error.to_string(),
        }
    } else {
        error.into()
    }
}

impl Core {
    /// Whether a mark is of use.
    pub(crate) fn wants_mark(&self) -> bool {
        self.has_marks && self.partitions.iter().any(Partition::is_unmarked)
    }

    /// Marks the end, through a seat of each partition: nobody else has the database any more.
    pub(crate) fn mark_last(&self, seats: &mut [MutexGuard<'_, Seat>]) -> Result<()> {
        if !self.wants_mark() {
            return Ok(());
        }
        let number = self.commits.next_transaction()?;
        for (partition, seat) in (0..).zip(seats) {
            let marked = seat.engine.mark(number);
            marked.map_err(|error| unmarked(partition, error))?;
        }
        Ok(())
    }

    /// Writes a mark now and then, as a thread of its own.
    fn run_marks(&self, interval: Duration, end: &Receiver<()>) {
        let mut wait_limit = FIRST_WAIT;
        let mut pause = interval;
        while end.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            if !self.wants_mark() {
                continue;
            }
            let manner = Manner {
                wait_limit,
                ..self.manner
            };
            let start = Instant::now();
            // A checkpoint, a backup of pages and the end of the database try again, and say why they cannot.
            let marked = self.hold_all(manner).and_then(|mut all| all.mark());
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
}
