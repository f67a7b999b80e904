//! The types of SQL.
//!
//! A [`Kind`] is a type without its modifier, as functions and operators see it; a [`Type`] is a
//! kind with PostgreSQL's `atttypmod`, as columns have it. Facts about the kinds (numbers,
//! categories, preference, lengths) are those of PostgreSQL's `pg_type`. Domains do not appear
//! here: the binder replaces them by their base type.

use std::fmt::{self, Display, Write as _};

/// A type without its modifier.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// `boolean`.
    Bool,
    /// `bytea`.
    Bytea,
    /// `"char"`, one byte.
    Char,
    /// `name`, at most 63 bytes.
    Name,
    /// `bigint`.
    Int8,
    /// `smallint`.
    Int2,
    /// `int2vector`.
    Int2Vector,
    /// `integer`.
    Int4,
    /// `regproc`.
    Regproc,
    /// `text`.
    Text,
    /// `oid`.
    Oid,
    /// `tid`.
    Tid,
    /// `xid`.
    Xid,
    /// `cid`.
    Cid,
    /// `oidvector`.
    OidVector,
    /// `json`.
    Json,
    /// `pg_node_tree`, expressions of the catalogue.
    NodeTree,
    /// `point`.
    Point,
    /// `lseg`.
    Lseg,
    /// `path`.
    Path,
    /// `box`.
    Box,
    /// `polygon`.
    Polygon,
    /// `circle`.
    Circle,
    /// `real`.
    Float4,
    /// `double precision`.
    Float8,
    /// A literal whose type the context decides.
    Unknown,
    /// `character(n)`.
    Bpchar,
    /// `character varying`.
    Varchar,
    /// `date`.
    Date,
    /// `time without time zone`.
    Time,
    /// `timestamp without time zone`.
    Timestamp,
    /// `timestamp with time zone`.
    Timestamptz,
    /// `interval`.
    Interval,
    /// `time with time zone`.
    Timetz,
    /// `numeric`.
    Numeric,
    /// `refcursor`, the name of a cursor.
    Refcursor,
    /// `regprocedure`.
    Regprocedure,
    /// `regoper`.
    Regoper,
    /// `regoperator`.
    Regoperator,
    /// `regclass`.
    Regclass,
    /// `regtype`.
    Regtype,
    /// `uuid`.
    Uuid,
    /// `jsonb`.
    Jsonb,
    /// `regnamespace`.
    Regnamespace,
    /// `regrole`.
    Regrole,
    /// A row of any shape.
    Record,
    /// The result of a function that has none.
    Void,
    /// Any type.
    Any,
    /// Any type, the same for all arguments and the result.
    AnyElement,
    /// An array of the type of `anyelement`.
    AnyArray,
    /// Any type that is no array.
    AnyNonArray,
    /// Any enum.
    AnyEnum,
    /// Any type to which all arguments of this kind can be promoted.
    AnyCompatible,
    /// An array of the type of `anycompatible`.
    AnyCompatibleArray,
    /// Any type of `anycompatible` that is no array.
    AnyCompatibleNonArray,
    /// An enum of the catalogue, by number.
    Enum(u32),
    /// The row of a table of the catalogue, by number of its type.
    Composite(u32),
    /// An array of the kind.
    Array(&'static Kind),
    /// An array of an enum, by number of the enum; its own number is the next one.
    EnumArray(u32),
    /// An array of rows of a type of the catalogue, by number of the type.
    CompositeArray(u32),
}

/// The bit of the number of an array of rows, which is else that of its element.
pub const ARRAY_OF_ROWS: u32 = 1 << 31;

/// Groups of types, for the choice between overloads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Category {
    /// Arrays.
    Array,
    /// Booleans.
    Boolean,
    /// Rows of tables.
    Composite,
    /// Dates and times.
    DateTime,
    /// Enums.
    Enum,
    /// Points and what is made of them.
    Geometric,
    /// Numbers.
    Numeric,
    /// Types that stand for others.
    Pseudo,
    /// Texts.
    String,
    /// Intervals.
    Timespan,
    /// All others.
    User,
    /// Literals without a type.
    Unknown,
    /// Types of the system's own.
    Internal,
}

