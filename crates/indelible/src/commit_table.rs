//! The commit table: where a transaction over several partitions becomes committed.
//!
//! Each participant first makes its part *prepared*; then one 8-byte store of the transaction's number into a free slot is
//! the commit point; then each participant commits. Recovery of a partition that finds a prepared transaction asks whether
//! its number stands in a slot. The table also hands out the numbers that must never be used twice.
//!
//! | word | meaning |
//! |---|---|
//! | 0 | generation of transaction numbers: the upper half of every number |
//! | 1 | next identifier of tables and indexes |
//! | 8 .. | slots: the number of a committed transaction, or 0 |
//!
//! Invariants:
//! 1. A number is unique in the life of the database: its generation was made durable before its first use in this
//!    opening, so a slot that keeps an old number says nothing about a new one, and slots are never cleared.
//! 2. A slot is overwritten only when every participant's commit is durable without it. When a partition's `open` has
//!    returned, the fate of what was prepared in it is durable, so at open all slots are free.
//! 3. Opening stores nothing: the generation grows when the first number is needed.

use crate::error::{Error, Result};
use crate::sync::{Condvar, Mutex, MutexGuard};
use pmem::{Counters, Domain, Site, site};
use std::sync::PoisonError;
use storage::StorageError;
use storage::engine::GlobalTxnId;

/// The commit table's pool.
pub(crate) const COMMIT_TABLE: &str = "commits.pool";
/// The name under which one that takes the place of a lost one is made.
pub(crate) const COMMIT_TABLE_NEW: &str = "commits.pool.new";

const GENERATION_WORD: usize = 0;
const IDENTIFIER_WORD: usize = 1;
const FIRST_SLOT: usize = 8;
/// Transactions over several partitions that can be between their commit point and their end at one time.
const SLOTS: usize = 504;
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
    /// Stores a word in one failure-atomic step and makes it durable.
    fn write(&mut self, index: usize, value: u64, step: Step) -> Result<()>;
    /// What the medium promises.
    fn domain(&self) -> Domain;
    /// What its device counted.
    fn counters(&self) -> Counters;
    /// Bytes of the pool.
    fn bytes(&self) -> u64;
}

