//! The simulated devices, on which a database gets engines with the options of a round.
//!
//! The search recovers images with the engine's options, which are smaller than a database allows:
//! deep trees of few rows, and logs that a round fills.

use crate::check::Failure;
use indelible::{Database, MethodOption, Options, SimulatedPlatform};
use pmem::device::simulated::SimulatedWorld;
use storage::engine::{Decide, Engine, EngineOptions, Method};
use storage::{EngineSource, Platform};

/// Session slots of methods that can have several.
const SESSIONS: u32 = 3;

struct RoundPlatform {
    simulated: SimulatedPlatform,
    options: EngineOptions,
}

impl Platform for RoundPlatform {
    type Memories = <SimulatedPlatform as Platform>::Memories;
    type Files = <SimulatedPlatform as Platform>::Files;

    fn memories(&self, partition: u32) -> Self::Memories {
        self.simulated.memories(partition)
    }

    fn files(&self, partition: u32) -> disk::Result<Self::Files> {
        self.simulated.files(partition)
    }

    fn archive_files(&self, partition: u32) -> disk::Result<Option<Self::Files>> {
        self.simulated.archive_files(partition)
    }
}

impl EngineSource for RoundPlatform {
    fn create_engine(&self, method: Method, _: &EngineOptions) -> storage::Result<Box<dyn Engine>> {
        self.simulated.create_engine(method, &self.options)
    }

    fn open_engine(
        &self,
        method: Method,
        _: &EngineOptions,
        decide: Decide<'_>,
    ) -> storage::Result<Box<dyn Engine>> {
        self.simulated.open_engine(method, &self.options, decide)
    }
}

/// A database of a round.
pub(crate) fn create(
    world: &SimulatedWorld,
    method: Method,
    engine: &EngineOptions,
) -> Result<Database, Failure> {
    let platform = RoundPlatform {
        simulated: SimulatedPlatform::new(world),
        options: engine.clone(),
    };
    let options = Options::new()
        .method(method)
        .fitting(method, [MethodOption::Sessions(SESSIONS)])
        .identity(engine.database_id)
        .group_transactions_max(engine.group_transactions_max)
        // One thread would wait for others to join its group.
        .group_wait_us_max(0)
        .retries_max(0);
    Database::create_on(platform, &options).map_err(|error| Failure::new("creation", error))
}
