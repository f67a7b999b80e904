//! Many new tuples at once: blocks that lie side by side are staged in one piece.
//!
//! So a line that two blocks share is written back once and not twice, and whole lines go past the
//! cache. The bits of the blocks are set by few changes ([`Allocations`]).

use super::Tuples;
use crate::index::Allocations;
use pmem::{Arena, BLOCK_BYTES_MAX, Memory, Part, block_bytes};
use storage::Result;
use storage::log::WriteSet;
use storage::record::checksum::tuple_checksum;
use storage::record::{Row, variable};

/// Most bytes that are staged in one piece.
const PIECE_BYTES_MAX: usize = 4 << 10;

/// New blocks of one kind.
#[derive(Default)]
struct Blocks {
    /// Where the piece begins that is not staged yet.
    at: u64,
    piece: Vec<u8>,
    allocations: Allocations,
}

impl Blocks {
    /// Adds a block of `bytes`, which is reserved, with its content; the rest of it gets zeros.
    fn add<M: Memory, W: WriteSet<M>>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        (block, bytes): (u64, usize),
        content: &[u8],
    ) -> Result<()> {
        let end = self.piece.len() + bytes;
        if self.at + self.piece.len() as u64 != block || end > PIECE_BYTES_MAX {
            self.stage(arena, writes)?;
            self.at = block;
        }
        if bytes > PIECE_BYTES_MAX {
            writes.stage_final(arena, block, content)?;
        } else {
            let start = self.piece.len();
            self.piece.extend_from_slice(content);
            self.piece.resize(start + bytes, 0);
        }
        self.allocations.activate(arena, writes, block)
    }

    fn stage<M: Memory, W: WriteSet<M>>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
    ) -> Result<()> {
        if !self.piece.is_empty() {
            writes.stage_final(arena, self.at, &self.piece)?;
            self.piece.clear();
        }
        Ok(())
    }

    fn end<M: Memory, W: WriteSet<M>>(
        mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
    ) -> Result<()> {
        self.stage(arena, writes)?;
        self.allocations.end(arena, writes)
    }
}

impl Tuples {
    /// As [`Tuples::insert`] for many rows; adds their tuples to a list.
    pub(in crate::table) fn insert_many<M: Memory, W: WriteSet<M>>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        rows: &[&Row],
        tuples: &mut Vec<u64>,
    ) -> Result<()> {
        arena.enter(Part::Table);
        let (mut own, mut fields) = (Blocks::default(), Blocks::default());
        let mut image = std::mem::take(&mut self.scratch.image);
        let mut field = std::mem::take(&mut self.scratch.field);
        for row in rows {
            debug_assert!(
                row.check_complete().is_ok(),
                "a row is stored as it can be read, with all of its values"
            );
            image.clear();
            image.extend_from_slice(row.tuple_bytes());
            for outline in &self.out_of_line {
                let content = row.outline(outline.column).unwrap_or(&[]);
                let pointer = if content.is_empty() {
                    0
                } else {
                    let bytes = variable::block_bytes(content.len());
                    let block = writes.reserve(arena, bytes, self.owner)?;
                    variable::image(content, &mut field);
                    let is_small = bytes <= BLOCK_BYTES_MAX;
                    let bytes = if is_small { block_bytes(bytes) } else { bytes };
                    fields.add(arena, writes, (block, bytes), &field)?;
                    block
                };
                image[outline.offset..outline.offset + 8].copy_from_slice(&pointer.to_le_bytes());
            }
            let checksum = tuple_checksum(&image);
            image[..8].copy_from_slice(&checksum.to_le_bytes());
            let tuple = self.reserve(arena, writes)?;
            own.add(arena, writes, (tuple, self.block_bytes), &image)?;
            tuples.push(tuple);
        }
        self.scratch.image = image;
        self.scratch.field = field;
        fields.end(arena, writes)?;
        own.end(arena, writes)
    }
}
