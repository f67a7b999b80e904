//! Headers that commits have superseded and that snapshots still show.
//!
//! A commit stores over the header before the last one, and a cell that the header in force does
//! not name is room for others. So while a snapshot lives, each store of a header into a page first
//! keeps the one in force here, in DRAM; its cells count as used as long as it is kept. A header is
//! shown by the snapshots that were taken after it came into force and before it was superseded,
//! both counted in the number of snapshots that had been taken (`index::cow::limbo`). The lock is
//! held while header lines are stored or copied, and for nothing else, so that a reader never
//! copies half a header.

use super::header::Header;
use crate::index::cow::limbo::Limbo;
use std::sync::{Mutex, MutexGuard, PoisonError};
use storage::Result;
use storage::place::PlaceMap;

/// A header that came into force when `since` snapshots had been taken, and was superseded when
/// `until` had. Where its page was not in use before, it counts as if it came into force with it.
struct Kept {
    since: u64,
    until: u64,
    header: Header,
}

/// The headers of one partition that are kept, by page and from old to new.
#[derive(Default)]
pub(super) struct Versions {
    kept: Mutex<PlaceMap<u64, Vec<Kept>>>,
}

/// The versions, while nobody else stores or copies headers.
pub(super) struct Locked<'v> {
    kept: MutexGuard<'v, PlaceMap<u64, Vec<Kept>>>,
}

impl Versions {
    pub(super) fn lock(&self) -> Locked<'_> {
        Locked {
            kept: self.kept.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// The header of a page as snapshot `number` shows it. `in_force` reads the one in the page.
    pub(super) fn header(
        &self,
        page: u64,
        number: u64,
        in_force: impl FnOnce() -> Result<Header>,
    ) -> Result<Header> {
        let locked = self.lock();
        let mut versions = locked.kept.get(&page).into_iter().flatten();
        match versions.find(|kept| kept.until >= number) {
            Some(kept) => Ok(kept.header),
            None => in_force(),
        }
    }
}

impl Locked<'_> {
    /// Keeps the header in force of a page, which is about to be superseded, if a snapshot shows
    /// it.
    pub(super) fn keep(
        &mut self,
        page: u64,
        limbo: &Limbo,
        header: impl FnOnce() -> Result<Header>,
    ) -> Result<()> {
        let superseded = self.versions(page).last().map_or(0, |kept| kept.until);
        let since = superseded.max(limbo.birth(page));
        if limbo.live().last().is_some_and(|&newest| newest > since) {
            let header = header()?;
            let until = limbo.taken();
            let versions = self.kept.entry(page).or_default();
            versions.push(Kept {
                since,
                until,
                header,
            });
        }
        Ok(())
    }

    fn versions(&self, page: u64) -> &[Kept] {
        self.kept.get(&page).map_or(&[], Vec::as_slice)
    }

    /// The headers that are kept of a page.
    pub(super) fn headers(&self, page: u64) -> impl Iterator<Item = &Header> {
        self.versions(page).iter().map(|kept| &kept.header)
    }

    /// Forgets what none of the snapshots `live` shows, in their order.
    pub(super) fn retain(&mut self, live: &[u64]) {
        let shown = |kept: &Kept| {
            let before = live.partition_point(|&number| number <= kept.until);
            live[..before]
                .last()
                .is_some_and(|&number| number > kept.since)
        };
        self.kept.retain(|_, versions| {
            versions.retain(shown);
            !versions.is_empty()
        });
    }
}
