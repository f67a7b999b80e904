//! The pool and its heap while nothing fails: states of blocks, sizes, marks, growth, reopening,
//! damage.
//!
//! Random operations are compared with a model that knows every block. The changes that the heap
//! hands out are applied at once or at the end of the transaction, as engines do. Crashes are
//! tested in `heap_crash`.

#![allow(
    clippy::unwrap_used,
    reason = "a failed step of a test is a failed test"
)]

use pmem::device::simulated::{SimulatedWorld, WorldOptions};
use pmem::{
    Arena, BLOCK_BYTES_MAX, Block, BlockState, EXTENT_BYTES_MAX, Memory, MemorySource,
    NativeMemory, Outcome, Owner, POOL_FORMAT_MAX, PageSize, Part, PmemError, PoolId, PoolIdentity,
    PoolKind, Result, RootIndex, WordChange,
};
use std::collections::BTreeMap;
use std::path::Path;

const MEBIBYTE: u64 = 1 << 20;
const OWNERS: [Owner; 3] = [
    Owner {
        part: Part::Table,
        tag: 1,
    },
    Owner {
        part: Part::Index,
        tag: 65535,
    },
    Owner {
        part: Part::Other,
        tag: 0,
    },
];

fn identity() -> PoolIdentity {
    PoolIdentity {
        kind: PoolKind(3),
        pool_id: PoolId(0x1234_5678_9abc),
        format_version: pmem::POOL_FORMAT,
        created_seconds: 1_700_000_000,
        user: [10, 20, 30, 40],
    }
}

/// Memory in DRAM that starts as garbage, because nothing may rely on zeros.
fn memory(bytes: u64) -> NativeMemory {
    let mut memory = NativeMemory::volatile(bytes, PageSize::Base).unwrap();
    memory.store(0, &vec![0xa5; bytes as usize]);
    memory
}

fn pool(bytes: u64) -> Arena<NativeMemory> {
    Arena::create(memory(bytes), &identity()).unwrap()
}

fn content<M: Memory>(arena: &Arena<M>) -> Vec<u8> {
    arena
        .bytes(0, arena.pool_bytes() as usize)
        .unwrap()
        .to_vec()
}

fn with_content(content: &[u8]) -> NativeMemory {
    let bytes = (content.len() as u64).next_multiple_of(4096);
    let mut memory = NativeMemory::volatile(bytes, PageSize::Base).unwrap();
    memory.store(0, content);
    memory
}

fn open(content: &[u8]) -> Result<Arena<NativeMemory>> {
    Arena::open(with_content(content), Path::new("p.pool"))
}

fn make<M: Memory>(arena: &mut Arena<M>, change: WordChange) {
    let word = arena.word(change.offset).unwrap();
    arena.store_word(change.offset, change.apply(word)).unwrap();
}

fn allocate<M: Memory>(arena: &mut Arena<M>, bytes: usize, owner: Owner) -> u64 {
    let offset = arena.reserve(bytes, owner).unwrap();
    let change = arena.activate(offset).unwrap();
    make(arena, change);
    offset
}

fn release<M: Memory>(arena: &mut Arena<M>, offset: u64) {
    let change = arena.free(offset).unwrap();
    make(arena, change);
}

/// Small random numbers; xorshift is enough here.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

#[test]
fn roots_and_identity_survive_reopening() {
    let mut arena = pool(256 << 10);
    arena.set_root(RootIndex::new(0), 77).unwrap();
    arena.set_root(RootIndex::new(7), 99).unwrap();
    let arena = open(&content(&arena)).unwrap();
    assert_eq!(arena.identity(), &identity());
    let roots: Vec<u64> = (0..8)
        .map(|index| arena.root(RootIndex::new(index)))
        .collect();
    assert_eq!(roots, [77, 0, 0, 0, 0, 0, 0, 99]);
}

