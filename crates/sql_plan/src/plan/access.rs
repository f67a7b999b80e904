//! The way to a table's rows: the index that the conditions of a scan make the most of.
//!
//! A condition helps if it compares a column with a value that does not depend on the row: for
//! equality, with the elements of an array, or as an end of a range. Equality takes the condition's
//! place; ranges are tested again on the rows, because long texts and NULLs are not exactly where
//! the keys say.
//!
//! The branches of an `OR` may have an index each: the rows of each branch are looked up then.
//!
//! ```text
//! a = 1 OR (b = 2 AND c > 3)   rows by an index of a, then rows by an index of b
//! ```
//!
//! A row for which several branches are true is found by several ways, and belongs to the first of
//! them. So each way tests its branch and those before it, and nothing has to keep the rows that
//! were found.

use super::computed::{computed, is_never_null, seen};
use super::estimate::{LOOK_UP, touched_by};
use super::expression::{Expr, Quantified};
use super::node::{Access, Bound, KeyRange, Node, Nulls, Scan, Source, System, Way};
use super::selectivity::{rows_of, share_of, share_of_index, share_of_value};
use crate::types::cast::CastContext;
use crate::types::function::like::beginning;
use crate::types::operator::commutator;
use crate::types::{Datum, Kind, Type, storage};
use std::sync::Arc;

/// Most branches: a row is tested for those before its own.
const BRANCHES_MAX: usize = 64;

/// Rows of a table that it may get in the life of a plan.
const SMALL: f64 = 1000.0;

/// An index, or the primary key.
struct Candidate {
    index: Option<String>,
    columns: Vec<usize>,
    is_unique: bool,
}

/// An access, its worth, and the conditions that it ensures.
struct Choice {
    access: Access,
    worth: u32,
    ensured: Vec<usize>,
}

/// Lets a scan use an index for its condition and for others; what the index does not ensure stays
/// its condition. Of several indexes it is the one with the fewest rows to look at, or of as many
/// the one that more of the conditions fit.
pub(super) fn choose(scan: &mut Scan, others: Vec<Expr>) {
    let own = scan.condition.take().map(Expr::conjuncts);
    let conditions: Vec<Expr> = own.unwrap_or_default().into_iter().chain(others).collect();
    let (access, ensured) = match best_of(scan, &conditions, true) {
        Some((_, best)) => (best.access, best.ensured),
        None => (Access::All { backward: false }, Vec::new()),
    };
    scan.condition = rest_of(&conditions, &ensured);
    scan.access = access;
}

/// The access by indexes with the fewest rows to look at, and their number. The branches of an `OR`
/// may each have their own.
fn best_of(scan: &mut Scan, conditions: &[Expr], by_branches: bool) -> Option<(f64, Choice)> {
    let mut all = choices(&scan.source, conditions);
    if by_branches {
        all.extend(choices_by_branches(scan, conditions));
    }
    let mut best: Option<(f64, Choice)> = None;
    for choice in all {
        scan.condition = rest_of(conditions, &choice.ensured);
        scan.access = choice.access.clone();
        let touched = touched_by(scan);
        let is_better = best.as_ref().is_none_or(|(least, best)| {
            let order = touched.total_cmp(least);
            order.then(best.worth.cmp(&choice.worth)).is_lt()
        });
        if is_better {
            best = Some((touched, choice));
        }
    }
    best
}

/// The scan by each index, and by the primary key, as far as its conditions give a range there; all
/// of the index where they give none.
pub(super) fn by_each(scan: &Scan) -> Vec<Scan> {
    let conditions = scan
        .condition
        .clone()
        .map_or_else(Vec::new, Expr::conjuncts);
    let source = &scan.source;
    let way = |candidate: Candidate| {
        let index = candidate.index.as_deref();
        let seen = seen(source, index, &conditions)?;
        let found = by_range(source, &candidate, &seen);
        let mut ensured = found
            .as_ref()
            .map_or_else(Vec::new, |one| one.ensured.clone());
        if let Some(computed) = computed(source, index) {
            ensured.extend((0..conditions.len()).filter(|&at| computed.ensures(&conditions[at])));
        }
        let whole = Access::Range(whole_range(candidate.index.clone()));
        Some(Scan {
            access: found.map_or(whole, |found| found.access),
            condition: rest_of(&conditions, &ensured),
            ..scan.clone()
        })
    };
    candidates(source).into_iter().filter_map(way).collect()
}

