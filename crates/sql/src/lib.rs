//! SQL over every method: statements in the dialect of PostgreSQL 15.
//!
//! | module | job |
//! |---|---|
//! | `error` | errors with PostgreSQL's states |
//! | `types` | types, values, and everything that is computed with them |

pub mod error;
pub mod types;
