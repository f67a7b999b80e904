//! One run of a scenario on devices that may fail, and the model of the states that it may leave.
//!
//! A transaction whose commit failed is in doubt: the live engine must not show it once it was
//! aborted, but a power cut may leave it. An engine that refuses to be read has stopped; it is
//! dropped, and opened again once the devices are healed. If a commit failed at its sync, no later
//! commit may be acknowledged before that.

use super::{FaultConfig, strikes};
use crate::check::{Failure, Recovery, read_state, refused, verify};
use crate::drive::{Depth, Driver, Oracle, SharedOracle, try_step};
use crate::generate::{Random, action, first_rows};
use crate::model::{Action, MAIN, SIDE, State, Step, index, side_table};
use crate::scenarios::Scenario;
use crate::search::{new_world, options};
use indelible::SimulatedPlatform;
use pmem::device::simulated::{ImageChoice, ImageChoices, SimulatedWorld, mix};
use std::sync::{Arc, Mutex};
use storage::EngineSource;
use storage::StorageError;
use storage::engine::{Durability, Engine, GlobalTxnId, Idle};

/// Power cuts after a run.
const IMAGES: usize = 6;
/// Transactions of the engine that is opened after the fault.
const LIFE: usize = 4;
/// Their numbers start here.
const LIFE_NUMBERS: u64 = 1 << 32;

/// When the fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// While the partition is made.
    Creation,
    /// While the script runs.
    Script,
    /// While the partition is recovered after a power cut.
    Recovery,
}

impl Phase {
    pub(super) const ALL: [Self; 3] = [Self::Creation, Self::Script, Self::Recovery];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Creation => "creation",
            Self::Script => "script",
            Self::Recovery => "recovery",
        }
    }
}

/// A run, ready for its fault.
pub(super) struct Run<'r> {
    seed: u64,
    phase: Phase,
    config: &'r FaultConfig,
    recovery: &'r Recovery,
    world: SimulatedWorld,
    engine: Option<Box<dyn Engine>>,
    script: Vec<Action>,
    oracle: Oracle,
    state: State,
    transactions: u64,
    /// Whether strikes are failed syncs.
    judges_syncs: bool,
    /// Whether a commit failed at its sync.
    sync_failed: bool,
    has_stopped: bool,
}

impl<'r> Run<'r> {
    /// Everything before the phase, on devices that work.
    pub(super) fn new(
        config: &'r FaultConfig,
        scenario: &Scenario,
        phase: Phase,
        recovery: &'r Recovery,
    ) -> Result<Self, Failure> {
        let seed = config.seed;
        let mut run = Self {
            seed,
            phase,
            config,
            recovery,
            world: new_world(seed),
            engine: None,
            script: Vec::new(),
            oracle: Oracle::default(),
            state: State::default(),
            transactions: 0,
            judges_syncs: false,
            sync_failed: false,
            has_stopped: false,
        };
        for site in &config.disabled {
            run.world.disable(site);
        }
        run.oracle.allowed.push_back(Arc::new(State::default()));
        if phase == Phase::Creation {
            return Ok(run);
        }
        run.create();
        let engine = run
            .engine
            .take()
            .ok_or_else(|| Failure::text("no engine"))?;
        let shared: SharedOracle = Arc::default();
        let durability = Durability::Immediate;
        let mut driver = Driver::new(engine, &run.world, shared, State::default(), durability);
        let mut random = Random::new(seed);
        driver.populate_with(scenario.indexes, &first_rows(&mut random, scenario.rows))?;
        run.script = (scenario.script)(&mut random);
        let (engine, state) = (driver.engine, Arc::unwrap_or_clone(driver.state));
        run.engine = Some(engine);
        run.acknowledge(state);
        if phase == Phase::Recovery {
            run.go_script()?;
            run.engine = None;
            run.cut()?;
        }
        Ok(run)
    }

    pub(super) fn world(&self) -> &SimulatedWorld {
        &self.world
    }

    pub(super) fn judge_syncs(&mut self, judges: bool) {
        self.judges_syncs = judges;
    }

    pub(super) fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    /// The phase itself.
    pub(super) fn go(&mut self) -> Result<(), Failure> {
        match self.phase {
            Phase::Creation => {
                self.create();
                Ok(())
            }
            Phase::Script => self.go_script(),
            Phase::Recovery => {
                match self.recovery.open(&self.world, &self.oracle) {
                    Ok(mut engine) => self.look_at(&mut *engine)?,
                    Err(_) => self.has_stopped = true,
                }
                Ok(())
            }
        }
    }

