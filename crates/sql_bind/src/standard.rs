//! Functions of `information_schema`: lengths and precisions of types, from their modifiers.
//!
//! Their names are those of PostgreSQL, whose views some clients copy; NULL means that the type has
//! no such measure.

use crate::types::Kind::{self, Int4, Text};
use crate::types::function::Function;
use crate::types::kind::INTERVAL_FIELDS;
use crate::types::{Datum, Type};
use sql_parse::NAME_BYTES_MAX;

const OID: Kind = Kind::Oid;
const RECORD: Kind = Kind::Record;

/// A function of a type's number and a modifier.
macro_rules! of_type {
    ($name:literal, $result:expr, $code:expr) => {
        Function::scalar($name, &[OID, Int4], $result, |_, a| {
            let code: fn(Type) -> Datum = $code;
            let kind = match &a[0] {
                Datum::Oid(oid) => Kind::from_oid(*oid),
                _ => None,
            };
            // The measures of an array are those of its elements, and none of its own.
            let kind = kind.filter(|kind| kind.element().is_none());
            let modifier = a[1].int4()?;
            Ok(kind.map_or(Datum::Null, |kind| code(Type { kind, modifier })))
        })
    };
}

/// The functions of this module.
pub(super) const FUNCTIONS: &[Function] = &[
    // Of rows of `pg_attribute` and `pg_type`: the type below a domain, and its modifier.
    Function::scalar("_pg_truetypid", &[RECORD, RECORD], OID, |_, a| {
        Ok(below_domain(a, "typbasetype", "atttypid"))
    })
    .nullable(),
    Function::scalar("_pg_truetypmod", &[RECORD, RECORD], Int4, |_, a| {
        Ok(below_domain(a, "typtypmod", "atttypmod"))
    })
    .nullable(),
    // The name that `information_schema` gives to a function: its own, cut where it is too long.
    Function::scalar("nameconcatoid", &[Kind::Name, OID], Kind::Name, |_, a| {
        let (name, oid) = (a[0].str()?, &a[1]);
        let end = match oid {
            Datum::Oid(oid) => format!("_{oid}"),
            _ => return Ok(Datum::Null),
        };
        let length = name.floor_char_boundary(NAME_BYTES_MAX - end.len());
        Ok(Datum::text(format!("{}{end}", &name[..length])))
    }),
    of_type!("_pg_char_max_length", Int4, |of| number(
        of.length().map(|length| length as i32)
    )),
    of_type!("_pg_char_octet_length", Int4, |of| {
        number(match (of.kind, of.length()) {
            (Kind::Text | Kind::Bpchar | Kind::Varchar, None) => Some(OCTETS_MAX),
            (_, length) => length.map(|length| length as i32 * UTF8_BYTES_MAX),
        })
    }),
    of_type!("_pg_numeric_precision", Int4, |of| {
        number(match of.kind {
            Kind::Int2 => Some(16),
            Kind::Int4 => Some(32),
            Kind::Int8 => Some(64),
            Kind::Float4 => Some(24),
            Kind::Float8 => Some(53),
            _ => of.precision().map(|(precision, _)| precision.into()),
        })
    }),
    of_type!("_pg_numeric_precision_radix", Int4, |of| {
        number(match of.kind {
            Kind::Int2 | Kind::Int4 | Kind::Int8 | Kind::Float4 | Kind::Float8 => Some(2),
            Kind::Numeric => Some(10),
            _ => None,
        })
    }),
    of_type!("_pg_numeric_scale", Int4, |of| {
        number(match of.kind {
            Kind::Int2 | Kind::Int4 | Kind::Int8 => Some(0),
            _ => of.precision().map(|(_, scale)| scale.into()),
        })
    }),
    of_type!("_pg_datetime_precision", Int4, |of| {
        number(match of.kind {
            Kind::Date => Some(0),
            Kind::Time | Kind::Timetz | Kind::Timestamp | Kind::Timestamptz | Kind::Interval => {
                Some(of.digits().map_or(6, i32::from))
            }
            _ => None,
        })
    }),
    of_type!("_pg_interval_type", Text, |of| {
        let fields = of.interval_fields().filter(|_| of.kind == Kind::Interval);
        let name = INTERVAL_FIELDS
            .iter()
            .find(|(mask, _)| Some(*mask) == fields);
        name.map_or(Datum::Null, |(_, name)| Datum::text(name.to_uppercase()))
    }),
];

/// Bytes of a text without a limit, as the standard's views have it.
const OCTETS_MAX: i32 = 1 << 30;
/// Bytes of a character.
const UTF8_BYTES_MAX: i32 = 4;

/// Of a domain the field `of_domain` of the row of its type, else the field `own` of the column's.
fn below_domain(rows: &[Datum], of_domain: &str, own: &str) -> Datum {
    let is_domain = matches!(field(&rows[1], "typtype"), Datum::Text(letter) if &*letter == "d");
    match is_domain {
        true => field(&rows[1], of_domain),
        false => field(&rows[0], own),
    }
}

/// A field of a row by its name; NULL if it has none.
fn field(row: &Datum, name: &str) -> Datum {
    let Datum::Record(record) = row else {
        return Datum::Null;
    };
    let mut names = record.shape.names.iter();
    let at = names.position(|own| &**own == name);
    let found = at.and_then(|at| record.fields.get(at));
    found.cloned().unwrap_or(Datum::Null)
}

fn number(number: Option<i32>) -> Datum {
    number.map_or(Datum::Null, Datum::Int4)
}
