//! `ALTER DOMAIN` beyond names, schemas and owners: defaults, NOT NULL and checks.
//!
//! Expressions are read by the parser, from the words that the statement has for them.

use super::alter::DomainChange;
use super::own::Words;
use super::{error, parser, rewrite};
use sql_values::error::{Result, SqlError, SqlState};
use sqlparser::ast::Expr;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Token, TokenWithSpan};

impl Words<'_> {
    /// The change of a domain itself; none for a change of its name, schema or owner.
    pub(super) fn domain_change(&mut self) -> Option<Result<DomainChange>> {
        let start = self.next;
        let change = match () {
            () if self.accept("SET") => match () {
                () if self.accept("DEFAULT") => self
                    .value_until(self.tokens.len())
                    .map(|value| DomainChange::Default(Some(value))),
                () if self.accept("NOT") => {
                    self.expect("NULL").map(|()| DomainChange::NotNull(true))
                }
                () => {
                    self.next = start;
                    return None;
                }
            },
            () if self.accept("DROP") => self.domain_drop(),
            () if self.accept("ADD") => self.domain_check(),
            () if self.accept("VALIDATE") => self
                .expect("CONSTRAINT")
                .and_then(|()| self.name())
                .map(DomainChange::Validate),
            () if self.accept("RENAME") && self.accept("CONSTRAINT") => self.domain_rename(),
            () => {
                self.next = start;
                return None;
            }
        };
        Some(change)
    }

    fn domain_rename(&mut self) -> Result<DomainChange> {
        let from = self.name()?;
        self.expect("TO")?;
        Ok(DomainChange::Rename(from, self.name()?))
    }

    fn domain_drop(&mut self) -> Result<DomainChange> {
        if self.accept("DEFAULT") {
            return Ok(DomainChange::Default(None));
        }
        if self.accept("NOT") {
            self.expect("NULL")?;
            return Ok(DomainChange::NotNull(false));
        }
        self.expect("CONSTRAINT")?;
        let if_exists = self.accept("IF") && self.accept("EXISTS");
        let name = self.name()?;
        let _ = self.accept("CASCADE") || self.accept("RESTRICT");
        Ok(DomainChange::Drop { name, if_exists })
    }

    fn domain_check(&mut self) -> Result<DomainChange> {
        let name = if self.accept("CONSTRAINT") {
            Some(self.name()?)
        } else {
            None
        };
        if ["UNIQUE", "PRIMARY"].iter().any(|word| self.accept(word)) {
            let message = "unique constraints not possible for domains";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        self.expect("CHECK")?;
        let mut depth = 0_usize;
        let brackets = self.tokens[self.next..].iter();
        let close = brackets.map(|token| &token.token).position(|token| {
            match token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0
        });
        let end = close.map_or(self.tokens.len(), |close| self.next + close + 1);
        let condition = self.value_until(end)?;
        let is_unproven = self.accept("NOT");
        if is_unproven {
            self.expect("VALID")?;
        }
        Ok(DomainChange::Add {
            name,
            condition,
            is_unproven,
        })
    }

    /// The expression that ends before a place.
    fn value_until(&mut self, end: usize) -> Result<Box<Expr>> {
        let tokens = self.tokens[self.next..end].iter();
        let tokens: Vec<TokenWithSpan> = tokens.copied().cloned().collect();
        self.next = end;
        let dialect = PostgreSqlDialect {};
        let mut parser = parser(&dialect).with_tokens_with_locations(rewrite::rewrite(&tokens));
        let value = parser.parse_expr();
        let value = value.map_err(|failure| error::of_parser(&failure, &tokens, self.places))?;
        let next = parser.next_token();
        if next.token == Token::EOF {
            Ok(Box::new(value))
        } else {
            Err(error::near(&next, self.places))
        }
    }
}
