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

pub use modelled::{Model, ModelledMemories, ModelledPlatform};
pub use native::NativeDevices;
pub use page_engine::buffer::file::is_page_file;
pub use page_engine::engine::{Mark, Replayed, Until};
pub use rebuild::{Archive, Rebuild};

use disk::simulated::SimulatedDirectory;
use disk::{EmulatedDirectory, IoMode, NativeDirectory};
use pmem::{Access, Either};
use std::path::Path;
use storage::engine::{Decide, Engine, EngineOptions, Method};
use storage::{Platform, Result};

/// Files of any device: of this machine, or of a model.
pub type Files = Either<NativeDirectory, ModelledFiles>;
/// Files of a model.
pub type ModelledFiles = Either<EmulatedDirectory<NativeDirectory>, SimulatedDirectory>;

/// The files of a directory of this machine, for reading and writing through the system's cache.
pub fn files_in(path: &Path) -> disk::Result<Files> {
    NativeDirectory::open(path, IoMode::Buffered).map(Either::First)
}

/// As [`files_in`], without the right to write.
pub fn files_to_read(path: &Path) -> disk::Result<Files> {
    NativeDirectory::open_for(Access::Read, path, IoMode::Buffered).map(Either::First)
}

/// As [`EngineSource::create_engine`](storage::EngineSource::create_engine), on any platform.
pub fn create<P: Platform>(
    platform: &P,
    method: Method,
    options: &EngineOptions,
) -> Result<Box<dyn Engine>> {
    if method.is_paged() {
        page_engine::create(platform, method, options)
    } else {
        serial_engines::create(platform, method, options)
    }
}

/// As [`EngineSource::open_engine`](storage::EngineSource::open_engine), on any platform.
pub fn open<P: Platform>(
    platform: &P,
    method: Method,
    options: &EngineOptions,
    decide: Decide<'_>,
) -> Result<Box<dyn Engine>> {
    if method.is_paged() {
        page_engine::open(platform, method, options, decide)
    } else {
        serial_engines::open(platform, method, options, decide)
    }
}
