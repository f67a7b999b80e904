//! The connections that there are, and the ways in which others end their statements or them.
//!
//! A [`Seat`] is the part of a connection that other threads see; its phase changes under its
//! mutex. Statements are ended by [`Sql::cancel`], which meets the one that runs and no other: a
//! request to cancel that comes between two statements does nothing, as in PostgreSQL.
//!
//! | from | ends | state |
//! |---|---|---|
//! | a request to cancel, `pg_cancel_backend` | the statement | 57014 |
//! | `idle_in_transaction_session_timeout` | an idle connection with an open transaction | 25P03 |
//! | `idle_session_timeout` | an idle connection | 57P05 |
//! | the end of the server, `pg_terminate_backend` | the connection, and its statement | 57P01 |
//! | the limit of authentication | a connection that has not begun | none is told |
//!
//! The session keeps `statement_timeout` and `lock_timeout` itself. One thread keeps the deadlines
//! of idle connections. A connection tells it only if its deadline is before all others, so an idle
//! server sleeps, and a session without limits costs nothing.

use crate::socket::Socket;
use sql::Sql;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of the key by which a statement is cancelled: version 3.0 has room for four.
pub(crate) const KEY_BYTES: usize = 16;
pub(crate) const SHORT_KEY_BYTES: usize = 4;

/// Milliseconds after which a connection that has not begun its session leaves for another.
const BEGIN_MILLIS: u64 = 1000;
/// No deadline: milliseconds that never come.
const NEVER: u64 = u64::MAX;

/// The reason why a connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    IdleInTransaction,
    IdleSession,
    /// The server ends, or another session ends this one.
    Command,
    /// Nobody has proved who he is in time.
    NotAuthenticated,
}

/// The activity of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Starting,
    Idle,
    IdleInTransaction,
    Running,
}

/// The part of a connection that other threads see.
pub(crate) struct Seat {
    socket: Arc<Socket>,
    state: Mutex<State>,
    /// Milliseconds of the registry's clock at which it came.
    entered: u64,
    /// Milliseconds of the registry's clock at which its phase has lasted too long.
    deadline: AtomicU64,
}

struct State {
    phase: Phase,
    /// The session's number and key, once it has begun.
    session: Option<Started>,
    /// Why the connection is to end.
    ending: Option<Cause>,
}

struct Started {
    number: i32,
    key: [u8; KEY_BYTES],
    key_bytes: usize,
}

impl Seat {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets others cancel the session's statements.
    pub(crate) fn begin(&self, number: i32, key: &[u8]) {
        let mut kept = [0; KEY_BYTES];
        kept[..key.len()].copy_from_slice(key);
        self.state().session = Some(Started {
            number,
            key: kept,
            key_bytes: key.len(),
        });
    }

    /// Why the connection is to end, if it is.
    pub(crate) fn ending(&self) -> Option<Cause> {
        self.state().ending
    }

    /// Ends the connection as soon as it reads; its statement has to be ended too.
    pub(crate) fn end(&self, cause: Cause) {
        let mut state = self.state();
        state.ending = state.ending.or(Some(cause));
        drop(state);
        self.socket.end_input();
    }

    /// The session, if the key is its key.
    fn session_of_key(&self, number: i32, key: &[u8]) -> Option<i32> {
        let state = self.state();
        let session = state.session.as_ref()?;
        let is_meant =
            session.number == number && are_equal(&session.key[..session.key_bytes], key);
        is_meant.then_some(number)
    }
}

/// All connections of a server.
pub(crate) struct Registry {
    sql: Arc<Sql>,
    seats: Mutex<HashMap<u64, Arc<Seat>>>,
    serial: AtomicU64,
    /// The beginning of the clock.
    epoch: Instant,
    /// The moment at which the thread of deadlines wakes.
    next: AtomicU64,
    /// Whether that thread has to look again; it ends with the registry.
    alarm: Mutex<Alarm>,
    rings: Condvar,
    /// Told when a connection has ended.
    left: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Alarm {
    Asleep,
    Look,
    End,
}

impl Registry {
    pub(crate) fn new(sql: &Arc<Sql>) -> Self {
        Self {
            sql: Arc::clone(sql),
            seats: Mutex::default(),
            serial: AtomicU64::new(0),
            epoch: Instant::now(),
            next: AtomicU64::new(NEVER),
            alarm: Mutex::new(Alarm::Asleep),
            rings: Condvar::new(),
            left: Condvar::new(),
        }
    }

    fn seats(&self) -> MutexGuard<'_, HashMap<u64, Arc<Seat>>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection, which has `limit` to begin its session.
    pub(crate) fn enter(self: &Arc<Self>, socket: &Arc<Socket>, limit: Duration) -> Entry {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let seat = Arc::new(Seat {
            socket: Arc::clone(socket),
            state: Mutex::new(State {
                phase: Phase::Starting,
                session: None,
                ending: None,
            }),
            entered: self.now(),
            deadline: AtomicU64::new(NEVER),
        });
        self.seats().insert(serial, Arc::clone(&seat));
        let entry = Entry {
            registry: Arc::clone(self),
            seat,
            serial,
        };
        entry.limit(Some(limit));
        entry
    }

    /// The number of connections.
    pub(crate) fn count(&self) -> usize {
        self.seats().len()
    }

