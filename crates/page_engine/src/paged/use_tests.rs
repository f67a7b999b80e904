//! Trees and transactions over pages, as the engine uses them: goal and method.
//!
//! Goal: a reader sees here which calls make a change, undo it, end its transaction and free what
//! it has given up; and each of them does what its document says.
//!
//! Method: a tree of one partition on a device of memory, with pages so small that a few hundred
//! cells make three levels of them.

use super::search_path::SearchPath;
use super::transaction::LogRoom;
use super::tree::Stored;
use super::values::{get_value, put_value, replace_value};
use super::*;
use crate::buffer::offsets::first_page;
use crate::buffer::test_device::Device;
use crate::buffer::{CentralLog, Master, PageFile, PageFileOptions, Pool, UndoSpace};
use crate::page::{Head, PageId, TxnId, header};
use pmem::Access;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use storage::engine::{Direction, Guard};
use storage::log::{LogIdentity, LogStart, WalOptions};

const IDENTITY: LogIdentity = LogIdentity {
    database: 5,
    partition: 0,
};
const PAGE_BYTES: usize = 1024;
const SESSION: u32 = 0;

/// A new partition of a map of space and an empty tree with keys of one word.
fn partition() -> (Pages<Device>, Tree) {
    let device = Device::new(|_| true);
    let map = first_page(PAGE_BYTES);
    let tree = Tree {
        root: PageId(map.0 + 1),
        key_words: 1,
    };
    let mut root = vec![0; PAGE_BYTES];
    tree.format_root().apply(&mut root, tree.root).unwrap();
    let mut first = vec![space::first_map(PAGE_BYTES, tree.root.0 + 1), root];
    for page in &mut first {
        header::seal(page);
    }
    let options = PageFileOptions {
        identity: IDENTITY,
        access: Access::Write,
        guard: Guard::FullPageWrites,
    };
    let master = Master {
        generation: 0,
        page_bytes: PAGE_BYTES as u32,
        guard: options.guard.code(),
        start: LogStart::NEW,
        redo: LogStart::NEW.lsn,
        next_txn: 1,
        catalogue: tree.root,
        pages: 0,
    };
    let file = PageFile::create(&device, &options, master, &first, None).unwrap();
    let wal = WalOptions::default();
    let found = &mut |_, _: &[u8]| Ok(());
    let start = LogStart::NEW;
    let log = CentralLog::open(Access::Write, device, IDENTITY, wal, start, found, None).unwrap();
    let pool = Pool::new(file, Box::new(log), 0).unwrap();
    (Pages::new(pool, usize::MAX), tree)
}

fn begin(number: u64) -> Transaction {
    Transaction::new(TxnId(number), SESSION)
}

fn insert(pages: &Pages<Device>, tree: Tree, key: u64, txn: &mut Transaction) -> bool {
    let bytes = key.to_le_bytes();
    let value = Stored {
        bytes: &bytes,
        is_long: false,
    };
    let path = &mut SearchPath::default();
    tree.insert(pages, (&[key], path), value, &mut Entry::Undoable(txn))
        .unwrap()
}

fn remove(pages: &Pages<Device>, tree: Tree, key: u64, txn: &mut Transaction) -> bool {
    let path = &mut SearchPath::default();
    tree.remove(pages, (&[key], path), &mut Entry::Undoable(txn), |_, _| {
        Ok(())
    })
    .unwrap()
}

/// The keys of the tree, each of which has itself as its value.
fn keys(pages: &Pages<Device>, tree: Tree) -> Vec<u64> {
    let mut keys = Vec::new();
    let visit = &mut |key: &[u8], value: Stored<'_>| {
        assert_eq!(key, value.bytes);
        keys.push(u64::from_le_bytes(*key.first_chunk().unwrap()));
        Ok(ControlFlow::Continue(()))
    };
    tree.scan(pages, (&[0], &[u64::MAX]), Direction::Forward, visit)
        .unwrap();
    keys
}

/// Commits, makes that durable, and frees what the transaction has given up.
fn commit(pages: &Pages<Device>, txn: &Transaction) -> Vec<PageId> {
    let (lsn, frees) = pages.commit(txn).unwrap();
    pages.pool.log().flush_to(lsn).unwrap();
    assert!(pages.pool.log().synced() > lsn);
    pages.free(txn.id, SESSION, &frees).unwrap();
    frees
}

/// Whether each page that the map says to be in use is reached from the tree, and sound.
fn is_sound(pages: &Pages<Device>, tree: Tree) -> bool {
    let (mut reachable, mut damage) = (BTreeSet::new(), Vec::new());
    tree.check(pages, &mut reachable, &mut damage);
    damage.is_empty() && reachable == pages.used().unwrap().1
}

