//! Functions that make JSON of other values, and functions that change it.
//!
//! Values become JSON by their type: numbers and truth values as such, JSON as it is, all others as
//! texts. Results that change a jsonb are new trees.

use super::super::context::CallContext;
use super::super::datum::Datum;
use super::super::json::{Content, Json, Node, convert, quote};
use super::super::kind::Kind::{
    self, Any, AnyArray, AnyElement, Bool, Json as JsonKind, Jsonb, Record as RecordKind, Text,
};
use super::super::size;
use super::Function;
use super::json::{bad, container, jsonb, kind_of, made_jsonb, parsed, path, without_path};
use crate::error::{Result, SqlError, SqlState};

const TEXTS: Kind = Kind::Array(&Text);

fn set(a: &[Datum]) -> Result<Datum> {
    let json = container(a, "cannot set path in scalar")?;
    let creates = a.get(3).map_or(Ok(true), Datum::bool)?;
    if json.is_empty() && !creates {
        return Ok(a[0].clone());
    }
    made_jsonb(json.with_path(&path(&a[1])?, a[2].jsonb()?, creates)?)
}

/// `jsonb_set_lax`: NULL as the new value is treated as the last argument says.
fn set_lax(a: &[Datum]) -> Result<Datum> {
    if a[0].is_null() || a[1].is_null() || a.get(3).is_some_and(Datum::is_null) {
        return Ok(Datum::Null);
    }
    if !a[2].is_null() {
        return set(&a[..a.len().min(4)]);
    }
    let treatment = match a.get(4) {
        Some(Datum::Null) => {
            return Err(bad(
                "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \"raise_exception\"",
            ));
        }
        Some(treatment) => treatment.str()?,
        None => "use_json_null",
    };
    match treatment {
        "use_json_null" => {
            let mut arguments = a[..a.len().min(4)].to_vec();
            arguments[2] = jsonb(Json::Null);
            set(&arguments)
        }
        "delete_key" => without_path(&a[..2]),
        "return_target" => Ok(a[0].clone()),
        "raise_exception" => Err(SqlError::new(
            SqlState::NULL_VALUE_NOT_ALLOWED,
            "JSON value must not be null",
        )
        .detail("Exception was raised because null_value_treatment is \"raise_exception\".")
        .hint("To avoid, either change the null_value_treatment argument or ensure that an SQL NULL is not passed.")),
        _ => Err(bad("null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \"raise_exception\"")),
    }
}

fn insert(a: &[Datum]) -> Result<Datum> {
    let after = a.get(3).map_or(Ok(false), Datum::bool)?;
    let json = container(a, "cannot set path in scalar")?;
    made_jsonb(json.with_inserted(&path(&a[1])?, a[2].jsonb()?, after)?)
}

/// Appends a node without the pairs whose value is null.
fn strip(out: &mut String, text: &str, node: &Node) {
    match &node.content {
        Content::Object(pairs) => {
            out.push('{');
            let kept = pairs
                .iter()
                .filter(|(_, node)| !matches!(node.content, Content::Null));
            for (place, (key, node)) in kept.enumerate() {
                out.push_str(if place > 0 { "," } else { "" });
                quote(out, key);
                out.push(':');
                strip(out, text, node);
            }
            out.push('}');
        }
        Content::Array(nodes) => {
            out.push('[');
            for (place, node) in nodes.iter().enumerate() {
                out.push_str(if place > 0 { "," } else { "" });
                strip(out, text, node);
            }
            out.push(']');
        }
        Content::String(content) => quote(out, content),
        _ => out.push_str(&text[node.range.clone()]),
    }
}

fn json_strip(a: &[Datum]) -> Result<Datum> {
    let mut out = String::new();
    strip(&mut out, a[0].str()?, &parsed(&a[0])?);
    size::json(out)
}

fn to_json(context: &CallContext<'_>, a: &[Datum]) -> Result<Datum> {
    let mut out = String::new();
    convert::print(&mut out, &a[0], kind_of(context, a, 0), &context.context)?;
    size::json(out)
}

fn array_to_json(context: &CallContext<'_>, a: &[Datum]) -> Result<Datum> {
    let has_lines = a.get(1).map_or(Ok(false), Datum::bool)?;
    let mut out = String::new();
    convert::print_array(&mut out, a[0].array()?, has_lines, &context.context)?;
    Ok(Datum::Json(out.into()))
}

