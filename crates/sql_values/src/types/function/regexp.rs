//! Functions of regular expressions, and of SIMILAR TO.
//!
//! Patterns are translated to those of the crate `regex`, whose time is linear in the text. Back
//! references and lookaround do not exist there and are refused.

use super::super::array::Array;
use super::super::datum::Datum;
use super::super::kind::Kind::{self, Bool, Int4, Text};
use super::super::size;
use super::like::{Case, like, like_escape};
use super::pattern::{Options, compile, similar};
use super::{Function, Rows};
use crate::error::{Result, SqlError, SqlState};
use regex::{Captures, Regex};
use std::sync::Arc;

const TEXTS: Kind = Kind::Array(&Text);

/// The flags at a place of the arguments.
fn options(a: &[Datum], place: usize, name: &str) -> Result<Options> {
    let options = match a.get(place) {
        Some(flags) => Options::parse(flags.str()?)?,
        None => Options::new(Case::Sensitive),
    };
    // Functions that find one match, or all of them, have no choice.
    if options.is_global && !matches!(name, "regexp_matches" | "regexp_replace") {
        let error = SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("{name}() does not support the \"global\" option"),
        );
        return Err(match name {
            "regexp_match" => error.hint("Use the regexp_matches function instead."),
            _ => error,
        });
    }
    Ok(options)
}

/// The groups of a match, or all of it where there are none.
fn groups(captures: &Captures<'_>) -> Datum {
    let skip = usize::from(captures.len() > 1);
    let texts = captures.iter().skip(skip);
    let texts = texts.map(|found| found.map_or(Datum::Null, |found| Datum::text(found.as_str())));
    Datum::Array(Arc::new(Array::new(Text, texts.collect())))
}

/// All matches as PostgreSQL finds them: after an empty one the search goes on at the next
/// character, after others at their end, so that an empty match may follow there. The search
/// begins at a byte, but anchors and ends of words see the text before it.
fn matches<'t>(regex: &Regex, text: &'t str, from: usize) -> impl Iterator<Item = Captures<'t>> {
    let mut start = Some(from);
    std::iter::from_fn(move || {
        let found = regex.captures_at(text, start?)?;
        let whole = found.get(0).expect("a match has a whole");
        let end = whole.end();
        let next = text[end..].chars().next().filter(|_| whole.is_empty());
        start = match next {
            Some(next) => Some(end + next.len_utf8()),
            None => (!whole.is_empty()).then_some(end),
        };
        Some(found)
    })
}

fn first_match(a: &[Datum]) -> Result<Datum> {
    let regex = compile(a[1].str()?, options(a, 2, "regexp_match")?)?;
    Ok(regex
        .captures(a[0].str()?)
        .map_or(Datum::Null, |found| groups(&found)))
}

fn all_matches(a: &[Datum]) -> Result<Rows> {
    let options = options(a, 2, "regexp_matches")?;
    let regex = compile(a[1].str()?, options)?;
    let count = if options.is_global { usize::MAX } else { 1 };
    let found = matches(&regex, a[0].str()?, 0).take(count);
    let rows: Vec<Datum> = found.map(|captures| groups(&captures)).collect();
    Ok(Box::new(rows.into_iter().map(Ok)))
}

/// The parts between matches; an empty match divides between characters only.
fn split(a: &[Datum], name: &str) -> Result<Vec<Datum>> {
    let text = a[0].str()?;
    let regex = compile(a[1].str()?, options(a, 2, name)?)?;
    let mut parts = Vec::new();
    let (mut start, mut searched) = (0, 0);
    for captures in matches(&regex, text, 0) {
        let found = captures.get(0).expect("a match has a whole");
        if found.start() < text.len() && found.end() > searched {
            parts.push(Datum::text(&text[start..found.start()]));
            start = found.end();
        }
        searched = found.end();
    }
    parts.push(Datum::text(&text[start..]));
    Ok(parts)
}

/// Appends a replacement, in which `\1` to `\9` are groups and `\&` is the match.
fn expand(out: &mut String, replacement: &str, captures: &Captures<'_>) -> Result<()> {
    let mut characters = replacement.chars();
    let group = |place: usize| captures.get(place).map_or("", |found| found.as_str());
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match characters.next() {
            Some('&') => size::push(out, group(0))?,
            Some(digit @ '1'..='9') => size::push(out, group(digit as usize - '0' as usize))?,
            Some('\\') => out.push('\\'),
            Some(other) => {
                out.push('\\');
                out.push(other);
            }
            None => out.push('\\'),
        }
    }
    size::check(out.len())
}

