//! `to_char` of numbers, and `to_number`.
//!
//! A template is a row of digits, signs and marks (`FM999G990D00PR`). The number is rounded to the
//! digits after the point; where it has more digits before it than the template, all of them show
//! as `#`. Groups, points and currency are those of the locale C: a blank for `L`, `,` and `.`.

use super::super::datum::Datum;
use super::super::kind::Kind::{Float4, Float8, Int4, Int8, Numeric, Text};
use super::super::numeric::Numeric as Number;
use super::Function;
use super::number_template::{Pattern, Template};
use crate::error::{Result, SqlError, SqlState};
use num_bigint::BigUint;

/// The digits of a number by a template.
struct Digits {
    whole: String,
    fraction: String,
    is_negative: bool,
    /// NaN or infinite: there is no point.
    is_special: bool,
}

/// The number's sign and digits, rounded to those after the point.
fn digits_of(number: &Number, template: &Template) -> Result<Digits> {
    let shifted = match template.shift {
        Some(shift) => number.multiply(&Number::new(10_i128.pow(shift.min(30) as u32), 0))?,
        None => number.clone(),
    };
    let rounded = shifted.round(template.fraction as i32);
    let shown = rounded.abs().to_string();
    let (whole, fraction) = shown.split_once('.').unwrap_or((&shown, ""));
    Ok(Digits {
        whole: whole.to_owned(),
        fraction: fraction.to_owned(),
        is_negative: rounded.signum() < 0,
        is_special: rounded.is_nan() || rounded.is_infinite(),
    })
}

/// The same of a floating point number, of which so many digits count.
fn digits_of_float(value: f64, significant: usize, template: &Template) -> Digits {
    let scale = template
        .shift
        .map_or(1.0, |shift| 10_f64.powi(shift as i32));
    let value = value * scale;
    let whole = format!("{:.0}", value.abs());
    let fraction = template
        .fraction
        .min(significant.saturating_sub(whole.len()));
    let fraction = if value.is_finite() { fraction } else { 0 };
    let shown = if value.is_infinite() {
        "Infinity".to_owned()
    } else {
        format!("{:.fraction$}", value.abs())
    };
    let (whole, fraction) = shown.split_once('.').unwrap_or((&shown, ""));
    Digits {
        whole: whole.to_owned(),
        fraction: fraction.to_owned(),
        is_negative: value.is_sign_negative() && !value.is_nan(),
        is_special: !value.is_finite(),
    }
}

fn fill(template: &Template, mut digits: Digits) -> String {
    // The zero before a point does not fit either where a template begins with the point.
    if digits.whole.len() > template.whole {
        digits.whole = "#".repeat(template.whole);
        let places = if digits.is_special {
            template.fraction
        } else {
            digits.fraction.len()
        };
        digits.fraction = "#".repeat(places);
        digits.is_special = false;
    }
    Writer::new(template, &digits).run()
}

fn format(number: &Number, template: &str, carry: Carry) -> Result<String> {
    let template = Template::parse(template)?;
    if let Some(is_upper) = template.roman {
        return roman(number, is_upper, template.is_short);
    }
    if template.is_scientific {
        return Ok(scientific(number, &template, carry));
    }
    Ok(fill(&template, digits_of(number, &template)?))
}

fn format_float(value: f64, significant: usize, template: &str) -> Result<String> {
    let parsed = Template::parse(template)?;
    let number = Number::from_f64(value, significant);
    if parsed.is_scientific {
        return Ok(scientific(&number, &parsed, Carry::Exponent));
    }
    if let Some(is_upper) = parsed.roman {
        if !value.is_finite() {
            return roman(&Number::ZERO, is_upper, parsed.is_short);
        }
        let whole = Number::from_f64(value.round_ties_even(), significant);
        return roman(&whole, is_upper, parsed.is_short);
    }
    Ok(fill(&parsed, digits_of_float(value, significant, &parsed)))
}

/// Fills the digits of a number into a template.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a state of its own while digits are written"
)]
struct Writer<'t> {
    template: &'t Template,
    /// A digit or a blank for each place before the point.
    whole: Vec<char>,
    fraction: Vec<char>,
    is_negative: bool,
    /// Whether the sign that has no place of its own has been written.
    has_sign: bool,
    out: String,
    /// Places of the digits that were read.
    digit: usize,
    after: usize,
    in_fraction: bool,
    has_point: bool,
}