fn row_to_json(context: &CallContext<'_>, a: &[Datum]) -> Result<Datum> {
    let has_lines = a.get(1).map_or(Ok(false), Datum::bool)?;
    let mut out = String::new();
    convert::print_record(&mut out, a[0].record()?, has_lines, &context.context)?;
    Ok(Datum::Json(out.into()))
}

/// The arguments of a variadic call of `any`: one array that is marked VARIADIC is spread.
pub(crate) fn spread(context: &CallContext<'_>, a: &[Datum]) -> Vec<(Datum, Kind)> {
    a.iter()
        .enumerate()
        .map(|(place, one)| (one.clone(), kind_of(context, a, place)))
        .collect()
}

fn odd_arguments(name: &str) -> SqlError {
    bad("argument list must have even number of elements").hint(format!(
        "The arguments of {name}() must consist of alternating keys and values."
    ))
}

fn build_object(context: &CallContext<'_>, a: &[Datum]) -> Result<Datum> {
    let all = spread(context, a);
    if !all.len().is_multiple_of(2) {
        return Err(odd_arguments("json_build_object"));
    }
    let mut out = String::from("{");
    for (place, pair) in all.chunks_exact(2).enumerate() {
        let [(key, key_kind), (value, kind)] = pair else {
            continue;
        };
        if key.is_null() {
            return Err(bad(format!("argument {} cannot be null", place * 2 + 1))
                .hint("Object keys should be text."));
        }
        out.push_str(if place > 0 { ", " } else { "" });
        quote(&mut out, &convert::key(key, *key_kind, &context.context)?);
        out.push_str(" : ");
        convert::print(&mut out, value, *kind, &context.context)?;
        size::check(out.len())?;
    }
    out.push('}');
    Ok(Datum::Json(out.into()))
}

fn build_jsonb_object(context: &CallContext<'_>, a: &[Datum]) -> Result<Datum> {
    let all = spread(context, a);
    if !all.len().is_multiple_of(2) {
        return Err(odd_arguments("jsonb_build_object"));
    }
    let (mut pairs, mut bytes) = (Vec::new(), 0);
    for (place, pair) in all.chunks_exact(2).enumerate() {
        let [(key, key_kind), (value, kind)] = pair else {
            continue;
        };
        if key.is_null() {
            return Err(bad(format!(
                "argument {}: key must not be null",
                place * 2 + 1
            )));
        }
        let key = convert::key(key, *key_kind, &context.context)?;
        size::add(&mut bytes, key.len())?;
        let value = convert::tree(value, *kind, &context.context, &mut bytes)?;
        pairs.push((key, value));
    }
    made_jsonb(Json::object(pairs))
}

fn build_array(context: &CallContext<'_>, a: &[Datum]) -> Result<Datum> {
    let mut out = String::from("[");
    for (place, (value, kind)) in spread(context, a).iter().enumerate() {
        out.push_str(if place > 0 { ", " } else { "" });
        convert::print(&mut out, value, *kind, &context.context)?;
        size::check(out.len())?;
    }
    out.push(']');
    Ok(Datum::Json(out.into()))
}

fn build_jsonb_array(context: &CallContext<'_>, a: &[Datum]) -> Result<Datum> {
    let all = spread(context, a);
    let mut bytes = 0;
    let all = all
        .iter()
        .map(|(value, kind)| convert::tree(value, *kind, &context.context, &mut bytes));
    made_jsonb(Json::Array(all.collect::<Result<_>>()?))
}

/// Pairs of texts: two of a row of an array, or one of each of two arrays.
fn text_pairs(a: &[Datum]) -> Result<Vec<(&str, Option<&str>)>> {
    let wrong = |text: &str| SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, text);
    let array = a[0].array()?;
    let (keys, values): (Vec<&Datum>, Vec<&Datum>) = if let Some(values) = a.get(1) {
        let values = values.array()?;
        let depth = array.dimensions.len();
        if depth > 1 || depth != values.dimensions.len() {
            return Err(wrong("wrong number of array subscripts"));
        }
        if array.elements.len() != values.elements.len() {
            return Err(wrong("mismatched array dimensions"));
        }
        (
            array.elements.iter().collect(),
            values.elements.iter().collect(),
        )
    } else {
        match array.dimensions.as_slice() {
            [] => return Ok(Vec::new()),
            [one] if !one.length.is_multiple_of(2) => {
                return Err(wrong("array must have even number of elements"));
            }
            [_] => {}
            [_, two] if two.length != 2 => return Err(wrong("array must have two columns")),
            [_, _] => {}
            _ => return Err(wrong("wrong number of array subscripts")),
        }
        array
            .elements
            .chunks_exact(2)
            .map(|pair| (&pair[0], &pair[1]))
            .unzip()
    };
    let pairs = keys.into_iter().zip(values).map(|(key, value)| {
        if key.is_null() {
            return Err(SqlError::new(
                SqlState::NULL_VALUE_NOT_ALLOWED,
                "null value not allowed for object key",
            ));
        }
        let value = match value {
            Datum::Null => None,
            value => Some(value.str()?),
        };
        Ok((key.str()?, value))
    });
    pairs.collect()
}

