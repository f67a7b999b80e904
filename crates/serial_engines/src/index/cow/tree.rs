//! One tree: lookups and scans.
//!
//! A tree is its number, under which [`Pages`] has its root, and its shape; so it is copied freely
//! and owns nothing. A scan copies each entry before it visits it, so the visitor may use the
//! pages. Lookups of several keys go down the tree side by side, one probe of each after the other,
//! so that their misses overlap.

use super::node::{LEVELS_MAX, Node, PageView, Shape, inline_range};
use super::{INLINE, PageStore, Pages, SMALL_PAGE_BYTES, long};
use crate::index::AHEAD;
use pmem::Memory;
use std::ops::{ControlFlow, Deref};
use storage::Result;
use storage::engine::Direction;

/// A value on its way in or out of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'v> {
    /// The words of a value of fixed size.
    Words(&'v [u64]),
    /// A content of any length.
    Bytes(&'v [u8]),
}

impl<'v> Value<'v> {
    /// The first word; 0 where there is none.
    #[inline]
    pub fn word(self) -> u64 {
        match self {
            Self::Words(words) => words.first().copied().unwrap_or(0),
            Self::Bytes(_) => 0,
        }
    }

    /// The words of a value of fixed size.
    pub fn words(self) -> &'v [u64] {
        match self {
            Self::Words(words) => words,
            Self::Bytes(_) => &[],
        }
    }

    /// The content.
    pub fn bytes(self) -> &'v [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Words(_) => &[],
        }
    }
}

/// Called with each key and value of a scan, until it breaks or fails.
pub type Visit<'v, S> =
    &'v mut dyn FnMut(&mut Pages<S>, &[u64], Value<'_>) -> Result<ControlFlow<()>>;

/// One tree of a partition.
#[derive(Clone, Copy, Debug)]
pub struct CowTree {
    pub(super) tree: usize,
    pub(super) shape: Shape,
}

/// A leaf, and where in it a key is or belongs.
type Leaf<'p, M> = (Node<'p, M>, Result<usize, usize>);

/// Bytes that one prefetch loads.
const LINE_BYTES: usize = 64;
/// Lookups that go down a tree side by side: as many misses as a core has under way.
pub const TOGETHER: usize = 16;

/// State of a lookup: a page, and the entries between which its position lies.
#[derive(Clone, Copy, Default)]
struct Search {
    reference: u64,
    low: usize,
    high: usize,
}

/// A leaf and the number of an entry in it.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    reference: u64,
    index: usize,
}

/// A step of a descent: a node and the entry that was taken.
#[derive(Clone, Copy, Default)]
pub(super) struct Step {
    pub(super) reference: u64,
    index: u32,
    /// Whether the entry is the node's last.
    pub(super) is_last: bool,
}

impl Step {
    pub(super) fn index(self) -> usize {
        self.index as usize
    }
}

/// The way from the root to a leaf.
#[derive(Clone, Copy, Default)]
pub(super) struct Path {
    pub(super) steps: [Step; LEVELS_MAX as usize + 1],
    pub(super) length: usize,
}

impl Path {
    fn push(&mut self, step: Step) {
        self.steps[self.length] = step;
        self.length += 1;
    }

    /// The step in the leaf.
    pub(super) fn leaf(&self) -> Step {
        self.steps[self.length - 1]
    }

    /// The entry that the way leads to.
    pub(super) fn found(&self) -> Found {
        let leaf = self.leaf();
        Found {
            reference: leaf.reference,
            index: leaf.index(),
        }
    }
}

impl CowTree {
    /// The tree number `tree` of its pages.
    pub fn new(tree: usize, shape: Shape) -> Self {
        Self { tree, shape }
    }

    /// The number under which the pages have its root.
    pub fn number(&self) -> usize {
        self.tree
    }

