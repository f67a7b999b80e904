//! The driver of serial engines: it implements [`Engine`] for every [`Policy`].
//!
//! A serial engine runs one transaction at a time. The driver has its states, and decides which
//! calls are accepted in which; a policy has the tables, and writes what its method writes: before
//! the commit, at it, and at recovery. `engine/volatile.rs` is the smallest one.
//!
//! | state | accepts | left by |
//! |---|---|---|
//! | idle | `begin`, and the calls of [`Idle`] | `begin` → open |
//! | open | reads and changes | `commit`, `abort` → idle; `prepare` → prepared |
//! | prepared | `commit`, `abort` | they → idle |
//! | must abort | `abort` | it → idle |
//! | stopped | nothing | – |
//!
//! Invariants:
//! 1. A change that fails has no effect: it is rolled back, or the transaction must be aborted.
//! 2. After a step whose failure leaves medium and memory apart, nothing is accepted any more.

use crate::table::Space;
use std::ops::ControlFlow;
use std::sync::Arc;
use storage::engine::{
    CommitTicket, Durability, Engine, EngineStatus, Footprint, GlobalTxnId, Idle, Reads, ScanRange,
    VerifyReport,
};
use storage::failure::Failure;
use storage::record::{Changes, IndexDef, IndexId, KeyBuf, Row, TableDef, TableId};
use storage::table::Table;
use storage::{Result, StorageError};

/// The part of a serial engine that differs between methods. The driver calls a policy only in the
/// states that it names.
pub trait Policy: Send {
    /// The tables.
    type Space: Space;
    /// A savepoint of the open transaction.
    type Savepoint: Copy;

    /// Whether many rows are inserted as one change, for which the space has a quicker way.
    const INSERTS_TOGETHER: bool = false;

    /// The tables, for their definitions.
    fn space(&self) -> &Self::Space;

    /// The tables, for reading and changing them.
    fn space_mut(&mut self) -> &mut Self::Space;

    /// Makes an empty table.
    fn create_table(&mut self, def: &TableDef) -> Result<()> {
        self.space_mut().create_table(def)
    }

    /// Drops a table.
    fn drop_table(&mut self, table: TableId) -> Result<()> {
        self.space_mut().drop_table(table)
    }

    /// Builds a secondary index over the rows that are there.
    fn create_index(&mut self, table: TableId, index: &IndexDef) -> Result<()> {
        self.space_mut().create_index(table, index)
    }

    /// Drops a secondary index.
    fn drop_index(&mut self, table: TableId, index: IndexId) -> Result<()> {
        self.space_mut().drop_index(table, index)
    }

    /// Inserts a row.
    #[inline]
    fn insert(&mut self, table: TableId, row: &Row) -> Result<()> {
        self.space_mut().insert(table, row)
    }

    /// Changes columns of a row; false if there is none with this key.
    #[inline]
    fn update(&mut self, table: TableId, key: &[u64], changes: &Changes) -> Result<bool> {
        self.space_mut().update(table, key, changes)
    }

    /// Deletes a row; false if there is none with this key.
    #[inline]
    fn delete(&mut self, table: TableId, key: &[u64]) -> Result<bool> {
        self.space_mut().delete(table, key)
    }

    /// Before a transaction.
    fn begin(&mut self) {}

    /// Before each change, for [`Policy::rollback_to`].
    fn savepoint(&mut self) -> Self::Savepoint;

    /// After a change that has succeeded since `savepoint`.
    fn end_change(&mut self, _mark: Self::Savepoint) -> Result<()> {
        Ok(())
    }

    /// Undoes the changes since `savepoint`.
    fn rollback_to(&mut self, savepoint: Self::Savepoint) -> Result<()>;

    /// After a change was undone because there was no space: makes some, and says whether to try
    /// again.
    fn make_space(&mut self) -> Result<bool, Fault> {
        Ok(false)
    }

    /// Commits the open transaction, which may be `prepared`. A harmless failure leaves it to be
    /// aborted.
    fn commit(
        &mut self,
        prepared: Option<GlobalTxnId>,
        durability: Durability,
    ) -> Result<CommitTicket, Fault>;

    /// See [`Engine::prepare`]. A harmless failure leaves the transaction to be aborted.
    fn prepare(&mut self, global: GlobalTxnId) -> Result<(), Fault>;

    /// Undoes the open transaction, which may be `prepared`.
    fn abort(&mut self, prepared: Option<GlobalTxnId>) -> Result<(), Fault>;

    /// After an abort because a change has failed half-way or was one of definitions: reads the
    /// definitions again.
    fn reload(&mut self) -> Result<()>;

    /// Does work that is due after a transaction. If it fails the transaction has ended all the
    /// same, and the partition stops.
    fn maintain(&mut self) -> Result<()> {
        Ok(())
    }

    /// Before a transaction that changes definitions.
    fn prepare_definition(&mut self) -> Result<()> {
        Ok(())
    }

    /// See [`Engine::transaction_bytes`].
    fn transaction_bytes(&self) -> usize;

    /// See [`Reads::durable`].
    fn durable(&self) -> CommitTicket;

