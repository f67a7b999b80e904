//! The frames of a window's rows: which rows of the partition a function over a row sees.
//!
//! A frame is a range of positions in the sorted partition, out of which a hole may be taken. Its
//! offsets read no rows, so they are computed once for a partition.

use super::{Run, evaluate};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Excluded, Frame, FrameEnd, FrameUnit, Window};
use crate::types::{Datum, in_range};
use sql_rows::{SegmentCache, Store};
use std::cell::{Cell, RefCell};
use std::ops::Range;

/// The rows of one partition, in their order, with the values of the order's keys after them.
pub(super) struct Partition {
    pub(super) rows: Store,
    /// The segment of the rows' file that was read last.
    pub(super) place: RefCell<SegmentCache>,
    /// The position of the first key.
    pub(super) keys_at: usize,
    /// The first row of each group of peers: rows that are equal in the order.
    pub(super) groups: Vec<usize>,
}

impl Partition {
    pub(super) fn len(&self) -> usize {
        self.rows.len() as usize
    }

    /// Calls `body` with a row of the partition.
    pub(super) fn with_row<R>(
        &self,
        at: usize,
        body: impl FnOnce(&[Datum]) -> Result<R>,
    ) -> Result<R> {
        let mut place = self.place.borrow_mut();
        let row = self.rows.get(at as u64, &mut place)?;
        body(row.map_or(&[], Vec::as_slice))
    }

    /// The rows that are equal to a row in the order.
    pub(super) fn peers(&self, at: usize) -> Range<usize> {
        let next = self.groups.partition_point(|first| *first <= at);
        let start = next.checked_sub(1).map_or(0, |group| self.groups[group]);
        start..self.groups.get(next).copied().unwrap_or(self.len())
    }
}

/// An end of frames.
enum End {
    First,
    Last,
    Current,
    /// So far before the row, or after it.
    Offset(Datum, bool),
}

/// The frames of a partition's rows.
pub(super) struct Frames<'p> {
    plan: &'p Window,
    unit: FrameUnit,
    start: End,
    end: End,
    excluded: Excluded,
    /// The last start and the last end that were found by values: those of later rows come no
    /// earlier.
    reached: [Cell<usize>; 2],
}

/// The rows of a frame: up to three ranges, one after the other.
#[derive(Default, PartialEq, Eq)]
pub(super) struct Seen([Range<usize>; 3]);

impl Seen {
    /// The ranges; some are empty.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.0.iter().cloned()
    }

    /// The rows as one range; none if there is a hole.
    pub(super) fn whole(&self) -> Option<Range<usize>> {
        let mut ranges = self.ranges().filter(|range| !range.is_empty());
        let first = ranges.next().unwrap_or_else(|| self.0[0].clone());
        ranges.try_fold(first, |whole, next| {
            (whole.end == next.start).then_some(whole.start..next.end)
        })
    }

    /// A row by its number in the frame.
    pub(super) fn nth(&self, mut number: usize) -> Option<usize> {
        self.ranges().find_map(|range| {
            let found = (number < range.len()).then(|| range.start + number);
            number = number.saturating_sub(range.len());
            found
        })
    }

    /// The last row of the frame.
    pub(super) fn last(&self) -> Option<usize> {
        let mut ranges = self.0.iter().rev();
        ranges.find_map(|range| range.clone().next_back())
    }
}

impl<'p> Frames<'p> {
    pub(super) fn new(plan: &'p Window, frame: &Frame, run: &mut Run<'_>) -> Result<Self> {
        Ok(Self {
            plan,
            unit: frame.unit,
            start: end(&frame.start, (frame.unit, "starting"), run)?,
            end: end(&frame.end, (frame.unit, "ending"), run)?,
            excluded: frame.excluded,
            reached: Default::default(),
        })
    }

    /// The rows that a row sees; rows are asked for in their order.
    pub(super) fn of(&self, partition: &Partition, at: usize, run: &Run<'_>) -> Result<Seen> {
        let count = partition.len();
        let start = self.place(true, partition, at, run)?.min(count);
        let end = self.place(false, partition, at, run)?.clamp(start, count);
        let hole = match self.excluded {
            Excluded::Nothing => return Ok(Seen([start..end, end..end, end..end])),
            Excluded::CurrentRow => at..at + 1,
            Excluded::Group | Excluded::Ties => partition.peers(at),
        };
        let keeps_own = self.excluded == Excluded::Ties && (start..end).contains(&at);
        let own = if keeps_own { at..at + 1 } else { at..at };
        let (before, after) = (hole.start.clamp(start, end), hole.end.clamp(start, end));
        Ok(Seen([start..before, own, after..end]))
    }

