//! `ALTER` of names, schemas and owners, which is the same for all kinds of objects, and comments
//! on functions. Files of `pg_dump` are full of them.
//!
//! Changes that are not of this form are left to the parser.

use super::own::{Own, Path, SequenceChange, Words};
use sql_values::error::Result;
use sqlparser::ast::{Expr, Ident, Owner, Statement};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::sync::Arc;

/// A kind of objects that `ALTER` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlterKind {
    /// `SCHEMA`.
    Schema,
    /// `DOMAIN`.
    Domain,
    /// `TYPE`.
    Type,
    /// `VIEW`.
    View,
    /// `MATERIALIZED VIEW`.
    MaterializedView,
    /// `INDEX`.
    Index,
    /// `FUNCTION`.
    Function,
}

impl AlterKind {
    /// Its first word in statements.
    pub fn word(self) -> &'static str {
        match self {
            Self::Schema => "SCHEMA",
            Self::Domain => "DOMAIN",
            Self::Type => "TYPE",
            Self::View => "VIEW",
            Self::MaterializedView => "MATERIALIZED",
            Self::Index => "INDEX",
            Self::Function => "FUNCTION",
        }
    }
}

/// `ALTER` of an object's name, schema or owner.
#[derive(Clone, Debug)]
pub struct Alter {
    /// The kind of the object.
    pub kind: AlterKind,
    /// Whether there may be none.
    pub if_exists: bool,
    /// Its name.
    pub name: Path,
    /// For a function, the `DROP FUNCTION` that would name it.
    pub function: Option<Arc<Statement>>,
    /// The change.
    pub change: ObjectChange,
}

/// A change of an object itself.
#[derive(Clone, Debug)]
pub enum ObjectChange {
    /// Another name.
    Rename(String),
    /// Another name of a column of a view.
    RenameColumn(Ident, Ident),
    /// Another schema.
    SetSchema(String),
    /// Another owner.
    Owner(Owner),
    /// A change of a domain's default or conditions.
    Domain(DomainChange),
    /// Other values of options of a view; none for those that it is to have no longer.
    Options(Vec<(String, Option<String>)>),
}

/// A change of a domain.
#[derive(Clone, Debug)]
pub enum DomainChange {
    /// Another default, or none.
    Default(Option<Box<Expr>>),
    /// Whether NULL is refused.
    NotNull(bool),
    /// A further check.
    Add {
        /// Its name, if it is told.
        name: Option<String>,
        /// The condition over `VALUE`.
        condition: Box<Expr>,
        /// Whether values that are there may break it.
        is_unproven: bool,
    },
    /// A check that goes.
    Drop {
        /// Its name.
        name: String,
        /// Whether there may be none.
        if_exists: bool,
    },
    /// A look at the values that are there.
    Validate(String),
    /// Another name of a check.
    Rename(String, String),
}