struct Facts {
    oid: u32,
    array_oid: u32,
    /// Bytes of a value, or -1.
    length: i16,
    category: Category,
    /// As `format_type` prints it.
    name: &'static str,
    /// As the catalogue has it.
    catalogue_name: &'static str,
}

/// The kinds with numbers of their own, in the order of their numbers.
pub const KINDS: &[Kind] = &[
    Kind::Bool,
    Kind::Bytea,
    Kind::Char,
    Kind::Name,
    Kind::Int8,
    Kind::Int2,
    Kind::Int2Vector,
    Kind::Int4,
    Kind::Regproc,
    Kind::Text,
    Kind::Oid,
    Kind::Tid,
    Kind::Xid,
    Kind::Cid,
    Kind::OidVector,
    Kind::Json,
    Kind::NodeTree,
    Kind::Point,
    Kind::Lseg,
    Kind::Path,
    Kind::Box,
    Kind::Polygon,
    Kind::Float4,
    Kind::Float8,
    Kind::Unknown,
    Kind::Circle,
    Kind::Bpchar,
    Kind::Varchar,
    Kind::Date,
    Kind::Time,
    Kind::Timestamp,
    Kind::Timestamptz,
    Kind::Interval,
    Kind::Timetz,
    Kind::Numeric,
    Kind::Refcursor,
    Kind::Regprocedure,
    Kind::Regoper,
    Kind::Regoperator,
    Kind::Regclass,
    Kind::Regtype,
    Kind::Record,
    Kind::Any,
    Kind::AnyArray,
    Kind::Void,
    Kind::AnyElement,
    Kind::AnyNonArray,
    Kind::Uuid,
    Kind::AnyEnum,
    Kind::Jsonb,
    Kind::Regnamespace,
    Kind::Regrole,
    Kind::AnyCompatible,
    Kind::AnyCompatibleArray,
    Kind::AnyCompatibleNonArray,
];

