//! The durable steps that ran, and those that are switched off.
//!
//! A mutation check switches one site off and expects the crash tests to notice. The same table
//! counts how often a step had any effect: a flush of clean or already flushed lines, or a fence
//! with nothing to wait for, is waste. A world and all its images share one table, so recovery is
//! counted and mutated as well.

use crate::device::Site;
use std::collections::{BTreeMap, HashMap};

/// The kind of step at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SiteKind {
    /// Starts write-backs.
    Flush,
    /// Waits for write-backs and streaming stores.
    Fence,
    /// Stores past the cache.
    Stream,
    /// Syncs a file or a directory.
    Sync,
}

/// Counts of one site in a world and its images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteReport {
    /// The site's name.
    pub name: &'static str,
    /// Source file.
    pub file: &'static str,
    /// Source line.
    pub line: u32,
    /// The site's kind; a site that both streams and flushes has two reports.
    pub kind: SiteKind,
    /// Times it was reached, switched off or not.
    pub executions: u64,
    /// Times it had something to do: a line to write back, something to wait for. A site with 0 of
    /// many is needless.
    pub useful: u64,
}

/// Which executions of a site do nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disabled {
    /// All of them.
    Always,
    /// The one with this number, counted from 0 for each kind.
    Nth(u64),
}

/// All sites seen, and those switched off.
#[derive(Default)]
pub(super) struct SiteTable {
    // A site is known by its address: the static is unique, and comparing names would cost more
    // than the step itself.
    seen: HashMap<(usize, SiteKind), Seen>,
    disabled: BTreeMap<String, Disabled>,
}

struct Seen {
    site: &'static Site,
    executions: u64,
    useful: u64,
    disabled: Option<Disabled>,
}

impl SiteTable {
    /// Counts one execution, and says whether it takes place.
    pub(super) fn execute(&mut self, site: &'static Site, kind: SiteKind, useful: bool) -> bool {
        let key = (std::ptr::from_ref(site).addr(), kind);
        let seen = self.seen.entry(key).or_insert_with(|| {
            let disabled = self.disabled.get(site.name).copied();
            Seen {
                site,
                executions: 0,
                useful: 0,
                disabled,
            }
        });
        let number = seen.executions;
        seen.executions += 1;
        seen.useful += u64::from(useful);
        match seen.disabled {
            None => true,
            Some(Disabled::Always) => false,
            Some(Disabled::Nth(nth)) => nth != number,
        }
    }

    /// Switches a site off, or on again with `None`.
    pub(super) fn set_disabled(&mut self, name: &str, disabled: Option<Disabled>) {
        match disabled {
            Some(disabled) => self.disabled.insert(name.to_owned(), disabled),
            None => self.disabled.remove(name),
        };
        for seen in self.seen.values_mut().filter(|seen| seen.site.name == name) {
            seen.disabled = disabled;
        }
    }

    /// All sites seen, by name and kind.
    pub(super) fn reports(&self) -> Vec<SiteReport> {
        let mut reports: Vec<_> = self
            .seen
            .iter()
            .map(|((_, kind), seen)| SiteReport {
                name: seen.site.name,
                file: seen.site.file,
                line: seen.site.line,
                kind: *kind,
                executions: seen.executions,
                useful: seen.useful,
            })
            .collect();
        reports.sort_by_key(|report| (report.name, report.kind, report.file, report.line));
        reports
    }
}
