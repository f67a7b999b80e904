//! The directory of an arena's tables: a list of *descriptors*, by which a partition describes
//! itself.
//!
//! ```text
//! descriptor  next u64 | bytes of definition u32, crc32c of definition u32 | count of roots u64
//!             | a root for the rows | root word of each secondary index ... | definition
//! ```
//!
//! The list's head is a word that a root of the arena names. Table and index numbers are never used
//! again, so a new descriptor is linked at the head and replaces an old one of the same table in
//! one step.

use crate::index::bytes_of;
use pmem::{Arena, Memory, NvPtr, Owner, Part, PmemError};
use storage::Result;
use storage::log::WriteSet;
use storage::record::TableDef;

const HEADER_WORDS: usize = 3;
/// Descriptors on a list before it is called endless.
const TABLES_MAX: u32 = 1 << 20;

/// The list of an arena's tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Directory {
    /// Offset of the word with the first descriptor; the caller has stored 0 there if there is
    /// none.
    head: u64,
    roots_counted: RootsCounted,
}

/// Roots that the count in a descriptor includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RootsCounted {
    /// That of the rows and those of the secondary indexes.
    All,
    /// Those of the secondary indexes.
    Secondary,
}

/// A descriptor to be written.
pub(crate) struct NewDescriptor<'d> {
    pub(crate) def: &'d TableDef,
    /// The next one on the list.
    pub(crate) next: u64,
    /// Roots that are known, the first ones; the others are 0.
    pub(crate) roots: &'d [u64],
    /// An old one of the same table that is longer: it is written over if there is no room for
    /// another.
    pub(crate) shorter_than: Option<u64>,
}

impl Directory {
    pub(crate) fn new(head: u64, roots_counted: RootsCounted) -> Self {
        Self {
            head,
            roots_counted,
        }
    }

    /// The first descriptor, or 0.
    pub(crate) fn first<M: Memory>(self, arena: &Arena<M>) -> Result<u64> {
        Ok(arena.word(self.head)?)
    }

    /// Visits the offset of each descriptor with its definition.
    pub(crate) fn read<M: Memory>(
        self,
        arena: &Arena<M>,
        mut visit: impl FnMut(u64, TableDef) -> Result<()>,
    ) -> Result<()> {
        let mut at = self.first(arena)?;
        for _ in 0..TABLES_MAX {
            if at == 0 {
                return Ok(());
            }
            let (next, def) = self.read_one(arena, at)?;
            visit(at, def)?;
            at = next;
        }
        Err(PmemError::corrupted("table directory", at, "it has no end").into())
    }

    fn read_one<M: Memory>(self, arena: &Arena<M>, at: u64) -> Result<(u64, TableDef)> {
        let damaged = |detail: String| PmemError::corrupted("table descriptor", at, detail);
        let &[next, sizes, counted] = arena.get(NvPtr::<[u64; HEADER_WORDS]>::new(at))?;
        let def_at = counted
            .checked_add(self.uncounted())
            .and_then(|roots| roots.checked_mul(8))
            .and_then(|bytes| bytes.checked_add(rows_root(at)));
        let image = arena.bytes(def_at.unwrap_or(u64::MAX), sizes as u32 as usize)?;
        if crc32c::crc32c(image) != (sizes >> 32) as u32 {
            return Err(damaged("wrong checksum".to_owned()).into());
        }
        let def = TableDef::decode(image).map_err(|error| damaged(error.to_string()))?;
        if counted + self.uncounted() != roots_of(&def) as u64 {
            return Err(damaged("wrong number of indexes".to_owned()).into());
        }
        Ok((next, def))
    }

    /// Writes a descriptor and returns its offset. It is not linked yet, unless it was written over
    /// an old one.
    pub(crate) fn write<M: Memory, W: WriteSet<M>>(
        self,
        arena: &mut Arena<M>,
        writes: &mut W,
        new: &NewDescriptor<'_>,
    ) -> Result<u64> {
        let image = new.def.encode();
        let roots = roots_of(new.def);
        let bytes = 8 * (HEADER_WORDS + roots) + image.len();
        assert!(
            u32::try_from(image.len()).is_ok() && new.roots.len() <= roots,
            "a definition is longer than its descriptor can say"
        );
        let owner = Owner {
            part: Part::Other,
            tag: 1,
        };
        let reserved = writes.reserve(arena, bytes.next_multiple_of(8), owner);
        let (at, is_new) = match (reserved, new.shorter_than) {
            (Err(PmemError::OutOfSpace { .. }), Some(old)) => (old, false),
            (reserved, _) => (reserved?, true),
        };
        let sizes = u64::from(crc32c::crc32c(&image)) << 32 | image.len() as u64;
        let mut descriptor = bytes_of(&[new.next, sizes, roots as u64 - self.uncounted()]);
        descriptor.extend_from_slice(&bytes_of(new.roots));
        descriptor.resize(8 * (HEADER_WORDS + roots), 0);
        descriptor.extend_from_slice(&image);
        assert_eq!(descriptor.len(), bytes, "it is as long as its block");
        if is_new {
            writes.stage(arena, at, &descriptor)?;
            let change = arena.activate(at)?;
            writes.change(arena, change)?;
        } else {
            writes.write(arena, at, &descriptor)?;
            writes.visible_all(arena)?;
        }
        Ok(at)
    }

    /// Puts a new descriptor at the head of the list.
    pub(crate) fn link<M: Memory, W: WriteSet<M>>(
        self,
        arena: &mut Arena<M>,
        writes: &mut W,
        descriptor: u64,
    ) -> Result<()> {
        assert_ne!(descriptor, 0, "an empty list takes the place of all tables");
        writes.write(arena, self.head, &descriptor.to_le_bytes())
    }

    /// Takes a descriptor off the list and frees it; `with`, the next one or a new one that names
    /// the next one, takes its place.
    pub(crate) fn replace<M: Memory, W: WriteSet<M>>(
        self,
        arena: &mut Arena<M>,
        writes: &mut W,
        descriptor: u64,
        with: u64,
    ) -> Result<()> {
        assert_ne!(descriptor, with, "a descriptor does not replace itself");
        let link = self.link_to(arena, descriptor)?;
        writes.write(arena, link, &with.to_le_bytes())?;
        let change = arena.free(descriptor)?;
        writes.change(arena, change)
    }

    /// The word that points to a descriptor.
    fn link_to<M: Memory>(self, arena: &Arena<M>, descriptor: u64) -> Result<u64> {
        let mut link = self.head;
        for _ in 0..TABLES_MAX {
            match arena.word(link)? {
                found if found == descriptor => return Ok(link),
                0 => break,
                next => link = next,
            }
        }
        Err(PmemError::corrupted("table directory", descriptor, "the table is not on it").into())
    }

    fn uncounted(self) -> u64 {
        u64::from(self.roots_counted == RootsCounted::Secondary)
    }
}

/// The descriptor after this one, or 0.
pub(crate) fn next<M: Memory>(arena: &Arena<M>, descriptor: u64) -> Result<u64> {
    Ok(arena.word(descriptor)?)
}

/// The word of a descriptor with the root of the rows.
pub(crate) fn rows_root(descriptor: u64) -> u64 {
    descriptor + 8 * HEADER_WORDS as u64
}

/// The word of a descriptor with the root of the secondary index in this place.
pub(crate) fn index_root(descriptor: u64, number: usize) -> u64 {
    rows_root(descriptor) + 8 * (number as u64 + 1)
}

fn roots_of(def: &TableDef) -> usize {
    def.indexes.len() + 1
}
