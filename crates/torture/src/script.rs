//! The operations of a round as a list that can be cut down.
//!
//! A round's operations are determined by its seed alone: the generator looks at the model, which
//! needs no engine. Each first row, each operation of a transaction and each definition has a
//! number. A [`Selection`] names the numbers that are kept, so that a failing list can be minimised
//! and written in one line. It also drops operations that it makes impossible, such as an insertion
//! into a table whose creation is left out.

use crate::connections::Turns;
use crate::generate::{Random, action, first_rows};
use crate::model::{Action, CODE_INDEX, Contents, GROUP_INDEX, MAIN, State, Step};
use std::fmt;
use std::str::FromStr;
use storage::record::Value;

/// Rows that a round starts with; with 128-byte nodes their index has three levels.
pub(crate) const FIRST_ROWS: i64 = 55;
/// Transactions of a round.
const ROUND_TRANSACTIONS: usize = 60;
/// Longest value in a description, in characters.
const SHOWN_MAX: usize = 40;

/// The operations of one round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    pub(crate) rows: Vec<Vec<Value>>,
    pub(crate) actions: Vec<Action>,
}

impl Script {
    /// The round of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let rows = first_rows(&mut random, FIRST_ROWS);
        let mut state = populated(&rows);
        let mut actions = Vec::with_capacity(ROUND_TRANSACTIONS);
        for _ in 0..ROUND_TRANSACTIONS {
            let next = action(&mut random, &state);
            state.run(&next);
            actions.push(next);
        }
        Self { rows, actions }
    }

    /// The numbers of the first `actions` transactions' operations, and of the rows before them.
    pub(crate) fn numbers(&self, actions: usize) -> Vec<u32> {
        let rows = self.rows.len();
        let pieces = self.actions.iter().take(actions).map(pieces_of);
        let count = rows + pieces.sum::<usize>();
        (0..count as u32).collect()
    }

    /// Keeps only the selected operations.
    pub(crate) fn keep(&self, selection: &Selection) -> Self {
        let mut numbers = 0..;
        let mut chosen = || {
            numbers
                .next()
                .is_some_and(|number| selection.contains(number))
        };
        let rows: Vec<_> = self.rows.iter().filter(|_| chosen()).cloned().collect();
        let mut state = populated(&rows);
        let mut actions = Vec::new();
        for action in &self.actions {
            let kept = match action {
                Action::Commit(steps) => filter(steps, &mut chosen).map(Action::Commit),
                Action::Abort(steps) => filter(steps, &mut chosen).map(Action::Abort),
                Action::PrepareCommit(steps) => {
                    filter(steps, &mut chosen).map(Action::PrepareCommit)
                }
                Action::PrepareAbort(steps) => filter(steps, &mut chosen).map(Action::PrepareAbort),
                other => chosen().then(|| other.clone()),
            };
            let Some(kept) = kept.and_then(|kept| possible(&state, kept)) else {
                continue;
            };
            state.run(&kept);
            actions.push(kept);
        }
        Self { rows, actions }
    }

    /// One sentence for each row and transaction.
    pub(crate) fn describe(&self) -> Vec<String> {
        let rows = self
            .rows
            .iter()
            .map(|row| format!("first row {}", values(row)));
        rows.chain(self.actions.iter().map(describe)).collect()
    }
}

/// The operations of a round: transactions, or turns of so many connections.
#[derive(Clone, Debug)]
pub(crate) enum RoundScript {
    Transactions(Script),
    Connections(Turns, u32),
}

impl RoundScript {
    /// The round of a seed.
    pub(crate) fn of(seed: u64, connections: Option<u32>) -> Self {
        match connections {
            None => Self::Transactions(Script::of(seed)),
            Some(connections) => Self::Connections(Turns::of(seed, connections), connections),
        }
    }

