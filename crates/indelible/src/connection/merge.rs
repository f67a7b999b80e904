//! The merge: a batch of an engine's rows, made what a transaction sees.
//!
//! Two layers lie over the rows of an engine: before images, and above them the transaction's own
//! writes. A layer has versions of some rows. Each row of the batch that it has a version of is
//! dropped, whatever its key in the scanned index; each of its rows with a key in the batch's
//! interval is added. So it does not matter by which index, or in which direction, the batch was
//! read, or whether a change has moved a row into the interval, out of it, or within it.
//!
//! For a secondary index all before images of the table are looked at, since they are in the order
//! of the primary key. Own writes are in the order of the index too, once there are many.

use super::change::Version;
use super::images::Images;
use super::writes::WriteSet;
use crate::error::Result;
use crate::table::{Index, Table, TableEntry};
use storage::record::{IndexId, KeyBuf, KeyEncoder, Placement, Row, TableId};

/// Versions of rows that replace those below.
pub(super) trait Layer {
    fn is_empty(&self, table: TableId) -> bool;

    /// The version of a row, if the layer has one.
    fn version(&self, table: TableId, key: &KeyBuf) -> Option<&Version>;

    /// Visits versions of rows of a table: those with keys in a range, of the primary index or a
    /// secondary one, and maybe others.
    fn visit(
        &self,
        place: (TableId, Option<IndexId>),
        keys: (&KeyBuf, &KeyBuf),
        visit: &mut dyn FnMut(&KeyBuf, &Version),
    );
}

/// Rows as of a snapshot.
pub(super) struct ImageLayer<'i> {
    pub(super) images: &'i Images,
    pub(super) snapshot: u64,
}

impl Layer for ImageLayer<'_> {
    fn is_empty(&self, table: TableId) -> bool {
        self.images.is_empty(table)
    }

    fn version(&self, table: TableId, key: &KeyBuf) -> Option<&Version> {
        self.images.version(table, key, self.snapshot)
    }

    fn visit(
        &self,
        (table, index): (TableId, Option<IndexId>),
        keys: (&KeyBuf, &KeyBuf),
        visit: &mut dyn FnMut(&KeyBuf, &Version),
    ) {
        let keys = index.is_none().then_some(keys);
        self.images.visit(table, keys, self.snapshot, visit);
    }
}

/// Rows as the transaction has changed them, up to one of its changes.
struct WriteLayer<'w> {
    writes: &'w WriteSet,
    number: u64,
}

impl Layer for WriteLayer<'_> {
    fn is_empty(&self, table: TableId) -> bool {
        self.writes.is_empty_in(table)
    }

    fn version(&self, table: TableId, key: &KeyBuf) -> Option<&Version> {
        self.writes.version(table, key, self.number)
    }

    fn visit(
        &self,
        (table, index): (TableId, Option<IndexId>),
        keys: (&KeyBuf, &KeyBuf),
        visit: &mut dyn FnMut(&KeyBuf, &Version),
    ) {
        match index {
            Some(index) => self
                .writes
                .visit_by((table, index), keys, self.number, visit),
            None => self.writes.visit(table, Some(keys), self.number, visit),
        }
    }
}

/// Rows of one partition with keys in an interval, in ascending order once they are sorted.
pub(super) struct Batch<'s> {
    pub(super) table: &'s Table,
    pub(super) partition: u32,
    /// The encoder of the scanned index, and its number if it is a secondary one.
    pub(super) encoder: &'s KeyEncoder,
    pub(super) index: Option<IndexId>,
    pub(super) low: KeyBuf,
    pub(super) high: KeyBuf,
    pub(super) rows: Vec<(KeyBuf, Row)>,
}

impl Batch<'_> {
    /// Puts the transaction's own writes up to a number over the rows.
    pub(super) fn cover_with(
        &mut self,
        writes: &mut WriteSet,
        index: Option<&Index>,
        number: u64,
    ) -> Result<()> {
        if let Some(index) = index {
            writes.order_by(index)?;
        }
        self.cover(&WriteLayer { writes, number })
    }

    /// Puts a layer over the rows.
    pub(super) fn cover(&mut self, layer: &impl Layer) -> Result<()> {
        let id = self.table.id();
        if layer.is_empty(id) {
            return Ok(());
        }
        let entry = &*self.table.entry;
        let mut failure = Ok(());
        let mut primary = KeyBuf::new();
        self.rows.retain(|(key, row)| {
            if self.index.is_none() {
                return layer.version(id, key).is_none();
            }
            if let Err(error) = entry.shape.primary.encode_row(row, &mut primary) {
                failure = Err(error);
            }
            layer.version(id, &primary).is_none()
        });
        failure?;
        let (mut added, mut failure) = (Vec::new(), Ok(()));
        let keys = (&self.low, &self.high);
        layer.visit((id, self.index), keys, &mut |_, version| {
            let Some(row) = version else { return };
            match self.key_here(entry, row) {
                Ok(Some(key)) => added.push((key, Row::clone(row))),
                Ok(None) => {}
                Err(error) => failure = Err(error),
            }
        });
        failure?;
        self.rows.extend(added);
        Ok(())
    }

    /// The row's key in the scanned index, if it belongs to the batch.
    fn key_here(&self, entry: &TableEntry, row: &Row) -> Result<Option<KeyBuf>> {
        let first = row.get(entry.shape.def.primary_key[0]);
        let is_here = match entry.place(first)? {
            Placement::One(partition) => partition == self.partition,
            Placement::All => true,
        };
        let mut key = KeyBuf::new();
        self.encoder.encode_row(row, &mut key)?;
        Ok((is_here && self.low <= key && key <= self.high).then_some(key))
    }
}