fn json_object(a: &[Datum]) -> Result<Datum> {
    let mut out = String::from("{");
    for (place, (key, value)) in text_pairs(a)?.into_iter().enumerate() {
        out.push_str(if place > 0 { ", " } else { "" });
        quote(&mut out, key);
        out.push_str(" : ");
        match value {
            Some(value) => quote(&mut out, value),
            None => out.push_str("null"),
        }
        size::check(out.len())?;
    }
    out.push('}');
    Ok(Datum::Json(out.into()))
}

fn jsonb_object(a: &[Datum]) -> Result<Datum> {
    let pairs = text_pairs(a)?;
    let bytes = pairs
        .iter()
        .map(|(key, value)| key.len() + value.map_or(0, str::len));
    size::check(bytes.sum())?;
    let pairs = pairs.into_iter().map(|(key, value)| {
        let value = value.map_or(Json::Null, |value| Json::String(value.to_owned()));
        (key.to_owned(), value)
    });
    Ok(jsonb(Json::object(pairs.collect())))
}

/// The table.
pub(super) const FUNCTIONS: &[Function] = &[
    Function::scalar("to_json", &[AnyElement], JsonKind, |context, a| {
        to_json(context, a)
    })
    .stable(),
    Function::scalar("to_jsonb", &[AnyElement], Jsonb, |context, a| {
        made_jsonb(convert::tree(
            &a[0],
            kind_of(context, a, 0),
            &context.context,
            &mut 0,
        )?)
    })
    .stable(),
    Function::scalar(
        "array_to_json",
        &[AnyArray, Bool],
        JsonKind,
        |context, a| array_to_json(context, a),
    )
    .stable()
    .defaults(1),
    Function::scalar(
        "row_to_json",
        &[RecordKind, Bool],
        JsonKind,
        |context, a| row_to_json(context, a),
    )
    .stable()
    .defaults(1),
    Function::scalar("json_build_object", &[Any], JsonKind, |context, a| {
        build_object(context, a)
    })
    .variadic()
    .nullable()
    .stable(),
    Function::scalar("jsonb_build_object", &[Any], Jsonb, |context, a| {
        build_jsonb_object(context, a)
    })
    .variadic()
    .nullable()
    .stable(),
    Function::scalar("json_build_array", &[Any], JsonKind, |context, a| {
        build_array(context, a)
    })
    .variadic()
    .nullable()
    .stable(),
    Function::scalar("jsonb_build_array", &[Any], Jsonb, |context, a| {
        build_jsonb_array(context, a)
    })
    .variadic()
    .nullable()
    .stable(),
    Function::scalar("json_object", &[TEXTS], JsonKind, |_, a| json_object(a)),
    Function::scalar("json_object", &[TEXTS, TEXTS], JsonKind, |_, a| {
        json_object(a)
    }),
    Function::scalar("jsonb_object", &[TEXTS], Jsonb, |_, a| jsonb_object(a)),
    Function::scalar("jsonb_object", &[TEXTS, TEXTS], Jsonb, |_, a| {
        jsonb_object(a)
    }),
    Function::scalar("json_strip_nulls", &[JsonKind], JsonKind, |_, a| {
        json_strip(a)
    }),
    Function::scalar("jsonb_strip_nulls", &[Jsonb], Jsonb, |_, a| {
        Ok(jsonb(a[0].jsonb()?.without_nulls()))
    }),
    Function::scalar("jsonb_set", &[Jsonb, TEXTS, Jsonb, Bool], Jsonb, |_, a| {
        set(a)
    })
    .defaults(1),
    Function::scalar(
        "jsonb_set_lax",
        &[Jsonb, TEXTS, Jsonb, Bool, Text],
        Jsonb,
        |_, a| set_lax(a),
    )
    .nullable()
    .defaults(2),
    Function::scalar(
        "jsonb_insert",
        &[Jsonb, TEXTS, Jsonb, Bool],
        Jsonb,
        |_, a| insert(a),
    )
    .defaults(1),
];
