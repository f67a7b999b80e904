//! Compatibility of modes: every pair at every level, conversions, covering, marks, exhaustion,
//! escalation.
//!
//! Nobody sleeps here: a request that would have to wait fails at once.

use super::{KEY_MODES, MODES, TABLE, TREE, finish, granted, hasty, key, manager, range, start};
use crate::error::StorageError;
use crate::lock::mode::Strength;
use crate::lock::{KeyIntent, KeyMode, LockManager, LockOptions, Mode};
use crate::record::TableId;
use crate::vocabulary::PageId;

#[test]
fn every_pair_of_modes_on_the_partition_and_on_a_table() {
    for one in MODES {
        for other in MODES {
            let together = !Strength::from(one).conflicts(other.into());
            let manager = manager();
            let (mut first, mut second) = (hasty(&manager), hasty(&manager));
            first.lock_partition(one).unwrap();
            assert_eq!(granted(second.lock_partition(other)), together);
            first.end_all();
            second.end_all();
            first.lock_table(TABLE, one).unwrap();
            assert_eq!(granted(second.lock_table(TABLE, other)), together);
            assert!(granted(second.lock_table(TableId(2), other)));
        }
    }
}

#[test]
fn every_pair_of_modes_on_a_key() {
    for one in KEY_MODES {
        for other in KEY_MODES {
            let together = !Strength::from(one).conflicts(other.into());
            let manager = manager();
            let (mut first, mut second) = (hasty(&manager), hasty(&manager));
            key(&mut first, 5, one).unwrap();
            assert_eq!(granted(key(&mut second, 5, other)), together);
            assert!(granted(key(&mut second, 6, other)));
            assert!(granted(second.lock_key(TABLE, PageId(8), &[5], other)));
            assert!(granted(second.lock_key(TABLE, TREE, &[5, 0], other)));
            first.end();
            assert!(granted(key(&mut second, 5, other)));
        }
    }
}

#[test]
fn every_mode_of_a_table_against_every_mode_of_a_key() {
    for whole in MODES {
        for part in KEY_MODES {
            let together = !Strength::from(whole).conflicts(Strength::from(part).intention());
            let manager = manager();
            let (mut first, mut second) = (hasty(&manager), hasty(&manager));
            first.lock_table(TABLE, whole).unwrap();
            assert_eq!(granted(key(&mut second, 5, part)), together);
            first.end_all();
            second.end_all();
            key(&mut second, 5, part).unwrap();
            assert_eq!(granted(first.lock_table(TABLE, whole)), together);
        }
    }
}

/// If keys of any strength go with readers of the table, a shared table keeps changes out and
/// covers no keys, and many keys become an exclusive lock.
#[test]
fn keys_under_the_intention_of_readers_go_with_a_shared_table() {
    let manager = || {
        LockManager::new(LockOptions {
            key_intent: KeyIntent::Shared,
            escalate_at: 100,
            ..LockOptions::default()
        })
    };
    for whole in MODES {
        for part in KEY_MODES {
            let manager = manager();
            let (mut first, mut second) = (hasty(&manager), hasty(&manager));
            first.lock_table(TABLE, whole).unwrap();
            let strength = Strength::from(whole);
            let locks = !strength.conflicts(Strength::IntentShared);
            assert_eq!(granted(key(&mut second, 5, part)), locks);
            let changes = !strength.conflicts(Strength::IntentExclusive);
            assert_eq!(granted(second.intend_change(TABLE)), changes);
            key(&mut first, 6, KeyMode::Shared).unwrap();
            if locks {
                assert!(!granted(key(&mut second, 6, KeyMode::Exclusive)));
            }
        }
    }
    let manager = manager();
    let (mut first, mut second) = (hasty(&manager), hasty(&manager));
    for number in 0..150 {
        key(&mut first, number, KeyMode::Shared).unwrap();
    }
    assert!(!granted(key(&mut second, 200, KeyMode::KeyShare)));
    first.end();
    // The need of an earlier transaction does not count.
    first.intend_change(TABLE).unwrap();
    first.end();
    first.lock_table(TABLE, Mode::IntentShared).unwrap();
    assert!(granted(second.lock_table(TABLE, Mode::Shared)));
}

