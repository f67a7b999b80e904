//! Locks of rows, unique keys and tables, in the lock manager that all connections share.
//!
//! A row has one name, which is locked with the four strengths of `PostgreSQL`:
//!
//! | strength | mode | for |
//! |---|---|---|
//! | key share | `KeyShare` | a reference to the row that must stay valid |
//! | share | `Shared` | a row that must not change |
//! | no key update | `NoKeyUpdate` | a change of columns that are in no unique key |
//! | update | `Exclusive` | an insertion, a deletion, a change of a unique key |
//!
//! A unique secondary key has a name too: whoever takes or frees it holds that, so another
//! transaction waits for the outcome. One lock manager has all partitions, so one search finds a
//! deadlock over several of them.
//!
//! Nobody waits for a lock here while holding a session slot of a partition or the clock.

use super::lists::Lists;
use super::omission::{Omission, is_left_out};
use crate::error::{Error, Result};
use std::time::Duration;
use storage::StorageError;
use storage::engine::PageId;
use storage::lock::{KeyMode, LockSession};
use storage::record::{IndexId, KeyBuf, MAX_KEY_WORDS, TableId, key_hash};

/// Strength of a row lock, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowLock {
    /// Others may change the row, but neither delete it nor change one of its unique keys.
    KeyShare,
    /// Nobody else changes the row.
    Share,
    /// Nobody else changes the row, or locks it against changes of its content.
    NoKeyUpdate,
    /// Nobody else has a lock on the row.
    Update,
}

impl RowLock {
    fn mode(self) -> KeyMode {
        match self {
            Self::KeyShare => KeyMode::KeyShare,
            Self::Share => KeyMode::Shared,
            Self::NoKeyUpdate => KeyMode::NoKeyUpdate,
            Self::Update => KeyMode::Exclusive,
        }
    }
}

/// How long a lock is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// At most so long.
    Limit(Duration),
    /// Not at all: `NOWAIT` and `SKIP LOCKED` of SQL.
    Never,
}

impl Wait {
    pub(super) fn limit(self) -> Duration {
        match self {
            Self::Limit(limit) => limit,
            Self::Never => Duration::ZERO,
        }
    }
}

/// Kinds of names in the tree of a table: rows by their primary keys, and keys of unique indexes.
const ROW: u64 = 0;
/// The content of a row, apart from its key, in the locks of transactions that were prepared by an
/// earlier version.
const CONTENT: u64 = 1;
const UNIQUE: u64 = 2;

/// Locks a row, which another transaction may have listed as locked.
pub(super) fn lock_row(
    locks: &mut LockSession,
    lists: &Lists,
    (table, key): (TableId, &KeyBuf),
    strength: RowLock,
) -> Result<()> {
    if is_left_out(Omission::RowLocks) {
        return Ok(());
    }
    loop {
        lock_name(locks, table, ROW, key, strength.mode())?;
        let Some(holder) = lists.holder(locks, table, listed_name(key)) else {
            return Ok(());
        };
        // It is new: who had a lock here before kept others from listing. Whoever waits must not be
        // in the way of the other transaction's next change of its row.
        locks.unlock_key(PageId(table.0), &name_of(ROW, key));
        Lists::wait_for(locks, holder)?;
    }
}

/// The name of a row in a list. Two keys with one name exclude each other needlessly.
pub(super) fn listed_name(key: &KeyBuf) -> u64 {
    match **key {
        [word] => word,
        _ => key_hash(key),
    }
}

/// Locks a key of a unique index, whether a row has it or not.
pub(super) fn lock_unique(
    locks: &mut LockSession,
    table: TableId,
    index: IndexId,
    key: &KeyBuf,
) -> Result<()> {
    if is_left_out(Omission::UniqueLocks) {
        return Ok(());
    }
    let kind = UNIQUE + u64::from(index.0);
    lock_name(locks, table, kind, key, KeyMode::Exclusive)
}

fn lock_name(
    locks: &mut LockSession,
    table: TableId,
    kind: u64,
    key: &KeyBuf,
    mode: KeyMode,
) -> Result<()> {
    locks
        .lock_key(table, PageId(table.0), &name_of(kind, key), mode)
        .map_err(lock_error)
}

