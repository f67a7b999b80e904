//! Calls of functions that users have defined.
//!
//! A call becomes the query of the function, whose parameters become the arguments. A query that is
//! one expression stands where the call stood.

use super::arguments::{Arguments, no_function};
use super::scope::{Clause, Scope};
use super::select::row_scope;
use super::system::input_output;
use super::{Binder, Bound, SessionNames, TextOrigin};
use crate::catalog::{Body, FunctionBody, Names, Object, Oid, Privilege};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Expr, Limit, OutputColumn, Pending, Project, SubqueryTest, Values};
use crate::types::function::Volatility;
use crate::types::kind::KINDS;
use crate::types::overload::coerces;
use crate::types::{Datum, Kind, RecordShape, Type};
use sqlparser::ast::{self, GroupByExpr, Query, SelectItem, SetExpr};
use std::sync::Arc;

/// A function that takes the arguments of a call.
struct Fitting<'c> {
    object: &'c Object,
    body: &'c FunctionBody,
    /// For each value of the call the argument that takes it, and the type of this.
    places: Vec<usize>,
    wanted: Vec<Kind>,
}

/// The argument that takes each value of a call; none if a function does not take them.
fn places_of(body: &FunctionBody, given: &Arguments) -> Option<Vec<usize>> {
    let unnamed = given.values.len() - given.names.len();
    let mut places: Vec<usize> = (0..unnamed).collect();
    for name in &given.names {
        let mut arguments = body.arguments.iter();
        let at = arguments.position(|(own, _)| own.as_ref() == Some(name))?;
        if places.contains(&at) {
            return None;
        }
        places.push(at);
    }
    let count = body.arguments.len();
    let has_value = |at: usize| places.contains(&at) || body.default_of(at).is_some();
    (unnamed <= count && (0..count).all(has_value)).then_some(places)
}

/// Of functions that take the values of a call as the same types keeps those of the schema that is
/// searched first.
fn keep_first(fitting: &mut Vec<Fitting<'_>>, names: &SessionNames) {
    let place = |one: &Fitting<'_>| {
        let mut schemas = names.schemas();
        schemas.position(|schema| schema == one.object.namespace)
    };
    let known: Vec<_> = fitting
        .iter()
        .map(|one| (place(one), one.wanted.clone()))
        .collect();
    let mut known_again = known.iter();
    fitting.retain(|_| {
        let Some((own, wanted)) = known_again.next() else {
            return true;
        };
        let mut same = known.iter().filter(|(_, other)| other == wanted);
        same.all(|(place, _)| own <= place)
    });
}

/// Keeps the functions that fit the kinds of the values of a call best.
fn keep_best(fitting: &mut Vec<Fitting<'_>>, kinds: &[Kind]) {
    if fitting.iter().any(|one| one.wanted == kinds) {
        fitting.retain(|one| one.wanted == kinds);
    }
    // A literal without a type is a text, if one of several functions takes it as one.
    let takes_texts = |one: &Fitting<'_>| {
        let mut pairs = kinds.iter().zip(&one.wanted);
        pairs.all(|(kind, wanted)| *kind != Kind::Unknown || *wanted == Kind::Text)
    };
    if fitting.len() > 1 && fitting.iter().any(takes_texts) {
        fitting.retain(takes_texts);
    }
}

