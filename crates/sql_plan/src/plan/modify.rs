//! Changes of a table: the rows, the rules that they must keep, and what is returned of them.
//!
//! Rules of a table (defaults, checks, generated columns, references) are bound when the plan is
//! made, so running it looks up no names.
//!
//! A partitioned table is a level: keys over the row, and for each partition the keys that it
//! takes. A partition may be a level itself, so a row goes down from level to level to a leaf.

use super::expression::Expr;
use super::node::{Node, Source};
use super::partition::{PartitionKeys, Takes};
use crate::catalog::{Action, Deferral, Oid};
use crate::types::Datum;
use std::sync::Arc;

/// `INSERT`, `UPDATE`, `DELETE` or `MERGE`.
#[derive(Clone, Debug)]
pub struct Modify {
    /// The table, with the rules for its rows.
    pub table: Arc<Target>,
    /// For `INSERT` the rows to insert; else rows of the table, followed by those of other tables;
    /// for a `MERGE` of rows that meet none NULLs in their place.
    pub input: Node,
    /// The change of each row.
    pub change: Change,
    /// Over the row of the table, followed by those of other tables.
    pub returning: Option<Vec<Expr>>,
}

/// The change of each row.
#[derive(Clone, Debug)]
pub enum Change {
    /// New rows.
    Insert(Insert),
    /// New values in rows that are there.
    Update {
        /// Positions of columns, and their values over the row of the input.
        set: Vec<(usize, Expr)>,
        /// The condition of the statement, tested again on rows that have changed.
        recheck: Option<Expr>,
        /// The way of rows that their partition does not take any more.
        moves: Option<Moves>,
    },
    /// Rows go.
    Delete {
        /// The condition of the statement, tested again on rows that have changed.
        recheck: Option<Expr>,
    },
    /// Rows are changed, go, or are new.
    Merge(Box<Merge>),
}

/// `MERGE`: what is done about the rows of an input.
#[derive(Clone, Debug)]
pub struct Merge {
    /// The condition by which rows meet, tested again on rows that have changed; none if the rows
    /// of the input are those of the source that meet none.
    pub on: Option<Expr>,
    /// The clauses of rows that meet, over the row of the table, followed by that of the source.
    pub matched: Vec<MergeClause>,
    /// The clauses of other rows of the source, over as many NULLs as the root has columns,
    /// followed by the row.
    pub unmatched: Vec<MergeClause>,
    /// The way of rows that their partition does not take any more.
    pub moves: Option<Moves>,
    /// The table of the statement, into which rows are inserted.
    pub root: Arc<Target>,
}

impl Merge {
    /// The way of rows to partitions.
    pub fn router(&self) -> Option<&Arc<Router>> {
        let moves = self.moves.as_ref().map(|moves| &moves.router);
        moves.or_else(|| {
            self.unmatched
                .iter()
                .find_map(|clause| match &clause.action {
                    MergeAction::Insert(insert) => insert.router.as_ref(),
                    _ => None,
                })
        })
    }
}

/// A clause of `MERGE`: the first one whose condition is true counts.
#[derive(Clone, Debug)]
pub struct MergeClause {
    /// The condition.
    pub condition: Option<Expr>,
    /// The action.
    pub action: MergeAction,
}

/// The action of a clause of `MERGE`.
#[derive(Clone, Debug)]
pub enum MergeAction {
    /// The row stays as it is.
    Nothing,
    /// New values for columns.
    Update(Vec<(usize, Expr)>),
    /// The row goes.
    Delete,
    /// A new row.
    Insert(Insert),
}

/// The rows of an insertion.
#[derive(Clone, Debug)]
pub struct Insert {
    /// The value of each column over the row of the input.
    pub values: Vec<Expr>,
    /// The remedy for a key that is there already; none if that is an error.
    pub conflict: Option<Conflict>,
    /// The way to partitions, if the table has no rows of its own.
    pub router: Option<Arc<Router>>,
}

/// The way of rows to other partitions.
#[derive(Clone, Debug)]
pub struct Moves {
    /// The way down from that table.
    pub router: Arc<Router>,
    /// The table of the statement, whose rows the router takes.
    pub table: Arc<Target>,
    /// For each column of that table the one of the partition.
    pub columns: Vec<usize>,
}

/// The remedy for a row whose key is there already.
#[derive(Clone, Debug)]
pub enum Conflict {
    /// Leave it; for any of these keys, or for all of the table's.
    Nothing(Vec<UniqueKey>),
    /// Change the row that is there. Values are over that row, then the one that was to be
    /// inserted.
    Update {
        /// The key that decides whether a row is there.
        key: UniqueKey,
        /// Views through which the row is changed, and their conditions: it must be one of theirs.
        shown: Vec<(String, Expr)>,
        /// Positions of columns, and their new values.
        set: Vec<(usize, Expr)>,
        /// The row stays as it is unless this is true.
        condition: Option<Expr>,
    },
}

