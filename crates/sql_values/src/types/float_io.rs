//! Floating point numbers as text, both ways, and the words of texts that are no values.
//!
//! The digits are the fewest that read back as the number, which PostgreSQL prints too.

use super::numeric::Numeric;
use crate::error::{Result, SqlError, SqlState};
use std::fmt::Write as _;

/// Digits that show whether a number lies in the middle between two texts.
const DIGITS_OF_TIES: usize = 60;

/// The error of a text that is no value of a type.
pub fn bad_text(name: &str, text: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type {name}: \"{text}\""),
    )
}

/// Writing to a text cannot fail.
pub fn append(out: &mut String, value: impl std::fmt::Display) {
    let _ = write!(out, "{value}");
}

/// A text without the blanks at both ends.
pub fn trimmed(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b')
}

/// A number, NaN or infinity as `float8` reads it.
pub fn parse_f64(text: &str) -> Result<f64> {
    let body = float_body(text, "double precision")?;
    let value: f64 = body
        .parse()
        .map_err(|_| bad_text("double precision", text))?;
    if is_lost(value.is_infinite(), value == 0.0, body) {
        return Err(SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("\"{body}\" is out of range for type double precision"),
        ));
    }
    Ok(value)
}

/// A number, NaN or infinity as `float4` reads it.
pub fn parse_f32(text: &str) -> Result<f32> {
    let body = float_body(text, "real")?;
    let value: f32 = body.parse().map_err(|_| bad_text("real", text))?;
    if is_lost(value.is_infinite(), value == 0.0, body) {
        return Err(SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("\"{body}\" is out of range for type real"),
        ));
    }
    Ok(value)
}

/// The text without blanks, if Rust reads it as PostgreSQL does.
fn float_body<'t>(text: &'t str, name: &str) -> Result<&'t str> {
    let body = trimmed(text);
    let unsigned = body.strip_prefix(['+', '-']).unwrap_or(body);
    let is_word = ["infinity", "inf", "nan"]
        .iter()
        .any(|word| unsigned.eq_ignore_ascii_case(word));
    let is_number = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if is_word || is_number {
        Ok(body)
    } else {
        Err(bad_text(name, text))
    }
}

/// Whether a number is none that the type can hold, though its text is one.
fn is_lost(is_infinite: bool, is_zero: bool, body: &str) -> bool {
    let mantissa = body.split(['e', 'E']).next().unwrap_or(body);
    let has_digits = mantissa.bytes().any(|byte| byte.is_ascii_digit());
    let is_nonzero = mantissa.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    (is_infinite && has_digits) || (is_zero && is_nonzero)
}

/// Appends a number, with the digits that it needs or fewer.
pub(super) fn print_f64(out: &mut String, value: f64, extra_digits: i32) {
    if print_special(out, value) {
        return;
    }
    if extra_digits > 0 {
        print_digits(out, &shortest_f64(value), 15);
    } else {
        print_general(out, value, (15 + extra_digits).max(1) as usize);
    }
}

/// Appends a number of 32 bits.
pub(super) fn print_f32(out: &mut String, value: f32, extra_digits: i32) {
    if print_special(out, f64::from(value)) {
        return;
    }
    if extra_digits > 0 {
        print_digits(out, &shortest_f32(value), 6);
    } else {
        print_general(out, f64::from(value), (6 + extra_digits).max(1) as usize);
    }
}

/// The fewest digits that read back as the number, by PostgreSQL's rules.
fn shortest_f64(value: f64) -> String {
    let text = format!("{value:e}");
    let next = f64::from_bits(value.abs().to_bits().saturating_add(1)) - value.abs();
    let print = |digits: usize| format!("{value:.digits$e}");
    let is_half = |text: &str| next >= 2.0 && is_half(text, value.abs(), next);
    shortest(text, 17, print, |text| {
        text.parse() == Ok(value) && !is_half(text)
    })
}