impl Binder<'_> {
    /// `name(value)` where `name` is a type: a cast.
    pub(super) fn function_or_cast(
        &mut self,
        (schema, name): (Option<&str>, &str),
        written: &ast::ObjectName,
        arguments: &Arguments,
    ) -> Result<Option<Expr>> {
        let found = self.user_function((schema, name), Some(written), arguments)?;
        match (found, arguments.values.as_slice()) {
            (None, [value]) if arguments.names.is_empty() => {
                let found = self.function_cast(name, value);
                let found = found.or_else(|| self.input_or_output(name, value));
                found.transpose()
            }
            (None, _) if !arguments.names.is_empty() => {
                let names = arguments.names.iter();
                Err(no_function(name, &arguments.values, names))
            }
            (found, _) => Ok(found),
        }
    }

    /// `table.function`: the function over a row of the table, if it has no such column.
    pub(super) fn column_or_function(
        &mut self,
        table: &str,
        name: &str,
        column: Result<Expr>,
    ) -> Result<Expr> {
        match &column {
            Err(error) if error.state == SqlState::UNDEFINED_COLUMN && self.knows_table(table) => {}
            _ => return column,
        }
        let row = self.row_value(table)?;
        match self.function_of_row(row, name)? {
            Some(value) => Ok(value),
            None => column,
        }
    }

    /// `(row).function`; none if there is no such function.
    pub(super) fn function_of_row(&mut self, row: Expr, name: &str) -> Result<Option<Expr>> {
        let arguments = Arguments {
            values: vec![row],
            ..Arguments::default()
        };
        self.user_function((None, name), None, &arguments)
    }

    /// A call of a function that reads values of a type from texts, or prints them.
    fn input_or_output(&mut self, name: &str, value: &Expr) -> Option<Result<Expr>> {
        let mut kinds = KINDS.iter().copied().filter(|kind| !kind.is_array());
        let (kind, is_input) = kinds.find_map(|kind| {
            let [input, output, ..] = input_output(kind);
            (name == input || name == output).then_some((kind, name == input))
        })?;
        let (from, to) = match is_input {
            true => (Kind::Text, kind),
            false => (kind, Kind::Text),
        };
        if ![from, Kind::Unknown].contains(&value.kind()) {
            return None;
        }
        let value = self.cast_to(value.clone(), from.plain());
        Some(value.and_then(|value| self.cast_to(value, to.plain())))
    }

    pub(super) fn function_cast(&mut self, name: &str, value: &Expr) -> Option<Result<Expr>> {
        let kind = Kind::from_name(name)?;
        Some(self.cast_to(value.clone(), kind.plain()))
    }

    /// A call of a function that a user has defined; none if there is none of the name.
    fn user_function(
        &mut self,
        (schema, name): (Option<&str>, &str),
        written: Option<&ast::ObjectName>,
        arguments: &Arguments,
    ) -> Result<Option<Expr>> {
        let catalog = Arc::clone(&self.names.catalog);
        let kinds: Vec<Kind> = arguments.values.iter().map(Expr::kind).collect();
        let mut fitting: Vec<Fitting<'_>> = Vec::new();
        for object in catalog.objects().filter(|object| object.name == name) {
            let Body::Function(body) = &object.body else {
                continue;
            };
            let found = self.names.find(Names::Functions, schema, &body.key(name));
            if found.is_none_or(|found| found.oid != object.oid) {
                continue;
            }
            let Some(places) = places_of(body, arguments) else {
                continue;
            };
            let wanted = places.iter().map(|at| body.arguments[*at].1.kind);
            let wanted: Vec<Kind> = wanted.collect();
            if wanted == kinds || coerces(&kinds, &wanted) {
                fitting.push(Fitting {
                    object,
                    body,
                    places,
                    wanted,
                });
            }
        }
        keep_first(&mut fitting, self.names);
        keep_best(&mut fitting, &kinds);
        match fitting.as_slice() {
            [] => Ok(None),
            [one] => {
                self.may_call(one.object)?;
                if let Some(written) = written {
                    self.note_object(written, one.object.oid, None);
                }
                let values = self.placed(one, &arguments.values)?;
                self.inlined(one.object, one.body, values).map(Some)
            }
            _ => {
                let kinds: Vec<String> = kinds.iter().map(|kind| self.type_name(*kind)).collect();
                let message = format!("function {name}({}) is not unique", kinds.join(", "));
                Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, message))
            }
        }
    }

    /// The values of all arguments of a function, with the defaults of those that are left out.
    fn placed(&mut self, one: &Fitting<'_>, given: &[Expr]) -> Result<Vec<Expr>> {
        let mut values = Vec::with_capacity(one.body.arguments.len());
        for at in 0..one.body.arguments.len() {
            let place = one.places.iter().position(|place| *place == at);
            values.push(match (place, one.body.default_of(at)) {
                (Some(place), _) => given[place].clone(),
                (None, Some(text)) => {
                    let value = self.argument_default(one.object, text)?;
                    self.assign(value, one.body.arguments[at].1, "DEFAULT")?
                }
                (None, None) => return Err(SqlError::internal("an argument has a value")),
            });
        }
        Ok(values)
    }

    fn argument_default(&mut self, object: &Object, text: &str) -> Result<Expr> {
        self.check_calls(object)?;
        self.views.push(object.oid);
        let value = self.stored(text, Scope::default());
        self.views.pop();
        value
    }

    /// Fails if a function is called in its own query, or in a default of its own.
    fn check_calls(&self, object: &Object) -> Result<()> {
        if self.views.contains(&object.oid) {
            let message = format!("the function {} calls itself without end", object.name);
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
        }
        Ok(())
    }

    /// Fails unless the session's role may call a function; one that a view calls is found already.
    fn may_call(&self, object: &Object) -> Result<()> {
        let (role, execute) = (self.names.role, Privilege::Execute.bit());
        if self.views.is_empty() {
            return self.names.check(role, object, execute);
        }
        if self.names.catalog.may(role, object.oid, execute) {
            return Ok(());
        }
        Err(self.names.denied(object))
    }

    /// Fails unless the query of a new function can be bound.
    pub fn check_function(&mut self, object: &Object, body: &FunctionBody) -> Result<()> {
        let nulls = body
            .arguments
            .iter()
            .map(|(_, data_type)| Expr::null(*data_type));
        self.origin = TextOrigin::ForCatalogue;
        self.inlined(object, body, nulls.collect()).map(drop)
    }

    fn inlined(&mut self, object: &Object, body: &FunctionBody, values: Vec<Expr>) -> Result<Expr> {
        self.check_calls(object)?;
        let mut arguments = Vec::with_capacity(values.len());
        for (at, (value, (_, data_type))) in values.into_iter().zip(&body.arguments).enumerate() {
            let value = self.coerce(value, *data_type)?;
            // A call that is only printed shows its arguments as they are.
            let domain = body.argument_domain(at).filter(|_| self.calls.is_none());
            arguments.push(self.of_domain(value, domain)?);
        }
        if let Some(calls) = &mut self.calls {
            let column = super::KEPT_CALLS + calls.len();
            let function = object.oid;
            calls.push(super::KeptCall {
                function,
                arguments,
            });
            return Ok(Expr::Column(column, body.result));
        }
        let parsed = sql_parse::parse_stored(&body.query)?;
        let [ast::Statement::Query(query)] =
            parsed.iter().map(|one| &*one.statement).collect::<Vec<_>>()[..]
        else {
            let instead = "Write one SELECT.";
            return Err(SqlError::unsupported(
                "a function of other statements",
                instead,
            ));
        };
        self.note_read(object.oid);
        self.views.push(object.oid);
        let scopes = std::mem::take(&mut self.scopes);
        let lateral = std::mem::take(&mut self.lateral);
        let shared = std::mem::take(&mut self.shared);
        let routine = self.routine.replace(body.arguments.len());
        let keeps_unknown = std::mem::replace(&mut self.keeps_unknown, false);
        // It runs with the rights of its caller, within views too.
        let role = std::mem::replace(&mut self.role, self.names.role);
        let value = self.body_value(object, body, query);
        self.role = role;
        self.keeps_unknown = keeps_unknown;
        self.routine = routine;
        (self.scopes, self.lateral, self.shared) = (scopes, lateral, shared);
        self.views.pop();
        let mut value = value?;
        if body.returns_set {
            self.note_set(&object.name)?;
        }
        if body.is_strict && !arguments.is_empty() {
            let is_null = |one: &Expr| matches!(one, Expr::Constant(Datum::Null, _));
            if !body.returns_set && arguments.iter().any(is_null) {
                return Ok(Expr::null(value.data_type()));
            }
            value = match value {
                // Without its rows a set is empty.
                Expr::Call(mut call) if body.returns_set && !call.arguments.is_empty() => {
                    let rows = call.arguments.remove(0);
                    call.arguments.insert(0, unless_null(&arguments, rows));
                    Expr::Call(call)
                }
                value => unless_null(&arguments, value),
            };
        }
        let mut numbered = arguments.iter().enumerate();
        let is_again = |(at, one): (usize, &Expr)| one.has_volatile() && !is_read_once(&value, at);
        let must_stay = body.returns_set || arguments.iter().any(is_of_its_query);
        if !must_stay && numbered.any(is_again) {
            return self.over_arguments(value, arguments);
        }
        replace_row(&mut value, &arguments)?;
        Ok(value)
    }

    /// A value over a row of arguments that are evaluated once.
    fn over_arguments(&mut self, value: Expr, arguments: Vec<Expr>) -> Result<Expr> {
        let (data_type, width) = (value.data_type(), arguments.len());
        let row = arguments.into_iter().map(Expr::into_outer);
        let input = Values {
            rows: vec![row.collect()],
            width,
        };
        let node = Project {
            input: input.into(),
            expressions: vec![value],
            has_sets: false,
        };
        let bound = Bound {
            node: node.into(),
            columns: Vec::new(),
        };
        let value = self.subquery(bound, SubqueryTest::Scalar, data_type)?;
        Ok(for_each_row(value))
    }

    /// The value of a function over a row of its arguments.
    fn body_value(&mut self, object: &Object, body: &FunctionBody, query: &Query) -> Result<Expr> {
        let scope = || {
            let arguments = (1..).zip(&body.arguments);
            let named = arguments.map(|(number, (name, data_type))| {
                (
                    name.clone().unwrap_or_else(|| format!("${number}")),
                    *data_type,
                )
            });
            row_scope(&object.name, named)
        };
        let is_row = matches!(body.result.kind, Kind::Composite(_));
        if let (Some(tree), false) = (single_expression(query), body.returns_set || is_row) {
            let (value, scope) = self.expression_in(scope()?, Clause::Select, tree);
            if scope.aggregates.is_empty() && scope.windows.is_empty() && !scope.has_sets {
                return self.returned(value?, (body.result, body.result_domain(0)));
            }
        }
        let (value, _) = self.within(scope()?, |binder| {
            let mut bound = binder.query(query)?;
            let converted = binder.returned_row(&bound.columns, body)?;
            bound.node = Project {
                input: bound.node,
                expressions: vec![converted],
                has_sets: false,
            }
            .into();
            binder.query_value(bound, body)
        });
        value
    }

    /// The value that a function returns of a row of its query: the only column, or all of them as
    /// a row.
    fn returned_row(&mut self, columns: &[OutputColumn], body: &FunctionBody) -> Result<Expr> {
        let kind = body.result.kind;
        let is_row = matches!(kind, Kind::Composite(_) | Kind::Record);
        if let [column] = columns
            && (!is_row || column.data_type.kind == kind)
        {
            let read = Expr::Column(0, column.data_type);
            return self.returned(read, (body.result, body.result_domain(0)));
        }
        let types: Vec<Type> = match kind {
            Kind::Composite(oid) => {
                let shape = self.context.names.row_shape(oid);
                shape.map_or_else(Vec::new, |shape| shape.types.clone())
            }
            _ => body.columns.iter().map(|(_, one)| *one).collect(),
        };
        if !is_row || types.len() != columns.len() {
            return Err(mismatch(&self.type_name(kind)));
        }
        let mut fields = Vec::with_capacity(columns.len());
        for ((at, column), wanted) in columns.iter().enumerate().zip(types) {
            let read = Expr::Column(at, column.data_type);
            let domain = body.result_domain(at).filter(|_| kind == Kind::Record);
            fields.push(self.returned(read, (wanted, domain))?);
        }
        let names = columns.iter().map(|column| column.name.as_str().into());
        let shape = RecordShape {
            names: names.collect(),
            types: fields.iter().map(Expr::data_type).collect(),
        };
        let row = Expr::Row(fields, Arc::new(shape));
        match kind {
            Kind::Composite(_) => self.cast_to(row, body.result),
            _ => Ok(row),
        }
    }

    /// The first value of a query, or a set of all of them.
    fn query_value(&mut self, bound: Bound, body: &FunctionBody) -> Result<Expr> {
        let kind = body.result.kind;
        if !body.returns_set {
            let node = Limit {
                input: bound.node,
                count: Some(Expr::Constant(Datum::Int8(1), Kind::Int8.plain())),
                offset: None,
                ties: None,
            };
            let bound = Bound {
                node: node.into(),
                ..bound
            };
            let value = self.subquery(bound, SubqueryTest::Scalar, body.result)?;
            return Ok(called(value, body));
        }
        let array = kind.array().ok_or_else(|| {
            let instead = "Return rows of a type that has arrays.";
            SqlError::unsupported(format!("a set of {}", self.type_name(kind)), instead)
        })?;
        let all = self.subquery(bound, SubqueryTest::Array(kind), array.plain())?;
        let all = called(all, body);
        if kind != Kind::Record {
            return self.call("unnest", vec![all]);
        }
        let names = body.columns.iter().map(|(name, _)| name.as_str().into());
        let shape = RecordShape {
            names: names.collect(),
            types: body.columns.iter().map(|(_, one)| *one).collect(),
        };
        let nulls = body.columns.iter().map(|(_, one)| Expr::null(*one));
        let row = Expr::Row(nulls.collect(), Arc::new(shape));
        self.call("unnest_rows", vec![all, row])
    }

    /// A value of the type that a function returns, or of the domain.
    fn returned(&mut self, value: Expr, (result, domain): (Type, Option<Oid>)) -> Result<Expr> {
        let name = self.type_name(result.kind);
        let value = self.assign(value, result, "result");
        let value = value.map_err(|error| match error.state {
            SqlState::DATATYPE_MISMATCH => mismatch(&name),
            _ => error,
        })?;
        self.of_domain(value, domain)
    }

    fn of_domain(&mut self, value: Expr, domain: Option<Oid>) -> Result<Expr> {
        match domain {
            Some(domain) => self.checked_by(value, domain),
            None => Ok(value),
        }
    }
}

