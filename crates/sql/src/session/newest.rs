//! The catalogue after a wait: a statement that changes rows waits for the locks of its tables
//! first.
//!
//! Whoever had them may have changed their definitions, so the plan is made again if the catalogue
//! has changed meanwhile, and the statement sees the rows of that moment.

use super::Session;
use crate::error::Result;
use crate::plan::{Change, Node, Plan};
use indelible::{Table, TableLock};

impl Session {
    /// Locks the tables that a plan changes. True if the plan must be made again, since the
    /// catalogue has changed meanwhile.
    pub(super) fn lock_targets(&mut self, plan: &Plan) -> Result<bool> {
        if !plan.writes {
            return Ok(false);
        }
        let wait = self.environment.wait();
        for node in plan.before.iter().chain([&plan.root]) {
            let mut tables = Vec::new();
            changed_tables(node, &mut tables);
            for table in tables {
                self.connection
                    .lock_table(&table, TableLock::IntentExclusive, wait)?;
            }
        }
        if self.transaction.defines {
            return Ok(false);
        }
        let newest = self.sql.catalog();
        if newest.version == self.catalog().version {
            return Ok(false);
        }
        self.environment.names.catalog = newest;
        self.connection.statement()?;
        Ok(true)
    }
}

/// Adds the tables that a node changes.
fn changed_tables(node: &Node, tables: &mut Vec<Table>) {
    match node {
        Node::Modify(modify) => {
            tables.push(modify.table.source.table.clone());
            let router = match &modify.change {
                Change::Insert(insert) => insert.router.as_ref(),
                Change::Update { moves, .. } => moves.as_ref().map(|moves| &moves.router),
                Change::Delete { .. } => None,
            };
            let leaves = router.into_iter().flat_map(|router| &router.leaves);
            tables.extend(leaves.map(|leaf| leaf.target.source.table.clone()));
        }
        Node::Shared(shared) => changed_tables(&shared.node, tables),
        Node::Sort(sort) => changed_tables(&sort.input, tables),
        Node::SetOperation(operation) => {
            changed_tables(&operation.left, tables);
            changed_tables(&operation.right, tables);
        }
        _ => {}
    }
}
