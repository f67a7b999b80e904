//! A small engine that several sessions share, for tests under chosen orders of threads.
//!
//! As in the page engine, changes are made in place under exclusive locks of keys, which a session
//! holds until it commits; others see a row before or after, and wait in between. A serializable
//! session locks what it reads as well. Every row of a scan is a step of its own, so scans see
//! commits that come meanwhile. Unique secondary indexes are not checked.

use crate::model::{Rows, assemble, duplicate, key_of};
use crate::sync::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::Duration;
use storage::engine::{
    CommitTicket, Direction, Durability, Engine, EngineStatus, Footprint, GlobalTxnId, Idle,
    Isolation, Marks, Precedence, Reads, ScanRange, Sessions, VerifyReport,
};
use storage::lock::{LockManager, LockOptions, LockOwner, LockSession};
use storage::record::{Changes, IndexDef, IndexId, KeyBuf, LayoutKind, Row, TableDef, TableId};
use storage::table::Table;
use storage::{Result, StorageError};

/// Session slots of a partition.
const SESSIONS: u32 = 3;

type Name = (TableId, Vec<u64>);

/// Content of a partition.
#[derive(Default)]
struct Content {
    tables: BTreeMap<TableId, (Arc<Table>, Rows)>,
    /// Keys that a session has locked.
    locked: BTreeMap<Name, u64>,
    sessions: u64,
    committed: u64,
}

/// A partition that sessions share.
struct Shared {
    content: Mutex<Content>,
    freed: Condvar,
    locks: Arc<LockManager>,
}

/// One session.
struct ModelSession {
    shared: Arc<Shared>,
    number: u64,
    owner: LockSession,
    /// Rows before its changes, oldest first.
    before: Vec<(Name, Option<Row>)>,
    isolation: Isolation,
}

impl ModelSession {
    fn new(shared: &Arc<Shared>) -> Self {
        let number = {
            let mut content = shared.lock();
            content.sessions += 1;
            content.sessions
        };
        Self {
            shared: Arc::clone(shared),
            number,
            owner: shared.locks.session(),
            before: Vec::new(),
            isolation: Isolation::Serializable,
        }
    }

    /// The content once nobody else has locked a key, which it locks then.
    fn content_for(&self, name: &Name, locks: bool) -> MutexGuard<'_, Content> {
        let is_locked = |content: &Content| {
            let holder = content.locked.get(name);
            holder.is_some_and(|holder| *holder != self.number)
        };
        let mut content = self.shared.lock();
        while is_locked(&content) {
            content = self.shared.freed.wait(content).expect("nobody panics");
        }
        if locks {
            content.locked.insert(name.clone(), self.number);
        }
        content
    }

    /// Changes a row under its lock.
    fn change<R>(
        &mut self,
        table: TableId,
        key: &[u64],
        change: impl FnOnce(&Table, &mut Rows) -> Result<R>,
    ) -> Result<R> {
        let name = (table, key.to_vec());
        let mut content = self.content_for(&name, true);
        let (table, rows) = content.find(table)?;
        let before = rows.get(key).cloned();
        let table = Arc::clone(table);
        let changed = change(&table, rows)?;
        drop(content);
        self.before.push((name, before));
        Ok(changed)
    }

    fn end(&mut self) {
        self.before.clear();
        let number = self.number;
        let locked = &mut self.shared.lock().locked;
        locked.retain(|_, holder| *holder != number);
        self.shared.freed.notify_all();
    }

    fn table(&self, id: TableId) -> Result<Arc<Table>> {
        Ok(Arc::clone(&self.shared.lock().find(id)?.0))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().expect("nobody panics")
    }
}

impl Content {
    fn find(&mut self, id: TableId) -> Result<&mut (Arc<Table>, Rows)> {
        let table = self.tables.get_mut(&id);
        table.ok_or(StorageError::NoSuchTable(id.0))
    }

    /// The next key after `last` that has a row or a lock.
    fn next(&mut self, table: TableId, last: &Bound<Vec<u64>>) -> Result<Option<Vec<u64>>> {
        let range = (last.clone(), Bound::Unbounded);
        let row = self.find(table)?.1.range(range.clone()).next();
        let row = row.map(|(key, _)| key.clone());
        let mut locked = self.locked.keys().filter(|(of, _)| *of == table);
        let locked = locked.find(|(_, key)| match &range.0 {
            Bound::Included(low) => key >= low,
            Bound::Excluded(low) => key > low,
            Bound::Unbounded => true,
        });
        let locked = locked.map(|(_, key)| key.clone());
        Ok(row.into_iter().chain(locked).min())
    }
}

impl Reads for ModelSession {
    fn tables(&self) -> Vec<Arc<Table>> {
        let content = self.shared.lock();
        let tables = content.tables.values();
        tables.map(|(table, _)| Arc::clone(table)).collect()
    }

    fn begin(&mut self) -> Result<()> {
        Ok(())
    }

    fn get(&mut self, table: TableId, key: &[u64], row: &mut Row) -> Result<bool> {
        let locks = self.isolation == Isolation::Serializable;
        let mut content = self.content_for(&(table, key.to_vec()), locks);
        let found = content.find(table)?.1.get(key);
        if let Some(found) = found {
            row.clone_from(found);
        }
        Ok(found.is_some())
    }

    fn get_many(
        &mut self,
        table: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        let mut row = Row::new(Arc::clone(&self.table(table)?.layout));
        for (at, key) in keys.iter().enumerate() {
            let found = self.get(table, key, &mut row)?;
            visit(at, found.then_some(&row));
        }
        Ok(())
    }

