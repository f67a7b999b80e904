//! Operations on pages, in the format of the log.
//!
//! ```text
//! section     page number u32 | flags u8
//!             | image, if flag 1: head u16, tail u16, the head's bytes, the tail's
//!             | bytes u32 of operations
//! operation   tag u8 | fields as in [`PageOp`], numbers little-endian, bytes preceded by their
//!             length
//! ```
//!
//! A section has all operations of one log record on one page. An *image* is the page as it was
//! before them, without the free bytes between its slots and its heap: with it nobody needs the
//! page on the medium, which may be torn.
//!
//! Invariant: an operation that cannot be applied is an error and leaves the page as it was.
//! Applied forwards or again after a crash, it does the same to the same page, the moving of cells
//! to collect dead bytes included.

use super::header::{
    HEADER_BYTES, Header, PageKind, format, set_dead, set_heap, set_link, set_lsn, set_slots,
};
use super::slotted::{LONG_BIT, SLOT_BYTES, Slotted};
use std::ops::Range;
use storage::engine::PageId;
use storage::log::Lsn;
use storage::record::{DecodeError, Reader};

/// One step of a change to one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOp<'b> {
    /// Makes an empty page, whatever there was.
    Format {
        /// Kind of its content.
        kind: PageKind,
        /// Distance from the leaves.
        level: u8,
        /// Words of a key.
        key_words: u16,
        /// First child, or next page.
        link: PageId,
    },
    /// Adds a cell at a slot; later slots move by one.
    Insert {
        /// Where.
        slot: u16,
        /// Whether its value lies in pages of its own.
        is_long: bool,
        /// Its bytes.
        cell: &'b [u8],
    },
    /// Takes the cell of a slot out.
    Remove {
        /// Which.
        slot: u16,
    },
    /// Gives a slot another cell.
    Replace {
        /// Which.
        slot: u16,
        /// Whether the new value lies in pages of its own.
        is_long: bool,
        /// Its bytes.
        cell: &'b [u8],
    },
    /// Overwrites bytes of a cell.
    Patch {
        /// Which slot.
        slot: u16,
        /// From which byte of the cell on.
        at: u16,
        /// New bytes.
        bytes: &'b [u8],
    },
    /// Keeps the first slots only.
    Truncate {
        /// How many.
        slots: u16,
    },
    /// Changes the first child or the next page.
    Link {
        /// To this one.
        link: PageId,
    },
    /// Changes a bit of a map.
    Bit {
        /// Which.
        index: u32,
        /// Whether the page is in use.
        is_used: bool,
    },
    /// Gives a page of a long value its content.
    Content {
        /// All of it.
        bytes: &'b [u8],
    },
    /// Gives bytes of a page back, whatever they mean: what they were before a change in place.
    Before {
        /// From which byte of the page on.
        at: u16,
        /// Old bytes.
        bytes: &'b [u8],
    },
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