#[test]
fn a_lock_above_needs_none_below() {
    let manager = manager();
    let mut session = hasty(&manager);
    session.lock_table(TABLE, Mode::Shared).unwrap();
    let held = session.held();
    key(&mut session, 1, KeyMode::Shared).unwrap();
    range(&mut session, 1, 9).unwrap();
    assert_eq!(session.held(), held);
    key(&mut session, 1, KeyMode::Update).unwrap();
    assert_eq!(session.held(), held + 1, "reading all is not changing one");
    session.end();
    session.lock_partition(Mode::Exclusive).unwrap();
    for mode in KEY_MODES {
        key(&mut session, 1, mode).unwrap();
    }
    session.lock_table(TABLE, Mode::Exclusive).unwrap();
    assert_eq!(session.held(), 1);
}

#[test]
fn conversions_are_joins_of_both_modes() {
    for one in MODES {
        for other in MODES {
            for third in MODES {
                let manager = manager();
                let (mut first, mut second) = (hasty(&manager), hasty(&manager));
                first.lock_table(TABLE, one).unwrap();
                first.lock_table(TABLE, other).unwrap();
                let joined = Strength::from(one).join(other.into());
                let together = !joined.conflicts(third.into());
                assert_eq!(granted(second.lock_table(TABLE, third)), together);
            }
        }
    }
    for one in KEY_MODES {
        for other in KEY_MODES {
            for third in KEY_MODES {
                let manager = manager();
                let (mut first, mut second) = (hasty(&manager), hasty(&manager));
                key(&mut first, 1, one).unwrap();
                key(&mut first, 1, other).unwrap();
                let joined = Strength::from(one).join(other.into());
                let together = !joined.conflicts(third.into());
                assert_eq!(granted(key(&mut second, 1, third)), together);
            }
        }
    }
}

#[test]
fn a_conversion_that_fails_leaves_the_weaker_lock() {
    let manager = manager();
    let (mut first, mut second) = (hasty(&manager), hasty(&manager));
    key(&mut first, 1, KeyMode::Shared).unwrap();
    key(&mut second, 1, KeyMode::Shared).unwrap();
    let held = first.held();
    assert!(!granted(key(&mut first, 1, KeyMode::Exclusive)));
    assert_eq!(first.held(), held);
    let mut third = hasty(&manager);
    assert!(granted(key(&mut third, 1, KeyMode::Shared)));
    third.end();
    second.end();
    assert!(!granted(key(&mut third, 1, KeyMode::Exclusive)));
    assert!(granted(key(&mut first, 1, KeyMode::Exclusive)));
}

#[test]
fn who_waits_to_delete_a_row_holds_nobody_up() {
    let manager = manager();
    let (mut reference, mut change) = (hasty(&manager), hasty(&manager));
    key(&mut reference, 1, KeyMode::KeyShare).unwrap();
    let deletion = start(&manager, manager.session(), |session| {
        key(session, 1, KeyMode::Exclusive)
    });
    key(&mut change, 1, KeyMode::NoKeyUpdate).unwrap();
    let mut other = hasty(&manager);
    key(&mut other, 1, KeyMode::KeyShare).unwrap();
    assert!(!granted(key(&mut other, 1, KeyMode::NoKeyUpdate)));
    change.end();
    key(&mut other, 1, KeyMode::NoKeyUpdate).unwrap();
    for session in [&mut reference, &mut other] {
        session.end();
    }
    finish(deletion).end();
}

