//! Aggregates that keep all values: arrays, texts and JSON.
//!
//! Their state grows with the rows of a group. The order of values is the order in which the
//! executor hands them over, which is that of an ORDER BY inside the call.

use super::super::array::{Array, Dimension, check_dimensions};
use super::super::context::CallContext;
use super::super::datum::Datum;
use super::super::function::Function;
use super::super::function::json::{kind_of, made_jsonb};
use super::super::json::{Json, convert, quote};
use super::super::kind::Kind::{
    self, Any, AnyArray, AnyElement, AnyNonArray, Bytea, Json as JsonKind, Jsonb, Text,
};
use super::super::size;
use super::{Accumulator, keeping};
use crate::error::{Result, SqlError, SqlState};
use std::sync::Arc;

/// `array_agg` of values, and of arrays of one shape.
#[derive(Default)]
struct Elements {
    values: Vec<Datum>,
    inner: Option<Vec<Dimension>>,
    count: usize,
}

impl Accumulator for Elements {
    fn add(&mut self, context: &mut CallContext<'_>, arguments: &[Datum]) -> Result<()> {
        let is_array = context
            .argument_types
            .first()
            .is_some_and(|one| one.kind.is_array());
        self.take(is_array, &arguments[0])
    }

    fn value(&self, context: &mut CallContext<'_>) -> Result<Datum> {
        if self.count == 0 {
            return Ok(Datum::Null);
        }
        let element = context.result_type.kind.element().unwrap_or(Text);
        self.whole(element)
    }

    fn memory_bytes(&self) -> usize {
        self.values.capacity() * size_of::<Datum>()
    }
}

impl Elements {
    fn take(&mut self, is_array: bool, value: &Datum) -> Result<()> {
        self.count += 1;
        if !is_array {
            self.values.push(value.clone());
            return Ok(());
        }
        let wrong = |text: &str| SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, text);
        let Datum::Array(array) = value else {
            return Err(SqlError::new(
                SqlState::NULL_VALUE_NOT_ALLOWED,
                "cannot accumulate null arrays",
            ));
        };
        if array.dimensions.is_empty() && self.inner.is_none() {
            return Err(wrong("cannot accumulate empty arrays"));
        }
        check_dimensions(array.dimensions.len() + 1)?;
        if *self.inner.get_or_insert_with(|| array.dimensions.clone()) != array.dimensions {
            return Err(wrong(
                "cannot accumulate arrays of different dimensionality",
            ));
        }
        self.values.extend(array.elements.iter().cloned());
        Ok(())
    }

    fn whole(&self, element: Kind) -> Result<Datum> {
        let values = self.values.clone();
        Ok(Datum::Array(Arc::new(match &self.inner {
            Some(inner) => Array::nested(element, (self.count, inner), values)?,
            None => Array::new(element, values),
        })))
    }
}

/// The array of values of a kind, or of arrays of one shape.
pub fn array_of(kind: Kind, values: impl IntoIterator<Item = Datum>) -> Result<Datum> {
    let mut elements = Elements::default();
    for value in values {
        elements.take(kind.is_array(), &value)?;
    }
    let element = kind.element().filter(|_| kind.is_array());
    elements.whole(element.unwrap_or(kind))
}

/// `string_agg`: each value after its delimiter, except the first.
#[derive(Default)]
struct Joined<T> {
    content: Option<T>,
}

impl Accumulator for Joined<String> {
    fn add(&mut self, _: &mut CallContext<'_>, arguments: &[Datum]) -> Result<()> {
        if arguments[0].is_null() {
            return Ok(());
        }
        let next = arguments[0].str()?;
        match &mut self.content {
            Some(content) => {
                if !arguments[1].is_null() {
                    size::push(content, arguments[1].str()?)?;
                }
                size::push(content, next)?;
            }
            None => self.content = Some(next.to_owned()),
        }
        Ok(())
    }

    fn value(&self, _: &mut CallContext<'_>) -> Result<Datum> {
        Ok(self.content.as_deref().map_or(Datum::Null, Datum::text))
    }

    fn memory_bytes(&self) -> usize {
        self.content.as_ref().map_or(0, String::capacity)
    }
}

impl Accumulator for Joined<Vec<u8>> {
    fn add(&mut self, _: &mut CallContext<'_>, arguments: &[Datum]) -> Result<()> {
        if arguments[0].is_null() {
            return Ok(());
        }
        let next = arguments[0].bytea()?;
        match &mut self.content {
            Some(content) => {
                let delimiter: &[u8] = match &arguments[1] {
                    Datum::Null => &[],
                    delimiter => delimiter.bytea()?,
                };
                size::check(content.len() + delimiter.len() + next.len())?;
                content.extend(delimiter);
                content.extend(next);
            }
            None => self.content = Some(next.to_vec()),
        }
        Ok(())
    }

    fn value(&self, _: &mut CallContext<'_>) -> Result<Datum> {
        Ok(self.content.as_deref().map_or(Datum::Null, Datum::bytes))
    }

    fn memory_bytes(&self) -> usize {
        self.content.as_ref().map_or(0, Vec::capacity)
    }
}

