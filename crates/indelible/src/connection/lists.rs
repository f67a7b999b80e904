//! Lists of rows that a transaction has locked without a lock for each of them.
//!
//! A transaction that inserts many rows lists their names here, if nobody else has a lock in the
//! table at that moment. It has one lock, by which others wait for its end.
//!
//! Its order: the list, then the look at the locks of the table
//! ([`LockSession::is_alone_in`]), and the list is taken back if others have some. The order of
//! others: their intention in the table, the lock of the row, then the look at the lists. The two
//! meet at the mutex of the table's locks, so one of them sees the other. The lists of a
//! transaction go before its locks do.

use super::row_locks::lock_error;
use crate::error::Result;
use crate::sync::{Mutex, MutexGuard};
use std::sync::PoisonError;
// Sessions that have to see a list come after it by a mutex, so no schedule of this number is worth
// a test.
use std::sync::atomic::{AtomicUsize, Ordering};
use storage::engine::PageId;
use storage::lock::{KeyMode, LockSavepoint, LockSession};
use storage::record::TableId;

/// No table has this number; the locks that stand for lists are here.
pub(super) const TABLE: TableId = TableId(u32::MAX - 1);
const TREE: PageId = PageId(u32::MAX - 1);
/// Names up to which a list takes in the next one of its transaction: a name is looked for in all
/// lists.
const JOINED_MAX: usize = 1024;

/// The lists of all transactions.
#[derive(Default)]
pub(crate) struct Lists {
    count: AtomicUsize,
    lists: Mutex<Vec<List>>,
}

/// Names of rows of a table, in ascending order.
struct List {
    /// The number of the lock session.
    owner: u32,
    table: TableId,
    names: Vec<u64>,
}

impl Lists {
    /// Adds a list, unless others have locks in the table; whether it is there.
    pub(super) fn add(
        &self,
        locks: &mut LockSession,
        table: TableId,
        names: Vec<u64>,
    ) -> Result<bool> {
        let owner = locks.number();
        let own = [u64::from(owner)];
        locks
            .lock_key(TABLE, TREE, &own, KeyMode::Exclusive)
            .map_err(lock_error)?;
        self.change(|lists| {
            lists.push(List {
                owner,
                table,
                names,
            });
        });
        let is_alone = locks.is_alone_in(table).map_err(lock_error);
        let stays = matches!(is_alone, Ok(true));
        self.change(|lists| {
            if stays {
                join_newest(lists);
            } else {
                let last = lists.iter().rposition(|list| list.owner == owner);
                last.map(|at| lists.remove(at));
            }
        });
        is_alone
    }

    /// Whether a session has lists.
    pub(super) fn has_any_of(&self, locks: &LockSession) -> bool {
        let of_session = |list: &List| list.owner == locks.number();
        self.count.load(Ordering::Relaxed) > 0 && self.lock().iter().any(of_session)
    }

    /// Forgets the lists of a session that has locked their rows, and lets those go on who wait for
    /// its end by a list: they meet the locks.
    pub(super) fn replace(&self, locks: &mut LockSession) {
        self.end(locks);
        locks.unlock_key(TREE, &[u64::from(locks.number())]);
    }

    /// Forgets the lists of a session, whose transaction ends.
    pub(super) fn end(&self, locks: &LockSession) {
        if self.count.load(Ordering::Relaxed) > 0 {
            self.change(|lists| lists.retain(|list| list.owner != locks.number()));
        }
    }

    /// Another session that has listed a row.
    #[inline]
    pub(super) fn holder(&self, locks: &LockSession, table: TableId, name: u64) -> Option<u32> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let lists = self.lock();
        let mut lists = lists.iter();
        let holder = lists.find(|list| {
            list.table == table
                && list.owner != locks.number()
                && list.names.binary_search(&name).is_ok()
        });
        holder.map(|list| list.owner)
    }

    /// Waits until the transaction of a session that has lists has ended.
    pub(super) fn wait_for(locks: &mut LockSession, holder: u32) -> Result<()> {
        let name = [u64::from(holder)];
        locks
            .lock_key(TABLE, TREE, &name, KeyMode::Shared)
            .map_err(lock_error)?;
        locks.unlock_key(TREE, &name);
        Ok(())
    }

    fn change(&self, change: impl FnOnce(&mut Vec<List>)) {
        let mut lists = self.lock();
        change(&mut lists);
        self.count.store(lists.len(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<List>> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives the locks back that a session has taken since a savepoint, except the one by which others
/// wait for its lists.
pub(super) fn release_since(locks: &mut LockSession, savepoint: LockSavepoint) {
    locks.release_since(savepoint, TREE);
}

/// Makes the two newest lists one, if they are of one transaction and table and the older is short.
fn join_newest(lists: &mut Vec<List>) {
    let [.., older, newest] = &mut lists[..] else {
        return;
    };
    if (older.owner, older.table) == (newest.owner, newest.table) && older.names.len() < JOINED_MAX
    {
        older.names.append(&mut newest.names);
        #[expect(clippy::stable_sort_primitive, reason = "it merges two runs")]
        older.names.sort();
        lists.pop();
    }
}
