//! Trees that no table has any more, until their pages are free.
//!
//! A drop names its trees here, in its own transaction, so it takes a few records of the log
//! however large the table is. When it has committed, transactions follow that free some hundred
//! pages each and note how far they have come. What a crash or a full disk has left is freed after
//! the next opening, or the next drop.
//!
//! The names are entries of the catalogue, under a number that no table has:
//!
//! | key | value |
//! |---|---|
//! | all bits, a page of a tree | u8: 1 if its leaves may have long values; u16: parts done |
//! | all bits, a page of a long value | the stub of the value from this page on |
//!
//! The parts of a page are its children, or the cells of a leaf.

use super::change::wrong_page;
use super::long;
use super::search_path::SearchPath;
use super::space::Pages;
use super::tables::Tables;
use super::transaction::Transaction;
use super::tree::{Stored, Tree, check_child};
use super::values::{put_value, remove_value};
use crate::buffer::PageAccess;
use crate::page::{Header, PageId, PageKind, Slotted};
use disk::Directory;
use std::ops::ControlFlow;
use storage::Result;
use storage::engine::Direction;

/// First word of the keys. Tables have numbers of 32 bits.
const DROPPED: u64 = u64::MAX;
/// Pages that one transaction frees; a few more where several levels of a tree end with them.
const PIECE_PAGES: usize = 256;

/// Part of a tree that is left: from a page down, without its first children or cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Branch {
    page: PageId,
    /// The level that its parent says; none for the page that has a name.
    level: Option<u8>,
    has_long: bool,
    done: u16,
}

impl Branch {
    fn value(&self) -> [u8; 3] {
        let [low, high] = self.done.to_le_bytes();
        [u8::from(self.has_long), low, high]
    }

    /// Copies its page, which is checked.
    fn read<D: Directory>(&self, pages: &Pages<D>) -> Result<Vec<u8>> {
        let page = pages.pool.read(self.page)?;
        page.record_access(PageAccess::Whole);
        if let Some(level) = self.level {
            check_child(pages, self.page, page.bytes(), level)?;
        }
        let header = Header(page.bytes());
        if !matches!(header.kind(), Some(PageKind::Leaf | PageKind::Inner)) {
            let detail = "a table that was dropped has the page, which is of no tree";
            return Err(wrong_page(&pages.pool, self.page, detail));
        }
        Ok(page.bytes().to_vec())
    }

    /// Visits the pages that are left, its own last, while `goes_on` says so; then returns the rest
    /// of itself. Rests of children and of long values are given to `keep`.
    fn visit<D: Directory>(
        mut self,
        pages: &Pages<D>,
        visitor: &mut dyn Visitor,
    ) -> Result<Option<Self>> {
        let page = self.read(pages)?;
        let (view, level) = (Slotted::new(&page), Header(&page).level());
        let parts = if level == 0 {
            view.slots()
        } else {
            view.slots() + 1
        };
        while usize::from(self.done) < parts {
            if visitor.room() == 0 {
                return Ok(Some(self));
            }
            let at = usize::from(self.done);
            self.done += 1;
            if level > 0 {
                let child = Self {
                    page: view.child_at(at),
                    level: Some(level - 1),
                    done: 0,
                    ..self
                };
                if level == 1 && !self.has_long {
                    visitor.page(child.page);
                } else if let Some(rest) = child.visit(pages, visitor)? {
                    visitor.rest(rest.page, &rest.value())?;
                }
            } else if view.cell(at).is_long {
                visit_chain(pages, view.cell(at).value, visitor)?;
            }
        }
        visitor.page(self.page);
        Ok(None)
    }
}

/// Visits the pages of a long value, and gives the rest to the visitor.
fn visit_chain<D: Directory>(
    pages: &Pages<D>,
    stub: &[u8],
    visitor: &mut dyn Visitor,
) -> Result<()> {
    let most = visitor.room();
    let rest = long::walk_some(pages, stub, most, &mut |id, _| visitor.page(id))?;
    match rest {
        Some((first, stub)) => visitor.rest(first, &stub),
        None => Ok(()),
    }
}

/// Receiver of the pages that are left.
trait Visitor {
    /// Pages that it takes now.
    fn room(&self) -> usize;

    fn page(&mut self, id: PageId);

    /// Takes the rest of something for which it has no room.
    fn rest(&mut self, first: PageId, value: &[u8]) -> Result<()>;
}

/// Gives pages up in one transaction, and names the rests.
struct Piece<'p, D: Directory> {
    pages: &'p Pages<D>,
    catalogue: Tree,
    txn: &'p mut Transaction,
}

