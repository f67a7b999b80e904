//! The state of one simulated memory: the durable content, and the possible states of each dirty
//! line.
//!
//! `durable` is the content that is certain to survive. A line with stores that are not certain has
//! a list of events in program order; [`MemoryState::fence`] folds the certain ones into `durable`.
//! Invariants:
//!
//! 1. `live` = `durable` with all events applied, for each line.
//! 2. A line has a slot exactly while it has events; `slot_of` and `dirty` name each other.
//! 3. Events before an event that was folded earlier than they carry no byte of it: two stores to
//!    one byte never swap.
//! 4. `changed` names every line of `durable` that changed, in order, from position `changed_start`
//!    on; images of this memory follow it, so that they copy the changed lines and nothing else.
//! 5. `touched` names every line of which `live` or `durable` may differ from the memory that this
//!    one is an image of, `written` every line of which `durable` may differ from `template`.
//!    Nothing is written past the length.

use super::medium::{Profile, mix};
use super::region::{Line, Region, Template};
use super::watch::Watch;
use crate::device::LINE_BYTES;
use crate::error::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const LINE: usize = LINE_BYTES as usize;

/// How a store reached the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Through the cache: in order with the other ordinary stores of the line.
    Ordinary,
    /// Past the cache: in no order before the fence.
    Stream(Tears),
    /// The same by a handle that is gone: no fence waits for it any more. It is certain once the
    /// next handle has flushed its line and fenced, because bytes that another process sees have
    /// left the buffers of the one that stored them.
    Orphan(Tears),
}

/// The parts that a power cut may leave of a store past the cache to one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tears {
    /// Any of its words.
    AtWords,
    /// All of it or nothing.
    Never,
}

/// One store to one line. Bit i of `mask` says that byte i was stored.
#[derive(Clone)]
pub(super) struct Event {
    pub(super) mask: u64,
    pub(super) kind: Kind,
    /// The handle that stored it.
    handle: usize,
    /// Later stores of the memory have higher numbers.
    number: u64,
    data: Line,
}

impl Event {
    /// The aligned words it stores to, one bit each.
    pub(super) fn words(&self) -> u8 {
        let mut words = 0;
        for (word, bytes) in self.mask.to_le_bytes().into_iter().enumerate() {
            words |= u8::from(bytes != 0) << word;
        }
        words
    }

    /// How many pieces of it survive each by itself.
    pub(super) fn pieces(&self) -> u32 {
        match self.kind {
            Kind::Stream(Tears::Never) | Kind::Orphan(Tears::Never) => 1,
            _ => self.words().count_ones(),
        }
    }

    /// Applies the bytes that lie in `words`.
    pub(super) fn apply(&self, content: &mut Line, words: u8) {
        for (word, bytes) in self.mask.to_le_bytes().into_iter().enumerate() {
            if words & (1 << word) == 0 || bytes == 0 {
                continue;
            }
            let range = word * 8..word * 8 + 8;
            if bytes == u8::MAX {
                content[range.clone()].copy_from_slice(&self.data[range]);
            } else {
                for at in range.filter(|at| self.mask & (1 << at) != 0) {
                    content[at] = self.data[at];
                }
            }
        }
    }
}

/// A line with stores that are not certain to survive.
pub(super) struct DirtyLine {
    pub(super) line: u32,
    /// The events with lower numbers were there when the line was last flushed, by any handle.
    flushed: u64,
    /// In program order.
    pub(super) events: Vec<Event>,
}

impl DirtyLine {
    fn has_unflushed(&self) -> bool {
        let is_unflushed =
            |event: &Event| event.number >= self.flushed && !matches!(event.kind, Kind::Stream(_));
        self.events.iter().any(is_unflushed)
    }
}

