//! Which partition a row belongs to.
//!
//! The first column of the primary key decides, by the rule that the table declares. The answer for a value must never
//! change while a table lives, so the hash is one of our own and part of the format.

use super::error::{Result, SchemaError};
use super::key::{KeyBuf, KeyEncoder, stable_hash};
use super::schema::{Partitioning, TableDef};
use super::value::ValueRef;

/// Where a row lies.
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
    rule: Partitioning,
    partitions: u32,
}

impl Partitioner {
    /// The rule of a valid table; an error if it names a partition that there is not.
    pub fn new(table: &TableDef, partitions: u32) -> Result<Self, SchemaError> {
        let bad = |reason: String| SchemaError::BadPartitioning { table: table.name.clone(), reason };
        if partitions == 0 {
            return Err(bad("there must be at least one partition".into()));
        }
        if let Partitioning::Ranges(starts) = &table.partitioning
            && let Some(start) = starts.iter().find(|start| start.partition >= partitions)
        {
            let reason = format!("range {} names partition {} of {partitions}", start.from, start.partition);
            return Err(bad(reason));
        }
        let mut narrow = table.clone();
        narrow.primary_key.truncate(1);
        let first = KeyEncoder::primary(&narrow);
        Ok(Self { first, rule: table.partitioning.clone(), partitions })
    }

    /// Where the rows with this value of the first primary key column lie.
    pub fn place(&self, first_key_value: ValueRef<'_>) -> Result<Placement> {
        if self.partitions == 1 && self.rule != Partitioning::Replicated {
            return Ok(Placement::One(0));
        }
        Ok(match (&self.rule, first_key_value) {
            (Partitioning::Replicated, _) => Placement::All,
            (Partitioning::Ranges(starts), value) => {
                let above = starts.partition_point(|start| start.from.as_ref() <= value);
                let range = starts.get(above.saturating_sub(1));
                Placement::One(range.map_or(0, |start| start.partition))
            }
            (Partitioning::Modulo, value) if value.as_i64().is_some() => {
                let number = value.as_i64().unwrap_or_default();
                Placement::One(number.rem_euclid(i64::from(self.partitions)) as u32)
            }
            (Partitioning::Hash | Partitioning::Modulo, value) => {
                let mut key = KeyBuf::new();
                self.first.encode_values(&[value], &mut key)?;
                // The high half of the product spreads the hash evenly without a division.
                let scaled = u128::from(stable_hash(&key)) * u128::from(self.partitions);
                Placement::One((scaled >> 64) as u32)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Column, DataType, RangeStart, TableId, Value};

    fn table(partitioning: Partitioning) -> TableDef {
        let columns = vec![Column::new("id", DataType::Int64)];
        TableDef { partitioning, ..TableDef::new(TableId(1), "t", columns, vec![0]) }
    }

    #[test]
    fn rules_place_rows() {
        let place = |rule: Partitioning, value: i64| {
            Partitioner::new(&table(rule), 4).unwrap().place(value.into()).unwrap()
        };
        assert_eq!(place(Partitioning::Modulo, -1), Placement::One(3));
        assert_eq!(place(Partitioning::Replicated, 1), Placement::All);
        let ranges = Partitioning::Ranges(vec![
            RangeStart { from: Value::Int64(0), partition: 2 },
            RangeStart { from: Value::Int64(10), partition: 1 },
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
            let Placement::One(partition) = rule.place(id.into()).unwrap() else { panic!("one") };
            counts[partition as usize] += 1;
        }
        assert!(counts.iter().all(|count| (2300..2700).contains(count)), "{counts:?}");
    }
}
