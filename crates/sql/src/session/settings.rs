//! `SET`, `SHOW` and `RESET`.
//!
//! Names and values are checked where they are kept; here they are read from statements, and their
//! effects on names and transactions are applied.

use super::Session;
use crate::catalog::OWNER;
use crate::error::{Result, SqlError, SqlState};
use crate::sink::{Batch, Completion, OutputColumn, RowSink};
use crate::state::{Listen, Transaction, may_see, parts_of, quoted, unknown_setting};
use crate::types::{Context, Datum, Kind};
use sql_parse::{Parsed, ident_text};
use sql_values::setting::is_operators;
use sqlparser::ast::{
    ContextModifier, Expr, Ident, ObjectName, Reset, Set, SetSessionAuthorizationParamKind,
    Statement, UnaryOperator, Value,
};
use std::sync::Arc;

impl Session {
    /// Runs a statement about settings.
    pub(super) fn setting_statement(
        &mut self,
        statement: &Statement,
        sink: &mut dyn RowSink,
    ) -> Result<Completion> {
        match statement {
            Statement::Set(set) => self.set(set),
            Statement::ShowVariable { variable } => self.show(&asked_name(variable), sink),
            Statement::Reset(reset) => {
                match &reset.reset {
                    Reset::ALL => self.reset_all(),
                    Reset::SessionAuthorization => {
                        self.set_session_role(None, false)?;
                    }
                    Reset::ConfigurationParameter(name) => {
                        self.set_variable(&setting_name(name), None, false)?;
                    }
                }
                Ok(Completion::new("RESET"))
            }
            _ => Err(SqlError::internal("a statement about settings")),
        }
    }

    /// Forgets what the session has kept, but its temporary objects: settings, prepared statements,
    /// portals and all cursors.
    pub(crate) fn reset_everything(&mut self) -> Result<()> {
        self.set_session_role(None, false)?;
        self.reset_all();
        self.prepared.clear();
        self.environment.host.statements.clear();
        self.drop_portals();
        self.drop_cursors();
        self.environment.host.sequences = crate::state::SessionSequences::default();
        self.connection.advisory_unlock_all();
        self.environment.host.disabled = Arc::default();
        self.environment.host.announced.listens.push(Listen::EndAll);
        Ok(())
    }

    /// Sets all settings to their defaults.
    pub(super) fn reset_all(&mut self) {
        let environment = &mut self.environment;
        environment.host.variables.reset(&mut environment.settings);
        self.show_application();
        self.apply_role();
    }

    /// Undoes the changes of settings since a level of the transaction has begun.
    pub(super) fn undo_settings(&mut self, level: usize) {
        let environment = &mut self.environment;
        let host = &mut environment.host;
        let (role, set_role) = (host.session_roles.undo(level), host.set_roles.undo(level));
        let has_roles = role.is_some() || set_role.is_some();
        host.session_role = role.unwrap_or(host.session_role);
        host.set_role = set_role.unwrap_or(host.set_role);
        let disabled = host.disabled_before.undo(level);
        host.disabled = disabled.unwrap_or_else(|| Arc::clone(&host.disabled));
        let has_any = host.variables.undo(&mut environment.settings, level);
        self.apply_restored(has_any || has_roles);
    }

    /// Makes the changes of settings since higher levels have begun those of this one.
    pub(super) fn release_settings(&mut self, level: usize) {
        let host = &mut self.environment.host;
        host.session_roles.release(level);
        host.set_roles.release(level);
        host.disabled_before.release(level);
        host.variables.release(level);
        host.variables.enter(level);
    }

    /// Ends the changes of settings with their transaction: those that are for it only, and all
    /// unless it has committed.
    pub(super) fn end_settings(&mut self, has_committed: bool) {
        if !has_committed {
            return self.undo_settings(1);
        }
        let environment = &mut self.environment;
        let host = &mut environment.host;
        let (role, set_role) = (host.session_roles.commit(), host.set_roles.commit());
        let has_roles = role.is_some() || set_role.is_some();
        host.session_role = role.unwrap_or(host.session_role);
        host.set_role = set_role.unwrap_or(host.set_role);
        host.disabled_before.commit();
        let has_any = host.variables.commit(&mut environment.settings);
        self.apply_restored(has_any || has_roles);
    }

