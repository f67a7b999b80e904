//! The death of the process, and the recovery of the next one.
//!
//! A power cut leaves clean caches, so a recovery after one reads durable bytes only. After a kill
//! or a panic the next process sees every store and write. Those that no fence or sync had made
//! certain may still be lost by a later power cut, each line and write by itself. So each death is
//! followed by power cuts: inside of the recovery, when the database has been opened, and in the
//! transactions after that; and by further deaths.
//!
//! Invariant: until the next process has opened the database, an image may hold any state that a
//! power cut at the death might have left. Once opening has returned, an image holds the state that
//! *the opened database shows*, because a reader may act on a value without knowing that it was
//! never acknowledged. That state has the acknowledged transactions and at most those under way,
//! whole.

use crate::check::{Checked, Examined, Failure, LIFE_NUMBERS, Recovery, lock};
use crate::drive::{Driver, Oracle, SharedOracle};
use pmem::device::simulated::{CrashPoint, ImageChoice, ImageChoices, SimulatedWorld, mix};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use storage::engine::{Durability, Idle};

/// Images at each crash point of a recovery after a death, that in which nothing undecided survives
/// among them.
const RECOVERY_IMAGES: usize = 2;
/// Images when the database has been opened.
const SHOWN_IMAGES: usize = 6;
/// Transactions that the next process runs.
const LIFE: usize = 10;
/// One in this many of their crash points has images taken; the first one at each site has as well.
const LIFE_POINT_ONE_IN: u64 = 8;
/// Images among which all but the first of a crash point are chosen.
const CHOICES: usize = 6;
/// One in this many recoveries dies at one of its own crash points.
const DEATH_IN_RECOVERY_ONE_IN: u64 = 6;
/// How often processes die in a row.
const DEATHS: u32 = 3;

/// The images that were taken of one process, and the first of them that was wrong.
type Found = Arc<Mutex<Result<u64, Failure>>>;

impl Recovery {
    /// Lets the process that runs in `world` die and the next one recover. Counts the images that
    /// were taken.
    pub(crate) fn examine_death(
        &self,
        world: &SimulatedWorld,
        oracle: &Oracle,
        seed: u64,
    ) -> Result<u64, Failure> {
        let result = catch_unwind(AssertUnwindSafe(|| self.die(world, oracle, seed, 1)));
        let result = result.unwrap_or_else(|panic| Err(Failure::panicked(&*panic)));
        result.map_err(|failure| Failure::new("after the death of the process", failure))
    }

    /// The process that runs in `world` dies; it is the one with this number to do so.
    fn die(
        &self,
        world: &SimulatedWorld,
        oracle: &Oracle,
        seed: u64,
        death: u32,
    ) -> Result<u64, Failure> {
        let mut next = self.take_scratch(world)?;
        world
            .death_into(&mut next)
            .map_err(|error| Failure::new("image", error))?;
        let images = self.next_process(&next, oracle, seed, death)?;
        self.return_scratch(next);
        Ok(images)
    }

    /// The next process opens the database, and closes it, dies, or runs transactions.
    fn next_process(
        &self,
        world: &SimulatedWorld,
        oracle: &Oracle,
        seed: u64,
        death: u32,
    ) -> Result<u64, Failure> {
        let found: Found = Arc::new(Mutex::new(Ok(0)));
        self.watch_recovery(world, oracle, &found, (seed, death));
        let opened = self.check(world, oracle);
        world.unobserve();
        let images = lock(&found).clone()?;
        let Some((mut engine, state)) = opened? else {
            return Ok(images);
        };
        let shown = Oracle {
            allowed: [Arc::clone(&state)].into(),
            decided: oracle.decided.clone(),
            created: true,
        };
        let lost = |failure| Failure::new("cut after what the opened database showed", failure);
        let mut images = images + self.cuts(world, &shown, seed, SHOWN_IMAGES).map_err(lost)?;
        let seed = mix(seed ^ 1);
        match seed % 4 {
            0 if death < DEATHS => images += self.die(world, &shown, seed, death + 1)?,
            1 => {
                engine
                    .idle()
                    .and_then(Idle::close)
                    .map_err(|error| Failure::new("closing", error))?;
                drop(engine);
                images += self.cuts(world, &shown, seed, SHOWN_IMAGES).map_err(lost)?;
            }
            _ => images += self.live_after_death(world, &shown, seed, (engine, state))?,
        }
        Ok(images)
    }

