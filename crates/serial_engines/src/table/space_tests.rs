//! Tables in durable memory, as an engine uses them: goal and method.
//!
//! Goal: a reader sees here which calls make a table, its rows and its indexes, undo a statement,
//! and find everything again after an opening.
//!
//! Method: one arena with a write set, tables over the non-volatile B+tree, and the deep check
//! after each transaction.

use super::*;
use crate::index::NvBptree;
use pmem::{MemorySource, NativeOptions, NativeSource, Outcome, Owner, PoolIdentity, PoolKind};
use storage::engine::FenceOrder;
use storage::log::NvWriteSet;
use storage::log::nv_write_set::LOG_BYTES_MIN;
use storage::record::{Column, DataType};

type TestMemory = <NativeSource as MemorySource>::Memory;
type Space = TableSpace<TestMemory, NvWriteSet, NvBptree>;

const TABLE: TableId = TableId(3);
const NODE_BYTES: usize = 512;

struct Partition {
    arena: Arena<TestMemory>,
    writes: NvWriteSet,
    directory: u64,
    space: Space,
}

fn hints() -> HintBudget {
    HintBudget::new(1 << 20)
}

impl Partition {
    fn new() -> Self {
        let source = NativeSource::new(std::env::temp_dir(), NativeOptions::default());
        let memory = source.volatile(4 << 20).unwrap();
        let mut arena = Arena::create(memory, &PoolIdentity::unnamed(PoolKind(0))).unwrap();
        let owner = Owner {
            part: Part::Other,
            tag: 0,
        };
        let log = arena.reserve(LOG_BYTES_MIN, owner).unwrap();
        let directory = arena.reserve(64, owner).unwrap();
        arena.store_word(directory, 0).unwrap();
        let mut writes =
            NvWriteSet::create(&mut arena, (log, LOG_BYTES_MIN), 7, FenceOrder::Single).unwrap();
        for block in [log, directory] {
            let change = arena.activate(block).unwrap();
            writes.change(&mut arena, change).unwrap();
        }
        let space =
            Space::open(&arena, directory, LayoutKind::Together, NODE_BYTES, hints()).unwrap();
        let mut partition = Self {
            arena,
            writes,
            directory,
            space,
        };
        partition.commit();
        partition
    }

    fn commit(&mut self) {
        self.writes.commit(&mut self.arena).unwrap();
        self.arena.settle(Outcome::Committed);
    }

    fn row(&self, id: i64, name: &str) -> Row {
        let mut row = Row::new(Arc::clone(&self.space.tables()[0].layout));
        row.set(0, id).unwrap();
        row.set(1, name).unwrap();
        row
    }

    fn insert(&mut self, id: i64, name: &str) -> Result<()> {
        let row = self.row(id, name);
        self.space
            .insert(&mut self.arena, &mut self.writes, TABLE, &row)
    }

    fn key(&self, id: i64) -> KeyBuf {
        let mut key = KeyBuf::default();
        let table = &self.space.tables()[0];
        table
            .primary
            .encode_row(&self.row(id, ""), &mut key)
            .unwrap();
        key
    }

    fn name(&mut self, id: i64) -> Option<String> {
        let (key, mut row) = (self.key(id), self.row(0, ""));
        let found = self
            .space
            .get(&mut self.arena, &mut self.writes, TABLE, &key, &mut row);
        found.unwrap().then(|| row.get(1).to_string())
    }

    /// Rows and entries of indexes; what is damaged is an error of the test.
    fn check(&mut self) -> (u64, u64) {
        let mut report = VerifyReport::default();
        self.space.check(&self.arena, &mut |_| {}, &mut report);
        assert_eq!(report.damage, Vec::<String>::new());
        (report.rows, report.index_entries)
    }
}

fn definition() -> TableDef {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("name", DataType::Varchar { max: 200 }),
    ];
    TableDef::new(TABLE, "people", columns, vec![0])
}

fn by_name() -> IndexDef {
    IndexDef {
        id: IndexId(1),
        name: "by_name".to_owned(),
        columns: vec![1],
        unique: false,
    }
}

fn unique_by_name() -> IndexDef {
    IndexDef {
        unique: true,
        ..by_name()
    }
}

fn with_two_rows() -> Partition {
    let mut partition = Partition::new();
    let Partition {
        arena,
        writes,
        space,
        ..
    } = &mut partition;
    space.create_table(arena, writes, &definition()).unwrap();
    partition.insert(1, "Ada").unwrap();
    partition.insert(2, "Bob").unwrap();
    partition.commit();
    partition
}

