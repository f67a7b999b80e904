//! Orders that an index has: a sort over such rows is left out, and `min` and `max` read one row.
//!
//! The keys of an index are in the order of its values where they hold these exactly. Of long
//! contents they hold the beginning; a sort over them has to put only those in order that share it,
//! and hands over all others as they come. NULL is the least value of a key, which is not where
//! most orders want it: rows with NULL in the first column are read apart then.
//!
//! An index beside the primary key finds its rows one by one, so it gives an order only to a
//! statement that looks up a range of it anyway, or that wants so few of them that reading on until
//! they are found, past rows that other conditions leave out, costs less than a sort of all. A join
//! may look up its right side for these few instead of keeping it in a table. The keys of such an
//! index have the primary key behind their columns.

use super::access::{self, columns_of, has_beginning, is_ordered, whole_range};
use super::computed::{computed, is_never_null, seen_by};
use super::estimate::{LOOK_UP, different, estimate, touched_by};
use super::expression::Expr;
use super::method::by_index_for;
use super::node::{
    Access, Aggregate, Distinct, Join, JoinKind, JoinMethod, KeyRange, Limit, Node, Nulls, Scan,
    SetKind, Sort, SortKey, Source, Wanted, Window,
};
use crate::types::{Datum, Kind};
use std::sync::Arc;

/// Rows of a table for which either way will do.
const SMALL: f64 = 1000.0;

/// Most ends of indexes that are read in place of all rows.
const ENDS_MAX: usize = 8;

/// Rows that a statement wants which says so by a parameter.
const UNKNOWN: f64 = 100.0;

/// For each row after a filter that many before it, as [`estimate`] has it.
const FILTERED: f64 = 4.0;

/// For each key of an order the bytes by which the rows are in it, as in [`Sort::presorted`].
type Presorted = Vec<Option<usize>>;

/// Lets indexes give orders, in all parts of a plan whose scans have no index for their conditions
/// yet, and settles the methods of joins.
pub(super) fn use_orders(node: &mut Node) {
    if let Node::Sort(sort) = node {
        let sort = Arc::make_mut(sort);
        let wanted = sort.wanted.as_ref().map(Wanted::rows);
        sort.presorted = give_order(&mut sort.input, &sort.keys, wanted);
        if sort.presorted.as_ref().is_some_and(is_exact) {
            *node = std::mem::replace(&mut sort.input, Node::nothing());
        }
    } else if let Node::Aggregate(aggregate) = node
        && !aggregate.keys.is_empty()
    {
        // One that is in order already stays so.
        if !aggregate.is_ordered {
            give_order(node, &[], None);
        }
    } else if let Node::Aggregate(aggregate) = node {
        if (2..=ENDS_MAX).contains(&aggregate.calls.len()) {
            if let Some(ends) = read_ends(aggregate) {
                *node = ends;
            }
        } else {
            read_end(Arc::make_mut(aggregate));
        }
    } else if let Node::Limit(limit) = node
        && let Some(count) = limit.count.clone()
    {
        // Any order will do.
        let skipped = limit.offset.clone();
        let wanted = Some(Wanted { count, skipped }.rows());
        give_order(&mut Arc::make_mut(limit).input, &[], wanted);
    }
    if let Node::Window(window) = node
        && !window.is_ordered
    {
        give_order(node, &[], None);
    }
    if let Node::Join(join) = node
        && let JoinMethod::Hash { equalities, .. } = &mut Arc::make_mut(join).method
    {
        equalities.clear();
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
            _ => UNKNOWN,
        };
        of(&self.count) + self.skipped.as_ref().map_or(0.0, of)
    }
}

/// Whether rows are in an order by all of their keys.
fn is_exact(presorted: &Presorted) -> bool {
    presorted.iter().all(Option::is_none)
}

/// As [`read_end`], of several of them: each reads its own row.
fn read_ends(aggregate: &Aggregate) -> Option<Node> {
    let input = &aggregate.input;
    if input.has_volatile() {
        return None;
    }
    let mut ends = aggregate.calls.iter().map(|call| {
        let mut one = Aggregate {
            input: input.clone(),
            keys: aggregate.keys.clone(),
            calls: vec![call.clone()],
            is_ordered: false,
        };
        read_end(&mut one).then(|| Node::from(one))
    });
    let first = ends.next()??;
    ends.try_fold(first, |left, right| {
        let both = Join {
            kind: JoinKind::Inner,
            left,
            right: right?,
            condition: None,
            method: JoinMethod::Loop,
        };
        Some(both.into())
    })
}

