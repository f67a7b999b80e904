//! Bit flips: one bit in each 64 bytes of a small closed database is turned over, one flip at a time.
//!
//! Opening, the deep check and a scan of everything must end without a panic. A flip is *detected* if opening fails or the
//! deep check reports damage, and *harmless* if neither does and the content is unchanged: free space, dead log
//! records, slots that nobody uses. Anything else is wrong.

use crate::check::{Failure, Recovery, lock, read_state, verify};
use crate::drive::{Depth, Driver, Oracle, SharedOracle};
use crate::generate::{Random, first_rows, row};
use crate::model::{Action, MAIN, State, Step};
use crate::platform::SimulatedPlatform;
use crate::search::{new_world, options};
use disk::simulated::SimulatedDirectory;
use disk::{Directory, File};
use pmem::device::simulated::{ImageChoice, SimulatedWorld, mix};
use pmem::site;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;
use storage::engine::{Durability, Method, create};

/// Bytes of which one bit is flipped.
const STRIDE: u64 = 64;
/// Rows in the database.
const ROWS: i64 = 60;

/// What became of the flips.
#[derive(Clone, Debug, Default)]
pub struct FlipReport {
    /// Flips tried.
    pub flips: u64,
    /// Flips that opening or the deep check noticed.
    pub detected: u64,
    /// Flips that changed nothing that is read.
    pub harmless: u64,
    /// Places of the harmless flips: memory or file, byte, bit.
    pub harmless_places: Vec<(String, u64, u8)>,
    /// Wrong answers and panics, with their places.
    pub wrong: Vec<String>,
    /// Longest time of one flip, seconds.
    pub longest_s: f64,
    /// Time taken, seconds.
    pub seconds: f64,
}

/// Flips one random bit in each 64 bytes of everything durable that the method keeps.
pub fn flip(method: Method, seed: u64) -> Result<FlipReport, Failure> {
    let start = Instant::now();
    let world = new_world(seed);
    let mut options = options(seed);
    // Long enough that a part of the log lies behind the checkpoint.
    options.checkpoint_log_bytes = 64 << 10;
    let (expected, oracle) = build(&world, method, &options, seed)?;
    let recovery = Recovery::new(method, options);
    let mut report = FlipReport::default();
    let mut image = world
        .image(&ImageChoice::default())
        .map_err(|error| Failure::new("image", error))?;
    for target in targets(&world)? {
        for at in (0..target.bytes).step_by(STRIDE as usize) {
            let random = mix(seed ^ at.wrapping_mul(0x9e37) ^ target.name.len() as u64);
            let place = (at + random % STRIDE).min(target.bytes - 1);
            let bit = (random >> 32) as u8 % 8;
            world
                .image_into(&ImageChoice::default(), &mut image)
                .map_err(|error| Failure::new("image", error))?;
            target.damage(&image, place, 1 << bit)?;
            let begun = Instant::now();
            let tried = catch_unwind(AssertUnwindSafe(|| look(&recovery, &image, &oracle)));
            report.longest_s = report.longest_s.max(begun.elapsed().as_secs_f64());
            let name = format!("{} byte {place} bit {bit}", target.name);
            report.flips += 1;
            match tried {
                Err(panic) => {
                    report
                        .wrong
                        .push(format!("{name}: {}", Failure::panicked(&*panic)));
                    image = world
                        .image(&ImageChoice::default())
                        .map_err(|error| Failure::new("image", error))?;
                }
                Ok(Err(_)) => report.detected += 1,
                Ok(Ok(found)) if found == expected => {
                    report.harmless += 1;
                    report
                        .harmless_places
                        .push((target.name.clone(), place, bit));
                }
                Ok(Ok(_)) => report
                    .wrong
                    .push(format!("{name}: other content, and no error")),
            }
        }
    }
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

/// A database with some history, closed. Returns its content.
fn build(
    world: &SimulatedWorld,
    method: Method,
    options: &storage::engine::EngineOptions,
    seed: u64,
) -> Result<(State, Oracle), Failure> {
    let platform = SimulatedPlatform::new(world);
    let engine =
        create(&platform, method, options).map_err(|error| Failure::new("creation", error))?;
    let oracle: SharedOracle = Arc::default();
    let durability = Durability::Immediate;
    let mut driver = Driver::new(
        engine,
        world,
        Arc::clone(&oracle),
        State::default(),
        durability,
    );
    let mut random = Random::new(seed);
    driver.populate(&first_rows(&mut random, ROWS))?;
    driver.run(&Action::Commit(vec![Step::Delete(4)]))?;
    driver.run(&Action::Checkpoint)?;
    for key in [5, 7, 9] {
        driver.run(&Action::Commit(vec![Step::Insert(
            MAIN,
            row(&mut random, key),
        )]))?;
    }
    driver.run(&Action::Commit(vec![Step::Delete(8)]))?;
    driver.compare(Depth::Structure)?;
    let closed = driver.engine.close();
    closed.map_err(|error| Failure::new("close", error))?;
    let oracle = lock(&oracle).clone();
    Ok((driver.state.clone(), oracle))
}

/// Opens, checks and reads. An error is a flip that was detected.
fn look(recovery: &Recovery, image: &SimulatedWorld, oracle: &Oracle) -> Result<State, Failure> {
    let mut engine = recovery
        .open(image, oracle)
        .map_err(|error| Failure::new("recovery", error))?;
    verify(&mut *engine)?;
    read_state(&mut *engine)
}

/// A memory or file.
struct Target {
    name: String,
    bytes: u64,
    is_file: bool,
}

/// Everything durable of partition 0.
fn targets(world: &SimulatedWorld) -> Result<Vec<Target>, Failure> {
    let mut targets = Vec::new();
    if let Some(content) = world.content(POOL) {
        let bytes = content.len() as u64;
        targets.push(Target {
            name: POOL.to_owned(),
            bytes,
            is_file: false,
        });
    }
    let files = SimulatedDirectory::new(world);
    let failed = |error| Failure::new("listing files", error);
    for name in files.list().map_err(failed)? {
        let bytes = files
            .open(&name)
            .and_then(|file| file.bytes())
            .map_err(failed)?;
        if bytes > 0 {
            targets.push(Target {
                name,
                bytes,
                is_file: true,
            });
        }
    }
    Ok(targets)
}

const POOL: &str = "p0.pool";

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
