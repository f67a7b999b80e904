//! Threads that write blocks of files past the page cache, several in parallel: a device that takes
//! many requests together answers them in the time of a few.
//!
//! ```text
//! write_all: copies into aligned blocks ──► queue ──► up to THREADS threads, and the caller itself
//!                                                     ──► the first error, if any
//! ```
//!
//! The threads are started by the first list of writes, and end with the last handle of their
//! directory. None is required: if the system gives none, the caller does everything.

use crate::blocks::Blocks;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// Threads beside the one that waits.
const THREADS: usize = 15;
/// Most buffers that are kept for the next list.
const SPARE_MAX: usize = 128;

/// The threads of one directory.
#[derive(Debug, Default)]
pub(crate) struct IoThreads {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// There is a job, or none will come any more.
    wanted: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    spare: Vec<Blocks>,
    is_ended: bool,
}

/// One write.
#[derive(Debug)]
struct Job {
    file: Arc<File>,
    offset: u64,
    blocks: Blocks,
    list: Arc<List>,
}

/// Writes that a caller waits for.
#[derive(Debug)]
struct List {
    state: Mutex<ListState>,
    done: Condvar,
}

#[derive(Debug)]
struct ListState {
    left: usize,
    outcome: io::Result<()>,
}

impl IoThreads {
    /// Writes whole blocks, in any order and some in parallel. They may be adjacent, but must not
    /// overlap. After an error any part of them is written.
    pub(crate) fn write_all(&self, file: &Arc<File>, writes: &[(u64, &[u8])]) -> io::Result<()> {
        self.start();
        let list = Arc::new(List {
            state: Mutex::new(ListState {
                left: writes.len(),
                outcome: Ok(()),
            }),
            done: Condvar::new(),
        });
        for &(offset, data) in writes {
            let mut blocks = lock(&self.shared.queue).spare.pop().unwrap_or_default();
            blocks.fill_with(data);
            let job = Job {
                file: Arc::clone(file),
                offset,
                blocks,
                list: Arc::clone(&list),
            };
            lock(&self.shared.queue).jobs.push_back(job);
            self.shared.wanted.notify_one();
        }
        while let Some(job) = self.shared.next_now() {
            self.shared.write(job);
        }
        let mut state = lock(&list.state);
        while state.left > 0 {
            let woken = list.done.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::replace(&mut state.outcome, Ok(()))
    }

    /// Starts the threads, once.
    fn start(&self) {
        let mut threads = lock(&self.threads);
        if !threads.is_empty() {
            return;
        }
        for number in 0..THREADS {
            let shared = Arc::clone(&self.shared);
            let thread = Builder::new().name(format!("page-writer-{number}"));
            let work = move || {
                while let Some(job) = shared.next() {
                    shared.write(job);
                }
            };
            threads.extend(thread.spawn(work));
        }
    }
}

impl Drop for IoThreads {
    fn drop(&mut self) {
        lock(&self.shared.queue).is_ended = true;
        self.shared.wanted.notify_all();
        for thread in lock(&self.threads).drain(..) {
            // If it has panicked, a caller that waited for its write would wait for ever; none is
            // left here.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// The next write, if there is one now.
    fn next_now(&self) -> Option<Job> {
        lock(&self.queue).jobs.pop_front()
    }

    /// The next write, when there is one; none at the end.
    fn next(&self) -> Option<Job> {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.is_ended {
                return None;
            }
            let woken = self.wanted.wait(queue);
            queue = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn write(&self, job: Job) {
        let written = job.file.write_all_at(job.blocks.bytes(), job.offset);
        let mut queue = lock(&self.queue);
        if queue.spare.len() < SPARE_MAX {
            queue.spare.push(job.blocks);
        }
        drop(queue);
        let mut state = lock(&job.list.state);
        state.left -= 1;
        if state.outcome.is_ok() {
            state.outcome = written;
        }
        if state.left == 0 {
            job.list.done.notify_one();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned lock is usable: the data under these locks is consistent at every moment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::IoThreads;
    use std::fs::{self, OpenOptions};
    use std::sync::Arc;

    const BLOCK: usize = 4096;

    #[test]
    fn lists_of_several_threads_are_written_whole_and_an_error_is_told() {
        let path = std::env::temp_dir().join(format!("io_threads-{}", std::process::id()));
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(true).write(true).open(&path);
        let file = Arc::new(file.unwrap());
        let io_threads = IoThreads::default();
        std::thread::scope(|scope| {
            for thread in 0..4_usize {
                let (io_threads, file) = (&io_threads, &file);
                scope.spawn(move || {
                    for round in 0..20_usize {
                        let number = |page: usize| (page * 4 + thread) * BLOCK;
                        let pages: Vec<_> = (0..30_usize)
                            .map(|page| vec![(1 + thread + page + round) as u8; BLOCK])
                            .collect();
                        let writes = pages.iter().enumerate();
                        let writes: Vec<_> = writes
                            .map(|(page, bytes)| (number(page) as u64, &bytes[..]))
                            .collect();
                        io_threads.write_all(file, &writes).unwrap();
                    }
                });
            }
        });
        let content = fs::read(&path).unwrap();
        assert_eq!(content.len(), 120 * BLOCK);
        for (number, page) in content.chunks(BLOCK).enumerate() {
            let wanted = (1 + number % 4 + number / 4 + 19) as u8;
            assert!(page.iter().all(|&byte| byte == wanted), "page {number}");
        }
        let unwritable = Arc::new(fs::File::open(&path).unwrap());
        let page = [0; BLOCK];
        assert!(
            io_threads
                .write_all(&unwritable, &[(0, &page[..]), (4096, &page[..])])
                .is_err()
        );
        io_threads.write_all(&file, &[(0, &page[..])]).unwrap();
        drop(io_threads);
        fs::remove_file(&path).unwrap();
    }
}
