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

use super::change::{Change, Version};
use super::interval::Interval;
use super::omission::{Omission, is_left_out};
use crate::error::Result;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::record::{KeyBuf, TableId};

/// Numbers of snapshots that are registered, and how often each is.
pub(super) type Active = BTreeMap<u64, u32>;

/// Memory of an image and its key beside the row.
const IMAGE_BYTES: u64 = 192;
/// Above every snapshot.
const PENDING: u64 = u64::MAX;

/// The number of a commit, which all of its images share.
#[derive(Debug)]
pub(super) struct Stamp(AtomicU64);

impl Stamp {
    pub(super) fn pending() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(PENDING)))
    }

    pub(super) fn is_pending(&self) -> bool {
        self.number() == PENDING
    }

    /// Relaxed: numbers are read and stored under the clock's mutex.
    fn number(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

struct Image {
    /// The commit before this one.
    since: u64,
    stamp: Arc<Stamp>,
    before: Version,
}

impl Image {
    fn is_needed(&self, active: &Active) -> bool {
        let number = self.stamp.number();
        self.stamp.is_pending() || active.range(self.since..number).next().is_some()
    }
}

/// The images of one row.
struct Chain {
    images: Vec<Image>,
    last: Arc<Stamp>,
    after: Option<Version>,
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
        let image = self.images.iter();
        let mut later = image.filter(|image| image.stamp.number() > snapshot);
        later.next().map(|image| &image.before)
    }

    /// The row as of the newest commit that has a number, if it is kept.
    fn committed(&self) -> Option<&Version> {
        match self.images.last() {
            Some(image) if image.stamp.is_pending() => Some(&image.before),
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
}

type Rows = BTreeMap<KeyBuf, Chain>;

/// The images of all tables.
pub(super) struct Images {
    tables: BTreeMap<TableId, Rows>,
    /// Rows that have an image of a commit, by its number.
    commits: BTreeMap<u64, Vec<(TableId, KeyBuf)>>,
    count: u64,
    bytes: u64,
    /// Snapshots whose reads will be validated.
    validating: u32,
    /// The stamp of no commit, before all snapshots.
    never: Arc<Stamp>,
}

impl Default for Images {
    fn default() -> Self {
        Self {
            tables: BTreeMap::new(),
            commits: BTreeMap::new(),
            count: 0,
            bytes: 0,
            validating: 0,
            never: Arc::new(Stamp(AtomicU64::new(0))),
        }
    }
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

    /// Keeps what a row is before a commit. Only the first change of a row by this commit makes an
    /// image, and only if it is needed; true for that one.
    pub(super) fn add(&mut self, stamp: &Arc<Stamp>, change: &Change, need: Need<'_>) -> bool {
        let rows = self.tables.entry(change.table.id()).or_default();
        let chain = rows.entry(change.key.clone()).or_insert_with(|| Chain {
            images: Vec::with_capacity(1),
            last: Arc::clone(&self.never),
            after: None,
        });
        self.bytes -= bytes_after(chain);
        let is_kept = self.validating > 0 || matches!(need, Need::Any);
        chain.after = is_kept.then(|| change.after.clone());
        self.bytes += bytes_after(chain);
        if Arc::ptr_eq(&chain.last, stamp) {
            return false;
        }
        let since = chain.last.number();
        chain.last = Arc::clone(stamp);
        if let Need::Of(active) = need
            && active.range(since..).next().is_none()
        {
            return false;
        }
        chain.images.push(Image {
            since,
            stamp: Arc::clone(stamp),
            before: change.before.clone(),
        });
        self.count += 1;
        self.bytes += IMAGE_BYTES + bytes(&change.before);
        true
    }

    /// Gives a commit its number.
    pub(super) fn stamp(&mut self, stamp: &Stamp, number: u64, rows: Vec<(TableId, KeyBuf)>) {
        stamp.0.store(number, Ordering::Relaxed);
        if !rows.is_empty() {
            self.commits.insert(number, rows);
        }
    }

    /// The rows of a commit are as its images say.
    pub(super) fn undo(&mut self, stamp: &Arc<Stamp>, undone: &[(TableId, KeyBuf)]) {
        for (table, key) in undone {
            let chain = self
                .tables
                .get_mut(table)
                .and_then(|rows| rows.get_mut(key));
            let Some(chain) = chain else { continue };
            let image = chain.images.last();
            let Some(image) = image.filter(|image| Arc::ptr_eq(&image.stamp, stamp)) else {
                continue;
            };
            let before = image.before.clone();
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
            rows.retain(|(table, key)| self.free_image(*table, key, number, active));
            if !rows.is_empty() {
                self.commits.insert(number, rows);
            }
        }
        last.filter(|_| has_more)
    }

    /// Frees a row's image of this commit unless it is needed; false if it is gone.
    fn free_image(&mut self, table: TableId, key: &KeyBuf, number: u64, active: &Active) -> bool {
        let Some(rows) = self.tables.get_mut(&table) else {
            return false;
        };
        let Some(chain) = rows.get_mut(key) else {
            return false;
        };
        let Some(at) = chain
            .images
            .iter()
            .position(|image| image.stamp.number() == number)
        else {
            return false;
        };
        if chain.images[at].is_needed(active) {
            return true;
        }
        let image = chain.images.remove(at);
        self.count -= 1;
        self.bytes -= IMAGE_BYTES + bytes(&image.before);
        if chain.images.is_empty() {
            self.bytes -= bytes_after(chain);
            rows.remove(key);
            if rows.is_empty() {
                self.tables.remove(&table);
            }
        }
        false
    }

    /// The row as of a snapshot, if an image has it.
    pub(super) fn version(&self, table: TableId, key: &KeyBuf, snapshot: u64) -> Option<&Version> {
        self.tables.get(&table)?.get(key)?.version(snapshot)
    }

    /// Whether a commit has changed a row since a snapshot.
    pub(super) fn has_changed(&self, table: TableId, key: &KeyBuf, snapshot: u64) -> bool {
        let chain = self.tables.get(&table).and_then(|rows| rows.get(key));
        chain.is_some_and(|chain| chain.change_since(snapshot).is_some())
    }

    /// Whether the table has no image.
    pub(super) fn is_empty(&self, table: TableId) -> bool {
        !self.tables.contains_key(&table)
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
        let Some(rows) = self.tables.get(&table) else {
            return;
        };
        let visit = |(key, chain): (&KeyBuf, &Chain)| {
            if let Some(version) = chain.version(snapshot) {
                visit(key, version);
            }
        };
        match keys {
            Some((low, high)) => rows.range(low..=high).for_each(visit),
            None => rows.iter().for_each(visit),
        }
    }

    /// Whether one of the intervals that a transaction has read at a snapshot would be read
    /// differently now.
    pub(super) fn conflicts(&self, snapshot: u64, reads: &[Interval]) -> Result<bool> {
        for interval in reads {
            let Some(rows) = self.tables.get(&interval.table.id()) else {
                continue;
            };
            if interval.index.is_none() {
                // Primary keys never change, so the key tells whether a change matters.
                let inside = rows.range(&interval.low..=&interval.high);
                let mut changes = inside.filter_map(|(_, chain)| chain.change_since(snapshot));
                let is_phantom =
                    |before: &Version| before.is_none() && is_left_out(Omission::Phantoms);
                if changes.any(|(before, _)| !is_phantom(before)) {
                    return Ok(true);
                }
                continue;
            }
            let since = (Bound::Excluded(snapshot), Bound::Unbounded);
            for (table, key) in self.commits.range(since).flat_map(|(_, rows)| rows) {
                let chain = (*table == interval.table.id())
                    .then(|| rows.get(key))
                    .flatten();
                let Some((before, now)) = chain.and_then(|chain| chain.change_since(snapshot))
                else {
                    continue;
                };
                // It is kept if these reads were registered when it was written, or could be.
                let has_come = !is_left_out(Omission::Phantoms)
                    && now.map_or(Ok(true), |now| interval.holds(now))?;
                if has_come || interval.holds(before)? {
                    return Ok(true);
                }
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