impl Kind {
    #[rustfmt::skip]
    fn facts(self) -> Facts {
        use Category::{Array, Boolean, Composite, DateTime, Enum, Geometric, Internal, Numeric, Pseudo, String, Timespan, Unknown, User};
        let (oid, array_oid, length, category, name, catalogue_name) = match self {
            Kind::Bool => (16, 1000, 1, Boolean, "boolean", "bool"),
            Kind::Bytea => (17, 1001, -1, User, "bytea", "bytea"),
            Kind::Char => (18, 1002, 1, Internal, "\"char\"", "char"),
            Kind::Name => (19, 1003, 64, String, "name", "name"),
            Kind::Int8 => (20, 1016, 8, Numeric, "bigint", "int8"),
            Kind::Int2 => (21, 1005, 2, Numeric, "smallint", "int2"),
            Kind::Int2Vector => (22, 1006, -1, Array, "int2vector", "int2vector"),
            Kind::Int4 => (23, 1007, 4, Numeric, "integer", "int4"),
            Kind::Regproc => (24, 1008, 4, Numeric, "regproc", "regproc"),
            Kind::Text => (25, 1009, -1, String, "text", "text"),
            Kind::Oid => (26, 1028, 4, Numeric, "oid", "oid"),
            Kind::Tid => (27, 1010, 6, User, "tid", "tid"),
            Kind::Xid => (28, 1011, 4, User, "xid", "xid"),
            Kind::Cid => (29, 1012, 4, User, "cid", "cid"),
            Kind::OidVector => (30, 1013, -1, Array, "oidvector", "oidvector"),
            Kind::Json => (114, 199, -1, User, "json", "json"),
            Kind::NodeTree => (194, 0, -1, Internal, "pg_node_tree", "pg_node_tree"),
            Kind::Point => (600, 1017, 16, Geometric, "point", "point"),
            Kind::Lseg => (601, 1018, 32, Geometric, "lseg", "lseg"),
            Kind::Path => (602, 1019, -1, Geometric, "path", "path"),
            Kind::Box => (603, 1020, 32, Geometric, "box", "box"),
            Kind::Polygon => (604, 1027, -1, Geometric, "polygon", "polygon"),
            Kind::Circle => (718, 719, 24, Geometric, "circle", "circle"),
            Kind::Float4 => (700, 1021, 4, Numeric, "real", "float4"),
            Kind::Float8 => (701, 1022, 8, Numeric, "double precision", "float8"),
            Kind::Unknown => (705, 0, -2, Unknown, "unknown", "unknown"),
            Kind::Bpchar => (1042, 1014, -1, String, "character", "bpchar"),
            Kind::Varchar => (1043, 1015, -1, String, "character varying", "varchar"),
            Kind::Date => (1082, 1182, 4, DateTime, "date", "date"),
            Kind::Time => (1083, 1183, 8, DateTime, "time without time zone", "time"),
            Kind::Timestamp => (1114, 1115, 8, DateTime, "timestamp without time zone", "timestamp"),
            Kind::Timestamptz => (1184, 1185, 8, DateTime, "timestamp with time zone", "timestamptz"),
            Kind::Interval => (1186, 1187, 16, Timespan, "interval", "interval"),
            Kind::Timetz => (1266, 1270, 12, DateTime, "time with time zone", "timetz"),
            Kind::Numeric => (1700, 1231, -1, Numeric, "numeric", "numeric"),
            Kind::Refcursor => (1790, 2201, -1, User, "refcursor", "refcursor"),
            Kind::Regprocedure => (2202, 2207, 4, Numeric, "regprocedure", "regprocedure"),
            Kind::Regoper => (2203, 2208, 4, Numeric, "regoper", "regoper"),
            Kind::Regoperator => (2204, 2209, 4, Numeric, "regoperator", "regoperator"),
            Kind::Regclass => (2205, 2210, 4, Numeric, "regclass", "regclass"),
            Kind::Regtype => (2206, 2211, 4, Numeric, "regtype", "regtype"),
            Kind::Record => (2249, 2287, -1, Pseudo, "record", "record"),
            Kind::Any => (2276, 0, 4, Pseudo, "\"any\"", "any"),
            Kind::AnyArray => (2277, 0, -1, Pseudo, "anyarray", "anyarray"),
            Kind::Void => (2278, 0, 4, Pseudo, "void", "void"),
            Kind::AnyElement => (2283, 0, 4, Pseudo, "anyelement", "anyelement"),
            Kind::AnyNonArray => (2776, 0, 4, Pseudo, "anynonarray", "anynonarray"),
            Kind::Uuid => (2950, 2951, 16, User, "uuid", "uuid"),
            Kind::AnyEnum => (3500, 0, 4, Pseudo, "anyenum", "anyenum"),
            Kind::Jsonb => (3802, 3807, -1, User, "jsonb", "jsonb"),
            Kind::Regnamespace => (4089, 4090, 4, Numeric, "regnamespace", "regnamespace"),
            Kind::Regrole => (4096, 4097, 4, Numeric, "regrole", "regrole"),
            Kind::AnyCompatible => (5077, 0, 4, Pseudo, "anycompatible", "anycompatible"),
            Kind::AnyCompatibleArray => (5078, 0, -1, Pseudo, "anycompatiblearray", "anycompatiblearray"),
            Kind::AnyCompatibleNonArray => (5079, 0, 4, Pseudo, "anycompatiblenonarray", "anycompatiblenonarray"),
            Kind::Enum(oid) => (oid, oid + 1, 4, Enum, "enum", "enum"),
            Kind::Composite(oid) => (oid, oid | ARRAY_OF_ROWS, -1, Composite, "record", "record"),
            Kind::Array(element) => (element.facts().array_oid, 0, -1, Array, "array", "array"),
            Kind::EnumArray(oid) => (oid + 1, 0, -1, Array, "array", "array"),
            Kind::CompositeArray(oid) => (oid | ARRAY_OF_ROWS, 0, -1, Array, "array", "array"),
        };
        Facts { oid, array_oid, length, category, name, catalogue_name }
    }

    /// Its number in the catalogue and on the wire.
    pub fn oid(self) -> u32 {
        self.facts().oid
    }

    /// The kind of a number; enums and rows are the catalogue's.
    pub fn from_oid(oid: u32) -> Option<Self> {
        KINDS.iter().find_map(|kind| match kind.facts() {
            facts if facts.oid == oid => Some(*kind),
            facts if facts.array_oid == oid && oid != 0 => Some(Kind::Array(kind)),
            _ => None,
        })
    }

