//! Functions, operators, conversions and aggregates: those that statements can call.
//!
//! The room `sql_bind` numbers them. Rows of functions that users have defined come first.

use super::rows::{Maker, Rows, Sources, array, flag, text, vector};
use crate::catalog::Oid;
use crate::error::Result;
use crate::types::cast::CastContext;
use crate::types::function::{Body, Function, Volatility};
use crate::types::{Datum, Kind, Type, operator};
use sql_bind::system;

pub(super) const MAKERS: &[Maker] = &[
    ("pg_proc", procedures),
    ("pg_operator", operators),
    ("pg_cast", casts),
    ("pg_aggregate", aggregates),
];

/// The language of functions that users define.
const SQL: Oid = 14;

fn procedures(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    user_functions(from, rows);
    for routine in system::routines() {
        let function = routine.function;
        let kind = match function.map(|function| function.body) {
            Some(Body::Aggregate(_)) => "a",
            Some(Body::Window(_)) => "w",
            _ => "f",
        };
        let volatility = function.map_or("i", |function| volatility_of(function.volatility));
        let returns_set = function.is_some_and(Function::returns_set);
        let last = routine.arguments.last().copied().unwrap_or(0);
        let variadic = match function {
            Some(function) if function.is_variadic => {
                let element = function.arguments.last().and_then(|kind| kind.element());
                element.map_or(last, Kind::oid)
            }
            _ => 0,
        };
        rows.push([
            ("oid", Datum::Oid(routine.oid)),
            ("proname", text(&routine.name)),
            (
                "prorows",
                Datum::Float4(if returns_set { 1000.0 } else { 0.0 }),
            ),
            ("provariadic", Datum::Oid(variadic)),
            ("prokind", text(kind)),
            (
                "proisstrict",
                flag(function.is_none_or(|function| function.is_strict)),
            ),
            ("proretset", flag(returns_set)),
            ("provolatile", text(volatility)),
            ("pronargs", Datum::Int2(routine.arguments.len() as i16)),
            (
                "pronargdefaults",
                Datum::Int2(function.map_or(0, |one| one.default_count as i16)),
            ),
            ("prorettype", Datum::Oid(routine.result)),
            (
                "proargtypes",
                vector(Kind::Oid, routine.arguments.iter().copied().map(Datum::Oid)),
            ),
            ("prosrc", text(&routine.name)),
        ]);
    }
    Ok(())
}

/// Functions that users have defined.
fn user_functions(from: &Sources<'_>, rows: &mut Rows<'_>) {
    for object in from.names.catalog.objects() {
        let crate::catalog::Body::Function(body) = &object.body else {
            continue;
        };
        // A domain has a number of its own.
        let number = |at: usize, one: &Type| body.argument_domain(at).unwrap_or(one.kind.oid());
        let kinds = body.arguments.iter().enumerate();
        let kinds = kinds.map(|(at, (_, one))| Datum::Oid(number(at, one)));
        let columns = body.columns.iter();
        let columns = columns.map(|(name, one)| (Some(name.as_str()), one));
        let arguments = body
            .arguments
            .iter()
            .map(|(name, one)| (name.as_deref(), one));
        let all: Vec<_> = arguments.chain(columns).collect();
        let of_all = |values: Vec<Datum>, kind| match body.columns.is_empty() {
            true => Datum::Null,
            false => array(kind, values),
        };
        let modes = (0..all.len()).map(|at| match at < body.arguments.len() {
            true => text("i"),
            false => text("t"),
        });
        let types = all.iter().enumerate();
        let types = types.map(|(at, (_, one))| Datum::Oid(number(at, one)));
        let given = all.iter().map(|(name, _)| *name);
        let names = if given.clone().flatten().next().is_none() {
            Datum::Null
        } else {
            let given = given.map(|name| text(name.unwrap_or_default()));
            array(Kind::Text, given)
        };
        let result = match body.columns.is_empty() {
            true => number(body.arguments.len(), &body.result),
            false => body.result.kind.oid(),
        };
        rows.push([
            ("oid", Datum::Oid(object.oid)),
            ("proname", text(&object.name)),
            ("pronamespace", Datum::Oid(object.namespace)),
            ("proowner", from.owner(object)),
            ("proacl", from.access_list(object.oid)),
            ("prolang", Datum::Oid(SQL)),
            ("procost", Datum::Float4(100.0)),
            ("proparallel", text("u")),
            ("proargnames", names),
            ("proargmodes", of_all(modes.collect(), Kind::Char)),
            ("proallargtypes", of_all(types.collect(), Kind::Oid)),
            (
                "prorows",
                Datum::Float4(if body.returns_set { 1000.0 } else { 0.0 }),
            ),
            ("provariadic", Datum::Oid(0)),
            ("prokind", text("f")),
            ("proisstrict", flag(body.is_strict)),
            ("proretset", flag(body.returns_set)),
            ("provolatile", text(volatility_of(body.volatility))),
            ("pronargs", Datum::Int2(body.arguments.len() as i16)),
            ("pronargdefaults", Datum::Int2(body.defaults.len() as i16)),
            (
                "proargdefaults",
                match body.defaults.as_slice() {
                    [] => Datum::Null,
                    defaults => text(defaults.join(", ")),
                },
            ),
            ("prorettype", Datum::Oid(result)),
            ("proargtypes", vector(Kind::Oid, kinds)),
            ("prosrc", text(&body.query)),
        ]);
    }
}