/// The query of a function as a value: one whose calls differ runs for each call.
fn called(value: Expr, body: &FunctionBody) -> Expr {
    match body.volatility != Volatility::Immutable && value.has_volatile() {
        true => for_each_row(value),
        false => value,
    }
}

/// A query that has another value for each row around it, whether or not it reads the row.
fn for_each_row(mut value: Expr) -> Expr {
    if let Expr::Subquery(subquery) = &mut value {
        Arc::make_mut(subquery).is_correlated = true;
    }
    value
}

fn mismatch(result: &str) -> SqlError {
    let message = format!("return type mismatch in function declared to return {result}");
    SqlError::new(SqlState::INVALID_FUNCTION_DEFINITION, message)
}

/// A value over a row of arguments, which is NULL if one of these is.
fn unless_null(arguments: &[Expr], value: Expr) -> Expr {
    let row = super::all_columns(arguments.iter().map(Expr::data_type)).into_iter();
    let nulls = row.map(|argument| Expr::IsNull(Box::new(argument), false));
    let null = Expr::null(value.data_type());
    let tests = nulls.map(|test| (test, null.clone())).collect();
    Expr::Case(tests, Box::new(value))
}

/// The expression of a query that is nothing else.
fn single_expression(query: &Query) -> Option<&ast::Expr> {
    let SetExpr::Select(select) = &*query.body else {
        return None;
    };
    let is_plain = query.with.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.order_by.is_none()
        && query.locks.is_empty()
        && select.from.is_empty()
        && select.selection.is_none()
        && select.having.is_none()
        && select.distinct.is_none()
        && matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    match select.projection.as_slice() {
        [SelectItem::UnnamedExpr(tree) | SelectItem::ExprWithAlias { expr: tree, .. }]
            if is_plain =>
        {
            Some(tree)
        }
        _ => None,
    }
}