    /// Cuts the power at each crash point of a recovery, and now and then lets it die at one.
    fn watch_recovery(
        &self,
        world: &SimulatedWorld,
        oracle: &Oracle,
        found: &Found,
        (seed, death): (u64, u32),
    ) {
        let (recovery, oracle, found) = (self.clone(), oracle.clone(), Arc::clone(found));
        let dies = death < DEATHS && mix(seed).is_multiple_of(DEATH_IN_RECOVERY_ONE_IN);
        let mut points = seed;
        world.observe(move |world, _| {
            points = mix(points.wrapping_add(1));
            count(&found, || {
                let mut images = recovery.cuts(world, &oracle, points, RECOVERY_IMAGES)?;
                if dies && points.is_multiple_of(2) {
                    images += recovery.die(world, &oracle, points, death + 1)?;
                }
                Ok(images)
            });
        });
    }

    /// Runs transactions on the database that the next process has opened, with power cuts in them.
    fn live_after_death(
        &self,
        world: &SimulatedWorld,
        shown: &Oracle,
        seed: u64,
        (engine, state): Checked,
    ) -> Result<u64, Failure> {
        if state.tables.is_empty() {
            return Ok(0);
        }
        let oracle: SharedOracle = Arc::new(Mutex::new(shown.clone()));
        let durability = Durability::Immediate;
        let mut driver = Driver::new(engine, world, oracle, state, durability);
        driver.number_from(LIFE_NUMBERS);
        let found: Found = Arc::new(Mutex::new(Ok(0)));
        self.watch_transactions(world, &driver, &found, seed);
        let result = self.live(&mut driver, seed, LIFE);
        world.unobserve();
        let images = lock(&found).clone();
        let images = images.map_err(|failure| Failure::new("cut in the life after it", failure))?;
        result.map_err(|failure| Failure::new("life after it", failure))?;
        let oracle = lock(&driver.oracle).clone();
        // This process dies as well, and the one after it opens the database.
        drop(driver);
        self.check(world, &oracle)
            .map_err(|failure| Failure::new("after the transactions of the next one", failure))?;
        Ok(images)
    }

    fn watch_transactions(
        &self,
        world: &SimulatedWorld,
        driver: &Driver,
        found: &Found,
        seed: u64,
    ) {
        let (recovery, found) = (self.clone(), Arc::clone(found));
        let oracle = Arc::clone(&driver.oracle);
        let (mut points, mut sites) = (seed, HashSet::new());
        world.observe(move |world, point| {
            points = mix(points.wrapping_add(1));
            let is_new = match point {
                CrashPoint::Fence(site) | CrashPoint::Sync(site) => sites.insert(site.name),
                _ => false,
            };
            if is_new || points.is_multiple_of(LIFE_POINT_ONE_IN) {
                let oracle = lock(&oracle).clone();
                count(&found, || recovery.cuts(world, &oracle, points, 2));
            }
        });
    }

    /// Cuts the power `images` times at this moment: nothing undecided survives the first, anything
    /// the others.
    fn cuts(
        &self,
        world: &SimulatedWorld,
        oracle: &Oracle,
        seed: u64,
        images: usize,
    ) -> Result<u64, Failure> {
        let mut count = 0;
        for number in 0..images {
            let choice = if number == 0 {
                ImageChoice::default()
            } else {
                let seed = mix(seed.wrapping_add(number as u64));
                let mut choices: Vec<_> = ImageChoices::bounded(world, seed, CHOICES).collect();
                if choices.len() < 2 {
                    break;
                }
                choices.swap_remove(1 + mix(seed) as usize % (choices.len() - 1))
            };
            count += self.cut_choice(world, oracle, &choice, 0, &|image| {
                let state = self.check(image, oracle)?.map(|(_, state)| state);
                Ok(Examined { state, nested: 0 })
            })?;
        }
        Ok(count)
    }
}

/// Adds the images that `take` takes, unless one was wrong before.
fn count(found: &Found, take: impl FnOnce() -> Result<u64, Failure>) {
    let mut found = lock(found);
    if let Ok(images) = &*found {
        *found = take().map(|more| images + more);
    }
}