#[test]
fn a_statement_is_undone_to_its_savepoint_and_a_transaction_as_a_whole() {
    let (pages, tree) = partition();
    let mut txn = begin(1);
    assert!(insert(&pages, tree, 7, &mut txn));
    assert!(!insert(&pages, tree, 7, &mut txn), "the key is there");
    let savepoint = txn.savepoint();
    assert!(insert(&pages, tree, 8, &mut txn));
    assert!(remove(&pages, tree, 7, &mut txn));
    assert_eq!(keys(&pages, tree), [8]);
    pages.rollback(&mut txn, savepoint).unwrap();
    assert_eq!(keys(&pages, tree), [7]);
    assert_eq!(commit(&pages, &txn), []);
    let mut txn = begin(2);
    assert!(insert(&pages, tree, 9, &mut txn));
    assert!(remove(&pages, tree, 7, &mut txn));
    pages.undo(&mut txn).unwrap();
    assert_eq!(keys(&pages, tree), [7]);
}

#[test]
fn a_tree_splits_and_merges_its_pages_and_gives_them_back() {
    const KEYS: u64 = 2000;
    let (pages, tree) = partition();
    let mut txn = begin(1);
    for key in 0..KEYS {
        // In no order: 1,117 and 2,000 have no factor in common.
        assert!(insert(&pages, tree, key * 1117 % KEYS, &mut txn));
    }
    commit(&pages, &txn);
    assert_eq!(keys(&pages, tree), (0..KEYS).collect::<Vec<_>>());
    let full = tree.count(&pages).unwrap();
    assert!(full.leaves > 40 && full.inner > 2, "{full:?}");
    assert!(is_sound(&pages, tree));
    let mut txn = begin(2);
    assert!((0..KEYS).all(|key| remove(&pages, tree, key, &mut txn)));
    commit(&pages, &txn);
    assert_eq!(keys(&pages, tree), [0; 0]);
    let empty = tree.count(&pages).unwrap();
    assert!(empty.leaves < full.leaves / 10, "{empty:?}");
    assert!(is_sound(&pages, tree));
}

#[test]
fn a_long_value_has_pages_of_its_own_until_the_end_of_the_transaction_that_replaces_it() {
    let (pages, tree) = partition();
    let long: Vec<u8> = (0..5000_u32).map(|byte| byte as u8).collect();
    let (mut txn, path) = (begin(1), &mut SearchPath::default());
    assert!(put_value(&pages, (tree, path), &[3], &long, &mut txn).unwrap());
    assert_eq!(commit(&pages, &txn), []);
    let taken = pages.used().unwrap().1.len();
    assert_eq!(
        taken,
        1 + long
            .len()
            .div_ceil(crate::page::slotted::capacity(PAGE_BYTES))
    );
    let mut txn = begin(2);
    assert!(replace_value(&pages, (tree, path), &[3], b"short", &mut txn).unwrap());
    assert_eq!(pages.used().unwrap().1.len(), taken, "an undo needs them");
    assert_eq!(commit(&pages, &txn).len(), taken - 1);
    assert_eq!(pages.used().unwrap().1.len(), 1);
    let value = &mut Vec::new();
    assert!(get_value(&pages, (tree, path), &[3], value).unwrap());
    assert_eq!(value, b"short");
}

#[test]
fn a_change_that_is_built_before_a_checkpoint_begins_is_built_again() {
    let (pages, tree) = partition();
    let log = pages.pool.log();
    log.set_image_from(LogStart::NEW.lsn);
    let mut txn = begin(1);
    assert!(insert(&pages, tree, 1, &mut txn));
    let page = pages.pool.read(tree.root).unwrap();
    let (first, second) = (&mut Vec::new(), &mut Vec::new());
    let build = |buffer| {
        let mut record = log.begin_record(buffer);
        record.head(&Head::Change);
        record.section_of(tree.root, page.bytes(), &[]);
        record
    };
    let old = build(first);
    assert_eq!(old.image_bytes(), 0);
    log.begin_checkpoint().unwrap();
    let before = log.synced();
    assert_eq!(log.append(UndoSpace::Keep(SESSION), old).unwrap(), None);
    let new = build(second);
    assert!(new.image_bytes() > 0, "the page is logged whole");
    let lsn = log.append(UndoSpace::Keep(SESSION), new).unwrap();
    assert!(lsn >= Some(before));
}

#[test]
fn a_rollback_has_room_in_the_log_for_what_it_may_have_to_write() {
    let (pages, tree) = partition();
    let room = LogRoom::of_redo(PAGE_BYTES);
    let mut txn = begin(1);
    let bytes = |txn: &Transaction| txn.rollback_bytes(room);
    let none = bytes(&txn);
    assert!(insert(&pages, tree, 1, &mut txn));
    let one = bytes(&txn);
    assert!(one > none);
    txn.frees.push(PageId(9));
    assert_eq!(bytes(&txn), one + room.freed_bytes);
}