    /// The leaf where `key` belongs, and the place there; none in an empty tree.
    #[inline]
    fn seek<'p, S: PageStore>(
        &self,
        pages: &'p mut Pages<S>,
        key: &[u64],
    ) -> Result<Option<Leaf<'p, S::Memory>>> {
        let mut reference = pages.root(self.tree);
        if reference == 0 {
            return Ok(None);
        }
        let mut above = None;
        loop {
            let node = Node::open(pages.view(reference)?, self.shape)?;
            node.expect_place(above, reference)?;
            if node.level == 0 {
                break;
            }
            above = Some(node.level);
            reference = node.value_word(node.child_index(key)?)?;
            pages.prefetch_page(reference);
        }
        // Looked at again for its own sake: a borrow cannot leave the loop that made it.
        let leaf = Node::open(pages.view(reference)?, self.shape)?;
        let place = leaf.find(key)?;
        Ok(Some((leaf, place)))
    }

    /// Makes `path`, an empty one, the way to the place of `key`; the leaf's index is where it is
    /// or belongs. Says whether it is there; none in an empty tree.
    pub(super) fn find_path<S: PageStore>(
        &self,
        pages: &mut Pages<S>,
        key: &[u64],
        path: &mut Path,
    ) -> Result<Option<bool>> {
        let mut reference = pages.root(self.tree);
        if reference == 0 {
            return Ok(None);
        }
        let mut above = None;
        loop {
            let node = Node::open(pages.view(reference)?, self.shape)?;
            node.expect_place(above, reference)?;
            let (index, found) = match node.level {
                0 => match node.find(key)? {
                    Ok(index) => (index, true),
                    Err(index) => (index, false),
                },
                _ => (node.child_index(key)?, false),
            };
            path.push(Step {
                reference,
                index: index as u32,
                is_last: index + 1 >= node.count,
            });
            if node.level == 0 {
                return Ok(Some(found));
            }
            above = Some(node.level);
            reference = node.value_word(index)?;
            pages.prefetch_page(reference);
        }
    }

    /// Finds the entries of at most [`TOGETHER`] keys; `found` has as many places.
    pub fn find_many<S: PageStore, K: Deref<Target = [u64]>>(
        &self,
        pages: &mut Pages<S>,
        keys: &[K],
        found: &mut [Option<Found>],
    ) -> Result<()> {
        let root = pages.root(self.tree);
        found.fill(None);
        if root == 0 {
            return Ok(());
        }
        let mut searches = [Search {
            reference: root,
            ..Search::default()
        }; TOGETHER];
        let searches = &mut searches[..keys.len()];
        let mut above = None;
        loop {
            let level = self.probe_level(pages, keys, searches, above)?;
            for ((key, search), found) in keys.iter().zip(&mut *searches).zip(&mut *found) {
                let node = Node::open(pages.view(search.reference)?, self.shape)?;
                if level > 0 {
                    search.reference = node.value_word(search.low - 1)?;
                    pages.prefetch_page(search.reference);
                } else if search.low < node.count && *node.key(search.low)? == **key {
                    *found = Some(Found {
                        reference: search.reference,
                        index: search.low,
                    });
                }
            }
            if level == 0 {
                return Ok(());
            }
            above = Some(level);
        }
    }

    /// Finds the place of each key in its node; all nodes are on the level that is returned.
    fn probe_level<S: PageStore, K: Deref<Target = [u64]>>(
        &self,
        pages: &mut Pages<S>,
        keys: &[K],
        searches: &mut [Search],
        above: Option<u8>,
    ) -> Result<u8> {
        let mut level = 0;
        for (key, search) in keys.iter().zip(&mut *searches) {
            let node = Node::open(pages.view(search.reference)?, self.shape)?;
            node.expect_place(above, search.reference)?;
            level = node.level;
            search.low = usize::from(level > 0);
            search.high = node.count;
            if self.shape.page_bytes <= SMALL_PAGE_BYTES {
                // All of it is on its way already.
                search.low = node.place(key)?;
                search.high = search.low;
                continue;
            }
            let probe = node.entry_byte(usize::midpoint(search.low, search.high));
            pages.prefetch(search.reference, probe);
        }
        loop {
            let mut is_done = true;
            for (key, search) in keys.iter().zip(&mut *searches) {
                if search.low < search.high {
                    let node = Node::open(pages.view(search.reference)?, self.shape)?;
                    node.narrow(key, &mut search.low, &mut search.high)?;
                    let probe = node.entry_byte(usize::midpoint(search.low, search.high));
                    pages.prefetch(search.reference, probe);
                    is_done = false;
                }
            }
            if is_done {
                return Ok(level);
            }
        }
    }

    /// The first word of the value of an entry that was found; nothing has changed since.
    pub fn word_of<S: PageStore>(&self, pages: &mut Pages<S>, found: Found) -> Result<u64> {
        open_node(pages, self.shape, found.reference)?.value_word(found.index)
    }

    /// Asks for the content of an entry that was found.
    pub fn prefetch_content<S: PageStore>(&self, pages: &mut Pages<S>, found: Found) -> Result<()> {
        let word = self.word_of(pages, found)?;
        if word & INLINE != 0 {
            let (at, bytes) = inline_range(word);
            for byte in (at..at + bytes).step_by(LINE_BYTES) {
                pages.prefetch(found.reference, byte);
            }
        }
        Ok(())
    }

    /// As [`CowTree::get`], for an entry that was found.
    pub fn get_found<S: PageStore, R>(
        &self,
        pages: &mut Pages<S>,
        found: Found,
        buffer: &mut Vec<u8>,
        read: impl FnOnce(Value<'_>) -> Result<R>,
    ) -> Result<R> {
        let node = open_node(pages, self.shape, found.reference)?;
        if !self.shape.has_contents(0) {
            return read(Value::Words(node.value(found.index)?));
        }
        let word = node.value_word(found.index)?;
        if word & INLINE != 0 {
            return read(Value::Bytes(node.content(word)?));
        }
        buffer.clear();
        long::read(pages, word, buffer)?;
        read(Value::Bytes(buffer))
    }

    /// The first word of a key's value.
    #[inline]
    pub fn get_word<S: PageStore>(&self, pages: &mut Pages<S>, key: &[u64]) -> Result<Option<u64>> {
        match self.seek(pages, key)? {
            Some((leaf, Ok(index))) => leaf.value_word(index).map(Some),
            _ => Ok(None),
        }
    }

    /// Calls `read` with a key's value, which must have a fixed number of words or lie in the leaf;
    /// a longer one is put into `buffer` first. None if the key is not there.
    #[inline]
    pub fn get<S: PageStore, R>(
        &self,
        pages: &mut Pages<S>,
        key: &[u64],
        buffer: &mut Vec<u8>,
        read: impl FnOnce(Value<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        let Some((node, Ok(index))) = self.seek(pages, key)? else {
            return Ok(None);
        };
        if !self.shape.has_contents(0) {
            return read(Value::Words(node.value(index)?)).map(Some);
        }
        let word = node.value_word(index)?;
        if word & INLINE != 0 {
            return read(Value::Bytes(node.content(word)?)).map(Some);
        }
        buffer.clear();
        long::read(pages, word, buffer)?;
        read(Value::Bytes(buffer)).map(Some)
    }

    /// Visits the entries from `low` to `high`, both included, in order.
    pub fn scan<S: PageStore>(
        &self,
        pages: &mut Pages<S>,
        low: &[u64],
        high: &[u64],
        direction: Direction,
        visit: Visit<'_, S>,
    ) -> Result<()> {
        self.scan_blocks(pages, low, high, direction, 0, visit)
    }

    /// As [`CowTree::scan`] where values point to blocks, of which the visitor will read the first
    /// `block_bytes`.
    pub fn scan_blocks<S: PageStore>(
        &self,
        pages: &mut Pages<S>,
        low: &[u64],
        high: &[u64],
        direction: Direction,
        block_bytes: usize,
        visit: Visit<'_, S>,
    ) -> Result<()> {
        let root = pages.root(self.tree);
        if root == 0 || low > high {
            return Ok(());
        }
        let mut scan = Scan {
            tree: *self,
            low,
            high,
            direction,
            block_bytes,
            key: Vec::new(),
            words: Vec::new(),
            content: Vec::new(),
        };
        scan.node(pages, root, None, visit).map(|_| ())
    }
}

/// A scan in progress.
struct Scan<'k> {
    tree: CowTree,
    low: &'k [u64],
    high: &'k [u64],
    direction: Direction,
    block_bytes: usize,
    key: Vec<u64>,
    words: Vec<u64>,
    content: Vec<u8>,
}