/// One durable memory.
pub(super) struct MemoryState {
    /// Unique in the process; images remember whose content they copied.
    pub(super) uid: u64,
    /// Unique in the world and kept by images: the `device` of units.
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) profile: Profile,
    /// Open handles of the memory.
    pub(super) handles: u32,
    pub(super) bytes: u64,
    pub(super) template: Arc<Template>,
    pub(super) live: Region,
    pub(super) durable: Region,
    /// A sum over the lines that changed since creation, so that it can be kept up line by line.
    pub(super) hash: u64,
    pub(super) dirty: Vec<DirtyLine>,
    /// Position of each line in `dirty`, counted from 1, or 0. As long as lines were needed:
    /// memories are short, and there are many.
    slot_of: Vec<u32>,
    /// Lines that the memory can grow to.
    lines: usize,
    /// Of each handle, the lines whose write-backs and streams its next fence waits for. A
    /// write-back covers the events with numbers below the one noted with the line: those that were
    /// there when this handle flushed it.
    waiting: Vec<Vec<(u32, u64)>>,
    /// Number of the next event.
    pub(super) next_event: u64,
    spare_events: Vec<Vec<Event>>,
    pub(super) touched: Vec<u32>,
    is_touched: Vec<bool>,
    pub(super) written: Vec<u32>,
    is_written: Vec<bool>,
    pub(super) changed: Vec<u32>,
    pub(super) changed_start: u64,
    /// Of an image: uid of the memory it was taken from, and how far it followed `changed`.
    pub(super) origin: Option<Origin>,
    /// The undecided lines of an image that is watched.
    pub(super) watch: Option<Watch>,
}

/// Where an image's content came from.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    pub(super) uid: u64,
    pub(super) position: u64,
}

impl MemoryState {
    /// A memory of length 0; `number` is unique in its world.
    pub(super) fn new(
        name: &str,
        number: u32,
        template: Arc<Template>,
        profile: Profile,
    ) -> Result<Self> {
        let lines = (template.capacity() / LINE_BYTES) as usize;
        Ok(Self {
            uid: next_uid(),
            number,
            name: name.to_owned(),
            profile,
            handles: 0,
            bytes: 0,
            live: Region::copied(&template)?,
            durable: Region::copied(&template)?,
            template,
            hash: 0,
            dirty: Vec::new(),
            slot_of: Vec::new(),
            lines,
            waiting: Vec::new(),
            next_event: 1,
            spare_events: Vec::new(),
            touched: Vec::new(),
            is_touched: Vec::new(),
            written: Vec::new(),
            is_written: Vec::new(),
            changed: Vec::new(),
            changed_start: 0,
            origin: None,
            watch: None,
        })
    }

    /// Records an ordinary or streaming store of any length.
    pub(super) fn store(&mut self, handle: usize, offset: u64, data: &[u8], kind: Kind) {
        let mut offset = offset as usize;
        let mut rest = data;
        while !rest.is_empty() {
            let at = offset % LINE;
            let (piece, after) = rest.split_at(rest.len().min(LINE - at));
            let mut content = [0; LINE];
            content[at..at + piece.len()].copy_from_slice(piece);
            let mask = (u64::MAX >> (LINE - piece.len())) << at;
            let event = Event {
                mask,
                kind,
                handle,
                number: self.next_event,
                data: content,
            };
            self.next_event += 1;
            self.push(offset / LINE, event);
            offset += piece.len();
            rest = after;
        }
    }

    fn push(&mut self, line: usize, event: Event) {
        let (kind, handle) = (event.kind, event.handle);
        if let Some(watch) = &mut self.watch {
            watch.stored(line as u32, event.mask);
        }
        let flush_free = self.profile == Profile::FlushFree;
        let dirty = self.dirty_line(line);
        dirty.events.push(event);
        if matches!(kind, Kind::Stream(_)) {
            self.waiting(handle).push((line as u32, 0));
        } else if flush_free {
            self.fold(line, &|event| !matches!(event.kind, Kind::Stream(_)));
        }
    }

    /// The undecided stores of a line, to which more may be added.
    pub(super) fn dirty_line(&mut self, line: usize) -> &mut DirtyLine {
        let mut slot = self.slot(line);
        if slot == 0 {
            self.touch(line);
            let events = self.spare_events.pop().unwrap_or_default();
            self.dirty.push(DirtyLine {
                line: line as u32,
                flushed: 0,
                events,
            });
            slot = self.dirty.len() as u32;
            *at(&mut self.slot_of, line) = slot;
        }
        &mut self.dirty[slot as usize - 1]
    }

    /// The place of a line in `dirty`, counted from 1; 0 if it has no undecided stores.
    fn slot(&self, line: usize) -> u32 {
        self.slot_of.get(line).copied().unwrap_or(0)
    }

