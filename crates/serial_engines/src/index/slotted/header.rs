//! The header of a slotted page.
//!
//! ```text
//! page    [line 0 of place 0][line 0 of place 1][line 1 of place 0][line 1 of place 1] …
//!         free room … [cells]
//! line 0  level u8 | cells u8 | lowest unit of a cell u8 | magic u8 | slot u8 [52] | word
//! line n  slot u8 [64]
//! word    from low to high: crc32c of the header's bytes in use u32 | check of the sequence u8
//!         | sequence u24
//! ```
//!
//! A slot is where a cell begins, in units of the page's size / 255 rounded up to a power of two, 8
//! at least. Two places alternate: the header with sequence number `n` is in place `n % 2`, and the
//! sequence numbers in a page's two words always differ by one, the greater being in force. The
//! word of a place is stored last. A header of one line counts with that store alone: stores to a
//! line become durable in their order. For a longer one, a record of the log has the header as
//! well.
//!
//! A word is never torn, so one whose own check fails is damaged; and once recovery is through, so
//! is a header in force whose checksum does not fit. Neither ever lets the older header count
//! again.
//!
//! Where the platform promises that 64 bytes survive whole, a header of one line is stored in one
//! transfer. Its bytes are the same as if it were stored word by word, so each kind of machine can
//! use the pages of the other.

use pmem::{Arena, Memory, PmemError, site};
use std::ops::Range;
use storage::Result;

/// Bytes of a cache line.
pub(super) const LINE: usize = 64;
/// Bytes of the first line before its slots.
const FIELDS: usize = 4;
/// Bytes of a splice before its slots.
const SPLICE_FIELDS: usize = 3;
/// Offset of the word in the first line.
const WORD_AT: usize = 56;
/// Slots of the first line.
pub(super) const FIRST_SLOTS: usize = WORD_AT - FIELDS;
/// Slots of all lines that a header may have.
pub(super) const SLOTS_MAX: usize = FIRST_SLOTS + (LINES_MAX - 1) * LINE;
/// Lines of the longest header.
pub(super) const LINES_MAX: usize = 4;
/// Levels of a tree; no page has entries for more.
pub(super) const LEVELS_MAX: usize = 24;
const MAGIC: u8 = 0x5d;
const SEQUENCE_BITS: u32 = 24;
const SEQUENCE_MASK: u32 = (1 << SEQUENCE_BITS) - 1;

/// Bytes at their offsets in the pool, in the pool or in a copy of a page.
pub(super) trait PageBytes {
    /// `bytes` bytes at `at`.
    fn bytes(&self, at: u64, bytes: usize) -> Result<&[u8]>;

    /// The word at `at`.
    fn word(&self, at: u64) -> Result<u64>;
}

impl<M: Memory> PageBytes for Arena<M> {
    #[inline]
    fn bytes(&self, at: u64, bytes: usize) -> Result<&[u8]> {
        Ok(self.bytes(at, bytes)?)
    }

    #[inline]
    fn word(&self, at: u64) -> Result<u64> {
        Ok(self.word(at)?)
    }
}

/// Division of pages of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a page.
    pub(super) page_bytes: usize,
    /// Bytes of a unit.
    pub(super) unit: usize,
    /// Units of a page.
    pub(super) units: usize,
    /// Most cells of a page.
    pub(super) cells_max: usize,
}

/// Most units of a page: an empty page's header has their number in one byte.
const UNITS_MAX: usize = u8::MAX as usize;

impl Geometry {
    /// Pages of `page_bytes` with at most `cells_max` cells, three at least.
    pub fn new(page_bytes: usize, cells_max: usize) -> Self {
        let unit = page_bytes.div_ceil(UNITS_MAX).next_power_of_two().max(8);
        Self {
            page_bytes,
            unit,
            units: page_bytes / unit,
            cells_max: cells_max.clamp(3, SLOTS_MAX),
        }
    }

    /// Cells of a page whose header is one line.
    pub fn cells_of_a_line() -> usize {
        FIRST_SLOTS
    }

    /// Units from the beginning of a page that headers of `lines` take, in both places.
    pub(super) fn head_units(self, lines: usize) -> usize {
        (2 * LINE * lines).div_ceil(self.unit)
    }

    /// Units for cells, next to a header of one line.
    pub(super) fn capacity(self) -> usize {
        self.units - self.head_units(1)
    }

    /// Most units of one cell: four of them always fit.
    pub(super) fn cell_units_max(self) -> usize {
        self.capacity() / 4
    }
}

