//! The choice between functions or operators of one name, by PostgreSQL's rules.
//!
//! The rules are those of chapter 10 of PostgreSQL's manual ("Type Conversion"):
//!
//! 1. A candidate that takes exactly the given types wins.
//! 2. Candidates to which the arguments convert implicitly remain; literals without a type convert
//!    to anything.
//! 3. Of these, the ones with the most exact matches remain; then those with the most arguments
//!    that are exact or of a preferred type.
//! 4. Literals without a type take the category that all candidates agree on, or text, or the one
//!    of a preferred type; at last the type of the other arguments.
//! 5. More than one left is an error, 42725; none is 42883.

use super::cast::{self, CastContext};
use super::kind::{Category, Kind};
use super::signature::Function;
use crate::error::{Result, SqlError, SqlState};

/// The function that was chosen for a call.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The function.
    pub function: &'static Function,
    /// The kind to which each argument of the call has to be converted. Where `variadic_from` is
    /// set, arguments from there have the kind of the array's elements.
    pub arguments: Vec<Kind>,
    /// The kind of the result.
    pub result: Kind,
    /// The arguments from this one are gathered into an array before the call.
    pub variadic_from: Option<usize>,
}

/// A function with its arguments spread for one call.
struct Candidate {
    function: &'static Function,
    arguments: Vec<Kind>,
    variadic_from: Option<usize>,
}

/// The outcome of a choice.
enum Choice {
    One(usize),
    None,
    Many,
}

/// Chooses an operator; `left` is none for a prefix operator.
pub fn operator(name: &str, candidates: &[&'static Function], given: &[Kind]) -> Result<Resolved> {
    let mut list: Vec<Candidate> = candidates
        .iter()
        .filter(|function| function.arguments.len() == given.len())
        .map(|function| Candidate {
            function,
            arguments: function.arguments.to_vec(),
            variadic_from: None,
        })
        .collect();
    let describe = || match given {
        [left, right] => format!("{left} {name} {right}"),
        _ => format!("{name} {}", given[0]),
    };
    // A literal without a type is taken for one of the other side's type first.
    let assumed = match given {
        [Kind::Unknown, other] | [other, Kind::Unknown] => vec![*other, *other],
        _ => given.to_vec(),
    };
    let exact = list.iter().position(|one| one.arguments == assumed);
    match exact.map_or_else(|| choose(&mut list, given), Choice::One) {
        Choice::One(index) => finish(&list[index], given),
        Choice::None => Err(SqlError::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("operator does not exist: {}", describe()),
        )
        .hint(
            "No operator matches the given name and argument types. You might need to add explicit type casts.",
        )),
        Choice::Many => Err(SqlError::new(
            SqlState::AMBIGUOUS_FUNCTION,
            format!("operator is not unique: {}", describe()),
        )
        .hint(
            "Could not choose a best candidate operator. You might need to add explicit type casts.",
        )),
    }
}

/// Chooses a function. `is_variadic` says that the last argument of the call is an array marked
/// with VARIADIC.
pub fn function(
    name: &str,
    candidates: &[&'static Function],
    given: &[Kind],
    is_variadic: bool,
) -> Result<Resolved> {
    let mut list: Vec<Candidate> = candidates
        .iter()
        .filter_map(|function| spread(function, given.len(), is_variadic))
        .collect();
    // Of two that take the same arguments, the one that takes just so many is meant.
    let plain: Vec<Vec<Kind>> = list
        .iter()
        .filter(|one| !one.function.is_variadic)
        .map(|one| one.arguments.clone())
        .collect();
    list.retain(|one| !one.function.is_variadic || !plain.contains(&one.arguments));
    let describe = || {
        let kinds: Vec<String> = given.iter().map(|kind| kind.name()).collect();
        format!("function {name}({})", kinds.join(", "))
    };
    let exact = list.iter().position(|one| one.arguments == given);
    match exact.map_or_else(|| choose(&mut list, given), Choice::One) {
        Choice::One(index) => finish(&list[index], given),
        Choice::None if given.contains(&Kind::Unknown) && lacks_type_only(candidates, given) => {
            Err(undetermined())
        }
        Choice::None => Err(SqlError::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("{} does not exist", describe()),
        )
        .hint(
            "No function matches the given name and argument types. You might need to add explicit type casts.",
        )),
        Choice::Many => Err(SqlError::new(
            SqlState::AMBIGUOUS_FUNCTION,
            format!("{} is not unique", describe()),
        )
        .hint(
            "Could not choose a best candidate function. You might need to add explicit type casts.",
        )),
    }
}

