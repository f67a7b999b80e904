//! One statement: a plan that runs, or a change of the session or the catalogue.

use super::Session;
use crate::error::{Result, SqlError};
use crate::parse::Parsed;
use crate::sink::{Completion, RowSink};
use sqlparser::ast::Statement;

impl Session {
    /// Runs a statement in the open transaction.
    pub(super) fn execute(
        &mut self,
        parsed: &Parsed,
        sink: &mut dyn RowSink,
    ) -> Result<Completion> {
        let _ = sink;
        match &*parsed.statement {
            statement @ (Statement::Set(_)
            | Statement::ShowVariable { .. }
            | Statement::Reset(_)) => self.setting_statement(statement, sink),
            other => Err(SqlError::unsupported(
                command_name(other),
                "See `docs/sql.md` for the statements that there are.",
            )),
        }
    }
}

/// The first words of a statement.
fn command_name(statement: &Statement) -> String {
    let text = statement.to_string();
    let words: Vec<&str> = text.split_whitespace().take(2).collect();
    words.join(" ")
}
