//! Intervals: months, days and microseconds, which are kept apart.
//!
//! A month counts as 30 days and a day as 24 hours in comparisons only.

mod text;

pub use text::{parse, parse_with_fields, print};

use crate::error::{Result, SqlError, SqlState};
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// Microseconds of a day.
pub const DAY_MICROS: i64 = 86_400_000_000;
/// Days of a month in comparisons and where fractions of months are spread.
pub const MONTH_DAYS: i64 = 30;

/// A span of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interval {
    /// Months, years included.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Microseconds.
    pub micros: i64,
}

impl Interval {
    /// A span of its three parts.
    pub const fn new(months: i32, days: i32, micros: i64) -> Self {
        Self {
            months,
            days,
            micros,
        }
    }

    /// Microseconds at 30 days a month and 24 hours a day: its place in the order.
    pub fn span(self) -> i128 {
        let days = i64::from(self.months) * MONTH_DAYS + i64::from(self.days);
        i128::from(days) * i128::from(DAY_MICROS) + i128::from(self.micros)
    }
}

/// A result that no interval can hold.
pub fn out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
}

impl PartialEq for Interval {
    fn eq(&self, other: &Self) -> bool {
        self.span() == other.span()
    }
}

impl Eq for Interval {}

impl PartialOrd for Interval {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Interval {
    fn cmp(&self, other: &Self) -> Ordering {
        self.span().cmp(&other.span())
    }
}

impl Hash for Interval {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.span().hash(state);
    }
}

impl Interval {
    /// The span in the other direction.
    pub fn negated(self) -> Result<Self> {
        let parts = self
            .months
            .checked_neg()
            .zip(self.days.checked_neg())
            .zip(self.micros.checked_neg());
        let ((months, days), micros) = parts.ok_or_else(out_of_range)?;
        Ok(Self::new(months, days, micros))
    }

    /// Both spans together.
    pub fn plus(self, other: Self) -> Result<Self> {
        let parts = self
            .months
            .checked_add(other.months)
            .zip(self.days.checked_add(other.days))
            .zip(self.micros.checked_add(other.micros));
        let ((months, days), micros) = parts.ok_or_else(out_of_range)?;
        Ok(Self::new(months, days, micros))
    }

    /// This span without the other.
    pub fn minus(self, other: Self) -> Result<Self> {
        let parts = self
            .months
            .checked_sub(other.months)
            .zip(self.days.checked_sub(other.days))
            .zip(self.micros.checked_sub(other.micros));
        let ((months, days), micros) = parts.ok_or_else(out_of_range)?;
        Ok(Self::new(months, days, micros))
    }
}