impl Conflict {
    /// The keys that the clause names.
    pub fn keys(&self) -> &[UniqueKey] {
        match self {
            Self::Nothing(keys) => keys,
            Self::Update { key, .. } => std::slice::from_ref(key),
        }
    }
}

/// A unique key of a table.
#[derive(Clone, Debug)]
pub struct UniqueKey {
    /// The index below; none for the primary key.
    pub index: Option<String>,
    /// Positions of its columns.
    pub columns: Vec<usize>,
    /// The number of its constraint; 0 for an index without one.
    pub constraint: Oid,
    /// The moment of its checks.
    pub deferral: Deferral,
    /// Whether a NULL is like another (`NULLS NOT DISTINCT`).
    pub nulls_alike: bool,
}

impl UniqueKey {
    /// Whether rows may have the same key until the statement ends: the index below is none that
    /// holds each key once.
    pub fn may_wait(&self) -> bool {
        self.deferral != Deferral::Never
    }

    /// Whether a statement looks after some of its keys, and not the table below.
    pub fn is_looked_after(&self) -> bool {
        self.may_wait() || self.nulls_alike
    }
}

/// A table with the rules for its rows.
#[derive(Clone, Debug)]
pub struct Target {
    /// The table.
    pub source: Source,
    /// The name of its schema, for messages.
    pub schema: String,
    /// Its columns, hidden ones included.
    pub columns: Vec<TargetColumn>,
    /// Columns of clients; those after them are computed for indexes.
    pub visible: usize,
    /// Names and conditions over the row.
    pub checks: Vec<(String, Expr)>,
    /// Views whose rows the rows have to be, and their conditions over the row.
    pub views: Vec<(String, Expr)>,
    /// Generated columns: positions, and values over the row.
    pub generated: Vec<(usize, Expr)>,
    /// Unique keys with the names of their constraints.
    pub keys: Vec<(String, UniqueKey)>,
    /// Columns of indexes that are not unique.
    pub indexed: Vec<usize>,
    /// References to other tables.
    pub parents: Vec<Reference>,
    /// References of other tables to this one.
    pub children: Vec<Reference>,
    /// The partitions that it is: levels over its rows, and its arm of each.
    pub within: Vec<(Level, usize)>,
    /// The way in which errors show its rows.
    pub shown: Shown,
}

/// A row as errors show it: as one of the table that the statement names.
#[derive(Clone, Debug)]
pub struct Shown {
    /// That table. Roles that may not read it see the columns only that the statement gives.
    pub table: Oid,
    /// The place of each of its columns.
    pub columns: Vec<usize>,
    /// The places of columns that the statement gives values for.
    pub given: Vec<usize>,
}

impl Shown {
    /// Rows of a table as they are, where no statement gives values for its columns.
    pub fn own(table: Oid, columns: usize) -> Self {
        Self {
            table,
            columns: (0..columns).collect(),
            given: Vec::new(),
        }
    }
}

impl Target {
    /// Whether new values of these columns may give a row another key, or another place if it may
    /// move to one.
    pub fn may_change_key(
        &self,
        mut columns: impl Iterator<Item = usize>,
        moves: Option<&Moves>,
    ) -> bool {
        let of_key = |at: usize| {
            let mut keys = self.keys.iter();
            self.source.key.contains(&at) || keys.any(|(_, key)| key.columns.contains(&at))
        };
        let of_place = |at: usize| {
            let mut keys = self.within.iter().flat_map(|(level, _)| &level.keys);
            let mut is_read = false;
            keys.any(|(key, _)| {
                key.columns(&mut |column| is_read |= column == at);
                is_read
            })
        };
        let mut generated = self.generated.iter();
        generated.any(|(at, _)| of_key(*at))
            || columns.any(|at| of_key(at) || moves.is_some() && of_place(at))
    }

    /// Whether a row has another key with its new values.
    pub fn changes_key(&self, before: &[Datum], after: &[Datum]) -> bool {
        let unique = self.keys.iter().flat_map(|(_, key)| &key.columns);
        let mut keys = self.source.key.iter().chain(unique);
        keys.any(|&at| !before[at].is_identical(&after[at]))
    }
}

/// A column of a target.
#[derive(Clone, Debug)]
pub struct TargetColumn {
    /// The name, for messages.
    pub name: String,
    /// Whether NULL is refused.
    pub not_null: bool,
    /// Conditions of the column's domain, with their names.
    pub domain_checks: Vec<(String, String, Expr)>,
}

