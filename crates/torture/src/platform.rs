//! The simulated platform: memories and files of one world.
//!
//! All partitions share the world, so that one power cut hits them together.

use disk::simulated::SimulatedDirectory;
use pmem::device::simulated::{SimulatedSource, SimulatedWorld};
use storage::Platform;

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
}
