//! Everything that expressions look at besides rows and parameters.
//!
//! It is lent to each call in parts, so that functions of the session may change some of it while
//! values are converted by the rest.

use super::deferred::Deferred;
use super::registry::{Announced, Peer};
use super::{Notice, Severity};
use crate::error::{Result, SqlError, SqlState};
use crate::sql::Sql;
use crate::types::random::Random;
use crate::types::{Context, Settings, Type};
use indelible::{Interrupt, Wait};
use sql_bind::SessionNames;
use sql_plan::catalog::row_places::RowPlaces;
use sql_plan::catalog::sequence::SessionSequences;
use sql_rows::{Files, Memory};
use sql_values::setting::Variables;
use sql_values::undo::Undo;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

/// Surroundings of the expressions of a session.
pub(crate) struct Environment {
    pub(crate) settings: Settings,
    pub(crate) names: SessionNames,
    /// Microseconds since 2000-01-01 UTC.
    pub(crate) transaction_start: i64,
    pub(crate) statement_start: i64,
    /// When the client sent the text that runs, while one runs.
    pub(crate) text_start: Option<i64>,
    pub(crate) random: Random,
    pub(crate) interrupt: Interrupt,
    pub(crate) host: HostState,
}

impl Environment {
    /// The moment at which a statement or transaction begins that does so now: that of its text.
    pub(crate) fn begins_at(&self) -> i64 {
        self.text_start.unwrap_or_else(super::now)
    }

    /// A transaction begins with a statement.
    pub(crate) fn begin_transaction(&mut self) {
        let moment = self.begins_at();
        self.transaction_start = moment;
        self.statement_start = moment;
    }

    /// How long statements wait for locks.
    pub(crate) fn wait(&self) -> Wait {
        self.host.wait()
    }

    /// The surroundings of conversions.
    pub(crate) fn context(&self) -> Context<'_> {
        Context {
            settings: &self.settings,
            names: &self.names,
            transaction_start: self.transaction_start,
            statement_start: self.statement_start,
        }
    }
}

/// Objects that a notice of a cascade names at most.
const CASCADES_MAX: usize = 100;

/// State that functions of the session use and change.
pub(crate) struct HostState {
    pub(crate) sql: Arc<Sql>,
    pub(crate) variables: Variables,
    /// Settings that show the modes of the transaction that the statement is in.
    pub(crate) modes: [(&'static str, &'static str); 3],
    pub(crate) sequences: SessionSequences,
    /// Places of rows that the transaction has seen.
    pub(crate) row_places: RowPlaces,
    pub(crate) notices: Vec<Notice>,
    /// Objects that the statement drops with others, which are told at once.
    pub(crate) cascades: Vec<String>,
    /// Settings that `set_config` has changed: name, value, and whether for the transaction only.
    /// Functions see them at once; names and conversions follow them after the statement.
    pub(crate) changes: Vec<(String, String, bool)>,
    /// The end of the statement's time, if `statement_timeout` gives it one.
    pub(crate) deadline: Option<Instant>,
    /// The name by which the client knows the database.
    pub(crate) database: String,
    /// The name that the database has of its own.
    pub(crate) own_database: String,
    /// The role that has connected, and the one that it acts as.
    pub(crate) login_role: u32,
    pub(crate) session_role: u32,
    /// Roles that it acted as before the changes of the transaction.
    pub(crate) session_roles: Undo<u32>,
    /// The role that `SET ROLE` has given it, and those from before the changes of the transaction.
    pub(crate) set_role: Option<u32>,
    pub(crate) set_roles: Undo<Option<u32>>,
    /// Tables whose foreign keys the session does not look at, and those of before the changes of
    /// the transaction.
    pub(crate) disabled: Arc<BTreeSet<u32>>,
    pub(crate) disabled_before: Undo<Arc<BTreeSet<u32>>>,
    /// The session, as others see it.
    pub(crate) peer: Arc<Peer>,
    /// Notifications of the transaction, and changes of the channels that it listens to.
    pub(crate) announced: Announced,
    /// Checks of constraints that the transaction has put off.
    pub(crate) deferred: Deferred,
    /// Tables below that the transaction has made since its last savepoint, and that nobody else
    /// knows: they go if anything that follows is undone.
    pub(crate) new_tables: Vec<indelible::TableId>,
    /// All tables below that the transaction has made: nobody else has rows of them.
    pub(crate) own_tables: Vec<indelible::TableId>,
    /// The number of its last transaction.
    pub(crate) transaction: i64,
    /// Its temporary files.
    pub(crate) files: Arc<Files>,
    /// Its cursors, as it sees them itself.
    pub(crate) cursors: BTreeMap<String, ShownCursor>,
    /// Its prepared statements.
    pub(crate) statements: BTreeMap<String, ShownStatement>,
}

/// A cursor, as `pg_cursors` shows it.
#[derive(Clone, Debug)]
pub(crate) struct ShownCursor {
    pub(crate) statement: Arc<str>,
    pub(crate) is_held: bool,
    pub(crate) is_binary: bool,
    pub(crate) is_scrollable: bool,
    pub(crate) made_at: i64,
}

