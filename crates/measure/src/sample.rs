//! Where time goes: a timer samples the activity of each partition.
//!
//! The emulated device knows the part (table, index, log, ...) of the latest access of each
//! partition; a thread reads it a few thousand times a second. Between the end of a transaction and
//! the first access of the next one a partition is in no part. Limits: a partition is taken to stay
//! in a part until its next access, and the device's own model takes time, so parts that access
//! memory often weigh more than on real memory.
//!
//! The page methods work in frames of ordinary memory, which are no accesses of the device. Their
//! threads carry probes, which report each thread's activity, and note how long insertions into the
//! log take and how long threads wait for it.

use crate::run::Measured;
use anyhow::Result;
use indelible::{Activity, Error, Inserts, Probe, Transaction, Worker};
use pmem::Part;
use pmem::device::emulated::Emulator;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use workload::Script;

/// Pause between two looks.
const PERIOD: Duration = Duration::from_micros(100);

/// Whether the parts are sampled. Only the emulated device has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// No timer runs.
    Off,
    /// A timer samples the activity of each partition, or of each thread, which takes a little of
    /// the measured time.
    On,
}

/// How often each part was seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shares {
    parts: [u64; Part::ALL.len()],
    none: u64,
}

impl Shares {
    fn look(&mut self, emulators: &[Emulator]) {
        for emulator in emulators {
            match emulator.at_work() {
                Some(part) => self.parts[part as usize] += 1,
                None => self.none += 1,
            }
        }
    }

    /// The share of a part, or of no part, from 0 to 1.
    pub fn of(&self, part: Option<Part>) -> f64 {
        let seen = part.map_or(self.none, |part| self.parts[part as usize]);
        let all = self.none + self.parts.iter().sum::<u64>();
        seen as f64 / all.max(1) as f64
    }
}

impl Sampling {
    /// Runs a measurement, which marks the ends of its transactions where it is asked to, under the
    /// timer.
    pub(crate) fn measure(
        self,
        emulators: &[Emulator],
        run: impl FnOnce(Option<Marks<'_>>) -> Result<Measured>,
    ) -> Result<(Measured, Option<Shares>)> {
        if self == Self::Off {
            return Ok((run(None)?, None));
        }
        let stop = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let timer = threads.spawn(|| {
                let mut shares = Shares::default();
                while !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(PERIOD);
                    shares.look(emulators);
                }
                shares
            });
            let measured = run(Some(Marks(emulators)));
            stop.store(true, Ordering::Relaxed);
            let shares = timer.join().expect("the timer does not panic");
            Ok((measured?, Some(shares)))
        })
    }
}

/// The probes of the threads of a run; none without sampling.
pub(crate) struct Probes(Vec<Arc<Probe>>);

impl Probes {
    /// Lets the calling thread, which runs a list, carry its probe.
    pub(crate) fn carry(&self, list: u32) {
        if let Some(probe) = self.0.get(list as usize) {
            probe.carry();
        }
    }
}

/// Activities of the threads of a page method.
pub struct Seen {
    looks: [u64; Activity::ALL.len()],
    /// Of all threads.
    pub inserts: Inserts,
    /// How long all threads together waited for the log.
    pub wait_ns: u64,
}

impl Seen {
    /// The share of the threads' time that an activity has, from 0 to 1.
    pub fn share(&self, activity: Activity) -> f64 {
        let all: u64 = self.looks.iter().sum();
        self.looks[activity as usize] as f64 / all.max(1) as f64
    }
}

/// Runs a measurement of this many threads. Under the timer they carry the probes given to `run`.
pub(crate) fn watch(
    sampling: Sampling,
    threads: usize,
    run: impl FnOnce(&Probes) -> Result<Measured>,
) -> Result<(Measured, Option<Seen>)> {
    if sampling == Sampling::Off {
        return Ok((run(&Probes(Vec::new()))?, None));
    }
    let probes = Probes((0..threads).map(|_| Arc::default()).collect());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let timer = scope.spawn(|| {
            let mut looks = [0; Activity::ALL.len()];
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(PERIOD);
                for probe in &probes.0 {
                    looks[probe.at_work() as usize] += 1;
                }
            }
            looks
        });
        let measured = run(&probes);
        stop.store(true, Ordering::Relaxed);
        let looks = timer.join().expect("the timer does not panic");
        let mut inserts = Inserts::default();
        probes
            .0
            .iter()
            .for_each(|probe| probe.add_inserts(&mut inserts));
        let seen = Seen {
            looks,
            inserts,
            wait_ns: probes.0.iter().map(|probe| probe.wait_ns()).sum(),
        };
        Ok((measured?, Some(seen)))
    })
}

/// Makes scripts that mark the ends of their transactions.
#[derive(Clone, Copy)]
pub(crate) struct Marks<'e>(&'e [Emulator]);

impl Marks<'_> {
    pub(crate) fn on<S: Script>(self, list: u32, script: S) -> Marked<S> {
        Marked {
            emulator: self.0[list as usize % self.0.len()].clone(),
            script,
        }
    }
}

/// A script that marks the ends of its transactions.
pub(crate) struct Marked<S> {
    script: S,
    emulator: Emulator,
}

impl<S: Script> Script for Marked<S> {
    const KINDS: usize = S::KINDS;

    fn position(&self) -> u64 {
        self.script.position()
    }

    fn kind(&self) -> usize {
        self.script.kind()
    }

    fn step(&mut self, transaction: &mut Transaction<'_>) -> indelible::Result<()> {
        self.script.step(transaction)
    }

    fn announce(&self, worker: &mut Worker<'_>) -> indelible::Result<()> {
        self.script.announce(worker)
    }

    fn next(&mut self) {
        self.emulator.leave();
        self.script.next();
    }

    fn is_rollback(error: &Error) -> bool {
        S::is_rollback(error)
    }
}
