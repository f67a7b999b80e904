//! Functions in `FROM` whose rows have several columns.
//!
//! Those that make rows of JSON get the columns of their alias as a row without values, so that
//! they know names and types when they run.

use super::scope::{Clause, Scope};
use super::{Binder, ident_text, object_name, type_named};
use crate::catalog::Body;
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Expr, Node, Project};
use crate::types::{Kind, RecordShape, Type};
use sqlparser::ast::{self, FunctionArg, FunctionArgExpr, TableAlias};
use std::sync::Arc;

/// Functions whose columns are those of their alias.
const TO_RECORD: [&str; 4] = [
    "json_to_record",
    "jsonb_to_record",
    "json_to_recordset",
    "jsonb_to_recordset",
];

/// Whether a call is of a function that makes rows of a type of JSON.
pub(super) fn makes_rows(call: &Expr) -> bool {
    matches!(call, Expr::Call(call) if call.function.name.contains("_populate_record"))
}

impl Binder<'_> {
    /// The call of a function that has the columns of its alias; none for other functions.
    pub(super) fn record_call(
        &mut self,
        name: &ast::ObjectName,
        arguments: &[FunctionArg],
        alias: Option<&TableAlias>,
    ) -> Result<Option<Expr>> {
        let (_, name) = object_name(name)?;
        if !TO_RECORD.contains(&name.as_str()) {
            return Ok(None);
        }
        let [FunctionArg::Unnamed(FunctionArgExpr::Expr(json))] = arguments else {
            return Ok(None);
        };
        let columns = alias.map_or(&[][..], |alias| alias.columns.as_slice());
        let mut shape = RecordShape {
            names: Vec::new(),
            types: Vec::new(),
        };
        for column in columns {
            let Some(data_type) = &column.data_type else {
                continue;
            };
            shape.names.push(ident_text(&column.name).as_str().into());
            shape
                .types
                .push(type_named(self.names, data_type)?.data_type);
        }
        if shape.names.is_empty() {
            let message = "a column definition list is required for functions returning \"record\"";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let (json, _) = self.expression_in(Scope::default(), Clause::From, json);
        let nulls = shape.types.iter().map(|one| Expr::null(*one)).collect();
        let row = Expr::Row(nulls, Arc::new(shape));
        self.call(&name, vec![json?, row]).map(Some)
    }

    /// Rows of functions, with the conditions of domains: of columns that an alias declares, and of
    /// fields of rows that are made of JSON.
    pub(super) fn with_domains(
        &mut self,
        rows: Node,
        alias: Option<&TableAlias>,
        (calls, columns): (&[Expr], &[(String, Type)]),
    ) -> Result<Node> {
        let mut read = Vec::with_capacity(columns.len());
        let declared = alias.map_or(&[][..], |alias| alias.columns.as_slice());
        if declared.len() == columns.len() {
            for column in declared {
                let data_type = column.data_type.as_ref();
                let named = data_type.map(|one| type_named(self.names, one));
                let named = named.transpose()?;
                read.push(named.map(|named| (named.data_type, named.domain)));
            }
        }
        if let [call] = calls
            && makes_rows(call)
        {
            let fields = self.names.catalog.parts_of_type((call.data_type(), None));
            read = fields.into_iter().map(Some).collect();
        }
        let (mut expressions, mut has_domains) = (Vec::new(), false);
        for (at, (_, found)) in columns.iter().enumerate() {
            let value = Expr::Column(at, *found);
            expressions.push(match read.get(at).copied().flatten() {
                Some((_, domain)) => self.checked(value, (*found, domain))?,
                None => value,
            });
            has_domains |= !matches!(expressions[at], Expr::Column(..));
        }
        let checked = Project {
            input: rows.clone(),
            expressions,
            has_sets: false,
        };
        Ok(if has_domains { checked.into() } else { rows })
    }

    /// A call that makes rows of JSON, with the conditions of the domains of their fields. Rows of
    /// a set are looked at in `FROM`.
    pub(super) fn populated(&mut self, call: Expr, clause: Clause) -> Result<Expr> {
        let is_set = matches!(&call, Expr::Call(call) if call.function.returns_set());
        match is_set {
            false => self.with_checked_fields(call),
            true if clause == Clause::From => Ok(call),
            true => match self.domain_checks((call.data_type(), None))?.is_empty() {
                true => Ok(call),
                false => Err(SqlError::unsupported(
                    "a set of rows with domains outside of FROM",
                    "Call the function in FROM.",
                )),
            },
        }
    }

    /// The name of the only column of a user's function that names it (`RETURNS TABLE`).
    pub(super) fn only_column(&self, function: &str) -> Option<String> {
        let mut objects = self.names.catalog.objects();
        objects.find_map(|object| match &object.body {
            Body::Function(body) if object.name == function => match body.columns.as_slice() {
                [(name, _)] => Some(name.clone()),
                _ => None,
            },
            _ => None,
        })
    }

    /// Names and types of a function's columns.
    pub(super) fn function_columns(&self, call: &Expr, name: &str) -> Vec<(String, Type)> {
        let of_shape = |shape: &RecordShape| -> Vec<(String, Type)> {
            let names = shape.names.iter().map(ToString::to_string);
            names.zip(shape.types.iter().copied()).collect()
        };
        match (call, call.kind()) {
            (Expr::Call(call), _) if !call.function.columns.is_empty() => {
                let columns = call.function.columns.iter();
                columns
                    .map(|(name, kind)| ((*name).to_owned(), kind.plain()))
                    .collect()
            }
            (Expr::Call(call), Kind::Record) => match call.arguments.as_slice() {
                [_, row] => match row.fields() {
                    Some(shape) => of_shape(&shape),
                    None => vec![(name.to_owned(), call.data_type)],
                },
                _ => vec![(name.to_owned(), call.data_type)],
            },
            (other, Kind::Composite(oid)) => match self.context.names.row_shape(oid) {
                Some(shape) => of_shape(&shape),
                None => vec![(name.to_owned(), other.data_type())],
            },
            (other, _) => vec![(name.to_owned(), other.data_type())],
        }
    }
}
