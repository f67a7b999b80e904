//! The devices that are models: emulated and simulated ones, as one platform.
//!
//! A model says where its memories and files are ([`Model`]); the platform has the engines.

use crate::{Files, ModelledFiles};
use pmem::Either;
use pmem::device::NativeSource;
use pmem::device::emulated::EmulatedSource;
use pmem::device::simulated::SimulatedSource;
use std::sync::Arc;
use storage::engine::{Decide, Engine, EngineOptions, Method};
use storage::{EngineSource, Platform};

/// Memories of a model.
pub type ModelledMemories = Either<EmulatedSource<NativeSource>, SimulatedSource>;

/// A device that is a model.
#[derive(Clone)]
pub struct ModelledPlatform(Arc<dyn Model>);

/// The memories and files that an emulated or a simulated platform gives the partitions of a
/// database.
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
    type Files = Files;

    fn memories(&self, partition: u32) -> ModelledMemories {
        self.0.memories(partition)
    }

    fn files(&self, partition: u32) -> disk::Result<Files> {
        self.0.files(partition).map(Either::Second)
    }

    fn log_files(&self, partition: u32) -> disk::Result<Option<Files>> {
        Ok(self.0.log_files(partition)?.map(Either::Second))
    }

    fn archive_files(&self, partition: u32) -> disk::Result<Option<Files>> {
        Ok(self.0.archive_files(partition)?.map(Either::Second))
    }
}

impl EngineSource for ModelledPlatform {
    fn create_engine(
        &self,
        method: Method,
        options: &EngineOptions,
    ) -> storage::Result<Box<dyn Engine>> {
        crate::create(self, method, options)
    }

    fn open_engine(
        &self,
        method: Method,
        options: &EngineOptions,
        decide: Decide<'_>,
    ) -> storage::Result<Box<dyn Engine>> {
        crate::open(self, method, options, decide)
    }
}
