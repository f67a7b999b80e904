//! Before images: what rows were before commits that a registered snapshot must not see.
//!
//! Per row a chain, oldest image first. An image of commit n says what the row was up to n, so the
//! row as of snapshot s is in the first image with a number above s, and in the engine if there is
//! none. An image also knows the commit before it: it is needed while a snapshot lies between the
//! two, and freed as soon as none does, also while older snapshots live. So a row has at most one
//! image for each snapshot that lives, and one that is not committed yet.
//!
//! All of it is ordinary memory, protected by the clock's mutex.
//!
//! | | |
//! |---|---|
//! | image of an inserted row | nothing |
//! | number of an image whose commit has no number yet | above all snapshots |
//! | `Chain::after` | the row since its newest commit; kept if validated snapshots may need it |

use super::change::{Change, Move, Version};
use super::image_rows::ImageRows;
use super::interval::Interval;
use super::omission::{Omission, is_left_out};
use crate::error::Result;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use storage::record::{KeyBuf, TableId};

/// Numbers of snapshots that are registered, and how often each is.
pub(super) type Active = BTreeMap<u64, u32>;

/// Memory of an image and its key beside the row.
const IMAGE_BYTES: u64 = 192;
/// Above every snapshot: the numbers of commits that have none yet begin here.
const PENDING: u64 = 1 << 63;

struct Image {
    /// The commit before this one.
    since: u64,
    /// The commit that has changed the row.
    number: u64,
    before: Version,
    /// Where that commit has moved the row.
    moved: Move,
}

impl Image {
    fn is_needed(&self, active: &Active) -> bool {
        self.number >= PENDING || active.range(self.since..self.number).next().is_some()
    }
}

/// The images of one row.
#[derive(Default)]
#[repr(C)]
struct Chain {
    /// The newest commit that has changed the row; 0 is none.
    last: u64,
    after: Option<Version>,
    /// Apart from the others, because most rows have one image.
    oldest: Option<Image>,
    later: Vec<Image>,
}

/// Need of a commit's changes for images.
#[derive(Clone, Copy)]
pub(super) enum Need<'a> {
    /// The commit gets its number now, so only those that one of these snapshots needs.
    Of(&'a Active),
    /// Snapshots may be registered before it gets a number, so all.
    Any,
}

impl Chain {
    /// The row as of a snapshot, if it has changed since.
    fn version(&self, snapshot: u64) -> Option<&Version> {
        let mut later = self.images().filter(|image| image.number > snapshot);
        later.next().map(|image| &image.before)
    }

    /// Where the first commit since a snapshot that has changed the row has moved it.
    fn moved(&self, snapshot: u64) -> Option<&Move> {
        let mut later = self.images().filter(|image| image.number > snapshot);
        later.next().map(|image| &image.moved)
    }

    fn images(&self) -> impl Iterator<Item = &Image> {
        self.oldest.iter().chain(&self.later)
    }

    fn newest(&self) -> Option<&Image> {
        self.later.last().or(self.oldest.as_ref())
    }

    fn add(&mut self, image: Image) {
        if self.oldest.is_none() {
            self.oldest = Some(image);
        } else {
            self.later.push(image);
        }
    }

    /// Takes an image out.
    fn take(&mut self, at: usize) -> Option<Image> {
        if at > 0 {
            return Some(self.later.remove(at - 1));
        }
        let next = (!self.later.is_empty()).then(|| self.later.remove(0));
        std::mem::replace(&mut self.oldest, next)
    }

    /// Gives what the row's newest commit has changed another number.
    fn renumber(&mut self, from: u64, to: u64) {
        let newest = self.later.last_mut().or(self.oldest.as_mut());
        if let Some(image) = newest.filter(|image| image.number == from) {
            image.number = to;
        }
        if self.last == from {
            self.last = to;
        }
    }

    /// The row as of the newest commit that has a number, if it is kept.
    fn committed(&self) -> Option<&Version> {
        match self.newest() {
            Some(image) if image.number >= PENDING => Some(&image.before),
            _ => self.after.as_ref(),
        }
    }

    /// The row as of a snapshot, and now if that is kept, if commits with a number have changed it
    /// since.
    fn change_since(&self, snapshot: u64) -> Option<(&Version, Option<&Version>)> {
        let (before, now) = (self.version(snapshot)?, self.committed());
        let is_same = match (before, now) {
            (Some(before), Some(Some(now))) => Arc::ptr_eq(before, now),
            (None, Some(None)) => true,
            _ => false,
        };
        (!is_same).then_some((before, now))
    }

