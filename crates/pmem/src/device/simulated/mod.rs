//! A model of persistent memory under power cuts, for crash tests.
//!
//! A [`SimulatedWorld`] holds durable memories, and files that other rooms attach. It records every
//! store, flush and fence, and at any moment hands back each state that a power cut may leave
//! ([`ImageChoices`]), as a world of its own on which engines open, recover and may be cut off
//! again. The rules (docs/medium.md):
//!
//! 1. Ordinary stores to one line persist in program order: an image keeps a prefix. Lines are
//!    independent.
//! 2. A bulk store is one event a line. Cut at such an event, any of its aligned words may be
//!    there.
//! 3. Streaming stores have no order, not even inside a line, until the fence of their handle.
//! 4. A store is certain only after a flush of its line and then a fence, both by the handle that
//!    made the flush. Anything else may survive as well.
//! 5. Two stores to one byte never swap: if both persist, the later one covers the earlier one.
//! 6. The death of a process loses nothing by itself ([`SimulatedWorld::death`]): the next one sees
//!    every store. Stores that were uncertain stay so, for the power cuts of the next process,
//!    until it flushes and fences their lines: its fences do not wait for write-backs of the dead
//!    one.
//! 7. New memory is filled with garbage, never with zeros, unless the options say so.
//!
//! An image costs time proportional to the lines it touches, never to the size of a memory.

mod attachment;
mod branch;
mod choice;
mod fault;
mod image;
mod lines;
mod medium;
mod memory;
mod region;
mod sites;
mod unit;
mod watch;
mod world;

pub use attachment::Attachment;
pub use branch::Branches;
pub use choice::{ImageChoice, ImageChoices, TooMany};
pub use fault::{MemoryCall, MemoryFault};
pub use medium::{Content, Profile, mix};
pub use memory::{SimulatedMemory, SimulatedSource};
pub use sites::{SiteKind, SiteReport};
pub use unit::{Unit, UnitChoice};
pub use watch::{Read, ReadLog};
pub use world::{CrashPoint, Points, SimulatedWorld, WorldOptions};