/// Whether a function would take the arguments if one of them said the type that it leaves open.
fn lacks_type_only(candidates: &[&'static Function], given: &[Kind]) -> bool {
    candidates.iter().any(|function| {
        let wanted = function.arguments;
        let mut pairs = given.iter().zip(wanted);
        wanted.len() == given.len()
            && pairs.all(|(given, wanted)| cast::can_coerce(*given, *wanted, CastContext::Implicit))
            && bind(given, wanted, None)
                .is_err_and(|error| error.state == SqlState::DATATYPE_MISMATCH)
    })
}

/// The function with as many arguments as the call has, if it can take so many.
fn spread(function: &'static Function, count: usize, is_variadic: bool) -> Option<Candidate> {
    let declared = function.arguments;
    if function.is_variadic && !is_variadic {
        let last = declared.len() - 1;
        if count < last + usize::from(declared[last] != Kind::Any) {
            return None;
        }
        // Functions that take any arguments get them as they are.
        let (element, gathered) = match declared[last] {
            Kind::Any => (Kind::Any, None),
            Kind::AnyArray => (Kind::AnyElement, Some(last)),
            Kind::AnyCompatibleArray => (Kind::AnyCompatible, Some(last)),
            array => (array.element()?, Some(last)),
        };
        let mut arguments = declared[..last].to_vec();
        arguments.resize(count, element);
        return Some(Candidate {
            function,
            arguments,
            variadic_from: gathered,
        });
    }
    let least = declared.len() - function.default_count;
    (count >= least && count <= declared.len()).then(|| Candidate {
        function,
        arguments: declared[..count].to_vec(),
        variadic_from: None,
    })
}

fn choose(list: &mut Vec<Candidate>, given: &[Kind]) -> Choice {
    list.retain(|one| coerces(given, &one.arguments));
    if let Some(choice) = decided(list) {
        return choice;
    }
    keep_most(list, |one| {
        matches_of(given, &one.arguments, |given, wanted| given == wanted)
    });
    if let Some(choice) = decided(list) {
        return choice;
    }
    keep_most(list, |one| {
        matches_of(given, &one.arguments, |given, wanted| {
            given == wanted || (wanted.category() == given.category() && wanted.is_preferred())
        })
    });
    if let Some(choice) = decided(list) {
        return choice;
    }
    let unknown_count = given.iter().filter(|kind| **kind == Kind::Unknown).count();
    if unknown_count == 0 {
        return Choice::Many;
    }
    keep_agreed_categories(list, given);
    if let Some(choice) = decided(list) {
        return choice;
    }
    by_the_known(list, given)
}

fn decided(list: &[Candidate]) -> Option<Choice> {
    match list.len() {
        0 => Some(Choice::None),
        1 => Some(Choice::One(0)),
        _ => None,
    }
}

/// Whether arguments of these kinds convert implicitly to others.
pub fn coerces(given: &[Kind], wanted: &[Kind]) -> bool {
    given
        .iter()
        .zip(wanted)
        .all(|(given, wanted)| cast::can_coerce(*given, *wanted, CastContext::Implicit))
        && bind(given, wanted, None).is_ok()
}

/// How many arguments with a type fulfil the condition.
fn matches_of(given: &[Kind], wanted: &[Kind], fits: impl Fn(Kind, Kind) -> bool) -> usize {
    let pairs = given.iter().zip(wanted);
    pairs
        .filter(|(given, wanted)| **given != Kind::Unknown && fits(**given, **wanted))
        .count()
}

fn keep_most(list: &mut Vec<Candidate>, count: impl Fn(&Candidate) -> usize) {
    let most = list.iter().map(&count).max();
    list.retain(|one| Some(count(one)) == most);
}

/// Keeps the candidates of the category that each literal without a type takes.
fn keep_agreed_categories(list: &mut Vec<Candidate>, given: &[Kind]) {
    let mut wanted: Vec<Option<(Category, bool)>> = vec![None; given.len()];
    for (place, _) in of_unknowns(given) {
        let mut slot: Option<(Category, bool)> = None;
        let mut conflicts = false;
        for one in list.iter() {
            let kind = one.arguments[place];
            let (category, preferred) = (kind.category(), kind.is_preferred());
            slot = match slot {
                None => Some((category, preferred)),
                Some((taken, any)) if taken == category => Some((taken, any || preferred)),
                Some(_) if category == Category::String => Some((category, preferred)),
                taken => {
                    conflicts = true;
                    taken
                }
            };
        }
        if conflicts && slot.is_none_or(|(category, _)| category != Category::String) {
            return;
        }
        wanted[place] = slot;
    }
    let fits = |one: &Candidate| {
        of_unknowns(given).all(|(place, _)| {
            let kind = one.arguments[place];
            wanted[place].is_some_and(|(category, needs_preferred)| {
                kind.category() == category && (!needs_preferred || kind.is_preferred())
            })
        })
    };
    if list.iter().any(fits) {
        list.retain(fits);
    }
}

fn of_unknowns(given: &[Kind]) -> impl Iterator<Item = (usize, &Kind)> {
    let places = given.iter().enumerate();
    places.filter(|(_, kind)| **kind == Kind::Unknown)
}

/// Takes literals without a type for the one type that all other arguments have.
fn by_the_known(list: &[Candidate], given: &[Kind]) -> Choice {
    let mut known = given.iter().filter(|kind| **kind != Kind::Unknown);
    let Some(first) = known.next() else {
        return Choice::Many;
    };
    if known.any(|kind| kind != first) {
        return Choice::Many;
    }
    let assumed = vec![*first; given.len()];
    let mut fitting = list
        .iter()
        .enumerate()
        .filter(|(_, one)| coerces(&assumed, &one.arguments));
    match (fitting.next(), fitting.next()) {
        (Some((index, _)), None) => Choice::One(index),
        _ => Choice::Many,
    }
}

/// Replaces the kinds that stand for others.
fn finish(candidate: &Candidate, given: &[Kind]) -> Result<Resolved> {
    let function = candidate.function;
    let (arguments, result) = bind(given, &candidate.arguments, Some(function.result))?;
    Ok(Resolved {
        function,
        arguments,
        result,
        variadic_from: candidate.variadic_from,
    })
}

/// The kinds that `anyelement`, `anycompatible` and their kin stand for in a call.
fn bind(given: &[Kind], wanted: &[Kind], result: Option<Kind>) -> Result<(Vec<Kind>, Kind)> {
    let result = result.unwrap_or(Kind::Void);
    if !wanted.iter().any(|kind| kind.is_polymorphic()) {
        let kinds = given
            .iter()
            .zip(wanted)
            .map(|(given, wanted)| match wanted {
                Kind::Any => *given,
                _ => *wanted,
            });
        return Ok((kinds.collect(), result));
    }
    let element = element_of(given, wanted)?;
    let compatible = compatible_of(given, wanted)?;
    let fill = |kind: Kind, given: Option<Kind>| -> Result<Kind> {
        let of = |kind: Option<Kind>| kind.ok_or_else(undetermined);
        Ok(match kind {
            Kind::AnyElement | Kind::AnyNonArray | Kind::AnyEnum => of(element)?,
            Kind::AnyArray => {
                let element = of(element)?;
                element.array().ok_or_else(|| no_array(element))?
            }
            Kind::AnyCompatible | Kind::AnyCompatibleNonArray => of(compatible)?,
            Kind::AnyCompatibleArray => {
                let element = of(compatible)?;
                element.array().ok_or_else(|| no_array(element))?
            }
            Kind::Any => given.unwrap_or(kind),
            other => other,
        })
    };
    let mut kinds = Vec::with_capacity(wanted.len());
    for (given, wanted) in given.iter().zip(wanted) {
        kinds.push(fill(*wanted, Some(*given))?);
    }
    Ok((kinds, fill(result, None)?))
}

fn undetermined() -> SqlError {
    SqlError::new(
        SqlState::DATATYPE_MISMATCH,
        "could not determine polymorphic type because input has type unknown",
    )
}

fn no_array(element: Kind) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_OBJECT,
        format!("could not find array type for data type {element}"),
    )
}

