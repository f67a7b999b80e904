//! The six comparisons, for all pairs of types that PostgreSQL compares without a conversion.
//!
//! Numbers of different types are compared by value, not by a rounded conversion. NULL never comes
//! here, since all of them are strict.

use super::super::context::CallContext;
use super::super::datetime::convert;
use super::super::datum::Datum;
use super::super::function::{Body, Function};
use super::super::kind::Kind::{
    self, AnyArray, AnyEnum, Bool, Bpchar, Bytea, Char, Date, Float4, Float8, Int2, Int4, Int8,
    Interval, Jsonb, Name, Numeric, Oid, OidVector, Record, Text, Tid, Time, Timestamp,
    Timestamptz, Timetz, Uuid, Xid,
};
use crate::error::Result;
use std::cmp::Ordering;

macro_rules! comparisons {
    ($table:ident, $name:literal, $holds:expr) => {
        comparisons! { $table, $name, $holds;
            Bool Bool, Bytea Bytea, Char Char, Name Name, Name Text, Text Name, Text Text,
            Bpchar Bpchar, Int2 Int2, Int2 Int4, Int2 Int8, Int4 Int2, Int4 Int4, Int4 Int8,
            Int8 Int2, Int8 Int4, Int8 Int8, Oid Oid, Tid Tid, Xid Xid, OidVector OidVector,
            Float4 Float4, Float4 Float8, Float8 Float4, Float8 Float8, Numeric Numeric,
            Date Date, Time Time, Timetz Timetz, Timestamp Timestamp, Timestamptz Timestamptz,
            Interval Interval, Uuid Uuid, Jsonb Jsonb, AnyArray AnyArray, AnyEnum AnyEnum,
            Record Record;
            Date Timestamp, Date Timestamptz, Timestamp Date, Timestamp Timestamptz,
            Timestamptz Date, Timestamptz Timestamp
        }
    };
    ($table:ident, $name:literal, $holds:expr;
     $($left:ident $right:ident),*; $($early:ident $late:ident),*) => {
        #[doc = concat!("The operators `", $name, "`.")]
        pub(super) const $table: &[Function] = &[
            $(Function::with_body($name, &[$left, $right], Bool, Body::Comparison($holds)),)*
            $(Function::scalar($name, &[$early, $late], Bool, |context, arguments| {
                let holds: fn(Ordering) -> bool = $holds;
                Ok(Datum::Bool(holds(compare_moments(context, arguments)?)))
            }).stable(),)*
        ];
    };
}

comparisons!(EQUAL, "=", Ordering::is_eq);
comparisons!(NOT_EQUAL, "<>", Ordering::is_ne);
comparisons!(LESS, "<", Ordering::is_lt);
comparisons!(LESS_OR_EQUAL, "<=", Ordering::is_le);
comparisons!(GREATER, ">", Ordering::is_gt);
comparisons!(GREATER_OR_EQUAL, ">=", Ordering::is_ge);

/// Numbers of transactions beside integers, which have the same bits.
pub(super) const TRANSACTIONS: &[Function] = &[
    Function::scalar("=", &[Xid, Int4], Bool, |_, a| Ok(is_transaction(a, true))),
    Function::scalar("<>", &[Xid, Int4], Bool, |_, a| {
        Ok(is_transaction(a, false))
    }),
];

fn is_transaction(arguments: &[Datum], wanted: bool) -> Datum {
    let Datum::Int4(number) = arguments[1] else {
        return Datum::Null;
    };
    let is_same = arguments[0] == Datum::Oid(number.cast_unsigned());
    Datum::Bool(is_same == wanted)
}

/// Compares dates and timestamps of two types as the one that says most.
fn compare_moments(context: &CallContext<'_>, arguments: &[Datum]) -> Result<Ordering> {
    let kinds = [arguments[0].kind(), arguments[1].kind()];
    let common = if kinds.contains(&Timestamptz) {
        Timestamptz
    } else {
        Timestamp
    };
    let side = |datum: &Datum| as_moment(context, datum, common);
    Ok(side(&arguments[0])?.cmp(&side(&arguments[1])?))
}

/// The moment of a value; dates beyond all timestamps are later than all of them.
fn as_moment(context: &CallContext<'_>, datum: &Datum, common: Kind) -> Result<i64> {
    if datum.kind() == common {
        return datum.timestamp();
    }
    match convert::moments(datum, common, &context.context) {
        Ok(Some(converted)) => converted.timestamp(),
        Ok(None) => datum.timestamp(),
        Err(_) if matches!(datum, Datum::Date(days) if *days > 0) => Ok(i64::MAX - 1),
        Err(error) => Err(error),
    }
}