impl<'t> Writer<'t> {
    fn new(template: &'t Template, given: &Digits) -> Self {
        let fraction = Self::fraction(template, &given.fraction);
        // A 0 before digits after the point is not shown.
        let digits: Vec<char> = if given.whole == "0" && !fraction.is_empty() {
            Vec::new()
        } else {
            given.whole.chars().collect()
        };
        let missing = template.whole.saturating_sub(digits.len());
        let mut places = vec![' '; missing];
        places.extend(
            digits
                .iter()
                .skip(digits.len().saturating_sub(template.whole)),
        );
        // From the first 0 on, all places before the point have digits.
        let parts = template
            .parts
            .iter()
            .take_while(|part| **part != Pattern::Point);
        let kinds = parts.filter(|part| matches!(part, Pattern::Nine | Pattern::Zero));
        if let Some(first) = kinds.clone().position(|part| *part == Pattern::Zero) {
            for place in places.iter_mut().skip(first).filter(|place| **place == ' ') {
                *place = '0';
            }
        }
        Self {
            template,
            whole: places,
            fraction,
            is_negative: given.is_negative,
            has_sign: template.has_any_sign(),
            out: String::new(),
            digit: 0,
            after: 0,
            in_fraction: false,
            has_point: !given.is_special,
        }
    }

    /// Digits after the point; in the short form zeros at the end of nines are left out.
    fn fraction(template: &Template, digits: &str) -> Vec<char> {
        let mut places: Vec<char> = digits.chars().collect();
        if template.is_short {
            let parts = template
                .parts
                .iter()
                .skip_while(|part| **part != Pattern::Point);
            let kinds: Vec<&Pattern> = parts
                .filter(|part| matches!(part, Pattern::Nine | Pattern::Zero))
                .collect();
            let zeros = kinds
                .iter()
                .rposition(|part| **part == Pattern::Zero)
                .map_or(0, |at| at + 1);
            while places.len() > zeros && places.last() == Some(&'0') {
                places.pop();
            }
        }
        places
    }

    fn run(mut self) -> String {
        let first = self.whole.iter().position(|place| *place != ' ');
        let start = first.unwrap_or(self.whole.len());
        for part in &self.template.parts {
            match part {
                Pattern::Nine | Pattern::Zero if self.in_fraction => {
                    if let Some(digit) = self.fraction.get(self.after) {
                        self.out.push(*digit);
                    }
                    self.after += 1;
                }
                Pattern::Nine | Pattern::Zero => {
                    if self.digit >= start {
                        self.sign();
                        self.out.push(self.whole[self.digit]);
                    } else {
                        self.blank();
                    }
                    self.digit += 1;
                }
                Pattern::Point => {
                    self.sign();
                    self.in_fraction = true;
                    if self.has_point {
                        self.out.push('.');
                    }
                }
                Pattern::Group if self.digit > start => self.out.push(','),
                Pattern::Group => self.blank(),
                Pattern::Sign | Pattern::Either => {
                    self.out.push(if self.is_negative { '-' } else { '+' });
                }
                Pattern::Minus if self.is_negative => self.out.push('-'),
                Pattern::Plus if !self.is_negative => self.out.push('+'),
                Pattern::Minus | Pattern::Plus | Pattern::Currency => self.blank(),
                Pattern::Brackets => {}
                Pattern::Ordinal(is_upper) => self.ordinal(*is_upper),
                Pattern::Literal(text) => self.out.push_str(text),
            }
        }
        self.signs_around()
    }

    fn blank(&mut self) {
        if !self.template.is_short {
            self.out.push(' ');
        }
    }

    /// The sign right before the first digit.
    fn sign(&mut self) {
        if std::mem::replace(&mut self.has_sign, true) {
            return;
        }
        if self.is_negative {
            self.out.push('-');
        } else {
            self.blank();
        }
    }

