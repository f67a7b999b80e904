//! Partitions that the conditions of a scan leave out.
//!
//! A partition is read only if it may have rows for which the conditions on its keys are true. What
//! constants say is known when the plan is made, and what parameters say when it runs. Conditions
//! that say nothing about keys are left to the rows.

use super::access::{column_of, comparison, is_element};
use super::expression::{Expr, Quantified};
use super::node::{Scan, Source};
use super::partition::{Edge, PartitionKeys, Takes};
use crate::types::Datum;
use std::cmp::Ordering;

/// Whether no row of a partition can meet all of some conditions over its rows.
pub fn is_left_out(partition: &[PartitionKeys], conditions: &[Expr], source: &Source) -> bool {
    partition.iter().any(|level| {
        let keys = level.columns.iter();
        let known = keys.map(|key| match key {
            Some(column) => Known::of(*column, conditions, source),
            None => Known::default(),
        });
        level.is_left_out(&known.collect::<Vec<_>>())
    })
}

/// Whether the conditions of a scan leave its partition out. Those that parameters decide are kept
/// for later.
pub(super) fn leaves_out(scan: &mut Scan, conditions: &[Expr]) -> bool {
    let Some(partition) = &scan.partition else {
        return false;
    };
    if is_left_out(partition, conditions, &scan.source) {
        return true;
    }
    let is_later = |condition: &&Expr| {
        let has_parameter = condition.any(|part, _| matches!(part, Expr::Parameter(..)));
        let is_outside = |part: &Expr| {
            matches!(
                part,
                Expr::Outer(..) | Expr::Subquery(_) | Expr::LetValue(..) | Expr::Pending(..)
            )
        };
        has_parameter && !condition.any(|part, _| is_outside(part))
    };
    let tests = conditions.iter().filter(is_later).cloned();
    scan.tests = tests.collect();
    false
}

/// The values of a column that conditions allow.
#[derive(Default)]
struct Known {
    is_null: bool,
    is_not_null: bool,
    /// The value is one of these.
    among: Option<Vec<Datum>>,
    /// The least and the greatest value, and whether each may be taken.
    low: Option<(Datum, bool)>,
    high: Option<(Datum, bool)>,
}

impl Known {
    fn of(column: usize, conditions: &[Expr], source: &Source) -> Self {
        let mut known = Self::default();
        for condition in conditions {
            match condition {
                Expr::IsNull(operand, negated) if column_of(operand) == Some(column) => {
                    known.is_null |= !negated;
                    known.is_not_null |= *negated;
                }
                Expr::Or(ways) => {
                    let each = ways.iter().map(|way| {
                        let parts = way.clone().conjuncts();
                        Self::of(column, &parts, source).among
                    });
                    if let Some(each) = each.collect::<Option<Vec<_>>>() {
                        known.be_among(each.concat());
                    }
                }
                Expr::Quantified(test) => {
                    if let Some(values) = elements(column, test, source) {
                        known.be_among(values);
                    }
                }
                condition => known.compare(column, condition, source),
            }
        }
        known
    }

    fn be_among(&mut self, values: Vec<Datum>) {
        self.is_not_null = true;
        match &mut self.among {
            Some(known) => known.retain(|value| values.contains(value)),
            None => self.among = Some(values),
        }
    }

    fn compare(&mut self, column: usize, condition: &Expr, source: &Source) {
        let found = comparison(&|at| source.column_type(at), condition);
        let Some((own, name, Expr::Constant(value, _))) = found else {
            return;
        };
        if own != column {
            return;
        }
        if value.is_null() {
            return self.be_among(Vec::new());
        }
        let end = Some((value.clone(), name.ends_with('=')));
        match name {
            "=" => self.be_among(vec![value.clone()]),
            "<" | "<=" => {
                self.is_not_null = true;
                self.high = self.high.take().or(end);
            }
            ">" | ">=" => {
                self.is_not_null = true;
                self.low = self.low.take().or(end);
            }
            _ => {}
        }
    }

