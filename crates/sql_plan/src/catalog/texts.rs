//! Texts that objects keep: queries of views, and expressions of tables, domains and functions.
//!
//! They have full names, which are looked up before one of them changes.

use super::{Body, Object, Origin, Rule};
use crate::types::Type;

/// The meaning of a text that the catalogue keeps.
#[derive(Clone, Copy, Debug)]
pub enum Kept {
    /// A query.
    Query,
    /// An expression, as a value of a type if it is given.
    Value(Option<Type>),
}

impl Object {
    /// Visits the texts of an object that name others: a view's query, and expressions over the
    /// rows of a table, the values of a domain, or over nothing.
    pub fn each_text(&mut self, visit: &mut dyn FnMut(&mut String, Kept)) {
        match &mut self.body {
            Body::View(view) => visit(&mut view.query, Kept::Query),
            Body::Domain(domain) => {
                let default = domain.default.iter_mut();
                default.for_each(|text| visit(text, Kept::Value(Some(domain.base))));
                let checks = domain.checks.iter_mut();
                checks.for_each(|(_, condition)| visit(condition, Kept::Value(None)));
            }
            Body::Function(function) => {
                let types = function.arguments.iter().map(|(_, data_type)| *data_type);
                let first = function.arguments.len() - function.defaults.len();
                for (text, wanted) in function.defaults.iter_mut().zip(types.skip(first)) {
                    visit(text, Kept::Value(Some(wanted)));
                }
            }
            Body::Table(table) => {
                if let Some(view) = &mut table.materialized {
                    visit(&mut view.query, Kept::Query);
                }
                for column in &mut table.columns {
                    let wanted = Kept::Value(Some(column.data_type));
                    let default = column.default.iter_mut();
                    default.for_each(|text| visit(text, wanted));
                    if let Origin::Generated(value) = &mut column.origin {
                        visit(value, wanted);
                    }
                }
                for constraint in &mut table.constraints {
                    if let Rule::Check { condition, .. } = &mut constraint.rule {
                        visit(condition, Kept::Value(None));
                    }
                }
                let mut visit = |text: &mut String| visit(text, Kept::Value(None));
                for form in &mut table.forms {
                    form.keys.iter_mut().for_each(&mut visit);
                    form.predicate.iter_mut().for_each(&mut visit);
                }
                let hidden = table.hidden.iter_mut();
                hidden.for_each(|hidden| hidden.value.iter_mut().for_each(&mut visit));
                let scheme = table.lineage.scheme.iter_mut();
                scheme.for_each(|scheme| scheme.keys.iter_mut().for_each(&mut visit));
            }
            _ => {}
        }
    }
}
