//! Orders that an index has: a sort over such rows is left out, and `min` and `max` read one row.
//!
//! The keys of an index are in the order of its values where they hold these exactly. Of long
//! contents they hold the beginning; a sort over them has to put only those in order that share it,
//! and hands over all others as they come. NULL is the least value of a key, which is not where
//! most orders want it: rows with NULL in the first column are read apart then.
//!
//! An index beside the primary key finds its rows one by one, so it gives an order only to a
//! statement that wants few of them and tests no more conditions, or that looks up a range of it
//! anyway. Its keys have the primary key behind their columns.

use super::access::{columns_of, has_beginning, is_ordered};
use super::computed::{computed, is_never_null, seen, seen_by};
use super::estimate::LOOK_UP;
use super::expression::Expr;
use super::node::{
    Access, Aggregate, JoinKind, JoinMethod, KeyRange, Limit, Node, Nulls, Scan, Sort, SortKey,
    Source, Wanted,
};
use super::selectivity::rows_of;
use crate::types::{Datum, Kind};
use std::sync::Arc;

/// Rows of a table for which either way will do.
const SMALL: f64 = 1000.0;

/// For each key of an order the bytes by which the rows are in it, as in [`Sort::presorted`].
type Presorted = Vec<Option<usize>>;

/// Lets indexes give orders, in all parts of a plan.
pub(super) fn use_orders(node: &mut Node) {
    if let Node::Sort(sort) = node {
        let sort = Arc::make_mut(sort);
        let wanted = sort.wanted.as_ref().map(Wanted::rows);
        sort.presorted = give_order(&mut sort.input, &sort.keys, wanted);
        if sort.presorted.as_ref().is_some_and(is_exact) {
            *node = std::mem::replace(&mut sort.input, Node::nothing());
        }
    } else if let Node::Aggregate(aggregate) = node {
        read_end(Arc::make_mut(aggregate));
    }
    let visited = node.inputs(&mut |input, _| {
        use_orders(input);
        Ok(())
    });
    debug_assert!(visited.is_ok(), "the visitor does not fail");
}

impl Wanted {
    /// About the number of rows that are read for them.
    fn rows(&self) -> f64 {
        let of = |part: &Expr| match part {
            Expr::Constant(Datum::Int8(rows), _) => *rows as f64,
            // Few, as nobody asks for all of them like that.
            _ => 1.0,
        };
        of(&self.count) + self.skipped.as_ref().map_or(0.0, of)
    }
}

/// Whether rows are in an order by all of their keys.
fn is_exact(presorted: &Presorted) -> bool {
    presorted.iter().all(Option::is_none)
}

/// `min` or `max` of all rows is that of the first one in the order; NULL is that of no row, and
/// comes last.
fn read_end(aggregate: &mut Aggregate) {
    let [call] = aggregate.calls.as_slice() else {
        return;
    };
    let descends = match call.function.function.name {
        "min" => false,
        "max" => true,
        _ => return,
    };
    let [argument] = call.arguments.as_slice() else {
        return;
    };
    if !aggregate.keys.is_empty() || call.filter.is_some() || is_read_once(&aggregate.input) {
        return;
    }
    let key = SortKey {
        expression: argument.clone(),
        descends,
        nulls_first: false,
    };
    let keys = vec![key];
    let Some(presorted) = give_order(&mut aggregate.input, &keys, Some(1.0)) else {
        return;
    };
    let mut input = std::mem::replace(&mut aggregate.input, Node::nothing());
    let one = Expr::Constant(Datum::Int8(1), Kind::Int8.plain());
    if !is_exact(&presorted) {
        input = Sort {
            input,
            keys,
            wanted: Some(Wanted {
                count: one.clone(),
                skipped: None,
            }),
            presorted: Some(presorted),
        }
        .into();
    }
    aggregate.input = Limit {
        input,
        count: Some(one),
        offset: None,
        ties: None,
    }
    .into();
}

/// Whether a scan finds one row at most.
fn is_read_once(node: &Node) -> bool {
    matches!(node, Node::Scan(scan) if super::access::is_unique(scan))
}

/// Makes a node give its rows in an order, so many of them if not all are wanted; none, and nothing
/// has changed, if it cannot.
fn give_order(node: &mut Node, keys: &[SortKey], wanted: Option<f64>) -> Option<Presorted> {
    match node {
        Node::Scan(scan) => {
            let (access, presorted) = ordered(scan, keys, wanted)?;
            Arc::make_mut(scan).access = access;
            Some(presorted)
        }
        Node::Filter(plan) => give_order(&mut Arc::make_mut(plan).input, keys, wanted),
        Node::Project(plan) if !plan.has_sets => {
            let below = keys.iter().map(|key| match &key.expression {
                Expr::Column(at, _) => plan.expressions.get(*at).map(|expression| SortKey {
                    expression: expression.clone(),
                    ..key.clone()
                }),
                _ => None,
            });
            let below: Option<Vec<SortKey>> = below.collect();
            give_order(&mut Arc::make_mut(plan).input, &below?, wanted)
        }
        Node::Join(join) => {
            // Look-ups read the left rows one after the other; a table of hashes that is too large
            // puts them into files.
            let keeps_order = !matches!(join.kind, JoinKind::Right | JoinKind::Full);
            let width = join.left.width();
            let is_left = |key: &SortKey| key.expression.columns_are_below(width);
            let is_one_pass = matches!(join.method, JoinMethod::Lateral);
            if !keeps_order || !is_one_pass || !keys.iter().all(is_left) {
                return None;
            }
            give_order(&mut Arc::make_mut(join).left, keys, wanted)
        }
        _ => None,
    }
}

