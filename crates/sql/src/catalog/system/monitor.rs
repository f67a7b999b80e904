//! Relations for monitoring programs: statistics of columns, counters of the server, time zones.
//!
//! There is no background writer and no log of records in PostgreSQL's form; programs
//! read exactly one row of each, so it is there and its counters say what the database counts.

use super::rows::{Maker, Rows, Sources, array, flag, text};
use crate::catalog::{Body, DATABASE, Object, Privilege};
use crate::error::Result;
use crate::state::cost;
use crate::types::datetime::zone;
use crate::types::interval::Interval;
use crate::types::{Datum, Kind, Type, storage, text_io};
use indelible::{ColumnStatistics, TableStatistics};
use sql_values::types::array::Array;
use std::sync::Arc;

pub(super) const MAKERS: &[Maker] = &[
    ("pg_stat_bgwriter", writer),
    ("pg_stat_archiver", archiver),
    ("pg_stat_wal", log),
    ("pg_stat_database_conflicts", conflicts),
    ("pg_stats", columns),
    ("pg_timezone_names", zones),
    ("pg_timezone_abbrevs", abbreviations),
];

const NONE: Datum = Datum::Int8(0);

fn since(from: &Sources<'_>) -> Datum {
    Datum::Timestamptz(from.session.sql.opened_at())
}

fn writer(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    rows.push([
        ("checkpoints_timed", NONE),
        ("checkpoints_req", NONE),
        ("checkpoint_write_time", Datum::Float8(0.0)),
        ("checkpoint_sync_time", Datum::Float8(0.0)),
        ("buffers_checkpoint", NONE),
        ("buffers_clean", NONE),
        ("maxwritten_clean", NONE),
        ("buffers_backend", NONE),
        ("buffers_backend_fsync", NONE),
        ("buffers_alloc", NONE),
        ("stats_reset", since(from)),
    ]);
    Ok(())
}

fn archiver(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let state = from.session.sql.database().archive_state();
    let state = state.unwrap_or_default();
    let count = |count: u64| Datum::Int8(count.cast_signed());
    rows.push([
        ("archived_count", count(state.taken)),
        ("failed_count", count(state.failed)),
        ("stats_reset", since(from)),
    ]);
    Ok(())
}

/// Nothing is replayed, so no statement is in its way.
fn conflicts(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    rows.push([
        ("datid", Datum::Oid(DATABASE)),
        ("datname", text(&from.session.database)),
        ("confl_tablespace", NONE),
        ("confl_lock", NONE),
        ("confl_snapshot", NONE),
        ("confl_bufferpin", NONE),
        ("confl_deadlock", NONE),
    ]);
    Ok(())
}

/// Changes and bytes of all commits since the opening, as far as they are a log's.
fn log(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let counts = from.session.sql.registry.counts();
    let bytes = counts[cost::BYTES_WRITTEN].cast_signed();
    rows.push([
        (
            "wal_records",
            Datum::Int8(counts[cost::CHANGES].cast_signed()),
        ),
        ("wal_fpi", NONE),
        ("wal_bytes", Datum::Numeric(bytes.into())),
        ("wal_buffers_full", NONE),
        ("wal_write", NONE),
        ("wal_sync", NONE),
        ("wal_write_time", Datum::Float8(0.0)),
        ("wal_sync_time", Datum::Float8(0.0)),
        ("stats_reset", since(from)),
    ]);
    Ok(())
}

/// The statistics that `ANALYZE` has made of columns of tables that the session's role may read.
fn columns(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let names = from.names;
    for object in from.objects() {
        let Body::Table(body) = &object.body else {
            continue;
        };
        let handle = names.catalog.handle(object.oid);
        let known = handle.and_then(indelible::Table::known_statistics);
        let may_read = names.check(names.role, &object, Privilege::Select.bit());
        let (Some(known), true) = (known, may_read.is_ok()) else {
            continue;
        };
        for (at, column) in body.columns.iter().enumerate() {
            if let Some(found) = known.columns.get(at) {
                let about = (column.name.as_str(), column.data_type);
                push_column(from, (&object, about), (&known, found), rows)?;
            }
        }
    }
    Ok(())
}