impl<D: Directory> Visitor for Piece<'_, D> {
    fn room(&self) -> usize {
        PIECE_PAGES.saturating_sub(self.txn.frees.len())
    }

    fn page(&mut self, id: PageId) {
        self.txn.frees.push(id);
    }

    fn rest(&mut self, first: PageId, value: &[u8]) -> Result<()> {
        name(self.pages, self.catalogue, (first, value), self.txn)
    }
}

/// Visits everything.
struct All<'v>(&'v mut Vec<PageId>);

impl Visitor for All<'_> {
    fn room(&self) -> usize {
        usize::MAX
    }

    fn page(&mut self, id: PageId) {
        self.0.push(id);
    }

    fn rest(&mut self, _: PageId, _: &[u8]) -> Result<()> {
        unreachable!("there is room for everything")
    }
}

fn name<D: Directory>(
    pages: &Pages<D>,
    catalogue: Tree,
    (first, value): (PageId, &[u8]),
    txn: &mut Transaction,
) -> Result<()> {
    let key = [DROPPED, u64::from(first.0)];
    let is_new = put_value(
        pages,
        (catalogue, &mut SearchPath::default()),
        &key,
        value,
        txn,
    )?;
    if is_new {
        return Ok(());
    }
    let detail = "two things that were dropped have the page";
    Err(wrong_page(&pages.pool, first, detail))
}

/// Visits the pages that a name stands for.
fn visit_named<D: Directory>(
    pages: &Pages<D>,
    (page, value): (PageId, &[u8]),
    visitor: &mut dyn Visitor,
) -> Result<()> {
    let &[has_long, low, high] = value else {
        return visit_chain(pages, value, visitor);
    };
    let branch = Branch {
        page,
        level: None,
        has_long: has_long != 0,
        done: u16::from_le_bytes([low, high]),
    };
    match branch.visit(pages, visitor)? {
        Some(rest) => visitor.rest(page, &rest.value()),
        None => Ok(()),
    }
}

impl Tables {
    /// Names trees that are not needed once the transaction has committed, the primary one of a
    /// table among them if there are long values.
    pub(super) fn name_dropped<D: Directory>(
        &self,
        pages: &Pages<D>,
        (tree, has_long): (Tree, bool),
        txn: &mut Transaction,
    ) -> Result<()> {
        let branch = Branch {
            page: tree.root,
            level: None,
            has_long,
            done: 0,
        };
        name(pages, self.catalogue, (tree.root, &branch.value()), txn)
    }

    /// Whether something that was dropped still has pages.
    pub fn has_dropped<D: Directory>(&self, pages: &Pages<D>) -> Result<bool> {
        Ok(!self.dropped(pages, 1)?.is_empty())
    }

    /// Gives up some pages of what was dropped.
    pub fn free_dropped<D: Directory>(
        &self,
        pages: &Pages<D>,
        txn: &mut Transaction,
    ) -> Result<()> {
        let catalogue = self.catalogue;
        let Some((page, value)) = self.dropped(pages, 1)?.pop() else {
            return Ok(());
        };
        let key = [DROPPED, u64::from(page.0)];
        remove_value(pages, (catalogue, &mut SearchPath::default()), &key, txn)?;
        let piece = &mut Piece {
            pages,
            catalogue,
            txn,
        };
        visit_named(pages, (page, &value), piece)
    }

    /// All pages of what was dropped, that are not free yet.
    pub(super) fn dropped_pages<D: Directory>(
        &self,
        pages: &Pages<D>,
        found: &mut Vec<PageId>,
    ) -> Result<()> {
        for (page, value) in self.dropped(pages, usize::MAX)? {
            visit_named(pages, (page, &value), &mut All(found))?;
        }
        Ok(())
    }

    /// The first names of what was dropped.
    fn dropped<D: Directory>(
        &self,
        pages: &Pages<D>,
        most: usize,
    ) -> Result<Vec<(PageId, Vec<u8>)>> {
        let mut found = Vec::new();
        let visit = &mut |key: &[u8], value: Stored<'_>| {
            let page = crate::page::slotted::key_words(key).nth(1).unwrap_or(0);
            found.push((PageId(page as u32), value.bytes.to_vec()));
            Ok(if found.len() < most {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            })
        };
        let (low, high) = ([DROPPED, 0], [DROPPED, u64::MAX]);
        self.catalogue
            .scan(pages, (&low, &high), Direction::Forward, visit)?;
        Ok(found)
    }
}
