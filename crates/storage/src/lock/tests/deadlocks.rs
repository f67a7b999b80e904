//! Circles of waits are found when they close, by one of those in them, and cost that one its
//! request alone.
//!
//! Each scenario lets all but one session sleep and closes the cycle with the last. The victim is
//! the session that finds it: the last one, or a sleeper that repeats its search first.

use super::{LONG, LockSession, TABLE, finish, granted, hasty, key, manager, range, start};
use crate::error::{Result, StorageError};
use crate::lock::{KeyMode, LockManager, LockOptions, Mode, Precedence, WaitGraph};
use crate::record::TableId;
use std::sync::Arc;

/// The request of one session of a deadlock.
struct Ask(LockSession, Request);

type Request = Box<dyn FnOnce(&mut LockSession) -> Result<()> + Send>;

fn ask(
    session: LockSession,
    what: impl FnOnce(&mut LockSession) -> Result<()> + Send + 'static,
) -> Ask {
    Ask(session, Box::new(what))
}

/// Lets them ask one after the other; all but one are granted in the end, and that one has lost
/// nothing.
fn break_circle(manager: &LockManager, asks: Vec<Ask>, found: impl FnOnce()) {
    find_circle(manager, asks, found);
    assert_eq!(manager.counters().deadlocks, 1);
}

