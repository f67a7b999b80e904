//! `volatile`: in-place updates in volatile memory, and nothing else: the upper bound for the other
//! methods, and the smallest policy.
//!
//! Nothing is written at any time. Before images in DRAM take an abort back; a new opening finds an
//! empty partition.

use super::serial::driver::{Fault, Policy, Serial};
use super::serial::store::{Space, Store, StoreSavepoint, new_store};
use pmem::Memory;
use storage::engine::{
    CommitTicket, Durability, EngineOptions, EngineStatus, Footprint, GlobalTxnId, VerifyReport,
};
use storage::{DeviceOf, Platform, Result};

/// One partition of `volatile`: empty, and gone when it is dropped.
pub(super) struct Volatile<M: Memory> {
    store: Store<M>,
    tickets: u64,
}

pub(super) fn create<P: Platform>(
    platform: &P,
    options: &EngineOptions,
) -> Result<Serial<Volatile<DeviceOf<P>>>> {
    let store = new_store(platform, options)?;
    Ok(Serial::new(Volatile { store, tickets: 0 }))
}

impl<M: Memory> Policy for Volatile<M> {
    type Space = Space<M>;
    type Savepoint = StoreSavepoint;

    fn space(&self) -> &Space<M> {
        &self.store.space
    }

    fn space_mut(&mut self) -> &mut Space<M> {
        &mut self.store.space
    }

    fn savepoint(&mut self) -> StoreSavepoint {
        self.store.savepoint()
    }

    fn rollback_to(&mut self, savepoint: StoreSavepoint) -> Result<()> {
        self.store.rollback_to(savepoint)
    }

    fn commit(&mut self, _: Option<GlobalTxnId>, _: Durability) -> Result<CommitTicket, Fault> {
        self.store.commit();
        self.tickets += 1;
        Ok(self.durable())
    }

    fn prepare(&mut self, _: GlobalTxnId) -> Result<(), Fault> {
        Ok(())
    }

    fn abort(&mut self, _: Option<GlobalTxnId>) -> Result<(), Fault> {
        Ok(self.store.abort()?)
    }

    fn reload(&mut self) -> Result<()> {
        self.store.reopen()
    }

    fn transaction_bytes(&self) -> usize {
        self.store.transaction_bytes()
    }

    fn durable(&self) -> CommitTicket {
        CommitTicket(self.tickets)
    }

    fn force(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    fn footprint(&mut self) -> Result<Footprint> {
        self.store.footprint()
    }

    fn status(&self) -> EngineStatus {
        EngineStatus {
            memory: self.store.space.arena.counters(),
            ..EngineStatus::default()
        }
    }

    fn verify(&mut self) -> Result<VerifyReport, Fault> {
        Ok(self.store.verify())
    }
}
