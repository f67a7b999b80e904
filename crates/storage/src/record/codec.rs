//! The stable binary form of values and table definitions.
//!
//! Both are written to pools, logs and dumps, so their bytes must mean the same for ever. Numbers
//! are little-endian; a name or content is preceded by its length in four bytes. A definition
//! begins with a version byte and ends with the crc32c of all before it; it has the oldest version
//! that can express it. Decoding checks every length and tag: damaged bytes give a [`DecodeError`],
//! never a panic and never a large allocation.
//!
//! | part | bytes |
//! |---|---|
//! | value | tag 0 to 11 as in [`ValueRef`], then its number, or scale and units, or content |
//! | type | tag 0 to 13 as in [`put_type`]; decimal: precision, scale; lengths: 4 (0: unlimited) |
//! | table | version 1, number 4, name, columns, primary key, indexes, partitioning, checksum 4 |
//! | table | version 2: before the checksum the rule of keys, owner 1, replaced table 4 (0: none) |
//! | rule of keys | 0: exact; 1: truncated, key of the hash 16 |
//! | column | name, type, nullable 1 |
//! | index | number 4, name, columns, unique 1 |

use super::error::SchemaError;
use super::schema::{
    Column, IndexDef, IndexId, KeyRule, Owner, Partitioning, RangeStart, TableDef, TableId,
};
use super::types::DataType;
use super::value::{Uuid, ValueRef};
use super::{Date, Decimal, Timestamp};

/// The newest version of the definition's format.
const VERSION: u8 = 2;
/// The version of definitions without the fields that the newest one adds.
const VERSION_PLAIN: u8 = 1;

/// Why bytes are no value or definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end before the thing does.
    #[error("{what} is cut off: {wanted_bytes} more bytes expected, {found_bytes} found")]
    Truncated {
        /// The item that was being read.
        what: &'static str,
        /// Bytes needed.
        wanted_bytes: usize,
        /// Bytes left.
        found_bytes: usize,
    },
    /// A tag, count or flag that does not exist, or text that is not UTF-8.
    #[error("{what} cannot be {found}")]
    Unknown {
        /// The item that was being read.
        what: &'static str,
        /// The value found.
        found: u64,
    },
    /// Written by a newer version of this program.
    #[error(
        "the table definition has format version {found}; this build reads versions up to {expected}"
    )]
    Version {
        /// The newest version that this build reads.
        expected: u8,
        /// The value found.
        found: u8,
    },
    /// The checksum does not match.
    #[error(
        "the table definition is damaged: checksum {expected:#010x} expected, {found:#010x} found"
    )]
    Checksum {
        /// Computed from the bytes.
        expected: u32,
        /// The value found.
        found: u32,
    },
    /// The bytes are whole, but no table can be like this.
    #[error("the table definition is not valid: {0}")]
    Schema(#[from] SchemaError),
}

/// Takes bytes apart from front to back, with checks.
#[derive(Clone, Debug)]
pub struct Reader<'b> {
    bytes: &'b [u8],
}

impl<'b> Reader<'b> {
    /// At the front of these bytes.
    #[inline]
    pub fn new(bytes: &'b [u8]) -> Self {
        Self { bytes }
    }

