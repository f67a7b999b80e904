//! Functions that tell about the server and its sessions: sizes, times, transactions.
//!
//! Sizes are estimates: the database counts the rows of a table, and not their bytes. A session is
//! ended by a superuser, or by a member of its role.

use super::describe::number;
use super::host::HostCall;
use crate::catalog::{Body, DATABASE, Object, SIGNAL_BACKEND};
use crate::error::{Result, SqlError, SqlState};
use crate::types::Datum;
use crate::types::Kind::{self, Int4, Text};
use crate::types::array::Array;
use std::sync::Arc;

fn numbers(numbers: &[i32]) -> Datum {
    let values = numbers.iter().map(|number| Datum::Int4(*number)).collect();
    Datum::Array(Arc::new(Array::new(Int4, values)))
}

/// Whether one of the sessions that a session waits for is among others; NULL without others.
fn is_one_of(blockers: Option<&Vec<i32>>, others: &Datum) -> Datum {
    let Datum::Array(others) = others else {
        return Datum::Null;
    };
    let others: Vec<i32> = others.elements.iter().flat_map(Datum::int4).collect();
    let mut blockers = blockers.into_iter().flatten();
    Datum::Bool(blockers.any(|blocker| others.contains(blocker)))
}

/// About the bytes of a value of a type without a length.
const VARYING_BYTES: u64 = 32;

/// The address of an end of a connection over TCP.
fn address(end: Option<(String, u16)>) -> Datum {
    end.map_or(Datum::Null, |(address, _)| Datum::text(address))
}

/// The port of an end of a connection over TCP.
fn port(end: Option<(String, u16)>) -> Datum {
    end.map_or(Datum::Null, |(_, port)| Datum::Int4(i32::from(port)))
}

