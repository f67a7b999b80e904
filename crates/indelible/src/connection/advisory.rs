//! Advisory locks: names that mean something to clients only.
//!
//! They are held by a lock session of their own, which acts for the connection's transaction, so a
//! deadlock that goes through them is found, and which outlives transactions. A key may be locked
//! several times, for the transaction and for the connection; it is free when all of them have
//! ended, and until then as strong as the strongest of them was.

use super::client::Connection;
use super::row_locks::{Wait, is_busy, lock_error};
use crate::error::Result;
use std::collections::BTreeMap;
use storage::engine::PageId;
use storage::lock::{KeyMode, LockSession};
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

/// No table has this number.
const TABLE: TableId = TableId(u32::MAX);
const TREE: PageId = PageId(u32::MAX);

/// The advisory locks of a connection.
pub(super) struct Advisory {
    locks: LockSession,
    held: BTreeMap<AdvisoryKey, Claims>,
}

/// Why a key is held.
#[derive(Clone, Copy, Default)]
struct Claims {
    by_transaction: bool,
    shared: u32,
    exclusive: u32,
}

impl Claims {
    fn is_empty(self) -> bool {
        !self.by_transaction && self.shared == 0 && self.exclusive == 0
    }

    fn of(&mut self, mode: AdvisoryMode) -> &mut u32 {
        match mode {
            AdvisoryMode::Shared => &mut self.shared,
            AdvisoryMode::Exclusive => &mut self.exclusive,
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
        })
    }

    /// Belongs to the transactions of other locks from now on.
    pub(super) fn act_for(&mut self, locks: &LockSession) {
        self.locks.act_for(Some(locks.owner()));
    }

    /// Whether locks end with the transaction.
    pub(super) fn has_of_transaction(&self) -> bool {
        self.held.values().any(|claims| claims.by_transaction)
    }

    /// The transaction has ended.
    pub(super) fn end_transaction(&mut self) {
        let Self { locks, held } = self;
        held.retain(|key, claims| {
            claims.by_transaction = false;
            if claims.is_empty() {
                locks.unlock_key(TREE, &name(*key));
            }
            !claims.is_empty()
        });
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
        let Advisory { locks, held } = &mut **advisory.get_or_insert_with(|| Advisory::new(locks));
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
            Scope::Transaction => claims.by_transaction = true,
            Scope::Connection => *claims.of(mode) += 1,
        }
        Ok(true)
    }

    /// Gives all advisory locks of the connection back. Those of the transaction stay until it
    /// ends.
    pub fn advisory_unlock_all(&mut self) {
        let (_, Some(advisory)) = self.lock_sessions() else {
            return;
        };
        let Advisory { locks, held } = &mut **advisory;
        held.retain(|key, claims| {
            (claims.shared, claims.exclusive) = (0, 0);
            if claims.is_empty() {
                locks.unlock_key(TREE, &name(*key));
            }
            !claims.is_empty()
        });
    }

    /// Gives an advisory lock of the connection back, once; false if it has none in this mode.
    /// Those of the transaction stay until it ends.
    pub fn advisory_unlock(&mut self, key: AdvisoryKey, mode: AdvisoryMode) -> bool {
        let (_, Some(advisory)) = self.lock_sessions() else {
            return false;
        };
        let Advisory { locks, held } = &mut **advisory;
        let Some(claims) = held.get_mut(&key) else {
            return false;
        };
        let count = claims.of(mode);
        if *count == 0 {
            return false;
        }
        *count -= 1;
        if claims.is_empty() {
            held.remove(&key);
            locks.unlock_key(TREE, &name(key));
        }
        true
    }
}
