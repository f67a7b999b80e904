//! Rows of schema objects in the hidden table, and the catalogue that is made of them.
//!
//! A table below exists for SQL only if a row names it. A crash or a rollback may leave one that no
//! row names, or an index that no table has: an *orphan*. [`load`] drops the indexes, since unique
//! ones would refuse rows, and lists the tables. It refuses a database in which a row names a table
//! that is not there.

use super::Catalog;
use super::object::{Body, Object};
use super::oid::{FIRST_OID, Oid};
use crate::error::{Result, SqlError, SqlState};
use indelible::{Connection, Database, Error, HiddenTable, Owner, Table, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The table of objects. Its lock keeps transactions from defining objects at the same time.
pub fn table(database: &Database) -> Result<Table> {
    Ok(database.hidden_table(HiddenTable::SchemaObjects)?)
}

/// Writes the row of an object in the transaction of a connection.
pub fn put(table: &Table, connection: &mut Connection, object: &Object) -> Result<()> {
    remove(table, connection, object.oid)?;
    let row = [
        Value::Int64(object.oid.into()),
        Value::Int16(object.kind()),
        Value::Int64(object.namespace.into()),
        Value::Text(object.name.clone()),
        Value::Bytes(object.encode()),
    ];
    Ok(connection.insert(table, &row[..])?)
}

/// Deletes the row of an object, if it has one.
pub fn remove(table: &Table, connection: &mut Connection, oid: Oid) -> Result<()> {
    connection.delete(table, i64::from(oid))?;
    Ok(())
}

/// The catalogue of a database, as an opening has read it.
pub struct Loaded {
    /// Its catalogue.
    pub catalog: Catalog,
    /// The least number that no object has.
    pub next_oid: Oid,
    /// Names of tables below that no row names.
    pub orphans: Vec<String>,
}

/// Reads the catalogue of a database.
pub fn load(database: &Database) -> Result<Loaded> {
    let rows = match database.hidden_table(HiddenTable::SchemaObjects) {
        Ok(table) => database.read(|reader| reader.collect(&table, ..))?,
        // The database is open for reading, and SQL has never been used in it.
        Err(Error::NoSuchTable { .. }) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let mut catalog = Catalog::new();
    let mut next_oid = FIRST_OID;
    for row in rows {
        let object = decode(&row.to_values())?;
        next_oid = next_oid.max(highest(&object) + 1);
        if let Body::Table(body) = &object.body {
            let handle = database.table(&body.physical).map_err(|_| {
                let message = format!("the rows of table \"{}\" are missing", object.name);
                SqlError::new(SqlState::DATA_CORRUPTED, message)
                    .hint("Run `indelible verify`, or restore a backup.")
            })?;
            // Plans look at the statistics that are in memory.
            database.table_statistics(&handle)?;
            catalog.set_handle(object.oid, handle);
        }
        catalog.put(object);
    }
    catalog.correct_owners();
    let orphans = match drop_loose_indexes(database, &catalog) {
        // Nothing names them, so a reader can leave them where they are; and if there is no room to
        // drop them, a later opening does it.
        Err(Error::ReadOnly) => Vec::new(),
        Err(error) if error.is_out_of_space() => Vec::new(),
        orphans => orphans?,
    };
    Ok(Loaded {
        catalog,
        next_oid,
        orphans,
    })
}

/// The highest number that an object or a part of it has.
fn highest(object: &Object) -> Oid {
    match &object.body {
        Body::Table(table) => table.parts().fold(object.oid, Oid::max),
        // The number after an enum's is that of its arrays.
        Body::Enum(_) => object.oid + 1,
        Body::Sequence(sequence) => object.oid.max(sequence.number(object.oid)),
        _ => object.oid,
    }
}

fn decode(row: &[Value]) -> Result<Object> {
    let [oid, kind, namespace, name, body] = row else {
        return Err(damaged());
    };
    let number = |value: &Value| {
        let number = value.as_ref().as_i64();
        number
            .and_then(|number| u32::try_from(number).ok())
            .ok_or_else(damaged)
    };
    let kind = i16::try_from(number(kind)?).map_err(|_| damaged())?;
    let name = name.as_ref().as_str().ok_or_else(damaged)?;
    let body = body.as_ref().as_bytes().ok_or_else(damaged)?;
    Object::decode((number(oid)?, kind, number(namespace)?), name, body)
}

fn damaged() -> SqlError {
    let message = "a row of the table of schema objects cannot be read";
    SqlError::new(SqlState::DATA_CORRUPTED, message)
        .hint("Run `indelible verify`, or restore a backup.")
}

/// Drops indexes that no row names, and lists tables that none names: transactions have made them
/// that did not commit.
fn drop_loose_indexes(database: &Database, catalog: &Catalog) -> Result<Vec<String>, Error> {
    let mut named: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for object in catalog.objects() {
        if let Body::Table(table) = &object.body {
            let indexes = table.indexes.iter().map(|index| index.physical.as_deref());
            let of_table = named.entry(&table.physical).or_default();
            of_table.extend(indexes.flatten());
        }
    }
    let mut orphans = Vec::new();
    for table in database.tables() {
        let definition = table.definition();
        if definition.owner != Owner::Sql {
            continue;
        }
        let Some(indexes) = named.get(table.name()) else {
            orphans.push(table.name().to_owned());
            continue;
        };
        for index in &definition.indexes {
            if !indexes.contains(index.name.as_str()) {
                database.drop_index(&table, &index.name)?;
            }
        }
    }
    Ok(orphans)
}
