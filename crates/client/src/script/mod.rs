//! Texts of SQL as shells read them.
//!
//! [`Script`] cuts a text into statements and commands of the shell, by the rules of PostgreSQL's
//! own shell; [`tokens`] are the parts that it looks at, which also serve to complete and to colour
//! a line. Nothing here knows the grammar of a statement, so nothing here refuses one.

mod cut;
mod token;
mod variables;

pub use cut::{CopyData, Lines, Piece, Script, is_complete, reads_copy_data};
pub use token::{Kind, Token, tokens};
pub use variables::{reference, substitute};
