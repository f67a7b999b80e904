//! Circles of waits are found when they close, by one of those in them, and cost that one its request alone.
//!
//! Each scenario lets all but one session sleep and closes the circle with the last.

use super::{LONG, TABLE, finish, granted, hasty, key, manager, range, start};
use crate::error::{Result, StorageError};
use crate::lock::{KeyMode, Mode};
use std::time::{Duration, Instant};

fn is_deadlock(result: Result<()>) -> bool {
    match result {
        Ok(()) => false,
        Err(StorageError::Deadlock { waited_ms }) => {
            assert!(waited_ms < 1000, "{waited_ms} ms");
            true
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn circles_of_two_to_six_are_found_at_once() {
    for size in 2..=6_u64 {
        let manager = manager();
        let mut sessions: Vec<_> = (0..size).map(|_| manager.session()).collect();
        for (number, session) in sessions.iter_mut().enumerate() {
            key(session, number as u64, KeyMode::Exclusive).unwrap();
        }
        let mut last = sessions.pop().unwrap();
        let mut waiting = Vec::new();
        for (number, session) in sessions.into_iter().enumerate() {
            waiting.push(start(&manager, session, move |session| {
                key(session, number as u64 + 1, KeyMode::Shared)
            }));
        }
        let held = last.held();
        let started = Instant::now();
        assert!(is_deadlock(key(&mut last, 0, KeyMode::Update)));
        assert!(started.elapsed() < LONG / 2);
        assert_eq!(last.held(), held, "its other locks are as they were");
        last.end();
        while let Some(next) = waiting.pop() {
            drop(finish(next));
        }
        assert_eq!(manager.counters().deadlocks, 1);
    }
}

#[test]
fn two_readers_who_want_to_write_are_a_circle() {
    let manager = manager();
    let (mut first, mut second) = (manager.session(), manager.session());
    key(&mut first, 1, KeyMode::Shared).unwrap();
    key(&mut second, 1, KeyMode::Shared).unwrap();
    let waiting = start(&manager, first, |session| {
        key(session, 1, KeyMode::Exclusive)
    });
    assert!(is_deadlock(key(&mut second, 1, KeyMode::Exclusive)));
    // It still reads.
    assert!(!granted(key(&mut hasty(&manager), 1, KeyMode::Exclusive)));
    assert_eq!(manager.waiting(), 1);
    second.end();
    drop(finish(waiting));
}

#[test]
fn a_pair_of_table_conversions_is_a_circle() {
    let manager = manager();
    let (mut first, mut second) = (manager.session(), manager.session());
    for session in [&mut first, &mut second] {
        session.lock_table(TABLE, Mode::IntentExclusive).unwrap();
    }
    let waiting = start(&manager, first, |session| {
        session.lock_table(TABLE, Mode::Shared)
    });
    assert!(is_deadlock(second.lock_table(TABLE, Mode::Exclusive)));
    second.end();
    drop(finish(waiting));
}

#[test]
fn a_conversion_that_goes_in_front_of_a_sleeper_closes_a_circle() {
    let manager = manager();
    let (mut converting, mut reader, mut updating, mut second) = (
        manager.session(),
        manager.session(),
        manager.session(),
        manager.session(),
    );
    key(&mut converting, 1, KeyMode::Shared).unwrap();
    key(&mut reader, 1, KeyMode::Shared).unwrap();
    key(&mut updating, 1, KeyMode::Update).unwrap();
    key(&mut second, 2, KeyMode::Exclusive).unwrap();
    // Second waits for the one who updates, and the reader for second: no circle.
    let second = start(&manager, second, |session| key(session, 1, KeyMode::Update));
    let reader = start(&manager, reader, |session| key(session, 2, KeyMode::Shared));
    // In front of second and behind the reader, who sleep both.
    assert!(is_deadlock(key(&mut converting, 1, KeyMode::Exclusive)));
    assert_eq!(manager.waiting(), 2);
    converting.end();
    updating.end();
    drop(finish(second));
    drop(finish(reader));
}

#[test]
fn a_waiter_in_front_is_part_of_a_circle() {
    let manager = manager();
    let (mut first, mut second, mut third) =
        (manager.session(), manager.session(), manager.session());
    key(&mut first, 1, KeyMode::Shared).unwrap();
    key(&mut third, 2, KeyMode::Exclusive).unwrap();
    key(&mut second, 3, KeyMode::Shared).unwrap();
    // The second waits for the first, the third stands behind the second without a conflict with the first.
    let writer = start(&manager, second, |session| {
        key(session, 1, KeyMode::Exclusive)
    });
    let reader = start(&manager, third, |session| key(session, 1, KeyMode::Shared));
    assert!(is_deadlock(key(&mut first, 2, KeyMode::Shared)));
    first.end();
    drop(finish(writer));
    drop(finish(reader));
}

#[test]
fn ranges_keys_and_tables_make_circles_together() {
    let manager = manager();
    let (mut first, mut second, mut third) =
        (manager.session(), manager.session(), manager.session());
    range(&mut first, 10, 20).unwrap();
    key(&mut second, 30, KeyMode::Exclusive).unwrap();
    third
        .lock_table(crate::record::TableId(2), Mode::Exclusive)
        .unwrap();
    let writer = start(&manager, second, |session| {
        key(session, 15, KeyMode::Exclusive)
    });
    let reader = start(&manager, third, |session| range(session, 25, 35).map(drop));
    let table = first.lock_table(crate::record::TableId(2), Mode::IntentShared);
    assert!(is_deadlock(table));
    drop(first);
    drop(finish(writer));
    drop(finish(reader));
}

#[test]
fn many_circles_in_a_row_are_each_found_within_ten_milliseconds() {
    let manager = manager();
    let mut worst = Duration::ZERO;
    for _ in 0..50 {
        let (mut first, mut second) = (manager.session(), manager.session());
        key(&mut first, 1, KeyMode::Exclusive).unwrap();
        key(&mut second, 2, KeyMode::Exclusive).unwrap();
        let waiting = start(&manager, first, |session| key(session, 2, KeyMode::Shared));
        let started = Instant::now();
        assert!(is_deadlock(key(&mut second, 1, KeyMode::Shared)));
        worst = worst.max(started.elapsed());
        drop(second);
        drop(finish(waiting));
    }
    // The search itself takes microseconds; the rest is what a busy machine adds.
    assert!(worst < Duration::from_secs(1), "{worst:?}");
}
