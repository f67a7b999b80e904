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

    /// The form that options ask for.
    pub fn new(options: &[CopyOption], legacy: &[CopyLegacyOption]) -> Result<Self> {
        let mut given = Given::default();
        for option in options {
            given.add(option)?;
        }
        for option in legacy {
            given.add_legacy(option)?;
        }
        given.checked()
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

    /// Options of CSV go with CSV alone.
    fn check_mode(&self) -> Result<()> {
        let forced = [&self.force_quote, &self.force_not_null, &self.force_null];
        let option = match self {
            _ if self.is_csv => return Ok(()),
            _ if self.quote.is_some() => "quote",
            _ if self.escape.is_some() => "escape",
            _ if forced.iter().any(|columns| !columns.is_empty()) => "force quote",
            _ => return Ok(()),
        };
        let message = format!("COPY {option} available only in CSV mode");
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
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