fn volatility_of(volatility: Volatility) -> &'static str {
    match volatility {
        Volatility::Immutable => "i",
        Volatility::Stable => "s",
        Volatility::Volatile => "v",
    }
}

fn operators(_: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (oid, operator) in system::operators() {
        let (left, right) = match operator.arguments {
            [right] => (None, *right),
            [left, right] => (Some(*left), *right),
            _ => continue,
        };
        let other = |name: Option<&str>, left: Kind, right: Kind| {
            Datum::Oid(name.map_or(0, |name| system::operator_oid(name, left, right)))
        };
        let ends = left.map(|left| (left, right));
        let commutator = ends.map_or(Datum::Oid(0), |(left, right)| {
            other(operator::commutator(operator.name), right, left)
        });
        let negator = ends.map_or(Datum::Oid(0), |(left, right)| {
            other(operator::negator(operator.name), left, right)
        });
        let is_equality = operator.name == "=";
        rows.push([
            ("oid", Datum::Oid(*oid)),
            ("oprname", text(operator.name)),
            ("oprkind", text(if left.is_some() { "b" } else { "l" })),
            ("oprcanmerge", flag(is_equality)),
            ("oprcanhash", flag(is_equality)),
            ("oprleft", Datum::Oid(left.map_or(0, Kind::oid))),
            ("oprright", Datum::Oid(right.oid())),
            ("oprresult", Datum::Oid(operator.result.oid())),
            ("oprcom", commutator),
            ("oprnegate", negator),
        ]);
    }
    Ok(())
}

fn casts(_: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (oid, (from, to, method, context)) in (system::FIRST..).zip(system::conversion_table()) {
        let function = match method {
            "f" => {
                let mut named = system::routine_named(&to.catalogue_name()).iter();
                let found = named.find(|one| one.arguments == [from.oid()]);
                found.map_or(0, |found| found.oid)
            }
            _ => 0,
        };
        let context = match context {
            CastContext::Implicit => "i",
            CastContext::Assignment => "a",
            CastContext::Explicit => "e",
        };
        rows.push([
            ("oid", Datum::Oid(oid)),
            ("castsource", Datum::Oid(from.oid())),
            ("casttarget", Datum::Oid(to.oid())),
            ("castfunc", Datum::Oid(function)),
            ("castcontext", text(context)),
            ("castmethod", text(method)),
        ]);
    }
    Ok(())
}

fn aggregates(_: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for routine in system::routines() {
        if let Some(Body::Aggregate(_)) = routine.function.map(|function| function.body) {
            rows.push([("aggfnoid", Datum::Oid(routine.oid))]);
        }
    }
    Ok(())
}
