//! Two clients that run the same scripts.
//!
//! Commands of PostgreSQL's shell that change what statements mean are followed (`\set`, `\getenv`,
//! `\gset`); others, such as `\d`, are left out. Each side has its own variables, since they come
//! from its own rows. Files of PostgreSQL's test suite that a script reads are made up (see
//! [`suite`](super::suite)).

use super::cause::cause_of;
use super::suite;
use super::verdict::{Verdict, compare};
use crate::client::{Answers, Cancel, Client, Error, Report};
use crate::script::{Piece, Script, substitute};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest time of a statement, after which it is cancelled.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Two clients.
pub struct Pair {
    ours: Side,
    theirs: Side,
}

/// The outcome of a script.
#[derive(Clone, Debug, Default)]
pub struct ScriptReport {
    /// Statements that both answered alike.
    pub agreed: u64,
    /// Of these, errors whose states are the same and whose messages are not.
    pub other_messages: u64,
    /// Statements that failed on both because something of the suite is missing.
    pub uncounted: u64,
    /// Statements that were answered differently.
    pub differences: Vec<Difference>,
}

/// A statement that was answered differently.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Its line in the script, from 1.
    pub line: usize,
    /// Its text.
    pub statement: String,
    /// The kind of the difference, the same for statements that differ alike.
    pub cause: String,
    /// The answer of the database that is judged.
    pub ours: String,
    /// The answer of the reference.
    pub theirs: String,
}

struct Side {
    client: Box<dyn Client>,
    variables: BTreeMap<String, String>,
}

impl Pair {
    /// A pair of the database that is judged and the reference.
    pub fn new(ours: Box<dyn Client>, theirs: Box<dyn Client>) -> Self {
        let side = |client| Side {
            client,
            variables: BTreeMap::new(),
        };
        Self {
            ours: side(ours),
            theirs: side(theirs),
        }
    }

    /// Makes both databases empty, as far as `public` goes, and runs a script on them without
    /// counting anything.
    pub fn begin(&mut self, prelude: &str) -> Result<(), Error> {
        for side in [&mut self.ours, &mut self.theirs] {
            side.client = side.client.another()?;
            side.variables.clear();
            for text in [
                "DROP SCHEMA IF EXISTS public CASCADE",
                "CREATE SCHEMA public",
            ] {
                side.client.ask(text)?;
            }
        }
        self.run(prelude).map(drop)
    }

    /// Runs one statement on both, without looking for commands in it.
    pub fn compare(&mut self, statement: &str) -> Result<ScriptReport, Error> {
        let mut report = ScriptReport::default();
        self.both(statement, 1, None, &mut report)?;
        Ok(report)
    }

    /// Runs a script on both.
    pub fn run(&mut self, text: &str) -> Result<ScriptReport, Error> {
        let mut script = Script::new(text);
        let mut report = ScriptReport::default();
        while let Some(piece) = script.next_piece()? {
            match piece {
                Piece::Statement(statement) => {
                    let line = script.piece_line();
                    let input = copies_in(&statement).then(|| script.take_copy_data());
                    let input = input.transpose()?;
                    self.both(&statement, line, input.as_deref(), &mut report)?;
                }
                Piece::Command(command) => self.command(&command, &mut script, &mut report)?,
            }
        }
        let rest = script.take_buffer();
        if !rest.trim().is_empty() {
            self.both(&rest, script.piece_line(), None, &mut report)?;
        }
        Ok(report)
    }

    fn command(
        &mut self,
        command: &str,
        script: &mut Script<'_>,
        report: &mut ScriptReport,
    ) -> Result<(), Error> {
        let (name, rest) = command
            .split_once(char::is_whitespace)
            .unwrap_or((command, ""));
        let mut words = rest.split_whitespace();
        match name {
            "\\g" | "\\gx" | "\\gset" | "\\gdesc" => {
                let statement = script.take_buffer();
                let prefix = words.next().unwrap_or("");
                let answers = self.both(&statement, script.piece_line(), None, report)?;
                if name == "\\gset" {
                    for (side, answers) in
                        [&mut self.ours, &mut self.theirs].into_iter().zip(answers)
                    {
                        side.keep(prefix, &answers);
                    }
                }
            }
            "\\set" => {
                let name = words.next().unwrap_or("").to_owned();
                for side in [&mut self.ours, &mut self.theirs] {
                    let value = side.filled(words.clone().collect::<Vec<_>>().concat().as_str());
                    side.variables.insert(name.clone(), value.replace('\'', ""));
                }
            }
            // Folders of the suite, which are not there.
            "\\getenv" => {
                let name = words.next().unwrap_or("").to_owned();
                for side in [&mut self.ours, &mut self.theirs] {
                    side.variables
                        .insert(name.clone(), suite::FOLDER.to_owned());
                }
            }
            "\\r" => drop(script.take_buffer()),
            _ => {}
        }
        Ok(())
    }

