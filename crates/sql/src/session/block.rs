//! `DO`: a block of statements, with handlers of exceptions.
//!
//! With handlers the statements run after a savepoint of their own, whose name no client can have:
//! an error that a handler catches undoes them, and its statements run in their place. An error
//! that nobody catches is that of the whole statement. A block is read when its text is, so all of
//! its statements are known before the first one runs.

use super::Session;
use super::execute::Nowhere;
use crate::error::{Result, SqlError};
use crate::sink::Completion;
use sql_parse::{InlineBlock, MARK, Parsed};
use std::time::Instant;

impl Session {
    /// Runs a block.
    pub(crate) fn run_block(&mut self, block: &InlineBlock) -> Result<Completion> {
        // The transaction goes on after each statement, as in a text of several.
        let (is_alone, is_together) = (self.is_alone, self.is_together);
        (self.is_alone, self.is_together) = (false, true);
        let deadline = self.environment.host.deadline;
        let result = self.run_handled(block, deadline);
        (self.is_alone, self.is_together) = (is_alone, is_together);
        result.map(|()| Completion::new("DO"))
    }

    fn run_handled(&mut self, block: &InlineBlock, deadline: Option<Instant>) -> Result<()> {
        if block.handlers.is_empty() {
            return self.run_each(&block.statements, deadline);
        }
        let place = self.transaction.savepoints.len();
        self.begin_savepoint(MARK.to_string())?;
        let Err(error) = self.run_each(&block.statements, deadline) else {
            self.release_from(place);
            return Ok(());
        };
        // A deadlock may have ended the transaction below.
        if !self.connection.is_open() {
            self.release_from(place);
            return Err(error);
        }
        self.return_to(place)?;
        self.release_from(place);
        let catches = |error: &SqlError| {
            let mut handlers = block.handlers.iter();
            handlers.find(|one| one.conditions.iter().any(|one| one.catches(error)))
        };
        match catches(&error) {
            Some(handler) => self.run_each(&handler.statements, deadline),
            None => Err(error),
        }
    }

    /// Runs statements, which share the time of the whole.
    fn run_each(&mut self, statements: &[Parsed], deadline: Option<Instant>) -> Result<()> {
        for statement in statements {
            let done = self.attempt(|session| {
                session.environment.host.deadline = deadline;
                session.execute(statement, &mut Nowhere)
            });
            // Its place is one in the text of the block.
            done.map_err(|error| SqlError {
                position: None,
                ..error
            })?;
        }
        Ok(())
    }
}
