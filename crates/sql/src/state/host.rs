//! Functions that need the session: settings, sequences, the catalogue, locks.
//!
//! They are named by the table of functions, and find the connection, the catalogue and the
//! settings in the session that calls them.

use super::environment::HostState;
use crate::catalog::{Body, Names, Oid, Privilege, READ_ALL_SETTINGS, SequenceBody};
use crate::error::{Result, SqlError, SqlState};
use crate::types::array::Array;
use crate::types::{Context, Datum, Host, Kind};
use indelible::{AdvisoryKey, AdvisoryMode, Connection, Scope, Wait};
use sql_bind::SessionNames;
use sql_values::setting::{is_hidden, isolation_named, shown_value};
use std::env::consts::{ARCH, OS};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The session, lent to one call.
pub(crate) struct HostCall<'h> {
    pub(crate) connection: &'h mut Connection,
    pub(crate) session: &'h mut HostState,
    pub(crate) names: &'h SessionNames,
}

impl Host for HostCall<'_> {
    fn call(
        &mut self,
        context: &Context<'_>,
        function: &'static str,
        arguments: &[Datum],
    ) -> Result<Datum> {
        match function {
            "nextval" => self.nextval(&arguments[0], &[Privilege::Usage, Privilege::Update]),
            // An INSERT needs rights on the table alone.
            "\0nextval" => self.nextval(&arguments[0], &[]),
            "currval" => self.currval(&arguments[0]),
            "lastval" => self.lastval(),
            "setval" => self.setval(arguments),
            "pg_sequence_last_value" => self.last_value(&arguments[0]),
            "\0sequence_state" => self.sequence_state(&arguments[0]),
            "\0ctid" => self.row_place(arguments),
            "\0ctid_key" => self.key_of_place(arguments),
            "pg_backend_pid" => Ok(Datum::Int4(self.session.peer.number)),
            "set_config" => self.set_setting(context, arguments),
            "current_schemas" => Ok(self.schema_names(arguments[0].bool()?)),
            "pg_sleep" => self.sleep(arguments[0].float8()?),
            "pg_sleep_for" => self.sleep(match &arguments[0] {
                Datum::Interval(time) => time.span() as f64 / 1e6,
                _ => 0.0,
            }),
            "pg_advisory_unlock_all" => {
                self.connection.advisory_unlock_all();
                Ok(Datum::text(""))
            }
            "pg_notify" => self.notify(arguments),
            _ if function.contains("advisory") => self.advisory(function, arguments),
            "current_setting" => self.setting(arguments),
            "current_schema" => Ok(self
                .schemas()
                .into_iter()
                .next()
                .map_or(Datum::Null, Datum::text)),
            "current_database" | "current_catalog" => {
                Ok(Datum::text(self.session.database.as_str()))
            }
            "current_user" | "user" | "current_role" => self.own_role_name(self.names.role),
            "session_user" => self.own_role_name(self.session.session_role),
            // Some clients cut the text after ` on `.
            "version" => Ok(Datum::text(format!(
                "PostgreSQL 15.0 (Indelible {}) on {ARCH}-{OS}, {}-bit",
                env!("CARGO_PKG_VERSION"),
                usize::BITS
            ))),
            "pg_cancel_backend" | "pg_terminate_backend" => {
                let number = arguments[0].int4()?;
                if self.session.sql.registry.peer(number).is_none() {
                    let message = format!("PID {number} is not a PostgreSQL backend process");
                    self.session.warning(SqlState::WARNING, message);
                }
                self.about(context, function, arguments)
            }
            "pg_get_userbyid" => Ok(self.role_name(&arguments[0])),
            _ => self.about(context, function, arguments),
        }
    }
}

