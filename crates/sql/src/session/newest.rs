//! The catalogue after a wait: a statement that changes rows waits for the locks of its tables
//! first.
//!
//! Whoever had them may have changed their definitions, so the plan is made again if the catalogue
//! has changed meanwhile, and the statement sees the rows of that moment.

use super::Session;
use crate::error::Result;
use crate::plan::{Node, Plan};
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
            if let Some(table) = changed_table(node) {
                self.connection
                    .lock_table(table, TableLock::IntentExclusive, wait)?;
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

/// The table that a node changes.
fn changed_table(node: &Node) -> Option<&Table> {
    match node {
        Node::Modify(modify) => Some(&modify.table.source.table),
        Node::Shared(shared) => changed_table(&shared.node),
        _ => None,
    }
}
