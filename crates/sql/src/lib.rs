//! SQL over every method: statements in the dialect of PostgreSQL 15.
//!
//! A [`Sql`] is what all sessions of a database share; a [`Session`] is one client. Results go to a
//! [`RowSink`], batch by batch.
//!
//! ```text
//! text -parse-> statement -bind-> plan -plan::improve-> plan -run-> rows -> RowSink
//!                   |
//!                   +-define-> catalogue (rows of a hidden table) -> tables below
//! ```
//!
//! | module | job |
//! |---|---|
//! | `sql`, `session`, `sink` | the interface: the database, a client, the receiver of results |
//! | `error`, `types` | from the room `sql_values`: values and everything computed with them |
//! | `sql_parse` | the room below: texts become statements, and rows text |
//! | `catalog` | rows of the relations of the system, over the catalogue of the room `sql_plan` |
//! | `sql_bind` | the room below: names become positions, and statements plans |
//! | `plan` | from the room `sql_plan`: plans and their improvement |
//! | `run` | operators: plans become rows and changes |
//! | `define` | statements that define objects |
//! | `state` | what a session keeps between statements |

#![allow(
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of rows, columns and bytes are far below the limits of both types"
)]
#![allow(
    clippy::single_match_else,
    clippy::match_bool,
    clippy::match_same_arms,
    clippy::match_single_binding,
    clippy::ignored_unit_patterns,
    reason = "a match shows all ways side by side, in the order of the grammar or the manual"
)]
#![allow(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "the parts of a binder are methods of one form, whether or not they can fail"
)]

mod catalog;
mod define;
mod run;
mod session;
mod sink;
mod sql;
mod state;

pub use session::{Described, Description, Parameters, Session};
pub use sink::{Batch, Completion, CopyShape, Flow, OutputColumn, RowSink};
pub use sql::{LockWait, Sql};
pub use sql_parse::without_constants;
use sql_plan::plan;
pub use sql_rows::{BATCH_ROWS, ColumnValues, Columns};
pub use sql_values::encoding::Encoding;
pub use sql_values::error::{SqlError, SqlState};
pub use sql_values::scram::verifier as password_verifier;
pub use sql_values::{error, types};
pub use state::{
    Notice, Notification, Severity, ShownEncryption, TransactionStatus, Wake, WakeReason,
};
