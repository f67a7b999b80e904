//! Improving a plan: conditions go to where their columns come from, scans use indexes, joins use
//! hashes or indexes, tests of queries become joins, and unread columns are not read.
//! Each rewrite keeps the columns of a node as they are, or renumbers what reads them.

use super::access;
use super::decorrelate::{decorrelate, with_groups};
use super::equal::{closed, following};
use super::estimate::estimate;
use super::exclude::leaves_out;
use super::expression::Expr;
use super::factor::implied;
use super::fold::{fold, is_number};
use super::join_order::{is_movable, reorder};
use super::method::with_method;
use super::modify::Change;
use super::narrow::narrow;
use super::node::{
    Aggregate, Distinct, Filter, Join, JoinKind, JoinMethod, Lock, Node, Project, Scan, SetKind,
    SetOperation, Shared, Values, Window,
};
use super::order::use_orders;
use super::outer::reduce;
use super::postpone::postponed;
use super::prune::prune;
use super::side::{Side, deeper, shifted, side};
use super::stop::stop_of;
use super::unnest::unnest;
use super::{Plan, PointPlan};
use crate::types::Kind;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Plan {
    /// Improves the nodes, which share queries of `WITH`, and finds the other form of the root.
    pub fn improve(&mut self) {
        let mut queries = Queries::default();
        for node in self.before.iter_mut().chain([&mut self.root]) {
            queries.count_uses(node);
        }
        for node in self.before.iter_mut().chain([&mut self.root]) {
            queries.improve(node);
        }
        self.keepers = 0;
        for node in self.before.iter_mut().chain([&mut self.root]) {
            self.keepers += keepers(node);
        }
        for query in queries.improved.values() {
            self.keepers += keepers(&mut query.node.clone());
        }
        if self.before.is_empty() {
            self.point = PointPlan::of(&self.root);
        }
    }
}

/// The number of a node's operators that may keep rows.
fn keepers(node: &mut Node) -> usize {
    let mut count = match node {
        Node::Sort(_)
        | Node::Distinct(_)
        | Node::SetOperation(_)
        | Node::Shared(_)
        | Node::Modify(_) => 1,
        Node::Window(_) => 2,
        Node::Join(join) => usize::from(!matches!(join.method, JoinMethod::Lateral)),
        Node::Aggregate(aggregate) => {
            let calls = aggregate.calls.iter();
            1 + calls.filter(|call| call.keeps_rows()).count()
        }
        _ => 0,
    };
    each_inside(node, &mut |inner| count += keepers(inner));
    count
}

/// Queries of `WITH`: each is looked at once, however many uses it has. The uses of one may be in
/// another that has many itself.
#[derive(Default)]
struct Queries {
    uses: BTreeMap<usize, usize>,
    improved: BTreeMap<usize, Arc<Shared>>,
}

impl Queries {
    fn count_uses(&mut self, node: &mut Node) {
        if let Node::Shared(shared) = node {
            let uses = self.uses.entry(shared.number).or_default();
            *uses += 1;
            if *uses == 1 {
                self.count_uses(&mut shared.node.clone());
            }
        }
        each_inside(node, &mut |inner| self.count_uses(inner));
    }

    fn improve(&mut self, node: &mut Node) {
        self.put(node);
        fold(node);
        let whole = std::mem::replace(node, Node::nothing());
        *node = improve_rest(whole);
    }

    /// Puts queries that are used once where they are used, except those that would give something
    /// else if they ran again, or for other rows; and their improved plans in the place of others.
    fn put(&mut self, node: &mut Node) {
        while let Node::Shared(shared) = node
            && self.uses.get(&shared.number) == Some(&1)
            && !shared.is_kept
            && !matches!(shared.node, Node::Modify(_))
        {
            *node = shared.node.clone();
        }
        if let Node::Shared(shared) = node {
            *shared = self.improved(shared);
        }
        each_inside(node, &mut |inner| self.put(inner));
    }

    fn improved(&mut self, shared: &Shared) -> Arc<Shared> {
        if let Some(improved) = self.improved.get(&shared.number) {
            return Arc::clone(improved);
        }
        let mut improved = shared.clone();
        self.improve(&mut improved.node);
        improved.rows = Some(estimate(&improved.node));
        let improved = Arc::new(improved);
        self.improved.insert(shared.number, Arc::clone(&improved));
        improved
    }
}

/// Visits the inputs of a node, and the queries in its expressions.
fn each_inside(node: &mut Node, visit: &mut dyn FnMut(&mut Node)) {
    let visited = node.walk_own(0, &mut |part, depth| {
        // Parts of an inner query are visited by the one who visits that.
        if depth > 0 {
            return Ok(false);
        }
        if let Expr::Subquery(subquery) = part {
            visit(&mut Arc::make_mut(subquery).node);
        }
        Ok(true)
    });
    let inputs = node.inputs(&mut |input, _| {
        visit(input);
        Ok(())
    });
    debug_assert!(
        visited.is_ok() && inputs.is_ok(),
        "the visitors do not fail"
    );
}

