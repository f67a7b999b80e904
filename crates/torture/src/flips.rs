//! Bit flips: single bits of a small closed database are inverted, one at a time.
//!
//! By default one bit in each 64 bytes of everything durable that the method keeps, chosen by the
//! seed; or every bit, or fewer in long files and memories. The simulated device makes a damaged
//! copy in microseconds, so all bits of a quarter of a megabyte are a matter of minutes.

use crate::check::Failure;
use crate::damage::{DamageReport, Spot, Subject, Trial, Tried, Verdict, Worker, sweep};
use crate::kinds::{ByteRange, judge, parts};
use crate::search::new_world;
use disk::simulated::SimulatedDirectory;
use disk::{Directory, File};
use indelible::SimulatedPlatform;
use pmem::device::simulated::{ImageChoice, SimulatedWorld, mix};
use pmem::site;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use storage::engine::Method;

/// Bytes of which one bit is flipped.
const STRIDE: u64 = 64;
/// In a full run one in this many harmless flips is followed by a life; in a short run all are.
const LIFE_ONE_IN: u64 = 16;

/// Which bits to flip.
#[derive(Clone, Copy, Debug)]
pub struct FlipConfig {
    /// The method under test.
    pub method: Method,
    /// Where all randomness comes from.
    pub seed: u64,
    /// How many.
    pub density: Density,
    /// Threads that work at it.
    pub threads: usize,
}

/// How many bits to flip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Density {
    /// All.
    EveryBit,
    /// One in each 64 bytes.
    Lines,
    /// The same, but at most this many in bytes of one kind in a file or memory: most of a ring is
    /// empty.
    Most(u64),
}

