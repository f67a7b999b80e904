//! The hash by which rows go to partitions: that of PostgreSQL, so that a partition of a dump holds
//! the rows that belong to it here as well.
//!
//! Integers are equal across their types and so are their hashes, which holds for floats too. Other
//! types have hashes of their own, so a value of another class says nothing about a key. The hash
//! of bytes is Bob Jenkins's `lookup3` with a seed.

use crate::types::{Datum, Kind, hash};

/// The seed of all hashes of keys.
const SEED: u64 = 0x7a5b_2236_7996_dcfd;

/// Types whose values can be equal, and have the same hash then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashClass {
    /// `smallint`, `integer`, `bigint`.
    Integer,
    /// `real`, `double precision`.
    Float,
    /// One type alone.
    Of(Kind),
}

impl HashClass {
    /// The class of a type; none if its values have no hash here.
    pub fn of(kind: Kind) -> Option<Self> {
        Some(match kind {
            Kind::Int2 | Kind::Int4 | Kind::Int8 => Self::Integer,
            Kind::Float4 | Kind::Float8 => Self::Float,
            Kind::Text | Kind::Varchar => Self::Of(Kind::Text),
            Kind::Bool
            | Kind::Numeric
            | Kind::Bpchar
            | Kind::Bytea
            | Kind::Date
            | Kind::Time
            | Kind::Timestamp
            | Kind::Timestamptz
            | Kind::Interval
            | Kind::Uuid => Self::Of(kind),
            _ => return None,
        })
    }

    fn of_value(value: &Datum) -> Option<Self> {
        Self::of(value.kind())
    }
}

/// The hash of keys of these classes; none if a value is of another class.
pub(super) fn hash_of(keys: &[Datum], classes: &[HashClass]) -> Option<u64> {
    let mut hash = 0_u64;
    for (key, class) in keys.iter().zip(classes) {
        if key.is_null() {
            continue;
        }
        if HashClass::of_value(key) != Some(*class) {
            return None;
        }
        let own = hash_of_value(key)?;
        let added = own
            .wrapping_add(0x49a0_f4dd_15e5_a8e3)
            .wrapping_add(hash << 54)
            .wrapping_add(hash >> 7);
        hash ^= added;
    }
    Some(hash)
}

fn hash_of_value(value: &Datum) -> Option<u64> {
    Some(match value {
        Datum::Bool(value) => of_word(u32::from(*value)),
        Datum::Int2(value) => of_word(i32::from(*value).cast_unsigned()),
        Datum::Int4(value) | Datum::Date(value) => of_word(value.cast_unsigned()),
        Datum::Int8(value)
        | Datum::Time(value)
        | Datum::Timestamp(value)
        | Datum::Timestamptz(value) => of_long(*value),
        Datum::Float4(value) => of_float(f64::from(*value)),
        Datum::Float8(value) => of_float(*value),
        Datum::Text(text) => of_bytes(text.as_bytes()),
        Datum::Bpchar(text) => of_bytes(text.trim_end_matches(' ').as_bytes()),
        Datum::Bytea(bytes) => of_bytes(bytes),
        Datum::Uuid(bytes) => of_bytes(bytes),
        Datum::Interval(span) => {
            let days = i128::from(span.months) * 30 + i128::from(span.days);
            of_long((days * 86_400_000_000 + i128::from(span.micros)) as i64)
        }
        Datum::Numeric(value) => of_decimal(&value.to_string()),
        _ => return None,
    })
}

fn of_long(value: i64) -> u64 {
    let (low, high) = (value as u32, (value >> 32) as u32);
    // A number that fits into 32 bits has the hash of that.
    of_word(low ^ if value >= 0 { high } else { !high })
}

fn of_float(value: f64) -> u64 {
    if value == 0.0 {
        return SEED;
    }
    let value = if value.is_nan() { f64::NAN } else { value };
    of_bytes(&value.to_le_bytes())
}

