//! A database as SQL shows it, as lines of text.
//!
//! Objects, constraints, indexes and types come from the relations of the system, and rows from the
//! tables that these name. Two databases with the same lines are the same to clients.

use sql::types::{Context, Datum, Kind, text_io};
use sql::{Batch, Flow, OutputColumn, RowSink, Session, Sql, SqlError};
use std::sync::Arc;

/// Queries whose answers are the state of a database: schema first, and the rows of each table.
const STATE: &[&str] = &[
    "SELECT n.nspname || '.' || c.relname || ' ' || c.relkind::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname IN ('public', 'other') ORDER BY 1",
    "SELECT c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull::text FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname IN ('public', 'other') AND c.relkind IN ('r', 'v') AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 1",
    "SELECT conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid <> 0 ORDER BY 1",
    "SELECT indexname || ' ' || indexdef FROM pg_indexes WHERE schemaname IN ('public', 'other') ORDER BY 1",
    "SELECT typname FROM pg_type WHERE typtype = 'e' ORDER BY 1",
    "SELECT sequencename || ' ' || (last_value IS NOT NULL)::text FROM pg_sequences WHERE schemaname IN ('public', 'other') ORDER BY 1",
];
const TABLES: &str = "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables WHERE schemaname IN ('public', 'other') ORDER BY 1";

/// Rows as lines, with bars between their values.
#[derive(Default)]
struct Lines {
    kinds: Vec<Kind>,
    rows: Vec<String>,
}

impl RowSink for Lines {
    fn describe(&mut self, columns: &[OutputColumn]) -> Result<(), SqlError> {
        let kinds = columns.iter().map(|column| column.data_type.kind);
        self.kinds = kinds.collect();
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, context: &Context<'_>) -> Result<Flow, SqlError> {
        for row in batch.rows() {
            let columns = row.iter().zip(&self.kinds);
            let texts = columns.map(|(value, kind)| match value {
                Datum::Null => Ok("NULL".to_owned()),
                value => text_io::print(value, *kind, context),
            });
            self.rows
                .push(texts.collect::<Result<Vec<_>, _>>()?.join(" | "));
        }
        Ok(Flow::More)
    }
}

/// The rows that statements give.
pub(crate) fn ask(session: &mut Session, text: &str) -> Result<Vec<String>, String> {
    let mut lines = Lines::default();
    let asked = session.simple(text, &mut lines);
    asked.map_err(|error| format!("{text}: {error}"))?;
    Ok(lines.rows)
}

/// A database as SQL shows it.
pub(crate) fn state_of(sql: &Arc<Sql>) -> Result<Vec<String>, String> {
    let mut session = sql.connect().map_err(|error| error.to_string())?;
    let mut state = Vec::new();
    for query in STATE {
        state.extend(ask(&mut session, query)?);
    }
    for table in ask(&mut session, TABLES)? {
        let rows = format!("SELECT '{table} ' || t::text FROM {table} AS t ORDER BY 1");
        state.extend(ask(&mut session, &rows)?);
    }
    Ok(state)
}
