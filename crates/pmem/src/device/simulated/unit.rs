//! The undecided state at a moment, unit by unit: dirty lines and unsynced disk operations.
//!
//! Units are independent of each other. An attached device (`attachment`) has its own ones, and
//! `choice` tries their combinations.

/// Something of which a power cut may leave more than one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The memory or attached device.
    pub device: u32,
    /// The line, or the device's own number of the unit.
    pub index: u64,
    /// Pieces of each event that persists in order: 1 is atomic, more may tear. At most 64.
    pub ordered: Vec<u8>,
    /// Pieces of each event that persists in no order at all.
    pub streams: Vec<u8>,
}

/// The part of one unit that survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnitChoice {
    /// As in [`Unit`].
    pub device: u32,
    /// As in [`Unit`].
    pub index: u64,
    /// How many of the ordered events survive whole.
    pub kept: u32,
    /// The pieces that survive of the next ordered event.
    pub torn: u64,
    /// The pieces that survive of the streaming events, those of the first event in the lowest
    /// bits. The last bit stands for all pieces from the 64th on.
    pub streams: u64,
}
