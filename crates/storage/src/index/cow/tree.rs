//! One tree: lookups and scans.
//!
//! A tree is its number, under which [`Pages`] has its root, and its shape; so it is copied freely and owns nothing. A scan
//! copies each leaf before it visits the entries, so the visitor may use the pages.

use super::node::{LEVELS_MAX, Node, PageView, Shape, damaged, inline_range, word_of};
use super::{INLINE, PageStore, Pages, long};
use crate::engine::Direction;
use crate::error::Result;
use pmem::Memory;
use std::ops::ControlFlow;

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

const NO_ENTRIES: &str = "an inner node without entries";

/// A step of a descent: a node and the entry that was taken.
#[derive(Clone, Copy, Default)]
pub(super) struct Step {
    pub(super) reference: u64,
    pub(super) index: usize,
    /// Whether the entry is the node's last.
    pub(super) is_last: bool,
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
            if let Some(above) = above {
                node.expect_below(above)?;
            } else if node.level > 0 && node.count == 0 {
                return Err(damaged(reference, NO_ENTRIES.to_owned()));
            }
            if node.level == 0 {
                break;
            }
            above = Some(node.level);
            reference = node.value_word(node.child_index(key)?)?;
            pages.prefetch(reference);
        }
        // Looked at again for its own sake: a borrow cannot leave the loop that made it.
        let leaf = Node::open(pages.view(reference)?, self.shape)?;
        let place = leaf.find(key)?;
        Ok(Some((leaf, place)))
    }

    /// The way to the place of `key`; the leaf's index is where it is or belongs. None in an empty tree.
    pub(super) fn path<S: PageStore>(
        &self,
        pages: &mut Pages<S>,
        key: &[u64],
    ) -> Result<Option<(Path, bool)>> {
        let mut reference = pages.root(self.tree);
        if reference == 0 {
            return Ok(None);
        }
        let mut path = Path::default();
        let mut above = None;
        loop {
            let node = Node::open(pages.view(reference)?, self.shape)?;
            if let Some(above) = above {
                node.expect_below(above)?;
            } else if node.level > 0 && node.count == 0 {
                return Err(damaged(
                    reference,
                    "an inner root without entries".to_owned(),
                ));
            }
            let (index, found) = match node.level {
                0 => match node.find(key)? {
                    Ok(index) => (index, true),
                    Err(index) => (index, false),
                },
                _ => (node.child_index(key)?, false),
            };
            path.push(Step {
                reference,
                index,
                is_last: index + 1 >= node.count,
            });
            if node.level == 0 {
                return Ok(Some((path, found)));
            }
            above = Some(node.level);
            reference = node.value_word(index)?;
        }
    }

    /// The first word of a key's value.
    #[inline]
    pub fn get_word<S: PageStore>(&self, pages: &mut Pages<S>, key: &[u64]) -> Result<Option<u64>> {
        match self.seek(pages, key)? {
            Some((leaf, Ok(index))) => leaf.value_word(index).map(Some),
            _ => Ok(None),
        }
    }

    /// Calls `read` with a key's value, which must have a fixed number of words or lie in the leaf; a longer one is put into
    /// `buffer` first. None if the key is not there.
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
        let root = pages.root(self.tree);
        if root == 0 || low > high {
            return Ok(());
        }
        let mut scan = Scan {
            tree: *self,
            low,
            high,
            direction,
            page: Vec::new(),
            key: Vec::new(),
            words: Vec::new(),
            long: Vec::new(),
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
    page: Vec<u8>,
    key: Vec<u64>,
    words: Vec<u64>,
    long: Vec<u8>,
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
        if let Some(above) = above {
            node.expect_below(above)?;
        }
        if node.level == 0 {
            let (first, last) = self.range(&node)?;
            return self.leaf(pages, reference, first, last, visit);
        }
        if node.count == 0 {
            return Err(damaged(reference, NO_ENTRIES.to_owned()));
        }
        let level = node.level;
        let (first, last) = (node.child_index(self.low)?, node.child_index(self.high)?);
        let count = last + 1 - first;
        for step in 0..count {
            let index = match self.direction {
                Direction::Forward => first + step,
                Direction::Backward => last - step,
            };
            // The visitor may not change the tree, but the page may have left its frame.
            let node = Node::open(pages.view(reference)?, self.tree.shape)?;
            let child = node.value_word(index)?;
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
        if first >= last {
            return Ok(ControlFlow::Continue(()));
        }
        let mut page = std::mem::take(&mut self.page);
        page.clear();
        pages.copy_page(reference, &mut page)?;
        let shape = self.tree.shape;
        for step in 0..last - first {
            let index = match self.direction {
                Direction::Forward => first + step,
                Direction::Backward => last - 1 - step,
            };
            let entry = super::node::HEADER_WORDS + index * shape.entry_words(0);
            self.key.clear();
            let key = (0..shape.key_words).map(|word| word_of(&page, entry + word));
            self.key.extend(key);
            let value_at = entry + shape.key_words;
            let value = if shape.value_words > 0 {
                self.words.clear();
                let words = (0..shape.value_words).map(|word| word_of(&page, value_at + word));
                self.words.extend(words);
                Value::Words(&self.words)
            } else {
                let word = word_of(&page, value_at);
                if word & INLINE == 0 {
                    self.long.clear();
                    long::read(pages, word, &mut self.long)?;
                    Value::Bytes(&self.long)
                } else {
                    let (at, bytes) = inline_range(word);
                    let content = page.get(at..at + bytes).ok_or_else(|| {
                        damaged(reference, "a content leaves its page".to_owned())
                    })?;
                    Value::Bytes(content)
                }
            };
            if visit(pages, &self.key, value)?.is_break() {
                self.page = page;
                return Ok(ControlFlow::Break(()));
            }
        }
        self.page = page;
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
