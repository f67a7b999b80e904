//! A partition that a session holds, and the steps of its engine there.
//!
//! The table of states is in [`super`]. Each step of the engine's own code runs inside
//! [`Held::enter`]: a partition that a step has left in an unknown state is stopped when it is put
//! back, and so is one in which a step has panicked.

use crate::core::Core;
use crate::error::{Error, Result};
use crate::partition::{Partition, SessionSlot};
use crate::sync::MutexGuard;
use storage::StorageError;
use storage::engine::{CommitTicket, Durability, Engine, Sessions};

/// Time for which a session keeps its partitions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotUse {
    /// Until its transaction ends; others are taken as they are touched.
    Transaction,
    /// For many transactions; no others are taken.
    Worker,
}

/// Commits that must be durable before a transaction is acknowledged.
#[derive(Default)]
pub(crate) struct PendingAcks {
    first: Option<(u32, CommitTicket)>,
    more: Vec<(u32, CommitTicket)>,
}

impl PendingAcks {
    pub(super) fn add(&mut self, partition: u32, ticket: CommitTicket) {
        if self.first.is_none() {
            self.first = Some((partition, ticket));
        } else {
            self.more.push((partition, ticket));
        }
    }

    /// The only one, if there is exactly one.
    #[inline]
    pub(crate) fn single(&self) -> Option<(u32, CommitTicket)> {
        self.first.filter(|_| self.more.is_empty())
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, CommitTicket)> + '_ {
        self.first.iter().chain(&self.more).copied()
    }
}

/// One held partition.
pub(super) struct Held<'db> {
    pub(super) partition: &'db Partition,
    pub(super) slot: MutexGuard<'db, SessionSlot>,
    /// The partition's other slots, if nobody else may run transactions there.
    pub(super) rest: Vec<MutexGuard<'db, SessionSlot>>,
    pub(super) state: State,
    /// Whether commits may have become durable since the partition was taken.
    pub(super) committed: bool,
    /// Ticket of the transaction, if it has written and is committed. The data that it has read has
    /// older ones.
    pub(super) ticket: Option<CommitTicket>,
}

/// State of a held partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No transaction is open.
    Idle,
    /// A transaction is open and has changed nothing here.
    Reading,
    /// A transaction is open and has changed something here, or tried to.
    Writing,
    /// The engine has committed a transaction by its number in the commit table.
    Decided,
    /// The engine's own code runs in a transaction, or has left it in an unknown state.
    Entered,
    /// The engine has failed, and no transaction is open.
    Failed,
}

impl State {
    /// Whether the engine can undo a transaction that is open in it.
    #[inline]
    pub(super) const fn is_open(self) -> bool {
        matches!(self, Self::Reading | Self::Writing)
    }

    /// Whether nobody may use the engine any more.
    #[inline]
    pub(super) const fn is_stopped(self) -> bool {
        matches!(self, Self::Entered | Self::Failed)
    }
}

