//! Functions of arrays, and the subscripts and slices of expressions.
//!
//! Subscripts begin at the array's own lower bounds. A position outside of them is NULL when it is
//! read, and an error or an extension when it is written.

use super::super::array::{Array, Dimension, ELEMENTS_MAX, check_dimensions};
use super::super::context::CallContext;
use super::super::datum::Datum;
use super::super::kind::Kind::{
    self, AnyArray, AnyCompatible, AnyCompatibleArray, AnyElement, Int4, Text,
};
use super::super::{size, text_io};
use super::{Function, Rows};
use crate::error::{Result, SqlError, SqlState};
use std::sync::Arc;

const INTEGERS: Kind = Kind::Array(&Int4);

pub(super) fn datum(array: Array) -> Datum {
    Datum::Array(Arc::new(array))
}

pub(super) fn wrong_shape(message: &str) -> SqlError {
    SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
}

pub(super) fn too_many_elements() -> SqlError {
    SqlError::new(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})"),
    )
}

/// The kind of the elements of the call's result.
fn element_of(context: &CallContext<'_>, element: &Datum) -> Kind {
    context.result_type.kind.element().unwrap_or(element.kind())
}

/// The array with another element at its end.
pub fn append(context: &CallContext<'_>, array: &Datum, element: &Datum) -> Result<Datum> {
    extended(context, array, element, |elements, element| {
        elements.push(element);
    })
}

/// The array with another element at its start, whose subscript is the array's lower bound.
pub fn prepend(context: &CallContext<'_>, element: &Datum, array: &Datum) -> Result<Datum> {
    extended(context, array, element, |elements, element| {
        elements.insert(0, element);
    })
}

fn extended(
    context: &CallContext<'_>,
    array: &Datum,
    element: &Datum,
    add: impl Fn(&mut Vec<Datum>, Datum),
) -> Result<Datum> {
    if array.is_null() {
        let kind = element_of(context, element);
        return Ok(datum(Array::new(kind, vec![element.clone()])));
    }
    let array = array.array()?;
    if array.dimensions.len() > 1 {
        return Err(SqlError::new(
            SqlState("22000"),
            "argument must be empty or one-dimensional array",
        ));
    }
    let lower = array.dimensions.first().map_or(1, |one| one.lower);
    let mut elements = array.elements.clone();
    add(&mut elements, element.clone());
    Dimension::new(elements.len(), lower)?;
    Ok(datum(Array::from_lower(array.element, lower, elements)))
}

/// Both arrays one after the other; one may be an element of the other's outermost dimension.
pub fn concatenate(left: &Datum, right: &Datum) -> Result<Datum> {
    if left.is_null() {
        return Ok(right.clone());
    }
    if right.is_null() {
        return Ok(left.clone());
    }
    let (a, b) = (left.array()?, right.array()?);
    if a.elements.is_empty() {
        return Ok(right.clone());
    }
    if b.elements.is_empty() {
        return Ok(left.clone());
    }
    let (deep, shallow) = (a.dimensions.len(), b.dimensions.len());
    let incompatible =
        |detail: &str| wrong_shape("cannot concatenate incompatible arrays").detail(detail);
    let lengths = |dimensions: &[Dimension]| -> Vec<usize> {
        dimensions.iter().map(|one| one.length).collect()
    };
    let mut dimensions = match deep as i64 - shallow as i64 {
        0 => {
            if lengths(&a.dimensions[1..]) != lengths(&b.dimensions[1..]) {
                return Err(incompatible(
                    "Arrays with differing element dimensions are not compatible for concatenation.",
                ));
            }
            let mut dimensions = a.dimensions.clone();
            dimensions[0].length += b.dimensions[0].length;
            dimensions
        }
        1 => {
            if lengths(&a.dimensions[1..]) != lengths(&b.dimensions) {
                return Err(incompatible(
                    "Arrays with differing dimensions are not compatible for concatenation.",
                ));
            }
            let mut dimensions = a.dimensions.clone();
            dimensions[0].length += 1;
            dimensions
        }
        -1 => {
            if lengths(&b.dimensions[1..]) != lengths(&a.dimensions) {
                return Err(incompatible(
                    "Arrays with differing dimensions are not compatible for concatenation.",
                ));
            }
            let mut dimensions = b.dimensions.clone();
            dimensions[0].length += 1;
            dimensions
        }
        _ => {
            return Err(incompatible(&format!(
                "Arrays of {deep} and {shallow} dimensions are not compatible for concatenation."
            )));
        }
    };
    let elements: Vec<Datum> = a.elements.iter().chain(&b.elements).cloned().collect();
    if elements.len() > ELEMENTS_MAX {
        return Err(too_many_elements());
    }
    dimensions[0] = Dimension::new(dimensions[0].length, dimensions[0].lower)?;
    Ok(datum(Array {
        element: a.element,
        dimensions,
        elements,
    }))
}