    /// The undecided stores of a line, if it has any.
    pub(super) fn dirty_at(&self, line: u64) -> Option<&DirtyLine> {
        let slot = self.slot(line as usize) as usize;
        self.dirty.get(slot.checked_sub(1)?)
    }

    /// Whether a flush of `lines` would find a store that no earlier flush covers.
    pub(super) fn flush_is_useful(&self, mut lines: std::ops::Range<usize>) -> bool {
        lines.any(|line| {
            self.dirty_at(line as u64)
                .is_some_and(DirtyLine::has_unflushed)
        })
    }

    /// Starts the write-back of `lines`. Returns how many of them had something to write.
    pub(super) fn flush(&mut self, handle: usize, lines: std::ops::Range<usize>) -> u64 {
        let mut written = 0;
        let covered = self.next_event;
        for line in lines {
            let slot = self.slot(line);
            if slot == 0 {
                continue;
            }
            let dirty = &mut self.dirty[slot as usize - 1];
            let is_new = dirty.has_unflushed();
            let newest = dirty.events.last().map_or(0, |event| event.number);
            // This handle waits for its own write-back even if another one has flushed the line
            // before.
            if is_new || dirty.flushed > 0 {
                dirty.flushed = covered;
                let waits = |&(waiting, upto): &(u32, u64)| waiting == line as u32 && upto > newest;
                if is_new || !self.waiting(handle).iter().any(waits) {
                    self.waiting(handle).push((line as u32, covered));
                }
            }
            written += u64::from(is_new);
        }
        written
    }

    fn waiting(&mut self, handle: usize) -> &mut Vec<(u32, u64)> {
        if self.waiting.len() <= handle {
            self.waiting.resize(handle + 1, Vec::new());
        }
        &mut self.waiting[handle]
    }

    /// Whether a fence of a handle would have anything to wait for.
    pub(super) fn fence_is_useful(&self, handle: usize) -> bool {
        let waiting = self.waiting.get(handle);
        waiting.is_some_and(|waiting| !waiting.is_empty())
    }

    /// Makes all stores durable that a handle has flushed or streamed. It covers no other handle's:
    /// stores of another one that were flushed in the same line meanwhile stay undecided.
    pub(super) fn fence(&mut self, handle: usize) {
        let mut waiting = std::mem::take(self.waiting(handle));
        for (line, covered) in waiting.drain(..) {
            // A line that waits twice may be done the first time.
            if self.slot(line as usize) != 0 {
                self.fold(line as usize, &|event| match event.kind {
                    Kind::Ordinary | Kind::Orphan(_) => event.number < covered,
                    Kind::Stream(_) => event.handle == handle,
                });
            }
        }
        *self.waiting(handle) = waiting;
    }

    /// The number of a further handle.
    pub(super) fn share(&mut self) -> usize {
        self.handles += 1;
        self.waiting.push(Vec::new());
        self.waiting.len() - 1
    }

    /// The first handle has it open.
    pub(super) fn open(&mut self) {
        self.handles = 1;
        self.waiting = vec![Vec::new()];
    }

    /// One of several handles is gone: nobody waits for its write-backs any more.
    pub(super) fn leave(&mut self, handle: usize) {
        self.handles -= 1;
        if self.handles == 0 {
            self.close();
        } else {
            for (line, _) in std::mem::take(self.waiting(handle)) {
                // A handle that needs the line durable flushes it again.
                if self.slot(line as usize) != 0 {
                    self.dirty_line(line as usize).flushed = 0;
                }
            }
        }
    }

    /// The handle is gone without a last fence, with its process or alone. Nobody waits for its
    /// write-backs any more, and a fence of the next handle does not cover them. Its stores stay
    /// visible, and the next handle can flush them.
    pub(super) fn close(&mut self) {
        self.handles = 0;
        self.waiting.clear();
        let flush_free = self.profile == Profile::FlushFree;
        for dirty in &mut self.dirty {
            dirty.flushed = 0;
            for event in &mut dirty.events {
                event.kind = match event.kind {
                    Kind::Stream(tears) if !flush_free => Kind::Orphan(tears),
                    // Where caches are durable, so are stores that have become visible to others.
                    Kind::Stream(_) => Kind::Ordinary,
                    kind => kind,
                };
            }
        }
        if flush_free {
            let lines: Vec<_> = self.dirty.iter().map(|dirty| dirty.line as usize).collect();
            for line in lines {
                self.fold(line, &|_| true);
            }
        }
    }

