//! The texts of arrays: PostgreSQL's form, with quotes only where they are needed.
//!
//! An element is read and printed as a value of its own, so this file and `text_io` call each
//! other.

use super::array::{Array, Dimension, ELEMENTS_MAX, check_dimensions};
use super::context::Context;
use super::datum::Datum;
use super::kind::Kind;
use super::size;
use super::text_io::{self, append, is_space};
use crate::error::{Result, SqlError, SqlState};
use std::sync::Arc;

/// Appends the text of an array: `{1,2}`, with bounds where they do not begin at 1.
pub(super) fn print(out: &mut String, array: &Array, context: &Context<'_>) -> Result<()> {
    if array.elements.is_empty() {
        out.push_str("{}");
        return Ok(());
    }
    if array.dimensions.iter().any(|one| one.lower != 1) {
        for one in &array.dimensions {
            append(out, format_args!("[{}:{}]", one.lower, one.upper()));
        }
        out.push('=');
    }
    let mut elements = array.elements.iter();
    print_level(out, array, 0, &mut elements, context)
}

fn print_level<'a>(
    out: &mut String,
    array: &Array,
    level: usize,
    elements: &mut impl Iterator<Item = &'a Datum>,
    context: &Context<'_>,
) -> Result<()> {
    out.push('{');
    for place in 0..array.dimensions[level].length {
        if place > 0 {
            out.push(array.element.delimiter());
        }
        if level + 1 < array.dimensions.len() {
            print_level(out, array, level + 1, elements, context)?;
        } else if let Some(element) = elements.next() {
            print_element(out, element, array.element, context)?;
            size::check(out.len())?;
        }
    }
    out.push('}');
    Ok(())
}

fn print_element(
    out: &mut String,
    element: &Datum,
    kind: Kind,
    context: &Context<'_>,
) -> Result<()> {
    if element.is_null() {
        out.push_str("NULL");
        return Ok(());
    }
    let text = text_io::print(element, kind, context)?;
    let is_quoted = text.is_empty()
        || text.eq_ignore_ascii_case("null")
        || text.contains(|c: char| {
            matches!(c, '"' | '\\' | '{' | '}') || c == kind.delimiter() || is_space(c)
        });
    if !is_quoted {
        out.push_str(&text);
        return Ok(());
    }
    out.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
    Ok(())
}

/// The vector of a text: numbers with blanks between them, from the subscript 0.
pub(super) fn parse_vector(kind: Kind, text: &str, context: &Context<'_>) -> Result<Datum> {
    let element = kind.element().unwrap_or(kind);
    let words = text.split_ascii_whitespace();
    let elements = words.map(|word| text_io::parse(element, word, context));
    let elements = elements.collect::<Result<Vec<_>>>()?;
    Ok(Datum::Array(Arc::new(Array {
        element,
        dimensions: vec![Dimension {
            length: elements.len(),
            lower: 0,
        }],
        elements,
    })))
}