impl HostCall<'_> {
    /// The result of a function of this module; none if it is another one.
    pub(super) fn activity(&self, function: &str, arguments: &[Datum]) -> Result<Option<Datum>> {
        let sql = &self.session.sql;
        Ok(Some(match function {
            "pg_relation_size" | "pg_table_size" | "pg_indexes_size" | "pg_total_relation_size" => {
                self.relation_size(function, &arguments[0])
            }
            "pg_database_size" | "pg_tablespace_size" => {
                let objects = self.names.catalog.objects();
                Datum::Int8(
                    objects
                        .map(|object| self.sizes(object))
                        .map(|(own, indexes)| own + indexes)
                        .sum(),
                )
            }
            "pg_is_in_recovery" | "pg_is_wal_replay_paused" | "pg_jit_available" => {
                Datum::Bool(false)
            }
            "pg_postmaster_start_time" | "pg_conf_load_time" => Datum::Timestamptz(sql.opened_at()),
            "pg_stat_get_live_tuples" => {
                let handle = number(&arguments[0]).and_then(|oid| self.names.catalog.handle(oid));
                let count = handle.and_then(indelible::Table::row_count);
                Datum::Int8(count.map_or(0, |count| count.rows as i64))
            }
            "pg_stat_get_numscans" | "pg_stat_get_tuples_inserted" | "pg_stat_get_dead_tuples" => {
                Datum::Int8(0)
            }
            "txid_current" => Datum::Int8(self.session.transaction),
            "txid_current_if_assigned" => Datum::Null,
            "inet_server_addr" => address(self.session.peer.shown().server),
            "inet_server_port" => port(self.session.peer.shown().server),
            "inet_client_addr" => address(self.session.peer.shown().client),
            "inet_client_port" => port(self.session.peer.shown().client),
            "pg_listening_channels" => {
                let channels = self.session.peer.channels().into_iter().map(Datum::text);
                super::describe::rows(Text, channels.collect())
            }
            "pg_prepared_xact" => self.prepared(),
            "pg_blocking_pids" => {
                let number = arguments[0].int4()?;
                let mut waits = sql.registry.waits(sql.database());
                let wait = waits.remove(&number);
                numbers(&wait.map_or_else(Vec::new, |(_, blockers)| blockers))
            }
            // No snapshot waits for others.
            "pg_safe_snapshot_blocking_pids" => numbers(&[]),
            "pg_isolation_test_session_is_blocked" => {
                let waits = sql.registry.waits(sql.database());
                let wait = waits.get(&arguments[0].int4()?);
                is_one_of(wait.map(|(_, blockers)| blockers), &arguments[1])
            }
            "pg_cancel_backend" => {
                let number = arguments[0].int4()?;
                self.may_end(number, "query is being canceled")?;
                Datum::Bool(sql.cancel(number))
            }
            "pg_terminate_backend" => {
                let number = arguments[0].int4()?;
                self.may_end(number, "process is being terminated")?;
                Datum::Bool(sql.terminate(number))
            }
            "pg_stat_statements_reset" => self.reset_statements(arguments)?,
            "pg_notification_queue_usage" => Datum::Float8(sql.registry.queue_usage()),
            _ => return Ok(None),
        }))
    }

    /// The rows of `pg_prepared_xact()`.
    fn prepared(&self) -> Datum {
        let prepared = self.session.sql.database().prepared_transactions();
        let prepared = prepared.into_iter().map(|one| {
            super::describe::record(vec![
                Datum::Oid(one.transaction as u32),
                Datum::text(one.name),
                Datum::Timestamptz(one.prepared_at),
                Datum::Oid(u32::try_from(one.owner).unwrap_or_default()),
                Datum::Oid(DATABASE),
            ])
        });
        super::describe::rows(Kind::Record, prepared.collect())
    }

    /// Forgets statistics of statements: of a role, of a database, with a number; 0 is any.
    fn reset_statements(&self, arguments: &[Datum]) -> Result<Datum> {
        if !self.names.catalog.is_superuser(self.names.role) {
            let message = "permission denied for function pg_stat_statements_reset";
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        let given = |at: usize| match arguments.get(at) {
            Some(Datum::Oid(oid)) => Some(i64::from(*oid)),
            Some(Datum::Int8(id)) => Some(*id),
            _ => None,
        };
        let given = |at: usize| given(at).filter(|number| *number != 0);
        if given(1).is_none_or(|oid| oid == i64::from(DATABASE)) {
            let role = given(0).and_then(|oid| u32::try_from(oid).ok());
            self.session.sql.statements.reset(role, given(2));
        }
        Ok(Datum::text(""))
    }

    /// Sessions are ended by superusers, and by members of their roles and of `pg_signal_backend`.
    fn may_end(&self, number: i32, what: &str) -> Result<()> {
        let (catalog, role) = (&self.names.catalog, self.names.role);
        let Some(peer) = self.session.sql.registry.peer(number) else {
            return Ok(());
        };
        let other = peer.shown().role;
        let may = |right| catalog.has_rights_of(role, right);
        if catalog.is_superuser(role)
            || !catalog.is_superuser(other) && (may(other) || may(SIGNAL_BACKEND))
        {
            return Ok(());
        }
        let message =
            format!("must be a member of the role whose {what} or member of pg_signal_backend");
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
    }

    /// About the bytes of a table, or of its indexes: the database counts rows, and not their
    /// bytes.
    fn relation_size(&self, function: &str, oid: &Datum) -> Datum {
        let Some(oid) = number(oid) else {
            return Datum::Null;
        };
        let catalog = &self.names.catalog;
        if let Some((table, index)) = catalog.index(oid) {
            return Datum::Int8(bytes_of(self.rows_of(table), table, &index.columns));
        }
        let Some(object) = catalog.object(oid) else {
            // Rows of the system are made when somebody reads them.
            return match sql_bind::system::by_oid(oid) {
                Some(_) => Datum::Int8(0),
                None => Datum::Null,
            };
        };
        let (own, indexes) = self.sizes(object);
        Datum::Int8(match function {
            "pg_indexes_size" => indexes,
            "pg_total_relation_size" => own + indexes,
            _ => own,
        })
    }

    /// About the bytes of a table, and of its indexes.
    fn sizes(&self, object: &Object) -> (i64, i64) {
        let Body::Table(table) = &object.body else {
            return (0, 0);
        };
        let rows = self.rows_of(object);
        let all: Vec<usize> = (0..table.columns.len()).collect();
        let indexes = table
            .indexes
            .iter()
            .filter(|index| index.physical.is_some());
        let indexes = indexes.map(|index| bytes_of(rows, object, &index.columns));
        (bytes_of(rows, object, &all), indexes.sum())
    }

    fn rows_of(&self, table: &Object) -> u64 {
        let handle = self.names.catalog.handle(table.oid);
        let count = handle.and_then(indelible::Table::row_count);
        count.map_or(0, |count| count.rows)
    }
}

/// About the bytes of some columns of a table's rows.
fn bytes_of(rows: u64, object: &Object, columns: &[usize]) -> i64 {
    let Body::Table(table) = &object.body else {
        return 0;
    };
    let columns = columns.iter().filter_map(|at| table.columns.get(*at));
    let bytes: u64 = columns
        .map(|column| match column.data_type.kind.length() {
            length @ 1.. => length.unsigned_abs().into(),
            _ => VARYING_BYTES,
        })
        .sum();
    (rows * bytes) as i64
}
