//! Statistics of statements, as `pg_stat_statements` shows them.
//!
//! Statements of a role that differ in their constants alone are counted together. The time of a
//! statement is that from its begin until its answer has been handed over; the time and the cost of
//! a commit count for the statement that was the last one before it. As in PostgreSQL, statements
//! that fail are not counted.

use super::now;
use super::registry::cost;
use crate::catalog::Oid;
use sql_parse::with_parameters;
use std::collections::HashMap;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

/// Statements that are kept, the value of PostgreSQL's `pg_stat_statements.max`; of more, the
/// twentieth that was used least recently is forgotten.
const KEPT_MAX: usize = 5000;
/// Texts whose statement is known, so that it need not be made again.
const KNOWN_MAX: usize = 2 * KEPT_MAX;
/// Bytes of a text that is shown.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// The statements of an open database.
#[derive(Default)]
pub(crate) struct Statements {
    kept: RwLock<Kept>,
    hasher: RandomState,
    /// How often statements were forgotten because there were too many.
    forgotten: AtomicU64,
    /// The moment of the last reset of all; 0 before the first.
    reset_at: AtomicI64,
}

#[derive(Default)]
struct Kept {
    all: HashMap<(Oid, i64), Arc<Statement>>,
    /// By the hash of a text that comes again and again, with that text.
    known: HashMap<u64, (Box<str>, Arc<Statement>)>,
}

/// A statement without its constants.
pub(crate) struct Statement {
    pub(crate) role: Oid,
    /// The hash of its text.
    pub(crate) id: i64,
    pub(crate) text: Box<str>,
    /// When it was called last, in microseconds since 2000-01-01 UTC.
    used_at: AtomicI64,
    is_forgotten: AtomicBool,
    numbers: Mutex<Numbers>,
}

/// The statistics of a statement. Times are milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) calls: u64,
    pub(crate) rows: u64,
    pub(crate) total: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    /// The sum of the squares of the differences from the mean.
    squares: f64,
    pub(crate) costs: Costs,
}

/// Costs of commits, in the places of `cost`.
pub(crate) type Costs = [u64; cost::COUNTS];

impl Numbers {
    pub(crate) fn mean(&self) -> f64 {
        match self.calls {
            0 => 0.0,
            calls => self.total / calls as f64,
        }
    }

    /// The standard deviation of the time of all calls.
    pub(crate) fn deviation(&self) -> f64 {
        match self.calls {
            0 => 0.0,
            calls => (self.squares / calls as f64).sqrt(),
        }
    }

    fn add(&mut self, call: &Call) {
        let took = call.took.as_secs_f64() * 1e3;
        let before = self.mean();
        self.rows += call.rows;
        self.total += took;
        for (sum, cost) in self.costs.iter_mut().zip(&call.costs) {
            *sum += cost;
        }
        if call.is_continued {
            return;
        }
        self.least = if self.calls == 0 {
            took
        } else {
            self.least.min(took)
        };
        self.calls += 1;
        self.most = self.most.max(took);
        self.squares += (took - before) * (took - self.mean());
    }
}

impl Statement {
    pub(crate) fn numbers(&self) -> Numbers {
        *self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether calls by a role are counted here.
    pub(crate) fn is_of(&self, role: Oid) -> bool {
        self.role == role && !self.is_forgotten()
    }

    fn is_forgotten(&self) -> bool {
        self.is_forgotten.load(Ordering::Relaxed)
    }

    /// Counts a call.
    pub(crate) fn count(&self, call: &Call) {
        self.used_at.store(call.begun_at, Ordering::Relaxed);
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.add(call);
    }

    fn used_at(&self) -> i64 {
        self.used_at.load(Ordering::Relaxed)
    }
}

/// A call of a statement that has ended.
pub(crate) struct Call {
    /// When it has begun, in microseconds since 2000-01-01 UTC.
    pub(crate) begun_at: i64,
    pub(crate) took: Duration,
    pub(crate) rows: u64,
    pub(crate) costs: Costs,
    /// Whether it is the same call as one before, whose portal had stopped.
    pub(crate) is_continued: bool,
}

impl Statements {
    /// The statement under which calls of a text by a role are counted. With `key`, a text that
    /// stands for it however often it comes, its text is not looked at again.
    pub(crate) fn statement(&self, role: Oid, key: Option<&str>, text: &str) -> Arc<Statement> {
        let hash = key.map(|key| self.hasher.hash_one((role, key)));
        {
            let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
            if let Some((known, statement)) = hash.and_then(|hash| kept.known.get(&hash))
                && statement.role == role
                && key == Some(&**known)
            {
                return Arc::clone(statement);
            }
        }
        let mut shown = with_parameters(text);
        shown.truncate(shown.floor_char_boundary(TEXT_BYTES_MAX));
        // The same in each run of one build, so that a statement can be followed.
        let mut hasher = DefaultHasher::new();
        shown.hash(&mut hasher);
        let id = hasher.finish().cast_signed();
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        if kept.all.len() >= KEPT_MAX && !kept.all.contains_key(&(role, id)) {
            kept.forget_oldest();
            self.forgotten.fetch_add(1, Ordering::Relaxed);
        }
        let statement = kept.all.entry((role, id)).or_insert_with(|| {
            Arc::new(Statement {
                role,
                id,
                text: shown.into(),
                used_at: AtomicI64::new(now()),
                is_forgotten: AtomicBool::new(false),
                numbers: Mutex::default(),
            })
        });
        let statement = Arc::clone(statement);
        if let (Some(hash), Some(key)) = (hash, key) {
            if kept.known.len() >= KNOWN_MAX {
                kept.known.clear();
            }
            let known = (key.into(), Arc::clone(&statement));
            kept.known.insert(hash, known);
        }
        statement
    }

