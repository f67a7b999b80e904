//! Checks of trees: every page's place, order and bounds, and the set of a tree's pages.
//!
//! A page is checked before its pointers are followed, and no page is visited twice, so damage
//! costs a sentence and never a loop.

use super::space::{Pages, is_used, place};
use super::tree::{Tree, check_child};
use crate::buffer::PageAccess;
use crate::buffer::offsets::first_page;
use crate::page::slotted::compare_keys;
use crate::page::{Header, PageId, PageKind, Slotted};
use disk::Directory;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use storage::Result;

/// Pages of a tree by what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TreePages {
    pub(super) inner: u64,
    pub(super) leaves: u64,
}

impl Tree {
    /// Calls `visit` with every page of the tree, children before their parents, long values
    /// excluded. Leaves are not read.
    pub(super) fn pages<D: Directory>(
        &self,
        pages: &Pages<D>,
        visit: &mut dyn FnMut(PageId, u8),
    ) -> Result<()> {
        let level = {
            let root = pages.pool.read(self.root)?;
            self.check_root(pages, root.bytes())?;
            root.record_access(PageAccess::Header);
            Header(root.bytes()).level()
        };
        pages_below(pages, self.root, level, visit)
    }

    /// Number of pages of the tree, long values excluded.
    pub(super) fn count<D: Directory>(&self, pages: &Pages<D>) -> Result<TreePages> {
        let mut count = TreePages::default();
        self.pages(pages, &mut |_, level| {
            if level == 0 {
                count.leaves += 1;
            } else {
                count.inner += 1;
            }
        })?;
        Ok(count)
    }

    /// Checks every page of the tree and adds it to `reachable`; what is wrong goes to `damage`.
    pub(super) fn check<D: Directory>(
        &self,
        pages: &Pages<D>,
        reachable: &mut BTreeSet<PageId>,
        damage: &mut Vec<String>,
    ) {
        let level = match pages.pool.read(self.root) {
            Ok(root) => {
                root.record_access(PageAccess::Header);
                Header(root.bytes()).level()
            }
            Err(error) => {
                damage.push(error.to_string());
                return;
            }
        };
        self.check_below(pages, (self.root, level), (None, None), reachable, damage);
    }

    fn check_below<D: Directory>(
        &self,
        pages: &Pages<D>,
        (id, level): (PageId, u8),
        (low, high): (Option<&[u8]>, Option<&[u8]>),
        reachable: &mut BTreeSet<PageId>,
        damage: &mut Vec<String>,
    ) {
        if !reachable.insert(id) {
            damage.push(format!("{id} is used twice"));
            return;
        }
        let page = match pages.pool.read(id) {
            Ok(page) => {
                page.record_access(PageAccess::Whole);
                page.bytes().to_vec()
            }
            Err(error) => {
                damage.push(error.to_string());
                return;
            }
        };
        let view = Slotted::new(&page);
        let is_child = if id == self.root {
            self.check_root(pages, &page)
        } else {
            check_child(pages, id, &page, level)
        };
        let checked = is_child.map_err(|error| error.to_string()).and_then(|()| {
            if view.header().key_words() != self.key_words {
                return Err("its keys have another length than the tree's".to_owned());
            }
            view.check()
        });
        if let Err(text) = checked {
            damage.push(format!("{id}: {text}"));
            return;
        }
        if let Some(last) = view.slots().checked_sub(1) {
            let is_low = low.is_some_and(|low| compare_keys(view.key(0), low) == Ordering::Less);
            let is_high =
                high.is_some_and(|high| compare_keys(view.key(last), high) != Ordering::Less);
            if is_low || is_high {
                damage.push(format!("{id} has keys that belong to a neighbour"));
            }
        }
        if level == 0 {
            return;
        }
        for place in 0..=view.slots() {
            let low = place.checked_sub(1).map(|slot| view.key(slot)).or(low);
            let high = if place < view.slots() {
                Some(view.key(place))
            } else {
                high
            };
            let child = (view.child_at(place), level - 1);
            self.check_below(pages, child, (low, high), reachable, damage);
        }
    }
}

fn pages_below<D: Directory>(
    pages: &Pages<D>,
    id: PageId,
    level: u8,
    visit: &mut dyn FnMut(PageId, u8),
) -> Result<()> {
    if level > 0 {
        let children: Vec<PageId> = {
            let page = pages.pool.read(id)?;
            page.record_access(PageAccess::Whole);
            check_child(pages, id, page.bytes(), level)?;
            let view = Slotted::new(page.bytes());
            (0..=view.slots())
                .map(|place| view.child_at(place))
                .collect()
        };
        for child in children {
            pages_below(pages, child, level - 1, visit)?;
        }
    }
    visit(id, level);
    Ok(())
}

impl<D: Directory> Pages<D> {
    /// Maps, and the pages that they say to be in use; maps and the pages before them excluded.
    pub fn used(&self) -> Result<(Vec<PageId>, BTreeSet<PageId>)> {
        let page_bytes = self.page_bytes();
        let first = first_page(page_bytes);
        let end = self.pool.readers().pages();
        let mut maps = Vec::new();
        let mut used = BTreeSet::new();
        let mut map = first;
        loop {
            let page = self.pool.read(map)?;
            page.record_access(PageAccess::Whole);
            if Header(page.bytes()).kind() != Some(PageKind::Map) {
                let text = "the page is no map of space";
                return Err(super::change::wrong_page(&self.pool, map, text));
            }
            maps.push(map);
            let (_, bit) = place(page_bytes, map);
            let base = map.0 - bit;
            let covered = super::space::pages_of_map(page_bytes);
            let behind = (bit + 1..covered).filter(|&bit| is_used(page.bytes(), bit));
            used.extend(behind.map(|bit| PageId(base + bit)));
            let next = Header(page.bytes()).link();
            if next.0 <= map.0 || next.0 >= end {
                return Ok((maps, used));
            }
            map = next;
        }
    }
}
