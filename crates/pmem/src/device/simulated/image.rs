//! Making one memory the image of another after a power cut.
//!
//! An image is a full memory of its own. It follows its origin: [`MemoryState::restore`] copies the
//! lines that changed on either side since the last image, and [`MemoryState::apply`] adds the
//! surviving part of the choice. So the cost of an image is that of the lines between two images;
//! the first one copies every line that was ever stored to.
//!
//! The death of a process leaves another kind of image: [`MemoryState::inherit`] copies the
//! undecided stores as well.

use super::lines::{DirtyLine, Event, Kind, MemoryState, Origin, line_hash};
use super::region::Line;
use super::unit::{Unit, UnitChoice};
use super::watch::{ReadLog, Watch};
use crate::error::Result;
use std::sync::Arc;

impl MemoryState {
    /// An empty memory that can become an image of `origin`.
    pub(super) fn beside(origin: &Self) -> Result<Self> {
        let template = Arc::clone(&origin.template);
        Self::new(&origin.name, origin.number, template, origin.profile)
    }

    /// The dirty lines, in the order of their addresses.
    pub(super) fn units(&self) -> Vec<Unit> {
        let mut units: Vec<_> = self.dirty.iter().map(|dirty| self.unit(dirty)).collect();
        units.sort_by_key(|unit| unit.index);
        units
    }

    fn unit(&self, dirty: &DirtyLine) -> Unit {
        let pieces = |is_ordered: bool| {
            let events = dirty.events.iter();
            events
                .filter(move |event| (event.kind == Kind::Ordinary) == is_ordered)
                .map(|event| event.pieces() as u8)
                .collect()
        };
        Unit {
            device: self.number,
            index: u64::from(dirty.line),
            ordered: pieces(true),
            streams: pieces(false),
        }
    }

    /// Copies the certain content of `origin`. No handle of `self` may be open.
    pub(super) fn restore(&mut self, origin: &Self) {
        assert!(
            self.handles == 0,
            "the image of {} is still open",
            self.name
        );
        let mut touched = self.forget();
        let known = self
            .origin
            .filter(|known| known.uid == origin.uid && known.position >= origin.changed_start);
        if let Some(known) = known {
            let changed = &origin.changed[(known.position - origin.changed_start) as usize..];
            for line in touched.iter().chain(changed) {
                self.copy_line(origin, *line as usize);
            }
        } else {
            let mut written = self.written.clone();
            written.append(&mut touched);
            for line in written.iter().chain(&origin.written) {
                self.copy_line(origin, *line as usize);
            }
        }
        self.bytes = origin.bytes;
        self.hash = origin.hash;
        self.watch = origin.watch.as_ref().map(Watch::image);
        let position = origin.changed_start + origin.changed.len() as u64;
        self.origin = Some(Origin {
            uid: origin.uid,
            position,
        });
        touched.clear();
        self.touched = touched;
    }

    /// Copies one line, which may be past the length: nothing was ever written there.
    fn copy_line(&mut self, origin: &Self, line: usize) {
        let content = origin.durable.line(line);
        self.live.set_line(line, &content);
        self.durable.set_line(line, &content);
        self.note_change(line);
    }

    /// Adds the surviving stores of the dirty lines of `origin`, from which `self` has just been
    /// restored.
    pub(super) fn apply(&mut self, origin: &Self, choices: &[UnitChoice]) {
        for choice in choices {
            if choice.device != self.number {
                continue;
            }
            let Some(dirty) = origin.dirty_at(choice.index) else {
                continue;
            };
            let line = choice.index as usize;
            let content = surviving(dirty, origin.durable.line(line), choice);
            if let Some(watch) = &mut self.watch {
                let bytes = surviving_bytes(dirty, choice);
                watch.stored(choice.index as u32, bytes);
                watch.settled(choice.index as u32, bytes);
            }
            self.touch(line);
            self.live.set_line(line, &content);
            self.set_durable(line, &content);
        }
    }

    /// Copies the state of `origin`, from which `self` has just been restored, as the next process
    /// finds it if the present one dies: every store is visible, and those that no fence has made
    /// certain may still be lost.
    pub(super) fn inherit(&mut self, origin: &Self) {
        self.next_event = self.next_event.max(origin.next_event);
        for dirty in &origin.dirty {
            let line = dirty.line as usize;
            self.dirty_line(line)
                .events
                .extend_from_slice(&dirty.events);
            self.live.set_line(line, &origin.live.line(line));
        }
        self.close();
    }

    /// Starts to note which of the bytes that are undecided in `origin` are read here.
    pub(super) fn watch(&mut self, origin: &Self, log: &ReadLog) {
        let lines = origin.dirty.iter().map(|dirty| {
            let bytes = dirty
                .events
                .iter()
                .fold(0, |bytes, event| bytes | event.mask);
            (dirty.line, bytes)
        });
        self.watch = Some(Watch::new(log, lines));
    }

    /// The hash that an image by `choices` would have.
    pub(super) fn image_hash(&self, choices: &[UnitChoice]) -> u64 {
        let mut hash = self.hash;
        for choice in choices.iter().filter(|choice| choice.device == self.number) {
            let Some(dirty) = self.dirty_at(choice.index) else {
                continue;
            };
            let line = choice.index as usize;
            let before = self.durable.line(line);
            let after = surviving(dirty, before, choice);
            hash = hash
                .wrapping_sub(line_hash(self.number, line, &before))
                .wrapping_add(line_hash(self.number, line, &after));
        }
        hash
    }
}

/// A line after a power cut that leaves `choice` of its events on top of its durable `content`.
fn surviving(dirty: &DirtyLine, mut content: Line, choice: &UnitChoice) -> Line {
    for_each_surviving(dirty, choice, |event, words| {
        event.apply(&mut content, words);
    });
    content
}

/// The bytes that the surviving events stored.
fn surviving_bytes(dirty: &DirtyLine, choice: &UnitChoice) -> u64 {
    let mut bytes = 0;
    for_each_surviving(dirty, choice, |event, words| {
        let chosen = (0..8).filter(|word| words & (1 << word) != 0);
        bytes |= chosen.fold(0, |mask, word| mask | event.mask & (0xff << (8 * word)));
    });
    bytes
}

/// Visits the events of which `choice` leaves something, with the words that it leaves.
fn for_each_surviving(dirty: &DirtyLine, choice: &UnitChoice, mut visit: impl FnMut(&Event, u8)) {
    let mut ordered = 0;
    let mut piece = 0;
    for event in &dirty.events {
        let words = match event.kind {
            Kind::Ordinary => {
                ordered += 1;
                match choice.kept.cmp(&(ordered - 1)) {
                    std::cmp::Ordering::Greater => u8::MAX,
                    std::cmp::Ordering::Equal => chosen_words(event, choice.torn, 0),
                    std::cmp::Ordering::Less => 0,
                }
            }
            Kind::Stream(_) | Kind::Orphan(_) => {
                let words = chosen_words(event, choice.streams, piece);
                piece += event.pieces();
                words
            }
        };
        visit(event, words);
    }
}

/// The words of an event whose pieces are set in `bits`, where its first piece is number `from`.
fn chosen_words(event: &Event, bits: u64, from: u32) -> u8 {
    let words = event.words();
    let stored = (0..8).filter(|word| words & (1 << word) != 0);
    let last = (from + event.pieces()).saturating_sub(1);
    let pieces = stored.zip((from..).map(|piece| piece.min(last)));
    pieces.fold(0, |chosen, (word, piece)| {
        let survives = (bits >> piece.min(63)) & 1 == 1;
        chosen | (u8::from(survives) << word)
    })
}
