//! Functions of `json` and `jsonb`.
//!
//! Parts of `json` are pieces of its text as it was written; parts of `jsonb` are trees.

use super::super::array::Array;
use super::super::context::CallContext;
use super::super::datum::{Datum, Record, RecordShape};
use super::super::json::{Content, Escapes, Json, Node, edit, place};
use super::super::kind::Kind::{self, Int4, Json as JsonKind, Jsonb, Record as RecordKind, Text};
use super::{Function, Rows};
use crate::error::{Result, SqlError, SqlState};
use std::sync::{Arc, LazyLock};

const TEXTS: Kind = Kind::Array(&Text);
const JSON_PAIR: &[(&str, Kind)] = &[("key", Text), ("value", JsonKind)];
const JSONB_PAIR: &[(&str, Kind)] = &[("key", Text), ("value", Jsonb)];
const TEXT_PAIR: &[(&str, Kind)] = &[("key", Text), ("value", Text)];

pub(super) fn bad(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// A part of a tree, or one that is nested no more deeply, as a value.
pub fn jsonb(json: Json) -> Datum {
    Datum::Jsonb(Arc::new(json))
}

/// A tree made of others as a value.
///
/// # Errors
///
/// 54001 if it is nested too deeply, and 54000 if it is too long.
pub fn made_jsonb(json: Json) -> Result<Datum> {
    json.checked().map(jsonb)
}

fn jsonb_or_null(json: Option<&Json>) -> Datum {
    json.map_or(Datum::Null, |json| jsonb(json.clone()))
}

/// A part as text: strings without quotes, null as NULL.
fn as_text(json: Option<&Json>) -> Datum {
    match json {
        None | Some(Json::Null) => Datum::Null,
        Some(Json::String(content)) => Datum::text(content.as_str()),
        Some(other) => Datum::text(other.to_string()),
    }
}

fn piece(text: &str, node: Option<&Node>) -> Datum {
    node.map_or(Datum::Null, |node| {
        Datum::Json(text[node.range.clone()].into())
    })
}

fn piece_as_text(text: &str, node: Option<&Node>) -> Datum {
    match node.map(|node| (&node.content, node)) {
        None | Some((Content::Null, _)) => Datum::Null,
        Some((Content::String(content), _)) => Datum::text(content.as_str()),
        Some((_, node)) => Datum::text(&text[node.range.clone()]),
    }
}

/// The node of a key; of several the last one counts.
fn node_of_key<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    match &node.content {
        Content::Object(pairs) => pairs
            .iter()
            .rev()
            .find(|(other, _)| other == key)
            .map(|(_, node)| node),
        _ => None,
    }
}

fn node_at(node: &Node, index: i64) -> Option<&Node> {
    match &node.content {
        Content::Array(nodes) => nodes.get(place(index, nodes.len())?),
        _ => None,
    }
}

fn node_at_path<'n>(node: &'n Node, path: &[&str]) -> Option<&'n Node> {
    path.iter()
        .try_fold(node, |node, step| match &node.content {
            Content::Array(_) => node_at(node, edit::index_of(step)?),
            _ => node_of_key(node, step),
        })
}

/// The tree of a value of `json`, whose strings and keys become texts.
pub(super) fn parsed(datum: &Datum) -> Result<Node> {
    Node::parse(datum.str()?, Escapes::Refused)
}

/// The tree of a value of `json`, of which only the form and pieces as they are written count.
fn form_of(datum: &Datum) -> Result<Node> {
    Node::parse(datum.str()?, Escapes::Kept)
}

/// The texts of an array; NULL among them makes the result NULL.
fn texts(array: &Array) -> Result<Option<Vec<&str>>> {
    let elements = array.elements.iter();
    elements
        .map(|one| {
            if one.is_null() {
                Ok(None)
            } else {
                one.str().map(Some)
            }
        })
        .collect()
}

/// The operators `->` and `->>` of `json`.
pub fn json_part(a: &[Datum], wants_text: bool) -> Result<Datum> {
    let text = a[0].str()?;
    let node = parsed(&a[0])?;
    let found = match &a[1] {
        Datum::Int4(index) => node_at(&node, i64::from(*index)),
        key => node_of_key(&node, key.str()?),
    };
    Ok(if wants_text {
        piece_as_text(text, found)
    } else {
        piece(text, found)
    })
}

