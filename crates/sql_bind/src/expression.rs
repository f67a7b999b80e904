//! Expressions.
//!
//! Chains of one operator are read from their left end, however long they are; everything else is
//! bound by recursion, whose depth is bounded.

use super::lookup::ambiguous;
use super::{Binder, TypeName, ident_text};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::Expr;
use crate::types::cast::CastContext;
use crate::types::function::Body;
use crate::types::overload::coerces;
use crate::types::{Datum, Kind, RecordShape, Type};
use sql_parse::Copied;
use sqlparser::ast::{
    self, BinaryOperator, CaseWhen, Expr as Tree, Ident, Spanned, Subscript, UnaryOperator,
};
use std::sync::Arc;

/// A power with another base; none if a tree is none.
fn with_base(tree: &Tree, base: &dyn Fn(&Tree) -> Tree) -> Option<Tree> {
    let Tree::BinaryOp { left, op, right } = tree else {
        return None;
    };
    (*op == BinaryOperator::PGExp).then(|| Tree::BinaryOp {
        left: Box::new(with_base(left, base).unwrap_or_else(|| base(left))),
        op: op.clone(),
        right: right.copied(),
    })
}

fn is_arithmetic(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Plus
            | BinaryOperator::Minus
            | BinaryOperator::Multiply
            | BinaryOperator::Divide
            | BinaryOperator::Modulo
            | BinaryOperator::PGExp
    )
}

