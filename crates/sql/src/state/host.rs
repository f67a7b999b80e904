//! Functions that need the session: settings, sequences, the catalogue, locks.

use super::environment::HostState;
use super::names::SessionNames;
use crate::catalog::{Body, Names, SequenceBody};
use crate::error::{Result, SqlError, SqlState};
use crate::types::{Context, Datum, Host};
use indelible::Connection;

/// The session, lent to one call.
pub(crate) struct HostCall<'h> {
    pub(crate) connection: &'h mut Connection,
    pub(crate) session: &'h mut HostState,
    pub(crate) names: &'h SessionNames,
}

impl Host for HostCall<'_> {
    fn call(
        &mut self,
        _: &Context<'_>,
        function: &'static str,
        arguments: &[Datum],
    ) -> Result<Datum> {
        match function {
            "nextval" => self.nextval(&arguments[0]),
            "currval" => self.currval(&arguments[0]),
            "lastval" => self.lastval(),
            "setval" => self.setval(arguments),
            "pg_sequence_last_value" => self.last_value(&arguments[0]),
            "pg_backend_pid" => Ok(Datum::Int4(self.session.number)),
            "current_setting" => self.setting(arguments),
            "current_schema" => Ok(self
                .schemas()
                .into_iter()
                .next()
                .map_or(Datum::Null, Datum::text)),
            "current_database" | "current_catalog" => Ok(Datum::text("indelible")),
            "current_user" | "session_user" | "user" | "current_role" => {
                Ok(Datum::text("indelible"))
            }
            "version" => Ok(Datum::text(concat!(
                "PostgreSQL 15.0 (Indelible ",
                env!("CARGO_PKG_VERSION"),
                ")"
            ))),
            _ => Err(SqlError::unsupported(
                format!("the function {function}"),
                "See `docs/sql.md` for the functions that there are.",
            )),
        }
    }
}

impl HostCall<'_> {
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

    fn nextval(&mut self, argument: &Datum) -> Result<Datum> {
        let (oid, name, sequence) = self.sequence(argument)?;
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
        let number = self.session.sequences.current.get(&oid).copied();
        number.map(Datum::Int8).ok_or_else(|| {
            let message =
                format!("currval of sequence \"{name}\" is not yet defined in this session");
            SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        })
    }

    fn lastval(&mut self) -> Result<Datum> {
        let last = self.session.sequences.last;
        last.map(|(_, number)| Datum::Int8(number)).ok_or_else(|| {
            let message = "lastval is not yet defined in this session";
            SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        })
    }

    fn setval(&mut self, arguments: &[Datum]) -> Result<Datum> {
        let (oid, _, sequence) = self.sequence(&arguments[0])?;
        let number = arguments[1].int()?;
        let is_called = arguments.get(2).map_or(Ok(true), Datum::bool)?;
        let sql = &self.session.sql;
        sql.sequences
            .set(sql.database(), oid, &sequence, number, is_called)?;
        if is_called {
            self.session.sequences.current.insert(oid, number);
        }
        Ok(Datum::Int8(number))
    }

    fn last_value(&mut self, argument: &Datum) -> Result<Datum> {
        let (oid, _, sequence) = self.sequence(argument)?;
        let current = self.session.sequences.current.get(&oid).copied();
        let next = super::sequence::stored_next(self.session.sql.database(), oid)?;
        Ok(Datum::Int8(current.or(next).unwrap_or(sequence.start)))
    }

    fn setting(&mut self, arguments: &[Datum]) -> Result<Datum> {
        let name = arguments[0].str()?;
        let may_miss = arguments.get(1).map_or(Ok(false), Datum::bool)?;
        match self.session.variables.get(name) {
            Some(value) => Ok(Datum::text(value)),
            None if may_miss => Ok(Datum::Null),
            None => Err(super::setting::unknown(name)),
        }
    }
}
