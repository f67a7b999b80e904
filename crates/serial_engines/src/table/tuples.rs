//! Tuples in fixed-size slots, and the blocks of their long fields.
//!
//! A tuple is one block in its table's layout; an out-of-line column is an 8-byte pointer to a
//! block with the field's header and bytes (`record::variable`). The tuple's first word is a linear
//! checksum over the other words, which an update adjusts by the words that it changes. An update
//! of an out-of-line column writes a new block and swings the pointer, or writes over the block
//! where the write set prefers that and the new content takes a block of the same size.

mod copies;
mod many;
mod views;

use pmem::{Arena, ClassId, Memory, NvPtr, Owner, Part, PmemError, block_bytes};
use std::ops::Range;
use std::sync::Arc;
use storage::Result;
use storage::log::WriteSet;
use storage::record::checksum::{delta, tuple_checksum, tuple_is_intact};
use storage::record::variable::{self, HEADER_BYTES};
use storage::record::{Changes, KeyBuf, KeyEncoder, Patch, Row, TupleLayout};

/// Blocks of fields up to this size are written over: beyond it, bytes that are written twice cost
/// more than a new block.
const OVERWRITE_BYTES_MAX: usize = 512;

/// Reads and writes the tuples of one table.
pub(super) struct Tuples {
    layout: Arc<TupleLayout>,
    out_of_line: Vec<OutOfLine>,
    /// Offset in the tuple of the primary key, where that is one int64.
    key_at: Option<u64>,
    class: Option<ClassId>,
    block_bytes: usize,
    owner: Owner,
    scratch: Scratch,
}

/// A column whose content lies in a block of its own, and the offset of its word in the tuple.
#[derive(Clone, Copy)]
struct OutOfLine {
    column: usize,
    offset: usize,
    content_bytes_max: usize,
}

impl OutOfLine {
    /// The tuple's pointer to the block, or 0.
    #[inline]
    fn pointer<M: Memory>(&self, arena: &Arena<M>, tuple: u64) -> Result<u64> {
        Ok(arena.word(place_in(tuple, self.offset)?)?)
    }

    /// The header and the content of the column's block.
    #[inline]
    fn read<'a, M: Memory>(
        &self,
        arena: &'a Arena<M>,
        block: u64,
    ) -> Result<([u8; HEADER_BYTES], &'a [u8])> {
        let header = *arena.get(NvPtr::<[u8; HEADER_BYTES]>::new(block))?;
        let bytes = variable::content_bytes(header);
        // Many columns could share one damaged block, and the row would hold it once for each.
        if bytes > self.content_bytes_max {
            let detail = format!(
                "{bytes} bytes, but the column has {}",
                self.content_bytes_max
            );
            return Err(PmemError::corrupted("field", block, detail).into());
        }
        let content = arena.bytes(block + HEADER_BYTES as u64, bytes)?;
        Ok((header, content))
    }
}

/// Buffers that live between operations, so that these do not allocate.
#[derive(Default)]
struct Scratch {
    image: Vec<u8>,
    field: Vec<u8>,
    spans: Vec<Range<usize>>,
    pointers: Vec<(usize, u64)>,
}

impl Tuples {
    pub(super) fn new(layout: Arc<TupleLayout>, primary: &KeyEncoder, tag: u16) -> Self {
        let outline = |&column: &usize| {
            layout.outline_offset(column).map(|offset| OutOfLine {
                column,
                offset,
                content_bytes_max: layout.fields()[column].data_type.bytes_max() as usize,
            })
        };
        let out_of_line: Vec<_> = layout.out_of_line().iter().filter_map(outline).collect();
        assert_eq!(
            out_of_line.len(),
            layout.out_of_line().len(),
            "each column out of line has a word in the tuple"
        );
        // Whole lines let a new tuple be streamed past the cache; below 512 bytes that would waste
        // too much space.
        let bytes = layout.tuple_bytes();
        let block_bytes = if bytes >= 512 {
            bytes.next_multiple_of(64)
        } else {
            bytes
        };
        assert!(
            bytes.is_multiple_of(8) && block_bytes >= bytes,
            "a tuple consists of words, and its block has room for it"
        );
        let owner = Owner {
            part: Part::Table,
            tag,
        };
        let key_at = primary.single_int64().map(|column| {
            let place = layout.fields()[column].place;
            u64::from(place.offset())
        });
        Self {
            layout,
            out_of_line,
            key_at,
            class: None,
            block_bytes,
            owner,
            scratch: Scratch::default(),
        }
    }

