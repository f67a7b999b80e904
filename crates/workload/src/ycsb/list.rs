//! The pre-generated list of transactions: the same for every method and every rival.
//!
//! An access is eight bytes: the row, and the column that is updated, or the mark of a read. Each
//! thread has a list of its own, so that a worker runs through memory in order. Rows are drawn in
//! two steps: hot or cold, then evenly within; hot rows are spread over the whole key range, so
//! that skew in accesses is not locality of keys.

use super::{COLUMNS, Mix, Skew, YcsbOptions};
use crate::random::{Random, Spread};

/// Marks an access that reads.
const READ: u8 = u8::MAX;

/// One transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The row's primary key.
    pub key: u32,
    column: u8,
}

/// The access of a transaction to its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Copies all columns to the caller's buffer.
    Read,
    /// Rewrites columns, beginning with this one of `0..10`.
    Update(usize),
}

impl Access {
    /// The access as an [`Action`].
    #[inline]
    pub fn action(self) -> Action {
        if self.column == READ {
            Action::Read
        } else {
            Action::Update(usize::from(self.column))
        }
    }
}

/// The rows of one partition, and the order of its hot and cold ones.
#[derive(Clone, Copy, Debug)]
struct Rows {
    partition: u32,
    partitions: u32,
    count: u64,
    spread: Spread,
}

impl Rows {
    fn new(options: &YcsbOptions, partition: u32) -> Self {
        let (partitions, rows) = (options.partitions, u64::from(options.rows));
        let count = rows
            .saturating_sub(u64::from(partition))
            .div_ceil(u64::from(partitions));
        Self {
            partition,
            partitions,
            count,
            spread: Spread::new(count),
        }
    }

    /// The key of the row with a rank: low ranks are the hot ones.
    fn key(self, rank: u64) -> u32 {
        (self.spread.place(rank) * u64::from(self.partitions) + u64::from(self.partition)) as u32
    }
}

/// The accesses of one list.
pub(super) fn generate(options: &YcsbOptions, list: u32, count: u64) -> Vec<Access> {
    let rows = Rows::new(options, list % options.partitions);
    if rows.count == 0 {
        return Vec::new();
    }
    let mut random = Random::new(options.seed ^ u64::from(list) << 48);
    let (hot_accesses_percent, hot_rows_percent) = match options.skew {
        Skew::Low => (50, 20),
        Skew::High => (90, 10),
    };
    let hot_rows = (rows.count * hot_rows_percent / 100).clamp(1, rows.count);
    let updates_percent = options.mix.updates_percent();
    let draw = |_| {
        let cold_rows = rows.count - hot_rows;
        let rank = if cold_rows == 0 || random.below(100) < hot_accesses_percent {
            random.below(hot_rows)
        } else {
            hot_rows + random.below(cold_rows)
        };
        let column = if random.below(100) < updates_percent {
            random.below(COLUMNS as u64) as u8
        } else {
            READ
        };
        Access {
            key: rows.key(rank),
            column,
        }
    };
    (0..count).map(draw).collect()
}

impl Mix {
    /// Updates among a hundred transactions.
    pub fn updates_percent(self) -> u64 {
        match self {
            Self::ReadOnly => 0,
            Self::ReadHeavy => 10,
            Self::Balanced => 50,
            Self::WriteHeavy => 90,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn options() -> YcsbOptions {
        YcsbOptions {
            rows: 1001,
            partitions: 3,
            mix: Mix::Balanced,
            ..YcsbOptions::default()
        }
    }

    #[test]
    fn every_row_has_one_rank() {
        let mut keys = BTreeSet::new();
        for partition in 0..3 {
            let rows = Rows::new(&options(), partition);
            for rank in 0..rows.count {
                let key = rows.key(rank);
                assert_eq!(key % 3, partition);
                assert!(keys.insert(key));
            }
        }
        assert_eq!(keys.len(), 1001);
        assert_eq!(keys.last(), Some(&1000));
    }

    #[test]
    fn skew_and_mix_are_as_asked() {
        for (skew, hot_percent, hot_rows_percent) in [(Skew::Low, 50, 20), (Skew::High, 90, 10)] {
            let options = YcsbOptions { skew, ..options() };
            let accesses = generate(&options, 1, 50_000);
            let mut counts = BTreeMap::new();
            for access in &accesses {
                *counts.entry(access.key).or_insert(0_u64) += 1;
            }
            let rows = Rows::new(&options, 1);
            let hot = rows.count * hot_rows_percent / 100;
            let on_hot: u64 = (0..hot)
                .map(|rank| counts.get(&rows.key(rank)).unwrap_or(&0))
                .sum();
            let percent = on_hot as f64 / 500.0;
            assert!(
                (percent - f64::from(hot_percent)).abs() < 1.0,
                "{skew:?}: {percent}"
            );
            let updates = accesses
                .iter()
                .filter(|a| a.action() != Action::Read)
                .count();
            assert!((24_000..26_000).contains(&updates), "{updates}");
        }
    }

    #[test]
    fn a_seed_gives_the_same_list() {
        assert_eq!(generate(&options(), 0, 100), generate(&options(), 0, 100));
        let other = YcsbOptions {
            seed: 2,
            ..options()
        };
        assert_ne!(generate(&options(), 0, 100), generate(&other, 0, 100));
    }
}