    fn scan(
        &mut self,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        assert!(
            range.index.is_none() && range.direction == Direction::Forward,
            "tests scan the primary key forwards"
        );
        let mut row = Row::new(Arc::clone(&self.table(range.table)?.layout));
        let mut last = Bound::Included(range.low.to_vec());
        loop {
            let next = self.shared.lock().next(range.table, &last)?;
            let Some(key) = next.filter(|key| key.as_slice() <= &*range.high) else {
                return Ok(());
            };
            if self.get(range.table, &key, &mut row)? && visit(&row).is_break() {
                return Ok(());
            }
            last = Bound::Excluded(key);
        }
    }

    fn abort(&mut self) -> Result<()> {
        for ((table, key), row) in std::mem::take(&mut self.before).into_iter().rev() {
            let mut content = self.shared.lock();
            let rows = &mut content.find(table)?.1;
            match row {
                Some(row) => rows.insert(key, row),
                None => rows.remove(&key),
            };
        }
        self.end();
        Ok(())
    }

    fn durable(&self) -> CommitTicket {
        CommitTicket(self.shared.lock().committed)
    }

    fn footprint(&mut self) -> Result<Footprint> {
        Ok(Footprint::default())
    }

    fn status(&self) -> EngineStatus {
        EngineStatus::default()
    }

    fn verify(&mut self) -> Result<VerifyReport> {
        Ok(VerifyReport::default())
    }
}

impl Engine for ModelSession {
    fn insert(&mut self, table: TableId, row: &Row) -> Result<()> {
        let key = key_of(&self.table(table)?.primary, row)?;
        self.change(table, &key, |table, rows| {
            if rows.contains_key(&key) {
                return Err(duplicate(table, "primary"));
            }
            rows.insert(key.clone(), row.clone());
            Ok(())
        })
    }

    fn update(&mut self, table: TableId, key: &[u64], changes: &Changes) -> Result<bool> {
        self.change(table, key, |_, rows| match rows.get_mut(key) {
            Some(row) => changes.apply(row).map(|()| true).map_err(Into::into),
            None => Ok(false),
        })
    }

    fn delete(&mut self, table: TableId, key: &[u64]) -> Result<bool> {
        self.change(table, key, |_, rows| Ok(rows.remove(key).is_some()))
    }

    fn commit(&mut self, _: Durability) -> Result<CommitTicket> {
        let ticket = {
            let mut content = self.shared.lock();
            content.committed += 1;
            content.committed
        };
        self.end();
        Ok(CommitTicket(ticket))
    }

    fn prepare(&mut self, _: GlobalTxnId) -> Result<()> {
        Ok(())
    }

    fn force(&mut self) -> Result<()> {
        Ok(())
    }

    fn idle(&mut self) -> Result<&mut dyn Idle> {
        Ok(self)
    }

    fn transaction_bytes(&self) -> usize {
        0
    }

    fn sessions(&mut self) -> Option<&mut dyn Sessions> {
        Some(self)
    }
}

impl Sessions for ModelSession {
    fn session(&self) -> Result<Box<dyn Engine>> {
        Ok(Box::new(Self::new(&self.shared)))
    }

    fn set_isolation(&mut self, isolation: Isolation, _: Duration) {
        self.isolation = isolation;
    }

    fn set_precedence(&mut self, _: Precedence) {}

    fn lock_owner(&self) -> LockOwner {
        self.owner.owner()
    }

    fn act_for(&mut self, _: Option<LockOwner>) {}

    fn log_prepared(&mut self, _: GlobalTxnId) -> Result<()> {
        Ok(())
    }

    fn sync_prepared(&mut self) -> Result<()> {
        Ok(())
    }

    fn assist(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Idle for ModelSession {
    fn create_table(&mut self, def: &TableDef) -> Result<()> {
        let table = Table::new(def.clone(), LayoutKind::Together)
            .map_err(|error| StorageError::Unsupported(error.to_string()))?;
        let rows = Rows::default();
        let tables = &mut self.shared.lock().tables;
        tables.insert(def.id, (Arc::new(table), rows));
        Ok(())
    }

    fn drop_table(&mut self, table: TableId) -> Result<()> {
        let dropped = self.shared.lock().tables.remove(&table);
        dropped.map(drop).ok_or(StorageError::NoSuchTable(table.0))
    }

    fn create_index(&mut self, _: TableId, _: &IndexDef) -> Result<()> {
        Err(StorageError::Unsupported("indexes".to_owned()))
    }

    fn drop_index(&mut self, _: TableId, _: IndexId) -> Result<()> {
        Err(StorageError::Unsupported("indexes".to_owned()))
    }

    fn checkpoint(&mut self) -> Result<()> {
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }

    fn marks(&mut self) -> Option<&mut dyn Marks> {
        None
    }
}

/// A database of partitions with several session slots.
pub(crate) fn database_of_sessions(partitions: u32) -> crate::Database {
    let engine = |_| {
        let shared = Shared {
            content: Mutex::new(Content::default()),
            freed: Condvar::new(),
            locks: LockManager::new(LockOptions::default()),
        };
        Box::new(ModelSession::new(&Arc::new(shared))) as Box<dyn Engine>
    };
    let options = crate::Options::new()
        .method(storage::engine::Method::FullPageWrites)
        .partitions(partitions)
        .sessions(SESSIONS)
        .wait_limit(Duration::from_millis(200));
    assemble((0..partitions).map(engine).collect(), &options)
}
