//! Improving a plan: conditions go to where their columns come from, scans use indexes, joins use
//! hashes or indexes, tests of queries become joins, and unread columns are not read.

use super::access;
use super::expression::{Expr, Subquery, SubqueryTest};
use super::node::{
    Access, Aggregate, Filter, Join, JoinKind, JoinMethod, Node, Project, Scan, SetOperation,
};
use crate::types::Datum;
use std::sync::Arc;

/// Improves the plan of a statement.
pub(crate) fn improve(node: Node) -> Node {
    let mut node = push(node, Vec::new());
    let width = node.width();
    prune(&mut node, &vec![true; width]);
    improve_inside(&mut node);
    node
}

/// Improves the queries inside expressions.
fn improve_inside(node: &mut Node) {
    let walked = node.walk(0, &mut |part, _| {
        if let Expr::Subquery(subquery) = part {
            let subquery = Arc::make_mut(subquery);
            let inner = std::mem::replace(&mut subquery.node, nothing());
            subquery.node = improve(inner);
            return Ok(false);
        }
        Ok(true)
    });
    debug_assert!(walked.is_ok(), "the visitor does not fail");
}

fn nothing() -> Node {
    super::node::Values {
        rows: Vec::new(),
        width: 0,
    }
    .into()
}

/// The content of a node's shared part.
fn own<T: Clone>(part: Arc<T>) -> T {
    Arc::unwrap_or_clone(part)
}

/// The node with conditions over its rows, as far down as they go.
fn push(node: Node, mut conditions: Vec<Expr>) -> Node {
    match node {
        Node::Filter(filter) => {
            let filter = own(filter);
            let (stay, go) = split(filter.condition.conjuncts());
            conditions.extend(go);
            keep(push(filter.input, conditions), stay)
        }
        Node::Scan(scan) => {
            let mut scan = own(scan);
            let (queries, plain): (Vec<Expr>, Vec<Expr>) =
                conditions.into_iter().partition(has_query);
            access::choose(&mut scan, plain);
            tested(scan.into(), queries)
        }
        Node::Join(join) => push_join(own(join), conditions),
        Node::Project(project) => push_project(own(project), conditions),
        Node::Aggregate(aggregate) => push_aggregate(own(aggregate), conditions),
        Node::Sort(sort) => {
            let mut sort = own(sort);
            sort.input = push(sort.input, conditions);
            sort.into()
        }
        Node::Distinct(distinct) if distinct.on.is_none() => {
            let mut distinct = own(distinct);
            distinct.input = push(distinct.input, conditions);
            distinct.into()
        }
        Node::SetOperation(operation) => {
            let SetOperation {
                kind,
                all,
                left,
                right,
            } = own(operation);
            let left = push(left, conditions.clone());
            let right = push(right, conditions);
            SetOperation {
                kind,
                all,
                left,
                right,
            }
            .into()
        }
        mut other => {
            let pushed = other.inputs(&mut |input, _| {
                let inner = std::mem::replace(input, nothing());
                *input = push(inner, Vec::new());
                Ok(())
            });
            debug_assert!(pushed.is_ok(), "the visitor does not fail");
            tested(other, conditions)
        }
    }
}

/// Conditions that must stay where they are, because each test may differ, and the others.
fn split(conditions: Vec<Expr>) -> (Vec<Expr>, Vec<Expr>) {
    conditions.into_iter().partition(access::has_volatile)
}

fn has_query(condition: &Expr) -> bool {
    condition.any(|part, depth| depth == 0 && matches!(part, Expr::Subquery(_)))
}

/// The node with conditions that are tested on its rows.
fn keep(input: Node, conditions: Vec<Expr>) -> Node {
    if conditions.is_empty() {
        return input;
    }
    Filter {
        input,
        condition: Expr::all(conditions),
    }
    .into()
}

