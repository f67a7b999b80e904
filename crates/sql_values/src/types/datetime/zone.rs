//! Time zones: names, offsets and abbreviations.
//!
//! A name is one of the zone database, an abbreviation, or a POSIX text; `jiff` has the rules.
//! Moments after its last year take the offset of the same day 400 years and more before.

use super::calendar::{DAY, SECOND, UNIX_EPOCH_DAYS};
use crate::error::{Result, SqlError, SqlState};
use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

/// Microseconds of 400 years, after which days of the week and leap years repeat.
const CYCLE: i64 = 146_097 * DAY;
/// Moments from here on are moved back by whole cycles: 9000-01-01.
const LAST: i64 = 2_556_751 * DAY;
/// Changes of offset after a moment that are looked at; their rules repeat for ever.
const TRANSITIONS_MAX: usize = 200;

/// The zone of a name, as `SET timezone` and `AT TIME ZONE` take it.
pub fn find(name: &str) -> Result<TimeZone> {
    lookup(name).ok_or_else(|| {
        SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("time zone \"{name}\" not recognized"),
        )
    })
}

/// The zone of a name, an abbreviation or a POSIX text, if there is one.
pub fn lookup(name: &str) -> Option<TimeZone> {
    if let Some((seconds, _)) = abbreviation(name) {
        return fixed(seconds);
    }
    if let Ok(zone) = TimeZone::get(name) {
        return Some(zone);
    }
    posix(name).or_else(|| fixed(-seconds_of(name)?))
}

/// The name of a zone as the zone database has it, whatever the case of its letters; others keep
/// their text, in capitals as in POSIX.
pub fn shown_name(name: &str) -> String {
    let known = TimeZone::get(name).ok();
    let known = known.as_ref().and_then(TimeZone::iana_name);
    known.map_or_else(|| name.to_ascii_uppercase(), str::to_owned)
}

/// The names of the zone database.
pub fn names() -> Vec<String> {
    let names = jiff::tz::db().available();
    names.map(|name| name.as_str().to_owned()).collect()
}

/// The abbreviation, the seconds east of Greenwich and whether it is summer, of a zone at a moment.
pub fn at(name: &str, utc: i64) -> Option<(String, i32, bool)> {
    let zone = TimeZone::get(name).ok()?;
    let info = zone.to_offset_info(moment(utc));
    let abbreviation = info.abbreviation().to_owned();
    Some((abbreviation, info.offset().seconds(), info.dst().is_dst()))
}

/// Seconds of hours, and perhaps minutes and seconds, with colons between them. As in POSIX texts,
/// they count west of Greenwich.
fn seconds_of(text: &str) -> Option<i32> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut seconds = 0;
    let mut parts = digits.split(':');
    for unit in [3600, 60, 1] {
        let Some(part) = parts.next() else { break };
        let is_number =
            (1..=3).contains(&part.len()) && part.bytes().all(|one| one.is_ascii_digit());
        let part: i32 = part.parse().ok().filter(|_| is_number)?;
        seconds += part * unit;
    }
    parts.next().is_none().then_some(sign * seconds)
}

/// A POSIX text: a name and the hours west of Greenwich, and rules of summer time.
fn posix(text: &str) -> Option<TimeZone> {
    if text.len() > 100 {
        return None;
    }
    TimeZone::posix(&text.to_ascii_uppercase())
        .ok()
        .or_else(|| {
            // PostgreSQL takes any characters for the name before the hours.
            let place = text.find(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | ','))?;
            let (name, hours) = text.split_at(place);
            let hours: i32 = hours.parse().ok()?;
            (!name.is_empty()).then(|| fixed(-hours * 3600))?
        })
}

/// The zone of as many hours east of Greenwich, with its POSIX text, as `SET timezone` takes it.
pub fn of_hours(hours: f64) -> Option<(TimeZone, String)> {
    let east = (hours * 3600.0).trunc();
    if east.is_nan() || east.abs() > 168.0 * 3600.0 {
        return None;
    }
    let east = east as i32;
    let seconds = east.abs();
    let mut units = vec![seconds / 3600, seconds / 60 % 60, seconds % 60];
    while units.len() > 1 && units.last() == Some(&0) {
        units.pop();
    }
    let digits: Vec<String> = units.iter().map(|unit| format!("{unit:02}")).collect();
    let digits = digits.join(":");
    let name = match east {
        ..0 => format!("<-{digits}>+{digits}"),
        _ => format!("<+{digits}>-{digits}"),
    };
    Some((fixed(east)?, name))
}