/// A prepared statement, as `pg_prepared_statements` shows it.
#[derive(Clone, Debug)]
pub(crate) struct ShownStatement {
    pub(crate) statement: Arc<str>,
    pub(crate) types: Vec<Type>,
    pub(crate) made_at: i64,
}

impl HostState {
    /// All settings with their values, by name, with the modes of the transaction.
    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        let mut all = self.variables.all();
        for (mode, value) in self.modes {
            if let Ok(at) = all.binary_search_by(|(name, _)| name.as_str().cmp(mode)) {
                value.clone_into(&mut all[at].1);
            }
        }
        all
    }

    /// Whether foreign keys are looked at when rows of a table change.
    pub(crate) fn keeps_references(&self, table: u32) -> bool {
        let role = self.variables.get("session_replication_role");
        !self.disabled.contains(&table) && role != Some("replica")
    }

    /// Stops or begins to look at the foreign keys of tables.
    pub(crate) fn disable(&mut self, tables: &[u32], is_disabled: bool) {
        let level = self.variables.level();
        let before = Arc::clone(&self.disabled);
        self.disabled_before.keep(level, false, before);
        let disabled = Arc::make_mut(&mut self.disabled);
        for table in tables {
            if is_disabled {
                disabled.insert(*table);
            } else {
                disabled.remove(table);
            }
        }
    }

    /// The memory of a statement with so many operators that may keep rows.
    pub(crate) fn memory(&self, keepers: usize) -> Memory {
        let modes = self.variables.modes();
        self.files.set_limit(modes.temp_file_limit);
        Memory::new(modes.work_mem, keepers, Arc::clone(&self.files))
    }

    /// Gives the statement that begins its time.
    pub(crate) fn begin_statement(&mut self) {
        let limit = self.variables.modes().limit;
        self.deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    }

    /// The number of the transaction as an `xid`, of which the least ones are none.
    pub(crate) fn xid(&self) -> u32 {
        const FIRST: u32 = 3;
        (self.transaction as u32).max(FIRST)
    }

    /// Lets what follows take any time: the end of a transaction is not of the statement's.
    pub(crate) fn end_statement(&mut self) {
        self.deadline = None;
    }

    /// How long the statement waits for locks.
    pub(crate) fn wait(&self) -> Wait {
        match (self.variables.modes().wait, self.deadline) {
            (Wait::Limit(limit), Some(deadline)) => {
                Wait::Limit(limit.min(deadline.saturating_duration_since(Instant::now())))
            }
            (wait, _) => wait,
        }
    }

    /// Fails if the statement's time is over.
    pub(crate) fn check_deadline(&self) -> Result<()> {
        check_deadline(self.deadline)
    }

    /// Keeps a notice for the client.
    pub(crate) fn notice(&mut self, message: impl Into<String>) {
        let content = SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message);
        self.tell(Severity::Notice, content);
    }

    /// Fails, or tells only that the statement goes on without what it does not have to do.
    pub(crate) fn skip_or_fail(&mut self, skips: bool, error: SqlError) -> Result<()> {
        if !skips {
            return Err(error);
        }
        let message = format!("{}, skipping", error.message);
        self.tell(Severity::Notice, SqlError::new(error.state, message));
        Ok(())
    }

    /// Tells which objects the statement has dropped with others.
    pub(crate) fn tell_cascades(&mut self) {
        let all = std::mem::take(&mut self.cascades);
        let lines = all.iter().map(|one| format!("drop cascades to {one}"));
        let mut lines: Vec<String> = lines.take(CASCADES_MAX).collect();
        match all.len() {
            0 => {}
            1 => self.notice(lines.concat()),
            count => {
                if let Some(more) = count.checked_sub(CASCADES_MAX).filter(|more| *more > 0) {
                    let what = if more == 1 { "object" } else { "objects" };
                    lines.push(format!("and {more} other {what} (see server log for list)"));
                }
                let message = format!("drop cascades to {count} other objects");
                let content = SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message);
                self.tell(Severity::Notice, content.detail(lines.join("\n")));
            }
        }
    }

    /// Keeps a warning for the client.
    pub(crate) fn warning(&mut self, state: SqlState, message: impl Into<String>) {
        self.tell(Severity::Warning, SqlError::new(state, message));
    }

    /// Keeps what the client wants to be told.
    fn tell(&mut self, severity: Severity, content: SqlError) {
        let least = self.variables.get("client_min_messages");
        let is_wanted = match least.unwrap_or_default().to_ascii_lowercase().as_str() {
            "error" => false,
            "warning" => severity == Severity::Warning,
            _ => true,
        };
        if is_wanted {
            self.notices.push(Notice { severity, content });
        }
    }
}

/// Fails if the end of a statement's time has passed.
pub(crate) fn check_deadline(deadline: Option<Instant>) -> Result<()> {
    if deadline.is_none_or(|deadline| Instant::now() < deadline) {
        return Ok(());
    }
    let message = "canceling statement due to statement timeout";
    Err(SqlError::new(SqlState::QUERY_CANCELED, message))
}
