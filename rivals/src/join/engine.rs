//! An engine in a process of its own: Python, the script `joins.py`, and a pipe each way.
//!
//! The engine answers with one line of JSON when its tables are loaded, and one for each run. It
//! reads its columns from raw files, which may be removed once it is ready. The process ends with
//! its handle, however the command ends; the script asks the kernel for the same in case this
//! process is killed.

use crate::failure::Usage;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use join::Totals;
use serde::Deserialize;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The script, which every engine runs.
const SCRIPT: &str = include_str!("../../joins.py");
/// Needs of the script.
pub(crate) const PACKAGES: &str = "duckdb datafusion polars pyarrow numpy";
/// The versions that the script was written for.
const TRIED: &str = "duckdb 2.0.0, datafusion 55.0.0, polars 2.1.0, pyarrow 26.0.1, numpy 2.4.6";

/// The joining engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub(crate) enum Engine {
    /// The crate `join` of this repository
    Indelible,
    /// Apache DataFusion, a MemTable of Arrow record batches
    #[value(name = "datafusion")]
    DataFusion,
    /// DuckDB, tables of an in-memory database
    #[value(name = "duckdb")]
    DuckDb,
    /// Polars, whole columns at a time
    Polars,
    /// Polars, in pieces
    PolarsStreaming,
}

impl Engine {
    /// The name by which a user selects it, and the script too.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Indelible => "indelible",
            Self::DataFusion => "datafusion",
            Self::DuckDb => "duckdb",
            Self::Polars => "polars",
            Self::PolarsStreaming => "polars-streaming",
        }
    }

    /// Memory at the peak of a join as a multiple of the columns, which it includes: measured with
    /// 128 million tuples a side.
    pub(crate) fn memory_factor(self) -> f64 {
        match self {
            Self::Indelible => 1.2,
            Self::DataFusion => 3.0,
            Self::DuckDb => 4.5,
            Self::Polars | Self::PolarsStreaming => 6.0,
        }
    }
}

/// Kinds of the columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns<'c> {
    /// The directory with `r_key`, `r_payload`, `s_key` and `s_payload`.
    pub(crate) directory: &'c Path,
    /// Bytes of a key, and of a payload.
    pub(crate) value_bytes: usize,
}

/// Any line of the script.
#[derive(Deserialize)]
#[serde(untagged, rename_all = "snake_case")]
enum Answer {
    Ready {
        version: String,
        setting: String,
    },
    Run {
        seconds: f64,
        count: u64,
        r_payload_sum: u64,
        s_payload_sum: u64,
    },
    Missing {
        missing: String,
    },
    Error {
        error: String,
    },
}

/// An engine with its tables.
#[derive(Debug)]
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    runs: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Version of the package.
    pub(crate) version: String,
    /// How it was set, in words.
    pub(crate) setting: String,
}

impl Process {
    /// Starts an engine and waits until its tables are loaded.
    pub(crate) fn start(
        python: &Path,
        engine: Engine,
        columns: Columns<'_>,
        threads: usize,
    ) -> Result<Self> {
        let mut child = Command::new(python)
            .args(["-c", SCRIPT, engine.name()])
            .arg(columns.directory)
            .args([columns.value_bytes.to_string(), threads.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| {
                let problem = format!(
                    "cannot start {}: {error}; name a Python 3 with --python, and give it its packages: pip install {PACKAGES}",
                    python.display()
                );
                Usage::error(problem)
            })?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (runs, answers) = pipes.expect("both ends were asked for");
        let mut process = Self {
            name: engine.name(),
            child,
            runs,
            answers: BufReader::new(answers),
            version: String::new(),
            setting: String::new(),
        };
        match process.answer()? {
            Answer::Ready { version, setting } => {
                (process.version, process.setting) = (version, setting);
                Ok(process)
            }
            Answer::Missing { missing } => Err(Usage::error(format!(
                "{} has no package {missing}, which {} needs; {} -m pip install {PACKAGES}",
                python.display(),
                engine.name(),
                python.display()
            ))),
            other => Err(process.refusal(other)),
        }
    }

    /// Runs the query once: its seconds, and what it found.
    pub(crate) fn run(&mut self) -> Result<(f64, Totals)> {
        let asked = self.runs.write_all(b"run\n");
        asked.with_context(|| format!("{} takes no more queries", self.name))?;
        match self.answer()? {
            Answer::Run {
                seconds,
                count,
                r_payload_sum,
                s_payload_sum,
            } => {
                let totals = Totals {
                    count,
                    r_payload_sum,
                    s_payload_sum,
                };
                Ok((seconds, totals))
            }
            other => Err(self.refusal(other)),
        }
    }

    fn answer(&mut self) -> Result<Answer> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        if line.is_empty() {
            let status = self.child.wait()?;
            bail!(
                "{} ended with {status} before it answered; if it was killed, memory ran out: use fewer tuples or fewer engines",
                self.name
            );
        }
        serde_json::from_str(&line)
            .with_context(|| format!("{} answered {}", self.name, line.trim_end()))
    }

    /// An answer that is none, as an error.
    fn refusal(&self, answer: Answer) -> anyhow::Error {
        match answer {
            Answer::Error { error } => anyhow::anyhow!(
                "{} {}: {error}; the script was written for {TRIED}",
                self.name,
                self.version
            ),
            Answer::Missing { missing } => anyhow::anyhow!("{} lacks {missing}", self.name),
            Answer::Ready { .. } | Answer::Run { .. } => {
                anyhow::anyhow!("{} answered out of turn", self.name)
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only for a process that is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
