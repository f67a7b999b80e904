//! Window functions: rows sorted by partition and order, and a value for each from those around it.
//!
//! Functions see the rows of a row's frame. The state of an aggregate goes on from row to row, as
//! long as its frame only takes rows in, or loses those that the aggregate can take out again: sums
//! of integers, numeric and intervals, their averages, and counts. Others are computed anew for
//! each row whose frame has lost one.

use super::compare::compare;
use super::evaluate::{all, with_types};
use super::frame::{Frames, Partition, Seen};
use super::window_rows::WindowRows;
use super::{Operator, Row, Run, evaluate, is_true};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{AggregateFunction, OverWindow, Window, WindowCall};
use crate::sink::Batch;
use crate::types::Datum;
use crate::types::aggregate::Accumulator;
use crate::types::window::WindowFunction;
use sql_rows::{SegmentCache, Store};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

pub(super) struct WindowRun {
    plan: Arc<Window>,
    rows: WindowRows,
    /// The first row of the next partition.
    next: Option<Row>,
    results: Option<Results>,
}

/// A partition whose functions have been computed, as it is handed over.
struct Results {
    partition: Partition,
    /// The values of each function.
    columns: Vec<(Store, SegmentCache)>,
    at: usize,
}

impl WindowRun {
    pub(super) fn new(plan: &Arc<Window>) -> Self {
        Self {
            plan: Arc::clone(plan),
            rows: WindowRows::new(plan),
            next: None,
            results: None,
        }
    }

    /// Computes the functions of the next partition; none if there is no more.
    fn next_partition(&mut self, run: &mut Run<'_>) -> Result<Option<Results>> {
        let plan = Arc::clone(&self.plan);
        let first = plan.input.width();
        let keys_at = first + plan.partition.len();
        let mut next = match self.next.take() {
            None => self.rows.next_row(run)?,
            next => next,
        };
        let Some(mut last) = next.clone() else {
            return Ok(None);
        };
        let mut partition = Partition {
            rows: Store::new(run.state.memory.share()),
            place: RefCell::default(),
            keys_at,
            groups: Vec::new(),
        };
        while let Some(row) = next {
            if row[first..keys_at] != last[first..keys_at] {
                self.next = Some(row);
                break;
            }
            let is_peer = compare(&plan.order, &row[keys_at..], &last[keys_at..]).is_eq();
            if !is_peer || partition.groups.is_empty() {
                partition.groups.push(partition.len());
                last.clone_from(&row);
            }
            partition.rows.push(row)?;
            if partition.len().is_multiple_of(1024) {
                run.check()?;
            }
            next = self.rows.next_row(run)?;
        }
        let mut columns = Vec::with_capacity(plan.calls.len());
        for call in &plan.calls {
            columns.push((
                column(&plan, call, &partition, run)?,
                SegmentCache::default(),
            ));
        }
        Ok(Some(Results {
            partition,
            columns,
            at: 0,
        }))
    }
}

impl Results {
    /// The next row with the values of its functions.
    fn next_row(&mut self, width: usize) -> Result<Option<Row>> {
        if self.at == self.partition.len() {
            return Ok(None);
        }
        let mut row = self
            .partition
            .with_row(self.at, |row| Ok(row[..width].to_vec()))?;
        for (column, place) in &mut self.columns {
            let value = column.get(self.at as u64, place)?;
            row.extend(value.into_iter().flatten().cloned());
        }
        self.at += 1;
        Ok(Some(row))
    }
}

/// The values of a window function for the rows of a partition.
fn column(
    plan: &Window,
    call: &WindowCall,
    partition: &Partition,
    run: &mut Run<'_>,
) -> Result<Store> {
    let function = match &call.function {
        OverWindow::Aggregate(function) => return aggregate(plan, call, function, partition, run),
        OverWindow::Function(function) => *function,
    };
    let count = partition.len();
    let frames = Frames::new(plan, &call.frame, run)?;
    let mut values = Store::new(run.state.memory.share());
    let mut group = 0_i64;
    for at in 0..count {
        if at.is_multiple_of(1024) {
            run.check()?;
        }
        let peers = partition.peers(at);
        if peers.start == at {
            group += 1;
        }
        let value = match function {
            WindowFunction::RowNumber => Datum::Int8(at as i64 + 1),
            WindowFunction::Rank => Datum::Int8(peers.start as i64 + 1),
            WindowFunction::DenseRank => Datum::Int8(group),
            WindowFunction::PercentRank => Datum::Float8(if count == 1 {
                0.0
            } else {
                peers.start as f64 / (count - 1) as f64
            }),
            WindowFunction::CumeDist => Datum::Float8(peers.end as f64 / count as f64),
            WindowFunction::Ntile => ntile(call, partition, at, run)?,
            WindowFunction::Lag | WindowFunction::Lead => {
                neighbour(call, function, partition, at, run)?
            }
            WindowFunction::FirstValue | WindowFunction::LastValue | WindowFunction::NthValue => {
                of_frame(&frames, call, function, partition, at, run)?
            }
        };
        values.push(vec![value])?;
    }
    Ok(values)
}

