//! Values of settings that are numbers, with or without units.
//!
//! A value is read with any unit and shown in the largest one that gives a whole number, as
//! PostgreSQL does.

/// Units of sizes, with their bytes.
const SIZES: &[(&str, f64)] = &[
    ("TB", (1_u64 << 40) as f64),
    ("GB", (1_u64 << 30) as f64),
    ("MB", (1_u64 << 20) as f64),
    ("kB", (1_u64 << 10) as f64),
    ("B", 1.0),
];
/// Units of times, with their milliseconds.
const TIMES: &[(&str, f64)] = &[
    ("d", 86_400_000.0),
    ("h", 3_600_000.0),
    ("min", 60_000.0),
    ("s", 1000.0),
    ("ms", 1.0),
    ("us", 0.001),
];

/// The unit of the numbers of a setting, and the units that its values may have.
pub(super) struct Unit {
    amount: f64,
    others: &'static [(&'static str, f64)],
}

impl Unit {
    /// The unit with a name; the empty one is that of plain numbers.
    pub(super) fn named(name: &str) -> Self {
        let others = match name {
            "" => &[],
            _ if TIMES.iter().any(|(known, _)| *known == name) => TIMES,
            _ => SIZES,
        };
        let amount = match name {
            "8kB" => 8192.0,
            name => amount_of(others, name).unwrap_or(1.0),
        };
        Self { amount, others }
    }

    /// The number of this unit that a value has.
    ///
    /// # Errors
    ///
    /// For a text that is none, with a hint if its unit is to blame.
    pub(super) fn number(&self, value: &str) -> Result<f64, Option<String>> {
        let value = value.trim();
        let of_number = |one: char| one.is_ascii_digit() || "+-.eE".contains(one);
        let end = value.find(|one| !of_number(one)).unwrap_or(value.len());
        let number: f64 = value[..end].parse().map_err(|_| None)?;
        let name = value[end..].trim_start();
        if name.is_empty() {
            return Ok(number);
        }
        let mut others = self.others.iter();
        let Some((_, amount)) = others.find(|(known, _)| *known == name) else {
            return Err(self.hint());
        };
        // A fraction is one of the next smaller unit.
        let number = match others.next() {
            Some((_, smaller)) => (number * amount / smaller).round_ties_even() * smaller,
            None => number * amount,
        };
        Ok(number / self.amount)
    }

    fn hint(&self) -> Option<String> {
        let names: Vec<String> = self
            .others
            .iter()
            .rev()
            .map(|(name, _)| format!("\"{name}\""))
            .collect();
        let (last, others) = names.split_last()?;
        let others = others.join(", ");
        Some(format!(
            "Valid units for this parameter are {others}, and {last}."
        ))
    }

    /// A number of this unit in the largest one that gives a whole number, and the name of that.
    pub(super) fn largest(&self, number: f64) -> (f64, &'static str) {
        if number <= 0.0 {
            return (number, "");
        }
        let all = self.others.iter();
        let mut all = all.map(|(name, amount)| (number * self.amount / amount, *name));
        // A whole number of 31 bits is never so close to a whole one of a larger unit.
        let is_whole = |number: f64| (number.round() / number - 1.0).abs() <= 1e-10;
        let found = all.find(|(number, _)| is_whole(*number));
        found.unwrap_or((number, self.others.last().map_or("", |(name, _)| name)))
    }
}

fn amount_of(units: &[(&str, f64)], name: &str) -> Option<f64> {
    let found = units.iter().find(|(known, _)| *known == name);
    found.map(|(_, amount)| *amount)
}

/// The amount of a shown value, in bytes or milliseconds: a number of a unit, or one with another.
fn shown_amount(value: &str, unit: &str) -> Option<u64> {
    let unit = Unit::named(unit);
    let number = unit.number(value).ok()?;
    u64::try_from((number * unit.amount) as i64).ok()
}

/// Bytes of a size that is a number of KiB, or has another unit.
pub(super) fn bytes_of(value: &str) -> Option<u64> {
    shown_amount(value, "kB")
}

/// Milliseconds of a time that is a number of them, or has another unit.
pub fn millis_of(value: &str) -> Option<u64> {
    shown_amount(value, "ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_units_are_read() {
        assert_eq!(bytes_of("64MB"), Some(64 << 20));
        assert_eq!(bytes_of("100"), Some(100 << 10));
        assert_eq!(bytes_of("1 furlong"), None);
        assert_eq!(bytes_of("-1"), None);
        assert_eq!(millis_of("2min"), Some(120_000));
    }

    #[test]
    fn units_are_named_where_one_is_wrong() {
        let hint = Unit::named("8kB").number("1 PB").unwrap_err();
        let units = "Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\".";
        assert_eq!(hint.as_deref(), Some(units));
        assert_eq!(Unit::named("").number("1 PB"), Err(None));
        assert_eq!(Unit::named("ms").number("s"), Err(None));
    }
}