    /// Makes the events of a line durable that are certain.
    fn fold(&mut self, line: usize, is_certain: &dyn Fn(&Event) -> bool) {
        let slot = self.slot(line) as usize - 1;
        let dirty = &mut self.dirty[slot];
        let mut content = self.durable.line(line);
        let mut events = std::mem::take(&mut dirty.events);
        let (mut kept, mut settled) = (0, 0);
        for index in 0..events.len() {
            if is_certain(&events[index]) {
                events[index].apply(&mut content, u8::MAX);
                let mask = events[index].mask;
                settled |= mask;
                for earlier in &mut events[..kept] {
                    earlier.mask &= !mask;
                }
            } else {
                events.swap(kept, index);
                kept += 1;
            }
        }
        events.truncate(kept);
        if let Some(watch) = &mut self.watch {
            watch.settled(line as u32, settled);
        }
        events.retain(|event| event.mask != 0);
        if events.is_empty() {
            self.spare_events.push(events);
            self.dirty.swap_remove(slot);
            self.slot_of[line] = 0;
            if let Some(moved) = self.dirty.get(slot) {
                self.slot_of[moved.line as usize] = slot as u32 + 1;
            }
        } else {
            self.dirty[slot].events = events;
        }
        self.set_durable(line, &content);
    }

    /// Replaces a line of the durable content, and keeps hash and change list.
    pub(super) fn set_durable(&mut self, line: usize, content: &Line) {
        let before = self.durable.line(line);
        if before == *content {
            return;
        }
        self.hash = self
            .hash
            .wrapping_sub(line_hash(self.number, line, &before))
            .wrapping_add(line_hash(self.number, line, content));
        self.durable.set_line(line, content);
        self.note_change(line);
    }

    /// Flips bits of one byte in the live and the durable content.
    pub(super) fn flip(&mut self, offset: u64, mask: u8) {
        let (line, at) = (offset as usize / LINE, offset as usize % LINE);
        self.touch(line);
        let mut content = self.live.line(line);
        content[at] ^= mask;
        self.live.set_line(line, &content);
        let mut content = self.durable.line(line);
        content[at] ^= mask;
        self.set_durable(line, &content);
    }

    /// Adds a line to the change list. A list longer than the memory is dropped: a copy of
    /// everything is cheaper then.
    pub(super) fn note_change(&mut self, line: usize) {
        if !std::mem::replace(at(&mut self.is_written, line), true) {
            self.written.push(line as u32);
        }
        if self.changed.len() >= self.lines {
            self.changed_start += self.changed.len() as u64;
            self.changed.clear();
        }
        self.changed.push(line as u32);
    }

    /// Remembers that a line may differ from the memory that this one is an image of.
    pub(super) fn touch(&mut self, line: usize) {
        if !std::mem::replace(at(&mut self.is_touched, line), true) {
            self.touched.push(line as u32);
        }
    }

    /// Forgets the undecided stores and the touched lines. Returns the latter.
    pub(super) fn forget(&mut self) -> Vec<u32> {
        for dirty in self.dirty.drain(..) {
            self.slot_of[dirty.line as usize] = 0;
            let mut events = dirty.events;
            events.clear();
            self.spare_events.push(events);
        }
        self.waiting.clear();
        for line in &self.touched {
            self.is_touched[*line as usize] = false;
        }
        std::mem::take(&mut self.touched)
    }
}

/// The entry of a line in a list that is as long as lines were needed.
fn at<T: Clone + Default>(list: &mut Vec<T>, line: usize) -> &mut T {
    if list.len() <= line {
        list.resize(line + 1, T::default());
    }
    &mut list[line]
}

/// A hash of one line at its place.
pub(super) fn line_hash(number: u32, line: usize, content: &Line) -> u64 {
    let mut hash = mix((u64::from(number) << 40) ^ line as u64);
    for word in content.chunks_exact(8) {
        let word = u64::from_le_bytes(word.try_into().expect("chunks of 8 bytes"));
        hash = (hash ^ word)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29);
    }
    mix(hash)
}

/// A number that no other memory of the process has.
pub(super) fn next_uid() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
