//! The arguments of a call: in their order, by their names, or as an array for the last of them.
//!
//! Few functions of PostgreSQL have names for their arguments; those of which clients use the names
//! are listed here, with the values that they have if they are left out.

use super::{Binder, ident_text, object_name};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::Expr;
use crate::types::{Datum, Kind};
use sql_parse::Copied;
use sqlparser::ast::{
    self, DuplicateTreatment, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments,
};

/// The arguments of a call as they are written.
#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a word of the grammar that may be there"
)]
pub(super) struct Arguments {
    pub(super) values: Vec<Expr>,
    /// Names of the last of the values, for functions of users.
    pub(super) names: Vec<String>,
    pub(super) is_star: bool,
    pub(super) is_distinct: bool,
    pub(super) is_variadic: bool,
    /// Whether the array after `VARIADIC` is NULL.
    pub(super) is_null: bool,
    pub(super) order: Vec<ast::OrderByExpr>,
}

/// Functions whose arguments have names, and how many of these must be given.
const NAMED: &[(&str, &[&str], usize)] = &[
    (
        "make_interval",
        &["years", "months", "weeks", "days", "hours", "mins", "secs"],
        0,
    ),
    ("make_date", &["year", "month", "day"], 3),
    ("make_time", &["hour", "min", "sec"], 3),
    (
        "make_timestamp",
        &["year", "month", "mday", "hour", "min", "sec"],
        6,
    ),
    (
        "make_timestamptz",
        &["year", "month", "mday", "hour", "min", "sec", "timezone"],
        6,
    ),
    (
        "jsonb_set",
        &["jsonb_in", "path", "replacement", "create_if_missing"],
        3,
    ),
    (
        "jsonb_insert",
        &["jsonb_in", "path", "replacement", "insert_after"],
        3,
    ),
];

impl Binder<'_> {
    pub(super) fn arguments(&mut self, name: &str, function: &ast::Function) -> Result<Arguments> {
        let mut arguments = Arguments::default();
        let list = match &function.args {
            FunctionArguments::None => return Ok(arguments),
            FunctionArguments::Subquery(query) => {
                arguments.values.push(self.scalar_subquery(query)?);
                return Ok(arguments);
            }
            FunctionArguments::List(list) => list,
        };
        arguments.is_distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
        let mut named: Vec<(String, Expr)> = Vec::new();
        for argument in &list.args {
            let (argument_name, value) = match argument {
                FunctionArg::Unnamed(value) => (None, value),
                FunctionArg::Named { name, arg, .. } => (Some(ident_text(name)), arg),
                FunctionArg::ExprNamed {
                    name: ast::Expr::Identifier(name),
                    arg,
                    ..
                } => (Some(ident_text(name)), arg),
                FunctionArg::ExprNamed { name, .. } => {
                    let message = format!("syntax error at or near \"{name}\"");
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
            };
            match value {
                FunctionArgExpr::Expr(tree) => {
                    let value = self.expression(tree)?;
                    match argument_name {
                        Some(word) if word == "variadic" => {
                            arguments.is_variadic = true;
                            arguments.values.push(value);
                        }
                        Some(word) => named.push((word, value)),
                        // A driver declares the parameter of a result so.
                        None if matches!(value, Expr::Parameter(_, own) if own.kind == Kind::Void) =>
                            {}
                        None if named.is_empty() => arguments.values.push(value),
                        None => {
                            let message = "positional argument cannot follow named argument";
                            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                        }
                    }
                }
                FunctionArgExpr::Wildcard | FunctionArgExpr::WildcardWithOptions(_) => {
                    arguments.is_star = true;
                }
                FunctionArgExpr::QualifiedWildcard(name) => {
                    let (_, alias) = object_name(name)?;
                    arguments.values.push(self.row_value(&alias)?);
                }
            }
        }
        if crate::callable::functions().named(name).is_empty() {
            for (word, value) in named {
                arguments.names.push(word);
                arguments.values.push(value);
            }
        } else if !named.is_empty() {
            place_named(name, &mut arguments.values, &named)?;
        }
        for clause in &list.clauses {
            match clause {
                FunctionArgumentClause::OrderBy(order) => arguments.order = order.copied(),
                other => {
                    let instead = "Use FILTER, or an expression.";
                    return Err(SqlError::unsupported(format!("{other} in a call"), instead));
                }
            }
        }
        Ok(arguments)
    }

    /// Spreads an array after `VARIADIC` for a function that takes any arguments as they are.
    pub(super) fn spread_variadic(&mut self, name: &str, arguments: &mut Arguments) -> Result<()> {
        let functions = crate::callable::functions();
        let takes_any = |function: &&crate::types::function::Function| {
            function.is_variadic && function.arguments.last() == Some(&Kind::Any)
        };
        if !arguments.is_variadic || !functions.named(name).iter().any(takes_any) {
            return Ok(());
        }
        let Some(last) = arguments.values.pop() else {
            return Ok(());
        };
        arguments.is_variadic = false;
        match last {
            Expr::Array(elements, _) => arguments.values.extend(elements),
            Expr::Constant(Datum::Array(array), _) => {
                let element = array.element.plain();
                let values = array.elements.iter().cloned();
                arguments
                    .values
                    .extend(values.map(|value| Expr::Constant(value, element)));
            }
            Expr::Constant(Datum::Null, data_type) if data_type.kind.is_array() => {
                arguments.is_null = true;
            }
            other if other.kind().is_array() => {
                let instead = "Write the array as ARRAY[...].";
                return Err(SqlError::unsupported(
                    format!("VARIADIC with a computed array for {name}"),
                    instead,
                ));
            }
            _ => {
                let message = "VARIADIC argument must be an array";
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
            }
        }
        Ok(())
    }

    pub(super) fn plain_arguments(&mut self, list: &[FunctionArg]) -> Result<Vec<Expr>> {
        let values = list.iter().map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(tree)) => self.expression(tree),
            FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(table)) => {
                self.row_of_table(table)
            }
            other => {
                let message = format!("syntax error at or near \"{other}\"");
                Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
            }
        });
        values.collect()
    }

    /// Arguments of `ROW`: of `table.*` all columns.
    pub(super) fn row_arguments(&mut self, list: &[FunctionArg]) -> Result<Vec<Expr>> {
        let mut fields = Vec::with_capacity(list.len());
        for argument in list {
            let is_star = matches!(
                argument,
                FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(_))
            );
            for value in self.plain_arguments(std::slice::from_ref(argument))? {
                match value {
                    Expr::Row(columns, _) if is_star => fields.extend(columns),
                    value => fields.push(value),
                }
            }
        }
        Ok(fields)
    }
}

