//! Intention locks that a session keeps from one transaction to the next.
//!
//! A holder's entry stays in the head; what changes hands is one word that the session and the head
//! share:
//!
//! | state | meaning | next states |
//! |---|---|---|
//! | active | a transaction has the lock | *idle* (`rest`), *wanted* (`want`) |
//! | wanted | as active, and its end has to go to the head | – : the lock is released there |
//! | idle | no transaction has it, its entry stays | *active* (`take_back`), *revoked* (`revoke`) |
//! | revoked | the entry is gone | – |
//!
//! The end of the transaction calls `rest`, a request that waits at the head `want`, the session's
//! next transaction `take_back`, and a session that needs the head `revoke`. `want` also revokes an
//! idle lock.
//!
//! 1. Taking back and laying down touch this word alone, no mutex.
//! 2. While a head has a queue, each of its holders is *wanted*: `want` and `revoke` run under the
//!    head's mutex, for all holders when a request enters the queue, and grants made while there is
//!    a queue start as *wanted*. So no end of a transaction passes a sleeper by.

use crate::sync::{AtomicU32, Ordering};

const ACTIVE: u32 = 0;
const WANTED: u32 = 1;
const IDLE: u32 = 2;
const REVOKED: u32 = 3;

/// The word, alone on its cache line: each transaction of the session stores to it.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Inheritance(AtomicU32);

impl Inheritance {
    pub(super) fn active() -> Self {
        Self(AtomicU32::new(ACTIVE))
    }

    /// Whether a transaction has the lock.
    pub(super) fn is_active(&self) -> bool {
        matches!(self.0.load(Ordering::Acquire), ACTIVE | WANTED)
    }

    fn swap(&self, from: u32, to: u32) -> bool {
        self.0
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// The session's next transaction has the lock, if it was not revoked.
    #[inline]
    pub(super) fn take_back(&self) -> bool {
        self.swap(IDLE, ACTIVE)
    }

    /// The transaction has ended and the lock stays idle, unless it is wanted.
    #[inline]
    pub(super) fn rest(&self) -> bool {
        self.swap(ACTIVE, IDLE)
    }

    /// Takes an idle lock away. Under the head's mutex.
    pub(super) fn revoke(&self) -> bool {
        self.swap(IDLE, REVOKED)
    }

    /// Makes sure that the end of the holder's transaction goes to the head; false if the lock was
    /// idle and is now revoked.
    pub(super) fn want(&self) -> bool {
        loop {
            if self.revoke() {
                return false;
            }
            if self.swap(ACTIVE, WANTED) || self.0.load(Ordering::Acquire) == WANTED {
                return true;
            }
        }
    }
}
