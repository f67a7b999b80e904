//! The crash search with connections: many open transactions, driven by one thread in an order that
//! the seed determines, so that a failure repeats and can be minimised.
//!
//! Each round is a database on an engine of one partition with the options of the ordinary search.
//! Its images are recovered and checked as there: connections add nothing durable, so an image must
//! have a prefix of the commits. Calls never wait, except in a deadlock, for which two threads are
//! made. The model has the committed states, the snapshot, changes and locks of each connection. It
//! predicts each result; where a lock may or may not be held after a failed call, it accepts both.

mod call;
mod claims;
mod client;
mod driver;
mod platform;

pub(crate) use call::Turns;
pub(crate) use driver::ConnectionDriver;
pub(crate) use platform::create;
