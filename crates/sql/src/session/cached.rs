//! Statements that run by a plan of the cache: their literals are the values of its parameters.
//!
//! A literal that is no value of its type, and a fingerprint without a plan, send a statement on
//! the ordinary way, so every error of a text is the one that it has there, with its place.
//! `plan_cache_mode` is PostgreSQL's: `force_custom_plan` makes plans of statements as they stand,
//! `force_generic_plan` one for all literals already at the first statement of a fingerprint.

use super::Session;
use crate::error::Result;
use crate::plan::{Cached, Key, Lifted, Slot, is_lasting};
use crate::sink::{Completion, RowSink};
use crate::state::{Block, PlanCacheMode};
use crate::types::cast::apply_modifier;
use crate::types::{Context, Datum, Kind, text_io};
use sql_bind::Binder;
use sql_parse::{Class, Fingerprint, LineIndex, Literal, parse};
use sqlparser::ast::{SetExpr, Statement};
use std::sync::Arc;

impl Session {
    /// Runs a text by the plan that its fingerprint has; none if it has to go the ordinary way.
    pub(super) fn run_cached(
        &mut self,
        text: &str,
        sink: &mut dyn RowSink,
    ) -> Result<Option<Completion>> {
        let mode = self.environment.host.variables.modes().plans;
        // In a block that has failed, an error of syntax comes first.
        if mode == PlanCacheMode::None || self.transaction.block == Block::Failed {
            return Ok(None);
        }
        let mut fingerprint = std::mem::take(&mut self.fingerprint);
        let completion = if fingerprint.read(text) {
            self.run_fingerprint(text, &fingerprint, sink)
        } else {
            Ok(None)
        };
        self.fingerprint = fingerprint;
        completion
    }

    fn run_fingerprint(
        &mut self,
        text: &str,
        fingerprint: &Fingerprint,
        sink: &mut dyn RowSink,
    ) -> Result<Option<Completion>> {
        self.refresh_catalog();
        if self.transaction.block == Block::Idle {
            self.environment.begin_transaction();
        }
        let Some(lifted) = self.lifted_plan(text, fingerprint) else {
            return Ok(None);
        };
        if let Some(point) = self.point_alone(&lifted.plan) {
            let Some(mut values) = self.literal_values(text, fingerprint, &lifted) else {
                return Ok(None);
            };
            let done = self.run_point_alone(&lifted.plan, point, &mut values, sink);
            self.point.parameters = values;
            return done;
        }
        let version = self.catalog().version;
        self.guarded(|session| {
            session.attempt(|session| {
                if session.catalog().version != version {
                    return Ok(None);
                }
                session.run_lifted(text, fingerprint, &lifted, sink)
            })
        })
    }

    /// The values of a statement's literals; none if one is no value of its type.
    fn literal_values(
        &mut self,
        text: &str,
        fingerprint: &Fingerprint,
        lifted: &Lifted,
    ) -> Option<Vec<Datum>> {
        let context = self.environment.context();
        let mut values = std::mem::take(&mut self.point.parameters);
        values.clear();
        for (literal, slot) in fingerprint.literals().iter().zip(&lifted.slots) {
            let inside = fingerprint.content(literal, text);
            values.push(value_of(literal, inside, *slot, &context).ok()?);
        }
        Some(values)
    }

    fn run_lifted(
        &mut self,
        text: &str,
        fingerprint: &Fingerprint,
        lifted: &Lifted,
        sink: &mut dyn RowSink,
    ) -> Result<Option<Completion>> {
        let Some(values) = self.literal_values(text, fingerprint, lifted) else {
            return Ok(None);
        };
        if self.lock_used(&lifted.plan)? {
            return Ok(None);
        }
        if let Some(columns) = &lifted.plan.columns {
            sink.describe(columns)?;
        }
        if let Some(point) = self.point_of(&lifted.plan) {
            return self.run_point(&lifted.plan, point, values, sink).map(Some);
        }
        let mut running = self.begin_plan(&lifted.plan, values)?;
        self.run_on(&mut running, 0, sink).map(Some)
    }

    /// The plan for all statements of a fingerprint, if there can be one and it is time for it.
    fn lifted_plan(&mut self, text: &str, fingerprint: &Fingerprint) -> Option<Arc<Lifted>> {
        let modes = self.environment.host.variables.modes();
        let makes_at_once = modes.plans == PlanCacheMode::All;
        let settings = self.settings_key();
        let key = Key {
            shape: fingerprint.shape(),
            settings: &settings,
            temporary: self.environment.names.temporary,
            role: self.environment.names.role,
            catalog: self.catalog().version,
            analyzed: self.sql.analyzed(),
        };
        match self.sql.plans.find(&key) {
            Cached::Plan(lifted) => return Some(lifted),
            Cached::Refused => return None,
            Cached::New if !makes_at_once => return None,
            Cached::New | Cached::Met => {}
        }
        let lifted = self.lift(text, fingerprint).map(Arc::new);
        let content = lifted.clone().map_or(Cached::Refused, Cached::Plan);
        self.sql.plans.put(&key, content);
        lifted
    }

    /// Makes a plan with the literals of a statement as its parameters.
    fn lift(&self, text: &str, fingerprint: &Fingerprint) -> Option<Lifted> {
        let mut parsed = parse(text).ok()?;
        let parsed = parsed.pop().filter(|_| parsed.is_empty())?;
        let statement = parsed.statement;
        if parsed.is_deep || parsed.own.is_some() || !is_plain(&statement) {
            return None;
        }
        let places = LineIndex::new(text);
        let environment = &self.environment;
        let database = self.sql.database();
        let mut binder = Binder::new(&environment.names, database, environment.context(), &places);
        binder.lift(fingerprint);
        let mut plan = binder.statement(&statement).ok()??;
        let slots = binder.slots()?;
        plan.improve();
        let plan = Arc::new(plan);
        is_lasting(&plan, self.catalog()).then_some(Lifted { plan, slots })
    }

    /// The settings that plans are made under.
    fn settings_key(&mut self) -> Arc<str> {
        let variables = &self.environment.host.variables;
        if self.settings_key.0 != variables.version {
            self.settings_key = (variables.version, variables.changed().into());
        }
        Arc::clone(&self.settings_key.1)
    }
}

/// Whether a statement does nothing but run its plan: `SELECT INTO` makes a table.
fn is_plain(statement: &Statement) -> bool {
    match statement {
        Statement::Query(query) => match &*query.body {
            SetExpr::Select(select) => select.into.is_none(),
            _ => false,
        },
        Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) => true,
        _ => false,
    }
}

/// The value of a literal, as the binder would have made it.
fn value_of(literal: &Literal, inside: &str, slot: Slot, context: &Context<'_>) -> Result<Datum> {
    match literal.class {
        Class::Int4(value) => Ok(Datum::Int4(value)),
        Class::Int8(value) => Ok(Datum::Int8(value)),
        Class::Numeric => text_io::parse(Kind::Numeric, inside, context),
        Class::Text => {
            let value = text_io::parse(slot.data_type.kind, inside, context)?;
            apply_modifier(value, slot.data_type, slot.how)
        }
    }
}
