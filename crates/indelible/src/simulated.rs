//! A database on a simulated device: memories and files of one world.
//!
//! All partitions share the world, so that one power cut hits them together. Used with
//! [`Database::create_on`](crate::Database::create_on) and [`Database::open_on`](crate::Database::open_on) by crash tests.

use disk::simulated::SimulatedDirectory;
use modelled::{Model, ModelledFiles, ModelledMemories, ModelledPlatform};
use pmem::Either;
use pmem::device::simulated::SimulatedWorld;
use storage::Platform;
use storage::engine::{Decide, Engine, EngineOptions, Method};

/// Memories and files of one simulated world.
#[derive(Clone)]
pub struct SimulatedPlatform(ModelledPlatform);

impl SimulatedPlatform {
    /// The devices of `world`.
    pub fn new(world: &SimulatedWorld) -> Self {
        Self(ModelledPlatform::new(World(world.clone())))
    }
}

/// What the partitions take their devices from.
struct World(SimulatedWorld);

impl Model for World {
    fn memories(&self, _partition: u32) -> ModelledMemories {
        Either::Second(self.0.source())
    }

    fn files(&self, _partition: u32) -> disk::Result<ModelledFiles> {
        Ok(Either::Second(SimulatedDirectory::new(&self.0)))
    }

    /// Worlds of odd seeds have one.
    fn archive_files(&self, _partition: u32) -> disk::Result<Option<ModelledFiles>> {
        let has_archive = self.0.options().seed % 2 == 1;
        let directory = || Either::Second(SimulatedDirectory::named(&self.0, "archive"));
        Ok(has_archive.then(directory))
    }
}

impl Platform for SimulatedPlatform {
    type Memories = ModelledMemories;
    type Files = ModelledFiles;

    fn memories(&self, partition: u32) -> ModelledMemories {
        self.0.memories(partition)
    }

    fn files(&self, partition: u32) -> disk::Result<ModelledFiles> {
        self.0.files(partition)
    }

    fn archive_files(&self, partition: u32) -> disk::Result<Option<ModelledFiles>> {
        self.0.archive_files(partition)
    }

    fn create_engine(
        &self,
        method: Method,
        options: &EngineOptions,
    ) -> storage::Result<Box<dyn Engine>> {
        self.0.create_engine(method, options)
    }

    fn open_engine(
        &self,
        method: Method,
        options: &EngineOptions,
        decide: Decide<'_>,
    ) -> storage::Result<Box<dyn Engine>> {
        self.0.open_engine(method, options, decide)
    }
}
