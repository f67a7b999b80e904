//! Functions, operators, conversions and aggregates: those that statements can call.
//!
//! Functions and operators have numbers by their places in the order of names and arguments. They
//! are the same in all databases of one program, and may differ between versions of it.

use super::rows::{Maker, Rows, Sources, flag, text, vector};
use crate::catalog::Oid;
use crate::error::Result;
use crate::state::functions;
use crate::types::cast::{CastContext, table_context};
use crate::types::function::{Body, Function, Volatility};
use crate::types::kind::KINDS;
use crate::types::{Datum, Kind, operator};
use std::collections::HashMap;
use std::sync::LazyLock;

pub(super) const MAKERS: &[Maker] = &[
    ("pg_proc", procedures),
    ("pg_operator", operators),
    ("pg_cast", casts),
    ("pg_aggregate", aggregates),
];

/// The first number of functions, and that of operators.
const FIRST: Oid = 14_000;
/// `cstring` and `internal`: arguments of functions that no statement calls.
const CSTRING: Oid = 2275;
const INTERNAL: Oid = 2281;
/// The language of functions that users define.
const SQL: Oid = 14;

/// A function as the catalogue lists it.
#[derive(Clone, Debug)]
pub(crate) struct Routine {
    pub(crate) oid: Oid,
    pub(crate) name: String,
    pub(crate) arguments: Vec<Oid>,
    pub(crate) result: Oid,
    /// The function, if statements can call it.
    pub(crate) function: Option<&'static Function>,
}

struct All {
    routines: Vec<Routine>,
    by_oid: HashMap<Oid, usize>,
    operators: Vec<(Oid, &'static Function)>,
}

static ALL: LazyLock<All> = LazyLock::new(|| {
    let kinds = |function: &Function| function.arguments.iter().map(|kind| kind.oid()).collect();
    let called = functions().all().map(|function| Routine {
        oid: 0,
        name: function.name.to_owned(),
        arguments: kinds(function),
        result: function.result.oid(),
        function: Some(function),
    });
    let mut routines: Vec<Routine> = called.chain(conversions()).collect();
    routines
        .sort_by(|one, other| (&one.name, &one.arguments).cmp(&(&other.name, &other.arguments)));
    routines.dedup_by(|one, other| one.name == other.name && one.arguments == other.arguments);
    for (oid, routine) in (FIRST..).zip(&mut routines) {
        routine.oid = oid;
    }
    let mut operators: Vec<&'static Function> = operator::all().collect();
    operators.sort_by_key(|one| (one.name, kinds(one) as Vec<Oid>));
    All {
        by_oid: (0..)
            .zip(&routines)
            .map(|(at, one)| (one.oid, at))
            .collect(),
        routines,
        operators: (FIRST..).zip(operators).collect(),
    }
});

/// Functions that read and print values, and those of conversions.
fn conversions() -> Vec<Routine> {
    let mut made = Vec::new();
    let mut add = |name: String, arguments: Vec<Oid>, result: Oid| {
        made.push(Routine {
            oid: 0,
            name,
            arguments,
            result,
            function: None,
        });
    };
    let all = KINDS.iter().map(|kind| (*kind, kind.oid()));
    let arrays = (Kind::Array(&Kind::Text), Kind::AnyArray.oid());
    let enums = (Kind::Enum(0), Kind::AnyEnum.oid());
    for (kind, oid) in all.chain([arrays, enums]) {
        let [input, output, receive, send] = input_output(kind);
        add(input, vec![CSTRING], oid);
        add(output, vec![oid], CSTRING);
        add(receive, vec![INTERNAL], oid);
        add(send, vec![oid], Kind::Bytea.oid());
    }
    add("domain_in".to_owned(), vec![CSTRING], Kind::Any.oid());
    add("domain_recv".to_owned(), vec![INTERNAL], Kind::Any.oid());
    for (from, to, method, _) in conversion_table() {
        if method == "f" {
            add(to.catalogue_name(), vec![from.oid()], to.oid());
        }
    }
    made
}

/// The conversions of `pg_cast`: from, to, the letter of the method, and the context.
fn conversion_table() -> Vec<(Kind, Kind, &'static str, CastContext)> {
    let mut table = Vec::new();
    for &from in KINDS {
        for &to in KINDS {
            let Some(context) = table_context(from, to) else {
                continue;
            };
            let is_number = |kind: Kind| kind.is_object_number() || kind == Kind::Int4;
            let is_long = |kind: Kind| matches!(kind, Kind::Text | Kind::Varchar);
            let method = match (from, to) {
                (Kind::Json, Kind::Jsonb) | (Kind::Jsonb, Kind::Json) => "i",
                _ if is_number(from) && is_number(to) => "b",
                _ if is_long(from) && (is_long(to) || to == Kind::Bpchar) => "b",
                (Kind::NodeTree, Kind::Text) => "b",
                _ if from.element().is_some() => "b",
                _ => "f",
            };
            table.push((from, to, method, context));
        }
    }
    table
}

/// All functions, in the order of their numbers.
pub(crate) fn routines() -> &'static [Routine] {
    &ALL.routines
}

/// The function with a number.
pub(crate) fn routine(oid: Oid) -> Option<&'static Routine> {
    ALL.by_oid.get(&oid).map(|at| &ALL.routines[*at])
}

