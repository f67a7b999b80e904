//! Requests of the extended protocol: statements and portals.
//!
//! The session keeps them; here are the types of a statement's parameters until Bind, and the
//! columns and formats of a portal until its transaction ends. A statement is planned when it is
//! parsed, so that its errors come then, as PostgreSQL's do.

use crate::connection::Connection;
use crate::encoding::{parse_binary, text_of};
use crate::link::Broken;
use crate::message::{Format, Formats, Target};
use crate::results::{Protocol, Results};
use sql::types::{Datum, Type, binary_io, text_io};
use sql::{Described, RowSink, SqlError, SqlState};

/// The type of a parameter that the client leaves open.
const UNKNOWN: u32 = 705;
/// Most portals of a session.
const PORTALS_MAX: usize = 1000;

/// A statement with values, ready to run.
pub(crate) struct Portal {
    description: Described,
    formats: Formats,
}

/// The failure of a request.
pub(crate) enum Failure {
    /// Of the statement: the client is told.
    Statement(SqlError),
    /// Of the connection.
    Broken(Broken),
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        Self::Statement(error)
    }
}

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

impl Connection {
    pub(crate) fn parse(&mut self, name: &[u8], text: &[u8], types: &[u32]) -> Result<(), Failure> {
        let encoding = self.link.answers.encoding;
        let (name, text) = (text_of(name, encoding)?, text_of(text, encoding)?);
        let (name, text) = (&*name, &*text);
        let declared = types.iter().map(|oid| self.declared(*oid));
        let declared = declared.collect::<Result<Vec<_>, _>>()?;
        if name.is_empty() {
            self.session.close_statement(name);
        }
        self.session.prepare(name, text, &declared)?;
        if let Err(error) = self.session.describe_statement(name) {
            self.session.close_statement(name);
            return Err(error.into());
        }
        self.link.answers.parse_complete();
        Ok(())
    }

    pub(crate) fn bind(
        &mut self,
        portal: &[u8],
        statement: &[u8],
        formats: &Formats,
        values: &[Option<&[u8]>],
        results: Formats,
    ) -> Result<(), Failure> {
        let encoding = self.link.answers.encoding;
        let (portal, statement) = (text_of(portal, encoding)?, text_of(statement, encoding)?);
        let (portal, statement) = (&*portal, &*statement);
        let description = self.session.describe_statement(statement)?;
        let types = description.parameters();
        let counted = |message: String| SqlError::new(SqlState::PROTOCOL_VIOLATION, message);
        if values.len() != types.len() {
            let (given, needed) = (values.len(), types.len());
            return Err(counted(format!(
                "bind message supplies {given} parameters, but prepared statement \
                 \"{statement}\" requires {needed}"
            ))
            .into());
        }
        if !formats.fit(values.len()) {
            let (given, needed) = (formats.given(), values.len());
            return Err(counted(format!(
                "bind message has {given} parameter formats but {needed} parameters"
            ))
            .into());
        }
        let columns = description.columns().map_or(0, <[_]>::len);
        if !results.fit(columns) {
            let given = results.given();
            return Err(counted(format!(
                "bind message has {given} result formats but query has {columns} columns"
            ))
            .into());
        }
        if self.portals.len() >= PORTALS_MAX {
            let session = &self.session;
            self.portals.retain(|name, _| session.has_portal(name));
        }
        if self.portals.len() >= PORTALS_MAX && !self.portals.contains_key(portal) {
            let message = format!("a session has at most {PORTALS_MAX} portals");
            let hint = "Close portals that are not needed any more.";
            let state = SqlState::CONFIGURATION_LIMIT_EXCEEDED;
            return Err(SqlError::new(state, message).hint(hint).into());
        }
        let mut read = Vec::with_capacity(values.len());
        for (at, (value, of)) in values.iter().zip(types).enumerate() {
            read.push(self.value(*value, *of, formats.of(at))?);
        }
        self.session.bind(portal, statement, &read)?;
        let bound = Portal {
            description,
            formats: results,
        };
        self.portals.insert(portal.to_owned(), bound);
        self.link.answers.bind_complete();
        Ok(())
    }

