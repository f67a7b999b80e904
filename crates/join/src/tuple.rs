//! The tuples of a relation: a key and a payload, 4 + 4 or 8 + 8 bytes wide.
//!
//! An 8-byte tuple is one word with the key in its upper half, so that its order as an integer is
//! the order of its keys and one store moves it. A 16-byte tuple is two words. Any bit pattern is a
//! tuple: no key and no payload is reserved, because the tables mark free slots with keys of
//! another partition.

use crate::error::{JoinError, Result};
use std::fmt::Debug;

/// The most tuples of a relation: positions are 32 bits wide.
pub const TUPLES_MAX: usize = 1 << 31;

/// Types of which any bit pattern is a value, aligned to a cache line at most; sealed.
pub(crate) use sealed::Sealed as Plain;

mod sealed {
    pub trait Sealed: Copy {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
    impl Sealed for super::Tuple8 {}
    impl Sealed for super::Tuple16 {}
}

/// A key or a payload: `u32` or `u64`.
pub trait Word:
    Copy + Ord + Debug + Default + Into<u64> + Send + Sync + sealed::Sealed + 'static
{
    /// The word with the lower bits of `value`.
    fn truncate(value: u64) -> Self;
    /// Bits that a multiplication can spread: all bits of the word count, at least in the lower
    /// half.
    fn mixed(self) -> u64;
}

impl Word for u32 {
    #[inline(always)]
    fn truncate(value: u64) -> Self {
        value as u32
    }
    #[inline(always)]
    fn mixed(self) -> u64 {
        u64::from(self)
    }
}

impl Word for u64 {
    #[inline(always)]
    fn truncate(value: u64) -> Self {
        value
    }
    // Keys that differ in upper bits only would share the upper bits of a product.
    #[inline(always)]
    fn mixed(self) -> u64 {
        self ^ (self >> 32)
    }
}

/// A function with an instance for each type of tuple. As no instance is generic, they are compiled
/// here, once and optimised, and not again in every crate that joins.
pub(crate) trait PerTuple {
    type Argument<'a, T: Tuple>;
    type Output<T: Tuple>;

    fn of_8(argument: Self::Argument<'_, Tuple8>) -> Self::Output<Tuple8>;
    fn of_16(argument: Self::Argument<'_, Tuple16>) -> Self::Output<Tuple16>;
}

/// A type of tuple that functions have an instance for.
pub(crate) trait Compiled: Sized {
    fn call<F: PerTuple>(argument: F::Argument<'_, Self>) -> F::Output<Self>
    where
        Self: Tuple;
}

impl Compiled for Tuple8 {
    fn call<F: PerTuple>(argument: F::Argument<'_, Self>) -> F::Output<Self> {
        F::of_8(argument)
    }
}

impl Compiled for Tuple16 {
    fn call<F: PerTuple>(argument: F::Argument<'_, Self>) -> F::Output<Self> {
        F::of_16(argument)
    }
}

/// A key with its payload: [`Tuple8`] or [`Tuple16`].
#[expect(
    private_bounds,
    reason = "how a join is compiled is nothing to call, and nobody else adds a type of tuple"
)]
pub trait Tuple:
    Copy + Debug + Default + Eq + Send + Sync + sealed::Sealed + Compiled + 'static
{
    /// The type of key and payload.
    type Word: Word;
    /// Size in memory.
    const BYTES: usize = size_of::<Self>();

    /// A tuple of a key and a payload.
    fn new(key: Self::Word, payload: Self::Word) -> Self;
    /// The part that is compared.
    fn key(self) -> Self::Word;
    /// The part that is carried along: a value, or the number of a row.
    fn payload(self) -> Self::Word;
}

/// A 4-byte key and a 4-byte payload in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Tuple8(u64);

impl Tuple for Tuple8 {
    type Word = u32;
    #[inline(always)]
    fn new(key: u32, payload: u32) -> Self {
        Self(u64::from(key) << 32 | u64::from(payload))
    }
    #[inline(always)]
    fn key(self) -> u32 {
        (self.0 >> 32) as u32
    }
    #[inline(always)]
    fn payload(self) -> u32 {
        self.0 as u32
    }
}

/// An 8-byte key and an 8-byte payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C, align(16))]
pub struct Tuple16 {
    key: u64,
    payload: u64,
}

impl Tuple for Tuple16 {
    type Word = u64;
    #[inline(always)]
    fn new(key: u64, payload: u64) -> Self {
        Self { key, payload }
    }
    #[inline(always)]
    fn key(self) -> u64 {
        self.key
    }
    #[inline(always)]
    fn payload(self) -> u64 {
        self.payload
    }
}

/// Tuples of the caller: one side of a join, never modified.
#[derive(Clone, Copy, Debug)]
pub struct Relation<'a, T> {
    tuples: &'a [T],
}

impl<'a, T: Tuple> Relation<'a, T> {
    /// A view of the caller's tuples.
    pub fn new(tuples: &'a [T]) -> Self {
        Self { tuples }
    }

    /// The tuples, in the caller's order.
    pub fn tuples(self) -> &'a [T] {
        self.tuples
    }

    /// Number of tuples.
    pub fn len(self) -> usize {
        self.tuples.len()
    }

    /// Whether there is no tuple.
    pub fn is_empty(self) -> bool {
        self.tuples.is_empty()
    }
}

impl<'a, T: Tuple> From<&'a [T]> for Relation<'a, T> {
    fn from(tuples: &'a [T]) -> Self {
        Self::new(tuples)
    }
}

impl<'a, T: Tuple> From<&'a Vec<T>> for Relation<'a, T> {
    fn from(tuples: &'a Vec<T>) -> Self {
        Self::new(tuples)
    }
}

/// Tuples of a column of keys and a column of payloads; [`JoinError::LengthMismatch`] if one is
/// longer.
pub fn zip_columns<T: Tuple>(keys: &[T::Word], payloads: &[T::Word]) -> Result<Vec<T>> {
    if keys.len() != payloads.len() {
        return Err(JoinError::LengthMismatch {
            keys: keys.len(),
            payloads: payloads.len(),
        });
    }
    let pairs = keys.iter().zip(payloads);
    Ok(pairs.map(|(&key, &payload)| T::new(key, payload)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuple_gives_back_what_it_was_made_of() {
        for (key, payload) in [(0, 0), (u32::MAX, 0), (0, u32::MAX), (7, 9)] {
            let tuple = Tuple8::new(key, payload);
            assert_eq!((tuple.key(), tuple.payload()), (key, payload));
            let wide = Tuple16::new(key.into(), payload.into());
            assert_eq!((wide.key(), wide.payload()), (key.into(), payload.into()));
        }
        assert_eq!((Tuple8::BYTES, Tuple16::BYTES), (8, 16));
    }

    #[test]
    fn columns_have_to_be_equally_long() {
        let tuples = zip_columns::<Tuple8>(&[1, 2], &[3, 4]).unwrap();
        assert_eq!(tuples, [Tuple8::new(1, 3), Tuple8::new(2, 4)]);
        let error = zip_columns::<Tuple8>(&[1], &[]).unwrap_err();
        assert!(matches!(
            error,
            JoinError::LengthMismatch {
                keys: 1,
                payloads: 0
            }
        ));
    }
}