    fn create(&mut self) {
        let platform = SimulatedPlatform::new(&self.world);
        match platform.create_engine(self.config.method, &options(self.config.method, self.seed)) {
            Ok(engine) => {
                self.engine = Some(engine);
                self.oracle.created = true;
            }
            Err(_) => self.has_stopped = true,
        }
    }

    /// Power fails; anything undecided may be lost.
    fn cut(&mut self) -> Result<(), Failure> {
        let mut choices: Vec<_> = ImageChoices::bounded(&self.world, self.seed, IMAGES).collect();
        let choice = choices.swap_remove(mix(self.seed) as usize % choices.len());
        let image = self.world.image(&choice);
        self.world = image.map_err(|error| Failure::new("image", error))?;
        Ok(())
    }

    fn go_script(&mut self) -> Result<(), Failure> {
        for action in std::mem::take(&mut self.script) {
            if self.engine.is_none() {
                break;
            }
            // An action is skipped if it needs something whose creation failed.
            if self.state.accepts(&action) {
                self.transactions += 1;
                self.act(&action)?;
            }
        }
        Ok(())
    }

    fn engine(&mut self) -> Result<&mut Box<dyn Engine>, Failure> {
        let engine = self.engine.as_mut();
        engine.ok_or_else(|| Failure::text("the engine has stopped"))
    }

    fn act(&mut self, action: &Action) -> Result<(), Failure> {
        match action {
            Action::Commit(steps) => self.commit(steps),
            Action::Abort(steps) => match self.steps(steps)? {
                Some(_) => self.abort(),
                None => Ok(()),
            },
            Action::PrepareCommit(steps) => self.prepare(steps, true),
            Action::PrepareAbort(steps) => self.prepare(steps, false),
            Action::Checkpoint => {
                let result = self.engine()?.idle().and_then(Idle::checkpoint);
                if result.is_err() {
                    self.after_error(None)
                } else {
                    Ok(())
                }
            }
            definition => self.define(definition),
        }
    }

    fn define(&mut self, action: &Action) -> Result<(), Failure> {
        let mut next = self.state.clone();
        next.run(action);
        let main = self.state.tables.get(&MAIN.0);
        let refuses = |id| main.is_some_and(|main| main.refuses(id));
        if let Action::CreateIndex(id) = action
            && refuses(*id)
        {
            let idle = self.engine()?.idle();
            let result = idle.and_then(|idle| idle.create_index(MAIN, &index(*id)));
            return match result {
                Err(StorageError::DuplicateKey { .. }) | Ok(()) => refused(result),
                Err(_) => self.after_error(None),
            };
        }
        self.allow(next.clone());
        let result = self.engine()?.idle().and_then(|idle| match action {
            Action::CreateSide => idle.create_table(&side_table()),
            Action::DropSide => idle.drop_table(SIDE),
            Action::CreateIndex(id) => idle.create_index(MAIN, &index(*id)),
            Action::DropIndex(id) => idle.drop_index(MAIN, *id),
            _ => Ok(()),
        });
        if result.is_err() {
            return self.after_error(None);
        }
        self.acknowledge(next);
        Ok(())
    }

    /// Opens a transaction and runs its steps. None if the engine failed and the transaction is
    /// over.
    fn steps(&mut self, steps: &[Step]) -> Result<Option<State>, Failure> {
        let mut next = self.state.clone();
        if self.engine()?.begin().is_err() {
            self.after_error(None)?;
            return Ok(None);
        }
        for step in steps {
            // A table whose creation failed is not there to insert into.
            if let Step::Insert(table, _) = step
                && next.rows(*table).is_none()
            {
                continue;
            }
            let expected = next.apply(step);
            let engine = self.engine()?;
            let Ok(found) = try_step(&mut **engine, step)? else {
                self.abort()?;
                return Ok(None);
            };
            if found != expected {
                let text = format!("{step:?}: expected {expected}, found {found}");
                return Err(Failure::text(text));
            }
        }
        Ok(Some(next))
    }

    /// Aborts; afterwards the engine shows nothing of the transaction, or has stopped.
    fn abort(&mut self) -> Result<(), Failure> {
        let is_undone = self.engine()?.abort().is_ok();
        let expected = is_undone.then(|| self.state.clone());
        self.after_error(expected)
    }

    fn commit(&mut self, steps: &[Step]) -> Result<(), Failure> {
        let Some(next) = self.steps(steps)? else {
            return Ok(());
        };
        self.allow(next.clone());
        let struck = strikes(&self.world);
        if self.engine()?.commit(Durability::Immediate).is_ok() {
            if self.sync_failed {
                let text = "a commit was acknowledged after one whose sync had failed";
                return Err(Failure::text(text));
            }
            self.acknowledge(next);
            return Ok(());
        }
        self.sync_failed |= self.judges_syncs && strikes(&self.world) > struck;
        self.abort()
    }

