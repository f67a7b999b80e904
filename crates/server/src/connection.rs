//! One connection, from its first request to its end.
//!
//! ```text
//! request -> session -> results -> answers
//!    ^                                |
//!    +--------- the client <---------+
//! ```
//!
//! Statements of a Query are one transaction, and so are those of the extended protocol up to a
//! Sync, unless they begin or end one. After an error of the extended protocol everything is left
//! out up to the next Sync. A connection ends with its client, with a message that breaks the
//! protocol (08P01), or when others end it (see [`registry`](crate::registry)).

use crate::counts::count;
use crate::encoding::text_of;
use crate::extended::{Failure, Portal};
use crate::link::{Broken, Link};
use crate::message::answers::Severity;
use crate::message::{Formats, Malformed, Request, Status};
use crate::operation::Operation;
use crate::registry::{Cause, Entry, Phase};
use crate::results::{Protocol, Results};
use crate::shared::Slot;
use crate::status::Reported;
use indelible::Database;
use sql::{
    Encoding, RowSink, Session, SqlError, SqlState, TransactionStatus, WakeReason,
    without_constants,
};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A client whose session has begun.
pub(crate) struct Connection {
    pub(crate) link: Link,
    pub(crate) session: Session,
    pub(crate) portals: HashMap<String, Portal>,
    pub(crate) limits: Limits,
    entry: Entry,
    phase: Phase,
    slot: Slot,
    reported: Reported,
    /// Whether requests are left out until the next Sync.
    is_skipping: bool,
    /// Changes of settings when the encoding of texts was read.
    encoded_for: u64,
}

/// Settings of the session that the connection acts on.
pub(crate) struct Limits {
    /// Changes of settings when they were read.
    version: u64,
    idle: Option<Duration>,
    idle_in_transaction: Option<Duration>,
}

impl Limits {
    fn new(session: &Session) -> Self {
        let limit = |name| {
            let millis = session.setting_millis(name).filter(|millis| *millis > 0)?;
            Some(Duration::from_millis(millis))
        };
        Self {
            version: session.settings_version(),
            idle: limit("idle_session_timeout"),
            idle_in_transaction: limit("idle_in_transaction_session_timeout"),
        }
    }
}

impl Connection {
    pub(crate) fn new(
        link: Link,
        session: Session,
        (entry, slot): (Entry, Slot),
        reported: Reported,
    ) -> Self {
        Self {
            limits: Limits::new(&session),
            portals: HashMap::new(),
            is_skipping: false,
            encoded_for: session.settings_version(),
            phase: Phase::Starting,
            link,
            session,
            entry,
            slot,
            reported,
        }
    }

    /// Answers requests until the connection ends.
    pub(crate) fn run(mut self) {
        let begun = Instant::now();
        let done = catch_unwind(AssertUnwindSafe(|| self.answer_all()));
        let log = self.slot.log();
        if log.has_connections() {
            let seconds = begun.elapsed().as_secs();
            let fields = [
                ("session", self.session.number().into()),
                ("seconds", seconds.into()),
            ];
            log.tell("disconnected", &fields);
        }
        let Ok(done) = done else {
            // The panic has been printed. Half a message may have been made.
            self.link.answers.bytes.clear();
            let message = "terminating connection because of an internal error";
            let error = SqlError::new(SqlState::CRASH_SHUTDOWN, message);
            self.link
                .say_last(&error.hint("The transaction was undone; other connections go on."));
            return;
        };
        match (self.entry.seat.ending(), done) {
            // Nothing can follow the half of a message.
            (_, Err(broken @ Broken::Io(_))) | (None, Err(broken)) => self.link.say_broken(&broken),
            (Some(cause), _) => self.link.say_last(&ended(cause)),
            (None, Ok(())) => {}
        }
    }

    fn answer_all(&mut self) -> Result<(), Broken> {
        let mut body = Vec::new();
        self.become_idle()?;
        while self.entry.seat.ending().is_none() && self.answer(&mut body)? {}
        Ok(())
    }