    fn ordinal(&mut self, is_upper: bool) {
        if self.is_negative || self.template.fraction > 0 || self.whole.contains(&'#') {
            return;
        }
        let digits: String = self.whole.iter().collect();
        let number: u64 = digits.trim().parse().unwrap_or(0);
        let ending = ordinal_ending(number);
        self.out.push_str(&if is_upper {
            ending.to_uppercase()
        } else {
            ending.to_owned()
        });
    }

    /// `S` before the digits belongs right before the first of them, and brackets around all.
    fn signs_around(mut self) -> String {
        let leads = self.template.parts.first() == Some(&Pattern::Sign);
        if leads && !self.template.is_short {
            let sign = self.out.remove(0);
            let place = self.out.find(|c: char| c != ' ').unwrap_or(self.out.len());
            self.out.insert(place, sign);
        }
        if self.template.parts.contains(&Pattern::Brackets) {
            let place = self.out.find(|c: char| c != ' ').unwrap_or(0);
            if self.is_negative {
                self.out.insert(place, '<');
                self.out.push('>');
            } else if !self.template.is_short {
                self.out.insert(place, ' ');
                self.out.push(' ');
            }
        }
        self.out
    }
}

/// `st`, `nd`, `rd` or `th`.
pub(super) fn ordinal_ending(number: u64) -> &'static str {
    match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    }
}

/// A number below 4000 in Roman digits.
fn roman(number: &Number, is_upper: bool, is_short: bool) -> Result<String> {
    let value = number.to_i64().and_then(|value| i32::try_from(value).ok());
    let digits = match value {
        Some(value @ 1..=3999) => roman_digits(value as usize),
        Some(_) => "#".repeat(15),
        None => return Err(super::super::cast::out_of_range("integer")),
    };
    let digits = if is_upper {
        digits
    } else {
        digits.to_lowercase()
    };
    Ok(if is_short {
        digits
    } else {
        format!("{digits:>15}")
    })
}

