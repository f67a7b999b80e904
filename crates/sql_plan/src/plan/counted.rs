//! Counting what the operators of a plan do, for `EXPLAIN ANALYZE`.
//!
//! A copy of the plan has a node around each of its own, which counts rows, runs and time. The time
//! of a node has that of its inputs in it, as in PostgreSQL.

use super::expression::Expr;
use super::node::{Counted, Node};
use std::sync::Arc;

/// A plan whose operators count.
pub fn counted(mut node: Node) -> Node {
    let inputs = node.inputs(&mut |input, _| {
        wrap(input);
        Ok(())
    });
    let queries = node.walk_own(0, &mut |part, _| {
        if let Expr::Subquery(subquery) = part {
            wrap(&mut Arc::make_mut(subquery).node);
            return Ok(false);
        }
        Ok(true)
    });
    debug_assert!(
        inputs.is_ok() && queries.is_ok(),
        "the visitors do not fail"
    );
    Counted {
        input: node,
        counters: Arc::default(),
    }
    .into()
}

fn wrap(node: &mut Node) {
    let inner = std::mem::replace(node, Node::nothing());
    *node = counted(inner);
}
