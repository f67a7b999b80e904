//! The exhaustive catalogue: short scripts, and every image at each of their crash points.
//!
//! A scenario first fills a table without being watched, then runs a few transactions, and
//! `exhaustive` checks every image that recovery can tell apart.

use crate::exhaustive;
use crate::generate::{Random, growth, large, row, text};
use crate::model::{
    Action, CODE, CODE_INDEX, GROUP, GROUP_INDEX, INDEXES, MAIN, NAME, NOTE, SIDE, Step,
};
use crate::search::{Report, Subject};
use storage::engine::Method;
use storage::record::{IndexId, Value};

pub use crate::exhaustive::IMAGES_MAX;

/// One script.
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// Rows in the table before it begins.
    pub(crate) rows: i64,
    /// Secondary indexes of the table. Each has pages of its own, whose undecided lines multiply
    /// with those of the others.
    pub(crate) indexes: &'static [IndexId],
    pub(crate) script: Script,
}

impl Scenario {
    /// Whether the table has no secondary index.
    pub fn is_bare(&self) -> bool {
        self.indexes.is_empty()
    }
}

/// Scenarios of which every image is checked within a minute or so. In a method of slotted pages
/// these are the ones without secondary indexes. A method of the page engine has none: its
/// checkpoints leave the writes of many pages undecided at the same time.
pub fn enumerable(method: Method) -> impl Iterator<Item = &'static Scenario> {
    let scenarios = if method.is_paged() { &[] } else { ALL };
    scenarios
        .iter()
        .filter(move |scenario| scenario.is_bare() == method.is_slotted())
}

type Script = fn(&mut Random) -> Vec<Action>;

const fn indexed(name: &'static str, rows: i64, script: Script) -> Scenario {
    Scenario {
        name,
        rows,
        indexes: &INDEXES,
        script,
    }
}

/// Without secondary indexes.
const fn bare(name: &'static str, rows: i64, script: Script) -> Scenario {
    Scenario {
        name,
        rows,
        indexes: &[],
        script,
    }
}

