//! Runs files of tests on a client.
//!
//! Each file gets clients of its own and a schema of its own, so nothing that one file does reaches
//! the next: not its tables, not its settings, not a transaction that it left open.

use super::parse::{Expected, Kind, Record, parse};
use super::result::{Wanted, compare, label_hash};
use super::skip::SkipList;
use crate::client::{Answer, Answers, Client, Error};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::time::{Duration, Instant};

/// The outcome of a file of tests.
#[derive(Clone, Debug, Default)]
pub struct FileReport {
    /// Records that did what they must.
    pub passed: u64,
    /// Records that did not, in the order of the file.
    pub failed: Vec<Failed>,
    /// Records of the skip list, and those that are for other databases.
    pub skipped: u64,
    /// How long it took.
    pub time: Duration,
}

/// A record that did not do what it must.
#[derive(Clone, Debug)]
pub struct Failed {
    /// Line of the record, from 1.
    pub line: usize,
    /// The first difference, or the error.
    pub reason: String,
}

/// Runs files of tests.
pub struct Runner<'a> {
    client: &'a dyn Client,
    skip: &'a SkipList,
    files: u64,
}

impl<'a> Runner<'a> {
    /// A runner on the database of a client.
    pub fn new(client: &'a dyn Client, skip: &'a SkipList) -> Self {
        Self {
            client,
            skip,
            files: 0,
        }
    }

    /// Runs a file. A file that is not in the format has one failed record. An error means that
    /// the database cannot be reached, or refuses the schema.
    pub fn run(&mut self, path: &Path, text: &str) -> Result<FileReport, Error> {
        let start = Instant::now();
        let mut report = FileReport::default();
        match parse(text) {
            Ok(records) => self.run_records(path, &records, &mut report)?,
            Err(fault) => report.failed.push(Failed {
                line: fault.line,
                reason: fault.problem,
            }),
        }
        report.time = start.elapsed();
        Ok(report)
    }

    fn run_records(
        &mut self,
        path: &Path,
        records: &[Record],
        report: &mut FileReport,
    ) -> Result<(), Error> {
        self.files += 1;
        let schema = format!("test_{}_{}", std::process::id(), self.files);
        let skipped = self.skip.lines(path);
        let mut owner = self.client.another()?;
        succeed(&mut *owner, &format!("CREATE SCHEMA {schema}"))?;
        let mut file = OpenFile {
            schema: &schema,
            client: self.client,
            connections: HashMap::new(),
            labels: HashMap::new(),
        };
        for record in records {
            if !record.applies || skipped.contains(&record.line) {
                report.skipped += 1;
                continue;
            }
            match file.run(record) {
                Ok(()) => report.passed += 1,
                Err(reason) => report.failed.push(Failed {
                    line: record.line,
                    reason,
                }),
            }
        }
        // Transactions that are left open would keep the schema.
        file.connections.clear();
        succeed(&mut *owner, &format!("DROP SCHEMA {schema} CASCADE"))
    }
}

fn succeed(client: &mut dyn Client, text: &str) -> Result<(), Error> {
    match client.ask(text)?.failure {
        None => Ok(()),
        Some(report) => Err(Error::Statement(Box::new(report))),
    }
}

/// A file under way.
struct OpenFile<'a> {
    schema: &'a str,
    client: &'a dyn Client,
    connections: HashMap<String, Box<dyn Client>>,
    /// Hashes of results by their labels.
    labels: HashMap<String, String>,
}

impl OpenFile<'_> {
    fn run(&mut self, record: &Record) -> Result<(), String> {
        let name = record.connection.as_deref().unwrap_or("");
        let answers = self.ask(name, &record.sql).map_err(|error| {
            // The next record of this connection gets a new one.
            self.connections.remove(name);
            error.to_string()
        })?;
        let failure = answers.failure.as_ref();
        let failure = failure.map(|report| format!("{}: {}", report.state, report.message));
        match (&record.kind, failure) {
            (Kind::Statement(Expected::Error(pattern)), Some(failure)) => match pattern {
                Some(pattern) if !pattern.is_match(&failure) => {
                    Err(format!("error {failure}, expected one like {pattern}"))
                }
                _ => Ok(()),
            },
            (_, Some(failure)) => Err(format!("error {failure}")),
            (Kind::Statement(Expected::Error(_)), None) => Err("no error, expected one".to_owned()),
            (Kind::Statement(Expected::Ok), None) => Ok(()),
            (Kind::Statement(Expected::Count(count)), None) => {
                match answers.last().and_then(Answer::count) {
                    Some(changed) if changed == *count => Ok(()),
                    changed => Err(format!("{} rows, expected {count}", changed.unwrap_or(0))),
                }
            }
            (
                Kind::Query {
                    types,
                    sort,
                    label,
                    result,
                },
                None,
            ) => {
                let wanted = Wanted {
                    types,
                    sort: *sort,
                    lines: result,
                };
                self.check(&answers, &wanted, label.as_deref())
            }
        }
    }

    fn ask(&mut self, name: &str, sql: &str) -> Result<Answers, Error> {
        let client = match self.connections.entry(name.to_owned()) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(vacant) => {
                let mut client = self.client.another()?;
                succeed(&mut *client, &format!("SET search_path TO {}", self.schema))?;
                vacant.insert(client)
            }
        };
        client.ask(sql)
    }

    fn check(
        &mut self,
        answers: &Answers,
        wanted: &Wanted<'_>,
        label: Option<&str>,
    ) -> Result<(), String> {
        let answer = answers.last().ok_or("no rows, expected some")?;
        compare(answer, wanted)?;
        let Some(label) = label else { return Ok(()) };
        let hash = label_hash(answer, wanted);
        let first = self
            .labels
            .entry(label.to_owned())
            .or_insert_with(|| hash.clone());
        if *first == hash {
            return Ok(());
        }
        Err(format!(
            "the result differs from that of an earlier query with the label `{label}`"
        ))
    }
}