/// Replaces the match of a number, or all of them from the first one for 0.
fn replace(
    regex: &Regex,
    text: &str,
    start: usize,
    replacement: &str,
    number: usize,
) -> Result<Datum> {
    let mut out = String::new();
    let mut copied = 0;
    for (place, captures) in matches(regex, text, start).enumerate() {
        let found = captures.get(0).expect("a match has a whole");
        if number != 0 && place + 1 != number {
            continue;
        }
        size::push(&mut out, &text[copied..found.start()])?;
        expand(&mut out, replacement, &captures)?;
        copied = found.end();
        if number != 0 {
            break;
        }
    }
    size::push(&mut out, &text[copied..])?;
    Ok(Datum::text(out))
}

fn replace_with_flags(a: &[Datum]) -> Result<Datum> {
    let options = options(a, 3, "regexp_replace")?;
    let regex = compile(a[1].str()?, options)?;
    let number = usize::from(!options.is_global);
    replace(&regex, a[0].str()?, 0, a[2].str()?, number)
}

fn bad_parameter(name: &str, value: i64) -> SqlError {
    SqlError::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("invalid value for parameter \"{name}\": {value}"),
    )
}

/// An argument that must be at least `least`, or its default.
fn parameter(a: &[Datum], place: usize, name: &str, least: i64, default: i64) -> Result<i64> {
    match a.get(place) {
        Some(datum) => match datum.int()? {
            value if value < least => Err(bad_parameter(name, value)),
            value => Ok(value),
        },
        None => Ok(default),
    }
}

/// The byte of a character, from 1.
fn byte_of(text: &str, start: i64) -> usize {
    let nth = usize::try_from(start - 1).unwrap_or(0);
    text.char_indices()
        .nth(nth)
        .map_or(text.len(), |(at, _)| at)
}

fn replace_from(a: &[Datum]) -> Result<Datum> {
    let start = parameter(a, 3, "start", 1, 1)?;
    let number = parameter(a, 4, "n", 0, 1)?;
    let regex = compile(a[1].str()?, options(a, 5, "regexp_replace")?)?;
    let text = a[0].str()?;
    if start > text.chars().count() as i64 + 1 {
        return Ok(a[0].clone());
    }
    replace(
        &regex,
        text,
        byte_of(text, start),
        a[2].str()?,
        number as usize,
    )
}

fn count(a: &[Datum]) -> Result<Datum> {
    let start = parameter(a, 2, "start", 1, 1)?;
    let regex = compile(a[1].str()?, options(a, 3, "regexp_count")?)?;
    let text = a[0].str()?;
    if start > text.chars().count() as i64 + 1 {
        return Ok(Datum::Int4(0));
    }
    let found = matches(&regex, text, byte_of(text, start)).count();
    Ok(Datum::Int4(found as i32))
}

fn is_like(a: &[Datum]) -> Result<Datum> {
    let regex = compile(a[1].str()?, options(a, 2, "regexp_like")?)?;
    Ok(Datum::Bool(regex.is_match(a[0].str()?)))
}

/// The group of a match of a number, with the bytes that it begins and ends at.
fn nth_group(a: &[Datum], name: &str, places: [usize; 3]) -> Result<Option<(usize, usize)>> {
    let [flags, number, group] = places;
    let start = parameter(a, 2, "start", 1, 1)?;
    let number = parameter(a, number, "n", 1, 1)?;
    let group = parameter(a, group, "subexpr", 0, 0)?;
    let regex = compile(a[1].str()?, options(a, flags, name)?)?;
    let text = a[0].str()?;
    if start > text.chars().count() as i64 + 1 {
        return Ok(None);
    }
    let captures = matches(&regex, text, byte_of(text, start)).nth(number as usize - 1);
    let found = captures.and_then(|captures| captures.get(group as usize).map(|one| one.range()));
    Ok(found.map(|range| (range.start, range.end)))
}

fn position(a: &[Datum]) -> Result<Datum> {
    parameter(a, 2, "start", 1, 1)?;
    parameter(a, 3, "n", 1, 1)?;
    let at_end = parameter(a, 4, "endoption", 0, 0)?;
    if at_end > 1 {
        return Err(bad_parameter("endoption", at_end));
    }
    let text = a[0].str()?;
    let found = nth_group(a, "regexp_instr", [5, 3, 6])?;
    let place = found.map_or(0, |(start, end)| {
        let at = if at_end == 1 { end } else { start };
        text[..at].chars().count() + 1
    });
    Ok(Datum::Int4(place as i32))
}

