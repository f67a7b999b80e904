//! `FOR UPDATE` and its kin: the clauses, and the tables whose rows they lock.
//!
//! A clause for a view or a query in `FROM` is one for all tables of that, as in PostgreSQL, so it
//! is pushed into the query. Queries of `WITH` keep their rows as they are.

use super::{Binder, object_name};
use crate::catalog::{Object, Privilege};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Busy, Expr, JoinedRows, Lock, LockTarget, Node, TableRows};
use indelible::RowLock;
use sql_parse::{WEAKER, mark_of};
use sqlparser::ast::{self, LockClause, LockType, NonBlock, Select};

/// A clause that locks rows.
#[derive(Clone, Debug)]
pub(super) struct Locking {
    /// The part of `FROM` that it names; all if it names none.
    of: Option<String>,
    strength: RowLock,
    busy: Busy,
}

impl Locking {
    pub(super) fn of_clause(clause: &LockClause) -> Result<Self> {
        let (of, is_weaker) = lock_names(clause.of.as_ref())?;
        let strength = match (clause.lock_type, is_weaker) {
            (LockType::Share, false) => RowLock::Share,
            (LockType::Share, true) => RowLock::KeyShare,
            (LockType::Update, false) => RowLock::Update,
            (LockType::Update, true) => RowLock::NoKeyUpdate,
        };
        let busy = match clause.nonblock {
            None => Busy::Wait,
            Some(NonBlock::Nowait) => Busy::Fail,
            Some(NonBlock::SkipLocked) => Busy::Skip,
        };
        Ok(Self { of, strength, busy })
    }

    fn is_for(&self, alias: &str) -> bool {
        self.of.as_ref().is_none_or(|name| name == alias)
    }

    /// The clause in the words of SQL.
    fn words(&self) -> &'static str {
        match self.strength {
            RowLock::KeyShare => "FOR KEY SHARE",
            RowLock::Share => "FOR SHARE",
            RowLock::NoKeyUpdate => "FOR NO KEY UPDATE",
            RowLock::Update => "FOR UPDATE",
        }
    }

    /// The error of a clause where there are no rows of tables.
    pub(super) fn refused(&self, problem: &str) -> SqlError {
        let message = format!("{} {problem}", self.words());
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
    }
}

impl Binder<'_> {
    /// The clauses for a part of `FROM`, for the query that it stands for.
    pub(super) fn locking_of(&self, alias: &str) -> Vec<Locking> {
        let own = self.locking.iter().filter(|clause| clause.is_for(alias));
        own.map(|clause| Locking {
            of: None,
            ..clause.clone()
        })
        .collect()
    }

    /// Fails unless the rows of a relation may be locked, if they are to be.
    pub(super) fn check_locking(&self, object: &Object, alias: &str) -> Result<()> {
        if !self.locking.iter().any(|clause| clause.is_for(alias)) {
            return Ok(());
        }
        let kind = object.kind_name();
        if matches!(kind, "sequence" | "materialized view") {
            let message = format!("cannot lock rows in {kind} \"{}\"", object.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        self.check_access(object, Privilege::Update.bit())
    }

    /// Fails unless the rows of a query are rows of its tables. Its expressions are bound, and not
    /// yet those of a group.
    pub(super) fn check_rows(&mut self, clauses: &[Locking], select: &Select) -> Result<()> {
        let Some(clause) = clauses.first() else {
            return Ok(());
        };
        let is_grouped =
            !matches!(&select.group_by, ast::GroupByExpr::Expressions(keys, _) if keys.is_empty());
        let problem = match () {
            () if matches!(&select.distinct, Some(distinct) if *distinct != ast::Distinct::All) => {
                Some("DISTINCT clause")
            }
            () if is_grouped => Some("GROUP BY clause"),
            () if select.having.is_some() => Some("HAVING clause"),
            () if !self.scope().aggregates.is_empty() => Some("aggregate functions"),
            () if !self.scope().windows.is_empty() => Some("window functions"),
            () if self.scope().has_sets => Some("set-returning functions in the target list"),
            () => None,
        };
        match problem {
            Some(problem) => Err(clause.refused(&format!("is not allowed with {problem}"))),
            None => Ok(()),
        }
    }

    /// The rows of a query, locked.
    pub(super) fn locked(
        &mut self,
        node: Node,
        clauses: &[Locking],
        joined: JoinedRows,
    ) -> Result<Node> {
        let mut targets = Vec::new();
        let tables = self.scope().tables.clone();
        for clause in clauses {
            if let Some(name) = &clause.of {
                let Some(named) = tables.iter().find(|table| table.alias == *name) else {
                    let message = format!(
                        "relation \"{name}\" in {} clause not found in FROM clause",
                        clause.words()
                    );
                    return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
                };
                if let Some(kind) = named.unlockable {
                    return Err(clause.refused(&format!("cannot be applied to {kind}")));
                }
            }
            for table in tables.iter().filter(|table| clause.is_for(&table.alias)) {
                let is_locked = table.rows.is_some() || table.is_stored || clause.of.is_some();
                let mut presence = table.presence.iter();
                let is_optional = presence.any(|value| joined.is_optional(value));
                if is_locked && is_optional && !self.is_of_catalogue() {
                    let problem = "cannot be applied to the nullable side of an outer join";
                    return Err(clause.refused(problem));
                }
                if let (Some(rows), Some(start)) = (&table.rows, table.columns.first()) {
                    targets.push(LockTarget {
                        rows: rows.clone(),
                        start: *start,
                        strength: clause.strength,
                        busy: clause.busy,
                    });
                }
            }
        }
        let used = self.tables.get_mut();
        for target in &targets {
            match &target.rows {
                TableRows::Own(source) => used.lock_rows(source),
                TableRows::OfFamily(members) => {
                    members.iter().for_each(|one| used.lock_rows(&one.source));
                }
            }
        }
        // A row that is locked is tested again if it has changed.
        let tests = joined.conditions;
        Ok(Lock {
            input: node,
            tables: targets,
            recheck: (!tests.is_empty()).then(|| Expr::all(tests)),
        }
        .into())
    }
}

/// The table that a lock is for, if it names one, and whether it is of the weaker strength.
fn lock_names(of: Option<&ast::ObjectName>) -> Result<(Option<String>, bool)> {
    let Some(of) = of else {
        return Ok((None, false));
    };
    let is_weaker = matches!(of.0.first(),
        Some(ast::ObjectNamePart::Identifier(name)) if mark_of(name) == Some(WEAKER));
    let parts = of.0[usize::from(is_weaker)..].to_vec();
    if parts.is_empty() {
        return Ok((None, true));
    }
    let (_, name) = object_name(&ast::ObjectName(parts))?;
    Ok((Some(name), is_weaker))
}
