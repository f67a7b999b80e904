//! Goal: a new engine is little work. The one here is a map of rows for each table, and nothing of
//! it is durable; CONTRIBUTING.md, "Add a method", starts from it.
//!
//! Method: it is a policy of the driver of serial engines, and runs every script of
//! `crates/storage/testscripts/behaviour`, as every method does (`conformance.rs`).

use serial_engines::engine::{Fault, Policy, Serial};
use serial_engines::table::Space;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use storage::engine::{
    CommitTicket, Direction, Durability, EngineOptions, EngineStatus, Footprint, GlobalTxnId,
    Method, ScanRange, VerifyReport,
};
use storage::record::{
    Changes, IndexDef, IndexId, KeyBuf, KeyEncoder, LayoutKind, Row, TableDef, TableId,
};
use storage::table::Table;
use storage::{Result, StorageError};
use tests::place::{Device, Place};
use tests::script::scripts;
use tests::session::Session;

/// Rows by their primary keys.
type Rows = BTreeMap<Vec<u64>, Row>;

#[derive(Clone, Default)]
struct Maps(BTreeMap<TableId, (Arc<Table>, Rows)>);

impl Maps {
    fn find(&mut self, id: TableId) -> Result<&mut (Arc<Table>, Rows)> {
        let found = self.0.get_mut(&id);
        found.ok_or(StorageError::NoSuchTable(id.0))
    }

    /// Gives a table another definition; its rows must have keys of their own in each index.
    fn define(&mut self, def: TableDef, rows: Rows) -> Result<()> {
        let table = Arc::new(Table::new(def, LayoutKind::Together)?);
        for (key, row) in &rows {
            check_unique(&table, &rows, row, key)?;
        }
        self.0.insert(table.def.id, (table, rows));
        Ok(())
    }
}

fn key_of(encoder: &KeyEncoder, row: &Row) -> Result<Vec<u64>> {
    let mut key = KeyBuf::new();
    encoder.encode_row(row, &mut key)?;
    Ok(key.to_vec())
}

/// Fails if a row other than the one at `own` has a unique key of `row`.
fn check_unique(table: &Table, rows: &Rows, row: &Row, own: &[u64]) -> Result<()> {
    for (number, encoder) in table.secondary.iter().enumerate() {
        let key = key_of(encoder, row)?;
        for (_, other) in rows.iter().filter(|(primary, _)| **primary != *own) {
            if key_of(encoder, other)? == key {
                return Err(table.duplicate(Some(number), row));
            }
        }
    }
    Ok(())
}

impl Space for Maps {
    fn tables(&self) -> Vec<Arc<Table>> {
        let tables = self.0.values();
        tables.map(|(table, _)| Arc::clone(table)).collect()
    }

    fn create_table(&mut self, def: &TableDef) -> Result<()> {
        if self.find(def.id).is_ok() {
            let text = format!("table number {} is taken", def.id.0);
            return Err(StorageError::Unsupported(text));
        }
        self.define(def.clone(), Rows::new())
    }

    fn drop_table(&mut self, id: TableId) -> Result<()> {
        let dropped = self.0.remove(&id);
        dropped.map(drop).ok_or(StorageError::NoSuchTable(id.0))
    }

    fn create_index(&mut self, id: TableId, index: &IndexDef) -> Result<()> {
        let (table, rows) = self.find(id)?.clone();
        let mut def = table.def.clone();
        def.indexes.push(index.clone());
        self.define(def, rows)
    }

    fn drop_index(&mut self, id: TableId, index: IndexId) -> Result<()> {
        let (table, rows) = self.find(id)?.clone();
        let mut def = table.def.clone();
        def.indexes.remove(table.index_number(index)?);
        self.define(def, rows)
    }

    fn get(&mut self, id: TableId, key: &[u64], row: &mut Row) -> Result<bool> {
        let found = self.find(id)?.1.get(key);
        if let Some(found) = found {
            row.clone_from(found);
        }
        Ok(found.is_some())
    }

    fn get_many(
        &mut self,
        id: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        let (_, rows) = self.find(id)?;
        keys.iter()
            .enumerate()
            .for_each(|(at, key)| visit(at, rows.get(&**key)));
        Ok(())
    }

