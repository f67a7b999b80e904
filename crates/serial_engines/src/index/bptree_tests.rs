//! The volatile B+tree against a map.
//!
//! Random operations with narrow and wide keys and with nodes so small that trees of a few hundred
//! entries have several levels; after each transaction, committed or aborted, the content and the
//! structure are compared.

use super::*;
use pmem::{MemorySource, NativeOptions, NativeSource, Outcome};
use pmem::{POOL_FORMAT, PoolId, PoolIdentity, PoolKind};
use proptest::prelude::*;
use std::collections::BTreeMap;
use storage::log::Keep;

type NativeArena = Arena<<NativeSource as MemorySource>::Memory>;

struct Bench {
    arena: NativeArena,
    writes: VolatileUndo,
    tree: Bptree,
}

impl Bench {
    fn new(key_words: usize, node_bytes: usize) -> Self {
        let source = NativeSource::new(std::env::temp_dir(), NativeOptions::default());
        let memory = source.volatile(1 << 20).unwrap();
        let identity = PoolIdentity {
            kind: PoolKind(0),
            pool_id: PoolId(1),
            format_version: POOL_FORMAT,
            created_seconds: 0,
            user: [0; 4],
        };
        let mut arena = Arena::create(memory, &identity).unwrap();
        let mut writes = VolatileUndo::new(Keep::BeforeImages);
        let root_word = arena
            .reserve(
                64,
                Owner {
                    part: Part::Other,
                    tag: 0,
                },
            )
            .unwrap();
        let change = arena.activate(root_word).unwrap();
        writes.change(&mut arena, change).unwrap();
        let shape = IndexShape {
            node_bytes,
            key_words,
        };
        let tree = Bptree::create(&mut arena, &mut writes, root_word, shape, 1).unwrap();
        let mut bench = Self {
            arena,
            writes,
            tree,
        };
        bench.commit();
        bench
    }

    fn commit(&mut self) {
        self.writes.commit();
        self.arena.settle(Outcome::Committed);
    }

    fn abort(&mut self) {
        self.writes.abort(&mut self.arena).unwrap();
        self.arena.settle(Outcome::Aborted);
    }

    fn insert(&mut self, key: &[u64], value: u64) -> bool {
        self.tree
            .insert(&mut self.arena, &mut self.writes, key, value)
            .unwrap()
    }

    fn remove(&mut self, key: &[u64]) -> Option<u64> {
        self.tree
            .remove(&mut self.arena, &mut self.writes, key)
            .unwrap()
    }

    fn range(&self, low: &[u64], high: &[u64], direction: Direction) -> Vec<(Vec<u64>, u64)> {
        let mut found = Vec::new();
        self.tree
            .scan(
                &self.arena,
                (low, high),
                direction,
                16,
                &mut |key, value| {
                    found.push((key.to_vec(), value));
                    Ok(ControlFlow::Continue(()))
                },
            )
            .unwrap();
        found
    }

    /// Compares everything with `model`, and returns the number of nodes.
    fn compare(&self, model: &BTreeMap<Vec<u64>, u64>) -> usize {
        let (mut nodes, mut entries, mut damage) = (Vec::new(), Vec::new(), Vec::new());
        OrderedIndex::check(
            &self.tree,
            &self.arena,
            &mut |node| nodes.push(node),
            &mut |key, value| entries.push((key.to_vec(), value)),
            &mut damage,
        );
        assert_eq!(damage, Vec::<String>::new());
        let expected: Vec<_> = model
            .iter()
            .map(|(key, &value)| (key.clone(), value))
            .collect();
        assert_eq!(entries, expected);
        let (keys, values): (Vec<_>, Vec<_>) = expected
            .iter()
            .map(|(key, value)| (key.clone(), Some(*value)))
            .unzip();
        let mut found = vec![None; keys.len()];
        self.tree.get_many(&self.arena, &keys, &mut found).unwrap();
        assert_eq!(found, values);
        nodes.len()
    }
}

fn key_of(number: u64, words: usize) -> Vec<u64> {
    // Most keys share their first words, so that later words decide.
    let mut key = vec![number / 64; words];
    key[words - 1] = number;
    key
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64),
    Remove(u64),
    Range(u64, u64),
    Commit,
    Abort,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        10 => (0..600_u64).prop_map(Step::Insert),
        8 => (0..600_u64).prop_map(Step::Remove),
        1 => (0..600_u64, 0..600_u64).prop_map(|(low, high)| Step::Range(low, high)),
        1 => Just(Step::Commit),
        1 => Just(Step::Abort),
    ];
    prop::collection::vec(step, 1..600)
}

