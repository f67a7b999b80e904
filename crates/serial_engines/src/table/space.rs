//! The tables of one partition that is updated in place: tuples, and the upkeep of their indexes.
//!
//! Written once for volatile and durable memory: `W` decides how published bytes change, `I` which
//! index is used. A statement that fails leaves pending changes; the engine rolls them back to
//! where the statement began.

mod locate;
mod many;

use super::Tables;
use super::directory::{self, Directory, NewDescriptor, RootsCounted};
use super::tuples::Tuples;
use crate::index::hints::{HintBudget, Hints};
use crate::index::{IndexShape, OrderedIndex};
use locate::TOGETHER;
use pmem::{Arena, Memory, Outcome, Part};
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::Arc;
use storage::engine::{Direction, ScanRange, VerifyReport};
use storage::log::WriteSet;
use storage::record::{
    Changes, IndexDef, IndexId, KeyBuf, LayoutKind, MAX_KEY_WORDS, Row, TableDef, TableId, key_hash,
};
use storage::table::{Numbered, Table, find, find_mut};
use storage::{Result, StorageError};

/// All tables of one partition.
pub struct TableSpace<M: Memory, W, I> {
    directory: Directory,
    layout: LayoutKind,
    node_bytes: usize,
    tables: Numbered<TableState<I>>,
    key: KeyBuf,
    hints: HintBudget,
    inserted: Inserted,
    /// Table and hash of the key that was announced last.
    announced: Option<(TableId, u64)>,
    device: PhantomData<fn(M, W)>,
}

/// Rows of the open transaction that get a hint when it commits. To forget some is allowed.
#[derive(Default)]
struct Inserted {
    /// Whether there may be rows that an abort takes away, so that look-ups make no hints.
    has_any: bool,
    /// Table, hash of the key, tuple.
    rows: Vec<(TableId, u64, u64)>,
}

/// Rows of one transaction that get a hint at its commit.
const HINTED_MAX: usize = 1 << 14;

/// One table that is open.
struct TableState<I> {
    table: Arc<Table>,
    descriptor: u64,
    tuples: Tuples,
    hints: Hints,
    primary: I,
    secondary: Vec<I>,
    /// A whole row, for keys of secondary indexes.
    row: Row,
    changed: Row,
}

impl<M: Memory, W: WriteSet<M>, I: OrderedIndex<M, W>> TableSpace<M, W, I> {
    /// The tables whose list starts at the word `directory`; the caller has stored 0 there if there
    /// are none.
    pub fn open(
        arena: &Arena<M>,
        directory: u64,
        layout: LayoutKind,
        node_bytes: usize,
        hints: HintBudget,
    ) -> Result<Self> {
        let mut space = Self {
            directory: Directory::new(directory, RootsCounted::All),
            layout,
            node_bytes,
            tables: Numbered::new(),
            key: KeyBuf::default(),
            hints,
            inserted: Inserted::default(),
            announced: None,
            device: PhantomData,
        };
        space.reload(arena)?;
        Ok(space)
    }
}

impl<M: Memory, W: WriteSet<M>, I: OrderedIndex<M, W>> Tables<M, W> for TableSpace<M, W, I> {
    fn tables(&self) -> Vec<Arc<Table>> {
        self.tables
            .values()
            .map(|state| Arc::clone(&state.table))
            .collect()
    }

    fn reload(&mut self, arena: &Arena<M>) -> Result<()> {
        self.tables.clear();
        let directory = self.directory;
        directory.read(arena, |at, def| {
            let table = Table::new(def, self.layout)?;
            let primary = self.open_index(arena, at, &table, None)?;
            let secondary = (0..table.secondary.len())
                .map(|number| self.open_index(arena, at, &table, Some(number)))
                .collect::<Result<_>>()?;
            self.add(TableState::new(table, at, &self.hints, primary, secondary));
            Ok(())
        })
    }

    fn create_table(&mut self, arena: &mut Arena<M>, writes: &mut W, def: &TableDef) -> Result<()> {
        if self.find(def.id).is_ok() {
            return Err(StorageError::Unsupported(format!(
                "table number {} is taken",
                def.id.0
            )));
        }
        let new = NewDescriptor {
            def,
            next: self.directory.first(arena)?,
            roots: &[],
            shorter_than: None,
        };
        let state = self.write_descriptor(arena, writes, &new)?;
        self.directory.link(arena, writes, state.descriptor)?;
        self.add(state);
        Ok(())
    }

