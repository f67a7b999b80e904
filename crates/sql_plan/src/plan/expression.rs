//! Bound expressions: names are positions, and every part has its type.
//!
//! An expression reads a row of the operator that evaluates it, the rows of the queries around its
//! own ([`Expr::Outer`]), the parameters, and the session. The binder makes it, the planner moves
//! it between operators by renumbering its columns, and `run::evaluate` computes it.

use super::node::Node;
use crate::types::cast::CastContext;
use crate::types::function::{Body, Function, Volatility};
use crate::types::{Datum, Kind, RecordShape, Type};
use std::sync::Arc;

/// An expression. Conditions are joined and taken apart in `factor`, parts are visited in `walk`.
#[derive(Clone, Debug)]
pub enum Expr {
    /// A value.
    Constant(Datum, Type),
    /// A value of the row.
    Column(usize, Type),
    /// A value of the row of an enclosing query: level 1 is the next one.
    Outer(usize, usize, Type),
    /// A parameter, from 0.
    Parameter(usize, Type),
    /// A function or operator.
    Call(Call),
    /// A value converted to a type.
    Cast(Box<Expr>, Type, CastContext),
    /// All of them are true.
    And(Vec<Expr>),
    /// One of them is true.
    Or(Vec<Expr>),
    /// The opposite.
    Not(Box<Expr>),
    /// `IS NULL`, or `IS NOT NULL` if negated.
    IsNull(Box<Expr>, bool),
    /// `IS TRUE`, `IS FALSE`, `IS UNKNOWN`, and their opposites if negated.
    IsTruth(Box<Expr>, Option<bool>, bool),
    /// `IS DISTINCT FROM`, or its opposite if negated.
    IsDistinct(Box<(Expr, Expr)>, bool),
    /// The first result whose condition is true, or the last one.
    Case(Vec<(Expr, Expr)>, Box<Expr>),
    /// The first that is not NULL.
    Coalesce(Vec<Expr>),
    /// The greatest, or else the least, that is not NULL.
    Extreme(Vec<Expr>, bool),
    /// A comparison with the elements of an array.
    Quantified(Box<Quantified>),
    /// An array of the values.
    Array(Vec<Expr>, Type),
    /// A row of the values.
    Row(Vec<Expr>, Arc<RecordShape>),
    /// A field of a row.
    Field(Box<Expr>, usize, Type),
    /// A query.
    Subquery(Arc<Subquery>),
    /// An expression that reads a value several times, which is evaluated once.
    Let(Box<Let>),
    /// The value of a [`Let`], by its number.
    LetValue(usize, Type),
    /// Result of an aggregate or window function, while the binder looks at the rest of the query.
    Pending(Pending, usize, Type),
}

/// A call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The function that was chosen.
    pub function: &'static Function,
    /// The arguments, already converted to its types.
    pub arguments: Vec<Expr>,
    /// Types of the arguments.
    pub argument_types: Arc<[Type]>,
    /// Type of the result.
    pub data_type: Type,
    /// Whether it is written as an operator.
    pub is_operator: bool,
}

impl Call {
    /// Whether it is the operator `=`.
    pub fn is_equality(&self) -> bool {
        self.is_operator && self.function.name == "="
    }

    /// Whether the arguments, the settings and the moment are all that the result comes from.
    pub fn is_plain(&self) -> bool {
        self.is_stable() && !matches!(self.function.body, Body::Host(_) | Body::HostSet(_))
    }

    /// Whether the same arguments give the same result within a statement.
    pub fn is_stable(&self) -> bool {
        self.function.volatility != Volatility::Volatile
    }
}

/// Functions whose results the binder puts into rows later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// An aggregate of this query.
    Aggregate,
    /// A window function.
    Window,
    /// `GROUPING`, a constant of each grouping set.
    Grouping,
    /// An aggregate of the query so many levels out.
    Outer(usize),
}

/// `ANY` or `ALL` over an array.
#[derive(Clone, Debug)]
pub struct Quantified {
    /// The value that is compared.
    pub left: Expr,
    /// The array of values that it is compared with.
    pub array: Expr,
    /// Over the left value and an element.
    pub condition: Expr,
    /// Whether it must be true for all elements, instead of one.
    pub is_all: bool,
}

/// A value that is evaluated once, and an expression that reads it. Those that are evaluated after
/// the expression read it too, until it is evaluated again.
#[derive(Clone, Debug)]
pub struct Let {
    /// The number of the value in the statement.
    pub number: usize,
    /// The value.
    pub value: Expr,
    /// The expression, in which [`Expr::LetValue`] is the value.
    pub body: Expr,
}