    /// Answers one request; false at the end.
    fn answer(&mut self, body: &mut Vec<u8>) -> Result<bool, Broken> {
        while !self.link.wait()? {
            self.tell_notifications()?;
        }
        let kind = self.link.request(body)?;
        count(&self.slot.counts().requests);
        let request = Request::read(kind, body)?;
        self.follow_encoding();
        if self.is_skipping && !matches!(request, Request::Sync | Request::Terminate) {
            return Ok(true);
        }
        if self.phase != Phase::Running && is_work(&request) {
            self.phase = Phase::Running;
            self.entry.enter(Phase::Running, None);
        }
        let done = match request {
            Request::Query(text) => {
                let begun = Instant::now();
                let done = self.query(text);
                self.took(begun.elapsed());
                return self.end_of_query(done).map(|()| true);
            }
            Request::Sync => {
                self.is_skipping = false;
                let done = self.session.sync().map_err(Failure::from);
                return self.end_of_query(done).map(|()| true);
            }
            Request::Terminate => return Ok(false),
            Request::Parse {
                statement,
                text,
                types,
            } => self.parse(statement, text, &types),
            Request::Bind {
                portal,
                statement,
                formats,
                values,
                results,
            } => self.bind(portal, statement, &formats, &values, results),
            Request::Describe(target, name) => self.describe(target, name),
            Request::Close(target, name) => self.close(target, name),
            Request::Execute { portal, rows_max } => {
                let begun = Instant::now();
                let done = self.execute(portal, rows_max);
                self.took(begun.elapsed());
                done
            }
            Request::Flush => return Ok(self.link.flush().map(|()| true)?),
            // The rest of a COPY that has failed.
            Request::CopyData(_) | Request::CopyDone | Request::CopyFail(_) => Ok(()),
            Request::FunctionCall => {
                let instead = "Call the function by SELECT.";
                let error = SqlError::unsupported("the message FunctionCall", instead);
                return self.end_of_query(Err(error.into())).map(|()| true);
            }
        };
        if let Err(failure) = done {
            self.tell(failure)?;
            self.is_skipping = true;
        }
        self.link.flush_much()?;
        Ok(true)
    }

    /// Converts texts from now on as the session's settings say.
    fn follow_encoding(&mut self) {
        let version = self.session.settings_version();
        if self.encoded_for != version {
            self.encoded_for = version;
            self.link.answers.encoding = encoding_of(&self.session);
        }
    }

    /// Counts a statement that has taken so long, and logs it if it was slow.
    fn took(&self, time: Duration) {
        self.slot.counts().took(time);
        let log = self.slot.log();
        if log.is_slow(time) {
            let text = without_constants(&self.session.shown_text());
            let fields = [
                ("session", self.session.number().into()),
                ("microseconds", (time.as_micros() as u64).into()),
                ("statement", text.into()),
            ];
            log.tell("slow statement", &fields);
        }
    }

    fn query(&mut self, text: &[u8]) -> Result<(), Failure> {
        let text = text_of(text, self.link.answers.encoding)?;
        let text = &*text;
        let report = Operation::read(text).map(|operation| self.operate(&operation?, text));
        let report = report.transpose()?;
        let formats = Formats::default();
        let mut results = Results::new(&mut self.link, Protocol::Simple, &formats);
        let text = report.as_deref().unwrap_or(text);
        let done = self.session.simple(text, &mut results);
        if let Some(broken) = results.broken.take() {
            return Err(broken.into());
        }
        done?;
        if !results.has_ended {
            self.link.answers.empty_query();
        }
        Ok(())
    }