    /// The kind of a name as it stands in a statement, in lower case: `int4`, `integer`, `text`.
    /// Names of several words are those that `format_type` prints.
    pub fn from_name(name: &str) -> Option<Self> {
        let alias = match name {
            "int" => "int4",
            "decimal" | "dec" => "numeric",
            "float" => "float8",
            "character" => "bpchar",
            "timestamp without time zone" => "timestamp",
            "time without time zone" => "time",
            other => other,
        };
        if let Some(element) = name.strip_suffix("[]") {
            return Self::from_name(element)?.array();
        }
        if let Some(element) = name.strip_prefix('_') {
            return Self::from_name(element)?.array();
        }
        KINDS.iter().copied().find(|kind| {
            let facts = kind.facts();
            facts.catalogue_name == alias || (facts.name == alias && alias != "char")
        })
    }

    /// Its name as `format_type` prints it; enums and rows are the catalogue's.
    pub fn name(self) -> String {
        match self {
            Kind::Array(element) => format!("{}[]", element.name()),
            _ => self.facts().name.to_owned(),
        }
    }

    /// Its name in `pg_type`.
    pub fn catalogue_name(self) -> String {
        match self {
            Kind::Array(element) => format!("_{}", element.catalogue_name()),
            _ => self.facts().catalogue_name.to_owned(),
        }
    }

    /// Bytes of a value as `pg_type.typlen` has it: -1 where they vary.
    pub fn length(self) -> i16 {
        self.facts().length
    }

    /// The group that the choice between overloads looks at.
    pub fn category(self) -> Category {
        self.facts().category
    }

    /// Whether the choice between overloads prefers it within its group.
    pub fn is_preferred(self) -> bool {
        matches!(
            self,
            Kind::Bool | Kind::Text | Kind::Oid | Kind::Float8 | Kind::Timestamptz | Kind::Interval
        )
    }

    /// The letter between elements of an array of this kind, in its text.
    pub fn delimiter(self) -> char {
        if self == Kind::Box { ';' } else { ',' }
    }

    /// The kind of the elements, where it is an array.
    pub fn element(self) -> Option<Self> {
        match self {
            Kind::Array(element) => Some(*element),
            Kind::EnumArray(oid) => Some(Kind::Enum(oid)),
            Kind::CompositeArray(oid) => Some(Kind::Composite(oid)),
            Kind::Int2Vector => Some(Kind::Int2),
            Kind::OidVector => Some(Kind::Oid),
            _ => None,
        }
    }

    /// The kind of arrays of it, where there is one.
    pub fn array(self) -> Option<Self> {
        match self {
            Kind::Enum(oid) => Some(Kind::EnumArray(oid)),
            Kind::Composite(oid) => Some(Kind::CompositeArray(oid)),
            Kind::Array(_) | Kind::EnumArray(_) | Kind::CompositeArray(_) => None,
            _ if self.facts().array_oid == 0 => None,
            _ => KINDS.iter().find(|kind| **kind == self).map(Kind::Array),
        }
    }

    /// Whether it is an array that `anyarray` takes.
    pub fn is_array(self) -> bool {
        matches!(
            self,
            Kind::Array(_) | Kind::EnumArray(_) | Kind::CompositeArray(_)
        )
    }

    /// Whether it is one of the arrays with types of their own, which `anyarray` takes too.
    pub fn is_vector(self) -> bool {
        matches!(self, Kind::Int2Vector | Kind::OidVector)
    }

    /// Whether it stands for other kinds in the arguments of a function.
    pub fn is_polymorphic(self) -> bool {
        matches!(
            self,
            Kind::AnyElement
                | Kind::AnyArray
                | Kind::AnyNonArray
                | Kind::AnyEnum
                | Kind::AnyCompatible
                | Kind::AnyCompatibleArray
                | Kind::AnyCompatibleNonArray
        )
    }

    /// Whether it is a text in the wide sense: the kinds whose values are [`super::Datum::Text`].
    pub fn is_text(self) -> bool {
        matches!(
            self,
            Kind::Text
                | Kind::Varchar
                | Kind::Name
                | Kind::Char
                | Kind::Unknown
                | Kind::NodeTree
                | Kind::Refcursor
        )
    }