    /// Transactions or turns.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Transactions(script) => script.actions.len(),
            Self::Connections(turns, _) => turns.turns.len(),
        }
    }

    /// The numbers of the operations of the first transactions or turns, and of the rows before
    /// them.
    pub(crate) fn numbers(&self, first: usize) -> Vec<u32> {
        match self {
            Self::Transactions(script) => script.numbers(first),
            Self::Connections(turns, _) => turns.numbers(first),
        }
    }

    /// Keeps only the selected operations.
    pub(crate) fn keep(&self, selection: &Selection) -> Self {
        match self {
            Self::Transactions(script) => Self::Transactions(script.keep(selection)),
            Self::Connections(turns, count) => Self::Connections(turns.keep(selection), *count),
        }
    }

    /// One sentence for each of them.
    pub(crate) fn describe(&self) -> Vec<String> {
        match self {
            Self::Transactions(script) => script.describe(),
            Self::Connections(turns, _) => turns.describe(),
        }
    }
}

/// The main table with both indexes and these rows.
pub(crate) fn populated(rows: &[Vec<Value>]) -> State {
    let mut state = State::default();
    let contents = Contents {
        indexes: [GROUP_INDEX.0, CODE_INDEX.0].into(),
        ..Contents::default()
    };
    state.tables.insert(MAIN.0, contents);
    for row in rows {
        state.apply(&Step::Insert(MAIN, row.clone()));
    }
    state
}

fn pieces_of(action: &Action) -> usize {
    match action {
        Action::Commit(steps)
        | Action::Abort(steps)
        | Action::PrepareCommit(steps)
        | Action::PrepareAbort(steps) => steps.len(),
        _ => 1,
    }
}

pub(crate) fn filter(steps: &[Step], chosen: &mut impl FnMut() -> bool) -> Option<Vec<Step>> {
    let kept: Vec<Step> = steps.iter().filter(|_| chosen()).cloned().collect();
    (!kept.is_empty()).then_some(kept)
}

/// The action without the steps that are impossible in this state.
fn possible(state: &State, action: Action) -> Option<Action> {
    let is_possible = |step: &Step| match step {
        Step::Insert(table, _) => state.rows(*table).is_some(),
        _ => true,
    };
    let check = |mut steps: Vec<Step>| {
        steps.retain(is_possible);
        (!steps.is_empty()).then_some(steps)
    };
    match action {
        Action::Commit(steps) => check(steps).map(Action::Commit),
        Action::Abort(steps) => check(steps).map(Action::Abort),
        Action::PrepareCommit(steps) => check(steps).map(Action::PrepareCommit),
        Action::PrepareAbort(steps) => check(steps).map(Action::PrepareAbort),
        other => state.accepts(&other).then_some(other),
    }
}

fn describe(action: &Action) -> String {
    let list = |verb: &str, steps: &[Step]| {
        let steps: Vec<String> = steps.iter().map(describe_step).collect();
        format!("{verb} {}", steps.join("; "))
    };
    match action {
        Action::Commit(steps) => list("commit", steps),
        Action::Abort(steps) => list("abort", steps),
        Action::PrepareCommit(steps) => list("prepare, then commit", steps),
        Action::PrepareAbort(steps) => list("prepare, then abort", steps),
        Action::CreateSide => "create the side table".to_owned(),
        Action::DropSide => "drop the side table".to_owned(),
        Action::CreateIndex(id) => format!("create index {}", id.0),
        Action::DropIndex(id) => format!("drop index {}", id.0),
        Action::Checkpoint => "checkpoint".to_owned(),
    }
}

pub(crate) fn describe_step(step: &Step) -> String {
    match step {
        Step::Insert(table, row) => format!("insert into table {} {}", table.0, values(row)),
        Step::Update(key, changes) => {
            let changes: Vec<String> = changes
                .iter()
                .map(|(column, new)| format!("column {column} = {}", value(new)))
                .collect();
            format!("update {key} {}", changes.join(", "))
        }
        Step::Delete(key) => format!("delete {key}"),
    }
}

pub(crate) fn values(row: &[Value]) -> String {
    let row: Vec<String> = row.iter().map(value).collect();
    format!("({})", row.join(", "))
}

fn value(value: &Value) -> String {
    let text = match value {
        Value::Null => "NULL".to_owned(),
        Value::Int64(number) => number.to_string(),
        Value::Int32(number) => number.to_string(),
        Value::Text(text) => format!("'{text}'"),
        other => format!("{other:?}"),
    };
    let length = text.chars().count();
    if length <= SHOWN_MAX {
        return text;
    }
    let shown: String = text.chars().take(SHOWN_MAX / 2).collect();
    format!("{shown}...' of {} characters", length - 2)
}

