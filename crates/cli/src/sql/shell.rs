//! The shell: runs statements, and keeps what a user has set; `pieces` runs a whole text.
//!
//! A statement that fails is told on standard error, and the shell goes on; whoever runs a script
//! decides whether the script does too. Only a lost connection and output that nobody takes end the
//! shell itself.

use super::branch::Branch;
use super::interrupt;
use super::printer::{Input, Out, Printer};
use super::report::{self, Verbosity};
use crate::output::{FormatName, duration, stdout};
use anyhow::Result;
use client::script::{CopyData, Script, reads_copy_data, substitute};
use client::{Answers, Client, Error, Report, Sink, Status};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

/// Lines of data that a person types; `None` at their end.
pub(super) type Terminal = Rc<RefCell<dyn FnMut() -> io::Result<Option<Vec<u8>>>>>;

/// Variables that each statement sets, as they are before the first one.
const KEPT: [(&str, &str); 5] = [
    ("ERROR", "false"),
    ("LAST_ERROR_MESSAGE", ""),
    ("LAST_ERROR_SQLSTATE", "00000"),
    ("ROW_COUNT", "0"),
    ("SQLSTATE", "00000"),
];

/// A shell with its settings.
#[expect(
    clippy::struct_excessive_bools,
    reason = "settings that users turn on and off"
)]
pub(super) struct Shell {
    pub(super) client: Box<dyn Client>,
    /// The name of the database, for the prompt.
    pub(super) name: String,
    /// The directory of the database, or the address of a server.
    pub(super) directory: PathBuf,
    pub(super) out: Out,
    pub(super) format: FormatName,
    /// One value a line, instead of a table.
    pub(super) is_expanded: bool,
    pub(super) has_timer: bool,
    /// Whether a script goes on after a failure.
    pub(super) keeps_going: bool,
    pub(super) variables: BTreeMap<String, String>,
    /// The statement that ran last, for commands that run it again.
    pub(super) last: String,
    pub(super) last_error: Option<Report>,
    /// Scripts that are being read, each by the one before it.
    pub(super) depth: u32,
    pub(super) is_over: bool,
    /// Folders of the scripts that are being read.
    pub(super) folders: Vec<PathBuf>,
    /// The `\if` commands that have not ended.
    pub(super) blocks: Vec<Branch>,
    /// The key of `\restrict`, which allows no commands until `\unrestrict` has the same.
    pub(super) restricted: Option<String>,
    /// The person that types, if one does.
    pub(super) terminal: Option<Terminal>,
    /// The statement that this person has begun.
    pub(super) unfinished: String,
    /// Changes of the schema so far: names for completion are read again after each.
    pub(super) schema_changes: u64,
}

/// How a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// Something in it failed, and has been told.
    Failed,
}

impl Outcome {
    /// The outcome of this and another.
    pub(super) fn and(self, other: Self) -> Self {
        if self == Self::Done { other } else { self }
    }
}

impl Shell {
    pub(super) fn new(client: Box<dyn Client>, name: String, format: FormatName) -> Self {
        Self {
            client,
            name,
            directory: PathBuf::new(),
            out: Out::new(stdout()),
            format,
            is_expanded: false,
            has_timer: false,
            keeps_going: false,
            variables: BTreeMap::from(
                KEPT.map(|(name, value)| (name.to_owned(), value.to_owned())),
            ),
            last: String::new(),
            last_error: None,
            depth: 0,
            is_over: false,
            folders: Vec::new(),
            blocks: Vec::new(),
            restricted: None,
            terminal: None,
            unfinished: String::new(),
            schema_changes: 0,
        }
    }

