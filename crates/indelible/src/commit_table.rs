//! The commit table: where a transaction over several partitions becomes committed.
//!
//! Each participant first makes its part *prepared*. Then one 8-byte store of the transaction's
//! number into a free slot is the commit point. Then each participant commits. Recovery of a
//! partition that finds a prepared transaction asks whether its number is in a slot. The table also
//! hands out the numbers that must never be used twice.
//!
//! | word | meaning |
//! |---|---|
//! | 0 | generation of transaction numbers: the upper half of every number |
//! | 1 | next identifier of tables and indexes |
//! | 8 .. | slots: the number of a committed transaction, or 0 |
//!
//! Invariants:
//! 1. A number is unique in the life of the database: its generation was made durable before its
//!    first use in this opening, so a slot that keeps an old number says nothing about a new one,
//!    and slots are never cleared.
//! 2. A slot is overwritten only when every participant's commit is durable without it. Nobody
//!    waits for that: the slot is *unsettled* until the partitions say so. When a partition's
//!    `open` has returned, the fate of its prepared transactions is durable, so at open all slots
//!    are free.
//! 3. Opening stores nothing: the generation grows when the first number is needed.

use crate::error::{Error, Result};
use crate::sync::{Condvar, Mutex, MutexGuard};
use pmem::{Counters, Domain, Site, site};
use std::sync::PoisonError;
use storage::StorageError;
use storage::engine::{CommitTicket, GlobalTxnId};

/// The commit table's pool.
pub(crate) const COMMIT_TABLE: &str = "commits.pool";
/// The name under which the replacement of a lost one is made.
pub(crate) const COMMIT_TABLE_NEW: &str = "commits.pool.new";

const GENERATION_WORD: usize = 0;
const IDENTIFIER_WORD: usize = 1;
const FIRST_SLOT: usize = 8;
/// Most transactions over several partitions that are between their commit point and their end at
/// the same time.
const SLOTS: usize = 504;
/// If fewer slots than these are free, a transaction makes its commits durable before it gives its
/// slot back.
const SPARE_SLOTS: usize = SLOTS / 2;
/// Words of the table: one 4 KiB block.
pub(crate) const WORDS: usize = FIRST_SLOT + SLOTS;
/// Identifiers below are for hidden tables.
pub(crate) const FIRST_IDENTIFIER: u64 = 16;

/// The names of the two durable steps of one store.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub(crate) flush: &'static Site,
    pub(crate) fence: &'static Site,
}

/// The words of the table on their medium.
pub(crate) trait Words: Send {
    /// Reads a word.
    fn read(&self, index: usize) -> Result<u64>;
    /// Stores words, each in one failure-atomic step, and makes them durable together.
    fn write(&mut self, stores: &[(usize, u64)], step: Step) -> Result<()>;
    /// Persistence domain of the medium.
    fn domain(&self) -> Domain;
    /// Counters of its device.
    fn counters(&self) -> Counters;
    /// Bytes of the pool.
    fn bytes(&self) -> u64;
}

/// Words that are lost at restart, for the method without durability.
pub(crate) struct VolatileWords(pub(crate) Vec<u64>);

impl VolatileWords {
    pub(crate) fn new() -> Self {
        Self(vec![0; WORDS])
    }
}

impl Words for VolatileWords {
    fn read(&self, index: usize) -> Result<u64> {
        Ok(self.0[index])
    }

    fn write(&mut self, stores: &[(usize, u64)], _: Step) -> Result<()> {
        for &(index, value) in stores {
            self.0[index] = value;
        }
        Ok(())
    }

    fn domain(&self) -> Domain {
        Domain::Process
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn bytes(&self) -> u64 {
        0
    }
}

/// The commit table of an open database. Order of locks: `words`, `state`.
pub(crate) struct CommitTable {
    /// Held while words become durable. The next holder stores the words of all threads that wait
    /// for it.
    words: Mutex<Box<dyn Words>>,
    state: Mutex<State>,
    /// Outside of the lock, which a forked child may find locked for ever.
    domain: Domain,
    slot_freed: Condvar,
}

struct State {
    /// Numbers that are to be stored in their slots together.
    waiting: Vec<(usize, u64)>,
    /// Batches of such numbers that were taken to be stored, and that were stored.
    taken: u64,
    stored: u64,
    free: Vec<u16>,
    unsettled: Vec<Unsettled>,
    /// Upper half of the numbers of this opening; 0 until the first one is needed.
    generation: u64,
    /// Numbers handed out in this generation.
    count: u64,
    /// A store failed, so the content of the medium is unknown.
    failed: bool,
}

/// A slot that holds a committed transaction until its participants no longer need it.
#[must_use]
pub(crate) struct Slot(u16);

/// A slot, and the commits that its participants have yet to make durable.
struct Unsettled {
    slot: Slot,
    commits: Vec<(u32, CommitTicket)>,
}

impl CommitTable {
    pub(crate) fn new(words: Box<dyn Words>) -> Self {
        let free = (FIRST_SLOT as u16..WORDS as u16).rev().collect();
        let domain = words.domain();
        let state = State {
            waiting: Vec::new(),
            taken: 0,
            stored: 0,
            free,
            unsettled: Vec::new(),
            generation: 0,
            count: 0,
            failed: false,
        };
        Self {
            words: Mutex::new(words),
            state: Mutex::new(state),
            domain,
            slot_freed: Condvar::new(),
        }
    }