    /// Whether commits with a number have changed a row that was read by its primary key.
    fn is_conflict(&self, snapshot: u64) -> bool {
        let is_phantom = |before: &Version| before.is_none() && is_left_out(Omission::Phantoms);
        let change = self.change_since(snapshot);
        change.is_some_and(|(before, _)| !is_phantom(before))
    }
}

/// The images of all tables.
#[derive(Default)]
pub(super) struct Images {
    rows: ImageRows<Chain>,
    /// Rows that have an image of a commit, by its number.
    commits: BTreeMap<u64, Vec<u32>>,
    /// Commits that had images before they had numbers.
    announced: u64,
    count: u64,
    bytes: u64,
    /// Snapshots whose reads will be validated.
    validating: u32,
}

impl Images {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// A snapshot whose reads will be validated is registered.
    pub(super) fn begin_validating(&mut self) {
        self.validating += 1;
    }

    pub(super) fn end_validating(&mut self) {
        self.validating -= 1;
    }

    /// A number for a commit that gets its own one later.
    pub(super) fn announce(&mut self) -> u64 {
        self.announced += 1;
        PENDING + self.announced
    }

    /// Keeps what a row is before a commit. Only the first change of a row by this commit makes an
    /// image, and only if it is needed; the row's number then.
    pub(super) fn add(&mut self, number: u64, change: &Change, need: Need<'_>) -> Option<u32> {
        let row = self.rows.find_or_add(change.table.id(), &change.key);
        let chain = self.rows.get_mut(row);
        self.bytes -= bytes_after(chain);
        let is_kept = self.validating > 0 || matches!(need, Need::Any);
        chain.after = is_kept.then(|| change.after.clone());
        self.bytes += bytes_after(chain);
        let since = std::mem::replace(&mut chain.last, number);
        if since == number {
            let newest = chain.later.last_mut().or(chain.oldest.as_mut());
            if let Some(image) = newest.filter(|image| image.number == number) {
                image.moved = change.moved.clone();
            }
            return None;
        }
        if let Need::Of(active) = need
            && active
                .last_key_value()
                .is_none_or(|(newest, _)| *newest < since)
        {
            return None;
        }
        chain.add(Image {
            since,
            number,
            before: change.before.clone(),
            moved: change.moved.clone(),
        });
        self.count += 1;
        self.bytes += IMAGE_BYTES + bytes(&change.before);
        Some(row)
    }

    /// Notes the rows that have an image of a commit.
    pub(super) fn note(&mut self, number: u64, rows: Vec<u32>) {
        if !rows.is_empty() {
            self.commits.insert(number, rows);
        }
    }

    /// Gives a commit that was announced its own number.
    pub(super) fn renumber(&mut self, announced: u64, number: u64, rows: Vec<u32>) {
        for &row in &rows {
            self.rows.get_mut(row).renumber(announced, number);
        }
        self.note(number, rows);
    }

    /// The rows of a commit are as its images say.
    pub(super) fn undo(&mut self, announced: u64, undone: &[u32]) {
        for &row in undone {
            let chain = self.rows.get_mut(row);
            let image = chain.newest().filter(|image| image.number == announced);
            let Some(before) = image.map(|image| image.before.clone()) else {
                continue;
            };
            self.bytes -= bytes_after(chain);
            chain.after = Some(before);
            self.bytes += bytes_after(chain);
        }
    }

    /// Frees the images that no snapshot needs, of commits with a number above `low` and up to
    /// `high`, of so many commits at most. Returns the last of these, if there are more.
    pub(super) fn free(
        &mut self,
        low: u64,
        high: u64,
        active: &Active,
        commits_max: usize,
    ) -> Option<u64> {
        let bounds = (Bound::Excluded(low), Bound::Included(high));
        let numbers = self.commits.range(bounds).map(|(number, _)| *number);
        let numbers: Vec<u64> = numbers.take(commits_max).collect();
        let last = numbers.last().copied();
        let has_more = numbers.len() == commits_max;
        for number in numbers {
            let Some(mut rows) = self.commits.remove(&number) else {
                continue;
            };
            rows.retain(|row| !self.free_image(*row, number, active));
            if !rows.is_empty() {
                self.commits.insert(number, rows);
            }
        }
        last.filter(|_| has_more)
    }

