//! Advisory locks: names that mean something to clients only.
//!
//! They are held by a lock session of their own, which acts for the connection's transaction, so a
//! deadlock that goes through them is found, and which outlives transactions. A key may be locked
//! several times, for the transaction and for the connection; it is free when all of them have
//! ended, and until then as strong as the strongest of them. A rollback to a mark gives back what
//! the transaction has taken since.

use super::client::Connection;
use super::row_locks::{Wait, is_busy, lock_error};
use crate::error::Result;
use std::collections::BTreeMap;
use storage::engine::PageId;
use storage::lock::{KeyMode, LockSession, LockWait};
use storage::record::TableId;

/// Name of an advisory lock. The two kinds of names do not meet, as in `PostgreSQL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdvisoryKey {
    /// One number.
    One(i64),
    /// Two numbers.
    Two(i32, i32),
}

/// Whether others may have an advisory lock too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdvisoryMode {
    /// Others may have it in this mode.
    Shared,
    /// Nobody else has it.
    Exclusive,
}

/// How long an advisory lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Until the transaction ends.
    Transaction,
    /// Until [`Connection::advisory_unlock`], once for each time, or the end of the connection.
    Connection,
}

/// A kind of lock that a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// A table.
    Table,
    /// A row, or a key of a unique index.
    Row,
    /// An advisory lock.
    Advisory,
}

impl LockKind {
    /// The kind of lock that a wait of [`Database::lock_waits`](crate::Database::lock_waits) is
    /// for.
    pub fn of(wait: &LockWait) -> Self {
        match wait.tree {
            None => Self::Table,
            Some(TREE) => Self::Advisory,
            Some(_) => Self::Row,
        }
    }
}

/// No table has this number.
const TABLE: TableId = TableId(u32::MAX);
const TREE: PageId = PageId(u32::MAX);

/// The advisory locks of a connection.
pub(super) struct Advisory {
    locks: LockSession,
    held: BTreeMap<AdvisoryKey, Claims>,
    /// Those that the transaction has taken, in their order.
    taken: Vec<(AdvisoryKey, AdvisoryMode)>,
}

/// How often a key is held, for the transaction and for the connection.
#[derive(Clone, Copy, Default)]
struct Claims {
    by_transaction: Counts,
    by_connection: Counts,
}

/// How often a key is held in each mode.
#[derive(Clone, Copy, Default)]
struct Counts {
    shared: u32,
    exclusive: u32,
}

impl Counts {
    fn of(&mut self, mode: AdvisoryMode) -> &mut u32 {
        match mode {
            AdvisoryMode::Shared => &mut self.shared,
            AdvisoryMode::Exclusive => &mut self.exclusive,
        }
    }
}

impl Claims {
    /// The strongest mode in which it is held.
    fn mode(self) -> Option<AdvisoryMode> {
        let Counts { shared, exclusive } = self.by_transaction;
        let (all_shared, all_exclusive) = (
            shared + self.by_connection.shared,
            exclusive + self.by_connection.exclusive,
        );
        match (all_shared, all_exclusive) {
            (0, 0) => None,
            (_, 0) => Some(AdvisoryMode::Shared),
            _ => Some(AdvisoryMode::Exclusive),
        }
    }
}

impl Advisory {
    fn new(locks: &LockSession) -> Box<Self> {
        let mut locks = locks.companion();
        locks.keep_keys();
        Box::new(Self {
            locks,
            held: BTreeMap::new(),
            taken: Vec::new(),
        })
    }

    /// Belongs to the transactions of other locks from now on.
    pub(super) fn act_for(&mut self, locks: &LockSession) {
        self.locks.act_for(Some(locks.owner()));
    }

    /// Whether locks end with the transaction.
    pub(super) fn has_of_transaction(&self) -> bool {
        !self.taken.is_empty()
    }

    /// How many the transaction has taken.
    pub(super) fn taken(&self) -> usize {
        self.taken.len()
    }