#[test]
fn one_damaged_header_copy_is_repaired_once() {
    let mut arena = pool(256 << 10);
    arena.set_root(RootIndex::new(1), 5).unwrap();
    let whole = content(&arena);
    for at in [0, 9, 13, 60, 170, 4096, 4096 + 80] {
        let mut damaged = whole.clone();
        damaged[at] ^= 4;
        let arena = open(&damaged).unwrap();
        assert_eq!(arena.root(RootIndex::new(1)), 5);
        assert_eq!(content(&arena), whole, "byte {at}");
    }
    let arena = Arena::open_read_only(with_content(&whole), Path::new("p.pool")).unwrap();
    assert_eq!(arena.root(RootIndex::new(1)), 5);
}

/// The first 24 bytes keep their place in later versions, and nothing else does.
#[test]
fn a_header_copy_of_a_newer_version_is_not_overwritten() {
    let whole = content(&pool(256 << 10));
    for copy in [0, 4096] {
        let mut newer = whole.clone();
        newer[copy + 12] = POOL_FORMAT_MAX as u8 + 1;
        newer[copy + 56..copy + 160].fill(0x77);
        let error = open(&newer).err().expect("it is refused").to_string();
        let expected = format!("newer version (format {}", POOL_FORMAT_MAX + 1);
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn header_copies_of_two_pools_are_refused() {
    let whole = content(&pool(256 << 10));
    let stranger = PoolIdentity {
        pool_id: PoolId(7),
        ..identity()
    };
    let other = content(&Arena::create(memory(256 << 10), &stranger).unwrap());
    let mut mixed = whole;
    mixed[4096..8192].copy_from_slice(&other[4096..8192]);
    let error = open(&mixed).err().expect("it is refused").to_string();
    assert!(error.contains("different pools"), "{error}");
}

#[test]
fn foreign_files_are_named() {
    let whole = content(&pool(256 << 10));
    let both = |at: usize, bytes: &[u8]| {
        let mut changed = whole.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        changed[4096 + at..4096 + at + bytes.len()].copy_from_slice(bytes);
        changed
    };
    let newer = POOL_FORMAT_MAX + 1;
    let is_newer =
        format!("newer version (format {newer}, this program reads up to {POOL_FORMAT_MAX})");
    let cases = [
        (whole[..40_000].to_vec(), "too short"),
        (whole[..98_304].to_vec(), "truncated"),
        (vec![0; 256 << 10], "never finished"),
        (vec![7; 256 << 10], "not a pool"),
        (both(8, &[1, 2, 3, 4]), "big-endian"),
        (both(12, &newer.to_le_bytes()), is_newer.as_str()),
        (both(90, &[1]), "valid checksum"),
    ];
    for (content, expected) in cases {
        let error = open(&content)
            .err()
            .expect("the file is foreign")
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn too_small_or_unknown_pools_are_not_made() {
    let small = memory(32 << 10);
    assert!(matches!(
        Arena::create(small, &identity()),
        Err(PmemError::Unsupported(_))
    ));
    let newer = PoolIdentity {
        format_version: pmem::POOL_FORMAT_MAX + 1,
        ..identity()
    };
    let memory = memory(MEBIBYTE);
    assert!(matches!(
        Arena::create(memory, &newer),
        Err(PmemError::Unsupported(_))
    ));
}

#[test]
fn states_of_a_block() {
    for bytes in [40, 1000, 20_000] {
        let mut arena = pool(256 << 10);
        let state = |arena: &Arena<NativeMemory>, offset| arena.block(offset).unwrap().state;
        let offset = arena.reserve(bytes, OWNERS[0]).unwrap();
        assert_eq!(state(&arena, offset), BlockState::Reserved);
        assert!(arena.allocated().unwrap().is_empty());
        let change = arena.activate(offset).unwrap();
        make(&mut arena, change);
        arena.settle(Outcome::Committed);
        assert_eq!(state(&arena, offset), BlockState::Allocated);
        assert_eq!(arena.block(offset).unwrap().owner, OWNERS[0]);
        assert_eq!(arena.allocated().unwrap().len(), 1);
        release(&mut arena, offset);
        assert_eq!(state(&arena, offset), BlockState::Freed);
        let other = arena.reserve(bytes, OWNERS[0]).unwrap();
        assert_ne!(
            other, offset,
            "a freed block waits for the end of the transaction"
        );
        arena.settle(Outcome::Committed);
        assert!(arena.allocated().unwrap().is_empty());
        let offsets: Vec<u64> = (0..2)
            .map(|_| arena.reserve(bytes, OWNERS[0]).unwrap())
            .collect();
        assert!(
            offsets.contains(&offset) && offsets.contains(&other),
            "{bytes} {offsets:?}"
        );
    }
}

#[test]
fn a_reservation_that_is_not_activated_goes_back() {
    for bytes in [40, 20_000] {
        let mut arena = pool(256 << 10);
        for _ in 0..10_000 {
            arena.reserve(bytes, OWNERS[0]).unwrap();
            let used = allocate(&mut arena, bytes, OWNERS[0]);
            arena.settle(Outcome::Committed);
            release(&mut arena, used);
            arena.settle(Outcome::Committed);
        }
    }
}

#[test]
fn rollback_to_a_mark() {
    for bytes in [40, 20_000] {
        let mut arena = pool(512 << 10);
        let old = allocate(&mut arena, bytes, OWNERS[0]);
        arena.settle(Outcome::Committed);
        let first = arena.reserve(bytes, OWNERS[0]).unwrap();
        let mark = arena.heap_savepoint();
        let second = arena.reserve(bytes, OWNERS[0]).unwrap();
        arena.activate(second).unwrap();
        arena.activate(first).unwrap();
        arena.free(old).unwrap();
        arena.heap_rollback(mark);
        assert_eq!(arena.block(old).unwrap().state, BlockState::Allocated);
        let change = arena.activate(first).unwrap();
        make(&mut arena, change);
        arena.settle(Outcome::Committed);
        let offsets: Vec<u64> = arena
            .allocated()
            .unwrap()
            .iter()
            .map(|b| b.offset)
            .collect();
        assert_eq!(offsets, [old, first]);
        let again: Vec<u64> = (0..2)
            .map(|_| arena.reserve(bytes, OWNERS[0]).unwrap())
            .collect();
        assert!(again.contains(&second) && !again.contains(&old), "{bytes}");
    }
}

#[test]
fn blocks_of_the_log_outlive_a_rollback() {
    let mut arena = pool(256 << 10);
    let log = Owner {
        part: Part::Log,
        tag: 0,
    };
    let mark = arena.heap_savepoint();
    let block = arena.reserve(1000, log).unwrap();
    arena.heap_rollback(mark);
    assert_ne!(arena.reserve(1000, log).unwrap(), block);
    arena.settle(Outcome::Aborted);
    let again: Vec<u64> = (0..2).map(|_| arena.reserve(1000, log).unwrap()).collect();
    assert!(again.contains(&block));
}

#[test]
fn wrong_offsets_are_errors() {
    let mut arena = pool(256 << 10);
    let block = allocate(&mut arena, 64, OWNERS[0]);
    let extent = allocate(&mut arena, 40_000, OWNERS[0]);
    arena.settle(Outcome::Committed);
    for offset in [
        0,
        8,
        16384,
        block + 8,
        block + 64,
        extent + 8,
        250 << 10,
        u64::MAX,
        1 << 40,
    ] {
        assert!(arena.free(offset).is_err(), "{offset}");
        assert!(arena.activate(offset).is_err(), "{offset}");
    }
    assert!(arena.block(extent + 16384).is_err());
    assert!(arena.free(extent).is_ok());
    assert!(arena.free(extent).is_err(), "freed twice");
    assert!(arena.reserve(0, OWNERS[0]).is_err());
    assert!(arena.reserve(EXTENT_BYTES_MAX + 1, OWNERS[0]).is_err());
    assert!(arena.class(BLOCK_BYTES_MAX + 1, OWNERS[0]).is_err());
}

#[test]
fn the_largest_extent_gets_a_zone_of_its_own() {
    let mut arena = pool(256 << 10);
    for _ in 0..2 {
        let offset = allocate(&mut arena, EXTENT_BYTES_MAX, OWNERS[1]);
        assert_eq!(arena.block(offset).unwrap().bytes, EXTENT_BYTES_MAX as u64);
    }
    arena.settle(Outcome::Committed);
    assert_eq!(
        arena.pool_bytes(),
        64 * MEBIBYTE + (16 << 10),
        "growth counts what is free"
    );
    allocate(&mut arena, 9000, OWNERS[1]);
    arena.settle(Outcome::Committed);
    let footprint = arena.footprint().unwrap();
    let held: u64 = footprint.held_bytes.iter().sum();
    assert_eq!(
        footprint.free_bytes + footprint.metadata_bytes + held,
        arena.pool_bytes()
    );
    assert_eq!(footprint.held_bytes[1], 2 * EXTENT_BYTES_MAX as u64 + 16384);
}

#[test]
fn a_full_medium_leaves_everything_usable() {
    let world = SimulatedWorld::new(WorldOptions::default());
    world.limit_space(Some(300 << 10));
    let memory = world.source().create("p", 256 << 10).unwrap();
    let mut arena = Arena::create(memory, &identity()).unwrap();
    let mut blocks = Vec::new();
    let error = loop {
        match arena.reserve(1000, OWNERS[0]) {
            Ok(offset) => {
                let change = arena.activate(offset).unwrap();
                make(&mut arena, change);
                blocks.push(offset);
            }
            Err(error) => break error,
        }
    };
    assert!(matches!(error, PmemError::OutOfSpace { .. }));
    arena.settle(Outcome::Committed);
    assert_eq!(
        blocks.len(),
        16 * 16,
        "all chunks but header and table, the last growth small"
    );
    assert!(arena.reserve(20_000, OWNERS[0]).is_err());
    for offset in blocks.drain(..) {
        release(&mut arena, offset);
    }
    arena.settle(Outcome::Committed);
    assert!(
        arena.reserve(EXTENT_BYTES_MAX / 200, OWNERS[0]).is_ok(),
        "empty runs become free"
    );
    assert!(arena.allocated().unwrap().is_empty());
}

#[test]
fn a_file_longer_than_its_header_grows_over_the_rest() {
    let arena = pool(256 << 10);
    let mut longer = content(&arena);
    longer.resize(600 << 10, 0xff);
    let mut arena = open(&longer).unwrap();
    for _ in 0..30 {
        allocate(&mut arena, 16_000, OWNERS[0]);
    }
    arena.settle(Outcome::Committed);
    assert_eq!(arena.allocated().unwrap().len(), 30);
}

#[test]
fn flipped_table_bits_are_found() {
    let mut arena = pool(256 << 10);
    for bytes in [40, 1000, 20_000, 60_000] {
        allocate(&mut arena, bytes, OWNERS[0]);
    }
    arena.settle(Outcome::Committed);
    let whole = content(&arena);
    for head in [0_usize, 1, 2, 3, 5, 9] {
        for bit in 0..64 {
            let mut damaged = whole.clone();
            damaged[16384 + head * 8 + bit / 8] ^= 1 << (bit % 8);
            let mut arena = open(&damaged).unwrap();
            let error = arena.allocated().expect_err("the flip is found");
            assert!(
                matches!(
                    error,
                    PmemError::Corrupted {
                        what: "chunk table",
                        ..
                    }
                ),
                "{error}"
            );
            assert!(arena.footprint().is_err());
            while arena.reserve(9000, OWNERS[0]).is_ok() {}
        }
    }
}

/// The actions of a transaction of the model, newest last.
#[derive(Default)]
struct Open {
    reserved: Vec<Block>,
    freed: Vec<Block>,
    undo: Vec<(u64, u64)>,
}

fn change_logged(arena: &mut Arena<NativeMemory>, open: &mut Open, change: WordChange) {
    open.undo
        .push((change.offset, arena.word(change.offset).unwrap()));
    make(arena, change);
}

fn random_bytes(random: &mut Random) -> usize {
    match random.below(10) {
        0..6 => 8 + random.below(200) as usize,
        6..8 => 1 + random.below(BLOCK_BYTES_MAX as u64) as usize,
        8 => 1000,
        _ => BLOCK_BYTES_MAX + 1 + random.below(100_000) as usize,
    }
}

/// Reserves and activates a block; checks place and size against all blocks in use.
fn model_reserve(
    arena: &mut Arena<NativeMemory>,
    random: &mut Random,
    used: &mut BTreeMap<u64, u64>,
    open: &mut Open,
) {
    let bytes = random_bytes(random);
    let owner = OWNERS[random.below(3) as usize];
    let offset = arena.reserve(bytes, owner).unwrap();
    let info = arena.block(offset).unwrap();
    assert!(info.bytes >= bytes as u64 && info.owner == owner);
    assert_eq!(info.state, BlockState::Reserved);
    assert!(
        offset.is_multiple_of(8) && (!info.bytes.is_multiple_of(64) || offset.is_multiple_of(64))
    );
    let before = used.range(..=offset).next_back();
    assert!(
        before.is_none_or(|(start, bytes)| start + bytes <= offset),
        "overlap"
    );
    let after = used.range(offset..).next();
    assert!(
        after.is_none_or(|(&start, _)| offset + info.bytes <= start),
        "overlap"
    );
    used.insert(offset, info.bytes);
    open.reserved.push(Block {
        offset,
        bytes: info.bytes,
        owner,
    });
    let change = arena.activate(offset).unwrap();
    change_logged(arena, open, change);
}

fn undo_to(arena: &mut Arena<NativeMemory>, open: &mut Open, length: usize) {
    for (offset, word) in open.undo.drain(length..).rev() {
        arena.store_word(offset, word).unwrap();
    }
}

fn random_operations(seed: u64, transactions: usize) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut arena = pool(256 << 10);
    let mut blocks: BTreeMap<u64, Block> = BTreeMap::new();
    for number in 0..transactions {
        let mut open_transaction = Open::default();
        let open_now = &mut open_transaction;
        let mut used: BTreeMap<u64, u64> = blocks.values().map(|b| (b.offset, b.bytes)).collect();
        let mut live = blocks.clone();
        let shrinks = number / 50 % 2 == 1;
        for _ in 0..random.below(12) {
            let (mark, reserved, freed, undo, live_before) = (
                arena.heap_savepoint(),
                open_now.reserved.len(),
                open_now.freed.len(),
                open_now.undo.len(),
                live.clone(),
            );
            for _ in 0..random.below(5) {
                if random.below(10) < if shrinks { 7 } else { 3 } && !live.is_empty() {
                    let nth = random.below(live.len() as u64) as usize;
                    let block = *live.values().nth(nth).unwrap();
                    live.remove(&block.offset);
                    let change = arena.free(block.offset).unwrap();
                    change_logged(&mut arena, open_now, change);
                    open_now.freed.push(block);
                } else {
                    model_reserve(&mut arena, &mut random, &mut used, open_now);
                    let block = *open_now.reserved.last().unwrap();
                    live.insert(block.offset, block);
                }
            }
            if random.below(6) == 0 {
                undo_to(&mut arena, open_now, undo);
                arena.heap_rollback(mark);
                for block in open_now.reserved.drain(reserved..) {
                    used.remove(&block.offset);
                }
                open_now.freed.truncate(freed);
                live = live_before;
            }
        }
        if random.below(4) == 0 {
            undo_to(&mut arena, open_now, 0);
            arena.settle(Outcome::Aborted);
        } else {
            arena.settle(Outcome::Committed);
            blocks = live;
        }
        if number % 16 == 0 {
            let expected: Vec<Block> = blocks.values().copied().collect();
            assert_eq!(
                arena.allocated().unwrap(),
                expected,
                "seed {seed} transaction {number}"
            );
        }
        if random.below(20) == 0 {
            arena = open(&content(&arena)).unwrap();
        }
    }
    let expected: Vec<Block> = blocks.values().copied().collect();
    assert_eq!(arena.allocated().unwrap(), expected);
}

#[test]
fn random_operations_agree_with_a_model() {
    for seed in 1..=60 {
        random_operations(seed, 150);
    }
}

/// Tables come and go; each has a tag of its own, and so runs of its own.
#[test]
fn the_space_of_owners_that_are_gone_is_used_again() {
    let mut arena = pool(MEBIBYTE);
    let before = arena.pool_bytes();
    for tag in 0..500 {
        let owner = Owner {
            part: Part::Table,
            tag,
        };
        let blocks = [24, 512, 1088].map(|bytes| allocate(&mut arena, bytes, owner));
        arena.settle(Outcome::Committed);
        for block in blocks {
            release(&mut arena, block);
        }
        arena.settle(Outcome::Committed);
    }
    assert_eq!(arena.pool_bytes(), before);
    assert!(arena.allocated().unwrap().is_empty());
}

/// A log's recovery may still store into freed blocks: it hears of it before their chunk is cut
/// anew, and of nothing else.
#[test]
fn the_log_is_asked_before_an_empty_run_is_cut_anew() {
    let world = SimulatedWorld::new(WorldOptions::default());
    world.limit_space(Some(300 << 10));
    let memory = world.source().create("p", 256 << 10).unwrap();
    let mut arena = Arena::create(memory, &identity()).unwrap();
    let mut calls = 0;
    let mut blocks = Vec::new();
    while let Ok(offset) = arena.reserve_after(1000, OWNERS[0], |_| {
        calls += 1;
        Ok(())
    }) {
        let change = arena.activate(offset).unwrap();
        make(&mut arena, change);
        blocks.push(offset);
    }
    assert_eq!(calls, 0, "no run is empty");
    arena.settle(Outcome::Committed);
    let first = blocks[0];
    for offset in blocks {
        release(&mut arena, offset);
    }
    arena.settle(Outcome::Committed);
    let refused = |_: &mut Arena<_>| Err(PmemError::Unsupported("not now".to_owned()));
    arena.reserve_after(1000, OWNERS[0], refused).unwrap();
    assert!(arena.reserve_after(600, OWNERS[0], refused).is_err());
    arena
        .reserve_after(600, OWNERS[0], |arena| {
            assert_eq!(arena.block(first)?.state, BlockState::Free);
            calls += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(calls, 1);
    arena
        .reserve_after(600, OWNERS[0], refused)
        .expect("the chunks are free now");
}

#[test]
fn space_stays_constant_under_churn() {
    let mut arena = pool(256 << 10);
    let mut random = Random(42);
    let mut blocks: Vec<u64> = (0..2000)
        .map(|_| allocate(&mut arena, 1000, OWNERS[0]))
        .collect();
    arena.settle(Outcome::Committed);
    let bytes = arena.pool_bytes();
    for _ in 0..50_000 {
        let nth = random.below(blocks.len() as u64) as usize;
        let new = allocate(&mut arena, 1000, OWNERS[0]);
        release(&mut arena, blocks[nth]);
        blocks[nth] = new;
        arena.settle(Outcome::Committed);
    }
    assert_eq!(arena.pool_bytes(), bytes);
    assert_eq!(arena.allocated().unwrap().len(), blocks.len());
    let held = arena.footprint().unwrap().held_bytes[0];
    assert!(
        held <= 2000 * 1000 * 21 / 20,
        "{held} bytes hold two million"
    );
}
