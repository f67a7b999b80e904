//! The options of `COPY`, in both of their spellings.
//!
//! `WITH (FORMAT csv, ...)` and the older `WITH CSV HEADER ...` give the same [`Format`]. Options
//! that contradict each other are refused with PostgreSQL's messages.

use crate::{FORCE_ALL, HEADER_MATCH, MARK, ident_text};
use sql_values::encoding::Encoding;
use sql_values::error::{Result, SqlError, SqlState};
use sqlparser::ast::{CopyLegacyCsvOption, CopyLegacyOption, CopyOption, Ident};

/// The form of the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// CSV.
    pub is_csv: bool,
    /// The binary format. If neither, the text format.
    pub is_binary: bool,
    /// The byte between two fields.
    pub delimiter: u8,
    /// The text of NULL.
    pub null: String,
    /// Whether the first record has names.
    pub header: Header,
    /// The byte around fields of CSV.
    pub quote: u8,
    /// The byte before a quote inside quotes.
    pub escape: u8,
    /// Columns whose texts always stand in quotes.
    pub force_quote: Vec<String>,
    /// Columns whose text of NULL is a text.
    pub force_not_null: Vec<String>,
    /// Columns whose text of NULL is NULL even in quotes.
    pub force_null: Vec<String>,
    /// The encoding of the data, if one is named. Otherwise they have the client's.
    pub encoding: Option<DataEncoding>,
}

/// An encoding that an option names; none is UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataEncoding(pub Option<&'static Encoding>);

/// Whether the first record has the names of the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// The first record is a row.
    None,
    /// It has names, which are passed over.
    Names,
    /// It must have them.
    Match,
}

/// Options as they are given, before defaults.
#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a word of the statement that may be there"
)]
struct Given {
    is_to: bool,
    is_csv: bool,
    is_binary: bool,
    must_match: bool,
    delimiter: Option<char>,
    null: Option<String>,
    has_header: bool,
    quote: Option<char>,
    escape: Option<char>,
    force_quote: Vec<String>,
    force_not_null: Vec<String>,
    force_null: Vec<String>,
    encoding: Option<DataEncoding>,
}

impl Format {
    /// Whether the texts of a column always stand in quotes.
    pub fn forces_quote(&self, column: &str) -> bool {
        let is_all = |name: &String| name.strip_prefix(MARK) == Some(FORCE_ALL);
        self.force_quote
            .iter()
            .any(|name| name == column || is_all(name))
    }

    /// Options about columns, with the columns that they name.
    pub fn forced(&self) -> [(&'static str, Vec<&str>); 3] {
        [
            ("FORCE_QUOTE", named(&self.force_quote)),
            ("FORCE_NOT_NULL", named(&self.force_not_null)),
            ("FORCE_NULL", named(&self.force_null)),
        ]
    }

    /// Fails if an option names a column that is not copied: `is_known` says that the table has it.
    pub fn check_forced(&self, copied: &[&str], is_known: bool) -> Result<()> {
        for (option, columns) in self.forced() {
            let Some(column) = columns.iter().find(|column| !copied.contains(column)) else {
                continue;
            };
            return Err(if is_known {
                let message = format!("{option} column \"{column}\" not referenced by COPY");
                SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
            } else {
                let message = format!("column \"{column}\" does not exist");
                SqlError::new(SqlState::UNDEFINED_COLUMN, message)
            });
        }
        Ok(())
    }

    /// The form that options of `COPY ... TO` ask for, or of `FROM`.
    pub fn new(options: &[CopyOption], legacy: &[CopyLegacyOption], is_to: bool) -> Result<Self> {
        let names = options.iter().map(name_of);
        let mut names: Vec<&str> = names.chain(legacy.iter().flat_map(legacy_names)).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            let message = "conflicting or redundant options";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let mut given = Given {
            is_to,
            ..Given::default()
        };
        for option in options {
            given.add(option)?;
        }
        for option in legacy {
            given.add_legacy(option)?;
        }
        given.checked()
    }
}

/// The columns of an option but the mark for all of them.
fn named(columns: &[String]) -> Vec<&str> {
    let named = columns.iter().filter(|column| !column.starts_with(MARK));
    named.map(String::as_str).collect()
}

/// The name of an option, which is given once.
fn name_of(option: &CopyOption) -> &'static str {
    match option {
        CopyOption::Format(_) => "format",
        CopyOption::Freeze(_) => "freeze",
        CopyOption::Delimiter(_) => "delimiter",
        CopyOption::Null(_) => "null",
        CopyOption::Header(_) => "header",
        CopyOption::Quote(_) => "quote",
        CopyOption::Escape(_) => "escape",
        CopyOption::ForceQuote(_) => "force_quote",
        CopyOption::ForceNotNull(_) => "force_not_null",
        CopyOption::ForceNull(_) => "force_null",
        CopyOption::Encoding(name) if name.strip_prefix(MARK) == Some(HEADER_MATCH) => "header",
        CopyOption::Encoding(_) => "encoding",
    }
}