/// The operators `->` and `->>` of `jsonb`.
pub fn jsonb_part(a: &[Datum], wants_text: bool) -> Result<Datum> {
    let json = a[0].jsonb()?;
    let found = match &a[1] {
        Datum::Int4(index) => json.at(i64::from(*index)),
        key => json.get(key.str()?),
    };
    Ok(if wants_text {
        as_text(found)
    } else {
        jsonb_or_null(found)
    })
}

/// The operators `#>` and `#>>` of `json`.
pub fn json_path(a: &[Datum], wants_text: bool) -> Result<Datum> {
    let text = a[0].str()?;
    let Some(path) = texts(a[1].array()?)? else {
        return Ok(Datum::Null);
    };
    let node = parsed(&a[0])?;
    let found = node_at_path(&node, &path);
    Ok(if wants_text {
        piece_as_text(text, found)
    } else {
        piece(text, found)
    })
}

/// The operators `#>` and `#>>` of `jsonb`.
pub fn jsonb_path(a: &[Datum], wants_text: bool) -> Result<Datum> {
    let Some(path) = texts(a[1].array()?)? else {
        return Ok(Datum::Null);
    };
    let found = a[0].jsonb()?.at_path(&path);
    Ok(if wants_text {
        as_text(found)
    } else {
        jsonb_or_null(found)
    })
}

/// The operators `?|` and `?&`.
pub fn has_keys(a: &[Datum], needs_all: bool) -> Result<Datum> {
    let json = a[0].jsonb()?;
    let mut found = a[1]
        .array()?
        .elements
        .iter()
        .filter_map(|key| key.str().ok());
    Ok(Datum::Bool(if needs_all {
        found.all(|key| json.has_key(key))
    } else {
        found.any(|key| json.has_key(key))
    }))
}

/// The operator `-` with texts.
pub fn without_keys(a: &[Datum]) -> Result<Datum> {
    let array = one_dimension(&a[1])?;
    let keys: Vec<&str> = array
        .elements
        .iter()
        .filter_map(|key| key.str().ok())
        .collect();
    a[0].jsonb()?.without_keys(&keys).map(jsonb)
}

fn one_dimension(datum: &Datum) -> Result<&Array> {
    match datum.array()? {
        array if array.dimensions.len() <= 1 => Ok(array),
        _ => Err(SqlError::new(
            SqlState::ARRAY_SUBSCRIPT_ERROR,
            "wrong number of array subscripts",
        )),
    }
}

/// The steps of a path that must not have NULLs.
pub(super) fn path(datum: &Datum) -> Result<Vec<&str>> {
    let array = one_dimension(datum)?;
    let elements = array.elements.iter().enumerate();
    let steps = elements.map(|(place, step)| match step {
        Datum::Null => Err(SqlError::new(
            SqlState::NULL_VALUE_NOT_ALLOWED,
            format!("path element at position {} is null", place + 1),
        )),
        step => step.str(),
    });
    steps.collect()
}

/// The operator `#-`.
pub fn without_path(a: &[Datum]) -> Result<Datum> {
    let json = container(a, "cannot delete path in scalar")?;
    if json.is_empty() {
        return Ok(a[0].clone());
    }
    json.without_path(&path(&a[1])?).map(jsonb)
}

/// The value to be changed, unless it has no parts.
pub(super) fn container(a: &[Datum], message: &str) -> Result<Arc<Json>> {
    one_dimension(&a[1])?;
    let json = a[0].jsonb()?;
    match **json {
        Json::Array(_) | Json::Object(_) => Ok(Arc::clone(json)),
        _ => Err(bad(message)),
    }
}

fn row(shape: &Arc<RecordShape>, key: &str, value: Datum) -> Datum {
    Datum::Record(Arc::new(Record {
        shape: Arc::clone(shape),
        fields: vec![Datum::text(key), value],
    }))
}

pub(super) fn shape_of(columns: &[(&str, Kind)]) -> Arc<RecordShape> {
    Arc::new(RecordShape {
        names: columns.iter().map(|(name, _)| (*name).into()).collect(),
        types: columns.iter().map(|(_, kind)| kind.plain()).collect(),
    })
}

static JSON_SHAPE: LazyLock<Arc<RecordShape>> = LazyLock::new(|| shape_of(JSON_PAIR));
static JSONB_SHAPE: LazyLock<Arc<RecordShape>> = LazyLock::new(|| shape_of(JSONB_PAIR));
static TEXT_SHAPE: LazyLock<Arc<RecordShape>> = LazyLock::new(|| shape_of(TEXT_PAIR));

