//! The exhaustive catalogue: short scripts, and every image at each of their crash points.
//!
//! A scenario first fills a table without being watched, then runs a few transactions, and `exhaustive` checks every image that
//! recovery can tell apart.

use crate::exhaustive;
use crate::generate::{Random, growth, large, row, text};
use crate::model::{Action, CODE, CODE_INDEX, GROUP, GROUP_INDEX, MAIN, NAME, NOTE, SIDE, Step};
use crate::search::Report;
use pmem::PowerFailAtomicity;
use storage::engine::Method;
use storage::record::Value;

pub use crate::exhaustive::IMAGES_MAX;

/// One script.
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// Rows in the table before it begins.
    pub(crate) rows: i64,
    pub(crate) script: fn(&mut Random) -> Vec<Action>,
}

/// All scripts.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "pool-grows",
        rows: 2,
        script: |_| vec![Action::Commit(growth(1))],
    },
    Scenario {
        // The heap makes a run, unlogged, where the transaction before has freed an extent.
        name: "extent-becomes-run",
        rows: 2,
        script: |r| {
            vec![
                Action::Commit(growth(1)),
                delete(1),
                Action::Commit(vec![plain(3, long(r, 3000))]),
            ]
        },
    },
    Scenario {
        name: "insert-into-empty",
        rows: 0,
        script: |r| vec![insert(r, 1)],
    },
    Scenario {
        name: "insert-one",
        rows: 5,
        script: |r| vec![insert(r, 1)],
    },
    Scenario {
        name: "insert-two",
        rows: 5,
        script: |r| vec![insert(r, 1), insert(r, 3)],
    },
    Scenario {
        name: "insert-splits-leaf",
        rows: 6,
        script: |r| vec![insert(r, 1), insert(r, 3), insert(r, 5)],
    },
    Scenario {
        name: "insert-at-right-edge",
        rows: 6,
        script: |r| vec![insert(r, 101), insert(r, 103)],
    },
    Scenario {
        name: "insert-splits-inner",
        rows: 30,
        script: |r| ascending(r, 61, 7),
    },
    Scenario {
        name: "insert-splits-middle",
        rows: 40,
        script: |r| ascending(r, 31, 5),
    },
    Scenario {
        name: "insert-duplicate",
        rows: 5,
        script: |r| vec![insert(r, 2), insert(r, 1)],
    },
    Scenario {
        name: "insert-duplicate-code",
        rows: 5,
        script: |r| vec![duplicate_code(r), insert(r, 1)],
    },
    Scenario {
        name: "insert-null-note",
        rows: 5,
        script: |_| vec![Action::Commit(vec![plain(1, Value::Null)])],
    },
    Scenario {
        name: "insert-empty-note",
        rows: 5,
        script: |_| vec![Action::Commit(vec![plain(1, note(""))])],
    },
    Scenario {
        name: "insert-long-note",
        rows: 5,
        script: |r| vec![Action::Commit(vec![plain(1, long(r, 300))])],
    },
    Scenario {
        name: "update-in-tuple",
        rows: 5,
        script: |_| vec![update(2, NAME, note("renamed"))],
    },
    Scenario {
        name: "update-grows-note",
        rows: 5,
        script: |r| vec![update(2, NOTE, long(r, 200))],
    },
    Scenario {
        name: "update-note-to-null",
        rows: 5,
        script: |_| vec![update(2, NOTE, Value::Null)],
    },
    Scenario {
        name: "update-note-to-empty",
        rows: 5,
        script: |_| vec![update(2, NOTE, note(""))],
    },
    Scenario {
        name: "update-note-twice",
        rows: 5,
        script: |_| vec![update(2, NOTE, note("one")), update(2, NOTE, note("two"))],
    },
    Scenario {
        name: "update-indexed-column",
        rows: 5,
        script: |_| vec![update(2, GROUP, Value::Int32(77))],
    },
    Scenario {
        name: "update-indexed-to-null",
        rows: 5,
        script: |_| vec![update(2, GROUP, Value::Null)],
    },
    Scenario {
        name: "update-unique-column",
        rows: 5,
        script: |_| vec![update(2, CODE, Value::Int64(-5))],
    },
    Scenario {
        name: "update-refused",
        rows: 5,
        script: |_| {
            vec![
                Action::Commit(vec![same_code()]),
                update(4, NAME, note("x")),
            ]
        },
    },
    Scenario {
        name: "update-missing-row",
        rows: 5,
        script: |_| vec![update(1, NAME, note("x")), delete(2)],
    },
    Scenario {
        name: "update-all-columns",
        rows: 5,
        script: |r| vec![all_columns(r)],
    },
    Scenario {
        name: "update-row-twice-in-one",
        rows: 5,
        script: |_| vec![twice()],
    },
    Scenario {
        name: "delete-one",
        rows: 5,
        script: |_| vec![delete(2)],
    },
    Scenario {
        name: "delete-last",
        rows: 1,
        script: |_| vec![delete(0)],
    },
    Scenario {
        name: "delete-empties-leaf",
        rows: 7,
        script: |_| vec![delete(10), delete(12), delete(8)],
    },
    Scenario {
        name: "delete-empties-tree",
        rows: 8,
        script: |_| (0..8).map(|key| delete(key * 2)).collect(),
    },
    Scenario {
        name: "delete-then-insert",
        rows: 5,
        script: |r| vec![delete(2), insert(r, 2)],
    },
    Scenario {
        name: "delete-and-insert-in-one",
        rows: 5,
        script: |r| vec![Action::Commit(vec![Step::Delete(2), new(r, 2)])],
    },
    Scenario {
        name: "insert-and-delete-in-one",
        rows: 5,
        script: |r| vec![Action::Commit(vec![new(r, 1), Step::Delete(1)])],
    },
    Scenario {
        name: "reuse-freed-blocks",
        rows: 6,
        script: |r| vec![delete(2), insert(r, 3), delete(4), insert(r, 5)],
    },
    Scenario {
        name: "three-operations-in-one",
        rows: 5,
        script: |r| vec![three(r)],
    },
    Scenario {
        name: "abort-insert",
        rows: 5,
        script: |r| vec![Action::Abort(vec![new(r, 1)]), insert(r, 3)],
    },
    Scenario {
        name: "abort-update",
        rows: 5,
        script: |_| vec![Action::Abort(vec![rename(2)]), update(4, NAME, note("x"))],
    },
    Scenario {
        name: "abort-visible-writes",
        rows: 5,
        script: |_| {
            vec![
                Action::Abort(vec![rename(2), rename(2)]),
                update(2, NAME, note("x")),
            ]
        },
    },
    Scenario {
        name: "abort-delete",
        rows: 5,
        script: |r| vec![Action::Abort(vec![Step::Delete(2)]), insert(r, 1)],
    },
    Scenario {
        name: "abort-split",
        rows: 6,
        script: |r| {
            vec![
                Action::Abort(vec![new(r, 1), new(r, 3), new(r, 5)]),
                insert(r, 1),
            ]
        },
    },
    Scenario {
        name: "refused-among-others",
        rows: 5,
        script: |r| vec![Action::Commit(vec![new(r, 1), new(r, 2), rename(4)])],
    },
    Scenario {
        name: "all-refused-after-drain",
        rows: 5,
        script: |r| vec![Action::Commit(vec![same_code(), new(r, 2)]), insert(r, 1)],
    },
    Scenario {
        name: "prepare-commit",
        rows: 5,
        script: |r| vec![Action::PrepareCommit(vec![new(r, 1)]), insert(r, 3)],
    },
    Scenario {
        name: "prepare-abort",
        rows: 5,
        script: |r| vec![Action::PrepareAbort(vec![new(r, 1)]), insert(r, 3)],
    },
    Scenario {
        name: "create-table",
        rows: 3,
        script: |_| vec![Action::CreateSide],
    },
    Scenario {
        name: "create-table-insert",
        rows: 3,
        script: |r| vec![Action::CreateSide, Action::Commit(vec![side(r)])],
    },
    Scenario {
        name: "drop-table",
        rows: 3,
        script: |r| {
            vec![
                Action::CreateSide,
                Action::Commit(vec![side(r)]),
                Action::DropSide,
            ]
        },
    },
    Scenario {
        name: "create-index",
        rows: 4,
        script: |_| {
            vec![
                Action::DropIndex(GROUP_INDEX),
                Action::CreateIndex(GROUP_INDEX),
            ]
        },
    },
    Scenario {
        name: "drop-unique-index",
        rows: 4,
        script: |_| {
            vec![
                Action::DropIndex(CODE_INDEX),
                update(2, CODE, Value::Int64(0)),
            ]
        },
    },
    Scenario {
        name: "checkpoint",
        rows: 5,
        script: |r| vec![insert(r, 1), Action::Checkpoint, insert(r, 3)],
    },
    Scenario {
        name: "heap-grows",
        rows: 5,
        script: |r| vec![Action::Commit(vec![plain(1, long(r, 40_000))]), delete(1)],
    },
    Scenario {
        name: "abort-first-long-row",
        rows: 0,
        script: |r| {
            vec![
                Action::Abort(vec![plain(1, long(r, 130_000))]),
                insert(r, 3),
            ]
        },
    },
    Scenario {
        name: "abort-log-overflow",
        rows: 20,
        script: |r| vec![Action::Abort(large(r, MAIN)), insert(r, 3)],
    },
    Scenario {
        name: "log-overflows",
        rows: 20,
        script: |r| vec![Action::Commit(large(r, MAIN))],
    },
];