impl<'b> PageOp<'b> {
    /// Appends the operation.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Format {
                kind,
                level,
                key_words,
                link,
            } => {
                out.extend_from_slice(&[1, kind.code(), level]);
                out.extend_from_slice(&key_words.to_le_bytes());
                out.extend_from_slice(&link.0.to_le_bytes());
            }
            Self::Insert {
                slot,
                is_long,
                cell,
            }
            | Self::Replace {
                slot,
                is_long,
                cell,
            } => {
                let tag = if matches!(self, Self::Insert { .. }) {
                    2
                } else {
                    4
                };
                out.extend_from_slice(&[tag, u8::from(is_long)]);
                out.extend_from_slice(&slot.to_le_bytes());
                put_bytes(cell, out);
            }
            Self::Remove { slot } => {
                out.push(3);
                out.extend_from_slice(&slot.to_le_bytes());
            }
            Self::Patch { slot, at, bytes } => {
                out.push(5);
                out.extend_from_slice(&slot.to_le_bytes());
                out.extend_from_slice(&at.to_le_bytes());
                put_bytes(bytes, out);
            }
            Self::Truncate { slots } => {
                out.push(6);
                out.extend_from_slice(&slots.to_le_bytes());
            }
            Self::Link { link } => {
                out.push(7);
                out.extend_from_slice(&link.0.to_le_bytes());
            }
            Self::Bit { index, is_used } => {
                out.extend_from_slice(&[8, u8::from(is_used)]);
                out.extend_from_slice(&index.to_le_bytes());
            }
            Self::Content { bytes } => {
                out.push(9);
                put_bytes(bytes, out);
            }
            Self::Before { at, bytes } => {
                out.push(10);
                out.extend_from_slice(&at.to_le_bytes());
                put_bytes(bytes, out);
            }
        }
    }

    /// Takes the next operation.
    pub fn decode(reader: &mut Reader<'b>) -> Result<Self, DecodeError> {
        const WHAT: &str = "an operation on a page";
        let short = |reader: &mut Reader<'b>| reader.array(WHAT).map(u16::from_le_bytes);
        let tag = reader.byte(WHAT)?;
        Ok(match tag {
            1 => {
                let code = reader.byte(WHAT)?;
                let kind = PageKind::from_code(code).ok_or(DecodeError::Unknown {
                    what: "a kind of page",
                    found: code.into(),
                })?;
                Self::Format {
                    kind,
                    level: reader.byte(WHAT)?,
                    key_words: short(reader)?,
                    link: PageId(reader.number(WHAT)?),
                }
            }
            2 | 4 => {
                let is_long = reader.flag(WHAT)?;
                let slot = short(reader)?;
                let cell = reader.content(WHAT)?;
                if tag == 2 {
                    Self::Insert {
                        slot,
                        is_long,
                        cell,
                    }
                } else {
                    Self::Replace {
                        slot,
                        is_long,
                        cell,
                    }
                }
            }
            3 => Self::Remove {
                slot: short(reader)?,
            },
            5 => Self::Patch {
                slot: short(reader)?,
                at: short(reader)?,
                bytes: reader.content(WHAT)?,
            },
            6 => Self::Truncate {
                slots: short(reader)?,
            },
            7 => Self::Link {
                link: PageId(reader.number(WHAT)?),
            },
            8 => Self::Bit {
                is_used: reader.flag(WHAT)?,
                index: reader.number(WHAT)?,
            },
            9 => Self::Content {
                bytes: reader.content(WHAT)?,
            },
            10 => Self::Before {
                at: short(reader)?,
                bytes: reader.content(WHAT)?,
            },
            found => {
                return Err(DecodeError::Unknown {
                    what: WHAT,
                    found: found.into(),
                });
            }
        })
    }

    /// Does it to a page.
    pub fn apply(&self, page: &mut [u8], id: PageId) -> Result<(), Misfit> {
        match *self {
            Self::Format {
                kind,
                level,
                key_words,
                link,
            } => {
                format(page, id, kind, level, key_words, link);
                Ok(())
            }
            Self::Insert {
                slot,
                is_long,
                cell,
            } => insert(page, usize::from(slot), is_long, cell),
            Self::Remove { slot } => remove(page, usize::from(slot)),
            Self::Replace {
                slot,
                is_long,
                cell,
            } => replace(page, usize::from(slot), is_long, cell),
            Self::Patch { slot, at, bytes } => {
                let (start, length, _) = tree(page)?.place(usize::from(slot)).ok_or(Misfit)?;
                let at = usize::from(at);
                if at + bytes.len() > length {
                    return Err(Misfit);
                }
                page[start + at..start + at + bytes.len()].copy_from_slice(bytes);
                Ok(())
            }
            Self::Truncate { slots } => {
                let kept = usize::from(slots);
                let view = tree(page)?;
                if kept > view.slots() {
                    return Err(Misfit);
                }
                let gone: usize = (kept..view.slots()).map(|slot| view.raw(slot).len()).sum();
                let dead = view.header().dead() + gone;
                set_slots(page, kept);
                set_dead(page, dead);
                Ok(())
            }
            Self::Link { link } => {
                set_link(page, link);
                Ok(())
            }
            Self::Bit { index, is_used } => {
                let at = HEADER_BYTES + index as usize / 8;
                let bit = 1 << (index % 8);
                let byte = page.get_mut(at).ok_or(Misfit)?;
                *byte = if is_used { *byte | bit } else { *byte & !bit };
                Ok(())
            }
            Self::Content { bytes } => {
                let end = HEADER_BYTES + bytes.len();
                let place = page.get_mut(HEADER_BYTES..end).ok_or(Misfit)?;
                place.copy_from_slice(bytes);
                set_slots(page, bytes.len());
                Ok(())
            }
            Self::Before { at, bytes } => {
                let at = usize::from(at);
                let place = page.get_mut(at..at + bytes.len()).ok_or(Misfit)?;
                place.copy_from_slice(bytes);
                Ok(())
            }
        }
    }
}