fn improve_rest(node: Node) -> Node {
    let mut node = push(postponed(node), Vec::new());
    use_orders(&mut node);
    access::choose_all(&mut node);
    let width = node.width();
    prune(&mut node, &vec![true; width]);
    improve_inside(&mut node);
    narrow(&mut node);
    node
}

/// Improves the queries inside expressions.
fn improve_inside(node: &mut Node) {
    let walked = node.walk(0, &mut |part, _| {
        if let Expr::Subquery(subquery) = part {
            let subquery = Arc::make_mut(subquery);
            let inner = std::mem::replace(&mut subquery.node, Node::nothing());
            subquery.node = improve_rest(inner);
            return Ok(false);
        }
        Ok(true)
    });
    debug_assert!(walked.is_ok(), "the visitor does not fail");
}

/// The content of a node's shared part.
fn own<T: Clone>(part: Arc<T>) -> T {
    Arc::unwrap_or_clone(part)
}

/// The node with conditions over its rows, as far down as they go.
pub(super) fn push(node: Node, mut conditions: Vec<Expr>) -> Node {
    match node {
        Node::Filter(filter) => {
            let filter = own(filter);
            let (stay, mut go) = split(filter.condition.conjuncts());
            // Those above may fail for rows that these leave out.
            go.append(&mut conditions);
            keep(push(filter.input, go), stay)
        }
        Node::Scan(scan) => push_scan(own(scan), conditions),
        Node::System(system) => {
            let mut system = own(system);
            let (queries, plain): (Vec<Expr>, Vec<Expr>) =
                conditions.into_iter().partition(Expr::has_query);
            access::choose_key(&mut system, plain);
            tested(system.into(), queries)
        }
        Node::Join(join) => {
            let mut join = own(join);
            reduce(&mut join, &conditions);
            match is_movable(&join) {
                true => push_tree(join, conditions),
                false => push_join(join, conditions),
            }
        }
        Node::Project(project) => push_project(own(project), conditions),
        Node::Aggregate(aggregate) => push_aggregate(own(aggregate), conditions),
        Node::Sort(sort) => {
            let mut sort = own(sort);
            sort.input = push(sort.input, conditions);
            sort.into()
        }
        Node::Lock(lock) => push_lock(own(lock), conditions),
        Node::Distinct(distinct) => push_distinct(own(distinct), conditions),
        Node::Window(window) => push_window(own(window), conditions),
        Node::SetOperation(operation) => push_operation(own(operation), conditions),
        mut other => {
            let pushed = other.inputs(&mut |input, _| {
                let inner = std::mem::replace(input, Node::nothing());
                *input = push(inner, Vec::new());
                Ok(())
            });
            debug_assert!(pushed.is_ok(), "the visitor does not fail");
            tested(other, conditions)
        }
    }
}

/// A scan with conditions; nothing if they leave its partition out.
fn push_scan(mut scan: Scan, conditions: Vec<Expr>) -> Node {
    let (queries, plain): (Vec<Expr>, Vec<Expr>) =
        conditions.into_iter().partition(Expr::has_query);
    if leaves_out(&mut scan, &plain) {
        return Values {
            rows: Vec::new(),
            width: scan.source.width(),
        }
        .into();
    }
    let (keys, queries): (Vec<Expr>, Vec<Expr>) = queries
        .into_iter()
        .partition(|one| access::leads_by_query(&scan.source, one));
    // Its index is chosen when the joins are, which may look up its rows.
    let plain = scan.condition.take().into_iter().chain(plain).chain(keys);
    let plain: Vec<Expr> = plain.collect();
    scan.condition = (!plain.is_empty()).then(|| Expr::all(plain));
    tested(scan.into(), queries)
}

/// Rows that are locked, with conditions: others are not locked, and a row that has changed is
/// tested again.
fn push_lock(mut lock: Lock, conditions: Vec<Expr>) -> Node {
    let (queries, plain): (Vec<Expr>, Vec<Expr>) =
        conditions.into_iter().partition(Expr::has_query);
    if !plain.is_empty() {
        let tests = lock.recheck.take().into_iter().chain(plain.iter().cloned());
        lock.recheck = Some(Expr::all(tests.collect()));
    }
    lock.input = push(lock.input, plain);
    tested(lock.into(), queries)
}

