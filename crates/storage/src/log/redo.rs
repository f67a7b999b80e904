//! Content of a record of the write-ahead log: one transaction, built while it runs and written
//! when it commits.
//!
//! Only committed changes reach a checkpoint, so replay needs no undo. Before images are there if
//! they were asked for, because the paper's log has them; else each is a NULL, and a deletion has
//! no row.
//!
//! | record | bytes | meaning |
//! |---|---|---|
//! | kind | 1 | committed, prepared, resolved |
//! | outcome | 1 | of a resolved record: 1 committed, 0 aborted |
//! | ticket | 8 | position in the partition's order of commits |
//! | global | 8 | number of the transaction over several partitions, or 0 |
//! | operations | rest | one after the other |
//!
//! | operation | meaning |
//! |---|---|
//! | kind 1, table 4, key words 1, key | which row; definitions and inserts have no key |
//! | length 4, image | insert, and delete with before images: the row |
//! | | update: { column 4, value before, value after }* |
//! | | definition: the table's |
//!
//! Values have the form of [`encode_value`], which every later version can read.

use super::wal::Purpose;
use crate::record::{
    Changes, DecodeError, IndexId, KeyBuf, MAX_KEY_WORDS, Reader, RecordError, Row, TableDef,
    TableId, ValueRef, decode_value, encode_value,
};
use crate::vocabulary::{CommitTicket, GlobalTxnId, LogImages};

const HEADER_BYTES: usize = 18;

/// Why the image of a row cannot be read, although its checksum is right: it was written by another
/// program or for another table.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The bytes are no values.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The values do not fit into the table.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Effect of a record on its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The transaction is committed.
    Committed,
    /// The database's commit table decides.
    Prepared(GlobalTxnId),
    /// The decision of the commit table. There are no operations.
    Resolved(GlobalTxnId, Outcome),
}

/// End of a prepared transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All its operations took place.
    Committed,
    /// None of them did.
    Aborted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Insert = 1,
    Update = 2,
    Delete = 3,
    CreateTable = 4,
    DropTable = 5,
    CreateIndex = 6,
    DropIndex = 7,
}

