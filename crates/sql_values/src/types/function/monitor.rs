//! Names, arguments and results of functions that monitoring programs call.
//!
//! Here is no log in PostgreSQL's form, no replication and nothing that is frozen: such functions
//! are there so that statements which ask for it go on, and say that there is none.

use crate::error::{Result, SqlError, SqlState};
use crate::types::datum::Datum;
use crate::types::kind::Kind::{
    self, Bool, Int4, Int8, Numeric, Regclass, Text, Timestamptz, Void,
};
use crate::types::numeric::Numeric as Number;
use crate::types::signature::{Body, Function};
use crate::types::{Context, text_io};

const OID: Kind = Kind::Oid;

const fn told(name: &'static str, arguments: &'static [Kind], result: Kind) -> Function {
    Function::host(name, arguments, result).stable()
}

/// A function whose rows are the files of a directory that is not there.
const fn files(name: &'static str) -> Function {
    Function::with_body(name, &[], Kind::Record, Body::HostSet(name))
        .stable()
        .columns(&[
            ("name", Text),
            ("size", Int8),
            ("modification", Timestamptz),
        ])
}

/// Functions about transactions, logs and statistics.
pub const ABOUT_MONITORING: &[Function] = &[
    told("age", &[Kind::Xid], Int4),
    told("mxid_age", &[Kind::Xid], Int4),
    told("pg_current_xact_id", &[], Int8),
    told("pg_current_xact_id_if_assigned", &[], Int8),
    told("pg_current_wal_lsn", &[], Text),
    told("pg_current_wal_insert_lsn", &[], Text),
    told("pg_current_wal_flush_lsn", &[], Text),
    told("pg_last_wal_receive_lsn", &[], Text),
    told("pg_last_wal_replay_lsn", &[], Text),
    told("pg_last_xact_replay_timestamp", &[], Timestamptz),
    files("pg_ls_waldir"),
    files("pg_ls_archive_statusdir"),
    told("pg_stat_get_last_vacuum_time", &[OID], Timestamptz),
    told("pg_stat_get_last_autovacuum_time", &[OID], Timestamptz),
    told("pg_stat_get_last_analyze_time", &[OID], Timestamptz),
    told("pg_stat_get_last_autoanalyze_time", &[OID], Timestamptz),
    told("pg_stat_get_db_stat_reset_time", &[OID], Timestamptz),
    Function::host("pg_stat_reset", &[], Void),
    Function::host("pg_stat_clear_snapshot", &[], Void),
    told("current_query", &[], Text),
    told("pg_relation_filepath", &[Regclass], Text),
    told("pg_trigger_depth", &[], Int4),
    told("row_security_active", &[OID], Bool),
    told("row_security_active", &[Text], Bool),
    Function::with_body(
        "pg_sequence_parameters",
        &[OID],
        Kind::Record,
        Body::HostSet("pg_sequence_parameters"),
    )
    .stable()
    .columns(&[
        ("start_value", Int8),
        ("minimum_value", Int8),
        ("maximum_value", Int8),
        ("increment", Int8),
        ("cycle_option", Bool),
        ("cache_size", Int8),
        ("data_type", OID),
    ]),
    Function::scalar("pg_wal_lsn_diff", &[Text, Text], Numeric, |_, a| {
        let (to, from) = (log_place(a[0].str()?)?, log_place(a[1].str()?)?);
        Ok(Datum::Numeric(Number::from(to - from)))
    }),
    Function::scalar("pg_size_bytes", &[Text], Int8, |_, a| {
        size_of(a[0].str()?).map(Datum::Int8)
    }),
    Function::scalar("pg_column_size", &[Kind::Any], Int4, |context, a| {
        column_size(&a[0], &context.context).map(Datum::Int4)
    })
    .stable(),
];

/// A place of a log in PostgreSQL's form: two numbers of 32 bits.
fn log_place(text: &str) -> Result<i64> {
    let bad = || {
        let message = format!("invalid input syntax for type pg_lsn: \"{text}\"");
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
    };
    let (high, low) = text.split_once('/').ok_or_else(bad)?;
    let part = |part: &str| u32::from_str_radix(part, 16).map_err(|_| bad());
    Ok((i64::from(part(high)?) << 32) | i64::from(part(low)?))
}