impl Binder<'_> {
    /// An expression over the row of the innermost scope.
    pub(super) fn expression(&mut self, tree: &Tree) -> Result<Expr> {
        self.deeper(|binder| binder.any_expression(tree))
    }

    fn any_expression(&mut self, tree: &Tree) -> Result<Expr> {
        match tree {
            Tree::Identifier(name) => self.identifier(name),
            Tree::CompoundIdentifier(names) => self.compound(names),
            Tree::CompoundFieldAccess { root, access_chain } => self.access(root, access_chain),
            Tree::Value(value) => self.value(value),
            Tree::Nested(inner) => self.expression(inner),
            Tree::BinaryOp { left, op, right } => self.binary(left, op, right),
            Tree::UnaryOp { op, expr } => self.unary(*op, expr),
            Tree::Cast {
                expr, data_type, ..
            } => {
                let target = self.cast_target(data_type)?;
                self.note_type(data_type);
                let cast = self.cast_as(expr, target.data_type)?;
                match target.domain {
                    Some(domain) => self.checked_by(cast, domain),
                    None => Ok(cast),
                }
            }
            Tree::TypedString(typed) => self.typed_string(typed),
            Tree::Interval(interval) => self.interval(interval),
            Tree::Case {
                operand,
                conditions,
                else_result,
                ..
            } => self.without_sets("CASE", |binder| {
                binder.case(operand.as_deref(), conditions, else_result.as_deref())
            }),
            Tree::Function(function) => self.function(function),
            Tree::Exists { subquery, negated } => self.exists(subquery, *negated),
            Tree::Subquery(query) => self.scalar_subquery(query),
            Tree::Array(array) => self.array(&array.elem),
            Tree::Tuple(parts) => self.row(parts),
            Tree::Collate { expr, collation } => self.collate(expr, collation),
            _ => self.predicate(tree),
        }
    }

    /// An expression as a value of a type, as `CAST` asks for. The parts of `ARRAY[...]` are values
    /// of its type at once.
    fn cast_as(&mut self, tree: &Tree, target: Type) -> Result<Expr> {
        let (Some(array), Some(element)) = (array_of(tree), target.kind.element()) else {
            let operand = self.expression(tree)?;
            let cast = self.cast_to(operand, target);
            return cast.map_err(|error| self.at(tree.span(), error));
        };
        let mut parts = Vec::with_capacity(array.elem.len());
        for part in &array.elem {
            parts.push(match array_of(part) {
                Some(_) => self.deeper(|binder| binder.cast_as(part, target))?,
                None => self.expression(part)?,
            });
        }
        let kind = match parts.iter().any(|part| part.kind().is_array()) {
            true => target.kind,
            false => element,
        };
        let of_part = Type { kind, ..target };
        let parts = parts.into_iter().zip(&array.elem).map(|(part, tree)| {
            let part = self.cast_to(part, of_part);
            part.map_err(|error| self.at(tree.span(), error))
        });
        Ok(Expr::Array(parts.collect::<Result<_>>()?, target))
    }

    /// The type of a cast. Texts of the functions that read values are texts.
    fn cast_target(&self, name: &ast::DataType) -> Result<TypeName> {
        match name {
            ast::DataType::Custom(own, modifiers)
                if modifiers.is_empty() && super::object_name(own)?.1 == "cstring" =>
            {
                Ok(Kind::Text.plain().into())
            }
            name => super::type_named(self.names, name),
        }
    }

    /// Tests of values; other expressions are forms of calls.
    fn predicate(&mut self, tree: &Tree) -> Result<Expr> {
        match tree {
            Tree::IsNull(operand) => self.is_null(operand, false),
            Tree::IsNotNull(operand) => self.is_null(operand, true),
            Tree::IsTrue(operand) => self.is_truth(operand, Some(true), false),
            Tree::IsNotTrue(operand) => self.is_truth(operand, Some(true), true),
            Tree::IsFalse(operand) => self.is_truth(operand, Some(false), false),
            Tree::IsNotFalse(operand) => self.is_truth(operand, Some(false), true),
            Tree::IsUnknown(operand) => self.is_truth(operand, None, false),
            Tree::IsNotUnknown(operand) => self.is_truth(operand, None, true),
            Tree::IsDistinctFrom(left, right) => self.is_distinct(left, right, false),
            Tree::IsNotDistinctFrom(left, right) => self.is_distinct(left, right, true),
            Tree::Between {
                expr,
                negated,
                low,
                high,
            } => self.between(expr, (low, high), *negated),
            Tree::In {
                expr,
                target,
                negated,
                ..
            } => self.is_in(expr, target, *negated),
            Tree::AnyOp {
                left,
                compare_op,
                right,
                ..
            } => self.quantified(left, compare_op, right, false),
            Tree::AllOp {
                left,
                compare_op,
                right,
            } => self.quantified(left, compare_op, right, true),
            Tree::Like {
                negated,
                any,
                expr,
                pattern,
                escape_char,
            } => self.matches_pattern(
                expr,
                pattern,
                escape_char.as_deref(),
                (if *negated { "!~~" } else { "~~" }, *any),
            ),
            Tree::ILike {
                negated,
                any,
                expr,
                pattern,
                escape_char,
            } => self.matches_pattern(
                expr,
                pattern,
                escape_char.as_deref(),
                (if *negated { "!~~*" } else { "~~*" }, *any),
            ),
            Tree::SimilarTo {
                negated,
                expr,
                pattern,
                escape_char,
            } => self.similar(expr, pattern, escape_char.as_deref(), *negated),
            _ => self.special_form(tree),
        }
    }

    fn identifier(&mut self, name: &Ident) -> Result<Expr> {
        let text = ident_text(name);
        if let Some(expression) = self.value_keyword(name, &text) {
            return expression;
        }
        match self.column(None, &text, name.span) {
            Err(error) if error.state == SqlState::UNDEFINED_COLUMN && self.knows_table(&text) => {
                let mut tables = self.scopes.iter().rev().flat_map(|scope| &scope.tables);
                let table = tables.find(|table| table.alias == text);
                let is_value = table.is_some_and(|table| table.is_value);
                if is_value && let Expr::Row(mut fields, _) = self.whole_row(&text)? {
                    return Ok(fields.swap_remove(0));
                }
                // A row as a value, which is compared as one: NULL is equal to NULL in it. Rows
                // that are written field by field are compared field by field.
                Ok(match self.row_value(&text)? {
                    row @ Expr::Row(..) => Expr::Case(Vec::new(), Box::new(row)),
                    row => row,
                })
            }
            found => found,
        }
    }

    /// `table.*` as a value.
    pub(super) fn row_of_table(&mut self, name: &ast::ObjectName) -> Result<Expr> {
        let (_, alias) = super::object_name(name)?;
        if !self.knows_table(&alias) {
            let message = format!("missing FROM-clause entry for table \"{alias}\"");
            return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
        }
        self.row_value(&alias)
    }

    /// The row of a table as a value: NULL where an outer join has none.
    pub(super) fn row_value(&mut self, alias: &str) -> Result<Expr> {
        if self.scopes.iter().any(|scope| scope.is_common(alias)) {
            return Err(ambiguous(alias));
        }
        let row = self.whole_row(alias)?;
        let mut scopes = self.scopes.iter().rev().enumerate();
        let presence = scopes.find_map(|(level, scope)| {
            let table = scope.tables.iter().find(|table| table.alias == alias)?;
            Some((level, table.presence.clone()))
        });
        let Some((level, Some(mut presence))) = presence else {
            return Ok(row);
        };
        for _ in 0..level {
            presence = presence.into_outer();
        }
        let is_missing = Expr::IsNull(Box::new(presence), false);
        let null = Expr::null(Kind::Record.plain());
        Ok(Expr::Case(vec![(is_missing, null)], Box::new(row)))
    }

    /// The fields of the row of a table.
    pub(super) fn whole_row(&mut self, alias: &str) -> Result<Expr> {
        let found = self
            .scopes
            .iter()
            .rev()
            .enumerate()
            .find_map(|(level, scope)| {
                let table = scope.tables.iter().find(|table| table.alias == alias)?;
                let columns = scope.columns.iter();
                let columns =
                    columns.filter(|column| column.table.as_deref() == Some(table.alias.as_str()));
                let fields: Vec<(String, Expr)> = columns
                    .map(|column| (column.name.clone(), column.expression.clone()))
                    .collect();
                Some((level, fields))
            });
        let (level, fields) = found.unwrap_or_default();
        let shape = RecordShape {
            names: fields
                .iter()
                .map(|(name, _)| name.as_str().into())
                .collect(),
            types: fields.iter().map(|(_, field)| field.data_type()).collect(),
        };
        let fields = fields.into_iter().map(|(_, field)| field).collect();
        let mut row = Expr::Row(fields, Arc::new(shape));
        for _ in 0..level {
            row = row.into_outer();
        }
        Ok(row)
    }

    /// Elements of an array, or a part of it if one of the subscripts is a slice.
    pub(super) fn subscripted(&mut self, value: Expr, subscripts: &[&Subscript]) -> Result<Expr> {
        if subscripts.is_empty() {
            return Ok(value);
        }
        if value.kind() == Kind::Jsonb {
            let (path, _) = self.json_path(subscripts.iter().copied())?;
            return self.operator("#>", vec![value, path]);
        }
        let is_slice = subscripts
            .iter()
            .any(|one| matches!(one, Subscript::Slice { .. }));
        let mut arguments = vec![value];
        let int4 = Kind::Int4.plain();
        for subscript in subscripts {
            let (low, high) = match subscript {
                Subscript::Index { index } if is_slice => (None, Some(index)),
                Subscript::Index { index } => (Some(index), None),
                Subscript::Slice {
                    lower_bound,
                    upper_bound,
                    ..
                } => (lower_bound.as_ref(), upper_bound.as_ref()),
            };
            let is_index = matches!(subscript, Subscript::Index { .. });
            // An end that is left out is beyond all elements; one that is NULL makes the part NULL.
            for (end, wanted, beyond) in [(low, true, i32::MIN), (high, is_slice, i32::MAX)] {
                if !wanted {
                    continue;
                }
                let end = match end {
                    Some(end) => {
                        let end = self.expression(end)?;
                        self.subscript(end)?
                    }
                    None if is_index => Expr::Constant(Datum::Int4(1), int4),
                    None => Expr::Constant(Datum::Int4(beyond), int4),
                };
                arguments.push(end);
            }
        }
        let name = if is_slice {
            "array_slice"
        } else {
            "array_subscript"
        };
        self.call(name, arguments)
    }

    /// Subscripts of a value of `jsonb`, as the steps of a path, and whether the first of them is a
    /// number.
    pub(super) fn json_path<'s>(
        &mut self,
        subscripts: impl IntoIterator<Item = &'s Subscript>,
    ) -> Result<(Expr, bool)> {
        let mut steps = Vec::new();
        let mut begins_with_number = None;
        for subscript in subscripts {
            let Subscript::Index { index } = subscript else {
                let message = "jsonb subscript does not support slices";
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
            };
            let span = index.span();
            let step = self.expression(index)?;
            let kind = step.kind();
            let is_number = kind != Kind::Unknown && coerces(&[kind], &[Kind::Int4]);
            begins_with_number.get_or_insert(is_number);
            if !is_number && !coerces(&[kind], &[Kind::Text]) {
                let message = format!("subscript type {} is not supported", self.type_name(kind));
                let error = SqlError::new(SqlState::DATATYPE_MISMATCH, message);
                let hint = "jsonb subscript must be coercible to either integer or text.";
                return Err(self.at(span, error.hint(hint)));
            }
            steps.push(self.cast_to(step, Kind::Text.plain())?);
        }
        let path = Expr::Array(steps, Kind::Array(&Kind::Text).plain());
        Ok((path, begins_with_number.unwrap_or(false)))
    }

    fn is_null(&mut self, operand: &Tree, negated: bool) -> Result<Expr> {
        let operand = self.expression(operand)?;
        let operand = self.settle(operand)?;
        Ok(Expr::IsNull(Box::new(operand), negated))
    }

    fn is_truth(&mut self, operand: &Tree, wanted: Option<bool>, negated: bool) -> Result<Expr> {
        let clause = match (wanted, negated) {
            (Some(true), false) => "IS TRUE",
            (Some(true), true) => "IS NOT TRUE",
            (Some(false), false) => "IS FALSE",
            (Some(false), true) => "IS NOT FALSE",
            (None, false) => "IS UNKNOWN",
            (None, true) => "IS NOT UNKNOWN",
        };
        let operand = self.condition(operand, clause)?;
        Ok(Expr::IsTruth(Box::new(operand), wanted, negated))
    }

    fn is_distinct(&mut self, left: &Tree, right: &Tree, negated: bool) -> Result<Expr> {
        let (left, right) = (self.expression(left)?, self.expression(right)?);
        // The operator decides to which type both are converted.
        let equal = self.operator("=", vec![left, right])?;
        Ok(distinct(equal, negated))
    }

    fn case(
        &mut self,
        operand: Option<&Tree>,
        conditions: &[CaseWhen],
        otherwise: Option<&Tree>,
    ) -> Result<Expr> {
        let Some(operand) = operand else {
            return self.case_of(None, conditions, otherwise);
        };
        let operand = self.expression(operand)?;
        let operand = self.settle(operand)?;
        self.once(operand, |binder, operand| {
            binder.case_of(Some(&operand), conditions, otherwise)
        })
    }

    fn case_of(
        &mut self,
        operand: Option<&Expr>,
        conditions: &[CaseWhen],
        otherwise: Option<&Tree>,
    ) -> Result<Expr> {
        let mut tests = Vec::new();
        // PostgreSQL's choice of the type begins with the last result.
        let mut results = vec![match otherwise {
            Some(otherwise) => self.expression(otherwise)?,
            None => Expr::null(Kind::Unknown.plain()),
        }];
        for when in conditions {
            let test = match operand {
                None => self.condition(&when.condition, "CASE/WHEN")?,
                Some(operand) => {
                    let value = self.expression(&when.condition)?;
                    self.operator("=", vec![operand.clone(), value])?
                }
            };
            tests.push(test);
            results.push(self.expression(&when.result)?);
        }
        let (results, _) = self.unify("CASE", results)?;
        let mut results = results.into_iter();
        let otherwise = results
            .next()
            .unwrap_or_else(|| Expr::null(Kind::Text.plain()));
        Ok(Expr::Case(
            tests.into_iter().zip(results).collect(),
            Box::new(otherwise),
        ))
    }

    /// `ARRAY[...]`; elements that are arrays make another dimension.
    fn array(&mut self, elements: &[Tree]) -> Result<Expr> {
        let mut bound = Vec::with_capacity(elements.len());
        for element in elements {
            bound.push(self.expression(element)?);
        }
        if bound.is_empty() {
            // A cast gives it its type.
            return Ok(Expr::Array(bound, Kind::Unknown.plain()));
        }
        let (elements, Type { kind, modifier }) = self.unify("ARRAY", bound)?;
        let kind = if kind.is_array() {
            Some(kind)
        } else {
            kind.array()
        };
        let kind = kind.ok_or_else(|| {
            let message = "could not find array type for the elements of ARRAY[]";
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })?;
        Ok(Expr::Array(elements, Type { kind, modifier }))
    }

    /// `(a, b)` or `ROW(a, b)`.
    pub(super) fn row(&mut self, parts: &[Tree]) -> Result<Expr> {
        let fields = self.listed(parts)?;
        self.row_of(fields)
    }

    /// Values of a list, in which `table.*` stands for all columns.
    pub(super) fn listed(&mut self, parts: &[Tree]) -> Result<Vec<Expr>> {
        let mut values = Vec::with_capacity(parts.len());
        for part in parts {
            match (part, self.expression(part)?) {
                (Tree::QualifiedWildcard(..), Expr::Row(columns, _)) => values.extend(columns),
                (_, value) => values.push(value),
            }
        }
        Ok(values)
    }

    /// A row of values.
    pub(super) fn row_of(&mut self, fields: Vec<Expr>) -> Result<Expr> {
        let shape = RecordShape {
            names: (1..=fields.len())
                .map(|number| format!("f{number}").into())
                .collect(),
            types: fields.iter().map(Expr::data_type).collect(),
        };
        Ok(Expr::Row(fields, Arc::new(shape)))
    }

    fn typed_string(&mut self, typed: &ast::TypedString) -> Result<Expr> {
        let target = match &typed.data_type {
            // The length of a literal is its own, where that of a column would be 1.
            ast::DataType::Char(None) | ast::DataType::Character(None) => Kind::Bpchar.plain(),
            data_type => self.data_type(data_type)?,
        };
        self.note_type(&typed.data_type);
        let literal = self.value(&typed.value)?;
        let span = typed.value.span;
        self.cast_to(literal, target)
            .map_err(|error| self.at(span, error))
    }

    fn interval(&mut self, interval: &ast::Interval) -> Result<Expr> {
        let value = self.expression(&interval.value)?;
        let fields = match (&interval.leading_field, &interval.last_field) {
            (None, _) => None,
            (Some(first), None) => Some(first.to_string().to_lowercase()),
            (Some(first), Some(last)) => Some(format!("{first} to {last}").to_lowercase()),
        };
        let known = crate::types::kind::INTERVAL_FIELDS.iter();
        let mut known = known.filter(|(_, name)| Some(*name) == fields.as_deref());
        let digits = interval
            .fractional_seconds_precision
            .or(interval.leading_precision);
        let digits = digits.map(|digits| digits.min(6) as u8);
        let target = match (known.next(), digits) {
            (Some((mask, _)), digits) => Type::interval(*mask, digits),
            (None, Some(digits)) => Type::with_digits(Kind::Interval, digits),
            (None, None) => Kind::Interval.plain(),
        };
        self.cast_to(value, target)
    }

    fn collate(&mut self, operand: &Tree, collation: &ast::ObjectName) -> Result<Expr> {
        let operand = self.expression(operand)?;
        if !self.is_of_catalogue() {
            let collatable = super::check_collatable(operand.kind());
            collatable.map_err(|error| self.at(collation.span(), error))?;
        }
        let (_, name) = super::object_name(collation)?;
        if matches!(name.as_str(), "C" | "POSIX" | "default" | "ucs_basic") {
            let is_text = matches!(operand.kind(), Kind::Text | Kind::Varchar | Kind::Unknown);
            let is_told = name != "default" && is_text && !operand.has_c_collation();
            return Ok(if is_told { operand.collated() } else { operand });
        }
        Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("collation \"{name}\" for encoding \"UTF8\" does not exist"),
        )
        .hint("Use the collation \"C\": texts are compared by their bytes."))
    }

    fn unary(&mut self, op: UnaryOperator, operand: &Tree) -> Result<Expr> {
        match op {
            UnaryOperator::Not => {
                let operand = self.condition(operand, "NOT")?;
                Ok(Expr::Not(Box::new(operand)))
            }
            UnaryOperator::Minus => {
                if let Some(number) = self.negative_number(operand) {
                    return number;
                }
                // The parser has the minus of `-a ^ b` around the power; it belongs to `a`.
                if let Some(power) = with_base(operand, &|base| Tree::UnaryOp {
                    op: UnaryOperator::Minus,
                    expr: Box::new(base.copied()),
                }) {
                    return self.expression(&power);
                }
                let operand = self.expression(operand)?;
                self.operator("-", vec![operand])
            }
            op => {
                let span = operand.span();
                let operand = self.expression(operand)?;
                let operator = self.operator(&op.to_string(), vec![operand]);
                operator.map_err(|error| self.at(span, error))
            }
        }
    }

    /// A number with a minus: the least integers have no positive counterpart.
    fn negative_number(&mut self, operand: &Tree) -> Option<Result<Expr>> {
        let Tree::Value(value) = operand else {
            return None;
        };
        let ast::Value::Number(text, _) = &value.value else {
            return None;
        };
        let number: i64 = format!("-{text}").parse().ok()?;
        if let Some(parameter) = self.lifted(value.span, text, true) {
            return Some(Ok(parameter));
        }
        Some(Ok(match i32::try_from(number) {
            Ok(number) => Expr::Constant(Datum::Int4(number), Kind::Int4.plain()),
            Err(_) => Expr::Constant(Datum::Int8(number), Kind::Int8.plain()),
        }))
    }

    /// Two operands; chains of one operator are read from their left end, however long they are.
    fn binary(&mut self, left: &Tree, op: &BinaryOperator, right: &Tree) -> Result<Expr> {
        let mut chain = vec![(op, right)];
        let mut first = left;
        while let Tree::BinaryOp { left, op, right } = first {
            chain.push((op, right));
            first = left;
        }
        self.check_chain(&chain)?;
        let mut value = None;
        if let Tree::UnaryOp { op, expr } = first
            && !matches!(
                op,
                UnaryOperator::Not | UnaryOperator::Plus | UnaryOperator::Minus
            )
        {
            // Arithmetic binds more closely than other operators: `~a + b` is `~(a + b)`.
            let mut operand = Tree::copied(expr);
            while let Some((op, right)) = chain.pop_if(|(op, _)| is_arithmetic(op)) {
                operand = Tree::BinaryOp {
                    left: Box::new(operand),
                    op: op.clone(),
                    right: Box::new(right.copied()),
                };
            }
            value = Some(self.unary(*op, &operand)?);
        }
        while let Some((op, right)) = chain.pop() {
            let junction = match op {
                BinaryOperator::And => Some("AND"),
                BinaryOperator::Or => Some("OR"),
                _ => None,
            };
            let left = match (value.take(), junction) {
                (Some(left), _) => left,
                (None, Some(name)) => self.condition(first, name)?,
                (None, None) => self.expression(first)?,
            };
            value = Some(match junction {
                Some(name) => {
                    let left = self.coerce(left, Kind::Bool.plain())?;
                    let right = self.condition(right, name)?;
                    join_conditions(left, right, name == "AND")
                }
                None => self.binary_operator(left, op, right)?,
            });
        }
        value.ok_or_else(|| SqlError::internal("an operator without operands"))
    }
}

