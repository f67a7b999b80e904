//! Rows of JSON: `json_to_record`, `json_populate_record` and their kin.
//!
//! A member of an object goes into the field of its name, as a text that the field's type reads.
//! Arrays and objects become arrays and rows where the field has such a type.

use super::super::array::{Array, Dimension, check_dimensions};
use super::super::context::CallContext;
use super::super::datum::{Datum, Record, RecordShape};
use super::super::json::{Content, Json, Node};
use super::super::kind::Kind::{self, AnyElement, Json as JsonKind, Jsonb, Record as RecordKind};
use super::super::text_io;
use super::super::{Context, Type};
use super::json::{bad, jsonb, parsed};
use super::{Function, Rows};
use crate::error::{Result, SqlError, SqlState};
use std::sync::Arc;

/// A part of a value of `json`, with the text that it is in, or of `jsonb`.
#[derive(Clone, Copy)]
enum Part<'j> {
    Piece(&'j str, &'j Node),
    Tree(&'j Json),
}

impl Part<'_> {
    fn is_null(self) -> bool {
        match self {
            Self::Piece(_, node) => matches!(node.content, Content::Null),
            Self::Tree(json) => *json == Json::Null,
        }
    }

    /// The content of a string, or else the text of the part.
    fn text(self) -> String {
        match self {
            Self::Piece(text, node) => match &node.content {
                Content::String(content) => content.clone(),
                _ => text[node.range.clone()].to_owned(),
            },
            Self::Tree(Json::String(content)) => content.clone(),
            Self::Tree(json) => json.to_string(),
        }
    }

    fn is_string(self) -> bool {
        match self {
            Self::Piece(_, node) => matches!(node.content, Content::String(_)),
            Self::Tree(json) => matches!(json, Json::String(_)),
        }
    }

    fn elements(self) -> Option<Vec<Self>> {
        match self {
            Self::Piece(text, node) => match &node.content {
                Content::Array(nodes) => {
                    Some(nodes.iter().map(|node| Self::Piece(text, node)).collect())
                }
                _ => None,
            },
            Self::Tree(Json::Array(elements)) => Some(elements.iter().map(Self::Tree).collect()),
            Self::Tree(_) => None,
        }
    }

    fn is_object(self) -> bool {
        match self {
            Self::Piece(_, node) => matches!(node.content, Content::Object(_)),
            Self::Tree(json) => matches!(json, Json::Object(_)),
        }
    }

    /// The value of a key; of several the last one counts.
    fn member(self, key: &str) -> Option<Self> {
        match self {
            Self::Piece(text, node) => match &node.content {
                Content::Object(pairs) => {
                    let mut pairs = pairs.iter().rev();
                    let found = pairs.find(|(other, _)| other == key);
                    found.map(|(_, node)| Self::Piece(text, node))
                }
                _ => None,
            },
            Self::Tree(json) => json.get(key).map(Self::Tree),
        }
    }

    /// The part as a value of a type.
    fn value(self, of: Type, context: &Context<'_>) -> Result<Datum> {
        if self.is_null() {
            return Ok(Datum::Null);
        }
        match of.kind {
            JsonKind => Ok(Datum::Json(match self {
                Self::Piece(text, node) => text[node.range.clone()].into(),
                Self::Tree(json) => json.to_string().into(),
            })),
            Jsonb => Ok(jsonb(match self {
                Self::Piece(text, node) => node.to_json(text)?,
                Self::Tree(json) => json.clone(),
            })),
            Kind::Composite(oid) if !self.is_string() => {
                let shape = context.names.row_shape(oid);
                let shape = shape.ok_or_else(|| SqlError::internal("a row type has fields"))?;
                self.record(&shape, None, context)
            }
            kind if kind.is_array() && !self.is_string() => self.array(of, context),
            _ => read(of, &self.text(), context),
        }
    }

    fn array(self, of: Type, context: &Context<'_>) -> Result<Datum> {
        let Some(element) = of.kind.element() else {
            return Err(SqlError::internal("an array has elements"));
        };
        let mut array = Array::new(element, Vec::new());
        let element = Type {
            kind: element,
            ..of
        };
        self.add_to(&mut array, 0, (element, context))?;
        if array.elements.is_empty() {
            array.dimensions.clear();
        }
        Ok(Datum::Array(Arc::new(array)))
    }

    /// Adds the elements of an array, whose first element tells how many dimensions there are.
    fn add_to(
        self,
        array: &mut Array,
        level: usize,
        (element, context): (Type, &Context<'_>),
    ) -> Result<()> {
        let malformed = || {
            SqlError::new(
                SqlState::INVALID_TEXT_REPRESENTATION,
                "malformed JSON array",
            )
            .detail("Multidimensional arrays must have sub-arrays with matching dimensions.")
        };
        let Some(parts) = self.elements() else {
            let state = SqlState::INVALID_TEXT_REPRESENTATION;
            return Err(SqlError::new(state, "expected JSON array"));
        };
        let length = parts.len();
        match array.dimensions.get(level) {
            Some(known) if known.length != length => return Err(malformed()),
            Some(_) => {}
            None => {
                check_dimensions(level + 1)?;
                array.dimensions.push(Dimension { length, lower: 1 });
            }
        }
        for (at, part) in parts.into_iter().enumerate() {
            let nests = part.elements().is_some();
            let is_first = at == 0 && array.elements.is_empty();
            match (nests, level + 1 < array.dimensions.len()) {
                (true, false) if !is_first => return Err(malformed()),
                (false, true) => return Err(malformed()),
                (true, _) => part.add_to(array, level + 1, (element, context))?,
                (false, false) => array.elements.push(part.value(element, context)?),
            }
        }
        Ok(())
    }

    /// The row of an object; fields that it does not have are those of another row, or NULL.
    fn record(
        self,
        shape: &Arc<RecordShape>,
        base: Option<&Record>,
        context: &Context<'_>,
    ) -> Result<Datum> {
        if !self.is_object() {
            let found = if self.elements().is_some() {
                "an array"
            } else {
                "a scalar"
            };
            return Err(bad(format!("cannot call populate_composite on {found}")));
        }
        let fields = shape.names.iter().zip(&shape.types).enumerate();
        let known = |at: usize| base.and_then(|base| base.fields.get(at)).cloned();
        let fields = fields.map(|(at, (name, of))| {
            self.member(name).map_or_else(
                || Ok(known(at).unwrap_or(Datum::Null)),
                |part| part.value(*of, context),
            )
        });
        Ok(Datum::Record(Arc::new(Record {
            shape: Arc::clone(shape),
            fields: fields.collect::<Result<_>>()?,
        })))
    }
}

