//! What is checked of a recovered image.
//!
//! Its content must be one of the oracle's states; the engine's deep check must find no damage; a second recovery must store
//! nothing; a cut in recovery must be recoverable; and the engine must go on working.

use crate::drive::{Driver, Oracle};
use crate::generate::{Random, action};
use crate::model::{Contents, Fields, State};
use crate::platform::SimulatedPlatform;
use pmem::device::simulated::{ImageChoices, SimulatedWorld};
use std::fmt::Display;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use storage::StorageError;
use storage::engine::{Direction, Durability, Engine, EngineOptions, Method, ScanRange, open};
use storage::record::{KeyBuf, Value};

/// Transactions that a recovered engine has to run.
const LIFE_AFTER: usize = 20;
/// Images taken at each crash point inside of a recovery.
const NESTED_IMAGES: usize = 3;

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
}

/// What images are recovered with.
#[derive(Clone)]
pub(crate) struct Recovery {
    pub(crate) method: Method,
    pub(crate) options: EngineOptions,
}

impl Recovery {
    fn open(
        &self,
        world: &SimulatedWorld,
        oracle: &Oracle,
    ) -> Result<Box<dyn Engine>, StorageError> {
        let platform = SimulatedPlatform::new(world);
        open(&platform, self.method, &self.options, &|global| {
            oracle.decided.contains(&global.0)
        })
    }

    /// Recovers an image and checks content and structure. None if the partition need not be there yet.
    pub(crate) fn check(
        &self,
        world: &SimulatedWorld,
        oracle: &Oracle,
    ) -> Result<Option<Box<dyn Engine>>, Failure> {
        let mut engine = match self.open(world, oracle) {
            Ok(engine) => engine,
            Err(_) if !oracle.created => return Ok(None),
            Err(error) => return Err(Failure::new("recovery", error)),
        };
        let found = read_state(&mut *engine)?;
        if !oracle.allowed.iter().any(|state| **state == found) {
            return Err(Failure(difference(&found, oracle)));
        }
        let report = engine
            .verify()
            .map_err(|error| Failure::new("verify", error))?;
        match report.damage.first() {
            Some(damage) => Err(Failure::new("verify", damage)),
            None => Ok(Some(engine)),
        }
    }

    /// After a check: a second recovery stores nothing, and the engine goes on working.
    pub(crate) fn check_life_after(
        &self,
        world: &SimulatedWorld,
        oracle: &Oracle,
        seed: u64,
    ) -> Result<(), Failure> {
        let stores = world.stores();
        let Some(mut engine) = self.check(world, oracle)? else {
            return Ok(());
        };
        if world.stores() != stores {
            let count = world.stores() - stores;
            return Err(Failure(format!("a second recovery made {count} stores")));
        }
        let state = read_state(&mut *engine)?;
        if state.tables.is_empty() {
            return Ok(());
        }
        let fresh = Arc::new(Mutex::new(Oracle {
            decided: oracle.decided.clone(),
            ..Oracle::default()
        }));
        let mut driver = Driver::new(engine, world, fresh, state, Durability::Immediate);
        let mut random = Random::new(seed);
        for _ in 0..LIFE_AFTER {
            let next = action(&mut random, &driver.state);
            driver
                .run(&next)
                .map_err(|failure| Failure::new("life after recovery", failure))?;
        }
        driver.compare()?;
        let oracle = driver
            .oracle
            .lock()
            .expect("only this thread uses the oracle")
            .clone();
        drop(driver);
        self.check(world, &oracle)
            .map_err(|failure| Failure::new("after 20 transactions", failure))?;
        Ok(())
    }

    /// Cuts the recovery of an image off at its own crash points, `depth` times over.
    pub(crate) fn check_nested(
        &self,
        world: &SimulatedWorld,
        oracle: &Oracle,
        seed: u64,
        depth: u32,
    ) -> Result<u64, Failure> {
        let found: Arc<Mutex<Result<u64, Failure>>> = Arc::new(Mutex::new(Ok(0)));
        let (shared, recovery, allowed) = (Arc::clone(&found), self.clone(), oracle.clone());
        world.observe(move |world, _| {
            let mut total = shared.lock().expect("only this thread uses the result");
            let Ok(count) = &mut *total else { return };
            match recovery.nested_images(world, &allowed, seed ^ *count, depth) {
                Ok(more) => *count += more,
                Err(failure) => *total = Err(failure),
            }
        });
        let result = self.check(world, oracle);
        world.unobserve();
        result?;
        let found = found.lock().expect("only this thread uses the result");
        found.clone()
    }

    fn nested_images(
        &self,
        world: &SimulatedWorld,
        oracle: &Oracle,
        seed: u64,
        depth: u32,
    ) -> Result<u64, Failure> {
        let mut count = 0;
        let choices: Vec<_> = ImageChoices::sampled(world, seed, NESTED_IMAGES).collect();
        let step = choices.len().div_ceil(NESTED_IMAGES).max(1);
        for choice in choices.iter().skip(seed as usize % step).step_by(step) {
            let image = world
                .image(choice)
                .map_err(|error| Failure::new("image", error))?;
            count += 1;
            let result = if depth > 1 {
                self.check_nested(&image, oracle, seed.wrapping_add(1), depth - 1)
            } else {
                self.check(&image, oracle).map(|_| 0)
            };
            count += result.map_err(|failure| Failure::new("cut in recovery", failure))?;
        }
        Ok(count)
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
            indexes: table.def.indexes.iter().map(|index| index.id.0).collect(),
            ..Contents::default()
        };
        let (mut low, mut high) = (KeyBuf::new(), KeyBuf::new());
        let bounds = table
            .primary
            .lower_bound::<Value>(&[], &mut low)
            .and_then(|()| table.primary.upper_bound::<Value>(&[], &mut high));
        bounds.map_err(|error| Failure::new("bounds", error))?;
        let range = ScanRange {
            table: table.def.id,
            index: None,
            low,
            high,
            direction: Direction::Forward,
        };
        let scanned = engine.scan(&range, &mut |row| {
            let values = row.to_values();
            if let Some(&Value::Int64(key)) = values.first() {
                contents.rows.insert(key, Fields(values));
            }
            ControlFlow::Continue(())
        });
        scanned.map_err(|error| Failure::new("scan", error))?;
        state.tables.insert(table.def.id.0, contents);
    }
    engine
        .abort()
        .map_err(|error| Failure::new("end of reading", error))?;
    Ok(state)
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

/// The first difference between what was found and the nearest allowed state.
fn difference(found: &State, oracle: &Oracle) -> String {
    let Some(expected) = oracle.allowed.front() else {
        return "nothing is allowed".into();
    };
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
