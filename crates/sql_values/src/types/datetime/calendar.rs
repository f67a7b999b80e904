//! Days, and moments taken apart into their fields.
//!
//! Years are astronomical here: the year 0 is 1 BC.

use crate::error::{Result, SqlError, SqlState};

/// Microseconds of a second.
pub const SECOND: i64 = 1_000_000;
/// Microseconds of a minute.
pub const MINUTE: i64 = 60 * SECOND;
/// Microseconds of an hour.
pub const HOUR: i64 = 60 * MINUTE;
/// Microseconds of a day.
pub const DAY: i64 = 24 * HOUR;

/// The earliest date.
pub const DATE_MIN: i32 = -2_451_545;
/// The day after the last date.
pub const DATE_END: i32 = 2_145_031_949;
/// Before all dates.
pub const DATE_NEGATIVE_INFINITY: i32 = i32::MIN;
/// After all dates.
pub const DATE_INFINITY: i32 = i32::MAX;
/// The earliest timestamp.
pub const TIMESTAMP_MIN: i64 = -211_813_488_000_000_000;
/// The moment after the last timestamp.
pub const TIMESTAMP_END: i64 = 9_223_371_331_200_000_000;
/// Before all timestamps.
pub const NEGATIVE_INFINITY: i64 = i64::MIN;
/// After all timestamps.
pub const INFINITY: i64 = i64::MAX;
/// The Julian day of 2000-01-01.
pub const EPOCH_JULIAN_DAY: i64 = 2_451_545;
/// Days from 1970-01-01 to 2000-01-01.
pub const UNIX_EPOCH_DAYS: i64 = 10_957;
/// Days of 400 years.
const CYCLE_DAYS: i64 = 146_097;

/// A moment taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fields {
    /// The year; 0 is 1 BC.
    pub year: i64,
    /// The month, from 1.
    pub month: i64,
    /// The day of the month, from 1.
    pub day: i64,
    /// Hours since midnight.
    pub hour: i64,
    /// Minutes of the hour.
    pub minute: i64,
    /// Seconds of the minute.
    pub second: i64,
    /// Microseconds of the second.
    pub micros: i64,
}

/// Days since 2000-01-01 of a day of the calendar, which may lie outside its month.
pub fn days_of(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that leap days are last.
    let months = year * 12 + month - 3;
    let (march_year, march_month) = (months.div_euclid(12), months.rem_euclid(12));
    let cycle = march_year.div_euclid(400);
    let of_cycle = march_year.rem_euclid(400);
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    let day_of_cycle = of_cycle * 365 + of_cycle / 4 - of_cycle / 100 + day_of_year;
    // 719,468 days lie between 0000-03-01 and 1970-01-01.
    cycle * CYCLE_DAYS + day_of_cycle - 719_468 - UNIX_EPOCH_DAYS
}

/// Year, month and day of days since 2000-01-01.
pub fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + UNIX_EPOCH_DAYS + 719_468;
    let cycle = days.div_euclid(CYCLE_DAYS);
    let day_of_cycle = days.rem_euclid(CYCLE_DAYS);
    let year_of_cycle =
        (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year =
        day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = cycle * 400 + year_of_cycle + i64::from(month <= 2);
    (year, month, day)
}

/// Whether the year has a leap day.
pub fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days of a month.
pub fn month_days(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The day of the week of days since 2000-01-01, from Sunday as 0.
pub fn weekday(days: i64) -> i64 {
    // 2000-01-01 was a Saturday.
    (days + 6).rem_euclid(7)
}

/// The day of the year, from 1.
pub fn year_day(days: i64) -> i64 {
    let (year, _, _) = date_of(days);
    days - days_of(year, 1, 1) + 1
}

/// Year and week by ISO 8601.
pub fn iso_week(days: i64) -> (i64, i64) {
    // The week belongs to the year of its Thursday.
    let thursday = days - (weekday(days) + 6) % 7 + 3;
    let (year, _, _) = date_of(thursday);
    (year, (thursday - days_of(year, 1, 1)) / 7 + 1)
}

/// The Monday of the first week of a year by ISO 8601.
pub fn iso_year_start(year: i64) -> i64 {
    let fourth = days_of(year, 1, 4);
    fourth - (weekday(fourth) + 6) % 7
}

/// A moment taken apart; infinities must have been treated before.
pub fn fields_of(timestamp: i64) -> Fields {
    let days = timestamp.div_euclid(DAY);
    let (year, month, day) = date_of(days);
    let time = fields_of_time(timestamp.rem_euclid(DAY));
    Fields {
        year,
        month,
        day,
        ..time
    }
}

/// Microseconds since midnight taken apart.
pub fn fields_of_time(micros: i64) -> Fields {
    Fields {
        hour: micros / HOUR,
        minute: micros / MINUTE % 60,
        second: micros / SECOND % 60,
        micros: micros % SECOND,
        ..Fields::default()
    }
}

impl Fields {
    /// Days since 2000-01-01.
    pub fn days(&self) -> i64 {
        days_of(self.year, self.month, self.day)
    }

    /// Microseconds since midnight.
    pub fn time(&self) -> i64 {
        self.hour * HOUR + self.minute * MINUTE + self.second * SECOND + self.micros
    }
}

/// The moment of a day and microseconds, if a timestamp can hold it.
pub fn timestamp_of(days: i64, micros: i64) -> Option<i64> {
    let timestamp = i128::from(days) * i128::from(DAY) + i128::from(micros);
    i64::try_from(timestamp)
        .ok()
        .filter(|timestamp| is_valid(*timestamp))
}

/// Whether it is within the range of timestamps; the infinities are not.
pub fn is_valid(timestamp: i64) -> bool {
    (TIMESTAMP_MIN..TIMESTAMP_END).contains(&timestamp)
}

/// Whether it is a moment, not an infinity.
pub fn is_finite(timestamp: i64) -> bool {
    timestamp != INFINITY && timestamp != NEGATIVE_INFINITY
}

/// Whether it is a day, not an infinity.
pub fn is_finite_date(days: i32) -> bool {
    days != DATE_INFINITY && days != DATE_NEGATIVE_INFINITY
}

/// The date of days that may lie outside its range.
pub fn checked_date(days: i64) -> Result<i32> {
    if (i64::from(DATE_MIN)..i64::from(DATE_END)).contains(&days) {
        Ok(days as i32)
    } else {
        Err(date_out_of_range())
    }
}

/// A date that cannot be.
pub fn date_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range")
}

/// A timestamp that cannot be.
pub fn timestamp_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_lead_back_to_their_date() {
        assert_eq!(days_of(2000, 1, 1), 0);
        assert_eq!(days_of(1970, 1, 1), -UNIX_EPOCH_DAYS);
        assert_eq!(days_of(-4713, 11, 24), i64::from(DATE_MIN));
        for days in (-2_451_545_i64..3_000_000).step_by(97) {
            let (year, month, day) = date_of(days);
            assert_eq!(days_of(year, month, day), days);
        }
    }
}
