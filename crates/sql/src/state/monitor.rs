//! Functions that monitoring programs call: ages, places of logs, times of statistics.
//!
//! No number of a transaction grows old, no log has PostgreSQL's form, and nothing is replicated.
//! So ages are small, and what PostgreSQL would tell of its log is NULL.

use super::describe::{number, record, rows};
use super::host::HostCall;
use crate::catalog::Body;
use crate::error::{Result, SqlError, SqlState};
use crate::types::{Datum, Kind};

/// The age of a number that is none of a transaction.
const OLDEST: i32 = i32::MAX;
/// The least number of a transaction.
const FIRST: u32 = 3;
/// The number that the next group of transactions would have: there are none.
const NEXT_GROUP: u32 = 1;

impl HostCall<'_> {
    /// The result of a function of this module; none if it is another one.
    pub(super) fn monitor(&self, function: &str, arguments: &[Datum]) -> Result<Option<Datum>> {
        let first = arguments.first().and_then(number);
        Ok(Some(match function {
            "age" => Datum::Int4(match first {
                Some(then @ FIRST..) => self.session.xid().wrapping_sub(then).cast_signed(),
                _ => OLDEST,
            }),
            "mxid_age" => Datum::Int4(match first {
                Some(then @ 1..) => NEXT_GROUP.wrapping_sub(then).cast_signed(),
                _ => OLDEST,
            }),
            "pg_current_xact_id" => Datum::Int8(self.session.transaction),
            "pg_stat_get_db_stat_reset_time" => Datum::Timestamptz(self.session.sql.opened_at()),
            "pg_ls_waldir" | "pg_ls_archive_statusdir" => {
                self.check_superuser(function)?;
                rows(Kind::Record, Vec::new())
            }
            "pg_stat_reset" | "pg_stat_clear_snapshot" => {
                if function == "pg_stat_reset" {
                    self.check_superuser(function)?;
                }
                Datum::text("")
            }
            "current_query" => Datum::text(self.session.peer.shown().text),
            "pg_trigger_depth" => Datum::Int4(0),
            "row_security_active" => Datum::Bool(false),
            "pg_sequence_parameters" => self.sequence_parameters(first)?,
            "pg_current_xact_id_if_assigned"
            | "pg_current_wal_lsn"
            | "pg_current_wal_insert_lsn"
            | "pg_current_wal_flush_lsn"
            | "pg_last_wal_receive_lsn"
            | "pg_last_wal_replay_lsn"
            | "pg_last_xact_replay_timestamp"
            | "pg_stat_get_last_vacuum_time"
            | "pg_stat_get_last_autovacuum_time"
            | "pg_stat_get_last_analyze_time"
            | "pg_stat_get_last_autoanalyze_time"
            | "pg_relation_filepath" => Datum::Null,
            _ => return Ok(None),
        }))
    }

    fn check_superuser(&self, function: &str) -> Result<()> {
        if self.names.catalog.is_superuser(self.names.role) {
            return Ok(());
        }
        let message = format!("permission denied for function {function}");
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
    }

    /// The row of `pg_sequence_parameters`.
    fn sequence_parameters(&self, oid: Option<u32>) -> Result<Datum> {
        let object = oid.and_then(|oid| self.names.catalog.object(oid));
        let Some(Body::Sequence(sequence)) = object.map(|object| &object.body) else {
            let message = "relation is not a sequence";
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        };
        let parameters = record(vec![
            Datum::Int8(sequence.start),
            Datum::Int8(sequence.min),
            Datum::Int8(sequence.max),
            Datum::Int8(sequence.increment),
            Datum::Bool(sequence.cycles),
            Datum::Int8(sequence.cache),
            Datum::Oid(sequence.data_type.kind.oid()),
        ]);
        Ok(rows(Kind::Record, vec![parameters]))
    }
}
