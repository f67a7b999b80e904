//! The shell: runs statements, and keeps what a user has set; `pieces` runs a whole text.
//!
//! A statement that fails is told on standard error, and the shell goes on; whoever runs a script
//! decides whether the script does too. Only a lost connection and output that nobody takes end the
//! shell itself.

use super::interrupt;
use super::printer::{Input, Out, Printer};
use super::report::{self, Verbosity};
use crate::output::{FormatName, duration, stdout};
use anyhow::Result;
use client::script::{Script, substitute};
use client::{Answers, Client, Error, Report, Sink, Status};
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Instant;

/// A shell with its settings.
#[expect(
    clippy::struct_excessive_bools,
    reason = "settings that users turn on and off"
)]
pub(super) struct Shell {
    pub(super) client: Box<dyn Client>,
    /// The name of the database, for the prompt.
    pub(super) name: String,
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
            out: Out::new(stdout()),
            format,
            is_expanded: false,
            has_timer: false,
            keeps_going: false,
            variables: BTreeMap::new(),
            last: String::new(),
            last_error: None,
            depth: 0,
            is_over: false,
            schema_changes: 0,
        }
    }

    pub(super) fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }

    /// Runs a statement and prints what it answers.
    pub(super) fn statement(
        &mut self,
        text: &str,
        place: &str,
        script: Option<&mut Script<'_>>,
    ) -> Result<Outcome> {
        text.clone_into(&mut self.last);
        let mut input = match script {
            // The data stand behind the statement, which asks for them or not.
            Some(script) => Data::Script(script),
            None => Data::Given(Input::Lines),
        };
        self.statement_from(text, place, &mut input)
    }

    /// The same with the data that `COPY ... FROM STDIN` reads.
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
        let outcome = self.tell(result, place, Some(&text))?;
        if self.has_timer {
            writeln!(self.out, "Time: {}", duration(time.as_secs_f64() * 1e6))?;
        }
        self.out.flush()?;
        Ok(outcome)
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
        match self.tell(result, "", None)? {
            Outcome::Done => Ok(Some(answers)),
            Outcome::Failed => Ok(None),
        }
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
    Script(&'a mut Script<'s>),
    Given(Input<'a>),
}

impl Data<'_, '_> {
    fn next(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        if let Self::Script(script) = self {
            let text = script.take_copy_data();
            *self = Self::Given(Input::Text(None));
            return Ok(Some(text.as_bytes().to_vec()));
        }
        match self {
            Self::Given(input) => input.next(),
            Self::Script(_) => Ok(None),
        }
    }
}
