//! The checks of a recovered image.
//!
//! Its content must be one of the oracle's states; the engine's deep check must find no damage; a
//! second recovery must store nothing; a cut in recovery must be recoverable; and the engine must
//! go on working.

use crate::compare::{fields, find_state, scan};
use crate::drive::{Depth, Driver, Oracle};
use crate::generate::{Random, action, growth};
use crate::model::{Action, Contents, MAIN, State, index_numbers, table_number};
use indelible::SimulatedPlatform;
use pmem::device::simulated::{CrashPoint, ImageChoice, ImageChoices, SimulatedWorld, mix};
use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use storage::EngineSource;
use storage::StorageError;
use storage::engine::{AfterCrash, Durability, Engine, EngineOptions, Idle, Method};
use storage::record::Value;

/// Transactions that a recovered engine has to run.
const LIFE_AFTER: usize = 20;
/// One in this many crash points of the life after recovery has its image checked.
const LIFE_IMAGE_ONE_IN: u64 = 48;
/// One in this many lives ends with the growth of the pool, unless set otherwise.
const GROWTH_ONE_IN: u64 = 64;
/// Numbers of the transactions of a life after recovery start here.
pub(crate) const LIFE_NUMBERS: u64 = 1 << 32;
/// Key of the row that makes it grow.
const GROWTH_KEY: i64 = 1_000_000;
/// How often a recovery is cut off in a row.
const DEPTH: u32 = 3;
/// Images taken at a crash point inside of a recovery, by level of nesting.
const NESTED_IMAGES: [u64; DEPTH as usize] = [1, 1, 1];
/// Images among which they are chosen.
const NESTED_CHOICES: usize = 6;
/// Crash points of a recovery that are all tried; later ones are tried less and less often. With
/// three levels an image would take minutes: some recoveries have hundreds of points.
const ALL_POINTS: u64 = 64;
/// The same where pages go to an area, which has a fence for each batch of them, and of a recovery
/// that comes after one that was cut off.
const FEW_POINTS: u64 = 8;
/// Images inside of the recovery of one image after which its later crash points are recovered
/// without being cut off again.
const NESTED_MAX: u64 = 1000;

/// A state that must not be.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

impl Failure {
    pub(crate) fn new(what: &str, error: impl Display) -> Self {
        Self(format!("{what}: {error}"))
    }

    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Self(format!(
            "panic: {}",
            text.unwrap_or_else(|| "no message".into())
        ))
    }
}

/// Settings with which images are recovered.
#[derive(Clone)]
pub(crate) struct Recovery {
    method: Method,
    options: EngineOptions,
    /// One in this many lives ends with the growth of the pool.
    growth_one_in: u64,
    /// How often it grows then.
    growths: i64,
    /// Images at the first crash point of each site in a life after recovery.
    site_images: u64,
    /// How often a recovery is cut off in a row.
    depth: u32,
    scratch: Scratch,
    known: Option<Known>,
}

/// How thoroughly one image is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Thoroughness {
    /// Recovered once.
    Plain,
    /// Cut off in its recovery as well, and recovered again.
    Nested,
    /// The same, and used afterwards.
    Deep,
}

/// Result of examining an image.
#[derive(Clone, Debug)]
pub(crate) struct Examined {
    /// Its content; none if the partition was not made yet.
    pub(crate) state: Option<Arc<State>>,
    /// Images that were taken inside of its recovery.
    pub(crate) nested: u64,
}

/// A recovered engine and its content.
pub(crate) type Checked = (Box<dyn Engine>, Arc<State>);

/// Worlds that hold images, one a level of nesting: making a world costs much more than making an
/// image in it.
#[derive(Clone, Default)]
struct Scratch(Arc<Mutex<Vec<SimulatedWorld>>>);

/// Images that were found to be right. The state that an image recovers to depends on its content
/// and on the decisions alone, so it is recovered again only to cut its recovery off more often.
/// The allowed states change more often, and are compared again.
#[derive(Clone, Default)]
struct Known(Arc<Mutex<HashMap<(u64, u64), KnownImage>>>);

struct KnownImage {
    state: Arc<State>,
    /// How often its recovery was cut off in a row.
    depth: u32,
}

impl Recovery {
    pub(crate) fn new(method: Method, options: EngineOptions) -> Self {
        Self {
            method,
            options,
            growth_one_in: GROWTH_ONE_IN,
            growths: 1,
            site_images: 1,
            depth: DEPTH,
            scratch: Scratch::default(),
            known: None,
        }
    }

