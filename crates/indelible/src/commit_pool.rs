//! The commit table's words on durable memory: a pool with one block.
//!
//! The pool has the database's identity, so that a foreign one is refused, and the rest of the
//! descriptor, so that the descriptor can be rebuilt; older pools have zeros there.
//!
//! The block is made before the partitions and the descriptor, and a root says until then that the
//! creation has not ended. So a crash in between never leaves a leak, but a database of which is
//! known that it holds no data.

use crate::commit_table::{COMMIT_TABLE, Step, WORDS, Words};
use crate::descriptor::Descriptor;
use crate::error::{Error, Result};
use pmem::{
    Access, Arena, Counters, Domain, Memory, MemorySource, Outcome, Owner, POOL_FORMAT, Part,
    PoolId, PoolIdentity, PoolKind, RootIndex, site,
};
use std::path::Path;

/// Marks the pool as a commit table: `CMIT`.
const KIND: PoolKind = PoolKind(0x434D_4954);
/// First size of the pool in bytes: its header, one chunk table and some chunks.
const POOL_BYTES: u64 = 128 << 10;
const TABLE_ROOT: RootIndex = RootIndex::new(0);
/// 0 once the database is complete, and in pools of earlier versions.
const CREATION_ROOT: RootIndex = RootIndex::new(1);
const WORD_BYTES: usize = 8;
const TABLE_BYTES: usize = WORDS * WORD_BYTES;
const OWNER: Owner = Owner {
    part: Part::Log,
    tag: 1,
};

/// The words of a commit table in a pool.
pub(crate) struct PoolWords<M: Memory> {
    arena: Arena<M>,
    offset: u64,
}

impl<M: Memory> PoolWords<M> {
    /// Makes the pool with all words zero; durable when it returns. The database is incomplete
    /// until [`PoolWords::end_creation`].
    pub(crate) fn create(
        memories: &impl MemorySource<Memory = M>,
        recorded: &Descriptor,
    ) -> Result<Self> {
        Self::create_as(COMMIT_TABLE, memories, recorded)
    }

    /// The same under another name.
    pub(crate) fn create_as(
        name: &str,
        memories: &impl MemorySource<Memory = M>,
        recorded: &Descriptor,
    ) -> Result<Self> {
        let memory = memories.create(name, POOL_BYTES)?;
        let identity = PoolIdentity {
            kind: KIND,
            pool_id: PoolId(recorded.database_id),
            format_version: POOL_FORMAT,
            created_seconds: recorded.created_s,
            user: recorded.words(),
        };
        let mut arena = Arena::create(memory, &identity)?;
        arena.enter(Part::Log);
        let offset = arena.reserve(TABLE_BYTES, OWNER)?;
        arena.write_through(offset, &[0; TABLE_BYTES], site!("commit-table.zero"))?;
        let change = arena.activate(offset)?;
        let word = change.apply(arena.word(change.offset)?);
        arena.store_word(change.offset, word)?;
        arena.flush(change.offset, WORD_BYTES, site!("commit-table.activate"))?;
        arena.fence(site!("commit-table.create"))?;
        arena.settle(Outcome::Committed);
        arena.set_root(CREATION_ROOT, offset)?;
        arena.set_root(TABLE_ROOT, offset)?;
        Ok(Self { arena, offset })
    }

    /// Says that the database is complete; durable when it returns. Nothing may have been committed
    /// before.
    pub(crate) fn end_creation(&mut self) -> Result<()> {
        if self.arena.root(CREATION_ROOT) != 0 {
            self.arena.set_root(CREATION_ROOT, 0)?;
        }
        Ok(())
    }

    /// Opens the pool. It stores nothing, but makes durable the words that recovery will rely on.
    /// With [`Access::Read`] nothing is decided by them, so nothing is made durable either.
    pub(crate) fn open(
        memories: &impl MemorySource<Memory = M>,
        database_id: u128,
        access: Access,
    ) -> Result<Self> {
        let memory = memories.open(COMMIT_TABLE, access)?;
        let mut arena = match access {
            Access::Write => Arena::open(memory, Path::new(COMMIT_TABLE))?,
            Access::Read => Arena::open_read_only(memory, Path::new(COMMIT_TABLE))?,
        };
        let identity = arena.identity();
        if identity.kind != KIND || identity.pool_id != PoolId(database_id) {
            return Err(Error::NotADatabase {
                path: COMMIT_TABLE.into(),
                reason: "this file belongs to another database; bring back the one that was made \
                         with `indelible.db`"
                    .into(),
            });
        }
        arena.enter(Part::Log);
        let offset = arena.root(TABLE_ROOT);
        arena.bytes(offset, TABLE_BYTES)?;
        if access == Access::Write {
            // A number that has survived the death of a process in the cache only is not durable
            // yet. The first partition that committed by it would be alone if the power failed
            // before the others ask.
            arena.flush(offset, TABLE_BYTES, site!("commit-table.confirm"))?;
            arena.fence(site!("commit-table.confirm-fence"))?;
        }
        let mut words = Self { arena, offset };
        if access == Access::Write {
            // The descriptor is there, so the creation was cut off in its last step.
            words.end_creation()?;
        }
        Ok(words)
    }

    fn word_offset(&self, index: usize) -> u64 {
        self.offset + (index * WORD_BYTES) as u64
    }
}

/// How far the creation of the database has come, by its commit table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Creation {
    /// No whole commit table is there.
    Unknown,
    /// It was cut off, so the database holds no data.
    CutOff,
    /// It has ended, or an earlier version has begun it.
    Ended,
}

/// See [`Creation`].
pub(crate) fn creation(memories: &impl MemorySource) -> Creation {
    let memory = memories.open(COMMIT_TABLE, Access::Read);
    let arena = memory.and_then(|memory| Arena::open_read_only(memory, Path::new(COMMIT_TABLE)));
    match arena {
        Ok(arena) if arena.identity().kind == KIND => {
            if arena.root(TABLE_ROOT) == 0 || arena.root(CREATION_ROOT) != 0 {
                Creation::CutOff
            } else {
                Creation::Ended
            }
        }
        _ => Creation::Unknown,
    }
}

/// The copy of the descriptor in the commit table, if the pool is whole and has one.
pub(crate) fn descriptor_in(memories: &impl MemorySource) -> Option<Descriptor> {
    let memory = memories.open(COMMIT_TABLE, Access::Read).ok()?;
    let arena = Arena::open_read_only(memory, Path::new(COMMIT_TABLE)).ok()?;
    let identity = arena.identity();
    if identity.kind != KIND {
        return None;
    }
    Descriptor::from_words(identity.pool_id.0, identity.created_seconds, identity.user)
}

impl<M: Memory> Words for PoolWords<M> {
    fn read(&self, index: usize) -> Result<u64> {
        Ok(self.arena.word(self.word_offset(index))?)
    }

    fn write(&mut self, stores: &[(usize, u64)], step: Step) -> Result<()> {
        for &(index, value) in stores {
            let offset = self.word_offset(index);
            self.arena.store_word(offset, value)?;
            self.arena.flush(offset, WORD_BYTES, step.flush)?;
        }
        Ok(self.arena.fence(step.fence)?)
    }

    fn domain(&self) -> Domain {
        self.arena.domain()
    }

    fn counters(&self) -> Counters {
        self.arena.counters()
    }

    fn bytes(&self) -> u64 {
        self.arena.pool_bytes()
    }
}
