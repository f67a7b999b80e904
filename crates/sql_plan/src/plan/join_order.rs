//! The order of inner joins: by dynamic programming up to eight inputs, greedily beyond.
//!
//! A tree of inner joins becomes its inputs and one list of conditions. Every split of a set of
//! inputs is weighed by the rows that go through its joins, so the result may have any shape. The
//! order of the statement stays unless another one is much cheaper, because estimates are rough;
//! and pairs without a condition between them come last.
//!
//! The optional side of a left join in the tree is an input too. It is joined, by itself and with
//! the conditions of that join only, to any rows that have the inputs which these read:
//!
//! ```text
//! (x LEFT JOIN r ON a(x, r)) JOIN y ON c(x, y)  =  (x JOIN y ON c(x, y)) LEFT JOIN r ON a(x, r)
//! ```
//!
//! All other conditions leave out rows of the whole tree, so they are tested as soon as a row has
//! the columns that they read.

use super::access;
use super::computed::seen_by_all;
use super::estimate::{LOOK_UP, SHARE, different, estimate, touched, touched_by};
use super::expression::Expr;
use super::node::{Filter, Join, JoinKind, JoinMethod, Node, Project, Scan};
use super::selectivity::{rows_of, share_of_value};
use crate::types::Type;
use std::ops::Range;
use std::sync::Arc;

/// Inputs up to which all orders are weighed.
const EXACT_MAX: usize = 8;
/// Inputs of one tree; more of them keep their order.
const INPUTS_MAX: usize = 32;
/// The factor by which a pair costs more that no condition joins.
const UNRELATED: f64 = 10.0;
/// How much cheaper another order must be.
const GAIN: f64 = 2.0;

/// An input of the tree.
struct Input {
    node: Node,
    /// Its first column in the row of the whole tree, and their number.
    start: usize,
    width: usize,
    rows: f64,
    /// Rows that are looked at for them, where it is read as a whole.
    touched: f64,
    optional: Option<Optional>,
}

/// The optional side of a left join.
struct Optional {
    /// The conditions of the join, over the row of the whole tree.
    on: Vec<Expr>,
    /// The inputs on the other side of the join.
    others: Range<usize>,
}

impl Input {
    fn new(node: Node, start: usize, optional: Option<Optional>) -> Self {
        Self {
            start,
            width: node.width(),
            rows: estimate(&node).max(1.0),
            touched: touched(&node).max(1.0),
            node,
            optional,
        }
    }

    /// Takes in the conditions over it alone, which are true for a share of its rows. Returns the
    /// keys by which it can be looked up beside them.
    fn restrict(&mut self, mut own: Vec<Expr>, share: f64) -> Vec<Key> {
        let Node::Scan(scan) = &self.node else {
            self.rows = (self.rows * share).max(1.0);
            return Vec::new();
        };
        for one in &mut own {
            one.shift(0, -(self.start as isize));
        }
        let keys = keys_of(scan, &own);
        let mut alone = Scan::clone(scan);
        access::choose(&mut alone, own);
        self.touched = touched_by(&alone);
        self.rows = estimate(&alone.into()).max(1.0);
        keys
    }
}

/// A condition as far as it matters for the order.
struct Condition {
    /// The optional input whose join it is a condition of; none if it is one of the whole tree.
    of: Option<usize>,
    /// The inputs that it reads, a bit each.
    reads: u32,
    /// The share of pairs for which it is true.
    share: f64,
    is_equality: bool,
    /// The columns that it equates, each with its input.
    columns: Vec<(usize, usize)>,
}

/// A key by which rows of an input can be looked up.
struct Key {
    columns: Vec<KeyColumn>,
    is_unique: bool,
    /// Rows of the table.
    rows: f64,
}

/// A column of a key.
struct KeyColumn {
    at: usize,
    /// The share of the rows that have one value of it.
    share: f64,
    /// Whether a condition of the input itself gives its value.
    is_fixed: bool,
}

impl Key {
    /// About the number of rows that a look-up finds by other inputs' values of some columns; none
    /// if these are of no use.
    fn touched(&self, given: &[usize]) -> Option<f64> {
        let is_given = |column: &&KeyColumn| column.is_fixed || given.contains(&column.at);
        let prefix: Vec<&KeyColumn> = self.columns.iter().take_while(is_given).collect();
        if prefix.iter().all(|column| column.is_fixed) {
            return None;
        }
        if self.is_unique && prefix.len() == self.columns.len() {
            return Some(1.0);
        }
        let share: f64 = prefix.iter().map(|column| column.share).product();
        Some((self.rows * share).max(1.0))
    }
}

