//! Turns of connections as a list that can be cut down.
//!
//! A turn means something in every state: a connection without a transaction begins one, and what
//! is impossible is left out. So any part of the list is a round as well.

use crate::generate::{KEYS, Random, first_rows, large, step};
use crate::model::{Action, CODE_INDEX, GROUP_INDEX, MAIN, SIDE, State, Step};
use crate::script::{FIRST_ROWS, Selection, describe_step, filter, populated, values};
use indelible::{Direction, Durability, Isolation, RowLock, TableLock};
use storage::record::{TableId, Value};

/// Turns of a round.
const TURNS: usize = 240;
/// Values of the main table's group column, and of an index of its code column, from 0 on.
const GROUPS: u64 = 6;
const CODES: u64 = KEYS * 1000;

/// One call on a connection.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) connection: usize,
    /// The level, if it begins a transaction.
    pub(crate) isolation: Isolation,
    pub(crate) call: Call,
}

#[derive(Clone, Debug)]
pub(crate) enum Call {
    Steps(Vec<Step>),
    Read(Read),
    Lock(i64, RowLock),
    LockTable(TableLock),
    Mark,
    /// To the mark that is so many marks back.
    RollBack(usize),
    Begin,
    Abort,
    Commit(Durability),
    /// The connection is dropped with its transaction, and another one opened.
    Reconnect,
    /// A step while the connection is interrupted.
    Interrupted(Step),
    /// A typed transaction meanwhile.
    Closure(Vec<Step>),
    /// A definition under a lock of the table, or a checkpoint.
    Define(Action),
    /// Two fresh transactions that each lock a row and then want the other one's.
    Deadlock {
        other: usize,
        keys: [i64; 2],
    },
}

/// A read of one row or of a range, both ends included.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) table: TableId,
    pub(crate) way: Way,
    pub(crate) low: i64,
    pub(crate) high: i64,
    pub(crate) direction: Direction,
}

/// The index by which rows are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Key,
    Range,
    Group,
    Code,
}

/// The operations of one round.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    pub(crate) rows: Vec<Vec<Value>>,
    pub(crate) turns: Vec<Turn>,
}

impl Turns {
    /// The round of a seed.
    pub(crate) fn of(seed: u64, connections: u32) -> Self {
        let mut random = Random::new(seed);
        let rows = first_rows(&mut random, FIRST_ROWS);
        // Steps may name the side table whether it will be there or not.
        let mut state = populated(&rows);
        state.tables.entry(SIDE.0).or_default();
        let turns = (0..TURNS).map(|_| turn(&mut random, &state, u64::from(connections)));
        let turns = turns.collect();
        Self { rows, turns }
    }

    /// The numbers of the operations of the first `turns` turns, and of the rows before them.
    pub(crate) fn numbers(&self, turns: usize) -> Vec<u32> {
        let pieces = self.turns.iter().take(turns).map(|turn| turn.call.pieces());
        let count = self.rows.len() + pieces.sum::<usize>();
        (0..count as u32).collect()
    }

    /// Keeps only the selected operations.
    pub(crate) fn keep(&self, selection: &Selection) -> Self {
        let mut numbers = 0..;
        let mut chosen = || {
            let number = numbers.next();
            number.is_some_and(|number| selection.contains(number))
        };
        let rows = self.rows.iter().filter(|_| chosen()).cloned().collect();
        let mut turns = Vec::new();
        for turn in &self.turns {
            let call = match &turn.call {
                Call::Steps(steps) => filter(steps, &mut chosen).map(Call::Steps),
                Call::Closure(steps) => filter(steps, &mut chosen).map(Call::Closure),
                call => chosen().then(|| call.clone()),
            };
            turns.extend(call.map(|call| Turn {
                call,
                ..turn.clone()
            }));
        }
        Self { rows, turns }
    }

    /// One sentence for each row and turn.
    pub(crate) fn describe(&self) -> Vec<String> {
        let rows = self.rows.iter();
        let rows = rows.map(|row| format!("first row {}", values(row)));
        rows.chain(self.turns.iter().map(Turn::describe)).collect()
    }
}