    /// The only value that there may be.
    fn single(&self) -> Option<&Datum> {
        match self.among.as_deref() {
            Some([value]) => Some(value),
            None if self.is_null => Some(&Datum::Null),
            _ => None,
        }
    }

    fn allows(&self, value: &Datum) -> bool {
        if value.is_null() {
            return !self.is_not_null;
        }
        let is_above = self.low.as_ref().is_none_or(|(low, is_in)| {
            let order = value.compare(low);
            order.is_gt() || (order.is_eq() && *is_in)
        });
        let is_below = self.high.as_ref().is_none_or(|(high, is_in)| {
            let order = value.compare(high);
            order.is_lt() || (order.is_eq() && *is_in)
        });
        let is_among = self.among.as_ref().is_none_or(|all| all.contains(value));
        !self.is_null && is_among && is_above && is_below
    }
}

impl PartitionKeys {
    fn is_left_out(&self, known: &[Known]) -> bool {
        let Some(first) = known.first() else {
            return false;
        };
        let singles = known.iter().map(|one| one.single().cloned());
        let singles: Option<Vec<Datum>> = singles.collect();
        match &self.takes {
            Takes::Among(values) => !values.iter().any(|value| first.allows(value)),
            Takes::Between(from, to) => {
                known.iter().any(|one| one.is_null)
                    || singles.is_some_and(|keys| !self.takes.has(&keys))
                    || is_outside(first, from, to)
            }
            Takes::Remainder(_) => singles.is_some_and(|keys| !self.has(&keys)),
            Takes::Rest => {
                let is_taken = |keys: &[Datum]| self.others.iter().any(|other| other.has(keys));
                match (singles, &first.among) {
                    (Some(keys), _) => is_taken(&keys),
                    (None, Some(values)) if known.len() == 1 => values
                        .iter()
                        .all(|value| is_taken(std::slice::from_ref(value))),
                    _ => false,
                }
            }
        }
    }
}

/// Whether no value of the first key that may be there is in a range.
fn is_outside(first: &Known, from: &[Edge], to: &[Edge]) -> bool {
    let (Some(start), Some(end)) = (from.first(), to.first()) else {
        return false;
    };
    // With more keys, a first key at the end of the range may be in it.
    let ends_there = to.len() == 1;
    let is_out = |value: &Datum| {
        order(value, start).is_lt()
            || order(value, end).is_gt()
            || (order(value, end).is_eq() && ends_there)
    };
    let is_above = first.low.as_ref().is_some_and(|(low, is_in)| {
        let order = order(low, end);
        order.is_gt() || (order.is_eq() && (ends_there || !is_in))
    });
    let is_below = first.high.as_ref().is_some_and(|(high, is_in)| {
        let order = order(high, start);
        order.is_lt() || (order.is_eq() && !is_in)
    });
    let values = first.among.as_ref();
    is_above || is_below || values.is_some_and(|values| values.iter().all(is_out))
}

fn order(value: &Datum, edge: &Edge) -> Ordering {
    match edge {
        Edge::Min => Ordering::Greater,
        Edge::Max => Ordering::Less,
        Edge::At(at) => value.compare(at),
    }
}

/// The values with one of which a column is compared.
fn elements(column: usize, test: &Quantified, source: &Source) -> Option<Vec<Datum>> {
    if !is_element(column, test, source) {
        return None;
    }
    let values: Vec<Datum> = match &test.array {
        Expr::Constant(Datum::Array(array), _) => array.elements.clone(),
        Expr::Array(parts, _) => {
            let values = parts.iter().map(|part| match part {
                Expr::Constant(value, _) => Some(value.clone()),
                _ => None,
            });
            values.collect::<Option<_>>()?
        }
        _ => return None,
    };
    Some(
        values
            .into_iter()
            .filter(|value| !value.is_null())
            .collect(),
    )
}