/// Room for [`Header::image`] and [`Header::splice`].
pub(super) type Image = [u8; FIELDS + SLOTS_MAX];

/// An [`Image`] with nothing in it.
pub(super) const NO_IMAGE: Image = [0; FIELDS + SLOTS_MAX];

/// Decoded header.
#[derive(Clone, Copy)]
pub(super) struct Header {
    /// Number of the header in its page, of 24 bits.
    pub(super) sequence: u32,
    /// Fields and slots as a page has them, so that storing them copies them once. Bytes after the
    /// slots in use have no meaning.
    image: Image,
}

impl Header {
    pub(super) fn new(level: u8, geometry: Geometry) -> Self {
        let mut header = Self::nothing();
        header.image[..FIELDS].copy_from_slice(&[level, 0, geometry.units as u8, MAGIC]);
        header
    }

    /// A header to be read into.
    pub(super) fn nothing() -> Self {
        Self {
            sequence: 0,
            image: NO_IMAGE,
        }
    }

    /// 0 for a leaf.
    pub(super) fn level(&self) -> u8 {
        self.image[0]
    }

    pub(super) fn count(&self) -> usize {
        usize::from(self.image[1])
    }

    /// The lowest unit that a cell ever had; the number of units in an empty page.
    pub(super) fn start(&self) -> usize {
        usize::from(self.image[2])
    }

    /// Slots in use.
    pub(super) fn used(&self) -> &[u8] {
        &self.image[FIELDS..FIELDS + self.count()]
    }

    /// Puts a slot in at `index`.
    pub(super) fn insert(&mut self, index: usize, slot: u8) {
        let (at, end) = (FIELDS + index, FIELDS + self.count());
        self.image.copy_within(at..end, at + 1);
        self.image[at] = slot;
        self.image[1] += 1;
        self.image[2] = self.image[2].min(slot);
    }

    /// Puts a slot in the place of the one at `index`.
    pub(super) fn replace(&mut self, index: usize, slot: u8) {
        self.image[FIELDS + index] = slot;
        self.image[2] = self.image[2].min(slot);
    }

    /// Takes the slot at `index` out.
    pub(super) fn remove(&mut self, index: usize) {
        let (at, end) = (FIELDS + index, FIELDS + self.count());
        self.image.copy_within(at + 1..end, at);
        self.image[1] -= 1;
    }

    /// Keeps the slots of a range only.
    pub(super) fn keep(&mut self, range: Range<usize>) {
        self.image[1] = range.len() as u8;
        self.image
            .copy_within(FIELDS + range.start..FIELDS + range.end, FIELDS);
    }

    /// Writes to `splice` the difference to the header in force, which has the same level: the
    /// numbers of slots that are kept at its beginning and at its end, the lowest unit, and the
    /// slots between. Returns its length in bytes.
    pub(super) fn splice(&self, in_force: &Self, splice: &mut Image) -> usize {
        let (old, new) = (in_force.used(), self.used());
        let leading = leading_in_common(old, new);
        let (old, new) = (&old[leading..], &new[leading..]);
        let trailing = trailing_in_common(old, new);
        let between = &new[..new.len() - trailing];
        let bytes = SPLICE_FIELDS + between.len();
        let fields = [leading as u8, trailing as u8, self.image[2]];
        splice[..SPLICE_FIELDS].copy_from_slice(&fields);
        splice[SPLICE_FIELDS..bytes].copy_from_slice(between);
        bytes
    }

    /// The header with the next number that a splice makes of this one; `None` if it does not fit
    /// this one, or makes no header of it.
    pub(super) fn spliced(&self, splice: &[u8], geometry: Geometry) -> Option<Self> {
        let (&[leading, trailing, start], between) = splice.split_first_chunk()?;
        let old = self.used();
        let first = old.get(..usize::from(leading))?;
        let last = old.get(old.len().checked_sub(usize::from(trailing))?..)?;
        let is_kept_twice = first.len() + last.len() > old.len();
        let slots = [first, between, last].concat();
        let count = u8::try_from(slots.len()).ok()?;
        let mut header = Self::nothing();
        header.sequence = after(self.sequence);
        header.image[..FIELDS].copy_from_slice(&[self.level(), count, start, MAGIC]);
        let own = header.image[FIELDS..].get_mut(..slots.len())?;
        own.copy_from_slice(&slots);
        (!is_kept_twice && header.has_sound_fields(geometry) && header.names_only_cells(geometry))
            .then_some(header)
    }

