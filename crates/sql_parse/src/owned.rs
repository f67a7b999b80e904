//! Statements about everything of a role: `ALTER DEFAULT PRIVILEGES`, `REASSIGN OWNED`,
//! `DROP OWNED`, and the settings with which sessions of a role or of the database begin.
//!
//! The grant, or the setting, is a statement of its own, which the parser reads.

use super::own::{Own, Words};
use sql_values::error::{Result, SqlError, SqlState};
use sqlparser::ast::Statement;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::sync::Arc;

/// `ALTER DEFAULT PRIVILEGES`.
#[derive(Clone, Debug)]
pub struct DefaultPrivileges {
    /// The roles that make the objects; the current one if there are none.
    pub roles: Vec<String>,
    /// The schemas; all if there are none.
    pub schemas: Vec<String>,
    /// The kind of the objects, as a letter of the catalogue.
    pub kind: char,
    /// A `GRANT` or `REVOKE` on an object without a name.
    pub change: Arc<Statement>,
}

/// A change of settings with which sessions begin.
#[derive(Clone, Debug)]
pub struct SessionDefaults {
    /// The role; none for all.
    pub role: Option<String>,
    /// The database, if it is about one.
    pub database: Option<String>,
    /// The change.
    pub change: DefaultChange,
}

/// A change of a setting with which sessions begin.
#[derive(Clone, Debug)]
pub enum DefaultChange {
    /// The value that the setting has now (`FROM CURRENT`).
    Current(String),
    /// A `SET` or `RESET`.
    Other(Arc<Statement>),
}

/// The kinds of objects with default privileges, and their letters.
const KINDS: [(&str, char); 6] = [
    ("TABLES", 'r'),
    ("SEQUENCES", 'S'),
    ("FUNCTIONS", 'f'),
    ("ROUTINES", 'f'),
    ("TYPES", 'T'),
    ("SCHEMAS", 'n'),
];

impl Words<'_> {
    /// One of these statements; none if it is another one.
    pub(super) fn of_role(&mut self) -> Option<Result<Own>> {
        if self.accept("REASSIGN") {
            return Some(self.reassign());
        }
        if self.accept("DROP") {
            return self.accept("OWNED").then(|| self.drop_owned());
        }
        if !self.accept("ALTER") {
            return None;
        }
        if self.accept("DEFAULT") {
            return self.accept("PRIVILEGES").then(|| self.default_privileges());
        }
        self.session_defaults()
    }

    fn reassign(&mut self) -> Result<Own> {
        self.expect("OWNED")?;
        self.expect("BY")?;
        let from = self.list()?;
        self.expect("TO")?;
        let to = self.name()?;
        self.end()?;
        Ok(Own::ReassignOwned { from, to })
    }

    fn drop_owned(&mut self) -> Result<Own> {
        self.expect("BY")?;
        let roles = self.list()?;
        let cascade = self.accept("CASCADE");
        if !cascade {
            self.accept("RESTRICT");
        }
        self.end()?;
        Ok(Own::DropOwned { roles, cascade })
    }

    fn list(&mut self) -> Result<Vec<String>> {
        let mut names = vec![self.name()?];
        while self.peek() == Some(&Token::Comma) {
            self.advance();
            names.push(self.name()?);
        }
        Ok(names)
    }

    fn default_privileges(&mut self) -> Result<Own> {
        let (mut roles, mut schemas) = (Vec::new(), Vec::new());
        loop {
            if self.accept("FOR") {
                if !self.accept("USER") {
                    self.expect("ROLE")?;
                }
                roles = self.list()?;
            } else if self.accept("IN") {
                self.expect("SCHEMA")?;
                schemas = self.list()?;
            } else {
                break;
            }
        }
        let rest = self.tokens[self.next..]
            .iter()
            .map(|token| (*token).clone());
        let mut rest: Vec<TokenWithSpan> = rest.collect();
        let kind = rest.iter().enumerate().find_map(|(at, token)| {
            let Token::Word(word) = &token.token else {
                return None;
            };
            let mut kinds = KINDS.iter();
            let kind = kinds.find(|(name, _)| word.value.eq_ignore_ascii_case(name))?;
            Some((at, kind.1))
        });
        let Some((at, kind)) = kind else {
            self.next = self.tokens.len();
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "syntax error at end of input",
            ));
        };
        // The parser wants a name.
        rest[at].token = Token::make_keyword("TABLE");
        let name = TokenWithSpan {
            token: Token::make_word("objects", Some('"')),
            span: rest[at].span,
        };
        rest.insert(at + 1, name);
        let change = Arc::new(super::parse_one(&rest, self.places)?);
        self.next = self.tokens.len();
        Ok(Own::DefaultPrivileges(DefaultPrivileges {
            roles,
            schemas,
            kind,
            change,
        }))
    }

    /// `ALTER ROLE` or `ALTER DATABASE` with `SET` or `RESET`; none for another change.
    fn session_defaults(&mut self) -> Option<Result<Own>> {
        let (mut role, mut database) = (None, None);
        if self.accept("DATABASE") {
            database = Some(self.name().ok()?);
        } else if self.accept("ROLE") || self.accept("USER") {
            if !self.accept("ALL") {
                role = Some(self.name().ok()?);
            }
            if self.accept("IN") {
                if !self.accept("DATABASE") {
                    return None;
                }
                database = Some(self.name().ok()?);
            }
        } else {
            return None;
        }
        let start = self.next;
        let is_set = self.accept("SET");
        if !(is_set || self.accept("RESET")) || self.accept("TABLESPACE") {
            return None;
        }
        let change = self.default_change(start, is_set);
        self.next = self.tokens.len();
        Some(change.map(|change| {
            Own::SessionDefaults(SessionDefaults {
                role,
                database,
                change,
            })
        }))
    }

    fn default_change(&mut self, start: usize, is_set: bool) -> Result<DefaultChange> {
        if is_set
            && let Ok(path) = self.path()
            && self.accept("FROM")
        {
            self.expect("CURRENT")?;
            self.end()?;
            let schema = path.schema.map(|schema| format!("{schema}."));
            let name = schema.unwrap_or_default() + &path.name;
            return Ok(DefaultChange::Current(name));
        }
        let tokens = self.tokens[start..].iter().map(|token| (*token).clone());
        let tokens: Vec<TokenWithSpan> = tokens.collect();
        let statement = super::parse_one(&tokens, self.places)?;
        Ok(DefaultChange::Other(Arc::new(statement)))
    }
}
