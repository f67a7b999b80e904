//! Whole-tree walks: the deep check, and the removal of a tree.
//!
//! The check proves the assumptions of lookups: checksums, levels, the order of keys within and
//! across nodes, and that every key lies between the separators above it. It never stops at the
//! first damage.

use super::node::{Node, checksum, damaged, word_of};
use super::tree::open_node;
use super::{CowTree, DIRTY, INLINE, PageStore, Pages, Value, long};
use std::ops::ControlFlow;
use storage::Result;
use storage::engine::Direction;

/// Result of a check.
#[derive(Default)]
pub struct TreeReport {
    /// Places of all pages of the tree.
    pub pages: Vec<u64>,
    /// One sentence for each damage.
    pub damage: Vec<String>,
}

/// Keys between which a node's keys must lie: from the first one on, and before the second.
struct Bounds<'k> {
    low: &'k [u64],
    high: Option<&'k [u64]>,
}

impl CowTree {
    /// Visits every page and reports damage.
    pub fn check<S: PageStore>(&self, pages: &mut Pages<S>, report: &mut TreeReport) {
        let root = pages.root(self.tree);
        if root != 0 {
            let low = vec![0; self.shape.key_words];
            let bounds = Bounds {
                low: &low,
                high: None,
            };
            self.check_node(pages, root, None, &bounds, report);
        }
    }

    fn check_node<S: PageStore>(
        &self,
        pages: &mut Pages<S>,
        reference: u64,
        above: Option<u8>,
        bounds: &Bounds<'_>,
        report: &mut TreeReport,
    ) {
        let result = self.entries_of(pages, reference, above, report);
        let (level, entries) = match result {
            Ok(found) => found,
            Err(error) => return report.damage.push(error.to_string()),
        };
        let mut last: Option<&[u64]> = None;
        for (number, (key, _)) in entries.iter().enumerate() {
            let is_free = level > 0 && number == 0;
            let is_low = !is_free && key.as_slice() < bounds.low;
            let is_high = bounds
                .high
                .is_some_and(|high| !is_free && key.as_slice() >= high);
            if is_low || is_high || !is_free && last.is_some_and(|last| last >= key.as_slice()) {
                let text = format!("page at {reference:#x}: entry {number} is out of order");
                report.damage.push(text);
            }
            last = (!is_free).then_some(key.as_slice());
        }
        for (number, (key, word)) in entries.iter().enumerate() {
            if level > 0 {
                let low = if number == 0 { bounds.low } else { key };
                let next = entries.get(number + 1).map(|(key, _)| key.as_slice());
                let inside = Bounds {
                    low,
                    high: next.or(bounds.high),
                };
                self.check_node(pages, *word, Some(level), &inside, report);
            } else if self.shape.value_words == 0 && word & INLINE == 0 {
                let mut parts = Vec::new();
                let walked = long::for_each(pages, *word, &mut |pages, part, _| {
                    parts.push(part);
                    check_page(pages, part)
                });
                report.pages.append(&mut parts);
                report
                    .damage
                    .extend(walked.err().map(|error| error.to_string()));
            }
        }
    }

    /// Level, and keys with their first value words, of a node whose bytes are sound.
    #[expect(clippy::type_complexity, reason = "a pair that is taken apart at once")]
    fn entries_of<S: PageStore>(
        &self,
        pages: &mut Pages<S>,
        reference: u64,
        above: Option<u8>,
        report: &mut TreeReport,
    ) -> Result<(u8, Vec<(Vec<u64>, u64)>)> {
        check_page(pages, reference)?;
        let node = Node::open(pages.view(reference)?, self.shape)?;
        if let Some(above) = above {
            node.expect_below(above)?;
        }
        report.pages.push(reference);
        let mut entries = Vec::with_capacity(node.count);
        for index in 0..node.count {
            let word = node.value_word(index)?;
            if self.shape.has_contents(node.level) && word & INLINE != 0 {
                node.content(word)?;
            }
            entries.push((node.key(index)?.to_vec(), word));
        }
        Ok((node.level, entries))
    }

    /// Takes every page out. `leave` is called with each value before.
    pub fn clear<S: PageStore>(
        &self,
        pages: &mut Pages<S>,
        leave: &mut dyn FnMut(&mut Pages<S>, Value<'_>) -> Result<()>,
    ) -> Result<()> {
        let root = pages.root(self.tree);
        if root == 0 {
            return Ok(());
        }
        let (low, high) = (
            vec![0; self.shape.key_words],
            vec![u64::MAX; self.shape.key_words],
        );
        self.scan(
            pages,
            &low,
            &high,
            Direction::Forward,
            &mut |pages, _, value| {
                leave(pages, value)?;
                Ok(ControlFlow::Continue(()))
            },
        )?;
        self.clear_node(pages, root)?;
        pages.set_root(self.tree, 0);
        Ok(())
    }

    fn clear_node<S: PageStore>(&self, pages: &mut Pages<S>, reference: u64) -> Result<()> {
        let node = open_node(pages, self.shape, reference)?;
        let level = node.level;
        if level > 0 || self.shape.value_words == 0 {
            let words = (0..node.count).map(|index| node.value_word(index));
            for word in words.collect::<Result<Vec<_>>>()? {
                if level > 0 {
                    open_node(pages, self.shape, word)?.expect_below(level)?;
                    self.clear_node(pages, word)?;
                } else if word & INLINE == 0 {
                    long::discard(pages, word)?;
                }
            }
        }
        pages.discard(reference)
    }
}

/// Checks the checksum of a page; dirty pages have none yet.
fn check_page<S: PageStore>(pages: &mut Pages<S>, reference: u64) -> Result<()> {
    if reference & DIRTY != 0 {
        return Ok(());
    }
    let mut page = Vec::new();
    pages.copy_page(reference, &mut page)?;
    if checksum(&page) == word_of(&page, 1) {
        Ok(())
    } else {
        Err(damaged(reference, "wrong checksum".to_owned()))
    }
}
