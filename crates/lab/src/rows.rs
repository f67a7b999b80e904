//! Rows: one line of JSON a point, appended when the point is measured, so that an interrupted run
//! keeps its finished points.
//!
//! A row is used again if its configuration and its commit are the same, and the program too where
//! it was built from uncommitted changes. The last line of a run that was killed may be torn. A
//! reader leaves it out; a run cuts it off before it appends anything. Only the beginning of a row
//! is taken for a torn one: a file with another end is refused, and stays as it is. One run at a
//! time has the lock of a file. The table for spreadsheets is made from the rows and never read.

use super::control::Control;
use super::experiment::Parameters;
use super::point::{Point, hash};
use super::size::Size;
use super::statistics::median;
use anyhow::{Context, Result, bail};
use measure::conditions::Conditions;
use measure::machine::{self, Machine};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

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
        let values = self.by_round(metric).into_iter();
        values.map(|(_, value)| value).collect()
    }

    /// The same with the numbers of the rounds: a sample may lack a metric.
    pub(crate) fn by_round(&self, metric: &str) -> Vec<(u32, f64)> {
        if self.samples.is_empty() {
            return self
                .median(metric)
                .map(|median| (0, median))
                .into_iter()
                .collect();
        }
        let mut samples: Vec<&Sample> = self.samples.iter().collect();
        samples.sort_by_key(|sample| sample.round);
        let value = |sample: &&Sample| Some((sample.round, *sample.metrics.get(metric)?));
        samples.iter().filter_map(value).collect()
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

/// The rows of a directory, for reading.
pub struct Rows {
    /// All rows that are accepted, by configuration.
    known: HashMap<String, LabRow>,
    /// Whether a row follows that a killed run left unfinished.
    has_torn_end: bool,
}

impl Rows {
    /// Reads the rows of a directory, and changes nothing in it.
    pub fn read(directory: &Path, accept: Accept<'_>) -> Result<Self> {
        Ok(Self::of(read(&rows_path(directory))?, accept))
    }

    fn of(content: Content, accept: Accept<'_>) -> Self {
        let is_accepted = |row: &LabRow| match accept {
            Accept::ThisBuild(commit) => row.is_of_this_build(commit),
            Accept::AnyCommit => true,
        };
        let rows = content.rows.into_iter().filter(is_accepted);
        Self {
            known: rows.map(|row| (row.config.clone(), row)).collect(),
            has_torn_end: content.has_torn_end,
        }
    }

    /// Whether the file ends with a row that a killed run left unfinished; it is left out.
    pub fn has_torn_end(&self) -> bool {
        self.has_torn_end
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
}

/// The rows of a directory and the file to which a run appends more.
pub struct RowFile {
    /// Locked until it is closed.
    file: File,
    /// All rows so far.
    pub rows: Rows,
}

impl RowFile {
    /// Opens or makes the rows of a directory, without a torn end.
    pub fn open(directory: &Path, accept: Accept<'_>) -> Result<Self> {
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot make the directory {}", directory.display()))?;
        let path = rows_path(directory);
        let problem = || format!("cannot use {}", path.display());
        let mut options = OpenOptions::new();
        let options = options.create(true).append(true);
        let mut file = options.open(&path).with_context(problem)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!(
                "another run adds rows to {}; wait until it is over, or name another directory with --out",
                path.display()
            ),
            Err(TryLockError::Error(error)) => return Err(error).with_context(problem),
        }
        let content = read(&path)?;
        if content.has_torn_end {
            file.set_len(content.whole).with_context(problem)?;
        } else if content.lacks_newline {
            file.write_all(b"\n").with_context(problem)?;
        }
        let rows = Rows::of(content, accept);
        Ok(Self { file, rows })
    }

    /// Appends a row.
    pub fn add(&mut self, row: LabRow) -> Result<()> {
        let mut line = serde_json::to_string(&row)?;
        line.push('\n');
        // One call, so that a kill leaves the line whole or cut, never mixed with another.
        self.file
            .write_all(line.as_bytes())
            .context("cannot add a row")?;
        self.rows.known.insert(row.config.clone(), row);
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

fn rows_path(directory: &Path) -> PathBuf {
    directory.join("rows.jsonl")
}

/// The content of a file of rows.
pub struct Content {
    /// In the order of the file.
    pub rows: Vec<LabRow>,
    /// Bytes of these rows.
    whole: u64,
    /// Whether the last of them has no newline, as some editors save files.
    lacks_newline: bool,
    /// Whether the beginning of a row follows them.
    has_torn_end: bool,
}

/// Beginning of each row.
const ROW_BEGIN: &[u8] = b"{\"kind\":\"";

/// Reads a file of rows.
pub fn read(path: &Path) -> Result<Content> {
    let bytes = fs::read(path).with_context(|| format!("cannot use {}", path.display()))?;
    let end = bytes.iter().rposition(|byte| *byte == b'\n');
    let mut whole = end.map_or(0, |end| end + 1);
    let no_row = |number: usize| format!("{}: line {number} is no row", path.display());
    let mut rows: Vec<LabRow> = Vec::new();
    let lines = bytes[..whole].split_inclusive(|byte| *byte == b'\n');
    for (index, line) in lines.enumerate() {
        rows.push(serde_json::from_slice(line).with_context(|| no_row(index + 1))?);
    }
    let tail = &bytes[whole..];
    let last = serde_json::from_slice::<LabRow>(tail);
    let lacks_newline = last.is_ok();
    let begin = tail.len().min(ROW_BEGIN.len());
    match last {
        Ok(row) => {
            rows.push(row);
            whole = bytes.len();
        }
        Err(_) if tail[..begin] == ROW_BEGIN[..begin] => {}
        Err(error) => return Err(error).with_context(|| no_row(rows.len() + 1)),
    }
    Ok(Content {
        rows,
        whole: whole as u64,
        lacks_newline,
        has_torn_end: whole < bytes.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Kind;
    use crate::size::Size;

    fn place(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("indelible-{name}-{}", std::process::id()))
    }

    fn row(point: &Point, size: &Size, place: &Path) -> LabRow {
        let sample = |round, bytes| Sample {
            round,
            order: 9 - round,
            conditions: Conditions::default(),
            counters: Metrics::new(),
            metrics: Metrics::from([("bytes".into(), bytes)]),
        };
        let samples = vec![sample(1, 4.0), sample(0, 6.0)];
        LabRow::new(point, size, samples, ("abc", Machine::here(place, "none")))
    }

    #[test]
    fn a_torn_line_is_left_out_by_readers_and_cut_off_by_a_run() {
        let place = place("rows");
        let size = Size::smoke();
        let point = Point::new(Kind::Costs, Parameters::new(), 7);
        let row = row(&point, &size, &place);
        assert_eq!(row.rounds("bytes"), [6.0, 4.0]);
        let accept = Accept::ThisBuild("abc");
        let mut out = RowFile::open(&place, accept).unwrap();
        assert!(out.rows.find(&point, &size).is_none());
        let second = RowFile::open(&place, accept).err().unwrap();
        assert!(second.to_string().contains("another run"), "{second}");
        out.add(row).unwrap();
        drop(out);
        let file = place.join("rows.jsonl");
        let whole = fs::read(&file).unwrap();
        for cut in [1, 4, whole.len() / 2] {
            let torn = [&whole[..], &whole[..cut]].concat();
            fs::write(&file, &torn).unwrap();
            let read = Rows::read(&place, accept).unwrap();
            assert!(read.has_torn_end() && read.find(&point, &size).is_some());
            assert_eq!(fs::read(&file).unwrap(), torn, "a reader changes nothing");
            let rows = RowFile::open(&place, accept).unwrap().rows;
            assert_eq!(rows.find(&point, &size).unwrap().median("bytes"), Some(5.0));
            let more = Size {
                rounds_asked: 3,
                ..size
            };
            assert!(rows.has(&point, &size) && !rows.has(&point, &more));
            assert_eq!(fs::read(&file).unwrap(), whole);
        }
        let rows = Rows::read(&place, Accept::ThisBuild("def")).unwrap();
        assert!(
            rows.find(&point, &size).is_none(),
            "it is of another commit"
        );
        fs::remove_dir_all(&place).unwrap();
    }

    /// The last line was lost, on the medium too, when the file was read for a report and had no
    /// newline at its end.
    #[test]
    fn no_row_and_no_foreign_file_is_lost() {
        let place = place("foreign-rows");
        let size = Size::smoke();
        let point = Point::new(Kind::Costs, Parameters::new(), 7);
        let mut out = RowFile::open(&place, Accept::AnyCommit).unwrap();
        out.add(row(&point, &size, &place)).unwrap();
        drop(out);
        let file = place.join("rows.jsonl");
        let whole = fs::read(&file).unwrap();
        let without_newline = &whole[..whole.len() - 1];
        fs::write(&file, without_newline).unwrap();
        let read = Rows::read(&place, Accept::AnyCommit).unwrap();
        assert!(!read.has_torn_end() && read.find(&point, &size).is_some());
        assert_eq!(fs::read(&file).unwrap(), without_newline);
        let out = RowFile::open(&place, Accept::AnyCommit).unwrap();
        assert!(out.rows.find(&point, &size).is_some());
        assert_eq!(fs::read(&file).unwrap(), whole);
        drop(out);
        for foreign in ["my notes", "my notes\n", "{\"kind\": 1}"] {
            fs::write(&file, foreign).unwrap();
            let read = Rows::read(&place, Accept::AnyCommit).err().unwrap();
            assert!(read.to_string().ends_with("line 1 is no row"), "{read}");
            assert!(RowFile::open(&place, Accept::AnyCommit).is_err());
            assert_eq!(fs::read_to_string(&file).unwrap(), foreign);
        }
        fs::remove_dir_all(&place).unwrap();
        assert!(Rows::read(&place, Accept::AnyCommit).is_err());
        assert!(!place.exists(), "a reader makes no directory");
    }
}
