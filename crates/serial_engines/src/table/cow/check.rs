//! The deep check of copy-on-write tables: every tree, every row, every index against its table.
//!
//! It reports which pages and blocks are in use, so that the engine can compare them with the
//! allocated ones. It goes on after damage; a table whose definition cannot be read does not open
//! in the first place.

use super::{CowSpace, Rows, TableState};
use crate::index::cow::TreeReport;
use crate::index::trees::Trees;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use storage::engine::{Direction, VerifyReport};
use storage::record::KeyBuf;

impl<T: Trees, R: Rows<T>> CowSpace<T, R> {
    /// Checks everything, and adds the place of each page and block in use to `reachable`.
    pub fn check(&mut self, reachable: &mut BTreeSet<u64>, report: &mut VerifyReport) {
        let mut shared = Vec::new();
        let block = &mut |place: u64| {
            if !reachable.insert(place) {
                shared.push(format!("the block at offset {place} is used twice"));
            }
        };
        let mut found = TreeReport::default();
        self.trees.check(self.directory, &mut found);
        for state in self.tables.values_mut() {
            let damaged = found.damage.len();
            state.check(&mut self.trees, &mut found, block, report);
            let name = &state.table.def.name;
            for text in &mut found.damage[damaged..] {
                *text = format!("table `{name}`: {text}");
            }
        }
        found.pages.into_iter().for_each(block);
        report.damage.append(&mut found.damage);
        report.damage.append(&mut shared);
    }
}

impl<T: Trees, R: Rows<T>> TableState<T, R> {
    fn check(
        &mut self,
        trees: &mut T,
        found: &mut TreeReport,
        block: &mut dyn FnMut(u64),
        report: &mut VerifyReport,
    ) {
        trees.check(self.primary, found);
        let mut expected = vec![Vec::new(); self.secondary.len()];
        let mut rows = 0;
        let words = self.table.primary.shape().words;
        let (low, high) = (vec![0; words], vec![u64::MAX; words]);
        let primary = self.primary;
        let visited = trees.scan(
            primary,
            (&low, &high),
            Direction::Forward,
            0,
            &mut |trees, key, value| {
                rows += 1;
                let checked = self
                    .rows
                    .check(trees, value, &mut self.row, block)
                    .and_then(|()| {
                        self.table.primary.encode_row(&self.row, &mut self.key)?;
                        if *self.key != *key {
                            let text = format!("the row of key {key:x?} has another key");
                            found.damage.push(text);
                        }
                        for (number, list) in expected.iter_mut().enumerate() {
                            self.table.secondary[number].encode_row(&self.row, &mut self.key)?;
                            list.push((self.key.clone(), KeyBuf::from_words(key)));
                        }
                        Ok(())
                    });
                found
                    .damage
                    .extend(checked.err().map(|error| error.to_string()));
                Ok(ControlFlow::Continue(()))
            },
        );
        found
            .damage
            .extend(visited.err().map(|error| error.to_string()));
        report.rows += rows;
        report.index_entries += rows;
        for (number, mut expected) in expected.into_iter().enumerate() {
            self.check_index(trees, number, &mut expected, found, report);
        }
    }

    /// Checks one secondary index; `expected` has the keys of all rows with their primary keys.
    fn check_index(
        &self,
        trees: &mut T,
        number: usize,
        expected: &mut [(KeyBuf, KeyBuf)],
        found: &mut TreeReport,
        report: &mut VerifyReport,
    ) {
        let index = self.secondary[number];
        trees.check(index, found);
        let mut entries = Vec::new();
        let words = self.table.secondary[number].shape().words;
        let (low, high) = (vec![0; words], vec![u64::MAX; words]);
        let visited = trees.scan(
            index,
            (&low, &high),
            Direction::Forward,
            0,
            &mut |_, key, value| {
                let primary = KeyBuf::from_words(value.words());
                entries.push((KeyBuf::from_words(key), primary));
                Ok(ControlFlow::Continue(()))
            },
        );
        found
            .damage
            .extend(visited.err().map(|error| error.to_string()));
        report.index_entries += entries.len() as u64;
        expected.sort();
        if entries != expected {
            let name = &self.table.def.indexes[number].name;
            found.damage.push(format!(
                "index `{name}` has {} entries, not those of the {} rows",
                entries.len(),
                expected.len()
            ));
        }
    }
}
