//! Goal: no order of threads breaks the invariants of `partition` and `commit_table`, or loses a
//! signal.
//!
//! Method: two or three threads, a few steps each, on the real code. `shuttle` runs one at a time
//! and chooses the next at every lock, signal and atomic access; half of the schedules are uniform,
//! half have few changes of thread at unlikely places. A wait ends by a signal only (see `sync`),
//! so a lost one is a deadlock, which fails the test and prints the schedule.
//!
//! `cargo test -p indelible --features schedules --lib schedule_tests`

use crate::commit_table::{CommitTable, Step, VolatileWords, Words};
use crate::error::{Error, Result};
use crate::model::{Model, Observed};
use crate::partition::Partition;
use crate::sync::{AtomicU64, Ordering};
use pmem::{Counters, Domain};
use shuttle::thread::spawn;
use std::sync::Arc;
use std::time::Duration;
use storage::engine::{CommitTicket, Durability, Engine, GlobalTxnId};

/// Schedules of each kind that a test tries.
const SCHEDULES: usize = 10_000;
/// Changes of thread in a schedule of the second kind, in addition to those that waiting forces.
const CHANGES: usize = 3;
/// Longer than any test, so that only signals end a wait.
const LONG: Duration = Duration::from_hours(1);

fn explore(test: impl Fn() + Send + Sync + 'static) {
    let test = Arc::new(test);
    let same = Arc::clone(&test);
    shuttle::check_random(move || test(), SCHEDULES);
    shuttle::check_pct(move || same(), SCHEDULES, CHANGES);
}

fn partition() -> Arc<Partition> {
    partition_of(1)
}

fn partition_of(slots: usize) -> Arc<Partition> {
    let model = || -> Box<dyn Engine> { Box::new(Model::new(Arc::new(Observed::default()))) };
    Arc::new(Partition::new(0, (0..slots).map(|_| model()).collect()))
}

/// A commit of nothing, in a group that nobody has forced.
fn commit(partition: &Partition) -> Result<CommitTicket> {
    let mut slot = partition.take(LONG, None)?;
    slot.engine.begin()?;
    let ticket = slot.engine.commit(Durability::Group)?;
    slot.promised = ticket;
    partition.note_durable(&mut slot);
    partition.put(slot);
    Ok(ticket)
}

#[test]
fn one_thread_at_a_time_has_the_seat_and_each_gets_it() {
    explore(|| each_gets_a_seat(1));
}

#[test]
fn as_many_threads_as_seats_have_one_and_each_gets_one() {
    explore(|| each_gets_a_seat(2));
}