    /// Leaves only this many slots, so that transactions wait for them.
    #[cfg(all(test, feature = "schedules"))]
    pub(crate) fn keep_slots(&self, count: usize) {
        self.lock().free.truncate(count);
    }

    /// Persistence domain of the medium.
    pub(crate) fn domain(&self) -> Domain {
        self.domain
    }

    /// Counters of the table's device, and its bytes.
    pub(crate) fn cost(&self) -> (Counters, u64) {
        let words = self.words();
        (words.counters(), words.bytes())
    }

    /// Numbers of the committed transactions that the slots name, for recovery.
    pub(crate) fn committed(&self) -> Result<Vec<u64>> {
        let words = self.words();
        let mut numbers = Vec::new();
        for index in FIRST_SLOT..WORDS {
            match words.read(index)? {
                0 => {}
                number => numbers.push(number),
            }
        }
        Ok(numbers)
    }

    /// A number for a transaction over several partitions, never used before.
    pub(crate) fn next_transaction(&self) -> Result<GlobalTxnId> {
        loop {
            if let Some(number) = self.lock().next() {
                return Ok(number);
            }
            let words = &mut self.words();
            if !self.lock().is_used_up() {
                continue;
            }
            let generation = next_generation(words.read(GENERATION_WORD)?)?;
            let step = Step {
                flush: site!("commit-table.generation"),
                fence: site!("commit-table.generation-fence"),
            };
            // commit point: numbers of this generation may appear in partitions.
            self.write(words, &[(GENERATION_WORD, generation)], step)?;
            let state = &mut *self.lock();
            (state.generation, state.count) = (generation, 0);
        }
    }

    /// `count` identifiers one after the other, never used before; returns the first.
    pub(crate) fn next_identifiers(&self, count: u32) -> Result<u32> {
        let words = &mut self.words();
        let first = words.read(IDENTIFIER_WORD)?.max(FIRST_IDENTIFIER);
        let next = first + u64::from(count);
        let first = u32::try_from(first)
            .ok()
            .filter(|_| u32::try_from(next).is_ok());
        let Some(first) = first else {
            return Err(Error::Definition {
                name: "table".into(),
                problem: "all identifiers of this database are used up; load a dump into a new one"
                    .into(),
            });
        };
        let step = Step {
            flush: site!("commit-table.identifiers"),
            fence: site!("commit-table.identifiers-fence"),
        };
        // commit point: these identifiers are taken, whatever becomes of the table.
        self.write(words, &[(IDENTIFIER_WORD, next)], step)?;
        Ok(first)
    }

    /// Commits a prepared transaction. The slot must be given back with [`CommitTable::release`]
    /// once every participant has committed, and kept if one cannot.
    pub(crate) fn commit(&self, transaction: GlobalTxnId) -> Result<Slot> {
        let mut state = self.lock();
        let index = loop {
            if state.failed {
                return Err(failed());
            }
            if let Some(index) = state.free.pop() {
                break index;
            }
            let woken = self.slot_freed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        };
        state.waiting.push((usize::from(index), transaction.0));
        let round = state.taken;
        drop(state);
        let words = &mut self.words();
        let mut state = self.lock();
        if state.stored > round {
            return Ok(Slot(index));
        }
        if state.taken > round {
            // The thread that took it could not store it.
            return Err(failed());
        }
        let stores = std::mem::take(&mut state.waiting);
        state.taken += 1;
        drop(state);
        let step = Step {
            flush: site!("commit-table.commit"),
            fence: site!("commit-table.commit-fence"),
        };
        // commit point: the transactions are committed in all their partitions.
        self.write(words, &stores, step)?;
        let state = &mut *self.lock();
        state.stored = state.taken;
        Ok(Slot(index))
    }