    /// Gives back what the transaction has taken after the first `count`.
    pub(super) fn release_since(&mut self, count: usize) {
        while self.taken.len() > count
            && let Some((key, mode)) = self.taken.pop()
        {
            self.release(key, |claims| *claims.by_transaction.of(mode) -= 1);
        }
    }

    /// Changes the claims on a key, and gives back of its lock what they no longer need.
    fn release(&mut self, key: AdvisoryKey, change: impl FnOnce(&mut Claims)) {
        let Some(claims) = self.held.get_mut(&key) else {
            return;
        };
        change(claims);
        match claims.mode() {
            None => {
                self.held.remove(&key);
                self.locks.unlock_key(TREE, &name(key));
            }
            Some(AdvisoryMode::Shared) => self.locks.share_key(TREE, &name(key)),
            Some(AdvisoryMode::Exclusive) => {}
        }
    }
}

fn name(key: AdvisoryKey) -> [u64; 2] {
    match key {
        AdvisoryKey::One(number) => [0, number.cast_unsigned()],
        AdvisoryKey::Two(first, second) => {
            let high = u64::from(first.cast_unsigned()) << 32;
            [1, high | u64::from(second.cast_unsigned())]
        }
    }
}

impl Connection {
    /// Takes an advisory lock; false if others have it, and the call was not to wait.
    ///
    /// # Errors
    ///
    /// `LockTimeout`, `Deadlock`, `Interrupted`;
    /// [`NoTransaction`](crate::Error::NoTransaction) if it is for the transaction and none is
    /// open.
    pub fn advisory_lock(
        &mut self,
        key: AdvisoryKey,
        mode: AdvisoryMode,
        scope: Scope,
        wait: Wait,
    ) -> Result<bool> {
        self.check_interrupt()?;
        if scope == Scope::Transaction {
            self.open()?;
        }
        let (locks, advisory) = self.lock_sessions();
        let advisory = advisory.get_or_insert_with(|| Advisory::new(locks));
        let Advisory { locks, held, taken } = &mut **advisory;
        locks.set_wait_limit(wait.limit());
        let key_mode = match mode {
            AdvisoryMode::Shared => KeyMode::Shared,
            AdvisoryMode::Exclusive => KeyMode::Exclusive,
        };
        let locked = locks.lock_key(TABLE, TREE, &name(key), key_mode);
        match locked.map_err(lock_error) {
            Err(error) if wait == Wait::Never && is_busy(&error) => return Ok(false),
            locked => locked?,
        }
        let claims = held.entry(key).or_default();
        match scope {
            // Once is enough: the first claim outlives the later ones.
            Scope::Transaction => {
                let count = claims.by_transaction.of(mode);
                if std::mem::replace(count, 1) == 0 {
                    taken.push((key, mode));
                }
            }
            Scope::Connection => *claims.by_connection.of(mode) += 1,
        }
        Ok(true)
    }

    /// Gives all advisory locks of the connection back. Those of the transaction stay until it
    /// ends.
    pub fn advisory_unlock_all(&mut self) {
        let (_, Some(advisory)) = self.lock_sessions() else {
            return;
        };
        for key in advisory.held.keys().copied().collect::<Vec<_>>() {
            advisory.release(key, |claims| claims.by_connection = Counts::default());
        }
    }

    /// Gives an advisory lock of the connection back, once; false if it has none in this mode.
    /// Those of the transaction stay until it ends.
    pub fn advisory_unlock(&mut self, key: AdvisoryKey, mode: AdvisoryMode) -> bool {
        let (_, Some(advisory)) = self.lock_sessions() else {
            return false;
        };
        let claims = advisory.held.get_mut(&key);
        let is_held = claims.is_some_and(|claims| *claims.by_connection.of(mode) > 0);
        if is_held {
            advisory.release(key, |claims| *claims.by_connection.of(mode) -= 1);
        }
        is_held
    }
}