    /// Frees a row's image of this commit unless it is needed; whether it is gone.
    fn free_image(&mut self, row: u32, number: u64, active: &Active) -> bool {
        let chain = self.rows.get_mut(row);
        let at = chain.images().position(|image| image.number == number);
        let image = at.and_then(|at| chain.images().nth(at));
        if image.is_some_and(|image| image.is_needed(active)) {
            return false;
        }
        let Some(image) = at.and_then(|at| chain.take(at)) else {
            return true;
        };
        self.count -= 1;
        self.bytes -= IMAGE_BYTES + bytes(&image.before);
        if chain.oldest.is_none() {
            let chain = self.rows.remove(row);
            self.bytes -= bytes_after(&chain);
        }
        true
    }

    /// The row as of a snapshot, if an image has it.
    pub(super) fn version(&self, table: TableId, key: &KeyBuf, snapshot: u64) -> Option<&Version> {
        self.rows.get(self.rows.find(table, key)?).version(snapshot)
    }

    /// Where the first commit since a snapshot that has changed a row has moved it, if an image
    /// tells.
    pub(super) fn moved(&self, table: TableId, key: &KeyBuf, snapshot: u64) -> Option<&Move> {
        self.rows.get(self.rows.find(table, key)?).moved(snapshot)
    }

    /// Whether a commit has changed a row since a snapshot.
    pub(super) fn has_changed(&self, table: TableId, key: &KeyBuf, snapshot: u64) -> bool {
        let row = self.rows.find(table, key);
        row.is_some_and(|row| self.rows.get(row).change_since(snapshot).is_some())
    }

    /// Whether the table has no image.
    pub(super) fn is_empty(&self, table: TableId) -> bool {
        !self.rows.has_any(table)
    }

    /// Makes visits to ranges of primary keys of a table quick.
    pub(super) fn order(&mut self, table: TableId) {
        self.rows.order(table);
    }

    /// Visits the rows of a table that have changed since a snapshot, as of then; only those with
    /// primary keys in a range, if one is given.
    pub(super) fn visit(
        &self,
        table: TableId,
        keys: Option<(&KeyBuf, &KeyBuf)>,
        snapshot: u64,
        visit: &mut dyn FnMut(&KeyBuf, &Version),
    ) {
        for (key, chain) in self.rows.range(table, keys) {
            if let Some(version) = chain.version(snapshot) {
                visit(key, version);
            }
        }
    }

    /// Whether one of the intervals that a transaction has read at a snapshot would be read
    /// differently now.
    pub(super) fn conflicts(&mut self, snapshot: u64, reads: &[Interval]) -> Result<bool> {
        for interval in reads {
            let table = interval.table.id();
            if !self.rows.has_any(table) {
                continue;
            }
            let has_changed = if interval.index.is_some() {
                self.has_changed_in_index(snapshot, interval)?
            } else if interval.low == interval.high {
                let row = self.rows.find(table, &interval.low);
                row.is_some_and(|row| self.rows.get(row).is_conflict(snapshot))
            } else {
                // Primary keys never change, so the key tells whether a change matters.
                self.rows.order(table);
                let inside = Some((&interval.low, &interval.high));
                let mut inside = self.rows.range(table, inside);
                inside.any(|(_, chain)| chain.is_conflict(snapshot))
            };
            if has_changed {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn has_changed_in_index(&self, snapshot: u64, interval: &Interval) -> Result<bool> {
        let table = interval.table.id();
        let since = (Bound::Excluded(snapshot), Bound::Unbounded);
        for row in self.commits.range(since).flat_map(|(_, rows)| rows) {
            let chain = (self.rows.table(*row) == table).then(|| self.rows.get(*row));
            let Some((before, now)) = chain.and_then(|chain| chain.change_since(snapshot)) else {
                continue;
            };
            // It is kept if these reads were registered when it was written, or could be.
            let has_come = !is_left_out(Omission::Phantoms)
                && now.map_or(Ok(true), |now| interval.holds(now))?;
            if has_come || interval.holds(before)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn bytes_after(chain: &Chain) -> u64 {
    chain.after.as_ref().map_or(0, bytes)
}

fn bytes(version: &Version) -> u64 {
    version.as_ref().map_or(0, |row| row.bytes() as u64)
}
