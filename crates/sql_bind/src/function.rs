//! Calls of functions, and the forms of the grammar that are functions.
//!
//! Aggregates and window functions leave a mark in the expression and an entry in the scope; the
//! query puts their results into rows when all of its clauses are bound.

use super::arguments::Arguments;
use super::from_record::makes_rows;
use super::order::EQUALITY;
use super::ordered_set::ORDERED_SETS;
use super::row_place::ROW_VERSION;
use super::scope::{Clause, PendingWindow};
use super::{Binder, ident_text, object_name};
use crate::callable::functions;
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{
    AggregateCall, AggregateFunction, Call, Expr, OverWindow, Pending, SortKey, WindowCall,
};
use crate::types::function::{Body, Function, Functions};
use crate::types::{Datum, Kind, Type};
use sqlparser::ast::{self, Expr as Tree, FunctionArg, FunctionArguments, Spanned, TrimWhereField};
use std::sync::Arc;

impl Binder<'_> {
    /// A call of a function by its name.
    pub(super) fn function(&mut self, function: &ast::Function) -> Result<Expr> {
        let (schema, name) = object_name(&function.name)?;
        let span = function.name.span();
        if schema.is_none()
            && let Some(bound) = self.keyword_function(&name, function)
        {
            return bound.map_err(|error| self.at(span, error));
        }
        let bound = self.named_function((schema.as_deref(), &name), function);
        bound.map_err(|error| self.at(span, error))
    }

    fn named_function(
        &mut self,
        (schema, name): (Option<&str>, &str),
        function: &ast::Function,
    ) -> Result<Expr> {
        if !function.within_group.is_empty() {
            return self.ordered_set(name, function);
        }
        let functions = functions();
        let is_aggregate = functions
            .named(name)
            .iter()
            .any(|function| matches!(function.body, Body::Aggregate(_)));
        let is_special = is_aggregate || function.over.is_some();
        let (clause, outer_clause) = (self.scope().clause, self.scope().clause);
        if is_special {
            if function.over.is_some() {
                self.check_place(name, true, clause)?;
            }
            self.scope().clause = if function.over.is_some() {
                Clause::Window
            } else {
                Clause::Aggregate
            };
        }
        let arguments = self.arguments(name, function);
        self.scope().clause = outer_clause;
        let mut arguments = arguments?;
        self.note_sequence(name, &function.args);
        self.spread_variadic(name, &mut arguments)?;
        if let [Expr::Column(..) | Expr::Row(..)] = arguments.values.as_slice()
            && arguments.names.is_empty()
            && functions.named(name).is_empty()
            && let Some(cast) = self.function_cast(name, &arguments.values[0])
        {
            return cast;
        }
        let is_user_defined = functions.named(name).is_empty() && function.over.is_none();
        if is_user_defined
            && let Some(value) =
                self.function_or_cast((schema, name), &function.name, &arguments)?
        {
            return Ok(value);
        }
        let kinds: Vec<Kind> = arguments.values.iter().map(Expr::kind).collect();
        let resolved = functions.resolve(name, &kinds, arguments.is_variadic)?;
        if ORDERED_SETS.contains(&name) {
            let message = format!("WITHIN GROUP is required for ordered-set aggregate {name}");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        if arguments.is_star && !resolved.function.arguments.is_empty() {
            let message = format!("function {name}(*) does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
        }
        let values = std::mem::take(&mut arguments.values);
        let values = self.fitted(values, &resolved)?;
        let chosen = (resolved.function, resolved.result);
        match (resolved.function.body, &function.over) {
            (Body::Aggregate(_) | Body::Window(_), Some(over)) => {
                self.window_function(chosen, values, &arguments, (function, over))
            }
            (Body::Aggregate(_), None) => self.aggregate(chosen, values, &arguments, function),
            (Body::Window(_), None) => {
                let message = format!("window function {name} requires an OVER clause");
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
            (_, Some(_)) => {
                let message = format!(
                    "OVER specified, but {name} is not a window function nor an aggregate function"
                );
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
            (_, None) => self.plain_call(name, chosen, values, &arguments),
        }
    }

    /// A call of a function that is neither an aggregate nor one of windows.
    fn plain_call(
        &mut self,
        name: &str,
        (function, result): (&'static Function, Kind),
        values: Vec<Expr>,
        arguments: &Arguments,
    ) -> Result<Expr> {
        if arguments.is_distinct {
            let message = format!("DISTINCT specified, but {name} is not an aggregate function");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        if function.returns_set() {
            self.note_set(name)?;
        }
        if arguments.is_null && name.starts_with("concat") {
            return Ok(Expr::null(result.plain()));
        }
        let of_c = Functions::of_c(name).filter(|_| values.iter().any(Expr::has_c_collation));
        let function = of_c.unwrap_or(function);
        let call = scalar_call((function, result), values, false);
        match makes_rows(&call) {
            true => {
                let clause = self.scope().clause;
                self.populated(call, clause)
            }
            false => Ok(call),
        }
    }

    /// A call with arguments that are bound.
    pub(super) fn call(&mut self, name: &str, arguments: Vec<Expr>) -> Result<Expr> {
        let kinds: Vec<Kind> = arguments.iter().map(Expr::kind).collect();
        let resolved = functions().resolve(name, &kinds, false)?;
        let values = self.fitted(arguments, &resolved)?;
        Ok(scalar_call(
            (resolved.function, resolved.result),
            values,
            false,
        ))
    }

    /// Arguments as the chosen function takes them.
    pub(super) fn fitted(
        &mut self,
        arguments: Vec<Expr>,
        resolved: &crate::types::overload::Resolved,
    ) -> Result<Vec<Expr>> {
        let mut values = Vec::with_capacity(arguments.len());
        for (argument, kind) in arguments.into_iter().zip(&resolved.arguments) {
            let value = self.coerce(argument, kind.plain())?;
            values.push(if *kind == Kind::Unknown {
                self.settle(value)?
            } else {
                value
            });
        }
        if let Some(from) = resolved.variadic_from
            && from <= values.len()
        {
            let rest = values.split_off(from);
            let element = rest.first().map_or(Kind::Text, Expr::kind);
            let array = element.array().unwrap_or(Kind::Array(&Kind::Text));
            values.push(Expr::Array(rest, array.plain()));
        }
        Ok(values)
    }

    /// Binds a part that evaluates some of its own parts only: none of them gives a set.
    pub(super) fn without_sets(
        &mut self,
        construct: &str,
        bind: impl FnOnce(&mut Self) -> Result<Expr>,
    ) -> Result<Expr> {
        let before = std::mem::take(&mut self.scope().has_sets);
        let bound = bind(self)?;
        let has_sets = std::mem::replace(&mut self.scope().has_sets, before);
        if has_sets {
            let message = format!("set-returning functions are not allowed in {construct}");
            let hint =
                "You might be able to move the set-returning function into a LATERAL FROM item.";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).hint(hint));
        }
        Ok(bound)
    }

    pub(super) fn note_set(&mut self, name: &str) -> Result<()> {
        let scope = self.scope();
        match scope.clause {
            Clause::Select
            | Clause::From
            | Clause::OrderBy
            | Clause::GroupBy
            | Clause::ValuesRow => {
                scope.has_sets = true;
                Ok(())
            }
            clause => {
                let message = format!(
                    "set-returning functions are not allowed in {}",
                    clause.name()
                );
                let _ = name;
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            }
        }
    }

    /// Whether an aggregate or a window function may stand in a clause.
    pub(super) fn check_place(&self, name: &str, is_window: bool, clause: Clause) -> Result<()> {
        let _ = name;
        let problem = match (clause, is_window) {
            (Clause::Select | Clause::OrderBy, _) => return Ok(()),
            (Clause::Having, false) => return Ok(()),
            (Clause::Window, false) => return Ok(()),
            (Clause::Aggregate, false) => "aggregate function calls cannot be nested".to_owned(),
            (Clause::Aggregate, true) => {
                "aggregate function calls cannot contain window function calls".to_owned()
            }
            (Clause::Window, true) => "window function calls cannot be nested".to_owned(),
            (clause, false) => format!("aggregate functions are not allowed in {}", clause.name()),
            (clause, true) => format!("window functions are not allowed in {}", clause.name()),
        };
        let state = if is_window && clause != Clause::Aggregate {
            SqlState::WINDOWING_ERROR
        } else {
            SqlState::GROUPING_ERROR
        };
        Err(SqlError::new(state, problem))
    }

    fn aggregate(
        &mut self,
        (function, result): (&'static Function, Kind),
        values: Vec<Expr>,
        arguments: &Arguments,
        tree: &ast::Function,
    ) -> Result<Expr> {
        let is_of_c = values.iter().any(Expr::has_c_collation);
        let mut call = self.aggregate_call((function, result), values, arguments, tree)?;
        let data_type = call.data_type;
        let level = level_of(&call);
        let scope = self.scopes.len().checked_sub(level + 1);
        let (Some(scope), 1..) = (scope, level) else {
            let clause = self.scope().clause;
            self.check_place(function.name, false, clause)?;
            let at = add_call(&mut self.scope().aggregates, call);
            return Ok(Expr::Pending(Pending::Aggregate, at, data_type).collated_if(is_of_c));
        };
        // It is one of the query whose rows it reads.
        let clause = self.scopes[scope].clause;
        self.check_place(function.name, false, clause)?;
        lower(&mut call, level)?;
        let at = add_call(&mut self.scopes[scope].aggregates, call);
        Ok(Expr::Pending(Pending::Outer(level), at, data_type).collated_if(is_of_c))
    }

    fn aggregate_call(
        &mut self,
        (function, result): (&'static Function, Kind),
        values: Vec<Expr>,
        arguments: &Arguments,
        tree: &ast::Function,
    ) -> Result<AggregateCall> {
        let Body::Aggregate(aggregate) = function.body else {
            return Err(SqlError::internal("an aggregate was chosen"));
        };
        let clause = std::mem::replace(&mut self.scope().clause, Clause::Aggregate);
        let filter = tree
            .filter
            .as_ref()
            .map(|filter| self.condition(filter, "FILTER"));
        let order = self.sort_keys(&arguments.order);
        self.scope().clause = clause;
        let argument_types = values.iter().map(Expr::data_type).collect();
        if arguments.is_distinct {
            self.compared(values.iter().map(Expr::kind), EQUALITY)?;
        }
        let order = order?;
        let is_value = |key: &SortKey| values.iter().any(|one| one.is_same(&key.expression));
        if arguments.is_distinct && !self.is_of_catalogue() && !order.iter().all(is_value) {
            let message =
                "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
        }
        Ok(AggregateCall {
            function: AggregateFunction {
                function,
                aggregate,
                argument_types,
            },
            arguments: values,
            is_distinct: arguments.is_distinct,
            order,
            filter: filter.transpose()?,
            data_type: result.plain(),
        })
    }

    fn window_function(
        &mut self,
        (function, result): (&'static Function, Kind),
        values: Vec<Expr>,
        arguments: &Arguments,
        (tree, over): (&ast::Function, &ast::WindowType),
    ) -> Result<Expr> {
        if arguments.is_distinct {
            let message = "DISTINCT is not implemented for window functions";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let clause = std::mem::replace(&mut self.scope().clause, Clause::Window);
        let filter = tree
            .filter
            .as_ref()
            .map(|filter| self.condition(filter, "FILTER"));
        let window = self.window(over);
        self.scope().clause = clause;
        let (partition, order, frame) = window?;
        let argument_types = values.iter().map(Expr::data_type).collect();
        let is_of_c = values.iter().any(Expr::has_c_collation);
        let function = match function.body {
            Body::Aggregate(aggregate) => OverWindow::Aggregate(AggregateFunction {
                function,
                aggregate,
                argument_types,
            }),
            Body::Window(window) => OverWindow::Function(window),
            _ => return Err(SqlError::internal("a window function was chosen")),
        };
        let windows = &mut self.scope().windows;
        windows.push(PendingWindow {
            call: WindowCall {
                function,
                arguments: values,
                filter: filter.transpose()?,
                frame,
                data_type: result.plain(),
            },
            partition,
            order,
        });
        let at = windows.len() - 1;
        Ok(Expr::Pending(Pending::Window, at, result.plain()).collated_if(is_of_c))
    }

    /// Functions that the grammar knows, or that do not evaluate all of their arguments.
    fn keyword_function(&mut self, name: &str, function: &ast::Function) -> Option<Result<Expr>> {
        let list = match &function.args {
            FunctionArguments::List(list) if function.over.is_none() => list.args.as_slice(),
            FunctionArguments::None => &[],
            FunctionArguments::Subquery(query) if name == "array" => {
                return Some(self.array_subquery(query));
            }
            _ => return None,
        };
        match name {
            "coalesce" => Some(self.without_sets("COALESCE", |binder| binder.coalesce(list))),
            "nullif" => Some(self.nullif(list)),
            "greatest" => Some(self.extreme(list, true)),
            "least" => Some(self.extreme(list, false)),
            "current_timestamp" | "localtimestamp" | "current_time" | "localtime"
                if !list.is_empty() =>
            {
                Some(self.moment(name, list))
            }
            "row" => Some(
                self.row_arguments(list)
                    .and_then(|fields| self.row_of(fields)),
            ),
            "grouping" => Some(
                self.plain_arguments(list)
                    .and_then(|keys| self.grouping(keys)),
            ),
            _ => None,
        }
    }

    /// A moment with digits of its seconds, as `current_timestamp(3)`.
    fn moment(&mut self, name: &str, list: &[FunctionArg]) -> Result<Expr> {
        let digits = match self.plain_arguments(list)?.as_slice() {
            [Expr::Constant(digits, _)] => digits.int().ok(),
            _ => None,
        };
        let digits = digits.and_then(|digits| u8::try_from(digits).ok());
        let digits = digits.ok_or_else(|| {
            let message = format!("{name} takes a number of digits");
            SqlError::new(SqlState::SYNTAX_ERROR, message)
        })?;
        let moment = self.call(name, Vec::new())?;
        let target = Type::with_digits(moment.kind(), digits.min(6));
        self.cast_to(moment, target)
    }

    fn coalesce(&mut self, list: &[FunctionArg]) -> Result<Expr> {
        let mut parts = self.plain_arguments(list)?;
        if let [row] = parts.as_slice()
            && row.fields().is_some()
        {
            return Ok(parts.remove(0));
        }
        Ok(Expr::Coalesce(self.unify("COALESCE", parts)?.0))
    }

    fn extreme(&mut self, list: &[FunctionArg], greatest: bool) -> Result<Expr> {
        let parts = self.plain_arguments(list)?;
        let construct = if greatest { "GREATEST" } else { "LEAST" };
        let parts = self.unify(construct, parts)?.0;
        self.compared(parts.iter().map(Expr::kind), "a comparison function")?;
        Ok(Expr::Extreme(parts, greatest))
    }

    /// The first value, unless it equals the second.
    fn nullif(&mut self, list: &[FunctionArg]) -> Result<Expr> {
        let parts = self.plain_arguments(list)?;
        let [first, second] = <[Expr; 2]>::try_from(parts)
            .map_err(|_| SqlError::new(SqlState::SYNTAX_ERROR, "NULLIF takes two arguments"))?;
        self.once(first, |binder, first| {
            let equal = binder.operator("=", vec![first.clone(), second])?;
            let first = match &equal {
                // The value has the type to which the operator has converted it.
                Expr::Call(call) => call.arguments[0].clone(),
                _ => first,
            };
            let null = Expr::null(first.data_type());
            Ok(Expr::Case(vec![(equal, null)], Box::new(first)))
        })
    }

    /// Names that are values without brackets: `current_date` and its kin.
    pub(super) fn value_keyword(&mut self, name: &ast::Ident, text: &str) -> Option<Result<Expr>> {
        if name.quote_style.is_some() {
            return None;
        }
        if text == "value" && self.scope().clause == Clause::Stored {
            let column = self
                .scope()
                .columns
                .iter()
                .find(|column| column.name == "value");
            return column.map(|column| Ok(column.expression.clone()));
        }
        match text {
            "current_date" | "current_time" | "current_timestamp" | "localtime"
            | "localtimestamp" | "current_user" | "session_user" | "user" | "current_role"
            | "current_catalog" | "current_schema" => Some(self.call(text, Vec::new())),
            _ => None,
        }
    }

    /// Forms of the grammar that stand for calls.
    pub(super) fn special_form(&mut self, tree: &Tree) -> Result<Expr> {
        match tree {
            Tree::Extract { field, expr, .. } => {
                let field = text_literal(&field.to_string().to_lowercase().replace('\'', ""));
                let value = self.expression(expr)?;
                self.call("extract", vec![field, value])
            }
            Tree::AtTimeZone {
                timestamp,
                time_zone,
            } => {
                let (value, zone) = (self.expression(timestamp)?, self.expression(time_zone)?);
                self.call("timezone", vec![zone, value])
            }
            Tree::Ceil { expr, field } => self.rounded("ceil", expr, field),
            Tree::Floor { expr, field } => self.rounded("floor", expr, field),
            Tree::Position { expr, r#in } => {
                let (part, whole) = (self.expression(expr)?, self.expression(r#in)?);
                self.call("position", vec![whole, part])
            }
            Tree::Substring { .. } => self.substring(tree),
            Tree::Trim {
                expr,
                trim_where,
                trim_what,
                trim_characters,
            } => self.trim(
                expr,
                *trim_where,
                trim_what.as_deref(),
                trim_characters.as_deref(),
            ),
            Tree::Overlay {
                expr,
                overlay_what,
                overlay_from,
                overlay_for,
            } => {
                let parts = [expr, overlay_what, overlay_from];
                let parts = parts.into_iter().chain(overlay_for);
                let arguments = parts.map(|part| self.expression(part));
                let arguments = arguments.collect::<Result<_>>()?;
                self.call("overlay", arguments)
            }
            Tree::IsNormalized {
                expr,
                form,
                negated,
            } => self.is_normalized(expr, *form, *negated),
            Tree::IsJson { .. } => {
                let instead = "Cast the value to the type that it should have.";
                Err(SqlError::unsupported(format!("{tree}"), instead))
            }
            Tree::QualifiedWildcard(name, _) => self.row_of_table(name),
            Tree::Wildcard(_) => {
                let message = "row expansion via \"*\" is not supported here";
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            }
            other => {
                let instead = "See `docs/sql.md` for the expressions that there are.";
                Err(SqlError::unsupported(
                    format!("the expression {other}"),
                    instead,
                ))
            }
        }
    }

    fn rounded(&mut self, name: &str, operand: &Tree, kind: &ast::CeilFloorKind) -> Result<Expr> {
        let _ = kind;
        let operand = self.expression(operand)?;
        self.call(name, vec![operand])
    }

    /// The name of the column that an expression makes.
    pub(super) fn column_name(&self, tree: &Tree) -> String {
        match tree {
            Tree::Identifier(name) => ident_text(name),
            Tree::CompoundIdentifier(names) => names.last().map(ident_text).unwrap_or_default(),
            Tree::CompoundFieldAccess { root, access_chain } => {
                let fields = access_chain.iter().rev();
                let mut fields = fields.filter_map(|access| match access {
                    ast::AccessExpr::Dot(Tree::Identifier(name)) => Some(ident_text(name)),
                    _ => None,
                });
                fields.next().unwrap_or_else(|| self.column_name(root))
            }
            Tree::Nested(inner) => self.column_name(inner),
            Tree::Collate { expr, .. } => self.column_name(expr),
            Tree::Function(function) => {
                object_name(&function.name).map_or_else(|_| "?column?".into(), |(_, name)| name)
            }
            Tree::Cast {
                expr, data_type, ..
            } => match self.is_weakly_named(expr) {
                true => self.cast_name(data_type),
                false => self.column_name(expr),
            },
            Tree::TypedString(typed) => self.cast_name(&typed.data_type),
            Tree::Interval(_) => "interval".to_owned(),
            Tree::Case { else_result, .. } => match else_result {
                Some(otherwise) if !self.is_weakly_named(otherwise) => self.column_name(otherwise),
                _ => "case".to_owned(),
            },
            Tree::Exists { negated: false, .. } => "exists".to_owned(),
            Tree::Subquery(query) => self.subquery_name(query),
            Tree::Array(_) => "array".to_owned(),
            Tree::Tuple(_) => "row".to_owned(),
            Tree::BinaryOp { op, .. } if *op == ast::BinaryOperator::Overlaps => {
                "overlaps".to_owned()
            }
            Tree::Extract { .. } => "extract".to_owned(),
            Tree::IsNormalized { negated: false, .. } => "is_normalized".to_owned(),
            Tree::AtTimeZone { .. } => "timezone".to_owned(),
            Tree::Ceil { .. } => "ceil".to_owned(),
            Tree::Floor { .. } => "floor".to_owned(),
            Tree::Position { .. } => "position".to_owned(),
            Tree::Substring {
                shorthand: true, ..
            } => "substr".to_owned(),
            Tree::Substring { .. } => "substring".to_owned(),
            Tree::Overlay { .. } => "overlay".to_owned(),
            Tree::Trim { trim_where, .. } => match trim_where {
                Some(TrimWhereField::Leading) => "ltrim".to_owned(),
                Some(TrimWhereField::Trailing) => "rtrim".to_owned(),
                _ => "btrim".to_owned(),
            },
            _ => "?column?".to_owned(),
        }
    }

    /// Whether an expression gives its column no name, or that of a type, which one around it
    /// replaces.
    fn is_weakly_named(&self, tree: &Tree) -> bool {
        match tree {
            Tree::Nested(inner) => self.is_weakly_named(inner),
            Tree::Collate { expr, .. } | Tree::Cast { expr, .. } => self.is_weakly_named(expr),
            Tree::TypedString(_) | Tree::Interval(_) => true,
            // A subscript names nothing; a field and the column of a subquery do.
            Tree::CompoundFieldAccess { root, access_chain } => {
                let is_field = |access: &_| matches!(access, ast::AccessExpr::Dot(_));
                !access_chain.iter().any(is_field) && self.is_weakly_named(root)
            }
            Tree::Subquery(_) => false,
            Tree::Case { else_result, .. } => else_result
                .as_deref()
                .is_none_or(|otherwise| self.is_weakly_named(otherwise)),
            other => self.column_name(other) == "?column?",
        }
    }

    fn cast_name(&self, data_type: &ast::DataType) -> String {
        match self.data_type(data_type) {
            Ok(Type {
                kind:
                    Kind::Enum(_) | Kind::EnumArray(_) | Kind::Composite(_) | Kind::CompositeArray(_),
                ..
            }) => {
                let name = data_type.to_string();
                let name = name.trim_end_matches("[]");
                super::parts_of(name).pop().unwrap_or_default()
            }
            Ok(data_type) => {
                let kind = data_type.kind;
                kind.element()
                    .filter(|_| kind.is_array())
                    .unwrap_or(kind)
                    .catalogue_name()
            }
            Err(_) => "?column?".to_owned(),
        }
    }
}

/// Adds an aggregate to those of a query, unless it is among them.
fn add_call(aggregates: &mut Vec<AggregateCall>, call: AggregateCall) -> usize {
    let known = aggregates
        .iter()
        .position(|known| is_same_call(known, &call));
    known.unwrap_or_else(|| {
        aggregates.push(call);
        aggregates.len() - 1
    })
}

/// Everything that an aggregate computes of a row.
fn parts_of_call(call: &mut AggregateCall) -> impl Iterator<Item = &mut Expr> {
    let keys = call.order.iter_mut().map(|key| &mut key.expression);
    let arguments = call.arguments.iter_mut().chain(&mut call.filter);
    arguments.chain(keys)
}

/// The number of queries out of which the innermost column of an aggregate comes; 0 if it has none.
fn level_of(call: &AggregateCall) -> usize {
    let mut least = usize::MAX;
    let keys = call.order.iter().map(|key| &key.expression);
    for part in call.arguments.iter().chain(&call.filter).chain(keys) {
        part.any(|part, depth| {
            match part {
                Expr::Column(..) if depth == 0 => least = 0,
                Expr::Outer(level, ..) if *level >= depth => least = least.min(level - depth),
                Expr::Pending(..) => least = 0,
                _ => {}
            }
            false
        });
    }
    if least == usize::MAX { 0 } else { least }
}

/// Makes an aggregate read the row of a query so many levels out as its own.
fn lower(call: &mut AggregateCall, by: usize) -> Result<()> {
    for part in parts_of_call(call) {
        part.walk(0, &mut |part, depth| {
            if let Expr::Outer(level, at, data_type) = part
                && *level >= depth + by
            {
                *part = match *level - by {
                    0 => Expr::Column(*at, *data_type),
                    level => Expr::Outer(level, *at, *data_type),
                };
                return Ok(false);
            }
            Ok(true)
        })?;
    }
    Ok(())
}

fn text_literal(text: &str) -> Expr {
    Expr::Constant(Datum::text(text), Kind::Text.plain())
}

fn scalar_call(
    (function, result): (&'static Function, Kind),
    arguments: Vec<Expr>,
    is_operator: bool,
) -> Expr {
    let argument_types: Arc<[Type]> = arguments.iter().map(Expr::data_type).collect();
    Expr::Call(Call {
        function,
        arguments,
        argument_types,
        data_type: result.plain(),
        is_operator,
    })
}

/// The number of the version of a row.
pub(super) fn row_version(row: Expr) -> Result<Expr> {
    let found = functions().resolve(ROW_VERSION, &[Kind::Record], false)?;
    let version = (found.function, found.result);
    Ok(scalar_call(version, vec![row], false))
}

/// Whether two aggregates have one value.
fn is_same_call(one: &AggregateCall, other: &AggregateCall) -> bool {
    let same = |one: &Option<Expr>, other: &Option<Expr>| match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => one.is_same(other),
        _ => false,
    };
    std::ptr::eq(one.function.function, other.function.function)
        && one.is_distinct == other.is_distinct
        && one.order.is_empty()
        && other.order.is_empty()
        && same(&one.filter, &other.filter)
        && one.arguments.len() == other.arguments.len()
        && one
            .arguments
            .iter()
            .zip(&other.arguments)
            .all(|(one, other)| one.is_same(other))
}