/// The array of a text.
pub(super) fn parse(element: Kind, text: &str, context: &Context<'_>) -> Result<Datum> {
    let malformed = |detail: &str| {
        SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("malformed array literal: \"{text}\""),
        )
        .detail(detail)
    };
    let body = text_io::trimmed(text);
    let (bounds, body) = parse_bounds(body).map_err(|error| match error {
        BoundsError::Malformed(detail) => malformed(detail),
        BoundsError::Other(error) => *error,
    })?;
    let mut reader = Reader {
        rest: body,
        element,
        context,
        lengths: Vec::new(),
        elements: Vec::new(),
    };
    if !reader.rest.starts_with('{') {
        return Err(malformed(if bounds.is_empty() {
            "Array value must start with \"{\" or dimension information."
        } else {
            "Array contents must start with \"{\"."
        }));
    }
    reader.level(0).map_err(|error| match error {
        LevelError::Malformed(detail) => malformed(&detail),
        LevelError::Other(error) => *error,
    })?;
    if !text_io::trimmed(reader.rest).is_empty() {
        return Err(malformed("Junk after closing right brace."));
    }
    let lengths: Vec<usize> = reader.lengths.iter().map(|one| one.unwrap_or(0)).collect();
    if reader.elements.is_empty() {
        if !bounds.is_empty() {
            return Err(malformed(
                "Specified array dimensions do not match array contents.",
            ));
        }
        return Ok(Datum::Array(Arc::new(Array::new(element, Vec::new()))));
    }
    if !bounds.is_empty() {
        let given: Vec<usize> = bounds.iter().map(|one| one.length).collect();
        if given != lengths {
            return Err(malformed(
                "Specified array dimensions do not match array contents.",
            ));
        }
    }
    for bound in &bounds {
        Dimension::new(bound.length, bound.lower)?;
    }
    let dimensions = if bounds.is_empty() {
        let lengths = lengths.into_iter();
        lengths
            .map(|length| Dimension { length, lower: 1 })
            .collect()
    } else {
        bounds
    };
    Ok(Datum::Array(Arc::new(Array {
        element,
        dimensions,
        elements: reader.elements,
    })))
}

enum BoundsError {
    Malformed(&'static str),
    Other(Box<SqlError>),
}

impl From<SqlError> for BoundsError {
    fn from(error: SqlError) -> Self {
        Self::Other(Box::new(error))
    }
}

/// The bounds before the contents, as `[1:2][0:3]=`, and the rest.
fn parse_bounds(text: &str) -> Result<(Vec<Dimension>, &str), BoundsError> {
    let mut bounds = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while let Some(inner) = rest.strip_prefix('[') {
        check_dimensions(bounds.len() + 1)?;
        let (pair, after) = inner.split_once(']').ok_or(BoundsError::Malformed(
            "Missing \"]\" after array dimensions.",
        ))?;
        let (lower, upper) = pair.split_once(':').unwrap_or(("1", pair));
        let number = |text: &str| {
            text.parse::<i32>().map_err(|_| {
                BoundsError::Malformed(
                    "\"[\" must introduce explicitly-specified array dimensions.",
                )
            })
        };
        let (lower, upper) = (number(lower)?, number(upper)?);
        if upper < lower {
            let message = "upper bound cannot be less than lower bound";
            return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message).into());
        }
        let length = i64::from(upper) - i64::from(lower) + 1;
        bounds.push(Dimension {
            length: length as usize,
            lower,
        });
        rest = after.trim_start_matches(is_space);
    }
    if bounds.is_empty() {
        return Ok((bounds, rest));
    }
    let rest = rest.strip_prefix('=').ok_or(BoundsError::Malformed(
        "Missing \"=\" after array dimensions.",
    ))?;
    Ok((bounds, rest.trim_start_matches(is_space)))
}

enum LevelError {
    Malformed(String),
    Other(Box<SqlError>),
}

impl From<SqlError> for LevelError {
    fn from(error: SqlError) -> Self {
        Self::Other(Box::new(error))
    }
}

struct Reader<'t> {
    rest: &'t str,
    element: Kind,
    context: &'t Context<'t>,
    lengths: Vec<Option<usize>>,
    elements: Vec<Datum>,
}