    /// Ends the connection that has tried to begin its session for longest, if that is longer than
    /// anybody needs; whether there was one.
    pub(crate) fn end_a_beginner(&self) -> bool {
        let late = self.now().saturating_sub(BEGIN_MILLIS);
        let begins = |seat: &Arc<Seat>| {
            let state = seat.state();
            state.phase == Phase::Starting && state.ending.is_none()
        };
        let late = self.all().into_iter().filter(|seat| seat.entered < late);
        let beginner = late.filter(begins).min_by_key(|seat| seat.entered);
        if let Some(seat) = &beginner {
            seat.end(Cause::NotAuthenticated);
        }
        beginner.is_some()
    }

    fn all(&self) -> Vec<Arc<Seat>> {
        self.seats().values().cloned().collect()
    }

    /// Ends the statement of a session, if the key is its key.
    pub(crate) fn cancel(&self, number: i32, key: &[u8]) {
        let all = self.all();
        let meant = all.iter().find_map(|seat| seat.session_of_key(number, key));
        if let Some(number) = meant {
            self.sql.cancel(number);
        }
    }

    /// Ends connections: all, or those that are idle outside of a transaction.
    pub(crate) fn end_all(&self, only_idle: bool) {
        for seat in self.all() {
            let state = seat.state();
            let phase = state.phase;
            let number = state.session.as_ref().map(|session| session.number);
            drop(state);
            if !only_idle || matches!(phase, Phase::Idle | Phase::Starting) {
                seat.end(Cause::Command);
                number.map(|number| self.sql.cancel(number));
            }
        }
    }

    /// Waits until all connections have ended, or for `limit`; whether they have.
    pub(crate) fn wait_until_empty(&self, limit: Duration) -> bool {
        let seats = self.seats();
        let waited = self
            .left
            .wait_timeout_while(seats, limit, |seats| !seats.is_empty());
        let (seats, _) = waited.unwrap_or_else(PoisonError::into_inner);
        seats.is_empty()
    }

    /// Ends what has lasted too long, until [`Registry::stop`].
    pub(crate) fn keep_deadlines(&self) {
        let mut alarm = self.alarm.lock().unwrap_or_else(PoisonError::into_inner);
        while *alarm != Alarm::End {
            *alarm = Alarm::Asleep;
            // A connection that sets a deadline from here on finds that it has to tell.
            self.next.store(NEVER, Ordering::SeqCst);
            drop(alarm);
            let next = self.end_the_late();
            alarm = self.alarm.lock().unwrap_or_else(PoisonError::into_inner);
            if *alarm != Alarm::Asleep {
                continue;
            }
            self.next.store(next, Ordering::SeqCst);
            let wait = match next {
                NEVER => Duration::MAX,
                next => Duration::from_millis(next.saturating_sub(self.now())),
            };
            let woken = self
                .rings
                .wait_timeout_while(alarm, wait, |alarm| *alarm == Alarm::Asleep);
            (alarm, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the thread of deadlines.
    pub(crate) fn stop(&self) {
        self.ring(Alarm::End);
    }

    fn ring(&self, what: Alarm) {
        let mut alarm = self.alarm.lock().unwrap_or_else(PoisonError::into_inner);
        if *alarm != Alarm::End {
            *alarm = what;
        }
        self.rings.notify_one();
    }

    fn now(&self) -> u64 {
        self.epoch.elapsed().as_millis() as u64
    }

    /// Ends whatever is late, and returns the next deadline.
    fn end_the_late(&self) -> u64 {
        let now = self.now();
        let mut next = NEVER;
        for seat in self.all() {
            let deadline = seat.deadline.load(Ordering::SeqCst);
            if deadline > now {
                next = next.min(deadline);
                continue;
            }
            let state = seat.state();
            // The phase may have ended meanwhile, with its deadline.
            if seat.deadline.load(Ordering::SeqCst) != deadline {
                next = next.min(seat.deadline.load(Ordering::SeqCst));
                continue;
            }
            seat.deadline.store(NEVER, Ordering::SeqCst);
            let phase = state.phase;
            drop(state);
            seat.end(match phase {
                Phase::Starting => Cause::NotAuthenticated,
                Phase::IdleInTransaction => Cause::IdleInTransaction,
                Phase::Idle | Phase::Running => Cause::IdleSession,
            });
        }
        next
    }
}

/// The place of a connection among the others, from its beginning to its end.
pub(crate) struct Entry {
    registry: Arc<Registry>,
    pub(crate) seat: Arc<Seat>,
    serial: u64,
}

impl Entry {
    /// Goes to another phase, which may last for `limit`.
    pub(crate) fn enter(&self, phase: Phase, limit: Option<Duration>) {
        let mut state = self.seat.state();
        state.phase = phase;
        self.limit(limit);
    }

    fn limit(&self, limit: Option<Duration>) {
        let deadline = match limit {
            None => NEVER,
            Some(limit) => {
                let millis = u64::try_from(limit.as_millis()).unwrap_or(NEVER);
                self.registry.now().saturating_add(millis).saturating_add(1)
            }
        };
        self.seat.deadline.store(deadline, Ordering::SeqCst);
        if deadline < self.registry.next.load(Ordering::SeqCst) {
            self.registry.ring(Alarm::Look);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.registry.seats().remove(&self.serial);
        self.registry.left.notify_all();
    }
}

/// Compares secrets in a time that does not depend on the place of the first difference.
pub(crate) fn are_equal(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differences) == 0
}
