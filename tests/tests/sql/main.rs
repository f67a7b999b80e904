//! Tests of SQL over databases as media and earlier versions leave them.
//!
//! Both compare a database with another one that has run the same statements undisturbed, by what
//! SQL shows of them.

mod cuts;
mod golden;
mod state;