    fn scan(
        &mut self,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        let (table, rows) = self.find(range.table)?;
        let index = range.index.map(|id| table.index_number(id)).transpose()?;
        let mut found = BTreeMap::new();
        for row in rows.values() {
            let key = key_of(table.encoder(index), row)?;
            if *range.low <= *key && *key <= *range.high {
                found.insert(key, row);
            }
        }
        let _ = match range.direction {
            Direction::Forward => found.into_values().try_for_each(visit),
            Direction::Backward => found.into_values().rev().try_for_each(visit),
        };
        Ok(())
    }

    fn insert(&mut self, id: TableId, row: &Row) -> Result<()> {
        let (table, rows) = self.find(id)?;
        let key = key_of(&table.primary, row)?;
        if rows.contains_key(&key) {
            return Err(table.duplicate(None, row));
        }
        check_unique(table, rows, row, &key)?;
        rows.insert(key, row.clone());
        Ok(())
    }

    fn update(&mut self, id: TableId, key: &[u64], changes: &Changes) -> Result<bool> {
        let (table, rows) = self.find(id)?;
        let Some(mut row) = rows.get(key).cloned() else {
            return Ok(false);
        };
        changes.apply(&mut row)?;
        check_unique(table, rows, &row, key)?;
        rows.insert(key.to_vec(), row);
        Ok(true)
    }

    fn delete(&mut self, id: TableId, key: &[u64]) -> Result<bool> {
        Ok(self.find(id)?.1.remove(key).is_some())
    }
}

#[derive(Default)]
struct Toy {
    maps: Maps,
    /// As they were when the open transaction began, and its last change.
    begin: Maps,
    mark: Maps,
    tickets: u64,
}

impl Policy for Toy {
    type Space = Maps;
    type Savepoint = ();

    fn space(&self) -> &Maps {
        &self.maps
    }

    fn space_mut(&mut self) -> &mut Maps {
        &mut self.maps
    }

    fn begin(&mut self) {
        self.begin = self.maps.clone();
    }

    fn savepoint(&mut self) {
        self.mark = self.maps.clone();
    }

    fn rollback_to(&mut self, (): ()) -> Result<()> {
        self.maps = self.mark.clone();
        Ok(())
    }

    fn commit(&mut self, _: Option<GlobalTxnId>, _: Durability) -> Result<CommitTicket, Fault> {
        self.tickets += 1;
        Ok(self.durable())
    }

    fn prepare(&mut self, _: GlobalTxnId) -> Result<(), Fault> {
        Ok(())
    }

    fn abort(&mut self, _: Option<GlobalTxnId>) -> Result<(), Fault> {
        self.maps = self.begin.clone();
        Ok(())
    }

    fn reload(&mut self) -> Result<()> {
        Ok(())
    }

    fn transaction_bytes(&self) -> usize {
        0
    }

    fn durable(&self) -> CommitTicket {
        CommitTicket(self.tickets)
    }

    fn force(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    fn footprint(&mut self) -> Result<Footprint> {
        Ok(Footprint::default())
    }

    fn status(&self) -> EngineStatus {
        EngineStatus::default()
    }

    fn verify(&mut self) -> Result<VerifyReport, Fault> {
        let mut report = VerifyReport::default();
        for (table, rows) in self.maps.0.values() {
            let rows = rows.len() as u64;
            report.rows += rows;
            report.index_entries += rows * (1 + table.secondary.len() as u64);
        }
        Ok(report)
    }
}

#[test]
fn a_toy_keeps_every_script() {
    for script in scripts("behaviour").unwrap() {
        let place = Place::new(Device::Simulated);
        let toy = Box::new(Serial::new(Toy::default()));
        let mut session = Session::over(place, Method::Volatile, EngineOptions::default(), toy);
        let mut outputs = Vec::new();
        for block in &script.blocks {
            let mut output = session.run_block(block.statements());
            if output.is_empty() {
                output.push("ok".to_owned());
            }
            outputs.push(output);
        }
        assert_eq!(script.difference(&outputs), None);
    }
}
