//! The place of a test's partition: a simulated world or a scratch directory.
//!
//! A [`Place`] outlives the engines that run in it, so a test can drop one and open the next. The
//! native scratch directory is in shared memory where there is some, because a sync of an ordinary
//! file would make the tests wait for the disk; it is removed with the place.

use disk::simulated::SimulatedDirectory;
use disk::{Directory, File};
use indelible::NativePlatform;
use pmem::Access;
use pmem::device::NativeOptions;
use pmem::device::simulated::{ImageChoice, SimulatedWorld, WorldOptions};
use std::collections::BTreeMap;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use storage::engine::{Decide, Engine, EngineOptions, Method};
use storage::{EngineSource, Result};
use torture::SimulatedPlatform;

/// Contents of files by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Bytes that a simulated memory can grow to.
const CAPACITY_BYTES: u64 = 64 << 20;

/// Options of an engine whose buffer pool is small: a test that opens many partitions would spend
/// most of its time on frames that it does not use.
pub fn small_engine() -> EngineOptions {
    EngineOptions {
        buffer_bytes: 1 << 20,
        ..EngineOptions::default()
    }
}

/// The devices that tests run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// A model of the processor's cache; a power cut loses unfenced stores.
    Simulated,
    /// Files of a scratch directory.
    Native,
}

impl Device {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Simulated, Self::Native];
}

/// Holds one partition.
pub struct Place {
    devices: Devices,
}

enum Devices {
    /// The world, and the one before the last power cut, whose memory the next one has.
    Simulated(SimulatedWorld, Option<SimulatedWorld>),
    Native(Scratch),
}

impl Place {
    /// An empty place.
    pub fn new(device: Device) -> Self {
        Self::with_seed(device, 1)
    }

    /// An empty place; the seed decides which garbage new simulated memory holds.
    pub fn with_seed(device: Device, seed: u64) -> Self {
        match device {
            Device::Simulated => Self::simulated(seed, CAPACITY_BYTES),
            Device::Native => Self {
                devices: Devices::Native(Scratch::new()),
            },
        }
    }

    /// A simulated world whose volatile memories hold this many bytes each.
    pub fn simulated(seed: u64, volatile_capacity_bytes: u64) -> Self {
        let world = SimulatedWorld::new(WorldOptions {
            seed,
            capacity_bytes: CAPACITY_BYTES,
            volatile_capacity_bytes,
            ..WorldOptions::default()
        });
        Self {
            devices: Devices::Simulated(world, None),
        }
    }

    /// Limits each durable memory and the files to this many bytes from now on; `None` lifts the
    /// limit. A limit below their size keeps them from growing. Does nothing in a scratch
    /// directory.
    pub fn limit_space(&self, bytes: Option<u64>) {
        if let Devices::Simulated(world, _) = &self.devices {
            world.limit_space(bytes);
            SimulatedDirectory::new(world).limit_space(bytes);
        }
    }

    /// Lets durable memories and files take no more bytes than they have now; those of a file that
    /// is removed can be used again.
    ///
    /// # Errors
    /// Those of the simulated files.
    pub fn fill_space(&self) -> Result<()> {
        if let Devices::Simulated(world, _) = &self.devices {
            let files = SimulatedDirectory::new(world);
            let mut used = 0;
            for name in files.list()? {
                used += files.open(&name)?.bytes()?;
            }
            files.limit_space(Some(used));
            world.limit_space(Some(1));
        }
        Ok(())
    }

    /// Creates the partition.
    pub fn create(&self, method: Method, options: &EngineOptions) -> Result<Box<dyn Engine>> {
        match &self.devices {
            Devices::Simulated(world, _) => {
                SimulatedPlatform::new(world).create_engine(method, options)
            }
            Devices::Native(scratch) => scratch.platform().create_engine(method, options),
        }
    }

    /// Opens the partition, which no engine may have open.
    pub fn open(
        &self,
        method: Method,
        options: &EngineOptions,
        decide: Decide<'_>,
    ) -> Result<Box<dyn Engine>> {
        match &self.devices {
            Devices::Simulated(world, _) => {
                SimulatedPlatform::new(world).open_engine(method, options, decide)
            }
            Devices::Native(scratch) => scratch.platform().open_engine(method, options, decide),
        }
    }

    /// Loses everything that is not surely durable; does nothing in a scratch directory, where only
    /// a process can die. No engine may be open.
    pub fn cut_power(&mut self) -> Result<()> {
        if let Devices::Simulated(world, last) = &mut self.devices {
            world.image_in(&ImageChoice::default(), last)?;
            mem::swap(world, last.as_mut().expect("just made"));
        }
        Ok(())
    }

    /// The files of a scratch directory, by name; of a simulated world, none.
    pub fn files(&self) -> std::io::Result<Files> {
        let mut files = Files::new();
        if let Devices::Native(scratch) = &self.devices {
            for entry in std::fs::read_dir(&scratch.path)? {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                files.insert(name.into_owned(), std::fs::read(&path)?);
            }
        }
        Ok(files)
    }

    /// A scratch directory with these files.
    pub fn with_files(files: &Files) -> std::io::Result<Self> {
        let scratch = Scratch::new();
        for (name, content) in files {
            std::fs::write(scratch.path.join(name), content)?;
        }
        Ok(Self {
            devices: Devices::Native(scratch),
        })
    }
}

/// A directory that is removed when it is dropped.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let shared = Path::new("/dev/shm");
        let parent = if shared.is_dir() {
            shared.to_owned()
        } else {
            std::env::temp_dir()
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("indelible-tests-{}-{number}", std::process::id());
        let path = parent.join(name);
        std::fs::create_dir(&path).expect("the directory for temporary files is writable");
        Self { path }
    }

    fn platform(&self) -> NativePlatform {
        NativePlatform::new(&self.path, Access::Write, NativeOptions::default())
            .expect("no test has two engines in one place")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A directory that cannot be removed stays; a test must not fail for it.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
