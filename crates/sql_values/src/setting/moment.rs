//! Settings of dates and times: the zone, and the form of dates.
//!
//! Each takes effect where values are read and printed, and has the text that `SHOW` prints.

use super::bad;
use crate::error::Result;
use crate::types::Settings;
use crate::types::context::{DateOrder, DateStyle};
use crate::types::datetime::zone;

/// A zone by its name, or by its hours east of Greenwich.
pub(super) fn time_zone(settings: &mut Settings, value: &str) -> Result<String> {
    let found = match value.trim().parse() {
        Ok(hours) => zone::of_hours(hours),
        Err(_) => zone::lookup(value).map(|zone| (zone, zone::shown_name(value))),
    };
    (settings.zone, settings.zone_name) = found.ok_or_else(|| bad("TimeZone", value))?;
    Ok(settings.zone_name.clone())
}

/// A form and an order of fields, in any order.
pub(super) fn date_style(settings: &mut Settings, value: &str) -> Option<String> {
    for word in value.split([',', ' ']).filter(|word| !word.is_empty()) {
        match word {
            "iso" => settings.date_style = DateStyle::Iso,
            "sql" => settings.date_style = DateStyle::Sql,
            "postgres" => settings.date_style = DateStyle::Postgres,
            "german" => {
                settings.date_style = DateStyle::German;
                settings.date_order = DateOrder::Dmy;
            }
            "mdy" | "us" | "noneuro" | "noneuropean" => settings.date_order = DateOrder::Mdy,
            "dmy" | "euro" | "european" => settings.date_order = DateOrder::Dmy,
            "ymd" => settings.date_order = DateOrder::Ymd,
            "default" => {
                settings.date_style = DateStyle::Iso;
                settings.date_order = DateOrder::Mdy;
            }
            _ => return None,
        }
    }
    let style = match settings.date_style {
        DateStyle::Iso => "ISO",
        DateStyle::Sql => "SQL",
        DateStyle::Postgres => "Postgres",
        DateStyle::German => "German",
    };
    let order = match settings.date_order {
        DateOrder::Mdy => "MDY",
        DateOrder::Dmy => "DMY",
        DateOrder::Ymd => "YMD",
    };
    Some(format!("{style}, {order}"))
}
