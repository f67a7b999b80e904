//! The pieces of a text: statements and commands, each run by the shell.
//!
//! A text is a line of a user, an argument or a file. A command may name a file, whose text is run
//! in the same way, so the two call each other.

use super::command;
use super::shell::{Outcome, Shell};
use anyhow::Result;
use client::script::{Piece, Script, substitute};

impl Shell {
    /// Runs the statements and commands of a text. `file` is its name in errors; a text of a file
    /// has the data of its COPY statements.
    pub(super) fn run(&mut self, text: &str, file: Option<&str>) -> Result<Outcome> {
        let mut script = Script::new(text);
        let mut outcome = Outcome::Done;
        while !self.is_over && (outcome == Outcome::Done || self.keeps_going) {
            let piece = script.next();
            let place = |script: &Script<'_>| match file {
                Some(file) => format!("{file}:{}: ", script.statement_line()),
                None => String::new(),
            };
            let ended = match piece {
                Some(Piece::Statement(text)) => {
                    let place = place(&script);
                    self.statement(&text, &place, file.map(|_| &mut script))?
                }
                Some(Piece::Command(text)) => {
                    let text = substitute(text, |name| self.variable(name)).into_owned();
                    let place = place(&script);
                    command::run(self, &text, &mut script, &place)?
                }
                None => {
                    let rest = script.take_buffer();
                    if !rest.trim().is_empty() {
                        let rest = self.statement(&rest, &place(&script), None)?;
                        outcome = outcome.and(rest);
                    }
                    break;
                }
            };
            outcome = outcome.and(ended);
        }
        Ok(outcome)
    }
}