    /// Bytes that are left.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// The next bytes.
    #[inline]
    pub fn take(&mut self, what: &'static str, bytes: usize) -> Result<&'b [u8], DecodeError> {
        let found_bytes = self.bytes.len();
        let cut_off = DecodeError::Truncated {
            what,
            wanted_bytes: bytes,
            found_bytes,
        };
        let (taken, rest) = self.bytes.split_at_checked(bytes).ok_or(cut_off)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// The next bytes as an array.
    #[inline]
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        let taken = self.take(what, N)?;
        Ok(taken.first_chunk().copied().unwrap_or([0; N]))
    }

    /// The next byte.
    #[inline]
    pub fn byte(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        self.array::<1>(what).map(|[byte]| byte)
    }

    /// The next four bytes as a number.
    #[inline]
    pub fn number(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        self.array(what).map(u32::from_le_bytes)
    }

    /// A length in four bytes and that many bytes.
    #[inline]
    pub fn content(&mut self, what: &'static str) -> Result<&'b [u8], DecodeError> {
        let bytes = self.number(what)? as usize;
        self.take(what, bytes)
    }

    /// A length in four bytes and that many bytes of text.
    #[inline]
    pub fn text(&mut self, what: &'static str) -> Result<&'b str, DecodeError> {
        let content = self.content(what)?;
        std::str::from_utf8(content).map_err(|error| DecodeError::Unknown {
            what,
            found: error.valid_up_to() as u64,
        })
    }

    /// A byte that is 0 or 1.
    #[inline]
    pub fn flag(&mut self, what: &'static str) -> Result<bool, DecodeError> {
        match self.byte(what)? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(DecodeError::Unknown {
                what,
                found: found.into(),
            }),
        }
    }

    /// A count in four bytes and that many things of at least one byte each.
    fn list<T>(
        &mut self,
        what: &'static str,
        mut take: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let count = self.number(what)? as usize;
        if count > self.remaining() {
            let (wanted_bytes, found_bytes) = (count, self.remaining());
            return Err(DecodeError::Truncated {
                what,
                wanted_bytes,
                found_bytes,
            });
        }
        (0..count).map(|_| take(self)).collect()
    }
}

/// Appends a value.
pub fn encode_value(value: ValueRef<'_>, bytes: &mut Vec<u8>) {
    match value {
        ValueRef::Null => bytes.push(0),
        ValueRef::Bool(value) => bytes.extend_from_slice(&[1, u8::from(value)]),
        ValueRef::Int16(value) => put_tagged(2, &value.to_le_bytes(), bytes),
        ValueRef::Int32(value) => put_tagged(3, &value.to_le_bytes(), bytes),
        ValueRef::Int64(value) => put_tagged(4, &value.to_le_bytes(), bytes),
        ValueRef::Float64(value) => put_tagged(5, &value.to_le_bytes(), bytes),
        ValueRef::Decimal(value) => {
            bytes.extend_from_slice(&[6, value.scale()]);
            bytes.extend_from_slice(&value.units().to_le_bytes());
        }
        ValueRef::Text(value) => {
            bytes.push(7);
            put_content(value.as_bytes(), bytes);
        }
        ValueRef::Bytes(value) => {
            bytes.push(8);
            put_content(value, bytes);
        }
        ValueRef::Date(value) => put_tagged(9, &value.0.to_le_bytes(), bytes),
        ValueRef::Timestamp(value) => put_tagged(10, &value.0.to_le_bytes(), bytes),
        ValueRef::Uuid(value) => put_tagged(11, &value.0, bytes),
    }
}

/// Takes a value.
#[inline]
pub fn decode_value<'b>(reader: &mut Reader<'b>) -> Result<ValueRef<'b>, DecodeError> {
    const WHAT: &str = "a value";
    Ok(match reader.byte(WHAT)? {
        0 => ValueRef::Null,
        1 => ValueRef::Bool(reader.flag(WHAT)?),
        2 => ValueRef::Int16(i16::from_le_bytes(reader.array(WHAT)?)),
        3 => ValueRef::Int32(i32::from_le_bytes(reader.array(WHAT)?)),
        4 => ValueRef::Int64(i64::from_le_bytes(reader.array(WHAT)?)),
        5 => ValueRef::Float64(f64::from_le_bytes(reader.array(WHAT)?)),
        6 => {
            let scale = reader.byte(WHAT)?;
            if scale > 38 {
                return Err(DecodeError::Unknown {
                    what: "a scale",
                    found: scale.into(),
                });
            }
            ValueRef::Decimal(Decimal::new(
                i128::from_le_bytes(reader.array(WHAT)?),
                scale,
            ))
        }
        7 => ValueRef::Text(reader.text(WHAT)?),
        8 => ValueRef::Bytes(reader.content(WHAT)?),
        9 => ValueRef::Date(Date(i32::from_le_bytes(reader.array(WHAT)?))),
        10 => ValueRef::Timestamp(Timestamp(i64::from_le_bytes(reader.array(WHAT)?))),
        11 => ValueRef::Uuid(Uuid(reader.array(WHAT)?)),
        tag => {
            return Err(DecodeError::Unknown {
                what: WHAT,
                found: tag.into(),
            });
        }
    })
}