fn rows(rows: Vec<Datum>) -> Rows {
    Box::new(rows.into_iter().map(Ok))
}

fn json_each(a: &[Datum], wants_text: bool) -> Result<Rows> {
    let text = a[0].str()?;
    let node = parsed(&a[0])?;
    let Content::Object(pairs) = &node.content else {
        return Err(bad(match node.content {
            Content::Array(_) => "cannot deconstruct an array as an object",
            _ => "cannot deconstruct a scalar",
        }));
    };
    let each = pairs.iter().map(|(key, node)| {
        if wants_text {
            row(&TEXT_SHAPE, key, piece_as_text(text, Some(node)))
        } else {
            row(&JSON_SHAPE, key, piece(text, Some(node)))
        }
    });
    Ok(rows(each.collect()))
}

fn jsonb_each(a: &[Datum], name: &str, wants_text: bool) -> Result<Rows> {
    let Json::Object(pairs) = &**a[0].jsonb()? else {
        return Err(bad(format!("cannot call {name} on a non-object")));
    };
    let each = pairs.iter().map(|(key, value)| {
        if wants_text {
            row(&TEXT_SHAPE, key, as_text(Some(value)))
        } else {
            row(&JSONB_SHAPE, key, jsonb(value.clone()))
        }
    });
    Ok(rows(each.collect()))
}

fn json_elements(a: &[Datum], name: &str, wants_text: bool) -> Result<Rows> {
    let text = a[0].str()?;
    let node = if wants_text {
        parsed(&a[0])?
    } else {
        form_of(&a[0])?
    };
    let Content::Array(nodes) = &node.content else {
        return Err(bad(match node.content {
            Content::Object(_) => format!("cannot call {name} on a non-array"),
            _ => format!("cannot call {name} on a scalar"),
        }));
    };
    let each = nodes.iter().map(|node| {
        if wants_text {
            piece_as_text(text, Some(node))
        } else {
            piece(text, Some(node))
        }
    });
    Ok(rows(each.collect()))
}

fn jsonb_elements(a: &[Datum], wants_text: bool) -> Result<Rows> {
    let Json::Array(elements) = &**a[0].jsonb()? else {
        return Err(bad(match &**a[0].jsonb()? {
            Json::Object(_) => "cannot extract elements from an object",
            _ => "cannot extract elements from a scalar",
        }));
    };
    let each = elements.iter().map(|element| {
        if wants_text {
            as_text(Some(element))
        } else {
            jsonb(element.clone())
        }
    });
    Ok(rows(each.collect()))
}

fn json_keys(a: &[Datum]) -> Result<Rows> {
    match parsed(&a[0])?.content {
        Content::Object(pairs) => Ok(rows(
            pairs.into_iter().map(|(key, _)| Datum::text(key)).collect(),
        )),
        Content::Array(_) => Err(bad("cannot call json_object_keys on an array")),
        _ => Err(bad("cannot call json_object_keys on a scalar")),
    }
}

fn jsonb_keys(a: &[Datum]) -> Result<Rows> {
    match &**a[0].jsonb()? {
        Json::Object(pairs) => Ok(rows(
            pairs
                .iter()
                .map(|(key, _)| Datum::text(key.as_str()))
                .collect(),
        )),
        Json::Array(_) => Err(bad("cannot call jsonb_object_keys on an array")),
        _ => Err(bad("cannot call jsonb_object_keys on a scalar")),
    }
}

fn json_length(a: &[Datum]) -> Result<Datum> {
    match form_of(&a[0])?.content {
        Content::Array(nodes) => Ok(Datum::Int4(nodes.len() as i32)),
        Content::Object(_) => Err(bad("cannot get array length of a non-array")),
        _ => Err(bad("cannot get array length of a scalar")),
    }
}

fn jsonb_length(a: &[Datum]) -> Result<Datum> {
    match &**a[0].jsonb()? {
        Json::Array(elements) => Ok(Datum::Int4(elements.len() as i32)),
        Json::Object(_) => Err(bad("cannot get array length of a non-array")),
        _ => Err(bad("cannot get array length of a scalar")),
    }
}

