//! Counting what the operators of a plan do, for `EXPLAIN ANALYZE`.
//!
//! A copy of the plan has a node around each of its own, which counts rows, runs and time. The time
//! of a node has that of its inputs in it, as in PostgreSQL.

use super::expression::Expr;
use super::node::{Counted, Node, Shared};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Makes plans whose operators count.
#[derive(Default)]
pub struct Counting {
    /// Queries of `WITH`, which all uses share.
    shared: BTreeMap<usize, Arc<Shared>>,
}

impl Counting {
    /// A plan whose operators count.
    pub fn counted(&mut self, mut node: Node) -> Node {
        if let Node::Shared(shared) = &mut node {
            *shared = self.query(shared);
        }
        let inputs = node.inputs(&mut |input, _| {
            self.wrap(input);
            Ok(())
        });
        let queries = node.walk_own(0, &mut |part, _| {
            if let Expr::Subquery(subquery) = part {
                self.wrap(&mut Arc::make_mut(subquery).node);
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

    fn query(&mut self, shared: &Shared) -> Arc<Shared> {
        if let Some(counted) = self.shared.get(&shared.number) {
            return Arc::clone(counted);
        }
        let mut counted = shared.clone();
        self.wrap(&mut counted.node);
        let counted = Arc::new(counted);
        self.shared.insert(shared.number, Arc::clone(&counted));
        counted
    }

    fn wrap(&mut self, node: &mut Node) {
        let inner = std::mem::replace(node, Node::nothing());
        *node = self.counted(inner);
    }
}