fn ntile(call: &WindowCall, partition: &Partition, at: usize, run: &mut Run<'_>) -> Result<Datum> {
    let buckets = match partition.with_row(0, |row| evaluate(&call.arguments[0], row, run))? {
        Datum::Null => return Ok(Datum::Null),
        buckets => buckets.int()?,
    };
    let Ok(buckets @ 1..) = usize::try_from(buckets) else {
        let message = "argument of ntile must be greater than zero";
        return Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_NTILE, message));
    };
    let count = partition.len();
    let (size, larger) = (count / buckets, count % buckets);
    let in_larger = larger * (size + 1);
    let bucket = if at < in_larger {
        at / (size + 1)
    } else {
        larger + (at - in_larger) / size.max(1)
    };
    Ok(Datum::Int4(bucket as i32 + 1))
}

/// The value of a row some places before or after.
fn neighbour(
    call: &WindowCall,
    function: WindowFunction,
    partition: &Partition,
    at: usize,
    run: &mut Run<'_>,
) -> Result<Datum> {
    let distance = match call.arguments.get(1) {
        None => 1,
        Some(distance) => match partition.with_row(at, |row| evaluate(distance, row, run))? {
            Datum::Null => return Ok(Datum::Null),
            distance => distance.int()?,
        },
    };
    let distance = if function == WindowFunction::Lag {
        -distance
    } else {
        distance
    };
    let other = (at as i64)
        .checked_add(distance)
        .and_then(|at| usize::try_from(at).ok());
    match other.filter(|other| *other < partition.len()) {
        Some(other) => partition.with_row(other, |row| evaluate(&call.arguments[0], row, run)),
        None => match call.arguments.get(2) {
            Some(default) => partition.with_row(at, |row| evaluate(default, row, run)),
            None => Ok(Datum::Null),
        },
    }
}

/// The value of a row of the frame.
fn of_frame(
    frames: &Frames<'_>,
    call: &WindowCall,
    function: WindowFunction,
    partition: &Partition,
    at: usize,
    run: &mut Run<'_>,
) -> Result<Datum> {
    let seen = frames.of(partition, at, run)?;
    let wanted = match function {
        WindowFunction::FirstValue => seen.nth(0),
        WindowFunction::LastValue => seen.last(),
        _ => match partition.with_row(at, |row| evaluate(&call.arguments[1], row, run))? {
            Datum::Null => return Ok(Datum::Null),
            number => {
                let Ok(number @ 1..) = usize::try_from(number.int()?) else {
                    let message = "argument of nth_value must be greater than zero";
                    let state = SqlState::INVALID_ARGUMENT_FOR_NTH_VALUE;
                    return Err(SqlError::new(state, message));
                };
                seen.nth(number - 1)
            }
        },
    };
    match wanted {
        Some(wanted) => partition.with_row(wanted, |row| evaluate(&call.arguments[0], row, run)),
        None => Ok(Datum::Null),
    }
}

/// An aggregate over each row's frame.
fn aggregate(
    plan: &Window,
    call: &WindowCall,
    function: &AggregateFunction,
    partition: &Partition,
    run: &mut Run<'_>,
) -> Result<Store> {
    let frames = Frames::new(plan, &call.frame, run)?;
    let mut moving = Moving::new(call, function, partition);
    let mut values = Store::new(run.state.memory.share());
    let mut last: Option<(Seen, Datum)> = None;
    for at in 0..partition.len() {
        moving.step(run)?;
        let seen = frames.of(partition, at, run)?;
        if let Some((last, value)) = &last
            && *last == seen
        {
            values.push(vec![value.clone()])?;
            continue;
        }
        moving.go_to(&seen, run)?;
        let value = moving.value(run)?;
        values.push(vec![value.clone()])?;
        last = Some((seen, value));
    }
    Ok(values)
}

