//! A session: the partitions that one transaction holds, and how their part of it ends.
//!
//! A partition is taken when it is first touched. In ascending order a session waits for it; out of order a wait could
//! close a circle, so it is short and ends in `Conflict`, after which the executor runs the closure again with all
//! partitions seen so far taken in order.
//!
//! States of a session: *sound* → (a failed statement that may have left a trace) → *doomed*, or → (a wait that failed) →
//! *conflicting*. Only a sound session commits. Dropping a session undoes what it has not committed, also
//! while a panic unwinds; a panic inside a change stops the partition instead, because its state is unknown.
//!
//! A commit over several partitions (invariants in `commit_table`): prepare on each → number into the commit table → commit
//! on each → slot back. Partitions that were only read take no part in it but stay held to its end, which is
//! what makes the order of transactions serializable.

use crate::database::Core;
use crate::error::{Error, Result};
use crate::mark::OpenMark;
use crate::partition::Seat;
use std::time::Duration;
use storage::engine::{CommitTicket, Durability, Engine};

/// Longest wait for a partition below one that is held already.
const OUT_OF_ORDER_WAIT: Duration = Duration::from_millis(2);

/// The partitions that one transaction holds.
pub(crate) struct Session<'db> {
    pub(crate) core: &'db Core,
    /// Apart from the others so that a transaction in one partition allocates nothing.
    first: Option<Held>,
    more: Vec<Held>,
    soundness: Soundness,
    seats: Seats,
    wait_limit: Duration,
    _mark: OpenMark,
}

/// One held partition.
struct Held {
    partition: u32,
    seat: Seat,
    begun: bool,
    wrote: bool,
    /// A change is being made: true while the engine's own code runs.
    changing: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Soundness {
    Sound,
    Doomed,
    /// A partition was not free.
    Conflicting {
        partition: u32,
        out_of_order: bool,
    },
}

/// How long a session keeps its partitions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seats {
    /// Until its transaction ends; others are taken as they are touched.
    Transaction,
    /// For many transactions; no others are taken.
    Worker,
}

/// Commits that must be durable before a transaction is acknowledged.
#[derive(Default)]
pub(crate) struct Promises {
    first: Option<(u32, CommitTicket)>,
    more: Vec<(u32, CommitTicket)>,
}

impl Promises {
    fn add(&mut self, partition: u32, ticket: CommitTicket) {
        if self.first.is_none() {
            self.first = Some((partition, ticket));
        } else {
            self.more.push((partition, ticket));
        }
    }

    pub(crate) fn count(&self) -> usize {
        usize::from(self.first.is_some()) + self.more.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, CommitTicket)> + '_ {
        self.first.iter().chain(&self.more).copied()
    }
}

impl<'db> Session<'db> {
    /// Begins a session without partitions; an error if this thread has one on the database.
    #[inline]
    pub(crate) fn new(core: &'db Core, wait_limit: Duration) -> Result<Self> {
        Ok(Self {
            core,
            first: None,
            more: Vec::new(),
            soundness: Soundness::Sound,
            seats: Seats::Transaction,
            wait_limit,
            _mark: OpenMark::set(core.mark_bit)?,
        })
    }

    /// Takes partitions ahead of their use. `partitions` is in ascending order.
    pub(crate) fn declare(&mut self, partitions: &[u32]) -> Result<()> {
        for &partition in partitions {
            if partition as usize >= self.core.partitions.len() {
                return Err(Error::option(
                    "partitions",
                    format!("there is no partition {partition}"),
                    format!("use 0 to {}", self.core.partitions.len() - 1),
                ));
            }
            self.held(partition)?;
        }
        Ok(())
    }

    /// Says how long the partitions held now are kept.
    pub(crate) fn set_seats(&mut self, seats: Seats) {
        self.seats = seats;
    }