/// The best way to join a set of inputs.
#[derive(Clone)]
struct Best {
    /// A bit each.
    inputs: u32,
    cost: f64,
    rows: f64,
    order: Order,
}

/// A tree of inputs.
#[derive(Clone)]
enum Order {
    Input(usize),
    Join(Box<(Order, Order)>),
}

/// Puts the inputs of a tree of inner joins in another order, if that is much cheaper. Returns the
/// tree and the conditions over its rows that are not in it.
pub(super) fn reorder(join: Join, conditions: Vec<Expr>) -> (Node, Vec<Expr>) {
    let tree: Node = join.into();
    let (mut inputs, mut on) = (Vec::new(), conditions.clone());
    flatten(tree.clone(), 0, &mut inputs, &mut on);
    let is_fit = inputs.len() <= INPUTS_MAX
        && !on
            .iter()
            .any(|one| Expr::has_volatile(one) || Expr::has_query(one));
    let types = inputs.iter().map(|input| types_of(&input.node));
    let types: Option<Vec<Vec<Type>>> = types.collect();
    let (true, Some(types)) = (is_fit, types) else {
        return (tree, conditions);
    };
    let weights = Weights::new(&mut inputs, &on);
    let given = weights.given(&tree, &mut 0);
    let best = match inputs.len() {
        0..=EXACT_MAX => weights.exact(),
        _ => weights.greedy(),
    };
    let Some(best) = best.filter(|best| best.cost * GAIN < given.cost) else {
        return (tree, conditions);
    };
    let types: Vec<Type> = types.into_iter().flatten().collect();
    let mut places = vec![0; types.len()];
    let mut node = build(&best.order, &mut inputs, &mut 0, &mut places);
    for condition in &mut on {
        condition.renumber(&mut |at| places[at]);
    }
    if !on.is_empty() {
        let (input, condition) = (node, Expr::all(on));
        node = Filter { input, condition }.into();
    }
    let columns = places.into_iter().zip(types);
    let project = Project {
        input: node,
        expressions: columns.map(|(at, kind)| Expr::Column(at, kind)).collect(),
        has_sets: false,
    };
    (project.into(), Vec::new())
}

/// Adds the inputs of a tree of joins, and the conditions of its inner joins.
fn flatten(node: Node, start: usize, inputs: &mut Vec<Input>, on: &mut Vec<Expr>) {
    let join = match node {
        Node::Join(join) if is_movable(&join) || is_optional(&join) => join,
        node => {
            inputs.push(Input::new(node, start, None));
            return;
        }
    };
    let is_optional = is_optional(&join);
    let join = Arc::unwrap_or_clone(join);
    let conditions = join.condition.map_or_else(Vec::new, Expr::conjuncts);
    let conditions = conditions.into_iter().map(|mut condition| {
        condition.shift(0, start as isize);
        condition
    });
    let (middle, first) = (start + join.left.width(), inputs.len());
    flatten(join.left, start, inputs, on);
    if is_optional {
        let optional = Optional {
            on: conditions.collect(),
            others: first..inputs.len(),
        };
        inputs.push(Input::new(join.right, middle, Some(optional)));
    } else {
        on.extend(conditions);
        flatten(join.right, middle, inputs, on);
    }
}

pub(super) fn is_movable(join: &Join) -> bool {
    join.kind == JoinKind::Inner && matches!(join.method, JoinMethod::Loop)
}

/// Whether the right side of a left join may be joined later or earlier.
fn is_optional(join: &Join) -> bool {
    let is_bound = |one: &Expr| Expr::has_volatile(one) || Expr::has_query(one);
    join.kind == JoinKind::Left
        && matches!(join.method, JoinMethod::Loop)
        && !join.condition.as_ref().is_some_and(is_bound)
}

