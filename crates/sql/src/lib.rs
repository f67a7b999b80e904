//! SQL over every method: statements in the dialect of PostgreSQL 15.
