//! Values in the primary tree of a copy-on-write method: pointers to tuples, or the rows
//! themselves.
//!
//! `nvm-cow` keeps tuples in blocks of the pool, in the layout that the in-place methods use; an
//! update copies the tuple and gives the tree the copy's pointer. `cow` puts the row into the leaf:
//! the tuple, in which each long column's word is the length of its content, and then the contents
//! in the order of the columns. There both layouts are the same, because nothing points anywhere.

use crate::index::cow::pool::PoolStore;
use crate::index::cow::{CowTree, Pages, TOGETHER, Value};
use crate::index::trees::Trees;
use crate::table::tuples::Tuples;
use pmem::{Memory, PmemError};
use std::sync::Arc;
use storage::record::{Changes, KeyBuf, LayoutKind, Row, TupleLayout};
use storage::table::Table;
use storage::{Result, StorageError};

/// Values of primary trees among `T`.
pub trait Rows<T: Trees>: Send + Sized {
    /// Words of a value; 0 for contents.
    const VALUE_WORDS: usize;

    /// The layout of rows in a partition that was created with `layout`.
    fn layout(layout: LayoutKind) -> LayoutKind;

    /// Rows of one table.
    fn new(table: &Table, tag: u16) -> Self;

    /// Adds a row; false, and no effect on the tree, if its key is there.
    fn insert(&mut self, trees: &mut T, tree: T::Tree, key: &[u64], row: &Row) -> Result<bool>;

    /// Copies the row with this key into `row`; false if there is none.
    fn get(&mut self, trees: &mut T, tree: T::Tree, key: &[u64], row: &mut Row) -> Result<bool>;

    /// Calls `visit` with the number of each key and its row, in order; `row` is a buffer.
    fn get_many(
        &mut self,
        trees: &mut T,
        tree: T::Tree,
        keys: &[KeyBuf],
        row: &mut Row,
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        for (number, key) in keys.iter().enumerate() {
            let found = self.get(trees, tree, key, row)?;
            visit(number, found.then_some(&*row));
        }
        Ok(())
    }

    /// Bytes of the block that a value points to, or 0.
    fn block_bytes(&self) -> usize {
        0
    }

