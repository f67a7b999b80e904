//! Deferred redo: differences in the log of pages that were not read since the partition was
//! opened.
//!
//! An opening reads the log once, to check it, and notes here where it has differences of which
//! page, but reads no page. A page gets its differences when it comes into a frame, or on its way
//! home. So the time of an opening depends on the length of the log alone, not on the number of
//! pages in it.
//!
//! Every page has a chain of its differences, the newest first: each names the one before. They
//! stay in the log, which is not freed before all of it is home; only those of records with
//! extensions are copied.

use super::difference::apply;
use super::home::Home;
use super::log::{Differences, Entry};
use std::collections::HashMap;
use std::ops::Range;
use storage::Result;

/// Location of differences of a page.
enum Location {
    /// In the memory of the log.
    Logged { at: u64, bytes: usize },
    /// In `copies`.
    Copied(Range<usize>),
}

/// Content that the differences of a step are applied to.
#[derive(Clone, Copy)]
enum Before {
    /// The page as it is at home.
    Home,
    /// Zeros: the record has brought it into use.
    Zeros,
    /// The result of the step with this number.
    Step(usize),
}

/// The differences that one record has of one page.
struct Step {
    before: Before,
    place: Location,
}

/// The chains of all pages that are not read yet.
#[derive(Default)]
pub(super) struct Unread {
    /// The number of the newest step of each page, by the page's number.
    newest: HashMap<u64, usize>,
    steps: Vec<Step>,
    copies: Vec<u8>,
}

impl Unread {
    /// Pages that the log has more of than the file, and that are in no frame.
    pub(super) fn pages(&self) -> usize {
        self.newest.len()
    }

    /// Their numbers, in order.
    pub(super) fn numbers(&self) -> Vec<u64> {
        let mut numbers: Vec<_> = self.newest.keys().copied().collect();
        numbers.sort_unstable();
        numbers
    }

    /// Notes what a record has of page `number`.
    pub(super) fn add(&mut self, number: u64, entry: &Entry<'_>) {
        let bytes = entry.differences.len();
        let place = if let Some(at) = entry.at {
            Location::Logged { at, bytes }
        } else {
            let at = self.copies.len();
            self.copies.extend_from_slice(entry.differences);
            Location::Copied(at..at + bytes)
        };
        let before = self.newest.insert(number, self.steps.len());
        self.steps.push(Step {
            before: if entry.is_fresh {
                Before::Zeros
            } else {
                before.map_or(Before::Home, Before::Step)
            },
            place,
        });
    }

    /// The page is in a frame, or not in use any more. Says whether it was one of these.
    pub(super) fn forget(&mut self, number: u64) -> bool {
        let was_one = self.newest.remove(&number).is_some();
        if self.newest.is_empty() {
            *self = Self::default();
        }
        was_one
    }

    /// Reads a page as the log and its place at home make it.
    pub(super) fn read(
        &self,
        (number, page): (u64, u64),
        log: &dyn Differences,
        home: &mut dyn Home,
        bytes: &mut [u8],
    ) -> Result<()> {
        let mut chain = Vec::new();
        let mut next = self
            .newest
            .get(&number)
            .map_or(Before::Home, |newest| Before::Step(*newest));
        while let Before::Step(step) = next {
            let step = &self.steps[step];
            chain.push(step);
            next = step.before;
        }
        match next {
            // There need not be a place for it at home yet.
            Before::Zeros => bytes.fill(0),
            _ => home.read(page, bytes)?,
        }
        for step in chain.into_iter().rev() {
            let differences = match &step.place {
                Location::Logged { at, bytes } => log.bytes(*at, *bytes)?,
                Location::Copied(range) => &self.copies[range.clone()],
            };
            apply(page, differences, bytes)?;
        }
        Ok(())
    }
}
