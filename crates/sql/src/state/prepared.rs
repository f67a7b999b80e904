//! Prepared statements and portals.
//!
//! A plan is kept with the versions of the catalogue and the settings that it was made under; a
//! portal keeps the operators of its plan between its rows.

use crate::plan::Plan;
use crate::run::{Operator, State, build};
use crate::sink::Batch;
use crate::types::{Datum, Type};
use sql_parse::Parsed;
use sql_rows::Columns;
use std::sync::Arc;

/// A statement that is parsed, and its plan.
pub(crate) struct Prepared {
    /// None for an empty text.
    pub(crate) parsed: Option<Parsed>,
    pub(crate) declared: Vec<Option<Type>>,
    pub(crate) planned: Option<Planned>,
}

/// A plan, and what it was made under.
#[derive(Clone)]
pub(crate) struct Planned {
    pub(crate) plan: Arc<Plan>,
    /// Of the catalogue, and of the settings.
    pub(crate) versions: (u64, u64),
}

impl Prepared {
    pub(crate) fn new(parsed: Option<Parsed>, declared: &[Option<Type>]) -> Self {
        Self {
            parsed,
            declared: declared.to_vec(),
            planned: None,
        }
    }
}

/// A statement with the values of its parameters, and the place where it has stopped.
#[derive(Default)]
pub(crate) struct Portal {
    pub(crate) parsed: Option<Parsed>,
    pub(crate) statement: String,
    /// Types of its parameters, as they were declared.
    pub(crate) declared: Vec<Option<Type>>,
    pub(crate) values: Vec<Datum>,
    pub(crate) running: Option<Box<Running>>,
    /// The level of the transaction that has bound it: it goes with that savepoint.
    pub(crate) level: usize,
}

impl Portal {
    /// Binds another statement, in the memory of a portal that has ended.
    pub(crate) fn rebind(&mut self, statement: &str, prepared: &Prepared, values: &[Datum]) {
        self.parsed.clone_from(&prepared.parsed);
        self.statement.clear();
        self.statement.push_str(statement);
        self.declared.clone_from(&prepared.declared);
        self.values.clear();
        self.values.extend_from_slice(values);
        self.running = None;
    }
}

/// A plan that runs.
pub(crate) struct Running {
    pub(crate) plan: Arc<Plan>,
    pub(crate) root: Box<dyn Operator>,
    pub(crate) state: State,
    /// Rows that were made and not handed over, from this one on.
    pub(crate) batch: Batch,
    pub(crate) next: usize,
    /// The same column by column, for sinks that take columns; all of them were handed over.
    pub(crate) columns: Columns,
    /// Rows handed over.
    pub(crate) rows: u64,
}

impl Running {
    pub(crate) fn new(plan: &Arc<Plan>, state: State) -> Self {
        Self {
            root: build(&plan.root),
            plan: Arc::clone(plan),
            state,
            batch: Batch::default(),
            next: 0,
            columns: Columns::default(),
            rows: 0,
        }
    }
}
