//! Goal: no order of threads grants conflicting locks to two owners, forgets a sleeper, or hides a
//! deadlock.
//!
//! Method: two or three threads, a few locks each, on the real code. `shuttle` runs one at a time
//! and chooses the next at every lock, signal and atomic access; half of the schedules are uniform,
//! half have few changes of thread at unlikely places. There is no time, so no search for a
//! deadlock is repeated: the search before the sleep has to find it, else all sleep, which fails
//! the test and prints the schedule. Where two partitions take part, transactions exchange their
//! sessions of the second one, as they do in a database.
//!
//! `cargo test -p storage --features schedules --lib schedule_tests`

use super::{KeyMode, LockManager, LockOptions, LockSession, Mode, Precedence, WaitGraph};
use crate::error::{Result, StorageError};
use crate::record::TableId;
use crate::sync::{Mutex, lock};
use crate::vocabulary::PageId;
use shuttle::thread::spawn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Schedules of each kind that a test tries.
const SCHEDULES: usize = 4_000;
/// Changes of thread that a schedule of the second kind has beyond those that waiting forces.
const CHANGES: usize = 3;
const TABLE: TableId = TableId(1);
const TREE: PageId = PageId(1);

fn explore(test: impl Fn() + Send + Sync + 'static) {
    let test = Arc::new(test);
    let same = Arc::clone(&test);
    shuttle::check_random(move || test(), SCHEDULES);
    shuttle::check_pct(move || same(), SCHEDULES, CHANGES);
}

/// Data that the locks protect: the number of its writers and readers. Threads are switched not
/// here, but at the steps around it.
#[derive(Default)]
struct Protected {
    writers: AtomicU64,
    readers: AtomicU64,
}

impl Protected {
    fn write(&self, between: impl FnOnce()) {
        assert_eq!(self.writers.fetch_add(1, Ordering::SeqCst), 0);
        assert_eq!(self.readers.load(Ordering::SeqCst), 0);
        between();
        assert_eq!(self.readers.load(Ordering::SeqCst), 0);
        assert_eq!(self.writers.fetch_sub(1, Ordering::SeqCst), 1);
    }

    fn read(&self, between: impl FnOnce()) {
        self.readers.fetch_add(1, Ordering::SeqCst);
        assert_eq!(self.writers.load(Ordering::SeqCst), 0);
        between();
        assert_eq!(self.writers.load(Ordering::SeqCst), 0);
        self.readers.fetch_sub(1, Ordering::SeqCst);
    }
}

type Work = fn(&mut LockSession, &Protected) -> Result<()>;