/// `min` or `max` of all rows is that of the first one in the order; NULL is that of no row, and
/// comes last. Whether it is read so.
fn read_end(aggregate: &mut Aggregate) -> bool {
    let [call] = aggregate.calls.as_slice() else {
        return false;
    };
    let descends = match call.function.function.name {
        "min" => false,
        "max" => true,
        _ => return false,
    };
    let [argument] = call.arguments.as_slice() else {
        return false;
    };
    if !aggregate.keys.is_empty() || call.filter.is_some() || is_read_once(&aggregate.input) {
        return false;
    }
    let key = SortKey {
        expression: argument.clone(),
        descends,
        nulls_first: false,
    };
    let keys = vec![key];
    let Some(presorted) = give_order(&mut aggregate.input, &keys, Some(1.0)) else {
        return false;
    };
    let mut input = std::mem::replace(&mut aggregate.input, Node::nothing());
    let one = Expr::Constant(Datum::Int8(1), Kind::Int8.plain());
    let wanted = Wanted {
        count: one.clone(),
        skipped: None,
    };
    input = exactly(input, keys, Some(presorted), Some(wanted));
    aggregate.input = Limit {
        input,
        count: Some(one),
        offset: None,
        ties: None,
    }
    .into();
    true
}

/// Rows that are in an order as far as an index has it, in all of the order.
fn exactly(
    input: Node,
    keys: Vec<SortKey>,
    presorted: Option<Presorted>,
    wanted: Option<Wanted>,
) -> Node {
    if presorted.as_ref().is_some_and(is_exact) {
        return input;
    }
    Sort {
        input,
        keys,
        wanted,
        presorted,
    }
    .into()
}

/// Whether a scan finds one row at most.
fn is_read_once(node: &Node) -> bool {
    let Node::Scan(scan) = node else {
        return false;
    };
    access::is_unique(&chosen(scan))
}

/// Makes a node give its rows in an order, so many of them if not all are wanted; none, and nothing
/// has changed, if it cannot.
fn give_order(node: &mut Node, keys: &[SortKey], wanted: Option<f64>) -> Option<Presorted> {
    if keys.is_empty() && has_order(node) {
        return Some(Vec::new());
    }
    match node {
        Node::Scan(_) if keys.is_empty() => Some(Vec::new()),
        Node::Scan(scan) => {
            let (ordered, presorted) = ordered(scan, keys, wanted)?;
            *scan = Arc::new(ordered);
            Some(presorted)
        }
        Node::Filter(plan) => {
            let wanted = wanted.map(|rows| rows * FILTERED);
            give_order(&mut Arc::make_mut(plan).input, keys, wanted)
        }
        Node::Distinct(plan) if plan.on.is_none() => distinct_in_order(plan, keys, wanted),
        Node::Aggregate(plan) if !plan.keys.is_empty() => {
            let (input, order) = groups_in_order(plan, keys, wanted)?;
            let plan = Arc::make_mut(plan);
            plan.input = input;
            plan.is_ordered = true;
            Some(vec![None; order])
        }
        Node::Window(plan) => {
            let input = window_in_order(plan, keys, wanted)?;
            let plan = Arc::make_mut(plan);
            plan.input = input;
            plan.is_ordered = true;
            Some(vec![None; keys.len()])
        }
        // Any order will do, so its own will.
        Node::Sort(plan) if keys.is_empty() && plan.wanted.is_none() => {
            let mut input = plan.input.clone();
            let presorted = give_order(&mut input, &plan.keys, wanted)?;
            *node = exactly(input, plan.keys.clone(), Some(presorted), None);
            Some(Vec::new())
        }
        Node::Distinct(plan) if keys.is_empty() && plan.on.is_some() => {
            let wanted = wanted.map(|rows| rows * FILTERED);
            give_order(&mut Arc::make_mut(plan).input, keys, wanted)
        }
        Node::SetOperation(plan) if plan.kind == SetKind::Union && plan.all => {
            let sides = [&plan.left, &plan.right];
            let [left, right] = sides_in_order(sides, keys, wanted)?;
            let plan = Arc::make_mut(plan);
            (plan.left, plan.right) = (left, right);
            plan.order = (!keys.is_empty()).then(|| keys.to_vec());
            Some(vec![None; keys.len()])
        }
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
        Node::Join(join) => join_in_order(join, keys, wanted),
        _ => None,
    }
}

/// Whether a node gives its rows in an order that somebody may have asked for.
fn has_order(node: &Node) -> bool {
    match node {
        Node::Aggregate(plan) => plan.is_ordered,
        Node::Window(plan) => plan.is_ordered,
        Node::SetOperation(plan) => plan.order.is_some(),
        _ => false,
    }
}