    /// Copies a value's row into `row`.
    fn read(&mut self, trees: &mut T, value: Value<'_>, row: &mut Row) -> Result<()>;

    /// Changes columns of the row with this key; false if there is none.
    fn update(
        &mut self,
        trees: &mut T,
        tree: T::Tree,
        key: &[u64],
        changes: &Changes,
    ) -> Result<bool>;

    /// Takes the row with this key out; false if there is none.
    fn remove(&mut self, trees: &mut T, tree: T::Tree, key: &[u64]) -> Result<bool>;

    /// Frees the blocks that a value has outside of its tree.
    fn leave(&mut self, trees: &mut T, value: Value<'_>) -> Result<()>;

    /// Checks a value and copies its row into `row`; `block` is called for each block outside of
    /// the tree.
    fn check(
        &mut self,
        trees: &mut T,
        value: Value<'_>,
        row: &mut Row,
        block: &mut dyn FnMut(u64),
    ) -> Result<()>;
}

/// Rows as tuples in the pool.
pub struct TupleRows {
    tuples: Tuples,
    buffer: Vec<u8>,
}

impl<M: Memory> Rows<Pages<PoolStore<M>>> for TupleRows {
    const VALUE_WORDS: usize = 1;

    fn layout(layout: LayoutKind) -> LayoutKind {
        layout
    }

    fn new(table: &Table, tag: u16) -> Self {
        Self {
            tuples: Tuples::new(Arc::clone(&table.layout), &table.primary, tag),
            buffer: Vec::new(),
        }
    }

    fn insert(
        &mut self,
        pages: &mut Pages<PoolStore<M>>,
        tree: CowTree,
        key: &[u64],
        row: &Row,
    ) -> Result<bool> {
        let PoolStore { arena, writes, .. } = &mut pages.store;
        let tuple = self.tuples.insert(arena, writes, row)?;
        tree.insert(pages, key, Value::Words(&[tuple]))
    }

    #[inline]
    fn get(
        &mut self,
        pages: &mut Pages<PoolStore<M>>,
        tree: CowTree,
        key: &[u64],
        row: &mut Row,
    ) -> Result<bool> {
        let Some(tuple) = tree.get_word(pages, key)? else {
            return Ok(false);
        };
        self.tuples.read(&pages.store.arena, tuple, row)?;
        Ok(true)
    }

    fn get_many(
        &mut self,
        pages: &mut Pages<PoolStore<M>>,
        tree: CowTree,
        keys: &[KeyBuf],
        row: &mut Row,
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        let mut found = [None; TOGETHER];
        for (group, keys) in keys.chunks(TOGETHER).enumerate() {
            let found = &mut found[..keys.len()];
            tree.find_many(pages, keys, found)?;
            let mut tuples = [None; TOGETHER];
            for (tuple, found) in tuples.iter_mut().zip(&*found) {
                if let &Some(found) = found {
                    let word = tree.word_of(pages, found)?;
                    self.tuples.prefetch(&pages.store.arena, word);
                    *tuple = Some(word);
                }
            }
            for (number, tuple) in tuples[..keys.len()].iter().enumerate() {
                if let &Some(tuple) = tuple {
                    self.tuples.read(&pages.store.arena, tuple, row)?;
                }
                visit(group * TOGETHER + number, tuple.map(|_| &*row));
            }
        }
        Ok(())
    }

    fn block_bytes(&self) -> usize {
        self.tuples.bytes()
    }

    fn read(
        &mut self,
        pages: &mut Pages<PoolStore<M>>,
        value: Value<'_>,
        row: &mut Row,
    ) -> Result<()> {
        self.tuples.read(&pages.store.arena, value.word(), row)
    }

    fn update(
        &mut self,
        pages: &mut Pages<PoolStore<M>>,
        tree: CowTree,
        key: &[u64],
        changes: &Changes,
    ) -> Result<bool> {
        tree.replace_word(pages, key, |pages, tuple| {
            let PoolStore { arena, writes, .. } = &mut pages.store;
            self.tuples.replace(arena, writes, tuple, changes)
        })
    }

    fn remove(
        &mut self,
        pages: &mut Pages<PoolStore<M>>,
        tree: CowTree,
        key: &[u64],
    ) -> Result<bool> {
        let Some(tuple) = tree.get_word(pages, key)? else {
            return Ok(false);
        };
        let PoolStore { arena, writes, .. } = &mut pages.store;
        self.tuples.free(arena, writes, tuple)?;
        let is_removed = tree.remove(pages, key)?;
        debug_assert!(is_removed, "the entry of a tuple goes with it");
        Ok(is_removed)
    }

    fn leave(&mut self, pages: &mut Pages<PoolStore<M>>, value: Value<'_>) -> Result<()> {
        let PoolStore { arena, writes, .. } = &mut pages.store;
        self.tuples.free(arena, writes, value.word())
    }

    fn check(
        &mut self,
        pages: &mut Pages<PoolStore<M>>,
        value: Value<'_>,
        row: &mut Row,
        block: &mut dyn FnMut(u64),
    ) -> Result<()> {
        self.buffer.clear();
        let arena = &pages.store.arena;
        self.tuples.check(arena, value.word(), row, block)
    }
}

/// Rows that lie in the leaves.
pub struct ImageRows {
    layout: Arc<TupleLayout>,
    /// An image in the making.
    image: Vec<u8>,
    /// A value that was too long for its leaf.
    long: Vec<u8>,
    row: Row,
}

impl ImageRows {
    /// Appends a row's image.
    fn encode(layout: &TupleLayout, row: &Row, image: &mut Vec<u8>) {
        debug_assert!(
            row.check_complete().is_ok(),
            "a row is stored as it can be read, with all of its values"
        );
        image.clear();
        image.extend_from_slice(row.tuple_bytes());
        image[..8].fill(0);
        for &column in layout.out_of_line() {
            let content = row.outline(column).unwrap_or(&[]);
            if let Some(offset) = layout.outline_offset(column) {
                let length = (content.len() as u64).to_le_bytes();
                image[offset..offset + 8].copy_from_slice(&length);
            }
            image.extend_from_slice(content);
        }
    }

    /// Copies an image into a row.
    #[inline]
    fn decode(layout: &TupleLayout, image: &[u8], row: &mut Row) -> Result<()> {
        let wrong = || -> StorageError {
            PmemError::corrupted(
                "row",
                image.len() as u64,
                "it has not the length that it says",
            )
            .into()
        };
        let (tuple, mut contents) = image
            .split_at_checked(layout.tuple_bytes())
            .ok_or_else(wrong)?;
        row.begin_fill().copy_from_slice(tuple);
        for &column in layout.out_of_line() {
            let length = row.outline_word(column).unwrap_or(0);
            if length > 0 {
                let length = usize::try_from(length).map_err(|_| wrong())?;
                let (content, rest) = contents.split_at_checked(length).ok_or_else(wrong)?;
                row.set_outline(column, content)?;
                contents = rest;
            }
        }
        if contents.is_empty() {
            Ok(())
        } else {
            Err(wrong())
        }
    }
}

impl<T: Trees> Rows<T> for ImageRows {
    const VALUE_WORDS: usize = 0;

    fn layout(_layout: LayoutKind) -> LayoutKind {
        LayoutKind::Together
    }

    fn new(table: &Table, _tag: u16) -> Self {
        Self {
            layout: Arc::clone(&table.layout),
            image: Vec::new(),
            long: Vec::new(),
            row: Row::new(Arc::clone(&table.layout)),
        }
    }

    fn insert(&mut self, trees: &mut T, tree: T::Tree, key: &[u64], row: &Row) -> Result<bool> {
        Self::encode(&self.layout, row, &mut self.image);
        trees.insert(tree, key, Value::Bytes(&self.image))
    }

    #[inline]
    fn get(&mut self, trees: &mut T, tree: T::Tree, key: &[u64], row: &mut Row) -> Result<bool> {
        let layout = &self.layout;
        let found = trees.get(tree, key, &mut self.long, |value| {
            Self::decode(layout, value.bytes(), row)
        })?;
        Ok(found.is_some())
    }

    fn get_many(
        &mut self,
        trees: &mut T,
        tree: T::Tree,
        keys: &[KeyBuf],
        row: &mut Row,
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        let layout = &self.layout;
        trees.get_many(tree, keys, &mut self.long, &mut |number, value| {
            if let Some(value) = value {
                Self::decode(layout, value.bytes(), row)?;
            }
            visit(number, value.map(|_| &*row));
            Ok(())
        })
    }

    fn read(&mut self, _trees: &mut T, value: Value<'_>, row: &mut Row) -> Result<()> {
        Self::decode(&self.layout, value.bytes(), row)
    }

    fn update(
        &mut self,
        trees: &mut T,
        tree: T::Tree,
        key: &[u64],
        changes: &Changes,
    ) -> Result<bool> {
        let Self {
            layout,
            image,
            long,
            row,
        } = self;
        trees.replace_content(tree, key, long, image, |old, image| {
            Self::decode(layout, old, row)?;
            changes.apply(row)?;
            Self::encode(layout, row, image);
            Ok(())
        })
    }

    fn remove(&mut self, trees: &mut T, tree: T::Tree, key: &[u64]) -> Result<bool> {
        trees.remove(tree, key)
    }

    fn leave(&mut self, _trees: &mut T, _value: Value<'_>) -> Result<()> {
        Ok(())
    }

    fn check(
        &mut self,
        trees: &mut T,
        value: Value<'_>,
        row: &mut Row,
        _block: &mut dyn FnMut(u64),
    ) -> Result<()> {
        self.read(trees, value, row)?;
        Ok(row.check_values()?)
    }
}
