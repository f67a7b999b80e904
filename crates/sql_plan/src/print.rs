//! Texts of bound expressions, as PostgreSQL prints those of its catalogue.
//!
//! The catalogue keeps expressions as they were written. `pg_get_expr` and its kin print them as
//! they were understood: with the types of literals and the conversions that were added. Tools read
//! these texts back and compare them, so their form is PostgreSQL's, in its two variants. The plain
//! form puts brackets around every operator and every operand of a conversion. The pretty form asks
//! of each operand whether it can stand alone under its parent; the answers are those of
//! PostgreSQL, which knows the precedence of `+ - * / %` and of AND, OR and NOT only.

use crate::error::Result;
use crate::plan::{Call, Expr, Quantified};
use crate::types::cast::CastContext;
/// A name as it has to be written in a statement.
pub use crate::types::function::string::quote_ident as quoted;
use crate::types::{Context, Datum, Kind, Type, text_io};
use std::fmt::Write as _;

/// Prints expressions.
#[derive(Clone, Copy)]
pub struct Printer<'p> {
    /// The names of types, and the settings that texts of values depend on.
    pub context: Context<'p>,
    /// The text of a column of the row.
    pub column: &'p dyn Fn(usize) -> String,
    /// Whether brackets that are not needed are left out.
    pub pretty: bool,
}

impl std::fmt::Debug for Printer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Printer").finish_non_exhaustive()
    }
}

/// The expression around an operand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parent {
    And,
    Or,
    Not,
    Cast,
    Field,
    /// An operator: its letter if it has one, and whether the operand is the first one.
    Operator(Option<char>, bool),
    Test,
}

