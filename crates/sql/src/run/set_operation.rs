//! `UNION`, `INTERSECT` and `EXCEPT`, with and without `ALL`.
//!
//! `UNION ALL` passes its inputs on one after the other. The others count the rows of the right
//! input, or keep those that they have seen.

use super::{Operator, Row, Run, build};
use crate::error::Result;
use crate::plan::{SetKind, SetOperation};
use crate::sink::Batch;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The operator of a set operation.
pub(super) fn build_operation(plan: &Arc<SetOperation>) -> Box<dyn Operator> {
    let (left, right) = (build(&plan.left), build(&plan.right));
    if plan.kind == SetKind::Union {
        return Box::new(Union {
            inputs: [left, right],
            at: 0,
            seen: (!plan.all).then(HashSet::new),
            batch: Batch::default(),
        });
    }
    Box::new(Comparison {
        plan: Arc::clone(plan),
        left,
        right,
        counts: None,
        seen: HashSet::new(),
        batch: Batch::default(),
    })
}

struct Union {
    inputs: [Box<dyn Operator>; 2],
    at: usize,
    /// The rows handed over, unless all are.
    seen: Option<HashSet<Row>>,
    batch: Batch,
}

impl Operator for Union {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        loop {
            let Some(input) = self.inputs.get_mut(self.at) else {
                out.reset(0);
                return Ok(());
            };
            let Some(seen) = &mut self.seen else {
                input.next(run, out)?;
                if !out.is_empty() {
                    return Ok(());
                }
                self.at += 1;
                continue;
            };
            input.next(run, &mut self.batch)?;
            run.check()?;
            if self.batch.is_empty() {
                self.at += 1;
                continue;
            }
            out.reset(self.batch.width());
            for row in self.batch.rows() {
                if !seen.contains(row) {
                    run.state.budget.take(row)?;
                    seen.insert(row.to_vec());
                    out.push(row.iter().cloned());
                }
            }
            if !out.is_empty() {
                return Ok(());
            }
        }
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.at = 0;
        if let Some(seen) = &mut self.seen {
            seen.clear();
        }
        self.inputs
            .iter_mut()
            .try_for_each(|input| input.restart(run))
    }
}

/// Intersection or difference.
struct Comparison {
    plan: Arc<SetOperation>,
    left: Box<dyn Operator>,
    right: Box<dyn Operator>,
    /// Rows of the right input that have no partner on the left yet.
    counts: Option<HashMap<Row, u64>>,
    seen: HashSet<Row>,
    batch: Batch,
}

impl Comparison {
    fn count(&mut self, run: &mut Run<'_>) -> Result<HashMap<Row, u64>> {
        let mut counts = HashMap::new();
        loop {
            self.right.next(run, &mut self.batch)?;
            if self.batch.is_empty() {
                return Ok(counts);
            }
            run.check()?;
            for row in self.batch.rows() {
                if let Some(count) = counts.get_mut(row) {
                    *count += 1;
                } else {
                    run.state.budget.take(row)?;
                    counts.insert(row.to_vec(), 1);
                }
            }
        }
    }

    /// Whether a left row is part of the result.
    fn keeps(&mut self, row: &[crate::types::Datum], counts: &mut HashMap<Row, u64>) -> bool {
        let wants_partner = self.plan.kind == SetKind::Intersect;
        let partner = counts.get_mut(row);
        if self.plan.all {
            return match partner {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    wants_partner
                }
                _ => !wants_partner,
            };
        }
        partner.is_some() == wants_partner && self.seen.insert(row.to_vec())
    }
}

impl Operator for Comparison {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        let mut counts = match self.counts.take() {
            Some(counts) => counts,
            None => self.count(run)?,
        };
        out.reset(self.plan.left.width());
        while out.is_empty() {
            let mut batch = std::mem::take(&mut self.batch);
            self.left.next(run, &mut batch)?;
            for row in batch.rows() {
                if self.keeps(row, &mut counts) {
                    out.push(row.iter().cloned());
                }
            }
            let is_over = batch.is_empty();
            self.batch = batch;
            if is_over {
                break;
            }
            run.check()?;
        }
        self.counts = Some(counts);
        Ok(())
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.counts = None;
        self.seen.clear();
        self.left.restart(run)?;
        self.right.restart(run)
    }
}