fn new(random: &mut Random, key: i64) -> Step {
    let mut values = row(random, key);
    values[CODE] = Value::Int64(-key - 1);
    Step::Insert(MAIN, values)
}

fn insert(random: &mut Random, key: i64) -> Action {
    Action::Commit(vec![new(random, key)])
}

fn ascending(random: &mut Random, first: i64, count: i64) -> Vec<Action> {
    (0..count)
        .map(|number| insert(random, first + 2 * number))
        .collect()
}

fn duplicate_code(random: &mut Random) -> Action {
    let mut values = row(random, 1);
    values[CODE] = Value::Int64(SAME_CODE);
    let mut twin = values.clone();
    twin[0] = Value::Int64(3);
    Action::Commit(vec![Step::Insert(MAIN, values), Step::Insert(MAIN, twin)])
}

const SAME_CODE: i64 = 555_555;

/// Two updates of which the second must be refused.
fn same_code() -> Step {
    Step::Update(
        2,
        vec![(CODE, Value::Int64(SAME_CODE)), (NAME, note("same"))],
    )
}

fn plain(key: i64, note: Value) -> Step {
    let name = Value::Text("plain".into());
    Step::Insert(
        MAIN,
        vec![
            Value::Int64(key),
            name,
            note,
            Value::Null,
            Value::Int64(-key - 1),
        ],
    )
}

