//! Joins: by a table of hashes, by reading the right input again, or by running it again.
//!
//! All of them hold the left input's batch and look for partners of one of its rows at a time. The
//! right rows of a hash join and of a plain loop are kept in memory; those of a lateral join come
//! from operators that see the left row as the next outer row.

use super::{Operator, Row, Run, build, collect, evaluate, is_true};
use crate::error::Result;
use crate::plan::{Expr, Join, JoinKind, JoinMethod};
use crate::sink::Batch;
use crate::types::Datum;
use std::collections::HashMap;
use std::sync::Arc;

/// The operator of a join.
pub(super) fn build_join(plan: &Arc<Join>) -> Box<dyn Operator> {
    let left = Left::new(build(&plan.left));
    let right = build(&plan.right);
    let plan = Arc::clone(plan);
    match plan.method {
        JoinMethod::Lateral => Box::new(LateralRun {
            plan,
            left,
            right,
            inner: Batch::default(),
            inner_at: 0,
            is_running: false,
        }),
        _ => Box::new(KeptRun {
            plan,
            left,
            right,
            kept: None,
            candidates: Candidates::None,
            unmatched: None,
        }),
    }
}

/// The left input: a batch, and the row of it that looks for partners.
struct Left {
    input: Box<dyn Operator>,
    batch: Batch,
    at: usize,
    /// Whether the current row has found a partner.
    is_matched: bool,
}

impl Left {
    fn new(input: Box<dyn Operator>) -> Self {
        Self {
            input,
            batch: Batch::default(),
            at: 0,
            is_matched: false,
        }
    }

    fn row(&self) -> Option<&[Datum]> {
        (self.at < self.batch.len()).then(|| self.batch.row(self.at))
    }

    /// Makes sure that there is a current row; false if there are no more.
    fn fill(&mut self, run: &mut Run<'_>) -> Result<bool> {
        if self.at < self.batch.len() {
            return Ok(true);
        }
        run.check()?;
        self.at = 0;
        self.input.next(run, &mut self.batch)?;
        Ok(!self.batch.is_empty())
    }

    fn advance(&mut self) {
        self.at += 1;
        self.is_matched = false;
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.batch.reset(0);
        self.at = 0;
        self.is_matched = false;
        self.input.restart(run)
    }
}

/// The right rows of a join, kept.
struct KeptRows {
    rows: Vec<Row>,
    /// Positions of rows by the values of their keys, if the join is by hash.
    by_key: Option<HashMap<Row, Vec<u32>>>,
    /// The rows that have found a partner, where it matters.
    matched: Vec<bool>,
}

/// The right rows that the current left row has still to look at.
enum Candidates {
    None,
    All(usize),
    Some(Vec<u32>, usize),
}

struct KeptRun {
    plan: Arc<Join>,
    left: Left,
    right: Box<dyn Operator>,
    kept: Option<KeptRows>,
    candidates: Candidates,
    /// The right row that is next, when rows without partners are handed over at the end.
    unmatched: Option<usize>,
}

impl KeptRun {
    fn keep(&mut self, run: &mut Run<'_>) -> Result<KeptRows> {
        let rows = collect(&mut *self.right, run)?;
        let by_key = match &self.plan.method {
            JoinMethod::Hash { right, .. } => {
                let mut by_key: HashMap<Row, Vec<u32>> = HashMap::with_capacity(rows.len());
                for (at, row) in rows.iter().enumerate() {
                    if let Some(key) = key_of(right, row, run)? {
                        by_key.entry(key).or_default().push(at as u32);
                    }
                }
                Some(by_key)
            }
            _ => None,
        };
        let keeps_right = matches!(self.plan.kind, JoinKind::Right | JoinKind::Full);
        let matched = vec![false; if keeps_right { rows.len() } else { 0 }];
        Ok(KeptRows {
            rows,
            by_key,
            matched,
        })
    }

    /// The right rows that may be partners of the current left row.
    fn candidates(&self, kept: &KeptRows, run: &mut Run<'_>) -> Result<Candidates> {
        let (Some(by_key), JoinMethod::Hash { left, .. }) = (&kept.by_key, &self.plan.method)
        else {
            return Ok(Candidates::All(0));
        };
        let row = self.left.row().unwrap_or_default();
        let rows = match key_of(left, row, run)? {
            Some(key) => by_key.get(&key).cloned().unwrap_or_default(),
            None => Vec::new(),
        };
        Ok(Candidates::Some(rows, 0))
    }