/// A zone of one offset, in seconds east of Greenwich.
pub fn fixed(seconds: i32) -> Option<TimeZone> {
    Offset::from_seconds(seconds).ok().map(TimeZone::fixed)
}

/// Seconds east of Greenwich of an abbreviation, and whether it is one of summer time.
pub fn abbreviation(name: &str) -> Option<(i32, bool)> {
    let upper = name.to_ascii_uppercase();
    let index = ABBREVIATIONS
        .binary_search_by(|(abbreviation, ..)| (*abbreviation).cmp(upper.as_str()))
        .ok()?;
    let (_, minutes, is_summer) = ABBREVIATIONS[index];
    Some((minutes * 60, is_summer))
}

/// The zone of an abbreviation whose offset has changed in the course of time.
fn zone_of(abbreviation: &str) -> Option<TimeZone> {
    let known = |(_, names): &&(&str, &[&str])| names.contains(&abbreviation);
    let (zone, _) = CHANGING.iter().find(known)?;
    TimeZone::get(zone).ok()
}

/// Whether a name is an abbreviation whose offset depends on the moment.
pub fn is_changing(name: &str) -> bool {
    zone_of(&name.to_ascii_uppercase()).is_some()
}

/// The zone that a name means at a local time: that of an abbreviation has the offset that the
/// abbreviation had last.
pub fn lookup_local(name: &str, local: i64) -> Option<TimeZone> {
    let upper = name.to_ascii_uppercase();
    match zone_of(&upper) {
        Some(zone) => fixed(offset_of(&upper, &zone, to_utc(&zone, local))),
        None => lookup(name),
    }
}

/// The zone that a name means at a moment.
pub fn lookup_at(name: &str, utc: i64) -> Option<TimeZone> {
    let upper = name.to_ascii_uppercase();
    match zone_of(&upper) {
        Some(zone) => fixed(offset_of(&upper, &zone, utc)),
        None => lookup(name),
    }
}

/// Seconds east of Greenwich of an abbreviation of a zone: those that it had last at a moment, or
/// first after it.
fn offset_of(abbreviation: &str, zone: &TimeZone, utc: i64) -> i32 {
    let at = moment(utc);
    let info = zone.to_offset_info(at);
    if info.abbreviation() == abbreviation {
        return info.offset().seconds();
    }
    let before = zone
        .preceding(at)
        .chain(zone.following(at).take(TRANSITIONS_MAX));
    let mut same = before.filter(|one| one.abbreviation() == abbreviation);
    let found = same.next().map(|one| one.offset());
    found.unwrap_or_else(|| info.offset()).seconds()
}

/// Seconds east of Greenwich at a moment.
pub fn offset_at(zone: &TimeZone, utc: i64) -> i32 {
    zone.to_offset(moment(utc)).seconds()
}

/// The local time of a moment.
pub fn to_local(zone: &TimeZone, utc: i64) -> i64 {
    utc.saturating_add(i64::from(offset_at(zone, utc)) * SECOND)
}

/// The moment of a local time, which may lie outside the range of timestamps. In the hour that
/// summer time leaves out, the offset from before holds; in the one that comes twice, the one from
/// after.
pub fn to_utc(zone: &TimeZone, local: i64) -> i64 {
    local.saturating_sub(i64::from(offset_of_local(zone, local)) * SECOND)
}

/// Seconds east of Greenwich at a local time.
pub fn offset_of_local(zone: &TimeZone, local: i64) -> i32 {
    let datetime = Offset::UTC.to_datetime(moment(local));
    let offset = match zone.to_ambiguous_timestamp(datetime).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset,
        AmbiguousOffset::Gap { before, .. } => before,
        AmbiguousOffset::Fold { after, .. } => after,
    };
    offset.seconds()
}

/// The abbreviation that holds at a moment.
pub fn abbreviation_at(zone: &TimeZone, utc: i64) -> String {
    zone.to_offset_info(moment(utc)).abbreviation().to_owned()
}

fn moment(micros: i64) -> Timestamp {
    let within = if micros >= LAST {
        micros - ((micros - LAST) / CYCLE + 1) * CYCLE
    } else {
        micros
    };
    let unix = within.saturating_add(UNIX_EPOCH_DAYS * DAY);
    Timestamp::from_microsecond(unix).unwrap_or(Timestamp::MIN)
}

