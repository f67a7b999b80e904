//! Texts of bound expressions, as PostgreSQL prints those of its catalogue.
//!
//! The catalogue keeps expressions as they were written. `pg_get_expr` and its kin print them as
//! they were understood: with the types of literals and the conversions that were added. Tools read
//! these texts back and compare them, so their form is PostgreSQL's, in its two variants: with all
//! brackets, or with those that are needed (`pretty`).

mod expression;

pub(crate) use expression::Printer;
