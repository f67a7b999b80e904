//! The stored form of a prepared transaction: what is known of it, its changes, its locks.
//!
//! Tables have their names beside their numbers, because a restored database numbers them anew.
//! Rows are whole, as values: the keys of a row may be encoded otherwise in a restored database. A
//! lock's key is as it was encoded; where encodings differ, those of changed rows are made of the
//! rows.
//!
//! | field | bytes |
//! |---|---|
//! | version | 1 |
//! | owner, moment, transaction | 8 each |
//! | database | length in 4, text |
//! | tables | count in 4; each: number in 4, name as the database |
//! | changes | count in 4; each: kind in 1, place of the table in 4, the row as in a log |
//! | locks | count in 4; each: kind in 1, place of the table in 4, mode in 1, words of its key |

use super::change::Change;
use super::prepared::PreparedTransaction;
use super::row_locks;
use crate::table::Table;
use std::collections::BTreeMap;
use storage::engine::PageId;
use storage::lock::{HeldLock, KeyMode, Mode};
use storage::log::redo::{read_row, write_row};
use storage::record::{DecodeError, KeyBuf, MAX_KEY_WORDS, Reader, Row, TableId};

/// Version 1 had other locks of rows.
const VERSION: u8 = 2;
const VERSION_1: u8 = 1;
const WHAT: &str = "a prepared transaction";

const INSERT: u8 = 0;
const UPDATE: u8 = 1;
const DELETE: u8 = 2;

const OF_TABLE: u8 = 0;
const OF_KEY: u8 = 1;

const MODES: [Mode; 8] = [
    Mode::IntentShared,
    Mode::IntentExclusive,
    Mode::Shared,
    Mode::SharedIntentExclusive,
    Mode::Exclusive,
    Mode::AccessShare,
    Mode::ShareUpdateExclusive,
    Mode::AccessExclusive,
];
const KEY_MODES: [KeyMode; 5] = [
    KeyMode::Shared,
    KeyMode::Update,
    KeyMode::Exclusive,
    KeyMode::KeyShare,
    KeyMode::NoKeyUpdate,
];

/// A change of a row, as it is stored.
pub(super) enum Written {
    Insert(Row),
    /// The row afterwards.
    Update(Row),
    /// The row before.
    Delete(Row),
}

/// A prepared transaction, as it is read.
pub(super) struct Body {
    pub(super) changes: Vec<(Table, Written)>,
    pub(super) locks: Vec<HeldLock>,
}

/// The stored form. `name_of` names the tables of locks.
pub(super) fn encode<'c>(
    facts: &PreparedTransaction,
    changes: impl Iterator<Item = &'c Change>,
    locks: &[HeldLock],
    name_of: impl Fn(TableId) -> String,
) -> Vec<u8> {
    let mut tables = Tables::default();
    let mut body = Vec::new();
    let mut count = 0_u32;
    for change in changes {
        let (kind, row) = match (&change.before, &change.after) {
            (None, Some(after)) => (INSERT, after),
            (Some(_), Some(after)) => (UPDATE, after),
            (Some(before), None) => (DELETE, before),
            (None, None) => continue,
        };
        count += 1;
        body.push(kind);
        let place = tables.place(change.table.id(), || change.table.name().to_owned());
        body.extend_from_slice(&place.to_le_bytes());
        let start = body.len() + 4;
        body.extend_from_slice(&[0; 4]);
        write_row(row, &mut body);
        let length = (body.len() - start) as u32;
        body[start - 4..start].copy_from_slice(&length.to_le_bytes());
    }
    body.extend_from_slice(&(locks.len() as u32).to_le_bytes());
    for lock in locks {
        encode_lock(lock, &mut tables, &name_of, &mut body);
    }
    let mut bytes = vec![VERSION];
    for number in [facts.owner, facts.prepared_at, facts.transaction] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    put_text(&facts.database, &mut bytes);
    bytes.extend_from_slice(&(tables.all.len() as u32).to_le_bytes());
    for (id, name) in &tables.all {
        bytes.extend_from_slice(&id.0.to_le_bytes());
        put_text(name, &mut bytes);
    }
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

fn encode_lock(
    lock: &HeldLock,
    tables: &mut Tables,
    name_of: &impl Fn(TableId) -> String,
    body: &mut Vec<u8>,
) {
    let mut begin = |kind: u8, table: TableId| {
        body.push(kind);
        let place = tables.place(table, || name_of(table));
        body.extend_from_slice(&place.to_le_bytes());
    };
    match lock {
        HeldLock::Table { table, mode } => {
            begin(OF_TABLE, *table);
            body.push(place_of(&MODES, mode));
        }
        HeldLock::Key {
            table, key, mode, ..
        } => {
            begin(OF_KEY, *table);
            body.push(place_of(&KEY_MODES, mode));
            body.push(key.len() as u8);
            for word in key.iter() {
                body.extend_from_slice(&word.to_le_bytes());
            }
        }
    }
}

/// Reads the facts alone, which need no tables.
pub(super) fn facts(name: &str, bytes: &[u8]) -> Result<PreparedTransaction, String> {
    read_facts(name, &mut Reader::new(bytes)).map_err(|error| error.to_string())
}

/// Reads the stored form. `find` finds tables by number and name.
pub(super) fn decode(
    name: &str,
    bytes: &[u8],
    find: impl Fn(TableId, &str) -> Option<Table>,
) -> Result<Body, String> {
    let damaged = |error: DecodeError| error.to_string();
    let reader = &mut Reader::new(bytes);
    read_facts(name, reader).map_err(damaged)?;
    let mut tables = Vec::new();
    for _ in 0..reader.number(WHAT).map_err(damaged)? {
        let id = TableId(reader.number(WHAT).map_err(damaged)?);
        let name = reader.text(WHAT).map_err(damaged)?;
        let table = find(id, name).ok_or_else(|| format!("there is no table `{name}`"))?;
        tables.push(table);
    }
    let table_at = |reader: &mut Reader<'_>| {
        let place = reader.number(WHAT).map_err(damaged)? as usize;
        let table: Option<&Table> = tables.get(place);
        table.ok_or_else(|| format!("it has no table {place}"))
    };
    let mut changes = Vec::new();
    for _ in 0..reader.number(WHAT).map_err(damaged)? {
        let kind = reader.byte(WHAT).map_err(damaged)?;
        let table = table_at(reader)?;
        let mut row = table.row();
        let image = reader.content(WHAT).map_err(damaged)?;
        read_row(image, &mut row).map_err(|error| error.to_string())?;
        let written = match kind {
            INSERT => Written::Insert(row),
            UPDATE => Written::Update(row),
            DELETE => Written::Delete(row),
            other => return Err(format!("a change of kind {other}")),
        };
        changes.push((table.clone(), written));
    }
    let mut locks = Vec::new();
    for _ in 0..reader.number(WHAT).map_err(damaged)? {
        let kind = reader.byte(WHAT).map_err(damaged)?;
        let table = table_at(reader)?.id();
        let lock = read_lock(kind, table, reader)?;
        if bytes.first() == Some(&VERSION_1) {
            of_earlier(lock, &mut locks);
        } else {
            locks.push(lock);
        }
    }
    Ok(Body { changes, locks })
}

