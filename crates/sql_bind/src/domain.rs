//! Conditions of domains: of a value, of the fields of a row, and of the elements of an array.
//!
//! A value has the type below its domain, so the conditions are bound where it is made a value of
//! the domain: casts, arguments and results of functions, columns. A row keeps those of its fields
//! wherever it becomes one of a type.

use super::Binder;
use super::once::let_in;
use super::routine::replace_row;
use super::select::row_scope;
use crate::catalog::{Body, Column, Oid, Typed, domain_of};
use crate::error::{Result, SqlError};
use crate::plan::{Expr, Quantified};
use crate::types::{Datum, Kind, Type};
use std::sync::Arc;

/// A condition of a domain over a row of one value, with the names of both. NOT NULL has no name.
type DomainCheck = (String, String, Expr);

impl Binder<'_> {
    /// The conditions of the domains that a value is of, and that values inside it are of.
    pub(super) fn domain_checks(&mut self, typed: Typed) -> Result<Vec<DomainCheck>> {
        self.checks_within(typed, &mut Vec::new())
    }

    /// The same, within values of other types.
    fn checks_within(&mut self, typed: Typed, around: &mut Vec<Typed>) -> Result<Vec<DomainCheck>> {
        // Earlier builds let a table be a member of itself.
        if around.contains(&typed) {
            return Ok(Vec::new());
        }
        around.push(typed);
        let (data_type, domain) = typed;
        let checks = match domain.filter(|number| *number == domain_of(*number)) {
            Some(domain) => self.checks_of(domain, data_type, around),
            None => self.checks_of_parts(typed, around),
        };
        around.pop();
        checks
    }

    /// The conditions of a domain, after those of the type below it.
    fn checks_of(
        &mut self,
        domain: Oid,
        data_type: Type,
        around: &mut Vec<Typed>,
    ) -> Result<Vec<DomainCheck>> {
        let Some(object) = self.names.catalog.object(domain).map(Arc::clone) else {
            return Ok(Vec::new());
        };
        let Body::Domain(domain) = &object.body else {
            return Ok(Vec::new());
        };
        let mut checks = self.checks_within((data_type, domain.elements), around)?;
        if domain.not_null {
            let value = Box::new(Expr::Column(0, data_type));
            let condition = Expr::IsNull(value, true);
            checks.push((object.name.clone(), String::new(), condition));
        }
        for (name, condition) in &domain.checks {
            let scope = row_scope("", [("value".to_owned(), data_type)])?;
            let condition = self.stored(condition, scope)?;
            checks.push((object.name.clone(), name.clone(), condition));
        }
        Ok(checks)
    }

    /// The conditions of the fields of a row, or of the elements of an array.
    fn checks_of_parts(
        &mut self,
        typed: Typed,
        around: &mut Vec<Typed>,
    ) -> Result<Vec<DomainCheck>> {
        let catalog = Arc::clone(&self.names.catalog);
        let whole = || Box::new(Expr::Column(0, typed.0));
        let is_array = typed.0.kind.is_array();
        let mut checks = Vec::new();
        for (at, part) in catalog.parts_of_type(typed).into_iter().enumerate() {
            for (domain, name, mut condition) in self.checks_within(part, around)? {
                let of_whole = if is_array {
                    // The value on the left is none: the condition is over an element.
                    replace_row(&mut condition, &[Expr::Column(1, part.0)])?;
                    Expr::Quantified(Box::new(Quantified {
                        left: Expr::boolean(true),
                        array: *whole(),
                        condition: Expr::IsTruth(Box::new(condition), Some(false), true),
                        is_all: true,
                    }))
                } else {
                    replace_row(&mut condition, &[Expr::Field(whole(), at, part.0)])?;
                    // A row of NULLs is one, and has fields.
                    let pair = (*whole(), Expr::null(typed.0));
                    let is_missing = Expr::IsDistinct(Box::new(pair), true);
                    Expr::Or(vec![is_missing, condition])
                };
                checks.push((domain, name, of_whole));
            }
        }
        Ok(checks)
    }

    /// A value of a domain, or an array of its values: an error unless the conditions hold.
    pub(super) fn checked_by(&mut self, value: Expr, domain: Oid) -> Result<Expr> {
        let data_type = value.data_type();
        // A text has the name of the domain.
        if let Some(calls) = &mut self.calls {
            let column = super::KEPT_CALLS + calls.len();
            calls.push(super::KeptCall {
                function: domain,
                arguments: vec![value],
            });
            return Ok(Expr::Column(column, data_type));
        }
        self.checked(value, (data_type, Some(domain)))
    }

    /// A row that has become one of a type, or an array of rows: an error unless the conditions of
    /// its fields hold.
    pub(super) fn with_checked_fields(&mut self, value: Expr) -> Result<Expr> {
        let data_type = value.data_type();
        let has_fields = matches!(data_type.kind, Kind::Composite(_) | Kind::CompositeArray(_));
        if !has_fields || self.calls.is_some() {
            return Ok(value);
        }
        self.checked(value, (data_type, None))
    }

    /// A value for which conditions hold, or their error.
    pub(super) fn checked(&mut self, value: Expr, typed: Typed) -> Result<Expr> {
        let checks = self.domain_checks(typed)?;
        if checks.is_empty() {
            return Ok(value);
        }
        let is_made = matches!(value, Expr::Cast(..) | Expr::Call(_));
        if is_made && typed.1.is_none() {
            // Each of the fields is read.
            let (number, read) = self.new_value(value.data_type());
            let body = self.tested(read, checks)?;
            return Ok(let_in(number, value, body));
        }
        self.once(value, |binder, value| binder.tested(value, checks))
    }

    fn tested(&mut self, value: Expr, checks: Vec<DomainCheck>) -> Result<Expr> {
        let data_type = value.data_type();
        let mut tests = Vec::with_capacity(checks.len());
        for (domain, check, mut condition) in checks {
            replace_row(&mut condition, std::slice::from_ref(&value))?;
            let names = [domain, check]
                .map(|name| Expr::Constant(Datum::text(name.as_str()), Kind::Text.plain()));
            let broken = Expr::IsTruth(Box::new(condition), Some(false), false);
            let Expr::Call(mut call) = self.call("domain_violation", names.to_vec())? else {
                return Err(SqlError::internal("a function is a call"));
            };
            call.data_type = data_type;
            tests.push((broken, Expr::Call(call)));
        }
        Ok(Expr::Case(tests, Box::new(value)))
    }

    /// The value of a column that stands at a place as one of its kind; none if its type and its
    /// domain ask for no more.
    ///
    /// # Errors
    ///
    /// Those of the conditions of domains.
    pub fn input_of(&mut self, at: usize, column: &Column) -> Result<Option<Expr>> {
        let read = Expr::Column(at, column.data_type.kind.plain());
        let value = self.assign(read, column.data_type, &column.name)?;
        let value = self.checked(value, (column.data_type, column.domain))?;
        let is_read = matches!(value, Expr::Column(..));
        Ok((!is_read).then_some(value))
    }
}