/// The names of options in the older spelling.
fn legacy_names(option: &CopyLegacyOption) -> Vec<&'static str> {
    match option {
        CopyLegacyOption::Binary => vec!["format"],
        CopyLegacyOption::Delimiter(_) => vec!["delimiter"],
        CopyLegacyOption::Null(_) => vec!["null"],
        CopyLegacyOption::Header => vec!["header"],
        CopyLegacyOption::Csv(options) => {
            let names = options.iter().map(|option| match option {
                CopyLegacyCsvOption::Header => "header",
                CopyLegacyCsvOption::Quote(_) => "quote",
                CopyLegacyCsvOption::Escape(_) => "escape",
                CopyLegacyCsvOption::ForceQuote(_) => "force_quote",
                CopyLegacyCsvOption::ForceNotNull(_) => "force_not_null",
            });
            std::iter::once("format").chain(names).collect()
        }
        _ => Vec::new(),
    }
}

impl Given {
    fn add(&mut self, option: &CopyOption) -> Result<()> {
        match option {
            CopyOption::Format(name) => match ident_text(name).as_str() {
                "text" => {}
                "csv" => self.is_csv = true,
                "binary" => self.is_binary = true,
                other => {
                    let message = format!("COPY format \"{other}\" not recognized");
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
                }
            },
            CopyOption::Freeze(_) => {}
            CopyOption::Delimiter(letter) => self.delimiter = Some(*letter),
            CopyOption::Null(text) => self.null = Some(text.clone()),
            CopyOption::Header(has) => self.has_header = *has,
            CopyOption::Quote(letter) => self.quote = Some(*letter),
            CopyOption::Escape(letter) => self.escape = Some(*letter),
            CopyOption::ForceQuote(columns) => self.force_quote = texts(columns),
            CopyOption::ForceNotNull(columns) => self.force_not_null = texts(columns),
            CopyOption::ForceNull(columns) => self.force_null = texts(columns),
            CopyOption::Encoding(name) if name.strip_prefix(MARK) == Some(HEADER_MATCH) => {
                self.must_match = true;
            }
            CopyOption::Encoding(name) => {
                let encoding = Encoding::named(name);
                let is_utf8 = matches!(
                    name.to_ascii_lowercase().as_str(),
                    "utf8" | "utf-8" | "unicode" | "sql_ascii"
                );
                if encoding.is_none() && !is_utf8 {
                    let feature = format!("the encoding {name}");
                    return Err(SqlError::unsupported(feature, "Convert the data to UTF-8."));
                }
                self.encoding = Some(DataEncoding(encoding));
            }
        }
        Ok(())
    }

