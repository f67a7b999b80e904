//! A row in a few words, and the effect of statements on it.
//!
//! Where one thread changes the partition, the words after any prefix of a list follow from the
//! words before it. So a look compares the content row by row, whatever was run, and half a
//! transaction shows as a difference.

use super::SysbenchOptions;
use super::digits::digest;
use super::list::{Action, NewIds, Statement};
use super::schema::RowSource;
use std::collections::BTreeMap;

/// The content of a row: `k`, and digests of its texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) k: i32,
    pub(super) c: u32,
    pub(super) pad: u32,
}

/// The change that a statement makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// A greater `k`.
    Count,
    /// Another `c`.
    Text(u32),
    /// No row.
    Nothing,
    /// A row, where there is none.
    Row(Words),
}

impl Write {
    /// The change that a statement makes, if it makes one.
    pub(super) fn of(statement: Statement, seed: u64, text: &mut String) -> Option<Self> {
        match statement.action {
            Action::PointSelect
            | Action::SimpleRange
            | Action::SumRange
            | Action::OrderRange
            | Action::DistinctRange => None,
            Action::UpdateIndex => Some(Self::Count),
            Action::UpdateNonIndex => {
                statement.texts(seed).c(text);
                Some(Self::Text(digest(text)))
            }
            Action::Delete => Some(Self::Nothing),
            Action::Insert | Action::Append => {
                let mut texts = statement.texts(seed);
                texts.c(text);
                let c = digest(text);
                texts.pad(text);
                Some(Self::Row(Words {
                    k: statement.k.cast_signed(),
                    c,
                    pad: digest(text),
                }))
            }
        }
    }

    /// The row after the change.
    pub(super) fn apply(self, row: Option<Words>) -> Option<Words> {
        match (self, row) {
            (Self::Count, Some(row)) => Some(Words {
                k: row.k.wrapping_add(1),
                ..row
            }),
            (Self::Text(c), Some(row)) => Some(Words { c, ..row }),
            (Self::Nothing, _) | (Self::Count | Self::Text(_), None) => None,
            (Self::Row(_), Some(row)) | (Self::Row(row), None) => Some(row),
        }
    }
}

/// The rows of a table in a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rows {
    first: u32,
    /// Those of the ids that are loaded, in their order.
    loaded: Vec<Option<Words>>,
    /// Those with ids of other partitions, or after all loaded ones.
    added: BTreeMap<u32, Words>,
}

impl Rows {
    /// No row yet, with room for the partition's ids.
    pub(super) fn new(options: &SysbenchOptions, partition: u32) -> Self {
        let (first, count) = options.ids_of(partition);
        Self {
            first,
            loaded: vec![None; count as usize],
            added: BTreeMap::new(),
        }
    }

    /// The initial rows of all tables.
    pub(super) fn all_loaded(options: &SysbenchOptions, partition: u32) -> Vec<Self> {
        let mut text = String::new();
        let of_table = |table| {
            let source = RowSource::new(options, partition, table);
            let mut rows = Self::new(options, partition);
            for (id, row) in (rows.first..).zip(&mut rows.loaded) {
                *row = Some(source.words(id, &mut text));
            }
            rows
        };
        (0..options.tables).map(of_table).collect()
    }

    fn place(&self, id: u32) -> Option<usize> {
        let place = id.checked_sub(self.first)? as usize;
        (place < self.loaded.len()).then_some(place)
    }

    pub(super) fn get(&self, id: u32) -> Option<Words> {
        match self.place(id) {
            Some(place) => self.loaded[place],
            None => self.added.get(&id).copied(),
        }
    }

    pub(super) fn set(&mut self, id: u32, row: Option<Words>) {
        match (self.place(id), row) {
            (Some(place), row) => self.loaded[place] = row,
            (None, Some(row)) => {
                self.added.insert(id, row);
            }
            (None, None) => {
                self.added.remove(&id);
            }
        }
    }

    /// The ids of loaded rows that are away.
    pub(super) fn missing(&self) -> impl Iterator<Item = u32> {
        let rows = (self.first..).zip(&self.loaded);
        rows.filter(|(_, row)| row.is_none()).map(|(id, _)| id)
    }

    /// Ids with rows that no loaded id has.
    pub(super) fn added(&self) -> impl Iterator<Item = u32> {
        self.added.keys().copied()
    }

    /// The ids whose rows differ, in ascending order but for those that only `other` has added.
    pub(super) fn differing<'r>(&'r self, other: &'r Self) -> impl Iterator<Item = u32> + 'r {
        let pairs = (self.first..).zip(self.loaded.iter().zip(&other.loaded));
        let loaded = pairs.filter(|(_, (own, its))| own != its).map(|(id, _)| id);
        let own = self.added.iter();
        let added = own.filter(|(id, row)| other.added.get(id) != Some(row));
        let foreign = other.added.keys().filter(|id| !self.added.contains_key(id));
        loaded
            .chain(added.map(|(id, _)| *id))
            .chain(foreign.copied())
    }
}

/// Rows as a list changes them, and the number of those that differ from the rows found.
pub(super) struct Expected<'f> {
    pub(super) tables: Vec<Rows>,
    found: &'f [Rows],
    pub(super) differing: usize,
    ids: NewIds,
    seed: u64,
    text: String,
}

impl<'f> Expected<'f> {
    /// Before the first statement of a list.
    pub(super) fn new(
        options: &SysbenchOptions,
        list: u32,
        (before, found): (&[Rows], &'f [Rows]),
    ) -> Self {
        let pairs = before.iter().zip(found);
        Self {
            tables: before.to_vec(),
            found,
            differing: pairs
                .map(|(before, found)| before.differing(found).count())
                .sum(),
            ids: NewIds::new(options, list),
            seed: options.seed,
            text: String::new(),
        }
    }

    /// After the statements of a transaction.
    pub(super) fn apply(&mut self, statements: &[Statement]) {
        for statement in statements {
            if let Some(write) = Write::of(*statement, self.seed, &mut self.text) {
                let (table, id) = (usize::from(statement.table), self.ids.id(*statement));
                let found = self.found[table].get(id);
                let before = self.tables[table].get(id);
                let after = write.apply(before);
                self.tables[table].set(id, after);
                self.differing += usize::from(after != found);
                self.differing -= usize::from(before != found);
            }
            self.ids.pass(*statement);
        }
    }
}