    /// Lets settings and roles take effect, if any has got an earlier value back.
    fn apply_restored(&mut self, has_any: bool) {
        if has_any {
            self.show_application();
            self.apply_role();
        }
    }

    fn set(&mut self, set: &Set) -> Result<Completion> {
        match set {
            Set::SingleAssignment {
                scope,
                variable,
                values,
                ..
            } => {
                let is_local = self.is_local(*scope == Some(ContextModifier::Local));
                self.set_values(&setting_name(variable), values, is_local)?;
            }
            Set::SetTimeZone { local, value } => {
                let is_local = self.is_local(*local);
                self.set_values("timezone", std::slice::from_ref(value), is_local)?;
            }
            Set::SetNames { charset_name, .. } => {
                self.set_variable("client_encoding", Some(&charset_name.value), false)?;
            }
            Set::SetTransaction {
                modes,
                session: false,
                snapshot: None,
            } => {
                self.warn_outside_block("SET TRANSACTION");
                if self.is_in_block() {
                    self.set_modes(modes)?;
                }
            }
            Set::SetTransaction {
                modes,
                session: true,
                ..
            } => self.set_default_modes(modes)?,
            Set::SetRole {
                context_modifier,
                role_name,
            } => {
                let is_local = self.is_local(*context_modifier == Some(ContextModifier::Local));
                let name = role_name.as_ref().map(ident_text);
                self.set_variable("role", name.as_deref(), is_local)?;
            }
            Set::SetSessionAuthorization(authorization) => {
                let name = match &authorization.kind {
                    SetSessionAuthorizationParamKind::Default => None,
                    SetSessionAuthorizationParamKind::User(name) => Some(ident_text(name)),
                };
                self.set_session_role(name.as_deref(), false)?;
            }
            Set::SetTransaction { snapshot, .. } if snapshot.is_some() => {
                let instead = "Each session has a snapshot of its own.";
                return Err(SqlError::unsupported("SET TRANSACTION SNAPSHOT", instead));
            }
            other => {
                let instead = "Use SET name = value.";
                return Err(SqlError::unsupported(other, instead));
            }
        }
        Ok(Completion::new("SET"))
    }

    /// Whether a change is for the transaction alone, with a warning where that ends with it.
    fn is_local(&mut self, is_local: bool) -> bool {
        if is_local {
            self.warn_outside_block("SET LOCAL");
        }
        is_local
    }

    /// `SET TRANSACTION` and its kin with `DEFERRABLE`, which the parser does not see.
    pub(super) fn set_deferrable(&mut self, parsed: &Parsed) -> Result<()> {
        match (&*parsed.statement, parsed.deferrable) {
            (Statement::Set(Set::SetTransaction { session: true, .. }), Some(defers)) => {
                let value = if defers { "on" } else { "off" };
                self.set_variable("default_transaction_deferrable", Some(value), false)
            }
            (_, Some(defers)) => self.set_defers(defers),
            (_, None) => Ok(()),
        }
    }

    fn set_default_modes(&mut self, modes: &[sqlparser::ast::TransactionMode]) -> Result<()> {
        use sqlparser::ast::{TransactionAccessMode, TransactionMode};
        for mode in modes {
            let (name, value) = match mode {
                TransactionMode::IsolationLevel(level) => (
                    "default_transaction_isolation",
                    level.to_string().to_lowercase(),
                ),
                TransactionMode::AccessMode(access) => {
                    let is_read_only = *access == TransactionAccessMode::ReadOnly;
                    let value = if is_read_only { "on" } else { "off" };
                    ("default_transaction_read_only", value.to_owned())
                }
            };
            self.set_variable(name, Some(&value), false)?;
        }
        Ok(())
    }