/// One operation of a record.
#[derive(Debug, PartialEq, Eq)]
pub enum Operation<'r> {
    /// A row came; read it with [`read_row`].
    Insert(TableId, &'r [u8]),
    /// Columns changed; read them with [`read_changes`].
    Update(TableId, KeyBytes<'r>, &'r [u8]),
    /// A row went.
    Delete(TableId, KeyBytes<'r>),
    /// A table came.
    CreateTable(TableDef),
    /// A table went.
    DropTable(TableId),
    /// An index of the table came; the definition has it.
    CreateIndex(TableDef, IndexId),
    /// An index of the table went.
    DropIndex(TableId, IndexId),
}

/// The words of a key, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyBytes<'r>(&'r [u8]);

impl KeyBytes<'_> {
    /// Copies the key into `key`.
    pub fn copy_to(self, key: &mut KeyBuf) {
        debug_assert!(self.0.len().is_multiple_of(8), "a key consists of words");
        let words = key.resized(self.0.len() / 8);
        for (word, bytes) in words.iter_mut().zip(self.0.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
    }
}

/// A savepoint of a record, for the rollback of one statement.
#[derive(Clone, Copy, Debug)]
pub struct RedoSavepoint(usize);

/// The record of the open transaction.
#[derive(Debug)]
pub struct RedoRecord {
    images: LogImages,
    bytes: Vec<u8>,
    purpose: Purpose,
}

impl RedoRecord {
    /// A record without operations.
    pub fn new(images: LogImages) -> Self {
        Self {
            images,
            bytes: vec![0; HEADER_BYTES],
            purpose: Purpose::Release,
        }
    }

    /// Whether before images are part of it.
    #[inline]
    pub fn has_before_images(&self) -> bool {
        self.images == LogImages::BeforeAndAfter
    }

    /// Whether no operation was added.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == HEADER_BYTES
    }

    /// Whether it has done nothing but give room back, statements that were taken back included.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// Bytes of all operations.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets all operations. A buffer that one long transaction made large is freed.
    pub fn clear(&mut self) {
        const BYTES_KEPT: usize = 1 << 20;
        self.bytes.truncate(HEADER_BYTES);
        self.bytes.shrink_to(BYTES_KEPT);
        self.purpose = Purpose::Release;
    }

    /// The current savepoint of the record.
    pub fn savepoint(&self) -> RedoSavepoint {
        RedoSavepoint(self.bytes.len())
    }

    /// Forgets what was added since `savepoint`.
    pub fn rollback_to(&mut self, savepoint: RedoSavepoint) {
        assert!(
            (HEADER_BYTES..=self.bytes.len()).contains(&savepoint.0),
            "a savepoint is of another record"
        );
        self.bytes.truncate(savepoint.0);
    }

    /// Adds an insert.
    pub fn insert(&mut self, table: TableId, row: &Row) {
        let image = self.begin(Kind::Insert, table, &[]);
        write_row(row, &mut self.bytes);
        self.end(image);
    }

    /// Adds an update of a row that is `before` so far, which may be left out of a record without
    /// before images.
    pub fn update(&mut self, table: TableId, key: &[u64], before: Option<&Row>, changes: &Changes) {
        let before = before.filter(|_| self.has_before_images());
        let image = self.begin(Kind::Update, table, key);
        for column in changes.columns() {
            if let Some(after) = changes.value(column) {
                self.bytes.extend_from_slice(&(column as u32).to_le_bytes());
                let old = before.map_or(ValueRef::Null, |before| before.get(column));
                encode_value(old, &mut self.bytes);
                encode_value(after, &mut self.bytes);
            }
        }
        self.end(image);
    }

    /// Adds a delete, of a row as [`RedoRecord::update`] says.
    pub fn delete(&mut self, table: TableId, key: &[u64], before: Option<&Row>) {
        let before = before.filter(|_| self.has_before_images());
        let image = self.begin(Kind::Delete, table, key);
        if let Some(before) = before {
            write_row(before, &mut self.bytes);
        }
        self.end(image);
    }

    /// Adds the creation of a table.
    pub fn create_table(&mut self, def: &TableDef) {
        let image = self.begin(Kind::CreateTable, def.id, &[]);
        self.bytes.extend_from_slice(&def.encode());
        self.end(image);
    }

    /// Adds the end of a table.
    pub fn drop_table(&mut self, table: TableId) {
        let image = self.begin(Kind::DropTable, table, &[]);
        self.end(image);
    }

    /// Adds the creation of an index that is in the table's definition.
    pub fn create_index(&mut self, def: &TableDef, index: IndexId) {
        let image = self.begin(Kind::CreateIndex, def.id, &[u64::from(index.0)]);
        self.bytes.extend_from_slice(&def.encode());
        self.end(image);
    }

    /// Adds the end of an index.
    pub fn drop_index(&mut self, table: TableId, index: IndexId) {
        let image = self.begin(Kind::DropIndex, table, &[u64::from(index.0)]);
        self.end(image);
    }

    /// The finished record.
    pub fn seal(&mut self, fate: Fate, ticket: CommitTicket) -> &[u8] {
        debug_assert!(
            self.is_empty() || !matches!(fate, Fate::Resolved(..)),
            "the decision of the commit table has no operations"
        );
        self.bytes[..HEADER_BYTES].copy_from_slice(&header(fate, ticket));
        &self.bytes
    }

    fn begin(&mut self, kind: Kind, table: TableId, key: &[u64]) -> usize {
        if !matches!(kind, Kind::Delete | Kind::DropTable | Kind::DropIndex) {
            self.purpose = Purpose::Change;
        }
        debug_assert!(key.len() <= MAX_KEY_WORDS, "a key is longer than any");
        debug_assert!(
            !key.is_empty() || !matches!(kind, Kind::Update | Kind::Delete),
            "a change names its row"
        );
        self.bytes.push(kind as u8);
        self.bytes.extend_from_slice(&table.0.to_le_bytes());
        self.bytes.push(key.len() as u8);
        for word in key {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.len()
    }

    fn end(&mut self, image: usize) {
        debug_assert!(
            (HEADER_BYTES..=self.bytes.len()).contains(&image),
            "an operation ends in the record where it began"
        );
        let length = self.bytes.len() - image;
        let length = u32::try_from(length).expect("an image is shorter than a record can be");
        self.bytes[image - 4..image].copy_from_slice(&length.to_le_bytes());
    }
}

/// A record without operations.
pub fn header(fate: Fate, ticket: CommitTicket) -> [u8; HEADER_BYTES] {
    let (kind, outcome, global) = match fate {
        Fate::Committed => (1, 0, 0),
        Fate::Prepared(global) => (2, 0, global.0),
        Fate::Resolved(global, outcome) => (3, u8::from(outcome == Outcome::Committed), global.0),
    };
    let mut header = [0; HEADER_BYTES];
    header[0] = kind;
    header[1] = outcome;
    header[2..10].copy_from_slice(&ticket.0.to_le_bytes());
    header[10..].copy_from_slice(&global.to_le_bytes());
    header
}

/// A record as it was read back.
#[derive(Debug)]
pub struct Record<'r> {
    /// Effect on its transaction.
    pub fate: Fate,
    /// The transaction's place in the order of commits.
    pub ticket: CommitTicket,
    operations: Reader<'r>,
}

