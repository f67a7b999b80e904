//! Goal: a hint that is given names a block that was noted and not taken out again, whatever the
//! sizes; and most of those that were noted are given, within the budget.
//!
//! Method: blocks of a size are numbered, noted and taken out in thousands, and the hints are
//! compared with a map.

use super::*;
use std::collections::BTreeMap;
use storage::record::key_hash;

const BLOCK_BYTES: usize = 1088;

/// Hints, and the offsets of blocks of their size in an endless pool.
struct Scene {
    hints: Hints,
    budget: HintBudget,
    numbers: BlockNumbers,
    rows: BTreeMap<u64, u64>,
    pool_bytes: u64,
}

impl Scene {
    fn new(budget: u64, pool_bytes: u64) -> Self {
        let budget = HintBudget::new(budget);
        Self {
            hints: Hints::new(&budget, BLOCK_BYTES),
            budget,
            numbers: BlockNumbers::new(BLOCK_BYTES).unwrap(),
            rows: BTreeMap::new(),
            pool_bytes,
        }
    }

    /// The block of a row: 15 to a chunk, beginning with chunk `first`.
    fn block(&self, row: u64, first: u64) -> u64 {
        self.numbers.offset((first + row / 15) * 16 + row % 15)
    }

    fn insert(&mut self, key: u64, block: u64) {
        self.pool_bytes = self.pool_bytes.max(block + (1 << 14));
        self.rows.insert(key, block);
        let rows = self.rows.len() as u64;
        let hash = key_hash(&[key]);
        self.hints.insert(hash, block, self.pool_bytes, || rows);
    }

    fn remove(&mut self, key: u64) {
        let block = self.rows.remove(&key).unwrap();
        self.hints.remove(key_hash(&[key]), block);
    }

    /// The share of rows that have a hint, and the candidates of a row.
    fn found(&self) -> (f64, f64) {
        let (mut found, mut seen) = (0_u64, 0_u64);
        for (key, block) in &self.rows {
            let mut candidates = self.hints.candidates(key_hash(&[*key]));
            found += u64::from(candidates.any(|at| at == *block));
            seen += self.hints.candidates(key_hash(&[*key])).count() as u64;
        }
        let rows = self.rows.len() as f64;
        (found as f64 / rows, seen as f64 / rows)
    }

    /// Every hint names a block of a row.
    fn check(&self) {
        let blocks: std::collections::BTreeSet<u64> = self.rows.values().copied().collect();
        for block in self.hints.blocks() {
            assert!(blocks.contains(&block), "a hint names {block}");
        }
        let table = self.hints.table.as_ref().unwrap();
        assert_eq!(table.used, self.hints.blocks().count());
        assert_eq!(self.budget.bytes(), table.share.bytes);
    }
}

#[test]
fn a_growing_table_keeps_its_hints_in_few_bytes_a_row() {
    let mut scene = Scene::new(u64::MAX / 2, 1 << 20);
    for row in 0..200_000 {
        scene.insert(row * 7, scene.block(row, 1));
    }
    scene.check();
    let (found, candidates) = scene.found();
    assert!(found > 0.93, "{found}");
    assert!(candidates < 1.1, "{candidates}");
    let bytes = scene.budget.bytes() as f64 / 200_000.0;
    assert!(bytes < 10.5, "{bytes}");
    drop(scene.hints);
    assert_eq!(scene.budget.bytes(), 0);
}

#[test]
fn a_hint_that_is_taken_out_is_never_given_again() {
    let mut scene = Scene::new(u64::MAX / 2, 1 << 20);
    for row in 0..20_000 {
        scene.insert(row, scene.block(row, 1));
        if row % 3 == 0 {
            scene.remove(row / 2);
            // Its block is used again, by a row of another key.
            scene.insert(1 << 40 | row, scene.block(row / 2, 1));
        }
    }
    scene.check();
    let keys: Vec<u64> = scene.rows.keys().copied().collect();
    for key in keys {
        scene.remove(key);
    }
    assert_eq!(scene.hints.blocks().count(), 0);
}

#[test]
fn a_short_budget_keeps_some_hints_and_none_of_them_is_wrong() {
    let mut scene = Scene::new(64 << 10, 1 << 20);
    for row in 0..50_000 {
        scene.insert(row, scene.block(row, 1));
    }
    scene.check();
    assert_eq!(scene.budget.bytes(), 64 << 10);
    let full = 16.0 * 1024.0 / 50_000.0;
    let (found, _) = scene.found();
    assert!((0.9 * full..=full).contains(&found), "{found} of {full}");
    let mut scene = Scene::new(0, 1 << 20);
    for row in 0..100 {
        scene.insert(row, scene.block(row, 1));
    }
    assert_eq!((scene.found().0, scene.budget.bytes()), (0.0, 0));
}

#[test]
fn a_table_whose_tags_are_used_up_begins_without_hints_and_gets_them_back() {
    // 2^20 chunks of 16 KiB: tags have 6 bits, so the third doubling begins without hints.
    let first = 1 << 20;
    let mut scene = Scene::new(u64::MAX / 2, first << 14);
    for row in 0..4000 {
        scene.insert(row, scene.block(row, first));
    }
    scene.check();
    let (found, candidates) = scene.found();
    assert!((0.01..0.5).contains(&found), "{found}");
    assert!(candidates < 2.0, "{candidates}");
    for row in 0..4000 {
        scene.insert(row, scene.block(row, first));
    }
    scene.check();
    assert!(scene.found().0 > 0.95);
    // Beyond 2^28 blocks nothing is noted.
    let mut scene = Scene::new(u64::MAX / 2, 1 << 40);
    for row in 0..1000 {
        scene.insert(row, scene.block(row, 1 << 25));
    }
    assert_eq!(scene.hints.blocks().count(), 0);
}

#[test]
fn a_pool_that_outgrows_its_numbers_shortens_tags_and_keeps_the_hints() {
    let mut scene = Scene::new(u64::MAX / 2, 1 << 20);
    for row in 0..500 {
        scene.insert(row, scene.block(row, 1));
    }
    for row in 500..600 {
        scene.insert(row, scene.block(row, 1 << 18));
    }
    scene.check();
    assert!(scene.found().0 > 0.95);
}