    /// Whether it is a shape: its values are texts that have no order.
    pub fn is_geometric(self) -> bool {
        self.category() == Category::Geometric
    }

    /// Whether its values are numbers of the catalogue.
    pub fn is_object_number(self) -> bool {
        matches!(
            self,
            Kind::Oid
                | Kind::Regproc
                | Kind::Regprocedure
                | Kind::Regoper
                | Kind::Regoperator
                | Kind::Regclass
                | Kind::Regtype
                | Kind::Regnamespace
                | Kind::Regrole
                | Kind::Xid
                | Kind::Cid
        )
    }

    /// The type without a modifier.
    pub const fn plain(self) -> Type {
        Type {
            kind: self,
            modifier: -1,
        }
    }
}

impl Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name())
    }
}

/// A kind with its modifier.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Type {
    /// The type without its modifier.
    pub kind: Kind,
    /// PostgreSQL's `atttypmod`: -1, or the length and scale in its encoding.
    pub modifier: i32,
}

/// PostgreSQL adds the length of a header to the modifiers of texts and numbers.
const MODIFIER_HEADER: i32 = 4;

impl Type {
    /// `numeric(precision, scale)`.
    pub fn numeric(precision: u16, scale: i16) -> Self {
        let packed = (i32::from(precision) << 16) | (i32::from(scale) & 0x7ff);
        Self {
            kind: Kind::Numeric,
            modifier: packed + MODIFIER_HEADER,
        }
    }

    /// `varchar(length)` or `char(length)`.
    pub fn text(kind: Kind, length: u32) -> Self {
        Self {
            kind,
            modifier: i32::try_from(length).unwrap_or(i32::MAX - MODIFIER_HEADER) + MODIFIER_HEADER,
        }
    }

    /// A time, timestamp or interval with so many digits after the seconds.
    pub fn with_digits(kind: Kind, digits: u8) -> Self {
        let fields = if kind == Kind::Interval {
            INTERVAL_ALL_FIELDS
        } else {
            0
        };
        Self {
            kind,
            modifier: (fields << 16) | i32::from(digits),
        }
    }

    /// An interval that keeps the fields of the mask only, with so many digits if any are given.
    pub fn interval(fields: i32, digits: Option<u8>) -> Self {
        Self {
            kind: Kind::Interval,
            modifier: (fields << 16) | digits.map_or(INTERVAL_ALL_DIGITS, i32::from),
        }
    }

    /// Characters of a text type.
    pub fn length(self) -> Option<usize> {
        let base = self.kind.element().unwrap_or(self.kind);
        (matches!(base, Kind::Bpchar | Kind::Varchar) && self.modifier >= MODIFIER_HEADER)
            .then(|| (self.modifier - MODIFIER_HEADER) as usize)
    }

    /// Precision and scale of a numeric type.
    pub fn precision(self) -> Option<(u16, i16)> {
        let base = self.kind.element().unwrap_or(self.kind);
        (base == Kind::Numeric && self.modifier >= MODIFIER_HEADER).then(|| {
            let packed = self.modifier - MODIFIER_HEADER;
            // The scale has 11 bits with a sign.
            let scale = ((packed & 0x7ff) ^ 1024) - 1024;
            ((packed >> 16) as u16, scale as i16)
        })
    }

    /// Digits after the seconds of a time type.
    pub fn digits(self) -> Option<u8> {
        match self.kind.element().unwrap_or(self.kind) {
            Kind::Time | Kind::Timetz | Kind::Timestamp | Kind::Timestamptz => {
                (self.modifier >= 0).then_some(self.modifier as u8)
            }
            Kind::Interval if self.modifier >= 0 => {
                let digits = self.modifier & 0xffff;
                (digits != INTERVAL_ALL_DIGITS).then_some(digits as u8)
            }
            _ => None,
        }
    }

    /// The mask of fields that an interval type keeps.
    pub fn interval_fields(self) -> Option<i32> {
        let fields = (self.modifier >> 16) & INTERVAL_ALL_FIELDS;
        (self.modifier >= 0 && fields != INTERVAL_ALL_FIELDS).then_some(fields)
    }
}