#[test]
fn a_key_is_as_weak_again_as_at_the_savepoint() {
    use KeyMode::{Exclusive, KeyShare, NoKeyUpdate, Shared, Update};
    let manager = manager();
    let (mut session, mut other) = (hasty(&manager), hasty(&manager));
    key(&mut session, 1, KeyShare).unwrap();
    let first = session.savepoint();
    key(&mut session, 1, Shared).unwrap();
    let second = session.savepoint();
    key(&mut session, 1, NoKeyUpdate).unwrap();
    key(&mut session, 1, Exclusive).unwrap();
    key(&mut session, 2, KeyShare).unwrap();
    key(&mut session, 2, Exclusive).unwrap();
    let mut allowed = |expected: &[KeyMode]| {
        for mode in KEY_MODES {
            let answer = granted(key(&mut other, 1, mode));
            assert_eq!(answer, expected.contains(&mode), "{mode:?} of {expected:?}");
            other.end();
        }
        let is_free = granted(key(&mut other, 2, Exclusive));
        assert_eq!(is_free, !expected.is_empty());
        other.end();
    };
    allowed(&[]);
    session.release_since(second, PageId(99));
    allowed(&[KeyShare, Shared, Update]);
    session.release_since(first, PageId(99));
    allowed(&[KeyShare, Shared, NoKeyUpdate, Update]);
}

#[test]
fn keys_of_all_lengths_are_told_apart() {
    let manager = manager();
    let (mut first, mut second) = (hasty(&manager), hasty(&manager));
    for words in 1..=32_usize {
        let mut words = vec![u64::MAX; words];
        first
            .lock_key(TABLE, TREE, &words, KeyMode::Exclusive)
            .unwrap();
        assert!(!granted(second.lock_key(
            TABLE,
            TREE,
            &words,
            KeyMode::Shared
        )));
        *words.last_mut().unwrap() = 0;
        assert!(granted(second.lock_key(
            TABLE,
            TREE,
            &words,
            KeyMode::Exclusive
        )));
    }
}

#[test]
fn nothing_is_left_of_sessions_that_are_gone() {
    let manager = manager();
    let mut sessions: Vec<_> = (0..4).map(|_| hasty(&manager)).collect();
    for (number, session) in sessions.iter_mut().enumerate() {
        for at in 0..500 {
            key(
                session,
                number as u64 * 1000 + at,
                KEY_MODES[at as usize % 3],
            )
            .unwrap();
        }
        range(session, 10_000, 20_000).unwrap();
        assert_eq!(session.held(), 503);
        if number == 0 {
            session.end();
            assert_eq!(session.held(), 0);
        }
    }
    assert!(manager.heads() > 1500 && manager.taken() > 1500);
    drop(sessions);
    assert_eq!((manager.heads(), manager.taken()), (0, 0));
    assert!(manager.queues.bucket(TREE).is_empty());
    // Partition and table were first locked for reading.
    assert_eq!(manager.counters().acquired, 4 * (503 + 2));
}

#[test]
fn read_committed_gives_back_what_it_only_read() {
    let manager = manager();
    let (mut reader, mut writer) = (hasty(&manager), hasty(&manager));
    key(&mut reader, 1, KeyMode::Shared).unwrap();
    range(&mut reader, 100, 200).unwrap();
    let savepoint = reader.savepoint();
    key(&mut reader, 1, KeyMode::Shared).unwrap();
    key(&mut reader, 2, KeyMode::Shared).unwrap();
    key(&mut reader, 3, KeyMode::Update).unwrap();
    key(&mut reader, 4, KeyMode::Exclusive).unwrap();
    key(&mut reader, 5, KeyMode::Shared).unwrap();
    key(&mut reader, 5, KeyMode::Exclusive).unwrap();
    range(&mut reader, 150, 300).unwrap();
    range(&mut reader, 400, 500).unwrap();
    reader.release_shared(savepoint);
    for (number, free) in [
        (1, false),
        (2, true),
        (3, false),
        (4, false),
        (5, false),
        (100, false),
        (200, false),
        (250, true),
        (450, true),
    ] {
        let answer = granted(key(&mut writer, number, KeyMode::Exclusive));
        assert_eq!(answer, free, "{number}");
        writer.end();
    }
    reader.end();
    for number in [1, 3, 4, 5, 100, 200] {
        key(&mut writer, number, KeyMode::Exclusive).unwrap();
    }
}