/// As [`keep`], and tests of queries become joins where they can.
fn tested(mut node: Node, conditions: Vec<Expr>) -> Node {
    let mut rest = Vec::new();
    for condition in conditions {
        match unnest(node, condition) {
            (joined, None) => node = joined,
            (same, Some(condition)) => {
                node = same;
                rest.push(condition);
            }
        }
    }
    keep(node, rest)
}

/// A semi- or anti-join in the place of `EXISTS`, `IN` or their opposites; or the condition back.
fn unnest(node: Node, condition: Expr) -> (Node, Option<Expr>) {
    let (kind, subquery) = match &condition {
        Expr::Subquery(subquery) => (JoinKind::Semi, Arc::clone(subquery)),
        Expr::Not(inner) => match &**inner {
            Expr::Subquery(subquery) => (JoinKind::Anti, Arc::clone(subquery)),
            _ => return (node, Some(condition)),
        },
        _ => return (node, Some(condition)),
    };
    let width = node.width();
    let joined = match (&subquery.test, kind) {
        (SubqueryTest::Exists, _) => exists(&subquery, width),
        // NOT IN is unknown where a value is NULL, which no anti-join says.
        (SubqueryTest::Any(_), JoinKind::Semi) => any(&subquery, width),
        _ => None,
    };
    let Some((right, join_condition)) = joined else {
        return (node, Some(condition));
    };
    let right = push(right, Vec::new());
    let join = Join {
        kind,
        left: node,
        right,
        condition: Some(join_condition),
        method: JoinMethod::Loop,
    };
    (with_method(join), None)
}

/// The rows of `EXISTS` without the conditions that read the row, and those conditions over both.
fn exists(subquery: &Subquery, width: usize) -> Option<(Node, Expr)> {
    let mut node = subquery.node.clone();
    loop {
        node = match node {
            // What is selected does not matter, as long as there is a row for each one.
            Node::Project(project) if !project.has_sets => own(project).input,
            Node::Sort(sort) => own(sort).input,
            other => {
                node = other;
                break;
            }
        };
    }
    let Node::Filter(filter) = node else {
        return None;
    };
    let Filter { input, condition } = own(filter);
    let (up, stay): (Vec<Expr>, Vec<Expr>) = condition
        .conjuncts()
        .into_iter()
        .partition(|one| reads_level(one, 1));
    if up.is_empty() || up.iter().any(has_query) {
        return None;
    }
    let mut inner = keep(input, stay);
    let mut is_free = true;
    let walked = inner.walk(1, &mut |part, depth| {
        match part {
            Expr::Outer(level, ..) if *level == depth => is_free = false,
            Expr::Outer(level, ..) if *level > depth => *level -= 1,
            _ => {}
        }
        Ok(is_free)
    });
    if walked.is_err() || !is_free {
        return None;
    }
    let up = up.into_iter().map(|condition| lifted(condition, width));
    Some((inner, Expr::all(up.collect())))
}

/// Whether an expression reads the outer row of a level.
fn reads_level(expression: &Expr, wanted: usize) -> bool {
    expression.any(|part, depth| matches!(part, Expr::Outer(level, ..) if *level == depth + wanted))
}

/// A condition of an inner query over the row around it, followed by its own.
fn lifted(mut condition: Expr, width: usize) -> Expr {
    let walked = condition.walk(0, &mut |part, _| {
        match part {
            Expr::Column(at, _) => *at += width,
            Expr::Outer(1, at, data_type) => {
                *part = Expr::Column(*at, *data_type);
                return Ok(false);
            }
            Expr::Outer(level, ..) => *level -= 1,
            _ => {}
        }
        Ok(true)
    });
    debug_assert!(walked.is_ok(), "the visitor does not fail");
    condition
}