fn part(a: &[Datum]) -> Result<Datum> {
    let found = nth_group(a, "regexp_substr", [4, 3, 5])?;
    let text = a[0].str()?;
    Ok(found.map_or(Datum::Null, |(start, end)| Datum::text(&text[start..end])))
}

/// The first group of a match, or all of it where there is none.
fn matched(text: &str, pattern: &str) -> Result<Datum> {
    let regex = compile(pattern, Options::new(Case::Sensitive))?;
    let Some(captures) = regex.captures(text) else {
        return Ok(Datum::Null);
    };
    let place = usize::from(captures.len() > 1);
    Ok(captures
        .get(place)
        .map_or(Datum::Null, |found| Datum::text(found.as_str())))
}

fn escaped(a: &[Datum]) -> Result<Datum> {
    if a[0].is_null() {
        return Ok(Datum::Null);
    }
    let escape = match a.get(1) {
        Some(Datum::Null) => return Ok(Datum::Null),
        Some(escape) => escape.str()?,
        None => "\\",
    };
    similar(a[0].str()?, escape).map(Datum::text)
}

/// The table.
pub(super) const FUNCTIONS: &[Function] = &[
    Function::scalar("regexp_match", &[Text, Text, Text], TEXTS, |_, a| {
        first_match(a)
    })
    .defaults(1),
    Function::set("regexp_matches", &[Text, Text, Text], TEXTS, |_, a| {
        all_matches(a)
    })
    .defaults(1),
    Function::scalar("regexp_replace", &[Text, Text, Text], Text, |_, a| {
        replace_with_flags(a)
    }),
    Function::scalar("regexp_replace", &[Text, Text, Text, Text], Text, |_, a| {
        replace_with_flags(a)
    }),
    Function::scalar(
        "regexp_replace",
        &[Text, Text, Text, Int4, Int4, Text],
        Text,
        |_, a| replace_from(a),
    )
    .defaults(2),
    Function::scalar(
        "regexp_split_to_array",
        &[Text, Text, Text],
        TEXTS,
        |_, a| {
            let parts = split(a, "regexp_split_to_array")?;
            Ok(Datum::Array(Arc::new(Array::new(Text, parts))))
        },
    )
    .defaults(1),
    Function::set(
        "regexp_split_to_table",
        &[Text, Text, Text],
        Text,
        |_, a| {
            Ok(Box::new(
                split(a, "regexp_split_to_table")?.into_iter().map(Ok),
            ))
        },
    )
    .defaults(1),
    Function::scalar("regexp_count", &[Text, Text, Int4, Text], Int4, |_, a| {
        count(a)
    })
    .defaults(2),
    Function::scalar("regexp_like", &[Text, Text, Text], Bool, |_, a| is_like(a)).defaults(1),
    Function::scalar(
        "regexp_instr",
        &[Text, Text, Int4, Int4, Int4, Text, Int4],
        Int4,
        |_, a| position(a),
    )
    .defaults(5),
    Function::scalar(
        "regexp_substr",
        &[Text, Text, Int4, Int4, Text, Int4],
        Text,
        |_, a| part(a),
    )
    .defaults(4),
    Function::scalar("substring", &[Text, Text], Text, |_, a| {
        matched(a[0].str()?, a[1].str()?)
    }),
    Function::scalar("substring", &[Text, Text, Text], Text, |_, a| {
        matched(a[0].str()?, &similar(a[1].str()?, a[2].str()?)?)
    }),
    Function::scalar("similar_escape", &[Text, Text], Text, |_, a| match &a[1] {
        Datum::Null => escaped(&a[..1]),
        _ => escaped(a),
    })
    .nullable(),
    Function::scalar("similar_to_escape", &[Text], Text, |_, a| escaped(a)),
    Function::scalar("similar_to_escape", &[Text, Text], Text, |_, a| escaped(a)),
    Function::scalar("like_escape", &[Text, Text], Text, |_, a| {
        like_escape(a[0].str()?, a[1].str()?).map(Datum::text)
    }),
    Function::scalar("like", &[Text, Text], Bool, |_, a| {
        like(a[0].str()?, a[1].str()?, Case::Sensitive).map(Datum::Bool)
    }),
    Function::scalar("notlike", &[Text, Text], Bool, |_, a| {
        let found = like(a[0].str()?, a[1].str()?, Case::Sensitive)?;
        Ok(Datum::Bool(!found))
    }),
];