/// A foreign key, from the table that has it or the one it refers to.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The number of the constraint.
    pub oid: Oid,
    /// The name of the constraint, for messages.
    pub constraint: String,
    /// The other table: the parent of a reference, or the child that refers.
    pub other: Oid,
    /// The name of the other table, for messages; of a partition that of the table that has it.
    pub other_name: String,
    /// The tables with the other rows: the other table, or the partitions of a parent.
    pub others: Vec<KeyRows>,
    /// Columns of this table.
    pub columns: Vec<usize>,
    /// The table that the child refers to, and its columns, if this is a partition of it.
    pub above: Option<(Oid, Vec<usize>)>,
    /// The effect of a new key in the parent.
    pub on_update: Action,
    /// The effect of a deletion in the parent.
    pub on_delete: Action,
    /// The columns of the child that a deletion sets; none for all of the key.
    pub set_on_delete: Vec<usize>,
    /// Whether a key with some NULLs, and not only NULLs, is refused (`MATCH FULL`).
    pub is_full: bool,
    /// The moment of its checks.
    pub deferral: Deferral,
}

/// A table whose rows have the columns of a foreign key.
#[derive(Clone, Debug)]
pub struct KeyRows {
    /// The table, to be read and changed.
    pub source: Source,
    /// The columns.
    pub columns: Vec<usize>,
    /// The way to rows by them.
    pub access: ReferenceAccess,
    /// The keys of its rows on each level, if it is a partition.
    pub partition: Arc<[PartitionKeys]>,
}

impl KeyRows {
    /// Whether a row of the table may have these values.
    pub fn may_have(&self, values: &[Datum]) -> bool {
        self.partition.iter().all(|level| {
            let keys = level.columns.iter().map(|key| {
                let at = self.columns.iter().position(|own| Some(*own) == *key)?;
                values.get(at).cloned()
            });
            let keys: Option<Vec<Datum>> = keys.collect();
            keys.is_none_or(|keys| level.has(&keys))
        })
    }
}

/// The way to the rows of the other table.
#[derive(Clone, Debug)]
pub enum ReferenceAccess {
    /// The columns begin the primary key.
    Primary,
    /// This secondary index begins with the columns.
    Index(String),
    /// No index begins with the columns: all rows are looked at.
    All,
}

/// A partitioned table.
#[derive(Clone, Debug)]
pub struct Level {
    /// The table.
    pub oid: Oid,
    /// The name of the table.
    pub table: String,
    /// Expressions over the row, and how they are written.
    pub keys: Vec<(Expr, String)>,
    /// Its partitions.
    pub arms: Vec<Arm>,
}

/// A partition of a level.
#[derive(Clone, Debug)]
pub struct Arm {
    /// The partition.
    pub table: Oid,
    /// The keys of its rows.
    pub takes: Takes,
    /// The level or leaf that the partition is.
    pub next: Next,
}

/// The place that follows an arm.
#[derive(Clone, Copy, Debug)]
pub enum Next {
    /// Nobody asks for it.
    Unknown,
    /// The level with this position in the router.
    Level(usize),
    /// The leaf with this position in the router.
    Leaf(usize),
}

/// All levels below a partitioned table, and the tables at their ends.
#[derive(Clone, Debug)]
pub struct Router {
    /// The first is the table itself. Keys are over rows of it.
    pub levels: Vec<Level>,
    /// The tables that have rows.
    pub leaves: Vec<Leaf>,
    /// The partitions that the table itself is, over rows of it.
    pub within: Vec<(Level, usize)>,
}

/// A partition that has rows.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// The partition, with the rules for its rows.
    pub target: Arc<Target>,
    /// For each of its columns the one of the table above.
    pub columns: Vec<usize>,
    /// The remedy for a key of its rows that is there already.
    pub conflict: Option<Conflict>,
}

impl Level {
    /// The arm that takes a row with these keys.
    pub fn arm(&self, keys: &[Datum]) -> Option<usize> {
        let takes = |arm: &Arm| arm.takes.has(keys);
        let found = self.arms.iter().position(takes);
        found.or_else(|| self.rest())
    }

    /// The arm of the rows that no other takes.
    pub fn rest(&self) -> Option<usize> {
        let is_rest = |arm: &Arm| matches!(arm.takes, Takes::Rest);
        self.arms.iter().position(is_rest)
    }
}

impl Leaf {
    /// Its row of a row of the table above.
    pub fn row_of(&self, row: &[Datum]) -> Vec<Datum> {
        let mut own: Vec<Datum> = self.columns.iter().map(|&at| row[at].clone()).collect();
        // Those of indexes are computed.
        own.resize(self.target.columns.len(), Datum::Null);
        own
    }

    /// The row of the table above, of `width` columns, with the number of this table after it.
    pub fn row_above(&self, own: &[Datum], width: usize) -> Vec<Datum> {
        let mut row = vec![Datum::Null; width];
        for (value, &at) in own.iter().zip(&self.columns) {
            row[at] = value.clone();
        }
        row.push(Datum::Oid(self.target.source.oid));
        row
    }
}