    fn set_values(&mut self, name: &str, values: &[Expr], is_local: bool) -> Result<()> {
        let value = value_of(name, values)?;
        self.set_variable(name, value.as_deref(), is_local)
    }

    /// The setting that a `SET` is about, and its value; none is the default.
    pub(crate) fn setting_of(&self, set: &Set) -> Result<(String, Option<String>)> {
        match set {
            Set::SingleAssignment {
                variable, values, ..
            } => {
                let name = setting_name(variable);
                let value = value_of(&name, values)?;
                Ok((name, value))
            }
            Set::SetTimeZone { value, .. } => {
                let value = value_of("timezone", std::slice::from_ref(value))?;
                Ok(("timezone".to_owned(), value))
            }
            Set::SetRole { role_name, .. } => {
                Ok(("role".to_owned(), role_name.as_ref().map(ident_text)))
            }
            other => {
                let instead = "Use SET name = value.";
                Err(SqlError::unsupported(other, instead))
            }
        }
    }

    /// Begins with the settings of the session's role and the database. One that cannot be set any
    /// longer is left out with a warning.
    pub fn begin_as_role(&mut self) {
        let role = self.environment.host.login_role;
        for (name, value) in self.catalog().session_settings(role) {
            if let Err(error) = self.begin_with_setting(&name, &value) {
                self.environment.host.warning(error.state, error.message);
            }
        }
    }

    /// Fails unless the session's role may change a setting.
    ///
    /// # Errors
    ///
    /// 42501 for a setting that superusers change, if the role is none.
    pub fn may_set(&self, name: &str) -> Result<()> {
        let role = self.environment.names.role;
        if !is_operators(name) || self.catalog().is_superuser(role) {
            return Ok(());
        }
        let message = format!("permission denied to set parameter \"{name}\"");
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
    }

    /// Sets a setting, for the transaction if it is local.
    pub(crate) fn set_variable(
        &mut self,
        name: &str,
        value: Option<&str>,
        is_local: bool,
    ) -> Result<()> {
        self.may_set(name)?;
        self.give_variable(name, value, is_local)
    }

    /// As [`Session::set_variable`], whatever the session's role may.
    pub(super) fn give_variable(
        &mut self,
        name: &str,
        value: Option<&str>,
        is_local: bool,
    ) -> Result<()> {
        if name.eq_ignore_ascii_case("session_authorization") {
            return self.set_session_role(value, is_local);
        }
        if let Some(mode) = mode_setting(name) {
            return self.set_mode(mode, value);
        }
        let is_role = name.eq_ignore_ascii_case("role");
        if is_role {
            self.set_role(value, is_local)?;
        }
        let environment = &mut self.environment;
        let variables = &mut environment.host.variables;
        variables.keep(name, is_local);
        variables.set(&mut environment.settings, name, value)?;
        if is_role {
            self.apply_role();
            return Ok(());
        }
        if name.eq_ignore_ascii_case("application_name") {
            self.show_application();
        }
        self.apply_search_path();
        Ok(())
    }

    /// Lets others see the name of the client.
    fn show_application(&self) {
        let host = &self.environment.host;
        let name = host.variables.get("application_name");
        let name = name.unwrap_or_default().to_owned();
        host.peer.show(|shown| shown.application_name = name);
    }

    /// Takes a role, if the session may; without a name the one that it has begun with. It is kept
    /// by its number: the name may go, or be another role's, while the session has it.
    fn set_role(&mut self, name: Option<&str>, is_local: bool) -> Result<()> {
        let name = name.or(self.environment.host.variables.begun("role"));
        let role = match name.filter(|name| !name.eq_ignore_ascii_case("none")) {
            None => None,
            Some(name) => {
                let role = self.catalog().role_named(name);
                let role = role.ok_or_else(|| crate::define::no_role(name))?;
                if !self.may_become(self.environment.host.session_role, role) {
                    let message = format!("permission denied to set role \"{name}\"");
                    return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
                }
                Some(role)
            }
        };
        let host = &mut self.environment.host;
        let level = host.variables.level();
        host.set_roles.keep(level, is_local, host.set_role);
        host.set_role = role;
        Ok(())
    }