    /// See [`Engine::force`]. Also inside a transaction.
    fn force(&mut self) -> Result<(), Fault>;

    /// See [`Idle::checkpoint`].
    fn checkpoint(&mut self) -> Result<(), Fault>;

    /// See [`Idle::close`].
    fn close(&mut self) -> Result<(), Fault> {
        self.force()
    }

    /// See [`Idle::snapshot`].
    fn snapshot(&mut self) -> Result<Option<Box<dyn Engine>>, Fault> {
        Ok(None)
    }

    /// See [`Reads::footprint`]. Also inside a transaction.
    fn footprint(&mut self) -> Result<Footprint>;

    /// See [`Reads::status`]. Also inside a transaction.
    fn status(&self) -> EngineStatus;

    /// See [`Reads::verify`].
    fn verify(&mut self) -> Result<VerifyReport, Fault>;

    /// At the end of a partition that goes without a call of [`Policy::close`]. A transaction may
    /// be open.
    fn leave(&mut self) {}
}

/// A failure of a policy's step.
pub enum Fault {
    /// Medium and memory are as they were before the step.
    Harmless(StorageError),
    /// They may differ.
    Stop(StorageError),
}

impl Fault {
    /// A failure that is harmless where its error says that it has left no trace.
    pub fn of(error: StorageError) -> Self {
        if error.is_statement_error() {
            Self::Harmless(error)
        } else {
            Self::Stop(error)
        }
    }
}

impl From<StorageError> for Fault {
    fn from(error: StorageError) -> Self {
        Self::Stop(error)
    }
}

/// One partition of a serial engine.
pub struct Serial<P: Policy> {
    pub(crate) policy: P,
    state: State,
    /// Of the step after which it is [`State::Stopped`].
    failure: Failure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Open,
    Prepared(GlobalTxnId),
    MustAbort,
    Stopped,
}

impl<P: Policy> Serial<P> {
    /// A partition that was created or recovered.
    pub fn new(policy: P) -> Self {
        Self {
            policy,
            state: State::Idle,
            failure: Failure::default(),
        }
    }

    #[inline]
    fn require(&self, state: State) -> Result<()> {
        if self.state == state {
            Ok(())
        } else {
            Err(self.refusal())
        }
    }

    #[cold]
    fn refusal(&self) -> StorageError {
        let text = match self.state {
            State::Stopped => return self.failure.refusal(),
            State::MustAbort => "an operation failed half-way; abort the transaction",
            State::Prepared(_) => "the transaction is prepared; commit or abort it",
            State::Idle => "no transaction is open",
            State::Open => "a transaction is open already",
        };
        StorageError::Unsupported(text.to_owned())
    }

    /// The result of a step, after whose harmless failure the state is `harmless`.
    #[inline]
    fn settle<T>(&mut self, result: Result<T, Fault>, harmless: State) -> Result<T> {
        let fault = match result {
            Ok(value) => return Ok(value),
            Err(fault) => fault,
        };
        Err(match fault {
            Fault::Harmless(error) => {
                self.state = harmless;
                error
            }
            Fault::Stop(error) => {
                self.state = State::Stopped;
                self.failure.note_of(&error);
                error
            }
        })
    }

    /// Runs a change. If it fails without damage it is undone, and the transaction goes on.
    #[inline]
    fn change<T>(&mut self, change: impl Fn(&mut P) -> Result<T>) -> Result<T> {
        match self.change_once(&change) {
            Err(error) if error.is_out_of_space() && self.state == State::Open => {
                let made = self.policy.make_space();
                if self.settle(made, State::Open)? {
                    return self.change_once(&change);
                }
                Err(error)
            }
            result => result,
        }
    }

    #[inline]
    fn change_once<T>(&mut self, change: &impl Fn(&mut P) -> Result<T>) -> Result<T> {
        self.require(State::Open)?;
        let savepoint = self.policy.savepoint();
        let changed = change(&mut self.policy);
        let error =
            match changed.and_then(|value| self.policy.end_change(savepoint).map(|()| value)) {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
        self.state = State::MustAbort;
        if error.is_statement_error() && self.policy.rollback_to(savepoint).is_ok() {
            self.state = State::Open;
        }
        Err(error)
    }

    /// Runs a change of definitions as a transaction of its own.
    fn define(&mut self, change: impl FnOnce(&mut P) -> Result<()>) -> Result<()> {
        self.require(State::Idle)?;
        let prepared = self.policy.prepare_definition().map_err(Fault::Stop);
        self.settle(prepared, State::Idle)?;
        self.begin()?;
        let changed = change(&mut self.policy);
        let result = changed.and_then(|()| self.commit(Durability::Immediate).map(drop));
        if result.is_err() && self.state != State::Stopped {
            self.state = State::MustAbort;
            self.abort()?;
        }
        result
    }

    /// Goes on after the end of a transaction.
    #[inline]
    fn end(&mut self) {
        self.state = State::Idle;
        let maintained = self.policy.maintain().map_err(Fault::Stop);
        let _stopped = self.settle(maintained, State::Idle);
    }
}

impl<P: Policy> Reads for Serial<P> {
    fn tables(&self) -> Vec<Arc<Table>> {
        self.policy.space().tables()
    }

