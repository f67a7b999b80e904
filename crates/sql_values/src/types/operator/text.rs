//! Operators of texts and bytes: joining them, and patterns.
//!
//! Comparisons and patterns see code points, as the collation C does. Bytes are joined as they are
//! and are no text.

use super::super::cast::{CastContext, cast};
use super::super::context::CallContext;
use super::super::datum::{Datum, without_blanks};
use super::super::function::Function;
use super::super::function::like::{Case, Unit, like, like_bytes};
use super::super::function::pattern::{Options, compile};
use super::super::kind::Kind::{self, AnyNonArray, Bool, Bpchar, Bytea, Name, Text};
use super::super::size;
use crate::error::Result;

/// The text of any value, as a cast gives it.
pub fn as_text(context: &CallContext<'_>, arguments: &[Datum], place: usize) -> Result<Datum> {
    let datum = &arguments[place];
    let from = context
        .argument_types
        .get(place)
        .map_or(datum.kind(), |one| one.kind);
    cast(
        datum.clone(),
        from,
        Text.plain(),
        CastContext::Explicit,
        &context.context,
    )
}

/// One text after the other.
pub fn joined(left: &str, right: &str) -> Result<Datum> {
    size::check(left.len() + right.len())?;
    Ok(Datum::text([left, right].concat()))
}

/// Patterns see the blanks at the end of `char(n)`.
fn is_like(a: &[Datum], case: Case) -> Result<bool> {
    like(a[0].str()?, a[1].str()?, case)
}

fn matches(a: &[Datum], case: Case) -> Result<bool> {
    let regex = compile(a[1].str()?, Options::new(case))?;
    Ok(regex.is_match(a[0].str()?))
}

macro_rules! patterns {
    ($($kind:ident),*) => {
        &[
            $(
                Function::scalar("~~", &[$kind, Text], Bool, |_, a| {
                    is_like(a, Case::Sensitive).map(Datum::Bool)
                }),
                Function::scalar("!~~", &[$kind, Text], Bool, |_, a| {
                    is_like(a, Case::Sensitive).map(|found| Datum::Bool(!found))
                }),
                Function::scalar("~~*", &[$kind, Text], Bool, |_, a| {
                    is_like(a, Case::Insensitive).map(Datum::Bool)
                }),
                Function::scalar("!~~*", &[$kind, Text], Bool, |_, a| {
                    is_like(a, Case::Insensitive).map(|found| Datum::Bool(!found))
                }),
                Function::scalar("~", &[$kind, Text], Bool, |_, a| {
                    matches(a, Case::Sensitive).map(Datum::Bool)
                }),
                Function::scalar("!~", &[$kind, Text], Bool, |_, a| {
                    matches(a, Case::Sensitive).map(|found| Datum::Bool(!found))
                }),
                Function::scalar("~*", &[$kind, Text], Bool, |_, a| {
                    matches(a, Case::Insensitive).map(Datum::Bool)
                }),
                Function::scalar("!~*", &[$kind, Text], Bool, |_, a| {
                    matches(a, Case::Insensitive).map(|found| Datum::Bool(!found))
                }),
            )*
        ]
    };
}

/// LIKE, ILIKE and regular expressions.
pub(super) const PATTERNS: &[Function] = patterns![Name, Text, Bpchar];

/// An operator that compares by bytes, whatever the collation.
const fn by_bytes(
    name: &'static str,
    arguments: &'static [Kind],
    call: super::super::function::Scalar,
) -> Function {
    Function::scalar(name, arguments, Bool, call)
}

/// The others.
pub(super) const OPERATORS: &[Function] = &[
    Function::scalar("||", &[Text, Text], Text, |_, a| {
        joined(a[0].str()?, a[1].str()?)
    }),
    Function::scalar("||", &[Bytea, Bytea], Bytea, |_, a| {
        let (left, right) = (a[0].bytea()?, a[1].bytea()?);
        size::check(left.len() + right.len())?;
        Ok(Datum::bytes([left, right].concat()))
    }),
    Function::scalar("||", &[Text, AnyNonArray], Text, |context, a| {
        joined(a[0].str()?, as_text(context, a, 1)?.str()?)
    })
    .stable(),
    Function::scalar("||", &[AnyNonArray, Text], Text, |context, a| {
        joined(as_text(context, a, 0)?.str()?, a[1].str()?)
    })
    .stable(),
    Function::scalar("~~", &[Bytea, Bytea], Bool, |_, a| {
        like_bytes(a[0].bytea()?, a[1].bytea()?, Unit::Byte).map(Datum::Bool)
    }),
    Function::scalar("!~~", &[Bytea, Bytea], Bool, |_, a| {
        like_bytes(a[0].bytea()?, a[1].bytea()?, Unit::Byte).map(|found| Datum::Bool(!found))
    }),
    Function::scalar("^@", &[Text, Text], Bool, |_, a| {
        Ok(Datum::Bool(a[0].str()?.starts_with(a[1].str()?)))
    }),
    by_bytes("~<~", &[Text, Text], |_, a| {
        Ok(Datum::Bool(a[0].str()? < a[1].str()?))
    }),
    by_bytes("~<=~", &[Text, Text], |_, a| {
        Ok(Datum::Bool(a[0].str()? <= a[1].str()?))
    }),
    by_bytes("~>~", &[Text, Text], |_, a| {
        Ok(Datum::Bool(a[0].str()? > a[1].str()?))
    }),
    by_bytes("~>=~", &[Text, Text], |_, a| {
        Ok(Datum::Bool(a[0].str()? >= a[1].str()?))
    }),
    by_bytes("~<~", &[Bpchar, Bpchar], |_, a| {
        Ok(Datum::Bool(
            without_blanks(a[0].str()?) < without_blanks(a[1].str()?),
        ))
    }),
    by_bytes("~>~", &[Bpchar, Bpchar], |_, a| {
        Ok(Datum::Bool(
            without_blanks(a[0].str()?) > without_blanks(a[1].str()?),
        ))
    }),
];
