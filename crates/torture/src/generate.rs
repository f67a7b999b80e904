//! Random transactions, from a seed.
//!
//! Keys come from a small range, so that insertions meet deleted keys, duplicates and full leaves;
//! lengths are spread so that fields grow, shrink, move between blocks and become NULL.

use crate::model::{
    Action, CODE, CODE_INDEX, GROUP, GROUP_INDEX, MAIN, NAME, NOTE, SIDE, State, Step,
};
use pmem::device::simulated::mix;
use storage::record::{TableId, Value};

/// Keys of the main table lie below.
pub(crate) const KEYS: u64 = 120;

/// Bytes of a row that makes the pool grow.
const GROWTH_TEXT_BYTES: usize = 1200 << 10;

/// A seeded source of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x746f_7274_7572_6521))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}

/// The rows that a run starts with.
pub(crate) fn first_rows(random: &mut Random, count: i64) -> Vec<Vec<Value>> {
    (0..count).map(|key| row(random, key * 2)).collect()
}

/// A row of the main table.
pub(crate) fn row(random: &mut Random, key: i64) -> Vec<Value> {
    let mut values = vec![Value::Int64(key)];
    for column in NAME..=CODE {
        values.push(value(random, column, key));
    }
    values
}

fn value(random: &mut Random, column: usize, key: i64) -> Value {
    match column {
        NAME => Value::Text(text(random, 24)),
        NOTE if random.one_in(4) => Value::Null,
        NOTE => {
            if random.one_in(800) {
                let length = 17_000 + random.below(30_000) as usize;
                return Value::Text(
                    text(random, 20)
                        .repeat(length / 10)
                        .chars()
                        .take(length)
                        .collect(),
                );
            }
            let longest = if random.one_in(12) { 900 } else { 90 };
            Value::Text(text(random, longest))
        }
        GROUP if random.one_in(5) => Value::Null,
        GROUP => Value::Int32(random.below(6) as i32),
        // Mostly unique, so that most insertions succeed; sometimes another row's.
        _ if random.one_in(20) => Value::Int64(random.below(KEYS).cast_signed() * 1000),
        _ => Value::Int64(key * 1000 + random.below(40).cast_signed()),
    }
}

pub(crate) fn text(random: &mut Random, longest: u64) -> String {
    let length = random.below(longest + 1);
    (0..length)
        .map(|_| char::from(b'a' + random.below(26) as u8))
        .collect()
}

pub(crate) fn step(random: &mut Random, state: &State) -> Step {
    let key = random.below(KEYS).cast_signed();
    match random.below(10) {
        0..=3 => {
            let side = state.rows(SIDE).is_some() && random.one_in(4);
            if side {
                Step::Insert(SIDE, side_row(random, key))
            } else {
                Step::Insert(MAIN, row(random, key))
            }
        }
        4..=7 => {
            let mut changes = Vec::new();
            for column in NAME..=CODE {
                if random.one_in(3) {
                    changes.push((column, value(random, column, key)));
                }
            }
            if changes.is_empty() {
                changes.push((NAME, value(random, NAME, key)));
            }
            Step::Update(key, changes)
        }
        _ => Step::Delete(key),
    }
}

fn side_row(random: &mut Random, key: i64) -> Vec<Value> {
    vec![Value::Int64(key), Value::Text(text(random, 60))]
}

/// The next transaction of a run.
pub(crate) fn action(random: &mut Random, state: &State) -> Action {
    let has_index = |id: u32| {
        state
            .tables
            .get(&MAIN.0)
            .is_some_and(|contents| contents.indexes.contains(&id))
    };
    match random.below(60) {
        0 if state.rows(SIDE).is_some() => Action::DropSide,
        0 | 1 if state.rows(SIDE).is_none() => Action::CreateSide,
        2 if has_index(GROUP_INDEX.0) => Action::DropIndex(GROUP_INDEX),
        2 | 3 if !has_index(GROUP_INDEX.0) => Action::CreateIndex(GROUP_INDEX),
        4 if has_index(CODE_INDEX.0) => Action::DropIndex(CODE_INDEX),
        4 | 5 if !has_index(CODE_INDEX.0) => Action::CreateIndex(CODE_INDEX),
        6 => Action::Checkpoint,
        7 => Action::Commit(large(random, MAIN)),
        58 => Action::Abort(many(random, state)),
        59 => Action::Commit(many(random, state)),
        choice => {
            let count = if random.one_in(3) {
                1 + random.below(6)
            } else {
                1
            };
            let steps = (0..count).map(|_| step(random, state)).collect();
            match choice {
                8..=12 => Action::Abort(steps),
                13..=15 => Action::PrepareCommit(steps),
                16..=17 => Action::PrepareAbort(steps),
                _ => Action::Commit(steps),
            }
        }
    }
}

/// Insertions that all succeed, of keys that are free from some place on, ascending or not.
pub(crate) fn many(random: &mut Random, state: &State) -> Vec<Step> {
    let first = random.below(KEYS).cast_signed();
    let count = 4 + random.below(60) as usize;
    let is_free = |key: &i64| state.rows(MAIN).is_none_or(|rows| !rows.contains_key(key));
    let keys = (first..).filter(is_free);
    let mut steps: Vec<Step> = keys
        .take(count)
        .map(|key| {
            let mut values = row(random, key);
            values[CODE] = Value::Int64(-key - 1);
            Step::Insert(MAIN, values)
        })
        .collect();
    if random.one_in(2) {
        steps.reverse();
    }
    steps
}

/// A transaction that makes the pool grow: one row that is longer than all that a small pool has
/// free.
pub(crate) fn growth(key: i64) -> Vec<Step> {
    let mut values = vec![Value::Int64(key), Value::Text("long".into())];
    values.push(Value::Text(
        "0123456789abcdef".repeat(GROWTH_TEXT_BYTES / 16),
    ));
    values.extend([Value::Null, Value::Int64(-key - 1)]);
    vec![Step::Insert(MAIN, values)]
}

/// A transaction whose log does not fit where small ones do: wide updates of many rows, twice.
pub(crate) fn large(random: &mut Random, table: TableId) -> Vec<Step> {
    let mut steps = Vec::new();
    for key in 0..KEYS.cast_signed() {
        if random.one_in(2) {
            let name = Value::Text(text(random, 24));
            let note = Value::Text(text(random, 60));
            steps.push(Step::Update(key, vec![(NAME, name), (NOTE, note)]));
            continue;
        }
        match random.below(3) {
            0 => steps.push(Step::Insert(table, row(random, key))),
            1 => steps.push(Step::Delete(key)),
            _ => {}
        }
    }
    steps
}
