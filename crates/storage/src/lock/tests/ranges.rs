//! Ranges keep phantoms out, and keys keep ranges out, whichever was first.
//!
//! Keys that are not in any tree are locked like others: the lock manager knows no trees.

use super::{TABLE, TREE, finish, granted, hasty, key, manager, range, start};
use crate::lock::{KeyMode, Mode};
use crate::vocabulary::PageId;

#[test]
fn a_range_keeps_writers_out_and_readers_in() {
    let manager = manager();
    let (mut reader, mut other) = (hasty(&manager), hasty(&manager));
    assert!(!range(&mut reader, 10, 20).unwrap());
    for number in [10, 15, 20] {
        assert!(!granted(key(&mut other, number, KeyMode::Exclusive)));
        assert!(granted(key(&mut other, number, KeyMode::Update)));
        assert!(!granted(key(&mut other, number, KeyMode::Exclusive)));
        assert!(granted(key(&mut other, number, KeyMode::Shared)));
    }
    for number in [9, 21] {
        assert!(granted(key(&mut other, number, KeyMode::Exclusive)));
    }
    assert!(granted(other.lock_key(
        TABLE,
        PageId(8),
        &[15],
        KeyMode::Exclusive
    )));
    assert!(granted(range(&mut other, 12, 18).map(drop)));
    reader.end();
    assert!(granted(key(&mut other, 19, KeyMode::Exclusive)));
}

#[test]
fn a_writer_that_a_range_keeps_out_has_nothing_left_of_its_lock() {
    let manager = manager();
    let (mut reader, mut writer) = (hasty(&manager), hasty(&manager));
    range(&mut reader, 10, 20).unwrap();
    assert!(!granted(key(&mut writer, 15, KeyMode::Exclusive)));
    assert!(granted(key(&mut hasty(&manager), 15, KeyMode::Shared)));
    // And of a conversion just the conversion.
    key(&mut writer, 15, KeyMode::Update).unwrap();
    assert!(!granted(key(&mut writer, 15, KeyMode::Exclusive)));
    assert!(!granted(key(&mut hasty(&manager), 15, KeyMode::Update)));
    assert!(granted(key(&mut hasty(&manager), 15, KeyMode::Shared)));
    range(&mut hasty(&manager), 0, 99).unwrap();
}

#[test]
fn an_exclusive_key_keeps_ranges_out() {
    let manager = manager();
    let (mut writer, mut reader) = (hasty(&manager), hasty(&manager));
    key(&mut writer, 15, KeyMode::Exclusive).unwrap();
    key(&mut writer, 30, KeyMode::Update).unwrap();
    assert!(!granted(range(&mut reader, 10, 20).map(drop)));
    assert!(!granted(range(&mut reader, 15, 15).map(drop)));
    assert!(granted(range(&mut reader, 16, 40).map(drop)));
    assert!(granted(range(&mut reader, 0, 14).map(drop)));
    assert!(granted(range(&mut writer, 10, 15).map(drop)), "its own key");
    writer.end();
    assert!(granted(range(&mut reader, 10, 20).map(drop)));
}

#[test]
fn a_range_that_fails_lets_writers_in() {
    let manager = manager();
    let (mut writer, mut reader) = (hasty(&manager), hasty(&manager));
    key(&mut writer, 15, KeyMode::Exclusive).unwrap();
    assert!(!granted(range(&mut reader, 10, 20).map(drop)));
    assert!(manager.queues.bucket(TREE).is_empty());
    assert!(granted(key(&mut hasty(&manager), 16, KeyMode::Exclusive)));
}

#[test]
fn own_ranges_do_not_keep_own_keys_out() {
    let manager = manager();
    let mut session = hasty(&manager);
    range(&mut session, 10, 20).unwrap();
    let held = session.held();
    key(&mut session, 15, KeyMode::Shared).unwrap();
    assert_eq!(session.held(), held, "the range covers it");
    key(&mut session, 15, KeyMode::Exclusive).unwrap();
    range(&mut session, 5, 30).unwrap();
    assert!(!granted(range(&mut hasty(&manager), 15, 15).map(drop)));
}