    /// All statements.
    pub(crate) fn all(&self) -> Vec<Arc<Statement>> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        kept.all.values().cloned().collect()
    }

    /// Forgets the statements of a role, with a number, or all.
    pub(crate) fn reset(&self, role: Option<Oid>, id: Option<i64>) {
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        let is_meant = |statement: &Statement| {
            role.is_none_or(|role| role == statement.role) && id.is_none_or(|id| id == statement.id)
        };
        kept.retain(|statement| !is_meant(statement));
        if role.is_none() && id.is_none() {
            self.reset_at.store(now(), Ordering::Relaxed);
            self.forgotten.store(0, Ordering::Relaxed);
        }
    }

    /// How often statements were forgotten, and the moment of the last reset of all, or 0.
    pub(crate) fn info(&self) -> (u64, i64) {
        (
            self.forgotten.load(Ordering::Relaxed),
            self.reset_at.load(Ordering::Relaxed),
        )
    }
}

impl Kept {
    fn forget_oldest(&mut self) {
        let place_of = |statement: &Statement| (statement.used_at(), statement.role, statement.id);
        let mut places: Vec<_> = self.all.values().map(|one| place_of(one)).collect();
        let count = places.len() / 20;
        let (_, last, _) = places.select_nth_unstable(count);
        let last = *last;
        self.retain(|statement| place_of(statement) > last);
    }

    /// Forgets all others.
    fn retain(&mut self, stays: impl Fn(&Statement) -> bool) {
        self.all.retain(|_, statement| {
            let stays = stays(statement);
            if !stays {
                // Sessions that have kept it to count calls look for it again.
                statement.is_forgotten.store(true, Ordering::Relaxed);
            }
            stays
        });
        self.known
            .retain(|_, (_, statement)| !statement.is_forgotten());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLE: Oid = 10;

    fn call(milliseconds: u64, is_continued: bool) -> Call {
        Call {
            begun_at: 0,
            took: Duration::from_millis(milliseconds),
            rows: 2,
            costs: [3; cost::COUNTS],
            is_continued,
        }
    }

    /// Counts a call that has begun at a moment.
    fn count(statements: &Statements, text: &str, begun_at: i64) {
        let call = Call {
            begun_at,
            ..call(1, false)
        };
        statements.statement(ROLE, None, text).count(&call);
    }

    #[test]
    fn the_least_recently_used_statements_are_forgotten() {
        let statements = Statements::default();
        for (number, moment) in (0..KEPT_MAX).zip(0..) {
            count(&statements, &format!("SELECT a{number}"), moment);
        }
        let last = statements.statement(ROLE, None, "SELECT a1");
        count(&statements, "SELECT a0", i64::MAX);
        count(&statements, "SELECT b", i64::MAX);
        assert!(!last.is_of(ROLE), "whoever has kept it is told");
        let all = statements.all();
        assert_eq!(all.len(), KEPT_MAX - KEPT_MAX / 20);
        let has = |text: &str| all.iter().any(|statement| &*statement.text == text);
        assert!(has("SELECT a0") && has("SELECT b") && !has("SELECT a1"));
        assert_eq!(statements.info(), (1, 0));
    }

    #[test]
    fn numbers_are_those_of_all_calls() {
        let mut numbers = Numbers::default();
        for milliseconds in [1, 2, 6] {
            numbers.add(&call(milliseconds, false));
        }
        let times = [numbers.total, numbers.mean(), numbers.least, numbers.most];
        assert_eq!(format!("{times:?}"), "[9.0, 3.0, 1.0, 6.0]");
        // The square root of 14 / 3.
        assert!((numbers.deviation() - 2.160_246_9).abs() < 1e-6);
        assert_eq!((numbers.rows, numbers.costs[cost::FENCES]), (6, 9));
        numbers.add(&call(3, true));
        assert_eq!((numbers.calls, numbers.rows, numbers.mean()), (3, 8, 4.0));
    }

    #[test]
    fn a_text_that_is_known_is_counted_by_its_key_for_each_role() {
        let statements = Statements::default();
        for (role, number) in [(1, 5), (1, 6), (2, 7)] {
            let text = format!("SELECT {number}");
            let statement = statements.statement(role, Some("SELECT \u{1}"), &text);
            statement.count(&call(1, false));
        }
        let mut calls: Vec<_> = statements
            .all()
            .iter()
            .map(|one| (one.role, one.text.to_string(), one.numbers().calls))
            .collect();
        calls.sort();
        let text = "SELECT $1".to_owned();
        assert_eq!(calls, [(1, text.clone(), 2), (2, text, 1)]);
        statements.reset(Some(1), None);
        assert_eq!(statements.all().len(), 1);
        statements.reset(None, None);
        assert_eq!(statements.all().len(), 0);
        assert!(statements.info().1 > 0);
    }
}