impl TableDef {
    /// The definition as bytes that every later version can read.
    pub fn encode(&self) -> Vec<u8> {
        let version = if self.is_plain() {
            VERSION_PLAIN
        } else {
            VERSION
        };
        let mut bytes = vec![version];
        put_number(self.id.0, &mut bytes);
        put_content(self.name.as_bytes(), &mut bytes);
        put_number(self.columns.len() as u32, &mut bytes);
        for column in &self.columns {
            put_content(column.name.as_bytes(), &mut bytes);
            put_type(column.data_type, &mut bytes);
            bytes.push(u8::from(column.nullable));
        }
        put_positions(&self.primary_key, &mut bytes);
        put_number(self.indexes.len() as u32, &mut bytes);
        for index in &self.indexes {
            put_number(index.id.0, &mut bytes);
            put_content(index.name.as_bytes(), &mut bytes);
            put_positions(&index.columns, &mut bytes);
            bytes.push(u8::from(index.unique));
        }
        put_partitioning(&self.partitioning, &mut bytes);
        if version == VERSION {
            match self.keys {
                KeyRule::Exact => bytes.push(0),
                KeyRule::Truncated { hash_key } => {
                    put_tagged(1, &hash_key.to_le_bytes(), &mut bytes);
                }
            }
            bytes.push(match self.owner {
                Owner::Typed => 0,
                Owner::Sql => 1,
            });
            put_number(self.replaces.map_or(0, |table| table.0), &mut bytes);
        }
        put_number(crc32c::crc32c(&bytes), &mut bytes);
        bytes
    }

    /// Whether the definition is one of version 1.
    fn is_plain(&self) -> bool {
        let is_new = |column: &Column| matches!(column.data_type, DataType::Sortable { .. });
        self.keys == KeyRule::Exact
            && self.owner == Owner::Typed
            && self.replaces.is_none()
            && !self.columns.iter().any(is_new)
    }

    /// The definition from all of these bytes; it is valid.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        const WHAT: &str = "a table definition";
        let found_bytes = bytes.len();
        let cut_off = DecodeError::Truncated {
            what: WHAT,
            wanted_bytes: 5,
            found_bytes,
        };
        let (body, checksum) = bytes.split_last_chunk::<4>().ok_or(cut_off)?;
        let mut reader = Reader::new(body);
        let version = reader.byte(WHAT)?;
        if !(VERSION_PLAIN..=VERSION).contains(&version) {
            return Err(DecodeError::Version {
                expected: VERSION,
                found: version,
            });
        }
        let (expected, found) = (crc32c::crc32c(body), u32::from_le_bytes(*checksum));
        if expected != found {
            return Err(DecodeError::Checksum { expected, found });
        }
        let mut table = Self {
            id: TableId(reader.number(WHAT)?),
            name: reader.text("a table name")?.to_owned(),
            columns: reader.list("columns", take_column)?,
            primary_key: take_positions(&mut reader)?,
            indexes: reader.list("indexes", take_index)?,
            partitioning: take_partitioning(&mut reader)?,
            keys: KeyRule::Exact,
            owner: Owner::Typed,
            replaces: None,
        };
        if version == VERSION {
            table.keys = take_key_rule(&mut reader)?;
            table.owner = if reader.flag("an owner")? {
                Owner::Sql
            } else {
                Owner::Typed
            };
            let replaced = reader.number("a replaced table")?;
            table.replaces = (replaced != 0).then_some(TableId(replaced));
        }
        if reader.remaining() > 0 {
            let found = reader.remaining() as u64;
            return Err(DecodeError::Unknown {
                what: "the rest of a table definition",
                found,
            });
        }
        table.validate()?;
        Ok(table)
    }
}

fn put_tagged(tag: u8, content: &[u8], bytes: &mut Vec<u8>) {
    bytes.push(tag);
    bytes.extend_from_slice(content);
}

fn put_number(number: u32, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&number.to_le_bytes());
}

fn put_content(content: &[u8], bytes: &mut Vec<u8>) {
    put_number(content.len() as u32, bytes);
    bytes.extend_from_slice(content);
}

