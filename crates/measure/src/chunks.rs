//! Durable writes of chunks through the two interfaces of the device.
//!
//! The allocator interface stores a chunk, flushes its lines and fences; the filesystem interface
//! writes it into a file and syncs the file. Both go to the medium under the same directory, with
//! the instructions of the domain `flush`; on the emulated device both pass through one emulator,
//! which charges the file's copies and syncs like stores and flushes. Chunks follow each other or
//! lie at places drawn from the seed, in an area that was written once before, so that no page is
//! made meanwhile.

use anyhow::Result;
use disk::{
    Delays, Directory, EmulatedDirectory, EmulatorCharges, File, FileProfile, IoMode,
    NativeDirectory,
};
use pmem::device::emulated::{EmulatedSource, EmulationOptions, Emulator, Profile};
use pmem::device::{NativeOptions, NativeSource};
use pmem::{Memory, MemorySource, Part, Primitive, site};
use std::path::Path;
use std::time::{Duration, Instant};
use workload::random::Random;

/// The written area: more than a last-level cache, so that lines really go to memory.
const AREA_BYTES: u64 = 64 << 20;
/// Chunks between two looks at the clock.
const BURST: u64 = 64;
/// The area is made in pieces of this size.
const FILL_BYTES: usize = 1 << 20;

/// How chunks become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// Stored, flushed and fenced.
    Allocator,
    /// Written into a file, which is synced.
    Filesystem,
}

/// The device that the chunks are written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// This machine's own.
    Native,
    /// The same, with the costs of the model.
    Emulated,
}

/// The order of the chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One after the other.
    Sequential,
    /// At places that are drawn.
    Random,
}

/// The writes that are measured.
#[derive(Clone, Copy, Debug)]
pub struct Chunks {
    /// How a chunk becomes durable.
    pub interface: Interface,
    /// The device written to.
    pub device: Device,
    /// Where the next one goes.
    pub pattern: Pattern,
    /// Bytes of a chunk.
    pub bytes: usize,
    /// Of the places.
    pub seed: u64,
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Chunks that became durable.
    pub chunks: u64,
    /// The time that they took.
    pub seconds: f64,
}

/// Writes under a directory, `repeats` times for `duration` each.
pub fn measure(
    what: &Chunks,
    directory: &Path,
    repeats: u32,
    duration: Duration,
) -> Result<Vec<Written>> {
    let places = Places {
        sequential: what.pattern == Pattern::Sequential,
        chunk: what.bytes as u64,
        next: 0,
        random: Random::new(what.seed),
    };
    match what.interface {
        Interface::Allocator => {
            let source = native_memories(directory);
            match what.device {
                Device::Emulated => {
                    let source = EmulatedSource::new(source, emulator()?);
                    allocator(&source, places, repeats, duration)
                }
                Device::Native => allocator(&source, places, repeats, duration),
            }
        }
        Interface::Filesystem => {
            let directory = NativeDirectory::open(directory, IoMode::Buffered)?;
            match what.device {
                Device::Emulated => {
                    let emulator = emulator()?;
                    let clock = emulator.clock().clone();
                    let charges = EmulatorCharges::new(emulator, |_| Part::Log);
                    let files = EmulatedDirectory::new(
                        directory,
                        FileProfile::NONE,
                        clock,
                        Delays::default(),
                    );
                    filesystem(&files.charging(charges), places, repeats, duration)
                }
                Device::Native => filesystem(&directory, places, repeats, duration),
            }
        }
    }
}

fn native_memories(directory: &Path) -> NativeSource {
    let options = NativeOptions {
        primitive: Some(Primitive::Flush),
        ..NativeOptions::default()
    };
    NativeSource::new(directory, options)
}

/// The machine's memory, with the costs of the model.
fn emulator() -> Result<Emulator> {
    Ok(Emulator::new(EmulationOptions::new(Profile::DRAM))?)
}

fn allocator(
    source: &impl MemorySource,
    mut places: Places,
    repeats: u32,
    duration: Duration,
) -> Result<Vec<Written>> {
    let mut memory = source.create("chunks", AREA_BYTES)?;
    let zeros = vec![0; FILL_BYTES];
    for offset in (0..AREA_BYTES).step_by(FILL_BYTES) {
        memory.store(offset, &zeros);
    }
    let chunk = vec![0x5a; places.chunk as usize];
    let mut write = || -> Result<()> {
        let offset = places.take();
        memory.store(offset, &chunk);
        memory.flush(offset, chunk.len(), site!("lab.chunk"));
        Ok(memory.fence(site!("lab.chunk-fence"))?)
    };
    (0..repeats).map(|_| timed(duration, &mut write)).collect()
}

fn filesystem(
    directory: &impl Directory,
    mut places: Places,
    repeats: u32,
    duration: Duration,
) -> Result<Vec<Written>> {
    let mut file = directory.create("chunks")?;
    let zeros = vec![0; FILL_BYTES];
    for offset in (0..AREA_BYTES).step_by(FILL_BYTES) {
        file.write_at(offset, &zeros)?;
    }
    file.sync(site!("lab.area-sync"))?;
    let chunk = vec![0x5a; places.chunk as usize];
    let mut write = || -> Result<()> {
        file.write_at(places.take(), &chunk)?;
        Ok(file.sync(site!("lab.chunk-sync"))?)
    };
    (0..repeats).map(|_| timed(duration, &mut write)).collect()
}

/// Writes chunks for some time.
fn timed(duration: Duration, write: &mut impl FnMut() -> Result<()>) -> Result<Written> {
    let start = Instant::now();
    let mut chunks = 0;
    while start.elapsed() < duration {
        for _ in 0..BURST {
            write()?;
        }
        chunks += BURST;
    }
    Ok(Written {
        chunks,
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// Where chunks go.
struct Places {
    sequential: bool,
    chunk: u64,
    next: u64,
    random: Random,
}

impl Places {
    fn take(&mut self) -> u64 {
        let count = AREA_BYTES / self.chunk;
        let number = if self.sequential {
            self.next = (self.next + 1) % count;
            self.next
        } else {
            self.random.below(count)
        };
        number * self.chunk
    }
}
