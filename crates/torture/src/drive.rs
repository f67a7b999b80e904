//! Runs transactions on a live engine and keeps the oracle in step with it.
//!
//! The oracle's `allowed` states are ordered: the first holds every acknowledged transaction, each
//! later one adds a transaction whose commit has been called. A crash may leave any of them.

use crate::check::{Failure, refused, verify};
use crate::compare::find_state;
use crate::model::{
    Action, Contents, INDEXES, MAIN, SIDE, State, Step, index, main_table, side_table, table_number,
};
use pmem::device::simulated::{CrashPoint, SimulatedWorld, mix};
use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use storage::StorageError;
use storage::engine::{CommitTicket, Durability, Engine, GlobalTxnId, Idle};
use storage::record::{Changes, IndexId, KeyBuf, Row, TableId, Value};
use storage::table::Table;

/// The states that crash checks may find.
#[derive(Clone, Default)]
pub(crate) struct Oracle {
    pub(crate) allowed: VecDeque<Arc<State>>,
    /// Prepared transactions that the commit table has.
    pub(crate) decided: HashSet<u64>,
    /// Whether creation of the partition has returned; before that it may be missing or unfinished.
    pub(crate) created: bool,
}

impl Oracle {
    /// A number that another set of decisions does not have.
    pub(crate) fn decisions(&self) -> u64 {
        let numbers = self.decided.iter().map(|number| mix(*number));
        numbers.fold(0, u64::wrapping_add)
    }

    /// Whether a crash may leave this state.
    pub(crate) fn allows(&self, state: &Arc<State>) -> bool {
        let mut allowed = self.allowed.iter();
        allowed.any(|allowed| Arc::ptr_eq(allowed, state)) || self.allowed.contains(state)
    }
}

pub(crate) type SharedOracle = Arc<Mutex<Oracle>>;

/// How deeply a live engine is compared with its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// The rows.
    Content,
    /// The rows, and the engine's deep check.
    Structure,
}

/// A live engine and its oracle.
pub(crate) struct Driver {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) oracle: SharedOracle,
    pub(crate) state: Arc<State>,
    world: SimulatedWorld,
    durability: Durability,
    /// Tickets of commits that are not durable yet, in the order of the oracle's later states.
    waiting: VecDeque<CommitTicket>,
    transactions: u64,
}

impl Driver {
    pub(crate) fn new(
        engine: Box<dyn Engine>,
        world: &SimulatedWorld,
        oracle: SharedOracle,
        state: impl Into<Arc<State>>,
        durability: Durability,
    ) -> Self {
        let state = state.into();
        change(&oracle, |oracle| {
            oracle.allowed = VecDeque::from([Arc::clone(&state)]);
            oracle.created = true;
        });
        let waiting = VecDeque::new();
        Self {
            engine,
            oracle,
            state,
            world: world.clone(),
            durability,
            waiting,
            transactions: 0,
        }
    }

    /// Numbers transactions from here on, so that none has the number of an earlier life's.
    pub(crate) fn number_from(&mut self, first: u64) {
        self.transactions = first;
    }

    /// Makes the main table with all indexes, and fills it.
    pub(crate) fn populate(&mut self, rows: &[Vec<Value>]) -> Result<(), Failure> {
        self.populate_with(&INDEXES, rows)
    }

    /// Makes the main table with these indexes, and fills it.
    pub(crate) fn populate_with(
        &mut self,
        indexes: &[IndexId],
        rows: &[Vec<Value>],
    ) -> Result<(), Failure> {
        let def = main_table(indexes);
        let mut next = State::clone(&self.state);
        let indexes = indexes.iter().map(|id| id.0).collect();
        next.tables.insert(
            MAIN.0,
            Contents {
                indexes,
                ..Contents::default()
            },
        );
        self.define(next, |engine| engine.create_table(&def))?;
        for group in rows.chunks(8) {
            let steps = group
                .iter()
                .map(|row| Step::Insert(MAIN, row.clone()))
                .collect();
            self.run(&Action::Commit(steps))?;
        }
        Ok(())
    }

    /// Runs one transaction.
    pub(crate) fn run(&mut self, action: &Action) -> Result<(), Failure> {
        self.transactions += 1;
        match action {
            Action::Commit(steps) => {
                let next = self.steps(steps)?;
                self.commit(next)
            }
            Action::Abort(steps) => {
                self.steps(steps)?;
                self.engine
                    .abort()
                    .map_err(|error| Failure::new("abort", error))?;
                self.compare(Depth::Content)
            }
            Action::PrepareCommit(steps) => {
                let next = Arc::new(self.steps(steps)?);
                let global = self.prepare()?;
                self.decide(global, Arc::clone(&next));
                self.engine
                    .commit(Durability::Immediate)
                    .map_err(|error| Failure::new("commit", error))?;
                self.state = next;
                self.acknowledge_all();
                Ok(())
            }
            Action::PrepareAbort(steps) => {
                self.steps(steps)?;
                self.prepare()?;
                self.engine
                    .abort()
                    .map_err(|error| Failure::new("abort", error))?;
                self.compare(Depth::Content)
            }
            other => self.run_definition(other),
        }
    }

