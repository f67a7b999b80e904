//! Literals that become parameters, for plans that serve all statements of one fingerprint.
//!
//! A literal is bound as a parameter of the type that it would have had: a number by its form, a
//! text by the first context that asks. A text is read as a value of that type before the plan
//! runs, and a text that is not one makes the statement be bound as it stands, so the error is the
//! one of always. A plan in which a literal would not be a constant is refused.

use super::Binder;
use crate::error::Result;
use crate::plan::Expr;
use crate::plan::Slot;
use crate::types::cast::CastContext;
use crate::types::{Kind, Type};
use sql_parse::{Fingerprint, Literal};
use sqlparser::tokenizer::Span;

/// The literals of a statement that are parameters.
pub(super) struct Lifted<'b> {
    fingerprint: &'b Fingerprint,
    slots: Vec<Option<Slot>>,
    is_refused: bool,
}

impl<'b> Binder<'b> {
    /// Lets the literals of a fingerprint be parameters.
    pub fn lift(&mut self, fingerprint: &'b Fingerprint) {
        self.lifted = Some(Lifted {
            fingerprint,
            slots: vec![None; fingerprint.literals().len()],
            is_refused: false,
        });
    }

    /// The types of the literals, if each of them is a parameter of the statement that was bound.
    pub fn slots(&self) -> Option<Box<[Slot]>> {
        let lifted = self.lifted.as_ref().filter(|lifted| !lifted.is_refused)?;
        lifted.slots.iter().copied().collect()
    }

    /// The parameter in the place of a literal, if it is one that was lifted.
    pub(super) fn lifted(&mut self, span: Span, text: &str, is_negative: bool) -> Option<Expr> {
        let lifted = self.lifted.as_mut()?;
        let start = self.places.byte(span.start);
        let fingerprint = lifted.fingerprint;
        let literals = fingerprint.literals();
        let at = literals
            .binary_search_by_key(&start, |literal| literal.start)
            .ok()?;
        let literal: &Literal = &literals[at];
        if literal.is_negative != is_negative
            || fingerprint.content(literal, self.places.text()) != text
        {
            lifted.is_refused = true;
            return None;
        }
        let data_type = match literal.class.kind() {
            Some(kind) => {
                let data_type = kind.plain();
                let how = CastContext::Implicit;
                // A number that is read twice may be one of a view, at the same place of its text.
                lifted.is_refused |= lifted.slots[at].is_some();
                lifted.slots[at] = Some(Slot { data_type, how });
                data_type
            }
            None => Kind::Unknown.plain(),
        };
        Some(Expr::Parameter(at, data_type))
    }

    /// Gives a lifted text its type; none if no literals are lifted.
    pub(super) fn type_lifted(
        &mut self,
        number: usize,
        target: Type,
        how: CastContext,
    ) -> Option<Expr> {
        let lifted = self.lifted.as_mut()?;
        let slot = &mut lifted.slots[number];
        // A text that two contexts read is two constants.
        lifted.is_refused |= slot.is_some();
        *slot = Some(Slot {
            data_type: target,
            how,
        });
        Some(Expr::Parameter(number, target))
    }

    /// The types of all parameters of a statement whose literals are lifted.
    pub(super) fn lifted_types(&self) -> Option<Result<Vec<Type>>> {
        let lifted = self.lifted.as_ref()?;
        let slots = lifted.slots.iter();
        let types = slots.map(|slot| slot.map_or(Kind::Text.plain(), |slot| slot.data_type));
        Some(Ok(types.collect()))
    }
}
