//! The database on an emulated device: the native one behind a model of cache, latency and bandwidth.
//!
//! Each partition has an emulator of its own with its share of the cache, so that counts do not depend on how threads happen
//! to interleave. Files charge their copies to the same emulator: in this hierarchy there is no other device.

use anyhow::Result;
use disk::{EmulatedDirectory, EmulatorCharges, FileProfile, IoMode, NativeDirectory};
use indelible::Platform;
use pmem::Part;
use pmem::device::emulated::{EmulatedSource, EmulationOptions, Emulator, Profile};
use pmem::device::{NativeOptions, NativeSource};
use std::path::PathBuf;

/// A directory behind one emulator a partition.
pub(super) struct EmulatedPlatform {
    path: PathBuf,
    native: NativeOptions,
    emulators: Vec<Emulator>,
}

impl EmulatedPlatform {
    /// An emulated device of this profile over an existing directory.
    pub(super) fn new(
        path: PathBuf,
        native: NativeOptions,
        profile: Profile,
        partitions: u32,
    ) -> Result<Self> {
        let options = EmulationOptions::new(profile).share(partitions);
        let emulators: Result<Vec<Emulator>, _> = (0..partitions)
            .map(|_| Emulator::new(options.clone()))
            .collect();
        Ok(Self {
            path,
            native,
            emulators: emulators?,
        })
    }

    fn emulator(&self, partition: u32) -> Emulator {
        // Files and memories that belong to no partition are charged to the first.
        let own = self
            .emulators
            .get(partition as usize)
            .or(self.emulators.first());
        own.expect("there is at least one partition").clone()
    }
}

impl Platform for EmulatedPlatform {
    type Memories = EmulatedSource<NativeSource>;
    type Files = EmulatedDirectory<NativeDirectory>;

    fn memories(&self, partition: u32) -> Self::Memories {
        EmulatedSource::new(
            NativeSource::new(&self.path, self.native),
            self.emulator(partition),
        )
    }

    fn files(&self, partition: u32) -> disk::Result<Self::Files> {
        let native = NativeDirectory::open(&self.path, IoMode::Buffered)?;
        let emulator = self.emulator(partition);
        let clock = emulator.clock().clone();
        let charges = EmulatorCharges::new(emulator, part_of_file);
        Ok(EmulatedDirectory::new(native, FileProfile::NONE, clock).charging(charges))
    }
}

/// Which part of the database a file is.
fn part_of_file(name: &str) -> Part {
    if name.contains(".wal") {
        Part::Log
    } else if name.contains(".checkpoint") {
        Part::Checkpoint
    } else {
        Part::Other
    }
}
