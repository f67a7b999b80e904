//! Goal: the lock manager grants compatible locks and no others, in order, to all waiters.
//!
//! Method: sessions on one thread probe with a wait limit of zero; where somebody has to sleep, a
//! thread does, and the test goes on when it is seen waiting. A random run of threads is checked
//! against a plain table of owners.

mod deadlocks;
mod holding;
mod inheriting;
mod random;
mod ranges;
mod waiting;

use super::{KeyMode, LockManager, LockOptions, LockSession, Mode};
use crate::error::{Result, StorageError};
use crate::record::TableId;
use crate::vocabulary::PageId;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

const TABLE: TableId = TableId(1);
const TREE: PageId = PageId(7);
/// Longer than any test waits for something that happens.
const LONG: Duration = Duration::from_mins(30);

const MODES: [Mode; 8] = [
    Mode::AccessShare,
    Mode::IntentShared,
    Mode::IntentExclusive,
    Mode::ShareUpdateExclusive,
    Mode::Shared,
    Mode::SharedIntentExclusive,
    Mode::Exclusive,
    Mode::AccessExclusive,
];
const KEY_MODES: [KeyMode; 5] = [
    KeyMode::KeyShare,
    KeyMode::Shared,
    KeyMode::NoKeyUpdate,
    KeyMode::Update,
    KeyMode::Exclusive,
];

fn manager() -> Arc<LockManager> {
    LockManager::new(LockOptions {
        wait_limit: LONG,
        ..LockOptions::default()
    })
}

/// A session that does not wait.
fn hasty(manager: &Arc<LockManager>) -> LockSession {
    let mut session = manager.session();
    session.set_wait_limit(Duration::ZERO);
    session
}

/// Whether a lock was granted; false if it would have had to wait.
fn granted(result: Result<()>) -> bool {
    match result {
        Ok(()) => true,
        Err(StorageError::LockTimeout { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

fn key(session: &mut LockSession, key: u64, mode: KeyMode) -> Result<()> {
    session.lock_key(TABLE, TREE, &[key], mode)
}

fn range(session: &mut LockSession, low: u64, high: u64) -> Result<bool> {
    session.lock_range(TABLE, TREE, &[low], &[high])
}

/// A request on a thread of its own, which gives the session back.
type Request = JoinHandle<(LockSession, Result<()>)>;

/// Lets a session ask for something and comes back when it waits.
fn start(
    manager: &LockManager,
    mut session: LockSession,
    ask: impl FnOnce(&mut LockSession) -> Result<()> + Send + 'static,
) -> Request {
    let before = manager.waiting();
    let thread = std::thread::spawn(move || {
        let result = ask(&mut session);
        (session, result)
    });
    while manager.waiting() == before {
        assert!(!thread.is_finished(), "it was to wait");
        std::thread::yield_now();
    }
    thread
}

fn finish(request: Request) -> LockSession {
    let (session, result) = request.join().unwrap();
    result.unwrap();
    session
}
