//! The status page, for people: one page without data, and its data for whoever has the token.
//!
//! Every user of this machine can reach the address, so the data need the token that the server
//! has printed at its start; the page has it behind the `#` of its address, which browsers send to
//! nobody. The data are relations of SQL and counts; statements are without their constants.

use crate::counts::Counts;
use crate::http;
use crate::shared::Shared;
use rustix::rand::{GetRandomFlags, getrandom};
use serde_json::{Value, json};
use sql::types::{Context, text_io};
use sql::{Batch, Flow, OutputColumn, RowSink, Session, SqlError, SqlState, without_constants};
use std::fmt::Write as _;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

/// The page, with its style and its script.
pub(crate) const HTML: &str = include_str!("page.html");
/// Its script and style are its own, and it asks nobody but this server.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; \
                                 style-src 'unsafe-inline'; connect-src 'self'";

const TOKEN_BYTES: usize = 16;
/// The column whose texts are statements.
const STATEMENT: &str = "statement";
const SESSIONS: &str = "
    SELECT pid AS session, usename AS role, application_name AS application,
           coalesce(client_addr || ':' || client_port, 'socket') AS client, state,
           round(extract(epoch FROM clock_timestamp() - state_change)::numeric, 1) AS seconds,
           query AS statement
    FROM pg_stat_activity WHERE pid <> pg_backend_pid() ORDER BY pid LIMIT 1000";
const WAITS: &str = "
    SELECT pid AS session, pg_blocking_pids(pid) AS waits_for,
           round(extract(epoch FROM clock_timestamp() - query_start)::numeric, 1) AS seconds,
           query AS statement
    FROM pg_stat_activity
    WHERE pid IN (SELECT pid FROM pg_locks WHERE NOT granted) ORDER BY pid LIMIT 1000";
const COSTS: &str = "SELECT * FROM pg_stat_nvm";
const WEAR: &str = "SELECT * FROM pg_stat_nvm_partitions";

/// The status page of a server.
pub(crate) struct Page {
    /// The word that its data need.
    pub(crate) token: String,
    started: Instant,
    recovery: Value,
    /// Requests for the data that are answered at this moment.
    asked: AtomicUsize,
}

impl Page {
    /// Looks at the opening of the database, before there are sessions.
    pub(crate) fn new(sql: &sql::Sql) -> io::Result<Self> {
        let mut random = [0; TOKEN_BYTES];
        getrandom(&mut random, GetRandomFlags::empty())?;
        let mut token = String::new();
        for byte in random {
            // Writing to a text cannot fail.
            let _ = write!(token, "{byte:02x}");
        }
        let statistics = sql.database().statistics().map_err(io::Error::other)?;
        let milliseconds = format!("{:.3}", statistics.opened_in.as_secs_f64() * 1e3);
        let recovery = json!({
            "columns": ["opened_in_ms", "transactions_undone", "transactions_replayed",
                        "table_bytes", "index_bytes", "log_bytes"],
            "rows": [[
                milliseconds,
                statistics.recovery_undone,
                statistics.recovery_replayed,
                statistics.footprint.table,
                statistics.footprint.index,
                statistics.footprint.log,
            ]],
        });
        Ok(Self {
            token,
            started: Instant::now(),
            recovery,
            asked: AtomicUsize::new(0),
        })
    }

    /// The data of the page. Relations may wait for others, and must not take all threads that
    /// answer.
    pub(crate) fn data(&self, shared: &Shared) -> Result<Value, SqlError> {
        let before = self.asked.fetch_add(1, Ordering::Relaxed);
        let data = if before < http::THREADS / 2 {
            self.relations(shared)
        } else {
            let message = "others get the status at this moment";
            Err(SqlError::new(SqlState::OBJECT_IN_USE, message))
        };
        self.asked.fetch_sub(1, Ordering::Relaxed);
        data
    }

    fn relations(&self, shared: &Shared) -> Result<Value, SqlError> {
        let mut session = shared.sql.connect()?;
        let database = shared.sql.database();
        let options = shared.options();
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { errors, times, .. } = &shared.counts;
        Ok(json!({
            "version": env!("CARGO_PKG_VERSION"),
            "directory": options.directory.display().to_string(),
            "method": database.method().name(),
            "survives": database.survives(),
            "uptime_ms": self.started.elapsed().as_millis() as u64,
            "connections": shared.registry.count(),
            "connections_max": options.connections_max,
            "errors": read(errors),
            "times": times.iter().map(read).collect::<Vec<_>>(),
            "sessions": relation(&mut session, SESSIONS)?,
            "waits": relation(&mut session, WAITS)?,
            "costs": relation(&mut session, COSTS)?,
            "wear": relation(&mut session, WEAR)?,
            "recovery": self.recovery,
        }))
    }
}

/// The columns and rows of a query.
fn relation(session: &mut Session, query: &str) -> Result<Value, SqlError> {
    let mut table = Table::default();
    session.simple(query, &mut table)?;
    Ok(json!({ "columns": table.columns, "rows": table.rows }))
}

/// Receiver of rows as texts.
#[derive(Default)]
struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
}

impl RowSink for Table {
    fn describe(&mut self, columns: &[OutputColumn]) -> Result<(), SqlError> {
        self.columns = columns.iter().map(|column| column.name.clone()).collect();
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, context: &Context<'_>) -> Result<Flow, SqlError> {
        for row in batch.rows() {
            let values = row.iter().zip(&self.columns).map(|(value, column)| {
                if value.is_null() {
                    return Ok(None);
                }
                let text = text_io::print(value, value.kind(), context)?;
                Ok(Some(if column == STATEMENT {
                    without_constants(&text)
                } else {
                    text
                }))
            });
            self.rows.push(values.collect::<Result<_, SqlError>>()?);
        }
        Ok(Flow::More)
    }
}