impl Reader<'_> {
    fn blanks(&mut self) {
        self.rest = self.rest.trim_start_matches(is_space);
    }

    /// Reads from a left brace to the right one that closes it.
    fn level(&mut self, level: usize) -> Result<(), LevelError> {
        check_dimensions(level + 1)?;
        if self.lengths.len() <= level {
            self.lengths.push(None);
        }
        self.rest = &self.rest[1..];
        let mut count = 0;
        self.blanks();
        if self.rest.starts_with('}') {
            self.rest = &self.rest[1..];
            return self.close(level, count);
        }
        loop {
            self.blanks();
            if self.rest.starts_with('{') {
                if self.lengths.len() == level + 1 && !self.elements.is_empty() {
                    return Err(LevelError::Malformed("Unexpected \"{\" character.".into()));
                }
                self.level(level + 1)?;
            } else {
                if self.lengths.len() > level + 1 {
                    return Err(match self.rest.chars().next() {
                        None => LevelError::Malformed("Unexpected end of input.".into()),
                        Some(c) if c == '}' || c == self.element.delimiter() => {
                            LevelError::Malformed(format!("Unexpected \"{c}\" character."))
                        }
                        Some(_) => LevelError::Malformed("Unexpected array element.".into()),
                    });
                }
                let element = self.item()?;
                self.elements.push(element);
                if self.elements.len() > ELEMENTS_MAX {
                    return Err(SqlError::new(
                        SqlState::PROGRAM_LIMIT_EXCEEDED,
                        format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})"),
                    )
                    .into());
                }
            }
            count += 1;
            self.blanks();
            let next = self.rest.chars().next();
            self.rest = &self.rest[next.map_or(0, char::len_utf8)..];
            match next {
                Some(next) if next == self.element.delimiter() => {}
                Some('}') => return self.close(level, count),
                Some(other) => {
                    return Err(LevelError::Malformed(match other {
                        '"' | '{' | '\\' => format!("Unexpected \"{other}\" character."),
                        _ => "Unexpected array element.".into(),
                    }));
                }
                None => return Err(LevelError::Malformed("Unexpected end of input.".into())),
            }
        }
    }

    fn close(&mut self, level: usize, count: usize) -> Result<(), LevelError> {
        match self.lengths[level] {
            Some(length) if length != count => Err(LevelError::Malformed(
                "Multidimensional arrays must have sub-arrays with matching dimensions.".into(),
            )),
            _ => {
                self.lengths[level] = Some(count);
                Ok(())
            }
        }
    }

    fn item(&mut self) -> Result<Datum, LevelError> {
        let mut text = String::new();
        let mut kept = 0;
        let mut is_quoted = false;
        let mut in_quotes = false;
        let mut is_closed = false;
        let mut characters = self.rest.char_indices();
        let end = loop {
            let Some((at, character)) = characters.next() else {
                return Err(LevelError::Malformed("Unexpected end of input.".into()));
            };
            match character {
                '\\' if is_closed => {
                    return Err(LevelError::Malformed("Unexpected \"\\\" character.".into()));
                }
                '\\' => {
                    let Some((_, escaped)) = characters.next() else {
                        return Err(LevelError::Malformed("Unexpected end of input.".into()));
                    };
                    text.push(escaped);
                    kept = text.len();
                    is_quoted |= !in_quotes;
                }
                '"' if in_quotes => {
                    in_quotes = false;
                    is_closed = true;
                    kept = text.len();
                }
                '"' if text.is_empty() && !is_quoted => {
                    in_quotes = true;
                    is_quoted = true;
                }
                '"' => {
                    return Err(LevelError::Malformed("Unexpected array element.".into()));
                }
                '{' if !in_quotes => {
                    return Err(LevelError::Malformed("Unexpected \"{\" character.".into()));
                }
                '}' if !in_quotes => break at,
                end if end == self.element.delimiter() && !in_quotes => break at,
                other => {
                    if is_closed && !is_space(other) {
                        return Err(LevelError::Malformed("Unexpected array element.".into()));
                    }
                    text.push(other);
                    if in_quotes || !is_space(other) {
                        kept = text.len();
                    }
                }
            }
        };
        let stop = self.rest[end..].chars().next().unwrap_or('}');
        self.rest = &self.rest[end..];
        text.truncate(kept);
        if !is_quoted && text.is_empty() {
            return Err(LevelError::Malformed(format!(
                "Unexpected \"{stop}\" character."
            )));
        }
        if !is_quoted && text.eq_ignore_ascii_case("null") {
            return Ok(Datum::Null);
        }
        Ok(text_io::parse(self.element, &text, self.context)?)
    }
}
