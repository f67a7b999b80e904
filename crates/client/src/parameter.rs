//! Values of parameters as a program has them, and as a statement wants them.
//!
//! A parameter has the type that the statement gives it if the value is exactly a value of that
//! type; a text is read as a literal would be. Any other value keeps the type that it has by
//! itself, and SQL decides what the two types mean together: so `SELECT ?` returns the number that
//! it was given, and 2.5 is compared with a column of integers as 2.5.

use sql::types::array::{Array, Dimension, check_dimensions};
use sql::types::cast::CastContext;
use sql::types::json::Json;
use sql::types::{Context, Datum, Kind, Numeric, cast, text_io};
use sql::{SqlError, SqlState};
use std::sync::Arc;

/// A value of a parameter.
#[derive(Clone, Debug)]
pub enum Value {
    /// A value that has its type.
    One(Datum),
    /// A list: an array or a document, by the type of the parameter.
    List(Vec<Value>),
}

impl From<Datum> for Value {
    fn from(datum: Datum) -> Self {
        Self::One(datum)
    }
}

impl Value {
    /// The type that it has by itself; none for NULL, which is of any type.
    pub(crate) fn own_kind(&self) -> Option<Kind> {
        match self {
            Self::One(Datum::Null) => None,
            Self::One(datum) => Some(datum.kind()),
            Self::List(_) => {
                let kinds = self.leaves().filter_map(Value::own_kind);
                let element = kinds.reduce(common_number).unwrap_or(Kind::Text);
                element.array().or(Some(Kind::Text))
            }
        }
    }

    fn leaves(&self) -> Box<dyn Iterator<Item = &Value> + '_> {
        match self {
            Self::One(_) => Box::new(std::iter::once(self)),
            Self::List(items) => Box::new(items.iter().flat_map(Value::leaves)),
        }
    }

    /// The value as one of the kind, or none if it is not exactly one.
    ///
    /// # Errors
    ///
    /// A text that cannot be read as the kind; lists that are no array.
    pub(crate) fn fitted(
        &self,
        kind: Kind,
        context: &Context<'_>,
    ) -> Result<Option<Datum>, SqlError> {
        match (self, kind) {
            (Self::One(datum), _) => fit(datum, kind, context),
            (Self::List(_), Kind::Json | Kind::Jsonb) => {
                let mut text = String::new();
                self.print_json(&mut text, context)?;
                text_io::parse(kind, &text, context).map(Some)
            }
            (Self::List(items), _) => match kind.element() {
                Some(element) if kind.is_array() => array_of(items, element, context),
                _ => Ok(None),
            },
        }
    }

    /// As [`Value::fitted`]; a value of the kind itself is taken, and not copied.
    pub(crate) fn take_fitted(
        &mut self,
        kind: Kind,
        context: &Context<'_>,
    ) -> Result<Option<Datum>, SqlError> {
        match self {
            Self::One(datum) if is_exact(datum, kind) => {
                Ok(Some(std::mem::replace(datum, Datum::Null)))
            }
            _ => self.fitted(kind, context),
        }
    }

    /// The value as one of the kind; an error says that it is none.
    pub(crate) fn converted(&self, kind: Kind, context: &Context<'_>) -> Result<Datum, SqlError> {
        if let Some(datum) = self.fitted(kind, context)? {
            return Ok(datum);
        }
        let own = self.own_kind().unwrap_or(Kind::Unknown);
        match self {
            Self::One(datum) if cast::can_coerce(own, kind, CastContext::Assignment) => {
                let (datum, to) = (datum.clone(), kind.plain());
                cast::cast(datum, own, to, CastContext::Assignment, context)
            }
            _ => Err(cast::no_cast(own, kind.plain())),
        }
    }

    fn print_json(&self, out: &mut String, context: &Context<'_>) -> Result<(), SqlError> {
        match self {
            Self::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    out.push(if at == 0 { '[' } else { ',' });
                    item.print_json(out, context)?;
                }
                out.push_str(if items.is_empty() { "[]" } else { "]" });
            }
            Self::One(Datum::Null) => out.push_str("null"),
            Self::One(datum) => {
                let text = text_io::print(datum, datum.kind(), context)?;
                match datum {
                    Datum::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
                    Datum::Int2(_)
                    | Datum::Int4(_)
                    | Datum::Int8(_)
                    | Datum::Float4(_)
                    | Datum::Float8(_)
                    | Datum::Numeric(_)
                    | Datum::Json(_)
                    | Datum::Jsonb(_) => out.push_str(&text),
                    _ => Json::String(text).print(out),
                }
            }
        }
        Ok(())
    }
}

