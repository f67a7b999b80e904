//! The tables that a statement uses, each with the lock that it takes before it runs.
//!
//! A statement that reads a table keeps its definition (*access share*), and one that changes rows
//! says so (*row exclusive*), as in PostgreSQL; rows that are locked and stay as they are take less
//! (*row share*). The tables of a foreign key count where the
//! statement can change what the key compares.

use super::modify::{Change, Modify, Reference, Target};
use super::node::{Node, Source};
use crate::catalog::Oid;
use indelible::{Table, TableId, TableLock};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A table that a statement uses.
#[derive(Clone, Debug)]
pub struct Used {
    /// Its number in the catalogue.
    pub oid: Oid,
    /// The table below.
    pub table: Table,
    /// How it is locked.
    pub lock: TableLock,
}

/// Tables that a statement uses, each once.
#[derive(Debug, Default)]
pub struct UsedTables(BTreeMap<TableId, Used>);

impl UsedTables {
    /// The statement reads a table.
    pub fn read(&mut self, oid: Oid, table: &Table) {
        self.0.entry(table.id()).or_insert_with(|| Used {
            oid,
            table: table.clone(),
            lock: TableLock::AccessShare,
        });
    }

    /// The statement locks rows of a table, and leaves them as they are.
    pub fn lock_rows(&mut self, source: &Source) {
        self.read(source.oid, &source.table);
        if let Some(used) = self.0.get_mut(&source.table.id())
            && used.lock == TableLock::AccessShare
        {
            used.lock = TableLock::IntentShared;
        }
    }

    /// The statement reads those of others, too.
    pub fn append(&mut self, mut others: Self) {
        self.0.append(&mut others.0);
    }

    /// Those of a statement of these nodes, whose tables have been read.
    #[must_use]
    pub fn of_nodes<'n>(mut self, nodes: impl IntoIterator<Item = &'n Node>) -> Vec<Used> {
        nodes.into_iter().for_each(|node| self.node(node));
        self.0.into_values().collect()
    }

    fn node(&mut self, node: &Node) {
        match node {
            Node::Modify(modify) => self.modify(modify),
            Node::Shared(shared) => self.node(&shared.node),
            Node::Sort(sort) => self.node(&sort.input),
            Node::SetOperation(operation) => {
                self.node(&operation.left);
                self.node(&operation.right);
            }
            _ => {}
        }
    }

    fn modify(&mut self, modify: &Modify) {
        // The columns that get values, if others keep theirs.
        let mut set = None;
        let router = match &modify.change {
            Change::Insert(insert) => insert.router.as_ref(),
            Change::Update {
                set: values, moves, ..
            } => {
                set = moves.is_none().then_some(values.as_slice());
                moves.as_ref().map(|moves| &moves.router)
            }
            Change::Delete { .. } => None,
            Change::Merge(merge) => {
                self.target(&merge.root, |_| true, |_| true);
                merge.router()
            }
        };
        let touches = |reference: &Reference| {
            set.is_none_or(|set| set.iter().any(|(at, _)| reference.columns.contains(at)))
        };
        let is_plain_insert =
            matches!(&modify.change, Change::Insert(insert) if insert.conflict.is_none());
        let deletes = matches!(modify.change, Change::Delete { .. });
        let leaves = router.into_iter().flat_map(|router| &router.leaves);
        let leaves = leaves.map(|leaf| &leaf.target);
        for target in [&modify.table].into_iter().chain(leaves) {
            self.target(
                target,
                |parent| !deletes && touches(parent),
                |child| !is_plain_insert && touches(child),
            );
        }
    }

    /// Rows of a table are changed, and its references to parents and from children are looked at
    /// where these say so.
    fn target(
        &mut self,
        target: &Arc<Target>,
        uses_parent: impl Fn(&Reference) -> bool,
        uses_child: impl Fn(&Reference) -> bool,
    ) {
        self.change(&target.source);
        let parents = target.parents.iter().filter(|key| uses_parent(key));
        let children = target.children.iter().filter(|key| uses_child(key));
        for other in parents.chain(children).flat_map(|key| &key.others) {
            self.read(other.source.oid, &other.source.table);
        }
    }

    fn change(&mut self, source: &Source) {
        self.read(source.oid, &source.table);
        if let Some(used) = self.0.get_mut(&source.table.id()) {
            used.lock = TableLock::IntentExclusive;
        }
    }
}