#[test]
fn ranges_that_touch_become_one() {
    let manager = manager();
    let (mut session, mut other) = (hasty(&manager), hasty(&manager));
    range(&mut session, 10, 20).unwrap();
    let held = session.held();
    range(&mut session, 21, 30).unwrap();
    range(&mut session, 15, 18).unwrap();
    range(&mut session, 5, 12).unwrap();
    assert_eq!(session.held(), held);
    range(&mut session, 40, 50).unwrap();
    assert_eq!(session.held(), held + 1);
    range(&mut session, 29, 41).unwrap();
    assert_eq!(session.held(), held);
    for number in [5, 20, 21, 35, 50] {
        assert!(!granted(key(&mut other, number, KeyMode::Exclusive)));
    }
    for number in [4, 51] {
        assert!(granted(key(&mut other, number, KeyMode::Exclusive)));
    }
    session.end();
    assert!(manager.queues.bucket(TREE).is_empty());
    assert!(granted(key(&mut other, 35, KeyMode::Exclusive)));
}

#[test]
fn a_waiting_writer_does_not_stop_the_range_from_growing() {
    let manager = manager();
    let mut reader = hasty(&manager);
    range(&mut reader, 10, 20).unwrap();
    let writer = start(&manager, manager.session(), |session| {
        key(session, 15, KeyMode::Exclusive)
    });
    // The writer waits for the range, so its key is no obstacle to the range that contains the old
    // one.
    range(&mut reader, 15, 30).unwrap();
    assert_eq!(manager.waiting(), 1);
    assert!(!granted(range(&mut hasty(&manager), 14, 16).map(drop)));
    reader.end();
    drop(finish(writer));
}

#[test]
fn a_writer_passes_a_range_that_waits_for_it_already() {
    let manager = manager();
    let mut writer = manager.session();
    key(&mut writer, 15, KeyMode::Exclusive).unwrap();
    let reader = start(&manager, manager.session(), |session| {
        range(session, 10, 20).map(drop)
    });
    // To wait for the reader would be a deadlock.
    key(&mut writer, 12, KeyMode::Exclusive).unwrap();
    assert_eq!(manager.waiting(), 1, "the range is not granted for that");
    assert!(!granted(key(&mut hasty(&manager), 13, KeyMode::Exclusive)));
    writer.end();
    let reader = finish(reader);
    assert!(!granted(key(&mut hasty(&manager), 12, KeyMode::Exclusive)));
    drop(reader);
    assert_eq!(manager.counters().deadlocks, 0);
}

#[test]
fn a_range_waits_for_writers_and_says_so() {
    let manager = manager();
    let mut writer = manager.session();
    key(&mut writer, 15, KeyMode::Exclusive).unwrap();
    key(&mut writer, 16, KeyMode::Exclusive).unwrap();
    let reader = start(&manager, manager.session(), |session| {
        assert!(range(session, 10, 20)?);
        assert!(!range(session, 10, 20)?);
        Ok(())
    });
    // Later requests queue after the range, though it is not granted yet.
    let mut late = hasty(&manager);
    assert!(!granted(key(&mut late, 17, KeyMode::Exclusive)));
    assert!(granted(key(&mut late, 21, KeyMode::Exclusive)));
    // An earlier holder may go on inside it.
    key(&mut writer, 15, KeyMode::Exclusive).unwrap();
    writer.end();
    let reader = finish(reader);
    assert!(!granted(key(&mut late, 15, KeyMode::Exclusive)));
    drop(reader);
    assert!(granted(key(&mut late, 15, KeyMode::Exclusive)));
}

#[test]
fn a_range_that_waited_for_its_table_says_so() {
    let manager = manager();
    let mut writer = manager.session();
    writer.lock_table(TABLE, Mode::Exclusive).unwrap();
    let reader = start(&manager, manager.session(), |session| {
        assert!(range(session, 10, 20)?);
        Ok(())
    });
    drop(writer);
    drop(finish(reader));
}
