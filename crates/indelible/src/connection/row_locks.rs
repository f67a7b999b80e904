//! Locks of rows, unique keys and tables, in the lock manager that all connections share.
//!
//! A row has two names, its *key* and its *content*. The four strengths are modes on these:
//!
//! | strength | key | content | for |
//! |---|---|---|---|
//! | key share | shared | – | a reference to the row that must stay valid |
//! | share | shared | shared | a row that must not change |
//! | no key update | – | exclusive | a change of columns that are in no unique key |
//! | update | exclusive | exclusive | an insertion, a deletion, a change of a unique key |
//!
//! These are the conflicts of `PostgreSQL`, without a mode for each. A unique secondary key has a
//! name too: whoever takes or frees it holds that, so another transaction waits for the outcome.
//! One lock manager has all partitions, so one search finds a deadlock over several of them.
//!
//! Order: the key before the content. Nobody waits for a lock here while holding a session slot of
//! a partition or the clock.

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

/// Kinds of names in the tree of a table.
const KEY: u64 = 0;
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
        lock_names(locks, table, key, strength)?;
        let Some(holder) = lists.holder(locks, table, listed_name(key)) else {
            return Ok(());
        };
        // They are new: who had locks here before kept others from listing. Whoever waits must not
        // be in the way of the other transaction's next change of its row.
        for kind in [CONTENT, KEY] {
            locks.unlock_key(PageId(table.0), &name_of(kind, key));
        }
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

fn lock_names(
    locks: &mut LockSession,
    table: TableId,
    key: &KeyBuf,
    strength: RowLock,
) -> Result<()> {
    let (of_key, of_content) = match strength {
        RowLock::KeyShare => (Some(KeyMode::Shared), None),
        RowLock::Share => (Some(KeyMode::Shared), Some(KeyMode::Shared)),
        RowLock::NoKeyUpdate => (None, Some(KeyMode::Exclusive)),
        RowLock::Update => (Some(KeyMode::Exclusive), Some(KeyMode::Exclusive)),
    };
    for (kind, mode) in [(KEY, of_key), (CONTENT, of_content)] {
        if let Some(mode) = mode {
            lock_name(locks, table, kind, key, mode)?;
        }
    }
    Ok(())
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