/// As `break_circle`; the request may fail in either partition.
fn find_circle(manager: &LockManager, asks: Vec<Ask>, found: impl FnOnce()) {
    let size = asks.len();
    let mut threads = Vec::new();
    for (number, Ask(mut session, what)) in asks.into_iter().enumerate() {
        threads.push(std::thread::spawn(move || {
            let held = session.held();
            let result = what(&mut session);
            if result.is_err() {
                assert_eq!(session.held(), held, "its other locks are as they were");
            }
            session.end();
            result
        }));
        while number + 1 < size && manager.waiting() <= number {
            std::thread::yield_now();
        }
    }
    while !threads.iter().any(std::thread::JoinHandle::is_finished) {
        std::thread::yield_now();
    }
    found();
    let mut victims = 0;
    for thread in threads {
        match thread.join().unwrap() {
            Ok(()) => {}
            Err(StorageError::Deadlock { .. }) => victims += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(victims, 1);
}

#[test]
fn circles_of_two_to_six() {
    for size in 2..=6_u64 {
        let manager = manager();
        let asks = (0..size).map(|number| {
            let mut session = manager.session();
            key(&mut session, number, KeyMode::Exclusive).unwrap();
            ask(session, move |session| {
                key(session, (number + 1) % size, KeyMode::Shared)
            })
        });
        let asks = asks.collect();
        break_circle(&manager, asks, || ());
    }
}

/// A transaction that was undone often enough goes on, wherever in the cycle it is and whoever
/// closes it. All others are asleep when the last one asks, for longer than the test takes.
#[test]
fn a_transaction_with_precedence_is_no_victim() {
    for size in 2..=4_u64 {
        for first in 0..size {
            let manager = manager();
            let asks = (0..size).map(|number| {
                let mut session = manager.session();
                let precedence = [Precedence::Usual, Precedence::First];
                let precedence = precedence[usize::from(number == first)];
                session.set_precedence(precedence);
                key(&mut session, number, KeyMode::Exclusive).unwrap();
                ask(session, move |session| {
                    let result = key(session, (number + 1) % size, KeyMode::Shared);
                    assert!(result.is_ok() || precedence == Precedence::Usual);
                    result
                })
            });
            break_circle(&manager, asks.collect(), || ());
        }
    }
}

#[test]
fn two_readers_who_want_to_write() {
    let manager = manager();
    let asks = [0, 1].map(|_| {
        let mut session = manager.session();
        key(&mut session, 1, KeyMode::Shared).unwrap();
        let mut probe = hasty(&manager);
        ask(session, move |session| {
            let result = key(session, 1, KeyMode::Exclusive);
            // The victim still reads.
            assert!(!granted(key(&mut probe, 1, KeyMode::Exclusive)));
            result
        })
    });
    break_circle(&manager, asks.into(), || ());
}

#[test]
fn a_pair_of_table_conversions() {
    let manager = manager();
    let asks = [Mode::Shared, Mode::Exclusive].map(|mode| {
        let mut session = manager.session();
        session.lock_table(TABLE, Mode::IntentExclusive).unwrap();
        ask(session, move |session| session.lock_table(TABLE, mode))
    });
    break_circle(&manager, asks.into(), || ());
}

#[test]
fn a_conversion_that_goes_in_front_of_a_sleeper() {
    let manager = manager();
    let [mut converting, mut reader, mut updating, mut second] = [0; 4].map(|_| manager.session());
    key(&mut converting, 1, KeyMode::Shared).unwrap();
    key(&mut reader, 1, KeyMode::Shared).unwrap();
    key(&mut updating, 1, KeyMode::Update).unwrap();
    key(&mut second, 2, KeyMode::Exclusive).unwrap();
    // The second waits for the updater, and the reader for the second: no cycle. Then the
    // conversion is queued before the second and waits for the reader.
    let asks = vec![
        ask(second, |session| key(session, 1, KeyMode::Update)),
        ask(reader, |session| key(session, 2, KeyMode::Shared)),
        ask(converting, |session| key(session, 1, KeyMode::Exclusive)),
    ];
    break_circle(&manager, asks, || updating.end());
}

#[test]
fn a_holder_goes_in_front_of_a_conversion_that_waits_for_it() {
    let manager = manager();
    let (mut holder, mut waiter) = (manager.session(), manager.session());
    waiter.lock_table(TABLE, Mode::IntentShared).unwrap();
    holder.lock_table(TABLE, Mode::Shared).unwrap();
    let request = start(&manager, waiter, |session| {
        session.lock_table(TABLE, Mode::IntentExclusive)
    });
    // Both are conversions, and no circle: the other one waits for this session whatever it asks.
    holder.lock_table(TABLE, Mode::IntentExclusive).unwrap();
    holder.end();
    drop(finish(request));
}

#[test]
fn a_waiter_in_front() {
    let manager = manager();
    let [mut first, mut second, mut third] = [0; 3].map(|_| manager.session());
    key(&mut first, 1, KeyMode::Shared).unwrap();
    key(&mut second, 3, KeyMode::Shared).unwrap();
    key(&mut third, 2, KeyMode::Exclusive).unwrap();
    // The third is queued after the second and has no conflict with the first.
    let asks = vec![
        ask(second, |session| key(session, 1, KeyMode::Exclusive)),
        ask(third, |session| key(session, 1, KeyMode::Shared)),
        ask(first, |session| key(session, 2, KeyMode::Shared)),
    ];
    break_circle(&manager, asks, || ());
}

#[test]
fn a_range_a_key_and_a_table() {
    let manager = manager();
    let [mut first, mut second, mut third] = [0; 3].map(|_| manager.session());
    range(&mut first, 10, 20).unwrap();
    key(&mut second, 30, KeyMode::Exclusive).unwrap();
    third.lock_table(TABLE, Mode::IntentShared).unwrap();
    third.lock_table(TableId(2), Mode::Exclusive).unwrap();
    let asks = vec![
        ask(second, |session| key(session, 15, KeyMode::Exclusive)),
        ask(third, |session| range(session, 25, 35).map(drop)),
        ask(first, |session| {
            session.lock_table(TableId(2), Mode::IntentShared)
        }),
    ];
    break_circle(&manager, asks, || ());
}

#[test]
fn two_ranges_and_two_keys() {
    let manager = manager();
    let asks = [12, 18].map(|number| {
        let mut session = manager.session();
        range(&mut session, 10, 20).unwrap();
        ask(session, move |session| {
            key(session, number, KeyMode::Exclusive)
        })
    });
    break_circle(&manager, asks.into(), || ());
}

/// Each time, and by a search: the limit of waits is longer than a test may take.
#[test]
fn a_circle_that_closes_in_any_moment_is_found() {
    for _ in 0..50 {
        let manager = manager();
        let asks = [0, 1].map(|number| {
            let mut session = manager.session();
            key(&mut session, number, KeyMode::Exclusive).unwrap();
            ask(session, move |session| {
                key(session, 1 - number, KeyMode::Shared)
            })
        });
        break_circle(&manager, asks.into(), || ());
    }
}

/// Partitions of one database.
fn partitions(count: u64) -> Vec<Arc<LockManager>> {
    let graph = WaitGraph::default();
    let options = LockOptions {
        wait_limit: LONG,
        graph,
        ..LockOptions::default()
    };
    let partitions = (0..count).map(|_| LockManager::new(options.clone()));
    partitions.collect()
}

#[test]
fn circles_over_two_to_six_partitions() {
    for size in 2..=6_u64 {
        let partitions = partitions(size);
        // Each has a key of its own partition and waits for that of the next one's.
        let asks = (0..size).map(|number| {
            let mut session = partitions[number as usize].session();
            key(&mut session, 1, KeyMode::Exclusive).unwrap();
            let mut next = partitions[(number + 1) as usize % partitions.len()].session();
            next.act_for(Some(session.owner()));
            ask(session, move |_| key(&mut next, 1, KeyMode::Shared))
        });
        let asks = asks.collect();
        find_circle(&partitions[0], asks, || ());
        let counters = partitions.iter().map(|partition| partition.counters());
        assert_eq!(counters.map(|counters| counters.deadlocks).sum::<u64>(), 1);
    }
}

#[test]
fn a_session_that_no_longer_acts_for_a_transaction_closes_no_circle() {
    let partitions = partitions(2);
    let [first, mut second] = [0; 2].map(|_| partitions[0].session());
    let [mut part, mut other] = [0; 2].map(|_| partitions[1].session());
    part.act_for(Some(first.owner()));
    key(&mut part, 1, KeyMode::Exclusive).unwrap();
    part.end();
    // Now it serves another transaction, which waits for nobody.
    part.act_for(None);
    key(&mut part, 1, KeyMode::Exclusive).unwrap();
    key(&mut second, 2, KeyMode::Exclusive).unwrap();
    other.act_for(Some(second.owner()));
    let first = start(&partitions[0], first, |session| {
        key(session, 2, KeyMode::Shared)
    });
    let other = start(&partitions[1], other, |session| {
        key(session, 1, KeyMode::Shared)
    });
    part.end();
    finish(other).end();
    second.end();
    finish(first).end();
}
