//! Checks of constraints that a transaction has put off until it ends, or until `SET CONSTRAINTS`.
//!
//! A check comes at the end of its statement in any case. Where it finds a violation, and may be
//! put off, the row is kept here and looked at again later: by then it may have gone, or what it
//! lacks may be there. So no more is kept than what is violated.

use crate::catalog::{Deferral, Object, Oid};
use crate::error::{Result, SqlError, SqlState};
use sql_rows::{Row, bytes_of};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The side of a foreign key that a row is on, if the constraint is one.
#[derive(Clone, Debug)]
pub(crate) enum Side {
    /// It refers to a row that was not there.
    Child,
    /// Rows refer to it, and it was deleted, or became another one.
    Parent(Option<Row>),
    /// No side: it has a unique key that another row has, or may have.
    Key,
}

/// A row that violates a foreign key or a unique one for now.
#[derive(Debug)]
pub(crate) struct Violation {
    /// The row's table.
    pub(crate) table: Oid,
    pub(crate) constraint: Oid,
    pub(crate) row: Row,
    pub(crate) side: Side,
}

/// The choices of `SET CONSTRAINTS`, and what is violated. A savepoint has a copy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deferred {
    /// The choice for all constraints, and those for some that were made later.
    all: Option<bool>,
    some: BTreeMap<Oid, bool>,
    violations: Vec<Arc<Violation>>,
    bytes: u64,
}

impl Deferred {
    /// Puts off the checks of some constraints, or of all, or ends that.
    pub(crate) fn choose(&mut self, constraints: Option<&[Oid]>, deferred: bool) {
        match constraints {
            Some(constraints) => {
                let chosen = constraints.iter().map(|oid| (*oid, deferred));
                self.some.extend(chosen);
            }
            None => {
                self.all = Some(deferred);
                self.some.clear();
            }
        }
    }

    /// Whether the checks of a constraint are put off.
    pub(crate) fn has(&self, constraint: Oid, deferral: Deferral) -> bool {
        let chosen = self.some.get(&constraint).copied().or(self.all);
        match deferral {
            Deferral::Never => false,
            Deferral::Possible => chosen.unwrap_or(false),
            Deferral::Initial => chosen.unwrap_or(true),
        }
    }

    /// Keeps a violation, in at most so many bytes with all others.
    pub(crate) fn keep(&mut self, violation: Violation, bytes_max: u64) -> Result<()> {
        self.bytes += bytes_of(&violation.row);
        if self.bytes > bytes_max {
            let message = "rows that violate deferred constraints take more than \"work_mem\"";
            let hint = "Raise \"work_mem\", or insert the rows that others refer to first.";
            return Err(SqlError::new(SqlState::OUT_OF_MEMORY, message).hint(hint));
        }
        self.violations.push(Arc::new(violation));
        Ok(())
    }

    /// Takes all violations out. Looking at one again keeps it again if it is still put off.
    pub(crate) fn take(&mut self) -> Vec<Arc<Violation>> {
        self.bytes = 0;
        std::mem::take(&mut self.violations)
    }

    /// Fails if the check of a row of a table is put off, so that the table must stay as it is.
    pub(crate) fn check_none_of(&self, table: &Object, command: &str) -> Result<()> {
        let mut violations = self.violations.iter();
        if violations.all(|violation| violation.table != table.oid) {
            return Ok(());
        }
        let message = format!(
            "cannot {command} \"{}\" because it has pending trigger events",
            table.name
        );
        Err(SqlError::new(SqlState::OBJECT_IN_USE, message))
    }
}
