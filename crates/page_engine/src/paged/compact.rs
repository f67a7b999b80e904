//! Compaction: moves pages to the front of the file, so that its end can be freed.
//!
//! A page that is not a root is named in one place: by its parent, by the preceding page of a long
//! value, or by the cell of the value. So a move is one change of a few pages, which is redone and
//! never undone, like a split: the content in a page that was free, the name, and both bits of the
//! maps. The caller has the partition alone. A root is named by the catalogue and, while
//! transactions are open, by their undo entries; it is moved like a change of definitions
//! (`tables`).
//!
//! Invariants:
//! 1. A page only ever moves to a lower number. Whenever this ends, in order or not, the trees are
//!    whole, and what has moved stays there.
//! 2. If `limit` is the least end before which all pages in use fit, there are as many free pages
//!    before it as used ones from it on.

use super::change::{Change, wrong_page};
use super::space::{Pages, pages_of_map};
use super::tree::Tree;
use crate::buffer::UndoSpace;
use crate::buffer::offsets::first_page;
use crate::page::header::HEADER_BYTES;
use crate::page::slotted::capacity;
use crate::page::{Head, Header, PageId, PageKind, PageOp, Slotted};
use disk::Directory;
use storage::{Result, StorageError};

/// Makes room in the log: after the error that says there was none, or else where that is due.
/// Nothing is latched meanwhile.
pub type MakeRoom<'r> = dyn FnMut(Option<&StorageError>) -> Result<()> + 'r;

/// The reference to a page.
#[derive(Clone, Copy)]
enum Name {
    /// By the link of this page.
    Link(PageId),
    /// By the last bytes of the cell in a slot of this page.
    Cell(PageId, usize),
}

impl Name {
    fn owner(self) -> PageId {
        let (Self::Link(owner) | Self::Cell(owner, _)) = self;
        owner
    }

    /// The page that is named.
    fn read(self, owner: &[u8]) -> PageId {
        match self {
            Self::Link(_) => Header(owner).link(),
            Self::Cell(_, slot) => {
                let number = Slotted::new(owner).raw(slot).last_chunk();
                PageId(number.map_or(0, |&number| u32::from_le_bytes(number)))
            }
        }
    }

    /// Names another page.
    fn write(self, change: &mut Change<'_>, owner: usize, link: PageId) {
        let op = match self {
            Self::Link(_) => PageOp::Link { link },
            Self::Cell(_, slot) => {
                let cell_bytes = Slotted::new(change.bytes(owner)).raw(slot).len();
                return change.push(
                    owner,
                    PageOp::Patch {
                        slot: slot as u16,
                        at: cell_bytes.saturating_sub(4) as u16,
                        bytes: &link.0.to_le_bytes(),
                    },
                );
            }
        };
        change.push(owner, op);
    }
}

/// Adds the content of a page to a new one.
pub(super) fn push_content(change: &mut Change<'_>, new: usize, content: &[u8]) {
    let header = Header(content);
    let kind = header.kind().unwrap_or(PageKind::Long);
    change.push(
        new,
        PageOp::Format {
            kind,
            level: header.level(),
            key_words: header.key_words() as u16,
            link: header.link(),
        },
    );
    if kind == PageKind::Long {
        let bytes = &content[HEADER_BYTES..HEADER_BYTES + header.slots()];
        return change.push(new, PageOp::Content { bytes });
    }
    let view = Slotted::new(content);
    for slot in 0..view.slots() {
        change.push(
            new,
            PageOp::Insert {
                slot: slot as u16,
                is_long: view.cell(slot).is_long,
                cell: view.raw(slot),
            },
        );
    }
}

/// Moves the pages of trees that do not lie before `limit`.
pub struct Compaction<'c> {
    /// The pages are to lie before it.
    pub limit: PageId,
    /// Session whose log it goes to.
    pub session: u32,
    /// Called before each move.
    pub make_room: &'c mut MakeRoom<'c>,
}