/// The rows of `IN`, and its comparison over both rows.
fn any(subquery: &Subquery, width: usize) -> Option<(Node, Expr)> {
    let SubqueryTest::Any(test) = &subquery.test else {
        return None;
    };
    if subquery.is_correlated && reads_row(&subquery.node) {
        return None;
    }
    if test.left.iter().any(has_query) {
        return None;
    }
    let mut node = subquery.node.clone();
    let walked = node.walk(1, &mut |part, depth| {
        if let Expr::Outer(level, ..) = part
            && *level > depth
        {
            *level -= 1;
        }
        Ok(true)
    });
    debug_assert!(walked.is_ok(), "the visitor does not fail");
    let count = test.left.len();
    let mut condition = (*test.condition).clone();
    let walked = condition.walk(0, &mut |part, _| {
        if let Expr::Column(at, _) = part {
            if *at < count {
                *part = test.left[*at].clone();
            } else {
                *at += width - count;
            }
            return Ok(false);
        }
        Ok(true)
    });
    debug_assert!(walked.is_ok(), "the visitor does not fail");
    Some((node, condition))
}

/// Whether a query reads the row around it.
fn reads_row(node: &Node) -> bool {
    let mut reads = false;
    let walked = node.clone().walk(1, &mut |part, depth| {
        reads |= matches!(part, Expr::Outer(level, ..) if *level == depth);
        Ok(!reads)
    });
    debug_assert!(walked.is_ok(), "the visitor does not fail");
    reads
}

/// Conditions of a join go to its sides where they may.
fn push_join(join: Join, conditions: Vec<Expr>) -> Node {
    let Join {
        mut kind,
        left,
        right,
        condition,
        method,
    } = join;
    let width = left.width();
    if kind == JoinKind::Left && conditions.iter().any(|one| refuses_nulls(one, width)) {
        kind = JoinKind::Inner;
    }
    let (to_left, to_right) = match kind {
        JoinKind::Inner => (true, true),
        JoinKind::Left | JoinKind::Semi | JoinKind::Anti => (true, false),
        JoinKind::Right => (false, true),
        JoinKind::Full => (false, false),
    };
    let (mut for_left, mut for_right, mut both, mut above) = (vec![], vec![], vec![], vec![]);
    let mut on = condition.map(Expr::conjuncts).unwrap_or_default();
    if kind == JoinKind::Inner {
        on.extend(conditions);
    } else {
        for condition in conditions {
            match side(&condition, width) {
                Side::Left if to_left => for_left.push(condition),
                Side::Right if to_right => for_right.push(shifted(condition, width)),
                _ => above.push(condition),
            }
        }
    }
    for condition in on {
        let side = if access::has_volatile(&condition) {
            Side::Both
        } else {
            side(&condition, width)
        };
        match (side, kind) {
            (Side::Left, JoinKind::Inner | JoinKind::Right | JoinKind::Semi) => {
                for_left.push(condition)
            }
            (Side::Right, JoinKind::Inner | JoinKind::Left | JoinKind::Semi | JoinKind::Anti) => {
                for_right.push(shifted(condition, width));
            }
            (_, JoinKind::Inner) if has_query(&condition) => above.push(condition),
            _ => both.push(condition),
        }
    }
    let join = Join {
        kind,
        left: push(left, for_left),
        right: push(right, for_right),
        condition: (!both.is_empty()).then(|| Expr::all(both)),
        method,
    };
    tested(with_method(join), above)
}

/// The inputs whose columns a condition reads.
enum Side {
    Left,
    Right,
    Both,
}

fn side(condition: &Expr, width: usize) -> Side {
    let (mut left, mut right) = (false, false);
    condition.columns(&mut |at| {
        left |= at < width;
        right |= at >= width;
    });
    match (left, right) {
        (true, false) => Side::Left,
        (false, true) => Side::Right,
        // One without columns may fail for a row that the other side does not have.
        _ => Side::Both,
    }
}

/// Whether a condition is not true if all columns of the right side are NULL.
fn refuses_nulls(condition: &Expr, width: usize) -> bool {
    match condition {
        Expr::Call(call) => {
            call.function.is_strict
                && call.arguments.iter().any(|argument| {
                    matches!(argument, Expr::Column(at, _) if *at >= width)
                        || matches!(argument, Expr::Cast(inner, ..) if matches!(**inner, Expr::Column(at, _) if at >= width))
                })
        }
        Expr::IsNull(operand, true) => matches!(**operand, Expr::Column(at, _) if at >= width),
        _ => false,
    }
}