    /// The partitions held, in the order they were taken.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = u32> + '_ {
        self.all().map(|held| held.partition)
    }

    /// A held partition of the caller's choice: the first one, or partition 0.
    pub(crate) fn any_partition(&self) -> u32 {
        self.first.as_ref().map_or(0, |held| held.partition)
    }

    /// The engine of a partition, with a transaction open in it, for reading.
    #[inline]
    pub(crate) fn engine(&mut self, partition: u32) -> Result<&mut dyn Engine> {
        Ok(&mut *self.begun(partition)?.seat.engine)
    }

    /// Runs a change in a partition.
    #[inline]
    pub(crate) fn change<R>(
        &mut self,
        partition: u32,
        change: impl FnOnce(&mut dyn Engine) -> storage::Result<R>,
    ) -> Result<R> {
        let held = self.begun(partition)?;
        held.wrote = true;
        held.changing = true;
        let changed = change(&mut *held.seat.engine);
        held.changing = false;
        match changed {
            Ok(value) => Ok(value),
            Err(error) => Err(self.failed(error.into())),
        }
    }

    /// The engine of a partition without a transaction in it.
    pub(crate) fn idle_engine(&mut self, partition: u32) -> Result<&mut dyn Engine> {
        Ok(&mut *self.held(partition)?.seat.engine)
    }

    /// Runs a change of definitions in a partition, outside any transaction.
    pub(crate) fn define<R>(
        &mut self,
        partition: u32,
        change: impl FnOnce(&mut dyn Engine) -> storage::Result<R>,
    ) -> Result<R> {
        let held = self.held(partition)?;
        held.changing = true;
        let changed = change(&mut *held.seat.engine);
        held.changing = false;
        Ok(changed?)
    }

    /// Notes that a statement failed; the transaction cannot commit if it may have left a trace.
    #[cold]
    pub(crate) fn failed(&mut self, error: Error) -> Error {
        if !error.is_statement_error() && self.soundness == Soundness::Sound {
            self.soundness = Soundness::Doomed;
        }
        error
    }

    /// Notes that a statement of several steps failed after its first one.
    pub(crate) fn doom(&mut self) {
        if self.soundness == Soundness::Sound {
            self.soundness = Soundness::Doomed;
        }
    }

    /// After a conflict that an ordered attempt avoids: all partitions seen, in order.
    pub(crate) fn partitions_to_declare(&self) -> Option<Vec<u32>> {
        match self.soundness {
            Soundness::Conflicting {
                partition,
                out_of_order: true,
            } => {
                let mut seen: Vec<u32> = self.partitions().chain([partition]).collect();
                seen.sort_unstable();
                seen.dedup();
                Some(seen)
            }
            _ => None,
        }
    }

    #[inline]
    fn begun(&mut self, partition: u32) -> Result<&mut Held> {
        let held = self.held(partition)?;
        if held.changing {
            return Err(Error::Stopped { partition });
        }
        if !held.begun {
            held.seat.engine.begin()?;
            held.begun = true;
        }
        Ok(held)
    }

    #[inline]
    fn held(&mut self, partition: u32) -> Result<&mut Held> {
        if self
            .first
            .as_ref()
            .is_none_or(|held| held.partition != partition)
        {
            return self.held_elsewhere(partition);
        }
        Ok(self
            .first
            .as_mut()
            .expect("it was looked at one line above"))
    }

    fn held_elsewhere(&mut self, partition: u32) -> Result<&mut Held> {
        if let Some(at) = self
            .more
            .iter()
            .position(|held| held.partition == partition)
        {
            return Ok(&mut self.more[at]);
        }
        if self.seats == Seats::Worker {
            return Err(Error::NotOwned { partition });
        }
        let out_of_order = self.all().any(|held| held.partition > partition);
        let limit = if out_of_order {
            OUT_OF_ORDER_WAIT
        } else {
            self.wait_limit
        };
        let seat = match self.core.partitions[partition as usize].take(limit) {
            Ok(seat) => seat,
            Err(error) => {
                self.soundness = match error {
                    Error::Conflict { .. } => Soundness::Conflicting {
                        partition,
                        out_of_order,
                    },
                    _ => Soundness::Doomed,
                };
                return Err(error);
            }
        };
        let held = Held {
            partition,
            seat,
            begun: false,
            wrote: false,
            changing: false,
        };
        if self.first.is_none() {
            return Ok(self.first.insert(held));
        }
        self.more.push(held);
        Ok(self.more.last_mut().expect("it was pushed one line above"))
    }

    fn all(&self) -> impl Iterator<Item = &Held> {
        self.first.iter().chain(&self.more)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Held> {
        self.first.iter_mut().chain(&mut self.more)
    }

    /// Commits in all partitions held. Afterwards the transaction may be acknowledged when the promises are durable.
    #[inline]
    pub(crate) fn commit(&mut self, durability: Durability) -> Result<Promises> {
        match self.soundness {
            Soundness::Sound => {}
            Soundness::Doomed => return Err(self.abandon(Error::Doomed)),
            Soundness::Conflicting { partition, .. } => {
                return Err(self.abandon(Error::Conflict {
                    partition,
                    waited_ms: 0,
                }));
            }
        }
        let writers = self.all().filter(|held| held.wrote).count();
        if writers > 0 && self.more.iter().chain(&self.first).any(Held::read_ahead) {
            self.settle_reads()?;
        }
        if writers > 1 {
            self.commit_several()?;
        }
        let (core, seats) = (self.core, self.seats);
        // Memory-based methods fence at each commit anyway, and a fence made later by another thread would not
        // cover this thread's flushes.
        let durability = match (durability, self.seats) {
            (_, Seats::Transaction) if core.commits_fence() => Durability::Immediate,
            _ => durability,
        };
        let mut promises = Promises::default();
        for held in self.first.iter_mut().chain(&mut self.more) {
            held.commit(core, durability, seats)?;
            if durability != Durability::None && held.seat.promised > held.seat.engine.durable() {
                promises.add(held.partition, held.seat.promised);
            }
        }
        Ok(promises)
    }

    /// Makes durable what was read in partitions that are not written: a crash must not keep this transaction and lose one
    /// that it has read.
    #[cold]
    fn settle_reads(&mut self) -> Result<()> {
        let mut result = Ok(());
        for held in self.all_mut().filter(|held| held.read_ahead()) {
            held.changing = true;
            result = held.seat.engine.force();
            held.changing = result.is_err();
            if result.is_err() {
                break;
            }
        }
        result.map_err(|error| self.abandon(error.into()))
    }

    /// Commits what was written in several partitions, atomically.
    #[cold]
    fn commit_several(&mut self) -> Result<()> {
        let core = self.core;
        let number = core.commits.next_transaction()?;
        let mut prepared = Ok(());
        for held in self.all_mut().filter(|held| held.wrote) {
            held.changing = true;
            prepared = held.seat.engine.prepare(number);
            held.changing = false;
            if prepared.is_err() {
                break;
            }
        }
        if let Err(error) = prepared {
            return Err(self.abandon(error.into()));
        }
        let slot = match core.commits.commit(number) {
            Ok(slot) => slot,
            Err(error) => {
                // Whether the store reached the medium is unknown, so neither commit nor abort is right: only recovery can tell.
                self.stop_writers();
                return Err(match error {
                    Error::InDoubt { .. } => error,
                    other => Error::InDoubt {
                        cause: other.to_string(),
                    },
                });
            }
        };
        let mut kept = false;
        for held in self.all_mut().filter(|held| held.wrote) {
            held.changing = true;
            // The transaction is committed whatever happens here. A partition that fails stops when the seat is put back,
            // and recovery finds the number in the slot, which is therefore not given back.
            let committed = held.seat.engine.commit(Durability::Immediate).is_ok();
            held.changing = !committed;
            held.begun = false;
            held.wrote = false;
            kept |= !committed;
        }
        if !kept {
            core.commits.release(slot);
        }
        Ok(())
    }

    /// Marks the partitions written so that they are stopped when the session ends.
    fn stop_writers(&mut self) {
        for held in self.all_mut().filter(|held| held.wrote) {
            held.changing = true;
        }
    }

    /// Undoes everything and passes the reason on.
    #[cold]
    fn abandon(&mut self, reason: Error) -> Error {
        self.abort();
        reason
    }

    /// Undoes everything since the partitions were first touched. A partition that cannot undo is stopped.
    pub(crate) fn abort(&mut self) {
        for held in self.all_mut() {
            if held.begun && !held.changing {
                held.changing = held.seat.engine.abort().is_err();
                held.begun = false;
                held.wrote = false;
            }
        }
        self.soundness = Soundness::Sound;
    }

    /// Puts all partitions back. Nothing may be open in them.
    #[inline]
    pub(crate) fn release(&mut self) {
        if let Some(held) = self.first.take() {
            held.put_back(self.core);
        }
        for held in self.more.drain(..) {
            held.put_back(self.core);
        }
    }

    /// Makes every commit in the partitions held durable.
    pub(crate) fn force(&mut self) -> Result<()> {
        let core = self.core;
        for held in self.all_mut() {
            if held.changing {
                return Err(Error::Stopped {
                    partition: held.partition,
                });
            }
            held.changing = true;
            let forced = held.seat.engine.force();
            held.changing = forced.is_err();
            forced.map_err(|error| Error::InDoubt {
                cause: error.to_string(),
            })?;
            core.partitions[held.partition as usize].note_durable(held.seat.engine.durable());
        }
        Ok(())
    }

    /// Newest durable ticket of a partition held.
    pub(crate) fn durable(&self, partition: u32) -> CommitTicket {
        self.all()
            .find(|held| held.partition == partition)
            .map_or_else(CommitTicket::default, |held| held.seat.engine.durable())
    }

    /// Commits, gives the partitions back, and waits until the transaction may be acknowledged.
    #[inline]
    pub(crate) fn finish(&mut self, durability: Durability) -> Result<()> {
        let promises = self.commit(durability)?;
        self.release();
        for (partition, ticket) in promises.iter() {
            self.core.partitions[partition as usize].wait_durable(ticket, self.core.group_wait)?;
        }
        Ok(())
    }
}