impl Let {
    /// The expression with the value written wherever it is read.
    pub fn written_out(&self) -> Expr {
        let mut body = self.body.clone();
        let walked = body.walk(0, &mut |part, _| {
            if matches!(part, Expr::LetValue(number, _) if *number == self.number) {
                *part = self.value.clone();
                return Ok(false);
            }
            Ok(true)
        });
        debug_assert!(walked.is_ok(), "the visitor does not fail");
        body
    }
}

/// A query inside an expression.
#[derive(Clone, Debug)]
pub struct Subquery {
    /// The plan of the query.
    pub node: Node,
    /// The use of its rows.
    pub test: SubqueryTest,
    /// Type of the expression's value.
    pub data_type: Type,
    /// Whether it reads rows of the queries around it.
    pub is_correlated: bool,
}

/// Use of a query's rows.
#[derive(Clone, Debug)]
pub enum SubqueryTest {
    /// The only value of the only row, or NULL.
    Scalar,
    /// Whether there is a row.
    Exists,
    /// An array of the values.
    Array(Kind),
    /// Whether a condition is true for one of its rows.
    Any(RowTest),
    /// Whether it is true for all of them.
    All(RowTest),
}

/// A condition over values of the row, followed by a row of the query.
#[derive(Clone, Debug)]
pub struct RowTest {
    /// The values that stand before the query.
    pub left: Vec<Expr>,
    /// Over these values, followed by a row of the query.
    pub condition: Box<Expr>,
}

impl Expr {
    /// Whether its collation is `C`: that of names, of what has `COLLATE "C"`, and of what is made
    /// of them.
    pub fn has_c_collation(&self) -> bool {
        let any = |parts: &[Self]| parts.iter().any(Self::has_c_collation);
        let kind = self.kind();
        if !(kind.is_text() || kind == Kind::Bpchar) {
            return false;
        }
        kind == Kind::Name
            || match self {
                Self::Call(call) => any(&call.arguments),
                Self::Cast(inner, target, CastContext::Explicit)
                    if inner.data_type() == *target =>
                {
                    true
                }
                Self::Cast(inner, ..) => inner.has_c_collation(),
                Self::Case(arms, otherwise) => {
                    otherwise.has_c_collation() || arms.iter().any(|(_, one)| one.has_c_collation())
                }
                Self::Coalesce(parts) | Self::Extreme(parts, _) => any(parts),
                Self::Subquery(query) => query.node.has_c_collation(0),
                Self::Let(one) => one.body.has_c_collation(),
                _ => false,
            }
    }

    /// The expression with `COLLATE "C"`: a conversion to its own type, which no other one is.
    #[must_use]
    pub fn collated(self) -> Self {
        let data_type = self.data_type();
        Self::Cast(Box::new(self), data_type, CastContext::Explicit)
    }

    /// The expression, with `COLLATE "C"` if it is a text of something that has it.
    #[must_use]
    pub fn collated_if(self, is_of_c: bool) -> Self {
        let is_text = matches!(self.kind(), Kind::Text | Kind::Varchar);
        match is_of_c && is_text {
            true => self.collated(),
            false => self,
        }
    }

    /// NULL of a type.
    pub fn null(data_type: Type) -> Self {
        Self::Constant(Datum::Null, data_type)
    }

    /// True or false.
    pub fn boolean(value: bool) -> Self {
        Self::Constant(Datum::Bool(value), Kind::Bool.plain())
    }

