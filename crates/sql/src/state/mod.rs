//! State of a session between statements.
//!
//! | module | job |
//! |---|---|
//! | `deferred` | checks of constraints that the transaction has put off |
//! | `definitions` | texts of constraints, indexes and views |
//! | `describe`, `privilege`, `activity`, `monitor` | functions about objects, rights, the server |
//! | `drops` | objects that a statement drops |
//! | `exclusion` | the count of transactions that have a table for themselves |
//! | `environment` | everything that expressions look at: settings, names, times, the session |
//! | `host` | functions that need the session |
//! | `transaction` | the block that is open, its savepoints and its definitions |
//! | `registry` | the sessions of the database, as others see them, and their notifications |
//! | `statements` | statistics of statements |
//! | `prepared` | prepared statements, portals and cursors |

mod activity;
mod clock;
mod deferred;
mod definitions;
mod describe;
mod drops;
mod environment;
mod exclusion;
mod host;
mod monitor;
mod partitions;
mod prepared;
mod privilege;
mod registry;
mod statements;
mod transaction;

pub(crate) use clock::now;
pub(crate) use deferred::{Deferred, Side, Violation};
pub(crate) use definitions::{Definitions, distinct_names, index_columns};
pub(crate) use drops::Drops;
pub(crate) use environment::{Environment, HostState, ShownCursor, ShownStatement, check_deadline};
pub(crate) use exclusion::Exclusions;
pub(crate) use host::{HostCall, may_see};
pub(crate) use prepared::{
    Held, Planned, Portal, Prepared, PreparedStatements, Progress, Running, check_promised,
};
pub(crate) use registry::{Announced, Listen, Registry, Shown, cost};
pub use registry::{Notification, ShownEncryption, Wake, WakeReason};
pub(crate) use sql_bind::{SessionNames, parts_of, quoted};
pub(crate) use sql_plan::catalog::row_places::RowPlaces;
pub(crate) use sql_plan::catalog::sequence::{
    Sequences, SessionSequences, delete as delete_sequence, delete_loose as delete_loose_sequences,
};
pub(crate) use sql_values::scram::verifier;
pub(crate) use sql_values::setting::{
    PlanCacheMode, Variables, default_of as default_setting, is_fixed as is_fixed_setting,
    millis_of, unknown as unknown_setting,
};
pub(crate) use sql_values::undo::Undo;
pub(crate) use statements::{Call, Costs, Statements};
pub(crate) use transaction::{Block, Loose, Savepoint, Transaction};

/// The state of a session's transaction, as clients see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// None is open.
    Idle,
    /// One is open.
    Open,
    /// One has failed: it can only be rolled back.
    Failed,
}

/// The weight of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Something was left out, as the statement allows.
    Notice,
    /// The statement did not do what it says.
    Warning,
}

/// Something to know about a statement that has succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Its weight.
    pub severity: Severity,
    /// State, message, detail and hint.
    pub content: crate::error::SqlError,
}
