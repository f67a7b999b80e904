//! The same list of transactions on the standard library's ordered map of boxed rows: for scale.
//!
//! No transactions, no indexes beside the key, no durability, no checks: only the cost of finding a
//! row and of copying its columns remains, so the distance to it is the cost of the rest of a
//! database.

use crate::run::{Limit, Measured};
use crate::store::{Content, measure_stores};
use anyhow::Result;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use workload::ycsb::{COLUMN_BYTES, Change, Contents, ROW_BYTES, Store, Ycsb, YcsbError};

type Map = BTreeMap<u64, Box<[u8; ROW_BYTES]>>;

/// The map of one partition, and the row that its reader copies to.
struct MapStore<'m> {
    map: MutexGuard<'m, Map>,
    row: [u8; ROW_BYTES],
}

impl<'m> MapStore<'m> {
    /// Each map has one thread at a time, so the lock is free.
    fn new(maps: &'m [Mutex<Map>], partition: u32) -> Self {
        let map = &maps[partition as usize];
        Self {
            map: map.lock().unwrap_or_else(PoisonError::into_inner),
            row: [0; ROW_BYTES],
        }
    }
}

impl Store for MapStore<'_> {
    type Error = YcsbError;

    fn load(
        &mut self,
        keys: &mut dyn Iterator<Item = u32>,
        contents: &Contents,
    ) -> Result<(), YcsbError> {
        self.map.extend(keys.map(|key| {
            let mut row = Box::new([0; ROW_BYTES]);
            contents.fill(key, &mut row[..]);
            (u64::from(key), row)
        }));
        Ok(())
    }

    #[inline]
    fn read(&mut self, key: u32) -> Result<bool, YcsbError> {
        let Some(row) = self.map.get(&u64::from(key)) else {
            return Ok(false);
        };
        self.row.copy_from_slice(&row[..]);
        // The copy is not used, and must not be optimised away.
        std::hint::black_box(&self.row);
        Ok(true)
    }

    fn column(&self, column: usize) -> &[u8] {
        &self.row[column * COLUMN_BYTES..(column + 1) * COLUMN_BYTES]
    }

    #[inline]
    fn update(&mut self, key: u32, change: Change<'_>) -> Result<bool, YcsbError> {
        let row = self.map.get_mut(&u64::from(key));
        Ok(row.map(|row| change.apply(&mut row[..])).is_some())
    }
}

/// Loads the maps, runs the list on them, and checks the content if asked to.
pub fn measure(workload: &Ycsb, limit: Limit, content: Content) -> Result<Measured> {
    let partitions = workload.options().partitions;
    let maps: Vec<Mutex<Map>> = (0..partitions).map(|_| Mutex::default()).collect();
    for partition in 0..partitions {
        MapStore::new(&maps, partition).load(&mut workload.keys(partition), workload.contents())?;
    }
    let measured = measure_stores(workload, limit, |partition| {
        Ok(MapStore::new(&maps, partition))
    })?;
    if content == Content::Checked {
        for (partition, count) in (0_u32..).zip(&measured.positions) {
            let mut expected = workload.expected(partition);
            workload.advance(&mut expected, *count);
            workload.check_store(&mut MapStore::new(&maps, partition), &expected)?;
        }
    }
    Ok(measured)
}

/// Bytes of the rows.
pub fn table_bytes(workload: &Ycsb) -> u64 {
    u64::from(workload.options().rows) * ROW_BYTES as u64
}
