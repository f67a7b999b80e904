//! A session: one client, its transaction, and the statements that it sends.
//!
//! | module | job |
//! |---|---|
//! | `block` | `DO`: statements with handlers of exceptions |
//! | `cached` | statements that run by a plan of the cache |
//! | `constraints` | checks that wait for the end of the transaction |
//! | `control` | the begin and the end of transactions, savepoints, failed blocks |
//! | `cursor` | cursors and prepared statements of the language |
//! | `copy` | rows between a table and the client |
//! | `deep` | statements that nest deeply, on a large stack |
//! | `describe` | types of a statement before it is prepared |
//! | `newest` | the catalogue after a wait for a lock |
//! | `execute` | one statement: plans that run, and everything else |
//! | `explain` | plans, and what running them has cost |
//! | `extended` | prepared statements and portals |
//! | `portal` | portals that have rows left, or none any more |
//! | `settings` | `SET`, `SHOW` and their kin |
//! | `statistics` | statements as `pg_stat_statements` counts them |
//! | `two_phase` | transactions that are prepared, and committed or undone by name |
//!
//! Statements that are sent together are one transaction, unless they say otherwise. A statement
//! that fails is undone alone; the block around it has failed then, and answers nothing but its
//! end.

mod block;
mod cached;
mod connect;
mod constraints;
mod control;
mod copy;
mod cursor;
mod deep;
mod describe;
mod execute;
mod explain;
mod extended;
mod newest;
mod portal;
mod settings;
mod statistics;
mod two_phase;

pub use describe::Description;
pub use extended::{Described, Parameters};
pub(crate) use settings::shown_name;

use crate::catalog::{Body, Catalog, Oid};
use crate::error::Result;
use crate::run::PointMemory;
use crate::sink::RowSink;
use crate::sql::Sql;
use crate::state::{
    Announced, Block, Deferred, Drops, Environment, HostState, Notice, Notification, Portal,
    PreparedStatements, RowPlaces, SessionNames, SessionSequences, ShownEncryption, Transaction,
    TransactionStatus, Undo, Variables, Wake, millis_of,
};
use crate::types::random::Random;
use crate::types::{Datum, Settings, Type};
use indelible::{CommitReport, Connection, Database, Interrupt};
use sql_parse::{Fingerprint, parse};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// One client of a database: a transaction at a time, prepared statements, cursors and settings.
///
/// A session may move between threads. Dropping it undoes an open transaction.
pub struct Session {
    pub(crate) sql: Arc<Sql>,
    pub(crate) connection: Connection,
    pub(crate) environment: Environment,
    pub(crate) transaction: Transaction,
    prepared: PreparedStatements,
    portals: HashMap<String, Portal>,
    /// The memory of a portal that has ended.
    spare_portal: Portal,
    /// Types and values of the parameters of a statement whose plan is that of one inside it.
    outer: (Vec<Option<Type>>, Vec<Datum>),
    cursors: HashMap<String, cursor::Cursor>,
    /// Temporary tables that do not outlive a transaction, and whether they go with it or lose
    /// their rows.
    pub(crate) on_commit: Vec<(Oid, bool)>,
    last_commit: Option<CommitReport>,
    point: PointMemory,
    /// Whether the statement was sent alone, so that its transaction ends with it.
    is_alone: bool,
    /// Objects that are being dropped.
    pub(crate) drops: Drops,
    /// Whether it was sent in one text with others.
    pub(crate) is_together: bool,
    /// The fingerprint of the statement, whose memory the next one uses.
    fingerprint: Fingerprint,
    /// The settings that plans are made under, and the version of them all.
    settings_key: (u64, Arc<str>),
    /// The portal that has run, and is not counted yet.
    ran: Option<statistics::Ran>,
}

impl Drop for Session {
    /// Temporary objects go with their session; if that fails, with the next opening.
    fn drop(&mut self) {
        self.abort();
        self.sql.registry.remove(&self.environment.host.peer);
        let Some(temporary) = self.environment.names.temporary else {
            return;
        };
        let mut shared = self.sql.catalog_to_replace();
        let objects = Arc::make_mut(&mut shared).remove_schema(temporary);
        drop(shared);
        for object in objects {
            if let Body::Table(table) = &object.body {
                let _ = self.sql.database().drop_table(&table.physical);
            }
        }
    }
}

