//! The wait-for graph of a database: one for the lock managers of all of its partitions.
//!
//! A node is a transaction. It is known by its *owner*, a number that is unique in the database:
//! that of the lock session with which it began. Lock sessions in other partitions that act for the
//! same transaction name the same owner ([`LockSession::act_for`](super::LockSession::act_for)), so
//! a transaction that waits in one partition blocks those that wait for its locks in all others.
//! Edges are not stored: a search reads them from the queues (`deadlock`).
//!
//! A transaction runs one statement at a time, so it waits in one queue at most. It notes the wait
//! under its owner, whichever partition the queue is in.

use super::deadlock::{self, Cycle};
use super::head::SessionId;
use super::wait::{Queue, Visible, Wait};
use crate::sync::{Mutex, MutexGuard, lock};
use crate::vocabulary::PageId;
use std::sync::Arc;

/// The lock sessions of all partitions of a database. Clones are handles on the same graph.
#[derive(Clone)]
pub struct WaitGraph(Arc<Nodes>);

struct Nodes {
    sessions: Mutex<Sessions>,
    search: Mutex<()>,
}

#[derive(Default)]
struct Sessions {
    all: Vec<Option<Arc<Visible>>>,
    free: Vec<SessionId>,
}

/// The transaction that locks belong to, in the search for deadlocks.
#[derive(Clone)]
pub struct LockOwner(pub(super) Arc<Visible>);

impl LockOwner {
    /// Its number, unique among the transactions that there are.
    pub fn number(&self) -> u32 {
        self.0.id
    }
}

/// A transaction that waits for a lock, as it was at some moment of the look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockWait {
    /// The number of its owner.
    pub owner: u32,
    /// The owners that it waits for.
    pub blockers: Vec<u32>,
    /// The tree with the key, or the range of keys, that it waits for; none for a whole table.
    pub tree: Option<PageId>,
}

impl std::fmt::Debug for LockOwner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LockOwner").field(&self.0.id).finish()
    }
}

impl Default for WaitGraph {
    fn default() -> Self {
        Self(Arc::new(Nodes {
            sessions: Mutex::new(Sessions::default()),
            search: Mutex::new(()),
        }))
    }
}

impl std::fmt::Debug for WaitGraph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitGraph").finish_non_exhaustive()
    }
}

impl WaitGraph {
    /// Adds a session, which `make` makes with its number.
    pub(super) fn add(&self, make: impl FnOnce(SessionId) -> Visible) -> Arc<Visible> {
        let sessions = &mut *lock(&self.0.sessions);
        let id = sessions.free.pop().unwrap_or_else(|| {
            sessions.all.push(None);
            sessions.all.len() as SessionId - 1
        });
        let visible = Arc::new(make(id));
        sessions.all[id as usize] = Some(Arc::clone(&visible));
        visible
    }

    /// Forgets a session that holds nothing.
    pub(super) fn remove(&self, session: SessionId) {
        let mut sessions = lock(&self.0.sessions);
        sessions.all[session as usize] = None;
        sessions.free.push(session);
    }

    pub(super) fn find(&self, session: SessionId) -> Option<Arc<Visible>> {
        lock(&self.0.sessions).all.get(session as usize)?.clone()
    }

    /// Replaces sessions by the owners of what they hold.
    pub(super) fn find_owners(&self, found: &mut [SessionId]) {
        let sessions = lock(&self.0.sessions);
        for session in found {
            if let Some(Some(visible)) = sessions.all.get(*session as usize) {
                *session = visible.owner();
            }
        }
    }

    pub(super) fn sessions(&self) -> Vec<Arc<Visible>> {
        lock(&self.0.sessions)
            .all
            .iter()
            .flatten()
            .cloned()
            .collect()
    }

    /// The transactions that wait for locks now. Each is looked at by itself, so together they need
    /// not be of one moment.
    pub fn waits(&self) -> Vec<LockWait> {
        let mut waits = Vec::new();
        for owner in self.sessions() {
            let Some(wait) = deadlock::waiting(&owner) else {
                continue;
            };
            let mut blockers = deadlock::blockers(self, &wait);
            blockers.sort_unstable();
            blockers.dedup();
            // Without any it has just been granted.
            if !blockers.is_empty() {
                waits.push(LockWait {
                    owner: owner.id,
                    blockers,
                    tree: self.tree_of(&wait),
                });
            }
        }
        waits
    }

    fn tree_of(&self, wait: &Wait) -> Option<PageId> {
        match wait.queue {
            Queue::Head { shard, entry } => {
                let session = self.find(wait.session)?;
                session.queues.shard(shard).tree_of(entry)
            }
            Queue::Range { tree, .. } | Queue::Writer { tree } => Some(tree),
        }
    }

    /// The cycle in which the owner waits for itself, if there is one. Then it is to leave its
    /// queue before it drops the guard, or to rouse the others.
    pub(super) fn search(&self, owner: &Arc<Visible>) -> (Option<Cycle>, MutexGuard<'_, ()>) {
        let guard = lock(&self.0.search);
        (deadlock::cycle_of(self, owner), guard)
    }

    /// Lets the sessions of a cycle search for themselves.
    pub(super) fn rouse(&self, cycle: &Cycle) {
        for (_, wait) in cycle {
            if let Some(session) = self.find(wait.session) {
                session.parker.rouse();
            }
        }
    }
}