    /// Does something with the whole database; the result is a query for the report.
    fn operate(&mut self, operation: &Operation, text: &str) -> Result<String, SqlError> {
        let is_owner = self.link.socket().peer_user() == Some(self.slot.owner());
        let is_backup = matches!(operation, Operation::Backup { .. });
        if self.session.setting("is_superuser") != Some("on") || (is_backup && !is_owner) {
            let message = "only superusers verify a database, and only the owner of its directory, \
                           over the Unix socket, backs it up";
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        // It waits for all transactions, this one among them.
        if self.session.status() != TransactionStatus::Idle {
            let message = "BACKUP and VERIFY cannot run inside a transaction block";
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        let work = |database: &Database, check: &dyn Fn() -> Result<(), SqlError>| {
            operation.run(database, check)
        };
        self.session.operate(text, work)
    }

    /// Tells how it went, and that the next request can come.
    fn end_of_query(&mut self, done: Result<(), Failure>) -> Result<(), Broken> {
        if let Err(failure) = done {
            self.tell(failure)?;
        }
        self.become_idle()
    }

    fn become_idle(&mut self) -> Result<(), Broken> {
        self.follow_encoding();
        if self.session.settings_version() != self.limits.version {
            self.limits = Limits::new(&self.session);
            self.reported.tell(&self.session, &mut self.link.answers);
        }
        let (status, phase, limit) = match self.session.status() {
            TransactionStatus::Idle => (Status::Idle, Phase::Idle, self.limits.idle),
            open => {
                let is_open = open == TransactionStatus::Open;
                let status = if is_open {
                    Status::Open
                } else {
                    Status::Failed
                };
                let limit = self.limits.idle_in_transaction;
                (status, Phase::IdleInTransaction, limit)
            }
        };
        if status == Status::Idle {
            self.portals.clear();
        }
        self.phase = phase;
        self.entry.enter(phase, limit);
        self.listen()?;
        self.tell_notifications()?;
        self.link.answers.ready(status);
        Ok(())
    }

    /// Lets notifications wake the thread, from the first channel on that the session listens to.
    fn listen(&mut self) -> Result<(), Broken> {
        if self.link.has_waker() || !self.session.is_listening() {
            return Ok(());
        }
        let waker = Arc::clone(self.link.waker()?);
        let seat = Arc::clone(&self.entry.seat);
        self.session.on_wake(Arc::new(move |reason| match reason {
            WakeReason::Notifications => waker.wake(),
            WakeReason::End => seat.end(Cause::Command),
        }));
        Ok(())
    }

    /// Tells the notifications that have come, unless a transaction is open: then they wait for its
    /// end.
    fn tell_notifications(&mut self) -> Result<(), Broken> {
        if self.phase == Phase::Idle && self.link.has_waker() {
            for notification in self.session.take_notifications() {
                self.link.answers.notification(&notification);
                self.link.flush_much()?;
            }
        }
        Ok(())
    }

    /// Tells an error of a statement; passes on one of the connection.
    fn tell(&mut self, failure: Failure) -> Result<(), Broken> {
        let error = match failure {
            Failure::Broken(broken) => return Err(broken),
            Failure::Statement(error) => error,
        };
        // Errors that did not come from the session fail its transaction too.
        self.session.fail();
        let formats = Formats::default();
        let mut results = Results::new(&mut self.link, Protocol::Simple, &formats);
        for notice in self.session.take_notices() {
            // Writing a notice into memory cannot fail.
            let _ = results.notice(&notice);
        }
        let is_ended = [SqlState::QUERY_CANCELED, SqlState::ADMIN_SHUTDOWN].contains(&error.state);
        if is_ended && self.entry.seat.ending().is_some() {
            // The connection ends, and says why at its end.
            return Err(Broken::Gone);
        }
        count(&self.slot.counts().errors);
        self.link.answers.report(Severity::Error, &error);
        Ok(())
    }
}

/// The encoding that a session's client has asked for; none is UTF-8.
pub(crate) fn encoding_of(session: &Session) -> Option<&'static Encoding> {
    session.setting("client_encoding").and_then(Encoding::named)
}

/// Whether the session runs from this request on, until it says that it is ready.
fn is_work(request: &Request<'_>) -> bool {
    !matches!(
        request,
        Request::Terminate
            | Request::Flush
            | Request::CopyData(_)
            | Request::CopyDone
            | Request::CopyFail(_)
    )
}

impl Link {
    /// Says why the connection ends, if the client still listens.
    pub(crate) fn say_last(&mut self, error: &SqlError) {
        self.answers.report(Severity::Fatal, error);
        // The connection ends whether the client hears of it or not.
        let _ = self.flush();
    }

    /// Says that a message was not as the protocol has it; nothing to a client that has gone.
    pub(crate) fn say_broken(&mut self, broken: &Broken) {
        let error = match broken {
            Broken::Gone | Broken::Io(_) => return,
            Broken::Malformed(malformed) => violation(malformed),
            Broken::TooLarge(_) => {
                let error = SqlError::new(SqlState::PROTOCOL_VIOLATION, broken.to_string());
                error.hint("Send less at once, or raise max_message_bytes.")
            }
        };
        self.say_last(&error);
    }
}

fn violation(malformed: &Malformed) -> SqlError {
    SqlError::new(SqlState::PROTOCOL_VIOLATION, malformed.to_string())
}

/// The error of a connection that others have ended.
pub(crate) fn ended(cause: Cause) -> SqlError {
    let (state, message) = match cause {
        Cause::IdleInTransaction => (
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            "terminating connection due to idle-in-transaction timeout",
        ),
        Cause::IdleSession => (
            SqlState::IDLE_SESSION_TIMEOUT,
            "terminating connection due to idle-session timeout",
        ),
        Cause::Command => (
            SqlState::ADMIN_SHUTDOWN,
            "terminating connection due to administrator command",
        ),
        Cause::NotAuthenticated => (
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            "canceling authentication due to timeout",
        ),
    };
    SqlError::new(state, message)
}
