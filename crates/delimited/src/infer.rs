//! Guesses column types from the texts of a CSV file, so that nothing is lost: a type is taken only
//! if every value prints back as it was written, or is a plain number.
//!
//! The order of preference is bool, int64, decimal, float64, date, timestamp, uuid, varchar, text.
//! A number with a leading zero or a plus is text: it is a code, not an amount. Numbers that all
//! have the same count of digits after the point are decimals, because prices must not become
//! binary fractions; other numbers are floats.
//!
//! A word such as `NA` makes a column text as well. The type of the column without it is kept, so
//! that the user can be told.

use indelible::{DataType, Date, Timestamp, Uuid};

/// Digits of an inferred decimal; more are kept in 16 bytes instead of 8.
const DECIMAL_DIGITS: usize = 18;
/// Decimal digits that every float keeps.
const FLOAT_DIGITS: usize = 15;
/// Longest inferred `varchar`; longer columns become `text`.
const VARCHAR_MAX: usize = 1024;
/// Room that an inferred `varchar` has at least.
const VARCHAR_MIN: usize = 8;

/// Texts that mean a missing value in files of many programs; the empty one is that in quotes.
const NULL_WORDS: [&str; 14] = [
    "", "NA", "N/A", "n/a", "#N/A", "NULL", "Null", "null", "NaN", "nan", "None", "\\N", "-", "?",
];

/// The word for a missing value that this text is.
pub(crate) fn null_word(text: &str) -> Option<&'static str> {
    NULL_WORDS.into_iter().find(|word| *word == text)
}

/// The guess about one column after some of its values.
#[derive(Clone, Debug)]
pub struct Guess {
    kinds: [bool; KINDS],
    values: u64,
    text_bytes_max: usize,
    /// Digits after the point, if all values agree.
    scale: Option<usize>,
    whole_digits_max: usize,
    /// Words for a missing value among them.
    null_words: Vec<&'static str>,
}

const KINDS: usize = 7;
const BOOL: usize = 0;
const INTEGER: usize = 1;
const DECIMAL: usize = 2;
const FLOAT: usize = 3;
const DATE: usize = 4;
const TIMESTAMP: usize = 5;
const UUID: usize = 6;

impl Guess {
    /// Nothing seen yet: everything is possible.
    pub(crate) fn new() -> Self {
        Self {
            kinds: [true; KINDS],
            values: 0,
            text_bytes_max: 0,
            scale: None,
            whole_digits_max: 0,
            null_words: Vec::new(),
        }
    }

    /// Takes a value into account; `None` is NULL.
    pub(crate) fn see(&mut self, text: Option<&str>) {
        let Some(text) = text else { return };
        self.text_bytes_max = self.text_bytes_max.max(text.len());
        if !self.kinds.contains(&true) {
            self.values += 1;
        } else if let Some(word) = null_word(text) {
            if !self.null_words.contains(&word) {
                self.null_words.push(word);
            }
        } else {
            self.values += 1;
            self.judge(text);
        }
    }

    fn judge(&mut self, text: &str) {
        // A number is parsed once for each kind that is still possible.
        let mut keep = |kind: usize, fits: &dyn Fn() -> bool| {
            let possible = &mut self.kinds[kind];
            *possible = *possible && fits();
        };
        keep(BOOL, &|| matches!(text, "true" | "false"));
        keep(INTEGER, &|| {
            let number = text.parse::<i64>();
            number.is_ok_and(|number| number.to_string() == text)
        });
        keep(FLOAT, &|| is_float(text));
        keep(DATE, &|| {
            Date::parse(text).is_some_and(|date| date.to_string() == text)
        });
        keep(TIMESTAMP, &|| {
            text.contains(':') && Timestamp::parse(text).is_some()
        });
        keep(UUID, &|| text.len() == 36 && Uuid::parse(text).is_some());
        if self.kinds[DECIMAL] {
            self.kinds[DECIMAL] = self.is_decimal(text);
        }
    }

    fn is_decimal(&mut self, text: &str) -> bool {
        let Some((whole, fraction)) = plain_number(text) else {
            return false;
        };
        self.whole_digits_max = self.whole_digits_max.max(whole);
        let agreed = *self.scale.get_or_insert(fraction) == fraction;
        agreed && fraction > 0 && self.whole_digits_max + fraction <= DECIMAL_DIGITS
    }

    /// The narrowest type that holds every value seen. A column without values is text.
    pub fn data_type(&self) -> DataType {
        if self.null_words.is_empty() {
            self.type_without_null_words()
        } else {
            self.text()
        }
    }

