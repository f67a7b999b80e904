//! Prepared statements and portals.
//!
//! A plan is kept with the versions of the catalogue and the settings that it was made under. The
//! types of the parameters are those of the first plan, and the columns of the result those that
//! the client was told of: a later plan with others is an error. A portal keeps the operators of
//! its plan between its rows.

use super::statements::Statement;
use crate::error::{Result, SqlError, SqlState};
use crate::plan::Plan;
use crate::run::{Operator, State, build};
use crate::sink::{Batch, Completion, OutputColumn};
use crate::types::{Datum, Type};
use indelible::KeptMoment;
use sql_parse::Parsed;
use sql_rows::{Columns, SegmentCache, Store};
use std::collections::HashMap;
use std::sync::Arc;

/// Most prepared statements with names.
const NAMED_MAX: usize = 10_000;

/// A statement that is parsed, and its plan.
pub(crate) struct Prepared {
    /// None for an empty text.
    pub(crate) parsed: Option<Parsed>,
    /// Types of its parameters: those that were declared, and all of them after the first plan.
    pub(crate) declared: Vec<Option<Type>>,
    /// Columns of its result, once the client was told of them.
    pub(crate) promised: Option<Arc<[OutputColumn]>>,
    pub(crate) planned: Option<Planned>,
    /// The statistics under which it was counted last.
    pub(crate) counted: Option<Arc<Statement>>,
}

/// The prepared statements of a session, by their names.
#[derive(Default)]
pub(crate) struct PreparedStatements {
    /// The one without a name, which most clients use for all statements.
    unnamed: Option<Box<Prepared>>,
    /// None stands for one that runs.
    named: HashMap<String, Option<Box<Prepared>>>,
    /// Times that statements of SQL have forgotten some.
    deallocations: u64,
}

impl PreparedStatements {
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Fails if a statement with a name more is one too many.
    pub(crate) fn check_room(&self, name: &str) -> Result<()> {
        if name.is_empty() || self.named.len() < NAMED_MAX {
            return Ok(());
        }
        let message = format!("a session has at most {NAMED_MAX} prepared statements");
        let hint = "Deallocate those that are not needed any more.";
        Err(SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message).hint(hint))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Prepared> {
        match name {
            "" => self.unnamed.as_deref(),
            _ => self.named.get(name)?.as_deref(),
        }
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Prepared> {
        match name {
            "" => self.unnamed.as_deref_mut(),
            _ => self.named.get_mut(name)?.as_deref_mut(),
        }
    }

    pub(crate) fn insert(&mut self, name: &str, prepared: Prepared) {
        let prepared = Some(Box::new(prepared));
        match name {
            "" => self.unnamed = prepared,
            _ => drop(self.named.insert(name.to_owned(), prepared)),
        }
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Box<Prepared>> {
        match name {
            "" => self.unnamed.take(),
            _ => self.named.remove(name)?,
        }
    }

    /// Lends one to the session that runs it; [`PreparedStatements::put_back`] is next.
    pub(crate) fn take(&mut self, name: &str) -> Option<Box<Prepared>> {
        match name {
            "" => self.unnamed.take(),
            _ => self.named.get_mut(name)?.take(),
        }
    }

    pub(crate) fn put_back(&mut self, name: &str, prepared: Box<Prepared>) {
        match name {
            "" => self.unnamed = Some(prepared),
            _ => {
                if let Some(place) = self.named.get_mut(name) {
                    *place = Some(prepared);
                }
            }
        }
    }

    /// Forgets one for `DEALLOCATE`; whether there was one.
    pub(crate) fn deallocate(&mut self, name: &str) -> bool {
        self.deallocations += 1;
        self.remove(name).is_some()
    }

    /// Forgets those with names.
    pub(crate) fn clear_named(&mut self) {
        self.deallocations += 1;
        self.named.clear();
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.clear_named();
        self.unnamed = None;
    }

    /// A number that changes when statements of SQL forget some.
    pub(crate) fn deallocations(&self) -> u64 {
        self.deallocations
    }
}

/// A plan, and what it was made under.
#[derive(Clone)]
pub(crate) struct Planned {
    pub(crate) plan: Arc<Plan>,
    /// Of the catalogue, of the settings and of the statistics.
    pub(crate) versions: (u64, u64, u64),
}

impl Prepared {
    pub(crate) fn new(parsed: Option<Parsed>, declared: &[Option<Type>]) -> Self {
        Self {
            parsed,
            declared: declared.to_vec(),
            promised: None,
            planned: None,
            counted: None,
        }
    }

    /// Gives the parameters the types that a plan has found for them.
    pub(crate) fn fix_parameters(&mut self, plan: &Plan) {
        let is_open = self.declared.iter().any(Option::is_none);
        if is_open || self.declared.len() != plan.parameters.len() {
            self.declared = plan.parameters.iter().copied().map(Some).collect();
        }
    }

    /// Keeps the columns of a plan, of which the client is told.
    pub(crate) fn promise(&mut self, plan: &Plan) {
        if self.promised.is_none() {
            self.promised = plan.columns.as_deref().map(Arc::from);
        }
    }
}

/// Fails if a plan has other columns than those that the client was told of.
pub(crate) fn check_promised(promised: Option<&[OutputColumn]>, plan: &Plan) -> Result<()> {
    let Some(promised) = promised else {
        return Ok(());
    };
    let columns = plan.columns.as_deref().unwrap_or_default();
    let is_same = |(own, other): (&OutputColumn, &OutputColumn)| {
        own.name == other.name && own.data_type == other.data_type
    };
    if promised.len() == columns.len() && promised.iter().zip(columns).all(is_same) {
        return Ok(());
    }
    let message = "cached plan must not change result type";
    let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
    // Drivers prepare the statement again if the error has this routine.
    Err(error.named(|names| names.routine = Some("RevalidateCachedQuery")))
}

/// A statement with the values of its parameters, and the place where it has stopped.
#[derive(Default)]
pub(crate) struct Portal {
    pub(crate) parsed: Option<Parsed>,
    pub(crate) statement: String,
    /// Types of its parameters, and columns of its result, as its statement has them.
    pub(crate) declared: Vec<Option<Type>>,
    pub(crate) promised: Option<Arc<[OutputColumn]>>,
    pub(crate) values: Vec<Datum>,
    pub(crate) progress: Progress,
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
        self.promised.clone_from(&prepared.promised);
        self.values.clear();
        self.values.extend_from_slice(values);
        self.progress = Progress::Bound;
    }
}

/// The way of a portal through its statement.
#[derive(Default)]
pub(crate) enum Progress {
    /// It has not run.
    #[default]
    Bound,
    /// Its plan has stopped after some rows.
    Running(Box<Running>),
    /// The rows of a statement without a plan are here, and some were handed over.
    Held(Box<Held>),
    /// All rows were handed over; this is its answer from now on.
    Over(Completion),
    /// It has no rows, and cannot run again.
    Done,
}

/// Rows of a statement that has ended, which are handed over in parts.
pub(crate) struct Held {
    pub(crate) columns: Vec<OutputColumn>,
    pub(crate) rows: Store,
    pub(crate) place_of_rows: SegmentCache,
    /// Rows handed over.
    pub(crate) next: u64,
    pub(crate) completion: Completion,
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
    /// The moment that it reads, if statements between its parts may read others.
    pub(crate) moment: Option<KeptMoment>,
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
            moment: None,
        }
    }
}