    fn has_sound_fields(&self, geometry: Geometry) -> bool {
        self.count() <= SLOTS_MAX && self.start() <= geometry.units
    }

    fn names_only_cells(&self, geometry: Geometry) -> bool {
        let highest = self
            .used()
            .iter()
            .fold(0, |highest, &slot| slot.max(highest));
        usize::from(highest) < geometry.units
    }

    /// Bytes for a log or a page: the fields and the slots in use.
    pub(super) fn image(&self) -> &[u8] {
        &self.image[..FIELDS + self.count()]
    }
}

/// Length of the common prefix of two slices in bytes; compares eight at once.
fn leading_in_common(one: &[u8], other: &[u8]) -> usize {
    let pairs = one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0);
    let bytes = 8 * pairs.take_while(|(one, other)| one == other).count();
    let pairs = one[bytes..].iter().zip(&other[bytes..]);
    bytes + pairs.take_while(|(one, other)| one == other).count()
}

/// Length of the common suffix of two slices in bytes.
fn trailing_in_common(one: &[u8], other: &[u8]) -> usize {
    let ends = (one.as_rchunks::<8>().1, other.as_rchunks::<8>().1);
    let pairs = ends.0.iter().rev().zip(ends.1.iter().rev());
    let bytes = 8 * pairs.take_while(|(one, other)| one == other).count();
    let (one, other) = (&one[..one.len() - bytes], &other[..other.len() - bytes]);
    let pairs = one.iter().rev().zip(other.iter().rev());
    bytes + pairs.take_while(|(one, other)| one == other).count()
}

/// Lines of a header with `count` slots.
pub(super) fn lines_of(count: usize) -> usize {
    1 + count.saturating_sub(FIRST_SLOTS).div_ceil(LINE)
}

/// The next number after a sequence number.
pub(super) fn after(sequence: u32) -> u32 {
    sequence.wrapping_add(1) & SEQUENCE_MASK
}

/// The number before a sequence number.
pub(super) fn before(sequence: u32) -> u32 {
    sequence.wrapping_sub(1) & SEQUENCE_MASK
}

/// Whether `sequence` is `other` or one of the numbers that follow it.
pub(super) fn is_at_least(sequence: u32, other: u32) -> bool {
    sequence.wrapping_sub(other) & SEQUENCE_MASK <= SEQUENCE_MASK / 2
}

/// The place of the header with this number.
pub(super) fn place_of(sequence: u32) -> usize {
    (sequence & 1) as usize
}

/// Offset in its page of line `line` of a place.
pub(super) fn line_at(place: usize, line: usize) -> usize {
    (2 * line + place) * LINE
}

/// The place and the lines of a header in `new`, a page, that differs from the one in `old`.
pub(super) fn changed_header(old: &[u8], new: &[u8]) -> Option<(usize, usize)> {
    (0..2).find_map(|place| {
        let at = line_at(place, 0);
        let (before, after) = (old.get(at..at + LINE)?, new.get(at..at + LINE)?);
        let is_header = after[3] == MAGIC && before != after;
        let lines = lines_of(after[1].into()).min(LINES_MAX);
        is_header.then_some((place, lines))
    })
}

/// Checks of the headers of one partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seal {
    pub(super) salt: u32,
    /// Distance of the page, in a frame, from its place.
    moved: u64,
}

impl Seal {
    pub(super) fn new(salt: u32) -> Self {
        Self { salt, moved: 0 }
    }

    /// The checks of a page that lies at `base`.
    pub(super) fn at(self, page: u64, base: u64) -> Self {
        let moved = base.wrapping_sub(page);
        Self { moved, ..self }
    }

    /// The place of the page that lies at `base`.
    fn page(self, base: u64) -> u64 {
        base.wrapping_sub(self.moved)
    }

    /// The word that ends a header of page `page`, whose bytes in use are `image`.
    pub(super) fn word(self, page: u64, sequence: u32, image: &[u8]) -> u64 {
        let sum = crc32c::crc32c_append(self.salt ^ sequence, image) ^ fold(self.page(page));
        let number = sequence << 8 | u32::from(self.check(page, sequence));
        u64::from(number) << 32 | u64::from(sum)
    }

    /// The sequence number that a word has, if its check fits.
    pub(super) fn sequence(self, page: u64, word: u64) -> Option<u32> {
        let number = (word >> 32) as u32;
        let sequence = number >> 8;
        (number as u8 == self.check(page, sequence)).then_some(sequence)
    }