impl Held {
    /// Ends the transaction in this partition.
    #[inline]
    /// Whether this partition was only read, and may have shown commits that are not durable yet.
    fn read_ahead(&self) -> bool {
        self.begun && !self.wrote && self.seat.promised > self.seat.engine.durable()
    }

    fn commit(&mut self, core: &Core, durability: Durability, seats: Seats) -> Result<()> {
        if !self.begun {
            return Ok(());
        }
        self.changing = true;
        if !self.wrote {
            // There is nothing to undo: an abort ends the transaction without a place in the order of commits.
            self.seat.engine.abort()?;
            self.begun = false;
            self.changing = false;
            return Ok(());
        }
        let ticket = match self.seat.engine.commit(durability) {
            Ok(ticket) => ticket,
            Err(error) if error.is_statement_error() => {
                self.changing = false;
                return Err(error.into());
            }
            Err(error) => {
                return Err(Error::InDoubt {
                    cause: error.to_string(),
                });
            }
        };
        self.changing = false;
        self.begun = false;
        self.wrote = false;
        if durability == Durability::Group {
            self.seat.promised = ticket;
            let partition = &core.partitions[self.partition as usize];
            let alone = seats == Seats::Transaction && core.leads_at_once && !partition.is_wanted();
            if alone && self.seat.engine.durable() < ticket {
                let forced = self.seat.engine.force();
                forced.map_err(|error| Error::InDoubt {
                    cause: error.to_string(),
                })?;
            }
        }
        Ok(())
    }

    #[inline]
    fn put_back(self, core: &Core) {
        let partition = &core.partitions[self.partition as usize];
        if self.changing {
            partition.stop();
        } else {
            partition.put(self.seat);
        }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.abort();
        if self.seats == Seats::Worker && self.core.commits_fence() {
            // Other threads' fences do not cover this thread's flushes. A failure stops the partition below.
            let _ = self.force();
        }
        self.release();
    }
}