fn each_gets_a_seat(slots: usize) {
    let partition = partition_of(slots);
    let inside = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..slots + 2)
        .map(|_| {
            let (partition, inside) = (Arc::clone(&partition), Arc::clone(&inside));
            spawn(move || {
                for _ in 0..2 {
                    let slot = partition.take(LONG, None).unwrap();
                    assert!(inside.fetch_add(1, Ordering::SeqCst) < slots as u64);
                    inside.fetch_sub(1, Ordering::SeqCst);
                    partition.put(slot);
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert!(!partition.is_wanted());
}

#[test]
fn a_stopped_partition_lets_nobody_in_and_nobody_wait() {
    explore(|| {
        let partition = partition();
        let stopped = Arc::new(AtomicU64::new(0));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (partition, stopped) = (Arc::clone(&partition), Arc::clone(&stopped));
                spawn(move || match partition.take(LONG, None) {
                    Ok(slot) => {
                        assert_eq!(stopped.load(Ordering::SeqCst), 0);
                        partition.put(slot);
                    }
                    Err(error) => assert!(matches!(error, Error::Stopped { .. }), "{error}"),
                })
            })
            .collect();
        if let Ok(slot) = partition.take(LONG, None) {
            stopped.store(1, Ordering::SeqCst);
            partition.stop(slot);
        }
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert!(partition.take(LONG, None).is_err());
    });
}

#[test]
fn who_waits_for_a_group_is_told_when_it_is_durable() {
    explore(|| {
        let partition = partition();
        let tickets = [commit(&partition).unwrap(), commit(&partition).unwrap()];
        let followers: Vec<_> = tickets
            .into_iter()
            .map(|ticket| {
                let partition = Arc::clone(&partition);
                spawn(move || {
                    partition.wait_durable(ticket, LONG).unwrap();
                    assert!(partition.durable() >= ticket);
                })
            })
            .collect();
        // The leader has no patience, so it forces the group for all.
        let ticket = commit(&partition).unwrap();
        partition.wait_durable(ticket, Duration::ZERO).unwrap();
        let mut slot = partition.take(LONG, None).unwrap();
        assert!(slot.engine.durable() >= partition.durable());
        assert!(!slot.is_ahead());
        partition.put(slot);
        followers
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn who_waits_for_a_group_hears_that_the_partition_has_stopped() {
    explore(|| {
        let partition = partition();
        let ticket = commit(&partition).unwrap();
        let waiting = {
            let partition = Arc::clone(&partition);
            spawn(move || partition.wait_durable(ticket, LONG))
        };
        let leader = {
            let partition = Arc::clone(&partition);
            spawn(move || partition.wait_durable(ticket, Duration::ZERO))
        };
        if let Ok(slot) = partition.take(LONG, None) {
            partition.stop(slot);
        }
        for answer in [waiting.join().unwrap(), leader.join().unwrap()] {
            match answer {
                // The leader was first.
                Ok(()) => assert!(partition.durable() >= ticket),
                Err(error) => assert!(matches!(error, Error::InDoubt { .. }), "{error}"),
            }
        }
    });
}

#[test]
fn who_waits_for_a_slot_gets_one() {
    explore(|| {
        let table = Arc::new(CommitTable::new(Box::new(VolatileWords::new())));
        table.keep_slots(1);
        let taken = Arc::new(AtomicU64::new(0));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (table, taken) = (Arc::clone(&table), Arc::clone(&taken));
                spawn(move || {
                    let number = table.next_transaction().unwrap();
                    let slot = table.commit(number).unwrap();
                    assert_eq!(taken.fetch_add(1, Ordering::SeqCst), 0);
                    assert!(table.committed().unwrap().contains(&number.0));
                    taken.fetch_sub(1, Ordering::SeqCst);
                    table.release(slot, Vec::new(), |_| CommitTicket(0));
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn what_is_committed_together_is_stored_when_its_commit_returns() {
    explore(|| {
        let table = Arc::new(CommitTable::new(Box::new(VolatileWords::new())));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let table = Arc::clone(&table);
                spawn(move || {
                    let number = table.next_transaction().unwrap();
                    let slot = table.commit(number).unwrap();
                    assert!(table.committed().unwrap().contains(&number.0));
                    table.release(slot, Vec::new(), |_| CommitTicket(0));
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
}

/// Words of which the second and all later stores fail.
struct FailingWords(VolatileWords, u32);

impl Words for FailingWords {
    fn read(&self, index: usize) -> Result<u64> {
        self.0.read(index)
    }

    fn write(&mut self, stores: &[(usize, u64)], step: Step) -> Result<()> {
        self.1 += 1;
        if self.1 > 1 {
            return Err(Error::rejected("a planted failure".to_owned()));
        }
        self.0.write(stores, step)
    }

    fn domain(&self) -> Domain {
        self.0.domain()
    }

    fn counters(&self) -> Counters {
        self.0.counters()
    }

    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
}

#[test]
fn who_waits_for_a_slot_hears_that_the_table_has_failed() {
    explore(|| {
        let words = FailingWords(VolatileWords::new(), 0);
        let table = Arc::new(CommitTable::new(Box::new(words)));
        table.keep_slots(2);
        // Never given back: its participants cannot say that they are durable.
        let kept = table.commit(GlobalTxnId(1)).unwrap();
        let threads: Vec<_> = (2..4)
            .map(|number| {
                let table = Arc::clone(&table);
                spawn(move || table.commit(GlobalTxnId(number)).is_err())
            })
            .collect();
        for thread in threads {
            assert!(
                thread.join().unwrap(),
                "a number that is not stored is no commit"
            );
        }
        drop(kept);
    });
}

/// The checker must find a fault: a flag and a signal without the lock between them.
#[test]
#[should_panic(expected = "deadlock")]
fn a_lost_signal_is_found() {
    explore(|| {
        let ready = Arc::new(AtomicU64::new(0));
        let pair = Arc::new((crate::sync::Mutex::new(()), crate::sync::Condvar::new()));
        let (flag, signal) = (Arc::clone(&ready), Arc::clone(&pair));
        let waker = spawn(move || {
            flag.store(1, Ordering::SeqCst);
            signal.1.notify_all();
        });
        let guard = pair.0.lock().unwrap();
        if ready.load(Ordering::SeqCst) == 0 {
            drop(pair.1.wait(guard).unwrap());
        }
        waker.join().unwrap();
    });
}