    fn drop_table(&mut self, arena: &mut Arena<M>, writes: &mut W, id: TableId) -> Result<()> {
        writes.visible_all(arena)?;
        let state = self.find(id)?;
        let mut pointers = Vec::new();
        collect(arena, state, &mut pointers)?;
        for tuple in pointers {
            state.tuples.free(arena, writes, tuple)?;
        }
        for index in std::iter::once(&state.primary).chain(&state.secondary) {
            index.free(arena, writes)?;
        }
        let descriptor = state.descriptor;
        let next = directory::next(arena, descriptor)?;
        self.directory.replace(arena, writes, descriptor, next)?;
        self.tables.remove(&id);
        Ok(())
    }

    fn create_index(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        id: TableId,
        index: &IndexDef,
    ) -> Result<()> {
        writes.visible_all(arena)?;
        let old = self.find(id)?;
        let mut def = old.table.def.clone();
        def.indexes.push(index.clone());
        let mut rows = Vec::new();
        collect(arena, old, &mut rows)?;
        let mut state = self.replace_descriptor(arena, writes, &def, None)?;
        let number = state.secondary.len() - 1;
        assert_eq!(
            state.table.def.indexes[number].id, index.id,
            "a new index is the last one of its table"
        );
        state.fill_index(arena, writes, number, &rows)?;
        self.add(state);
        Ok(())
    }

    fn drop_index(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        id: TableId,
        index: IndexId,
    ) -> Result<()> {
        writes.visible_all(arena)?;
        let old = self.find(id)?;
        let number = old.table.index_number(index)?;
        old.secondary[number].free(arena, writes)?;
        let mut def = old.table.def.clone();
        def.indexes.remove(number);
        let state = self.replace_descriptor(arena, writes, &def, Some(number))?;
        self.add(state);
        Ok(())
    }

    #[inline]
    fn get(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        id: TableId,
        key: &[u64],
        row: &mut Row,
    ) -> Result<bool> {
        let learns = !self.inserted.has_any;
        let state = self.find_mut(id)?;
        let Some(tuple) = state.locate(arena, writes, key, learns)? else {
            return Ok(false);
        };
        state.tuples.read(arena, tuple, row)?;
        Ok(true)
    }

    /// Asks for the hint of the row, and for the row that was announced before, whose hint is there
    /// by now.
    #[inline]
    fn announce(&mut self, arena: &Arena<M>, id: TableId, key: &[u64]) {
        let Ok(state) = self.find(id) else {
            return;
        };
        let hash = key_hash(key);
        state.hints.prefetch(hash);
        let before = self.announced.replace((id, hash));
        if let Some((id, hash)) = before
            && let Some(state) = self.tables.get(&id)
        {
            state.prefetch(arena, hash);
        }
    }

    fn get_many(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        id: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        let learns = !self.inserted.has_any;
        let state = self.find_mut(id)?;
        for (group, keys) in keys.chunks(TOGETHER).enumerate() {
            let mut found = [None; TOGETHER];
            state.locate_many(arena, writes, keys, &mut found, learns)?;
            for (place, tuple) in found[..keys.len()].iter().enumerate() {
                match tuple {
                    Some(tuple) => {
                        state.tuples.read(arena, *tuple, &mut state.row)?;
                        visit(group * TOGETHER + place, Some(&state.row));
                    }
                    None => visit(group * TOGETHER + place, None),
                }
            }
        }
        Ok(())
    }

