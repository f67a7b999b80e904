//! Groups in a table of hashes, in the order of their first rows.
//!
//! When the table is full, its groups go on taking rows, and rows of other groups are divided among
//! files by the hashes of their keys. Each file is then read with a table of its own.

use super::state::{self, State};
use crate::error::Result;
use crate::plan::{Aggregate, Report};
use crate::run::unique::Overflow;
use crate::run::{Operator, Row, Run, evaluate};
use crate::sink::Batch;
use crate::types::Datum;
use sql_rows::{BuildRowHasher, Chain, Reader, Share, bytes_of};
use std::collections::HashMap;

/// About the memory of an aggregate's state.
const STATE_BYTES: usize = 128;

pub(super) struct HashedGroups {
    share: Share,
    /// The number of each group in this table, by its key.
    places: HashMap<Row, usize, BuildRowHasher>,
    /// The states of each group, one group after the other.
    states: Vec<State>,
    files: Overflow,
    /// Groups that have all of their rows, with their numbers.
    complete: std::vec::IntoIter<(usize, Row)>,
    complete_states: std::vec::IntoIter<State>,
    /// A place for the arguments of calls, and one for a row after its key.
    arguments: Row,
    keyed: Row,
}

impl HashedGroups {
    pub(super) fn new(
        plan: &Aggregate,
        input: &mut dyn Operator,
        run: &mut Run<'_>,
    ) -> Result<Self> {
        let share = run.state.memory.share();
        let mut groups = Self {
            files: Overflow::new(&share),
            share,
            places: HashMap::default(),
            states: Vec::new(),
            complete: Vec::new().into_iter(),
            complete_states: Vec::new().into_iter(),
            arguments: Row::new(),
            keyed: Row::new(),
        };
        let (mut batch, mut key) = (Batch::default(), Row::with_capacity(plan.keys.len()));
        loop {
            input.next(run, &mut batch)?;
            if batch.is_empty() {
                break;
            }
            run.check()?;
            for row in batch.rows() {
                key.clear();
                for expression in &plan.keys {
                    key.push(evaluate(expression, row, run)?);
                }
                groups.add(plan, &key, row, run)?;
            }
        }
        groups.complete();
        Ok(groups)
    }

    /// Adds a row to its group.
    fn add(
        &mut self,
        plan: &Aggregate,
        key: &[Datum],
        row: &[Datum],
        run: &mut Run<'_>,
    ) -> Result<()> {
        let place = match self.places.get(key) {
            Some(place) => *place,
            None => {
                let bytes = bytes_of(key) + (plan.calls.len() * STATE_BYTES) as u64;
                if !self.files.has_room(&mut self.share, bytes) {
                    if !self.places.is_empty() {
                        self.keyed.clear();
                        self.keyed.extend(key.iter().chain(row).cloned());
                        return self.files.push(&self.share, key, &self.keyed);
                    }
                    self.share.force(bytes);
                }
                let place = self.places.len();
                self.places.insert(key.to_vec(), place);
                self.states.append(&mut State::all(&plan.calls, run));
                place
            }
        };
        let states = &mut self.states[place * plan.calls.len()..];
        for (state, call) in states.iter_mut().zip(&plan.calls) {
            state.add(call, row, &mut self.arguments, run)?;
        }
        Ok(())
    }

    /// The groups of the table have all of their rows.
    fn complete(&mut self) {
        let places = self.places.drain().map(|(key, place)| (place, key));
        let mut groups: Vec<(usize, Row)> = places.collect();
        groups.sort_unstable_by_key(|(place, _)| *place);
        self.complete = groups.into_iter();
        self.complete_states = std::mem::take(&mut self.states).into_iter();
    }

    /// Groups the rows of a file.
    fn read(&mut self, plan: &Aggregate, mut chain: Chain, run: &mut Run<'_>) -> Result<()> {
        let mut reader = Reader::default();
        let (keys, mut read) = (plan.keys.len(), 0_u64);
        while let Some(row) = chain.take(&mut reader)? {
            read += 1;
            if read.is_multiple_of(1024) {
                run.check()?;
            }
            let (key, row) = row.split_at(keys);
            self.add(plan, key, row, run)?;
        }
        self.complete();
        Ok(())
    }

    pub(super) fn next(
        &mut self,
        plan: &Aggregate,
        run: &mut Run<'_>,
        out: &mut Batch,
    ) -> Result<()> {
        loop {
            while !out.is_full()
                && let Some((_, key)) = self.complete.next()
            {
                let states = self.complete_states.by_ref().take(plan.calls.len());
                out.push(state::finish(key, states, &plan.calls, run)?);
            }
            if !out.is_empty() {
                return Ok(());
            }
            self.share.clear();
            match self.files.next_round()? {
                None => return Ok(()),
                Some(chain) => self.read(plan, chain, run)?,
            }
        }
    }

    pub(super) fn report(&self) -> Report {
        self.files.report(&self.share)
    }
}
