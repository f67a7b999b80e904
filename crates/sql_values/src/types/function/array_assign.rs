//! Assignments to elements and slices of arrays.
//!
//! An array of one dimension grows to what is assigned, with NULLs between; one of several keeps
//! its shape.

use super::super::array::{Array, Dimension, ELEMENTS_MAX, check_dimensions};
use super::super::datum::Datum;
use super::super::kind::Kind;
use super::array::{datum, too_many_elements, wrong_shape};
use crate::error::{Result, SqlError, SqlState};

/// The array with another element at the subscripts, for `UPDATE ... SET a[i] = x`. One of one
/// dimension grows to the subscript, with NULLs between.
pub fn with_element(array: &Datum, kind: Kind, subscripts: &[i32], new: Datum) -> Result<Datum> {
    let mut changed = match array {
        Datum::Null => Array::new(kind, Vec::new()),
        other => (**other.array()?).clone(),
    };
    if changed.dimensions.is_empty() {
        check_dimensions(subscripts.len())?;
        let dimensions = subscripts.iter().map(|lower| Dimension::new(1, *lower));
        changed.dimensions = dimensions.collect::<Result<_>>()?;
        changed.elements = vec![new];
        return Ok(datum(changed));
    }
    if subscripts.len() != changed.dimensions.len() {
        return Err(wrong_shape("wrong number of array subscripts"));
    }
    if let ([subscript], [dimension]) = (subscripts, changed.dimensions.as_mut_slice()) {
        let offset = i64::from(*subscript) - i64::from(dimension.lower);
        let length = changed.elements.len() as i64;
        if offset.unsigned_abs() > ELEMENTS_MAX as u64 {
            return Err(too_many_elements());
        }
        let last = length.max(offset + 1);
        *dimension = Dimension::new(
            (last - offset.min(0)) as usize,
            dimension.lower.min(*subscript),
        )?;
        if offset < 0 {
            let gap = std::iter::repeat_n(Datum::Null, (-offset) as usize);
            changed.elements.splice(0..0, gap);
            changed.elements[0] = new;
        } else {
            if offset >= length {
                changed.elements.resize(offset as usize + 1, Datum::Null);
            }
            changed.elements[offset as usize] = new;
        }
        return Ok(datum(changed));
    }
    let mut place = 0;
    for (subscript, dimension) in subscripts.iter().zip(&changed.dimensions) {
        let offset = i64::from(*subscript) - i64::from(dimension.lower);
        match usize::try_from(offset) {
            Ok(offset) if offset < dimension.length => place = place * dimension.length + offset,
            _ => return Err(wrong_shape("array subscript out of range")),
        }
    }
    changed.elements[place] = new;
    Ok(datum(changed))
}

/// The array with other elements within bounds, for `UPDATE ... SET a[i:j] = x`. The new elements
/// are the first ones of `new`, of which there must be enough.
pub fn with_slice(
    array: &Datum,
    kind: Kind,
    bounds: &[(Option<i32>, Option<i32>)],
    new: &Datum,
) -> Result<Datum> {
    let Datum::Array(new) = new else {
        // A slice without a value leaves the array as it is.
        return Ok(array.clone());
    };
    let old = match array {
        Datum::Null => Array::new(kind, Vec::new()),
        other => (**other.array()?).clone(),
    };
    let is_empty = old.dimensions.is_empty();
    check_dimensions(bounds.len())?;
    if !is_empty && bounds.len() > old.dimensions.len() {
        return Err(wrong_shape("wrong number of array subscripts"));
    }
    let mut ranges = Vec::with_capacity(bounds.len());
    for place in 0..bounds.len().max(old.dimensions.len()) {
        let (low, high) = bounds.get(place).copied().unwrap_or((None, None));
        let (low, high) = match old.dimensions.get(place) {
            None => match (low, high) {
                (Some(low), Some(high)) => (low, high),
                (None, Some(high)) => (1, high),
                _ => return Err(incomplete_slice()),
            },
            Some(dimension) => (
                low.unwrap_or(dimension.lower),
                high.unwrap_or(dimension.upper()),
            ),
        };
        if low > high {
            return Err(wrong_shape("upper bound cannot be less than lower bound"));
        }
        ranges.push((low, high));
    }
    assigned_slice(old, kind, &ranges, new)
}

/// Puts the first elements of an array into the ranges of another one, which grows if it has one
/// dimension.
fn assigned_slice(old: Array, kind: Kind, ranges: &[(i32, i32)], new: &Array) -> Result<Datum> {
    let length = |(low, high): (i32, i32)| (i64::from(high) - i64::from(low) + 1) as usize;
    let wanted = ranges
        .iter()
        .try_fold(1_usize, |all, range| all.checked_mul(length(*range)))
        .filter(|wanted| *wanted <= ELEMENTS_MAX)
        .ok_or_else(too_many_elements)?;
    if new.elements.len() < wanted {
        return Err(wrong_shape("source array too small"));
    }
    let mut result = old;
    if result.dimensions.is_empty() {
        let dimensions = ranges
            .iter()
            .map(|range| Dimension::new(length(*range), range.0));
        result = Array {
            element: kind,
            dimensions: dimensions.collect::<Result<_>>()?,
            elements: new.elements[..wanted].to_vec(),
        };
        return Ok(datum(result));
    }
    if let ([(low, high)], [dimension]) = (ranges, result.dimensions.as_mut_slice()) {
        let first = i64::from(*low).min(i64::from(dimension.lower));
        let last = i64::from(*high).max(i64::from(dimension.upper()));
        let count = (last - first + 1) as usize;
        if count > ELEMENTS_MAX {
            return Err(too_many_elements());
        }
        let before = (i64::from(dimension.lower) - first) as usize;
        *dimension = Dimension::new(count, first as i32)?;
        let gap = std::iter::repeat_n(Datum::Null, before);
        result.elements.splice(0..0, gap);
        result.elements.resize(count, Datum::Null);
        let start = (i64::from(*low) - first) as usize;
        result.elements[start..start + wanted].clone_from_slice(&new.elements[..wanted]);
        return Ok(datum(result));
    }
    let is_inside = result
        .dimensions
        .iter()
        .zip(ranges)
        .all(|(dimension, (low, high))| dimension.lower <= *low && *high <= dimension.upper());
    if !is_inside {
        return Err(wrong_shape("array subscript out of range"));
    }
    let mut source = new.elements.iter();
    for place in 0..result.elements.len() {
        let mut rest = place;
        let is_within = result
            .dimensions
            .iter()
            .zip(ranges)
            .rev()
            .all(|(dimension, range)| {
                let at = i64::from(dimension.lower) + (rest % dimension.length) as i64;
                rest /= dimension.length;
                (i64::from(range.0)..=i64::from(range.1)).contains(&at)
            });
        if is_within && let Some(element) = source.next() {
            result.elements[place] = element.clone();
        }
    }
    Ok(datum(result))
}

fn incomplete_slice() -> SqlError {
    let message = "array slice subscript must provide both boundaries";
    SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
        .detail("When assigning to a slice of an empty array value, slice boundaries must be fully specified.")
}
