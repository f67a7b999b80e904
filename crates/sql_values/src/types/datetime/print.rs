//! Dates and times as text, in the four styles of `DateStyle`.
//!
//! Each text that is printed here can be read again under the same settings. Zones are printed as
//! offsets in the style ISO, and by their abbreviation in the others.

use super::super::context::{Context, DateOrder, DateStyle};
use super::super::datum::Datum;
use super::super::text_io::append;
use super::calendar::{
    DATE_INFINITY, DATE_NEGATIVE_INFINITY, Fields, INFINITY, NEGATIVE_INFINITY, date_of, fields_of,
    fields_of_time, weekday,
};
use super::zone;
use crate::error::Result;

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/// Appends the text of a date or time.
pub fn print(out: &mut String, datum: &Datum, context: &Context<'_>) -> Result<()> {
    let settings = context.settings;
    match datum {
        Datum::Date(DATE_INFINITY) => out.push_str("infinity"),
        Datum::Date(DATE_NEGATIVE_INFINITY) => out.push_str("-infinity"),
        Datum::Date(days) => {
            let (year, month, day) = date_of(i64::from(*days));
            let fields = Fields {
                year,
                month,
                day,
                ..Fields::default()
            };
            date(out, &fields, settings.date_style, settings.date_order);
            era(out, year);
        }
        Datum::Time(micros) => time(out, &fields_of_time(*micros)),
        Datum::Timetz(value) => {
            time(out, &fields_of_time(value.micros));
            offset(out, -value.zone);
        }
        Datum::Timestamp(INFINITY) | Datum::Timestamptz(INFINITY) => out.push_str("infinity"),
        Datum::Timestamp(NEGATIVE_INFINITY) | Datum::Timestamptz(NEGATIVE_INFINITY) => {
            out.push_str("-infinity");
        }
        Datum::Timestamp(micros) => {
            timestamp(out, *micros, None, settings.date_style, settings.date_order);
        }
        Datum::Timestamptz(utc) => {
            let seconds = zone::offset_at(&settings.zone, *utc);
            let name = match settings.date_style {
                DateStyle::Iso => String::new(),
                _ => zone::abbreviation_at(&settings.zone, *utc),
            };
            let local = zone::to_local(&settings.zone, *utc);
            let zoned = Some((seconds, name));
            timestamp(out, local, zoned, settings.date_style, settings.date_order);
        }
        other => {
            return Err(crate::error::SqlError::internal(format!(
                "{other:?} is no time"
            )));
        }
    }
    Ok(())
}

/// Years before 1 are shown as years BC.
fn shown_year(year: i64) -> i64 {
    if year > 0 { year } else { 1 - year }
}

fn era(out: &mut String, year: i64) {
    if year <= 0 {
        out.push_str(" BC");
    }
}

fn date(out: &mut String, fields: &Fields, style: DateStyle, order: DateOrder) {
    let year = shown_year(fields.year);
    let Fields { month, day, .. } = *fields;
    let is_day_first = order == DateOrder::Dmy;
    match style {
        DateStyle::Iso => append(out, format_args!("{year:04}-{month:02}-{day:02}")),
        DateStyle::Sql if is_day_first => {
            append(out, format_args!("{day:02}/{month:02}/{year:04}"));
        }
        DateStyle::Sql => append(out, format_args!("{month:02}/{day:02}/{year:04}")),
        DateStyle::German => append(out, format_args!("{day:02}.{month:02}.{year:04}")),
        DateStyle::Postgres if is_day_first => {
            append(out, format_args!("{day:02}-{month:02}-{year:04}"));
        }
        DateStyle::Postgres => append(out, format_args!("{month:02}-{day:02}-{year:04}")),
    }
}

fn time(out: &mut String, fields: &Fields) {
    append(
        out,
        format_args!(
            "{:02}:{:02}:{:02}",
            fields.hour, fields.minute, fields.second
        ),
    );
    fraction(out, fields.micros);
}

/// Digits after the seconds, without zeros at the end.
pub fn fraction(out: &mut String, micros: i64) {
    if micros != 0 {
        let digits = format!("{:06}", micros.abs());
        append(out, format_args!(".{}", digits.trim_end_matches('0')));
    }
}

/// `+hh`, with minutes and seconds where there are any.
fn offset(out: &mut String, seconds: i32) {
    let sign = if seconds < 0 { '-' } else { '+' };
    let total = seconds.abs();
    append(out, format_args!("{sign}{:02}", total / 3600));
    if total % 3600 != 0 {
        append(out, format_args!(":{:02}", total / 60 % 60));
    }
    if total % 60 != 0 {
        append(out, format_args!(":{:02}", total % 60));
    }
}

fn timestamp(
    out: &mut String,
    local: i64,
    zoned: Option<(i32, String)>,
    style: DateStyle,
    order: DateOrder,
) {
    let fields = fields_of(local);
    if style == DateStyle::Postgres {
        let weekday = WEEKDAYS[weekday(fields.days()) as usize];
        let month = MONTHS[(fields.month - 1) as usize];
        let day = fields.day;
        match order {
            DateOrder::Dmy => append(out, format_args!("{weekday} {day:02} {month} ")),
            _ => append(out, format_args!("{weekday} {month} {day:02} ")),
        }
        time(out, &fields);
        append(out, format_args!(" {:04}", shown_year(fields.year)));
    } else {
        date(out, &fields, style, order);
        out.push(' ');
        time(out, &fields);
    }
    match zoned {
        None => {}
        Some((seconds, name)) if style == DateStyle::Iso || !is_word(&name) => {
            if style == DateStyle::Postgres {
                out.push(' ');
            }
            offset(out, seconds);
        }
        Some((_, name)) => append(out, format_args!(" {name}")),
    }
    era(out, fields.year);
}

/// Zones without an abbreviation have a number in its place.
fn is_word(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
}