    /// Bytes of the block that a tuple takes.
    pub(super) fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Bytes of a tuple, its long fields apart.
    pub(super) fn bytes(&self) -> usize {
        self.layout.tuple_bytes()
    }

    /// Asks for a tuple's lines ahead of their use.
    #[inline]
    pub(super) fn prefetch<M: Memory>(&self, arena: &Arena<M>, tuple: u64) {
        arena.prefetch(tuple, self.layout.tuple_bytes());
    }

    /// Copies a tuple and its out-of-line fields into `row`.
    #[inline]
    pub(super) fn read<M: Memory>(
        &self,
        arena: &Arena<M>,
        tuple: u64,
        row: &mut Row,
    ) -> Result<()> {
        arena.enter(Part::Table);
        let bytes = arena.bytes(tuple, self.layout.tuple_bytes())?;
        row.begin_fill().copy_from_slice(bytes);
        if self.out_of_line.is_empty() {
            Ok(())
        } else {
            self.read_outlines(arena, tuple, row)
        }
    }

    fn read_outlines<M: Memory>(&self, arena: &Arena<M>, tuple: u64, row: &mut Row) -> Result<()> {
        for outline in &self.out_of_line {
            let pointer = row.outline_word(outline.column).unwrap_or(0);
            if pointer != 0 {
                // The block's length is not known yet; two lines hold most fields.
                arena.prefetch(pointer, 128);
            }
        }
        for outline in &self.out_of_line {
            let pointer = outline.pointer(arena, tuple)?;
            if pointer != 0 {
                row.set_outline(outline.column, outline.read(arena, pointer)?.1)?;
            }
        }
        Ok(())
    }

    /// Whether the tuple has this primary key; false where that cannot be read.
    #[inline]
    pub(super) fn has_key<M: Memory>(
        &self,
        arena: &Arena<M>,
        tuple: u64,
        encoder: &KeyEncoder,
        key: &[u64],
    ) -> bool {
        arena.enter(Part::Table);
        if let (Some(offset), &[word]) = (self.key_at, key) {
            let stored = arena.word(tuple.wrapping_add(offset));
            return stored.is_ok_and(|stored| KeyEncoder::int64_word(stored.cast_signed()) == word);
        }
        let Ok(bytes) = arena.bytes(tuple, self.layout.tuple_bytes()) else {
            return false;
        };
        let content = |outline: &OutOfLine, block| Some(outline.read(arena, block).ok()?.1);
        let value = |column| {
            self.layout.value(bytes, column, |block| {
                let mut outlines = self.out_of_line.iter();
                let outline = outlines.find(|outline| outline.column == column)?;
                content(outline, block)
            })
        };
        let mut found = KeyBuf::new();
        encoder.encode_with(value, &mut found).is_ok() && *found == *key
    }

