//! Statistics of a table's columns, from a sample of its rows, for whoever plans queries.
//!
//! A sample has the same chance to be any set of so many rows (reservoir sampling). Its contents
//! over 256 bytes take part as hashes: they count as values, but are not among the common ones or
//! the bounds.

use crate::column_statistics::{ColumnStatistics, TableStatistics};
use crate::database::Database;
use crate::error::Result;
use crate::hidden::HiddenTable;
use crate::options::{Mode, TransactionOptions};
use crate::table::Table;
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, PoisonError};
use storage::StorageError;
use storage::engine::{Direction, Isolation};
use storage::record::{
    DecodeError, Reader, Row, TableId, Value, ValueRef, decode_value, encode_value,
};

/// Rows of a sample.
const SAMPLE_ROWS: usize = 30_000;
/// The most common values, and bounds, that are kept of a column.
const COMMON_MAX: usize = 50;
const BOUNDS_MAX: usize = 100;
/// A value is common if it is so much more frequent than the average one.
const COMMON_FACTOR: f64 = 1.25;
/// The most bytes of a content that is kept.
const CONTENT_BYTES_MAX: usize = 256;
/// Version of the stored form.
const VERSION: u8 = 1;

/// A value of a sample.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sampled {
    Null,
    Value(Value),
    /// A content that is too long to be kept.
    Long(u64),
}

impl Sampled {
    fn new(value: ValueRef<'_>) -> Self {
        match value.as_bytes() {
            Some(content) if content.len() > CONTENT_BYTES_MAX => {
                let mut hasher = DefaultHasher::new();
                hasher.write(content);
                Self::Long(hasher.finish())
            }
            _ if value.is_null() => Self::Null,
            _ => Self::Value(value.to_value()),
        }
    }
}

/// Rows that are chosen from a stream, each with the same chance.
struct Reservoir {
    rows: Vec<Vec<Sampled>>,
    seen: u64,
    random: u64,
}

impl Reservoir {
    fn new(seed: u64) -> Self {
        Self {
            rows: Vec::new(),
            seen: 0,
            random: seed,
        }
    }

    fn add(&mut self, row: &Row) {
        self.seen += 1;
        let columns = 0..row.layout().fields().len();
        if self.rows.len() < SAMPLE_ROWS {
            self.rows
                .push(columns.map(|at| Sampled::new(row.get(at))).collect());
            return;
        }
        let place = (u128::from(self.next()) * u128::from(self.seen)) >> 64;
        if let Some(kept) = self.rows.get_mut(place as usize) {
            kept.clear();
            kept.extend(columns.map(|at| Sampled::new(row.get(at))));
        }
    }

    /// The next number of splitmix64.
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn statistics(mut self, columns: usize) -> TableStatistics {
        let of_column = |at: usize| {
            let values = self.rows.iter_mut();
            let values = values.map(|row| std::mem::replace(&mut row[at], Sampled::Null));
            ColumnStatistics::of(values.collect(), self.seen)
        };
        TableStatistics {
            rows: self.seen,
            columns: (0..columns).map(of_column).collect(),
            sampled: self.rows.len() as u64,
        }
    }
}

impl ColumnStatistics {
    /// The statistics of a column with this sample, in a table of so many rows.
    fn of(mut sample: Vec<Sampled>, rows: u64) -> Self {
        sample.sort_unstable();
        let sampled = sample.len().max(1) as f64;
        let nulls = sample.partition_point(|value| *value == Sampled::Null);
        let values = &sample[nulls..];
        let groups: Vec<&[Sampled]> = values.chunk_by(|left, right| left == right).collect();
        let share = |count: usize| count as f64 / sampled;
        let (known, different) = (values.len() as f64, groups.len() as f64);
        let total = rows as f64 * share(values.len());
        let mut order: Vec<usize> = (0..groups.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(groups[at].len()));
        let is_all = sample.len() as u64 == rows && groups.len() <= COMMON_MAX;
        let least = COMMON_FACTOR * known / different.max(1.0);
        let is_common = |group: &[Sampled]| {
            matches!(group[0], Sampled::Value(_))
                && (is_all || group.len() > 1 && group.len() as f64 > least)
        };
        order.retain(|&at| is_common(groups[at]));
        order.truncate(COMMON_MAX);
        let common = order.iter().filter_map(|&at| match &groups[at][0] {
            Sampled::Value(value) => Some((value.clone(), share(groups[at].len()))),
            _ => None,
        });
        let common = common.collect();
        order.sort_unstable();
        let others = groups.iter().enumerate();
        let others = others.filter(|(at, _)| order.binary_search(at).is_err());
        let others: Vec<&Value> = others
            .flat_map(|(_, group)| *group)
            .filter_map(|value| match value {
                Sampled::Value(value) => Some(value),
                _ => None,
            })
            .collect();
        Self {
            nulls: share(nulls),
            distinct: distinct(&groups, known, total),
            common,
            bounds: bounds(&others),
        }
    }
}

