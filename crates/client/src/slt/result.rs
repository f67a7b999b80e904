//! Comparison of an answer with the lines of a result.
//!
//! Collections print values in three ways, and a result that is equal in one of them is right:
//!
//! | form | integers | other numbers | text | bool, timestamp |
//! |---|---|---|---|---|
//! | `SQLite`'s | `I`: digits | `R`: three decimals | `(empty)`, `@` for unprintable | its own |
//! | its successors' | digits | at most 12 decimals | `(empty)` | `true`, `2020-01-01T00:00:00` |
//! | plain | the database's own | the same | the same | the same |
//!
//! Each of them has lines of one value or of one row, or the hash of all values.

use super::md5::md5;
use super::parse::Sort;
use crate::client::{Answer, Column};
use std::borrow::Cow;

/// Decimals that the second form keeps.
const DECIMALS: u8 = 12;

/// A query's letters, order and lines.
pub(super) struct Wanted<'a> {
    pub(super) types: &'a str,
    pub(super) sort: Sort,
    pub(super) lines: &'a [String],
}

#[derive(Clone, Copy)]
enum Form {
    Letters,
    Normal,
    Plain,
}

/// Compares an answer with what is wanted; an error says the first difference.
pub(super) fn compare(answer: &Answer, wanted: &Wanted<'_>) -> Result<(), String> {
    let (columns, letters) = (answer.columns.len(), wanted.types.len());
    if letters > 0 && columns != letters {
        return Err(format!("{columns} columns, expected {letters}"));
    }
    let first = texts(answer, wanted, Form::Letters);
    let forms = [Form::Normal, Form::Plain];
    if is_equal(&first, wanted.lines)
        || forms
            .iter()
            .any(|form| is_equal(&texts(answer, wanted, *form), wanted.lines))
    {
        return Ok(());
    }
    Err(difference(&first, wanted.lines))
}

/// The hash that queries of one label share.
pub(super) fn label_hash(answer: &Answer, wanted: &Wanted<'_>) -> String {
    hash(&texts(answer, wanted, Form::Letters))
}

/// Rows of texts, sorted; with single values sorted, each is a row.
fn texts<'a>(answer: &'a Answer, wanted: &Wanted<'_>, form: Form) -> Vec<Vec<Cow<'a, str>>> {
    let mut letters = wanted.types.chars();
    let letters: Vec<char> = answer
        .columns
        .iter()
        .map(|_| letters.next().unwrap_or('T'))
        .collect();
    let text = |row: &'a Vec<Option<String>>| -> Vec<Cow<'a, str>> {
        let columns = answer.columns.iter().zip(&letters);
        let cells = row.iter().zip(columns);
        cells
            .map(|(value, (column, letter))| cell(value.as_deref(), column, *letter, form))
            .collect()
    };
    let mut rows: Vec<Vec<Cow<'a, str>>> = answer.rows.iter().map(text).collect();
    match wanted.sort {
        Sort::None => {}
        Sort::Rows => rows.sort_unstable(),
        Sort::Values => {
            rows = rows
                .into_iter()
                .flatten()
                .map(|value| vec![value])
                .collect();
            rows.sort_unstable();
        }
    }
    rows
}

