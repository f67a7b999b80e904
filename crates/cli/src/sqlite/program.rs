//! The program `sqlite3`, which reads the file: a script goes in, and rows come out.
//!
//! One process runs all statements of a script in one transaction, so its rows show one moment. A
//! row is a line of printed values (see `value`), and a line `#` ends the rows of a statement. The
//! program opens the file for reading only and reads no settings of the user.

use anyhow::{Context, Result, anyhow, bail};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

/// A running script.
pub(super) struct Program {
    file: PathBuf,
    child: Child,
    output: BufReader<ChildStdout>,
    errors: Option<JoinHandle<String>>,
    line: Vec<u8>,
}

impl Program {
    /// Runs statements on a file, each of them a query.
    pub(super) fn run(file: &Path, queries: &[String]) -> Result<Self> {
        let mut command = Command::new("sqlite3");
        command
            .args(["-batch", "-bail", "-readonly", "-init", "/dev/null"])
            .args(["-noheader", "-list", "-separator", "|"])
            // A name that begins with a dash is no option.
            .arg(Path::new(".").join(file))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => anyhow!(
                "the program sqlite3 is not installed, and files of SQLite are read by it; \
                 install it (Debian: apt install sqlite3)"
            ),
            _ => anyhow!(error).context("cannot run the program sqlite3"),
        })?;
        let missing = || anyhow!("the program sqlite3 has no pipes");
        let mut input = child.stdin.take().ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        let mut errors = child.stderr.take().ok_or_else(missing)?;
        let mut script = "BEGIN;\n".to_owned();
        for query in queries {
            script.push_str(query);
            script.push_str(";\nSELECT '#';\n");
        }
        // Both sides would wait for each other if the script were longer than a pipe.
        std::thread::spawn(move || input.write_all(script.as_bytes()));
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = errors.read_to_string(&mut text);
            text
        });
        Ok(Self {
            file: file.to_owned(),
            child,
            output: BufReader::new(output),
            errors: Some(errors),
            line: Vec::new(),
        })
    }

    /// The fields of the next row of the statement; none at its end.
    pub(super) fn row(&mut self) -> Result<Option<Vec<&str>>> {
        self.line.clear();
        let length = self.output.read_until(b'\n', &mut self.line)?;
        if length == 0 {
            return Err(self.failure());
        }
        let line = std::str::from_utf8(&self.line).context("sqlite3 printed no text")?;
        let line = line.trim_end_matches(['\n', '\r']);
        Ok((line != "#").then(|| line.split('|').collect()))
    }

    /// All rows of the statement, as texts; NULL is empty.
    pub(super) fn rows(&mut self) -> Result<Vec<Vec<String>>> {
        let mut rows = Vec::new();
        while let Some(fields) = self.row()? {
            let row: Option<Vec<String>> = fields.into_iter().map(text_of).collect();
            rows.push(row.ok_or_else(|| anyhow!("sqlite3 printed a row that cannot be read"))?);
        }
        Ok(rows)
    }

    /// Waits for the end of the program.
    pub(super) fn end(mut self) -> Result<()> {
        let mut rest = Vec::new();
        self.output.read_to_end(&mut rest)?;
        let status = self.child.wait()?;
        if !status.success() {
            return Err(self.failure());
        }
        Ok(())
    }

    /// The error of a program that has ended before its last row.
    fn failure(&mut self) -> anyhow::Error {
        let _ = self.child.wait();
        let said = self.errors.take().and_then(|errors| errors.join().ok());
        let said = said.unwrap_or_default();
        let first = said.lines().find(|line| !line.trim().is_empty());
        let said = first.unwrap_or("it ended without a word").trim();
        anyhow!("sqlite3 cannot read {}: {said}", self.file.display())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may be in the middle of its output.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The text of a printed value.
fn text_of(field: &str) -> Option<String> {
    use super::value::SqliteValue;
    match SqliteValue::read(field)? {
        SqliteValue::Null => Some(String::new()),
        SqliteValue::Integer(number) => Some(number.to_string()),
        SqliteValue::Text(bytes) => String::from_utf8(bytes).ok(),
        SqliteValue::Real(_) | SqliteValue::Blob(_) => None,
    }
}

/// Fails unless the file can be one of SQLite.
pub(super) fn check(file: &Path) -> Result<()> {
    let mut start = [0; 16];
    let opened = std::fs::File::open(file);
    let mut opened = opened.with_context(|| format!("cannot open {}", file.display()))?;
    let length = opened.read(&mut start)?;
    if length > 0 && start != *b"SQLite format 3\0" {
        bail!(
            "{} is no database of SQLite; --from sqlite reads those only",
            file.display()
        );
    }
    Ok(())
}
