//! The place of a table among others: the tables that it inherits from, and its partitions.
//!
//! A partitioned table has no rows of its own. Each of its partitions takes the rows whose keys are
//! within the partition's bound; the values of bounds are kept as texts of the keys' types.

use super::oid::Oid;
use crate::error::Result;
use sql_values::codec::{Reader, Writer};
use sql_values::types::Kind;
use std::fmt::{self, Display, Formatter};

/// The place of a table among others.
#[derive(Clone, Debug, Default)]
pub struct Lineage {
    /// The tables that it inherits from; of a partition only the partitioned table.
    pub parents: Vec<Oid>,
    /// The keys by which its rows go to partitions, if it is partitioned.
    pub scheme: Option<Scheme>,
    /// The rows that it takes, if it is a partition.
    pub bound: Option<PartitionBound>,
}

/// The keys by which rows go to partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// The form of the partitions' bounds.
    pub strategy: Strategy,
    /// Expressions over the row.
    pub keys: Vec<String>,
}

/// The form of the bounds of partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Lists of keys.
    List,
    /// Ranges of keys.
    Range,
    /// Remainders of the hash of the keys.
    Hash,
}

impl Strategy {
    /// Its name, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Range => "range",
            Self::Hash => "hash",
        }
    }

    /// Its number in the catalogue.
    fn code(self) -> u8 {
        match self {
            Self::List => 0,
            Self::Range => 1,
            Self::Hash => 2,
        }
    }

    fn of_code(code: u8) -> Option<Self> {
        let mut all = [Self::List, Self::Range, Self::Hash].into_iter();
        all.find(|strategy| strategy.code() == code)
    }
}

/// The rows that a partition takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionBound {
    /// Rows that no other partition takes.
    Default,
    /// Rows whose key is one of these; none is NULL.
    In(Vec<Option<String>>),
    /// Rows whose keys are at or after the first end and before the second.
    Range(Vec<RangeEnd>, Vec<RangeEnd>),
    /// Rows whose keys have a hash that, divided by the first, leaves the second.
    Remainder(u32, u32),
}

/// A key of an end of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeEnd {
    /// Before all keys (`MINVALUE`).
    Min,
    /// After all keys (`MAXVALUE`).
    Max,
    /// The text of a key.
    At(String),
}

impl Lineage {
    /// A table that neither inherits nor is partitioned.
    pub const fn alone() -> Self {
        Self {
            parents: Vec::new(),
            scheme: None,
            bound: None,
        }
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        writer.list(&self.parents, |writer, oid| writer.number((*oid).into()));
        let scheme: Vec<&Scheme> = self.scheme.iter().collect();
        writer.list(&scheme, |writer, scheme| {
            writer.byte(scheme.strategy.code());
            writer.list(&scheme.keys, |writer, key| writer.text(key));
        });
        let bound: Vec<&PartitionBound> = self.bound.iter().collect();
        writer.list(&bound, |writer, bound| match bound {
            PartitionBound::Default => writer.byte(0),
            PartitionBound::In(values) => {
                writer.byte(1);
                writer.list(values, |writer, value| {
                    writer.option(value.as_ref(), |writer, text| writer.text(text));
                });
            }
            PartitionBound::Range(from, to) => {
                writer.byte(2);
                for end in [from, to] {
                    writer.list(end, |writer, key| key.write(writer));
                }
            }
            PartitionBound::Remainder(modulus, remainder) => {
                writer.byte(3);
                writer.number((*modulus).into());
                writer.number((*remainder).into());
            }
        });
    }

    /// Tables that were written without it have none.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let parents = reader.rest(Reader::integer)?;
        let mut scheme = reader.rest(|reader| {
            Ok(Scheme {
                strategy: Strategy::of_code(reader.byte()?).ok_or_else(|| reader.damaged())?,
                keys: reader.list(Reader::text)?,
            })
        })?;
        let mut bound = reader.rest(|reader| {
            Ok(match reader.byte()? {
                0 => PartitionBound::Default,
                1 => PartitionBound::In(reader.list(|reader| reader.option(Reader::text))?),
                2 => PartitionBound::Range(
                    reader.list(RangeEnd::read)?,
                    reader.list(RangeEnd::read)?,
                ),
                3 => PartitionBound::Remainder(reader.integer()?, reader.integer()?),
                _ => return Err(reader.damaged()),
            })
        })?;
        Ok(Self {
            parents,
            scheme: scheme.pop(),
            bound: bound.pop(),
        })
    }
}

impl RangeEnd {
    fn write(&self, writer: &mut Writer) {
        match self {
            Self::Min => writer.byte(0),
            Self::Max => writer.byte(1),
            Self::At(text) => {
                writer.byte(2);
                writer.text(text);
            }
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(match reader.byte()? {
            0 => Self::Min,
            1 => Self::Max,
            2 => Self::At(reader.text()?),
            _ => return Err(reader.damaged()),
        })
    }
}

impl Display for Scheme {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let strategy = self.strategy.name().to_uppercase();
        write!(f, "{strategy} ({})", self.keys.join(", "))
    }
}

impl PartitionBound {
    /// The bound as definitions have it, of keys of these kinds.
    pub fn printed(&self, kinds: &[Kind]) -> String {
        let list = |values: Vec<String>| values.join(", ");
        match self {
            Self::Default => "DEFAULT".to_owned(),
            Self::In(values) => {
                let kind = kinds.first().copied().unwrap_or(Kind::Text);
                let values = values.iter().map(|value| match value {
                    Some(text) => literal(text, kind),
                    None => "NULL".to_owned(),
                });
                format!("FOR VALUES IN ({})", list(values.collect()))
            }
            Self::Range(from, to) => {
                let [from, to] = [from, to].map(|end| {
                    let keys = end.iter().enumerate().map(|(at, key)| match key {
                        RangeEnd::Min => "MINVALUE".to_owned(),
                        RangeEnd::Max => "MAXVALUE".to_owned(),
                        RangeEnd::At(text) => {
                            literal(text, kinds.get(at).copied().unwrap_or(Kind::Text))
                        }
                    });
                    list(keys.collect())
                });
                format!("FOR VALUES FROM ({from}) TO ({to})")
            }
            Self::Remainder(modulus, remainder) => {
                format!("FOR VALUES WITH (modulus {modulus}, remainder {remainder})")
            }
        }
    }
}

/// A constant as PostgreSQL prints it: without quotes where it cannot be taken for another type.
fn literal(text: &str, kind: Kind) -> String {
    let is_plain = match kind {
        Kind::Int4 => !text.starts_with('-'),
        Kind::Numeric => {
            text.starts_with(|first: char| first.is_ascii_digit()) && text.contains('.')
        }
        Kind::Bool => return if text == "t" { "true" } else { "false" }.to_owned(),
        _ => false,
    };
    match is_plain {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "''")),
    }
}