fn json_type(a: &[Datum]) -> Result<Datum> {
    Ok(Datum::text(match form_of(&a[0])?.content {
        Content::Null => "null",
        Content::Bool(_) => "boolean",
        Content::Number => "number",
        Content::String(_) => "string",
        Content::Array(_) => "array",
        Content::Object(_) => "object",
    }))
}

fn jsonb_type(a: &[Datum]) -> Result<Datum> {
    Ok(Datum::text(match &**a[0].jsonb()? {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }))
}

/// The kind of an argument.
pub fn kind_of(context: &CallContext<'_>, a: &[Datum], place: usize) -> Kind {
    context
        .argument_types
        .get(place)
        .map_or(a[place].kind(), |one| one.kind)
}

fn pretty(a: &[Datum]) -> Result<Datum> {
    let mut out = String::new();
    a[0].jsonb()?.print_pretty(&mut out, 0)?;
    Ok(Datum::text(out))
}

/// The table.
pub(super) const FUNCTIONS: &[Function] = &[
    Function::scalar("json_extract_path", &[JsonKind, TEXTS], JsonKind, |_, a| {
        json_path(a, false)
    })
    .variadic(),
    Function::scalar(
        "json_extract_path_text",
        &[JsonKind, TEXTS],
        Text,
        |_, a| json_path(a, true),
    )
    .variadic(),
    Function::scalar("jsonb_extract_path", &[Jsonb, TEXTS], Jsonb, |_, a| {
        jsonb_path(a, false)
    })
    .variadic(),
    Function::scalar("jsonb_extract_path_text", &[Jsonb, TEXTS], Text, |_, a| {
        jsonb_path(a, true)
    })
    .variadic(),
    Function::scalar("json_object_field", &[JsonKind, Text], JsonKind, |_, a| {
        json_part(a, false)
    }),
    Function::scalar("json_array_element", &[JsonKind, Int4], JsonKind, |_, a| {
        json_part(a, false)
    }),
    Function::scalar("jsonb_object_field", &[Jsonb, Text], Jsonb, |_, a| {
        jsonb_part(a, false)
    }),
    Function::scalar("jsonb_array_element", &[Jsonb, Int4], Jsonb, |_, a| {
        jsonb_part(a, false)
    }),
    Function::scalar("json_array_length", &[JsonKind], Int4, |_, a| {
        json_length(a)
    }),
    Function::scalar("jsonb_array_length", &[Jsonb], Int4, |_, a| jsonb_length(a)),
    Function::scalar("json_typeof", &[JsonKind], Text, |_, a| json_type(a)),
    Function::scalar("jsonb_typeof", &[Jsonb], Text, |_, a| jsonb_type(a)),
    Function::set("json_each", &[JsonKind], RecordKind, |_, a| {
        json_each(a, false)
    })
    .columns(JSON_PAIR),
    Function::set("json_each_text", &[JsonKind], RecordKind, |_, a| {
        json_each(a, true)
    })
    .columns(TEXT_PAIR),
    Function::set("jsonb_each", &[Jsonb], RecordKind, |_, a| {
        jsonb_each(a, "jsonb_each", false)
    })
    .columns(JSONB_PAIR),
    Function::set("jsonb_each_text", &[Jsonb], RecordKind, |_, a| {
        jsonb_each(a, "jsonb_each_text", true)
    })
    .columns(TEXT_PAIR),
    Function::set("json_array_elements", &[JsonKind], JsonKind, |_, a| {
        json_elements(a, "json_array_elements", false)
    })
    .columns(&[("value", JsonKind)]),
    Function::set("json_array_elements_text", &[JsonKind], Text, |_, a| {
        json_elements(a, "json_array_elements_text", true)
    })
    .columns(&[("value", Text)]),
    Function::set("jsonb_array_elements", &[Jsonb], Jsonb, |_, a| {
        jsonb_elements(a, false)
    })
    .columns(&[("value", Jsonb)]),
    Function::set("jsonb_array_elements_text", &[Jsonb], Text, |_, a| {
        jsonb_elements(a, true)
    })
    .columns(&[("value", Text)]),
    Function::set("json_object_keys", &[JsonKind], Text, |_, a| json_keys(a)),
    Function::set("jsonb_object_keys", &[Jsonb], Text, |_, a| jsonb_keys(a)),
    Function::scalar("jsonb_pretty", &[Jsonb], Text, |_, a| pretty(a)),
];