/// `json_agg` and `json_object_agg`: the text so far, without its end.
struct JsonText {
    text: String,
    is_object: bool,
}

impl JsonText {
    fn start(is_object: bool) -> Box<dyn Accumulator> {
        Box::new(Self {
            text: String::new(),
            is_object,
        })
    }
}

fn no_null_key() -> SqlError {
    SqlError::new(
        SqlState::INVALID_PARAMETER_VALUE,
        "field name must not be null",
    )
}

impl Accumulator for JsonText {
    fn add(&mut self, context: &mut CallContext<'_>, arguments: &[Datum]) -> Result<()> {
        let is_first = self.text.is_empty();
        let out = &mut self.text;
        if self.is_object {
            if arguments[0].is_null() {
                return Err(no_null_key());
            }
            out.push_str(if is_first { "{ " } else { ", " });
            let kind = kind_of(context, arguments, 0);
            quote(out, &convert::key(&arguments[0], kind, &context.context)?);
            out.push_str(" : ");
            let kind = kind_of(context, arguments, 1);
            convert::print(out, &arguments[1], kind, &context.context)?;
            return size::check(out.len());
        }
        out.push_str(if is_first { "[" } else { ", " });
        let is_nested = matches!(arguments[0], Datum::Array(_) | Datum::Record(_));
        if is_nested && !is_first {
            out.push_str("\n ");
        }
        let kind = kind_of(context, arguments, 0);
        convert::print(out, &arguments[0], kind, &context.context)?;
        size::check(out.len())
    }

    fn value(&self, _: &mut CallContext<'_>) -> Result<Datum> {
        if self.text.is_empty() {
            return Ok(Datum::Null);
        }
        let end = if self.is_object { " }" } else { "]" };
        Ok(Datum::Json([&self.text, end].concat().into()))
    }

    fn memory_bytes(&self) -> usize {
        self.text.capacity()
    }
}

/// `jsonb_agg`.
#[derive(Default)]
struct JsonElements {
    elements: Vec<Json>,
    bytes: usize,
}

impl Accumulator for JsonElements {
    fn add(&mut self, context: &mut CallContext<'_>, arguments: &[Datum]) -> Result<()> {
        let kind = kind_of(context, arguments, 0);
        let value = convert::tree(&arguments[0], kind, &context.context, &mut self.bytes)?;
        self.elements.push(value);
        Ok(())
    }

    fn value(&self, _: &mut CallContext<'_>) -> Result<Datum> {
        if self.elements.is_empty() {
            return Ok(Datum::Null);
        }
        made_jsonb(Json::Array(self.elements.clone()))
    }

    fn memory_bytes(&self) -> usize {
        self.elements.capacity() * size_of::<Json>() + self.bytes
    }
}

/// `jsonb_object_agg`.
#[derive(Default)]
struct JsonPairs {
    pairs: Vec<(String, Json)>,
    bytes: usize,
}

impl Accumulator for JsonPairs {
    fn add(&mut self, context: &mut CallContext<'_>, arguments: &[Datum]) -> Result<()> {
        if arguments[0].is_null() {
            return Err(no_null_key());
        }
        let kind = kind_of(context, arguments, 0);
        let key = convert::key(&arguments[0], kind, &context.context)?;
        let kind = kind_of(context, arguments, 1);
        size::add(&mut self.bytes, key.len())?;
        let value = convert::tree(&arguments[1], kind, &context.context, &mut self.bytes)?;
        self.pairs.push((key, value));
        Ok(())
    }

    fn value(&self, _: &mut CallContext<'_>) -> Result<Datum> {
        if self.pairs.is_empty() {
            return Ok(Datum::Null);
        }
        made_jsonb(Json::object(self.pairs.clone()))
    }

    fn memory_bytes(&self) -> usize {
        self.pairs.capacity() * size_of::<(String, Json)>() + self.bytes
    }
}

/// The table.
pub(super) const FUNCTIONS: &[Function] = &[
    keeping("array_agg", &[AnyNonArray], AnyArray, || {
        Box::new(Elements::default())
    })
    .nullable(),
    keeping("array_agg", &[AnyArray], AnyArray, || {
        Box::new(Elements::default())
    })
    .nullable(),
    keeping("string_agg", &[Text, Text], Text, || {
        Box::new(Joined::<String>::default())
    })
    .nullable(),
    keeping("string_agg", &[Bytea, Bytea], Bytea, || {
        Box::new(Joined::<Vec<u8>>::default())
    })
    .nullable(),
    keeping("json_agg", &[AnyElement], JsonKind, || {
        JsonText::start(false)
    })
    .nullable()
    .stable(),
    keeping("json_object_agg", &[Any, Any], JsonKind, || {
        JsonText::start(true)
    })
    .nullable()
    .stable(),
    keeping("jsonb_agg", &[AnyElement], Jsonb, || {
        Box::new(JsonElements::default())
    })
    .nullable()
    .stable(),
    keeping("jsonb_object_agg", &[Any, Any], Jsonb, || {
        Box::new(JsonPairs::default())
    })
    .nullable()
    .stable(),
];
