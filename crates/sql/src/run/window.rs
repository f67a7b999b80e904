//! Window functions: rows sorted by partition and order, and a value for each from those around it.
//!
//! A frame is a range of positions in the sorted partition. Aggregates over a frame that begins
//! with the partition go on from row to row; others are computed anew for each row.

use super::compare::compare;
use super::evaluate::{all, with_types};
use super::{Kept, Operator, Row, Run, build, collect, evaluate, is_true};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{
    AggregateFunction, Expr, Frame, FrameEnd, FrameUnit, OverWindow, Window, WindowCall,
};
use crate::sink::Batch;
use crate::types::window::WindowFunction;
use crate::types::{Datum, Type};
use std::ops::Range;
use std::sync::Arc;

pub(super) struct WindowRun {
    plan: Arc<Window>,
    input: Box<dyn Operator>,
    rows: Option<Kept>,
}

/// The rows of one partition, in their order.
struct Partition<'p> {
    rows: &'p [Row],
    /// Values of the order's keys.
    keys: &'p [Row],
    /// For each row the first row that is its peer, and the end of its peers.
    peers: Vec<Range<usize>>,
}

impl WindowRun {
    pub(super) fn new(plan: &Arc<Window>) -> Self {
        Self {
            plan: Arc::clone(plan),
            input: build(&plan.input),
            rows: None,
        }
    }

    fn compute(&mut self, run: &mut Run<'_>) -> Result<Kept> {
        let plan = Arc::clone(&self.plan);
        let input = collect(&mut *self.input, run)?;
        let mut sorted: Vec<(Row, Row, Row)> = Vec::with_capacity(input.len());
        for row in input {
            let partition = all(&plan.partition, &row, run)?;
            let mut keys = Row::with_capacity(plan.order.len());
            for key in &plan.order {
                keys.push(evaluate(&key.expression, &row, run)?);
            }
            run.state.budget.take(&partition)?;
            run.state.budget.take(&keys)?;
            sorted.push((partition, keys, row));
        }
        sorted.sort_by(|one, other| {
            one.0
                .cmp(&other.0)
                .then_with(|| compare(&plan.order, &one.1, &other.1))
        });
        let mut rows = Vec::with_capacity(sorted.len());
        let mut start = 0;
        while start < sorted.len() {
            let same = sorted[start..]
                .iter()
                .take_while(|row| row.0 == sorted[start].0);
            let end = start + same.count();
            let part = &mut sorted[start..end];
            let keys: Vec<Row> = part
                .iter_mut()
                .map(|row| std::mem::take(&mut row.1))
                .collect();
            let own: Vec<Row> = part
                .iter_mut()
                .map(|row| std::mem::take(&mut row.2))
                .collect();
            let peers = peers_of(&plan, &keys);
            let partition = Partition {
                rows: &own,
                keys: &keys,
                peers,
            };
            let mut columns = Vec::with_capacity(plan.calls.len());
            for call in &plan.calls {
                columns.push(column(&plan, call, &partition, run)?.into_iter());
            }
            for mut row in own {
                row.extend(columns.iter_mut().filter_map(Iterator::next));
                rows.push(row);
            }
            start = end;
        }
        Ok(Kept::new(rows))
    }
}

/// For each row the rows that are equal in the order.
fn peers_of(plan: &Window, keys: &[Row]) -> Vec<Range<usize>> {
    let mut peers = Vec::with_capacity(keys.len());
    let mut start = 0;
    while start < keys.len() {
        let same = keys[start..]
            .iter()
            .take_while(|key| compare(&plan.order, key, &keys[start]).is_eq());
        let end = start + same.count();
        peers.extend(std::iter::repeat_n(start..end, end - start));
        start = end;
    }
    peers
}

/// The values of a window function for the rows of a partition.
fn column(
    plan: &Window,
    call: &WindowCall,
    partition: &Partition<'_>,
    run: &mut Run<'_>,
) -> Result<Vec<Datum>> {
    let function = match &call.function {
        OverWindow::Aggregate(function) => return aggregate(plan, call, function, partition, run),
        OverWindow::Function(function) => *function,
    };
    let count = partition.rows.len();
    let mut values = Vec::with_capacity(count);
    let mut group = 0_i64;
    for at in 0..count {
        let peers = partition.peers[at].clone();
        if peers.start == at {
            group += 1;
        }
        values.push(match function {
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
        });
    }
    Ok(values)
}

