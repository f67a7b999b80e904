//! Sessions and costs, as they are when a statement looks.
//!
//! A session's statement is shown to superusers and to members of its role, and to nobody if it may
//! have a password in it. Costs are those of commits, of all sessions since the opening.

use super::rows::{Maker, Rows, Sources, array, flag, text};
use crate::catalog::{DATABASE, Oid, READ_ALL_STATS};
use crate::error::Result;
use crate::state::{Block, Shown, cost};
use crate::types::{Datum, Kind};
use indelible::{LockKind, Method, TableId, TableLock};
use std::collections::HashMap;

pub(super) const MAKERS: &[Maker] = &[
    ("pg_stat_activity", sessions),
    ("pg_stat_ssl", encryptions),
    ("pg_stat_gssapi", without_gss),
    ("pg_stat_database", databases),
    ("pg_stat_nvm", costs),
    ("pg_stat_nvm_partitions", wear),
    ("pg_stat_statements", statistics),
    ("pg_stat_statements_info", statistics_info),
    ("pg_locks", locks),
    ("pg_cursors", cursors),
    ("pg_prepared_xacts", prepared),
    ("pg_prepared_statements", statements),
];

/// Relations that PostgreSQL does not have.
pub(super) const OWN_MAKERS: &[Maker] = &[("methods", methods), ("versions", versions)];

/// A moment; none is NULL.
fn moment(moment: i64) -> Datum {
    match moment {
        0 => Datum::Null,
        moment => Datum::Timestamptz(moment),
    }
}

fn cursors(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (name, cursor) in &from.session.cursors {
        rows.push([
            ("name", text(name)),
            ("statement", text(&cursor.statement)),
            ("is_holdable", flag(cursor.is_held)),
            ("is_binary", flag(cursor.is_binary)),
            ("is_scrollable", flag(cursor.is_scrollable)),
            ("creation_time", moment(cursor.made_at)),
        ]);
    }
    Ok(())
}

fn prepared(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for one in from.session.sql.database().prepared_transactions() {
        let owner = u32::try_from(one.owner).unwrap_or_default();
        let owner = from.names.catalog.role_name(owner);
        rows.push([
            ("transaction", Datum::Oid(one.transaction as u32)),
            ("gid", text(one.name)),
            ("prepared", moment(one.prepared_at)),
            ("owner", owner.map_or(Datum::Null, text)),
            ("database", text(one.database)),
        ]);
    }
    Ok(())
}

fn statements(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (name, statement) in &from.session.statements {
        let types = statement.types.iter();
        let types = types.map(|data_type| Datum::Oid(data_type.kind.oid()));
        rows.push([
            ("name", text(name)),
            ("statement", text(&statement.statement)),
            ("prepare_time", moment(statement.made_at)),
            ("parameter_types", array(Kind::Regtype, types)),
            ("from_sql", flag(true)),
        ]);
    }
    Ok(())
}

fn sessions(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let sql = &from.session.sql;
    let waits = sql.registry.waits(sql.database());
    for peer in sql.registry.peers() {
        let shown = peer.shown();
        let block = shown.block.unwrap_or(Block::Idle);
        let waits = waits.get(&peer.number).map(|(kind, _)| *kind);
        // A session that waits for a row waits for a transaction.
        let (event_type, event) = match (shown.is_active, waits) {
            (false, _) => (text("Client"), text("ClientRead")),
            (true, Some(LockKind::Table)) => (text("Lock"), text("relation")),
            (true, Some(LockKind::Row)) => (text("Lock"), text("transactionid")),
            (true, Some(LockKind::Advisory)) => (text("Lock"), text("advisory")),
            (true, None) => (Datum::Null, Datum::Null),
        };
        let state = match (shown.is_active, block) {
            (true, _) => "active",
            (false, Block::Open) => "idle in transaction",
            (false, Block::Failed) => "idle in transaction (aborted)",
            (false, Block::Idle | Block::Implicit) => "idle",
        };
        let role = from.names.catalog.role_name(shown.role);
        let is_shown = may_see(from, shown.role);
        let query = match () {
            () if !is_shown => "<insufficient privilege>",
            () if shown.text.to_lowercase().contains("password") => "<a statement with a password>",
            () => shown.text.as_str(),
        };
        let has_transaction = shown.is_active || block != Block::Idle;
        let begun_at = if has_transaction {
            shown.transaction_begun_at
        } else {
            0
        };
        let (address, port) = match &shown.client {
            Some((address, port)) => (text(address), Datum::Int4((*port).into())),
            None => (Datum::Null, Datum::Int4(-1)),
        };
        let of_role = |value: Datum| if is_shown { value } else { Datum::Null };
        rows.push([
            ("datid", Datum::Oid(DATABASE)),
            ("datname", text(&from.session.database)),
            ("pid", Datum::Int4(peer.number)),
            ("usesysid", Datum::Oid(shown.role)),
            ("usename", role.map_or(Datum::Null, text)),
            ("application_name", text(&shown.application_name)),
            ("client_addr", of_role(address)),
            ("client_port", of_role(port)),
            ("backend_start", of_role(moment(peer.started_at))),
            ("xact_start", of_role(moment(begun_at))),
            ("query_start", of_role(moment(shown.text_begun_at))),
            ("state_change", of_role(moment(shown.state_changed_at))),
            ("wait_event_type", of_role(event_type)),
            ("wait_event", of_role(event)),
            ("state", of_role(text(state))),
            ("query", text(query)),
            ("backend_type", of_role(text("client backend"))),
        ]);
    }
    Ok(())
}