    /// Recovers no image twice. Not for tests that note a recovery's reads.
    pub(crate) fn remembering(mut self) -> Self {
        self.known = Some(Known::default());
        self
    }

    /// Whether an image of this content is known to be right, its recovery cut off at least `depth`
    /// times in a row; an error if its known state is not allowed now.
    pub(crate) fn knows(&self, hash: u64, oracle: &Oracle, depth: u32) -> Result<bool, Failure> {
        let Some(known) = &self.known else {
            return Ok(false);
        };
        let known = lock(&known.0);
        let found = known.get(&(hash, oracle.decisions()));
        let Some(found) = found.filter(|found| found.depth >= depth) else {
            return Ok(false);
        };
        if oracle.allows(&found.state) {
            Ok(true)
        } else {
            Err(Failure::text("an image of an earlier or later state"))
        }
    }

    /// Remembers the state of an image of this content.
    fn learn(&self, hash: u64, oracle: &Oracle, state: Option<&Arc<State>>, depth: u32) {
        if let (Some(known), Some(state)) = (&self.known, state) {
            let image = KnownImage {
                state: Arc::clone(state),
                depth,
            };
            lock(&known.0).insert((hash, oracle.decisions()), image);
        }
    }

    /// Lets one in `one_in` lives end with the growth of the pool.
    pub(crate) fn growing(mut self, one_in: u64) -> Self {
        self.growth_one_in = one_in;
        self
    }

    /// Lets every life grow the pool, also where a growth was cut off and left room, and takes this
    /// many images at the first crash point of each site in it.
    pub(crate) fn growing_again(mut self, images: u64) -> Self {
        self.growth_one_in = 1;
        self.growths = 2;
        self.site_images = images;
        self
    }

    /// Cuts recoveries off so often in a row, at most three times.
    pub(crate) fn nesting(mut self, depth: u32) -> Self {
        self.depth = depth.min(DEPTH);
        self
    }

    /// A world to make images of `world` in. Levels are taken from the outermost inwards and given
    /// back in reverse.
    pub(crate) fn take_scratch(&self, world: &SimulatedWorld) -> Result<SimulatedWorld, Failure> {
        let spare = lock(&self.scratch.0).pop();
        match spare {
            Some(spare) => Ok(spare),
            None => world
                .image(&ImageChoice::default())
                .map_err(|error| Failure::new("image", error)),
        }
    }

    pub(crate) fn return_scratch(&self, world: SimulatedWorld) {
        lock(&self.scratch.0).push(world);
    }

    /// Recovers and checks an image of `world` by `choice`, whose hash is known to be `hash`.
    pub(crate) fn examine_choice(
        &self,
        world: &SimulatedWorld,
        (choice, hash): (&ImageChoice, u64),
        oracle: &Arc<Oracle>,
        thoroughness: Thoroughness,
        seed: u64,
    ) -> Result<Examined, Failure> {
        let make = |image: &mut SimulatedWorld| world.image_into(choice, image);
        let examined = self.examine(world, &make, oracle, thoroughness, seed)?;
        let depth = if thoroughness > Thoroughness::Plain {
            self.depth
        } else {
            0
        };
        self.learn(hash, oracle, examined.state.as_ref(), depth);
        Ok(examined)
    }

    /// Recovers and checks an image of `world`, which `make` makes.
    pub(crate) fn examine(
        &self,
        world: &SimulatedWorld,
        make: &dyn Fn(&mut SimulatedWorld) -> pmem::Result<()>,
        oracle: &Arc<Oracle>,
        thoroughness: Thoroughness,
        seed: u64,
    ) -> Result<Examined, Failure> {
        let result = catch_unwind(AssertUnwindSafe(|| {
            let mut image = self.take_scratch(world)?;
            make(&mut image).map_err(|error| Failure::new("image", error))?;
            let examined = if thoroughness > Thoroughness::Plain {
                let examined = self.check_nested(&image, oracle, seed, 0)?;
                image.unwatch();
                let again = self.check_again(&image, oracle)?;
                if let Some(again) = again.filter(|_| thoroughness == Thoroughness::Deep) {
                    self.check_life_after(&image, oracle, seed, again)?;
                }
                examined
            } else {
                let state = self.check(&image, oracle)?.map(|(_, state)| state);
                Examined { state, nested: 0 }
            };
            self.return_scratch(image);
            Ok(examined)
        }));
        result.unwrap_or_else(|panic| Err(Failure::panicked(&*panic)))
    }