    fn add_legacy(&mut self, option: &CopyLegacyOption) -> Result<()> {
        match option {
            CopyLegacyOption::Binary => self.is_binary = true,
            CopyLegacyOption::Delimiter(letter) => self.delimiter = Some(*letter),
            CopyLegacyOption::Null(text) => self.null = Some(text.clone()),
            CopyLegacyOption::Header => self.has_header = true,
            CopyLegacyOption::Csv(options) => {
                self.is_csv = true;
                for option in options {
                    match option {
                        CopyLegacyCsvOption::Header => self.has_header = true,
                        CopyLegacyCsvOption::Quote(letter) => self.quote = Some(*letter),
                        CopyLegacyCsvOption::Escape(letter) => self.escape = Some(*letter),
                        CopyLegacyCsvOption::ForceQuote(columns) => {
                            self.force_quote = texts(columns);
                        }
                        CopyLegacyCsvOption::ForceNotNull(columns) => {
                            self.force_not_null = texts(columns);
                        }
                    }
                }
            }
            other => {
                let message = format!("syntax error at or near \"{other}\"");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        }
        Ok(())
    }

    /// The binary format has no options of texts.
    fn check_binary(&self) -> Result<()> {
        let option = match self {
            _ if !self.is_binary => return Ok(()),
            _ if self.encoding.is_some_and(|encoding| encoding.0.is_some()) => {
                let instead = "Leave the encoding out: it is UTF8.";
                return Err(SqlError::unsupported(
                    "COPY in binary in another encoding",
                    instead,
                ));
            }
            _ if self.delimiter.is_some() => "DELIMITER",
            _ if self.null.is_some() => "NULL",
            _ if self.has_header => {
                let message = "cannot specify HEADER in BINARY mode";
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            _ => return Ok(()),
        };
        let message = format!("cannot specify {option} in BINARY mode");
        Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
    }

    /// Options of CSV go with CSV alone, and those of columns one way only.
    fn check_mode(&self) -> Result<()> {
        let refused = |message| Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        let both = [
            ("quote", self.quote.is_some()),
            ("escape", self.escape.is_some()),
        ];
        let one_way = [
            ("force quote", !self.force_quote.is_empty(), true),
            ("force not null", !self.force_not_null.is_empty(), false),
            ("force null", !self.force_null.is_empty(), false),
        ];
        let given = one_way
            .iter()
            .map(|(option, is_given, _)| (*option, *is_given));
        for (option, _) in both
            .into_iter()
            .chain(given)
            .filter(|(_, is_given)| *is_given)
        {
            if !self.is_csv {
                return refused(format!("COPY {option} available only in CSV mode"));
            }
        }
        for (option, _, is_of_to) in one_way.into_iter().filter(|(_, is_given, _)| *is_given) {
            if is_of_to != self.is_to {
                let way = if is_of_to { "TO" } else { "FROM" };
                return refused(format!("COPY {option} only available using COPY {way}"));
            }
        }
        Ok(())
    }

    /// The options with their defaults, if they fit each other.
    fn checked(self) -> Result<Format> {
        let wrong = |message: &str| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        self.check_binary()?;
        self.check_mode()?;
        let byte = |letter: Option<char>, default: u8, name: &str| match letter {
            None => Ok(default),
            Some(letter) if letter.is_ascii() => Ok(letter as u8),
            Some(_) => {
                let message = format!("COPY {name} must be a single one-byte character");
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            }
        };
        let delimiter = byte(
            self.delimiter,
            if self.is_csv { b',' } else { b'\t' },
            "delimiter",
        )?;
        let quote = byte(self.quote, b'"', "quote")?;
        let null = self.null.unwrap_or_else(|| {
            if self.is_csv {
                String::new()
            } else {
                "\\N".to_owned()
            }
        });
        if matches!(delimiter, b'\n' | b'\r') {
            return wrong("COPY delimiter cannot be newline or carriage return");
        }
        if null.contains(['\n', '\r']) {
            return wrong("COPY null representation cannot use newline or carriage return");
        }
        if !self.is_csv
            && (delimiter == b'\\'
                || delimiter == b'.'
                || delimiter.is_ascii_lowercase()
                || delimiter.is_ascii_digit())
        {
            let message = format!("COPY delimiter cannot be \"{}\"", char::from(delimiter));
            return wrong(&message);
        }
        if self.is_csv && delimiter == quote {
            return wrong("COPY delimiter and quote must be different");
        }
        let unsupported = |message| Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        if null.as_bytes().contains(&delimiter) {
            return unsupported("COPY delimiter must not appear in the NULL specification");
        }
        if self.is_csv && null.as_bytes().contains(&quote) {
            return unsupported("CSV quote character must not appear in the NULL specification");
        }
        Ok(Format {
            is_csv: self.is_csv,
            is_binary: self.is_binary,
            delimiter,
            null,
            header: match (self.has_header, self.must_match) {
                (_, true) => Header::Match,
                (true, false) => Header::Names,
                (false, false) => Header::None,
            },
            quote,
            escape: byte(self.escape, quote, "escape")?,
            force_quote: self.force_quote,
            force_not_null: self.force_not_null,
            force_null: self.force_null,
            encoding: self.encoding,
        })
    }
}

fn texts(columns: &[Ident]) -> Vec<String> {
    columns.iter().map(ident_text).collect()
}