impl Session {
    pub(crate) fn new(sql: &Arc<Sql>, number: i32, role: u32) -> Result<Self> {
        let mut connection = sql.database().connect()?;
        connection.set_unchecked(true);
        let interrupt = connection.interrupt();
        let moment = crate::state::now();
        let peer = sql.registry.add(number, &connection);
        peer.show(|shown| shown.role = role);
        let mut session = Self {
            environment: Environment {
                settings: Settings::default(),
                names: SessionNames {
                    role,
                    ..SessionNames::new(sql.catalog())
                },
                transaction_start: moment,
                statement_start: moment,
                text_start: None,
                random: Random::default(),
                interrupt,
                host: HostState {
                    sql: Arc::clone(sql),
                    variables: Variables::default(),
                    sequences: SessionSequences::default(),
                    row_places: RowPlaces::default(),
                    notices: Vec::new(),
                    cascades: Vec::new(),
                    changes: Vec::new(),
                    deadline: None,
                    database: crate::catalog::OWNER_NAME.to_owned(),
                    own_database: crate::catalog::OWNER_NAME.to_owned(),
                    login_role: role,
                    session_role: role,
                    session_roles: Undo::default(),
                    set_role: None,
                    set_roles: Undo::default(),
                    disabled: Arc::default(),
                    disabled_before: Undo::default(),
                    peer,
                    announced: Announced::default(),
                    deferred: Deferred::default(),
                    new_tables: Vec::new(),
                    own_tables: Vec::new(),
                    modes: Transaction::idle().shown(),
                    transaction: 0,
                    files: Arc::default(),
                    cursors: BTreeMap::new(),
                    statements: BTreeMap::new(),
                },
            },
            connection,
            transaction: Transaction::idle(),
            prepared: PreparedStatements::default(),
            portals: HashMap::new(),
            spare_portal: Portal::default(),
            outer: Default::default(),
            last_commit: None,
            cursors: HashMap::new(),
            on_commit: Vec::new(),
            point: PointMemory::default(),
            is_alone: false,
            drops: Drops::default(),
            is_together: false,
            fingerprint: Fingerprint::default(),
            settings_key: (0, "".into()),
            ran: None,
            sql: Arc::clone(sql),
        };
        session.apply_role();
        Ok(session)
    }

    /// Runs the statements of a text, one after the other. Together they are one transaction,
    /// unless one of them begins or ends one; it is committed when the last one has succeeded.
    ///
    /// # Errors
    ///
    /// The error of the first statement that fails: those after it do not run, and those before it
    /// are undone with it, unless a transaction block was open. Then the block has failed.
    pub fn simple(&mut self, text: &str, sink: &mut dyn RowSink) -> Result<()> {
        self.begin_text(text)?;
        let result = self.run_text(text, sink);
        self.end_text();
        result
    }

    fn run_text(&mut self, text: &str, sink: &mut dyn RowSink) -> Result<()> {
        let watch = self.watch();
        if let Some(completion) = self.run_cached(text, sink)? {
            self.spare_unnamed_portal();
            self.end_implicit()?;
            sink.complete(&completion)?;
            let shape = Some(self.fingerprint.shape());
            self.count(shape, text, completion.rows, &watch);
            return Ok(());
        }
        let parsed = match parse(text) {
            Ok(parsed) => parsed,
            Err(error) => {
                self.fail();
                return Err(error);
            }
        };
        self.spare_unnamed_portal();
        self.is_alone = parsed.len() == 1;
        self.is_together = parsed.len() > 1;
        for (place, statement) in (1..).zip(&parsed) {
            let watch = self.watch();
            let completion = self.with_stack(statement.is_deep, sink, |session, sink| {
                session.statement(statement, sink)
            })?;
            for notice in self.take_notices() {
                sink.notice(&notice)?;
            }
            // A statement is complete when its transaction has committed.
            if place == parsed.len() {
                self.end_implicit()?;
            }
            sink.complete(&completion)?;
            let Some(counted) = self.counted_as(statement) else {
                continue;
            };
            let is_other = !Arc::ptr_eq(&counted, &statement.text);
            let is_whole = self.is_alone || statement.own.is_some() || statement.is_deep;
            let text = if is_other || is_whole {
                Cow::from(&*counted)
            } else {
                Cow::from(statement.statement.to_string())
            };
            self.count(None, &text, completion.rows, &watch);
        }
        self.end_implicit()
    }

    /// Others see that the session runs a statement.
    fn begin_text(&mut self, text: &str) -> Result<()> {
        self.environment.host.peer.forget_interrupts();
        self.go_on_with_text(text)
    }

    /// As [`Session::begin_text`], where the statement has begun before: an interrupt since its
    /// last rows ends it.
    fn go_on_with_text(&mut self, text: &str) -> Result<()> {
        self.count_noted(Duration::ZERO);
        let moment = self.environment.host.peer.begin(text)?;
        self.environment.text_start = Some(moment);
        Ok(())
    }

    /// Others see that the session waits for its client.
    fn end_text(&mut self) {
        self.end_text_at(crate::state::now());
    }

    fn end_text_at(&mut self, moment: i64) {
        self.pause_text_at(moment);
        self.environment.host.peer.forget_interrupts();
    }

    /// As [`Session::end_text`], where the statement has more rows, and may be interrupted.
    fn pause_text(&mut self) {
        self.pause_text_at(crate::state::now());
    }

    fn pause_text_at(&mut self, moment: i64) {
        let environment = &mut self.environment;
        environment.text_start = None;
        let begun_at = environment.transaction_start;
        let peer = &environment.host.peer;
        peer.end(self.transaction.block, begun_at, moment);
    }