/// The kind of numbers that holds those of both kinds, and the first of other kinds.
fn common_number(one: Kind, other: Kind) -> Kind {
    match (one, other) {
        (Kind::Int8, Kind::Float8 | Kind::Numeric) | (Kind::Numeric, Kind::Float8) => other,
        _ => one,
    }
}

/// Whether a value is one of the kind as it stands.
fn is_exact(datum: &Datum, kind: Kind) -> bool {
    match datum {
        Datum::Text(text) => kind.is_text() && !text.contains('\0'),
        // A document that another language has written may be none.
        Datum::Json(_) => false,
        _ => datum.is_null() || datum.kind() == kind,
    }
}

/// The value as one of the kind, where it is exactly that.
fn fit(datum: &Datum, kind: Kind, context: &Context<'_>) -> Result<Option<Datum>, SqlError> {
    let exact = match (datum, kind) {
        _ if is_exact(datum, kind) => Some(datum.clone()),
        (Datum::Text(text), _) | (Datum::Json(text), Kind::Json | Kind::Jsonb) => {
            Some(text_io::parse(kind, text, context)?)
        }
        (Datum::Numeric(number), Kind::Int2 | Kind::Int4 | Kind::Int8) => {
            whole(number).and_then(|value| integer(value, kind))
        }
        (Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_), _) => integer(datum.int()?, kind),
        (Datum::Float8(value), Kind::Float4) => {
            let narrow = *value as f32;
            (f64::from(narrow).to_bits() == value.to_bits()).then_some(Datum::Float4(narrow))
        }
        _ => None,
    };
    Ok(exact)
}

/// An integer as a value of the kind, where that has one.
fn integer(value: i64, kind: Kind) -> Option<Datum> {
    match kind {
        Kind::Int2 => i16::try_from(value).ok().map(Datum::Int2),
        Kind::Int4 => i32::try_from(value).ok().map(Datum::Int4),
        Kind::Int8 => Some(Datum::Int8(value)),
        Kind::Numeric => Some(Datum::Numeric(value.into())),
        Kind::Float8 => {
            let float = value as f64;
            (float as i128 == i128::from(value)).then_some(Datum::Float8(float))
        }
        _ if kind.is_object_number() => u32::try_from(value).ok().map(Datum::Oid),
        _ => None,
    }
}

fn whole(number: &Numeric) -> Option<i64> {
    let (units, scale) = number.trimmed().small()?;
    (scale == 0).then(|| i64::try_from(units).ok()).flatten()
}