/// The page has no place for the operation: it is not the page that the operation was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misfit;

fn tree(page: &[u8]) -> Result<Slotted<'_>, Misfit> {
    match Header(page).kind() {
        Some(PageKind::Leaf | PageKind::Inner) => Ok(Slotted::new(page)),
        _ => Err(Misfit),
    }
}

/// Makes room for `bytes` of heap next to `slots` slots: returns their offset.
fn make_room(page: &mut [u8], bytes: usize, slots: usize) -> Result<usize, Misfit> {
    let header = Header(page);
    let slots_end = HEADER_BYTES + slots * SLOT_BYTES;
    if header.heap() > page.len() {
        return Err(Misfit);
    }
    if header.heap() < slots_end + bytes {
        if header.heap() + header.dead() < slots_end + bytes {
            return Err(Misfit);
        }
        compact(page)?;
    }
    let heap = Header(page).heap();
    heap.checked_sub(bytes)
        .filter(|&start| start >= slots_end)
        .ok_or(Misfit)
}

/// Moves the cells together, so that no byte is dead.
fn compact(page: &mut [u8]) -> Result<(), Misfit> {
    let old = page.to_vec();
    let view = Slotted::new(&old);
    let slots_end = HEADER_BYTES + view.slots() * SLOT_BYTES;
    let live: usize = (0..view.slots()).map(|slot| view.raw(slot).len()).sum();
    if slots_end + live > page.len() {
        return Err(Misfit);
    }
    let mut heap = page.len();
    for slot in 0..view.slots() {
        let cell = view.raw(slot);
        heap -= cell.len();
        page[heap..heap + cell.len()].copy_from_slice(cell);
        let at = HEADER_BYTES + slot * SLOT_BYTES;
        page[at..at + 2].copy_from_slice(&(heap as u16).to_le_bytes());
    }
    set_heap(page, heap as u16);
    set_dead(page, 0);
    Ok(())
}

fn set_slot(page: &mut [u8], slot: usize, offset: usize, bytes: usize, is_long: bool) {
    let at = HEADER_BYTES + slot * SLOT_BYTES;
    let length = bytes as u16 | if is_long { LONG_BIT } else { 0 };
    page[at..at + 2].copy_from_slice(&(offset as u16).to_le_bytes());
    page[at + 2..at + 4].copy_from_slice(&length.to_le_bytes());
}

fn insert(page: &mut [u8], slot: usize, is_long: bool, cell: &[u8]) -> Result<(), Misfit> {
    let slots = tree(page)?.slots();
    if slot > slots {
        return Err(Misfit);
    }
    let start = make_room(page, cell.len(), slots + 1)?;
    let from = HEADER_BYTES + slot * SLOT_BYTES;
    page.copy_within(from..HEADER_BYTES + slots * SLOT_BYTES, from + SLOT_BYTES);
    set_slots(page, slots + 1);
    put(page, slot, start, is_long, cell);
    Ok(())
}