impl<'r> Record<'r> {
    /// Takes the head of a record apart.
    pub fn read(bytes: &'r [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let kind = reader.byte("the kind of a log record")?;
        let outcome = if reader.flag("the outcome in a log record")? {
            Outcome::Committed
        } else {
            Outcome::Aborted
        };
        let ticket = CommitTicket(word(&mut reader, "the ticket of a log record")?);
        let global = GlobalTxnId(word(&mut reader, "the number of a prepared transaction")?);
        let fate = match kind {
            1 => Fate::Committed,
            2 => Fate::Prepared(global),
            3 => Fate::Resolved(global, outcome),
            found => return Err(unknown("the kind of a log record", found)),
        };
        Ok(Self {
            fate,
            ticket,
            operations: reader,
        })
    }

    /// The next operation; none at the end.
    pub fn next_operation(&mut self) -> Result<Option<Operation<'r>>, DecodeError> {
        let reader = &mut self.operations;
        if reader.remaining() == 0 {
            return Ok(None);
        }
        let kind = reader.byte("the kind of an operation")?;
        let table = TableId(reader.number("the table of an operation")?);
        let key_words = reader.byte("the key of an operation")?;
        if usize::from(key_words) > MAX_KEY_WORDS {
            return Err(unknown("the words of an operation's key", key_words));
        }
        let key = reader.take("the key of an operation", usize::from(key_words) * 8)?;
        let image = reader.content("the image of an operation")?;
        let index = || {
            Reader::new(key)
                .number("the index of an operation")
                .map(IndexId)
        };
        Ok(Some(match kind {
            1 => Operation::Insert(table, image),
            2 => Operation::Update(table, KeyBytes(key), image),
            3 => Operation::Delete(table, KeyBytes(key)),
            4 => Operation::CreateTable(TableDef::decode(image)?),
            5 => Operation::DropTable(table),
            6 => Operation::CreateIndex(TableDef::decode(image)?, index()?),
            7 => Operation::DropIndex(table, index()?),
            found => return Err(unknown("the kind of an operation", found)),
        }))
    }
}

/// Appends all values of a row.
pub fn write_row(row: &Row, bytes: &mut Vec<u8>) {
    debug_assert!(
        row.check_complete().is_ok(),
        "a row is written as it can be read, with all of its values"
    );
    for value in row.values() {
        encode_value(value, bytes);
    }
}

