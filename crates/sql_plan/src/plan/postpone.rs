//! Expressions of a list that are computed after its rows were put in order and cut.
//!
//! ```text
//! Limit (Sort (Project a, query))
//!     -> Project a, query (Limit (Sort (Project a, columns that the query reads)))
//! ```
//!
//! Queries that read the row then run for the rows of the result only, and functions that give
//! another value each time are called in the order of the result. Keys of the order stay below it.

use super::expression::Expr;
use super::node::{Node, Project};
use std::sync::Arc;

/// The nodes over a projection.
#[derive(Default)]
struct Over {
    is_sorted: bool,
    leaves_out: bool,
}

/// The plan with such expressions above its orders and limits.
pub(super) fn postponed(mut node: Node) -> Node {
    if let Some(expressions) = taken(&mut node) {
        let input = node;
        let has_sets = false;
        node = Project {
            input,
            expressions,
            has_sets,
        }
        .into();
    }
    let visited = node.inputs(&mut |input, _| {
        *input = postponed(std::mem::replace(input, Node::nothing()));
        Ok(())
    });
    debug_assert!(visited.is_ok(), "the visitor does not fail");
    node
}

/// Takes such expressions out of the projection below a node, and gives its list over the rows that
/// the node has then; none, and nothing has changed, if there are none.
fn taken(node: &mut Node) -> Option<Vec<Expr>> {
    let (mut over, mut keys) = (Over::default(), Vec::new());
    let project = projection(node, &mut over, &mut |key| {
        key.columns(&mut |at| keys.push(at));
    })?;
    let is_late = |one: &Expr| one.has_volatile() || over.leaves_out && has_own_query(one);
    let late: Vec<bool> = project
        .expressions
        .iter()
        .enumerate()
        .map(|(at, one)| !keys.contains(&at) && is_late(one))
        .collect();
    if !late.contains(&true) || project.expressions.iter().any(shares_values) {
        return None;
    }
    let (mut below, mut places) = (Vec::new(), Vec::new());
    let mut list = std::mem::take(&mut project.expressions);
    for (expression, is_late) in list.iter_mut().zip(late) {
        places.push(below.len());
        if is_late {
            read_from(&mut below, expression);
        } else {
            let column = Expr::Column(below.len(), expression.data_type());
            below.push(std::mem::replace(expression, column));
        }
    }
    project.expressions = below;
    projection(node, &mut Over::default(), &mut |key| {
        key.renumber(&mut |at| places[at]);
    });
    Some(list)
}

/// The projection below an order, and below nodes over this that leave rows out. Their keys are
/// visited.
fn projection<'n>(
    node: &'n mut Node,
    over: &mut Over,
    visit: &mut dyn FnMut(&mut Expr),
) -> Option<&'n mut Project> {
    let input = match node {
        Node::Limit(limit) => {
            let limit = Arc::make_mut(limit);
            over.leaves_out = true;
            for key in limit.ties.iter_mut().flatten() {
                visit(&mut key.expression);
            }
            &mut limit.input
        }
        Node::Distinct(distinct) => {
            let distinct = Arc::make_mut(distinct);
            over.leaves_out = true;
            distinct.on.as_mut()?.iter_mut().for_each(&mut *visit);
            &mut distinct.input
        }
        Node::Sort(sort) => {
            let sort = Arc::make_mut(sort);
            over.is_sorted = true;
            for key in &mut sort.keys {
                visit(&mut key.expression);
            }
            &mut sort.input
        }
        Node::Project(project) if over.is_sorted && !project.has_sets => {
            return Some(Arc::make_mut(project));
        }
        _ => return None,
    };
    projection(input, over, visit)
}

/// Whether there is a query in it that reads rows around it.
fn has_own_query(expression: &Expr) -> bool {
    let is_own = |part: &Expr| matches!(part, Expr::Subquery(query) if query.is_correlated);
    expression.any(|part, depth| depth == 0 && is_own(part))
}

/// Whether it has values that another expression of the list may read.
fn shares_values(expression: &Expr) -> bool {
    expression.any(|part, _| matches!(part, Expr::Let(_) | Expr::LetValue(..)))
}

/// Makes an expression read its columns from a list, to which it adds those that are not there.
fn read_from(list: &mut Vec<Expr>, expression: &mut Expr) {
    let walked = expression.walk(0, &mut |part, depth| {
        let (at, data_type) = match part {
            Expr::Column(at, data_type) if depth == 0 => (at, *data_type),
            Expr::Outer(level, at, data_type) if *level == depth && depth > 0 => (at, *data_type),
            _ => return Ok(true),
        };
        let is_there = |one: &Expr| matches!(one, Expr::Column(own, _) if own == at);
        let known = list.iter().position(is_there);
        let place = known.unwrap_or(list.len());
        if known.is_none() {
            list.push(Expr::Column(*at, data_type));
        }
        *at = place;
        Ok(true)
    });
    debug_assert!(walked.is_ok(), "the visitor does not fail");
}