/// All abbreviations: name, minutes east of Greenwich, and whether it is one of summer time.
pub fn abbreviations() -> &'static [(&'static str, i32, bool)] {
    ABBREVIATIONS
}

/// The abbreviations of PostgreSQL's set `Default`, in the order of their bytes.
#[rustfmt::skip]
const ABBREVIATIONS: &[(&str, i32, bool)] = &[
    ("ACDT", 630, true), ("ACSST", 630, true), ("ACST", 570, false), ("ACT", -300, false),
    ("ACWST", 525, false), ("ADT", -180, true), ("AEDT", 660, true), ("AESST", 660, true),
    ("AEST", 600, false), ("AFT", 270, false), ("AKDT", -480, true), ("AKST", -540, false),
    ("ALMST", 420, true), ("ALMT", 360, false), ("AMST", 240, false), ("AMT", -240, false),
    ("ANAST", 720, false), ("ANAT", 720, false), ("ARST", -180, false), ("ART", -180, false),
    ("AST", -240, false), ("AWSST", 540, true), ("AWST", 480, false), ("AZOST", 0, true),
    ("AZOT", -60, false), ("AZST", 240, false), ("AZT", 240, false), ("BDST", 120, true),
    ("BDT", 360, false), ("BNT", 480, false), ("BORT", 480, false), ("BOT", -240, false),
    ("BRA", -180, false), ("BRST", -120, true), ("BRT", -180, false), ("BST", 60, true),
    ("BTT", 360, false), ("CADT", 630, true), ("CAST", 570, false), ("CCT", 480, false),
    ("CDT", -300, true), ("CEST", 120, true), ("CET", 60, false), ("CETDST", 120, true),
    ("CHADT", 825, true), ("CHAST", 765, false), ("CHUT", 600, false), ("CKT", -600, false),
    ("CLST", -180, true), ("CLT", -180, true), ("COT", -300, false), ("CST", -360, false),
    ("CXT", 420, false), ("DAVT", 420, false), ("DDUT", 600, false), ("EASST", -300, true),
    ("EAST", -300, true), ("EAT", 180, false), ("EDT", -240, true), ("EEST", 180, true),
    ("EET", 120, false), ("EETDST", 180, true), ("EGST", 0, true), ("EGT", -60, false),
    ("EST", -300, false), ("FET", 180, false), ("FJST", 780, true), ("FJT", 720, false),
    ("FKST", -180, false), ("FKT", -180, false), ("FNST", -60, true), ("FNT", -120, false),
    ("GALT", -360, false), ("GAMT", -540, false), ("GEST", 240, false), ("GET", 240, false),
    ("GFT", -180, false), ("GILT", 720, false), ("GMT", 0, false), ("GYT", -240, false),
    ("HKT", 480, false), ("HST", -600, false), ("ICT", 420, false), ("IDT", 180, true),
    ("IOT", 360, false), ("IRKST", 480, false), ("IRKT", 480, false), ("IRT", 210, false),
    ("IST", 120, false), ("JAYT", 540, false), ("JST", 540, false), ("KDT", 600, true),
    ("KGST", 360, true), ("KGT", 360, false), ("KOST", 660, false), ("KRAST", 420, false),
    ("KRAT", 420, false), ("KST", 540, false), ("LHDT", 660, true), ("LHST", 630, false),
    ("LIGT", 600, false), ("LINT", 840, false), ("LKT", 330, false), ("MAGST", 660, false),
    ("MAGT", 660, false), ("MART", -570, false), ("MAWT", 300, false), ("MDT", -360, true),
    ("MEST", 120, true), ("MESZ", 120, true), ("MET", 60, false), ("METDST", 120, true),
    ("MEZ", 60, false), ("MHT", 720, false), ("MMT", 390, false), ("MPT", 600, false),
    ("MSD", 240, true), ("MSK", 180, false), ("MST", -420, false), ("MUST", 300, true),
    ("MUT", 240, false), ("MVT", 300, false), ("MYT", 480, false), ("NDT", -150, true),
    ("NFT", -210, false), ("NOVST", 420, false), ("NOVT", 420, false), ("NPT", 345, false),
    ("NST", -210, false), ("NUT", -660, false), ("NZDT", 780, true), ("NZST", 720, false),
    ("NZT", 720, false), ("OMSST", 360, false), ("OMST", 360, false), ("PDT", -420, true),
    ("PET", -300, false), ("PETST", 720, false), ("PETT", 720, false), ("PGT", 600, false),
    ("PHT", 480, false), ("PKST", 360, true), ("PKT", 300, false), ("PMDT", -120, true),
    ("PMST", -180, false), ("PONT", 660, false), ("PST", -480, false), ("PWT", 540, false),
    ("PYST", -180, true), ("PYT", -180, false), ("RET", 240, false), ("SADT", 630, true),
    ("SAST", 120, false), ("SCT", 240, false), ("SGT", 480, false), ("TAHT", -600, false),
    ("TFT", 300, false), ("TJT", 300, false), ("TKT", 780, false), ("TMT", 300, false),
    ("TOT", 780, false), ("TRUT", 600, false), ("TVT", 720, false), ("UCT", 0, false),
    ("ULAST", 540, true), ("ULAT", 480, false), ("UT", 0, false), ("UTC", 0, false),
    ("UYST", -120, true), ("UYT", -180, false), ("UZST", 360, true), ("UZT", 300, false),
    ("VET", -240, false), ("VLAST", 600, false), ("VLAT", 600, false), ("VOLT", 180, false),
    ("VUT", 660, false), ("WADT", 480, true), ("WAKT", 720, false), ("WAST", 420, false),
    ("WAT", 60, false), ("WDT", 540, true), ("WET", 0, false), ("WETDST", 60, true),
    ("WFT", 720, false), ("WGST", -120, true), ("WGT", -180, false), ("XJT", 360, false),
    ("YAKST", 540, false), ("YAKT", 540, false), ("YAPT", 600, false), ("YEKST", 360, true),
    ("YEKT", 300, false), ("Z", 0, false), ("ZULU", 0, false),
];