/// Whether an expression has parts that are computed before the row of the query that it is in, so
/// that it cannot go into a query below.
fn is_of_its_query(expression: &Expr) -> bool {
    expression.any(|part, depth| {
        let is_of_query = match part {
            Expr::Call(call) => call.function.returns_set(),
            Expr::Pending(Pending::Window | Pending::Grouping, ..) => true,
            _ => false,
        };
        depth == 0 && is_of_query
    })
}

/// Whether a value reads a column of its row exactly once, and not in a query.
fn is_read_once(value: &Expr, column: usize) -> bool {
    let (mut reads, mut is_in_query) = (0, false);
    // The test holds for no part, so all of them are visited.
    value.any(|part, depth| {
        match part {
            Expr::Column(at, _) if depth == 0 && *at == column => reads += 1,
            Expr::Outer(level, at, _) if depth > 0 && *level == depth && *at == column => {
                is_in_query = true;
            }
            _ => {}
        }
        false
    });
    reads == 1 && !is_in_query
}

/// Puts values over another row in the places of the columns of a row.
pub(super) fn replace_row(value: &mut Expr, values: &[Expr]) -> Result<()> {
    value.walk(0, &mut |part, depth| {
        let at = match part {
            Expr::Column(at, _) if depth == 0 => *at,
            Expr::Outer(level, at, _) if depth > 0 && *level == depth => *at,
            _ => return Ok(true),
        };
        if let Some(value) = values.get(at) {
            let mut value = value.clone();
            for _ in 0..depth {
                value = value.into_outer();
            }
            *part = value;
        }
        Ok(false)
    })
}
