//! The mapping of rows to partitions.
//!
//! The first column of the primary key decides, by the rule that the table declares. The answer for
//! a value must never change while a table lives, so the hash is one of our own and part of the
//! format.

use super::error::{Result, SchemaError};
use super::key::{KeyBuf, KeyEncoder, stable_hash};
use super::schema::{Partitioning, TableDef};
use super::value::ValueRef;

/// The partition of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In this partition, from 0.
    One(u32),
    /// In every partition.
    All,
}

/// The rule of one table for a number of partitions.
#[derive(Clone, Debug)]
pub struct Partitioner {
    first: KeyEncoder,
    rule: Rule,
    partitions: u32,
}

/// The declared rule, made ready.
#[derive(Clone, Debug)]
enum Rule {
    Hash,
    Modulo,
    Replicated,
    /// The key of each range's start and its partition, ascending.
    Ranges(Vec<(KeyBuf, u32)>),
}

impl Partitioner {
    /// The rule of a valid table; an error if it names a partition that there is not.
    pub fn new(table: &TableDef, partitions: u32) -> Result<Self, SchemaError> {
        let bad = |reason: String| SchemaError::BadPartitioning {
            table: table.name.clone(),
            reason,
        };
        if partitions == 0 {
            return Err(bad("there must be at least one partition".into()));
        }
        if let Partitioning::Ranges(starts) = &table.partitioning
            && let Some(start) = starts.iter().find(|start| start.partition >= partitions)
        {
            let reason = format!(
                "range {} names partition {} of {partitions}",
                start.from, start.partition
            );
            return Err(bad(reason));
        }
        let mut narrow = table.clone();
        narrow.primary_key.truncate(1);
        let first = KeyEncoder::primary(&narrow);
        let rule = match &table.partitioning {
            Partitioning::Hash => Rule::Hash,
            Partitioning::Modulo => Rule::Modulo,
            Partitioning::Replicated => Rule::Replicated,
            Partitioning::Ranges(starts) => {
                let mut ranges = Vec::with_capacity(starts.len());
                for start in starts {
                    let mut key = KeyBuf::new();
                    let encoded = first.encode_values(&[start.from.as_ref()], &mut key);
                    encoded.map_err(|error| bad(error.to_string()))?;
                    ranges.push((key, start.partition));
                }
                ranges.sort_unstable();
                Rule::Ranges(ranges)
            }
        };
        Ok(Self {
            first,
            rule,
            partitions,
        })
    }

    /// The partition of the rows with this value of the first primary key column.
    pub fn place(&self, first_key_value: ValueRef<'_>) -> Result<Placement> {
        match (&self.rule, first_key_value.as_i64()) {
            (Rule::Replicated, _) => return Ok(Placement::All),
            (Rule::Modulo, Some(number)) => {
                return Ok(Placement::One(
                    number.rem_euclid(self.partitions.into()).cast_unsigned() as u32,
                ));
            }
            _ => {}
        }
        let mut key = KeyBuf::new();
        self.first.encode_values(&[first_key_value], &mut key)?;
        Ok(Placement::One(match &self.rule {
            Rule::Ranges(starts) => {
                let at_or_below = starts.partition_point(|(from, _)| *from <= key);
                starts
                    .get(at_or_below.saturating_sub(1))
                    .map_or(0, |(_, partition)| *partition)
            }
            // The high half of the product spreads the hash evenly without a division.
            _ => ((u128::from(stable_hash(&key)) * u128::from(self.partitions)) >> 64) as u32,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Column, DataType, RangeStart, TableId, Value};

    fn table(partitioning: Partitioning) -> TableDef {
        let columns = vec![Column::new("id", DataType::Int64)];
        TableDef {
            partitioning,
            ..TableDef::new(TableId(1), "t", columns, vec![0])
        }
    }

    #[test]
    fn rules_place_rows() {
        let place = |rule: Partitioning, value: i64| {
            Partitioner::new(&table(rule), 4)
                .unwrap()
                .place(value.into())
                .unwrap()
        };
        assert_eq!(place(Partitioning::Modulo, -1), Placement::One(3));
        assert_eq!(place(Partitioning::Replicated, 1), Placement::All);
        let ranges = Partitioning::Ranges(vec![
            RangeStart {
                from: Value::Int64(0),
                partition: 2,
            },
            RangeStart {
                from: Value::Int64(10),
                partition: 1,
            },
        ]);
        assert_eq!(place(ranges.clone(), -5), Placement::One(2));
        assert_eq!(place(ranges.clone(), 9), Placement::One(2));
        assert_eq!(place(ranges.clone(), 10), Placement::One(1));
        assert!(Partitioner::new(&table(ranges), 2).is_err());
    }

    #[test]
    fn hash_is_even_and_stable() {
        let rule = Partitioner::new(&table(Partitioning::Hash), 4).unwrap();
        let mut counts = [0_u32; 4];
        for id in 0..10_000_i64 {
            let Placement::One(partition) = rule.place(id.into()).unwrap() else {
                panic!("one")
            };
            counts[partition as usize] += 1;
        }
        assert!(
            counts.iter().all(|count| (2300..2700).contains(count)),
            "{counts:?}"
        );
    }
}