    /// Runs a statement on both and counts the outcome.
    fn both(
        &mut self,
        statement: &str,
        line: usize,
        input: Option<&str>,
        report: &mut ScriptReport,
    ) -> Result<[Answers; 2], Error> {
        let theirs = self.theirs.ask(statement, input)?;
        let ours = self.ours.ask(statement, input)?;
        match compare(statement, &ours, &theirs) {
            Verdict::Agree => report.agreed += 1,
            Verdict::OtherMessage => {
                report.agreed += 1;
                report.other_messages += 1;
            }
            Verdict::Missing => report.uncounted += 1,
            Verdict::Differ {
                ours: shown,
                theirs: wanted,
            } => report.differences.push(Difference {
                line,
                statement: statement.to_owned(),
                cause: cause_of(statement, &ours, &theirs),
                ours: shown,
                theirs: wanted,
            }),
        }
        Ok([ours, theirs])
    }
}

impl Side {
    fn filled(&self, text: &str) -> String {
        substitute(text, |name| self.variables.get(name).cloned()).into_owned()
    }

    /// Runs a statement. A panic is an answer too, and is distinguished from errors by its state.
    fn ask(&mut self, statement: &str, input: Option<&str>) -> Result<Answers, Error> {
        let text = self.filled(statement);
        let made_up = suite::file_of(&text);
        let text = made_up
            .as_ref()
            .map_or(text.as_str(), |file| file.statement.as_str());
        let input = made_up.as_ref().map(|file| file.data.as_str()).or(input);
        let mut answers = Answers::with_input(input.unwrap_or("").as_bytes().to_vec());
        let watch = Watch::new(self.client.cancel());
        let run = catch_unwind(AssertUnwindSafe(|| self.client.run(text, &mut answers)));
        drop(watch);
        match run {
            Ok(Ok(())) => {}
            Ok(Err(Error::Statement(report))) => answers.failure = Some(*report),
            Ok(Err(Error::Lost(message))) => {
                answers.failure = Some(Report::error("lost", message));
                self.client = self.client.another()?;
            }
            Ok(Err(error)) => return Err(error),
            Err(panic) => {
                let message = panic.downcast_ref::<String>().map(String::as_str);
                let message = message.or(panic.downcast_ref::<&str>().copied());
                answers.failure = Some(Report::error("panic", message.unwrap_or("no message")));
                self.client = self.client.another()?;
            }
        }
        Ok(answers)
    }

    fn keep(&mut self, prefix: &str, answers: &Answers) {
        let Some(answer) = answers.last() else { return };
        let Some(row) = answer.rows.first() else {
            return;
        };
        for (column, value) in answer.columns.iter().zip(row) {
            let value = value.clone().unwrap_or_default();
            self.variables
                .insert(format!("{prefix}{}", column.name), value);
        }
    }
}

/// Cancels a statement that takes too long, unless it is dropped before.
struct Watch(Option<(Sender<()>, JoinHandle<()>)>);

impl Watch {
    fn new(cancel: Box<dyn Cancel>) -> Self {
        let (end, ended) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            if ended.recv_timeout(TIMEOUT) == Err(RecvTimeoutError::Timeout) {
                cancel.cancel();
            }
        });
        Self(Some((end, thread)))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            drop(end);
            // Afterwards nothing can cancel the next statement.
            let _ = thread.join();
        }
    }
}

/// Whether the data of a statement stand behind it in the script.
fn copies_in(statement: &str) -> bool {
    let words: Vec<String> = statement
        .split_whitespace()
        .map(str::to_ascii_lowercase)
        .collect();
    words.first().is_some_and(|word| word == "copy")
        && words
            .windows(2)
            .any(|pair| pair[0] == "from" && pair[1].starts_with("stdin"))
}
