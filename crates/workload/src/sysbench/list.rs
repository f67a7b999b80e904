//! The statements of each event, made before the clock starts: the same for every method.
//!
//! Each thread has a list for its partition's ids. A table is drawn evenly for each kind of
//! statement of an event and ids by the distribution, in sysbench's order. The texts that a
//! statement writes follow from its nonce.

use super::SysbenchOptions;
use super::digits::{C_GROUPS, PAD_GROUPS, fill};
use super::distribution::Draw;
use crate::random::{Random, mix};

/// The kinds of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `SELECT c WHERE id = ?`.
    PointSelect,
    /// `SELECT c WHERE id BETWEEN ? AND ?`.
    SimpleRange,
    /// `SELECT SUM(k) WHERE id BETWEEN ? AND ?`.
    SumRange,
    /// `SELECT c WHERE id BETWEEN ? AND ? ORDER BY c`.
    OrderRange,
    /// `SELECT DISTINCT c WHERE id BETWEEN ? AND ? ORDER BY c`.
    DistinctRange,
    /// `UPDATE SET k = k + 1 WHERE id = ?`.
    UpdateIndex,
    /// `UPDATE SET c = ? WHERE id = ?`.
    UpdateNonIndex,
    /// `DELETE WHERE id = ?`.
    Delete,
    /// `INSERT` of the row that was deleted before, with other values.
    Insert,
    /// `INSERT` of a row whose id is the next.
    Append,
}

impl Action {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::PointSelect,
        Self::SimpleRange,
        Self::SumRange,
        Self::OrderRange,
        Self::DistinctRange,
        Self::UpdateIndex,
        Self::UpdateNonIndex,
        Self::Delete,
        Self::Insert,
        Self::Append,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::PointSelect => "point-select",
            Self::SimpleRange => "simple-range",
            Self::SumRange => "sum-range",
            Self::OrderRange => "order-range",
            Self::DistinctRange => "distinct-range",
            Self::UpdateIndex => "update-index",
            Self::UpdateNonIndex => "update-non-index",
            Self::Delete => "delete",
            Self::Insert => "insert",
            Self::Append => "append",
        }
    }
}

const _: () = assert!(size_of::<Statement>() == 16);

/// One statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The kind of statement.
    pub action: Action,
    /// In which table, from 0.
    pub table: u16,
    /// The row, or the first of a range; 0 where the row is the next.
    pub id: u32,
    /// `k` of a row that is inserted.
    pub k: u32,
    /// Part of the seed of the texts that it writes.
    nonce: u32,
}

impl Statement {
    /// The values of `c` and `pad` that it writes.
    pub(super) fn texts(self, seed: u64) -> Texts {
        let own = u64::from(self.nonce) << 32 | u64::from(self.id);
        Texts(Random::new(mix(seed) ^ own))
    }
}

/// The texts of a row that is written, `c` first.
pub(super) struct Texts(pub(super) Random);

impl Texts {
    pub(super) fn c(&mut self, text: &mut String) {
        fill(text, C_GROUPS, &mut self.0);
    }

    /// Follows `c`.
    pub(super) fn pad(&mut self, text: &mut String) {
        fill(text, PAD_GROUPS, &mut self.0);
    }
}

/// Makes the list of this number with this many transactions: the statements of all events, one
/// after the other.
pub(super) fn generate(options: &SysbenchOptions, list: u32, transactions: u64) -> Vec<Statement> {
    let (first, count) = options.ids_of(list % options.partitions);
    let draw = Draw::new(options.distribution, count);
    let mut random = Random::new(options.seed ^ 0x5B7E ^ u64::from(list) << 48);
    let actions = options.script.actions();
    let events = match options.scope {
        super::Scope::Event => transactions,
        super::Scope::Statement => transactions.div_ceil(actions.len() as u64),
    };
    let mut statements = Vec::with_capacity(events as usize * actions.len());
    for _ in 0..events {
        let mut before: Option<Statement> = None;
        for &action in actions {
            let mut id = || first + draw.draw(&mut random);
            let statement = match (action, before) {
                // The row that was just deleted comes back.
                (Action::Insert, Some(deleted)) => Statement {
                    action,
                    k: id(),
                    nonce: random.next_u64() as u32,
                    ..deleted
                },
                (Action::PointSelect, Some(one)) => Statement { id: id(), ..one },
                _ => {
                    let table = random.below(options.tables.into()) as u16;
                    let drawn = first + draw.draw(&mut random);
                    let is_new = action == Action::Append;
                    Statement {
                        action,
                        table,
                        id: if is_new { 0 } else { drawn },
                        k: if is_new { drawn } else { 0 },
                        nonce: random.next_u64() as u32,
                    }
                }
            };
            statements.push(statement);
            before = Some(statement);
        }
    }
    statements
}

/// The ids that a list gives to new rows: after the loaded ones, in steps, so that no two lists
/// give the same.
#[derive(Clone, Debug)]
pub(super) struct NewIds {
    next: Vec<u32>,
    step: u32,
}

impl NewIds {
    pub(super) fn new(options: &SysbenchOptions, list: u32) -> Self {
        Self {
            next: vec![options.rows + 1 + list; options.tables.into()],
            step: options.lists(),
        }
    }

    /// The next ids of a list after a number of its statements.
    pub(super) fn after(mut self, list: &[Statement], statements: u64) -> Self {
        let (laps, rest) = (
            statements / list.len() as u64,
            statements % list.len() as u64,
        );
        let (passed, ahead) = list.split_at(rest as usize);
        for (part, times) in [(passed, laps + 1), (ahead, laps)] {
            for statement in part.iter().filter(|one| one.action == Action::Append) {
                let next = &mut self.next[usize::from(statement.table)];
                *next = next.saturating_add(self.step.saturating_mul(times as u32));
            }
        }
        self
    }

    /// The row of a statement.
    pub(super) fn id(&self, statement: Statement) -> u32 {
        match statement.action {
            Action::Append => self.next[usize::from(statement.table)],
            _ => statement.id,
        }
    }

    /// A statement was run.
    pub(super) fn pass(&mut self, statement: Statement) {
        if statement.action == Action::Append {
            let next = &mut self.next[usize::from(statement.table)];
            *next = next.saturating_add(self.step);
        }
    }
}
