//! Rounds on two databases.
//!
//! Both begin with an empty schema `public` and run the same statements. The first different answer
//! of a statement is a finding; later statements of the round may follow from it, so the round ends
//! there.

use super::dice::Dice;
use super::expression::Maker;
use super::schema::{self, Table};
use super::statement;
use super::tally::Tally;
use crate::client::Error;
use crate::compare::{Pair, ScriptReport};

/// Statements of a round after its tables are there.
const STATEMENTS: usize = 100;

/// A statement that two databases answered differently, or one oracle found wrong.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The seed of the round, which makes it again.
    pub seed: u64,
    /// The statements of the round up to the one that is meant.
    pub script: Vec<String>,
    /// The answer of one.
    pub ours: String,
    /// The answer of the other, or to the other form of the query.
    pub theirs: String,
}

/// The tables of a round, and the statements that make them.
pub(super) fn begin(dice: &mut Dice, tally: &mut Tally) -> (Vec<Table>, Vec<String>) {
    let mut texts: Vec<String> = schema::BEFORE
        .iter()
        .map(|text| (*text).to_owned())
        .collect();
    let mut tables: Vec<Table> = Vec::new();
    for number in 1..=3 {
        let (mut table, text) = schema::table(dice, tally, number, tables.first());
        texts.push(text);
        texts.push(schema::rows(dice, &table));
        texts.extend(schema::indexes(dice, &mut table));
        tables.push(table);
    }
    (tables, texts)
}

/// Runs the round of a seed on both. Returns how many statements ran, and the first difference.
pub fn compare(
    pair: &mut Pair,
    seed: u64,
    tally: &mut Tally,
) -> Result<(u64, Option<Finding>), Error> {
    let mut dice = Dice::new(seed);
    pair.begin("")?;
    let (tables, mut script) = begin(&mut dice, tally);
    for (at, text) in script.iter().enumerate() {
        let report = pair.compare(text)?;
        if let Some(finding) = finding(seed, &script[..=at], report) {
            return Ok((at as u64 + 1, Some(finding)));
        }
    }
    for _ in 0..STATEMENTS {
        let texts = statement::statements(&mut Maker::new(&mut dice, tally, &tables));
        for text in texts {
            script.push(text);
            let text = &script[script.len() - 1];
            let report = pair.compare(text)?;
            if let Some(finding) = finding(seed, &script, report) {
                return Ok((script.len() as u64, Some(finding)));
            }
        }
    }
    Ok((script.len() as u64, None))
}

fn finding(seed: u64, script: &[String], mut report: ScriptReport) -> Option<Finding> {
    let difference = report.differences.pop()?;
    Some(Finding {
        seed,
        script: script.to_vec(),
        ours: difference.ours,
        theirs: difference.theirs,
    })
}
