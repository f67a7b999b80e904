//! Types, units, limits and words of the settings, as `pg_settings` of PostgreSQL 15 has them.
//!
//! Each line of `settings.txt` has the name, type, unit, limits, words, category and description of
//! a setting; those that it does not have are texts. A value is kept in the form in which it is
//! shown, so that whoever compares it has one form to look for.

use super::bad;
use super::unit::Unit;
use crate::error::{Result, SqlError, SqlState};
use crate::types::text_io;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The columns of `pg_settings` that never differ for a setting.
#[derive(Debug)]
pub struct Facts {
    /// Its name, as it is shown.
    pub name: &'static str,
    /// `bool`, `enum`, `integer`, `real` or `string`.
    pub kind: &'static str,
    /// The unit of its numbers, if they have one.
    pub unit: &'static str,
    /// The least number.
    pub least: &'static str,
    /// The greatest number.
    pub most: &'static str,
    /// Words of an `enum`, between commas.
    pub words: &'static str,
    /// The group of settings that it is one of.
    pub category: &'static str,
    /// A sentence about it.
    pub description: &'static str,
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

/// The facts about a setting, by its name in lower case; none for those that are texts only.
pub fn facts_of(name: &str) -> Option<&'static Facts> {
    FACTS.get(name)
}

/// A value of a setting in the form in which it is shown. The name is in lower case.
///
/// # Errors
///
/// 22023 for a value that the setting cannot have.
pub fn shown_value(name: &str, value: &str) -> Result<String> {
    let Some(facts) = facts_of(name) else {
        return Ok(value.to_owned());
    };
    match facts.kind {
        "bool" => facts.switch(value),
        "enum" => facts.word(value),
        "integer" | "real" => facts.number(value),
        _ => Ok(value.to_owned()),
    }
}

impl Facts {
    fn switch(&self, value: &str) -> Result<String> {
        let is_on = text_io::switch(value).ok_or_else(|| {
            let message = format!("parameter \"{}\" requires a Boolean value", self.name);
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        })?;
        Ok(if is_on { "on" } else { "off" }.to_owned())
    }

    /// A word in any case, or another name of one that PostgreSQL takes and does not list.
    fn word(&self, value: &str) -> Result<String> {
        let value_lower = value.to_lowercase();
        let words: Vec<&str> = self.words.split(',').collect();
        let word = match value_lower.as_str() {
            known if words.contains(&known) => known,
            "true" | "yes" | "1" if words.contains(&"on") => "on",
            "false" | "no" | "0" if words.contains(&"off") => "off",
            "debug" if words.contains(&"debug2") => "debug2",
            "info" if words.contains(&"notice") => "info",
            _ => {
                let hint = format!("Available values: {}.", words.join(", "));
                return Err(bad(self.name, value).hint(hint));
            }
        };
        Ok(word.to_owned())
    }

    /// A value as a number of the setting's own unit; none for a setting without a unit.
    pub fn in_own_unit(&self, value: &str) -> Option<String> {
        if self.unit.is_empty() {
            return None;
        }
        let number = Unit::named(self.unit).number(value).ok()?;
        Some(text_of(number, self.kind == "integer"))
    }

