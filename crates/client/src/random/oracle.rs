//! Oracles that need no second database.
//!
//! - *Ternary logic partitioning*: the rows for which a condition is true, false and unknown are
//!   all rows, for plain queries and for joins.
//! - *Non-optimizing reference engine*: a condition in WHERE, which may use an index, counts as
//!   many rows as the same condition in the list, which cannot.

use super::dice::Dice;
use super::expression::Maker;
use super::round::{Finding, begin};
use super::schema::Family;
use super::tally::Tally;
use crate::client::{Answers, Client, Error};

/// Conditions that a round tries.
const CONDITIONS: usize = 40;

/// Runs the round of a seed. Returns how many queries ran, and the first that is wrong.
pub fn check(
    client: &mut dyn Client,
    seed: u64,
    tally: &mut Tally,
) -> Result<(u64, Option<Finding>), Error> {
    let mut dice = Dice::new(seed);
    for text in [
        "DROP SCHEMA IF EXISTS public CASCADE",
        "CREATE SCHEMA public",
    ] {
        client.ask(text)?;
    }
    let (tables, script) = begin(&mut dice, tally);
    for text in &script {
        client.ask(text)?;
    }
    let mut queries = 0;
    for _ in 0..CONDITIONS {
        let mut maker = Maker::new(&mut dice, tally, &tables);
        let (mut from, mut alias) = maker.source();
        if maker.dice.chance(40) {
            let kind = *maker.dice.pick(&["JOIN", "LEFT JOIN", "FULL JOIN"]);
            let (other, other_alias) = maker.source();
            from = format!("{from} {kind} {other} ON {alias}.id = {other_alias}.id");
        }
        let mut condition = maker.expression(Family('b'), 4);
        let table = maker.dice.pick(&tables);
        if !table.indexed.is_empty() && maker.dice.chance(25) {
            condition.clone_from(maker.dice.pick(&table.indexed));
            from.clone_from(&table.name);
            alias.clone_from(&table.name);
        }
        let list = format!("SELECT {alias}.id FROM {from}");
        let parted = format!(
            "{list} WHERE {condition} UNION ALL {list} WHERE NOT ({condition}) UNION ALL {list} WHERE ({condition}) IS NULL"
        );
        let counted = format!("SELECT count(*) FROM {from} WHERE {condition}");
        let moved = format!(
            "SELECT count(*) FROM (SELECT (({condition}) IS TRUE) AS c FROM {from}) AS x WHERE c"
        );
        let summed =
            format!("SELECT coalesce(sum(CASE WHEN {condition} THEN 1 ELSE 0 END), 0) FROM {from}");
        for (first, second) in [(&list, &parted), (&counted, &moved), (&counted, &summed)] {
            queries += 2;
            let (ours, theirs) = (client.ask(first)?, client.ask(second)?);
            // A condition with an aggregate of the query around it may stand in a list only.
            if is_misplaced(&ours) || is_misplaced(&theirs) {
                break;
            }
            let (ours, theirs) = (shown(&ours), shown(&theirs));
            if ours != theirs {
                let mut script = script.clone();
                script.extend([first.clone(), second.clone()]);
                return Ok((
                    queries,
                    Some(Finding {
                        seed,
                        script,
                        ours,
                        theirs,
                    }),
                ));
            }
        }
    }
    Ok((queries, None))
}

/// Whether an aggregate stands where none may.
fn is_misplaced(answers: &Answers) -> bool {
    let failure = answers.failure.as_ref();
    failure.is_some_and(|failure| failure.state == "42803")
}

/// The rows of an answer as a bag, or its error's state.
fn shown(answers: &Answers) -> String {
    if let Some(failure) = &answers.failure {
        return format!("error {}: {}", failure.state, failure.message);
    }
    let rows = answers
        .last()
        .map(|answer| answer.rows.as_slice())
        .unwrap_or_default();
    let mut rows: Vec<String> = rows
        .iter()
        .map(|row| {
            row.iter()
                .map(|value| value.as_deref().unwrap_or("NULL"))
                .collect::<Vec<_>>()
                .join("|")
        })
        .collect();
    rows.sort_unstable();
    rows.join(" ")
}