/// Words that are lost at restart, for the method that keeps nothing.
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

    fn write(&mut self, index: usize, value: u64, _: Step) -> Result<()> {
        self.0[index] = value;
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

/// The commit table of an open database.
pub(crate) struct CommitTable {
    state: Mutex<State>,
    slot_freed: Condvar,
}

struct State {
    words: Box<dyn Words>,
    free: Vec<u16>,
    /// Upper half of the numbers of this opening; 0 until the first one is needed.
    generation: u64,
    /// Numbers handed out in this generation.
    count: u64,
    /// A store failed, so it is unknown what the medium holds.
    failed: bool,
}

/// A slot that holds a committed transaction until its participants need it no more.
#[must_use]
pub(crate) struct Slot(u16);

impl CommitTable {
    pub(crate) fn new(words: Box<dyn Words>) -> Self {
        let free = (FIRST_SLOT as u16..WORDS as u16).rev().collect();
        let state = State {
            words,
            free,
            generation: 0,
            count: 0,
            failed: false,
        };
        Self {
            state: Mutex::new(state),
            slot_freed: Condvar::new(),
        }
    }

    /// Leaves so few slots that transactions wait for them.
    #[cfg(all(test, feature = "schedules"))]
    pub(crate) fn keep_slots(&self, count: usize) {
        self.lock().free.truncate(count);
    }

    /// What the medium promises.
    pub(crate) fn domain(&self) -> Domain {
        self.lock().words.domain()
    }

    /// What the table's device counted, and its bytes.
    pub(crate) fn cost(&self) -> (Counters, u64) {
        let state = self.lock();
        (state.words.counters(), state.words.bytes())
    }

    /// Numbers of the committed transactions that the slots name, for recovery.
    pub(crate) fn committed(&self) -> Result<Vec<u64>> {
        let state = self.lock();
        let mut numbers = Vec::new();
        for index in FIRST_SLOT..WORDS {
            match state.words.read(index)? {
                0 => {}
                number => numbers.push(number),
            }
        }
        Ok(numbers)
    }

    /// A number for a transaction over several partitions, never used before.
    pub(crate) fn next_transaction(&self) -> Result<GlobalTxnId> {
        let mut state = self.lock();
        if state.generation == 0 || state.count == u64::from(u32::MAX) {
            let generation = next_generation(state.words.read(GENERATION_WORD)?)?;
            let step = Step {
                flush: site!("commit-table.generation"),
                fence: site!("commit-table.generation-fence"),
            };
            // commit point: numbers of this generation may appear in partitions.
            self.write(&mut state, GENERATION_WORD, generation, step)?;
            state.generation = generation;
            state.count = 0;
        }
        state.count += 1;
        Ok(GlobalTxnId(state.generation << 32 | state.count))
    }

    /// `count` identifiers one after the other, never used before; returns the first.
    pub(crate) fn next_identifiers(&self, count: u32) -> Result<u32> {
        let mut state = self.lock();
        let first = state.words.read(IDENTIFIER_WORD)?.max(FIRST_IDENTIFIER);
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
        self.write(&mut state, IDENTIFIER_WORD, next, step)?;
        Ok(first)
    }

    /// Makes a prepared transaction committed. The slot must be given back with [`CommitTable::release`] once every participant's
    /// commit is durable, and kept otherwise.
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
        let step = Step {
            flush: site!("commit-table.commit"),
            fence: site!("commit-table.commit-fence"),
        };
        // commit point: the transaction is committed in all its partitions.
        self.write(&mut state, usize::from(index), transaction.0, step)?;
        Ok(Slot(index))
    }

    /// Gives a slot back for the next transaction.
    #[allow(clippy::needless_pass_by_value, reason = "a slot is given back once")]
    pub(crate) fn release(&self, slot: Slot) {
        self.lock().free.push(slot.0);
        self.slot_freed.notify_one();
    }

    /// Makes a word durable. After a failure nobody gets a slot any more, so those who wait for one are told.
    fn write(&self, state: &mut State, index: usize, value: u64, step: Step) -> Result<()> {
        let written = state.write(index, value, step);
        if written.is_err() {
            self.slot_freed.notify_all();
        }
        written
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic below this mutex can only come between whole steps; `failed` covers the store itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn write(&mut self, index: usize, value: u64, step: Step) -> Result<()> {
        if self.failed {
            return Err(failed());
        }
        let written = self.words.write(index, value, step);
        self.failed = written.is_err();
        written
    }
}

/// The generation after one that stands in the table: the upper half of a number, so it has 32 bits.
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

/// Gives a new table that takes the place of a lost one its first numbers.
pub(crate) fn begin_anew(
    words: &mut impl Words,
    generation: u64,
    next_identifier: u32,
) -> Result<()> {
    let step = Step {
        flush: site!("commit-table.anew-generation"),
        fence: site!("commit-table.anew-generation-fence"),
    };
    words.write(GENERATION_WORD, generation, step)?;
    let step = Step {
        flush: site!("commit-table.anew-identifiers"),
        fence: site!("commit-table.anew-identifiers-fence"),
    };
    words.write(IDENTIFIER_WORD, next_identifier.into(), step)
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
        table.release(slot);
        assert_eq!(
            table.committed().unwrap(),
            [second.0],
            "slots keep their number until reuse"
        );
        let mut words = VolatileWords::new();
        for index in 0..WORDS {
            words.0[index] = table.lock().words.read(index).unwrap();
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
            table.release(slots.pop().unwrap());
            assert!(waiting.join().unwrap().is_ok());
        });
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

    /// Words whose stores fail from a moment on.
    struct FailingWords(VolatileWords, Arc<AtomicBool>);

    impl Words for FailingWords {
        fn read(&self, index: usize) -> Result<u64> {
            self.0.read(index)
        }

        fn write(&mut self, index: usize, value: u64, step: Step) -> Result<()> {
            if self.1.load(Ordering::Relaxed) {
                return Err(StorageError::Poisoned.into());
            }
            self.0.write(index, value, step)
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
