//! `DISTINCT` and `DISTINCT ON`: the first row of each kind, in the order of the input.
//!
//! Rows of one `ON` come one after the other, because the input is sorted by it. Other rows may
//! come in any order.

use super::evaluate::all;
use super::unique::Unique;
use super::{Operator, Row, Run, build};
use crate::error::Result;
use crate::plan::{Distinct, Report};
use crate::sink::Batch;
use std::sync::Arc;

pub(super) struct DistinctRun {
    plan: Arc<Distinct>,
    input: Box<dyn Operator>,
    met: Met,
    batch: Batch,
}

/// The rows that the next one is compared with.
enum Met {
    NotBegun,
    All(Box<Unique>),
    /// The keys of the last one.
    Last(Option<Row>),
}

impl DistinctRun {
    pub(super) fn new(plan: &Arc<Distinct>) -> Self {
        Self {
            plan: Arc::clone(plan),
            input: build(&plan.input),
            met: Met::NotBegun,
            batch: Batch::default(),
        }
    }
}

impl Operator for DistinctRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        out.reset(self.plan.input.width());
        while out.is_empty() {
            self.batch.want(out.room());
            self.input.next(run, &mut self.batch)?;
            run.check()?;
            match (&mut self.met, &self.plan.on) {
                (Met::NotBegun, None) => self.met = Met::All(Box::new(Unique::new(run))),
                (Met::NotBegun, Some(_)) => self.met = Met::Last(None),
                _ => {}
            }
            match &mut self.met {
                Met::All(unique) if self.batch.is_empty() => return unique.rest(run, out),
                Met::All(unique) => {
                    for row in self.batch.rows() {
                        unique.add(row, out)?;
                    }
                }
                Met::Last(last) => {
                    for row in self.batch.rows() {
                        let key = all(self.plan.on.as_deref().unwrap_or_default(), row, run)?;
                        if last.as_ref() != Some(&key) {
                            *last = Some(key);
                            out.push(row.iter().cloned());
                        }
                    }
                }
                Met::NotBegun => {}
            }
            if self.batch.is_empty() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.met = Met::NotBegun;
        self.input.restart(run)
    }

    fn report(&self) -> Option<Report> {
        match &self.met {
            Met::All(unique) => Some(unique.report()),
            _ => None,
        }
    }
}