fn put(page: &mut [u8], slot: usize, start: usize, is_long: bool, cell: &[u8]) {
    page[start..start + cell.len()].copy_from_slice(cell);
    set_heap(page, start as u16);
    set_slot(page, slot, start, cell.len(), is_long);
}

fn remove(page: &mut [u8], slot: usize) -> Result<(), Misfit> {
    let view = tree(page)?;
    let (_, bytes, _) = view.place(slot).ok_or(Misfit)?;
    let (slots, dead) = (view.slots(), view.header().dead());
    let from = HEADER_BYTES + (slot + 1) * SLOT_BYTES;
    page.copy_within(from..HEADER_BYTES + slots * SLOT_BYTES, from - SLOT_BYTES);
    set_slots(page, slots - 1);
    set_dead(page, dead + bytes);
    Ok(())
}

fn replace(page: &mut [u8], slot: usize, is_long: bool, cell: &[u8]) -> Result<(), Misfit> {
    let view = tree(page)?;
    let (start, bytes, _) = view.place(slot).ok_or(Misfit)?;
    let (slots, dead) = (view.slots(), view.header().dead());
    if bytes == cell.len() {
        page[start..start + bytes].copy_from_slice(cell);
        set_slot(page, slot, start, bytes, is_long);
        return Ok(());
    }
    if view.used_bytes() + cell.len() > view.capacity() + bytes {
        return Err(Misfit);
    }
    // An empty cell in between, so that the old one's bytes can be collected.
    set_slot(page, slot, page.len(), 0, false);
    set_dead(page, dead + bytes);
    let start = make_room(page, cell.len(), slots)?;
    put(page, slot, start, is_long, cell);
    Ok(())
}

const IMAGE: u8 = 1;

/// All operations of one log record on one page.
#[derive(Clone, Copy, Debug)]
pub struct Section<'b> {
    /// The page.
    pub page: PageId,
    /// Head and tail of the page as it was before.
    image: Option<(&'b [u8], &'b [u8])>,
    ops: &'b [u8],
}

impl<'b> Section<'b> {
    /// Operations on a page.
    pub fn new(page: PageId, ops: &'b [u8]) -> Self {
        let image = None;
        Self { page, image, ops }
    }

