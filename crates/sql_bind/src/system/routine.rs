//! Functions, operators, conversions and aggregates: those that statements can call.
//!
//! Functions and operators have numbers by their places in the order of names and arguments. They
//! are the same in all databases of one program, and may differ between versions of it.

use crate::callable::functions;
use crate::catalog::Oid;
use crate::types::cast::{CastContext, table_context};
use crate::types::function::Function;
use crate::types::kind::KINDS;
use crate::types::{Kind, operator};
use std::collections::HashMap;
use std::sync::LazyLock;

/// The first number of functions, of operators and of conversions.
pub const FIRST: Oid = 14_000;
/// `cstring` and `internal`: arguments of functions that no statement calls.
const CSTRING: Oid = 2275;
const INTERNAL: Oid = 2281;
/// Types that the catalogue names and no value has.
pub const NAMES_ONLY: &[(Oid, &str)] = &[
    (CSTRING, "cstring"),
    (2279, "trigger"),
    (INTERNAL, "internal"),
];

/// A function as the catalogue lists it.
#[derive(Clone, Debug)]
pub struct Routine {
    /// Its number.
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// Numbers of the types of its arguments.
    pub arguments: Vec<Oid>,
    /// The number of its result's type.
    pub result: Oid,
    /// The function, if statements can call it.
    pub function: Option<&'static Function>,
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
        let more = more_inputs(&input);
        add(input, [&[CSTRING], more].concat(), oid);
        add(output, vec![oid], CSTRING);
        add(receive, [&[INTERNAL], more].concat(), oid);
        add(send, vec![oid], Kind::Bytea.oid());
    }
    for (name, first) in [("domain_in", CSTRING), ("domain_recv", INTERNAL)] {
        let arguments = [&[first], more_inputs("domain_in")].concat();
        add(name.to_owned(), arguments, Kind::Any.oid());
    }
    for (from, to, method, _) in conversion_table() {
        if method == "f" {
            add(to.catalogue_name(), vec![from.oid()], to.oid());
        }
    }
    made
}

/// The arguments after the first one of a function that reads texts: the type of elements, and the
/// modifier. The function for values in binary has the same.
fn more_inputs(input: &str) -> &'static [Oid] {
    const TYPE_AND_MODIFIER: &[Oid] = &[26, 23];
    match input {
        "array_in" | "bpcharin" | "domain_in" | "interval_in" | "numeric_in" | "record_in"
        | "time_in" | "timestamp_in" | "timestamptz_in" | "timetz_in" | "varcharin" => {
            TYPE_AND_MODIFIER
        }
        "enum_in" => &TYPE_AND_MODIFIER[..1],
        _ => &[],
    }
}

/// The conversions of `pg_cast`: from, to, the letter of the method, and the context.
pub fn conversion_table() -> Vec<(Kind, Kind, &'static str, CastContext)> {
    let mut table = Vec::new();
    for &from in KINDS {
        for &to in KINDS {
            let Some(context) = table_context(from, to) else {
                continue;
            };
            // A text has no length that it could be converted to.
            if (from, to) == (Kind::Text, Kind::Text) {
                continue;
            }
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
pub fn routines() -> &'static [Routine] {
    &ALL.routines
}

/// The function with a number.
pub fn routine(oid: Oid) -> Option<&'static Routine> {
    ALL.by_oid.get(&oid).map(|at| &ALL.routines[*at])
}

/// The functions with a name.
pub fn routine_named(name: &str) -> &'static [Routine] {
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
        .map(|argument| {
            let kind = Kind::from_name(argument).map(Kind::oid);
            kind.or_else(|| name_only(argument))
        })
        .collect();
    let mut named = routine_named(name.trim()).iter();
    let found = named.find(|routine| wanted.as_ref() == Some(&routine.arguments))?;
    Some(found.oid)
}

/// All operators with their numbers.
pub fn operators() -> &'static [(Oid, &'static Function)] {
    &ALL.operators
}