/// Whether each element of the second array is one of the first; NULL is none.
pub fn contains(array: &Array, other: &Array) -> bool {
    let has = |wanted: &Datum| !wanted.is_null() && array.elements.contains(wanted);
    other.elements.iter().all(has)
}

/// Whether the arrays share an element.
pub fn overlaps(array: &Array, other: &Array) -> bool {
    let has = |wanted: &Datum| !wanted.is_null() && array.elements.contains(wanted);
    other.elements.iter().any(has)
}

/// The element at the subscripts of an expression; NULL where there is none.
pub fn element(array: &Datum, subscripts: &[i32]) -> Result<Datum> {
    if array.is_null() {
        return Ok(Datum::Null);
    }
    Ok(array
        .array()?
        .get(subscripts)
        .cloned()
        .unwrap_or(Datum::Null))
}

/// The part of an array within bounds, which are none where the expression leaves them out; its
/// subscripts begin at 1. Outside the array it is empty.
pub fn slice(array: &Datum, bounds: &[(Option<i32>, Option<i32>)]) -> Result<Datum> {
    if array.is_null() {
        return Ok(Datum::Null);
    }
    let array = array.array()?;
    let empty = || datum(Array::new(array.element, Vec::new()));
    if bounds.len() > array.dimensions.len() {
        return Ok(empty());
    }
    let mut ranges = Vec::with_capacity(array.dimensions.len());
    for (place, dimension) in array.dimensions.iter().enumerate() {
        let (lower, upper) = bounds.get(place).copied().unwrap_or((None, None));
        let lower = lower.unwrap_or(dimension.lower).max(dimension.lower);
        let upper = upper.unwrap_or(dimension.upper()).min(dimension.upper());
        if lower > upper {
            return Ok(empty());
        }
        let start = (i64::from(lower) - i64::from(dimension.lower)) as usize;
        ranges.push(start..start + (i64::from(upper) - i64::from(lower)) as usize + 1);
    }
    let kept = array.elements.iter().enumerate().filter(|(place, _)| {
        let mut rest = *place;
        // From the innermost dimension, which runs fastest.
        array
            .dimensions
            .iter()
            .zip(&ranges)
            .rev()
            .all(|(dimension, range)| {
                let at = rest % dimension.length;
                rest /= dimension.length;
                range.contains(&at)
            })
    });
    let elements = kept.map(|(_, element)| element.clone()).collect();
    let dimensions = ranges.into_iter().map(|range| Dimension {
        length: range.len(),
        lower: 1,
    });
    Ok(datum(Array {
        element: array.element,
        dimensions: dimensions.collect(),
        elements,
    }))
}

fn dimension(a: &[Datum]) -> Result<Option<Dimension>> {
    let place = usize::try_from(a[1].int()? - 1).unwrap_or(usize::MAX);
    Ok(a[0].array()?.dimensions.get(place).copied())
}

fn int_or_null(value: Option<i64>) -> Datum {
    value.map_or(Datum::Null, |value| Datum::Int4(value as i32))
}

fn dims(array: &Array) -> Datum {
    if array.dimensions.is_empty() {
        return Datum::Null;
    }
    let each = array
        .dimensions
        .iter()
        .map(|one| format!("[{}:{}]", one.lower, one.upper()));
    Datum::text(each.collect::<String>())
}

fn one_dimension(array: &Array, message: &str) -> Result<i32> {
    match array.dimensions.as_slice() {
        [] => Ok(1),
        [one] => Ok(one.lower),
        _ => Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)),
    }
}

const NO_SEARCH: &str = "searching for elements in multidimensional arrays is not supported";

/// The subscripts of the elements that equal the wanted one, where NULL equals NULL.
fn positions(array: &Array, wanted: &Datum, from: i32) -> Result<Vec<i32>> {
    let lower = one_dimension(array, NO_SEARCH)?;
    let subscripts = (lower..).zip(&array.elements);
    let found = subscripts.filter(|(at, element)| *at >= from && *element == wanted);
    Ok(found.map(|(at, _)| at).collect())
}

