//! Names of types in statements.
//!
//! Modifiers are checked here: lengths, precisions and digits outside their limits are errors with
//! PostgreSQL's messages.

use super::{Binder, cut, object_name};
use crate::catalog::{Oid, array_of, domain_of};
use crate::error::{Result, SqlError, SqlState};
use crate::names::SessionNames;
use crate::types::{Kind, Type};
use sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, GeometricTypeKind,
    IntervalFields, TimezoneInfo, TypeModifier,
};

/// A type as a statement names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeName {
    /// The type, or that below the domain.
    pub data_type: Type,
    /// Whether it is one of the serial types: an integer whose default is a sequence's next value.
    pub is_serial: bool,
    /// The domain that it is, if it is one, or the [`array_of`] that of its elements.
    pub domain: Option<Oid>,
}

impl From<Type> for TypeName {
    fn from(data_type: Type) -> Self {
        Self {
            data_type,
            is_serial: false,
            domain: None,
        }
    }
}

impl Binder<'_> {
    /// The type that a statement names.
    pub(super) fn data_type(&self, name: &DataType) -> Result<Type> {
        let named = type_named(self.names, name)?;
        if named.is_serial {
            return Err(no_type(&name.to_string()));
        }
        Ok(named.data_type)
    }
}

/// The type that a statement names.
pub fn type_named(names: &SessionNames, name: &DataType) -> Result<TypeName> {
    use DataType as Name;
    let plain = |kind: Kind| Ok(kind.plain().into());
    match name {
        Name::Bool | Name::Boolean => plain(Kind::Bool),
        Name::Int2(_) | Name::SmallInt(_) => plain(Kind::Int2),
        Name::Int(_) | Name::Int4(_) | Name::Integer(_) => plain(Kind::Int4),
        Name::Int8(_) | Name::BigInt(_) => plain(Kind::Int8),
        Name::Real | Name::Float4 => plain(Kind::Float4),
        Name::DoublePrecision | Name::Float8 | Name::Double(_) => plain(Kind::Float8),
        Name::Float(info) => float(info),
        Name::Numeric(info) | Name::Decimal(info) | Name::Dec(info) => numeric(info),
        Name::Char(length) | Name::Character(length) => {
            text(Kind::Bpchar, length.as_ref().or(Some(&ONE_CHARACTER)))
        }
        Name::Varchar(length) | Name::CharacterVarying(length) | Name::CharVarying(length) => {
            text(Kind::Varchar, length.as_ref())
        }
        Name::Text => plain(Kind::Text),
        Name::Bytea => plain(Kind::Bytea),
        Name::Date => plain(Kind::Date),
        Name::Time(digits, zone) => timed([Kind::Time, Kind::Timetz], *digits, *zone),
        Name::Timestamp(digits, zone) => {
            timed([Kind::Timestamp, Kind::Timestamptz], *digits, *zone)
        }
        Name::Interval { fields, precision } => interval(fields.as_ref(), *precision),
        Name::Uuid => plain(Kind::Uuid),
        Name::GeometricType(GeometricTypeKind::Point) => plain(Kind::Point),
        Name::GeometricType(GeometricTypeKind::LineSegment) => plain(Kind::Lseg),
        Name::GeometricType(GeometricTypeKind::GeometricPath) => plain(Kind::Path),
        Name::GeometricType(GeometricTypeKind::GeometricBox) => plain(Kind::Box),
        Name::GeometricType(GeometricTypeKind::Polygon) => plain(Kind::Polygon),
        Name::GeometricType(GeometricTypeKind::Circle) => plain(Kind::Circle),
        Name::JSON => plain(Kind::Json),
        Name::JSONB => plain(Kind::Jsonb),
        Name::Regclass => plain(Kind::Regclass),
        Name::Array(ArrayElemTypeDef::SquareBracket(element, _)) => array(names, element),
        Name::Custom(name, modifiers) => {
            let (schema, name) = object_name(name)?;
            named(names, schema.as_deref(), &name, modifiers)
        }
        Name::Collate(inner, _) => {
            let found = type_named(names, inner)?;
            check_collatable(found.data_type.kind)?;
            Ok(found)
        }
        other => Err(no_type(&other.to_string())),
    }
}