/// Zones whose abbreviations have meant several offsets, in PostgreSQL's set `Default`.
#[rustfmt::skip]
const CHANGING: &[(&str, &[&str])] = &[
    ("America/Argentina/Buenos_Aires", &["ART", "ARST"]), ("America/Asuncion", &["PYT"]),
    ("America/Caracas", &["VET"]), ("America/Guyana", &["GYT"]), ("America/Santiago", &["CLT"]),
    ("Antarctica/Davis", &["DAVT"]), ("Antarctica/Mawson", &["MAWT"]),
    ("Asia/Anadyr", &["ANAST", "ANAT"]), ("Asia/Ashgabat", &["TMT"]),
    ("Asia/Baku", &["AZST", "AZT"]), ("Asia/Bishkek", &["KGT"]), ("Asia/Colombo", &["LKT"]),
    ("Asia/Irkutsk", &["IRKST", "IRKT"]), ("Asia/Kamchatka", &["PETST", "PETT"]),
    ("Asia/Krasnoyarsk", &["KRAST", "KRAT"]), ("Asia/Magadan", &["MAGST", "MAGT"]),
    ("Asia/Novosibirsk", &["NOVST", "NOVT"]), ("Asia/Omsk", &["OMSST", "OMST"]),
    ("Asia/Singapore", &["SGT"]), ("Asia/Tbilisi", &["GEST", "GET"]),
    ("Asia/Ulaanbaatar", &["ULAT"]), ("Asia/Vladivostok", &["VLAST", "VLAT"]),
    ("Asia/Yakutsk", &["YAKST", "YAKT"]), ("Asia/Yekaterinburg", &["YEKT"]),
    ("Asia/Yerevan", &["AMST"]), ("Atlantic/Stanley", &["FKST", "FKT"]),
    ("Australia/Lord_Howe", &["LHDT"]), ("Europe/Moscow", &["MSK"]),
    ("Europe/Volgograd", &["VOLT"]), ("Indian/Chagos", &["IOT"]),
    ("Pacific/Easter", &["EASST", "EAST"]), ("Pacific/Fakaofo", &["TKT"]),
    ("Pacific/Kiritimati", &["LINT"]), ("Pacific/Kosrae", &["KOST"]), ("Pacific/Niue", &["NUT"]),
    ("Pacific/Rarotonga", &["CKT"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abbreviations_are_in_order() {
        assert!(ABBREVIATIONS.is_sorted_by(|(a, ..), (b, ..)| a < b));
    }

    #[test]
    fn gaps_take_the_offset_from_before_and_folds_the_one_from_after() {
        let zone = lookup("America/New_York").expect("the zone is in the database");
        let local = |text: &str| super::super::parse::timestamp_text(text);
        assert_eq!(offset_of_local(&zone, local("2011-03-13 02:30")), -5 * 3600);
        assert_eq!(offset_of_local(&zone, local("2011-11-06 01:30")), -5 * 3600);
    }
}
