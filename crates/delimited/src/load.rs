//! The reading half of `load`: a dump, record by record, into a database that is empty.
//!
//! A dump is one file of records, each with its kind in its first field; the module `dump` of the
//! program has the list. A record that does not fit it is damage, and ends the loading with an
//! error: the caller throws away the rows loaded by then.

use crate::digits::thousands;
use crate::records::{Dialect, Record, Records};
use crate::source::Source;
use anyhow::{Context, Result, anyhow, bail};
use indelible::{
    Column, DataType, Database, Durability, Partitioning, RangeStart, Row, Table,
    TransactionOptions, Uniqueness, Value,
};
use std::io::{self, Read};

/// Version of the format.
pub const DUMP_VERSION: &str = "1";
/// Rows that are loaded in one transaction.
const LOAD_BATCH: u64 = 1000;
/// Bytes of the dump after which a transaction ends before it has so many rows.
const LOAD_BATCH_BYTES: u64 = 4 << 20;

/// Reads a dump record by record.
pub struct Loader {
    records: Records<Counted>,
    record: Record,
}

/// A file, with the bytes of its content that have been read.
struct Counted {
    file: Source,
    bytes: u64,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.bytes += count as u64;
        Ok(count)
    }
}

/// An index to be built when the rows are there.
struct PendingIndex {
    name: String,
    columns: Vec<String>,
    uniqueness: Uniqueness,
}

/// A table's definition as far as it has been read.
#[derive(Default)]
struct Definition {
    columns: Vec<Column>,
    primary_key: Vec<String>,
    partitioning: Vec<String>,
    indexes: Vec<PendingIndex>,
}

impl Loader {
    /// Reads a file that `dump` wrote, compressed or not, once and from its beginning to its end.
    ///
    /// # Errors
    /// The first bytes cannot be read.
    pub fn new(file: Box<dyn Read>) -> io::Result<Self> {
        let file = Source::of_stream(file)?;
        let input = Counted { file, bytes: 0 };
        Ok(Self {
            records: Records::new(input, Dialect::own()),
            record: Record::default(),
        })
    }

    /// Line on which the record begins that was read last, from 1; 0 before the first one.
    pub fn line(&self) -> u64 {
        self.record.line
    }