    /// Whether slots are so few that a transaction should make its commits durable before it gives
    /// its slot back.
    pub(crate) fn is_short(&self) -> bool {
        self.lock().free.len() < SPARE_SLOTS
    }

    /// Gives a slot back for the next transaction, as soon as the commits in these partitions are
    /// durable. It also gives back earlier slots whose commits are durable by now, as `durable`,
    /// the newest durable ticket of a partition, tells.
    pub(crate) fn release(
        &self,
        slot: Slot,
        commits: Vec<(u32, CommitTicket)>,
        durable: impl Fn(u32) -> CommitTicket,
    ) {
        let mut state = self.lock();
        let State {
            free, unsettled, ..
        } = &mut *state;
        unsettled.push(Unsettled { slot, commits });
        let known = free.len();
        unsettled.retain(|unsettled| {
            let is_pending = |&(partition, ticket)| ticket > durable(partition);
            let is_kept = unsettled.commits.iter().any(is_pending);
            if !is_kept {
                free.push(unsettled.slot.0);
            }
            is_kept
        });
        if free.len() > known {
            self.slot_freed.notify_all();
        }
    }

    /// Makes words durable. After a failure nobody gets a slot any more, so waiting threads are
    /// woken with an error.
    fn write(&self, words: &mut Box<dyn Words>, stores: &[(usize, u64)], step: Step) -> Result<()> {
        if self.lock().failed {
            return Err(failed());
        }
        let written = words.write(stores, step);
        if written.is_err() {
            self.lock().failed = true;
            self.slot_freed.notify_all();
        }
        written
    }

    fn words(&self) -> MutexGuard<'_, Box<dyn Words>> {
        // A panic below this mutex can only come between whole steps; `failed` covers the store
        // itself.
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this mutex.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_used_up(&self) -> bool {
        self.generation == 0 || self.count == u64::from(u32::MAX)
    }