fn is_equal(rows: &[Vec<Cow<'_, str>>], lines: &[String]) -> bool {
    if let [line] = lines
        && let Some((count, digest)) = line.split_once(" values hashing to ")
    {
        let values = rows.iter().map(Vec::len).sum::<usize>();
        return count.parse() == Ok(values) && digest == hash(rows);
    }
    let values = || rows.iter().flatten();
    let by_value = values().count() == lines.len()
        && values()
            .zip(lines)
            .all(|(value, line)| value.trim_end() == line);
    let line_of = |row: &[Cow<'_, str>]| single_blanks(&row.join(" "));
    by_value
        || rows.len() == lines.len()
            && rows
                .iter()
                .zip(lines)
                .all(|(row, line)| line_of(row) == single_blanks(line))
}

fn single_blanks(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn hash(rows: &[Vec<Cow<'_, str>>]) -> String {
    let mut text = String::new();
    for value in rows.iter().flatten() {
        text.push_str(value);
        text.push('\n');
    }
    md5(text.as_bytes())
}

fn difference(rows: &[Vec<Cow<'_, str>>], lines: &[String]) -> String {
    let values: Vec<&Cow<'_, str>> = rows.iter().flatten().collect();
    if let [line] = lines
        && line.contains(" values hashing to ")
    {
        return format!(
            "{} values hashing to {}, expected {line}",
            values.len(),
            hash(rows)
        );
    }
    let rows: Vec<String> = rows.iter().map(|row| row.join(" ")).collect();
    let shown: Vec<&str> = if lines.len() == rows.len() {
        rows.iter().map(String::as_str).collect()
    } else {
        values.iter().map(AsRef::as_ref).collect()
    };
    if shown.len() != lines.len() {
        return format!(
            "{} values in {} rows, expected {} lines",
            values.len(),
            rows.len(),
            lines.len()
        );
    }
    let mut pairs = shown.iter().zip(lines).enumerate();
    match pairs.find(|(_, (shown, line))| *shown != line) {
        Some((at, (shown, line))) => format!("line {} is `{shown}`, expected `{line}`", at + 1),
        None => "the order differs".to_owned(),
    }
}

/// A value as text.
fn cell<'a>(value: Option<&'a str>, column: &Column, letter: char, form: Form) -> Cow<'a, str> {
    let Some(text) = value else {
        return "NULL".into();
    };
    match form {
        Form::Letters => by_letter(text, column, letter),
        Form::Normal => normal(text, column),
        Form::Plain => text.into(),
    }
}

fn by_letter<'a>(text: &'a str, column: &Column, letter: char) -> Cow<'a, str> {
    match letter {
        'I' if column.is_bool() => if text == "t" { "1" } else { "0" }.into(),
        'I' if column.is_number() => text.split_once('.').map_or(text, |(whole, _)| whole).into(),
        'R' => match text.parse::<f64>() {
            Ok(number) => format!("{number:.3}").into(),
            Err(_) => text.into(),
        },
        _ if text.is_empty() => "(empty)".into(),
        _ if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) => text.into(),
        _ => {
            let shown = text.bytes().map(|byte| match byte {
                b' '..=b'~' => char::from(byte),
                _ => '@',
            });
            shown.collect::<String>().into()
        }
    }
}

fn normal<'a>(text: &'a str, column: &Column) -> Cow<'a, str> {
    match column.type_oid {
        16 => if text == "t" { "true" } else { "false" }.into(),
        700 | 701 | 1700 => decimal(text).map_or(text.into(), Cow::Owned),
        1114 => text.replacen(' ', "T", 1).into(),
        _ if text.is_empty() => "(empty)".into(),
        _ => text.trim_end_matches('\n').into(),
    }
}