fn position(a: &[Datum]) -> Result<Datum> {
    if a[0].is_null() {
        return Ok(Datum::Null);
    }
    if a[0].array()?.elements.is_empty() {
        return Ok(Datum::Null);
    }
    let from = match a.get(2) {
        None => i32::MIN,
        Some(Datum::Null) => {
            return Err(SqlError::new(
                SqlState::NULL_VALUE_NOT_ALLOWED,
                "initial position must not be null",
            ));
        }
        Some(from) => from.int4()?,
    };
    let found = positions(a[0].array()?, &a[1], from)?;
    Ok(found.first().map_or(Datum::Null, |at| Datum::Int4(*at)))
}

fn all_positions(a: &[Datum]) -> Result<Datum> {
    if a[0].is_null() {
        return Ok(Datum::Null);
    }
    let found = positions(a[0].array()?, &a[1], i32::MIN)?;
    Ok(datum(Array::new(
        Int4,
        found.into_iter().map(Datum::Int4).collect(),
    )))
}

fn remove(a: &[Datum]) -> Result<Datum> {
    if a[0].is_null() {
        return Ok(Datum::Null);
    }
    let array = a[0].array()?;
    let lower = one_dimension(
        array,
        "removing elements from multidimensional arrays is not supported",
    )?;
    let kept = array
        .elements
        .iter()
        .filter(|element| **element != a[1])
        .cloned();
    Ok(datum(Array::from_lower(
        array.element,
        lower,
        kept.collect(),
    )))
}

fn replace(a: &[Datum]) -> Result<Datum> {
    if a[0].is_null() {
        return Ok(Datum::Null);
    }
    let array = a[0].array()?;
    let elements = array.elements.iter();
    let replaced = elements.map(|one| {
        if *one == a[1] {
            a[2].clone()
        } else {
            one.clone()
        }
    });
    Ok(datum(Array {
        element: array.element,
        dimensions: array.dimensions.clone(),
        elements: replaced.collect(),
    }))
}

fn to_string(context: &CallContext<'_>, a: &[Datum]) -> Result<Datum> {
    if a[0].is_null() || a[1].is_null() {
        return Ok(Datum::Null);
    }
    let array = a[0].array()?;
    let delimiter = a[1].str()?;
    let mut out = String::new();
    let mut is_first = true;
    for element in &array.elements {
        let part = match (element, a.get(2)) {
            (Datum::Null, None | Some(Datum::Null)) => continue,
            (Datum::Null, Some(null)) => null.str()?.to_owned(),
            (element, _) => text_io::print(element, array.element, &context.context)?,
        };
        size::push(&mut out, if is_first { "" } else { delimiter })?;
        size::push(&mut out, &part)?;
        is_first = false;
    }
    Ok(Datum::text(out))
}

fn fill(context: &CallContext<'_>, a: &[Datum]) -> Result<Datum> {
    let null = |what: &str| Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, what));
    if a[1].is_null() || a.get(2).is_some_and(Datum::is_null) {
        return null("dimension array or low bound array cannot be null");
    }
    let lengths = a[1].array()?;
    let lowers = a.get(2).map(Datum::array).transpose()?;
    if lengths.dimensions.len() > 1 {
        return Err(wrong_shape("wrong number of array subscripts")
            .detail("Dimension array must be one dimensional."));
    }
    check_dimensions(lengths.elements.len())?;
    if lowers.is_some_and(|lowers| lowers.elements.len() != lengths.elements.len()) {
        return Err(wrong_shape("wrong number of array subscripts")
            .detail("Low bound array has different size than dimensions array."));
    }
    let mut dimensions = Vec::new();
    let mut total = usize::from(!lengths.elements.is_empty());
    for (place, length) in lengths.elements.iter().enumerate() {
        let lower = lowers.map_or(&Datum::Int4(1), |lowers| &lowers.elements[place]);
        if length.is_null() || lower.is_null() {
            return null("dimension values cannot be null");
        }
        let length = usize::try_from(length.int()?).map_err(|_| too_many_elements())?;
        total = total
            .checked_mul(length)
            .filter(|total| *total <= ELEMENTS_MAX)
            .ok_or_else(too_many_elements)?;
        dimensions.push(Dimension::new(length, lower.int4()?)?);
    }
    let element = element_of(context, &a[0]);
    if total == 0 {
        dimensions.clear();
    }
    Ok(datum(Array {
        element,
        dimensions,
        elements: vec![a[0].clone(); total],
    }))
}

fn trim(a: &[Datum]) -> Result<Datum> {
    let array = a[0].array()?;
    let length = array.dimensions.first().map_or(0, |one| one.length);
    let count = a[1].int()?;
    if count < 0 || count > length as i64 {
        return Err(wrong_shape(&format!(
            "number of elements to trim must be between 0 and {length}"
        )));
    }
    let Some(first) = array.dimensions.first() else {
        return Ok(a[0].clone());
    };
    let last = first.upper() - count as i32;
    slice(&a[0], &[(None, Some(last))])
}