    fn run_definition(&mut self, action: &Action) -> Result<(), Failure> {
        let mut next = State::clone(&self.state);
        next.run(action);
        let table = |id| find_table(&*self.engine, id);
        match action {
            Action::CreateSide => self.define(next, |engine| engine.create_table(&side_table())),
            Action::DropSide => {
                let side = table(SIDE)?.def.id;
                self.define(next, |engine| engine.drop_table(side))
            }
            Action::CreateIndex(id) => {
                let id_of_main = table(MAIN)?.def.id;
                let main = self.state.tables.get(&MAIN.0);
                if main.is_some_and(|main| main.refuses(*id)) {
                    let idle = self.engine.idle();
                    return refused(
                        idle.and_then(|idle| idle.create_index(id_of_main, &index(*id))),
                    );
                }
                self.define(next, |engine| engine.create_index(id_of_main, &index(*id)))
            }
            Action::DropIndex(id) => {
                let main = table(MAIN)?;
                let dropped = main.def.index(&index(*id).name);
                let dropped = dropped
                    .ok_or_else(|| Failure::text("an index is missing"))?
                    .id;
                self.define(next, |engine| engine.drop_index(main.def.id, dropped))
            }
            _ => self
                .engine
                .idle()
                .and_then(Idle::checkpoint)
                .map_err(|error| Failure::new("checkpoint", error)),
        }
    }

    /// Opens a transaction and runs its steps; the engine must refuse the steps that the model
    /// refuses.
    fn steps(&mut self, steps: &[Step]) -> Result<State, Failure> {
        let mut next = State::clone(&self.state);
        self.engine
            .begin()
            .map_err(|error| Failure::new("begin", error))?;
        let mut number = 0;
        while let Some(step) = steps.get(number) {
            let together = insertions(&next, &steps[number..]);
            if !together.is_empty() {
                insert_many(&mut *self.engine, together)?;
                for step in together {
                    next.apply(step);
                }
                number += together.len();
                continue;
            }
            let expected = next.apply(step);
            let found = perform(&mut *self.engine, step)?;
            // The work that a background thread of the engine would do at some time.
            if mix(self.transactions << 8 ^ number as u64).is_multiple_of(3)
                && let Some(sessions) = self.engine.sessions()
            {
                sessions
                    .assist()
                    .map_err(|error| Failure::new("work ahead", error))?;
            }
            if expected != found {
                return Err(Failure::text(format!(
                    "{step:?}: expected {expected}, found {found}"
                )));
            }
            number += 1;
        }
        Ok(next)
    }

    fn prepare(&mut self) -> Result<u64, Failure> {
        let global = self.transactions + 1;
        self.engine
            .prepare(GlobalTxnId(global))
            .map_err(|error| Failure::new("prepare", error))?;
        self.world.mark(CrashPoint::Mark("prepared"));
        Ok(global)
    }

    /// The commit table has the transaction from now on.
    fn decide(&mut self, global: u64, next: Arc<State>) {
        change(&self.oracle, |oracle| {
            oracle.decided.insert(global);
            oracle.allowed = VecDeque::from([next]);
        });
        self.waiting.clear();
        self.world.mark(CrashPoint::Mark("decided"));
    }

    fn commit(&mut self, next: State) -> Result<(), Failure> {
        self.allow(next);
        self.world.mark(CrashPoint::CommitCall(self.transactions));
        let ticket = self
            .engine
            .commit(self.durability)
            .map_err(|error| Failure::new("commit", error))?;
        self.waiting.push_back(ticket);
        let durable = self.engine.durable();
        while self
            .waiting
            .front()
            .is_some_and(|waiting| *waiting <= durable)
        {
            self.waiting.pop_front();
            change(&self.oracle, |oracle| {
                oracle.allowed.pop_front();
            });
        }
        self.world.mark(CrashPoint::Acknowledged(self.transactions));
        Ok(())
    }

    /// Runs a change of the schema, which is durable when it returns.
    fn define(
        &mut self,
        next: State,
        change: impl FnOnce(&mut dyn Idle) -> Result<(), StorageError>,
    ) -> Result<(), Failure> {
        self.allow(next);
        let changed = self.engine.idle().and_then(change);
        changed.map_err(|error| Failure::new("schema change", error))?;
        self.acknowledge_all();
        Ok(())
    }

    fn allow(&mut self, next: State) {
        self.state = Arc::new(next);
        let state = Arc::clone(&self.state);
        change(&self.oracle, |oracle| oracle.allowed.push_back(state));
    }

