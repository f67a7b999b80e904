//! The transactions of a list, in the form in which drivers run them.
//!
//! A script is at a position of its list. [`Script::step`] runs the statements of the transaction
//! there and may be called again after a conflict; [`Script::next`] moves on, whether the
//! transaction was committed or rolled back. The caller begins and commits, so the same script runs
//! in a worker that owns its partition and in threads that share a database.

use indelible::{Connection, Error, Result, Transaction, Worker};

/// Runs the transactions of a partition's list.
pub trait Script {
    /// Kinds of transactions that are reported apart.
    const KINDS: usize;

    /// Transactions run so far, those of earlier scripts on the same list included.
    fn position(&self) -> u64;

    /// The kind of the next transaction, below [`Script::KINDS`].
    fn kind(&self) -> usize;

    /// Runs the statements of the next transaction.
    fn step(&mut self, transaction: &mut Transaction<'_>) -> Result<()>;

    /// Announces the row of a later transaction, if the script does so.
    #[inline]
    fn announce(&self, _worker: &mut Worker<'_>) -> Result<()> {
        Ok(())
    }

    /// Moves to the next transaction. The list begins again at its end.
    fn next(&mut self);

    /// Whether an error is a rollback that belongs to the workload.
    fn is_rollback(error: &Error) -> bool;
}

/// A script that knows where its next transaction goes.
pub trait RoutedScript: Script {
    /// The partitions that the next transaction touches, in ascending order.
    fn partitions(&self, partitions: &mut Vec<u32>);
}

/// A script whose transactions also run over a connection, one call a statement.
pub trait InteractiveScript: Script {
    /// Runs the statements of the next transaction, which the caller has begun.
    fn step_over(&mut self, connection: &mut Connection) -> Result<()>;
}
