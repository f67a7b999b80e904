//! Things that a statement has to know of the rows that it has changed, until all are changed.
//!
//! A reference is noted with the row that has it, and looked at when the statement ends, as the row
//! that it names may come later.

use crate::catalog::{Deferral, Oid};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Moves, Target, UniqueKey};
use crate::run::Row;
use crate::types::Datum;
use std::collections::HashSet;
use std::sync::Arc;

/// A row that is stored: the number of its table, and its key there.
pub(super) type StoredKey = (Oid, Row);

/// Rows that a statement has changed.
pub(super) type Seen = HashSet<StoredKey>;

/// The references and keys that a statement looks at when its rows are changed.
#[derive(Default)]
pub(crate) struct Pending {
    /// Rows whose references must exist, with the positions of the references.
    pub(super) parents: Vec<(usize, Row)>,
    /// Rows that were deleted or have other keys, before and after.
    pub(super) children: Vec<(usize, Row, Option<Row>)>,
    /// Rows whose unique keys no other row may have, with the positions of the keys.
    pub(super) keys: Vec<(usize, Row)>,
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.parents.is_empty() && self.children.is_empty() && self.keys.is_empty()
    }
}

/// The references and keys of several tables.
pub(crate) type Late = Vec<(Arc<Target>, Pending)>;

/// Things that a statement has to know of the rows that it has changed.
#[derive(Default)]
pub(super) struct Noted {
    pub(super) pending: Pending,
    /// References of partitions.
    pub(super) routed: Late,
    /// Rows that it has changed, where it must not change one twice.
    pub(super) seen: Seen,
}

impl Noted {
    /// The place of the references of a partition.
    pub(super) fn routed_to(&mut self, target: &Arc<Target>) -> usize {
        let mut known = self.routed.iter();
        known
            .position(|(known, _)| Arc::ptr_eq(known, target))
            .unwrap_or_else(|| {
                self.routed.push((Arc::clone(target), Pending::default()));
                self.routed.len() - 1
            })
    }
}

/// Notes the references of a new row, or those of a changed one that are not the same.
pub(super) fn note_parents(
    table: &Target,
    row: &[Datum],
    before: Option<&Row>,
    pending: &mut Pending,
) {
    let has_key = |before: &Row| {
        let mut key = table.source.key.iter();
        key.all(|&at| before.get(at) == row.get(at))
    };
    for (at, reference) in table.parents.iter().enumerate() {
        // A check that was put off looks for the row by its key.
        let may_wait = reference.deferral != Deferral::Never;
        let is_same = before.is_some_and(|before| {
            reference
                .columns
                .iter()
                .all(|&column| before[column] == row[column])
                && (!may_wait || has_key(before))
        });
        if !is_same {
            pending.parents.push((at, row.to_vec()));
        }
    }
}

/// Notes the keys of a new row, or those of a changed one that are not the same, which the table
/// below does not look after.
pub(super) fn note_keys(
    table: &Target,
    row: &[Datum],
    before: Option<&Row>,
    pending: &mut Pending,
) {
    for (at, (_, key)) in table.keys.iter().enumerate() {
        if !key.is_looked_after() {
            continue;
        }
        let mut columns = key.columns.iter();
        let is_whole = !columns.any(|&column| row[column].is_null());
        let is_looked_at = if is_whole {
            key.may_wait()
        } else {
            key.nulls_alike
        };
        let is_same = || before.is_some_and(|before| has_same_key(key, before, row));
        if is_looked_at && !is_same() {
            pending.keys.push((at, row.to_vec()));
        }
    }
}

/// Whether two rows have the same key; a NULL is like another.
pub(super) fn has_same_key(key: &UniqueKey, one: &[Datum], other: &[Datum]) -> bool {
    key.columns.iter().all(|&at| match (&one[at], &other[at]) {
        (Datum::Null, Datum::Null) => true,
        (one, other) => one == other,
    })
}

/// Notes a row that has gone, or has another key.
pub(super) fn note_children(
    table: &Target,
    before: &[Datum],
    after: Option<&Row>,
    pending: &mut Pending,
) {
    for (at, reference) in table.children.iter().enumerate() {
        let is_same = after.is_some_and(|after| {
            reference
                .columns
                .iter()
                .all(|&column| before[column].is_alike(&after[column]))
        });
        if !is_same {
            pending.children.push((at, before.to_vec(), after.cloned()));
        }
    }
}

/// Notes a row that has moved from one partition of a table to another: a new key for those that
/// refer to that table, a deletion for those that refer to the partition. Fails if there are some
/// that refer to a table between, as it may have the row or not.
pub(super) fn note_moved(
    table: &Target,
    moves: &Moves,
    (before, after): (&Row, &Row),
    pending: &mut Pending,
) -> Result<()> {
    for (at, reference) in table.children.iter().enumerate() {
        let Some((above, _)) = &reference.above else {
            pending.children.push((at, before.clone(), None));
            continue;
        };
        let mut between = moves.router.levels.iter().skip(1);
        if let Some(between) = between.find(|level| level.oid == *above) {
            let root = &moves.table.source.name;
            return Err(points_between(&between.table, root));
        }
        let mut columns = reference.columns.iter();
        if !columns.all(|&column| before[column].is_alike(&after[column])) {
            pending
                .children
                .push((at, before.clone(), Some(after.clone())));
        }
    }
    Ok(())
}

fn points_between(between: &str, root: &str) -> SqlError {
    let message = "cannot move tuple across partitions when a non-root ancestor of the source partition is directly referenced in a foreign key";
    let detail = format!(
        "A foreign key points to ancestor \"{between}\" but not the root ancestor \"{root}\"."
    );
    let hint = format!("Consider defining the foreign key on table \"{root}\".");
    let state = SqlState::FEATURE_NOT_SUPPORTED;
    SqlError::new(state, message).detail(detail).hint(hint)
}

/// The place of a row, which no other row of the statement's tables has.
pub(super) fn stored_key(table: &Target, row: &[Datum]) -> StoredKey {
    (table.source.oid, key_datums(table, row))
}

/// The values of a row's key.
pub(super) fn key_datums(table: &Target, row: &[Datum]) -> Row {
    let key = table.source.key.iter();
    key.map(|&at| row.get(at).cloned().unwrap_or(Datum::Null))
        .collect()
}