/// Reads what [`write_row`] wrote into a row of the same table.
pub fn read_row(image: &[u8], row: &mut Row) -> Result<(), ImageError> {
    let mut reader = Reader::new(image);
    row.clear();
    let mut column = 0;
    while reader.remaining() > 0 {
        row.set(column, decode_value(&mut reader)?)?;
        column += 1;
    }
    row.check_complete()?;
    Ok(())
}

/// Reads the values after an update.
pub fn read_changes(image: &[u8], changes: &mut Changes) -> Result<(), ImageError> {
    let mut reader = Reader::new(image);
    changes.clear();
    while reader.remaining() > 0 {
        let column = reader.number("a column of an update")?;
        decode_value(&mut reader)?;
        let after = decode_value(&mut reader)?;
        changes.set(column as usize, after)?;
    }
    Ok(())
}

fn word(reader: &mut Reader<'_>, what: &'static str) -> Result<u64, DecodeError> {
    reader.array(what).map(u64::from_le_bytes)
}

#[cold]
fn unknown(what: &'static str, found: u8) -> DecodeError {
    DecodeError::Unknown {
        what,
        found: u64::from(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_longer_than_any_is_refused() {
        let mut record = RedoRecord::new(LogImages::BeforeAndAfter);
        record.delete(TableId(0), &[7; MAX_KEY_WORDS], Some(&row()));
        let mut bytes = record.seal(Fate::Committed, CommitTicket(1)).to_vec();
        let read = |bytes: &[u8]| Record::read(bytes).unwrap().next_operation().map(|_| ());
        assert_eq!(read(&bytes), Ok(()));
        let key_words = HEADER_BYTES + 5;
        assert_eq!(usize::from(bytes[key_words]), MAX_KEY_WORDS);
        bytes[key_words] += 1;
        bytes.resize(bytes.len() + (1 << 16), 0);
        let error = read(&bytes).unwrap_err();
        assert!(
            matches!(error, DecodeError::Unknown { found: 33, .. }),
            "{error}"
        );
    }

    #[test]
    fn changes_are_read_back_with_before_images_and_without() {
        let old = row();
        let layout = old.layout();
        let mut changes = Changes::new(std::sync::Arc::clone(layout));
        changes.set(1, "what it becomes").unwrap();
        let mut sizes = Vec::new();
        for images in [LogImages::After, LogImages::BeforeAndAfter] {
            let mut record = RedoRecord::new(images);
            record.update(TableId(0), &[1], Some(&old), &changes);
            record.delete(TableId(0), &[1], Some(&old));
            let bytes = record.seal(Fate::Committed, CommitTicket(1));
            sizes.push(bytes.len());
            let mut record = Record::read(bytes).unwrap();
            let Some(Operation::Update(_, _, image)) = record.next_operation().unwrap() else {
                panic!("an update of {images:?}");
            };
            let mut found = Changes::new(std::sync::Arc::clone(layout));
            read_changes(image, &mut found).unwrap();
            assert_eq!(found.columns().collect::<Vec<_>>(), [1]);
            assert_eq!(found.value(1), changes.value(1));
            let deleted = record.next_operation().unwrap();
            assert!(matches!(deleted, Some(Operation::Delete(..))), "{images:?}");
            assert!(record.next_operation().unwrap().is_none());
        }
        assert!(sizes[0] < sizes[1], "{sizes:?}");
    }

    fn row() -> Row {
        use crate::record::{Column, DataType, LayoutKind, TupleLayout};
        let columns = vec![
            Column::new("id", DataType::Int64),
            Column::new("name", DataType::Varchar { max: 40 }),
        ];
        let def = TableDef::new(TableId(0), "t", columns, vec![0]);
        let layout = TupleLayout::new(&def, LayoutKind::Together);
        let mut row = Row::new(std::sync::Arc::new(layout));
        row.set(0, 1_i64).expect("an integer fits");
        row.set(1, "what it was").expect("a short text fits");
        row
    }
}
