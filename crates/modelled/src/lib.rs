//! The devices that are models: emulated and simulated ones, as one platform.
//!
//! The engines of all methods are compiled once for native devices, in the room `native`, and once here for modelled ones. A model does so much
//! at each access that asking which one it is costs nothing beside it, and engines are most of what there is to compile.

use disk::simulated::SimulatedDirectory;
use disk::{EmulatedDirectory, NativeDirectory};
use pmem::Either;
use pmem::device::NativeSource;
use pmem::device::emulated::EmulatedSource;
use pmem::device::simulated::SimulatedSource;
use std::sync::Arc;
use storage::Platform;
use storage::engine::{self, Decide, Engine, EngineOptions, Method};

/// Memories of a model.
pub type ModelledMemories = Either<EmulatedSource<NativeSource>, SimulatedSource>;
/// Files of a model.
pub type ModelledFiles = Either<EmulatedDirectory<NativeDirectory>, SimulatedDirectory>;

/// A device that is a model.
#[derive(Clone)]
pub struct ModelledPlatform(Arc<dyn Model>);

/// What an emulated or a simulated platform gives the partitions of a database.
pub trait Model: Send + Sync + 'static {
    /// As [`Platform::memories`].
    fn memories(&self, partition: u32) -> ModelledMemories;

    /// As [`Platform::files`].
    fn files(&self, partition: u32) -> disk::Result<ModelledFiles>;

    /// As [`Platform::log_files`].
    fn log_files(&self, _partition: u32) -> disk::Result<Option<ModelledFiles>> {
        Ok(None)
    }

    /// As [`Platform::archive_files`].
    fn archive_files(&self, _partition: u32) -> disk::Result<Option<ModelledFiles>> {
        Ok(None)
    }
}

impl ModelledPlatform {
    /// The platform of a model.
    pub fn new(model: impl Model) -> Self {
        Self(Arc::new(model))
    }
}

impl Platform for ModelledPlatform {
    type Memories = ModelledMemories;
    type Files = ModelledFiles;

    fn memories(&self, partition: u32) -> ModelledMemories {
        self.0.memories(partition)
    }

    fn files(&self, partition: u32) -> disk::Result<ModelledFiles> {
        self.0.files(partition)
    }

    fn log_files(&self, partition: u32) -> disk::Result<Option<ModelledFiles>> {
        self.0.log_files(partition)
    }

    fn archive_files(&self, partition: u32) -> disk::Result<Option<ModelledFiles>> {
        self.0.archive_files(partition)
    }

    fn create_engine(
        &self,
        method: Method,
        options: &EngineOptions,
    ) -> storage::Result<Box<dyn Engine>> {
        engine::create(self, method, options)
    }

    fn open_engine(
        &self,
        method: Method,
        options: &EngineOptions,
        decide: Decide<'_>,
    ) -> storage::Result<Box<dyn Engine>> {
        engine::open(self, method, options, decide)
    }
}