impl Compaction<'_> {
    /// Moves the pages of one tree, its root excepted, and of its long values.
    pub fn tree<D: Directory>(&mut self, pages: &Pages<D>, tree: Tree) -> Result<()> {
        self.below(pages, tree, tree.root)
    }

    fn below<D: Directory>(&mut self, pages: &Pages<D>, tree: Tree, id: PageId) -> Result<()> {
        let (kind, slots) = {
            let page = pages.pool.read(id)?;
            let header = Header(page.bytes());
            (header.kind(), header.slots())
        };
        if kind == Some(PageKind::Leaf) {
            return (0..slots).try_for_each(|slot| self.chain(pages, tree, id, slot));
        }
        for place in 0..=slots {
            let name = match place.checked_sub(1) {
                None => Name::Link(id),
                Some(slot) => Name::Cell(id, slot),
            };
            let child = self.settle(pages, tree, name)?;
            self.below(pages, tree, child)?;
        }
        Ok(())
    }

    /// Moves the pages of the long value in a slot of a leaf, if it is one.
    fn chain<D: Directory>(
        &mut self,
        pages: &Pages<D>,
        tree: Tree,
        leaf: PageId,
        slot: usize,
    ) -> Result<()> {
        let value_bytes = {
            let page = pages.pool.read(leaf)?;
            let cell = Slotted::new(page.bytes()).cell(slot);
            let bytes = cell.value.first_chunk().filter(|_| cell.is_long);
            bytes.map_or(0, |&bytes| u32::from_le_bytes(bytes))
        };
        let mut name = Name::Cell(leaf, slot);
        for _ in 0..(value_bytes as usize).div_ceil(capacity(pages.page_bytes())) {
            name = Name::Link(self.settle(pages, tree, name)?);
        }
        Ok(())
    }

    /// Moves a page, if needed, and returns its new number.
    fn settle<D: Directory>(&mut self, pages: &Pages<D>, tree: Tree, name: Name) -> Result<PageId> {
        let named = name.read(pages.pool.read(name.owner())?.bytes());
        if named < self.limit {
            return Ok(named);
        }
        (self.make_room)(None)?;
        match self.move_page(pages, tree, name) {
            Err(error) if error.is_statement_error() => {
                (self.make_room)(Some(&error))?;
                self.move_page(pages, tree, name)
            }
            moved => moved,
        }
    }

    fn move_page<D: Directory>(&self, pages: &Pages<D>, tree: Tree, name: Name) -> Result<PageId> {
        let mut change = Change::new();
        let owner = change.add(pages.pool.write(name.owner())?);
        let old_id = name.read(change.bytes(owner));
        let mut old = pages.pool.write(old_id)?;
        if !matches!(
            Header(old.bytes()).kind(),
            Some(PageKind::Leaf | PageKind::Inner | PageKind::Long)
        ) {
            let detail = "the page is not what another one says it is";
            return Err(wrong_page(&pages.pool, old_id, detail));
        }
        let content = old.bytes().to_vec();
        old.give_up();
        change.add(old);
        let id = pages.allocate(&mut change)?;
        if id >= old_id {
            return Ok(old_id);
        }
        debug_assert_ne!(id, name.owner(), "a page in use is taken");
        let new = change.add_new(pages.pool.blank(id)?);
        push_content(&mut change, new, &content);
        name.write(&mut change, owner, id);
        pages.release(&mut change, old_id)?;
        tree.finish(pages, change, UndoSpace::Keep(self.session))?;
        Ok(id)
    }
}

impl<D: Directory> Pages<D> {
    /// The least end before which all pages in use fit, with their maps.
    pub fn least_end(&self) -> Result<PageId> {
        let (_, used) = self.used()?;
        let page_bytes = self.page_bytes();
        let taken = first_page(page_bytes).0 + used.len() as u32;
        let mut end = taken + 1;
        loop {
            let maps = 1 + (end - 1) / pages_of_map(page_bytes);
            if taken + maps <= end {
                return Ok(PageId(end));
            }
            end = taken + maps;
        }
    }

    /// Gives up the maps after the last page in use, and returns the end of that page.
    pub fn drop_maps(&self, session: u32) -> Result<PageId> {
        let (maps, used) = self.used()?;
        debug_assert!(maps.is_sorted(), "maps are linked in their order");
        let first = first_page(self.page_bytes());
        let last = used.last().copied().unwrap_or(first).max(first);
        let kept = maps.iter().take_while(|map| **map <= last).last();
        let kept = kept.copied().unwrap_or(first);
        if maps.last() != Some(&kept) {
            let mut change = Change::new();
            let map = change.add(self.pool.write(kept)?);
            change.push(map, PageOp::Link { link: PageId(0) });
            let (head, reserve) = (Head::Change, UndoSpace::Keep(session));
            change.finish(&self.pool, &head, reserve, &mut Vec::new())?;
        }
        Ok(PageId(last.0 + 1))
    }
}