    pub(crate) fn open(
        &self,
        world: &SimulatedWorld,
        oracle: &Oracle,
    ) -> Result<Box<dyn Engine>, StorageError> {
        let platform = SimulatedPlatform::new(world);
        platform.open_engine(self.method, &self.options, &|global| {
            oracle.decided.contains(&global.0)
        })
    }

    /// Recovers an image and checks content and structure. None if the partition need not be there
    /// yet.
    pub(crate) fn check(
        &self,
        world: &SimulatedWorld,
        oracle: &Oracle,
    ) -> Result<Option<Checked>, Failure> {
        let mut engine = match self.open(world, oracle) {
            Ok(engine) => engine,
            Err(_) if !oracle.created => return Ok(None),
            Err(error) => return Err(Failure::new("recovery", error)),
        };
        let found = find_state(&mut *engine, oracle.allowed.iter().map(|state| &**state))?;
        let Some(found) = found else {
            return Err(Failure(difference(&read_state(&mut *engine)?, oracle)));
        };
        verify(&mut *engine)?;
        if self.options.redoing == AfterCrash::BySteps {
            // Deferred redo that the opening has left to the driver of the engine.
            let closed = engine.idle().and_then(Idle::close);
            closed.map_err(|error| Failure::new("end of a recovery", error))?;
            drop(engine);
            let opened = self.open(world, oracle);
            engine = opened.map_err(|error| Failure::new("opening behind a recovery", error))?;
        }
        Ok(Some((engine, Arc::clone(&oracle.allowed[found]))))
    }

    /// After a check: a second recovery stores nothing.
    fn check_again(
        &self,
        world: &SimulatedWorld,
        oracle: &Oracle,
    ) -> Result<Option<Checked>, Failure> {
        let stores = world.stores();
        let checked = self.check(world, oracle)?;
        if checked.is_some() && world.stores() != stores {
            let count = world.stores() - stores;
            return Err(Failure(format!("a second recovery made {count} stores")));
        }
        Ok(checked)
    }

    /// Checks that the engine works on after two recoveries.
    fn check_life_after(
        &self,
        world: &SimulatedWorld,
        oracle: &Oracle,
        seed: u64,
        (engine, state): Checked,
    ) -> Result<(), Failure> {
        if state.tables.is_empty() {
            return Ok(());
        }
        let fresh = Arc::new(Mutex::new(Oracle {
            decided: oracle.decided.clone(),
            ..Oracle::default()
        }));
        let mut driver = Driver::new(engine, world, fresh, state, Durability::Immediate);
        driver.number_from(LIFE_NUMBERS);
        let failures = self.watch_life(world, &driver, seed);
        let result = self.live(&mut driver, seed, LIFE_AFTER);
        world.unobserve();
        if let Some(failure) = lock(&failures).take() {
            return Err(failure);
        }
        result.map_err(|failure| Failure::new("life after recovery", failure))?;
        let oracle = lock(&driver.oracle).clone();
        drop(driver);
        self.check(world, &oracle)
            .map_err(|failure| Failure::new("after 20 transactions", failure))?;
        Ok(())
    }

    /// Opens a sound database that holds `state`, runs transactions, and checks their result.
    pub(crate) fn live_on(
        &self,
        world: &SimulatedWorld,
        oracle: &Oracle,
        state: &State,
        seed: u64,
    ) -> Result<(), Failure> {
        let engine = self
            .open(world, oracle)
            .map_err(|error| Failure::new("opening again", error))?;
        let fresh = Arc::new(Mutex::new(oracle.clone()));
        let durability = Durability::Immediate;
        let mut driver = Driver::new(engine, world, fresh, state.clone(), durability);
        driver.number_from(LIFE_NUMBERS);
        self.live(&mut driver, seed, LIFE_AFTER)
            .map_err(|failure| Failure::new("life", failure))?;
        let oracle = lock(&driver.oracle).clone();
        drop(driver);
        self.check(world, &oracle)
            .map_err(|failure| Failure::new("after 20 transactions", failure))?;
        Ok(())
    }

