//! Measures the hot path of the heap: what a block costs from its reservation to the end of the
//! transaction, in ordinary memory, where no store waits for a medium.
//!
//! The changes that the heap hands out are stored at once, as an engine without a log would do.

#![allow(clippy::print_stdout, reason = "a bench reports on standard output")]

use pmem::{
    Arena, NativeMemory, Outcome, Owner, POOL_FORMAT, PageSize, Part, PoolId, PoolIdentity,
    PoolKind, Result, WordChange,
};
use std::time::Instant;

const BLOCK_BYTES: usize = 1088;
const COUNT: u32 = 1_000_000;
const OWNER: Owner = Owner {
    part: Part::Table,
    tag: 1,
};

fn make(arena: &mut Arena<NativeMemory>, change: WordChange) -> Result<()> {
    let word = arena.word(change.offset)?;
    arena.store_word(change.offset, change.apply(word))
}

/// Prints the time of one step.
fn measure(what: &str, mut step: impl FnMut() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    (0..COUNT).try_for_each(|_| step())?;
    let each_ns = start.elapsed().as_nanos() as f64 / f64::from(COUNT);
    println!("{what}: {each_ns:.1} ns");
    Ok(())
}

fn main() -> Result<()> {
    let identity = PoolIdentity {
        kind: PoolKind(3),
        pool_id: PoolId(1),
        format_version: POOL_FORMAT,
        created_seconds: 0,
        user: [0; 4],
    };
    let memory = NativeMemory::volatile(256 << 10, PageSize::Base)?;
    let mut arena = Arena::create(memory, &identity)?;
    let class = arena.class(BLOCK_BYTES, OWNER)?;
    let mut last = 0;
    measure(
        "reserve, activate, settle, with new runs and growth",
        || {
            last = arena.reserve_class(class)?;
            let change = arena.activate(last)?;
            make(&mut arena, change)?;
            arena.settle(Outcome::Committed);
            Ok(())
        },
    )?;
    measure("replace a block", || {
        let new = arena.reserve_class(class)?;
        let change = arena.activate(new)?;
        make(&mut arena, change)?;
        let change = arena.free(last)?;
        make(&mut arena, change)?;
        arena.settle(Outcome::Committed);
        last = new;
        Ok(())
    })?;
    measure("reserve and give back", || {
        arena.reserve_class(class)?;
        arena.settle(Outcome::Aborted);
        Ok(())
    })?;
    measure("the same by size", || {
        arena.reserve(BLOCK_BYTES, OWNER)?;
        arena.settle(Outcome::Aborted);
        Ok(())
    })
}