#[test]
fn the_limit_of_locks_is_exact_for_small_ones_and_a_statement_error() {
    let manager = LockManager::new(LockOptions {
        locks_max: 10,
        ..LockOptions::default()
    });
    let mut session = hasty(&manager);
    for number in 0..8 {
        key(&mut session, number, KeyMode::Exclusive).unwrap();
    }
    let error = key(&mut session, 8, KeyMode::Exclusive).unwrap_err();
    assert!(matches!(
        error,
        StorageError::LocksExhausted { locks_max: 10 }
    ));
    assert!(error.is_statement_error());
    assert!(range(&mut session, 50, 60).is_err());
    // A lock that is there already needs no room, and a stronger mode neither.
    key(&mut session, 7, KeyMode::Exclusive).unwrap();
    assert_eq!(session.held(), 10);
    let mut other = hasty(&manager);
    assert!(other.lock_table(TABLE, Mode::IntentShared).is_err());
    session.end_all();
    other.lock_table(TABLE, Mode::IntentShared).unwrap();
    drop((session, other));
    assert_eq!(manager.taken(), 0);
}

fn escalating() -> std::sync::Arc<LockManager> {
    LockManager::new(LockOptions {
        escalate_at: 100,
        ..LockOptions::default()
    })
}

#[test]
fn many_keys_become_one_table() {
    for (mode, excluded) in [
        (KeyMode::Shared, Mode::IntentExclusive),
        (KeyMode::Exclusive, Mode::IntentShared),
    ] {
        let manager = escalating();
        let (mut session, mut other) = (hasty(&manager), hasty(&manager));
        session
            .lock_key(TableId(2), PageId(9), &[1], KeyMode::Exclusive)
            .unwrap();
        range(&mut session, 5000, 6000).unwrap();
        for number in 0..150 {
            key(&mut session, number, mode).unwrap();
        }
        assert_eq!(
            session.held(),
            4,
            "partition, two tables, the key of the other one"
        );
        assert!(!granted(other.lock_table(TABLE, excluded)));
        session.end();
        assert!(granted(other.lock_table(TABLE, excluded)));
        assert_eq!(manager.counters().escalations, 1);
        assert!(manager.queues.bucket(TREE).is_empty());
    }
}

#[test]
fn keys_from_before_a_savepoint_stay_locked_after_an_escalation() {
    let is_free = |manager: &std::sync::Arc<LockManager>, number: u64| {
        let mut other = hasty(manager);
        granted(key(&mut other, number, KeyMode::KeyShare))
    };
    for before in [1, 60] {
        let manager = escalating();
        let mut session = hasty(&manager);
        for number in 0..before {
            key(&mut session, number, KeyMode::Exclusive).unwrap();
        }
        let savepoint = session.savepoint();
        for number in before..150 {
            key(&mut session, number, KeyMode::Exclusive).unwrap();
        }
        session.release_since(savepoint, PageId(99));
        assert!(!is_free(&manager, 0), "{before}");
        session.end();
        assert_eq!(manager.counters().escalations, 1);
        assert!(is_free(&manager, 0));
    }
    // All that the table's lock stands for is newer.
    let manager = escalating();
    let mut session = hasty(&manager);
    let savepoint = session.savepoint();
    for number in 0..150 {
        key(&mut session, number, KeyMode::Exclusive).unwrap();
    }
    session.release_since(savepoint, PageId(99));
    assert!(is_free(&manager, 0));
}