/// Runs each work in a thread and session of its own until it succeeds, twice, and looks whether
/// anything is left.
fn run(works: &[Work]) {
    let manager = LockManager::new(LockOptions {
        // Longer than any test, so that only signals end a wait.
        wait_limit: Duration::from_hours(1),
        ..LockOptions::default()
    });
    let protected = Arc::new(Protected::default());
    let threads: Vec<_> = works
        .iter()
        .map(|work| {
            let (mut session, protected, work) = (manager.session(), Arc::clone(&protected), *work);
            spawn(move || {
                for _ in 0..2 {
                    loop {
                        let result = work(&mut session, &protected);
                        session.end();
                        match result {
                            Ok(()) => break,
                            Err(
                                StorageError::Deadlock { .. } | StorageError::LockTimeout { .. },
                            ) => {
                                shuttle::thread::yield_now();
                            }
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no thread has failed");
    }
    assert_eq!((manager.heads(), manager.taken()), (0, 0));
    assert!(manager.queues.bucket(TREE).is_empty());
}

fn key(session: &mut LockSession, key: u64, mode: KeyMode) -> Result<()> {
    session.lock_key(TABLE, TREE, &[key], mode)
}

/// Lets others run.
fn pause() {
    shuttle::thread::yield_now();
}

fn write(session: &mut LockSession, protected: &Protected) -> Result<()> {
    key(session, 5, KeyMode::Exclusive)?;
    protected.write(pause);
    Ok(())
}

fn read(session: &mut LockSession, protected: &Protected) -> Result<()> {
    key(session, 5, KeyMode::Shared)?;
    protected.read(pause);
    Ok(())
}

fn read_range(session: &mut LockSession, protected: &Protected) -> Result<()> {
    session.lock_range(TABLE, TREE, &[0], &[9])?;
    protected.read(pause);
    Ok(())
}

fn update(session: &mut LockSession, protected: &Protected) -> Result<()> {
    key(session, 5, KeyMode::Update)?;
    write(session, protected)
}

#[test]
fn a_key_has_one_writer_or_readers() {
    explore(|| run(&[write, write, read]));
}

#[test]
fn conversions_exclude_each_other_and_readers() {
    explore(|| run(&[update, update, read]));
}

#[test]
fn a_range_and_a_key_in_it_exclude_each_other() {
    explore(|| run(&[write, update, read_range]));
}

#[test]
fn an_idle_intention_is_revoked_or_waited_for() {
    explore(|| {
        run(&[write, write, |session, protected| {
            session.lock_table(TABLE, Mode::Exclusive)?;
            protected.write(pause);
            Ok(())
        }]);
    });
}

#[test]
fn who_has_no_patience_leaves_nobody_behind() {
    explore(|| {
        run(&[write, read_range, |session, protected| {
            session.set_wait_limit(Duration::ZERO);
            write(session, protected)
        }]);
    });
}

fn two(session: &mut LockSession, protected: &Protected, keys: [u64; 2]) -> Result<()> {
    key(session, keys[0], KeyMode::Exclusive)?;
    key(session, keys[1], KeyMode::Exclusive)?;
    protected.read(pause);
    Ok(())
}

#[test]
fn a_transaction_with_precedence_is_never_undone() {
    let test = || {
        run(&[
            |session, protected| {
                session.set_precedence(Precedence::First);
                let done = two(session, protected, [1, 2]);
                assert!(done.is_ok(), "{done:?}");
                done
            },
            |session, protected| two(session, protected, [2, 3]),
            |session, protected| two(session, protected, [3, 1]),
        ]);
    };
    // Fair schedules only: the other threads try again at once, and with fixed priorities one of
    // them could do so for ever. A database makes them wait for their turn.
    shuttle::check_random(test, SCHEDULES);
}

#[test]
fn a_circle_of_keys_is_found() {
    explore(|| {
        run(&[
            |session, protected| two(session, protected, [1, 2]),
            |session, protected| two(session, protected, [2, 3]),
            |session, protected| two(session, protected, [3, 1]),
        ]);
    });
}

#[test]
fn a_circle_of_conversions_and_ranges_is_found() {
    fn read_and_write(session: &mut LockSession, protected: &Protected) -> Result<()> {
        read(session, protected)?;
        write(session, protected)
    }
    explore(|| {
        run(&[read_and_write, read_and_write, |session, protected| {
            read_range(session, protected)?;
            write(session, protected)
        }]);
    });
}

/// Part of a transaction over two partitions.
type PartWork = fn(&mut LockSession, &mut LockSession) -> Result<()>;

/// Whether a transaction may have to be run again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deadlocks {
    Possible,
    Impossible,
}

/// Runs each work in a thread and session of its own until it succeeds, twice. Its session of the
/// second partition is any that is free.
fn run_over_two(works: &[PartWork], deadlocks: Deadlocks) {
    let graph = WaitGraph::default();
    let partitions = [(); 2].map(|()| {
        LockManager::new(LockOptions {
            wait_limit: Duration::from_hours(1),
            graph: graph.clone(),
            ..LockOptions::default()
        })
    });
    let free: Vec<_> = works.iter().map(|_| partitions[1].session()).collect();
    let free = Arc::new(Mutex::new(free));
    let threads: Vec<_> = works
        .iter()
        .map(|work| {
            let (mut first, free, work) = (partitions[0].session(), Arc::clone(&free), *work);
            spawn(move || {
                let mut done = 0;
                while done < 2 {
                    let second = lock(&free).pop();
                    let mut second = second.expect("there are as many as threads");
                    second.act_for(Some(first.owner()));
                    let result = work(&mut first, &mut second);
                    first.end();
                    second.end();
                    second.act_for(None);
                    lock(&free).push(second);
                    match result {
                        Ok(()) => done += 1,
                        Err(StorageError::Deadlock { .. }) if deadlocks == Deadlocks::Possible => {
                            shuttle::thread::yield_now();
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no thread has failed");
    }
    lock(&free).clear();
    for partition in partitions {
        assert_eq!((partition.heads(), partition.taken()), (0, 0));
    }
}

#[test]
fn a_circle_over_two_partitions_is_found() {
    explore(|| {
        run_over_two(
            &[
                |first, second| {
                    key(first, 1, KeyMode::Exclusive)?;
                    key(second, 1, KeyMode::Exclusive)
                },
                |first, second| {
                    key(second, 1, KeyMode::Exclusive)?;
                    key(first, 2, KeyMode::Exclusive)
                },
                |first, second| {
                    key(first, 2, KeyMode::Exclusive)?;
                    second.lock_range(TABLE, TREE, &[0], &[9])?;
                    key(first, 1, KeyMode::Exclusive)
                },
            ],
            Deadlocks::Possible,
        );
    });
}

#[test]
fn transactions_that_lock_in_one_order_are_not_undone() {
    explore(|| {
        run_over_two(
            &[
                |first, second| {
                    key(first, 1, KeyMode::Exclusive)?;
                    key(second, 1, KeyMode::Exclusive)
                },
                |first, second| {
                    key(first, 1, KeyMode::Shared)?;
                    key(second, 1, KeyMode::Shared)?;
                    key(second, 2, KeyMode::Exclusive)
                },
                |_, second| {
                    key(second, 1, KeyMode::Exclusive)?;
                    key(second, 2, KeyMode::Exclusive)
                },
            ],
            Deadlocks::Impossible,
        );
    });
}