    fn scan(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        let state = self.find_mut(range.table)?;
        let index = match range.index {
            None => &state.primary,
            Some(id) => &state.secondary[state.table.index_number(id)?],
        };
        let (tuples, row) = (&state.tuples, &mut state.row);
        writes.visible(arena, index.identity())?;
        // The key of a row whose writes are not in place yet. They are seldom met, and to drain
        // them takes two fences more.
        let mut unseen: Option<KeyBuf> = None;
        loop {
            let bounds = match (unseen.as_deref(), range.direction) {
                (None, _) => (&*range.low, &*range.high),
                (Some(key), Direction::Forward) => (key, &*range.high),
                (Some(key), Direction::Backward) => (&*range.low, key),
            };
            let (shared, mut met) = (&*arena, None);
            index.scan(
                shared,
                bounds,
                range.direction,
                tuples.bytes(),
                &mut |key, tuple| {
                    if writes.is_touched(tuple) {
                        met = Some(KeyBuf::from_words(key));
                        return Ok(ControlFlow::Break(()));
                    }
                    tuples.read(shared, tuple, row)?;
                    shared.enter(Part::Index);
                    Ok(visit(row))
                },
            )?;
            if met.is_none() {
                return Ok(());
            }
            assert!(
                unseen.is_none(),
                "a row has writes that are not in place after all were made visible"
            );
            unseen = met;
            writes.visible_all(arena)?;
        }
    }

    fn insert(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        id: TableId,
        row: &Row,
    ) -> Result<()> {
        let mut key = std::mem::take(&mut self.key);
        self.inserted.has_any = true;
        let state = find_mut(&mut self.tables, id)?;
        let tuple = state.tuples.insert(arena, writes, row)?;
        state.table.primary.encode_row(row, &mut key)?;
        let hash = key_hash(&key);
        state.hints.prefetch(hash);
        if !state.primary.insert(arena, writes, &key, tuple)? {
            return Err(state.table.duplicate(None, row));
        }
        for (number, index) in state.secondary.iter_mut().enumerate() {
            state.table.secondary[number].encode_row(row, &mut key)?;
            if !index.insert(arena, writes, &key, tuple)? {
                return Err(state.table.duplicate(Some(number), row));
            }
        }
        self.key = key;
        if !self.hints.is_zero() && self.inserted.rows.len() < HINTED_MAX {
            self.inserted.rows.push((id, hash, tuple));
        }
        Ok(())
    }

    fn insert_many(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        id: TableId,
        rows: &[&Row],
    ) -> Result<()> {
        self.inserted.has_any = true;
        find_mut(&mut self.tables, id)?.insert_many(arena, writes, rows)
    }

    fn update(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        id: TableId,
        key: &[u64],
        changes: &Changes,
    ) -> Result<bool> {
        let learns = !self.inserted.has_any;
        let state = self.find_mut(id)?;
        let Some(tuple) = state.locate(arena, writes, key, learns)? else {
            return Ok(false);
        };
        if state.table.changes_an_index(changes) {
            state.update_keys(arena, writes, tuple, changes)?;
        }
        state.tuples.update(arena, writes, tuple, changes)?;
        writes.touch(tuple);
        Ok(true)
    }

    fn delete(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        id: TableId,
        key: &[u64],
    ) -> Result<bool> {
        // The transaction may have inserted the row itself.
        self.inserted.rows.clear();
        let state = self.find_mut(id)?;
        let Some(tuple) = state.primary.remove(arena, writes, key)? else {
            return Ok(false);
        };
        state.hints.remove(key_hash(key), tuple);
        writes.visible(arena, tuple)?;
        if !state.secondary.is_empty() {
            state.tuples.read(arena, tuple, &mut state.row)?;
            let mut key = KeyBuf::default();
            for (number, index) in state.secondary.iter_mut().enumerate() {
                state.table.secondary[number].encode_row(&state.row, &mut key)?;
                index.remove(arena, writes, &key)?;
            }
        }
        state.tuples.free(arena, writes, tuple)?;
        Ok(true)
    }

    fn statement_undone(&mut self) {
        self.inserted.rows.clear();
    }

    #[inline]
    fn end_transaction(&mut self, arena: &Arena<M>, outcome: Outcome) {
        if self.inserted.has_any {
            self.settle_inserted(arena, outcome);
        }
    }

    fn hint_bytes(&self) -> u64 {
        self.hints.bytes()
    }

    fn check(&mut self, arena: &Arena<M>, block: &mut dyn FnMut(u64), report: &mut VerifyReport) {
        for state in self.tables.values_mut() {
            block(state.descriptor);
            state.check(arena, block, report);
        }
    }
}

impl<M: Memory, W: WriteSet<M>, I: OrderedIndex<M, W>> TableSpace<M, W, I> {
    fn find(&self, id: TableId) -> Result<&TableState<I>> {
        find(&self.tables, id)
    }