fn run(steps: &[Step], words: usize, node_bytes: usize) {
    let mut bench = Bench::new(words, node_bytes);
    let mut model = BTreeMap::new();
    let mut committed = model.clone();
    for (value, step) in steps.iter().enumerate() {
        let value = value as u64;
        match *step {
            Step::Insert(number) => {
                let key = key_of(number, words);
                assert_eq!(bench.insert(&key, value), !model.contains_key(&key));
                model.entry(key).or_insert(value);
            }
            Step::Remove(number) => {
                let key = key_of(number, words);
                assert_eq!(bench.remove(&key), model.remove(&key));
                assert_eq!(bench.tree.get(&bench.arena, &key).unwrap(), None);
            }
            Step::Range(low, high) => {
                let (low, high) = (key_of(low.min(high), words), key_of(low.max(high), words));
                let mut expected: Vec<_> = model
                    .range(low.clone()..=high.clone())
                    .map(|(key, &value)| (key.clone(), value))
                    .collect();
                assert_eq!(bench.range(&low, &high, Direction::Forward), expected);
                expected.reverse();
                assert_eq!(bench.range(&low, &high, Direction::Backward), expected);
            }
            Step::Commit => {
                bench.commit();
                committed = model.clone();
                bench.compare(&model);
            }
            Step::Abort => {
                bench.abort();
                model = committed.clone();
                bench.compare(&model);
            }
        }
    }
    bench.compare(&model);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn one_word_keys_agree_with_a_map(steps in steps()) {
        run(&steps, 1, 64);
    }

    #[test]
    fn wide_keys_agree_with_a_map(steps in steps()) {
        run(&steps, 3, 192);
    }
}

#[test]
fn a_tree_that_is_emptied_is_one_leaf_and_gives_its_blocks_back() {
    for order in [0, 1, 2] {
        let mut bench = Bench::new(1, 64);
        let mut model = BTreeMap::new();
        let mut keys: Vec<u64> = (0..2_000).collect();
        for &key in &keys {
            bench.insert(&[key], key);
            model.insert(vec![key], key);
        }
        bench.commit();
        assert!(bench.compare(&model) > 300);
        match order {
            0 => {}
            1 => keys.reverse(),
            _ => keys.sort_by_key(|key| key.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        }
        for &key in &keys {
            assert_eq!(bench.remove(&[key]), Some(key));
        }
        bench.commit();
        assert_eq!(bench.compare(&BTreeMap::new()), 1);
    }
}

#[test]
fn ascending_inserts_fill_the_nodes() {
    let mut bench = Bench::new(1, 512);
    let mut model = BTreeMap::new();
    for key in 0..10_000_u64 {
        bench.insert(&[key], key);
        model.insert(vec![key], key);
    }
    bench.commit();
    let nodes = bench.compare(&model);
    assert!(nodes <= 10_000 / 31 + 10_000 / 31 / 32 + 5, "{nodes} nodes");
}

#[test]
fn searches_find_the_place_in_nodes_of_any_fanout() {
    const NUMBERS: u64 = 1009;
    // The last number's key has all bits set, as have the places without a key.
    let key_of = |number: u64, words: usize| {
        let mut key = vec![if number < NUMBERS - 1 { 0 } else { u64::MAX }; words];
        key[words - 1] = if number < NUMBERS - 1 {
            number
        } else {
            u64::MAX
        };
        key
    };
    for words in 1..=3 {
        for node_bytes in [64, 128, 192, 256, 512, 1024, 4096] {
            let mut bench = Bench::new(words, node_bytes);
            let mut model = BTreeMap::new();
            for round in 0..NUMBERS {
                let key = key_of(round * 331 % NUMBERS, words);
                assert!(bench.insert(&key, round));
                model.insert(key, round);
            }
            bench.commit();
            bench.compare(&model);
            let (first, last) = (key_of(0, words), key_of(NUMBERS - 1, words));
            for number in (0..NUMBERS).step_by(7).chain([NUMBERS - 1]) {
                let key = key_of(number, words);
                let below = bench.range(&first, &key, Direction::Backward);
                assert_eq!(below.len() as u64, number + 1, "{words} words");
                let above = bench.range(&key, &last, Direction::Forward);
                assert_eq!(above.len() as u64, NUMBERS - number, "{words} words");
            }
            for round in (0..NUMBERS).filter(|round| round % 3 > 0) {
                let key = key_of(round * 577 % NUMBERS, words);
                assert_eq!(bench.remove(&key), model.remove(&key));
                assert_eq!(bench.tree.get(&bench.arena, &key).unwrap(), None);
                assert_eq!(
                    bench.tree.get(&bench.arena, &last).unwrap(),
                    model.get(&last).copied()
                );
            }
            bench.compare(&model);
            bench.abort();
            assert_eq!(
                bench.range(&first, &last, Direction::Forward).len() as u64,
                NUMBERS
            );
        }
    }
}