/// A list, of lists perhaps, as an array, where all elements are exactly of the kind.
fn array_of(
    items: &[Value],
    element: Kind,
    context: &Context<'_>,
) -> Result<Option<Datum>, SqlError> {
    let mut array = Array::new(element, Vec::new());
    let mut level: Vec<&Value> = items.iter().collect();
    let mut length = items.len();
    while length > 0 {
        check_dimensions(array.dimensions.len() + 1)?;
        array.dimensions.push(Dimension { length, lower: 1 });
        let lists = level.iter().map(|item| match item {
            Value::List(items) => Some(items),
            Value::One(_) => None,
        });
        let Some(lists) = lists.collect::<Option<Vec<_>>>() else {
            break;
        };
        length = lists[0].len();
        if lists.iter().any(|list| list.len() != length) {
            let message = "lists inside of an array must be of one length";
            return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
        }
        level = lists.into_iter().flatten().collect();
    }
    if length == 0 {
        array.dimensions.clear();
    }
    for item in level {
        match item.fitted(element, context)? {
            Some(datum) => array.elements.push(datum),
            None => return Ok(None),
        }
    }
    Ok(Some(Datum::Array(Arc::new(array))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sql::types::{NoNames, Settings};

    fn fitted(value: &Value, kind: Kind) -> Result<Option<String>, SqlError> {
        let settings = Settings::default();
        let context = Context {
            settings: &settings,
            names: &NoNames,
            transaction_start: 0,
            statement_start: 0,
        };
        let datum = value.fitted(kind, &context)?;
        datum
            .map(|datum| text_io::print(&datum, kind, &context))
            .transpose()
    }

    fn fits(datum: Datum, kind: Kind) -> Option<String> {
        fitted(&datum.into(), kind).unwrap()
    }

    #[test]
    fn numbers_fit_where_they_are_exact() {
        assert_eq!(fits(Datum::Int8(7), Kind::Int2).as_deref(), Some("7"));
        assert_eq!(fits(Datum::Int8(40_000), Kind::Int2), None);
        assert_eq!(
            fits(Datum::Int8(1 << 53), Kind::Float8).as_deref(),
            Some("9.007199254740992e+15")
        );
        assert_eq!(fits(Datum::Int8((1 << 53) + 1), Kind::Float8), None);
        assert_eq!(fits(Datum::Int8(i64::MAX), Kind::Float8), None);
        assert_eq!(fits(Datum::Float8(2.5), Kind::Int4), None);
        assert_eq!(fits(Datum::Float8(0.1), Kind::Float4), None);
        assert_eq!(
            fits(Datum::Numeric(Numeric::new(500, 2)), Kind::Int4).as_deref(),
            Some("5")
        );
        assert_eq!(fits(Datum::Bool(true), Kind::Int4), None);
        assert_eq!(fits(Datum::Int8(1), Kind::Text), None);
    }

    #[test]
    fn texts_are_read_as_literals() {
        assert_eq!(
            fits(Datum::text("2024-02-29"), Kind::Date).as_deref(),
            Some("2024-02-29")
        );
        let bad = fitted(&Datum::text("2023-02-29").into(), Kind::Date).unwrap_err();
        assert_eq!(bad.state.0, "22008");
        let zero = fitted(&Datum::text("a\0b").into(), Kind::Text).unwrap_err();
        assert_eq!(zero.state, SqlState::CHARACTER_NOT_IN_REPERTOIRE);
    }

    #[test]
    fn lists_are_arrays_or_documents() {
        let list = |items: Vec<Datum>| Value::List(items.into_iter().map(Value::One).collect());
        let numbers = list(vec![Datum::Int8(1), Datum::Null]);
        let array = Kind::Array(&Kind::Int4);
        assert_eq!(
            fitted(&numbers, array).unwrap().as_deref(),
            Some("{1,NULL}")
        );
        assert_eq!(
            fitted(&numbers, Kind::Json).unwrap().as_deref(),
            Some("[1,null]")
        );
        assert_eq!(numbers.own_kind(), Kind::Int8.array());
        let square = Value::List(vec![numbers.clone(), numbers.clone()]);
        assert_eq!(
            fitted(&square, array).unwrap().as_deref(),
            Some("{{1,NULL},{1,NULL}}")
        );
        assert_eq!(
            fitted(&list(Vec::new()), array).unwrap().as_deref(),
            Some("{}")
        );
        assert_eq!(
            fitted(&list(Vec::new()), Kind::Jsonb).unwrap().as_deref(),
            Some("[]")
        );
        let ragged = Value::List(vec![numbers, list(vec![Datum::Int8(1)])]);
        assert_eq!(
            fitted(&ragged, array).unwrap_err().state,
            SqlState::ARRAY_SUBSCRIPT_ERROR
        );
    }
}