/// A number without an exponent, rounded to [`DECIMALS`], without zeros at its end.
fn decimal(text: &str) -> Option<String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    let (digits, exponent) = digits.split_once('e').unwrap_or((digits, "0"));
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let point = i32::try_from(whole.len()).ok()? + exponent;
    // Each digit by its place: those up to 0 are before the point.
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    if !digits.iter().all(u8::is_ascii_digit) || point.abs() > 400 {
        return None;
    }
    let at = |place: i32| {
        let index = usize::try_from(point + place).ok()?;
        digits.get(index).copied()
    };
    let count = i32::from(DECIMALS);
    let start = -point.max(1);
    let mut kept: Vec<u8> = (start..count)
        .map(|place| at(place).unwrap_or(b'0'))
        .collect();
    let mut carry = at(count).is_some_and(|digit| digit >= b'5');
    for digit in kept.iter_mut().rev() {
        if !carry {
            break;
        }
        carry = *digit == b'9';
        *digit = if carry { b'0' } else { *digit + 1 };
    }
    if carry {
        kept.insert(0, b'1');
    }
    let text = String::from_utf8(kept).ok()?;
    let (whole, fraction) = text.split_at(text.len() - usize::from(DECIMALS));
    let whole = Some(whole.trim_start_matches('0')).filter(|whole| !whole.is_empty());
    let number = format!("{}.{fraction}", whole.unwrap_or("0"));
    let number = number.trim_end_matches('0').trim_end_matches('.');
    let sign = if number == "0" { "" } else { sign };
    Some(format!("{sign}{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(types: &[u32], rows: &[&[Option<&str>]]) -> Answer {
        let columns = types.iter().map(|type_oid| Column {
            name: "c".to_owned(),
            type_oid: *type_oid,
        });
        let owned =
            |row: &&[Option<&str>]| row.iter().map(|value| value.map(str::to_owned)).collect();
        Answer {
            columns: columns.collect(),
            rows: rows.iter().map(owned).collect(),
            ..Answer::default()
        }
    }

    fn check(answer: &Answer, types: &str, sort: Sort, lines: &[&str]) -> Result<(), String> {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        compare(
            answer,
            &Wanted {
                types,
                sort,
                lines: &lines,
            },
        )
    }

    #[test]
    fn values_print_by_the_letters_of_the_query() {
        let row: &[Option<&str>] = &[
            Some("12.9"),
            Some("1"),
            Some(""),
            Some("a\u{e9}\n"),
            None,
            Some("t"),
        ];
        let answer = answer(&[1700, 23, 25, 25, 25, 16], &[row]);
        let lines = ["12", "1.000", "(empty)", "a@@@", "NULL", "1"];
        assert_eq!(check(&answer, "IRTTTI", Sort::None, &lines), Ok(()));
        assert!(
            check(&answer, "IRTTT", Sort::None, &lines)
                .unwrap_err()
                .contains("6 columns")
        );
    }

    #[test]
    fn rows_and_values_are_sorted_as_texts() {
        let answer = answer(
            &[23, 23],
            &[&[Some("9"), Some("1")], &[Some("10"), Some("2")]],
        );
        assert_eq!(
            check(&answer, "II", Sort::None, &["9", "1", "10", "2"]),
            Ok(())
        );
        assert_eq!(
            check(&answer, "II", Sort::Rows, &["10", "2", "9", "1"]),
            Ok(())
        );
        assert_eq!(
            check(&answer, "II", Sort::Values, &["1", "10", "2", "9"]),
            Ok(())
        );
        let fault = check(&answer, "II", Sort::None, &["9", "1", "11", "2"]).unwrap_err();
        assert_eq!(fault, "line 3 is `10`, expected `11`");
        let fault = check(&answer, "II", Sort::None, &["9", "1", "11"]).unwrap_err();
        assert!(fault.contains("expected 3 lines"), "{fault}");
    }

    #[test]
    fn a_row_may_have_a_line() {
        let answer = answer(
            &[16, 701, 1114, 25],
            &[&[
                Some("t"),
                Some("1.10"),
                Some("2020-01-02 03:04:05"),
                Some("two  words"),
            ]],
        );
        assert_eq!(
            check(
                &answer,
                "BRPT",
                Sort::None,
                &["true 1.1 2020-01-02T03:04:05 two words"]
            ),
            Ok(())
        );
        assert_eq!(
            check(
                &answer,
                "BRPT",
                Sort::None,
                &["t\t1.10\t2020-01-02 03:04:05\ttwo words"]
            ),
            Ok(())
        );
        assert!(
            check(
                &answer,
                "BRPT",
                Sort::None,
                &["f 1.1 2020-01-02T03:04:05 two words"]
            )
            .is_err()
        );
    }

    #[test]
    fn long_results_are_hashes() {
        let answer = answer(&[23], &[&[Some("1")], &[Some("2")]]);
        let line = format!("2 values hashing to {}", md5(b"1\n2\n"));
        assert_eq!(check(&answer, "I", Sort::None, &[&line]), Ok(()));
        let other = format!("3 values hashing to {}", md5(b"1\n2\n"));
        assert!(check(&answer, "I", Sort::None, &[&other]).is_err());
    }

    #[test]
    fn numbers_are_rounded_to_twelve_decimals() {
        for (text, shown) in [
            ("0", "0"),
            ("-0", "0"),
            ("100", "100"),
            ("-1.500", "-1.5"),
            ("0.00000000000049", "0"),
            ("0.9999999999999", "1"),
            ("9.9999999999995", "10"),
            ("1.2345678901235e+3", "1234.5678901235"),
            ("1e+20", "100000000000000000000"),
            ("1.5e-05", "0.000015"),
        ] {
            assert_eq!(decimal(text).as_deref(), Some(shown), "{text}");
        }
        assert_eq!(decimal("NaN"), None);
    }
}