    /// Does work with the whole database as a statement: others see its text, and the work asks the
    /// function that it gets whether it is to end.
    pub fn operate<R>(
        &mut self,
        text: &str,
        work: impl FnOnce(&Database, &dyn Fn() -> Result<()>) -> Result<R>,
    ) -> Result<R> {
        self.begin_text(text)?;
        self.environment.host.begin_statement();
        let (interrupt, host) = (&self.environment.interrupt, &self.environment.host);
        let check = || {
            if interrupt.is_raised() {
                return Err(host.peer.stopped());
            }
            host.check_deadline()
        };
        let result = work(self.sql.database(), &check);
        self.environment.host.end_statement();
        self.end_text();
        result
    }

    /// The statement that runs or ran last, as others see it: at most its first KiB.
    pub fn shown_text(&self) -> String {
        self.environment.host.peer.shown().text
    }

    /// Whether the session listens to any channel, so that notifications may come.
    pub fn is_listening(&self) -> bool {
        self.environment.host.peer.is_listening()
    }

    /// Takes the notifications that have come. Between transactions, clients are told of them.
    pub fn take_notifications(&mut self) -> Vec<Notification> {
        self.environment.host.peer.take_notifications()
    }

    /// Sets the function that is called, from another thread, when there are notifications, or the
    /// session is to end: it wakes the thread that waits for the client.
    pub fn on_wake(&mut self, wake: Wake) {
        self.environment.host.peer.set_wake(wake);
    }

    /// Whether [`Sql::terminate`] or `pg_terminate_backend` has asked for the end of the session.
    pub fn is_terminated(&self) -> bool {
        self.environment.host.peer.is_terminated()
    }

    /// Sets the name by which the client knows the database; `current_database()` returns it, and
    /// `pg_database` has it beside the database's own name.
    pub fn set_database(&mut self, name: &str) {
        name.clone_into(&mut self.environment.host.database);
    }

    /// Sets the database's own name.
    pub fn set_own_database(&mut self, name: &str) {
        name.clone_into(&mut self.environment.host.own_database);
    }

    /// Says where the session's client is, for `pg_stat_activity`.
    pub fn set_client(&mut self, address: &str, port: u16) {
        let client = Some((address.to_owned(), port));
        self.environment
            .host
            .peer
            .show(|shown| shown.client = client);
    }

    /// Says where the client has reached the server, for `inet_server_addr()`.
    pub fn set_server(&mut self, address: &str, port: u16) {
        let server = Some((address.to_owned(), port));
        let peer = &self.environment.host.peer;
        peer.show(|shown| shown.server = server);
    }

    /// Says how the session's connection is encrypted, for `pg_stat_ssl`.
    pub fn set_encryption(&mut self, encryption: ShownEncryption) {
        let peer = &self.environment.host.peer;
        peer.show(|shown| shown.encryption = Some(encryption));
    }

    /// The state of the transaction.
    pub fn status(&self) -> TransactionStatus {
        match self.transaction.block {
            Block::Idle | Block::Implicit => TransactionStatus::Idle,
            Block::Open => TransactionStatus::Open,
            Block::Failed => TransactionStatus::Failed,
        }
    }

    /// Ends the session's statement from any thread, while it is raised. A commit is not
    /// interrupted. The end of the statement clears it.
    pub fn interrupt(&self) -> Interrupt {
        self.environment.interrupt.clone()
    }

    /// Takes the notices that no sink has got: those of portals, and of statements that failed.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.environment.host.notices)
    }

    /// Cost of the last commit: fences, lines and bytes.
    pub fn last_commit(&self) -> Option<&CommitReport> {
        self.last_commit.as_ref()
    }

    /// The number of the session, unique in the open database.
    pub fn number(&self) -> i32 {
        self.environment.host.peer.number
    }

    /// The value of a setting, such as `timezone`.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.environment.host.variables.get(name)
    }

    /// The milliseconds of a setting that is a time.
    pub fn setting_millis(&self, name: &str) -> Option<u64> {
        self.setting(name).and_then(millis_of)
    }

    /// Counts changes of settings.
    pub fn settings_version(&self) -> u64 {
        self.environment.host.variables.version
    }

    /// Gives a setting a value, as `SET` does.
    ///
    /// # Errors
    ///
    /// A setting that does not exist or cannot be changed; a value that it cannot have.
    pub fn set_setting(&mut self, name: &str, value: &str) -> Result<()> {
        self.set_variable(name, Some(value), false)
    }

    /// Gives a setting the value that the session begins with, and that `RESET` goes back to,
    /// whatever the session's role may: [`Session::may_set`] asks that.
    ///
    /// # Errors
    ///
    /// Those of [`Session::set_setting`].
    pub fn begin_with_setting(&mut self, name: &str, value: &str) -> Result<()> {
        self.give_variable(name, Some(value), false)?;
        self.environment.host.variables.begin_with(name);
        Ok(())
    }

    /// The surroundings in which values are printed and read: settings and names of the session.
    pub fn context(&self) -> crate::types::Context<'_> {
        self.environment.context()
    }

    /// The state that all sessions of the database share.
    pub fn sql(&self) -> &Arc<Sql> {
        &self.sql
    }

    /// The catalogue as the session sees it.
    pub(crate) fn catalog(&self) -> &Arc<Catalog> {
        &self.environment.names.catalog
    }
}