fn shifted(mut condition: Expr, width: usize) -> Expr {
    condition.shift(width, -(width as isize));
    condition
}

/// The join with the method that suits its conditions.
fn with_method(mut join: Join) -> Node {
    if !matches!(join.method, JoinMethod::Loop) {
        return join.into();
    }
    let width = join.left.width();
    let conditions = join
        .condition
        .take()
        .map(Expr::conjuncts)
        .unwrap_or_default();
    let (mut left, mut right, mut rest, mut equalities) = (vec![], vec![], vec![], vec![]);
    for condition in conditions {
        match equality(&condition, width) {
            Some((one, other)) => {
                left.push(one);
                right.push(other);
                equalities.push(condition);
            }
            None => rest.push(condition),
        }
    }
    if let Some(looked_up) = by_index(&join, &equalities) {
        let Join {
            kind,
            left,
            condition: _,
            ..
        } = join;
        return Join {
            kind,
            left,
            right: looked_up,
            condition: (!rest.is_empty()).then(|| Expr::all(rest)),
            method: JoinMethod::Lateral,
        }
        .into();
    }
    if !left.is_empty() {
        join.method = JoinMethod::Hash { left, right };
    }
    join.condition = (!rest.is_empty()).then(|| Expr::all(rest));
    join.into()
}

/// Both sides of an equality between the inputs, each over its own row.
fn equality(condition: &Expr, width: usize) -> Option<(Expr, Expr)> {
    let Expr::Call(call) = condition else {
        return None;
    };
    let [one, other] = call.arguments.as_slice() else {
        return None;
    };
    // Values of one kind have one hash.
    if !call.is_equality() || has_query(condition) || !has_one_hash(one, other) {
        return None;
    }
    match (side(one, width), side(other, width)) {
        (Side::Left, Side::Right) => Some((one.clone(), shifted(other.clone(), width))),
        (Side::Right, Side::Left) => Some((other.clone(), shifted(one.clone(), width))),
        _ => None,
    }
}

fn has_one_hash(one: &Expr, other: &Expr) -> bool {
    use crate::types::Kind::{Float4, Float8, Int2, Int4, Int8};
    let group = |kind| match kind {
        Int2 | Int4 | Int8 => Int8,
        Float4 | Float8 => Float8,
        kind => kind,
    };
    group(one.kind()) == group(other.kind())
}

/// The right side as a look-up in an index for each left row, if that is likely cheaper than
/// reading all of it.
fn by_index(join: &Join, equalities: &[Expr]) -> Option<Node> {
    let Node::Scan(scan) = &join.right else {
        return None;
    };
    let is_fit = matches!(
        join.kind,
        JoinKind::Inner | JoinKind::Left | JoinKind::Semi | JoinKind::Anti
    );
    if !is_fit || !matches!(scan.access, Access::All { .. }) || equalities.is_empty() {
        return None;
    }
    let width = join.left.width();
    let outer = equalities
        .iter()
        .map(|condition| looked_up(condition.clone(), width));
    let mut looked = Scan::clone(scan);
    // Conditions of the scan itself stay as they are; its columns are its own.
    access::choose(&mut looked, outer.collect());
    let finds_few = match &looked.access {
        Access::Range(range) => !range.prefix.is_empty(),
        _ => return None,
    };
    let (rows, all) = (estimate(&join.left), estimate(&join.right));
    let per_row = if access::is_unique(&looked) {
        1.0
    } else {
        (all / 100.0).max(1.0)
    };
    // A look-up costs about as much as reading ten rows in order.
    (finds_few && rows * (10.0 + per_row) < all).then(|| looked.into())
}