impl Printer<'_> {
    /// The text of an expression.
    pub fn print(&self, expression: &Expr) -> Result<String> {
        let mut out = String::new();
        self.expression(&mut out, expression, false)?;
        Ok(out)
    }

    /// The text of the arguments of a call.
    pub fn arguments(&self, arguments: &[Expr]) -> Result<String> {
        let mut out = String::new();
        self.listed(&mut out, "", arguments, "")?;
        Ok(out)
    }

    /// The name of a type; types of the catalogue as the search path finds them.
    fn type_name(&self, data_type: Type) -> String {
        let own = self.context.names.type_name(data_type.kind);
        own.unwrap_or_else(|| data_type.to_string())
    }

    /// An operand, in brackets if the pretty form needs them there.
    fn operand(&self, out: &mut String, operand: &Expr, parent: Parent) -> Result<()> {
        let is_bare = !self.pretty || is_simple(operand, parent);
        if is_bare {
            return self.expression(out, operand, true);
        }
        out.push('(');
        self.expression(out, operand, true)?;
        out.push(')');
        Ok(())
    }

    /// A part that has brackets in the plain form.
    fn bracketed(
        &self,
        out: &mut String,
        body: impl FnOnce(&mut String) -> Result<()>,
    ) -> Result<()> {
        if self.pretty {
            return body(out);
        }
        out.push('(');
        body(out)?;
        out.push(')');
        Ok(())
    }

    /// `shows_implicit`: conversions that nobody has written are printed too.
    fn expression(&self, out: &mut String, expression: &Expr, shows_implicit: bool) -> Result<()> {
        match expression {
            Expr::Constant(value, data_type) => self.constant(out, value, *data_type, true),
            Expr::Column(at, _) => {
                out.push_str(&(self.column)(*at));
                Ok(())
            }
            Expr::Parameter(at, _) => write_text(out, format_args!("${}", at + 1)),
            Expr::Call(call) => self.call(out, call),
            Expr::Cast(operand, target, CastContext::Explicit)
                if operand.data_type() == *target =>
            {
                self.bracketed(out, |out| {
                    self.operand(out, operand, Parent::Cast)?;
                    out.push_str(" COLLATE \"C\"");
                    Ok(())
                })
            }
            Expr::Cast(operand, target, how) => {
                if *how != CastContext::Explicit && !shows_implicit {
                    return self.expression(out, operand, false);
                }
                self.cast(out, operand, *target)
            }
            Expr::And(parts) => self.junction(out, parts, " AND ", Parent::And),
            Expr::Or(parts) => self.junction(out, parts, " OR ", Parent::Or),
            Expr::Not(operand) => match &**operand {
                Expr::Quantified(test) if !test.is_all => self.quantified(out, test, true),
                operand => self.bracketed(out, |out| {
                    out.push_str("NOT ");
                    self.operand(out, operand, Parent::Not)
                }),
            },
            Expr::IsNull(operand, negated) => {
                let test = if *negated { " IS NOT NULL" } else { " IS NULL" };
                self.tested(out, operand, test)
            }
            Expr::IsTruth(operand, wanted, negated) => {
                let wanted = match wanted {
                    Some(true) => "TRUE",
                    Some(false) => "FALSE",
                    None => "UNKNOWN",
                };
                let not = if *negated { "NOT " } else { "" };
                self.tested(out, operand, &format!(" IS {not}{wanted}"))
            }
            Expr::IsDistinct(pair, negated) => self.bracketed(out, |out| {
                self.operand(out, &pair.0, Parent::Test)?;
                let not = if *negated { "NOT " } else { "" };
                write_text(out, format_args!(" IS {not}DISTINCT FROM "))?;
                self.operand(out, &pair.1, Parent::Test)
            }),
            Expr::Case(branches, otherwise) => self.case(out, branches, otherwise),
            Expr::Coalesce(parts) => self.listed(out, "COALESCE(", parts, ")"),
            Expr::Extreme(parts, true) => self.listed(out, "GREATEST(", parts, ")"),
            Expr::Extreme(parts, false) => self.listed(out, "LEAST(", parts, ")"),
            Expr::Quantified(test) => self.quantified(out, test, false),
            Expr::Array(parts, data_type) => {
                self.listed(out, "ARRAY[", parts, "]")?;
                if parts.is_empty() {
                    write_text(out, format_args!("::{}", self.type_name(*data_type)))?;
                }
                Ok(())
            }
            Expr::Row(parts, _) => self.listed(out, "ROW(", parts, ")"),
            Expr::Field(operand, at, _) => self.field(out, operand, *at),
            Expr::Let(one) => self.expression(out, &one.written_out(), shows_implicit),
            // Expressions that the catalogue keeps have neither queries nor aggregates in them.
            Expr::Outer(..) | Expr::Subquery(_) | Expr::LetValue(..) | Expr::Pending(..) => {
                write_text(out, "(...)")
            }
        }
    }

    fn field(&self, out: &mut String, operand: &Expr, at: usize) -> Result<()> {
        out.push('(');
        self.operand(out, operand, Parent::Field)?;
        let name = match operand.kind() {
            Kind::Composite(oid) => {
                let shape = self.context.names.row_shape(oid);
                let name = shape.and_then(|shape| shape.names.get(at).cloned());
                name.map(|name| quoted(&name))
            }
            _ => None,
        };
        let name = name.unwrap_or_else(|| format!("f{}", at + 1));
        write_text(out, format_args!(").{name}"))
    }

    fn tested(&self, out: &mut String, operand: &Expr, test: &str) -> Result<()> {
        self.bracketed(out, |out| {
            self.operand(out, operand, Parent::Test)?;
            out.push_str(test);
            Ok(())
        })
    }

    fn junction(&self, out: &mut String, parts: &[Expr], word: &str, own: Parent) -> Result<()> {
        self.bracketed(out, |out| {
            for (at, part) in parts.iter().enumerate() {
                if at > 0 {
                    out.push_str(word);
                }
                self.operand(out, part, own)?;
            }
            Ok(())
        })
    }

    fn listed(&self, out: &mut String, start: &str, parts: &[Expr], end: &str) -> Result<()> {
        out.push_str(start);
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                out.push_str(", ");
            }
            self.expression(out, part, true)?;
        }
        out.push_str(end);
        Ok(())
    }

    fn cast(&self, out: &mut String, operand: &Expr, target: Type) -> Result<()> {
        match operand {
            Expr::Call(call)
                if MOMENTS.contains(&call.function.name)
                    && call.data_type.kind == target.kind
                    && target.modifier >= 0 =>
            {
                self.call(out, call)?;
                return write_text(out, format_args!("({})", target.modifier));
            }
            Expr::Constant(value, data_type)
                if data_type.kind == target.kind && data_type.modifier < 0 =>
            {
                self.constant(out, value, *data_type, false)?;
            }
            operand => self.bracketed(out, |out| {
                if self.pretty && !is_simple(operand, Parent::Cast) {
                    out.push('(');
                    self.expression(out, operand, false)?;
                    out.push(')');
                    return Ok(());
                }
                self.expression(out, operand, false)
            })?,
        }
        write_text(out, format_args!("::{}", self.type_name(target)))
    }

    fn constant(
        &self,
        out: &mut String,
        value: &Datum,
        data_type: Type,
        is_labelled: bool,
    ) -> Result<()> {
        let mut needs_label = data_type.modifier >= 0;
        match (value, data_type.kind) {
            (Datum::Null, _) => {
                out.push_str("NULL");
                needs_label = data_type.kind != Kind::Unknown;
            }
            (Datum::Bool(value), _) => {
                write_text(out, value)?;
                needs_label = false;
            }
            (Datum::Int4(number), Kind::Int4) if *number >= 0 => write_text(out, number)?,
            (value, kind) => {
                let text = text_io::print(value, kind, &self.context)?;
                let is_plain = kind == Kind::Numeric
                    && text.starts_with(|first: char| first.is_ascii_digit())
                    && text.contains(['.', 'e', 'E']);
                if is_plain {
                    out.push_str(&text);
                } else {
                    write_text(out, format_args!("'{}'", text.replace('\'', "''")))?;
                    needs_label = kind != Kind::Unknown;
                }
            }
        }
        if is_labelled && needs_label {
            write_text(out, format_args!("::{}", self.type_name(data_type)))?;
        }
        Ok(())
    }

    fn call(&self, out: &mut String, call: &Call) -> Result<()> {
        let name = call.function.name;
        match call.arguments.as_slice() {
            [operand] if call.is_operator => self.bracketed(out, |out| {
                write_text(out, format_args!("{name} "))?;
                self.operand(out, operand, Parent::Operator(None, false))
            }),
            [left, right] if call.is_operator => self.bracketed(out, |out| {
                let letter = only_letter(name);
                self.operand(out, left, Parent::Operator(letter, true))?;
                write_text(out, format_args!(" {name} "))?;
                self.operand(out, right, Parent::Operator(letter, false))
            }),
            [] if KEYWORDS.contains(&name) => {
                out.push_str(&name.to_uppercase());
                Ok(())
            }
            [array, subscripts @ ..] if name == "array_subscript" => {
                self.subscripted(out, array, subscripts)
            }
            [zone, moment] if name == "timezone" => self.bracketed(out, |out| {
                self.operand(out, moment, Parent::Test)?;
                out.push_str(" AT TIME ZONE ");
                self.operand(out, zone, Parent::Test)
            }),
            [Expr::Constant(Datum::Text(field), _), moment] if name == "extract" => {
                write_text(out, format_args!("EXTRACT({field} FROM "))?;
                self.expression(out, moment, true)?;
                out.push(')');
                Ok(())
            }
            arguments => self.listed(out, &format!("{}(", quoted(name)), arguments, ")"),
        }
    }

    fn subscripted(&self, out: &mut String, array: &Expr, subscripts: &[Expr]) -> Result<()> {
        if matches!(array, Expr::Column(..)) {
            self.expression(out, array, true)?;
        } else {
            out.push('(');
            self.expression(out, array, true)?;
            out.push(')');
        }
        let subscripts = match subscripts {
            [Expr::Array(parts, _)] => parts.as_slice(),
            parts => parts,
        };
        for subscript in subscripts {
            self.listed(out, "[", std::slice::from_ref(subscript), "]")?;
        }
        Ok(())
    }

    /// A comparison with the elements of an array; conversions of the elements are those of the
    /// array.
    fn quantified(&self, out: &mut String, test: &Quantified, negated: bool) -> Result<()> {
        let (name, left, array) = match &test.condition {
            Expr::Call(call) => {
                let left = match call.arguments.first() {
                    Some(Expr::Cast(_, target, how)) => {
                        Expr::Cast(Box::new(test.left.clone()), *target, *how)
                    }
                    _ => test.left.clone(),
                };
                let array = match call.arguments.get(1) {
                    Some(Expr::Cast(_, target, how)) => {
                        let target = target.kind.array().unwrap_or(target.kind).plain();
                        Expr::Cast(Box::new(test.array.clone()), target, *how)
                    }
                    _ => test.array.clone(),
                };
                (call.function.name, left, array)
            }
            _ => ("=", test.left.clone(), test.array.clone()),
        };
        let (name, word) = match (negated, test.is_all) {
            (true, _) => (crate::types::operator::negator(name).unwrap_or(name), "ALL"),
            (false, true) => (name, "ALL"),
            (false, false) => (name, "ANY"),
        };
        self.bracketed(out, |out| {
            self.operand(out, &left, Parent::Test)?;
            write_text(out, format_args!(" {name} {word} ("))?;
            self.operand(out, &array, Parent::Test)?;
            out.push(')');
            Ok(())
        })
    }

    fn case(&self, out: &mut String, branches: &[(Expr, Expr)], otherwise: &Expr) -> Result<()> {
        if branches.is_empty() {
            // The row of a table as a value.
            return self.expression(out, otherwise, true);
        }
        if let [(Expr::Call(equal), Expr::Constant(Datum::Null, _))] = branches
            && equal.is_equality()
            && equal.arguments[0].is_same(otherwise)
        {
            return self.listed(out, "NULLIF(", &equal.arguments, ")");
        }
        let operand = common_operand(branches);
        out.push_str("\nCASE");
        if let Some(operand) = operand {
            out.push(' ');
            self.expression(out, operand, true)?;
        }
        for (condition, result) in branches {
            out.push_str("\n    WHEN ");
            match condition {
                Expr::Call(equal) if operand.is_some() => {
                    self.expression(out, &equal.arguments[1], false)?;
                }
                condition => self.expression(out, condition, false)?,
            }
            out.push_str(" THEN ");
            self.expression(out, result, true)?;
        }
        out.push_str("\n    ELSE ");
        self.expression(out, otherwise, true)?;
        out.push_str("\nEND");
        Ok(())
    }
}