/// All scripts.
pub const ALL: &[Scenario] = &[
    indexed("pool-grows", 2, |_| vec![Action::Commit(growth(1))]),
    // The heap makes a run, unlogged, where the transaction before has freed an extent.
    indexed("extent-becomes-run", 2, |r| {
        vec![
            Action::Commit(growth(1)),
            delete(1),
            Action::Commit(vec![plain(3, long(r, 3000))]),
        ]
    }),
    indexed("insert-into-empty", 0, |r| vec![insert(r, 1)]),
    indexed("insert-one", 5, |r| vec![insert(r, 1)]),
    indexed("insert-two", 5, |r| vec![insert(r, 1), insert(r, 3)]),
    indexed("insert-splits-leaf", 6, |r| {
        vec![insert(r, 1), insert(r, 3), insert(r, 5)]
    }),
    indexed("insert-at-right-edge", 6, |r| {
        vec![insert(r, 101), insert(r, 103)]
    }),
    indexed("insert-splits-inner", 30, |r| ascending(r, 61, 7)),
    indexed("insert-splits-middle", 40, |r| ascending(r, 31, 5)),
    indexed("insert-many-into-empty", 0, |r| vec![many(r, 0..9)]),
    indexed("insert-many-at-right-edge", 6, |r| vec![many(r, 100..112)]),
    indexed("insert-many-between", 30, |r| vec![many(r, 20..40)]),
    indexed("abort-many", 6, |r| match many(r, 1..30) {
        Action::Commit(steps) => vec![Action::Abort(steps), insert(r, 3)],
        other => vec![other],
    }),
    indexed("insert-duplicate", 5, |r| vec![insert(r, 2), insert(r, 1)]),
    indexed("insert-duplicate-code", 5, |r| {
        vec![duplicate_code(r), insert(r, 1)]
    }),
    indexed("insert-null-note", 5, |_| {
        vec![Action::Commit(vec![plain(1, Value::Null)])]
    }),
    indexed("insert-empty-note", 5, |_| {
        vec![Action::Commit(vec![plain(1, note(""))])]
    }),
    indexed("insert-long-note", 5, |r| {
        vec![Action::Commit(vec![plain(1, long(r, 300))])]
    }),
    indexed("update-in-tuple", 5, |_| {
        vec![update(2, NAME, note("renamed"))]
    }),
    indexed("update-grows-note", 5, |r| {
        vec![update(2, NOTE, long(r, 200))]
    }),
    indexed("update-note-to-null", 5, |_| {
        vec![update(2, NOTE, Value::Null)]
    }),
    indexed("update-note-to-empty", 5, |_| {
        vec![update(2, NOTE, note(""))]
    }),
    indexed("update-note-twice", 5, |_| {
        vec![update(2, NOTE, note("one")), update(2, NOTE, note("two"))]
    }),
    indexed("update-indexed-column", 5, |_| {
        vec![update(2, GROUP, Value::Int32(77))]
    }),
    indexed("update-indexed-to-null", 5, |_| {
        vec![update(2, GROUP, Value::Null)]
    }),
    indexed("update-unique-column", 5, |_| {
        vec![update(2, CODE, Value::Int64(-5))]
    }),
    indexed("update-refused", 5, |_| {
        vec![
            Action::Commit(vec![same_code()]),
            update(4, NAME, note("x")),
        ]
    }),
    indexed("update-missing-row", 5, |_| {
        vec![update(1, NAME, note("x")), delete(2)]
    }),
    indexed("update-all-columns", 5, |r| vec![all_columns(r)]),
    indexed("update-row-twice-in-one", 5, |_| vec![twice()]),
    indexed("delete-one", 5, |_| vec![delete(2)]),
    indexed("delete-last", 1, |_| vec![delete(0)]),
    indexed("delete-empties-leaf", 7, |_| {
        vec![delete(10), delete(12), delete(8)]
    }),
    indexed("delete-empties-tree", 8, |_| {
        (0..8).map(|key| delete(key * 2)).collect()
    }),
    indexed("delete-then-insert", 5, |r| vec![delete(2), insert(r, 2)]),
    indexed("delete-and-insert-in-one", 5, |r| {
        vec![Action::Commit(vec![Step::Delete(2), new(r, 2)])]
    }),
    // The record of the first transaction names bytes of the block that it frees, and the second
    // one fills that block without a record.
    indexed("overwrite-and-delete-in-one", 3, |r| {
        let mut actions = vec![update(2, NOTE, long(r, 200))];
        actions.push(Action::Commit(vec![
            Step::Update(2, vec![(NOTE, long(r, 200))]),
            Step::Delete(2),
        ]));
        actions.push(Action::Commit(vec![plain(1, long(r, 200))]));
        actions
    }),
    indexed("insert-and-delete-in-one", 5, |r| {
        vec![Action::Commit(vec![new(r, 1), Step::Delete(1)])]
    }),
    indexed("reuse-freed-blocks", 6, |r| {
        vec![delete(2), insert(r, 3), delete(4), insert(r, 5)]
    }),
    indexed("three-operations-in-one", 5, |r| vec![three(r)]),
    indexed("abort-insert", 5, |r| {
        vec![Action::Abort(vec![new(r, 1)]), insert(r, 3)]
    }),
    indexed("abort-update", 5, |_| {
        vec![Action::Abort(vec![rename(2)]), update(4, NAME, note("x"))]
    }),
    indexed("abort-visible-writes", 5, |_| {
        vec![
            Action::Abort(vec![rename(2), rename(2)]),
            update(2, NAME, note("x")),
        ]
    }),
    indexed("abort-delete", 5, |r| {
        vec![Action::Abort(vec![Step::Delete(2)]), insert(r, 1)]
    }),
    indexed("abort-split", 6, |r| {
        vec![
            Action::Abort(vec![new(r, 1), new(r, 3), new(r, 5)]),
            insert(r, 1),
        ]
    }),
    indexed("refused-among-others", 5, |r| {
        vec![Action::Commit(vec![new(r, 1), new(r, 2), rename(4)])]
    }),
    indexed("all-refused-after-drain", 5, |r| {
        vec![Action::Commit(vec![same_code(), new(r, 2)]), insert(r, 1)]
    }),
    indexed("prepare-commit", 5, |r| {
        vec![Action::PrepareCommit(vec![new(r, 1)]), insert(r, 3)]
    }),
    indexed("prepare-abort", 5, |r| {
        vec![Action::PrepareAbort(vec![new(r, 1)]), insert(r, 3)]
    }),
    indexed("create-table", 3, |_| vec![Action::CreateSide]),
    indexed("create-table-insert", 3, |r| {
        vec![Action::CreateSide, Action::Commit(vec![side(r)])]
    }),
    indexed("drop-table", 3, |r| {
        vec![
            Action::CreateSide,
            Action::Commit(vec![side(r)]),
            Action::DropSide,
        ]
    }),
    indexed("create-index", 4, |_| {
        vec![
            Action::DropIndex(GROUP_INDEX),
            Action::CreateIndex(GROUP_INDEX),
        ]
    }),
    indexed("drop-unique-index", 4, |_| {
        vec![
            Action::DropIndex(CODE_INDEX),
            update(2, CODE, Value::Int64(0)),
        ]
    }),
    indexed("checkpoint", 5, |r| {
        vec![insert(r, 1), Action::Checkpoint, insert(r, 3)]
    }),
    indexed("heap-grows", 5, |r| {
        vec![Action::Commit(vec![plain(1, long(r, 40_000))]), delete(1)]
    }),
    indexed("abort-first-long-row", 0, |r| {
        vec![
            Action::Abort(vec![plain(1, long(r, 130_000))]),
            insert(r, 3),
        ]
    }),
    indexed("abort-log-overflow", 20, |r| {
        vec![Action::Abort(large(r, MAIN)), insert(r, 3)]
    }),
    indexed("log-overflows", 20, |r| {
        vec![Action::Commit(large(r, MAIN))]
    }),
    bare("bare-insert-one", 5, |r| vec![insert(r, 1)]),
    bare("bare-insert-null-note", 5, |_| {
        vec![Action::Commit(vec![plain(1, Value::Null)])]
    }),
    bare("bare-insert-long-note", 5, |r| {
        vec![Action::Commit(vec![plain(1, long(r, 1500))])]
    }),
    bare("bare-insert-splits-leaf", 6, |r| {
        vec![insert(r, 1), insert(r, 3), insert(r, 5)]
    }),
    bare("bare-insert-splits-inner", 30, |r| ascending(r, 61, 7)),
    bare("bare-insert-splits-middle", 40, |r| ascending(r, 31, 5)),
    // Free space of a page is among its cells until it is copied.
    bare("bare-updates-fill-page", 3, |r| {
        (0..6)
            .map(|round| update(2 * (round % 3), NOTE, long(r, 90)))
            .collect()
    }),
    bare("bare-update-grows-note", 5, |r| {
        vec![
            update(2, NOTE, long(r, 200)),
            update(2, NOTE, long(r, 1500)),
        ]
    }),
    bare("bare-update-row-twice-in-one", 5, |_| vec![twice()]),
    bare("bare-delete-empties-leaf", 7, |_| {
        vec![delete(10), delete(12), delete(8)]
    }),
    bare("bare-delete-empties-tree", 8, |_| {
        (0..8).map(|key| delete(key * 2)).collect()
    }),
    bare("bare-delete-long-note", 5, |r| {
        vec![update(2, NOTE, long(r, 1500)), delete(2), insert(r, 2)]
    }),
    bare("bare-reuse-freed-blocks", 6, |r| {
        vec![delete(2), insert(r, 3), delete(4), insert(r, 5)]
    }),
    bare("bare-three-operations-in-one", 5, |r| vec![three(r)]),
    bare("bare-abort-split", 6, |r| {
        vec![
            Action::Abort(vec![new(r, 1), new(r, 3), new(r, 5)]),
            insert(r, 1),
        ]
    }),
    bare("bare-prepare-commit", 5, |r| {
        vec![Action::PrepareCommit(vec![new(r, 1)]), insert(r, 3)]
    }),
    bare("bare-prepare-abort", 5, |r| {
        vec![Action::PrepareAbort(vec![new(r, 1)]), insert(r, 3)]
    }),
    bare("bare-checkpoint", 5, |r| {
        vec![insert(r, 1), Action::Checkpoint, insert(r, 3)]
    }),
];

fn new(random: &mut Random, key: i64) -> Step {
    let mut values = row(random, key);
    values[CODE] = Value::Int64(-key - 1);
    Step::Insert(MAIN, values)
}

/// The keys of a range that the first rows do not have.
fn many(random: &mut Random, keys: std::ops::Range<i64>) -> Action {
    let odd = keys.filter(|key| key % 2 == 1 || *key >= 100);
    Action::Commit(odd.map(|key| new(random, key)).collect())
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

/// Runs one scenario with every image.
pub fn run(scenario: &Scenario, subject: Subject, seed: u64) -> Report {
    exhaustive::run(scenario, subject, seed, &[], u64::MAX)
}
