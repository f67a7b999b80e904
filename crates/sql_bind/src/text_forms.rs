//! Functions of texts that have a form of their own: `SUBSTRING`, `TRIM`, `IS NORMALIZED`.
//!
//! Each is a call of an ordinary function, whose arguments are in the places that the form gives
//! them.

use super::Binder;
use crate::error::{Result, SqlError};
use crate::plan::Expr;
use crate::types::{Datum, Kind};
use sqlparser::ast::{self, Expr as Tree, TrimWhereField};

impl Binder<'_> {
    /// `IS NORMALIZED`.
    pub(super) fn is_normalized(
        &mut self,
        text: &Tree,
        form: Option<ast::NormalizationForm>,
        negated: bool,
    ) -> Result<Expr> {
        let form = form.unwrap_or(ast::NormalizationForm::NFC).to_string();
        let form = Expr::Constant(Datum::text(form), Kind::Text.plain());
        let text = self.expression(text)?;
        let is_normal = self.call("is_normalized", vec![text, form])?;
        Ok(match negated {
            true => Expr::Not(Box::new(is_normal)),
            false => is_normal,
        })
    }

    /// `substring`, or `substr`, which has no form with a pattern.
    pub(super) fn substring(&mut self, tree: &Tree) -> Result<Expr> {
        let Tree::Substring {
            expr,
            substring_from: from,
            substring_for: length,
            shorthand: is_short,
            ..
        } = tree
        else {
            return Err(SqlError::internal("a part of a text"));
        };
        let mut arguments = vec![self.expression(expr)?];
        let one = Expr::Constant(Datum::Int4(1), Kind::Int4.plain());
        match from {
            Some(from) => arguments.push(self.expression(from)?),
            None if *is_short => {}
            None => arguments.push(one),
        }
        if let Some(length) = length {
            arguments.push(self.expression(length)?);
        }
        let name = if *is_short { "substr" } else { "substring" };
        self.call(name, arguments)
    }

    /// `TRIM`, of the side that it names.
    pub(super) fn trim(
        &mut self,
        operand: &Tree,
        side: Option<TrimWhereField>,
        what: Option<&Tree>,
        characters: Option<&[Tree]>,
    ) -> Result<Expr> {
        let mut arguments = vec![self.expression(operand)?];
        let characters = characters.and_then(<[Tree]>::first);
        if let Some(what) = what.or(characters) {
            arguments.push(self.expression(what)?);
        }
        let name = match side {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            Some(TrimWhereField::Both) | None => "btrim",
        };
        self.call(name, arguments)
    }
}