/// The estimate of Haas and Stokes (1998, Duj1) of the number of different values among `total`,
/// from the groups of equal values among `known`.
fn distinct(groups: &[&[Sampled]], known: f64, total: f64) -> f64 {
    let different = groups.len() as f64;
    if known == 0.0 || known >= total {
        return different;
    }
    let once = groups.iter().filter(|group| group.len() == 1).count() as f64;
    let estimate = known * different / (known - once + once * known / total);
    estimate.clamp(different, total).round()
}

/// Values that part the others into about equal shares, the least and the greatest among them.
fn bounds(values: &[&Value]) -> Vec<Value> {
    let Some(last) = values.len().checked_sub(1) else {
        return Vec::new();
    };
    let count = BOUNDS_MAX.min(values.len());
    let at = |bound: usize| values[bound * last / (count - 1).max(1)].clone();
    let mut bounds: Vec<Value> = (0..count).map(at).collect();
    bounds.dedup();
    bounds
}

/// The stored form of a column's statistics.
fn encode(table: TableId, of: &TableStatistics, column: &ColumnStatistics) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&table.0.to_le_bytes());
    bytes.extend_from_slice(&of.rows.to_le_bytes());
    bytes.extend_from_slice(&of.sampled.to_le_bytes());
    bytes.extend_from_slice(&column.nulls.to_le_bytes());
    bytes.extend_from_slice(&column.distinct.to_le_bytes());
    bytes.extend_from_slice(&(column.common.len() as u32).to_le_bytes());
    for (value, share) in &column.common {
        encode_value(value.as_ref(), &mut bytes);
        bytes.extend_from_slice(&share.to_le_bytes());
    }
    bytes.extend_from_slice(&(column.bounds.len() as u32).to_le_bytes());
    for value in &column.bounds {
        encode_value(value.as_ref(), &mut bytes);
    }
    bytes
}

/// Rows, sampled rows and the statistics; none if they are another table's or of a newer version.
fn decode(
    bytes: &[u8],
    table: TableId,
) -> std::result::Result<Option<(u64, u64, ColumnStatistics)>, DecodeError> {
    const WHAT: &str = "statistics of a column";
    let mut reader = Reader::new(bytes);
    if reader.byte(WHAT)? != VERSION || reader.number(WHAT)? != table.0 {
        return Ok(None);
    }
    let rows = reader.array(WHAT).map(u64::from_le_bytes)?;
    let sampled = reader.array(WHAT).map(u64::from_le_bytes)?;
    let nulls = reader.array(WHAT).map(f64::from_le_bytes)?;
    let distinct = reader.array(WHAT).map(f64::from_le_bytes)?;
    let mut common = Vec::new();
    for _ in 0..reader.number(WHAT)? {
        let value = decode_value(&mut reader)?.to_value();
        common.push((value, reader.array(WHAT).map(f64::from_le_bytes)?));
    }
    let mut bounds = Vec::new();
    for _ in 0..reader.number(WHAT)? {
        bounds.push(decode_value(&mut reader)?.to_value());
    }
    let column = ColumnStatistics {
        nulls,
        distinct,
        common,
        bounds,
    };
    Ok(Some((rows, sampled, column)))
}

impl Database {
    /// Reads all rows of a table in one transaction, makes statistics of a sample of 30,000, and
    /// keeps them in [`HiddenTable::Statistics`], which is made if it is not there. Nobody waits
    /// for it longer than for a batch of rows.
    pub fn analyze(&self, table: &Table) -> Result<TableStatistics> {
        let made = self.analyze_while(table, || true)?;
        made.ok_or_else(|| StorageError::Interrupted.into())
    }