    fn find_mut(&mut self, id: TableId) -> Result<&mut TableState<I>> {
        find_mut(&mut self.tables, id)
    }

    /// Gives the rows of a transaction that has committed their hints.
    fn settle_inserted(&mut self, arena: &Arena<M>, outcome: Outcome) {
        self.inserted.has_any = false;
        for (id, hash, tuple) in self.inserted.rows.drain(..) {
            if outcome == Outcome::Committed
                && let Some(state) = self.tables.get_mut(&id)
            {
                state.hint::<M, W>(arena, hash, tuple);
            }
        }
    }

    fn add(&mut self, state: TableState<I>) {
        self.tables.insert(state.table.def.id, state);
    }

    fn shape(&self, key_words: usize) -> IndexShape {
        IndexShape {
            node_bytes: self.node_bytes,
            key_words,
        }
    }

    fn open_index(
        &self,
        arena: &Arena<M>,
        descriptor: u64,
        table: &Table,
        number: Option<usize>,
    ) -> Result<I> {
        let shape = self.shape(table.encoder(number).shape().words);
        I::open(
            arena,
            root_word(descriptor, number),
            shape,
            tag(table.def.id),
        )
    }

    /// Writes a descriptor with the indexes that it has roots of, and makes the others empty.
    fn write_descriptor(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        new: &NewDescriptor<'_>,
    ) -> Result<TableState<I>> {
        let table = Table::new(new.def.clone(), self.layout)?;
        let at = self.directory.write(arena, writes, new)?;
        let mut indexes = Vec::with_capacity(table.secondary.len() + 1);
        for number in std::iter::once(None).chain((0..table.secondary.len()).map(Some)) {
            indexes.push(if indexes.len() < new.roots.len() {
                self.open_index(arena, at, &table, number)?
            } else {
                let shape = self.shape(table.encoder(number).shape().words);
                let root_word = root_word(at, number);
                I::create(arena, writes, root_word, shape, tag(table.def.id))?
            });
        }
        let secondary = indexes.split_off(1);
        let primary = indexes.remove(0);
        Ok(TableState::new(table, at, &self.hints, primary, secondary))
    }

    /// Puts a descriptor for `def` in the place of the table's old one, without the index number
    /// `dropped`; indexes that `def` has beyond the old ones are made empty.
    fn replace_descriptor(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        def: &TableDef,
        dropped: Option<usize>,
    ) -> Result<TableState<I>> {
        let old = self.find(def.id)?;
        let old_at = old.descriptor;
        let mut kept = vec![arena.word(old.primary.identity())?];
        for (number, index) in old.secondary.iter().enumerate() {
            if Some(number) != dropped {
                kept.push(arena.word(index.identity())?);
            }
        }
        let new = NewDescriptor {
            def,
            next: directory::next(arena, old_at)?,
            roots: &kept,
            // Without an index it is shorter, so a full pool need not refuse a change that frees
            // space.
            shorter_than: dropped.map(|_| old_at),
        };
        let state = self.write_descriptor(arena, writes, &new)?;
        if state.descriptor != old_at {
            self.directory
                .replace(arena, writes, old_at, state.descriptor)?;
        }
        Ok(state)
    }
}

/// The word with the root of an index: the one in this place of the definition, or the primary one.
fn root_word(descriptor: u64, number: Option<usize>) -> u64 {
    number.map_or_else(
        || directory::rows_root(descriptor),
        |number| directory::index_root(descriptor, number),
    )
}

impl<I> TableState<I> {
    fn new(
        table: Table,
        descriptor: u64,
        hints: &HintBudget,
        primary: I,
        secondary: Vec<I>,
    ) -> Self {
        assert_eq!(
            table.secondary.len(),
            secondary.len(),
            "each index of a definition is open"
        );
        let layout = Arc::clone(&table.layout);
        let tuples = Tuples::new(layout, &table.primary, tag(table.def.id));
        let hints = Hints::new(hints, tuples.block_bytes());
        let row = Row::new(Arc::clone(&table.layout));
        let changed = Row::new(Arc::clone(&table.layout));
        Self {
            table: Arc::new(table),
            descriptor,
            tuples,
            hints,
            primary,
            secondary,
            row,
            changed,
        }
    }