/// The operator with a number.
pub fn operator(oid: Oid) -> Option<&'static Function> {
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

/// The name of an operator with the types of its sides.
pub(crate) fn operator_signature(operator: &Function) -> String {
    let types: Vec<String> = operator.arguments.iter().map(|kind| kind.name()).collect();
    let left = if types.len() == 1 { "none," } else { "" };
    format!("{}({left}{})", operator.name, types.join(","))
}

/// The number of the operator that a text names with the types of its sides.
pub(crate) fn operator_called(text: &str) -> Option<Oid> {
    let wanted: String = text.split_whitespace().collect();
    let (name, sides) = wanted.split_once('(')?;
    let sides = sides
        .strip_suffix(')')?
        .split(',')
        .filter(|side| *side != "none");
    let sides: Vec<Kind> = sides.map(Kind::from_name).collect::<Option<_>>()?;
    let mut operators = ALL.operators.iter();
    operators
        .find(|(_, one)| one.name == name && *one.arguments == *sides)
        .map(|(oid, _)| *oid)
}

impl Routine {
    /// Its name with its arguments.
    pub(crate) fn signature(&self) -> String {
        let arguments = self.arguments.iter().map(|oid| type_text(*oid));
        format!("{}({})", self.name, arguments.collect::<Vec<_>>().join(","))
    }

    /// Its arguments, as `pg_get_function_arguments` lists them.
    pub fn arguments_text(&self) -> String {
        let is_variadic = self.function.is_some_and(|function| function.is_variadic);
        let last = self.arguments.len();
        let names = (1..).zip(&self.arguments).map(|(at, oid)| {
            let word = if is_variadic && at == last {
                "VARIADIC "
            } else {
                ""
            };
            format!("{word}{}", type_text(*oid))
        });
        names.collect::<Vec<_>>().join(", ")
    }

    /// Its result, as `pg_get_function_result` has it.
    pub fn result_text(&self) -> String {
        let is_set = self.function.is_some_and(Function::returns_set);
        let word = if is_set { "SETOF " } else { "" };
        format!("{word}{}", type_text(self.result))
    }
}

/// The name of a type of a function's arguments.
pub fn type_text(oid: Oid) -> String {
    match Kind::from_oid(oid) {
        Some(Kind::Bpchar) => "character".to_owned(),
        Some(kind) => kind.name(),
        None => name_of(oid).unwrap_or("internal").to_owned(),
    }
}

/// The number of a type that has a name only.
pub(crate) fn name_only(name: &str) -> Option<Oid> {
    let mut types = NAMES_ONLY.iter();
    types.find(|(_, own)| *own == name).map(|(oid, _)| *oid)
}

/// The name of a type that has a name only.
pub(crate) fn name_of(oid: Oid) -> Option<&'static str> {
    let mut types = NAMES_ONLY.iter();
    types.find(|(own, _)| *own == oid).map(|(_, name)| *name)
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
        Kind::Polygon => "poly_".to_owned(),
        _ if kind.is_array() => "array_".to_owned(),
        _ if is_plain => name,
        _ => format!("{name}_"),
    }
}

/// The functions that read and print values of a kind: as text, then in binary.
pub fn input_output(kind: Kind) -> [String; 4] {
    let prefix = function_prefix(kind);
    ["in", "out", "recv", "send"].map(|end| format!("{prefix}{end}"))
}

/// The number of the first function with a name, or 0.
pub fn named_oid(name: &str) -> Oid {
    routine_named(name).first().map_or(0, |routine| routine.oid)
}

/// The number of an operator for two kinds, or 0.
pub fn operator_oid(name: &str, left: Kind, right: Kind) -> Oid {
    let mut operators = ALL.operators.iter();
    let found = operators.find(|(_, one)| one.name == name && one.arguments == [left, right]);
    found.map_or(0, |(oid, _)| *oid)
}
