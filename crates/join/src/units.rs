//! The work of a last phase, cut into units that one thread can do: a group of R against a group of
//! S of the same partition.
//!
//! A group has bounded size, so that a unit's buffers are bounded; skew makes more units, not
//! larger ones. Threads take units in order from a common counter.

use crate::partition::{Partitions, Span};
use crate::tuple::Tuple;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A group of R and a group of S.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) partition: usize,
    r_spans: Range<usize>,
    s_spans: Range<usize>,
}

/// All units, and the number of the next one.
#[derive(Debug)]
pub(crate) struct Units {
    all: Vec<Unit>,
    r_spans: Vec<Span>,
    s_spans: Vec<Span>,
    next: AtomicUsize,
}

impl Units {
    /// The units of two relations that were partitioned alike, with groups of at most `r_group` and
    /// `s_group` tuples (and one block); partitions of R that are `whole` are one group of any
    /// size.
    pub(crate) fn new<T: Tuple>(
        r: &Partitions<'_, T>,
        s: &Partitions<'_, T>,
        r_group: usize,
        s_group: usize,
        whole: impl Fn(usize) -> bool,
    ) -> Self {
        let (mut all, mut r_spans, mut s_spans) = (Vec::new(), Vec::new(), Vec::new());
        for partition in 0..r.fan_out() {
            let (mut r_start, s_first) = (r_spans.len(), s_spans.len());
            let r_group = if whole(partition) {
                usize::MAX / 2
            } else {
                r_group
            };
            let r_ends = r.groups(partition, r_group, &mut r_spans);
            let s_ends = s.groups(partition, s_group, &mut s_spans);
            for r_end in r_ends {
                let mut s_start = s_first;
                for s_end in &s_ends {
                    all.push(Unit {
                        partition,
                        r_spans: r_start..r_end,
                        s_spans: s_start..*s_end,
                    });
                    s_start = *s_end;
                }
                r_start = r_end;
            }
        }
        Self {
            all,
            r_spans,
            s_spans,
            next: AtomicUsize::new(0),
        }
    }

    /// The next unit that is not taken.
    pub(crate) fn take(&self) -> Option<&Unit> {
        self.all.get(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// The next unit if it has the same group of R as `unit`; else it waits in `next`.
    pub(crate) fn take_sibling<'u>(
        &'u self,
        unit: &Unit,
        next: &mut Option<&'u Unit>,
    ) -> Option<&'u Unit> {
        *next = self.take();
        next.take_if(|next| next.r_spans == unit.r_spans)
    }

    /// The spans of a unit's group of R.
    pub(crate) fn r(&self, unit: &Unit) -> &[Span] {
        &self.r_spans[unit.r_spans.clone()]
    }

    /// The spans of a unit's group of S.
    pub(crate) fn s(&self, unit: &Unit) -> &[Span] {
        &self.s_spans[unit.s_spans.clone()]
    }
}
