//! Operators of JSON and of arrays.
//!
//! Containment, concatenation, and access to a part. A part that is not there is NULL; a path of
//! the wrong kind is an error.

use super::super::datum::Datum;
use super::super::function::Function;
use super::super::function::array::{append, concatenate, contains, overlaps, prepend};
use super::super::function::json::{
    has_keys, json_part, json_path, jsonb, jsonb_part, jsonb_path, made_jsonb, without_keys,
    without_path,
};
use super::super::kind::Kind::{
    self, AnyArray, AnyCompatible, AnyCompatibleArray, Bool, Int4, Json, Jsonb, Text,
};

const TEXTS: Kind = Kind::Array(&Text);

/// The table.
pub(super) const OPERATORS: &[Function] = &[
    Function::scalar("->", &[Json, Int4], Json, |_, a| json_part(a, false)),
    Function::scalar("->", &[Json, Text], Json, |_, a| json_part(a, false)),
    Function::scalar("->>", &[Json, Int4], Text, |_, a| json_part(a, true)),
    Function::scalar("->>", &[Json, Text], Text, |_, a| json_part(a, true)),
    Function::scalar("->", &[Jsonb, Int4], Jsonb, |_, a| jsonb_part(a, false)),
    Function::scalar("->", &[Jsonb, Text], Jsonb, |_, a| jsonb_part(a, false)),
    Function::scalar("->>", &[Jsonb, Int4], Text, |_, a| jsonb_part(a, true)),
    Function::scalar("->>", &[Jsonb, Text], Text, |_, a| jsonb_part(a, true)),
    Function::scalar("#>", &[Json, TEXTS], Json, |_, a| json_path(a, false)),
    Function::scalar("#>>", &[Json, TEXTS], Text, |_, a| json_path(a, true)),
    Function::scalar("#>", &[Jsonb, TEXTS], Jsonb, |_, a| jsonb_path(a, false)),
    Function::scalar("#>>", &[Jsonb, TEXTS], Text, |_, a| jsonb_path(a, true)),
    Function::scalar("@>", &[Jsonb, Jsonb], Bool, |_, a| {
        Ok(Datum::Bool(a[0].jsonb()?.contains(a[1].jsonb()?)))
    }),
    Function::scalar("<@", &[Jsonb, Jsonb], Bool, |_, a| {
        Ok(Datum::Bool(a[1].jsonb()?.contains(a[0].jsonb()?)))
    }),
    Function::scalar("?", &[Jsonb, Text], Bool, |_, a| {
        Ok(Datum::Bool(a[0].jsonb()?.has_key(a[1].str()?)))
    }),
    Function::scalar("?|", &[Jsonb, TEXTS], Bool, |_, a| has_keys(a, false)),
    Function::scalar("?&", &[Jsonb, TEXTS], Bool, |_, a| has_keys(a, true)),
    Function::scalar("-", &[Jsonb, Text], Jsonb, |_, a| {
        a[0].jsonb()?.without_keys(&[a[1].str()?]).map(jsonb)
    }),
    Function::scalar("-", &[Jsonb, TEXTS], Jsonb, |_, a| without_keys(a)),
    Function::scalar("-", &[Jsonb, Int4], Jsonb, |_, a| {
        a[0].jsonb()?.without_element(a[1].int()?).map(jsonb)
    }),
    Function::scalar("#-", &[Jsonb, TEXTS], Jsonb, |_, a| without_path(a)),
    Function::scalar("||", &[Jsonb, Jsonb], Jsonb, |_, a| {
        made_jsonb(a[0].jsonb()?.joined(a[1].jsonb()?))
    }),
    Function::scalar(
        "||",
        &[AnyCompatibleArray, AnyCompatibleArray],
        AnyCompatibleArray,
        |_, a| concatenate(&a[0], &a[1]),
    )
    .nullable(),
    Function::scalar(
        "||",
        &[AnyCompatibleArray, AnyCompatible],
        AnyCompatibleArray,
        |context, a| append(context, &a[0], &a[1]),
    )
    .nullable(),
    Function::scalar(
        "||",
        &[AnyCompatible, AnyCompatibleArray],
        AnyCompatibleArray,
        |context, a| prepend(context, &a[0], &a[1]),
    )
    .nullable(),
    Function::scalar("@>", &[AnyArray, AnyArray], Bool, |_, a| {
        Ok(Datum::Bool(contains(a[0].array()?, a[1].array()?)))
    }),
    Function::scalar("<@", &[AnyArray, AnyArray], Bool, |_, a| {
        Ok(Datum::Bool(contains(a[1].array()?, a[0].array()?)))
    }),
    Function::scalar("&&", &[AnyArray, AnyArray], Bool, |_, a| {
        Ok(Datum::Bool(overlaps(a[0].array()?, a[1].array()?)))
    }),
];