    /// Whether all rows seen have NULL here.
    pub(crate) fn is_empty(&self) -> bool {
        self.values == 0 && self.null_words.is_empty()
    }

    /// Words that make this column text, and its type without them.
    pub fn null_hint(&self) -> Option<(&[&'static str], DataType)> {
        let without = self.type_without_null_words();
        let is_text = matches!(without, DataType::Text | DataType::Varchar { .. });
        (!self.null_words.is_empty() && !is_text).then_some((&self.null_words, without))
    }

    fn type_without_null_words(&self) -> DataType {
        if self.values == 0 {
            return DataType::Text;
        }
        match self.kinds.iter().position(|possible| *possible) {
            Some(BOOL) => DataType::Bool,
            Some(INTEGER) => DataType::Int64,
            Some(DECIMAL) => DataType::Decimal {
                precision: DECIMAL_DIGITS as u8,
                scale: self.scale.unwrap_or(0) as u8,
            },
            Some(FLOAT) => DataType::Float64,
            Some(DATE) => DataType::Date,
            Some(TIMESTAMP) => DataType::Timestamp,
            Some(UUID) => DataType::Uuid,
            _ => self.text(),
        }
    }

    fn text(&self) -> DataType {
        match self.text_bytes_max.next_power_of_two().max(VARCHAR_MIN) {
            max if max <= VARCHAR_MAX => DataType::Varchar { max: max as u32 },
            _ => DataType::Text,
        }
    }
}

/// Digits before and after the point of `-12.34`; `None` if the text is no number in its plain
/// form.
fn plain_number(text: &str) -> Option<(usize, usize)> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let coded = whole.is_empty() || whole.len() > 1 && whole.starts_with('0');
    let point_alone = digits.contains('.') && fraction.is_empty();
    // A negative zero would lose its sign.
    let negative_zero =
        text.starts_with('-') && digits.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    let plain = is_number(whole) && is_number(fraction) && !coded && !point_alone && !negative_zero;
    plain.then_some((whole.len(), fraction.len()))
}

/// A finite number, with an exponent or not, that is not a code with a leading zero or plus and
/// that a float holds without losing digits.
fn is_float(text: &str) -> bool {
    let mantissa = text.split(['e', 'E']).next().unwrap_or(text);
    let Some((whole, fraction)) = plain_number(mantissa) else {
        return false;
    };
    let Ok(number) = text.parse::<f64>() else {
        return false;
    };
    number.is_finite() && (whole + fraction <= FLOAT_DIGITS || number.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(texts: &[&str]) -> String {
        let mut guess = Guess::new();
        for text in texts {
            guess.see(Some(text));
        }
        guess.data_type().to_string()
    }

    #[test]
    fn types_are_guessed_from_all_values() {
        let cases: [(&[&str], &str); 14] = [
            (&["true", "false"], "bool"),
            (&["1", "-20"], "int64"),
            (&["1", "0"], "int64"),
            (&["007", "123"], "varchar(8)"),
            (&["+1"], "varchar(8)"),
            (&["1.50", "22.00"], "decimal(18,2)"),
            (&["1.5", "22"], "float64"),
            (&["1e9", "2"], "float64"),
            (&["99999999999999999999"], "varchar(32)"),
            (&["2026-11-21", "1999-01-02"], "date"),
            (&["2026-11-21 05:00:00", "2026-11-21T05:00Z"], "timestamp"),
            (&["nan"], "varchar(8)"),
            (&["a", "a longer text than that"], "varchar(32)"),
            (&[], "text"),
        ];
        for (texts, expected) in cases {
            assert_eq!(guess(texts), expected, "{texts:?}");
        }
    }

    #[test]
    fn words_for_missing_values_make_a_column_text_and_are_named() {
        let mut guess = Guess::new();
        for text in ["1", "NA", "2", "", "NA"] {
            guess.see(Some(text));
        }
        assert_eq!(guess.data_type().to_string(), "varchar(8)");
        assert_eq!(guess.null_hint(), Some((&["NA", ""][..], DataType::Int64)));
        guess.see(Some("x"));
        assert_eq!(guess.null_hint(), None);
        let mut only = Guess::new();
        only.see(Some("-"));
        assert_eq!((only.null_hint(), only.is_empty()), (None, false));
    }

    #[test]
    fn nulls_say_nothing_about_the_type() {
        let mut guess = Guess::new();
        guess.see(None);
        guess.see(Some("5"));
        assert_eq!(guess.data_type(), DataType::Int64);
    }
}