fn put_positions(positions: &[usize], bytes: &mut Vec<u8>) {
    put_number(positions.len() as u32, bytes);
    for position in positions {
        put_number(*position as u32, bytes);
    }
}

fn put_type(data_type: DataType, bytes: &mut Vec<u8>) {
    match data_type {
        DataType::Bool => bytes.push(0),
        DataType::Int16 => bytes.push(1),
        DataType::Int32 => bytes.push(2),
        DataType::Int64 => bytes.push(3),
        DataType::Float64 => bytes.push(4),
        DataType::Decimal { precision, scale } => bytes.extend_from_slice(&[5, precision, scale]),
        DataType::Char { length } => put_tagged(6, &length.to_le_bytes(), bytes),
        DataType::Varchar { max } => put_tagged(7, &max.to_le_bytes(), bytes),
        DataType::Text => bytes.push(8),
        DataType::Bytes { max } => put_tagged(9, &max.unwrap_or(0).to_le_bytes(), bytes),
        DataType::Date => bytes.push(10),
        DataType::Timestamp => bytes.push(11),
        DataType::Uuid => bytes.push(12),
        DataType::Sortable { max } => put_tagged(13, &max.to_le_bytes(), bytes),
    }
}

fn put_partitioning(partitioning: &Partitioning, bytes: &mut Vec<u8>) {
    match partitioning {
        Partitioning::Hash => bytes.push(0),
        Partitioning::Modulo => bytes.push(1),
        Partitioning::Replicated => bytes.push(2),
        Partitioning::Ranges(starts) => {
            bytes.push(3);
            put_number(starts.len() as u32, bytes);
            for start in starts {
                encode_value(start.from.as_ref(), bytes);
                put_number(start.partition, bytes);
            }
        }
    }
}

fn take_column(reader: &mut Reader<'_>) -> Result<Column, DecodeError> {
    Ok(Column {
        name: reader.text("a column name")?.to_owned(),
        data_type: take_type(reader)?,
        nullable: reader.flag("nullable")?,
    })
}

fn take_index(reader: &mut Reader<'_>) -> Result<IndexDef, DecodeError> {
    Ok(IndexDef {
        id: IndexId(reader.number("an index number")?),
        name: reader.text("an index name")?.to_owned(),
        columns: take_positions(reader)?,
        unique: reader.flag("unique")?,
    })
}

fn take_positions(reader: &mut Reader<'_>) -> Result<Vec<usize>, DecodeError> {
    reader.list("key columns", |reader| {
        Ok(reader.number("a key column")? as usize)
    })
}

fn take_type(reader: &mut Reader<'_>) -> Result<DataType, DecodeError> {
    const WHAT: &str = "a data type";
    Ok(match reader.byte(WHAT)? {
        0 => DataType::Bool,
        1 => DataType::Int16,
        2 => DataType::Int32,
        3 => DataType::Int64,
        4 => DataType::Float64,
        5 => DataType::Decimal {
            precision: reader.byte(WHAT)?,
            scale: reader.byte(WHAT)?,
        },
        6 => DataType::Char {
            length: reader.number(WHAT)?,
        },
        7 => DataType::Varchar {
            max: reader.number(WHAT)?,
        },
        8 => DataType::Text,
        9 => DataType::Bytes {
            max: Some(reader.number(WHAT)?).filter(|max| *max > 0),
        },
        10 => DataType::Date,
        11 => DataType::Timestamp,
        12 => DataType::Uuid,
        13 => DataType::Sortable {
            max: reader.number(WHAT)?,
        },
        tag => {
            return Err(DecodeError::Unknown {
                what: WHAT,
                found: tag.into(),
            });
        }
    })
}

fn take_key_rule(reader: &mut Reader<'_>) -> Result<KeyRule, DecodeError> {
    const WHAT: &str = "a rule of keys";
    Ok(if reader.flag(WHAT)? {
        KeyRule::Truncated {
            hash_key: u128::from_le_bytes(reader.array(WHAT)?),
        }
    } else {
        KeyRule::Exact
    })
}