/// As [`give_order`], of rows without repetitions.
fn distinct_in_order(
    plan: &mut Arc<Distinct>,
    keys: &[SortKey],
    wanted: Option<f64>,
) -> Option<Presorted> {
    let width = plan.input.width();
    let place = |key: &SortKey| match &key.expression {
        Expr::Column(at, _) => Some(*at),
        _ => None,
    };
    let places: Vec<usize> = keys.iter().filter_map(place).collect();
    if !(0..width).all(|at| places.contains(&at)) {
        return None;
    }
    let values = places.iter().map(|&at| different(&plan.input, at));
    let values: Option<Vec<f64>> = values.collect();
    let rows = estimate(&plan.input);
    let each = rows / values?.iter().product::<f64>().min(rows);
    let mut input = plan.input.clone();
    let presorted = give_order(&mut input, keys, wanted.map(|wanted| wanted * each))?;
    if !is_exact(&presorted) {
        return None;
    }
    // Equal rows come one after the other.
    let plan = Arc::make_mut(plan);
    plan.input = input;
    plan.on = Some(keys.iter().map(|key| key.expression.clone()).collect());
    Some(presorted)
}

/// As [`give_order`], of a join whose left rows have the keys.
fn join_in_order(join: &mut Arc<Join>, keys: &[SortKey], wanted: Option<f64>) -> Option<Presorted> {
    let width = join.left.width();
    let is_left = |key: &SortKey| key.expression.columns_are_below(width);
    let keeps_order = !matches!(join.kind, JoinKind::Right | JoinKind::Full);
    if !keeps_order || !keys.iter().all(is_left) {
        return None;
    }
    let wanted = wanted.map(|rows| rows * left_rows_for_one(join));
    // Look-ups read the left rows one after the other; a table of hashes that is too large
    // puts them into files.
    let looked_up = match &join.method {
        JoinMethod::Lateral => None,
        _ => Some(by_index_for(join, wanted?)?),
    };
    let join = Arc::make_mut(join);
    let presorted = give_order(&mut join.left, keys, wanted)?;
    if let Some(looked_up) = looked_up {
        join.right = looked_up;
        join.method = JoinMethod::Lateral;
    }
    Some(presorted)
}

/// The input of groups in an order that has the rows of each group together, and begins with one of
/// the groups.
fn groups_in_order(
    plan: &Aggregate,
    keys: &[SortKey],
    wanted: Option<f64>,
) -> Option<(Node, usize)> {
    let mut places = Vec::with_capacity(plan.keys.len());
    let mut order = Vec::with_capacity(plan.keys.len());
    for key in keys {
        let Expr::Column(at, _) = key.expression else {
            return None;
        };
        places.push(at);
        order.push(SortKey {
            expression: plan.keys.get(at)?.clone(),
            ..key.clone()
        });
    }
    let descends = keys.first().is_some_and(|key| key.descends);
    let rest = plan.keys.iter().enumerate();
    let rest = rest.filter(|(at, _)| !places.contains(at));
    order.extend(rest.map(|(_, expression)| SortKey {
        expression: expression.clone(),
        descends,
        // As an index has them.
        nulls_first: !descends,
    }));
    let mut input = plan.input.clone();
    let each = group_rows(&input, &plan.keys);
    let presorted = give_order(&mut input, &order, wanted.map(|groups| groups * each))?;
    // A table of hashes costs less than a sort of all rows.
    if wanted.is_none() && !is_exact(&presorted) || plan.keys.iter().any(Expr::has_volatile) {
        return None;
    }
    Some((exactly(input, order, Some(presorted), None), keys.len()))
}

/// The input of a window partition after partition, in an order that begins with some keys.
fn window_in_order(plan: &Window, keys: &[SortKey], wanted: Option<f64>) -> Option<Node> {
    let descends = keys.first().or(plan.order.first());
    let descends = descends.is_some_and(|key| key.descends);
    let (first, then) = keys.split_at(keys.len().min(plan.partition.len()));
    let is_key = |one: &Expr| first.iter().any(|key| key.expression.is_same(one));
    let is_of_partition = |key: &SortKey| {
        let mut partition = plan.partition.iter();
        partition.any(|one| one.is_same(&key.expression))
    };
    let is_next = |(key, own): (&SortKey, &SortKey)| {
        key.expression.is_same(&own.expression)
            && (key.descends, key.nulls_first) == (own.descends, own.nulls_first)
    };
    let fits = then.len() <= plan.order.len()
        && first.iter().all(is_of_partition)
        && then.iter().zip(&plan.order).all(is_next);
    if !fits {
        return None;
    }
    let rest = plan.partition.iter().filter(|one| !is_key(one));
    let rest = rest.map(|expression| SortKey {
        expression: expression.clone(),
        descends,
        // As an index has them.
        nulls_first: !descends,
    });
    let order = first.iter().cloned().chain(rest);
    let order: Vec<SortKey> = order.chain(plan.order.iter().cloned()).collect();
    if order.iter().any(|key| Expr::has_volatile(&key.expression)) {
        return None;
    }
    let mut input = plan.input.clone();
    let presorted = give_order(&mut input, &order, rows_of_window(plan, wanted))?;
    Some(exactly(input, order, Some(presorted), None))
}

