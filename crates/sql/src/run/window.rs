//! Window functions: rows sorted by partition and order, and a value for each from those around it.
//!
//! A frame is a range of positions in the sorted partition. Aggregates over a frame that begins
//! with the partition go on from row to row; others are computed anew for each row.

use super::compare::compare;
use super::evaluate::{all, with_types};
use super::{Operator, Row, Run, build, evaluate, is_true};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{
    AggregateFunction, Expr, Frame, FrameEnd, FrameUnit, OverWindow, Window, WindowCall,
};
use crate::sink::Batch;
use crate::types::window::WindowFunction;
use crate::types::{Datum, Type};
use sql_rows::{Order, SegmentCache, Sorted, Sorter, Store};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

pub(super) struct WindowRun {
    plan: Arc<Window>,
    input: Box<dyn Operator>,
    sorted: Option<Sorted>,
    /// The first row of the next partition.
    next: Option<Row>,
    results: Option<Results>,
}

/// The rows of one partition, in their order, with the values of the order's keys after them.
struct Partition {
    rows: Store,
    /// The segment of the rows' file that was read last.
    place: RefCell<SegmentCache>,
    /// The position of the first key.
    keys_at: usize,
    /// The first row of each group of peers: rows that are equal in the order.
    groups: Vec<usize>,
}

impl Partition {
    fn len(&self) -> usize {
        self.rows.len() as usize
    }

    /// Calls `body` with a row of the partition.
    fn with_row<R>(&self, at: usize, body: impl FnOnce(&[Datum]) -> Result<R>) -> Result<R> {
        let mut place = self.place.borrow_mut();
        let row = self.rows.get(at as u64, &mut place)?;
        body(row.map_or(&[], Vec::as_slice))
    }