fn take_partitioning(reader: &mut Reader<'_>) -> Result<Partitioning, DecodeError> {
    const WHAT: &str = "partitioning";
    Ok(match reader.byte(WHAT)? {
        0 => Partitioning::Hash,
        1 => Partitioning::Modulo,
        2 => Partitioning::Replicated,
        3 => Partitioning::Ranges(reader.list(WHAT, |reader| {
            let from = decode_value(reader)?.to_value();
            Ok(RangeStart {
                from,
                partition: reader.number(WHAT)?,
            })
        })?),
        tag => {
            return Err(DecodeError::Unknown {
                what: WHAT,
                found: tag.into(),
            });
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The checksum of the plain table, as the first build of version 1 wrote it.
    const PLAIN_CHECKSUM: u32 = 0xA2CC_ADBF;

    fn table() -> TableDef {
        let columns = vec![
            Column::new("id", DataType::Int32),
            Column::new(
                "price",
                DataType::Decimal {
                    precision: 12,
                    scale: 2,
                },
            )
            .nullable(),
            Column::new("name", DataType::Char { length: 9 }),
            Column::new("note", DataType::Bytes { max: None }).nullable(),
        ];
        let index = IndexDef {
            id: IndexId(4),
            name: "by_price".into(),
            columns: vec![1, 2],
            unique: true,
        };
        let starts = [(1, 0), (100, 3)].map(|(from, partition)| RangeStart {
            from: i32::into(from),
            partition,
        });
        TableDef {
            indexes: vec![index],
            partitioning: Partitioning::Ranges(starts.into()),
            keys: KeyRule::Truncated {
                hash_key: 1 << 127 | 5,
            },
            owner: Owner::Sql,
            replaces: Some(TableId(6)),
            ..TableDef::new(TableId(7), "goods", columns, vec![0])
        }
    }

    #[test]
    fn definitions_read_back_and_every_damage_is_seen() {
        let bytes = table().encode();
        assert_eq!(TableDef::decode(&bytes), Ok(table()));
        assert_eq!(bytes[0], VERSION);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(TableDef::decode(&damaged).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(
                TableDef::decode(&bytes[..length]).is_err(),
                "{length} bytes"
            );
        }
    }

    #[test]
    fn a_definition_that_version_1_can_express_has_its_bytes() {
        let plain = TableDef {
            keys: KeyRule::Exact,
            owner: Owner::Typed,
            replaces: None,
            ..table()
        };
        let bytes = plain.encode();
        assert_eq!(bytes[0], VERSION_PLAIN);
        assert_eq!(bytes.last_chunk(), Some(&PLAIN_CHECKSUM.to_le_bytes()));
        assert_eq!(TableDef::decode(&bytes), Ok(plain.clone()));
        let sortable = Column::new("sum", DataType::Sortable { max: 20 });
        let later: [fn(&mut TableDef, Column); 4] = [
            |def, _| def.keys = KeyRule::Truncated { hash_key: 0 },
            |def, _| def.owner = Owner::Sql,
            |def, _| def.replaces = Some(TableId(16)),
            |def, column| def.columns.push(column),
        ];
        for change in later {
            let mut def = plain.clone();
            change(&mut def, sortable.clone());
            let bytes = def.encode();
            assert_eq!((bytes[0], TableDef::decode(&bytes)), (2, Ok(def)));
        }
    }

    proptest! {
        /// With the checksum made right, so that the damage reaches the decoder.
        #[test]
        fn damage_behind_a_right_checksum_never_panics(at: prop::sample::Index, new: u8, cut: prop::sample::Index) {
            let mut bytes = table().encode();
            bytes.truncate(bytes.len() - 4);
            bytes.truncate(cut.index(bytes.len()) + 1);
            let at = at.index(bytes.len());
            bytes[at] = new;
            put_number(crc32c::crc32c(&bytes), &mut bytes);
            if let Ok(decoded) = TableDef::decode(&bytes) {
                prop_assert!(decoded.validate().is_ok());
            }
        }

        #[test]
        fn any_bytes_are_a_value_or_an_error(bytes in prop::collection::vec(0_u8..16, 0..40)) {
            let mut reader = Reader::new(&bytes);
            while let Ok(value) = decode_value(&mut reader) {
                let mut again = Vec::new();
                encode_value(value, &mut again);
                prop_assert_eq!(decode_value(&mut Reader::new(&again)), Ok(value));
            }
        }
    }
}