    /// Appends a section; `before` is the page for an image.
    pub fn encode(page: PageId, before: Option<&[u8]>, ops: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&page.0.to_le_bytes());
        out.push(if before.is_some() { IMAGE } else { 0 });
        if let Some(before) = before {
            let (head, tail) = used_parts(before);
            out.extend_from_slice(&(head.len() as u16).to_le_bytes());
            out.extend_from_slice(&(tail.len() as u16).to_le_bytes());
            out.extend_from_slice(head);
            out.extend_from_slice(tail);
        }
        put_bytes(ops, out);
    }

    /// Takes the next section.
    pub fn decode(reader: &mut Reader<'b>) -> Result<Self, DecodeError> {
        const WHAT: &str = "a change of a page";
        let page = PageId(reader.number(WHAT)?);
        let image = if reader.flag(WHAT)? {
            let head = usize::from(u16::from_le_bytes(reader.array(WHAT)?));
            let tail = usize::from(u16::from_le_bytes(reader.array(WHAT)?));
            Some((reader.take(WHAT, head)?, reader.take(WHAT, tail)?))
        } else {
            None
        };
        let ops = reader.content(WHAT)?;
        Ok(Self { page, image, ops })
    }

    /// Whether the section makes the page from nothing.
    pub fn is_whole(&self) -> bool {
        const FORMAT_TAG: u8 = 1;
        self.image.is_some() || self.ops.first() == Some(&FORMAT_TAG)
    }

    /// The operation, if there is just one.
    pub fn single(&self) -> Option<PageOp<'b>> {
        let mut reader = Reader::new(self.ops);
        let op = PageOp::decode(&mut reader).ok()?;
        (reader.remaining() == 0).then_some(op)
    }

    /// Makes the page what it was before, if the section has an image.
    pub fn restore(&self, page: &mut [u8]) -> Result<(), Misfit> {
        let Some((head, tail)) = self.image else {
            return Ok(());
        };
        if head.len() + tail.len() > page.len() || head.len() < HEADER_BYTES {
            return Err(Misfit);
        }
        let bytes = page.len();
        page.fill(0);
        page[..head.len()].copy_from_slice(head);
        page[bytes - tail.len()..].copy_from_slice(tail);
        Ok(())
    }

    /// Does all operations, as those of the record at `lsn`.
    pub fn apply(&self, page: &mut [u8], lsn: Lsn) -> Result<(), Misfit> {
        self.apply_all(page)?;
        set_lsn(page, lsn);
        Ok(())
    }

    /// The bytes of the page that the operations restore; fails if one of them is no
    /// [`PageOp::Before`].
    pub fn changed(&self) -> Result<Vec<Range<usize>>, Misfit> {
        let mut reader = Reader::new(self.ops);
        let mut changed = Vec::new();
        while reader.remaining() > 0 {
            match PageOp::decode(&mut reader) {
                Ok(PageOp::Before { at, bytes }) => {
                    changed.push(usize::from(at)..usize::from(at) + bytes.len());
                }
                _ => return Err(Misfit),
            }
        }
        Ok(changed)
    }

    /// Applies all operations. The page's LSN stays, unless they change it.
    pub fn apply_all(&self, page: &mut [u8]) -> Result<(), Misfit> {
        let mut reader = Reader::new(self.ops);
        while reader.remaining() > 0 {
            let op = PageOp::decode(&mut reader).map_err(|_| Misfit)?;
            op.apply(page, self.page)?;
        }
        Ok(())
    }
}

/// A page without the free bytes in its middle.
fn used_parts(page: &[u8]) -> (&[u8], &[u8]) {
    let header = Header(page);
    let head = match header.kind() {
        Some(PageKind::Leaf | PageKind::Inner) => HEADER_BYTES + header.slots() * SLOT_BYTES,
        Some(PageKind::Long) => HEADER_BYTES + header.slots(),
        Some(PageKind::Map) | None => return (page, &[]),
    };
    let tail = header.heap();
    if header.kind() == Some(PageKind::Long) || head > tail || tail > page.len() {
        return (&page[..head.min(page.len())], &[]);
    }
    (&page[..head], &page[tail..])
}

#[cfg(test)]
mod tests {
    use super::super::slotted::key_words;
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const ID: PageId = PageId(7);
    const PAGE: usize = 1024;

    fn empty() -> Vec<u8> {
        let mut page = vec![0xA5; PAGE];
        let format = PageOp::Format {
            kind: PageKind::Leaf,
            level: 0,
            key_words: 1,
            link: PageId(0),
        };
        format.apply(&mut page, ID).unwrap();
        page
    }

    fn cell(key: u64, value: &[u8]) -> Vec<u8> {
        [&key.to_le_bytes(), value].concat()
    }

    fn content(page: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let view = Slotted::new(page);
        let cells = (0..view.slots()).map(|slot| view.cell(slot));
        cells
            .map(|cell| (key_words(cell.key).next().unwrap(), cell.value.to_vec()))
            .collect()
    }

    /// One random step: a key, what to do, and the length of the value.
    fn steps() -> impl Strategy<Value = Vec<(u64, u8, usize)>> {
        vec((0_u64..40, 0_u8..4, 0_usize..200), 1..80)
    }

