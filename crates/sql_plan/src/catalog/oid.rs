//! Numbers of objects, and those that objects of the system have.
//!
//! Objects of users begin at [`FIRST_OID`], as in PostgreSQL, so no number below it is given again.

use crate::types::kind::ARRAY_OF_ROWS;

/// The number of an object.
pub type Oid = u32;

/// The schema for objects without one.
pub const PUBLIC: Oid = 2200;
/// The schema of the built-in objects.
pub const PG_CATALOG: Oid = 11;
/// The schema of the standard's views.
pub const INFORMATION_SCHEMA: Oid = 13_000;
/// The schema of the relations that PostgreSQL does not have.
pub const INDELIBLE: Oid = 13_001;
/// The role that owns everything.
pub const OWNER: Oid = 10;
/// The role that owns the schema `public`, as in PostgreSQL. Its member is the database's owner.
pub const DATABASE_OWNER: Oid = 6171;
/// The grantee that is everyone.
pub const EVERYONE: Oid = 0;
/// The database: there is one.
pub const DATABASE: Oid = 5;
/// Objects of users have this number or a higher one.
pub const FIRST_OID: Oid = 16_384;

/// The number of the arrays of a domain.
pub const fn array_of(domain: Oid) -> Oid {
    domain | ARRAY_OF_ROWS
}

/// The domain of a number that stands beside a type: itself, or that of the elements.
pub const fn domain_of(number: Oid) -> Oid {
    number & !ARRAY_OF_ROWS
}