    fn number(&self, value: &str) -> Result<String> {
        let unit = Unit::named(self.unit);
        let number = unit.number(value).map_err(|hint| {
            let error = bad(self.name, value);
            match hint {
                Some(hint) => error.hint(hint),
                None => error,
            }
        })?;
        let is_whole = self.kind == "integer";
        let number = if is_whole {
            number.round_ties_even()
        } else {
            number
        };
        if is_whole && (number > f64::from(i32::MAX) || number < f64::from(i32::MIN)) {
            return Err(bad(self.name, value).hint("Value exceeds integer range."));
        }
        let limit = |text: &str| text.parse::<f64>().ok();
        let is_least = limit(self.least).is_none_or(|least| number >= least);
        if !is_least || limit(self.most).is_some_and(|most| number > most) {
            let blank = if self.unit.is_empty() { "" } else { " " };
            let message = format!(
                "{}{blank}{} is outside the valid range for parameter \"{}\" ({} .. {})",
                text_of(number, is_whole),
                self.unit,
                self.name,
                self.least,
                self.most
            );
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let (number, unit) = unit.largest(number);
        Ok(format!("{}{unit}", text_of(number, is_whole)))
    }
}

/// A number as it is shown: all of a whole one, six digits of another.
fn text_of(number: f64, is_whole: bool) -> String {
    if is_whole {
        return (number as i64).to_string();
    }
    let mut text = String::new();
    text_io::print_general(&mut text, number, 6);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_one_form() {
        for (name, value, shown) in [
            ("enable_seqscan", "T", "on"),
            ("enable_seqscan", "of", "off"),
            ("synchronous_commit", "OFF", "off"),
            ("synchronous_commit", "yes", "on"),
            (
                "default_transaction_isolation",
                "Serializable",
                "serializable",
            ),
            ("client_min_messages", "DEBUG", "debug2"),
            ("statement_timeout", "5000", "5s"),
            ("statement_timeout", "90s", "90s"),
            ("statement_timeout", "120s", "2min"),
            ("statement_timeout", "1500us", "2ms"),
            ("statement_timeout", "1.5s", "1500ms"),
            ("lock_timeout", "0", "0"),
            ("work_mem", "4096", "4MB"),
            ("work_mem", "0.5GB", "512MB"),
            ("work_mem", "1e3", "1000kB"),
            ("effective_cache_size", "1000", "8000kB"),
            ("effective_cache_size", "16384", "128MB"),
            ("effective_cache_size", "12kB", "16kB"),
            ("temp_file_limit", "-1", "-1"),
            ("extra_float_digits", "1.4", "1"),
            ("random_page_cost", "1.10", "1.1"),
            ("random_page_cost", "1234567", "1.23457e+06"),
            ("vacuum_cost_delay", "1.5", "1500us"),
            ("application_name", "ON", "ON"),
        ] {
            assert_eq!(shown_value(name, value).unwrap(), shown, "{name} {value}");
        }
    }

    #[test]
    fn values_are_numbers_of_their_units() {
        let in_own_unit = |name: &str, value: &str| facts_of(name).unwrap().in_own_unit(value);
        for (name, value, number) in [
            ("statement_timeout", "20s", "20000"),
            ("effective_cache_size", "4GB", "524288"),
            ("wal_segment_size", "16MB", "16777216"),
            ("temp_file_limit", "-1", "-1"),
            ("vacuum_cost_delay", "1500us", "1.5"),
        ] {
            assert_eq!(in_own_unit(name, value).as_deref(), Some(number), "{name}");
        }
        assert_eq!(in_own_unit("jit", "on"), None);
    }

    #[test]
    fn other_values_are_refused() {
        for (name, value, message) in [
            (
                "row_security",
                " on ",
                "parameter \"row_security\" requires a Boolean value",
            ),
            (
                "synchronous_commit",
                "t",
                "invalid value for parameter \"synchronous_commit\": \"t\"",
            ),
            (
                "extra_float_digits",
                "99",
                "99 is outside the valid range for parameter \"extra_float_digits\" (-15 .. 3)",
            ),
            (
                "work_mem",
                "1kB",
                "1 kB is outside the valid range for parameter \"work_mem\" (64 .. 2147483647)",
            ),
            (
                "cursor_tuple_fraction",
                "2",
                "2 is outside the valid range for parameter \"cursor_tuple_fraction\" (0 .. 1)",
            ),
            (
                "work_mem",
                "100000000000",
                "invalid value for parameter \"work_mem\": \"100000000000\"",
            ),
            (
                "random_page_cost",
                "3kB",
                "invalid value for parameter \"random_page_cost\": \"3kB\"",
            ),
        ] {
            let error = shown_value(name, value).unwrap_err();
            assert_eq!(error.message, message);
            assert_eq!(error.state, SqlState::INVALID_PARAMETER_VALUE);
        }
    }
}
