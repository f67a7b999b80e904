//! Point plans: statements on one row by its primary key, and insertions of rows that are written
//! down.
//!
//! They are a second form of a plan, beside its tree, for statements that need none of what
//! operators are for. A rule that needs other tables or the row as it was before leaves a
//! statement to its tree: references, generated columns, conflicts, domains.

use super::expression::Expr;
use super::modify::{Change, Modify, Target, UniqueKey};
use super::node::{Access, Node, Scan, Source, Values};
use crate::types::storage;
use std::sync::Arc;

/// Most rows of an insertion; more of them may go past the write set.
const ROWS_MAX: usize = 64;

/// A statement on single rows.
#[derive(Debug)]
pub enum PointPlan {
    /// Expressions over a row, if the row is there.
    Select(PointSelect),
    /// Insertion of rows that are written down.
    Insert(PointInsert),
    /// Update or deletion of a row.
    Change(PointChange),
}

/// Expressions over a row.
#[derive(Debug)]
pub struct PointSelect {
    /// The row.
    pub row: PointRow,
    /// The expressions.
    pub output: Vec<Expr>,
    /// Whether nothing in it calls the session, or has another value each time: it needs no
    /// transaction where it is alone, because one row is of one moment anyway.
    pub is_plain: bool,
}

/// A row that is found by its primary key.
#[derive(Debug)]
pub struct PointRow {
    /// The table.
    pub source: Source,
    /// Values of the key's columns; they read no row.
    pub key: Vec<Expr>,
    /// The rest of the condition.
    pub condition: Option<Expr>,
    /// The columns that are read; the others come as NULL.
    pub needed: Vec<bool>,
}

/// The insertion of rows that are written down.
#[derive(Debug)]
pub struct PointInsert {
    /// The table that gets the rows.
    pub table: Arc<Target>,
    /// The rows as they are written down.
    pub rows: Arc<Values>,
    /// The value of each column over a row that is written down.
    pub values: Vec<Expr>,
    /// Expressions over a new row, if the statement returns any.
    pub returning: Option<Vec<Expr>>,
}

/// The change of a row.
#[derive(Debug)]
pub struct PointChange {
    /// The table of the row.
    pub table: Arc<Target>,
    /// The row.
    pub row: PointRow,
    /// The columns that are set and their values; none if the row is deleted.
    pub set: Option<Vec<(usize, Expr)>>,
    /// The columns of unique keys that are set, each to a value that is written down.
    pub keys: Vec<usize>,
    /// Expressions over the row after the change, or before a deletion.
    pub returning: Option<Vec<Expr>>,
}

impl PointPlan {
    /// Whether it is a query that needs no transaction where it is alone.
    pub fn is_plain(&self) -> bool {
        matches!(self, Self::Select(select) if select.is_plain)
    }

    /// The point plan of a tree, if its statement can have one.
    pub fn of(root: &Node) -> Option<Self> {
        let mut point = match root {
            Node::Project(project) if !project.has_sets => {
                let Node::Scan(scan) = &project.input else {
                    return None;
                };
                Self::Select(PointSelect {
                    row: row_of(scan)?,
                    output: project.expressions.clone(),
                    is_plain: true,
                })
            }
            Node::Modify(modify) => match &modify.change {
                Change::Insert(insert) => {
                    let Node::Values(rows) = &modify.input else {
                        return None;
                    };
                    let table = &modify.table;
                    if insert.conflict.is_some()
                        || insert.router.is_some()
                        || !table.parents.is_empty()
                        || table.keys.iter().any(|(_, key)| key.is_looked_after())
                        || rows.rows.len() > ROWS_MAX
                    {
                        return None;
                    }
                    Self::Insert(PointInsert {
                        table: Arc::clone(table),
                        rows: Arc::clone(rows),
                        values: insert.values.clone(),
                        returning: modify.returning.clone(),
                    })
                }
                Change::Update {
                    set, moves: None, ..
                } => Self::Change(change_of(modify, Some(set))?),
                Change::Update { .. } | Change::Merge(_) => return None,
                Change::Delete { .. } => Self::Change(change_of(modify, None)?),
            },
            _ => return None,
        };
        let (mut is_fit, mut is_plain) = (true, true);
        let walked = root.clone().walk(0, &mut |part, _| {
            is_fit &= !matches!(part, Expr::Subquery(_) | Expr::Outer(..));
            is_plain &= !matches!(part, Expr::Call(call) if !call.is_plain());
            Ok(is_fit)
        });
        if let Self::Select(select) = &mut point {
            select.is_plain = is_plain;
        }
        (is_fit && walked.is_ok()).then_some(point)
    }
}