fn ntile(
    call: &WindowCall,
    partition: &Partition<'_>,
    at: usize,
    run: &mut Run<'_>,
) -> Result<Datum> {
    let buckets = match evaluate(&call.arguments[0], &partition.rows[0], run)? {
        Datum::Null => return Ok(Datum::Null),
        buckets => buckets.int()?,
    };
    let Ok(buckets @ 1..) = usize::try_from(buckets) else {
        let message = "argument of ntile must be greater than zero";
        return Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_NTILE, message));
    };
    let count = partition.rows.len();
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
    partition: &Partition<'_>,
    at: usize,
    run: &mut Run<'_>,
) -> Result<Datum> {
    let row = &partition.rows[at];
    let distance = match call.arguments.get(1) {
        None => 1,
        Some(distance) => match evaluate(distance, row, run)? {
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
    match other.and_then(|other| partition.rows.get(other)) {
        Some(other) => evaluate(&call.arguments[0], other, run),
        None => match call.arguments.get(2) {
            Some(default) => evaluate(default, row, run),
            None => Ok(Datum::Null),
        },
    }
}

/// The value of a row of the frame.
fn of_frame(
    plan: &Window,
    call: &WindowCall,
    function: WindowFunction,
    partition: &Partition<'_>,
    at: usize,
    run: &mut Run<'_>,
) -> Result<Datum> {
    let frame = frame_of(plan, &call.frame, partition, at, run)?;
    let wanted = match function {
        WindowFunction::FirstValue => frame.start,
        WindowFunction::LastValue => frame.end.wrapping_sub(1),
        _ => match evaluate(&call.arguments[1], &partition.rows[at], run)? {
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
        evaluate(&call.arguments[0], &partition.rows[wanted], run)
    } else {
        Ok(Datum::Null)
    }
}

/// The rows of a row's frame.
fn frame_of(
    plan: &Window,
    frame: &Frame,
    partition: &Partition<'_>,
    at: usize,
    run: &mut Run<'_>,
) -> Result<Range<usize>> {
    let count = partition.rows.len();
    let start = match &frame.start {
        FrameEnd::UnboundedPreceding => 0,
        FrameEnd::UnboundedFollowing => count,
        FrameEnd::CurrentRow => match frame.unit {
            FrameUnit::Rows => at,
            _ => partition.peers[at].start,
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
            _ => partition.peers[at].end,
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
    partition: &Partition<'_>,
    at: usize,
    run: &mut Run<'_>,
) -> Result<usize> {
    let row = &partition.rows[at];
    let value = evaluate(offset, row, run)?;
    if unit == FrameUnit::Range {
        return Ok(range_end(plan, value, is_start, partition, at));
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
    let count = partition.rows.len() as i64;
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
    let mut peers = partition.peers[at].clone();
    for _ in 0..offset {
        let next = if sign < 0 {
            peers.start.checked_sub(1)
        } else {
            Some(peers.end)
        };
        match next.and_then(|next| partition.peers.get(next)) {
            Some(next) => peers = next.clone(),
            None if sign < 0 => return Ok(0),
            None => return Ok(partition.rows.len()),
        }
    }
    Ok(if is_start { peers.start } else { peers.end })
}

/// The end of a range by the value of the key there.
fn range_end(
    plan: &Window,
    value: Datum,
    is_start: bool,
    partition: &Partition<'_>,
    at: usize,
) -> usize {
    if value.is_null() || partition.keys[at][0].is_null() {
        // NULLs are peers of each other only.
        let peers = &partition.peers[at];
        return if is_start { peers.start } else { peers.end };
    }
    let end = [value];
    let nulls = |key: &Row| key[0].is_null();
    let is_before = |key: &Row| {
        let order = compare(&plan.order, key, &end);
        let is_null_before = nulls(key) && plan.order[0].nulls_first;
        is_null_before || (!nulls(key) && (order.is_lt() || (!is_start && order.is_eq())))
    };
    partition.keys.partition_point(is_before)
}

/// An aggregate over each row's frame.
fn aggregate(
    plan: &Window,
    call: &WindowCall,
    function: &AggregateFunction,
    partition: &Partition<'_>,
    run: &mut Run<'_>,
) -> Result<Vec<Datum>> {
    let types: (&[Type], Type) = (&function.argument_types, call.data_type);
    let grows = matches!(call.frame.start, FrameEnd::UnboundedPreceding);
    let mut accumulator = (function.aggregate.start)();
    let mut taken = 0;
    let mut values: Vec<Datum> = Vec::with_capacity(partition.rows.len());
    let mut last: Option<Range<usize>> = None;
    for at in 0..partition.rows.len() {
        if at % 1024 == 0 {
            run.check()?;
        }
        let frame = frame_of(plan, &call.frame, partition, at, run)?;
        if last.as_ref() == Some(&frame)
            && let Some(value) = values.last()
        {
            values.push(value.clone());
            continue;
        }
        if !grows || frame.end < taken {
            accumulator = (function.aggregate.start)();
            taken = frame.start;
        }
        for row in &partition.rows[taken..frame.end.max(taken)] {
            if let Some(filter) = &call.filter
                && !is_true(filter, row, run)?
            {
                continue;
            }
            let arguments = all(&call.arguments, row, run)?;
            if function.function.is_strict && arguments.iter().any(Datum::is_null) {
                continue;
            }
            with_types(types.0, types.1, run, |context| {
                accumulator.add(context, &arguments)
            })?;
        }
        taken = frame.end.max(taken);
        values.push(with_types(types.0, types.1, run, |context| {
            accumulator.value(context)
        })?);
        last = Some(frame);
    }
    Ok(values)
}

impl Operator for WindowRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        if self.rows.is_none() {
            self.rows = Some(self.compute(run)?);
        }
        if let Some(rows) = &mut self.rows {
            rows.next(self.plan.input.width() + self.plan.calls.len(), out);
        }
        Ok(())
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.rows = None;
        self.input.restart(run)
    }
}