    /// Gives the session the privileges of the role that is set. One that was dropped has none.
    pub(super) fn apply_role(&mut self) {
        let host = &self.environment.host;
        let role = host.set_role.unwrap_or(host.session_role);
        self.environment.names.role = role;
        self.apply_search_path();
        let is_superuser = self.catalog().is_superuser(role);
        let session = self.catalog().role_name(self.environment.host.session_role);
        let session = session.unwrap_or_default().to_owned();
        let variables = &mut self.environment.host.variables;
        variables.tell("is_superuser", if is_superuser { "on" } else { "off" });
        variables.tell_session_role(&session);
        let prepared_max = self.sql.database().prepared_max().to_string();
        variables.tell("max_prepared_transactions", &prepared_max);
        variables.tell_shared(self.sql.facts());
    }

    /// `SET SESSION AUTHORIZATION`: a superuser becomes another role altogether, or the one that
    /// has connected again.
    fn set_session_role(&mut self, name: Option<&str>, is_local: bool) -> Result<()> {
        let login = self.environment.host.login_role;
        let role = match name {
            None => login,
            Some(name) => {
                let role = self.catalog().role_named(name);
                let role = role.ok_or_else(|| crate::define::no_role(name))?;
                if role != login && !self.catalog().is_superuser(login) {
                    let message = "permission denied to set session authorization";
                    return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
                }
                role
            }
        };
        let host = &mut self.environment.host;
        let level = host.variables.level();
        host.session_roles.keep(level, is_local, host.session_role);
        host.session_role = role;
        self.set_variable("role", None, is_local)
    }

    /// Lets names be found along the search path that is set.
    pub(super) fn apply_search_path(&mut self) {
        let path = self
            .environment
            .host
            .variables
            .get("search_path")
            .unwrap_or_default();
        let role = self.environment.names.role;
        // The schema `indelible` is the system's, and not that of the role of its name.
        let user = self.catalog().role_name(role).filter(|_| role != OWNER);
        let names = names_of(path)
            .into_iter()
            .filter_map(|name| match name.as_str() {
                "" => None,
                "$user" => user.map(str::to_owned),
                _ => Some(name),
            });
        let names: Vec<String> = names.collect();
        if self.environment.names.search_path != names {
            self.environment.names.search_path = names;
        }
    }

    fn show(&mut self, name: &str, sink: &mut dyn RowSink) -> Result<Completion> {
        let columns = shown_columns(name);
        if name.eq_ignore_ascii_case("all") {
            let all = self.environment.host.settings();
            let names = &self.environment.names;
            let rows = all
                .into_iter()
                .filter(|(name, _)| may_see(names, name).is_ok())
                .map(|(name, value)| vec![name, value, String::new()]);
            return texts(&columns, rows.collect(), &self.environment.context(), sink);
        }
        let name = columns[0].name.as_str();
        may_see(&self.environment.names, name)?;
        let lower = name.to_lowercase();
        let shown = self.transaction.shown().into_iter();
        let shown = shown.filter(|(mode, _)| *mode == lower);
        let shown = shown.map(|(_, value)| value).next();
        let value = shown.or_else(|| self.environment.host.variables.get(&lower));
        let value = value.ok_or_else(|| unknown_setting(name))?.to_owned();
        texts(
            &columns,
            vec![vec![value]],
            &self.environment.context(),
            sink,
        )
    }
}

/// The columns of `SHOW`.
pub(super) fn shown_columns(name: &str) -> Vec<OutputColumn> {
    let name = name.to_lowercase();
    let column = |name: &str| OutputColumn {
        name: name.to_owned(),
        data_type: Kind::Text.plain(),
        table: 0,
        position: 0,
    };
    if name == "all" {
        return ["name", "setting", "description"].map(column).to_vec();
    }
    vec![column(shown_name(&name))]
}