pub(super) fn roman_digits(mut value: usize) -> String {
    const DIGITS: [(usize, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let mut out = String::new();
    for (worth, digit) in DIGITS {
        while value >= worth {
            out.push_str(digit);
            value -= worth;
        }
    }
    out
}

/// The effect of a rounding that gives a second digit before the point.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Carry {
    /// The exponent grows, as in numbers that PostgreSQL takes for floating point.
    Exponent,
    /// The digit stays: `10.0e+02`.
    Digit,
}

/// `9.99EEEE`: a digit, the point, and an exponent.
fn scientific(number: &Number, template: &Template, carry: Carry) -> String {
    if number.is_nan() || number.is_infinite() {
        let hashes = "#".repeat(template.fraction + 4);
        return format!(" #.{hashes}");
    }
    let (units, scale) = number.parts().unwrap_or_default();
    let digits = units.magnitude().to_str_radix(10);
    let exponent = if number.is_zero() {
        0
    } else {
        digits.len() as i64 - 1 - i64::from(scale)
    };
    // Digits beyond the next one do not matter for the rounding.
    let kept = digits.len().min(template.fraction + 2);
    let mantissa: BigUint = digits[..kept].parse().unwrap_or_default();
    let wanted = template.fraction + 1;
    let mantissa = match wanted.checked_sub(kept) {
        Some(missing) => mantissa * BigUint::from(10_u32).pow(missing as u32),
        None => (mantissa + 5_u32) / 10_u32,
    };
    let mut shown = format!("{mantissa:0wanted$}");
    let exponent = if shown.len() > wanted && carry == Carry::Exponent {
        shown.pop();
        exponent + 1
    } else {
        exponent
    };
    if template.fraction > 0 {
        shown.insert(shown.len() - template.fraction, '.');
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    let lead = if number.signum() < 0 { "-" } else { " " };
    format!("{lead}{shown}e{sign}{:02}", exponent.abs())
}

/// The digits of a text by a template, with their point, and whether there is a minus.
fn read_digits(text: &str, template: &Template) -> (String, bool) {
    let mut digits = String::new();
    let mut is_negative = false;
    let mut characters = text.chars().peekable();
    let mut in_fraction = false;
    let mut sign = |characters: &mut std::iter::Peekable<std::str::Chars<'_>>| {
        while characters.next_if(|c| c.is_whitespace()).is_some() {}
        if let Some(found) = characters.next_if(|c| matches!(c, '-' | '+' | '<')) {
            is_negative |= found != '+';
        }
    };
    for part in &template.parts {
        match part {
            Pattern::Nine | Pattern::Zero => {
                sign(&mut characters);
                if let Some(digit) = characters.next_if(char::is_ascii_digit) {
                    digits.push(digit);
                } else if !in_fraction && characters.next_if_eq(&'.').is_some() {
                    in_fraction = true;
                    digits.push('.');
                    if let Some(digit) = characters.next_if(char::is_ascii_digit) {
                        digits.push(digit);
                    }
                }
            }
            Pattern::Point => {
                if characters.next_if_eq(&'.').is_some() && !in_fraction {
                    digits.push('.');
                    in_fraction = true;
                }
            }
            Pattern::Group => {
                characters.next_if_eq(&',');
            }
            Pattern::Sign
            | Pattern::Minus
            | Pattern::Plus
            | Pattern::Either
            | Pattern::Brackets => {
                sign(&mut characters);
            }
            Pattern::Currency => {
                while characters
                    .next_if(|c| !c.is_ascii_digit() && !matches!(c, '-' | '.'))
                    .is_some()
                {}
            }
            Pattern::Ordinal(_) => {
                characters.next_if(char::is_ascii_alphabetic);
                characters.next_if(char::is_ascii_alphabetic);
            }
            Pattern::Literal(literal) => {
                for _ in literal.chars() {
                    characters.next();
                }
            }
        }
    }
    (digits, is_negative)
}

/// The number of a text by a template: digits and signs count, the rest is passed over.
fn parse(text: &str, template: &str) -> Result<Datum> {
    if template.is_empty() {
        return Ok(Datum::Null);
    }
    let template = Template::parse(template)?;
    if template.roman.is_some() {
        return Err(SqlError::unsupported(
            "\"RN\" for input",
            "Write the number with digits.",
        ));
    }
    if template.is_scientific {
        let message = "\"EEEE\" not supported for input";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    let (digits, is_negative) = read_digits(text, &template);
    if !digits.bytes().any(|byte| byte.is_ascii_digit()) {
        return Err(SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            "invalid input syntax for type numeric: \" \"",
        ));
    }
    let number = Number::parse(&digits)?;
    let number = if is_negative {
        number.negated()
    } else {
        number
    };
    let number = match template.shift {
        Some(shift) => number.divide(&Number::new(10_i128.pow(shift.min(30) as u32), 0))?,
        None => number,
    };
    Ok(Datum::Numeric(number))
}

fn shown(number: &Number, carry: Carry, a: &[Datum]) -> Result<Datum> {
    let template = a[1].str()?;
    if template.is_empty() {
        return Ok(Datum::text(""));
    }
    format(number, template, carry).map(Datum::text)
}

fn shown_float(value: f64, significant: usize, a: &[Datum]) -> Result<Datum> {
    let template = a[1].str()?;
    if template.is_empty() {
        return Ok(Datum::text(""));
    }
    format_float(value, significant, template).map(Datum::text)
}

/// The table.
pub(super) const FUNCTIONS: &[Function] = &[
    Function::scalar("to_char", &[Int4, Text], Text, |_, a| {
        shown(&Number::from(a[0].int()?), Carry::Exponent, a)
    })
    .stable(),
    Function::scalar("to_char", &[Int8, Text], Text, |_, a| {
        shown(&Number::from(a[0].int()?), Carry::Digit, a)
    })
    .stable(),
    Function::scalar("to_char", &[Numeric, Text], Text, |_, a| {
        shown(a[0].numeric()?, Carry::Digit, a)
    })
    .stable(),
    Function::scalar("to_char", &[Float4, Text], Text, |_, a| {
        shown_float(f64::from(a[0].float4()?), 6, a)
    })
    .stable(),
    Function::scalar("to_char", &[Float8, Text], Text, |_, a| {
        shown_float(a[0].float8()?, 15, a)
    })
    .stable(),
    Function::scalar("to_number", &[Text, Text], Numeric, |_, a| {
        parse(a[0].str()?, a[1].str()?)
    })
    .stable(),
];
