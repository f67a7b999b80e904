//! Operators, and the comparisons that are made of them: rows, lists, ranges and patterns.
//!
//! The operator decides to which types its operands are converted. Rows are compared field by
//! field, and a list of values of one type is an array.

use super::Binder;
use super::row_place::integer_key;
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Call, Expr, Quantified};
use crate::types::{Kind, Type, operator};
use sqlparser::ast::{BinaryOperator, Expr as Tree, InTarget, Spanned};
use std::sync::Arc;

impl Binder<'_> {
    /// An operator with its operands.
    pub(super) fn operator(&mut self, name: &str, mut operands: Vec<Expr>) -> Result<Expr> {
        if let [Expr::Row(..), Expr::Row(..)] = operands.as_slice() {
            return self.compare_rows(name, operands);
        }
        if name == "=" && operands.iter().any(|one| integer_key(one).is_some()) {
            operands = self.by_keys(operands)?;
        }
        let kinds: Vec<Kind> = operands.iter().map(Expr::kind).collect();
        let resolved = operator::resolve(name, &kinds)
            .map_err(|error| self.with_user_types(error, name, &kinds))?;
        let mut arguments = Vec::with_capacity(operands.len());
        for (operand, kind) in operands.into_iter().zip(&resolved.arguments) {
            arguments.push(self.coerce(operand, kind.plain())?);
        }
        let argument_types: Arc<[Type]> = arguments.iter().map(Expr::data_type).collect();
        Ok(Expr::Call(Call {
            function: resolved.function,
            arguments,
            argument_types,
            data_type: resolved.result.plain(),
            is_operator: true,
        }))
    }

    /// The error of an operator that does not exist, with the names of users' types.
    fn with_user_types(&self, error: SqlError, name: &str, kinds: &[Kind]) -> SqlError {
        let is_of_user = |kind: &Kind| {
            matches!(
                kind,
                Kind::Enum(_) | Kind::EnumArray(_) | Kind::Composite(_) | Kind::CompositeArray(_)
            )
        };
        if !kinds.iter().any(is_of_user) {
            return error;
        }
        let message = match kinds {
            [left, right] => {
                let (left, right) = (self.type_name(*left), self.type_name(*right));
                format!("operator does not exist: {left} {name} {right}")
            }
            [operand, ..] => format!(
                "operator does not exist: {name} {}",
                self.type_name(*operand)
            ),
            [] => error.message.clone(),
        };
        SqlError { message, ..error }
    }

    /// An operator with a left operand that is bound.
    pub(super) fn binary_operator(
        &mut self,
        left: Expr,
        op: &BinaryOperator,
        right: &Tree,
    ) -> Result<Expr> {
        let name = match op {
            BinaryOperator::PGCustomBinaryOperator(parts) => {
                parts.last().cloned().unwrap_or_default()
            }
            BinaryOperator::NotEq => "<>".to_owned(),
            BinaryOperator::Overlaps => return self.overlaps(left, right),
            op => op.to_string(),
        };
        if let Tree::Subquery(query) = right
            && matches!(left, Expr::Row(..))
        {
            return self.row_subquery(left, &name, query);
        }
        let span = right.span();
        let right = self.expression(right)?;
        let found = self.operator(&name, vec![left, right]);
        found.map_err(|error| self.at(span, error))
    }

    fn overlaps(&mut self, left: Expr, right: &Tree) -> Result<Expr> {
        let right = self.expression(right)?;
        match (left, right) {
            (Expr::Row(mut ends, _), Expr::Row(others, _)) => {
                ends.extend(others);
                self.call("overlaps", ends)
            }
            _ => {
                let message = "wrong number of parameters on left side of OVERLAPS expression";
                Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
            }
        }
    }

    /// Rows are compared field by field, from the left.
    fn compare_rows(&mut self, name: &str, operands: Vec<Expr>) -> Result<Expr> {
        let mut operands = operands.into_iter();
        let (Some(Expr::Row(left, _)), Some(Expr::Row(right, _))) =
            (operands.next(), operands.next())
        else {
            return Err(SqlError::internal("two rows are compared"));
        };
        if left.len() != right.len() {
            let message = "unequal number of entries in row expressions";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let pairs: Vec<(Expr, Expr)> = left.into_iter().zip(right).collect();
        match name {
            "=" | "<>" | "!=" => {
                let equals = pairs
                    .into_iter()
                    .map(|(left, right)| self.operator("=", vec![left, right]));
                let equals = Expr::all(equals.collect::<Result<_>>()?);
                Ok(if name == "=" {
                    equals
                } else {
                    Expr::Not(Box::new(equals))
                })
            }
            "<" | "<=" | ">" | ">=" => self.row_order(name, pairs),
            _ => {
                let message =
                    format!("could not determine interpretation of row comparison operator {name}");
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            }
        }
    }

    /// `a < b OR a = b AND (the rest)`, from the right.
    fn row_order(&mut self, name: &str, pairs: Vec<(Expr, Expr)>) -> Result<Expr> {
        let strict = name.trim_end_matches('=');
        let mut result: Option<Expr> = None;
        for (left, right) in pairs.into_iter().rev() {
            let last = if result.is_none() { name } else { strict };
            let less = self.operator(last, vec![left.clone(), right.clone()])?;
            result = Some(match result {
                None => less,
                Some(rest) => {
                    let equal = self.operator("=", vec![left, right])?;
                    Expr::Or(vec![less, equal.and(rest)])
                }
            });
        }
        Ok(result.unwrap_or_else(|| Expr::boolean(true)))
    }

    pub(super) fn between(
        &mut self,
        operand: &Tree,
        (low, high): (&Tree, &Tree),
        negated: bool,
    ) -> Result<Expr> {
        let operand = self.expression(operand)?;
        let symmetric = argument_of(low, "symmetric");
        let low = self.expression(symmetric.unwrap_or(low))?;
        let high = self.expression(high)?;
        let mut within = self.is_within(&operand, low.clone(), high.clone())?;
        if symmetric.is_some() {
            let other = self.is_within(&operand, high, low)?;
            within = Expr::Or(vec![within, other]);
        }
        Ok(if negated {
            Expr::Not(Box::new(within))
        } else {
            within
        })
    }

    fn is_within(&mut self, operand: &Expr, low: Expr, high: Expr) -> Result<Expr> {
        let low = self.operator(">=", vec![operand.clone(), low])?;
        let high = self.operator("<=", vec![operand.clone(), high])?;
        Ok(low.and(high))
    }

    /// `IN` with a list or a query.
    pub(super) fn is_in(
        &mut self,
        operand: &Tree,
        target: &InTarget,
        negated: bool,
    ) -> Result<Expr> {
        let found = match target {
            InTarget::Subquery(query) => {
                let left = self.expression(operand)?;
                self.in_subquery(left, query)?
            }
            InTarget::List(items) => self.in_list(operand, items)?,
            InTarget::Unnest(_) | InTarget::Table { .. } => {
                let instead = "Use = ANY (array), or IN (SELECT ...).";
                return Err(SqlError::unsupported("this form of IN", instead));
            }
        };
        Ok(if negated {
            Expr::Not(Box::new(found))
        } else {
            found
        })
    }

    /// Values of one type that read no row are an array; others are compared one by one.
    fn in_list(&mut self, operand: &Tree, items: &[Tree]) -> Result<Expr> {
        let mut left = self.expression(operand)?;
        let mut bound = Vec::with_capacity(items.len());
        for item in items {
            bound.push(self.expression(item)?);
        }
        if integer_key(&left).is_some() {
            let like = left.clone();
            for item in &mut bound {
                let by_key = self.by_key(like.clone(), item.clone())?;
                (left, *item) = by_key;
            }
        }
        let is_row =
            matches!(left, Expr::Row(..)) || bound.iter().any(|item| matches!(item, Expr::Row(..)));
        let reads = |item: &Expr| item.reads_row() || item.any(|part, _| is_pending(part));
        let (reading, fixed): (Vec<Expr>, Vec<Expr>) = bound.iter().cloned().partition(reads);
        let mut tests = Vec::with_capacity(bound.len());
        if !is_row && fixed.len() > 1 {
            let before = self.parameters.clone();
            match self.among(&left, fixed)? {
                Some(test) => {
                    tests.push(test);
                    bound = reading;
                }
                None => self.parameters = before,
            }
        }
        for item in bound {
            tests.push(self.operator("=", vec![left.clone(), item])?);
        }
        Ok(if tests.len() == 1 {
            tests.remove(0)
        } else {
            Expr::Or(tests)
        })
    }

    /// Whether a value is one of several; none if they have no type in common. The operator may
    /// convert the value to another type than that of the others, as PostgreSQL's does:
    /// `numeric` and `real` are compared as `double precision`.
    fn among(&mut self, left: &Expr, items: Vec<Expr>) -> Result<Option<Expr>> {
        let mut parts = vec![left.clone()];
        parts.extend(items);
        let Ok((mut parts, Type { kind, .. })) = self.unify("IN", parts) else {
            return Ok(None);
        };
        let Some(array) = kind.array() else {
            return Ok(None);
        };
        let converted = parts.remove(0);
        let resolved = operator::resolve("=", &[left.kind(), kind]);
        let is_converted = left.kind() == Kind::Unknown
            || resolved.is_ok_and(|operator| {
                let same = [left.kind(), kind].contains(&operator.arguments[0]);
                same && operator.arguments.get(1) == Some(&kind)
            });
        let left = if is_converted {
            converted
        } else {
            left.clone()
        };
        let array = Expr::Array(parts, array.plain());
        self.any_element("=", left, array, false).map(Some)
    }

    /// `ANY` or `ALL` with an array or a query.
    pub(super) fn quantified(
        &mut self,
        left: &Tree,
        op: &BinaryOperator,
        right: &Tree,
        is_all: bool,
    ) -> Result<Expr> {
        let name = match op {
            BinaryOperator::NotEq => "<>".to_owned(),
            op => op.to_string(),
        };
        self.quantified_by(left, &name, right, is_all)
    }

    /// A comparison by an operator's name with the values of an array or a query.
    fn quantified_by(
        &mut self,
        left: &Tree,
        name: &str,
        right: &Tree,
        is_all: bool,
    ) -> Result<Expr> {
        let left = self.expression(left)?;
        let mut right = right;
        while let Tree::Nested(inner) = right {
            right = inner;
        }
        if let Tree::Subquery(query) = right {
            return self.quantified_subquery(left, name, query, is_all);
        }
        let array = self.expression(right)?;
        self.any_element(name, left, array, is_all)
    }

    /// A comparison with the elements of an array.
    pub(super) fn any_element(
        &mut self,
        name: &str,
        left: Expr,
        array: Expr,
        is_all: bool,
    ) -> Result<Expr> {
        let array = match array.kind() {
            Kind::Unknown => {
                let element = match left.kind() {
                    Kind::Unknown => Kind::Text,
                    kind => kind,
                };
                let kind = element.array().ok_or_else(needs_array)?;
                self.coerce(array, kind.plain())?
            }
            kind if kind.element().is_some() => array,
            _ => return Err(needs_array()),
        };
        let of_places = name == "=" && array.kind() == Kind::Array(&Kind::Tid);
        let (left, array) = match integer_key(&left).filter(|_| of_places).cloned() {
            Some(key) => (key, self.key_of_place(&left, array)?),
            None => (left, array),
        };
        let element = array.kind().element().unwrap_or(Kind::Text);
        let operands = vec![
            Expr::Column(0, left.data_type()),
            Expr::Column(1, element.plain()),
        ];
        let is_unknown = left.kind() == Kind::Unknown;
        let left = if is_unknown {
            self.coerce(left, element.plain())?
        } else {
            left
        };
        let operands = if is_unknown {
            vec![
                Expr::Column(0, element.plain()),
                Expr::Column(1, element.plain()),
            ]
        } else {
            operands
        };
        let condition = self.operator(name, operands)?;
        if condition.kind() != Kind::Bool {
            let message = "op ANY/ALL (array) requires operator to yield boolean";
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        Ok(Expr::Quantified(Box::new(Quantified {
            left,
            array,
            condition,
            is_all,
        })))
    }

    /// `LIKE` and `ILIKE`.
    pub(super) fn matches_pattern(
        &mut self,
        operand: &Tree,
        pattern: &Tree,
        escape: Option<&Tree>,
        (name, is_any): (&str, bool),
    ) -> Result<Expr> {
        if is_any {
            return self.quantified_by(operand, name, pattern, false);
        }
        if let Some(array) = argument_of(pattern, "all") {
            return self.quantified_by(operand, name, array, true);
        }
        let (operand, mut pattern) = (self.expression(operand)?, self.expression(pattern)?);
        if let Some(escape) = escape {
            let escape = self.expression(escape)?;
            pattern = self.call("like_escape", vec![pattern, escape])?;
        }
        self.operator(name, vec![operand, pattern])
    }

    /// `SIMILAR TO` is a regular expression of another form.
    pub(super) fn similar(
        &mut self,
        operand: &Tree,
        pattern: &Tree,
        escape: Option<&Tree>,
        negated: bool,
    ) -> Result<Expr> {
        let (operand, pattern) = (self.expression(operand)?, self.expression(pattern)?);
        let mut arguments = vec![pattern];
        if let Some(escape) = escape {
            arguments.push(self.expression(escape)?);
        }
        let pattern = self.call("similar_to_escape", arguments)?;
        self.operator(if negated { "!~" } else { "~" }, vec![operand, pattern])
    }
}

fn is_pending(part: &Expr) -> bool {
    matches!(part, Expr::Pending(..))
}

/// The argument of a word of the grammar that the parser takes for a call.
fn argument_of<'t>(tree: &'t Tree, word: &str) -> Option<&'t Tree> {
    use sqlparser::ast::{FunctionArg, FunctionArgExpr, FunctionArguments};
    let Tree::Function(function) = tree else {
        return None;
    };
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(array))]
            if function.name.to_string().eq_ignore_ascii_case(word) =>
        {
            Some(array)
        }
        _ => None,
    }
}

fn needs_array() -> SqlError {
    let message = "op ANY/ALL (array) requires array on right side";
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
}