/// About the number of rows that a window reads for so many wanted ones; none if it reads all.
fn rows_of_window(plan: &Window, wanted: Option<f64>) -> Option<f64> {
    if plan.partition.is_empty() {
        let stop = plan.stop.as_ref().map(|stop| match &stop.last {
            Expr::Constant(Datum::Int4(rows), _) => f64::from(*rows),
            Expr::Constant(Datum::Int8(rows), _) => *rows as f64,
            _ => UNKNOWN,
        });
        let wanted = wanted.filter(|_| plan.is_numbered());
        return match (stop, wanted) {
            (Some(stop), Some(wanted)) => Some(stop.min(wanted)),
            (stop, wanted) => stop.or(wanted),
        };
    }
    let of_one = group_rows(&plan.input, &plan.partition);
    wanted.map(|wanted| match plan.is_numbered() && plan.stop.is_none() {
        true => wanted,
        false => wanted * of_one,
    })
}

/// About the number of rows that have the same values of some expressions.
fn group_rows(input: &Node, keys: &[Expr]) -> f64 {
    let rows = estimate(input).max(1.0);
    let values = keys.iter().map(|key| match key {
        Expr::Column(at, _) => different(input, *at),
        _ => None,
    });
    let values: Option<Vec<f64>> = values.collect();
    let groups = values.map_or(rows / 10.0, |all| all.iter().product::<f64>());
    rows / groups.clamp(1.0, rows)
}

/// Both inputs of a `UNION ALL` in an order. One that has it by no index is sorted, if most rows
/// come from the other one.
fn sides_in_order(sides: [&Node; 2], keys: &[SortKey], wanted: Option<f64>) -> Option<[Node; 2]> {
    let (mut in_order, mut all) = (0.0, 0.0);
    let sides = sides.map(|side| {
        let mut input = side.clone();
        let rows = estimate(&input);
        let presorted = give_order(&mut input, keys, wanted);
        all += rows;
        if presorted.is_some() {
            in_order += rows;
        }
        match keys {
            [] => input,
            _ => exactly(input, keys.to_vec(), presorted, None),
        }
    });
    (in_order * 2.0 >= all).then_some(sides)
}

/// About the number of left rows that a join reads for one of its rows.
fn left_rows_for_one(join: &Arc<Join>) -> f64 {
    let rows = estimate(&Node::Join(Arc::clone(join))).max(1.0);
    (estimate(&join.left) / rows).max(1.0)
}

/// A scan with the index that suits its conditions, if it has none yet.
fn chosen(scan: &Scan) -> Scan {
    let mut scan = scan.clone();
    if let Access::All { backward: false } = scan.access
        && scan.condition.is_some()
    {
        access::choose(&mut scan, Vec::new());
    }
    scan
}

/// The scan in an order: by the index that suits its conditions, or by another one where so few of
/// its rows are wanted that this costs less.
fn ordered(scan: &Scan, keys: &[SortKey], wanted: Option<f64>) -> Option<(Scan, Presorted)> {
    let plain = chosen(scan);
    let by_plain = in_order(&plain, keys);
    let Some(wanted) = wanted else {
        return by_plain;
    };
    let mut ways: Vec<Scan> = Vec::new();
    if matches!(scan.access, Access::All { backward: false }) {
        ways = access::by_each(scan);
    }
    let others = ways.iter().filter_map(|way| in_order(way, keys));
    // A table may get more rows than it has now.
    let others = others.map(|way| (SMALL, way));
    let by_plain = by_plain.map(|way| (0.0, way));
    let mut best: Option<(f64, (Scan, Presorted))> = None;
    for (least_rows, (way, presorted)) in by_plain.into_iter().chain(others) {
        let touched = touched_by(&way);
        let wanted = wanted + ties(&way, keys, &presorted);
        let for_one = (touched / estimate(&way.clone().into())).max(1.0);
        let cost = (wanted * for_one).min(touched.max(least_rows)) * cost_of_row(&way);
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, (way, presorted)));
        }
    }
    let (cost, way) = best?;
    let sorted = estimate(&plain.clone().into());
    let all = touched_by(&plain) * cost_of_row(&plain) + sorted;
    let all = match &plain.access {
        Access::All { .. } => all.max(SMALL),
        _ => all,
    };
    (cost < all).then_some(way)
}