impl From<Kind> for Type {
    fn from(kind: Kind) -> Self {
        kind.plain()
    }
}

/// All fields of an interval.
pub const INTERVAL_ALL_FIELDS: i32 = 0x7fff;
/// Digits of an interval that are not limited.
const INTERVAL_ALL_DIGITS: i32 = 0xffff;

/// The names of the masks that an interval type may have.
#[rustfmt::skip]
pub const INTERVAL_FIELDS: &[(i32, &str)] = &[
    (1 << 2, "year"), (1 << 1, "month"), (1 << 3, "day"), (1 << 10, "hour"), (1 << 11, "minute"), (1 << 12, "second"),
    ((1 << 2) | (1 << 1), "year to month"),
    ((1 << 3) | (1 << 10), "day to hour"),
    ((1 << 3) | (1 << 10) | (1 << 11), "day to minute"),
    ((1 << 3) | (1 << 10) | (1 << 11) | (1 << 12), "day to second"),
    ((1 << 10) | (1 << 11), "hour to minute"),
    ((1 << 10) | (1 << 11) | (1 << 12), "hour to second"),
    ((1 << 11) | (1 << 12), "minute to second"),
];

impl Display for Type {
    /// As `format_type` prints it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(element) = self.kind.element().filter(|_| self.kind.is_array()) {
            let element = Type {
                kind: element,
                ..*self
            };
            return write!(formatter, "{element}[]");
        }
        let mut digits = String::new();
        if let Some(count) = self.digits() {
            write!(digits, "({count})")?;
        }
        if let Some(length) = self.length() {
            return write!(formatter, "{}({length})", self.kind);
        }
        if let Some((precision, scale)) = self.precision() {
            return write!(formatter, "numeric({precision},{scale})");
        }
        match self.kind {
            Kind::Time => write!(formatter, "time{digits} without time zone"),
            Kind::Timetz => write!(formatter, "time{digits} with time zone"),
            Kind::Timestamp => write!(formatter, "timestamp{digits} without time zone"),
            Kind::Timestamptz => write!(formatter, "timestamp{digits} with time zone"),
            Kind::Interval => {
                let fields = self.interval_fields().and_then(|mask| {
                    let found = INTERVAL_FIELDS.iter().find(|(fields, _)| *fields == mask);
                    found.map(|(_, name)| *name)
                });
                match fields {
                    Some(name) => write!(formatter, "interval {name}{digits}"),
                    None => write!(formatter, "interval{digits}"),
                }
            }
            // A length that is not given is one that is not limited, which only this name can say.
            Kind::Bpchar => formatter.write_str("bpchar"),
            kind => Display::fmt(&kind, formatter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_lead_back_to_their_kind() {
        for kind in KINDS {
            assert_eq!(Kind::from_oid(kind.oid()), Some(*kind));
            assert_eq!(Kind::from_name(&kind.catalogue_name()), Some(*kind));
            if let Some(array) = kind.array() {
                assert_eq!(array.element(), Some(*kind));
                assert_eq!(Kind::from_oid(array.oid()), Some(array));
                assert_eq!(Kind::from_name(&array.catalogue_name()), Some(array));
            }
        }
    }

    /// Expected texts are those of `format_type` of PostgreSQL 15.
    #[test]
    fn types_print_as_format_type_prints_them() {
        let cases = [
            (Type::numeric(10, 2), "numeric(10,2)"),
            (Type::numeric(3, -2), "numeric(3,-2)"),
            (Kind::Numeric.plain(), "numeric"),
            (Type::text(Kind::Varchar, 7), "character varying(7)"),
            (Type::text(Kind::Bpchar, 1), "character(1)"),
            (
                Type::with_digits(Kind::Time, 3),
                "time(3) without time zone",
            ),
            (Type::with_digits(Kind::Interval, 2), "interval(2)"),
            (
                Type::interval((1 << 2) | (1 << 1), None),
                "interval year to month",
            ),
            (Type::interval(1 << 12, Some(3)), "interval second(3)"),
            (
                Kind::Array(&Kind::Timestamptz).plain(),
                "timestamp with time zone[]",
            ),
        ];
        for (of, text) in cases {
            assert_eq!(of.to_string(), text);
        }
    }
}
