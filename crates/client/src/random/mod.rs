//! Random schemas, data and statements, the same for a seed.
//!
//! A *round* is a schema of a few tables with rows, and a number of statements on them. [`compare`]
//! runs rounds on two databases and looks for different answers. [`check`] needs one database only:
//! it splits a query by a condition, or moves the condition, in ways that must not change the
//! answer (ternary logic partitioning, and the non-optimizing reference engine, both by Rigger and
//! Su, 2020).
//!
//! Expressions fail in no order of evaluation, since that order is not defined: there is no
//! division but by what is not zero, and no number that is large enough to overflow. Orders are by
//! unique keys. So each different answer is a fault of one of the two.

mod dice;
mod expression;
mod oracle;
mod round;
mod schema;
mod statement;
mod tally;

pub use oracle::check;
pub use round::{Finding, compare};
pub use tally::Tally;

impl Default for Tally {
    fn default() -> Self {
        let types = schema::TYPES.iter().map(|data_type| data_type.name);
        let expressions = expression::TEMPLATES
            .iter()
            .map(|template| template.construct);
        let statements = statement::TEMPLATES
            .iter()
            .flat_map(|template| template.constructs);
        let known = types.chain(expressions).chain(statements.copied());
        Self::of(known)
    }
}
