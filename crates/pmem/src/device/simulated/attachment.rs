//! How another device joins a simulated world.
//!
//! The simulated disk lives in its own room, but a power cut hits memory and disk at the same
//! moment. So the world asks each attached device for its undecided units and for its part of an
//! image, and the device reports its own crash points through
//! [`SimulatedWorld::mark`](super::SimulatedWorld::mark).

use super::unit::{Unit, UnitChoice};
use super::watch::ReadLog;
use std::any::Any;
use std::sync::Arc;

/// A device that takes part in crash images. It locks itself: the world calls it while no lock of
/// its memories is held.
pub trait Attachment: Any + Send + Sync {
    /// The units that a power cut now may leave in more than one state. `device` goes into each
    /// unit.
    fn units(&self, device: u32) -> Vec<Unit>;

    /// The device as a power cut leaves it if exactly `choices` survive, in no particular order.
    /// Units that are not named are lost.
    fn image(&self, choices: &[UnitChoice]) -> Arc<dyn Attachment>;

    /// The device as the next process finds it if this one dies and the power stays on: reads see
    /// every change, and undecided changes stay undecided. No handle is open there.
    fn death(&self) -> Arc<dyn Attachment>;

    /// Whether the device can say which undecided units of it were read, see [`Attachment::watch`].
    fn notes_reads(&self) -> bool {
        false
    }

    /// Notes in `log`, under `device`, which undecided units of `origin` are read here and in
    /// images of this device, which has just been made an image of `origin`. A device that does not
    /// note reads counts as read whole.
    fn watch(&self, origin: &dyn Attachment, device: u32, log: &ReadLog) {
        let _ = (origin, device, log);
    }

    /// Ends [`Attachment::watch`].
    fn unwatch(&self) {}

    /// A hash of the content that is certain to survive.
    fn hash(&self) -> u64;

    /// The [`Attachment::hash`] that [`Attachment::image`] would have, for devices that know it
    /// without making the image.
    fn image_hash(&self, choices: &[UnitChoice]) -> u64 {
        self.image(choices).hash()
    }
}
