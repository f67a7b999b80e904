//! Runs trials that may panic, and prints findings in all formats.
//!
//! A trial that panics is a finding with its location, so the message of the panic itself is kept
//! off the terminal while trials run. A result is one object, one row, or one paragraph with at
//! most a few findings in full.

use crate::output::{Cell, Format, Listing, stdout};
use crate::printable::printable;
use anyhow::Result;
use serde_json::{Map, Value as Json};
use std::io::Write;

/// Findings that are printed for people; JSON has all of them.
const SHOWN: usize = 20;

/// Runs `work` without messages of panics on the terminal.
pub(super) fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = work();
    std::panic::set_hook(usual);
    result
}

/// One result: names and values, a sentence, and the findings.
pub(super) struct Findings<'f> {
    pub(super) facts: Vec<(&'static str, Json)>,
    pub(super) sentence: String,
    pub(super) found: Vec<&'f String>,
    /// The command that repeats it.
    pub(super) replay: String,
}

impl Findings<'_> {
    pub(super) fn print(&self, format: Format) -> Result<()> {
        let mut out = stdout();
        match format {
            Format::Json => {
                let facts = self.facts.iter();
                let mut object: Map<String, Json> = facts
                    .map(|(name, value)| ((*name).to_owned(), value.clone()))
                    .collect();
                if !self.found.is_empty() {
                    object.insert(
                        "found".into(),
                        self.found
                            .iter()
                            .map(|found| Json::from(found.as_str()))
                            .collect(),
                    );
                    object.insert("replay".into(), self.replay.as_str().into());
                }
                writeln!(out, "{}", Json::Object(object))?;
            }
            Format::Csv => {
                let mut listing = Listing::new(self.facts.iter().map(|(name, _)| *name));
                listing.push(self.facts.iter().map(|(_, value)| cell(value)).collect());
                drop(out);
                return listing.print_next(format);
            }
            Format::Text => {
                writeln!(out, "{}", printable(&self.sentence))?;
                for found in self.found.iter().take(SHOWN) {
                    writeln!(out, "  {}", printable(found))?;
                }
                if self.found.len() > SHOWN {
                    writeln!(
                        out,
                        "  and {} more; --format json has all",
                        self.found.len() - SHOWN
                    )?;
                }
                if !self.found.is_empty() {
                    writeln!(out, "replay: {}", printable(&self.replay))?;
                }
            }
        }
        out.flush()?;
        Ok(())
    }
}

fn cell(value: &Json) -> Cell {
    match value {
        Json::String(text) => text.as_str().into(),
        Json::Number(number) => match number.as_u64() {
            Some(whole) => Cell::Whole(whole),
            None => Cell::number(number.as_f64().unwrap_or(0.0), 3),
        },
        Json::Null => Cell::Null,
        other => other.to_string().into(),
    }
}