/// The types of a node's columns, where they can be told.
pub(super) fn types_of(node: &Node) -> Option<Vec<Type>> {
    match node {
        Node::Scan(scan) => {
            let columns = 0..scan.source.width();
            Some(columns.map(|at| scan.source.column_type(at)).collect())
        }
        Node::Filter(plan) => types_of(&plan.input),
        Node::Sort(plan) => types_of(&plan.input),
        Node::Limit(plan) => types_of(&plan.input),
        Node::Distinct(plan) => types_of(&plan.input),
        Node::Shared(plan) => types_of(&plan.node),
        Node::Working(plan) => Some(plan.types.to_vec()),
        Node::Project(plan) => Some(plan.expressions.iter().map(Expr::data_type).collect()),
        Node::Values(plan) => {
            let row = plan.rows.first()?;
            Some(row.iter().map(Expr::data_type).collect())
        }
        Node::Aggregate(plan) => {
            let keys = plan.keys.iter().map(Expr::data_type);
            Some(
                keys.chain(plan.calls.iter().map(|call| call.data_type))
                    .collect(),
            )
        }
        Node::Join(join) => {
            let mut types = types_of(&join.left)?;
            if !matches!(join.kind, JoinKind::Semi | JoinKind::Anti) {
                types.extend(types_of(&join.right)?);
            }
            Some(types)
        }
        _ => None,
    }
}

fn weigh(of: Option<usize>, condition: &Expr, inputs: &[Input]) -> Condition {
    let input_of = |at: usize| {
        let mut all = inputs.iter();
        all.position(|input| (input.start..input.start + input.width).contains(&at))
    };
    let mut reads = 0;
    condition.columns(&mut |at| reads |= input_of(at).map_or(0, |input| 1 << input));
    let mut weighed = Condition {
        of,
        reads,
        share: SHARE,
        is_equality: false,
        columns: Vec::new(),
    };
    let Expr::Call(call) = condition else {
        return weighed;
    };
    let [one, other] = call.arguments.as_slice() else {
        return weighed;
    };
    if !call.is_equality() {
        return weighed;
    }
    weighed.is_equality = true;
    let mut distinct = 1.0_f64;
    for side in [one, other] {
        let found = match side {
            Expr::Column(at, _) => input_of(*at).map(|input| (input, at - inputs[input].start)),
            other => hidden_column(other, inputs),
        };
        let Some((at_input, column)) = found else {
            continue;
        };
        distinct = distinct.max(values_of(&inputs[at_input], column));
        weighed.columns.push((at_input, column));
    }
    weighed.share = 1.0 / distinct;
    weighed
}

/// The hidden column of an index that has the values of an expression, and its input.
fn hidden_column(expression: &Expr, inputs: &[Input]) -> Option<(usize, usize)> {
    inputs.iter().enumerate().find_map(|(at, input)| {
        let Node::Scan(scan) = &input.node else {
            return None;
        };
        let mut is_own = !scan.source.computed.is_empty();
        let own = input.start..input.start + input.width;
        expression.columns(&mut |at| is_own &= own.contains(&at));
        if !is_own {
            return None;
        }
        let mut expression = expression.clone();
        expression.shift(0, -(input.start as isize));
        match &*seen_by_all(&scan.source, &expression) {
            Expr::Column(column, _) => Some((at, *column)),
            _ => None,
        }
    })
}

/// About the number of different values of a column.
fn values_of(input: &Input, column: usize) -> f64 {
    let known = different(&input.node, column).map(|values| values.min(input.rows));
    let some = known.unwrap_or(input.rows / 10.0).max(1.0);
    let Node::Scan(scan) = &input.node else {
        return some;
    };
    let keys = access::keys_of(&scan.source);
    let is_unique = keys
        .iter()
        .any(|(columns, is_unique)| *is_unique && columns[..] == [column]);
    if is_unique { input.rows } else { some }
}

/// The keys by which rows of a scan can be looked up, beside conditions of its own.
fn keys_of(scan: &Scan, own: &[Expr]) -> Vec<Key> {
    let source = &scan.source;
    let fixed = own.iter().filter_map(|condition| {
        let seen = seen_by_all(source, condition);
        let compared = access::comparison(&|at| source.column_type(at), &seen)?;
        (compared.1 == "=").then_some(compared.0)
    });
    let fixed: Vec<usize> = fixed.collect();
    let keys = access::keys_of(source).into_iter();
    let keys = keys.map(|(columns, is_unique)| {
        let columns = columns.into_iter().map(|at| KeyColumn {
            at,
            share: share_of_value(source, at),
            is_fixed: fixed.contains(&at),
        });
        Key {
            columns: columns.collect(),
            is_unique,
            rows: rows_of(source),
        }
    });
    keys.collect()
}