/// The row of a scan that finds at most one by its primary key.
fn row_of(scan: &Scan) -> Option<PointRow> {
    let source = &scan.source;
    let Access::Range(range) = &scan.access else {
        return None;
    };
    let is_lent = |column: &usize| {
        let data_type = source.column_type(*column);
        storage::is_lent(data_type) && storage::has_exact_keys(data_type)
    };
    let is_point = range.index.is_none()
        && range.prefix.len() == source.key.len()
        && source.key.iter().all(is_lent);
    is_point.then(|| PointRow {
        source: source.clone(),
        key: range.prefix.clone(),
        condition: scan.condition.clone(),
        needed: scan.needed.clone(),
    })
}

/// Whether a value is one of the statement's texts or parameters.
fn is_written_down(value: &Expr) -> bool {
    match value {
        Expr::Constant(..) | Expr::Parameter(..) => true,
        Expr::Cast(value, ..) => is_written_down(value),
        _ => false,
    }
}

fn change_of(modify: &Modify, set: Option<&Vec<(usize, Expr)>>) -> Option<PointChange> {
    let Node::Scan(scan) = &modify.input else {
        return None;
    };
    let table = &modify.table;
    let mut row = row_of(scan)?;
    let is_set = |column: &usize| set.is_none_or(|set| set.iter().any(|(at, _)| at == column));
    let referred = table.children.iter().chain(&table.parents);
    let mut referred = referred.flat_map(|reference| &reference.columns);
    let mut keys = table.keys.iter().map(|(_, key)| key);
    let takes_key = |key: &UniqueKey| key.is_looked_after() && key.columns.iter().any(is_set);
    let has_domain = |column: &super::modify::TargetColumn| !column.domain_checks.is_empty();
    if referred.any(is_set)
        || !table.generated.is_empty()
        || table.columns.iter().any(has_domain)
        || (set.is_some() && (table.source.key.iter().any(is_set) || keys.any(takes_key)))
        // Rules of the whole row.
        || (set.is_some() && (!table.views.is_empty() || !table.within.is_empty()))
    {
        return None;
    }
    // The input has all columns, of which the change reads some.
    row.needed.fill(false);
    let mut keys = Vec::new();
    for (at, value) in set.into_iter().flatten() {
        let mut unique = table.keys.iter().flat_map(|(_, key)| &key.columns);
        if unique.any(|column| column == at) {
            // The value decides about the lock before it is stored, so it is computed twice.
            if !is_written_down(value) {
                return None;
            }
            keys.push(*at);
            row.needed[*at] = true;
        }
    }
    let mut note = |expression: &Expr| {
        expression.columns(&mut |at| {
            if let Some(needed) = row.needed.get_mut(at) {
                *needed = true;
            }
        });
    };
    let values = set.into_iter().flatten().map(|(_, value)| value);
    let checks = table.checks.iter().map(|(_, condition)| condition);
    let returning = modify.returning.iter().flatten();
    let condition = row.condition.iter();
    values
        .chain(checks)
        .chain(returning)
        .chain(condition)
        .for_each(&mut note);
    Some(PointChange {
        table: Arc::clone(table),
        row,
        set: set.cloned(),
        keys,
        returning: modify.returning.clone(),
    })
}