impl HostCall<'_> {
    /// Functions that tell about objects, privileges and the server.
    fn about(&self, context: &Context<'_>, function: &str, arguments: &[Datum]) -> Result<Datum> {
        if let Some(found) = self.describe(context, function, arguments)? {
            return Ok(found);
        }
        if let Some(found) = self.privilege(context, function, arguments)? {
            return Ok(found);
        }
        if let Some(found) = self.monitor(function, arguments)? {
            return Ok(found);
        }
        let found = self.activity(function, arguments)?;
        found.ok_or_else(|| SqlError::internal(format!("function {function} has no code")))
    }

    /// The place of a row of a table with a key.
    fn row_place(&mut self, arguments: &[Datum]) -> Result<Datum> {
        let [Datum::Oid(table), key @ ..] = arguments else {
            return Err(SqlError::internal("a place is one of a table"));
        };
        let place = self.session.row_places.place(*table, key)?;
        Ok(Datum::Tid(place))
    }

    /// The key of a place in a table, or the keys of an array of places.
    fn key_of_place(&self, arguments: &[Datum]) -> Result<Datum> {
        let places = &self.session.row_places;
        match arguments {
            [Datum::Oid(table), Datum::Array(array)] => {
                let mut keys = Array::clone(array);
                keys.element = Kind::Int8;
                for key in &mut keys.elements {
                    *key = places.key_of(*table, key);
                }
                Ok(Datum::Array(Arc::new(keys)))
            }
            [Datum::Oid(table), place] => Ok(places.key_of(*table, place)),
            _ => Err(SqlError::internal("a place is one of a table")),
        }
    }

    /// The name of a role; a number that none has is shown.
    fn role_name(&self, oid: &Datum) -> Datum {
        match oid {
            Datum::Oid(oid) => match self.names.catalog.role_name(*oid) {
                Some(name) => Datum::text(name),
                None => Datum::text(format!("unknown (OID={oid})")),
            },
            _ => Datum::Null,
        }
    }

    /// The name of a role that the session acts as; another one may have dropped it.
    fn own_role_name(&self, role: Oid) -> Result<Datum> {
        let name = self.names.catalog.role_name(role);
        name.map(Datum::text).ok_or_else(|| {
            let message = format!("invalid role OID: {role}");
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })
    }

    fn schemas(&self) -> Vec<String> {
        let names = self.names.search_path.iter();
        names
            .filter(|name| self.names.catalog.schema(name).is_some())
            .cloned()
            .collect()
    }

    /// The sequence of a number of the catalogue or of a name.
    fn sequence(&self, argument: &Datum) -> Result<(u32, String, SequenceBody)> {
        let object = match argument {
            Datum::Oid(oid) => self.names.catalog.object(*oid),
            name => self.names.find(Names::Relations, None, name.str()?),
        };
        match object.map(|object| (object, &object.body)) {
            Some((object, Body::Sequence(sequence))) => {
                Ok((object.oid, object.name.clone(), sequence.clone()))
            }
            Some((object, _)) => {
                let message = format!("\"{}\" is not a sequence", object.name);
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
            None => {
                let message = "relation does not exist";
                Err(SqlError::new(SqlState::UNDEFINED_TABLE, message))
            }
        }
    }

    /// Fails unless the session's role has one of some privileges on a sequence.
    fn check_sequence(&self, oid: u32, privileges: &[Privilege]) -> Result<()> {
        let Some(object) = self.names.catalog.object(oid) else {
            return Ok(());
        };
        let bits = privileges.iter().map(|privilege| privilege.bit()).sum();
        self.names.check(self.names.role, object, bits)
    }

    /// The next number of a sequence, for a role with one of some privileges on it, if there are
    /// any.
    fn nextval(&mut self, argument: &Datum, privileges: &[Privilege]) -> Result<Datum> {
        let (oid, name, sequence) = self.sequence(argument)?;
        if !privileges.is_empty() {
            self.check_sequence(oid, privileges)?;
        }
        self.check_changes(oid, "nextval()")?;
        let sql = &self.session.sql;
        let number = sql
            .sequences
            .next(sql.database(), (oid, &name), &sequence)?;
        self.session.sequences.current.insert(oid, number);
        self.session.sequences.last = Some((oid, number));
        Ok(Datum::Int8(number))
    }

    fn currval(&mut self, argument: &Datum) -> Result<Datum> {
        let (oid, name, _) = self.sequence(argument)?;
        self.check_sequence(oid, &[Privilege::Usage, Privilege::Select])?;
        let number = self.session.sequences.current.get(&oid).copied();
        number.map(Datum::Int8).ok_or_else(|| {
            let message =
                format!("currval of sequence \"{name}\" is not yet defined in this session");
            SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        })
    }

    fn lastval(&mut self) -> Result<Datum> {
        let last = self.session.sequences.last;
        // A sequence that was dropped has no last number.
        let last = last.filter(|(oid, _)| self.names.catalog.object(*oid).is_some());
        let Some((oid, number)) = last else {
            let message = "lastval is not yet defined in this session";
            let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
            return Err(SqlError::new(state, message));
        };
        self.check_sequence(oid, &[Privilege::Usage, Privilege::Select])?;
        Ok(Datum::Int8(number))
    }

    /// Fails if the transaction must not change an object that is not temporary.
    fn check_changes(&self, oid: Oid, command: &str) -> Result<()> {
        let object = self.names.catalog.object(oid);
        let is_temporary = object.is_some_and(|one| Some(one.namespace) == self.names.temporary);
        let only_reads = self
            .session
            .modes
            .contains(&("transaction_read_only", "on"));
        if only_reads && !is_temporary {
            let message = format!("cannot execute {command} in a read-only transaction");
            return Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message));
        }
        Ok(())
    }

    fn setval(&mut self, arguments: &[Datum]) -> Result<Datum> {
        let (oid, _, sequence) = self.sequence(&arguments[0])?;
        self.check_sequence(oid, &[Privilege::Update])?;
        self.check_changes(oid, "setval()")?;
        let number = arguments[1].int()?;
        let is_called = arguments.get(2).map_or(Ok(true), Datum::bool)?;
        let sql = &self.session.sql;
        sql.sequences
            .set(sql.database(), oid, &sequence, number, is_called)?;
        if is_called {
            self.session.sequences.current.insert(oid, number);
            if let Some((last, last_number)) = &mut self.session.sequences.last
                && *last == oid
            {
                *last_number = number;
            }
        }
        Ok(Datum::Int8(number))
    }

    fn last_value(&mut self, argument: &Datum) -> Result<Datum> {
        let (oid, _, sequence) = self.sequence(argument)?;
        self.check_sequence(oid, &[Privilege::Usage, Privilege::Select])?;
        let sql = &self.session.sql;
        let state = sql.sequences.state(sql.database(), oid, &sequence)?;
        Ok(match state.is_called {
            true => Datum::Int8(state.last),
            false => Datum::Null,
        })
    }

    /// What the row of a sequence shows: the last number, those in reserve, whether it was called.
    fn sequence_state(&mut self, argument: &Datum) -> Result<Datum> {
        let (oid, _, sequence) = self.sequence(argument)?;
        let sql = &self.session.sql;
        let state = sql.sequences.state(sql.database(), oid, &sequence)?;
        let parts = [state.last, state.reserved, i64::from(state.is_called)];
        let parts = parts.map(Datum::Int8).to_vec();
        Ok(Datum::Array(Arc::new(Array::new(Kind::Int8, parts))))
    }

    /// Functions that follow see the new value. The session takes it over after the statement.
    fn set_setting(&mut self, context: &Context<'_>, arguments: &[Datum]) -> Result<Datum> {
        let (name, value) = (arguments[0].str()?, arguments[1].str()?);
        let is_local = arguments[2].bool()?;
        let session = &mut *self.session;
        let mut shown = value.to_owned();
        let mut modes = session.modes.iter_mut();
        let roles = ["role", "session_authorization"];
        if let Some((mode, known)) = modes.find(|(mode, _)| mode.eq_ignore_ascii_case(name)) {
            shown = shown_value(mode, value)?;
            let switch = if shown == "on" { "on" } else { "off" };
            *known = isolation_named(&shown).map_or(switch, |(_, isolation)| isolation);
        } else if roles.iter().all(|role| !role.eq_ignore_ascii_case(name)) {
            // Privileges are those of one role from the begin of the statement to its end.
            let mut settings = context.settings.clone();
            let variables = &mut session.variables;
            variables.keep(name, is_local);
            variables.set(&mut settings, name, Some(value))?;
            variables
                .get(name)
                .unwrap_or_default()
                .clone_into(&mut shown);
        }
        let change = (name.to_owned(), value.to_owned(), is_local);
        session.changes.push(change);
        Ok(Datum::text(shown))
    }

    fn schema_names(&self, with_implicit: bool) -> Datum {
        let implicit = with_implicit.then(|| "pg_catalog".to_owned());
        let names = implicit.into_iter().chain(self.schemas()).map(Datum::text);
        Datum::Array(Arc::new(Array::new(Kind::Name, names.collect())))
    }

    /// Sleeps in short parts, so that an interrupt ends it.
    fn sleep(&self, seconds: f64) -> Result<Datum> {
        const PART: Duration = Duration::from_millis(20);
        let end = Duration::try_from_secs_f64(seconds.max(0.0)).ok();
        let end = end.and_then(|time| Instant::now().checked_add(time));
        let interrupt = self.connection.interrupt();
        while end.is_none_or(|end| Instant::now() < end) {
            if interrupt.is_raised() {
                return Err(self.session.peer.stopped());
            }
            self.session.check_deadline()?;
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            std::thread::sleep(left.map_or(PART, |left| left.min(PART)));
        }
        Ok(Datum::text(""))
    }

    fn advisory(&mut self, function: &str, arguments: &[Datum]) -> Result<Datum> {
        let key = match arguments {
            [one] => AdvisoryKey::One(one.int()?),
            [one, other] => AdvisoryKey::Two(one.int4()?, other.int4()?),
            _ => return Err(SqlError::internal("an advisory lock has one key or two")),
        };
        let mode = if function.ends_with("_shared") {
            AdvisoryMode::Shared
        } else {
            AdvisoryMode::Exclusive
        };
        if function.starts_with("pg_advisory_unlock") {
            let is_held = self.connection.advisory_unlock(key, mode);
            if !is_held {
                let kind = match mode {
                    AdvisoryMode::Shared => "ShareLock",
                    AdvisoryMode::Exclusive => "ExclusiveLock",
                };
                let message = format!("you don't own a lock of type {kind}");
                self.session.warning(SqlState::WARNING, message);
            }
            return Ok(Datum::Bool(is_held));
        }
        let scope = if function.contains("_xact_") {
            Scope::Transaction
        } else {
            Scope::Connection
        };
        let is_try = function.starts_with("pg_try_");
        let wait = if is_try {
            Wait::Never
        } else {
            self.session.wait()
        };
        let locked = self.connection.advisory_lock(key, mode, scope, wait)?;
        Ok(if is_try {
            Datum::Bool(locked)
        } else {
            Datum::text("")
        })
    }

    /// A notification without a text has an empty one.
    fn notify(&mut self, arguments: &[Datum]) -> Result<Datum> {
        let text = |at: usize| match &arguments[at] {
            Datum::Null => Ok(""),
            text => text.str(),
        };
        let sender = self.session.peer.number;
        self.session.announced.notify(sender, text(0)?, text(1)?)?;
        Ok(Datum::text(""))
    }

    fn setting(&mut self, arguments: &[Datum]) -> Result<Datum> {
        let name = arguments[0].str()?;
        let may_miss = arguments.get(1).map_or(Ok(false), Datum::bool)?;
        may_see(self.names, name)?;
        let mut modes = self.session.modes.iter();
        if let Some((_, value)) = modes.find(|(mode, _)| mode.eq_ignore_ascii_case(name)) {
            return Ok(Datum::text(*value));
        }
        match self.session.variables.get(name) {
            Some(value) => Ok(Datum::text(value)),
            None if may_miss => Ok(Datum::Null),
            None => Err(super::unknown_setting(name)),
        }
    }
}

/// Fails unless the session's role may see a setting.
pub(crate) fn may_see(names: &SessionNames, setting: &str) -> Result<()> {
    if !is_hidden(setting) || names.catalog.has_rights_of(names.role, READ_ALL_SETTINGS) {
        return Ok(());
    }
    let message = format!(
        "must be superuser or have privileges of pg_read_all_settings to examine \"{setting}\""
    );
    Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
}