    pub(super) fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }

    /// Runs a statement and prints what it answers. Data of COPY are standard input.
    pub(super) fn statement(&mut self, text: &str, place: &str) -> Result<Outcome> {
        text.clone_into(&mut self.last);
        self.statement_from(text, place, &mut Data::Given(Input::Lines))
    }

    /// Runs a statement of a script. Its data are the lines after it, and for a person the next
    /// ones. An argument of the program has none.
    pub(super) fn statement_of(
        &mut self,
        text: &str,
        script: &mut Script<'_>,
        file: Option<&str>,
        place: &str,
    ) -> Result<Outcome> {
        let has_data = file.is_some() || self.terminal.is_some();
        if !(has_data && reads_copy_data(text)) {
            return self.statement(text, place);
        }
        text.clone_into(&mut self.last);
        script.skip_line();
        let mut data = Data::script(script, self.terminal.clone());
        self.statement_from(text, place, &mut data)
    }

    /// Runs a statement with the data that `COPY ... FROM STDIN` reads.
    pub(super) fn statement_from(
        &mut self,
        text: &str,
        place: &str,
        data: &mut Data<'_, '_>,
    ) -> Result<Outcome> {
        let text = substitute(text, |name| self.variable(name)).into_owned();
        let format = match self.format {
            FormatName::Text if self.is_expanded => FormatName::Line,
            format => format,
        };
        let out = self.out.clone();
        let mut input = || data.next();
        let mut printer = Printer::new(&out, format, &mut input);
        let start = Instant::now();
        let result = self.run_on(&text, &mut printer);
        let time = start.elapsed();
        let processed = printer.processed;
        data.drain()?;
        let outcome = self.tell(result, place, Some(&text))?;
        self.keep_outcome(outcome, processed);
        if self.has_timer {
            let line = format!("Time: {}", duration(time.as_secs_f64() * 1e6));
            // Programs that read the rows read nothing else there.
            match format {
                FormatName::Text | FormatName::Line => writeln!(self.out, "{line}")?,
                _ => crate::streams::tell(&line),
            }
        }
        self.out.flush()?;
        Ok(outcome)
    }

    /// Sets the variables by which scripts see how the last statement went.
    pub(super) fn keep_outcome(&mut self, outcome: Outcome, processed: u64) {
        let has_failed = outcome == Outcome::Failed;
        let report = self.last_error.as_ref().filter(|_| has_failed);
        let state = report.map_or_else(|| "00000".to_owned(), |report| report.state.clone());
        if let Some(message) = report.map(|report| report.message.clone()) {
            self.keep("LAST_ERROR_MESSAGE", message);
            self.keep("LAST_ERROR_SQLSTATE", state.clone());
        }
        self.keep("ERROR", has_failed.to_string());
        self.keep("SQLSTATE", state);
        let count = if has_failed { 0 } else { processed };
        self.keep("ROW_COUNT", count.to_string());
    }

    fn keep(&mut self, name: &str, value: String) {
        self.variables.insert(name.to_owned(), value);
    }

    /// Runs a text; Ctrl-C stops it.
    fn run_on(&mut self, text: &str, sink: &mut dyn Sink) -> Result<(), Error> {
        let first = text
            .split_whitespace()
            .next()
            .unwrap_or("")
            .to_ascii_uppercase();
        if matches!(
            first.as_str(),
            "CREATE" | "ALTER" | "DROP" | "SET" | "ROLLBACK"
        ) {
            self.schema_changes += 1;
        }
        let _guard = interrupt::guard(self.client.cancel());
        self.client.run(text, sink)
    }

    /// Runs a statement of a command and keeps the answer; a failure is told.
    pub(super) fn ask(&mut self, text: &str) -> Result<Option<Answers>> {
        let mut answers = Answers::default();
        let result = self.run_on(text, &mut answers);
        let outcome = self.tell(result, "", None)?;
        Ok((outcome == Outcome::Done).then_some(answers))
    }

    /// Tells a failure of a statement; other errors end the shell.
    fn tell(
        &mut self,
        result: Result<(), Error>,
        place: &str,
        text: Option<&str>,
    ) -> Result<Outcome> {
        match result {
            Ok(()) => Ok(Outcome::Done),
            Err(Error::Statement(report)) => {
                let verbosity = match self.variables.get("VERBOSITY").map(String::as_str) {
                    Some("verbose") => Verbosity::Verbose,
                    _ => Verbosity::Default,
                };
                report::tell_as(&report, place, text, verbosity);
                self.last_error = Some(*report);
                Ok(Outcome::Failed)
            }
            Err(Error::Output(error)) if error.kind() == io::ErrorKind::Interrupted => {
                Ok(self.refuse(place, "canceled"))
            }
            Err(Error::Output(error)) => Err(error.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Tells a failure of a command.
    pub(super) fn refuse(&mut self, place: &str, sentence: &str) -> Outcome {
        let report = Report::error("", sentence);
        crate::streams::tell(&format!("{place}{sentence}"));
        self.last_error = Some(report);
        Outcome::Failed
    }

    /// Prints a statement's last answer as the user's format has it.
    pub(super) fn show(&mut self, answers: &Answers) -> Result<()> {
        let Some(answer) = answers.last() else {
            return Ok(());
        };
        let mut input = || Ok(None);
        let mut printer = Printer::new(&self.out, self.format, &mut input);
        printer.columns(&answer.columns)?;
        for row in &answer.rows {
            let row: Vec<Option<&str>> = row.iter().map(Option::as_deref).collect();
            printer.row(&row)?;
        }
        printer.done(&answer.tag)?;
        Ok(())
    }

    /// The prompt: a star in a transaction, an exclamation mark in one that has failed.
    pub(super) fn prompt(&self) -> String {
        let mark = match self.client.status() {
            Status::Idle => "",
            Status::Open => "*",
            Status::Failed => "!",
        };
        format!("{}={mark}> ", self.name)
    }
}

/// The data of a COPY: behind the statement in its script, or elsewhere.
pub(super) enum Data<'a, 's> {
    Script {
        script: &'a mut Script<'s>,
        terminal: Option<Terminal>,
        is_begun: bool,
        is_over: bool,
    },
    Given(Input),
}

impl<'a, 's> Data<'a, 's> {
    /// The lines of a script up to `\.`; a person types those that are not there.
    pub(super) fn script(script: &'a mut Script<'s>, terminal: Option<Terminal>) -> Self {
        Self::Script {
            script,
            terminal,
            is_begun: false,
            is_over: false,
        }
    }

    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let (script, terminal, is_begun, is_over) = match self {
            Self::Given(input) => return input.next(),
            Self::Script {
                script,
                terminal,
                is_begun,
                is_over,
            } => (script, terminal, is_begun, is_over),
        };
        if *is_over {
            return Ok(None);
        }
        let was_begun = std::mem::replace(is_begun, true);
        let data = match (script.copy_data(), terminal) {
            (Ok(CopyData::Lines(lines)), _) => Ok(Some(lines)),
            (Ok(CopyData::EndOfText), Some(terminal)) => {
                if !was_begun {
                    crate::streams::tell(
                        "Enter data to be copied followed by a newline.\n\
                         End with a backslash and a period on a line by itself, or with Ctrl-D.",
                    );
                }
                let line = (terminal.borrow_mut())();
                line.map(|line| line.filter(|line| line.trim_ascii_end() != b"\\."))
            }
            (Ok(CopyData::End | CopyData::EndOfText), _) => Ok(None),
            (Err(error), _) => Err(error),
        };
        *is_over = !matches!(data, Ok(Some(_)));
        data
    }

    /// Leaves the rest of the lines, which are no statements. If the statement has failed before it
    /// asked for data, a person has typed none.
    fn drain(&mut self) -> io::Result<()> {
        let Self::Script {
            terminal, is_begun, ..
        } = self
        else {
            return Ok(());
        };
        if !*is_begun {
            *terminal = None;
        }
        while self.next()?.is_some() {}
        Ok(())
    }
}
