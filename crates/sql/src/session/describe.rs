//! Types of a statement before it is prepared.
//!
//! A binding looks at them to choose the values that it sends, and may try another declaration. An
//! attempt that fails is nothing that the transaction knows of.

use super::Session;
use crate::error::{Result, SqlError, SqlState};
use crate::sink::OutputColumn;
use crate::types::Type;
use sql_parse::parse;

/// Parameters and columns of a statement.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// Types of the parameters, in their order.
    pub parameters: Vec<Type>,
    /// Columns of the result; none if there is none, or if only running the statement tells.
    pub columns: Option<Vec<OutputColumn>>,
    /// Whether it is a query, which changes nothing, so that it may stop between its rows.
    pub is_query: bool,
}

impl Session {
    /// Describes one statement. An error leaves the transaction as it was.
    ///
    /// # Errors
    ///
    /// Those of its syntax and of its names and types; several statements in one text.
    pub fn describe(&mut self, text: &str, declared: &[Option<Type>]) -> Result<Description> {
        let mut parsed = parse(text)?;
        if parsed.len() > 1 {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let Some(parsed) = parsed.pop() else {
            return Ok(Description::default());
        };
        self.refresh_catalog();
        let plan = self.plan(&parsed, declared)?;
        Ok(plan.map_or_else(Description::default, |plan| Description {
            parameters: plan.parameters.clone(),
            columns: plan.columns.clone(),
            is_query: !plan.writes,
        }))
    }

    /// The type of a number of the catalogue: one that is built in, one that a statement has
    /// defined, or the array of one.
    pub fn type_of_oid(&mut self, oid: u32) -> Option<Type> {
        self.refresh_catalog();
        self.environment.names.type_of_oid(oid)
    }

    /// Versions of the catalogue and of the settings: a description made under others may have
    /// changed.
    pub fn description_versions(&mut self) -> (u64, u64) {
        self.refresh_catalog();
        let (catalog, settings, _) = self.versions();
        (catalog, settings)
    }

    /// A transaction that defines objects has a catalogue of its own; all others see the newest.
    pub(crate) fn refresh_catalog(&mut self) {
        if !self.transaction.defines {
            self.sql.refresh(&mut self.environment.names.catalog);
        }
    }
}
