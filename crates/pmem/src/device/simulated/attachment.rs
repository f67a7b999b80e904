//! How another device joins a simulated world.
//!
//! The simulated disk lives in its own room, but a power cut hits memory and disk at the same
//! moment. So the world asks each attached device for its undecided units and for its part of an
//! image, and the device reports its own crash points through
//! [`SimulatedWorld::mark`](super::SimulatedWorld::mark).

use super::choice::{Unit, UnitChoice};
use std::any::Any;
use std::sync::Arc;

/// A device that takes part in crash images. It locks itself: the world calls it while no lock of
/// its memories is held.
pub trait Attachment: Any + Send + Sync {
    /// What a power cut now may leave in more than one state. `device` goes into each unit.
    fn units(&self, device: u32) -> Vec<Unit>;

    /// The device as a power cut leaves it if exactly `choices` survive, in no particular order.
    /// Units that are not named are lost.
    fn image(&self, choices: &[UnitChoice]) -> Arc<dyn Attachment>;

    /// A hash of the content that is certain to survive.
    fn hash(&self) -> u64;
}