fn push_column(
    from: &Sources<'_>,
    (object, (name, data_type)): (&Object, (&str, Type)),
    (table, found): (&Arc<TableStatistics>, &ColumnStatistics),
    rows: &mut Rows<'_>,
) -> Result<()> {
    /// Bytes of a value of a varying length, about.
    const VARYING: i32 = 32;
    let schema = from.names.catalog.object(object.namespace);
    // PostgreSQL counts values that grow with the table as a share of its rows.
    let (rows_then, distinct) = (table.rows as f64, found.distinct);
    let grows = distinct > 0.1 * rows_then && rows_then > 0.0;
    let distinct = if grows {
        -distinct / rows_then
    } else {
        distinct
    };
    let (values, shares): (Vec<_>, Vec<_>) = found.common.iter().cloned().unzip();
    let shares = shares.into_iter().map(|share| Datum::Float4(share as f32));
    rows.push([
        ("schemaname", text(schema.map_or("", |schema| &schema.name))),
        ("tablename", text(&object.name)),
        ("attname", text(name)),
        ("inherited", flag(false)),
        ("null_frac", Datum::Float4(found.nulls as f32)),
        (
            "avg_width",
            Datum::Int4(match data_type.kind.length() {
                length @ 1.. => length.into(),
                _ => VARYING,
            }),
        ),
        ("n_distinct", Datum::Float4(distinct as f32)),
        ("most_common_vals", printed(from, &values, data_type)?),
        (
            "most_common_freqs",
            match found.common.is_empty() {
                true => Datum::Null,
                false => array(Kind::Float4, shares),
            },
        ),
        (
            "histogram_bounds",
            match found.bounds.len() {
                // A single value bounds nothing.
                0 | 1 => Datum::Null,
                _ => printed(from, &found.bounds, data_type)?,
            },
        ),
    ]);
    Ok(())
}

/// The text of an array of values of a column; NULL without values.
fn printed(from: &Sources<'_>, values: &[indelible::Value], data_type: Type) -> Result<Datum> {
    let Some(kind) = data_type.kind.array().filter(|_| !values.is_empty()) else {
        return Ok(Datum::Null);
    };
    let values = values
        .iter()
        .map(|value| storage::load(value.as_ref(), data_type, &from.context));
    let values = Array::new(data_type.kind, values.collect::<Result<_>>()?);
    let values = Datum::Array(Arc::new(values));
    text_io::print(&values, kind, &from.context).map(Datum::text)
}

fn push_zone(rows: &mut Rows<'_>, seconds: i32, is_summer: bool, named: [Datum; 2]) {
    let offset = Interval::new(0, 0, i64::from(seconds) * 1_000_000);
    let [name, abbreviation] = named;
    let offset = ("utc_offset", Datum::Interval(offset));
    match name {
        Datum::Null => rows.push([
            ("abbrev", abbreviation),
            offset,
            ("is_dst", flag(is_summer)),
        ]),
        name => rows.push([
            ("name", name),
            ("abbrev", abbreviation),
            offset,
            ("is_dst", flag(is_summer)),
        ]),
    }
}

fn zones(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for name in zone::names() {
        if let Some((abbreviation, seconds, is_summer)) =
            zone::at(&name, from.context.statement_start)
        {
            push_zone(rows, seconds, is_summer, [text(&name), text(&abbreviation)]);
        }
    }
    Ok(())
}

fn abbreviations(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (name, minutes, is_summer) in zone::abbreviations() {
        let now = zone::lookup_at(name, from.context.statement_start);
        let seconds = match now.filter(|_| zone::is_changing(name)) {
            Some(zone) => zone::offset_at(&zone, from.context.statement_start),
            None => minutes * 60,
        };
        push_zone(rows, seconds, *is_summer, [Datum::Null, text(name)]);
    }
    Ok(())
}