/// The constructor of an array, in brackets or not.
fn array_of(tree: &Tree) -> Option<&ast::Array> {
    match tree {
        Tree::Nested(inner) => array_of(inner),
        Tree::Array(array) => Some(array),
        _ => None,
    }
}

impl Binder<'_> {
    /// Fails if one comparison stands beside another, which PostgreSQL does not read. Texts that
    /// the catalogue keeps may have them.
    fn check_chain(&self, chain: &[(&BinaryOperator, &Tree)]) -> Result<()> {
        if self.is_of_catalogue() {
            return Ok(());
        }
        let pairs = chain.windows(2);
        let mut pairs = pairs.filter(|pair| pair.iter().all(|(op, _)| is_comparison(op)));
        pairs.next_back().map_or(Ok(()), |pair| {
            let message = format!("syntax error at or near \"{}\"", pair[0].0);
            Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
        })
    }
}

fn is_comparison(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::Gt
            | BinaryOperator::LtEq
            | BinaryOperator::GtEq
    )
}

/// A longer `AND` or `OR`, as one node.
fn join_conditions(left: Expr, right: Expr, is_and: bool) -> Expr {
    match (left, is_and) {
        (Expr::And(mut parts), true) => {
            parts.push(right);
            Expr::And(parts)
        }
        (Expr::Or(mut parts), false) => {
            parts.push(right);
            Expr::Or(parts)
        }
        (left, true) => Expr::And(vec![left, right]),
        (left, false) => Expr::Or(vec![left, right]),
    }
}