    /// Its type.
    pub fn data_type(&self) -> Type {
        match self {
            Self::Constant(_, data_type)
            | Self::Column(_, data_type)
            | Self::Outer(_, _, data_type)
            | Self::Parameter(_, data_type)
            | Self::Cast(_, data_type, _)
            | Self::Array(_, data_type)
            | Self::Field(_, _, data_type)
            | Self::LetValue(_, data_type)
            | Self::Pending(_, _, data_type) => *data_type,
            Self::Call(call) => call.data_type,
            Self::And(_)
            | Self::Or(_)
            | Self::Not(_)
            | Self::IsNull(..)
            | Self::IsTruth(..)
            | Self::IsDistinct(..)
            | Self::Quantified(_) => Kind::Bool.plain(),
            Self::Case(branches, otherwise) => {
                let values = branches.iter().map(|(_, value)| value);
                common_type(otherwise.data_type(), values)
            }
            Self::Coalesce(parts) | Self::Extreme(parts, _) => match parts.as_slice() {
                [first, rest @ ..] => common_type(first.data_type(), rest),
                [] => Kind::Text.plain(),
            },
            Self::Row(..) => Kind::Record.plain(),
            Self::Subquery(subquery) => subquery.data_type,
            Self::Let(one) => one.body.data_type(),
        }
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Case(_, otherwise) => otherwise.kind(),
            Self::Coalesce(parts) | Self::Extreme(parts, _) => {
                parts.first().map_or(Kind::Text, Self::kind)
            }
            _ => self.data_type().kind,
        }
    }

    /// Whether another expression gives the same value for the same row, as far as their forms
    /// tell.
    pub fn is_same(&self, other: &Self) -> bool {
        let all = |ones: &[Self], others: &[Self]| {
            ones.len() == others.len()
                && ones
                    .iter()
                    .zip(others)
                    .all(|(one, other)| one.is_same(other))
        };
        match (self, other) {
            (Self::Constant(one, kind), Self::Constant(other, other_kind)) => {
                kind == other_kind && one.is_identical(other)
            }
            (Self::Column(one, _), Self::Column(other, _))
            | (Self::Parameter(one, _), Self::Parameter(other, _)) => one == other,
            (Self::Outer(level, at, _), Self::Outer(other_level, other_at, _)) => {
                level == other_level && at == other_at
            }
            (Self::Subquery(one), Self::Subquery(other)) => Arc::ptr_eq(one, other),
            (Self::Call(one), Self::Call(other)) => {
                std::ptr::eq(one.function, other.function) && all(&one.arguments, &other.arguments)
            }
            (Self::Cast(one, to, _), Self::Cast(other, other_to, _)) => {
                to == other_to && one.is_same(other)
            }
            (Self::And(one), Self::And(other))
            | (Self::Or(one), Self::Or(other))
            | (Self::Coalesce(one), Self::Coalesce(other))
            | (Self::Array(one, _), Self::Array(other, _))
            | (Self::Row(one, _), Self::Row(other, _)) => all(one, other),
            (Self::Extreme(one, greatest), Self::Extreme(other, other_greatest)) => {
                greatest == other_greatest && all(one, other)
            }
            (Self::Not(one), Self::Not(other)) => one.is_same(other),
            (Self::IsNull(one, negated), Self::IsNull(other, other_negated)) => {
                negated == other_negated && one.is_same(other)
            }
            (
                Self::IsTruth(one, wanted, negated),
                Self::IsTruth(other, other_wanted, other_negated),
            ) => (wanted, negated) == (other_wanted, other_negated) && one.is_same(other),
            (Self::IsDistinct(one, negated), Self::IsDistinct(other, other_negated)) => {
                negated == other_negated && one.0.is_same(&other.0) && one.1.is_same(&other.1)
            }
            (Self::Case(one, otherwise), Self::Case(other, other_otherwise)) => {
                one.len() == other.len()
                    && otherwise.is_same(other_otherwise)
                    && one
                        .iter()
                        .zip(other)
                        .all(|(one, other)| one.0.is_same(&other.0) && one.1.is_same(&other.1))
            }
            (Self::Field(one, at, _), Self::Field(other, other_at, _)) => {
                at == other_at && one.is_same(other)
            }
            (Self::Quantified(one), Self::Quantified(other)) => {
                one.is_all == other.is_all
                    && one.left.is_same(&other.left)
                    && one.array.is_same(&other.array)
                    && one.condition.is_same(&other.condition)
            }
            // Expressions of one form read their own values at the same places.
            (Self::LetValue(_, one), Self::LetValue(_, other)) => one == other,
            (Self::Let(one), Self::Let(other)) => {
                one.value.is_same(&other.value) && one.body.is_same(&other.body)
            }
            (Self::Pending(one, at, _), Self::Pending(other, other_at, _)) => {
                one == other && at == other_at
            }
            _ => false,
        }
    }
}

/// The type of values of one kind: with the modifier of the first one, if all others have it too.
fn common_type<'e>(first: Type, rest: impl IntoIterator<Item = &'e Expr>) -> Type {
    let mut rest = rest.into_iter();
    match first.modifier == -1 || rest.all(|one| one.data_type().modifier == first.modifier) {
        true => first,
        false => first.kind.plain(),
    }
}