impl Scan<'_> {
    fn node<S: PageStore>(
        &mut self,
        pages: &mut Pages<S>,
        reference: u64,
        above: Option<u8>,
        visit: Visit<'_, S>,
    ) -> Result<ControlFlow<()>> {
        let node = Node::open(pages.view(reference)?, self.tree.shape)?;
        node.expect_place(above, reference)?;
        if node.level == 0 {
            let (first, last) = self.range(&node)?;
            return self.leaf(pages, reference, first, last, visit);
        }
        let level = node.level;
        let (first, last) = (node.child_index(self.low)?, node.child_index(self.high)?);
        let count = last + 1 - first;
        let direction = self.direction;
        let index_of = |step: usize| match direction {
            Direction::Forward => first + step,
            Direction::Backward => last - step,
        };
        let mut child = node.value_word(index_of(0))?;
        pages.prefetch_page(child);
        for step in 0..count {
            if step > 0 {
                // The visitor may not change the tree, but the page may have left its frame.
                child = open_node(pages, self.tree.shape, reference)?.value_word(index_of(step))?;
            }
            if step + 1 < count {
                let node = open_node(pages, self.tree.shape, reference)?;
                let next = node.value_word(index_of(step + 1))?;
                pages.prefetch_page(next);
            }
            if self.node(pages, child, Some(level), visit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The entries of a leaf that are in range: from the first one to before the last.
    fn range<M: Memory>(&self, node: &Node<'_, M>) -> Result<(usize, usize)> {
        let first = match node.find(self.low)? {
            Ok(index) | Err(index) => index,
        };
        let last = match node.find(self.high)? {
            Ok(index) => index + 1,
            Err(index) => index,
        };
        Ok((first, last))
    }

    fn leaf<S: PageStore>(
        &mut self,
        pages: &mut Pages<S>,
        reference: u64,
        first: usize,
        last: usize,
        visit: Visit<'_, S>,
    ) -> Result<ControlFlow<()>> {
        let count = last.saturating_sub(first);
        let entry_of = |step: usize| match self.direction {
            Direction::Forward => first + step,
            Direction::Backward => last - 1 - step,
        };
        let shape = self.tree.shape;
        let mut asked = 0;
        for step in 0..count {
            while self.block_bytes > 0 && asked < count.min(2 * step + 2).min(step + AHEAD) {
                let word = open_node(pages, shape, reference)?.value_word(entry_of(asked))?;
                pages.store.prefetch_block(word, self.block_bytes);
                asked += 1;
            }
            let index = entry_of(step);
            // The page may have left its frame while the visitor used others.
            let node = open_node(pages, shape, reference)?;
            self.key.clear();
            self.key.extend_from_slice(node.key(index)?);
            let value = if shape.value_words > 0 {
                self.words.clear();
                self.words.extend_from_slice(node.value(index)?);
                Value::Words(&self.words)
            } else {
                self.content.clear();
                let word = node.value_word(index)?;
                if word & INLINE == 0 {
                    long::read(pages, word, &mut self.content)?;
                } else {
                    self.content.extend_from_slice(node.content(word)?);
                }
                Value::Bytes(&self.content)
            };
            if visit(pages, &self.key, value)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// A node of a tree.
pub(super) fn open_node<'a, S: PageStore>(
    pages: &'a mut Pages<S>,
    shape: Shape,
    reference: u64,
) -> Result<Node<'a, S::Memory>> {
    let view: PageView<'a, S::Memory> = pages.view(reference)?;
    Node::open(view, shape)
}
