//! Arguments of `import`.
//!
//! Files of other programs differ in the separator of fields, the text for NULL, and whether the
//! first line names the columns. Each difference is one option, and none is guessed where a wrong
//! guess could change a row.

use clap::Args;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  indelible import ./shop airports airports.csv --primary-key iata
  indelible import ./shop prices prices.csv --primary-key id --types 'price:decimal(10,2),day:date'
  indelible import ./shop orders orders.tbl --no-header --columns id,customer,total --primary-key id --separator '|'
  indelible import ./shop visits visits.tsv.gz --primary-key id --separator tab --null NA
  curl -s https://example.org/prices.csv | indelible import ./shop prices - --skip-bad-rows --rejects bad.csv
  indelible import ./shop --from sqlite shop.sqlite --table orders --table customers

An empty field is NULL, \"\" is the empty text. Types are inferred from the whole file unless they are given or the table exists. Files \
that are compressed with gzip or Zstandard are read as they are. All rows are imported or none, unless --skip-bad-rows is given; then \
the exit code is 1 only if all rows are bad. More is in docs/csv.md, and in docs/sqlite.md for files of SQLite.";

/// `import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Directory of the database
    pub(crate) path: PathBuf,
    /// The table; created if it does not exist
    #[arg(required_unless_present = "from")]
    pub(crate) table: Option<String>,
    /// The CSV file, or a pipe; `-` for standard input
    #[arg(required_unless_present = "from")]
    pub(crate) file: Option<PathBuf>,
    /// Import the tables of another database instead: `sqlite` and its file. The program sqlite3
    /// must be installed
    #[arg(long, num_args = 2, value_names = ["FORMAT", "FILE"],
          conflicts_with_all = ["table", "file", "primary_key", "rejects"])]
    pub(crate) from: Vec<PathBuf>,
    /// A table to import with --from; all without it. Can be given several times
    #[arg(long = "table", value_name = "NAME", requires = "from")]
    pub(crate) tables: Vec<String>,
    /// Columns of the primary key of a new table, most significant first
    #[arg(long, value_delimiter = ',')]
    pub(crate) primary_key: Vec<String>,
    /// Types of columns of a new table, `name:type,...`; the others are inferred. With --from they
    /// are types of SQL, `table.column:type,...`
    #[arg(long)]
    pub(crate) types: Option<String>,
    /// Import the good rows and report the bad ones instead of importing nothing
    #[arg(long)]
    pub(crate) skip_bad_rows: bool,
    /// Write the bad rows to this new file as they stand, after the line with the names of the
    /// columns
    #[arg(long, value_name = "FILE", requires = "skip_bad_rows")]
    pub(crate) rejects: Option<PathBuf>,
    /// Most bytes of memory that the transaction may take, which has all rows of the import until
    /// it ends: several hundred a row. 1 GiB by default
    #[arg(long, value_name = "BYTES")]
    pub(crate) transaction_memory_max: Option<u64>,
    #[command(flatten)]
    pub(crate) text: TextArgs,
}

impl ImportArgs {
    /// The table of a CSV file.
    pub(crate) fn table(&self) -> &str {
        self.table.as_deref().unwrap_or_default()
    }
}

/// Interpretation of the text of a file.
#[derive(Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct TextArgs {
    /// Field separator, one ASCII character, or tab, comma, semicolon, pipe or space; by default
    /// that of a first line `sep=;`, or a comma
    #[arg(long, value_parser = separator)]
    pub(crate) separator: Option<u8>,
    /// The first line is a row and names no columns: they are those of the table, or column1,
    /// column2, ...
    #[arg(long)]
    pub(crate) no_header: bool,
    /// Names of the columns of a file without a header, in their order
    #[arg(long, value_delimiter = ',', requires = "no_header")]
    pub(crate) columns: Vec<String>,
    /// This text outside quotes is NULL, as an empty field is; '' makes "" NULL too. Can be given
    /// several times
    #[arg(long = "null", value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) nulls: Vec<String>,
    /// Skip lines that begin with this ASCII character
    #[arg(long, value_name = "CHARACTER", value_parser = comment)]
    pub(crate) comment: Option<u8>,
    /// Bytes after which a quote that is not closed in its line counts as forgotten; 1048576 by
    /// default
    #[arg(long, value_name = "BYTES")]
    pub(crate) quoted_bytes: Option<usize>,
}

fn separator(text: &str) -> Result<u8, String> {
    match text {
        "tab" | "\\t" => Ok(b'\t'),
        "comma" => Ok(b','),
        "semicolon" => Ok(b';'),
        "pipe" => Ok(b'|'),
        "space" => Ok(b' '),
        other => character(other)
            .ok_or_else(|| "use one ASCII character that is no quote, or tab for a tab".into()),
    }
}

fn comment(text: &str) -> Result<u8, String> {
    character(text).ok_or_else(|| "use one ASCII character that is no quote".into())
}

fn character(text: &str) -> Option<u8> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r' | 0) => Some(*byte),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_have_names() {
        for (text, byte) in [
            ("tab", b'\t'),
            ("\\t", b'\t'),
            ("\t", b'\t'),
            ("pipe", b'|'),
            (";", b';'),
        ] {
            assert_eq!(separator(text), Ok(byte));
        }
        for wrong in ["", "\"", "\n", ";;", "\u{E9}", "tabs"] {
            assert!(separator(wrong).is_err(), "{wrong}");
        }
    }
}
