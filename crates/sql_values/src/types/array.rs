//! Arrays: elements of one kind in up to six dimensions, with lower bounds.
//!
//! An array without elements has no dimensions, and all elements of one array have the same kind.

use super::datum::Datum;
use super::kind::Kind;
use crate::error::{Result, SqlError, SqlState};
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// The most dimensions of an array.
const DIMENSIONS_MAX: usize = 6;
/// The most elements of an array: their number must fit a size of 1 GiB, as in PostgreSQL.
pub const ELEMENTS_MAX: usize = 134_217_727;

/// One dimension of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dimension {
    /// Elements.
    pub length: usize,
    /// The subscript of the first one.
    pub lower: i32,
}

impl Dimension {
    /// A dimension of so many elements from a subscript on.
    ///
    /// # Errors
    ///
    /// 54000 if the subscript after the last one is no `integer`, as in PostgreSQL.
    pub fn new(length: usize, lower: i32) -> Result<Self> {
        let end = i64::from(lower) + length as i64;
        if end > i64::from(i32::MAX) {
            let message = format!("array lower bound is too large: {lower}");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        Ok(Self { length, lower })
    }

    /// The subscript of the last element.
    pub fn upper(self) -> i32 {
        (i64::from(self.lower) + self.length as i64 - 1) as i32
    }
}

/// An array.
#[derive(Clone, Debug)]
pub struct Array {
    /// The kind of the elements.
    pub element: Kind,
    /// Its dimensions, from the outermost; none where it is empty.
    pub dimensions: Vec<Dimension>,
    /// The elements, the last dimension running fastest.
    pub elements: Vec<Datum>,
}

impl Array {
    /// An array of one dimension that begins at 1.
    pub fn new(element: Kind, elements: Vec<Datum>) -> Self {
        Self::from_lower(element, 1, elements)
    }

    /// An array of one dimension.
    pub fn from_lower(element: Kind, lower: i32, elements: Vec<Datum>) -> Self {
        let length = elements.len();
        let dimensions = match length {
            0 => Vec::new(),
            _ => vec![Dimension { length, lower }],
        };
        Self {
            element,
            dimensions,
            elements,
        }
    }

    /// An array of several that have one shape.
    ///
    /// # Errors
    ///
    /// 54000 if it has more dimensions than there may be.
    pub fn nested(
        element: Kind,
        (count, inner): (usize, &[Dimension]),
        elements: Vec<Datum>,
    ) -> Result<Self> {
        check_dimensions(inner.len() + 1)?;
        let mut dimensions = Vec::new();
        if !inner.is_empty() {
            dimensions.push(Dimension::new(count, 1)?);
            dimensions.extend(inner);
        }
        Ok(Self {
            element,
            dimensions,
            elements,
        })
    }

    /// The element at the subscripts, where there is one.
    pub fn get(&self, subscripts: &[i32]) -> Option<&Datum> {
        if subscripts.len() != self.dimensions.len() {
            return None;
        }
        let mut place = 0_usize;
        for (subscript, dimension) in subscripts.iter().zip(&self.dimensions) {
            let offset = i64::from(*subscript) - i64::from(dimension.lower);
            let offset = usize::try_from(offset).ok()?;
            if offset >= dimension.length {
                return None;
            }
            place = place * dimension.length + offset;
        }
        self.elements.get(place)
    }
}

impl PartialEq for Array {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Array {}

impl PartialOrd for Array {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Array {
    /// By elements; then the one with fewer of them, fewer dimensions or smaller bounds is less.
    fn cmp(&self, other: &Self) -> Ordering {
        let bounds = |array: &Self| -> Vec<(usize, i32)> {
            let dimensions = array.dimensions.iter();
            dimensions.map(|one| (one.length, one.lower)).collect()
        };
        self.elements
            .cmp(&other.elements)
            .then_with(|| self.dimensions.len().cmp(&other.dimensions.len()))
            .then_with(|| bounds(self).cmp(&bounds(other)))
    }
}

impl Hash for Array {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.elements.hash(state);
    }
}

/// Fails if an array has more dimensions than there may be.
pub fn check_dimensions(count: usize) -> Result<()> {
    if count <= DIMENSIONS_MAX {
        return Ok(());
    }
    Err(SqlError::new(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        format!(
            "number of array dimensions ({count}) exceeds the maximum allowed ({DIMENSIONS_MAX})"
        ),
    ))
}