    pub(crate) fn acknowledge_all(&mut self) {
        self.waiting.clear();
        let state = Arc::clone(&self.state);
        change(&self.oracle, |oracle| {
            oracle.allowed = VecDeque::from([state]);
        });
        self.world.mark(CrashPoint::Acknowledged(self.transactions));
    }

    /// Compares the live engine with the model.
    pub(crate) fn compare(&mut self, depth: Depth) -> Result<(), Failure> {
        if find_state(&mut *self.engine, std::iter::once(&*self.state))?.is_none() {
            return Err(Failure::text("the live engine differs from the model"));
        }
        match depth {
            Depth::Content => Ok(()),
            Depth::Structure => verify(&mut *self.engine),
        }
    }
}

/// Changes the states that may be found.
pub(crate) fn change(oracle: &SharedOracle, change: impl FnOnce(&mut Oracle)) {
    let mut oracle = oracle.lock().expect("only this thread uses the oracle");
    change(&mut oracle);
}

/// Fewest insertions that are performed together.
const TOGETHER_MIN: usize = 4;

/// The first steps, if they are several insertions in one table that all succeed.
fn insertions<'s>(state: &State, steps: &'s [Step]) -> &'s [Step] {
    let table_of = |step: &Step| match step {
        Step::Insert(table, _) => Some(*table),
        _ => None,
    };
    let first = steps.first().and_then(table_of);
    let is_next = |step: &&Step| first.is_some() && table_of(step) == first;
    let count = steps.iter().take_while(is_next).count();
    if count < TOGETHER_MIN {
        return &[];
    }
    let mut state = state.clone();
    let succeed = steps[..count].iter().take_while(|step| state.apply(step));
    match succeed.count() {
        count if count < TOGETHER_MIN => &[],
        count => &steps[..count],
    }
}

/// Performs insertions in one table together.
fn insert_many(engine: &mut dyn Engine, steps: &[Step]) -> Result<(), Failure> {
    let (mut rows, mut id) = (Vec::new(), None);
    for step in steps {
        let Step::Insert(table, values) = step else {
            continue;
        };
        let table = find_table(engine, *table)?;
        id = Some(table.def.id);
        rows.push(row_of(&table, values)?);
    }
    let Some(id) = id else {
        return Ok(());
    };
    let rows: Vec<&Row> = rows.iter().collect();
    let inserted = engine.insert_many(id, &rows);
    inserted.map_err(|error| Failure::new("insertions", error))
}

fn row_of(table: &Table, values: &[Value]) -> Result<Row, Failure> {
    let mut row = Row::new(Arc::clone(&table.layout));
    for (column, value) in values.iter().enumerate() {
        row.set(column, value)
            .map_err(|error| Failure::new("row", error))?;
    }
    Ok(row)
}

/// Performs a step; false if the engine refuses it.
pub(crate) fn perform(engine: &mut dyn Engine, step: &Step) -> Result<bool, Failure> {
    try_step(engine, step)?.map_err(|error| Failure::new("operation", error))
}

/// Performs a step; the engine's error, if it has one, is the inner one.
pub(crate) fn try_step(
    engine: &mut dyn Engine,
    step: &Step,
) -> Result<Result<bool, StorageError>, Failure> {
    let result = match step {
        Step::Insert(id, values) => {
            let table = find_table(engine, *id)?;
            let row = row_of(&table, values)?;
            engine.insert(table.def.id, &row).map(|()| true)
        }
        Step::Update(key, list) => {
            let table = find_table(engine, MAIN)?;
            let mut changes = Changes::new(Arc::clone(&table.layout));
            for (column, value) in list {
                changes
                    .set(*column, value)
                    .map_err(|error| Failure::new("change", error))?;
            }
            engine.update(table.def.id, &key_of(&table, *key)?, &changes)
        }
        Step::Delete(key) => {
            let table = find_table(engine, MAIN)?;
            engine.delete(table.def.id, &key_of(&table, *key)?)
        }
    };
    Ok(match result {
        Err(StorageError::DuplicateKey { .. }) => Ok(false),
        other => other,
    })
}

/// A table of the model, as the engine has it.
fn find_table(engine: &dyn Engine, id: TableId) -> Result<Arc<Table>, Failure> {
    let mut tables = engine.tables().into_iter();
    tables
        .find(|table| table_number(&table.def) == id)
        .ok_or_else(|| Failure::text(format!("table {id:?} is missing")))
}

pub(crate) fn key_of(table: &Table, key: i64) -> Result<KeyBuf, Failure> {
    let mut words = KeyBuf::new();
    let values = [Value::Int64(key)];
    table
        .primary
        .encode_values(&values, &mut words)
        .map_err(|error| Failure::new("key", error))?;
    Ok(words)
}