/// About the number of rows that are the same by the keys of an order that an index has, where it
/// does not have all: they are sorted.
fn ties(scan: &Scan, keys: &[SortKey], presorted: &Presorted) -> f64 {
    let is_whole = !presorted.contains(&Some(0));
    let given = keys
        .iter()
        .zip(presorted)
        .take_while(|(_, kept)| kept.is_none());
    let given: Vec<Expr> = given.map(|(key, _)| key.expression.clone()).collect();
    match is_whole {
        true => 0.0,
        false => group_rows(&Node::Scan(Arc::new(scan.clone())), &given),
    }
}

/// The cost of a row that a scan looks at, in rows that are read one after the other.
fn cost_of_row(scan: &Scan) -> f64 {
    match &scan.access {
        Access::All { .. } => 1.0,
        Access::Range(range) if range.index.is_none() => 1.0,
        _ => LOOK_UP,
    }
}

/// The scan so that it has the order, if its access can.
fn in_order(scan: &Scan, keys: &[SortKey]) -> Option<(Scan, Presorted)> {
    let source = &scan.source;
    let conditions = scan.condition.clone();
    let conditions = conditions.map_or_else(Vec::new, Expr::conjuncts);
    let (access, presorted) = match &scan.access {
        Access::All { .. } => {
            let whole = whole_range(None);
            let (access, presorted) = ordered_range(source, &whole, keys, &conditions)?;
            let backward = is_backward(&access);
            (Access::All { backward }, presorted)
        }
        Access::Range(range) => ordered_range(source, range, keys, &conditions)?,
        _ => return None,
    };
    let scan = Scan {
        access,
        ..scan.clone()
    };
    Some((scan, presorted))
}

fn is_backward(access: &Access) -> bool {
    matches!(access, Access::Range(range) if range.backward)
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
    let index = range.index.as_deref();
    let has_null = usize::from(range.nulls == Nulls::Only);
    let columns = columns_of(source, index);
    // All rows of the range have the same values there.
    let fixed = columns.get(..range.prefix.len() + has_null)?;
    let is_fixed = |key: &SortKey| {
        let seen = seen_by(source, index, &key.expression);
        matches!(&*seen, Expr::Column(own, _) if fixed.contains(own))
    };
    let others = keys.iter().filter(|key| !is_fixed(key)).cloned();
    let others: Vec<SortKey> = others.collect();
    let backward = others.first().is_some_and(|key| key.descends);
    let (nulls, found) = order_by(source, (index, fixed.len()), &others, conditions)?;
    let mut found = found.into_iter();
    let presorted = keys.iter().map(|key| match is_fixed(key) {
        true => None,
        false => found.next().flatten(),
    });
    let presorted = presorted.collect();
    let range = KeyRange {
        backward,
        nulls: match range.nulls {
            Nulls::Skipped | Nulls::Only => range.nulls,
            _ => nulls,
        },
        ..range.clone()
    };
    Some((Access::Range(range), presorted))
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
    let is_part = computed(source, index).is_some_and(|one| !one.part.is_empty());
    let mut nulls = if is_part {
        Nulls::Skipped
    } else {
        Nulls::AsKeys
    };
    let backward = keys.first().is_some_and(|key| key.descends);
    let mut presorted = Vec::with_capacity(keys.len());
    for (at, (key, &column)) in keys.iter().zip(columns).enumerate() {
        // The rows are in the order of the keys before.
        let is_end = at > 0 && presorted.iter().all(Option::is_none);
        let seen = seen_by(source, index, &key.expression);
        let is_key = matches!(&*seen, Expr::Column(own, _) if *own == column);
        let data_type = source.column_type(column);
        let is_kept = is_key
            && key.descends == backward
            && is_ordered(data_type)
            && data_type.kind != Kind::Bpchar;
        if !is_kept && is_end {
            break;
        }
        if !is_kept {
            return None;
        }
        let are_nulls_placed = is_never_null(source, (index, column), conditions)
            || (key.nulls_first != key.descends && !is_part);
        if !are_nulls_placed {
            if is_end {
                break;
            }
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
    let is_partial = presorted.len() < keys.len();
    if is_partial && (presorted.is_empty() || presorted.iter().any(Option::is_some)) {
        return None;
    }
    presorted.resize(keys.len(), Some(0));
    Some((nulls, presorted))
}
