//! Durable writes of chunks through the interfaces of the device.
//!
//! The allocator interface stores a chunk, flushes its lines and fences; the filesystem interface
//! writes it into a file and syncs the file. Both go to the medium under the same directory, with
//! the instructions of the domain `flush`; on the emulated device both pass through one emulator,
//! which charges the file's copies and syncs like stores and flushes. Two more are for comparison:
//! a copy that nothing flushes, and stores into a mapped file that is synced. Chunks follow each
//! other or lie at places drawn from the seed, in an area that was written once before, so that no
//! page is made meanwhile.

use anyhow::Result;
use disk::{
    Delays, Directory, EmulatedDirectory, EmulatorCharges, File, FileProfile, IoMode,
    NativeDirectory,
};
use pmem::device::emulated::{EmulatedSource, EmulationOptions, Emulator, ModelTime, Profile};
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
    /// Stored and fenced: durable where caches survive a power cut.
    Copy,
    /// Stored into a mapped file, which is synced.
    Mapping,
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
    /// The time that they took, without that of an emulator's model.
    pub seconds: f64,
}

/// Writes under a directory for `duration`.
pub fn measure(what: &Chunks, directory: &Path, duration: Duration) -> Result<Written> {
    let places = Offsets {
        sequential: what.pattern == Pattern::Sequential,
        chunk: what.bytes as u64,
        next: 0,
        random: Random::new(what.seed),
    };
    let emulator = match what.device {
        Device::Emulated => Some(Emulator::new(EmulationOptions::new(Profile::DRAM))?),
        Device::Native => None,
    };
    let span = Span {
        duration,
        emulator: emulator.as_ref(),
    };
    match what.interface {
        Interface::Allocator | Interface::Copy | Interface::Mapping => {
            let source = native_memories(directory, what.interface);
            match emulator.clone() {
                Some(emulator) => allocator(&EmulatedSource::new(source, emulator), places, span),
                None => allocator(&source, places, span),
            }
        }
        Interface::Filesystem => {
            let directory = NativeDirectory::open(directory, IoMode::Buffered)?;
            let Some(emulator) = emulator.clone() else {
                return filesystem(&directory, places, span);
            };
            let clock = emulator.clock().clone();
            let charges = EmulatorCharges::new(emulator, |_| Part::Log);
            let files =
                EmulatedDirectory::new(directory, FileProfile::NONE, clock, Delays::default());
            filesystem(&files.charging(charges), places, span)
        }
    }
}

fn native_memories(directory: &Path, interface: Interface) -> NativeSource {
    let primitive = match interface {
        Interface::Copy => Primitive::FlushFree,
        Interface::Mapping => Primitive::File,
        Interface::Allocator | Interface::Filesystem => Primitive::Flush,
    };
    let options = NativeOptions {
        primitive: Some(primitive),
        ..NativeOptions::default()
    };
    NativeSource::new(directory, options)
}

fn allocator(source: &impl MemorySource, mut places: Offsets, span: Span<'_>) -> Result<Written> {
    let mut memory = source.create("chunks", AREA_BYTES)?;
    let zeros = vec![0; FILL_BYTES];
    for offset in (0..AREA_BYTES).step_by(FILL_BYTES) {
        memory.store(offset, &zeros);
    }
    let chunk = vec![0x5a; places.chunk as usize];
    span.timed(|| {
        let offset = places.take();
        memory.store(offset, &chunk);
        memory.flush(offset, chunk.len(), site!("lab.chunk"));
        Ok(memory.fence(site!("lab.chunk-fence"))?)
    })
}

fn filesystem(directory: &impl Directory, mut places: Offsets, span: Span<'_>) -> Result<Written> {
    let mut file = directory.create("chunks")?;
    let zeros = vec![0; FILL_BYTES];
    for offset in (0..AREA_BYTES).step_by(FILL_BYTES) {
        file.write_at(offset, &zeros)?;
    }
    file.sync(site!("lab.area-sync"))?;
    let chunk = vec![0x5a; places.chunk as usize];
    span.timed(|| {
        file.write_at(places.take(), &chunk)?;
        Ok(file.sync(site!("lab.chunk-sync"))?)
    })
}

/// How long chunks are written, and whose model is at work meanwhile.
struct Span<'e> {
    duration: Duration,
    emulator: Option<&'e Emulator>,
}

impl Span<'_> {
    fn model_time(&self) -> ModelTime {
        self.emulator.map(Emulator::model_time).unwrap_or_default()
    }

    /// Writes chunks for this time.
    fn timed(self, mut write: impl FnMut() -> Result<()>) -> Result<Written> {
        let (before, start) = (self.model_time(), Instant::now());
        let mut chunks = 0;
        while start.elapsed() < self.duration {
            for _ in 0..BURST {
                write()?;
            }
            chunks += BURST;
        }
        let seconds = start.elapsed().as_secs_f64();
        let model_s = self.model_time().since(&before).ns() / 1e9;
        Ok(Written {
            chunks,
            seconds: (seconds - model_s).max(seconds / 100.0),
        })
    }
}

/// Where chunks go.
struct Offsets {
    sequential: bool,
    chunk: u64,
    next: u64,
    random: Random,
}

impl Offsets {
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