/// Numbers of the operations that are kept: ranges, as in `0-3,17,60-61`, or `all`, or `none`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Selection(Vec<(u32, u32)>);

impl Selection {
    /// Every operation.
    pub fn all() -> Self {
        Self(vec![(0, u32::MAX)])
    }

    pub(crate) fn of(numbers: &[u32]) -> Self {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for &number in numbers {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == number => *last = number,
                _ => ranges.push((number, number)),
            }
        }
        Self(ranges)
    }

    /// Those of `numbers` that are selected.
    pub(crate) fn only(&self, numbers: &[u32]) -> Vec<u32> {
        let numbers = numbers.iter().copied();
        numbers.filter(|number| self.contains(*number)).collect()
    }

    /// Says so if an operation is selected that the round of a seed does not have. A list of an
    /// earlier version, or one with a slip, would select nothing and find nothing wrong.
    pub fn check(&self, seed: u64, connections: Option<u32>) -> Result<(), String> {
        let count = RoundScript::of(seed, connections).numbers(usize::MAX).len() as u32;
        match self.0.iter().map(|(_, last)| *last).max() {
            Some(last) if last >= count && *self != Self::all() => Err(format!(
                "the round of seed {seed} has operations 0 to {}, and --operations names {last}",
                count.saturating_sub(1)
            )),
            _ => Ok(()),
        }
    }

    pub(crate) fn contains(&self, number: u32) -> bool {
        self.0
            .iter()
            .any(|&(first, last)| first <= number && number <= last)
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::all() {
            return f.write_str("all");
        }
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (position, (first, last)) in self.0.iter().enumerate() {
            let separator = if position == 0 { "" } else { "," };
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => return Ok(Self::all()),
            "none" => return Ok(Self::default()),
            _ => {}
        }
        let wrong = |part: &str| format!("`{part}` is neither a number nor a range such as 3-7");
        let number = |part: &str| part.trim().parse::<u32>().map_err(|_| wrong(part));
        let range = |part: &str| match part.split_once('-') {
            Some((first, last)) => match (number(first)?, number(last)?) {
                (first, last) if first > last => Err(format!(
                    "`{part}` ends before it begins; ranges are such as 3-7"
                )),
                range => Ok(range),
            },
            None => number(part).map(|number| (number, number)),
        };
        text.split(',')
            .map(range)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections_are_written_and_read() {
        let selection = Selection::of(&[0, 1, 2, 7, 9, 10]);
        assert_eq!(selection.to_string(), "0-2,7,9-10");
        assert_eq!("0-2,7,9-10".parse(), Ok(selection));
        assert_eq!("all".parse(), Ok(Selection::all()));
        assert_eq!(Selection::all().to_string(), "all");
        assert_eq!(Selection::of(&[]).to_string(), "none");
        assert_eq!("none".parse(), Ok(Selection::of(&[])));
        assert!("0-x".parse::<Selection>().is_err());
        assert!("5-3".parse::<Selection>().is_err());
    }

    #[test]
    fn a_selection_beyond_the_round_is_told() {
        for connections in [None, Some(3)] {
            let script = RoundScript::of(7, connections);
            let last = *script.numbers(usize::MAX).last().unwrap();
            let check = |text: &str| {
                let selection: Selection = text.parse().unwrap();
                selection.check(7, connections)
            };
            check(&format!("0-{last}")).unwrap();
            check("all").unwrap();
            check("none").unwrap();
            let beyond = check(&format!("3,9-{}", last + 1)).unwrap_err();
            assert!(beyond.contains(&format!("0 to {last},")), "{beyond}");
        }
    }

    #[test]
    fn a_selection_drops_what_became_impossible() {
        for seed in 0..40 {
            let script = Script::of(seed);
            let every_other: Vec<u32> = script.numbers(usize::MAX).into_iter().step_by(2).collect();
            let kept = script.keep(&Selection::of(&every_other));
            let mut state = populated(&kept.rows);
            for action in &kept.actions {
                assert!(state.accepts(action), "seed {seed}: {action:?}");
                state.run(action);
            }
            assert_eq!(
                script.keep(&Selection::all()).actions.len(),
                script.actions.len()
            );
            assert_eq!(kept.describe().len(), kept.rows.len() + kept.actions.len());
        }
    }
}
