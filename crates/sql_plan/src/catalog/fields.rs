//! Fields that the bodies of several kinds of objects have, in their rows.
//!
//! They are written and read here alone, so that a type has one form in all bodies.

use crate::error::Result;
use crate::types::{Kind, Type};
use sql_values::codec::{Reader, Writer};

pub(super) fn write_positions(writer: &mut Writer, positions: &[usize]) {
    writer.list(positions, |writer, position| {
        writer.number(*position as i64);
    });
}

pub(super) fn read_positions(reader: &mut Reader<'_>) -> Result<Vec<usize>> {
    reader.list(Reader::integer)
}

/// A kind is its number, and its group where users define it.
pub(super) fn write_type(writer: &mut Writer, data_type: &Type) {
    let (group, oid) = match data_type.kind {
        Kind::Enum(oid) => (1, oid),
        Kind::EnumArray(oid) => (2, oid),
        Kind::Composite(oid) => (3, oid),
        Kind::CompositeArray(oid) => (4, oid),
        kind => (0, kind.oid()),
    };
    writer.byte(group);
    writer.number(oid.into());
    writer.number(data_type.modifier.into());
}

pub(super) fn read_type(reader: &mut Reader<'_>) -> Result<Type> {
    let group = reader.byte()?;
    let oid = reader.integer()?;
    let kind = match group {
        0 => Kind::from_oid(oid).ok_or_else(|| reader.damaged())?,
        1 => Kind::Enum(oid),
        2 => Kind::EnumArray(oid),
        3 => Kind::Composite(oid),
        4 => Kind::CompositeArray(oid),
        _ => return Err(reader.damaged()),
    };
    let modifier = reader.integer()?;
    Ok(Type { kind, modifier })
}