fn read_facts(name: &str, reader: &mut Reader<'_>) -> Result<PreparedTransaction, DecodeError> {
    let version = reader.byte(WHAT)?;
    if ![VERSION_1, VERSION].contains(&version) {
        return Err(DecodeError::Unknown {
            what: "the version of a prepared transaction",
            found: version.into(),
        });
    }
    Ok(PreparedTransaction {
        name: name.to_owned(),
        owner: reader.array(WHAT).map(i64::from_le_bytes)?,
        prepared_at: reader.array(WHAT).map(i64::from_le_bytes)?,
        transaction: reader.array(WHAT).map(i64::from_le_bytes)?,
        database: reader.text(WHAT)?.to_owned(),
    })
}

/// Adds a lock of version 1 as it is taken now.
fn of_earlier(lock: HeldLock, locks: &mut Vec<HeldLock>) {
    match lock {
        HeldLock::Key {
            table,
            tree,
            key,
            mode,
        } => locks.extend(
            row_locks::of_earlier(key, mode)
                .into_iter()
                .map(|(key, mode)| HeldLock::Key {
                    table,
                    tree,
                    key,
                    mode,
                }),
        ),
        table @ HeldLock::Table { .. } => locks.push(table),
    }
}

fn read_lock(kind: u8, table: TableId, reader: &mut Reader<'_>) -> Result<HeldLock, String> {
    let damaged = |error: DecodeError| error.to_string();
    let mode = usize::from(reader.byte(WHAT).map_err(damaged)?);
    let unknown = || format!("a lock of mode {mode}");
    match kind {
        OF_TABLE => Ok(HeldLock::Table {
            table,
            mode: *MODES.get(mode).ok_or_else(unknown)?,
        }),
        OF_KEY => {
            let mode = *KEY_MODES.get(mode).ok_or_else(unknown)?;
            let count = usize::from(reader.byte(WHAT).map_err(damaged)?);
            if count > MAX_KEY_WORDS {
                return Err(format!("a key of {count} words"));
            }
            let words = (0..count).map(|_| reader.array(WHAT).map(u64::from_le_bytes));
            let words: Vec<u64> = words.collect::<Result<_, _>>().map_err(damaged)?;
            Ok(HeldLock::Key {
                table,
                tree: PageId(table.0),
                key: KeyBuf::from_words(&words),
                mode,
            })
        }
        other => Err(format!("a lock of kind {other}")),
    }
}

/// Tables in the order in which they were first named.
#[derive(Default)]
struct Tables {
    all: Vec<(TableId, String)>,
    places: BTreeMap<TableId, u32>,
}

impl Tables {
    fn place(&mut self, table: TableId, name: impl FnOnce() -> String) -> u32 {
        *self.places.entry(table).or_insert_with(|| {
            self.all.push((table, name()));
            self.all.len() as u32 - 1
        })
    }
}

fn place_of<T: PartialEq>(all: &[T], one: &T) -> u8 {
    let place = all.iter().position(|other| other == one);
    place.expect("the list has all modes") as u8
}

fn put_text(text: &str, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
}
