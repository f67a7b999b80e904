//! The engines of all methods on all devices: those of this machine, and models of others.
//!
//! Engines are most of the code to compile. They are compiled here, in a room of its own, once for
//! all programs and tests. An engine's speed rests on its type parameter for memories, so engines
//! are compiled twice: for native memories ([`NativeDevices`]), and for emulated and simulated ones
//! together ([`ModelledPlatform`]). A model does so much at each access that a branch on its kind
//! costs nothing in comparison. Files are of one type for all ([`Files`]), because an access to a
//! file is a call of the system; and both platforms are in one room. So code that needs files
//! alone, or no device, is compiled once.

mod modelled;
mod native;
mod rebuild;

use disk::simulated::SimulatedDirectory;
use disk::{EmulatedDirectory, IoMode, NativeDirectory};
pub use modelled::{Model, ModelledMemories, ModelledPlatform};
pub use native::NativeDevices;
use pmem::Either;
pub use rebuild::{Archive, Rebuild};
use std::path::Path;

/// Files of any device: of this machine, or of a model.
pub type Files = Either<NativeDirectory, ModelledFiles>;
/// Files of a model.
pub type ModelledFiles = Either<EmulatedDirectory<NativeDirectory>, SimulatedDirectory>;

/// The files of a directory of this machine, for reading and writing through the system's cache.
pub fn files_in(path: &Path) -> disk::Result<Files> {
    NativeDirectory::open(path, IoMode::Buffered).map(Either::First)
}