    /// The next number of the generation, if it has one.
    fn next(&mut self) -> Option<GlobalTxnId> {
        if self.is_used_up() {
            return None;
        }
        self.count += 1;
        Some(GlobalTxnId(self.generation << 32 | self.count))
    }
}

/// The generation after the one in the table: the upper half of a number, so it has 32 bits.
fn next_generation(current: u64) -> Result<u64> {
    if current < u64::from(u32::MAX) {
        return Ok(current + 1);
    }
    let problem = format!(
        "the commit table's generation {current} leaves no number for a transaction over several partitions; \
         dump the database and load the dump into a new one"
    );
    Err(StorageError::Unsupported(problem).into())
}

/// Gives a new table that replaces a lost one its first numbers.
pub(crate) fn begin_anew(
    words: &mut impl Words,
    generation: u64,
    next_identifier: u32,
) -> Result<()> {
    let step = Step {
        flush: site!("commit-table.anew-generation"),
        fence: site!("commit-table.anew-generation-fence"),
    };
    words.write(&[(GENERATION_WORD, generation)], step)?;
    let step = Step {
        flush: site!("commit-table.anew-identifiers"),
        fence: site!("commit-table.anew-identifiers-fence"),
    };
    words.write(&[(IDENTIFIER_WORD, next_identifier.into())], step)
}

fn failed() -> Error {
    Error::InDoubt {
        cause: "an earlier store to the commit table failed".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_new_opening_never_repeats_a_number() {
        let table = CommitTable::new(Box::new(VolatileWords::new()));
        let first = table.next_transaction().unwrap();
        let second = table.next_transaction().unwrap();
        assert!(first < second);
        let slot = table.commit(second).unwrap();
        assert_eq!(table.committed().unwrap(), [second.0]);
        table.release(slot, Vec::new(), |_| CommitTicket(0));
        assert_eq!(
            table.committed().unwrap(),
            [second.0],
            "slots keep their number until reuse"
        );
        let mut words = VolatileWords::new();
        for index in 0..WORDS {
            words.0[index] = table.words().read(index).unwrap();
        }
        let again = CommitTable::new(Box::new(words));
        assert!(again.next_transaction().unwrap() > second);
    }

    #[test]
    fn identifiers_are_handed_out_once() {
        let table = CommitTable::new(Box::new(VolatileWords::new()));
        let first = table.next_identifiers(3).unwrap();
        assert_eq!(u64::from(first), FIRST_IDENTIFIER);
        assert_eq!(table.next_identifiers(1).unwrap(), first + 3);
    }

    #[test]
    fn a_full_table_waits_for_a_slot() {
        let table = CommitTable::new(Box::new(VolatileWords::new()));
        let mut slots: Vec<Slot> = Vec::new();
        for _ in 0..SLOTS {
            let number = table.next_transaction().unwrap();
            slots.push(table.commit(number).unwrap());
        }
        std::thread::scope(|threads| {
            let waiting = threads.spawn(|| table.commit(GlobalTxnId(1)));
            std::thread::sleep(std::time::Duration::from_millis(5));
            table.release(slots.pop().unwrap(), Vec::new(), |_| CommitTicket(0));
            assert!(waiting.join().unwrap().is_ok());
        });
    }

    #[test]
    fn a_slot_keeps_its_number_until_its_commits_are_durable() {
        let table = CommitTable::new(Box::new(VolatileWords::new()));
        let number = |at: u64| GlobalTxnId(1 << 32 | at);
        let release = |slot, ticket, durable: [u64; 2]| {
            let commits = vec![(0, CommitTicket(ticket)), (1, CommitTicket(ticket))];
            table.release(slot, commits, |partition| {
                CommitTicket(durable[partition as usize])
            });
        };
        let is_there = |at| table.committed().unwrap().contains(&number(at).0);
        release(table.commit(number(1)).unwrap(), 5, [5, 4]);
        release(table.commit(number(2)).unwrap(), 6, [6, 4]);
        assert!(
            is_there(1),
            "one of two partitions may still have to ask for it"
        );
        release(table.commit(number(3)).unwrap(), 7, [7, 5]);
        let _slots = [table.commit(number(4)), table.commit(number(5))];
        assert!(!is_there(1) && is_there(2) && is_there(3));
    }

    #[test]
    fn half_of_the_slots_are_not_kept_for_later() {
        let table = CommitTable::new(Box::new(VolatileWords::new()));
        let mut kept = 0;
        while !table.is_short() {
            let slot = table.commit(GlobalTxnId(1)).unwrap();
            table.release(slot, vec![(0, CommitTicket(1))], |_| CommitTicket(0));
            kept += 1;
        }
        assert_eq!(kept, SLOTS - SPARE_SLOTS + 1);
    }

    #[test]
    fn a_generation_that_is_used_up_is_an_error() {
        let mut words = VolatileWords::new();
        words.0[GENERATION_WORD] = u64::from(u32::MAX) - 1;
        let table = CommitTable::new(Box::new(words));
        let last = table.next_transaction().unwrap();
        assert_eq!(last.0 >> 32, u64::from(u32::MAX));
        let mut words = VolatileWords::new();
        words.0[GENERATION_WORD] = u64::MAX;
        let table = CommitTable::new(Box::new(words));
        assert!(table.next_transaction().is_err());
    }

    /// Words whose stores fail from some moment on.
    struct FailingWords(VolatileWords, Arc<AtomicBool>);

    impl Words for FailingWords {
        fn read(&self, index: usize) -> Result<u64> {
            self.0.read(index)
        }

        fn write(&mut self, stores: &[(usize, u64)], step: Step) -> Result<()> {
            if self.1.load(Ordering::Relaxed) {
                return Err(StorageError::Poisoned.into());
            }
            self.0.write(stores, step)
        }

        fn domain(&self) -> Domain {
            Domain::Process
        }

        fn counters(&self) -> Counters {
            Counters::default()
        }

        fn bytes(&self) -> u64 {
            0
        }
    }

    #[test]
    fn what_the_medium_promises_is_told_while_another_thread_has_the_table() {
        let table = CommitTable::new(Box::new(VolatileWords::new()));
        let _as_a_forked_child_finds_it = (table.words(), table.lock());
        assert_eq!(table.domain(), Domain::Process);
    }

    #[test]
    fn a_failure_wakes_who_waits_for_a_slot() {
        let fails = Arc::new(AtomicBool::new(false));
        let words = FailingWords(VolatileWords::new(), Arc::clone(&fails));
        let table = CommitTable::new(Box::new(words));
        let slots: Vec<Slot> = (1..=SLOTS as u64)
            .map(|number| table.commit(GlobalTxnId(number)).unwrap())
            .collect();
        std::thread::scope(|threads| {
            let waiting = threads.spawn(|| table.commit(GlobalTxnId(1)));
            std::thread::sleep(std::time::Duration::from_millis(5));
            fails.store(true, Ordering::Relaxed);
            assert!(table.next_identifiers(1).is_err());
            assert!(matches!(
                waiting.join().unwrap(),
                Err(Error::InDoubt { .. })
            ));
        });
        drop(slots);
    }
}