fn unnest(a: &[Datum]) -> Result<Rows> {
    let array = Arc::clone(a[0].array()?);
    let count = array.elements.len();
    Ok(Box::new(
        (0..count).map(move |place| Ok(array.elements[place].clone())),
    ))
}

fn subscripts(a: &[Datum]) -> Result<Rows> {
    let Some(one) = dimension(a)? else {
        return Ok(Box::new(std::iter::empty()));
    };
    let is_reverse = a.get(2).map_or(Ok(false), Datum::bool)?;
    let (lower, upper) = (one.lower, one.upper());
    let each = (lower..=upper).map(move |at| if is_reverse { upper - (at - lower) } else { at });
    Ok(Box::new(each.map(|at| Ok(Datum::Int4(at)))))
}

/// The table.
pub(super) const FUNCTIONS: &[Function] = &[
    Function::scalar(
        "array_append",
        &[AnyCompatibleArray, AnyCompatible],
        AnyCompatibleArray,
        |context, a| append(context, &a[0], &a[1]),
    )
    .nullable(),
    Function::scalar(
        "array_prepend",
        &[AnyCompatible, AnyCompatibleArray],
        AnyCompatibleArray,
        |context, a| prepend(context, &a[0], &a[1]),
    )
    .nullable(),
    Function::scalar(
        "array_cat",
        &[AnyCompatibleArray, AnyCompatibleArray],
        AnyCompatibleArray,
        |_, a| concatenate(&a[0], &a[1]),
    )
    .nullable(),
    Function::scalar("array_length", &[AnyArray, Int4], Int4, |_, a| {
        Ok(int_or_null(dimension(a)?.map(|one| one.length as i64)))
    }),
    Function::scalar("array_lower", &[AnyArray, Int4], Int4, |_, a| {
        Ok(int_or_null(dimension(a)?.map(|one| i64::from(one.lower))))
    }),
    Function::scalar("array_upper", &[AnyArray, Int4], Int4, |_, a| {
        Ok(int_or_null(dimension(a)?.map(|one| i64::from(one.upper()))))
    }),
    Function::scalar("array_ndims", &[AnyArray], Int4, |_, a| {
        let count = a[0].array()?.dimensions.len() as i64;
        Ok(int_or_null((count > 0).then_some(count)))
    }),
    Function::scalar("array_dims", &[AnyArray], Text, |_, a| {
        Ok(dims(a[0].array()?))
    }),
    Function::scalar("cardinality", &[AnyArray], Int4, |_, a| {
        Ok(Datum::Int4(a[0].array()?.elements.len() as i32))
    }),
    Function::scalar(
        "array_position",
        &[AnyCompatibleArray, AnyCompatible, Int4],
        Int4,
        |_, a| position(a),
    )
    .nullable()
    .defaults(1),
    Function::scalar(
        "array_positions",
        &[AnyCompatibleArray, AnyCompatible],
        INTEGERS,
        |_, a| all_positions(a),
    )
    .nullable(),
    Function::scalar(
        "array_remove",
        &[AnyCompatibleArray, AnyCompatible],
        AnyCompatibleArray,
        |_, a| remove(a),
    )
    .nullable(),
    Function::scalar(
        "array_replace",
        &[AnyCompatibleArray, AnyCompatible, AnyCompatible],
        AnyCompatibleArray,
        |_, a| replace(a),
    )
    .nullable(),
    Function::scalar(
        "array_to_string",
        &[AnyArray, Text, Text],
        Text,
        |context, a| to_string(context, a),
    )
    .nullable()
    .stable()
    .defaults(1),
    Function::scalar(
        "array_fill",
        &[AnyElement, INTEGERS, INTEGERS],
        AnyArray,
        |context, a| fill(context, a),
    )
    .nullable()
    .defaults(1),
    Function::scalar("trim_array", &[AnyArray, Int4], AnyArray, |_, a| trim(a)),
    Function::set("unnest", &[AnyArray], AnyElement, |_, a| unnest(a)),
    // The second argument tells names and types of the fields.
    Function::set(
        "unnest_rows",
        &[Kind::Array(&Kind::Record), Kind::Record],
        Kind::Record,
        |_, a| unnest(&a[..1]),
    ),
    Function::set(
        "generate_subscripts",
        &[AnyArray, Int4, Kind::Bool],
        Int4,
        |_, a| subscripts(a),
    )
    .defaults(1),
];