/// The state of an aggregate over the rows of a frame, which goes on to the next frame.
struct Moving<'w> {
    call: &'w WindowCall,
    function: &'w AggregateFunction,
    partition: &'w Partition,
    accumulator: Box<dyn Accumulator>,
    /// The rows that the state has; none if there is a hole among them.
    taken: Option<Range<usize>>,
    /// Whether a row has the same arguments each time.
    is_fixed: bool,
    /// Rows that were read.
    steps: usize,
}

impl<'w> Moving<'w> {
    fn new(
        call: &'w WindowCall,
        function: &'w AggregateFunction,
        partition: &'w Partition,
    ) -> Self {
        let mut read = call.arguments.iter().chain(&call.filter);
        Self {
            call,
            function,
            partition,
            accumulator: (function.aggregate.start)(),
            taken: Some(0..0),
            is_fixed: !read.any(|one| one.has_volatile() || one.has_query()),
            steps: 0,
        }
    }

    /// Makes the state that of a frame: without the rows before it, if the aggregate can leave them
    /// out, and with those after the last frame; else anew.
    fn go_to(&mut self, seen: &Seen, run: &mut Run<'_>) -> Result<()> {
        let whole = seen.whole();
        if let (Some(taken), Some(rows)) = (self.taken.take(), &whole)
            && (taken.start..=taken.end).contains(&rows.start)
            && rows.end >= taken.end
            && self.leave(taken.start..rows.start, run)?
        {
            self.take(taken.end..rows.end, run)?;
        } else {
            self.accumulator = (self.function.aggregate.start)();
            for rows in seen.ranges() {
                self.take(rows, run)?;
            }
        }
        self.taken = whole;
        Ok(())
    }

    /// Takes rows out of the state; false if the state is to be made anew.
    fn leave(&mut self, rows: Range<usize>, run: &mut Run<'_>) -> Result<bool> {
        for at in rows {
            if !self.is_fixed {
                return Ok(false);
            }
            if let Some(arguments) = self.arguments(at, run)? {
                let accumulator = &mut self.accumulator;
                let types = (&*self.function.argument_types, self.call.data_type);
                let is_out = with_types(types.0, types.1, run, |context| {
                    accumulator.remove(context, &arguments)
                })?;
                if !is_out {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn take(&mut self, rows: Range<usize>, run: &mut Run<'_>) -> Result<()> {
        for at in rows {
            if let Some(arguments) = self.arguments(at, run)? {
                let accumulator = &mut self.accumulator;
                let types = (&*self.function.argument_types, self.call.data_type);
                with_types(types.0, types.1, run, |context| {
                    accumulator.add(context, &arguments)
                })?;
            }
        }
        Ok(())
    }

    /// The arguments of a row; none if the aggregate does not see it.
    fn arguments(&mut self, at: usize, run: &mut Run<'_>) -> Result<Option<Row>> {
        self.step(run)?;
        let call = self.call;
        let arguments = self.partition.with_row(at, |row| match &call.filter {
            Some(filter) if !is_true(filter, row, run)? => Ok(None),
            _ => all(&call.arguments, row, run).map(Some),
        })?;
        let is_strict = self.function.function.is_strict;
        let is_seen = |row: &Row| !is_strict || !row.iter().any(Datum::is_null);
        Ok(arguments.filter(is_seen))
    }

    /// The value of the state. One that keeps its rows looks at all of them.
    fn value(&mut self, run: &mut Run<'_>) -> Result<Datum> {
        if self.function.aggregate.keeps_rows {
            run.check()?;
        }
        let types = (&*self.function.argument_types, self.call.data_type);
        with_types(types.0, types.1, run, |context| {
            self.accumulator.value(context)
        })
    }

    /// Looks now and then whether the statement is to end.
    fn step(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.steps += 1;
        match self.steps.is_multiple_of(1024) {
            true => run.check(),
            false => Ok(()),
        }
    }
}

impl Operator for WindowRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        let width = self.plan.input.width();
        out.reset(width + self.plan.calls.len());
        while !out.is_full() {
            if let Some(results) = &mut self.results
                && let Some(row) = results.next_row(width)?
            {
                out.push(row);
                continue;
            }
            // The memory of the last partition is for the next one.
            self.results = None;
            self.results = self.next_partition(run)?;
            if self.results.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.next = None;
        self.results = None;
        self.rows.restart(run)
    }
}