/// The kind of `anyelement`; all arguments of its family must agree.
fn element_of(given: &[Kind], wanted: &[Kind]) -> Result<Option<Kind>> {
    let mut found: Option<Kind> = None;
    for (given, wanted) in given.iter().zip(wanted) {
        let element = match (wanted, given) {
            (_, Kind::Unknown) => continue,
            (Kind::AnyElement, kind) => *kind,
            (Kind::AnyNonArray, kind) if !kind.is_array() && !kind.is_vector() => *kind,
            (Kind::AnyEnum, kind @ Kind::Enum(_)) => *kind,
            (Kind::AnyArray, kind) => match kind.element() {
                Some(element) => element,
                None => {
                    return Err(SqlError::new(
                        SqlState::DATATYPE_MISMATCH,
                        format!("argument declared anyarray is not an array but type {kind}"),
                    ));
                }
            },
            (Kind::AnyNonArray | Kind::AnyEnum, kind) => {
                return Err(SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!("type {kind} does not match {wanted}"),
                ));
            }
            _ => continue,
        };
        if found.is_some_and(|found| found != element) {
            return Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                "arguments declared \"anyelement\" are not all alike",
            ));
        }
        found = Some(element);
    }
    Ok(found)
}

/// The kind of `anycompatible`: the one to which all arguments of its family convert.
fn compatible_of(given: &[Kind], wanted: &[Kind]) -> Result<Option<Kind>> {
    let mut kinds = Vec::new();
    for (given, wanted) in given.iter().zip(wanted) {
        match wanted {
            Kind::AnyCompatible | Kind::AnyCompatibleNonArray => kinds.push(*given),
            Kind::AnyCompatibleArray => match given.element() {
                Some(element) => kinds.push(element),
                None if *given == Kind::Unknown => kinds.push(Kind::Unknown),
                None => {
                    return Err(SqlError::new(
                        SqlState::DATATYPE_MISMATCH,
                        format!(
                            "argument declared anycompatiblearray is not an array but type {given}"
                        ),
                    ));
                }
            },
            _ => {}
        }
    }
    if kinds.is_empty() {
        return Ok(None);
    }
    common_kind("anycompatible", &kinds).map(Some)
}

/// The kind to which all of a list convert, for CASE, UNION, VALUES, arrays and their like.
/// `what` names the construct in the message; literals without a type become text if there is
/// nothing else.
pub fn common_kind(what: &str, kinds: &[Kind]) -> Result<Kind> {
    let mut best = kinds.first().copied().unwrap_or(Kind::Unknown);
    for kind in kinds.iter().skip(1).copied() {
        if kind == best || kind == Kind::Unknown {
            continue;
        }
        if best == Kind::Unknown {
            best = kind;
            continue;
        }
        if kind.category() != best.category() {
            return Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!("{what} types {best} and {kind} cannot be matched"),
            ));
        }
        let forward = cast::can_coerce(best, kind, CastContext::Implicit);
        let backward = cast::can_coerce(kind, best, CastContext::Implicit);
        if !best.is_preferred() && forward && !backward {
            best = kind;
        }
    }
    if best == Kind::Unknown {
        best = Kind::Text;
    }
    for kind in kinds {
        if !cast::can_coerce(*kind, best, CastContext::Implicit) {
            return Err(SqlError::new(
                SqlState::CANNOT_COERCE,
                format!("{what} could not convert type {kind} to {best}"),
            ));
        }
    }
    Ok(best)
}