    fn value(&self, value: Option<&[u8]>, of: Type, format: Format) -> Result<Datum, SqlError> {
        let context = self.session.context();
        let encoding = self.link.answers.encoding;
        match (value, format, encoding) {
            (None, ..) => Ok(Datum::Null),
            (Some(bytes), Format::Text, _) => {
                text_io::parse(of.kind, &text_of(bytes, encoding)?, &context)
            }
            (Some(bytes), Format::Binary, None) => binary_io::parse(of.kind, bytes, &context),
            (Some(bytes), Format::Binary, Some(encoding)) => {
                parse_binary(bytes, of.kind, encoding, &context)
            }
        }
    }

    pub(crate) fn describe(&mut self, target: Target, name: &[u8]) -> Result<(), Failure> {
        let name = text_of(name, self.link.answers.encoding)?;
        let name = &*name;
        let text = Formats::default();
        let answers = &mut self.link.answers;
        // It may have ended with a part of its transaction.
        let portal = self.portals.get(name);
        match (target, portal.filter(|_| self.session.has_portal(name))) {
            (Target::Statement, _) => {
                let described = self.session.describe_statement(name)?;
                answers.parameter_types(described.parameters());
                answers.result(described.columns(), &text);
            }
            (Target::Portal, Some(portal)) => {
                answers.result(portal.description.columns(), &portal.formats);
            }
            // Cursors of DECLARE are portals too.
            (Target::Portal, None) => {
                let columns = self.session.cursor_columns(name);
                let columns = columns.map_err(|_| no_portal(name))?;
                answers.result(columns.as_deref(), &text);
            }
        }
        Ok(())
    }

    pub(crate) fn close(&mut self, target: Target, name: &[u8]) -> Result<(), Failure> {
        let name = text_of(name, self.link.answers.encoding)?;
        let name = &*name;
        match target {
            Target::Statement => self.session.close_statement(name),
            Target::Portal => {
                self.session.close_portal(name);
                self.portals.remove(name);
            }
        }
        self.link.answers.close_complete();
        Ok(())
    }

    pub(crate) fn execute(&mut self, name: &[u8], rows_max: u32) -> Result<(), Failure> {
        let name = text_of(name, self.link.answers.encoding)?;
        let name = &*name;
        let text = Formats::default();
        let portal = self.portals.get(name);
        let formats = portal.map_or(&text, |portal| &portal.formats);
        let mut results = Results::new(&mut self.link, Protocol::Extended, formats);
        // Cursors of DECLARE describe their rows themselves.
        if let Some(columns) = portal.and_then(|portal| portal.description.columns()) {
            results.set_columns(columns);
        }
        let run = self
            .session
            .execute_portal(name, u64::from(rows_max), &mut results);
        if let Some(broken) = results.broken.take() {
            return Err(broken.into());
        }
        let completion = run?;
        for notice in self.session.take_notices() {
            results.notice(&notice)?;
        }
        results.end_copy();
        if completion.is_suspended {
            self.link.answers.portal_suspended();
        } else if completion.command.is_empty() {
            self.link.answers.empty_query();
        } else {
            let tag = completion.to_string();
            self.link.answers.command_complete(&tag);
        }
        Ok(())
    }

    /// The type of a number that a client has declared.
    fn declared(&mut self, oid: u32) -> Result<Option<Type>, SqlError> {
        if matches!(oid, 0 | UNKNOWN) {
            return Ok(None);
        }
        let found = self.session.type_of_oid(oid);
        found.map(Some).ok_or_else(|| {
            let message = format!("type with OID {oid} does not exist");
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })
    }
}

fn no_portal(name: &str) -> SqlError {
    let message = format!("portal \"{name}\" does not exist");
    SqlError::new(SqlState::INVALID_CURSOR_NAME, message)
}