/// A value of a type by its text, as a column takes it.
fn read(of: Type, text: &str, context: &Context<'_>) -> Result<Datum> {
    let datum = text_io::parse_for(of, text, context)?;
    super::super::cast::apply_modifier(datum, of, super::super::cast::CastContext::Assignment)
}

/// Calls `body` with the whole of a value.
fn with_part<R>(json: &Datum, body: impl FnOnce(Part<'_>) -> Result<R>) -> Result<R> {
    match json {
        Datum::Jsonb(json) => body(Part::Tree(json)),
        json => body(Part::Piece(json.str()?, &parsed(json)?)),
    }
}

/// The rows of an array of objects.
fn records(
    json: &Datum,
    name: &str,
    make: impl Fn(Part<'_>) -> Result<Datum>,
) -> Result<Vec<Datum>> {
    with_part(json, |part| {
        let Some(parts) = part.elements() else {
            let found = if part.is_object() {
                "an object"
            } else {
                "a scalar"
            };
            return Err(bad(format!("cannot call {name} on {found}")));
        };
        let rows = parts.into_iter().map(|part| {
            if !part.is_object() {
                return Err(bad(format!(
                    "argument of {name} must be an array of objects"
                )));
            }
            make(part)
        });
        rows.collect()
    })
}

/// `json_to_record`: its second argument is a row of the type that its alias has.
fn to_record(context: &mut CallContext<'_>, a: &[Datum]) -> Result<Rows> {
    let shape = &a[1].record()?.shape;
    let context = &context.context;
    let row = with_part(&a[0], |part| part.record(shape, None, context))?;
    Ok(Box::new(std::iter::once(Ok(row))))
}

fn to_recordset(name: &str, context: &mut CallContext<'_>, a: &[Datum]) -> Result<Rows> {
    let shape = &a[1].record()?.shape;
    let context = &context.context;
    let rows = records(&a[0], name, |part| part.record(shape, None, context))?;
    Ok(Box::new(rows.into_iter().map(Ok)))
}

/// The type of the rows that are made, and the row that they begin with.
fn base_of<'a>(
    context: &CallContext<'_>,
    a: &'a [Datum],
) -> Result<(Arc<RecordShape>, Option<&'a Record>)> {
    let base = match &a[0] {
        Datum::Record(record) => Some(&**record),
        _ => None,
    };
    let shape = match (context.result_type.kind, base) {
        (Kind::Composite(oid), _) => context.context.names.row_shape(oid),
        (_, Some(base)) => Some(Arc::clone(&base.shape)),
        _ => None,
    };
    let shape = shape.ok_or_else(|| {
        let message = "first argument of a function that fills a row must be a row type";
        SqlError::new(SqlState::DATATYPE_MISMATCH, message)
    })?;
    Ok((shape, base))
}

fn populate_record(context: &mut CallContext<'_>, a: &[Datum]) -> Result<Datum> {
    if a[1].is_null() {
        return Ok(a[0].clone());
    }
    let (shape, base) = base_of(context, a)?;
    let context = &context.context;
    with_part(&a[1], |part| part.record(&shape, base, context))
}

fn populate_recordset(name: &str, context: &mut CallContext<'_>, a: &[Datum]) -> Result<Rows> {
    if a[1].is_null() {
        return Ok(Box::new(std::iter::empty()));
    }
    let (shape, base) = base_of(context, a)?;
    let context = &context.context;
    let rows = records(&a[1], name, |part| part.record(&shape, base, context))?;
    Ok(Box::new(rows.into_iter().map(Ok)))
}

/// Functions that make rows of JSON.
pub(super) const FUNCTIONS: &[Function] = &[
    Function::set(
        "json_to_record",
        &[JsonKind, RecordKind],
        RecordKind,
        to_record,
    )
    .stable(),
    Function::set(
        "jsonb_to_record",
        &[Jsonb, RecordKind],
        RecordKind,
        to_record,
    )
    .stable(),
    Function::set(
        "json_to_recordset",
        &[JsonKind, RecordKind],
        RecordKind,
        |context, a| to_recordset("json_to_recordset", context, a),
    )
    .stable(),
    Function::set(
        "jsonb_to_recordset",
        &[Jsonb, RecordKind],
        RecordKind,
        |context, a| to_recordset("jsonb_to_recordset", context, a),
    )
    .stable(),
    Function::scalar(
        "json_populate_record",
        &[AnyElement, JsonKind],
        AnyElement,
        populate_record,
    )
    .nullable()
    .stable(),
    Function::scalar(
        "jsonb_populate_record",
        &[AnyElement, Jsonb],
        AnyElement,
        populate_record,
    )
    .nullable()
    .stable(),
    Function::set(
        "json_populate_recordset",
        &[AnyElement, JsonKind],
        AnyElement,
        |context, a| populate_recordset("json_populate_recordset", context, a),
    )
    .nullable()
    .stable(),
    Function::set(
        "jsonb_populate_recordset",
        &[AnyElement, Jsonb],
        AnyElement,
        |context, a| populate_recordset("jsonb_populate_recordset", context, a),
    )
    .nullable()
    .stable(),
];
