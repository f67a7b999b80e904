//! The log of long waits for locks.
//!
//! A thread looks at the waits of all sessions, several times within the limit, so that neither a
//! wait nor the statement that waits does anything for it. It sleeps while there is no limit.

use crate::log::Log;
use crate::pace::Pace;
use serde_json::Value;
use sql::{LockWait, Sql, without_constants};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The pause between two looks is a quarter of the limit, within these bounds.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));

/// Waits that have not ended, by session.
#[derive(Default)]
struct Waits(BTreeMap<i32, Wait>);

struct Wait {
    /// The begin of its statement, by which another wait of the session is known.
    statement: i64,
    since: Instant,
    is_told: bool,
}

/// An event for the log: a wait that goes on, or one that was told of and has ended.
#[derive(Debug, PartialEq, Eq)]
enum Event<'w> {
    Waits(&'w LockWait, Duration),
    Ended(i32, Duration),
}

/// Looks for waits that take as long as the time of a pace, until its end.
pub(crate) fn watch(pace: &Pace, sql: &Sql, log: &Log) {
    let mut waits = Waits::default();
    while let Some(limit) = pace.next(|limit| (limit / 4).clamp(PAUSES.0, PAUSES.1)) {
        let now = sql.lock_waits();
        for event in waits.look(&now, limit, Instant::now()) {
            tell(log, &event);
        }
    }
}

impl Waits {
    /// The events of the waits of this moment.
    fn look<'w>(
        &mut self,
        waits: &'w [LockWait],
        limit: Duration,
        moment: Instant,
    ) -> Vec<Event<'w>> {
        let mut events = Vec::new();
        self.0.retain(|session, known| {
            let is_same = |wait: &LockWait| {
                (wait.session, wait.statement_begun_at) == (*session, known.statement)
            };
            let goes_on = waits.iter().any(is_same);
            if !goes_on && known.is_told {
                events.push(Event::Ended(*session, moment - known.since));
            }
            goes_on
        });
        for wait in waits {
            let known = self.0.entry(wait.session).or_insert(Wait {
                statement: wait.statement_begun_at,
                since: moment,
                is_told: false,
            });
            let waited = moment - known.since;
            if waited >= limit && !known.is_told {
                known.is_told = true;
                events.push(Event::Waits(wait, waited));
            }
        }
        events
    }
}

fn tell(log: &Log, event: &Event<'_>) {
    let millis = |time: &Duration| Value::from(time.as_millis() as u64);
    match event {
        Event::Waits(wait, time) => log.tell(
            "waits for a lock",
            &[
                ("session", wait.session.into()),
                ("milliseconds", millis(time)),
                ("waits_for", wait.waits_for.clone().into()),
                ("statement", without_constants(&wait.statement).into()),
            ],
        ),
        Event::Ended(session, time) => log.tell(
            "no longer waits for a lock",
            &[
                ("session", (*session).into()),
                ("milliseconds", millis(time)),
            ],
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogOptions;
    use crate::log::tests::Memory;
    use indelible::{Database, Method, Options};

    fn wait(session: i32, statement_begun_at: i64) -> LockWait {
        LockWait {
            session,
            waits_for: vec![9],
            statement: String::new(),
            statement_begun_at,
        }
    }

    #[test]
    fn a_wait_is_told_once_and_so_is_its_end() {
        let limit = Duration::from_secs(1);
        let begin = Instant::now();
        let mut known = Waits::default();
        let mut look = |waits: &[LockWait], tenths: u64| {
            let moment = begin + Duration::from_millis(100 * tenths);
            let events = known.look(waits, limit, moment);
            events
                .iter()
                .map(|event| match event {
                    Event::Waits(wait, time) => (wait.session, true, time.as_millis()),
                    Event::Ended(session, time) => (*session, false, time.as_millis()),
                })
                .collect::<Vec<_>>()
        };
        let (one, two) = (wait(1, 5), wait(2, 6));
        assert_eq!(look(std::slice::from_ref(&one), 0), []);
        assert_eq!(look(&[one.clone(), two.clone()], 5), []);
        assert_eq!(look(&[one.clone(), two.clone()], 10), [(1, true, 1000)]);
        assert_eq!(look(&[one, two.clone()], 11), []);
        assert_eq!(look(&[two], 15), [(1, false, 1500), (2, true, 1000)]);
        // Another statement of the session has a wait of its own.
        assert_eq!(look(&[wait(2, 7)], 16), [(2, false, 1100)]);
        assert_eq!(look(&[], 30), []);
    }

    /// Waits for a line of the log, but not for ever; the log so far.
    fn wait_for(lines: &Memory, what: &str) -> String {
        for _ in 0..30_000 {
            let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
            if text.contains(what) {
                return text;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        String::new()
    }

    struct Nothing;

    impl sql::RowSink for Nothing {
        fn describe(&mut self, _: &[sql::OutputColumn]) -> Result<(), sql::SqlError> {
            Ok(())
        }

        fn rows(
            &mut self,
            _: &sql::Batch,
            _: &sql::types::Context<'_>,
        ) -> Result<sql::Flow, sql::SqlError> {
            Ok(sql::Flow::More)
        }
    }

    #[test]
    fn statements_that_wait_are_logged_without_their_constants() {
        let path = std::env::temp_dir().join(format!("indelible-lock-log-{}", std::process::id()));
        let database = Database::create(&path, &Options::new().method(Method::NvmInp)).unwrap();
        let sql = Sql::open(database).unwrap();
        let (mut holder, mut waiter) = (sql.connect().unwrap(), sql.connect().unwrap());
        let setup = "CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1); \
                     SET lock_timeout = 0";
        waiter.simple(setup, &mut Nothing).unwrap();
        holder.simple("BEGIN; DELETE FROM t", &mut Nothing).unwrap();
        let lines = Memory::default();
        let log = Log::new(&LogOptions::default(), Box::new(lines.clone())).unwrap();
        let pace = Pace::new(None);
        let (begun, ended) = std::thread::scope(|scope| {
            scope.spawn(|| watch(&pace, &sql, &log));
            pace.set(Some(Duration::from_millis(20)));
            let deleted = scope.spawn(move || {
                let text = "DELETE FROM t WHERE a = 1";
                waiter.simple(text, &mut Nothing).unwrap();
            });
            let begun = wait_for(&lines, "waits for a lock");
            holder.simple("ROLLBACK", &mut Nothing).unwrap();
            let ended = wait_for(&lines, "no longer waits for a lock");
            pace.end();
            deleted.join().unwrap();
            (begun, ended)
        });
        let (number, statement) = (holder.number(), "DELETE FROM t WHERE a = ?");
        let fields = format!("waits_for=[{number}] statement=\"{statement}\"");
        assert!(begun.contains(&fields), "{begun}");
        assert!(!ended.is_empty(), "{begun}");
        drop((holder, sql));
        let _ = std::fs::remove_dir_all(&path);
    }
}
