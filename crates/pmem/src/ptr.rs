//! Typed offsets: the only pointers that may be stored in a pool.
//!
//! An [`NvPtr`] is the distance in bytes from the start of its pool, so a pool may be mapped at any
//! address. Offset 0 is the pool's header, which no structure points to; it serves as null.

use crate::plain::Plain;
use std::fmt;
use std::marker::PhantomData;

/// A typed offset in bytes from the start of a pool. Zero is null.
#[repr(transparent)]
pub struct NvPtr<T> {
    offset: u64,
    target: PhantomData<fn() -> T>,
}

impl<T> NvPtr<T> {
    /// The pointer that points nowhere.
    pub const NULL: Self = Self::new(0);

    /// Points to `offset` bytes from the start of the pool. The target is validated on use.
    pub const fn new(offset: u64) -> Self {
        Self {
            offset,
            target: PhantomData,
        }
    }

    /// Distance in bytes from the start of the pool.
    pub const fn offset(self) -> u64 {
        self.offset
    }

    /// Whether this is [`NvPtr::NULL`].
    pub const fn is_null(self) -> bool {
        self.offset == 0
    }
}

impl<T> Clone for NvPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for NvPtr<T> {}
impl<T> PartialEq for NvPtr<T> {
    fn eq(&self, other: &Self) -> bool {
        self.offset == other.offset
    }
}
impl<T> Eq for NvPtr<T> {}
impl<T> fmt::Debug for NvPtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{:#x}", self.offset)
    }
}

// SAFETY: `repr(transparent)` over `u64`; the marker has size zero.
unsafe impl<T: 'static> Plain for NvPtr<T> {}