    /// Stages a new tuple with its fields and activates its blocks; nothing points to it yet.
    pub(super) fn insert<M: Memory, W: WriteSet<M>>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        row: &Row,
    ) -> Result<u64> {
        arena.enter(Part::Table);
        debug_assert!(
            row.check_complete().is_ok(),
            "a row is stored as it can be read, with all of its values"
        );
        let mut image = std::mem::take(&mut self.scratch.image);
        let mut field = std::mem::take(&mut self.scratch.field);
        image.clear();
        image.extend_from_slice(row.tuple_bytes());
        for outline in &self.out_of_line {
            let content = row.outline(outline.column).unwrap_or(&[]);
            let pointer = self.write_field(arena, writes, content, &mut field)?;
            image[outline.offset..outline.offset + 8].copy_from_slice(&pointer.to_le_bytes());
        }
        let checksum = tuple_checksum(&image);
        image[..8].copy_from_slice(&checksum.to_le_bytes());
        let tuple = self.stage_tuple(arena, writes, &mut image)?;
        self.scratch.image = image;
        self.scratch.field = field;
        Ok(tuple)
    }

    /// Reserves the block of a tuple.
    #[inline]
    fn reserve<M: Memory, W: WriteSet<M>>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
    ) -> Result<u64> {
        match self.class {
            Some(class) => Ok(writes.reserve_class(arena, class)?),
            None => self.reserve_first(arena, writes),
        }
    }

    #[cold]
    fn reserve_first<M: Memory, W: WriteSet<M>>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
    ) -> Result<u64> {
        if self.block_bytes <= pmem::BLOCK_BYTES_MAX {
            self.class = Some(arena.class(self.block_bytes, self.owner)?);
        }
        Ok(writes.reserve(arena, self.block_bytes, self.owner)?)
    }

    /// Changes columns of a tuple.
    pub(super) fn update<M: Memory, W: WriteSet<M>>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        tuple: u64,
        changes: &Changes,
    ) -> Result<()> {
        writes.begin_step();
        arena.enter(Part::Table);
        debug_assert!(
            !writes.is_touched(tuple),
            "a change is computed from bytes that are not in place"
        );
        let mut scratch = std::mem::take(&mut self.scratch);
        changes.spans(&mut scratch.spans);
        // The header line and the lines of the fields are prefetched together: one miss instead of
        // two.
        arena.prefetch(tuple, 8);
        for span in &scratch.spans {
            arena.prefetch(tuple.wrapping_add(span.start as u64), span.len());
        }
        scratch.pointers.clear();
        if !self.out_of_line.is_empty() {
            self.change_fields(arena, writes, tuple, changes, &mut scratch)?;
        }
        let before = arena.word(tuple)?;
        let mut checksum = before;
        for span in &scratch.spans {
            debug_assert!(
                8 <= span.start && span.end <= self.layout.tuple_bytes(),
                "a change is outside the columns of its tuple"
            );
            let at = place_in(tuple, span.start)?;
            let old = arena.bytes(at, span.len())?;
            scratch.image.clear();
            scratch.image.extend_from_slice(old);
            changes.overlay(span.start, &mut scratch.image, |column| {
                let new = scratch
                    .pointers
                    .iter()
                    .find(|(changed, _)| *changed == column);
                new.map_or(0, |&(_, pointer)| pointer)
            });
            debug_assert_eq!(
                scratch.image.len(),
                span.len(),
                "a change alters the length of its columns"
            );
            if scratch.image == old {
                continue;
            }
            checksum = checksum.wrapping_add(delta(old, &scratch.image, span.start));
            writes.write(arena, at, &scratch.image)?;
        }
        if checksum != before {
            writes.write(arena, tuple, &checksum.to_le_bytes())?;
        }
        self.scratch = scratch;
        Ok(())
    }

    /// Writes changed out-of-line columns, over their blocks or into new ones; `scratch.pointers`
    /// gets each column's block.
    fn change_fields<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
        tuple: u64,
        changes: &Changes,
        scratch: &mut Scratch,
    ) -> Result<()> {
        for patch in changes.patches() {
            if let Patch::OutOfLine { offset, .. } = patch {
                // The block's length is not known yet; two lines hold most fields.
                arena.prefetch(arena.word(place_in(tuple, offset)?)?, 128);
            }
        }
        for patch in changes.patches() {
            let Patch::OutOfLine {
                column,
                offset,
                content,
            } = patch
            else {
                continue;
            };
            let old = arena.word(place_in(tuple, offset)?)?;
            let block = if Self::may_overwrite(arena, writes, old, content)? {
                variable::image(content, &mut scratch.image);
                debug_assert!(
                    scratch.image.len() <= OVERWRITE_BYTES_MAX,
                    "a long field is written over"
                );
                writes.write(arena, old, &scratch.image)?;
                old
            } else {
                let block = self.write_field(arena, writes, content, &mut scratch.image)?;
                Self::free_field(arena, writes, tuple, offset)?;
                block
            };
            scratch.pointers.push((column, block));
        }
        Ok(())
    }

    /// Whether new content goes over the old one at `block`. The old one must be sound: a damaged
    /// length could call for a place that the block does not have.
    fn may_overwrite<M: Memory, W: WriteSet<M>>(
        arena: &mut Arena<M>,
        writes: &W,
        block: u64,
        content: &[u8],
    ) -> Result<bool> {
        let bytes = variable::block_bytes(content.len());
        if block == 0
            || content.is_empty()
            || bytes > OVERWRITE_BYTES_MAX
            || !writes.overwrites(bytes)
        {
            return Ok(false);
        }
        Ok(arena.taken_bytes(block)? == Some(block_bytes(bytes)))
    }

    /// Frees a tuple and its fields.
    pub(super) fn free<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
        tuple: u64,
    ) -> Result<()> {
        arena.enter(Part::Table);
        debug_assert!(
            !writes.is_touched(tuple),
            "fields are freed by pointers that are not in place"
        );
        for outline in &self.out_of_line {
            Self::free_field(arena, writes, tuple, outline.offset)?;
        }
        let change = arena.free(tuple)?;
        writes.change(arena, change)
    }

    fn free_field<M: Memory, W: WriteSet<M>>(
        arena: &mut Arena<M>,
        writes: &mut W,
        tuple: u64,
        offset: usize,
    ) -> Result<()> {
        let pointer = arena.word(place_in(tuple, offset)?)?;
        if pointer != 0 {
            let change = arena.free(pointer)?;
            writes.change(arena, change)?;
        }
        Ok(())
    }

    /// Checks a tuple's checksums and copies it into `row`; `block` is called for each block in
    /// use.
    pub(super) fn check<M: Memory>(
        &self,
        arena: &Arena<M>,
        tuple: u64,
        row: &mut Row,
        block: &mut dyn FnMut(u64),
    ) -> Result<()> {
        arena.enter(Part::Table);
        block(tuple);
        if !tuple_is_intact(arena.bytes(tuple, self.layout.tuple_bytes())?) {
            return Err(PmemError::corrupted("tuple", tuple, "wrong checksum").into());
        }
        for outline in &self.out_of_line {
            let pointer = outline.pointer(arena, tuple)?;
            if pointer != 0 {
                block(pointer);
                let (header, content) = outline.read(arena, pointer)?;
                if !variable::is_intact(header, content) {
                    return Err(PmemError::corrupted("field", pointer, "wrong checksum").into());
                }
            }
        }
        self.read(arena, tuple, row)?;
        Ok(row.check_values()?)
    }

    /// Stages a block for the content of an out-of-line field; empty content has none.
    fn write_field<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
        content: &[u8],
        image: &mut Vec<u8>,
    ) -> Result<u64> {
        if content.is_empty() {
            return Ok(0);
        }
        let bytes = variable::block_bytes(content.len());
        let block = writes.reserve(arena, bytes, self.owner)?;
        variable::image(content, image);
        debug_assert!(image.len() <= bytes, "a field is longer than its block");
        writes.stage_final(arena, block, image)?;
        let change = arena.activate(block)?;
        writes.change(arena, change)?;
        Ok(block)
    }
}

/// Location of a field. A damaged index can name any tuple.
#[inline]
fn place_in(tuple: u64, offset: usize) -> Result<u64> {
    match tuple.checked_add(offset as u64) {
        Some(place) => Ok(place),
        None => Err(PmemError::corrupted("tuple", tuple, "it ends behind the last address").into()),
    }
}
