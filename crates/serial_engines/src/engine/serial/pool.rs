//! Pools of the engines that keep a partition in one: their names and headers, and the checks at
//! opening.
//!
//! | user word | content |
//! |---|---|
//! | 0 | layout of tuples: 0 together, 1 separate |
//! | 1 | bytes of an index node or page |
//! | 2 | number of the partition |
//! | 3 | the engine's own |
//!
//! Invariant: creation sets [`FIRST_ROOT`] last, so a pool without it was never finished and is
//! refused.

use pmem::{
    Access, Arena, Memory, MemorySource, POOL_FORMAT, Part, PmemError, PoolId, PoolIdentity,
    PoolKind, RootIndex,
};
use std::path::Path;
use storage::engine::{EngineOptions, Footprint};
use storage::record::LayoutKind;
use storage::{Result, UNFINISHED};

/// The root of everything else in the pool.
pub(in crate::engine) const FIRST_ROOT: RootIndex = RootIndex::new(0);

/// A pool that was opened, and its header.
pub(in crate::engine) struct Opened<M: Memory> {
    pub(in crate::engine) arena: Arena<M>,
    pub(in crate::engine) name: String,
    pub(in crate::engine) layout: LayoutKind,
    /// Bytes of an index node or page.
    pub(in crate::engine) node_bytes: usize,
    /// Content of [`FIRST_ROOT`].
    pub(in crate::engine) first_root: u64,
}

/// Makes a pool that is not finished before its [`FIRST_ROOT`] is set.
pub(in crate::engine) fn create<S: MemorySource>(
    memories: &S,
    identity: &PoolIdentity,
    options: &EngineOptions,
) -> Result<Arena<S::Memory>> {
    let memory = memories.create(&name(options.partition), options.pool_bytes)?;
    Ok(Arena::create(memory, identity)?)
}

/// Opens a finished pool of one of these kinds and of this partition. `nodes` names the engine's
/// kind of nodes, and says which sizes it knows.
pub(in crate::engine) fn open<S: MemorySource>(
    memories: &S,
    kinds: &[PoolKind],
    nodes: (&str, fn(u64) -> bool),
    options: &EngineOptions,
) -> Result<Opened<S::Memory>> {
    let name = name(options.partition);
    let memory = memories.open(&name, options.access)?;
    let arena = match options.access {
        Access::Write => Arena::open(memory, Path::new(&name))?,
        Access::Read => Arena::open_read_only(memory, Path::new(&name))?,
    };
    let identity = arena.identity();
    let foreign = |reason: String| PmemError::Foreign {
        path: name.clone().into(),
        reason,
    };
    if !kinds.contains(&identity.kind) {
        return Err(foreign("it is a pool of another method".to_owned()).into());
    }
    if identity.pool_id != pool_id(options) {
        let text = "it belongs to another database or partition; put the right file back";
        return Err(foreign(text.to_owned()).into());
    }
    let first_root = arena.root(FIRST_ROOT);
    if first_root == 0 {
        return Err(foreign(UNFINISHED.to_owned()).into());
    }
    let layout = match identity.user[0] {
        0 => LayoutKind::Together,
        1 => LayoutKind::Separate,
        other => return Err(foreign(format!("its tuple layout {other} is unknown")).into()),
    };
    let (noun, is_known) = nodes;
    let node_bytes = identity.user[1];
    if !is_known(node_bytes) {
        return Err(foreign(format!("its {noun} of {node_bytes} bytes are unknown")).into());
    }
    Ok(Opened {
        arena,
        name,
        layout,
        node_bytes: node_bytes as usize,
        first_root,
    })
}

/// The header of a new pool whose index nodes or pages have `node_bytes`.
pub(in crate::engine) fn identity(
    kind: PoolKind,
    node_bytes: u32,
    options: &EngineOptions,
) -> PoolIdentity {
    let layout = match options.layout {
        LayoutKind::Together => 0,
        LayoutKind::Separate => 1,
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    PoolIdentity {
        kind,
        pool_id: pool_id(options),
        format_version: POOL_FORMAT,
        created_seconds: now.map_or(0, |now| now.as_secs()),
        user: [
            layout,
            u64::from(node_bytes),
            u64::from(options.partition),
            0,
        ],
    }
}

/// Tells this pool's records from those that its memory held before.
pub(in crate::engine) fn salt(options: &EngineOptions) -> u32 {
    crc32c::crc32c_append(options.partition, &options.database_id.to_le_bytes())
}

/// Bytes in use in a pool.
pub(in crate::engine) fn footprint(heap: &pmem::Footprint) -> Footprint {
    let held = |part: Part| heap.held_bytes[part as usize];
    Footprint {
        table: held(Part::Table),
        index: held(Part::Index),
        log: held(Part::Log),
        checkpoint: held(Part::Checkpoint),
        other: held(Part::Other) + heap.metadata_bytes,
    }
}

fn name(partition: u32) -> String {
    format!("p{partition}.pool")
}

fn pool_id(options: &EngineOptions) -> PoolId {
    PoolId(options.database_id ^ u128::from(options.partition) << 96)
}
