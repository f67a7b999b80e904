//! Work on all partitions at once, and rows inserted some hundred to a transaction.
//!
//! Loading and reading back have one thread a partition, which owns it. The results of the threads
//! come back in the order of the partitions.

use indelible::{Database, Durability, Result, Transaction, Worker};
use std::convert::Infallible;
use std::panic::resume_unwind;

/// Called now and then with the number of new rows. One type for all listeners, so that loading is
/// compiled once.
pub(crate) type Loaded<'a> = &'a (dyn Fn(u64) + Sync);

/// Rows of one loading transaction, about.
pub(crate) const BATCH_ROWS: usize = 200;

/// Calls `work` for each partition in a thread of its own. Of several errors, that of the first
/// partition is returned.
pub(crate) fn on_each<T: Send, E: Send>(
    partitions: u32,
    work: impl Fn(u32) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    std::thread::scope(|threads| {
        let work = &work;
        let workers: Vec<_> = (0..partitions)
            .map(|partition| threads.spawn(move || work(partition)))
            .collect();
        let joined: Vec<Result<T, E>> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect();
        joined.into_iter().collect()
    })
}

/// Makes `count` lists in parallel, each with its share of the transactions.
pub(crate) fn lists<L: Send>(
    count: u32,
    transactions: u64,
    make: impl Fn(u32, u64) -> L + Sync,
) -> Vec<L> {
    let each = transactions.div_ceil(count.into()).max(1);
    let Ok(lists) = on_each(count, |list| Ok::<_, Infallible>(make(list, each)));
    lists
}

/// Reads each partition in one transaction of its own thread.
pub(crate) fn read_each<T: Send>(
    database: &Database,
    read: impl Fn(&mut Transaction<'_>, u32) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    on_each(database.partitions(), |partition| {
        let mut worker = database.worker(&[partition], Durability::Group)?;
        let (value, _) = worker.transaction(|transaction| read(transaction, partition))?;
        Ok(value)
    })
}

/// Calls `insert` for each number, `batch` of them to a transaction; it returns how many rows it
/// has inserted.
pub(crate) fn in_batches<N>(
    worker: &mut Worker<'_>,
    numbers: impl Iterator<Item = N>,
    batch: usize,
    loaded: Loaded<'_>,
    mut insert: impl FnMut(&mut Transaction<'_>, N) -> Result<u64>,
) -> Result<()> {
    let mut numbers = numbers.peekable();
    while numbers.peek().is_some() {
        let (rows, _) = worker.transaction(|transaction| {
            let batch = numbers.by_ref().take(batch);
            let mut rows = 0;
            for number in batch {
                rows += insert(transaction, number)?;
            }
            Ok(rows)
        })?;
        loaded(rows);
    }
    Ok(())
}