    /// Hands over pairs of the current left row; true if the batch is full.
    fn pairs(&mut self, kept: &mut KeptRows, run: &mut Run<'_>, out: &mut Batch) -> Result<bool> {
        let kind = self.plan.kind;
        let ends_at_first = matches!(kind, JoinKind::Semi | JoinKind::Anti);
        let mut pair = self.left.row().unwrap_or_default().to_vec();
        let (width, mut tried) = (pair.len(), 0_u32);
        loop {
            let right = match &mut self.candidates {
                Candidates::None => return Ok(false),
                Candidates::All(at) => {
                    *at += 1;
                    *at - 1
                }
                Candidates::Some(rows, at) => {
                    *at += 1;
                    rows.get(*at - 1).map_or(usize::MAX, |row| *row as usize)
                }
            };
            let Some(partner) = kept.rows.get(right) else {
                self.candidates = Candidates::None;
                return Ok(false);
            };
            tried += 1;
            if tried % 1024 == 0 {
                run.check()?;
            }
            pair.truncate(width);
            pair.extend(partner.iter().cloned());
            if let Some(condition) = &self.plan.condition
                && !is_true(condition, &pair, run)?
            {
                continue;
            }
            self.left.is_matched = true;
            if let Some(matched) = kept.matched.get_mut(right) {
                *matched = true;
            }
            if ends_at_first {
                self.candidates = Candidates::None;
                return Ok(false);
            }
            out.push(pair.iter().cloned());
            if out.is_full() {
                return Ok(true);
            }
        }
    }

    /// Hands over right rows that found no partner.
    fn rest(&mut self, kept: &KeptRows, out: &mut Batch) {
        let at = self.unmatched.get_or_insert(0);
        let left_width = self.plan.left.width();
        while let Some(matched) = kept.matched.get(*at)
            && !out.is_full()
        {
            if !matched {
                let nulls = std::iter::repeat_n(Datum::Null, left_width);
                out.push(nulls.chain(kept.rows[*at].iter().cloned()));
            }
            *at += 1;
        }
    }

    fn fill(&mut self, kept: &mut KeptRows, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        while self.unmatched.is_none() {
            if matches!(self.candidates, Candidates::None) {
                if !self.left.fill(run)? {
                    break;
                }
                self.candidates = self.candidates(kept, run)?;
            }
            if self.pairs(kept, run, out)? {
                return Ok(());
            }
            end_of_row(&self.plan, &mut self.left, out);
            if out.is_full() {
                return Ok(());
            }
        }
        self.rest(kept, out);
        Ok(())
    }
}

/// Hands over the current left row if its kind of join wants it, after all its partners.
fn end_of_row(plan: &Join, left: &mut Left, out: &mut Batch) {
    let row = left.row().unwrap_or_default();
    match plan.kind {
        JoinKind::Left | JoinKind::Full if !left.is_matched => {
            let nulls = std::iter::repeat_n(Datum::Null, plan.right.width());
            out.push(row.iter().cloned().chain(nulls));
        }
        JoinKind::Semi if left.is_matched => out.push(row.iter().cloned()),
        JoinKind::Anti if !left.is_matched => out.push(row.iter().cloned()),
        _ => {}
    }
    left.advance();
}

/// The values of a join's keys; none if one of them is NULL, which equals nothing.
fn key_of(keys: &[Expr], row: &[Datum], run: &mut Run<'_>) -> Result<Option<Row>> {
    let mut values = Vec::with_capacity(keys.len());
    for key in keys {
        match evaluate(key, row, run)? {
            Datum::Null => return Ok(None),
            value => values.push(value),
        }
    }
    Ok(Some(values))
}

/// Columns of the rows of a join.
fn width(plan: &Join) -> usize {
    match plan.kind {
        JoinKind::Semi | JoinKind::Anti => plan.left.width(),
        _ => plan.left.width() + plan.right.width(),
    }
}

impl Operator for KeptRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        out.reset(width(&self.plan));
        let mut kept = match self.kept.take() {
            Some(kept) => kept,
            None => self.keep(run)?,
        };
        let filled = self.fill(&mut kept, run, out);
        self.kept = Some(kept);
        filled
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.kept = None;
        self.candidates = Candidates::None;
        self.unmatched = None;
        self.left.restart(run)?;
        self.right.restart(run)
    }
}

struct LateralRun {
    plan: Arc<Join>,
    left: Left,
    right: Box<dyn Operator>,
    /// Rows of the right input for the current left row, and the next of them.
    inner: Batch,
    inner_at: usize,
    is_running: bool,
}

impl LateralRun {
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
            let mut pair = self.left.row().unwrap_or_default().to_vec();
            let width = pair.len();
            while self.inner_at < self.inner.len() {
                pair.truncate(width);
                pair.extend(self.inner.row(self.inner_at).iter().cloned());
                self.inner_at += 1;
                if let Some(condition) = &self.plan.condition
                    && !is_true(condition, &pair, run)?
                {
                    continue;
                }
                self.left.is_matched = true;
                if matches!(self.plan.kind, JoinKind::Semi | JoinKind::Anti) {
                    return Ok(false);
                }
                out.push(pair.iter().cloned());
                if out.is_full() {
                    return Ok(true);
                }
            }
        }
    }
}

impl Operator for LateralRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        out.reset(width(&self.plan));
        while self.left.fill(run)? {
            if self.pairs(run, out)? {
                return Ok(());
            }
            end_of_row(&self.plan, &mut self.left, out);
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