    /// Runs a number of transactions, and now and then one more that makes the pool grow.
    pub(crate) fn live(
        &self,
        driver: &mut Driver,
        seed: u64,
        transactions: usize,
    ) -> Result<(), Failure> {
        let mut random = Random::new(seed);
        let has_main = |driver: &Driver| driver.state.rows(MAIN).is_some();
        for _ in 0..transactions {
            let next = action(&mut random, &driver.state);
            driver.run(&next)?;
        }
        if has_main(driver) && seed.is_multiple_of(self.growth_one_in) {
            for number in 0..self.growths {
                driver.run(&Action::Commit(growth(GROWTH_KEY + number)))?;
            }
        }
        driver.compare(Depth::Content)
    }

    /// Takes images while a recovered engine works: one at the first crash point of each site, and
    /// now and then another.
    fn watch_life(
        &self,
        world: &SimulatedWorld,
        driver: &Driver,
        seed: u64,
    ) -> Arc<Mutex<Option<Failure>>> {
        let failure: Arc<Mutex<Option<Failure>>> = Arc::default();
        let (shared, oracle) = (Arc::clone(&failure), Arc::clone(&driver.oracle));
        let recovery = self.clone();
        let (mut points, mut sites) = (seed, HashSet::new());
        world.observe(move |world, point| {
            points = mix(points.wrapping_add(1));
            let is_new = matches!(point, CrashPoint::Fence(site) if sites.insert(site.name));
            if lock(&shared).is_some() || !(is_new || points.is_multiple_of(LIFE_IMAGE_ONE_IN)) {
                return;
            }
            let oracle = lock(&oracle).clone();
            let images = if is_new { recovery.site_images } else { 1 };
            let result = (0..images).try_for_each(|number| {
                let seed = points.wrapping_add(number);
                let cut = recovery.cut(world, &oracle, seed, 0, &|image| {
                    let state = recovery.check(image, &oracle)?.map(|(_, state)| state);
                    Ok(Examined { state, nested: 0 })
                });
                cut.map(|_| ())
            });
            *lock(&shared) = result.err().map(|failure| {
                Failure(format!(
                    "cut in the life after recovery, at {point:?}: {failure}"
                ))
            });
        });
        failure
    }

    /// Makes a random image of `world` and calls `examine`, which returns the image's state and
    /// counts images inside of its recovery, cut off `depth` times in a row; not if the image is
    /// known. Counts it as well.
    fn cut(
        &self,
        world: &SimulatedWorld,
        oracle: &Oracle,
        seed: u64,
        depth: u32,
        examine: &dyn Fn(&SimulatedWorld) -> Result<Examined, Failure>,
    ) -> Result<u64, Failure> {
        let mut choices: Vec<_> = ImageChoices::bounded(world, seed, NESTED_CHOICES).collect();
        let choice = choices.swap_remove(mix(seed) as usize % choices.len());
        self.cut_choice(world, oracle, &choice, depth, examine)
    }

    /// As [`Recovery::cut`], with the image by `choice`.
    pub(crate) fn cut_choice(
        &self,
        world: &SimulatedWorld,
        oracle: &Oracle,
        choice: &ImageChoice,
        depth: u32,
        examine: &dyn Fn(&SimulatedWorld) -> Result<Examined, Failure>,
    ) -> Result<u64, Failure> {
        let hash = world.image_hash(choice);
        if self.knows(hash, oracle, depth)? {
            return Ok(0);
        }
        let mut image = self.take_scratch(world)?;
        world
            .image_into(choice, &mut image)
            .map_err(|error| Failure::new("image", error))?;
        let examined = examine(&image)?;
        self.learn(hash, oracle, examined.state.as_ref(), depth);
        self.return_scratch(image);
        Ok(examined.nested + 1)
    }

    /// Recovers and checks an image, and cuts the recovery off at its own crash points, [`DEPTH`]
    /// times over.
    fn check_nested(
        &self,
        world: &SimulatedWorld,
        oracle: &Arc<Oracle>,
        seed: u64,
        level: u32,
    ) -> Result<Examined, Failure> {
        let found: Arc<Mutex<Result<u64, Failure>>> = Arc::new(Mutex::new(Ok(0)));
        let (shared, recovery, allowed) = (Arc::clone(&found), self.clone(), Arc::clone(oracle));
        let mut points = 0;
        if self.depth == 0 {
            let state = self.check(world, oracle)?.map(|(_, state)| state);
            return Ok(Examined { state, nested: 0 });
        }
        let all_of = if level > 0 || self.method.has_area() {
            FEW_POINTS
        } else {
            ALL_POINTS
        };
        world.observe(move |world, _| {
            points += 1;
            if points > all_of && mix(seed.wrapping_sub(points)) % points >= all_of {
                return;
            }
            let mut total = lock(&shared);
            let Ok(count) = &mut *total else { return };
            let left = if *count < NESTED_MAX {
                recovery.depth - (level + 1)
            } else {
                0
            };
            match recovery.nested_images(world, &allowed, mix(seed ^ points), (level, left)) {
                Ok(more) => *count += more,
                Err(failure) => *total = Err(failure),
            }
        });
        let result = self.check(world, oracle);
        world.unobserve();
        let state = result?.map(|(_, state)| state);
        let nested = lock(&found).clone()?;
        Ok(Examined { state, nested })
    }