/// All of an index, or of the primary key.
pub(super) fn whole_range(index: Option<String>) -> KeyRange {
    KeyRange {
        index,
        prefix: Vec::new(),
        low: None,
        high: None,
        pattern: None,
        nulls: Nulls::AsKeys,
        backward: false,
    }
}

/// The ways by indexes that conditions make use of.
fn choices(source: &Source, conditions: &[Expr]) -> Vec<Choice> {
    let mut choices = Vec::new();
    for candidate in candidates(source) {
        let index = candidate.index.as_deref();
        let Some(seen) = seen(source, index, conditions) else {
            continue;
        };
        let ways = [
            by_range(source, &candidate, &seen),
            by_elements(source, &candidate, &seen),
            by_rows(source, &candidate, &seen),
            by_part(source, &candidate, conditions),
        ];
        for mut choice in ways.into_iter().flatten() {
            // No key that is found is NULL, so its row is in the part that the index has.
            if let Some(computed) = computed(source, index) {
                let all = 0..conditions.len();
                let ensured = all.filter(|&at| computed.ensures(&conditions[at]));
                choice.ensured.extend(ensured);
            }
            choices.push(choice);
        }
    }
    choices
}

/// The conditions that a way does not ensure.
fn rest_of(conditions: &[Expr], ensured: &[usize]) -> Option<Expr> {
    let rest = conditions.iter().enumerate();
    let rest = rest.filter(|(at, _)| !ensured.contains(at));
    let rest: Vec<Expr> = rest.map(|(_, condition)| condition.clone()).collect();
    (!rest.is_empty()).then(|| Expr::all(rest))
}

/// Lets all scans of a plan that read all rows use indexes for their conditions.
pub(super) fn choose_all(node: &mut Node) {
    if let Node::Scan(scan) = node
        && let Access::All { backward: false } = scan.access
        && scan.condition.is_some()
    {
        choose(Arc::make_mut(scan), Vec::new());
    }
    let visited = node.inputs(&mut |input, _| {
        choose_all(input);
        Ok(())
    });
    debug_assert!(visited.is_ok(), "the visitor does not fail");
}

/// Lets a relation of the system look up rows by the first condition of equality that it can.
pub(super) fn choose_key(system: &mut System, mut conditions: Vec<Expr>) {
    let columns = &system.columns;
    let kind_of = |at: usize| {
        columns
            .get(at)
            .map_or(Kind::Unknown, |(_, kind)| *kind)
            .plain()
    };
    let found = conditions.iter().enumerate().find_map(|(at, condition)| {
        match comparison(&kind_of, condition)? {
            (column, "=", value) => Some((at, (column, value.clone()))),
            _ => None,
        }
    });
    if let Some((at, key)) = found {
        conditions.remove(at);
        system.key = Some(key);
    }
    let rest: Vec<Expr> = system
        .condition
        .take()
        .into_iter()
        .chain(conditions)
        .collect();
    system.condition = (!rest.is_empty()).then(|| Expr::all(rest));
}

/// Whether the scan finds at most one row.
pub(super) fn is_unique(scan: &Scan) -> bool {
    let Access::Range(range) = &scan.access else {
        return false;
    };
    let index = range.index.as_deref();
    range.prefix.len() == columns_of(&scan.source, index).len()
        && is_unique_key(&scan.source, index)
}

/// Whether an index, or the primary key, has each key once.
pub(super) fn is_unique_key(source: &Source, index: Option<&str>) -> bool {
    let definition = source.table.definition();
    index.is_none_or(|name| definition.index(name).is_some_and(|index| index.unique))
}