    #[inline]
    fn begin(&mut self) -> Result<()> {
        self.require(State::Idle)?;
        self.policy.begin();
        self.state = State::Open;
        Ok(())
    }

    #[inline]
    fn get(&mut self, table: TableId, key: &[u64], row: &mut Row) -> Result<bool> {
        self.require(State::Open)?;
        self.policy.space_mut().get(table, key, row)
    }

    #[inline]
    fn announce(&mut self, table: TableId, key: &[u64]) {
        self.policy.space_mut().announce(table, key);
    }

    fn get_many(
        &mut self,
        table: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        self.require(State::Open)?;
        self.policy.space_mut().get_many(table, keys, visit)
    }

    fn scan(
        &mut self,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        self.require(State::Open)?;
        self.policy.space_mut().scan(range, visit)
    }

    fn abort(&mut self) -> Result<()> {
        let prepared = match self.state {
            State::Prepared(global) => Some(global),
            State::Open | State::MustAbort => None,
            State::Idle | State::Stopped => return Err(self.refusal()),
        };
        let aborted = self.policy.abort(prepared);
        self.settle(aborted, State::MustAbort)?;
        if self.state == State::MustAbort {
            let reloaded = self.policy.reload().map_err(Fault::Stop);
            self.settle(reloaded, State::MustAbort)?;
        }
        self.end();
        Ok(())
    }

    fn durable(&self) -> CommitTicket {
        self.policy.durable()
    }

    fn footprint(&mut self) -> Result<Footprint> {
        self.policy.footprint()
    }

    fn status(&self) -> EngineStatus {
        self.policy.status()
    }

    fn verify(&mut self) -> Result<VerifyReport> {
        self.require(State::Idle)?;
        let verified = self.policy.verify();
        self.settle(verified, State::Idle)
    }
}

impl<P: Policy> Engine for Serial<P> {
    fn insert(&mut self, table: TableId, row: &Row) -> Result<()> {
        self.change(|policy| policy.insert(table, row))
    }

    fn insert_many(&mut self, table: TableId, rows: &[&Row]) -> Result<()> {
        if P::INSERTS_TOGETHER {
            return self.change(|policy| policy.space_mut().insert_many(table, rows));
        }
        rows.iter().try_for_each(|row| self.insert(table, row))
    }

    fn update(&mut self, table: TableId, key: &[u64], changes: &Changes) -> Result<bool> {
        self.change(|policy| policy.update(table, key, changes))
    }

    fn delete(&mut self, table: TableId, key: &[u64]) -> Result<bool> {
        self.change(|policy| policy.delete(table, key))
    }

    #[inline]
    fn commit(&mut self, durability: Durability) -> Result<CommitTicket> {
        let prepared = if let State::Prepared(global) = self.state {
            Some(global)
        } else {
            self.require(State::Open)?;
            None
        };
        let committed = self.policy.commit(prepared, durability);
        let ticket = self.settle(committed, State::MustAbort)?;
        self.end();
        Ok(ticket)
    }

    fn prepare(&mut self, global: GlobalTxnId) -> Result<()> {
        self.require(State::Open)?;
        let prepared = self.policy.prepare(global);
        self.settle(prepared, State::MustAbort)?;
        self.state = State::Prepared(global);
        Ok(())
    }

    #[inline]
    fn transaction_bytes(&self) -> usize {
        self.policy.transaction_bytes()
    }

    fn force(&mut self) -> Result<()> {
        if self.state == State::Stopped {
            return Err(self.refusal());
        }
        let forced = self.policy.force();
        self.settle(forced, self.state)
    }

    fn idle(&mut self) -> Result<&mut dyn Idle> {
        self.require(State::Idle)?;
        Ok(self)
    }
}

impl<P: Policy> Idle for Serial<P> {
    fn create_table(&mut self, def: &TableDef) -> Result<()> {
        self.define(|policy| policy.create_table(def))
    }

    fn drop_table(&mut self, table: TableId) -> Result<()> {
        self.define(|policy| policy.drop_table(table))
    }

    fn create_index(&mut self, table: TableId, index: &IndexDef) -> Result<()> {
        self.define(|policy| policy.create_index(table, index))
    }

    fn drop_index(&mut self, table: TableId, index: IndexId) -> Result<()> {
        self.define(|policy| policy.drop_index(table, index))
    }

    fn checkpoint(&mut self) -> Result<()> {
        let written = self.policy.checkpoint();
        self.settle(written, State::Idle)
    }

    fn close(&mut self) -> Result<()> {
        let closed = self.policy.close();
        self.settle(closed, State::Idle)
    }

    fn snapshot(&mut self) -> Result<Option<Box<dyn Engine>>> {
        let taken = self.policy.snapshot();
        self.settle(taken, State::Idle)
    }
}

impl<P: Policy> Drop for Serial<P> {
    fn drop(&mut self) {
        if !matches!(self.state, State::Prepared(_) | State::Stopped) && !std::thread::panicking() {
            self.policy.leave();
        }
    }
}