    fn prepare(&mut self, steps: &[Step], commits: bool) -> Result<(), Failure> {
        let Some(next) = self.steps(steps)? else {
            return Ok(());
        };
        let global = self.transactions + 1;
        if self.engine()?.prepare(GlobalTxnId(global)).is_err() || !commits {
            return self.abort();
        }
        self.oracle.decided.insert(global);
        self.acknowledge(next);
        if self.engine()?.commit(Durability::Immediate).is_err() {
            // It is committed, and this engine cannot say so: only opening it again can.
            self.stop();
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.has_stopped = true;
        self.engine = None;
    }

    /// Checks that after an error the engine shows the state before it, or refuses to be read and
    /// has stopped.
    fn after_error(&mut self, expected: Option<State>) -> Result<(), Failure> {
        let Ok(found) = read_state(&mut **self.engine()?) else {
            self.stop();
            return Ok(());
        };
        let is_allowed = match expected {
            Some(expected) => found == expected,
            None => self.oracle.allows(&Arc::new(found.clone())),
        };
        if !is_allowed {
            return Err(Failure::text(
                "after an error the engine shows what is neither committed nor refused",
            ));
        }
        self.state = found;
        Ok(())
    }

    fn allow(&mut self, next: State) {
        self.oracle.allowed.push_back(Arc::new(next));
    }

    fn acknowledge(&mut self, state: State) {
        self.oracle.allowed = [Arc::new(state.clone())].into();
        self.state = state;
    }

    /// Checks an engine that was opened on devices which may still fail: it shows no wrong state,
    /// though it may refuse to show any.
    fn look_at(&mut self, engine: &mut dyn Engine) -> Result<(), Failure> {
        let Ok(found) = read_state(engine) else {
            self.has_stopped = true;
            return Ok(());
        };
        if !self.oracle.allows(&Arc::new(found)) {
            return Err(Failure::text(
                "an opened engine shows a state that must not be",
            ));
        }
        // The deep check reads the devices, so its result counts once they are healed; it must not
        // panic.
        let _ = engine.verify();
        Ok(())
    }

    /// Checks the states that power cuts leave after the run, and an engine that is opened again
    /// without a cut. The devices work.
    pub(super) fn aftermath(mut self) -> Result<u64, Failure> {
        if let Some(mut engine) = self.engine.take()
            && read_state(&mut *engine).is_ok()
        {
            verify(&mut *engine).map_err(|failure| Failure::new("the live engine", failure))?;
        }
        let mut images = 0;
        for choice in ImageChoices::bounded(&self.world, self.seed, IMAGES) {
            let image = self.image(&choice)?;
            let checked = self.recovery.check(&image, &self.oracle);
            checked.map_err(|failure| Failure::new("a power cut after the fault", failure))?;
            images += 1;
        }
        let checked = self.recovery.check(&self.world, &self.oracle);
        let checked = checked.map_err(|failure| Failure::new("opened after the fault", failure))?;
        let Some((engine, state)) = checked else {
            return Ok(images);
        };
        let oracle = self.live_on(engine, &state)?;
        let image = self.image(&ImageChoice::default())?;
        let checked = self.recovery.check(&image, &oracle);
        checked.map_err(|failure| {
            Failure::new(
                "a power cut after the engine was opened again and used",
                failure,
            )
        })?;
        Ok(images + 1)
    }

    fn image(&self, choice: &ImageChoice) -> Result<SimulatedWorld, Failure> {
        let image = self.world.image(choice);
        image.map_err(|error| Failure::new("image", error))
    }

    /// A few transactions of an engine that was opened again; returns the states that a power cut
    /// may leave.
    fn live_on(&self, engine: Box<dyn Engine>, state: &State) -> Result<Oracle, Failure> {
        let decided = self.oracle.decided.clone();
        let shared = Arc::new(Mutex::new(Oracle {
            decided,
            ..Oracle::default()
        }));
        let durability = Durability::Immediate;
        let oracle = Arc::clone(&shared);
        let mut driver = Driver::new(engine, &self.world, oracle, state.clone(), durability);
        driver.number_from(LIFE_NUMBERS);
        let life = |driver: &mut Driver| {
            let mut random = Random::new(self.seed);
            for _ in 0..LIFE {
                let next = if driver.state.tables.is_empty() {
                    return driver.populate(&first_rows(&mut random, 4));
                } else {
                    action(&mut random, &driver.state)
                };
                driver.run(&next)?;
            }
            driver.compare(Depth::Content)
        };
        life(&mut driver).map_err(|failure| Failure::new("life after the fault", failure))?;
        drop(driver);
        let oracle = crate::check::lock(&shared).clone();
        Ok(oracle)
    }
}