    proptest! {
        /// A page holds what a sorted list holds, is whole after each step, and what the log has of
        /// the steps makes the same page.
        #[test]
        fn a_page_is_a_sorted_list(steps in steps()) {
            let (mut page, mut model) = (empty(), Vec::<(u64, Vec<u8>)>::new());
            let mut ops = Vec::new();
            let before = page.clone();
            for (number, (key, what, bytes)) in steps.into_iter().enumerate() {
                let value = vec![number as u8; bytes];
                let (slot, is_there) = Slotted::new(&page).search(&[key]);
                let cell = cell(key, &value);
                let op = match (what, is_there) {
                    (0 | 1, false) if Slotted::new(&page).fits(cell.len()) => {
                        model.insert(slot, (key, value));
                        PageOp::Insert { slot: slot as u16, is_long: false, cell: &cell }
                    }
                    (0, true) => {
                        model.remove(slot);
                        PageOp::Remove { slot: slot as u16 }
                    }
                    (1, true) => {
                        let more = cell.len().saturating_sub(Slotted::new(&page).raw(slot).len());
                        if Slotted::new(&page).used_bytes() + more > PAGE - HEADER_BYTES {
                            continue;
                        }
                        model[slot].1 = value;
                        PageOp::Replace { slot: slot as u16, is_long: false, cell: &cell }
                    }
                    (2, true) if !model[slot].1.is_empty() => {
                        model[slot].1[0] = 0xEE;
                        PageOp::Patch { slot: slot as u16, at: 8, bytes: &[0xEE] }
                    }
                    (3, _) => {
                        model.truncate(slot);
                        PageOp::Truncate { slots: slot as u16 }
                    }
                    _ => continue,
                };
                op.apply(&mut page, ID).unwrap();
                op.encode(&mut ops);
                prop_assert_eq!(Slotted::new(&page).check(), Ok(()));
                prop_assert_eq!(content(&page), model.clone());
            }
            let mut logged = Vec::new();
            Section::encode(ID, Some(&before), &ops, &mut logged);
            let section = Section::decode(&mut Reader::new(&logged)).unwrap();
            prop_assert!(section.is_whole());
            let mut again = vec![0x5A; PAGE];
            section.restore(&mut again).unwrap();
            section.apply(&mut again, Lsn(99)).unwrap();
            prop_assert_eq!(Header(&again).lsn(), Lsn(99));
            prop_assert_eq!(content(&again), content(&page));
        }

        /// An operation is applied or refused, whatever the page's header contains.
        #[test]
        fn no_page_makes_an_operation_panic(
            mut page in vec(any::<u8>(), PAGE),
            kind in 0_u8..5,
            slots in 0_u16..300,
            (slot, at, bytes) in (0_u16..300, 0_u16..2000, vec(any::<u8>(), 0..600)),
        ) {
            page[4] = kind;
            page[24..26].copy_from_slice(&slots.to_le_bytes());
            let ops = [
                PageOp::Insert { slot, is_long: true, cell: &bytes },
                PageOp::Replace { slot, is_long: false, cell: &bytes },
                PageOp::Patch { slot, at, bytes: &bytes },
                PageOp::Remove { slot },
                PageOp::Truncate { slots: slot },
                PageOp::Bit { index: u32::from(at) * 9, is_used: true },
                PageOp::Content { bytes: &bytes },
            ];
            for op in ops {
                let mut page = page.clone();
                let _ = op.apply(&mut page, ID);
                let _ = Slotted::new(&page).check();
                let mut encoded = Vec::new();
                Section::encode(ID, Some(&page), &[], &mut encoded);
                prop_assert!(Section::decode(&mut Reader::new(&encoded)).is_ok());
            }
        }

        #[test]
        fn any_bytes_are_operations_or_an_error(bytes in vec(0_u8..12, 0..60)) {
            let mut page = empty();
            let _ = Section::new(ID, &bytes).apply(&mut page, Lsn(1));
            let _ = Section::decode(&mut Reader::new(&bytes));
            let _ = super::super::Head::decode(&mut Reader::new(&bytes));
            let _ = super::super::Undo::decode(&bytes);
        }
    }
}
