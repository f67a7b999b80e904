//! Values that an expression reads several times, and that are evaluated once.
//!
//! `CASE value WHEN`, `NULLIF` and the checks of a domain are bound as comparisons that have the
//! value in each of them. One that may differ each time, and a row of a query of which several
//! columns are taken, is evaluated first, and read by its number.

use super::Binder;
use crate::error::Result;
use crate::plan::{Expr, Let};
use crate::types::{Kind, Type};

impl Binder<'_> {
    /// An expression that reads a value.
    pub(super) fn once(
        &mut self,
        value: Expr,
        body: impl FnOnce(&mut Self, Expr) -> Result<Expr>,
    ) -> Result<Expr> {
        // The fields of a row are compared one by one.
        if value.kind() == Kind::Record || !value.has_volatile() {
            return body(self, value);
        }
        let is_of_c = value.has_c_collation();
        let (number, read) = self.new_value(value.data_type());
        let body = body(self, read.collated_if(is_of_c))?;
        Ok(let_in(number, value, body))
    }

    /// The number of a value, and the expression that reads it.
    pub(super) fn new_value(&mut self, data_type: Type) -> (usize, Expr) {
        let number = self.values;
        self.values += 1;
        (number, Expr::LetValue(number, data_type))
    }
}

/// An expression, before which a value is evaluated.
pub(super) fn let_in(number: usize, value: Expr, body: Expr) -> Expr {
    Expr::Let(Box::new(Let {
        number,
        value,
        body,
    }))
}

/// The fields of a record, which are of these types.
pub(super) fn fields_of(record: &Expr, types: &[Type]) -> Vec<Expr> {
    let fields = types.iter().enumerate();
    fields
        .map(|(at, data_type)| Expr::Field(Box::new(record.clone()), at, *data_type))
        .collect()
}
