//! The catalogue after a wait: a statement that changes rows waits for the locks of its tables
//! first.
//!
//! Their holder may have changed definitions, so the plan is made again if the catalogue
//! has changed meanwhile, and the statement sees the rows of that moment.

use super::Session;
use crate::error::Result;
use crate::plan::{Change, Node, Plan, Source};
use indelible::TableLock;

impl Session {
    /// Locks the tables that a plan changes. True if the plan must be made again, since the
    /// catalogue has changed meanwhile.
    pub(super) fn lock_targets(&mut self, plan: &Plan) -> Result<bool> {
        if !plan.writes {
            return Ok(false);
        }
        let wait = self.environment.wait();
        for node in plan.before.iter().chain([&plan.root]) {
            for_changed_tables(node, &mut |source| {
                let (table, locked) = (&source.table, TableLock::IntentExclusive);
                Ok(self.connection.lock_table(table, locked, wait)?)
            })?;
        }
        if self.transaction.defines {
            return Ok(false);
        }
        let version = self.catalog().version;
        self.refresh_catalog();
        if version == self.catalog().version {
            return Ok(false);
        }
        self.connection.statement()?;
        Ok(true)
    }

    /// Whether a plan changes no tables but temporary ones.
    pub(super) fn changes_temporary_only(&self, plan: &Plan) -> Result<bool> {
        let names = &self.environment.names;
        let mut is_so = names.temporary.is_some();
        for node in plan.before.iter().chain([&plan.root]) {
            for_changed_tables(node, &mut |source| {
                let object = names.catalog.object(source.oid);
                is_so &= object.is_some_and(|object| Some(object.namespace) == names.temporary);
                Ok(())
            })?;
        }
        Ok(is_so)
    }
}

/// Does something with each table that a node changes.
fn for_changed_tables(node: &Node, visit: &mut impl FnMut(&Source) -> Result<()>) -> Result<()> {
    match node {
        Node::Modify(modify) => {
            visit(&modify.table.source)?;
            let router = match &modify.change {
                Change::Insert(insert) => insert.router.as_ref(),
                Change::Update { moves, .. } => moves.as_ref().map(|moves| &moves.router),
                Change::Delete { .. } => None,
                Change::Merge(merge) => {
                    visit(&merge.root.source)?;
                    merge.router()
                }
            };
            let mut leaves = router.into_iter().flat_map(|router| &router.leaves);
            leaves.try_for_each(|leaf| visit(&leaf.target.source))
        }
        Node::Shared(shared) => for_changed_tables(&shared.node, visit),
        Node::Sort(sort) => for_changed_tables(&sort.input, visit),
        Node::SetOperation(operation) => {
            for_changed_tables(&operation.left, visit)?;
            for_changed_tables(&operation.right, visit)
        }
        _ => Ok(()),
    }
}