/// Numbers of sessions and what is shown of them, of those whose role the session's may see.
fn seen(from: &Sources<'_>) -> Vec<(Datum, Shown)> {
    let peers = from.session.sql.registry.peers();
    let peers = peers
        .iter()
        .map(|peer| (Datum::Int4(peer.number), peer.shown()));
    let seen = peers.filter(|(_, shown)| may_see(from, shown.role));
    seen.collect()
}

fn encryptions(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (number, shown) in seen(from) {
        let found = shown.encryption.as_ref();
        rows.push([
            ("pid", number),
            ("ssl", Datum::Bool(found.is_some())),
            (
                "version",
                found.map_or(Datum::Null, |found| text(&found.version)),
            ),
            (
                "cipher",
                found.map_or(Datum::Null, |found| text(&found.cipher)),
            ),
            (
                "bits",
                found.map_or(Datum::Null, |found| Datum::Int4(found.bits)),
            ),
        ]);
    }
    Ok(())
}

fn without_gss(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (number, _) in seen(from) {
        rows.push([
            ("pid", number),
            ("gss_authenticated", Datum::Bool(false)),
            ("encrypted", Datum::Bool(false)),
        ]);
    }
    Ok(())
}

/// Transactions, which hold the lock of their own end, those that wait for the end of another one,
/// and the locks of tables. The locks of rows are not listed.
fn locks(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let sql = &from.session.sql;
    let waits = sql.registry.waits(sql.database());
    let mut push = |holder: (String, Datum), relation: Datum, mode: &str, is_granted: bool| {
        let kind = match relation {
            Datum::Null => "transactionid",
            _ => "relation",
        };
        rows.push([
            ("locktype", text(kind)),
            (
                "database",
                if kind == "relation" {
                    Datum::Oid(DATABASE)
                } else {
                    Datum::Null
                },
            ),
            ("relation", relation),
            ("virtualtransaction", text(holder.0)),
            ("pid", holder.1),
            ("mode", text(mode)),
            ("granted", Datum::Bool(is_granted)),
            ("fastpath", Datum::Bool(false)),
        ]);
    };
    let session = |number: i32| (format!("{number}/0"), Datum::Int4(number));
    let mut owners = HashMap::new();
    for peer in sql.registry.peers() {
        owners.insert(peer.lock_owner(), peer.number);
        let shown = peer.shown();
        let is_open = matches!(shown.block, Some(Block::Open | Block::Failed));
        if shown.is_active || is_open {
            push(session(peer.number), Datum::Null, "ExclusiveLock", true);
        }
        if (waits.get(&peer.number)).is_some_and(|(kind, _)| *kind != LockKind::Table) {
            push(session(peer.number), Datum::Null, "ShareLock", false);
        }
    }
    for one in sql.database().prepared_transactions() {
        let holder = (format!("-1/{}", one.transaction as u32), Datum::Null);
        push(holder, Datum::Null, "ExclusiveLock", true);
    }
    let catalog = &from.names.catalog;
    let handles = catalog.objects().filter_map(|object| {
        let handle = catalog.handle(object.oid)?;
        Some((handle.id(), object.oid))
    });
    let relations: HashMap<TableId, Oid> = handles.collect();
    for claim in sql.database().table_claims() {
        let Some(relation) = relations.get(&claim.table) else {
            continue;
        };
        // Prepared transactions have no session.
        let holder = match owners.get(&claim.owner) {
            Some(number) => session(*number),
            None => ("-1/0".to_owned(), Datum::Null),
        };
        let mode = match claim.mode {
            TableLock::AccessShare => "AccessShareLock",
            TableLock::IntentShared => "RowShareLock",
            TableLock::IntentExclusive => "RowExclusiveLock",
            TableLock::Shared => "ShareLock",
            TableLock::SharedIntentExclusive => "ShareRowExclusiveLock",
            TableLock::ShareUpdateExclusive => "ShareUpdateExclusiveLock",
            TableLock::Exclusive => "ExclusiveLock",
            TableLock::AccessExclusive => "AccessExclusiveLock",
        };
        push(holder, Datum::Oid(*relation), mode, claim.is_held);
    }
    Ok(())
}

