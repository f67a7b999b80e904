//! The simulated platform: memories and files of one world.
//!
//! All partitions share the world, so that one power cut hits them together.

use disk::simulated::SimulatedDirectory;
use pmem::device::simulated::{SimulatedSource, SimulatedWorld};
use storage::Platform;
use storage::engine::{self, Decide, Engine, EngineOptions, Method};

/// Memories and files of one simulated world.
#[derive(Clone)]
pub struct SimulatedPlatform {
    world: SimulatedWorld,
}

impl SimulatedPlatform {
    /// The devices of `world`.
    pub fn new(world: &SimulatedWorld) -> Self {
        Self {
            world: world.clone(),
        }
    }
}

impl Platform for SimulatedPlatform {
    type Memories = SimulatedSource;
    type Files = SimulatedDirectory;

    fn memories(&self, _partition: u32) -> SimulatedSource {
        self.world.source()
    }

    fn files(&self, _partition: u32) -> Result<SimulatedDirectory, disk::DiskError> {
        Ok(SimulatedDirectory::new(&self.world))
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