#[test]
fn escalation_that_is_refused_is_tried_again_later() {
    let manager = escalating();
    let (mut session, mut other) = (hasty(&manager), hasty(&manager));
    key(&mut other, 9_000, KeyMode::Shared).unwrap();
    for number in 0..120 {
        key(&mut session, number, KeyMode::Exclusive).unwrap();
    }
    assert_eq!(session.held(), 122);
    other.end();
    for number in 120..200 {
        key(&mut session, number, KeyMode::Exclusive).unwrap();
    }
    assert_eq!(session.held(), 2);
    session.end();
    assert!(granted(other.lock_table(TABLE, Mode::Exclusive)));
}

#[test]
fn errors_name_the_thing_and_the_mend() {
    let manager = manager();
    let (mut first, mut second) = (hasty(&manager), hasty(&manager));
    key(&mut first, 1, KeyMode::Exclusive).unwrap();
    let error = key(&mut second, 1, KeyMode::Shared).unwrap_err();
    assert!(!error.is_statement_error());
    let text = error.to_string();
    assert!(
        text.contains("a key of the index with root") && text.contains("run it again"),
        "{text}"
    );
    let text = second
        .lock_table(TABLE, Mode::Shared)
        .unwrap_err()
        .to_string();
    assert!(text.contains("table number 1"), "{text}");
    let text = range(&mut second, 0, 9).unwrap_err().to_string();
    assert!(text.contains("a range of keys"), "{text}");
    assert_eq!(manager.counters().timeouts, 0, "published at the end");
    second.end();
    assert_eq!(manager.counters().timeouts, 3);
}

#[test]
fn a_list_of_locks_excludes_the_same_when_it_is_taken_again() {
    let manager = manager();
    let mut first = hasty(&manager);
    first.lock_table(TableId(3), Mode::Shared).unwrap();
    key(&mut first, 5, KeyMode::Shared).unwrap();
    key(&mut first, 6, KeyMode::Exclusive).unwrap();
    let list = first.held_locks();
    let other = self::manager();
    let mut again = hasty(&other);
    for held in &list {
        again.lock_again(held).unwrap();
    }
    assert_eq!(again.held_locks(), list);
    for manager in [&manager, &other] {
        let mut second = hasty(manager);
        assert!(granted(key(&mut second, 5, KeyMode::Shared)));
        assert!(!granted(key(&mut second, 5, KeyMode::Exclusive)));
        assert!(!granted(key(&mut second, 6, KeyMode::Shared)));
        assert!(!granted(
            second.lock_table(TableId(3), Mode::IntentExclusive)
        ));
        assert!(granted(second.lock_table(TableId(3), Mode::IntentShared)));
    }
}

#[test]
fn a_successor_holds_nothing_and_the_locks_stay() {
    let manager = manager();
    let mut first = hasty(&manager);
    key(&mut first, 5, KeyMode::Exclusive).unwrap();
    let mut second = first.successor();
    second.set_wait_limit(std::time::Duration::ZERO);
    assert_eq!(second.held(), 0);
    assert!(!granted(key(&mut second, 5, KeyMode::Shared)));
    drop(first);
    assert!(granted(key(&mut second, 5, KeyMode::Shared)));
}

#[test]
fn claims_of_tables_are_those_of_open_transactions() {
    let manager = manager();
    let (mut first, mut second) = (hasty(&manager), hasty(&manager));
    key(&mut first, 5, KeyMode::Exclusive).unwrap();
    second.lock_table(TableId(2), Mode::Shared).unwrap();
    let modes = |manager: &LockManager| -> Vec<_> {
        let claims = manager.table_claims().into_iter();
        let mut claims: Vec<_> = claims
            .map(|claim| (claim.table.0, claim.owner, claim.mode, claim.is_held))
            .collect();
        claims.sort_by_key(|claim| claim.0);
        claims
    };
    let expected = [
        (TABLE.0, first.owner().number(), Mode::IntentExclusive, true),
        (2, second.owner().number(), Mode::Shared, true),
    ];
    assert_eq!(modes(&manager), expected);
    // An intention that stays with its session is nobody's.
    first.end();
    second.end();
    assert!(modes(&manager).is_empty());
}
