//! Keys and ranges as a caller writes them: integers, texts, tuples, slices of values, and Rust
//! ranges of these.
//!
//! A key is given as column values, in the order of the index's columns; fewer values than columns
//! are a prefix. Values are lent to the encoder on the stack, so a key costs no allocation. An
//! integer fits an integer column of any width that holds it.

use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};
use storage::record::{Date, Decimal, Timestamp, Uuid, Value, ValueRef};

/// Most columns of a key.
pub const KEY_COLUMNS_MAX: usize = 16;

/// A value for one column of a key or row.
pub trait IntoColumn {
    /// The value, borrowed.
    fn column(&self) -> ValueRef<'_>;
}

/// Values for a key or for the first columns of one.
pub trait IntoKey {
    /// Lends the values, in the order of the key's columns.
    fn lend<R>(&self, borrow: impl FnOnce(&[ValueRef<'_>]) -> R) -> R;
}

macro_rules! key_columns {
    ($($type:ty => |$value:ident| $column:expr;)*) => {$(
        impl IntoColumn for $type {
            #[inline]
            fn column(&self) -> ValueRef<'_> {
                let $value = self;
                $column
            }
        }
        impl IntoKey for $type {
            #[inline]
            fn lend<R>(&self, borrow: impl FnOnce(&[ValueRef<'_>]) -> R) -> R {
                borrow(&[self.column()])
            }
        }
    )*};
}

key_columns! {
    bool => |value| ValueRef::Bool(*value);
    i16 => |value| ValueRef::Int16(*value);
    i32 => |value| ValueRef::Int32(*value);
    i64 => |value| ValueRef::Int64(*value);
    u8 => |value| ValueRef::Int64(i64::from(*value));
    u16 => |value| ValueRef::Int64(i64::from(*value));
    u32 => |value| ValueRef::Int64(i64::from(*value));
    f64 => |value| ValueRef::Float64(*value);
    str => |value| ValueRef::Text(value);
    &str => |value| ValueRef::Text(value);
    String => |value| ValueRef::Text(value);
    &String => |value| ValueRef::Text(value);
    &[u8] => |value| ValueRef::Bytes(value);
    Vec<u8> => |value| ValueRef::Bytes(value);
    Decimal => |value| ValueRef::Decimal(*value);
    Date => |value| ValueRef::Date(*value);
    Timestamp => |value| ValueRef::Timestamp(*value);
    Uuid => |value| ValueRef::Uuid(*value);
    Value => |value| value.as_ref();
    &Value => |value| value.as_ref();
}

impl<T: IntoColumn> IntoColumn for Option<T> {
    /// `None` is NULL.
    fn column(&self) -> ValueRef<'_> {
        self.as_ref().map_or(ValueRef::Null, IntoColumn::column)
    }
}

impl IntoColumn for ValueRef<'_> {
    fn column(&self) -> ValueRef<'_> {
        *self
    }
}

impl IntoKey for &[Value] {
    fn lend<R>(&self, borrow: impl FnOnce(&[ValueRef<'_>]) -> R) -> R {
        let mut columns = [ValueRef::Null; KEY_COLUMNS_MAX];
        if self.len() > KEY_COLUMNS_MAX {
            // Too long for any index: the encoder reports that.
            let columns: Vec<ValueRef<'_>> = self.iter().map(Value::as_ref).collect();
            return borrow(&columns);
        }
        for (column, value) in columns.iter_mut().zip(*self) {
            *column = value.as_ref();
        }
        borrow(&columns[..self.len()])
    }
}

impl IntoKey for &[ValueRef<'_>] {
    fn lend<R>(&self, borrow: impl FnOnce(&[ValueRef<'_>]) -> R) -> R {
        borrow(self)
    }
}

impl<const N: usize> IntoKey for [Value; N] {
    fn lend<R>(&self, borrow: impl FnOnce(&[ValueRef<'_>]) -> R) -> R {
        self.as_slice().lend(borrow)
    }
}

impl<const N: usize> IntoKey for &[Value; N] {
    fn lend<R>(&self, borrow: impl FnOnce(&[ValueRef<'_>]) -> R) -> R {
        self.as_slice().lend(borrow)
    }
}

impl IntoKey for Vec<Value> {
    fn lend<R>(&self, borrow: impl FnOnce(&[ValueRef<'_>]) -> R) -> R {
        self.as_slice().lend(borrow)
    }
}

impl IntoKey for &Vec<Value> {
    fn lend<R>(&self, borrow: impl FnOnce(&[ValueRef<'_>]) -> R) -> R {
        self.as_slice().lend(borrow)
    }
}

macro_rules! key_tuples {
    ($(($($name:ident $at:tt),+);)*) => {$(
        impl<$($name: IntoColumn),+> IntoKey for ($($name,)+) {
            #[inline]
            fn lend<Out>(&self, borrow: impl FnOnce(&[ValueRef<'_>]) -> Out) -> Out {
                borrow(&[$(self.$at.column()),+])
            }
        }
    )*};
}

key_tuples! {
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
}

/// All keys that begin with these column values.
#[derive(Clone, Copy, Debug)]
pub struct Prefix<K>(pub K);

/// A range of keys. A bound with fewer columns than the index stands for all keys that begin with
/// it.
pub trait IntoKeyRange {
    /// Lends the values of both bounds.
    fn lend_bounds<R>(
        &self,
        borrow: impl FnOnce(Bound<&[ValueRef<'_>]>, Bound<&[ValueRef<'_>]>) -> R,
    ) -> R;
}

impl IntoKeyRange for RangeFull {
    fn lend_bounds<R>(
        &self,
        borrow: impl FnOnce(Bound<&[ValueRef<'_>]>, Bound<&[ValueRef<'_>]>) -> R,
    ) -> R {
        borrow(Bound::Unbounded, Bound::Unbounded)
    }
}

impl<K: IntoKey> IntoKeyRange for Prefix<K> {
    fn lend_bounds<R>(
        &self,
        borrow: impl FnOnce(Bound<&[ValueRef<'_>]>, Bound<&[ValueRef<'_>]>) -> R,
    ) -> R {
        self.0
            .lend(|key| borrow(Bound::Included(key), Bound::Included(key)))
    }
}

macro_rules! key_ranges {
    ($($type:ident => |$range:ident| $low:expr, $high:expr;)*) => {$(
        impl<K: IntoKey> IntoKeyRange for $type<K> {
            fn lend_bounds<R>(
                &self,
                borrow: impl FnOnce(Bound<&[ValueRef<'_>]>, Bound<&[ValueRef<'_>]>) -> R,
            ) -> R {
                let $range = self;
                lend_both($low, $high, borrow)
            }
        }
    )*};
}

key_ranges! {
    Range => |range| Bound::Included(&range.start), Bound::Excluded(&range.end);
    RangeInclusive => |range| Bound::Included(range.start()), Bound::Included(range.end());
    RangeFrom => |range| Bound::Included(&range.start), Bound::Unbounded;
    RangeTo => |range| Bound::Unbounded, Bound::Excluded(&range.end);
    RangeToInclusive => |range| Bound::Unbounded, Bound::Included(&range.end);
}

impl<K: IntoKey> IntoKeyRange for (Bound<K>, Bound<K>) {
    fn lend_bounds<R>(
        &self,
        borrow: impl FnOnce(Bound<&[ValueRef<'_>]>, Bound<&[ValueRef<'_>]>) -> R,
    ) -> R {
        lend_both(self.0.as_ref(), self.1.as_ref(), borrow)
    }
}

fn lend_both<K: IntoKey, R>(
    low: Bound<&K>,
    high: Bound<&K>,
    borrow: impl FnOnce(Bound<&[ValueRef<'_>]>, Bound<&[ValueRef<'_>]>) -> R,
) -> R {
    lend_bound(low, |low| lend_bound(high, |high| borrow(low, high)))
}

fn lend_bound<K: IntoKey, R>(
    bound: Bound<&K>,
    borrow: impl FnOnce(Bound<&[ValueRef<'_>]>) -> R,
) -> R {
    match bound {
        Bound::Unbounded => borrow(Bound::Unbounded),
        Bound::Included(key) => key.lend(|values| borrow(Bound::Included(values))),
        Bound::Excluded(key) => key.lend(|values| borrow(Bound::Excluded(values))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lend_their_columns() {
        assert_eq!(7_i64.lend(|columns| columns.len()), 1);
        assert_eq!((7_i64, "x").lend(|columns| columns.len()), 2);
        let values = vec![Value::Int64(1), Value::Text("b".into())];
        assert!(values.lend(|columns| columns[1] == ValueRef::Text("b")));
        assert_eq!(values.as_slice().lend(|columns| columns.len()), 2);
    }

    #[test]
    fn ranges_lend_their_bounds() {
        let open = (3_i64..).lend_bounds(|_, high| matches!(high, Bound::Unbounded));
        assert!(open);
        let closed = (1_i64..=2).lend_bounds(|low, high| {
            matches!((low, high), (Bound::Included(_), Bound::Included(_)))
        });
        assert!(closed);
        assert!((..).lend_bounds(|low, _| matches!(low, Bound::Unbounded)));
    }
}
