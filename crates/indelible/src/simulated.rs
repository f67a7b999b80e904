//! A database on a simulated device: memories and files of one world.
//!
//! All partitions share the world, so that one power cut hits them together. Used with
//! [`Database::create_on`](crate::Database::create_on) and
//! [`Database::open_on`](crate::Database::open_on) by crash tests.

use disk::simulated::SimulatedDirectory;
use engines::{Files, Model, ModelledFiles, ModelledMemories, ModelledPlatform};
use pmem::Either;
use pmem::device::simulated::SimulatedWorld;
use storage::engine::{Decide, Engine, EngineOptions, LogKind, Method};
use storage::{EngineSource, Platform};

/// Memories and files of one simulated world.
#[derive(Clone)]
pub struct SimulatedPlatform {
    modelled: ModelledPlatform,
    /// The same devices, without the archive.
    without_archive: ModelledPlatform,
}

impl SimulatedPlatform {
    /// The devices of `world`.
    pub fn new(world: &SimulatedWorld) -> Self {
        // Worlds of odd seeds have one.
        let has_archive = world.options().seed % 2 == 1;
        let modelled = |has_archive| {
            ModelledPlatform::new(World {
                world: world.clone(),
                has_archive,
            })
        };
        Self {
            modelled: modelled(has_archive),
            without_archive: modelled(false),
        }
    }

    /// A log in a series of files a session has no archive here. After a cut, the second opening
    /// cannot know that the first one has moved everything, so it would store a little again. The
    /// engine's own tests cut its archive at every sync.
    fn of(&self, method: Method) -> &ModelledPlatform {
        match method.axes() {
            Some(axes) if axes.log == LogKind::Decentralized => &self.without_archive,
            _ => &self.modelled,
        }
    }
}

/// Source of the partitions' devices.
struct World {
    world: SimulatedWorld,
    has_archive: bool,
}

impl Model for World {
    fn memories(&self, _partition: u32) -> ModelledMemories {
        Either::Second(self.world.source())
    }

    fn files(&self, _partition: u32) -> disk::Result<ModelledFiles> {
        Ok(Either::Second(SimulatedDirectory::new(&self.world)))
    }

    fn archive_files(&self, _partition: u32) -> disk::Result<Option<ModelledFiles>> {
        let directory = || Either::Second(SimulatedDirectory::named(&self.world, "archive"));
        Ok(self.has_archive.then(directory))
    }
}

impl Platform for SimulatedPlatform {
    type Memories = ModelledMemories;
    type Files = Files;

    fn memories(&self, partition: u32) -> ModelledMemories {
        self.modelled.memories(partition)
    }

    fn files(&self, partition: u32) -> disk::Result<Files> {
        self.modelled.files(partition)
    }

    fn archive_files(&self, partition: u32) -> disk::Result<Option<Files>> {
        self.modelled.archive_files(partition)
    }
}

impl EngineSource for SimulatedPlatform {
    fn create_engine(
        &self,
        method: Method,
        options: &EngineOptions,
    ) -> storage::Result<Box<dyn Engine>> {
        self.of(method).create_engine(method, options)
    }

    fn open_engine(
        &self,
        method: Method,
        options: &EngineOptions,
        decide: Decide<'_>,
    ) -> storage::Result<Box<dyn Engine>> {
        self.of(method).open_engine(method, options, decide)
    }
}