/// Bytes of a size that is written with a unit.
fn size_of(text: &str) -> Result<i64> {
    let bad = || {
        let message = format!("invalid size: \"{text}\"");
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
    };
    let trimmed = text.trim_matches(text_io::is_space);
    let (number, unit) = trimmed.split_at(number_length(trimmed).ok_or_else(bad)?);
    let number = Number::parse(number)?;
    let power = match unit.trim().to_lowercase().as_str() {
        "" | "bytes" | "b" => 0,
        "kb" => 10,
        "mb" => 20,
        "gb" => 30,
        "tb" => 40,
        "pb" => 50,
        _ => {
            let hint = "Valid units are \"bytes\", \"B\", \"kB\", \"MB\", \"GB\", \"TB\", and \
                        \"PB\".";
            let detail = format!("Invalid size unit: \"{}\".", unit.trim());
            return Err(bad().detail(detail).hint(hint));
        }
    };
    let bytes = number.multiply(&Number::from(1_i64 << power))?;
    bytes.round(0).to_i64().ok_or_else(|| {
        let message = "bigint out of range";
        SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
    })
}

/// The length of the number at the front of a text, if there is one.
fn number_length(text: &str) -> Option<usize> {
    let digits = |at: usize| {
        let rest = text.as_bytes().get(at..).unwrap_or_default();
        rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let sign = |at: usize| usize::from(text[at..].starts_with(['+', '-']));
    let start = sign(0);
    let mut end = start + digits(start);
    let mut count = end - start;
    if text[end..].starts_with('.') {
        let fraction = digits(end + 1);
        count += fraction;
        end += 1 + fraction;
    }
    // The text after an E may be a unit too.
    if text[end..].starts_with(['e', 'E']) {
        let exponent = end + 1 + sign(end + 1);
        end = match digits(exponent) {
            0 => end,
            count => exponent + count,
        };
    }
    (count > 0).then_some(end)
}

/// Bytes that PostgreSQL needs for a value in a row, about: values of a varying length have one
/// byte for the length if they are short, and four otherwise.
fn column_size(value: &Datum, context: &Context<'_>) -> Result<i32> {
    const SHORT_MAX: usize = 126;
    let varying = |bytes: usize| bytes + if bytes > SHORT_MAX { 4 } else { 1 };
    let bytes = match value {
        Datum::Null => 0,
        Datum::Bool(_) => 1,
        Datum::Int2(_) => 2,
        Datum::Int4(_) | Datum::Float4(_) | Datum::Date(_) | Datum::Oid(_) | Datum::Enum(_) => 4,
        Datum::Int8(_) | Datum::Float8(_) | Datum::Time(_) => 8,
        Datum::Timestamp(_) | Datum::Timestamptz(_) => 8,
        Datum::Tid(_) => 6,
        Datum::Timetz(_) => 12,
        Datum::Interval(_) | Datum::Uuid(_) => 16,
        Datum::Text(text) | Datum::Bpchar(text) | Datum::Json(text) => varying(text.len()),
        Datum::Bytea(bytes) => varying(bytes.len()),
        Datum::Numeric(_) => {
            let digits = text_io::print(value, Numeric, context)?.len();
            varying(2 + 2 * digits.div_ceil(4))
        }
        Datum::Jsonb(_) => varying(text_io::print(value, Kind::Jsonb, context)?.len()),
        Datum::Array(array) => {
            let sizes = array.elements.iter().map(|one| column_size(one, context));
            24 + sizes.sum::<Result<i32>>()?.unsigned_abs() as usize
        }
        Datum::Record(record) => {
            let sizes = record.fields.iter().map(|one| column_size(one, context));
            24 + sizes.sum::<Result<i32>>()?.unsigned_abs() as usize
        }
    };
    Ok(i32::try_from(bytes).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("1 MB", 1 << 20),
            ("10", 10),
            (" 1.5 kB ", 1536),
            ("-2GB", -(2 << 30)),
            ("1e3 MB", 1000 << 20),
            (".5kB", 512),
            ("9223372036854775807", i64::MAX),
            ("9007199254740993", 9_007_199_254_740_993),
            ("8796093022207.99999 MB", 9_223_372_036_854_775_798),
        ] {
            assert_eq!(size_of(text).unwrap(), bytes, "{text}");
        }
        for text in [
            "1 furlong",
            "",
            ".",
            "- 1",
            "1EB",
            "9223372036854775808",
            "8192 PB",
        ] {
            assert!(size_of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn places_of_logs_are_numbers() {
        assert_eq!(log_place("1/10").unwrap(), (1 << 32) + 16);
        assert!(log_place("16").is_err() && log_place("1/g").is_err());
    }
}
