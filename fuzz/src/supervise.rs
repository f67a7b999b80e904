//! The supervisor: starts a worker for each target, and survives what the worker does not.
//!
//! Findings are distinguished by what they say without numbers, so that one fault is saved once,
//! however many inputs meet it. A worker that died is followed by one that goes on behind the input
//! that killed it.

use crate::input::Input;
use crate::targets::Target;
use crate::worker::input_of;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A worker that stays with one input so long is ended.
const HANG_TIME: Duration = Duration::from_secs(10);
/// Deaths of workers after which a target is given up.
const DEATHS_MAX: usize = 20;

/// Findings of a run of one target.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Inputs that were run.
    pub inputs: u64,
    /// Inputs that were taken rather than refused.
    pub taken: u64,
    /// One sentence for each fault, and the saved input.
    pub faults: Vec<(String, PathBuf)>,
}

/// A run of one target.
pub struct Run<'r> {
    /// The target.
    pub target: &'r Target,
    /// The run's seed.
    pub seed: u64,
    /// Time for it.
    pub time: Duration,
    /// Inputs that were faults once.
    pub saved: &'r [Input],
    /// Where faults are saved.
    pub artifacts: &'r Path,
    /// A directory for the worker's progress and messages.
    pub scratch: &'r Path,
}

impl Run<'_> {
    /// Runs the target for its time.
    pub fn go(&self) -> Result<Outcome, String> {
        let (start, mut first, mut deaths) = (Instant::now(), 0, 0);
        let mut outcome = Outcome::default();
        let mut known = BTreeSet::new();
        while let Some(left) = self.time.checked_sub(start.elapsed()) {
            let (child, told) = self.start(first, left)?;
            let died = self.watch(child, &told, &mut outcome, &mut known)?;
            let Some(what) = died else {
                return Ok(outcome);
            };
            let number = self.progress();
            outcome.inputs += number + 1 - first;
            self.note(number, &what, &mut outcome, &mut known)?;
            first = number + 1;
            deaths += 1;
            if deaths == DEATHS_MAX {
                break;
            }
        }
        Ok(outcome)
    }

    fn start(&self, first: u64, time: Duration) -> Result<(Child, Receiver<String>), String> {
        let failed = |error: std::io::Error| format!("the worker cannot be started: {error}");
        let program = std::env::current_exe().map_err(failed)?;
        let messages = File::create(self.scratch.join("messages")).map_err(failed)?;
        let mut child = Command::new(program)
            .args(["--worker", "--target", &self.target.name])
            .args(["--seed", &self.seed.to_string()])
            .args(["--first", &first.to_string()])
            .args(["--milliseconds", &time.as_millis().to_string()])
            .arg("--progress")
            .arg(self.scratch.join("progress"))
            .stdout(Stdio::piped())
            .stderr(messages)
            .spawn()
            .map_err(failed)?;
        let (sender, told) = channel();
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        Ok((child, told))
    }

    /// Listens to a worker until it ends. Gives what killed it; `None` if it ended by itself.
    fn watch(
        &self,
        mut child: Child,
        told: &Receiver<String>,
        outcome: &mut Outcome,
        known: &mut BTreeSet<String>,
    ) -> Result<Option<String>, String> {
        let mut seen = (u64::MAX, Instant::now());
        let mut ended = false;
        loop {
            match told.recv_timeout(Duration::from_millis(200)) {
                Ok(line) => ended |= self.hear(&line, outcome, known)?,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let number = self.progress();
            if number != seen.0 {
                seen = (number, Instant::now());
            } else if seen.1.elapsed() > HANG_TIME {
                let _ = child.kill();
                let _ = child.wait();
                return Ok(Some(format!("hung for {} s", HANG_TIME.as_secs())));
            }
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        if ended && status.success() {
            return Ok(None);
        }
        let mut messages = String::new();
        let path = self.scratch.join("messages");
        if let Ok(file) = File::open(path) {
            let _ = file.take(4096).read_to_string(&mut messages);
        }
        if status.code().is_some() {
            return Err(format!("the worker failed: {}", messages.trim()));
        }
        let first = messages.lines().find(|line| !line.trim().is_empty());
        Ok(Some(format!(
            "died ({status}): {}",
            first.unwrap_or("no message")
        )))
    }

    /// Takes one line of a worker; true if it is its last.
    fn hear(
        &self,
        line: &str,
        outcome: &mut Outcome,
        known: &mut BTreeSet<String>,
    ) -> Result<bool, String> {
        let mut fields = line.splitn(3, '\t');
        let kind = fields.next().unwrap_or_default();
        let number = fields
            .next()
            .and_then(|number| number.parse().ok())
            .unwrap_or(0);
        let rest = fields.next().unwrap_or_default();
        match kind {
            "failure" => {
                self.note(number, rest, outcome, known)?;
                Ok(false)
            }
            "done" => {
                outcome.inputs += number;
                outcome.taken += rest.parse().unwrap_or(0);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Saves an input that failed in a way that was not seen before.
    fn note(
        &self,
        number: u64,
        what: &str,
        outcome: &mut Outcome,
        known: &mut BTreeSet<String>,
    ) -> Result<(), String> {
        let kind: String = match what.split_once(": ") {
            Some((place, _)) if place.starts_with("panicked") => place.to_owned(),
            _ => what
                .chars()
                .filter(|letter| !letter.is_ascii_digit())
                .collect(),
        };
        if !known.insert(kind) {
            return Ok(());
        }
        let seeds = (self.target.seeds)()?;
        let input = input_of(&self.target.name, &seeds, self.saved, self.seed, number);
        let name = format!("{}-{}-{number}.input", self.target.name, self.seed);
        let path = self.artifacts.join(name);
        std::fs::create_dir_all(self.artifacts)
            .and_then(|()| input.save(&path))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        outcome.faults.push((what.to_owned(), path));
        Ok(())
    }

    /// The number of the input that the worker has.
    fn progress(&self) -> u64 {
        let bytes = std::fs::read(self.scratch.join("progress")).unwrap_or_default();
        bytes
            .first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}