    /// Loads everything; returns the numbers of tables and rows. The progress is reported in bytes
    /// of the file.
    pub fn load(
        &mut self,
        database: &Database,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(u64, u64)> {
        self.next()?;
        if self.keyword() != "indelible-dump" {
            bail!("this is no dump of a database; give a file that `indelible dump` wrote");
        }
        if self.text(1)? != DUMP_VERSION {
            bail!(
                "the dump has format {}, this program reads format {DUMP_VERSION}; use a newer program",
                self.text(1)?
            );
        }
        let (mut tables, mut rows) = (0, 0);
        loop {
            self.next()?;
            match self.keyword() {
                "table" => {
                    rows += self.load_table(database, progress)?;
                    tables += 1;
                }
                "end-of-dump" => {
                    self.expect_count(tables, "tables")?;
                    return Ok((tables, rows));
                }
                other => bail!("`{other}` is not expected here; the dump is damaged"),
            }
        }
    }

    fn load_table(&mut self, database: &Database, progress: &mut dyn FnMut(u64)) -> Result<u64> {
        let name = self.text(1)?.to_owned();
        let mut def = Definition::default();
        loop {
            self.next()?;
            match self.keyword() {
                "column" => def.columns.push(self.column()?),
                "primary-key" => def.primary_key = self.texts(1)?,
                "partitioning" => def.partitioning = self.texts(1)?,
                kind @ ("index" | "unique-index") => {
                    let unique = kind == "unique-index";
                    def.indexes.push(PendingIndex {
                        uniqueness: if unique {
                            Uniqueness::Unique
                        } else {
                            Uniqueness::Repeating
                        },
                        name: self.text(1)?.to_owned(),
                        columns: self.texts(2)?,
                    });
                }
                "row" | "end" => break,
                other => bail!("`{other}` is not expected here; the dump is damaged"),
            }
        }
        let table = def.create(database, &name)?;
        let rows = self.load_rows(database, &table, progress)?;
        // Over rows that are there an index is built in one go.
        for index in def.indexes {
            let columns = index.columns.iter().map(String::as_str);
            database.create_index(&table, &index.name, columns, index.uniqueness)?;
        }
        Ok(rows)
    }

    /// Loads rows until the table's end; the first of these records has been read.
    fn load_rows(
        &mut self,
        database: &Database,
        table: &Table,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64> {
        let columns = table.definition().columns;
        let mut row = table.row();
        let mut rows = 0;
        // A load that fails leaves nothing at all, so its transactions need not be durable one by
        // one.
        let options = TransactionOptions::new().durability(Durability::None);
        while self.keyword() == "row" {
            let mut transaction = database.begin_with(&options)?;
            let begun = self.records.input().bytes;
            for _ in 0..LOAD_BATCH {
                self.fill(&columns, &mut row)?;
                transaction.insert(table, &row)?;
                rows += 1;
                self.next()?;
                let is_long = self.records.input().bytes - begun >= LOAD_BATCH_BYTES;
                if is_long || self.keyword() != "row" {
                    break;
                }
            }
            transaction.commit()?;
            progress(Source::bytes(&self.records.input().file));
        }
        if self.keyword() != "end" {
            bail!(
                "`{}` is not expected here; the dump is damaged",
                self.keyword()
            );
        }
        self.expect_count(rows, "rows")?;
        Ok(rows)
    }

    fn fill(&self, columns: &[Column], row: &mut Row) -> Result<()> {
        let values = self.record.len() - 1;
        if values != columns.len() {
            bail!(
                "{values} values for {} columns; the dump is damaged",
                columns.len()
            );
        }
        row.clear();
        for (at, column) in columns.iter().enumerate() {
            // The first field says that this is a row.
            if self.record.is_null(at + 1) {
                row.set(at, &Value::Null)?;
            } else {
                let value = Value::parse(column.data_type, self.record.text(at + 1))
                    .with_context(|| format!("column `{}`", column.name))?;
                row.set(at, &value)?;
            }
        }
        Ok(())
    }

    fn column(&self) -> Result<Column> {
        let column = Column::new(self.text(1)?, self.text(2)?.parse::<DataType>()?);
        let nullable = self.record.len() > 3 && self.record.text(3) == "null";
        Ok(if nullable { column.nullable() } else { column })
    }

    fn next(&mut self) -> Result<()> {
        match self.records.read(&mut self.record) {
            Ok(true) => Ok(()),
            Ok(false) => Err(anyhow!("the dump ends too early; it was cut off")),
            Err(error) => Err(anyhow!("{error}")),
        }
    }

    fn keyword(&self) -> &str {
        match self.record.len() {
            0 => "",
            _ => self.record.text(0),
        }
    }

    fn text(&self, at: usize) -> Result<&str> {
        if at < self.record.len() {
            return Ok(self.record.text(at));
        }
        bail!(
            "a `{}` record has too few fields; the dump is damaged",
            self.keyword()
        )
    }

    fn texts(&self, from: usize) -> Result<Vec<String>> {
        self.text(from)?;
        Ok(self.record.texts_from(from).map(str::to_owned).collect())
    }

    fn expect_count(&self, found: u64, what: &str) -> Result<()> {
        let stated = self.text(1)?;
        if stated.parse() == Ok(found) {
            return Ok(());
        }
        bail!(
            "the dump says {stated} {what}, but {} are there; it is damaged",
            thousands(found)
        )
    }
}

impl Definition {
    fn create(&self, database: &Database, name: &str) -> Result<Table> {
        let mut builder = database.create_table(name);
        for column in &self.columns {
            builder = if column.nullable {
                builder.nullable_column(&column.name, column.data_type)
            } else {
                builder.column(&column.name, column.data_type)
            };
        }
        let partitioning = self.partitioning(database.partitions())?;
        let key = self.primary_key.iter().map(String::as_str);
        Ok(builder
            .primary_key(key)
            .partitioning(partitioning)
            .create()?)
    }

    fn partitioning(&self, partitions: u32) -> Result<Partitioning> {
        let texts: Vec<&str> = self.partitioning.iter().map(String::as_str).collect();
        match texts.as_slice() {
            ["hash"] => Ok(Partitioning::Hash),
            ["modulo"] => Ok(Partitioning::Modulo),
            ["replicated"] => Ok(Partitioning::Replicated),
            ["ranges", pairs @ ..] if pairs.len() % 2 == 0 => {
                let first = self.primary_key.first();
                let key = self
                    .columns
                    .iter()
                    .find(|column| Some(&column.name) == first);
                let key = key.context("the primary key comes after the partitioning")?;
                let start = |pair: &[&str]| {
                    let partition: u32 = pair[1].parse()?;
                    Ok(RangeStart {
                        from: Value::parse(key.data_type, pair[0])?,
                        // A database with fewer partitions deals the ranges out in turn.
                        partition: partition % partitions,
                    })
                };
                pairs
                    .chunks(2)
                    .map(start)
                    .collect::<Result<_>>()
                    .map(Partitioning::Ranges)
            }
            other => bail!("`{}` is no way of partitioning", other.join(",")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indelible::{Method, Options};
    use std::fmt::Write;

    /// `load` took a thousand rows to a transaction however long they were. With rows of a megabyte
    /// it met the limit of a transaction's memory, and no option of the program could help. The
    /// rows of this dump do not fit into one transaction.
    #[test]
    fn long_rows_are_loaded_in_more_transactions() {
        let path = std::env::temp_dir().join(format!("indelible-load-{}", std::process::id()));
        let mut dump =
            "indelible-dump,1\ntable,t\ncolumn,id,int64\ncolumn,content,text\n".to_owned();
        dump += "primary-key,id\npartitioning,hash\n";
        let content = "c".repeat(64 << 10);
        for id in 0..400 {
            writeln!(dump, "row,{id},{content}").unwrap();
        }
        dump += "end,400\nend-of-dump,1\n";
        let options = Options::new()
            .method(Method::Inp)
            .transaction_memory_max(16 << 20);
        let database = Database::create(&path, &options).unwrap();
        let mut loader = Loader::new(Box::new(io::Cursor::new(dump))).unwrap();
        let counts = loader.load(&database, &mut |_| ());
        drop(database);
        std::fs::remove_dir_all(&path).unwrap();
        assert_eq!(counts.unwrap(), (1, 400));
    }
}