/// A set operation whose inputs have conditions.
fn push_operation(operation: SetOperation, conditions: Vec<Expr>) -> Node {
    let left = push(operation.left, conditions.clone());
    let right = push(operation.right, conditions);
    if operation.kind == SetKind::Union && operation.all {
        // One side stays, as the statement may need its columns.
        if is_nothing(&right) {
            return left;
        }
        if is_nothing(&left) {
            return right;
        }
    }
    SetOperation {
        left,
        right,
        ..operation
    }
    .into()
}

/// Whether a node has no rows, and changes none.
fn is_nothing(node: &Node) -> bool {
    match node {
        Node::Values(values) => values.rows.is_empty(),
        Node::Filter(filter) => is_nothing(&filter.input),
        Node::Project(project) => is_nothing(&project.input),
        Node::Modify(modify) => match modify.change {
            Change::Update { .. } | Change::Delete { .. } => is_nothing(&modify.input),
            Change::Insert(_) | Change::Merge(_) => false,
        },
        _ => false,
    }
}

/// Conditions of a tree of inner joins, which may get another order.
fn push_tree(join: Join, conditions: Vec<Expr>) -> Node {
    // Queries are tested on the rows of the whole tree, in whichever order it is joined.
    let (queries, plain): (Vec<Expr>, Vec<Expr>) =
        conditions.into_iter().partition(Expr::has_query);
    let (mut join, mut all) = (join, Vec::new());
    take_conditions(&mut join, 0, &mut all);
    all.extend(plain);
    let (node, mut rest) = reorder(join, closed(all));
    rest.extend(queries);
    match node {
        Node::Join(join) => push_join(own(join), rest),
        other => push(other, rest),
    }
}

/// Takes the conditions of the joins of a tree that may be tested anywhere, over the whole row.
fn take_conditions(join: &mut Join, start: usize, taken: &mut Vec<Expr>) {
    let condition = join.condition.take().map(Expr::conjuncts);
    let is_bound = |one: &Expr| Expr::has_volatile(one) || Expr::has_query(one);
    let (stay, go): (Vec<Expr>, Vec<Expr>) = condition
        .unwrap_or_default()
        .into_iter()
        .partition(is_bound);
    join.condition = (!stay.is_empty()).then(|| Expr::all(stay));
    for mut condition in go {
        condition.shift(0, start as isize);
        taken.push(condition);
    }
    let width = join.left.width();
    for (side, start) in [(&mut join.left, start), (&mut join.right, start + width)] {
        if let Node::Join(inner) = side
            && is_movable(inner)
        {
            take_conditions(Arc::make_mut(inner), start, taken);
        }
    }
}

/// Conditions that must stay where they are, because each test may differ, and the others.
fn split(conditions: Vec<Expr>) -> (Vec<Expr>, Vec<Expr>) {
    conditions.into_iter().partition(Expr::has_volatile)
}

/// The node with conditions that are tested on its rows.
pub(super) fn keep(input: Node, conditions: Vec<Expr>) -> Node {
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
                let (joined, condition) = decorrelate(same, condition);
                node = joined;
                rest.extend(condition);
            }
        }
    }
    keep(node, rest)
}

/// Conditions of a join go to its sides where they may.
fn push_join(join: Join, conditions: Vec<Expr>) -> Node {
    let Join {
        kind,
        left,
        right,
        condition,
        method,
    } = join;
    let width = left.width();
    let inside = |condition| match method {
        JoinMethod::Lateral => deeper(shifted(condition, width)),
        _ => shifted(condition, width),
    };
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
                Side::Right if to_right => for_right.push(condition),
                _ => above.push(condition),
            }
        }
    }
    for condition in on {
        if kind == JoinKind::Inner && is_fixed(&condition) {
            for_left.push(condition.clone());
            for_right.push(condition);
            continue;
        }
        let side = if Expr::has_volatile(&condition) {
            Side::Both
        } else {
            side(&condition, width)
        };
        match (side, kind) {
            (Side::Left, JoinKind::Inner | JoinKind::Right | JoinKind::Semi) => {
                for_left.push(condition);
            }
            (Side::Right, JoinKind::Inner | JoinKind::Left | JoinKind::Semi | JoinKind::Anti) => {
                for_right.push(condition);
            }
            (_, JoinKind::Inner) if Expr::has_query(&condition) => above.push(condition),
            _ => both.push(condition),
        }
    }
    add_implied(kind, width, &both, (&mut for_left, &mut for_right));
    let for_right = for_right.into_iter().map(inside).collect();
    let join = Join {
        kind,
        left: push(left, for_left),
        right: push(right, for_right),
        condition: (!both.is_empty()).then(|| Expr::all(both)),
        method,
    };
    tested(with_method(join, push), above)
}