/// Flips bits. `progress` is called with the flips that are done and their number.
pub fn flip(
    config: &FlipConfig,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<DamageReport, Failure> {
    let config = *config;
    let flips = Flips::new(config)?;
    let bytes = flips.targets.iter().map(|target| target.bytes).sum();
    let kinds = flips.targets.iter().flat_map(|target| &target.kinds);
    let count = kinds.map(|kind| kind.trials(&config)).sum();
    drop(flips);
    let worker: Worker = Arc::new(move |_| {
        let mut flips = Flips::new(config)?;
        Ok(Box::new(move |number| flips.trial(number)) as Trial)
    });
    let report = sweep(count, config.threads, &worker, &mut |done| {
        progress(done, count);
    })?;
    let mut report = DamageReport { bytes, ..report };
    judge(config.method, &mut report);
    Ok(report)
}

/// One worker's database and the copy that it damages.
struct Flips {
    config: FlipConfig,
    world: SimulatedWorld,
    image: SimulatedWorld,
    subject: Subject,
    targets: Vec<Target>,
}

/// A memory or file.
struct Target {
    name: String,
    bytes: u64,
    is_file: bool,
    kinds: Vec<Kind>,
}

/// The bytes of a memory or file that are of one kind.
#[derive(Default)]
struct Kind {
    parts: Vec<ByteRange>,
    bytes: u64,
}

impl Flips {
    fn new(config: FlipConfig) -> Result<Self, Failure> {
        let world = new_world(config.seed);
        let platform = SimulatedPlatform::new(&world);
        let bytes = || lengths(&world).map_or(0, |all| all.iter().map(|one| one.1).sum());
        let subject = Subject::build(&platform, &world, config.method, config.seed, &bytes)?;
        let image = copy(&world)?;
        Ok(Self {
            config,
            // Of the image: a file that is kept for later may be longer in the world than is
            // durable.
            targets: targets(&image, &subject)?,
            image,
            world,
            subject,
        })
    }

    fn trial(&mut self, number: u64) -> Tried {
        let mut rest = number;
        for (index, target) in self.targets.iter().enumerate() {
            for kind in &target.kinds {
                let trials = kind.trials(&self.config);
                if rest >= trials {
                    rest -= trials;
                    continue;
                }
                let (byte, page, bit) = kind.place(rest, &self.config);
                let name = kind.name();
                let mut tried = Tried {
                    place: format!("{} byte {byte} bit {bit} ({name})", target.name),
                    spot: Some(Spot {
                        kind: name.to_owned(),
                        page: (index, page),
                    }),
                    verdict: Verdict::Harmless,
                };
                tried.verdict = self
                    .flip(target, byte, bit, number)
                    .unwrap_or_else(|failure| {
                        Verdict::Wrong(format!("the flip could not be tried: {failure}"))
                    });
                if matches!(tried.verdict, Verdict::Panic(_)) {
                    // State that a panic left open is dropped with its world.
                    match copy(&self.world) {
                        Ok(fresh) => self.image = fresh,
                        Err(failure) => tried.verdict = Verdict::Wrong(failure.0),
                    }
                }
                return tried;
            }
        }
        unreachable!("trials are counted in the same way");
    }

    fn flip(&self, target: &Target, byte: u64, bit: u8, number: u64) -> Result<Verdict, Failure> {
        let mut image = self.image.clone();
        self.world
            .image_into(&ImageChoice::default(), &mut image)
            .map_err(|error| Failure::new("image", error))?;
        target.damage(&image, byte, 1 << bit)?;
        let (subject, oracle) = (&self.subject, &self.subject.oracle);
        let verdict = subject.judge(&|| subject.recovery.open(&image, oracle));
        let has_life =
            self.config.density != Density::EveryBit || mix(number).is_multiple_of(LIFE_ONE_IN);
        if !has_life || !matches!(verdict, Verdict::Harmless) {
            return Ok(verdict);
        }
        let lived = catch_unwind(AssertUnwindSafe(|| {
            subject
                .recovery
                .live_on(&image, oracle, &subject.state, mix(number))
        }));
        Ok(match lived {
            Ok(Ok(())) => Verdict::Harmless,
            Ok(Err(failure)) => Verdict::Wrong(format!("not detected, and then {failure}")),
            Err(panic) => Verdict::Panic(Failure::panicked(&*panic).0),
        })
    }
}

fn copy(world: &SimulatedWorld) -> Result<SimulatedWorld, Failure> {
    world
        .image(&ImageChoice::default())
        .map_err(|error| Failure::new("image", error))
}

/// Name, length and whether it is a file, of everything durable.
fn lengths(world: &SimulatedWorld) -> Result<Vec<(String, u64, bool)>, Failure> {
    let memories = world.memory_lengths().into_iter();
    let mut lengths: Vec<_> = memories.map(|(name, bytes)| (name, bytes, false)).collect();
    let files = SimulatedDirectory::new(world);
    let failed = |error| Failure::new("listing files", error);
    for name in files.list().map_err(failed)? {
        let bytes = files
            .open(&name)
            .and_then(|file| file.bytes())
            .map_err(failed)?;
        lengths.push((name, bytes, true));
    }
    Ok(lengths)
}

/// Everything durable.
fn targets(world: &SimulatedWorld, subject: &Subject) -> Result<Vec<Target>, Failure> {
    let files = SimulatedDirectory::new(world);
    let mut targets = Vec::new();
    for (name, bytes, is_file) in lengths(world)? {
        let mut content = vec![0; bytes as usize];
        if is_file {
            let file = files.open(&name);
            file.and_then(|mut file| file.read_at(0, &mut content))
                .map_err(|error| Failure::new("reading a file", error))?;
        } else if let Some(memory) = world.content(&name) {
            content = memory;
        }
        let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
        for part in parts(subject.method, &subject.options, &name, &content) {
            let kind = kinds.entry(part.kind.clone()).or_default();
            kind.bytes += part.bytes;
            kind.parts.push(part);
        }
        targets.push(Target {
            name,
            bytes,
            is_file,
            kinds: kinds.into_values().collect(),
        });
    }
    Ok(targets)
}

impl Kind {
    fn name(&self) -> &str {
        self.parts.first().map_or("", |part| &part.kind)
    }

    /// Bytes of which one bit is flipped, or none if all are.
    fn stride(&self, config: &FlipConfig) -> Option<u64> {
        match config.density {
            Density::EveryBit => None,
            Density::Lines => Some(STRIDE),
            Density::Most(count) => Some(self.bytes.div_ceil(count.max(1)).max(STRIDE)),
        }
    }

    fn trials(&self, config: &FlipConfig) -> u64 {
        let stride = self.stride(config);
        stride.map_or(self.bytes * 8, |stride| self.bytes.div_ceil(stride))
    }

    /// The byte of a trial, where its page begins, and the bit.
    fn place(&self, trial: u64, config: &FlipConfig) -> (u64, u64, u8) {
        let (mut byte, bit) = match self.stride(config) {
            None => (trial / 8, (trial % 8) as u8),
            Some(stride) => {
                let at = trial * stride;
                let random = mix(config.seed ^ at.wrapping_mul(0x9e37) ^ self.name().len() as u64);
                let byte = (at + random % stride).min(self.bytes - 1);
                (byte, (random >> 32) as u8 % 8)
            }
        };
        for part in &self.parts {
            if byte < part.bytes {
                return (part.start + byte, part.start, bit);
            }
            byte -= part.bytes;
        }
        unreachable!("the bytes of a kind are those of its parts");
    }
}

impl Target {
    fn damage(&self, image: &SimulatedWorld, place: u64, mask: u8) -> Result<(), Failure> {
        if !self.is_file {
            return image
                .damage(&self.name, place, mask)
                .map_err(|error| Failure::new("damage", error));
        }
        let failed = |error| Failure::new("damage", error);
        let mut file = SimulatedDirectory::new(image)
            .open(&self.name)
            .map_err(failed)?;
        let mut byte = [0];
        file.read_at(place, &mut byte).map_err(failed)?;
        file.write_at(place, &[byte[0] ^ mask]).map_err(failed)?;
        file.sync(site!("flips.damage")).map_err(failed)
    }
}