#[test]
fn rows_are_found_changed_and_deleted_by_their_key() {
    let mut partition = with_two_rows();
    assert_eq!(partition.name(1).as_deref(), Some("Ada"));
    let key = partition.key(2);
    let Partition {
        arena,
        writes,
        space,
        ..
    } = &mut partition;
    let mut changes = Changes::new(Arc::clone(&space.tables()[0].layout));
    changes.set(1, "Barbara").unwrap();
    assert!(space.update(arena, writes, TABLE, &key, &changes).unwrap());
    partition.commit();
    assert_eq!(partition.name(2).as_deref(), Some("Barbara"));
    let key = partition.key(1);
    let Partition {
        arena,
        writes,
        space,
        ..
    } = &mut partition;
    assert!(space.delete(arena, writes, TABLE, &key).unwrap());
    assert!(!space.delete(arena, writes, TABLE, &key).unwrap());
    partition.commit();
    assert_eq!((partition.name(1), partition.check()), (None, (1, 1)));
}

#[test]
fn a_statement_that_fails_leaves_changes_that_the_engine_rolls_back() {
    let mut partition = with_two_rows();
    let (mark, heap) = (
        partition.writes.savepoint(),
        partition.arena.heap_savepoint(),
    );
    let error = partition.insert(2, "Carol").unwrap_err();
    assert!(
        matches!(error, StorageError::DuplicateKey { .. }),
        "{error}"
    );
    let Partition { arena, writes, .. } = &mut partition;
    writes.rollback_to(arena, mark).unwrap();
    arena.heap_rollback(heap);
    partition.insert(3, "Carol").unwrap();
    partition.commit();
    assert_eq!(partition.name(2).as_deref(), Some("Bob"));
    assert_eq!(partition.check(), (3, 3));
}

#[test]
fn an_opening_finds_tables_and_indexes_by_the_directory() {
    let mut partition = with_two_rows();
    let Partition {
        arena,
        writes,
        space,
        ..
    } = &mut partition;
    space
        .create_index(arena, writes, TABLE, &by_name())
        .unwrap();
    partition.commit();
    assert_eq!(partition.check(), (2, 4));
    let Partition {
        arena, directory, ..
    } = &partition;
    partition.space =
        Space::open(arena, *directory, LayoutKind::Together, NODE_BYTES, hints()).unwrap();
    assert_eq!(partition.space.tables()[0].def.indexes, [by_name()]);
    assert_eq!(partition.check(), (2, 4));
    let Partition {
        arena,
        writes,
        space,
        ..
    } = &mut partition;
    let dropped = space.drop_index(arena, writes, TABLE, IndexId(1));
    dropped.unwrap();
    partition.commit();
    assert_eq!(partition.check(), (2, 2));
    let Partition {
        arena,
        writes,
        space,
        ..
    } = &mut partition;
    space.drop_table(arena, writes, TABLE).unwrap();
    partition.commit();
    assert_eq!(partition.check(), (0, 0));
}

#[test]
fn an_index_over_many_rows_takes_few_fences() {
    const ROWS: i64 = 3000;
    let mut partition = with_two_rows();
    for id in 3..=ROWS {
        // In another order than the primary keys.
        let name = format!("{:05}", id * 7919 % 10_007);
        partition.insert(id, &name).unwrap();
        partition.commit();
    }
    let before = partition.arena.counters().fences;
    let unique = unique_by_name();
    let Partition {
        arena,
        writes,
        space,
        ..
    } = &mut partition;
    space.create_index(arena, writes, TABLE, &unique).unwrap();
    partition.commit();
    let fences = partition.arena.counters().fences - before;
    // An insertion of one entry after the other takes 300.
    assert!(fences < 30, "{fences} fences");
    assert_eq!(partition.check(), (ROWS as u64, 2 * ROWS as u64));
}

#[test]
fn rows_with_one_key_stop_a_unique_index() {
    let mut partition = with_two_rows();
    partition.insert(3, "Ada").unwrap();
    partition.commit();
    let (mark, heap) = (
        partition.writes.savepoint(),
        partition.arena.heap_savepoint(),
    );
    let unique = unique_by_name();
    let Partition {
        arena,
        writes,
        space,
        ..
    } = &mut partition;
    let error = space
        .create_index(arena, writes, TABLE, &unique)
        .unwrap_err();
    assert!(error.to_string().contains("Ada"), "{error}");
    writes.rollback_to(arena, mark).unwrap();
    arena.heap_rollback(heap);
    space.reload(arena).unwrap();
    assert_eq!(partition.check(), (3, 3));
}
