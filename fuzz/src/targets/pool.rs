//! A pool's header and heap: opening, the whole scans, and some life afterwards.
//!
//! The pool is opened over plain memory. Blocks are freed and reserved as a transaction would,
//! driven by the digest of the input, so that the heap also acts on what it has believed.

use super::{Target, told};
use crate::find::{arena_of, memory_of, seals_of};
use crate::input::Input;
use crate::mutate::Seed;
use crate::random::Random;
use pmem::{Arena, Memory, Outcome, Owner, PoolId, PoolIdentity, PoolKind, RootIndex, WordChange};

const POOL: &str = "p0.pool";
const POOL_BYTES: usize = 256 << 10;

/// The target of this file.
pub(super) fn target() -> Target {
    Target::new("pool", seeds, run)
}

fn seeds() -> Result<Vec<Seed>, String> {
    let identity = PoolIdentity {
        kind: PoolKind(1),
        pool_id: PoolId(2),
        format_version: pmem::POOL_FORMAT,
        created_seconds: 0,
        user: [0; 4],
    };
    let memory = memory_of(&vec![0; POOL_BYTES]).map_err(told)?;
    let mut arena = Arena::create(memory, &identity).map_err(told)?;
    let mut random = Random::new(1);
    let mut blocks = Vec::new();
    for _ in 0..40 {
        blocks.push(allocate(&mut arena, &mut random).map_err(told)?);
        if random.once_in(3) {
            let at = random.below(blocks.len());
            let change = arena.free(blocks.swap_remove(at)).map_err(told)?;
            make(&mut arena, change).map_err(told)?;
        }
        arena.settle(Outcome::Committed);
    }
    arena.set_root(RootIndex::new(0), blocks[0]).map_err(told)?;
    let bytes = arena.bytes(0, arena.pool_bytes() as usize).map_err(told)?;
    let input = Input::of(POOL, bytes.to_vec());
    let seals = seals_of(&input, 0);
    Ok(vec![Seed::new(input, seals)])
}

fn allocate<M: Memory>(arena: &mut Arena<M>, random: &mut Random) -> pmem::Result<u64> {
    let sizes = [8, 24, 64, 100, 512, 1000, 1088, 8128, 20_000];
    let owner = Owner {
        part: *random.pick(&pmem::Part::ALL).unwrap_or(&pmem::Part::Other),
        tag: random.below(4) as u16,
    };
    let bytes = *random.pick(&sizes).unwrap_or(&8);
    let offset = arena.reserve(bytes, owner)?;
    let change = arena.activate(offset)?;
    make(arena, change)?;
    Ok(offset)
}

fn make<M: Memory>(arena: &mut Arena<M>, change: WordChange) -> pmem::Result<()> {
    let word = arena.word(change.offset)?;
    arena.store_word(change.offset, change.apply(word))
}

fn run(input: &Input) -> bool {
    let Ok(mut arena) = arena_of(input.part(POOL)) else {
        return false;
    };
    let mut random = Random::new(input.digest());
    let blocks = arena.allocated().unwrap_or_default();
    let whole = arena.footprint().is_ok();
    for _ in 0..20 {
        let bytes = arena.pool_bytes() as usize;
        let offset = match random.pick(&blocks) {
            Some(block) if !random.once_in(3) => block.offset,
            _ => random.below(bytes) as u64 / 8 * 8,
        };
        let _ = arena.block(offset);
        if random.once_in(2)
            && let Ok(change) = arena.free(offset)
        {
            let _ = make(&mut arena, change);
        }
        let _ = allocate(&mut arena, &mut random);
        match random.below(6) {
            0 => arena.settle(Outcome::Committed),
            1 => arena.settle(Outcome::Aborted),
            _ => {}
        }
    }
    arena.settle(Outcome::Aborted);
    let _ = (arena.allocated(), arena.footprint());
    for index in 0..8 {
        let root = arena.root(RootIndex::new(index));
        let _ = (arena.word(root), arena.bytes(root, 64));
    }
    let _ = arena.set_root(RootIndex::new(1), 8);
    whole
}