/// The functions with a name.
fn routine_named(name: &str) -> &'static [Routine] {
    let routines = &ALL.routines;
    let start = routines.partition_point(|one| one.name.as_str() < name);
    let end = routines.partition_point(|one| one.name.as_str() <= name);
    &routines[start..end]
}

/// The number of the function that a text names: alone, or with its arguments in brackets.
pub(crate) fn routine_called(text: &str) -> Option<Oid> {
    let Some((name, arguments)) = text.split_once('(') else {
        return routine_named(text).first().map(|routine| routine.oid);
    };
    let arguments = arguments.trim_end_matches(')').split(',');
    let arguments = arguments
        .map(str::trim)
        .filter(|argument| !argument.is_empty());
    let wanted: Option<Vec<Oid>> = arguments
        .map(|argument| Kind::from_name(argument).map(Kind::oid))
        .collect();
    let mut named = routine_named(name.trim()).iter();
    let found = named.find(|routine| wanted.as_ref() == Some(&routine.arguments))?;
    Some(found.oid)
}

/// The operator with a number.
pub(crate) fn operator(oid: Oid) -> Option<&'static Function> {
    let at = usize::try_from(oid.checked_sub(FIRST)?).ok()?;
    ALL.operators.get(at).map(|(_, operator)| *operator)
}

/// The number of the first operator with a name.
pub(crate) fn operator_named(name: &str) -> Option<Oid> {
    let mut operators = ALL.operators.iter();
    operators
        .find(|(_, one)| one.name == name)
        .map(|(oid, _)| *oid)
}

impl Routine {
    /// Its name with its arguments.
    pub(crate) fn signature(&self) -> String {
        let arguments = self.arguments.iter().map(|oid| type_text(*oid));
        format!("{}({})", self.name, arguments.collect::<Vec<_>>().join(","))
    }
}

/// The name of a type of a function's arguments.
pub(crate) fn type_text(oid: Oid) -> String {
    match Kind::from_oid(oid) {
        Some(Kind::Bpchar) => "character".to_owned(),
        Some(kind) => kind.name(),
        None if oid == CSTRING => "cstring".to_owned(),
        None => "internal".to_owned(),
    }
}

/// The name of the function that reads texts of a kind, without its end.
fn function_prefix(kind: Kind) -> String {
    let name = kind.catalogue_name();
    let is_plain = matches!(
        kind,
        Kind::Bool
            | Kind::Bytea
            | Kind::Char
            | Kind::Name
            | Kind::Int8
            | Kind::Int2
            | Kind::Int2Vector
            | Kind::Int4
            | Kind::Text
            | Kind::Tid
            | Kind::OidVector
            | Kind::Float4
            | Kind::Float8
            | Kind::Unknown
            | Kind::Bpchar
            | Kind::Varchar
    ) || kind.is_object_number();
    match kind {
        Kind::Enum(_) => "enum_".to_owned(),
        Kind::Composite(_) => "record_".to_owned(),
        _ if kind.is_array() => "array_".to_owned(),
        _ if is_plain => name,
        _ => format!("{name}_"),
    }
}

/// The functions that read and print values of a kind: as text, then in binary.
pub(super) fn input_output(kind: Kind) -> [String; 4] {
    let prefix = function_prefix(kind);
    ["in", "out", "recv", "send"].map(|end| format!("{prefix}{end}"))
}

/// The number of the first function with a name, or 0.
pub(super) fn named_oid(name: &str) -> Oid {
    routine_named(name).first().map_or(0, |routine| routine.oid)
}

/// The number of an operator for two kinds, or 0.
pub(super) fn operator_oid(name: &str, left: Kind, right: Kind) -> Oid {
    let mut operators = ALL.operators.iter();
    let found = operators.find(|(_, one)| one.name == name && one.arguments == [left, right]);
    found.map_or(0, |(oid, _)| *oid)
}

fn procedures(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    user_functions(from, rows);
    for routine in routines() {
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
        let arguments = body.arguments.iter();
        let kinds = arguments.map(|(_, data_type)| Datum::Oid(data_type.kind.oid()));
        rows.push([
            ("oid", Datum::Oid(object.oid)),
            ("proname", text(&object.name)),
            ("pronamespace", Datum::Oid(object.namespace)),
            ("proowner", from.owner(object)),
            ("prolang", Datum::Oid(SQL)),
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
            ("pronargdefaults", Datum::Int2(0)),
            ("prorettype", Datum::Oid(body.result.kind.oid())),
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
    for (oid, operator) in &ALL.operators {
        let (left, right) = match operator.arguments {
            [right] => (None, *right),
            [left, right] => (Some(*left), *right),
            _ => continue,
        };
        let other = |name: Option<&str>, left: Kind, right: Kind| {
            Datum::Oid(name.map_or(0, |name| operator_oid(name, left, right)))
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
    for (oid, (from, to, method, context)) in (FIRST..).zip(conversion_table()) {
        let function = match method {
            "f" => {
                let mut named = routine_named(&to.catalogue_name()).iter();
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
    for routine in routines() {
        if let Some(Body::Aggregate(_)) = routine.function.map(|function| function.body) {
            rows.push([("aggfnoid", Datum::Oid(routine.oid))]);
        }
    }
    Ok(())
}
