//! Values of settings that are times and sizes: numbers with units.
//!
//! A value is read with any unit and shown in the largest one that gives a whole number, as
//! PostgreSQL does.

/// Settings that are times in milliseconds.
const TIMES: &[&str] = &[
    "client_connection_check_interval",
    "deadlock_timeout",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "lock_timeout",
    "statement_timeout",
];
/// Settings that are sizes, with the bytes of a number without a unit.
const SIZES: &[(&str, u64)] = &[
    ("effective_cache_size", 8 << 10),
    ("gin_pending_list_limit", 1 << 10),
    ("logical_decoding_work_mem", 1 << 10),
    ("maintenance_work_mem", 1 << 10),
    ("max_stack_depth", 1 << 10),
    ("min_parallel_index_scan_size", 8 << 10),
    ("min_parallel_table_scan_size", 8 << 10),
    ("temp_buffers", 8 << 10),
    ("temp_file_limit", 1 << 10),
    ("work_mem", 1 << 10),
];

/// A time or a size in the largest unit that gives a whole number, as PostgreSQL shows it; none
/// for another setting, and for a value that is none.
pub(super) fn in_largest_unit(name: &str, value: &str) -> Option<String> {
    let (number, units): (u64, &[(u64, &str)]) = if TIMES.contains(&name) {
        let units = &[
            (86_400_000, "d"),
            (3_600_000, "h"),
            (60_000, "min"),
            (1000, "s"),
            (1, "ms"),
        ];
        (millis_of(value)?, units)
    } else {
        let (_, unit) = SIZES.iter().find(|(size, _)| *size == name)?;
        let plain = value.trim().parse::<u64>().ok();
        let bytes = plain.and_then(|number| number.checked_mul(*unit));
        let units = &[
            (1 << 40, "TB"),
            (1 << 30, "GB"),
            (1 << 20, "MB"),
            (1 << 10, "kB"),
            (1, "B"),
        ];
        (bytes.or_else(|| bytes_of(value))?, units)
    };
    if number == 0 {
        return Some("0".to_owned());
    }
    let whole = units.iter().find(|(unit, _)| number.is_multiple_of(*unit));
    whole.map(|(unit, name)| format!("{}{name}", number / unit))
}

/// Bytes of a size: a number of KiB, or one with its unit.
pub(super) fn bytes_of(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text
        .find(|one: char| !one.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    let unit: u64 = match text[end..].trim() {
        "B" => 1,
        "" | "kB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        "TB" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// Milliseconds of a time: a number of them, or one with its unit.
pub fn millis_of(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text
        .find(|one: char| !one.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    let unit = match text[end..].trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_units_are_read() {
        assert_eq!(bytes_of("64MB"), Some(64 << 20));
        assert_eq!(bytes_of("100"), Some(100 << 10));
        assert_eq!(bytes_of("1 furlong"), None);
        assert_eq!(millis_of("2min"), Some(120_000));
    }
}