/// Whether the operands of an equality are distinct, or that they are not: rows field by field.
fn distinct(equal: Expr, negated: bool) -> Expr {
    match equal {
        Expr::Call(mut call) if call.arguments.len() == 2 => {
            let right = call.arguments.pop();
            let left = call.arguments.pop();
            let missing = || Expr::null(Kind::Unknown.plain());
            let pair = (left.unwrap_or_else(missing), right.unwrap_or_else(missing));
            let pair = match call.function.body {
                Body::Comparison(_) => pair,
                _ => as_moments(pair),
            };
            Expr::IsDistinct(Box::new(pair), negated)
        }
        Expr::And(fields) => {
            let fields = fields.into_iter().map(|field| distinct(field, negated));
            match negated {
                true => Expr::And(fields.collect()),
                false => Expr::Or(fields.collect()),
            }
        }
        other => Expr::IsTruth(Box::new(other), Some(true), !negated),
    }
}

/// Dates and timestamps of two types as values of one, since they are compared by their content.
fn as_moments((left, right): (Expr, Expr)) -> (Expr, Expr) {
    let kinds = [left.kind(), right.kind()];
    let common = match kinds.contains(&Kind::Timestamptz) {
        true => Kind::Timestamptz,
        false => Kind::Timestamp,
    };
    let convert = |value: Expr| match value.kind() {
        kind @ (Kind::Date | Kind::Timestamp) if kind != common => {
            Expr::Cast(Box::new(value), common.plain(), CastContext::Implicit)
        }
        _ => value,
    };
    (convert(left), convert(right))
}