    /// Looks at images of one crash point inside of a recovery, whose own recoveries are cut off
    /// `depth` times in a row.
    fn nested_images(
        &self,
        world: &SimulatedWorld,
        oracle: &Arc<Oracle>,
        seed: u64,
        (level, depth): (u32, u32),
    ) -> Result<u64, Failure> {
        let images = NESTED_IMAGES[level as usize];
        // Of the many nested points, deeper levels see one in two.
        if level > 0 && seed.is_multiple_of(2) {
            return Ok(0);
        }
        let mut count = 0;
        for number in 0..images {
            let result = self.cut(world, oracle, seed.wrapping_add(number), depth, &|image| {
                if depth > 0 {
                    self.check_nested(image, oracle, seed.wrapping_add(1), level + 1)
                } else {
                    let state = self.check(image, oracle)?.map(|(_, state)| state);
                    Ok(Examined { state, nested: 0 })
                }
            });
            count += result.map_err(|failure| Failure::new("cut in recovery", failure))?;
        }
        Ok(count)
    }
}

/// Fails if the deep check finds damage.
pub(crate) fn verify(engine: &mut dyn Engine) -> Result<(), Failure> {
    let report = engine
        .verify()
        .map_err(|error| Failure::new("verify", error))?;
    match report.damage.first() {
        Some(damage) => Err(Failure::new("verify", damage)),
        None => Ok(()),
    }
}

/// Everything that the engine holds.
pub(crate) fn read_state(engine: &mut dyn Engine) -> Result<State, Failure> {
    let mut state = State::default();
    engine
        .begin()
        .map_err(|error| Failure::new("begin", error))?;
    for table in engine.tables() {
        let mut contents = Contents {
            indexes: index_numbers(&table.def),
            ..Contents::default()
        };
        scan(engine, &table, &mut |row| {
            let values = fields(row);
            if let Some(&Value::Int64(key)) = values.0.first() {
                contents.rows.insert(key, values);
            }
            ControlFlow::Continue(())
        })?;
        state.tables.insert(table_number(&table.def).0, contents);
    }
    engine
        .abort()
        .map_err(|error| Failure::new("end of reading", error))?;
    Ok(state)
}

/// Locks, also after a panic elsewhere.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fails unless the engine refused for a duplicate key.
pub(crate) fn refused(result: Result<(), StorageError>) -> Result<(), Failure> {
    match result {
        Err(StorageError::DuplicateKey { .. }) => Ok(()),
        Err(error) => Err(Failure::new("schema change", error)),
        Ok(()) => Err(Failure::text(
            "a unique index was built over duplicate keys",
        )),
    }
}

/// The first difference between the state found and the nearest allowed one.
fn difference(found: &State, oracle: &Oracle) -> String {
    let Some(expected) = oracle.allowed.front() else {
        return "nothing is allowed".into();
    };
    if oracle.allowed.iter().any(|state| **state == *found) {
        return "rows come twice, or not in the order of their keys".into();
    }
    for (id, contents) in &expected.tables {
        let Some(other) = found.tables.get(id) else {
            return format!("table {id} is missing");
        };
        for (key, row) in &contents.rows {
            match other.rows.get(key) {
                None => return format!("table {id}: row {key} is missing"),
                Some(other) if other != row => {
                    return format!("table {id}: row {key} is {other:?}, not {row:?}");
                }
                Some(_) => {}
            }
        }
        if let Some(key) = other
            .rows
            .keys()
            .find(|key| !contents.rows.contains_key(key))
        {
            return format!("table {id}: row {key} should not be there");
        }
        if other.indexes != contents.indexes {
            return format!(
                "table {id} has indexes {:?}, not {:?}",
                other.indexes, contents.indexes
            );
        }
    }
    let names: Vec<_> = found.tables.keys().collect();
    format!("tables {names:?} are not those of any allowed state")
}