/// A condition over both rows as one of the right row, with the left one as the next outer row.
fn looked_up(mut condition: Expr, width: usize) -> Expr {
    let walked = condition.walk(0, &mut |part, depth| {
        match part {
            Expr::Column(at, data_type) if depth == 0 => {
                if *at < width {
                    *part = Expr::Outer(1, *at, *data_type);
                } else {
                    *at -= width;
                }
                return Ok(false);
            }
            Expr::Outer(level, ..) if *level > depth => *level += 1,
            _ => {}
        }
        Ok(true)
    });
    debug_assert!(walked.is_ok(), "the visitor does not fail");
    condition
}

/// About the number of a node's rows.
fn estimate(node: &Node) -> f64 {
    match node {
        Node::Scan(scan) => {
            let rows = scan
                .source
                .table
                .row_count()
                .map_or(1000.0, |count| count.rows as f64);
            let found = match &scan.access {
                Access::All { .. } => rows,
                Access::Range(_) if access::is_unique(scan) => 1.0,
                Access::Range(range) if range.prefix.is_empty() => rows / 4.0,
                Access::Range(_) => (rows / 100.0).max(1.0),
                Access::Keys { keys, .. } => keys.len() as f64,
                Access::Elements { .. } => 10.0,
            };
            if scan.condition.is_some() {
                (found / 4.0).max(1.0)
            } else {
                found
            }
        }
        Node::Values(values) => values.rows.len() as f64,
        Node::Filter(filter) => (estimate(&filter.input) / 4.0).max(1.0),
        Node::Project(project) => estimate(&project.input),
        Node::Sort(sort) => estimate(&sort.input),
        Node::Distinct(distinct) => estimate(&distinct.input),
        Node::Window(window) => estimate(&window.input),
        Node::Lock(lock) => estimate(&lock.input),
        Node::Aggregate(aggregate) if aggregate.keys.is_empty() => 1.0,
        Node::Aggregate(aggregate) => (estimate(&aggregate.input) / 10.0).max(1.0),
        Node::Limit(limit) => match &limit.limit {
            Some(Expr::Constant(Datum::Int8(rows), _)) => *rows as f64,
            _ => estimate(&limit.input),
        },
        Node::Join(join) => estimate(&join.left).max(estimate(&join.right)),
        Node::SetOperation(operation) => estimate(&operation.left) + estimate(&operation.right),
        Node::Shared(shared) => estimate(&shared.node),
        Node::Functions(_) | Node::Recursive(_) | Node::Working(_) | Node::Modify(_) => 1000.0,
    }
}

/// Conditions over a projection become conditions over its input.
fn push_project(mut project: Project, conditions: Vec<Expr>) -> Node {
    let is_plain = |condition: &Expr| {
        let mut plain = !project.has_sets;
        condition.columns(&mut |at| {
            let expression = project.expressions.get(at);
            plain &= expression.is_some_and(|one| !access::has_volatile(one) && !has_query(one));
        });
        plain
    };
    let (down, stay): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(is_plain);
    let down = down
        .into_iter()
        .map(|condition| substituted(condition, &project.expressions));
    let down = down.collect();
    project.input = push(project.input, down);
    tested(project.into(), stay)
}

/// A condition with expressions in the place of its columns.
fn substituted(mut condition: Expr, expressions: &[Expr]) -> Expr {
    let walked = condition.walk(0, &mut |part, depth| {
        match part {
            Expr::Column(at, _) if depth == 0 => {
                *part = expressions[*at].clone();
                return Ok(false);
            }
            Expr::Outer(level, at, _) if *level == depth && depth > 0 => {
                let mut outer = expressions[*at].clone();
                for _ in 0..depth {
                    outer = outer.into_outer();
                }
                *part = outer;
                return Ok(false);
            }
            _ => {}
        }
        Ok(true)
    });
    debug_assert!(walked.is_ok(), "the visitor does not fail");
    condition
}