/// The same for numbers of 32 bits.
fn shortest_f32(value: f32) -> String {
    let text = format!("{value:e}");
    let next = f32::from_bits(value.abs().to_bits().saturating_add(1)) - value.abs();
    let (size, gap) = (f64::from(value.abs()), f64::from(next));
    let print = |digits: usize| format!("{value:.digits$e}");
    let is_half = |text: &str| gap >= 2.0 && is_half(text, size, gap);
    shortest(text, 9, print, |text| {
        text.parse() == Ok(value) && !is_half(text)
    })
}

/// Rust's shortest digits, with two corrections. The digits must lie strictly between the halves to
/// the neighbours, and of two texts that are equally near the one with an even digit is taken.
fn shortest(
    text: String,
    digits_max: usize,
    print: impl Fn(usize) -> String,
    is_valid: impl Fn(&str) -> bool,
) -> String {
    let count = digit_count(&text);
    if !is_valid(&text) {
        let mut more = (count..digits_max).map(&print);
        return more.find(|text| is_valid(text)).unwrap_or(text);
    }
    let longer = print(count);
    let (mantissa, exponent) = longer.split_once('e').unwrap_or((&longer, "0"));
    let Some(cut) = mantissa.strip_suffix('5') else {
        return text;
    };
    let is_even = cut.ends_with(['0', '2', '4', '6', '8']);
    let exact = print(DIGITS_OF_TIES);
    let rest = exact
        .strip_prefix(mantissa)
        .and_then(|rest| rest.split('e').next());
    let is_tie = rest.is_some_and(|rest| rest.bytes().all(|digit| digit == b'0'));
    let below = format!("{cut}e{exponent}");
    if is_tie && is_even && is_valid(&below) {
        below
    } else {
        text
    }
}

/// Digits of the mantissa.
fn digit_count(text: &str) -> usize {
    let mantissa = text.split('e').next().unwrap_or(text);
    mantissa.bytes().filter(u8::is_ascii_digit).count()
}

/// Whether a text is half the gap away from the number, or more. Only integers can be such halves
/// with few digits.
fn is_half(text: &str, value: f64, gap: f64) -> bool {
    if value > 1e36 {
        return false;
    }
    let (value, gap) = (value as i128, gap as i128);
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let written = Numeric::parse(unsigned)
        .ok()
        .and_then(|number| number.round(0).small());
    written.is_some_and(|(written, _)| (written - value).abs() * 2 >= gap)
}

fn print_special(out: &mut String, value: f64) -> bool {
    match () {
        () if value.is_nan() => out.push_str("NaN"),
        () if value.is_infinite() && value > 0.0 => out.push_str("Infinity"),
        () if value.is_infinite() => out.push_str("-Infinity"),
        () => return false,
    }
    true
}

/// C's `%.*g`: so many significant digits, without zeros at the end.
pub fn print_general(out: &mut String, value: f64, digits: usize) {
    if print_special(out, value) {
        return;
    }
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let short = if mantissa.contains('.') {
        mantissa.trim_end_matches('0').trim_end_matches('.')
    } else {
        mantissa
    };
    print_digits(out, &format!("{short}e{exponent}"), digits as i32);
}

/// The shortest digits that read back as the number, as `d.ddde10`, in the form that PostgreSQL
/// gives them: plain while the exponent is at least -4 and below `plain_digits`.
fn print_digits(out: &mut String, scientific: &str, plain_digits: i32) {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    out.push_str(sign);
    if exponent < -4 || exponent >= plain_digits {
        let mark = if exponent < 0 { '-' } else { '+' };
        append(out, format_args!("{mantissa}e{mark}{:02}", exponent.abs()));
        return;
    }
    let digits = mantissa.replace('.', "");
    if exponent < 0 {
        let zeros = "0".repeat((-exponent - 1) as usize);
        append(out, format_args!("0.{zeros}{digits}"));
        return;
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        append(out, format_args!("{digits:0<whole$}"));
    } else {
        append(
            out,
            format_args!("{}.{}", &digits[..whole], &digits[whole..]),
        );
    }
}