/// Whether the session's role sees the statements of another one.
fn may_see(from: &Sources<'_>, other: u32) -> bool {
    let (catalog, role) = (&from.names.catalog, from.names.role);
    catalog.has_rights_of(role, other) || catalog.has_rights_of(role, READ_ALL_STATS)
}

fn databases(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let registry = &from.session.sql.registry;
    let counts = registry.counts();
    rows.push([
        ("datid", Datum::Oid(DATABASE)),
        ("datname", text(&from.session.database)),
        ("numbackends", Datum::Int4(registry.peers().len() as i32)),
        ("xact_commit", Datum::Int8(counts[cost::COMMITTED] as i64)),
        (
            "xact_rollback",
            Datum::Int8(counts[cost::ROLLED_BACK] as i64),
        ),
    ]);
    Ok(())
}

/// The cost of the commits of all sessions since the database was opened.
fn costs(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let sql = &from.session.sql;
    let counts = sql.registry.counts();
    let count = |place: usize| Datum::Int8(counts[place] as i64);
    rows.push([
        ("method", text(sql.database().method().name())),
        ("domain", text(sql.database().survives())),
        (
            "partitions",
            Datum::Int4(sql.database().partitions() as i32),
        ),
        ("commits", count(cost::COMMITTED)),
        ("changes", count(cost::CHANGES)),
        ("fences", count(cost::FENCES)),
        ("lines_flushed", count(cost::LINES_FLUSHED)),
        ("bytes_stored", count(cost::BYTES_STORED)),
        ("bytes_written", count(cost::BYTES_WRITTEN)),
    ]);
    Ok(())
}

/// The cost of each partition, whoever has caused it.
fn wear(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let count = |count: u64| Datum::Int8(count.cast_signed());
    for (partition, wear) in (0..).zip(from.session.sql.database().wear()?) {
        rows.push([
            ("partition", Datum::Int4(partition)),
            ("fences", count(wear.fences)),
            ("lines_flushed", count(wear.lines_flushed)),
            ("bytes_stored", count(wear.bytes_stored)),
            ("bytes_written", count(wear.bytes_written)),
            ("syncs", count(wear.syncs)),
            ("log_line_writes", Datum::Float8(wear.log_line_writes)),
        ]);
    }
    Ok(())
}

/// Statements of all roles; the texts of those of others are for superusers.
fn statistics(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for statement in from.session.sql.statements.all() {
        let numbers = statement.numbers();
        let whole = |number: u64| Datum::Int8(number.cast_signed());
        let cost = |place: usize| whole(numbers.costs[place]);
        let is_shown = may_see(from, statement.role);
        let (id, shown) = match is_shown {
            true => (Datum::Int8(statement.id), &*statement.text),
            false => (Datum::Null, "<insufficient privilege>"),
        };
        rows.push([
            ("userid", Datum::Oid(statement.role)),
            ("dbid", Datum::Oid(DATABASE)),
            ("toplevel", Datum::Bool(true)),
            ("queryid", id),
            ("query", text(shown)),
            ("calls", whole(numbers.calls)),
            ("total_exec_time", Datum::Float8(numbers.total)),
            ("min_exec_time", Datum::Float8(numbers.least)),
            ("max_exec_time", Datum::Float8(numbers.most)),
            ("mean_exec_time", Datum::Float8(numbers.mean())),
            ("stddev_exec_time", Datum::Float8(numbers.deviation())),
            ("rows", whole(numbers.rows)),
            ("commits", cost(cost::COMMITTED)),
            ("fences", cost(cost::FENCES)),
            ("lines_flushed", cost(cost::LINES_FLUSHED)),
            ("bytes_stored", cost(cost::BYTES_STORED)),
            ("bytes_written", cost(cost::BYTES_WRITTEN)),
        ]);
    }
    Ok(())
}

fn statistics_info(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let sql = &from.session.sql;
    let (forgotten, reset_at) = sql.statements.info();
    let since = if reset_at == 0 {
        sql.opened_at()
    } else {
        reset_at
    };
    rows.push([
        ("dealloc", Datum::Int8(forgotten.cast_signed())),
        ("stats_reset", moment(since)),
    ]);
    Ok(())
}

fn methods(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let own = from.session.sql.database().method();
    for method in Method::ALL {
        rows.push([
            ("name", text(method.name())),
            ("is_used", Datum::Bool(method == own)),
        ]);
    }
    Ok(())
}

/// Older images of rows that snapshots need.
fn versions(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let database = from.session.sql.database();
    rows.push([
        ("images", Datum::Int8(database.snapshot_images() as i64)),
        ("bytes", Datum::Int8(database.snapshot_bytes() as i64)),
    ]);
    Ok(())
}
