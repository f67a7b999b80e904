//! Idle intention locks are taken back without a shared step, and given up to a session that needs
//! the table.
//!
//! The counters tell which way a lock came.

use super::{TABLE, TREE, finish, granted, hasty, key, manager, start};
use crate::lock::{KeyMode, LockManager, LockOptions, Mode};
use crate::record::TableId;

#[test]
fn the_next_transaction_inherits() {
    let manager = manager();
    let mut session = hasty(&manager);
    for number in 0..10 {
        key(&mut session, number, KeyMode::Exclusive).unwrap();
        assert_eq!(session.held(), 3);
        session.end();
        assert_eq!(session.held(), 0);
    }
    let counters = manager.counters();
    assert_eq!((counters.acquired, counters.inherited), (12, 18));
    assert_eq!(manager.heads(), 2, "partition and table");
    session.end_all();
    assert_eq!(manager.heads(), 0);
}

#[test]
fn without_inheritance_nothing_stays() {
    let manager = LockManager::new(LockOptions {
        inherits: false,
        ..LockOptions::default()
    });
    let mut session = hasty(&manager);
    for number in 0..10 {
        key(&mut session, number, KeyMode::Exclusive).unwrap();
        session.end();
        assert_eq!(manager.heads(), 0);
    }
    let counters = manager.counters();
    assert_eq!((counters.acquired, counters.inherited), (30, 0));
}

#[test]
fn idle_locks_are_in_nobodys_way() {
    for mode in [Mode::Shared, Mode::SharedIntentExclusive, Mode::Exclusive] {
        let manager = manager();
        let mut idle: Vec<_> = (0..4).map(|_| hasty(&manager)).collect();
        for (number, session) in idle.iter_mut().enumerate() {
            key(session, number as u64, KeyMode::Exclusive).unwrap();
            session.end();
        }
        let mut taker = hasty(&manager);
        taker.lock_table(TABLE, mode).unwrap();
        assert_eq!(manager.counters().waits, 0);
        for (number, session) in idle.iter_mut().enumerate() {
            assert!(!granted(key(session, number as u64, KeyMode::Exclusive)));
            session.end();
        }
        taker.end();
        for (number, session) in idle.iter_mut().enumerate() {
            key(session, number as u64, KeyMode::Exclusive).unwrap();
        }
        drop((idle, taker));
        assert_eq!((manager.heads(), manager.taken()), (0, 0));
    }
}

#[test]
fn a_lock_that_somebody_waits_for_is_not_kept() {
    let manager = manager();
    let mut session = manager.session();
    key(&mut session, 1, KeyMode::Exclusive).unwrap();
    let waiting = start(&manager, manager.session(), |session| {
        session.lock_table(TABLE, Mode::Exclusive)
    });
    session.end();
    drop(finish(waiting));
    key(&mut session, 1, KeyMode::Exclusive).unwrap();
    session.end();
    assert_eq!(manager.counters().inherited, 1, "the partition alone");
}

#[test]
fn an_idle_lock_becomes_stronger_when_it_has_to() {
    let manager = manager();
    let (mut session, mut other) = (hasty(&manager), hasty(&manager));
    key(&mut session, 1, KeyMode::Shared).unwrap();
    session.end();
    key(&mut session, 1, KeyMode::Exclusive).unwrap();
    assert!(!granted(other.lock_table(TABLE, Mode::Shared)));
    session.end();
    session.lock_table(TABLE, Mode::Shared).unwrap();
    assert!(!granted(other.lock_key(
        TABLE,
        TREE,
        &[9],
        KeyMode::Exclusive
    )));
    session.end();
    assert!(granted(other.lock_table(TABLE, Mode::Exclusive)));
}

#[test]
fn a_compatible_idle_lock_wakes_the_sleeper_behind_it() {
    let manager = manager();
    // Both read, so the first one's intention is no obstacle to the second one's lock of the table.
    let (mut first, mut second) = (manager.session(), manager.session());
    key(&mut first, 1, KeyMode::Shared).unwrap();
    second.lock_table(TABLE, Mode::IntentExclusive).unwrap();
    let waiting = start(&manager, manager.session(), |session| {
        session.lock_table(TABLE, Mode::Shared)
    });
    // The conversion passes the sleeper, which did not have to wait for this session before.
    first.lock_table(TABLE, Mode::IntentExclusive).unwrap();
    second.end();
    assert_eq!(manager.waiting(), 1);
    first.end();
    drop(finish(waiting));
}

#[test]
fn not_more_idle_locks_than_some_hundreds_are_kept() {
    let manager = manager();
    let mut session = hasty(&manager);
    for table in 0..1000 {
        session
            .lock_table(TableId(table), Mode::IntentExclusive)
            .unwrap();
        session.end();
    }
    assert!(manager.heads() <= 257);
    drop(session);
    assert_eq!((manager.heads(), manager.taken()), (0, 0));
}