fn name_of(kind: u64, key: &KeyBuf) -> KeyBuf {
    let mut name = KeyBuf::new();
    // A key of full length has its last words mixed. Two keys that become one name exclude each
    // other needlessly, and no more.
    let kept = key.len().min(MAX_KEY_WORDS - 1);
    let words = name.resized(kept + 1);
    words[..kept].copy_from_slice(&key[..kept]);
    let rest = key[kept..]
        .iter()
        .fold(0, |mixed: u64, word| mixed.rotate_left(7) ^ word);
    words[kept] = kind ^ rest.rotate_left(32);
    name
}

/// A lock of a transaction that an earlier version has prepared, as it is taken now. That version
/// locked key and content of a row by names of their own. In a name of full length they cannot be
/// distinguished: what either may be gets a lock that others of that version leave room for. Rows
/// that the transaction changes are locked for themselves.
pub(super) fn of_earlier(key: KeyBuf, mode: KeyMode) -> Vec<(KeyBuf, KeyMode)> {
    let last = key.last().copied();
    if key.len() == MAX_KEY_WORDS {
        let is_shared = mode == KeyMode::Shared;
        let mode = if is_shared {
            KeyMode::KeyShare
        } else {
            KeyMode::NoKeyUpdate
        };
        let mut other = key.clone();
        let length = other.len();
        other.resized(length)[length - 1] ^= ROW ^ CONTENT;
        return vec![(key, mode), (other, mode)];
    }
    match (last, mode) {
        (Some(ROW), KeyMode::Shared) => vec![(key, KeyMode::KeyShare)],
        (Some(CONTENT), mode) => {
            let mut row = key;
            let length = row.len();
            row.resized(length)[length - 1] = ROW;
            let is_shared = mode == KeyMode::Shared;
            let mode = if is_shared {
                mode
            } else {
                KeyMode::NoKeyUpdate
            };
            vec![(row, mode)]
        }
        (_, mode) => vec![(key, mode)],
    }
}

/// The error of a lock that was not granted. The limit of locks is that of connections.
pub(super) fn lock_error(error: StorageError) -> Error {
    match error {
        StorageError::LocksExhausted { locks_max } => Error::TooManyLocks { locks_max },
        other => other.into(),
    }
}

/// Whether a lock was not to be had without waiting.
pub(super) fn is_busy(error: &Error) -> bool {
    matches!(
        error,
        Error::Storage(StorageError::LockTimeout { .. } | StorageError::Deadlock { .. })
    )
}

#[cfg(test)]
mod tests {
    use super::{CONTENT, ROW, UNIQUE, name_of, of_earlier};
    use storage::lock::KeyMode;
    use storage::record::KeyBuf;

    #[test]
    fn locks_of_an_earlier_version_are_those_of_rows_now() {
        let key = KeyBuf::from_words(&[7, 1]);
        let names = [ROW, CONTENT, UNIQUE + 1].map(|kind| name_of(kind, &key));
        let [row, content, unique] = &names;
        for (name, before, expected, now) in [
            (row, KeyMode::Shared, row, KeyMode::KeyShare),
            (row, KeyMode::Exclusive, row, KeyMode::Exclusive),
            (content, KeyMode::Shared, row, KeyMode::Shared),
            (content, KeyMode::Exclusive, row, KeyMode::NoKeyUpdate),
            (unique, KeyMode::Exclusive, unique, KeyMode::Exclusive),
        ] {
            assert_eq!(of_earlier(name.clone(), before), [(expected.clone(), now)]);
        }
    }

    #[test]
    fn both_names_of_a_long_key_are_locked() {
        let long = KeyBuf::from_words(&[3; 32]);
        let (row, content) = (name_of(ROW, &long), name_of(CONTENT, &long));
        for (before, now) in [
            (KeyMode::Shared, KeyMode::KeyShare),
            (KeyMode::Exclusive, KeyMode::NoKeyUpdate),
        ] {
            let locks = of_earlier(content.clone(), before);
            for name in [&row, &content] {
                assert!(locks.contains(&(name.clone(), now)));
            }
        }
    }
}