/// Conditions over keys hold for all rows of a group, so they go below it.
fn push_aggregate(mut aggregate: Aggregate, conditions: Vec<Expr>) -> Node {
    let keys = aggregate.keys.len();
    // Without keys there is a group whether or not there are rows.
    let is_of_keys = |condition: &Expr| {
        keys > 0
            && condition.reads_row()
            && condition.columns_are_below(keys)
            && !has_query(condition)
    };
    let (down, stay): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(is_of_keys);
    let down = down
        .into_iter()
        .map(|condition| substituted(condition, &aggregate.keys));
    let down = down.collect();
    aggregate.input = push(aggregate.input, down);
    tested(aggregate.into(), stay)
}

/// Tells scans which columns are read.
fn prune(node: &mut Node, needed: &[bool]) {
    let all = |node: &Node| vec![true; node.width()];
    let mark = |needed: &mut Vec<bool>, expression: &Expr| {
        expression.columns(&mut |at| {
            if let Some(needed) = needed.get_mut(at) {
                *needed = true;
            }
        });
    };
    match node {
        Node::Scan(scan) => {
            let scan = Arc::make_mut(scan);
            let mut read = needed.to_vec();
            if let Some(condition) = &scan.condition {
                mark(&mut read, condition);
            }
            scan.needed = read;
        }
        Node::Filter(filter) => {
            let filter = Arc::make_mut(filter);
            let mut below = needed.to_vec();
            mark(&mut below, &filter.condition);
            prune(&mut filter.input, &below);
        }
        Node::Project(project) => {
            let project = Arc::make_mut(project);
            let mut below = vec![false; project.input.width()];
            project
                .expressions
                .iter()
                .for_each(|one| mark(&mut below, one));
            prune(&mut project.input, &below);
        }
        Node::Aggregate(aggregate) => {
            let aggregate = Arc::make_mut(aggregate);
            let mut below = vec![false; aggregate.input.width()];
            aggregate.keys.iter().for_each(|one| mark(&mut below, one));
            for call in &aggregate.calls {
                let order = call.order.iter().map(|key| &key.expression);
                let parts = call.arguments.iter().chain(&call.filter).chain(order);
                parts.for_each(|one| mark(&mut below, one));
            }
            prune(&mut aggregate.input, &below);
        }
        Node::Sort(sort) => {
            let sort = Arc::make_mut(sort);
            let mut below = needed.to_vec();
            sort.keys
                .iter()
                .for_each(|key| mark(&mut below, &key.expression));
            prune(&mut sort.input, &below);
        }
        Node::Limit(limit) if limit.ties.is_none() => {
            prune(&mut Arc::make_mut(limit).input, needed);
        }
        Node::Join(join) => prune_join(Arc::make_mut(join), needed),
        other => {
            let pruned = other.inputs(&mut |input, _| {
                let every = all(input);
                prune(input, &every);
                Ok(())
            });
            debug_assert!(pruned.is_ok(), "the visitor does not fail");
        }
    }
}

fn prune_join(join: &mut Join, needed: &[bool]) {
    let (left, right) = (join.left.width(), join.right.width());
    let mut below = needed.to_vec();
    below.resize(left + right, false);
    let mut note = |at: usize| {
        if let Some(needed) = below.get_mut(at) {
            *needed = true;
        }
    };
    if let Some(condition) = &join.condition {
        condition.columns(&mut note);
    }
    match &join.method {
        JoinMethod::Hash {
            left: keys,
            right: others,
        } => {
            keys.iter().for_each(|key| key.columns(&mut note));
            others
                .iter()
                .for_each(|key| key.columns(&mut |at| note(left + at)));
        }
        JoinMethod::Lateral => {
            // The right side reads the left row as an outer one.
            let walked = join.right.walk(1, &mut |part, depth| {
                if let Expr::Outer(level, at, _) = part
                    && *level == depth
                {
                    note(*at);
                }
                Ok(true)
            });
            debug_assert!(walked.is_ok(), "the visitor does not fail");
        }
        JoinMethod::Loop => {}
    }
    let (for_left, for_right) = below.split_at(left);
    prune(&mut join.left, for_left);
    prune(&mut join.right, for_right);
}
