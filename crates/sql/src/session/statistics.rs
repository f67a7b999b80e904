//! Counting the statements of a session for `pg_stat_statements`.
//!
//! A statement of the extended protocol is counted when the next one begins, or when what was sent
//! together ends: the commit then is part of it.

use super::Session;
use crate::catalog::Oid;
use crate::state::{Call, Costs, Prepared};
use sql_parse::{Parsed, object_name};
use sqlparser::ast::Statement;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A statement that runs: when it began, and what its session had spent on commits before.
#[derive(Clone, Copy)]
pub(super) struct Watch {
    begun: Instant,
    /// The same moment in microseconds since 2000-01-01 UTC.
    begun_at: i64,
    before: Costs,
}

/// A statement of the extended protocol that has run.
pub(super) struct Ran {
    text: Arc<str>,
    role: Oid,
    call: Call,
    watch: Watch,
}

impl Session {
    /// A statement begins.
    pub(super) fn watch(&self) -> Watch {
        Watch {
            begun: Instant::now(),
            begun_at: self.environment.begins_at(),
            before: self.environment.host.peer.counts.now(),
        }
    }

    /// Counts a statement that has ended. With `key`, the text without its literals, the text is
    /// not looked at again. The time that it took.
    pub(super) fn count(
        &self,
        key: Option<&str>,
        text: &str,
        rows: Option<u64>,
        watch: &Watch,
    ) -> Duration {
        let call = self.call(rows, watch);
        let role = self.environment.names.role;
        self.sql.statements.statement(role, key, text).count(&call);
        call.took
    }

    /// As [`Session::count`], for a prepared statement.
    pub(super) fn count_prepared(
        &self,
        prepared: &mut Prepared,
        rows: Option<u64>,
        watch: &Watch,
    ) -> Duration {
        let call = self.call(rows, watch);
        let role = self.environment.names.role;
        if prepared
            .counted
            .as_ref()
            .is_none_or(|counted| !counted.is_of(role))
        {
            let text = prepared.parsed.as_ref().map_or("", |parsed| &*parsed.text);
            prepared.counted = Some(self.sql.statements.statement(role, Some(text), text));
        }
        if let Some(counted) = &prepared.counted {
            counted.count(&call);
        }
        call.took
    }

    /// The call that ends now.
    fn call(&self, rows: Option<u64>, watch: &Watch) -> Call {
        Call {
            begun_at: watch.begun_at,
            took: watch.begun.elapsed(),
            rows: rows.unwrap_or(0),
            costs: self.spent(watch),
            is_continued: false,
        }
    }

    /// The text that a statement is counted under: that of `PREPARE` for `EXECUTE`, and none for
    /// those that keep or forget a statement.
    pub(super) fn counted_as(&self, parsed: &Parsed) -> Option<Arc<str>> {
        let own = &parsed.text;
        match &*parsed.statement {
            Statement::Prepare { .. } | Statement::Deallocate { .. } => None,
            Statement::Execute { name, .. } => {
                let name = name.as_ref().and_then(|name| object_name(name).ok());
                let prepared = name.and_then(|(_, name)| self.prepared.get(&name));
                let parsed = prepared.and_then(|prepared| prepared.parsed.as_ref());
                Some(Arc::clone(parsed.map_or(own, |parsed| &parsed.text)))
            }
            _ => Some(Arc::clone(own)),
        }
    }

    /// Notes a portal that has run, on from where it had stopped before if `is_continued`.
    pub(super) fn note(&mut self, text: &Arc<str>, rows: u64, is_continued: bool, watch: Watch) {
        self.ran = Some(Ran {
            text: Arc::clone(text),
            role: self.environment.names.role,
            call: Call {
                begun_at: watch.begun_at,
                took: watch.begun.elapsed(),
                rows,
                costs: Costs::default(),
                is_continued,
            },
            watch,
        });
    }

    /// Counts the portal that has run last, with the time of the commit that has ended it.
    pub(super) fn count_noted(&mut self, commit: Duration) {
        if let Some(mut ran) = self.ran.take() {
            ran.call.took += commit;
            ran.call.costs = self.spent(&ran.watch);
            let statements = &self.sql.statements;
            let statement = statements.statement(ran.role, Some(&ran.text), &ran.text);
            statement.count(&ran.call);
        }
    }

    fn spent(&self, watch: &Watch) -> Costs {
        let mut costs = self.environment.host.peer.counts.now();
        for (cost, before) in costs.iter_mut().zip(&watch.before) {
            *cost -= before;
        }
        costs
    }
}
