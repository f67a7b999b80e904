//! Waiters are granted in order or because they are awake, and none is forgotten.
//!
//! Threads ask one after the other, each once the one before is waiting.

use super::{TABLE, finish, granted, hasty, key, manager, range, start};
use crate::error::StorageError;
use crate::lock::head::{Answer, Head, PASSES_MAX, Request, SessionId, Woken};
use crate::lock::mode::Strength;
use crate::lock::parker::Parker;
use crate::lock::{KeyMode, Mode};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[test]
fn everybody_is_served() {
    let manager = manager();
    let mut holder = manager.session();
    key(&mut holder, 1, KeyMode::Exclusive).unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let threads: Vec<_> = (0..5)
        .map(|number| {
            let order = Arc::clone(&order);
            start(&manager, manager.session(), move |session| {
                key(session, 1, KeyMode::Exclusive)?;
                order.lock().unwrap().push(number);
                session.end();
                Ok(())
            })
        })
        .collect();
    holder.end();
    for thread in threads {
        drop(finish(thread));
    }
    let mut served = order.lock().unwrap().clone();
    served.sort_unstable();
    assert_eq!(served, [0, 1, 2, 3, 4]);
}

/// A head, the parkers of its sessions, and those that it has signalled.
#[derive(Default)]
struct Line {
    head: Head,
    parkers: Vec<Arc<Parker>>,
    woken: Woken,
}

impl Line {
    /// A new session asks for the lock alone.
    fn ask(&mut self) -> (SessionId, Answer) {
        let session = self.parkers.len() as SessionId;
        let parker = Arc::new(Parker::new());
        parker.set_back();
        let answer = self.head.request(&Request {
            session,
            strength: Strength::Exclusive,
            passes: false,
            inheritance: None,
            parker: Some(&parker),
        });
        self.parkers.push(parker);
        (session, answer)
    }

    fn release(&mut self, session: SessionId) {
        self.woken = Woken::default();
        assert!(self.head.release(session, &mut self.woken).is_some());
    }

    /// Whether the last release has granted the lock to this session, and to nobody else.
    fn has_granted(&self, session: SessionId) -> bool {
        let granted = self.woken.granted.iter();
        let own = &self.parkers[session as usize];
        let own: Vec<bool> = granted.map(|parker| Arc::ptr_eq(parker, own)).collect();
        own == [true]
    }
}

#[test]
fn those_who_are_awake_are_granted_in_order() {
    let mut line = Line::default();
    let (holder, answer) = line.ask();
    assert_eq!(answer, Answer::Granted);
    let waiters = [(); 3].map(|()| line.ask());
    assert!(waiters.iter().all(|(_, answer)| *answer == Answer::Queued));
    let mut before = holder;
    for (waiter, _) in waiters {
        line.release(before);
        assert!(line.has_granted(waiter));
        before = waiter;
    }
}

#[test]
fn a_sleeper_is_passed_until_it_is_its_turn() {
    let mut line = Line::default();
    let (mut holder, _) = line.ask();
    let (sleeper, _) = line.ask();
    line.parkers[sleeper as usize].pretend_sleep();
    for number in 0..PASSES_MAX {
        // While there is a holder a request has to wait as well, but is awake.
        let is_held = number % 2 == 0;
        if !is_held {
            line.release(holder);
            assert!(line.woken.granted.is_empty() && line.woken.next.len() == 1);
        }
        let (passing, answer) = line.ask();
        if is_held {
            assert_eq!(answer, Answer::Queued);
            line.release(holder);
            assert!(line.has_granted(passing));
        } else {
            assert_eq!(answer, Answer::Granted);
        }
        assert!(!line.head.claim(sleeper, &mut line.woken));
        holder = passing;
    }
    line.release(holder);
    assert!(line.has_granted(sleeper));
    let (late, answer) = line.ask();
    assert_eq!(answer, Answer::Queued);
    line.release(sleeper);
    assert!(line.has_granted(late));
}

#[test]
fn a_sleeper_claims_a_free_lock_when_it_is_awake() {
    let mut line = Line::default();
    let (holder, _) = line.ask();
    let (sleeper, _) = line.ask();
    line.parkers[sleeper as usize].pretend_sleep();
    line.release(holder);
    assert!(line.head.claim(sleeper, &mut line.woken));
    assert_eq!(line.head.exclusive_holder(), Some(sleeper));
    line.release(sleeper);
    assert!(line.head.is_unused());
}

#[test]
fn a_reader_does_not_pass_a_waiting_writer_but_what_excludes_nobody_does() {
    let manager = manager();
    let mut reader = manager.session();
    key(&mut reader, 1, KeyMode::Shared).unwrap();
    let writer = start(&manager, manager.session(), |session| {
        key(session, 1, KeyMode::Exclusive)
    });
    let mut other = hasty(&manager);
    assert!(!granted(key(&mut other, 1, KeyMode::Shared)));
    // Update after update: a reader disturbs neither.
    key(&mut reader, 2, KeyMode::Update).unwrap();
    let updater = start(&manager, manager.session(), |session| {
        key(session, 2, KeyMode::Update)
    });
    assert!(granted(key(&mut other, 2, KeyMode::Shared)));
    reader.end();
    drop((finish(writer), finish(updater)));
}