/// Whether a condition is the same for all rows, and cannot fail: `false`, `1 = 0`.
fn is_fixed(condition: &Expr) -> bool {
    let is_value = |one: &Expr| {
        let is_number = is_number(one.kind());
        matches!(one, Expr::Constant(..) | Expr::Parameter(..)) && is_number
    };
    match condition {
        Expr::Constant(..) => true,
        Expr::Call(call) => {
            let is_test = call.is_operator && call.data_type.kind == Kind::Bool;
            is_test && call.arguments.iter().all(is_value)
        }
        _ => false,
    }
}

/// Adds the conditions on one side of a join that follow from those on both: rows that cannot have
/// a partner need not be read.
fn add_implied(
    kind: JoinKind,
    width: usize,
    both: &[Expr],
    (for_left, for_right): (&mut Vec<Expr>, &mut Vec<Expr>),
) {
    let is_left = |one: &Expr| matches!(side(one, width), Side::Left);
    let is_right = |one: &Expr| matches!(side(one, width), Side::Right);
    match kind {
        JoinKind::Inner => {
            for condition in both {
                for_left.extend(implied(condition, is_left));
                for_right.extend(implied(condition, is_right));
            }
        }
        JoinKind::Left | JoinKind::Semi | JoinKind::Anti => {
            let new = following(both.iter().chain(&*for_left));
            for_right.extend(new.filter(is_right));
        }
        JoinKind::Right => {
            let new = following(both.iter().chain(&*for_right));
            for_left.extend(new.filter(is_left));
        }
        JoinKind::Full => {}
    }
}

/// Conditions over a projection become conditions over its input.
fn push_project(mut project: Project, conditions: Vec<Expr>) -> Node {
    let is_plain = |condition: &Expr| {
        let mut plain = !project.has_sets;
        condition.columns(&mut |at| {
            let expression = project.expressions.get(at);
            plain &=
                expression.is_some_and(|one| !Expr::has_volatile(one) && !Expr::has_query(one));
        });
        plain
    };
    let (down, stay): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(is_plain);
    let down = down
        .into_iter()
        .map(|condition| substituted(condition, &project.expressions));
    let down = down.collect();
    project.input = push(project.input, down);
    if !project.has_sets {
        // All rows get the values that conditions read.
        let mut is_read = vec![false; project.expressions.len()];
        for condition in &stay {
            condition.columns(&mut |at| is_read[at] = true);
        }
        let read = project.expressions.iter_mut().zip(is_read);
        for (expression, _) in read.filter(|(_, is_read)| *is_read) {
            project.input = with_groups(project.input, expression);
        }
    }
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
    // Without keys there is a group whether or not there are rows. A key that has another value
    // each time would have one in the condition and another one in the group.
    let is_of_keys = |condition: &Expr| {
        let mut is_plain = condition.reads_row() && !Expr::has_query(condition);
        condition.columns(&mut |at| {
            let key = aggregate.keys.get(at);
            is_plain &= key.is_some_and(|key| !Expr::has_volatile(key) && !Expr::has_query(key));
        });
        is_plain
    };
    let (down, stay): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(is_of_keys);
    let down = down
        .into_iter()
        .map(|condition| substituted(condition, &aggregate.keys));
    let down = down.collect();
    aggregate.input = push(aggregate.input, down);
    tested(aggregate.into(), stay)
}

/// Conditions over the keys of a `DISTINCT ON` leave out all rows of a key, or none, so they go
/// below it.
fn push_distinct(mut distinct: Distinct, conditions: Vec<Expr>) -> Node {
    let goes = |one: &Expr| distinct.on.as_deref().is_none_or(|on| is_over(one, on));
    let (down, stay): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(goes);
    distinct.input = push(distinct.input, down);
    tested(distinct.into(), stay)
}

/// Conditions over the keys of partitions leave out whole partitions, which changes no result of
/// the others.
fn push_window(mut window: Window, conditions: Vec<Expr>) -> Node {
    let goes = |one: &Expr| is_over(one, &window.partition);
    let (down, stay): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(goes);
    window.input = push(window.input, down);
    window.stop = stop_of(&window, &stay);
    tested(window.into(), stay)
}

/// Whether a condition reads the row in nothing but keys, which do not differ each time.
fn is_over(condition: &Expr, keys: &[Expr]) -> bool {
    if Expr::has_query(condition) || Expr::has_volatile(condition) {
        return false;
    }
    let mut is_over = true;
    let walked = condition.clone().walk(0, &mut |part, _| {
        if keys.iter().any(|key| key.is_same(part)) {
            return Ok(false);
        }
        is_over &= !matches!(part, Expr::Column(..));
        Ok(is_over)
    });
    debug_assert!(walked.is_ok(), "the visitor does not fail");
    is_over
}
