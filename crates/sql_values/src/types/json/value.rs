//! The tree of a `jsonb` value, with PostgreSQL's order.
//!
//! Keys of objects stand once each, by length and then by bytes, which is the order in which
//! PostgreSQL prints them. Numbers are exact.

use super::super::numeric::Numeric;
use std::cmp::Ordering;

/// A value of `jsonb`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Numeric),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// Pairs in the order of `compare_keys`.
    Object(Vec<(String, Json)>),
}

/// Shorter keys come first.
pub(crate) fn compare_keys(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

impl Json {
    /// An object of pairs in any order, of which the last of a key counts.
    pub fn object(mut pairs: Vec<(String, Json)>) -> Self {
        pairs.reverse();
        pairs.sort_by(|(a, _), (b, _)| compare_keys(a, b));
        pairs.dedup_by(|(later, _), (kept, _)| later == kept);
        Self::Object(pairs)
    }

    /// Bytes that it takes in memory, besides those of long numbers.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::String(text) => text.len(),
                Self::Array(elements) => elements.iter().map(Self::bytes).sum(),
                Self::Object(pairs) => {
                    let pairs = pairs.iter();
                    pairs.map(|(key, value)| key.len() + value.bytes()).sum()
                }
                Self::Null | Self::Bool(_) | Self::Number(_) => 0,
            }
    }

    /// The value of a key of an object.
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Self::Object(pairs) => pairs
                .binary_search_by(|(other, _)| compare_keys(other, key))
                .ok()
                .map(|index| &pairs[index].1),
            _ => None,
        }
    }

    /// An element of an array; negative numbers count from its end.
    pub fn at(&self, index: i64) -> Option<&Json> {
        match self {
            Self::Array(elements) => elements.get(place(index, elements.len())?),
            Self::Object(_) => None,
            // A scalar counts as an array of itself.
            scalar => place(index, 1).map(|_| scalar),
        }
    }

    /// The place of its type in the order of types.
    fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::String(_) => 1,
            Self::Number(_) => 2,
            Self::Bool(_) => 3,
            Self::Array(_) => 4,
            Self::Object(_) => 5,
        }
    }
}

/// The index that counts from the end where it is negative.
pub fn place(index: i64, length: usize) -> Option<usize> {
    let index = if index < 0 {
        index + length as i64
    } else {
        index
    };
    usize::try_from(index).ok().filter(|index| *index < length)
}

impl PartialOrd for Json {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Json {
    /// As PostgreSQL has it, an empty array comes before a value that is neither an array nor an
    /// object, but only where it is the whole of a value.
    fn cmp(&self, other: &Self) -> Ordering {
        let is_empty = |json: &Self| matches!(json, Self::Array(elements) if elements.is_empty());
        let is_scalar = |json: &Self| !matches!(json, Self::Array(_) | Self::Object(_));
        if is_empty(self) && is_scalar(other) {
            Ordering::Less
        } else if is_scalar(self) && is_empty(other) {
            Ordering::Greater
        } else {
            self.compare(other)
        }
    }
}

impl Json {
    /// Objects, arrays, booleans, numbers, strings, null, from the greatest; containers by their
    /// number of members first.
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Number(a), Self::Number(b)) => a.cmp(b),
            (Self::String(a), Self::String(b)) => a.cmp(b),
            (Self::Array(a), Self::Array(b)) => a.len().cmp(&b.len()).then_with(|| {
                let pairs = a.iter().zip(b);
                first_difference(pairs.map(|(a, b)| a.compare(b)))
            }),
            (Self::Object(a), Self::Object(b)) => {
                a.len().cmp(&b.len()).then_with(|| {
                    let pairs = a.iter().zip(b);
                    first_difference(pairs.map(|((a_key, a), (b_key, b))| {
                        a_key.cmp(b_key).then_with(|| a.compare(b))
                    }))
                })
            }
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

fn first_difference(mut orders: impl Iterator<Item = Ordering>) -> Ordering {
    orders
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}
