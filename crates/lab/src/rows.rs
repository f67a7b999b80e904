//! Rows: one line of JSON a point, appended when the point is measured, so that an interrupted run
//! keeps its finished points.
//!
//! A row is used again if its configuration and its commit are the same, and the program too where
//! it was built from uncommitted changes. The last line of a run
//! that was killed may be torn; it is cut off before anything is appended. The table for
//! spreadsheets is made from the rows and never read.

use super::control::Control;
use super::experiment::Parameters;
use super::point::{Point, hash};
use super::size::Size;
use super::statistics::median;
use anyhow::{Context, Result};
use measure::conditions::Conditions;
use measure::machine::{self, Machine};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// Numbers of one measurement, by name; names end with their units.
pub type Metrics = BTreeMap<String, f64>;

/// A measured point.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LabRow {
    /// Name of its [`Kind`](crate::experiment::Kind).
    pub kind: String,
    /// `paper`, `ours`, or `both` where the two do the same.
    #[serde(default)]
    pub variant: String,
    /// Values of the axes.
    pub parameters: Parameters,
    /// Numbers over the rounds.
    pub metrics: BTreeMap<String, Spread>,
    /// Name of its [`Size`].
    pub size: String,
    /// All options of the run.
    pub configuration: String,
    /// Hash of the configuration.
    pub config: String,
    /// Commit of the program.
    pub commit: String,
    /// Seed of rows and transactions.
    pub seed: u64,
    /// Number of samples.
    pub repeats: u32,
    /// The machine that it was measured on.
    pub machine: Machine,
    /// In the order in which they were taken; rows of earlier versions have none.
    #[serde(default)]
    pub samples: Vec<Sample>,
    /// The control point of the rounds, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Control>,
}

/// One measurement of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Its round.
    pub round: u32,
    /// Place in the order of all measurements of these rounds.
    pub order: u32,
    /// State of the machine meanwhile.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// Counts of the processor, where it has counters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, f64>,
    /// Its numbers.
    pub metrics: Metrics,
}

/// A number over the rounds of a point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// The spread of the values; none if there are none.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        Some(Self {
            median: median(&mut values)?,
            min: *values.first()?,
            max: *values.last()?,
        })
    }

    /// The spread of each metric over the samples.
    pub fn of_each(samples: &[Sample]) -> BTreeMap<String, Self> {
        let metrics = || samples.iter().map(|sample| &sample.metrics);
        let names: BTreeSet<&String> = metrics().flat_map(BTreeMap::keys).collect();
        let spread = |name: &String| {
            let values = metrics().filter_map(|metrics| metrics.get(name));
            Some((name.clone(), Self::of(values.copied().collect())?))
        };
        names.into_iter().filter_map(spread).collect()
    }
}

impl LabRow {
    /// The row of a point from its measurements, by a program of this commit on this machine.
    pub fn new(
        point: &Point,
        size: &Size,
        samples: Vec<Sample>,
        (commit, machine): (&str, Machine),
    ) -> Self {
        let configuration = point.configuration(size);
        Self {
            kind: point.kind.name().into(),
            variant: point.scope.name().into(),
            parameters: point.parameters.clone(),
            metrics: Spread::of_each(&samples),
            size: size.name.into(),
            config: hash(&configuration),
            configuration,
            commit: commit.into(),
            seed: point.seed,
            repeats: samples.len() as u32,
            machine,
            samples,
            control: None,
        }
    }

    /// Whether this program, which is of a commit, made it.
    fn is_of_this_build(&self, commit: &str) -> bool {
        let is_same = !machine::is_dirty(commit) || self.machine.binary == machine::binary();
        self.commit == commit && is_same
    }

    /// The median of a metric.
    pub fn median(&self, metric: &str) -> Option<f64> {
        self.metrics.get(metric).map(|spread| spread.median)
    }

    /// A metric in the order of the rounds; of a row without samples, its median alone.
    pub fn rounds(&self, metric: &str) -> Vec<f64> {
        if self.samples.is_empty() {
            return self.median(metric).into_iter().collect();
        }
        let mut samples: Vec<&Sample> = self.samples.iter().collect();
        samples.sort_by_key(|sample| sample.round);
        let values = samples
            .iter()
            .filter_map(|sample| sample.metrics.get(metric));
        values.copied().collect()
    }
}

/// The rows of a directory that need no new measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept<'c> {
    /// Those of this program, which is of a commit.
    ThisBuild(&'c str),
    /// Those of any commit; the last one of a configuration counts.
    AnyCommit,
}

/// The rows of a directory.
pub struct Rows {
    file: File,
    /// All rows that are accepted, by configuration.
    known: HashMap<String, LabRow>,
}

impl Rows {
    /// Opens or makes the rows of a directory.
    pub fn open(directory: &Path, accept: Accept<'_>) -> Result<Self> {
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot make the directory {}", directory.display()))?;
        let path = directory.join("rows.jsonl");
        let problem = || format!("cannot use {}", path.display());
        let mut file = OpenOptions::new();
        let mut file = file
            .create(true)
            .append(true)
            .open(&path)
            .with_context(problem)?;
        let (rows, whole) = read(&path)?;
        file.set_len(whole as u64).with_context(problem)?;
        file.flush()?;
        let mut known = HashMap::new();
        for row in rows {
            let is_accepted = match accept {
                Accept::ThisBuild(commit) => row.is_of_this_build(commit),
                Accept::AnyCommit => true,
            };
            if is_accepted {
                known.insert(row.config.clone(), row);
            }
        }
        Ok(Self { file, known })
    }