/// Fails unless values of a kind are texts, which have an order by a collation.
pub fn check_collatable(kind: Kind) -> Result<()> {
    let element = kind.element().unwrap_or(kind);
    let is_collatable = matches!(
        element,
        Kind::Text | Kind::Varchar | Kind::Bpchar | Kind::Name | Kind::Unknown
    );
    if is_collatable {
        return Ok(());
    }
    let message = format!("collations are not supported by type {kind}");
    Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
}

const ONE_CHARACTER: CharacterLength = CharacterLength::IntegerLength {
    length: 1,
    unit: None,
};

/// Domains of `information_schema`, by the types below them.
const STANDARD: [(&str, Kind); 5] = [
    ("cardinal_number", Kind::Int4),
    ("character_data", Kind::Varchar),
    ("sql_identifier", Kind::Name),
    ("time_stamp", Kind::Timestamptz),
    ("yes_or_no", Kind::Varchar),
];
/// Types that PostgreSQL has, by itself or in much used extensions, and types to use instead.
const NOT_HERE: [(&[&str], &str); 8] = [
    (&["money"], "numeric"),
    (&["bit", "bit varying", "varbit"], "text or bytea"),
    (&["inet", "cidr", "macaddr", "macaddr8"], "text"),
    (&["xml", "jsonpath", "tsvector", "tsquery", "ltree"], "text"),
    (&["citext"], "text, with an index on lower() of it"),
    (&["hstore"], "jsonb"),
    (&["line"], "lseg"),
    (
        &[
            "int4range",
            "int8range",
            "numrange",
            "tsrange",
            "tstzrange",
            "daterange",
        ],
        "two columns, for the ends",
    ),
];

fn no_type(name: &str) -> SqlError {
    let lower = name.to_lowercase();
    let plain = lower.split('(').next().unwrap_or_default().trim_end();
    let known = NOT_HERE.iter().find(|(names, _)| names.contains(&plain));
    if let Some((_, instead)) = known {
        return SqlError::unsupported(format!("the type {plain}"), format!("Use {instead}."));
    }
    let message = format!("type \"{}\" does not exist", name.to_lowercase());
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}

fn bad(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn float(info: &ExactNumberInfo) -> Result<TypeName> {
    match info {
        ExactNumberInfo::None => Ok(Kind::Float8.plain().into()),
        ExactNumberInfo::Precision(1..=24) => Ok(Kind::Float4.plain().into()),
        ExactNumberInfo::Precision(25..=53) => Ok(Kind::Float8.plain().into()),
        ExactNumberInfo::Precision(0) => {
            Err(bad("precision for type float must be at least 1 bit".into()))
        }
        _ => Err(bad(
            "precision for type float must be less than 54 bits".into()
        )),
    }
}

fn numeric(info: &ExactNumberInfo) -> Result<TypeName> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => return Ok(Kind::Numeric.plain().into()),
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    if !(1..=1000).contains(&precision) {
        return Err(bad(format!(
            "NUMERIC precision {precision} must be between 1 and 1000"
        )));
    }
    if !(-1000..=1000).contains(&scale) {
        return Err(bad(format!(
            "NUMERIC scale {scale} must be between -1000 and 1000"
        )));
    }
    Ok(Type::numeric(precision as u16, scale as i16).into())
}

fn text(kind: Kind, length: Option<&CharacterLength>) -> Result<TypeName> {
    let name = if kind == Kind::Bpchar {
        "char"
    } else {
        "varchar"
    };
    match length {
        None | Some(CharacterLength::Max) => Ok(kind.plain().into()),
        Some(CharacterLength::IntegerLength { length: 0, .. }) => {
            Err(bad(format!("length for type {name} must be at least 1")))
        }
        Some(CharacterLength::IntegerLength { length, .. }) => match u32::try_from(*length) {
            Ok(length) if length <= 10_485_760 => Ok(Type::text(kind, length).into()),
            _ => Err(bad(format!(
                "length for type {name} cannot exceed 10485760"
            ))),
        },
    }
}

fn timed(kinds: [Kind; 2], digits: Option<u64>, zone: TimezoneInfo) -> Result<TypeName> {
    let has_zone = matches!(zone, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz);
    with_digits(kinds[usize::from(has_zone)], digits)
}

