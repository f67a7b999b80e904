//! A partition with the threads that help its sessions.
//!
//! One cleans pages before their frames are needed, and one writes checkpoints before sessions have
//! to wait for them (`checkpointer`). Where pages stay in an area of durable memory, a few bring
//! them home (`buffer/guard/page_cache.rs`). One makes commits durable that nobody waits for, so
//! that a process that dies loses no more than the commits of a moment. Where pages go past the
//! operating system's cache, a few fetch the next pages of scans (`buffer/fetcher.rs`). Where
//! records of rings wait for a commit, one makes them durable ahead of it (`buffer/ahead.rs`). None
//! is a duty: where a thread cannot be had, or has found a medium full, sessions do the work. A
//! durable step that fails in a thread stops the partition, as one of a session does: all sessions
//! are told that it is stopped, and why.
//!
//! After a crash one undoes unfinished transactions (`unfinished`), and one redoes pages that
//! nobody has asked for (`buffer/pending_redo.rs`).
//!
//! All sessions share the partition. When the last one goes, the threads end first and then the
//! shared state, so the files are closed and the log is ended in order by the time that the engine
//! is dropped.

use super::shared::Shared;
use crate::buffer::fetcher::FETCHERS;
use pmem::Access;
use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use storage::Platform;
use storage::engine::{AfterCrash, Cleaning, Daemon, EngineOptions};

/// Commits that nobody waits for are durable after at most twice this time, and the time of a sync.
const DELAY: Duration = Duration::from_millis(100);

/// A partition that is open.
pub(super) struct Running<P: Platform> {
    shared: Arc<Shared<P>>,
    threads: Vec<JoinHandle<()>>,
    end: Arc<End>,
}

/// Whether the threads are to end.
#[derive(Default)]
struct End {
    is_now: Mutex<bool>,
    changed: Condvar,
}

impl End {
    fn set(&self) {
        *self.is_now.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    fn is_set(&self) -> bool {
        *self.is_now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps for a time, or until the end, and says whether it is that.
    fn wait(&self, time: Duration) -> bool {
        let is_now = self.is_now.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .changed
            .wait_timeout_while(is_now, time, |is_now| !*is_now);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl<P: Platform> Running<P> {
    pub(super) fn start(shared: Shared<P>, options: &EngineOptions) -> Self {
        let mut running = Self {
            shared: Arc::new(shared),
            threads: Vec::new(),
            end: Arc::default(),
        };
        if options.cleaning == Cleaning::InBackground && options.access == Access::Write {
            let partition = options.partition;
            running.spawn(format!("cleaner-{partition}"), |shared, _| {
                if let Err(error) = shared.pages.pool.clean() {
                    shared.stop(&error);
                }
            });
            running.spawn(format!("log-writer-{partition}"), write_behind);
            running.spawn(format!("checkpointer-{partition}"), |shared, _| {
                shared.run_checkpoints();
            });
            for number in 0..running.shared.pages.pool.readers().write_back().threads() {
                running.spawn(format!("write-back-{partition}-{number}"), |shared, _| {
                    if let Err(error) = shared.pages.pool.readers().write_back().run() {
                        shared.stop(&error);
                    }
                });
            }
        }
        if options.undoing == AfterCrash::InBackground && running.shared.unfinished.is_any() {
            running.spawn(format!("undo-{}", options.partition), undo_unfinished);
        }
        if options.redoing == AfterCrash::InBackground
            && running.shared.pages.pool.has_pending_redo()
        {
            running.spawn(format!("redo-{}", options.partition), catch_up);
        }
        if options.cleaning == Cleaning::InBackground
            && running.shared.pages.pool.readers().are_direct()
        {
            for number in 0..FETCHERS {
                let name = format!("fetcher-{}-{number}", options.partition);
                running.spawn(name, |shared, _| shared.pages.pool.fetch());
            }
        }
        if options.daemon == Daemon::Thread && running.shared.pages.pool.log().persists_ahead() {
            running.spawn(format!("log-daemon-{}", options.partition), |shared, _| {
                shared.pages.pool.log().run_ahead();
                shared.stop_with_log();
            });
        }
        if options.daemon == Daemon::Thread
            && options.access == Access::Write
            && running.shared.pages.pool.log().archive_watch().is_some()
        {
            let name = format!("log-archiver-{}", options.partition);
            running.spawn(name, |shared, _| shared.pages.pool.log().run_cold());
        }
        running
    }

    fn spawn(&mut self, name: String, work: fn(&Shared<P>, &End)) {
        let (shared, end) = (Arc::clone(&self.shared), Arc::clone(&self.end));
        let thread = Builder::new().name(name);
        self.threads
            .extend(thread.spawn(move || work(&shared, &end)));
    }
}

/// Undoes the transactions that the opening has found unfinished. The next opening finds the rest
/// again.
fn undo_unfinished<P: Platform>(shared: &Shared<P>, end: &End) {
    while !end.is_set() && matches!(shared.undo_unfinished_step(), Ok(true)) {}
}

/// Redoes pages that nobody has asked for. The next opening finds the rest again.
fn catch_up<P: Platform>(shared: &Shared<P>, end: &End) {
    while !end.is_set() && matches!(shared.catch_up_step(), Ok(true)) {}
}

/// Makes commits durable that nobody waits for. While others sync the log, theirs are durable as
/// well.
fn write_behind<P: Platform>(shared: &Shared<P>, end: &End) {
    let mut seen = shared.durable();
    while !end.wait(DELAY) {
        let durable = shared.durable();
        if durable == seen && shared.newest() > durable && shared.sync_log().is_err() {
            return;
        }
        seen = shared.durable();
    }
}

impl<P: Platform> Deref for Running<P> {
    type Target = Shared<P>;

    #[inline]
    fn deref(&self) -> &Shared<P> {
        &self.shared
    }
}

impl<P: Platform> Drop for Running<P> {
    fn drop(&mut self) {
        self.end.set();
        self.shared.checkpointer.end();
        self.shared.pages.pool.end_cleaning();
        self.shared.pages.pool.end_fetching();
        self.shared.pages.pool.readers().write_back().end();
        self.shared.pages.pool.log().end_ahead();
        for thread in self.threads.drain(..) {
            // If it has panicked, sessions have done its work.
            let _ = thread.join();
        }
    }
}