    /// The row of a point, if it was measured.
    pub fn find(&self, point: &Point, size: &Size) -> Option<&LabRow> {
        self.known.get(&hash(&point.configuration(size)))
    }

    /// Whether a point was measured, in as many rounds as a run takes.
    pub fn has(&self, point: &Point, size: &Size) -> bool {
        let row = self.find(point, size);
        row.is_some_and(|row| row.repeats >= size.rounds_taken())
    }

    /// Appends a row.
    pub fn add(&mut self, row: LabRow) -> Result<()> {
        let mut line = serde_json::to_string(&row)?;
        line.push('\n');
        // One call, so that a kill leaves the line whole or cut, never mixed with another.
        self.file
            .write_all(line.as_bytes())
            .context("cannot add a row")?;
        self.known.insert(row.config.clone(), row);
        Ok(())
    }
}

/// Writes the table for spreadsheets: one line a metric of a row.
pub fn write_csv(rows: &[&LabRow], out: &mut impl Write) -> Result<()> {
    let names: BTreeSet<&str> = rows
        .iter()
        .flat_map(|row| row.parameters.keys().map(String::as_str))
        .collect();
    let header = ["kind", "variant"]
        .into_iter()
        .chain(names.iter().copied())
        .chain([
            "metric",
            "median",
            "min",
            "max",
            "repeats",
            "seed",
            "size",
            "config",
            "commit",
            "cpu",
            "cores",
            "filesystem",
        ]);
    delimited::write_record(&mut *out, header.map(Some), b',')?;
    for row in rows {
        let (repeats, seed) = (row.repeats.to_string(), row.seed.to_string());
        let cores = row.machine.cores.to_string();
        for (metric, spread) in &row.metrics {
            let numbers = [spread.median, spread.min, spread.max].map(|n| n.to_string());
            let mut record = vec![Some(row.kind.as_str()), Some(row.variant.as_str())];
            record.extend(
                names
                    .iter()
                    .map(|name| row.parameters.get(*name).map(String::as_str)),
            );
            record.push(Some(metric));
            record.extend(numbers.iter().map(|number| Some(number.as_str())));
            record.extend(
                [
                    &repeats,
                    &seed,
                    &row.size,
                    &row.config,
                    &row.commit,
                    &row.machine.cpu,
                ]
                .map(|text| Some(text.as_str())),
            );
            record.extend([Some(cores.as_str()), Some(row.machine.filesystem.as_str())]);
            delimited::write_record(&mut *out, record, b',')?;
        }
    }
    Ok(())
}

/// All rows of a file, and the bytes of its whole lines.
pub fn read(path: &Path) -> Result<(Vec<LabRow>, usize)> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot use {}", path.display()))?;
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let lines = text[..whole].lines().enumerate();
    let rows = lines.map(|(index, line)| {
        serde_json::from_str(line)
            .with_context(|| format!("{}: line {} is no row", path.display(), index + 1))
    });
    Ok((rows.collect::<Result<_>>()?, whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Kind;
    use crate::size::Size;

    #[test]
    fn a_torn_line_is_cut_off() {
        let place = std::env::temp_dir().join(format!("indelible-rows-{}", std::process::id()));
        let made = ("abc", Machine::here(&place, "none"));
        let size = Size::smoke();
        let point = Point::new(Kind::Costs, Parameters::new(), 7);
        let sample = |round, bytes| Sample {
            round,
            order: 9 - round,
            conditions: Conditions::default(),
            counters: Metrics::new(),
            metrics: Metrics::from([("bytes".into(), bytes)]),
        };
        let samples = vec![sample(1, 4.0), sample(0, 6.0)];
        let row = LabRow::new(&point, &size, samples, made);
        assert_eq!(row.rounds("bytes"), [6.0, 4.0]);
        let mut rows = Rows::open(&place, Accept::ThisBuild("abc")).unwrap();
        assert!(rows.find(&point, &size).is_none());
        rows.add(row).unwrap();
        drop(rows);
        let file = place.join("rows.jsonl");
        let whole = fs::read(&file).unwrap();
        let mut torn = whole.clone();
        torn.extend_from_slice(&whole[..whole.len() / 2]);
        fs::write(&file, &torn).unwrap();
        let rows = Rows::open(&place, Accept::ThisBuild("abc")).unwrap();
        assert_eq!(rows.find(&point, &size).unwrap().median("bytes"), Some(5.0));
        let more = Size {
            rounds_asked: 3,
            ..size
        };
        assert!(rows.has(&point, &size) && !rows.has(&point, &more));
        assert_eq!(fs::read(&file).unwrap(), whole);
        let rows = Rows::open(&place, Accept::ThisBuild("def")).unwrap();
        assert!(
            rows.find(&point, &size).is_none(),
            "it is of another commit"
        );
        fs::remove_dir_all(&place).unwrap();
    }
}
