//! `pg_settings`: settings with the units and types that PostgreSQL 15 gives them.
//!
//! Numbers are shown in the unit of their setting, as tools compute with them; `SHOW` prints the
//! text that was set. Each line of `settings.txt` has the name, type, unit, limits, words, category
//! and description of a setting; those that it does not have are texts.

use super::rows::{Maker, Rows, Sources, array, flag, text};
use crate::error::Result;
use crate::types::{Datum, Kind};
use std::collections::HashMap;
use std::sync::LazyLock;

pub(super) const MAKERS: &[Maker] = &[("pg_settings", settings)];

/// The columns of `pg_settings` that never differ for a setting.
struct Facts {
    name: &'static str,
    kind: &'static str,
    unit: &'static str,
    least: &'static str,
    most: &'static str,
    words: &'static str,
    category: &'static str,
    description: &'static str,
}

/// By names in lower case.
static FACTS: LazyLock<HashMap<String, Facts>> = LazyLock::new(|| {
    let lines = include_str!("settings.txt").lines();
    let facts = lines.filter(|line| !line.starts_with('#')).map(|line| {
        let mut parts = line.splitn(8, '|');
        let mut next = || parts.next().unwrap_or_default();
        let facts = Facts {
            name: next(),
            kind: next(),
            unit: next(),
            least: next(),
            most: next(),
            words: next(),
            category: next(),
            description: next(),
        };
        (facts.name.to_lowercase(), facts)
    });
    facts.collect()
});

fn settings(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let unknown = Facts {
        name: "",
        kind: "string",
        unit: "",
        least: "",
        most: "",
        words: "",
        category: "Customized Options",
        description: "",
    };
    let known = |part: &str| match part {
        "" => Datum::Null,
        part => text(part),
    };
    for (name, value) in from.session.variables.all() {
        if crate::state::may_see(from.names, &name).is_err() {
            continue;
        }
        let facts = FACTS.get(&name).unwrap_or(&unknown);
        let shown = |value: &str| text(in_unit(value, facts.unit).unwrap_or(value.to_owned()));
        let default = crate::state::default_setting(&name);
        let is_default = default == Some(value.as_str());
        let default = default.map_or(Datum::Null, shown);
        let is_fixed = crate::state::is_fixed_setting(&name);
        let words = match facts.words {
            "" => Datum::Null,
            words => array(Kind::Text, words.split(',').map(Datum::text)),
        };
        rows.push([
            (
                "name",
                text(if facts.name.is_empty() {
                    &name
                } else {
                    facts.name
                }),
            ),
            ("setting", shown(&value)),
            ("unit", known(facts.unit)),
            ("category", text(facts.category)),
            ("short_desc", known(facts.description)),
            ("context", text(if is_fixed { "internal" } else { "user" })),
            ("vartype", text(facts.kind)),
            (
                "source",
                text(if is_default { "default" } else { "session" }),
            ),
            ("min_val", known(facts.least)),
            ("max_val", known(facts.most)),
            ("enumvals", words),
            ("boot_val", default.clone()),
            ("reset_val", default),
            ("pending_restart", flag(false)),
        ]);
    }
    Ok(())
}

/// A size or a time as a number of units; none for a value that has no unit of its own.
fn in_unit(value: &str, unit: &str) -> Option<String> {
    let end = value.find(|one: char| !one.is_ascii_digit())?;
    let number: u64 = value[..end].parse().ok()?;
    let own = value[end..].trim();
    let sizes = |unit: &str| match unit {
        "B" => Some(1),
        "kB" => Some(1 << 10),
        "8kB" => Some(8 << 10),
        "MB" => Some(1 << 20),
        "GB" => Some(1 << 30),
        "TB" => Some(1 << 40),
        _ => None,
    };
    let times = |unit: &str| match unit {
        "ms" => Some(1),
        "s" => Some(1000),
        "min" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let (own, unit): (u64, u64) = sizes(own)
        .zip(sizes(unit))
        .or_else(|| times(own).zip(times(unit)))?;
    Some((number.checked_mul(own)? / unit).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbers_of_their_units() {
        assert_eq!(in_unit("20s", "ms").as_deref(), Some("20000"));
        assert_eq!(in_unit("4GB", "8kB").as_deref(), Some("524288"));
        assert_eq!(in_unit("100", "kB"), None);
        assert_eq!(in_unit("-1", "kB"), None);
        assert_eq!(in_unit("on", ""), None);
    }
}