impl Words<'_> {
    /// `ALTER` of an object's name, schema or owner; none for another statement.
    pub(super) fn alter(&mut self) -> Option<Result<Own>> {
        let kinds = [
            AlterKind::Schema,
            AlterKind::Domain,
            AlterKind::Type,
            AlterKind::View,
            AlterKind::MaterializedView,
            AlterKind::Index,
            AlterKind::Function,
        ];
        let kind = if self.accept("ROUTINE") {
            AlterKind::Function
        } else {
            kinds.into_iter().find(|kind| self.accept(kind.word()))?
        };
        if kind == AlterKind::MaterializedView && !self.accept("VIEW") {
            return None;
        }
        let if_exists = self.accept("IF") && self.accept("EXISTS");
        let start = self.next;
        let name = self.path().ok()?;
        let function = match kind {
            AlterKind::Function => Some(self.described(start)),
            _ => None,
        };
        let of_domain = match kind {
            AlterKind::Domain => self.domain_change(),
            _ => None,
        };
        let of_view = match kind {
            AlterKind::View => self.view_options().map(ObjectChange::Options),
            _ => None,
        };
        let change = match of_domain {
            Some(change) => change.map(ObjectChange::Domain),
            None if of_view.is_some() => Ok(of_view?),
            None => match self.renamed_column(kind) {
                Some(renamed) => Ok(renamed),
                None => self.object_change()?,
            },
        };
        let function = match function.transpose() {
            Ok(function) => function,
            Err(error) => return Some(Err(error)),
        };
        Some(change.and_then(|change| {
            self.end()?;
            Ok(Own::Alter(Alter {
                kind,
                if_exists,
                name,
                function,
                change,
            }))
        }))
    }

    /// `SET (...)` and `RESET (...)`, after the name of a view; none, and nothing is read, for
    /// another change.
    fn view_options(&mut self) -> Option<Vec<(String, Option<String>)>> {
        let start = self.next;
        let is_reset = self.accept("RESET");
        let mut read = || {
            (is_reset || self.accept("SET")).then_some(())?;
            self.accept_token(&Token::LParen).then_some(())?;
            let mut options = Vec::new();
            loop {
                let name = self.name().ok()?;
                let mut value = (!is_reset).then(|| "true".to_owned());
                if !is_reset && self.accept_token(&Token::Eq) {
                    value = Some(self.option_value()?);
                }
                options.push((name, value));
                if !self.accept_token(&Token::Comma) {
                    return self.accept_token(&Token::RParen).then_some(options);
                }
            }
        };
        let options = read();
        if options.is_none() {
            self.next = start;
        }
        options
    }

    /// The value of an option.
    fn option_value(&mut self) -> Option<String> {
        if let Some(Token::Number(digits, _)) = self.peek() {
            self.advance();
            return Some(digits.clone());
        }
        self.string().or_else(|_| self.name()).ok()
    }

    /// `RENAME COLUMN`, after the name of a view; none, and nothing is read, for another change.
    fn renamed_column(&mut self, kind: AlterKind) -> Option<ObjectChange> {
        let is_view = matches!(kind, AlterKind::View | AlterKind::MaterializedView);
        let start = self.next;
        let mut read = || {
            let is_rename = is_view && self.accept("RENAME") && !self.accept("TO");
            is_rename.then(|| self.accept("COLUMN"))?;
            let old = self.name().ok()?;
            let new = self.accept("TO").then(|| self.name())?.ok()?;
            let [old, new] = [old, new].map(|name| Ident::with_quote('"', name));
            Some(ObjectChange::RenameColumn(old, new))
        };
        let renamed = read();
        if renamed.is_none() {
            self.next = start;
        }
        renamed
    }

    /// A change of an object's name, schema or owner; none for another change.
    pub(super) fn object_change(&mut self) -> Option<Result<ObjectChange>> {
        match () {
            () if self.accept("RENAME") && self.accept("TO") => {
                Some(self.name().map(ObjectChange::Rename))
            }
            () if self.accept("OWNER") && self.accept("TO") => {
                Some(self.role().map(ObjectChange::Owner))
            }
            () if self.accept("SET") && self.accept("SCHEMA") => {
                Some(self.name().map(ObjectChange::SetSchema))
            }
            () => None,
        }
    }

    /// The change of a sequence that one of an object is.
    pub(super) fn sequence_change(change: ObjectChange) -> SequenceChange {
        match change {
            ObjectChange::Rename(name) => SequenceChange::Rename(name),
            ObjectChange::SetSchema(schema) => SequenceChange::SetSchema(schema),
            ObjectChange::Owner(owner) => SequenceChange::Owner(owner),
            ObjectChange::Domain(_) | ObjectChange::Options(_) | ObjectChange::RenameColumn(..) => {
                SequenceChange::Nothing
            }
        }
    }

    fn role(&mut self) -> Result<Owner> {
        Ok(match () {
            () if self.accept("CURRENT_USER") => Owner::CurrentUser,
            () if self.accept("CURRENT_ROLE") => Owner::CurrentRole,
            () if self.accept("SESSION_USER") => Owner::SessionUser,
            () => Owner::Ident(Ident::with_quote('"', self.name()?)),
        })
    }

    /// The `DROP FUNCTION` of a function whose name has been read: its arguments follow, if they
    /// are told.
    fn described(&mut self, start: usize) -> Result<Arc<Statement>> {
        if self.peek() == Some(&Token::LParen) {
            let mut depth = 0_usize;
            while let Some(token) = self.peek() {
                match token {
                    Token::LParen => depth += 1,
                    Token::RParen => depth -= 1,
                    _ => {}
                }
                self.advance();
                if depth == 0 {
                    break;
                }
            }
        }
        let words = ["DROP", "FUNCTION"].map(|word| {
            let token = Token::make_keyword(word);
            TokenWithSpan::wrap(token)
        });
        let named = self.tokens[start..self.next].iter();
        let tokens: Vec<TokenWithSpan> = words.into_iter().chain(named.copied().cloned()).collect();
        super::parse_one(&tokens, self.places).map(Arc::new)
    }

    /// `COMMENT ON FUNCTION`, after these words.
    pub(super) fn comment_on_function(&mut self) -> Result<Own> {
        let start = self.next;
        self.path()?;
        let function = self.described(start)?;
        self.expect("IS")?;
        let comment = self.comment_text()?;
        self.end()?;
        Ok(Own::CommentOnFunction { function, comment })
    }

    /// Changes of a table that say how it should be stored: they are taken and mean nothing. None
    /// for another change.
    pub(super) fn storage(&mut self, if_exists: bool, name: &Path) -> Option<Own> {
        let column = if self.accept("ALTER") {
            self.accept("COLUMN");
            Some(self.name().ok()?)
        } else {
            None
        };
        let is_set = self.accept("SET");
        if column.is_none() && is_set && self.accept("TABLESPACE") {
            let is_own = self.name().is_ok_and(|name| name == "pg_default") && self.end().is_ok();
            return is_own.then(|| Own::Storage {
                if_exists,
                name: name.clone(),
                column,
            });
        }
        let words: &[&str] = match (&column, is_set) {
            (Some(_), true) => &["STATISTICS", "STORAGE", "COMPRESSION"],
            (None, true) => &["LOGGED", "UNLOGGED", "WITHOUT"],
            (None, false) if self.accept("CLUSTER") => &["ON"],
            _ if self.accept("RESET") => &[],
            _ => return None,
        };
        let is_known = words.iter().any(|word| self.accept(word));
        let mut rest = self.tokens[self.next..].iter().map(|token| &token.token);
        let is_list = rest.clone().next() == Some(&Token::LParen)
            && rest.clone().next_back() == Some(&Token::RParen);
        // Several changes in a statement are the parser's matter.
        let is_word = is_known && rest.len() <= 2 && rest.all(|one| *one != Token::Comma);
        (is_word || is_list && !words.contains(&"ON")).then(|| Own::Storage {
            if_exists,
            name: name.clone(),
            column,
        })
    }

    /// A comment, or NULL for none.
    pub(super) fn comment_text(&mut self) -> Result<Option<String>> {
        if self.accept("NULL") {
            return Ok(None);
        }
        self.string().map(Some)
    }
}