/// The way to the rows of a scan that has the order.
fn ordered(scan: &Scan, keys: &[SortKey], wanted: Option<f64>) -> Option<(Access, Presorted)> {
    let source = &scan.source;
    let backward = keys.first()?.descends;
    if keys.iter().any(|key| key.descends != backward) {
        return None;
    }
    let conditions = scan
        .condition
        .clone()
        .map_or_else(Vec::new, Expr::conjuncts);
    match &scan.access {
        Access::All { .. } => {
            if let Some((_, presorted)) = order_by(source, (None, 0), keys, &conditions) {
                return Some((Access::All { backward }, presorted));
            }
            if !wanted.is_some_and(|rows| is_few(rows, source)) {
                return None;
            }
            let definition = source.table.definition();
            let mut indexes = definition.indexes.iter().map(|index| &index.name);
            indexes.find_map(|index| {
                let whole = KeyRange {
                    index: Some(index.clone()),
                    prefix: Vec::new(),
                    low: None,
                    high: None,
                    pattern: None,
                    nulls: Nulls::AsKeys,
                    backward,
                };
                let is_fit = gives_all(source, index, &conditions);
                is_fit.then(|| ordered_range(source, &whole, keys, &conditions))?
            })
        }
        Access::Range(range) => ordered_range(source, range, keys, &conditions),
        _ => None,
    }
}

/// A range of an index in the order, if its rows come in it.
fn ordered_range(
    source: &Source,
    range: &KeyRange,
    keys: &[SortKey],
    conditions: &[Expr],
) -> Option<(Access, Presorted)> {
    if !has_beginning(range.pattern.as_ref()) {
        return None;
    }
    let has_null = usize::from(range.nulls == Nulls::Only);
    let index = (range.index.as_deref(), range.prefix.len() + has_null);
    let (nulls, presorted) = order_by(source, index, keys, conditions)?;
    let range = KeyRange {
        backward: keys.first()?.descends,
        nulls: match range.nulls {
            Nulls::Skipped | Nulls::Only => range.nulls,
            _ => nulls,
        },
        ..range.clone()
    };
    Some((Access::Range(range), presorted))
}

/// Whether looking up so many rows costs less than reading all of a table.
fn is_few(rows: f64, source: &Source) -> bool {
    rows * LOOK_UP <= rows_of(source).max(SMALL)
}

/// Whether the rows that an index has are those for which conditions are true.
fn gives_all(source: &Source, index: &str, conditions: &[Expr]) -> bool {
    let computed = computed(source, Some(index));
    let ensures = |condition| computed.is_some_and(|one| one.ensures(condition));
    conditions.iter().all(ensures) && seen(source, Some(index), conditions).is_some()
}

/// How an index, or the primary key, has the keys of an order, which is that of its columns after
/// some of them: where rows with NULL are to be read, and how far the keys are in the order.
fn order_by(
    source: &Source,
    (index, skipped): (Option<&str>, usize),
    keys: &[SortKey],
    conditions: &[Expr],
) -> Option<(Nulls, Presorted)> {
    let mut columns = columns_of(source, index);
    // Rows with the same values are in the order of the primary key; in a unique index there are
    // none but those with NULL.
    let key = source.key.iter().copied();
    let behind: Vec<usize> = key.filter(|at| !columns.contains(at)).collect();
    columns.extend(behind);
    let columns = columns.get(skipped..).unwrap_or_default();
    if keys.len() > columns.len() {
        return None;
    }
    let is_part = computed(source, index).is_some_and(|one| !one.part.is_empty());
    let mut nulls = if is_part {
        Nulls::Skipped
    } else {
        Nulls::AsKeys
    };
    let mut presorted = Vec::with_capacity(keys.len());
    for (at, (key, &column)) in keys.iter().zip(columns).enumerate() {
        let seen = seen_by(source, index, &key.expression);
        let is_key = matches!(&*seen, Expr::Column(own, _) if *own == column);
        let data_type = source.column_type(column);
        if !is_key || !is_ordered(data_type) || data_type.kind == Kind::Bpchar {
            return None;
        }
        let are_nulls_placed = is_never_null(source, (index, column), conditions)
            || (key.nulls_first != key.descends && !is_part);
        if !are_nulls_placed {
            if at > 0 || is_part {
                return None;
            }
            nulls = match key.nulls_first {
                true => Nulls::First,
                false => Nulls::Last,
            };
        }
        presorted.push(source.table.ordered_bytes(index, column));
    }
    Some((nulls, presorted))
}
