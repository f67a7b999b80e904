//! Which types may live in a pool.
//!
//! A [`Plain`] type has a fixed layout without padding, no pointers but [`NvPtr`](crate::NvPtr),
//! and every bit pattern is a value of it: reading a damaged pool may give a wrong value, never
//! undefined behaviour.

/// A type that may be read from any suitably aligned bytes of a pool.
///
/// # Safety
/// The type must be `repr(C)` or `repr(transparent)` (or a primitive integer or an array of such),
/// have no padding bytes, no interior mutability, no references, and be valid for every bit
/// pattern.
pub unsafe trait Plain: Copy + 'static {}

macro_rules! plain_integers {
    ($($t:ty),*) => {$(
        // SAFETY: primitive integers have no padding and every bit pattern is a value.
        unsafe impl Plain for $t {}
    )*};
}
plain_integers!(u8, u16, u32, u64, i8, i16, i32, i64);

// SAFETY: an array of `T` has the layout of its elements one after the other, without padding
// between them.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}