/// The name of the setting that a `SHOW` asks for, by several words or by parts of a name.
pub(super) fn asked_name(words: &[Ident]) -> String {
    let words: Vec<String> = words.iter().map(ident_text).collect();
    let name = words.join(" ").to_lowercase();
    if shown_name(&name) == name {
        return words.join(".");
    }
    name
}

/// The name of a setting as it is shown.
pub(crate) fn shown_name(name: &str) -> &str {
    match name {
        "datestyle" => "DateStyle",
        "intervalstyle" => "IntervalStyle",
        "timezone" | "time zone" => "TimeZone",
        "transaction isolation level" => "transaction_isolation",
        "session authorization" => "session_authorization",
        other => other,
    }
}

/// Sends rows of texts.
pub(super) fn texts(
    columns: &[OutputColumn],
    rows: Vec<Vec<String>>,
    context: &Context<'_>,
    sink: &mut dyn RowSink,
) -> Result<Completion> {
    sink.describe(columns)?;
    let mut batch = Batch::new(columns.len());
    for row in rows {
        batch.push(row.into_iter().map(Datum::text));
    }
    if !batch.is_empty() {
        sink.rows(&batch, context)?;
    }
    Ok(Completion::new("SHOW"))
}

/// The setting that shows a mode of the transaction, if a name is that of one.
fn mode_setting(name: &str) -> Option<&'static str> {
    let mut modes = Transaction::idle().shown().into_iter();
    let found = modes.find(|(mode, _)| mode.eq_ignore_ascii_case(name));
    found.map(|(mode, _)| mode)
}

fn setting_name(name: &ObjectName) -> String {
    name.to_string().replace('"', "").to_lowercase()
}

/// The value of a `SET`; none is the default.
fn value_of(name: &str, values: &[Expr]) -> Result<Option<String>> {
    let mut texts: Vec<String> = values.iter().map(value_text).collect::<Result<_>>()?;
    if name == "search_path" {
        // Each value is one name, whatever is in it.
        texts = texts.iter().map(|name| quoted(name)).collect();
    }
    let is_default =
        matches!(values, [Expr::Identifier(word)] if word.value.eq_ignore_ascii_case("default"));
    let is_local_zone =
        name == "timezone" && texts.len() == 1 && texts[0].eq_ignore_ascii_case("local");
    Ok((!is_default && !is_local_zone).then(|| texts.join(", ")))
}

/// The text of a value in `SET`.
fn value_text(value: &Expr) -> Result<String> {
    let text = match value {
        Expr::Identifier(word) if word.quote_style.is_none() => Some(word.value.to_lowercase()),
        Expr::Identifier(word) => Some(word.value.clone()),
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => Some(text.clone()),
            Value::Boolean(true) => Some("on".to_owned()),
            Value::Boolean(false) => Some("off".to_owned()),
            other => other.clone().into_string(),
        },
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => Some(format!("-{}", value_text(expr)?)),
        Expr::Interval(interval) => {
            let text = value_text(&interval.value)?;
            Some(hours(&text).map_or(text, |hours| hours.to_string()))
        }
        _ => None,
    };
    text.ok_or_else(|| {
        let message = format!("syntax error at or near \"{value}\"");
        SqlError::new(SqlState::SYNTAX_ERROR, message)
    })
}

/// The hours of an interval that is a zone: hours and minutes, with a sign.
fn hours(text: &str) -> Option<f64> {
    let (hours, minutes) = text.split_once(':')?;
    let (whole, minutes): (f64, f64) = (hours.parse().ok()?, minutes.parse().ok()?);
    let part = minutes / 60.0;
    Some(if hours.starts_with('-') {
        whole - part
    } else {
        whole + part
    })
}

/// The names of a list; quotes keep commas.
fn names_of(list: &str) -> Vec<String> {
    let mut is_quoted = false;
    let names = list.split(|one| {
        is_quoted ^= one == '"';
        one == ',' && !is_quoted
    });
    names.map(|name| parts_of(name).concat()).collect()
}