    /// The rows that are equal to a row in the order.
    fn peers(&self, at: usize) -> Range<usize> {
        let next = self.groups.partition_point(|first| *first <= at);
        let start = next.checked_sub(1).map_or(0, |group| self.groups[group]);
        start..self.groups.get(next).copied().unwrap_or(self.len())
    }
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
            input: build(&plan.input),
            sorted: None,
            next: None,
            results: None,
        }
    }

    /// Sorts the rows, which have the values of the partition and of the order's keys after them.
    fn sort(&mut self, run: &mut Run<'_>) -> Result<Sorted> {
        let plan = &self.plan;
        let first = plan.input.width();
        let order_at = first + plan.partition.len();
        let partition = (first..order_at).map(Order::ascending);
        let keys = plan.order.iter().zip(order_at..);
        let keys = keys.map(|(key, column)| Order {
            column,
            descends: key.descends,
            nulls_first: key.nulls_first,
        });
        let order = partition.chain(keys).collect();
        let mut sorter = Sorter::new(order, run.state.memory.share());
        let mut batch = Batch::default();
        loop {
            self.input.next(run, &mut batch)?;
            if batch.is_empty() {
                return sorter.finish(&mut || run.check());
            }
            run.check()?;
            for mut row in batch.drain() {
                let mut values = all(&plan.partition, &row, run)?;
                for key in &plan.order {
                    values.push(evaluate(&key.expression, &row, run)?);
                }
                row.append(&mut values);
                sorter.push(row)?;
            }
        }
    }

    /// Computes the functions of the next partition; none if there is no more.
    fn next_partition(
        &mut self,
        sorted: &mut Sorted,
        run: &mut Run<'_>,
    ) -> Result<Option<Results>> {
        let plan = Arc::clone(&self.plan);
        let first = plan.input.width();
        let keys_at = first + plan.partition.len();
        let mut next = match self.next.take() {
            None => sorted.next_row()?,
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
            next = sorted.next_row()?;
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
                of_frame(plan, call, function, partition, at, run)?
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
    plan: &Window,
    call: &WindowCall,
    function: WindowFunction,
    partition: &Partition,
    at: usize,
    run: &mut Run<'_>,
) -> Result<Datum> {
    let frame = frame_of(plan, &call.frame, partition, at, run)?;
    let wanted = match function {
        WindowFunction::FirstValue => frame.start,
        WindowFunction::LastValue => frame.end.wrapping_sub(1),
        _ => match partition.with_row(at, |row| evaluate(&call.arguments[1], row, run))? {
            Datum::Null => return Ok(Datum::Null),
            number => {
                let number = number.int()?;
                let Ok(number @ 1..) = usize::try_from(number) else {
                    let message = "argument of nth_value must be greater than zero";
                    return Err(SqlError::new(
                        SqlState::INVALID_ARGUMENT_FOR_NTH_VALUE,
                        message,
                    ));
                };
                frame.start.saturating_add(number - 1)
            }
        },
    };
    if frame.contains(&wanted) {
        partition.with_row(wanted, |row| evaluate(&call.arguments[0], row, run))
    } else {
        Ok(Datum::Null)
    }
}

/// The rows of a row's frame.
fn frame_of(
    plan: &Window,
    frame: &Frame,
    partition: &Partition,
    at: usize,
    run: &mut Run<'_>,
) -> Result<Range<usize>> {
    let count = partition.len();
    let start = match &frame.start {
        FrameEnd::UnboundedPreceding => 0,
        FrameEnd::UnboundedFollowing => count,
        FrameEnd::CurrentRow => match frame.unit {
            FrameUnit::Rows => at,
            _ => partition.peers(at).start,
        },
        FrameEnd::Preceding(offset) => {
            end_of(plan, (frame.unit, offset, -1), true, partition, at, run)?
        }
        FrameEnd::Following(offset) => {
            end_of(plan, (frame.unit, offset, 1), true, partition, at, run)?
        }
    };
    let end = match &frame.end {
        FrameEnd::UnboundedPreceding => 0,
        FrameEnd::UnboundedFollowing => count,
        FrameEnd::CurrentRow => match frame.unit {
            FrameUnit::Rows => at + 1,
            _ => partition.peers(at).end,
        },
        FrameEnd::Preceding(offset) => {
            end_of(plan, (frame.unit, offset, -1), false, partition, at, run)?
        }
        FrameEnd::Following(offset) => {
            end_of(plan, (frame.unit, offset, 1), false, partition, at, run)?
        }
    };
    Ok(start.min(count)..end.min(count).max(start.min(count)))
}

/// The position of an end with an offset: the first row of the frame, or the one after its last.
fn end_of(
    plan: &Window,
    (unit, offset, sign): (FrameUnit, &Expr, i64),
    is_start: bool,
    partition: &Partition,
    at: usize,
    run: &mut Run<'_>,
) -> Result<usize> {
    let value = partition.with_row(at, |row| evaluate(offset, row, run))?;
    if unit == FrameUnit::Range {
        return range_end(plan, value, is_start, partition, at);
    }
    let (kind, end) = if is_start {
        ("starting", "starting")
    } else {
        ("ending", "ending")
    };
    let bad = |problem: &str| {
        let message = format!("frame {kind} offset must not be {problem}");
        let _ = end;
        SqlError::new(SqlState::INVALID_PRECEDING_OR_FOLLOWING_SIZE, message)
    };
    if value.is_null() {
        return Err(SqlError::new(
            SqlState::NULL_VALUE_NOT_ALLOWED,
            bad("null").message,
        ));
    }
    let offset = value.int()?;
    if offset < 0 {
        return Err(bad("negative"));
    }
    let count = partition.len() as i64;
    if unit == FrameUnit::Rows {
        let place = (at as i64).saturating_add(sign.saturating_mul(offset));
        let place = if is_start {
            place
        } else {
            place.saturating_add(1)
        };
        return Ok(place.clamp(0, count) as usize);
    }
    // Groups of peers, one after the other.
    let mut peers = partition.peers(at);
    for _ in 0..offset {
        let next = if sign < 0 {
            peers.start.checked_sub(1)
        } else {
            Some(peers.end)
        };
        match next.filter(|next| *next < partition.len()) {
            Some(next) => peers = partition.peers(next),
            None if sign < 0 => return Ok(0),
            None => return Ok(partition.len()),
        }
    }
    Ok(if is_start { peers.start } else { peers.end })
}

/// The end of a range by the value of the key there.
fn range_end(
    plan: &Window,
    value: Datum,
    is_start: bool,
    partition: &Partition,
    at: usize,
) -> Result<usize> {
    let key_of = |at| partition.with_row(at, |row| Ok(row[partition.keys_at].clone()));
    if value.is_null() || key_of(at)?.is_null() {
        // NULLs are peers of each other only.
        let peers = partition.peers(at);
        return Ok(if is_start { peers.start } else { peers.end });
    }
    let (end, order) = ([value], &plan.order[..1]);
    let is_before = |key: Datum| {
        if key.is_null() {
            return order[0].nulls_first;
        }
        let order = compare(order, &[key], &end);
        order.is_lt() || (!is_start && order.is_eq())
    };
    let (mut low, mut high) = (0, partition.len());
    while low < high {
        let middle = low.midpoint(high);
        if is_before(key_of(middle)?) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// An aggregate over each row's frame.
fn aggregate(
    plan: &Window,
    call: &WindowCall,
    function: &AggregateFunction,
    partition: &Partition,
    run: &mut Run<'_>,
) -> Result<Store> {
    let types: (&[Type], Type) = (&function.argument_types, call.data_type);
    let grows = matches!(call.frame.start, FrameEnd::UnboundedPreceding);
    let mut accumulator = (function.aggregate.start)();
    let mut taken = 0;
    let mut values = Store::new(run.state.memory.share());
    let mut last: Option<(Range<usize>, Datum)> = None;
    for at in 0..partition.len() {
        if at.is_multiple_of(1024) {
            run.check()?;
        }
        let frame = frame_of(plan, &call.frame, partition, at, run)?;
        if let Some((last, value)) = &last
            && *last == frame
        {
            values.push(vec![value.clone()])?;
            continue;
        }
        if !grows || frame.end < taken {
            accumulator = (function.aggregate.start)();
            taken = frame.start;
        }
        for other in taken..frame.end.max(taken) {
            let arguments = partition.with_row(other, |row| match &call.filter {
                Some(filter) if !is_true(filter, row, run)? => Ok(None),
                _ => all(&call.arguments, row, run).map(Some),
            })?;
            let Some(arguments) = arguments else {
                continue;
            };
            if function.function.is_strict && arguments.iter().any(Datum::is_null) {
                continue;
            }
            with_types(types.0, types.1, run, |context| {
                accumulator.add(context, &arguments)
            })?;
        }
        taken = frame.end.max(taken);
        let value = with_types(types.0, types.1, run, |context| accumulator.value(context))?;
        values.push(vec![value.clone()])?;
        last = Some((frame, value));
    }
    Ok(values)
}

impl Operator for WindowRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        let mut sorted = match self.sorted.take() {
            Some(sorted) => sorted,
            None => self.sort(run)?,
        };
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
            self.results = self.next_partition(&mut sorted, run)?;
            if self.results.is_none() {
                break;
            }
        }
        self.sorted = Some(sorted);
        Ok(())
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.sorted = None;
        self.next = None;
        self.results = None;
        self.input.restart(run)
    }
}
