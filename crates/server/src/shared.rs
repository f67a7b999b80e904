//! State that all threads of a server share, and the slots of its connections.
//!
//! A connection holds a slot from its admission to its end. Slots are counted, so that there are
//! never more connections than the options allow.

use crate::Options;
use crate::counts::Counts;
use crate::log::Log;
use crate::pace::Pace;
use crate::registry::Registry;
use crate::spin::Awake;
use crate::tls::Identity;
use sql::{Sql, SqlError, SqlState};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// State that all threads of a server share.
pub(crate) struct Shared {
    pub(crate) sql: Arc<Sql>,
    pub(crate) options: RwLock<Arc<Options>>,
    pub(crate) log: Log,
    pub(crate) lock_waits: Pace,
    pub(crate) statistics: Pace,
    /// Of looks at the archives of the logs.
    pub(crate) archives: Pace,
    pub(crate) registry: Arc<Registry>,
    /// The operating system's user that owns the database.
    pub(crate) owner: u32,
    /// The certificate of the server, if it has one.
    pub(crate) identity: RwLock<Option<Arc<Identity>>>,
    pub(crate) awake: Arc<Awake>,
    pub(crate) counts: Counts,
    /// Makes up salts of roles that do not exist.
    pub(crate) secret: [u8; 32],
    /// Wrong passwords in a row.
    pub(crate) failures: AtomicU32,
    /// Connections that have begun.
    pub(crate) begun: AtomicUsize,
    pub(crate) is_ending: AtomicBool,
    /// Each thread of a connection has a share of it, until it has nothing else left.
    pub(crate) threads: Arc<()>,
}

/// Most slots that are kept for superusers.
const KEPT_SLOTS_MAX: usize = 3;

/// The slots that are kept for superusers.
pub(crate) fn kept_slots(connections_max: usize) -> usize {
    (connections_max / 10).min(KEPT_SLOTS_MAX)
}

impl Shared {
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::SeqCst)
    }

    pub(crate) fn options(&self) -> Arc<Options> {
        let options = self.options.read();
        Arc::clone(&options.unwrap_or_else(PoisonError::into_inner))
    }

    /// The certificate of the server, if it has one.
    pub(crate) fn identity(&self) -> Option<Arc<Identity>> {
        let identity = self.identity.read();
        identity.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A slot for one more connection. Of every ten one is kept for superusers, and three at most:
    /// clients that take all others must not keep those out who can end them.
    pub(crate) fn take_slot(self: &Arc<Self>, is_superuser: bool) -> Result<Slot, SqlError> {
        if self.is_ending() {
            let message = "the database system is shutting down";
            return Err(SqlError::new(SqlState::CANNOT_CONNECT_NOW, message));
        }
        let slot = Slot(Arc::clone(self));
        let connections_max = self.options().connections_max;
        let kept = kept_slots(connections_max);
        let begun = self.begun.fetch_add(1, Ordering::SeqCst);
        if begun >= connections_max {
            return Err(too_many());
        }
        if !is_superuser && begun >= connections_max - kept {
            let message = "remaining connection slots are reserved for non-replication superuser \
                           connections";
            return Err(too_many_because(message));
        }
        Ok(slot)
    }
}

/// The slot of a connection, given back at its end.
pub(crate) struct Slot(Arc<Shared>);

impl Slot {
    pub(crate) fn counts(&self) -> &Counts {
        &self.0.counts
    }

    /// The operating system's user that owns the database.
    pub(crate) fn owner(&self) -> u32 {
        self.0.owner
    }

    pub(crate) fn log(&self) -> &Log {
        &self.0.log
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.begun.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The refusal of one connection more than are allowed.
pub(crate) fn too_many() -> SqlError {
    too_many_because("sorry, too many clients already")
}

fn too_many_because(message: &str) -> SqlError {
    SqlError::new(SqlState::TOO_MANY_CONNECTIONS, message)
        .hint("Close connections, or raise max_connections.")
}
