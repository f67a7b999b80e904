//! Tables of the typed interface, as SQL sees them: in `public`, with the types of their columns.
//!
//! They keep the number of the table below, far above those of the catalogue, and have no rows
//! there: whatever the typed interface creates or drops is seen at once.

use super::constraint::{Constraint, Deferral, Rule};
use super::object::{Body, Column, Index, Object, TableBody};
use super::oid::{Oid, PUBLIC};
use crate::types::{Kind, Type};
use indelible::{DataType, Database, Owner, Table};

/// Numbers of typed tables begin here; those of the catalogue end before. The bit above them tells
/// the arrays of their rows.
const FIRST: Oid = 1 << 30;
/// The bits of the number of a table; those of its indexes have a count above them.
const TABLE_BITS: u32 = 22;

/// Whether a number is that of a table of the typed interface, or of its indexes.
pub const fn is_typed(oid: Oid) -> bool {
    oid >= FIRST && oid < 2 * FIRST
}

/// The number of an index of a table.
fn index_oid(table: Oid, at: usize) -> Oid {
    table + (((at as Oid + 1) & 0xff) << TABLE_BITS)
}

/// The table of the typed interface with a name; none if SQL owns it.
pub fn typed_by_name(database: &Database, name: &str) -> Option<Object> {
    typed_table(&database.table(name).ok()?)
}

/// The table of the typed interface with a number, or with an index that has it.
pub fn typed_by_oid(database: &Database, oid: Oid) -> Option<Object> {
    if !is_typed(oid) {
        return None;
    }
    let number = oid & ((1 << TABLE_BITS) - 1);
    let mut tables = database.tables().into_iter();
    typed_table(&tables.find(|table| table.id().0 == number)?)
}

/// A table of the typed interface; none if SQL owns it.
pub fn typed_table(table: &Table) -> Option<Object> {
    let definition = table.definition();
    if definition.owner == Owner::Sql {
        return None;
    }
    let oid = FIRST + (table.id().0 & ((1 << TABLE_BITS) - 1));
    let columns = definition.columns.iter().map(|column| Column {
        not_null: !column.nullable,
        ..Column::new(column.name.clone(), type_of(column.data_type))
    });
    let name = format!("{}_pkey", definition.name);
    let primary = Index {
        oid: index_oid(oid, 0),
        name: name.clone(),
        physical: None,
        columns: definition.primary_key.clone(),
        is_unique: true,
        options: vec![(false, false); definition.primary_key.len()],
    };
    let others = definition.indexes.iter().enumerate();
    let others = others.map(|(at, index)| Index {
        oid: index_oid(oid, at + 1),
        name: index.name.clone(),
        physical: Some(index.name.clone()),
        columns: index.columns.clone(),
        is_unique: index.unique,
        options: vec![(false, false); index.columns.len()],
    });
    let key = definition.primary_key.clone();
    Some(Object {
        oid,
        namespace: PUBLIC,
        name: definition.name.clone(),
        comment: None,
        body: Body::Table(TableBody {
            physical: definition.name.clone(),
            columns: columns.collect(),
            constraints: vec![Constraint {
                oid: index_oid(oid, 0),
                name,
                rule: Rule::Primary {
                    columns: key.clone(),
                    deferral: Deferral::Never,
                },
            }],
            key,
            indexes: std::iter::once(primary).chain(others).collect(),
            ..TableBody::empty()
        }),
    })
}

/// The type of SQL whose values a column has.
fn type_of(data_type: DataType) -> Type {
    match data_type {
        DataType::Bool => Kind::Bool.plain(),
        DataType::Int16 => Kind::Int2.plain(),
        DataType::Int32 => Kind::Int4.plain(),
        DataType::Int64 => Kind::Int8.plain(),
        DataType::Float64 => Kind::Float8.plain(),
        DataType::Decimal { precision, scale } => Type::numeric(precision.into(), scale.into()),
        DataType::Char { .. } | DataType::Varchar { .. } | DataType::Text => Kind::Text.plain(),
        DataType::Bytes { .. } | DataType::Sortable { .. } => Kind::Bytea.plain(),
        DataType::Date => Kind::Date.plain(),
        DataType::Timestamp => Kind::Timestamp.plain(),
        DataType::Uuid => Kind::Uuid.plain(),
    }
}
