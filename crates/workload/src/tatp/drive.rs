//! TATP with its inputs made: loading, runners, and the check that acknowledged transactions are
//! there.
//!
//! Every subscriber after a prefix of its partition's list follows from the one before, so the
//! check compares all of them, whatever kind of transaction changed them.

use super::conditions::{Checked, check_consistency};
use super::list::{self, Input};
use super::population::{load_partition, loaded_states};
use super::runner::Runner;
use super::state::State;
use super::{SUBSCRIBERS_MAX, Tables, TatpOptions};
use crate::conditions::Findings;
use crate::loader::{self, Loaded};
use crate::prefix::{leads_there, run_lists};
use crate::standard::{Workload, WorkloadError};
use indelible::Database;
use std::ops::RangeInclusive;

/// A workload with its inputs made.
#[derive(Debug)]
pub struct Tatp {
    options: TatpOptions,
    lists: Vec<Vec<Input>>,
}

impl Tatp {
    /// Makes the list of inputs, 24 bytes each.
    pub fn new(options: TatpOptions) -> Result<Self, WorkloadError> {
        if options.lists() == 0 || options.partitions > i16::MAX as u32 {
            let problem = format!("use 1 to {}", i16::MAX);
            return Err(WorkloadError::option("partitions", problem));
        }
        if !(options.partitions..=SUBSCRIBERS_MAX).contains(&options.subscribers) {
            let problem =
                format!("use at least one subscriber a partition and at most {SUBSCRIBERS_MAX}");
            return Err(WorkloadError::option("subscribers", problem));
        }
        let lists = loader::lists(options.lists(), options.transactions, |list, count| {
            list::generate(&options, list, count)
        });
        Ok(Self { options, lists })
    }

    /// The options of the run.
    pub fn options(&self) -> &TatpOptions {
        &self.options
    }

    /// The inputs of a list.
    pub fn list(&self, list: u32) -> &[Input] {
        &self.lists[list as usize]
    }

    /// Checks the conditions. Nobody may write meanwhile. The calling thread must not hold a
    /// transaction or a worker. A violation is no error of the check: see [`Checked::into_result`].
    pub fn check_consistency(&self, database: &Database) -> Result<Checked, WorkloadError> {
        check_consistency(&self.options, database)
    }

    /// The place of an input's subscriber among those of the partition.
    fn place(&self, partition: u32, input: Input) -> usize {
        let first = self.options.subscriber(partition, 0);
        ((input.subscriber() - first) / self.options.partitions) as usize
    }

    /// Compares the subscribers that several threads have left with the result of each thread
    /// alone.
    fn check_shared(
        &self,
        partition: u32,
        (before, after): (&[State], &[State]),
        done: &[(u32, RangeInclusive<u64>)],
    ) -> Result<(), WorkloadError> {
        let alone = done.iter().map(|(list, done)| {
            let mut left: Vec<_> = before.iter().map(|state| (*state, 0)).collect();
            let apply = |left: &mut Vec<(State, u32)>, input: Input| {
                let (state, written) = &mut left[self.place(partition, input)];
                *written |= state.written_by(input);
                state.apply(input);
            };
            leads_there(&mut left, self.list(*list), done.clone(), |_| false, apply);
            left
        });
        let alone: Vec<_> = alone.collect();
        for (at, (before, found)) in before.iter().zip(after).enumerate() {
            let left: Vec<_> = alone.iter().map(|left| left[at]).collect();
            if !found.may_be_left(before, &left) {
                let subscriber = self.options.subscriber(partition, at as u32);
                return Err(WorkloadError::Lost {
                    partition,
                    place: format!("subscriber {subscriber}"),
                    found: format!("{found:?}, where {before:?} was and threads left {left:?}"),
                });
            }
        }
        Ok(())
    }

    fn check_partition(
        &self,
        partition: u32,
        (before, after): (&[State], &[State]),
        done: RangeInclusive<u64>,
    ) -> Result<(), WorkloadError> {
        let differing = before.iter().zip(after).filter(|(b, a)| b != a).count();
        let mut expected = Expected {
            subscribers: before.to_vec(),
            differing,
        };
        let fits = |expected: &Expected| expected.differing == 0;
        let apply = |expected: &mut Expected, input: Input| {
            let at = self.place(partition, input);
            let differed = expected.subscribers[at] != after[at];
            expected.subscribers[at].apply(input);
            let differs = expected.subscribers[at] != after[at];
            expected.differing += usize::from(differs);
            expected.differing -= usize::from(differed);
        };
        if leads_there(&mut expected, self.list(partition), done, fits, apply) {
            return Ok(());
        }
        let pairs = expected.subscribers.iter().zip(after);
        let mut differing = (0..).zip(pairs).filter(|(_, (e, found))| e != found);
        let Some((at, (expected, found))) = differing.next() else {
            return Ok(());
        };
        Err(WorkloadError::Lost {
            partition,
            place: format!("subscriber {}", self.options.subscriber(partition, at)),
            found: format!("{found:?} instead of {expected:?}"),
        })
    }
}

/// The expected subscribers of a partition, and the number that differ.
struct Expected {
    subscribers: Vec<State>,
    differing: usize,
}

impl Workload for Tatp {
    const NAME: &'static str = "tatp";
    type Tables = Tables;
    type Content = Checked;
    type Runner<'w> = Runner<'w>;

    fn partitions(&self) -> u32 {
        self.options.partitions
    }

    fn lists(&self) -> u32 {
        self.options.lists()
    }

    fn rows(&self) -> u64 {
        self.options.rows()
    }

    fn create(&self, database: &Database, _: Loaded<'_>) -> Result<Tables, WorkloadError> {
        Ok(Tables::create(database)?)
    }

    fn load_partition(
        &self,
        database: &Database,
        tables: &Tables,
        partition: u32,
        loaded: Loaded<'_>,
    ) -> Result<(), WorkloadError> {
        let options = &self.options;
        Ok(load_partition(
            options, tables, database, partition, loaded,
        )?)
    }

    fn tables(database: &Database) -> Result<Tables, WorkloadError> {
        Ok(Tables::open(database)?)
    }

    fn runner<'w>(
        &'w self,
        _: &Database,
        tables: &'w Tables,
        list: u32,
        position: u64,
    ) -> Result<Runner<'w>, WorkloadError> {
        Ok(Runner::new(self, tables, list, position))
    }

    fn loaded(&self) -> Checked {
        let partitions = (0..self.options.partitions)
            .map(|partition| loaded_states(&self.options, partition))
            .collect();
        Checked {
            findings: Findings::default(),
            partitions,
        }
    }

    fn look(&self, database: &Database) -> Result<Checked, WorkloadError> {
        self.check_consistency(database)?.into_result()
    }

    /// Compares everything that transactions change, and a digest of everything else.
    fn check_since(
        &self,
        before: &Checked,
        after: &Checked,
        done: &[RangeInclusive<u64>],
    ) -> Result<(), WorkloadError> {
        let pairs = before.partitions.iter().zip(&after.partitions);
        let lists = (self.options.partitions, self.options.lists());
        for (partition, (before, after)) in (0..).zip(pairs) {
            let mut known = run_lists(partition, lists, done);
            if known.len() > 1 {
                self.check_shared(partition, (before, after), &known)?;
            } else if let Some((_, done)) = known.pop() {
                self.check_partition(partition, (before, after), done)?;
            }
        }
        Ok(())
    }
}
