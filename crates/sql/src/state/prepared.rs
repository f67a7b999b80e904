//! Prepared statements and portals.

use crate::parse::Parsed;
use crate::types::{Datum, Type};

/// A statement that is parsed.
pub(crate) struct Prepared {
    /// None for an empty text.
    pub(crate) parsed: Option<Parsed>,
    pub(crate) declared: Vec<Option<Type>>,
}

impl Prepared {
    pub(crate) fn new(parsed: Option<Parsed>, declared: &[Option<Type>]) -> Self {
        Self {
            parsed,
            declared: declared.to_vec(),
        }
    }
}

/// A statement with the values of its parameters.
pub(crate) struct Portal {
    pub(crate) parsed: Option<Parsed>,
    pub(crate) values: Vec<Datum>,
}

impl Portal {
    pub(crate) fn new(prepared: &Prepared, values: &[Datum]) -> Self {
        Self {
            parsed: prepared.parsed.clone(),
            values: values.to_vec(),
        }
    }
}
