//! The pieces of a text: statements and commands, each run by the shell.
//!
//! A text is a line of a user, an argument or a file. A command may name a file, whose text is run
//! in the same way, so the two call each other. A file is read line by line, as its statements run.

use super::command;
use super::failure::{FileFailure, failure_of};
use super::printer::Out;
use super::shell::{Outcome, Shell};
use crate::output::stdout;
use anyhow::Result;
use client::script::{Piece, Script};

impl Shell {
    /// Runs the statements and commands of an argument or of a user.
    pub(super) fn run(&mut self, text: &str) -> Result<Outcome> {
        self.run_script(&mut Script::new(text), None)
    }

    /// Runs the statements and commands of a text. `file` is its name in errors; a text of a file
    /// has the data of its COPY statements.
    pub(super) fn run_script(
        &mut self,
        script: &mut Script<'_>,
        file: Option<&str>,
    ) -> Result<Outcome> {
        let mut outcome = Outcome::Done;
        let blocks = self.blocks.len();
        while !self.is_over {
            let piece = match script.next_piece() {
                Ok(piece) => piece,
                Err(error) => {
                    let sentence = format!("{}: {error}", file.unwrap_or("the text"));
                    return Ok(self.refuse("", &sentence));
                }
            };
            let place = match file {
                Some(file) => format!("{file}:{}: ", script.piece_line()),
                None => String::new(),
            };
            let is_last = piece.is_none();
            let ended = match piece {
                Some(Piece::Command(text)) => self.command(&text, script, file, &place),
                // A branch that is not taken is read over.
                _ if self.is_skipping() => {
                    script.take_buffer();
                    Ok(Outcome::Done)
                }
                Some(Piece::Statement(text)) => self.statement_of(&text, script, file, &place),
                None => self.rest(script, &place),
            };
            let ended = self.outlived(ended, &place)?;
            outcome = outcome.and(ended);
            // A failure before the script asked to stop at one has been gone past.
            if is_last || (ended == Outcome::Failed && !self.keeps_going) {
                break;
            }
        }
        if self.blocks.len() > blocks && file.is_some() && !self.is_over {
            self.blocks.truncate(blocks);
            outcome = outcome.and(self.refuse("", "the script ends before the \\endif of an \\if"));
        }
        Ok(outcome)
    }

    fn command(
        &mut self,
        text: &str,
        script: &mut Script<'_>,
        file: Option<&str>,
        place: &str,
    ) -> Result<Outcome> {
        if let Some(outcome) = self.branch(text, place) {
            return Ok(outcome);
        }
        if self.is_skipping() {
            return Ok(Outcome::Done);
        }
        command::run(self, text, (script, file.is_some()), place)
    }

    /// The text after the last semicolon. A person may go on with it.
    fn rest(&mut self, script: &mut Script<'_>, place: &str) -> Result<Outcome> {
        let rest = script.take_buffer();
        if rest.trim().is_empty() {
            return Ok(Outcome::Done);
        }
        if self.terminal.is_some() {
            self.unfinished = rest;
            return Ok(Outcome::Done);
        }
        self.statement(&rest, place)
    }

    /// A file that cannot be read or written fails its command, and not the shell.
    fn outlived(&mut self, result: Result<Outcome>, place: &str) -> Result<Outcome> {
        let error = match result {
            Err(error) => error,
            outcome => return outcome,
        };
        let Some(FileFailure {
            sentence,
            is_output,
        }) = failure_of(&error).cloned()
        else {
            return Err(error);
        };
        if is_output {
            self.out = Out::new(stdout());
        }
        Ok(self.refuse(place, &sentence))
    }
}
