//! Clients of SQL: a session in this process, or a server of PostgreSQL's protocol.
//!
//! A [`Client`] runs the text of statements and hands rows, as text, to a [`Sink`]. Everything
//! above that takes either: the shell, files of tests ([`slt`]), scripts ([`script`]). So the same
//! files run on a database of ours and on PostgreSQL, and [`compare`] lists the differences;
//! [`random`] makes more of them. Statements and rows of both sides are compared as text, since
//! that is what users see.
//!
//! Bindings of other languages need values instead of texts: a [`TypedClient`] is a session in this
//! process with typed parameters and rows, and [`Placeholders`] reads the ways in which they write
//! parameters.

mod client;
mod local;
mod parameter;
mod placeholders;
mod typed;
mod wire;

pub mod compare;
pub mod random;
pub mod script;
pub mod slt;

pub use client::{Answer, Answers, Cancel, Client, Column, Error, Report, Severity, Sink, Status};
pub use local::LocalClient;
pub use parameter::Value;
pub use placeholders::{PARAMETERS_MAX, Placeholders};
pub use typed::{Executed, ResultId, TypedClient};
pub use wire::{Address, BadAddress, WireClient};
