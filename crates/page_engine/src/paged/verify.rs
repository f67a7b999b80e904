//! The deep check of a partition: pages on the medium, trees, rows, indexes against rows, and pages
//! in use against pages reached.
//!
//! Everything is in the file before the check begins, and each page in use is read from there, so
//! damage that a frame hides is found.

use super::space::Pages;
use super::tables::{TableState, Tables, tree_names};
use super::tree::Stored;
use super::values::{assign, long_pages, read_stored};
use crate::page::PageId;
use disk::Directory;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use storage::Result;
use storage::engine::{Direction, Footprint, VerifyReport};
use storage::record::KeyBuf;

impl Tables {
    /// Checks everything. All changes are in the file.
    pub fn verify<D: Directory>(&mut self, pages: &Pages<D>) -> Result<VerifyReport> {
        let mut report = VerifyReport::default();
        report.damage.extend(pages.pool.file().check()?);
        let (maps, used) = match pages.used() {
            Ok(found) => found,
            Err(error) => {
                report.damage.push(error.to_string());
                return Ok(report);
            }
        };
        pages.check_medium(maps.iter().chain(&used), &mut report)?;
        if !report.damage.is_empty() {
            // The further checks would report the same damage again.
            return Ok(report);
        }
        let mut reachable: BTreeSet<PageId> = BTreeSet::new();
        self.catalogue
            .check(pages, &mut reachable, &mut report.damage);
        let mut frees = Vec::new();
        let long = long_pages(pages, self.catalogue, &mut frees);
        if let Err(error) = long.and_then(|()| self.dropped_pages(pages, &mut frees)) {
            report.damage.push(error.to_string());
        }
        for state in self.states() {
            state.check(pages, &mut reachable, &mut frees, &mut report);
        }
        for id in frees {
            if !reachable.insert(id) {
                report.damage.push(format!("{id} is used twice"));
            }
        }
        for id in used.difference(&reachable) {
            report
                .damage
                .push(format!("{id} is in use and belongs to nothing"));
        }
        for id in reachable.difference(&used) {
            report
                .damage
                .push(format!("{id} belongs to a tree and is not in use"));
        }
        Ok(report)
    }

    /// Bytes in use.
    pub fn footprint<D: Directory>(&self, pages: &Pages<D>) -> Result<Footprint> {
        let page_bytes = pages.page_bytes() as u64;
        let (maps, used) = pages.used()?;
        let mut index = 0;
        for state in self.states() {
            index += state.primary.count(pages)?.inner;
            for tree in &state.secondary {
                let count = tree.count(pages)?;
                index += count.inner + count.leaves;
            }
        }
        let catalogue = self.catalogue.count(pages)?;
        let other = catalogue.inner + catalogue.leaves + maps.len() as u64;
        let all = (used.len() + maps.len()) as u64;
        Ok(Footprint {
            table: all.saturating_sub(index + other) * page_bytes,
            index: index * page_bytes,
            log: pages.pool.log().bytes(),
            checkpoint: 0,
            other: other * page_bytes + pages.pool.file().other_bytes(),
        })
    }
}

impl TableState {
    fn check<D: Directory>(
        &self,
        pages: &Pages<D>,
        reachable: &mut BTreeSet<PageId>,
        frees: &mut Vec<PageId>,
        report: &mut VerifyReport,
    ) {
        let before = report.damage.len();
        for tree in std::iter::once(&self.primary).chain(&self.secondary) {
            tree.check(pages, reachable, &mut report.damage);
        }
        report.blocks = reachable.len() as u64;
        if report.damage.len() > before {
            return;
        }
        if let Err(error) = long_pages(pages, self.primary, frees) {
            report.damage.push(error.to_string());
        }
        let rows = report.rows;
        self.check_rows(pages, report);
        let rows = report.rows - rows;
        report.index_entries += rows;
        for (tree, name) in self
            .secondary
            .iter()
            .zip(tree_names(&self.table.def).skip(1))
        {
            let mut entries = 0;
            let (low, high) = (vec![0; tree.key_words], vec![u64::MAX; tree.key_words]);
            let count = &mut |_: &[u8], _: Stored<'_>| {
                entries += 1;
                Ok(ControlFlow::Continue(()))
            };
            if let Err(error) = tree.scan(pages, (&low, &high), Direction::Forward, count) {
                report.damage.push(error.to_string());
            }
            report.index_entries += entries;
            if entries != rows {
                report.damage.push(format!(
                    "index {} of table `{}` has {entries} entries for {rows} rows",
                    name - 2,
                    self.table.def.name
                ));
            }
        }
    }

    /// Every row can be read, lies under its own key, and has an entry in each index.
    fn check_rows<D: Directory>(&self, pages: &Pages<D>, report: &mut VerifyReport) {
        let words = self.primary.key_words;
        let (low, high) = (vec![0; words], vec![u64::MAX; words]);
        let (mut value, mut row) = (Vec::new(), self.row.clone());
        let (mut key, mut wanted) = (KeyBuf::new(), KeyBuf::new());
        let name = &self.table.def.name;
        let damage = &mut report.damage;
        let mut rows = 0;
        let visit = &mut |on_page: &[u8], stored: Stored<'_>| {
            rows += 1;
            assign(&mut key, words, on_page);
            if let Err(error) = read_stored(pages, self.primary, stored, &mut value, &mut row) {
                damage.push(error.to_string());
                return Ok(ControlFlow::Continue(()));
            }
            if let Err(error) = row.check_values() {
                damage.push(error.to_string());
                return Ok(ControlFlow::Continue(()));
            }
            if self.table.primary.encode_row(&row, &mut wanted).is_err() || *wanted != *key {
                damage.push(format!(
                    "a row of table `{name}` lies under another key: {:x?}",
                    &*key
                ));
            }
            for (encoder, tree) in self.table.secondary.iter().zip(&self.secondary) {
                let is_there = encoder.encode_row(&row, &mut wanted).is_ok()
                    && tree.get(pages, &wanted, |found| found.bytes == on_page)? == Some(true);
                if !is_there {
                    damage.push(format!(
                        "a row of table `{name}` has no entry in an index: {:x?}",
                        &*key
                    ));
                }
            }
            Ok(ControlFlow::Continue(()))
        };
        let scanned = self
            .primary
            .scan(pages, (&low, &high), Direction::Forward, visit);
        report.rows += rows;
        if let Err(error) = scanned {
            report.damage.push(error.to_string());
        }
    }
}

impl<D: Directory> Pages<D> {
    /// Reads pages from the file itself.
    fn check_medium<'i>(
        &self,
        ids: impl Iterator<Item = &'i PageId>,
        report: &mut VerifyReport,
    ) -> Result<()> {
        for &id in ids {
            if id.0 >= self.pool.readers().pages() {
                report
                    .damage
                    .push(format!("{id} is in use behind the end of the file"));
                continue;
            }
            if !self.pool.is_intact(id)? {
                let error = self
                    .pool
                    .file()
                    .damage(id, "the page's checksum or number is wrong");
                report.damage.push(error.to_string());
            }
        }
        Ok(())
    }
}