    /// The first row of a row's frame, or the one after its last.
    fn place(
        &self,
        is_start: bool,
        partition: &Partition,
        at: usize,
        run: &Run<'_>,
    ) -> Result<usize> {
        let (offset, is_before) = match if is_start { &self.start } else { &self.end } {
            End::First => return Ok(0),
            End::Last => return Ok(partition.len()),
            End::Current => {
                let rows = match self.unit {
                    FrameUnit::Rows => at..at + 1,
                    _ => partition.peers(at),
                };
                return Ok(if is_start { rows.start } else { rows.end });
            }
            End::Offset(offset, is_before) => (offset, *is_before),
        };
        match self.unit {
            FrameUnit::Range => self.by_value((offset, is_before), is_start, partition, at, run),
            FrameUnit::Rows => {
                let (at, offset) = (at as i64, offset.int()?);
                let place = if is_before {
                    at - offset
                } else {
                    at.saturating_add(offset)
                };
                let place = place.saturating_add(i64::from(!is_start));
                Ok(place.clamp(0, partition.len() as i64) as usize)
            }
            FrameUnit::Groups => Ok(by_groups(
                (offset.int()?, is_before),
                is_start,
                partition,
                at,
            )),
        }
    }

    /// The end of a range by the values of the key.
    fn by_value(
        &self,
        (offset, is_before): (&Datum, bool),
        is_start: bool,
        partition: &Partition,
        at: usize,
        run: &Run<'_>,
    ) -> Result<usize> {
        let key_of = |at| partition.with_row(at, |row| Ok(row[partition.keys_at].clone()));
        let base = key_of(at)?;
        if base.is_null() {
            // NULLs are peers of each other only.
            let peers = partition.peers(at);
            return Ok(if is_start { peers.start } else { peers.end });
        }
        let order = &self.plan.order[0];
        let zone = &run.environment.settings.zone;
        let is_outside = |key: &Datum| {
            if key.is_null() {
                return Ok(order.nulls_first);
            }
            let is_less = is_before != order.descends;
            let place = in_range::compare_at(key, (&base, offset), is_less, zone)?;
            let place = if order.descends {
                place.reverse()
            } else {
                place
            };
            Ok::<_, SqlError>(place.is_lt() || (!is_start && place.is_eq()))
        };
        let reached = &self.reached[usize::from(is_start)];
        let mut place = reached.get();
        while place < partition.len() && is_outside(&key_of(place)?)? {
            place += 1;
        }
        reached.set(place);
        Ok(place)
    }
}

/// An end of frames with the value of its offset.
fn end(end: &FrameEnd, (unit, name): (FrameUnit, &str), run: &mut Run<'_>) -> Result<End> {
    let (offset, is_before) = match end {
        FrameEnd::UnboundedPreceding => return Ok(End::First),
        FrameEnd::UnboundedFollowing => return Ok(End::Last),
        FrameEnd::CurrentRow => return Ok(End::Current),
        FrameEnd::Preceding(offset) => (offset, true),
        FrameEnd::Following(offset) => (offset, false),
    };
    let offset = evaluate(offset, &[], run)?;
    if offset.is_null() {
        let message = format!("frame {name} offset must not be null");
        return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
    }
    if unit != FrameUnit::Range && offset.int()? < 0 {
        let message = format!("frame {name} offset must not be negative");
        let state = SqlState::INVALID_PRECEDING_OR_FOLLOWING_SIZE;
        return Err(SqlError::new(state, message));
    }
    Ok(End::Offset(offset, is_before))
}

/// The end of a frame by groups of peers, one after the other.
fn by_groups(
    (offset, is_before): (i64, bool),
    is_start: bool,
    partition: &Partition,
    at: usize,
) -> usize {
    let groups = &partition.groups;
    let own = groups.partition_point(|first| *first <= at) as i64 - 1;
    let group = if is_before {
        own - offset
    } else {
        own.saturating_add(offset)
    };
    let group = group.saturating_add(i64::from(!is_start));
    let first = usize::try_from(group).ok();
    first.map_or(0, |group| {
        groups.get(group).copied().unwrap_or(partition.len())
    })
}