#[test]
fn readers_behind_a_writer_are_granted_together() {
    let manager = manager();
    let mut writer = manager.session();
    key(&mut writer, 1, KeyMode::Exclusive).unwrap();
    let readers: Vec<_> = (0..3)
        .map(|_| {
            start(&manager, manager.session(), |session| {
                key(session, 1, KeyMode::Shared)
            })
        })
        .collect();
    writer.end();
    let readers: Vec<_> = readers.into_iter().map(finish).collect();
    assert!(!granted(key(&mut hasty(&manager), 1, KeyMode::Exclusive)));
    drop(readers);
    assert!(granted(key(&mut hasty(&manager), 1, KeyMode::Exclusive)));
}

#[test]
fn a_conversion_goes_in_front_of_new_requests() {
    let manager = manager();
    let (mut first, mut second) = (manager.session(), manager.session());
    key(&mut first, 1, KeyMode::Update).unwrap();
    key(&mut second, 1, KeyMode::Shared).unwrap();
    let stranger = start(&manager, manager.session(), |session| {
        key(session, 1, KeyMode::Exclusive)
    });
    let converting = start(&manager, first, |session| {
        key(session, 1, KeyMode::Exclusive)
    });
    second.end();
    let first = finish(converting);
    assert_eq!(manager.waiting(), 1, "the stranger still waits");
    drop(first);
    drop(finish(stranger));
}

#[test]
fn who_gives_up_lets_those_behind_go_on() {
    let manager = manager();
    let mut reader = manager.session();
    key(&mut reader, 1, KeyMode::Shared).unwrap();
    let mut impatient = manager.session();
    impatient.set_wait_limit(Duration::from_millis(100));
    let writer = std::thread::spawn(move || key(&mut impatient, 1, KeyMode::Exclusive));
    while manager.waiting() == 0 && !writer.is_finished() {
        std::thread::yield_now();
    }
    // It asks before the writer gives up, unless this thread gets no time for as long; the reader
    // never lets go.
    let mut behind = manager.session();
    key(&mut behind, 1, KeyMode::Shared).unwrap();
    let result = writer.join().unwrap();
    assert!(matches!(result, Err(StorageError::LockTimeout { .. })));
}

#[test]
fn a_limit_is_kept() {
    let manager = manager();
    let mut holder = manager.session();
    holder.lock_table(TABLE, Mode::Exclusive).unwrap();
    let mut waiter = manager.session();
    waiter.set_wait_limit(Duration::from_millis(50));
    let started = Instant::now();
    let error = key(&mut waiter, 1, KeyMode::Shared).unwrap_err();
    let passed = started.elapsed();
    assert!(passed >= Duration::from_millis(50), "{passed:?}");
    match error {
        StorageError::LockTimeout { waited_ms, .. } => assert!(waited_ms >= 50),
        error => panic!("{error}"),
    }
    waiter.end();
    let counters = manager.counters();
    assert_eq!((counters.waits, counters.timeouts), (1, 1));
    assert!(counters.wait_ns >= 50_000_000);
}

#[test]
fn a_session_that_is_dropped_wakes_those_who_wait() {
    let manager = manager();
    let mut holder = manager.session();
    key(&mut holder, 1, KeyMode::Exclusive).unwrap();
    holder.lock_table(TABLE, Mode::Shared).unwrap();
    let on_key = start(&manager, manager.session(), |session| {
        key(session, 1, KeyMode::Shared)
    });
    let on_table = start(&manager, manager.session(), |session| {
        session.lock_table(TABLE, Mode::IntentExclusive)
    });
    drop(holder);
    drop((finish(on_key), finish(on_table)));
    assert_eq!((manager.heads(), manager.taken()), (0, 0));
}

#[test]
fn who_waits_is_told_at_once_that_the_partition_is_stopped() {
    let manager = manager();
    let mut holder = manager.session();
    key(&mut holder, 1, KeyMode::Exclusive).unwrap();
    range(&mut holder, 10, 20).unwrap();
    let waiters = [1, 15].map(|number| {
        start(&manager, manager.session(), move |session| {
            key(session, number, KeyMode::Exclusive)
        })
    });
    manager.stop();
    for waiter in waiters {
        let (_, told) = waiter.join().unwrap();
        assert!(matches!(told, Err(StorageError::Poisoned)), "{told:?}");
    }
    let late = key(&mut manager.session(), 1, KeyMode::Shared);
    assert!(matches!(late, Err(StorageError::Poisoned)), "{late:?}");
    // A request that need not wait is granted all the same.
    key(&mut manager.session(), 2, KeyMode::Shared).unwrap();
    // None is left in a queue, to be granted what it does not want any more.
    holder.end();
    assert!(granted(key(&mut hasty(&manager), 1, KeyMode::Exclusive)));
}

#[test]
fn an_interrupt_ends_a_wait_and_leaves_the_lock_alone() {
    let manager = manager();
    let mut holder = manager.session();
    key(&mut holder, 1, KeyMode::Exclusive).unwrap();
    let waiter = manager.session();
    let interrupt = waiter.interrupt();
    let request = start(&manager, waiter, |waiter| key(waiter, 1, KeyMode::Shared));
    interrupt.raise();
    let (mut waiter, ended) = request.join().unwrap();
    assert!(matches!(ended, Err(StorageError::Interrupted)));
    // Raised still: the next wait ends at once, a lock that is free is granted.
    let ended = key(&mut waiter, 1, KeyMode::Shared);
    assert!(matches!(ended, Err(StorageError::Interrupted)));
    key(&mut waiter, 2, KeyMode::Shared).unwrap();
    interrupt.clear();
    holder.end();
    key(&mut waiter, 1, KeyMode::Exclusive).unwrap();
}