    /// As [`Database::analyze`], as long as `goes_on` says so after each batch of rows; none if it
    /// did not.
    pub fn analyze_while(
        &self,
        table: &Table,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<Option<TableStatistics>> {
        let kept = self.hidden_table(HiddenTable::Statistics)?;
        let mut sample = Reservoir::new(table.id().0.into());
        let mut connection = self.connect()?;
        connection.begin_with(Isolation::ReadCommitted, Mode::ReadOnly)?;
        let mut scan = connection.scan(table, .., Direction::Forward)?;
        let mut rows = Vec::new();
        while scan.next_batch(&mut connection, &mut rows)? {
            if !goes_on() {
                return Ok(None);
            }
            for row in &rows {
                sample.add(row);
            }
        }
        connection.abort();
        table.entry.count.estimate(sample.seen);
        let statistics = sample.statistics(table.entry.shape.def.columns.len());
        let options = TransactionOptions::new().unchecked(true);
        self.transaction_with(&options, |t| {
            for (at, column) in (0_i32..).zip(&statistics.columns) {
                let body = encode(table.id(), &statistics, column);
                t.upsert(&kept, (table.name(), at, body.as_slice()))?;
            }
            Ok(())
        })?;
        table.keep(&statistics);
        Ok(Some(statistics))
    }

    /// The statistics of the last [`Database::analyze`] of a table; none if there was none since
    /// the table was made or changed.
    pub fn table_statistics(&self, table: &Table) -> Result<Option<TableStatistics>> {
        let Some(kept) = self.core.hidden_table(HiddenTable::Statistics) else {
            return Ok(None);
        };
        table.check(self.core.serial)?;
        let columns = table.entry.shape.def.columns.len();
        let found = self.read(|reader| {
            let mut found = Vec::new();
            for at in (0_i32..).take(columns) {
                let row = reader.get(&kept, (table.name(), at))?;
                let body = row.as_ref().and_then(|row| row.get(2).as_bytes());
                let column = body.and_then(|body| decode(body, table.id()).ok().flatten());
                let Some(column) = column else {
                    return Ok(None);
                };
                found.push(column);
            }
            Ok(Some(found))
        })?;
        let Some(found) = found else {
            return Ok(None);
        };
        let mut statistics = TableStatistics {
            rows: 0,
            sampled: 0,
            columns: Vec::with_capacity(columns),
        };
        for (rows, sampled, column) in found {
            (statistics.rows, statistics.sampled) = (rows, sampled);
            statistics.columns.push(column);
        }
        table.keep(&statistics);
        Ok(Some(statistics))
    }
}

impl Table {
    /// The statistics that [`Database::analyze`] or [`Database::table_statistics`] gave last, from
    /// memory; none if neither was called since the database was opened.
    pub fn known_statistics(&self) -> Option<Arc<TableStatistics>> {
        let known = self.entry.statistics.read();
        known.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn keep(&self, statistics: &TableStatistics) {
        let known = self.entry.statistics.write();
        *known.unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(statistics.clone()));
    }
}

#[cfg(test)]
#[expect(
    clippy::float_cmp,
    reason = "counts and shares of whole samples are exact"
)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = Option<i64>>, rows: u64) -> ColumnStatistics {
        let values = values.into_iter().map(ValueRef::from);
        ColumnStatistics::of(values.map(Sampled::new).collect(), rows)
    }

    #[test]
    fn a_whole_table_of_few_values_is_known_exactly() {
        let values = (0..100).map(|at| (at % 10 > 1).then_some(at % 10 % 4));
        let column = of(values, 100);
        let common = [(2, 0.2), (3, 0.2), (0, 0.2), (1, 0.2)];
        assert_eq!(column.nulls, 0.2);
        assert_eq!(column.distinct, 4.0);
        assert!(column.bounds.is_empty());
        for (value, share) in common {
            assert!(
                column.common.contains(&(Value::Int64(value), share)),
                "{column:?}"
            );
        }
    }

    #[test]
    fn unique_values_are_expected_to_stay_unique() {
        let column = of((0..3000).map(Some), 1_000_000);
        assert_eq!(column.distinct, 1_000_000.0);
        assert!(column.common.is_empty());
        assert_eq!(column.bounds.len(), BOUNDS_MAX);
        let ends = [column.bounds.first(), column.bounds.last()];
        assert_eq!(ends, [Some(&Value::Int64(0)), Some(&Value::Int64(2999))]);
        let steps = column.bounds.windows(2).map(|pair| match pair {
            [Value::Int64(low), Value::Int64(high)] => high - low,
            _ => 0,
        });
        assert!(steps.into_iter().all(|step| (30..=31).contains(&step)));
    }

    #[test]
    fn a_value_of_half_of_the_rows_is_common_and_no_bound() {
        let values = (0..2000).map(|at| Some(if at % 2 == 0 { 7 } else { 1000 + at }));
        let column = of(values, 2000);
        assert_eq!(column.common, [(Value::Int64(7), 0.5)]);
        assert_eq!(column.distinct, 1001.0);
        assert_eq!(column.bounds.first(), Some(&Value::Int64(1001)));
    }

    #[test]
    fn repeated_values_are_fewer_than_rows() {
        let column = of((0..3000).map(|at| Some(at % 500)), 3_000_000);
        assert_eq!(column.distinct, 500.0);
        let none = of(std::iter::empty(), 0);
        assert_eq!((none.nulls, none.distinct), (0.0, 0.0));
    }

    #[test]
    fn long_contents_count_and_are_not_kept() {
        let texts = [
            "a".repeat(300),
            "b".repeat(300),
            "b".repeat(300),
            "c".into(),
        ];
        let sample = texts
            .iter()
            .map(|text| Sampled::new(ValueRef::from(text.as_str())));
        let column = ColumnStatistics::of(sample.collect(), 4);
        assert_eq!(column.distinct, 3.0);
        assert_eq!(column.common, [(Value::from("c"), 0.25)]);
    }

    #[test]
    fn statistics_read_back_for_their_own_table_only() {
        let column = of((0..900).map(|at| (at % 7 > 0).then_some(at % 90)), 5000);
        let all = TableStatistics {
            rows: 5000,
            sampled: 900,
            columns: vec![column.clone()],
        };
        let bytes = encode(TableId(20), &all, &column);
        assert_eq!(decode(&bytes, TableId(20)), Ok(Some((5000, 900, column))));
        assert_eq!(decode(&bytes, TableId(21)), Ok(None));
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length], TableId(20)).is_err(), "{length}");
        }
    }
}