    /// Moves the entries of those secondary indexes whose key the changes alter.
    fn update_keys<M: Memory, W: WriteSet<M>>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        tuple: u64,
        changes: &Changes,
    ) -> Result<()>
    where
        I: OrderedIndex<M, W>,
    {
        self.tuples.read(arena, tuple, &mut self.row)?;
        self.tuples.read(arena, tuple, &mut self.changed)?;
        changes.apply(&mut self.changed)?;
        let (mut old, mut new) = (KeyBuf::default(), KeyBuf::default());
        for (number, index) in self.secondary.iter_mut().enumerate() {
            self.table.secondary[number].encode_row(&self.row, &mut old)?;
            self.table.secondary[number].encode_row(&self.changed, &mut new)?;
            if *old == *new {
                continue;
            }
            if !index.insert(arena, writes, &new, tuple)? {
                return Err(self.table.duplicate(Some(number), &self.changed));
            }
            index.remove(arena, writes, &old)?;
        }
        Ok(())
    }

    fn check<M: Memory, W>(
        &mut self,
        arena: &Arena<M>,
        block: &mut dyn FnMut(u64),
        report: &mut VerifyReport,
    ) where
        I: OrderedIndex<M, W>,
    {
        let name = &self.table.def.name;
        let mut damage = Vec::new();
        let mut found = Vec::new();
        self.primary.check(
            arena,
            block,
            &mut |key, tuple| found.push((KeyBuf::from_words(key), tuple)),
            &mut damage,
        );
        // An index that has lost entries says nothing about hints.
        if damage.is_empty() {
            self.check_hints(&found, &mut damage);
        }
        let expected = self.secondary.iter();
        let expected = expected.map(|_| Vec::with_capacity(found.len()));
        let mut expected: Vec<Vec<(KeyBuf, u64)>> = expected.collect();
        let mut key = KeyBuf::default();
        for (primary, tuple) in &found {
            let result = self
                .tuples
                .check(arena, *tuple, &mut self.row, block)
                .and_then(|()| {
                    self.table.primary.encode_row(&self.row, &mut key)?;
                    if *key != **primary {
                        damage.push(format!(
                            "the tuple at offset {tuple} has another key than its entry"
                        ));
                    }
                    for (number, list) in expected.iter_mut().enumerate() {
                        self.table.secondary[number].encode_row(&self.row, &mut key)?;
                        list.push((key.clone(), *tuple));
                    }
                    Ok(())
                });
            if let Err(error) = result {
                damage.push(error.to_string());
            }
        }
        report.rows += found.len() as u64;
        report.index_entries += found.len() as u64;
        for (number, index) in self.secondary.iter().enumerate() {
            let mut entries = Vec::with_capacity(found.len());
            index.check(
                arena,
                block,
                &mut |key, tuple| entries.push((KeyBuf::from_words(key), tuple)),
                &mut damage,
            );
            report.index_entries += entries.len() as u64;
            expected[number].sort_unstable();
            if entries != expected[number] {
                let index = &self.table.def.indexes[number].name;
                damage.push(format!(
                    "index `{index}` has {} entries, not those of the {} rows",
                    entries.len(),
                    expected[number].len()
                ));
            }
        }
        report.damage.extend(
            damage
                .into_iter()
                .map(|text| format!("table `{name}`: {text}")),
        );
    }
}

/// Pointers of all tuples.
fn collect<M: Memory, W, I: OrderedIndex<M, W>>(
    arena: &Arena<M>,
    state: &TableState<I>,
    tuples: &mut Vec<u64>,
) -> Result<()> {
    let words = state.table.primary.shape().words;
    let (low, high) = ([0; MAX_KEY_WORDS], [u64::MAX; MAX_KEY_WORDS]);
    let (low, high) = (&low[..words], &high[..words]);
    state.primary.scan(
        arena,
        (low, high),
        Direction::Forward,
        0,
        &mut |_, tuple| {
            tuples.push(tuple);
            Ok(ControlFlow::Continue(()))
        },
    )
}

pub(super) fn tag(table: TableId) -> u16 {
    // Numbers that differ by 65,536 share runs; the tag is a check, not an identity.
    table.0 as u16
}

#[cfg(test)]
#[path = "space_tests.rs"]
mod tests;