impl Held<'_> {
    #[inline]
    pub(super) fn number(&self) -> u32 {
        self.partition.number
    }

    /// Runs a step of the engine's own code; afterwards the state is `done` or `failed`. A step
    /// that panics leaves the partition entered.
    #[inline]
    pub(super) fn enter<R>(
        &mut self,
        done: State,
        failed: State,
        step: impl FnOnce(&mut dyn Engine) -> storage::Result<R>,
    ) -> storage::Result<R> {
        self.state = State::Entered;
        let result = step(&mut *self.slot.engine);
        self.state = if result.is_ok() { done } else { failed };
        result
    }

    /// Makes every commit in this partition durable.
    pub(super) fn force(&mut self) -> storage::Result<()> {
        self.enter(self.state, State::Failed, |engine| engine.force())
    }

    /// Finishes the preparation of its transaction here.
    pub(super) fn sync_prepared(&mut self) -> storage::Result<()> {
        self.enter(State::Writing, State::Writing, |engine| {
            let sessions = engine.sessions();
            sessions.map_or(Ok(()), Sessions::sync_prepared)
        })
    }

    /// Whether its transaction has locks here that others may wait for.
    pub(super) fn has_locks(&self) -> bool {
        self.state != State::Idle && self.slot.is_shared()
    }

    /// This partition if it was only read, and may have shown commits that are not durable yet.
    pub(super) fn read_ahead(&mut self) -> Option<&mut Self> {
        (self.state == State::Reading && self.slot.is_ahead()).then_some(self)
    }

    /// Makes durable what was committed before in this partition, which was only read.
    pub(super) fn settle_read(&mut self) -> storage::Result<()> {
        self.committed = true;
        self.enter(State::Reading, State::Entered, |engine| engine.force())
    }

    /// Adds the commit that must be durable before a transaction that has touched this partition is
    /// acknowledged.
    #[inline]
    pub(super) fn promise(&mut self, durability: Durability, promises: &mut PendingAcks) {
        let ticket = self.ticket.take();
        if durability == Durability::None {
            return;
        }
        let pending = match ticket {
            Some(ticket) => self.slot.is_pending(ticket).then_some(ticket),
            None => self.slot.is_ahead().then_some(self.slot.promised),
        };
        if let Some(pending) = pending {
            promises.add(self.number(), pending);
        }
    }

    /// Ends the transaction in this partition.
    #[inline]
    pub(super) fn commit(
        &mut self,
        core: &Core,
        durability: Durability,
        slot_use: SlotUse,
    ) -> Result<()> {
        match self.state {
            State::Writing => {}
            // There is nothing to undo: an abort ends the transaction without a place in the order
            // of commits.
            State::Reading => {
                return match self.enter(State::Idle, State::Entered, |engine| engine.abort()) {
                    Ok(()) => Ok(()),
                    Err(error) => Err(error.into()),
                };
            }
            State::Idle | State::Decided | State::Failed => return Ok(()),
            State::Entered => {
                return Err(Error::Stopped {
                    partition: self.number(),
                });
            }
        }
        let commit = |engine: &mut dyn Engine| engine.commit(durability);
        let ticket = match self.enter(State::Idle, State::Entered, commit) {
            Ok(ticket) => ticket,
            Err(error) => return Err(self.not_committed(error)),
        };
        self.committed = true;
        self.ticket = Some(ticket);
        if durability == Durability::Group {
            self.slot.promised = ticket;
            if slot_use == SlotUse::Transaction && core.leads_at_once {
                return self.lead();
            }
        }
        Ok(())
    }

    /// Commits a decided transaction. Its locks, if others wait for them, are released before it is
    /// durable: until then the commit table says that it is committed.
    pub(super) fn commit_prepared(&mut self) -> storage::Result<CommitTicket> {
        let durability = if self.slot.is_shared() {
            Durability::Group
        } else {
            Durability::Immediate
        };
        self.committed = true;
        self.enter(State::Decided, State::Failed, |engine| {
            engine.commit(durability)
        })
    }

    #[cold]
    #[inline(never)]
    fn not_committed(&mut self, error: StorageError) -> Error {
        if error.is_statement_error() {
            self.state = State::Writing;
            return error.into();
        }
        Error::InDoubt {
            cause: error.to_string(),
        }
    }

    /// Makes a group durable that nobody can join, because nobody waits.
    fn lead(&mut self) -> Result<()> {
        let promised = self.slot.promised;
        if self.partition.is_wanted() || !self.slot.is_pending(promised) {
            return Ok(());
        }
        // A failure does not stop the partition here: the engine refuses every later step, and says
        // why. A step that panics does.
        let forced = self.enter(State::Idle, State::Idle, |engine| engine.force());
        forced.map_err(|error| Error::InDoubt {
            cause: error.to_string(),
        })
    }

    #[inline]
    pub(super) fn put_back(mut self) {
        self.rest.clear();
        if self.state.is_stopped() {
            self.partition.stop(self.slot);
            return;
        }
        if self.committed {
            self.partition.note_change();
            self.partition.note_durable(&mut self.slot);
        }
        self.partition.put(self.slot);
    }
}
