//! A join whose right input is run again for each left row, which it reads as the next outer row.
//!
//! Nothing is kept but a batch of each input.

use super::{Left, Output};
use crate::error::Result;
use crate::plan::Join;
use crate::run::{Operator, Row, Run, is_true};
use crate::sink::Batch;
use std::sync::Arc;

pub(super) struct LateralRun {
    plan: Arc<Join>,
    left: Left,
    output: Output,
    right: Box<dyn Operator>,
    /// Rows of the right input for the current left row, and the next of them.
    inner: Batch,
    inner_at: usize,
    is_running: bool,
    pair: Row,
}

impl LateralRun {
    pub(super) fn new(
        plan: &Arc<Join>,
        left: Left,
        right: Box<dyn Operator>,
        output: Output,
    ) -> Self {
        Self {
            plan: Arc::clone(plan),
            left,
            output,
            right,
            inner: Batch::default(),
            inner_at: 0,
            is_running: false,
            pair: Row::new(),
        }
    }

    /// Runs the right input on with the current left row as the next outer row.
    fn next_match(&mut self, run: &mut Run<'_>) -> Result<()> {
        let row = self.left.row().unwrap_or_default().to_vec();
        run.state.outer.push(row);
        let begun = if self.is_running {
            Ok(())
        } else {
            self.right.restart(run)
        };
        self.is_running = true;
        let read = begun.and_then(|()| self.right.next(run, &mut self.inner));
        run.state.outer.pop();
        self.inner_at = 0;
        read
    }

    /// Hands over pairs of the current left row; true if the batch is full.
    fn pairs(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<bool> {
        loop {
            if self.inner_at >= self.inner.len() {
                self.next_match(run)?;
                if self.inner.is_empty() {
                    return Ok(false);
                }
            }
            while self.inner_at < self.inner.len() {
                let right = self.inner.row(self.inner_at);
                self.inner_at += 1;
                if let Some(condition) = &self.plan.condition {
                    self.pair.clear();
                    let left = self.left.row().unwrap_or_default();
                    self.pair.extend(left.iter().chain(right).cloned());
                    if !is_true(condition, &self.pair, run)? {
                        continue;
                    }
                }
                self.left.is_matched = true;
                if self.plan.kind.ends_at_first() {
                    return Ok(false);
                }
                self.output.push(self.left.row(), Some(right), out);
                if out.is_full() {
                    return Ok(true);
                }
            }
        }
    }
}

impl Operator for LateralRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        out.reset(self.output.width());
        self.left.batch.want(out.room());
        while self.left.fill(run)? {
            if self.pairs(run, out)? {
                return Ok(());
            }
            let row = self.left.row().unwrap_or_default();
            self.output.end_of_row(row, self.left.is_matched, out);
            self.left.advance();
            self.is_running = false;
            self.inner.reset(0);
            self.inner_at = 0;
            if out.is_full() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.is_running = false;
        self.inner.reset(0);
        self.inner_at = 0;
        self.left.restart(run)
    }
}