/// More digits than there are mean all of them, as in PostgreSQL.
fn with_digits(kind: Kind, digits: Option<u64>) -> Result<TypeName> {
    Ok(match digits {
        None => kind.plain().into(),
        Some(digits) => Type::with_digits(kind, digits.min(6) as u8).into(),
    })
}

fn interval(fields: Option<&IntervalFields>, digits: Option<u64>) -> Result<TypeName> {
    let name = match fields {
        None => return with_digits(Kind::Interval, digits),
        Some(fields) => fields.to_string().to_lowercase(),
    };
    let known = crate::types::kind::INTERVAL_FIELDS.iter();
    let mut known = known.filter(|(_, known)| *known == name);
    let (mask, _) = known
        .next()
        .ok_or_else(|| no_type(&format!("interval {name}")))?;
    let digits = digits.map(|digits| digits.min(6) as u8);
    Ok(Type::interval(*mask, digits).into())
}

/// An array of a type; PostgreSQL's arrays have any number of dimensions.
fn array(names: &SessionNames, element: &DataType) -> Result<TypeName> {
    let element = type_named(names, element)?;
    let Type { kind, modifier } = element.data_type;
    if kind.is_array() {
        let of_arrays = element
            .domain
            .filter(|number| *number == domain_of(*number));
        return match of_arrays {
            None => Ok(element),
            Some(_) => Err(SqlError::unsupported(
                "an array of a domain over an array",
                "Use a domain over the type of the elements, and an array of it.",
            )),
        };
    }
    let kind = kind.array().ok_or_else(|| no_type(&format!("{kind}[]")))?;
    Ok(TypeName {
        domain: element.domain.map(array_of),
        ..Type { kind, modifier }.into()
    })
}

/// A type by its name: a serial type, one of the catalogue, or a built-in one.
fn named(
    names: &SessionNames,
    schema: Option<&str>,
    name: &str,
    modifiers: &[TypeModifier],
) -> Result<TypeName> {
    let serial = match name {
        _ if schema.is_some() => None,
        "serial" | "serial4" => Some(Kind::Int4),
        "bigserial" | "serial8" => Some(Kind::Int8),
        "smallserial" | "serial2" => Some(Kind::Int2),
        _ => None,
    };
    if let Some(kind) = serial {
        return Ok(TypeName {
            is_serial: true,
            ..kind.plain().into()
        });
    }
    if let Some((data_type, object)) = names.user_type(schema, name) {
        let is_domain = matches!(object.body, crate::catalog::Body::Domain(_));
        return Ok(TypeName {
            data_type,
            is_serial: false,
            domain: is_domain.then_some(object.oid),
        });
    }
    if schema == Some("information_schema")
        && let Some((_, kind)) = STANDARD.iter().find(|(own, _)| *own == name)
    {
        return Ok(kind.plain().into());
    }
    let name = if name == "nchar" && schema.is_none() && modifiers.is_empty() {
        return text(Kind::Bpchar, Some(&ONE_CHARACTER));
    } else if name == "nchar" && schema.is_none() {
        "bpchar"
    } else {
        name
    };
    let kind = match Kind::from_name(&cut(name.to_owned())) {
        Some(kind) if schema.is_none_or(|schema| schema == "pg_catalog") => kind,
        _ => return Err(no_type(name)),
    };
    let number = |at: usize| match modifiers.get(at) {
        Some(modifier) => modifier.to_string().parse::<u64>().ok(),
        None => None,
    };
    match (kind, number(0)) {
        (_, None) => Ok(kind.plain().into()),
        (Kind::Bpchar | Kind::Varchar, Some(length)) => text(
            kind,
            Some(&CharacterLength::IntegerLength { length, unit: None }),
        ),
        (Kind::Numeric, Some(precision)) => numeric(&match number(1) {
            Some(scale) => ExactNumberInfo::PrecisionAndScale(precision, scale as i64),
            None => ExactNumberInfo::Precision(precision),
        }),
        (
            Kind::Time | Kind::Timetz | Kind::Timestamp | Kind::Timestamptz | Kind::Interval,
            digits,
        ) => with_digits(kind, digits),
        _ => {
            let message = format!("type modifier is not allowed for type \"{name}\"");
            Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
        }
    }
}
