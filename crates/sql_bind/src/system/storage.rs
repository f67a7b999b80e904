//! How values of types are stored and ordered, as `pg_type`, `pg_attribute` and `pg_opclass` say.
//!
//! Numbers and letters are those of PostgreSQL, because drivers keep tables of them.

use crate::catalog::Oid;
use crate::types::Kind;
use crate::types::kind::Category;

/// How values of a kind are stored, as `pg_type` and `pg_attribute` have it.
#[derive(Clone, Copy, Debug)]
pub struct Storage {
    /// Whether a place of a row holds the value itself.
    pub by_value: bool,
    /// The letter of its alignment.
    pub align: &'static str,
    /// The letter of the way to store long values.
    pub place: &'static str,
    /// The collation of its texts, or 0.
    pub collation: Oid,
}

/// The collation of the database.
const DEFAULT_COLLATION: Oid = 100;
/// The collation of code points.
const C_COLLATION: Oid = 950;

/// How values of a kind are stored.
pub fn storage_of(kind: Kind) -> Storage {
    let length = kind.length();
    let by_value = matches!(length, 1 | 2 | 4 | 8);
    let align = match (kind, kind.element()) {
        (_, Some(element)) if kind.is_array() && storage_of(element).align == "d" => "d",
        (Kind::Name | Kind::Uuid | Kind::Unknown, _) => "c",
        (Kind::Tid, _) => "s",
        (
            Kind::Interval
            | Kind::Timetz
            | Kind::Record
            | Kind::Composite(_)
            | Kind::AnyArray
            | Kind::AnyCompatibleArray,
            _,
        ) => "d",
        _ => match length {
            1 => "c",
            2 => "s",
            8 => "d",
            _ => "i",
        },
    };
    let place = match kind {
        Kind::Numeric => "m",
        Kind::Int2Vector | Kind::OidVector => "p",
        _ if length == -1 => "x",
        _ => "p",
    };
    let base = kind.element().filter(|_| kind.is_array());
    let collation = match base.unwrap_or(kind) {
        Kind::Text | Kind::Varchar | Kind::Bpchar | Kind::NodeTree => DEFAULT_COLLATION,
        Kind::Name => C_COLLATION,
        _ => 0,
    };
    Storage {
        by_value,
        align,
        place,
        collation,
    }
}

/// Classes of operators for orders: number, name, family, its name, and the type.
#[rustfmt::skip]
pub const OPERATOR_CLASSES: &[(Oid, &str, Oid, &str, Kind)] = &[
    (10003, "bool_ops", 424, "bool_ops", Kind::Bool),
    (10006, "bytea_ops", 428, "bytea_ops", Kind::Bytea),
    (10007, "char_ops", 429, "char_ops", Kind::Char),
    (10028, "name_ops", 1994, "text_ops", Kind::Name),
    (3124, "int8_ops", 1976, "integer_ops", Kind::Int8),
    (1979, "int2_ops", 1976, "integer_ops", Kind::Int2),
    (1978, "int4_ops", 1976, "integer_ops", Kind::Int4),
    (3126, "text_ops", 1994, "text_ops", Kind::Text),
    (1981, "oid_ops", 1989, "oid_ops", Kind::Oid),
    (10050, "tid_ops", 2789, "tid_ops", Kind::Tid),
    (10032, "oidvector_ops", 1991, "oidvector_ops", Kind::OidVector),
    (10012, "float4_ops", 1970, "float_ops", Kind::Float4),
    (3123, "float8_ops", 1970, "float_ops", Kind::Float8),
    (10004, "bpchar_ops", 426, "bpchar_ops", Kind::Bpchar),
    (3122, "date_ops", 434, "datetime_ops", Kind::Date),
    (10038, "time_ops", 1996, "time_ops", Kind::Time),
    (3128, "timestamp_ops", 434, "datetime_ops", Kind::Timestamp),
    (3127, "timestamptz_ops", 434, "datetime_ops", Kind::Timestamptz),
    (10022, "interval_ops", 1982, "interval_ops", Kind::Interval),
    (10041, "timetz_ops", 2000, "timetz_ops", Kind::Timetz),
    (3125, "numeric_ops", 1988, "numeric_ops", Kind::Numeric),
    (10034, "record_ops", 2994, "record_ops", Kind::Record),
    (10000, "array_ops", 397, "array_ops", Kind::AnyArray),
    (10065, "uuid_ops", 2968, "uuid_ops", Kind::Uuid),
    (10069, "enum_ops", 3522, "enum_ops", Kind::AnyEnum),
    (10088, "jsonb_ops", 4033, "jsonb_ops", Kind::Jsonb),
];

/// The class of operators of an index over a kind, or 0.
pub fn operator_class(kind: Kind) -> Oid {
    let wanted = match kind {
        Kind::Varchar => Kind::Text,
        Kind::Enum(_) => Kind::AnyEnum,
        Kind::Composite(_) => Kind::Record,
        kind if kind.is_array() => Kind::AnyArray,
        kind if kind.is_object_number() => Kind::Oid,
        kind => kind,
    };
    let mut classes = OPERATOR_CLASSES.iter();
    classes
        .find(|class| class.4 == wanted)
        .map_or(0, |class| class.0)
}

/// The letter of a category.
pub fn category_letter(category: Category) -> &'static str {
    match category {
        Category::Array => "A",
        Category::Boolean => "B",
        Category::Composite => "C",
        Category::DateTime => "D",
        Category::Enum => "E",
        Category::Numeric => "N",
        Category::Pseudo => "P",
        Category::String => "S",
        Category::Geometric => "G",
        Category::Timespan => "T",
        Category::User => "U",
        Category::Unknown => "X",
        Category::Internal => "Z",
    }
}