/// The hash of a decimal number: of its digits to the base 10,000 without zeros at its ends, and of
/// the power of the first of them.
fn of_decimal(text: &str) -> u64 {
    let digits = text.trim_start_matches('-');
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return SEED;
    }
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let padded = format!(
        "{}{whole}{part}{}",
        "0".repeat((4 - whole.len() % 4) % 4),
        "0".repeat((4 - part.len() % 4) % 4)
    );
    let groups = padded.as_bytes().chunks(4);
    let groups = groups.map(|group| {
        group
            .iter()
            .fold(0_u16, |sum, digit| sum * 10 + u16::from(digit - b'0'))
    });
    let groups: Vec<u16> = groups.collect();
    let Some(first) = groups.iter().position(|group| *group != 0) else {
        return SEED - 1;
    };
    let last = groups
        .iter()
        .rposition(|group| *group != 0)
        .unwrap_or(first);
    let bytes: Vec<u8> = groups[first..=last]
        .iter()
        .flat_map(|group| group.to_le_bytes())
        .collect();
    let weight = whole.len().div_ceil(4) as i64 - 1 - first as i64;
    of_bytes(&bytes) ^ weight.cast_unsigned()
}

fn of_word(word: u32) -> u64 {
    hash::of_word(word, SEED)
}

fn of_bytes(bytes: &[u8]) -> u64 {
    hash::of_bytes(bytes, SEED)
}

#[cfg(test)]
mod tests {
    use super::{HashClass, hash_of};
    use crate::types::{Context, Datum, Kind, NoNames, Settings, text_io};

    /// The hashes that PostgreSQL 15 gives with the seed (`hashint4extended(7, ...)`).
    const KNOWN: &[(Kind, &str, i64)] = &[
        (Kind::Int4, "7", 1_708_571_371_176_205_364),
        (Kind::Int8, "-9000000000", -3_065_023_499_747_399_874),
        (Kind::Text, "abc", 3_628_778_498_291_917_250),
        (Kind::Text, "twelve bytes", 1_551_002_018_851_372_083),
        (
            Kind::Text,
            "more than twelve bytes of text",
            -5_480_070_276_189_046_154,
        ),
        (Kind::Numeric, "12345.678", -4_016_348_884_958_903_928),
        (Kind::Numeric, "-0.00012", 3_073_084_697_884_637_736),
        (Kind::Numeric, "120000000", -3_073_084_697_884_637_739),
        (Kind::Numeric, "0.00", 8_816_678_312_871_386_364),
        (Kind::Float8, "1.5", -2_826_383_321_045_882_978),
        (Kind::Float4, "1.5", -2_826_383_321_045_882_978),
        (
            Kind::Interval,
            "1 mon 2 days 00:00:03",
            3_684_752_117_585_173_293,
        ),
        (
            Kind::Uuid,
            "11111111-2222-3333-4444-555555555555",
            -3_547_822_357_396_733_935,
        ),
        (
            Kind::Timestamp,
            "2024-01-01 10:00:00",
            -2_360_364_752_186_646_892,
        ),
        (Kind::Bpchar, "ab  ", 596_009_030_900_183_869),
        (Kind::Date, "2024-01-01", 3_451_063_793_814_536_532),
    ];

    #[test]
    fn hashes_are_those_of_postgresql() {
        let settings = Settings::default();
        let context = Context {
            settings: &settings,
            names: &NoNames,
            transaction_start: 0,
            statement_start: 0,
        };
        for (kind, text, hash) in KNOWN {
            let value = text_io::parse(*kind, text, &context).expect("it is a value");
            let class = HashClass::of(*kind).expect("it has a hash");
            let expected = hash.cast_unsigned().wrapping_add(0x49a0_f4dd_15e5_a8e3);
            assert_eq!(
                hash_of(&[value], &[class]),
                Some(expected),
                "{kind:?} {text}"
            );
        }
    }

    #[test]
    fn equal_numbers_have_one_hash_and_other_classes_none() {
        let integer = HashClass::of(Kind::Int4).expect("it has a hash");
        let of = |value: Datum| hash_of(&[value], &[integer]);
        assert_eq!(of(Datum::Int4(-7)), of(Datum::Int8(-7)));
        assert_eq!(of(Datum::Int2(7)), of(Datum::Int4(7)));
        assert_ne!(of(Datum::Int4(7)), of(Datum::Int4(8)));
        assert_eq!(of(Datum::text("7")), None);
        assert_eq!(of(Datum::Null), Some(0));
    }
}