impl Turn {
    pub(crate) fn describe(&self) -> String {
        let list = |steps: &[Step]| {
            let steps: Vec<String> = steps.iter().map(describe_step).collect();
            steps.join("; ")
        };
        let call = match &self.call {
            Call::Steps(steps) => list(steps),
            Call::Closure(steps) => return format!("a typed transaction: {}", list(steps)),
            Call::Interrupted(step) => format!("interrupted: {}", describe_step(step)),
            Call::Begin => format!("abort; begin at {:?}", self.isolation),
            call => format!("{call:?}"),
        };
        format!(
            "connection {} ({:?}): {call}",
            self.connection, self.isolation
        )
    }
}

impl Call {
    fn pieces(&self) -> usize {
        match self {
            Self::Steps(steps) | Self::Closure(steps) => steps.len(),
            _ => 1,
        }
    }
}

fn turn(random: &mut Random, state: &State, connections: u64) -> Turn {
    let isolation = match random.below(3) {
        0 => Isolation::ReadCommitted,
        1 => Isolation::RepeatableRead,
        _ => Isolation::Serializable,
    };
    Turn {
        connection: random.below(connections) as usize,
        isolation,
        call: call(random, state, connections),
    }
}

fn call(random: &mut Random, state: &State, connections: u64) -> Call {
    let key = |random: &mut Random| random.below(KEYS).cast_signed();
    match random.below(100) {
        0..36 => Call::Steps(steps(random, state, 1)),
        36..37 => Call::Steps(large(random, MAIN)),
        37..53 => Call::Commit(match random.below(5) {
            0 => Durability::Group,
            1 => Durability::None,
            _ => Durability::Immediate,
        }),
        53..57 => Call::Abort,
        57..63 => Call::Mark,
        63..68 => Call::RollBack(random.below(3) as usize),
        68..80 => Call::Read(read(random)),
        80..86 => Call::Lock(key(random), strength(random)),
        86..88 => Call::LockTable(match random.below(4) {
            0 => TableLock::Exclusive,
            1 => TableLock::Shared,
            2 => TableLock::IntentExclusive,
            _ => TableLock::IntentShared,
        }),
        88..91 => Call::Closure(steps(random, state, 3)),
        91..95 => Call::Define(definition(random)),
        95..97 => Call::Deadlock {
            other: random.below(connections) as usize,
            keys: [key(random), key(random)],
        },
        97 => Call::Interrupted(step(random, state)),
        98 => Call::Reconnect,
        _ => Call::Begin,
    }
}

fn steps(random: &mut Random, state: &State, most: u64) -> Vec<Step> {
    let count = 1 + random.below(most);
    (0..count).map(|_| step(random, state)).collect()
}

fn strength(random: &mut Random) -> RowLock {
    match random.below(4) {
        0 => RowLock::KeyShare,
        1 => RowLock::Share,
        2 => RowLock::NoKeyUpdate,
        _ => RowLock::Update,
    }
}

fn read(random: &mut Random) -> Read {
    let (way, limit) = match random.below(6) {
        0 | 1 => (Way::Key, KEYS),
        2 | 3 => (Way::Range, KEYS),
        4 => (Way::Group, GROUPS),
        _ => (Way::Code, CODES),
    };
    let ends = [0; 2].map(|_| random.below(limit).cast_signed());
    let is_of_side = matches!(way, Way::Key | Way::Range) && random.one_in(5);
    Read {
        table: if is_of_side { SIDE } else { MAIN },
        way,
        low: ends[0].min(ends[1]),
        high: ends[0].max(ends[1]),
        direction: if random.one_in(2) {
            Direction::Forward
        } else {
            Direction::Backward
        },
    }
}

fn definition(random: &mut Random) -> Action {
    let index = if random.one_in(2) {
        GROUP_INDEX
    } else {
        CODE_INDEX
    };
    match random.below(5) {
        0 => Action::CreateSide,
        1 => Action::DropSide,
        2 => Action::CreateIndex(index),
        3 => Action::DropIndex(index),
        _ => Action::Checkpoint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_name_rows_and_calls() {
        let all = Turns::of(7, 4);
        let numbers = all.numbers(usize::MAX);
        let whole = all.keep(&Selection::of(&numbers));
        assert_eq!(whole.describe(), all.describe());
        assert_eq!(all.keep(&Selection::of(&[])).describe(), [""; 0]);
        let half: Vec<u32> = numbers.into_iter().step_by(2).collect();
        let half = all.keep(&Selection::of(&half));
        assert!(!half.turns.is_empty() && half.turns.len() < all.turns.len());
    }
}
