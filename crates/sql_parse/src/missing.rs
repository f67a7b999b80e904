//! `DROP ... IF EXISTS` of kinds of objects that do not exist here.
//!
//! There is no object of the kind, so nothing is dropped, and a notice says so as PostgreSQL's
//! does. Without `IF EXISTS` the statement is refused as before.

use super::own::{DropMissing, Own, Words};
use sql_values::error::Result;
use sqlparser::tokenizer::Token;

/// The commands; those with more words come before those that begin in the same way.
const COMMANDS: [&str; 26] = [
    "DROP ACCESS METHOD",
    "DROP AGGREGATE",
    "DROP CAST",
    "DROP COLLATION",
    "DROP CONVERSION",
    "DROP EVENT TRIGGER",
    "DROP FOREIGN DATA WRAPPER",
    "DROP FOREIGN TABLE",
    "DROP LANGUAGE",
    "DROP OPERATOR CLASS",
    "DROP OPERATOR FAMILY",
    "DROP OPERATOR",
    "DROP POLICY",
    "DROP PROCEDURE",
    "DROP PUBLICATION",
    "DROP RULE",
    "DROP SERVER",
    "DROP STATISTICS",
    "DROP SUBSCRIPTION",
    "DROP TABLESPACE",
    "DROP TEXT SEARCH CONFIGURATION",
    "DROP TEXT SEARCH DICTIONARY",
    "DROP TEXT SEARCH PARSER",
    "DROP TEXT SEARCH TEMPLATE",
    "DROP TRANSFORM",
    "DROP TRIGGER",
];
/// The kinds of objects that belong to a table.
const OF_TABLES: [&str; 3] = ["DROP POLICY", "DROP RULE", "DROP TRIGGER"];
/// The kinds whose names are shown without quotes: those with types after their names.
const TYPED: [&str; 7] = [
    "DROP AGGREGATE",
    "DROP CAST",
    "DROP OPERATOR",
    "DROP OPERATOR CLASS",
    "DROP OPERATOR FAMILY",
    "DROP PROCEDURE",
    "DROP TRANSFORM",
];

impl Words<'_> {
    /// The statement after `DROP`; none if it is another one.
    pub(super) fn drop_missing(&mut self) -> Option<Result<Own>> {
        self.accept("PROCEDURAL");
        let start = self.next;
        let command = COMMANDS.into_iter().find(|command| {
            self.next = start;
            let mut words = command.split(' ').skip(1);
            words.all(|word| self.accept(word))
        })?;
        if !(self.accept("IF") && self.accept("EXISTS")) {
            return None;
        }
        Some(self.missing_objects(command).map(Own::DropMissing))
    }

    fn missing_objects(&mut self, command: &'static str) -> Result<DropMissing> {
        let mut objects = vec![self.missing_object(command)?];
        let mut table = None;
        if OF_TABLES.contains(&command) {
            self.expect("ON")?;
            table = Some(self.path()?);
        }
        while table.is_none() && self.peek() == Some(&Token::Comma) {
            self.advance();
            objects.push(self.missing_object(command)?);
        }
        if !self.accept("CASCADE") {
            self.accept("RESTRICT");
        }
        self.end()?;
        Ok(DropMissing {
            command,
            objects,
            table,
        })
    }

    /// The name of an object, with all that follows it up to a comma.
    fn missing_object(&mut self, command: &str) -> Result<String> {
        if !TYPED.contains(&command) {
            let path = self.path()?;
            let schema = path.schema.map(|schema| format!("{schema}."));
            return Ok(format!("\"{}{}\"", schema.unwrap_or_default(), path.name));
        }
        let (mut depth, start) = (0_usize, self.next);
        let mut text = String::new();
        while let Some(token) = self.peek() {
            match token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                Token::Comma if depth == 0 => break,
                _ if depth == 0 && (self.is("CASCADE") || self.is("RESTRICT")) => break,
                _ => {}
            }
            let word = matches!(token, Token::Word(_)) && text.ends_with(char::is_alphanumeric);
            text.push_str(if word { " " } else { "" });
            text.push_str(&super::tokens::token_text(token));
            self.advance();
        }
        if self.next == start {
            return Err(self.unexpected());
        }
        Ok(text)
    }
}