fn note(text: &str) -> Value {
    Value::Text(text.into())
}

fn long(random: &mut Random, bytes: usize) -> Value {
    Value::Text(
        text(random, 20)
            .repeat(bytes / 10 + 1)
            .chars()
            .take(bytes)
            .collect(),
    )
}

fn update(key: i64, column: usize, value: Value) -> Action {
    Action::Commit(vec![Step::Update(key, vec![(column, value)])])
}

fn rename(key: i64) -> Step {
    Step::Update(key, vec![(NAME, note("renamed"))])
}

fn all_columns(random: &mut Random) -> Action {
    let values = row(random, 2);
    let mut changes: Vec<_> = values.into_iter().enumerate().skip(1).collect();
    changes[CODE - 1].1 = Value::Int64(-9);
    Action::Commit(vec![Step::Update(2, changes)])
}

fn twice() -> Action {
    Action::Commit(vec![
        rename(2),
        Step::Update(2, vec![(NAME, note("again")), (NOTE, note("n"))]),
    ])
}

fn delete(key: i64) -> Action {
    Action::Commit(vec![Step::Delete(key)])
}

fn three(random: &mut Random) -> Action {
    Action::Commit(vec![new(random, 1), rename(2), Step::Delete(4)])
}

fn side(random: &mut Random) -> Step {
    Step::Insert(SIDE, vec![Value::Int64(1), Value::Text(text(random, 60))])
}

/// Runs one scenario with every image, on a platform with this promise.
pub fn run(
    scenario: &Scenario,
    method: Method,
    atomicity: PowerFailAtomicity,
    seed: u64,
) -> Report {
    exhaustive::run(scenario, (method, atomicity), seed, &[], None)
}