/// Functions that the grammar writes as words.
const KEYWORDS: &[&str] = &[
    "current_catalog",
    "current_date",
    "current_role",
    "current_time",
    "current_timestamp",
    "current_user",
    "localtime",
    "localtimestamp",
    "session_user",
    "user",
];

/// Moments that take the digits of their seconds in brackets.
const MOMENTS: &[&str] = &[
    "current_time",
    "current_timestamp",
    "localtime",
    "localtimestamp",
];

/// The value that all branches compare, if `CASE` is written with one.
fn common_operand(branches: &[(Expr, Expr)]) -> Option<&Expr> {
    let operand = |condition: &'_ Expr| match condition {
        Expr::Call(call) if call.is_equality() => call.arguments.first().cloned(),
        _ => None,
    };
    let [(Expr::Call(first), _), _, ..] = branches else {
        return None;
    };
    let first = first.arguments.first()?;
    let is_common = |condition| operand(condition).is_some_and(|one| one.is_same(first));
    let mut conditions = branches.iter().map(|(condition, _)| condition);
    conditions.all(is_common).then_some(first)
}

fn only_letter(name: &str) -> Option<char> {
    let mut letters = name.chars();
    letters.next().filter(|_| letters.next().is_none())
}

/// Whether an operand needs no brackets in the pretty form.
fn is_simple(operand: &Expr, parent: Parent) -> bool {
    match operand {
        Expr::Call(call) if call.is_operator => match parent {
            Parent::Operator(letter, is_first) => {
                let own = only_letter(call.function.name).filter(|_| call.arguments.len() == 2);
                binds_tighter(own, letter, is_first)
            }
            parent => is_apart(parent),
        },
        Expr::IsNull(..)
        | Expr::IsTruth(..)
        | Expr::IsDistinct(..)
        | Expr::Quantified(_)
        | Expr::Subquery(_) => is_apart(parent),
        Expr::And(_) | Expr::Not(_) => {
            matches!(parent, Parent::And | Parent::Or)
        }
        Expr::Or(_) => parent == Parent::Or,
        Expr::Field(..) => parent != Parent::Field,
        // Conversions between texts are no calls.
        Expr::Cast(inner, target, _) if target.kind.is_text() && inner.kind().is_text() => {
            is_simple(inner, Parent::Cast)
        }
        _ => true,
    }
}

/// Whether tests and operators need no brackets under a parent.
fn is_apart(parent: Parent) -> bool {
    matches!(parent, Parent::And | Parent::Or | Parent::Not)
}

fn binds_tighter(own: Option<char>, parent: Option<char>, is_first: bool) -> bool {
    let strength = |letter: Option<char>| match letter {
        Some('+' | '-') => Some(1),
        Some('*' | '/' | '%') => Some(2),
        _ => None,
    };
    match (strength(own), strength(parent)) {
        (Some(own), Some(parent)) => own > parent || (own == parent && is_first),
        _ => false,
    }
}

/// Writing to a text cannot fail.
#[expect(
    clippy::unnecessary_wraps,
    reason = "the parts of a text are written by calls of one form"
)]
fn write_text(out: &mut String, text: impl std::fmt::Display) -> Result<()> {
    let _ = write!(out, "{text}");
    Ok(())
}