/// Rows of the inputs, and the conditions between them.
struct Weights {
    rows: Vec<f64>,
    touched: Vec<f64>,
    keys: Vec<Vec<Key>>,
    /// For optional inputs the others that must be there before them, a bit each.
    needed: Vec<Option<u32>>,
    conditions: Vec<Condition>,
}

impl Weights {
    fn new(inputs: &mut [Input], on: &[Expr]) -> Self {
        let mut all: Vec<(Option<usize>, Expr)> =
            on.iter().map(|one| (None, one.clone())).collect();
        for (at, input) in inputs.iter().enumerate() {
            let on = input.optional.iter().flat_map(|one| &one.on);
            all.extend(on.map(|one| (Some(at), one.clone())));
        }
        let weigh_all = |inputs: &[Input]| -> Vec<Condition> {
            let each = all.iter();
            each.map(|(of, one)| weigh(*of, one, inputs)).collect()
        };
        let weighed = weigh_all(inputs);
        let mut keys = Vec::with_capacity(inputs.len());
        for (at, input) in inputs.iter_mut().enumerate() {
            let of = input.optional.is_some().then_some(at);
            let own = weighed.iter().zip(&all);
            let own = own.filter(|(one, _)| one.of == of && one.reads == 1 << at);
            let share = own.clone().map(|(one, _)| one.share).product();
            let own = own.map(|(_, (_, condition))| condition.clone());
            keys.push(input.restrict(own.collect(), share));
        }
        // Each condition between inputs is weighed by the rows that these have left.
        let conditions = weigh_all(inputs);
        let needed = inputs.iter().enumerate().map(|(at, input)| {
            let others = &input.optional.as_ref()?.others;
            let own = conditions.iter().filter(|one| one.of == Some(at));
            let read = own.fold(0, |read, one| read | one.reads) & !(1 << at);
            let all = others.clone().fold(0, |all, other| all | 1 << other);
            Some(if read == 0 { all } else { read })
        });
        Self {
            rows: inputs.iter().map(|input| input.rows).collect(),
            touched: inputs.iter().map(|input| input.touched).collect(),
            keys,
            needed: needed.collect(),
            conditions,
        }
    }

    /// The optional input that is all of a set.
    fn optional(&self, set: u32) -> Option<usize> {
        let at = set.trailing_zeros() as usize;
        (set.is_power_of_two() && self.needed[at].is_some()).then_some(at)
    }

    /// Whether two sets may be joined: an optional input comes from the right, and after those
    /// which the conditions of its join read.
    fn may_join(&self, left: u32, right: u32) -> bool {
        let needed = self.optional(right).and_then(|at| self.needed[at]);
        self.optional(left).is_none() && needed.is_none_or(|needed| needed & !left == 0)
    }

    fn input(&self, at: usize) -> Best {
        Best {
            inputs: 1 << at,
            cost: self.touched[at],
            rows: self.rows[at],
            order: Order::Input(at),
        }
    }

    /// Cost and rows of a join of two sets, without its order.
    fn joined(&self, left: &Best, right: &Best) -> (f64, f64) {
        let both = left.inputs | right.inputs;
        let optional = self.optional(right.inputs);
        let is_inside = |one: &Condition| one.reads & !both == 0 && one.reads & right.inputs != 0;
        let is_between =
            |one: &&Condition| one.of == optional && is_inside(one) && one.reads & left.inputs != 0;
        let (mut share, mut has_condition, mut has_equality) = (1.0, false, false);
        for condition in self.conditions.iter().filter(is_between) {
            share *= condition.share;
            has_condition = true;
            has_equality |= condition.is_equality;
        }
        let mut rows = (left.rows * right.rows * share).max(1.0);
        if optional.is_some() {
            let later = self.conditions.iter();
            let later = later.filter(|one| one.of.is_none() && is_inside(one));
            let share: f64 = later.map(|one| one.share).product();
            rows = (rows.max(left.rows) * share).max(1.0);
        }
        let mut pairs = left.rows * right.rows;
        if !has_condition {
            // They grow with both sides, and estimates may be too low.
            pairs *= UNRELATED;
        }
        if has_equality {
            pairs = pairs.min(left.rows + 2.0 * right.rows);
        }
        let mut cost = left.cost + right.cost + pairs + rows;
        if right.inputs.is_power_of_two() {
            // The right side is not read as a whole.
            let at = right.inputs.trailing_zeros() as usize;
            let between = self.conditions.iter().filter(is_between);
            let given: Vec<usize> = between
                .flat_map(|one| &one.columns)
                .filter(|(input, _)| *input == at)
                .map(|(_, column)| *column)
                .collect();
            let keys = self.keys[at].iter();
            let looked_up = keys.filter_map(|key| key.touched(&given));
            if let Some(each) = looked_up.reduce(f64::min) {
                cost = cost.min(left.cost + (LOOK_UP + each) * left.rows + rows);
            }
        }
        (cost, rows)
    }