/// Columns of an index, or of the primary key.
pub(super) fn columns_of(source: &Source, index: Option<&str>) -> Vec<usize> {
    let Some(name) = index else {
        return source.key.to_vec();
    };
    let definition = source.table.definition();
    let index = definition.index(name);
    index.map(|index| index.columns.clone()).unwrap_or_default()
}

/// Columns of the primary key and of each index, and whether they are unique.
pub(super) fn keys_of(source: &Source) -> Vec<(Vec<usize>, bool)> {
    let all = candidates(source).into_iter();
    all.map(|key| (key.columns, key.is_unique)).collect()
}

fn candidates(source: &Source) -> Vec<Candidate> {
    let definition = source.table.definition();
    let primary = Candidate {
        index: None,
        columns: source.key.to_vec(),
        is_unique: true,
    };
    let known = definition.indexes.into_iter();
    let known = known.filter(|index| source.indexes.contains(&index.name));
    let others = known.map(|index| Candidate {
        index: Some(index.name),
        columns: index.columns,
        is_unique: index.unique,
    });
    std::iter::once(primary).chain(others).collect()
}

/// The column that an expression is, if converting it changes no value.
pub(super) fn column_of(expression: &Expr) -> Option<usize> {
    match expression {
        Expr::Column(at, _) => Some(*at),
        // `COLLATE "C"`, which all keys have.
        Expr::Cast(inner, target, CastContext::Explicit) if inner.data_type() == *target => {
            column_of(inner)
        }
        Expr::Cast(inner, target, _) if target.modifier < 0 => match (&**inner, target.kind) {
            (
                Expr::Column(
                    at,
                    Type {
                        kind: Kind::Varchar | Kind::Name,
                        ..
                    },
                ),
                Kind::Text,
            ) => Some(*at),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a condition compares a column with queries that read no row around them, and an index
/// begins with that column: the queries run once, before the rows are looked up.
pub(super) fn leads_by_query(source: &Source, condition: &Expr) -> bool {
    let is_alone = !condition.any(
        |part, depth| matches!(part, Expr::Subquery(query) if depth == 0 && query.is_correlated),
    );
    let conditions = std::slice::from_ref(condition);
    is_alone
        && candidates(source).iter().any(|candidate| {
            let seen = seen(source, candidate.index.as_deref(), conditions);
            seen.is_some_and(|seen| {
                by_range(source, candidate, &seen).is_some()
                    || by_elements(source, candidate, &seen).is_some()
            })
        })
}

/// Whether values of a kind are values of a column's keys, which are equal where these are.
pub(super) fn fits(column: Type, value: Kind) -> bool {
    use Kind::{Int2, Int4, Int8, Name, Text, Varchar};
    let is_integer = |kind| matches!(kind, Int2 | Int4 | Int8);
    let is_text = |kind| matches!(kind, Text | Varchar | Name);
    (column.kind == value && storage::has_equal_keys(column))
        || (is_integer(column.kind) && is_integer(value))
        || (is_text(column.kind) && is_text(value))
}

/// A comparison of a column with a value: column, operator seen from it, value.
pub(super) fn comparison<'e>(
    type_of: &dyn Fn(usize) -> Type,
    condition: &'e Expr,
) -> Option<(usize, &'static str, &'e Expr)> {
    let Expr::Call(call) = condition else {
        return None;
    };
    let [left, right] = call.arguments.as_slice() else {
        return None;
    };
    if !call.is_operator {
        return None;
    }
    let (column, name, value) = match (column_of(left), column_of(right)) {
        (Some(at), _) if !right.reads_row() => (at, call.function.name, right),
        (_, Some(at)) if !left.reads_row() => (at, commutator(call.function.name)?, left),
        _ => return None,
    };
    let is_fixed = !Expr::has_volatile(value);
    (is_fixed && fits(type_of(column), value.kind())).then_some((column, name, value))
}

/// As [`comparison`], also of a condition from which one follows: `a < 1 OR a = 1 AND b < 2`, as
/// rows are compared, is true for no other rows than those with `a <= 1`.
pub(super) fn end<'e>(
    type_of: &dyn Fn(usize) -> Type,
    condition: &'e Expr,
) -> Option<(usize, &'static str, &'e Expr)> {
    let Expr::Or(branches) = condition else {
        return comparison(type_of, condition);
    };
    let (first, others) = branches.split_first()?;
    let (column, name, value) = comparison(type_of, first)?;
    let (is_below, with_end) = match name {
        "<" | "<=" => (true, "<="),
        ">" | ">=" => (false, ">="),
        _ => return None,
    };
    let is_inside = |part: &Expr| {
        comparison(type_of, part).is_some_and(|(own, name, other)| {
            let is_fit = match name {
                "=" => true,
                "<" | "<=" => is_below,
                ">" | ">=" => !is_below,
                _ => false,
            };
            own == column && is_fit && other.is_same(value)
        })
    };
    let follows = |branch: &Expr| match branch {
        Expr::And(parts) => parts.iter().any(is_inside),
        other => is_inside(other),
    };
    others
        .iter()
        .all(follows)
        .then_some((column, with_end, value))
}

/// A value for the column, by a condition of equality.
fn equal_to(source: &Source, column: usize, conditions: &[Expr]) -> Option<(usize, Expr)> {
    conditions.iter().enumerate().find_map(|(at, condition)| {
        match comparison(&|at| source.column_type(at), condition)? {
            (found, "=", value) if found == column => Some((at, value.clone())),
            _ => None,
        }
    })
}

/// Values of the first columns, by conditions of equality, and these conditions.
fn prefix_of(
    source: &Source,
    candidate: &Candidate,
    conditions: &[Expr],
) -> (Vec<Expr>, Vec<usize>) {
    let columns = candidate.columns.iter();
    let equal = columns.map_while(|&column| equal_to(source, column, conditions));
    equal.map(|(at, value)| (value, at)).unzip()
}

/// Equality of the first columns, and a range of the next one.
fn by_range(source: &Source, candidate: &Candidate, conditions: &[Expr]) -> Option<Choice> {
    let (prefix, mut ensured) = prefix_of(source, candidate, conditions);
    let (mut low, mut high, mut pattern) = (None, None, None);
    if let Some(&next) = candidate.columns.get(prefix.len())
        && is_ordered(source.column_type(next))
    {
        for condition in conditions {
            let Some((column, name, value)) = end(&|at| source.column_type(at), condition) else {
                continue;
            };
            if column != next {
                continue;
            }
            let bound = Bound {
                value: value.clone(),
                is_included: name.ends_with('='),
            };
            match name {
                ">" | ">=" => low = low.or(Some(bound)),
                "<" | "<=" => high = high.or(Some(bound)),
                "~~" if may_begin(value) => pattern = pattern.or_else(|| Some(value.clone())),
                _ => {}
            }
        }
    }
    if low.is_some() || high.is_some() {
        pattern = None;
    }
    let has_pattern = pattern.is_some();
    let is_null = (low.is_none() && high.is_none() && !has_pattern)
        .then(|| null_test(source, candidate, prefix.len(), conditions))
        .flatten();
    ensured.extend(is_null);
    let ends = u32::from(low.is_some() || has_pattern) + u32::from(high.is_some() || has_pattern);
    if prefix.is_empty() && ends == 0 && is_null.is_none() {
        return None;
    }
    let is_one = candidate.is_unique && prefix.len() == candidate.columns.len();
    let primary = u32::from(candidate.index.is_none());
    let worth = if is_one {
        1000
    } else {
        8 * prefix.len() as u32 + 2 * ends + 6 * u32::from(is_null.is_some())
    } + primary;
    Some(Choice {
        access: Access::Range(KeyRange {
            index: candidate.index.clone(),
            prefix,
            low,
            high,
            pattern,
            nulls: match is_null {
                Some(_) => Nulls::Only,
                None => Nulls::AsKeys,
            },
            backward: false,
        }),
        worth,
        ensured,
    })
}

/// The condition that a column of an index is NULL, if it leaves few rows, or the columns before it
/// have values.
fn null_test(
    source: &Source,
    candidate: &Candidate,
    at: usize,
    conditions: &[Expr],
) -> Option<usize> {
    let column = *candidate.columns.get(at)?;
    let index = candidate.index.as_deref();
    // Rows outside of a part have NULL too.
    if computed(source, index).is_some_and(|one| !one.part.is_empty()) {
        return None;
    }
    let is_it = |condition: &Expr| match condition {
        Expr::IsNull(operand, false) => matches!(**operand, Expr::Column(own, _) if own == column),
        _ => false,
    };
    let found = conditions.iter().position(is_it)?;
    let is_few = share_of(&conditions[found], source) * LOOK_UP < 1.0;
    (at > 0 || is_few).then_some(found)
}

/// All rows of the part that an index has, if they are few and no key of them is NULL.
fn by_part(source: &Source, candidate: &Candidate, conditions: &[Expr]) -> Option<Choice> {
    let index = candidate.index.as_deref();
    let computed = computed(source, index).filter(|one| !one.part.is_empty())?;
    let first = candidate.columns.first()?;
    let is_few = share_of_index(source, computed) * LOOK_UP < 1.0;
    let is_fit = is_few && is_never_null(source, (index, *first), conditions);
    is_fit.then(|| Choice {
        access: Access::Range(KeyRange {
            nulls: Nulls::Skipped,
            ..whole_range(candidate.index.clone())
        }),
        worth: 1,
        ensured: Vec::new(),
    })
}

/// Whether a pattern may have a beginning, as far as it is known.
fn may_begin(pattern: &Expr) -> bool {
    match pattern {
        Expr::Constant(Datum::Text(text), _) => !beginning(text).is_empty(),
        Expr::Constant(..) => false,
        _ => true,
    }
}

/// Whether a range by a pattern has both ends for certain, or none by a pattern.
pub(super) fn has_beginning(pattern: Option<&Expr>) -> bool {
    pattern.is_none_or(|pattern| matches!(pattern, Expr::Constant(..)))
}

/// Whether keys of a column are in the order of its values.
pub(super) fn is_ordered(data_type: Type) -> bool {
    storage::has_exact_keys(data_type) && data_type.kind != Kind::Numeric
}

/// Whether a condition is true exactly where a column is an element of the condition's array.
pub(super) fn is_element(column: usize, test: &Quantified, source: &Source) -> bool {
    let is_equality = match &test.condition {
        Expr::Call(call) => {
            call.is_equality()
                && matches!(call.arguments[..], [Expr::Column(0, _), Expr::Column(1, _)])
        }
        _ => false,
    };
    let element = test.array.kind().element();
    !test.is_all
        && is_equality
        && column_of(&test.left) == Some(column)
        && element.is_some_and(|element| fits(source.column_type(column), element))
}

/// Equality of the first columns, and the next one is an element of an array.
fn by_elements(source: &Source, candidate: &Candidate, conditions: &[Expr]) -> Option<Choice> {
    let (prefix, mut ensured) = prefix_of(source, candidate, conditions);
    let &next = candidate.columns.get(prefix.len())?;
    let (at, array) = conditions.iter().enumerate().find_map(|(at, condition)| {
        let Expr::Quantified(test) = condition else {
            return None;
        };
        let is_it = is_element(next, test, source)
            && !test.array.reads_row()
            && !Expr::has_volatile(&test.array);
        is_it.then(|| (at, test.array.clone()))
    })?;
    ensured.push(at);
    Some(Choice {
        worth: 8 * prefix.len() as u32 + 7,
        access: Access::Elements {
            index: candidate.index.clone(),
            prefix,
            array,
        },
        ensured,
    })
}

/// The first columns are those of one of several rows, where all rows agree in some of them by
/// other conditions. More of the rows than the key has is tested again.
fn by_rows(source: &Source, candidate: &Candidate, conditions: &[Expr]) -> Option<Choice> {
    conditions.iter().enumerate().find_map(|(at, condition)| {
        let Expr::Or(rows) = condition else {
            return None;
        };
        let (mut keys, mut ensured) = (Vec::with_capacity(rows.len()), Vec::new());
        let (mut width, mut is_whole) = (None, true);
        for row in rows {
            let parts = row.clone().conjuncts();
            let (mut key, mut used) = (Vec::new(), 0);
            for &column in &candidate.columns {
                if let Some((other, value)) = equal_to(source, column, conditions) {
                    ensured.push(other);
                    key.push(value);
                } else if let Some((_, value)) = equal_to(source, column, &parts) {
                    used += 1;
                    key.push(value);
                } else {
                    break;
                }
            }
            if used == 0 || *width.get_or_insert(key.len()) != key.len() {
                return None;
            }
            is_whole &= used == parts.len();
            keys.push(key);
        }
        ensured.extend(is_whole.then_some(at));
        let width = width?;
        let columns = candidate.columns.iter().take(width);
        let share: f64 = columns.map(|&at| share_of_value(source, at)).product();
        if !is_whole && share * keys.len() as f64 * LOOK_UP >= 1.0 {
            return None;
        }
        let worth = 8 * width as u32 - 1;
        Some(Choice {
            access: Access::Keys {
                index: candidate.index.clone(),
                keys,
            },
            worth,
            ensured,
        })
    })
}

/// The ways by the branches of each `OR`, where they look at few rows.
fn choices_by_branches(scan: &Scan, conditions: &[Expr]) -> Vec<Choice> {
    let all = 0..conditions.len();
    all.filter_map(|at| of_condition(scan, conditions, at))
        .collect()
}

/// The scan of one way alone.
pub(super) fn alone(scan: &Scan, way: &Way) -> Scan {
    let others = scan.condition.clone();
    let conditions = std::iter::once(way.condition.clone()).chain(others);
    Scan {
        access: way.access.clone(),
        condition: Some(Expr::all(conditions.flat_map(Expr::conjuncts).collect())),
        ..scan.clone()
    }
}

fn of_condition(scan: &Scan, conditions: &[Expr], at: usize) -> Option<Choice> {
    let condition = &conditions[at];
    let source = &scan.source;
    // A comparison of rows is a range of one index, whose order may be of use.
    let is_range = end(&|at| source.column_type(at), condition).is_some();
    let Expr::Or(parts) = condition else {
        return None;
    };
    if is_range || Expr::has_query(condition) || Expr::has_volatile(condition) {
        return None;
    }
    let mut branches = Vec::new();
    flatten(parts, &mut branches);
    if branches.len() > BRANCHES_MAX {
        return None;
    }
    let others = conditions.iter().enumerate().filter(|(own, _)| *own != at);
    let others: Vec<Expr> = others.map(|(_, other)| other.clone()).collect();
    let (mut ways, mut touched) = (Vec::with_capacity(branches.len()), 0.0);
    for branch in branches {
        let mut own = branch.clone().conjuncts();
        own.extend(others.iter().cloned());
        let mut alone = scan.clone();
        let (rows, best) = best_of(&mut alone, &own, false)?;
        touched += 1.0 + rows;
        ways.push(Way {
            access: best.access,
            condition: branch.clone(),
        });
    }
    let is_few = touched * LOOK_UP < rows_of(source).max(SMALL);
    is_few.then(|| Choice {
        access: Access::AnyOf(ways),
        worth: 0,
        ensured: vec![at],
    })
}

/// The branches of an `OR`, and those of its own branches.
fn flatten<'e>(parts: &'e [Expr], branches: &mut Vec<&'e Expr>) {
    for part in parts {
        match part {
            Expr::Or(inner) => flatten(inner, branches),
            other => branches.push(other),
        }
    }
}