/// Puts named arguments after those that have places.
fn place_named(name: &str, values: &mut Vec<Expr>, given: &[(String, Expr)]) -> Result<()> {
    let known = NAMED.iter().find(|(function, ..)| *function == name);
    let words = given.iter().map(|(word, _)| word);
    let mut all = values.clone();
    all.extend(given.iter().map(|(_, value)| value.clone()));
    let no_function = || no_function(name, &all, words.clone());
    let Some((_, names, required)) = known else {
        return Err(no_function());
    };
    let mut places: Vec<Option<Expr>> = vec![None; names.len()];
    for (word, value) in given {
        let at = names.iter().position(|own| own == word);
        match at.filter(|at| *at >= values.len() && places[*at].is_none()) {
            Some(at) => places[at] = Some(value.clone()),
            None => return Err(no_function()),
        }
    }
    let last = places.iter().rposition(Option::is_some).unwrap_or(0);
    let unnamed_count = values.len();
    for (at, place) in places
        .into_iter()
        .enumerate()
        .take(last + 1)
        .skip(unnamed_count)
    {
        match place {
            Some(value) => values.push(value),
            // Arguments that are left out in between are zero.
            None if at >= *required => {
                values.push(Expr::Constant(Datum::Int4(0), Kind::Int4.plain()));
            }
            None => return Err(no_function()),
        }
    }
    Ok(())
}

/// The error of a call of a function that does not exist, whose last values have names.
pub(super) fn no_function<'n>(
    name: &str,
    values: &[Expr],
    names: impl ExactSizeIterator<Item = &'n String>,
) -> SqlError {
    let (first, last) = values.split_at(values.len() - names.len());
    let first = first.iter().map(|value| value.kind().name());
    let last = names.zip(last);
    let last = last.map(|(word, value)| format!("{word} => {}", value.kind()));
    let kinds: Vec<String> = first.chain(last).collect();
    let message = format!("function {name}({}) does not exist", kinds.join(", "));
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message).hint(
        "No function matches the given name and argument types. You might need to add explicit type casts.",
    )
}