    fn join(&self, left: &Best, right: &Best) -> Best {
        let (cost, rows) = self.joined(left, right);
        Best {
            inputs: left.inputs | right.inputs,
            cost,
            rows,
            order: Order::Join(Box::new((left.order.clone(), right.order.clone()))),
        }
    }

    /// The cost of the order that a tree has.
    fn given(&self, node: &Node, next: &mut usize) -> Best {
        match node {
            Node::Join(join) if is_movable(join) => {
                let left = self.given(&join.left, next);
                let right = self.given(&join.right, next);
                self.join(&left, &right)
            }
            Node::Join(join) if is_optional(join) => {
                let left = self.given(&join.left, next);
                *next += 1;
                self.join(&left, &self.input(*next - 1))
            }
            _ => {
                *next += 1;
                self.input(*next - 1)
            }
        }
    }

    /// The best order of all.
    fn exact(&self) -> Option<Best> {
        let count = self.rows.len();
        let mut best: Vec<Option<Best>> = vec![None; 1 << count];
        for set in 1..1_usize << count {
            if set.is_power_of_two() {
                best[set] = Some(self.input(set.trailing_zeros() as usize));
                continue;
            }
            let mut chosen: Option<(f64, usize)> = None;
            let mut part = (set - 1) & set;
            while part > 0 {
                if let (Some(left), Some(right)) = (&best[part], &best[set & !part])
                    && self.may_join(left.inputs, right.inputs)
                {
                    let (cost, _) = self.joined(left, right);
                    if chosen.is_none_or(|(least, _)| cost < least) {
                        chosen = Some((cost, part));
                    }
                }
                part = (part - 1) & set;
            }
            if let Some((_, part)) = chosen
                && let (Some(left), Some(right)) = (&best[part], &best[set & !part])
            {
                best[set] = Some(self.join(left, right));
            }
        }
        best.pop().flatten()
    }

    /// The cheapest pair first, until all are joined.
    fn greedy(&self) -> Option<Best> {
        let mut parts: Vec<Best> = (0..self.rows.len()).map(|at| self.input(at)).collect();
        while parts.len() > 1 {
            let mut chosen: Option<(f64, usize, usize)> = None;
            for left in 0..parts.len() {
                for right in (0..parts.len()).filter(|right| *right != left) {
                    if !self.may_join(parts[left].inputs, parts[right].inputs) {
                        continue;
                    }
                    let (cost, rows) = self.joined(&parts[left], &parts[right]);
                    let added = cost + rows - parts[left].cost - parts[right].cost;
                    if chosen.is_none_or(|(least, ..)| added < least) {
                        chosen = Some((added, left, right));
                    }
                }
            }
            let (_, left, right) = chosen?;
            let joined = self.join(&parts[left], &parts[right]);
            parts.remove(left.max(right));
            parts.remove(left.min(right));
            parts.push(joined);
        }
        parts.pop()
    }
}

/// The tree of an order. Notes the new place of each column.
fn build(order: &Order, inputs: &mut [Input], next: &mut usize, places: &mut [usize]) -> Node {
    match order {
        Order::Input(at) => {
            let input = &mut inputs[*at];
            for column in 0..input.width {
                places[input.start + column] = *next + column;
            }
            *next += input.width;
            std::mem::replace(&mut input.node, Node::nothing())
        }
        Order::Join(pair) => {
            let start = *next;
            let left = build(&pair.0, inputs, next, places);
            let optional = match pair.1 {
                Order::Input(at) => inputs[at].optional.take(),
                Order::Join(_) => None,
            };
            let right = build(&pair.1, inputs, next, places);
            let kind = match optional {
                Some(_) => JoinKind::Left,
                None => JoinKind::Inner,
            };
            let condition = optional.map(|optional| {
                let mut on = Expr::all(optional.on);
                on.renumber(&mut |at| places[at] - start);
                on
            });
            Join {
                kind,
                left,
                right,
                condition,
                method: JoinMethod::Loop,
            }
            .into()
        }
    }
}
