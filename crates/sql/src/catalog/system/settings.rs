//! `pg_settings`: settings with the units and types that PostgreSQL 15 gives them.
//!
//! Numbers are shown in the unit of their setting, as tools compute with them, where `SHOW` prints
//! the largest unit that fits.

use super::rows::{Maker, Rows, Sources, array, flag, text};
use crate::error::Result;
use crate::types::{Datum, Kind};
use sql_values::setting::{Facts, facts_of};

pub(super) const MAKERS: &[Maker] = &[("pg_settings", settings)];

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
    for (name, value) in from.session.settings() {
        if crate::state::may_see(from.names, &name).is_err() {
            continue;
        }
        let facts = facts_of(&name).unwrap_or(&unknown);
        let shown = |value: &str| text(facts.in_own_unit(value).unwrap_or(value.to_owned()));
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