    /// A byte of which exactly one bit changes with each bit of the sequence number.
    fn check(self, page: u64, sequence: u32) -> u8 {
        let place = (self.page(page) ^ u64::from(self.salt)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let [first, second, third, _] = sequence.to_le_bytes();
        (place >> 56) as u8 ^ first ^ second.rotate_left(3) ^ third.rotate_left(5)
    }
}

fn fold(page: u64) -> u32 {
    (page >> 6) as u32 ^ (page >> 38) as u32
}

pub(super) fn damaged(page: u64, text: &str) -> storage::StorageError {
    PmemError::corrupted("slotted page", page, text).into()
}

/// Stores a header's bytes and then its word into a page; nothing is flushed.
pub(super) fn store<M: Memory>(
    arena: &mut Arena<M>,
    seal: Seal,
    page: u64,
    sequence: u32,
    image: &[u8],
) -> Result<()> {
    let place = place_of(sequence);
    let (first, rest) = image.split_at(image.len().min(WORD_AT));
    for (number, slots) in rest.chunks(LINE).enumerate() {
        arena.store(page + line_at(place, number + 1) as u64, slots)?;
    }
    let line = page + line_at(place, 0) as u64;
    arena.store(line, first)?;
    let word = seal.word(page, sequence, image);
    Ok(arena.store_word(line + WORD_AT as u64, word)?)
}

/// As [`store`] for a header of one line, in one transfer around the cache: after the next fence it
/// is durable.
pub(super) fn store_at_once<M: Memory>(
    arena: &mut Arena<M>,
    seal: Seal,
    page: u64,
    sequence: u32,
    image: &[u8],
) -> Result<()> {
    let mut line = [0; LINE];
    line[..image.len()].copy_from_slice(image);
    let word = seal.word(page, sequence, image);
    line[WORD_AT..].copy_from_slice(&word.to_le_bytes());
    let at = page + line_at(place_of(sequence), 0) as u64;
    Ok(arena.store_line(at, &line, site!("fast.whole-line"))?)
}

/// The word of a place.
pub(super) fn word(pages: &impl PageBytes, page: u64, place: usize) -> Result<u64> {
    pages.word(page + (line_at(place, 0) + WORD_AT) as u64)
}

/// Stores the word of a place alone.
pub(super) fn store_word<M: Memory>(
    arena: &mut Arena<M>,
    page: u64,
    place: usize,
    word: u64,
) -> Result<u64> {
    let at = page + (line_at(place, 0) + WORD_AT) as u64;
    arena.store_word(at, word)?;
    Ok(at)
}

/// The number of the header in force: both words have to be sound, and next to each other.
pub(super) fn sequence_in_force(pages: &impl PageBytes, seal: Seal, page: u64) -> Result<u32> {
    let numbers = [0, 1].map(|place| {
        let word = word(pages, page, place).ok()?;
        let sequence = seal.sequence(page, word)?;
        (place_of(sequence) == place).then_some(sequence)
    });
    match numbers {
        [Some(first), Some(second)] if after(first) == second => Ok(second),
        [Some(first), Some(second)] if after(second) == first => Ok(first),
        _ => Err(damaged(
            seal.page(page),
            "the words of its headers do not fit",
        )),
    }
}

/// Reads the header with this number, whose checksum has to fit if `is_checked`.
pub(super) fn read(
    pages: &impl PageBytes,
    seal: Seal,
    geometry: Geometry,
    page: u64,
    sequence: u32,
    is_checked: bool,
) -> Result<Header> {
    let mut header = Header::nothing();
    read_into(&mut header, pages, (seal, geometry), page, sequence)?;
    if is_checked {
        let expected = seal.word(page, sequence, header.image());
        if expected != word(pages, page, place_of(sequence))? {
            let text = "the checksum of its header does not fit";
            return Err(damaged(seal.page(page), text));
        }
    }
    Ok(header)
}

/// As [`read`], without the checksum, into a header that is somewhere already.
pub(super) fn read_into(
    header: &mut Header,
    pages: &impl PageBytes,
    (seal, geometry): (Seal, Geometry),
    page: u64,
    sequence: u32,
) -> Result<()> {
    let place = place_of(sequence);
    let (first, rest) = header.image.split_at_mut(WORD_AT);
    let line = pages.bytes(page + line_at(place, 0) as u64, LINE)?;
    first.copy_from_slice(&line[..WORD_AT]);
    let more = usize::from(first[1]).saturating_sub(FIRST_SLOTS);
    if first[3] != MAGIC || more > rest.len() || usize::from(first[2]) > geometry.units {
        let text = "its header has fields that no header has";
        return Err(damaged(seal.page(page), text));
    }
    for (number, part) in rest[..more].chunks_mut(LINE).enumerate() {
        let at = page + line_at(place, number + 1) as u64;
        part.copy_from_slice(pages.bytes(at, part.len())?);
    }
    header.sequence = sequence;
    if !header.names_only_cells(geometry) {
        let text = "its header names a cell outside of it";
        return Err(damaged(seal.page(page), text));
    }
    Ok(())
}

/// Whether bytes are what [`Header::image`] makes.
pub(super) fn is_image(image: &[u8]) -> bool {
    image.len() >= FIELDS
        && image[3] == MAGIC
        && image.len() == FIELDS + usize::from(image[1])
        && image.len() <= FIELDS + SLOTS_MAX
}

/// Level and number of cells from the first line of a header.
#[inline]
pub(super) fn level_and_count(line: &[u8], page: u64) -> Result<(u8, usize)> {
    match line {
        &[level, count, _, MAGIC, ..] if usize::from(count) <= SLOTS_MAX => {
            Ok((level, usize::from(count)))
        }
        _ => Err(damaged(page, "it has no header")),
    }
}

/// The lowest unit that a cell ever had, by the header in a place that was checked.
#[inline]
pub(super) fn start(pages: &impl PageBytes, page: u64, place: usize) -> usize {
    let field = pages.bytes(page + (line_at(place, 0) + 2) as u64, 1);
    field
        .ok()
        .and_then(<[u8]>::first)
        .copied()
        .map_or(0, usize::from)
}

/// Offset in its page of slot number `index` of a place.
#[inline]
pub(super) fn slot_at(place: usize, index: usize) -> usize {
    match index.checked_sub(FIRST_SLOTS) {
        None => line_at(place, 0) + FIELDS + index,
        Some(more) => line_at(place, 1 + more / LINE) + more % LINE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page of 4096 bytes had 256 units, of which an empty page's header said 0: no cell had room
    /// in it.
    #[test]
    fn an_empty_page_says_where_its_cells_end_whatever_its_size() {
        for page_bytes in (512..=8192).step_by(64) {
            let geometry = Geometry::new(page_bytes, usize::MAX);
            let start = Header::new(0, geometry).start();
            assert_eq!(start, geometry.units, "{page_bytes} bytes");
            assert!(geometry.unit * (geometry.units + 1) > page_bytes);
        }
    }

    #[test]
    fn a_splice_makes_the_next_header_and_garbage_makes_none_that_is_unsound() {
        let mut random = 5_u64;
        let mut below = |end: usize| {
            random = pmem::device::simulated::mix(random.wrapping_add(1));
            (random % end as u64) as usize
        };
        let geometry = Geometry::new(4032, usize::MAX);
        let (mut splice, mut shortest, mut refused) = (NO_IMAGE, usize::MAX, 0);
        for _ in 0..3000 {
            let mut header = Header::new(0, geometry);
            for index in 0..below(SLOTS_MAX) {
                header.insert(below(index + 1), below(geometry.units) as u8);
            }
            let mut next = header;
            next.sequence = after(header.sequence);
            for _ in 0..below(4) {
                match next.count() {
                    0 => {}
                    count if below(2) == 0 => next.remove(below(count)),
                    SLOTS_MAX => {}
                    count => next.insert(below(count + 1), below(geometry.units) as u8),
                }
            }
            let bytes = next.splice(&header, &mut splice);
            shortest = shortest.min(bytes);
            let made = header.spliced(&splice[..bytes], geometry).unwrap();
            assert_eq!((made.image(), made.sequence), (next.image(), next.sequence));
            splice[below(bytes)] = below(256) as u8;
            let made = header.spliced(&splice[..below(bytes + 1)], geometry);
            refused += usize::from(made.is_none());
            assert!(made.is_none_or(|made| made.used().len() <= SLOTS_MAX
                && made.names_only_cells(geometry)
                && made.has_sound_fields(geometry)));
        }
        assert_eq!(shortest, SPLICE_FIELDS);
        assert!((1000..3000).contains(&refused), "{refused}");
    }
}
