//! Tuples that are never changed: an update makes a copy.
//!
//! The copy has new blocks for the changed long fields and shares the others with the old tuple,
//! whose own block and replaced fields are freed. An older snapshot keeps them from being used
//! again as long as it is held.

use super::{Tuples, place_in};
use pmem::{Arena, Memory, Part};
use storage::Result;
use storage::log::WriteSet;
use storage::record::checksum::{tuple_checksum, tuple_is_intact};
use storage::record::{Changes, Patch};

impl Tuples {
    /// Stages a copy of a tuple with changed columns, and frees the blocks that the copy does not
    /// share. Returns the copy.
    pub(in crate::table) fn replace<M: Memory, W: WriteSet<M>>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        tuple: u64,
        changes: &Changes,
    ) -> Result<u64> {
        arena.enter(Part::Table);
        let mut image = std::mem::take(&mut self.scratch.image);
        let mut field = std::mem::take(&mut self.scratch.field);
        let mut pointers = std::mem::take(&mut self.scratch.pointers);
        image.clear();
        image.extend_from_slice(arena.bytes(tuple, self.layout.tuple_bytes())?);
        pointers.clear();
        for patch in changes.patches() {
            if let Patch::OutOfLine {
                column,
                offset,
                content,
            } = patch
            {
                let block = self.write_field(arena, writes, content, &mut field)?;
                pointers.push((column, block));
                Self::free_field(arena, writes, tuple, offset)?;
            }
        }
        debug_assert!(
            pointers.len() <= self.out_of_line.len(),
            "more fields are changed than are out of line"
        );
        changes.overlay(0, &mut image, |column| {
            let new = pointers.iter().find(|(changed, _)| *changed == column);
            new.map_or(0, |&(_, pointer)| pointer)
        });
        let checksum = tuple_checksum(&image);
        image[..8].copy_from_slice(&checksum.to_le_bytes());
        let change = arena.free(place_in(tuple, 0)?)?;
        writes.change(arena, change)?;
        let copy = self.stage_tuple(arena, writes, &mut image)?;
        self.scratch.image = image;
        self.scratch.field = field;
        self.scratch.pointers = pointers;
        Ok(copy)
    }

    /// Stages a tuple whose bytes are ready and activates its block.
    pub(super) fn stage_tuple<M: Memory, W: WriteSet<M>>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        image: &mut Vec<u8>,
    ) -> Result<u64> {
        debug_assert!(
            image.len() == self.layout.tuple_bytes() && tuple_is_intact(image),
            "a tuple is staged that is not whole"
        );
        image.resize(self.block_bytes, 0);
        let tuple = self.reserve(arena, writes)?;
        writes.stage_final(arena, tuple, image)?;
        let change = arena.activate(tuple)?;
        writes.change(arena, change)?;
        Ok(tuple)
    }
}
